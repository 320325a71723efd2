"""``wharfinger run``: a program under the manager is used as one without it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, kill_processes_with

TOKEN = "0123456789abcdef"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    """A manager that serves TCP too, and at the end nothing of what it ran."""
    options = ("--servers", "one=0", "--listen", "127.0.0.1:0")
    manager = LiveManager(tmp_path / "state", *options, env={"WHARFINGER_TOKEN": TOKEN})
    manager.start()
    try:
        yield manager
        manager.run("delete", "--all", "--wait")
        assert manager.stop() == 0
        assert "Traceback" not in manager.errors()
    finally:
        manager.kill()
        kill_processes_with(str(tmp_path))


def begun(
    manager: LiveManager, *arguments: str, stdout: int = subprocess.PIPE
) -> "subprocess.Popen[str]":
    """A call of ``run`` that goes on."""
    return subprocess.Popen(
        [sys.executable, "-m", "wharfinger", "run", "--state", str(manager.state), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads here
    )


def done(manager: LiveManager, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a call."""
    process = begun(manager, *arguments)
    out, errors = process.communicate(timeout=120)
    return process.returncode, out, without_waiting(errors)


def without_waiting(errors: str) -> str:
    """Without what is told on a machine that is busy, where a start takes its time."""
    return re.sub(r"^wharfinger: \S+ is [a-z]+(: .*)?\n", "", errors, flags=re.MULTILINE)


@pytest.mark.long
def test_output_and_exit_status_are_the_programs(manager: LiveManager):
    assert done(manager, "--", "sh", "-c", "echo hello; echo there; exit 7") == (
        7,
        "hello\nthere\n",
        "",
    )
    assert done(manager, "true") == (0, "", "")
    (first, _) = manager.workloads().values()
    assert first["name"].startswith("sh-")
    assert (first["type"], first["phase"], first["exit_code"]) == ("batch", "failed", 7)


@pytest.mark.long
def test_a_program_that_a_signal_ends(manager: LiveManager):
    status, out, errors = done(
        manager, "--name", "dies", "--", "sh", "-c", "echo so; kill -KILL $$"
    )
    assert (status, out) == (137, "so\n")
    assert errors.startswith("wharfinger: dies failed: ")


@pytest.mark.long
def test_it_runs_here_with_what_it_is_given(manager: LiveManager, tmp_path: Path):
    here = Path.cwd()
    program = ("sh", "-c", "pwd; echo $A $B")
    environment = {**os.environ, "B": "of mine"}
    process = subprocess.run(
        [sys.executable, "-m", "wharfinger", "run", "--state", str(manager.state),
         "--env", "A=given", "--env", "B", "--", *program],
        capture_output=True, text=True, check=True, env=environment, timeout=120,
    )  # fmt: skip
    assert process.stdout == f"{here}\ngiven of mine\n"
    assert done(manager, "--workdir", str(tmp_path), "--", "pwd")[1] == f"{tmp_path}\n"


@pytest.mark.long
def test_output_comes_as_it_is_written(manager: LiveManager, tmp_path: Path):
    go_on = tmp_path / "go-on"
    process = begun(
        manager,
        "--",
        "sh",
        "-c",
        f"echo first; while ! [ -e {go_on} ]; do sleep .1; done; echo last",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    go_on.touch()
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "last\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_it_and_waits(manager: LiveManager, number: signal.Signals):
    script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep .1; done"
    process = begun(manager, "--name", "svc", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    out, errors = process.communicate(timeout=120)
    # A shell may tell of its child that was terminated before it says bye.
    assert (process.returncode, out.split()[-1:]) == (5, ["bye"]), errors
    assert "up" not in out, "what was written before is not written again"
    assert "stopping svc; once more leaves it to itself" in errors
    assert manager.workloads()["svc"]["phase"] == "revoked"


@pytest.mark.long
def test_a_second_interrupt_leaves_it(manager: LiveManager):
    process = begun(
        manager,
        "--name",
        "svc",
        "--",
        "sh",
        "-c",
        "trap '' TERM; echo up; while :; do sleep .1; done",
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    assert any(line.startswith("wharfinger: stopping svc") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "svc was asked to stop and is left to it" in errors


@pytest.mark.long
def test_it_says_why_it_waits(manager: LiveManager):
    assert (
        done(manager, "--detach", "--name", "big", "--cpu", "1", "--", "sleep", "600")[1] == "big\n"
    )
    manager.wait_for(lambda found: found["big"]["phase"] == "running")
    process = begun(manager, "--name", "next", "--cpu", "1", "--", "echo", "there")
    assert process.stderr is not None
    assert any(line.startswith("wharfinger: next is queued: ") for line in process.stderr)
    manager.run("stop", "big")
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "there\n")


def test_a_name_that_runs_is_not_taken_over(manager: LiveManager):
    assert done(manager, "--detach", "--name", "svc", "--", "sleep", "600")[0] == 0
    status, _, errors = done(manager, "--name", "svc", "--", "sleep", "600")
    assert status == 125
    assert "workload 'svc' runs already; `wharfinger logs -f svc` follows it" in errors


@pytest.mark.long
def test_the_same_name_runs_again_with_its_own_output(manager: LiveManager):
    for _ in range(2):
        assert done(manager, "--name", "job", "--", "echo", "once") == (0, "once\n", "")
    assert manager.workloads()["job"]["run"] == 2


def test_it_is_removed_at_its_end_if_asked(manager: LiveManager):
    assert done(manager, "--rm", "--", "sh", "-c", "exit 3")[0] == 3
    assert manager.workloads() == {}


@pytest.mark.long
def test_a_target_makes_the_type(manager: LiveManager):
    common = ("--detach", "--profile", "none")
    done(
        manager,
        *common,
        "--name",
        "svc",
        "--p99",
        "5ms",
        "--throughput",
        "1k/s",
        "--",
        "sleep",
        "600",
    )
    done(manager, *common, "--name", "job", "--within", "10m", "--", "sleep", "600")
    found = manager.workloads()
    assert (found["svc"]["type"], found["job"]["type"]) == ("latency-critical", "batch")
    assert found["job"]["target"]["completion_seconds"] == 600


def test_a_program_that_is_not_there_is_told(manager: LiveManager):
    status, out, errors = done(manager, "--", "/no/such/program")
    assert (status in (2, 125), out) == (True, "")
    assert "/no/such/program" in errors


@pytest.mark.long
def test_a_reader_that_has_seen_enough_stops_it(manager: LiveManager):
    run = f"{sys.executable} -m wharfinger run --state {manager.state}"
    command = f"{run} --name endless -- yes | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, without_waiting(done.stderr)) == ("y\n", "")
    manager.wait_for(lambda found: found["endless"]["phase"] == "revoked")


def test_it_survives_another_manager(manager: LiveManager, tmp_path: Path):
    go_on = tmp_path / "go-on"
    process = begun(
        manager,
        "--name",
        "job",
        "--",
        "sh",
        "-c",
        f"echo first; while ! [ -e {go_on} ]; do sleep .1; done; echo last",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    manager.kill()
    manager.start()
    go_on.touch()
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "last\n"), errors


@pytest.mark.long
def test_from_another_machine(manager: LiveManager, tmp_path: Path):
    port = (
        next(line for line in manager.announced if line.startswith("listening"))
        .rpartition(":")[2]
        .strip()
    )
    command = [sys.executable, "-m", "wharfinger", "--server", f"http://127.0.0.1:{port}"]
    environment = {**os.environ, "WHARFINGER_TOKEN": TOKEN}

    def remote(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, check=False,
            timeout=120, input=text, cwd=tmp_path,
        )  # fmt: skip

    ran = remote("run", "--name", "there", "--", "sh", "-c", "pwd; sleep .5; exit 4")
    assert (ran.returncode, ran.stdout) == (4, "/\n")
    assert without_waiting(ran.stderr) == ""
    warned = remote("run", "--workdir", "tmp", "--", "pwd")
    assert warned.stdout == "/tmp\n"
    assert "'tmp' is taken from / on the manager's machine" in warned.stderr
    followed = remote("logs", "-f", "there")
    assert followed.stdout == "/\n"
    document = {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "file"},
        "spec": {"type": "batch", "run": {"command": ["pwd"], "workingDir": "tmp"}},
    }
    submitted = remote("submit", "-f", "-", "--wait", text=json.dumps(document))
    assert submitted.returncode == 0, submitted.stderr
    assert "spec.run.workingDir: 'tmp' is taken from /" in submitted.stderr
    assert remote("delete", "there", "file", "--wait").returncode == 0
    stopped = remote("down")
    assert (stopped.returncode, stopped.stdout) == (0, "manager stopped\n")
    wait_until(lambda: manager.process is not None and manager.process.poll() == 0)
    manager.kill()
    manager.start()
