"""``column-means``, ``row-column-means``, ``nearest-neighbours``: the estimators to beat.

The means are the Gaussian of ``conditional.py`` with the plainest covariances. The neighbors are
the five known rows most alike on the known entries:

    d(i)² = mean over the known columns of (x_ij − x_j)²

after both rows were moved to the same level where levels are arbitrary. Their mean is the
prediction, their spread its uncertainty; their gaps are filled by the row + column means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from wharfinger.estimators.conditional import MIN_VARIANCE, Gaussian, Prior
from wharfinger.estimators.effects import Effects, row_weights, two_way
from wharfinger.estimators.levels import is_level_free
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.tasks import Indices
from wharfinger.model.arrays import Array

NEIGHBOURS = 5
SAME = 1e-9
"""Rows no further apart than this are equally near: all of them count."""


@dataclass(frozen=True, slots=True, eq=False)
class RowColumnLearned:
    """x_j = c_j + r + e_j, r ~ N(0, τ²) or of any size, e_j ~ N(0, σ²)."""

    prior: Prior

    @classmethod
    def learn(cls, values: Array, groups: Indices, *, free_level: bool) -> Self:
        """Fit the effects and both variances."""
        return cls(_row_column_prior(_fit_effects(values, groups), free_level))

    def relearn(self, values: Array, groups: Indices) -> Self:
        """Learn from other rows."""
        return self.learn(values, groups, free_level=self.prior.free_level)

    def condition(self, row: Array) -> Gaussian:
        """The row's level is its known entries' mean distance, shrunk towards 0 by σ²/τ²."""
        return self.prior.condition(row)

    def arrays(self) -> dict[str, Array]:
        """The prior's."""
        return self.prior.arrays()

    @classmethod
    def restore(cls, arrays: Mapping[str, Array]) -> Self:
        """The inverse of ``arrays``."""
        return cls(Prior.restore(arrays))


def _fit_effects(values: Array, groups: Indices) -> Effects:
    return two_way(values, row_weights(groups, 0.0))


def _row_column_prior(effects: Effects, free_level: bool) -> Prior:
    residual = max(effects.residual_variance, MIN_VARIANCE)
    covariance = residual * np.eye(len(effects.columns))
    if not free_level:
        covariance += effects.level_variance
    return Prior(effects.columns, covariance, free_level, effects.level_variance)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLearned(RowColumnLearned):
    """A typical row with each column's variance; relative to one entry where levels are free."""

    @classmethod
    def learn(cls, values: Array, groups: Indices, *, free_level: bool) -> Self:
        """Average each column."""
        effects = _fit_effects(values, groups)
        if free_level:
            mean, spread = effects.columns, values - effects.levels[:, None]
            common = effects.residual_variance
        else:
            counts = (~np.isnan(values)).sum(axis=0)
            sums = np.nansum(values, axis=0)
            mean = np.divide(sums, counts, where=counts > 0, out=effects.columns.copy())
            spread, common = values, effects.residual_variance + effects.level_variance
        # One more row of the common variance: a column of a few entries can't tell its own.
        observed = (~np.isnan(spread)).sum(axis=0)
        variance = (np.nansum((spread - mean) ** 2, axis=0) + common) / np.maximum(observed, 1)
        covariance = np.diag(np.maximum(variance, MIN_VARIANCE))
        return cls(Prior(mean, covariance, free_level, effects.level_variance))

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
        return Gaussian.pinned(mean, covariance, row)


@dataclass(frozen=True, slots=True, eq=False)
class NeighboursLearned(RowColumnLearned):
    """The known rows with their gaps filled, and which entries were measured."""

    rows: Array
    measured: Array
    residual_variance: float

    @classmethod
    def learn(cls, values: Array, groups: Indices, *, free_level: bool) -> Self:
        """Keep the rows."""
        effects = _fit_effects(values, groups)
        observed = ~np.isnan(values)
        filled = np.where(observed, values, effects.columns + effects.levels[:, None])
        residual = max(effects.residual_variance, MIN_VARIANCE)
        return cls(
            _row_column_prior(effects, free_level), filled, observed.astype(np.float64), residual
        )

    def condition(self, row: Array) -> Gaussian:
        """Mean and spread of the nearest rows."""
        seen = np.flatnonzero(~np.isnan(row))
        if not seen.size:
            return self.prior.condition(row)
        difference = row[seen] - self.rows[:, seen]
        levels = difference.mean(axis=1) if self.prior.free_level else np.zeros(len(self.rows))
        near = self._nearest(difference - levels[:, None], self.measured[:, seen])
        moved = self.rows[near] + levels[near, None]
        mean = moved.mean(axis=0)
        spread = moved - mean
        # One row's worth of the residual variance: five rows alike are not certainty.
        residual = self.residual_variance * np.eye(len(row))
        return Gaussian.pinned(mean, (spread.T @ spread + residual) / len(moved), row)

    def _nearest(self, difference: Array, measured: Array) -> Indices:
        # A filled entry says little about likeness: it counts, but not for nearness of its own.
        gap = np.where(measured > 0, 0.0, self.residual_variance)
        distance = (difference**2 + gap).mean(axis=1)
        limit = np.sort(distance)[min(NEIGHBOURS, len(distance)) - 1]
        return np.flatnonzero(distance <= limit + SAME)

    def arrays(self) -> dict[str, Array]:
        """The prior's, and all rows."""
        residual = np.array(self.residual_variance)
        own = {"rows": self.rows, "measured": self.measured, "residual": residual}
        return own | self.prior.arrays()

    @classmethod
    def restore(cls, arrays: Mapping[str, Array]) -> Self:
        """The inverse of ``arrays``."""
        residual = float(arrays["residual"])
        return cls(Prior.restore(arrays), arrays["rows"], arrays["measured"], residual)


@dataclass(frozen=True, slots=True)
class Baseline:
    """An estimator without settings to choose: ``kind`` learns at once."""

    name: str
    version: int
    kind: type[RowColumnLearned]

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> RowColumnLearned:
        """A row's level is free where its scale is arbitrary, or seems to be."""
        free_level = is_level_free(self.kind.learn, values, groups, scale, rng)
        return self.kind.learn(values, groups, free_level=free_level)

    def restore(self, arrays: Mapping[str, Array]) -> RowColumnLearned:
        """The inverse of ``arrays``."""
        return self.kind.restore(arrays)


COLUMN_MEANS = Baseline("column-means", 1, ColumnLearned)
"""Every new row is the average one. Under ``arbitrary`` that is relative to one reference
configuration, the first that is known of the row (the papers' normalisation); otherwise known
entries do not move the prediction."""
ROW_COLUMN_MEANS = Baseline("row-column-means", 1, RowColumnLearned)
"""A row's level and a column's. The level is estimated from the known entries, and under ``common``
and ``normalised`` shrunk towards the known rows' by the ratio of the two variances."""
NEAREST_NEIGHBOURS = Baseline("nearest-neighbours", 1, NeighboursLearned)
"""Five nearest neighbors; more where several are equally near."""
