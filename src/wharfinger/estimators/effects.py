"""Row and column effects of a matrix with gaps: x_ij = μ + r_i + c_j + e_ij."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.arrays import Array

ITERATIONS = 100
TOLERANCE = 1e-10
ENTRY_FREEDOM = 1.0
"""Degrees of freedom of the Student's t that weighs entries: outliers count hardly at all."""
ENTRY_ROUNDS = 8
MEDIAN_SQUARE = 0.4549
"""Median of the squares of a normal, over their mean."""
MIN_LEVEL = 1e-9
UNKNOWN_STD = 1.0
"""In the transformed scale, a factor e: assumed where a single row can't tell how rows vary."""


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The two-way fit and its variances.

    Attributes:
        columns: (columns,) a typical row: the mean level plus each column's effect.
        levels: (rows,) how far each row lies above it.
        level_variance: Of a row's level.
        residual_variance: Of what neither row nor column explains.
    """

    columns: Array
    levels: Array
    level_variance: float
    residual_variance: float


def two_way(values: Array, weights: Array) -> Effects:
    """Fit by alternating weighted means (exact at once where nothing is missing).

    Args:
        values: (rows, columns), NaN where missing, no row without an entry.
        weights: (rows,) how much each row counts for the columns' effects.
    """
    observed = ~np.isnan(values)
    counts = observed.sum(axis=1)
    column_weights = weights @ observed
    filled = np.where(observed, values, 0.0)
    columns, levels = np.zeros(values.shape[1]), np.zeros(len(values))
    for _ in range(ITERATIONS):
        before = levels
        sums = weights @ np.where(observed, filled - levels[:, None], 0.0)
        columns = _column_means(sums, column_weights)
        levels = np.where(observed, filled - columns, 0.0).sum(axis=1) / counts
        if np.abs(levels - before).max() <= TOLERANCE * (1 + np.abs(levels).max()):
            break
    return _with_variances(values, columns, levels, weights)


def robust_two_way(values: Array, weights: Array) -> Effects:
    """Column effects that outlying entries hardly move; arguments as for ``two_way``.

    An M-estimate of Student's t, iteratively reweighted (Lange, Little and Taylor, "Robust
    statistical modeling using the t distribution", 1989). Levels are plain means again at the
    end: in a row of few entries the wrong one can't be identified.
    """
    observed = ~np.isnan(values)
    filled = np.where(observed, values, 0.0)
    start = two_way(values, weights)
    columns, levels = start.columns, start.levels
    for _ in range(ENTRY_ROUNDS):
        squares = (filled - columns - levels[:, None]) ** 2
        typical = max(float(np.median(squares[observed])) / MEDIAN_SQUARE, MIN_LEVEL**2)
        each = observed * (ENTRY_FREEDOM + 1) / (ENTRY_FREEDOM + squares / typical)
        by_row = each * weights[:, None]
        columns = _column_means(
            (by_row * (filled - levels[:, None])).sum(axis=0), by_row.sum(axis=0)
        )
        levels = (each * (filled - columns)).sum(axis=1) / each.sum(axis=1)
    levels = np.where(observed, filled - columns, 0.0).sum(axis=1) / observed.sum(axis=1)
    return _with_variances(values, columns, levels, weights)


def _column_means(sums: Array, totals: Array) -> Array:
    """Weighted means; a column without measurements is like the others."""
    filled = totals > 0
    columns = np.divide(sums, totals, where=filled, out=sums.copy())
    return np.where(filled, columns, columns[filled].mean())


def _with_variances(values: Array, columns: Array, levels: Array, weights: Array) -> Effects:
    mean_level = float(weights @ levels / weights.sum())
    columns, levels = columns + mean_level, levels - mean_level
    residuals = values - columns - levels[:, None]
    observed = ~np.isnan(residuals)
    rows, used = len(values), int(observed.any(axis=0).sum())
    freedom = int(observed.sum()) - rows - used + 1
    squares = float(np.nansum(residuals**2))
    scale = max(1.0, float(np.abs(columns).max()) * 1e-3)
    residual = squares / freedom if freedom > 0 else float(np.var(columns)) or scale
    if rows < 2:
        return Effects(columns, levels, UNKNOWN_STD**2, max(residual, 1e-6))
    share = weights / weights.sum()
    spread = float(share @ levels**2) / max(1 - float(share @ share), 1e-3)
    noise = residual / float(np.mean(observed.sum(axis=1)))
    return Effects(columns, levels, max(spread - noise, 0.0), residual)


def shrunk_columns(effects: Effects, rows: float) -> Array:
    """Column effects shrunk towards their mean as far as their noise says (empirical Bayes).

    Of the variance between columns, ``residual_variance / rows`` is noise of the means;
    ``rows`` counts the independent rows behind the fit.
    """
    centre = effects.columns.mean()
    between = float(np.var(effects.columns, ddof=1)) if effects.columns.size > 1 else 0.0
    noise = effects.residual_variance / max(rows, 1.0)
    kept = max(0.0, 1 - noise / between) if between > 0 else 1.0
    return np.asarray(centre + kept * (effects.columns - centre))


def row_weights(groups: NDArray[np.intp], exponent: float) -> Array:
    """(rows,) 1 / (size of the row's group) ** exponent: at 1 a program counts, not its runs."""
    sizes = np.bincount(groups)[groups]
    return np.asarray(sizes.astype(np.float64) ** -exponent)


def fit_levels(values: Array, *, free: bool) -> tuple[float, Array, float, float]:
    """μ, (rows,) r_i, σ²/τ² and τ² of x_ij = μ + r_i + e_ij: rows alone.

    An r_i is its row's summed residuals over (entries + σ²/τ²); not shrunk where levels are free.
    """
    observed = ~np.isnan(values)
    counts = observed.sum(axis=1)
    means = np.nansum(values, axis=1) / counts
    mean = float(means.mean())
    within = float(np.nansum((values - means[:, None]) ** 2)) / max(
        int(observed.sum()) - len(means), 1
    )
    between = float(np.var(means, ddof=1)) if len(means) > 1 else UNKNOWN_STD**2
    variance = max(between - within / float(counts.mean()), 1e-6 * max(between, MIN_LEVEL))
    shrinkage = 0.0 if free else within / variance
    return mean, counts * (means - mean) / (counts + shrinkage), shrinkage, variance
