"""What a program causes, by a probe: its calibration, inverted."""

import pytest

from wharfinger.profiling.crossing import CurveScore
from wharfinger.profiling.probing import ProbeCalibration, ProbeReading, caused_by, order_of


def a_calibration(full: float, noise: float = 0.01, visits: int = 4) -> list[tuple[float, float]]:
    """A probe that keeps ``full`` of its rate beside its own kind at 100."""
    signs = [(-1) ** (visit // 2) for visit in range(visits)]
    return [
        (at, 50.0 * (1 - (1 - full) * at / 100 + noise * sign))
        for sign in signs
        for at in (0.0, 25.0, 50.0, 75.0, 100.0)
    ]


def score_of(ratio: float, full: float = 0.5) -> CurveScore:
    score = caused_by(a_calibration(full), [[50 * ratio, 50.5 * ratio]] * 3)
    assert isinstance(score, CurveScore)
    return score


@pytest.mark.parametrize(("ratio", "caused"), [(0.9, 20), (0.75, 50), (0.55, 90)])
def test_the_source_that_slows_the_probe_as_much_is_what_is_caused(ratio: float, caused: float):
    score = score_of(ratio)
    low, high = score.interval(0.95)
    assert low < caused < high
    assert abs(score.value - caused) < 6


def test_a_probe_that_is_not_slowed_says_that_nothing_is_caused():
    assert score_of(1.01).value < 3
    assert score_of(1.01).interval(0.95)[0] == 0


def test_a_probe_that_is_slowed_by_more_than_a_whole_source_is_a_bound():
    score = score_of(0.3)
    assert score.at_least
    assert score.value == 100


def test_a_probe_that_its_own_kind_does_not_slow_can_not_tell():
    why = caused_by(a_calibration(0.99), [[40.0] * 6])
    assert isinstance(why, str)
    assert "beside another source of its kind" in why


def test_without_a_calibration_or_readings_there_is_a_reason():
    assert "calibration" in str(caused_by([], [[40.0]]))
    assert "time was over" in str(caused_by(a_calibration(0.5), [[], []]))


def test_rates_per_cpu_time_are_kept_apart():
    told = ProbeCalibration(((0.0, ProbeReading(10.0, 20.0)), (50.0, ProbeReading(5.0))))
    assert told.of_rate() == [(0.0, 10.0), (50.0, 5.0)]
    assert told.of_cpu_time() == [(0.0, 20.0)]
    assert len(order_of(3)) == 15
