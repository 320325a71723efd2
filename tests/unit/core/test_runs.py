"""Runs that follow runs: again, restarted, scheduled, limited, waiting for others, in arrays."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, server, workload
from tests.support.histories import columns, recommended_only
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Mode
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.workload import (
    After,
    ArrayMember,
    MissedRun,
    Probe,
    Restart,
    RestartPolicy,
    Schedule,
    Workload,
    WorkloadType,
)

ON_FAILURE = Restart(RestartPolicy.ON_FAILURE, limit=2, backoff_seconds=4.0)
MEASURED = Measurements({Quantity.RATE: {500: Entry(50.0)}})


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    return cluster


def _submit(cluster: Cluster, *workloads: Workload) -> None:
    for each in workloads:
        cluster.tell(ev.WorkloadSubmitted(each))


def _ends(cluster: Cluster, name: str, code: int = 0, **told) -> None:
    cluster.tell(ev.WorkloadFinished(cluster.key(name), code, None, "exited", **told))


def _wakes(cluster: Cluster) -> float:
    """Let it be as late as the core asks to be woken."""
    due = cluster.manager.wake_at(cluster.now)
    assert due is not None
    cluster.now = max(cluster.now, due)
    cluster.tell(ev.TimePassed())
    return due


def _with(name: str, millicpus: int = 500, **run) -> Workload:
    plain = workload(name, millicpus)
    return replace(plain, run=replace(plain.run, **run))


def _replays(cluster: Cluster) -> None:
    """The log alone gives the same state, from any snapshot."""
    end = encode_state(cluster.manager.state)
    for point in range(0, len(cluster.log), 3):
        replayed = cluster.replayed(point)
        assert encode_state(replayed.state) == end
        assert columns(replayed) == columns(cluster.manager)


def test_an_ended_workload_that_is_submitted_runs_again_as_a_new_run(cluster: Cluster) -> None:
    _submit(cluster, workload("w"))
    running(cluster, "w")
    first = cluster.key("w")
    cluster.now = 5.0
    _ends(cluster, "w", 3, cpu_seconds=1.5, memory_peak_bytes=7, last_output="no disk")
    assert cluster.record("w").message == "exit status 3: no disk"
    cluster.now = 9.0
    _submit(cluster, workload("w", 700))
    record = cluster.record("w")
    assert (record.run, record.phase, record.submitted_at) == (2, Phase.PLACED, 9.0)
    assert record.placements[0].allocation.cpu_millicpus == 700
    (before,) = record.previous
    assert (before.phase, before.exit_code, before.key, before.cpu_seconds) == (
        *(Phase.FAILED, 3),
        *(first, 1.5),
    )
    assert before.memory_peak_bytes == 7
    _replays(cluster)


def test_the_output_of_one_run_before_is_kept_and_forgotten_with_the_record(
    cluster: Cluster,
) -> None:
    keys = []
    for _ in range(3):
        _submit(cluster, workload("w"))
        running(cluster, "w")
        keys.append(cluster.key("w"))
        _ends(cluster, "w")
    forgotten = [a.key for a in cluster.asked if isinstance(a, act.ForgetWorkload)]
    assert forgotten == keys[:1]
    cluster.manager = cluster.replayed(0)
    cluster.start()
    step = cluster.tell(ev.EngineSynced(tuple(keys[1:]), ("s",)))
    again = [a.key for a in step.actions if isinstance(a, act.ForgetWorkload)]
    assert set(again) <= set(keys[:1])
    step = cluster.tell(ev.WorkloadForgotten("w"))
    assert {a.key for a in step.actions if isinstance(a, act.ForgetWorkload)} == set(keys[1:])
    assert [run.run for run in cluster.manager.state.history] == [1, 2, 3]


def test_one_that_is_being_stopped_runs_again_after_its_end(cluster: Cluster) -> None:
    _submit(cluster, workload("w"))
    running(cluster, "w")
    cluster.tell(ev.WorkloadRevoked("w"))
    _submit(cluster, workload("w", 600))
    assert cluster.record("w").revoking
    _ends(cluster, "w")
    record = cluster.record("w")
    assert (record.run, record.phase) == (2, Phase.PLACED)
    assert record.previous[0].phase is Phase.REVOKED
    _replays(cluster)


def test_one_delete_stops_and_forgets(cluster: Cluster) -> None:
    _submit(cluster, workload("w"), workload("waits", 2000))
    running(cluster, "w")
    cluster.tell(ev.WorkloadRevoked("w", forget=True))
    assert "w" in cluster.manager.state.workloads
    _ends(cluster, "w")
    assert list(cluster.manager.state.workloads) == ["waits"]
    assert cluster.record("waits").phase is Phase.PLACED
    _replays(cluster)


def test_measurements_of_the_same_program_are_used_by_its_next_run(cluster: Cluster) -> None:
    _submit(cluster, workload("w", profile=True))
    cluster.tell(ev.ProfilingFinished(cluster.key("w"), MEASURED))
    cluster.tell(ev.ClassificationFailed(cluster.key("w"), "no estimator"))
    running(cluster, "w")
    _ends(cluster, "w")
    _submit(cluster, workload("w", profile=True))
    assert cluster.record("w").phase is Phase.CLASSIFYING
    asked = cluster.asked[-1]
    assert isinstance(asked, act.ClassifyWorkload)
    assert asked.measurements.performance[Quantity.RATE][500].value == 50.0
    cluster.tell(ev.ClassificationFailed(cluster.key("w"), "no estimator"))
    running(cluster, "w")
    _ends(cluster, "w")
    other = workload("w", profile=True)
    _submit(cluster, replace(other, run=replace(other.run, command=("other",))))
    assert cluster.record("w").phase is Phase.PROFILING
    _replays(cluster)


# --- restarts ----------------------------------------------------------------------------------


def test_a_crashed_program_is_started_again_after_a_backoff_that_doubles(cluster: Cluster) -> None:
    _submit(cluster, _with("w", restart=ON_FAILURE))
    for restart, backoff in ((1, 4.0), (2, 8.0)):
        running(cluster, "w")
        _ends(cluster, "w", 1, last_output="address in use")
        record = cluster.record("w")
        assert (record.phase, record.reason) == (Phase.QUEUED, "restarting")
        assert (record.restarts, record.restarts_in_row) == (restart, restart)
        assert record.message == (
            f"exit status 1: address in use; restart {restart} of 2 after {backoff:.0f}s"
        )
        assert cluster.manager.wake_at(cluster.now) == cluster.now + backoff
        _wakes(cluster)
        assert cluster.record("w").phase is Phase.PLACED
    running(cluster, "w")
    _ends(cluster, "w", 1, last_output="address in use")
    record = cluster.record("w")
    assert record.phase is Phase.FAILED
    assert record.message == "exit status 1: address in use, after 2 restarts in a row"
    _replays(cluster)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        (RestartPolicy.NEVER, 1, Phase.FAILED),
        (RestartPolicy.ON_FAILURE, 0, Phase.COMPLETED),
        (RestartPolicy.ON_FAILURE, 1, Phase.QUEUED),
        (RestartPolicy.ALWAYS, 0, Phase.QUEUED),
    ],
)
def test_it_is_restarted_after_the_ends_that_its_user_has_stated(
    cluster: Cluster, policy: RestartPolicy, code: int, phase: Phase
) -> None:
    _submit(cluster, _with("w", restart=Restart(policy)))
    running(cluster, "w")
    _ends(cluster, "w", code)
    assert cluster.record("w").phase is phase


def test_what_vanished_is_restarted_and_what_its_user_stops_is_not(cluster: Cluster) -> None:
    _submit(cluster, _with("w", restart=ON_FAILURE))
    running(cluster, "w")
    cluster.tell(ev.WorkloadVanished(cluster.key("w"), "supervisor killed"))
    assert cluster.record("w").phase is Phase.QUEUED
    _wakes(cluster)
    running(cluster, "w")
    cluster.tell(ev.WorkloadRevoked("w"))
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
    assert cluster.record("w").phase is Phase.REVOKED


def test_a_service_that_ran_well_for_long_begins_to_count_again(cluster: Cluster) -> None:
    service = replace(_with("w", restart=ON_FAILURE), type=WorkloadType.LATENCY_CRITICAL)
    _submit(cluster, service)
    for _ in range(5):
        running(cluster, "w")
        cluster.now += 600.0
        _ends(cluster, "w", 1)
        assert cluster.record("w").restarts_in_row == 1
        _wakes(cluster)
    assert cluster.record("w").restarts == 5


def test_a_user_restarts_what_runs_at_once_and_what_waits_to_be_restarted(cluster: Cluster) -> None:
    _submit(cluster, _with("w", restart=ON_FAILURE))
    running(cluster, "w")
    step = cluster.tell(ev.RestartRequested("w"))
    assert [type(action) for action in step.actions] == [act.StopWorkload]
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
    assert cluster.record("w").phase is Phase.PLACED
    assert (cluster.record("w").restarts, cluster.record("w").restarts_in_row) == (1, 0)
    running(cluster, "w")
    _ends(cluster, "w", 1)
    assert cluster.record("w").phase is Phase.QUEUED
    cluster.tell(ev.RestartRequested("w"))
    assert cluster.record("w").phase is Phase.PLACED
    _replays(cluster)


def test_it_is_stopped_at_its_time_limit_also_by_a_successor(cluster: Cluster) -> None:
    _submit(cluster, _with("w", time_limit_seconds=30.0))
    cluster.now = 10.0
    running(cluster, "w")
    cluster.manager = cluster.replayed(0)
    cluster.start()
    cluster.sync()
    cluster.now = 39.0
    assert cluster.manager.wake_at(cluster.now) == 40.0
    _wakes(cluster)
    assert isinstance(cluster.asked[-1], act.StopWorkload)
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), 0, None, "exited"))
    record = cluster.record("w")
    assert (record.phase, record.reason) == (Phase.FAILED, "time-limit")
    assert record.message == "stopped at its time limit of 30s"
    _replays(cluster)


def test_a_program_that_profiling_could_not_start_has_failed(cluster: Cluster) -> None:
    _submit(cluster, workload("w", profile=True))
    cluster.tell(ev.ProfilingFailed(cluster.key("w"), "no such program", fatal=True))
    record = cluster.record("w")
    assert (record.phase, record.message) == (Phase.FAILED, "no such program")


# --- schedules and expiry ------------------------------------------------------------------------


def test_a_scheduled_workload_runs_at_each_of_its_times(cluster: Cluster) -> None:
    nightly = replace(workload("w"), schedule=Schedule("0 2 * * *"))
    _submit(cluster, nightly)
    record = cluster.record("w")
    assert (record.phase, record.reason) == (Phase.SUBMITTED, "scheduled")
    for day in range(3):
        assert _wakes(cluster) == day * 86400 + 7200.0
        running(cluster, "w")
        assert cluster.record("w").submitted_at == cluster.now
        cluster.now += 60.0
        _ends(cluster, "w", day % 2)
        assert cluster.record("w").run == day + 2
        assert cluster.record("w").phase is Phase.SUBMITTED
    assert [run.phase for run in cluster.record("w").previous] == [
        *(Phase.COMPLETED, Phase.FAILED),
        Phase.COMPLETED,
    ]
    _replays(cluster)


@pytest.mark.parametrize("missed", MissedRun)
def test_a_missed_time_is_made_up_for_once_or_skipped(cluster: Cluster, missed: MissedRun) -> None:
    hourly = replace(workload("w"), schedule=Schedule("0 * * * *", missed=missed))
    _submit(cluster, hourly)
    cluster.now = 4 * 3600.0 + 120
    cluster.tell(ev.TimePassed())
    if missed is MissedRun.RUN:
        assert cluster.record("w").phase is Phase.PLACED
    else:
        assert cluster.record("w").due_at == 5 * 3600.0
        assert cluster.record("w").phase is Phase.SUBMITTED


def test_a_stopped_schedule_has_no_more_runs_and_one_that_never_comes_is_refused(
    cluster: Cluster,
) -> None:
    _submit(cluster, replace(workload("w"), schedule=Schedule("0 * * * *")))
    cluster.tell(ev.WorkloadRevoked("w"))
    assert cluster.record("w").phase is Phase.REVOKED
    assert cluster.manager.wake_at(cluster.now) is None
    _submit(cluster, replace(workload("never"), schedule=Schedule("0 0 30 2 *")))
    assert cluster.record("never").phase is Phase.REJECTED


def test_another_schedule_holds_from_its_update_on(cluster: Cluster) -> None:
    _submit(cluster, replace(workload("w"), schedule=Schedule("0 2 * * *")))
    cluster.tell(ev.WorkloadUpdated(replace(workload("w"), schedule=Schedule("0 1 * * *"))))
    assert cluster.record("w").due_at == 3600.0


def test_the_record_of_an_ended_workload_expires(cluster: Cluster) -> None:
    _submit(cluster, replace(workload("w"), ttl_after_finished_seconds=50.0), workload("stays"))
    for name in ("w", "stays"):
        running(cluster, name)
        _ends(cluster, name)
    assert _wakes(cluster) == 50.0
    assert list(cluster.manager.state.workloads) == ["stays"]


# --- dependencies and arrays ---------------------------------------------------------------------


def test_it_waits_for_others_to_complete(cluster: Cluster) -> None:
    _submit(cluster, workload("a"), workload("b"))
    _submit(cluster, replace(workload("last"), after=After(completed=("a", "b"))))
    assert cluster.record("last").deferral is ReasonCode.DEPENDENCY
    for name in ("a", "b"):
        assert cluster.record("last").phase is Phase.SUBMITTED
        running(cluster, name)
        cluster.now += 10.0
        _ends(cluster, name)
        # A successor knows that it waits, too.
        cluster.manager = cluster.replayed(len(cluster.log) // 2)
        cluster.start()
        cluster.sync()
    assert cluster.record("last").phase is Phase.PLACED
    assert cluster.record("last").submitted_at == 20.0, "from here its target counts"
    _replays(cluster)


def test_one_that_does_not_complete_rejects_what_waits_for_that(cluster: Cluster) -> None:
    _submit(cluster, workload("a"))
    _submit(cluster, replace(workload("then"), after=After(completed=("a",))))
    _submit(cluster, replace(workload("anyhow"), after=After(ended=("a",))))
    running(cluster, "a")
    _ends(cluster, "a", 1)
    assert cluster.record("then").phase is Phase.REJECTED
    assert cluster.record("then").reason == ReasonCode.DEPENDENCY_FAILED
    assert cluster.record("anyhow").phase is Phase.PLACED


def test_a_client_waits_until_its_service_is_ready() -> None:
    cluster = Cluster(able=replace(Cluster().able, probes=True))
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    _submit(cluster, _with("db", ready=Probe(port=5432)))
    _submit(cluster, replace(workload("client"), after=After(ready=("db",))))
    running(cluster, "db")
    assert cluster.record("db").ready_at is None
    assert cluster.record("client").phase is Phase.SUBMITTED
    cluster.now = 3.0
    cluster.tell(ev.ReadinessChanged(cluster.key("db"), ready=True))
    assert cluster.record("db").ready_at == 3.0
    assert cluster.record("client").phase is Phase.PLACED
    cluster.tell(ev.ReadinessChanged(cluster.key("db"), ready=False, reason="port 5432: refused"))
    assert (cluster.record("db").ready_at, cluster.record("db").reason) == (None, "not-ready")
    _replays(cluster)


def _members(count: int, at_once: int | None, **options) -> list[Workload]:
    return [
        replace(workload(f"m-{index}", 200, **options), array=ArrayMember("m", index, at_once))
        for index in range(1, count + 1)
    ]


def test_so_many_of_an_array_run_at_once_and_what_waits_for_it_waits_for_all(
    cluster: Cluster,
) -> None:
    _submit(cluster, *_members(5, 2), replace(workload("sum"), after=After(completed=("m",))))
    for _ in range(5):
        placed = [r for r in cluster.manager.members("m") if r.phase is Phase.PLACED]
        assert len(placed) <= 2
        assert cluster.record("sum").phase is Phase.SUBMITTED
        running(cluster, placed[0].name)
        _ends(cluster, placed[0].name)
    assert cluster.record("sum").phase is Phase.PLACED
    _replays(cluster)


def test_one_of_an_array_is_profiled_for_all(cluster: Cluster) -> None:
    _submit(cluster, *_members(3, None, profile=True), workload("other", profile=True))
    phases = [cluster.record(f"m-{index}").phase for index in (1, 2, 3)]
    assert phases == [Phase.PROFILING, Phase.ADMITTED, Phase.ADMITTED]
    assert cluster.record("other").phase is Phase.PROFILING, "it does not wait for an array"
    cluster.tell(ev.ProfilingFinished(cluster.key("m-1"), MEASURED))
    for index in (2, 3):
        record = cluster.record(f"m-{index}")
        assert record.phase is Phase.CLASSIFYING
        assert record.measurements == cluster.record("m-1").measurements
    _replays(cluster)


# --- what users and operators ask for ------------------------------------------------------------


def test_what_its_user_suspends_goes_on_when_its_user_says_so(cluster: Cluster) -> None:
    _submit(cluster, workload("w"), workload("waits", 2000))
    running(cluster, "w")
    for name in ("w", "waits"):
        cluster.tell(ev.SuspendRequested(name))
    record = cluster.record("w")
    assert (record.phase, record.reason) == (Phase.SUSPENDED, ReasonCode.PAUSED)
    assert isinstance(cluster.asked[-1], act.SuspendWorkload)
    cluster.now += 10_000.0
    cluster.tell(ev.TimePassed())
    assert record.phase is Phase.SUSPENDED
    _ends(cluster, "w")
    assert cluster.record("waits").phase is Phase.QUEUED
    cluster.tell(ev.ResumeRequested("waits"))
    assert cluster.record("waits").phase is Phase.PLACED
    cluster.tell(ev.SuspendRequested("waits"))
    running(cluster, "waits")
    assert cluster.record("waits").phase is Phase.SUSPENDED, "as soon as it runs"
    step = cluster.tell(ev.ResumeRequested("waits"))
    assert isinstance(step.actions[0], act.ResumeWorkload)
    _replays(cluster)


def test_what_its_user_suspends_while_it_waits_blocks_nobody(cluster: Cluster) -> None:
    _submit(cluster, workload("runs", 1000))
    running(cluster, "runs")
    _submit(cluster, workload("large", 2000), workload("small", 500))
    assert cluster.record("small").phase is Phase.QUEUED
    cluster.tell(ev.SuspendRequested("large"))
    assert cluster.record("small").phase is Phase.PLACED
    _replays(cluster)


def test_one_of_a_full_array_blocks_nobody(cluster: Cluster) -> None:
    _submit(cluster, replace(workload("long", 1000), expected_seconds=1000.0))
    running(cluster, "long")
    first, second = (
        replace(workload(f"x-{i}", cpu), array=ArrayMember("x", i, 1), expected_seconds=1.0)
        for i, cpu in enumerate((2000, 100))
    )
    _submit(cluster, first, workload("small", 500))
    assert cluster.record("small").phase is Phase.QUEUED
    _submit(cluster, second)
    assert cluster.record(second.name).phase is Phase.PLACED, "ahead of the first"
    assert cluster.record("small").phase is Phase.PLACED
    _replays(cluster)


def test_nothing_new_goes_to_a_cordoned_server_whatever_its_engine_reports(
    cluster: Cluster,
) -> None:
    cluster.tell(ev.ServerCordoned("s", reason="new disk"))
    cluster.tell(ev.ServerReported(server("s", 4)))
    _submit(cluster, workload("w"))
    assert cluster.record("w").deferral is ReasonCode.NO_SERVERS
    cluster.manager = cluster.replayed(0)
    cluster.start()
    cluster.sync()
    assert not cluster.manager.state.servers["s"].accepting
    cluster.tell(ev.ServerUncordoned("s"))
    assert cluster.record("w").phase is Phase.PLACED
    _replays(cluster)


def test_a_drained_server_loses_what_may_be_restarted_when_there_is_room(cluster: Cluster) -> None:
    _submit(cluster, _with("moves", 1000, restartable=True), workload("stays"))
    for name in ("moves", "stays"):
        running(cluster, name)
    cluster.tell(ev.ServerCordoned("s", drain=True))
    assert cluster.record("moves").phase is Phase.RUNNING, "there is nowhere to go"
    cluster.tell(ev.ServerReported(server("t", 1)))
    assert cluster.record("moves").phase is Phase.MIGRATING
    cluster.tell(ev.WorkloadFinished(cluster.key("moves"), None, 15, "killed"))
    assert [p.server for p in cluster.record("moves").placements] == ["t"]
    assert cluster.record("stays").phase is Phase.RUNNING
    _replays(cluster)


def test_a_drained_server_loses_what_its_user_has_suspended_though_there_is_no_room(
    cluster: Cluster,
) -> None:
    _submit(cluster, _with("early", 500, restartable=True), _with("late", 500, restartable=True))
    _submit(cluster, workload("stays", 500))
    for name in ("early", "late", "stays"):
        running(cluster, name)
    cluster.tell(ev.SuspendRequested("early"))
    cluster.tell(ev.ServerCordoned("s", drain=True))
    cluster.tell(ev.SuspendRequested("late"))
    cluster.tell(ev.SuspendRequested("stays"))
    for name in ("early", "late"):
        assert cluster.record(name).phase is Phase.MIGRATING
        cluster.tell(ev.WorkloadFinished(cluster.key(name), None, 15, "killed"))
        assert cluster.record(name).phase is Phase.QUEUED
    assert cluster.record("stays").phase is Phase.SUSPENDED
    cluster.tell(ev.ServerReported(server("t", 1)))
    assert cluster.record("early").phase is Phase.QUEUED, "its user has not resumed it"
    cluster.tell(ev.ResumeRequested("early"))
    assert [p.server for p in cluster.record("early").placements] == ["t"]
    _replays(cluster)


def _migrating(cluster: Cluster) -> str:
    """One that is being stopped to go from server s, which is drained, to t; its name."""
    _submit(cluster, _with("moves", 1000, restartable=True))
    running(cluster, "moves")
    cluster.tell(ev.ServerCordoned("s", drain=True))
    cluster.tell(ev.ServerReported(server("t", 1)))
    assert cluster.record("moves").phase is Phase.MIGRATING
    return "moves"


def _next_manager(cluster: Cluster, mode: Mode = Mode.ACT) -> None:
    cluster.mode = mode
    cluster.manager = cluster.replayed(len(cluster.log) // 2)
    cluster.start()


def _is_stopped(cluster: Cluster, name: str) -> None:
    cluster.tell(ev.WorkloadFinished(cluster.key(name), None, 15, "killed"))


def test_what_its_user_suspends_while_it_is_migrated_waits_for_its_user(cluster: Cluster) -> None:
    name = _migrating(cluster)
    cluster.tell(ev.SuspendRequested(name))
    _is_stopped(cluster, name)
    assert cluster.record(name).phase is Phase.QUEUED
    assert cluster.record(name).deferral is ReasonCode.PAUSED
    cluster.tell(ev.ResumeRequested(name))
    assert [p.server for p in cluster.record(name).placements] == ["t"]
    _replays(cluster)


@pytest.mark.parametrize("mode", [Mode.RECOMMEND, Mode.RECOMMEND_COLD])
def test_a_migration_is_finished_by_a_next_manager_that_only_recommends(
    cluster: Cluster, mode: Mode
) -> None:
    name = _migrating(cluster)
    _next_manager(cluster, mode)
    cluster.sync()
    _is_stopped(cluster, name)
    assert [p.server for p in cluster.record(name).placements] == ["t"]
    recommended_only(cluster)
    _replays(cluster)


def test_a_migration_that_fell_through_is_not_finished_later(cluster: Cluster) -> None:
    name = _migrating(cluster)
    _next_manager(cluster, Mode.RECOMMEND)
    cluster.sync()
    cluster.tell(ev.ServerLeft("t", "unplugged"))
    _is_stopped(cluster, name)
    decided = [timed.decision for timed in cluster.record(name).decisions]
    assert any(d.reason is ReasonCode.CONFLICT and d.message.startswith("t ") for d in decided)
    _next_manager(cluster, Mode.RECOMMEND)
    cluster.tell(ev.ServerReported(server("t", 1)))
    cluster.sync()
    record = cluster.record(name)
    assert (record.phase, record.deferral) == (Phase.QUEUED, ReasonCode.RECOMMENDED)
    recommended_only(cluster)
    _replays(cluster)


@pytest.mark.parametrize("leaves", [False, True])
def test_what_was_stopped_to_be_migrated_is_not_ready(cluster: Cluster, leaves: bool) -> None:
    name = _migrating(cluster)
    if leaves:
        cluster.tell(ev.ServerLeft("t", "unplugged"))
    _is_stopped(cluster, name)
    assert cluster.record(name).phase is (Phase.QUEUED if leaves else Phase.PLACED)
    assert cluster.record(name).ready_at is None
    _submit(cluster, replace(workload("client", 100), after=After(ready=(name,))))
    assert cluster.record("client").phase is Phase.SUBMITTED
    _replays(cluster)


def test_the_next_manager_starts_after_a_migrated_workload_was_deleted(cluster: Cluster) -> None:
    cluster.tell(ev.ServerReported(server("t", 1)))
    _submit(cluster, _with("moves", 1000, restartable=True))
    running(cluster, "moves")
    cluster.tell(ev.ServerCordoned(cluster.record("moves").placements[0].server, drain=True))
    cluster.tell(ev.WorkloadFinished(cluster.key("moves"), None, 15, "killed"))
    running(cluster, "moves")
    cluster.tell(ev.WorkloadRevoked("moves", forget=True))
    cluster.tell(ev.WorkloadFinished(cluster.key("moves"), None, 15, "killed"))
    assert "moves" not in cluster.manager.state.workloads
    cluster.manager = cluster.replayed(0)
    _submit(cluster, workload("next"))
    assert cluster.record("next").phase is Phase.PLACED


def test_a_time_limit_counts_from_the_new_start_not_the_one_before(cluster: Cluster) -> None:
    again = Restart(RestartPolicy.ON_FAILURE, limit=None, backoff_seconds=50.0)
    _submit(cluster, _with("w", restart=again, time_limit_seconds=30.0))
    running(cluster, "w")
    cluster.now = 10.0
    _ends(cluster, "w", 3)
    assert _wakes(cluster) == 60.0
    assert cluster.record("w").phase is Phase.PLACED
    assert cluster.manager.wake_at(cluster.now) is None
    running(cluster, "w")
    assert _wakes(cluster) == 90.0
    assert cluster.record("w").stop_reason == "time-limit"
    _replays(cluster)


def test_an_array_keeps_to_its_limit_also_ahead_of_a_blocked_head(cluster: Cluster) -> None:
    large = replace(workload("large", 2000), priority=5)
    _submit(cluster, replace(workload("long", 1500), expected_seconds=1000.0), large)
    running(cluster, "long")
    assert cluster.record("large").phase is Phase.QUEUED
    members = [
        replace(workload(f"x-{i}", 100, 64), array=ArrayMember("x", i, 1), expected_seconds=1.0)
        for i in range(3)
    ]
    _submit(cluster, *members)
    assert sum(cluster.record(each.name).on_server for each in members) == 1


def test_a_scheduled_time_comes_once_though_the_clock_is_set_back(cluster: Cluster) -> None:
    _submit(cluster, replace(workload("w", 500), schedule=Schedule("* * * * *")))
    assert _wakes(cluster) == 60.0
    running(cluster, "w")
    cluster.now = 59.0
    _ends(cluster, "w")
    assert cluster.record("w").due_at == 120.0
    _replays(cluster)


@pytest.mark.parametrize("code", [0, 1])
def test_members_that_are_forgotten_at_once_count_for_what_waits_for_their_array(
    cluster: Cluster, code: int
) -> None:
    members = [
        replace(workload(f"x-{i}", 500), array=ArrayMember("x", i), ttl_after_finished_seconds=0.0)
        for i in range(2)
    ]
    _submit(cluster, *members, replace(workload("w", 500), after=After(completed=("x",))))
    running(cluster, "x-0", "x-1")
    _ends(cluster, "x-0", code)
    _ends(cluster, "x-1")
    assert set(cluster.manager.state.workloads) == {"w"}
    assert cluster.record("w").phase is (Phase.REJECTED if code else Phase.PLACED)
    assert cluster.manager.knows("x")


def test_members_of_an_array_are_in_their_order_after_a_change(cluster: Cluster) -> None:
    members = [replace(workload(f"x-{n}"), array=ArrayMember("x", n)) for n in range(3)]
    cluster.tell(*(ev.WorkloadSubmitted(member) for member in members))
    cluster.tell(ev.WorkloadUpdated(replace(members[0], priority=5)))
    assert [each.name for each in cluster.manager.members("x")] == ["x-0", "x-1", "x-2"]


def test_a_run_that_is_due_later_begins_then_whatever_changes_meanwhile(cluster: Cluster) -> None:
    nightly = replace(workload("w"), schedule=Schedule("0 2 * * *"))
    _submit(cluster, nightly)
    due = cluster.record("w").due_at
    assert due is not None and cluster.manager.wake_at(cluster.now) == due
    cluster.now = 60.0
    cluster.tell(ev.WorkloadUpdated(replace(nightly, priority=5)))
    assert cluster.manager.wake_at(cluster.now) == due
    cluster.now = -86_400.0  # A clock that is set back.
    cluster.tell(ev.TimePassed())
    assert cluster.manager.wake_at(cluster.now) is not None
    cluster.now = due
    cluster.tell(ev.TimePassed())
    assert cluster.record("w").phase is Phase.PLACED
    _replays(cluster)


def test_what_was_starting_leaves_a_drained_server_as_soon_as_it_runs(cluster: Cluster) -> None:
    cluster.tell(ev.ServerReported(server("t")))
    _submit(cluster, _with("w", 1000, restartable=True))
    (placement,) = cluster.record("w").placements
    cluster.tell(ev.ServerCordoned(placement.server, drain=True))
    assert cluster.record("w").phase is not Phase.MIGRATING
    cluster.tell(ev.WorkloadStarted(cluster.key("w"), "pid 1"))
    assert cluster.record("w").phase is Phase.MIGRATING
    _replays(cluster)


def test_what_becomes_restartable_leaves_a_drained_server_at_once(cluster: Cluster) -> None:
    cluster.tell(ev.ServerReported(server("t")))
    _submit(cluster, workload("w"))
    running(cluster, "w")
    (placement,) = cluster.record("w").placements
    cluster.tell(ev.ServerCordoned(placement.server, drain=True))
    stated = cluster.record("w").workload
    cluster.tell(ev.WorkloadUpdated(replace(stated, run=replace(stated.run, restartable=True))))
    assert cluster.record("w").phase is Phase.MIGRATING
    _replays(cluster)


def _refused_where_it_failed(cluster: Cluster) -> None:
    """``w`` failed to start on one server, and the other is full."""
    cluster.tell(ev.ServerReported(server("t")))
    _submit(cluster, workload("large", 2000))
    running(cluster, "large")
    _submit(cluster, workload("w"))
    cluster.tell(ev.StartFailed(cluster.key("w"), "the disk was full", retryable=True))
    cluster.now += 30
    cluster.tell(ev.TimePassed())
    assert cluster.record("w").deferral is ReasonCode.SERVERS_EXCLUDED


def test_who_asks_for_a_restart_is_tried_where_it_failed_to_start(cluster: Cluster) -> None:
    _refused_where_it_failed(cluster)
    cluster.tell(ev.RestartRequested("w"))
    assert cluster.record("w").phase is Phase.PLACED
    _replays(cluster)


def test_a_server_that_failed_to_start_it_is_tried_again_after_a_minute(cluster: Cluster) -> None:
    _refused_where_it_failed(cluster)
    due = cluster.manager.wake_at(cluster.now)
    assert due == 61.0
    cluster.now = due
    cluster.tell(ev.TimePassed())
    assert cluster.record("w").phase is Phase.PLACED
    _replays(cluster)


def test_where_one_profile_tells_nothing_the_others_are_made_side_by_side() -> None:
    cluster = Cluster()
    cluster.tell(*(ev.ServerReported(server(f"s{at}", 8)) for at in range(4)))
    cluster.sync()
    members = [f"a-{at}" for at in range(4)]
    for at, name in enumerate(members):
        stated = replace(workload(name, 500, profile=True), array=ArrayMember("a", at))
        cluster.tell(ev.WorkloadSubmitted(stated))
    profiled = lambda: [n for n in members if cluster.record(n).phase is Phase.PROFILING]  # noqa: E731
    assert profiled() == members[:1]
    silent = Measurements(silent={Quantity.RATE: "no line came"})
    cluster.tell(ev.ProfilingFinished(cluster.key("a-0"), silent))
    cluster.tell(ev.ClassificationFailed(cluster.key("a-0"), "nothing was measured"))
    assert profiled() == members[1:]
    _replays(cluster)


def test_nothing_is_left_of_an_array_whose_members_are_forgotten() -> None:
    cluster = Cluster(keep_ended=1)
    cluster.tell(ev.ServerReported(server("s")))
    cluster.sync()
    for array in ("first", "second"):
        name = f"{array}-0"
        cluster.tell(ev.WorkloadSubmitted(replace(workload(name), array=ArrayMember(array, 0))))
        running(cluster, name)
        cluster.tell(ev.WorkloadVanished(cluster.key(name), "gone"))
    assert set(cluster.manager._cluster.followups._on_servers) == {"second"}
