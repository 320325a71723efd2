"""Which entries to measure: to leave the least variance, or to find the best entry.

Both need only a Gaussian over the row (any recommender's prediction is one). Where entries take
different times to measure, what counts is the gain per second of profiling.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import erf, exp, inf, isfinite, log1p, pi, sqrt

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.conditional import MIN_VARIANCE, RIDGE
from wharfinger.estimators.tasks import Indices
from wharfinger.model.arrays import Array

SAME = 1e-9
"""Costs and variances that differ by this share of themselves are equal."""
MIN_STD = 1e-12


class Stop(StrEnum):
    """Why no further entry is to be measured.

    ``ENOUGH``: the row is known as well as required. ``SIZE``: the limit of entries is reached.
    ``BUDGET``: no remaining entry fits the remaining budget. ``NOTHING_LEFT``: every candidate was
    chosen. ``IMPROVEMENT``: the expected improvement on the best known is too small.
    ``CONFIDENT``: the best known is near enough to the best of all.
    """

    ENOUGH = "enough"
    SIZE = "size"
    BUDGET = "budget"
    NOTHING_LEFT = "nothing-left"
    IMPROVEMENT = "improvement"
    CONFIDENT = "confident"


@dataclass(frozen=True, slots=True, eq=False)
class DesignLimits:
    """The cost of measuring, and when to stop.

    Attributes:
        seconds: (columns,) that measuring each entry takes; ``None`` = one each.
        budget_seconds: For all of them.
        enough: Mean standard deviation over the row, transformed scale, at which to stop.

    Raises:
        InvalidInput: A number of seconds is not above 0, or ``enough`` is below it.
    """

    seconds: Array | None = None
    budget_seconds: float = inf
    enough: float = 0.0

    def __post_init__(self) -> None:
        for each in () if self.seconds is None else self.seconds:
            if not (isfinite(each) and each > 0):
                raise InvalidInput(f"seconds of measuring: {each:g}; write numbers above 0")
        if not self.budget_seconds > 0:
            raise InvalidInput(f"budget: {self.budget_seconds:g}; write seconds above 0")
        if not self.enough >= 0:
            raise InvalidInput(f"enough: {self.enough:g}; write a standard deviation from 0")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One entry worth measuring, and how much its ``seconds`` decrease the row's total variance.

    ``std_before`` and ``std_after`` are means over the row, transformed scale, without and with the
    entry, given those suggested before it.
    """

    column: int
    std_before: float
    std_after: float
    gain: float
    seconds: float

    @property
    def gain_per_second(self) -> float:
        """Decrease of variance for each second of measuring."""
        return self.gain / self.seconds


@dataclass(frozen=True, slots=True)
class Design:
    """What to measure, the next entry first, and in how many seconds altogether.

    ``std`` is the mean standard deviation over the row afterwards, transformed scale.
    """

    suggestions: tuple[Suggestion, ...]
    std: float
    seconds: float
    stopped: Stop

    @property
    def columns(self) -> Indices:
        """(suggestions,) indices."""
        return np.array([each.column for each in self.suggestions], dtype=np.intp)


def reduce(covariance: Array, *columns: int) -> Array:
    """The covariance once these entries are known."""
    for column in columns:
        variance = covariance[column, column]
        if variance > MIN_VARIANCE:
            cross = covariance[:, column]
            told = np.outer(cross, cross)
            told /= variance * (1 + RIDGE)
            covariance = np.subtract(covariance, told, out=told)
    return covariance


def best_column(covariance: Array, candidates: Indices, seconds: Array | None = None) -> int:
    """The entry that removes most variance, per its ``seconds`` where given."""
    variances = np.maximum(covariance.diagonal()[candidates], MIN_VARIANCE)
    gains = (covariance[:, candidates] ** 2).sum(axis=0) / variances
    return int(candidates[np.argmax(gains if seconds is None else gains / seconds[candidates])])


def variance_design(covariance: Array, candidates: Indices, size: int) -> Indices:
    """The entries that leave the least total variance, best first."""
    return design(covariance, candidates, size).columns


def design(
    covariance: Array, candidates: Indices, size: int, limits: DesignLimits | None = None
) -> Design:
    """The entries that leave the least total variance for the time that measuring them takes.

    Greedy by gain per second, then exchanged one by one within the budget (without one, within
    the cost of the greedy choice). A greedy choice by rate may spend a budget on cheap entries
    that tell little, so with a budget, or with ``enough``, the greedy choice that ignores cost is
    tried as well and the better is kept (Khuller, Moss and Naor, "The budgeted maximum coverage
    problem", 1999; for measurements Leskovec et al., "Cost-effective outbreak detection in
    networks", 2007, section 3.1). Of those that reach ``enough`` the cheapest is the better,
    otherwise the one that leaves the least variance.

    Args:
        covariance: (columns, columns) before any of them is known.
        candidates: Columns that can be measured.
        size: Limit of entries.
        limits: Costs, and when to stop; ``None`` = one second each, without limit.
    """
    limits = limits or DesignLimits()
    seconds = np.ones(len(covariance)) if limits.seconds is None else limits.seconds
    search = _Search(covariance, candidates, size, seconds, limits)
    choices, budgeted = search.choices(seconds), isfinite(limits.budget_seconds)
    if budgeted or limits.enough > 0:
        others = search.choices(np.ones(len(covariance)))
        # Without a budget, a choice that ignores cost leaves less only because it costs more.
        choices += [each for each in others if budgeted or not search.rank(each)[0]]
    best = np.array(min(choices, key=search.rank), dtype=np.intp)
    return search.design(replace(search, candidates=best).greedy(seconds))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The arguments of ``design``; a choice is a list of columns."""

    covariance: Array
    candidates: Indices
    size: int
    seconds: Array
    limits: DesignLimits

    def choices(self, rates: Array) -> list[list[int]]:
        """The greedy choice by gain over ``rates``, and the same after exchanges."""
        greedy = self.greedy(rates)
        budget = self.limits.budget_seconds
        if not isfinite(budget):
            budget = self._cost(greedy)
        chosen = greedy
        for _ in range(len(greedy)):
            # An exchange may be cheaper, and leave budget for one more.
            exchanged = self._exchange(chosen, budget * (1 + SAME))
            before, chosen = chosen, self.greedy(rates, exchanged)
            if before == chosen:
                break
        return [greedy, chosen]

    def greedy(self, rates: Array, begun: Sequence[int] = ()) -> list[int]:
        """One after the other, until ``enough`` or the end of the budget."""
        chosen = list(begun)
        left, budget = reduce(self.covariance, *chosen), self.limits.budget_seconds * (1 + SAME)
        while len(chosen) < self.size and not self._is_enough(left):
            rest = self._affordable(chosen, budget)
            if not rest.size:
                break
            chosen.append(best_column(left, rest, rates))
            left = reduce(left, chosen[-1])
        return chosen

    def _exchange(self, chosen: list[int], budget: float) -> list[int]:
        """Replace each entry, given the others, if another is truly better."""
        chosen = list(chosen)
        for place, old in enumerate(chosen):
            others = chosen[:place] + chosen[place + 1 :]
            left = reduce(self.covariance, *others)
            # A choice that had to go on until it was enough may cost more than the budget.
            able = self._affordable(others, budget)
            new = best_column(left, able) if able.size else old
            if new == old:
                continue
            if reduce(left, new).trace() < reduce(left, old).trace() * (1 - SAME):
                chosen[place] = new
        return chosen

    def _affordable(self, chosen: list[int], budget: float) -> Indices:
        is_left = np.zeros(len(self.covariance), dtype=np.bool_)
        is_left[self.candidates] = True
        is_left[chosen] = False
        rest = np.flatnonzero(is_left)
        return rest[self.seconds[rest] <= budget - self._cost(chosen)]

    def _cost(self, chosen: list[int]) -> float:
        return float(self.seconds[chosen].sum())

    def _is_enough(self, left: Array) -> bool:
        return self.limits.enough > 0 and _mean_std(left) <= self.limits.enough

    def rank(self, chosen: list[int]) -> tuple[bool, float, float]:
        """Sorts the best choice first; the first item is false if it reaches ``enough``."""
        left = reduce(self.covariance, *chosen)
        enough = self._is_enough(left)
        return not enough, self._cost(chosen) if enough else 0.0, float(left.trace())

    def design(self, chosen: list[int]) -> Design:
        """With the gain of each entry, and why there are no more."""
        suggestions, left = [], self.covariance
        for column in chosen:
            then = reduce(left, column)
            gain, cost = float(left.trace() - then.trace()), float(self.seconds[column])
            suggestions.append(Suggestion(column, _mean_std(left), _mean_std(then), gain, cost))
            left = then
        if self._is_enough(left):
            stopped = Stop.ENOUGH
        elif len(chosen) >= self.size:
            stopped = Stop.SIZE
        else:
            stopped = Stop.BUDGET if len(chosen) < len(self.candidates) else Stop.NOTHING_LEFT
        return Design(tuple(suggestions), _mean_std(left), self._cost(chosen), stopped)


def _mean_std(covariance: Array) -> float:
    return float(np.sqrt(np.clip(covariance.diagonal(), 0, None)).mean())


# --- the best entry -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Satisfied:
    """When the search for the best entry stops.

    Attributes:
        least_improvement: Stop when the expected improvement is a smaller share of the best known:
            0.01 is 1%; 0 = never.
        near: How far the best known may be from the best of all: 0.05 is 5%.
        confidence: Stop when it is that near with more than this probability; 1 = never.
    """

    least_improvement: float = 0.0
    near: float = 0.05
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Improvement:
    """What to measure next in search of the best, or why the search stopped.

    Attributes:
        expected: The greatest expected improvement on the best known, in logarithms.
        confidence: Lower bound of the probability that the best known is within
            ``Satisfied.near`` of the best of all.
    """

    column: int | None
    expected: float
    confidence: float
    stopped: Stop | None


def next_improvement(
    mean: Array,
    std: Array,
    best: float,
    candidates: Indices,
    seconds: Array | None = None,
    satisfied: Satisfied | None = None,
) -> Improvement:
    """The entry of the greatest expected improvement on the best known, or the end of the search.

    EI = s (z Φ(z) + φ(z)), z = (best − mean) / s (Jones, Schonlau, Welch, "Efficient global
    optimization of expensive black-box functions", 1998, equation 15). Where ``seconds`` are
    given, per second (Snoek, Larochelle, Adams, "Practical Bayesian optimization of machine
    learning algorithms", 2012, section 3.2).

    Args:
        mean: (columns,) of the prediction, in logarithms, lower is better.
        std: (columns,) of the same.
        best: The best known.
        candidates: Columns that can still be measured.
        seconds: (columns,) that measuring each takes.
        satisfied: When to stop; ``None`` = not while there are candidates.

    >>> mean, std = np.array([0.0, 0.1, 2.0]), np.array([0.0, 0.02, 0.02])
    >>> step = next_improvement(mean, std, 0.0, np.array([1, 2]), None, Satisfied(0.01))
    >>> str(step.stopped), step.expected < 0.01
    ('improvement', True)
    """
    satisfied = satisfied or Satisfied()
    sure = confidence_near(mean, std, best, candidates, satisfied.near)
    if not len(candidates):
        return Improvement(None, 0.0, sure, Stop.NOTHING_LEFT)
    gains = np.array([_improvement(best - mean[j], float(std[j])) for j in candidates])
    expected = float(gains.max())
    if expected < log1p(satisfied.least_improvement):
        return Improvement(None, expected, sure, Stop.IMPROVEMENT)
    if sure > satisfied.confidence:
        return Improvement(None, expected, sure, Stop.CONFIDENT)
    rates = gains if seconds is None else gains / seconds[candidates]
    return Improvement(int(candidates[np.argmax(rates)]), expected, sure, None)


def confidence_near(
    mean: Array, std: Array, best: float, candidates: Indices, near: float
) -> float:
    """Lower bound of the probability that no candidate is better by more than the share ``near``.

    1 − Σ P(x_j < best − log(1 + near)): Boole's inequality, so it holds for any correlations.
    """
    limit = best - log1p(near)
    misses = sum(_normal_cdf((limit - mean[j]) / max(float(std[j]), MIN_STD)) for j in candidates)
    return max(0.0, 1.0 - misses)


def _improvement(margin: float, std: float) -> float:
    std = max(std, MIN_STD)
    z = margin / std
    return std * (z * _normal_cdf(z) + exp(-0.5 * z * z) / sqrt(2 * pi))


def _normal_cdf(z: float) -> float:
    return 0.5 * (1 + erf(z / sqrt(2)))
