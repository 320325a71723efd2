"""What residents of one server make of one another's scores, as NumPy says it to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.model.arrays import Array
from wharfinger.native import press_residents, seat_residents, sum_losses

R, PER_POINT, MIN_SCORE, MAX_DROP = 17, 0.05129329438755058, 10.0, 2.3


def seated(scores: Array) -> tuple[Array, ...]:
    count, width = len(scores), scores.shape[2]
    curves, unspent = np.empty((4, count, width)), np.empty((2, width))
    drop, variance = np.empty(count), np.empty(count)
    out = *curves, drop, variance, unspent
    seat_residents(scores, PER_POINT, MIN_SCORE, MAX_DROP, *out)
    return out


def by_numpy(scores: Array) -> tuple[Array, ...]:
    tolerated, t_variance, caused, c_variance = scores.transpose(1, 0, 2)
    others = np.clip(caused.sum(axis=0) - caused, 0.0, 100.0)
    others_variance = np.maximum(c_variance.sum(axis=0) - c_variance, 0.0)
    known = np.isfinite(tolerated)
    ordered = np.where(known, tolerated - others, np.inf)
    least, at = ordered.argmin(axis=0), np.arange(scores.shape[2])
    limited = ordered[least, at] < 100.0
    unspent = np.where(limited, ordered[least, at], 100.0)
    unspent_variance = np.where(limited, (t_variance + others_variance)[least, at], 0.0)
    score = np.maximum(tolerated, MIN_SCORE)
    slope = np.where(known, PER_POINT / score, 0.0)
    doubt = np.where(known, slope * np.sqrt(t_variance) / score, 0.0)
    steep = 1.0 / np.where(known, score, 100.0)
    points = others * np.minimum(others * steep, 1.0)
    small = slope * np.minimum(2.0 * others * steep, 1.0)
    drop = np.minimum((slope * points).sum(axis=1), MAX_DROP)
    variance = (small * small * others_variance + (doubt * points) ** 2).sum(axis=1)
    return slope, doubt, steep, others, drop, variance, np.array([unspent, unspent_variance])


@given(seed=st.integers(0, 2**32), count=st.integers(1, 6), width=st.sampled_from((3, 8, R, 32)))
def test_it_is_numpys_answer(seed: int, count: int, width: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.uniform(0, 100, (count, 4, width))
    scores[random.uniform(size=(count, 4, width)) < 0.3] = 0.0
    scores[:, 0][random.uniform(size=(count, width)) < 0.3] = np.nan
    for found, expected in zip(seated(scores), by_numpy(scores), strict=True):
        assert np.array_equal(found, expected)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="of at most 32"):
        seated(np.zeros((2, 4, 33)))
    with pytest.raises(ValueError, match="not 2 residents by 17 sources"):
        seated(np.zeros((2, 3, R)))


@given(seed=st.integers(0, 2**32), count=st.sampled_from((0, 1, 7, 300, 600)))
def test_a_newcomer_takes_what_the_sums_say(seed: int, count: int) -> None:
    """Beyond a block, with sources that it leaves alone and residents that are on no server."""
    random, servers, room = np.random.default_rng(seed), 5, count + 3
    slope, doubt = (random.uniform(0, 0.1, (R, room)) for _ in range(2))
    score, borne = random.uniform(10, 100, (R, room)), random.uniform(0, 100, (R, room))
    caused, caused_variance = random.uniform(0, 60, R), random.uniform(0, 9, R)
    caused[random.uniform(size=R) < 0.5] = 0.0
    caused_variance[caused == 0] = 0.0
    margin, variance = random.normal(0, 0.3, room), random.uniform(0.01, 1, room)
    before, server = random.uniform(0, 1, room), random.integers(-1, servers + 1, room)
    drop, deviations = np.empty(count), np.empty(count)
    given_ = slope, doubt, 1 / score, borne, caused, caused_variance, MAX_DROP
    press_residents(*given_, margin, variance, drop, deviations)
    here, by_source = slice(count), np.maximum(caused, 1e-9)[:, None]
    points = _bent(borne + caused[:, None], score) - _bent(borne, score)
    expected = np.minimum((slope * points)[:, here].sum(axis=0), MAX_DROP)
    assert drop == pytest.approx(expected)
    share = np.minimum(points / by_source, 1.0)
    variances = (slope * share) ** 2 * caused_variance[:, None] + (doubt * points) ** 2
    further = variances[:, here].sum(axis=0)
    assert deviations == pytest.approx((margin[here] - drop) / np.sqrt(variance[here] + further))
    after, targets, performance = random.uniform(0, 1, count), np.zeros(servers), np.zeros(servers)
    sum_losses(before, after, drop, server, targets, performance)
    for row in range(servers):
        there = server[here] == row
        lost = np.maximum(before[here] - after, 0)[there].sum()
        assert targets[row] == pytest.approx(lost)
        assert performance[row] == pytest.approx(drop[there].sum())


def _bent(points: Array, score: Array) -> Array:
    """The points of a line that costs as much as these do on the sensitivity curve."""
    return points * np.minimum(points / score, 1.0)


def test_residents_and_sources_that_do_not_fit_are_refused() -> None:
    by_source, of_residents, four = np.zeros((R, 3)), np.zeros(3), np.zeros(4)
    sources = by_source, by_source, by_source, by_source, np.zeros(R), np.zeros(R), MAX_DROP
    with pytest.raises(ValueError, match="not 4 residents by 17 sources"):
        press_residents(*sources, of_residents, of_residents, four, four)
    at, sums = np.zeros(3, dtype=np.int64), np.zeros(2)
    with pytest.raises(ValueError, match="not 4 residents of 2 servers"):
        sum_losses(of_residents, four, four, at, sums, sums)
