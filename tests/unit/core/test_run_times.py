"""How long workloads run here."""

from collections.abc import Sequence
from math import inf

import pytest

from wharfinger.core.run_times import run_seconds
from wharfinger.model.queue_accounts import QueueAccount


def account(ended: list[float], placed: Sequence[float] = (), times: int = 1) -> QueueAccount:
    """Busy periods, each as often as given, and when those that run were placed."""
    names = {f"w{number}": time for number, time in enumerate(placed)}
    return QueueAccount(ended=len(ended) * times, busy_seconds=ended, placed=names)


def test_before_anything_has_ended_nothing_is_known() -> None:
    assert run_seconds([], 0.0) == ()
    assert run_seconds([account([], [0.0, 5.0])], 10.0) == ()


def test_where_all_have_ended_they_are_as_likely() -> None:
    two = [account([6.0, 1.0, 4.0]), account([2.0, 5.0, 3.0])]
    assert run_seconds(two, 9.0) == (1, 2, 3, 4, 5, 6)


def test_the_first_to_end_are_the_short_ones() -> None:
    among_others = run_seconds([account([5.0], [0.0] * 9)], 20.0)
    assert among_others == (5.0, *(inf,) * 5), "nine of ten run for longer than 20 s"
    half = run_seconds([account([5.0], [0.0])], 20.0)
    assert half == (5.0, 5.0, 5.0, inf, inf, inf)
    later = run_seconds([account([5.0, 8.0], [6.0] * 2)], 10.0)
    assert later == (5.0, 5.0, 5.0, 8.0, 8.0, 8.0)


def test_in_the_long_run_the_ends_decide() -> None:
    seconds = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    with_services = run_seconds([account(seconds, [-1e6] * 20, times=1000)], 0.0)
    assert with_services == tuple(seconds)


@pytest.mark.parametrize("now", [0.0, -5.0])
def test_a_clock_that_was_set_back_does_no_harm(now: float) -> None:
    assert run_seconds([account([3.0], [1.0])], now)[-1] <= inf
