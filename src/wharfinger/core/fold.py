"""The fold: how each event changes what the core knows. Nothing is decided or computed here.

One function an event, over what ``ClusterState`` offers; ``apply`` finds it. ``Manager`` calls it
with what it decided; a replay calls it alone. It reads events and state, and no setting but those
that the log holds: so a log gives the same state whatever the program's own settings are by then.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wharfinger.core import adjustments
from wharfinger.core import events as ev
from wharfinger.core.cluster_state import UNDECIDED, ClusterState
from wharfinger.core.lifecycle import Phase, Trigger
from wharfinger.core.settings import settings_in
from wharfinger.core.state import AdjustmentKind, ServerOrder, WorkloadRecord, held
from wharfinger.core.tracking import Tracked
from wharfinger.core.triggers import answers_resize, trigger_of
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.performance import Performance
from wharfinger.model.profile import Measurements

MINUTE_SECONDS = 60.0


def apply(world: ClusterState, time: float, event: ev.Event) -> None:
    """Fold one event into the state; an event that no longer applies changes nothing."""
    _APPLY[type(event)](world, time, event)


# --- servers -----------------------------------------------------------------------


def _server_reported(world: ClusterState, _time: float, event: ev.ServerReported) -> None:
    server = event.server
    joins = server.name not in world.state.servers
    if server.name in world.state.releasing:
        server = replace(server, accepting=False)
    world.state.servers[server.name] = server
    world.put_server(server, joins=joins)
    world.servers_changed()


def _server_left(world: ClusterState, _time: float, event: ev.ServerLeft) -> None:
    server = world.state.servers.pop(event.name, None)
    if server is None:
        return
    world.state.acquired.pop(event.name, None)
    if event.name in world.state.releasing:
        world.state.releasing.remove(event.name)
    world.put_server(server, joins=True)  # Behind those that are there, as in a new table.
    world.columns.close(event.name)
    world.drop_if_empty(event.name)
    world.servers_changed()


# --- the manager and its engine ------------------------------------------------------


def _manager_started(world: ClusterState, _time: float, event: ev.ManagerStarted) -> None:
    state = world.state
    state.nonces.append(event.nonce)
    state.version, state.engine = event.version, event.engine
    state.policy, state.admission = event.policy, event.admission
    state.capabilities = event.capabilities
    state.settings = {part: dict(values) for part, values in event.settings.items()}
    state.synced = False


def _engine_synced(world: ClusterState, time: float, event: ev.EngineSynced) -> None:
    present = set(event.servers)
    for name in [name for name in world.state.servers if name not in present]:
        _server_left(world, time, ev.ServerLeft(name, "the engine has it no more"))
    ours = set(world.state.nonces)
    unknown = [key for key in event.known_keys if key not in world.by_key]
    world.state.strays = [key for key in unknown if key.rpartition("-")[2] not in ours]
    world.dropped_keys.extend(key for key in unknown if key.rpartition("-")[2] in ours)
    world.state.synced = True
    world.room_changed = True
    # Whatever was asked of an earlier engine process is asked again: keys make that safe.
    for record in world.state.workloads.values():
        if not record.ended:
            world.touched[record.name] = None


def _time_passed(world: ClusterState, _time: float, _event: ev.TimePassed) -> None:
    world.room_changed = True


def _policy_noted(world: ClusterState, _time: float, event: ev.PolicyNoted) -> None:
    world.state.notes[event.part] = event.note


def _history_lost(world: ClusterState, _time: float, _event: ev.HistoryLost) -> None:
    """What is gone can't be brought back, but it may have held starts.

    So nothing that an earlier process gave a key to is known to be ours any more: what the
    engine knows beyond the records is a stray, and not to be forgotten.
    """
    del world.state.nonces[:-1]


# --- requests ------------------------------------------------------------------------


def _submitted(world: ClusterState, time: float, event: ev.WorkloadSubmitted) -> None:
    record = WorkloadRecord(event.workload, world.state.next_uid, time, phase_since=time)
    world.state.next_uid += 1
    world.state.workloads[record.name] = record
    world.index(record)


def _updated(world: ClusterState, _time: float, event: ev.WorkloadUpdated) -> None:
    record = world.state.workloads[event.workload.name]
    world.leave_line(record)
    world.drop_question(record)  # It was about the workload as it was before.
    world.leave_unprofiled(record)
    changed = event.workload.reservation != record.workload.reservation
    wanted = record.on_server and (record.resize_wanted or changed)
    world.want_resize(record, wanted=wanted)
    record.workload = event.workload
    record.deferral = None
    if record.phase is Phase.QUEUED:
        world.join_line(record)
    elif record.phase in UNDECIDED:
        world.undecided[record.name] = None
    for placement in record.placements if record.on_server else ():
        world.review_contention(placement.server)
    world.touched[record.name] = None


def _revoked(world: ClusterState, time: float, event: ev.WorkloadRevoked) -> None:
    record = world.state.workloads[event.name]
    record.revoking = True
    record.reason, record.message = "revoked", "its user revoked it"
    # With a key out there, the engine has to say first that nothing runs any more.
    if not record.on_server and record.profiling is None:
        world.move(time, record, Trigger.REVOKE)
    world.touched[record.name] = None


def _forgotten(world: ClusterState, _time: float, event: ev.WorkloadForgotten) -> None:
    record = world.state.workloads.pop(event.name)
    world.by_key.pop(record.key, None)
    if record.key:
        world.dropped_keys.append(record.key)
    entry = (record.ended_order, record.uid, record.name)
    world.ended.remove(entry)


# --- decisions -----------------------------------------------------------------------


def _admitted(world: ClusterState, time: float, event: ev.WorkloadAdmitted) -> None:
    world.decided(time, event.name, event.decision, Trigger.ADMIT)


def _rejected(world: ClusterState, time: float, event: ev.WorkloadRejected) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.REJECT)
    record.reason, record.message = event.decision.reason, event.decision.message


def _profiling_planned(world: ClusterState, time: float, event: ev.ProfilingPlanned) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.PROFILE)
    world.give_key(record, event.key)
    record.profiling = event.plan
    _goes_on(record)
    world.count_copies(record, 1)


def _classification_planned(
    world: ClusterState, time: float, event: ev.ClassificationPlanned
) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.ASK)
    world.give_key(record, event.key)
    _goes_on(record)


def _queued(world: ClusterState, time: float, event: ev.WorkloadQueued) -> None:
    record = world.state.workloads[event.name]
    if event.decision is not None:
        record.remember(time, event.decision)
    record.queue = event.queue
    world.move(time, record, Trigger.ENQUEUE)
    world.review_at(record, event.review_at)


def _diverted(world: ClusterState, time: float, event: ev.WorkloadDiverted) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    world.leave_line(record)
    record.queue, record.deferral = event.queue, None
    world.join_line(record)
    world.review_at(record, event.review_at)


def _reviewed(world: ClusterState, time: float, event: ev.WorkloadReviewed) -> None:
    record = world.state.workloads[event.name]
    if event.decision is not None:
        record.remember(time, event.decision)
    world.review_at(record, event.review_at)
    if event.review_at is None and record.deferral is ReasonCode.WAITING:
        _goes_on(record)
    if record.phase in UNDECIDED:
        world.undecided[record.name] = None
    elif event.review_at is None:
        world.unpark(record)


def _deferred(world: ClusterState, time: float, event: ev.WorkloadDeferred) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    record.deferral = event.decision.reason
    record.reason, record.message = event.decision.reason, event.decision.message
    record.retry_at = None
    if event.until is not None:
        world.wait_until(record, event.until)
    elif record.phase is Phase.ADMITTED:
        world.await_profiling(record)


def _placed(world: ClusterState, time: float, event: ev.WorkloadPlaced) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.PLACE)
    world.give_key(record, event.key)
    record.placements, record.planned = event.placements, ()
    _goes_on(record)
    record.predicted = event.decision.predicted
    adjustments.placed_again(record)
    world.settle_in(record)
    world.neighbors_change(record, time)


def _allocation_planned(world: ClusterState, time: float, event: ev.AllocationPlanned) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.ADJUST)
    _keep(world, time, record, AdjustmentKind.RESIZED, event.decision, event.placements)
    _goes_on(record)
    world.want_resize(record, wanted=False)
    # What was measured so far was measured under the old allocation.
    _track_again(record, time)
    record.predicted = event.decision.predicted
    _adjusted(world, time)
    world.resize(record, event.placements)


def _reclassification_planned(
    world: ClusterState, time: float, event: ev.ReclassificationPlanned
) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    _keep(world, time, record, AdjustmentKind.RECLASSIFIED, event.decision)
    if event.measurements is not None:
        record.measurements = event.measurements
    record.reclassifying, record.observed, record.classified_at = True, {}, time
    world.touched[record.name] = None


def _suspended(world: ClusterState, time: float, event: ev.WorkloadSuspended) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.SUSPEND)
    _keep(world, time, record, AdjustmentKind.SUSPENDED, event.decision, ())
    record.suspensions += 1
    record.reason, record.message = event.decision.reason, event.decision.message
    tracking = world.state.workloads[event.suspended_for].tracking
    record.suspended_for, record.ineffective_at = event.suspended_for, None
    record.suspended_at_performance = tracking.normalized_performance if tracking else 0.0
    _relieved(world, time, event.suspended_for, event.decision)


def _resumed(world: ClusterState, time: float, event: ev.WorkloadResumed) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.RESUME)
    _keep(world, time, record, AdjustmentKind.RESUMED, event.decision)
    _goes_on(record)
    if event.ineffective:
        # It was not the cause; so that does not make its next suspension longer either.
        record.suspensions -= 1
        record.ineffective_at = time


def _migrated(world: ClusterState, time: float, event: ev.WorkloadMigrated) -> None:
    record = _stopped(world, time, event.name, event.decision, AdjustmentKind.MIGRATED)
    record.excluded = tuple(p.server for p in record.placements)
    record.migrations += 1
    if event.placements:
        record.predicted = event.decision.predicted
    world.hold_destination(record, event.placements)


def _preempted(world: ClusterState, time: float, event: ev.WorkloadPreempted) -> None:
    record = _stopped(world, time, event.name, event.decision, AdjustmentKind.PREEMPTED)
    world.leave_for(record, event.preempted_for)


def _stopped(
    world: ClusterState, time: float, name: str, decision: Decision, kind: AdjustmentKind
) -> WorkloadRecord:
    """It is stopped, to be started again."""
    record = world.decided(time, name, decision, Trigger.MIGRATE)
    _keep(world, time, record, kind, decision, ())
    record.reason, record.message = decision.reason, decision.message
    record.adjusted_at, record.tracking = time, None
    _adjusted(world, time)
    world.watch_all(record)
    return record


def _relieved(world: ClusterState, time: float, name: str, decision: Decision) -> None:
    """A neighbor was suspended for this one's sake: that needs time to show."""
    record = world.state.workloads[name]
    record.remember(time, decision)
    _keep(world, time, record, AdjustmentKind.RELIEVED, decision)
    _track_again(record, time)
    _adjusted(world, time)
    world.watch_all(record)


def _goes_on(record: WorkloadRecord) -> None:
    """Nothing keeps it waiting any more."""
    record.deferral, record.reason, record.message = None, "", ""


def _track_again(record: WorkloadRecord, time: float) -> None:
    record.adjusted_at = time
    if record.tracking is not None:
        record.tracking = record.tracking.restarted(time)


def _keep(
    world: ClusterState,
    time: float,
    record: WorkloadRecord,
    kind: AdjustmentKind,
    decision: Decision,
    after: tuple[Placement, ...] | None = None,
) -> None:
    reason, message = decision.reason, decision.message
    adjustments.keep(world.state, record, time, kind, reason, message, after)


def _adjusted(world: ClusterState, time: float) -> None:
    recent = [at for at in world.state.adjusted_at if abs(time - at) < MINUTE_SECONDS]
    world.state.adjusted_at = [*recent, time]


def _allocation_unchanged(world: ClusterState, time: float, event: ev.AllocationUnchanged) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    record.deferral = event.decision.reason
    if not event.decision.accepted:
        _keep(world, time, record, AdjustmentKind.UNCHANGED, event.decision)
        record.reason, record.message = event.decision.reason, event.decision.message
    # For want of room it is tried again when there is some.
    wanted = record.resize_wanted and record.deferral is ReasonCode.NO_ROOM
    world.want_resize(record, wanted=wanted)


def _targets_tracked(world: ClusterState, _time: float, event: ev.TargetsTracked) -> None:
    servers: dict[str, None] = {}
    for sample in event.samples:
        record = world.state.workloads[sample.name]
        _track(record, sample)
        servers.update((placement.server, None) for placement in held(record))
    for server in servers:
        world.watch(server)


def _track(record: WorkloadRecord, sample: Tracked) -> None:
    violated = record.tracking is not None and record.tracking.status < 0
    tracking = record.tracking = sample.tracking
    for seen in sample.observations:
        entries = record.observed.setdefault(seen.quantity, {})
        entries.pop(seen.cpu_millicpus, None)
        entries[seen.cpu_millicpus] = seen.entry
        for cpu in seen.forgets:
            entries.pop(cpu, None)
    if sample.follow_up and tracking is not None:
        adjustments.follow_up(record, tracking.normalized_performance)
    status = None if tracking is None else tracking.status
    if status == 0 or (violated and status != -1):
        _goes_on(record)


def _tracking_lost(world: ClusterState, _time: float, event: ev.TrackingLost) -> None:
    for name in event.names:
        record = world.state.workloads[name]
        record.tracking = None
        world.watch_all(record)


# --- servers that come and go ------------------------------------------------------------


def _server_ordered(world: ClusterState, time: float, event: ev.ServerOrdered) -> None:
    world.state.next_order += 1
    order = ServerOrder(event.key, event.platform, event.ordered_for, time)
    world.state.orders[event.key] = order


def _server_acquired(world: ClusterState, time: float, event: ev.ServerAcquired) -> None:
    order = world.state.orders.pop(event.key, None)
    if order is not None:
        world.state.acquired[event.server.name] = time
        world.state.not_acquired.pop(order.platform, None)
        _server_reported(world, time, ev.ServerReported(event.server))


def _acquisition_failed(world: ClusterState, time: float, event: ev.AcquisitionFailed) -> None:
    order = world.state.orders.pop(event.key, None)
    if order is None:
        return
    world.state.not_acquired[order.platform] = time
    record = world.state.workloads.get(order.ordered_for)
    if record is not None and record.deferral is ReasonCode.ACQUIRING:
        record.reason, record.message = "acquisition-failed", event.reason
    world.servers_changed()


def _server_released(world: ClusterState, time: float, event: ev.ServerReleased) -> None:
    server = world.state.servers.get(event.name)
    if server is not None and event.name not in world.state.releasing:
        world.state.releasing.append(event.name)
        _server_reported(world, time, ev.ServerReported(replace(server, accepting=False)))


# --- decisions from outside the core -------------------------------------------------------


def _placement_delegated(world: ClusterState, time: float, event: ev.PlacementDelegated) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    world.state.next_question += 1
    record.question, record.decider = event.key, event.decider
    world.delegate(record)


def _placement_proposed(world: ClusterState, _time: float, event: ev.PlacementProposed) -> None:
    record = world.asked_by(event.key)
    if record is not None:
        world.undelegate(record)


def _placement_conflicted(world: ClusterState, time: float, event: ev.PlacementConflicted) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    record.deferral = event.decision.reason
    record.reason, record.message = event.decision.reason, event.decision.message
    world.room_changed = True


# --- reports about workloads -----------------------------------------------------------


def _start_accepted(world: ClusterState, time: float, event: ev.StartAccepted) -> None:
    world.reported(time, event)


def _started(world: ClusterState, time: float, event: ev.WorkloadStarted) -> None:
    record = world.reported(time, event)
    if record is not None:
        record.starts += 1
        record.started_at = _when(event.started_at, record.submitted_at, time)
        record.handle, record.performance, record.tracking = event.handle, None, None
        record.adjusted_at, record.excluded = None, ()


def _start_failed(world: ClusterState, time: float, event: ev.StartFailed) -> None:
    record = world.record_of(event.key)
    if record is None:
        return
    if not record.on_server:
        world.reported(time, event)  # a profiling run that was stopped before it began
        return
    if not record.revoking:
        record.reason, record.message = "start-failed", event.reason
    # Of several servers it is unknown on which it failed.
    servers = (placement.server for placement in record.placements)
    settings = settings_in(world.state)
    trigger = trigger_of(event, record, settings)
    record.start_failures += 1
    if trigger is Trigger.RETRY:
        record.excluded = tuple(dict.fromkeys((*record.excluded, *servers)))
        backoff = min(settings.max_backoff_seconds, 2.0 ** (record.start_failures - 1))
        record.not_before = time + backoff
    world.move(time, record, trigger)


def _finished(world: ClusterState, time: float, event: ev.WorkloadFinished) -> None:
    record = world.reported(time, event)
    if record is None or record.phase is Phase.QUEUED:  # stopped to be started again
        return
    record.exit_code, record.signal = event.exit_code, event.signal
    record.cpu_seconds = event.cpu_seconds
    earliest = record.submitted_at if record.started_at is None else record.started_at
    record.ended_at = _when(event.ended_at, earliest, time)
    if not record.revoking:
        record.reason = event.reason
        how = (
            f"exit status {event.exit_code}"
            if event.signal is None
            else f"ended by signal {event.signal}"
        )
        record.message = how if event.reason == "exited" else f"{event.reason}, {how}"


def _vanished(world: ClusterState, time: float, event: ev.WorkloadVanished) -> None:
    record = world.reported(time, event)
    if record is not None and not record.revoking:
        record.reason, record.message = "vanished", event.reason


def _resized(world: ClusterState, time: float, event: ev.AllocationResized) -> None:
    world.settle(time, event, event.placements)


def _resize_failed(world: ClusterState, time: float, event: ev.ResizeFailed) -> None:
    record = world.record_of(event.key)
    if record is not None and answers_resize(event, record):
        world.settle(time, event, record.placements)
        record.reason, record.message = "resize-failed", event.reason
        failed = AdjustmentKind.UNCHANGED
        adjustments.keep(world.state, record, time, failed, record.reason, event.reason)


def _measured(world: ClusterState, time: float, event: ev.ServerMeasured) -> None:
    for sample in event.samples:
        if record := world.running(sample.key):
            record.performance = Performance(time, sample.readings, sample.silent)


def _profiling_finished(world: ClusterState, time: float, event: ev.ProfilingFinished) -> None:
    record = world.record_of(event.key)
    if record is None or record.phase is not Phase.PROFILING:
        return
    record.measurements = _stamped(world, record, time, event.measurements)
    world.end_copy(record)
    world.reported(time, event)


def _stamped(
    world: ClusterState, record: WorkloadRecord, time: float, found: Measurements
) -> Measurements:
    """With when and on what platform it was measured, which an engine need not say."""
    server = world.state.servers.get(record.profiling.server) if record.profiling else None
    platform = found.platform or (server.platform.name if server else "")
    performance = {
        quantity: {cpu: entry.stamped(time) for cpu, entry in row.items()}
        for quantity, row in found.performance.items()
    }
    further = {
        quantity: tuple(replace(one, entry=one.entry.stamped(time)) for one in row)
        for quantity, row in found.further.items()
    }
    return replace(
        found,
        performance=performance,
        tolerated={source: entry.stamped(time) for source, entry in found.tolerated.items()},
        caused={source: entry.stamped(time) for source, entry in found.caused.items()},
        platform=platform,
        further=further,
    )


def _profiling_failed(world: ClusterState, time: float, event: ev.ProfilingFailed) -> None:
    record = world.record_of(event.key)
    if record is None:
        return
    if record.phase is not Phase.PROFILING:
        # Logs of version 0.1 say so of a classifier's failure, too.
        _classification_failed(world, time, ev.ClassificationFailed(event.key, event.reason))
        return
    if not record.revoking:
        record.measurements = Measurements(silent={"copy": event.reason})
    world.end_copy(record)
    world.reported(time, event)


def _classification_failed(
    world: ClusterState, time: float, event: ev.ClassificationFailed
) -> None:
    record = world.record_of(event.key)
    if record is None:
        return
    if record.reclassifying:
        record.reclassifying = False
        world.touched[record.name] = None
    elif world.reported(time, event) is not None and not record.revoking:
        record.reason, record.message = "profiling-failed", event.reason


def _classified(world: ClusterState, time: float, event: ev.WorkloadClassified) -> None:
    record = world.record_of(event.key)
    if record is None:
        return
    if not record.reclassifying:
        world.reported(time, event)
    record.classification, record.reclassifying = event.classification, False
    world.touched[record.name] = None
    for placement in held(record) if record.on_server else ():
        world.review(placement.server)
        # Others may get on with it now: they are looked at again.
        world.room_changed |= bool(event.classification.pairs)


def _when(said: float | None, earliest: float, now: float) -> float:
    """When something happened that is reported ``now``; clocks may disagree a little."""
    return now if said is None else max(earliest, min(said, now))


_APPLY: dict[type, Callable[[ClusterState, float, Any], None]] = {
    ev.ServerReported: _server_reported,
    ev.ServerLeft: _server_left,
    ev.EngineSynced: _engine_synced,
    ev.StartAccepted: _start_accepted,
    ev.WorkloadStarted: _started,
    ev.StartFailed: _start_failed,
    ev.WorkloadFinished: _finished,
    ev.WorkloadVanished: _vanished,
    ev.AllocationResized: _resized,
    ev.ResizeFailed: _resize_failed,
    ev.ServerMeasured: _measured,
    ev.ProfilingFinished: _profiling_finished,
    ev.ProfilingFailed: _profiling_failed,
    ev.WorkloadClassified: _classified,
    ev.ClassificationFailed: _classification_failed,
    ev.ServerAcquired: _server_acquired,
    ev.AcquisitionFailed: _acquisition_failed,
    ev.PlacementProposed: _placement_proposed,
    ev.ManagerStarted: _manager_started,
    ev.HistoryLost: _history_lost,
    ev.TimePassed: _time_passed,
    ev.WorkloadSubmitted: _submitted,
    ev.WorkloadUpdated: _updated,
    ev.WorkloadRevoked: _revoked,
    ev.WorkloadForgotten: _forgotten,
    ev.WorkloadAdmitted: _admitted,
    ev.WorkloadRejected: _rejected,
    ev.ProfilingPlanned: _profiling_planned,
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
    ev.WorkloadMigrated: _migrated,
    ev.WorkloadPreempted: _preempted,
    ev.TargetsTracked: _targets_tracked,
    ev.TrackingLost: _tracking_lost,
    ev.PolicyNoted: _policy_noted,
    ev.ServerOrdered: _server_ordered,
    ev.ServerReleased: _server_released,
    ev.PlacementDelegated: _placement_delegated,
    ev.PlacementConflicted: _placement_conflicted,
}
