"""What counts as a source that does not do what it says."""

import pytest

from wharfinger.ibench.validation import Point, _problem_of


@pytest.mark.parametrize(
    ("intensity", "achieved", "left", "cpu_share", "problem"),
    [
        (40.0, 45.0, None, 0.4, ""),
        (40.0, 51.0, None, 0.4, "intensity 40: achieved 51.0, which is too much"),
        (100.0, 109.0, None, 1.0, ""),
        (100.0, 133.0, None, 1.0, "achieved 133.0, so the maximum was measured too low"),
        (80.0, 50.0, None, 0.5, "and more was to be had"),
        (80.0, 50.0, 5.0, 0.5, ""),
        (0.0, 0.0, None, 0.05, "uses 5.0% of a CPU"),
    ],
)
def test_the_margins_are_those_of_the_docs(
    intensity: float, achieved: float, left: float | None, cpu_share: float, problem: str
):
    found = _problem_of(Point(intensity, achieved, left, 1.0, cpu_share))
    assert bool(found) == bool(problem)
    assert problem in found
