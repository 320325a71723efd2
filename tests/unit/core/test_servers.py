"""Servers that others use, too: what they hold, and many of them in one report."""

from dataclasses import replace

import pytest

from tests.support.cluster import MIB, Cluster, running, server, workload
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.platform import Condition, ConditionKind, Server

POLICIES = ("least-loaded", "round-robin", "random", "sparrow", "quasar", "paragon")


def used(name: str, cpus: int = 2, *, cpu: int = 0, memory_mib: int = 0, **more) -> Server:
    """A server of which others hold this much."""
    held = {"others_cpu_millicpus": cpu, "others_memory_bytes": memory_mib * MIB}
    return replace(server(name, cpus), **{**held, **more})


def report(cluster: Cluster, *servers: Server) -> list[type]:
    """The kinds of what is logged of one report."""
    return [type(event) for event in cluster.tell(ev.ServersReported(servers)).events]


def submit(cluster: Cluster, *workloads) -> None:
    for each in workloads:
        cluster.tell(ev.WorkloadSubmitted(each))


def tried(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of those that the placement is asked about from now on."""
    names, placement = [], cluster.manager.policy.placement
    place = placement.place
    monkeypatch.setattr(
        placement,
        "place",
        lambda request, view: names.append(request.workload.name) or place(request, view),
    )
    return names


def test_many_servers_are_one_event_of_those_that_have_changed() -> None:
    cluster = Cluster()
    servers = [server(name) for name in "abc"]
    assert report(cluster, *servers) == [ev.ServersReported]
    assert list(cluster.manager.view.names) == ["a", "b", "c"]
    assert report(cluster, *servers) == []
    step = cluster.tell(ev.ServersReported((servers[0], used("b", cpu=500), servers[2])))
    assert step.events == (ev.ServersReported((used("b", cpu=500),)),)


def test_a_cordoned_server_that_is_reported_as_it_was_is_no_news() -> None:
    cluster = Cluster()
    report(cluster, server("a"), server("b"))
    cluster.tell(ev.ServerCordoned("a"))
    assert report(cluster, server("a"), server("b")) == []
    assert cluster.tell(ev.ServerReported(server("a"))).events == ()
    assert report(cluster, used("a", cpu=500)) == [ev.ServersReported]
    assert not cluster.manager.state.servers["a"].accepting
    cluster.tell(ev.ServerUncordoned("a"))
    assert cluster.manager.state.servers["a"].accepting
    assert cluster.manager.view.cpu_allocated.tolist() == [500, 0]


@pytest.mark.parametrize("policy", [each for each in POLICIES if each != "sparrow"])
def test_what_others_hold_is_not_free(policy: str) -> None:
    cluster = Cluster(policy)
    report(cluster, used("a", cpu=1500), used("b", memory_mib=4000), server("c"))
    cluster.sync()
    submit(cluster, workload("w", 1000), workload("x", 1000), workload("y", 1000))
    placed = {name: [p.server for p in cluster.record(name).placements] for name in "wxy"}
    assert placed == {"w": ["c"], "x": ["c"], "y": []}
    assert cluster.record("y").deferral is ReasonCode.NO_ROOM


@pytest.mark.parametrize("policy", POLICIES)
def test_who_waits_for_a_foreign_job_is_never_too_large_and_starts_when_that_goes(
    policy: str,
) -> None:
    cluster = Cluster(policy)
    report(cluster, used("a", cpu=2000, memory_mib=4096))
    cluster.sync()
    submit(cluster, workload("w", 2000, 4096))
    assert cluster.record("w").deferral in (ReasonCode.NO_ROOM, ReasonCode.PROBES_BUSY)
    report(cluster, used("a", cpu=2000, memory_mib=100))
    assert cluster.record("w").phase is Phase.QUEUED
    report(cluster, server("a"))
    assert cluster.record("w").phase is Phase.PLACED
    reasons = {timed.decision.reason for timed in cluster.record("w").decisions}
    assert ReasonCode.TOO_LARGE not in reasons


def test_a_report_of_what_others_hold_puts_only_those_in_line_that_may_fit(monkeypatch) -> None:
    cluster = Cluster()
    report(cluster, server("a"), server("b"), replace(server("c"), accepting=False))
    cluster.sync()
    submit(cluster, workload("huge", 9000), workload("w", 2000), workload("x", 2000))
    submit(cluster, workload("waits", 1500))
    names = tried(cluster, monkeypatch)
    report(cluster, used("a", cpu=1000), used("b", cpu=1000))
    report(cluster, used("c", cpu=1000, accepting=False))
    report(cluster, server("c", accepting=False))
    assert names == []  # Nothing that waits can fit because of these.
    report(cluster, used("a", cpu=500), used("b", cpu=1000))
    assert names == ["waits"]


def test_conditions_alone_put_nobody_in_line_and_a_drained_node_takes_nothing(monkeypatch) -> None:
    cluster = Cluster()
    report(cluster, server("a"))
    cluster.sync()
    submit(cluster, workload("w", 1000), workload("waits", 2000))
    running(cluster, "w")
    names = tried(cluster, monkeypatch)
    told = (Condition(ConditionKind.SHARED_CPUS, "others"),)
    assert report(cluster, replace(server("a"), conditions=told)) == [ev.ServersReported]
    assert names == []
    drained = (Condition(ConditionKind.DRAINING, "fan broken"),)
    report(cluster, replace(server("a", accepting=False), conditions=drained))
    assert cluster.record("waits").deferral is ReasonCode.NO_SERVERS
    assert cluster.record("w").phase is Phase.RUNNING
    report(cluster, server("a", 4))
    assert cluster.record("waits").phase is Phase.PLACED


def test_a_foreign_job_that_takes_room_under_us_ends_nothing_and_leaves_nothing_free() -> None:
    cluster = Cluster()
    report(cluster, server("a"))
    cluster.sync()
    submit(cluster, workload("w", 1500))
    running(cluster, "w")
    report(cluster, used("a", cpu=2000, memory_mib=4096))
    view = cluster.manager.view
    assert (view.cpu_allocated.tolist(), view.cpu_others.tolist()) == ([3500], [2000])
    assert cluster.record("w").phase is Phase.RUNNING
    submit(cluster, workload("x", 100), workload("filler", best_effort=True))
    for name in ("x", "filler"):
        record = cluster.record(name)
        assert record.deferral is ReasonCode.NO_ROOM
        numbers = record.decisions[-1].decision.candidates[0].numbers
        assert numbers["cpu_free_millicpus"] == numbers["memory_free_bytes"] == 0
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), 0, None, "exited"))
    assert cluster.record("x").phase is Phase.QUEUED
    report(cluster, used("a", cpu=1000))
    assert cluster.record("x").phase is cluster.record("filler").phase is Phase.PLACED


def test_what_others_hold_outlives_a_restart_and_the_server_that_leaves() -> None:
    cluster = Cluster()
    report(cluster, server("a"), used("b", cpu=500, memory_mib=7))
    cluster.sync()
    submit(cluster, workload("w", 2000), workload("x", 1500))
    for entry in (0, len(cluster.log) // 2, len(cluster.log)):
        view = cluster.replayed(entry).view
        assert view.cpu_allocated.tolist() == [2000, 2000]
        assert view.cpu_others.tolist() == [0, 500]
        assert view.memory_others.tolist() == [0, 7 * MIB]
    cluster.tell(ev.ServerLeft("b", "gone"))
    view = cluster.manager.view
    assert view.cpu_allocated.tolist() == [2000, 1500]  # x is still there, as far as is known.
    report(cluster, server("b"))
    assert cluster.manager.view.cpu_allocated.tolist() == [2000, 1500]
    cluster.check_books()


def test_a_server_that_others_fill_is_kept_for_a_blocked_head_as_any(monkeypatch) -> None:
    cluster = Cluster()
    report(cluster, server("a"), used("b", 4, cpu=3000))
    cluster.sync()
    submit(cluster, workload("w", 2000), workload("head", 4000), workload("small", 1000))
    assert cluster.record("head").deferral is ReasonCode.NO_ROOM
    # What others hold has no end that is known: b is kept, and nothing may go ahead there.
    assert cluster.record("small").phase is Phase.QUEUED
    report(cluster, used("b", 4, cpu=0))
    assert cluster.record("head").placements[0].server == "b"


@pytest.mark.parametrize("accepting", [False, True])
def test_what_the_engine_says_of_a_cordoned_server_holds_after_it(accepting: bool) -> None:
    cluster = Cluster()
    report(cluster, replace(server("a"), accepting=not accepting), server("b"))
    cluster.sync()
    cluster.tell(ev.ServerCordoned("a"))
    now = replace(server("a"), accepting=accepting)
    assert report(cluster, now) == [ev.ServersReported]
    assert report(cluster, now) == []
    cluster.tell(ev.ServerUncordoned("a"))
    assert cluster.manager.state.servers["a"].accepting is accepting
