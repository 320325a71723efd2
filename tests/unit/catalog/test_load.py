"""The load generator's arithmetic: when requests come, what a window says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.catalog.listing import LOAD_REPORT
from wharfinger.catalog.programs.load import LoadSchedule, LoadWindow, main, percentile
from wharfinger.monitor.patterns import LinePattern


def times(schedule, until):
    found, second = [], 0.0
    while True:
        following = schedule.after(second)
        if following is None or following > until:
            return found
        found.append(following)
        second = following


def test_as_many_requests_come_as_the_schedule_says():
    schedule = LoadSchedule(100, ((5, 300), (8, 0), (12, 50)))
    came = times(schedule, 14)
    counts = [sum(a < t <= b for t in came) for a, b in ((0, 5), (5, 8), (8, 12), (12, 14))]
    assert all(
        abs(count - wanted) <= 2 for count, wanted in zip(counts, (500, 900, 0, 100), strict=True)
    )


def test_what_is_stalled_counts_although_it_has_not_ended():
    window = LoadWindow(3.0)
    window.add(0.5, 0.01, succeeded=True)
    window.forget(10.0)
    assert window.latencies([4.0, 1.0]) == [4.0]


def test_its_help_names_what_its_lines_tell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.argv", ["load", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "offered=RATE throughput=RATE" in " ".join(capsys.readouterr().out.split())


def test_its_report_is_read_with_and_without_what_is_offered():
    line = "throughput=200.0 latency_ms=9.31 p50_ms=3.10"
    pattern = LinePattern(LOAD_REPORT)
    answered = {"throughput": 200.0, "latency_ms": 9.31}
    assert pattern.newest([f"second=12 {line}"]) == answered
    assert pattern.newest([f"second=12 offered=210.5 {line}"]) == {"offered": 210.5, **answered}


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=50).map(sorted),
    st.floats(0.1, 99.9),
)
def test_so_many_percent_are_not_above_the_percentile(ordered, percent):
    found = percentile(ordered, percent)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= math.ceil(
        len(ordered) * percent / 100 - 1e-9
    )
