"""Pairs on cores of two kinds against all that there are."""

import random
from itertools import product

import pytest

from tests.unit.ibench.test_pairing import SOURCES, matchings
from wharfinger.errors import InvalidInput
from wharfinger.ibench.pairing import Scores, pair_of
from wharfinger.profiler.unlike_cores import ProfiledOnKinds, share_kinds


def mix_of(count: int, seed: int) -> list[ProfiledOnKinds]:
    drawn = random.Random(seed)

    def scores(name: str) -> Scores:
        told = [{source: drawn.uniform(0, 100) for source in SOURCES} for _ in range(2)]
        return Scores(name, told[0], told[1])

    return [
        ProfiledOnKinds(
            f"p{number}",
            {"big": scores(f"p{number}"), "little": scores(f"p{number}")},
            {"big": 1.0, "little": drawn.uniform(0.4, 1.0)},
        )
        for number in range(count)
    ]


def costs_of(mix: list[ProfiledOnKinds], servers: dict[str, int]) -> list[float]:
    """Of each way to share."""
    count, total = len(mix), sum(servers.values())
    alone, found = min(count, 2 * total - count), []
    for pairs in matchings(tuple(range(count)), alone):
        paired = {place for pair in pairs for place in pair}
        if len(paired) + alone != count:
            continue
        groups = [*pairs, *((place, place) for place in range(count) if place not in paired)]
        for kinds in product(servers, repeat=len(groups)):
            if any(kinds.count(kind) > most for kind, most in servers.items()):
                continue
            cost = 0.0
            for (a, b), kind in zip(groups, kinds, strict=True):
                cost += sum(mix[who].loss(kind) for who in {a, b})
                if a != b:
                    cost += pair_of([each.scores[kind] for each in mix], a, b, SOURCES).cost
            found.append(cost)
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("servers", [{"big": 1, "little": 2}, {"big": 2, "little": 2}])
def test_no_way_is_better(seed: int, servers: dict[str, int]):
    mix = mix_of(6, seed)
    mapped = share_kinds(mix, servers)
    assert mapped.exact
    cost = sum(group.cost for group in mapped.groups)
    assert cost == pytest.approx(min(costs_of(mix, servers)))
    for kind, most in servers.items():
        assert sum(group.kind == kind for group in mapped.groups) <= most


def test_a_program_that_little_cores_slow_gets_a_big_one():
    flat = Scores("x", dict.fromkeys(SOURCES, 90.0), dict.fromkeys(SOURCES, 10.0))
    either = {"big": flat, "little": flat}
    mix = [
        ProfiledOnKinds("needs", either, {"big": 1.0, "little": 0.3}),
        ProfiledOnKinds("bears", either, {"big": 1.0, "little": 0.95}),
    ]
    mapped = share_kinds(mix, {"little": 1, "big": 1})
    assert {mix[group.pair.first].name: group.kind for group in mapped.groups} == {
        "needs": "big",
        "bears": "little",
    }
    assert mapped.loss == pytest.approx(5.0)


def test_what_is_missing_is_told():
    with pytest.raises(InvalidInput, match="p0: no profile on 'huge'"):
        share_kinds(mix_of(2, 0), {"huge": 1})
    with pytest.raises(InvalidInput, match="5 programs on 2"):
        share_kinds(mix_of(5, 0), {"big": 1, "little": 1})
