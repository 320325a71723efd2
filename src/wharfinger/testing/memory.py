"""The simulated cluster with a constant truth: programs end as a test says.

For tests of the core, the runtime and the service. Every program runs at one unit of work per
second, whatever runs beside it; actions take effect at once, and only ``advance`` (or an engine's
``poll`` with a timeout) moves the clock. What a program does is told by its command:

=====================  ===================================================================
``exit N``, ``true``   ends at once with that status (``true`` 0, ``false`` 1)
``signal N``           is ended by that signal at once
``print TEXT``         prints the text and ends with status 0
``fail TEXT``          prints the text and ends with status 3
``ready SECONDS``      runs; its readiness probe finds it ready so long after its start
``hang SECONDS``       runs; its liveness probe finds it not alive so long after its start
``sleep SECONDS``      ends with status 0 when it has run for so long on the cluster's clock
``missing``            can't be started, for certain
anything else          runs until it is stopped, or until ``MemoryCluster.end``
=====================  ===================================================================
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import inf

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.platform import Platform, Server
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Probe, Run, Workload
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.cluster.runs import SimulatedRun, State
from wharfinger.simulator.engine import SimulatedEngine
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Costs, Measuring
from wharfinger.simulator.truth.ground_truth import TrueResident, Undisturbed
from wharfinger.testing.harness import FAILED

MEBIBYTE = 1024**2


def make_server(
    name: str = "a", *, cpu_millicpus: int = 4000, memory_bytes: int = 4096 * MEBIBYTE
) -> Server:
    """A server of a platform of just its size."""
    platform = Platform(
        f"memory-{cpu_millicpus}m", os.uname().machine, "", cpu_millicpus, memory_bytes
    )
    return Server(name, platform, cpu_millicpus, memory_bytes)


class _OneUnitPerSecond(Undisturbed):
    """The same speed everywhere, with any allocation."""

    def alone(self, _platform: str, resident: TrueResident) -> float:
        return 1.0 / resident.servers

    def most(self, _platform: str, _application: str) -> float:
        return 1.0


class MemoryCluster(SimulatedCluster):
    """Servers and what runs on them; it outlives the engines that are opened on it.

    By default one server, ``a``, of four CPUs; ``capabilities`` are all that its engines say that
    they can do, in place of ``profiles``; ``starts`` counts by key how often a program was really
    started.
    """

    name = "memory"

    def __init__(
        self,
        servers: Iterable[Server] | None = None,
        *,
        profiles: bool = False,
        capabilities: Capabilities | None = None,
    ) -> None:
        self.starts: Counter[str] = Counter()
        super().__init__(
            EventLoop(),
            _OneUnitPerSecond(),
            [make_server()] if servers is None else servers,
            costs=Costs(0.0, 0.0, 0.0, 0.0, 0.0),
            measuring=Measuring(noise=0.0, delay_seconds=0.0),
            capabilities=capabilities or Capabilities(profiles=profiles, probes=True),
        )

    def running(self) -> tuple[str, ...]:
        """Keys of what runs now, suspended or not, in the order in which they started."""
        runs = (State.RUNNING, State.SUSPENDED)
        return tuple(run.key for run in self.runs if run.state in runs)

    def worked_seconds(self, key: str) -> float:
        """How long it has run on the cluster's clock, without what it was suspended for."""
        run = self._runs[key]
        run.settle(self.now)
        return run.account.done

    def advance(self, seconds: float) -> None:
        """Move the clock; programs whose time has come end, the earliest first."""
        self.loop.run(self.now + seconds)

    def end(
        self, key: str, exit_code: int | None = 0, *, signal: int | None = None, reason: str = ""
    ) -> None:
        """End a running program, by exit status or (``exit_code`` ``None``) by a signal."""
        word = reason or ("exited" if signal is None else "killed")
        code = exit_code if signal is None else None
        self._end(self._runs[key], ev.WorkloadFinished(key, code, signal, word))

    def vanish(self, key: str, reason: str = "it is gone") -> None:
        """A running program is gone and its exit status is unknown."""
        self._end(self._runs[key], ev.WorkloadVanished(key, reason))

    # --- what differs from a scenario's cluster -----------------------------------------------

    def perform(self, action: act.EngineAction) -> None:
        """Carry an action out at once."""
        super().perform(action)
        self.advance(0.0)

    def tell(self, report: ev.Report, after_seconds: float = 0.0) -> None:
        """Say what happened, and count starts."""
        if isinstance(report, ev.WorkloadStarted):
            self.starts[report.key] += 1
        super().tell(report, after_seconds)

    def job_of(self, workload: Workload) -> Job | None:
        """The program that a command stands for."""
        program, *arguments = workload.run.command
        job = Job(workload, program, work=0.0)
        match program, arguments:
            case ("missing", _):
                return None
            case ("exit", [code]):
                return replace(job, exit_code=int(code))
            case ("false", _):
                return replace(job, exit_code=1)
            case ("true", _) | ("signal", [_]):
                return job
            case ("print", words):
                return replace(job, output=" ".join(words).encode())
            case ("fail", words):
                return replace(job, output=" ".join(words).encode(), exit_code=FAILED)
            case ("ready", [seconds]):
                return replace(job, work=inf, ready_seconds=float(seconds))
            case ("hang", [seconds]):
                return replace(job, work=inf, hangs_seconds=float(seconds))
            case ("sleep", [seconds]):
                return replace(job, work=float(seconds))
        return replace(job, work=inf)

    def _end(self, run: SimulatedRun, report: ev.Report) -> None:
        command = run.job.workload.run.command
        if isinstance(report, ev.WorkloadFinished):
            if report.reason == "exited" and command[0] == "signal":
                report = replace(report, exit_code=None, signal=int(command[1]), reason="killed")
            report = replace(report, cpu_seconds=0.0)
        super()._end(run, report)


class MemoryEngine(SimulatedEngine):
    """An engine on a ``MemoryCluster``, by default one of its own; it takes the cluster over."""

    cluster: MemoryCluster

    def __init__(self, cluster: MemoryCluster | None = None) -> None:
        super().__init__(MemoryCluster() if cluster is None else cluster)


class MemoryPrograms:
    """What a ``MemoryCluster`` takes for programs."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def exiting(self, key: str, status: int) -> Run:
        """``exit STATUS``."""
        return Run(("exit", str(status)))

    def lasting(self, key: str) -> Run:
        """Runs until told."""
        return Run(("serve",))

    def printing(self, key: str, text: str) -> Run:
        """``print TEXT``."""
        return Run(("print", text))

    def working(self, key: str) -> Run:
        """Whatever lasts works while the cluster's clock moves."""
        return Run(("serve",))

    def failing(self, key: str, text: str) -> Run:
        """``fail TEXT``."""
        return Run(("fail", text))

    def getting_ready(self, key: str) -> Run:
        """``ready 1``."""
        return Run(("ready", "1"), ready=Probe(port=80))

    def hanging(self, key: str) -> Run:
        """``hang 1``."""
        return Run(("hang", "1"), ready=Probe(port=80), alive=Probe(port=80))

    def missing(self, key: str) -> Run:
        """``missing``."""
        return Run(("missing",))

    def starts(self, key: str) -> int:
        """As the cluster counted."""
        return self._cluster.starts[key]

    def work_done(self, key: str) -> int:
        """Seconds that it was not suspended; this second is the time for more."""
        self._cluster.advance(1.0)
        return int(self._cluster.worked_seconds(key))
