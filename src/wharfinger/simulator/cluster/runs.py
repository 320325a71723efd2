"""One start of a workload in the simulated cluster, and the account of what becomes of a job.

A run is what one key names; a job that is moved has several, and one account. Called by
``cluster``, which knows the servers; ``report`` reads the accounts at the end.
"""

from collections.abc import Sequence
from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Quantity
from wharfinger.simulator.cluster.servers import SimulatedServer
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.truth.ground_truth import (
    GroundTruth,
    TrueResident,
    alone_with_cpus,
    busy_cpus,
)
from wharfinger.simulator.truth.queueing import ONE_AT_A_TIME, Queue, QueueShare

if TYPE_CHECKING:
    from wharfinger.simulator.results.series import Recorder


USUAL_PERCENTILE = 99.0
"""Where no target bounds another."""


class State(Enum):
    """Where a run is."""

    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDED = "ended"


class RunPart:
    """What a run does on one server.

    Attributes:
        machine: Where.
        allocation: What it was given there.
        cpu_millicpus: CPU time per second that it has, in thousandths.
        resident: As the ground truth sees it; ``None`` = something about it has changed.
        changed: Its run does not know of it yet.
        rate: Work per second done here; of a service, what it could do.
        alone: The same without co-runners.
        most: The same with the whole server to itself.
        alone_cpus: Of a service, CPUs that answering all that kept busy; so is ``most_cpus``.
        used_millicpus: CPU time per second that does something, in thousandths.
    """

    __slots__ = (
        "allocation",
        "alone",
        "alone_cpus",
        "changed",
        "cpu_millicpus",
        "machine",
        "most",
        "most_cpus",
        "rate",
        "resident",
        "run",
        "used_millicpus",
    )

    def __init__(
        self, run: "SimulatedRun", machine: SimulatedServer, allocation: Allocation
    ) -> None:
        self.run = run
        self.machine = machine
        self.allocation = allocation
        best_effort = allocation.best_effort
        given = 0 if best_effort else min(allocation.cpu_millicpus, run.job.cpu_millicpus)
        self.cpu_millicpus = float(given)
        self.resident: TrueResident | None = None
        self.changed = True
        self.rate = self.alone = self.most = self.used_millicpus = 0.0
        self.alone_cpus = self.most_cpus = 0.0

    def give(self, cpu_millicpus: float, truth: GroundTruth) -> None:
        """So much CPU time from now on."""
        if cpu_millicpus == self.cpu_millicpus and self.resident is not None:
            return
        self.cpu_millicpus = cpu_millicpus
        self.look(truth)

    @property
    def busy_cpus(self) -> float:
        """Of a service, those that it keeps busy when it answers all that it could."""
        if self.resident is None:
            return self.cpu_millicpus / 1000
        return busy_cpus(self.resident, self.rate, self.used_millicpus)

    def look(self, truth: GroundTruth) -> None:
        """Something about it has changed: how fast it could be alone."""
        self.changed = True
        run, job = self.run, self.run.job
        servers = len(run.parts)
        load = None if job.load is None else run.load_per_second / servers
        platform = self.machine.platform
        self.resident = TrueResident(
            run.application, self.cpu_millicpus, job.memory_bytes, load, servers, run.core_of
        )
        self.alone, self.alone_cpus = _alone(truth, platform, self.resident)
        whole = min(float(job.cpu_millicpus), self.machine.cpu_millicpus)
        if whole == self.cpu_millicpus:
            self.most, self.most_cpus = self.alone, self.alone_cpus
        else:
            most = TrueResident(run.application, whole, job.memory_bytes, load, servers)
            self.most, self.most_cpus = _alone(truth, platform, most)


def _alone(truth: GroundTruth, platform: str, resident: TrueResident) -> tuple[float, float]:
    """Rate with the server to itself; of a service also the CPUs that this keeps busy."""
    if resident.load_per_second is None:
        return truth.alone(platform, resident), resident.cpu_millicpus / 1000
    return alone_with_cpus(truth, platform, resident)


class Account:
    """What became of one job, over all its runs.

    Attributes:
        best: Its rate alone on its best platform; of a job with phases, of each.
        first_run_at: When it ran first; ``None`` = never.
        ended_at: When it ended; ``None`` = it has not.
        starts: How often it was to be started.
        failed: It was killed, vanished or could not start.
        running_seconds: Of the run that counts: an earlier one does not.
        alone_seconds: That its work so far would have taken with no neighbors.
        most_seconds: The same with whole servers.
        kept_seconds: Of a service: time, weighed by what it could answer over what it was asked.
        kept_alone_seconds: The same with no neighbors; ``kept_most_seconds`` with whole servers.
        done: Work.
        ideal_seconds: That this much would have taken alone on its best platform.
        on: Seconds by platform.
        recorder: Is told of a service's latency; ``None`` = none.
    """

    __slots__ = (
        "alone_seconds",
        "best",
        "done",
        "ended_at",
        "failed",
        "first_run_at",
        "ideal_seconds",
        "job",
        "kept_alone_seconds",
        "kept_most_seconds",
        "kept_seconds",
        "most_seconds",
        "on",
        "recorder",
        "running_seconds",
        "starts",
        "submitted_at",
    )

    def __init__(self, job: Job, submitted_at: float, *best: float) -> None:
        self.job = job
        self.submitted_at = submitted_at
        self.best = best
        self.first_run_at: float | None = None
        self.ended_at: float | None = None
        self.failed = False
        self.starts = 0
        self.on: dict[str, float] = {}
        self.recorder: Recorder | None = None
        self.kept_seconds = self.kept_alone_seconds = self.kept_most_seconds = 0.0
        self.done = self.alone_seconds = self.most_seconds = self.running_seconds = 0.0
        self.ideal_seconds = 0.0

    def begin_anew(self) -> None:
        """What was done so far is lost; what was answered is not."""
        if self.job.load is None:
            self.done = self.alone_seconds = self.most_seconds = self.running_seconds = 0.0
            self.ideal_seconds = 0.0

    def add(self, run: "SimulatedRun", seconds: float) -> None:
        """A stretch in which nothing has changed."""
        self.running_seconds += seconds
        platform = run.parts[0].machine.platform
        self.on[platform] = self.on.get(platform, 0.0) + seconds
        if self.job.load is not None:
            self.kept_seconds += run.kept * seconds
            self.kept_alone_seconds += run.kept_alone * seconds
            self.kept_most_seconds += run.kept_most * seconds
            if self.recorder is not None:
                latency = service_values(run)[Quantity.LATENCY]
                self.recorder.latency(self.job.name, seconds, latency)
            return
        work = run.rate * seconds
        self.done += work
        if work > 0:
            self.alone_seconds += work / run.alone
            self.most_seconds += work / run.most
            best = self.best[run.phase]
            self.ideal_seconds += work / best if best > 0 else seconds


class SimulatedRun:
    """One start.

    Attributes:
        key: Its identity.
        since: What came before is in the account.
        rate: Work per second, over all servers; so are ``alone`` and ``most``, see ``RunPart``.
        kept: Of a service: what it could answer within its bound over what is asked, at most 1.
        kept_alone: The same without neighbors; so is ``kept_most`` with whole servers.
        handle: The event of its end in the loop.
        end: The report of it; ``None`` = it has not ended.
        measured: Its performance is read.
        phase: Of its job, from 0.
        queue: How the queries of a service differ.
    """

    __slots__ = (
        "account",
        "alone",
        "end",
        "handle",
        "job",
        "kept",
        "kept_alone",
        "kept_most",
        "key",
        "load_per_second",
        "measured",
        "measurements",
        "most",
        "parts",
        "phase",
        "placements",
        "queue",
        "rate",
        "resizes",
        "since",
        "started",
        "state",
    )

    core_of = ""
    """The application whose cores' other threads it is bound to: a source's alone."""

    def __init__(
        self,
        key: str,
        job: Job,
        account: Account,
        placements: tuple[Placement, ...],
        queue: Queue = ONE_AT_A_TIME,
    ) -> None:
        self.key = key
        self.queue = queue
        self.phase = 0
        self.job = job
        self.account = account
        self.placements = placements
        self.parts: list[RunPart] = []
        self.state = State.STARTING
        self.since = 0.0
        self.rate = self.alone = self.most = 0.0
        self.kept = self.kept_alone = self.kept_most = 0.0
        self.load_per_second = 0.0
        self.handle = 0
        self.started: ev.WorkloadStarted | None = None
        self.end: ev.Report | None = None
        self.measured = False
        self.measurements = 0
        self.resizes = 0

    @property
    def application(self) -> str:
        """What the ground truth knows it by, now."""
        return self.job.phases[self.phase - 1].application if self.phase else self.job.application

    @property
    def counts(self) -> bool:
        """Whether it is a job's own run, and not a copy of it."""
        return True

    def settle(self, now: float) -> None:
        """Put what was done since the last time into the account."""
        if self.state is State.RUNNING and now > self.since:
            self.account.add(self, now - self.since)
        self.since = now

    def pace(self) -> None:
        """Its parts' rates have changed."""
        parts = self.parts
        if self.job.load is not None:
            self.kept = self._kept([(part.rate, part.busy_cpus) for part in parts])
            self.kept_alone = self._kept([(part.alone, part.alone_cpus) for part in parts])
            self.kept_most = self._kept([(part.most, part.most_cpus) for part in parts])
        if len(parts) == 1:
            part = parts[0]
            self.rate, self.alone, self.most = part.rate, part.alone, part.most
            return
        self.rate = sum(part.rate for part in parts)
        self.alone = sum(part.alone for part in parts)
        self.most = sum(part.most for part in parts)

    def left_seconds(self) -> float:
        """Until its work is done, at the present rate."""
        return self._seconds_to(self.job.work)

    def phase_seconds(self) -> float:
        """Until this phase is done, or its work; at the present rate."""
        phases = self.job.phases
        until = phases[self.phase].from_work if self.phase < len(phases) else self.job.work
        return self._seconds_to(until)

    def _seconds_to(self, work: float) -> float:
        if self.rate <= 0:
            return inf
        return max(0.0, work - self.account.done) / self.rate

    def _kept(self, paces: Sequence[tuple[float, float]]) -> float:
        asked = self.asked_per_second
        if asked <= 0:
            return 1.0
        each, target = asked / len(paces), self.job.workload.target
        bound = target.latency if target else None
        held = [
            self.queue.held_per_second(rate, cpus, bound) if bound else rate for rate, cpus in paces
        ]
        return min(1.0, sum(min(could, each) for could in held) / asked)

    @property
    def asked_per_second(self) -> float:
        """Of a service: what its target has it answer of what it is asked."""
        target = self.job.workload.target
        wanted = target.throughput_per_second if target else None
        return self.load_per_second if wanted is None else min(self.load_per_second, wanted)


def service_values(run: SimulatedRun) -> dict[Quantity, float]:
    """Throughput, and the percentile of latency that its target bounds."""
    target = run.job.workload.target
    bound = target.latency if target else None
    each = run.load_per_second / max(1, len(run.parts))
    shares = [QueueShare(each, part.rate, part.busy_cpus) for part in run.parts]
    percentile = bound.percentile if bound else USUAL_PERCENTILE
    return {
        Quantity.THROUGHPUT: sum(min(each, part.rate) for part in run.parts),
        Quantity.LATENCY: run.queue.latency_seconds(shares, percentile),
    }
