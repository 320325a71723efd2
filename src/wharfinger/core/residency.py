"""Which workloads hold resources on which servers, and everything derived from that.

``ClusterState`` reports every placement to it; placements and adaptations read it.
"""

from dataclasses import replace

from wharfinger.core.deadlines import Deadlines
from wharfinger.core.ends import ExpectedEnds
from wharfinger.core.lifecycle import NEXT, Phase, Trigger
from wharfinger.core.queues import WaitingQueues
from wharfinger.core.seams.contention import ContentionModel, Resident
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.core.state import ManagerState, WorkloadRecord, held
from wharfinger.core.tables import ServerTable
from wharfinger.model.allocation import Placement
from wharfinger.model.performance import STALE_SECONDS
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.requirements import are_met
from wharfinger.model.view import Occupant
from wharfinger.model.workload import Workload

_UNCLASSIFIED = Classification("", "")
_DEPARTED = Platform("departed", "", "", 0, 0)
"""Of servers that have left while something still holds resources on them."""


class Residency:
    """The servers' rows, their residents, and the contention between these.

    Attributes:
        columns: What policies scan.
        contention: The contention model's table; ``None`` = there is no model.
        residents: Names of residents, by the server's name.
        copies: Names of those of which profiling runs are there, in the same way.
        ends: When what holds resources should end.
        leaving_for: Names of those that are being stopped for a workload's sake, by its name.
    """

    def __init__(
        self,
        state: ManagerState,
        queues: WaitingQueues,
        contention: ContentionModel | None,
        index: ServerIndex | None,
    ) -> None:
        self._state = state
        self._queues = queues
        self.contention = contention.table() if contention else None
        self.columns = ServerTable(self.contention, index, self._occupants)
        self.residents: dict[str, dict[str, None]] = {}
        self.leaving_for: dict[str, dict[str, None]] = {}
        self.copies: dict[str, dict[str, None]] = {}
        self.ends = ExpectedEnds(state.workloads, self.residents, self.copies)
        self._measured_at = Deadlines()
        for server in state.servers.values():
            self.columns.put(server)

    # --- servers ---------------------------------------------------------------------------

    def put_server(self, server: Server, *, joins: bool) -> None:
        """A server joins, or something about it has changed; its residents stay.

        Rows are in the order of the state, those of servers that have left behind all others: so
        they are in a new table, too.
        """
        self.columns.put(server)
        row, last = self.columns.row(server.name), len(self._state.servers) - 1
        if joins and row != last:
            self.columns.exchange(server.name, last)
            self.review_contention(self.columns.name(row))
        self.review_contention(server.name)

    def close_server(self, name: str) -> None:
        """A server has left; its row is dropped with its last resident."""
        if self.contention:
            self.contention.drop(self.columns.row(name))
        self.columns.move_to_end(name)
        self.columns.close(name)
        self.review_contention(name)
        self._drop_if_empty(name)

    def _drop_if_empty(self, name: str) -> None:
        if name in self._state.servers or name not in self.columns:
            return
        if not self.columns.residents(name):
            if self.contention:
                self.contention.drop(self.columns.row(name))
            self.columns.drop(name)

    # --- what is held there ----------------------------------------------------------------

    def index(self, record: WorkloadRecord) -> None:
        """Enter a record of a snapshot; its servers may have left."""
        if not record.on_server and record.plan is None:
            return
        for placement in (*held(record), *record.copied):
            if placement.server not in self.columns:
                self.columns.put(Server(placement.server, _DEPARTED, 0, 0, accepting=False))
                self.columns.close(placement.server)
        if record.plan is not None:
            self.count_copies(record, 1)
        if record.on_server:
            self.settle_in(record)

    def settle_in(self, record: WorkloadRecord) -> None:
        """It holds resources on its servers from now on, and on those that it is to join."""
        placements = held(record)
        self._hold(placements)
        for placement in placements:
            here = self.residents.setdefault(placement.server, {})
            joins = record.name not in here
            here[record.name] = None
            # Contention does not depend on the allocation of a workload that is there already.
            (self.review if joins else self.watch)(placement.server)

    def resize(self, record: WorkloadRecord, planned: tuple[Placement, ...]) -> None:
        """It is to get these allocations; until it has, servers keep the larger of both."""
        self._hold(held(record), sign=-1)
        record.planned = planned
        self.settle_in(record)

    def settle(
        self,
        record: WorkloadRecord,
        placements: tuple[Placement, ...],
        planned: tuple[Placement, ...] = (),
    ) -> None:
        """A resize has ended with these allocations, or it has lost others; a rest is planned."""
        before = held(record)
        self._hold(before, sign=-1)
        record.placements, record.planned = placements, planned
        self._hold(held(record))
        stays = {placement.server for placement in held(record)}
        self._leave(record, tuple(p for p in before if p.server not in stays))
        self._queues.free(before)

    def release(self, record: WorkloadRecord) -> None:
        """Free what it holds on its servers."""
        placements = held(record)
        self._hold(placements, sign=-1)
        record.planned = ()
        self._leave(record, placements)
        self._queues.free(placements)

    def _leave(self, record: WorkloadRecord, placements: tuple[Placement, ...]) -> None:
        for placement in placements:
            here = self.residents[placement.server]
            del here[record.name]
            if not here:
                del self.residents[placement.server]
            self.review(placement.server)
        servers = self._state.servers
        for placement in placements:
            if placement.server not in servers:
                self._drop_if_empty(placement.server)

    def count_copies(self, record: WorkloadRecord, change: int) -> None:
        """Its profiling runs begin on their servers (1), or have ended (-1)."""
        self._hold(record.copied, sign=change)
        for placement in record.copied:
            self.columns.count_copy(placement.server, change)
            here = self.copies.setdefault(placement.server, {})
            if change > 0:
                here[record.name] = None
            else:
                here.pop(record.name, None)

    def end_copies(self, record: WorkloadRecord, time: float) -> None:
        """Free the room that was kept for its profiling runs."""
        if record.plan is None:
            return
        placements = record.copied
        self.count_copies(record, -1)
        if record.copies is not None and record.copies.under_way:
            record.copies = replace(record.copies, answered_at=time)
        else:
            record.profiling = None
        for placement in placements:
            self._drop_if_empty(placement.server)
        self._queues.free(placements)

    def _hold(self, placements: tuple[Placement, ...], *, sign: int = 1) -> None:
        self.columns.hold(placements, sign=sign)
        self.ends.forget(placements)

    def residents_of(self, server: str) -> list[WorkloadRecord]:
        """What holds resources there, profiling runs left out."""
        return [self._state.workloads[name] for name in self.residents.get(server, ())]

    def _occupants(self, server: str) -> list[Occupant]:
        return [
            Occupant(
                record.name,
                record.workload.priority,
                record.workload.best_effort,
                is_stoppable(record) and may_move(record.workload),
                placement.allocation,
            )
            for record in self.residents_of(server)
            for placement in held(record)
            if placement.server == server
        ]

    def leave_for(self, record: WorkloadRecord, name: str) -> None:
        """It is being stopped for the sake of this workload."""
        record.preempted_for = name
        self.leaving_for.setdefault(name, {})[record.name] = None

    def has_left(self, record: WorkloadRecord) -> None:
        """It has been stopped."""
        leaving = self.leaving_for.get(record.preempted_for, {})
        leaving.pop(record.name, None)
        if not leaving:
            self.leaving_for.pop(record.preempted_for, None)
        record.preempted_for = ""

    def neighbors_change(self, record: WorkloadRecord, time: float) -> None:
        """It comes or goes: the effect on its neighbors must show before they are adjusted."""
        for placement in record.placements:
            for neighbor in self.residents_of(placement.server):
                neighbor.neighbors_changed_at = time

    # --- contention, and those that run off their prediction -----------------------------------

    def slowdown_of(self, record: WorkloadRecord) -> Estimate | None:
        """Its performance among its neighbors over that alone; ``None`` = unknown.

        On several servers by its CPU on each, as far as it is known there.
        """
        if self.contention is None:
            return None
        mean = std = total = 0.0
        for placed in record.placements:
            row = self.columns.row(placed.server)
            found = self.contention.slowdown_of(row, record.name)
            if found is not None:
                if len(record.placements) == 1:
                    return found
                cpu = placed.allocation.cpu_millicpus
                mean, std, total = mean + cpu * found.mean, std + cpu * found.std, total + cpu
        return Estimate(mean / total, std / total) if total else None

    def review(self, server: str) -> None:
        """Update the contention on a server, and whether a resident is off its prediction."""
        if self.review_contention(server):
            self._queues.change(server)
        self.watch(server)

    def review_contention(self, server: str) -> bool:
        """Update the contention on a server; whether to try waiting workloads again."""
        residents = sorted(self.residents_of(server), key=lambda record: record.uid)
        self.columns.want(server, sum(map(_wanted, residents)))
        if self.contention is None:
            return False
        reported = self._state.servers.get(server)
        of_all = self.contention.of_unclassified
        seen = (resident(record, server, unclassified=of_all) for record in residents)
        counted = [each for each in seen if each is not None]
        self.columns.touch(server)
        platform = reported.platform.name if reported else None
        return self.contention.put(self.columns.row(server), platform, counted)

    def watch(self, server: str) -> None:
        """Update whether a resident of a server runs off its prediction."""
        residents = self.residents_of(server)
        violating = any(map(_is_off, residents))
        if self.columns.is_unsettled(server) != violating:
            if not violating:
                self._queues.change(server)
            self.columns.unsettle(server, unsettled=violating)
        for record in residents if violating else ():
            if _is_off(record) and record.performance is not None:
                self._measured_at.put(record.name, record.performance.measured_at)

    def watch_all(self, record: WorkloadRecord) -> None:
        """Update that for all servers of a workload."""
        for placement in held(record):
            self.watch(placement.server)

    def lost(self, now: float) -> tuple[str, ...]:
        """Names of those that close their servers, and are no longer measured."""
        names: dict[str, None] = {}
        for server in self.columns.unsettled():
            for record in self.residents_of(server):
                if _is_off(record) and record.performance is not None:
                    at = record.performance.measured_at
                    if now >= at + STALE_SECONDS or now < at:
                        names[record.name] = None
        return tuple(names)

    def stale_at(self, now: float) -> float | None:
        """When the measurement of the first of those becomes stale; ``None`` = there are none."""
        while (first := self._measured_at.first()) is not None:
            at, name = first
            if self._is_watched(name, at):
                return min(at, now) + STALE_SECONDS
            self._measured_at.drop(name)
        return None

    def _is_watched(self, name: str, measured_at: float) -> bool:
        """Whether it is still one of those, and this is its newest measurement."""
        record = self._state.workloads.get(name)
        if record is None or not _is_off(record) or record.performance is None:
            return False
        there = [p.server for p in held(record) if name in self.residents.get(p.server, ())]
        return record.performance.measured_at == measured_at and any(
            map(self.columns.is_unsettled, there)
        )


def _is_off(record: WorkloadRecord) -> bool:
    """Whether its servers take no new work, since it runs off its prediction."""
    return record.tracking is not None and record.tracking.violating


def may_take(server: Server, workload: Workload) -> bool:
    """Whether a server accepts work, and this may go there by its labels."""
    return server.accepting and are_met(workload.requires, server.labels)


def may_move(workload: Workload) -> bool:
    """Whether it may be stopped and placed anew for another's sake: it loses work, and no state."""
    return workload.run.restartable and not workload.scale.stateful


def is_stoppable(record: WorkloadRecord) -> bool:
    """Whether it can be stopped now, to be started again.

    What the engine let go once, for its user, it does not hold any more.
    """
    return (record.phase, Trigger.MIGRATE) in NEXT and not (record.revoking or record.offer)


def resident(record: WorkloadRecord, server: str, *, unclassified: bool = False) -> Resident | None:
    """As contention models see it on a server; ``None`` = suspended or not classified."""
    made = record.classification or (_UNCLASSIFIED if unclassified else None)
    if made is None or record.phase is Phase.SUSPENDED:
        return None
    stated = record.workload
    return Resident(
        record.name,
        record.uid,
        made,
        stated.best_effort,
        1.0 if stated.target is None else stated.tolerance,
        record.predicted,
        _share(record, server),
        stated,
    )


def _wanted(record: WorkloadRecord) -> int:
    """CPU that it would take of what others leave: what it states."""
    if not record.workload.best_effort or record.phase is Phase.SUSPENDED:
        return 0
    return record.workload.reservation.cpu_millicpus


def _share(record: WorkloadRecord, server: str) -> float:
    """Of what it does, what it does there: by its CPU."""
    if len(record.placements) < 2:
        return 1.0
    cpu = {p.server: p.allocation.cpu_millicpus for p in record.placements}
    total = sum(cpu.values())
    return cpu.get(server, 0) / total if total and cpu.get(server) else 1 / len(cpu)
