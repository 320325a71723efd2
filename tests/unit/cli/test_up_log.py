"""What ``up`` writes on standard error."""

import json
import logging
import os
from pathlib import Path

import pytest

from tests.support.live import as_file, manifest
from tests.support.served import Served
from wharfinger.cli.client import Client
from wharfinger.cli.up_log import QUEUE_LINES, Lines, UpLog, level_of
from wharfinger.store.base import LogEntry


def events_of_one_workload(state: Path, *options: str) -> list[str]:
    """The lines that a manager writes while one workload is submitted and deleted."""
    served = Served(state, *options)
    client = Client(state)
    document = as_file(manifest("small", "true", profile={"mode": "none"})).encode()
    client.call("POST", "workloads", body=document, content_type="application/json")
    client.call("DELETE", "workloads", "small")
    status, errors = served.stop()
    assert status == 0, errors
    return errors.splitlines()


@pytest.mark.slow
def test_each_decision_is_a_line(tmp_path: Path):
    lines = events_of_one_workload(tmp_path / "state", "--log", "text", "--log-level", "info")
    lines = [line for line in lines if "given out" not in line]  # By another test.
    told = [line.split()[1:4] for line in lines]
    assert told[0] == ["info", "manager", "ManagerStarted"]
    assert ["info", "small", "WorkloadSubmitted"] in told
    assert ["info", "small", "WorkloadAdmitted"] in told
    assert all(line[4] == "-" and line[19] == "Z" for line in lines)


@pytest.mark.long
def test_each_line_of_json_is_an_object(tmp_path: Path):
    lines = events_of_one_workload(tmp_path / "state", "--log", "json", "--log-level", "debug")
    told = [one for one in map(json.loads, lines) if one["kind"]]
    sequences = [one["sequence"] for one in told]
    assert sequences == sorted(sequences)
    assert {"time", "level", "kind", "name", "message", "sequence"} == told[0].keys()
    assert ("small", "WorkloadSubmitted") in {(one["name"], one["kind"]) for one in told}


@pytest.mark.long
def test_less_is_logged_where_less_is_wanted(tmp_path: Path):
    assert events_of_one_workload(tmp_path / "a", "--log", "text", "--log-level", "error") == []
    assert events_of_one_workload(tmp_path / "b", "--log", "none") == []


def test_failures_are_warnings_and_measurements_are_details():
    assert level_of("WorkloadFinished", {"exit_code": 0}) == "info"
    assert level_of("WorkloadFinished", {"exit_code": 1}) == "warning"
    assert level_of("WorkloadFinished", {"exit_code": None}) == "warning"
    assert level_of("WorkloadVanished", {}) == "warning"
    assert level_of("ServerMeasured", {}) == "debug"
    assert level_of("WorkloadPlaced", {}) == "info"


def test_a_reader_that_reads_nothing_holds_nobody_up():
    reader, writer = os.pipe()
    lines, count = Lines(writer), 3 * QUEUE_LINES
    for number in range(count):
        lines.put(f"{number} {'x' * 100}")
    with os.fdopen(reader, "rb") as stream:
        read = [stream.readline() for _ in range(QUEUE_LINES // 2)]
        lines.put("later")
        while read[-1] != b"later\n":
            read.append(stream.readline())
        lines.close()
    os.close(writer)
    told = [line for line in read if b"were left out" in line]
    left_out = sum(int(line.split()[0]) for line in told)
    assert left_out > 0
    assert len(read) - len(told) - 1 + left_out == count


def test_a_reader_that_is_gone_is_no_fault():
    reader, writer = os.pipe()
    os.close(reader)
    lines = Lines(writer)
    lines.put("nobody hears this")
    lines.close()
    os.close(writer)


@pytest.mark.parametrize("form", ["text", "json", "none"])
def test_a_fault_of_the_process_is_one_line_with_its_place(form: str):
    reader, writer = os.pipe()
    lines = Lines(writer)
    log = UpLog(form, "info", lines)
    try:
        int("oops")
    except ValueError as error:
        fault = (type(error), error, error.__traceback__)
    log.emit(logging.LogRecord("x", logging.ERROR, "", 1, "it broke", None, fault))
    lines.close()
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    assert text.count("\n") == 1
    assert "error" in text
    assert "it broke; ValueError: invalid literal" in text
    assert "test_up_log.py:" in text


def test_measurements_are_logged_at_a_bounded_rate():
    reader, writer = os.pipe()
    lines = Lines(writer)
    log = UpLog("text", "debug", lines)
    data = {"server": "one", "samples": []}
    for second in range(25):
        entry = LogEntry(second + 1, 1_700_000_000.0 + second, "ServerMeasured", b"")
        event = {"name": "one", "kind": "ServerMeasured", "message": "", "data": data}
        log._tell(entry, event)
    lines.close()
    os.close(writer)
    with os.fdopen(reader) as stream:
        assert [line[17:19] for line in stream] == ["20", "30", "40"]
