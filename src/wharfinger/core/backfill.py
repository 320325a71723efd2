"""EASY backfilling: what is served ahead of a blocked head of a queue, without delaying it.

Sources: Lifka 1995; Mu'alem and Feitelson 2001. Room is kept for the head on as many servers as it
needs, where it fits earliest by the expected ends of what holds resources there. Those behind it go
elsewhere, or there if they end before it starts or leave it the room that it needs then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from operator import itemgetter

import numpy as np

from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.ends import Freed
from wharfinger.core.queues import BlockedHead
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.view import View
from wharfinger.model.workload import WorkloadType

MAX_SERVERS = 64
"""So many servers are looked at for the head, those that lack least for it."""
NEED_LEFT = 0.75
"""Share of what a workload was refused that it may need elsewhere."""


@dataclass(frozen=True, slots=True)
class KeptServer:
    """A server where room is kept; so much of its CPU and memory is free beside it then."""

    name: str
    row: int
    cpu_spare_millicpus: int = 0
    memory_spare_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """Where room is kept for a blocked head.

    Attributes:
        servers: As many as it needs.
        starts_at: When it is expected to fit, in seconds since the epoch; infinite = unknown.
    """

    head: str
    servers: tuple[KeptServer, ...]
    starts_at: float

    @property
    def rows(self) -> frozenset[int]:
        """Of its servers."""
        return frozenset(each.row for each in self.servers)

    def is_delayed_by(self, placements: Iterable[Placement], ends_at: float) -> bool:
        """Whether what is placed so, and ends then, would delay the head."""
        if ends_at <= self.starts_at < inf:
            return False
        placed = tuple(placements)
        for kept in self.servers:
            here = [each.allocation for each in placed if each.server == kept.name]
            cpu = sum(allocation.cpu_millicpus for allocation in here)
            memory = sum(allocation.memory_bytes for allocation in here)
            if here and (cpu > kept.cpu_spare_millicpus or memory > kept.memory_spare_bytes):
                return True
        return False

    def when(self, now: float) -> str:
        """When and where the head should start, as a clause."""
        first, others = self.servers[0].name, len(self.servers) - 1
        where = f"{first} and {others} more" if others else first
        if self.starts_at == inf:
            verb = "are" if others else "is"
            return f"{where} {verb} kept free for it, where it is unknown when there is room"
        return f"expected to start on {where} in {max(0.0, self.starts_at - now):.0f} s"


def keep_room(head: BlockedHead, view: View, cluster: ClusterState, now: float) -> KeptRoom | None:
    """Where the head fits earliest; ``None`` = there is nothing to keep.

    Where no known ends suffice, the servers that lack least are kept. Services end when their user
    stops them: where one fills a server that the head can't do without, nothing is kept.
    """
    need, memory_bytes = head.needs(view)
    able = (view.accepting > 0) & (need <= view.cpu_capacity)
    able &= memory_bytes <= view.memory_capacity
    if not head.request.workload.best_effort:
        able &= need > 0
    able[[row for row in head.request.excluded if row < len(able)]] = False
    cpu_lacks = need - (view.cpu_capacity - view.cpu_allocated)
    memory_lacks = memory_bytes - (view.memory_capacity - view.memory_allocated)
    rows = np.flatnonzero(able)
    if len(rows) < head.servers:
        return None
    lacks = np.maximum(cpu_lacks[rows], 0) / np.maximum(view.cpu_capacity[rows], 1)
    lacks += np.maximum(memory_lacks[rows], 0) / np.maximum(view.memory_capacity[rows], 1)
    order = rows[np.argsort(lacks, kind="stable")[: max(MAX_SERVERS, 2 * head.servers)]].tolist()
    ends: list[tuple[float, int]] = []
    at_once = 0
    for row in order:
        lacking = cpu_lacks.item(row), memory_lacks.item(row)
        end = _earliest(row, *lacking, view, cluster, now, alone=head.servers == 1)
        ends.append((end, row))
        at_once += end <= now
        if at_once == head.servers:
            break  # None are earlier.
    chosen = sorted(ends, key=itemgetter(0))[: head.servers]  # stable: of equals, who lacks least
    starts_at = max(end for end, _ in chosen)
    if starts_at == inf:
        kept = tuple(KeptServer(view.names[row], row) for row in order[: head.servers])
        needs_all = len(rows) == head.servers
        never = needs_all and any(_is_full_of_services(each.name, cluster) for each in kept)
        return None if never else KeptRoom(head.name, kept, inf)
    servers = []
    for _, row in chosen:
        freed = _freed_by(starts_at, view.names[row], cluster, now)
        cpu_spare = freed.cpu_millicpus - cpu_lacks.item(row)
        memory_spare = freed.memory_bytes - memory_lacks.item(row)
        servers.append(KeptServer(view.names[row], row, cpu_spare, memory_spare))
    return KeptRoom(head.name, tuple(servers), starts_at)


def _earliest(
    row: int,
    cpu: int,
    memory: int,
    view: View,
    cluster: ClusterState,
    now: float,
    *,
    alone: bool,
) -> float:
    """When so much more CPU and memory is free on a server, as seconds since the epoch."""
    if view.unsettled.item(row):
        return inf
    if cpu <= 0 and memory <= 0:
        # Of a head that needs one server: it is not for want of room that it is not there, and
        # nothing says until when.
        return inf if alone else now
    for freed in cluster.residency.ends.freed_on(view.names[row], now):
        if freed.cpu_millicpus >= cpu and freed.memory_bytes >= memory:
            return freed.end
    return inf


def _freed_by(time: float, server: str, cluster: ClusterState, now: float) -> Freed:
    """What is free on a server by then, beyond what is now."""
    there = [each for each in cluster.residency.ends.freed_on(server, now) if each.end <= time]
    return there[-1] if there else Freed(now, 0, 0)


def _is_full_of_services(server: str, cluster: ClusterState) -> bool:
    holding = cluster.residency.ends.holding(server)
    return bool(holding) and all(
        record.workload.type is WorkloadType.LATENCY_CRITICAL for record, _ in holding
    )


def expected_start(decision: Decision, kept: KeptRoom, now: float) -> Decision:
    """A head's refusal, with when and where it should start."""
    if kept.starts_at == inf:
        return decision
    numbers = {**decision.numbers, "expected_start_seconds": max(0.0, kept.starts_at - now)}
    return replace(decision, message=f"{decision.message}; {kept.when(now)}", numbers=numbers)


def may_fit(
    record: WorkloadRecord, view: View, freed: Iterable[str] | None, *, sizes: bool
) -> bool:
    """Whether it is worth asking for a place: it costs far more than to see that there is no room.

    One that was refused for want of room is asked about when a server, one of those ``freed`` since
    (``None`` = any), has most of what it would have got: it may need less beside fewer neighbors. A
    placement that does not size (``sizes``) gives what is stated; then all of that must be free.
    """
    if record.deferral is not ReasonCode.NO_ROOM or view.loads is None:
        return True
    numbers = record.decisions[-1].decision.numbers if record.decisions else {}
    cpu = int(numbers.get("cpu_needed_millicpus", 0.0))
    is_stated = not sizes and cpu == record.workload.reservation.cpu_millicpus
    if record.classification is not None and not is_stated:
        cpu = int(NEED_LEFT * cpu)
    memory_bytes = int(numbers.get("memory_needed_bytes", 0.0))
    if freed is None:
        servers = int(numbers.get("servers_needed", 1.0))
        return len(view.loads.least_loaded(cpu, memory_bytes, servers)[0]) == servers
    rows = [view.row(server) for server in freed if server in (view.rows or view.names)]
    if record.workload.requires:
        rows = [row for row in rows if view.accepting.item(row)]
    return any(
        view.cpu_capacity.item(row) - view.cpu_allocated.item(row) >= cpu
        and view.memory_capacity.item(row) - view.memory_allocated.item(row) >= memory_bytes
        for row in rows
    )
