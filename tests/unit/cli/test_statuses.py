"""What lists say of a workload and a server, in the words of operators."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wharfinger.cli.describe import describe_server
from wharfinger.cli.output import GrowingTable, column
from wharfinger.cli.statuses import moment, server_status, workload_status
from wharfinger.cli.tables import state_of
from wharfinger.cli.workload_text import runs_text

FREE = {"cordoned": False, "draining": False, "cordon_reason": ""}


def workload(phase: str, reason: str = "", **others: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(("exit_code", "signal", "ready", "due_at", "not_before"))
    no = {"stopping": False, "paused": False}
    return {"phase": phase, "reason": reason, **no, **unknown, **others}


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (workload("running"), "running"),
        (workload("running", ready=True), "running"),
        (workload("running", "not-ready", ready=False), "running (not ready)"),
        (workload("running", "recommended"), "running (adjustment recommended)"),
        (workload("running", stopping=True), "stopping"),
        (workload("adjusting"), "running (being resized)"),
        (workload("suspended", "suspended-for-target"), "suspended for a neighbor"),
        (workload("suspended", "paused", paused=True), "suspended by its user"),
        (workload("queued", "paused", paused=True), "suspended by its user"),
        (workload("queued"), "waiting: its turn"),
        (workload("queued", "no-room"), "waiting: no room"),
        (workload("queued", "interference"), "waiting: would slow others"),
        (workload("queued", "dependency"), "waiting: others first"),
        (workload("queued", "restarting"), "restarting"),
        (workload("submitted", "dependency"), "waiting: others first"),
        (workload("submitted"), "submitted"),
        (workload("admitted", "no-room"), "waiting: no room"),
        (workload("classifying"), "profiling"),
        (workload("completed", exit_code=0), "completed"),
        (workload("failed", "exited", exit_code=3), "failed (exit 3)"),
        (workload("failed", "out-of-memory", signal=9), "failed (signal 9, out of memory)"),
        (workload("failed", "start-failed"), "failed: start failed"),
        (workload("rejected", "too-large"), "rejected: too large"),
        (workload("revoked"), "stopped"),
    ],
)
def test_a_workloads_status_says_what_keeps_it_from_more(record: dict[str, Any], words: str):
    assert workload_status(record) == words


def test_times_to_come_are_told_as_people_say_them():
    soon = workload("queued", "restarting", not_before=in_seconds(4.4))
    assert workload_status(soon) == "restarting in 4 s"
    due = in_seconds(3600)
    assert workload_status(workload("submitted", "scheduled", due_at=due)) == (
        f"scheduled {due[11:16]}Z"
    )
    assert moment("2126-01-02T03:04:05.678Z") == "2126-01-02 03:04Z"


def test_a_servers_status_says_whether_it_takes_work():
    server = {"accepting": True, "unsettled": False, "workloads": 2, **FREE}
    assert server_status(server) == "accepting"
    assert server_status(server | {"unsettled": True}) == "settling"
    assert server_status(server | {"accepting": False}) == "takes nothing new"
    cordoned = server | {"accepting": False, "cordoned": True, "cordon_reason": "new disk"}
    assert server_status(cordoned) == "cordoned"
    assert server_status(cordoned | {"draining": True}) == "draining (2 left)"
    assert server_status(cordoned | {"draining": True, "workloads": 0}) == "drained"
    whole = {
        **cordoned, "name": "s", "platform": "p", "zone": "", "cpus": 1, "cpus_allocated": 0,
        "cpus_others": 0, "memory_others_bytes": 0, "labels": {"gpu": "a100"},
        "memory_bytes": 1, "memory_allocated_bytes": 0, "copies": 0, "conditions": [],
        "pressure": [], "residents": [],
    }  # fmt: skip
    told = describe_server(whole)
    assert "Cordoned:   yes: new disk" in told
    assert "Labels:     gpu=a100" in told
    assert "CPUs:       0 of 1 allocated\n" in told
    shared = describe_server(whole | {"cpus_others": 0.5, "memory_others_bytes": 2**20})
    assert "CPUs:       0 of 1 allocated, others hold 0.5\n" in shared
    assert "others hold 1Mi" in shared


def test_earlier_runs_are_told_one_a_line():
    run = workload("failed", "exited", exit_code=1) | {
        "run": 1, "ended_at": "2026-11-22T17:31:05.123Z", "run_seconds": 75.0, "restarts": 2,
        "cpu_seconds": None, "memory_peak_bytes": 2**20, "achieved": None, "met": False,
        "message": "exit status 1: no such file",
    }  # fmt: skip
    line = runs_text([run]).splitlines()[1]
    assert line.startswith("1    2026-11-22 17:31:05Z  failed (exit 1)  1m15s  2 ")
    assert line.endswith("exit status 1: no such file")


def test_a_table_that_grows_keeps_its_columns():
    growing = GrowingTable([column("NAME"), column("WHY")])
    assert growing.text([{"name": "a", "why": "x"}]) == "NAME  WHY\na     x"
    assert growing.text([{"name": "longer", "why": "y"}]) == "longer  y"
    assert growing.text([{"name": "b", "why": "z"}]) == "b       z"


def test_what_only_time_changes_is_no_change():
    server = {
        "name": "s", "platform": "p", "cpus": 1, "cpus_allocated": 0, "memory_bytes": 1,
        "memory_allocated_bytes": 0, "workloads": 0, "accepting": True, "unsettled": False,
        "cpus_others": 2, "memory_others_bytes": 0, "conditions": [], **FREE,
    }  # fmt: skip
    state = state_of("servers")
    assert state(server) != state(server | {"workloads": 1})
    queue = {"name": "q", "length": 1, "first": "w", "oldest_wait_seconds": 3.0}
    queue |= {"servers": 2, "free_servers": 1, "expected_wait_seconds": 1.0, "load_factor": 0.5}
    state = state_of("queues")
    assert state(queue) == state(queue | {"oldest_wait_seconds": 4.0, "load_factor": 0.6})
    assert state(queue) != state(queue | {"free_servers": 0})
