"""The jobs that profile: whose they are, and what other users can make of their directories."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.engines.slurm import SlurmSettings
from wharfinger.engines.slurm.profiler_jobs import ProfilerJobs
from wharfinger.engines.slurm.script import profiler_comment

IDENTITY = "0123456789ab"
OWN = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.close()


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    directory = tmp_path / "shared" / f"profiles-{IDENTITY}"
    directory.mkdir(mode=0o711, parents=True)
    return directory


@pytest.fixture
def jobs(slurm: FakeSlurm, tmp_path: Path, profiles: Path) -> ProfilerJobs:
    settings = SlurmSettings(shared_dir=profiles.parent)
    return ProfilerJobs(slurm, settings, IDENTITY, "token", lambda nodes: "main")


def _sweep(jobs: ProfilerJobs) -> bool:
    (is_over,) = jobs.sweep_operation.run([None])
    return is_over


@pytest.mark.parametrize("up", ["", "../../"])
def test_a_comment_that_names_a_path_removes_nothing(
    jobs: ProfilerJobs, slurm: FakeSlurm, tmp_path: Path, up: str
):
    victim = tmp_path / "victim"
    victim.mkdir()
    name = f"{up}victim" if up else str(victim)
    number = slurm.hand_in("", profiler_comment(IDENTITY, name), user=OWN)
    slurm.end(number, "CANCELLED")
    assert _sweep(jobs)
    assert victim.is_dir()


def test_a_job_of_another_user_is_not_ours_by_its_comment(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path
):
    comment = profiler_comment(IDENTITY, "k.before.0")
    foreign = slurm.hand_in("", comment, user="mallory")
    own = slurm.hand_in("", comment, user=OWN)
    (profiles / "k.before.0").mkdir()
    assert not _sweep(jobs)
    states = {job.job_id: job.state for job in slurm.jobs_now()}
    assert states == {foreign: "PENDING", own: "CANCELLED"}
    assert _sweep(jobs)
    assert not profiles.exists()


def test_a_job_is_ours_that_its_directorys_user_runs(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path
):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    directory = profiles / "k.before.0"
    directory.mkdir()
    os.chown(directory, pwd.getpwnam("nobody").pw_uid, -1)
    slurm.hand_in("", profiler_comment(IDENTITY, "k.before.0"), user="nobody")
    assert not _sweep(jobs)
    assert [job.state for job in slurm.jobs_now()] == ["CANCELLED"]
