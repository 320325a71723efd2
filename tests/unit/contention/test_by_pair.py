"""A newcomer beside residents, both ways, against the profiles' own arithmetic."""

from dataclasses import replace
from math import exp, log
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cluster import server, workload
from tests.support.courses import curve
from tests.support.exact_profiles import exact_profiles
from wharfinger.contention.by_pair import ByPair
from wharfinger.core.seams.contention import Assessment, LogEstimates, Resident
from wharfinger.core.tables import ServerTable
from wharfinger.model.decisions import Prediction
from wharfinger.model.pairs import PairProfile
from wharfinger.model.view import Capabilities, Request

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


def beside(new: PairProfile, *residents: list[PairProfile], pace: float = 1.0, confidence=0.5):
    """An assessment: one server each, of one platform; each resident so far above its target."""
    columns, table = ServerTable(), ByPair().table()
    alone = Prediction(pace, pace, pace, 0.8, alone=pace, alone_std=0.0)
    for row, profiles in enumerate(residents):
        columns.put(server(f"s{row}"))
        there = [
            Resident(f"r{row}.{i}", i, curve((1000, 1.0), pairs={"": p}), False, 0.05, alone)
            for i, p in enumerate(profiles)
        ]
        table.put(row, "test", there)
    known = curve((1000, 1.0), pairs={"": new})
    request = Request(workload("new"), classification=known)
    assessment = table.assess(request, columns.view(Capabilities()), confidence)
    return assessment, table


def lost(assessment: Assessment, servers: int = 1) -> list[float]:
    """Shares of targets that residents lose: none of the newcomer's own."""
    able = np.zeros(servers, dtype=bool)
    plenty = LogEstimates(np.full(servers, 9.0), np.zeros(servers))
    return (assessment.cost(able, lambda: plenty).lost / 100).tolist()


CROWDS = st.lists(st.lists(st.sampled_from(NAMES), max_size=4), min_size=1, max_size=4)


@given(CROWDS, st.sampled_from(NAMES), st.integers(0, 5), st.booleans())
def test_both_ways_are_the_products_of_the_slowdowns(crowds, new, seed, exact):
    profiles = exact_profiles("b", NAMES, matrix(seed, 0.1)) if exact else unsure(seed)
    found, rows = beside(profiles[new], *[[profiles[n] for n in crowd] for crowd in crowds])
    if not any(crowds):
        assert not found.informed
        return
    for row, crowd in enumerate(crowds):
        others = [profiles[n] for n in crowd]
        wanted = profiles[new].beside(*others)
        assert exp(-found.suffered.mean[row]) == pytest.approx(wanted.mean)
        assert found.suffered.variance[row] == pytest.approx(wanted.std**2)
        assert min(1.0, found.unfit[row]) == pytest.approx(wanted.unfit)
        for at, resident in enumerate(others):
            slot = rows.names.index(f"r{row}.{at}")
            rest = others[:at] + others[at + 1 :]
            performance = resident.beside(*rest, profiles[new])
            assert exp(found.inflicted.performance[slot]) == pytest.approx(performance.mean)


@given(CROWDS, st.sampled_from(NAMES), st.permutations(range(4)))
def test_the_order_of_residents_says_nothing(crowds, new, order):
    profiles = unsure(1)
    shuffled = [[crowd[i] for i in order if i < len(crowd)] for crowd in crowds]
    found = []
    for each in (crowds, shuffled):
        one, _ = beside(profiles[new], *[[profiles[n] for n in crowd] for crowd in each])
        suffered = one.suffered
        found.append(np.array([suffered.mean, suffered.variance, lost(one, len(crowds))]))
    assert np.allclose(found[0], found[1])


def test_a_resident_falls_short_by_what_it_loses_below_what_it_must_keep():
    profiles = exact_profiles("b", ["a", "b"], np.array([[1.0, 0.8], [0.5, 1.0]]))

    def at(pace: float) -> list[float]:
        return lost(beside(profiles["b"], [profiles["a"]], pace=pace)[0])

    # At 1.2 of its target alone, it keeps 0.95 of it at least; beside b it comes to 0.96 of it.
    assert at(1.2) == [0.0]
    # At 1.1 it comes to 0.88: 0.88 / 0.95 of what it must keep.
    assert at(1.1) == pytest.approx([1 - 0.88 / 0.95])
    # One that is below already loses all that it is slowed by.
    assert at(0.7) == pytest.approx([0.2])


def test_doubt_of_a_slowdown_counts_against_it():
    sure = PairProfile("b", suffers=(0.2,), presses=(0.0,))
    pressing = PairProfile("b", suffers=(0.0,), presses=(1.0,), presses_variance=(0.25,))
    assert lost(beside(pressing, [sure], pace=1.4)[0]) == [0.0]
    # ln 1.4 - 0.2 - z 0.2 0.5 against ln 0.95.
    doubted, _ = beside(pressing, [sure], pace=1.4, confidence=NormalDist().cdf(3.0))
    assert lost(doubted) == pytest.approx([1 - exp(log(1.4) - 0.2 - 0.3 - log(0.95))])


def test_profiles_of_another_basis_say_nothing():
    profiles = exact_profiles("b", NAMES, matrix(0))
    other = replace(profiles["a"], basis="c")
    found, _ = beside(other, [profiles["a"], profiles["b"]], confidence=0.8)
    assert not found.suffered.mean.any()
    assert lost(found) == [0.0]


def test_who_falls_furthest_is_named():
    profiles = exact_profiles("b", ["a", "b"], np.array([[0.9, 0.5], [0.7, 0.6]]))
    found, _ = beside(profiles["b"], [profiles["a"], profiles["b"]], [])
    assert found.worst(0).startswith("r0.0 would come to")
    assert found.worst(1) == "its own target would be missed there"
