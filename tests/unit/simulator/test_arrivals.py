"""Arrivals: ascending, as many as asked, at the stated pace."""

from pathlib import Path

import numpy as np
import pytest

from wharfinger.errors import InvalidInput
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.arrivals import (
    Arrivals,
    Bursts,
    Pattern,
    Recorded,
    arrival_times,
    base_gap,
)


def draw(arrivals: Arrivals, count: int = 4000, gap: float = 2.0) -> np.ndarray:
    return arrival_times(arrivals, count, gap, Streams(5).of("arrivals"))


@pytest.mark.parametrize(
    ("arrivals", "spread"),
    [
        (Arrivals(Pattern.REGULAR, every_seconds=2.0), 0.0),
        (Arrivals(Pattern.GAUSSIAN, every_seconds=2.0, spread_seconds=0.4), 0.4),
        (Arrivals(Pattern.POISSON, every_seconds=2.0), 2.0),
    ],
)
def test_gaps_have_their_mean_and_their_spread(arrivals: Arrivals, spread: float):
    gaps = np.diff(draw(arrivals))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(2.0, rel=0.06)
    assert gaps.std() == pytest.approx(spread, rel=0.1, abs=1e-9)


def test_regular_ones_begin_at_once_and_all_at_once_is_at_once():
    assert draw(Arrivals(Pattern.REGULAR, every_seconds=2.0), 3).tolist() == [0, 2, 4]
    assert draw(Arrivals(Pattern.AT_ONCE), 3).tolist() == [0, 0, 0]
    assert draw(Arrivals(load=0.5), 0).tolist() == []


def test_bursts_come_on_top_and_in_their_time():
    bursts = Bursts(every_seconds=100.0, size=30, within_seconds=5.0)
    times = draw(Arrivals(Pattern.REGULAR, every_seconds=2.0, bursts=bursts), 800)
    assert (np.diff(times) >= 0).all()
    assert len(times) == 800
    for start in (100, 200, 300):
        inside = ((times >= start) & (times <= start + 5)).sum()
        assert inside == 30 + 3
    assert ((times > 10) & (times < 90)).sum() == 39


def test_a_load_counts_bursts_in():
    bursts = Bursts(every_seconds=100.0, size=30)
    assert base_gap(2.0, bursts) == pytest.approx(5.0)
    assert base_gap(2.0, None) == 2.0
    with pytest.raises(InvalidInput, match="bursts of 30 every 100 s are more than the load"):
        base_gap(4.0, bursts)


def test_recorded_ones_are_taken_from_the_first(tmp_path: Path):
    path = tmp_path / "times.csv"
    path.write_text("name,when\na,70000\nb,50000\nc,51000\n")
    recorded = Arrivals(recorded=Recorded(str(path), "when", 1e-3))
    assert draw(recorded, 2).tolist() == [0, 1]
    with pytest.raises(InvalidInput, match="3 arrivals for 4 workloads; ask for fewer"):
        draw(recorded, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"every_seconds": 1.0, "load": 0.5},
        {"pattern": Pattern.AT_ONCE, "load": 0.5},
        {"pattern": Pattern.GAUSSIAN, "every_seconds": 1.0},
        {"every_seconds": 1.0, "spread_seconds": 1.0},
    ],
)
def test_what_contradicts_itself_is_refused(wrong: dict):
    with pytest.raises(InvalidInput):
        Arrivals(**wrong)
