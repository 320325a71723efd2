"""What is kept of a load over time."""

from math import inf, nan

import msgspec
import pytest

from wharfinger.core.load_history import BUCKETS, RINGS, LoadHistory

EPOCH = 16384.0 * 100_000


def kept(values: list[float], every: float = 1.0) -> LoadHistory:
    history = LoadHistory()
    for number, value in enumerate(values):
        history = history.with_measurement(EPOCH + every * number, value)
    return history


def test_each_ring_has_the_means_of_the_one_before_and_none_grows_beyond_its_bound() -> None:
    history = kept([float(number % 4) for number in range(2_000)])
    assert history.rings[0].means[-4:] == (3.0, 0.0, 1.0, 2.0)
    assert len(history.rings[0].means) == BUCKETS
    assert set(history.rings[1].means) == {1.5}
    assert set(history.rings[2].means) == {1.5}
    assert len(kept([1.0] * 10, every=1e7).rings) <= RINGS
    assert all(len(ring.means) <= BUCKETS for ring in kept([1.0] * 1_000, every=977.0).rings)


def test_a_gap_has_no_load_and_a_long_one_leaves_nothing_of_before() -> None:
    gap = kept([10.0, 10.0]).with_measurement(EPOCH + 5, 20.0).with_measurement(EPOCH + 6, 20.0)
    assert gap.rings[0].means == (10.0, 10.0, None, None, None, 20.0)
    later = gap.with_measurement(EPOCH + 1e6, 30.0)
    assert later.rings[0].means == ()
    assert later.rings[1].means == (10.0,)


@pytest.mark.parametrize("value", [-1.0, nan, inf, -inf])
def test_what_is_no_load_is_left_out(value: float) -> None:
    before = kept([10.0, 20.0])
    assert before.with_measurement(EPOCH + 2, value) == before


def test_a_clock_that_was_set_back_or_is_none_is_borne() -> None:
    before = kept([10.0, 20.0])
    assert before.with_measurement(EPOCH - 1_000, 5.0) == before
    assert before.with_measurement(nan, 5.0) == before
    assert before.with_measurement(inf, 5.0) == before


def test_no_load_is_a_load() -> None:
    assert kept([0.0, 0.0, 4.0]).rings[0].means == (0.0, 0.0)


@pytest.mark.slow
def test_it_is_the_same_after_it_was_written_and_is_small() -> None:
    history = kept([100 / (1 + number % 7) for number in range(30_000)], every=5.0)
    written = msgspec.json.encode(history)
    assert msgspec.json.decode(written, type=LoadHistory) == history
    assert len(written) < 20_000
