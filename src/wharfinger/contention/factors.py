"""A matrix of pairs on one platform as factors: known programs as measured, new ones filled in.

The logarithm of the performance of u beside v, relative to u alone, is taken to be

    L[u, v] = μ + a_u + b_v + Σ_k x_uk q_vk

A known program's row is a row of the matrix, and its column a column; the factors x, q of what
means of rows and columns leave are its singular vectors, all of them where there are few. Of a new
program the row is filled in from a few entries by an estimator of ``wharfinger.estimators``
that has learnt from the known rows, and its column by another that has learnt from the columns.
Its x is the filled-in row in the singular vectors, its q the ridge regression of the filled-in
column on what the known programs' factors make of it: so two new programs beside one another, of
which no entry was ever seen, follow from how each gets on with the known ones.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from wharfinger.contention.pair_rows import Line, PairRows, filled
from wharfinger.estimators.tasks import Indices
from wharfinger.model.arrays import Array

MOST_FACTORS = 28
"""Besides three for means and doubts: of more known programs the strongest, the rest is doubt."""
LEAST_SINGULAR = 1e-6
"""Of the largest: weaker ones are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One program's factors on one side of a pair: (F,) and their variances."""

    values: Array
    variances: Array


@dataclass(frozen=True, slots=True)
class Doubt:
    """Variances that rehearsals have shown to be lacking; see ``rehearsal``.

    Attributes:
        suffering: Of a new program beside a known one.
        pressing: Of a known program beside a new one.
        both: Of a new one beside a new one, beyond those two.
    """

    suffering: float = 0.0
    pressing: float = 0.0
    both: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """What was learnt from one platform's matrix.

    The first factor is what a neighbor does to all, the second what all do to one,
    the third what is doubtful where both are new.

    Attributes:
        names: K known programs.
        basis: Names these factors; others have another.
        logs: (K, K) without gaps: measured, or filled in.
        unsure: (K, K) variance of that; 0 where it was measured.
        by_row: Learnt from rows.
        by_column: Learnt from columns.
        left: (K, r) singular vectors of what the means of rows and columns leave, by victim.
        right: (K, r) the same by neighbor.
        singular: (r,) their singular values.
        omitted: Variance of what further singular vectors would add.
        doubt: Of new programs, beyond what the estimators say.
    """

    names: tuple[str, ...]
    basis: str
    logs: Array
    unsure: Array
    by_row: PairRows
    by_column: PairRows
    left: Array
    right: Array
    singular: Array
    omitted: float
    doubt: Doubt = Doubt()

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        logs: Array,
        by_row: PairRows,
        by_column: PairRows,
        label: str = "",
    ) -> "Factors":
        """From a matrix with gaps, and what was learnt from its rows and columns.

        Args:
            names: K programs.
            logs: (K, K) victim by neighbor; NaN where it was not measured.
            by_row: Learnt from it.
            by_column: Learnt from it, transposed.
            label: Begins the basis' name.
        """
        whole, unsure = filled(logs, by_row, by_column)
        rows = whole.mean(axis=1, keepdims=True)
        rest = whole - rows - whole.mean(axis=0) + whole.mean()
        left, singular, right = np.linalg.svd(rest)
        strong = singular > max(LEAST_SINGULAR * singular[0], 1e-12)
        kept = min(int(strong.sum()), MOST_FACTORS)
        omitted = float((singular[kept:] ** 2).sum() / rest.size) if kept == MOST_FACTORS else 0.0
        # Of each pair of vectors one sign is as good as the other: one is chosen, once and for all.
        largest = np.abs(right[:kept]).argmax(axis=1)
        sign = np.where(right[np.arange(kept), largest] < 0, -1.0, 1.0)
        left, right, singular = left[:, :kept] * sign, right[:kept].T * sign, singular[:kept]
        digest = blake2b(whole.tobytes() + right.tobytes(), digest_size=6).hexdigest()
        basis = f"{label}{digest}"
        return cls(names, basis, whole, unsure, by_row, by_column, left, right, singular, omitted)

    def among(self, kept: Indices, logs: Array) -> "Factors":
        """As if only these programs were known; ``logs`` as it was learnt from."""
        names = tuple(self.names[at] for at in kept)
        lines = self.by_row.among(kept, logs), self.by_column.among(kept, logs.T)
        return Factors.of(names, logs[np.ix_(kept, kept)], *lines)

    def with_doubt(self, doubt: Doubt) -> "Factors":
        """The same, less sure of new programs."""
        return replace(self, doubt=doubt)

    def suffers(self, place: int) -> Side:
        """How a known program is slowed: its row, as measured."""
        values = [1.0, -self.logs[place].mean(), 0.0, *(-self.left[place] * self.singular)]
        return _side(values, {1: self.unsure[place].mean()})

    def presses(self, place: int) -> Side:
        """How a known program slows others: its column, as measured."""
        level = self.logs[:, place].mean() - self.logs.mean()
        values = [-level, 1.0, 0.0, *self.right[place]]
        return _side(values, {0: self.unsure[:, place].mean() + self.omitted})

    def suffering(self, row: Line) -> Side:
        """How a new program is slowed, from its row: filled in, and as unsure as that is."""
        level = float(row.mean.mean())
        neighbours = self.logs.mean(axis=0) - self.logs.mean()
        own = self.right.T @ (row.mean - level - neighbours)
        spread = np.einsum("kf,kl,lf->f", self.right, row.covariance, self.right)
        unsure = {1: row.covariance.mean() + self.doubt.suffering}
        return _side([1.0, -level, 1.0, *(-own)], unsure, spread)

    def pressing(self, column: Line) -> Side:
        """How a new program slows others, from its column."""
        level = float(column.mean.mean()) - self.logs.mean()
        victims = self.logs.mean(axis=1)
        # As large as a typical factor: weak ones say little of a column that is filled in.
        ridge = float(np.mean(self.singular**2)) if self.singular.size else 1.0
        gain = self.left * (self.singular / (self.singular**2 + ridge))
        own = gain.T @ (column.mean - level - victims)
        spread = np.einsum("kf,kl,lf->f", gain, column.covariance, gain)
        unsure = {
            0: column.covariance.mean() + self.omitted + self.doubt.pressing,
            2: self.doubt.both,
        }
        return _side([-level, 1.0, 0.0, *own], unsure, spread)


def _side(values: list[float], unsure: dict[int, float], spread: Array | None = None) -> Side:
    """With the variances of the first factors by their places, and of the others."""
    variances = np.zeros(len(values))
    if spread is not None:
        variances[len(values) - len(spread) :] = np.maximum(spread, 0.0)
    for at, variance in unsure.items():
        variances[at] = max(variance, 0.0)
    return Side(np.array(values), variances)
