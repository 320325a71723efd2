"""Profiling as jobs: side by side, by whom, and when no answer comes."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import FurtherRun, ProfilingPlan
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial

pytestmark = pytest.mark.slow  # Real copies take real time.

COMMENT = "wharfinger: {target: {completionTime: 20m}}"
ELSEWHERE = tuple(FurtherRun(Setting("other", Configuration(cpu)), ("n2",)) for cpu in (1000, 2000))
TOGETHER = FurtherRun(Setting("own", Configuration(1000), servers=2), ("n1", "n2"))


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.close()


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    shared = tmp_path / "shared"
    shared.mkdir()
    settings = SlurmSettings(
        poll_seconds=0.2, lost_seconds=0.5, pending_seconds=1.0, shared_dir=shared
    )
    with _harness(slurm, tmp_path, settings).trial() as trial:
        yield trial
    assert not list(shared.glob("profiles-*"))


def _harness(slurm: FakeSlurm, tmp_path: Path, settings: SlurmSettings) -> EngineHarness:
    notes = MemoryNotes()
    return EngineHarness(
        tmp_path,
        lambda _state: SlurmEngine(slurm, notes, settings),
        ShellPrograms(tmp_path),
        deadline_seconds=90.0,
    )


def _profilers(slurm: FakeSlurm) -> list[SlurmJob]:
    return [job for job in slurm.jobs_now() if job.comment.startswith("wharfinger-profile ")]


def _asked(
    trial: EngineTrial, seconds: float = 60.0, further: tuple[FurtherRun, ...] = ()
) -> act.ProfileWorkload:
    short = trial.programs.exiting("k", 0)
    program = short if seconds < 60 else trial.programs.lasting("k")
    plan = ProfilingPlan("n1", (1000,), 64 << 20, (), seconds, further=further)
    return act.ProfileWorkload("k", trial.action("k", program).workload, plan)


def _running(trial: EngineTrial, slurm: FakeSlurm, directory: Path) -> SlurmJob:
    """The profiler's job, once it has something on its node."""
    trial.wait_until(lambda: any(directory.glob("shared/profiles-*/k.*/place")), "it has begun")
    (job,) = _profilers(slurm)
    return job


def test_runs_elsewhere_are_a_job_for_each_server_and_are_merged(
    trial: EngineTrial, slurm: FakeSlurm
):
    trial.perform(_asked(trial, 20.0, (*ELSEWHERE, TOGETHER)))
    measured = trial.wait_for(ev.ProfilingFinished, "k").measurements
    assert set(measured.performance[Quantity.RATE]) == {1000}
    settings = [run.setting for run in measured.further[Quantity.RATE]]
    assert settings == [run.setting for run in ELSEWHERE]
    assert "further/2 servers" in measured.silent
    jobs = {job.required_nodes: job.cpus for job in _profilers(slurm)}
    assert jobs == {("n1",): 1, ("n2",): 2}


def test_a_lost_node_is_told_and_what_was_left_on_a_node_is_cleared_away(
    trial: EngineTrial, slurm: FakeSlurm, tmp_path: Path
):
    trial.perform(_asked(trial))
    job = _running(trial, slurm, tmp_path)
    (note,) = tmp_path.glob("shared/profiles-*/k.*/place")
    place = Path(note.read_text())
    trial.wait_until(place.exists, "its place on the node")
    slurm.end(job.job_id, "NODE_FAIL")
    failed = trial.wait_for(ev.ProfilingFailed, "k")
    assert "on n1 left no answer: Slurm says NODE_FAIL" in failed.reason
    assert not place.exists()


def test_a_job_that_does_not_begin_is_taken_back(trial: EngineTrial, slurm: FakeSlurm):
    slurm.held_back = True
    trial.perform(_asked(trial))
    failed = trial.wait_for(ev.ProfilingFailed, "k")
    assert "for n1 (Resources)" in failed.reason
    assert [job.state for job in _profilers(slurm)] == ["CANCELLED"]


def test_a_submission_whose_answer_was_lost_is_made_once(trial: EngineTrial, slurm: FakeSlurm):
    slurm.lose_answers = 1
    trial.perform(_asked(trial, 20.0))
    trial.wait_for(ev.ProfilingFinished, "k")
    assert len(_profilers(slurm)) == 1


@pytest.mark.long
def test_what_an_earlier_engine_began_is_ended(
    trial: EngineTrial, slurm: FakeSlurm, tmp_path: Path
):
    trial.perform(_asked(trial))
    job = _running(trial, slurm, tmp_path)
    trial.reopen()
    trial.wait_until(lambda: not any(tmp_path.glob("shared/profiles-*")), "it is cleared away")
    (left,) = _profilers(slurm)
    assert left.job_id == job.job_id
    assert left.state in {"CANCELLED", "FAILED"}


@pytest.mark.long
def test_an_engine_that_is_closed_leaves_no_copy_running(
    trial: EngineTrial, slurm: FakeSlurm, tmp_path: Path
):
    trial.perform(_asked(trial))
    job = _running(trial, slurm, tmp_path)
    trial.engine.close()
    deadline = time.monotonic() + 90
    while next(j for j in slurm.jobs_now() if j.job_id == job.job_id).state == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not any(tmp_path.glob("shared/profiles-*/k.*/place"))
    trial.engine.open()
    trial.wait_until(lambda: not any(tmp_path.glob("shared/profiles-*")), "it is cleared away")


@pytest.mark.parametrize("owner", ["root", "bob"])
def test_a_users_script_is_run_only_with_its_users_rights(
    trial: EngineTrial, slurm: FakeSlurm, owner: str
):
    slurm.hand_in("#!/bin/sh\nexit 0\n", COMMENT, user=owner)
    offered = trial.wait_for(ev.WorkloadOffered).workload
    asked = _asked(trial, 20.0)
    trial.perform(replace(asked, workload=offered))
    if owner == "root":
        assert trial.wait_for(ev.ProfilingFinished, "k").measurements.runs
    else:  # There is none of that name here, and root does not do it instead.
        failed = trial.wait_for(ev.ProfilingFailed, "k")
        assert "user bob is not known" in failed.reason
        assert not failed.fatal
        assert not _profilers(slurm)


def test_without_a_shared_directory_nothing_is_profiled(slurm: FakeSlurm, tmp_path: Path):
    with _harness(slurm, tmp_path, SlurmSettings(poll_seconds=0.2)).trial() as trial:
        assert not trial.engine.capabilities.profiles
        trial.perform(_asked(trial))
        assert "--shared-dir" in trial.wait_for(ev.ProfilingFailed, "k").reason
