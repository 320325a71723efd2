"""How a workload should do with so much CPU, beside such neighbors, in its target's terms.

The four classifications together (docs/papers.md): in logarithms, the curve over CPU, and what
the neighbors' pressure takes away by the slope of the sensitivity curve; variances are added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, exp, log, sqrt

import numpy as np

from wharfinger.classification.axis import UNKNOWN_STD
from wharfinger.classification.platforms import ratio_at, ratios_over
from wharfinger.classification.slo_throughput import at_bound, latency_under
from wharfinger.classification.throttling import (
    Throttling,
    columns_of,
    latency_of,
    with_stops,
    within_quota,
)
from wharfinger.model.arrays import Array, frozen
from wharfinger.model.decisions import Interval, Prediction, Term
from wharfinger.model.memo import by_identity
from wharfinger.model.performance import MAX_NORMALIZED, Quantity
from wharfinger.model.profile import Classification, Curve, Estimate, quantile
from wharfinger.model.workload import Target, Workload

KEPT = 512
"""Classifications of which such results are kept: they are asked for again while one waits."""
START_SECONDS = 0.5
"""Between a decision and the program's first work."""


@dataclass(frozen=True, slots=True)
class TargetPart:
    """One part of a target: performance over it is ``factor`` times the curve, or over it.

    Attributes:
        inverse: The curve is a latency: less is better.
        term: What the curve says of the target; ``None`` = only how performance changes.
        work: To be done until completion, in the unit of the curve; ``None`` = none is stated.
        begun_seconds: From submission until that work begins.
        decides: Whether it counts for how far the target is reached, or is only reported.
    """

    curve: Curve
    factor: float
    inverse: bool = False
    term: Term | None = None
    work: float | None = None
    begun_seconds: float = 0.0
    decides: bool = True

    def normalized(self, cpu_millicpus: int) -> Estimate:
        """Performance over target with so much CPU."""
        estimate = self.curve.at(cpu_millicpus)
        mean = self.factor / estimate.mean if self.inverse else self.factor * estimate.mean
        return Estimate(min(mean, MAX_NORMALIZED), estimate.std)

    def normalized_over(self, cpu_millicpus: Sequence[int]) -> tuple[list[float], list[float]]:
        """The means and deviations of ``normalized`` for many allocations."""
        means, stds = _over(self.curve, tuple(cpu_millicpus))
        over = [self.factor / mean if self.inverse else self.factor * mean for mean in means]
        # A conditional expression: min() would take most of the time.
        return [each if each < MAX_NORMALIZED else MAX_NORMALIZED for each in over], stds


@by_identity(maxsize=KEPT)
def _over(curve: Curve, cpu_millicpus: tuple[int, ...]) -> tuple[list[float], list[float]]:
    return curve.over(cpu_millicpus)


def parts_of(
    workload: Workload,
    classification: Classification,
    waited_seconds: float,
    quota_period_seconds: float = 0.0,
    offered_per_second: float | None = None,
) -> list[TargetPart]:
    """The parts of its target that are classified, so long after it was submitted.

    ``quota_period_seconds`` is the shortest of the quotas of CPU time where it runs; 0 = none.
    ``offered_per_second`` is the load at which a service is to keep its bound; ``None`` = that of
    its target, or of its profile.
    """
    target, curves = workload.target, classification.curves
    if target is None:
        return []
    parts = list(_service_parts(classification, target, quota_period_seconds, offered_per_second))
    throughput, rate = curves.get(Quantity.THROUGHPUT), curves.get(Quantity.RATE)
    latency = None if parts else curves.get(Quantity.LATENCY)
    if not parts and throughput and target.throughput_per_second:
        parts.append(TargetPart(throughput, 1 / target.throughput_per_second, term=Term.THROUGHPUT))
    if rate and target.rate_per_second:
        parts.append(TargetPart(rate, 1 / target.rate_per_second, term=Term.RATE))
    if latency and target.latency:
        bound = target.latency.below_seconds
        parts.append(TargetPart(latency, bound, inverse=True, term=Term.LATENCY))
    total = workload.measure.progress_total or classification.total
    if rate and total and target.completion_seconds:
        left_seconds = target.completion_seconds - waited_seconds - START_SECONDS
        factor = max(left_seconds, 1 / MAX_NORMALIZED) / total
        begun = waited_seconds + START_SECONDS
        parts.append(TargetPart(rate, factor, term=Term.RATE, work=total, begun_seconds=begun))
    return parts


@by_identity(maxsize=KEPT)
def _service_parts(
    classification: Classification,
    target: Target,
    quota_period_seconds: float,
    offered_per_second: float | None,
) -> Sequence[TargetPart]:
    """Of a service with a latency bound: the load that it holds there, over the load; or empty.

    A load that takes all that a service can do has no other; then it is known by CPU alone.
    """
    curves, was_seconds = classification.curves, classification.held_below_seconds
    held, could = curves.get(Quantity.HELD), curves.get(Quantity.THROUGHPUT)
    stated = target.throughput_per_second or classification.asked_per_second
    asked = offered_per_second or stated
    if not (held and could and was_seconds and asked and target.latency):
        return []
    if classification.saturating and offered_per_second is None:
        return []
    bound = target.latency.below_seconds
    held = at_bound(held, could, was_seconds, bound)
    under = latency_under(asked, held, could, bound)
    if quota_period_seconds > 0:
        idle = classification.idle_latency_seconds
        if idle is not None and offered_per_second is None:
            # More may be asked than the target states, and the bound is to be kept then, too.
            asked = max(asked, classification.asked_per_second or 0.0)
        throttling = Throttling(could, target.latency.percentile, quota_period_seconds)
        columns = columns_of(held)
        if idle is not None:
            under = latency_of(idle, could, asked, columns)
        under = with_stops(under, throttling, asked)
        held = within_quota(held, throttling, bound, columns)
    parts = [TargetPart(held, 1 / asked)]
    if target.throughput_per_second:
        stated = target.throughput_per_second
        parts.append(TargetPart(could, 1 / stated, term=Term.THROUGHPUT, decides=False))
    parts.append(TargetPart(under, bound, inverse=True, term=Term.LATENCY, decides=False))
    return parts


def performance_with(
    parts: list[TargetPart], cpu_millicpus: int, drop: float, variance: float, confidence: float
) -> dict[Term, Interval]:
    """Performance in the target's own terms, beside neighbors.

    They take ``drop``, with its variance, off the logarithm; ``confidence`` is that of each bound.

    >>> from wharfinger.model.profile import Curve, Estimate
    >>> part = TargetPart(Curve((1000,), (Estimate(10.0, 0.1),)), 1.0, term=Term.RATE, work=600.0)
    >>> terms = performance_with([part], 1000, 0.0, 0.0, 0.8)
    >>> [round(number, 1) for number in (terms[Term.RATE].low, terms[Term.COMPLETION].high)]
    [9.2, 65.3]
    """
    terms: dict[Term, Interval] = {}
    for part in parts:
        if part.term is None:
            continue
        estimate = part.curve.at(cpu_millicpus)
        mean = estimate.mean * exp(drop if part.inverse else -drop)
        wider = exp(quantile(confidence) * sqrt(estimate.std**2 + variance))
        terms[part.term] = Interval(mean, mean / wider, mean * wider)
        if part.work is not None:
            seconds = part.work / mean
            terms[Term.COMPLETION] = Interval(
                part.begun_seconds + seconds,
                part.begun_seconds + seconds / wider,
                part.begun_seconds + seconds * wider,
            )
    return terms


def normalized_with(parts: list[TargetPart], cpu_millicpus: int, confidence: float) -> Estimate:
    """Performance over target: that of the deciding part that is least sure to be kept."""
    z = quantile(confidence)
    estimates = [part.normalized(cpu_millicpus) for part in parts if part.decides]
    return min(estimates, key=lambda estimate: log(estimate.mean) - z * estimate.std)


def normalized_over(
    parts: list[TargetPart], cpu_millicpus: Sequence[int], confidence: float
) -> tuple[list[float], list[float]]:
    """The means and deviations of ``normalized_with`` for many allocations."""
    z = quantile(confidence)
    of_parts = [part.normalized_over(cpu_millicpus) for part in parts if part.decides]
    if len(of_parts) == 1:
        return of_parts[0]
    means, stds = [], []
    for at in range(len(cpu_millicpus)):
        estimates = [(mean[at], std[at]) for mean, std in of_parts]
        mean, std = min(estimates, key=lambda one: log(one[0]) - z * one[1])
        means.append(mean)
        stds.append(std)
    return means, stds


def estimate_of(predicted: Prediction) -> Estimate:
    """With its standard deviation, by its lower bound.

    >>> round(estimate_of(Prediction(1.0, 0.9, 1.1, 0.8)).std, 3)
    0.125
    """
    z = quantile(predicted.confidence)
    has_bound = z > 0 and predicted.low > 0 and predicted.mean > 0
    return Estimate(predicted.mean, log(predicted.mean / predicted.low) / z if has_bound else 0.0)


def reached_probability(normalized: Estimate, wanted: float = 1.0) -> float:
    """That performance over target is at least ``wanted``."""
    if normalized.std == 0:
        return float(normalized.mean >= wanted)
    return 0.5 * (1 + erf((log(normalized.mean) - log(wanted)) / normalized.std / sqrt(2)))


def change_on(
    classification: Classification, platform: str, cpu_millicpus: int | None = None
) -> Estimate:
    """Performance on a platform over that on ``classification.platform``, with the same allocation.

    ``None`` = that of the run it was measured by. Without measurements it is wide.
    """
    if classification.platform in ("", platform):
        return _SAME
    row = classification.by_allocation.get(platform)
    if row and cpu_millicpus is not None:
        return ratio_at(row, cpu_millicpus)
    return classification.platforms.get(platform, _UNKNOWN)


def slower(
    classification: Classification, platforms: Sequence[str], cpu_millicpus: int | None = None
) -> tuple[Array, Array]:
    """What each platform takes away of the logarithm of performance (heterogeneity).

    (P,) mean of the drop, negative where it is faster than ``classification.platform``, and (P,)
    its variance; with an allocation, as ``change_on``.
    """
    return _slower(classification, tuple(platforms), cpu_millicpus)


@by_identity(maxsize=KEPT)
def _slower(
    classification: Classification, platforms: tuple[str, ...], cpu_millicpus: int | None
) -> tuple[Array, Array]:
    changes = [change_on(classification, platform, cpu_millicpus) for platform in platforms]
    drop = np.array([-log(change.mean) for change in changes])
    return frozen(drop), frozen(np.array([change.std**2 for change in changes]))


def slower_over(
    classification: Classification, platforms: Sequence[str], cpu_millicpus: Sequence[int]
) -> tuple[Array, Array]:
    """The same for many allocations: (P, G) means of the drop, and variances."""
    drop, variance = (
        np.repeat(each[:, None], len(cpu_millicpus), axis=1)
        for each in slower(classification, platforms)
    )
    for at, platform in enumerate(platforms):
        row = classification.by_allocation.get(platform)
        if row and platform != classification.platform:
            logs, stds = ratios_over(row, cpu_millicpus)
            drop[at], variance[at] = -logs, stds**2
    return drop, variance


@by_identity(maxsize=KEPT)
def slower_by_size(
    classification: Classification, platforms: tuple[str, ...], cpu_millicpus: tuple[int, ...]
) -> tuple[Array, Array]:
    """As ``slower_over``, kept; (P, 1) where one number holds for any size."""
    if classification.by_allocation:
        drop, variance = slower_over(classification, platforms, cpu_millicpus)
    else:
        drop, variance = (each[:, None] for each in slower(classification, platforms))
    return frozen(drop), frozen(variance)


_SAME = Estimate(1.0, 0.0)
_UNKNOWN = Estimate(1.0, UNKNOWN_STD)


def worse_by(normalized: Estimate, drop: float, variance: float) -> Estimate:
    """A prediction beside neighbors that take so much off the logarithm."""
    return Estimate(normalized.mean * exp(-drop), sqrt(normalized.std**2 + variance))
