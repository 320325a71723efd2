"""Commands beside a workload's program, run over the API by a real manager."""

import base64
import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, kill_processes_with, manifest, processes_with
from wharfinger.service.listening import connect

LASTING, BESIDE = f"1000077{os.getpid()}.5", f"1000088{os.getpid()}.5"
"""How long programs sleep, by which they are found, and are no other test's of this machine."""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    manager = LiveManager(tmp_path / "state", "--servers", "one=0")
    manager.start()
    run = {
        "command": ["sh", "-c", f"echo started; exec sleep {LASTING}"],
        "env": {"GREETING": "hello"},
        "workingDir": str(tmp_path),
    }
    manager.submit(manifest("a", "x", run=run))
    wait_until(lambda: begin(manager, "true")[0] == 200, what="the workload runs")
    try:
        yield manager
    finally:
        manager.kill()
        kill_processes_with(str(tmp_path))


def begin(manager: LiveManager, *command: str) -> tuple[int, http.client.HTTPResponse]:
    """A command that is begun, and its answer, which is to be read."""
    connection = http.client.HTTPConnection("wharfinger")
    connection.sock = connect(manager.state / "socket", 120.0)
    body = json.dumps({"command": command})
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/workloads/a/exec", body, headers)
    response = connection.getresponse()
    return response.status, response


def execute(manager: LiveManager, *command: str) -> tuple[dict[str, str], int]:
    """What a command prints, by stream, and its status."""
    status, response = begin(manager, *command)
    assert status == 200, response.read()
    *pieces, end = map(json.loads, response.read().splitlines())
    printed = {"stdout": "", "stderr": ""}
    for piece in pieces:
        printed[piece["name"]] += base64.b64decode(piece["data"]).decode()
    assert end["name"] == "end"
    return printed, end["status"]


def test_a_command_has_the_programs_environment_and_directory(manager: LiveManager, tmp_path: Path):
    printed, status = execute(manager, "sh", "-c", "echo $GREETING; pwd; echo wrong >&2; exit 3")
    assert printed == {"stdout": f"hello\n{tmp_path}\n", "stderr": "wrong\n"}
    assert status == 3


def test_a_command_is_in_the_programs_cgroup(manager: LiveManager):
    (program,) = processes_with(LASTING)
    theirs = Path(f"/proc/{program}/cgroup").read_text()
    printed, status = execute(manager, "cat", "/proc/self/cgroup")
    assert (printed["stdout"], status) == (theirs, 0)


def test_much_output_comes_whole(manager: LiveManager):
    printed, status = execute(manager, "sh", "-c", "seq 200000")
    assert (printed["stdout"].count("\n"), status) == (200_000, 0)


def test_output_is_streamed(manager: LiveManager):
    _, response = begin(manager, "sh", "-c", f"echo first; exec sleep {BESIDE}")
    first: dict[str, Any] = json.loads(response.readline())
    assert base64.b64decode(first["data"]) == b"first\n"
    response.close()


def test_a_program_that_there_is_not_has_a_status_of_its_own(manager: LiveManager):
    printed, status = execute(manager, "no-such-program")
    assert status == 127
    assert "no-such-program" in printed["stderr"]


def test_a_command_ends_with_its_client(manager: LiveManager):
    _, response = begin(manager, "sh", "-c", f"echo begun; exec sleep {BESIDE}")
    response.readline()
    assert processes_with(BESIDE)
    response.close()
    wait_until(lambda: not processes_with(BESIDE), what="the command has ended")


@pytest.mark.long
def test_a_manager_that_ends_ends_commands_and_no_workloads(manager: LiveManager):
    _, response = begin(manager, "sh", "-c", f"echo begun; exec sleep {BESIDE}")
    response.readline()
    assert manager.stop() == 0
    assert b'"end"' not in response.read()
    wait_until(lambda: not processes_with(BESIDE), what="the command has ended")
    assert processes_with(LASTING)
    manager.start()
    manager.clear()
