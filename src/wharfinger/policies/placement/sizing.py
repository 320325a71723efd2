"""How much CPU a target takes: the least at which it is kept with the stated confidence.

Source: Quasar 3.3: the least amount of resources that meets the target, scaling up within a server
first. The confidence is added here. A target is kept from 1 less its tolerance of it on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from math import exp, log
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import (
    TargetPart,
    normalized_over,
    normalized_with,
    parts_of,
    performance_with,
    reached_probability,
    slower,
    slower_by_size,
    worse_by,
)
from wharfinger.core.seams.contention import Array, Assessment, LogEstimates
from wharfinger.model.arrays import frozen, normal_below
from wharfinger.model.decisions import Prediction
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Classification, Estimate, quantile
from wharfinger.model.view import Capabilities, Request, Resize, View
from wharfinger.model.workload import Target
from wharfinger.native import first_enough, first_enough_on

REJECTED = "its target is out of reach, and its manifest says onMiss: reject"
REACHABLE = "a lower target, a larger or faster server, or onMiss: run"
"""What would let run what was rejected so."""


def kept_alone(probability: float) -> str:
    """That its target is kept with nothing in its way, as a clause."""
    return f"even alone on the best server it is kept with {probability:.0%} probability"


@dataclass(frozen=True, slots=True)
class SizingSettings:
    """Constants of sizing.

    Attributes:
        confidence: Probability with which a target must be kept.
        idle_confidence: The same while at most ``idle_below`` of the servers' CPU is allocated:
            what nobody else wants is given for more certainty. Also where the engine can't give
            more later: what turns out to be too little stays so (decision 0092).
        idle_below: Share of the CPU of all servers.
        step_millicpus: Candidate allocations are multiples of this.
        min_step: Smallest relative difference between candidate allocations.
        plateau: Share of the best performance above which no more CPU is given.
        hopeless: A target that is kept with a lower probability is out of reach (``will-miss``).
    """

    confidence: float = 0.8
    idle_confidence: float = 0.95
    idle_below: float = 0.3
    step_millicpus: int = 50
    min_step: float = 0.025
    plateau: float = 0.98
    hopeless: float = 0.5

    def on_engine(self, able: Capabilities) -> "SizingSettings":
        """The same, where a size can't be corrected as sure as where there is CPU to spare."""
        if able.resize is Resize.ANY:
            return self
        return replace(self, confidence=max(self.confidence, self.idle_confidence))


DEFAULT = SizingSettings()
ALONE = Estimate(1.0, 0.0)
"""Performance on one server over that on one."""
LEAST_STD = 0.02
"""Of the logarithm of a predicted performance."""
LEAST_GIVEN = 0.5
"""Of what would do without doubt: less is not given where no server is sure to keep a target."""
LEAST_KEPT = 1e-9
"""Of a target, with any tolerance."""


def sizes(
    largest_millicpus: int, *, fractional: bool, settings: SizingSettings = DEFAULT
) -> NDArray[np.int64]:
    """Candidate allocations, ascending, fine where little is needed; empty where no step fits.

    >>> sizes(4000, fractional=False).tolist(), sizes(49, fractional=True).tolist()
    ([1000, 2000, 3000, 4000], [])
    """
    step = settings.step_millicpus if fractional else MILLICPUS_PER_CPU
    return _sizes(largest_millicpus, step, settings.min_step)


@lru_cache(maxsize=64)
def _sizes(largest_millicpus: int, step: int, min_step: float) -> NDArray[np.int64]:
    largest = largest_millicpus // step * step
    smaller: list[int] = []
    size = step
    while size < largest:
        smaller.append(size)
        size = max(size + step, -(-round(size * (1 + min_step)) // step) * step)
    return frozen(np.array((*smaller, largest) if largest else (), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Performance over target by G sizes, without neighbors, where the curves hold.

    Sizes are thousandths of a CPU, ascending; deviations, medians and variances of the logarithm.
    """

    sizes: NDArray[np.int64]
    means: Sequence[float]
    stds: Sequence[float]
    medians: Array
    variances: Array

    @classmethod
    def of(
        cls, parts: list[TargetPart], sizes: NDArray[np.int64], confidence: float
    ) -> "SizeCurve":
        """Of the parts of a target."""
        means, stds = normalized_over(parts, sizes.tolist(), confidence)
        medians = np.array([log(mean) for mean in means])
        return cls(sizes, means, stds, medians, np.array([std**2 for std in stds]))

    def at(self, cpu_millicpus: int) -> Estimate:
        """With one of the sizes."""
        at = int(self.sizes.searchsorted(cpu_millicpus))
        return Estimate(self.means[at], self.stds[at])

    def best(self) -> Estimate:
        """The most that any size gives."""
        mean, std = max(zip(self.means, self.stds, strict=True), key=itemgetter(0))
        return Estimate(mean, std)


@dataclass(frozen=True)
class Sizing:
    """What a target takes, server by server.

    Attributes:
        cpu_millicpus: (S,) the least that reaches the target; where nothing does, what gives the
            most of what is free, and no less than would do without neighbors; 0 where there is no
            CPU at all.
        reached: (S,) whether the target is kept with the confidence.
        kept: The logarithm of the least performance over target that keeps it.
        drop: What neighbors and the platform take off its logarithm.
        correctable: The part of it that is no part of the performance alone; ``None`` = no part.
        kept_at_best: Works out ``best_probability``.
        surest: Probability beyond which servers are not told apart.
    """

    cpu_millicpus: NDArray[np.int64]
    reached: NDArray[np.bool_]
    parts: list[TargetPart]
    curve: SizeCurve
    drop: LogEstimates
    correctable: LogEstimates | None
    confidence: float
    kept: float
    kept_at_best: Callable[[], float] = field(repr=False)
    surest: float = 1.0

    @cached_property
    def best_probability(self) -> float:
        """That the target is kept alone on the best server, empty, had it not waited."""
        return self.kept_at_best()

    def normalized_on(self, row: int) -> Estimate:
        """Performance over the target on one server, with what it would be given there."""
        return worse_by(self.curve.at(int(self.cpu_millicpus[row])), *_at(self.drop, row))

    def kept_probability(self, normalized: Estimate) -> float:
        """That the target is kept with this performance."""
        return reached_probability(normalized, exp(self.kept))

    def kept_probabilities(self, does: LogEstimates) -> Array:
        """(S,) the same on each, at most the larger confidence: those that are sure are alike.

        ``does`` is its ``performance``.
        """
        std = np.sqrt(does.variance + LEAST_STD**2)
        kept = np.minimum(normal_below((does.mean - self.kept) / std), self.surest)
        return np.where(self.reached, np.maximum(kept, self.confidence), kept)

    def prediction_on(self, row: int, target: Target | None, cpu_millicpus: int) -> Prediction:
        """On one server, as ``prediction_beside``."""
        cpu, by_neighbors = int(self.cpu_millicpus[row]), None
        if self.correctable is not None:
            by_neighbors = _at(self.correctable, row)
        given = self.parts, self.confidence, self.curve.at(cpu), cpu
        stated = target, cpu_millicpus
        return prediction_beside(*given, _at(self.drop, row), by_neighbors, stated)

    def performance(self) -> LogEstimates:
        """Over the target on each server, with what it would be given there."""
        at = np.searchsorted(self.curve.sizes, self.cpu_millicpus)
        at = np.minimum(at, len(self.curve.sizes) - 1)
        mean = self.curve.medians[at] - self.drop.mean
        return LogEstimates(mean, self.curve.variances[at] + self.drop.variance)


def _at(estimates: LogEstimates, row: int) -> tuple[float, float]:
    return float(estimates.mean[row]), float(estimates.variance[row])


def bounds(normalized: Estimate, confidence: float) -> tuple[float, float]:
    """What is reached, and what is not exceeded, with the confidence."""
    half = quantile(confidence) * normalized.std
    return normalized.mean * exp(-half), normalized.mean * exp(half)


def prediction(normalized: Estimate, confidence: float) -> Prediction:
    """An estimate of performance over target as a decision keeps it."""
    return Prediction(normalized.mean, *bounds(normalized, confidence), confidence)


def prediction_beside(
    parts: list[TargetPart],
    confidence: float,
    alone: Estimate,
    cpu_millicpus: int,
    drop: tuple[float, float],
    correctable: tuple[float, float] | None,
    stated: tuple[Target | None, int],
) -> Prediction:
    """Performance over target on one server, and in the target's own terms.

    Args:
        parts: Of the target.
        confidence: Of each bound.
        alone: With so much CPU, where its curves hold.
        cpu_millicpus: What it would be given.
        drop: What neighbors and the platform take off the logarithm, with its variance.
        correctable: The part of it that is no part of the performance alone; ``None`` = no part.
        stated: The target and the CPU for which the prediction says that it is made.
    """
    terms = performance_with(parts, cpu_millicpus, *drop, confidence)
    there, mean, std = worse_by(alone, *drop), None, 0.0
    if correctable is not None:
        by_neighbors, its_variance = correctable
        variance = max(drop[1] - its_variance, 0.0)
        without = worse_by(alone, drop[0] - by_neighbors, variance)
        mean, std = without.mean, without.std
    low, high = bounds(there, confidence)
    return Prediction(there.mean, low, high, confidence, terms, mean, std, *stated)


def starts_cold(request: Request) -> bool:
    """Whether it has a target and nothing was measured of it, and something is known of platforms.

    How high its target is nobody knows: it is taken for what its best platform gives.
    """
    known = request.classification
    if known is None or request.workload.target is None:
        return False
    return bool(known.platforms) and not known.curves


def cold_start(request: Request, view: View, contention: Assessment) -> LogEstimates | None:
    """(S,) performance over target with what is stated; ``None`` = more is known, or less."""
    known = request.classification
    if known is None or not starts_cold(request):
        return None
    (drop, variance), suffered = slower(known, view.platforms), contention.suffered
    mean = -drop[view.platform] - suffered.mean
    return LogEstimates(mean, variance[view.platform] + suffered.variance)


def kept_probabilities(does: LogEstimates, tolerance: float) -> Array:
    """(S,) that it keeps its target with such a performance over it."""
    kept = log(max(1 - tolerance, LEAST_KEPT))
    return normal_below((does.mean - kept) / np.sqrt(does.variance + LEAST_STD**2))


def size(
    request: Request,
    view: View,
    contention: Assessment,
    settings: SizingSettings = DEFAULT,
    most_out: Estimate = ALONE,
) -> Sizing | None:
    """The least CPU on each server beside its residents; ``None`` = nothing can be predicted.

    ``most_out`` is the most that several servers give over one, for what is out of reach.
    """
    classification = request.classification
    if classification is None or not len(view.names):
        return None
    period = view.capabilities.quota_period_seconds
    offered = request.off_target.offered_per_second if request.off_target else None
    parts = parts_of(request.workload, classification, request.waited_seconds, period, offered)
    fractional = view.capabilities.fractional_cpu
    grid = sizes(int(view.cpu_capacity.max()), fractional=fractional, settings=settings)
    if not parts or not grid.size:
        return None
    curve = SizeCurve.of(parts, grid, settings.confidence)
    at_once = parts_of(request.workload, classification, 0.0, period, offered)
    platforms = _ByPlatform.of(classification, view, grid)
    suffered = contention.suffered
    kept = log(max(1 - request.workload.tolerance, LEAST_KEPT))
    beyond = LogEstimates(suffered.mean + kept, suffered.variance)
    chosen, reached = _enough(curve, platforms, beyond, settings.confidence, view)
    if not reached.all():
        eased, within = curve, np.searchsorted(grid, view.cpu_capacity, side="right")
        if not (curve.medians >= kept).any():
            eased = SizeCurve.of(at_once, grid, settings.confidence)
        reserved = request.reserved(view.capabilities).cpu_millicpus
        able = np.flatnonzero(eased.medians >= kept)
        least = int(grid[min(int(grid.searchsorted(reserved)), len(grid) - 1)])
        if able.size:
            least = int(grid[int(grid.searchsorted(LEAST_GIVEN * grid[able[0]]))])
        most = _most_useful(curve, within, settings.plateau)
        if not request.workload.reservation.elastic_cpu:
            least, stated = min(least, reserved), _stated(grid, reserved, within)
            # More than is stated would be what others wait for, and keeps few targets more.
            most = np.maximum(most, stated) if _is_idle(view, settings) else stated
        chosen = np.where(reached, chosen, _most_that_fits(grid, least, most, view))
    if settings.idle_confidence > settings.confidence and _is_idle(view, settings):
        surer, sure = _enough(curve, platforms, beyond, settings.idle_confidence, view)
        if not sure.all():
            within = np.searchsorted(grid, view.cpu_capacity, side="right")
            surer = np.where(sure, surer, _most_useful(curve, within, settings.plateau))
        free = view.cpu_capacity - view.cpu_allocated
        chosen = np.where(reached & (surer <= free), np.maximum(chosen, surer), chosen)
    drop = platforms.beside(suffered, chosen)
    correctable, confidence = contention.correctable, settings.confidence
    surest = max(confidence, settings.idle_confidence)
    known = at_once, platforms, request.allowed
    best_alone = partial(_kept_at_best, *known, settings, most_out, kept)
    return Sizing(
        chosen, reached, parts, curve, drop, correctable, confidence, kept, best_alone, surest
    )


def _kept_at_best(
    parts: list[TargetPart],
    by_platform: "_ByPlatform",
    allowed: NDArray[np.uint8] | None,
    settings: SizingSettings,
    most_out: Estimate,
    kept: float,
) -> float:
    """Probability that a target is kept alone on the fastest platform of the allowed servers.

    The largest size is mostly the best: where it will do, one look is enough.
    """
    probability, best = 0.0, by_platform.fastest(allowed)
    for at in reversed(range(len(by_platform.sizes))):
        slower_by, its_variance = best(at)
        alone = normalized_with(parts, int(by_platform.sizes[at]), settings.confidence)
        alone = worse_by(alone, slower_by - log(most_out.mean), its_variance + most_out.std**2)
        probability = max(probability, reached_probability(alone, exp(kept)))
        if probability >= settings.hopeless:
            break
    return probability


def _is_idle(view: View, settings: SizingSettings) -> bool:
    """Whether so little CPU is allocated that nobody lacks it."""
    return bool(view.cpu_allocated.sum() <= settings.idle_below * view.cpu_capacity.sum())


@dataclass(frozen=True, slots=True)
class _ByPlatform:
    """What each server's platform takes off the logarithm of performance, by size.

    ``drop`` and ``variance`` are (P, G), or (P, 1) where one number holds for any size.
    """

    sizes: NDArray[np.int64]
    platform: NDArray[np.int64]
    drop: Array
    variance: Array

    @classmethod
    def of(
        cls, classification: Classification, view: View, sizes: NDArray[np.int64]
    ) -> "_ByPlatform":
        drop, variance = slower_by_size(
            classification, tuple(view.platforms), tuple(sizes.tolist())
        )
        return cls(sizes, view.platform, drop, variance)

    def first_enough(self, curve: SizeCurve, suffered: LogEstimates, z: float) -> NDArray[np.int64]:
        """(S,) index of the least size that reaches the target; G where none does."""
        if self.drop.shape[1] == 1:
            drop = self.beside(suffered, self.sizes[:1])
            return first_enough(curve.medians, curve.variances, drop.mean, drop.variance, z)
        medians, variances = curve.medians - self.drop, curve.variances + self.variance
        return first_enough_on(
            medians, variances, self.platform, suffered.mean, suffered.variance, z
        )

    def fastest(
        self, allowed: NDArray[np.uint8] | None = None
    ) -> Callable[[int], tuple[float, float]]:
        """Of the platform that is fastest with the largest size, by the index of a size.

        ``allowed`` (S,) names the servers that count; ``None`` = all do, also where none does.
        """
        platform = self.platform
        if allowed is not None and allowed.any():
            platform = platform[allowed > 0]
        at = platform[int(self.drop[:, -1].take(platform).argmin())]
        drop, variance, last = self.drop[at], self.variance[at], self.drop.shape[1] - 1
        return lambda size: (float(drop[min(size, last)]), float(variance[min(size, last)]))

    def beside(self, suffered: LogEstimates, chosen: NDArray[np.int64]) -> LogEstimates:
        """(S,) with what neighbors take, with the size that was chosen for each server."""
        if self.drop.shape[1] == 1:
            drop, variance = (each[:, 0].take(self.platform) for each in (self.drop, self.variance))
        else:
            at = np.minimum(np.searchsorted(self.sizes, chosen), self.drop.shape[1] - 1)
            drop, variance = self.drop[self.platform, at], self.variance[self.platform, at]
        return LogEstimates(suffered.mean + drop, suffered.variance + variance)


def _enough(
    curve: SizeCurve,
    by_platform: _ByPlatform,
    beyond: LogEstimates,
    confidence: float,
    view: View,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(S,) the least that keeps the target on each server; (S,) whether it has so much."""
    first = by_platform.first_enough(curve, beyond, quantile(confidence))
    chosen = curve.sizes.take(first, mode="clip")
    return chosen, (first < len(curve.sizes)) & (chosen <= view.cpu_capacity)


def _most_useful(curve: SizeCurve, within: NDArray[np.int64], plateau: float) -> NDArray[np.int64]:
    """(S,) what gives nearly the most of the first ``within`` sizes; 0 where there is none."""
    best = np.maximum.accumulate(curve.medians)
    first = best.searchsorted(best + log(plateau))
    return np.where(within > 0, curve.sizes[first[within - 1]], 0)


def _stated(grid: NDArray[np.int64], cpu: int, within: NDArray[np.int64]) -> NDArray[np.int64]:
    """(S,) what its user states, as far as each server has it.

    A curve that was measured at two sizes may level off too early, and where no size is sure to
    keep the target, it is only the curve that calls the rest of what is stated useless.
    """
    at = np.minimum(int(grid.searchsorted(cpu)), within - 1)
    return np.where(within > 0, grid[np.maximum(at, 0)], 0)


def _most_that_fits(
    grid: NDArray[np.int64], least: int, most: NDArray[np.int64], view: View
) -> NDArray[np.int64]:
    """(S,) what to give where no allocation is sure to keep the target: it does not wait for more.

    What gives the most of what is free, but no less than ``least``: what the target takes without
    neighbors or, where nothing is enough, what is reserved. ``most`` (S,) caps each server.
    """
    free = np.searchsorted(grid, view.cpu_capacity - view.cpu_allocated, side="right")
    fits = np.where(free > 0, grid[np.maximum(free - 1, 0)], 0)
    return np.asarray(np.minimum(most, np.maximum(fits, least)))
