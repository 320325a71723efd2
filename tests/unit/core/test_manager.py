"""What users and operators notice of the core's decisions."""

import pytest

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.errors import Conflict, NotFound
from wharfinger.model.decisions import ReasonCode
from wharfinger.runtime.requests import RequestOutcome, check_update, submission


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    return cluster


def _submit(cluster: Cluster, *workloads) -> None:
    for submitted in workloads:
        assert submission(cluster.manager, submitted).created
        cluster.tell(ev.WorkloadSubmitted(submitted))


def _phases(cluster: Cluster) -> dict[str, Phase]:
    return {name: record.phase for name, record in cluster.manager.state.workloads.items()}


def test_a_place_is_given_in_order_of_priority_then_of_arrival(cluster: Cluster) -> None:
    _submit(cluster, workload("first", 2000), workload("low", 2000, priority=-1))
    _submit(cluster, workload("second", 2000), workload("high", 2000, priority=5))
    order = []
    for _ in range(4):
        name = next(n for n, p in _phases(cluster).items() if p is Phase.PLACED)
        order.append(name)
        running(cluster, name)
        cluster.tell(ev.WorkloadFinished(cluster.key(name), 0, None, "exited"))
    assert order == ["first", "high", "second", "low"]


def test_who_can_never_fit_holds_nobody_up_and_is_placed_when_a_server_comes(
    cluster: Cluster,
) -> None:
    _submit(cluster, workload("huge", 9000, priority=9), workload("small"))
    assert cluster.record("huge").deferral is ReasonCode.TOO_LARGE
    assert cluster.record("small").phase is Phase.PLACED
    cluster.tell(ev.ServerReported(server("large", 16)))
    assert cluster.record("huge").phase is Phase.PLACED


def test_who_can_never_fit_is_tried_once_for_each_change_of_the_servers(
    cluster: Cluster, monkeypatch
) -> None:
    _submit(cluster, workload("huge", 9000))
    cluster.tell(ev.ServerReported(server("t", 3)))
    tried = []
    placement = cluster.manager.policy.placement
    place = placement.place
    monkeypatch.setattr(
        placement,
        "place",
        lambda request, view: tried.append(request.workload.name) or place(request, view),
    )
    _submit(cluster, workload("a"), workload("b"))
    assert tried == ["a", "b"]
    cluster.tell(ev.ServerReported(server("large", 16)))
    assert cluster.record("huge").phase is Phase.PLACED


def test_who_waits_for_room_is_not_overtaken_but_best_effort_work_goes_its_own_way(
    cluster: Cluster,
) -> None:
    _submit(cluster, workload("a"), workload("large", 2000), workload("small", 100))
    _submit(cluster, workload("filler", best_effort=True))
    assert cluster.record("large").deferral is ReasonCode.NO_ROOM
    assert cluster.record("small").phase is Phase.QUEUED
    assert cluster.record("filler").phase is Phase.PLACED
    assert cluster.record("filler").placements[0].allocation.cpu_millicpus == 0
    assert cluster.manager.queue_lengths() == {"guaranteed": 2, "best-effort": 0}


def test_why_one_waits_and_what_would_change_it_is_recorded(cluster: Cluster) -> None:
    _submit(cluster, workload("a", 1500), workload("b", 1000))
    decision = cluster.record("b").decisions[-1].decision
    assert decision.message == "no server has 1 CPU and 256Mi free"
    assert "s has 0.5 CPU" in decision.would_change
    assert decision.candidates[0].numbers["cpu_free_millicpus"] == 500
    # Another failed try for the same reason adds nothing.
    before = len(cluster.record("b").decisions)
    cluster.tell(ev.ServerReported(server("s", 2, memory_mib=5000)))
    assert len(cluster.record("b").decisions) == before


def test_a_retry_goes_to_another_server_first(cluster: Cluster) -> None:
    cluster.tell(ev.ServerReported(server("t", 2)))
    _submit(cluster, workload("w"))
    key = cluster.key("w")
    cluster.tell(ev.StartFailed(key, "no room for a process", retryable=True))
    assert cluster.record("w").placements == ()
    cluster.now = cluster.manager.wake_at(cluster.now)
    step = cluster.tell(ev.TimePassed())
    assert cluster.record("w").placements[0].server == "t"
    assert act.ForgetWorkload(key) in step.actions
    assert cluster.key("w") != key


def test_a_retry_goes_there_again_when_the_others_are_too_small(cluster: Cluster) -> None:
    cluster.tell(ev.ServerReported(server("large", 4)))
    _submit(cluster, workload("w", 3000))
    cluster.tell(ev.StartFailed(cluster.key("w"), "no processes left", retryable=True))
    cluster.now = 10.0
    cluster.tell(ev.TimePassed())
    assert cluster.record("w").phase is Phase.PLACED


def test_a_server_that_comes_back_is_the_last_to_have_joined(cluster: Cluster) -> None:
    cluster.tell(ev.ServerReported(server("t", 2)))
    _submit(cluster, workload("w"))
    running(cluster, "w")
    cluster.tell(ev.ServerLeft("s", "unplugged"), ev.ServerReported(server("s", 2)))
    assert list(cluster.manager.view.names) == ["t", "s"]
    assert list(cluster.replayed(len(cluster.log)).view.names) == ["t", "s"]
    cluster.check_books()


def test_with_one_server_only_a_retry_goes_there_again(cluster: Cluster) -> None:
    _submit(cluster, workload("w"))
    cluster.tell(ev.StartFailed(cluster.key("w"), "busy", retryable=True))
    cluster.now = 1.0
    cluster.tell(ev.TimePassed())
    assert cluster.record("w").placements[0].server == "s"


def test_a_clock_that_is_set_back_holds_nobody_up_for_long(cluster: Cluster) -> None:
    cluster.now = 1e6
    _submit(cluster, workload("w"))
    cluster.tell(ev.StartFailed(cluster.key("w"), "busy", retryable=True))
    cluster.now = 0.0
    assert cluster.manager.wake_at(cluster.now) == 0.0
    cluster.tell(ev.TimePassed())
    assert cluster.record("w").phase is Phase.PLACED


def test_a_changed_reservation_follows_in_place(cluster: Cluster) -> None:
    _submit(cluster, workload("w", 500), workload("other", 1000))
    running(cluster, "w")
    step = cluster.tell(ev.WorkloadUpdated(workload("w", 1000)))
    assert isinstance(step.actions[0], act.ResizeAllocation)
    cluster.tell(ev.AllocationResized(cluster.key("w"), step.actions[0].placements))
    assert cluster.record("w").placements[0].allocation.cpu_millicpus == 1000
    step = cluster.tell(ev.WorkloadUpdated(workload("w", 1500)))
    assert step.actions == ()
    kept = cluster.record("w").decisions[-1].decision
    assert (kept.accepted, kept.reason) == (False, ReasonCode.NO_ROOM)
    assert cluster.record("w").phase is Phase.RUNNING
    cluster.check_books()


def test_giving_back_makes_room_for_who_waits(cluster: Cluster) -> None:
    _submit(cluster, workload("w", 2000), workload("waits", 1000))
    running(cluster, "w")
    step = cluster.tell(ev.WorkloadUpdated(workload("w", 500)))
    assert cluster.record("waits").phase is Phase.QUEUED, "not before it has really shrunk"
    cluster.tell(ev.AllocationResized(cluster.key("w"), step.actions[0].placements))
    assert cluster.record("waits").phase is Phase.PLACED


def test_one_that_is_updated_before_it_runs_is_resized_when_it_does(cluster: Cluster) -> None:
    _submit(cluster, workload("w", 500))
    assert cluster.tell(ev.WorkloadUpdated(workload("w", 700))).actions == ()
    key = cluster.key("w")
    step = cluster.tell(ev.WorkloadStarted(key, "pid 1"))
    assert isinstance(step.actions[0], act.ResizeAllocation)


def test_after_a_crash_everything_owed_is_asked_again_and_nothing_else(cluster: Cluster) -> None:
    _submit(cluster, workload("a", 500), workload("b", 500), workload("c", 500))
    running(cluster, "a")
    cluster.tell(ev.StartAccepted(cluster.key("b")), ev.WorkloadRevoked("b"))
    cluster.manager = cluster.replayed()
    cluster.start()
    step = cluster.sync()
    assert {(type(a).__name__, a.key) for a in step.actions} == {
        ("StopWorkload", cluster.key("b")),
        ("StartWorkload", cluster.key("c")),
    }


def test_what_the_engine_lost_sight_of_has_vanished(cluster: Cluster) -> None:
    _submit(cluster, workload("taken", 500), workload("asked", 500))
    cluster.tell(ev.StartAccepted(cluster.key("taken")))
    step = cluster.tell(ev.EngineSynced((), ("s",)))
    assert cluster.record("taken").phase is Phase.VANISHED
    assert cluster.record("asked").phase is Phase.PLACED
    assert [type(a) for a in step.actions] == [act.StartWorkload]


def test_what_the_log_does_not_know_is_left_alone_and_shown(cluster: Cluster) -> None:
    step = cluster.tell(ev.EngineSynced(("7-1-n1", "8-1-lost"), ("s",)))
    assert cluster.manager.state.strays == ["8-1-lost"]
    assert step.actions == (act.ForgetWorkload("7-1-n1"),)


def test_what_was_started_in_a_lost_part_of_the_log_is_a_stray(cluster: Cluster) -> None:
    before = len(cluster.log)
    _submit(cluster, workload("w"))
    lost = cluster.key("w")
    del cluster.log[before + 1 :]
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.tell(ev.HistoryLost("the end is gone"))
    step = cluster.tell(ev.EngineSynced((lost,), ("s",)))
    assert cluster.manager.state.strays == [lost]
    assert [(type(a), a.key != lost) for a in step.actions] == [(act.StartWorkload, True)]


def test_the_same_again_is_no_second_workload_and_another_is_refused(cluster: Cluster) -> None:
    _submit(cluster, workload("w"))
    assert submission(cluster.manager, workload("w")).outcome is RequestOutcome.UNCHANGED
    with pytest.raises(Conflict, match="use update or apply"):
        submission(cluster.manager, workload("w", 700))
    cluster.tell(ev.StartFailed(cluster.key("w"), "no such program", retryable=False))
    told = submission(cluster.manager, workload("w", 700))
    assert (told.outcome, told.run) == (RequestOutcome.RUNS_AGAIN, 2)
    assert not submission(cluster.manager, workload("w"), once=True).created


def test_only_live_workloads_can_be_changed(cluster: Cluster) -> None:
    with pytest.raises(NotFound):
        check_update(cluster.manager, workload("nobody"))
    _submit(cluster, workload("w"))
    with pytest.raises(Conflict, match="type and program"):
        check_update(cluster.manager, workload("w", best_effort=True))
    cluster.tell(ev.WorkloadRevoked("w"))
    with pytest.raises(Conflict, match="being stopped"):
        check_update(cluster.manager, workload("w", 700))


def test_the_oldest_ended_are_forgotten_when_there_are_too_many() -> None:
    cluster = Cluster(keep_ended=2)
    cluster.tell(ev.ServerReported(server("s", 8)))
    cluster.sync()
    for i in range(4):
        cluster.now = float(i)
        _submit(cluster, workload(f"w{i}"))
        key = cluster.key(f"w{i}")
        step = cluster.tell(ev.WorkloadFinished(key, 0, None, "exited"))
    assert list(cluster.manager.state.workloads) == ["w2", "w3"]
    assert [type(a) for a in step.actions] == [act.ForgetWorkload]


def test_a_clock_that_is_set_back_forgets_no_new_end() -> None:
    cluster = Cluster(keep_ended=2)
    cluster.tell(ev.ServerReported(server("s", 8)))
    cluster.sync()
    for i, now in enumerate((100.0, 101.0, 50.0)):
        cluster.now = now
        _submit(cluster, workload(f"w{i}"))
        cluster.tell(ev.WorkloadFinished(cluster.key(f"w{i}"), 3, None, "exited"))
    assert list(cluster.manager.state.workloads) == ["w1", "w2"]


def test_one_that_is_revoked_before_its_profiling_began_is_revoked(cluster: Cluster) -> None:
    _submit(cluster, workload("w", profile=True))
    cluster.tell(ev.WorkloadRevoked("w"))
    cluster.tell(ev.StartFailed(cluster.key("w"), "stopped before it started", retryable=False))
    assert cluster.record("w").phase is Phase.REVOKED


def test_a_preview_decides_and_takes_nothing(cluster: Cluster) -> None:
    before = cluster.replayed().state
    decisions = cluster.manager.preview(workload("w"), cluster.now)
    assert [d.stage for d in decisions] == ["admission", "placement"]
    assert (
        cluster.manager.preview(workload("huge", 9000), cluster.now)[-1].reason
        is ReasonCode.TOO_LARGE
    )
    assert cluster.manager.state == before


def test_a_server_that_left_keeps_its_books_until_nothing_is_left_on_it(cluster: Cluster) -> None:
    _submit(cluster, workload("w"))
    running(cluster, "w")
    cluster.tell(ev.ServerLeft("s", "unplugged"))
    assert list(cluster.manager.view.names) == ["s"]
    _submit(cluster, workload("late"))
    assert cluster.record("late").deferral is ReasonCode.NO_SERVERS
    cluster.check_books()
    assert cluster.replayed().view.names == ["s"]
    cluster.tell(ev.WorkloadVanished(cluster.key("w"), "server left"))
    assert list(cluster.manager.view.names) == []


def test_a_resize_for_which_there_was_no_room_follows_when_there_is(cluster: Cluster) -> None:
    _submit(cluster, workload("w", 500), workload("other", 1500))
    running(cluster, "w", "other")
    cluster.tell(ev.WorkloadUpdated(workload("w", 1000)))
    kept = len(cluster.record("w").decisions)
    cluster.tell(ev.ServerReported(server("s", 2, memory_mib=5000)))
    assert len(cluster.record("w").decisions) == kept, "the same refusal is not recorded again"
    step = cluster.tell(ev.WorkloadFinished(cluster.key("other"), 0, None, "exited"))
    assert [type(a) for a in step.actions] == [act.ResizeAllocation]
    assert cluster.record("w").phase is Phase.ADJUSTING


def test_those_who_run_get_room_before_those_who_wait(cluster: Cluster) -> None:
    _submit(cluster, workload("w", 500), workload("other", 1500), workload("waits", 1500))
    running(cluster, "w", "other")
    cluster.tell(ev.WorkloadUpdated(workload("w", 1000)))
    cluster.tell(ev.WorkloadFinished(cluster.key("other"), 0, None, "exited"))
    assert cluster.record("waits").phase is Phase.QUEUED
    assert cluster.record("w").planned[0].allocation.cpu_millicpus == 1000


def test_a_preview_says_who_is_served_first(cluster: Cluster) -> None:
    _submit(cluster, workload("a", 1500), workload("b", 1000))
    reasons = [d.reason for d in cluster.manager.preview(workload("small", 100), cluster.now)]
    behind = ReasonCode.BEHIND_OTHERS
    assert reasons == [ReasonCode.OK, behind, behind], "it would delay b, and b waits before it"
    urgent = workload("urgent", 100, priority=1)
    assert [d.reason for d in cluster.manager.preview(urgent, cluster.now)] == [ReasonCode.OK] * 2


def test_an_update_that_is_taken_back_leaves_nothing_to_resize(cluster: Cluster) -> None:
    _submit(cluster, workload("w", 500), workload("other", 1500))
    running(cluster, "w")
    cluster.tell(ev.WorkloadUpdated(workload("w", 1000)))
    cluster.tell(ev.WorkloadUpdated(workload("w", 500)))
    assert not cluster.record("w").resize_wanted
    assert cluster.record("w").decisions[-1].decision.reason is ReasonCode.OK


def test_arrivals_behind_a_blocked_head_ask_about_themselves_alone(cluster: Cluster) -> None:
    most = cluster.manager.policy.admission.backfill
    _submit(cluster, workload("a", 2000), workload("head", 1000))
    _submit(cluster, *(workload(f"v{i}") for i in range(most - 3)))
    asked = []
    placement = cluster.manager.policy.placement
    place = placement.place
    placement.place = lambda request, view: asked.append(request) or place(request, view)
    _submit(cluster, *(workload(f"w{i}") for i in range(20)))
    assert [request.workload.name for request in asked] == ["w0", "w1", "w2"], "the first 32"
    asked.clear()
    _submit(cluster, workload("urgent", priority=1))
    assert asked[0].workload.name == "urgent"


def test_an_end_that_nobody_watched_is_dated_when_it_was(cluster: Cluster) -> None:
    cluster.now = 100.0
    _submit(cluster, workload("w"))
    key = cluster.key("w")
    cluster.now = 160.0
    cluster.tell(ev.WorkloadStarted(key, "pid 1", started_at=101.0))
    cluster.tell(ev.WorkloadFinished(key, 0, None, "exited", ended_at=103.0))
    record = cluster.record("w")
    assert (record.started_at, record.ended_at) == (101.0, 103.0)


def test_clocks_that_disagree_turn_no_time_around(cluster: Cluster) -> None:
    cluster.now = 100.0
    _submit(cluster, workload("w"))
    key = cluster.key("w")
    cluster.tell(ev.WorkloadStarted(key, "pid 1", started_at=99.0))
    cluster.tell(ev.WorkloadFinished(key, 0, None, "exited", ended_at=101.0))
    record = cluster.record("w")
    assert (record.started_at, record.ended_at) == (100.0, 100.0)
