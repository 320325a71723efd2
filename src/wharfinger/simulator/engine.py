"""The engine on a simulated cluster; the core that runs on it is the live one, unchanged.

Time passes in ``poll``, at most so many simulated seconds, which is how any runtime can drive it;
``simulator.run`` runs the loop itself and takes reports as they come.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Execution, LogChunk, LogSource, Usage
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.model.workload import Workload
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.cluster.runs import State


class SimulatedEngine:
    """Opening another one on the same cluster, which outlives its engines, takes it over."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.name = cluster.name
        self.capabilities = cluster.capabilities
        self._reports: list[ev.Report] = []
        self._news = -1

    def open(self) -> None:
        """Take the cluster over and report all that it knows."""
        self._reports = []
        self.cluster.attach(self._report)

    def _report(self, report: ev.Report) -> None:
        self._reports.append(report)
        if self._news >= 0:
            os.eventfd_write(self._news, 1)

    def check(self, workload: Workload) -> str:
        """What can't be started is found when it is started."""
        del workload
        return ""

    def perform(self, action: act.EngineAction) -> None:
        """Begin to carry an action out."""
        self.cluster.perform(action)
        self._ring()

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        """Let at most so many simulated seconds pass, until there is something to report."""
        loop = self.cluster.loop
        until = loop.now + timeout_seconds
        while not self._reports:
            due = loop.peek()
            if due is None or due > until:
                if timeout_seconds > 0:
                    loop.run(until)
                break
            loop.step()
        reports = self.take()
        self._ring()
        return reports

    def take(self) -> list[ev.Report]:
        """What has been reported since the last time; no time passes."""
        if not (reports := self._reports.copy()):
            return reports
        self._reports.clear()
        return reports

    def fileno(self) -> int:
        """Readable while there is something to report, or due at this moment."""
        if self._news < 0:
            self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._ring()
        return self._news

    def _ring(self) -> None:
        if self._news < 0:
            return
        due = self.cluster.loop.peek()
        with suppress(BlockingIOError):
            os.eventfd_read(self._news)
        if self._reports or (due is not None and due <= self.cluster.now):
            os.eventfd_write(self._news, 1)

    def usage(self) -> Mapping[str, Usage]:
        """What each that runs has used: its CPU's time, as far as it could use it."""
        usage = {}
        for run in self.cluster.runs:
            if run.state in (State.RUNNING, State.SUSPENDED):
                run.settle(self.cluster.now)
                seconds = run.used_cpus * run.account.running_seconds
                usage[run.key] = Usage(seconds, run.job.memory_bytes, 1)
        return usage

    def read_log(
        self, key: str, offset: int = 0, limit_bytes: int = 65536, source: LogSource = "output"
    ) -> LogChunk:
        """What the job prints, once it runs; its load has no generator that prints.

        Raises:
            NotFound: No start has that key, or its load generator's output was asked for.
        """
        run = self.cluster.run_of(key)
        if run is None or not run.job.application:
            raise NotFound(f"no start has the key {key!r}")
        if source == "load":
            raise NotFound(f"no load generator of {key!r} has run: its load is simulated")
        output = run.job.output if run.started else b""
        start = max(0, len(output) + offset) if offset < 0 else min(offset, len(output))
        data = output[start : start + limit_bytes]
        return LogChunk(data, start + len(data), run.end is not None)

    def log_offset_at(self, key: str, seconds: float) -> int | None:
        """It prints all when it starts."""
        times = self.log_times(key)
        return 0 if times and times[0][1] >= seconds else self.read_log(key).next_offset

    def log_times(
        self, key: str, offset: int = 0, length_bytes: int = 65536
    ) -> Sequence[tuple[int, float]]:
        """As :meth:`log_offset_at`."""
        chunk, run = self.read_log(key, offset, length_bytes), self.cluster.run_of(key)
        started = run.account.first_run_at if run is not None else None
        return [(0, started)] if chunk.next_offset and started is not None else []

    def execute(self, key: str, command: Sequence[str], *, stdin: bool = False) -> Execution:
        """There is no program to run it beside."""
        if self.cluster.run_of(key) is None:
            raise NotFound(f"no start has the key {key!r}")
        raise InvalidInput(f"{' '.join(command)[:40]!r}: the engine {self.name!r} runs no commands")

    def close(self) -> None:
        """Let the cluster go on without an engine."""
        self.cluster.detach(self._report)
        if self._news >= 0:
            os.close(self._news)
            self._news = -1
