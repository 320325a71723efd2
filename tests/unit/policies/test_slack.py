"""On which of its servers a workload is slowed, and what is concluded from that."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import Residents
from wharfinger.core.state import Adjustment, AdjustmentKind, ManagerState, WorkloadRecord
from wharfinger.core.tracking import TargetTracking
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Performance, Quantity, Reading
from wharfinger.model.workload import LatencyBound, Run, Target, Workload, WorkloadType
from wharfinger.policies.adaptation.by_target import _affected_by_resume
from wharfinger.policies.adaptation.slack import Slack, TargetSettings, is_saturated

NOW = 1000.0
SLACK = Slack(TargetSettings())


def on(*servers: str, cpus: int = 2) -> tuple[Placement, ...]:
    return tuple(Placement(server, Allocation(1000 * cpus, 1)) for server in servers)


def web(reached: float, **cpu_by_server: float) -> WorkloadRecord:
    """A service with two CPUs on each of these servers, of which it uses so much there."""
    target = Target(100.0, LatencyBound(99, 0.1))
    kind = WorkloadType.LATENCY_CRITICAL
    record = WorkloadRecord(Workload("web", kind, Run(("w",)), target), 1, 0.0, Phase.RUNNING)
    record.placements, record.started_at = on(*cpu_by_server), 0.0
    return seen(record, reached, **cpu_by_server)


def seen(record: WorkloadRecord, reached: float, **cpu_by_server: float) -> WorkloadRecord:
    used = sum(cpu_by_server.values())
    readings = {
        Quantity.THROUGHPUT: Reading(100.0, "x"),
        Quantity.OFFERED: Reading(100.0, "x"),
        Quantity.LATENCY: Reading(0.1 / reached, "x"),
        Quantity.CPU: Reading(used, "x", trusted=False),
    }
    record.performance = Performance(NOW, readings, cpu_by_server=cpu_by_server)
    record.tracking = TargetTracking(reached, -1 if reached < 0.95 else 0, NOW - 100)
    return record


def filler(name: str, uid: int, server: str) -> WorkloadRecord:
    workload = Workload(name, WorkloadType.BEST_EFFORT, Run(("f",)), None)
    record = WorkloadRecord(workload, uid, 0.0, Phase.RUNNING)
    record.placements = on(server)
    return record


FILLERS = [filler("f1", 2, "a"), filler("f2", 3, "b"), filler("f3", 4, "b")]


def names(records: list[WorkloadRecord]) -> list[str]:
    return [record.name for record in records]


@pytest.mark.parametrize(
    ("used", "asked"),
    [
        ({"a": 1.0, "b": 1.4, "c": 1.0}, ["f3", "f2"]),
        ({"a": 1.0, "b": 1.05, "c": 1.0}, ["f3", "f2", "f1"]),
        # Where it does nothing as yet, nothing is known.
        ({"a": 1.0, "b": 1.4, "c": 0.0}, ["f3", "f2", "f1"]),
        # None is where it is slowed.
        ({"a": 1.0, "b": 1.0, "c": 1.4}, ["f3", "f2", "f1"]),
        ({"b": 1.4}, ["f3", "f2", "f1"]),
    ],
)
def test_where_it_is_busier_than_elsewhere_its_neighbors_are_asked_first(
    used: dict[str, float], asked: list[str]
) -> None:
    assert names(SLACK.to_suspend(FILLERS, web(0.8, **used), NOW)) == asked


def test_without_cpu_by_server_all_of_them_are_asked() -> None:
    record = web(0.8, a=1.0, b=1.9)
    assert record.performance is not None
    record.performance = replace(record.performance, cpu_by_server={"a": 1.0})
    assert names(SLACK.to_suspend(FILLERS, record, NOW)) == ["f3", "f2", "f1"]
    assert not SLACK.is_deep(seen(record, 0.3))
    assert not is_saturated(record)


@pytest.mark.parametrize(
    ("used", "deep"), [({"a": 1.0, "b": 1.4}, True), ({"a": 1.0, "b": 1.0}, False)]
)
def test_all_of_them_at_once_in_a_deep_violation(used: dict[str, float], deep: bool) -> None:
    assert SLACK.is_deep(web(0.3, **used)) is deep


@pytest.mark.parametrize(
    ("now", "helped"),
    [
        ({"a": 1.0, "b": 1.4}, False),
        ({"a": 1.0, "b": 1.3}, True),
        # What a load that falls does everywhere alike is no help.
        ({"a": 0.8, "b": 1.12}, False),
        # How much faster it is there can't be told before it keeps up.
        ({"a": 1.4, "b": 1.9}, True),
    ],
)
def test_a_suspension_helps_where_its_server_is_less_busy_for_it(
    now: dict[str, float], helped: bool
) -> None:
    gone = filler("f2", 3, "b")
    gone.phase, gone.phase_since, gone.suspended_for = Phase.SUSPENDED, NOW - 90, "web"
    gone.suspended_at_performance, gone.suspended_at_busy = 0.8, 1.4
    found = SLACK.suspended_ineffectively([gone], web(0.8, **now))
    assert names(found) == ([] if helped else ["f2"])


@pytest.mark.parametrize(
    ("before", "reached", "ago", "unused_from"),
    [
        ((1000, 1000), 0.3, 30, 2000),
        # It may be its load that has grown.
        ((1000, 1000), 0.6, 30, None),
        ((1000, 1000), 0.3, 90, None),
        ((4000,), 0.3, 30, None),
    ],
    ids=["far worse", "worse", "later", "a server more"],
)
def test_on_several_servers_cpu_is_unused_where_it_made_it_far_worse(
    before: tuple[int, ...], reached: float, ago: int, unused_from: int | None
) -> None:
    record = web(reached, a=0.5, b=0.5)
    old = tuple(
        replace(each, allocation=Allocation(cpu, 1))
        for each, cpu in zip(on("a", "b"), before, strict=False)
    )
    kind = AdjustmentKind.RESIZED
    record.adjustments = [Adjustment(NOW - ago, kind, old, record.placements, "ok", "", 1.0)]
    off = SLACK.off_target(record, ManagerState(), NOW)
    assert off is not None
    assert off.unused_from == unused_from


def test_what_has_left_its_slow_servers_may_have_more_cpu_at_once() -> None:
    record = web(0.5, a=1.8)
    before, kind = on("a", "b", "c"), AdjustmentKind.RESIZED
    record.adjustments = [Adjustment(NOW - 30, kind, before, record.placements, "ok", "", 0.8)]
    off = SLACK.off_target(record, ManagerState(), NOW)
    assert off is not None
    assert off.unused_from is None


def test_cpu_that_is_idle_on_another_server_proves_nothing() -> None:
    state = ManagerState()
    idle = SLACK.off_target(web(0.8, a=0.5, b=0.6), state, NOW)
    assert idle is not None
    assert idle.cpu_seconds_per_second == 1.1
    busy = SLACK.off_target(web(0.8, a=0.5, b=1.95), state, NOW)
    assert busy is not None
    assert busy.cpu_seconds_per_second is None
    assert SLACK.idle(web(0.8, a=0.5, b=0.6), NOW) is not None
    assert SLACK.idle(web(0.8, a=0.5, b=1.95), NOW) is None


def test_what_was_suspended_for_one_on_several_servers_goes_on_one_after_the_other() -> None:
    here, there = filler("f1", 2, "a"), filler("f2", 3, "b")
    helped = web(1.0, a=1.0, b=1.0)
    here.suspended_for = "web"
    beside = {"f1": [helped], "web": [here, there]}
    cluster = SimpleNamespace(
        neighbors=lambda record: beside[record.name],
        state=SimpleNamespace(workloads={"web": helped}),
    )
    affected = _affected_by_resume(here, cast("Residents", cluster))
    assert affected == [helped, here, there]
    there.suspensions, there.phase_since = 1, NOW - 5
    here.phase, here.phase_since, here.suspensions = Phase.SUSPENDED, NOW - 60, 1
    assert SLACK.resumes_at(here, affected, NOW) == NOW + 15
    helped.placements = on("a")
    assert _affected_by_resume(here, cast("Residents", cluster)) == [helped]
