"""Which entries to measure, where the answer is known."""

from itertools import combinations

import numpy as np
import pytest

from wharfinger.learning.design import most_improving, reduce, suggest, variance_design


def covariance(seed: int, size: int = 6) -> np.ndarray:
    factors = np.random.default_rng(seed).normal(size=(size, 3))
    return factors @ factors.T + 0.1 * np.eye(size)


def left(whole: np.ndarray, columns) -> float:
    for column in columns:
        whole = reduce(whole, column)
    return float(whole.trace())


@pytest.mark.parametrize("seed", range(10))
def test_two_designed_entries_are_nearly_the_best_two(seed: int):
    whole = covariance(seed)
    chosen = variance_design(whole, np.arange(6), 2)
    best = min(left(whole, pair) for pair in combinations(range(6), 2))
    assert len(set(chosen.tolist())) == 2
    assert left(whole, chosen) <= 1.1 * best


def test_only_candidates_are_chosen_and_each_once():
    candidates = np.array([1, 4])
    assert sorted(variance_design(covariance(0), candidates, 5).tolist()) == [1, 4]
    assert variance_design(covariance(0), candidates, 0).size == 0


def test_each_suggestion_leaves_less_unknown():
    found = suggest(covariance(3), np.arange(6), 3)
    assert len(found) == 3
    assert all(s.std_after < s.std_before for s in found)
    assert found[0].std_after == found[1].std_before


def test_improvement_weighs_promise_against_doubt():
    mean, candidates = np.array([1.0, 1.0, 2.0]), np.arange(3)
    assert most_improving(mean, np.array([0.1, 0.5, 0.1]), 1.0, candidates) == 1
    assert most_improving(np.array([0.2, 1.0, 2.0]), np.full(3, 0.1), 1.0, candidates) == 0
    assert most_improving(mean, np.array([0.1, 0.1, 9.0]), 1.0, candidates) == 2
