"""EASY backfilling: what is served ahead of a blocked head of a queue, without delaying it.

Sources: Lifka 1995; Mu'alem and Feitelson 2001. Room is kept for the head on one server, where it
fits earliest by the expected ends of what holds resources there. Those behind it go elsewhere, or
there if they end before it starts or leave it the room that it needs then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.ends import NEVER, Freed
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
class KeptRoom:
    """Where room is kept for a blocked head.

    Attributes:
        starts_at: When it is expected to fit, in seconds since the epoch; infinite = unknown.
        cpu_spare: Thousandths of a CPU that are free beside it then; so with ``memory_spare``.
    """

    head: str
    server: str
    row: int
    starts_at: float
    cpu_spare: int = 0
    memory_spare: int = 0

    def is_delayed_by(self, placements: Iterable[Placement], ends_at: float) -> bool:
        """Whether what is placed so, and ends then, would delay the head."""
        here = [each.allocation for each in placements if each.server == self.server]
        if not here or ends_at <= self.starts_at < inf:
            return False
        cpu = sum(allocation.cpu_millicpus for allocation in here)
        memory = sum(allocation.memory_bytes for allocation in here)
        return cpu > self.cpu_spare or memory > self.memory_spare

    def when(self, now: float) -> str:
        """When and where the head should start, as a clause."""
        if self.starts_at == inf:
            return f"{self.server} is kept free for it, where it is unknown when there is room"
        return f"expected to start on {self.server} in {max(0.0, self.starts_at - now):.0f} s"


def keep_room(head: BlockedHead, view: View, cluster: ClusterState, now: float) -> KeptRoom | None:
    """Where the head fits earliest; ``None`` = there is nothing to keep.

    Where no known ends suffice, the server that lacks least is kept. Services end when their user
    stops them: on an only server that they fill, nothing is kept.
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
    if not rows.size:
        return None
    lacks = np.maximum(cpu_lacks[rows], 0) / np.maximum(view.cpu_capacity[rows], 1)
    lacks += np.maximum(memory_lacks[rows], 0) / np.maximum(view.memory_capacity[rows], 1)
    best, soonest = -1, NEVER
    for row in rows[np.argsort(lacks, kind="stable")[:MAX_SERVERS]].tolist():
        cpu, memory = cpu_lacks.item(row), memory_lacks.item(row)
        freed = _earliest(row, cpu, memory, view, cluster, now)
        if best < 0 or freed.end < soonest.end:
            best, soonest = row, freed
        if soonest.end <= now:
            break  # None is earlier.
    if soonest is not NEVER:
        cpu, memory = cpu_lacks.item(best), memory_lacks.item(best)
        spare = soonest.cpu_millicpus - cpu, soonest.memory_bytes - memory
        return KeptRoom(head.name, view.names[best], best, soonest.end, *spare)
    kept = KeptRoom(head.name, view.names[best], best, inf)
    return None if len(rows) == 1 and _is_full_of_services(kept.server, cluster) else kept


def _earliest(
    row: int, cpu: int, memory: int, view: View, cluster: ClusterState, now: float
) -> Freed:
    """When so much more CPU and memory is free on a server."""
    if view.unsettled.item(row) or (cpu <= 0 and memory <= 0):
        # It is not for want of room that the head is not there: nothing says until when.
        return NEVER
    for freed in cluster.residency.ends.freed_on(view.names[row], now):
        if freed.cpu_millicpus >= cpu and freed.memory_bytes >= memory:
            return freed
    return NEVER


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


def may_fit(record: WorkloadRecord, view: View, freed: Iterable[str] | None) -> bool:
    """Whether it is worth asking for a place: it costs far more than to see that there is no room.

    One that was refused for want of room is asked about when a server has most of what it would
    have got, for that is less beside fewer neighbors: one of those ``freed`` since; ``None`` = any.
    """
    if record.deferral is not ReasonCode.NO_ROOM or view.loads is None:
        return True
    numbers = record.decisions[-1].decision.numbers if record.decisions else {}
    share = 1.0 if record.classification is None else NEED_LEFT
    cpu = int(share * numbers.get("cpu_needed_millicpus", 0.0))
    memory_bytes = int(numbers.get("memory_needed_bytes", 0.0))
    if freed is None:
        return bool(view.loads.least_loaded(cpu, memory_bytes, 1)[0])
    rows = [view.row(server) for server in freed if server in (view.rows or view.names)]
    if record.workload.requires:
        rows = [row for row in rows if view.accepting.item(row)]
    return any(
        view.cpu_capacity.item(row) - view.cpu_allocated.item(row) >= cpu
        and view.memory_capacity.item(row) - view.memory_allocated.item(row) >= memory_bytes
        for row in rows
    )
