"""How the local engine's workloads perform: the meter, and the load generators of services.

The engine calls ``measure`` and ``ended``. The meter's samples of all workloads become one
``ServerMeasured`` for each server.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local import records
from wharfinger.engines.local.machine import Launcher, environment
from wharfinger.engines.local.records import End, StartRecord
from wharfinger.engines.local.run import LocalRun
from wharfinger.engines.local.watcher import Watcher
from wharfinger.errors import WharfingerError
from wharfinger.host.cgroups import Group
from wharfinger.host.cgroups.limits import UNIFIED
from wharfinger.host.processes import KEY_VARIABLE
from wharfinger.host.run_dir import read_output, read_run
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import NoSignal, Sample
from wharfinger.model.workload import Workload
from wharfinger.monitor.client import MARK, MeterClient, TellNewest, kill_commands
from wharfinger.monitor.spec import LOAD, WatchSpec, spec_of

log = logging.getLogger(__name__)

CPU_FILES = (("cpu.stat", UNIFIED), ("cpuacct.usage", "cpuacct"))

LOAD_ALLOCATION = Allocation(1000, 512 << 20)
"""One CPU and 512 MiB: what drives a load must not be what limits it."""
BRIEF_SECONDS = 2.0
"""A generator that ends sooner is started again only with the next samples, not at once."""

LAST_WORDS_BYTES = 4096
MAX_WORDS = 120
"""Characters of a generator's last line that are shown."""


class LocalMonitor:
    """Measures the engine's runs: reports each server every ``report_seconds`` to ``tell``."""

    def __init__(
        self,
        directory: Path,
        runs: Mapping[str, LocalRun],
        machine: Callable[[], Launcher],
        watcher: Watcher,
        tell: Callable[[ev.Report], None],
        *,
        report_seconds: float,
    ) -> None:
        self._runs = runs
        self._tell = tell
        self._loads = Loads(directory, machine, watcher)
        self._client = MeterClient(
            watcher.add, watcher.remove, self._take, report_seconds=report_seconds
        )

    def adopt(self) -> None:
        """Take over the load generators; end what else an earlier manager left of measuring."""
        kill_commands(self._runs)
        self._loads.adopt({key for key, run in self._runs.items() if run.settled is None})

    def measure(self, action: act.MeasureWorkload) -> None:
        """Measure a run from now on, by what its manifest says now."""
        run = self._runs.get(action.key)
        if run is not None and run.running:
            run.workload = action.workload
            self._loads.keep(run, action.workload)
            self._client.watch(self._spec(run, action.workload))

    def hasten(self, tell_newest: TellNewest | None) -> None:
        """Tell of all runs each second, until called with ``None``."""
        self._client.hasten(tell_newest)

    def ended(self, key: str) -> None:
        """A run has ended: measure it no more."""
        self._client.forget(key)
        self._loads.end(key)

    def close(self) -> None:
        """End the meter; load generators go on as their services do."""
        self._client.close()
        self._loads.close()

    def _spec(self, run: LocalRun, workload: Workload) -> WatchSpec:
        has_load = workload.measure.load_command is not None
        marked = {**environment(workload, run.key), KEY_VARIABLE: run.key + MARK}
        where = WatchSpec(
            run.key,
            str(run.run_dir),
            supervisor_pid=run.supervisor_pid or 0,
            cpu_file=cpu_file(run.group),
            perf_group=str(run.group.paths.get("perf_event", run.group.paths.get(UNIFIED, ""))),
            load_runs=str(self._loads.prefix(run.key)) if has_load else "",
            env=marked if workload.measure.command else {},
        )
        return spec_of(where, workload)

    def _take(self, samples: Sequence[Sample]) -> None:
        by_server: dict[str, list[Sample]] = {}
        for sample in samples:
            run = self._runs.get(sample.key)
            if run is not None and run.running and run.start.placement is not None:
                told = self._with_trouble(sample)
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
            others = [why for why in silence.reason.split("; ") if LOAD not in why]
            silent[quantity] = NoSignal("; ".join((trouble, *others)))
        return replace(sample, silent=silent)


def cpu_file(group: Group) -> str:
    """The file in which a group's CPU time is counted; empty where it has none."""
    files = (group.paths[name] / file for file, name in CPU_FILES if name in group.paths)
    return next((str(path) for path in files if path.exists()), "")


@dataclass(slots=True)
class _Load:
    """One service's generator; ``workload`` is ``None`` until the core has named it.

    The ``former`` run is kept until the next one ends: most print their numbers last, which the
    meter still has to read. ``trouble`` says how the last one failed.
    """

    workload: Workload | None
    server: str
    number: int
    run: LocalRun | None = None
    former: LocalRun | None = None
    began: float = 0.0
    trouble: str = ""


class Loads:
    """Load generators: each runs beside its service, under a supervisor and in its own cgroups.

    It begins once its service is measured, is started again whenever it ends, and is killed when
    the service ends. It outlives a manager as workloads do; the next one finds its run directory,
    ``.loads/KEY.N``, which no key of the core can be.
    """

    def __init__(self, directory: Path, machine: Callable[[], Launcher], watcher: Watcher) -> None:
        self._directory = directory / ".loads"
        self._machine = machine
        self._watcher = watcher
        self._loads: dict[str, _Load] = {}
        self._ending: dict[str, LocalRun] = {}

    def prefix(self, key: str) -> Path:
        """Beginning of the names of a service's generator's run directories."""
        return self._directory / f"{key}."

    def adopt(self, running: set[str]) -> None:
        """Take over what an earlier engine left; what serves no running key is ended."""
        for name in records.list_keys(self._directory) if self._directory.is_dir() else ():
            key, _, number = name.rpartition(".")
            start = records.read_start(self._directory / name)
            if start is None or start.placement is None or not number.isdecimal():
                continue
            run = self._make_run(name, start)
            run.adopt(read_run(run.run_dir))
            if run.settled is not None or key not in running:
                self._drop(run)
                continue
            # The core's MeasureWorkload tells which program it is.
            load = _Load(None, start.placement.server, int(number), run, began=time.monotonic())
            self._loads[key] = load

    def keep(self, service: LocalRun, workload: Workload) -> None:
        """Let a service have the generator that its manifest names, or none."""
        placement = service.start.placement
        if workload.measure.load_command is None or placement is None:
            self.end(service.key)
            return
        load = self._loads.setdefault(service.key, _Load(workload, placement.server, 0))
        former = load.workload or workload
        if former.measure.load_command != workload.measure.load_command:
            if load.run is not None:
                self._drop(load.run)
            load.run, load.trouble = None, ""
        load.workload = workload
        if load.run is None:
            self._start(service.key, load)

    def end(self, key: str) -> None:
        """Its service has ended, and so does it."""
        load = self._loads.pop(key, None)
        for run in (load.former, load.run) if load is not None else ():
            if run is not None:
                self._drop(run)

    def trouble(self, key: str) -> str:
        """How a service's generator failed; empty where it did not."""
        load = self._loads.get(key)
        return load.trouble if load is not None else ""

    def revive(self) -> None:
        """Start those again that have ended; called with each lot of samples."""
        for key, load in self._loads.items():
            if load.run is None:
                self._start(key, load)

    def close(self) -> None:
        """Watch them no more; they go on."""
        runs = [run for load in self._loads.values() for run in (load.former, load.run)]
        for run in (*runs, *self._ending.values()):
            if run is not None:
                run.let_go()
        self._loads.clear()
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
        dropped = self._ending.pop(name, None)
        if dropped is not None:
            self._clear(dropped)
            return
        key = name.rpartition(".")[0]
        load = self._loads.get(key)
        if load is None or load.run is None or load.run.key != name:
            return
        if load.former is not None:
            self._clear(load.former)
        load.former, load.run = load.run, None
        load.trouble = _failure(end, load.former)
        if time.monotonic() - load.began >= BRIEF_SECONDS:
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


def last_line(run_dir: Path, max_characters: int) -> str:
    """The last line of a run's output that is not empty, in printable characters."""
    try:
        data, _ = read_output(run_dir, -LAST_WORDS_BYTES, LAST_WORDS_BYTES)
    except (WharfingerError, OSError):
        return ""
    lines = data.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "".join(c if c.isprintable() else " " for c in last)[:max_characters]
