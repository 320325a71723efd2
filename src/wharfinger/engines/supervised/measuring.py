"""How an engine's workloads perform: the meter, their probes, and services' load generators.

The engine calls ``measure`` and ``ended``. The meter's samples of all workloads become one
``ServerMeasured`` for each server, and what its probes find ``ReadinessChanged`` or the end of a
program that is not alive. What engines differ in, each says of its own runs (``MeasuredRun``).
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk
from wharfinger.engines.supervised.loads import Loads
from wharfinger.engines.supervised.watcher import Watcher
from wharfinger.errors import InvalidInput, WharfingerError
from wharfinger.host.accounts import other_account
from wharfinger.host.environment import environment
from wharfinger.host.processes import marker_of
from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.model.workload import Workload
from wharfinger.monitor.client import MARK, MeterClient, TellNewest, kill_commands
from wharfinger.monitor.probes import HealthNews, HealthWord
from wharfinger.monitor.source import BUFFERED
from wharfinger.monitor.spec import LOAD, WatchSpec, spec_of

log = logging.getLogger(__name__)


class MeasuredRun(Protocol):
    """A start, as measuring it needs it.

    Attributes:
        key: Of the start.
        run_dir: With its output.
        workload: By what its manifest says now; ``None`` = not known yet.
    """

    key: str
    run_dir: Path
    workload: Workload | None

    @property
    def running(self) -> bool:
        """Whether its program has begun and has not ended, as far as is known."""

    @property
    def server(self) -> str:
        """Where it runs; empty = not known."""

    @property
    def load_server(self) -> str:
        """The server of this host on which its load generator runs."""

    def where(self) -> WatchSpec:
        """Where it is read, without what its manifest says."""

    def readings(self) -> Mapping[Quantity, Reading]:
        """What the engine itself knows of it now, beside what the meter reads."""

    def stop_as_not_alive(self, grace_seconds: float) -> None:
        """Stop it, unless that was asked for; its end is told as such.

        Raises a ``WharfingerError`` or ``OSError`` where that fails now; then it goes on.
        """


class WorkloadMonitor:
    """Measures an engine's runs: reports each server every ``report_seconds`` to ``tell``.

    While sources rise, runs are read every ``hastened_seconds``. ``loads`` are this monitor's own.
    """

    def __init__(
        self,
        runs: Mapping[str, MeasuredRun],
        loads: Loads,
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
        self._loads = loads
        self._client = MeterClient(
            watcher.add,
            watcher.remove,
            self._take,
            self._hear,
            report_seconds=report_seconds,
            hastened_seconds=hastened_seconds,
        )

    def adopt(self, runs: Mapping[str, bool], run_dirs: Iterable[Path]) -> None:
        """Take over the load generators; end what else an earlier manager left of measuring.

        ``runs`` says of each known key whether it runs, ``run_dirs`` where they do.
        """
        kill_commands(run_dirs)
        self._loads.adopt(runs)

    def measure(self, action: act.MeasureWorkload) -> None:
        """Measure a run from now on, by what its manifest says now."""
        run = self._runs.get(action.key)
        if run is not None and run.running:
            run.workload = action.workload
            spec = self._spec(run, action.workload)
            at_once = not (spec.ready or spec.reach)
            self._loads.keep(run.key, run.load_server, action.workload, at_once=at_once)
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

    def _spec(self, run: MeasuredRun, workload: Workload) -> WatchSpec:
        has_load = workload.measure.load_command is not None
        load_runs = str(self._loads.prefix(run.key)) if has_load else ""
        return with_commands(spec_of(replace(run.where(), load_runs=load_runs), workload), workload)

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

    def _stop_as_not_alive(self, run: MeasuredRun, workload: Workload, reason: str) -> None:
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
            if run is not None and run.running and run.server:
                told = self._with_trouble(sample)
                told = replace(told, readings={**told.readings, **run.readings()})
                by_server.setdefault(run.server, []).append(told)
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
