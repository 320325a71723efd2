"""Real programs under the local engine: what a user sees of their start, life and end."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.local import (
    MEBIBYTE,
    finished,
    is_gone,
    names,
    parent_of,
    session,
    start,
    started,
)
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local import LocalEngine
from wharfinger.engines.supervised.records import StartRecord, create_run
from wharfinger.errors import InvalidInput
from wharfinger.host.supervisor import LaunchSpec
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType
from wharfinger.testing.harness import Session


def test_every_way_to_end_is_told_as_it_was(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        cluster.perform(
            start(cluster, "code", "exit 42"),
            start(cluster, "signal", "kill -SEGV $$"),
            start(cluster, "child", "sh -c 'kill -KILL $$'; exit 3"),
        )
        assert (finished(cluster, "code").exit_code, finished(cluster, "code").reason) == (
            42,
            "exited",
        )
        assert (finished(cluster, "signal").signal, finished(cluster, "signal").reason) == (
            signal.SIGSEGV,
            "killed",
        )
        assert finished(cluster, "child").exit_code == 3


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (Run(("foo-is-nowhere",)), "no such program: 'foo-is-nowhere'"),
        (Run(("/etc/passwd",)), "may not execute '/etc/passwd'"),
        (Run(("true",), working_directory="/no/such"), "working directory '/no/such'"),
        (Run(("true",), working_directory="relative"), "relative: not an absolute path"),
        (Run(("a\0b",)), "NUL"),
        (Run(("true",), env={"A=B": "c"}), "'A=B'"),
    ],
)
def test_what_can_not_start_says_why_in_one_line(tmp_path: Path, run: Run, words: str) -> None:
    with session(tmp_path) as cluster:
        workload = Workload("w", WorkloadType.SINGLE_NODE, run)
        place = (Placement(cluster.servers[0], Allocation(1000, MEBIBYTE * 64)),)
        cluster.perform(act.StartWorkload("k", workload, place))
        failed = cluster.wait_for(ev.StartFailed, "k")
        assert words in failed.reason
        assert "\n" not in failed.reason
        assert not failed.retryable


def test_a_missing_interpreter_is_named_as_such(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with session(tmp_path) as cluster:
        workload = Workload("w", WorkloadType.SINGLE_NODE, Run((str(script),)))
        place = (Placement(cluster.servers[0], Allocation(1000, MEBIBYTE * 64)),)
        cluster.perform(act.StartWorkload("k", workload, place))
        assert "interpreter" in cluster.wait_for(ev.StartFailed, "k").reason


def test_a_program_finds_its_own_environment_and_little_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_MANAGER", "x")
    with session(tmp_path) as cluster:
        cluster.perform(start(cluster, "k", "env; ulimit -n", env={"MINE": "yes"}))
        finished(cluster, "k")
        lines = cluster.engine.read_log("k").data.decode().splitlines()
        assert {"MINE=yes", "WHARFINGER_KEY=k", "WHARFINGER_WORKLOAD=k"} <= set(lines)
        assert not any("SECRET" in line for line in lines)


def test_one_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        pid = started(
            cluster, start(cluster, "k", "trap '' TERM; echo deaf; while :; do sleep 1; done")
        )
        wait_until(lambda: cluster.engine.read_log("k").data == b"deaf\n", what="its trap is set")
        cluster.perform(act.StopWorkload("k", 0.3))
        assert (finished(cluster, "k").signal, finished(cluster, "k").reason) == (9, "stopped")
        assert is_gone(pid)


def test_one_that_obeys_sigterm_keeps_its_own_status(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"
        started(cluster, start(cluster, "k", script))
        wait_until(lambda: cluster.engine.read_log("k").data == b"ready\n", what="its trap is set")
        cluster.perform(act.StopWorkload("k", 20.0))
        assert (finished(cluster, "k").exit_code, finished(cluster, "k").reason) == (7, "stopped")


def test_a_daemon_ends_with_its_workload(tmp_path: Path) -> None:
    note = tmp_path / "daemon"
    daemon = f"setsid sh -c 'echo $$ > {note}; exec sleep 300' </dev/null >/dev/null 2>&1 &"
    with session(tmp_path) as cluster:
        cluster.perform(
            start(cluster, "k", f"({daemon}) & until [ -s {note} ]; do sleep 0.01; done")
        )
        assert finished(cluster, "k").exit_code == 0
        assert is_gone(int(note.read_text()))


def test_what_is_suspended_uses_no_cpu_time_until_it_is_resumed(tmp_path: Path) -> None:
    def used() -> float:
        return cluster.engine.usage()["k"].cpu_seconds or 0.0

    def stands_still() -> bool:
        before = used()
        cluster.take_in(0.1)
        return used() == before

    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "k", "while :; do :; done"))
        wait_until(lambda: used() > 0, what="it has used CPU time")
        cluster.perform(act.SuspendWorkload("k"))
        wait_until(stands_still, what="it stands still")
        cluster.perform(act.ResumeWorkload("k"))
        still = used()
        wait_until(lambda: used() > still, what="it goes on")
        assert (cluster.engine.usage()["k"].processes or 0) >= 1


@pytest.mark.long
def test_a_suspension_is_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = partial(LaunchSpec, suspension_lease_seconds=1.0)
    monkeypatch.setattr("wharfinger.engines.supervised.machine.LaunchSpec", short)
    monkeypatch.setattr("wharfinger.engines.supervised.leases.RENEW_SECONDS", 0.2)
    note = tmp_path / "ticks"

    def stands_still() -> bool:
        before = note.stat().st_size
        cluster.take_in(1.5)
        return note.stat().st_size == before

    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "k", f"while :; do echo >> {note}; sleep 0.02; done"))
        wait_until(note.exists, what="it runs")
        cluster.perform(act.SuspendWorkload("k"))
        wait_until(stands_still, what="it is suspended, and that is renewed")
        still = note.stat().st_size
        wait_until(lambda: note.stat().st_size > still, what="nobody renews it, and it goes on")
        wait_until(stands_still, what="its engine has come back")


def test_a_flood_of_output_keeps_its_tail_within_the_cap(tmp_path: Path) -> None:
    cap = 256 * 1024
    with session(tmp_path, log_cap_bytes=cap) as cluster:
        cluster.perform(start(cluster, "k", "head -c 200000000 /dev/zero; printf the-end"))
        assert finished(cluster, "k").exit_code == 0
        tail = cluster.engine.read_log("k", -7)
        assert (tail.data, tail.next_offset, tail.ended) == (b"the-end", 200_000_007, True)
        kept = sum(path.stat().st_size for path in (tmp_path / "state/k").glob("output.*"))
        assert kept <= cap


def test_links_in_a_run_directory_lead_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    folder = tmp_path / "state" / "k"
    script = (
        f"cd {folder} && rm -f output.* && ln -s {secret} output.00000000000000000000;"
        f"ln -sf {secret} exit; ln -sf {secret} end; ln -sf {secret} stop; exit 5"
    )
    with session(tmp_path) as cluster:
        cluster.perform(start(cluster, "k", script))
        assert finished(cluster, "k").exit_code == 5
        assert b"secret" not in cluster.engine.read_log("k").data
        cluster.reopen()
        assert finished(cluster, "k").exit_code == 5
    assert secret.read_text() == "secret"


def test_a_run_directory_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    folder = tmp_path / "state" / "k"
    with session(tmp_path) as cluster:
        cluster.perform(
            start(cluster, "k", f"mv {folder} {tmp_path}/moved; ln -s {elsewhere} {folder}")
        )
        assert isinstance(cluster.wait_for_end("k"), ev.WorkloadVanished)
        cluster.perform(act.ForgetWorkload("k"))
    assert (elsewhere / "precious").exists()


# --- one engine after another -----------------------------------------------------------------

ENGINE_PROCESS = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from wharfinger.engines.local import LocalEngine
    from wharfinger.core import actions as act, events as ev
    from wharfinger.model.allocation import Allocation, Placement
    from wharfinger.model.workload import Run, Workload, WorkloadType

    state, gate, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    engine = LocalEngine(state)
    engine.open()
    server = engine.poll()[0].server.name
    for number in range(count):
        script = f"until [ -e {gate} ]; do sleep 0.2; done; exit {number}"
        run = Run(("/bin/sh", "-c", script))
        workload = Workload(f"w{number}", WorkloadType.SINGLE_NODE, run)
        place = (Placement(server, Allocation(20, 32 << 20)),)
        engine.perform(act.StartWorkload(f"k{number}", workload, place))
    begun = 0
    while begun < count:
        begun += sum(isinstance(r, ev.WorkloadStarted) for r in engine.poll(1.0))
    print("started", flush=True)
    sys.stdin.read()
    """
)


@pytest.mark.long
def test_fifty_are_adopted_after_the_manager_was_killed(tmp_path: Path) -> None:
    count, gate = 50, tmp_path / "gate"
    (tmp_path / "state").mkdir()
    command = [sys.executable, "-c", ENGINE_PROCESS, str(tmp_path / "state"), str(gate), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as manager:
        assert manager.stdout is not None
        assert manager.stdout.readline() == b"started\n"
        manager.kill()
    with session(tmp_path) as cluster:
        assert len(cluster.wait_for(ev.EngineSynced).known_keys) == count
        assert len(cluster.engine.usage()) == count
        gate.touch()
        for number in range(count):
            assert finished(cluster, f"k{number}").exit_code == number


def test_a_killed_supervisor_means_vanished_and_leaves_no_orphan(tmp_path: Path) -> None:
    note = tmp_path / "orphan"
    with session(tmp_path) as cluster:
        script = f"setsid sh -c 'echo $$ > {note}; exec sleep 300' & sleep 300"
        pid = started(cluster, start(cluster, "k", script))
        wait_until(lambda: note.exists() and note.read_text(), what="the orphan-to-be runs")
        os.kill(parent_of(pid), signal.SIGKILL)
        assert "supervisor was killed" in cluster.wait_for(ev.WorkloadVanished, "k").reason
        # Killed they are; the last steps of a process that dies show it alive.
        pids = [pid, int(note.read_text())]
        wait_until(lambda: all(map(is_gone, pids)), what="both are gone")
        first = cluster.wait_for_end("k")
        cluster.reopen()
        assert cluster.wait_for_end("k") == first


def test_a_supervisor_that_was_killed_while_nobody_watched_means_vanished(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        pid = started(cluster, start(cluster, "k", "sleep 300"))
        supervisor = parent_of(pid)
        cluster.engine.close()
        os.kill(supervisor, signal.SIGKILL)
        cluster.open()
        cluster.wait_for(ev.WorkloadVanished, "k")
        wait_until(lambda: is_gone(pid), what="it is gone")


def test_after_a_restart_of_the_machine_what_ran_has_vanished(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        pid = started(cluster, start(cluster, "k", "sleep 300"))
        supervisor = parent_of(pid)
        cluster.engine.close()
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: is_gone(pid), what="the machine's end has ended it")
        claim = tmp_path / "state" / "k" / "claim"
        claim.write_text(f"00000000-0000-0000-0000-000000000000 {os.getpid()} 1\n")
        cluster.open()
        assert "restarted" in cluster.wait_for(ev.WorkloadVanished, "k").reason


def test_a_manager_that_died_between_its_plan_and_the_launch_starts_it_once(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with session(tmp_path) as cluster:
        action = start(cluster, "k", f"echo started >> {tmp_path}/trace; exit 6")
        cluster.engine.close()
        create_run(tmp_path / "state", "k", StartRecord(action.placements[0]))
        cluster.open()
        assert cluster.wait_for(ev.EngineSynced).known_keys == ()
        cluster.perform(action, action)
        assert finished(cluster, "k").exit_code == 6
        assert (tmp_path / "trace").read_text() == "started\n"


@pytest.mark.long
def test_two_hundred_short_ones_leave_nothing(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        for number in range(200):
            action = start(cluster, f"k{number}", f"exit {number}", cpu_millicpus=100)
            cluster.perform(action)
        for number in range(200):
            assert finished(cluster, f"k{number}").exit_code == number
            cluster.perform(act.ForgetWorkload(f"k{number}"))
        assert not names(tmp_path / "state")


# --- servers -----------------------------------------------------------------------------


def test_dividing_the_machine_anew_is_told_and_touches_nothing_that_runs(tmp_path: Path) -> None:
    with session(tmp_path, servers="1") as cluster:
        engine = cluster.engine
        assert isinstance(engine, LocalEngine)
        pid = started(cluster, start(cluster, "k", "sleep 300"))
        with pytest.raises(InvalidInput, match="--servers"):
            engine.refresh("none=")
        engine.refresh(f"new={min(os.sched_getaffinity(0))}")
        assert cluster.wait_for(ev.ServerLeft).name == cluster.servers[0]
        cluster.perform(start(cluster, "late", "exit 0"))
        assert cluster.wait_for(ev.StartFailed, "late").retryable
        assert not is_gone(pid)


def test_an_idle_engine_is_not_woken(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        for number in range(5):
            started(cluster, start(cluster, f"k{number}", "sleep 300"))
        cluster.reopen()
        for number in range(5):
            cluster.wait_for(ev.WorkloadStarted, f"k{number}")
        wait_until(lambda: _rests(cluster), what="it rests")


def _rests(cluster: Session) -> bool:
    """Whether nothing wakes it for a while; what came before, it has taken in."""
    cluster.take_in()
    began = time.process_time()
    is_woken = bool(select.select([cluster.engine], [], [], 0.5)[0])
    return not is_woken and time.process_time() - began < 0.25
