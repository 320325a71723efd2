"""The ground truth: how fast each workload really is, from who else is there.

An interface, and its plainest implementation. A policy never sees it: it gets what a real cluster
would show, noisy measurements of what it profiled and of what runs. Only the oracle looks.

Rates change only when something changes on a server (someone comes, goes, is resized, is asked
more), so the cluster asks only then, and nothing polls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.queueing import ONE_AT_A_TIME, Queue


@dataclass(frozen=True, slots=True)
class TrueResident:
    """A resident of a server, as far as its own speed and that of others depend on it.

    Attributes:
        application: As the ground truth knows it.
        cpu_millicpus: CPU time per second that it has there, in thousandths of a CPU: what it was
            given, or for best-effort work its part of what the others leave.
        memory_bytes: That it takes.
        load_per_second: What it is asked there, if it serves; ``None`` = it does not.
        servers: On how many servers it runs.
        core_of: The application whose cores' other threads it is bound to; empty = none's. Only
            sources of interference are.
    """

    application: str
    cpu_millicpus: float
    memory_bytes: int
    load_per_second: float | None = None
    servers: int = 1
    core_of: str = ""


class GroundTruth(Protocol):
    """How fast workloads really are. The same question always has the same answer."""

    @property
    def unit(self) -> str:
        """Of work: rates are in this per second, e.g. ``"steps"``; services answer queries."""

    @property
    def references(self) -> tuple[str, ...]:
        """Applications that may be run beside another to learn how the two get on; may be empty."""

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Whether all of these can be on one server at once, for their memory."""

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """What each of them does per second on one server; of a service, what it could at most.

        Of those that run on several servers, the part that is done here.
        """

    def used_millicpus(
        self, platform: str, residents: Sequence[TrueResident], rates: Sequence[float]
    ) -> list[float]:
        """CPU time per second that each keeps busy, at the rates that ``rates`` gave."""

    def alone(self, platform: str, resident: TrueResident) -> float:
        """The same of one that has a server to itself."""

    def most(self, platform: str, application: str) -> float:
        """Of one that has a whole server to itself, with all the CPU that it can use; 0 = never."""

    def queue(self, application: str) -> Queue:
        """How the queries of a service differ, and who answers them."""

    def source(
        self, platform: str, resource: SharedResource, intensity: float, beside: TrueResident
    ) -> TrueResident | None:
        """A source of interference at an intensity from 0 to 100; ``None`` = no signal.

        Args:
            platform: Where.
            resource: What it presses on.
            intensity: Of what the platform has.
            beside: The workload that it is to press.
        """


def busy(residents: Sequence[TrueResident], rates: Sequence[float]) -> list[float]:
    """``used_millicpus`` where nothing waits: all that it has; of a service, what its load takes.

    >>> busy([TrueResident("a", 1500.0, 1), TrueResident("s", 2000.0, 1, 50.0)], [7.0, 200.0])
    [1500.0, 500.0]
    """
    return [
        resident.cpu_millicpus
        if resident.load_per_second is None
        else resident.cpu_millicpus * min(1.0, resident.load_per_second / rate if rate > 0 else 0.0)
        for resident, rate in zip(residents, rates, strict=True)
    ]


def busy_cpus(resident: TrueResident, could_per_second: float, used_millicpus: float) -> float:
    """CPUs that a service's queries keep busy where it answers all that it could.

    Fewer than it has where a network or a disk bounds it: then its queries do not wait for CPUs.

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
    """What a service alone on a server could answer, and CPUs that this keeps busy."""
    group = (resident,)
    rates = truth.rates(platform, group)
    used = truth.used_millicpus(platform, group, rates)
    return rates[0], busy_cpus(resident, rates[0], used[0])


class Untouched:
    """What ground truths have in common that know of rates alone."""

    def used_millicpus(
        self, _platform: str, residents: Sequence[TrueResident], rates: Sequence[float]
    ) -> list[float]:
        """See ``busy``."""
        return busy(residents, rates)

    def queue(self, _application: str) -> Queue:
        """One at a time, exponentially."""
        return ONE_AT_A_TIME

    def source(
        self, _platform: str, _resource: SharedResource, _intensity: float, _beside: TrueResident
    ) -> TrueResident | None:
        """None: nothing is known of resources."""
        return None


class Undisturbed(Untouched):
    """Workloads that do not touch one another: each runs at the speed of the CPU that it has.

    For traces that say what was asked for and for how long it ran, and nothing of interference:
    with what it asked for a workload takes as long as it took. One unit of work is a second with
    all that it can use on a platform of speed 1; with half the CPU it takes twice as long. A
    service answers so many queries a second with each CPU that it has.

    Args:
        cpu_millicpus: What each application can make use of; those that are absent, one CPU. One
            that spans servers has its part of this on each.
        memory_bytes: Of each platform's servers; absent = never too little.
        per_cpu: Queries per second that each service answers with one CPU; the rest do work.
        speed: Of each platform; absent = 1.
        platform_millicpus: CPU of each platform's servers; absent = never too little.
        span: On how many servers each application runs at least; absent = 1.
    """

    unit = "seconds"
    references: tuple[str, ...] = ()

    def __init__(
        self,
        cpu_millicpus: "dict[str, int] | None" = None,
        memory_bytes: "dict[str, int] | None" = None,
        *,
        per_cpu: "dict[str, float] | None" = None,
        speed: "dict[str, float] | None" = None,
        platform_millicpus: "dict[str, int] | None" = None,
        span: "dict[str, int] | None" = None,
    ) -> None:
        self._cpu = cpu_millicpus or {}
        self._memory = memory_bytes or {}
        self._per_cpu = per_cpu or {}
        self._speed = speed or {}
        self._platform = platform_millicpus or {}
        self._span = span or {}

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Within the server's memory."""
        memory = self._memory.get(platform)
        return memory is None or sum(resident.memory_bytes for resident in residents) <= memory

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Each its own, whoever is there."""
        return [self.alone(platform, resident) for resident in residents]

    def alone(self, platform: str, resident: TrueResident) -> float:
        """Seconds of work per second, or queries."""
        return self._rate(platform, resident.application, resident.cpu_millicpus)

    def most(self, platform: str, application: str) -> float:
        """As long as the trace says, where there is as much CPU as it can use."""
        there = self._platform.get(platform)
        wanted = self._cpu.get(application, 1000)
        cpu = wanted if there is None else there * self._span.get(application, 1)
        return self._rate(platform, application, cpu)

    def _rate(self, platform: str, application: str, cpu_millicpus: float) -> float:
        wanted = self._cpu.get(application, 1000)
        used = min(cpu_millicpus, wanted)
        per_cpu = self._per_cpu.get(application)
        full = 1.0 if per_cpu is None else per_cpu * wanted / 1000
        return self._speed.get(platform, 1.0) * (full * used / wanted if wanted else full)
