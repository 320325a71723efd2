"""Ends: by the run's own record, else by what Slurm knows, and never by a guess."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from wharfinger.core import events as ev
from wharfinger.engines.slurm.client.accounting import ends_of_sacct
from wharfinger.engines.slurm.client.base import JobEnd, SlurmJob
from wharfinger.engines.slurm.ends import (
    RunReading,
    end_of_run,
    end_without_record,
    failed_start,
)
from wharfinger.host.run_dir import Claim, ExitRecord, RunRecord

JOB = SlurmJob(7, "w", "root", "main", "RUNNING", nodes=("n1",))


def _reading(code: int | None = 0, signal: int | None = None, **more: object) -> RunReading:
    record = ExitRecord(code, signal, None, None, False, 1.0, 1.0, 2.0, 0, 0, 0)
    return RunReading(
        RunRecord(Claim.TAKEN, None, None, replace(record, **more)),  # type: ignore[arg-type]
        last_line="last",
    )


STOPPED = {"code": None, "signal": 15, "stop_requested": True}


@pytest.mark.parametrize(
    ("record", "state", "asked", "told"),
    [
        ({}, "COMPLETED", False, "exited 0"),
        ({"code": 3}, "FAILED", False, "exited 3"),
        ({"code": 3}, "NODE_FAIL", False, "exited 3"),  # Its own end came first.
        ({"code": None, "signal": 11}, "FAILED", False, "killed -11"),
        ({"code": None, "signal": 9}, "OUT_OF_MEMORY", False, "out-of-memory -9"),
        (STOPPED, "CANCELLED", True, "stopped -15"),
        (STOPPED, "CANCELLED", False, "cancelled -15"),
        (STOPPED, "TIMEOUT", False, "time-limit -15"),
        (STOPPED, "PREEMPTED", False, "preempted"),
        (STOPPED, "NODE_FAIL", False, "node-failure"),
        (STOPPED, "PREEMPTED", True, "stopped -15"),
    ],
)
def test_by_its_own_record(record: dict, state: str, asked: bool, told: str) -> None:
    end = end_of_run("k", _reading(**record), structs.replace(JOB, state=state), stop_asked=asked)
    if isinstance(end, ev.WorkloadEvicted):
        assert end.reason.startswith(f"{told}: ")
        return
    assert isinstance(end, ev.WorkloadFinished)
    how = end.exit_code if end.signal is None else -end.signal
    assert f"{end.reason} {how}" == told


def test_one_that_was_put_back_in_line_after_it_was_killed_was_evicted() -> None:
    job = structs.replace(JOB, state="PENDING", nodes=(), restarts=1)
    end = end_of_run("k", _reading(None, 15), job, stop_asked=False)
    assert isinstance(end, ev.WorkloadEvicted)
    finished = end_of_run("k", _reading(0), job, stop_asked=False)
    assert isinstance(finished, ev.WorkloadFinished)


@pytest.mark.parametrize(
    ("ended", "job", "asked", "told"),
    [
        (JobEnd(7, "COMPLETED", 0, None), None, False, "exited 0"),
        (JobEnd(7, "FAILED", 5, None), None, False, "exited 5"),
        (JobEnd(7, "FAILED", 0, 9), None, False, "killed -9"),
        (JobEnd(7, "CANCELLED", 0, None), None, False, "cancelled -15"),
        (JobEnd(7, "CANCELLED", 0, 15), None, True, "stopped -15"),
        (JobEnd(7, "TIMEOUT", 0, 15), None, False, "time-limit -15"),
        (JobEnd(7, "TIMEOUT", 0, None), None, False, "time-limit -15"),
        (JobEnd(7, "DEADLINE", 0, None), None, False, "time-limit -15"),
        (None, structs.replace(JOB, state="TIMEOUT", exit_code=0), False, "time-limit -15"),
        (JobEnd(7, "OUT_OF_MEMORY", 0, 9), None, False, "out-of-memory -9"),
        (JobEnd(7, "NODE_FAIL", None, None), None, False, "evicted node-failure"),
        (JobEnd(7, "PREEMPTED", 0, 15), None, False, "evicted preempted"),
        (JobEnd(7, "NODE_FAIL", None, None), None, True, "vanished"),
        (None, structs.replace(JOB, state="FAILED", exit_code=4), False, "exited 4"),
        (None, structs.replace(JOB, state="COMPLETED"), False, "vanished"),
        (None, None, False, "vanished"),
    ],
)
def test_by_what_slurm_knows(
    ended: JobEnd | None, job: SlurmJob | None, asked: bool, told: str
) -> None:
    end = end_without_record("k", job, ended, stop_asked=asked)
    match end:
        case ev.WorkloadFinished():
            how = end.exit_code if end.signal is None else -end.signal
            assert f"{end.reason} {how}" == told
        case ev.WorkloadEvicted():
            assert f"evicted {end.reason.partition(':')[0]}" == told
        case _:
            assert isinstance(end, ev.WorkloadVanished)
            assert told == "vanished"


@pytest.mark.parametrize("version", ["22.05", "23.11", "24.11"])
def test_a_time_limit_as_sacct_tells_it_is_no_success(version: str) -> None:
    answer = (Path(__file__).parent / "recorded" / version / "sacct.txt").read_bytes()
    (ended,) = (end for end in ends_of_sacct(answer) if end.state == "TIMEOUT")
    assert (ended.exit_code, ended.signal) == (0, None)
    end = end_without_record("k", None, ended, stop_asked=False)
    assert isinstance(end, ev.WorkloadFinished)
    assert (end.exit_code, end.signal, end.reason) == (None, 15, "time-limit")


NOTHING = RunReading(RunRecord(Claim.NONE, None, None, None))


@pytest.mark.parametrize(
    ("reading", "job", "asked", "retryable", "told"),
    [
        (NOTHING, None, False, True, "Slurm lost its job"),
        (
            NOTHING,
            structs.replace(JOB, state="FAILED", exit_code=75),
            False,
            True,
            "does not see the sha",
        ),
        (
            replace(NOTHING, fault="exec: no such file"),
            structs.replace(JOB, state="FAILED", exit_code=1),
            False,
            True,
            "n1: exec: no such file",
        ),
        (
            NOTHING,
            structs.replace(JOB, state="CANCELLED", nodes=()),
            False,
            False,
            "cancelled at Slurm",
        ),
        (
            NOTHING,
            structs.replace(JOB, state="CANCELLED"),
            True,
            False,
            "stopped before it started",
        ),
        (NOTHING, structs.replace(JOB, state="BOOT_FAIL"), False, True, "Slurm says BOOT_FAIL"),
    ],
)
def test_why_nothing_was_started(
    reading: RunReading, job: SlurmJob | None, asked: bool, retryable: bool, told: str
) -> None:
    failed = failed_start("k", reading, job, stop_asked=asked)
    assert failed.retryable is retryable
    assert told in failed.reason
