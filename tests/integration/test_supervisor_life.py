"""A run from launch to exit record, with everybody killed on the way."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.supervised import Run, Runs, launcher_script, marked_pids, until
from wharfinger.host.processes import KEY_VARIABLE, kill_orphans, open_pidfd
from wharfinger.host.run_dir import Claim, read_run
from wharfinger.host.supervisor import SupervisorStatus, cancel


def test_every_exit_code_is_told(runs: Runs) -> None:
    made = [runs.new() for _ in range(256)]
    for code, run in enumerate(made):
        run.sh(f"exit {code}")
    for code, run in enumerate(made):
        ended = run.end()
        assert (ended.exit_code, ended.signal, ended.failed_step) == (code, None, None)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_told_as_one(run: Run, number: signal.Signals) -> None:
    run.sh(f"ulimit -c 0; kill -{number:d} $$")
    ended = run.end()
    assert (ended.exit_code, ended.signal) == (None, number)
    assert not ended.stop_requested


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["no-such-program"], errno.ENOENT),
        (["/no/such/program"], errno.ENOENT),
        (["/proc/self/status"], errno.EACCES),
        (["/proc"], errno.EACCES),
    ],
)
def test_what_cannot_be_executed_never_started(run: Run, command: list[str], error: int) -> None:
    run.launch(*command)
    ended = run.end()
    assert (ended.failed_step, ended.failed_errno) == ("exec", error)
    assert (ended.exit_code, ended.signal, run.record().started) == (None, None, None)


def test_a_missing_working_directory_is_named(run: Run) -> None:
    run.launch("true", working_directory=Path("/no/such/folder"))
    ended = run.end()
    assert (ended.failed_step, ended.failed_errno) == ("working_directory", errno.ENOENT)


def test_a_missing_cgroup_or_cpu_is_named(runs: Runs) -> None:
    first, second = runs.new(), runs.new()
    first.launch("true", cgroup_procs=(Path("/no/such/cgroup.procs"),))
    second.launch("true", cpus=(8191,))
    assert first.end().failed_step == "cgroup"
    ended = second.end()
    assert (ended.failed_step, ended.failed_errno) == ("affinity", errno.EINVAL)


def test_the_program_is_looked_up_in_its_own_path(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    run.launch("only-here", env={"PATH": str(tmp_path)})
    assert run.end().exit_code == 9


def test_the_program_finds_a_clean_process(run: Run) -> None:
    cpu = min(os.sched_getaffinity(0))
    script = (
        "import os, signal; print(os.getpid() == os.getsid(0) == os.getpgid(0), os.getcwd(),"
        " sorted(int(fd) for fd in os.listdir('/proc/self/fd')), os.readlink('/proc/self/fd/0'),"
        " os.sched_getaffinity(0), os.nice(0), len(signal.pthread_sigmask(0, [])),"
        " open('/proc/self/oom_score_adj').read().strip(), os.environ.get('HOME'),"
        " __import__('resource').getrlimit(7)[0])"
    )
    run.launch(
        sys.executable,
        "-S",
        "-c",
        script,
        cpus=(cpu,),
        nice=3,
        rlimits=((resource.RLIMIT_NOFILE, 64, 64),),
    )
    assert run.end().exit_code == 0, run.output()
    adjusted = Path("/proc/self/oom_score_adj").read_text().strip()
    expected = (
        f"True {run.run_dir.parent} [0, 1, 2, 3] /dev/null {{{cpu}}} {os.nice(0) + 3} 0 "
        f"{adjusted} None 64\n"
    )
    assert run.output().decode() == expected


def test_ignored_signals_of_the_manager_reach_nobody(run: Run) -> None:
    ignoring = (
        "for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):"
        " signal.signal(number, signal.SIG_IGN)"
    )
    command = ["sh", "-c", "grep SigIgn /proc/self/status; exit 6"]
    subprocess.run(launcher_script(run, command, before=ignoring), check=True, timeout=120)
    until(lambda: run.record().exit)
    ended = run.record().exit
    assert ended is not None
    assert (ended.exit_code, run.output()) == (6, b"SigIgn:\t0000000000000000\n")


def test_env_is_neither_on_disk_nor_in_sight(run: Run) -> None:
    secret = "hunter2-5f1c"
    env = {**run.spec("x").env, "PASSWORD": secret}
    supervisor = run.launch("sleep", "60", env=env)
    run.started()
    for name in ("cmdline", "environ"):
        assert secret.encode() not in Path(f"/proc/{supervisor.pid}/{name}").read_bytes()
    for path in run.run_dir.iterdir():
        assert secret.encode() not in path.read_bytes()


def test_the_supervisor_is_detached_and_holds_nothing(run: Run) -> None:
    supervisor = run.launch("sleep", "60")
    run.started()
    assert os.getsid(supervisor.pid) == supervisor.pid
    until(lambda: _holds_its_own_only(run, supervisor.pid), "it holds nothing but its own")
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(supervisor.pid, number)
    run.stop(0)
    assert run.end().signal == signal.SIGKILL


def _holds_its_own_only(run: Run, pid: int) -> bool:
    """As it stands still: for a moment it may open a file, which is closed as we look."""
    allowed = ("/dev/null", str(run.run_dir), "pipe:", "anon_inode:")
    try:
        links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:
        return False
    return all(link.startswith(allowed) for link in links)


def test_of_many_launches_one_starts(run: Run, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    supervisors = [run.sh(f"echo start >> {starts}; exit 2") for _ in range(8)]
    statuses = sorted(run.status(supervisor) for supervisor in supervisors)
    assert statuses == [SupervisorStatus.DONE] + [SupervisorStatus.CLAIMED] * 7
    assert starts.read_text() == "start\n"
    run.sh(f"echo start >> {starts}")
    assert run.status() == SupervisorStatus.CLAIMED
    assert starts.read_text() == "start\n"
    assert {path.name for path in run.run_dir.iterdir()} == {"claim", "started", "exit"}


def test_a_cancelled_run_never_starts(run: Run) -> None:
    assert cancel(run.run_dir)
    run.sh("echo started")
    assert run.status() == SupervisorStatus.CLAIMED
    assert cancel(run.run_dir), "cancelling twice is one cancelling"
    record = run.record()
    assert (record.claim, record.started, record.exit) == (Claim.CANCELLED, None, None)
    assert run.output() == b""


def test_a_taken_run_cannot_be_cancelled(run: Run) -> None:
    run.launch("sleep", "60")
    run.started()
    assert not cancel(run.run_dir)
    assert run.record().claim == Claim.TAKEN


def test_a_directory_open_to_others_is_refused(run: Run) -> None:
    run.run_dir.chmod(0o755)
    supervisor = run.launch("true")
    assert run.status() == SupervisorStatus.BAD_CALL
    assert "0700" in supervisor.fault()
    assert list(run.run_dir.iterdir()) == []


def test_a_directory_that_is_a_link_is_refused(run: Run, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    run.run_dir.rmdir()
    run.run_dir.symlink_to(real)
    run.launch("true")
    assert run.status() == SupervisorStatus.BAD_CALL
    assert list(real.iterdir()) == []
    run.run_dir.unlink()
    run.run_dir.mkdir()


def test_a_killed_manager_costs_no_exit_status(run: Run, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = ["sh", "-c", f"read line < {gate}; echo $line; exit 42"]
    manager = subprocess.Popen(launcher_script(run, command, after="signal.pause()"))
    identity = run.started().supervisor
    manager.kill()
    manager.wait(timeout=120)
    assert identity is not None and identity.is_alive()
    gate.write_text("go\n")
    until(lambda: not identity.is_alive(), "the supervisor's end")
    ended = read_run(run.run_dir).exit
    assert ended is not None
    assert (ended.exit_code, run.output()) == (42, b"go\n")


def test_a_killed_supervisor_leaves_no_status_and_its_orphans_are_found(run: Run) -> None:
    supervisor = run.sh("setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 9; done' & sleep 60")
    main = run.started().started
    until(lambda: len(marked_pids(run.key)) >= 4, "the whole tree")
    os.kill(supervisor.pid, signal.SIGKILL)
    assert run.status() == SupervisorStatus.LOST
    assert main is not None
    until(lambda: not main.process.is_alive(), "the main process follows its supervisor")
    assert marked_pids(run.key), "there are orphans"
    assert kill_orphans(run.run_dir) > 0
    assert marked_pids(run.key) == []
    record = run.record()
    assert record.claim == Claim.TAKEN and record.exit is None
    assert record.supervisor is not None and open_pidfd(record.supervisor) is None


def test_orphans_of_another_manager_with_the_same_key_are_left_alone(
    runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    ours, theirs, older = runs.new(), runs.new(tmp_path / "other"), runs.new()
    key = {KEY_VARIABLE: ours.key}
    theirs.launch("sleep", "60", env={**theirs.spec("x").env, **key})
    older.launch("sleep", "60", env={"PATH": "/usr/bin:/bin", **key})
    for run in (theirs, older):
        run.started()
    assert kill_orphans(ours.run_dir) == 1, "what version 0.1 started has the key alone"
    assert older.end().signal == signal.SIGKILL
    assert theirs.record().exit is None


def test_cpu_time_of_the_whole_tree_is_told(run: Run) -> None:
    burn = (
        "import os, time\nif os.fork() == 0:\n while time.process_time() < 0.1: pass\n os._exit(0)"
    )
    run.launch(sys.executable, "-S", "-c", f"{burn}\nos.wait()")
    ended = run.end()
    assert ended.cpu_seconds >= 0.1
    assert ended.ended_at_seconds >= ended.started_at_seconds > 1.7e9


def test_a_hostile_hand_in_the_directory_gains_nothing(run: Run, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    for name in ("started", f"output.{0:020}"):
        (run.run_dir / name).symlink_to(victim)
    script = (
        f"cd $RUN; for f in exit.new.*; do ln -sf {victim} $f; done;"
        " mkdir exit; touch exit/file; echo tail; exit 11"
    )
    run.sh(script)
    ended = run.end()
    assert (ended.exit_code, run.output()) == (11, b"tail\n")
    assert victim.read_text() == "untouched"
    assert stat.S_ISREG((run.run_dir / "started").lstat().st_mode)


def test_a_link_in_the_claims_place_is_a_claim(run: Run, tmp_path: Path) -> None:
    (run.run_dir / "claim").symlink_to(tmp_path / "elsewhere")
    run.launch("true")
    assert run.status() == SupervisorStatus.CLAIMED
    assert run.record().claim == Claim.UNREADABLE
    assert not cancel(run.run_dir)
    assert not (tmp_path / "elsewhere").exists()
