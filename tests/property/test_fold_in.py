"""The compiled fold-in of one Gaussian, against the same in NumPy."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from wharfinger.estimators.conditional import MIN_VARIANCE, RIDGE, Prior
from wharfinger.estimators.estimator import Finish
from wharfinger.native import Conditional


def prior_of(columns: int, ways: int, constant: int, seed: int, *, free_level: bool) -> Prior:
    """Random; its first columns never differ, and with few ways all are nearly one another's."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(columns, ways))
    factors[:constant] = 0.0
    covariance = factors @ factors.T + 1e-3 * np.diag(rng.random(columns))
    covariance[:constant] = covariance[:, :constant] = 0.0
    np.fill_diagonal(covariance, covariance.diagonal() + MIN_VARIANCE)
    return Prior(rng.normal(size=columns), covariance, free_level, float(rng.random()))


def kernel_of(prior: Prior, finish: Finish) -> Conditional:
    return Conditional(
        prior.mean, prior.covariance, prior.free_level, prior.level_variance, finish.factors,
        finish.unmeasured, finish.logarithms, RIDGE, MIN_VARIANCE,
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> tuple[Prior, np.ndarray, Finish]:
    columns = draw(st.integers(1, 30))
    seed = draw(st.integers(0, 2**32))
    prior = prior_of(
        columns,
        draw(st.integers(1, 30)),
        draw(st.integers(0, columns)),
        seed,
        free_level=draw(st.booleans()),
    )
    rng = np.random.default_rng([seed, 1])
    row = np.full(columns, np.nan)
    seen = rng.choice(columns, draw(st.integers(0, columns)), replace=False)
    row[seen] = np.exp(rng.normal(size=len(seen)))
    finish = Finish(
        rng.uniform(0.5, 2.0, columns + 1),
        np.where(rng.random(columns) < 0.3, 1.0, 0.0),
        logarithms=draw(st.booleans()),
    )
    return prior, row, finish


def check(prior: Prior, row: np.ndarray, finish: Finish) -> None:
    found = kernel_of(prior, finish).fold_in(row)
    assert found is not None
    mean, variances, values = found
    expected_values = np.log(row) if finish.logarithms else row
    expected = prior.condition(expected_values)
    known = ~np.isnan(row)
    widened = expected.variances * finish.factors[known.sum()] ** 2 + finish.unmeasured
    np.testing.assert_allclose(values, expected_values, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(mean[known], values[known])
    np.testing.assert_array_equal(variances[known], 0.0)
    assert (variances[~known] >= MIN_VARIANCE).all()
    scale = 1 + np.abs(prior.mean).max() + np.abs(expected_values[known]).max(initial=0.0)
    np.testing.assert_allclose(mean, expected.mean, atol=1e-5 * scale)
    spread = 1e-6 * (1 + prior.covariance.diagonal().max())
    np.testing.assert_allclose(variances[~known], widened[~known], atol=4 * spread, rtol=1e-5)


@given(cases())
def test_the_kernel_says_what_numpy_says(case: tuple[Prior, np.ndarray, Finish]) -> None:
    check(*case)


@given(st.integers(1, 6), st.integers(0, 2**32), st.booleans())
@example(1, 0, True)
def test_of_equal_columns_each_tells_the_other(columns: int, seed: int, free_level: bool) -> None:
    one = prior_of(columns, 3, 0, seed, free_level=free_level)
    twice = Prior(
        np.tile(one.mean, 2), np.tile(one.covariance, (2, 2)), free_level, one.level_variance
    )
    row = np.full(2 * columns, np.nan)
    row[:columns] = 1.0
    found = kernel_of(twice, Finish.nothing(2 * columns)).fold_in(row)
    assert found is not None
    np.testing.assert_allclose(found[0][columns:], 1.0, atol=1e-3)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4))
@example([1.0, 0.0, float("nan"), 2.0])
@example([1.0, -1.0, float("nan"), 2.0])
@example([1.0, float("inf"), float("nan"), 2.0])
@example([5e-324, 1e308, float("nan"), 2.0])
def test_what_is_no_value_is_told_by_nobody(values: list[float]) -> None:
    prior, row = prior_of(4, 3, 0, 0, free_level=True), np.array(values)
    for logarithms in (True, False):
        finish = Finish(np.ones(5), np.zeros(4), logarithms)
        bad = np.isinf(row).any() or (logarithms and bool((row <= 0).any()))
        assert (kernel_of(prior, finish).fold_in(row) is None) == bad


def test_a_row_of_another_length_and_a_covariance_that_is_none_are_told_by_nobody() -> None:
    prior = prior_of(4, 3, 0, 0, free_level=True)
    assert kernel_of(prior, Finish.nothing(4)).fold_in(np.ones(3)) is None
    upside_down = Prior(prior.mean, -prior.covariance, False)
    kernel = kernel_of(upside_down, Finish.nothing(4))
    assert kernel.fold_in(np.ones(4)) is None
    assert kernel.fold_in_many(np.ones((2, 4)))[3] == [False, False]
