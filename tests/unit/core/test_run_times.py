"""How long workloads run here."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf

import pytest

from wharfinger.core.run_times import run_seconds
from wharfinger.model.queue_accounts import QueueAccount


def account(ended: list[float], placed: Sequence[float] = (), times: int = 1) -> QueueAccount:
    """Busy periods, each as often as given, and when those that run were placed."""
    names = {f"w{number}": time for number, time in enumerate(placed)}
    return QueueAccount(ended=len(ended) * times, busy_seconds=ended, placed=names)


def test_before_anything_has_run_any_order_of_magnitude_is_as_likely() -> None:
    unknown = run_seconds([], 0.0)
    steps = [after / before for before, after in pairwise(unknown)]
    assert steps == pytest.approx([steps[0]] * 5, rel=0.01)
    assert (unknown[0], unknown[-1]) == pytest.approx((20.0, 18_200.0), rel=0.02)


def test_what_runs_for_long_tells_that_workloads_are_no_short_ones() -> None:
    running = run_seconds([account([], [0.0] * 20)], 300.0)
    assert running[0] > 300.0


def test_where_all_have_ended_they_are_as_likely() -> None:
    two = [account([6.0, 1.0, 4.0], times=1000), account([2.0, 5.0, 3.0], times=1000)]
    assert run_seconds(two, 9.0) == (1, 2, 3, 4, 5, 6)


def test_the_first_to_end_are_the_short_ones() -> None:
    among_others = run_seconds([account([5.0], [0.0] * 9)], 20.0)
    assert among_others[0] == 5.0
    assert among_others[1] > 20.0, "nine of ten run for longer than 20 s"
    half = run_seconds([account([5.0], [0.0])], 20.0)
    assert half[:2] == (5.0, 5.0)
    assert half[2] > 20.0, "what is likely anyway counts as a third workload"


def test_in_the_long_run_the_ends_decide() -> None:
    seconds = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    with_services = run_seconds([account(seconds, [-1e6] * 20, times=1000)], 0.0)
    assert with_services == tuple(seconds)


@pytest.mark.parametrize("now", [0.0, -5.0])
def test_a_clock_that_was_set_back_does_no_harm(now: float) -> None:
    assert run_seconds([account([3.0], [1.0])], now)[-1] <= inf
