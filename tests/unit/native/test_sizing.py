"""The passes that quasar makes over servers, beside the same in NumPy: equal to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.native import (
    add_exceeded,
    first_enough,
    first_enough_on,
    judge_room,
    sum_drops,
)


def reference_first(medians, variances, drop, drop_variance, z):
    low = medians[:, None] - z * np.sqrt(variances[:, None] + drop_variance)
    enough = low >= drop
    return np.where(enough.any(axis=0), enough.argmax(axis=0), len(medians))


@given(
    st.integers(0, 2**32),
    st.integers(1, 80),
    st.sampled_from([-0.5, 0.0, 0.84, 3.0]),
    st.booleans(),
)
def test_the_first_size_that_is_enough(seed, sizes, z, rising):
    rng = np.random.default_rng(seed)
    medians = np.round(rng.normal(0, 0.5, sizes), 1)
    if rising:
        medians.sort()
    variances = rng.choice([0.0, 0.01, 0.3], sizes)
    # Some servers are alike, and some where it is just enough.
    drop = np.concatenate([np.zeros(3), np.round(rng.normal(0, 0.6, 40), 1), rng.normal(0, 1, 40)])
    doubt = np.concatenate([np.zeros(3), rng.choice([0.0, 0.02], 40), rng.random(40)])
    found = first_enough(medians, variances, drop, doubt, z)
    assert found.tolist() == reference_first(medians, variances, drop, doubt, z).tolist()


def test_no_size_and_no_server():
    none, one = np.zeros(0), np.zeros(1)
    assert first_enough(none, none, one, one, 0.8).tolist() == [0]
    assert first_enough(one, one, none, none, 0.8).tolist() == []
    with pytest.raises(ValueError, match="length"):
        first_enough(one, none, one, one, 0.8)


@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.84]))
def test_scores_that_are_exceeded(seed, causes, tolerates, z):
    rng = np.random.default_rng(seed)
    tolerated, caused = rng.integers(0, 100, (2, 50)).astype(float)
    doubt, doubt_of_caused = rng.choice([0.0, 25.0], (2, 50))
    residents = rng.integers(0, 2, 50)
    own_caused, own_tolerated = ((float(m), 9.0) for m in rng.integers(0, 100, 2))
    exceeded, norm = rng.random((2, 50))
    over, difference = exceeded.copy(), np.zeros(50)
    if causes:
        d1 = tolerated - own_caused[0]
        low = d1 - z * np.sqrt(doubt + own_caused[1])
        by = np.where(residents > 0, np.maximum(-low, 0), 0)
        difference = difference + d1
    else:
        by = np.zeros(50)
    if tolerates:
        d2 = own_tolerated[0] - caused
        low = d2 - z * np.sqrt(doubt_of_caused + own_tolerated[1])
        by = by + np.where(caused > 0, np.maximum(-low, 0), 0)
        difference = difference + d2
    over, wanted = over + by, norm + np.abs(difference)
    own = own_caused if causes else None, own_tolerated if tolerates else None
    columns = tolerated, doubt, caused, doubt_of_caused, residents
    add_exceeded(*columns, *own, z, exceeded, norm)
    assert exceeded.tolist() == over.tolist()
    assert norm.tolist() == wanted.tolist()


@given(st.integers(0, 2**32), st.floats(0.01, 0.5), st.floats(1, 50), st.integers(0, 9))
def test_the_drops_by_sources(seed, per_point, least, servers):
    rng = np.random.default_rng(seed)
    caused, doubt = rng.random((2, 4, servers)) * 100
    tolerated, std = rng.random((2, 4)) * 100
    tolerated[rng.random(4) < 0.3] = np.nan
    wanted, wanted_variance = np.zeros((2, servers))
    for at in np.flatnonzero(~np.isnan(tolerated)):
        score = max(tolerated[at], least)
        slope = per_point / score
        pressed = caused[at] * np.minimum(caused[at] / score, 1.0)
        steep = np.minimum(2.0 * caused[at] / score, 1.0)
        wanted += slope * pressed
        own = slope * pressed / score * std[at]
        wanted_variance += slope**2 * (doubt[at] * steep**2) + own * own
    wanted = np.minimum(wanted, 0.3)
    wanted_variance = np.minimum(wanted_variance, 0.02)
    given = caused, doubt, tolerated, std, per_point, least, 0.3, 0.02
    drop, variance = sum_drops(*given)
    assert drop.tolist() == wanted.tolist()
    assert variance.tolist() == wanted_variance.tolist()
    rows = np.flatnonzero(rng.random(servers) < 0.5)[::-1].copy()
    drop, variance = sum_drops(*given, rows)
    assert drop.tolist() == wanted[rows].tolist()
    assert variance.tolist() == wanted_variance[rows].tolist()


def test_columns_of_other_lengths_are_refused():
    two, three = np.zeros(2), np.zeros(3)
    of_two = np.zeros((2, 2))
    with pytest.raises(ValueError, match="length"):
        sum_drops(of_two, of_two, two, three, 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="one behind another"):
        sum_drops(of_two.T, of_two, two, two, 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="no row 2"):
        sum_drops(of_two, of_two, two, two, 1.0, 1.0, 1.0, 1.0, np.array([1, 2]))
    with pytest.raises(ValueError, match="length"):
        add_exceeded(two, two, two, two, np.zeros(3, np.int64), None, None, 0.8, two, two)


@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from([-0.5, 0.0, 0.84]))
def test_the_first_size_where_each_platform_has_its_own_curve(seed, sizes, z):
    rng = np.random.default_rng(seed)
    medians = np.round(rng.normal(0, 0.5, (3, sizes)), 1)
    variances = rng.choice([0.0, 0.01, 0.3], (3, sizes))
    platform = rng.integers(0, 3, 40)
    drop, doubt = np.round(rng.normal(0, 0.6, 40), 1), rng.choice([0.0, 0.02], 40)
    found = first_enough_on(medians, variances, platform, drop, doubt, z)
    for at in range(3):
        rows = np.flatnonzero(platform == at)
        alone = first_enough(medians[at], variances[at], drop[rows], doubt[rows], z)
        assert found[rows].tolist() == alone.tolist()
    with pytest.raises(ValueError, match="no platform"):
        first_enough_on(medians, variances, platform + 3, drop, doubt, z)


@given(st.integers(0, 2**32), st.booleans())
def test_why_a_server_has_no_room(seed, nothing_fits):
    rng = np.random.default_rng(seed)
    need, capacity, allocated = rng.integers(0, 4, (3, 60))
    memory_capacity, memory_allocated = rng.integers(1, 4, 60), rng.integers(0, 3, 60)
    accepting, usable, unsettled = rng.integers(0, 2, (3, 60)).astype(np.uint8)
    reasons = np.full(60, 5)
    reasons[unsettled > 0] = 4
    full = (allocated + need > capacity) | (memory_allocated + 2 > memory_capacity)
    reasons[full] = 3
    too_large = (need > capacity) | (memory_capacity < 2)
    reasons[too_large | ((need == 0) & (not nothing_fits))] = 2
    reasons[usable == 0] = 1
    reasons[accepting == 0] = 0
    columns = capacity, allocated, memory_capacity, memory_allocated, accepting, usable, unsettled
    assert judge_room(need, 2, *columns, nothing_fits).tolist() == reasons.tolist()
    with pytest.raises(ValueError, match="length"):
        judge_room(need[1:], 2, *columns, nothing_fits)
