"""ARQ: classes, slack, switching, pools and what is expected of a queue."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.support.cluster import server, workload
from tests.support.stories import Story, waiting_for_quality
from wharfinger.contention.combined import Combined
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.admission import AdmissionView, ServerSets
from wharfinger.core.seams.contention import Resident
from wharfinger.core.seams.verdicts import Admit, Divert
from wharfinger.core.state import WorkloadRecord
from wharfinger.errors import InvalidInput
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Entry, Estimate, Measurements
from wharfinger.model.queue_accounts import KEPT, QueueAccount
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Measure, Reservation, Scale, Target, Workload, WorkloadType
from wharfinger.native import Releases, switch_after
from wharfinger.policies.admission.arq import (
    ANY,
    LATE,
    Arq,
    ArqSettings,
    Higher,
    Late,
    Platforms,
    ServiceOrder,
)
from wharfinger.policies.admission.busy_periods import BusyFamily, BusyPeriods
from wharfinger.policies.admission.fifo import BEST_EFFORT
from wharfinger.policies.admission.platforms import suitable_platforms
from wharfinger.policies.admission.quality import QualityMeasure, Ranges, demand, qualities
from wharfinger.policies.admission.slack import waiting_slack
from wharfinger.policies.admission.stability import load_factors, traffic
from wharfinger.policies.admission.waits import GIVES
from wharfinger.policies.registry import make_policy
from wharfinger.testing.policy import make_view


def scores(tolerated: float, caused: float) -> Classification:
    """The same of every source."""
    return Classification(
        "test",
        "1",
        tolerated={source: Estimate(tolerated, 1.0) for source in SharedResource},
        caused={source: Estimate(caused, 1.0) for source in SharedResource},
    )


def cluster(*residents: Classification | None, full: bool = False) -> View:
    """Servers of 4 CPUs, each with one resident, or none; ``full`` = that holds all of them."""
    made = make_view(Random(0), len(residents))
    table = Combined().table()
    for row, each in enumerate(residents):
        there = [Resident(f"r{row}", row, each, False, 0.05)] if each else []
        table.put(row, "usual", there)
    count = len(residents)
    return replace(
        made,
        accepting=np.ones(count, dtype=np.uint8),
        cpu_capacity=np.full(count, 4000),
        cpu_allocated=np.full(count, 4000 if full else 1000),
        residents=np.array([int(each is not None) for each in residents]),
        unsettled=np.zeros(count, dtype=np.uint8),
        memory_capacity=np.full(count, 2**34),
        memory_allocated=np.zeros(count, dtype=np.int64),
        contention=table,
    )


def wanted(**fields: Any) -> Workload:
    """Runs for 1,000 s, and tolerates 5% more."""
    made = replace(workload("w"), target=Target(rate_per_second=10.0), expected_seconds=1000.0)
    return replace(made, **fields)


def asked(classification: Classification | None, waited: float = 0.0, **fields: Any) -> Request:
    return Request(wanted(**fields), classification=classification, waited_seconds=waited)


def seen(view: View, waiting: dict[str, int] | None = None, **fields: Any) -> AdmissionView:
    return AdmissionView(view, waiting or {}, 5000.0, **fields)


EMPTY = cluster(None, None)


def test_quality_is_what_is_caused_and_not_tolerated_of_all_sources() -> None:
    assert demand(scores(60, 20), QualityMeasure.BOTH) == pytest.approx(0.3)
    assert demand(scores(60, 20), QualityMeasure.CAUSED) == pytest.approx(0.2)
    assert demand(Classification("test", "1"), QualityMeasure.BOTH) == 0.0
    view = cluster(None, scores(60, 20), scores(10, 90))
    assert qualities(view, QualityMeasure.BOTH) == pytest.approx([1.0, 0.7, 0.1])
    assert qualities(view, QualityMeasure.CAUSED) == pytest.approx([1.0, 0.8, 0.1])
    assert qualities(replace(view, contention=None), QualityMeasure.BOTH) is None


@pytest.mark.parametrize(
    ("tolerated", "caused", "queue"),
    [(100, 0, "class-1"), (60, 20, "class-4"), (0, 100, "class-10"), (5, 100, "class-10")],
)
def test_a_workload_waits_in_the_class_of_its_demand(
    tolerated: float, caused: float, queue: str
) -> None:
    answer = Arq().enqueue(asked(scores(tolerated, caused)), seen(EMPTY))
    assert answer.queue == queue
    assert answer.decision is not None
    assert f"class {queue.partition('-')[2]} of 10" in answer.decision.message


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (asked(None), "no scores"),
        (
            asked(scores(60, 20), waited=60.0, priority=1),
            "its tolerance of 5% lets it wait for 50s, and",
        ),
        (asked(scores(60, 20), waited=1060.0), "it has waited for 17m40s"),
        (asked(scores(60, 20), waited=60.0, waiting_seconds=50.0), "its manifest lets it wait"),
        (asked(scores(60, 20), expected_seconds=None), "it is not known how long it takes"),
        (asked(scores(60, 20), target=None), "nothing says how long it may wait"),
        (
            asked(scores(60, 20), type=WorkloadType.LATENCY_CRITICAL),
            "nothing says how long it may wait",
        ),
        (asked(scores(60, 20), waiting_seconds=0.0), "its manifest lets it wait for 0s"),
    ],
)
def test_who_has_no_slack_may_take_any_server_at_once(request_: Request, why: str) -> None:
    answer = Arq().enqueue(request_, seen(EMPTY))
    assert (answer.queue, answer.review_at) == (ANY, None)
    assert answer.decision is not None
    assert why in answer.decision.message


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, 50.0),
        ({"tolerance": 0.2}, 200.0),
        ({"waiting_seconds": 30.0}, 30.0),
        ({"target": Target(completion_seconds=1600.0)}, 600.0),
        ({"target": Target(completion_seconds=1010.0)}, 10.0),
    ],
)
def test_nobody_waits_beyond_its_slack(fields: dict[str, Any], limit: float) -> None:
    """Waiting in one class after another it reaches the queue for any server in time."""
    arq, now, queue, hops = Arq(), 5000.0, "", 0
    verdict: Any = arq.enqueue(asked(scores(20, 60), **fields), seen(EMPTY))
    while verdict.queue not in {ANY, LATE}:
        assert verdict.queue != queue
        queue, now, hops = verdict.queue, verdict.review_at, hops + 1
        view = replace(seen(EMPTY), now=now)
        verdict = arq.review(asked(scores(20, 60), waited=now - 5000.0, **fields), queue, view)
        assert isinstance(verdict, Divert)
    assert now - 5000.0 == pytest.approx(limit, abs=0.01)
    assert hops > 1, "where nothing is known, each class gets its part"
    late = asked(scores(20, 60), waited=limit + 1, **fields)
    assert not arq.servers(late, "class-8", seen(EMPTY)), "even if it were not reviewed"


def test_whose_target_is_lost_is_put_last_until_it_has_waited_for_as_long_as_it_runs() -> None:
    arq, question = Arq(), asked(scores(60, 20), waited=60.0)
    answer = arq.enqueue(question, seen(EMPTY))
    assert (answer.queue, answer.review_at) == (LATE, pytest.approx(5940.0))
    assert answer.decision is not None
    assert "after those that can still keep their targets" in answer.decision.message
    assert arq.servers(question, LATE, seen(EMPTY)) == ()
    assert arq.queues.index(LATE) > arq.queues.index("class-1")
    verdict = arq.review(asked(scores(60, 20), waited=1000.0), LATE, seen(EMPTY))
    assert isinstance(verdict, Divert)
    assert verdict.queue == ANY
    assert "waited for 16m40s, as long as it runs" in verdict.decision.message
    for first in (Arq(ArqSettings(late=Late.FIRST)), Arq(ArqSettings(queues=1))):
        assert LATE not in first.queues
        assert first.enqueue(question, seen(EMPTY)).queue == ANY


def on_platforms(**std: float) -> Classification:
    """Twice as fast on one platform, and half as fast on another, as on the usual one."""
    platforms = {"fast": Estimate(2.0, 0.1), "slow": Estimate(0.5, 0.1)}
    known = {name: replace(each, std=std.get(name, each.std)) for name, each in platforms.items()}
    return replace(scores(60, 20), platform="usual", platforms=known)


def of_platforms(*of_servers: str) -> View:
    names = tuple(sorted({"fast", "slow", "usual"}))
    rows = np.array([names.index(each) for each in of_servers], dtype=np.intp)
    return replace(cluster(*[None] * len(of_servers)), platforms=names, platform=rows)


def test_it_waits_for_platforms_on_which_its_target_is_not_much_less_likely_kept() -> None:
    view = of_platforms("slow", "fast", "usual", "slow", "fast")
    needs = {"reservation": Reservation(1000, 0), "tolerance": 0.05}
    (taken,) = Arq().servers(asked(on_platforms(), **needs), "class-4", seen(view))
    assert taken.tolist() == [False, True, False, False, True]
    # With a longer slack it may run slower; where little is known it may be fast enough.
    for known, tolerance, wanted in (
        (on_platforms(), 1.5, [False, True, True, False, True]),
        (on_platforms(slow=3.0, fast=3.0), 0.05, [True, True, False, True, True]),
    ):
        (taken,) = Arq().servers(
            asked(known, **{**needs, "tolerance": tolerance}), "class-4", seen(view)
        )
        assert taken.tolist() == wanted
    assert not Arq(ArqSettings(platforms=Platforms.ANY)).servers(
        asked(on_platforms(), **needs), "class-4", seen(view)
    )


def test_it_waits_for_servers_that_may_come_into_its_class_when_they_change() -> None:
    view = of_platforms("slow", "fast", "usual", "fast")
    needs = {"reservation": Reservation(1000, 0), "tolerance": 0.05}
    sets = Arq().servers(asked(on_platforms(), **needs), "class-4", seen(view))
    assert isinstance(sets, ServerSets)
    assert sets.awaited.tolist() == [False, True, False, True]


def test_how_long_it_may_wait_does_not_say_how_slowly_it_may_run() -> None:
    view = of_platforms("slow", "fast", "usual")
    given = {"waiting_seconds": 30.0, "target": Target(completion_seconds=2500.0)}
    question = asked(on_platforms(), reservation=Reservation(1000, 0), **given)
    slack = waiting_slack(question, view.platforms)
    assert (slack.left_seconds, slack.spare_seconds) == (30.0, 1500.0)
    (taken,) = Arq().servers(question, "class-4", seen(view))
    assert taken.tolist() == [False, True, True]
    service = replace(
        question, workload=replace(question.workload, type=WorkloadType.LATENCY_CRITICAL)
    )
    assert not Arq().servers(service, "class-4", seen(view))


def test_the_best_platform_is_one_that_it_fits_on() -> None:
    view = of_platforms("slow", "fast", "usual")
    small = replace(view, cpu_capacity=np.array([4000, 500, 4000]))
    question = asked(on_platforms(), reservation=Reservation(1000, 0))
    (taken,) = Arq().servers(question, "class-4", seen(small))
    # A placement that gives less may take the fast one; no smaller one is worth a wait.
    assert taken.tolist() == [False, True, True]
    labelled = replace(question, allowed=np.array([1, 0, 0], dtype=np.uint8))
    slack = waiting_slack(labelled, view.platforms)
    assert suitable_platforms(labelled, slack, view, 1000) is None, (
        "its labels leave it the slow ones"
    )


@pytest.mark.parametrize("settings", [ArqSettings(), ArqSettings(platforms=Platforms.ANY)])
def test_one_that_waits_for_a_platform_blocks_no_other(settings: ArqSettings) -> None:
    blocks = Arq(settings).blocks(ReasonCode.WAITS_FOR_QUALITY)
    assert blocks == (settings.platforms is Platforms.ANY)
    assert Arq(settings).blocks(ReasonCode.NO_ROOM)


MEASURED = Measurements({Quantity.RATE: {1000: Entry(12.0), 500: Entry(7.0)}}, total=12_000.0)
"""Of a program that runs for 1,000 s."""
UNSTATED = {"expected_seconds": None}


@pytest.mark.parametrize(
    ("fields", "measured", "limit", "bound"),
    [
        # A rate counts over the whole time since the submission: 12,000 / (0.95 x 10) - 1,000.
        (UNSTATED, MEASURED, 263.16, "its target rate"),
        ({**UNSTATED, "tolerance": 0.2}, MEASURED, 500.0, "its target rate"),
        # How much work it is may be stated, and its time too.
        ({"measure": Measure(progress_total=12_000.0)}, None, 263.16, "its target rate"),
        ({}, MEASURED, 263.16, "its target rate"),
        # What is measured comes before a deadline, which is not how long it takes.
        (
            {**UNSTATED, "target": Target(completion_seconds=1600.0)},
            MEASURED,
            600.0,
            "its deadline",
        ),
        # Where the work is unknown its tolerance is taken, of the deadline if nothing else is told.
        (UNSTATED, replace(MEASURED, total=None), None, ""),
        ({}, replace(MEASURED, total=None), 50.0, "its tolerance"),
        ({**UNSTATED, "target": Target(completion_seconds=1600.0)}, None, 80.0, "its tolerance"),
        ({**UNSTATED, "waiting_seconds": 30.0}, MEASURED, 30.0, "its manifest"),
    ],
)
def test_how_long_it_may_wait_follows_from_its_target(
    fields: dict[str, Any], measured: Measurements | None, limit: float | None, bound: str
) -> None:
    question = replace(asked(None, waited=20.0, **fields), measurements=measured)
    slack = waiting_slack(question, ())
    if limit is None:
        assert slack.limit_seconds is None
        return
    assert (slack.limit_seconds, slack.bound) == (pytest.approx(limit, abs=0.01), bound)
    assert slack.left_seconds == pytest.approx(limit - 20, abs=0.01)


def test_a_target_rate_below_its_best_lets_it_run_slower_and_is_not_lost_by_a_wait() -> None:
    known = replace(MEASURED, total=None)
    for rate, spare in ((10.0, 12 / 9.5 - 1), (12.0, 0.05), (24.0, 0.05)):
        question = asked(scores(60, 20), target=Target(rate_per_second=rate))
        slack = waiting_slack(replace(question, measurements=known), ())
        assert slack.left_seconds == pytest.approx(50.0), "it waits no longer for that"
        assert slack.spare_seconds == pytest.approx(1000 * spare)
        late = replace(question, measurements=known, waited_seconds=60.0)
        queue = ANY if rate == 10 else LATE
        assert Arq().enqueue(late, seen(EMPTY)).queue == queue


def test_how_long_it_takes_is_what_it_takes_where_it_runs_best() -> None:
    curve = Curve((500, 1000), (Estimate(7.0, 0.1), Estimate(15.0, 0.1)))
    known = Classification(
        "test",
        "1",
        curves={Quantity.RATE: curve},
        platform="usual",
        platforms={"fast": Estimate(2.0, 0.1), "slow": Estimate(0.5, 0.1)},
    )
    question = replace(asked(known, **UNSTATED), measurements=MEASURED)
    for platforms, seconds in {
        ("slow", "fast", "usual"): 400,
        ("slow", "usual"): 800,
        ("slow",): 1000,  # As it was measured.
        (): 800,
    }.items():
        assert waiting_slack(question, platforms).expected_seconds == pytest.approx(seconds)


TOO_LATE = (
    ({"target": Target(completion_seconds=900.0)}, "its deadline allows 15m"),
    ({"target": Target(rate_per_second=20.0)}, "its target rate allows 10m31.6s"),
)


@pytest.mark.parametrize(("fields", "why"), TOO_LATE)
def test_what_can_not_be_kept_is_told_at_once_and_waits_for_nothing(
    fields: dict[str, Any], why: str
) -> None:
    why = f"its target can't be kept: it should take 16m40s, and {why}"
    question = asked(scores(60, 20), **UNSTATED, **fields)
    verdict = Arq().admit(question, seen(EMPTY, known=lambda _: MEASURED))
    assert verdict.decision is not None
    assert verdict.decision.reason is ReasonCode.WILL_MISS
    assert verdict.decision.message == f"{why}; none waits before it"
    patient = replace(question, workload=replace(question.workload, waiting_seconds=300.0))
    assert Arq().admit(patient, seen(EMPTY, known=lambda _: MEASURED)) == verdict
    answer = Arq().enqueue(replace(question, measurements=MEASURED), seen(EMPTY))
    assert answer.queue == LATE
    assert answer.decision is not None
    when = "after those that can still keep their targets"
    assert answer.decision.message == f"it may take any server {when}: {why}"


@pytest.mark.parametrize(
    ("fields", "profile", "why"),
    [
        (
            {"waiting_seconds": 5.0},
            6.0,
            "its manifest lets it wait for 5s, and its profile takes 7s",
        ),
        ({"expected_seconds": 100.0}, 6.0, "its tolerance of 5% lets it wait for 5s, and its pro"),
        ({"waiting_seconds": 5.0}, 3.0, ""),
        ({"waiting_seconds": 0.0}, 6.0, ""),
        ({}, 6.0, ""),
        ({"type": WorkloadType.LATENCY_CRITICAL}, 6.0, ""),
    ],
)
def test_a_slack_that_its_profile_takes_is_told_at_once(
    fields: dict[str, Any], profile: float, why: str
) -> None:
    view = seen(EMPTY, profile_seconds=lambda _: profile)
    decision = Arq().admit(asked(None, **fields), view).decision
    assert decision is not None
    assert decision.reason is (ReasonCode.NO_SLACK if why else ReasonCode.OK)
    assert why in decision.message
    assert why or decision.message == "none waits before it"


def test_a_workload_takes_servers_of_its_class_and_better_ones() -> None:
    view = cluster(None, scores(60, 20), scores(10, 90), None)
    (good,) = Arq().servers(asked(scores(60, 40)), "class-5", seen(view))
    assert good.tolist() == [True, True, False, True]
    assert not Arq().servers(asked(scores(60, 40)), "class-1", seen(view)), "all are good enough"


def test_as_published_higher_classes_are_taken_only_where_nobody_waits_for_them() -> None:
    arq = Arq(ArqSettings(higher=Higher.EMPTY))
    view, question = cluster(None, scores(60, 20), scores(10, 90), None), asked(scores(60, 40))
    tiers = [each.tolist() for each in arq.servers(question, "class-5", seen(view))]
    assert tiers == [[False, True, False, False], [True, False, False, True]]
    waits = {"class-9": 1}
    tiers = [each.tolist() for each in arq.servers(question, "class-5", seen(view, waits))]
    assert tiers == [[False, True, False, False]]
    waits = {"class-6": 1}
    (none,) = arq.servers(question, "class-5", seen(view, waits))
    assert not none.any(), "none of its own, and the next is waited for"


@pytest.mark.parametrize("again", [{"restarted": True}, {"excluded": frozenset({0})}])
def test_what_is_started_again_may_take_any_server(again: dict[str, Any]) -> None:
    question = replace(asked(scores(10, 90)), **again)
    assert not Arq().servers(question, "class-9", seen(cluster(scores(10, 90))))


def test_by_quantiles_equally_many_servers_are_in_each_class() -> None:
    arq = Arq(ArqSettings(queues=3, ranges=Ranges.QUANTILE))
    view = cluster(*(scores(100 - each, each) for each in (90, 80, 30, 20, 10, 0)))
    counts = [arq.report(f"class-{at}", seen(view)).servers for at in (1, 2, 3)]
    assert counts == [2, 2, 2]


def test_a_free_server_has_room_that_would_be_taken() -> None:
    """For as much as a resident holds in the mean: 1 CPU and 1 GiB of four and 16."""
    view = cluster(*[scores(60, 20)] * 5)
    view = replace(view, memory_allocated=np.full(5, 2**30), cpu_others=None, memory_others=None)

    def free(**columns: Any) -> int | None:
        return Arq().report("class-8", seen(replace(view, **columns))).free

    assert free() == 5
    assert free(cpu_allocated=np.array([3500, 500, 500, 250, 250])) == 4
    assert free(memory_allocated=np.array([2**34 - 2**20, 2**20, 2**20, 2**20, 2**20])) == 4
    assert free(unsettled=np.array([1, 0, 0, 0, 0], dtype=np.uint8)) == 4
    assert free(accepting=np.array([1, 0, 0, 1, 1], dtype=np.uint8)) == 3


def test_the_shortest_is_served_first_where_that_is_asked_for() -> None:
    arq = Arq(ArqSettings(order=ServiceOrder.SHORTEST))
    assert arq.enqueue(asked(scores(60, 20)), seen(EMPTY)).rank == 1000.0
    assert Arq().enqueue(asked(scores(60, 20)), seen(EMPTY)).rank == 0.0


def test_the_shortest_is_profiled_first_unless_it_comes_too_late() -> None:
    arq = Arq(ArqSettings(order=ServiceOrder.SHORTEST))

    def rank(expected: float | None, now: float) -> float:
        verdict = arq.admit(asked(None, expected_seconds=expected), replace(seen(EMPTY), now=now))
        assert isinstance(verdict, Admit)
        return verdict.rank

    assert rank(100.0, 5200.0) < rank(400.0, 5000.0) < rank(100.0, 5400.0)
    assert rank(10.0, 5000.0) < rank(None, 5000.0) < rank(10_000.0, 5000.0)
    verdict = Arq().admit(asked(None), seen(EMPTY))
    assert isinstance(verdict, Admit)
    assert verdict.rank == 0.0


def account(ended: int, placed: int, busy_seconds: float = 100.0) -> QueueAccount:
    made, draws = QueueAccount(), np.random.default_rng(3)
    for at in range(ended):
        began = 5000.0 - 10.0 * (ended - at)
        made.arrive(began)
        made.place(f"e{at}", began)
        made.end(f"e{at}", began + float(draws.exponential(busy_seconds)), has_run=True)
    for at in range(placed):
        made.place(f"p{at}", 5000.0 - 10.0 * at)
    return made


def test_busy_periods_are_fitted_when_there_are_enough_and_again_when_there_are_more() -> None:
    arq, accounts = Arq(), {"class-4": account(19, 5)}
    assert arq.observe(seen(EMPTY, accounts=accounts)) is None
    accounts["class-4"] = account(40, 5)
    note = arq.observe(seen(EMPTY, accounts=accounts))
    assert note is not None
    assert arq.observe(seen(EMPTY, accounts=accounts, note=note)) is None
    accounts["class-4"] = account(61, 5)
    assert arq.observe(seen(EMPTY, accounts=accounts, note=note)) not in (None, note)
    many = accounts["class-4"]
    many.ended = 10_000
    note = arq.observe(seen(EMPTY, accounts=accounts, note=note))
    assert note is not None
    many.busy_seconds += [1.0] * (KEPT - len(many.busy_seconds))
    many.ended += KEPT // 2 - 1
    assert arq.observe(seen(EMPTY, accounts=accounts, note=note)) is None
    many.ended += 1
    assert arq.observe(seen(EMPTY, accounts=accounts, note=note)), "half of what is kept is new"


FULL = cluster(scores(60, 20), scores(60, 20), full=True)


def over_slack(arq: Arq, request: Request, view: AdmissionView) -> float:
    decision = arq.enqueue(request, view).decision
    assert decision is not None
    return decision.numbers["wait_over_slack_probability"]


def test_the_wait_that_is_told_is_that_of_the_position() -> None:
    arq, accounts = Arq(), {"class-4": account(100, 10)}
    note = arq.observe(seen(FULL, accounts=accounts))
    assert note is not None
    question = asked(scores(60, 20))
    over = [
        over_slack(arq, question, seen(FULL, {"class-4": n}, accounts=accounts, note=note))
        for n in (0, 3, 9)
    ]
    # Ten that stay busy for 100 s on average: in 50 s four of them end.
    assert over[0] == pytest.approx(exp(-GIVES * 4), abs=0.03)
    assert over == sorted(over)
    assert over[2] > 0.4
    report = arq.report("class-4", seen(FULL, {"class-4": 3}, accounts=accounts, note=note))
    assert report.wait_low is not None
    assert report.wait_seconds is not None
    assert 0 < report.wait_low < report.wait_seconds < 100
    # One comes each 10 s and stays for 100: ten servers, so they are just enough.
    assert report.load == pytest.approx(1.0, abs=0.3)


def test_what_is_told_counts_those_that_really_go_first() -> None:
    """Of nine that wait in its class four have a higher priority, two a lower one."""
    arq, accounts = Arq(), {"class-4": account(100, 10)}
    note = arq.observe(seen(FULL, accounts=accounts))
    assert note is not None
    priorities = [5, 5, 5, 5, 0, 0, 0, -1, -1]

    def before(queues: Sequence[str], priority: int, rank: float, name: str) -> list[int]:
        first = sum(each >= priority for each in priorities)
        return [first if queue == "class-4" else 0 for queue in queues]

    view = seen(FULL, {"class-4": 9}, accounts=accounts, note=note, positions=before)
    over, numbers = [], []
    for priority in (9, 5, 0, -1):
        decision = arq.enqueue(asked(scores(60, 20), priority=priority), view).decision
        assert decision is not None
        over.append(decision.numbers["wait_over_slack_probability"])
        numbers.append(decision.numbers["waiting_before"])
        assert f"; {numbers[-1]:.0f} wait before it" in decision.message
    assert numbers == [0, 4, 7, 9]
    assert over == sorted(over)
    assert over[0] < over[1] < over[2] < over[3]
    # The next that comes has the usual priority.
    last = replace(view, positions=None)
    told, later = arq.report("class-4", view), arq.report("class-4", last)
    assert told.wait_low is not None
    assert later.wait_low is not None
    assert told.wait_low < later.wait_low


def test_one_that_goes_first_waits_longer_in_its_own_class() -> None:
    """Where the class below serves all of a class before its own, it turns to that later."""
    arq, accounts = Arq(ArqSettings(higher=Higher.EMPTY)), {"class-4": account(100, 10)}
    accounts["class-3"] = accounts["class-4"]
    note = arq.observe(seen(FULL, accounts=accounts))
    assert note is not None

    def switch(priority: int) -> float:
        view = seen(
            FULL,
            {"class-4": 6, "class-3": 6},
            accounts=accounts,
            note=note,
            positions=lambda queues, priority, rank, name: [
                0 if priority > 0 or queue == "class-3" else 6 for queue in queues
            ],
        )
        answer = arq.enqueue(asked(scores(60, 20), priority=priority), view)
        assert answer.decision is not None
        return answer.decision.numbers["switch_seconds"]

    assert switch(1) > switch(0)


def test_one_that_starts_on_several_servers_together_waits_for_as_many_ends() -> None:
    arq, accounts = Arq(), {"class-4": account(100, 10)}
    note = arq.observe(seen(FULL, accounts=accounts))
    assert note is not None
    able = Capabilities(max_servers_per_workload=8)
    gang, freely = Scale(max_servers=3, gang=True), Scale(max_servers=3)

    def told(view: View, scale: Scale) -> float:
        view = replace(view, capabilities=able)
        question = asked(scores(60, 20), scale=scale)
        return over_slack(arq, question, seen(view, accounts=accounts, note=note))

    assert told(FULL, gang) > told(FULL, freely) + 0.1
    assert told(FULL, freely) == told(FULL, Scale())
    assert told(cluster(None, None), gang) > 0 == told(cluster(None, None), freely)
    assert told(cluster(None, None, None), gang) == 0
    # All of them are of its class or a higher one.
    servers = cluster(None, scores(10, 90), None)
    (good,) = arq.servers(asked(scores(60, 40), scale=gang), "class-5", seen(servers))
    assert good.tolist() == [True, False, True]


def test_what_has_a_place_now_does_not_wait() -> None:
    arq, accounts = Arq(), {"class-4": account(100, 10)}
    note = arq.observe(seen(FULL, accounts=accounts))
    assert note is not None
    view = seen(cluster(scores(60, 20)), {"class-9": 5}, accounts=accounts, note=note)
    assert over_slack(arq, asked(scores(60, 20)), view) == 0
    assert arq.report("class-4", view).wait_seconds == 0


def test_ends_count_where_they_give_it_a_server_of_its_class() -> None:
    arq, accounts = Arq(), {"class-4": account(100, 10)}
    note = arq.observe(seen(FULL, accounts=accounts))
    assert note is not None
    loaded = [scores(10, 90)] * 3
    demanding, few = asked(scores(20, 60)), [scores(20, 60), *loaded]

    def told(view: View) -> float:
        return over_slack(arq, demanding, seen(view, accounts=accounts, note=note))

    shared = cluster(*few, full=True)
    crowded = replace(shared, residents=np.array([1, 4, 4, 4]))
    # When the only resident ends, the server is empty, and good enough for all.
    assert told(crowded) > told(shared) + 0.1
    # A quarter of a server is too little for one that needs all of it.
    quarters = replace(cluster(*[scores(60, 20)] * 2, full=True), residents=np.array([4, 4]))
    large = asked(scores(60, 20), reservation=Reservation(4000, 1))
    assert over_slack(arq, large, seen(quarters, accounts=accounts, note=note)) == 1
    small = asked(scores(60, 20), reservation=Reservation(1000, 1))
    assert over_slack(arq, small, seen(quarters, accounts=accounts, note=note)) < 0.5
    off_prediction = replace(crowded, unsettled=np.ones(4, dtype=np.uint8))
    assert told(off_prediction) == 1


def test_one_whose_length_nobody_knows_takes_as_long_as_others() -> None:
    arq, accounts = Arq(), {"class-4": account(100, 10)}
    note = arq.observe(seen(EMPTY, accounts=accounts))
    assert note is not None
    question = asked(scores(60, 20), expected_seconds=None)
    answer = arq.enqueue(question, seen(EMPTY, accounts=accounts, note=note))
    assert answer.queue == "class-4"
    assert answer.decision is not None
    assert answer.decision.numbers["slack_seconds"] == pytest.approx(0.05 * 70, rel=0.3)


def test_best_effort_work_has_its_own_queue() -> None:
    question = asked(None, type=WorkloadType.BEST_EFFORT, target=None)
    assert Arq().enqueue(question, seen(EMPTY)).queue == BEST_EFFORT
    assert Arq().review(question, BEST_EFFORT, seen(EMPTY)) is None
    assert not Arq().servers(question, BEST_EFFORT, seen(EMPTY))


def test_with_one_queue_nothing_is_waited_for_but_room() -> None:
    arq = Arq(ArqSettings(queues=1))
    assert arq.queues == (ANY, BEST_EFFORT)
    assert arq.enqueue(asked(scores(60, 20)), seen(EMPTY)).queue == ANY
    accounts = {ANY: account(100, 10)}
    note = arq.observe(seen(FULL, accounts=accounts))
    assert note is not None
    few, many = (
        arq.report(ANY, seen(FULL, {ANY: waiting}, accounts=accounts, note=note))
        for waiting in (0, 3)
    )
    assert (few.servers, few.free, few.quality) == (len(FULL.names), 0, None)
    assert few.over_slack is not None
    assert few.wait_seconds is not None
    assert many.wait_seconds is not None
    assert 0 < few.wait_seconds < many.wait_seconds


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("arq[queues=0]", "^setting queues=0: give a number from 1 to 100"),
        ("arq[queues=101]", "^setting queues=101: give a number from 1 to 100"),
        ("arq[ranges=round]", "is not one of equal, quantile"),
    ],
)
def test_settings_out_of_range_are_refused(spec: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make_policy("paragon", admission=spec)


def until_it_may_take_any(story: Story, record: WorkloadRecord) -> list[str]:
    """The queues that it goes through, as the manager wakes."""
    seen = [record.queue]
    while record.queue not in {ANY, LATE}:
        due = story.manager.wake_at(story.now)
        assert due is not None
        story.now = max(story.now, due)
        story.tell(ev.TimePassed())
        seen.append(record.queue)
    return seen


@pytest.mark.parametrize("set_back", [0.0, 30.0])
def test_servers_that_leave_while_a_class_waits_for_them_strand_nobody(set_back: float) -> None:
    story, name = waiting_for_quality()
    record, queued_at = story.record(name), story.now
    story.tell(ev.ServerLeft("server0", "gone"))
    story.tell(ev.WorkloadVanished(story.key("noisy"), "its server is gone"))
    story.now -= set_back  # the clock
    seen_queues = until_it_may_take_any(story, record)
    assert story.now - queued_at == pytest.approx(50.0, abs=1.0), "its slack after profiling"
    assert len(set(seen_queues)) > 2, "from class to class, though their pools are empty"
    story.tell(ev.ServerReported(server("server1", 1, 2048)))
    assert record.phase is Phase.PLACED


# --- equation 2 ------------------------------------------------------------------------------

SLACK, BUDGET = 100.0, 2100.0


def serves(mean_seconds: float) -> Releases:
    """A server that comes free after so long in the mean, however long it has been busy."""
    busy = BusyPeriods(BusyFamily.EXPONENTIAL, (mean_seconds,), 100, 0.0)
    return busy.curve.releases([[0.0]], 0.0, 1)


def switched(
    own: Releases | None,
    other: Releases | None,
    qualities: tuple[float, float],
    *,
    better_alone: bool = False,
) -> float | None:
    return switch_after(own, 1, other, 1, *qualities, SLACK, BUDGET, better_alone)


def test_where_the_lower_queue_serves_as_soon_it_is_turned_to_late() -> None:
    alike = serves(50)
    late = switched(alike, alike, (0.9, 0.2))
    soon = switched(alike, alike, (0.9, 0.89))
    assert late is not None
    assert soon is not None
    assert late > soon > 0


def test_a_queue_that_serves_nobody_is_left_at_once() -> None:
    assert switched(None, serves(50), (0.9, 0.2)) == 0
    assert switched(serves(50), None, (0.9, 0.2)) == SLACK
    assert switched(None, None, (0.9, 0.2)) is None


def test_the_switch_is_the_best_of_all() -> None:
    own, other, waits = serves(80), serves(10), np.linspace(0, SLACK, 9).tolist()
    served, later = own.within(waits, 1), other.within(waits, 1)

    def value(step: int) -> float:
        first = served[step] * 0.9 * (BUDGET - waits[step])
        return first + (1 - served[step]) * later[8 - step] * 0.6 * (BUDGET - SLACK)

    assert switched(own, other, (0.9, 0.6)) == waits[max(range(9), key=value)]


def test_as_printed_the_better_queue_is_waited_in() -> None:
    own, other = serves(80), serves(10)
    assert switched(own, other, (0.9, 0.6), better_alone=True) == SLACK
    assert switched(own, other, (0.7, 0.6), better_alone=True) == 0


# --- stability -------------------------------------------------------------------------------


def test_what_is_diverted_adds_to_the_traffic_of_where_it_goes() -> None:
    routing = np.array([[0, 0.5, 0], [0, 0, 0.2], [0, 0, 0]])
    entered = traffic(np.array([1.0, 2.0, 0.0]), routing)
    assert entered.sum(axis=1) == pytest.approx([1.0, 2.5, 0.5])
    assert entered[2] == pytest.approx([0.1, 0.4, 0.0]), "of each queue's own arrivals"


def test_a_queue_that_gets_more_than_its_servers_can_do_has_a_load_beyond_one() -> None:
    fed = QueueAccount(arrived=[0.0, 10.0, 20.0], entered=3)
    diverting = QueueAccount(arrived=[0.0, 10.0, 20.0], entered=3, diverted={"b": 3})
    loads = load_factors(
        ("a", "b", "c"), {"a": diverting, "b": fed}, {"a": 20.0, "b": 20.0}, {"a": 1, "b": 3}, 20.0
    )
    assert loads["a"].factor == pytest.approx(0.1 * 0.25 * 20)
    assert loads["b"].factor == pytest.approx(0.1 * 1.75 * 20 / 3)
    assert loads["b"].parts == pytest.approx({"a": 0.5, "b": 2 / 3, "c": 0})
    assert "57% of that work was submitted to it: as work comes" in loads["b"].warning("b")
    assert not loads["a"].warning("a")
    assert "c" not in loads


def test_the_class_whose_work_overloads_all_servers_is_named() -> None:
    arq, diverting = Arq(), account(100, 40)
    diverting.diverted[ANY] = 80
    accounts = {"class-4": diverting, ANY: account(100, 4)}
    note = arq.observe(seen(EMPTY, accounts=accounts))
    assert note is not None
    reports = {
        each: arq.report(each, seen(EMPTY, accounts=accounts, note=note)) for each in arq.queues
    }
    every = reports[ANY]
    assert every.load == pytest.approx(sum(every.load_parts.values()))
    assert every.load_parts[ANY] > every.load_parts["class-4"] > every.load_parts["class-3"] == 0
    assert "queue any gets" in every.warning
    # What it diverts loads others.
    assert reports["class-4"].load < every.load_parts["class-4"]
    assert reports["class-4"].quality == pytest.approx((0.3, 0.4))
