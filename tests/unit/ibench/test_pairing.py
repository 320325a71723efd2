"""Pairs by eq. 5.1 against all there are; refusals count first."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.errors import InvalidInput
from wharfinger.ibench.pairing import MAX_EXACT, Scores, pair_of, share

SOURCES = ("integer", "storage-bandwidth")


def matchings(left: tuple[int, ...], alone: int) -> Iterator[list[tuple[int, int]]]:
    if not left:
        yield []
        return
    first, *rest = left
    if alone:
        yield from matchings(tuple(rest), alone - 1)
    for partner in rest:
        others = tuple(place for place in rest if place != partner)
        for pairs in matchings(others, alone):
            yield [(first, partner), *pairs]


points = st.integers(0, 100).map(float)
scores = st.fixed_dictionaries(dict.fromkeys(SOURCES, points))


@st.composite
def programs(draw: st.DrawFn) -> list[Scores]:
    count = draw(st.integers(2, 7))
    return [Scores(f"p{number}", draw(scores), draw(scores)) for number in range(count)]


@given(programs(), st.integers(0, 3))
def test_no_matching_is_better(mix: list[Scores], more: int):
    servers = (len(mix) + 1) // 2 + more
    mapped = share(mix, servers)
    alone = min(len(mix), 2 * servers - len(mix))

    def cost(pairs: list[tuple[int, int]]) -> tuple[int, float]:
        told = [pair_of(mix, a, b, SOURCES) for a, b in pairs]
        return sum(len(p.refusals) for p in told), sum(p.distance for p in told)

    everyone = tuple(range(len(mix)))
    best = min(
        cost(pairs) for pairs in matchings(everyone, alone) if 2 * len(pairs) + alone == len(mix)
    )
    assert (mapped.refusals, mapped.distance) == pytest.approx(best)
    assert mapped.exact
    assert mapped.bound == mapped.distance
    places = sorted([p for pair in mapped.pairs for p in (pair.first, pair.second)])
    assert sorted([*places, *mapped.alone]) == list(everyone)


def mix_of(count: int) -> list[Scores]:
    def at(number: int, by: int) -> dict[str, float]:
        return {source: float(number * by * (3 + k) % 101) for k, source in enumerate(SOURCES)}

    return [Scores(f"p{number}", at(number, 37), at(number, 59)) for number in range(count)]


def test_sixteen_programs_are_mapped_exactly():
    assert share(mix_of(MAX_EXACT), 8).exact


def test_above_sixteen_the_bound_is_told():
    mapped = share(mix_of(40), 25)
    assert not mapped.exact
    assert mapped.bound <= mapped.distance
    assert (len(mapped.pairs), len(mapped.alone)) == (15, 10)


def test_what_is_too_few_says_how_many_are_enough():
    with pytest.raises(InvalidInput, match=r"5 programs on 2: .*give 3 or more"):
        share(mix_of(5), 2)


def test_programs_without_a_common_source_make_no_pairs():
    one, other = Scores("a", {"integer": 1.0}, {}), Scores("b", {}, {"integer": 1.0})
    with pytest.raises(InvalidInput, match="no source has both scores"):
        share([one, other], 1)
