"""Paragon's answers beside numbers worked by hand; the index answers as the scan does."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cluster import MIB, server, workload
from wharfinger.contention.by_source import BySource
from wharfinger.core.seams.contention import Resident
from wharfinger.core.tables import ServerTable
from wharfinger.errors import InvalidInput
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import OnMiss, Target
from wharfinger.policies.placement.harmony import Harmony
from wharfinger.policies.placement.paragon import Paragon, ParagonSettings, SelectionRule
from wharfinger.policies.placement.paragon_oblivious import (
    HeterogeneityOblivious,
    InterferenceOblivious,
)
from wharfinger.policies.placement.paragon_search import cumulative
from wharfinger.policies.registry import make_policy

DISK, CACHE = SharedResource.STORAGE_BANDWIDTH, SharedResource.LAST_LEVEL_CACHE
AS_PUBLISHED = ParagonSettings(rule=SelectionRule.PUBLISHED, confidence=0.5)


def known(
    tolerated: float | None = None,
    caused: float | None = None,
    std: float = 0.0,
    *,
    source: SharedResource = DISK,
    platforms: dict[str, float] | None = None,
) -> Classification:
    """100 a second for each CPU; scores of one source."""
    curve = Curve((1000, 4000), (Estimate(100.0, 0.05), Estimate(400.0, 0.05)))
    return Classification(
        "hand",
        "1",
        {Quantity.RATE: curve},
        tolerated={} if tolerated is None else {source: Estimate(tolerated, std)},
        caused={} if caused is None else {source: Estimate(caused, std)},
        platform="test",
        platforms={p: Estimate(ratio, 0.05) for p, ratio in (platforms or {}).items()},
        scores_measured=True,
    )


def view_of(*residents: list[Classification], cpu: int = 8, index: Harmony | None = None) -> View:
    """Servers s0, s1, ... with these residents, each of one CPU and sure of its target."""
    table = BySource().table()
    columns = ServerTable(table, index)
    for at, there in enumerate(residents):
        columns.put(server(f"s{at}", cpu))
        columns.hold(Placement(f"s{at}", Allocation(1000, MIB)) for _ in there)
        table.put(
            at,
            "test",
            [Resident(f"r{uid}", uid, each, False, 0.05) for uid, each in enumerate(there)],
        )
    return columns.view(Capabilities())


def asks(what: Classification | None, rate: float = 100.0, **others) -> Request:
    wanted = replace(workload("w"), target=Target(rate_per_second=rate), tolerance=0.05, **others)
    return Request(wanted, classification=what)


def where(answer: Place | Refuse) -> str:
    assert isinstance(answer, Place), answer.decision.message
    return answer.placements[0].server


def test_published_takes_the_server_with_the_least_to_spare() -> None:
    """D1 = t - 20, D2 = 80 - c: s0 90-20 and 80-10, s1 30-20 and 80-70; s2 tolerates too little."""
    view = view_of([known(90, 10)], [known(30, 70)], [known(15, 0)], [])
    answer = Paragon(AS_PUBLISHED).place(asks(known(80, 20)), view)
    assert where(answer) == "s1"
    numbers = answer.decision.candidates[0].numbers
    others = (len(SharedResource) - 1) * 200.0
    assert numbers["norm"] == pytest.approx(10 + 10 + others)
    assert answer.decision.numbers["back_tracks"] == 0
    assert [one.server for one in answer.decision.candidates][:3] == ["s1", "s0", "s3"]


def test_published_goes_back_where_nobody_tolerates_it_and_takes_the_least_violation() -> None:
    """It causes 60: s0 lacks 20, s1 lacks 10."""
    view = view_of([known(40, 0)], [known(50, 0)])
    answer = Paragon(AS_PUBLISHED).place(asks(known(80, 60)), view)
    assert where(answer) == "s1"
    numbers = answer.decision.numbers
    assert (numbers["back_tracks"], numbers["levels"], numbers["timed_out"]) == (1, 1, 0)
    assert answer.decision.candidates[0].numbers["interference_beyond_tolerated"] == 10


def test_doubt_asks_for_more_than_is_published() -> None:
    view = view_of([known(25, 10, 10.0)], [])
    newcomer = asks(known(80, 20, 10.0))
    assert where(Paragon(AS_PUBLISHED).place(newcomer, view)) == "s0"
    sure = replace(AS_PUBLISHED, confidence=0.9)
    assert where(Paragon(sure).place(newcomer, view)) == "s1"


def test_cumulative_counts_what_neighbors_cause_already() -> None:
    """Each tolerates 50 and causes 40: 10 are left, where 20 would come."""
    view = view_of([known(50, 40), known(50, 40)], [])
    newcomer = asks(known(100, 20))
    assert where(Paragon(AS_PUBLISHED).place(newcomer, view)) == "s0"
    rule = ParagonSettings(rule=SelectionRule.CUMULATIVE, confidence=0.5)
    assert where(Paragon(rule).place(newcomer, view)) == "s1"


def test_a_search_that_takes_too_long_ends_with_the_best_so_far() -> None:
    view = view_of([known(90, 10)], [known(30, 70)])
    answer = Paragon(replace(AS_PUBLISHED, bound=1)).place(asks(known(80, 20)), view)
    assert isinstance(answer, Place)
    assert answer.decision.numbers["timed_out"] == 1


def test_traded_protects_a_resident_that_keeps_its_target_and_not_one_that_has_lost_it() -> None:
    sensitive, loud = known(10, 0), asks(known(100, 60))
    view = view_of([sensitive], [known(100, 0)])
    assert where(Paragon().place(loud, view)) == "s1"
    loss = view.contention.assess(loud, view, 0.8).residents_loss()  # type: ignore[union-attr]
    assert loss.targets[0] > 0.9
    assert loss.targets[1] < 0.5


@pytest.mark.parametrize(
    ("rule", "best_effort", "caused", "goes"),
    [
        ("traded", False, 30, "s0"),
        ("traded", True, 50, "s1"),
        ("published", False, 30, "s1"),
    ],
)
def test_a_resident_off_its_prediction_closes_a_server_but_to_what_is_traded(
    rule: str, best_effort: bool, caused: int, goes: str
) -> None:
    """Alone s0 would be taken, where less is pressed on and tolerance is used up."""
    view = view_of([known(60, 0)], [known(100, caused)])
    newcomer = asks(known(60, 20))
    if best_effort:
        newcomer = replace(newcomer, workload=workload("w", best_effort=True))
    paragon = Paragon(ParagonSettings(rule=SelectionRule(rule), confidence=0.5))
    assert where(paragon.place(newcomer, view)) == "s0"
    off = replace(view, unsettled=np.array([1, 0], dtype=np.uint8))
    assert where(paragon.place(newcomer, off)) == goes


def test_traded_goes_where_no_more_cpu_is_promised_than_there_is() -> None:
    """s0 is the emptier by what it promises; with the newcomer it has 1 CPU for 2."""
    quiet = known(100, 0)
    view = view_of([quiet], [quiet, quiet])
    assert where(Paragon().place(asks(quiet), view)) == "s0"
    promising = replace(view, cpu_real=np.array([1000, 8000]))
    answer = Paragon().place(asks(quiet), promising)
    assert where(answer) == "s1"
    assert answer.decision.predicted is not None
    few = replace(view, cpu_real=np.array([1000, 1000]))
    slowed = Paragon().place(asks(quiet), few)
    assert where(slowed) == "s0"
    assert slowed.decision.predicted is not None
    assert slowed.decision.predicted.mean == pytest.approx(answer.decision.predicted.mean / 2)


def test_traded_takes_the_platform_that_keeps_the_target() -> None:
    view = replace(
        view_of([], [], []), platform=np.array([0, 1, 2]), platforms=("slow", "fast", "test")
    )
    newcomer = asks(known(platforms={"slow": 0.5, "fast": 1.5}), rate=120.0)
    answer = Paragon().place(newcomer, view)
    assert where(answer) == "s1"
    assert answer.decision.predicted is not None
    assert answer.decision.predicted.mean == pytest.approx(1.25)


def test_a_target_out_of_reach_is_placed_where_it_does_best() -> None:
    answer = Paragon().place(asks(known(), rate=1e6), view_of([], []))
    assert isinstance(answer, Place)
    assert answer.decision.reason is ReasonCode.WILL_MISS
    assert (
        "out of reach: even alone on the best server it is kept with 0%" in answer.decision.message
    )


def test_a_target_out_of_reach_is_refused_where_its_user_says_so() -> None:
    full = view_of([known()], cpu=1)
    strict = asks(known(), rate=1e6, on_miss=OnMiss.REJECT)
    answer = Paragon().place(strict, full)
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.WILL_MISS
    assert "onMiss: run" in answer.decision.would_change
    assert isinstance(Paragon().place(replace(strict, restarted=True), view_of([])), Place)
    within = asks(known(), rate=90.0, on_miss=OnMiss.REJECT)
    assert Paragon().place(within, full).decision.reason is ReasonCode.NO_ROOM


def test_out_of_reach_is_what_the_best_server_could_not_do_at_once() -> None:
    slow = replace(view_of([]), platforms=("slow", "test"), platform=np.array([0]))
    missed = asks(known(platforms={"slow": 0.2}), rate=90.0)
    assert Paragon().place(missed, slow).decision.reason is ReasonCode.WILL_MISS
    waited = replace(asks(known(), rate=90.0), waited_seconds=1e6)
    assert Paragon().place(waited, view_of([])).decision.reason is ReasonCode.OK


def test_without_room_it_waits() -> None:
    answer = Paragon().place(asks(known()), view_of([known()], cpu=1))
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.NO_ROOM


def test_a_short_job_goes_to_one_of_the_emptiest_the_same_each_time() -> None:
    view = view_of([known(50, 10)], *([] for _ in range(5)))
    request = asks(known(), expected_seconds=10.0)
    first = Paragon().place(request, view)
    assert where(first) != "s0"
    assert Paragon().place(request, view) == first
    drawn = {where(Paragon(ParagonSettings(seed=seed)).place(request, view)) for seed in range(20)}
    assert len(drawn) > 2


def test_one_eye_closed() -> None:
    view = replace(
        view_of([known(5, 0)], [], []), platform=np.array([0, 1, 1]), platforms=("fast", "test")
    )
    newcomer = asks(known(100, 50, platforms={"fast": 2.0}))
    assert where(InterferenceOblivious().place(newcomer, view)) == "s0"
    assert where(HeterogeneityOblivious().place(newcomer, view)) in ("s1", "s2")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("paragon[rule=cleverest]", "is not one of published, cumulative, traded"),
        ("paragon[confidence=0.4]", "is not a probability from 0.5"),
        ("paragon[colour=red]", "is not a setting"),
    ],
)
def test_what_is_wrong_is_said(spec: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        make_policy(spec)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rule=st.sampled_from((SelectionRule.PUBLISHED, SelectionRule.CUMULATIVE)),
    confidence=st.sampled_from((0.5, 0.8, 0.95)),
)
def test_the_index_answers_as_the_scan(seed: int, rule: SelectionRule, confidence: float) -> None:
    """The same servers in the same order, with the same norms."""
    random = Random(seed)

    def drawn() -> Classification:
        def scores() -> dict[SharedResource, Estimate]:
            some = random.sample(tuple(SharedResource), random.choice((2, 5, len(SharedResource))))
            return {
                s: Estimate(float(random.randrange(0, 60, 5)), random.choice((0, 4))) for s in some
            }

        quiet = {s: Estimate(100 - e.mean, e.std) for s, e in scores().items()}
        return replace(known(), tolerated=quiet, caused=scores())

    counted = cumulative if rule is SelectionRule.CUMULATIVE else None
    index = Harmony(counted)
    there = [
        [drawn() for _ in range(random.choice((0, 1, 2)))] for _ in range(random.choice((1, 6, 30)))
    ]
    view = view_of(*there, index=index)
    kinds = ("test", "fast", "alike")
    at = np.array([random.randrange(3) for _ in there])
    view = replace(view, platform=at, platforms=kinds, loads=None)
    platforms = {"fast": Estimate(1.5, 0.1), "alike": Estimate(1.0, 0.1)}
    request = asks(replace(drawn(), platforms=platforms))
    policy = Paragon(ParagonSettings(rule=rule, confidence=confidence))
    by_scan = policy.place(request, replace(view, index=None))
    assert policy.place(request, replace(view, index=index)) == by_scan
