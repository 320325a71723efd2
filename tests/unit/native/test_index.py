"""The load index, against the scan that it stands for, whatever has happened to the servers."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wharfinger.native import LoadIndex, least_loaded

INT64_MAX = 2**63 - 1
# Few sizes and few amounts make large groups with many ties.
SIZE = st.sampled_from([0, 1, 2, 4, 8])
AMOUNT = st.integers(0, 9)
SERVER = st.tuples(SIZE, AMOUNT, SIZE, AMOUNT, st.integers(0, 1))
# Where rounded shares of different amounts may be equal.
HUGE = st.sampled_from([2**52 - 1, 2**52, 2**53, INT64_MAX - 1, INT64_MAX])
ANY = st.one_of(AMOUNT, HUGE, st.integers(0, INT64_MAX))
ANY_SERVER = st.tuples(ANY, ANY, ANY, ANY, st.integers(0, 1))
Server = tuple[int, int, int, int, int]


class Servers:
    """Columns and the index over them, changed as ``manager.columns`` changes them."""

    def __init__(self, servers: list[Server]) -> None:
        self.rows = 0
        self.numbers = np.zeros((4, 2), dtype=np.int64)
        self.accepting = np.zeros(2, dtype=np.uint8)
        self.index = LoadIndex()
        for server in servers:
            self.append(server)

    def append(self, server: Server) -> None:
        if self.rows == len(self.accepting):
            self.numbers = np.concatenate((self.numbers, np.zeros_like(self.numbers)), axis=1)
            self.accepting = np.concatenate((self.accepting, np.zeros_like(self.accepting)))
        self.rows += 1
        self.index.bind(*self.numbers, self.accepting, self.rows)
        self.change(self.rows - 1, server)

    def change(self, row: int, server: Server) -> None:
        self.index.touch(row)
        self.numbers[:, row], self.accepting[row] = server[:4], server[4]

    def drop(self, row: int) -> None:
        self.index.drop(row)
        self.numbers[:, row:-1] = self.numbers[:, row + 1 :]
        self.accepting[row:-1] = self.accepting[row + 1 :]
        self.rows -= 1

    def check(self, cpu: int, memory: int, keep: int, excluded: frozenset[int]) -> None:
        """The index says what one pass over the columns says."""
        there = [column[: self.rows] for column in self.numbers]
        accepting = self.accepting[: self.rows].copy()
        assert self.index.freest(cpu, memory) == freest(there, accepting, cpu, memory)
        accepting[list(excluded)] = 0
        rows, loads, *_ = least_loaded(*there, accepting, cpu, memory, keep)
        found = self.index.least_loaded(cpu, memory, keep, excluded)
        assert found == (rows.tolist(), loads.tolist())


def freest(columns, accepting, cpu: int, memory: int) -> int:
    capacity, allocated, memory_capacity, _ = columns
    large = (accepting > 0) & (capacity >= cpu) & (memory_capacity >= memory)
    rows = np.flatnonzero(large).tolist()
    return max(rows, key=lambda row: (int(capacity[row]) - int(allocated[row]), -row), default=-1)


def draw_question(data, servers: Servers, amount) -> None:
    rows = st.integers(0, max(0, servers.rows - 1))
    excluded = st.frozensets(rows, max_size=3 if servers.rows else 0)
    servers.check(
        data.draw(amount), data.draw(amount), data.draw(st.integers(1, 12)), data.draw(excluded)
    )


@given(st.data(), st.lists(SERVER, max_size=60))
def test_agrees_with_the_scan_whatever_has_changed(data, begun):
    servers = Servers(begun)
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["append", "change", "drop", "ask"])):
            case "append":
                servers.append(data.draw(SERVER))
            case "change" if servers.rows:
                servers.change(data.draw(st.integers(0, servers.rows - 1)), data.draw(SERVER))
            case "drop" if servers.rows:
                servers.drop(data.draw(st.integers(0, servers.rows - 1)))
            case _:
                draw_question(data, servers, AMOUNT)
    draw_question(data, servers, AMOUNT)


@given(st.lists(ANY_SERVER, max_size=20), ANY, ANY, st.integers(1, 30))
@example([(2**60, 2, 8, 5, 1), (2**60, 1, 8, 6, 1)], 0, 0, 2)
@example([(8, 0, 2**60, 2, 1), (8, 0, 2**60, 1, 1)], 0, 0, 2)
@example([(INT64_MAX, INT64_MAX, INT64_MAX, 0, 1)], INT64_MAX, 0, 1)
def test_agrees_where_shares_are_rounded(begun, cpu, memory, keep):
    Servers(begun).check(cpu, memory, keep, frozenset())


@settings(max_examples=5)
@given(st.randoms(use_true_random=False), st.integers(100, 300))
def test_agrees_with_more_sizes_than_are_told_apart(random, count):
    sizes = range(1, count)
    made = [(random.randrange(1, 9), 0, size, random.randrange(size), 1) for size in sizes]
    servers = Servers(made)
    servers.check(1, 1, 10, frozenset({0, 5}))
    for row in range(0, count - 1, 2):
        servers.change(row, (4, random.randrange(4), 16, random.randrange(16), 1))
    servers.check(1, 1, 10, frozenset())


def test_a_large_cluster_that_changes_agrees_with_the_scan():
    random = np.random.default_rng(7)
    sizes = [(4000, 64), (8000, 64), (8000, 128)]

    def server() -> Server:
        cpu, memory = sizes[random.integers(3)]
        return cpu, int(random.integers(cpu)), memory, int(random.integers(memory)), 1

    servers = Servers([server() for _ in range(2000)])
    for _ in range(200):
        servers.change(int(random.integers(servers.rows)), server())
        servers.check(1000, int(random.integers(64)), 10, frozenset({3}))
    for _ in range(50):
        servers.drop(int(random.integers(servers.rows)))
        servers.change(int(random.integers(servers.rows)), server())
        servers.append(server())
        servers.check(1000, int(random.integers(64)), 10, frozenset())


def test_nobody_is_there():
    index = LoadIndex()
    assert index.least_loaded(1, 1, 10) == ([], [])
    assert index.freest(0, 0) == -1


@pytest.mark.parametrize(
    ("cpu", "memory", "keep", "said"),
    [(1, 1, 0, "keep is 0"), (-1, 1, 1, "cpu -1"), (1, -2, 1, "memory -2")],
)
def test_wrong_questions_are_refused(cpu, memory, keep, said):
    with pytest.raises(ValueError, match=said):
        LoadIndex().least_loaded(cpu, memory, keep)
    if keep:
        with pytest.raises(ValueError, match=said):
            LoadIndex().freest(cpu, memory)


def test_columns_that_are_too_short_are_refused():
    column, accepting = np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.uint8)
    with pytest.raises(ValueError, match="3 rows"):
        LoadIndex().bind(column, column, column, column, accepting, 3)


def test_a_row_that_is_not_there_can_not_be_dropped():
    with pytest.raises(IndexError):
        LoadIndex().drop(0)


def test_a_huge_keep_costs_no_memory():
    assert Servers([(9, 0, 9, 0, 1)]).index.least_loaded(1, 1, INT64_MAX) == ([0], [1 / 9])
