"""The fold's part about runs: how they begin, start, end, start again and are remembered.

``fold`` calls ``RUNS`` by the event's class; as there, nothing is decided or computed here.
"""

from collections.abc import Callable
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState, reserve, wake_waiting
from wharfinger.core.lifecycle import NEXT, Phase, Trigger
from wharfinger.core.memory_needs import need_of, see_kill, see_peak
from wharfinger.core.settings import MOST_DOUBLED, settings_in
from wharfinger.core.state import (
    HISTORY_KEPT,
    RUNS_KEPT,
    ManagerState,
    RunSummary,
    StopReason,
    WorkloadRecord,
    held,
    summary_of,
)
from wharfinger.core.triggers import trigger_of
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.ends import OUT_OF_MEMORY, describe_end
from wharfinger.model.memory_needs import MemorySource
from wharfinger.model.units import format_duration, memory_number
from wharfinger.model.workload import Workload, WorkloadType


def goes_on(record: WorkloadRecord) -> None:
    """Nothing keeps it waiting any more."""
    record.deferral, record.reason, record.message = None, "", ""


def retry_drain(cluster: ClusterState, record: WorkloadRecord) -> None:
    """Drain its server again, if that is being drained: it could not be stopped before."""
    cordons = (cluster.state.cordoned.get(placement.server) for placement in record.placements)
    if record.on_server and any(cordon is not None and cordon.drain for cordon in cordons):
        cluster.queues.room_changed = True


def pause_if_running(cluster: ClusterState, time: float, record: WorkloadRecord) -> None:
    """Suspend it if its user wants that and it runs now."""
    if record.paused and record.phase is Phase.RUNNING:
        cluster.move(time, record, Trigger.SUSPEND)
        record.pauses += 1
        record.suspended_for, record.ineffective_at = "", None
        record.reason, record.message = ReasonCode.PAUSED, "suspended by its user"


def _submitted(cluster: ClusterState, time: float, event: ev.WorkloadSubmitted) -> None:
    record = cluster.state.workloads.get(event.workload.name)
    if record is None:
        begin_run(cluster, time, event.workload)
    elif record.ended:
        begin_run(cluster, time, event.workload, record)
    else:
        record.resubmitted = event.workload


def _run_begun(cluster: ClusterState, time: float, event: ev.RunBegun) -> None:
    record = cluster.state.workloads[event.name]
    begin_run(cluster, time, record.resubmitted or record.workload, record)


def begin_run(
    cluster: ClusterState, time: float, workload: Workload, former: WorkloadRecord | None = None
) -> None:
    """A record for a new run; ``former`` is that of the run before, which has ended."""
    record = WorkloadRecord(workload, cluster.state.next_uid, time, phase_since=time)
    cluster.state.next_uid += 1
    if former is not None:
        record.run = former.run + 1
        record.restarts_before = former.restarts_before + former.restarts
        record.last_due_at = former.last_due_at if former.due_at is None else former.due_at
        kept = [*former.previous, summary_of(former)]
        record.previous = kept[-RUNS_KEPT:]
        _remember(cluster, kept[:-RUNS_KEPT])
        known = former.measurements
        if known is not None and known.performance and workload.has_same_program(former.workload):
            record.measurements = known
        if former.handle:
            # The output of the run before stays until this one has been started.
            record.previous_key, former.key, dropped = former.key, "", former.previous_key
            former.previous_key = dropped
            cluster.by_key.pop(record.previous_key, None)
        else:
            record.previous_key, former.previous_key = former.previous_key, ""
        cluster.drop(former)
    cluster.state.workloads[record.name] = record
    cluster.index(record)


def _forgotten(cluster: ClusterState, _time: float, event: ev.WorkloadForgotten) -> None:
    record = cluster.state.workloads[event.name]
    _remember(cluster, [*record.previous, summary_of(record)])
    cluster.drop(record)


def _remember(cluster: ClusterState, runs: list[RunSummary]) -> None:
    """Keep what became of runs whose record is gone."""
    history = cluster.state.history
    history.extend(runs)
    del history[: max(0, len(history) - HISTORY_KEPT)]


def _run_scheduled(cluster: ClusterState, time: float, event: ev.RunScheduled) -> None:
    record = cluster.decided(time, event.name, event.decision)
    record.deferral = event.decision.reason
    record.reason, record.message = event.decision.reason, event.decision.message
    record.due_at = event.due_at
    cluster.wait_until(record, event.due_at)


def _started(cluster: ClusterState, time: float, event: ev.WorkloadStarted) -> None:
    record = cluster.reported(time, event)
    if record is not None:
        record.starts += 1
        record.started_at = _when(event.started_at, record.submitted_at, time)
        record.handle, record.performance, record.tracking = event.handle, None, None
        record.adjusted_at, record.excluded = None, ()
        record.level, record.probe, record.demand = None, None, None
        is_service = record.workload.type is WorkloadType.LATENCY_CRITICAL
        if not (is_service or cluster.state.capabilities.keeps_work):
            record.left_level = None  # It is in its first phase again.
        probed = record.workload.run.ready is not None and cluster.state.capabilities.probes
        record.ready_at = None if probed else record.started_at
        if not probed:
            wake_waiting(cluster, record)
        cluster.followups.changed(record)
        pause_if_running(cluster, time, record)
        retry_drain(cluster, record)


def _readiness_changed(cluster: ClusterState, time: float, event: ev.ReadinessChanged) -> None:
    record = cluster.record_of(event.key)
    if record is None or not record.on_server:
        return
    record.ready_at = time if event.ready else None
    if event.ready:
        goes_on(record)
    else:
        record.reason, record.message = "not-ready", event.reason
        record.tracking = None
        cluster.residency.watch_all(record)
    wake_waiting(cluster, record)


def _start_failed(cluster: ClusterState, time: float, event: ev.StartFailed) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    if not record.on_server:
        cluster.reported(time, event)  # a profiling run that was stopped before it began
        return
    if not record.revoking:
        record.reason, record.message = "start-failed", event.reason
    # Of several servers it is unknown on which it failed.
    servers = (placement.server for placement in record.placements)
    settings = settings_in(cluster.state)
    trigger = trigger_of(event, record, settings)
    if trigger is Trigger.RESTART:
        restart(cluster, time, record)
        return
    record.start_failures += 1
    record.stop_reason = StopReason.NONE
    if trigger is Trigger.RETRY:
        record.excluded = tuple(dict.fromkeys((*record.excluded, *servers)))
        backoff = min(
            settings.max_backoff_seconds, 2.0 ** min(record.start_failures - 1, MOST_DOUBLED)
        )
        record.not_before = time + backoff
    cluster.move(time, record, trigger)


def _finished(cluster: ClusterState, time: float, event: ev.WorkloadFinished) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    if record.on_server:
        _learn_memory(cluster.state, event, record)
    trigger = _end_trigger(cluster, time, event, record)
    if (record.phase, trigger) not in NEXT:
        return
    stop_reason, record.stop_reason = record.stop_reason, StopReason.NONE
    how = _how_it_ended(event, record, cluster.state)
    record.exit_code, record.signal = event.exit_code, event.signal
    record.cpu_seconds, record.last_output = event.cpu_seconds, event.last_output
    record.memory_peak_bytes = event.memory_peak_bytes
    if trigger is Trigger.RESTART:
        record.reason = event.reason
        restart(cluster, time, record, "" if stop_reason else how)
        return
    cluster.move(time, record, trigger)
    if record.phase is Phase.QUEUED:  # stopped to be started again
        return
    earliest = record.submitted_at if record.started_at is None else record.started_at
    record.ended_at = _when(event.ended_at, earliest, time)
    cluster.followups.changed(record)
    if stop_reason is StopReason.TIME_LIMIT:
        stopped_at_limit(record)
    elif not record.revoking:
        record.reason, record.message = event.reason, how
        if record.restarts_in_row:
            record.message += f", after {record.restarts_in_row} restarts in a row"


def stopped_at_limit(record: WorkloadRecord) -> None:
    """Say that it has run for as long as it may."""
    limit = record.workload.run.time_limit_seconds or 0.0
    record.reason = StopReason.TIME_LIMIT
    record.message = f"stopped at its time limit of {format_duration(limit)}"


def _vanished(cluster: ClusterState, time: float, event: ev.WorkloadVanished) -> None:
    record = cluster.record_of(event.key)
    if record is None:
        return
    trigger = _end_trigger(cluster, time, event, record)
    if (record.phase, trigger) not in NEXT:
        return
    if trigger is Trigger.RESTART:
        restart(cluster, time, record, f"vanished: {event.reason}")
        return
    cluster.move(time, record, trigger)
    record.stop_reason = StopReason.NONE
    if not record.revoking and record.ended:
        record.reason, record.message = "vanished", event.reason


def _learn_memory(state: ManagerState, event: ev.WorkloadFinished, record: WorkloadRecord) -> None:
    """What this run tells of its program's memory: a kill, or all that it used to a good end."""
    if not record.placements:
        return
    workload, limit_bytes = record.workload, record.placements[0].allocation.memory_bytes
    if event.reason == OUT_OF_MEMORY:
        see_kill(state, workload, limit_bytes)
        return
    served = workload.type is WorkloadType.LATENCY_CRITICAL and event.reason == "stopped"
    if event.exit_code == 0 or served:
        peak_bytes = event.memory_peak_bytes
        see_peak(state, workload, peak_bytes, MemorySource.RUN, enough_bytes=limit_bytes)


def _more_memory(
    event: ev.WorkloadFinished | ev.WorkloadVanished, record: WorkloadRecord, state: ManagerState
) -> int | None:
    """What its next start gets, as it ran out of what nobody stated; 0 = no server has more."""
    ran_out = isinstance(event, ev.WorkloadFinished) and event.reason == OUT_OF_MEMORY
    if not (ran_out and record.placements and record.workload.reservation.elastic_memory):
        return None
    need = need_of(record.workload, state.memory_needs)
    limit_bytes = record.placements[0].allocation.memory_bytes
    return need.needed_bytes if need is not None and need.needed_bytes > limit_bytes else 0


def _how_it_ended(event: ev.WorkloadFinished, record: WorkloadRecord, state: ManagerState) -> str:
    memory_bytes = sum(placement.allocation.memory_bytes for placement in record.placements)
    how = describe_end(event.reason, event.exit_code, event.signal, memory_bytes)
    more_bytes = _more_memory(event, record, state)
    if more_bytes is not None:
        then = f"its next start gets {memory_number(more_bytes)}"
        then = then if more_bytes else "no server has more"
        how = f"out of memory with {memory_number(memory_bytes)}: {then}"
    return f"{how}: {event.last_output}" if event.last_output else how


def _end_trigger(
    cluster: ClusterState,
    time: float,
    event: ev.WorkloadFinished | ev.WorkloadVanished,
    record: WorkloadRecord,
) -> Trigger:
    """What an end means; a service that ran well for long begins to count its restarts again."""
    ran_well, is_service = False, record.workload.type is WorkloadType.LATENCY_CRITICAL
    if record.started_at is not None and is_service:
        ran_well = time - record.started_at >= settings_in(cluster.state).stable_seconds
        record.restarts_in_row = 0 if ran_well else record.restarts_in_row
    trigger = trigger_of(event, record)
    more_bytes = _more_memory(event, record, cluster.state)
    if more_bytes is None or record.stop_reason is not StopReason.NONE or record.offer:
        return trigger
    # More of the memory that nobody stated is worth a try, unless its user wants no restart.
    if trigger is Trigger.FAIL and more_bytes and not record.workload.run.restart.never_stated:
        return Trigger.RESTART
    # With all that a server has it would be killed again, however often it is started.
    return Trigger.FAIL if trigger is Trigger.RESTART and not (more_bytes or ran_well) else trigger


def restart(cluster: ClusterState, time: float, record: WorkloadRecord, why: str = "") -> None:
    """It goes back to its queue: at once if its user wanted that, else after its backoff."""
    record.stop_reason, record.not_before = StopReason.NONE, None
    record.restarts += 1
    cluster.state.restarts += 1
    wait = 0.0
    if why:
        settings, rule = settings_in(cluster.state), record.workload.run.restart
        doubled = 2.0 ** min(record.restarts_in_row, MOST_DOUBLED)
        wait = min(settings.max_backoff_seconds, rule.backoff_seconds * doubled)
        record.not_before = time + wait
        record.restarts_in_row += 1
        limit = "" if rule.limit is None else f" of {rule.limit}"
        why += f"; restart {record.restarts_in_row}{limit} after {format_duration(wait)}"
    cluster.move(time, record, Trigger.RESTART)
    record.reason, record.message = "restarting", why or "restarted by its user"


def _restart_requested(cluster: ClusterState, _time: float, event: ev.RestartRequested) -> None:
    record = cluster.state.workloads[event.name]
    if record.phase is Phase.QUEUED:
        cluster.dequeue(record)
        record.not_before, record.excluded = None, ()
        cluster.enqueue(record)
    elif record.on_server and record.phase is not Phase.MIGRATING:
        record.stop_reason = StopReason.RESTART
        cluster.followups.changed(record)
        cluster.touched[record.name] = None


def _time_limit_reached(cluster: ClusterState, _time: float, event: ev.TimeLimitReached) -> None:
    record = cluster.state.workloads[event.name]
    record.stop_reason = StopReason.TIME_LIMIT
    cluster.followups.changed(record)
    cluster.touched[record.name] = None


def _suspend_requested(cluster: ClusterState, time: float, event: ev.SuspendRequested) -> None:
    record = cluster.state.workloads[event.name]
    record.paused = True
    reserve(cluster, record, ())
    cluster.residency.ends.forget(held(record))
    pause_if_running(cluster, time, record)
    cluster.queues.room_changed = True


def _resume_requested(cluster: ClusterState, time: float, event: ev.ResumeRequested) -> None:
    record = cluster.state.workloads[event.name]
    record.paused = False
    cluster.residency.ends.forget(held(record))
    if record.phase is Phase.SUSPENDED:
        cluster.move(time, record, Trigger.RESUME)
        goes_on(record)
        cluster.residency.watch_all(record)
    cluster.queues.room_changed = True


def _when(said: float | None, earliest: float, now: float) -> float:
    """When an event happened that is reported ``now``; clocks may differ a little."""
    return now if said is None else max(earliest, min(said, now))


RUNS: dict[type, Callable[[ClusterState, float, Any], object]] = {
    ev.WorkloadSubmitted: _submitted,
    ev.RunBegun: _run_begun,
    ev.WorkloadForgotten: _forgotten,
    ev.RunScheduled: _run_scheduled,
    ev.WorkloadStarted: _started,
    ev.ReadinessChanged: _readiness_changed,
    ev.StartFailed: _start_failed,
    ev.WorkloadFinished: _finished,
    ev.WorkloadVanished: _vanished,
    ev.RestartRequested: _restart_requested,
    ev.TimeLimitReached: _time_limit_reached,
    ev.SuspendRequested: _suspend_requested,
    ev.ResumeRequested: _resume_requested,
}
"""What each of these events does."""
