"""The fold of events about servers: those that are reported, that leave, are cordoned or acquired.

A part of ``fold``, with its rules. A report that changes only what others hold is the frequent one:
each job of an engine that others use, too, makes one. So it puts back in line only what may fit
because of it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState, end_probe, recommend, reserve
from wharfinger.core.state import Cordon, ServerOrder
from wharfinger.core.triggers import as_kept
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.platform import Server


def _server_reported(cluster: ClusterState, _time: float, event: ev.ServerReported) -> None:
    _report(cluster, event.server)


def _servers_reported(cluster: ClusterState, _time: float, event: ev.ServersReported) -> None:
    for server in event.servers:
        _report(cluster, server)


def _report(cluster: ClusterState, server: Server) -> None:
    kept = cluster.state.servers.get(server.name)
    if kept is None or not _is_as_before(kept, as_kept(cluster.state, server)):
        _put(cluster, server)
        cluster.queues.unpark_all()
        return
    if (cordon := cluster.state.cordoned.get(server.name)) is not None:
        cluster.state.cordoned[server.name] = replace(cordon, accepting=server.accepting)
    cluster.state.servers[server.name] = as_kept(cluster.state, server)
    cpu, memory = server.others_cpu_millicpus, server.others_memory_bytes
    columns = cluster.residency.columns
    columns.put_others(server.name, cpu, memory)
    leaves_more = cpu < kept.others_cpu_millicpus or memory < kept.others_memory_bytes
    if leaves_more and kept.accepting and not columns.is_full(server.name):
        cluster.queues.change(server.name)


def _is_as_before(before: Server, after: Server) -> bool:
    """Whether nothing has changed but what others hold, and what people are told."""
    return after == replace(
        before,
        conditions=after.conditions,
        others_cpu_millicpus=after.others_cpu_millicpus,
        others_memory_bytes=after.others_memory_bytes,
    )


def _put(cluster: ClusterState, server: Server) -> None:
    """It joins, or is now as its engine says; one that is cordoned accepts nothing."""
    state, joins = cluster.state, server.name not in cluster.state.servers
    if (cordon := state.cordoned.get(server.name)) is not None:
        state.cordoned[server.name] = replace(cordon, accepting=server.accepting)
    state.servers[server.name] = server = as_kept(state, server)
    cluster.residency.put_server(server, joins=joins)


def server_left(cluster: ClusterState, time: float, event: ev.ServerLeft) -> None:
    """A server is gone, with what was to be on it."""
    server = cluster.state.servers.pop(event.name, None)
    if server is None:
        return
    cluster.state.acquired.pop(event.name, None)
    if event.name in cluster.state.releasing:
        cluster.state.releasing.remove(event.name)
    for name in list(cluster.recommended):
        record = cluster.state.workloads[name]
        if any(placement.server == event.name for placement in record.recommended):
            recommend(cluster, record, ())
    for record in [cluster.state.workloads[name] for name in cluster.reserved]:
        if any(placement.server == event.name for placement in record.reserved):
            kept = tuple(p for p in record.reserved if p.server != event.name)
            reserve(cluster, record, kept)
    for record in [cluster.state.workloads[name] for name in cluster.probing]:
        if record.probe and event.name in record.probe.servers:
            end_probe(cluster, record, time)
    cluster.residency.close_server(event.name)
    cluster.queues.unpark_all()


# --- cordons ---------------------------------------------------------------------------------


def _server_cordoned(cluster: ClusterState, time: float, event: ev.ServerCordoned) -> None:
    server = cluster.state.servers[event.name]
    former = cluster.state.cordoned.get(event.name)
    accepting = server.accepting if former is None else former.accepting
    cluster.state.cordoned[event.name] = Cordon(time, event.drain, event.reason, accepting)
    _put(cluster, replace(server, accepting=accepting))
    cluster.queues.unpark_all()


def _server_uncordoned(cluster: ClusterState, _time: float, event: ev.ServerUncordoned) -> None:
    cordon, server = cluster.state.cordoned.pop(event.name), cluster.state.servers.get(event.name)
    if server is not None:
        _put(cluster, replace(server, accepting=cordon.accepting))
        cluster.queues.unpark_all()


# --- servers that are acquired and released ---------------------------------------------------


def _server_ordered(cluster: ClusterState, time: float, event: ev.ServerOrdered) -> None:
    cluster.state.next_order += 1
    order = ServerOrder(event.key, event.platform, event.ordered_for, time)
    cluster.state.orders[event.key] = order


def _server_acquired(cluster: ClusterState, time: float, event: ev.ServerAcquired) -> None:
    order = cluster.state.orders.pop(event.key, None)
    if order is not None:
        cluster.state.acquired[event.server.name] = time
        cluster.state.not_acquired.pop(order.platform, None)
        _put(cluster, event.server)
        cluster.queues.unpark_all()


def _acquisition_failed(cluster: ClusterState, time: float, event: ev.AcquisitionFailed) -> None:
    order = cluster.state.orders.pop(event.key, None)
    if order is None:
        return
    cluster.state.not_acquired[order.platform] = time
    record = cluster.state.workloads.get(order.ordered_for)
    if record is not None and record.deferral is ReasonCode.ACQUIRING:
        record.reason, record.message = "acquisition-failed", event.reason
    cluster.queues.unpark_all()


def _server_released(cluster: ClusterState, _time: float, event: ev.ServerReleased) -> None:
    server = cluster.state.servers.get(event.name)
    if server is not None and event.name not in cluster.state.releasing:
        cluster.state.releasing.append(event.name)
        _put(cluster, replace(server, accepting=False))
        cluster.queues.unpark_all()


SERVERS: dict[type, Callable[[ClusterState, float, Any], object]] = {
    ev.ServerReported: _server_reported,
    ev.ServersReported: _servers_reported,
    ev.ServerLeft: server_left,
    ev.ServerCordoned: _server_cordoned,
    ev.ServerUncordoned: _server_uncordoned,
    ev.ServerOrdered: _server_ordered,
    ev.ServerAcquired: _server_acquired,
    ev.AcquisitionFailed: _acquisition_failed,
    ev.ServerReleased: _server_released,
}
"""How each event about servers changes the state."""
