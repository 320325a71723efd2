"""Tells when an entry appears in a directory, without polling.

The local engine watches the run directories of supervisors that an earlier manager launched
and that had not started their program yet: their notice went to a process that is gone.
"""

import ctypes
import os
from pathlib import Path

_IN_MOVED_TO = 0x80
_IN_ONLYDIR = 0x01000000
_IN_DONT_FOLLOW = 0x02000000


class DirectoryWatch:
    """An inotify descriptor.

    Raises:
        OSError: The user has no inotify instance left.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._checked(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def fileno(self) -> int:
        """Readable when an entry has been renamed into one of the directories."""
        return self._fd

    def add(self, directory: Path) -> int:
        """Watch a directory; returns what ``remove`` wants.

        Raises:
            OSError: It is not there, or the user has no watch left.
        """
        mask = _IN_MOVED_TO | _IN_ONLYDIR | _IN_DONT_FOLLOW
        return self._checked(
            self._libc.inotify_add_watch(self._fd, os.fsencode(directory), ctypes.c_uint32(mask))
        )

    def remove(self, watch: int) -> None:
        """Watch it no more; one that went with its directory is no error."""
        self._libc.inotify_rm_watch(self._fd, watch)

    def drain(self) -> None:
        """Take in what was told, so that only later news makes it readable again."""
        try:
            while os.read(self._fd, 65536):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Let go of all watches."""
        os.close(self._fd)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
