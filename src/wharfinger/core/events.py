"""Everything that can happen. State is the fold of these and of nothing else.

Three kinds, by their origin:

* *reports* come from the engine: what servers there are, what started, finished, vanished;
* *requests* come from clients, and one from the clock;
* *decisions* come from the core itself. They are logged like the others, in the same
  transaction as the event that caused them, so that a replay repeats what was decided
  instead of deciding again (docs/decisions/0002).

Each event is logged under its class's name: renaming one is a schema migration (``codec``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.core.tracking import Tracked
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision
from wharfinger.model.performance import Sample
from wharfinger.model.platform import Server
from wharfinger.model.profile import Classification, Measurements, ProfilingPlan
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload

# --- reports of the engine -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerReported:
    """A server is there, or something about it has changed."""

    server: Server


@dataclass(frozen=True, slots=True)
class ServerLeft:
    """A server is gone; what ran there is reported one by one, never assumed."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class EngineSynced:
    """The engine has reported everything that it found when it was opened.

    Attributes:
        known_keys: Every start the engine knows of, whatever became of it. A start that the
            core asked for and that is not among them never happened, and is asked for again.
        servers: Every server it has.
    """

    known_keys: tuple[str, ...]
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartAccepted:
    """The engine has taken a start and will report how it goes."""

    key: str


@dataclass(frozen=True, slots=True)
class WorkloadStarted:
    """The program runs.

    Attributes:
        handle: How an operator finds it on the engine, e.g. ``"pid 4711"``.
        started_at: When, in seconds since the epoch; ``None`` = as it is reported. An engine
            that was away learns of it later.
    """

    key: str
    handle: str
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The program did not start, for certain.

    Attributes:
        retryable: Another server, or the same one later, may do better.
    """

    key: str
    reason: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class WorkloadFinished:
    """The program ended, and this is how.

    Attributes:
        exit_code: As the program gave it; ``None`` when a signal ended it.
        signal: The signal's number; ``None`` when it exited.
        reason: Stable word for machines, e.g. ``"exited"``, ``"killed"``, ``"out-of-memory"``.
        cpu_seconds: CPU time used by the whole tree; ``None`` where not measured.
        ended_at: When, in seconds since the epoch; ``None`` = as it is reported.
    """

    key: str
    exit_code: int | None
    signal: int | None
    reason: str
    cpu_seconds: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadVanished:
    """It is gone without an exit status, and none is guessed."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class AllocationResized:
    """A running workload now has these allocations."""

    key: str
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class ResizeFailed:
    """A running workload keeps the allocations that it had.

    Attributes:
        placements: What could not be had; empty where the engine does not say. An answer to
            an earlier resize is told from the answer to the present one by it.
    """

    key: str
    reason: str
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerMeasured:
    """How those perform that run on one server: one event for all of them and a period.

    Attributes:
        samples: One for each that was asked to be measured and runs. One that runs on several
            servers is measured as a whole, once a period, with the first of them.
    """

    server: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class ProfilingFinished:
    """The profiling runs ended; the measurements go to the classifier."""

    key: str
    measurements: Measurements


@dataclass(frozen=True, slots=True)
class ProfilingFailed:
    """The profiling runs gave nothing; the workload is classified without."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClassificationFailed:
    """No estimator could classify it; the workload goes on without."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkloadClassified:
    """What an estimator computed, with its version, so that a replay needs no estimator."""

    key: str
    classification: Classification


# --- requests of clients and of the clock -----------------------------------------------


@dataclass(frozen=True, slots=True)
class ManagerStarted:
    """A manager process took the log over; what it decides by is part of the history.

    Attributes:
        nonce: Makes the keys of this process's starts unlike any earlier one's, also after
            a part of the log was lost.
        settings: Every setting of every part of its policy, and of the core.
    """

    nonce: str
    version: str
    policy: str
    admission: str
    engine: str
    capabilities: Capabilities
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryLost:
    """The event log was found damaged; what could be saved was, and this is what could not.

    Attributes:
        report: What was found and what is gone, in words for the operator.
    """

    report: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The moment has come for which the core asked (``Manager.wake_at``)."""


@dataclass(frozen=True, slots=True)
class WorkloadSubmitted:
    """A user handed in a workload."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class WorkloadUpdated:
    """A user changed what a workload must reach or may use; the program stays."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class WorkloadRevoked:
    """A user wants it stopped; its record stays."""

    name: str


@dataclass(frozen=True, slots=True)
class WorkloadForgotten:
    """Its record and its output are dropped; only ended workloads can be forgotten."""

    name: str


# --- decisions of the core --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkloadAdmitted:
    """It may go on to profiling and placement."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WorkloadRejected:
    """It will never run; the reason says what would have to change."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ProfilingPlanned:
    """It is profiled before it is classified and placed.

    Attributes:
        plan: What is run, and where room is kept for it.
    """

    name: str
    key: str
    decision: Decision
    plan: ProfilingPlan


@dataclass(frozen=True, slots=True)
class ClassificationPlanned:
    """It is classified without profiling runs: a cold start."""

    name: str
    key: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WorkloadQueued:
    """It waits for a place in this queue, behind those of its priority that came earlier.

    Attributes:
        decision: The admission's; ``None`` = there was nothing to decide.
        review_at: When the admission looks at it again, in seconds since the epoch.
    """

    name: str
    queue: str
    decision: Decision | None = None
    review_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadDiverted:
    """It waits in another queue from now on; within its priority in the order of arrival.

    Attributes:
        review_at: As in ``WorkloadQueued``.
    """

    name: str
    queue: str
    decision: Decision
    review_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadReviewed:
    """The admission has looked at it again, and it stays where it is.

    Attributes:
        decision: ``None`` = there is nothing to tell.
        review_at: When it looks the next time; ``None`` = not again.
    """

    name: str
    decision: Decision | None = None
    review_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadDeferred:
    """It was tried and can't go on now; logged when the reason changes.

    Attributes:
        until: When it is tried again at the latest, in seconds since the epoch; ``None`` = when
            something has changed.
    """

    name: str
    decision: Decision
    until: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadPlaced:
    """It has a place; the engine is asked to start it there under this key."""

    name: str
    key: str
    placements: tuple[Placement, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class AllocationPlanned:
    """Its allocations change while it runs; the engine is asked to carry that out.

    Attributes:
        placements: Where it is to be from then on: on the servers where it is, on more, or on
            some of them and others. What it holds on one that is not named ends.
    """

    name: str
    placements: tuple[Placement, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class AllocationUnchanged:
    """Its allocations should have changed and can't; it goes on as it is."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ReclassificationPlanned:
    """It runs, and is classified again by how it does.

    Attributes:
        measurements: By which; ``None`` = by those that are known already.
    """

    name: str
    decision: Decision
    measurements: Measurements | None = None


@dataclass(frozen=True, slots=True)
class WorkloadSuspended:
    """It gets no CPU time for a while, for the sake of a neighbor.

    Attributes:
        suspended_for: The neighbor, which keeps the decision too.
    """

    name: str
    suspended_for: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WorkloadResumed:
    """It gets CPU time again.

    Attributes:
        ineffective: The neighbor for which it was suspended did no better.
    """

    name: str
    decision: Decision
    ineffective: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadMigrated:
    """It is stopped, to be started again on these servers, which hold room for it meanwhile.

    Attributes:
        placements: Empty = wherever there is room by then.
    """

    name: str
    decision: Decision
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadPreempted:
    """It is stopped for another's sake, and waits in its queue again."""

    name: str
    preempted_for: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class TargetsTracked:
    """What the adaptation makes of the measurements of one server."""

    samples: tuple[Tracked, ...]


@dataclass(frozen=True, slots=True)
class TrackingLost:
    """These were not measured for so long that nothing is known of their targets."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyNoted:
    """What a part of the policy remembers from now on.

    Attributes:
        part: Kind and name, e.g. ``"placement:round-robin"``.
        note: Replaces what it noted before.
    """

    part: str
    note: str


@dataclass(frozen=True, slots=True)
class ServerOrdered:
    """A server is to be acquired; the provisioner is asked for it.

    Attributes:
        key: The order's identity, never used again.
        ordered_for: The workload that waits for it; empty = none in particular.
    """

    key: str
    platform: str
    decision: Decision
    ordered_for: str = ""


@dataclass(frozen=True, slots=True)
class ServerReleased:
    """A server that was acquired is given back; the provisioner is asked to take it."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class PlacementDelegated:
    """A decider outside the core is asked for a place.

    Attributes:
        key: The question's identity, never used again.
    """

    name: str
    key: str
    decider: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class PlacementConflicted:
    """What a decider proposed does not hold any more; the workload is tried again."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ServerAcquired:
    """A server that was ordered is there.

    Attributes:
        key: The order's.
    """

    key: str
    server: Server


@dataclass(frozen=True, slots=True)
class AcquisitionFailed:
    """A server that was ordered will not come.

    Attributes:
        key: The order's.
    """

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlacementProposed:
    """What a decider answers.

    Attributes:
        key: The question's.
        placements: Where the workload should go; empty = nowhere now.
        versions: Of the snapshot on which that was decided: for each placement its server's.
    """

    key: str
    placements: tuple[Placement, ...]
    versions: tuple[int, ...]
    decision: Decision


Report = (
    ServerReported
    | ServerLeft
    | EngineSynced
    | StartAccepted
    | WorkloadStarted
    | StartFailed
    | WorkloadFinished
    | WorkloadVanished
    | AllocationResized
    | ResizeFailed
    | ServerMeasured
    | ProfilingFinished
    | ProfilingFailed
    | WorkloadClassified
    | ClassificationFailed
    | ServerAcquired
    | AcquisitionFailed
    | PlacementProposed
)
Request = (
    ManagerStarted
    | HistoryLost
    | TimePassed
    | WorkloadSubmitted
    | WorkloadUpdated
    | WorkloadRevoked
    | WorkloadForgotten
)
DecisionEvent = (
    WorkloadAdmitted
    | WorkloadRejected
    | ProfilingPlanned
    | ClassificationPlanned
    | WorkloadQueued
    | WorkloadDiverted
    | WorkloadReviewed
    | WorkloadDeferred
    | WorkloadPlaced
    | AllocationPlanned
    | AllocationUnchanged
    | ReclassificationPlanned
    | WorkloadSuspended
    | WorkloadResumed
    | WorkloadMigrated
    | WorkloadPreempted
    | TargetsTracked
    | TrackingLost
    | PolicyNoted
    | ServerOrdered
    | ServerReleased
    | PlacementDelegated
    | PlacementConflicted
)
Event = Report | Request | DecisionEvent
