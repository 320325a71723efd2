"""Who takes part, what each must reach, and what its user would have reserved.

Pure: targets follow from what each program does alone on one CPU of this machine, and from how
many CPUs there are. Nothing here is tuned to one machine.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

TOLERANCE = 0.1
"""Of every target: so far below it is still kept."""
LATENCY_PERCENTILE = 95.0
LEAST_LATENCY_SECONDS = 0.1
"""CPU limits count in periods of 100 ms: no bound is set below one."""
LATENCY_FACTOR = 20.0
"""A bound on latency, over the median alone: a percentile of few seconds is mostly noise."""
SURGE = 2.1
"""The load of the surge, over the load before.

Without it all need half of the CPUs together, with it three fifths. What is left
is for confidence: who sizes by predictions gives more than is needed, and it has to fit.
"""
HELD_SHARE = 0.8
"""A service has met its target when it was held in so many of the seconds looked at.

A surge must have shown for a while before a manager acts, and half of a short run lies after it.
"""
SETTLE_SECONDS = 5.0
"""A service's first seconds are not looked at."""
BASELINE = "least-loaded"


class Kind(StrEnum):
    """What takes part."""

    SERVICE = "latency-critical"
    BATCH = "batch"
    FILLER = "best-effort"


@dataclass(frozen=True, slots=True)
class Member:
    """One program of the set.

    Attributes:
        name: Of the workload.
        about: In a few words, for people.
        kind: What it is.
        program: A module of ``wharfinger.catalog.programs`` and its options.
        share: Of all CPUs, what its target needs by what it does alone; 0 = no target.
        done_by: A batch job's target, as a share of the run's length.
        protocol: Of a service's load generator.
        surges: Whether its load surges half-way; its latency is bounded then.
    """

    name: str
    about: str
    kind: Kind
    program: tuple[str, ...]
    share: float = 0.0
    done_by: float = 0.0
    protocol: str = ""
    surges: bool = False

    @property
    def targeted(self) -> bool:
        """Whether it has a target."""
        return self.kind is not Kind.FILLER


MEMBERS = (
    Member(
        "web",
        "HTTP server: renders, hashes and compresses documents",
        Kind.SERVICE,
        ("http_service", "--rows", "600"),
        share=0.1,
        protocol="http",
        surges=True,
    ),
    Member(
        "cache",
        "key-value server, Redis' protocol, values of 256 KiB",
        Kind.SERVICE,
        ("keyvalue_service", "--fill", "50"),
        share=0.1,
        protocol="redis",
    ),
    Member(
        "compress",
        "zlib on text",
        Kind.BATCH,
        ("compress", "--algorithm", "zlib"),
        share=0.1,
        done_by=0.8,
    ),
    Member(
        "sort",
        "sort(1), larger than its memory",
        Kind.BATCH,
        ("sorting", "--where", "external"),
        share=0.1,
        done_by=0.85,
    ),
    Member(
        "report",
        "JSON, written and read again",
        Kind.BATCH,
        ("text", "--kind", "json"),
        share=0.1,
        done_by=0.9,
    ),
    Member("matrices", "NumPy: matrix products", Kind.FILLER, ("numeric", "--kernel", "matmul")),
    Member("scan", "checksums of 64 MiB", Kind.FILLER, ("digest", "--algorithm", "stream")),
    Member("rows", "SQLite, each insert synced", Kind.FILLER, ("database", "--work", "insert")),
)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long everything takes.

    Attributes:
        run_seconds: Each of the two runs.
        solo_seconds: Each program alone.
        profile_seconds: ``spec.profile.seconds`` of batch jobs.
        service_profile_seconds: And of services, whose clients need a few seconds to see anything.
        allowance: Share of the run that batch targets leave for waiting and profiling.
    """

    run_seconds: float = 110.0
    solo_seconds: float = 3.0
    profile_seconds: float = 5.0
    service_profile_seconds: float = 8.0
    allowance: float = 0.4

    @property
    def surge_seconds(self) -> float:
        """When the surge begins: half-way."""
        return self.run_seconds / 2


@dataclass(frozen=True, slots=True)
class Solo:
    """What a program does alone on one CPU.

    Attributes:
        rate_per_second: Steps, or requests answered when they come as fast as they can.
        latency_seconds: Of a service with a bound, the median at the rate of its target; else
            ``None``.
    """

    rate_per_second: float
    latency_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """What one workload must reach.

    Attributes:
        need_cpus: What the target takes, by what the program does alone.
        throughput_per_second: Of a service.
        latency_seconds: Bound at ``LATENCY_PERCENTILE``; ``None`` = none.
        completion_seconds: Of a batch job, from being handed in.
        total: A batch job's steps.
    """

    need_cpus: float
    throughput_per_second: float | None = None
    latency_seconds: float | None = None
    completion_seconds: float | None = None
    total: int | None = None


def offered_rate(member: Member, cpus: float, solo_rate_per_second: float) -> float:
    """Requests a second at which a service's target is set."""
    return round_to(member.share * cpus * solo_rate_per_second, 3)


def goal_of(member: Member, solo: Solo, cpus: float, timing: Timing) -> Goal:
    """A target as a fraction of what the program does alone.

    Args:
        member: Has one.
        solo: Measured on one CPU of this machine.
        cpus: All that there are.
        timing: Of the run.

    >>> goal_of(MEMBERS[2], Solo(20.0), 2.0, Timing())
    Goal(need_cpus=0.2, throughput_per_second=None, latency_seconds=None, \
completion_seconds=88.0, total=176)
    """
    need = member.share * cpus
    if member.kind is Kind.SERVICE:
        bound = None
        if solo.latency_seconds is not None:
            wanted = max(LEAST_LATENCY_SECONDS, LATENCY_FACTOR * solo.latency_seconds)
            bound = round_to(wanted, 2)
        rate = offered_rate(member, cpus, solo.rate_per_second)
        return Goal(need, throughput_per_second=rate, latency_seconds=bound)
    completion = round(member.done_by * timing.run_seconds, 1)
    working = completion - timing.allowance * timing.run_seconds
    total = max(1, round(need * solo.rate_per_second * working))
    return Goal(need, completion_seconds=completion, total=total)


def round_to(value: float, digits: int) -> float:
    """So many digits that count.

    >>> round_to(412.37, 2), round_to(0.10321, 3)
    (410.0, 0.103)
    """
    return float(f"{value:.{digits}g}")


# --- what users would reserve -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a user states who has to state a reservation.

    Attributes:
        cpus: Stated.
        factor: Over what is needed.
    """

    cpus: float
    factor: float

    @property
    def about(self) -> str:
        """In words."""
        if self.factor == 1:
            return "as needed"
        return f"{self.factor:.1f}x what is needed"


OVER_SHARE, UNDER_SHARE = 0.7, 0.2
OVER_LEAST, OVER_MOST, UNDER = 1.5, 3.0, 0.5
STEP_CPUS = 0.05


def reservations(goals: Mapping[str, Goal], seed: int, most_cpus: float) -> dict[str, Reservation]:
    """Over- and underestimates as they were found in a large cluster (Quasar, Figure 1d).

    There 70% of workloads reserved up to ten times too much and 20% up to five times too little.
    Here 70% reserve 1.5 to 3 times what they need, 20% half of it, and the rest what they need:
    milder than what was found. Who does which is drawn.

    Args:
        goals: Of all that have a target.
        seed: Of the draw.
        most_cpus: Of the largest server: more would never start.

    >>> goals = {name: Goal(0.3) for name in "abcdefghij"}
    >>> drawn = [reservation.factor for reservation in reservations(goals, 0, 1.0).values()]
    >>> sum(factor > 1 for factor in drawn), sum(factor < 1 for factor in drawn)
    (7, 2)
    """
    chance = random.Random(seed)
    places = [(place + 0.5) / len(goals) for place in range(len(goals))]
    chance.shuffle(places)
    return {
        name: _reservation(goal.need_cpus, _factor(place, chance), most_cpus)
        for (name, goal), place in zip(goals.items(), places, strict=True)
    }


def _factor(place: float, chance: random.Random) -> float:
    if place < OVER_SHARE:
        return chance.uniform(OVER_LEAST, OVER_MOST)
    return UNDER if place < OVER_SHARE + UNDER_SHARE else 1.0


def _reservation(need_cpus: float, factor: float, most_cpus: float) -> Reservation:
    cpus = max(STEP_CPUS, round(need_cpus * factor / STEP_CPUS) * STEP_CPUS)
    return Reservation(round(min(cpus, most_cpus), 3), round(factor, 2))


def with_room(stated: Mapping[str, Reservation], servers: int, cpus: float) -> list[str]:
    """Who would start at once under the baseline if those that fit were let past in line.

    Args:
        stated: In the order in which they are handed in.
        servers: How many.
        cpus: Of each.

    >>> stated = {"a": Reservation(0.9, 3), "b": Reservation(0.3, 1), "c": Reservation(0.1, 1)}
    >>> with_room(stated, 1, 1.0)
    ['a', 'c']
    """
    free, found = [cpus] * servers, []
    for name, reservation in stated.items():
        roomiest = max(range(servers), key=lambda server: free[server])
        if reservation.cpus <= free[roomiest] + 1e-9:
            free[roomiest] -= reservation.cpus
            found.append(name)
    return found


def of_kind(kind: Kind, members: Sequence[Member] = MEMBERS) -> list[Member]:
    """All of one kind, in order."""
    return [member for member in members if member.kind is kind]
