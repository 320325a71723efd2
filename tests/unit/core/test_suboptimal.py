"""What keeps its target is placed again, where that frees CPU for those who wait."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, server, workload
from tests.support.courses import classified, curve, labelled, made, measure, of, phase, wants
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Performance
from wharfinger.model.workload import Adapt
from wharfinger.policies.adaptation.slack import Slack, TargetSettings
from wharfinger.policies.adaptation.suboptimal import Suboptimal

AGAIN = "quasar[adaptation.placed_again=1,adaptation.placed_again_period_seconds=60]"


def held(policy: str = AGAIN, **others) -> Cluster:
    """w holds 3 of 4 CPUs of a, and needs one; b has 2, and one that wants 4 waits."""
    cluster = made(policy, 4)
    cluster.tell(ev.WorkloadSubmitted(labelled(replace(wants(restartable=True), **others))))
    classified(cluster, "w", (1000, 40), (2000, 80), (3000, 140), (4000, 180), std=0.02)
    running(cluster, "w")
    # Since then more is known of it.
    cluster.record("w").classification = curve((500, 60), (1000, 104), (4000, 106), std=0.01)
    cluster.tell(ev.ServerReported(server("b", 2)))
    cluster.tell(ev.WorkloadSubmitted(workload("big", 4000)))
    assert cluster.record("big").deferral is ReasonCode.NO_ROOM
    return cluster


def moved(cluster: Cluster, periods: int = 40, **rates: float) -> bool:
    asked = measure(cluster, periods, **(rates or {"w": 105}))
    return bool(of(act.StopWorkload, asked))


def test_it_goes_to_where_less_cpu_keeps_its_target_and_who_waited_gets_the_rest() -> None:
    cluster = held()
    assert moved(cluster)
    why = cluster.record("w").decisions[-1].decision
    assert why.reason is ReasonCode.PLACED_AGAIN
    assert "b should keep its target with" in why.message
    assert why.numbers["freed_cpu_seconds"] > why.numbers["move_cpu_seconds"]
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
    cluster.check_books()
    assert cluster.record("w").placements[0].server == "b"
    assert cluster.record("big").placements[0].server == "a"


@pytest.mark.parametrize(
    ("policy", "others"),
    [
        ("quasar", {}),
        (AGAIN, {"adapt": Adapt.OFF}),
        (AGAIN, {"run": replace(wants().run, restartable=False)}),
    ],
)
def test_it_stays_where_that_is_not_asked_for_or_not_allowed(policy: str, others: dict) -> None:
    assert not moved(held(policy, **others))


def test_it_stays_where_nobody_waits() -> None:
    cluster = held()
    cluster.tell(ev.WorkloadRevoked("big"))
    assert not moved(cluster)
    assert phase(cluster, "w") is Phase.RUNNING


def test_what_would_have_to_do_its_work_again_stays_once_it_has_run_for_long() -> None:
    # Of what tells no end as much is left as is done: it would hold less, for twice as long.
    known = curve((500, 40), (1500, 104), (4000, 106), std=0.01)
    cluster = held()
    cluster.record("w").classification = known
    cluster.now += 3000
    assert not moved(cluster)


@pytest.mark.parametrize(("priority", "share"), [(0, 0.2), (3, 0.59), (-1, 0.11)])
def test_high_priorities_are_more_likely_of_the_sample(priority: int, share: float) -> None:
    cluster = made(AGAIN, 4)
    cluster.tell(ev.WorkloadSubmitted(replace(wants(), priority=priority)))
    running(cluster, "w")
    record, due = cluster.record("w"), 0
    again = Suboptimal(Slack(TargetSettings(placed_again=0.2, placed_again_period_seconds=100.0)))
    for period in range(20_000):
        record.performance = Performance(10.0 * period + 10, measured_before=10.0 * period)
        due += again._is_due(record)
    assert due / 2000 == pytest.approx(share, abs=0.04)
