"""What the engine takes off its servers, and what the core stops for another's sake."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.contract.plugins.preempting import Preempting
from tests.support.cluster import MIB, Cluster, running, server, workload
from tests.support.courses import filler, made, measure, phase, start, wants
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import encode_event, encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.verdicts import Preempt
from wharfinger.core.state import AdjustmentKind
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.view import Capabilities, Request, Resize, View
from wharfinger.model.workload import Restart, RestartPolicy, Scale, Workload, WorkloadType
from wharfinger.policies.registry import POLICIES, Bundle, Part


def restartable(name: str = "w", *size: int, **others) -> Workload:
    made_ = workload(name, *size, **others)
    return replace(made_, run=replace(made_.run, restartable=True))


def evict(cluster: Cluster, name: str = "w", reason: str = "preempted: by job 7") -> None:
    cluster.tell(ev.WorkloadEvicted(cluster.key(name), reason))
    cluster.check_books()


def check_replay(cluster: Cluster) -> None:
    for point in (0, len(cluster.log) // 2, len(cluster.log) - 1):
        assert encode_state(cluster.replayed(point).state) == encode_state(cluster.manager.state)


# --- evicted --------------------------------------------------------------------------------------


def test_what_may_be_restarted_is_placed_again_at_once_under_a_new_key() -> None:
    cluster = made("least-loaded", 2, 1)
    start(cluster, restartable())
    former, where = cluster.key("w"), cluster.record("w").placements
    cluster.tell(ev.ServerReported(server("a", 2, accepting=False)))
    evict(cluster, reason="node-failure: a is down")
    record = cluster.record("w")
    assert record.phase is Phase.PLACED
    assert record.key != former
    assert [p.server for p in record.placements] == ["b"]
    assert (record.starts, record.evictions, record.restarts) == (1, 1, 0)
    (kept,) = record.adjustments
    assert (kept.kind, kept.reason) == (AdjustmentKind.EVICTED, "node-failure")
    assert (kept.before, kept.after) == (where, record.placements)
    assert cluster.manager.state.evictions == 1
    assert cluster.manager.state.adjustment_counts[AdjustmentKind.EVICTED] == 1
    running(cluster, "w")
    assert cluster.record("w").starts == 2
    check_replay(cluster)


def test_it_keeps_its_place_in_its_queue() -> None:
    cluster = made("least-loaded", 1)
    start(cluster, restartable("first"))
    cluster.tell(ev.WorkloadSubmitted(workload("second")))
    cluster.tell(ev.ServerReported(server("a", 1, accepting=False)))
    evict(cluster, "first")
    cluster.tell(ev.ServerReported(server("a", 1)))
    assert phase(cluster, "first") is Phase.PLACED
    assert phase(cluster, "second") is Phase.QUEUED


def test_who_is_evicted_again_and_again_is_tried_ever_later() -> None:
    cluster = made("least-loaded", 2)
    start(cluster, restartable())
    waits = []
    for _ in range(9):
        evict(cluster)
        if phase(cluster, "w") is Phase.QUEUED:
            due = cluster.manager.wake_at(cluster.now)
            waits.append(due - cluster.now)
            assert "in a row" in cluster.record("w").message
            cluster.now = due
            cluster.tell(ev.TimePassed())
        running(cluster, "w")
        cluster.now += 5.0
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    cluster.now += 600.0
    evict(cluster)
    assert phase(cluster, "w") is Phase.PLACED, "it had run well"
    check_replay(cluster)


def test_even_after_a_thousand_evictions_in_a_row() -> None:
    cluster = made("least-loaded", 2)
    start(cluster, restartable())
    cluster.record("w").evictions_in_row = 1100
    evict(cluster)
    assert cluster.record("w").not_before == cluster.now + 60.0


@pytest.mark.parametrize(
    ("reason", "ended", "word"),
    [
        ("node-failure: a", Phase.VANISHED, "vanished"),
        ("preempted", Phase.FAILED, "evicted"),
        ("something of its own", Phase.FAILED, "evicted"),
    ],
)
def test_what_may_not_be_restarted_ends_by_what_is_known(reason, ended, word) -> None:
    cluster = made("least-loaded", 2)
    start(cluster, workload("w"))
    evict(cluster, reason=reason)
    record = cluster.record("w")
    assert (record.phase, record.reason, record.exit_code) == (ended, word, None)
    assert reason in record.message
    assert "run.restartable" in record.message
    assert not record.adjustments


def test_a_restart_policy_counts_it_as_a_failure() -> None:
    cluster = made("least-loaded", 2)
    stated = workload("w")
    rule = Restart(RestartPolicy.ON_FAILURE, limit=1, backoff_seconds=3.0)
    start(cluster, replace(stated, run=replace(stated.run, restart=rule)))
    evict(cluster)
    assert phase(cluster, "w") is Phase.QUEUED
    assert cluster.record("w").not_before == cluster.now + 3.0
    assert cluster.record("w").restarts_in_row == 1
    cluster.now += 3.0
    cluster.tell(ev.TimePassed())
    running(cluster, "w")
    evict(cluster)
    assert phase(cluster, "w") is Phase.FAILED


def test_it_is_known_by_its_key_once() -> None:
    cluster = made("least-loaded", 2)
    start(cluster, restartable())
    told = ev.WorkloadEvicted(cluster.key("w"), "requeued")
    assert cluster.tell(told).events
    assert not cluster.tell(told).events, "late and twice"
    running(cluster, "w")
    assert not cluster.tell(told).events
    assert phase(cluster, "w") is Phase.RUNNING


def test_what_is_being_stopped_ends_as_its_user_wants_it() -> None:
    cluster = made("least-loaded", 4)
    start(cluster, restartable("revoked"), restartable("again"), restartable("moved"))
    cluster.tell(ev.WorkloadRevoked("revoked"), ev.RestartRequested("again"))
    evict(cluster, "revoked")
    assert phase(cluster, "revoked") is Phase.REVOKED
    evict(cluster, "again")
    record = cluster.record("again")
    assert (record.restarts, record.not_before, record.adjustments) == (1, None, [])
    cluster.tell(ev.ServerReported(server("b", 4)), ev.ServerCordoned("a", drain=True))
    assert phase(cluster, "moved") is Phase.MIGRATING
    evict(cluster, "moved")
    assert [p.server for p in cluster.record("moved").placements] == ["b"]


def test_what_its_user_has_suspended_waits_for_its_user() -> None:
    cluster = made("least-loaded", 2)
    start(cluster, restartable())
    cluster.tell(ev.SuspendRequested("w"))
    assert phase(cluster, "w") is Phase.SUSPENDED
    evict(cluster)
    assert phase(cluster, "w") is Phase.QUEUED
    cluster.tell(ev.ResumeRequested("w"))
    assert phase(cluster, "w") is Phase.PLACED


# --- preempted by a placement -----------------------------------------------------------------


class Stating(Preempting):
    """Says where it is to go, too."""

    name = "stating"

    def place(self, request: Request, view: View):
        verdict = super().place(request, view)
        if not isinstance(verdict, Preempt):
            return verdict
        placement = Placement("a", request.reserved(view.capabilities))
        return replace(verdict, placements=(placement,))


@pytest.fixture
def preempts(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (Preempting, Stating):
        monkeypatch.setitem(POLICIES, each.name, Bundle(Part(each)))


def left(cluster: Cluster, name: str) -> None:
    cluster.tell(ev.WorkloadFinished(cluster.key(name), None, 15, "stopped"))
    cluster.check_books()


@pytest.mark.usefixtures("preempts")
@pytest.mark.parametrize("restarts", [False, True])
def test_freed_room_is_held_for_whom_it_was_freed(restarts: bool) -> None:
    cluster = made("preempting", 4)
    start(cluster, restartable("low1", 2000, priority=-2), restartable("low2", 2000, priority=-2))
    cluster.tell(ev.WorkloadSubmitted(workload("high", 4000, priority=2)))
    assert cluster.record("high").deferral is ReasonCode.PREEMPTING
    left(cluster, "low1")
    if restarts:
        cluster.manager = cluster.replayed()
        cluster.start()
        keys = [cluster.key("low2")]
        cluster.tell(ev.EngineSynced(tuple(keys), ("a",)))
    assert [p.server for p in cluster.record("high").reserved] == ["a"]
    assert cluster.manager.view.cpu_allocated.tolist() == [4000]
    cluster.tell(ev.WorkloadSubmitted(workload("small", 500, priority=9)))
    assert cluster.record("small").deferral is ReasonCode.NO_ROOM
    cluster.tell(ev.WorkloadSubmitted(workload("filler", 500, best_effort=True)))
    left(cluster, "low2")
    assert phase(cluster, "high") is Phase.PLACED
    assert not cluster.record("high").reserved
    assert phase(cluster, "low1") is phase(cluster, "low2") is Phase.QUEUED
    check_replay(cluster)


@pytest.mark.usefixtures("preempts")
def test_what_was_free_where_it_goes_is_held_with_it() -> None:
    cluster = made("stating", 4)
    start(cluster, restartable("low", 2000, priority=-2))
    cluster.tell(ev.WorkloadSubmitted(workload("high", 4000, priority=2)))
    assert cluster.manager.view.cpu_allocated.tolist() == [4000]
    cluster.tell(ev.WorkloadSubmitted(workload("small", 500, priority=5)))
    assert phase(cluster, "small") is Phase.QUEUED
    left(cluster, "low")
    assert phase(cluster, "high") is Phase.PLACED
    check_replay(cluster)


@pytest.mark.usefixtures("preempts")
@pytest.mark.parametrize(
    "gives_up",
    [
        ev.WorkloadRevoked("high"),
        ev.SuspendRequested("high"),
        ev.WorkloadUpdated(workload("high", 3500, priority=2)),
        ev.ServerLeft("a", "gone"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_held_room_is_given_up_with_its_reason(gives_up: ev.ClientRequest) -> None:
    cluster = made("preempting", 4)
    start(cluster, restartable("low1", 2000, priority=-2), restartable("low2", 2000, priority=-2))
    cluster.tell(ev.WorkloadSubmitted(workload("high", 4000, priority=2)))
    left(cluster, "low1")
    assert cluster.record("high").reserved
    cluster.tell(gives_up)
    cluster.check_books()
    assert not cluster.record("high").reserved
    left(cluster, "low2")
    cluster.check_books()
    check_replay(cluster)


@pytest.mark.usefixtures("preempts")
def test_room_that_does_not_do_any_more_is_given_up() -> None:
    cluster = made("preempting", 4)
    start(cluster, restartable("low1", 2000, priority=-2), restartable("low2", 2000, priority=-2))
    cluster.tell(ev.WorkloadSubmitted(workload("high", 4000, priority=2)))
    left(cluster, "low1")
    cluster.tell(ev.ServerReported(server("a", 3)))
    left(cluster, "low2")
    assert not cluster.record("high").reserved
    assert phase(cluster, "high") is Phase.QUEUED
    assert phase(cluster, "low1") is Phase.PLACED
    check_replay(cluster)


class Naming(Preempting):
    """Names all that is there."""

    name = "naming"

    def place(self, request: Request, view: View):
        verdict = super().place(request, view)
        there = view.occupants("a") if view.occupants else ()
        if isinstance(verdict, Preempt) or not there or verdict.decision.accepted:
            return verdict
        return Preempt(tuple(each.name for each in there), verdict.decision)


@pytest.mark.parametrize(
    ("victim", "taker", "is_stopped"),
    [
        (restartable("v", 2000, priority=1), workload("t", 2000, priority=1), False),
        (restartable("v", 2000, priority=0), workload("t", 2000, priority=1), True),
        (workload("v", 2000, priority=0), workload("t", 2000, priority=1), False),
        (restartable("v", 2000, 4096, best_effort=True, priority=9), workload("t"), True),
        (
            restartable("v", 2000, 4096, best_effort=True),
            workload("t", 2000, best_effort=True),
            False,
        ),
        (restartable("v", 2000, 4096), workload("t", best_effort=True, priority=9), False),
    ],
    ids=["equal", "lower", "not-restartable", "best-effort", "both-best-effort", "never-for-it"],
)
def test_only_best_effort_work_and_lower_priorities_are_stopped(
    monkeypatch: pytest.MonkeyPatch, victim: Workload, taker: Workload, is_stopped: bool
) -> None:
    monkeypatch.setitem(POLICIES, "naming", Bundle(Part(Naming)))
    cluster = made("naming", 2)
    start(cluster, victim)
    cluster.tell(ev.WorkloadSubmitted(taker))
    assert (phase(cluster, "v") is Phase.MIGRATING) == is_stopped
    if is_stopped:
        left(cluster, "v")
        assert phase(cluster, "t") is Phase.PLACED


# --- preempted by the ladder ----------------------------------------------------------------------

UNABLE = Capabilities(suspend=False)


def gives_way(name: str) -> Workload:
    made_ = filler(name)
    return replace(made_, run=replace(made_.run, restartable=True))


def test_where_the_engine_cannot_suspend_best_effort_work_is_stopped_for_a_while() -> None:
    cluster = made(able=UNABLE)
    start(cluster, wants("w", 100.0), gives_way("f"))
    asked = measure(cluster, 2, w=80.0)
    assert asked == [act.StopWorkload(cluster.key("f"), 10.0)]
    assert phase(cluster, "f") is Phase.MIGRATING
    why = cluster.record("f").decisions[-1].decision
    assert why.reason is ReasonCode.PREEMPTED_FOR_TARGET
    assert "best-effort f is stopped, as the engine can't suspend it" in why.message
    assert "again after 30s" in why.message
    assert cluster.record("w").adjustments[-1].kind is AdjustmentKind.RELIEVED
    assert cluster.record("f").adjustments[-1].kind is AdjustmentKind.PREEMPTED
    since = cluster.now
    left(cluster, "f")
    assert phase(cluster, "f") is Phase.QUEUED
    measure(cluster, 2, w=100.0)
    assert phase(cluster, "f") is Phase.QUEUED, "its time has not come"
    check_replay(cluster)
    due = cluster.manager.wake_at(cluster.now)
    assert due == since + 30.0
    cluster.now = due
    cluster.tell(ev.TimePassed())
    assert phase(cluster, "f") is Phase.PLACED
    check_replay(cluster)


def test_each_time_for_twice_as_long() -> None:
    cluster = made(able=UNABLE)
    start(cluster, wants("w", 100.0), gives_way("f"))
    waits = []
    for _ in range(3):
        while phase(cluster, "f") is Phase.RUNNING:
            measure(cluster, 1, w=80.0)
        since = cluster.now
        left(cluster, "f")
        measure(cluster, 1, w=100.0)
        due = cluster.record("f").retry_at
        waits.append(due - since)
        cluster.now = due
        cluster.tell(ev.TimePassed())
        running(cluster, "f")
        measure(cluster, 3, w=100.0)
    assert waits == [30.0, 60.0, 120.0]


def test_what_its_user_lets_nobody_stop_is_left_alone() -> None:
    cluster = made(able=UNABLE)
    start(cluster, wants("w", 100.0), filler("f"))
    assert not measure(cluster, 10, w=80.0)


# --- part of a workload lost ----------------------------------------------------------------------

ADDED = Decision(Stage.ADAPTATION, "test", True, ReasonCode.OK, "a server more")
SPREADS = Capabilities(max_servers_per_workload=8, measures=True)


def spread_out(cpus: int = 2, **others) -> Cluster:
    """A service on ``a`` and ``b``, beside a neighbor on ``b``; ``c`` is empty."""
    cluster = Cluster("autoscale", able=SPREADS, **others)
    for name in "abc":
        cluster.tell(ev.ServerReported(server(name, cpus)))
    cluster.sync()
    kind = WorkloadType.LATENCY_CRITICAL
    web = replace(workload("web", 1000, 64), type=kind, scale=Scale(8))
    start(cluster, web, workload("x", 1500, 64))
    after = tuple(Placement(name, Allocation(1000, 64 * MIB)) for name in "ab")
    plan(cluster, after)
    cluster.tell(ev.AllocationResized(cluster.key("web"), after))
    cluster.check_books()
    return cluster


def plan(cluster: Cluster, after: tuple[Placement, ...]) -> None:
    """As a policy would have it."""
    planned = ev.AllocationPlanned("web", after, ADDED)
    cluster.manager.apply(cluster.now, planned)
    cluster.log.append((cluster.now, *encode_event(planned)))


def lose(cluster: Cluster, *servers: str) -> list[act.Action]:
    gone = tuple(Placement(name, Allocation(1000, 64 * MIB)) for name in servers)
    key = cluster.key("web")
    asked = cluster.tell(ev.PlacementsLost(key, gone, "node-failure: down")).actions
    cluster.check_books()
    return list(asked)


def _resizes(actions: Iterable[act.Action]) -> list[act.Action]:
    return [action for action in actions if isinstance(action, act.ResizeAllocation)]


def on(cluster: Cluster) -> list[str]:
    return [placement.server for placement in cluster.record("web").placements]


def test_the_rest_goes_on_and_another_server_takes_the_place_of_the_lost_one() -> None:
    cluster = spread_out()
    assert on(cluster) == ["a", "b"]
    cluster.tell(ev.ServerLeft("b", "it failed"))
    (asked,) = lose(cluster, "b")
    record = cluster.record("web")
    assert on(cluster) == ["a"]
    assert isinstance(asked, act.ResizeAllocation)
    assert [p.server for p in asked.placements] == ["a", "c"]
    assert asked.placements[1].allocation == Allocation(1000, 64 * MIB)
    assert record.decisions[-1].decision.message == (
        "b is gone while it runs on: c takes its place"
    )
    assert [made_.kind for made_ in record.adjustments[-2:]] == [
        AdjustmentKind.LOST,
        AdjustmentKind.RESIZED,
    ]
    assert record.adjustments[-2].reason == "node-failure"
    assert record.performance is None
    assert record.predicted is None
    cluster.tell(ev.AllocationResized(asked.key, asked.placements))
    assert on(cluster) == ["a", "c"]
    assert not cluster.record("web").lost
    assert cluster.record("web").starts == 1
    check_replay(cluster)


def test_without_room_elsewhere_it_waits_for_some_and_says_so() -> None:
    cluster = spread_out()
    start(cluster, workload("full", 2000, 64))
    cluster.tell(ev.ServerLeft("b", "it failed"))
    lose(cluster, "b")
    record = cluster.record("web")
    assert record.phase is Phase.RUNNING
    assert record.deferral is ReasonCode.NO_ROOM
    assert "no other server has 1 CPU" in record.message
    assert [p.server for p in record.lost] == ["b"]
    check_replay(cluster)
    cluster.tell(ev.ServerReported(server("d", 2)))
    assert record.phase is Phase.ADJUSTING
    assert [p.server for p in record.planned] == ["a", "d"]
    check_replay(cluster)


def test_what_is_not_replaced_yet_is_replaced_when_there_is_room() -> None:
    cluster = spread_out()
    after = tuple(Placement(name, Allocation(1000, 64 * MIB)) for name in "abc")
    plan(cluster, after)
    cluster.tell(ev.AllocationResized(cluster.key("web"), after))
    for name in "bc":
        cluster.tell(ev.ServerLeft(name, "it failed"))
    cluster.tell(ev.ServerReported(server("d", 1)))
    lose(cluster, "b", "c")
    record = cluster.record("web")
    assert [p.server for p in record.planned] == ["a", "d"]
    assert [p.server for p in record.lost[record.replacing :]] == ["c"]
    cluster.tell(ev.AllocationResized(record.key, record.planned))
    assert [p.server for p in record.lost] == ["c"]
    cluster.tell(ev.ServerReported(server("e", 1)))
    assert [p.server for p in record.planned] == ["a", "d", "e"]
    check_replay(cluster)


def test_a_replacement_that_fails_is_asked_for_again_ever_later() -> None:
    cluster = spread_out()
    cluster.tell(ev.ServerLeft("b", "it failed"))
    asked = lose(cluster, "b")
    record = cluster.record("web")
    for wait in (1.0, 2.0, 4.0):
        (resize,) = asked
        assert isinstance(resize, act.ResizeAllocation)
        assert [p.server for p in resize.placements] == ["a", "c"]
        failed = ev.ResizeFailed(record.key, "no", resize.placements)
        assert not _resizes(cluster.tell(failed).actions)
        assert record.phase is Phase.RUNNING
        assert [p.server for p in record.lost] == ["b"]
        # Room elsewhere hastens nothing: it is not known why it failed.
        assert not _resizes(
            cluster.tell(ev.ServerReported(server("d", 1, accepting=False))).actions
        )
        check_replay(cluster)
        assert cluster.manager.wake_at(cluster.now) == cluster.now + wait
        cluster.now += wait
        asked = _resizes(cluster.tell(ev.TimePassed()).actions)
    cluster.tell(ev.AllocationResized(record.key, record.planned))
    assert on(cluster) == ["a", "c"]
    assert not record.lost
    assert record.resizes_failed == 0
    assert cluster.manager.wake_at(cluster.now) is None
    check_replay(cluster)


def test_engines_that_cannot_add_a_server_are_not_asked_to() -> None:
    cluster = spread_out()
    cluster.able = replace(SPREADS, resize=Resize.NONE)
    cluster.start()
    cluster.sync()
    assert not lose(cluster, "b")
    assert cluster.record("web").deferral is ReasonCode.NOT_SUPPORTED
    assert on(cluster) == ["a"]
    check_replay(cluster)


@pytest.mark.parametrize("may_restart", [True, False])
def test_who_has_lost_all_of_it_is_evicted(may_restart: bool) -> None:
    cluster = spread_out()
    record = cluster.record("web")
    run = replace(record.workload.run, restartable=may_restart)
    cluster.tell(ev.WorkloadUpdated(replace(record.workload, run=run)))
    lose(cluster, "a", "b")
    assert record.phase is (Phase.PLACED if may_restart else Phase.VANISHED)
    assert record.evictions == 1
    check_replay(cluster)


def test_what_is_lost_while_it_is_resized_is_not_waited_for() -> None:
    cluster = spread_out()
    after = tuple(Placement(name, Allocation(1000, 64 * MIB)) for name in "abc")
    plan(cluster, after)
    lose(cluster, "c")
    record = cluster.record("web")
    assert record.phase is Phase.RUNNING
    assert on(cluster) == ["a", "b"]
    assert not record.lost, "it was not there yet"
    plan(cluster, after)
    lose(cluster, "b")
    assert record.phase is Phase.ADJUSTING
    assert [p.server for p in record.planned] == ["a", "c"]
    cluster.tell(ev.AllocationResized(record.key, record.planned))
    assert [p.server for p in record.planned] == []
    check_replay(cluster)


def test_a_loss_that_is_told_twice_or_of_another_server_is_no_news() -> None:
    cluster = spread_out()
    gone = (Placement("b", Allocation(1000, 64 * MIB)),)
    key = cluster.key("web")
    assert cluster.tell(ev.PlacementsLost(key, gone, "drained")).events
    assert not cluster.tell(ev.PlacementsLost(key, gone, "drained")).events
    assert not cluster.tell(ev.PlacementsLost("other-key", gone, "drained")).events
