"""Folding in through the public call: the kernels beside NumPy, alone and in a batch."""

import copy

import numpy as np
import pytest

from tests.support.matrices import performance
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.estimators import Matrix, Recommender, RowScale, Transform, fit, recommender
from wharfinger.estimators.recommender import BATCH
from wharfinger.estimators.tasks import masked

COMPILED = ["gaussian", pytest.param("stack", marks=pytest.mark.slow)]
NAN = float("nan")


@pytest.fixture(scope="module")
def models() -> dict[tuple[str, RowScale], Recommender]:
    return {}


@pytest.fixture(params=COMPILED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[RowScale.ARBITRARY, RowScale.COMMON])
def model(
    request: pytest.FixtureRequest, name: str, models: dict[tuple[str, RowScale], Recommender]
) -> Recommender:
    key = name, request.param
    if key not in models:
        known = performance(4, rows=14, columns=6, missing=0.2).with_column("never", {})
        models[key] = fit(name, known, scale=request.param)
    return models[key]


def rows(model: Recommender, count: int) -> np.ndarray:
    """Of any number of known entries."""
    rng = np.random.default_rng(count)
    columns = len(model.matrix.columns)
    whole = np.exp(rng.normal(size=(count, columns)))
    return np.array(
        [masked(row, rng.choice(columns, i % (columns + 1), False)) for i, row in enumerate(whole)]
    )


def test_the_kernel_says_what_numpy_says(model: Recommender) -> None:
    for row in rows(model, 16):
        found, expected = model.predict(row), model.reference(row)
        assert found.columns == expected.columns
        assert found.log_mean == pytest.approx(expected.log_mean, abs=1e-5)
        assert found.log_std**2 == pytest.approx(expected.log_std**2, abs=1e-5)
        assert found.covariance == pytest.approx(expected.covariance, abs=1e-5)
        assert (found.covariance.diagonal() == found.gaussian.variances).all()


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 3])
def test_a_batch_is_each_alone_to_the_bit(model: Recommender, count: int) -> None:
    given = rows(model, count)
    alone = [model.predict(row) for row in given]
    for batch in (model.predict_many(given), model.predict_many(iter(list(given)))):
        assert len(batch) == count
        for one, other in zip(alone, batch, strict=True):
            np.testing.assert_array_equal(one.log_mean, other.log_mean)
            np.testing.assert_array_equal(one.gaussian.variances, other.gaussian.variances)
    if count:
        np.testing.assert_array_equal(alone[-1].covariance, batch[-1].covariance)


def test_entries_by_name_are_the_same_row(model: Recommender) -> None:
    entries = {model.matrix.columns[3]: 2.0, model.matrix.columns[1]: 3.0}
    row = model.matrix.row_of(entries)
    expected = model.predict(row).log_mean
    np.testing.assert_array_equal(model.predict(entries).log_mean, expected)
    np.testing.assert_array_equal(model.predict_many([row, entries])[1].log_mean, expected)


def test_rows_in_another_form_are_the_same_row(model: Recommender) -> None:
    whole = np.arange(1, len(model.matrix.columns) + 1)
    expected = model.predict(whole.astype(np.float64)).log_mean
    apart = np.repeat(whole.astype(np.float64), 2)[::2]
    for row in (whole, whole.astype(np.float32), apart):
        np.testing.assert_array_equal(model.predict(row).log_mean, expected)
        np.testing.assert_array_equal(model.predict_many([row])[0].log_mean, expected)


def test_a_row_that_is_changed_afterwards_changes_no_prediction(model: Recommender) -> None:
    row = rows(model, 4)[3]
    expected = model.predict(row).covariance
    found = model.predict(row)
    row.fill(NAN)
    found.log_mean.fill(NAN)
    np.testing.assert_array_equal(found.covariance, expected)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({1: 0.0}, "column 'config 1': 0 is not a value of this matrix"),
        ({2: -1.5}, "column 'config 2': -1.5 is not a value"),
        ({0: float("inf")}, "column 'config 0': inf is not a value"),
    ],
)
def test_what_is_no_value_is_refused(
    model: Recommender, many: bool, change: dict[int, float], words: str
) -> None:
    row = np.full(7, NAN)
    row[list(change)] = list(change.values())
    with pytest.raises(InvalidInput, match=words):
        model.predict_many([np.ones(7), row]) if many else model.predict(row)


@pytest.mark.parametrize("shape", [(6,), (8,), (1, 7), ()])
def test_a_row_of_another_shape_is_refused(model: Recommender, shape: tuple[int, ...]) -> None:
    for call in (model.predict, lambda row: model.predict_many([row])):
        with pytest.raises(InvalidInput, match="does not fit a matrix of 7 columns"):
            call(np.ones(shape))
    with pytest.raises(InvalidInput, match="a row of 6 values does not fit"):
        model.predict_many(np.ones((2, 6)))


def test_an_unknown_column_is_named(model: Recommender) -> None:
    for call in (model.predict, lambda row: model.predict_many([row])):
        with pytest.raises(NotFound, match="the matrix has no column 'other'"):
            call({"other": 1.0})


def test_without_logarithms_zero_is_a_value(name: str) -> None:
    known = Matrix.of(
        {"a": [0.0, 1.0, -2.0], "b": [1.0, 2.5, 0.0], "c": [3.0, 3.0, 1.0]},
        ["x", "y", "z"],
        transform=Transform.IDENTITY,
    )
    model = fit(name, known)
    found = model.predict(np.array([0.0, -1.0, NAN]))
    assert found.mean[:2].tolist() == [0.0, -1.0]
    expected = model.reference(np.array([0.0, -1.0, NAN]))
    assert found.log_mean == pytest.approx(expected.log_mean, abs=1e-6)


def test_a_copy_predicts_the_same(model: Recommender) -> None:
    row = rows(model, 4)[3]
    again = copy.deepcopy(model).predict(row)
    np.testing.assert_array_equal(again.log_mean, model.predict(row).log_mean)


def test_of_very_many_rows_those_with_the_most_entries_are_learnt_from(monkeypatch) -> None:
    monkeypatch.setattr(recommender, "MAX_ROWS", 12)
    whole = performance(1, rows=12, columns=6)
    sparse = np.full((30, 6), np.nan)
    sparse[:, 0] = 1000.0
    rows = tuple(f"sparse {i}" for i in range(30)) + whole.rows
    both = Matrix(rows, whole.columns, rows, np.vstack([sparse, whole.values]))
    known = whole.row(whole.rows[0]).copy()
    known[2:] = np.nan
    own = Matrix(whole.rows, whole.columns, whole.rows, whole.values)
    expected = fit("row-column-means", own).predict(known)
    found = fit("row-column-means", both).predict(known)
    assert found.mean == pytest.approx(expected.mean)


def test_three_programs_of_few_entries_leave_a_deviation_that_has_a_number():
    values = np.full((3, 7), NAN)
    values[0] = [0.247, 0.487, 1.016, 1.0, 0.959, 1.044, 1.024]
    values[1, [0, 4]], values[2, [0, 3]] = [0.062, 1.011], [0.093, 0.742]
    columns = tuple(f"c{at}" for at in range(7))
    known = Matrix(("a", "b", "c"), columns, ("a", "b", "c"), values, Transform.LOG)
    for scale in RowScale:
        predicted = fit("gaussian", known, scale=scale).predict({"c2": 0.98})
        assert predicted.log_std.max() < 50
