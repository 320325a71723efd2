"""A tree held to a share of CPU time by its supervisor alone: no cgroup, no privilege.

Only the order of effects is asserted, with wide margins; how exact it is, is in
``docs/decisions/0020-pace.md``.
"""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.supervised import Run, Runs, marked_pids, until
from wharfinger.errors import InvalidInput
from wharfinger.host.processes import descendants, kill_orphans, measure_tree
from wharfinger.host.run_control import renew_suspended
from wharfinger.host.supervisor import request_pace, request_resume, request_suspend

pytestmark = pytest.mark.alone

BUSY = "while :; do :; done"
FOUR = f"for i in 1 2 3; do ({BUSY}) & done; {BUSY}"
SHORT_LIVED = "while :; do head -c 300000 /dev/zero | gzip > /dev/null; done"
THREADS = (
    f"exec {sys.executable} -S -c '"
    "import hashlib, threading; data = bytes(1 << 20)\n"
    "def work():\n"
    "    while True: hashlib.sha256(data)\n"
    "for _ in range(3): threading.Thread(target=work).start()'"
)


def cpu_seconds(run: Run) -> float:
    return measure_tree(run.supervisors[-1].pid).cpu_seconds


def states(run: Run) -> str:
    """Of every process of the tree, one letter each."""
    found = ""
    for pid in sorted(descendants(run.supervisors[-1].pid)):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        found += stat.rpartition(")")[2].split()[0]
    return found


def pace(run: Run, cpu_millicpus: int | None) -> None:
    request_pace(run.run_dir, run.supervisors[-1].pidfd, cpu_millicpus)


def suspend(run: Run) -> None:
    request_suspend(run.run_dir, run.supervisors[-1].pidfd)
    until(lambda: set(states(run)) == {"T"}, "all of it is stopped")


def resume(run: Run) -> None:
    request_resume(run.run_dir, run.supervisors[-1].pidfd)


def wait(seconds: float) -> None:
    select.select([], [], [], seconds)


def share(run: Run) -> float:
    """CPUs that it uses over a while, which is longer where a debt keeps it from working."""
    before, began = cpu_seconds(run), time.monotonic()
    wait(2.0)
    until(lambda: cpu_seconds(run) > before, "some work")
    return (cpu_seconds(run) - before) / (time.monotonic() - began)


def settled(run: Run) -> float:
    """CPU time of what is stopped: the last of it may show a moment later than its state."""
    seen = [-1.0]

    def same() -> bool:
        wait(0.05)
        seen.append(cpu_seconds(run))
        return seen[-1] == seen[-2]

    until(same, "it stands still")
    return seen[-1]


@pytest.mark.parametrize("script", [BUSY, FOUR, SHORT_LIVED, THREADS])
def test_a_smaller_share_is_less(runs: Runs, script: str) -> None:
    small, large = runs.new(), runs.new()
    small.sh(script, cpu_millicpus=20)
    large.sh(script, cpu_millicpus=700)
    for run in (small, large):
        run.started()
    before = [cpu_seconds(run) for run in (small, large)]

    def is_less() -> bool:
        less, more = (
            cpu_seconds(run) - used for run, used in zip((small, large), before, strict=True)
        )
        return more > 0.5 and 2 * less < more

    # On a busy machine the smaller may at first have more: that is a debt, which it pays off.
    until(is_less, "work of the larger, more than twice the smaller's")
    until(lambda: cpu_seconds(small) > 0, "work of the smaller")


def test_a_share_is_changed_while_it_runs(run: Run) -> None:
    run.sh(BUSY, cpu_millicpus=20)
    run.started()
    small = share(run)
    pace(run, 700)
    seen = [small]

    def is_more() -> bool:
        seen.append(share(run))
        return seen[-1] > 2 * small

    until(is_more, "it is given more")
    pace(run, None)
    until(lambda: "T" not in states(run))
    pace(run, 20)
    until(lambda: 2 * share(run) < seen[-1], "it is given less")


def test_what_is_suspended_stands_still_and_goes_on(run: Run) -> None:
    run.sh(FOUR)
    run.started()
    until(lambda: len(states(run)) == 4)
    suspend(run)
    used = settled(run)
    wait(0.5)
    assert (cpu_seconds(run), states(run)) == (used, "TTTT")
    resume(run)
    until(lambda: cpu_seconds(run) > used, "it goes on")


def test_a_change_of_its_share_does_not_wake_what_is_suspended(run: Run) -> None:
    run.sh(BUSY, cpu_millicpus=100)
    run.started()
    suspend(run)
    used = settled(run)
    for millicpus in (500, None, 200):
        pace(run, millicpus)
        wait(0.2)
    assert (cpu_seconds(run), states(run)) == (used, "T")
    resume(run)
    until(lambda: cpu_seconds(run) > used, "it goes on")


@pytest.mark.long
def test_a_suspension_ends_by_itself_unless_it_is_renewed(run: Run) -> None:
    run.sh(BUSY, suspension_lease_seconds=3.0)
    run.started()
    until(lambda: _stays_suspended(run, 3.5), "this machine lets us renew it in time")
    until(lambda: "T" not in states(run), "it goes on when nobody renews it")
    assert not renew_suspended(run.run_dir)
    suspend(run)


def _stays_suspended(run: Run, seconds: float) -> bool:
    """Whether we could renew a suspension for so long; if so, it held."""
    suspend(run)
    began = renewed = time.monotonic()
    while renewed < began + seconds:
        wait(0.1)
        holds, before, renewed = renew_suspended(run.run_dir), renewed, time.monotonic()
        if renewed - before > 1.0:
            return False
        assert holds
    held, looked = states(run), time.monotonic()
    if looked - renewed > 1.0:
        return False
    assert held == "T"
    return True


def test_what_the_run_directory_says_before_the_start_holds(run: Run) -> None:
    (run.run_dir / "suspended").touch()
    run.sh(BUSY)
    run.started()
    until(lambda: states(run) == "T", "it is stopped as soon as it has begun")
    resume(run)
    until(lambda: "T" not in states(run), "it goes on")


@pytest.mark.parametrize("hold", [suspend, lambda run: pace(run, 10)], ids=["suspended", "paced"])
def test_a_stopped_tree_takes_its_sigterm_in_time(run: Run, hold: Callable[[Run], None]) -> None:
    run.sh(f"trap 'exit 21' TERM; echo up; {BUSY}")
    until(lambda: b"up" in run.output())
    hold(run)
    until(lambda: states(run) == "T")
    run.stop(20)
    ended = run.end()
    assert (ended.exit_code, ended.stop_requested) == (21, True)


def test_a_stopped_tree_is_killed_when_the_grace_is_over(run: Run) -> None:
    run.sh(f"trap '' TERM; echo up; {FOUR}", cpu_millicpus=50)
    until(lambda: b"up" in run.output())
    suspend(run)
    run.stop(0.2)
    assert run.end().signal == signal.SIGKILL
    assert marked_pids(run.key) == []


def test_what_the_workload_has_stopped_itself_stays_stopped(run: Run) -> None:
    run.sh(f"sleep 600 & echo $!; kill -STOP $!; {BUSY}", cpu_millicpus=300)
    until(lambda: b"\n" in run.output())
    job = Path(f"/proc/{int(run.output())}/stat")
    used = cpu_seconds(run)
    until(lambda: cpu_seconds(run) > used + 0.2, "it has been stopped and continued many times")
    suspend(run)
    resume(run)
    until(lambda: "R" in states(run))
    assert job.read_text().rpartition(")")[2].split()[0] == "T"


def test_a_shell_does_not_take_its_paced_jobs_for_stopped(run: Run) -> None:
    if shutil.which("bash", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("there is no bash, whose job control would show it")
    job = "bash -c 'for ((i = 0; i < 100000; i++)); do :; done'"
    run.launch("bash", "-c", f"set -m; for i in 1 2 3; do {job}; echo $?; done", cpu_millicpus=300)
    assert run.end().exit_code == 0
    assert run.output() == b"0\n0\n0\n"


def test_a_supervisor_killed_while_its_tree_is_stopped_leaves_what_can_be_killed(run: Run) -> None:
    supervisor = run.sh(f"(setsid sleep 600) & (setsid sh -c '{BUSY}') & {BUSY}", cpu_millicpus=50)
    run.started()
    until(lambda: len(states(run)) >= 3)
    suspend(run)
    os.kill(supervisor.pid, signal.SIGKILL)
    run.status()
    assert run.record().exit is None
    kill_orphans(run.run_dir)
    assert marked_pids(run.key) == []


def test_what_is_not_paced_is_not_looked_at(run: Run) -> None:
    supervisor = run.sh("exec sleep 600", cpu_millicpus=500)
    run.started()
    pace(run, None)
    before = _settled_switches(supervisor.pid)
    pace(run, 500)
    until(lambda: _switches(supervisor.pid) > before, "it is looked at")
    suspend(run)
    _settled_switches(supervisor.pid)


def _settled_switches(pid: int) -> int:
    """Once it has taken in what it was told, and has not woken up for a second."""
    seen = [-1]

    def same() -> bool:
        seen.append(_switches(pid))
        wait(1.0)
        return _switches(pid) == seen[-1]

    until(same, "it rests")
    return seen[-1]


def _switches(pid: int) -> int:
    """How often a process has gone to sleep."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


def test_no_share_is_a_share_that_can_not_be_kept(run: Run) -> None:
    supervisor = run.sh(BUSY)
    run.started()
    for wrong in (0, -1, 10**9):
        with pytest.raises(InvalidInput, match="cpu_millicpus"):
            request_pace(run.run_dir, supervisor.pidfd, wrong)


def test_nonsense_in_the_run_directory_changes_nothing(run: Run) -> None:
    supervisor = run.sh(BUSY, cpu_millicpus=100)
    run.started()
    for text in ("", "0", "-5", "nonsense", "100x", "9" * 300):
        (run.run_dir / "pace").write_text(text)
        os.kill(supervisor.pid, signal.SIGUSR1)
    until(lambda: share(run) < 0.5, "it is held to its share")


def test_its_session_is_as_nice_as_it_is(run: Run) -> None:
    main = run_nice(run)
    autogroup = Path(f"/proc/{main}/autogroup")
    if not autogroup.exists() or not Path("/proc/sys/kernel/sched_autogroup_enabled").exists():
        pytest.skip("this kernel does not schedule by session")
    until(lambda: autogroup.read_text().endswith("nice 19\n"), "the session is nice")


def run_nice(run: Run) -> int:
    run.launch("sleep", "600", nice=19)
    started = run.started().started
    assert started is not None
    return started.process.pid
