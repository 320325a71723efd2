"""A newcomer beside residents, both ways, against the profiles' own arithmetic."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cluster import server
from wharfinger.contention.by_pair import Newcomer, felt, harm
from wharfinger.contention.exact import exact_profiles
from wharfinger.core.pair_columns import Member, PairColumns
from wharfinger.core.tables import Columns
from wharfinger.model.pairs import PairProfile
from wharfinger.model.view import Capabilities, ClusterView

NAMES = ["a", "b", "c", "d"]


def matrix(seed: int, unfit: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    relative = rng.uniform(0.2, 1.1, (4, 4))
    return np.where(rng.random((4, 4)) < unfit, 0.0, relative)


def unsure(seed: int) -> dict[str, PairProfile]:
    rng = np.random.default_rng(seed)

    def some(scale: float, size: int) -> tuple[float, ...]:
        return tuple((scale * rng.random(size)).tolist())

    return {
        n: PairProfile(
            "b", some(1, 3), some(1, 3), some(0.1, 3), some(0.1, 3), some(1, 2), some(1, 2)
        )
        for n in NAMES
    }


def view_of(*residents: list[PairProfile], pace: float = 0.0, least: float = log(0.95)):
    """One server each, of one platform; each resident at its target alone."""
    columns, pairs = Columns(), PairColumns()
    for row, profiles in enumerate(residents):
        columns.put(server(f"s{row}"))
        members = [Member(f"r{row}.{i}", p, pace, 0.0, least) for i, p in enumerate(profiles)]
        pairs.put(row, members)
    view = columns.view("", Capabilities())
    return replace(view, pairs=pairs.view(len(residents)))


def newcomer(profile: PairProfile, view: ClusterView) -> Newcomer:
    assert view.pairs is not None
    return Newcomer.of({"": profile}, view.platforms, view.pairs)


CROWDS = st.lists(st.lists(st.sampled_from(NAMES), max_size=4), min_size=1, max_size=4)


@given(CROWDS, st.sampled_from(NAMES), st.integers(0, 5), st.booleans())
def test_both_ways_are_the_products_of_the_slow_downs(crowds, new, seed, exact):
    profiles = exact_profiles("b", NAMES, matrix(seed, 0.1)) if exact else unsure(seed)
    view = view_of(*[[profiles[n] for n in crowd] for crowd in crowds])
    one = newcomer(profiles[new], view)
    suffered = felt(one, view, view.pairs)
    done = harm(one, view, view.pairs, z=0.0)
    for row, crowd in enumerate(crowds):
        others = [profiles[n] for n in crowd]
        wanted = profiles[new].beside(*others)
        assert exp(-suffered.drop[row]) == pytest.approx(wanted.mean)
        assert suffered.variance[row] == pytest.approx(wanted.std**2)
        assert min(1.0, suffered.unfit[row]) == pytest.approx(wanted.unfit)
        for at, resident in enumerate(others):
            slot = view.pairs.names.index(f"r{row}.{at}")
            rest = others[:at] + others[at + 1 :]
            beside = resident.beside(*rest, profiles[new])
            assert exp(done.pace[slot]) == pytest.approx(beside.mean)


@given(CROWDS, st.sampled_from(NAMES), st.permutations(range(4)))
def test_the_order_of_residents_says_nothing(crowds, new, order):
    profiles = unsure(1)
    shuffled = [[crowd[i] for i in order if i < len(crowd)] for crowd in crowds]
    found = []
    for each in (crowds, shuffled):
        view = view_of(*[[profiles[n] for n in crowd] for crowd in each])
        one = newcomer(profiles[new], view)
        suffered = felt(one, view, view.pairs)
        short = harm(one, view, view.pairs, z=0.84).by_server(len(crowds))
        found.append(np.array([suffered.drop, suffered.variance, suffered.unfit, short]))
    assert np.allclose(found[0], found[1])


def test_a_resident_falls_short_by_what_it_loses_below_what_it_must_keep():
    profiles = exact_profiles("b", ["a", "b"], np.array([[1.0, 0.8], [0.5, 1.0]]))
    # At 1.2 of its target alone, it keeps 0.95 of it at least; beside b it comes to 0.96 of it.
    view = view_of([profiles["a"]], pace=log(1.2))
    assert harm(newcomer(profiles["b"], view), view, view.pairs, 0.0).shortfall[0] == 0.0
    # At 1.1 it comes to 0.88: 0.88 / 0.95 of what it must keep.
    view = view_of([profiles["a"]], pace=log(1.1))
    done = harm(newcomer(profiles["b"], view), view, view.pairs, 0.0)
    assert done.shortfall[0] == pytest.approx(1 - 0.88 / 0.95)
    assert done.by_server(1).tolist() == pytest.approx([1 - 0.88 / 0.95])
    # One that is below already loses all that it is slowed by.
    view = view_of([profiles["a"]], pace=log(0.7))
    done = harm(newcomer(profiles["b"], view), view, view.pairs, 0.0)
    assert done.shortfall[0] == pytest.approx(0.2)


def test_doubt_of_a_slow_down_counts_against_it():
    sure = PairProfile("b", suffers=(0.2,), presses=(0.0,))
    pressing = PairProfile("b", suffers=(0.0,), presses=(1.0,), presses_variance=(0.25,))
    view = view_of([sure], pace=log(1.4))
    assert harm(newcomer(pressing, view), view, view.pairs, z=0.0).shortfall[0] == 0.0
    # ln 1.4 - 0.2 - z 0.2 0.5 against ln 0.95.
    short = harm(newcomer(pressing, view), view, view.pairs, z=3.0).shortfall[0]
    assert short == pytest.approx(1 - exp(log(1.4) - 0.2 - 0.3 - log(0.95)))


def test_profiles_of_another_basis_say_nothing():
    profiles = exact_profiles("b", NAMES, matrix(0))
    view = view_of([profiles["a"], profiles["b"]])
    other = newcomer(replace(profiles["a"], basis="c"), view)
    assert not felt(other, view, view.pairs).drop.any()
    assert not harm(other, view, view.pairs, 0.8).shortfall.any()


def test_who_falls_furthest_is_named():
    profiles = exact_profiles("b", ["a", "b"], np.array([[0.9, 0.5], [0.7, 0.6]]))
    view = view_of([profiles["a"], profiles["b"]], [])
    done = harm(newcomer(profiles["b"], view), view, view.pairs, 0.0)
    worst = done.worst(0)
    assert worst is not None
    assert view.pairs.names[worst] == "r0.0"
    assert done.worst(1) is None
