"""Checks that hold an estimator to what its users rely on.

They fit it to made-up matrices, whole and hostile ones, the same on every machine. In a test, say
``check_recommender(MyEstimator())``:

    >>> from wharfinger.estimators.baselines import ROW_COLUMN_MEANS
    >>> from wharfinger.testing import check_recommender
    >>> check_recommender(ROW_COLUMN_MEANS)
"""

from collections.abc import Iterator

import numpy as np

from wharfinger.estimators.estimator import Estimator, RowPrediction
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.tasks import masked
from wharfinger.model.arrays import Array
from wharfinger.testing.harness import Expecting

NAN = float("nan")


def check_recommender(estimator: Estimator) -> None:
    """Hold an estimator to its promises.

    Raises:
        AssertionError: It broke one; the message says which, and on what.
    """
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        for missing in (0.0, 0.3):
            matrix = _made_up(missing)
            for scale in RowScale:
                model = fit(estimator, matrix, scale=scale, seed=1)
                _check_rows(model, Expecting(f"{estimator.name}, {scale}, {missing:.0%} missing"))
            _check_level_free(estimator, matrix)
            _check_changes(estimator, matrix)
        for what, hostile in _hostile():
            for scale in (RowScale.ARBITRARY, RowScale.COMMON):
                model = fit(estimator, hostile, scale=scale)
                _check_rows(model, Expecting(f"{estimator.name}, {scale}, {what}"))
    _check_intervals(estimator)


def _made_up(missing: float, seed: int = 0, rows: int = 14, columns: int = 7) -> Matrix:
    rng = np.random.default_rng(seed)
    logs = rng.normal(2, 1, (rows, 1)) + rng.normal(0, 0.5, columns)
    logs = logs + rng.normal(size=(rows, 1)) * rng.normal(0, 0.4, columns)
    values: Array = np.exp(logs + 0.05 * rng.normal(size=(rows, columns)))
    holes = rng.random(values.shape) < missing
    holes[:, 0] = False
    return Matrix(
        tuple(f"r{i}" for i in range(rows)),
        tuple(f"c{j}" for j in range(columns)),
        tuple(f"p{i // 2}" for i in range(rows)),
        np.where(holes, np.nan, values),
    )


def _hostile() -> Iterator[tuple[str, Matrix]]:
    """Matrices that are right and yet the end of many a formula."""
    whole = _made_up(0.0)
    names = ["x", "y", "z"]
    yield "one entry", Matrix.of({"a": [2.0]}, ["x"])
    yield "one row", Matrix.of({"a": [1.0, 2.0, 4.0]}, names)
    yield "one row with gaps", Matrix.of({"a": [1.0, NAN, NAN]}, names)
    yield "one column", Matrix.of({"a": [1.0], "b": [2.0], "c": [2.5]}, ["x"])
    yield "constant rows", Matrix.of({"a": [3.0] * 3, "b": [5.0] * 3, "c": [3.0] * 3}, names)
    yield "equal rows", Matrix.of({n: [1.0, 2.0, 3.0] for n in "abcdefgh"}, names)
    twice = np.hstack([whole.values, whole.values])
    columns = tuple(f"c{j}" for j in range(twice.shape[1]))
    yield "equal columns", Matrix(whole.rows, columns, whole.groups, twice)
    yield "one program", Matrix(whole.rows, whole.columns, ("p",) * len(whole.rows), whole.values)
    yield "a row without entries", whole.with_row("empty", "p9", np.full(7, np.nan))
    yield "a column without entries", whole.with_column("empty", {})
    blocks = {"a": [1.0, 2.0, NAN, NAN], "b": [2.0, 3.0, NAN, NAN], "c": [NAN, NAN, 5.0, 6.0]}
    yield "rows that share no column", Matrix.of(blocks, [*names, "w"])
    values = np.exp(np.log(whole.values) * 40)
    yield "huge ratios", Matrix(whole.rows, whole.columns, whole.groups, values)


def _check_rows(model: Recommender, expect: Expecting) -> None:
    """Predict from nothing, one entry, two, all; each is sound and changes nothing."""
    before = _arrays(model)
    truth = _a_row(model.matrix)
    size = len(truth)
    rows = [masked(truth, np.arange(size)[:: max(1, size // k)][:k]) for k in (1, 2, size)]
    rows.insert(0, np.full(size, np.nan))
    alone = [model.predict(row) for row in rows]
    for row, prediction in zip(rows, alone, strict=True):
        _check_sound(prediction, row, expect)
    for one, other in zip(alone, model.predict_many(rows), strict=True):
        expect(_same(one, other), "a row in a batch is predicted as alone")
    for prediction in alone:
        prediction.log_mean.fill(-1.0)
        prediction.covariance.fill(-1.0)
    after = _arrays(model)
    same = all(np.array_equal(before[k], after[k], equal_nan=True) for k in before)
    expect(same and before.keys() == after.keys(), "predicting changes nothing")


def _a_row(matrix: Matrix) -> Array:
    return np.asarray(np.exp(np.linspace(0.0, 1.0, len(matrix.columns))))


def _arrays(model: Recommender) -> dict[str, Array]:
    return {name: array.copy() for name, array in model.learned.arrays().items()}


def _same(one: RowPrediction, other: RowPrediction) -> bool:
    return np.array_equal(one.log_mean, other.log_mean) and np.array_equal(
        one.covariance, other.covariance
    )


def _check_sound(prediction: RowPrediction, row: Array, expect: Expecting) -> None:
    observed = ~np.isnan(row)
    low, high = prediction.interval_90()
    numbers = [prediction.mean, prediction.std, low, high, prediction.covariance]
    expect(all(np.isfinite(n).all() for n in numbers), "every number is finite")
    expect(
        bool(np.allclose(prediction.mean[observed], row[observed], rtol=1e-9)),
        f"a known entry, {row[observed]}, is predicted as it is, {prediction.mean[observed]}",
    )
    expect(not prediction.log_std[observed].any(), "a known entry has no deviation")
    expect(
        bool((prediction.log_std[~observed] > 0).all()),
        f"an unknown entry has a deviation above 0, {prediction.log_std}",
    )
    covariance = prediction.covariance
    expect(bool(np.allclose(covariance, covariance.T)), "the covariance is symmetric")
    least, largest = np.linalg.eigvalsh((covariance + covariance.T) / 2)[[0, -1]]
    expect(
        bool(least >= -1e-6 * max(largest, 1e-9)),
        f"no combination of entries has a negative variance, {least:g}",
    )


def _check_level_free(estimator: Estimator, matrix: Matrix) -> None:
    """Where a row's scale is arbitrary, minutes and seconds give the same."""
    factors = np.exp(np.linspace(-3, 3, len(matrix.rows)))[:, None]
    other = Matrix(matrix.rows, matrix.columns, matrix.groups, matrix.values * factors)
    model = fit(estimator, matrix, scale=RowScale.ARBITRARY)
    scaled = fit(estimator, other, scale=RowScale.ARBITRARY)
    row = masked(_a_row(matrix), np.array([1, 4]))
    ours, theirs = model.predict(row), scaled.predict(row * 60)
    expect = Expecting(f"{estimator.name}, arbitrary")
    expect(
        bool(np.allclose(ours.mean * 60, theirs.mean, rtol=1e-4)),
        "another unit changes nothing but the unit",
    )
    expect(
        bool(np.allclose(ours.log_std, theirs.log_std, rtol=1e-3)),
        "another unit changes no deviation",
    )


def _check_changes(estimator: Estimator, matrix: Matrix) -> None:
    """The same again, entries corrected, columns added: new recommenders, the old one as it was."""
    expect = Expecting(estimator.name)
    row = masked(_a_row(matrix), np.array([0, 3]))
    model = fit(estimator, matrix, scale=RowScale.COMMON, seed=3)
    first = model.predict(row)
    again = fit(estimator, matrix, scale=RowScale.COMMON, seed=3)
    expect(_same(again.predict(row), first), "the same seed gives the same")
    restored = estimator.restore(_arrays(model))
    logs = matrix.transform.forward(row)
    expect(
        np.array_equal(restored.condition(logs).mean, model.learned.condition(logs).mean),
        "what was saved predicts as before",
    )
    corrected = model.with_entry("r2", "c1", 1.0)
    fresh = fit(estimator, matrix.with_entry("r2", "c1", 1.0), scale=RowScale.COMMON, seed=3)
    expect(
        _same(corrected.predict(row), fresh.predict(row)),
        "a corrected entry is as if it had been so from the start",
    )
    forgotten = model.with_entry("r2", "c1", NAN)
    nothing = np.full_like(row, NAN)
    expect(
        not _same(forgotten.predict(nothing), corrected.predict(nothing)),
        "an entry of 1, whose logarithm is 0, is not a missing one",
    )
    wider = model.with_column("new", {"r0": 2.0, "r5": 3.0})
    expect(wider.predict({"c0": 1.0}).columns[-1] == "new", "a new column is predicted")
    expect(_same(model.predict(row), first), "a change leaves the old one as it was")


def _check_intervals(estimator: Estimator) -> None:
    """Calibrated: over new programs of one kind, 90% intervals hold most truths, not all."""
    matrix = _made_up(0.0, seed=5, rows=80, columns=8)
    old, new = matrix.take(np.arange(40)), matrix.take(np.arange(40, 80))
    model = fit(estimator, old, scale=RowScale.ARBITRARY)
    held = total = 0
    rng = np.random.default_rng(5)
    for truth in new.values:
        seen = rng.choice(8, 2, replace=False)
        low, high = model.predict(masked(truth, seen)).interval_90()
        hidden = np.delete(np.arange(8), seen)
        held += int(((low <= truth) & (truth <= high))[hidden].sum())
        total += len(hidden)
    share = held / total
    expect = Expecting(estimator.name)
    expect(0.75 <= share <= 0.99, f"90% intervals hold about 90% of the truths, not {share:.0%}")
