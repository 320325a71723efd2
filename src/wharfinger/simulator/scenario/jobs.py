"""Workloads as they really are: what their users hand in, and what only the ground truth knows.

A scenario makes a population of these (``simulator.scenario.build``), the cluster runs them,
the report compares what became of them with what was possible. A policy sees of one no more than
its ``workload``.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import inf

from wharfinger.model.workload import Reservation, Workload, WorkloadType

APPLICATION = "application"
"""First word of a simulated workload's command; the second names it in the ground truth."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a service is asked, constant between changes.

    Attributes:
        times: Seconds since the service was handed in, ascending, the first 0.
        per_second: Queries per second from each of these on.

    >>> load = Load((0.0, 60.0), (100.0, 250.0))
    >>> load.at(59.0), load.next_change(0.0), load.next_change(60.0), load.mean(120.0)
    (100.0, 60.0, None, 175.0)
    """

    times: tuple[float, ...]
    per_second: tuple[float, ...]

    def at(self, seconds: float) -> float:
        """Queries per second at a moment."""
        return self.per_second[max(0, bisect_right(self.times, seconds) - 1)]

    def next_change(self, seconds: float) -> float | None:
        """The first change after a moment; ``None`` = there is none."""
        after = bisect_right(self.times, seconds)
        return self.times[after] if after < len(self.times) else None

    def mean(self, seconds: float) -> float:
        """Over so many seconds from the beginning."""
        ends = [*self.times[1:], inf]
        parts = zip(self.times, ends, self.per_second, strict=True)
        total = sum(
            (min(end, seconds) - start) * each for start, end, each in parts if start < seconds
        )
        return total / seconds


@dataclass(frozen=True, slots=True)
class JobPhase:
    """A part of a job's work that is done by other code, on other data (Paragon 3.4).

    Attributes:
        from_work: Work that is done when it begins.
        application: What the ground truth knows it by.
    """

    from_work: float
    application: str


@dataclass(frozen=True, slots=True)
class Job:
    """One workload of a population.

    Attributes:
        workload: As its user hands it in. Its reservation is what it really needs.
        application: What the ground truth knows it by.
        arrives_at: Seconds from the run's beginning.
        work: Until it is complete, in the ground truth's unit; infinite for what serves.
        lifetime_seconds: How long a service is wanted, from when it is handed in, whether it
            runs or not; infinite for what completes its work.
        cpu_millicpus: The most that it can make use of on one server.
        memory_bytes: What it really takes on each server.
        load: What a service is asked; ``None`` = it is none.
        exit_code: How it ends when its work is done.
        output: What it prints.
        stated: What its user would reserve, who does not know what it needs; ``None`` = just that.
        phases: After the first, which is ``application``; by the work from which they are.
    """

    workload: Workload
    application: str
    arrives_at: float = 0.0
    work: float = inf
    lifetime_seconds: float = inf
    cpu_millicpus: int = 1000
    memory_bytes: int = 1
    load: Load | None = None
    exit_code: int = 0
    output: bytes = b""
    stated: Reservation | None = None
    phases: tuple[JobPhase, ...] = ()

    @property
    def name(self) -> str:
        """The workload's."""
        return self.workload.name

    @property
    def all_phases(self) -> tuple[JobPhase, ...]:
        """With the first."""
        return (JobPhase(0.0, self.application), *self.phases)

    @property
    def is_service(self) -> bool:
        """Whether it answers queries, and has no work to complete."""
        return self.load is not None

    @property
    def best_effort(self) -> bool:
        """Whether it has no target."""
        return self.workload.type is WorkloadType.BEST_EFFORT
