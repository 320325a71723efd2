"""The profiler's process: runs one plan, clears away after itself, and answers.

``client`` starts it as ``python -m wharfinger.engines.local.profiling.worker`` and speaks to it
over a socket. When the socket is closed the manager is gone, and the copy goes with the worker.
What kills the worker, or the alarm that limits its time, leaves the clearing away to another
process, this module with ``--clear``, or to the next engine.
"""

import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.core.codec import encode_event
from wharfinger.engines.local.profiling import cleanup
from wharfinger.engines.local.profiling.job import ProfilingJob
from wharfinger.engines.local.profiling.lifeline import Lifeline, ManagerGone
from wharfinger.engines.local.profiling.runs import SandboxedRuns
from wharfinger.engines.local.profiling.session import measure
from wharfinger.engines.local.profiling.storage import cap, choose_upper
from wharfinger.errors import WharfingerError
from wharfinger.host.sandbox import SandboxKind, describe_support
from wharfinger.monitor.messages import Channel
from wharfinger.monitor.meter import die_with
from wharfinger.profiling.steps import RunFailed

CLEAR = "--clear"
_PR_SET_PDEATHSIG = 1


def answer(job: ProfilingJob, lifeline: Lifeline) -> ev.ProfilingFinished | ev.ProfilingFailed:
    """Run the plan.

    Raises:
        ManagerGone: The manager has died.
    """
    try:
        upper_base = _prepare(job)
        runs = SandboxedRuns(job, upper_base, cap(upper_base, job.cap_bytes))
        return ev.ProfilingFinished(job.key, measure(job, runs, upper_base, lifeline))
    except (RunFailed, WharfingerError) as error:
        return ev.ProfilingFailed(job.key, str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return ev.ProfilingFailed(job.key, f"{where}{error.strerror}")


def _prepare(job: ProfilingJob) -> Path:
    """Clear away what is left of an earlier asking, and make the places of this one."""
    cleanup.clear(job.directory)
    job.directory.mkdir(mode=0o700, parents=True)
    working_directory = Path(job.workload.run.working_directory)
    name = f"{job.control.identity}-{job.key}"
    upper_base = choose_upper(working_directory, job.directory, name)
    upper_base = _make(job, upper_base)
    if describe_support(upper_base).kind is not SandboxKind.UNAVAILABLE:
        return upper_base
    # Where no overlay is possible on the workload's own storage, ours is known to do.
    upper_base.rmdir()
    return _make(job, job.directory / "upper")


def _make(job: ProfilingJob, upper_base: Path) -> Path:
    cleanup.begin(job.directory, upper_base)
    # From now on it is known that we are here: we may outlive the manager to clear away.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)
    upper_base.mkdir(mode=0o700, exist_ok=True)
    return upper_base


def main(arguments: list[str]) -> None:
    """Begin, as ``client`` calls it: socket and parent, or what is to be cleared away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the manager.
    if arguments[0] == CLEAR:
        for directory in arguments[1:]:
            cleanup.clear(Path(directory))
        return
    descriptor, parent = map(int, arguments)
    die_with(parent)
    os.set_inheritable(descriptor, False)
    lifeline = Lifeline(Channel(socket.socket(fileno=descriptor)))
    try:
        job = ProfilingJob.decode(lifeline.receive()["job"])
    except ManagerGone:
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, job.limit_seconds)
    try:
        found = answer(job, lifeline)
        cleanup.clear(job.directory)
        kind, payload = encode_event(found)
        lifeline.tell({"answer": [kind, payload.decode()]})
    except ManagerGone:
        cleanup.clear(job.directory)


if __name__ == "__main__":
    main(sys.argv[1:])
