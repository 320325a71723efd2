from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.model.arrays import normal_below
from wharfinger.native import BusyCurve, ServerRooms, near_best, sample_ages, switch_after
from wharfinger.policies.admission.waits import server_rooms
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
    assert [releases.expected([t])[0] for t in seconds] == releases.expected(seconds.tolist())
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
    rooms = server_rooms(view)
    has_room, has_later, share, later_share = rooms.room(quality, *need, own, later)
    (own_now, own_then), (later_now, later_then) = reference_room(quality, view, *need, own, later)
    assert has_room == own_now
    if not own_now:
        assert (has_later, share, later_share) == (later_now, own_then, later_then)
    with pytest.raises(ValueError, match="different lengths"):
        rooms.room(quality[1:], *need, own, later)
    suitable = np.array([random.random() < 0.5 for _ in view.platforms], dtype=np.bool_)
    of_suitable = np.where(suitable[view.platform], quality, np.nan)
    told = rooms.room(quality, *need, own, later, 1, suitable.tobytes())
    assert told == rooms.room(of_suitable, *need, own, later)
    with pytest.raises(ValueError, match="platforms are told"):
        rooms.room(quality, *need, own, later, 1, suitable.tobytes()[1:])


def test_columns_of_servers_have_one_length_and_are_read_again():
    ones, flags = np.full(3, 1000), np.ones(3, dtype=np.uint8)
    held, none = ones.copy(), np.zeros(3, dtype=np.int64)
    rooms = ServerRooms(flags, 0 * flags, ones, held, ones, none, none + 1, none, 1)
    asked = np.array([0.2, 0.5, 0.9]), 500, 100, (0.5, np.inf), (0.1, np.inf)
    assert rooms.room(*asked) == (False, False, 1.0, 1.0)
    held[0] = 0
    assert rooms.room(*asked) == (False, True, 1.0, 1.0)
    held[1] = 500
    assert rooms.room(*asked)[0]
    with pytest.raises(ValueError, match="different lengths"):
        ServerRooms(flags, 0 * flags, ones, held[1:], ones, none, none, none, 1)


@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0, 40), st.integers(1, 3))
def test_what_ends_places_it_with_the_probability_of_the_formula(seed, servers, turns, together):
    random = Random(seed)
    view = make_view(random, servers)
    quality = np.array([random.random() for _ in view.names])
    own, turned, need = (0.6, np.inf), (0.3, np.inf), (random.choice((0, 500, 4000)), 2**26)
    times = sorted(random.uniform(0, 50) for _ in range(5))
    ends = BusyCurve(np.array([0.0, 60.0]), np.array([0.0, 0.9])).releases([[1.0, 7.0]], 9.0, 2)
    asked = together, None, ends, times, turns, 0.5, together + 0.3 * 4
    told = server_rooms(view).served(quality, *need, own, turned, *asked)
    now, later, share, share_later = server_rooms(view).room(quality, *need, own, turned, together)
    for time, end, got in zip(times, ends.expected(times), told, strict=True):
        (at_turn,) = ends.expected([turns])
        before = min(end, at_turn)
        useful = before * share + (end - before) * share_later
        placed = now or (later and time > turns)
        assert got == (1 if placed else pytest.approx((1 - np.exp(-useful / 2)) ** asked[-1]))


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
    columns = ones, unsettled, capacity, allocated, memory, memory // 2, residents, platform
    rooms = ServerRooms(*columns, platforms)
    asked = 1000, 2**20, (0.5, np.inf), (0.7, np.inf), 1, suitable.tobytes()
    quality = rng.random(count)
    told = rooms.room(quality, *asked)
    assert told[:2] == (False, False)
    staying = 1 - 1 / residents
    then = 1 - (1 - quality) * staying
    useful = (platform < 4) & (capacity - allocated * staying >= 1000)
    for share, least in zip(told[2:], (0.5, 0.7), strict=True):
        whole = residents[useful & (then >= least)].sum() / residents.sum()
        assert share == pytest.approx(whole, abs=0.05)
    allocated[4321], platform[4321], quality[4321] = 0, 0, 1.0
    assert rooms.room(quality, *asked) == (True, False, 1.0, 1.0)


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
        assert list(found) == near.tolist()
    with pytest.raises(ValueError, match="different lengths"):
        near_best(drop, variance[1:], largest, 2000, longer, 0.02, 0.3)
