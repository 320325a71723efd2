"""One core, one engine, one clock, one store, joined: events, then fsync, then actions.

The service calls ``submit`` and the other requests, ``pump`` when the engine's descriptor is
readable, and ``tick`` when the core's time has come, all in one thread. Memory is never ahead of
the log: when something can't be logged, the core is rebuilt from the log, reports wait in a
backlog, and requests are refused.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import cast

from wharfinger import __version__
from wharfinger.classification.colocation import Corun, CorunObserver
from wharfinger.classification.learnt import row_name
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, decode_state, encode_event, encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.loop import Loop, Perform
from wharfinger.core.pipeline import Core
from wharfinger.core.ports import OF_AN_ENGINE, Port, Service
from wharfinger.core.state import SCHEMA, ManagerState, WorkloadRecord
from wharfinger.engines.base import Engine
from wharfinger.errors import (
    Conflict,
    EngineFault,
    InvalidInput,
    NotFound,
    Unavailable,
    WharfingerError,
)
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Estimate, Measurements
from wharfinger.model.workload import Workload
from wharfinger.runtime.requests import (
    Acknowledgement,
    RequestOutcome,
    application,
    check_dependencies,
    check_update,
    submission,
)
from wharfinger.store.base import NewEntry, Store

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
MakeManager = Callable[[ManagerState | None], Core]
SETTLED_SECONDS = 10.0
"""From a neighbor's coming or going until measured rates show its effect alone."""
RATE_ERROR = 0.05
"""Relative standard error of a rate that was read once."""
Learns = Callable[[Workload, Measurements], None]
Sees = Callable[[Sequence[Corun], Mapping[str, int]], None]
Asks = Callable[[Workload, Measurements], Future[Classification]]


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history is kept: events between snapshots, and at least for ``get events``."""

    snapshot_every: int = 5_000
    keep_events: int = 20_000


class Runtime:
    """Runs one core.

    Args:
        make_manager: Makes the core around a state (``None`` = a new cluster); called again when
            it must be rebuilt from the log.
        engine: Also an attribute, for logs and usage.
        store: Also an attribute, for the history of events.
        clock: Seconds since the epoch.
        services: Those behind the ports that are not the engine's; an action for an absent one is
            answered so.
        learns: Receives each workload that has ended, with all its measurements.
        sees: Receives what runs together, and thousandths of a CPU of servers by platform.
        asks: Says what a workload needs, for a dry run; ``None`` = nothing is classified.
    """

    def __init__(
        self,
        make_manager: MakeManager,
        engine: Engine,
        store: Store,
        clock: Callable[[], float],
        *,
        services: Mapping[Port, Service] | None = None,
        learns: Learns | None = None,
        sees: Sees | None = None,
        asks: Asks | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._make_manager = make_manager
        self.engine = engine
        self.store = store
        self._clock = clock
        self._services = dict(services or {})
        self._learns, self._sees = learns, sees
        self.asks = asks
        self._observer = CorunObserver(lambda workload: row_name(workload.run.command))
        self._retention = retention or Retention()
        self._backlog: list[ev.Report] = []
        self._stalled = False
        # By key, what the engine could not begin and must be asked again.
        self._unperformed: dict[str, act.Action] = {}
        # Starts that the engine has taken: it will report their end, whatever it answers when it
        # is asked for one again.
        self._taken: set[str] = set()
        self._snapshot_sequence = 0
        self._ahead = False  # whether the core may hold what the log does not
        self._urgent = False
        ports: dict[Port, Perform] = dict.fromkeys(OF_AN_ENGINE, self._ask_engine)
        for port, service in self._services.items():
            ports[port] = partial(self._ask_service, service)
        self._loop = Loop(self._rebuild(), self._append, ports, self._backlog_reports)

    @property
    def manager(self) -> Core:
        """The core; another one after a fault of the store."""
        return self._loop.core

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    # --- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Take over: the engine finds what runs, the core learns of it and continues.

        Raises:
            EngineFault: The engine can't work here.
            OutOfSpace: There is no room even for the reserve.
        """
        self.engine.open()
        started = self.manager.started(
            secrets.token_hex(4), __version__, self.engine.name, self.engine.capabilities
        )
        damage = self.store.damage
        lost = [] if damage is None else [ev.HistoryLost(str(damage))]
        # The nonce first: whatever is decided after a loss must not reuse a lost key.
        self._process([started, *lost], urgent=True)
        self.pump()

    def close(self) -> None:
        """Save a snapshot and release everything; what runs continues."""
        self.engine.close()
        for service in self._services.values():
            service.close()
        self._save_snapshot()
        self.store.close()

    # --- what the service calls when something is due -----------------------------------------

    def descriptors(self) -> list[int]:
        """Any of these is readable when ``pump`` has something to do."""
        others = (service.fileno() for service in self._services.values())
        return [self.engine.fileno(), *(number for number in others if number is not None)]

    def pump(self) -> None:
        """Process reports. Those that can't be logged wait for ``tick``."""
        reports = [*self.engine.poll()]
        for service in self._services.values():
            reports.extend(service.poll())
        for report in reports:
            self._see(report)
        self._backlog.extend(reports)
        if not self._backlog or self._stalled:
            return
        reports, self._backlog = self._backlog, []
        try:
            self._process(reports, urgent=True)
        except Unavailable as error:
            log.warning("%d reports wait until they can be logged: %s", len(reports), error)
            self._backlog = [*reports, *self._backlog]
            # Until the next tick: later reports must not each rebuild the core.
            self._stalled = True
            self._recover()

    def _see(self, report: ev.Report) -> None:
        match report:
            case ev.EngineSynced(known_keys=keys):
                self._taken = set(keys)
            case (
                ev.StartFailed(key=key)
                | ev.WorkloadFinished(key=key)
                | ev.WorkloadVanished(key=key)
                | ev.WorkloadEvicted(key=key)
            ):
                self._taken.discard(key)

    def tick(self) -> None:
        """Tell the core the time when it asked for it, and retry what waits for room."""
        self._stalled = False
        if self._backlog:
            self.pump()
        again, self._unperformed = self._unperformed, {}
        for action in again.values():
            self._loop.perform(action)
        now = self._clock()
        due = self.manager.wake_at(now)
        if due is not None and due <= now:
            self._attempt([ev.TimePassed()], urgent=True)

    def wake_at(self) -> float | None:
        """When ``tick`` is due, in seconds since the epoch; ``None`` = not at all."""
        now = self._clock()
        due = self.manager.wake_at(now)
        if not self._backlog and not self._unperformed:
            return due
        # Immediate answers are processed at once; what can't be logged, a little later.
        if self._backlog and not self._stalled:
            return now
        retry = now + RETRY_SECONDS
        return retry if due is None or self._backlog else min(due, retry)

    # --- requests --------------------------------------------------------------------------

    def check(self, workloads: Sequence[Workload], *, once: bool = False) -> list[Acknowledgement]:
        """What ``submit`` would do with these; raises as it does."""
        check_dependencies(self.manager, workloads)
        answers = [submission(self.manager, workload, once=once) for workload in workloads]
        answered = zip(workloads, answers, strict=True)
        self._check_programs([workload for workload, answer in answered if answer.created])
        return answers

    def _check_programs(self, workloads: Iterable[Workload]) -> None:
        """Refuse a program that the engine can't run, for certain.

        Of an array, whose members run the same, the first is asked about.
        """
        asked = set()
        for workload in workloads:
            program = workload.array.name if workload.array else workload.name
            if program not in asked and (why := self.engine.check(workload)):
                raise InvalidInput(f"workload {workload.name!r}: {why}")
            asked.add(program)

    def submit(self, workloads: Sequence[Workload], *, once: bool = False) -> list[Acknowledgement]:
        """Submit workloads, all or none. On return they are on disk.

        One that has ended begins a new run. With ``once`` it does not: a submission whose answer
        was lost may be repeated.

        Raises:
            Conflict: A name is taken by another workload that has not ended.
            InvalidInput: It depends on what is not there, or can't run here for certain.
            OutOfSpace: Free disk is below the floor.
        """
        acknowledgements = self.check(workloads, once=once)
        answered = zip(workloads, acknowledgements, strict=True)
        self._take([ev.WorkloadSubmitted(workload) for workload, a in answered if a.created])
        return acknowledgements

    def apply(
        self, workloads: Sequence[Workload], *, dry_run: bool = False
    ) -> list[Acknowledgement]:
        """Create, update or replace workloads so that they are as stated, all or none.

        What has ended otherwise than completed runs again. Raises as ``submit``, also for a
        ``dry_run``, which changes nothing.
        """
        check_dependencies(self.manager, workloads)
        planned = [application(self.manager, workload) for workload in workloads]
        answered = zip(workloads, planned, strict=True)
        self._check_programs([workload for workload, (_, events) in answered if events])
        if not dry_run:
            self._take([event for _, events in planned for event in events])
        return [acknowledgement for acknowledgement, _ in planned]

    def _take(self, events: Sequence[ev.ClientRequest]) -> None:
        if events:
            self.store.check_room()
            self._attempt(events)

    def update(self, workload: Workload) -> None:
        """Change the target of a live workload, or what it may use.

        Raises:
            NotFound: There is no such workload.
            Conflict: It has ended, or the change needs another program.
            OutOfSpace: It could not be logged.
        """
        check_update(self.manager, workload)
        if self.manager.find(workload.name).workload != workload:
            self._attempt([ev.WorkloadUpdated(workload)])

    def delete(self, name: str) -> str:
        """Stop what lives (``stopping``), and forget it; or only forget it (``deleted``).

        The name of an array means all of its members. So it does below.

        Raises:
            NotFound: There is no such workload.
            OutOfSpace: It could not be logged.
        """
        members = self.manager.members(name)
        live = [record for record in members if not record.ended]
        self._each(ev.WorkloadForgotten, [record for record in members if record.ended])
        revoked = [r.name for r in live if not (r.revoking and r.forget) or r.resubmitted]
        self._attempt([ev.WorkloadRevoked(name, forget=True) for name in revoked], urgent=True)
        return "stopping" if live else "deleted"

    def stop(self, name: str) -> str:
        """Stop what lives (``stopping``), or do nothing (``ended``); records and output stay.

        Raises as ``delete``.
        """
        live = [record for record in self.manager.members(name) if not record.ended]
        self._each(ev.WorkloadRevoked, [r for r in live if not r.revoking or r.resubmitted])
        return "stopping" if live else "ended"

    def restart(self, name: str) -> str:
        """Stop its program and start it again (``restarting``); an ended one ``runs-again``.

        Raises as ``delete``, and ``Conflict`` where it is being stopped.
        """
        members = self.manager.members(name)
        for record in members:
            if record.revoking and not record.ended:
                raise Conflict(f"workload {record.name!r} is being stopped; wait for its end")
            if record.offer:
                engine = self.manager.state.engine
                told = f"workload {record.name!r} was handed in to {engine} by its user"
                raise Conflict(f"{told}, who alone can start it again there")
        ended = [record for record in members if record.ended]
        live = [record for record in members if not record.ended]
        self._take([ev.WorkloadSubmitted(record.workload) for record in ended])
        self._each(ev.RestartRequested, live)
        return "restarting" if live else RequestOutcome.RUNS_AGAIN

    def suspend(self, name: str) -> None:
        """Give it no CPU time, or, while it waits, no place, until it is resumed.

        Raises as ``delete``, and ``Conflict`` where it has ended or the engine can't.
        """
        able, live = self.manager.state.capabilities, self._live(name)
        if not able.suspend:
            raise Conflict("this engine can't suspend workloads")
        for record in live:
            if not able.within(record.limits).suspend:
                raise Conflict(f"workload {record.name!r} can't be suspended: its engine says so")
        self._each(ev.SuspendRequested, [r for r in live if not r.paused])

    def resume(self, name: str) -> None:
        """End a suspension by its user, or by the manager. Raises as ``suspend``."""
        suspended = [r for r in self._live(name) if r.paused or r.phase is Phase.SUSPENDED]
        self._each(ev.ResumeRequested, suspended)

    def cordon(self, server: str, *, drain: bool = False, reason: str = "") -> None:
        """Place nothing new on a server; ``drain`` = migrate what may be restarted, too.

        Raises:
            NotFound: There is no such server.
        """
        if server not in self.manager.state.servers:
            raise NotFound(f"no server {server!r}")
        self._attempt([ev.ServerCordoned(server, drain, reason)], urgent=True)

    def uncordon(self, server: str) -> None:
        """Place new work on a server again. Raises as ``cordon``."""
        if server in self.manager.state.cordoned:
            self._attempt([ev.ServerUncordoned(server)], urgent=True)
        elif server not in self.manager.state.servers:
            raise NotFound(f"no server {server!r}")

    def _live(self, name: str) -> list[WorkloadRecord]:
        members = self.manager.members(name)
        live = [record for record in members if not record.ended and not record.revoking]
        if not live:
            raise Conflict(f"workload {name!r} has ended ({members[0].phase})")
        return live

    def _each(
        self, request: Callable[[str], ev.ClientRequest], records: Sequence[WorkloadRecord]
    ) -> None:
        if records:
            self._attempt([request(record.name) for record in records], urgent=True)

    # --- the one way in ------------------------------------------------------------------------

    def _attempt(self, events: Sequence[ev.ClientRequest], *, urgent: bool = False) -> None:
        """Process requests; when they can't be logged, it is as if they had never come."""
        try:
            self._process(events, urgent=urgent)
        except Unavailable:
            self._recover()
            raise

    def _process(self, events: Iterable[ev.Report | ev.ClientRequest], *, urgent: bool) -> None:
        """Decide, log durably, then act."""
        self._ahead, self._urgent = True, urgent
        steps = self._loop.turn(self._clock(), events)
        self._ahead = False
        for step in steps:
            for event in step.events:
                self._learn_from(event)
                if self._sees is not None:
                    self._look_at(event, self._sees)
        if self.store.last_sequence - self._snapshot_sequence >= self._retention.snapshot_every:
            self._save_snapshot()

    def _append(self, now: float, events: Sequence[ev.Event]) -> None:
        entries = [NewEntry(now, *encode_event(event)) for event in events]
        self.store.append(entries, urgent=self._urgent)
        self._ahead = False

    def _ask_engine(self, wanted: act.Action) -> None:
        action = cast("act.EngineAction", wanted)
        try:
            self.engine.perform(action)
        except EngineFault as error:
            log.warning("%s %s: %s", type(action).__name__, action.key, error)
            if isinstance(action, act.StartWorkload) and action.key in self._taken:
                return  # Repeated later, it could start again after its end.
            answers = _not_performed(action, error)
            self._backlog.extend(answers)
            if not answers and (error.retryable or isinstance(action, act.StopWorkload)):
                self._unperformed[action.key] = action
            return
        if isinstance(action, act.StartWorkload):
            self._taken.add(action.key)
            # An earlier refusal, not processed yet, is no longer the answer.
            self._backlog = [
                report
                for report in self._backlog
                if not (isinstance(report, ev.StartFailed) and report.key == action.key)
            ]

    def _ask_service(self, service: Service, action: act.Action) -> None:
        service.perform(action)
        if service.fileno() is None:
            self._backlog.extend(service.poll())

    def _backlog_reports(self, reports: Iterable[ev.Report]) -> None:
        self._backlog.extend(reports)

    def _learn_from(self, event: ev.Event) -> None:
        if self._learns is None or not isinstance(event, ev.WorkloadFinished):
            return
        record = self.manager.record_of(event.key)
        seen = self.manager.measured(record) if record is not None and record.ended else None
        if record is not None and seen is not None:
            self._learns(record.workload, seen)

    def _look_at(self, event: ev.Event, sees: Sees) -> None:
        """How workloads run beside one another, once the effect of new neighbors has settled."""
        if reported := ev.servers_in(event):
            sees((), {server.platform.name: server.cpu_millicpus for server in reported})
        if not isinstance(event, ev.ServerMeasured):
            return
        server, now = self.manager.state.servers.get(event.server), self._clock()
        residents = self.manager.residents_of(event.server)
        if server is None or len(residents) < 2:
            return
        rates = {}
        for record in residents:
            performance = record.performance
            changed = max(record.neighbors_changed_at or 0.0, record.started_at or now)
            # Others there may have been measured before the neighbor came.
            if performance is None or performance.measured_at < changed + SETTLED_SECONDS:
                continue
            if value := performance.trusted(Quantity.RATE):
                rates[record.key] = Estimate(value, RATE_ERROR)
        if coruns := self._observer.look(server, residents, rates):
            sees(coruns, {})

    # --- the log ---------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Put the core back to what the log holds.

        Raises:
            WharfingerError: It can't be read; to continue would be to act on what is not logged.
        """
        try:
            self._loop.core = self._rebuild()
        except Unavailable as error:
            raise WharfingerError(f"the event log can't be read again: {error}") from error
        self._ahead = False

    def _rebuild(self) -> Core:
        """The core as the log has it: the newest snapshot, and what came after."""
        snapshot = self.store.latest_snapshot()
        manager = self._make_manager(None if snapshot is None else decode_state(snapshot.payload))
        self._snapshot_sequence = 0 if snapshot is None else snapshot.sequence
        for entry in self.store.read(after=self._snapshot_sequence):
            manager.apply(entry.time, decode_event(entry.kind, entry.payload))
        return manager

    def _save_snapshot(self) -> None:
        """Shorten the next replay. Nothing depends on it, so it may fail."""
        sequence = self.store.last_sequence
        # After a fault the log is the truth, and a snapshot would hide it.
        if sequence == self._snapshot_sequence or self._ahead:
            return
        # Counted also where it fails: a full disk is not tried again at every event.
        self._snapshot_sequence = sequence
        try:
            payload = encode_state(self.manager.state)
            self.store.save_snapshot(sequence, self._clock(), SCHEMA, payload)
            self.store.compact(self._retention.keep_events)
        except Unavailable as error:
            log.warning("no snapshot now, the next start replays more: %s", error)


def _not_performed(action: act.Action, error: EngineFault) -> list[ev.Report]:
    """The core's answer for an action that an engine could not begin."""
    match action:
        case act.StartWorkload(key=key):
            return [ev.StartFailed(key, str(error), error.retryable)]
        case act.ResizeAllocation(key=key, placements=placements):
            return [ev.ResizeFailed(key, str(error), placements)]
        case act.ProfileWorkload(key=key):
            return [ev.ProfilingFailed(key, str(error))]
        case act.ProbeWorkload(key=key, number=number):
            return [ev.WorkloadProbed(key, number, Measurements(), str(error))]
    return []
