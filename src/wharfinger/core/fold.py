"""The fold: how each event changes what the core knows. Nothing is decided here.

One function an event, over what ``World`` offers; ``apply`` finds it. ``Manager`` calls it with
what it decided; a replay calls it alone.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wharfinger.core import adjustments
from wharfinger.core import events as ev
from wharfinger.core.adaptation import (
    ADJUSTMENTS_PER_MINUTE,
    corrected,
    follow,
    misses,
    observe,
    started_over,
)
from wharfinger.core.cluster_state import UNDECIDED, World
from wharfinger.core.lifecycle import Phase, Trigger
from wharfinger.core.queues import MAX_BACKOFF_SECONDS
from wharfinger.core.state import AdjustmentKind, WorkloadRecord, held
from wharfinger.core.triggers import answers_resize, trigger_of
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.performance import Performance
from wharfinger.model.profile import Measurements


def apply(world: World, time: float, event: ev.Event) -> None:
    """Fold one event into the state; an event that no longer applies changes nothing."""
    _APPLY[type(event)](world, time, event)


# --- servers -----------------------------------------------------------------------


def _server_reported(world: World, _time: float, event: ev.ServerReported) -> None:
    joins = event.server.name not in world.state.servers
    world.state.servers[event.server.name] = event.server
    world.put_server(event.server, joins=joins)
    world.servers_changed()


def _server_left(world: World, _time: float, event: ev.ServerLeft) -> None:
    if world.state.servers.pop(event.name, None) is None:
        return
    world.columns.close(event.name)
    world.review_contention(event.name)
    world.drop_if_empty(event.name)
    world.servers_changed()


# --- the manager and its engine ------------------------------------------------------


def _manager_started(world: World, _time: float, event: ev.ManagerStarted) -> None:
    state = world.state
    state.nonces.append(event.nonce)
    state.version, state.engine = event.version, event.engine
    state.policy, state.admission = event.policy, event.admission
    state.capabilities = event.capabilities
    state.synced = False


def _engine_synced(world: World, time: float, event: ev.EngineSynced) -> None:
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


def _time_passed(world: World, time: float, _event: ev.TimePassed) -> None:
    world.forget_stale(time)
    world.room_changed = True


def _history_lost(world: World, _time: float, _event: ev.HistoryLost) -> None:
    """What is gone can't be brought back, but it may have held starts.

    So nothing that an earlier process gave a key to is known to be ours any more: what the
    engine knows beyond the records is a stray, and not to be forgotten.
    """
    del world.state.nonces[:-1]


# --- requests ------------------------------------------------------------------------


def _submitted(world: World, time: float, event: ev.WorkloadSubmitted) -> None:
    record = WorkloadRecord(event.workload, world.state.next_uid, time, phase_since=time)
    world.state.next_uid += 1
    world.state.workloads[record.name] = record
    world.index(record)


def _updated(world: World, _time: float, event: ev.WorkloadUpdated) -> None:
    record = world.state.workloads[event.workload.name]
    world.leave_line(record)
    world.leave_unprofiled(record)
    changed = event.workload.reservation != record.workload.reservation
    wanted = record.on_server and (record.resize_wanted or changed)
    world.want_resize(record, wanted=wanted)
    record.workload = event.workload
    record.held = None
    if record.phase is Phase.QUEUED:
        world.join_line(record)
    elif record.phase in UNDECIDED:
        world.undecided[record.name] = None
    for placement in record.placements if record.on_server else ():
        world.review_contention(placement.server)
    world.touched[record.name] = None


def _revoked(world: World, time: float, event: ev.WorkloadRevoked) -> None:
    record = world.state.workloads[event.name]
    record.revoking = True
    record.reason, record.message = "revoked", "its user revoked it"
    # With a key out there, the engine has to say first that nothing runs any more.
    if not record.on_server and record.profiling is None:
        world.move(time, record, Trigger.REVOKE)
    world.touched[record.name] = None


def _forgotten(world: World, _time: float, event: ev.WorkloadForgotten) -> None:
    record = world.state.workloads.pop(event.name)
    world.by_key.pop(record.key, None)
    if record.key:
        world.dropped_keys.append(record.key)
    entry = (record.ended_order, record.uid, record.name)
    world.ended.remove(entry)


# --- decisions -----------------------------------------------------------------------


def _admitted(world: World, time: float, event: ev.WorkloadAdmitted) -> None:
    world.decided(time, event.name, event.decision, Trigger.ADMIT)


def _rejected(world: World, time: float, event: ev.WorkloadRejected) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.REJECT)
    record.reason, record.message = event.decision.reason, event.decision.message


def _profiling_planned(world: World, time: float, event: ev.ProfilingPlanned) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.PROFILE)
    world.give_key(record, event.key)
    record.profiled, record.profiling = event.plan is None, event.plan
    record.held, record.reason, record.message = None, "", ""
    if event.plan is not None:
        world.count_copies(record, 1)


def _queued(world: World, time: float, event: ev.WorkloadQueued) -> None:
    record = world.state.workloads[event.name]
    record.queue = event.queue
    world.move(time, record, Trigger.ENQUEUE)


def _held(world: World, time: float, event: ev.WorkloadHeld) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    record.held = event.decision.reason
    record.reason, record.message = event.decision.reason, event.decision.message
    if record.phase is Phase.ADMITTED:
        world.await_profiling(record)


def _placed(world: World, time: float, event: ev.WorkloadPlaced) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.PLACE)
    world.give_key(record, event.key)
    record.placements = event.placements
    record.held, record.reason, record.message = None, "", ""
    record.predicted = event.decision.predicted
    adjustments.placed_anew(record)
    world.settle_in(record)
    world.neighbors_change(record, time)
    world.state.last_placed = event.placements[0].server


def _allocation_planned(world: World, time: float, event: ev.AllocationPlanned) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.ADJUST)
    _keep(world, time, record, AdjustmentKind.RESIZED, event.decision, event.placements)
    record.held, record.reason, record.message = None, "", ""
    world.want_resize(record, wanted=False)
    # What was measured so far was measured under the old allocation.
    record.course, record.adjusted_at = started_over(record.course, time), time
    record.predicted = event.decision.predicted
    _adjusted(world, time)
    world.resize(record, event.placements)


def _classification_planned(world: World, time: float, event: ev.ClassificationPlanned) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    _keep(world, time, record, AdjustmentKind.RECLASSIFIED, event.decision)
    record.measurements, record.classifying = corrected(record, world.platform_of(record)), True
    record.observed, record.classified_at = {}, time
    world.touched[record.name] = None


def _suspended(world: World, time: float, event: ev.WorkloadSuspended) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.SUSPEND)
    _keep(world, time, record, AdjustmentKind.SUSPENDED, event.decision, ())
    record.suspensions += 1
    record.reason, record.message = event.decision.reason, event.decision.message
    course = world.state.workloads[event.relieves].course
    record.relieves, record.in_vain_at = event.relieves, None
    record.relieved_pace = 0.0 if course is None else course.pace
    _gave_way(world, time, event.relieves, event.decision)


def _resumed(world: World, time: float, event: ev.WorkloadResumed) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.RESUME)
    _keep(world, time, record, AdjustmentKind.RESUMED, event.decision)
    record.held, record.reason, record.message = None, "", ""
    if event.in_vain:
        # It was not the one; so that does not make its next time longer either.
        record.suspensions -= 1
        record.in_vain_at = time


def _moved(world: World, time: float, event: ev.WorkloadMoved) -> None:
    record = world.decided(time, event.name, event.decision, Trigger.MOVE)
    _keep(world, time, record, AdjustmentKind.MOVED, event.decision, ())
    record.reason, record.message = event.decision.reason, event.decision.message
    record.excluded = tuple(p.server for p in record.placements)
    record.adjusted_at, record.course = time, None
    record.moves += 1
    _adjusted(world, time)
    world.watch_all(record)


def _gave_way(world: World, time: float, name: str, decision: Decision) -> None:
    """A neighbour was suspended for this one's sake: it needs time to show."""
    record = world.state.workloads[name]
    record.remember(time, decision)
    _keep(world, time, record, AdjustmentKind.RELIEVED, decision)
    record.course, record.adjusted_at = started_over(record.course, time), time
    _adjusted(world, time)
    world.watch_all(record)


def _keep(
    world: World,
    time: float,
    record: WorkloadRecord,
    kind: AdjustmentKind,
    decision: Decision,
    after: tuple[Placement, ...] | None = None,
) -> None:
    reason, message = decision.reason, decision.message
    adjustments.keep(world.state, record, time, kind, reason, message, after)


def _adjusted(world: World, time: float) -> None:
    world.state.adjusted_at = [*world.state.adjusted_at, time][-ADJUSTMENTS_PER_MINUTE:]


def _allocation_kept(world: World, time: float, event: ev.AllocationKept) -> None:
    record = world.state.workloads[event.name]
    record.remember(time, event.decision)
    record.held = event.decision.reason
    if not event.decision.accepted:
        _keep(world, time, record, AdjustmentKind.KEPT, event.decision)
        record.reason, record.message = event.decision.reason, event.decision.message
    # For want of room it is tried again when there is some.
    wanted = record.resize_wanted and record.held is ReasonCode.NO_ROOM
    world.want_resize(record, wanted=wanted)


# --- reports about workloads -----------------------------------------------------------


def _start_accepted(world: World, time: float, event: ev.StartAccepted) -> None:
    world.reported(time, event)


def _started(world: World, time: float, event: ev.WorkloadStarted) -> None:
    record = world.reported(time, event)
    if record is not None:
        record.starts += 1
        record.started_at = _when(event.started_at, record.submitted_at, time)
        record.handle, record.performance, record.course = event.handle, None, None
        record.adjusted_at, record.excluded = None, ()


def _start_failed(world: World, time: float, event: ev.StartFailed) -> None:
    record = world.record_of(event.key)
    if record is None:
        return
    if not record.on_server:
        world.reported(time, event)  # a profiling run that was stopped before it began
        return
    if not record.revoking:
        record.reason, record.message = "start-failed", event.reason
    # Of several servers nobody says on which it failed.
    servers = (placement.server for placement in record.placements)
    trigger = trigger_of(event, record)
    record.start_failures += 1
    if trigger is Trigger.RETRY:
        record.excluded = tuple(dict.fromkeys((*record.excluded, *servers)))
        backoff = min(MAX_BACKOFF_SECONDS, 2.0 ** (record.start_failures - 1))
        record.not_before = time + backoff
    world.move(time, record, trigger)


def _finished(world: World, time: float, event: ev.WorkloadFinished) -> None:
    record = world.reported(time, event)
    if record is None or record.phase is Phase.QUEUED:  # stopped to be moved
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


def _vanished(world: World, time: float, event: ev.WorkloadVanished) -> None:
    record = world.reported(time, event)
    if record is not None and not record.revoking:
        record.reason, record.message = "vanished", event.reason


def _resized(world: World, time: float, event: ev.AllocationResized) -> None:
    world.settle(time, event, event.placements)


def _resize_failed(world: World, time: float, event: ev.ResizeFailed) -> None:
    record = world.record_of(event.key)
    if record is not None and answers_resize(event, record):
        world.settle(time, event, record.placements)
        record.reason, record.message = "resize-failed", event.reason
        failed = AdjustmentKind.KEPT
        adjustments.keep(world.state, record, time, failed, record.reason, event.reason)


def _measured(world: World, time: float, event: ev.ServerMeasured) -> None:
    servers: dict[str, None] = {}
    for sample in event.samples:
        if record := world.running(sample.key):
            missed = misses(record)
            record.performance = Performance(time, sample.readings, sample.silent)
            record.course = follow(record)
            observe(record, time, world.slowdown_of(record))
            if record.phase is Phase.RUNNING:
                adjustments.follow_up(record, time)
            kept = record.course is not None and record.course.side == 0
            if kept or (missed and not misses(record)):
                record.held, record.reason, record.message = None, "", ""
            servers.update((placement.server, None) for placement in held(record))
    for server in servers:
        world.watch(server)


def _profiling_finished(world: World, time: float, event: ev.ProfilingFinished) -> None:
    record = world.record_of(event.key)
    if record is None or record.phase is not Phase.PROFILING:
        return
    record.profiled, record.measurements = True, _stamped(world, record, time, event.measurements)
    world.end_copy(record)
    world.touched[record.name] = None
    if record.revoking:
        world.move(time, record, Trigger.REVOKE)


def _stamped(
    world: World, record: WorkloadRecord, time: float, found: Measurements
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


def _profiling_failed(world: World, time: float, event: ev.ProfilingFailed) -> None:
    record = world.record_of(event.key)
    if record is not None and record.classifying:
        record.classifying = False
        world.touched[record.name] = None
        return
    if record is not None and record.profiling is not None and not record.revoking:
        # The copy gave nothing: what it needs is told by its like.
        record.profiled, record.measurements = True, Measurements(silent={"copy": event.reason})
        world.end_copy(record)
        world.touched[record.name] = None
        return
    record = world.reported(time, event)
    if record is not None:
        record.profiled = True
        if not record.revoking:
            record.reason, record.message = "profiling-failed", event.reason


def _classified(world: World, time: float, event: ev.WorkloadClassified) -> None:
    record = world.record_of(event.key)
    if record is None:
        return
    if not record.classifying:
        world.reported(time, event)
    record.classification, record.classifying = event.classification, False
    world.touched[record.name] = None
    for placement in held(record) if record.on_server else ():
        world.review(placement.server)
        # Others may get on with it now: they are looked at again.
        world.room_changed |= bool(event.classification.pairs)


def _when(said: float | None, earliest: float, now: float) -> float:
    """When something happened that is reported ``now``; clocks may disagree a little."""
    return now if said is None else max(earliest, min(said, now))


_APPLY: dict[type, Callable[[World, float, Any], None]] = {
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
    ev.WorkloadQueued: _queued,
    ev.WorkloadHeld: _held,
    ev.WorkloadPlaced: _placed,
    ev.AllocationPlanned: _allocation_planned,
    ev.AllocationKept: _allocation_kept,
    ev.ClassificationPlanned: _classification_planned,
    ev.WorkloadSuspended: _suspended,
    ev.WorkloadResumed: _resumed,
    ev.WorkloadMoved: _moved,
}
