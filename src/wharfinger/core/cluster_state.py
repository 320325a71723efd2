"""What the core knows: the state that a snapshot keeps, and what can be derived from it.

Derived are the servers' columns, the lines before the servers, the index of keys. ``fold``
changes it, event by event, through the moves that are here; nothing is decided.
"""

from wharfinger.core import events as ev
from wharfinger.core.deadlines import Deadlines
from wharfinger.core.lifecycle import ENDED, NEXT, ON_SERVER, Phase, Trigger
from wharfinger.core.ordered import Ordered
from wharfinger.core.queues import QueueEntry, WaitingQueues, entry_of
from wharfinger.core.seams.contention import ContentionModel, Resident
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.core.settings import settings_in
from wharfinger.core.state import ManagerState, WorkloadRecord, held, is_violated
from wharfinger.core.tables import ServerTable
from wharfinger.core.triggers import answers_resize, trigger_of
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision
from wharfinger.model.performance import STALE_SECONDS
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Estimate
from wharfinger.model.view import ClusterView, Occupant, OffTarget, PlacementRequest

UNDECIDED = frozenset({Phase.SUBMITTED, Phase.ADMITTED, Phase.CLASSIFIED})
"""Phases that a workload leaves within the handling of one event."""
_ANSWERS_CLASSIFYING = (ev.WorkloadClassified, ev.ClassificationFailed)
_ANSWERS_RESIZE = (ev.AllocationResized, ev.ResizeFailed)


class ClusterState:
    """State and what is derived from it.

    Attributes:
        state: What a snapshot keeps.
        lines: Workloads that wait for a place.
        by_key: Name of the workload whose current key this is.
        undecided: Workloads for which the pipeline has a next step now.
        unprofiled: Admitted, and waiting for room for their profiling runs; in order.
        ended: (order, uid, name) of the ended ones, oldest first.
        suspended: Names of those that are.
        arriving: Stopped to be migrated, and now to be started where room is held for them.
        residents: Names of the workloads that hold resources on a server, by the server's name.
        resize_wanted: Running, or about to, with another reservation than they have.
        contention: How residents slow one another; ``None`` = nothing is kept of that.
        touched: Changed since the manager last looked; names, in order.
        dropped_keys: Keys that no record has any more; the engine may forget them.
        questions: Names of the workloads that deciders are asked about, by the question's key.
        leaving_for: Names of those that are being stopped for a workload's sake, by its name.
        room_changed: Something happened after which a waiting workload may find a place.

    Args:
        contention: The model by which it is kept how residents slow one another.
    """

    def __init__(
        self,
        state: ManagerState,
        contention: ContentionModel | None = None,
        index: ServerIndex | None = None,
    ) -> None:
        self.state = state
        self.contention = contention.table() if contention else None
        self.columns = ServerTable(self.contention, index, self.occupants)
        self.lines = WaitingQueues()
        self.by_key: dict[str, str] = {}
        self.undecided: dict[str, None] = {}
        self.unprofiled: Ordered[QueueEntry] = Ordered()
        self.ended: Ordered[tuple[float, int, str]] = Ordered()
        self.resize_wanted: dict[str, None] = {}
        self.suspended: dict[str, None] = {}
        self.arriving: dict[str, None] = {}
        self.questions: dict[str, str] = {}
        self.leaving_for: dict[str, dict[str, None]] = {}
        self.residents: dict[str, dict[str, None]] = {}
        self.touched: dict[str, None] = {}
        self.dropped_keys: list[str] = []
        self.room_changed = True
        self._measured_at = Deadlines()
        self._reviews = Deadlines()
        self._derive()

    def view(self) -> ClusterView:
        """The cluster as policies see it."""
        return self.columns.view(self.state.capabilities)

    def record_of(self, key: str) -> WorkloadRecord | None:
        """The workload whose current key this is."""
        name = self.by_key.get(key)
        return None if name is None else self.state.workloads[name]

    def is_news(self, event: ev.Event) -> bool:
        """Whether a report changes anything; late and doubled ones do not."""
        key = getattr(event, "key", None)
        if key is None:
            if isinstance(event, ev.ServerReported):
                return self.state.servers.get(event.server.name) != event.server
            if isinstance(event, ev.ServerMeasured):
                return any(self.running(sample.key) for sample in event.samples)
            return not isinstance(event, ev.ServerLeft) or event.name in self.state.servers
        if isinstance(event, ev.ServerAcquired | ev.AcquisitionFailed):
            return key in self.state.orders
        if isinstance(event, ev.PlacementProposed):
            return self.asked_by(key) is not None
        record = self.record_of(key)
        if record is None:
            return False
        if isinstance(event, _ANSWERS_CLASSIFYING) and record.reclassifying:
            return True
        if isinstance(event, _ANSWERS_RESIZE):
            return answers_resize(event, record)
        return (record.phase, self._trigger(event, record)) in NEXT

    def running(self, key: str) -> WorkloadRecord | None:
        """The workload that runs under this key; ``None`` = there is none."""
        record = self.record_of(key)
        return record if record and record.phase in (Phase.RUNNING, Phase.ADJUSTING) else None

    def request(
        self,
        record: WorkloadRecord,
        now: float,
        *,
        off_target: OffTarget | None = None,
        load: float | None = None,
        note: str = "",
    ) -> PlacementRequest:
        """Leaves out the servers that failed to start it, unless no other is large enough."""
        return PlacementRequest(
            record.workload,
            self._excluded(record),
            off_target,
            record.classification,
            max(0.0, now - record.submitted_at),
            load,
            record.measurements,
            note,
            now,
        )

    def _excluded(self, record: WorkloadRecord) -> frozenset[int]:
        if not record.excluded:
            return frozenset()
        servers = self.state.servers
        need = PlacementRequest(record.workload).reserved(self.state.capabilities)
        others = (server for name, server in servers.items() if name not in record.excluded)
        if not any(
            server.accepting
            and server.cpu_millicpus >= need.cpu_millicpus
            and server.memory_bytes >= need.memory_bytes
            for server in others
        ):
            return frozenset()
        return frozenset(self.columns.row(name) for name in record.excluded if name in servers)

    # --- pieces of the fold ------------------------------------------------------------------

    def servers_changed(self) -> None:
        """Workloads that were too large may have a place now."""
        self.room_changed = True
        self.lines.take_back()

    def drop_if_empty(self, name: str) -> None:
        """The row of a server that has left goes with the last that is held there."""
        if name not in self.state.servers and not self.columns.residents(name):
            if self.contention:
                self.contention.drop(self.columns.row(name))
            self.columns.drop(name)

    def put_server(self, server: Server, *, joins: bool) -> None:
        """A server joins, or something about it has changed: its residents stay."""
        if joins and self.contention and server.name in self.columns:
            self.contention.drop(self.columns.row(server.name))
        self.columns.put(server, joins=joins)
        self.review_contention(server.name)

    def await_profiling(self, record: WorkloadRecord) -> None:
        """It waits for room for its profiling runs."""
        self.undecided.pop(record.name, None)
        if (entry := entry_of(record)) not in self.unprofiled:
            self.unprofiled.add(entry)

    def decided(
        self, time: float, name: str, decision: Decision, trigger: Trigger
    ) -> WorkloadRecord:
        """A decision about a workload, and where that takes it."""
        record = self.state.workloads[name]
        record.remember(time, decision)
        self.move(time, record, trigger)
        return record

    def give_key(self, record: WorkloadRecord, key: str) -> None:
        """A new start, or profiling, by a key of its own."""
        if self.by_key.pop(record.key, None) is not None:
            self.dropped_keys.append(record.key)
        record.key = key
        record.attempts += 1
        self.by_key[key] = record.name

    def settle(
        self,
        time: float,
        event: ev.AllocationResized | ev.ResizeFailed,
        placements: tuple[Placement, ...],
    ) -> None:
        """The answer to a resize."""
        record = self.record_of(event.key)
        if record is None or not answers_resize(event, record):
            return
        before = held(record)
        self.columns.hold(before, sign=-1)
        record.placements, record.planned = placements, ()
        self.columns.hold(held(record))
        stays = {placement.server for placement in placements}
        self._leave(record, tuple(p for p in before if p.server not in stays))
        self.move(time, record, Trigger.SETTLE)
        self.free(before)

    def platform_of(self, record: WorkloadRecord) -> str:
        """The name of the one on which it runs; empty = it has no place, or its server is gone."""
        placed = record.placements[:1]
        server = self.state.servers.get(placed[0].server) if placed else None
        return server.platform.name if server else ""

    def count_copies(self, record: WorkloadRecord, change: int) -> None:
        """Its profiling copies begin on their servers (1), or have ended (-1)."""
        self.columns.hold(held(record), sign=change)
        for placement in held(record):
            self.columns.count_copy(placement.server, change)

    def end_copy(self, record: WorkloadRecord) -> None:
        """Its profiling copy is gone, or will be; the room that was kept for it is free."""
        if record.profiling is None:
            return
        held_there = held(record)
        self.count_copies(record, -1)
        record.profiling = None
        self.drop_departed(held_there)
        self.free(held_there)

    def reported(self, time: float, event: ev.Event) -> WorkloadRecord | None:
        """Move the workload that a report is about; ``None`` where the report is stale."""
        record = self.record_of(getattr(event, "key", ""))
        if record is None:
            return None
        trigger = self._trigger(event, record)
        if (record.phase, trigger) not in NEXT:
            return None
        self.move(time, record, trigger)
        return record

    def _trigger(self, event: ev.Event, record: WorkloadRecord) -> Trigger:
        # Only a failed start hangs on settings, and most reports are others.
        if isinstance(event, ev.StartFailed):
            return trigger_of(event, record, settings_in(self.state))
        return trigger_of(event, record)

    # --- moving, and what follows from it --------------------------------------------------

    def move(self, time: float, record: WorkloadRecord, trigger: Trigger) -> None:
        """Take a workload along an edge of the lifecycle, with all that hangs on it."""
        source, target = record.phase, NEXT[record.phase, trigger]
        destination = record.planned if source is Phase.MIGRATING else ()
        self._leave_phase(time, record, target)
        record.phase, record.phase_since = target, time
        if target is Phase.SUSPENDED:
            self.suspended[record.name] = None
        if Phase.SUSPENDED in (source, target) and target in ON_SERVER:
            self.neighbors_change(record, time)
            for placement in record.placements:
                self.review(placement.server)
        if target is Phase.QUEUED:
            record.placements, record.planned = (), destination
            if destination:
                self.arriving[record.name] = None
            self.join_line(record)
        elif target in ENDED:
            record.ended_at = time
            # Not by time alone: a clock that was set back would make the newest the oldest.
            record.ended_order = max(time, self.ended[-1][0]) if self.ended else time
            self.ended.add(_end_of(record))
        if target in UNDECIDED:
            self.undecided[record.name] = None
        else:
            self.undecided.pop(record.name, None)
        self.touched[record.name] = None

    def _leave_phase(self, time: float, record: WorkloadRecord, target: Phase) -> None:
        """What goes with the phase in which it was."""
        source = record.phase
        if source is Phase.QUEUED:
            self.leave_line(record)
        elif source is Phase.ADMITTED:
            self.leave_unprofiled(record)
        elif source is Phase.PROFILING:
            self.end_copy(record)
        elif source is Phase.SUSPENDED:
            self.suspended.pop(record.name)
        elif source is Phase.MIGRATING:
            self.has_left(record)
        if source in ON_SERVER and target not in ON_SERVER:
            self.neighbors_change(record, time)
            self.release(record)
        if record.review_at is not None:
            self.review_at(record, None)
        self.drop_question(record)

    def release(self, record: WorkloadRecord) -> None:
        """What it held on its servers is free."""
        placements = held(record)
        self.columns.hold(placements, sign=-1)
        record.planned, record.reclassifying = (), False
        self.want_resize(record, wanted=False)
        self._leave(record, placements)
        self.free(placements)

    def _leave(self, record: WorkloadRecord, placements: tuple[Placement, ...]) -> None:
        """It is no resident of these servers any more."""
        for placement in placements:
            here = self.residents[placement.server]
            del here[record.name]
            if not here:
                del self.residents[placement.server]
            self.review(placement.server)
        self.drop_departed(placements)

    def free(self, placements: tuple[Placement, ...]) -> None:
        """There may be room on these servers."""
        self.room_changed = True
        for placement in placements:
            self.lines.freed(placement.server)

    def settle_in(self, record: WorkloadRecord) -> None:
        """It holds resources on its servers from now on, and on those that it is to join."""
        placements = held(record)
        self.columns.hold(placements)
        for placement in placements:
            here = self.residents.setdefault(placement.server, {})
            joins = record.name not in here
            here[record.name] = None
            # What one that is there already tolerates and causes hangs on no allocation.
            (self.review if joins else self.watch)(placement.server)

    def resize(self, record: WorkloadRecord, planned: tuple[Placement, ...]) -> None:
        """It is to have these allocations; until it has, servers keep the larger of both."""
        self.columns.hold(held(record), sign=-1)
        record.planned = planned
        self.settle_in(record)

    def hold_destination(self, record: WorkloadRecord, placements: tuple[Placement, ...]) -> None:
        """Servers keep room for one that is stopped to be started there."""
        if placements:
            self.resize(record, placements)

    def watch_all(self, record: WorkloadRecord) -> None:
        """Something about its course has changed."""
        for placement in held(record):
            self.watch(placement.server)

    def residents_of(self, server: str) -> list[WorkloadRecord]:
        """What holds resources there, profiling copies left out."""
        return [self.state.workloads[name] for name in self.residents.get(server, ())]

    def occupants(self, server: str) -> list[Occupant]:
        """The same, as placements see them."""
        return [
            Occupant(
                record.name,
                record.workload.priority,
                record.workload.best_effort,
                record.workload.run.restartable and is_stoppable(record),
                placement.allocation,
            )
            for record in self.residents_of(server)
            for placement in held(record)
            if placement.server == server
        ]

    def leave_for(self, record: WorkloadRecord, name: str) -> None:
        """It is being stopped for this one's sake."""
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
        """One comes or goes: how those beside it do has to show before it tells anything."""
        for placement in record.placements:
            for resident in self.residents_of(placement.server):
                resident.neighbors_changed_at = time

    def slowdown_of(self, record: WorkloadRecord) -> Estimate | None:
        """Its performance beside its neighbors over that alone; ``None`` = unknown."""
        if self.contention is None or len(record.placements) != 1:
            return None
        row = self.columns.row(record.placements[0].server)
        return self.contention.slowdown_of(row, record.name)

    def review(self, server: str) -> None:
        """What residents do to one another, and whether one runs off its prediction."""
        self.room_changed |= self.review_contention(server)
        self._watch(server, self.residents_of(server))

    def review_contention(self, server: str) -> bool:
        """What residents do to one another; whether waiting workloads are to be looked at again."""
        if self.contention is None:
            return False
        known = self.state.servers.get(server)
        residents = sorted(self.residents_of(server), key=lambda record: record.uid)
        counted = [each for each in map(resident, residents) if each is not None]
        platform = known.platform.name if known else None
        self.columns.touch(server)
        return self.contention.put(self.columns.row(server), platform, counted)

    def watch(self, server: str) -> None:
        """Whether a resident runs off its prediction."""
        self._watch(server, self.residents_of(server))

    def _watch(self, server: str, residents: list[WorkloadRecord]) -> None:
        violating = [r for r in residents if r.tracking is not None and r.tracking.violating]
        if self.columns.is_unsettled(server) != bool(violating):
            self.room_changed = self.room_changed or not violating
            self.columns.unsettle(server, unsettled=bool(violating))
        for record in residents if violating else ():
            if is_violated(record) and record.performance is not None:
                self._measured_at.put(record.name, record.performance.measured_at)

    def lost(self, now: float) -> tuple[str, ...]:
        """Names of those for which servers take no new work, and that are not measured any more."""
        names: dict[str, None] = {}
        for server in self.columns.unsettled():
            for record in self.residents_of(server):
                if is_violated(record) and record.performance is not None:
                    at = record.performance.measured_at
                    if now >= at + STALE_SECONDS or now < at:
                        names[record.name] = None
        return tuple(names)

    def stale_at(self, now: float) -> float | None:
        """When the first of those has not been measured for too long; ``None`` = no such."""
        while (first := self._measured_at.first()) is not None:
            at, name = first
            if self._is_watched(name, at):
                return min(at, now) + STALE_SECONDS
            self._measured_at.drop(name)
        return None

    def _is_watched(self, name: str, measured_at: float) -> bool:
        """Whether it is one of those still, and was measured last then."""
        record = self.state.workloads.get(name)
        if record is None or not is_violated(record) or record.performance is None:
            return False
        there = [p.server for p in held(record) if name in self.residents.get(p.server, ())]
        return record.performance.measured_at == measured_at and any(
            map(self.columns.is_unsettled, there)
        )

    # --- admissions that look again, and deciders outside -----------------------------------

    def review_at(self, record: WorkloadRecord, time: float | None) -> None:
        """The admission looks at it again then, while it waits; ``None`` = never."""
        record.review_at = time
        if time is None:
            self._reviews.drop(record.name)
        else:
            self._reviews.put(record.name, time)

    def wait_until(self, record: WorkloadRecord, time: float) -> None:
        """It waits for a time; nothing that happens before is a reason to look at it."""
        self.undecided.pop(record.name, None)
        if record.phase is Phase.QUEUED:
            record.retry_at = time
            self.lines.wait(record, time)
        else:
            self.review_at(record, time)

    def unpark(self, record: WorkloadRecord) -> None:
        """It is tried again."""
        if record.phase is Phase.QUEUED and not record.question:
            self.lines.leave(record)
            self.join_line(record)

    def next_review(self) -> tuple[float, str] | None:
        """The first of them, and whose it is."""
        return self._reviews.first()

    def asked_by(self, key: str) -> WorkloadRecord | None:
        """The workload about which a decider was asked under this key, and has not answered."""
        name = self.questions.get(key)
        return None if name is None else self.state.workloads.get(name)

    def delegate(self, record: WorkloadRecord) -> None:
        """It is not tried here until the decider has answered."""
        self.questions[record.question] = record.name
        self.lines.set_aside(record)
        self.touched[record.name] = None

    def drop_question(self, record: WorkloadRecord) -> None:
        """No answer to it is waited for any more."""
        self.questions.pop(record.question, None)
        record.question = ""

    def undelegate(self, record: WorkloadRecord) -> None:
        """The decider has answered: it is in line again.

        That is no reason to ask once more: the answer may be that there is no room.
        """
        self.drop_question(record)
        if record.phase is Phase.QUEUED:
            self.lines.leave(record)
            self.lines.join(record)
        self.touched[record.name] = None

    def drop_departed(self, placements: tuple[Placement, ...]) -> None:
        """As ``drop_if_empty``, for those that something was held on."""
        for placement in placements:
            if placement.server in self.columns:
                self.drop_if_empty(placement.server)

    def join_line(self, record: WorkloadRecord) -> None:
        """Enter its line."""
        if self.lines.join(record):
            self.room_changed = True

    def leave_unprofiled(self, record: WorkloadRecord) -> None:
        """It waits for profiling no more."""
        if self.unprofiled.remove(entry_of(record)):
            self.room_changed = True

    def leave_line(self, record: WorkloadRecord) -> None:
        """Leave the line, if it stands in one."""
        record.retry_at = None
        if record.phase is Phase.QUEUED:
            self.lines.leave(record)
            # The one behind may be first now.
            self.room_changed = True

    def want_resize(self, record: WorkloadRecord, *, wanted: bool) -> None:
        """Whether its allocation should follow its reservation."""
        record.resize_wanted = wanted
        if wanted:
            self.resize_wanted[record.name] = None
        else:
            self.resize_wanted.pop(record.name, None)

    def index(self, record: WorkloadRecord) -> None:
        """Enter a record into everything that is derived."""
        if record.key:
            self.by_key[record.key] = record.name
        if record.on_server or record.profiling is not None:
            for placement in held(record):
                if placement.server not in self.columns:
                    self.columns.put(_departed(placement.server))
                    self.columns.close(placement.server)
        if record.profiling is not None:
            self.count_copies(record, 1)
        elif record.on_server:
            self.settle_in(record)
        if record.resize_wanted:
            self.resize_wanted[record.name] = None
        if record.review_at is not None:
            self._reviews.put(record.name, record.review_at)
        if record.preempted_for:
            self.leave_for(record, record.preempted_for)
        self._index_phase(record)

    def _index_phase(self, record: WorkloadRecord) -> None:
        if record.phase is Phase.SUSPENDED:
            self.suspended[record.name] = None
        elif record.phase is Phase.QUEUED:
            self.join_line(record)
            if record.planned:
                self.arriving[record.name] = None
            if record.question:
                self.delegate(record)
        elif record.phase is Phase.ADMITTED and record.deferral is not None:
            if record.review_at is None:
                self.await_profiling(record)
        elif record.phase in UNDECIDED and record.review_at is None:
            self.undecided[record.name] = None

    def _derive(self) -> None:
        for server in self.state.servers.values():
            self.columns.put(server)
        records = self.state.workloads.values()
        for record in records:
            self.index(record)
        self.ended = Ordered(_end_of(record) for record in records if record.ended)


def is_stoppable(record: WorkloadRecord) -> bool:
    """Whether it can be stopped now, to be started again."""
    return (record.phase, Trigger.MIGRATE) in NEXT and not record.revoking


def _end_of(record: WorkloadRecord) -> tuple[float, int, str]:
    return record.ended_order, record.uid, record.name


def resident(record: WorkloadRecord) -> Resident | None:
    """As contention models see it; ``None`` = it is suspended, or not classified."""
    if record.classification is None or record.phase is Phase.SUSPENDED:
        return None
    stated = record.workload
    return Resident(
        record.name,
        record.uid,
        record.classification,
        stated.best_effort,
        stated.tolerance,
        record.predicted,
    )


def _departed(name: str) -> Server:
    """A server that has left while something still holds resources on it."""
    return Server(name, Platform("departed", "", "", 0, 0), 0, 0, accepting=False)
