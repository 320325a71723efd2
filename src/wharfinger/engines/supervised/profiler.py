"""Profiles workloads by an engine, one after another, with no manager above it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Engine
from wharfinger.engines.supervised.copying import CopyAnswer
from wharfinger.errors import EngineFault
from wharfinger.model.platform import Server
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload

SET_UP_SECONDS = 60.0
"""Beyond the plan's own seconds: after these the engine is taken to hang."""
STOP_SECONDS = 20.0
POLL_SECONDS = 0.5


class EngineProfiler:
    """An engine, open within the ``with`` block.

    ``patience_seconds`` is how much longer than a plan its answer may take.
    """

    def __init__(self, engine: Engine, patience_seconds: float = SET_UP_SECONDS) -> None:
        self._engine = engine
        self._patience_seconds = patience_seconds
        self._servers: dict[str, Server] = {}

    def __enter__(self) -> Self:
        self._engine.open()
        for report in self._reports(SET_UP_SECONDS):
            self._servers.update((server.name, server) for server in ev.servers_in(report))
            if isinstance(report, ev.EngineSynced):
                return self
        self._engine.close()
        raise EngineFault(f"the engine did not report within {SET_UP_SECONDS:g} s")

    def __exit__(self, *exception: object) -> None:
        self._engine.close()

    @property
    def servers(self) -> tuple[Server, ...]:
        """All of them, as they were when it was opened."""
        return tuple(self._servers.values())

    @property
    def server(self) -> Server:
        """The first one."""
        return self.servers[0]

    @property
    def capabilities(self) -> Capabilities:
        """The engine's."""
        return self._engine.capabilities

    def measure(self, key: str, workload: Workload, plan: ProfilingPlan) -> Measurements:
        """Run a plan to its end; one without a server runs on the first one.

        Use the same key for the same program, so that what a killed run left is cleared. Raises
        ``EngineFault`` if it gave nothing, or no answer; the message says why.
        """
        answer = self.answer(key, workload, plan, plan.limit_seconds + self._patience_seconds)
        if isinstance(answer, ev.ProfilingFailed):
            raise EngineFault(answer.reason)
        return answer.measurements

    def answer(
        self, key: str, workload: Workload, plan: ProfilingPlan, patience_seconds: float
    ) -> CopyAnswer:
        """The same with what the engine answers; ``EngineFault``: nothing in that time."""
        wanted = replace(plan, server=plan.server or self.server.name)
        self._engine.perform(act.ProfileWorkload(key, workload, wanted))
        try:
            answer = self._wait(key, patience_seconds)
        except BaseException:  # Nothing of it may run on beside the next one.
            self._engine.perform(act.StopWorkload(key, 0.0))
            self._wait(key, STOP_SECONDS)
            raise
        self._engine.perform(act.ForgetWorkload(key))
        return answer

    def _wait(self, key: str, seconds: float) -> CopyAnswer:
        for report in self._reports(seconds):
            if isinstance(report, CopyAnswer) and report.key == key:
                return report
        raise EngineFault(f"profiling {key} gave no answer within {seconds:.0f} s")

    def _reports(self, seconds: float) -> Iterator[ev.Report]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            yield from self._engine.poll(POLL_SECONDS)
