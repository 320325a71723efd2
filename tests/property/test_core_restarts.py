"""What holds of any course of events: order, sameness, a manager that takes over."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cluster import Cluster, running, server, workload
from tests.support.drawn import NAMES, POLICIES, WORKLOADS
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.view import Capabilities


def _busy(policy: str, names: list[str]) -> Cluster:
    """Workloads that run on three servers, with nothing waiting."""
    cluster = Cluster(policy)
    for name in "abc":
        cluster.tell(ev.ServerReported(server(name, 8)))
    cluster.sync()
    for name in names:
        cluster.tell(ev.WorkloadSubmitted(workload(name)))
    return cluster


def _taken_over(cluster: Cluster) -> Core:
    """A new manager process on the log, once it has heard from the engine."""
    manager = cluster.replayed()
    manager.handle(0.5, manager.started("n2", "0", "test", Capabilities()))
    manager.handle(0.5, ev.EngineSynced(cluster.started_keys(), tuple(manager.state.servers)))
    return manager


def _apply_reports(manager: Core, events: list[ev.Report | ev.ClientRequest]) -> list[act.Action]:
    return [action for event in events for action in manager.handle(1.0, event).actions]


REPORTS = st.sampled_from(
    [
        lambda key, name: [ev.StartAccepted(key)],
        lambda key, name: [ev.StartAccepted(key), ev.WorkloadStarted(key, name)],
        lambda key, name: [ev.WorkloadStarted(key, name), ev.WorkloadFinished(key, 0, None, "x")],
        lambda key, name: [ev.WorkloadFinished(key, None, 9, "killed")],
        lambda key, name: [ev.WorkloadVanished(key, "gone")],
        lambda key, name: [ev.WorkloadStarted(key, name), ev.WorkloadRevoked(name)],
        lambda key, name: [ev.StartFailed(key, "no such program", retryable=False)],
    ]
)


@given(
    policy=st.sampled_from(POLICIES),
    reports=st.lists(REPORTS, min_size=2, max_size=6),
    data=st.data(),
)
def test_events_of_unrelated_workloads_commute(policy, reports, data) -> None:
    """Any interleaving of what happens to different workloads gives the same state."""
    names = [f"w{i}" for i in range(len(reports))]
    cluster = _busy(policy, names)
    histories = [
        report(cluster.key(name), name) for name, report in zip(names, reports, strict=True)
    ]
    order = data.draw(st.permutations([i for i, history in enumerate(histories) for _ in history]))
    queues = [list(history) for history in histories]
    interleaved = [queues[i].pop(0) for i in order]
    one, other = _taken_over(cluster), _taken_over(cluster)
    actions = _apply_reports(one, [event for history in histories for event in history])
    other_actions = _apply_reports(other, interleaved)
    assert one.state == other.state
    assert sorted(map(repr, actions)) == sorted(map(repr, other_actions))


@given(
    names=st.lists(NAMES, min_size=1, max_size=8, unique=True),
    policy=st.sampled_from(POLICIES),
)
def test_the_same_events_give_the_same_state_and_actions(names, policy) -> None:
    one, other = _busy(policy, names), _busy(policy, names)
    running(one, *names)
    running(other, *names)
    assert one.log == other.log
    assert one.asked == other.asked
    assert one.manager.state == other.manager.state


@given(
    cut=st.integers(0, 200),
    submitted=st.lists(WORKLOADS, min_size=1, max_size=15),
    policy=st.sampled_from(["least-loaded", "sparrow"]),
)
def test_a_manager_that_takes_over_decides_as_its_predecessor_would(cut, submitted, policy) -> None:
    """The events that follow the next request are the same before and after a replay."""
    cluster = Cluster(policy)
    for name in "ab":
        cluster.tell(ev.ServerReported(server(name, 3)))
    cluster.sync()
    for w in {w.name: w for w in submitted}.values():
        cluster.tell(ev.WorkloadSubmitted(w))
    other = cluster.replayed(min(cut, len(cluster.log)))
    for event in (
        ev.WorkloadSubmitted(workload("another")),
        ev.ServerReported(server("c", 64, 65536)),
    ):
        assert other.handle(5.0, event).events == cluster.manager.handle(5.0, event).events
    assert other.state == cluster.manager.state


@given(st.lists(WORKLOADS, max_size=12))
def test_with_room_for_all_everyone_ends(submitted) -> None:
    """Nobody waits forever: given enough servers and honest reports, all complete."""
    cluster = Cluster()
    big = replace(server("big", 200, 65536), labels={"disk": "ssd"})
    cluster.tell(ev.ServerReported(big))
    cluster.sync()
    names = {w.name: w for w in submitted}
    for w in names.values():
        cluster.tell(ev.WorkloadSubmitted(w))
    for name in names:
        record = cluster.record(name)
        if record.phase is Phase.PROFILING:
            cluster.tell(ev.ProfilingFinished(record.key, Measurements()))
            cluster.tell(ev.WorkloadClassified(record.key, Classification("e", "1")))
        running(cluster, name)
        cluster.tell(ev.WorkloadFinished(cluster.key(name), 0, None, "exited"))
    assert {cluster.record(name).phase for name in names} <= {Phase.COMPLETED}
    assert not any(cluster.manager.queue_lengths().values())
