"""What was measured of a workload, and whether it keeps its target.

Engines report ``Sample``, the core keeps the newest as ``Performance``, policies read ``achieved``
and ``meets``. What could not be measured is a ``NoSignal`` with its reason, never a zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from wharfinger.model.allocation import Placement
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.workload import Target

MAX_NORMALIZED = 1000.0
"""Stands for a ratio whose lower part is zero: nothing is left to do, or no latency."""

SATURATED_SHARE = 0.9
"""Share of the CPU that it can use above which a service is taken to be saturated."""
IDLE_SHARE = 0.7
"""Share of its CPU below whose use a service could do more than it is asked for."""
THROTTLED_SHARE = 0.05
"""Share of the periods of its quota from which a workload lacks CPU (Autothrottle, NSDI 2024)."""
BUSIER = 1.1
"""Times as busy as where it is least busy: there one on several servers is slowed."""
STALE_SECONDS = 60.0
"""After so long without a new sample, the last one says nothing of now."""


class Quantity(StrEnum):
    """What a number measures, with its unit."""

    THROUGHPUT = "throughput_per_second"
    """Queries or operations a service answers."""
    OFFERED = "offered_per_second"
    """Those that clients send it, answered or not."""
    LATENCY = "latency_seconds"
    """The percentile that the target bounds."""
    HELD = "held_throughput_per_second"
    """What a service could answer within its latency bound: classified, never measured as such."""
    RATE = "rate_per_second"
    """Work in the unit that ``measure`` reads."""
    REMAINING = "remaining_seconds"
    """Until the stated total is done, at the present rate."""
    CPU = "cpu_seconds_per_second"
    """A proxy: CPU time of the whole tree."""
    INSTRUCTIONS = "instructions_per_second"
    """A proxy: instructions retired, active waiting left out."""
    MEMORY = "memory_bytes"
    """Memory in use that can't be reclaimed: without the page cache."""
    THROTTLED = "throttled_share"
    """Share of the periods of its CPU quota in which that did not last, and it was stopped."""


PROXIES = frozenset({Quantity.CPU, Quantity.INSTRUCTIONS, Quantity.THROTTLED})


@dataclass(frozen=True, slots=True)
class Reading:
    """One smoothed number, in the unit of its quantity.

    Attributes:
        source: Where it comes from, for people, e.g. ``"progress lines"``.
        trusted: Whether it stands for the target; a proxy has to prove that first.
        correlation: Of a proxy with the workload's own metric, by rank, from -1 to 1;
            ``None`` = not a proxy, or not enough to compare.
    """

    value: float
    source: str
    trusted: bool = True
    correlation: float | None = None


@dataclass(frozen=True, slots=True)
class NoSignal:
    """Why a number that should have been measured was not, for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """An engine's newest measurements of one workload; no quantity is both read and silent.

    Attributes:
        cpu_by_server: Of one on several servers, CPU seconds per second on each; empty = not known.
    """

    key: str
    readings: Mapping[Quantity, Reading] = field(default_factory=dict)
    silent: Mapping[Quantity, NoSignal] = field(default_factory=dict)
    cpu_by_server: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Performance:
    """The newest sample of a workload.

    Attributes:
        measured_at: In seconds since the epoch.
        measured_before: When it was measured before that, where it runs now; ``None`` = it was not.
        cpu_by_server: As in ``Sample``.
    """

    measured_at: float
    readings: Mapping[Quantity, Reading] = field(default_factory=dict)
    silent: Mapping[Quantity, NoSignal] = field(default_factory=dict)
    measured_before: float | None = None
    cpu_by_server: Mapping[str, float] = field(default_factory=dict)

    def at(self, now: float) -> "Performance":
        """The part that still holds: nothing, once it is older than ``STALE_SECONDS``."""
        age_seconds = now - self.measured_at
        if age_seconds <= STALE_SECONDS:
            return self
        reason = NoSignal(f"measured last {age_seconds:.0f} s ago")
        return Performance(
            self.measured_at, {}, {**self.silent, **dict.fromkeys(self.readings, reason)}
        )

    @property
    def is_throttled(self) -> bool:
        """Whether its CPU quota has not lasted too often."""
        throttled = self.readings.get(Quantity.THROTTLED)
        return throttled is not None and throttled.value > THROTTLED_SHARE

    def answers_all(self, cpu_millicpus: int) -> bool:
        """Whether a service answers all that it is asked, having CPU to spare of so much.

        Where its latency is not read, bursts that are throttled may be all that it is asked.
        """
        used = self.readings.get(Quantity.CPU)
        if used is None or not self.trusted(Quantity.THROUGHPUT):
            return False
        if self.is_throttled and self.trusted(Quantity.LATENCY) is None:
            return False
        return used.value * MILLICPUS_PER_CPU < IDLE_SHARE * cpu_millicpus

    @property
    def answered_share(self) -> float | None:
        """Of the requests that are offered to a service, the share that it answers."""
        offered, answered = self.trusted(Quantity.OFFERED), self.trusted(Quantity.THROUGHPUT)
        return answered / offered if offered and answered is not None else None

    def busy_shares(self, placements: Sequence[Placement]) -> dict[str, float]:
        """CPU time that it uses over what it is allocated, by server.

        Empty = it is not known of each, or it does nothing on one of them as yet.
        """
        shares = {}
        for placed in placements:
            used, cpu = self.cpu_by_server.get(placed.server), placed.allocation.cpu_millicpus
            if not used or not cpu:
                return {}
            shares[placed.server] = used * MILLICPUS_PER_CPU / cpu
        return shares

    def trusted(self, quantity: Quantity) -> float | None:
        """A reading that stands for the target; ``None`` = there is none."""
        reading = self.readings.get(quantity)
        return reading.value if reading is not None and reading.trusted else None


@dataclass(frozen=True, slots=True)
class Achieved:
    """Performance in a target's terms; ``None`` = not measured.

    Attributes:
        latency_seconds: At the target's percentile.
        rate_per_second: In the unit that ``measure`` reads.
        completion_seconds: From submission to the end; predicted while it runs.
        answers_all: It answers all that it is asked: a lower throughput is for want of requests.
    """

    throughput_per_second: float | None = None
    latency_seconds: float | None = None
    rate_per_second: float | None = None
    completion_seconds: float | None = None
    answers_all: bool = False


NOTHING = Achieved()


def achieved(performance: Performance, submitted_at: float, cpu_millicpus: int = 0) -> Achieved:
    """What a workload submitted then (seconds since the epoch) achieves, by trusted readings.

    ``cpu_millicpus`` is what it is allocated; 0 = that says nothing.
    """
    remaining = performance.trusted(Quantity.REMAINING)
    passed_seconds = max(0.0, performance.measured_at - submitted_at)
    return Achieved(
        throughput_per_second=performance.trusted(Quantity.THROUGHPUT),
        latency_seconds=performance.trusted(Quantity.LATENCY),
        rate_per_second=performance.trusted(Quantity.RATE),
        completion_seconds=None if remaining is None else passed_seconds + remaining,
        answers_all=performance.answers_all(cpu_millicpus),
    )


def meets(target: Target, tolerance: float, performance: Achieved) -> bool | None:
    """Whether every part of a target is kept; ``None`` = unknown, for a part is not measured.

    A throughput is a capacity: it is kept where all that is asked is answered.

    >>> from wharfinger.model.workload import LatencyBound
    >>> target = Target(throughput_per_second=100, latency=LatencyBound(99, 0.01))
    >>> meets(target, 0.05, Achieved(throughput_per_second=96, latency_seconds=0.0104))
    True
    >>> meets(target, 0.05, Achieved(throughput_per_second=90))
    False
    >>> meets(target, 0.05, Achieved(throughput_per_second=96)) is None
    True
    >>> meets(target, 0.05, Achieved(90, latency_seconds=0.01, answers_all=True))
    True
    """
    bound = target.latency.below_seconds if target.latency else None
    throughput = None if performance.answers_all else target.throughput_per_second
    verdicts = [
        _reaches(performance.throughput_per_second, throughput, tolerance),
        _reaches(performance.rate_per_second, target.rate_per_second, tolerance),
        _stays_below(performance.latency_seconds, bound, tolerance),
        _stays_below(performance.completion_seconds, target.completion_seconds, tolerance),
    ]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def normalized_performance(
    target: Target, performance: Performance, submitted_at: float, cpu_millicpus: int = 0
) -> float | None:
    """Performance over target by its worst part; ``None`` = a part is not measured.

    For a completion time it is the time left over the time that the rest will take. A throughput is
    reached where the service answers all that it is asked, with ``cpu_millicpus`` allocated.

    >>> readings = {Quantity.RATE: Reading(60.0, "progress lines")}
    >>> normalized_performance(Target(rate_per_second=80), Performance(0.0, readings), 0.0)
    0.75
    """
    left = submitted_at + (target.completion_seconds or 0.0) - performance.measured_at
    bound = target.latency.below_seconds if target.latency else None
    parts: list[float | None] = []
    if target.throughput_per_second is not None:
        throughput = performance.trusted(Quantity.THROUGHPUT)
        share = _ratio(throughput, target.throughput_per_second)
        if share is not None and performance.answers_all(cpu_millicpus):
            share = max(share, 1.0)
        parts.append(share)
    if target.rate_per_second is not None:
        parts.append(_ratio(performance.trusted(Quantity.RATE), target.rate_per_second))
    if bound is not None:
        parts.append(_ratio(bound, performance.trusted(Quantity.LATENCY)))
    if target.completion_seconds is not None:
        parts.append(_ratio(max(0.0, left), performance.trusted(Quantity.REMAINING)))
    measured = [part for part in parts if part is not None]
    return min(measured) if measured and len(measured) == len(parts) else None


def busier(busy: Mapping[str, float]) -> frozenset[str]:
    """Of several servers, those on which a workload is clearly busier: what is there slows it.

    A balancer gives each server load in proportion to what it holds alone.

    >>> sorted(busier({"a": 0.5, "b": 0.54, "c": 0.7}))
    ['c']
    """
    least = BUSIER * min(busy.values(), default=0.0)
    return frozenset(server for server, share in busy.items() if share > least)


def _ratio(over: float | None, under: float | None) -> float | None:
    if over is None or under is None:
        return None
    return over / under if under > 0 else MAX_NORMALIZED


def _reaches(value: float | None, wanted: float | None, tolerance: float) -> bool | None:
    if wanted is None:
        return True
    return None if value is None else value >= wanted * (1 - tolerance)


def _stays_below(value: float | None, bound: float | None, tolerance: float) -> bool | None:
    if bound is None:
        return True
    return None if value is None else value <= bound * (1 + tolerance)


def as_performance(quantity: Quantity, value: float) -> float:
    """On a scale where more is better; applied twice it gives the value again.

    >>> as_performance(Quantity.LATENCY, 0.004), as_performance(Quantity.RATE, 12.0)
    (250.0, 12.0)
    """
    return 1 / value if quantity is Quantity.LATENCY else value
