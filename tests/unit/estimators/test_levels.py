"""What a row's level says, where nobody said it: ``auto``."""

from dataclasses import replace

import numpy as np
import pytest

from wharfinger.estimators import ESTIMATORS, Matrix, Recommender, RowScale, fit
from wharfinger.estimators.evaluation import EvaluationPlan
from wharfinger.estimators.levels import is_level_free, levels_of
from wharfinger.estimators.recommender import Calibration
from wharfinger.estimators.stack import likely_shares
from wharfinger.estimators.tasks import draw_seen, masked

NAN = float("nan")
CHEAP = ("column-means", "row-column-means", "nearest-neighbours", "gaussian")


def told(seed: int, rows: int = 40, columns: int = 8) -> Matrix:
    """A row's level and how its columns differ come of the same trait."""
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=(rows, 1))
    logs = trait + 0.6 * trait * rng.normal(size=columns) + rng.normal(0, 0.5, columns)
    return named(logs + 0.15 * rng.normal(size=(rows, columns)))


def untold(seed: int, rows: int = 40, columns: int = 8) -> Matrix:
    """Each row has the unit of its own input."""
    rng = np.random.default_rng(seed)
    ways = rng.normal(size=(rows, 2)) @ rng.normal(0, 0.4, size=(2, columns))
    logs = rng.normal(0, 3, (rows, 1)) + rng.normal(0, 0.5, columns) + ways
    return named(logs + 0.15 * rng.normal(size=(rows, columns)))


def named(logs: np.ndarray) -> Matrix:
    rows = tuple(f"r{i}" for i in range(len(logs)))
    return Matrix(rows, tuple(f"c{j}" for j in range(logs.shape[1])), rows, np.exp(logs))


def error(model: Recommender, truths: np.ndarray, seed: int = 0) -> float:
    """Mean distance in logarithms, two random entries known."""
    rows, seen = draw_seen(truths, 2, np.random.default_rng(seed))
    given = np.array([masked(truths[i], s) for i, s in zip(rows, seen, strict=True)])
    found = [one.log_mean for one in model.predict_many(given)]
    return float(np.nanmean(np.abs(found - np.log(truths[rows]))[np.isnan(given)]))


def errors(name: str, matrix: Matrix, known: int) -> dict[RowScale, float]:
    """Of the rows beyond the first ``known``, by scale."""
    training, rest = matrix.take(np.arange(known)), matrix.values[known:]
    return {scale: error(fit(name, training, scale=scale), rest) for scale in RowScale}


@pytest.mark.parametrize("name", CHEAP)
def test_where_levels_tell_something_auto_uses_them(name: str) -> None:
    found = errors(name, told(1, rows=80), 50)
    assert found[RowScale.AUTO] <= 1.02 * min(found.values())
    # The two means know of no columns that differ with the level.
    assert "means" in name or found[RowScale.COMMON] < 0.8 * found[RowScale.ARBITRARY]


@pytest.mark.parametrize("name", CHEAP)
def test_where_levels_tell_nothing_auto_leaves_them_out(name: str) -> None:
    found = errors(name, untold(1, rows=80), 50)
    assert found[RowScale.AUTO] <= 1.02 * min(found.values())


@pytest.mark.long
@pytest.mark.parametrize("make", [told, untold])
def test_the_default_is_within_2_percent_of_the_better(make) -> None:
    totals = dict.fromkeys(RowScale, 0.0)
    for seed in range(2):
        for scale, one in errors("stack", make(seed, rows=70), 40).items():
            totals[scale] += one
    assert totals[RowScale.AUTO] <= 1.02 * min(totals.values())


@pytest.mark.long
@pytest.mark.parametrize("columns", [4, 6])
@pytest.mark.parametrize("make", [told, untold])
def test_on_small_tables_the_default_is_no_worse_than_what_it_is_made_of(make, columns) -> None:
    totals = dict.fromkeys(("stack", *CHEAP), 0.0)
    for seed in range(4):
        matrix = make(seed, rows=87, columns=columns)
        training, rest = matrix.take(np.arange(27)), matrix.values[27:]
        for name in totals:
            totals[name] += error(fit(name, training), rest)
    assert totals["stack"] <= 1.02 * min(totals.values())


@pytest.mark.parametrize("name", [*CHEAP, "svd-pq", pytest.param("stack", marks=pytest.mark.slow)])
def test_the_same_seed_learns_the_same(name: str) -> None:
    matrix, row = told(2, rows=14, columns=5), np.array([1.0, NAN, 2.0, NAN, NAN])
    one, other = (fit(name, matrix, seed=7).predict(row) for _ in range(2))
    np.testing.assert_array_equal(one.log_mean, other.log_mean)
    np.testing.assert_array_equal(one.gaussian.variances, other.gaussian.variances)


@pytest.mark.parametrize("name", [*CHEAP, pytest.param("stack", marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [told, untold])
def test_minutes_and_seconds_learn_the_same(make, name: str) -> None:
    matrix, row = make(2, rows=14, columns=5), np.array([1.0, NAN, 2.0, NAN, NAN])
    other = replace(matrix, values=60 * matrix.values)
    ours, theirs = fit(name, matrix).predict(row), fit(name, other).predict(60 * row)
    assert theirs.mean == pytest.approx(60 * ours.mean, rel=1e-4)
    assert theirs.log_std == pytest.approx(ours.log_std, rel=1e-3)


def test_auto_is_what_is_meant_where_nothing_is_said() -> None:
    assert fit("row-column-means", told(3)).scale is RowScale.AUTO
    assert EvaluationPlan().scale is RowScale.AUTO


def test_who_says_the_scale_has_the_intervals_that_were_calibrated() -> None:
    """Where it is learnt they are as much wider as Student's t of so many programs."""
    matrix = untold(3, rows=12)
    told_it, learnt_it = (
        fit("row-column-means", matrix, scale=scale).calibration.factors
        for scale in (RowScale.ARBITRARY, RowScale.AUTO)
    )
    assert (np.array(learnt_it) > told_it).all()
    assert Calibration((1.0, 2.0), np.zeros(1)).widened(8).factors == pytest.approx(
        (1.1323, 2.2645), rel=1e-3
    )


def test_shares_follow_how_sure_the_rehearsal_is() -> None:
    rng = np.random.default_rng(0)
    programs = np.repeat(np.arange(8), 5)
    other = rng.normal(size=40)
    for worse, least, most in ((3.0, 0.95, 1.0), (1.0, 0.4, 0.6), (0.2, 0.0, 0.05)):
        second = likely_shares(np.array([worse * other, other]), programs)[1]
        assert least <= second <= most


def test_ten_runs_of_one_program_are_one_witness() -> None:
    """The same errors of programs that are each their own are surer."""
    errors = np.array([[1.0] * 10 + [0.0] * 2, [0.0] * 10 + [1.0] * 2])
    of_few = np.array([0] * 10 + [1, 2])
    assert likely_shares(errors, of_few)[1] < likely_shares(errors, np.arange(12))[1]


@pytest.mark.parametrize(
    "matrix",
    [
        Matrix.of({"a": [1.0, 2.0]}, ["x", "y"]),
        Matrix.of({"a": [1.0], "b": [2.0]}, ["x"]),
        Matrix.of({"a": [1.0, NAN], "b": [NAN, 2.0], "c": [3.0, NAN]}, ["x", "y"]),
    ],
)
def test_where_nothing_can_be_held_out_levels_say_nothing(matrix: Matrix) -> None:
    def learn(values, groups, *, free_level):
        return ESTIMATORS["row-column-means"].kind.learn(values, groups, free_level=free_level)

    values, groups = matrix.transformed, np.arange(len(matrix.rows))
    rng = np.random.default_rng(0)
    assert is_level_free(learn, values, groups, RowScale.AUTO, rng)
    assert levels_of(RowScale.AUTO)[0]


def test_what_is_said_is_not_learnt() -> None:
    rng = np.random.default_rng(0)
    for scale, free in ((RowScale.ARBITRARY, True), (RowScale.COMMON, False)):
        assert is_level_free(None, np.ones((2, 2)), np.arange(2), scale, rng) is free
