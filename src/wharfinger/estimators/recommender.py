"""A fitted estimator, as everybody else uses it: names, transform, calibration, changes.

``fit`` learns; the ``Recommender`` that it gives never changes. It folds in rows, and gives
another recommender when an entry is corrected or a column comes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
from wharfinger.estimators.tasks import Indices, draw_seen, group_folds, masked, number_groups
from wharfinger.model.arrays import Array

CALIBRATED_COUNTS = (1, 2, 4)
CALIBRATION_FOLDS = 10
MAX_CALIBRATION_ROWS = 300
UNCALIBRATED = 2.0
"""Times the estimator's own standard deviation where no program can be left out to see."""
MIN_STD = 1e-9
MAX_ROWS = 20_000
"""That are learnt from: those with the most entries. More change no number that matters, and what
learning takes stays bounded."""
BATCH = 128
"""Rows that are folded in by one call: few enough to stay in a processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """By how much to widen an estimator's own standard deviations.

    Attributes:
        factors: For rows with 1, 2 and 4 known entries; between them by the logarithm.
        unmeasured: (columns,) variance to add where no known row has an entry: how much
            columns differ from one another.
    """

    factors: tuple[float, ...]
    unmeasured: Array

    def factor(self, known: int) -> float:
        """For a row with so many known entries."""
        at = np.log(CALIBRATED_COUNTS)
        return float(np.interp(np.log(max(known, 1)), at, self.factors))

    def table(self, columns: int) -> Array:
        """(columns + 1,) the factor for each number of known entries."""
        return np.array([self.factor(known) for known in range(columns + 1)])


@dataclass(frozen=True, slots=True, eq=False)
class Recommender:
    """What was learned from one matrix.

    Attributes:
        estimator: By which way.
        matrix: From what.
        scale: What a row's level says.
        seed: Of the rehearsals that settings and calibration were found on.
        learned: The estimator's own.
        calibration: Found by leaving out programs.
    """

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

    def predict(self, row: Array | Mapping[str, float]) -> RowPrediction:
        """Fold in one new row.

        Args:
            row: Known entries by column, or (columns,) with NaN where not known; in the
                matrix's own scale.

        Raises:
            InvalidInput: The row does not fit the matrix, or a value has no logarithm.
            NotFound: There is no such column.
        """
        values = row if isinstance(row, np.ndarray) else self.matrix.row_of(row)
        if self._kernel is not None and values.ndim == 1:
            found = self._kernel.fold_in(np.ascontiguousarray(values, np.float64))
            if found is not None:
                return self._told(*found)
        return self.reference(values)

    def predict_many(self, rows: Iterable[Array | Mapping[str, float]]) -> list[RowPrediction]:
        """Fold in a batch: as each alone, whatever the others are, and sooner.

        Args:
            rows: As for ``predict``; soonest as one array, (rows, columns). Predictions of up to
                ``BATCH`` rows share their memory.

        Raises:
            InvalidInput: A row does not fit the matrix, or a value has no logarithm.
            NotFound: There is no such column.
        """
        kernel = self._kernel
        if kernel is None:
            return [self.predict(row) for row in rows]
        predictions: list[RowPrediction] = []
        for batch in _batches(rows):
            values = self._stacked(batch)
            for row, mean, variances, logs, told in zip(
                values, *kernel.fold_in_many(values), strict=True
            ):
                predictions.append(
                    self._told(mean, variances, logs) if told else self.reference(row)
                )
        return predictions

    def reference(self, row: Array) -> RowPrediction:
        """The same by ``Learned.condition`` and NumPy, for whatever no kernel tells.

        Raises:
            InvalidInput: The row does not fit the matrix, or a value has no logarithm.
        """
        logs = self._checked(row)
        found = self._widened(logs)
        # What was never measured is never certain, and rounding makes no variance negative.
        variances = np.maximum(found.variances + self.calibration.unmeasured, MIN_VARIANCE)
        variances = np.where(np.isnan(logs), variances, 0.0)
        return self._prediction(found.mean, variances, lambda: found.covariance)

    def _widened(self, logs: Array) -> Gaussian:
        """What the estimator says, its deviations calibrated."""
        factor = self.calibration.factor(int((~np.isnan(logs)).sum()))
        return self.learned.condition(logs).scaled(factor)

    def _told(self, mean: Array, variances: Array, logs: Array) -> RowPrediction:
        """What a kernel found. It gives no covariance: that is the reference's."""
        return self._prediction(mean, variances, lambda: self._widened(logs).covariance)

    def _prediction(
        self, mean: Array, variances: Array, covariance: Callable[[], Array]
    ) -> RowPrediction:
        def whole() -> Array:
            found = covariance().copy()
            np.fill_diagonal(found, variances)
            return found

        gaussian = Gaussian(mean, whole, variances)
        return RowPrediction(self.matrix.columns, gaussian, self.matrix.transform)

    def _stacked(self, rows: Array | list[Array | Mapping[str, float]]) -> Array:
        """(rows, columns) of rows in any form."""
        if not isinstance(rows, np.ndarray):
            found = [r if isinstance(r, np.ndarray) else self.matrix.row_of(r) for r in rows]
            for row in found:
                self._check_size(row)
            rows = np.array(found, np.float64)
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
        """Another one, that knows this entry too, or knows it better."""
        return self._on(self.matrix.with_entry(row, column, value))

    def with_column(self, name: str, entries: Mapping[str, float]) -> "Recommender":
        """Another one, with one more column."""
        return self._on(self.matrix.with_column(name, entries))

    def with_row(self, name: str, group: str, row: Array) -> "Recommender":
        """Another one, that has learned from this row too."""
        return self._on(self.matrix.with_row(name, group, row))

    def _on(self, matrix: Matrix) -> "Recommender":
        return fit(self.estimator, matrix, scale=self.scale, seed=self.seed)


def _batches(
    rows: Iterable[Array | Mapping[str, float]],
) -> Iterator[Array | list[Array | Mapping[str, float]]]:
    """At most ``BATCH`` rows each; slices of what is an array."""
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
    scale: RowScale = RowScale.ARBITRARY,
    seed: int = 0,
) -> Recommender:
    """Learn from a matrix.

    Args:
        estimator: One, or its name in the registry.
        matrix: Rows without an entry are passed over; of more than ``MAX_ROWS`` those with the
            fewest are.
        scale: What a row's level says.
        seed: The same gives the same.

    Raises:
        InvalidInput: No entry is known at all, or no estimator has that name.
    """
    way = make_estimator(estimator) if isinstance(estimator, str) else estimator
    values = matrix.transformed
    usable = np.flatnonzero((~np.isnan(values)).any(axis=1))
    if not usable.size:
        raise InvalidInput("the matrix has no entry that is known; measure one at least")
    rng = np.random.default_rng(seed)
    if len(usable) > MAX_ROWS:
        entries = (~np.isnan(values[usable])).sum(axis=1) + rng.random(len(usable))
        usable = np.sort(usable[np.argsort(-entries)[:MAX_ROWS]])
    values, groups = values[usable], number_groups([matrix.groups[i] for i in usable])
    learned = way.learn(values, groups, scale, rng)
    calibration = calibrate(learned, values, groups, rng)
    return Recommender(way, matrix, scale, seed, learned, calibration)


def calibrate(
    learned: Learned, values: Array, groups: Indices, rng: np.random.Generator
) -> Calibration:
    """Leave out programs; how wide would 90% intervals have had to be?

    The factor is the 90% quantile over all left-out entries of |error| / s, over a normal's.
    """
    if len(values) > MAX_CALIBRATION_ROWS:
        rows = np.sort(rng.choice(len(values), MAX_CALIBRATION_ROWS, replace=False))
        values, groups = values[rows], groups[rows]
    ratios: dict[int, list[Array]] = {known: [] for known in CALIBRATED_COUNTS}
    if len(np.unique(groups)) > 1:
        for held in group_folds(groups, CALIBRATION_FOLDS, rng):
            training = np.setdiff1d(np.arange(len(values)), held)
            rehearsed = learned.relearn(values[training], groups[training])
            for known in CALIBRATED_COUNTS:
                ratios[known] += _ratios(rehearsed, values[held], known, rng)
    return Calibration(_factors(ratios), _unmeasured(values))


def _ratios(learned: Learned, rows: Array, known: int, rng: np.random.Generator) -> list[Array]:
    """|error| / s of the entries that were not revealed."""
    found = []
    for i, seen in zip(*draw_seen(rows, known, rng), strict=True):
        gaussian = learned.condition(masked(rows[i], seen))
        hidden = ~np.isnan(rows[i])
        hidden[seen] = False
        std = np.sqrt(np.maximum(gaussian.variances[hidden], 0.0))
        error = np.abs(gaussian.mean - rows[i])[hidden]
        found.append(error / np.maximum(std, MIN_STD))
    return found


def _unmeasured(values: Array) -> Array:
    columns = two_way(values, np.ones(len(values))).columns
    never = np.isnan(values).all(axis=0)
    between = float(np.var(columns[~never])) if (~never).sum() > 1 else UNKNOWN_STD**2
    return np.where(never, between, 0.0)


def _factors(ratios: Mapping[int, list[Array]]) -> tuple[float, ...]:
    """Per count; one that no row could rehearse takes that of its neighbor."""
    factors: list[float] = []
    for known in CALIBRATED_COUNTS:
        if ratios[known]:
            quantile = float(np.quantile(np.concatenate(ratios[known]), 0.9))
            factors.append(max(quantile / NORMAL_90, MIN_STD))
        else:
            factors.append(factors[-1] if factors else UNCALIBRATED)
    return tuple(factors)
