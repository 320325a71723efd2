"""Jobs of which Slurm tells nothing any more, or something else: what may have begun has begun."""

import errno
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings, runs
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.host.run_dir import RunRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial

pytestmark = pytest.mark.slow  # Real programs take real time.

SETTINGS = SlurmSettings(poll_seconds=0.2, lost_seconds=0.5)
TARGET = "wharfinger: {target: {completionTime: 20m}}"


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.before = lambda name: None
    fake.close()


def _trial(slurm: FakeSlurm, directory: Path, settings: SlurmSettings):  # type: ignore[no-untyped-def]
    notes = MemoryNotes()
    make_engine = lambda _state: SlurmEngine(slurm, notes, settings)  # noqa: E731
    return EngineHarness(directory, make_engine, ShellPrograms(directory)).trial()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    directory = tmp_path / "shared"
    directory.mkdir()
    return directory


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path, shared: Path) -> Iterator[EngineTrial]:
    with _trial(slurm, tmp_path, replace(SETTINGS, shared_dir=shared)) as trial:
        yield trial


@pytest.fixture
def unshared(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    with _trial(slurm, tmp_path, SETTINGS) as trial:
        yield trial


@pytest.fixture(params=["supervised", "plain"])
def either(
    request: pytest.FixtureRequest, slurm: FakeSlurm, tmp_path: Path, shared: Path
) -> Iterator[EngineTrial]:
    directory = shared if request.param == "supervised" else None
    with _trial(slurm, tmp_path, replace(SETTINGS, shared_dir=directory)) as trial:
        yield trial


def _only_job(slurm: FakeSlurm, key: str) -> int:
    (job,) = slurm.own()[key]
    return job.job_id


def _job(slurm: FakeSlurm, number: int) -> SlurmJob:
    return next(job for job in slurm.jobs_now() if job.job_id == number)


def _accept_held_back(trial: EngineTrial, slurm: FakeSlurm, run: object = None) -> int:
    slurm.held_back = True
    trial.start("k", run)  # type: ignore[arg-type]
    trial.wait_for(ev.StartAccepted, "k")
    number = _only_job(slurm, "k")

    def is_released() -> bool:
        # Where it may not wait for long, it may already be taken back.
        return not _job(slurm, number).held or bool({"hold", "cancel"} & set(slurm.calls))

    trial.wait_until(is_released, "its release")
    return number


# --- numbers that are given out again -------------------------------------------------------------


@pytest.mark.parametrize("copied", [False, True])
def test_a_job_that_has_got_our_number_is_not_ended(
    either: EngineTrial, slurm: FakeSlurm, copied: bool
) -> None:
    number = _accept_held_back(either, slurm)
    comment = _job(slurm, number).comment if copied else "somebody's"
    slurm.forget(number)
    assert slurm.foreign(comment) == number
    either.perform(act.StopWorkload("k", 0.0))
    either.wait_for_end("k")
    either.take_in(0.5)
    job = _job(slurm, number)
    assert (job.state, job.held) == ("PENDING", True)
    assert not {"cancel", "signal", "hold"} & set(slurm.calls)


def test_a_job_that_has_got_our_number_is_not_released(
    either: EngineTrial, slurm: FakeSlurm
) -> None:
    foreign: list[int] = []

    def restart_controller(name: str) -> None:
        if name in {"jobs", "release"} and not foreign and "k" in slurm.own():
            slurm.forget(_only_job(slurm, "k"))
            foreign.append(slurm.foreign("somebody's"))

    slurm.before = restart_controller
    either.start("k")
    failed = either.expect_refused("k", retryable=True)
    assert "lost its job" in failed.reason
    assert _job(slurm, foreign[0]).held


def test_a_users_job_that_has_got_the_number_of_one_let_go_is_not_touched(
    unshared: EngineTrial, slurm: FakeSlurm
) -> None:
    slurm.held_back = True
    number = slurm.hand_in("#!/bin/sh\nexit 0\n", TARGET)
    offer = unshared.wait_for(ev.WorkloadOffered)
    placement = Placement("n1", Allocation(1000, 64 << 20))
    unshared.perform(act.StartWorkload("k", offer.workload, (placement,), offer.handle))
    unshared.wait_until(lambda: not _job(slurm, number).held, "its release")
    slurm.forget(number)
    assert slurm.hand_in("#!/bin/sh\nexit 0\n", TARGET, user="eve") == number
    unshared.perform(act.StopWorkload("k", 0.0))
    unshared.wait_for(ev.WorkloadVanished, "k")
    assert (_job(slurm, number).state, _job(slurm, number).held) == ("PENDING", True)


def test_an_end_in_accounting_on_another_node_is_anothers(
    unshared: EngineTrial, slurm: FakeSlurm
) -> None:
    number = _accept_held_back(unshared, slurm)
    unshared.engine.close()
    slurm.forget(number)
    assert slurm.foreign("", server="n2") == number
    slurm.end(number, "COMPLETED")
    slurm.forget(number, accounted=True)
    unshared.open()
    unshared.wait_for(ev.WorkloadVanished, "k")


# --- jobs that Slurm has forgotten ----------------------------------------------------------------


def test_what_ran_and_was_forgotten_while_nobody_watched_has_its_end(
    unshared: EngineTrial, slurm: FakeSlurm
) -> None:
    number = _accept_held_back(unshared, slurm, unshared.programs.exiting("k", 3))
    unshared.engine.close()
    slurm.let_begin(number)
    _wait(lambda: _job(slurm, number).state == "FAILED")
    slurm.forget(number, accounted=True)
    unshared.open()
    unshared.expect_status("k", 3)
    unshared.expect_started_once("k")


def test_without_accounting_it_has_vanished_and_is_not_started_again(
    unshared: EngineTrial, slurm: FakeSlurm
) -> None:
    number = _accept_held_back(unshared, slurm, unshared.programs.exiting("k", 3))
    slurm.let_begin(number)
    slurm.forget(number)
    unshared.wait_for(ev.WorkloadVanished, "k")
    unshared.expect_one_end("k")


def test_one_that_accounting_says_was_cancelled_before_it_began_is_no_run(
    unshared: EngineTrial, slurm: FakeSlurm
) -> None:
    number = _accept_held_back(unshared, slurm)
    unshared.engine.close()
    slurm.end(number, "CANCELLED")
    slurm.forget(number, accounted=True)
    unshared.open()
    assert "cancelled at Slurm" in unshared.expect_refused("k", retryable=False).reason


def test_that_it_has_begun_is_noted(unshared: EngineTrial, slurm: FakeSlurm) -> None:
    unshared.run_lasting("k")
    notes = unshared.engine._notes  # type: ignore[attr-defined]
    unshared.wait_until(lambda: notes.get("k").reports, "the note")
    unshared.forget_reports()
    unshared.engine.close()
    slurm.forget(_only_job(slurm, "k"))
    unshared.open()
    unshared.wait_for(ev.WorkloadStarted, "k")
    unshared.wait_for(ev.WorkloadVanished, "k")


def test_a_time_limit_that_is_seen_late_is_still_one(trial: EngineTrial, slurm: FakeSlurm) -> None:
    trial.run_lasting("k")
    number = _only_job(slurm, "k")
    trial.engine.close()
    slurm.signal([number], "TERM")  # As Slurm does at its limit.
    _wait(lambda: _job(slurm, number).state != "RUNNING")
    slurm.end(number, "TIMEOUT")
    slurm.forget(number, accounted=True)
    trial.open()
    end = trial.wait_for(ev.WorkloadFinished, "k")
    assert (end.signal, end.reason) == (15, "time-limit")


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_job_of_another_user_with_our_comment_is_not_taken_for_ours(
    trial: EngineTrial, slurm: FakeSlurm
) -> None:
    trial.run_lasting("other")
    foreign = slurm.foreign(slurm.own()["other"][0].comment.replace(" other", " k"))
    slurm.lose_answers = 1
    trial.start("k", trial.programs.exiting("k", 3))
    trial.expect_status("k", 3)
    trial.expect_started_once("k")
    assert (_job(slurm, foreign).state, _job(slurm, foreign).held) == ("PENDING", True)


# --- records that are gone ------------------------------------------------------------------------


def test_a_run_whose_directory_is_gone_is_not_taken_for_one_that_never_began(
    trial: EngineTrial, slurm: FakeSlurm, shared: Path
) -> None:
    number = _accept_held_back(trial, slurm)
    trial.engine.close()
    slurm.let_begin(number)
    _wait(lambda: trial.programs.starts("k") == 1)
    (runs,) = shared.glob("runs-*")
    _wait((runs / "k" / "started").exists)
    shutil.rmtree(runs / "k")
    trial.open()
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.perform(act.StopWorkload("k", 0.0))
    trial.wait_until(lambda: _job(slurm, number).state != "RUNNING", "its end")
    assert not isinstance(trial.wait_for_end("k"), ev.StartFailed)
    trial.expect_started_once("k")


def test_one_that_waits_without_its_directory_is_withdrawn(
    slurm: FakeSlurm, tmp_path: Path, shared: Path
) -> None:
    settings = replace(SETTINGS, shared_dir=shared, pending_seconds=0.5)
    with _trial(slurm, tmp_path, settings) as trial:
        number = _accept_held_back(trial, slurm)
        (runs,) = shared.glob("runs-*")
        shutil.rmtree(runs / "k")
        assert "no room" in trial.expect_refused("k", retryable=True).reason
        assert _job(slurm, number).state == "CANCELLED"


def test_other_records_than_those_of_what_runs_are_refused(
    trial: EngineTrial, slurm: FakeSlurm, shared: Path, tmp_path: Path
) -> None:
    trial.run_lasting("k")
    own, make_engine = trial.engine, trial.make_engine
    own.close()
    other = tmp_path / "other"
    other.mkdir()
    notes = own._notes._notes  # type: ignore[attr-defined]
    for directory, told in ((other, f"name {shared}"), (None, f"name {shared}")):
        with pytest.raises(InvalidInput, match=told):
            SlurmEngine(slurm, notes, replace(SETTINGS, shared_dir=directory)).open()
    (runs,) = shared.glob("runs-*")
    runs.rename(other / runs.name)
    with pytest.raises(InvalidInput, match=f"{runs.name} is not there"):
        SlurmEngine(slurm, notes, replace(SETTINGS, shared_dir=shared)).open()
    (other / runs.name).rename(runs)
    trial.reopen(make_engine)
    trial.wait_for(ev.WorkloadStarted, "k")


def test_what_others_may_have_written_is_not_run(
    slurm: FakeSlurm, tmp_path: Path, shared: Path
) -> None:
    notes = MemoryNotes()
    notes.put({"identity": "0123456789ab"})
    runs = shared / "runs-0123456789ab"
    engine = SlurmEngine(slurm, notes, replace(SETTINGS, shared_dir=shared))
    runs.mkdir()
    runs.chmod(0o777)
    with pytest.raises(InvalidInput, match="others may write there"):
        engine.open()
    runs.rmdir()
    runs.symlink_to(tmp_path)
    with pytest.raises(InvalidInput, match="is no directory"):
        engine.open()
    runs.unlink()
    engine.open()
    engine.close()
    assert runs.stat().st_mode & 0o777 == 0o700
    (supervisor,) = runs.iterdir()
    program = supervisor.read_bytes()
    supervisor.write_bytes(b"#!/bin/sh\nid\n")
    engine.open()
    engine.close()
    assert supervisor.read_bytes() == program
    assert [path.name for path in shared.iterdir()] == [runs.name]


def test_a_directory_that_cannot_be_read_now_holds_back_no_other(
    trial: EngineTrial, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.run_lasting("k")
    read_run = runs.read_run

    def read(run_dir: Path) -> RunRecord:
        if run_dir.name == "k":
            raise OSError(errno.ESTALE, "Stale file handle")
        return read_run(run_dir)

    monkeypatch.setattr(runs, "read_run", read)
    slurm.end(_only_job(slurm, "k"), "COMPLETED")
    trial.start("other", trial.programs.exiting("other", 3))
    trial.expect_status("other", 3)


@pytest.mark.long
def test_usage_that_is_not_told_is_asked_for_less_often(
    slurm: FakeSlurm, tmp_path: Path, shared: Path
) -> None:
    asked: list[float] = []

    def refuse(job_ids: Sequence[int]) -> dict[int, tuple[float, int]]:
        asked.append(trial.engine._jobs._used_at)  # type: ignore[attr-defined]
        raise EngineFault("sstat: no answer", retryable=True)

    slurm.usage = refuse  # type: ignore[method-assign]
    settings = replace(SETTINGS, shared_dir=shared, poll_seconds=0.05)
    with _trial(slurm, tmp_path, settings) as trial:
        trial.run_lasting("k")
        trial.wait_until(lambda: len(asked) >= 4, "questions")
        gaps = [after - before for before, after in pairwise(asked)]
        assert gaps[1] >= 2 * 0.15
        assert gaps[2] >= 4 * 0.15


# --- before it begins -----------------------------------------------------------------------------


def test_one_cancelled_while_it_waits_has_failed_and_slurm_is_not_asked_all_the_time(
    unshared: EngineTrial, slurm: FakeSlurm
) -> None:
    number = _accept_held_back(unshared, slurm)
    calls, began = len(slurm.calls), time.monotonic()
    slurm.end(number, "CANCELLED")
    assert "cancelled at Slurm" in unshared.expect_refused("k", retryable=False).reason
    assert len(slurm.calls) - calls < 30 * (time.monotonic() - began + 1)
    unshared.expect_one_end("k")


@pytest.mark.parametrize("stopped", [False, True])
def test_one_that_begins_while_it_is_withdrawn_has_begun(
    slurm: FakeSlurm, tmp_path: Path, stopped: bool
) -> None:
    with _trial(slurm, tmp_path, replace(SETTINGS, pending_seconds=0.5)) as trial:

        def begin(name: str) -> None:
            if name in {"hold", "cancel"} and slurm.own()["k"][0].state == "PENDING":
                slurm.let_begin(_only_job(slurm, "k"))
                _wait(lambda: trial.programs.starts("k") == 1)

        slurm.before = begin
        _accept_held_back(trial, slurm)
        if stopped:
            trial.perform(act.StopWorkload("k", 0.0))
            assert isinstance(trial.wait_for_end("k"), ev.WorkloadFinished)
        else:
            trial.wait_for(ev.WorkloadStarted, "k")
            trial.expect_no_end("k")
