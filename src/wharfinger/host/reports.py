"""Makes a supervisor's record into the report that the core gets, in words for people: pure."""

import errno
import os
import signal
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.errors import WharfingerError
from wharfinger.host.run_dir import ExitRecord, read_output
from wharfinger.model.ends import CANNOT_RUN
from wharfinger.model.workload import Run

End = ev.WorkloadFinished | ev.WorkloadVanished | ev.WorkloadEvicted | ev.StartFailed

STOPPED, NOT_ALIVE = "stopped", "not-alive"
STOPPED_BEFORE_START = "stopped before it started"
SUPERVISOR_KILLED = "its supervisor was killed, so its exit status is unknown; the rest was killed"
MACHINE_RESTARTED = "the machine was restarted while it ran"
CLAIM_DAMAGED = "the claim of its supervisor was damaged; what was left of it was killed"

MAX_LAST_OUTPUT = 200
"""Characters of a failed program's last line that are reported."""
_LAST_BYTES = 4096

# Trying again, elsewhere or later, may help; with the same program in the same folder it may not.
_PASSING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ETXTBSY}
_USERS_STEPS = {"exec", "working_directory", "user"}
_MENDS = {
    errno.ENOEXEC: "; it was built for another kind of machine: see 'file'",
    errno.E2BIG: "; shorten its arguments and run.env",
    errno.ENOMEM: "; the machine is out of memory, it is tried again",
    errno.ETXTBSY: "; it is being written, it is tried again",
}


def end_of(
    key: str,
    record: ExitRecord,
    program: Run | None = None,
    *,
    out_of_memory_kills: int | None = None,
    cpu_seconds: float | None = None,
    memory_peak_bytes: int | None = None,
    not_alive: bool = False,
    last_output: str = "",
) -> End:
    """The report of an end that the supervisor saw.

    ``program`` is for the message, if still known. CPU time as the group counted precedes the
    supervisor's. ``last_output`` is told where it failed; ``not_alive``: for that it was stopped.
    """
    if record.failed_step is not None:
        return _start_failed(key, record, program)
    reason = _reason(record, out_of_memory_kills or 0, not_alive=not_alive)
    return ev.WorkloadFinished(
        key,
        record.exit_code,
        record.signal,
        reason,
        record.cpu_seconds if cpu_seconds is None else cpu_seconds,
        record.ended_at_seconds,
        memory_peak_bytes,
        last_output if reason != STOPPED and record.exit_code != 0 else "",
    )


def _reason(record: ExitRecord, out_of_memory_kills: int, *, not_alive: bool) -> str:
    if record.stop_requested:
        return NOT_ALIVE if not_alive else STOPPED
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
    return ev.StartFailed(key, _describe(step, number, program), retryable=not _lasts(step, number))


def _lasts(step: str, number: int) -> bool:
    return step in _USERS_STEPS and number not in _PASSING


def last_line(run_dir: Path, max_characters: int = MAX_LAST_OUTPUT) -> str:
    """The last line of the output that is not empty, in printable characters; "" = unknown."""
    try:
        data, _ = read_output(run_dir, -_LAST_BYTES, _LAST_BYTES)
    except (WharfingerError, OSError):
        return ""
    lines = data.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "".join(c if c.isprintable() else " " for c in last)[:max_characters]


def describe_failed_start(record: ExitRecord, run: Run) -> str:
    """Why a profiling copy was not started; begins with ``CANNOT_RUN`` if the program never can."""
    step, number = record.failed_step or "", record.failed_errno or 0
    # The supervisor's exec is of the sandbox.
    if step == "working_directory" and _lasts(step, number):
        return f"{CANNOT_RUN}{_describe(step, number, run)}"
    return f"the copy could not be started: {_describe(step, number, None)}"


def _describe(step: str, number: int, run: Run | None) -> str:
    why = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    if step == "working_directory":
        directory = run.working_directory if run else ""
        return f"working directory {directory!r}: {why}; correct run.workingDir, or make it"
    if step == "user":
        user = run.user if run else ""
        return (
            f"it can't run as user {user!r}: {why}; run the manager as root, or leave out run.user"
        )
    if step != "exec":
        return f"preparing the program failed at {step.replace('_', ' ')}: {why}"
    program = run.command[0] if run and run.command else ""
    if number == errno.ENOENT:
        if "/" in program and Path(program).exists():
            return (
                f"the interpreter that {program!r} names in its first line, or the loader that it "
                f"was built for, is missing: {why}; install it, or correct the line"
            )
        return f"no such program: {program!r}: {why}; install it, or write its whole path"
    if number == errno.EACCES:
        return f"may not execute {program!r}: {why}; make it executable (chmod +x)"
    return f"cannot execute {program!r}: {why}{_MENDS.get(number, '')}"
