"""Latency of a service from its load, its capacity and how its queries vary.

A server's share of a service is a queue before c workers, its CPUs (M/G/c). A query waits with
probability ρ^(√(2(c + 1)) − 1) and then for an exponential time, its mean by Sakasegawa's formula
with (1 + v) / 2 for the variation v of the service time (Hopp and Spearman, Factory Physics, 8.6);
for one worker and v = 1 this is the M/M/1 queue, exactly. The service time itself is a constant and
an exponential part where v is at most 1, else one of two exponentials with balanced means. Clients
give up after ``GIVE_UP_SECONDS``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, sqrt

from wharfinger.model.workload import LatencyBound

GIVE_UP_SECONDS = 10.0  # upper bound of every latency
_HALVINGS = 50
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A service on one server; ``cpus`` are less than it has where network or disk bounds it."""

    load_per_second: float
    could_per_second: float
    cpus: float


@dataclass(frozen=True, slots=True)
class Queue:
    """How a service's queries vary.

    Attributes:
        variation: Squared coefficient of variation of the service time.
        workers: Each CPU answers a query of its own; else all CPUs answer one at a time.
    """

    variation: float = 1.0
    workers: bool = True

    def latency_seconds(self, shares: Sequence[QueueShare], percentile: float) -> float:
        """A percentile over the servers that share the load.

        >>> round(Queue().latency_seconds([QueueShare(500.0, 1000.0, 1.0)], 99) * 1e3, 2)
        9.21
        """
        return _latency(self, tuple(shares), percentile)

    def held_per_second(self, could_per_second: float, cpus: float, bound: LatencyBound) -> float:
        """The largest load at which the percentile stays below the bound.

        >>> round(Queue().held_per_second(1000.0, 1.0, LatencyBound(99, 0.01)))
        539
        """
        if could_per_second <= 0:
            return 0.0
        if self._is_plain:
            needed = -log(1 - bound.percentile / 100) / bound.below_seconds
            return max(0.0, could_per_second - needed)
        workers = max(1.0, cpus) if self.workers else 1.0
        # All scales with the service time, so the bound is stated in units of it.
        units = bound.below_seconds * could_per_second / workers
        share = _held(_rounded(units), _rounded(workers), self.variation, bound.percentile)
        return share * could_per_second

    @property
    def _is_plain(self) -> bool:
        """The M/M/1 queue, which has closed forms."""
        return self.variation == 1 and not self.workers

    def _mixed(self, parts: Sequence[tuple[float, QueueShare]], seconds: float) -> float:
        return sum(weight * self._beyond(share, seconds) for weight, share in parts if weight > 0)

    def _beyond(self, share: QueueShare, seconds: float) -> float:
        if share.could_per_second <= share.load_per_second:
            return 1.0
        workers = max(1.0, share.cpus) if self.workers else 1.0
        service = workers / share.could_per_second
        load = share.load_per_second / share.could_per_second
        return beyond(load, workers, self.variation, seconds / service)


@lru_cache(maxsize=8_192)
def _latency(queue: Queue, shares: tuple[QueueShare, ...], percentile: float) -> float:
    # A service is measured more often than anything changes for it.
    total = sum(share.load_per_second for share in shares)
    if total <= 0:
        return 0.0
    beyond = 1 - percentile / 100
    if len(shares) > 1 and len(set(shares)) == 1:
        shares = shares[:1]
        total = shares[0].load_per_second
    if queue._is_plain and len(shares) == 1:
        spare = shares[0].could_per_second - total
        return min(GIVE_UP_SECONDS, -log(beyond) / spare) if spare > 0 else GIVE_UP_SECONDS
    parts = [(share.load_per_second / total, share) for share in shares]
    if queue._mixed(parts, GIVE_UP_SECONDS) >= beyond:
        return GIVE_UP_SECONDS
    return _bisected(lambda at: queue._mixed(parts, at) > beyond, GIVE_UP_SECONDS, 1e-7)[1]


def beyond(load: float, workers: float, variation: float, units: float) -> float:
    """Probability that a query takes longer than ``units`` mean service times, at a load ρ below 1.

    >>> round(beyond(0.5, 1.0, 1.0, 9.21), 4)
    0.01
    """
    constant, branches = _service(variation)
    left = units - constant
    if left < 0:
        return 1.0
    waits = load ** (sqrt(2 * (workers + 1)) - 1)
    leaves = 2 * workers * (1 - load) / (1 + variation)
    total = 0.0
    for weight, rate in branches:
        served = exp(-rate * left)
        gap = leaves - rate
        if abs(gap) < _SAME * rate:
            waited = served * (1 + rate * left)
        else:
            waited = (leaves * served - rate * exp(-leaves * left)) / gap
        total += weight * ((1 - waits) * served + waits * waited)
    return min(1.0, max(0.0, total))


@lru_cache(maxsize=4096)
def _service(variation: float) -> tuple[float, tuple[tuple[float, float], ...]]:
    """A constant, and weights and rates of exponentials; the mean is 1 in all."""
    if variation <= 1:
        spread = max(sqrt(variation), 1e-3)
        return 1 - spread, ((1.0, 1 / spread),)
    often = 0.5 * (1 + sqrt((variation - 1) / (variation + 1)))
    return 0.0, ((often, 2 * often), (1 - often, 2 * (1 - often)))


def _rounded(value: float) -> float:
    """To nine digits: more cache hits."""
    return float(f"{value:.9g}")


@lru_cache(maxsize=65_536)
def _held(units: float, workers: float, variation: float, percentile: float) -> float:
    """The largest load within the bound, over what could be answered."""
    allowed = 1 - percentile / 100
    if beyond(0.0, workers, variation, units) > allowed:
        return 0.0
    return _bisected(lambda load: beyond(load, workers, variation, units) <= allowed, 1.0, 0.0)[0]


def _bisected(holds: Callable[[float], bool], high: float, precision: float) -> tuple[float, float]:
    """Two ends around the value from 0 to ``high`` up to which a condition holds."""
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
        if high - low < precision * high:
            break
    return low, high


ONE_AT_A_TIME = Queue(1.0, workers=False)  # M/M/1, where nothing is known of queries
