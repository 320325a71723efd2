"""The fold's part about what is taken off its servers, by the core or by the engine; adjustments.

``fold`` calls ``EVICTIONS`` by the event's class; as there, nothing is decided or computed here.
"""

from collections.abc import Callable
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.fold_runs import pause_if_running, restart, stopped_at_limit
from wharfinger.core.lifecycle import NEXT, Phase, Trigger
from wharfinger.core.settings import MOST_DOUBLED, settings_in
from wharfinger.core.state import (
    ADJUSTMENTS_KEPT,
    Adjustment,
    AdjustmentKind,
    StopReason,
    WorkloadRecord,
    held,
)
from wharfinger.core.triggers import still_lost, trigger_of
from wharfinger.model.allocation import Placement, ceiling_of
from wharfinger.model.decisions import Decision
from wharfinger.model.ends import eviction_word
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.units import format_duration

_MINUTE_SECONDS = 60.0


# --- adjustments -----------------------------------------------------------------------


def keep_adjustment(
    cluster: ClusterState,
    time: float,
    record: WorkloadRecord,
    kind: AdjustmentKind,
    cause: Decision | WorkloadRecord,
    after: tuple[Placement, ...] | None = None,
) -> None:
    """Keep an adjustment with its cause's reason, before the record is changed by it.

    ``after`` is where it will be; ``None`` = where it is.
    """
    if len(record.adjustments) >= ADJUSTMENTS_KEPT:
        del record.adjustments[0]
    tracking = record.tracking
    adjustment = Adjustment(
        time=time,
        kind=kind,
        before=() if kind is AdjustmentKind.RESUMED else record.placements,
        after=record.placements if after is None else after,
        reason=str(cause.reason),
        message=cause.message,
        performance_before=None if tracking is None else tracking.normalized_performance,
    )
    record.adjustments.append(adjustment)
    counts = cluster.state.adjustment_counts
    counts[kind] = counts.get(kind, 0) + 1


def count_adjustment(cluster: ClusterState, time: float) -> None:
    """One more of this minute."""
    recent = [at for at in cluster.state.adjusted_at if abs(time - at) < _MINUTE_SECONDS]
    cluster.state.adjusted_at = [*recent, time]


def track_again(record: WorkloadRecord, time: float) -> None:
    """What was measured before was under another allocation, or with other neighbors."""
    record.adjusted_at = time
    if record.tracking is not None:
        record.tracking = record.tracking.restarted(time)


def review_servers(cluster: ClusterState, record: WorkloadRecord) -> None:
    """What is predicted of it has changed: so may what its servers can take."""
    for placement in held(record):
        cluster.residency.review(placement.server)


def relieve(cluster: ClusterState, time: float, name: str, decision: Decision) -> None:
    """A neighbor gives way for its sake, which must show before more is done."""
    record = cluster.decided(time, name, decision)
    keep_adjustment(cluster, time, record, AdjustmentKind.RELIEVED, decision)
    track_again(record, time)
    cluster.residency.watch_all(record)


def throttle(
    cluster: ClusterState, time: float, record: WorkloadRecord, event: ev.AllocationPlanned
) -> None:
    """Its ceiling is lowered for a neighbor, which must show before more is done."""
    reading = record.performance and record.performance.readings.get(Quantity.CPU)
    used = round(reading.value * MILLICPUS_PER_CPU) if reading else 0
    known = [each for each in (ceiling_of(record.placements), used) if each]
    record.throttles += 1
    record.suspended_for, record.ineffective_at = event.throttled_for, None
    record.throttled_from_millicpus = min(known, default=0)
    relieve(cluster, time, event.throttled_for, event.decision)


# --- taken off by the core ---------------------------------------------------------------


def _migrated(cluster: ClusterState, time: float, event: ev.WorkloadMigrated) -> None:
    record = _stopped(cluster, time, event.name, event.decision, AdjustmentKind.MIGRATED)
    record.excluded = tuple(p.server for p in record.placements)
    record.migrations += 1
    if event.placements:
        record.predicted = event.decision.predicted
        cluster.residency.resize(record, event.placements)
        review_servers(cluster, record)


def _preempted(cluster: ClusterState, time: float, event: ev.WorkloadPreempted) -> None:
    record = _stopped(cluster, time, event.name, event.decision, AdjustmentKind.PREEMPTED)
    record.preemptions += 1
    record.retry_at = event.until
    if cluster.state.workloads[event.preempted_for].on_server:
        relieve(cluster, time, event.preempted_for, event.decision)
    else:
        cluster.residency.leave_for(record, event.preempted_for)


def _stopped(
    cluster: ClusterState, time: float, name: str, decision: Decision, kind: AdjustmentKind
) -> WorkloadRecord:
    record = cluster.decided(time, name, decision, Trigger.MIGRATE)
    keep_adjustment(cluster, time, record, kind, decision, ())
    record.reason, record.message = decision.reason, decision.message
    record.adjusted_at, record.tracking = time, None
    count_adjustment(cluster, time)
    cluster.residency.watch_all(record)
    return record


# --- taken off by the engine ---------------------------------------------------------------


def _evicted(cluster: ClusterState, time: float, event: ev.WorkloadEvicted) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    trigger = trigger_of(event, record)
    if (record.phase, trigger) not in NEXT:
        return
    cluster.state.evictions += 1
    record.evictions += 1
    why = f"taken off by the engine: {event.reason}"
    match trigger:
        case Trigger.EVICT:
            _requeue(cluster, time, record, event, why)
        case Trigger.RESTART:
            restart(cluster, time, record, "" if record.stop_reason else why)
        case _:
            stop_reason, record.stop_reason = record.stop_reason, StopReason.NONE
            cluster.move(time, record, trigger)
            if stop_reason is StopReason.TIME_LIMIT and record.ended:
                stopped_at_limit(record)
            elif record.ended and not record.revoking:
                record.reason = "vanished" if trigger is Trigger.VANISH else "evicted"
                record.message = f"{why}; it may not be started again (run.restartable)"


def _requeue(
    cluster: ClusterState, time: float, record: WorkloadRecord, event: ev.WorkloadEvicted, why: str
) -> None:
    """Back to its place in its queue: at once, and later each time that it does not run well."""
    settings, in_row = settings_in(cluster.state), record.evictions_in_row
    has_run = record.phase not in (Phase.PLACED, Phase.STARTING) and record.started_at is not None
    if has_run and time - (record.started_at or time) >= settings.stable_seconds:
        in_row = 0
    record.evictions_in_row = in_row + 1
    record.not_before = None
    if in_row:
        wait = min(settings.max_backoff_seconds, 2.0 ** min(in_row - 1, MOST_DOUBLED))
        record.not_before = time + wait
        why += f"; {in_row + 1} times in a row: tried again after {format_duration(wait)}"
    record.reason, record.message = eviction_word(event.reason), why
    keep_adjustment(cluster, time, record, AdjustmentKind.EVICTED, record, ())
    cluster.move(time, record, Trigger.EVICT)


def _placements_lost(cluster: ClusterState, time: float, event: ev.PlacementsLost) -> None:
    record = cluster.record_of(event.key)
    lost = () if record is None else still_lost(event, record)
    if record is None or not lost:
        return
    gone = {placement.server for placement in lost}
    left = tuple(p for p in record.placements if p.server not in gone)
    if not left:
        _evicted(cluster, time, ev.WorkloadEvicted(event.key, event.reason))
        return
    planned = tuple(p for p in record.planned if p.server not in gone)
    parted = tuple(p for p in record.placements if p.server in gone)
    if parted:
        servers = " and ".join(placement.server for placement in parted)
        record.reason = eviction_word(event.reason)
        record.message = f"gone from {servers}: {event.reason}"
        keep_adjustment(cluster, time, record, AdjustmentKind.LOST, record, left)
        # Measured and predicted was the whole.
        record.performance, record.predicted = None, None
        track_again(record, time)
    resizing = record.phase is Phase.ADJUSTING
    cluster.residency.settle(record, left, planned if planned != left else ())
    review_servers(cluster, record)
    if resizing and not record.planned:
        cluster.move(time, record, Trigger.SETTLE)
        pause_if_running(cluster, time, record)
    there = {placement.server for placement in left}
    joining = sum(placement.server not in there for placement in record.planned)
    unreplaced = record.replacing > joining
    record.replacing = min(record.replacing, joining)
    if (parted or unreplaced) and not record.revoking:
        record.lost += parted
        cluster.want_resize(record, wanted=True)
    cluster.touched[record.name] = None


EVICTIONS: dict[type, Callable[[ClusterState, float, Any], object]] = {
    ev.WorkloadMigrated: _migrated,
    ev.WorkloadPreempted: _preempted,
    ev.WorkloadEvicted: _evicted,
    ev.PlacementsLost: _placements_lost,
}
"""What each of these events does."""
