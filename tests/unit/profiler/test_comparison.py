"""Before and after: what chance explains is not significant."""

from typing import Any

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.profiler.comparison import check_comparable, compare


def a_profile(value: float, *, error: float = 3.0, rate: float = 100.0) -> dict[str, Any]:
    score = {"value": value, "error": error}
    names = ("integer", "tlb", "l2-cache")
    rows = [{"name": name, "tolerated": score, "caused": None} for name in names]
    rows[1] = {"name": "tlb", "tolerated": None, "caused": {"value": 50.0, "error": error}}
    baseline = {"quantity": "rate_per_second", "value": rate, "error": 1.0}
    return {"sources": rows, "baseline": baseline, "tolerance": 0.05, "cpus": [0]}


def test_a_change_beyond_the_noise_is_significant_and_an_equal_one_is_not():
    changes = compare(a_profile(30.0), a_profile(60.0, rate=101.0))
    told = {(c.kind, c.source): c.is_significant for c in changes}
    assert told == {
        ("performance", ""): False,
        ("tolerated", "integer"): True,
        ("tolerated", "l2-cache"): True,
        ("caused", "tlb"): False,
    }


def test_a_program_that_is_many_times_as_fast_is_faster_for_sure():
    before, after = a_profile(30.0, rate=1.0), a_profile(30.0, rate=30.0)
    before["baseline"]["error"], after["baseline"]["error"] = 0.3, 12.0
    (performance, *_scores) = compare(before, after)
    assert performance.is_significant
    assert 0 < performance.low < performance.change < performance.high


def test_what_one_of_many_shows_by_chance_is_corrected_for():
    (_, first, *_rest) = compare(a_profile(30.0), a_profile(39.0))
    assert first.low > 0  # Alone it would pass for a change.
    assert not first.is_significant


def test_profiles_that_were_measured_otherwise_are_refused():
    with pytest.raises(InvalidInput, match=r"tolerance was 0.05, and is 0.1 now"):
        check_comparable(a_profile(30.0), "--compare: a.json", tolerance=0.1, cpus=[0])
    with pytest.raises(InvalidInput, match="no profile"):
        check_comparable([1], "--compare: a.json", tolerance=0.05, cpus=[0])
