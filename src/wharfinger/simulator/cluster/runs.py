"""Servers with their residents, starts of workloads, and the accounts of jobs.

A run is what one key names; a job that is moved has several, and one account.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU, Server
from wharfinger.simulator.results.series import Recorder
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.truth.ground_truth import (
    GroundTruth,
    TrueResident,
    alone_with_cpus,
    busy_cpus,
)
from wharfinger.simulator.truth.queueing import ONE_AT_A_TIME, Queue, QueueShare

USUAL_PERCENTILE = 99.0  # where no target bounds another


class State(Enum):
    """Where a run is."""

    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class SimulatedServer:
    """One server; ``measured`` = its next measurement is in the loop."""

    server: Server
    up: bool = True
    parts: "list[RunPart]" = field(default_factory=list)
    used_millicpus: float = 0.0
    allocated_millicpus: int = 0
    memory_allocated_bytes: int = 0
    measured: bool = False
    platform: str = field(init=False)
    cpu_millicpus: float = field(init=False)

    def __post_init__(self) -> None:
        self.platform = self.server.platform.name
        # What a server promises beyond what it has is no CPU.
        self.cpu_millicpus = float(
            min(self.server.cpu_millicpus, self.server.platform.cpu_millicpus)
        )

    def hold(self, part: "RunPart") -> None:
        """One more resident has its allocation."""
        self.parts.append(part)
        self.allocated_millicpus += part.allocation.cpu_millicpus
        self.memory_allocated_bytes += part.allocation.memory_bytes

    def release(self, part: "RunPart") -> None:
        """It has none here any more."""
        self.parts.remove(part)
        self.allocated_millicpus -= part.allocation.cpu_millicpus
        self.memory_allocated_bytes -= part.allocation.memory_bytes


@dataclass(slots=True, eq=False)
class RunPart:
    """What a run does on one server.

    Attributes:
        resident: As the ground truth sees it; ``None`` = something about it has changed.
        changed: Its run does not know of it yet.
        rate: Work per second done here; of a service, what it could do.
        alone: The same without co-runners; ``most`` with the whole server to itself.
        alone_cpus: Of a service, CPUs that answering all that keeps busy; so is ``most_cpus``.
        share: Of a service's load, what its balancer sends here.
    """

    run: "SimulatedRun"
    machine: SimulatedServer
    allocation: Allocation
    cpu_millicpus: float = field(init=False)
    resident: TrueResident | None = None
    changed: bool = True
    rate: float = 0.0
    alone: float = 0.0
    most: float = 0.0
    alone_cpus: float = 0.0
    most_cpus: float = 0.0
    used_millicpus: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        best_effort = self.allocation.best_effort
        self.cpu_millicpus = 0.0 if best_effort else self.usable_millicpus

    @property
    def usable_millicpus(self) -> float:
        """Of its allocation, what it can make use of."""
        return float(min(self.allocation.cpu_millicpus, self.run.job.cpu_millicpus))

    @property
    def wanted_millicpus(self) -> float:
        """Of what others leave, what best-effort work would use: no more than its ceiling."""
        limit, wanted = self.allocation.limit_millicpus, self.run.job.cpu_millicpus
        return float(wanted if limit is None else min(wanted, limit))

    @property
    def memory_bytes(self) -> int:
        """In use: what it takes, as far as it is allowed; sources of interference have no limit."""
        wants, limit = self.run.job.memory_bytes, self.allocation.memory_bytes
        return min(wants, limit) if limit else wants

    def is_short_of_memory(self, truth: GroundTruth) -> bool:
        """Whether it is killed for want of memory."""
        needed = truth.working_set(self.run.application, self.run.job.memory_bytes)
        return self.memory_bytes < needed

    @property
    def used_cpus(self) -> float:
        """CPU time per second that does something."""
        return self.used_millicpus / MILLICPUS_PER_CPU

    @property
    def busy_cpus(self) -> float:
        """Of a service, those that it keeps busy when it answers all that it could."""
        if self.resident is None:
            return self.cpu_millicpus / 1000
        return busy_cpus(self.resident, self.rate, self.used_millicpus)

    def give(self, cpu_millicpus: float, truth: GroundTruth) -> None:
        """So much CPU time from now on."""
        if cpu_millicpus == self.cpu_millicpus and self.resident is not None:
            return
        self.cpu_millicpus = cpu_millicpus
        self.look(truth)

    def look(self, truth: GroundTruth) -> None:
        """Something about it has changed: ask how fast it could be alone."""
        self.changed = True
        run, job = self.run, self.run.job
        servers = len(run.parts)
        load = None if job.load is None else run.load_per_second * self.share
        platform = self.machine.platform
        self.resident = TrueResident(
            run.application, self.cpu_millicpus, self.memory_bytes, load, servers, run.core_of
        )
        self.alone, self.alone_cpus = _alone(truth, platform, self.resident)
        whole = min(float(job.cpu_millicpus), self.machine.cpu_millicpus)
        if whole == self.cpu_millicpus:
            self.most, self.most_cpus = self.alone, self.alone_cpus
        else:
            most = TrueResident(run.application, whole, self.memory_bytes, load, servers)
            self.most, self.most_cpus = _alone(truth, platform, most)


def _alone(truth: GroundTruth, platform: str, resident: TrueResident) -> tuple[float, float]:
    if resident.load_per_second is None:
        return truth.alone(platform, resident), resident.cpu_millicpus / 1000
    return alone_with_cpus(truth, platform, resident)


@dataclass(slots=True, eq=False)
class Account:
    """What became of one job, over all its runs.

    Attributes:
        best: Its rate alone on its best platform; of a job with phases, of each.
        done: Work of the run that counts: what an earlier one did is lost.
        alone_seconds: That this work would have taken without co-runners.
        most_seconds: The same with whole servers.
        ideal_seconds: The same alone on its best platform.
        kept_seconds: Of a service: time, weighed by what it could answer over what it was asked.
        kept_alone_seconds: The same without co-runners; ``kept_most_seconds`` with whole servers.
        answered: Of a service: requests that it answered, of those that its target has it answer.
        in_bound: Those that it could answer within its bound.
        warned: It was told that it will be taken off, and has kept what it did.
        after_rises: Of a service: the minutes after its load rises, from when to when; what came in
            them is in ``answered_after_rises`` and ``in_bound_after_rises``, too.
    """

    job: Job
    submitted_at: float
    best: tuple[float, ...]
    first_run_at: float | None = None
    ended_at: float | None = None
    starts: int = 0
    failed: bool = False
    on: dict[str, float] = field(default_factory=dict)
    recorder: Recorder | None = None
    done: float = 0.0
    running_seconds: float = 0.0
    alone_seconds: float = 0.0
    most_seconds: float = 0.0
    ideal_seconds: float = 0.0
    kept_seconds: float = 0.0
    kept_alone_seconds: float = 0.0
    kept_most_seconds: float = 0.0
    answered: float = 0.0
    in_bound: float = 0.0
    answered_after_rises: float = 0.0
    in_bound_after_rises: float = 0.0
    warned: bool = False
    after_rises: tuple[tuple[float, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        rises, at = self.job.load.after_rises() if self.job.load else (), self.submitted_at
        self.after_rises = tuple((at + since, at + until) for since, until in rises)

    def restart(self) -> None:
        """Lose what was done so far; what a service has answered stays."""
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
            self._count(run, seconds)
            if self.recorder is not None:
                asked = run.asked_per_second
                self.recorder.ran(self.job.name, run.since, seconds, run.kept)
                self.recorder.served(run.since, seconds, run.answered * asked, run.kept * asked)
                latency = service_values(run)[Quantity.LATENCY]
                self.recorder.latency(self.job.name, seconds, latency)
            return
        work = run.rate * seconds
        self.done += work
        if self.recorder is not None:
            best = self.best[run.phase]
            level = run.rate / best if best > 0 else 0.0
            self.recorder.ran(self.job.name, run.since, seconds, level)
        if work > 0:
            self.alone_seconds += work / run.alone
            self.most_seconds += work / run.most
            best = self.best[run.phase]
            self.ideal_seconds += work / best if best > 0 else seconds

    def _count(self, run: "SimulatedRun", seconds: float) -> None:
        since, until, asked = run.since, run.since + seconds, run.asked_per_second
        self.answered += run.answered * asked * seconds
        self.in_bound += run.kept * asked * seconds
        for begins, ends in self.after_rises:
            if since < ends and until > begins:
                within = min(until, ends) - max(since, begins)
                self.answered_after_rises += run.answered * asked * within
                self.in_bound_after_rises += run.kept * asked * within


@dataclass(slots=True, eq=False)
class SimulatedRun:
    """One start, or a run of a profiling plan.

    Attributes:
        killed: Is told why a run of a profiling plan was killed, and the limit of which it ran out;
            ``None`` = it is a job's own run.
        core_of: The application whose cores' other threads it is bound to: a source's alone.
        rate: Work per second, over all servers; so are ``alone`` and ``most``, see ``RunPart``.
        kept: Of a service: what it could answer within its bound over what is asked, at most 1.
        kept_alone: The same without co-runners; so is ``kept_most`` with whole servers.
        answered: Of a service: what it answers, late or not, over what is asked, at most 1.
        measured: Its performance is read; ``measurements`` = how often it was.
        granted: What it was given at its start.
        lost: The servers from which it is gone; ``None`` = none since its last resize.
        ready: What its readiness probe has told; ``None`` = nothing yet, or it has none.
    """

    key: str
    job: Job
    account: Account
    placements: tuple[Placement, ...]
    queue: Queue = ONE_AT_A_TIME
    killed: Callable[[str, int], None] | None = None
    core_of: str = ""
    parts: list[RunPart] = field(default_factory=list)
    state: State = State.STARTING
    since: float = 0.0
    phase: int = 0
    load_per_second: float = 0.0
    rate: float = 0.0
    alone: float = 0.0
    most: float = 0.0
    kept: float = 0.0
    kept_alone: float = 0.0
    kept_most: float = 0.0
    answered: float = 0.0
    handle: int = 0
    eviction: int = 0
    started: ev.WorkloadStarted | None = None
    ready: ev.ReadinessChanged | None = None
    granted: tuple[Placement, ...] = ()
    lost: ev.PlacementsLost | None = None
    end: ev.Report | None = None
    measured: bool = False
    measurements: int = 0
    resizes: int = 0

    @property
    def awaits_ready(self) -> bool:
        """Whether its readiness probe has still to find it ready."""
        return self.job.workload.run.ready is not None and self.ready is None

    @property
    def application(self) -> str:
        """What the ground truth knows it by, now."""
        return self.job.phases[self.phase - 1].application if self.phase else self.job.application

    @property
    def asked_per_second(self) -> float:
        """Of a service: what its target has it answer of what it is asked."""
        target = self.job.workload.target
        wanted = target.throughput_per_second if target else None
        return self.load_per_second if wanted is None else min(self.load_per_second, wanted)

    @property
    def memory_bytes(self) -> int:
        """In use, where it uses most."""
        return max((part.memory_bytes for part in self.parts), default=0)

    @property
    def used_cpus(self) -> float:
        """CPU time per second that does something."""
        return sum(part.used_cpus for part in self.parts)

    def settle(self, now: float) -> None:
        """Put what was done since the last time into the account."""
        if self.state is State.RUNNING and now > self.since:
            self.account.add(self, now - self.since)
        self.since = now

    def sum_rates(self) -> None:
        """Its parts' rates have changed."""
        parts = self.parts
        if self.job.load is not None:
            self.kept = self._kept([(part.rate, part.busy_cpus) for part in parts])
            self.kept_alone = self._kept([(part.alone, part.alone_cpus) for part in parts])
            self.kept_most = self._kept([(part.most, part.most_cpus) for part in parts])
            self.answered = self._answered([part.rate for part in parts])
        if len(parts) == 1:
            part = parts[0]
            self.rate, self.alone, self.most = part.rate, part.alone, part.most
            return
        self.rate = sum(part.rate for part in parts)
        self.alone = sum(part.alone for part in parts)
        self.most = sum(part.most for part in parts)

    def _kept(self, speeds: Sequence[tuple[float, float]]) -> float:
        return self._answered(self._held(speeds))

    def _answered(self, could_per_second: Sequence[float]) -> float:
        """Over what is asked, at most 1, if each server can answer so much of its share."""
        asked = self.asked_per_second
        if asked <= 0:
            return 1.0
        parts = zip(could_per_second, self.parts, strict=True)
        return min(1.0, sum(min(could, asked * part.share) for could, part in parts) / asked)

    def _held(self, speeds: Sequence[tuple[float, float]]) -> list[float]:
        """What each server answers within the bound."""
        target = self.job.workload.target
        bound = target.latency if target else None
        return [
            self.queue.held_per_second(rate, cpus, bound) if bound else rate
            for rate, cpus in speeds
        ]

    def balance(self, truth: GroundTruth) -> None:
        """Share a service's load over its servers by what each of them holds alone."""
        if self.job.load is None or not self.parts:
            return
        for part in self.parts:
            part.share = 1 / len(self.parts)
        if len(self.parts) > 1:
            for part in self.parts:
                part.look(truth)
            held = self._held([(part.alone, part.alone_cpus) for part in self.parts])
            if (total := sum(held)) > 0:
                for part, could in zip(self.parts, held, strict=True):
                    part.share, part.resident = could / total, None

    def phase_seconds(self) -> float:
        """Until this phase is done, or its work; at the present rate."""
        phases = self.job.phases
        until = phases[self.phase].from_work if self.phase < len(phases) else self.job.work
        return self.seconds_to(until)

    def seconds_to(self, work: float) -> float:
        """Until so much work is done, at the present rate."""
        if self.rate <= 0:
            return inf
        return max(0.0, work - self.account.done) / self.rate


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """A job has entered a phase, its ``phase``-th after the first; rates are work per second."""

    time: float
    name: str
    key: str
    phase: int
    rate_before: float
    rate: float


def service_values(run: SimulatedRun) -> dict[Quantity, float]:
    """Throughput, and the percentile of latency that its target bounds."""
    target = run.job.workload.target
    bound = target.latency if target else None
    asked = run.load_per_second
    shares = [
        QueueShare(asked * part.share, part.rate, part.busy_cpus)
        for part in run.parts
        if part.share > 0
    ]
    percentile = bound.percentile if bound else USUAL_PERCENTILE
    return {
        Quantity.THROUGHPUT: sum(min(asked * part.share, part.rate) for part in run.parts),
        Quantity.LATENCY: run.queue.latency_seconds(shares, percentile),
    }


def share_out(capacity_millicpus: float, wanted: list[float]) -> list[float]:
    """CPU for those that share what is left: evenly, none more than it can use (water-filling).

    >>> share_out(1000.0, [100.0, 2000.0, 600.0])
    [100.0, 450.0, 450.0]
    """
    left, given = max(0.0, capacity_millicpus), [0.0] * len(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for taken, at in enumerate(order):
        given[at] = min(wanted[at], left / (len(order) - taken))
        left -= given[at]
    return given
