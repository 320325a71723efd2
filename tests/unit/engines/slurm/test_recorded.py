"""What real clusters of three versions answered, and what is made of it, whole and damaged."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.slurm_recording import HOSTILE_COMMENT, HOSTILE_NAME
from wharfinger.engines.slurm.client import records
from wharfinger.engines.slurm.client.accounting import ends_of_jobcomp, ends_of_sacct
from wharfinger.engines.slurm.client.base import Accounting, Node, SlurmJob
from wharfinger.engines.slurm.client.client import (
    jobs_poll,
    nodes_poll,
    partitions_of,
    site_of,
    usage_of,
)
from wharfinger.errors import SlurmRefused, SlurmUnavailable

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
MIB = 1 << 20


def read(version: str, name: str) -> bytes:
    return (RECORDED / version / name).read_bytes()


def jobs_of(version: str) -> dict[str, SlurmJob]:
    jobs = jobs_poll().fold(read(version, "jobs.json"))
    return {job.name: job for job in jobs if job.name != "array"}


def test_three_versions_are_recorded():
    assert VERSIONS == ["22.05", "23.11", "24.11"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_site(version: str):
    site = site_of(read(version, "config.txt"))
    assert f"{site.version[0]}.{site.version[1]:02d}" == version
    assert site.accounting is Accounting.SLURMDBD
    assert site.min_job_age_seconds == 60
    assert site.slurm_user == "root"
    assert site.select_type == "select/cons_tres"


@pytest.mark.parametrize("version", VERSIONS)
def test_jobs_in_every_state(version: str):
    jobs = jobs_of(version)
    states = {name: job.state for name, job in jobs.items()}
    assert states == {
        "completed": "COMPLETED",
        "failed": "FAILED",
        "killed": "FAILED",
        "timeout": "TIMEOUT",
        "cancelled": "CANCELLED",
        "lost": "NODE_FAIL",
        "two-nodes": "RUNNING",
        "suspended": "SUSPENDED",
        "out-of-memory": states["out-of-memory"],
        "requeued": "PENDING",
        HOSTILE_NAME: "PENDING",
        "held": "PENDING",
        "waits": "PENDING",
        "licensed": "PENDING",
        "depends": "PENDING",
    }
    assert states["out-of-memory"] in {"FAILED", "OUT_OF_MEMORY", "CANCELLED"}
    held = {name for name, job in jobs.items() if job.held}
    assert held == {"requeued", HOSTILE_NAME, "held", "licensed"}
    assert {job.user for job in jobs.values()} == {"root"}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_told_of_jobs(version: str):
    jobs = jobs_of(version)
    assert (jobs["failed"].exit_code, jobs["failed"].signal) == (7, None)
    assert (jobs["killed"].exit_code, jobs["killed"].signal) == (0, 9)
    assert jobs["two-nodes"].exit_code is None
    assert jobs["two-nodes"].nodes == jobs["two-nodes"].required_nodes == ("n1", "n2")
    assert jobs["two-nodes"].memory_bytes == 100 * MIB
    assert jobs["two-nodes"].end_time is None
    assert jobs["timeout"].time_limit_seconds == 60
    assert jobs["timeout"].end_time > jobs["timeout"].start_time
    assert jobs["held"].time_limit_seconds == 1200
    assert (jobs["held"].cpus, jobs["held"].memory_bytes) == (2, 20 * MIB)
    assert jobs["held"].priority == 0
    assert jobs["waits"].state_reason == "Resources"
    assert (jobs["waits"].cpus, jobs["waits"].node_count) == (16, 6)
    assert jobs["requeued"].restarts == 1
    assert jobs["licensed"].licenses.startswith("solver")
    assert jobs["licensed"].features == "platform:wide"
    assert jobs["depends"].dependency.startswith(f"afterok:{jobs['two-nodes'].job_id}")
    assert jobs[HOSTILE_NAME].comment == HOSTILE_COMMENT


@pytest.mark.parametrize("version", VERSIONS)
def test_an_array_is_its_tasks_and_what_waits_of_it(version: str):
    jobs = jobs_poll().fold(read(version, "jobs.json"))
    waiting, running = sorted((job for job in jobs if job.name == "array"), key=lambda j: j.job_id)
    assert waiting.array_id == running.array_id == waiting.job_id
    assert (waiting.task_id, waiting.array_tasks, waiting.state) == (None, "1-9%1", "PENDING")
    assert (running.task_id, running.state) == (0, "RUNNING")


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes(version: str):
    nodes = {node.name: node for node in nodes_poll().fold(read(version, "nodes.json"))}
    assert list(nodes) == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert nodes["n3"].cpus == 4
    assert nodes["n3"].memory_bytes == 2048 * MIB
    assert nodes["n3"].features == ("platform:wide",)
    assert nodes["n3"].partitions == ("main",)
    assert nodes["n3"].architecture == "x86_64"
    assert (nodes["n1"].cpus_allocated, nodes["n1"].memory_allocated_bytes) == (1, 100 * MIB)
    assert "mixed" in nodes["n1"].states
    assert "drain" in nodes["n4"].states
    assert nodes["n4"].reason.startswith('a "test"\nof draining')
    assert "down" in nodes["n6"].states


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions(version: str):
    (partition,) = partitions_of(read(version, "partitions.txt"))
    assert (partition.name, partition.is_default, partition.accepts) == ("main", True, True)
    assert partition.nodes == ("n1", "n2", "n3", "n4", "n5", "n6")
    assert partition.max_time_seconds is None


@pytest.mark.parametrize("version", VERSIONS)
def test_ends_by_sacct(version: str):
    by_id = {end.job_id: end for end in ends_of_sacct(read(version, "sacct.txt"))}
    jobs = {name: job.job_id for name, job in jobs_of(version).items()}
    ended = {name: by_id[job_id] for name, job_id in jobs.items() if job_id in by_id}
    assert set(ended) == {
        "completed", "failed", "killed", "timeout", "cancelled", "lost", "out-of-memory",
    }  # fmt: skip
    assert (ended["failed"].state, ended["failed"].exit_code) == ("FAILED", 7)
    assert (ended["killed"].state, ended["killed"].signal) == ("FAILED", 9)
    assert ended["timeout"].state == "TIMEOUT"
    assert 60 <= ended["timeout"].end_time - ended["timeout"].start_time < 150
    assert (ended["cancelled"].state, ended["cancelled"].cancelled_by) == ("CANCELLED", "root")
    assert (ended["lost"].state, ended["lost"].nodes) == ("NODE_FAIL", ("n6",))
    assert ended["timeout"].cpu_seconds is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_ends_by_jobcomp(version: str):
    ends = ends_of_jobcomp(read(version, "jobcomp.txt").decode(), [1, 2, 3])
    assert [(end.job_id, end.state, end.exit_code, end.signal) for end in ends] == [
        (1, "COMPLETED", 0, None),
        # Its name has a newline: what stands behind it is not believed.
        (3, "FAILED", 0, 9),
    ]
    assert ends[0].nodes == ("n1",)
    assert ends_of_jobcomp(read(version, "jobcomp.txt").decode(), [4]) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_usage(version: str):
    ((seconds, peak),) = usage_of(read(version, "sstat.txt")).values()
    assert seconds >= 0
    assert peak > MIB


# --- polls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unchanged_poll_is_the_same_object(version: str):
    poll, answer = jobs_poll(), read(version, "jobs.json")
    first = poll.fold(answer)
    assert poll.fold(bytes(bytearray(answer))) is first
    whole = json.loads(answer)
    for job in whole["jobs"]:
        job["last_sched_evaluation"] = 4711
    assert poll.fold(json.dumps(whole).encode()) is first


@pytest.mark.parametrize("version", VERSIONS)
def test_what_did_not_change_is_kept_and_what_is_gone_goes(version: str):
    poll, whole = jobs_poll(), json.loads(read(version, "jobs.json"))
    first = {job.job_id: job for job in poll.fold(json.dumps(whole).encode())}
    gone = whole["jobs"].pop()["job_id"]
    whole["jobs"][0]["comment"] = "another"
    changed = whole["jobs"][0]["job_id"]
    second = {job.job_id: job for job in poll.fold(json.dumps(whole).encode())}
    assert second.keys() == first.keys() - {gone}
    assert second[changed].comment == "another"
    assert all(second[job_id] is first[job_id] for job_id in second if job_id != changed)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 100, 5000])
@pytest.mark.parametrize("kind", ["jobs", "nodes"])
def test_in_pieces_it_is_the_same(
    version: str, size: int, kind: str, monkeypatch: pytest.MonkeyPatch
):
    answer, make = read(version, f"{kind}.json"), jobs_poll if kind == "jobs" else nodes_poll
    whole = json.loads(answer)
    if size == 1:  # Byte by byte takes time.
        whole[kind] = whole[kind][:1]
        answer = json.dumps(whole, indent=2).encode()
    told = make().fold(json.dumps(whole).encode())  # Not as Slurm prints it: read as a whole.
    monkeypatch.setattr(records, "_PIECE_BYTES", size)
    monkeypatch.delattr(records, "_decode_leniently")
    poll = make()
    values = poll.fold(answer)
    assert values == told
    assert values
    assert poll.fold(answer) is values


def test_an_answer_that_is_none_changes_nothing():
    poll, answer = jobs_poll(), read("22.05", "jobs.json")
    first = poll.fold(answer)
    with pytest.raises(SlurmUnavailable):
        poll.fold(answer[: len(answer) // 2])
    assert poll.fold(answer) is first


@pytest.mark.parametrize("kind", ["jobs", "nodes"])
@pytest.mark.parametrize(
    "errors",
    [
        [{"description": "Failed while looking for jobs", "error_number": -1}],
        [{"error": "Unspecified error", "errno": -1}],
        ["odd"],
        "odd",
        {"odd": 1},
    ],
)
def test_an_answer_with_errors_is_no_empty_cluster(kind: str, errors: Any):
    """As 22.05 prints it, with status 0, where the controller is away."""
    poll = jobs_poll() if kind == "jobs" else nodes_poll()
    first = poll.fold(read("22.05", f"{kind}.json"))
    for told in ([], [5]):
        with pytest.raises(SlurmUnavailable, match="answers with an error"):
            answer = {kind: told, "errors": errors}
            poll.fold(json.dumps(answer, indent=2).encode())
    assert poll.fold(read("22.05", f"{kind}.json")) is first


# --- damage ---------------------------------------------------------------------------------

ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            "x" * MIB,
            "n[1-99999][1-99999]",
            "\ud800",
            "RUNNING\nPENDING",
            10**400,
            {"set": True, "infinite": False, "number": "many"},
            [[[[]]]],
            [None, 5, {}],
            {"return_code": {}, "signal": []},
            "1970-01-01",
        ]
    ),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


def damaged(record: Any, data: st.DataObject) -> Any:
    if not isinstance(record, dict) or data.draw(st.integers(0, 30)) == 0:
        return data.draw(ODD)
    for name in data.draw(st.lists(st.sampled_from(sorted(record)), max_size=12)):
        if data.draw(st.booleans()):
            record.pop(name, None)
        else:
            record[name] = data.draw(ODD)
    return record


@pytest.mark.parametrize("kind", ["jobs", "nodes"])
@given(data=st.data())
def test_damaged_answers_never_raise_anything_else(kind: str, data: st.DataObject):
    whole = json.loads(read(data.draw(st.sampled_from(VERSIONS)), f"{kind}.json"))
    some = data.draw(st.lists(st.sampled_from(whole[kind]), max_size=4))
    whole[kind] = [damaged(copy.deepcopy(record), data) for record in some]
    if data.draw(st.integers(0, 20)) == 0:
        whole = data.draw(ODD)
    poll = jobs_poll() if kind == "jobs" else nodes_poll()
    try:
        values = poll.fold(json.dumps(whole, indent=data.draw(st.sampled_from([None, 2]))).encode())
    except SlurmUnavailable:
        return
    for value in values:
        assert isinstance(value, SlurmJob | Node)
        repr(value).encode()  # Every text in it can be written down.
        assert value.cpus >= 0
        assert value.memory_bytes is None or value.memory_bytes >= 0


@given(data=st.binary(max_size=300), name=st.sampled_from(["jobs.json", "nodes.json"]))
def test_any_bytes_in_the_place_of_others(data: bytes, name: str):
    answer = bytearray(read("24.11", name))
    place = random.Random(data).randrange(len(answer))
    answer[place : place + len(data)] = data
    poll = jobs_poll() if name == "jobs.json" else nodes_poll()
    try:
        values = poll.fold(bytes(answer))
    except SlurmUnavailable:
        return
    for value in values:
        repr(value).encode()


@given(st.binary(max_size=500) | st.text(max_size=200).map(lambda s: s.encode("utf-8", "replace")))
def test_any_text_in_the_place_of_the_other_answers(answer: bytes):
    ends_of_sacct(answer + b"|a|b|c|d|e|f|g\n")
    ends_of_sacct(b"1|" + answer + b"|0:0|1|2|00:01|5K|n[1-2]\n")
    ends_of_jobcomp(answer.decode("utf-8", "replace"), [1])
    partitions_of(answer)
    partitions_of(b"PartitionName=x " + answer)
    usage_of(b"1.batch|" + answer)
    for prefix in (b"", b"SLURM_VERSION = 24.11.7\n"):
        try:
            site_of(prefix + answer)
        except (SlurmUnavailable, SlurmRefused):
            continue


def test_a_forged_end_inside_a_name_is_not_believed():
    tail = (
        " Partition=p TimeLimit=1 StartTime=2026-01-01T00:00:00 EndTime=2026-01-01T00:00:01 "
        "NodeList=n1 NodeCnt=1 ProcCnt=1 WorkDir=/ ExitCode="
    )
    real = f"JobId=5 UserId=u(1) GroupId=g(1) Name=x JobState=COMPLETED{tail}0:0 "
    line = f"{real} JobState=FAILED{tail}7:0 \n"
    (end,) = ends_of_jobcomp(line, [5])
    assert (end.state, end.exit_code) == ("FAILED", 7)


def test_answers_that_nest_deeply_are_damaged_ones():
    with pytest.raises(SlurmUnavailable):
        jobs_poll().fold(b'{"jobs": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")
