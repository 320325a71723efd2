"""Statistical selection: who is drawn, how they rank, and what the draw promises."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policies.test_paragon import asks, known, view_of, where
from wharfinger.errors import InvalidInput
from wharfinger.model.decisions import Place, Refuse
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Classification, Estimate
from wharfinger.policies.placement.paragon import Paragon, ParagonSettings, SelectionRule
from wharfinger.policies.placement.paragon_hash import (
    HashSettings,
    HashTables,
    Selection,
    qualities,
    ranked,
)
from wharfinger.policies.placement.paragon_search import OwnScores, cumulative
from wharfinger.policies.registry import make_policy
from wharfinger.testing import check_policy

FEW = HashSettings(quality=0.5, miss=0.1)
"""Four servers."""
HASHED = ParagonSettings(
    rule=SelectionRule.PUBLISHED, confidence=0.5, selection=Selection.HASH, hash=FEW
)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["published", "cumulative"])
@pytest.mark.parametrize("quality", [0.5, 0.9])
def test_it_keeps_what_the_core_relies_on(rule: str, quality: float) -> None:
    spec = f"paragon[rule={rule},selection=hash,hash.quality={quality}]"
    check_policy(make_policy(spec).placement)


@pytest.mark.parametrize(
    ("quality", "miss", "candidates"), [(0.9, 1e-3, 66), (0.5, 0.25, 2), (0.9, 1e-6, 132)]
)
def test_so_many_servers_promise_the_quality(quality: float, miss: float, candidates: int) -> None:
    assert HashSettings(quality, miss).candidates() == candidates


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ("selection=hash", "goes by scores, and rule=traded by none; write rule=published"),
        ("hash.quality=0.8", "hash is not read under rule=traded; write rule=published or"),
        ("bound=9", "bound is not read under rule=traded; write rule=published or"),
        ("rule=published,performance_weight=1", "is not read under rule=published; write rule=t"),
        ("rule=published,hash.quality=0.8", "hash is read under selection=hash only; add that"),
        ("rule=published,selection=dice", "is not one of greedy, hash"),
        ("rule=published,hash.quality=1", "hash.quality=1 is not between 0 and 1"),
        ("rule=published,hash.miss=0", "hash.miss=0 is not between 0 and 1"),
        ("rule=published,hash.quality=0.9999999", "needs 69077549 servers, more than 100000; low"),
        ("rule=published,hash.quality=good", "is not a number"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(told: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as raised:
        make_policy(f"paragon[{told}]")
    assert "\n" not in str(raised.value)


def test_quality_is_one_less_the_mean_deviation_and_negative_where_a_source_is_violated() -> None:
    """Of two sources it causes 20 and 40: 10 and 30 off is .8; 10 too much for one is violated."""
    cache = SharedResource.LAST_LEVEL_CACHE
    newcomer = replace(known(caused=20), caused={**known(caused=20).caused, cache: Estimate(40, 0)})

    def resident(disk: float, of_cache: float) -> Classification:
        both = {**known(disk).tolerated, cache: Estimate(of_cache, 0)}
        return replace(known(), tolerated=both)

    view = view_of([resident(30, 70)], [resident(10, 70)], [resident(20, 40)])
    table = view.contention
    assert table is not None
    scores = table.score_columns(3)
    assert scores is not None
    rows = np.arange(3)
    own = OwnScores.of(newcomer)
    assert qualities(own, scores, rows).tolist() == pytest.approx([0.8, -0.8, 1.0])
    order, violation, _ = ranked(own, scores, view, 0.0, np.zeros(3, dtype=np.intp), rows)
    assert order.tolist() == [2, 0, 1]
    assert violation.tolist() == [0, 10, 0]


def test_where_nobody_suits_the_least_violation_is_taken_and_said() -> None:
    view = view_of([known(40, 0)], [known(50, 0)])
    answer = Paragon(HASHED).place(asks(known(80, 60)), view)
    assert where(answer) == "s1"
    assert "10 points are lacking" in answer.decision.message
    assert answer.decision.candidates[0].numbers["interference_beyond_tolerated"] == 10


def test_few_servers_are_all_looked_at_and_nothing_is_missed() -> None:
    view = view_of([known(90, 10)], [known(30, 70)], [])
    answer = Paragon(HASHED).place(asks(known(80, 20)), view)
    assert where(answer) == "s1"
    numbers = answer.decision.numbers
    assert (numbers["examined"], numbers["hashed"], numbers["miss_probability"]) == (3, 0, 0)


def test_many_servers_are_not_all_looked_at() -> None:
    view = view_of(*([known(20 + 2 * at, 0)] for at in range(40)))
    answer = Paragon(HASHED).place(asks(known(80, 10)), view)
    numbers = answer.decision.numbers
    assert numbers["examined"] == FEW.candidates() == 4
    assert numbers["miss_probability"] == 0.5**4
    assert len(answer.decision.candidates) >= 4


def test_without_room_anywhere_it_waits() -> None:
    answer = Paragon(HASHED).place(asks(known(80, 10)), view_of([known()], cpu=1))
    assert isinstance(answer, Refuse)


def test_among_full_servers_the_one_with_room_is_found() -> None:
    """Hashes may all name full ones: then all servers are looked at."""
    full = [[known(), known()] for _ in range(300)]
    view = view_of(*full, [known()], cpu=2)
    assert where(Paragon(HASHED).place(asks(known(80, 10)), view)) == "s300"


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rule=st.sampled_from((SelectionRule.PUBLISHED, SelectionRule.CUMULATIVE)),
    confidence=st.sampled_from((0.5, 0.9)),
)
def test_the_chosen_fits_and_is_the_best_of_those_drawn(
    seed: int, rule: SelectionRule, confidence: float
) -> None:
    random = Random(seed)

    def drawn() -> Classification:
        def scores() -> dict[SharedResource, Estimate]:
            some = random.sample(tuple(SharedResource), random.choice((0, 2, len(SharedResource))))
            return {s: Estimate(float(random.randrange(0, 60, 5)), 2.0) for s in some}

        quiet = {s: Estimate(100 - each.mean, 2.0) for s, each in scores().items()}
        return replace(known(), tolerated=quiet, caused=scores())

    index = HashTables(cumulative if rule is SelectionRule.CUMULATIVE else None)
    there = [[drawn() for _ in range(random.choice((0, 1, 2)))] for _ in range(30)]
    view = view_of(*there, cpu=2, index=index)  # type: ignore[arg-type]
    closed = np.array([random.random() < 0.8 for _ in there], dtype=np.uint8)
    view = replace(view, accepting=closed, loads=None)
    request = replace(asks(drawn()), excluded=tuple(random.sample(range(30), 3)))
    policy = Paragon(replace(HASHED, rule=rule, confidence=confidence))
    answer = policy.place(request, view)
    # The index that the core keeps is a help, no more.
    assert policy.place(request, replace(view, index=None)) == answer
    if not isinstance(answer, Place):
        assert not any(
            closed[row] and len(each) < 2
            for row, each in enumerate(there)
            if row not in request.excluded
        )
        return
    row = view.row(where(answer))
    assert closed[row]
    assert row not in request.excluded
    assert len(there[row]) < 2
    listed = [each.numbers for each in answer.decision.candidates if "quality" in each.numbers]
    violations = [each["interference_beyond_tolerated"] for each in listed]
    assert violations == sorted(violations)
    suiting = [each["quality"] for each in listed if not each["interference_beyond_tolerated"]]
    assert suiting == sorted(suiting, reverse=True)
