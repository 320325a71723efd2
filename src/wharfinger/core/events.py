"""Everything that can happen. State is the fold of these and of nothing else.

Three kinds, told apart by who says them:

* *reports* come from the engine: what servers there are, what started, finished, vanished;
* *requests* come from clients, and one from the clock;
* *decisions* come from the core itself. They are logged like the others, in the same
  transaction as the event that caused them, so that a replay repeats what was decided
  instead of deciding again (docs/decisions/0002).

Each event is logged under its class's name: renaming one is a schema migration.
"""

from dataclasses import dataclass

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
    """It is gone and nobody saw how; there is no exit status and none is guessed."""

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
    """The profiling runs gave nothing; the workload goes on without."""

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
    """

    nonce: str
    version: str
    policy: str
    admission: str
    engine: str
    capabilities: Capabilities


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
    """It is profiled and classified before it is placed.

    Attributes:
        plan: What is run, and where room is kept for it; ``None`` = nothing: it is classified
            by its like, and by how it runs once it does.
    """

    name: str
    key: str
    decision: Decision
    plan: ProfilingPlan | None = None


@dataclass(frozen=True, slots=True)
class WorkloadQueued:
    """It waits for a place in this queue, behind those of its priority that came earlier."""

    name: str
    queue: str


@dataclass(frozen=True, slots=True)
class WorkloadHeld:
    """It was tried and can't be placed now; logged when the reason changes."""

    name: str
    decision: Decision


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
class AllocationKept:
    """Its allocations were asked to change and can't; it goes on as it is."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ClassificationPlanned:
    """It runs, and is classified anew by how it does."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WorkloadSuspended:
    """It gets no CPU time for a while, for a neighbour's sake.

    Attributes:
        relieves: The neighbour, which keeps the decision too.
    """

    name: str
    relieves: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WorkloadResumed:
    """It gets CPU time again.

    Attributes:
        in_vain: The neighbour to which it gave way did no better for it.
    """

    name: str
    decision: Decision
    in_vain: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadMoved:
    """It is stopped, and placed anew on another server than this one."""

    name: str
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
    | WorkloadQueued
    | WorkloadHeld
    | WorkloadPlaced
    | AllocationPlanned
    | AllocationKept
    | ClassificationPlanned
    | WorkloadSuspended
    | WorkloadResumed
    | WorkloadMoved
)
Event = Report | Request | DecisionEvent
