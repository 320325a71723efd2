"""Every edge of the lifecycle's table is walked by the events that cause it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.cluster import MIB, Cluster, running, server, workload
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import (
    ENDED,
    NEXT,
    ON_SERVER,
    TRANSITIONS,
    Phase,
    Transition,
    Trigger,
)
from wharfinger.core.settings import CoreSettings
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.profile import Classification, ProfilingPlan

NAME = "w"
CLASSIFIED = Classification("e", "1")
PLAN = ProfilingPlan("s", (500,), 64 * MIB, (), 8.0)
DECISION = Decision(Stage.ADMISSION, "test", True, ReasonCode.OK, "because the test says so")


def _in_phase(phase: Phase) -> Cluster:
    """A cluster with one workload in ``phase``."""
    cluster = Cluster()
    cluster.tell(ev.ServerReported(server("s")))
    profiled = phase in (Phase.PROFILING, Phase.CLASSIFYING, Phase.CLASSIFIED)
    submitted = ev.WorkloadSubmitted(workload(NAME, profile=profiled))
    if phase in (Phase.SUBMITTED, Phase.ADMITTED, Phase.CLASSIFIED):
        # These last only as long as one event is handled; between entries of the log they
        # are real, and a replay that stops there must go on from them.
        if phase is Phase.CLASSIFIED:
            cluster.tell(submitted)
            cluster.tell(ev.ProfilingFailed(cluster.key(NAME), "no runs"))
            cluster.manager.apply(0.0, ev.WorkloadClassified(cluster.key(NAME), CLASSIFIED))
            return cluster
        cluster.manager.apply(0.0, submitted)
        if phase is Phase.ADMITTED:
            cluster.manager.apply(0.0, ev.WorkloadAdmitted(NAME, DECISION))
        return cluster
    cluster.tell(submitted)
    if phase is Phase.CLASSIFYING:
        cluster.tell(ev.ProfilingFailed(cluster.key(NAME), "no runs"))
    if phase in ON_SERVER:
        cluster.sync()
    if phase is Phase.STARTING:
        cluster.tell(ev.StartAccepted(cluster.key(NAME)))
    if phase in ON_SERVER - {Phase.PLACED, Phase.STARTING}:
        running(cluster, NAME)
    if phase is Phase.SUSPENDED:
        CAUSES[Trigger.SUSPEND](cluster)
    if phase is Phase.MIGRATING:
        CAUSES[Trigger.MIGRATE](cluster)
    if phase is Phase.ADJUSTING:
        cluster.tell(ev.WorkloadUpdated(workload(NAME, 1500)))
    return cluster


def _key(cluster: Cluster) -> str:
    return cluster.key(NAME)


def _revoke(cluster: Cluster) -> None:
    """Revoke, and where something runs let the engine say that it has ended."""
    cluster.tell(ev.WorkloadRevoked(NAME))
    match cluster.record(NAME).phase:
        case Phase.PROFILING:
            cluster.tell(ev.ProfilingFailed(_key(cluster), "stopped"))
        case phase if phase in ON_SERVER:
            cluster.tell(ev.WorkloadFinished(_key(cluster), None, 15, "stopped"))


def _give_up(cluster: Cluster) -> None:
    if cluster.record(NAME).phase is Phase.PROFILING:
        cluster.tell(ev.ProfilingFailed(_key(cluster), "no such program", fatal=True))
    else:
        cluster.tell(ev.StartFailed(_key(cluster), "no such program", retryable=False))


def _restart(cluster: Cluster) -> None:
    cluster.manager.apply(0.0, ev.RestartRequested(NAME))
    cluster.manager.apply(0.0, ev.WorkloadFinished(_key(cluster), None, 15, "killed"))


def _evict(cluster: Cluster) -> None:
    """It may be started again."""
    record = cluster.record(NAME)
    run = replace(record.workload.run, restartable=True)
    record.workload = replace(record.workload, run=run)
    cluster.manager.apply(0.0, ev.WorkloadEvicted(_key(cluster), "requeued"))


def _fold(event: Callable[[Cluster], ev.Event]) -> Callable[[Cluster], None]:
    """A decision of the core, folded as a replay does it."""
    return lambda cluster: cluster.manager.apply(0.0, event(cluster))


CAUSES: dict[Trigger, Callable[[Cluster], object]] = {
    Trigger.ADMIT: _fold(lambda _: ev.WorkloadAdmitted(NAME, DECISION)),
    Trigger.REJECT: _fold(lambda _: ev.WorkloadRejected(NAME, DECISION)),
    Trigger.PROFILE: _fold(lambda _: ev.ProfilingPlanned(NAME, "k", DECISION, PLAN)),
    Trigger.PROFILED: _fold(lambda c: ev.ProfilingFailed(_key(c), "no runs")),
    Trigger.ASK: _fold(lambda _: ev.ClassificationPlanned(NAME, "k", DECISION)),
    Trigger.CLASSIFY: _fold(lambda c: ev.WorkloadClassified(_key(c), CLASSIFIED)),
    Trigger.ENQUEUE: _fold(lambda _: ev.WorkloadQueued(NAME, "guaranteed")),
    Trigger.PLACE: lambda c: c.sync(),
    Trigger.ACCEPT: lambda c: c.tell(ev.StartAccepted(_key(c))),
    Trigger.START: lambda c: c.tell(ev.WorkloadStarted(_key(c), "pid 1")),
    Trigger.RETRY: lambda c: c.tell(ev.StartFailed(_key(c), "busy", retryable=True)),
    Trigger.GIVE_UP: _give_up,
    Trigger.RESTART: _restart,
    Trigger.EVICT: _evict,
    Trigger.SUCCEED: lambda c: c.tell(ev.WorkloadFinished(_key(c), 0, None, "exited")),
    Trigger.FAIL: lambda c: c.tell(ev.WorkloadFinished(_key(c), 3, None, "exited")),
    Trigger.VANISH: lambda c: c.tell(ev.WorkloadVanished(_key(c), "supervisor killed")),
    Trigger.ADJUST: lambda c: c.tell(ev.WorkloadUpdated(workload(NAME, 1500))),
    Trigger.SETTLE: lambda c: c.tell(ev.AllocationResized(_key(c), c.record(NAME).planned)),
    Trigger.SUSPEND: _fold(lambda _: ev.WorkloadSuspended(NAME, NAME, DECISION)),
    Trigger.RESUME: _fold(lambda _: ev.WorkloadResumed(NAME, DECISION)),
    Trigger.MIGRATE: _fold(lambda _: ev.WorkloadMigrated(NAME, DECISION)),
    Trigger.REQUEUE: _fold(lambda c: ev.WorkloadFinished(_key(c), None, 15, "stopped")),
    Trigger.REVOKE: _revoke,
}


@pytest.mark.parametrize(
    "edge", TRANSITIONS, ids=lambda edge: f"{edge.source}--{edge.trigger}--{edge.target}"
)
def test_each_edge_leads_where_the_table_says(edge: Transition) -> None:
    cluster = _in_phase(edge.source)
    assert cluster.record(NAME).phase is edge.source
    CAUSES[edge.trigger](cluster)
    assert cluster.record(NAME).phase is edge.target
    cluster.check_books()


def test_the_table_names_one_target_for_each_phase_and_trigger() -> None:
    assert len(NEXT) == len(TRANSITIONS)


def test_every_phase_can_be_reached_and_all_but_the_ended_can_be_left() -> None:
    targets = {edge.target for edge in TRANSITIONS}
    assert targets == set(Phase) - {Phase.SUBMITTED}
    assert {Phase.COMPLETED, Phase.FAILED, Phase.VANISHED, Phase.REVOKED, Phase.REJECTED} == ENDED


def test_every_live_workload_can_be_revoked() -> None:
    assert all((phase, Trigger.REVOKE) in NEXT for phase in set(Phase) - ENDED)


def test_a_replay_that_stops_between_two_decisions_goes_on_from_there() -> None:
    cluster = _in_phase(Phase.SUBMITTED)
    cluster.sync()
    assert cluster.record(NAME).phase is Phase.PLACED


def test_the_answer_to_an_earlier_resize_is_not_taken_for_this_ones() -> None:
    cluster = _in_phase(Phase.ADJUSTING)
    earlier = cluster.record(NAME).placements
    cluster.tell(ev.AllocationResized(_key(cluster), earlier))
    cluster.tell(ev.ResizeFailed(_key(cluster), "late", earlier))
    assert cluster.record(NAME).phase is Phase.ADJUSTING
    cluster.tell(ev.ResizeFailed(_key(cluster), "no memory", cluster.record(NAME).planned))
    assert cluster.record(NAME).phase is Phase.RUNNING
    assert cluster.record(NAME).placements == earlier
    assert cluster.record(NAME).message == "no memory"


def test_a_start_that_keeps_failing_is_given_up() -> None:
    cluster = _in_phase(Phase.PLACED)
    for _ in range(CoreSettings().max_start_failures - 1):
        cluster.tell(ev.StartFailed(_key(cluster), "busy", retryable=True))
        assert cluster.record(NAME).phase is Phase.QUEUED
        cluster.now = cluster.manager.wake_at(cluster.now)
        cluster.tell(ev.TimePassed())
        assert cluster.record(NAME).phase is Phase.PLACED
    cluster.tell(ev.StartFailed(_key(cluster), "busy", retryable=True))
    assert cluster.record(NAME).phase is Phase.FAILED
    assert cluster.record(NAME).message == "busy"


@pytest.mark.parametrize("phase", sorted(ENDED))
def test_nothing_moves_an_ended_workload(phase: Phase) -> None:
    cluster = _in_phase(Phase.SUBMITTED if phase is Phase.REJECTED else Phase.PLACED)
    {
        Phase.COMPLETED: CAUSES[Trigger.SUCCEED],
        Phase.FAILED: CAUSES[Trigger.FAIL],
        Phase.VANISHED: CAUSES[Trigger.VANISH],
        Phase.REVOKED: CAUSES[Trigger.REVOKE],
        Phase.REJECTED: CAUSES[Trigger.REJECT],
    }[phase](cluster)
    before = cluster.record(NAME)
    key = before.key
    for report in (
        ev.StartAccepted(key),
        ev.WorkloadStarted(key, "pid 2"),
        ev.WorkloadFinished(key, 1, None, "exited"),
        ev.WorkloadVanished(key, "again"),
        ev.StartFailed(key, "late", retryable=True),
    ):
        assert cluster.tell(report).events == ()
        assert cluster.record(NAME).phase is phase
