"""What a job needs to keep its target, by the ground truth, for ``greedy`` and ``colocations``."""

from dataclasses import dataclass, replace
from math import inf, log

from wharfinger.model.workload import LatencyBound
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.ground_truth import TrueResident, alone_with_cpus
from wharfinger.simulator.truth.queueing import Queue

NEVER = 1e-9  # stands for a rate of 0, of which there is no logarithm
CPU_SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
"""Of what a job can use: what it may be given."""
RESERVED = 0.9  # a target of so much of the best that there is takes all CPUs that the job can use
FEW = 20  # so many jobs make half of a mean that can be relied upon
AHEAD_SECONDS = 2.0  # a service is given what it will be asked before it is: a resize takes 0.5 s
START_SPREAD = 2.0  # starts are taken to last so many times their mean: none is late by its start


@dataclass(frozen=True, slots=True)
class Wants:
    """What a job needs.

    Attributes:
        application: Its phase with the most work, at its best speed; most have one only.
        best: Units of work per second, alone on the best platform with all that it can use.
        target_seconds: From submission to its end; infinite = it has no such target, or serves.
        asked_per_second: Of a service: the most that its target ever has it answer; 0 = it is none.
        kept: Share of that which it has to answer.
        sized: It gets the least that reaches its target; else all CPUs that it can use.
    """

    job: Job
    application: str
    best: float
    target_seconds: float
    asked_per_second: float
    kept: float
    sized: bool
    queue: Queue
    bound: LatencyBound | None

    @property
    def load_per_second(self) -> float | None:
        """What it is asked at most; ``None`` = it is no service."""
        return max(self.job.load.per_second) if self.job.load else None

    @property
    def ideal_seconds(self) -> float:
        """For which it runs where it is fastest; 0 = unknown, or it has no claim on CPU."""
        if self.job.best_effort:
            return 0.0
        lasts = self.job.lifetime_seconds
        if self.job.load is None:
            lasts = self.job.work / self.best if self.best > 0 else inf
        return lasts if lasts < inf else 0.0

    def asked_at(self, seconds: float) -> float:
        """Of a service: the most that its target has it answer then and for a moment after.

        ``seconds`` since its submission.
        """
        load = self.job.load
        if load is None or len(load.times) == 1:
            return self.asked_per_second
        most, change = load.at(seconds), load.next_change(seconds)
        while change is not None and change <= seconds + AHEAD_SECONDS:
            most, change = max(most, load.at(change)), load.next_change(change)
        return min(most, self.asked_per_second)

    def same_until(self, seconds: float) -> float:
        """Of a service: when what it is asked changes next, or it ends; since its submission."""
        load, end = self.job.load, self.job.lifetime_seconds
        change = load.next_change(seconds + AHEAD_SECONDS) if load is not None else None
        return min(end, change) if change is not None else max(end, seconds)

    def value(self, rate: float, busy_cpus: float) -> float:
        """Of a service what it can answer within its bound, of others the rate."""
        if self.bound is None or self.job.load is None:
            return rate
        return self.queue.held_per_second(rate, busy_cpus, self.bound)

    def needed(self, done: float, seconds: float, *, tolerant: bool = True) -> float:
        """Value from now on with which its target is kept; infinite = it is lost.

        ``done`` is work, ``seconds`` since its submission; ``tolerant`` = its tolerance counts.
        """
        if self.job.load is not None:
            return self.asked_at(seconds) * (self.kept if tolerant else 1.0)
        due = self.target_seconds / (max(self.kept, 1e-9) if tolerant else 1.0)
        if due == inf:
            return 0.0
        return max(0.0, self.job.work - done) / (due - seconds) if due > seconds else inf

    def latest(self, value: float) -> float:
        """Seconds after its submission by which it must run, at this value, to keep its target.

        Infinite for what it keeps whenever it starts.
        """
        if self.job.load is not None:
            return inf if value >= self.asked_per_second * self.kept else 0.0
        if self.target_seconds == inf:
            return inf if value >= self.needed(0.0, 0.0) else 0.0
        return self.target_seconds / max(self.kept, NEVER) - self.job.work / max(value, NEVER)


class Knowledge:
    """What is true of a setup's jobs and platforms, asked once."""

    def __init__(self, setup: Setup) -> None:
        self.truth = setup.truth
        self.start_seconds = START_SPREAD * setup.costs.start_seconds
        self.cpu_millicpus = {s.platform.name: s.cpu_millicpus for s in setup.servers}
        self.real_millicpus = {
            s.platform.name: min(s.cpu_millicpus, s.platform.cpu_millicpus) for s in setup.servers
        }
        self.platforms = tuple(self.cpu_millicpus)
        self._fractional = setup.engine.fractional_cpu
        self.memory_bytes = {s.platform.name: s.memory_bytes for s in setup.servers}
        self._most: dict[str, float] = {}
        self._values: dict[tuple[str, str, int, int], float] = {}
        self._wants = {job.name: self._look(job) for job in setup.jobs}
        self._arrives = {job.name: job.arrives_at for job in setup.jobs}
        self._last_arrives = max(self._arrives.values(), default=0.0)
        self.scarcity = self._scarcity(setup)
        seconds = [w.ideal_seconds * w.job.cpu_millicpus / 1000 for w in self._wants.values()]
        self.mean_cpu_seconds = _mean(seconds)

    def wants(self, name: str) -> Wants | None:
        """What a job needs; ``None`` = there is none of this name."""
        return self._wants.get(name)

    def last_arrival(self, name: str, submitted_at: float) -> float:
        """When the last job is submitted, by when this one was."""
        return submitted_at + self._last_arrives - self._arrives[name]

    def sizes(self, wants: Wants, platform: str) -> tuple[int, ...]:
        """Thousandths of a CPU that it may be given there, ascending; at least one."""
        most = min(wants.job.cpu_millicpus, self.cpu_millicpus[platform])
        if not self._fractional:
            most = max(1000, min(-(-most // 1000), self.cpu_millicpus[platform] // 1000) * 1000)
        if not wants.sized:
            return (most,)
        if not self._fractional:
            return tuple(range(1000, most + 1, 1000))
        columns = (max(1, round(share * wants.job.cpu_millicpus)) for share in CPU_SHARES)
        return tuple(dict.fromkeys(min(each, most) for each in columns))

    def alone(self, wants: Wants, platform: str, cpu_millicpus: int, servers: int = 1) -> float:
        """Value with a server to itself: over all its phases, as if they took turns."""
        key = wants.job.name, platform, cpu_millicpus, servers
        value = self._values.get(key)
        if value is None:
            given = min(cpu_millicpus, wants.job.cpu_millicpus)
            value = self._values[key] = self._alone(wants, platform, given, servers)
        return value

    def resident(self, wants: Wants, cpu_millicpus: float, servers: int = 1) -> TrueResident:
        """As the ground truth sees it, at the highest load that it is ever asked."""
        job, load = wants.job, wants.load_per_second
        each = None if load is None else load / servers
        return TrueResident(wants.application, cpu_millicpus, job.memory_bytes, each, servers)

    def _look(self, job: Job) -> Wants:
        workload, target = job.workload, job.workload.target
        rates = [self._best(phase.application) for phase in job.all_phases]
        works = _works(job)
        spans = [
            (work / rate if rate > 0 else inf) if work > 0 else 0.0
            for work, rate in zip(works, rates, strict=True)
        ]
        main = max(range(len(spans)), key=spans.__getitem__)
        best = rates[0] if len(spans) == 1 else job.work / sum(spans)
        due, asked = inf, 0.0
        if job.load is not None:
            wanted = target.throughput_per_second if target else None
            peak = max(job.load.per_second)
            asked = peak if wanted is None else min(peak, wanted)
        elif target is not None:
            if target.completion_seconds is not None:
                due = target.completion_seconds
            if target.rate_per_second:
                due = min(due, job.work / target.rate_per_second)
        nearly_best = due == inf or job.work / due >= RESERVED * best
        reserved = target is None or (job.load is None and nearly_best)
        return Wants(
            job=job,
            application=job.all_phases[main].application,
            best=best,
            target_seconds=due,
            asked_per_second=asked if target is not None else 0.0,
            kept=1 - workload.tolerance,
            sized=not workload.best_effort and (workload.scale.max_servers > 1 or not reserved),
            queue=self.truth.queue(job.application),
            bound=target.latency if target else None,
        )

    def _best(self, application: str) -> float:
        if application not in self._most:
            rates = (self.truth.most(platform, application) for platform in self.platforms)
            self._most[application] = max(rates, default=0.0)
        return self._most[application]

    def _alone(self, wants: Wants, platform: str, given: int, servers: int) -> float:
        job, rates = wants.job, []
        main = self.resident(wants, float(given), servers)
        for phase in job.all_phases:
            who = replace(main, application=phase.application)
            fits = self.truth.fits(platform, [who])
            rates.append(self.truth.alone(platform, who) if fits else 0.0)
        if job.load is not None and rates[0] > 0:
            return wants.value(*alone_with_cpus(self.truth, platform, who))
        if len(rates) == 1 or min(rates) <= 0:
            return min(rates)
        return job.work / sum(work / rate for work, rate in zip(_works(job), rates, strict=True))

    def _scarcity(self, setup: Setup) -> dict[str, float]:
        """CPU time that is wanted of each platform, over what it has while jobs arrive.

        Each job's is spread evenly over all servers that keep its target. With few jobs such a mean
        says little of what is wanted at one time, and counts for less.
        """
        there = dict.fromkeys(self.platforms, 0.0)
        for server in setup.servers:
            # What servers promise counts here: with what they have it kept fewer, tried in 0034.
            there[server.platform.name] += server.cpu_millicpus
        scarcity = dict.fromkeys(self.platforms, 0.0)
        for wants in self._wants.values():
            able = [p for p in self.platforms if self.keeps_alone(wants, p)]
            room = sum(there[platform] for platform in able)
            for platform in able:
                scarcity[platform] += wants.ideal_seconds * wants.job.cpu_millicpus / room
        spans = [wants.ideal_seconds for wants in self._wants.values()]
        arrivals = [job.arrives_at for job in setup.jobs]
        seconds = max(arrivals, default=0.0) - min(arrivals, default=0.0) + _mean(spans)
        sure = len(spans) / (len(spans) + FEW)
        return {p: sure * each / seconds if seconds > 0 else 0.0 for p, each in scarcity.items()}

    def keeps_alone(self, wants: Wants, platform: str) -> bool:
        """Whether its target can be kept there at all, where it starts at once and is alone."""
        job = wants.job
        if job.memory_bytes > self.memory_bytes[platform]:
            return False
        value = self.alone(wants, platform, self.sizes(wants, platform)[-1])
        needed = wants.needed(0.0, self.start_seconds)
        if job.load is not None:
            needed = wants.asked_per_second * wants.kept
        return value > 0 and value >= needed


def lost(before: float, after: float) -> float:
    """Of the logarithm of a performance.

    >>> lost(2.0, 2.0)
    0.0
    """
    return log(max(before, NEVER) / max(after, NEVER))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _works(job: Job) -> list[float]:
    starts = [phase.from_work for phase in job.all_phases]
    ends = [*starts[1:], job.work]
    return [end - start for start, end in zip(starts, ends, strict=True)]
