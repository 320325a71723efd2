"""What an engine can't do with a workload is neither planned nor done."""

from dataclasses import replace

import pytest

from tests.support.cluster import running, workload
from tests.support.courses import filler, made, measure, of, phase, start, wants
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.remedies import event_of
from wharfinger.core.seams.adaptation import Reallocate, Suspend
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.view import Capabilities, Resize, WorkloadLimits
from wharfinger.model.workload import Scale

WITHIN = Capabilities(resize=Resize.WITHIN_ALLOCATION)
DECISION = Decision(Stage.ADAPTATION, "test", True, ReasonCode.OK, "because the test says so")


def cpus_of(actions: list[act.Action]) -> list[int]:
    resizes = of(act.ResizeAllocation, actions)
    return [action.placements[0].allocation.cpu_millicpus for action in resizes]


@pytest.mark.parametrize("policy", ["feedback", "quasar"])
def test_within_its_allocation_it_gives_back_and_takes_again(policy: str) -> None:
    cluster = made(policy, 4, able=WITHIN)
    start(cluster, wants("w", 100.0, 1000))
    (less,) = cpus_of(measure(cluster, 8, w=300.0))
    assert less < 1000
    cluster.tell(ev.AllocationResized(cluster.key("w"), cluster.record("w").planned))
    asked = cpus_of(measure(cluster, 8, w=60.0))
    assert asked
    assert less < asked[0] <= 1000
    cluster.tell(ev.AllocationResized(cluster.key("w"), cluster.record("w").planned))


def test_more_than_it_started_with_is_refused_with_the_reason() -> None:
    cluster = made("feedback", 4, able=WITHIN)
    start(cluster, wants("w", 100.0, 1000))
    assert not measure(cluster, 4, w=60.0)
    record = cluster.record("w")
    assert record.deferral is ReasonCode.NOT_SUPPORTED
    assert "no more than it started with, 1 CPU" in record.message


def test_a_larger_reservation_waits_for_its_next_start() -> None:
    cluster = made("least-loaded", 4, able=WITHIN)
    start(cluster, workload("w"))
    assert not cluster.tell(ev.WorkloadUpdated(workload("w", 2000))).actions
    assert cluster.record("w").deferral is ReasonCode.NOT_SUPPORTED
    less = cluster.tell(ev.WorkloadUpdated(workload("w", 500))).actions
    assert cpus_of(list(less)) == [500]


def test_a_workload_may_be_limited_more_than_its_engine() -> None:
    """Two that are alike, of which one's limits forbid what the other gets."""
    cluster = made("feedback", 8)
    start(cluster, wants("free", 100.0, 1000), wants("rigid", 100.0, 1000))
    cluster.record("rigid").limits = WorkloadLimits(Resize.NONE)
    asked = measure(cluster, 4, free=60.0, rigid=60.0)
    assert {action.key for action in of(act.ResizeAllocation, asked)} == {cluster.key("free")}
    assert cluster.record("rigid").deferral is ReasonCode.NOT_SUPPORTED


def test_a_neighbor_that_may_not_be_suspended_is_stopped_where_it_may_be() -> None:
    cluster = made()
    rigid, plain = filler("rigid"), filler("plain")
    rigid = replace(rigid, run=replace(rigid.run, restartable=True))
    start(cluster, wants("w", 100.0), plain, rigid)
    cluster.record("rigid").limits = WorkloadLimits(suspend=False)
    assert measure(cluster, 2, w=80.0) == [act.StopWorkload(cluster.key("rigid"), 10.0)]
    assert phase(cluster, "rigid") is Phase.MIGRATING


def _placed(server: str, cpu: int) -> Placement:
    return Placement(server, Allocation(cpu, 256 << 20))


def _event_of(remedy, cluster):
    manager = cluster.manager
    return event_of(remedy, manager.state, manager.policy.placement, recommends=False)


@pytest.mark.parametrize(
    ("able", "placements", "why"),
    [
        (Capabilities(resize=Resize.NONE), (_placed("a", 500),), "can't resize"),
        (WITHIN, (_placed("a", 1500),), "no more than it started with"),
        (WITHIN, (_placed("b", 500),), "no other servers"),
        (Capabilities(1), (_placed("a", 500), _placed("b", 500)), "1 servers at most"),
        (Capabilities(fractional_cpu=False), (_placed("a", 1500),), "whole CPUs"),
        (WITHIN, (_placed("a", 500),), ""),
        (Capabilities(2), (_placed("a", 1500), _placed("b", 500)), ""),
    ],
)
def test_the_core_does_not_what_a_policy_should_not_plan(able, placements, why: str) -> None:
    cluster = made("least-loaded", 4, 4, able=able)
    start(cluster, workload("w"))
    event = _event_of(Reallocate("w", placements, DECISION), cluster)
    if why:
        assert isinstance(event, ev.AllocationUnchanged)
        assert event.decision.reason is ReasonCode.NOT_SUPPORTED
        assert why in event.decision.message
    else:
        assert isinstance(event, ev.AllocationPlanned)


def test_the_core_suspends_nothing_where_the_engine_cannot() -> None:
    cluster = made("least-loaded", 4, able=Capabilities(suspend=False))
    start(cluster, workload("w"), workload("x"))
    event = _event_of(Suspend("w", "x", DECISION), cluster)
    assert isinstance(event, ev.AllocationUnchanged)
    assert event.name == "x"


def test_a_new_start_grants_anew() -> None:
    cluster = made("least-loaded", 4, able=WITHIN)
    stated = workload("w")
    start(cluster, replace(stated, run=replace(stated.run, restartable=True)))
    cluster.tell(ev.WorkloadUpdated(replace(cluster.record("w").workload, priority=1)))
    larger = workload("w", 2000)
    larger = replace(larger, run=replace(larger.run, restartable=True))
    cluster.tell(ev.WorkloadUpdated(larger))
    cluster.tell(ev.WorkloadEvicted(cluster.key("w"), "requeued"))
    running(cluster, "w")
    assert cluster.record("w").granted == cluster.record("w").placements
    assert cluster.record("w").granted[0].allocation.cpu_millicpus == 2000


def test_how_many_servers_a_proposal_may_name() -> None:
    cluster = made("feedback", 8, able=Capabilities(max_servers_per_workload=3))
    start(cluster, replace(wants("w"), scale=Scale(max_servers=4)))
    record, residents = cluster.record("w"), cluster.manager._residents
    assert residents.most_servers(record) == 3
    record.limits = WorkloadLimits(max_servers=2)
    assert residents.most_servers(record) == 2
    assert residents.most_servers(replace(record, workload=wants("w"))) == 1
