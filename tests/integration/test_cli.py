"""The command line against a real manager with real programs, as a user would use it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, as_file, kill_processes_with, manifest
from tests.support.local import without_loader
from wharfinger.cli import format as fmt


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    """A manager, and at the end nothing of what it ran."""
    manager = LiveManager(tmp_path / "state", "--servers", "one=0")
    manager.start()
    try:
        yield manager
        manager.run("delete", "--all", "--wait")
        assert manager.stop() == 0
        assert "Traceback" not in manager.errors()
    finally:
        manager.kill()
        kill_processes_with(str(tmp_path))


def shell(name: str, script: str, **spec: Any) -> dict[str, Any]:
    return manifest(name, "sh", "-c", script, **spec)


def test_a_day_in_the_life_of_a_user(manager: LiveManager):
    assert manager.submit(shell("ok", "echo hello; exit 0")) == "workload/ok created\n"
    found = manager.wait_for_all()
    assert (found["ok"]["phase"], found["ok"]["exit_code"]) == ("completed", 0)
    assert manager.run("logs", "ok") == "hello\n"
    table = manager.run("get", "workloads").splitlines()
    assert table[0].split()[:3] == ["NAME", "TYPE", "STATUS"]
    assert table[1].split()[:3] == ["ok", "batch", "completed"]
    assert manager.run("delete", "ok") == "workload/ok deleted\n"
    assert manager.run("get", "workloads") == ""


@pytest.mark.long
def test_waiting_tells_whether_all_completed(manager: LiveManager):
    both = as_file(shell("good", "true"), shell("bad", "exit 7"))
    errors = manager.run("submit", "-f", "-", "--wait", text=both, status=3)
    assert errors == "wharfinger: not completed: bad is failed\n"
    out = manager.run("submit", "-f", "-", "--wait", "-o", "json", text=as_file(shell("c", "true")))
    assert [(w["name"], w["exit_code"]) for w in json.loads(out)] == [("c", 0)]
    slow = as_file(shell("slow", "sleep 600"))
    errors = manager.run("submit", "-f", "-", "--wait", "--timeout", "1s", text=slow, status=3)
    assert errors.startswith("wharfinger: not completed: slow is ")


def test_a_dry_run_shows_the_numbers_and_takes_nothing(manager: LiveManager):
    text = as_file(shell("a", "true"))
    shown = manager.run("submit", "-f", "-", "--dry-run", text=text)
    assert "workload/a would be created" in shown
    assert "admission by fifo: yes" in shown
    assert "profiling by joint-profiling: yes" in shown, "it is classified first, then placed"
    assert "if it were placed now (it has no target, and gets its reservation)" in shown
    (told,) = json.loads(manager.run("submit", "-f", "-", "--dry-run", "-o", "json", text=text))
    assert told["outlook"]["basis"] == "type"
    assert told["outlook"]["chosen"]["cpus"] > 0
    assert manager.workloads() == {}


PATIENT = """
import sys
from wharfinger.cli.client import Client
from wharfinger.cli.main import main
Client.wait_for_manager.__defaults__ = (100.0,)
sys.exit(main())
"""
"""A command that waits as long for a manager as one may take to start on a busy machine."""


def test_submissions_wait_for_a_manager_that_is_about_to_come(tmp_path: Path):
    manager = LiveManager(tmp_path / "state", "--servers", "one=0")
    file = tmp_path / "a.json"
    file.write_text(as_file(shell("a", "true")))
    command = ["submit", "-f", str(file), "--state", str(manager.state)]
    early = subprocess.Popen(
        [sys.executable, "-c", PATIENT, *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        manager.start()
        out, errors = early.communicate(timeout=120)
        assert (early.returncode, out, errors) == (0, "workload/a created\n", "")
        manager.wait_for_all()
        assert manager.stop() == 0
    finally:
        manager.kill()


def test_the_manifests_directory_is_the_users(manager: LiveManager, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    document = shell("where", "pwd")
    document["spec"]["run"]["workingDir"] = "sub"
    file = tmp_path / "where.json"
    file.write_text(json.dumps(document))
    command = [sys.executable, "-m", "wharfinger", "submit", "-f", file.name, "--wait"]
    state = ["--state", str(manager.state)]
    subprocess.run([*command, *state], cwd=tmp_path, check=True, capture_output=True)
    assert manager.run("logs", "where").strip() == str(tmp_path / "sub")


def test_several_files_are_handed_in_whole_or_not_at_all(manager: LiveManager, tmp_path: Path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(as_file(shell("a", "true")))
    bad.write_text(as_file(shell("b", "true", priority="high")))
    errors = manager.run("submit", "-f", str(good), "-f", str(bad), status=2)
    assert errors.startswith(f"wharfinger: {bad}:1: spec.priority: ")
    assert errors.count("\n") == 1
    errors = manager.run("submit", "-f", str(good), "-f", str(good), status=1)
    assert "workload 'a' is defined in" in errors
    assert manager.workloads() == {}


def test_output_is_followed_to_its_end_byte_by_byte(manager: LiveManager):
    script = "printf 'a\\0b\\377\\n'; sleep 0.3; printf '\\033[31mend'"
    manager.submit(shell("raw", script))
    command = [sys.executable, "-m", "wharfinger", "logs", "raw", "-f"]
    done = subprocess.run(
        [*command, "--state", str(manager.state)], capture_output=True, timeout=120, check=True
    )
    assert done.stdout == b"a\0b\xff\n\033[31mend"


@pytest.mark.long
def test_the_last_lines_are_found_in_much_output(manager: LiveManager):
    manager.submit(shell("many", "seq 100000"))
    manager.wait_for_all()
    assert manager.run("logs", "many", "--tail", "3") == "99998\n99999\n100000\n"
    assert manager.run("logs", "many", "--tail", "0") == ""
    assert manager.run("logs", "many", "--tail", "20000").splitlines()[0] == "80001"
    whole = manager.run("logs", "many").splitlines()
    assert whole[-1] == "100000"


def test_explain_and_describe_tell_an_operator_everything(manager: LiveManager):
    manager.submit(
        shell("big", "sleep 600", resources={"cpu": "900m", "memory": "64Mi"}),
        shell("waits", "true", resources={"cpu": "800m", "memory": "64Mi"}),
    )
    found = manager.wait_for(lambda found: found["big"]["phase"] == "running")
    # Whole CPUs where this machine gives its user no quota.
    given = fmt.cpus(found["big"]["cpus"])
    wait_until(lambda: "no room now" in manager.run("explain", "waits"), what="it was tried")
    text = manager.run("explain", "waits")
    assert text.startswith("waits waits: it is 1st of 1 in queue guaranteed")
    assert re.search(r"what would change it: (0\.8|1) CPU", text)
    running = manager.run("explain", "big")
    assert f"one ({given}, 64Mi memory)" in running
    everything = manager.run("explain", "big", "-o", "wide")
    assert "All that was decided, with the numbers" in everything
    described = manager.run("describe", "workload", "big")
    assert re.search(r"Status: +running", described)
    assert "workingDir:" in described
    server = manager.run("describe", "server", "one")
    assert f"{fmt.number(found['big']['cpus'])} of 1 allocated" in server
    assert "big" in server
    records = json.loads(manager.run("explain", "waits", "-o", "json"))
    assert records["waiting"]["now"][0]["candidates"][0]["name"] == "one"


def test_what_a_target_sizes_takes_changed_memory_and_says_that_changed_cpu_has_no_effect(
    manager: LiveManager,
):
    ticks = "i=0; while true; do i=$((i+1)); echo done=$i; sleep 0.2; done"
    progress = {"progress": {"regex": "done=([0-9]+)"}}
    # Nobody adjusts it: on a busy machine it may fall short of its target.
    target = {"target": {"rate": "5/s"}, "measure": progress, "adapt": "off"}
    target["profile"] = {"mode": "none"}
    manager.submit(shell("sized", ticks, **target))
    found = manager.wait_for(lambda found: found["sized"]["phase"] == "running")
    assert manager.run("update", "sized", "--memory", "80Mi") == "workload/sized updated\n"
    manager.wait_for(
        lambda found: (
            found["sized"]["memory_bytes"] == 80 * 2**20 and found["sized"]["phase"] == "running"
        )
    )
    out = manager.run("update", "sized", "--cpu", "900m")
    assert "workload/sized updated, but resources.cpu (0.9) does not change its CPU" in out
    after = json.loads(manager.run("get", "workloads", "sized", "-o", "json"))[0]
    assert after["cpus"] == found["sized"]["cpus"]


def test_a_running_workload_is_changed_in_place(manager: LiveManager):
    manager.submit(shell("a", "sleep 600"))
    manager.wait_for(lambda found: found["a"]["phase"] == "running")
    out = manager.run("update", "a", "--cpu", "250m", "--memory", "80Mi", "--priority", "4")
    assert out == "workload/a updated\n"
    found = manager.wait_for(lambda found: found["a"]["memory_bytes"] == 80 * 2**20)
    (server,) = json.loads(manager.run("get", "servers", "-o", "json"))
    whole = "no-cpu-quota" in [condition["name"] for condition in server["conditions"]]
    assert found["a"]["cpus"] == (1.0 if whole else 0.25)
    assert (found["a"]["priority"], found["a"]["starts"]) == (4, 1)
    errors = manager.run("update", "a", "--memory", "lots", status=2)
    assert "spec.resources.memory" in errors
    assert "'lots'" in errors


@pytest.mark.long
def test_top_shows_who_uses_the_cpu(manager: LiveManager):
    manager.submit(
        shell("busy", "while :; do :; done", resources={"cpu": "500m", "memory": "64Mi"}),
        shell("idle", "sleep 600", type="best-effort"),
    )
    manager.wait_for(lambda found: {w["phase"] for w in found.values()} == {"running"})

    def busy_first() -> bool:
        rows = json.loads(manager.run("top", "-o", "json"))
        used = {row["name"]: row["cpus_used"] or 0.0 for row in rows}
        return rows[0]["name"] == "busy" and used["busy"] > 5 * used["idle"]

    wait_until(busy_first)
    assert manager.run("top").splitlines()[0].startswith("NAME ")


@pytest.mark.long
def test_deleting_waits_until_the_stopped_are_gone(manager: LiveManager):
    manager.submit(shell("a", "sleep 600", type="best-effort"), shell("b", "true"))
    manager.wait_for(lambda f: (f["a"]["phase"], f["b"]["phase"]) == ("running", "completed"))
    assert manager.run("delete", "--all", "--phase", "ended") == "workload/b deleted\n"
    assert manager.run("delete", "a", "--wait") == "workload/a deleted\n"
    assert manager.workloads() == {}
    manager.submit(shell("a", "true"))
    errors = manager.run("delete", "a", "nobody", status=1)
    assert errors == "wharfinger: no workload 'nobody'\n"
    manager.wait_for(lambda found: found == {})


def settled(manager: LiveManager, kind: str) -> list[dict[str, Any]]:
    """A list that has stopped growing: what follows the end of a workload is told, too."""

    def look() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(manager.run("get", kind, "-o", "json"))
        return found

    lists = [look()]

    def is_settled() -> bool:
        lists.append(look())
        return len(lists[-1]) == len(lists[-2])

    wait_until(is_settled, what=f"no more {kind}")
    return lists[-1]


@pytest.mark.long
def test_lists_come_in_every_form(manager: LiveManager):
    manager.submit(shell("a", "true"))
    manager.wait_for_all()
    for kind in ("workloads", "servers", "platforms", "queues", "events"):
        items = settled(manager, kind)
        assert items
        assert all(next(iter(item)) == "name" for item in items)
        assert manager.run("get", kind, "-o", "yaml").startswith("- name: ")
        lines = manager.run("get", kind).splitlines()
        assert len(lines) == len(items) + 1
        assert len(manager.run("get", kind, "-o", "wide").splitlines()) == len(lines)
    assert json.loads(manager.run("get", "status", "-o", "json"))["name"] == "wharfinger"
    assert "Policy:     quasar" in manager.run("get", "status")


def test_events_are_followed(manager: LiveManager):
    follower = manager.popen("get", "events", "--follow", "a")
    try:
        manager.submit(shell("a", "true"))
        assert follower.stdout is not None
        kinds = []
        for line in follower.stdout:
            kinds.append(line.split()[4] if line[0].isdigit() else "")
            if "WorkloadFinished" in line:
                break
        assert "WorkloadSubmitted" in kinds
    finally:
        follower.send_signal(signal.SIGINT)
        _, errors = follower.communicate(timeout=60)
    assert (follower.returncode, errors) == (130, "")


def test_a_second_manager_is_refused_in_one_line(manager: LiveManager):
    errors = manager.run("up", status=1)
    assert re.fullmatch(r"wharfinger: a manager \(pid \d+\) already runs on .*\n", errors)
    assert manager.workloads() == {}


@pytest.mark.long
def test_a_managers_end_leaves_workloads_running(manager: LiveManager, tmp_path: Path):
    go_on = tmp_path / "go-on"
    manager.submit(shell("goes-on", f"while ! [ -e {go_on} ]; do sleep 0.1; done; exit 5"))
    manager.wait_for(lambda found: found["goes-on"]["phase"] == "running")
    assert manager.stop() == 0
    assert not (manager.state / "socket").exists()
    manager.start()
    go_on.touch()
    found = manager.wait_for_all()
    assert (found["goes-on"]["exit_code"], found["goes-on"]["starts"]) == (5, 1)


@pytest.mark.long
def test_a_thousand_workloads_come_in_one_file(manager: LiveManager):
    huge = {"cpu": 4096, "memory": "64Mi"}
    many = as_file(*(manifest(f"w{n}", "true", resources=huge) for n in range(1000)))
    out = manager.run("submit", "-f", "-", text=many)
    assert out.count(" created\n") == 1000
    # A workload waits in a queue once it is classified, which goes on after the answer.
    manager.wait_for(
        lambda workloads: (
            len(workloads) == 1000 and all(w["phase"] == "queued" for w in workloads.values())
        ),
        timeout_seconds=300,
    )
    queues = json.loads(manager.run("get", "queues", "-o", "json"))
    assert queues[0]["length"] == 1000


@pytest.mark.long
def test_what_a_workload_says_commands_no_terminal(manager: LiveManager, tmp_path: Path):
    document = shell("a", "true")
    document["metadata"]["labels"] = {"team": "web"}
    program = without_loader(tmp_path / "no\x1b]0;owned\x07program")
    document["spec"]["run"]["command"] = [str(program)]
    manager.submit(document)
    manager.wait_for_all()
    for command in (["get", "workloads", "-o", "wide"], ["describe", "workload", "a"],
                    ["explain", "a"], ["get", "events"]):  # fmt: skip
        shown = manager.run(*command)
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_progress_is_shown_on_a_terminal_only(manager: LiveManager, tmp_path: Path):
    file, go_on = tmp_path / "a.json", tmp_path / "go-on"
    file.write_text(as_file(shell("a", f"while ! [ -e {go_on} ]; do sleep 0.1; done")))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "wharfinger", "submit", "-f", str(file), "--wait", "--state",
         str(manager.state)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while select.select([ours], [], [], 60)[0]:
            piece = os.read(ours, 4096)
            shown += piece
            if b"0 of 1 done" in shown:
                go_on.touch()
            if not piece:
                break
    except OSError:
        pass  # how a pseudo terminal says that the other end is closed
    finally:
        os.close(ours)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"0 of 1 done" in shown
    assert b"\x1b" not in out.encode()


@pytest.mark.long
def test_a_manager_that_only_recommends_starts_nothing_and_says_what_it_would(tmp_path: Path):
    manager = LiveManager(tmp_path / "state", "--servers", "one=0", "--mode", "recommend")
    manager.start()
    try:
        manager.submit(shell("a", "true", target={"completionTime": "10m"}))
        found = manager.wait_for(lambda found: found["a"]["reason"] == "recommended")
        assert (found["a"]["phase"], found["a"]["starts"]) == ("queued", 0)
        text = manager.run("explain", "a")
        assert text.startswith("a is not started: this manager only recommends.")
        assert "What is recommended" in text
        assert "would be chosen" in text
        assert "Mode:       recommend" in manager.run("get", "status")
        assert manager.runs() == {}
        assert manager.stop() == 0
    finally:
        manager.kill()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--mode", "dream"), "'dream' is not a mode; there are act, recommend"),
        (("--confidence", "0.2"), "'0.2': write a probability from 0.5 to below 1"),
        (("--confidence", "sure"), "'sure': write a probability"),
    ],
)
def test_wrong_options_of_a_manager_are_refused(
    tmp_path: Path, option: tuple[str, str], words: str
):
    manager = LiveManager(tmp_path / "state")
    assert words in manager.run("up", *option, status=2)
