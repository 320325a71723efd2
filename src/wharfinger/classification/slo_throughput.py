"""The throughput that a service holds at its latency bound: what such workloads are classified by.

Source: Quasar 3.2, where the performance of a latency-critical service is the load that it answers
within its bound. A service that could answer X requests a second and is asked λ has a percentile of
its latency near

    L = k / (X − λ)

exactly so for one server with random arrivals (M/M/1), where k = −ln(1 − p). A real service has
another k, which one measurement under any load tells: k = L (X − λ). It holds a bound B up to

    λ* = X − k / B

so one short run under the load that there is says what load it could hold. Where that run was
saturated, λ = X says nothing of k, and that of M/M/1 is taken.
"""

from math import log, sqrt

from wharfinger.model.performance import SATURATED_SHARE
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Curve, Entry, Estimate

LAW_ERROR = 0.5
"""Relative error of k / B: real services queue in other ways than the law's."""
MIN_SHARE = 0.05
"""Of X: a service that can't hold its bound at all has this, which has a logarithm."""
MAX_ERROR = 1.0


def slo_throughput(
    throughput: Entry,
    latency: Entry,
    cpu_millicpus: int,
    used_cpus: float,
    below_seconds: float,
    percentile: float,
) -> Entry:
    """λ* with one allocation.

    Args:
        throughput: X, what it could answer, per second.
        latency: The percentile, in seconds, under the load that there was.
        cpu_millicpus: The allocation.
        used_cpus: CPU seconds per second meanwhile.
        below_seconds: B.
        percentile: That B bounds, 0 to 100.

    >>> x = Entry(100.0, 0.05)
    >>> [round(slo_throughput(x, Entry(0.02), 1000, used, 0.04, 99).value) for used in (0.2, 0.5)]
    [60, 75]
    >>> round(slo_throughput(x, Entry(0.5), 1000, 1.0, 0.1, 99).value)
    54
    """
    could = throughput.value
    usable = min(cpu_millicpus, max(MILLICPUS_PER_CPU, 1000 * used_cpus)) / MILLICPUS_PER_CPU
    share = min(used_cpus / usable, 1.0)
    if share >= SATURATED_SHARE:
        if latency.value <= below_seconds:
            return throughput
        k = -log(1 - min(percentile, 99.999) / 100)
    else:
        k = latency.value * could * (1 - share)
    held = max(could - k / below_seconds, MIN_SHARE * could)
    error = sqrt(throughput.error**2 + (LAW_ERROR * (could - held) / held) ** 2)
    return Entry(held, min(error, MAX_ERROR), False, latency.origin, latency.measured_at)


def at_bound(held: Curve, could: Curve, was_seconds: float, below_seconds: float) -> Curve:
    """λ* by CPU at another bound, where the user has changed it since; ``could`` is X by CPU."""
    estimates = []
    for cpu, estimate in zip(held.cpu_millicpus, held.estimates, strict=True):
        most = could.at(cpu).mean
        waits = max(most - estimate.mean, 0.0) * was_seconds / below_seconds
        estimates.append(Estimate(max(most - waits, MIN_SHARE * most), estimate.std))
    return Curve(held.cpu_millicpus, tuple(estimates))


def latency_under(
    asked_per_second: float, held: Curve, could: Curve, below_seconds: float
) -> Curve:
    """The percentile of latency by CPU under a load, as a curve.

    L = B (X − λ*) / (X − λ), its deviation by the two curves' own; beyond saturation it is
    that of nearly all there is.

    >>> held, could = (Curve((1000,), (Estimate(mean, 0.1),)) for mean in (80.0, 100.0))
    >>> [round(latency_under(asked, held, could, 0.1).at(1000).mean, 3) for asked in (60, 80, 200)]
    [0.05, 0.1, 1.0]
    """
    estimates = []
    for cpu in held.cpu_millicpus:
        most, bound = could.at(cpu), held.at(cpu)
        spare = max(most.mean - asked_per_second, MIN_SPARE * most.mean)
        waits = max(most.mean - bound.mean, MIN_SPARE * most.mean)
        by_held = bound.mean / waits * bound.std
        by_most = (most.mean / waits - most.mean / spare) * most.std
        std = min(sqrt(by_held**2 + by_most**2), MAX_LATENCY_STD)
        estimates.append(Estimate(below_seconds * waits / spare, std))
    return Curve(held.cpu_millicpus, tuple(estimates))


MIN_SPARE = 0.02
"""Of X."""
MAX_LATENCY_STD = 1.5
"""Of the logarithm: near saturation a latency can be anything, and wider says no more."""
