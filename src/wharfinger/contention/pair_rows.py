"""Rows and columns of a matrix of pairs, filled in by an estimator."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.tasks import Indices, number_groups
from wharfinger.model.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A row (beside each known program) or a column (of each, beside it), in logarithms.

    Attributes:
        mean: (K,).
        covariance: (K, K).
    """

    mean: Array
    covariance: Array


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """What was learnt from all known rows, or from all columns.

    Attributes:
        recommender: Columns are the K known programs, rows those of them with any entry.
    """

    recommender: Recommender

    @classmethod
    def learn(
        cls, names: tuple[str, ...], groups: tuple[str, ...], logs: Array, how: str, seed: int
    ) -> "PairRows":
        """From a matrix with gaps.

        Args:
            names: K programs.
            groups: Those of one group are no news to one another.
            logs: (K, K), one line a row; NaN where nothing was measured.
            how: Name in ``wharfinger.estimators.registry``.
            seed: The same gives the same.

        Raises:
            InvalidInput: Nothing was measured.
        """
        matrix = _matrix(names, groups, logs)
        return cls(fit(how, matrix, scale=RowScale.NORMALISED, seed=seed))

    def among(self, kept: Indices, logs: Array) -> "PairRows":
        """As if only these programs were known: the same settings, learnt from them alone.

        Args:
            kept: Places of the programs.
            logs: (K, K) as it was learnt from.
        """
        whole = self.recommender.matrix
        of = dict(zip(whole.rows, whole.groups, strict=True))
        names = tuple(whole.columns[at] for at in kept)
        groups = tuple(of.get(name, name) for name in names)
        matrix = _matrix(names, groups, logs[np.ix_(kept, kept)])
        numbers = number_groups(matrix.groups)
        learned = self.recommender.learned.relearn(matrix.transformed, numbers)
        calibration = replace(
            self.recommender.calibration, unmeasured=self.recommender.calibration.unmeasured[kept]
        )
        return PairRows(
            replace(self.recommender, matrix=matrix, learned=learned, calibration=calibration)
        )

    def filled(self, entries: Mapping[str, float]) -> Line:
        """A line of which these entries (performance beside over that alone) are known."""
        found = self.recommender.predict(entries)
        return Line(found.log_mean, found.covariance)

    def told(self, logs: Array) -> tuple[Array, Array]:
        """(K,) means and (K,) variances of a line with gaps."""
        found = self.recommender.predict(np.exp(logs))
        return found.log_mean, found.log_std**2


def filled(logs: Array, by_row: PairRows, by_column: PairRows) -> tuple[Array, Array]:
    """A whole matrix: gaps as both sides tell them, each by how sure it is.

    Returns:
        (K, K) without gaps, and (K, K) variances, 0 where it was measured.
    """
    gaps = np.isnan(logs)
    told, weights = np.zeros_like(logs), np.zeros_like(logs)
    for place in np.flatnonzero(gaps.any(axis=1)):
        mean, variance = by_row.told(logs[place])
        told[place] += mean / np.maximum(variance, LEAST_VARIANCE)
        weights[place] += 1 / np.maximum(variance, LEAST_VARIANCE)
    for place in np.flatnonzero(gaps.any(axis=0)):
        mean, variance = by_column.told(logs[:, place])
        told[:, place] += mean / np.maximum(variance, LEAST_VARIANCE)
        weights[:, place] += 1 / np.maximum(variance, LEAST_VARIANCE)
    weights = np.where(gaps, weights, 1.0)
    return np.where(gaps, told / weights, logs), np.where(gaps, 1 / weights, 0.0)


LEAST_VARIANCE = 1e-6
"""Nothing that is filled in is surer."""


def _matrix(names: tuple[str, ...], groups: tuple[str, ...], logs: Array) -> Matrix:
    """Without lines that have no entry; one of those where there is no other."""
    known = [at for at in range(len(names)) if not np.isnan(logs[at]).all()] or [0]
    rows, of = (tuple(each[at] for at in known) for each in (names, groups))
    return Matrix(rows, names, of, np.exp(logs[known]))
