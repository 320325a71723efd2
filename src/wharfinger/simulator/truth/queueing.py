"""Latency of a service from its load, its capacity and how its queries vary.

A server's share of a service is a queue before c workers, its CPUs (M/G/c). A query waits with
probability ρ^(√(2(c + 1)) − 1) and then for an exponential time, its mean by Sakasegawa's formula
with (1 + v) / 2 for the variation v of the service time (Hopp and Spearman, Factory Physics, 8.6);
for one worker and v = 1 this is the M/M/1 queue, exactly. The service time itself is a constant and
an exponential part where v is at most 1, else one of two exponentials with balanced means. Clients
give up after ``GIVE_UP_SECONDS``. The kernel ``native._queueing`` solves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from wharfinger.model.workload import LatencyBound
from wharfinger.native import longest, most_load

GIVE_UP_SECONDS = 10.0  # upper bound of every latency
_PRECISION = 1e-7


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

    def _workers_of(self, share: QueueShare) -> float:
        return max(1.0, share.cpus) if self.workers else 1.0


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
    parts = [
        (weight, share.load_per_second, share.could_per_second, queue._workers_of(share))
        for share in shares
        if (weight := share.load_per_second / total) > 0
    ]
    return longest(parts, queue.variation, beyond, GIVE_UP_SECONDS, _PRECISION)


def _rounded(value: float) -> float:
    """To nine digits: more cache hits."""
    return float(f"{value:.9g}")


@lru_cache(maxsize=65_536)
def _held(units: float, workers: float, variation: float, percentile: float) -> float:
    """The largest load within the bound, over what could be answered."""
    return most_load(units, workers, variation, 1 - percentile / 100)


ONE_AT_A_TIME = Queue(1.0, workers=False)  # M/M/1, where nothing is known of queries
