"""Targets in the comments of users' jobs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.engines.slurm.comments import (
    MAX_NOTE,
    JobProgram,
    addressed,
    annotated,
    note_in,
    workload_of,
)
from wharfinger.errors import InvalidInput
from wharfinger.model.workload import WorkloadType

PROGRAM = JobProgram("/spool/17.sh", "/home/ann", cpus=4, memory_bytes=2**30)


def made(comment: str, program: JobProgram = PROGRAM):
    return workload_of("slurm-17", comment, program)


def test_a_comment_states_the_target_and_the_job_the_rest() -> None:
    workload = made("wharfinger: {target: {completionTime: 20m}, tolerance: 10%, priority: 3}")
    assert workload.type is WorkloadType.BATCH
    assert workload.target is not None and workload.target.completion_seconds == 1200.0
    assert (workload.tolerance, workload.priority) == (0.1, 3)
    assert workload.run.command == ("/bin/sh", "/spool/17.sh")
    assert workload.run.working_directory == "/home/ann"
    assert workload.reservation.cpu_millicpus == 4000
    assert workload.reservation.memory_bytes == 2**30
    assert workload.scale.max_servers == 1


def test_nodes_and_time_limit_are_the_jobs() -> None:
    program = replace(PROGRAM, nodes=3, time_limit_seconds=3600.0, restartable=True)
    workload = made("wharfinger: {target: {completionTime: 20m}}", program)
    assert workload.scale.max_servers == 3
    assert workload.run.time_limit_seconds == 3600.0
    assert workload.run.restartable


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("wharfinger:", "names no target after 'wharfinger:'"),
        ("wharfinger: [1, 2]", "names no target"),
        ("wharfinger: {}", "comment: target: is missing"),
        ("wharfinger: {target: {completionTime: soon}}", "comment: target.completionTime"),
        ("wharfinger: {target: {completionTime: 20m}, run: {command: [x]}}", "take it out"),
        ("wharfinger: {target: {completionTime: 20m}, resources: {cpu: 9}}", "take it out"),
        ("wharfinger: {target: {completionTime: 20m}, tolerence: 3%}", "did you mean tolerance"),
        ("wharfinger: {target: {completionTime: 20m}", "comment: "),
        ("wharfinger: !!python/object:os.system {target: 1}", "comment: "),
        ("wharfinger: {target: {completionTime: .nan}}", "comment: target.completionTime"),
        ("wharfinger: " + "x" * 2**20, "at most 16Ki"),
        ("wharfinger: {target: {completionTime: \x00}}", "comment: "),
        ("wharfinger: {a: &a {b: 1}, c: *a}", "comment: "),
    ],
)
def test_one_that_cannot_be_read_gets_one_line(comment: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        made(comment)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 1000


@pytest.mark.parametrize("comment", ["", "run me", "my wharfinger: {}", "wharfinger"])
def test_other_comments_are_not_for_it(comment: str) -> None:
    assert not addressed(comment)
    assert note_in(comment) == ""


def test_what_is_written_back_leaves_the_target_readable() -> None:
    comment = "wharfinger: {target: {completionTime: 20m}}"
    told = annotated(annotated(comment, "waits for room"), "placed on n1:\n4 CPUs # of 8")
    assert note_in(told) == "placed on n1: 4 CPUs # of 8"
    assert made(told) == made(comment)
    assert annotated(told, "") == comment


@given(st.text(max_size=300))
def test_any_text_is_a_workload_or_one_line(text: str) -> None:
    comment = f"wharfinger: {text}"
    assert addressed(comment)
    try:
        workload = made(comment)
    except InvalidInput as error:
        assert "\n" not in str(error)
    else:
        assert workload.target is not None


@given(st.text(max_size=600))
def test_any_note_is_one_short_printable_line(note: str) -> None:
    comment = "wharfinger: {target: {rate: 9/s}}"
    told = annotated(comment, note)
    assert told.isprintable() and len(note_in(told)) <= MAX_NOTE
    assert made(told) == made(comment)
