"""Runs profiling plans by an engine, one after another, with no manager above it.

``catalog.campaign`` calls it for each known program.
"""

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Engine
from wharfinger.engines.local.engine import LocalEngine
from wharfinger.errors import EngineFault
from wharfinger.model.platform import Server
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.workload import Workload

SET_UP_SECONDS = 60.0
"""Beyond the plan's own seconds: after these the engine is taken to hang."""
STOP_SECONDS = 20.0
POLL_SECONDS = 0.5


class EngineProfiler:
    """An engine of one server, opened for as long as the ``with`` block lasts.

    Args:
        engine: Not open yet.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._servers: dict[str, Server] = {}

    @classmethod
    def local(cls, directory: Path) -> "EngineProfiler":
        """By the local engine: this machine as one server.

        Args:
            directory: Where the engine keeps its runs; what a killed one left is cleared there.
        """
        return cls(LocalEngine(directory, servers="1"))

    def __enter__(self) -> Self:
        self._engine.open()
        deadline = time.monotonic() + SET_UP_SECONDS
        while time.monotonic() < deadline:
            for report in self._engine.poll(POLL_SECONDS):
                if isinstance(report, ev.ServerReported):
                    self._servers[report.server.name] = report.server
                if isinstance(report, ev.EngineSynced):
                    return self
        self._engine.close()
        raise EngineFault(f"the engine did not report within {SET_UP_SECONDS:g} s")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._engine.close()

    @property
    def server(self) -> Server:
        """The first one."""
        return next(iter(self._servers.values()))

    @property
    def fractional(self) -> bool:
        """Whether it can give less than a CPU."""
        return self._engine.capabilities.fractional_cpu

    @property
    def profiles(self) -> bool:
        """Whether it can run copies here."""
        return self._engine.capabilities.profiles

    def measure(self, key: str, workload: Workload, plan: ProfilingPlan) -> Measurements:
        """Run a plan to its end.

        Args:
            key: The same for the same program, so that what a killed run left is found.
            workload: What is profiled.
            plan: On a server of this engine.

        Raises:
            EngineFault: It gave nothing, or no answer; the message says why.
        """
        self._engine.perform(act.ProfileWorkload(key, workload, plan))
        ended = False
        try:
            found = self._wait(key, plan.seconds + SET_UP_SECONDS)
            ended = True
        finally:
            if not ended:
                self._stop(key)
        self._engine.perform(act.ForgetWorkload(key))
        if isinstance(found, ev.ProfilingFailed):
            raise EngineFault(found.reason)
        return found.measurements

    def _stop(self, key: str) -> None:
        """Nothing of it may run on beside the next one."""
        self._engine.perform(act.StopWorkload(key, 0.0))
        self._wait(key, STOP_SECONDS)

    def _wait(self, key: str, seconds: float) -> ev.ProfilingFinished | ev.ProfilingFailed:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for report in self._engine.poll(POLL_SECONDS):
                if isinstance(report, _ANSWERS) and report.key == key:
                    return report
        raise EngineFault(f"profiling {key} gave no answer within {seconds:.0f} s")


_ANSWERS = (ev.ProfilingFinished, ev.ProfilingFailed)
