"""What a Slurm without JSON tells: the same records, whole, forged and damaged."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.slurm_recording import HOSTILE_NAME, MARK
from wharfinger.engines.slurm.client.base import Node, SlurmJob
from wharfinger.engines.slurm.client.client import CommandClient, jobs_poll, nodes_poll
from wharfinger.engines.slurm.client.text import jobs_of_text, new_mark, nodes_of_text

RECORDED = Path(__file__).parent / "recorded" / "22.05"
FIGURES = (RECORDED / "jobs-figures.text").read_bytes()


def read(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def jobs_of(answer: bytes, figures: bytes = FIGURES) -> dict[int, SlurmJob]:
    jobs = jobs_poll().take(jobs_of_text(answer, MARK, figures))
    return {job.job_id: job for job in jobs}


def nodes_of(answer: bytes) -> dict[str, Node]:
    return {node.name: node for node in nodes_poll().take(nodes_of_text(answer))}


def test_jobs_are_those_that_json_tells():
    assert jobs_of(read("jobs.text")) == {
        job.job_id: job for job in jobs_poll().fold(read("jobs.json"))
    }


def test_nodes_are_those_that_json_tells_but_for_line_ends_in_reasons():
    told = {node.name: node for node in nodes_poll().fold(read("nodes.json"))}
    nodes = nodes_of(read("nodes.text"))
    assert nodes["n4"].reason.split() == told["n4"].reason.split()
    nodes["n4"] = told["n4"]
    assert nodes == told


def test_what_did_not_change_is_the_same_object():
    poll = jobs_poll()
    first = poll.take(jobs_of_text(read("jobs.text"), MARK, FIGURES))
    mark = new_mark()
    again = read("jobs.text").replace(MARK.encode(), mark.encode())
    assert poll.take(jobs_of_text(again, mark, FIGURES)) is first


def test_a_user_who_does_not_know_the_mark_forges_no_record():
    (number,) = (n for n, job in jobs_of(read("jobs.text")).items() if job.name == HOSTILE_NAME)
    record = read("jobs.text").split(f"{MARK}:".encode())[1]
    forged = record.replace(MARK.encode(), new_mark().encode())
    answer = read("jobs.text").replace(HOSTILE_NAME.encode(), b"x\n" + forged)
    jobs = jobs_of(answer)
    assert jobs.keys() == jobs_of(read("jobs.text")).keys()
    assert jobs[number].name == f"x\n{forged.decode()}"


def test_without_figures_it_is_not_said_how_jobs_ended():
    jobs = jobs_of(read("jobs.text"), b"")
    assert jobs.keys() == jobs_of(read("jobs.text")).keys()
    assert {job.exit_code for job in jobs.values()} == {None}


DAMAGE = st.binary(max_size=300) | st.sampled_from(
    [
        f"{MARK}:".encode(),
        f"{MARK};".encode(),
        b"n[1-99999][1-99999]",
        b"\xff\xfe\0",
        b"9" * 400,
        b"\nNodeName=x State=+*+ CPUTot=-1 RealMemory=1e9 Reason=[a@b]\n",
    ]
)


@given(data=DAMAGE, name=st.sampled_from(["jobs.text", "jobs-figures.text", "nodes.text"]))
def test_any_bytes_in_the_place_of_others(data: bytes, name: str):
    answer = bytearray(read(name))
    place = random.Random(data).randrange(len(answer))
    answer[place : place + len(data)] = data
    match name:
        case "jobs.text":
            values: list[SlurmJob | Node] = list(jobs_of(bytes(answer)).values())
        case "nodes.text":
            values = list(nodes_of(bytes(answer)).values())
        case _:
            values = list(jobs_of(read("jobs.text"), bytes(answer)).values())
    for value in values:
        repr(value).encode()  # Every text in it can be written down.
        assert value.cpus >= 0
        assert value.memory_bytes is None or value.memory_bytes >= 0


@given(st.binary(max_size=500))
def test_any_answer_at_all(answer: bytes):
    jobs_of(answer, answer)
    jobs_of(MARK.encode() + b":" + answer, answer)
    nodes_of(answer)
    nodes_of(b"NodeName=" + answer)


def test_a_slurm_without_json_is_asked_for_it_once(tmp_path: Path, caplog):
    figures, nodes = RECORDED / "jobs-figures.text", RECORDED / "nodes.text"
    scripts = {
        "scontrol": f"case \"$*\" in *config) cat '{RECORDED}/config.txt';; "
        f"*nodes) cat '{nodes}';; esac",
        "squeue": f"""
            echo x >>{tmp_path}/calls
            for word; do
                case $word in
                    --json) echo 'squeue: fatal: JSON plugin load failure' >&2; exit 1;;
                    --format=*) mark=${{word#--format=}};;
                esac
            done
            [ -n "$mark" ] || exec cat '{figures}'
            exec sed "s/{MARK}/${{mark%%:*}}/g" '{RECORDED}/jobs.text'""",
        "sinfo": "echo 'sinfo: fatal: JSON plugin load failure' >&2; exit 1",
    }
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    client = CommandClient({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    first = client.jobs()
    assert {job.job_id: job for job in first} == jobs_of(read("jobs.text"))
    assert client.jobs() is first
    assert [node.name for node in client.nodes()] == [f"n{n}" for n in range(1, 7)]
    assert (tmp_path / "calls").read_text().count("x") == 5
    assert caplog.text.count("JSON plugin load failure") == 1


@pytest.mark.parametrize("words", ["IDLE", "DOWN*+DRAIN", "MIXED+PLANNED", "~", ""])
def test_states_of_nodes(words: str):
    (node,) = nodes_of(f"NodeName=a State={words} CPUTot=1\n".encode()).values()
    states = {word.strip("*").lower() for word in words.split("+")} - {"", "~"}
    assert node.states == states | ({"not_responding"} if "*" in words else set())
