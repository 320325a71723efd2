"""Contention, its curves and their inverses."""

import numpy as np
import pytest

from wharfinger.interference.bubble import (
    ExcessTime,
    Given,
    SensitivityCurve,
    contention_of,
    falling,
    first_rise,
    scale_of,
)

SIZES = [1.0, 2.0, 3.0, 4.0]
LEVELS = [0.95, 0.9, 0.9, 0.8]


def test_contention_is_the_smallest_bubble_with_that_effect():
    curve = SensitivityCurve.of(SIZES, LEVELS)
    asked = np.array([1.0, 1.05, 0.95, 0.9, 0.85, 0.8, 0.79, np.nan])
    found = curve.contention(-np.log(asked))
    assert found[:6] == pytest.approx([0, 0, 1, 2, 3.5, 4])
    assert np.isnan(found[6:]).all()


def test_reading_off_agrees_with_one_at_a_time():
    curve = SensitivityCurve.of(SIZES, LEVELS)
    for qos in np.linspace(0.75, 1.1, 71):
        one = contention_of(float(qos), SIZES, np.array(LEVELS))
        many = float(curve.contention(-np.log(np.array([qos])))[0])
        assert many == pytest.approx(one, abs=1e-8, nan_ok=True)


def test_drops_are_the_inverse_and_unknown_beyond():
    curve = SensitivityCurve.of(SIZES, LEVELS)
    drops = curve.drops(np.array([0.0, 0.5, 4.0, 5.0]))
    assert np.exp(-drops[:3]) == pytest.approx([1.0, 0.975, 0.8])
    assert np.isnan(drops[3])


def test_a_flat_part_gives_a_wide_interval():
    curve = SensitivityCurve.of(SIZES, LEVELS, [0.001] * 4)
    low, high = curve.interval(-np.log(0.9), 0.001)
    assert low < SIZES[1]
    assert high >= SIZES[2]


def test_an_interval_beyond_the_curve_has_no_end():
    curve = SensitivityCurve.of(SIZES, LEVELS)
    low, high = curve.interval(-np.log(0.81), 0.05)
    assert low < 4 and np.isnan(high)


def test_noise_is_evened_out_and_a_clear_rise_is_found():
    assert falling(np.array([1.0, 0.8, 0.9, 0.7]), np.ones(4)).tolist() == pytest.approx(
        [1.0, 0.85, 0.85, 0.7]
    )
    assert first_rise(np.array([0.9, 0.89, 0.9]), np.full(3, 0.01)) is None
    assert first_rise(np.array([0.9, 0.7, 0.9]), np.full(3, 0.01)) == (1, 2)


@pytest.mark.parametrize("scale", [ExcessTime(), Given(5.0), SensitivityCurve.of(SIZES, LEVELS)])
def test_scales_are_kept(scale: ExcessTime | Given | SensitivityCurve):
    again = scale_of(scale.state())
    drops = np.array([0.0, 0.05, 0.1])
    assert again.unit == scale.unit
    assert again.contention(drops).tolist() == scale.contention(drops).tolist()
    assert again.drops(again.contention(drops)) == pytest.approx(drops)
