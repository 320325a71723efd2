"""What the core knows, as plain values that a snapshot can hold.

Only ``Manager.apply`` changes these. What can be derived (the servers' columns, the queues,
the index of keys) is not here: see ``core/tables.py`` and ``Manager``.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from wharfinger.core.lifecycle import ENDED, ON_SERVER, Phase
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Prediction, ReasonCode
from wharfinger.model.performance import Performance, Quantity
from wharfinger.model.platform import Server
from wharfinger.model.profile import Classification, Entry, Measurements, ProfilingPlan
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload

SCHEMA = 1
"""Version of the snapshot's form; see ``core/codec.py``."""

DECISIONS_KEPT = 12
ADJUSTMENTS_KEPT = 32


@dataclass(frozen=True, slots=True)
class TimedDecision:
    """A decision and when it was made, in seconds since the epoch."""

    time: float
    decision: Decision


@dataclass(frozen=True, slots=True)
class Course:
    """On which side of its target a running workload is.

    Attributes:
        pace: Performance over target at the newest measurement.
        side: -1 = missed, 0 = as it should be, 1 = more than enough.
        since: When it came to this side, in seconds since the epoch.
        could: What it could do over its target, as far as its idle CPU tells; ``None`` = no more
            than it does.
    """

    pace: float
    side: int
    since: float
    could: float | None = None


class AdjustmentKind(StrEnum):
    """What was done about a workload after it was placed."""

    RESIZED = "resized"
    """Its allocation became another one, where it is, or on more or fewer servers."""
    SUSPENDED = "suspended"
    """It gave way to a neighbour that missed its target."""
    RESUMED = "resumed"
    """It goes on."""
    RELIEVED = "relieved"
    """A neighbour gave way to it."""
    MOVED = "moved"
    """It was stopped, to be started on another server."""
    KEPT = "kept"
    """Something should have been done and was not; the reason says why."""
    RECLASSIFIED = "reclassified"
    """What it needs was estimated anew, by how it runs."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One thing that was done about a placed workload, and what became of it.

    Attributes:
        time: In seconds since the epoch.
        before: Where it was, and with how much.
        after: Where it is from then on; empty = it does not run.
        reason: Stable word.
        message: The cause, for people.
        pace_before: Performance over target when it was decided; ``None`` = not known.
        pace_after: The same once it had time to show, or the newest before that.
    """

    time: float
    kind: AdjustmentKind
    before: tuple[Placement, ...]
    after: tuple[Placement, ...]
    reason: str
    message: str
    pace_before: float | None = None
    pace_after: float | None = None


@dataclass(slots=True)
class WorkloadRecord:
    """One workload's state.

    Attributes:
        uid: Counts submissions; never used again, unlike a name.
        key: The current start's (or profiling run's) identity; empty before the first.
        placements: Where it is, and with how much.
        planned: The allocations it is being resized to, perhaps on other servers too; empty
            otherwise.
        attempts: How often it was given a place; the newest key's number.
        starts: How often the program was started.
        start_failures: How often a start failed that may be tried again.
        excluded: Servers that failed to start it.
        not_before: When a failed start may be tried again.
        ended_order: When it ended, by a clock that is never set back.
        revoking: Its user wants it stopped.
        reason: Stable word for why it is where it is; empty when there is nothing to say.
        message: The same for people.
        held: Why it could not be placed when it was last tried.
        profiled: Whether its profiling runs are done, or gave nothing, or there are none.
        profiling: The plan of the runs under way, for which its server keeps room.
        measurements: What they found; ``None`` = nothing.
        classification: What it needs, as an estimator said; ``None`` = not known.
        resize_wanted: Its reservation was changed and its allocation has not followed yet.
        performance: What was measured last of its newest start; ``None`` = nothing.
        course: On which side of its target it is; ``None`` = not known.
        adjusted_at: When its allocation was changed last, or a neighbour gave way to it.
        predicted: How it should do where it is; ``None`` = nothing predicts.
        observed: How it did under each allocation that it had, once that had settled; without
            its neighbours, where their part is known between pairs.
        company_since: When somebody came to its server or left it last, where it matters.
        classifying: It runs, and is being classified anew.
        classified_at: When it was to be classified anew last.
        suspensions: How often it gave way to a neighbour.
        relieves: The neighbour to which it gave way last; empty = none.
        relieved_pace: How that one did then, performance over target.
        in_vain_at: When it turned out that giving way had not helped; ``None`` = it had.
        moves: How often it was stopped to be started on another server.
        adjustments: What was done about it since it was placed, the newest, oldest first.
    """

    workload: Workload
    uid: int
    submitted_at: float
    phase: Phase = Phase.SUBMITTED
    phase_since: float = 0.0
    queue: str = ""
    key: str = ""
    placements: tuple[Placement, ...] = ()
    planned: tuple[Placement, ...] = ()
    attempts: int = 0
    starts: int = 0
    start_failures: int = 0
    excluded: tuple[str, ...] = ()
    not_before: float | None = None
    revoking: bool = False
    handle: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    ended_order: float = 0.0
    exit_code: int | None = None
    signal: int | None = None
    cpu_seconds: float | None = None
    reason: str = ""
    message: str = ""
    held: ReasonCode | None = None
    profiled: bool = False
    profiling: ProfilingPlan | None = None
    measurements: Measurements | None = None
    classification: Classification | None = None
    resize_wanted: bool = False
    performance: Performance | None = None
    course: Course | None = None
    adjusted_at: float | None = None
    predicted: Prediction | None = None
    observed: dict[Quantity, dict[int, Entry]] = field(default_factory=dict)
    company_since: float | None = None
    classifying: bool = False
    classified_at: float | None = None
    suspensions: int = 0
    relieves: str = ""
    relieved_pace: float = 0.0
    in_vain_at: float | None = None
    moves: int = 0
    adjustments: list[Adjustment] = field(default_factory=list)
    decisions: list[TimedDecision] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The workload's name."""
        return self.workload.name

    @property
    def ended(self) -> bool:
        """Whether nothing more can happen to it."""
        return self.phase in ENDED

    @property
    def on_server(self) -> bool:
        """Whether it holds resources."""
        return self.phase in ON_SERVER

    def remember(self, time: float, decision: Decision) -> None:
        """Keep a decision; the first stays, of the others the newest."""
        if len(self.decisions) >= DECISIONS_KEPT:
            del self.decisions[1]
        self.decisions.append(TimedDecision(time, decision))


@dataclass(slots=True)
class ManagerState:
    """Everything a snapshot holds.

    Attributes:
        nonces: Of every manager process that has led this log since a part of it was lost.
        synced: Whether the engine of this process has reported what it found.
        last_placed: Server of the newest placement.
        servers: In the order in which they joined.
        adjusted_at: When allocations were changed lately, newest last.
        adjustment_counts: How many there were of each kind, since the log began.
        strays: Keys that the engine knows and this log does not.
    """

    nonces: list[str] = field(default_factory=list)
    version: str = ""
    policy: str = ""
    admission: str = ""
    engine: str = ""
    capabilities: Capabilities = field(default_factory=Capabilities)
    synced: bool = False
    next_uid: int = 1
    last_placed: str = ""
    servers: dict[str, Server] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    adjusted_at: list[float] = field(default_factory=list)
    adjustment_counts: dict[AdjustmentKind, int] = field(default_factory=dict)
    workloads: dict[str, WorkloadRecord] = field(default_factory=dict)


def held(record: WorkloadRecord) -> tuple[Placement, ...]:
    """What servers keep for a workload: for its profiling copies; resized, the larger of both.

    A server that it joins keeps room for it from the plan on, one that it leaves until it has left.
    """
    if record.profiling is not None:
        return record.profiling.placements
    if not record.planned:
        return record.placements
    kept = {placement.server: placement.allocation for placement in record.placements}
    for new in record.planned:
        old = kept.get(new.server)
        kept[new.server] = new.allocation if old is None else _larger(old, new.allocation)
    return tuple(Placement(server, allocation) for server, allocation in kept.items())


def _larger(old: Allocation, new: Allocation) -> Allocation:
    return Allocation(
        max(old.cpu_millicpus, new.cpu_millicpus),
        max(old.memory_bytes, new.memory_bytes),
        old.best_effort,
    )
