"""Where a curve that never rises comes down to a level, with its uncertainty. Pure.

Tolerated interference is where performance crosses the tolerance, caused interference where a
source slows a probe as much as the program does: both are the intensity at which a measured curve
reaches a level. Between and around its points the curve is a smoothing spline, as a Gaussian
process: a straight line and its once integrated white noise, and Brownian motion for what is steep,
of amplitudes that fit the points. Its intervals hold what is true about as often as they say
(G. Wahba, Bayesian confidence intervals for the cross-validated smoothing spline, 1983), which
those of an isotonic fit's bootstrap do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.float64]
DRAWS = 400
GRID = 101
"""Intensities at which a drawn curve is looked at."""
_MIN_ERROR = 0.001
_SLOPE = 0.5
"""Standard deviation of the straight line's fall up to intensity 100."""
_BENDS, _STEPS = (0.1, 0.5, 2.0, 8.0), (0.0, 0.05, 0.2)
"""Amplitudes of integrated white noise and of Brownian motion, at intensity 100."""


@dataclass(frozen=True)
class CurveScore:
    """An intensity, 0 to 100.

    Attributes:
        value: Of the curve as it was measured.
        draws: Ascending; 100 where a draw does not come down so far.
        reached: Share of the draws that do.
        at_least: The curve does not come down so far: ``value`` is a bound.
    """

    value: float
    draws: tuple[float, ...] = ()
    reached: float = 1.0
    at_least: bool = False

    @cached_property
    def error(self) -> float:
        """Standard error, in points."""
        return float(np.std(self.draws)) if self.draws else 0.0

    def interval(self, confidence: float) -> tuple[float, float]:
        """Holds the true intensity with this probability; as a bound, up to 100.

        >>> CurveScore(50.0, tuple(float(x) for x in range(101))).interval(0.5)
        (25.0, 75.0)
        """
        if not self.draws:
            return self.value, 100.0 if self.at_least else self.value
        low, high = np.quantile(self.draws, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), 100.0 if self.at_least else float(high)

    def turned(self) -> "CurveScore":
        """100 less it: caused interference as published, of a tolerated one (dissertation 5.3)."""
        draws = tuple(100 - draw for draw in reversed(self.draws))
        return CurveScore(100 - self.value, draws)


@dataclass(frozen=True, slots=True)
class CrossedLevel:
    """What the curve shall come down to: a share of its beginning, or a value with an error."""

    value: float
    error: float = 0.0
    is_share: bool = False


def crossing(
    intensities: Sequence[float],
    values: Sequence[float],
    errors: Sequence[float],
    reference_error: float,
    level: CrossedLevel,
) -> CurveScore:
    """The least intensity at which the curve is so low; at intensity 0 it is 1.

    >>> line, level = ([20, 30], [0.96, 0.94], [0.001] * 2), CrossedLevel(0.95, is_share=True)
    >>> score = crossing(*line, 0.001, level)
    >>> round(score.value), score.error < 5, score.at_least
    (25, True, False)
    """
    random = np.random.default_rng(0)
    at = np.linspace(0.0, intensities[-1], GRID)
    drawn = _curves(at, intensities, values, errors, reference_error, random)
    levels = level.value + level.error * random.standard_normal(DRAWS)
    if level.is_share:
        levels = levels * drawn[:, 0]
    # The closest curve that never rises is above the level up to where this sum is largest.
    sums = np.cumsum(drawn - levels[:, None], axis=1)
    places = np.where(sums.max(axis=1) > 0, sums.argmax(axis=1) + 1, 0)
    found = (places - 0.5) * at[1]
    found = np.where(places == 0, 0.0, np.where(places == GRID, np.inf, found))
    reached = float(np.isfinite(found).mean())
    draws = tuple(np.sort(np.where(np.isfinite(found), found, 100.0)).tolist())
    if reached <= 0.5:
        return CurveScore(float(at[-1]), draws, reached, at_least=True)
    return CurveScore(float(np.median(draws)), draws, reached)


def _curves(
    at: Draws,
    intensities: Sequence[float],
    values: Sequence[float],
    errors: Sequence[float],
    reference_error: float,
    random: np.random.Generator,
) -> Draws:
    """Drawn from what the points leave possible, of each amplitude as often as it fits them.

    A curve of the process, drawn before anything was measured, is moved by what the points (drawn
    with their errors, too) say of it.
    """
    where, grid = np.asarray(intensities, dtype=float) / 100, at / 100
    seen = np.asarray(values, dtype=float) - 1
    spread = np.maximum(np.asarray(errors, dtype=float), _MIN_ERROR)
    fits, likelihoods = [], []
    for bend, step in product(_BENDS, _STEPS):
        own = _covariance(where, where, bend, step, reference_error) + np.diag(spread**2)
        lower = np.linalg.cholesky(own)
        white = np.linalg.solve(lower, seen)
        likelihoods.append(-0.5 * float(white @ white) - float(np.log(np.diag(lower)).sum()))
        fits.append((bend, step, own))
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    ends = np.rint(DRAWS * np.cumsum(weights / weights.sum())).astype(int)
    both = np.concatenate([grid, where])
    order = np.argsort(both, kind="stable")
    parts = []
    for (bend, step, own), count in zip(fits, np.diff(ends, prepend=0), strict=True):
        if count == 0:
            continue
        before = np.empty((count, len(both)))
        before[:, order] = _drawn(both[order], count, bend, step, reference_error, random)
        points = before[:, GRID:] + spread * random.standard_normal((count, len(where)))
        across = np.linalg.solve(own, _covariance(where, grid, bend, step, reference_error))
        # No BLAS: its threads would disturb what is measured.
        parts.append(1 + before[:, :GRID] + np.einsum("ij,jk->ik", seen - points, across))
    return np.concatenate(parts)


def _drawn(
    at: Draws,
    count: int,
    bend: float,
    step: float,
    reference_error: float,
    random: np.random.Generator,
) -> Draws:
    """Curves of the process, less 1, at ascending places from 0 on."""
    apart = np.diff(at, prepend=0.0)
    first, second, third = random.standard_normal((3, count, len(at)))
    turns = np.sqrt(apart) * first
    slopes = np.cumsum(turns, axis=1) - turns
    falls = slopes * apart + apart**1.5 * (first / 2 + second / np.sqrt(12))
    line = _SLOPE * random.standard_normal((count, 1)) * at
    begin = reference_error * random.standard_normal((count, 1))
    whole: Draws = (
        begin
        + line
        + bend * np.cumsum(falls, axis=1)
        + step * np.cumsum(np.sqrt(apart) * third, axis=1)
    )
    return whole


def _covariance(
    one: Draws, other: Draws, bend: float, step: float, reference_error: float
) -> Draws:
    least = np.minimum.outer(one, other)
    apart = np.abs(np.subtract.outer(one, other))
    bent = bend**2 * (least**3 / 3 + least**2 * apart / 2)
    straight = _SLOPE**2 * np.multiply.outer(one, other)
    whole: Draws = reference_error**2 + straight + bent + step**2 * least
    return whole


def falling(values: Draws, weights: Draws) -> Draws:
    """For each row the closest curve that never rises: the min-max formula of isotonic regression.

    >>> falling(np.array([[0.98, 1.0]]), np.array([1.0, 1.0])).round(6).tolist()
    [[0.99, 0.99]]
    """
    count = values.shape[1]
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values * weights, axis=1)], axis=1)
    totals = np.concatenate([[0.0], np.cumsum(weights)])
    fitted = np.full(values.shape, np.inf)
    for first in range(count):
        means = (sums[:, first + 1 :] - sums[:, first : first + 1]) / (
            totals[first + 1 :] - totals[first]
        )
        best = np.maximum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        fitted[:, first:] = np.minimum(fitted[:, first:], best)
    return fitted
