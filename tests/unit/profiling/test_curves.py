"""From rounds to a score and a verdict; errors hold what rounds differ by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.profiling.crossing import CrossedLevel, CurveScore, crossing, falling
from wharfinger.profiling.curves import Reading, Verdict, curve_of, next_levels, sensitivity

TOLERANCE = 0.05


def a_round(*ratios: float, noise: float = 0.01, samples: int = 6) -> list[Reading]:
    """Alone, then at 10, 20, ...; each reading is above or below its mean by turns."""
    told = []
    for at, ratio in enumerate((1.0, *ratios)):
        told += [(10.0 * at, ratio + noise * (-1) ** turn) for turn in range(samples)]
    return told


def test_a_drop_that_is_beyond_the_noise_is_a_score():
    found = sensitivity([a_round(0.99, 0.80)] * 2, TOLERANCE)
    assert found.verdict is Verdict.SLOWED
    assert found.tolerated is not None
    assert 10 < found.tolerated.value < 17
    assert found.is_sure


def test_performance_that_is_kept_up_to_the_end_is_a_bound():
    found = sensitivity([a_round(*[1.0] * 10)] * 2, TOLERANCE)
    assert found.verdict is Verdict.KEPT
    assert found.tolerated is not None
    assert found.tolerated.at_least
    assert found.is_sure


def test_one_round_is_never_sure():
    assert not sensitivity([a_round(*[1.0] * 10)], TOLERANCE).is_sure


def test_what_the_noise_hides_is_no_signal_and_says_why():
    found = sensitivity([a_round(0.99, 0.94, noise=0.3)], TOLERANCE)
    assert found.verdict is Verdict.NO_SIGNAL
    assert found.tolerated is None
    assert "at intensity 20 it keeps 94.0% ±" in found.reason


def test_a_ramp_that_had_to_stop_is_no_signal():
    found = sensitivity([a_round(1.0, 1.0)], TOLERANCE)
    assert found.verdict is Verdict.NO_SIGNAL
    assert "time was over" in found.reason


def test_rounds_that_differ_widen_the_error():
    apart = curve_of([a_round(0.9, noise=0.001), a_round(0.7, noise=0.001)])
    alike = curve_of([a_round(0.8, noise=0.001)] * 2)
    assert apart.points[0].relative_performance == pytest.approx(0.8)
    assert apart.points[0].standard_error > 0.09
    assert alike.points[0].standard_error < 0.01


def test_a_round_without_performance_alone_says_nothing():
    assert curve_of([[(10.0, 5.0)], [(0.0, 0.0), (10.0, 1.0)]]).points == ()


def test_the_next_round_looks_around_the_score():
    found = sensitivity([a_round(0.99, 0.80)], TOLERANCE)
    levels = next_levels(found)
    assert found.tolerated is not None
    assert levels[0] < found.tolerated.value < levels[-1]
    assert next_levels(sensitivity([a_round(*[1.0] * 10)], TOLERANCE)) == ()


def test_intervals_hold_a_line_as_often_as_they_say():
    random, held, slope = np.random.default_rng(1), 0, 0.002
    at = [20.0, 30.0, 50.0]
    for _ in range(60):
        values = [1 - slope * x + 0.01 * random.standard_normal() for x in at]
        score = crossing(at, values, [0.01] * 3, 0.003, CrossedLevel(0.95, is_share=True))
        low, high = score.interval(0.9)
        held += low <= 25 <= high
    assert 46 < held < 60


def test_as_published_caused_is_what_is_left():
    score = CurveScore(30.0, (20.0, 30.0, 40.0)).turned()
    assert (score.value, score.draws) == (70.0, (60.0, 70.0, 80.0))


@given(st.lists(st.floats(0, 2), min_size=1, max_size=10))
def test_a_fitted_curve_never_rises_and_keeps_the_mean(ratios: list[float]):
    fitted = falling(np.array([ratios]), np.ones(len(ratios)))[0]
    assert (np.diff(fitted) <= 1e-12).all()
    assert abs(fitted.sum() - sum(ratios)) < 1e-9
