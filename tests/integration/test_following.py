"""Lists and streams that go on: watched by events, read by programs, and outliving a manager."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, kill_processes_with, manifest

GONE = "wharfinger: the manager is gone; waiting up to 60 s for the next\n"
BACK = "wharfinger: there is a manager again; going on\n"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    """A manager, and at the end nothing of what it ran."""
    manager = LiveManager(tmp_path / "state", "--servers", "one=0")
    manager.start()
    try:
        yield manager
        manager.run("delete", "--all", "--wait")
        assert manager.stop() == 0
    finally:
        manager.kill()
        kill_processes_with(str(tmp_path))


def labelled(name: str, *command: str, **labels: str) -> dict[str, Any]:
    document = manifest(name, *command)
    document["metadata"]["labels"] = labels
    return document


class Follower:
    """A command that goes on, and what it has printed so far, which goes to files."""

    def __init__(self, manager: LiveManager, directory: Path, *arguments: str) -> None:
        self._out, self._err = directory / "out", directory / "err"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wharfinger", *arguments, "--state", str(manager.state)],
            stdin=subprocess.DEVNULL,
            stdout=self._out.open("wb"),
            stderr=self._err.open("wb"),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads here
        )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def stop(self) -> None:
        """As a user's Ctrl-C would."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 130


def test_a_watch_tells_each_change_also_under_the_next_manager(
    manager: LiveManager, tmp_path: Path
):
    manager.submit(labelled("before", "true", tier="web"))
    manager.wait_for_all()
    watch = Follower(manager, tmp_path, "get", "wl", "-w", "-l", "tier!=test")
    wait_until(lambda: "before" in watch.out)
    go_on = tmp_path / "go-on"
    script = f"while ! [ -e {go_on} ]; do sleep 0.1; done"
    manager.submit(manifest("job", "sh", "-c", script), labelled("other", "true", tier="test"))
    manager.wait_for(lambda found: found["job"]["phase"] == "running")
    wait_until(lambda: "running" in watch.out)
    manager.kill()
    wait_until(lambda: GONE in watch.errors)
    manager.start()
    go_on.touch()
    wait_until(lambda: watch.out.count("completed") == 2)
    manager.run("delete", "job")
    wait_until(lambda: "deleted" in watch.out)
    watch.stop()
    assert watch.errors == GONE + BACK
    header, first, *changes = watch.out.splitlines()
    assert header.split()[:3] == ["NAME", "TYPE", "STATUS"]
    assert first.split()[:3] == ["before", "batch", "completed"]
    assert {line.split()[0] for line in changes} == {"job"}
    assert len(set(changes)) == len(changes)
    at = header.index("STATUS")
    assert [line[at:].split()[0] for line in changes][-3:] == ["running", "completed", "deleted"]


@pytest.mark.long
def test_a_stream_of_events_is_one_object_a_line_and_none_is_lost(
    manager: LiveManager, tmp_path: Path
):
    events = Follower(manager, tmp_path, "get", "ev", "a", "b", "--follow", "-o", "json")
    manager.submit(manifest("a", "true"))
    wait_until(lambda: "WorkloadFinished" in events.out)
    assert manager.stop() == 0
    wait_until(lambda: GONE in events.errors)
    manager.start()
    manager.submit(manifest("b", "true"))
    wait_until(lambda: events.out.count("WorkloadFinished") == 2)
    events.stop()
    told = [json.loads(line) for line in events.out.splitlines()]
    kept = json.loads(manager.run("get", "events", "a", "b", "-o", "json"))
    assert told == kept[: len(told)]
    assert {event["name"] for event in told} == {"a", "b"}


@pytest.mark.long
def test_output_is_followed_under_the_next_manager(manager: LiveManager, tmp_path: Path):
    script = "echo one; while ! [ -e go ]; do sleep 0.1; done; echo two"
    run = {"command": ["sh", "-c", script], "workingDir": str(tmp_path)}
    document = manifest("talks", "true")
    document["spec"]["run"] = run
    manager.submit(document)
    logs = Follower(manager, tmp_path, "logs", "talks", "-f")
    wait_until(lambda: logs.out == "one\n")
    manager.kill()
    wait_until(lambda: GONE in logs.errors)
    manager.start()
    (tmp_path / "go").touch()
    assert logs.process.wait(60) == 0
    assert (logs.out, logs.errors) == ("one\ntwo\n", GONE + BACK)


@pytest.mark.long
def test_lists_are_read_by_programs(manager: LiveManager):
    manager.submit(
        labelled("a", "true", tier="web", team="red"),
        labelled("b", "true", tier="web", team="blue"),
        manifest("c", "true"),
    )
    manager.wait_for_all()
    run = manager.run
    assert run("get", "wl", "-o", "name") == "workload/a\nworkload/b\nworkload/c\n"
    assert run("get", "wl", "-l", "tier=web,team!=red", "-o", "name") == "workload/b\n"
    assert run("get", "wl", "-l", "!tier", "-o", "name") == "workload/c\n"
    assert run("get", "wl", "--sort-by=-name", "-o", "jsonpath={[*].name}") == "c b a\n"
    template = 'jsonpath={[0].name} is {[0].phase}{"\\n"}'
    assert run("get", "workloads", "b", "-o", template) == "b is completed\n"
    assert run("get", "wl", "a", "--phase", "live", "-o", "json") == "[]\n"
    assert run("get", "wl", "nobody", "-w", status=1) == "wharfinger: no workload 'nobody'\n"
    assert run("get", "srv", "-o", "name") == "server/one\n"
    assert "no field 'nam'; there are name, " in run("get", "wl", "--sort-by", "nam", status=2)
    assert "no field 'nam'" in run("get", "wl", "-o", "jsonpath={[*].nam}", status=2)
    assert run("describe", "a") == run("describe", "workloads", "a") == run("describe", "wl", "a")
    assert run("describe", "one").startswith("Name: ")
    assert run("describe", "one", "-o", "jsonpath={.platform}") != ""
    assert run("describe", "nobody", status=1) == "wharfinger: no workload or server 'nobody'\n"
    manager.submit(manifest("one", "true"))
    errors = run("describe", "one", status=2)
    assert "'one' is a workload and a server; write e.g. describe workload one" in errors
    assert suggested(manager, "logs", "") == ["a", "b", "c", "one"]
    assert suggested(manager, "get", "servers", "") == ["one"]
    assert suggested(manager, "describe", "o") == ["one"]


def suggested(manager: LiveManager, *words: str) -> list[str]:
    line = "\x1f".join(("--state", str(manager.state), *words))
    command = [sys.executable, "-m", "wharfinger", "completion", f"--words={line}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.long
def test_a_crash_loop_is_followed_over_its_restarts_and_told(manager: LiveManager, tmp_path: Path):
    go_on = tmp_path / "go-on"
    waits = f"while ! [ -e {go_on} ]; do sleep 0.1; done"
    document = manifest("loops", "sh", "-c", f"echo begun; {waits}; echo no such file; exit 3")
    document["spec"]["run"]["restart"] = {"policy": "on-failure", "limit": 1, "backoff": "1s"}
    manager.submit(document)
    logs = Follower(manager, tmp_path, "logs", "loops", "-f")
    wait_until(lambda: logs.out == "begun\n", what="its first start is followed")
    go_on.touch()
    manager.wait_for(lambda found: found["loops"]["phase"] == "failed")
    assert logs.process.wait(60) == 0
    assert logs.out == "begun\nno such file\n" * 2
    assert logs.errors == "wharfinger: loops was started again\n"
    assert manager.run("logs", "loops", "-p") == "begun\nno such file\n"
    times = manager.run("logs", "loops", "--timestamps").splitlines()
    assert [line.partition("Z ")[2] for line in times] == ["begun", "no such file"]
    assert manager.run("logs", "loops", "--since", "1h") == "begun\nno such file\n"
    described = manager.run("describe", "loops")
    assert "failed (exit 3)" in described
    assert "Last output:  no such file" in described
    assert "Restarts:     1x, 1 of them in a row" in described
