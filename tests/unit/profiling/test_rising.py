"""Sources that rise beside what runs: pure, with performance made by hand."""

from collections.abc import Callable
from random import Random

import pytest

from wharfinger.model.interference import SharedResource
from wharfinger.profiling.rising import MAX_SAMPLES, Rising

LLC, INTEGER = SharedResource.LAST_LEVEL_CACHE, SharedResource.INTEGER


def rise(
    rising: Rising, performance: Callable[[SharedResource, float, int], float]
) -> list[tuple[SharedResource, float, float]]:
    """What was asked for, and what was read."""
    read = []
    while (wanted := rising.wanted) is not None:
        value = performance(*wanted, len(read))
        read.append((*wanted, value))
        rising.take(value, 0.9)
    return read


def test_each_source_rises_until_performance_turns() -> None:
    rising = Rising((LLC, INTEGER), 0.05)
    read = rise(rising, lambda source, at, _: 100 - at / 5 if source is LLC else 100.0)
    measured = rising.measurements({}, "p").tolerated
    assert measured[LLC].value == pytest.approx(25.0, abs=1.0)
    assert (measured[INTEGER].value, measured[INTEGER].censored) == (100.0, True)
    assert max(at for source, at, _ in read if source is LLC) <= 50.0, "no further than it turned"


def test_noise_is_no_turn() -> None:
    for seed in range(20):
        random = Random(seed)
        rising = Rising((LLC,), 0.05)
        rise(rising, lambda *_, random=random: random.gauss(100, 1.5))
        assert rising.measurements({}, "").tolerated[LLC].value >= 75.0


def test_one_reading_far_below_withdraws_at_once() -> None:
    rising = Rising((LLC,), 0.05)
    read = rise(rising, lambda _, at, __: 100.0 if at == 0 else 40.0)
    assert [at for _, at, _ in read if at > 0] == [25.0], "neither a second reading nor a next try"
    assert 0 < rising.measurements({}, "").tolerated[LLC].value <= 25.0


def test_a_change_of_phase_meanwhile_is_not_taken_for_interference() -> None:
    rising = Rising((LLC,), 0.05)
    rise(rising, lambda _, __, number: 100.0 if number < 8 else 92.0)
    assert rising.measurements({}, "").tolerated[LLC].value == 100.0


def test_a_smaller_drop_stands_for_one_of_five_percent() -> None:
    rising = Rising((LLC,), 0.02)
    rise(rising, lambda _, at, __: 100 - at / 10)
    scored = rising.measurements({}, "").tolerated[LLC]
    assert scored.value == pytest.approx(50.0, abs=3.0)
    assert scored.error > 10.0, "so far it was not looked"


def test_what_tells_nothing_is_silent_and_ends() -> None:
    rising = Rising((LLC, INTEGER), 0.05)
    rising.silence("no signal")
    rise(rising, lambda *_: 0.0)
    silent = rising.measurements({}, "").silent
    assert silent["tolerated/last-level-cache"] == "no signal"
    assert "performance alone is 0" in silent["tolerated/integer"]


def test_a_source_is_given_up_after_so_many_readings() -> None:
    random = Random(1)
    rising = Rising((LLC,), 0.05)
    assert len(rise(rising, lambda *_: random.uniform(50, 150))) <= MAX_SAMPLES
    assert rising.probed[LLC][0] <= 50.0
