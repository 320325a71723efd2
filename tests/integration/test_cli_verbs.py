"""Commands that change what runs: apply, wait, stop, restart, suspend, drain, down, history."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, as_file, kill_processes_with, manifest, processes_with


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    """A manager, and at the end nothing of what it ran."""
    manager = LiveManager(tmp_path / "state", "--servers", "one=0")
    manager.start()
    try:
        yield manager
        if manager.process is not None:
            manager.run("delete", "--all", "--wait")
            assert manager.stop() == 0
        assert "Traceback" not in manager.errors()
    finally:
        manager.kill()
        kill_processes_with(str(tmp_path))


def shell(name: str, script: str, **spec: Any) -> dict[str, Any]:
    return manifest(name, "sh", "-c", script, profile={"mode": "none"}, **spec)


def running(manager: LiveManager, *names: str) -> None:
    """Submit services that only sleep, and wait until they run."""
    manager.submit(*(shell(name, "exec sleep 600") for name in names))
    manager.run("wait", *names, "--for", "running", "--timeout", "100s")


@pytest.mark.long
def test_an_ended_job_runs_again_and_its_new_run_is_waited_for(
    manager: LiveManager, tmp_path: Path
):
    count, held = tmp_path / "count", tmp_path / "held"
    script = f"echo x >> {count}; while [ -e {held} ]; do sleep .1; done"
    job = as_file(shell("job", script))
    for run in (1, 2):
        manager.run("submit", "-f", "-", "--wait", text=job)
        assert len(count.read_text().split()) == run
    held.touch()
    assert manager.run("submit", "-f", "-", text=job) == "workload/job run 3 begins\n"
    assert manager.run("submit", "-f", "-", text=job) == "workload/job unchanged\n"
    held.unlink()
    manager.run("wait", "job", "--timeout", "100s")
    out = manager.run("submit", "-f", "-", "--once", "--wait", text=job)
    assert "completed" in out
    assert len(count.read_text().split()) == 3
    runs = json.loads(manager.run("history", "job", "-o", "json"))
    assert [run["run"] for run in runs] == [1, 2, 3]
    table = manager.run("history", "--limit", "2").splitlines()
    assert table[0].split()[:4] == ["NAME", "RUN", "STATUS", "EXIT"]
    assert [line.split()[1] for line in table[1:]] == ["2", "3"]


@pytest.mark.long
def test_applying_makes_all_as_the_file_says(manager: LiveManager):
    first = shell("a", "exec sleep 600")
    out = manager.run("apply", "-f", "-", text=as_file(first))
    assert out == "workload/a created\n"
    assert manager.run("apply", "-f", "-", text=as_file(first)) == "workload/a unchanged\n"
    manager.run("wait", "a", "--for", "running", "--timeout", "100s")
    changed = shell("a", "exec sleep 600", priority=4)
    shown = manager.run("apply", "-f", "-", "--dry-run", text=as_file(changed))
    assert "workload/a would be updated" in shown
    assert manager.workloads()["a"]["priority"] == 0
    assert "spec.priority  0     4" in shown
    assert manager.run("apply", "-f", "-", text=as_file(changed)) == "workload/a updated\n"
    assert manager.workloads()["a"]["priority"] == 4
    other = shell("a", "exec sleep 601", priority=4)
    out = manager.run("apply", "-f", "-", text=as_file(other, shell("b", "true")))
    assert out == "workload/a replaced: run 2 begins\nworkload/b created\n"
    manager.wait_for(lambda found: (found["a"]["run"], found["a"]["phase"]) == (2, "running"))


@pytest.mark.long
def test_how_a_workload_is_adjusted_is_applied_while_it_runs(manager: LiveManager):
    manager.run("apply", "-f", "-", text=as_file(shell("a", "exec sleep 600")))
    manager.run("wait", "a", "--for", "running", "--timeout", "100s")
    before, changed = manager.workloads()["a"], shell("a", "exec sleep 600", adapt="recommend")
    shown = manager.run("apply", "-f", "-", "--dry-run", text=as_file(changed))
    assert "workload/a would be updated" in shown
    assert "spec.adapt  auto  recommend" in shown
    assert manager.run("apply", "-f", "-", text=as_file(changed)) == "workload/a updated\n"
    after = manager.workloads()["a"]
    assert (after["run"], after["started_at"]) == (1, before["started_at"]), "it runs on"


def test_several_files_are_applied_whole_or_not_at_all(manager: LiveManager, tmp_path: Path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(as_file(shell("a", "true")))
    bad.write_text(as_file(shell("b", "true", priority="high")))
    errors = manager.run("apply", "-f", str(good), "-f", str(bad), status=2)
    assert errors.startswith(f"wharfinger: {bad}:1: spec.priority: ")
    assert manager.workloads() == {}


@pytest.mark.long
def test_an_update_shows_what_it_would_change(manager: LiveManager):
    running(manager, "a")
    manager.run("update", "a", "--adapt", "off")
    manager.run("update", "a", "--adapt", "auto")
    errors = manager.run("update", "a", "--adapt", "on", status=2)
    expected = "wharfinger: spec.adapt: 'on' is not one of off, recommend, auto; write auto\n"
    assert errors == expected
    shown = manager.run("update", "a", "--priority", "7", "--dry-run")
    assert "workload/a would be updated" in shown
    assert "spec.priority" in shown
    assert manager.workloads()["a"]["priority"] == 0
    shown = json.loads(manager.run("update", "a", "--priority", "7", "--dry-run", "-o", "json"))
    assert [change["name"] for change in shown["changes"]] == ["spec.priority"]


@pytest.mark.long
def test_waiting_ends_when_it_holds_or_no_longer_can(manager: LiveManager):
    manager.submit(
        shell("good", "sleep .2"), shell("bad", "exit 7"), shell("long", "exec sleep 600")
    )
    manager.run("wait", "good", "--timeout", "100s")
    manager.run("wait", "good", "bad", "--for", "ended", "--timeout", "100s")
    errors = manager.run("wait", "long", "bad", status=3)
    assert errors == "wharfinger: not completed: bad is failed\n"
    errors = manager.run("wait", "bad", "--for", "running", status=3)
    assert errors == "wharfinger: not running: bad is failed\n"
    manager.run("wait", "long", "--for", "running", "--timeout", "100s")
    errors = manager.run("wait", "long", "--timeout", "0.3s", status=3)
    assert errors == "wharfinger: not completed: long is running when the time was over\n"
    manager.run("wait", "long", "--for", "ready", "--timeout", "100s")
    errors = manager.run("wait", "long", "nobody", status=1)
    assert errors == "wharfinger: no workload 'nobody'\n"


@pytest.mark.long
def test_stopping_keeps_the_record_and_deleting_does_not(manager: LiveManager):
    running(manager, "a", "b")
    assert manager.run("stop", "a", "--wait") == "workload/a stopped\n"
    assert manager.workloads()["a"]["phase"] == "revoked"
    assert manager.run("delete", "b", "--wait") == "workload/b deleted\n"
    assert manager.workloads().keys() == {"a"}
    assert manager.run("delete", "a") == "workload/a deleted\n"
    errors = manager.run("stop", "a", "b", status=1)
    assert errors == "wharfinger: no workload 'a'\n"


def test_labels_choose(manager: LiveManager):
    documents = [shell(name, "exec sleep 600") for name in ("a", "b", "c")]
    for document in documents[:2]:
        document["metadata"]["labels"] = {"team": "web"}
    manager.submit(*documents)
    manager.run("wait", "-l", "team=web", "--for", "running", "--timeout", "100s")
    out = manager.run("stop", "-l", "team=web", "--wait")
    assert out == "workload/a stopped\nworkload/b stopped\n"
    assert manager.run("delete", "-l", "team=web") == "workload/a deleted\nworkload/b deleted\n"
    assert manager.workloads().keys() == {"c"}
    errors = manager.run("restart", "-l", "team=web", status=1)
    assert errors == "wharfinger: no workload has the label team=web\n"


@pytest.mark.long
def test_an_arrays_name_stands_for_its_members(manager: LiveManager):
    manager.run("submit", "-f", "-", text=as_file(shell("many", "exec sleep 600", array="1-3")))
    manager.run("wait", "many", "--for", "running", "--timeout", "100s")
    manager.run("stop", "many")
    manager.run("wait", "many", "--for", "ended", "--timeout", "100s")
    assert {w["phase"] for w in manager.workloads().values()} == {"revoked"}
    manager.run("delete", "many", "--wait")
    assert manager.workloads() == {}


@pytest.mark.long
def test_a_restart_starts_the_program_again_in_the_same_run(manager: LiveManager):
    running(manager, "a")
    assert manager.run("restart", "a") == "workload/a restarting\n"
    found = manager.wait_for(
        lambda found: (found["a"]["starts"], found["a"]["phase"]) == (2, "running")
    )
    assert found["a"]["run"] == 1


@pytest.mark.long
def test_suspended_work_stands_still(manager: LiveManager, tmp_path: Path):
    ticks = tmp_path / "ticks"
    manager.submit(shell("a", f"while :; do echo x >> {ticks}; sleep .02; done"))
    manager.run("wait", "a", "--for", "running", "--timeout", "100s")
    assert manager.run("suspend", "a") == "workload/a suspended\n"
    manager.wait_for(lambda found: found["a"]["phase"] == "suspended")
    assert manager.workloads()["a"]["paused"] is True
    assert manager.run("resume", "a") == "workload/a resumed\n"
    manager.run("wait", "a", "--for", "running", "--timeout", "100s")


@pytest.mark.long
def test_a_cordoned_server_gets_no_new_work(manager: LiveManager):
    out = manager.run("cordon", "one", "--reason", "a disk fails")
    assert out == "server/one cordoned\n"
    manager.submit(shell("a", "true"))
    errors = manager.run("wait", "a", "--timeout", "1s", status=3)
    assert "a is " in errors
    (server,) = json.loads(manager.run("get", "servers", "-o", "json"))
    assert (server["cordoned"], server["cordon_reason"]) == (True, "a disk fails")
    assert manager.run("uncordon", "one") == "server/one uncordoned\n"
    manager.run("wait", "a", "--timeout", "100s")
    assert manager.run("cordon", "two", status=1) == "wharfinger: no server 'two'\n"


@pytest.mark.long
def test_draining_waits_for_what_can_not_be_migrated(manager: LiveManager):
    running(manager, "a")
    errors = manager.run("drain", "one", "--wait", "--timeout", "1s", status=3)
    why = "a on one (it is not restartable, so it stays until it ends or is stopped)"
    assert errors == f"wharfinger: waiting for {why}\nwharfinger: not drained: {why}\n"
    manager.run("stop", "a")
    assert manager.run("drain", "one", "--wait") == "server/one drained\n"
    manager.run("uncordon", "one")


@pytest.mark.long
def test_draining_does_not_wait_for_what_its_user_has_suspended(manager: LiveManager):
    moves = shell("moves", "exec sleep 600")
    moves["spec"]["run"]["restartable"] = True
    manager.submit(moves, shell("stays", "exec sleep 600"))
    manager.run("wait", "moves", "stays", "--for", "running", "--timeout", "100s")
    manager.run("suspend", "moves", "stays")
    manager.wait_for(lambda found: all(w["phase"] == "suspended" for w in found.values()))
    errors = manager.run("drain", "one", "--wait", "--timeout", "100s", status=3)
    assert errors.splitlines()[-1] == (
        "wharfinger: not drained: stays on one "
        "(suspended by its user and not restartable: resume or stop it)"
    )
    assert manager.workloads()["moves"]["phase"] == "queued"
    manager.run("uncordon", "one")
    manager.run("resume", "moves")
    manager.run("wait", "moves", "--for", "running", "--timeout", "100s")


@pytest.mark.long
def test_down_leaves_what_runs_and_stops_it_if_asked(manager: LiveManager):
    running(manager, "a")
    assert manager.process is not None
    assert manager.run("down") == "manager stopped\n"
    assert manager.process.poll() == 0, "it has ended when the command returns"
    manager.kill()
    manager.start()
    assert manager.workloads()["a"]["phase"] == "running"
    assert manager.run("down", "--all") == "manager stopped, with 1 workload\n"
    assert manager.process.poll() == 0
    manager.kill()
    manager.start()
    assert manager.workloads()["a"]["phase"] == "revoked"
    errors_before = manager.errors()
    assert "Traceback" not in errors_before


@pytest.mark.long
def test_a_command_runs_beside_a_workload(manager: LiveManager):
    document = shell("a", "exec sleep 600")
    document["spec"]["run"]["env"] = {"OF": "its own"}
    manager.submit(document)
    manager.run("wait", "a", "--for", "running", "--timeout", "100s")
    script = "pwd; echo $OF; cat; echo bad >&2; exit 7"
    process = manager.popen("exec", "a", "--", "sh", "-c", script)
    assert process.communicate(timeout=120) == ("/\nits own\n", "bad\n")
    assert process.returncode == 7
    assert manager.run("exec", "a", "--", "echo", "-n", "--", "x") == "-- x"
    assert "no workload 'b'" in manager.run("exec", "b", "--", "true", status=125)
    manager.run("stop", "a", "--wait")
    assert "does not run" in manager.run("exec", "a", "--", "true", status=125)


@pytest.mark.long
def test_what_is_piped_in_is_the_commands_input(manager: LiveManager, tmp_path: Path):
    running(manager, "a")
    assert manager.run("exec", "a", "--", "cat", text="hi\n") == "hi\n"
    assert manager.run("exec", "a", "--", "sh", text="echo $((6*7))\n") == "42\n"
    much = "x" * 3_000_000
    assert manager.run("exec", "-i", "a", "--", "wc", "-c", text=much) == "3000000\n"
    # What is not read, and an input that never ends, keep nobody waiting.
    assert manager.run("exec", "a", "--", "head", "-c", "1", text=much) == "x"
    reading, writing = os.pipe()
    try:
        line = [sys.executable, "-m", "wharfinger", "--state", str(manager.state)]
        command = [*line, "exec", "a", "--", "sh", "-c", "read x; echo $x; exit 5"]
        with subprocess.Popen(command, stdin=reading, stdout=subprocess.PIPE) as process:
            os.write(writing, b"first\n")
            assert process.communicate(timeout=120)[0] == b"first\n"
        assert process.returncode == 5
    finally:
        os.close(reading)
        os.close(writing)


def test_an_interrupt_ends_the_command(manager: LiveManager, tmp_path: Path):
    running(manager, "a")
    mark = tmp_path / "mark"
    process = manager.popen(
        "exec", "a", "--", "sh", "-c", f"echo on; exec tail -f /dev/null {mark}"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    wait_until(lambda: processes_with(f"/dev/null\0{mark}") == [])
