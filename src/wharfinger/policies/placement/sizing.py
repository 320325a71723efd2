"""How much CPU a target takes: the least at which it is reached with the stated confidence.

Source: Quasar 3.3: the least amount of resources that meets the target, scaling up within a server
first. The confidence is added here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
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
    worse_by,
)
from wharfinger.core.seams.contention import Array, Assessment, LogEstimates
from wharfinger.model.decisions import Prediction
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Estimate, quantile
from wharfinger.model.view import Request, View
from wharfinger.native import first_enough


@dataclass(frozen=True, slots=True)
class SizingSettings:
    """Constants of sizing.

    Attributes:
        confidence: Probability with which a target must be reached.
        step_millicpus: Candidate allocations are multiples of this.
        min_step: Smallest relative difference between candidate allocations.
        plateau: Share of the best performance above which no more CPU is given.
        hopeless: A target with a lower probability even on a whole server is too high.
    """

    confidence: float = 0.8
    step_millicpus: int = 50
    min_step: float = 0.025
    plateau: float = 0.98
    hopeless: float = 0.05


DEFAULT = SizingSettings()


def sizes(
    largest_millicpus: int, *, fractional: bool, settings: SizingSettings = DEFAULT
) -> NDArray[np.int64]:
    """Candidate allocations, ascending, fine where little is needed; empty where no step fits.

    >>> sizes(4000, fractional=False).tolist(), sizes(49, fractional=True).tolist()
    ([1000, 2000, 3000, 4000], [])
    """
    step = settings.step_millicpus if fractional else MILLICPUS_PER_CPU
    return np.array(_sizes(largest_millicpus, step, settings.min_step), dtype=np.int64)


@lru_cache(maxsize=64)
def _sizes(largest_millicpus: int, step: int, min_step: float) -> tuple[int, ...]:
    largest = largest_millicpus // step * step
    smaller: list[int] = []
    size = step
    while size < largest:
        smaller.append(size)
        size = max(size + step, -(-round(size * (1 + min_step)) // step) * step)
    return (*smaller, largest) if largest else ()


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


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a target takes, server by server.

    Attributes:
        cpu_millicpus: (S,) the least that reaches the target; where nothing does, what gives the
            most of what is free, and no less than would do without neighbors; 0 where there is no
            CPU at all.
        reached: (S,) whether the target is reached with the confidence.
        drop: What neighbors and the platform take off its logarithm.
        correctable: The part of it that is no part of the performance alone; ``None`` = no part.
        hopeless: Out of reach from submission on, even alone on the largest server; one that has
            only waited too long is not.
    """

    cpu_millicpus: NDArray[np.int64]
    reached: NDArray[np.bool_]
    parts: list[TargetPart]
    curve: SizeCurve
    drop: LogEstimates
    correctable: LogEstimates | None
    confidence: float
    hopeless: bool

    def interval_on(self, row: int) -> Prediction:
        """Over the target on one server, with what it would be given there."""
        normalized = worse_by(self.curve.at(int(self.cpu_millicpus[row])), *_at(self.drop, row))
        return prediction(normalized, self.confidence)

    def prediction_on(self, row: int) -> Prediction:
        """The same in the target's own terms, too, and alone."""
        cpu, (drop, variance) = int(self.cpu_millicpus[row]), _at(self.drop, row)
        terms = performance_with(self.parts, cpu, drop, variance, self.confidence)
        beside = replace(self.interval_on(row), performance=terms)
        if self.correctable is None:
            return beside
        by_neighbors, its_variance = _at(self.correctable, row)
        variance = max(variance - its_variance, 0.0)
        alone = worse_by(self.curve.at(cpu), drop - by_neighbors, variance)
        return replace(beside, alone=alone.mean, alone_std=alone.std)

    def performance(self) -> LogEstimates:
        """Over the target on each server, with what it would be given there."""
        at = np.searchsorted(self.curve.sizes, self.cpu_millicpus)
        at = np.minimum(at, len(self.curve.sizes) - 1)
        mean = self.curve.medians[at] - self.drop.mean
        return LogEstimates(mean, self.curve.variances[at] + self.drop.variance)


def _at(estimates: LogEstimates, row: int) -> tuple[float, float]:
    return float(estimates.mean[row]), float(estimates.variance[row])


def prediction(normalized: Estimate, confidence: float) -> Prediction:
    """An estimate of performance over target as a decision keeps it."""
    half = quantile(confidence) * normalized.std
    return Prediction(
        normalized.mean, normalized.mean * exp(-half), normalized.mean * exp(half), confidence
    )


def size(
    request: Request,
    view: View,
    contention: Assessment,
    settings: SizingSettings = DEFAULT,
) -> Sizing | None:
    """The least CPU on each server beside its residents; ``None`` = nothing can be predicted."""
    classification = request.classification
    if classification is None or not len(view.names):
        return None
    parts = parts_of(request.workload, classification, request.waited_seconds)
    fractional = view.capabilities.fractional_cpu
    grid = sizes(int(view.cpu_capacity.max()), fractional=fractional, settings=settings)
    if not parts or not grid.size:
        return None
    curve = SizeCurve.of(parts, grid, settings.confidence)
    at_once = parts_of(request.workload, classification, 0.0)
    platform_drop, platform_variance = slower(classification, view.platforms)
    slower_by = platform_drop.take(view.platform)
    fastest = view.platform[int(slower_by.argmin())]
    best = float(platform_drop[fastest]), float(platform_variance[fastest])
    suffered = contention.suffered
    drop = LogEstimates(
        suffered.mean + slower_by, suffered.variance + platform_variance.take(view.platform)
    )
    z = quantile(settings.confidence)
    first = first_enough(curve.medians, curve.variances, drop.mean, drop.variance, z)
    chosen = grid.take(first, mode="clip")
    reached = (first < len(grid)) & (chosen <= view.cpu_capacity)
    if not reached.all():
        eased, within = curve, np.searchsorted(grid, view.cpu_capacity, side="right")
        if not (curve.medians >= 0).any():
            eased = SizeCurve.of(at_once, grid, settings.confidence)
        most = _most_useful(curve, within, settings.plateau)
        chosen = np.where(reached, chosen, _most_that_fits(eased.medians, grid, most, view))
    # Whether no size on the fastest platform will do. The largest is mostly the best: where there
    # is hope, one look is enough.
    alone = (
        worse_by(normalized_with(at_once, cpu, settings.confidence), *best)
        for cpu in reversed(grid.tolist())
    )
    hopeless = all(reached_probability(normalized) < settings.hopeless for normalized in alone)
    correctable, sure = contention.correctable, settings.confidence
    return Sizing(chosen, reached, parts, curve, drop, correctable, sure, hopeless)


def _most_useful(curve: SizeCurve, within: NDArray[np.int64], plateau: float) -> NDArray[np.int64]:
    """(S,) what gives nearly the most of the first ``within`` sizes; 0 where there is none."""
    most = np.zeros(len(curve.sizes) + 1, dtype=np.int64)
    for count in np.unique(within[within > 0]).tolist():
        enough = curve.medians[:count].max() + log(plateau)
        most[count] = curve.sizes[np.flatnonzero(curve.medians[:count] >= enough)[0]]
    return np.asarray(most[within])


def _most_that_fits(
    medians: NDArray[np.float64],
    grid: NDArray[np.int64],
    most: NDArray[np.int64],
    view: View,
) -> NDArray[np.int64]:
    """(S,) what to give where no allocation reaches the target: it does not wait for more.

    What gives the most of what is free, but no less than the target takes without neighbors.
    ``medians`` (G,) are logarithms of performance over target by size; ``most`` (S,) caps each
    server.
    """
    if not (medians >= 0).any():
        return most
    least = grid[np.flatnonzero(medians >= 0)[0]]
    free = np.searchsorted(grid, view.cpu_capacity - view.cpu_allocated, side="right")
    fits = np.where(free > 0, grid[np.maximum(free - 1, 0)], 0)
    return np.asarray(np.minimum(most, np.maximum(fits, least)))
