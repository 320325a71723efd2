import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.native import sample_ages, stay_odds


def reference_ages(placed, now, most):
    ages, weights = [], []
    for times in placed:
        some = list(times.values())[:: -(-len(times) // most)] if times else []
        ages += [now - at if at < now else 0.0 for at in some]
        weights += [len(times) / len(some) for _ in some]
    return ages, weights


@given(st.lists(st.lists(st.floats(0, 200), max_size=40), max_size=5), st.integers(1, 45))
def test_ages_are_spread_over_each_queue(times, most):
    placed = [{f"w{at}": time for at, time in enumerate(each)} for each in times]
    for each in placed:
        each.pop("w1", None)  # a dict from which some have gone
    ages, weights = sample_ages(placed, 100.0, most)
    assert (ages.tolist(), weights.tolist()) == reference_ages(placed, 100.0, most)


def test_of_a_queue_none_can_not_be_asked_for():
    with pytest.raises(ValueError, match="0 of each"):
        sample_ages([], 1.0, 0)


@given(st.integers(0, 2**32), st.integers(0, 5), st.integers(0, 5))
def test_the_odds_of_staying_busy(seed, servers, times):
    rng = np.random.default_rng(seed)
    over = np.sort(rng.random((servers, 1 + times)), axis=1)
    over[rng.random(servers) < 0.3] = 1.0
    left = np.maximum(1.0 - over[:, :1], 1e-9)
    stays = np.minimum((1.0 - over[:, 1:]) / left, 1.0)
    released, doubt, above = stay_odds(over)
    assert released.tolist() == (1 - stays).tolist()
    assert doubt.tolist() == ((1 - stays) * stays).tolist()
    assert above.tolist() == np.maximum(stays, 1e-12).tolist()
