"""``column-means`` and ``row-column-means``: what every other estimator has to beat.

Both are the Gaussian of ``conditional.py`` with the plainest covariances there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wharfinger.estimators.conditional import MIN_VARIANCE, Gaussian, Prior
from wharfinger.estimators.effects import Effects, row_weights, two_way
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.tasks import Indices
from wharfinger.model.arrays import Array


def pack_prior(prior: Prior) -> dict[str, Array]:
    """A prior as arrays."""
    return {
        "mean": prior.mean,
        "covariance": prior.covariance,
        "level": np.array([float(prior.free_level), prior.level_variance]),
    }


def unpack_prior(arrays: Mapping[str, Array]) -> Prior:
    """The inverse of ``pack_prior``."""
    free, variance = arrays["level"]
    return Prior(arrays["mean"], arrays["covariance"], bool(free), float(variance))


def fit_effects(values: Array, groups: Indices) -> Effects:
    """The two-way fit in which every row counts alike."""
    return two_way(values, row_weights(groups, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class RowColumnLearned:
    """x_j = c_j + r + e_j, r ~ N(0, τ²) or of any size, e_j ~ N(0, σ²)."""

    prior: Prior

    def condition(self, row: Array) -> Gaussian:
        """The row's level is its known entries' mean distance, drawn to 0 by σ²/τ²."""
        return self.prior.condition(row)

    def relearn(self, values: Array, groups: Indices) -> "RowColumnLearned":
        """Learn again."""
        return _row_column(fit_effects(values, groups), self.prior.free_level)

    def arrays(self) -> dict[str, Array]:
        """The prior's."""
        return pack_prior(self.prior)


def _row_column(effects: Effects, free_level: bool) -> RowColumnLearned:
    size = len(effects.columns)
    residual = max(effects.residual_variance, MIN_VARIANCE)
    covariance = residual * np.eye(size)
    if not free_level:
        covariance += effects.level_variance
    return RowColumnLearned(Prior(effects.columns, covariance, free_level, effects.level_variance))


@dataclass(frozen=True, slots=True)
class RowColumnMeans:
    """A row's level and a column's, no more.

    The level is estimated from the known entries, and under ``common`` and ``normalised``
    drawn towards the known rows' by the ratio of the two variances.
    """

    name: ClassVar[str] = "row-column-means"
    version: ClassVar[int] = 1

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> RowColumnLearned:
        """Fit the effects and both variances."""
        return _row_column(fit_effects(values, groups), scale is RowScale.ARBITRARY)

    def restore(self, arrays: Mapping[str, Array]) -> RowColumnLearned:
        """As saved."""
        return RowColumnLearned(unpack_prior(arrays))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLearned:
    """A typical row with each column's variance; relative to one entry where levels are free."""

    prior: Prior

    def condition(self, row: Array) -> Gaussian:
        """The typical row, moved to the first known entry where a row's scale is arbitrary."""
        seen = np.flatnonzero(~np.isnan(row))
        if not seen.size:
            return self.prior.condition(row)
        mean, variance = self.prior.mean.copy(), np.diagonal(self.prior.covariance).copy()
        covariance = np.diag(variance)
        if self.prior.free_level:
            mean += row[seen[0]] - mean[seen[0]]
            covariance += variance[seen[0]]
        mean[seen] = row[seen]
        covariance[seen, :] = covariance[:, seen] = 0.0
        return Gaussian(mean, covariance)

    def relearn(self, values: Array, groups: Indices) -> "ColumnLearned":
        """Learn again."""
        return _column(values, groups, self.prior.free_level)

    def arrays(self) -> dict[str, Array]:
        """The prior's."""
        return pack_prior(self.prior)


def _column(values: Array, groups: Indices, free_level: bool) -> ColumnLearned:
    effects = fit_effects(values, groups)
    if free_level:
        mean, spread = effects.columns, values - effects.levels[:, None]
        common = effects.residual_variance
    else:
        counts = (~np.isnan(values)).sum(axis=0)
        sums = np.nansum(values, axis=0)
        mean = np.divide(sums, counts, where=counts > 0, out=effects.columns.copy())
        spread, common = values, effects.residual_variance + effects.level_variance
    # One more row of the common variance: a column of a few entries can't tell its own.
    known = (~np.isnan(spread)).sum(axis=0)
    variance = (np.nansum((spread - mean) ** 2, axis=0) + common) / np.maximum(known, 1)
    covariance = np.diag(np.maximum(variance, MIN_VARIANCE))
    return ColumnLearned(Prior(mean, covariance, free_level, effects.level_variance))


@dataclass(frozen=True, slots=True)
class ColumnMeans:
    """Every new row is the average one.

    Under ``arbitrary`` "average" is relative to one reference configuration, the first that is
    known of the row (the papers' normalisation); otherwise known entries are passed over.
    """

    name: ClassVar[str] = "column-means"
    version: ClassVar[int] = 1

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> ColumnLearned:
        """Average each column."""
        return _column(values, groups, scale is RowScale.ARBITRARY)

    def restore(self, arrays: Mapping[str, Array]) -> ColumnLearned:
        """As saved."""
        return ColumnLearned(unpack_prior(arrays))
