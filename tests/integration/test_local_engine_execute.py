"""A command beside a workload: its environment, its place, its end."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.live import ordinary_user
from tests.support.local import (
    finished,
    is_gone,
    session,
    start,
    started,
    take_cgroups_away,
)
from tests.support.sandboxes import AS_NOBODY
from wharfinger.core import actions as act
from wharfinger.engines.base import Execution
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.files.atomic import closing_fd
from wharfinger.model.workload import Run
from wharfinger.testing.harness import Session

DEADLINE_SECONDS = 60.0
LASTING = "while :; do sleep 0.01; done"
BURN = "import time\nwhile time.process_time() < 0.1: pass"


def said(execution: Execution) -> tuple[int | None, str, str]:
    """Its status, output and errors, after its end."""
    ready, _, _ = select.select([execution], [], [], DEADLINE_SECONDS)
    assert ready, "it did not end"
    texts = []
    for stream in (execution.stdout, execution.stderr):
        data = b""
        while piece := os.read(stream, 65536):
            data += piece
        texts.append(data.decode())
    status = execution.wait(0.0)
    execution.close()
    return status, texts[0], texts[1]


def ran(cluster: Session, *command: str, key: str = "k") -> tuple[int | None, str, str]:
    return said(cluster.engine.execute(key, command))


def lines_of(execution: Execution, count: int) -> list[str]:
    """What it says first, while it runs."""
    data = b""
    while data.count(b"\n") < count:
        assert select.select([execution.stdout], [], [], DEADLINE_SECONDS)[0], data
        data += os.read(execution.stdout, 65536)
    return data.decode().splitlines()


def test_it_has_what_the_workload_has(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        pid = started(cluster, start(cluster, "k", LASTING, env={"MINE": "yes"}))
        script = "echo $MINE $WHARFINGER_WORKLOAD; pwd; cat /proc/self/cgroup; nproc; ulimit -n"
        status, output, errors = ran(cluster, "sh", "-c", f"{script}; echo bad >&2; exit 5")
        assert (status, errors) == (5, "bad\n")
        lines = output.splitlines()
        assert lines[:2] == ["yes k", "/"]
        groups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        assert lines[2:-2] == groups
        assert int(lines[-2]) == len(os.sched_getaffinity(pid))
        assert cluster.engine.read_log("k").data == b""


def test_its_input_is_what_is_written(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "k", LASTING))
        execution = cluster.engine.execute("k", ("cat",), stdin=True)
        descriptor = execution.take_input()
        os.write(descriptor, b"hi\n")
        os.close(descriptor)
        with pytest.raises(NotFound):
            execution.take_input()
        assert said(execution) == (0, "hi\n", "")
        ended = cluster.engine.execute("k", ("true",), stdin=True)
        with closing_fd(ended.take_input()) as descriptor:
            assert ended.wait(DEADLINE_SECONDS) == 0
            with pytest.raises(BrokenPipeError):
                os.write(descriptor, b"nobody reads it")
        ended.close()
        assert ran(cluster, "cat") == (0, "", "")


def test_its_cpu_time_is_the_workloads(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "k", "exec sleep 300"))
        before = cluster.engine.usage()["k"].cpu_seconds
        if not cluster.engine._runs["k"].group.paths:  # type: ignore[attr-defined]
            pytest.skip("no cgroup counts it here")
        ran(cluster, sys.executable, "-S", "-c", BURN)
        after = cluster.engine.usage()["k"].cpu_seconds
        assert before is not None
        assert after is not None
        assert after > before + 0.05


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("no-such-program", 127, "cannot run no-such-program: No such file"),
        ("/etc/passwd", 126, "cannot run /etc/passwd: Permission denied"),
    ],
)
def test_what_can_not_be_run_says_why(
    tmp_path: Path, command: str, status: int, words: str
) -> None:
    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "k", LASTING, env={"PATH": "/usr/bin:/bin"}))
        found, output, errors = ran(cluster, command)
        assert (found, output) == (status, "")
        assert words in errors
        assert ran(cluster, "sh", "-c", "kill -SEGV $$")[0] == 128 + signal.SIGSEGV


def test_one_that_is_closed_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        pid = started(cluster, start(cluster, "k", LASTING))
        script = f"setsid sh -c 'echo $$; {LASTING}' & echo $$; {LASTING}"
        execution = cluster.engine.execute("k", ("sh", "-c", script))
        pids = [int(line) for line in lines_of(execution, 2)]
        assert execution.wait(0.0) is None
        execution.close()
        wait_until(lambda: all(map(is_gone, pids)), what="they are gone")
        assert not is_gone(pid)


@pytest.mark.parametrize("cgroups", [True, False])
def test_it_ends_with_its_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroups: bool
) -> None:
    if not cgroups:
        take_cgroups_away(tmp_path, monkeypatch)
    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "k", LASTING))
        execution = cluster.engine.execute("k", ("sh", "-c", f"echo $$; {LASTING}"))
        [pid] = map(int, lines_of(execution, 1))
        cluster.perform(act.StopWorkload("k", 5.0))
        finished(cluster, "k")
        assert said(execution)[0] == 128 + signal.SIGKILL
        wait_until(lambda: is_gone(pid), what="it is gone")


def test_it_ends_with_the_engine_and_may_be_begun_by_the_next(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        action = start(cluster, "k", LASTING)
        started(cluster, action)
        execution = cluster.engine.execute("k", ("sh", "-c", f"echo $$; {LASTING}"))
        [pid] = map(int, lines_of(execution, 1))
        cluster.reopen()
        wait_until(lambda: is_gone(pid), what="it is gone")
        cluster.perform(act.MeasureWorkload("k", action.workload))
        assert ran(cluster, "echo", "again")[:2] == (0, "again\n")


def test_there_is_nothing_beside_what_does_not_run(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        with pytest.raises(NotFound, match="'nobody-knows'"):
            cluster.engine.execute("nobody-knows", ("true",))
        cluster.perform(start(cluster, "k", "exit 3"))
        finished(cluster, "k")
        with pytest.raises(NotFound, match="does not run"):
            cluster.engine.execute("k", ("true",))
        started(cluster, start(cluster, "runs", LASTING))
        with pytest.raises(InvalidInput, match="command: empty"):
            cluster.engine.execute("runs", ())


@pytest.mark.root
def test_it_is_the_workloads_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    with session(tmp_path) as cluster:
        action = start(cluster, "k", LASTING)
        run = Run(action.workload.run.command, user="nobody")
        workload = type(action.workload)("k", action.workload.type, run)
        started(cluster, act.StartWorkload("k", workload, action.placements))
        status, output, _ = ran(cluster, "sh", "-c", "id -un; echo by-name > /dev/stdout")
        assert (status, output) == (0, "nobody\nby-name\n")
        execution = cluster.engine.execute("k", ("cat", "/dev/stdin"), stdin=True)
        with closing_fd(execution.take_input()) as descriptor:
            os.write(descriptor, b"its own\n")
        assert said(execution) == (0, "its own\n", "")


MANAGER = """
import os, select, sys
from pathlib import Path
from wharfinger.core import actions as act, events as ev
from wharfinger.engines.local import LocalEngine
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType

engine = LocalEngine(Path(sys.argv[1]) / "state")
engine.open()
server = engine.poll()[0].server.name
workload = Workload("k", WorkloadType.SINGLE_NODE, Run(("sleep", "300")))
engine.perform(act.StartWorkload("k", workload, (Placement(server, Allocation(100, 32 << 20)),)))
while not any(isinstance(report, ev.WorkloadStarted) for report in engine.poll(1.0)):
    pass
execution = engine.execute("k", ("sh", "-c", "id -un; echo $$; exec sleep 300"))
data = b""
while data.count(b"\\n") < 2:
    select.select([execution.stdout], [], [])
    data += os.read(execution.stdout, 100)
print(data.decode(), end="", flush=True)
sys.stdin.read()
execution.close()
engine.perform(act.StopWorkload("k", 0.0))
while not any(isinstance(report, ev.WorkloadFinished) for report in engine.poll(1.0)):
    pass
engine.perform(act.ForgetWorkload("k"))
engine.close()
"""


def test_it_ends_with_a_manager_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    command = [sys.executable, "-c", MANAGER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as manager:
        assert manager.stdout is not None
        manager.stdout.readline()
        pid = int(manager.stdout.readline())
        manager.kill()
    wait_until(lambda: is_gone(pid), what="it is gone")
    with session(tmp_path) as cluster:
        assert cluster.engine.usage().keys() == {"k"}, "its workload is not"


@pytest.mark.root
def test_an_ordinary_users_manager_can_do_so_too() -> None:
    with ordinary_user() as user:
        done = subprocess.run(
            [*AS_NOBODY, user.python, "-c", MANAGER, str(user.folder)],
            env=user.env,
            input="",
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
        assert (done.returncode, done.stdout.split()[:1]) == (0, ["nobody"]), done.stderr
