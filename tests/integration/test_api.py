"""The API of a real manager: its sockets, its life, and what it leaves behind."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, kill_processes_with, manifest
from wharfinger.cli.client import Client

IDLE_BYTES = 100 * 10**6


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    manager = LiveManager(tmp_path / "state", "--servers", "one=0")
    try:
        yield manager
    finally:
        manager.kill()
        kill_processes_with(str(tmp_path))


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def test_an_idle_manager_is_small_and_asleep(manager: LiveManager):
    manager.start()
    assert manager.process is not None
    assert resident_bytes(manager.process.pid) < IDLE_BYTES
    # Nothing but the answers themselves is logged: it is not kept busy by itself.
    client = Client(manager.state)

    def is_asleep() -> bool:
        before = client.get("status")["last_sequence"]
        return client.get("events", query={"after": before, "wait_seconds": 0.5}) == []

    wait_until(is_asleep, what="half a second without an event, once it has begun")
    assert manager.stop() == 0


def test_ready_is_the_last_line_and_comes_when_it_answers(manager: LiveManager):
    quiet = ("--log", "none", "--log-level", "error")
    process = subprocess.Popen(
        [sys.executable, "-m", "wharfinger", "up", "--state", str(manager.state), *quiet],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"state {manager.state}\n"
    assert process.stdout.readline() == "ready\n"
    assert Client(manager.state).get("status")["pid"] == process.pid
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    # Tests that run beside this one have managers of the same CPUs, of which it warns.
    own = [line for line in errors.splitlines() if "another manager" not in line]
    assert (process.returncode, out, own) == (0, "", [])


def test_a_killed_managers_socket_and_lock_are_taken_over(manager: LiveManager):
    manager.start()
    manager.submit(manifest("a", "sleep", "1"))
    manager.kill()
    assert (manager.state / "socket").exists()
    manager.start()
    assert manager.wait_for_all()["a"]["phase"] == "completed"
    assert manager.stop() == 0
    assert not (manager.state / "socket").exists()


def test_a_wrong_division_of_the_machine_is_refused(tmp_path: Path):
    manager = LiveManager(tmp_path / "state")
    errors = manager.run("up", "--servers", "nonsense!", status=2)
    assert errors.startswith("wharfinger: --servers")
    assert errors.count("\n") == 1
    assert not (tmp_path / "state" / "socket").exists()


@pytest.mark.long
def test_damage_is_told_loudly_and_the_manager_goes_on(manager: LiveManager):
    manager.start()
    manager.submit(manifest("a", "true"))
    manager.wait_for_all()
    manager.kill()
    log = manager.state / "manager.db"
    wal = manager.state / "manager.db-wal"
    for file in (log, wal):
        content = bytearray(file.read_bytes()) if file.exists() else bytearray()
        at = content.rfind(b"WorkloadFinished")
        if at >= 0:
            content[at] ^= 1
            file.write_bytes(content)
    manager.start()
    damage = Client(manager.state).get("status")["damage"]
    assert damage is not None
    assert "damage" in manager.errors().lower() or damage["message"] in manager.errors()
    told = manager.run("get", "events")
    assert "HistoryLost" in told
    # What the engine still knows is learned again.
    assert manager.wait_for_all()["a"]["phase"] in ("completed", "vanished")
    assert manager.stop() == 0


def test_the_environment_of_a_workload_is_shown_nowhere(manager: LiveManager):
    manager.start()
    run = {"command": ["sh", "-c", 'test "$SECRET" = hunter2-hunter2'], "env": {}}
    run["env"] = {"SECRET": "hunter2-hunter2"}
    document = manifest("a", "x", run={**run, "workingDir": "/"})
    manager.submit(document)
    assert manager.wait_for_all()["a"]["exit_code"] == 0
    for command in (["get", "events", "-o", "json"], ["explain", "a", "-o", "json"],
                    ["describe", "workload", "a"], ["get", "workloads", "-o", "wide"]):  # fmt: skip
        shown = manager.run(*command)
        assert '"SECRET": "***"' in shown or "***" in shown or command[0] == "get"
        assert "SECRET: hunter" not in shown
        assert '"SECRET": "hunter' not in shown
    assert manager.stop() == 0


def test_requests_go_on_while_workloads_run_and_end(manager: LiveManager):
    manager.start()
    manager.submit(*(manifest(f"w{n}", "sh", "-c", f"exit {n}") for n in range(20)))
    client = Client(manager.state)

    def all_ended() -> bool:
        return len(client.get("workloads", query={"phase": "ended"})) == 20

    wait_until(all_ended, 120)
    found = client.get("workloads")
    assert [w["exit_code"] for w in found] == list(range(20))
    events = client.get("events", query={"after": 0, "limit": 10000})
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert sum(event["kind"] == "WorkloadStarted" for event in events) == 20
    assert json.dumps(events)
    manager.run("delete", "--all")
    assert manager.stop() == 0
