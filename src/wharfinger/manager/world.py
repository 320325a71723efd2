"""The fold: how each event changes what the core knows. Nothing is decided here.

``World`` holds the state that a snapshot keeps and, beside it, what can be derived from it:
the servers' columns, the lines before the servers, the index of keys. ``Manager`` decides
and calls ``apply`` with what it decided; a replay calls ``apply`` alone.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

from wharfinger.manager import events as ev
from wharfinger.manager.adaptation import ADJUSTMENTS_PER_MINUTE, follow
from wharfinger.manager.columns import Columns
from wharfinger.manager.lifecycle import ENDED, NEXT, ON_SERVER, Phase, Trigger
from wharfinger.manager.lines import MAX_BACKOFF_SECONDS, Lines
from wharfinger.manager.state import ManagerState, WorkloadRecord, held
from wharfinger.manager.triggers import answers_resize, trigger_of
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.performance import Performance
from wharfinger.model.platform import Platform, Server
from wharfinger.model.view import ClusterView

UNDECIDED = frozenset({Phase.SUBMITTED, Phase.ADMITTED, Phase.CLASSIFIED})
"""Phases that a workload leaves within the handling of one event."""


class World:
    """State and what is derived from it.

    Attributes:
        state: What a snapshot keeps.
        lines: Who waits for a place.
        by_key: Name of the workload whose current key this is.
        undecided: Workloads for which the pipeline has a next step now.
        ended: (order, uid, name) of the ended ones, oldest first.
        measured: Measured since the manager last looked; names, in order.
        resize_wanted: Running, or about to, with another reservation than they have.
        touched: Changed since the manager last looked; names, in order.
        dropped_keys: Keys that no record has any more; the engine may forget them.
        room_changed: Something happened after which a waiting workload may find a place.
    """

    def __init__(self, state: ManagerState) -> None:
        self.state = state
        self.columns = Columns()
        self.lines = Lines()
        self.by_key: dict[str, str] = {}
        self.undecided: dict[str, None] = {}
        self.ended: list[tuple[float, int, str]] = []
        self.resize_wanted: dict[str, None] = {}
        self.measured: dict[str, None] = {}
        self.touched: dict[str, None] = {}
        self.dropped_keys: list[str] = []
        self.room_changed = True
        self._derive()

    def view(self) -> ClusterView:
        """The cluster as policies see it."""
        last_placed = self.state.last_placed
        # The row of a server that has left says nothing of whose turn it is.
        return self.columns.view(
            last_placed if last_placed in self.state.servers else "", self.state.capabilities
        )

    def record_of(self, key: str) -> WorkloadRecord | None:
        """The workload whose current key this is."""
        name = self.by_key.get(key)
        return None if name is None else self.state.workloads[name]

    def apply(self, time: float, event: ev.Event) -> None:
        """Fold one event into the state; an event that no longer applies changes nothing."""
        _APPLY[type(event)](self, time, event)

    def is_news(self, event: ev.Event) -> bool:
        """Whether a report changes anything; late and doubled ones do not."""
        key = getattr(event, "key", None)
        if key is None:
            if isinstance(event, ev.ServerReported):
                return self.state.servers.get(event.server.name) != event.server
            if isinstance(event, ev.ServerMeasured):
                return any(self._running(sample.key) for sample in event.samples)
            return not isinstance(event, ev.ServerLeft) or event.name in self.state.servers
        record = self.record_of(key)
        if record is None:
            return False
        if isinstance(event, ev.ProfilingFinished):
            return record.phase is Phase.PROFILING and not record.profiled
        if isinstance(event, ev.AllocationResized | ev.ResizeFailed):
            return answers_resize(event, record)
        return (record.phase, trigger_of(event, record)) in NEXT

    def _running(self, key: str) -> WorkloadRecord | None:
        record = self.record_of(key)
        return record if record and record.phase in (Phase.RUNNING, Phase.ADJUSTING) else None

    # --- servers -----------------------------------------------------------------------

    def _server_reported(self, _time: float, event: ev.ServerReported) -> None:
        joins = event.server.name not in self.state.servers
        self.state.servers[event.server.name] = event.server
        self.columns.put(event.server, joins=joins)
        self._servers_changed()

    def _server_left(self, _time: float, event: ev.ServerLeft) -> None:
        if self.state.servers.pop(event.name, None) is None:
            return
        self.columns.close(event.name)
        self._drop_if_empty(event.name)
        self._servers_changed()

    def _servers_changed(self) -> None:
        self.room_changed = True
        self.lines.take_back()

    def _drop_if_empty(self, name: str) -> None:
        if name not in self.state.servers and not self.columns.residents(name):
            self.columns.drop(name)

    # --- the manager and its engine ------------------------------------------------------

    def _manager_started(self, _time: float, event: ev.ManagerStarted) -> None:
        state = self.state
        state.nonces.append(event.nonce)
        state.version, state.engine = event.version, event.engine
        state.policy, state.admission = event.policy, event.admission
        state.capabilities = event.capabilities
        state.synced = False

    def _engine_synced(self, time: float, event: ev.EngineSynced) -> None:
        present = set(event.servers)
        for name in [name for name in self.state.servers if name not in present]:
            self._server_left(time, ev.ServerLeft(name, "the engine has it no more"))
        ours = set(self.state.nonces)
        unknown = [key for key in event.known_keys if key not in self.by_key]
        self.state.strays = [key for key in unknown if key.rpartition("-")[2] not in ours]
        self.dropped_keys.extend(key for key in unknown if key.rpartition("-")[2] in ours)
        self.state.synced = True
        self.room_changed = True
        # Whatever was asked of an earlier engine process is asked again: keys make that safe.
        for record in self.state.workloads.values():
            if not record.ended:
                self.touched[record.name] = None

    def _time_passed(self, _time: float, _event: ev.TimePassed) -> None:
        self.room_changed = True

    def _history_lost(self, _time: float, _event: ev.HistoryLost) -> None:
        """What is gone can't be brought back, but it may have held starts.

        So nothing that an earlier process gave a key to is known to be ours any more: what the
        engine knows beyond the records is a stray, and not to be forgotten.
        """
        del self.state.nonces[:-1]

    # --- requests ------------------------------------------------------------------------

    def _submitted(self, time: float, event: ev.WorkloadSubmitted) -> None:
        record = WorkloadRecord(event.workload, self.state.next_uid, time, phase_since=time)
        self.state.next_uid += 1
        self.state.workloads[record.name] = record
        self._index(record)

    def _updated(self, _time: float, event: ev.WorkloadUpdated) -> None:
        record = self.state.workloads[event.workload.name]
        self._leave_line(record)
        changed = event.workload.reservation != record.workload.reservation
        wanted = record.on_server and (record.resize_wanted or changed)
        self._want_resize(record, wanted=wanted)
        record.workload = event.workload
        record.held = None
        if record.phase is Phase.QUEUED:
            self._join_line(record)
        self.touched[record.name] = None

    def _revoked(self, time: float, event: ev.WorkloadRevoked) -> None:
        record = self.state.workloads[event.name]
        record.revoking = True
        record.reason, record.message = "revoked", "its user revoked it"
        # With a key out there, the engine has to say first that nothing runs any more.
        if not record.on_server and record.phase is not Phase.PROFILING:
            self._move(time, record, Trigger.REVOKE)
        self.touched[record.name] = None

    def _forgotten(self, _time: float, event: ev.WorkloadForgotten) -> None:
        record = self.state.workloads.pop(event.name)
        self.by_key.pop(record.key, None)
        if record.key:
            self.dropped_keys.append(record.key)
        entry = (record.ended_order, record.uid, record.name)
        del self.ended[bisect_left(self.ended, entry)]

    # --- decisions -----------------------------------------------------------------------

    def _admitted(self, time: float, event: ev.WorkloadAdmitted) -> None:
        self._decided(time, event.name, event.decision, Trigger.ADMIT)

    def _rejected(self, time: float, event: ev.WorkloadRejected) -> None:
        record = self._decided(time, event.name, event.decision, Trigger.REJECT)
        record.reason, record.message = event.decision.reason, event.decision.message

    def _profiling_planned(self, time: float, event: ev.ProfilingPlanned) -> None:
        record = self._decided(time, event.name, event.decision, Trigger.PROFILE)
        self._give_key(record, event.key)

    def _queued(self, time: float, event: ev.WorkloadQueued) -> None:
        record = self.state.workloads[event.name]
        record.queue = event.queue
        self._move(time, record, Trigger.ENQUEUE)

    def _held(self, time: float, event: ev.WorkloadHeld) -> None:
        record = self.state.workloads[event.name]
        record.remember(time, event.decision)
        record.held = event.decision.reason
        record.reason, record.message = event.decision.reason, event.decision.message

    def _placed(self, time: float, event: ev.WorkloadPlaced) -> None:
        record = self._decided(time, event.name, event.decision, Trigger.PLACE)
        self._give_key(record, event.key)
        record.placements = event.placements
        record.held, record.reason, record.message = None, "", ""
        self.columns.hold(event.placements)
        self.state.last_placed = event.placements[0].server

    def _allocation_planned(self, time: float, event: ev.AllocationPlanned) -> None:
        record = self._decided(time, event.name, event.decision, Trigger.ADJUST)
        record.held, record.reason, record.message = None, "", ""
        self._want_resize(record, wanted=False)
        # What was measured so far was measured under the old allocation.
        record.course, record.adjusted_at = None, time
        self.state.adjusted_at = [*self.state.adjusted_at, time][-ADJUSTMENTS_PER_MINUTE:]
        self.columns.hold(held(record), sign=-1)
        record.planned = event.placements
        self.columns.hold(held(record))

    def _allocation_kept(self, time: float, event: ev.AllocationKept) -> None:
        record = self.state.workloads[event.name]
        record.remember(time, event.decision)
        record.held = event.decision.reason
        if not event.decision.accepted:
            record.reason, record.message = event.decision.reason, event.decision.message
        # For want of room it is tried again when there is some.
        wanted = record.resize_wanted and record.held is ReasonCode.NO_ROOM
        self._want_resize(record, wanted=wanted)

    def _decided(
        self, time: float, name: str, decision: Decision, trigger: Trigger
    ) -> WorkloadRecord:
        record = self.state.workloads[name]
        record.remember(time, decision)
        self._move(time, record, trigger)
        return record

    def _give_key(self, record: WorkloadRecord, key: str) -> None:
        if self.by_key.pop(record.key, None) is not None:
            self.dropped_keys.append(record.key)
        record.key = key
        record.attempts += 1
        self.by_key[key] = record.name

    # --- reports about workloads -----------------------------------------------------------

    def _start_accepted(self, time: float, event: ev.StartAccepted) -> None:
        self._reported(time, event)

    def _started(self, time: float, event: ev.WorkloadStarted) -> None:
        record = self._reported(time, event)
        if record is not None:
            record.starts += 1
            record.started_at = _when(event.started_at, record.submitted_at, time)
            record.handle, record.performance, record.course = event.handle, None, None

    def _start_failed(self, time: float, event: ev.StartFailed) -> None:
        record = self.record_of(event.key)
        if record is None:
            return
        if not record.on_server:
            self._reported(time, event)  # a profiling run that was stopped before it began
            return
        if not record.revoking:
            record.reason, record.message = "start-failed", event.reason
        server = record.placements[0].server
        trigger = trigger_of(event, record)
        record.start_failures += 1
        if trigger is Trigger.RETRY:
            record.excluded = tuple(dict.fromkeys((*record.excluded, server)))
            backoff = min(MAX_BACKOFF_SECONDS, 2.0 ** (record.start_failures - 1))
            record.not_before = time + backoff
        self._move(time, record, trigger)

    def _finished(self, time: float, event: ev.WorkloadFinished) -> None:
        record = self._reported(time, event)
        if record is None:
            return
        record.exit_code, record.signal = event.exit_code, event.signal
        record.cpu_seconds = event.cpu_seconds
        earliest = record.submitted_at if record.started_at is None else record.started_at
        record.ended_at = _when(event.ended_at, earliest, time)
        if not record.revoking:
            record.reason = event.reason
            how = (
                f"exit status {event.exit_code}"
                if event.signal is None
                else f"ended by signal {event.signal}"
            )
            record.message = how if event.reason == "exited" else f"{event.reason}, {how}"

    def _vanished(self, time: float, event: ev.WorkloadVanished) -> None:
        record = self._reported(time, event)
        if record is not None and not record.revoking:
            record.reason, record.message = "vanished", event.reason

    def _resized(self, time: float, event: ev.AllocationResized) -> None:
        self._settle(time, event, event.placements)

    def _resize_failed(self, time: float, event: ev.ResizeFailed) -> None:
        record = self.record_of(event.key)
        if record is not None and answers_resize(event, record):
            self._settle(time, event, record.placements)
            record.reason, record.message = "resize-failed", event.reason

    def _measured(self, time: float, event: ev.ServerMeasured) -> None:
        for sample in event.samples:
            if record := self._running(sample.key):
                record.performance = Performance(time, sample.readings, sample.silent)
                record.course = follow(record)
                if record.course is not None and record.course.side == 0:
                    record.held, record.reason, record.message = None, "", ""
                self.measured[record.name] = None

    def _settle(
        self,
        time: float,
        event: ev.AllocationResized | ev.ResizeFailed,
        placements: tuple[Placement, ...],
    ) -> None:
        record = self.record_of(event.key)
        if record is None or not answers_resize(event, record):
            return
        self.columns.hold(held(record), sign=-1)
        record.placements, record.planned = placements, ()
        self.columns.hold(held(record))
        self._move(time, record, Trigger.SETTLE)
        self.room_changed = True

    def _profiling_finished(self, time: float, event: ev.ProfilingFinished) -> None:
        record = self.record_of(event.key)
        if record is None or record.phase is not Phase.PROFILING:
            return
        record.profiled = True
        self.touched[record.name] = None
        if record.revoking:
            self._move(time, record, Trigger.REVOKE)

    def _profiling_failed(self, time: float, event: ev.ProfilingFailed) -> None:
        record = self._reported(time, event)
        if record is not None:
            record.profiled = True
            record.reason, record.message = "profiling-failed", event.reason

    def _classified(self, time: float, event: ev.WorkloadClassified) -> None:
        self._reported(time, event)

    def _reported(self, time: float, event: ev.Event) -> WorkloadRecord | None:
        """Move the workload that a report is about; ``None`` where the report is stale."""
        record = self.record_of(getattr(event, "key", ""))
        if record is None:
            return None
        trigger = trigger_of(event, record)
        if (record.phase, trigger) not in NEXT:
            return None
        self._move(time, record, trigger)
        return record

    # --- moving, and what follows from it --------------------------------------------------

    def _move(self, time: float, record: WorkloadRecord, trigger: Trigger) -> None:
        source, target = record.phase, NEXT[record.phase, trigger]
        if source is Phase.QUEUED:
            self._leave_line(record)
        if source in ON_SERVER and target not in ON_SERVER:
            self._release(record)
        record.phase, record.phase_since = target, time
        if target is Phase.QUEUED:
            record.placements = ()
            self._join_line(record)
        elif target in ENDED:
            record.ended_at = time
            # Not by time alone: a clock that was set back would make the newest the oldest.
            record.ended_order = max(time, self.ended[-1][0]) if self.ended else time
            insort(self.ended, (record.ended_order, record.uid, record.name))
        if target in UNDECIDED:
            self.undecided[record.name] = None
        else:
            self.undecided.pop(record.name, None)
        self.touched[record.name] = None

    def _release(self, record: WorkloadRecord) -> None:
        placements = held(record)
        self.columns.hold(placements, sign=-1)
        record.planned = ()
        self._want_resize(record, wanted=False)
        for placement in placements:
            if placement.server in self.columns:
                self._drop_if_empty(placement.server)
        self.room_changed = True

    def _join_line(self, record: WorkloadRecord) -> None:
        if self.lines.join(record):
            self.room_changed = True

    def _leave_line(self, record: WorkloadRecord) -> None:
        if record.phase is Phase.QUEUED:
            self.lines.leave(record)
            # Whoever stood behind may be first now.
            self.room_changed = True

    def _want_resize(self, record: WorkloadRecord, *, wanted: bool) -> None:
        record.resize_wanted = wanted
        if wanted:
            self.resize_wanted[record.name] = None
        else:
            self.resize_wanted.pop(record.name, None)

    def _index(self, record: WorkloadRecord) -> None:
        """Enter a record into everything that is derived."""
        if record.key:
            self.by_key[record.key] = record.name
        if record.on_server:
            for placement in held(record):
                if placement.server not in self.columns:
                    self.columns.put(_departed(placement.server))
                    self.columns.close(placement.server)
            self.columns.hold(held(record))
        if record.phase is Phase.QUEUED:
            self._join_line(record)
        if record.resize_wanted:
            self.resize_wanted[record.name] = None
        if record.phase in UNDECIDED:
            self.undecided[record.name] = None
        if record.ended:
            self.ended.append((record.ended_order, record.uid, record.name))

    def _derive(self) -> None:
        for server in self.state.servers.values():
            self.columns.put(server)
        for record in self.state.workloads.values():
            self._index(record)
        self.ended.sort()


def _when(said: float | None, earliest: float, now: float) -> float:
    """When something happened that is reported ``now``; clocks may disagree a little."""
    return now if said is None else max(earliest, min(said, now))


def _departed(name: str) -> Server:
    """A server that has left while something still holds resources on it."""
    return Server(name, Platform("departed", "", "", 0, 0), 0, 0, accepting=False)


_APPLY: dict[type, Callable[[World, float, Any], None]] = {
    ev.ServerReported: World._server_reported,
    ev.ServerLeft: World._server_left,
    ev.EngineSynced: World._engine_synced,
    ev.StartAccepted: World._start_accepted,
    ev.WorkloadStarted: World._started,
    ev.StartFailed: World._start_failed,
    ev.WorkloadFinished: World._finished,
    ev.WorkloadVanished: World._vanished,
    ev.AllocationResized: World._resized,
    ev.ResizeFailed: World._resize_failed,
    ev.ServerMeasured: World._measured,
    ev.ProfilingFinished: World._profiling_finished,
    ev.ProfilingFailed: World._profiling_failed,
    ev.WorkloadClassified: World._classified,
    ev.ManagerStarted: World._manager_started,
    ev.HistoryLost: World._history_lost,
    ev.TimePassed: World._time_passed,
    ev.WorkloadSubmitted: World._submitted,
    ev.WorkloadUpdated: World._updated,
    ev.WorkloadRevoked: World._revoked,
    ev.WorkloadForgotten: World._forgotten,
    ev.WorkloadAdmitted: World._admitted,
    ev.WorkloadRejected: World._rejected,
    ev.ProfilingPlanned: World._profiling_planned,
    ev.WorkloadQueued: World._queued,
    ev.WorkloadHeld: World._held,
    ev.WorkloadPlaced: World._placed,
    ev.AllocationPlanned: World._allocation_planned,
    ev.AllocationKept: World._allocation_kept,
}
