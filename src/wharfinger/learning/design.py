"""Which entries to measure: those after which the least is left unknown, or the best is found.

Both need nothing but a Gaussian over the row (any recommender's prediction is one).
"""

from dataclasses import dataclass
from math import erf, exp, pi, sqrt

import numpy as np

from wharfinger.learning.conditional import LEAST_VARIANCE, RIDGE
from wharfinger.learning.matrix import Array
from wharfinger.learning.tasks import Indices


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One entry worth measuring.

    Attributes:
        column: Its index.
        std_before: Mean standard deviation over the row, transformed scale.
        std_after: The same once the entry (and those suggested before it) is known.
    """

    column: int
    std_before: float
    std_after: float


def reduce(covariance: Array, column: int) -> Array:
    """What is left of a covariance when one entry becomes known."""
    variance = covariance[column, column]
    if variance <= LEAST_VARIANCE:
        return covariance
    cross = covariance[:, column]
    return np.asarray(covariance - np.outer(cross, cross) / (variance * (1 + RIDGE)))


def best_column(covariance: Array, candidates: Indices) -> int:
    """The one entry that leaves the smallest total variance."""
    variances = np.maximum(covariance.diagonal()[candidates], LEAST_VARIANCE)
    gains = (covariance[:, candidates] ** 2).sum(axis=0) / variances
    return int(candidates[np.argmax(gains)])


def variance_design(covariance: Array, candidates: Indices, size: int) -> Indices:
    """The entries that leave the least total variance: greedy, then exchanged one by one.

    Args:
        covariance: (columns, columns) before any of them is known.
        candidates: Columns that can be measured.
        size: How many to choose.

    Returns:
        (size,) columns in the order of their worth.
    """
    chosen: list[int] = []
    left = covariance
    for _ in range(min(size, len(candidates))):
        chosen.append(best_column(left, np.setdiff1d(candidates, chosen)))
        left = reduce(left, chosen[-1])
    for _ in range(size):
        exchanged = _exchange(covariance, candidates, chosen)
        if exchanged == chosen:
            break
        chosen = exchanged
    return np.array(chosen, dtype=np.intp)


def _exchange(covariance: Array, candidates: Indices, chosen: list[int]) -> list[int]:
    """Each choice once more, given the others; kept unless another is truly better."""
    chosen = list(chosen)
    for place, old in enumerate(chosen):
        others = chosen[:place] + chosen[place + 1 :]
        left = covariance
        for column in others:
            left = reduce(left, column)
        new = best_column(left, np.setdiff1d(candidates, others))
        if reduce(left, new).trace() < reduce(left, old).trace() * (1 - 1e-9):
            chosen[place] = new
    return chosen


def suggest(covariance: Array, candidates: Indices, size: int) -> list[Suggestion]:
    """What to measure next in this row, in order, and what that is worth."""
    out = []
    for column in variance_design(covariance, candidates, size):
        before = _mean_std(covariance)
        covariance = reduce(covariance, int(column))
        out.append(Suggestion(int(column), before, _mean_std(covariance)))
    return out


def _mean_std(covariance: Array) -> float:
    return float(np.sqrt(np.clip(covariance.diagonal(), 0, None)).mean())


def most_improving(mean: Array, std: Array, best: float, candidates: Indices) -> int:
    """The entry of the greatest expected improvement on the best known (lower is better).

    EI = s (z Φ(z) + φ(z)), z = (best − mean) / s (Jones, Schonlau, Welch, "Efficient global
    optimization of expensive black-box functions", 1998, equation 15).
    """
    worth = [_improvement(best - mean[j], max(float(std[j]), 1e-12)) for j in candidates]
    return int(candidates[int(np.argmax(worth))])


def _improvement(margin: float, std: float) -> float:
    z = margin / std
    below = 0.5 * (1 + erf(z / sqrt(2)))
    return std * (z * below + exp(-0.5 * z * z) / sqrt(2 * pi))
