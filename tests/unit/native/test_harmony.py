"""The harmony index, against a scan of all servers, whatever has happened to them."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.model.interference import SharedResource
from wharfinger.native import HarmonyIndex

R = len(SharedResource)
PLATFORMS = 3
EACH = ((0,), (1,), (2,))
"""The platforms, one preferred to the next."""
# Few different numbers make many ties; tenths make sums that are rounded.
POINTS = (0.0, 0.1, 12.5, 33.3, 50.0, 100.0)
STD = (0.0, 0.3, 4.0)
FREE = (0, 1, 2, 4)
LEVELS = ("tolerated", "tolerated_variance", "caused", "caused_variance")
COUNTS = ("platform", "cpu_capacity", "cpu_allocated", "memory_capacity", "memory_allocated")
WIDTH = 64
"""Servers of a block, the last of which may exceed the bound."""
INT64_MAX = 2**63 - 1
FLAGS = ("accepting", "unsettled")


class Servers:
    """Columns and the index over them, changed as ``core.tables`` changes them."""

    def __init__(self) -> None:
        self.rows = 0
        self.columns = {
            **{name: np.zeros((R, 2)) for name in LEVELS},
            **{name: np.zeros(2, dtype=np.int64) for name in (*COUNTS, "residents")},
            **{name: np.zeros(2, dtype=np.uint8) for name in FLAGS},
        }
        self.index = HarmonyIndex()

    def append(self, random) -> None:
        if self.rows == len(self.columns["accepting"]):
            for name, column in self.columns.items():
                self.columns[name] = np.concatenate((column, np.zeros_like(column)), axis=-1)
        self.rows += 1
        self.change(self.rows - 1, random)

    def change(self, row: int, random) -> None:
        """Draw a server; half of them press a little only, so that some newcomers fit."""
        self.index.touch(row)
        low, occupied = random.random() < 0.5, random.random() < 0.7
        for name in LEVELS:
            if name.endswith("variance"):
                drawn = [random.choice(STD) ** 2 for _ in range(R)]
            elif name == "caused":
                drawn = [random.choice(POINTS[:3] if low else (*POINTS, 230.0)) for _ in range(R)]
            else:
                drawn = [random.choice(POINTS[3:] if low else POINTS) for _ in range(R)]
            empty = 100.0 if name == "tolerated" else 0.0
            self.columns[name][:, row] = drawn if occupied else empty
        for name in ("cpu", "memory"):
            self.columns[f"{name}_allocated"][row] = allocated = random.choice(FREE)
            self.columns[f"{name}_capacity"][row] = allocated + random.choice(FREE)
        self.columns["platform"][row] = random.randrange(PLATFORMS)
        self.columns["residents"][row] = random.randrange(1, 4) if occupied else 0
        self.columns["accepting"][row] = random.random() < 0.9
        self.columns["unsettled"][row] = random.random() < 0.1

    def drop(self, row: int) -> None:
        self.index.drop(row)
        for column in self.columns.values():
            column[..., row:-1] = column[..., row + 1 :]
        self.rows -= 1

    def now(self) -> dict[str, np.ndarray]:
        return {name: column[..., : self.rows] for name, column in self.columns.items()}

    def update(self) -> None:
        self.index.update(
            self.rows,
            self.columns["platform"],
            *(self.columns[name] for name in LEVELS),
            *(self.columns[name] for name in COUNTS[1:]),
            self.columns["residents"],
            *(self.columns[name] for name in FLAGS),
        )

    def ask(self, newcomer, z, cpu, memory, keep, excluded=(), platforms=EACH):
        """The answer, after a comparison with the scan's."""
        self.update()
        assert self.index.is_current(self.rows)
        asked = platforms, *newcomer, z, cpu, memory, keep, 10**9, excluded
        rows, norms, steps, complete = self.index.best(*asked)
        assert rows == scan(self.now(), newcomer, z, cpu, memory, keep, excluded, platforms)
        assert complete
        assert steps <= 2 * self.rows
        np.testing.assert_allclose(norms, norm(self.now(), newcomer)[rows], atol=1e-9)
        return rows


def norm(now, newcomer):
    """||D1 + D2||_1 as it is defined, with the scores that harm none where none are known."""
    caused, _, tolerated, _ = newcomer
    d1 = now["tolerated"] - np.nan_to_num(caused)[:, None]
    d2 = np.nan_to_num(tolerated, nan=100.0)[:, None] - now["caused"]
    return np.abs(d1 + d2).sum(axis=0)


def scan(now, newcomer, z, cpu, memory, keep, excluded, platforms):
    """By one pass over all servers."""
    caused, caused_variance, tolerated, tolerated_variance = (each[:, None] for each in newcomer)
    with np.errstate(invalid="ignore"):
        doubt = z * np.sqrt(now["tolerated_variance"] + caused_variance)
        d1 = now["tolerated"] - caused - doubt
        d2 = tolerated - now["caused"] - z * np.sqrt(tolerated_variance + now["caused_variance"])
    able = ~((d1 < 0) | (d2 < 0)).any(axis=0) | (now["residents"] == 0)
    able &= now["cpu_capacity"] - now["cpu_allocated"] >= cpu
    able &= now["memory_capacity"] - now["memory_allocated"] >= memory
    able &= (now["accepting"] > 0) & (now["unsettled"] == 0)
    able[[row for row in excluded if row < len(able)]] = False
    # Equal is what is equal without the newcomer's constant: rounding may make more so with it.
    both = now["tolerated"] - now["caused"]
    own = np.nan_to_num(tolerated, nan=100.0) - np.nan_to_num(caused)
    rank = both.sum(axis=0) + 2 * np.maximum(-(both + own), 0).sum(axis=0)
    load = now["cpu_allocated"] / np.maximum(now["cpu_capacity"], 1)
    group_of = {each: at for at, group in enumerate(platforms) for each in group}
    group = np.array([group_of.get(each, -1) for each in now["platform"].tolist()], dtype=int)
    rows = np.flatnonzero(able & (group >= 0))
    return rows[np.lexsort((rows, load[rows], rank[rows], group[rows]))][:keep].tolist()


def newcomer(random, *, known: bool):
    """One that causes little, or much; tolerates much, or little."""
    caused = [random.choice(random.choice((POINTS[:3], POINTS[:3], POINTS))) for _ in range(R)]
    tolerated = [random.choice(random.choice((POINTS[3:], POINTS[3:], POINTS))) for _ in range(R)]
    scores = np.array([caused, [0.0] * R, tolerated, [0.0] * R])
    scores[1::2] = [[random.choice(STD) ** 2 for _ in range(R)] for _ in range(2)]
    if not known:
        scores[0, [random.random() < 0.5 for _ in range(R)]] = np.nan
        scores[2, [random.random() < 0.5 for _ in range(R)]] = np.nan
    return tuple(scores)


def question(servers: Servers, random) -> list[int]:
    return servers.ask(
        newcomer(random, known=random.random() < 0.7),
        random.choice((0.0, 0.0, 0.5, 1.3, -1.0)),
        random.choice(FREE),
        random.choice(FREE),
        random.choice((1, 1, 3, 100)),
        frozenset(random.randrange(servers.rows + 1) for _ in range(random.randrange(3))),
        random.choice((EACH, ((0, 1, 2),), ((2, 0), (1,)), ((1,),), ((), (0, 9), (2,)))),
    )


def change_one(servers: Servers, random) -> None:
    match random.choice(("append", "change", "change", "drop")):
        case "change" if servers.rows:
            servers.change(random.randrange(servers.rows), random)
        case "drop" if servers.rows:
            servers.drop(random.randrange(servers.rows))
        case _:
            servers.append(random)


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.integers(0, 60), st.integers(1, 15))
def test_agrees_with_the_scan_whatever_has_changed(random, begun, changes):
    servers = Servers()
    for _ in range(begun):
        servers.append(random)
    for _ in range(changes):
        for _ in range(random.randrange(6)):
            change_one(servers, random)
        question(servers, random)


def test_a_large_cluster_that_changes_agrees_with_the_scan():
    random, servers = Random(3), made(700, seed=3)
    for _ in range(60):
        for _ in range(10):
            change_one(servers, random)
        question(servers, random)
    # Blocks that have become small are joined.
    while servers.rows:
        servers.drop(random.randrange(servers.rows))
        if servers.rows % 20 == 0:
            question(servers, random)


def test_nothing_drifts_in_ten_thousand_changes():
    """Not by the last bit: another index that reads the same columns once says the same."""
    random, servers = Random(5), made(100, seed=5)
    for at in range(10_000):
        change_one(servers, random)
        if servers.rows < 100:
            servers.append(random)
        if at % 7 == 0:
            servers.update()
    servers.update()
    fresh = Servers()
    fresh.rows, fresh.columns = servers.rows, servers.columns
    fresh.update()
    nobody = np.full(R, np.nan)
    answers = [
        index.best(EACH, nobody, nobody, nobody, nobody, 0, 0, 0, 10**6, 10**6)
        for index in (servers.index, fresh.index)
    ]
    assert answers[0][:2] == answers[1][:2]
    assert len(answers[0][0]) > 20


def test_where_nothing_fits_few_are_looked_at():
    servers = made(2_000, seed=1)
    servers.update()
    undemanding = np.zeros(R), np.zeros(R), np.full(R, 1000.0), np.zeros(R)
    rows, _, steps, complete = servers.index.best(
        EACH, *undemanding, 0.0, max(FREE) + 1, 0, 1, 10**6
    )
    assert (rows, steps, complete) == ([], PLATFORMS, True)
    # Nobody who runs tolerates that.
    loud = np.full(R, 99.0), np.zeros(R), np.full(R, 1000.0), np.zeros(R)
    servers.columns["residents"][:] = 1
    for row in range(servers.rows):
        servers.index.touch(row)
        servers.columns["tolerated"][7, row] = 98.0
    servers.update()
    assert servers.index.best(EACH, *loud, 0.0, 0, 0, 1, 10**6)[2] == PLATFORMS


def test_a_bound_ends_the_search_with_the_first_of_what_there_is():
    servers = made(500, seed=2)
    asked = newcomer(Random(4), known=True)
    everything = servers.ask(asked, 0.0, 0, 0, 1000)
    assert len(everything) > 20
    for bound in (1, 10, 100):
        rows, norms, steps, complete = servers.index.best(EACH, *asked, 0.0, 0, 0, 1000, bound)
        assert bound <= steps <= bound + WIDTH
        assert not complete
        assert rows == everything[: len(rows)]
        assert len(norms) == len(rows) < len(everything)


def test_platforms_come_in_the_callers_order():
    servers = made(60, seed=6)
    asked = newcomer(Random(4), known=True)
    for order in (((2,), (0,), (1,)), ((1,),), (), ((0,), (7, -1), (2,))):
        rows = servers.ask(asked, 0.0, 0, 0, 1000, (), order)
        each = [servers.ask(asked, 0.0, 0, 0, 1000, (), (one,)) for one in order]
        assert rows == [row for there in each for row in there]


def test_amounts_beyond_32_bits():
    servers = made(3, seed=1)
    for row, free in enumerate((2**31, INT64_MAX, 2**33 + 1)):
        servers.index.touch(row)
        for name in ("cpu", "memory"):
            servers.columns[f"{name}_allocated"][row] = 0
            servers.columns[f"{name}_capacity"][row] = free
        servers.columns["residents"][row] = servers.columns["platform"][row] = 0
        servers.columns["accepting"][row], servers.columns["unsettled"][row] = 1, 0
        for name in LEVELS:
            servers.columns[name][:, row] = 100.0 if name == "tolerated" else 0.0
    asked = newcomer(Random(1), known=True)
    assert servers.ask(asked, 0.0, 2**33 + 1, 2**32, 3) == [1, 2]
    assert servers.ask(asked, 0.0, 0, INT64_MAX, 3) == [1]


def made(count: int, *, seed: int) -> Servers:
    random, servers = Random(seed), Servers()
    for _ in range(count):
        servers.append(random)
    return servers


# --- what can't be asked ------------------------------------------------------------------

SCORES = np.full(R, 50.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"keep": 0}, "keep is 0"),
        ({"bound": 0}, "bound 0"),
        ({"cpu": -1}, "cpu -1"),
        ({"memory": -2}, "memory -2"),
        ({"z": np.nan}, "z is nan"),
        ({"caused": SCORES[1:]}, "17 sources"),
        ({"caused": np.full(R, np.inf)}, "infinite"),
        ({"tolerated": np.full(R, -np.inf)}, "infinite"),
        ({"caused_variance": -SCORES}, "negative"),
        ({"tolerated_variance": np.full(R, np.nan)}, "no number"),
    ],
)
def test_wrong_questions_are_refused(change, said):
    asked = {
        "platforms": EACH,
        **dict.fromkeys(LEVELS, SCORES),
        "z": 0.0,
        **dict.fromkeys(("cpu", "memory", "keep"), 1),
        "bound": 9,
    }
    assert HarmonyIndex().best(**asked) == ([], [], 0, True)
    with pytest.raises(ValueError, match=said):
        HarmonyIndex().best(**(asked | change))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("caused", np.nan, "row 1: a score"),
        ("tolerated", -np.inf, "row 1: a score"),
        ("caused_variance", -1.0, "a variance is negative"),
        ("platform", -1, "row 1: platform -1"),
        ("platform", 2**40, "row 1: platform 1099511627776"),
    ],
)
def test_wrong_rows_are_refused_and_can_be_mended(name, value, said):
    servers = made(3, seed=1)
    servers.columns["residents"][1] = 1
    right = servers.columns[name][..., 1].copy()
    servers.columns[name][..., 1] = value
    for _ in range(2):
        with pytest.raises(ValueError, match=said):
            servers.update()
    servers.columns[name][..., 1] = right
    servers.ask(newcomer(Random(1), known=True), 0.0, 0, 0, 3)


def test_columns_that_are_too_short_are_refused():
    servers = made(3, seed=1)
    columns = servers.columns
    for name, column in columns.items():
        servers.columns = columns | {name: column[..., :2]}
        with pytest.raises(ValueError, match="shorter than 3 rows"):
            servers.update()
    servers.columns = columns | {"caused": columns["caused"][1:]}
    with pytest.raises(ValueError, match="17 sources"):
        servers.update()
    servers.columns = columns
    servers.update()
    servers.rows = 2
    with pytest.raises(ValueError, match="2 rows, and 3 before"):
        servers.update()


def test_rows_that_nobody_has_read_can_go():
    index = HarmonyIndex()
    index.touch(4)
    index.drop(4)
    index.touch(-1)
    index.drop(-1)
    assert index.is_current(0)


def test_a_huge_keep_costs_no_memory():
    servers = made(1, seed=1)
    servers.update()
    nobody = np.full(R, np.nan)
    asked = nobody, nobody, nobody, nobody, 0.0, 0, 0, INT64_MAX, INT64_MAX
    assert servers.index.best(EACH, *asked)[3]


def test_the_kernel_has_the_sources_of_the_model():
    assert R == 17, "SOURCES in native/kernels/_treap.pxd"
