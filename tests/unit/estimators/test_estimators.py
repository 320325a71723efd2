"""What each estimator finds in matrices whose structure is known."""

import numpy as np
import pytest

from tests.support.matrices import pairs, performance
from wharfinger.errors import InvalidInput
from wharfinger.estimators import ESTIMATORS, Matrix, RowScale, Transform, fit
from wharfinger.estimators.effects import two_way
from wharfinger.estimators.gaussian import GaussianLearned
from wharfinger.estimators.ppca import complete

NAN = float("nan")


def additive(seed: int, rows: int = 10, columns: int = 6) -> Matrix:
    """Rows that differ by their level alone."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.normal(size=(rows, 1)) + rng.normal(size=columns))
    return Matrix.of(
        {f"r{i}": row.tolist() for i, row in enumerate(values)}, [f"c{j}" for j in range(columns)]
    )


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"svd-pq"}))
def test_rows_that_differ_by_a_factor_are_predicted_exactly(name: str):
    matrix = additive(1)
    model = fit(name, matrix)
    truth = matrix.row("r0") * 7
    found = model.predict({"c2": truth[2], "c4": truth[4]})
    np.testing.assert_allclose(found.mean, truth, rtol=1e-3)


def test_the_effects_of_a_matrix_with_gaps_are_found():
    logs = additive(2).transformed.copy()
    whole = two_way(logs, np.ones(10))
    logs[np.random.default_rng(0).random(logs.shape) < 0.3] = NAN
    found = two_way(logs, np.ones(10))
    np.testing.assert_allclose(
        found.columns - found.columns[0], whole.columns - whole.columns[0], atol=1e-6
    )


def test_gaps_of_low_rank_rows_are_completed():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12)) + 0.01 * rng.normal(size=(200, 12))
    holes = rng.random(truth.shape) < 0.4
    found = complete(np.where(holes, NAN, truth), np.ones(200))[0]
    assert np.abs(found - truth)[holes].mean() < 0.15 * np.abs(truth)[holes].mean()


def test_a_gap_adds_its_uncertainty_to_the_moments():
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(400, 4))
    gaps = np.where(rng.random(truth.shape) < 0.5, NAN, truth)
    sample = complete(gaps, np.ones(400))[1] / 400
    np.testing.assert_allclose(sample, np.eye(4), atol=0.35)


def error(name: str, matrix: Matrix, scale: RowScale) -> float:
    """Mean distance in logarithms on the last third, two entries known."""
    known = matrix.take(np.arange(len(matrix.rows) * 2 // 3))
    model = fit(name, known, scale=scale)
    errors = []
    for truth in matrix.values[len(known.rows) :]:
        row = np.full_like(truth, np.nan)
        row[[1, 7]] = truth[[1, 7]]
        found = np.abs(model.predict(row).log_mean - np.log(truth))
        errors.append(np.delete(found, [1, 7]))
    return float(np.nanmean(errors))


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("scale", [RowScale.ARBITRARY, RowScale.COMMON])
def test_where_columns_go_together_the_gaussian_beats_the_means(scale: RowScale, missing: float):
    matrix = performance(5, rows=90, missing=missing)
    assert error("gaussian", matrix, scale) < 0.9 * error("row-column-means", matrix, scale)


def test_with_few_rows_the_gaussian_is_no_worse_than_the_means():
    means, gaussian = (
        np.mean([error(name, performance(seed, rows=12), RowScale.ARBITRARY) for seed in range(8)])
        for name in ("row-column-means", "gaussian")
    )
    assert gaussian < 1.1 * means


def settings(matrix: Matrix) -> float:
    learned = fit("gaussian", matrix).learned
    assert isinstance(learned, GaussianLearned)
    return learned.settings.shrinkage


def test_pure_noise_is_shrunk_more_than_structure():
    rng = np.random.default_rng(6)
    noise = Matrix.of(
        {f"r{i}": np.exp(rng.normal(size=12)).tolist() for i in range(24)},
        [f"c{j}" for j in range(12)],
    )
    assert settings(noise) >= 0.7
    assert settings(performance(6, rows=80, noise=0.01)) <= 0.3


def test_a_relative_matrix_keeps_its_level():
    """Beside a gentle neighbour nobody slows down: under ``normalised`` 1 means 1."""
    model = fit("gaussian", pairs(7), scale=RowScale.NORMALISED)
    low, high = model.predict(np.full(16, np.nan)).interval_90()
    assert np.all(low < 1.6)
    assert np.all(high < 6)


def test_a_column_nobody_measured_is_predicted_with_doubt():
    model = fit("gaussian", performance(8).with_column("new", {}))
    found = model.predict({"config 0": 10.0, "config 1": 20.0})
    assert found.log_std[-1] > np.median(found.log_std[2:-1])


def test_without_logarithms_a_sensitivity_of_zero_is_a_value():
    rng = np.random.default_rng(9)
    rows = {f"r{i}": np.clip(rng.normal(30, 20, 5), 0, 100).tolist() for i in range(20)}
    matrix = Matrix.of(rows, list("abcde"), transform=Transform.IDENTITY)
    found = fit("gaussian", matrix, scale=RowScale.COMMON).predict({"a": 0.0})
    assert found.mean[0] == 0.0
    assert np.all(found.std[1:] > 1.0)
    assert np.all(found.std[1:] < 100.0)


def test_nothing_measured_is_refused():
    with pytest.raises(InvalidInput, match="no entry that is known"):
        fit("gaussian", Matrix.of({"a": [NAN]}, ["x"]))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (np.ones(3), "a row of 3 values does not fit a matrix of 6 columns"),
        (np.array([1, 1, 1, 1, 1, 0.0]), "column 'c5': 0 is not a value"),
        ({"c0": float("inf")}, "column 'c0': inf is not a value"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(row, words):
    with pytest.raises(InvalidInput, match=words):
        fit("row-column-means", additive(1)).predict(row)


def test_a_row_is_learned_from_once_it_is_added():
    model = fit("nearest-neighbours", additive(1))
    odd = np.exp(np.array([0.0, 5, 0, 5, 0, 5]))
    wiser = model
    for i in range(5):
        wiser = wiser.with_row(f"odd {i}", "odd", odd)
    entries = {"c0": 1.0, "c1": float(odd[1])}
    assert wiser.predict(entries).mean[5] == pytest.approx(odd[5], rel=0.05)
    assert model.predict(entries).mean[5] != pytest.approx(odd[5], rel=0.05)
