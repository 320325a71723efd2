"""What counts as a source that does not do what it says, and what lines and pairs say."""

import pytest

from wharfinger.ibench.sampling import SourceSample
from wharfinger.ibench.sources import source_named
from wharfinger.ibench.validation import (
    INTENSITIES,
    Line,
    Point,
    SourceValidation,
    _merged,
    line_through,
    mild_share,
    ratios,
)


def point(intensity: float, achieved: float, waited: float = 0.0, cpu: float = 0.5) -> Point:
    return Point(intensity, achieved, None, 1.0, 0, cpu, waited)


def sampled(rate: float, cpu_seconds: float) -> SourceSample:
    return SourceSample(1.0, 50.0, rate, cpu_seconds, 0.0, 0)


@pytest.mark.parametrize(
    ("intensity", "achieved", "waited", "cpu", "problem"),
    [
        (40.0, 45.0, 0.0, 0.4, ""),
        (40.0, 51.0, 0.0, 0.4, "intensity 40: achieved 51.0, which is too much"),
        (40.0, 51.0, 0.3, 0.4, ""),
        (100.0, 109.0, 0.0, 1.0, ""),
        (100.0, 133.0, 0.0, 1.0, "achieved 133.0, so the maximum was measured too low"),
        (80.0, 50.0, 0.0, 0.5, "and more was to be had"),
        (80.0, 50.0, 0.3, 0.5, ""),
        (0.0, 0.0, 0.0, 0.05, "uses 5.0% of a CPU"),
    ],
)
def test_the_margins_are_those_of_the_docs(
    intensity: float, achieved: float, waited: float, cpu: float, problem: str
):
    told = point(intensity, achieved, waited, cpu).problem
    assert bool(told) == bool(problem)
    assert problem in told


def test_a_line_that_is_as_asked():
    line = line_through([point(x, x) for x in INTENSITIES])
    assert line is not None
    assert (line.slope, line.r_squared) == (pytest.approx(1.0), pytest.approx(1.0))
    assert line.max_deviation_points == 0.0


def test_a_line_tells_its_largest_deviation_from_what_was_asked():
    achieved = [x if x < 100 else 84.0 for x in INTENSITIES]
    line = line_through(list(map(point, INTENSITIES, achieved)))
    assert line is not None
    assert line.max_deviation_points == 16.0
    assert 0.9 < line.r_squared < 1.0


def test_points_at_which_others_had_the_cpu_are_no_part_of_the_line():
    bent = [point(x, min(x, 50.0), waited=max(0.0, (x - 50) / 100)) for x in INTENSITIES]
    line = line_through(bent)
    assert line is not None and line.slope == pytest.approx(1.0)
    assert line_through([each for each in bent if each.intensity in (0, 50, 70, 100)]) is None


def test_a_source_that_does_nothing_has_no_slope():
    assert line_through([point(x, 0.0) for x in INTENSITIES]) == Line(0.0, 0.0, 100.0)


def test_a_curve_that_is_no_line_is_a_problem():
    curved = tuple(point(x, 100.0 * (x / 100) ** 4, waited=0.0) for x in INTENSITIES)
    found = SourceValidation(source_named("integer"), points=curved)
    assert any("not linear" in problem for problem in found.problems)


def test_what_waited_for_the_cpu_is_no_problem():
    kept_off = tuple(point(x, x / 3, waited=x / 150, cpu=0.0) for x in INTENSITIES)
    found = SourceValidation(source_named("integer"), points=kept_off)
    assert found.problems == ()
    # A shortfall of 3 points needs no explanation: 0 to 3.
    assert found.untold == len(INTENSITIES) - 1
    assert found.line is None


def test_by_cpu_time_half_of_a_cpu_is_no_loss():
    turns = [(sampled(100.0, 1.0), sampled(49.0, 0.5)), (sampled(0.0, 0.0), sampled(1.0, 0.5))]
    assert ratios(turns, by_cpu_time=False) == [pytest.approx(0.49)]
    assert ratios(turns, by_cpu_time=True) == [pytest.approx(0.98)]


def test_passes_over_the_pairs_are_averaged():
    passes = [{"a": {"b": 1.0}, "b": {"a": 0.8}}, {"a": {"b": 0.8}, "b": {}}, {"a": {"a": 0.5}}]
    merged = _merged(passes)
    assert merged == {"a": {"a": 0.5, "b": pytest.approx(0.9)}, "b": {"a": 0.8}}
    assert mild_share(merged) == 0.5
    assert mild_share({"a": {"a": 1.0}}) is None
