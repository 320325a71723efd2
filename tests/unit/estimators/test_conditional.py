"""The closed form, against the same by other ways."""

import numpy as np
import pytest

from wharfinger.estimators.conditional import Prior, predict_means


def prior(*, free_level: bool) -> Prior:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(6, 6))
    return Prior(rng.normal(size=6), factors @ factors.T, free_level, 2.0)


def row_with(entries: dict[int, float]) -> np.ndarray:
    row = np.full(6, np.nan)
    row[list(entries)] = list(entries.values())
    return row


def test_two_variables_by_hand():
    found = Prior(np.array([1.0, 2.0]), np.array([[4.0, 2.0], [2.0, 3.0]]), False).condition(
        np.array([3.0, np.nan])
    )
    np.testing.assert_allclose(found.mean, [3.0, 2.0 + 2 / 4 * 2])
    np.testing.assert_allclose(found.covariance, [[0, 0], [0, 3 - 2 * 2 / 4]], atol=1e-8)


def test_one_entry_after_another_is_both_at_once():
    whole = prior(free_level=False)
    first = whole.condition(row_with({1: 0.5}))
    then = Prior(first.mean, first.covariance, False).condition(row_with({4: -1.0}))
    both = whole.condition(row_with({1: 0.5, 4: -1.0}))
    rest = [0, 2, 3, 5]
    np.testing.assert_allclose(then.mean[rest], both.mean[rest], rtol=1e-5)
    expected = both.covariance[np.ix_(rest, rest)]
    np.testing.assert_allclose(then.covariance[np.ix_(rest, rest)], expected, rtol=1e-4, atol=1e-6)


def test_a_free_level_is_the_limit_of_an_ever_wider_one():
    free = prior(free_level=True)
    wide = Prior(free.mean, free.covariance + 1e7, False)
    row = row_with({0: 3.0, 2: 1.0})
    np.testing.assert_allclose(free.condition(row).mean, wide.condition(row).mean, rtol=1e-2)
    assert free.condition(row).covariance.diagonal() == pytest.approx(
        wide.condition(row).covariance.diagonal(), rel=1e-2, abs=1e-2
    )


def test_with_nothing_known_a_free_level_is_as_wide_as_the_known_rows():
    free = prior(free_level=True)
    found = free.condition(row_with({}))
    np.testing.assert_array_equal(found.mean, free.mean)
    np.testing.assert_array_equal(found.covariance, free.covariance + 2.0)


@pytest.mark.parametrize("free_level", [False, True])
def test_many_rows_are_each_as_alone(free_level: bool):
    whole = prior(free_level=free_level)
    rows = np.random.default_rng(1).normal(size=(5, 6))
    seen = np.array([[0, 1], [2, 5], [1, 3], [0, 5], [3, 4]])
    together = predict_means(whole, rows, seen)
    for row, columns, mean in zip(rows, seen, together, strict=True):
        alone = whole.condition(row_with({int(j): row[j] for j in columns}))
        hidden = np.setdiff1d(np.arange(6), columns)
        np.testing.assert_allclose(mean[hidden], alone.mean[hidden], rtol=1e-6)
