"""Hold a supervised tree to a share of CPU time, or suspend it, without cgroups.

The supervisor does it (``native/supervisor/pace.c``), by stopping and continuing the tree. Two
files in the run directory hold the settings, so they survive the manager, and a resume needs no
room on disk; a signal makes the supervisor read them. Called by the local engine where no cgroup
can do it. A start's first setting is in its ``LaunchSpec``.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from wharfinger.errors import InvalidInput, OutOfSpace
from wharfinger.host.processes import send_signal
from wharfinger.host.run_dir import open_run_dir, replace_synced

MIN_MILLICPUS = 10
"""Less is rounded up to this, the smallest quota of the kernel."""
_MAX_MILLICPUS = 8_192_000


def encode_pace(cpu_millicpus: int | None) -> str:
    """A share of CPU time as the supervisor reads it; ``None`` = no limit, else ``InvalidInput``.

    >>> encode_pace(250), encode_pace(3), encode_pace(None)
    ('250', '10', 'max')
    """
    if cpu_millicpus is None:
        return "max"
    if not 0 < cpu_millicpus <= _MAX_MILLICPUS:
        raise InvalidInput(f"cpu_millicpus: {cpu_millicpus}; give 1 to {_MAX_MILLICPUS}")
    return str(max(MIN_MILLICPUS, cpu_millicpus))


def request_pace(run_dir: Path, pidfd: int, cpu_millicpus: int | None) -> None:
    """Hold a run's processes to another share of CPU time; ``None`` = no limit.

    A supervisor (``pidfd``) that has ended is no error.

    Raises:
        InvalidInput: Not a share of CPU time.
        OutOfSpace: There is no room to write it; the former share stays.
    """
    _put(run_dir, "pace", encode_pace(cpu_millicpus) + "\n")
    send_signal(pidfd, signal.SIGUSR1)


def request_suspend(run_dir: Path, pidfd: int) -> None:
    """Suspend a run's processes until :func:`request_resume` or a request to stop.

    Raises:
        OutOfSpace: There is no room to write it; they keep running.
    """
    _put(run_dir, "suspended", "")
    send_signal(pidfd, signal.SIGUSR1)


def request_resume(run_dir: Path, pidfd: int) -> None:
    """Resume a run's processes, at their share; it is no error when they run."""
    with open_run_dir(run_dir) as directory, suppress(FileNotFoundError):
        os.unlink("suspended", dir_fd=directory)
    send_signal(pidfd, signal.SIGUSR1)


def _put(run_dir: Path, name: str, text: str) -> None:
    with open_run_dir(run_dir) as directory:
        try:
            replace_synced(directory, name, text)
        except OSError as error:
            raise OutOfSpace(f"{run_dir}: cannot write {name!r}: {error.strerror}") from error
