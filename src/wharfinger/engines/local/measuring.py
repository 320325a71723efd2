"""What the local engine does to know how its workloads perform: the meter, and load generators.

The engine calls ``measure`` when the core asks for it and ``ended`` with each end. Samples come
back from the meter for all at once and become one ``ServerMeasured`` for each server.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local.loads import Loads
from wharfinger.engines.local.run import LocalRun
from wharfinger.engines.local.start import environment
from wharfinger.engines.local.watcher import Watcher
from wharfinger.host.cgroups import Group
from wharfinger.host.cgroups.limits import UNIFIED
from wharfinger.host.processes import KEY_VARIABLE
from wharfinger.model.performance import NoSignal, Sample
from wharfinger.monitor.client import MARK, MeterClient, TellNewest, kill_commands
from wharfinger.monitor.spec import LOAD, WatchSpec, spec_of

CPU_FILES = (("cpu.stat", UNIFIED), ("cpuacct.usage", "cpuacct"))


class LocalMonitor:
    """Measures the engine's runs.

    Args:
        runs: The engine's, by key; looked at when samples come.
        loads: Starts and ends load generators.
        watcher: Tells of samples.
        tell: Takes a report for the core.
        report_seconds: Between two reports on a server.
    """

    def __init__(
        self,
        runs: dict[str, LocalRun],
        loads: Loads,
        watcher: Watcher,
        tell: Callable[[ev.Report], None],
        *,
        report_seconds: float,
    ) -> None:
        self._runs = runs
        self._loads = loads
        self._tell = tell
        self._client = MeterClient(
            watcher.add, watcher.remove, self._take, report_seconds=report_seconds
        )

    @property
    def meter_pid(self) -> int | None:
        """The meter's process; ``None`` while nothing is measured."""
        return self._client.pid

    def adopt(self) -> None:
        """End what an earlier manager's commands have left of these runs' measuring."""
        kill_commands(self._runs)

    def measure(self, action: act.MeasureWorkload) -> None:
        """Measure a run from now on, by what its manifest says now."""
        run = self._runs.get(action.key)
        if run is not None and run.running:
            run.workload = action.workload
            self._loads.keep(run, action.workload)
            self._client.watch(self._spec(run, action))

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

    def _spec(self, run: LocalRun, action: act.MeasureWorkload) -> WatchSpec:
        workload = action.workload
        has_load = workload.measure.load_command is not None
        marked = {**environment(workload, action.key), KEY_VARIABLE: action.key + MARK}
        return spec_of(
            run.key,
            workload,
            run_dir=str(run.run_dir),
            supervisor_pid=run.supervisor_pid or 0,
            cpu_file=cpu_file(run.group),
            perf_group=str(run.group.paths.get("perf_event", run.group.paths.get(UNIFIED, ""))),
            load_runs=str(self._loads.prefix(run.key)) if has_load else "",
            env=marked if workload.measure.command else None,
        )

    def _take(self, samples: Sequence[Sample]) -> None:
        by_server: dict[str, list[Sample]] = {}
        for sample in samples:
            run = self._runs.get(sample.key)
            if run is not None and run.running and run.start.placement is not None:
                told = self._with_trouble(sample)
                by_server.setdefault(run.start.placement.server, []).append(told)
        for server, found in by_server.items():
            self._tell(ev.ServerMeasured(server, tuple(found)))
        self._loads.revive()

    def _with_trouble(self, sample: Sample) -> Sample:
        """Where a load generator failed, that is why there is no signal, and not its silence."""
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
