"""What a report means for its workload, and whether it is news."""

from dataclasses import replace
from typing import TYPE_CHECKING

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import NEXT, Phase, Trigger
from wharfinger.core.settings import DEFAULTS, CoreSettings, settings_in
from wharfinger.core.state import WITHDRAWN, ManagerState, StopReason, WorkloadRecord, held
from wharfinger.model.allocation import Placement
from wharfinger.model.ends import NODE_FAILURE, eviction_word
from wharfinger.model.platform import Server
from wharfinger.model.workload import RestartPolicy

if TYPE_CHECKING:
    from wharfinger.core.cluster_state import ClusterState

"""Reason of an offered workload that its user took back."""
_ANSWERS_CLASSIFYING = (ev.WorkloadClassified, ev.ClassificationFailed)
_ANSWERS_RESIZE = (ev.AllocationResized, ev.ResizeFailed)


def answers_resize(event: ev.AllocationResized | ev.ResizeFailed, record: WorkloadRecord) -> bool:
    """Whether it answers the present resize, not an earlier one."""
    if record.phase is not Phase.ADJUSTING:
        return False
    unsaid = isinstance(event, ev.ResizeFailed) and not event.placements
    return unsaid or event.placements == record.planned


def trigger_of(
    event: ev.Event, record: WorkloadRecord, settings: CoreSettings = DEFAULTS
) -> Trigger:
    """What a report means for its workload."""
    match event:
        case ev.StartAccepted():
            return Trigger.ACCEPT
        case ev.WorkloadStarted():
            return Trigger.START
        case ev.AllocationResized() | ev.ResizeFailed():
            return Trigger.SETTLE
        case _ if record.revoking:
            return Trigger.REVOKE
        case _ if record.phase is Phase.MIGRATING:
            # However it ended: its user has said that it may be started again.
            return Trigger.REQUEUE
        case ev.WorkloadEvicted() if record.stop_reason is StopReason.NONE and (
            record.workload.run.restartable
        ):
            return Trigger.EVICT
        case (
            ev.WorkloadFinished() | ev.WorkloadVanished() | ev.WorkloadEvicted() | ev.StartFailed()
        ) if record.stop_reason is StopReason.RESTART or is_restarted(event, record):
            return Trigger.RESTART
        case (
            ev.WorkloadFinished() | ev.WorkloadVanished() | ev.WorkloadEvicted() | ev.StartFailed()
        ):
            return _end_of(event, record, settings)
        case ev.ProfilingFailed(fatal=True):
            return Trigger.GIVE_UP
        case ev.ProfilingFinished() | ev.ProfilingFailed():
            return Trigger.PROFILED
        case ev.WorkloadClassified() | ev.ClassificationFailed():
            return Trigger.CLASSIFY
    raise TypeError(f"{type(event).__name__} is not a report about a workload")


def _end_of(
    event: ev.WorkloadFinished | ev.WorkloadVanished | ev.WorkloadEvicted | ev.StartFailed,
    record: WorkloadRecord,
    settings: CoreSettings,
) -> Trigger:
    """What the end of one that is not started again by its user's wish means."""
    match event:
        case ev.StartFailed(retryable=retryable):
            again = retryable and record.start_failures + 1 < settings.max_start_failures
            return Trigger.RETRY if again else Trigger.GIVE_UP
        case ev.WorkloadFinished(exit_code=exit_code):
            succeeded = exit_code == 0 and record.stop_reason is StopReason.NONE
            return Trigger.SUCCEED if succeeded else Trigger.FAIL
        case ev.WorkloadEvicted(reason=reason):
            # What a failed server leaves behind is unknown; else the engine has stopped it.
            unknown = eviction_word(reason) == NODE_FAILURE
            return Trigger.VANISH if unknown else Trigger.FAIL
        case ev.WorkloadVanished():
            return Trigger.VANISH


def is_restarted(event: ev.Event, record: WorkloadRecord) -> bool:
    """Whether a program that has ended so is started again, as its user has stated."""
    rule = record.workload.run.restart
    if rule.policy is RestartPolicy.NEVER or isinstance(event, ev.StartFailed) or record.offer:
        return False
    succeeded = isinstance(event, ev.WorkloadFinished) and event.exit_code == 0
    if record.stop_reason is not StopReason.NONE or (
        succeeded and rule.policy is RestartPolicy.ON_FAILURE
    ):
        return False
    return rule.limit is None or record.restarts_in_row < rule.limit


def trigger_in(state: ManagerState, event: ev.Event, record: WorkloadRecord) -> Trigger:
    """The same, with the settings in the log."""
    # Only a failed start hangs on settings, and most reports are others.
    if isinstance(event, ev.StartFailed):
        return trigger_of(event, record, settings_in(state))
    return trigger_of(event, record)


def as_kept(state: ManagerState, server: Server) -> Server:
    """A reported server as the state keeps it: cordoned or to be released, it accepts nothing."""
    if server.accepting and (server.name in state.releasing or server.name in state.cordoned):
        return replace(server, accepting=False)
    return server


def _is_changed(state: ManagerState, server: Server) -> bool:
    cordon = state.cordoned.get(server.name)
    if cordon is not None and cordon.accepting != server.accepting:
        return True
    return state.servers.get(server.name) != as_kept(state, server)


def only_news(
    cluster: "ClusterState", event: ev.Report | ev.ClientRequest
) -> ev.Report | ev.ClientRequest:
    """A report of many servers without those that have not changed; any other as it is."""
    if not isinstance(event, ev.ServersReported):
        return event
    changed = (server for server in event.servers if _is_changed(cluster.state, server))
    return ev.ServersReported(tuple(changed))


def still_lost(event: ev.PlacementsLost, record: WorkloadRecord) -> tuple[Placement, ...]:
    """What it holds, or is to hold, on the servers from which it is told to be gone."""
    if (record.phase, Trigger.EVICT) not in NEXT or record.phase is Phase.PLACED:
        return ()
    gone = {placement.server for placement in event.placements}
    return tuple(p for p in held(record) if p.server in gone)


def _is_new_offer(state: ManagerState, event: ev.WorkloadOffered) -> bool:
    """Whether it is not known, or is offered again by a user who had taken it back."""
    record = state.workloads.get(event.workload.name)
    if record is None:
        return True
    if record.offer != event.handle:
        return record.ended or event.handle not in state.clashes
    return record.ended and (record.workload != event.workload or record.reason == WITHDRAWN)


def as_change(
    state: ManagerState, event: ev.WorkloadOffered
) -> ev.WorkloadOffered | ev.WorkloadUpdated:
    """An offer that waits, and of which its user has changed what it states, is an update."""
    record = state.workloads.get(event.workload.name)
    if (
        record is None
        or record.offer != event.handle
        or record.workload == event.workload
        or record.ended
        or record.revoking
        or record.on_server
    ):
        return event
    return ev.WorkloadUpdated(event.workload)


def _is_withdrawn(state: ManagerState, event: ev.OfferWithdrawn) -> bool:
    """Whether it has not been let go yet; of what has been, the end is told."""
    record = state.workloads.get(event.name)
    if record is None or not record.offer:
        return event.name in state.clashes.values()
    return not (record.ended or record.revoking) and (
        record.phase is Phase.PLACED or not record.on_server
    )


def _is_news_of_no_start(cluster: "ClusterState", event: ev.Event) -> bool:
    if isinstance(event, ev.WorkloadOffered):
        return _is_new_offer(cluster.state, event)
    if isinstance(event, ev.OfferWithdrawn):
        return _is_withdrawn(cluster.state, event)
    if servers := ev.servers_in(event):
        return any(_is_changed(cluster.state, server) for server in servers)
    if isinstance(event, ev.ServerMeasured):
        return any(cluster.running(sample.key) for sample in event.samples)
    if isinstance(event, ev.ServersReported):
        return False
    return not isinstance(event, ev.ServerLeft) or event.name in cluster.state.servers


def is_news(cluster: "ClusterState", event: ev.Event) -> bool:
    """Whether an event changes anything; late and repeated reports do not."""
    key = getattr(event, "key", None)
    if key is None:
        return _is_news_of_no_start(cluster, event)
    record = cluster.record_of(key)
    if record is None:
        if isinstance(event, ev.ServerAcquired | ev.AcquisitionFailed):
            return key in cluster.state.orders
        return isinstance(event, ev.PlacementProposed) and cluster.asked_by(key) is not None
    if key != record.key:
        return isinstance(event, ev.ProfilingFinished | ev.ProfilingFailed)
    if isinstance(event, _ANSWERS_CLASSIFYING) and record.reclassifying:
        return True
    if isinstance(event, ev.WorkloadProbed):
        probe = record.probe
        return probe is not None and probe.under_way and probe.number == event.number
    if isinstance(event, ev.ReadinessChanged):
        return (
            record.started_at is not None
            and record.on_server
            and event.ready != (record.ready_at is not None)
        )
    if isinstance(event, _ANSWERS_RESIZE):
        return answers_resize(event, record)
    if isinstance(event, ev.PlacementsLost):
        return bool(still_lost(event, record))
    return (record.phase, trigger_in(cluster.state, event, record)) in NEXT
