"""Hold a supervised tree to a share of CPU time, or suspend it, without cgroups.

The supervisor does it (``native/supervisor/pace.c``), by stopping and continuing the tree. What
holds is said by two files in the run directory, so it survives the manager, and a full disk does
not keep anybody suspended; a signal makes the supervisor look.

Who calls: the local engine, for resize, suspend and resume where no cgroup can. What a start
begins with is in its ``LaunchSpec``.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wharfinger.errors import InvalidInput, OutOfSpace
from wharfinger.host.processes import send_signal
from wharfinger.host.run_dir import open_run_dir, write_synced

__all__ = ["LEAST_MILLICPUS", "encode_pace", "request_pace", "request_resume", "request_suspend"]

LEAST_MILLICPUS = 10
"""What is less is rounded up: the kernel's own quota has no less either."""
_MOST_MILLICPUS = 8_192_000


def encode_pace(cpu_millicpus: int | None) -> str:
    """The word that the supervisor reads.

    Args:
        cpu_millicpus: CPU time per second in thousandths of a CPU; ``None`` = no limit.

    Raises:
        InvalidInput: No share of CPU time.

    >>> encode_pace(250), encode_pace(3), encode_pace(None)
    ('250', '10', 'max')
    """
    if cpu_millicpus is None:
        return "max"
    if not 0 < cpu_millicpus <= _MOST_MILLICPUS:
        raise InvalidInput(f"cpu_millicpus: {cpu_millicpus}; give 1 to {_MOST_MILLICPUS}")
    return str(max(LEAST_MILLICPUS, cpu_millicpus))


def request_pace(run_dir: Path, pidfd: int, cpu_millicpus: int | None) -> None:
    """Have a run's processes held to another share; whatever holds now goes on until then.

    Args:
        run_dir: The run.
        pidfd: Of its supervisor; one that has ended is no error.
        cpu_millicpus: CPU time per second in thousandths of a CPU; ``None`` = no limit.

    Raises:
        InvalidInput: No share of CPU time.
        NotFound: There is no such run directory.
        OutOfSpace: There is no room to say so; the former share stays.
    """
    _put(run_dir, "pace", encode_pace(cpu_millicpus) + "\n")
    send_signal(pidfd, signal.SIGUSR1)


def request_suspend(run_dir: Path, pidfd: int) -> None:
    """Have a run's processes stopped until :func:`request_resume`, or until a stop is asked for.

    Raises:
        NotFound: There is no such run directory.
        OutOfSpace: There is no room to say so; it goes on.
    """
    _put(run_dir, "suspended", "")
    send_signal(pidfd, signal.SIGUSR1)


def request_resume(run_dir: Path, pidfd: int) -> None:
    """Have a run's processes continued, at the share that holds; those that run just go on.

    Raises:
        NotFound: There is no such run directory.
    """
    with open_run_dir(run_dir) as directory, suppress(FileNotFoundError):
        os.unlink("suspended", dir_fd=directory)
    send_signal(pidfd, signal.SIGUSR1)


def _put(run_dir: Path, name: str, text: str) -> None:
    own = f"{name}.new.{os.getpid()}"
    with open_run_dir(run_dir) as directory, _as_out_of_space(run_dir, name):
        write_synced(directory, own, text)
        os.rename(own, name, src_dir_fd=directory, dst_dir_fd=directory)


@contextmanager
def _as_out_of_space(run_dir: Path, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutOfSpace(f"{run_dir}: cannot write {name!r}: {error.strerror}") from error
