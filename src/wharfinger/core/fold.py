"""The fold: how each event changes the state. Nothing is decided or computed here.

``Core`` calls ``apply`` with what it decided; a replay calls it alone. It reads events, state
and the settings that are logged, never the program's own: a log always gives the same state.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import (
    UNDECIDED,
    ClusterState,
    begin_copies,
    end_copies,
    index_ceiling,
    recommend,
    reserve,
)
from wharfinger.core.fold_evictions import (
    EVICTIONS,
    count_adjustment,
    keep_adjustment,
    relieve,
    review_servers,
    throttle,
    track_again,
)
from wharfinger.core.fold_offers import OFFERS
from wharfinger.core.fold_probes import PROBES
from wharfinger.core.fold_runs import RUNS, goes_on, pause_if_running, retry_drain
from wharfinger.core.fold_servers import SERVERS, server_left
from wharfinger.core.followups import same_array
from wharfinger.core.lifecycle import Phase, Trigger
from wharfinger.core.load_history import LoadHistory
from wharfinger.core.memory_needs import see_kill, see_peak
from wharfinger.core.retries import replace_later
from wharfinger.core.reviews import AFTER_CHANGE
from wharfinger.core.state import (
    AdjustmentKind,
    WorkloadRecord,
    held,
)
from wharfinger.core.tracking import DemandTracking, LevelChange, LevelTracking, Tracked
from wharfinger.core.triggers import answers_resize
from wharfinger.model.allocation import ceiling_of
from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.memory_needs import MemorySource
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import Performance
from wharfinger.model.profile import Measurements
from wharfinger.model.queue_accounts import DEMAND
from wharfinger.model.workload import Target

_ELSEWHERE = (AdjustmentKind.MIGRATED, AdjustmentKind.EVICTED)
"""After these it is placed on other servers."""


def apply(cluster: ClusterState, time: float, event: ev.Event) -> None:
    """Fold one event into the state; an event that no longer applies changes nothing."""
    _APPLY[type(event)](cluster, time, event)


# --- the manager and its engine ------------------------------------------------------


def _manager_started(cluster: ClusterState, _time: float, event: ev.ManagerStarted) -> None:
    state = cluster.state
    state.nonces.append(event.nonce)
    state.version, state.engine = event.version, event.engine
    state.policy, state.admission = event.policy, event.admission
    state.capabilities = event.capabilities
    state.settings = {part: dict(values) for part, values in event.settings.items()}
    state.synced = False
    # What another process has recommended, this one may do.
    for name in list(cluster.recommended):
        recommend(cluster, state.workloads[name], ())


def _engine_synced(cluster: ClusterState, time: float, event: ev.EngineSynced) -> None:
    present = set(event.servers)
    for name in [name for name in cluster.state.servers if name not in present]:
        server_left(cluster, time, ev.ServerLeft(name, "the engine has it no more"))
    ours = set(cluster.state.nonces)
    ours_known = (cluster.by_key, cluster.kept_keys)
    unknown = [key for key in event.known_keys if not any(key in keys for keys in ours_known)]
    clashes, offered = cluster.state.clashes, set(event.offers)
    for handle in [handle for handle in clashes if handle not in offered]:
        del clashes[handle]
    cluster.state.strays = [key for key in unknown if key.rpartition("-")[2] not in ours]
    cluster.dropped_keys.extend(key for key in unknown if key.rpartition("-")[2] in ours)
    cluster.state.synced = True
    cluster.queues.room_changed = True
    # Actions that an earlier engine process was asked for are repeated: keys make that safe.
    for record in cluster.state.workloads.values():
        if not record.ended or record.is_left_held:
            cluster.touched[record.name] = None


def _time_passed(cluster: ClusterState, _time: float, _event: ev.TimePassed) -> None:
    cluster.queues.room_changed = True


def _policy_noted(cluster: ClusterState, _time: float, event: ev.PolicyNoted) -> None:
    cluster.state.notes[event.part] = event.note


def _history_lost(cluster: ClusterState, _time: float, _event: ev.HistoryLost) -> None:
    """What the engine knows under keys of lost nonces is a stray, never to be forgotten."""
    del cluster.state.nonces[:-1]


# --- requests ------------------------------------------------------------------------


def _updated(cluster: ClusterState, time: float, event: ev.WorkloadUpdated) -> None:
    record = cluster.state.workloads[event.workload.name]
    cluster.dequeue(record)
    cluster.drop_question(record)  # It was about the workload as it was before.
    cluster.leave_unprofiled(record)
    changed = event.workload.reservation != record.workload.reservation
    wanted = record.on_server and (record.resize_wanted or changed)
    cluster.want_resize(record, wanted=wanted)
    if event.workload.schedule != record.workload.schedule:
        record.due_at = None
    if not event.workload.is_measured_as(record.workload):
        _forget_performance(cluster, record)
        if record.copies is not None:  # They measure it in the way that it was.
            end_copies(cluster, record, time)
    cluster.followups.leave(record)
    record.workload = event.workload
    cluster.followups.enter(record)
    record.deferral = None
    if record.phase is Phase.QUEUED:
        cluster.enqueue(record)
        if record.review_at is not None:
            cluster.review_at(record, AFTER_CHANGE)
    elif record.phase in UNDECIDED:
        cluster.review_at(record, None)
        cluster.undecided[record.name] = None
    for placement in record.placements if record.on_server else ():
        cluster.residency.review_contention(placement.server)
    cluster.residency.ends.forget(held(record))
    cluster.touched[record.name] = None
    retry_drain(cluster, record)


def _forget_performance(cluster: ClusterState, record: WorkloadRecord) -> None:
    """It is measured in another way: what was measured and predicted before is of something else.

    What it used of memory and does to others stays. It is classified again once it was observed.
    """
    record.observed, record.performance, record.tracking = {}, None, None
    record.level, record.left_level, record.demand = None, None, None
    record.load_history = None
    record.reclassifying = False
    if record.measurements is not None:
        record.measurements = replace(record.measurements, performance={}, further={})
    if record.classification is not None:
        record.classification = replace(record.classification, curves={})
    if record.predicted is not None:
        # Of no target that there is: it is not shown, and is made anew.
        record.predicted = replace(record.predicted, target=Target())
    cluster.residency.watch_all(record)


def _revoked(cluster: ClusterState, time: float, event: ev.WorkloadRevoked) -> None:
    record = cluster.state.workloads[event.name]
    record.revoking, record.forget, record.resubmitted = True, event.forget, None
    record.reason, record.message = "revoked", "its user revoked it"
    # The engine must first report that nothing runs under its key.
    if not record.on_server and record.profiling is None:
        cluster.move(time, record, Trigger.REVOKE)
    cluster.touched[record.name] = None


# --- decisions -----------------------------------------------------------------------


def _admitted(cluster: ClusterState, time: float, event: ev.WorkloadAdmitted) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.ADMIT)
    record.rank = event.rank
    if record.due_at is not None or record.workload.after is not None:
        # Until now it could not have run: its target counts from here.
        record.submitted_at = time
        goes_on(record)


def _rejected(cluster: ClusterState, time: float, event: ev.WorkloadRejected) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.REJECT)
    record.reason, record.message = event.decision.reason, event.decision.message


def _profiling_planned(cluster: ClusterState, time: float, event: ev.ProfilingPlanned) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.PROFILE)
    cluster.give_key(record, event.key)
    record.profiling = event.plan
    _measured_as(cluster, record, event.like)
    goes_on(record)
    cluster.residency.count_copies(record, 1)


def _classification_planned(
    cluster: ClusterState, time: float, event: ev.ClassificationPlanned
) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.ASK)
    cluster.give_key(record, event.key)
    record.profiled_beside = event.beside
    _measured_as(cluster, record, event.like)
    goes_on(record)


def _copies_planned(cluster: ClusterState, time: float, event: ev.CopiesPlanned) -> None:
    record = cluster.decided(time, event.name, event.decision)
    record.profiled_beside = False
    begin_copies(cluster, record, event.key, event.plan, time)


def _measured_as(cluster: ClusterState, record: WorkloadRecord, like: str) -> None:
    if like not in cluster.state.workloads:
        return
    other = cluster.state.workloads[like]
    record.measurements = other.measurements
    if record.measurements is not None and not same_array(record, other):
        # As much work is done by members of an array only.
        record.measurements = replace(record.measurements, total=None)
    cluster.followups.changed(record)  # Others may be measured as this one.


def _queued(cluster: ClusterState, time: float, event: ev.WorkloadQueued) -> None:
    record = cluster.decided(time, event.name, event.decision)
    # Before its rank changes: by that it was entered.
    cluster.leave_unprofiled(record)
    record.queue, record.rank = event.queue, event.rank
    demand = event.decision.numbers.get(DEMAND) if event.decision else None
    cluster.state.account(event.queue).arrive(time, demand)
    cluster.move(time, record, Trigger.ENQUEUE)
    cluster.review_at(record, event.review_at)


def _diverted(cluster: ClusterState, time: float, event: ev.WorkloadDiverted) -> None:
    record = cluster.decided(time, event.name, event.decision)
    cluster.dequeue(record)
    left = cluster.state.account(record.queue).diverted
    left[event.queue] = left.get(event.queue, 0) + 1
    cluster.state.account(event.queue).entered += 1
    record.queue, record.rank, record.deferral = event.queue, event.rank, None
    cluster.enqueue(record)
    cluster.review_at(record, event.review_at)


def _reviewed(cluster: ClusterState, time: float, event: ev.WorkloadReviewed) -> None:
    record = cluster.decided(time, event.name, event.decision)
    cluster.review_at(record, event.review_at)
    if event.review_at is None and record.deferral is ReasonCode.WAITING:
        goes_on(record)
    if record.phase in UNDECIDED:
        cluster.undecided[record.name] = None
    elif event.review_at is None:
        cluster.unpark(record)


def _deferred(cluster: ClusterState, time: float, event: ev.WorkloadDeferred) -> None:
    record = _defer(cluster, time, event.name, event.decision)
    record.retry_at = None
    if record.phase is Phase.QUEUED:
        record.planned = ()  # It is migrated nowhere: it waits as others do.
        cluster.arriving.pop(record.name, None)
    if event.decision.reason is ReasonCode.PREEMPTING:
        reserve(cluster, record, (*record.reserved, *event.placements))
    else:
        if event.placements or record.recommended:
            recommend(cluster, record, event.placements)
        reserve(cluster, record, ())  # It waits as others do.
    if event.until is not None:
        cluster.wait_until(record, event.until)
    elif record.phase is Phase.ADMITTED and record.deferral is not ReasonCode.DEPENDENCY:
        cluster.await_profiling(record)


def _placed(cluster: ClusterState, time: float, event: ev.WorkloadPlaced) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.PLACE)
    cluster.give_key(record, event.key)
    record.placements, record.planned = event.placements, ()
    record.granted = event.placements
    goes_on(record)
    record.tracking = None  # Of its former start: it says nothing about its new servers.
    record.predicted = event.decision.predicted
    cluster.state.searches.add(event.decision.numbers)
    cluster.state.account(record.queue).place(record.name, time)
    if record.adjustments and record.adjustments[-1].kind in _ELSEWHERE:
        record.adjustments[-1] = replace(record.adjustments[-1], after=record.placements)
    cluster.residency.settle_in(record)
    cluster.residency.neighbors_change(record, time)


def _allocation_planned(cluster: ClusterState, time: float, event: ev.AllocationPlanned) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.ADJUST)
    kind = AdjustmentKind.THROTTLED if event.throttled_for else AdjustmentKind.RESIZED
    keep_adjustment(cluster, time, record, kind, event.decision, event.placements)
    if event.throttled_for:
        throttle(cluster, time, record, event)
    goes_on(record)
    before = {placement.server for placement in record.placements}
    joining = sum(placement.server not in before for placement in event.placements)
    lost = record.lost
    cluster.want_resize(record, wanted=False)
    record.lost, record.replacing = lost, min(joining, len(lost))
    if lost[joining:]:  # What is not replaced is asked for again when there may be room.
        cluster.want_resize(record, wanted=True)
    # Measurements so far were under the old allocation.
    track_again(record, time)
    record.predicted = event.decision.predicted
    if event.throttled_for or ceiling_of(record.placements) is None:  # What is given back is free.
        count_adjustment(cluster, time)
    cluster.residency.resize(record, event.placements)
    review_servers(cluster, record)


def _reclassification_planned(
    cluster: ClusterState, time: float, event: ev.ReclassificationPlanned
) -> None:
    record = cluster.decided(time, event.name, event.decision)
    keep_adjustment(cluster, time, record, AdjustmentKind.RECLASSIFIED, event.decision)
    if event.measurements is not None:
        record.measurements = event.measurements
        cluster.followups.changed(record)
    record.reclassifying, record.observed, record.classified_at = True, {}, time
    cluster.touched[record.name] = None


def _suspended(cluster: ClusterState, time: float, event: ev.WorkloadSuspended) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.SUSPEND)
    keep_adjustment(cluster, time, record, AdjustmentKind.SUSPENDED, event.decision, ())
    record.suspensions += 1
    record.reason, record.message = event.decision.reason, event.decision.message
    helped = cluster.state.workloads[event.suspended_for]
    tracking, performance = helped.tracking, helped.performance
    record.suspended_for, record.ineffective_at = event.suspended_for, None
    record.suspended_at_performance = tracking.normalized_performance if tracking else 0.0
    record.suspended_at_answered = performance.answered_share if performance else None
    record.suspended_at_busy = None
    shares = performance.busy_shares(helped.placements) if performance else {}
    if here := shares.get(record.placements[0].server):
        record.suspended_at_busy = here / min(shares.values())
    relieve(cluster, time, event.suspended_for, event.decision)
    count_adjustment(cluster, time)


def _resumed(cluster: ClusterState, time: float, event: ev.WorkloadResumed) -> None:
    record = cluster.decided(time, event.name, event.decision, Trigger.RESUME)
    keep_adjustment(cluster, time, record, AdjustmentKind.RESUMED, event.decision)
    goes_on(record)
    if event.ineffective:
        # It was not the cause, so its next suspension is no longer than this one.
        record.suspensions -= 1
        record.ineffective_at = time


def _defer(cluster: ClusterState, time: float, name: str, decision: Decision) -> WorkloadRecord:
    record = cluster.decided(time, name, decision)
    record.deferral = decision.reason
    record.reason, record.message = decision.reason, decision.message
    return record


def _allocation_unchanged(
    cluster: ClusterState, time: float, event: ev.AllocationUnchanged
) -> None:
    record = cluster.decided(time, event.name, event.decision)
    record.deferral = event.decision.reason
    if event.decision.predicted is not None:
        # Made anew, for a target that was changed or after a reclassification.
        record.predicted = event.decision.predicted
        if record.tracking is not None:
            record.tracking = record.tracking.as_predicted()
        cluster.residency.ends.forget(held(record))
        review_servers(cluster, record)
    if not event.decision.accepted:
        keep_adjustment(cluster, time, record, AdjustmentKind.UNCHANGED, event.decision)
        record.reason, record.message = event.decision.reason, event.decision.message
    wanted = record.resize_wanted and record.deferral is ReasonCode.NO_ROOM
    cluster.want_resize(record, wanted=wanted)


def _targets_tracked(cluster: ClusterState, _time: float, event: ev.TargetsTracked) -> None:
    servers: dict[str, None] = {}
    for sample in event.samples:
        record = cluster.state.workloads[sample.name]
        _track(record, sample)
        servers.update((placement.server, None) for placement in held(record))
    for server in servers:
        cluster.residency.watch(server)


def _track(record: WorkloadRecord, sample: Tracked) -> None:
    violated = record.tracking is not None and record.tracking.status < 0
    tracking = record.tracking = sample.tracking
    _notice_change(record, sample.level)
    _note_load(record, sample.demand)
    record.level, record.demand = sample.level, sample.demand
    for seen in sample.observations:
        entries = record.observed.setdefault(seen.quantity, {})
        entries.pop(seen.cpu_millicpus, None)
        entries[seen.cpu_millicpus] = seen.entry
        for cpu in seen.forgets:
            entries.pop(cpu, None)
    if sample.follow_up and tracking is not None and record.adjustments:
        after = tracking.normalized_performance
        record.adjustments[-1] = replace(record.adjustments[-1], performance_after=after)
    status = None if tracking is None else tracking.status
    if status == 0 or (violated and status != -1):
        goes_on(record)


def _note_load(record: WorkloadRecord, demand: DemandTracking | None) -> None:
    """Keep the load that was told last, once."""
    before = record.demand.seen_at if record.demand else None
    if demand is not None and demand.seen_per_second is not None and demand.seen_at != before:
        history = record.load_history or LoadHistory()
        record.load_history = history.with_measurement(demand.seen_at, demand.seen_per_second)


def _notice_change(record: WorkloadRecord, level: LevelTracking | None) -> None:
    """Keep the largest change of its level since its scores were measured."""
    noticed = record.level.changed_at if record.level else None
    if level is None or level.changed_at is None or level.changed_at == noticed:
        return
    most = record.left_level
    if most is None or abs(level.shift) >= abs(most.shift):
        record.left_level = LevelChange(level.changed_at, level.shift)


def _tracking_lost(cluster: ClusterState, _time: float, event: ev.TrackingLost) -> None:
    for name in event.names:
        record = cluster.state.workloads[name]
        record.tracking = None
        cluster.residency.watch_all(record)


# --- decisions from outside the core -------------------------------------------------------


def _placement_delegated(cluster: ClusterState, time: float, event: ev.PlacementDelegated) -> None:
    record = cluster.decided(time, event.name, event.decision)
    cluster.state.next_question += 1
    record.question, record.decider = event.key, event.decider
    cluster.delegate(record)


def _placement_proposed(cluster: ClusterState, _time: float, event: ev.PlacementProposed) -> None:
    record = cluster.asked_by(event.key)
    if record is not None:
        cluster.undelegate(record)


def _placement_conflicted(
    cluster: ClusterState, time: float, event: ev.PlacementConflicted
) -> None:
    _defer(cluster, time, event.name, event.decision)
    cluster.queues.room_changed = True


# --- reports about workloads -----------------------------------------------------------


def _resize_answered(
    cluster: ClusterState, time: float, event: ev.AllocationResized | ev.ResizeFailed
) -> None:
    record = cluster.record_of(event.key)
    if record is None or not answers_resize(event, record):
        return
    resized = isinstance(event, ev.AllocationResized)
    cluster.residency.settle(record, event.placements if resized else record.placements)
    index_ceiling(cluster, record)
    cluster.move(time, record, Trigger.SETTLE)
    replacing, record.replacing = record.replacing, 0
    if resized:
        record.lost, record.resizes_failed = record.lost[replacing:], 0
    elif replacing:
        replace_later(cluster, record, time)
    if isinstance(event, ev.ResizeFailed):
        record.reason, record.message = "resize-failed", event.reason
        keep_adjustment(cluster, time, record, AdjustmentKind.UNCHANGED, record)
    pause_if_running(cluster, time, record)


def _measured(cluster: ClusterState, time: float, event: ev.ServerMeasured) -> None:
    for sample in event.samples:
        if record := cluster.running(sample.key):
            before = record.performance.measured_at if record.performance else None
            record.performance = Performance(
                time, sample.readings, sample.silent, before, sample.cpu_by_server
            )


def _profiling_finished(cluster: ClusterState, time: float, event: ev.ProfilingFinished) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    measured = _stamped(cluster, record, time, event.measurements)
    peak_bytes = measured.memory_peak_bytes
    see_peak(cluster.state, record.workload, peak_bytes, MemorySource.PROFILED)
    if event.key != record.key:
        _copies_told(cluster, time, record, measured)
        return
    if record.phase is not Phase.PROFILING:
        return
    known = record.measurements if record.profiling and record.profiling.completes else None
    record.measurements = measured if known is None else known.completed_by(measured)
    end_copies(cluster, record, time)
    cluster.reported(time, event)


def _copies_told(
    cluster: ClusterState, time: float, record: WorkloadRecord, measured: Measurements
) -> None:
    """Of a workload that runs already: it is classified again."""
    known = record.measurements
    is_known = known is not None and known.performance
    record.measurements = known.completed_by(measured) if known and is_known else measured
    cluster.followups.changed(record)  # Others may be measured as this one.
    end_copies(cluster, record, time)
    record.reclassifying, record.classified_at = True, time


def _stamped(
    cluster: ClusterState, record: WorkloadRecord, time: float, measured: Measurements
) -> Measurements:
    """With the time and platform of the measurement, which an engine need not state."""
    server = cluster.state.servers.get(record.plan.server) if record.plan else None
    platform = measured.platform or (server.platform.name if server else "")
    performance = {
        quantity: {cpu: entry.stamped(time) for cpu, entry in row.items()}
        for quantity, row in measured.performance.items()
    }
    further = {
        quantity: tuple(replace(one, entry=one.entry.stamped(time)) for one in row)
        for quantity, row in measured.further.items()
    }
    return replace(
        measured,
        performance=performance,
        tolerated={source: entry.stamped(time) for source, entry in measured.tolerated.items()},
        caused={source: entry.stamped(time) for source, entry in measured.caused.items()},
        platform=platform,
        further=further,
        neighbors=dict(_neighbors(cluster, record)),
    )


def _neighbors(cluster: ClusterState, record: WorkloadRecord) -> Iterator[tuple[str, PairProfile]]:
    """What pressed on the copies as they ended, by platform."""
    plan, residency = record.plan, cluster.residency
    if plan is None or residency.contention is None:
        return
    alone = (run.servers[0] for run in plan.further if len(run.servers) == 1)
    for name in (plan.server, *alone):
        server = cluster.state.servers.get(name)
        row = residency.columns.row(name) if server else None
        if server and row is not None and (pressure := residency.contention.pressure_on(row)):
            yield server.platform.name, pressure


def _profiling_failed(cluster: ClusterState, time: float, event: ev.ProfilingFailed) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    if event.out_of_memory_bytes:
        see_kill(cluster.state, record.workload, event.out_of_memory_bytes)
    if event.key != record.key:
        end_copies(cluster, record, time)
        return
    if record.phase is not Phase.PROFILING:
        # Logs of version 0.1 say so of a classifier's failure, too.
        _classification_failed(cluster, time, ev.ClassificationFailed(event.key, event.reason))
        return
    completes = record.profiling is not None and record.profiling.completes
    if not record.revoking and not (completes and record.measurements):
        record.measurements = Measurements(silent={"copy": event.reason})
    end_copies(cluster, record, time)
    cluster.reported(time, event)
    if event.fatal and not record.revoking:
        record.reason, record.message = "start-failed", event.reason


def _classification_failed(
    cluster: ClusterState, time: float, event: ev.ClassificationFailed
) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    if record.reclassifying:
        record.reclassifying = False
        cluster.touched[record.name] = None
    elif cluster.reported(time, event) is not None and not record.revoking:
        record.reason, record.message = "profiling-failed", event.reason


def _classified(cluster: ClusterState, time: float, event: ev.WorkloadClassified) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    if not record.reclassifying:
        cluster.reported(time, event)
    record.classification, record.reclassifying = event.classification, False
    cluster.touched[record.name] = None
    for placement in held(record) if record.on_server else ():
        cluster.residency.review(placement.server)
        # Others may fit with it now.
        cluster.queues.room_changed |= bool(event.classification.pairs)


_APPLY: dict[type, Callable[[ClusterState, float, Any], object]] = {
    **RUNS,
    **PROBES,
    **SERVERS,
    **EVICTIONS,
    **OFFERS,
    ev.EngineSynced: _engine_synced,
    ev.StartAccepted: ClusterState.reported,
    ev.AllocationResized: _resize_answered,
    ev.ResizeFailed: _resize_answered,
    ev.ServerMeasured: _measured,
    ev.ProfilingFinished: _profiling_finished,
    ev.ProfilingFailed: _profiling_failed,
    ev.WorkloadClassified: _classified,
    ev.ClassificationFailed: _classification_failed,
    ev.PlacementProposed: _placement_proposed,
    ev.ManagerStarted: _manager_started,
    ev.HistoryLost: _history_lost,
    ev.TimePassed: _time_passed,
    ev.WorkloadUpdated: _updated,
    ev.WorkloadRevoked: _revoked,
    ev.WorkloadAdmitted: _admitted,
    ev.WorkloadRejected: _rejected,
    ev.ProfilingPlanned: _profiling_planned,
    ev.CopiesPlanned: _copies_planned,
    ev.ClassificationPlanned: _classification_planned,
    ev.WorkloadQueued: _queued,
    ev.WorkloadDiverted: _diverted,
    ev.WorkloadReviewed: _reviewed,
    ev.WorkloadDeferred: _deferred,
    ev.WorkloadPlaced: _placed,
    ev.AllocationPlanned: _allocation_planned,
    ev.AllocationUnchanged: _allocation_unchanged,
    ev.ReclassificationPlanned: _reclassification_planned,
    ev.WorkloadSuspended: _suspended,
    ev.WorkloadResumed: _resumed,
    ev.TargetsTracked: _targets_tracked,
    ev.TrackingLost: _tracking_lost,
    ev.PolicyNoted: _policy_noted,
    ev.PlacementDelegated: _placement_delegated,
    ev.PlacementConflicted: _placement_conflicted,
}
