"""The scan over servers, against the same in plain Python."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wharfinger.native import (
    closest_fits,
    count_room,
    free_on,
    least_loaded,
    next_in_turn,
    sizes_within,
)

INT64_MAX = 2**63 - 1
# Small numbers make ties, closed and full servers common; large ones reach int64's end.
AMOUNT = st.one_of(
    st.integers(0, 4), st.integers(0, INT64_MAX), st.sampled_from([INT64_MAX - 1, INT64_MAX])
)
SERVER = st.tuples(AMOUNT, AMOUNT, AMOUNT, AMOUNT, st.integers(0, 1))
Server = tuple[int, int, int, int, int]


def scan(servers: list[Server], cpu: int, memory: int, keep: int):
    columns = list(zip(*servers, strict=True)) or [()] * 5
    arrays = [np.array(column, dtype=np.int64) for column in columns[:4]]
    accepting = np.array(columns[4], dtype=np.uint8)
    best, loads, *counts = least_loaded(*arrays, accepting, cpu, memory, keep)
    return best.tolist(), loads.tolist(), *counts


def reference(servers: list[Server], cpu: int, memory: int, keep: int):
    closed = short_of_cpu = short_of_memory = 0
    feasible = []
    for index, (capacity, allocated, memory_capacity, memory_allocated, accepting) in enumerate(
        servers
    ):
        if not accepting:
            closed += 1
        elif allocated + cpu > capacity:
            short_of_cpu += 1
        elif memory_allocated + memory > memory_capacity:
            short_of_memory += 1
        else:
            load = load_of(capacity, allocated + cpu)
            feasible.append((load, load_of(memory_capacity, memory_allocated + memory), index))
    feasible = sorted(feasible)[:keep]
    best = [index for *_, index in feasible]
    return best, [load for load, *_ in feasible], closed, short_of_cpu, short_of_memory


def load_of(capacity: int, used: int) -> float:
    return float(used) / float(capacity) if capacity else 0.0


@given(st.lists(SERVER, max_size=30), AMOUNT, AMOUNT, st.integers(1, 40))
@example([], 0, 0, 1)
@example([(INT64_MAX, INT64_MAX, 1, 0, 1)], INT64_MAX, 0, 1)
@example([(INT64_MAX, 0, INT64_MAX, 0, 1)], INT64_MAX, INT64_MAX, 1)
@example([(0, 0, 0, 0, 1)] * 3, 0, 0, 2)
def test_agrees_with_plain_python(servers, cpu, memory, keep):
    assert scan(servers, cpu, memory, keep) == reference(servers, cpu, memory, keep)


def test_no_servers_gives_nothing():
    assert scan([], 1000, 1, 10) == ([], [], 0, 0, 0)


def test_equal_servers_come_in_the_order_of_their_index():
    best, loads, *_ = scan([(4000, 1000, 8, 2, 1)] * 5, 1000, 2, 3)
    assert best == [0, 1, 2]
    assert loads == [0.5, 0.5, 0.5]


def test_equal_cpu_load_is_decided_by_memory():
    assert scan([(4000, 0, 8, 6, 1), (4000, 0, 8, 0, 1)], 1000, 1, 2)[0] == [1, 0]


def test_tells_why_servers_were_left_out():
    closed, full, no_memory, fits = (
        (9, 0, 9, 0, 0),
        (9, 9, 9, 0, 1),
        (9, 0, 9, 9, 1),
        (9, 0, 9, 0, 1),
    )
    assert scan([closed, full, no_memory, no_memory, fits], 1, 1, 5) == ([4], [1 / 9], 1, 1, 2)


def test_a_huge_keep_costs_no_memory():
    assert scan([(9, 0, 9, 0, 1)], 1, 1, INT64_MAX)[0] == [0]


def test_a_request_of_nothing_fits_a_server_that_has_nothing():
    assert scan([(0, 0, 0, 0, 1)], 0, 0, 1)[:2] == ([0], [0.0])


@pytest.mark.parametrize(
    ("cpu", "memory", "keep", "said"),
    [(1, 1, 0, "keep is 0"), (-1, 1, 1, "cpu -1"), (1, -2, 1, "memory -2")],
)
def test_wrong_calls_are_refused(cpu, memory, keep, said):
    with pytest.raises(ValueError, match=said):
        scan([(9, 0, 9, 0, 1)], cpu, memory, keep)


@pytest.mark.parametrize("short", range(5))
def test_columns_of_different_length_are_refused(short):
    columns = [np.ones(3 - (i == short), dtype=np.int64) for i in range(5)]
    columns[4] = columns[4].astype(np.uint8)
    with pytest.raises(ValueError, match="differ in length"):
        least_loaded(*columns, 0, 0, 1)


def turn(servers: list[Server], cpu: int, memory: int, keep: int, last: int):
    columns = list(zip(*servers, strict=True)) or [()] * 5
    arrays = [np.array(column, dtype=np.int64) for column in columns[:4]]
    accepting = np.array(columns[4], dtype=np.uint8)
    return next_in_turn(*arrays, accepting, cpu, memory, keep, last)


@given(st.lists(SERVER, max_size=30), AMOUNT, AMOUNT, st.integers(1, 40), st.data())
def test_the_next_in_turn_are_those_with_room_behind_the_last(servers, cpu, memory, keep, data):
    last = data.draw(st.integers(-1, max(0, len(servers) - 1)))
    with_room = sorted(scan(servers, cpu, memory, max(1, len(servers)))[0])
    in_turn = [i for i in with_room if i > last] + [i for i in with_room if i <= last]
    assert turn(servers, cpu, memory, keep, last) == in_turn[:keep]


@pytest.mark.parametrize(("keep", "last", "said"), [(0, -1, "keep is 0"), (1, 2, "last is 2 of 2")])
def test_wrong_turns_are_refused(keep, last, said):
    with pytest.raises(ValueError, match=said):
        turn([(9, 0, 9, 0, 1)] * 2, 1, 1, keep, last)


@given(st.lists(SERVER), st.sets(st.integers(1, 6)))
def test_room_is_counted_by_size(servers: list[Server], some: set[int]):
    sizes = np.array(sorted(some), dtype=np.int64)
    columns = list(zip(*servers, strict=True)) or [()] * 5
    capacity, allocated = (np.array(column, dtype=np.int64) for column in columns[:2])
    free = [have - taken for have, taken, *_, accepting in servers if accepting]
    counts = count_room(capacity, allocated, np.array(columns[4], dtype=np.uint8), sizes)
    assert counts.tolist() == [sum(each >= size for each in free) for size in sizes.tolist()]
    places = sizes.searchsorted(capacity, side="right")
    assert sizes_within(capacity, sizes).tolist() == places.tolist()
    rows = np.arange(len(servers))[::-2].copy()
    assert sizes_within(capacity, sizes, rows).tolist() == places[rows].tolist()


def test_what_is_free_on_some_servers():
    columns = np.arange(15, dtype=np.int64)[::-1].reshape(5, 3) ** 2
    free = free_on([2, 0], *columns)
    assert free == [(144.0 - 81.0, 36.0 - 9.0, 0.0), (196.0 - 121.0, 64.0 - 25.0, 4.0)]
    swapped = free_on([2], *columns[[1, 0, 3, 2, 4]])
    assert swapped == [(0.0, 0.0, 0.0)], "more is allocated than there is"
    with pytest.raises(ValueError, match="no server 3"):
        free_on([3], *columns)
    with pytest.raises(ValueError, match="length"):
        free_on([0], *columns[:4], columns[4, :2])


def test_rows_and_columns_that_are_not_there_are_refused():
    two, three = np.zeros(2, np.int64), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="no row 2"):
        sizes_within(two, two, np.array([2]))
    with pytest.raises(ValueError, match="length"):
        count_room(two, three, np.zeros(2, np.uint8), two)


def closeness(scores, residents, rows, own, z, also_beyond, load):
    """Equation 5.1 of each row as it is written down: what is lacking, the norm, the load."""
    tolerated, tolerated_variance, caused, caused_variance = scores
    own_tolerated, own_tolerated_variance, own_caused, own_caused_variance = own
    told = []
    for at, row in enumerate(rows):
        beyond, norm = also_beyond[at], 0.0
        for r in range(len(own_caused)):
            there = (tolerated[r, row], caused[r, row]) if residents[row] else (100.0, 0.0)
            theirs = there[0] - np.nan_to_num(own_caused[r])
            mine = (100.0 if np.isnan(own_tolerated[r]) else own_tolerated[r]) - there[1]
            norm += abs(theirs) + abs(mine)
            if residents[row] and not np.isnan(own_caused[r]):
                variance = tolerated_variance[r, row] + own_caused_variance[r]
                beyond += max(z * variance**0.5 - theirs, 0.0)
            if residents[row] and not np.isnan(own_tolerated[r]):
                variance = caused_variance[r, row] + own_tolerated_variance[r]
                beyond += max(z * variance**0.5 - mine, 0.0)
        told.append((beyond, norm, load[at]))
    return told


@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.sampled_from([0.0, 1.5]))
def test_the_closest_fits_are_those_of_equation_5_1(seed, servers, z):
    random = np.random.default_rng(seed)
    sources = 3
    # Multiples of 4: without deviations sums are exact, and ties are common.
    scores = [random.integers(0, 6, (sources, servers)) * 4.0 for _ in range(4)]
    scores[1], scores[3] = np.where(scores[1] > 8, 8.0, 0.0), np.where(scores[3] > 8, 8.0, 0.0)
    own = [random.integers(0, 6, sources) * 4.0 for _ in range(4)]
    own[1], own[3] = np.full(sources, 8.0), np.full(sources, 8.0)
    own[0][random.random(sources) < 0.2] = own[2][random.random(sources) < 0.2] = np.nan
    residents = random.integers(0, 2, servers)
    rows = np.flatnonzero(random.random(servers) < 0.8)
    load, also = random.integers(0, 3, len(rows)) / 2, random.integers(0, 2, len(rows)) * 4.0
    keep = int(random.integers(1, 5))
    found = closest_fits(*scores, residents, rows, *own, z, 100.0, also, load, keep)
    expected = closeness(scores, residents, rows, own, z, also, load)
    # Sums of roots are compared to within a rounding.
    order = sorted(range(len(rows)), key=lambda at: tuple(np.round(expected[at], 9)))
    best = [tuple(np.round(expected[at], 9)) for at in order[:keep]]
    assert [tuple(np.round(expected[at], 9)) for at in found.tolist()] == best
    if z == 0:
        assert found.tolist() == order[:keep]
        without = closest_fits(*scores, residents, rows, *own, z, 100.0, None, load, keep)
        none = closeness(scores, residents, rows, own, z, np.zeros(len(rows)), load)
        assert without.tolist() == sorted(range(len(rows)), key=lambda at: none[at])[:keep]


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep": 0},
        {"z": -1.0},
        {"rows": np.array([0, 2])},
        {"load": np.zeros(1)},
        {"also_beyond": np.zeros(3)},
        {"caused": np.zeros((2, 3))},
        {"own_caused": np.zeros(1)},
    ],
)
def test_a_closest_fit_of_what_does_not_belong_together_is_refused(wrong):
    two, of_each = np.zeros((2, 2)), np.zeros(2)
    names = ("tolerated", "tolerated_variance", "caused", "caused_variance")
    given = dict.fromkeys(names, two) | {f"own_{name}": of_each for name in names}
    given |= {"residents": np.zeros(2, np.int64), "rows": np.arange(2), "z": 0.0, "most": 100.0}
    given |= {"also_beyond": None, "load": of_each, "keep": 1}
    assert closest_fits(**given).tolist() == [0]
    with pytest.raises(ValueError):
        closest_fits(**given | wrong)
