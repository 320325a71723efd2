"""The jobs that profile: whose they are, and what other users can make of their directories."""

import os
import pwd
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.engines.slurm.own_comments import profiler_comment
from wharfinger.engines.slurm.profiler_jobs import ProfilerJobs, listed_profilers
from wharfinger.engines.slurm.start_notes import StartNotes
from wharfinger.engines.slurm.user_jobs import UserJobs
from wharfinger.engines.supervised.copying import CopyOrder
from wharfinger.errors import InvalidInput, SlurmRefused
from wharfinger.model.profile import ProfilingPlan

IDENTITY = "0123456789ab"
COMMENT = "wharfinger: {target: {completionTime: 20m}}"
NAME = "k.token.0"
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
    return bool(is_over)


def _order(slurm: FakeSlurm, user: str) -> CopyOrder:
    """Of a user's job."""
    slurm.held_back = True
    slurm.hand_in("#!/bin/sh\nexit 0\n", COMMENT, user=user)
    user_jobs = UserJobs(slurm, StartNotes(MemoryNotes()), ["main"], lambda key: None)
    (offer,) = user_jobs.offered(slurm.jobs_now()).values()
    plan = ProfilingPlan("n1", (1000,), 64 << 20, (), 20.0)
    return CopyOrder("k", offer.workload, plan, 1)


def _killed(slurm: FakeSlurm, profiles: Path, name: str) -> int:
    """The ended job of a profiler that has left something on its node."""
    (profiles / name).mkdir()
    (profiles / name / "place").write_text("/nowhere/left")
    number = slurm.hand_in("", profiler_comment(IDENTITY, name), user=OWN, nodes=("n1",))
    slurm.end(number, "CANCELLED")
    return number


def _submitted(jobs: ProfilerJobs, slurm: FakeSlurm, order: CopyOrder) -> int:
    jobs.begin_operation.run([{NAME: order}])
    return slurm.jobs_now()[-1].job_id


@pytest.fixture
def other() -> pwd.struct_passwd:
    """A user who is not we, and whose rights we can take."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    return pwd.getpwnam("nobody")


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
    nobodys = slurm.hand_in("", profiler_comment(IDENTITY, "j.before.0"), user="")
    own = slurm.hand_in("", comment, user=OWN)
    (profiles / "k.before.0").mkdir()
    assert not _sweep(jobs)
    states = {job.job_id: job.state for job in slurm.jobs_now()}
    assert states == {foreign: "PENDING", nobodys: "PENDING", own: "CANCELLED"}
    looked = listed_profilers(slurm.jobs_now(), IDENTITY, profiles)
    assert [job.job_id for job in looked.values()] == [own]
    assert _sweep(jobs)
    assert not profiles.exists()


def test_a_job_is_ours_that_its_directorys_user_runs(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, other: pwd.struct_passwd
):
    directory = profiles / "k.before.0"
    directory.mkdir()
    os.chown(directory, other.pw_uid, -1)
    slurm.hand_in("", profiler_comment(IDENTITY, "k.before.0"), user=other.pw_name)
    assert not _sweep(jobs)
    assert [job.state for job in slurm.jobs_now()] == ["CANCELLED"]


def test_a_users_script_has_its_users_group_too(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, other: pwd.struct_passwd
):
    number = _submitted(jobs, slurm, _order(slurm, other.pw_name))
    options = slurm.options_of(number)
    assert (options["uid"], options["gid"]) == (other.pw_name, str(other.pw_gid))
    status = (profiles / NAME).stat()
    assert (status.st_uid, status.st_gid) == (other.pw_uid, other.pw_gid)


def test_a_script_of_nobody_that_is_known_is_not_run(jobs: ProfilerJobs, slurm: FakeSlurm):
    with pytest.raises(InvalidInput, match="does not say whose"):
        _submitted(jobs, slurm, _order(slurm, ""))


def test_no_link_in_a_users_directory_is_followed(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, tmp_path: Path
):
    order = _order(slurm, OWN)
    number = _submitted(jobs, slurm, order)
    victim = tmp_path / "victim"
    (profiles / NAME / "left").symlink_to(victim)
    jobs.leave_operation.run([[NAME]])
    assert not victim.exists()
    # What was handed in is lost, and tried again.
    victim.write_text("kept")
    (profiles / NAME / f".order.{os.getpid()}.part").symlink_to(victim)
    slurm.forget(number)
    _submitted(jobs, slurm, order)
    assert victim.read_text() == "kept"
    assert sorted(path.name for path in (profiles / NAME).iterdir()) == ["order", "server"]


def test_a_directory_of_all_that_is_not_ours_is_left_alone(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, tmp_path: Path
):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "victim").mkdir(parents=True)
    profiles.rmdir()
    profiles.symlink_to(elsewhere)
    order = _order(slurm, OWN)
    for attempt in (
        lambda: _sweep(jobs),
        lambda: _submitted(jobs, slurm, order),
        lambda: jobs.leave_operation.run([["victim"]]),
        lambda: jobs.end_operation.run([["victim"]]),
    ):
        with pytest.raises(InvalidInput, match="is no directory"):
            attempt()
    assert [path.name for path in elsewhere.rglob("*")] == ["victim"]


def test_a_refused_clearing_job_keeps_nothing_else_from_its_end(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, caplog: pytest.LogCaptureFixture
):
    def refuse(name: str) -> None:
        if name == "submit":
            raise SlurmRefused("sbatch: Access/permission denied")

    names = [f"{key}.before.0" for key in "abc"]
    _killed(slurm, profiles, names[0])
    live = slurm.hand_in("", profiler_comment(IDENTITY, names[1]), user=OWN)
    (profiles / names[2]).mkdir()
    slurm.before = refuse
    assert jobs.end_operation.run([names]) == [False]
    assert slurm.jobs_now()[live - 1].state == "CANCELLED"
    assert jobs.end_operation.run([names]) == [True]
    assert "stays on its node: sbatch: Access" in caplog.text
    # The next engine tries again.
    assert [path.name for path in profiles.iterdir()] == [names[0]]


@pytest.mark.parametrize("noted", ["n2", "", "../n2", "n1,n2"])
def test_what_is_left_on_a_node_is_cleared_after_slurm_has_forgotten_the_job(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, noted: str
):
    slurm.held_back = True
    slurm.forget(_killed(slurm, profiles, "k.before.0"))
    (profiles / "k.before.0" / "server").write_text(noted)
    is_over = _sweep(jobs)
    assert is_over == (noted != "n2")
    assert [job.required_nodes for job in slurm.jobs_now()] == [("n2",)] * (not is_over)
    if not is_over:
        (clearing,) = slurm.jobs_now()
        assert clearing.comment == profiler_comment(IDENTITY, "k.before.0.clear")
        slurm.end(clearing.job_id, "COMPLETED")
        assert _sweep(jobs)
    assert not profiles.exists()


def test_an_order_tells_where_it_was_to_be_run(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path
):
    _submitted(jobs, slurm, _order(slurm, OWN))
    CopyOrder.take(profiles / NAME)
    assert CopyOrder.server_of(profiles / NAME) == "n1"


def test_what_a_users_profiler_left_is_cleared_as_that_user(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, other: pwd.struct_passwd
):
    slurm.held_back = True
    _killed(slurm, profiles, "k.before.0")
    os.chown(profiles / "k.before.0", other.pw_uid, -1)
    assert not _sweep(jobs)
    options = slurm.options_of(slurm.jobs_now()[-1].job_id)
    assert (options["uid"], options["gid"]) == (other.pw_name, str(other.pw_gid))


def test_what_a_user_left_who_is_gone_is_not_cleared_as_we(
    jobs: ProfilerJobs, slurm: FakeSlurm, profiles: Path, other: pwd.struct_passwd
):
    _killed(slurm, profiles, "k.before.0")
    os.chown(profiles / "k.before.0", 2_000_000_000, other.pw_gid)
    assert _sweep(jobs)
    assert len(slurm.jobs_now()) == 1


def test_an_engine_that_opens_asks_slurm_on_one_thread_at_a_time(slurm: FakeSlurm, profiles: Path):
    asked: list[bool] = []

    def note(_name: str) -> None:
        asked.append(threading.current_thread() is threading.main_thread())
        time.sleep(0.02)

    slurm.before = note
    engine = SlurmEngine(slurm, MemoryNotes(), SlurmSettings(shared_dir=profiles.parent))
    engine.open()
    engine.close()
    assert asked == sorted(asked, reverse=True)
