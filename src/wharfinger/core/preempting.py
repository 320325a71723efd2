"""What a placement's ``Preempt`` does: who is stopped for whom, and who gets the room.

The pipeline calls it with the verdict, and at each step for those whose victims have left.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.own_decisions import refused
from wharfinger.core.residency import is_stoppable, may_move
from wharfinger.core.seams.verdicts import Preempt
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.view import View


class Preempting:
    """Preemptions of one core.

    Args:
        queues: The admission's; what waits in none of them is not stopped.
        view: The cluster as it is now.
        record: Logs an event.
        hold: Logs why a workload can't continue, where that is new.
    """

    def __init__(
        self,
        cluster: ClusterState,
        queues: tuple[str, ...],
        view: Callable[[], View],
        record: Callable[[float, ev.Event], None],
        hold: Callable[[float, WorkloadRecord, Decision], None],
    ) -> None:
        self._cluster = cluster
        self._queues = queues
        self._view = view
        self._record = record
        self._hold = hold

    def stop(self, now: float, record: WorkloadRecord, verdict: Preempt) -> ReasonCode:
        """Stop the victims; the reason why it waits until they have left."""
        decision = verdict.decision
        for name in verdict.victims:
            victim = self._cluster.state.workloads.get(name)
            if victim is not None and self._may_stop(record, victim):
                self._record(now, ev.WorkloadPreempted(name, record.name, decision))
        if record.name not in self._cluster.residency.leaving_for:
            told = _not_preempted(decision)
            self._hold(now, record, told)
            return told.reason
        told = replace(decision, accepted=False, reason=ReasonCode.PREEMPTING)
        free = tuple(self._free_of(record, verdict.placements))
        if free:
            self._record(now, ev.WorkloadDeferred(record.name, told, placements=free))
        else:
            self._hold(now, record, told)
        return told.reason

    def ready(self) -> list[WorkloadRecord]:
        """Those for which room is held, and for which nothing has still to leave."""
        leaving_for, state = self._cluster.residency.leaving_for, self._cluster.state
        return [state.workloads[n] for n in self._cluster.reserved if n not in leaving_for]

    @contextmanager
    def lent(self, record: WorkloadRecord) -> Iterator[None]:
        """Meanwhile the room that is held for it is free, for it to see."""
        columns, reserved = self._cluster.residency.columns, record.reserved
        columns.hold(reserved, sign=-1)
        try:
            yield
        finally:
            columns.hold(reserved)

    def give_up(self, now: float, record: WorkloadRecord, decision: Decision) -> None:
        """What could not be placed holds no room any longer, unless more has to leave for it."""
        is_waiting = record.name in self._cluster.residency.leaving_for
        if record.reserved and not is_waiting:
            self._record(now, ev.WorkloadDeferred(record.name, _given_up(decision)))

    def _may_stop(self, record: WorkloadRecord, victim: WorkloadRecord) -> bool:
        """Whether the victim is stoppable, and less important: so no two stop each other."""
        return (
            victim.queue in self._queues
            and may_move(victim.workload)
            and not victim.stop_reason
            and is_stoppable(victim)
            and _importance(victim) < _importance(record)
        )

    def _free_of(
        self, record: WorkloadRecord, placements: tuple[Placement, ...]
    ) -> Iterator[Placement]:
        """What is free now of where it is to go, and not held for it yet."""
        view, servers = self._view(), self._cluster.state.servers
        for placement in placements:
            server, need = placement.server, placement.allocation
            if server not in servers:
                continue
            row = view.row(server)
            own_cpu = own_memory = 0
            for kept in record.reserved:
                if kept.server == server:
                    own_cpu += kept.allocation.cpu_millicpus
                    own_memory += kept.allocation.memory_bytes
            cpu = int(view.cpu_capacity[row] - view.cpu_allocated[row])
            memory = int(view.memory_capacity[row] - view.memory_allocated[row])
            cpu = max(0, min(need.cpu_millicpus - own_cpu, cpu))
            memory = max(0, min(need.memory_bytes - own_memory, memory))
            if cpu or memory:
                yield Placement(server, Allocation(cpu, memory, need.best_effort))


def _importance(record: WorkloadRecord) -> tuple[bool, int]:
    """Best-effort work comes after all other."""
    return not record.workload.best_effort, record.workload.priority


def _not_preempted(decision: Decision) -> Decision:
    """A preemption whose victims can't be stopped."""
    message = f"{decision.message}; but none of them can be stopped for it"
    mend = "room, or best-effort work or a lower priority that runs and may be started again"
    return refused(decision, ReasonCode.NO_ROOM, message, mend)


def _given_up(decision: Decision) -> Decision:
    """Others have left for its sake, and it can't be placed now."""
    message = f"others have left for it, but it can't be placed now: {decision.message}"
    return refused(decision, ReasonCode.CONFLICT, message, decision.would_change or "room")
