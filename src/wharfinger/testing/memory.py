"""An engine without a machine: programs are entries in a table and end as a test says.

For tests of the core, the runtime and the service. A ``MemoryCluster`` is the machines: it
outlives the engines that are opened on it, as real programs outlive a manager. It keeps the
promises of ``wharfinger.engines.base`` as far as they mean something without processes.

What a program does is told by the first word of its command:

=====================  ===================================================================
``exit N``, ``true``   ends at once with that status (``true`` 0, ``false`` 1)
``signal N``           is ended by that signal at once
``print TEXT``         prints the text and ends with status 0
``sleep SECONDS``      ends with status 0 when the cluster's clock has moved that far
``missing``            can't be started, for certain
anything else          runs until it is stopped, or until ``MemoryCluster.end``
=====================  ===================================================================
"""

import os
import select
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk, Usage
from wharfinger.errors import NotFound
from wharfinger.model.allocation import Placement
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import ProfileMode

MEBIBYTE = 1024**2


def make_server(
    name: str = "a", *, cpu_millicpus: int = 4000, memory_bytes: int = 4096 * MEBIBYTE
) -> Server:
    """A server of a platform of just its size."""
    platform = Platform(
        f"memory-{cpu_millicpus}m", os.uname().machine, "", cpu_millicpus, memory_bytes
    )
    return Server(name, platform, cpu_millicpus, memory_bytes)


@dataclass(slots=True)
class _Run:
    """What the cluster knows of one key; ``end`` is the report that settled it."""

    placements: tuple[Placement, ...] = ()
    started: bool = False
    suspended: bool = False
    worked_seconds: float = 0.0
    due_seconds: float | None = None
    output: bytes = b""
    end: ev.Report | None = None


@dataclass(slots=True)
class MemoryCluster:
    """Servers and what runs on them.

    Attributes:
        servers: By name.
        now_seconds: The cluster's clock; only ``advance`` moves it.
        starts: How often a program was really started, by key.
        profiles: Whether it runs copies: of a program that ends at once the answer comes at
            once, of others by ``finish_profiling``.
    """

    servers: dict[str, Server] = field(default_factory=lambda: {"a": make_server()})
    now_seconds: float = 0.0
    starts: Counter[str] = field(default_factory=Counter)
    profiles: bool = False
    _copies: dict[str, act.ProfileWorkload] = field(default_factory=dict)
    _profiled: dict[str, ev.Report] = field(default_factory=dict)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _listener: Callable[[ev.Report], None] | None = None

    @classmethod
    def of(cls, servers: Iterable[Server]) -> "MemoryCluster":
        """A cluster of these servers."""
        return cls({server.name: server for server in servers})

    def running(self) -> tuple[str, ...]:
        """Keys of what runs now, in the order in which they started."""
        return tuple(key for key, run in self._runs.items() if run.started and run.end is None)

    def placements(self, key: str) -> tuple[Placement, ...]:
        """What a start was given last."""
        return self._runs[key].placements

    def suspended(self, key: str) -> bool:
        """Whether it is suspended."""
        return self._runs[key].suspended

    def worked_seconds(self, key: str) -> float:
        """How long it has run on the cluster's clock, without what it was suspended for."""
        return self._runs[key].worked_seconds

    # --- what a test makes happen -----------------------------------------------------------

    def put_server(self, server: Server) -> None:
        """Add a server, or change it."""
        self.servers[server.name] = server
        self._say(ev.ServerReported(server))

    def remove_server(self, name: str, reason: str = "it was taken away") -> None:
        """Take a server away; what runs there vanishes."""
        del self.servers[name]
        for key in self.running():
            if any(placement.server == name for placement in self._runs[key].placements):
                self.vanish(key, f"server {name} left")
        self._say(ev.ServerLeft(name, reason))

    def advance(self, seconds: float) -> None:
        """Move the clock; programs whose time has come end, the earliest first."""
        self.now_seconds += seconds
        for run in self._runs.values():
            if run.started and run.end is None and not run.suspended:
                run.worked_seconds += seconds
        due = sorted(
            (run.due_seconds, order, key)
            for order, (key, run) in enumerate(self._runs.items())
            if run.end is None and run.due_seconds is not None and not run.suspended
        )
        for due_seconds, _, key in due:
            if due_seconds <= self.now_seconds:
                self.end(key)

    def end(
        self, key: str, exit_code: int | None = 0, *, signal: int | None = None, reason: str = ""
    ) -> None:
        """End a running program, by exit status or (``exit_code`` ``None``) by a signal."""
        word = reason or ("exited" if signal is None else "killed")
        code = exit_code if signal is None else None
        self._settle(key, ev.WorkloadFinished(key, code, signal, word, cpu_seconds=0.0))

    def vanish(self, key: str, reason: str = "it is gone") -> None:
        """A running program is gone and its exit status is unknown."""
        self._settle(key, ev.WorkloadVanished(key, reason))

    def finish_profiling(self, key: str, measurements: Measurements) -> None:
        """The copy of that key has been measured."""
        if self._copies.pop(key, None) is not None:
            self._answer(key, ev.ProfilingFinished(key, measurements))

    # --- what an engine calls -----------------------------------------------------------------

    def attach(self, listener: Callable[[ev.Report], None]) -> None:
        """Tell ``listener`` all that is known, and from now on what happens; it alone."""
        self._listener = listener
        for server in self.servers.values():
            self._say(ev.ServerReported(server))
        for key in self._runs:
            self._tell(key)
        self._say(ev.EngineSynced(tuple(self._runs), tuple(self.servers)))

    def detach(self, listener: Callable[[ev.Report], None]) -> None:
        """Tell it nothing more; what runs goes on, but for copies."""
        if self._listener == listener:
            self._listener = None
            self._copies.clear()
            self._profiled.clear()

    def perform(self, action: act.EngineAction) -> None:
        """Carry an action out at once."""
        match action:
            case act.StartWorkload():
                self._start(action)
            case act.StopWorkload(key=key):
                self._stop(key)
            case act.ResizeAllocation():
                self._resize(action)
            case act.SuspendWorkload(key=key):
                self._suspend(key, suspended=True)
            case act.ResumeWorkload(key=key):
                self._suspend(key, suspended=False)
            case act.ForgetWorkload(key=key):
                self._forget(key)
            case act.ProfileWorkload():
                self._profile(action)

    def read_log(self, key: str, offset: int, limit_bytes: int) -> LogChunk:
        """What a start printed."""
        run = self._runs.get(key)
        if run is None:
            raise NotFound(f"no start has the key {key!r}")
        start = max(0, len(run.output) + offset) if offset < 0 else min(offset, len(run.output))
        data = run.output[start : start + limit_bytes]
        return LogChunk(data, start + len(data), run.end is not None)

    # --- how it is done -----------------------------------------------------------------------

    def _settle(self, key: str, end: ev.Report) -> None:
        run = self._runs[key]
        if run.end is None:
            run.end = end
            self._say(end)

    def _say(self, report: ev.Report) -> None:
        if self._listener is not None:
            self._listener(report)

    def _start(self, action: act.StartWorkload) -> None:
        key, (program, *arguments) = action.key, action.workload.run.command
        if key in self._runs:
            self._tell(key)
            return
        run = self._runs[key] = _Run(action.placements)
        self._say(ev.StartAccepted(key))
        gone = [p.server for p in action.placements if p.server not in self.servers]
        if gone:
            self._settle(key, ev.StartFailed(key, f"no server {gone[0]!r} here", retryable=True))
        elif program == "missing":
            self._settle(key, ev.StartFailed(key, "no such program: 'missing'", retryable=False))
        else:
            self._run(key, run, program, arguments)

    def _run(self, key: str, run: _Run, program: str, arguments: list[str]) -> None:
        run.started = True
        self.starts[key] += 1
        self._say(ev.WorkloadStarted(key, f"memory {key}"))
        match program, arguments:
            case ("exit", [code]):
                self.end(key, int(code))
            case ("true", _):
                self.end(key)
            case ("false", _):
                self.end(key, 1)
            case ("signal", [number]):
                self.end(key, None, signal=int(number))
            case ("print", words):
                run.output = " ".join(words).encode()
                self.end(key)
            case ("sleep", [seconds]):
                run.due_seconds = self.now_seconds + float(seconds)

    def _profile(self, action: act.ProfileWorkload) -> None:
        key, workload = action.key, action.workload
        if key in self._copies:
            return
        if key in self._profiled:
            self._say(self._profiled[key])
        elif not self.profiles:
            self._answer(key, ev.ProfilingFailed(key, "this engine does not profile"))
        elif workload.best_effort or workload.profile.mode is not ProfileMode.COPY:
            self._answer(key, ev.ProfilingFailed(key, "it is not to be copied"))
        else:
            self._copies[key] = action
            if workload.run.command[0] in ("exit", "true", "print"):
                entries = dict.fromkeys(action.plan.cpu_millicpus, Entry(1.0, 0.1))
                found = Measurements({Quantity.RATE: entries}, total=1.0, runs=1, seconds=1.0)
                self.finish_profiling(key, found)

    def _answer(self, key: str, answer: ev.Report) -> None:
        self._profiled[key] = answer
        self._say(answer)

    def _stop(self, key: str) -> None:
        if self._copies.pop(key, None) is not None:
            self._answer(key, ev.ProfilingFailed(key, "stopped"))
        if key in self._profiled:
            return
        run = self._runs.setdefault(key, _Run())
        if run.end is not None:
            self._say(run.end)
        elif run.started:
            self.end(key, None, signal=15, reason="stopped")
        else:
            self._settle(key, ev.StartFailed(key, "stopped before it started", retryable=False))

    def _resize(self, action: act.ResizeAllocation) -> None:
        key, wanted = action.key, action.placements
        run = self._runs.get(key)
        gone = [p.server for p in wanted if p.server not in self.servers]
        if run is None or not run.started or run.end is not None:
            self._say(ev.ResizeFailed(key, "it does not run", wanted))
        elif gone:
            self._say(ev.ResizeFailed(key, f"no server {gone[0]!r} here", wanted))
        elif not {p.server for p in run.placements} & {p.server for p in wanted}:
            self._say(ev.ResizeFailed(key, "it runs on other servers", wanted))
        else:
            run.placements = wanted
            self._say(ev.AllocationResized(key, wanted))

    def _suspend(self, key: str, *, suspended: bool) -> None:
        run = self._runs.get(key)
        if run is not None and run.end is None:
            run.suspended = suspended
            self.advance(0.0)

    def _forget(self, key: str) -> None:
        run = self._runs.get(key)
        if run is not None and run.end is not None:
            del self._runs[key]

    def _tell(self, key: str) -> None:
        """Say again what is known of a start."""
        run = self._runs[key]
        if run.started:
            self._say(ev.WorkloadStarted(key, f"memory {key}"))
        if run.end is not None:
            self._say(run.end)


class MemoryEngine:
    """An engine on a ``MemoryCluster``. Opening another one on it takes the cluster over.

    Args:
        cluster: The machines; by default one server ``a`` of four CPUs.
        capabilities: What the engine says that it can do.
    """

    name = "memory"

    def __init__(
        self, cluster: MemoryCluster | None = None, *, capabilities: Capabilities | None = None
    ) -> None:
        self.cluster = MemoryCluster() if cluster is None else cluster
        self._capabilities = capabilities or Capabilities(profiles=self.cluster.profiles)
        self._reports: list[ev.Report] = []
        self._news = -1

    @property
    def capabilities(self) -> Capabilities:
        """What it was made with."""
        return self._capabilities

    def open(self) -> None:
        """Take the cluster over and report all that it knows."""
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._reports = []
        self.cluster.attach(self._report)

    def perform(self, action: act.EngineAction) -> None:
        """Carry an action out at once."""
        self.cluster.perform(action)

    def _report(self, report: ev.Report) -> None:
        self._reports.append(report)
        os.eventfd_write(self._news, 1)

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        """All reports since the last call."""
        if not self._reports and timeout_seconds > 0:
            select.select([self._news], [], [], timeout_seconds)
        reports, self._reports = self._reports, []
        if reports:
            os.eventfd_read(self._news)
        return reports

    def fileno(self) -> int:
        """Readable while reports wait."""
        return self._news

    def usage(self) -> Mapping[str, Usage]:
        """Nothing is measured, but what runs is named."""
        return {key: Usage(None, None, 1) for key in self.cluster.running()}

    def read_log(self, key: str, offset: int = 0, limit_bytes: int = 65536) -> LogChunk:
        """What ``print`` printed."""
        return self.cluster.read_log(key, offset, limit_bytes)

    def close(self) -> None:
        """Let the cluster go on without an engine."""
        self.cluster.detach(self._report)
        if self._news >= 0:
            os.close(self._news)
            self._news = -1
