"""iBench's first fit beside numbers worked by hand; the index answers as a look at all servers."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cluster import MIB, server
from tests.unit.policies.test_paragon import CACHE, DISK, asks, known, view_of
from wharfinger.contention.by_source import BySource
from wharfinger.core.seams.contention import Resident
from wharfinger.core.seams.verdicts import WaitUntil
from wharfinger.core.tables import ServerTable
from wharfinger.errors import InvalidInput
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.view import Capabilities, View
from wharfinger.model.workload import WorkloadType
from wharfinger.policies.placement.harmony import Harmony
from wharfinger.policies.placement.ibench import BEYOND, NORM, IBench, IBenchSettings
from wharfinger.policies.registry import make_policy

OTHERS = (len(SharedResource) - 1) * 200.0
"""Of the norm: sources that nobody causes and all tolerate, both ways."""
PATIENT = IBench(IBenchSettings(worth=1.0))
AT_ONCE = IBench(IBenchSettings(patience_seconds=0))


def where(answer: object) -> str:
    assert isinstance(answer, Place), answer
    return answer.placements[0].server


def test_the_server_is_taken_that_wastes_least_of_what_is_tolerated() -> None:
    """Equation 5.1, both ways: s0 |90-20| + |80-10|, s1 |30-20| + |80-70|; s2 tolerates 15."""
    view = view_of([known(90, 10)], [known(30, 70)], [known(15, 0)], [])
    answer = IBench().place(asks(known(80, 20)), view)
    assert where(answer) == "s1"
    first, second, third, refused = answer.decision.candidates
    assert first.numbers[NORM] == pytest.approx(10 + 10 + OTHERS)
    assert second.numbers[NORM] == pytest.approx(70 + 70 + OTHERS)
    assert (second.server, third.server) == ("s0", "s3")
    assert third.numbers[NORM] == pytest.approx(80 + 80 + OTHERS), "100 tolerated, 0 caused"
    assert (refused.server, refused.reason) == ("s2", ReasonCode.INTERFERENCE)
    assert refused.numbers["storage_bandwidth_beyond"] == pytest.approx(5)


def test_no_platform_is_preferred() -> None:
    newcomer = known(80, 20, platforms={"test": 1.0, "fast": 9.0})
    view = view_of([known(90, 10)], [known(30, 70)])
    assert where(IBench().place(asks(newcomer), view)) == "s1"


def test_what_neighbors_cause_already_counts() -> None:
    """Each tolerates 50 and causes 40: 10 are left, where 20 would come."""
    view = view_of([known(50, 40), known(50, 40)], [])
    assert where(IBench().place(asks(known(100, 20)), view)) == "s1"


def test_it_waits_for_other_neighbors_and_says_which_source_refused() -> None:
    view = view_of([known(40, 0)], [known(50, 0)])
    answer = PATIENT.place(replace(asks(known(80, 90)), now=1000.0), view)
    assert isinstance(answer, WaitUntil)
    assert 1000.0 < answer.time <= 1060.0
    decision = answer.decision
    assert decision.reason is ReasonCode.INTERFERENCE
    assert "on s1 storage-bandwidth by 40 points more than the residents tolerate" in (
        decision.message
    )
    beyond = {one.server: one.numbers[BEYOND] for one in decision.candidates}
    assert beyond == {"s0": 50.0, "s1": 40.0}
    assert all(one.score is None for one in decision.candidates)


def test_the_newcomer_may_be_the_one_that_does_not_tolerate() -> None:
    view = view_of([known(100, 70)])
    answer = PATIENT.place(asks(known(20, 0)), view)
    assert "storage-bandwidth by 50 points more than it tolerates" in answer.decision.message


def test_after_its_patience_it_goes_where_least_is_lacking() -> None:
    view = view_of([known(40, 0)], [known(50, 0)])
    waited = replace(asks(known(80, 90)), waited_seconds=60.0)
    assert where(IBench().place(waited, view)) == "s1"
    assert where(AT_ONCE.place(asks(known(80, 90)), view)) == "s1"


def test_it_goes_at_once_where_it_adds_more_than_it_takes() -> None:
    """A few points too many take little of anybody."""
    view = view_of([known(50, 0)])
    answers = [IBench().place(asks(known(80, caused)), view) for caused in (52, 100)]
    assert [type(answer) for answer in answers] == [Place, Place]
    picky = IBench(IBenchSettings(worth=1.0))
    assert isinstance(picky.place(asks(known(80, 52)), view), WaitUntil)


def test_a_server_with_a_workload_below_its_target_takes_no_one() -> None:
    view = view_of([known(90, 10)], [])
    closed = replace(view, unsettled=np.array([1, 0], dtype=np.uint8))
    assert where(IBench().place(asks(known(80, 20)), closed)) == "s1"
    both = replace(view, unsettled=np.array([1, 1], dtype=np.uint8))
    answer = IBench().place(asks(known(80, 20)), both)
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.OFF_PREDICTION


def test_best_effort_work_is_refused_for_what_it_causes_and_not_for_what_it_suffers() -> None:
    loud, quiet = known(10, 60), known(10, 5)
    view = view_of([known(50, 70)])
    refused, placed = (
        PATIENT.place(
            replace(r, workload=replace(r.workload, type=WorkloadType.BEST_EFFORT, target=None)),
            view,
        )
        for r in (asks(loud), asks(quiet))
    )
    assert isinstance(refused, WaitUntil)
    assert isinstance(placed, Place)


def test_best_effort_work_is_not_heaped_where_no_cpu_is_left() -> None:
    """s0 would fit more closely, and best-effort work wants all of its CPU."""
    view = view_of([known(50, 20)], [])
    wanted = replace(view, cpu_wanted=np.array([8000, 0], dtype=np.int64))
    asked = asks(known(100, 5))
    asked = replace(
        asked, workload=replace(asked.workload, type=WorkloadType.BEST_EFFORT, target=None)
    )
    assert where(AT_ONCE.place(asked, view)) == "s0"
    assert where(AT_ONCE.place(asked, wanted)) == "s1"


def test_without_a_classification_it_is_the_least_loaded() -> None:
    view = view_of([known(90, 10)], [])
    answer = IBench().place(asks(None), view)
    assert where(answer) == "s1"
    assert "nothing is known of it" in answer.decision.message


def test_servers_that_promise_more_cpu_than_they_have_are_refused_first() -> None:
    """Of 8 CPUs 4 are real: s0 has 3 of them taken, s1 4."""
    view = view_of([known(90, 10)] * 3, [known(40, 5)] * 4)
    real = replace(view, cpu_real=np.array([4000, 4000], dtype=np.int64))
    assert where(AT_ONCE.place(asks(known(100, 0)), view)) == "s1"
    assert where(AT_ONCE.place(asks(known(100, 0)), real)) == "s0"


def test_a_model_without_scores_is_asked_for_slowdowns() -> None:
    placement = make_policy("ibench", contention="by-pair").placement
    assert where(placement.place(asks(known(80, 20)), view_of([known(90, 10)], []))) in {"s0", "s1"}


def test_a_setting_that_there_is_not_is_told_in_a_line() -> None:
    with pytest.raises(
        InvalidInput, match="'patience' is not a setting; near it are patience_seconds"
    ):
        make_policy("ibench[patience=3]")
    with pytest.raises(InvalidInput, match="patience_seconds=-1: give a number, 0 or more"):
        make_policy("ibench[patience_seconds=-1]")


def drawn(random: Random) -> Classification:
    return Classification(
        "drawn",
        "1",
        {},
        tolerated={s: Estimate(random.uniform(20, 100), 5.0) for s in (DISK, CACHE)},
        caused={s: Estimate(random.uniform(0, 50), 5.0) for s in (DISK, CACHE)},
        scores_measured=True,
    )


def drawn_view(random: Random, index: Harmony | None) -> View:
    table = BySource().table()
    columns = ServerTable(table, index)
    for at in range(random.randint(1, 12)):
        columns.put(server(f"s{at}", random.choice((4, 8, 12))))
        there = [drawn(random) for _ in range(random.randint(0, 3))]
        columns.hold(Placement(f"s{at}", Allocation(1000, MIB)) for _ in there)
        residents = [Resident(f"r{at}-{n}", n, each, False, 0.05) for n, each in enumerate(there)]
        table.put(at, "test", residents)
        columns.unsettle(f"s{at}", unsettled=random.random() < 0.1)
    return columns.view(Capabilities())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_index_answers_as_a_look_at_all_servers(seed: int) -> None:
    placement = IBench()
    index = placement.index()
    assert isinstance(index, Harmony)
    indexed = placement.place(asks(drawn(Random(seed + 1))), drawn_view(Random(seed), index))
    scanned = placement.place(asks(drawn(Random(seed + 1))), drawn_view(Random(seed), None))
    assert type(indexed) is type(scanned)
    if isinstance(indexed, Place) and isinstance(scanned, Place):
        assert indexed.placements == scanned.placements
        one, other = (each.decision.candidates[0].numbers for each in (indexed, scanned))
        assert one.get(NORM, 0.0) == pytest.approx(other.get(NORM, 0.0))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_is_placed_beside_whom_it_does_not_tolerate_without_a_word(seed: int) -> None:
    answer = AT_ONCE.place(asks(drawn(Random(seed + 1))), drawn_view(Random(seed), None))
    if isinstance(answer, Place):
        beyond = answer.decision.candidates[0].numbers[BEYOND]
        assert (beyond > 0) == ("nowhere do all tolerate" in answer.decision.message)
