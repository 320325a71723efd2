"""``nearest-neighbours``: the five known rows that are most alike on the known entries.

d(i)² = mean over the known columns of (x_ij − x_j)², after both rows were moved to the same
level where levels are arbitrary. The neighbors' mean is predicted, their spread is how sure
that is. A neighbor's gap is filled by the row + column means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wharfinger.estimators.conditional import MIN_VARIANCE, Gaussian, Prior
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.means import fit_effects, pack_prior, unpack_prior
from wharfinger.estimators.tasks import Indices
from wharfinger.model.arrays import Array

NEIGHBOURS = 5
SAME = 1e-9
"""Rows no further apart than this are equally near: all of them count."""


@dataclass(frozen=True, slots=True, eq=False)
class NeighboursLearned:
    """The known rows with their gaps filled, and which entries are filled in."""

    rows: Array
    measured: Array
    residual_variance: float
    prior: Prior

    def condition(self, row: Array) -> Gaussian:
        """Mean and spread of the nearest rows."""
        seen = np.flatnonzero(~np.isnan(row))
        if not seen.size:
            return self.prior.condition(row)
        difference = row[seen] - self.rows[:, seen]
        levels = difference.mean(axis=1) if self.prior.free_level else np.zeros(len(self.rows))
        near = self._nearest(difference - levels[:, None], self.measured[:, seen])
        moved = self.rows[near] + levels[near, None]
        return self._summary(moved, row, seen)

    def _nearest(self, difference: Array, measured: Array) -> Indices:
        # A filled entry says little about likeness: it counts, but not for nearness of its own.
        gap = np.where(measured > 0, 0.0, self.residual_variance)
        distance = (difference**2 + gap).mean(axis=1)
        limit = np.sort(distance)[min(NEIGHBOURS, len(distance)) - 1]
        return np.flatnonzero(distance <= limit + SAME)

    def _summary(self, moved: Array, row: Array, seen: Indices) -> Gaussian:
        mean = moved.mean(axis=0)
        spread = moved - mean
        # One row's worth of the residual variance: five rows alike are not certainty.
        residual = self.residual_variance * np.eye(len(row))
        covariance = (spread.T @ spread + residual) / len(moved)
        mean[seen] = row[seen]
        covariance[seen, :] = covariance[:, seen] = 0.0
        return Gaussian(mean, covariance)

    def relearn(self, values: Array, groups: Indices) -> "NeighboursLearned":
        """Learn again."""
        return _learn(values, groups, self.prior.free_level)

    def arrays(self) -> dict[str, Array]:
        """All rows."""
        residual = np.array(self.residual_variance)
        return {
            "rows": self.rows,
            "measured": self.measured,
            "residual": residual,
            **pack_prior(self.prior),
        }


def _learn(values: Array, groups: Indices, free_level: bool) -> NeighboursLearned:
    effects = fit_effects(values, groups)
    known = ~np.isnan(values)
    filled = np.where(known, values, effects.columns + effects.levels[:, None])
    residual = max(effects.residual_variance, MIN_VARIANCE)
    covariance = residual * np.eye(values.shape[1])
    if not free_level:
        covariance += effects.level_variance
    prior = Prior(effects.columns, covariance, free_level, effects.level_variance)
    return NeighboursLearned(filled, known.astype(np.float64), residual, prior)


@dataclass(frozen=True, slots=True)
class NearestNeighbours:
    """Five nearest neighbors; more where several are equally near."""

    name: ClassVar[str] = "nearest-neighbours"
    version: ClassVar[int] = 1

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> NeighboursLearned:
        """Keep the rows."""
        return _learn(values, groups, scale is RowScale.ARBITRARY)

    def restore(self, arrays: Mapping[str, Array]) -> NeighboursLearned:
        """As saved."""
        residual = float(arrays["residual"])
        return NeighboursLearned(arrays["rows"], arrays["measured"], residual, unpack_prior(arrays))
