"""Kernel files, read and written in one unbuffered call, with every error in one clear line.

A control file's error comes from the ``write`` itself: a buffered file would report it late.
"""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from wharfinger.errors import EngineFault
from wharfinger.files.atomic import closing_fd

_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})
# Only hostile groups nest deeper than a path is long; the kernel's own kill reaches them.
_OUT_OF_REACH = _GONE | {errno.ENAMETOOLONG}
_PASSING = frozenset({errno.EBUSY, errno.EAGAIN, errno.EINTR, errno.ENOMEM})
_POLL_SECONDS_FIRST = 0.0005
_POLL_SECONDS_MOST = 0.02


def fault(action: str, error: OSError) -> EngineFault:
    """One line: what was tried, and why the kernel refused; retryable where that may pass."""
    number = error.errno or 0
    why = f"{errno.errorcode.get(number, number)} ({os.strerror(number)})"
    return EngineFault(f"cannot {action}: {why}", retryable=number in _PASSING)


def read_bytes(path: Path) -> bytes:
    """The whole file; ``OSError`` as the kernel gives it."""
    with path.open("rb", buffering=0) as file:
        return file.read()


def read_text(path: Path) -> str | None:
    """The whole file; ``None`` where there is none, e.g. because its group is gone."""
    try:
        return os.fsdecode(read_bytes(path)).strip()
    except OSError as error:
        if error.errno in _OUT_OF_REACH:
            return None
        raise fault(f"read {path}", error) from error


def read_int(path: Path) -> int | None:
    """The file's number; ``None`` where there is no such file or it says ``max``."""
    text = read_text(path)
    return int(text) if text and text.lstrip("-").isdigit() else None


def read_field(path: Path, name: str) -> int | None:
    """The number of ``name`` in a file of ``name number`` lines; ``None`` where it is missing."""
    for line in (read_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return None


def write_raw(path: Path, value: str) -> None:
    """Write ``value`` in one call; ``OSError`` as the kernel gives it."""
    with closing_fd(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)) as descriptor:
        os.write(descriptor, value.encode())


def write_value(path: Path, value: str) -> None:
    """Write ``value`` in one call."""
    try:
        write_raw(path, value)
    except OSError as error:
        raise fault(f"write {value!r} to {path}", error) from error


def make_directory(path: Path) -> None:
    """Make a group where there is none."""
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise EngineFault(
            f"cannot create the group {path}: the kernel has a file of that name; "
            "choose another name"
        ) from error
    except OSError as error:
        raise fault(f"create the group {path}", error) from error


def subdirectories(path: Path) -> tuple[Path, ...]:
    """The groups directly beneath, by name; empty where the group is gone."""
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if error.errno in _OUT_OF_REACH:
            return ()
        raise fault(f"list {path}", error) from error
    return tuple(path / name for name in names)


def remove_directory(path: Path) -> bool:
    """Remove one group; whether it is gone. A group that is not empty stays."""
    try:
        path.rmdir()
    except OSError as error:
        if error.errno in _GONE:
            return True
        if error.errno in {errno.EBUSY, errno.ENOTEMPTY}:
            return False
        raise fault(f"remove the group {path}", error) from error
    return True


def remove_tree(path: Path) -> bool:
    """Remove a group and all beneath it, however deeply nested; whether all are gone."""
    try:
        _remove_beneath(path)
    except OSError as error:
        if error.errno in {errno.EBUSY, errno.ENOTEMPTY}:
            return False
        if error.errno not in _GONE:
            raise fault(f"remove the groups beneath {path}", error) from error
    return remove_directory(path)


def _remove_beneath(path: Path) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    # Groups may nest deeper than a path is long. So by one descriptor at a time: down to a group
    # without children, then up by "..".
    names: list[str] = []
    here = os.open(path, flags)
    try:
        while True:
            below = next((e.name for e in os.scandir(here) if e.is_dir(follow_symlinks=False)), "")
            if not below and not names:
                return
            following = os.open(below or "..", flags, dir_fd=here)
            os.close(here)
            here = following
            if below:
                names.append(below)
            else:
                os.rmdir(names.pop(), dir_fd=here)
    finally:
        os.close(here)


def wait_until(condition: Callable[[], bool], timeout_seconds: float) -> bool:
    """Whether ``condition`` came true in time; it is tested at least once."""
    deadline = time.monotonic() + timeout_seconds
    pause_seconds = _POLL_SECONDS_FIRST
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, _POLL_SECONDS_MOST)
    return True
