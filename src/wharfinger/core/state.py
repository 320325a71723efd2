"""What the core knows, as plain values that a snapshot can hold.

Only the fold changes these. What can be derived from them is in ``cluster_state``.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from wharfinger.core.lifecycle import ENDED, ON_SERVER, Phase
from wharfinger.core.load_history import LoadHistory
from wharfinger.core.tracking import (
    CopiesState,
    DemandTracking,
    LevelChange,
    LevelTracking,
    ProbeState,
    TargetTracking,
)
from wharfinger.model.allocation import Allocation, Placement, cpu_of
from wharfinger.model.decisions import Decision, Prediction, ReasonCode
from wharfinger.model.memory_needs import MemoryNeed
from wharfinger.model.performance import MAX_NORMALIZED, Performance, Quantity
from wharfinger.model.platform import Server
from wharfinger.model.profile import Classification, Entry, Measurements, ProfilingPlan
from wharfinger.model.queue_accounts import QueueAccount
from wharfinger.model.searches import SearchCounts
from wharfinger.model.view import Capabilities, WorkloadLimits
from wharfinger.model.workload import Workload

SCHEMA = 2
"""Version of the snapshot's form; see ``codec``."""

DECISIONS_KEPT = 12
RUNS_KEPT = 20
HISTORY_KEPT = 10_000
WITHDRAWN = "withdrawn"
"""Reason of an offer that its user took back."""
ADJUSTMENTS_KEPT = 32


@dataclass(frozen=True, slots=True)
class TimedDecision:
    """A decision and its time, in seconds since the epoch."""

    time: float
    decision: Decision


class AdjustmentKind(StrEnum):
    """What was done about a workload after it was placed."""

    RESIZED = "resized"
    """Its allocation became another one, where it is, or on more or fewer servers."""
    THROTTLED = "throttled"
    """It got a lower ceiling for a neighbor that violated its target."""
    SUSPENDED = "suspended"
    """It was suspended for a neighbor that violated its target; later ``RESUMED``."""
    RESUMED = "resumed"
    RELIEVED = "relieved"
    """A neighbor was suspended for its sake."""
    MIGRATED = "migrated"
    """It was stopped, to be started on another server."""
    PREEMPTED = "preempted"
    """It was stopped for the sake of another workload."""
    EVICTED = "evicted"
    """The engine took it off its servers; it goes on elsewhere."""
    LOST = "lost"
    """It was on several servers, and is gone from some of them."""
    UNCHANGED = "unchanged"
    """Something should have been done and was not; the reason says why."""
    RECLASSIFIED = "reclassified"
    """It was classified again, by how it runs."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Something done about a placed workload, and its effect; times in seconds since the epoch.

    Attributes:
        after: Empty = it does not run.
        reason: Stable word.
        performance_before: Achieved over target at the decision; ``None`` = unknown.
        performance_after: The same after the settling time, or the newest before that.
    """

    time: float
    kind: AdjustmentKind
    before: tuple[Placement, ...]
    after: tuple[Placement, ...]
    reason: str
    message: str
    performance_before: float | None = None
    performance_after: float | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run that has ended; times in seconds since the epoch, ``None`` = unknown or none.

    Attributes:
        memory_peak_bytes: Of its last start.
        predicted: Performance over target.
        achieved: The same, of the whole run if its target is a completion time.
        kept: Whether its target was kept.
        key: Of its last start.
    """

    name: str
    uid: int
    run: int
    phase: Phase
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    signal: int | None
    reason: str
    message: str
    restarts: int
    servers: tuple[str, ...]
    cpu_millicpus: int
    memory_bytes: int
    cpu_seconds: float | None
    memory_peak_bytes: int | None
    predicted: float | None
    achieved: float | None
    kept: bool | None
    key: str


class StopReason(StrEnum):
    """Why the core stops a program, other than that its user revoked it."""

    NONE = ""
    RESTART = "restart"
    """Its user wants it started again."""
    TIME_LIMIT = "time-limit"
    """It has run for as long as it may."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """Why no new work is placed on a server, since when, and whether it is drained."""

    since: float
    drain: bool
    reason: str
    accepting: bool = True
    """Whether it would accept work without this."""


@dataclass(slots=True)
class WorkloadRecord:
    """One workload's state, in its newest run.

    Times are in seconds since the epoch; ``None`` or empty = there is none.

    Attributes:
        uid: Counts submissions; never reused, unlike a name.
        key: Identity of the current start (or profiling run).
        planned: The allocations it is being resized or migrated to, perhaps on other servers.
        attempts: How many keys it was given.
        excluded: Servers that failed to start it.
        not_before: When a failed start may be tried again.
        retry_at: When its placement is tried again; ``None`` = whenever there may be room.
        revoking: Its user wants it stopped.
        ended_order: When it ended, by a clock that is never set back.
        demand: The load that is offered to it; ``None`` = that is not measured.
        load_history: The same over time, of all its starts.
        rank: Its place among those of its priority, before the order of arrival: in its queue, and
            before that among those that wait for room to be profiled.
        reason: Stable word for why it is where it is; ``message`` says it for people.
        deferral: Why it could not continue when it was last tried.
        profiling: The plan of the runs under way, for which servers keep room.
        resize_wanted: Its reservation was changed and its allocation has not followed yet.
        performance: The newest measurement of its newest start.
        adjusted_at: When its allocation was changed last, or a neighbor was suspended for it.
        observed: Settled performance under each allocation that it had, by CPU; without the
            slowdown by neighbors where that is known between pairs.
        neighbors_changed_at: When a neighbor came or left last.
        reclassifying: It runs, and is being reclassified.
        classified_at: When its last reclassification was planned.
        suspended_for: The neighbor for which it was suspended, or throttled, last, of which
            ``suspended_at_performance`` is achieved over target then, ``suspended_at_answered`` the
            share of its requests that it answered, ``suspended_at_busy`` how busy it was here, over
            where it was least busy of its servers; ``None`` = unknown.
        ineffective_at: When its suspension proved ineffective; ``None`` = it helped.
        throttles: How often its ceiling was lowered for a neighbor; before the last time it used
            ``throttled_from_millicpus``, or had that for a ceiling.
        preempted_for: The workload for which it is being stopped.
        preemptions: How often it was stopped for another workload's sake.
        reserved: Room that others were stopped to free for it; held until it is placed.
        lost: What it held on servers from which it is gone, and which is to be replaced. Of these
            the first ``replacing`` are by the resize that is under way.
        resize_at: When a replacement that failed is asked for again; ``resizes_failed`` in a row.
        granted: What it was given at its newest start.
        limits: What may be done with it; ``None`` = all that the engine can.
        offer: The engine's handle of what it holds; empty = it was submitted here.
        evictions: How often the engine took it off in this run; ``evictions_in_row`` without those
            before it ran well.
        review_at: When the admission reviews it.
        question: Key of the open question to a decider.
        adjustments: Oldest first; the newest ``ADJUSTMENTS_KEPT``.
        run: Counts the runs of this name since its record was forgotten last.
        previous_key: Of the start before the newest, whose output is kept, too.
        previous: Its earlier runs, oldest first; the newest ``RUNS_KEPT``.
        restarts: How often its program was started again in this run, because it had ended.
        restarts_before: The same in the runs before, since its record was forgotten last.
        restarts_in_row: The same in this run, without those before it ran well.
        memory_peak_bytes: Of its newest start that has ended.
        recommended: Where a manager that only recommends would place it; room is held there.
        level: Its performance over its own level so far; ``None`` = unknown.
        left_level: The largest change of its level since its scores of interference were measured.
        probe: The newest probe of its newest start.
        profiled_beside: Its copies are to run once it has been placed, beside it.
        copies: Those of its newest start that run, or ran, beside it.
        last_output: The last line of its newest start that has failed.
        stop_reason: Why the core stops it.
        forget: It is forgotten when it has ended.
        resubmitted: What to run when it has ended.
        paused: Its user has suspended it; ``pauses`` counts how often it was so.
        ready_at: Since when it is ready; ``None`` = it is not. Without a probe, from its start on.
        due_at: When its schedule lets it run.
        last_due_at: The same of its run before.
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
    retry_at: float | None = None
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
    deferral: ReasonCode | None = None
    profiling: ProfilingPlan | None = None
    measurements: Measurements | None = None
    classification: Classification | None = None
    resize_wanted: bool = False
    performance: Performance | None = None
    tracking: TargetTracking | None = None
    adjusted_at: float | None = None
    predicted: Prediction | None = None
    observed: dict[Quantity, dict[int, Entry]] = field(default_factory=dict)
    neighbors_changed_at: float | None = None
    reclassifying: bool = False
    classified_at: float | None = None
    suspensions: int = 0
    suspended_for: str = ""
    suspended_at_performance: float = 0.0
    suspended_at_answered: float | None = None
    suspended_at_busy: float | None = None
    ineffective_at: float | None = None
    throttles: int = 0
    throttled_from_millicpus: int = 0
    migrations: int = 0
    preempted_for: str = ""
    review_at: float | None = None
    question: str = ""
    decider: str = ""
    adjustments: list[Adjustment] = field(default_factory=list)
    decisions: list[TimedDecision] = field(default_factory=list)
    run: int = 1
    previous_key: str = ""
    previous: list[RunSummary] = field(default_factory=list)
    restarts: int = 0
    restarts_before: int = 0
    restarts_in_row: int = 0
    memory_peak_bytes: int | None = None
    last_output: str = ""
    stop_reason: StopReason = StopReason.NONE
    forget: bool = False
    resubmitted: Workload | None = None
    paused: bool = False
    pauses: int = 0
    ready_at: float | None = None
    due_at: float | None = None
    last_due_at: float | None = None
    recommended: tuple[Placement, ...] = ()
    level: LevelTracking | None = None
    left_level: LevelChange | None = None
    probe: ProbeState | None = None
    rank: float = 0.0
    profiled_beside: bool = False
    copies: CopiesState | None = None
    demand: DemandTracking | None = None
    load_history: LoadHistory | None = None
    preemptions: int = 0
    reserved: tuple[Placement, ...] = ()
    lost: tuple[Placement, ...] = ()
    evictions: int = 0
    evictions_in_row: int = 0
    granted: tuple[Placement, ...] = ()
    limits: WorkloadLimits | None = None
    replacing: int = 0
    resize_at: float | None = None
    resizes_failed: int = 0
    offer: str = ""

    @property
    def name(self) -> str:
        """The workload's name."""
        return self.workload.name

    @property
    def plan(self) -> ProfilingPlan | None:
        """Of its profiling runs that servers keep room for now; ``None`` = there are none."""
        if self.copies is not None and self.copies.under_way:
            return self.copies.plan
        return self.profiling

    @property
    def copied(self) -> tuple[Placement, ...]:
        """What servers keep for its profiling runs, also of one that runs itself."""
        return self.plan.placements if self.plan is not None else ()

    @property
    def ended(self) -> bool:
        """Whether nothing more can happen to it."""
        return self.phase in ENDED

    @property
    def is_left_held(self) -> bool:
        """Whether the engine still holds what it offered, though here it ended without a start."""
        return bool(self.offer) and self.ended and not self.starts and self.reason != WITHDRAWN

    @property
    def on_server(self) -> bool:
        """Whether it holds resources."""
        return self.phase in ON_SERVER

    def remember(self, time: float, decision: Decision) -> None:
        """Keep a decision; of ``DECISIONS_KEPT`` the first stays, then the newest."""
        if len(self.decisions) >= DECISIONS_KEPT:
            del self.decisions[1]
        self.decisions.append(TimedDecision(time, decision))


@dataclass(frozen=True, slots=True)
class ServerOrder:
    """A server that is to be acquired, for a workload (empty = none in particular)."""

    key: str
    platform: str
    ordered_for: str
    ordered_at: float


@dataclass(slots=True)
class ManagerState:
    """Everything a snapshot holds; times in seconds since the epoch.

    Attributes:
        nonces: Of every manager process that has led this log since a part of it was lost.
        synced: Whether the engine of this process has reported what it found.
        settings: The policy's and the core's, by part.
        notes: What parts of policies remember, by kind and name of the part.
        orders: Servers that are ordered and have not joined yet, by key.
        acquired: When each acquired server joined.
        not_acquired: When an order for a platform failed last, unless one has succeeded since.
        servers: In the order in which they joined; so with ``releasing``.
        adjusted_at: When allocations were changed recently, newest last.
        strays: Keys that the engine knows and this log does not.
        cordoned: By server, also one that is not there now.
        history: Ended runs whose record is gone, oldest first; the newest ``HISTORY_KEPT``.
        restarts: How often programs were started again in their run, also of what is forgotten.
        searches: How searches for a server ended, of all placements.
        accounts: What has gone through each queue, by its name.
        memory_needs: Of programs whose memory no user stated, by a digest of each; oldest first.
        out_of_memory_kills: How often a program or copy ran out of memory.
        evictions: How often the engine took a workload off, also of what is forgotten.
        clashes: Offers whose name another workload has: that name, by the offer's handle.
    """

    nonces: list[str] = field(default_factory=list)
    version: str = ""
    policy: str = ""
    admission: str = ""
    engine: str = ""
    capabilities: Capabilities = field(default_factory=Capabilities)
    synced: bool = False
    next_uid: int = 1
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    orders: dict[str, ServerOrder] = field(default_factory=dict)
    acquired: dict[str, float] = field(default_factory=dict)
    not_acquired: dict[str, float] = field(default_factory=dict)
    releasing: list[str] = field(default_factory=list)
    next_order: int = 1
    next_question: int = 1
    servers: dict[str, Server] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    adjusted_at: list[float] = field(default_factory=list)
    adjustment_counts: dict[AdjustmentKind, int] = field(default_factory=dict)
    workloads: dict[str, WorkloadRecord] = field(default_factory=dict)
    cordoned: dict[str, Cordon] = field(default_factory=dict)
    history: list[RunSummary] = field(default_factory=list)
    restarts: int = 0
    searches: SearchCounts = field(default_factory=SearchCounts)
    accounts: dict[str, QueueAccount] = field(default_factory=dict)
    memory_needs: dict[str, MemoryNeed] = field(default_factory=dict)
    out_of_memory_kills: int = 0
    evictions: int = 0
    clashes: dict[str, str] = field(default_factory=dict)

    def account(self, queue: str) -> QueueAccount:
        """What has gone through a queue."""
        return self.accounts.setdefault(queue, QueueAccount())


def summary_of(record: WorkloadRecord) -> RunSummary:
    """An ended run as it is remembered."""
    target, tracking = record.workload.target, record.tracking
    achieved = tracking.normalized_performance if tracking else None
    if target is not None and target.completion_seconds and record.ended_at is not None:
        took = record.ended_at - record.submitted_at
        is_done = record.phase is Phase.COMPLETED
        achieved = min(MAX_NORMALIZED, target.completion_seconds / took) if took > 0 else None
        achieved = achieved if is_done else 0.0
    kept = None if achieved is None else achieved >= 1 - record.workload.tolerance
    return RunSummary(
        name=record.name,
        uid=record.uid,
        run=record.run,
        phase=record.phase,
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        exit_code=record.exit_code,
        signal=record.signal,
        reason=record.reason,
        message=record.message,
        restarts=record.restarts,
        servers=tuple(placement.server for placement in record.placements),
        cpu_millicpus=cpu_of(record.placements),
        memory_bytes=sum(p.allocation.memory_bytes for p in record.placements),
        cpu_seconds=record.cpu_seconds,
        memory_peak_bytes=record.memory_peak_bytes,
        predicted=record.predicted.mean if record.predicted else None,
        achieved=achieved,
        kept=kept,
        key=record.key,
    )


def is_violated(record: WorkloadRecord) -> bool:
    """Whether its target was violated at its newest measurement."""
    return record.tracking is not None and record.tracking.status < 0


def held(record: WorkloadRecord) -> tuple[Placement, ...]:
    """What servers keep for a workload: for its profiling runs; resized, the larger of both.

    Room is kept on a server it joins from the plan on, and on one it leaves until it has left.
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
