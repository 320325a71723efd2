"""What the room that is taken costs those to come."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.policies.test_quasar import view_of
from wharfinger.policies.placement.fragmentation import fragmentation


def test_cpu_that_few_servers_have_for_what_others_hold_costs_most() -> None:
    """Half of what is held takes 2 CPUs, for which three servers have room, half 1 CPU."""
    view = view_of(4, 4, 4, 1, used={"s0": 2000, "s1": 1000})
    two, one = 0.5 / 4**2 / 2, 0.5 / 5**2
    assert fragmentation(view, 1000) == pytest.approx([two + one] * 3 + [one])
    assert fragmentation(view, 3000, np.array([3, 0])) == pytest.approx([3 * one, 3 * (two + one)])


def test_nothing_is_lost_where_nothing_is_held() -> None:
    assert not fragmentation(view_of(4, 1), 1000).any()


def test_a_server_that_takes_no_work_has_room_for_none() -> None:
    held = {"s0": 4000}
    view, closed = view_of(4, 4, 4, used=held), view_of(4, 4, 4, used=held)
    accepting = closed.accepting.copy()
    accepting[2] = 0
    closed = replace(closed, accepting=accepting)
    assert fragmentation(closed, 1000)[1] > fragmentation(view, 1000)[1]
