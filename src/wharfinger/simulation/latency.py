"""Latency of a service from its load and what it could answer (an M/M/1 queue).

With Poisson arrivals at λ and exponential service at μ per second the time in the system is
exponential with rate μ − λ (Kleinrock, Queueing Systems I, 3.2), so that its p-th percentile is
ln(1 / (1 − p)) / (μ − λ). Clients give up after a while: no latency is longer than that.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, log

from wharfinger.model.workload import LatencyBound

GIVE_UP_SECONDS = 10.0
"""After these a client asks no more: the longest latency that there is."""


@lru_cache(maxsize=256)
def _exponents(percentile: float) -> float:
    return -log(1 - percentile / 100)


def held_per_second(could_per_second: float, bound: LatencyBound) -> float:
    """The largest load at which the percentile stays below the bound.

    >>> round(held_per_second(1000.0, LatencyBound(99, 0.01)))
    539
    """
    return max(0.0, could_per_second - _exponents(bound.percentile) / bound.below_seconds)


def latency_seconds(parts: Sequence[tuple[float, float]], percentile: float) -> float:
    """A percentile over servers that share the load.

    Args:
        parts: Load and what could be answered, per second, for each server.
        percentile: E.g. 99.

    >>> one = latency_seconds([(500.0, 1000.0)], 99)
    >>> round(one * 1e3, 2), round(latency_seconds([(500.0, 1000.0)] * 2, 99) * 1e3, 2)
    (9.21, 9.21)
    >>> latency_seconds([(500.0, 400.0)], 99)
    10.0
    """
    total = sum(load for load, _ in parts)
    if total <= 0:
        return 0.0
    rates = [(load / total, max(0.0, could - load)) for load, could in parts]
    if len(rates) == 1:
        rate = rates[0][1]
        return min(GIVE_UP_SECONDS, _exponents(percentile) / rate) if rate > 0 else GIVE_UP_SECONDS
    return _mixture(rates, 1 - percentile / 100)


def _mixture(rates: Sequence[tuple[float, float]], beyond: float) -> float:
    """Where a mixture of exponentials (weight, rate) exceeds with probability ``beyond``."""
    low, high = 0.0, GIVE_UP_SECONDS
    if sum(weight * exp(-rate * high) for weight, rate in rates) >= beyond:
        return GIVE_UP_SECONDS
    for _ in range(60):
        middle = (low + high) / 2
        if sum(weight * exp(-rate * middle) for weight, rate in rates) > beyond:
            low = middle
        else:
            high = middle
    return high
