"""Workloads of a simulation: as their users submit them, and as only the ground truth knows them.

A policy sees only a job's ``workload``.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import inf

from wharfinger.model.workload import Reservation, Workload, WorkloadType

RISE = 1.5
"""Times what was asked before: a step of a load."""
AFTER_RISE_SECONDS = 600.0
"""For which the time after a step is looked at apart."""
APPLICATION = "application"  # first word of a simulated command; the second names the program


@dataclass(frozen=True, slots=True)
class Load:
    """Queries per second from each of ``times`` on: seconds since submission, from 0, ascending.

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
        """Time of the first change after a moment."""
        after = bisect_right(self.times, seconds)
        return self.times[after] if after < len(self.times) else None

    def mean(self, seconds: float) -> float:
        """Mean over so many seconds from the beginning."""
        return self.total(0.0, seconds) / seconds

    def total(self, since: float, until: float) -> float:
        """Queries between two moments."""
        ends = [*self.times[1:], inf]
        parts = zip(self.times, ends, self.per_second, strict=True)
        return sum(
            (min(end, until) - max(start, since)) * each
            for start, end, each in parts
            if start < until and end > since
        )

    def capped(self, per_second: float) -> "Load":
        """The same, never more than this."""
        return Load(self.times, tuple(min(each, per_second) for each in self.per_second))

    def after_rises(self) -> tuple[tuple[float, float], ...]:
        """The first minutes after each rise by at least half at once; they do not overlap."""
        rises = [
            time
            for time, before, after in zip(
                self.times[1:], self.per_second, self.per_second[1:], strict=False
            )
            if after > 0 and after >= RISE * before
        ]
        ends = [*rises[1:], inf]
        return tuple(
            (rise, min(end, rise + AFTER_RISE_SECONDS))
            for rise, end in zip(rises, ends, strict=False)
        )


@dataclass(frozen=True, slots=True)
class JobPhase:
    """A part of a job's work, done by another application from ``from_work`` on (Paragon 3.4)."""

    from_work: float
    application: str


@dataclass(frozen=True, slots=True)
class Job:
    """One workload of a population.

    Attributes:
        workload: As its user submits it. Its reservation is what it really needs.
        work: In the ground truth's unit; infinite for services.
        lifetime_seconds: Of a service, from submission, whether it runs or not; else infinite.
        cpu_millicpus: The most that it can use on one server.
        stated: What its user would reserve; ``None`` = what it needs.
        phases: After the first, which is ``application``.
        ready_seconds: With a readiness probe: it is ready so long after each start.
        hangs_seconds: With a liveness probe: so long after each start it is found not alive.
        stays: Whether it is on one server from the start, and does not end.
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
    ready_seconds: float = 0.0
    hangs_seconds: float = inf
    stays: bool = False

    @property
    def name(self) -> str:
        """Of the workload."""
        return self.workload.name

    @property
    def last_output(self) -> str:
        """The last line that it prints and that is not empty, if it fails."""
        lines = self.output.decode(errors="replace").splitlines() if self.exit_code else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    @property
    def all_phases(self) -> tuple[JobPhase, ...]:
        """The first and the rest."""
        return (JobPhase(0.0, self.application), *self.phases)

    @property
    def is_service(self) -> bool:
        """Whether it answers queries instead of completing work."""
        return self.load is not None

    @property
    def best_effort(self) -> bool:
        """Whether it has no target."""
        return self.workload.type is WorkloadType.BEST_EFFORT
