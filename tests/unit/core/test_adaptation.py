"""A running workload's CPU follows its target, calmly, and says why."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.tracking import ProbeCause
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import LatencyBound, Target, Workload
from wharfinger.service.performance import TargetStatus

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
    assert why == "raised from 0.4 to 0.55 CPU: for 10 s it ran at 80% of its target"


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


def test_a_probed_workload_gets_cpu_when_its_violation_is_deep() -> None:
    cluster = Cluster("feedback", able=replace(Cluster().able, probes_running=True))
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    start(cluster, wants(100, millicpus=200))
    measure(cluster, 100, cpu=0.2)
    measure(cluster, 100, cpu=0.2)
    decided = cluster.record("w").decisions[-1].decision
    sources = (SharedResource.INTEGER,)
    cluster.conclude(ev.ProbePlanned("w", decided, ProbeCause.REACTIVE, sources, 0.05))
    steps = [resized(cluster, measure(cluster, rate, cpu=0.2)) for rate in (70, 60, 48, 44, 70)]
    assert not any(steps), "its sources may be why"
    steps = [measure(cluster, 10, cpu=0.2, seconds=1) for _ in range(3)]
    assert [resized(cluster, step) for step in steps[:2]] == [None, None], "it has to last"
    assert resized(cluster, steps[2]) == 800


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


def test_under_a_quota_a_service_keeps_cpu_for_its_bursts_too() -> None:
    cluster = Cluster("feedback", able=Capabilities(quota_period_seconds=0.01))
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    start(cluster, service())
    far = {"cpu": 0.4, "latency_seconds": 0.01}
    steps = [resized(cluster, asked(cluster, 200, **far)) for _ in range(7)]
    assert steps == [None] * 6 + [560]


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
    assert why == "reduced from 0.8 to 0.4 CPU: for 60 s its target needed far less than it had"


def test_a_service_keeps_what_its_other_targets_need(cluster: Cluster) -> None:
    start(cluster, service())
    assert all(resized(cluster, served(cluster, 0.09)) is None for _ in range(12))


def asked(
    cluster: Cluster,
    throughput: float,
    *,
    cpu: float,
    latency_seconds: float = 0.01,
    throttled: float = 0.0,
    seconds: float = PERIOD_SECONDS,
):
    """One period of a service with 0.8 CPUs."""
    cluster.now += seconds
    readings = {
        Quantity.THROUGHPUT: Reading(throughput, "load generator"),
        Quantity.LATENCY: Reading(latency_seconds, "load generator"),
        Quantity.CPU: Reading(cpu, "CPU time", trusted=False),
        Quantity.THROTTLED: Reading(throttled, "CPU quota", trusted=False),
    }
    return cluster.tell(ev.ServerMeasured("s", (Sample(cluster.key("w"), readings),)))


@pytest.mark.parametrize("latency", [True, False])
def test_a_service_that_is_asked_for_less_than_its_target_keeps_it(
    cluster: Cluster, latency: bool
) -> None:
    wanted = service()
    if not latency:
        wanted = replace(wanted, target=Target(throughput_per_second=100.0))
    start(cluster, wanted)
    assert all(resized(cluster, asked(cluster, 10.0, cpu=0.1)) is None for _ in range(12))
    tracking = cluster.record("w").tracking
    assert (tracking.status, tracking.violating) == (0, False)
    assert tracking.normalized_performance == 1.0
    assert TargetStatus(cluster.record("w"), cluster.now).met is True
    cluster.tell(ev.WorkloadSubmitted(workload("next", 100)))
    assert cluster.record("next").phase is Phase.PLACED, "its server is open to new work"


def test_a_service_that_could_not_answer_more_misses_its_throughput(cluster: Cluster) -> None:
    start(cluster, service())
    asked(cluster, 50.0, cpu=0.79)
    assert cluster.record("w").tracking.status == -1
    assert TargetStatus(cluster.record("w"), cluster.now).met is False
    asked(cluster, 50.0, cpu=0.3, throttled=0.5)
    assert TargetStatus(cluster.record("w"), cluster.now).met is True, "its latency is kept"


def test_without_a_latency_one_that_is_throttled_could_not_answer_more(cluster: Cluster) -> None:
    start(cluster, replace(workload("w", 800), target=Target(throughput_per_second=100.0)))
    readings = {
        Quantity.THROUGHPUT: Reading(50.0, "load generator"),
        Quantity.CPU: Reading(0.3, "CPU time", trusted=False),
        Quantity.THROTTLED: Reading(0.5, "CPU quota", trusted=False),
    }
    cluster.tell(ev.ServerMeasured("s", (Sample(cluster.key("w"), readings),)))
    assert cluster.record("w").tracking.status == -1


def test_a_batch_job_that_is_throttled_all_the_time_gives_back_what_it_does_not_need(
    cluster: Cluster,
) -> None:
    start(cluster, wants(100))
    readings = {
        Quantity.RATE: Reading(140.0, "progress lines"),
        Quantity.CPU: Reading(0.4, "CPU time", trusted=False),
        Quantity.THROTTLED: Reading(1.0, "CPU quota", trusted=False),
    }
    steps = []
    for _ in range(7):
        cluster.now += PERIOD_SECONDS
        step = cluster.tell(ev.ServerMeasured("s", (Sample(cluster.key("w"), readings),)))
        steps.append(resized(cluster, step))
    assert steps == [None] * 6 + [314]


def test_a_service_that_answers_nothing_at_all_misses_its_throughput(cluster: Cluster) -> None:
    start(cluster, replace(workload("w", 800), target=Target(throughput_per_second=100.0)))
    asked(cluster, 0.0, cpu=0.0)
    assert cluster.record("w").tracking.status == -1


def test_a_service_that_is_throttled_gets_cpu_in_its_first_seconds(cluster: Cluster) -> None:
    """Its bursts lack CPU, though it uses little of it; a percentile would take longer to tell."""
    start(cluster, service())
    steps = [
        resized(
            cluster, asked(cluster, 100, cpu=0.3, latency_seconds=0.3, throttled=0.4, seconds=1)
        )
        for _ in range(3)
    ]
    assert steps[:2] == [None, None]
    assert steps[2] is not None
    assert steps[2] > 800
    why = cluster.record("w").decisions[-1].decision.message
    assert "its quota did not last in 40% of the periods, at 33% of its target" in why


def test_a_service_that_is_throttled_close_to_its_bound_gets_cpu_before_it_misses(
    cluster: Cluster,
) -> None:
    start(cluster, service())
    close = [asked(cluster, 100, cpu=0.3, latency_seconds=0.095, throttled=0.4) for _ in range(2)]
    assert resized(cluster, close[-1]) == 880
    assert cluster.record("w").tracking.status == 0


def test_throttling_far_below_the_bound_is_left_alone(cluster: Cluster) -> None:
    start(cluster, service())
    far = {"cpu": 0.2, "latency_seconds": 0.01, "throttled": 0.4}
    steps = [resized(cluster, asked(cluster, 200, **far)) for _ in range(12)]
    assert steps == [None] * 12, "no CPU is taken from it either"


def test_cpu_is_not_given_to_one_that_waits_for_something_else(cluster: Cluster) -> None:
    start(cluster, wants(100))
    for _ in range(5):
        assert resized(cluster, measure(cluster, 50, cpu=0.05)) is None
    refusals = [t.decision for t in cluster.record("w").decisions if not t.decision.accepted]
    assert [d.reason for d in refusals] == [ReasonCode.WOULD_NOT_HELP], "said once"
    assert "only 0.05 of 0.4 CPU is used" in refusals[0].message
    assert cluster.record("w").message == refusals[0].message
    measure(cluster, 100, cpu=0.2)
    assert cluster.record("w").message == ""


def test_what_it_does_not_use_of_added_cpu_is_taken_back(cluster: Cluster) -> None:
    """A program of so many threads computes on no more CPUs than that."""
    start(cluster, wants(100))
    steps = [resized(cluster, measure(cluster, 70, cpu=0.4)) for _ in range(12)]
    made = [cpu for cpu in steps if cpu is not None]
    assert made[0] > 400
    assert made[1:] == [400], "and it is not tried again"
    decision = cluster.record("w").decisions[-1].decision
    assert "it used no more than 0.4 CPU when it had more" in decision.message
    assert not decision.accepted


def test_added_cpu_that_it_uses_stays(cluster: Cluster) -> None:
    start(cluster, wants(100))
    first = next(cpu for _ in range(9) if (cpu := resized(cluster, measure(cluster, 70, cpu=0.4))))
    later = [resized(cluster, measure(cluster, 90, cpu=first / 1000)) for _ in range(9)]
    again = [cpu for cpu in later if cpu is not None]
    assert again[0] > first, "it still misses its target"


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
