"""How the local engine's workloads perform: the meter, and the load generators of services.

The engine calls ``measure`` and ``ended``. The meter's samples of all workloads become one
``ServerMeasured`` for each server, and what its probes find ``ReadinessChanged`` or the end of a
program that is not alive.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk
from wharfinger.engines.local import records
from wharfinger.engines.local.machine import Launcher
from wharfinger.engines.local.records import StartRecord
from wharfinger.engines.local.run import LocalRun
from wharfinger.engines.local.watcher import Watcher
from wharfinger.errors import InvalidInput, NotFound, OutOfSpace, WharfingerError
from wharfinger.host.accounts import other_account
from wharfinger.host.cgroups import Group
from wharfinger.host.cgroups.limits import UNIFIED
from wharfinger.host.environment import environment
from wharfinger.host.processes import marker_of
from wharfinger.host.reports import End
from wharfinger.host.run_dir import last_line, read_output, read_run
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.model.workload import Workload
from wharfinger.monitor.client import MARK, MeterClient, TellNewest, kill_commands
from wharfinger.monitor.probes import HealthNews, HealthWord
from wharfinger.monitor.source import BUFFERED
from wharfinger.monitor.spec import LOAD, WatchSpec, spec_of

log = logging.getLogger(__name__)

CPU_FILES = (("cpu.stat", UNIFIED), ("cpuacct.usage", "cpuacct"))

LOAD_ALLOCATION = Allocation(1000, 512 << 20)
"""One CPU and 512 MiB: what drives a load must not be what limits it."""
BRIEF_SECONDS = 2.0
"""A generator that ends sooner is started again only with the next samples, not at once."""

MAX_WORDS = 120
"""Characters of a generator's last line that are shown."""


class LocalMonitor:
    """Measures the engine's runs: reports each server every ``report_seconds`` to ``tell``.

    While sources rise, runs are read every ``hastened_seconds``.
    """

    def __init__(
        self,
        directory: Path,
        runs: Mapping[str, LocalRun],
        machine: Callable[[], Launcher],
        watcher: Watcher,
        tell: Callable[[ev.Report], None],
        *,
        report_seconds: float,
        hastened_seconds: float,
    ) -> None:
        self.hastened_seconds = hastened_seconds
        self._runs = runs
        self._tell = tell
        self._readiness: dict[str, ev.ReadinessChanged] = {}
        self._loads = Loads(directory, machine, watcher)
        self._client = MeterClient(
            watcher.add,
            watcher.remove,
            self._take,
            self._hear,
            report_seconds=report_seconds,
            hastened_seconds=hastened_seconds,
        )

    def adopt(self) -> None:
        """Take over the load generators; end what else an earlier manager left of measuring."""
        kill_commands(run.run_dir for run in self._runs.values())
        self._loads.adopt({key: run.settled is None for key, run in self._runs.items()})

    def measure(self, action: act.MeasureWorkload) -> None:
        """Measure a run from now on, by what its manifest says now."""
        run = self._runs.get(action.key)
        if run is not None and run.running:
            run.workload = action.workload
            spec = self._spec(run, action.workload)
            self._loads.keep(run, action.workload, at_once=not (spec.ready or spec.reach))
            self._client.watch(spec)

    def pause(self, key: str, *, paused: bool) -> None:
        """A run is suspended, or resumed: meanwhile nobody probes it."""
        self._client.pause(key, paused=paused)

    def read_load(self, key: str, offset: int, limit_bytes: int) -> LogChunk:
        """Output of a run's load generator; raises ``NotFound`` where none has run."""
        return self._loads.read_log(key, offset, limit_bytes)

    def hasten(self, tell_newest: TellNewest | None) -> None:
        """Tell of all runs each time that they are read, until called with ``None``."""
        self._client.hasten(tell_newest)

    def ended(self, key: str) -> None:
        """A run has ended: measure it no more."""
        self._readiness.pop(key, None)
        self._client.forget(key)
        self._loads.end(key)

    def forget(self, key: str) -> None:
        """Drop what its load generator has said."""
        self._loads.forget(key)

    def close(self) -> None:
        """End the meter; load generators go on as their services do."""
        self._client.close()
        self._loads.close()

    def _spec(self, run: LocalRun, workload: Workload) -> WatchSpec:
        has_load = workload.measure.load_command is not None
        where = WatchSpec(
            run.key,
            str(run.run_dir),
            supervisor_pid=run.supervisor_pid or 0,
            cpu_file=cpu_file(run.group),
            throttle_file=str(run.group.paths["cpu"] / "cpu.stat") if run.group.has_quota else "",
            perf_group=str(run.group.paths.get("perf_event", run.group.paths.get(UNIFIED, ""))),
            load_runs=str(self._loads.prefix(run.key)) if has_load else "",
        )
        return with_commands(spec_of(where, workload), workload)

    def _hear(self, key: str, news: HealthNews) -> None:
        run = self._runs.get(key)
        if run is None or not run.running or run.workload is None:
            return
        match news.word:
            case HealthWord.READY | HealthWord.UNREADY:
                ready = news.word is HealthWord.READY
                self._loads.release(key, ready=ready)
                if run.workload.run.ready is not None:
                    self._tell_readiness(ev.ReadinessChanged(key, ready, news.reason))
            case HealthWord.NOT_ALIVE:
                self._stop_as_not_alive(run, run.workload, news.reason)
            case HealthWord.SILENT_LOAD:
                self._loads.restart(key, news.reason)

    def _tell_readiness(self, changed: ev.ReadinessChanged) -> None:
        # Another meter finds again what was told.
        if self._readiness.get(changed.key) != changed:
            self._readiness[changed.key] = changed
            self._tell(changed)

    def _stop_as_not_alive(self, run: LocalRun, workload: Workload, reason: str) -> None:
        self._tell_readiness(ev.ReadinessChanged(run.key, False, f"not alive: {reason}"))
        try:
            run.stop_as_not_alive(workload.run.stop_grace_seconds)
        except (WharfingerError, OSError) as error:
            # The meter tells it again.
            log.warning("%s is not alive and can't be stopped: %s", run.key, error)

    def _take(self, samples: Sequence[Sample]) -> None:
        by_server: dict[str, list[Sample]] = {}
        for sample in samples:
            run = self._runs.get(sample.key)
            if any(reading.source == LOAD for reading in sample.readings.values()):
                self._loads.heard(sample.key)
            if run is not None and run.running and run.start.placement is not None:
                told = _with_memory(self._with_trouble(sample), run.group)
                by_server.setdefault(run.start.placement.server, []).append(told)
        for server, told_of in by_server.items():
            self._tell(ev.ServerMeasured(server, tuple(told_of)))
        self._loads.revive()

    def _with_trouble(self, sample: Sample) -> Sample:
        trouble = self._loads.trouble(sample.key)
        if not trouble or not sample.silent:
            return sample
        silent = {}
        for quantity, silence in sample.silent.items():
            reasons = silence.reason.split("; ")
            others = [why for why in reasons if LOAD not in why and why != BUFFERED]
            silent[quantity] = NoSignal("; ".join((trouble, *others)))
        return replace(sample, silent=silent)


def with_commands(spec: WatchSpec, workload: Workload) -> WatchSpec:
    """The same with what its commands need: environment and user; without them if there is none."""
    if not spec.runs_commands:
        return spec
    try:
        account = other_account(workload.run.user)
        env = {**environment(workload), **marker_of(Path(spec.run_dir), MARK)}
    except InvalidInput as error:  # The user was removed since it was started.
        log.warning("%s is measured and probed without commands: %s", spec.key, error)
        ready, alive = (
            probe if probe and probe.command is None else None for probe in (spec.ready, spec.alive)
        )
        return replace(spec, command=(), ready=ready, alive=alive)
    user = () if account is None else (account.uid, account.gid, *account.groups)
    return replace(spec, env=env, user=user)


def _with_memory(sample: Sample, group: Group) -> Sample:
    memory_bytes = group.memory_in_use()
    if memory_bytes is None:
        return sample
    reading = Reading(float(memory_bytes), "memory of its control group", trusted=False)
    return replace(sample, readings={**sample.readings, Quantity.MEMORY: reading})


def cpu_file(group: Group) -> str:
    """The file in which a group's CPU time is counted; empty where it has none."""
    files = (group.paths[name] / file for file, name in CPU_FILES if name in group.paths)
    return next((str(path) for path in files if path.exists()), "")


@dataclass(slots=True)
class _Load:
    """One service's generator; ``workload`` is ``None`` until the core has named it.

    The ``former`` run is kept until the next one ends: most print their numbers last, which the
    meter still has to read. ``trouble`` says how the last one failed. It is ``released`` while its
    service is ready. ``silence`` says why the present run is stopped; ``offset`` is that of its
    first byte in the output of all runs, which begins with the first of this manager's time.
    """

    workload: Workload | None
    server: str
    number: int
    run: LocalRun | None = None
    former: LocalRun | None = None
    began: float = 0.0
    trouble: str = ""
    released: bool = False
    silence: str = ""
    offset: int = 0
    former_offset: int = 0

    def kept(self) -> list[tuple[int, LocalRun]]:
        """Its runs that are kept, oldest first, with the offsets of their first bytes."""
        runs = ((self.former_offset, self.former), (self.offset, self.run))
        return [(begin, run) for begin, run in runs if run is not None]


class Loads:
    """Load generators: each runs beside its service, under a supervisor and in its own cgroups.

    It begins once its service is ready, is started again whenever it ends or is silent, and is
    killed when the service ends. It outlives a manager as workloads do; the next one finds its run
    directory, ``.loads/KEY.N``, which no key of the core can be. What it said is kept until its
    service is forgotten.
    """

    def __init__(self, directory: Path, machine: Callable[[], Launcher], watcher: Watcher) -> None:
        self._directory = directory / ".loads"
        self._machine = machine
        self._watcher = watcher
        self._loads: dict[str, _Load] = {}
        self._ended_loads: dict[str, _Load] = {}
        self._ending: dict[str, LocalRun] = {}

    def prefix(self, key: str) -> Path:
        """Beginning of the names of a service's generator's run directories."""
        return self._directory / f"{key}."

    def adopt(self, runs: Mapping[str, bool]) -> None:
        """Take over what an earlier engine left; what serves no running key is ended.

        ``runs`` says of each known key whether it runs.
        """
        for name in records.list_keys(self._directory) if self._directory.is_dir() else ():
            key, _, number = name.rpartition(".")
            start = records.read_start(self._directory / name)
            if start is None or start.placement is None or not number.isdecimal():
                continue
            run = self._make_run(name, start)
            run.adopt(read_run(run.run_dir))
            # The core's MeasureWorkload tells which program it is.
            load = _Load(None, start.placement.server, int(number), run, began=time.monotonic())
            if key not in runs or (runs[key] and run.settled is not None):
                self._drop(run)
            elif runs[key]:
                self._loads[key] = load
            else:
                self._keep_ended(key, load)

    def keep(self, service: LocalRun, workload: Workload, *, at_once: bool) -> None:
        """Let a service have the generator that its manifest names, or none.

        ``at_once`` = nothing says when the service is ready.
        """
        placement = service.start.placement
        if workload.measure.load_command is None or placement is None:
            self.end(service.key)
            self.forget(service.key)
            return
        load = self._loads.setdefault(service.key, _Load(workload, placement.server, 0))
        former = load.workload or workload
        if former.measure.load_command != workload.measure.load_command:
            if load.run is not None:
                self._drop(load.run)
            load.run, load.trouble = None, ""
        load.workload = workload
        if at_once:
            self.release(service.key, ready=True)

    def release(self, key: str, *, ready: bool) -> None:
        """A service is ready: its generator may begin. Or it is so no more: no other run begins."""
        load = self._loads.get(key)
        if load is None:
            return
        load.released = ready
        if ready and load.run is None:
            self._start(key, load)

    def restart(self, key: str, reason: str) -> None:
        """End a generator's present run, which says nothing; another begins."""
        load = self._loads.get(key)
        if load is None or load.run is None:
            return
        load.silence = f"the load generator was started again: {reason}"
        try:
            load.run.stop(0.0)
        except OutOfSpace as error:
            log.warning("%s: its load generator can't be stopped: %s", key, error)

    def heard(self, key: str) -> None:
        """A generator has said a number."""
        if key in self._loads:
            self._loads[key].trouble = ""

    def read_log(self, key: str, offset: int, limit_bytes: int) -> LogChunk:
        """A piece of what a service's generator has said; see ``Engine.read_log``."""
        load = self._loads.get(key) or self._ended_loads.get(key)
        kept = [] if load is None else load.kept()
        if not kept:
            raise NotFound(
                f"no load generator of {key!r} has run; a service names one in measure.load"
            )
        end = kept[-1][0] + _length(kept[-1][1])
        wanted = max(0, end + offset) if offset < 0 else min(offset, end)
        # Asked before the reading: what is written in between is read by the next call.
        ended = key not in self._loads and kept[-1][1].settled is not None
        for begin, run in kept:
            chunk = run.read_log(max(0, wanted - begin), limit_bytes)
            if chunk.data:
                return LogChunk(chunk.data, begin + chunk.next_offset, ended)
        return LogChunk(b"", wanted, ended)

    def end(self, key: str) -> None:
        """Its service has ended, and so does it."""
        load = self._loads.pop(key, None)
        if load is not None:
            self._keep_ended(key, load)

    def _keep_ended(self, key: str, load: _Load) -> None:
        """End its present run; what it said stays."""
        former = self._ended_loads.get(key)
        if former is not None:  # Found as two by an engine that takes over.
            first, load = sorted((former, load), key=lambda one: one.number)
            load.former, load.offset = first.run, _length(first.run) if first.run else 0
        self._ended_loads[key] = load
        if load.run is not None and load.run.settled is None:
            self._ending[load.run.key] = load.run
            load.run.stop(0.0)

    def forget(self, key: str) -> None:
        """Drop what the generator of a service that has ended has said."""
        load = self._ended_loads.pop(key, None)
        for _, run in load.kept() if load is not None else ():
            self._drop(run)

    def trouble(self, key: str) -> str:
        """How a service's generator failed; empty where it did not."""
        load = self._loads.get(key)
        return load.trouble if load is not None else ""

    def revive(self) -> None:
        """Start those again that have ended; called with each lot of samples."""
        for key, load in self._loads.items():
            if load.run is None and load.released:
                self._start(key, load)

    def close(self) -> None:
        """Watch them no more; they go on."""
        loads = (*self._loads.values(), *self._ended_loads.values())
        # One that never began is settled before its supervisor has ended.
        for run in (*(run for load in loads for _, run in load.kept()), *self._ending.values()):
            run.let_go()
        self._loads.clear()
        self._ended_loads.clear()
        self._ending.clear()

    def _start(self, key: str, load: _Load) -> None:
        if load.workload is None:
            return
        load.number += 1
        load.began = time.monotonic()
        name = f"{key}.{load.number}"
        placement = Placement(load.server, LOAD_ALLOCATION)
        command = load.workload.measure.load_command or ()
        workload = replace(load.workload, run=replace(load.workload.run, command=command))
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            machine = self._machine()
            start = machine.plan(name, placement)
            run_dir = records.create_run(self._directory, name, start)
            load.run = run = self._make_run(name, start)
            run.workload = workload
            # Not paced: what drives a load is not to be what stops and goes.
            run.watch_own(machine.launch(run_dir, workload, start, placement, paced=False))
        except (WharfingerError, OSError, KeyError) as error:
            log.warning("%s: its load generator can't be started: %s", key, error)
            load.trouble = f"the load generator can't be started: {error}"
            if load.run is not None:
                load.run.fail_to_start(str(error), retryable=True)
            load.run = None

    def _make_run(self, name: str, start: StartRecord) -> LocalRun:
        def tell(report: ev.Report) -> None:
            if isinstance(report, End):
                self._ended(name, report)

        return LocalRun(self._directory / name, start, self._watcher, tell)

    def _ended(self, name: str, end: End) -> None:
        key = name.rpartition(".")[0]
        dropped = self._ending.pop(name, None)
        if dropped is not None:
            kept = self._ended_loads.get(key)
            if kept is None or kept.run is not dropped:
                self._clear(dropped)
            return
        load = self._loads.get(key)
        if load is None or load.run is None or load.run.key != name:
            return
        if load.former is not None:
            self._clear(load.former)
        load.former, load.run = load.run, None
        load.former_offset = load.offset
        load.offset += _length(load.former)
        load.trouble, load.silence = load.silence or _failure(end, load.former), ""
        if load.released and time.monotonic() - load.began >= BRIEF_SECONDS:
            self._start(key, load)

    def _drop(self, run: LocalRun) -> None:
        if run.settled is not None:
            self._clear(run)
            return
        self._ending[run.key] = run
        run.stop(0.0)

    def _clear(self, run: LocalRun) -> None:
        run.remove_groups()
        run.let_go()
        records.remove_run(run.run_dir)
        with suppress(OSError):  # Others may still be there.
            self._directory.rmdir()


def _length(run: LocalRun) -> int:
    """Bytes that it has printed."""
    try:
        return read_output(run.run_dir, -1, 1)[1]
    except NotFound:
        return 0


def _failure(end: End, run: LocalRun) -> str:
    if not isinstance(end, ev.WorkloadFinished):
        return f"the load generator: {end.reason}"
    if end.exit_code == 0:
        return ""
    how = f"ended with exit status {end.exit_code}"
    if end.signal is not None:
        how = f"was ended by signal {end.signal}"
    words = last_line(run.run_dir, MAX_WORDS)
    return f"the load generator {how}" + (f": {words}" if words else " and printed nothing")
