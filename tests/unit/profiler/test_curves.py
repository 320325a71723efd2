"""From rounds to a score and a verdict; errors hold what rounds differ by."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.ibench.ramp import CurvePoint
from wharfinger.profiler.curves import Found, Verdict, monotone, pooled, sensitivity

TOLERANCE = 0.05


def a_round(*ratios: float, score: float = 100.0, step: float = 0.0, error: float = 0.01) -> Found:
    points = [CurvePoint(10.0 * at, ratio, error, 3) for at, ratio in enumerate(ratios, 1)]
    return Found(score, step, 1.0 if step else 0.0, not step, tuple(points))


def test_a_drop_that_is_beyond_the_noise_is_a_score():
    found = sensitivity([a_round(0.99, 0.80, score=13.0, step=10.0)] * 2, TOLERANCE)
    assert found.verdict is Verdict.SLOWED
    assert found.tolerated is not None
    assert found.tolerated.value == 13.0
    assert found.is_sure


def test_performance_that_is_kept_up_to_the_end_is_a_bound():
    found = sensitivity([a_round(*[1.0] * 10)] * 2, TOLERANCE)
    assert found.verdict is Verdict.KEPT
    assert found.tolerated is not None
    assert found.tolerated.censored


def test_one_round_is_never_sure():
    assert not sensitivity([a_round(*[1.0] * 10)], TOLERANCE).is_sure


def test_what_the_noise_hides_is_no_signal_and_says_why():
    found = sensitivity([a_round(0.99, 0.90, score=15.0, step=10.0, error=0.2)], TOLERANCE)
    assert found.verdict is Verdict.NO_SIGNAL
    assert found.tolerated is None
    assert "at intensity 20 it keeps 90.0% ± 39.2%" in found.reason


def test_a_ramp_that_had_to_stop_is_no_signal():
    found = sensitivity([a_round(1.0, 1.0, score=20.0)], TOLERANCE)
    assert found.verdict is Verdict.NO_SIGNAL
    assert "time was over" in found.reason


def test_rounds_that_differ_widen_the_error():
    first, second = a_round(0.9, error=0.001), a_round(0.7, error=0.001)
    (point,) = pooled([first.points, second.points])
    assert point.relative_performance == pytest.approx(0.8)
    assert point.standard_error > 0.09


@given(st.lists(st.floats(0, 2), min_size=1, max_size=10))
def test_a_fitted_curve_never_rises_and_keeps_the_mean(ratios: list[float]):
    fitted = monotone(a_round(*ratios).points)
    assert all(a >= b - 1e-12 for a, b in pairwise(fitted))
    assert abs(sum(fitted) - sum(ratios)) < 1e-9
