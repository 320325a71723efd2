"""How searches are counted."""

import pytest

from wharfinger.model.searches import SearchCounts
from wharfinger.policies.placement.paragon_search import Searched


def test_decisions_count_by_the_sources_that_they_relaxed() -> None:
    counts = SearchCounts()
    counts.add({"cpu_needed_millicpus": 1000.0})
    assert counts.shares() == {}
    for back_tracks, levels, timed_out in (
        (0, 0, False),
        (1, 1, True),
        (3, 2, False),
        (0, 0, False),
    ):
        counts.add(Searched([0], [0.0], [0.0], back_tracks, levels, timed_out).numbers())
    assert counts == SearchCounts(2, 1, 1, timed_out=1, back_tracks=4)
    shares = counts.shares()
    assert shares["search_satisfied_fraction"] == 0.5
    assert shares["search_timed_out_fraction"] == 0.25
    relaxed = [value for name, value in shares.items() if "timed_out" not in name]
    assert sum(relaxed) == pytest.approx(1)
