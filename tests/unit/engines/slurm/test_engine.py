"""The engine when Slurm forgets, does not answer, answers late, or does what nobody asked for."""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fake_slurm import OWN_USER, FakeSlurm, node
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slow import CallOutcome
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings, engine, script
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.errors import EngineFault, InvalidInput, SlurmRefused
from wharfinger.host.accounts import UserAccount
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial

pytestmark = pytest.mark.slow  # Real programs take real time.

SETTINGS = SlurmSettings(poll_seconds=0.2, lost_seconds=0.5)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.close()


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    """An engine with a shared directory."""
    shared = tmp_path / "shared"
    shared.mkdir()
    with _trial(slurm, tmp_path, replace(SETTINGS, shared_dir=shared)) as trial:
        yield trial


@pytest.fixture
def unshared(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    """An engine without one."""
    with _trial(slurm, tmp_path, SETTINGS) as trial:
        yield trial


def _trial(slurm: FakeSlurm, tmp_path: Path, settings: SlurmSettings):  # type: ignore[no-untyped-def]
    notes = MemoryNotes()
    harness = EngineHarness(
        tmp_path,
        lambda _state: SlurmEngine(slurm, notes, settings),
        ShellPrograms(tmp_path),
        deadline_seconds=60.0,
    )
    return harness.trial()


def _only_job(slurm: FakeSlurm, key: str) -> int:
    (job,) = slurm.own()[key]
    return job.job_id


def test_a_submission_whose_answer_was_lost_is_made_once(trial: EngineTrial, slurm: FakeSlurm):
    slurm.lose_answers = 1
    trial.start("k", trial.programs.exiting("k", 3))
    trial.expect_status("k", 3)
    assert len(slurm.own()["k"]) == 1
    trial.expect_started_once("k")


@pytest.mark.parametrize("answers", [0, 1])
def test_an_engine_that_died_over_a_submission_leaves_one_job(
    trial: EngineTrial, slurm: FakeSlurm, answers: int
):
    start = trial.action("k", trial.programs.exiting("k", 3))
    tried: list[str] = []

    def die(name: str) -> None:
        if name == "submit":
            tried.append(name)
            if not answers:
                raise EngineFault("the manager was killed", retryable=True)

    slurm.lose_answers, slurm.before = 100, die
    trial.perform(start)
    trial.wait_until(lambda: tried, "a submission")
    trial.take_in(0.2)
    trial.engine.close()
    slurm.lose_answers, slurm.before = 0, lambda name: None
    trial.open()
    assert trial.wait_for(ev.EngineSynced).known_keys == ()
    trial.perform(start)
    trial.expect_status("k", 3)
    assert len([j for j in slurm.own()["k"] if j.state != "CANCELLED"]) == 1
    trial.expect_started_once("k")


def test_a_job_that_is_lost_before_it_began_never_begins(trial: EngineTrial, slurm: FakeSlurm):
    slurm.held_back = True
    trial.start("k")
    trial.wait_for(ev.StartAccepted, "k")
    script = slurm.script(_only_job(slurm, "k"))
    slurm.forget(_only_job(slurm, "k"))
    failed = trial.expect_refused("k", retryable=True)
    assert "lost" in failed.reason
    # A controller that remembers it all the same starts nothing.
    slurm.held_back = False
    options = {"job-name": "x", "partition": "main", "comment": "", "nodelist": "n1"}
    again = slurm.submit(script, {**options, "cpus-per-task": "1", "mem": "1M"})
    slurm.release([again])
    trial.wait_until(
        lambda: next(j for j in slurm.jobs_now() if j.job_id == again).state == "FAILED", "its end"
    )
    trial.expect_never_started("k")


def test_a_job_that_is_lost_while_it_runs_has_vanished(trial: EngineTrial, slurm: FakeSlurm):
    trial.run_lasting("k")
    slurm.forget(_only_job(slurm, "k"))
    vanished = trial.wait_for(ev.WorkloadVanished, "k")
    assert "does not know its job" in vanished.reason
    trial.expect_one_end("k")


def test_a_job_that_waits_too_long_is_taken_back(slurm: FakeSlurm, tmp_path: Path):
    (tmp_path / "shared").mkdir()
    settings = replace(SETTINGS, shared_dir=tmp_path / "shared", pending_seconds=0.5)
    with _trial(slurm, tmp_path, settings) as trial:
        slurm.held_back = True
        trial.start("k")
        failed = trial.expect_refused("k", retryable=True)
        assert failed.reason.startswith("no room on n1 in ")
        assert "Resources" in failed.reason
        trial.wait_until(lambda: slurm.own()["k"][0].state == "CANCELLED", "its cancellation")
        trial.expect_one_end("k")


@pytest.mark.long
def test_while_slurm_is_away_nothing_is_said_and_then_everything(
    trial: EngineTrial, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    trial.run_lasting("lasts")
    gate = tmp_path / "gate"
    waits = f"until [ -e {gate} ]; do sleep 0.02; done; exit 4"
    trial.start("ends", Run(("/bin/sh", "-c", waits)))
    trial.wait_for(ev.WorkloadStarted, "ends")
    slurm.away = True
    gate.touch()
    trial.perform(trial.action("late", trial.programs.exiting("late", 5)))
    trial.perform(act.StopWorkload("lasts", 1.0))
    for _ in range(20):
        trial.take_in(0.1)
    assert not trial.ends("lasts")
    assert not trial.ends("ends")
    assert not trial.about("late")
    slurm.away = False
    trial.expect_status("ends", 4)
    trial.expect_status("late", 5)
    assert isinstance(trial.wait_for_end("lasts"), ev.WorkloadFinished)
    said = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert len([line for line in said if "does not answer" in line]) == 1
    assert len([line for line in said if "answers again" in line]) == 1


def test_jobs_of_others_are_left_alone_and_our_own_strays_are_cancelled(
    trial: EngineTrial, slurm: FakeSlurm
):
    trial.run_lasting("k")
    ours = slurm.own()["k"][0].comment
    other = ours.replace(ours.split()[1], "f" * 12)
    gone = ours.replace(" k", " gone")
    comments = "", "wharfinger: {}", other, "\x00\n" * 99, "{" * 10**6, ours, gone
    foreign = [slurm.foreign(comment) for comment in comments]
    strays = [slurm.foreign(comment, user=OWN_USER) for comment in (ours, gone)]
    states = lambda ids: [j.state for j in slurm.jobs_now() if j.job_id in ids]  # noqa: E731
    trial.wait_until(lambda: states(strays) == ["CANCELLED"] * 2, "cancellation of strays")
    trial.expect_no_end("k")
    trial.clean_up()
    assert states(foreign) == ["PENDING"] * len(foreign)
    trial.open()


def test_a_stray_that_slurm_does_not_cancel_hides_nothing(
    trial: EngineTrial, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture
):
    trial.run_lasting("k")
    comment = slurm.own()["k"][0].comment

    def refuse(name: str) -> None:
        if name == "cancel":
            raise SlurmRefused("scancel: Access/permission denied")

    stray = slurm.foreign(comment, user=OWN_USER)
    slurm.before = refuse
    slurm.calls.clear()
    slurm.nodes_by_name["n3"] = node("n3")
    seen = lambda: {s.name for r in trial.reports for s in ev.servers_in(r)}  # noqa: E731
    trial.wait_until(lambda: "n3" in seen(), "the new server")

    def said() -> int:
        lines = [record.getMessage() for record in caplog.records]
        return len([line for line in lines if f"jobs [{stray}]" in line and "stay" in line])

    trial.wait_until(said, "that it stays")
    trial.take_in(0.5)
    assert said() == 1
    trial.expect_no_end("k")
    slurm.before = lambda name: None


def test_a_profiler_is_the_first_job_of_its_name(
    trial: EngineTrial, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
):
    trial.run_lasting("k")
    comment = slurm.own()["k"][0].comment.replace("-run", "-profile")
    ours, _ = [slurm.foreign(comment, user=user) for user in (OWN_USER, "bob")]
    seen: list[dict[str, SlurmJob]] = []
    monkeypatch.setattr(trial.engine._profiler, "see", seen.append)  # type: ignore[attr-defined]
    trial.wait_until(lambda: seen and "k" in seen[-1], "the profiler")
    assert seen[-1]["k"].job_id == ours


def test_a_requeued_job_is_evicted_and_never_runs_again(trial: EngineTrial, slurm: FakeSlurm):
    trial.run_lasting("k")
    slurm.requeue_behind(_only_job(slurm, "k"))
    evicted = trial.wait_for(ev.WorkloadEvicted, "k")
    assert evicted.reason.startswith("requeued: ")
    trial.wait_until(lambda: slurm.own()["k"][0].state == "CANCELLED", "its cancellation")
    trial.expect_started_once("k")


def test_a_node_that_drains_accepts_nothing_and_says_why(trial: EngineTrial, slurm: FakeSlurm):
    slurm.nodes_by_name["n1"] = node("n1", states=frozenset({"drain"}), reason="a fan")

    def told() -> bool:
        reported = [s for r in trial.reports for s in ev.servers_in(r) if s.name == "n1"]
        return not reported[-1].accepting and "a fan" in reported[-1].conditions[0].message

    trial.wait_until(told, "the drain")


def test_a_start_is_resized_within_its_job(trial: EngineTrial):
    start = trial.action("k", trial.programs.lasting("k"))
    (placement,) = start.placements
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, "k")
    less = (replace(placement, allocation=Allocation(250, 32 << 20)),)
    trial.perform(act.ResizeAllocation("k", less))
    assert trial.wait_for(ev.AllocationResized, "k").placements == less
    for more in (Allocation(1500, 32 << 20), Allocation(500, 1 << 30)):
        trial.forget_reports()
        trial.perform(act.ResizeAllocation("k", (Placement("n1", more),)))
        assert "Slurm gives a running job no more" in trial.wait_for(ev.ResizeFailed, "k").reason


def test_perform_returns_at_once_however_long_slurm_takes(trial: EngineTrial, slurm: FakeSlurm):
    answers = threading.Event()
    slurm.before = lambda name: answers.wait(60.0) and None
    starts = [trial.action(f"k{i}", trial.programs.exiting(f"k{i}", 0)) for i in range(20)]
    began = time.monotonic()
    trial.perform(*starts)
    assert time.monotonic() - began < 30.0
    answers.set()
    for start in starts:
        trial.expect_status(start.key, 0)
    assert slurm.calls.count("release") < len(starts)


def test_without_a_shared_directory_slurm_tells_of_ends(unshared: EngineTrial, slurm: FakeSlurm):
    trial = unshared
    for status in (0, 3):
        trial.start(f"k{status}", trial.programs.exiting(f"k{status}", status))
    for status in (0, 3):
        trial.expect_status(f"k{status}", status)
    trial.run_lasting("stops")
    trial.reopen()
    trial.wait_for(ev.WorkloadStarted, "stops")
    trial.wait_until(lambda: trial.programs.starts("stops"), "its trace")
    trial.perform(act.StopWorkload("stops", 2.0))
    end = trial.wait_for(ev.WorkloadFinished, "stops")
    assert (end.signal, end.reason) == (15, "stopped")
    trial.expect_started_once("k0", "k3", "stops")
    assert trial.engine.read_log("k3").ended
    assert not trial.engine.capabilities.suspend


def test_without_a_shared_directory_a_stop_of_what_waits_starts_nothing(
    unshared: EngineTrial, slurm: FakeSlurm
):
    slurm.held_back = True
    unshared.start("k")
    unshared.wait_for(ev.StartAccepted, "k")
    unshared.perform(act.StopWorkload("k", 0.0))
    unshared.expect_refused("k", retryable=False)
    assert slurm.own()["k"][0].state == "CANCELLED"
    unshared.expect_never_started("k")


def test_settings_that_do_not_fit_are_refused_and_nothing_stays_open(
    slurm: FakeSlurm, tmp_path: Path
):
    for settings in (
        SlurmSettings(partitions=("nope",)),
        SlurmSettings(platform_features=("nope",)),
        SlurmSettings(shared_dir=tmp_path / "nope"),
    ):
        with pytest.raises(InvalidInput):
            SlurmEngine(slurm, MemoryNotes(), settings).open()
    slurm.version = (20, 11)
    with pytest.raises(InvalidInput, match=r"22\.05 or later"):
        SlurmEngine(slurm, MemoryNotes()).open()


def test_what_can_never_run_is_refused_before(trial: EngineTrial):
    start = trial.action("k", trial.programs.lasting("k"))
    for run, told in (
        (Run(()), "spec.run.command: empty"),
        (Run(("a\0b",)), "NUL"),
        (Run(("a",), working_directory="here"), "begin it with '/'"),
        (Run(("a",), stop_signal="NOPE"), "NOPE"),
    ):
        assert told in trial.engine.check(replace(start.workload, run=run))


def test_without_a_shared_directory_nothing_runs_as_another_user(
    unshared: EngineTrial, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
):
    other = UserAccount("bob", 4242, 4242, (4242,), "/", "/bin/sh")
    monkeypatch.setattr(script, "other_account", lambda name: other if name == "bob" else None)
    start = unshared.action("k", unshared.programs.lasting("k"))
    run = replace(start.workload.run, user="bob")
    unshared.perform(replace(start, workload=replace(start.workload, run=run)))
    refused = unshared.expect_refused("k", retryable=False)
    assert refused.reason.startswith("spec.run.user: 'bob' is not the manager's own user")
    assert not slurm.own()
    assert not unshared.engine.check(replace(start.workload, run=replace(run, user="root")))


def test_more_stops_than_may_wait_are_refused_and_the_engine_goes_on(
    trial: EngineTrial, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
):
    trial.run_lasting("k")
    answers = threading.Event()
    slurm.before = lambda name: answers.wait(60.0) and None
    calls = trial.engine._calls  # type: ignore[attr-defined]
    monkeypatch.setattr(calls._queue, "max_waiting", len(calls._queue) + 2)
    refused = 0
    for _ in range(20):
        try:
            trial.perform(act.StopWorkload("k", 1.0))
        except EngineFault as error:
            assert error.retryable
            refused += 1
    answers.set()
    assert refused
    assert isinstance(trial.wait_for_end("k"), ev.WorkloadFinished)


def test_an_outcome_that_cannot_be_taken_holds_back_no_other(
    trial: EngineTrial, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
):
    engine_ = trial.engine
    take, failed = engine_._take, []  # type: ignore[attr-defined]

    def fail_once(outcome: CallOutcome) -> None:
        if outcome.operation.name == "look" and not failed:
            failed.append(outcome)
            engine_._outcomes.append(outcome)  # type: ignore[attr-defined]
            raise EngineFault("too many wait", retryable=True)
        take(outcome)

    monkeypatch.setattr(engine_, "_take", fail_once)
    with pytest.raises(EngineFault):
        trial.wait_until(lambda: False, "a look")
    trial.start("k", trial.programs.exiting("k", 3))
    trial.expect_status("k", 3)


def test_many_stops_want_one_look(trial: EngineTrial, monkeypatch: pytest.MonkeyPatch):
    trial.run_lasting("k")
    calls = trial.engine._calls  # type: ignore[attr-defined]
    hastened: list[str] = []
    hasten = calls.hasten

    def count(key: str, delay_seconds: float = 0.0) -> None:
        hastened.append(key)
        hasten(key, delay_seconds)

    monkeypatch.setattr(calls, "hasten", count)
    for _ in range(500):
        trial.perform(act.StopWorkload("k", 1.0))
    assert not hastened
    trial.engine.poll(0.0)
    assert len(hastened) <= 2


def test_servers_are_made_anew_only_where_something_changed(
    trial: EngineTrial, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
):
    made: list[int] = []
    nodes = slurm.nodes()
    monkeypatch.setattr(slurm, "nodes", lambda: nodes)
    engine_ = trial.engine
    trial.wait_until(lambda: engine_._told_nodes is nodes, "a look")  # type: ignore[attr-defined]
    servers_of = engine.servers_of
    count = lambda *given: made.append(1) or servers_of(*given)  # noqa: E731
    monkeypatch.setattr(engine, "servers_of", count)
    for _ in range(5):
        trial.take_in(0.3)
    assert not made
    trial.run_lasting("k")
    trial.wait_until(lambda: made, "what it holds")


@pytest.mark.parametrize(
    ("at_most_seconds", "limit_seconds", "most_seconds", "minutes"),
    [
        (900.0, None, None, "30"),
        (20.0, None, None, "10"),
        (900.0, None, 1200.0, "20"),
        (900.0, 60.0, None, "3"),
        (None, None, None, None),
    ],
)
def test_a_time_limit_follows_what_is_predicted(
    trial: EngineTrial,
    slurm: FakeSlurm,
    at_most_seconds: float | None,
    limit_seconds: float | None,
    most_seconds: float | None,
    minutes: str | None,
):
    slurm.max_time_seconds = most_seconds
    trial.reopen()
    start = trial.action("k", trial.programs.exiting("k", 0))
    run = replace(start.workload.run, time_limit_seconds=limit_seconds)
    workload = replace(start.workload, run=run)
    trial.perform(replace(start, workload=workload, at_most_seconds=at_most_seconds))
    trial.expect_status("k", 0)
    assert slurm.options_of(_only_job(slurm, "k")).get("time") == minutes
