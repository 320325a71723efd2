"""The ground truth: how fast each workload really is with its co-runners.

An interface, and its plainest implementation. Only the oracle sees it; other policies see noisy
measurements. Rates change only with the residents of a server, their allocations and load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.queueing import ONE_AT_A_TIME, Queue


@dataclass(frozen=True, slots=True)
class TrueResident:
    """A resident of a server, as far as rates there depend on it.

    Attributes:
        cpu_millicpus: Its allocation; of best-effort work, its part of what the others leave.
        load_per_second: Queries; ``None`` = it is no service.
        servers: On how many servers it runs.
        core_of: Of sources of interference: the application on whose cores' other threads it runs.
        cores: Of a platform with unlike cores, the group of those that it runs on.
    """

    application: str
    cpu_millicpus: float
    memory_bytes: int
    load_per_second: float | None = None
    servers: int = 1
    core_of: str = ""
    cores: int = 0


class GroundTruth(Protocol):
    """How fast workloads really are. The same question always has the same answer."""

    @property
    def unit(self) -> str:
        """Of work: rates are in this per second, e.g. ``"steps"``; services answer queries."""

    @property
    def references(self) -> tuple[str, ...]:
        """Applications that a profiling run may take for co-runners; may be empty."""

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Whether the memory of one server holds all of these."""

    def working_set(self, application: str, memory_bytes: int) -> int:
        """Of what it uses where nothing limits it, the least without which it is killed."""

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Rate of each on one server; of a service, the queries that it could answer at most.

        Of those that run on several servers, the part on this one.
        """

    def used_millicpus(
        self, platform: str, residents: Sequence[TrueResident], rates: Sequence[float]
    ) -> list[float]:
        """CPU time per second that each uses, at the rates that ``rates`` gave."""

    def alone(self, platform: str, resident: TrueResident) -> float:
        """Rate of one with a server to itself."""

    def most(self, platform: str, application: str) -> float:
        """Rate with a server to itself and all the CPU that it can use; 0 = it does not run."""

    def queue(self, application: str) -> Queue:
        """How the queries of a service vary, and how many are answered at once."""

    def source(
        self, platform: str, resource: SharedResource, intensity: float, beside: TrueResident
    ) -> TrueResident | None:
        """A source of interference beside a workload, which takes 0 to 100% of what there is.

        ``None`` = it has no effect.
        """


def busy_cpus(resident: TrueResident, could_per_second: float, used_millicpus: float) -> float:
    """CPUs that a service uses where it answers all that it could.

    Fewer than it has where a network or a disk bounds it.

    >>> busy_cpus(TrueResident("s", 8000.0, 1, 100.0), 400.0, 500.0)
    2.0
    """
    cpus = resident.cpu_millicpus / 1000
    answered = min(resident.load_per_second or 0.0, could_per_second)
    if answered <= 0:
        return cpus
    return min(cpus, used_millicpus / 1000 * could_per_second / answered)


def alone_with_cpus(
    truth: GroundTruth, platform: str, resident: TrueResident
) -> tuple[float, float]:
    """Queries per second that a service alone could answer, and CPUs that it then uses."""
    group = (resident,)
    rates = truth.rates(platform, group)
    used = truth.used_millicpus(platform, group, rates)
    return rates[0], busy_cpus(resident, rates[0], used[0])


class Untouched:
    """Common part of ground truths that have rates only."""

    def working_set(self, _application: str, memory_bytes: int) -> int:
        """All of it."""
        return memory_bytes

    def used_millicpus(
        self, _platform: str, residents: Sequence[TrueResident], rates: Sequence[float]
    ) -> list[float]:
        """Each allocation; of a service, what its load takes."""
        return [
            resident.cpu_millicpus
            if resident.load_per_second is None
            else resident.cpu_millicpus
            * min(1.0, resident.load_per_second / rate if rate > 0 else 0.0)
            for resident, rate in zip(residents, rates, strict=True)
        ]

    def queue(self, _application: str) -> Queue:
        """An M/M/1 queue."""
        return ONE_AT_A_TIME

    def source(
        self, _platform: str, _resource: SharedResource, _intensity: float, _beside: TrueResident
    ) -> TrueResident | None:
        """None: resources are unknown."""
        return None


@dataclass(frozen=True, eq=False)
class Undisturbed(Untouched):
    """Workloads without contention: each runs at the speed of its CPU.

    For traces, which state requests and durations only: with what it requested, a workload takes as
    long as it took. One unit of work is a second with all CPU that it can use, on a platform of
    speed 1; with half the CPU it takes twice as long. A service answers in proportion to its CPU.

    Attributes:
        cpu_millicpus: That each application can use; absent = one CPU. One that spans servers has
            its part of this on each.
        memory_bytes: Of each platform's servers; absent = unlimited.
        per_cpu: Queries per second that each service answers with one CPU; the rest do work.
        speed: Of each platform; absent = 1.
        platform_millicpus: CPU of each platform's servers; absent = unlimited.
        span: On how many servers each application runs at least; absent = 1.
    """

    unit = "seconds"
    references = ()

    cpu_millicpus: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    _: KW_ONLY
    per_cpu: Mapping[str, float] = field(default_factory=dict)
    speed: Mapping[str, float] = field(default_factory=dict)
    platform_millicpus: Mapping[str, int] = field(default_factory=dict)
    span: Mapping[str, int] = field(default_factory=dict)

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Within the server's memory."""
        memory = self.memory_bytes.get(platform)
        return memory is None or sum(resident.memory_bytes for resident in residents) <= memory

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Each as alone."""
        return [self.alone(platform, resident) for resident in residents]

    def alone(self, platform: str, resident: TrueResident) -> float:
        """Seconds of work per second, or queries."""
        return self._rate(platform, resident.application, resident.cpu_millicpus)

    def most(self, platform: str, application: str) -> float:
        """At the trace's duration, where there is as much CPU as it can use."""
        has = self.platform_millicpus.get(platform)
        wanted = self.cpu_millicpus.get(application, 1000)
        cpu = wanted if has is None else has * self.span.get(application, 1)
        return self._rate(platform, application, cpu)

    def _rate(self, platform: str, application: str, cpu_millicpus: float) -> float:
        wanted = self.cpu_millicpus.get(application, 1000)
        used = min(cpu_millicpus, wanted)
        per_cpu = self.per_cpu.get(application)
        full = 1.0 if per_cpu is None else per_cpu * wanted / 1000
        return self.speed.get(platform, 1.0) * (full * used / wanted if wanted else full)
