"""The profiler's process: runs one plan, clears away after itself, and answers.

``client`` starts it and speaks to it over a socket; when that is closed the manager is gone, and
the copy goes with the worker. If the worker is killed, also by the alarm that limits its time,
another process, this module with ``--clear``, or the next engine clears away.
"""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.codec import encode_event
from wharfinger.engines.local.checking import why_not
from wharfinger.engines.local.profiling import cleanup, probe
from wharfinger.engines.local.profiling.job import Lifeline, ManagerGone, ProfilingJob
from wharfinger.engines.local.profiling.session import measure
from wharfinger.errors import WharfingerError
from wharfinger.host.sandbox import SandboxKind, describe_support
from wharfinger.model.ends import CANNOT_RUN
from wharfinger.monitor.messages import attach, follow_parent
from wharfinger.profiling.steps import RunFailed

CLEAR = "--clear"
FREE_SHARE = 10
"""A copy may write its cap, or this fraction of the free space if that is less."""
PREFIX = ".wharfinger-profile-"


def answer(job: ProfilingJob, lifeline: Lifeline) -> ev.ProfilingFinished | ev.ProfilingFailed:
    """Run the plan; raises ``ManagerGone``."""
    if why := why_not(job.workload):  # It may have been there when it was submitted.
        return ev.ProfilingFailed(job.key, f"{CANNOT_RUN}{why}", fatal=True)
    try:
        upper_base = _prepare(job)
        job = replace(job, cap_bytes=cap(upper_base, job.cap_bytes))
        return ev.ProfilingFinished(job.key, measure(job, upper_base, lifeline))
    except (RunFailed, WharfingerError) as error:
        why, of = str(error), getattr(error, "out_of_memory_bytes", 0)
        return ev.ProfilingFailed(job.key, why, why.startswith(CANNOT_RUN), of)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return ev.ProfilingFailed(job.key, f"{where}{error.strerror}")


def _prepare(job: ProfilingJob) -> Path:
    cleanup.clear(job.directory)
    job.directory.mkdir(mode=0o700, parents=True)
    working_directory = Path(job.workload.run.working_directory)
    name = f"{job.machine.control.identity}-{job.key}"
    upper_base = _make(job, choose_upper(working_directory, job.directory, name))
    if describe_support(upper_base).kind is not SandboxKind.UNAVAILABLE:
        return upper_base
    # Where no overlay is possible on the workload's own storage, ours is known to do.
    upper_base.rmdir()
    return _make(job, job.directory / "upper")


def _make(job: ProfilingJob, upper_base: Path) -> Path:
    cleanup.begin(job.directory, upper_base)
    # From now on it is known that we are here: we may outlive the manager to clear away.
    follow_parent(follow=False)
    upper_base.mkdir(mode=0o700, exist_ok=True)
    return upper_base


def choose_upper(working_directory: Path, own: Path, name: str) -> Path:
    """Where to make the directory of the upper layers, which take a copy's writes.

    On the file system of the working directory, for the same cost of I/O: in our own directory if
    that is there, else as ``PREFIX + name`` in the highest directory of it that we may write to.
    """
    device = working_directory.stat().st_dev
    if own.stat().st_dev == device:
        return own / "upper"
    parents = [working_directory, *working_directory.parents]
    same = [path for path in parents if path.stat().st_dev == device]
    for path in reversed(same):
        if os.access(path, os.W_OK | os.X_OK):
            return path / f"{PREFIX}{name}"
    return own / "upper"


def cap(upper_base: Path, max_bytes: int) -> int:
    """How much may be written there, in bytes; at least 1."""
    status = os.statvfs(upper_base)
    return max(1, min(max_bytes, status.f_bavail * status.f_frsize // FREE_SHARE))


def _report(
    job: ProfilingJob, asked: Sequence[Any] | None, lifeline: Lifeline
) -> ev.ProfilingFinished | ev.ProfilingFailed | ev.WorkloadProbed:
    if asked is None:
        return answer(job, lifeline)
    key, number, patience_seconds = asked
    follow_parent(follow=False)
    return probe.answer(job, int(number), str(key), lifeline, float(patience_seconds))


def main(arguments: list[str]) -> None:
    """Begin, as ``client`` calls it: socket and parent, or what is to be cleared away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the manager.
    if arguments[0] == CLEAR:
        for directory in arguments[1:]:
            cleanup.clear(Path(directory))
        return
    lifeline = Lifeline(attach(*arguments))
    try:
        told = lifeline.receive()
    except ManagerGone:
        return
    job = ProfilingJob.decode(told["job"])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, job.limit_seconds)
    try:
        report = _report(job, told.get("probe"), lifeline)
        cleanup.clear(job.directory)
        kind, payload = encode_event(report)
        lifeline.tell({"answer": [kind, payload.decode()]})
    except ManagerGone:
        cleanup.clear(job.directory)


if __name__ == "__main__":
    main(sys.argv[1:])
