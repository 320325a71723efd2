"""A fitted estimator, as all other packages use it: names, transform, calibration, changes.

``fit`` learns; the ``Recommender`` that it returns is immutable. It folds in rows, and returns
another recommender when an entry is corrected or a column is added.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.conditional import MIN_VARIANCE, Gaussian
from wharfinger.estimators.effects import UNKNOWN_STD, two_way
from wharfinger.estimators.estimator import (
    NORMAL_90,
    Compiled,
    Estimator,
    Finish,
    FoldIn,
    Learned,
    RowPrediction,
)
from wharfinger.estimators.matrix import Matrix, RowScale, Transform
from wharfinger.estimators.registry import make_estimator
from wharfinger.estimators.tasks import (
    Indices,
    draw_seen,
    leave_out,
    masked,
    number_groups,
    sample_rows,
)
from wharfinger.model.arrays import Array

CALIBRATED_COUNTS = (1, 2, 4)
CALIBRATION_FOLDS = 10
MAX_CALIBRATION_ROWS = 300
UNCALIBRATED = 2.0
"""Factor where there are too few programs to hold one out."""
MAX_FACTOR = 20.0
"""With few programs those that are left when one is held out may hardly differ. Their deviation is
then near zero, and the ratio of an error to it has no meaning."""
MIN_STD = 1e-9
MAX_ROWS = 20_000
"""Rows to learn from, those with the most entries: bounds the time of learning."""
BATCH = 128
"""Rows folded in by one call of the kernel: few enough to stay in a processor's cache."""
Row = Array | Mapping[str, float]
"""Known entries by column, or (columns,) with NaN where not known; in the matrix's own scale."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Corrects an estimator's own variances.

    Attributes:
        factors: Of standard deviations, for ``CALIBRATED_COUNTS`` known entries.
        unmeasured: (columns,) variance to add where no known row has an entry: how much
            columns differ from one another.
    """

    factors: tuple[float, ...]
    unmeasured: Array

    def factor(self, count: int) -> float:
        """For a row with this many known entries; interpolated over their logarithm."""
        at = np.log(CALIBRATED_COUNTS)
        return float(np.interp(np.log(max(count, 1)), at, self.factors))

    def widened(self, programs: int) -> "Calibration":
        """As a 90% interval is whose deviation was estimated from so few programs (Student's t).

        Where the level is learnt too, what was chosen fits the programs that it was chosen on.
        """
        wider = 1 + (NORMAL_90**2 + 1) / (4 * max(programs - 1, 1))
        return replace(self, factors=tuple(wider * factor for factor in self.factors))

    def table(self, columns: int) -> Array:
        """(columns + 1,) the factor for each number of known entries."""
        return np.array([self.factor(count) for count in range(columns + 1)])


@dataclass(frozen=True, slots=True, eq=False)
class Recommender:
    """What an estimator learned from one matrix; ``seed`` is that of its rehearsals."""

    estimator: Estimator
    matrix: Matrix
    scale: RowScale
    seed: int
    learned: Learned
    calibration: Calibration
    _kernel: FoldIn | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kernel = None
        if isinstance(self.learned, Compiled):
            logarithms = self.matrix.transform is Transform.LOG
            factors = self.calibration.table(len(self.matrix.columns))
            finish = Finish(factors, self.calibration.unmeasured, logarithms)
            kernel = self.learned.compiled(finish)
        object.__setattr__(self, "_kernel", kernel)

    def predict(self, row: Row) -> RowPrediction:
        """Fold in one new row.

        Raises:
            InvalidInput: The row does not fit the matrix, or a value has no logarithm.
            NotFound: The matrix has no such column.
        """
        values = row if isinstance(row, np.ndarray) else self.matrix.row_of(row)
        if self._kernel is not None and values.ndim == 1:
            folded = self._kernel.fold_in(np.ascontiguousarray(values, np.float64))
            if folded is not None:
                return self._folded(*folded)
        return self.reference(values)

    def predict_many(self, rows: Iterable[Row]) -> list[RowPrediction]:
        """Fold in a batch: each row as by ``predict``, and faster.

        Args:
            rows: Fastest as one array, (rows, columns). Predictions of up to ``BATCH`` rows share
                their memory.

        Raises:
            InvalidInput: A row does not fit the matrix, or a value has no logarithm.
            NotFound: The matrix has no such column.
        """
        kernel = self._kernel
        if kernel is None:
            return [self.predict(row) for row in rows]
        predictions: list[RowPrediction] = []
        for batch in _batches(rows):
            values = self._stacked(batch)
            for row, *folded, done in zip(values, *kernel.fold_in_many(values), strict=True):
                predictions.append(self._folded(*folded) if done else self.reference(row))
        return predictions

    def reference(self, row: Array) -> RowPrediction:
        """The same by ``Learned.condition`` and NumPy, where no kernel can.

        Raises:
            InvalidInput: The row does not fit the matrix, or a value has no logarithm.
        """
        logs = self._checked(row)
        row_given = self._widened(logs)
        # An unmeasured column is never certain, and rounding makes no variance negative.
        variances = np.maximum(row_given.variances + self.calibration.unmeasured, MIN_VARIANCE)
        variances = np.where(np.isnan(logs), variances, 0.0)
        return self._prediction(row_given.mean, variances, lambda: row_given.covariance)

    def _widened(self, logs: Array) -> Gaussian:
        factor = self.calibration.factor(int((~np.isnan(logs)).sum()))
        return self.learned.condition(logs).scaled(factor)

    def _folded(self, mean: Array, variances: Array, logs: Array) -> RowPrediction:
        """A kernel's prediction. It has no covariance: that is the reference's."""
        return self._prediction(mean, variances, lambda: self._widened(logs).covariance)

    def _prediction(
        self, mean: Array, variances: Array, covariance: Callable[[], Array]
    ) -> RowPrediction:
        def whole() -> Array:
            matrix = covariance().copy()
            np.fill_diagonal(matrix, variances)
            return matrix

        gaussian = Gaussian(mean, whole, variances)
        return RowPrediction(self.matrix.columns, gaussian, self.matrix.transform)

    def _stacked(self, rows: Array | list[Row]) -> Array:
        if not isinstance(rows, np.ndarray):
            values = [r if isinstance(r, np.ndarray) else self.matrix.row_of(r) for r in rows]
            for row in values:
                self._check_size(row)
            rows = np.array(values, np.float64)
        elif rows.shape[1:] != (len(self.matrix.columns),):
            self._check_size(rows[0])
        return np.ascontiguousarray(rows, np.float64)

    def _check_size(self, row: Array) -> None:
        if row.shape != (len(self.matrix.columns),):
            raise InvalidInput(
                f"a row of {row.size} values does not fit a matrix of "
                f"{len(self.matrix.columns)} columns; leave a gap as NaN"
            )

    def _checked(self, row: Array) -> Array:
        self._check_size(row)
        bad = np.isinf(row)
        if self.matrix.transform is Transform.LOG:
            bad |= row <= 0
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise InvalidInput(
                f"column {self.matrix.columns[j]!r}: {row[j]:g} is not a value of this matrix; "
                "leave the entry empty if it was not measured"
            )
        return self.matrix.transform.forward(row)

    def with_entry(self, row: str, column: str, value: float) -> "Recommender":
        """Another one, with this entry added or corrected."""
        return self._on(self.matrix.with_entry(row, column, value))

    def with_column(self, name: str, entries: Mapping[str, float]) -> "Recommender":
        """Another one, with one more column."""
        return self._on(self.matrix.with_column(name, entries))

    def with_row(self, name: str, group: str, row: Array) -> "Recommender":
        """Another one, that learned from this row too."""
        return self._on(self.matrix.with_row(name, group, row))

    def _on(self, matrix: Matrix) -> "Recommender":
        return fit(self.estimator, matrix, scale=self.scale, seed=self.seed)


def _batches(rows: Iterable[Row]) -> Iterator[Array | list[Row]]:
    if isinstance(rows, np.ndarray):
        yield from (rows[begin : begin + BATCH] for begin in range(0, len(rows), BATCH))
        return
    left = iter(rows)
    while batch := list(islice(left, BATCH)):
        yield batch


def fit(
    estimator: Estimator | str,
    matrix: Matrix,
    *,
    scale: RowScale = RowScale.AUTO,
    seed: int = 0,
) -> Recommender:
    """Learn from a matrix.

    Args:
        estimator: One, or its name in the registry.
        matrix: Rows without an entry are ignored; of more than ``MAX_ROWS`` those with the
            fewest entries are.
        scale: What a row's level says; by default that is learnt.
        seed: Of rehearsals; the same gives the same result.

    Raises:
        InvalidInput: No entry is known at all, or no estimator has that name.
    """
    chosen = make_estimator(estimator) if isinstance(estimator, str) else estimator
    values = matrix.transformed
    usable = np.flatnonzero((~np.isnan(values)).any(axis=1))
    if not usable.size:
        raise InvalidInput("the matrix has no entry that is known; measure one at least")
    rng = np.random.default_rng(seed)
    if len(usable) > MAX_ROWS:
        entries = (~np.isnan(values[usable])).sum(axis=1) + rng.random(len(usable))
        usable = np.sort(usable[np.argsort(-entries)[:MAX_ROWS]])
    values, groups = values[usable], number_groups([matrix.groups[i] for i in usable])
    learned = chosen.learn(values, groups, scale, rng)
    calibration = calibrate(learned, values, groups, rng)
    if scale is RowScale.AUTO:
        calibration = calibration.widened(len(np.unique(groups)))
    return Recommender(chosen, matrix, scale, seed, learned, calibration)


def calibrate(
    learned: Learned, values: Array, groups: Indices, rng: np.random.Generator
) -> Calibration:
    """Hold out programs, and widen 90% intervals as far as their entries require.

    A factor is the 90% quantile over all held-out entries of |error| / s, over a normal's.
    """
    values, groups = sample_rows(values, groups, MAX_CALIBRATION_ROWS, rng)
    ratios: dict[int, list[Array]] = {count: [] for count in CALIBRATED_COUNTS}
    if len(np.unique(groups)) > 1:
        for training, held in leave_out(groups, CALIBRATION_FOLDS, rng):
            rehearsed = learned.relearn(values[training], groups[training])
            for count in CALIBRATED_COUNTS:
                ratios[count] += _ratios(rehearsed, values[held], count, rng)
    columns = two_way(values, np.ones(len(values))).columns
    never = np.isnan(values).all(axis=0)
    between = float(np.var(columns[~never])) if (~never).sum() > 1 else UNKNOWN_STD**2
    return Calibration(_factors(ratios), np.where(never, between, 0.0))


def _ratios(learned: Learned, rows: Array, count: int, rng: np.random.Generator) -> list[Array]:
    ratios = []
    for i, seen in zip(*draw_seen(rows, count, rng), strict=True):
        gaussian = learned.condition(masked(rows[i], seen))
        hidden = ~np.isnan(rows[i])
        hidden[seen] = False
        std = np.sqrt(np.maximum(gaussian.variances[hidden], 0.0))
        error = np.abs(gaussian.mean - rows[i])[hidden]
        ratios.append(error / np.maximum(std, MIN_STD))
    return ratios


def _factors(ratios: Mapping[int, list[Array]]) -> tuple[float, ...]:
    """Per count; one that no row could rehearse takes the one before."""
    factors: list[float] = []
    for count in CALIBRATED_COUNTS:
        if ratios[count]:
            quantile = float(np.quantile(np.concatenate(ratios[count]), 0.9))
            factors.append(min(max(quantile / NORMAL_90, MIN_STD), MAX_FACTOR))
        else:
            factors.append(factors[-1] if factors else UNCALIBRATED)
    return tuple(factors)
