"""A running workload's CPU follows its target, calmly, and says why."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.workload import LatencyBound, Target, Workload

PERIOD_SECONDS = 10.0


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster("feedback")
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    return cluster


def wants(rate: float, name: str = "w", millicpus: int = 400) -> Workload:
    return replace(workload(name, millicpus), target=Target(rate_per_second=rate))


def measure(
    cluster: Cluster,
    rate: float,
    *,
    cpu: float | None = None,
    name: str = "w",
    seconds: float = PERIOD_SECONDS,
):
    """One period goes by, at whose end the engine reports."""
    cluster.now += seconds
    readings = {Quantity.RATE: Reading(rate, "progress lines")}
    if cpu is not None:
        readings[Quantity.CPU] = Reading(cpu, "CPU time", trusted=False)
    return cluster.tell(ev.ServerMeasured("s", (Sample(cluster.key(name), readings),)))


def start(cluster: Cluster, wanted: Workload) -> None:
    cluster.tell(ev.WorkloadSubmitted(wanted))
    running(cluster, wanted.name)


def resized(cluster: Cluster, step) -> int | None:
    """Let the engine carry out what was asked; the new allocation in thousandths."""
    for action in step.actions:
        if isinstance(action, act.ResizeAllocation):
            cluster.tell(ev.AllocationResized(action.key, action.placements))
            cluster.check_books()
            return action.placements[0].allocation.cpu_millicpus
    return None


def test_one_that_misses_its_target_for_long_enough_gets_cpu_in_proportion(
    cluster: Cluster,
) -> None:
    start(cluster, wants(100))
    assert resized(cluster, measure(cluster, 80, cpu=0.4)) is None, "once is no trend"
    assert resized(cluster, measure(cluster, 80, cpu=0.4)) == 550
    why = cluster.record("w").decisions[-1].decision.message
    assert why == "target missed at 80% for 10 s: 400m CPU become 550m"


def test_an_adjustment_has_time_to_show(cluster: Cluster) -> None:
    start(cluster, wants(100))
    measure(cluster, 50, cpu=0.4)
    assert resized(cluster, measure(cluster, 50, cpu=0.4)) == 880
    assert resized(cluster, measure(cluster, 60, cpu=0.8)) is None
    assert resized(cluster, measure(cluster, 60, cpu=0.8)) == 1613


def test_who_does_not_reach_half_of_its_target_gets_cpu_sooner_and_more_of_it(
    cluster: Cluster,
) -> None:
    start(cluster, wants(100, millicpus=200))
    measure(cluster, 100, cpu=0.2)
    measure(cluster, 100, cpu=0.2)
    assert resized(cluster, measure(cluster, 10, cpu=0.2, seconds=1)) is None
    assert resized(cluster, measure(cluster, 10, cpu=0.2, seconds=1)) is None
    assert resized(cluster, measure(cluster, 10, cpu=0.2, seconds=1)) == 800, "fourfold at most"


def test_who_has_only_just_begun_is_given_its_time(cluster: Cluster) -> None:
    start(cluster, wants(100, millicpus=200))
    steps = [resized(cluster, measure(cluster, 10, cpu=0.2, seconds=2)) for _ in range(5)]
    assert steps == [None] * 5
    assert resized(cluster, measure(cluster, 10, cpu=0.2, seconds=2)) == 800


def test_a_miss_within_the_tolerance_is_kept(cluster: Cluster) -> None:
    start(cluster, wants(100))
    assert all(resized(cluster, measure(cluster, 96)) is None for _ in range(20))


def test_what_is_more_than_enough_for_long_is_given_back(cluster: Cluster) -> None:
    start(cluster, wants(100))
    steps = [resized(cluster, measure(cluster, 200, cpu=0.2)) for _ in range(7)]
    assert steps == [None] * 6 + [220]


def test_a_program_that_uses_all_it_gets_gives_back_what_its_rate_does_not_need(
    cluster: Cluster,
) -> None:
    start(cluster, wants(100))
    steps = [resized(cluster, measure(cluster, 140, cpu=0.4)) for _ in range(7)]
    assert steps == [None] * 6 + [314]


def test_a_service_with_a_latency_target_keeps_the_cpu_that_it_uses(cluster: Cluster) -> None:
    target = Target(latency=LatencyBound(99, 0.1))
    start(cluster, replace(workload("w", 400), target=target))
    readings = {
        Quantity.LATENCY: Reading(0.01, "load generator"),
        Quantity.CPU: Reading(0.3, "CPU time", trusted=False),
    }
    steps = []
    for _ in range(7):
        cluster.now += PERIOD_SECONDS
        step = cluster.tell(ev.ServerMeasured("s", (Sample(cluster.key("w"), readings),)))
        steps.append(resized(cluster, step))
    assert steps == [None] * 6 + [330]


def served(cluster: Cluster, latency_seconds: float):
    """One period of a service that answers all it is asked with a quarter of 0.8 CPUs."""
    cluster.now += PERIOD_SECONDS
    readings = {
        Quantity.THROUGHPUT: Reading(100.0, "load generator"),
        Quantity.LATENCY: Reading(latency_seconds, "load generator"),
        Quantity.CPU: Reading(0.2, "CPU time", trusted=False),
    }
    return cluster.tell(ev.ServerMeasured("s", (Sample(cluster.key("w"), readings),)))


def service() -> Workload:
    target = Target(throughput_per_second=100.0, latency=LatencyBound(99, 0.1))
    return replace(workload("w", 800), target=target)


def test_a_service_that_is_asked_no_more_gives_back_what_stands_idle(cluster: Cluster) -> None:
    """It could do 280/s: by the utilisation law 100 * 0.7 * 0.8 / 0.2."""
    start(cluster, service())
    steps = [resized(cluster, served(cluster, 0.01)) for _ in range(7)]
    assert steps == [None] * 6 + [400], "half at most"
    why = cluster.record("w").decisions[-1].decision.message
    assert why == "target kept with CPU for 280% of it for 60 s: 800m CPU become 400m"


def test_a_service_keeps_what_its_other_targets_need(cluster: Cluster) -> None:
    start(cluster, service())
    assert all(resized(cluster, served(cluster, 0.09)) is None for _ in range(12))


def test_cpu_is_not_given_to_one_that_waits_for_something_else(cluster: Cluster) -> None:
    start(cluster, wants(100))
    for _ in range(5):
        assert resized(cluster, measure(cluster, 50, cpu=0.05)) is None
    refusals = [t.decision for t in cluster.record("w").decisions if not t.decision.accepted]
    assert [d.reason for d in refusals] == [ReasonCode.WOULD_NOT_HELP], "said once"
    assert "only 50m of 400m CPU is used" in refusals[0].message
    assert cluster.record("w").message == refusals[0].message
    measure(cluster, 100, cpu=0.2)
    assert cluster.record("w").message == ""


def test_where_there_is_no_room_it_takes_what_there_is_and_then_says_so(cluster: Cluster) -> None:
    cluster.tell(ev.WorkloadSubmitted(workload("other", 1400)))
    start(cluster, wants(100))
    measure(cluster, 50, cpu=0.4)
    assert resized(cluster, measure(cluster, 50, cpu=0.4)) == 600
    for _ in range(3):
        assert resized(cluster, measure(cluster, 70, cpu=0.6)) is None
    assert cluster.record("w").reason == "no-room"
    running(cluster, "other")
    cluster.tell(ev.WorkloadFinished(cluster.key("other"), 0, None, "exited"))
    assert resized(cluster, measure(cluster, 70, cpu=0.6)) == 943


def test_a_completion_target_is_followed_by_what_is_left(cluster: Cluster) -> None:
    batch = replace(workload("w", 400), target=Target(completion_seconds=100.0))
    start(cluster, batch)
    for _ in range(2):
        cluster.now += PERIOD_SECONDS
        readings = {Quantity.REMAINING: Reading(160.0, "progress lines")}
        step = cluster.tell(ev.ServerMeasured("s", (Sample(cluster.key("w"), readings),)))
    assert resized(cluster, step) == 880


def test_there_are_so_many_adjustments_a_minute_and_no_more(cluster: Cluster) -> None:
    cluster.tell(ev.ServerReported(server("s", 100, 65536)))
    names = [f"w{i}" for i in range(40)]
    for name in names:
        start(cluster, wants(100, name))
    samples = tuple(
        Sample(cluster.key(name), {Quantity.RATE: Reading(50.0, "progress lines")})
        for name in names
    )
    cluster.now += PERIOD_SECONDS
    cluster.tell(ev.ServerMeasured("s", samples))
    cluster.now += PERIOD_SECONDS
    step = cluster.tell(ev.ServerMeasured("s", samples))
    assert sum(isinstance(a, act.ResizeAllocation) for a in step.actions) == 30


def test_other_policies_leave_it_as_it_is() -> None:
    cluster = Cluster("least-loaded")
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    start(cluster, wants(100))
    for _ in range(5):
        assert resized(cluster, measure(cluster, 50, cpu=0.4)) is None
    assert len(cluster.record("w").decisions) == 2
    assert cluster.record("w").phase is Phase.RUNNING


def test_a_successor_goes_on_where_its_predecessor_was(cluster: Cluster) -> None:
    start(cluster, wants(100))
    measure(cluster, 80, cpu=0.4)
    assert cluster.replayed().state == cluster.manager.state
    cluster.manager = cluster.replayed(len(cluster.log) // 2)
    cluster.start()
    cluster.sync()
    assert resized(cluster, measure(cluster, 80, cpu=0.4)) == 550
