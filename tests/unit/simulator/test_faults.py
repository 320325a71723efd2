"""Outages: exponentially distributed, ordered, no two of a server at a time."""

import numpy as np
import pytest

from wharfinger.errors import InvalidInput
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.setup import Faults, Outage, draw_faults

SERVERS = [f"s-{number}" for number in range(50)]


def draw(model: Faults, horizon: float = 50_000.0):
    return draw_faults(model, SERVERS, horizon, Streams(1).of("faults"))


def test_times_between_failures_and_repairs_have_their_means():
    outages = draw(Faults(mtbf_seconds=1000.0, repair_seconds=100.0)).outages
    assert len(outages) == pytest.approx(50 * 50_000 / 1100, rel=0.06)
    assert np.mean([each.for_seconds for each in outages]) == pytest.approx(100.0, rel=0.06)
    assert [each.at_seconds for each in outages] == sorted(each.at_seconds for each in outages)
    assert all(each.at_seconds < 50_000 for each in outages)


def test_listed_ones_are_kept_and_overlaps_are_one():
    listed = (Outage("s-1", 50.0, 20.0), Outage("s-1", 10.0, 45.0), Outage("s-2", 50.0, 5.0))
    faults = draw(Faults(outages=listed, lost_answers=0.1))
    assert faults.outages == (Outage("s-1", 10.0, 60.0), Outage("s-2", 50.0, 5.0))
    assert faults.lost_answers == 0.1


def test_no_two_of_a_server_overlap():
    listed = tuple(Outage(name, 700.0, 900.0) for name in SERVERS)
    model = Faults(listed, mtbf_seconds=300.0, repair_seconds=300.0)
    free: dict[str, float] = {}
    for outage in draw(model, 5000.0).outages:
        assert outage.at_seconds > free.get(outage.server, -1.0)
        free[outage.server] = outage.at_seconds + outage.for_seconds


def test_nothing_is_drawn_where_nothing_fails():
    assert draw(Faults()).outages == ()


def test_a_server_that_is_none_and_a_flood_are_refused():
    with pytest.raises(InvalidInput, match="no server 'x-1'; they are s-0 to s-49"):
        draw(Faults(outages=(Outage("x-1", 1.0, 1.0),)))
    with pytest.raises(InvalidInput, match="about 2500000 failures in all; raise mtbf"):
        draw(Faults(mtbf_seconds=0.5, repair_seconds=0.5))
