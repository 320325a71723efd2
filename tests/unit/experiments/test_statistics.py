"""Means and their intervals, against values that others computed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.experiments.statistics import MeanInterval, interval, t_quantile

# Two-sided 95%, 90% and 99% points of Student's t, from printed tables.
TABLE = {
    (0.95, 1): 12.7062, (0.95, 2): 4.30265, (0.95, 3): 3.18245, (0.95, 4): 2.77645,
    (0.95, 5): 2.57058, (0.95, 6): 2.44691, (0.95, 9): 2.26216, (0.95, 10): 2.22814,
    (0.95, 19): 2.09302, (0.95, 29): 2.04523, (0.95, 30): 2.04227, (0.95, 120): 1.97993,
    (0.90, 7): 1.89458, (0.99, 1): 63.6567, (0.99, 6): 3.70743, (0.99, 60): 2.66028,
}  # fmt: skip

values = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(("probability", "degrees"), TABLE)
def test_quantiles_are_those_of_the_tables(probability: float, degrees: int):
    assert t_quantile(probability, degrees) == pytest.approx(TABLE[probability, degrees], rel=5e-6)


@pytest.mark.slow
def test_with_many_degrees_it_is_the_normal_distributions():
    assert t_quantile(0.95, 100_000) == pytest.approx(1.959964 + 2.4e-5, abs=1e-6)


def test_one_degree_is_exact():
    # Cauchy's: tan(π p / 2).
    assert t_quantile(0.5, 1) == pytest.approx(1.0, rel=1e-14)
    assert t_quantile(0.99, 1) == pytest.approx(math.tan(math.pi * 0.99 / 2), rel=1e-12)


def test_an_interval_by_hand():
    # 1, 2, 3, 4, 5: mean 3, variance 2.5, so 3 ± 2.77645 × √(2.5 / 5).
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found is not None
    half = 2.776445105 * math.sqrt(0.5)
    assert (found.low, found.high) == (pytest.approx(3 - half), pytest.approx(3 + half))


def test_missing_is_not_zero():
    assert interval([None, 4.0, float("nan"), 4.0]) == MeanInterval(4.0, 4.0, 4.0)
    assert interval([None, float("inf")]) is None
    assert interval([]) is None


def test_one_value_tells_nothing_of_the_spread():
    found = interval([0.5])
    assert found == MeanInterval(0.5, None, None)
    assert found.excludes_zero is None


@pytest.mark.parametrize(
    ("found", "outside"),
    [
        (MeanInterval(1, 0.5, 1.5), True),
        (MeanInterval(-1, -1.5, -0.5), True),
        (MeanInterval(0.1, -0.1, 0.3), False),
        (MeanInterval(0.0, 0.0, 0.0), False),
        (MeanInterval(0.2, 0.2, 0.2), True),
    ],
)
def test_whether_zero_lies_outside(found: MeanInterval, outside: bool):
    assert found.excludes_zero is outside


@given(st.lists(values, min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(numbers, random):
    shuffled = random.sample(numbers, len(numbers))
    assert interval(shuffled) == interval(numbers)


@given(st.lists(values, min_size=2, max_size=12), st.sampled_from([-1.0, 2.0, -0.5, 1024.0]))
def test_scaling_scales_the_interval(numbers, factor):
    found, scaled = interval(numbers), interval([factor * each for each in numbers])
    assert found is not None
    assert scaled is not None
    ends = sorted([factor * found.low, factor * found.high])
    assert [scaled.low, scaled.high] == pytest.approx(ends, rel=1e-9, abs=1e-6)
    assert scaled.mean == factor * found.mean


def test_about_95_of_100_intervals_hold_the_truth():
    drawn = np.random.default_rng(1).normal(3.0, 1.0, (4000, 7))
    found = [interval(row.tolist()) for row in drawn]
    held = sum(each.low <= 3.0 <= each.high for each in found)
    assert 0.94 < held / len(found) < 0.96
