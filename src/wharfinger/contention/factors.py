"""A matrix of pairs on one platform as factors: known programs as measured, new ones predicted.

The logarithm of the performance of u beside v, relative to u alone, is taken to be

    L[u, v] = μ + a_u + b_v + Σ_k x_uk q_vk

A known program's row is a row of the matrix, and its column a column; the factors x, q of the rest
without row and column means are its singular vectors, all of them where there are few. A new
program's row is filled in from a few entries by an estimator that learned from the known rows, its
column by another that learned from the columns. Its x is that row in the singular vectors, its q
the ridge regression of that column on the known programs' factors. So two new programs beside one
another, of which no entry was ever measured, follow from their pairs with known ones.

Estimators are calibrated for a row of known columns. What factors make of it, and of two programs
that are both new, has larger errors: known programs are held out and predicted, and as much
variance is added as it takes for nine of ten held-out pairs to lie within their 90% intervals.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from wharfinger.estimators.conditional import Gaussian
from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.tasks import Indices, leave_out, number_groups
from wharfinger.model.arrays import Array

MAX_FACTORS = 28
"""Besides three for means and errors; weaker ones count as variance."""
MIN_SINGULAR = 1e-6
"""Of the largest: weaker ones are rounding errors."""
MIN_VARIANCE = 1e-6
"""Of a predicted entry."""
FOLDS = 5
REVEALED = 2
MIN_KNOWN = 3
"""Programs from which something can be learned about another."""


# --- rows and columns -----------------------------------------------------------------------


# Columns of a recommender are the K known programs, its rows those of them with any entry.


def _among(lines: Recommender, kept: Indices, logs: Array) -> Recommender:
    """With the same settings, learned from these programs alone; ``logs`` are of all programs."""
    of = dict(zip(lines.matrix.rows, lines.matrix.groups, strict=True))
    names = tuple(lines.matrix.columns[at] for at in kept)
    groups = tuple(of.get(name, name) for name in names)
    matrix = _matrix(names, groups, logs[np.ix_(kept, kept)])
    learned = lines.learned.relearn(matrix.transformed, number_groups(matrix.groups))
    calibration = replace(lines.calibration, unmeasured=lines.calibration.unmeasured[kept])
    return replace(lines, matrix=matrix, learned=learned, calibration=calibration)


def _matrix(names: tuple[str, ...], groups: tuple[str, ...], logs: Array) -> Matrix:
    filled = [at for at in range(len(names)) if not np.isnan(logs[at]).all()] or [0]
    rows, of = (tuple(each[at] for at in filled) for each in (names, groups))
    return Matrix(rows, names, of, np.exp(logs[filled]))


def _complete(logs: Array, by_row: Recommender, by_column: Recommender) -> tuple[Array, Array]:
    """A whole matrix: gaps as both sides predict them, weighted by precision.

    Returns:
        (K, K) without gaps, and (K, K) variances, 0 where it was measured.
    """
    gaps = np.isnan(logs)
    sums, weights = np.zeros_like(logs), np.zeros_like(logs)
    # Both are changed through transposed views for columns.
    for side, present, total, weight in (
        (by_row, logs, sums, weights),
        (by_column, logs.T, sums.T, weights.T),
    ):
        for place in np.flatnonzero(np.isnan(present).any(axis=1)):
            line = side.predict(np.exp(present[place]))
            variance = np.maximum(line.log_std**2, MIN_VARIANCE)
            total[place] += line.log_mean / variance
            weight[place] += 1 / variance
    weights = np.where(gaps, weights, 1.0)
    return np.where(gaps, sums / weights, logs), np.where(gaps, 1 / weights, 0.0)


# --- factors --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One program's factors on one side of a pair: (F,) and their variances."""

    values: Array
    variances: Array


@dataclass(frozen=True, slots=True)
class AddedVariances:
    """Variances to add, from rehearsals.

    Attributes:
        sensitivity: Of a new program beside a known one.
        pressure: Of a known program beside a new one.
        both: Of a new one beside a new one, beyond those two.
    """

    sensitivity: float = 0.0
    pressure: float = 0.0
    both: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """One platform's matrix as factors.

    The first factor is the effect of a program on all, the second that of all on a program, the
    third the additional error where both are new.

    Attributes:
        names: K known programs.
        basis: Unique name of these factors.
        logs: (K, K) without gaps: measured, or predicted.
        variances: (K, K) of that; 0 where it was measured.
        left: (K, r) singular vectors of the matrix without row and column means, by victim.
        right: (K, r) the same by co-runner.
        singular: (r,) their singular values.
        omitted: Variance of the omitted singular vectors.
    """

    names: tuple[str, ...]
    basis: str
    logs: Array
    variances: Array
    by_row: Recommender
    by_column: Recommender
    left: Array
    right: Array
    singular: Array
    omitted: float
    added: AddedVariances = AddedVariances()

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        logs: Array,
        by_row: Recommender,
        by_column: Recommender,
        label: str = "",
    ) -> "Factors":
        """From a matrix with gaps, and predictors that learned from it; see ``learn``."""
        whole, variances = _complete(logs, by_row, by_column)
        rows = whole.mean(axis=1, keepdims=True)
        rest = whole - rows - whole.mean(axis=0) + whole.mean()
        left, singular, right = np.linalg.svd(rest)
        strong = singular > max(MIN_SINGULAR * singular[0], 1e-12)
        kept = min(int(strong.sum()), MAX_FACTORS)
        omitted = float((singular[kept:] ** 2).sum() / rest.size) if kept == MAX_FACTORS else 0.0
        # The sign of each pair of vectors is arbitrary: choose one.
        largest = np.abs(right[:kept]).argmax(axis=1)
        sign = np.where(right[np.arange(kept), largest] < 0, -1.0, 1.0)
        left, right, singular = left[:, :kept] * sign, right[:kept].T * sign, singular[:kept]
        digest = blake2b(whole.tobytes() + right.tobytes(), digest_size=6).hexdigest()
        basis = f"{label}{digest}"
        return cls(
            names, basis, whole, variances, by_row, by_column, left, right, singular, omitted
        )

    def among(self, kept: Indices, logs: Array) -> "Factors":
        """As if only these programs were known; ``logs`` with gaps, of all programs."""
        names = tuple(self.names[at] for at in kept)
        lines = _among(self.by_row, kept, logs), _among(self.by_column, kept, logs.T)
        return Factors.of(names, logs[np.ix_(kept, kept)], *lines)

    def sensitivity(self, place: int) -> Side:
        """Of a known program: its row, as measured."""
        values = [1.0, -self.logs[place].mean(), 0.0, *(-self.left[place] * self.singular)]
        return _side(values, {1: self.variances[place].mean()})

    def pressure(self, place: int) -> Side:
        """Of a known program: its column, as measured."""
        level = self.logs[:, place].mean() - self.logs.mean()
        values = [-level, 1.0, 0.0, *self.right[place]]
        return _side(values, {0: self.variances[:, place].mean() + self.omitted})

    def sensitivity_of_row(self, row: Gaussian) -> Side:
        """Of a new program, from its predicted row."""
        level = float(row.mean.mean())
        co_runners = self.logs.mean(axis=0) - self.logs.mean()
        own = self.right.T @ (row.mean - level - co_runners)
        spread = np.einsum("kf,kl,lf->f", self.right, row.covariance, self.right)
        of_first = {1: row.covariance.mean() + self.added.sensitivity}
        return _side([1.0, -level, 1.0, *(-own)], of_first, spread)

    def pressure_of_column(self, column: Gaussian) -> Side:
        """Of a new program, from its predicted column."""
        level = float(column.mean.mean()) - self.logs.mean()
        victims = self.logs.mean(axis=1)
        # As large as a typical factor: weak ones say little about a predicted column.
        ridge = float(np.mean(self.singular**2)) if self.singular.size else 1.0
        gain = self.left * (self.singular / (self.singular**2 + ridge))
        own = gain.T @ (column.mean - level - victims)
        spread = np.einsum("kf,kl,lf->f", gain, column.covariance, gain)
        of_first = {
            0: column.covariance.mean() + self.omitted + self.added.pressure,
            2: self.added.both,
        }
        return _side([-level, 1.0, 0.0, *own], of_first, spread)


def _side(values: list[float], of_first: dict[int, float], spread: Array | None = None) -> Side:
    """With the variances of the first factors by place, and of the others."""
    variances = np.zeros(len(values))
    if spread is not None:
        variances[len(values) - len(spread) :] = np.maximum(spread, 0.0)
    for at, variance in of_first.items():
        variances[at] = max(variance, 0.0)
    return Side(np.array(values), variances)


# --- learning -------------------------------------------------------------------------------


def learn(
    names: tuple[str, ...], logs: Array, groups: Indices, estimator: str, seed: int, label: str
) -> Factors:
    """Factors of a matrix with gaps.

    Args:
        names: K programs.
        logs: (K, K) victim by co-runner; NaN where it was not measured.
        groups: (K,) number of each program's group; a group is held out as a whole.
        estimator: Predicts rows and columns: a name in ``wharfinger.estimators.registry``.
        seed: Of rehearsals; the same gives the same result.
        label: Prefix of the basis' name.
    """
    labels = tuple(str(number) for number in groups)
    by_row, by_column = (
        fit(estimator, _matrix(names, labels, lines), scale=RowScale.NORMALISED, seed=seed)
        for lines in (logs, logs.T)
    )
    factors = Factors.of(names, logs, by_row, by_column, label)
    return replace(factors, added=_rehearse(factors, logs, groups, seed))


def _rehearse(factors: Factors, logs: Array, groups: Indices, seed: int) -> AddedVariances:
    """The variances that predictions of new programs lack."""
    rng = np.random.default_rng(seed)
    folds = [fold for fold in leave_out(groups, FOLDS, rng) if _can_learn(logs, fold[0])]
    if not folds:
        # Too few programs to hold one out: as much as measurements differ.
        spread = float(np.nanvar(logs))
        return AddedVariances(spread, spread, 0.0)
    rehearsed = [_rehearse_fold(factors, logs, kept, held, rng) for kept, held in folds]
    beside, upon, both = (
        [np.concatenate(each) for each in zip(*parts, strict=True)]
        for parts in zip(*rehearsed, strict=True)
    )
    sensitivity, pressure = _lacking(*beside), _lacking(*upon)
    return AddedVariances(
        sensitivity, pressure, _lacking(both[0], both[1] + (sensitivity + pressure))
    )


def _can_learn(logs: Array, kept: Indices) -> bool:
    return len(kept) >= MIN_KNOWN and not np.isnan(logs[np.ix_(kept, kept)]).all()


def _lacking(squares: Array, variances: Array) -> float:
    """The variance to add to those that were predicted, by the squares of the errors."""
    if not squares.size:
        return 0.0
    return max(0.0, float(np.quantile(squares / NORMAL_90**2 - variances, 0.9)))


_Errors = tuple[Array, Array]
"""Squared errors of predicted pairs, and their predicted variances."""


def _rehearse_fold(
    factors: Factors, logs: Array, kept: Indices, held: Indices, rng: np.random.Generator
) -> tuple[_Errors, _Errors, _Errors]:
    """Errors of held-out programs beside known ones, the reverse, and beside one another."""
    rest = factors.among(kept, logs)
    beside, upon = logs[np.ix_(held, kept)].copy(), logs[np.ix_(kept, held)].copy()
    sensitivity, pressure = [], []
    for at in range(len(held)):
        both = np.flatnonzero(~np.isnan(beside[at]) & ~np.isnan(upon[:, at]))
        seen = rng.permutation(both)[:REVEALED]
        row = {rest.names[to]: float(np.exp(beside[at, to])) for to in seen}
        column = {rest.names[to]: float(np.exp(upon[to, at])) for to in seen}
        sensitivity.append(rest.sensitivity_of_row(rest.by_row.predict(row).gaussian))
        pressure.append(rest.pressure_of_column(rest.by_column.predict(column).gaussian))
        beside[at, seen] = upon[seen, at] = np.nan
    places = range(len(kept))
    return (
        _errors(beside, sensitivity, [rest.pressure(at) for at in places]),
        _errors(upon, [rest.sensitivity(at) for at in places], pressure),
        _errors(logs[np.ix_(held, held)], sensitivity, pressure),
    )


def _errors(logs: Array, sensitivity: list[Side], pressure: list[Side]) -> _Errors:
    s, vs = (np.array([getattr(each, f) for each in sensitivity]) for f in ("values", "variances"))
    p, vp = (np.array([getattr(each, f) for each in pressure]) for f in ("values", "variances"))
    squares = (logs + s @ p.T) ** 2
    variances = (s**2 + vs) @ vp.T + vs @ (p**2).T
    there = ~np.isnan(logs)
    return squares[there], variances[there]
