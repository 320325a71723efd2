"""Makes a supervisor's record into the report that the core gets, in words for people: pure."""

import errno
import os
import signal
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.engines.local.records import End
from wharfinger.host.run_dir import ExitRecord
from wharfinger.model.workload import Run

STOPPED_BEFORE_START = "stopped before it started"
SUPERVISOR_KILLED = "its supervisor was killed, so its exit status is unknown; the rest was killed"
MACHINE_RESTARTED = "the machine was restarted while it ran"
CLAIM_DAMAGED = "the claim of its supervisor was damaged; what was left of it was killed"

# Trying again, elsewhere or later, may help; with the same program in the same folder it may not.
_PASSING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ETXTBSY}
_USERS_STEPS = {"exec", "working_directory"}


def end_of(
    key: str,
    record: ExitRecord,
    program: Run | None = None,
    *,
    out_of_memory_kills: int | None = None,
    cpu_seconds: float | None = None,
) -> End:
    """The report of an end that the supervisor saw.

    ``program`` is for the message, if still known. CPU time as the group counted precedes the
    supervisor's.
    """
    if record.failed_step is not None:
        return _start_failed(key, record, program)
    return ev.WorkloadFinished(
        key,
        record.exit_code,
        record.signal,
        _reason(record, out_of_memory_kills or 0),
        record.cpu_seconds if cpu_seconds is None else cpu_seconds,
        record.ended_at_seconds,
    )


def _reason(record: ExitRecord, out_of_memory_kills: int) -> str:
    if record.stop_requested:
        return "stopped"
    # A shell outlives a child that was killed for memory, and passes its signal on as 137.
    if out_of_memory_kills and (record.signal == signal.SIGKILL or record.exit_code):
        return "out-of-memory"
    return "exited" if record.signal is None else "killed"


def _start_failed(key: str, record: ExitRecord, program: Run | None) -> ev.StartFailed:
    step, number = record.failed_step or "", record.failed_errno or 0
    if step == "killed":
        if record.stop_requested:
            return ev.StartFailed(key, STOPPED_BEFORE_START, retryable=False)
        return ev.StartFailed(key, "it was killed before the program began", retryable=True)
    message = _describe(step, number, program)
    lasting = step in _USERS_STEPS and number not in _PASSING
    return ev.StartFailed(key, message, retryable=not lasting)


def _describe(step: str, number: int, run: Run | None) -> str:
    why = os.strerror(number)
    if step == "working_directory":
        return f"working directory {run.working_directory if run else ''!r}: {why}"
    if step != "exec":
        return f"preparing the program failed at {step.replace('_', ' ')}: {why}"
    program = run.command[0] if run and run.command else ""
    if number == errno.ENOENT:
        if "/" in program and Path(program).exists():
            return f"the interpreter that {program!r} names in its first line is missing"
        return f"no such program: {program!r}"
    if number == errno.EACCES:
        return f"may not execute {program!r}: {why}"
    return f"cannot execute {program!r}: {why}"
