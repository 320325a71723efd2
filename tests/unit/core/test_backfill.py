"""EASY backfilling: what is placed and profiled ahead of a blocked head, and what is not."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, ProfileTheLabelled, running, server, workload
from wharfinger.core import events as ev
from wharfinger.core.backfill import may_fit
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.estimation import Profiling
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.profile import Classification
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Restart, RestartPolicy, Scale, Workload, WorkloadType


def _lasting(name: str, millicpus: int, seconds: float | None, memory_mib: int = 256) -> Workload:
    return replace(workload(name, millicpus, memory_mib), expected_seconds=seconds)


def _submit(cluster: Cluster, *workloads: Workload) -> None:
    for each in workloads:
        cluster.tell(ev.WorkloadSubmitted(each))


def _cluster(*servers: str, policy: str = "least-loaded", **settings) -> Cluster:
    cluster = Cluster(policy, **settings)
    cluster.tell(*(ev.ServerReported(server(name)) for name in servers))
    cluster.sync()
    return cluster


def _blocked(cluster: Cluster, first: Workload, head: Workload) -> None:
    """The first fills most of a server, and the head needs it whole."""
    _submit(cluster, first)
    running(cluster, first.name)
    _submit(cluster, head)
    assert cluster.record(head.name).phase is Phase.QUEUED


def test_what_ends_before_the_head_can_start_is_placed_ahead_of_it() -> None:
    cluster = _cluster("s")
    _blocked(cluster, _lasting("first", 1500, 100), _lasting("head", 2000, None))
    head = cluster.record("head").decisions[-1].decision
    assert head.reason is ReasonCode.NO_ROOM
    assert head.message.endswith("; expected to start on s in 100 s")
    assert head.numbers["expected_start_seconds"] == 100
    _submit(cluster, _lasting("long", 500, 101), _lasting("short", 500, 100))
    assert cluster.record("short").phase is Phase.PLACED
    message = cluster.record("short").decisions[-1].decision.message
    assert message.endswith("; ahead of head: does not delay it")
    long = cluster.record("long").decisions[-1].decision
    assert long.reason is ReasonCode.BEHIND_OTHERS
    assert long.message.startswith("it would delay head, which waits for room before it")
    cluster.check_books()


def test_a_time_limit_says_when_something_ends() -> None:
    cluster = _cluster("s")
    first, late = workload("first", 1500), workload("late", 500)
    limited = replace(first, run=replace(first.run, time_limit_seconds=60))
    _blocked(cluster, limited, workload("head", 2000))
    _submit(cluster, replace(late, run=replace(late.run, time_limit_seconds=60)))
    assert cluster.record("late").phase is Phase.PLACED


def test_what_leaves_the_head_its_room_is_placed_ahead_of_it_however_long_it_runs() -> None:
    cluster = _cluster("s")
    _blocked(cluster, _lasting("first", 1500, 100), _lasting("head", 1600, None))
    _submit(cluster, _lasting("small", 400, None), _lasting("another", 100, None))
    assert cluster.record("small").phase is Phase.PLACED
    assert cluster.record("another").phase is Phase.QUEUED, "nothing is left beside the head"


def test_other_servers_are_open_to_those_behind_the_head() -> None:
    cluster = _cluster("s", "t")
    _submit(cluster, _lasting("a", 1000, 50), _lasting("b", 1000, None))
    running(cluster, "a", "b")
    _submit(cluster, workload("head", 2000))
    assert "expected to start on s in 50 s" in cluster.record("head").message
    _submit(cluster, workload("small", 600))
    assert cluster.record("small").placements[0].server == "t"


def test_where_no_end_is_known_the_server_that_lacks_least_is_kept() -> None:
    cluster = _cluster("s", "t")
    _submit(cluster, workload("a", 1000), workload("b", 1200))
    running(cluster, "a", "b")
    _submit(cluster, workload("head", 2000), workload("small", 500), workload("late", 500))
    assert cluster.record("small").placements[0].server == "t"
    assert cluster.record("late").phase is Phase.QUEUED
    assert "s is kept free for it" in cluster.record("late").message


def test_services_on_an_only_server_keep_nothing_from_those_behind() -> None:
    cluster = _cluster("s")
    service = replace(workload("first", 1500), type=WorkloadType.LATENCY_CRITICAL)
    _blocked(cluster, service, workload("head", 2000))
    _submit(cluster, workload("small", 500))
    assert cluster.record("small").phase is Phase.PLACED


def test_what_is_always_restarted_has_no_end() -> None:
    cluster = _cluster("s")
    first = _lasting("first", 1500, 10)
    again = replace(first.run, restart=Restart(RestartPolicy.ALWAYS))
    _blocked(cluster, replace(first, run=again), workload("head", 2000))
    _submit(cluster, _lasting("short", 500, 1))
    assert cluster.record("short").phase is Phase.QUEUED


@pytest.mark.parametrize(("backfill", "placed"), [(0, []), (1, []), (2, ["small"])])
def test_so_many_behind_the_head_are_tried(backfill: int, placed: list[str]) -> None:
    cluster = _cluster("s", "t", backfill=backfill)
    _submit(cluster, workload("a", 1000), workload("b", 1000))
    _submit(cluster, workload("head", 2000), workload("large", 1500), workload("small", 500))
    assert [n for n in ("large", "small") if cluster.record(n).phase is Phase.PLACED] == placed


def test_the_head_starts_as_soon_as_it_fits() -> None:
    cluster = _cluster("s")
    _blocked(cluster, _lasting("first", 1500, 100), workload("head", 2000))
    _submit(cluster, _lasting("short", 500, 60))
    running(cluster, "short")
    cluster.now = 60.0
    cluster.tell(ev.WorkloadFinished(cluster.key("short"), 0, None, "exited"))
    cluster.now = 100.0
    cluster.tell(ev.WorkloadFinished(cluster.key("first"), 0, None, "exited"))
    assert cluster.record("head").phase is Phase.PLACED


def test_a_copy_is_profiled_where_it_delays_no_head() -> None:
    cluster = _cluster("s", "t")
    _submit(cluster, _lasting("a", 1000, 50), workload("b", 1000))
    running(cluster, "a", "b")
    _submit(cluster, workload("head", 2000))
    _submit(cluster, workload("profiled", 500, profile=True))
    assert cluster.record("profiled").phase is Phase.PROFILING
    message = cluster.record("profiled").decisions[-1].decision.message
    assert message.endswith("; ahead of head: does not delay it")


def test_a_copy_that_would_delay_the_head_waits() -> None:
    cluster = _cluster("s")
    _blocked(cluster, _lasting("first", 1000, 5), workload("head", 2000))
    _submit(cluster, workload("profiled", 500, profile=True))
    assert cluster.record("profiled").deferral is ReasonCode.BEHIND_OTHERS


def test_a_preview_says_that_it_would_be_placed_ahead() -> None:
    cluster = _cluster("s")
    _blocked(cluster, _lasting("first", 1500, 100), workload("head", 2000))
    last = cluster.manager.preview(_lasting("short", 500, 60), cluster.now)[-1]
    assert last.accepted
    assert last.message.endswith("ahead of head: does not delay it")


def test_a_preview_knows_who_waits_for_room_to_be_profiled_before_the_engine_is_there() -> None:
    cluster = Cluster()
    _submit(cluster, workload("first", profile=True))
    cluster.tell(ev.ServerReported(server("s", accepting=False)))
    asked = workload("next", profile=True)
    previewed = cluster.manager.preview(asked, cluster.now)
    _submit(cluster, asked)
    record = cluster.record("next")
    assert record.phase is Phase.PROFILING
    assert [timed.decision for timed in record.decisions] == previewed


def test_a_head_starts_by_what_is_known_of_the_others_now() -> None:
    cluster = _cluster("s")
    first = _lasting("first", 1500, 100)
    _blocked(cluster, first, _lasting("head", 2000, None))

    def starts_in() -> float | None:
        head = cluster.manager.try_placing(cluster.now, cluster.record("head"))
        cluster.check_books()
        return head.numbers.get("expected_start_seconds")

    assert starts_in() == 100
    cluster.now = 30.0
    assert starts_in() == 70
    cluster.tell(ev.WorkloadUpdated(replace(first, expected_seconds=50)))
    assert starts_in() == 20
    cluster.tell(ev.SuspendRequested("first"))
    assert starts_in() is None
    cluster.tell(ev.ResumeRequested("first"))
    assert starts_in() == 20
    cluster.now = 54.0  # late, and it may end at any moment
    assert starts_in() == 0
    cluster.now = 56.0  # by more than a tenth of its time: nobody knows
    assert starts_in() is None


# --- a head that needs several servers -----------------------------------------------------------


def _on_two(name: str, millicpus: int, seconds: float | None = None) -> Workload:
    return replace(_lasting(name, millicpus, seconds), scale=Scale(2))


def _several(*servers: str) -> Cluster:
    able = Capabilities(max_servers_per_workload=8)
    return _cluster(*servers, policy="backfill", able=able)


def test_a_head_on_two_servers_starts_when_both_have_room() -> None:
    cluster = _several("s", "t", "u")
    _submit(cluster, _lasting("a", 1500, 100), _lasting("b", 1500, 50), _lasting("c", 1500, 300))
    running(cluster, "a", "b", "c")
    _submit(cluster, _on_two("head", 2000))
    head = cluster.record("head").decisions[-1].decision
    assert head.reason is ReasonCode.NO_ROOM
    assert head.numbers["expected_start_seconds"] == 100
    assert "expected to start on t and 1 more in 100 s" in head.message


def test_nothing_that_holds_one_of_its_servers_longer_goes_ahead_of_it() -> None:
    cluster = _several("s", "t")
    _submit(cluster, _lasting("a", 1500, 100), _lasting("b", 1500, 50))
    running(cluster, "a", "b")
    _submit(cluster, _on_two("head", 2000))
    _submit(cluster, _on_two("wide", 500, 101), _lasting("long", 500, 101))
    assert cluster.record("wide").deferral is ReasonCode.BEHIND_OTHERS
    assert cluster.record("long").deferral is ReasonCode.BEHIND_OTHERS
    _submit(cluster, _on_two("short", 500, 100))
    assert cluster.record("short").phase is Phase.PLACED
    cluster.check_books()


def test_what_leaves_room_on_both_or_goes_elsewhere_is_placed_ahead() -> None:
    cluster = _several("s", "t", "u")
    _submit(cluster, _lasting("a", 1500, 100), _lasting("b", 1500, 50), _lasting("c", 1500, None))
    running(cluster, "a", "b", "c")
    _submit(cluster, _on_two("head", 1800), _lasting("beside", 200, None))
    assert cluster.record("beside").placements[0].server == "s"
    _submit(cluster, _lasting("elsewhere", 400, None))
    assert cluster.record("elsewhere").placements[0].server == "u"


def test_where_no_end_is_known_as_many_servers_as_it_needs_are_kept() -> None:
    cluster = _several("s", "t", "u")
    _submit(cluster, workload("a", 1000), workload("b", 1200), workload("c", 1400))
    running(cluster, "a", "b", "c")
    _submit(cluster, _on_two("head", 2000), workload("small", 500))
    assert cluster.record("small").placements[0].server == "u"
    _submit(cluster, workload("late", 500))
    assert "s and 1 more are kept free for it" in cluster.record("late").message


@pytest.mark.parametrize("best_effort", [False, True])
def test_no_less_important_head_keeps_room_from_the_copy_of_a_more_important_one(
    best_effort: bool,
) -> None:
    cluster = Cluster()
    cluster.tell(ev.ServerReported(server("s", cpus=4)))
    cluster.sync()
    _submit(cluster, workload("resident", 2000))
    running(cluster, "resident")
    memory_mib = 4096 if best_effort else 256
    _submit(cluster, workload("head", 4000, memory_mib, priority=-5, best_effort=best_effort))
    assert cluster.record("head").phase is Phase.QUEUED
    _submit(cluster, workload("urgent", 500, priority=100, profile=True))
    assert cluster.record("urgent").phase is Phase.PROFILING


def test_one_that_is_given_what_it_states_is_tried_where_all_of_that_is_free() -> None:
    cluster = _cluster("s")
    _submit(cluster, workload("first", 1200), workload("second", 1000))
    record, view = cluster.record("second"), cluster.manager._residents.view()
    assert record.deferral is ReasonCode.NO_ROOM
    record.classification = Classification("hand", "1")
    assert may_fit(record, view, ("s",), sizes=True), "it may need less beside fewer neighbors"
    assert not may_fit(record, view, ("s",), sizes=False)
    record.classification = None
    assert not may_fit(record, view, ("s",), sizes=True), "what is not classified is not sized"


def _end(cluster: Cluster, name: str) -> None:
    cluster.tell(ev.WorkloadFinished(cluster.key(name), 0, None, "exited"))


def test_the_copy_of_a_more_important_one_comes_before_what_is_queued() -> None:
    cluster = _cluster("s")
    _submit(cluster, _lasting("first", 1600, 100))
    running(cluster, "first")
    _submit(cluster, workload("late", 1600), workload("urgent", 1600, priority=10, profile=True))
    assert cluster.record("urgent").deferral is ReasonCode.NO_ROOM
    cluster.now = 100.0
    _end(cluster, "first")
    assert cluster.record("urgent").phase is Phase.PROFILING
    assert cluster.record("late").phase is Phase.QUEUED
    cluster.check_books()


@pytest.mark.parametrize(("priority", "best_effort"), [(10, False), (0, False), (10, True)])
def test_nothing_takes_the_room_that_the_copy_of_a_more_important_one_waits_for(
    priority: int, best_effort: bool
) -> None:
    cluster = _cluster("s")
    _submit(cluster, _lasting("first", 1600, 100))
    running(cluster, "first")
    waiting = workload("waiting", 2000, priority=priority, profile=True)
    _submit(cluster, replace(waiting, type=WorkloadType.BEST_EFFORT) if best_effort else waiting)
    _submit(cluster, _lasting("long", 200, None), _lasting("short", 200, 100))
    passes = best_effort or not priority
    assert cluster.record("long").phase is (Phase.PLACED if passes else Phase.QUEUED)
    assert cluster.record("short").phase is Phase.PLACED
    if not passes:
        message = cluster.record("long").decisions[-1].decision.message
        assert message.startswith("it would delay waiting, which waits for room before it")
        assert message.endswith(": expected to start on s in 100 s")
    cluster.check_books()


class _ProfilesStated(ProfileTheLabelled):
    """Copies get what the workload states."""

    def plan(self, request: Request, view: View) -> Profiling | None:
        planned, cpu = super().plan(request, view), request.workload.reservation.cpu_millicpus
        if planned is None or (view.cpu_capacity - view.cpu_allocated).max() >= cpu:
            return planned
        numbers = {"cpu_needed_millicpus": float(cpu)}
        told = replace(planned.decision, accepted=False, reason=ReasonCode.NO_ROOM, numbers=numbers)
        return Profiling(told)


@pytest.mark.parametrize("priority", [10, 0])
def test_less_cpu_is_profiled_behind_one_that_waits_for_more_rather_than_that_others_are_placed(
    priority: int,
) -> None:
    cluster = Cluster(planner=_ProfilesStated())
    cluster.tell(ev.ServerReported(server("s", cpus=4)), ev.ServerReported(server("t")))
    cluster.sync()
    _submit(cluster, _lasting("first", 3500, 1000), workload("other", 2000))
    running(cluster, "first", "other")
    _submit(cluster, workload("late", 2000))
    names = ("large", "same", "small")
    for name, cpu in zip(names, (4000, 4000, 1000), strict=True):
        _submit(cluster, workload(name, cpu, priority=priority, profile=True))
        assert cluster.record(name).deferral is ReasonCode.NO_ROOM
    _end(cluster, "other")
    phases = {cluster.record(name).phase for name in ("large", "same")}
    assert phases == {Phase.ADMITTED}
    late, small = cluster.record("late").phase, cluster.record("small").phase
    placed = (Phase.QUEUED, Phase.PROFILING) if priority else (Phase.PLACED, Phase.ADMITTED)
    assert (late, small) == placed
    cluster.check_books()
