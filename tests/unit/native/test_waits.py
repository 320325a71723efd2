from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.model.arrays import normal_below
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate
from wharfinger.native import (
    BusyCurve,
    OrderedRows,
    near_best,
    needed_quality,
    refresh_quality,
    room_by_quality,
    sample_ages,
    switch_after,
    tiers_with_room,
)
from wharfinger.testing.policy import make_view


def reference_ages(began, now, most):
    ages, weights = [], []
    for times in began:
        some = times[:: -(-len(times) // most)] if times else []
        ages += [max(now - at, 0.0) for at in some]
        weights += [len(times) / len(some) for _ in some]
    return ages, weights


@given(st.lists(st.lists(st.floats(0, 200), max_size=40), max_size=5), st.integers(1, 45))
def test_ages_are_spread_over_each_queue(began, most):
    ages, weights = sample_ages(began, 100.0, most)
    assert (ages.tolist(), weights.tolist()) == reference_ages(began, 100.0, most)


def reference_releases(table, began, now, most, seconds):
    """The probability that none has come free, how many have, and the variance of that."""
    ages, weights = (np.array(each) for each in reference_ages(began, now, most))
    times, shares = table
    at = np.minimum(ages, times[-1])[:, None] + np.concatenate(([0.0], seconds))
    over = np.interp(at, *table)
    if len(times) > 1:
        rate = np.log((1 - shares[-2]) / (1 - shares[-1])) / (times[-1] - times[-2])
        beyond = 1 - (1 - shares[-1]) * np.exp(-rate * np.maximum(at - times[-1], 0.0))
        over = np.where(at > times[-1], beyond, over)
    stays = np.minimum((1.0 - over[:, 1:]) / np.maximum(1.0 - over[:, :1], 1e-9), 1.0)
    none = np.exp(weights @ np.log(np.maximum(stays, 1e-12)))
    return none, weights @ (1 - stays), weights @ ((1 - stays) * stays)


@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 12), st.integers(1, 40))
def test_when_busy_servers_come_free(seed, most, times, points):
    rng = np.random.default_rng(seed)
    table = np.sort(rng.random(points) * 100), np.sort(rng.random(points))
    queues = rng.integers(0, 40, rng.integers(1, 5)).tolist()
    began = [np.sort(1000 - 150 * rng.random(count)).tolist() for count in queues]
    seconds = np.sort(rng.random(times) * 50)
    none, mean, variance = reference_releases(table, began, 990.0, most, seconds)
    releases = BusyCurve(*table).releases(began, 990.0, most)
    assert releases.expected(seconds.tolist()) == pytest.approx(mean.tolist(), abs=1e-9)
    assert [releases.expected_by(t) for t in seconds] == releases.expected(seconds.tolist())
    assert releases.within(seconds.tolist(), 1) == pytest.approx((1 - none).tolist(), abs=1e-9)
    for position in (2, 7):
        deviations = (mean - (position - 0.5)) / np.sqrt(np.maximum(variance, 1e-12))
        counted = np.minimum(normal_below(deviations), 1 - none)
        told = releases.within(seconds.tolist(), position)
        assert told == pytest.approx(counted.tolist(), abs=1e-9)
    assert releases.expected([]) == []


def test_very_many_that_end_for_sure_leave_no_doubt():
    curve = BusyCurve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert curve.releases([[0.0] * 100], 0.5, 100).within([10.0], 1) == [1.0]


def test_of_a_queue_none_can_not_be_asked_for():
    with pytest.raises(ValueError, match="0 of each"):
        sample_ages([], 1.0, 0)
    curve = BusyCurve(np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match="0 of each"):
        curve.releases([], 1.0, 0)
    with pytest.raises(ValueError, match="as many shares"):
        BusyCurve(np.zeros(2), np.ones(1))


def reference_switch(own, other, qualities, slack, budget):
    """By equation 2 as ``policies.admission.switching`` has it."""
    waits, (better, worse) = slack * np.arange(9) / 8, qualities
    stays, goes = (
        np.array(releases.within(waits.tolist(), position)) for releases, position in (own, other)
    )
    if not (stays.any() or goes.any()):
        return None
    later = max(budget - slack, 0.0)
    first = stays * better * np.maximum(budget - waits, 0)
    value = first + (1 - stays) * goes[::-1] * worse * later
    return float(waits[value >= value.max() * (1 - 1e-9)].max())


@given(st.integers(0, 2**32), st.booleans())
def test_the_best_time_to_turn_is_the_latest_of_the_best(seed, is_same):
    rng = np.random.default_rng(seed)
    table = np.sort(rng.random(20) * 100), np.sort(rng.random(20))
    began = [np.sort(1000 - 100 * rng.random(rng.integers(1, 10))).tolist() for _ in range(2)]
    own, other = (BusyCurve(*table).releases([each], 1000.0, 8) for each in began)
    other = own if is_same else other
    positions, qualities = rng.integers(1, 12, 2).tolist(), sorted(rng.random(2), reverse=True)
    slack, budget = float(rng.random() * 60), float(rng.choice([20.0, 60.0, 1000.0]))
    asked = own, positions[0], other, positions[1], *qualities, slack, budget
    pairs = zip((own, other), positions, strict=True)
    expected = reference_switch(*pairs, qualities, slack, budget)
    assert switch_after(*asked, False) == (None if expected is None else pytest.approx(expected))


def reference_room(quality, view, cpu, memory, own, later):
    usable = (view.accepting > 0) & (view.unsettled == 0)

    def fits(allocated_cpu, allocated_memory):
        free_cpu = view.cpu_capacity - allocated_cpu >= cpu
        return usable & free_cpu & (view.memory_capacity - allocated_memory >= memory)

    now = fits(view.cpu_allocated, view.memory_allocated)
    staying = 1 - 1 / np.maximum(view.residents, 1)
    then = fits(view.cpu_allocated * staying, view.memory_allocated * staying)
    after = 1 - (1 - quality) * staying
    told = []
    for least, below in (own, later):
        has_room = bool((now & (least <= quality) & (quality < below)).any())
        useful = view.residents[then & (least <= after) & (after < below)].sum()
        told.append((has_room, float(useful) / max(int(view.residents.sum()), 1)))
    return told


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_servers_with_room_by_their_quality(seed, servers):
    random = Random(seed)
    view = make_view(random, servers)
    quality = np.array([random.choice((0.0, 0.3, 0.5, 1.0, random.random())) for _ in view.names])
    own, later = (0.5, random.choice((0.8, np.inf))), (random.choice((-np.inf, 0.3)), np.inf)
    need = random.choice((0, 500, 4000)), random.choice((0, 2**26, 2**33))
    columns = (view.accepting, view.unsettled, view.cpu_capacity, view.cpu_allocated,
               view.memory_capacity, view.memory_allocated, view.residents)  # fmt: skip
    has_room, has_later, share, later_share = room_by_quality(
        quality, *columns, *need, *own, *later
    )
    (own_now, own_then), (later_now, later_then) = reference_room(quality, view, *need, own, later)
    assert has_room == own_now
    if not own_now:
        assert (has_later, share, later_share) == (later_now, own_then, later_then)
    with pytest.raises(ValueError, match="different lengths"):
        room_by_quality(quality[1:], *columns, *need, *own, *later)
    suitable = np.array([random.random() < 0.5 for _ in view.platforms], dtype=np.uint8)
    of_suitable = np.where(suitable[view.platform] > 0, quality, np.nan)
    given = 1, view.platform, suitable
    assert room_by_quality(quality, *columns, *need, *own, *later, *given) == room_by_quality(
        of_suitable, *columns, *need, *own, *later
    )
    with pytest.raises(ValueError, match="different lengths"):
        room_by_quality(quality, *columns, *need, *own, *later, 1, None, suitable)


@pytest.mark.parametrize("order", ["in turn", "one after the other"])
def test_of_many_servers_some_tell_the_share_of_all(order: str) -> None:
    """One of which has room now is found wherever it is."""
    count, platforms, rng = 10_000, 10, np.random.default_rng(1)
    rows = np.arange(count)
    platform = rows % platforms if order == "in turn" else rows * platforms // count
    suitable = (np.arange(platforms) < 4).astype(np.uint8)
    ones, unsettled = np.ones(count, dtype=np.uint8), np.zeros(count, dtype=np.uint8)
    capacity, memory = np.full(count, 4000), np.full(count, 2**30)
    residents = rng.integers(1, 5, count)
    allocated = rng.integers(3500, 4001, count)
    columns = ones, unsettled, capacity, allocated, memory, memory // 2, residents
    asked = 1000, 2**20, 0.5, np.inf, 0.7, np.inf, 1, platform, suitable
    quality = rng.random(count)
    told = room_by_quality(quality, *columns, *asked)
    assert told[:2] == (False, False)
    staying = 1 - 1 / residents
    then = 1 - (1 - quality) * staying
    useful = (platform < 4) & (capacity - allocated * staying >= 1000)
    for share, least in zip(told[2:], (0.5, 0.7), strict=True):
        whole = residents[useful & (then >= least)].sum() / residents.sum()
        assert share == pytest.approx(whole, abs=0.05)
    allocated[4321], platform[4321], quality[4321] = 0, 0, 1.0
    assert room_by_quality(quality, *columns, *asked) == (True, False, 1.0, 1.0)


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_platforms_near_the_best_are_those_of_which_that_is_as_likely(seed, count):
    rng = np.random.default_rng(seed)
    drop, variance = rng.normal(0, 0.5, count), rng.uniform(0, 0.2, count)
    largest, longer = rng.choice([0, 1000, 4000], count), rng.uniform(0, 0.5)
    found = near_best(drop, variance, largest, 2000, longer, 0.02, 0.3)
    able = largest >= 2000
    if not able.any():
        assert found is None
        return
    ahead = np.log1p(longer) - (drop - drop[able].min())
    kept = normal_below(ahead / np.sqrt(variance + 0.02**2))
    best = kept[able].max()
    near = kept >= 0.3 * best
    if near.all():
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == near.tolist()
    with pytest.raises(ValueError, match="different lengths"):
        near_best(drop, variance[1:], largest, 2000, longer, 0.02, 0.3)


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_quality_is_worked_out_for_the_rows_that_are_named(seed, servers):
    rng = np.random.default_rng(seed)
    levels = rng.uniform(-10, 140, (4, 10, servers))
    left = (100 - np.minimum(levels[2], 100)).mean(axis=0)
    tolerated = np.clip(levels[0], 0, 100).mean(axis=0)
    quality, rows = np.full((2, servers), -1.0), np.nonzero(rng.random(servers) < 0.5)[0].tolist()
    refresh_quality(levels, rows, quality, levels.shape[1])
    expected = np.full((2, servers), -1.0)
    expected[:, rows] = np.array([left / 100, (left + tolerated) / 200])[:, rows]
    assert quality == pytest.approx(expected)
    with pytest.raises(ValueError, match="no row"):
        refresh_quality(levels, [servers], quality, levels.shape[1])


def test_what_is_unknown_of_a_workload_needs_nothing():
    ten = frozenset(list(SharedResource)[:10])
    scores = [Estimate(120.0, 1.0), Estimate(30.0, 1.0)]
    caused = dict(zip(SharedResource, scores, strict=False))
    assert needed_quality(caused, None, ten) == pytest.approx(0.13)
    assert needed_quality(caused, caused, ten) == pytest.approx((130 + 70) / 2 / 1000)
    assert needed_quality({}, {}, ten) == 0


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 5))
def test_tiers_of_servers_and_which_have_room(seed, servers, ranges):
    random = Random(seed)
    view = make_view(random, servers)
    quality = np.array([random.choice((0.0, 0.25, 0.5, 1.0, random.random())) for _ in view.names])
    bounds = [*sorted(random.choice((0.25, 0.5, random.random())) for _ in range(ranges)), np.inf]
    columns = (view.accepting, view.cpu_capacity, view.cpu_allocated, view.memory_capacity,
               view.memory_allocated)  # fmt: skip
    tiers, has_room = tiers_with_room(quality, *columns, 500, 2**26, bounds)
    usable = (view.accepting > 0) & (view.cpu_capacity - view.cpu_allocated >= 500)
    usable &= view.memory_capacity - view.memory_allocated >= 2**26
    for at, (tier, fits) in enumerate(zip(tiers, has_room, strict=True)):
        inside = (bounds[at] <= quality) & (quality < bounds[at + 1])
        assert tier.tolist() == inside.tolist()
        assert fits == (inside & usable).any()
    with pytest.raises(ValueError, match="two bounds"):
        tiers_with_room(quality, *columns, 500, 2**26, [0.0])


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_quantiles_of_rows_that_change_now_and_then(seed, rows):
    rng, ordered = np.random.default_rng(seed), OrderedRows()
    values, counts = rng.random(rows).round(1), (rng.random(rows) < 0.7).astype(np.uint8)
    shares = (np.arange(1, 5) / 5).tolist()
    for changes in (0, 1, 3, rows, 0, 2):
        at = rng.integers(0, rows, changes)
        values[at], counts[at] = rng.random(changes).round(1), rng.random(changes) < 0.7
        if rng.random() < 0.2:
            rows += 1
            values, counts = np.resize(values, rows), np.resize(counts, rows)
        told = ordered.quantiles(values, counts, shares)
        there = values[counts > 0]
        assert told == (np.quantile(there, shares).tolist() if there.size else shares)
