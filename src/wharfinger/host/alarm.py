"""A descriptor that becomes readable after a while, also together with others.

The local engine tries again by it what there was no room for. ``os.timerfd_create`` would do,
from Python 3.13 on.
"""

import ctypes
import os
from contextlib import suppress

_CLOCK_MONOTONIC = 1


class _Times(ctypes.Structure):
    """``struct itimerspec``: the interval, then the first time; seconds and nanoseconds each."""

    _fields_ = (
        ("interval_seconds", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("first_seconds", ctypes.c_long),
        ("first_nanoseconds", ctypes.c_long),
    )


class Alarm:
    """A timer descriptor, not set at first.

    Raises:
        OSError: There is no descriptor left.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def fileno(self) -> int:
        """Readable when the time has come, until ``drain``."""
        return self._fd

    def set(self, seconds: float) -> None:
        """Ring once, this much later (above 0), instead of when it was set to before."""
        whole = int(seconds)
        times = _Times(0, 0, whole, int((seconds - whole) * 1e9))
        self._libc.timerfd_settime(self._fd, 0, ctypes.byref(times), None)

    def drain(self) -> None:
        """Take in that it rang."""
        with suppress(BlockingIOError):
            os.read(self._fd, 8)

    def close(self) -> None:
        """Let go of the descriptor."""
        os.close(self._fd)
