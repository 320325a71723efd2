"""The fold's part about workloads that the engine offers, because users handed them in there.

``fold`` calls ``OFFERS`` by the event's class; as there, nothing is decided or computed here.
"""

from collections.abc import Callable
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.fold_runs import begin_run
from wharfinger.core.lifecycle import Trigger
from wharfinger.core.state import WITHDRAWN
from wharfinger.core.triggers import is_news


def _offered(cluster: ClusterState, time: float, event: ev.WorkloadOffered) -> None:
    state, name = cluster.state, event.workload.name
    former = state.workloads.get(name)
    if former is not None and not former.ended:
        if former.offer != event.handle:
            state.clashes[event.handle] = name
        return
    state.clashes.pop(event.handle, None)
    begin_run(cluster, time, event.workload, former)
    record = state.workloads[name]
    record.offer, record.limits = event.handle, event.limits


def _withdrawn(cluster: ClusterState, time: float, event: ev.OfferWithdrawn) -> None:
    state = cluster.state
    for handle in [handle for handle, name in state.clashes.items() if name == event.name]:
        del state.clashes[handle]
    if not is_news(cluster, event) or event.name not in state.workloads:
        return
    record = state.workloads[event.name]
    record.revoking = True
    record.reason, record.message = WITHDRAWN, event.reason
    # What is being started, or profiled, ends first.
    if not record.on_server and record.profiling is None:
        cluster.move(time, record, Trigger.REVOKE)
    cluster.touched[record.name] = None


OFFERS: dict[type, Callable[[ClusterState, float, Any], object]] = {
    ev.WorkloadOffered: _offered,
    ev.OfferWithdrawn: _withdrawn,
}
"""What each of these events does."""
