"""Which entries to measure: those after which the least is left unknown, or the best is found.

Both need nothing but a Gaussian over the row (any recommender's prediction is one). Where entries
take different times to measure, what counts is the gain per second of profiling.
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

    ``ENOUGH``: the row is known as well as was asked for. ``SIZE``: as many were chosen as were
    asked for. ``BUDGET``: no entry that is left fits what is left of the budget. ``NOTHING_LEFT``:
    every candidate was chosen. ``IMPROVEMENT``: too little is to be gained on the best known.
    ``CONFIDENT``: the best known is near enough to the best there is.
    """

    ENOUGH = "enough"
    SIZE = "size"
    BUDGET = "budget"
    NOTHING_LEFT = "nothing-left"
    IMPROVEMENT = "improvement"
    CONFIDENT = "confident"


@dataclass(frozen=True, slots=True, eq=False)
class DesignLimits:
    """What measuring takes, and how much of it is to be done.

    Attributes:
        seconds: (columns,) that measuring each entry takes; ``None`` = all alike, one each.
        budget_seconds: That all of them may take.
        enough: Mean standard deviation over the row, transformed scale, at which to end.

    Raises:
        InvalidInput: A number of seconds is not above 0, or ``enough`` is below it.

    >>> DesignLimits(np.array([1.0, 0.0]))
    Traceback (most recent call last):
    wharfinger.errors.InvalidInput: seconds of measuring: 0; write numbers above 0
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

    def costs(self, columns: int) -> Array:
        """(columns,) seconds."""
        return np.ones(columns) if self.seconds is None else self.seconds


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One entry worth measuring.

    Attributes:
        column: Its index.
        std_before: Mean standard deviation over the row, transformed scale.
        std_after: The same once the entry (and those suggested before it) is known.
        gain: Of the row's total variance, what goes.
        seconds: That measuring it takes.
    """

    column: int
    std_before: float
    std_after: float
    gain: float
    seconds: float

    @property
    def gain_per_second(self) -> float:
        """Variance that goes for each second of measuring."""
        return self.gain / self.seconds


@dataclass(frozen=True, slots=True)
class Design:
    """What to measure, in order.

    Attributes:
        suggestions: The next one first.
        std: Mean standard deviation over the row that is left afterwards, transformed scale.
        seconds: That measuring all of them takes.
        stopped: Why there are no more.
    """

    suggestions: tuple[Suggestion, ...]
    std: float
    seconds: float
    stopped: Stop

    @property
    def columns(self) -> Indices:
        """(suggestions,) indices."""
        return np.array([each.column for each in self.suggestions], dtype=np.intp)


def reduce(covariance: Array, column: int) -> Array:
    """What is left of a covariance when one entry becomes known."""
    variance = covariance[column, column]
    if variance <= MIN_VARIANCE:
        return covariance
    cross = covariance[:, column]
    return np.asarray(covariance - np.outer(cross, cross) / (variance * (1 + RIDGE)))


def best_column(covariance: Array, candidates: Indices, seconds: Array | None = None) -> int:
    """The one entry by which most variance goes; for each of its ``seconds`` where given."""
    variances = np.maximum(covariance.diagonal()[candidates], MIN_VARIANCE)
    gains = (covariance[:, candidates] ** 2).sum(axis=0) / variances
    return int(candidates[np.argmax(gains if seconds is None else gains / seconds[candidates])])


def variance_design(covariance: Array, candidates: Indices, size: int) -> Indices:
    """The entries that leave the least total variance, in the order of their worth."""
    return design(covariance, candidates, size).columns


def design(
    covariance: Array, candidates: Indices, size: int, limits: DesignLimits | None = None
) -> Design:
    """The entries that leave the least total variance for what measuring them takes.

    Greedy by gain per second, then exchanged one by one for no more than the budget (without one,
    for no more than the greedy choice takes). A greedy choice by rate may spend a budget on what
    is cheap and hardly tells, so with a budget, or a doubt that is enough, the greedy one that
    ignores cost is tried beside it and the better is kept (Khuller, Moss and Naor, "The budgeted
    maximum coverage problem", 1999; for measurements Leskovec et al., "Cost-effective outbreak
    detection in networks", 2007, section 3.1). Of those that reach what is enough the cheapest
    is the better, otherwise what leaves the least variance.

    Args:
        covariance: (columns, columns) before any of them is known.
        candidates: Columns that can be measured.
        size: How many to choose at most.
        limits: What measuring takes, and when to end; ``None`` = all take the same, without end.
    """
    limits = limits or DesignLimits()
    seconds = limits.costs(len(covariance))
    search = _Search(covariance, candidates, size, seconds, limits)
    found = search.choices(seconds)
    if isfinite(limits.budget_seconds) or limits.enough > 0:
        others = search.choices(np.ones(len(covariance)))
        # Without a budget, what ignores cost is no better for leaving less: it has paid for that.
        found += [each for each in others if isfinite(limits.budget_seconds) or search.ends(each)]
    best = min(found, key=search.rank)
    kept = replace(search, candidates=np.array(best, dtype=np.intp))
    return search.told(kept.greedy(seconds))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """What is looked for; a choice is a list of columns."""

    covariance: Array
    candidates: Indices
    size: int
    seconds: Array
    limits: DesignLimits

    def choices(self, rates: Array) -> list[list[int]]:
        """The greedy one by gain over ``rates``, and what exchanging makes of it."""
        greedy = self.greedy(rates)
        budget = self.limits.budget_seconds
        if not isfinite(budget):
            budget = self._cost(greedy)
        chosen = greedy
        for _ in range(len(greedy)):
            # What is exchanged may be cheaper, and leave room for one more.
            exchanged = self._exchange(chosen, budget * (1 + SAME))
            before, chosen = chosen, self.greedy(rates, exchanged)
            if before == chosen:
                break
        return [greedy, chosen]

    def greedy(self, rates: Array, begun: Sequence[int] = ()) -> list[int]:
        """One after the other, until it is enough or the budget is spent."""
        chosen = list(begun)
        left, budget = after(self.covariance, chosen), self.limits.budget_seconds * (1 + SAME)
        while len(chosen) < self.size and not self._is_enough(left):
            rest = self._affordable(chosen, budget)
            if not rest.size:
                break
            chosen.append(best_column(left, rest, rates))
            left = reduce(left, chosen[-1])
        return chosen

    def _exchange(self, chosen: list[int], budget: float) -> list[int]:
        """Each choice once more, given the others; kept unless another is truly better."""
        chosen = list(chosen)
        for place, old in enumerate(chosen):
            others = chosen[:place] + chosen[place + 1 :]
            left = after(self.covariance, others)
            new = best_column(left, self._affordable(others, budget))
            if reduce(left, new).trace() < reduce(left, old).trace() * (1 - SAME):
                chosen[place] = new
        return chosen

    def _affordable(self, chosen: list[int], budget: float) -> Indices:
        rest = np.setdiff1d(self.candidates, chosen)
        return rest[self.seconds[rest] <= budget - self._cost(chosen)]

    def _cost(self, chosen: list[int]) -> float:
        return float(self.seconds[chosen].sum())

    def _is_enough(self, left: Array) -> bool:
        return self.limits.enough > 0 and mean_std(left) <= self.limits.enough

    def ends(self, chosen: list[int]) -> bool:
        """Whether it leaves no more doubt than is enough."""
        return self._is_enough(after(self.covariance, chosen))

    def rank(self, chosen: list[int]) -> tuple[bool, float, float]:
        """The best is the least."""
        left = after(self.covariance, chosen)
        enough = self._is_enough(left)
        return not enough, self._cost(chosen) if enough else 0.0, float(left.trace())

    def told(self, chosen: list[int]) -> Design:
        """With what each is worth, and why there are no more."""
        suggestions, left = [], self.covariance
        for column in chosen:
            then = reduce(left, column)
            gain, cost = float(left.trace() - then.trace()), float(self.seconds[column])
            suggestions.append(Suggestion(column, mean_std(left), mean_std(then), gain, cost))
            left = then
        if self._is_enough(left):
            stopped = Stop.ENOUGH
        elif len(chosen) >= self.size:
            stopped = Stop.SIZE
        else:
            stopped = Stop.BUDGET if len(chosen) < len(self.candidates) else Stop.NOTHING_LEFT
        return Design(tuple(suggestions), mean_std(left), self._cost(chosen), stopped)


def after(covariance: Array, columns: Sequence[int]) -> Array:
    """What is left of a covariance when these entries become known."""
    for column in columns:
        covariance = reduce(covariance, column)
    return covariance


def mean_std(covariance: Array) -> float:
    """Mean standard deviation over the row."""
    return float(np.sqrt(np.clip(covariance.diagonal(), 0, None)).mean())


# --- the best of them ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Satisfied:
    """When looking for the best is to end.

    Attributes:
        least_improvement: Where less than this share of the best known is to be expected: 0.01
            is 1%; 0 = never.
        near: How far the best known may be from the best there is: 0.05 is 5%.
        confidence: Where it is so near with at least this probability; 1 = never.
    """

    least_improvement: float = 0.0
    near: float = 0.05
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Improvement:
    """What to measure next in search of the best, or why no more.

    Attributes:
        column: To measure next; ``None`` = nothing.
        expected: The greatest expected improvement on the best known, in logarithms.
        confidence: The best known is as near to the best there is as ``Satisfied.near`` says,
            with at least this probability.
        stopped: Why nothing more is to be measured; ``None`` = something is.
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
    """The entry of the greatest expected improvement, per second where they differ, or the end.

    Args:
        mean: (columns,) of the prediction, in logarithms, lower is better.
        std: (columns,) of the same.
        best: The best known.
        candidates: Columns that can be measured yet.
        seconds: (columns,) that measuring each takes.
        satisfied: When to end; ``None`` = not while there are candidates.

    >>> mean, std = np.array([0.0, 0.1, 2.0]), np.array([0.0, 0.02, 0.02])
    >>> found = next_improvement(mean, std, 0.0, np.array([1, 2]), None, Satisfied(0.01))
    >>> str(found.stopped), found.expected < 0.01
    ('improvement', True)
    """
    satisfied = satisfied or Satisfied()
    sure = confidence_near(mean, std, best, candidates, satisfied.near)
    if not len(candidates):
        return Improvement(None, 0.0, sure, Stop.NOTHING_LEFT)
    expected = float(max(_improvement(best - mean[j], float(std[j])) for j in candidates))
    stopped = None
    if expected < log1p(satisfied.least_improvement):
        stopped = Stop.IMPROVEMENT
    elif sure > satisfied.confidence:
        stopped = Stop.CONFIDENT
    column = most_improving(mean, std, best, candidates, seconds) if stopped is None else None
    return Improvement(column, expected, sure, stopped)


def confidence_near(
    mean: Array, std: Array, best: float, candidates: Indices, near: float
) -> float:
    """At least with which probability no candidate is better by more than this share.

    1 − Σ P(x_j < best − log(1 + near)): Boole's inequality, so true whatever the correlations.
    """
    limit = best - log1p(near)
    misses = sum(_below((limit - mean[j]) / max(float(std[j]), MIN_STD)) for j in candidates)
    return max(0.0, 1.0 - misses)


def most_improving(
    mean: Array, std: Array, best: float, candidates: Indices, seconds: Array | None = None
) -> int:
    """The entry of the greatest expected improvement on the best known (lower is better).

    EI = s (z Φ(z) + φ(z)), z = (best − mean) / s (Jones, Schonlau, Welch, "Efficient global
    optimization of expensive black-box functions", 1998, equation 15). Where ``seconds`` are
    given, for each of them (Snoek, Larochelle, Adams, "Practical Bayesian optimization of machine
    learning algorithms", 2012, section 3.2).
    """
    worth = np.array([_improvement(best - mean[j], float(std[j])) for j in candidates])
    return int(
        candidates[int(np.argmax(worth if seconds is None else worth / seconds[candidates]))]
    )


def _improvement(margin: float, std: float) -> float:
    std = max(std, MIN_STD)
    z = margin / std
    return std * (z * _below(z) + exp(-0.5 * z * z) / sqrt(2 * pi))


def _below(z: float) -> float:
    """Φ."""
    return 0.5 * (1 + erf(z / sqrt(2)))
