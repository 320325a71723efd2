"""Programs that run as another user, and those that stop by another signal."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.local import (
    MEBIBYTE,
    finished,
    is_gone,
    parent_of,
    session,
    started,
    take_cgroups_away,
    without_loader,
)
from tests.support.profiling import answered
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.host.accounts import other_account
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.ends import CANNOT_RUN
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Measure, Run, Target, Workload, WorkloadType
from wharfinger.testing.harness import Session

USER = "nobody"


@pytest.fixture
def folder() -> Iterator[Path]:
    """That everybody may enter; pytest's own may not."""
    made = Path(tempfile.mkdtemp(prefix="wharfinger-users-", dir="/var/tmp"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def user() -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    return USER


def start(cluster: Session, key: str, script: str, **run: object) -> act.StartWorkload:
    made = Run(("/bin/sh", "-c", script), **run)  # type: ignore[arg-type]  # the test's own
    place = (Placement(cluster.servers[0], Allocation(500, 64 * MEBIBYTE)),)
    return act.StartWorkload(key, Workload(key, WorkloadType.SINGLE_NODE, made), place)


def output(cluster: Session, key: str) -> list[str]:
    return cluster.engine.read_log(key).data.decode().splitlines()


@pytest.mark.parametrize("name", ["INT", "QUIT", "HUP", "USR1"])
def test_a_stop_begins_with_the_signal_that_was_asked_for(tmp_path: Path, name: str) -> None:
    script = f"trap 'echo {name}; exit 7' {name}; trap 'echo TERM; exit 8' TERM; echo ready; "
    with session(tmp_path) as cluster:
        looping = script + "while :; do sleep 0.01; done"
        started(cluster, start(cluster, "k", looping, stop_signal=name))
        wait_until(lambda: output(cluster, "k") == ["ready"], what="its trap is set")
        cluster.perform(act.StopWorkload("k", 20.0))
        assert (finished(cluster, "k").exit_code, finished(cluster, "k").reason) == (7, "stopped")
        lines = output(cluster, "k")  # the shell tells of some signals, too
        assert lines[-1] == name
        assert "TERM" not in lines


def test_one_that_does_not_obey_its_own_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        script = "trap '' INT; echo ready; while :; do sleep 0.01; done"
        started(cluster, start(cluster, "k", script, stop_signal="INT"))
        wait_until(lambda: output(cluster, "k") == ["ready"], what="its trap is set")
        cluster.perform(act.StopWorkload("k", 0.3))
        assert finished(cluster, "k").signal == signal.SIGKILL


@pytest.mark.root
def test_a_program_is_the_user_that_was_asked_for(tmp_path: Path, folder: Path, user: str) -> None:
    script = (
        'id -u; id -g; id -G; echo "$HOME $USER $LOGNAME"; grep CapEff /proc/self/status;'
        f"echo by-name > /dev/stdout; touch {folder}/made; cat /etc/shadow; ls {tmp_path}/state"
    )
    account = other_account(user)
    assert account is not None
    with session(tmp_path) as cluster:
        cluster.perform(start(cluster, "k", script, user=user, working_directory=str(folder)))
        assert finished(cluster, "k").exit_code != 0
        lines = output(cluster, "k")
    assert lines[:2] == [str(account.uid), str(account.gid)]
    assert set(map(int, lines[2].split())) == set(account.groups)
    assert lines[3] == f"{account.home} {user} {user}"
    assert int(lines[4].split()[1], 16) == 0, "no capability is left"
    assert lines[5] == "by-name"
    assert sum("ermission denied" in line for line in lines) == 2, lines
    assert (folder / "made").stat().st_uid == account.uid


@pytest.mark.root
@pytest.mark.parametrize("cgroups", [True, False])
def test_another_users_program_is_stopped_suspended_and_adopted(
    tmp_path: Path, user: str, monkeypatch: pytest.MonkeyPatch, cgroups: bool
) -> None:
    if not cgroups:
        take_cgroups_away(tmp_path, monkeypatch)
    script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "k", script, user=user))
        wait_until(lambda: output(cluster, "k") == ["ready"], what="its trap is set")
        cluster.perform(act.SuspendWorkload("k"))
        cluster.reopen()
        cluster.perform(act.ResumeWorkload("k"), act.StopWorkload("k", 20.0))
        assert finished(cluster, "k").exit_code == 7


@pytest.mark.root
@pytest.mark.parametrize("cgroups", [True, False])
def test_another_users_program_dies_with_its_supervisor(
    tmp_path: Path, user: str, monkeypatch: pytest.MonkeyPatch, cgroups: bool
) -> None:
    if not cgroups:
        take_cgroups_away(tmp_path, monkeypatch)
    with session(tmp_path) as cluster:
        script = "setsid sleep 300 & echo $!; exec sleep 300"
        pid = started(cluster, start(cluster, "k", script, user=user))
        wait_until(lambda: output(cluster, "k"), what="its daemon runs")
        daemon = int(output(cluster, "k")[0])
        os.kill(parent_of(pid), signal.SIGKILL)
        cluster.wait_for(ev.WorkloadVanished, "k")
        wait_until(lambda: is_gone(pid) and is_gone(daemon), what="both are gone")


@pytest.mark.root
def test_a_directory_that_the_user_may_not_enter_is_told(tmp_path: Path, user: str) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with session(tmp_path) as cluster:
        action = start(cluster, "k", "true", user=user, working_directory=str(closed))
        assert "'nobody' may not enter" in cluster.engine.check(action.workload)
        cluster.perform(action)
        failed = cluster.wait_for(ev.StartFailed, "k")
        assert "working directory" in failed.reason
        assert "EACCES" in failed.reason


def profile(cluster: Session, workload: Workload) -> ev.ProfilingFinished | ev.ProfilingFailed:
    if not cluster.engine.capabilities.profiles:
        pytest.skip("no sandbox here")
    plan = ProfilingPlan(cluster.servers[0], (500,), 64 * MEBIBYTE, (), 1.0)
    cluster.perform(act.ProfileWorkload("p", workload, plan))
    return answered(cluster, "p")


@pytest.mark.root
def test_a_copy_is_the_user_too(tmp_path: Path, folder: Path, user: str) -> None:
    account = other_account(user)
    assert account is not None
    script = (
        f'test "$(id -u)" = {account.uid} && test "$USER" = {user} && ! cat /etc/shadow &&'
        "echo x > made && echo x > /tmp/made-by-a-copy && echo done=1 > /dev/stdout && "
        'i=1; while :; do i=$((i+1)); echo "done=$i"; sleep 0.01; done'
    )
    run = Run(("/bin/sh", "-c", script), working_directory=str(folder), user=user)
    target, lines = Target(rate_per_second=1.0), Measure(progress_regex=r"done=(\d+)")
    with session(tmp_path) as cluster:
        workload = Workload("p", WorkloadType.BATCH, run, target, measure=lines)
        answer = profile(cluster, workload)
        assert isinstance(answer, ev.ProfilingFinished), answer
    assert not list(folder.iterdir())
    assert not Path("/tmp/made-by-a-copy").exists()


@pytest.mark.parametrize("place", ["program", "directory"])
def test_a_profile_of_what_can_never_start_says_so(tmp_path: Path, place: str) -> None:
    run = Run(("/no/such/program",)) if place == "program" else Run(("true",), {}, "/no/such")
    with session(tmp_path) as cluster:
        answer = profile(
            cluster, Workload("p", WorkloadType.BATCH, run, Target(rate_per_second=1.0))
        )
    assert isinstance(answer, ev.ProfilingFailed)
    assert answer.reason.startswith(f"{CANNOT_RUN}spec.run.")


def test_a_profile_of_a_program_for_another_machine_says_so(tmp_path: Path) -> None:
    foreign = without_loader(tmp_path / "foreign")
    with session(tmp_path) as cluster:
        workload = Workload(
            "p", WorkloadType.BATCH, Run((str(foreign),)), Target(rate_per_second=1.0)
        )
        assert cluster.engine.check(workload) == ""
        answer = profile(cluster, workload)
    assert isinstance(answer, ev.ProfilingFailed)
    assert answer.reason.startswith(CANNOT_RUN), answer
    assert "ldd" in answer.reason
