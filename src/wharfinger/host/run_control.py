"""What a run's supervisor is to keep to, as it finds it in the run directory at its next signal."""

import contextlib
import os
from pathlib import Path

from wharfinger.errors import InvalidInput, OutOfSpace
from wharfinger.host.run_dir import open_run_dir, replace_synced

_MIN_MILLICPUS = 10  # the kernel's smallest quota; less is rounded up
_MAX_MILLICPUS = 8_192_000
RENEW_SECONDS = 10.0
"""Between two renewals of a suspension; a third of its lease."""


def write_stop(run_dir: Path, grace_seconds: float) -> None:
    """Say with which grace a run is to end at its supervisor's next SIGTERM.

    Without room on disk to write it, the launch spec's applies. ``InvalidInput``: no such grace.
    """
    grace = decimal_seconds(grace_seconds)
    with open_run_dir(run_dir) as directory, contextlib.suppress(OSError):
        replace_synced(directory, "stop", grace)


def write_pace(run_dir: Path, cpu_millicpus: int | None) -> None:
    """Say to which share a run is held from its supervisor's next SIGUSR1 on.

    ``InvalidInput``: no such share. ``OutOfSpace``: no room to write it; the former share stays.
    """
    _put(run_dir, "pace", encode_pace(cpu_millicpus) + "\n")


def write_suspended(run_dir: Path, *, suspended: bool, frozen: bool = False) -> None:
    """Say whether it is suspended from its supervisor's next SIGUSR1 on; raises ``OutOfSpace``.

    If ``frozen``, whoever writes it freezes it, and the supervisor only ends that.
    """
    if suspended:
        _put(run_dir, "suspended", "frozen\n" if frozen else "")
        return
    with open_run_dir(run_dir) as directory, contextlib.suppress(FileNotFoundError):
        os.unlink("suspended", dir_fd=directory)


def renew_suspended(run_dir: Path) -> bool:
    """Let a suspension go on for its lease; false = it has ended.

    Raises ``NotFound`` without its run directory.
    """
    with open_run_dir(run_dir) as directory:
        try:
            os.utime("suspended", dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
    return True


def _put(run_dir: Path, name: str, text: str) -> None:
    with open_run_dir(run_dir) as directory:
        try:
            replace_synced(directory, name, text)
        except OSError as error:
            raise OutOfSpace(f"{run_dir}: cannot write {name!r}: {error.strerror}") from error


def encode_pace(cpu_millicpus: int | None) -> str:
    """A share of CPU time as the supervisor reads it; ``None`` = no limit, else ``InvalidInput``.

    >>> encode_pace(250), encode_pace(3), encode_pace(None)
    ('250', '10', 'max')
    """
    if cpu_millicpus is None:
        return "max"
    if not 0 < cpu_millicpus <= _MAX_MILLICPUS:
        raise InvalidInput(f"cpu_millicpus: {cpu_millicpus}; give 1 to {_MAX_MILLICPUS}")
    return str(max(_MIN_MILLICPUS, cpu_millicpus))


def decimal_seconds(seconds: float) -> str:
    """Seconds as the supervisor reads them; ``InvalidInput``: none or too many."""
    if not 0 <= seconds <= 1e9:
        raise InvalidInput(f"grace: {seconds} seconds; give a number from 0 to 1e9")
    return f"{seconds:.3f}"
