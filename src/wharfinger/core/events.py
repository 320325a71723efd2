"""Every event. The state is the fold of these and of nothing else.

* *reports* come from the engine: which servers exist, what started, finished, vanished;
* *requests* come from clients, and one from the clock;
* *decisions* come from the core. They are logged in the same transaction as their cause, so that
  a replay repeats what was decided instead of deciding again (docs/decisions/0002).

Each event is logged under its class's name: renaming one is a schema migration (``codec``). Times
are in seconds since the epoch; ``None`` = the time of the report, or never. ``decision`` is
``None`` where there was nothing to decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.core.tracking import ProbeCause, Tracked
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Sample
from wharfinger.model.platform import Server
from wharfinger.model.profile import Classification, Measurements, ProfilingPlan
from wharfinger.model.view import Capabilities, WorkloadLimits
from wharfinger.model.workload import Workload

# --- reports of the engine -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerReported:
    """A server joined, or something about it has changed."""

    server: Server


@dataclass(frozen=True, slots=True)
class ServersReported:
    """The same of several servers, as one report; those that have not changed are not logged."""

    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class ServerLeft:
    """A server is gone; the end of each workload there is reported separately, never assumed."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class EngineSynced:
    """The engine has reported everything that it found when it was opened.

    ``known_keys`` are of all its starts, ended ones included. A start that the core asked for and
    that is not among them never happened, and is asked for again. ``offers`` are the handles of
    those that it holds; one that the core knows, and that is not among them, is withdrawn.
    """

    known_keys: tuple[str, ...]
    servers: tuple[str, ...]
    offers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadOffered:
    """The engine holds a workload that a user handed in to it; a start lets ``handle`` go.

    Its name is the engine's and the handle's, e.g. ``slurm-1234``: so no two are alike. It is
    reported again when the engine is opened, until it has been let go, and when its user has
    changed what it states. ``limits`` say what may be done with it; ``None`` = all.
    """

    workload: Workload
    handle: str
    limits: WorkloadLimits | None = None


@dataclass(frozen=True, slots=True)
class OfferWithdrawn:
    """Its user took an offered workload back before it was let go."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartAccepted:
    """The engine has taken a start and will report how it goes."""

    key: str


@dataclass(frozen=True, slots=True)
class WorkloadStarted:
    """The program runs; an operator finds it on the engine by ``handle``, e.g. ``"pid 4711"``."""

    key: str
    handle: str
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The program did not start, for certain; ``retryable`` = another start may succeed."""

    key: str
    reason: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class WorkloadFinished:
    """The program ended.

    Attributes:
        exit_code: ``None`` when a signal ended it.
        signal: The signal's number; ``None`` when it exited.
        reason: Stable word, e.g. ``"exited"``, ``"killed"``, ``"out-of-memory"``, ``"not-alive"``.
        cpu_seconds: CPU time of the whole process tree; ``None`` = not measured.
        memory_peak_bytes: Of the whole process tree; ``None`` = not measured.
        last_output: The last line that it printed, where it failed; empty = it printed none.
    """

    key: str
    exit_code: int | None
    signal: int | None
    reason: str
    cpu_seconds: float | None = None
    ended_at: float | None = None
    memory_peak_bytes: int | None = None
    last_output: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadVanished:
    """It is gone with an unknown exit status."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkloadEvicted:
    """The engine took it off its servers; nothing runs, nor ever will, under its key.

    What has become of the servers is reported before. ``reason`` begins with one of
    ``model.ends.EVICTIONS``; after a colon it may say more.
    """

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlacementsLost:
    """It is gone from these of its servers, and runs on on the others; told in order with resizes.

    Where it runs on none of them it is evicted.
    """

    key: str
    placements: tuple[Placement, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class AllocationResized:
    """A running workload now has these allocations."""

    key: str
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class ResizeFailed:
    """A running workload keeps its allocations.

    ``placements``, what was asked, tells a late answer to an earlier resize; empty = not stated.
    """

    key: str
    reason: str
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadinessChanged:
    """A program with a readiness probe is ready, or is so no more; ``reason`` says why not."""

    key: str
    ready: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ServerMeasured:
    """Performance on one server in a period; a workload on several is in the first one's event."""

    server: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class ProfilingFinished:
    """The profiling runs ended; the measurements go to the classifier."""

    key: str
    measurements: Measurements


@dataclass(frozen=True, slots=True)
class ProfilingFailed:
    """The profiling runs gave nothing; the workload is classified without measurements.

    ``fatal`` = they have shown that its program can't be started: it has failed.
    ``out_of_memory_bytes`` = the limit of which a copy ran out; 0 = none has.
    """

    key: str
    reason: str
    fatal: bool = False
    out_of_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ClassificationFailed:
    """No estimator could classify it; the workload continues unclassified."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkloadClassified:
    """What an estimator computed, with its version, so that a replay needs no estimator."""

    key: str
    classification: Classification


@dataclass(frozen=True, slots=True)
class WorkloadProbed:
    """The sources beside a running workload are withdrawn; ``number`` is the probe's.

    ``measurements`` has the scores, and why others are missing. ``reason`` = there are none at all.
    """

    key: str
    number: int
    measurements: Measurements
    reason: str = ""


# --- requests of clients and of the clock -----------------------------------------------


@dataclass(frozen=True, slots=True)
class ManagerStarted:
    """A manager process took over the log, with these settings of the core and its policy.

    ``nonce`` distinguishes its keys from all earlier ones, also from those in a lost part.
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
    """The event log was damaged; ``report`` tells the operator what could not be saved."""

    report: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time has come for which the core asked (``Core.wake_at``)."""


@dataclass(frozen=True, slots=True)
class WorkloadSubmitted:
    """A user submitted a workload."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class WorkloadUpdated:
    """A user changed its target or what it may use; the program stays."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class WorkloadRevoked:
    """A user wants it stopped; its record stays, or is forgotten after its end."""

    name: str
    forget: bool = False


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A user wants its program stopped and started again, in the same run."""

    name: str


@dataclass(frozen=True, slots=True)
class SuspendRequested:
    """A user wants it to get no CPU time, or, if it waits, not to be placed, until resumed."""

    name: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """A user ends its suspension."""

    name: str


@dataclass(frozen=True, slots=True)
class ServerCordoned:
    """An operator wants no new work there; ``drain`` = restartable residents are migrated, too."""

    name: str
    drain: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ServerUncordoned:
    """New work may be placed there again."""

    name: str


@dataclass(frozen=True, slots=True)
class WorkloadForgotten:
    """The record and output of an ended workload are dropped."""

    name: str


# --- decisions of the core --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunScheduled:
    """It waits until this time, as its schedule says."""

    name: str
    due_at: float
    decision: Decision


@dataclass(frozen=True, slots=True)
class RunBegun:
    """An ended workload runs again, as a new run with its own record."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class TimeLimitReached:
    """It has run for as long as it may, and is stopped."""

    name: str


@dataclass(frozen=True, slots=True)
class WorkloadAdmitted:
    """It may continue to profiling and placement.

    It waits for room to be profiled behind those of its priority that rank lower or came earlier.
    """

    name: str
    decision: Decision
    rank: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadRejected:
    """It will never run; the reason says what would have to change."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ProfilingPlanned:
    """It is profiled before it is classified and placed; servers keep room for the plan's runs.

    ``like`` names the workload whose measurements the plan completes; empty = its own, or none.
    """

    name: str
    key: str
    decision: Decision
    plan: ProfilingPlan
    like: str = ""


@dataclass(frozen=True, slots=True)
class ClassificationPlanned:
    """It is classified without profiling runs: a cold start, or by measurements that exist.

    ``like`` names the workload whose measurements are its own, too; empty = none. ``beside`` =
    copies are to be profiled once it has been placed, beside it.
    """

    name: str
    key: str
    decision: Decision
    like: str = ""
    beside: bool = False


@dataclass(frozen=True, slots=True)
class CopiesPlanned:
    """Copies of what has been placed are profiled, under a key of their own.

    Servers keep room for the plan's runs. What they tell classifies it again.
    """

    name: str
    key: str
    decision: Decision
    plan: ProfilingPlan


@dataclass(frozen=True, slots=True)
class WorkloadQueued:
    """It waits in this queue, behind those of its priority that rank lower or came earlier."""

    name: str
    queue: str
    decision: Decision | None = None
    review_at: float | None = None
    rank: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadDiverted:
    """It moves to another queue, within its priority by its rank and in the order of arrival."""

    name: str
    queue: str
    decision: Decision
    review_at: float | None = None
    rank: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadReviewed:
    """The admission has reviewed it, and it stays in its queue until the next review."""

    name: str
    decision: Decision | None = None
    review_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadDeferred:
    """It can't continue before ``until`` or a change; logged when the reason changes.

    ``placements`` are recommended, and hold room while it waits.
    """

    name: str
    decision: Decision
    until: float | None = None
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadPlaced:
    """It was placed; the engine is asked to start it under this key."""

    name: str
    key: str
    placements: tuple[Placement, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class AllocationPlanned:
    """It gets these allocations while it runs; what it holds on other servers ends.

    Attributes:
        throttled_for: A neighbor that violates its target: this best-effort work gets a lower
            ceiling for its sake.
    """

    name: str
    placements: tuple[Placement, ...]
    decision: Decision
    throttled_for: str = ""


@dataclass(frozen=True, slots=True)
class AllocationUnchanged:
    """Its allocations should have changed but can't."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ReclassificationPlanned:
    """It is reclassified while it runs; ``measurements`` ``None`` = by those in its record."""

    name: str
    decision: Decision
    measurements: Measurements | None = None


@dataclass(frozen=True, slots=True)
class ProbePlanned:
    """Sources of interference rise beside it while it runs; ``placements`` hold room for a copy."""

    name: str
    decision: Decision
    cause: ProbeCause
    sources: tuple[SharedResource, ...]
    tolerance: float
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadSuspended:
    """It gets no CPU time for a while, for the sake of a neighbor, which keeps the decision too."""

    name: str
    suspended_for: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WorkloadResumed:
    """It gets CPU time again; ``ineffective`` = its suspension did not help the neighbor."""

    name: str
    decision: Decision
    ineffective: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadMigrated:
    """It is stopped, to start on these servers, which hold room for it; empty = anywhere."""

    name: str
    decision: Decision
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadPreempted:
    """It is stopped for the sake of another workload, and returns to its queue.

    There it is not tried before ``until``.
    """

    name: str
    preempted_for: str
    decision: Decision
    until: float | None = None


@dataclass(frozen=True, slots=True)
class TargetsTracked:
    """What the adaptation concludes from the measurements of one server."""

    samples: tuple[Tracked, ...]


@dataclass(frozen=True, slots=True)
class TrackingLost:
    """These were not measured for so long that the state of their targets is unknown."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyNoted:
    """A note of a part, e.g. ``"placement:round-robin"``, in place of its earlier one."""

    part: str
    note: str


@dataclass(frozen=True, slots=True)
class ServerOrdered:
    """A provisioner is asked for a server; ``ordered_for`` is the workload that waits, if any."""

    key: str
    platform: str
    decision: Decision
    ordered_for: str = ""


@dataclass(frozen=True, slots=True)
class ServerReleased:
    """An acquired server is to be released; the provisioner is asked to take it back."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class PlacementDelegated:
    """A decider outside the core is asked for a placement; ``key`` identifies the question."""

    name: str
    key: str
    decider: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class PlacementConflicted:
    """A proposed placement is no longer possible; the workload is tried again."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ServerAcquired:
    """The server of the order with this key has joined."""

    key: str
    server: Server


@dataclass(frozen=True, slots=True)
class AcquisitionFailed:
    """The server of the order with this key will not come."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlacementProposed:
    """A decider's answer: none, or placements on servers of these versions."""

    key: str
    placements: tuple[Placement, ...]
    versions: tuple[int, ...]
    decision: Decision


Report = (
    ServerReported
    | ServersReported
    | ServerLeft
    | EngineSynced
    | WorkloadOffered
    | OfferWithdrawn
    | StartAccepted
    | WorkloadStarted
    | StartFailed
    | WorkloadFinished
    | WorkloadVanished
    | WorkloadEvicted
    | PlacementsLost
    | AllocationResized
    | ResizeFailed
    | ReadinessChanged
    | ServerMeasured
    | ProfilingFinished
    | ProfilingFailed
    | WorkloadClassified
    | ClassificationFailed
    | WorkloadProbed
    | ServerAcquired
    | AcquisitionFailed
    | PlacementProposed
)
ClientRequest = (
    ManagerStarted
    | HistoryLost
    | TimePassed
    | WorkloadSubmitted
    | WorkloadUpdated
    | WorkloadRevoked
    | RestartRequested
    | SuspendRequested
    | ResumeRequested
    | ServerCordoned
    | ServerUncordoned
    | WorkloadForgotten
)
DecisionEvent = (
    RunScheduled
    | RunBegun
    | TimeLimitReached
    | WorkloadAdmitted
    | WorkloadRejected
    | ProfilingPlanned
    | CopiesPlanned
    | ClassificationPlanned
    | WorkloadQueued
    | WorkloadDiverted
    | WorkloadReviewed
    | WorkloadDeferred
    | WorkloadPlaced
    | AllocationPlanned
    | AllocationUnchanged
    | ReclassificationPlanned
    | ProbePlanned
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
Event = Report | ClientRequest | DecisionEvent


def servers_in(event: Event) -> tuple[Server, ...]:
    """The servers that an event reports, one or many; none = it reports none."""
    match event:
        case ServerReported(server):
            return (server,)
        case ServersReported(servers):
            return servers
    return ()
