"""Calls of the C library; descriptors for launches, and two for the local engine's loop."""

import ctypes
import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

from wharfinger.files.atomic import closing_fd

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLOCK_MONOTONIC = 1
_IN_MOVED_TO = 0x80
_IN_ONLYDIR = 0x01000000
_IN_DONT_FOLLOW = 0x02000000
_FIRST_HIGH = 5  # a launch passes 0 to 4


def call_libc(function: str, *arguments: object) -> int:
    """The result of a function of the C library; ``OSError`` where it is below 0."""
    result: int = getattr(_LIBC, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def high(fd: int) -> int:
    """The descriptor, moved beyond those that a launch redirects."""
    with closing_fd(fd):
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_HIGH)


def high_memfd(name: str) -> int:
    """An empty file in memory, beyond those that a launch redirects."""
    return high(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))


def sealed_memfd(content: bytes) -> int:
    """A file in memory that nobody can change."""
    fd = high_memfd("wharfinger-spec")
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


class _Descriptor:
    """A kernel descriptor made through the C library; ``OSError`` where there is none left."""

    def __init__(self, function: str, *arguments: int) -> None:
        self._fd = call_libc(function, *arguments)

    def fileno(self) -> int:
        """Readable when there is news, until ``drain``."""
        return self._fd

    def drain(self) -> None:
        """Take in the news."""
        with suppress(BlockingIOError):
            while os.read(self._fd, 65536):
                pass

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


class Alarm(_Descriptor):
    """A timer, at which the local engine retries; Python 3.13 has ``os.timerfd_create``."""

    def __init__(self) -> None:
        super().__init__("timerfd_create", _CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)

    def set(self, seconds: float) -> None:
        """Ring once, this much later (above 0); replaces an earlier setting."""
        whole = int(seconds)
        # A ``struct itimerspec``: the interval, then the first time.
        times = struct.pack("@4l", 0, 0, whole, int((seconds - whole) * 1e9))
        call_libc("timerfd_settime", self._fd, 0, times, None)


class DirectoryWatch(_Descriptor):
    """Tells when an entry is renamed into one of some directories (inotify).

    For the run directories of supervisors whose own notice goes to an earlier, dead manager.
    """

    def __init__(self) -> None:
        super().__init__("inotify_init1", os.O_CLOEXEC | os.O_NONBLOCK)

    def add(self, directory: Path) -> int:
        """Watch a directory; returns the argument for ``remove``."""
        mask = ctypes.c_uint32(_IN_MOVED_TO | _IN_ONLYDIR | _IN_DONT_FOLLOW)
        return call_libc("inotify_add_watch", self._fd, os.fsencode(directory), mask)

    def remove(self, watch: int) -> None:
        """Stop watching a directory; one that is gone is no error."""
        with suppress(OSError):
            call_libc("inotify_rm_watch", self._fd, watch)
