"""The tables of hashed scores: what is drawn hangs on the columns alone, not on their history."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.model.interference import SharedResource
from wharfinger.native import HashedServers

R = len(SharedResource)
SLOTS = 2**14
HASHES = np.array([np.random.default_rng(r).permutation(SLOTS) for r in range(R)], dtype=np.uint16)
POINTS = (0.0, 12.5, 33.3, 100.0, 100.0, 100.0)


def tags(*names: int) -> np.ndarray:
    return np.array([2654435761 * (name + 1) % 2**32 for name in names], dtype=np.uint32)


def drawn(
    index: HashedServers, caused: np.ndarray, able: np.ndarray, wanted: int, most: int = 10_000
) -> list[int]:
    into = np.zeros(wanted, dtype=np.int64)
    found, hashed = index.drawn(caused, able, wanted, most, into)
    assert hashed <= most
    return into[:found].tolist()


@pytest.mark.parametrize("tagged", [False, True])
@given(seed=st.integers(0, 2**32))
def test_changes_leave_what_reading_all_anew_gives(seed: int, tagged: bool) -> None:
    random = Random(seed)
    names, columns = list(range(random.randrange(1, 40))), np.zeros((R, 80))

    def draw(row: int) -> None:
        columns[:, row] = [random.choice(POINTS) for _ in range(R)]

    for row in range(len(names)):
        draw(row)
    index = HashedServers(HASHES, tagged)
    index.update(len(names), columns, tags(*names))
    for _ in range(random.randrange(30)):
        row = random.randrange(len(names))
        action = random.random()
        if action < 0.6:
            draw(row)
            index.touch(row)
        elif action < 0.8 and len(names) > 1:
            columns[:, row:-1] = columns[:, row + 1 :]
            index.touch(row)
            index.drop(row)
            del names[row]
        else:
            draw(len(names))
            names.append(max(names) + random.randrange(1, 9))
        if random.random() < 0.5:
            index.update(len(names), columns, tags(*names[index.read_rows() :]))
    index.update(len(names), columns, tags(*names[index.read_rows() :]))
    assert index.is_current(len(names))
    fresh = HashedServers(HASHES, tagged)
    fresh.update(len(names), columns, tags(*names))
    able = np.array([random.random() < 0.7 for _ in names], dtype=np.uint8)
    caused = np.array([random.choice((*POINTS, np.nan)) for _ in range(R)])
    wanted = random.randrange(1, 50)
    rows = drawn(index, caused, able, wanted)
    assert rows == drawn(fresh, caused, able, wanted) == drawn(index, caused, able, wanted)
    assert len(set(rows)) == len(rows) <= wanted
    assert all(able[row] for row in rows)
    # So many hashes find all that are able.
    assert len(rows) == min(wanted, int(able.sum()))


def test_hashes_end_where_nobody_is_able() -> None:
    index = HashedServers(HASHES, True)
    index.update(5, np.full((R, 5), 50.0), tags(*range(5)))
    assert drawn(index, np.zeros(R), np.zeros(5, dtype=np.uint8), 3, most=20) == []
    assert drawn(HashedServers(HASHES, True), np.zeros(R), np.zeros(0, dtype=np.uint8), 3) == []


def test_servers_alike_are_drawn_alike_where_their_tags_are_hashed() -> None:
    """Half of a thousand servers are empty; without tags they are one slot of each table."""
    random, columns = np.random.default_rng(1), np.full((R, 1_000), 100.0)
    columns[:, ::2] = random.uniform(0, 100, (R, 500))
    share = {}
    for tagged in (True, False):
        index = HashedServers(HASHES, tagged)
        index.update(1_000, columns, tags(*range(1_000)))
        able, empty, count = np.ones(1_000, dtype=np.uint8), 0, 0
        for _ in range(200):
            rows = drawn(index, random.uniform(0, 100, R), able, 16)
            empty += sum(row % 2 for row in rows)
            count += len(rows)
        share[tagged] = empty / count
    assert share[True] == pytest.approx(0.5, abs=0.05)
    assert share[False] < 0.1


def test_what_is_wrong_is_refused() -> None:
    index = HashedServers(HASHES, False)
    index.update(2, np.zeros((R, 2)), tags(0, 1))
    able, into = np.ones(2, dtype=np.uint8), np.zeros(4, dtype=np.int64)
    index.touch(1)
    with pytest.raises(ValueError, match="up to date"):
        index.drawn(np.zeros(R), able, 1, 1, into)
    with pytest.raises(ValueError, match="drop says"):
        index.update(1, np.zeros((R, 2)), tags())
    with pytest.raises(ValueError, match="3 servers are needed"):
        index.update(3, np.zeros((R, 2)), tags(2))
    with pytest.raises(ValueError, match="0 tags of 1 new rows"):
        index.update(3, np.zeros((R, 3)), tags())
    index.update(2, np.zeros((R, 2)), tags())
    with pytest.raises(ValueError, match="no room for 5"):
        index.drawn(np.zeros(R), able, 5, 1, into)
    with pytest.raises(ValueError, match="not 17 scores"):
        index.drawn(np.zeros(R - 1), able, 1, 1, into)
    with pytest.raises(ValueError, match="hashes are needed"):
        HashedServers(HASHES[:3], False)
    with pytest.raises(ValueError, match="not below"):
        HashedServers(HASHES + np.uint16(SLOTS), False)
