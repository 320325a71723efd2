"""Workloads that join and leave servers while they run, and what makes them."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Mode
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Scale, Target, Workload, WorkloadType
from wharfinger.policies.adaptation.slack import TargetSettings

ADJUSTMENTS_PER_MINUTE = TargetSettings().adjustments_per_minute
ABLE = Capabilities(max_servers_per_workload=8, measures=True)


def made(*cpus: int, policy: str = "autoscale", **others) -> Cluster:
    """Servers a, b, ... with so many CPUs."""
    cluster = Cluster(policy, able=ABLE, **others)
    for name, count in zip("abcdefgh", cpus, strict=False):
        cluster.tell(ev.ServerReported(server(name, count)))
    cluster.sync()
    return cluster


def service(name: str = "web", millicpus: int = 1000, **others) -> Workload:
    made_ = workload(name, millicpus, 64)
    kind = WorkloadType.LATENCY_CRITICAL
    return replace(made_, **{"type": kind, "scale": Scale(8), **others})


def start(cluster: Cluster, *wanted: Workload) -> None:
    for each in wanted:
        cluster.tell(ev.WorkloadSubmitted(each))
        running(cluster, each.name)


def load(cluster: Cluster, share: float, *names: str, seconds: float = 30.0) -> list[act.Action]:
    """After a while each of these is measured at this load on all its servers together."""
    cluster.now += seconds
    asked = []
    for name in names or ("web",):
        record = cluster.record(name)
        cpus = sum(p.allocation.cpu_millicpus for p in record.placements) / 1000
        readings = {
            Quantity.CPU: Reading(share * cpus, "CPU time", trusted=False),
            Quantity.THROUGHPUT: Reading(10.0, "test"),
        }
        sample = Sample(record.key, readings)
        where = record.placements[0].server
        asked += cluster.tell(ev.ServerMeasured(where, (sample,))).actions
        cluster.check_books()
    return [action for action in asked if isinstance(action, act.ResizeAllocation)]


def on(cluster: Cluster, name: str = "web") -> list[str]:
    return [placement.server for placement in cluster.record(name).placements]


def done(cluster: Cluster, *asked: act.ResizeAllocation) -> None:
    for action in asked:
        cluster.tell(ev.AllocationResized(action.key, action.placements))
    cluster.check_books()


def allocated(cluster: Cluster) -> dict[str, int]:
    view = cluster.manager.view
    return dict(zip(view.names, view.cpu_allocated.tolist(), strict=True))


# --- joining and leaving -------------------------------------------------------------------------


def test_a_loaded_service_joins_a_server_which_keeps_room_from_the_plan_on() -> None:
    cluster = made(1, 1)
    start(cluster, service())
    (asked,) = load(cluster, 0.9)
    assert [p.server for p in asked.placements] == ["a", "b"]
    assert on(cluster) == ["a"]
    assert allocated(cluster) == {"a": 1000, "b": 1000}
    cluster.tell(ev.WorkloadSubmitted(workload("late")))
    assert cluster.record("late").deferral is ReasonCode.NO_ROOM
    done(cluster, asked)
    assert on(cluster) == ["a", "b"]
    assert cluster.manager.neighbors(cluster.record("late")) == []
    assert load(cluster, 0.9, seconds=30.0) == [], "there is no third server"
    assert cluster.record("web").reason == "no-room"


def test_one_that_leaves_a_server_keeps_its_room_until_it_has_left() -> None:
    cluster = made(1, 1)
    start(cluster, service())
    done(cluster, *load(cluster, 0.9))
    cluster.tell(ev.WorkloadSubmitted(workload("late")))
    (asked,) = load(cluster, 0.1)
    assert [p.server for p in asked.placements] == ["a"]
    assert allocated(cluster) == {"a": 1000, "b": 1000}
    assert cluster.record("late").phase is Phase.QUEUED
    done(cluster, asked)
    assert (on(cluster), on(cluster, "late")) == (["a"], ["b"])


@pytest.mark.parametrize("leaves", [False, True])
def test_a_server_that_could_not_be_joined_is_free_again(leaves: bool) -> None:
    cluster = made(1, 1)
    start(cluster, service())
    (asked,) = load(cluster, 0.9)
    if leaves:
        cluster.tell(ev.ServerLeft("b", "gone"))
        assert list(cluster.manager.view.names) == ["a", "b"], "until nothing is held there"
    cluster.tell(ev.ResizeFailed(asked.key, "no server 'b' here", asked.placements))
    cluster.check_books()
    assert on(cluster) == ["a"]
    assert allocated(cluster) == {"a": 1000} if leaves else {"a": 1000, "b": 0}
    assert cluster.record("web").phase is Phase.RUNNING


def test_when_one_of_its_servers_leaves_it_vanishes_from_all() -> None:
    cluster = made(1, 1)
    start(cluster, service())
    done(cluster, *load(cluster, 0.9))
    cluster.tell(ev.ServerLeft("b", "gone"))
    assert cluster.record("web").phase is Phase.RUNNING, "only the engine knows"
    cluster.tell(ev.WorkloadVanished(cluster.key("web"), "server b left"))
    cluster.check_books()
    assert allocated(cluster) == {"a": 0}


@pytest.mark.parametrize("settled", [False, True])
def test_the_books_are_the_same_after_a_take_over(settled: bool) -> None:
    cluster = made(2, 2, 2)
    start(cluster, service())
    done(cluster, *load(cluster, 0.9))
    (asked,) = load(cluster, 0.2)
    if settled:
        done(cluster, asked)
    end, held = encode_state(cluster.manager.state), allocated(cluster)
    for entry in range(len(cluster.log)):
        manager = cluster.replayed(entry)
        assert encode_state(manager.state) == end
    cluster.manager = manager
    assert allocated(cluster) == held
    cluster.start()
    step = cluster.sync()
    resizes = [a for a in step.actions if isinstance(a, act.ResizeAllocation)]
    assert resizes == ([] if settled else [asked])
    cluster.check_books()


def test_of_several_servers_all_are_avoided_after_a_failed_start() -> None:
    cluster = made(1, 1, 1, 1, policy="spreading-by-load")
    cluster.tell(ev.WorkloadSubmitted(service(scale=Scale(2))))
    assert on(cluster) == ["a", "b"]
    cluster.tell(ev.StartFailed(cluster.key("web"), "busy", retryable=True))
    cluster.now += 60
    cluster.tell(ev.TimePassed())
    assert on(cluster) == ["c", "d"]


# --- what makes them -----------------------------------------------------------------------------


def test_one_step_has_to_show_before_the_next() -> None:
    cluster = made(1, 1, 1)
    start(cluster, service())
    assert load(cluster, 0.9, seconds=10.0) == [], "it has only just begun"
    done(cluster, *load(cluster, 0.9, seconds=11.0))
    assert load(cluster, 0.9, seconds=10.0) == []
    done(cluster, *load(cluster, 0.9, seconds=11.0))
    assert on(cluster) == ["a", "b", "c"]


def test_there_are_so_many_steps_a_minute_and_no_more() -> None:
    count = ADJUSTMENTS_PER_MINUTE + 5
    cluster = made(count, count)
    names = [f"web{i}" for i in range(count)]
    start(cluster, *map(service, names))
    assert len(load(cluster, 0.9, *names)) == ADJUSTMENTS_PER_MINUTE
    assert len(load(cluster, 0.9, *names[ADJUSTMENTS_PER_MINUTE:], seconds=61.0)) == 5


@pytest.mark.parametrize("target", [None, Target(throughput_per_second=10.0)])
@pytest.mark.parametrize("mode", Mode)
def test_that_nothing_can_be_done_is_said_once(target: Target | None, mode: Mode) -> None:
    cluster = made(1, *[1] * (mode is Mode.RECOMMEND))
    start(cluster, service(target=target))
    cluster.mode = mode
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.sync()
    for _ in range(5):
        load(cluster, 0.9)
    assert len([kind for _, kind, _ in cluster.log if kind == "AllocationUnchanged"]) == 1


def test_a_load_that_nobody_measured_moves_nothing() -> None:
    cluster = made(1, 1)
    start(cluster, service())
    cluster.now += 60
    sample = Sample(cluster.key("web"), {Quantity.THROUGHPUT: Reading(10.0, "test")})
    assert cluster.tell(ev.ServerMeasured("a", (sample,))).actions == ()


def test_a_policy_that_follows_load_climbs_no_ladder() -> None:
    """The target is missed by far; nobody gives way, and nothing is moved."""
    cluster = made(1, 1)
    wanted = service(scale=Scale(1), target=Target(throughput_per_second=1000.0))
    run = replace(wanted.run, restartable=True)
    start(cluster, replace(wanted, run=run), workload("filler", best_effort=True))
    for _ in range(20):
        assert load(cluster, 0.9) == []
    assert {cluster.record(name).phase for name in ("web", "filler")} == {Phase.RUNNING}
    assert not cluster.record("web").adjustments


def test_a_policy_that_follows_targets_is_not_asked_by_load() -> None:
    cluster = made(1, 1, policy="feedback")
    start(cluster, service())
    assert load(cluster, 0.99) == []
    assert on(cluster) == ["a"]


def test_a_changed_reservation_comes_first_and_on_all_servers() -> None:
    cluster = made(2, 2, 2)
    start(cluster, service(), service("neighbour", 1000))
    done(cluster, *load(cluster, 0.9))
    assert on(cluster) == ["a", "c"]
    step = cluster.tell(ev.WorkloadUpdated(service(millicpus=1500)))
    (asked,) = step.actions
    assert [p.allocation.cpu_millicpus for p in asked.placements] == [1500, 1500]
    done(cluster, asked)
    cluster.tell(ev.WorkloadSubmitted(workload("filler", 500)))
    cluster.tell(ev.WorkloadSubmitted(workload("filler2", 500)))
    cluster.tell(ev.WorkloadUpdated(service(millicpus=2000)))
    assert load(cluster, 0.9) == [], "it waits for room where it is"
    assert cluster.record("web").resize_wanted


def test_who_only_recommends_says_what_it_would_do() -> None:
    cluster = made(1, 1)
    start(cluster, service())
    cluster.mode = Mode.RECOMMEND
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.sync()
    assert load(cluster, 0.9) == []
    assert cluster.record("web").message == ("recommended: load 90% is over 70%: b makes 2 servers")


def test_what_was_done_is_kept_with_the_servers() -> None:
    cluster = made(1, 1)
    start(cluster, service())
    done(cluster, *load(cluster, 0.9))
    (kept,) = cluster.record("web").adjustments
    assert [[p.server for p in where] for where in (kept.before, kept.after)] == [["a"], ["a", "b"]]
