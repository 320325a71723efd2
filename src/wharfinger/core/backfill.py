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
from wharfinger.core.lifecycle import Phase
from wharfinger.core.queues import BlockedHead
from wharfinger.core.state import WorkloadRecord, held
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Prediction, ReasonCode, Term
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.view import View
from wharfinger.model.workload import RestartPolicy, WorkloadType

MAX_SERVERS = 64
"""So many servers are looked at for the head, those that lack least for it."""
COPY_OVERHEAD = 2.0
"""Times its plan's seconds that a copy holds its server, with setting up."""
NEED_LEFT = 0.75
"""Share of what a workload was refused that it may need elsewhere."""
LATE = 0.1
"""By so much of its time a workload may be late and is still expected to end at any moment."""


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
    first = rows[np.argsort(lacks, kind="stable")[:MAX_SERVERS]].tolist()
    best: KeptRoom | None = None
    for row in first:
        cpu, memory = int(cpu_lacks[row]), int(memory_lacks[row])
        kept = _earliest(head.name, row, cpu, memory, view, cluster, now)
        if best is None or kept.starts_at < best.starts_at:
            best = kept
        if best.starts_at <= now:
            break  # None is earlier.
    assert best is not None
    if best.starts_at == inf and len(rows) == 1 and _is_full_of_services(best, cluster):
        return None
    return best


def _earliest(
    head: str, row: int, cpu: int, memory: int, view: View, cluster: ClusterState, now: float
) -> KeptRoom:
    """When so much more CPU and memory is free on a server; with what is left over then."""
    server = view.names[row]
    if view.unsettled[row] or (cpu <= 0 and memory <= 0):
        # It is not for want of room that the head is not there: nothing says until when.
        return KeptRoom(head, server, row, inf)
    ends = [
        (expected_end(record, now), record.uid, allocation)
        for record, allocation in _holding(server, cluster)
    ]
    ends.sort()
    for at, (end, _, allocation) in enumerate(ends):
        cpu, memory = cpu - allocation.cpu_millicpus, memory - allocation.memory_bytes
        together = at + 1 < len(ends) and ends[at + 1][0] == end
        if cpu <= 0 and memory <= 0 and not together and end < inf:
            return KeptRoom(head, server, row, end, -cpu, -memory)
    return KeptRoom(head, server, row, inf)


def _holding(server: str, cluster: ClusterState) -> list[tuple[WorkloadRecord, Allocation]]:
    records = cluster.residency.residents_of(server)
    records += [cluster.state.workloads[name] for name in cluster.residency.copies.get(server, ())]
    return [
        (record, placement.allocation)
        for record in records
        for placement in held(record)
        if placement.server == server
    ]


def _is_full_of_services(kept: KeptRoom, cluster: ClusterState) -> bool:
    holding = [record.workload.type for record, _ in _holding(kept.server, cluster)]
    return bool(holding) and all(type_ is WorkloadType.LATENCY_CRITICAL for type_ in holding)


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
    rows = (view.row(server) for server in freed if server in (view.rows or view.names))
    return any(
        view.cpu_capacity.item(row) - view.cpu_allocated.item(row) >= cpu
        and view.memory_capacity.item(row) - view.memory_allocated.item(row) >= memory_bytes
        for row in rows
    )


# --- when something ends -----------------------------------------------------------------


def expected_end(record: WorkloadRecord, now: float) -> float:
    """When what holds resources should end, in seconds since the epoch; infinite = unknown."""
    if record.profiling is not None:
        return copy_end(record.profiling, record.phase_since, now)
    if record.paused:
        return inf
    starts = record.started_at is None or record.phase in (Phase.PLACED, Phase.STARTING)
    begun = record.phase_since if starts else record.started_at or 0.0
    return _end(record, record.predicted, begun, now)


def end_if_placed(record: WorkloadRecord, decision: Decision, now: float) -> float:
    """The same for a waiting workload, if it were placed now by this decision."""
    return _end(record, decision.predicted, now, now)


def _end(record: WorkloadRecord, predicted: Prediction | None, begun: float, now: float) -> float:
    """What its user expects, else its time limit, else the later end of what is predicted."""
    run = record.workload.run
    if run.restart.policy is RestartPolicy.ALWAYS:
        return inf
    # One that is long over was wrong. Asked of every resident of many servers: nothing is built.
    seconds = record.workload.expected_seconds
    if seconds is not None and now - (end := begun + seconds) <= LATE * (end - begun):
        return max(now, end)
    seconds = run.time_limit_seconds
    if seconds is not None and now - (end := begun + seconds) <= LATE * (end - begun):
        return max(now, end)
    completion = None if predicted is None else predicted.performance.get(Term.COMPLETION)
    if completion is not None:
        end = record.submitted_at + completion.high
        if now - end <= LATE * (end - begun):
            return max(now, end)
    return inf


def copy_end(plan: ProfilingPlan, begun_at: float, now: float) -> float:
    """When a copy should end; one that takes longer than it should ends at any time."""
    return max(now, begun_at + COPY_OVERHEAD * plan.seconds)
