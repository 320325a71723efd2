"""The core keeps its contention table up to date, server by server."""

from dataclasses import replace

import numpy as np

from tests.support.cluster import PLATFORM, Cluster, running, server, workload
from tests.support.courses import curve, made, measure, start, wants
from tests.support.exact_profiles import exact_profiles
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.residency import resident
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Estimate, Measurements
from wharfinger.model.workload import Target

PROFILES = exact_profiles("b", ["x", "y"], np.array([[0.5, 0.8], [0.9, 0.0]]))
DISK = SharedResource.STORAGE_BANDWIDTH


def placed(cluster: Cluster, name: str, kind: str = "", **others) -> None:
    """A workload that is classified, with a profile of that kind."""
    pairs = {"": PROFILES[kind]} if kind else {}
    caused, tolerated = {DISK: Estimate(20.0, 3.0)}, {DISK: Estimate(60.0, 4.0)}
    known = curve((1000, 100.0), pairs=pairs, caused=caused, tolerated=tolerated)
    cluster.tell(ev.WorkloadSubmitted(workload(name, 500, profile=True, **others)))
    cluster.tell(ev.ProfilingFailed(cluster.key(name), "no runs"))
    cluster.tell(ev.WorkloadClassified(cluster.key(name), known))
    running(cluster, name)


def slowdown(cluster: Cluster, name: str) -> float | None:
    found = cluster.manager._cluster.residency.slowdown_of(cluster.record(name))
    return None if found is None else found.mean


def test_nothing_is_kept_where_no_policy_asks():
    cluster = Cluster(contention=None)
    cluster.tell(ev.ServerReported(server("s")))
    cluster.sync()
    placed(cluster, "a", "x")
    assert cluster.manager.view.contention is None
    assert slowdown(cluster, "a") is None


def test_neighbors_are_counted_while_they_are_there():
    cluster = Cluster()
    for name in ("s0", "s1"):
        cluster.tell(ev.ServerReported(server(name, 4)))
    cluster.sync()
    for name, kind in (("a", "x"), ("b", "y"), ("c", "x")):
        placed(cluster, name, kind)
        cluster.check_books()
    first = cluster.record("a").placements[0].server
    assert first == cluster.record("c").placements[0].server
    assert slowdown(cluster, "a") == slowdown(cluster, "c") == 0.5
    other = Platform("other", PLATFORM.architecture, "", 64_000, 2**40)
    cluster.tell(ev.ServerReported(Server(first, other, 4000, 2**40)))
    cluster.check_books()
    assert slowdown(cluster, "a") == 0.5
    cluster.tell(ev.ServerLeft(first, "unplugged"))
    cluster.check_books()
    assert slowdown(cluster, "a") is None
    assert slowdown(cluster, "b") == 1.0
    cluster.tell(ev.ServerReported(server(first, 4)))
    cluster.check_books()
    assert slowdown(cluster, "a") == 0.5
    for name in ("a", "b", "c"):
        cluster.tell(ev.WorkloadFinished(cluster.key(name), 0, None, "exited"))
        cluster.check_books()


def test_a_suspended_neighbor_slows_nobody():
    cluster = Cluster()
    cluster.tell(ev.ServerReported(server("s", 4)))
    cluster.sync()
    placed(cluster, "a", "x")
    placed(cluster, "b", "x", best_effort=True)
    table = cluster.manager.view.contention
    assert slowdown(cluster, "a") == 0.5
    assert [(s.source, s.caused.mean, s.tolerated.mean) for s in table.scores(0)] == [
        (DISK, 40, 60)
    ]
    decision = Decision(Stage.ADAPTATION, "test", True, ReasonCode.SUSPENDED_FOR_TARGET, "for a")
    world, world_time = cluster.manager, cluster.now
    world.apply(world_time, ev.WorkloadSuspended("b", "a", decision))
    cluster.check_books()
    assert slowdown(cluster, "a") == 1.0
    assert cluster.manager.view.cpu_wanted.tolist() == [0]
    assert [s.caused.mean for s in table.scores(0)] == [20]
    world.apply(world_time, ev.WorkloadResumed("b", decision))
    cluster.check_books()
    assert slowdown(cluster, "a") == 0.5
    stated = world.state.workloads["b"].workload.reservation.cpu_millicpus
    assert stated > 0
    assert world.view.cpu_wanted.tolist() == [stated]


def test_rows_follow_their_servers():
    cluster = Cluster()
    for name in ("s0", "s1", "s2"):
        cluster.tell(ev.ServerReported(server(name, 1)))
    cluster.sync()
    for name in ("a", "b", "c"):
        placed(cluster, name, "x")
    gone = cluster.manager.view.names[0]
    cluster.tell(ev.ServerLeft(gone, "unplugged"))
    (resident,) = cluster.manager.residents_of(gone)
    cluster.tell(ev.ServerReported(server(gone, 1)))
    assert cluster.manager.view.names[-1] == gone, "it joins at the end with what is left there"
    cluster.check_books()
    cluster.tell(ev.ServerLeft(gone, "unplugged"))
    cluster.tell(ev.WorkloadFinished(resident.key, 0, None, "exited"))
    cluster.check_books()
    assert len(cluster.manager.view.names) == 2


def test_servers_that_have_left_stand_last_as_in_a_snapshot() -> None:
    cluster = Cluster("random")
    for name in "abcd":
        cluster.tell(ev.ServerReported(server(name, 1)))
    cluster.sync()
    for name in ("w", "x", "y", "z"):
        placed(cluster, name, "x")
    for name in ("b", "a"):
        cluster.tell(ev.ServerLeft(name, "unplugged"))
    for name in ("e", "b", "f"):
        cluster.tell(ev.ServerReported(server(name, 3)))
        cluster.check_books()
        assert list(cluster.manager.view.names) == list(cluster.replayed(8).view.names)
    assert list(cluster.manager.view.names) == ["c", "d", "e", "b", "f", "a"]
    asked = workload("new", 1000)
    (_, previewed, *_) = cluster.manager.preview(asked, cluster.now)
    cluster.tell(ev.WorkloadSubmitted(asked))
    assert cluster.record("new").decisions[-1].decision == previewed


def test_what_one_start_missed_does_not_close_the_server_of_the_next() -> None:
    cluster = made("feedback", 2)
    start(cluster, wants())
    measure(cluster, 2, w=50)
    assert cluster.manager.view.unsettled.tolist() == [1]
    cluster.tell(ev.RestartRequested("w"))
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
    assert cluster.record("w").phase is Phase.PLACED
    assert cluster.manager.view.unsettled.tolist() == [0]
    running(cluster, "w")
    cluster.check_books()


def test_a_snapshot_stays_as_it_is_when_the_cluster_changes() -> None:
    cluster = made("quasar", 4)
    placed(cluster, "one")
    live = cluster.manager.view
    snapshot = live.snapshot()
    scores, allocated = snapshot.contention.scores(0), snapshot.cpu_allocated.tolist()
    version = int(snapshot.versions[0])
    placed(cluster, "two")
    assert snapshot.cpu_allocated.tolist() == allocated != live.cpu_allocated.tolist()
    assert snapshot.contention.scores(0) == scores != live.contention.scores(0)
    assert int(snapshot.versions[0]) == version < int(live.versions[0])


def test_what_pressed_on_a_copy_is_kept_with_its_measurements():
    cluster = Cluster()
    cluster.tell(ev.ServerReported(server("s", 4)))
    cluster.sync()
    placed(cluster, "a", "x")
    cluster.tell(ev.WorkloadSubmitted(workload("b", 500, profile=True)))
    cluster.tell(ev.ProfilingFinished(cluster.key("b"), Measurements(runs=1)))
    kept = cluster.record("b").measurements
    assert kept is not None
    assert kept.neighbors[PLATFORM.name].presses == PROFILES["x"].presses
    cluster.check_books()


def test_a_resident_without_a_target_has_none_to_lose():
    aimless = WorkloadRecord(workload("a"), 1, 0.0, classification=curve((1000, 100.0)))
    aiming = replace(aimless, workload=replace(workload("a"), target=Target(rate_per_second=1.0)))
    first, second = resident(aimless, "s"), resident(aiming, "s")
    assert first is not None
    assert second is not None
    assert (first.tolerance, second.tolerance) == (1.0, aiming.workload.tolerance)
