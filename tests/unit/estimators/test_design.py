"""Which entries to measure, where the answer is known."""

from itertools import chain, combinations
from math import inf, log

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wharfinger.errors import InvalidInput
from wharfinger.estimators.design import (
    DesignLimits,
    Satisfied,
    Stop,
    best_column,
    confidence_near,
    design,
    next_improvement,
    reduce,
    variance_design,
)


def covariance(seed: int, size: int = 6) -> np.ndarray:
    factors = np.random.default_rng(seed).normal(size=(size, 3))
    return factors @ factors.T + 0.1 * np.eye(size)


def left(whole: np.ndarray, columns) -> float:
    for column in columns:
        whole = reduce(whole, column)
    return float(whole.trace())


def mean_std(whole: np.ndarray, columns) -> float:
    for column in columns:
        whole = reduce(whole, column)
    return float(np.sqrt(np.clip(whole.diagonal(), 0, None)).mean())


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
    found = design(covariance(3), np.arange(6), 3)
    steps = found.suggestions
    assert len(steps) == 3
    assert all(s.std_after < s.std_before and s.gain > 0 for s in steps)
    assert steps[0].std_after == steps[1].std_before
    assert steps[0].gain > steps[1].gain > steps[2].gain
    assert (found.std, found.seconds, found.stopped) == (steps[-1].std_after, 3.0, Stop.SIZE)
    assert found.columns.tolist() == [s.column for s in steps]


def every_choice(size: int):
    return chain.from_iterable(combinations(range(size), n) for n in range(size + 1))


@example(222, 41.0)  # What is exchanged there is cheaper, and leaves room for one more.
@given(st.integers(0, 10_000), st.floats(1.0, 60.0))
def test_a_budget_is_kept_and_spent_nearly_as_well_as_can_be(seed: int, budget: float):
    whole = covariance(seed)
    seconds = np.random.default_rng(seed).uniform(1, 20, 6)
    found = design(whole, np.arange(6), 6, DesignLimits(seconds, budget))
    assert found.seconds == pytest.approx(seconds[found.columns].sum())
    assert found.seconds <= budget * (1 + 1e-6)
    assert len(set(found.columns.tolist())) == len(found.columns)
    possible = [c for c in every_choice(6) if seconds[list(c)].sum() <= budget]
    best = max(whole.trace() - left(whole, c) for c in possible)
    # The guard's promise is half of (1 - 1/e); exchanging does far better.
    assert whole.trace() - left(whole, found.columns) >= 0.7 * best - 1e-9
    if found.stopped is Stop.BUDGET:
        rest = np.setdiff1d(np.arange(6), found.columns)
        assert (seconds[rest] + found.seconds > budget).all()
    else:
        assert (found.stopped, len(found.columns)) == (Stop.SIZE, 6)


def test_what_is_cheap_goes_first_and_what_hardly_tells_is_no_bargain():
    whole = np.diag([4.0, 3.0, 0.01])
    seconds = np.array([100.0, 10.0, 0.01])
    assert best_column(whole, np.arange(3)) == 0
    assert best_column(whole, np.arange(3), seconds) == 2
    # By rate 2 comes first, and then 0 would not fit: ignoring cost is better.
    found = design(whole, np.array([0, 2]), 2, DesignLimits(seconds, 100.0))
    assert found.columns.tolist() == [0]
    assert found.stopped is Stop.BUDGET
    # Without a budget one entry is that of the greatest gain per second.
    assert design(whole, np.array([0, 1]), 1, DesignLimits(seconds)).columns.tolist() == [1]


def test_alike_seconds_change_nothing():
    for seed in range(10):
        whole = covariance(seed)
        plain, timed = (
            design(whole, np.arange(6), 3, limits)
            for limits in (None, DesignLimits(np.full(6, 7.0)))
        )
        assert plain.columns.tolist() == timed.columns.tolist()
        assert timed.seconds == 21.0
        for one, other in zip(plain.suggestions, timed.suggestions, strict=True):
            assert one.gain_per_second == pytest.approx(7 * other.gain_per_second)


@given(st.integers(0, 10_000), st.floats(0.05, 1.5))
@example(48, 0.53125)
def test_it_ends_where_it_is_enough(seed: int, enough: float):
    whole = covariance(seed)
    seconds = np.random.default_rng(seed).uniform(1, 20, 6)
    found = design(whole, np.arange(6), 6, DesignLimits(seconds, inf, enough))
    assert found.std == pytest.approx(mean_std(whole, found.columns))
    if found.stopped is Stop.ENOUGH:
        assert found.std <= enough
        assert not len(found.columns) or found.suggestions[-1].std_before > enough
    else:
        assert found.std > enough
        assert len(found.columns) == 6


def test_what_is_known_well_enough_needs_nothing():
    found = design(covariance(0), np.arange(6), 6, DesignLimits(enough=100.0))
    assert (found.suggestions, found.stopped, found.seconds) == ((), Stop.ENOUGH, 0.0)


def test_why_it_ended():
    whole = covariance(0)
    assert design(whole, np.arange(2), 6).stopped is Stop.NOTHING_LEFT
    assert design(whole, np.arange(0), 6).stopped is Stop.NOTHING_LEFT
    assert design(whole, np.arange(6), 0).stopped is Stop.SIZE
    small = design(whole, np.arange(6), 6, DesignLimits(np.full(6, 10.0), 9.0))
    assert (small.suggestions, small.stopped) == ((), Stop.BUDGET)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seconds": np.array([1.0, -2.0])}, "seconds of measuring: -2"),
        ({"seconds": np.array([1.0, np.nan])}, "seconds of measuring: nan"),
        ({"seconds": np.array([1.0, inf])}, "seconds of measuring: inf"),
        ({"budget_seconds": 0.0}, "budget: 0"),
        ({"budget_seconds": float("nan")}, "budget: nan"),
        ({"enough": -1.0}, "enough: -1"),
    ],
)
def test_limits_that_are_none_are_refused(arguments: dict[str, object], words: str):
    with pytest.raises(InvalidInput, match=words):
        DesignLimits(**arguments)  # type: ignore[arg-type]


def test_improvement_weighs_promise_against_doubt():
    mean, candidates = np.array([1.0, 1.0, 2.0]), np.arange(3)
    assert next_improvement(mean, np.array([0.1, 0.5, 0.1]), 1.0, candidates).column == 1
    assert next_improvement(np.array([0.2, 1.0, 2.0]), np.full(3, 0.1), 1.0, candidates).column == 0
    assert next_improvement(mean, np.array([0.1, 0.1, 9.0]), 1.0, candidates).column == 2


def test_improvement_per_second_weighs_cost():
    mean, std, candidates = np.array([1.0, 0.8]), np.array([0.3, 0.3]), np.arange(2)
    assert next_improvement(mean, std, 1.0, candidates).column == 1
    assert next_improvement(mean, std, 1.0, candidates, np.array([1.0, 100.0])).column == 0
    found = next_improvement(mean, std, 1.0, candidates, np.array([1.0, 100.0]))
    assert (found.column, found.stopped) == (0, None)
    # What is to be expected is told of the best, not of the cheapest.
    assert found.expected > 0.2


def test_looking_for_the_best_ends_where_little_is_to_be_gained():
    mean, std = np.array([0.0, 0.3, 0.4]), np.array([0.0, 0.1, 0.1])
    rest = np.array([1, 2])
    found = next_improvement(mean, std, 0.0, rest, satisfied=Satisfied(least_improvement=0.01))
    assert (found.column, found.stopped) == (None, Stop.IMPROVEMENT)
    assert 0 < found.expected < log(1.01)
    more = next_improvement(mean, std, 0.0, rest, satisfied=Satisfied(least_improvement=1e-6))
    assert (more.column, more.stopped) == (1, None)


def test_looking_for_the_best_ends_where_the_best_known_is_near_enough():
    mean, std = np.array([0.0, 0.2, 0.3]), np.array([0.0, 0.1, 0.1])
    rest = np.array([1, 2])
    found = next_improvement(mean, std, 0.0, rest, satisfied=Satisfied(0.0, 0.05, 0.9))
    assert (found.column, found.stopped) == (None, Stop.CONFIDENT)
    assert found.confidence > 0.9
    assert next_improvement(mean, std, 0.0, rest).stopped is None


def test_with_nothing_left_it_ends():
    found = next_improvement(np.zeros(1), np.zeros(1), 0.0, np.arange(0))
    assert (found.column, found.stopped, found.confidence) == (None, Stop.NOTHING_LEFT, 1.0)


@pytest.mark.parametrize("correlation", [-0.45, 0.0, 0.9])
def test_the_confidence_is_kept_whatever_the_correlations(correlation: float):
    mean, near = np.array([0.1, 0.15, 0.2]), 0.05
    whole = 0.01 * (correlation * np.ones((3, 3)) + (1 - correlation) * np.eye(3))
    told = confidence_near(mean, np.sqrt(whole.diagonal()), 0.0, np.arange(3), near)
    drawn = np.random.default_rng(0).multivariate_normal(mean, whole, 200_000)
    true = float((drawn.min(axis=1) >= -np.log1p(near)).mean())
    assert told <= true + 0.005
    assert told > 0.5
