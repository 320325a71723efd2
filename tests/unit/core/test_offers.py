"""Workloads that users hand in to the engine, and what they are told there."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, server, workload
from tests.support.courses import made, phase, start
from tests.unit.core.test_evictions import check_replay
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Mode
from wharfinger.model.view import Capabilities, Resize, WorkloadLimits
from wharfinger.model.workload import Workload

OFFERS = Capabilities(offers=True, annotates=True)
HANDLE = "job 1234"


def offer(cluster: Cluster, wanted: Workload | None = None, handle: str = HANDLE, **more):
    wanted = wanted or replace(workload("slurm-1234"), owner="ann")
    step = cluster.tell(ev.WorkloadOffered(wanted, handle, **more))
    cluster.check_books()
    return step


def told(actions) -> list[tuple[str, str]]:
    return [(a.reason, a.text) for a in actions if isinstance(a, act.AnnotateWorkload)]


def full(**others) -> Cluster:
    cluster = made("least-loaded", 2, able=OFFERS, **others)
    start(cluster, workload("full", 2000))
    return cluster


def test_it_comes_in_as_what_is_submitted_and_its_start_lets_it_go() -> None:
    cluster = made("least-loaded", 2, able=OFFERS)
    step = offer(cluster, limits=WorkloadLimits(Resize.NONE))
    record = cluster.record("slurm-1234")
    assert record.phase is Phase.PLACED
    assert (record.workload.owner, record.offer) == ("ann", HANDLE)
    assert record.limits == WorkloadLimits(Resize.NONE)
    (asked,) = [a for a in step.actions if isinstance(a, act.StartWorkload)]
    assert asked.handle == HANDLE
    assert [type(a) for a in step.actions] == [act.AnnotateWorkload, act.StartWorkload]
    running(cluster, "slurm-1234")
    cluster.tell(ev.WorkloadFinished(record.key, 0, None, "exited"))
    assert phase(cluster, "slurm-1234") is Phase.COMPLETED
    check_replay(cluster)


def test_one_that_is_told_again_is_no_news() -> None:
    cluster = full()
    offer(cluster)
    assert phase(cluster, "slurm-1234") is Phase.QUEUED
    assert not offer(cluster).events
    cluster.manager = cluster.replayed()
    cluster.start()
    offer(cluster)
    keys = cluster.started_keys()
    cluster.tell(ev.EngineSynced(keys, ("a",), (HANDLE,)))
    assert len(cluster.manager.state.workloads) == 2
    assert cluster.record("slurm-1234").run == 1
    check_replay(cluster)


def test_what_its_user_has_changed_while_it_waits_is_an_update() -> None:
    cluster = full()
    offer(cluster)
    step = offer(cluster, workload("slurm-1234", priority=3))
    assert isinstance(step.events[0], ev.WorkloadUpdated)
    assert cluster.record("slurm-1234").workload.priority == 3
    assert cluster.record("slurm-1234").offer == HANDLE
    check_replay(cluster)


def test_it_is_told_why_it_waits_when_that_changes_and_not_at_each_step() -> None:
    cluster = full()
    notes = told(offer(cluster).actions)
    assert [reason for reason, _ in notes] == ["placement: no-room"]
    assert "no server has 1 CPU" in notes[0][1]
    assert "would change that: " in notes[0][1]
    for name in "bc":
        assert not told(cluster.tell(ev.ServerReported(server(name, 0))).actions)
    step = cluster.tell(ev.WorkloadFinished(cluster.key("full"), 0, None, "exited"))
    assert [reason for reason, _ in told(step.actions)] == ["placement: ok"]


def test_engines_that_do_not_annotate_are_not_asked_to() -> None:
    cluster = made("least-loaded", 2, able=Capabilities(offers=True))
    assert not told(offer(cluster).actions)


def test_in_recommend_mode_it_is_told_where_it_would_go_and_held() -> None:
    cluster = made("least-loaded", 2, able=OFFERS, mode=Mode.RECOMMEND)
    step = offer(cluster)
    assert not [a for a in step.actions if isinstance(a, act.StartWorkload)]
    ((reason, text),) = told(step.actions)
    assert reason == "placement: recommended"
    assert "recommended: " in text


def test_what_is_rejected_is_told_once_and_left_as_it_is() -> None:
    cluster = made("least-loaded", 2, able=OFFERS, admission="fifo")
    offer(cluster)
    decision = cluster.record("slurm-1234").decisions[0].decision
    cluster = full()
    offer(cluster)
    rejected = ev.WorkloadRejected("slurm-1234", replace(decision, accepted=False))
    cluster.manager._record(cluster.now, rejected)
    ((_, text),) = told(cluster.manager._pending.due())
    assert text.startswith("rejected: ")
    assert not offer(cluster).events, "the same is refused already"
    step = offer(cluster, workload("slurm-1234", 500))
    assert step.events
    assert cluster.record("slurm-1234").run == 2


@pytest.mark.parametrize("profiled", [False, True])
def test_who_takes_it_back_before_its_start_has_it_revoked(profiled: bool) -> None:
    cluster = full() if not profiled else made("least-loaded", 2, able=OFFERS)
    offer(cluster, workload("slurm-1234", profile=profiled))
    step = cluster.tell(ev.OfferWithdrawn("slurm-1234", "cancelled by ann"))
    record = cluster.record("slurm-1234")
    if profiled:
        assert act.StopWorkload(record.key, 10.0) in step.actions
        cluster.tell(ev.ProfilingFailed(record.key, "stopped"))
    assert (record.phase, record.reason) == (Phase.REVOKED, "withdrawn")
    assert record.message == "cancelled by ann"
    cluster.check_books()
    check_replay(cluster)
    assert offer(cluster, record.workload).events, "it is handed in again"
    assert cluster.record("slurm-1234").run == 2


def test_who_takes_it_back_between_decision_and_release_has_it_never_start() -> None:
    cluster = made("least-loaded", 2, able=OFFERS)
    offer(cluster)
    step = cluster.tell(ev.OfferWithdrawn("slurm-1234", "cancelled"))
    record = cluster.record("slurm-1234")
    assert act.StopWorkload(record.key, 10.0) in step.actions
    cluster.tell(ev.StartFailed(record.key, "nothing is held any more", retryable=False))
    assert (record.phase, record.reason) == (Phase.REVOKED, "withdrawn")
    check_replay(cluster)


def test_after_its_start_its_end_is_told_as_any_other() -> None:
    cluster = made("least-loaded", 2, able=OFFERS)
    offer(cluster)
    running(cluster, "slurm-1234")
    assert not cluster.tell(ev.OfferWithdrawn("slurm-1234", "cancelled")).events
    assert phase(cluster, "slurm-1234") is Phase.RUNNING


def test_what_was_taken_back_while_there_was_no_manager_is_revoked() -> None:
    cluster = full()
    offer(cluster)
    offer(cluster, workload("slurm-5"), "job 5")
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.tell(ev.EngineSynced(cluster.started_keys(), ("a",), ("job 5",)))
    assert phase(cluster, "slurm-1234") is Phase.REVOKED
    assert phase(cluster, "slurm-5") is Phase.QUEUED
    check_replay(cluster)


def test_a_name_that_another_has_is_answered_and_neither_is_harmed() -> None:
    cluster = made("least-loaded", 2, able=OFFERS)
    start(cluster, workload("slurm-1234"))
    before = cluster.record("slurm-1234")
    notes = told(offer(cluster).actions)
    ((reason, text),) = notes
    assert reason == "admission: name-taken"
    assert text == (
        "not taken: another workload has the name 'slurm-1234'; delete that one (wharfinger "
        "delete slurm-1234), and it is taken when the manager is started again"
    )
    assert cluster.record("slurm-1234") is before
    assert not before.offer
    assert not offer(cluster).events
    check_replay(cluster)
    cluster.tell(ev.WorkloadFinished(before.key, 0, None, "exited"))
    assert offer(cluster).events
    assert cluster.record("slurm-1234").offer == HANDLE
    assert not cluster.manager.state.clashes


def test_an_evicted_offer_is_placed_again_under_its_handle() -> None:
    cluster = made("least-loaded", 2, able=OFFERS)
    wanted = workload("slurm-1234")
    offer(cluster, replace(wanted, run=replace(wanted.run, restartable=True)))
    running(cluster, "slurm-1234")
    step = cluster.tell(ev.WorkloadEvicted(cluster.key("slurm-1234"), "requeued"))
    (asked,) = [a for a in step.actions if isinstance(a, act.StartWorkload)]
    assert asked.handle == HANDLE


def test_what_was_let_go_is_neither_stopped_for_others_nor_started_again() -> None:
    cluster = made("least-loaded", 2, 2, able=OFFERS)
    wanted = workload("slurm-1234")
    offer(cluster, replace(wanted, run=replace(wanted.run, restartable=True)))
    running(cluster, "slurm-1234")
    record = cluster.record("slurm-1234")
    (here,) = record.placements
    cluster.tell(ev.ServerCordoned(here.server, drain=True))
    assert record.phase is Phase.RUNNING
    cluster.tell(ev.WorkloadFinished(record.key, 1, None, "exited"))
    assert record.phase is Phase.FAILED


def test_one_that_could_not_be_let_go_is_told_so_again_by_the_next_manager() -> None:
    cluster = made("least-loaded", 2, able=OFFERS)
    offer(cluster)
    key = cluster.key("slurm-1234")
    step = cluster.tell(ev.StartFailed(key, "Slurm says no", retryable=False))
    ((reason, text),) = told(step.actions)
    assert reason == "ended: failed"
    assert "Slurm says no" in text
    cluster.manager = cluster.replayed()
    cluster.start()
    step = cluster.tell(ev.EngineSynced((), ("a",), (HANDLE,)))
    assert told(step.actions) == [(reason, text)]
