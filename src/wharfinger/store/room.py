"""Room on the disk: the floor below which nothing new comes in, and the reserve.

The reserve is a file of real blocks that is given up when the disk is full, so that what
becomes of the workloads that already run can still be written down.
"""

import contextlib
import os
import resource
from collections.abc import Sequence
from pathlib import Path

from wharfinger.errors import OutOfSpace

_MEBIBYTE = 1 << 20


class Room:
    """How much can be written in a directory.

    Args:
        directory: Where the store is.
        grows: The files that grow with it; a limit on a file's size is counted against them.
        floor_bytes: Below this much room nothing new is taken in.
        reserve_bytes: Size of the reserve; 0 = none.
    """

    def __init__(
        self, directory: Path, grows: Sequence[Path], floor_bytes: int, reserve_bytes: int
    ) -> None:
        self._directory = directory
        self._grows = tuple(grows)
        self._floor_bytes = floor_bytes
        self._reserve_bytes = reserve_bytes
        self._reserve = directory / "manager.reserve"
        self.reserve_missing = reserve_bytes > 0

    def room_bytes(self) -> int:
        """What the file system and the limit on a file's size leave, the smaller of both."""
        found = os.statvfs(self._directory)
        room = found.f_bavail * found.f_frsize
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if limit != resource.RLIM_INFINITY:
            room = min(room, max(0, limit - sum(map(_size_bytes, self._grows))))
        return room

    def check(self, needed_bytes: int = 0) -> None:
        """Make sure that the floor stays free when this much is written.

        Raises:
            OutOfSpace: It would not.
        """
        room = self.room_bytes()
        if room - needed_bytes < self._floor_bytes:
            raise OutOfSpace(
                f"{self._directory}: room for {room / _MEBIBYTE:.1f} MiB is left and "
                f"{self._floor_bytes / _MEBIBYTE:.1f} MiB must stay free: nothing new is taken "
                "in until some room is freed there; what runs goes on"
            )

    def give_up_reserve(self) -> bool:
        """Make room at once; says whether there was a reserve to give up."""
        self.reserve_missing = self._reserve_bytes > 0
        try:
            self._reserve.unlink()
        except FileNotFoundError:
            return False
        return True

    def refill_reserve(self) -> None:
        """Make the reserve where it is missing and the disk has room for it above the floor."""
        if self._reserve_bytes == 0 or _size_bytes(self._reserve) == self._reserve_bytes:
            self.reserve_missing = False
            return
        if self.room_bytes() < self._floor_bytes + self._reserve_bytes:
            self.reserve_missing = True
            return
        self.reserve_missing = not self._allocate()

    def _allocate(self) -> bool:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._reserve, flags, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._reserve_bytes)
                os.ftruncate(descriptor, self._reserve_bytes)
            finally:
                os.close(descriptor)
        except OSError:
            # Another process was quicker: half a reserve would look like one, so there is none.
            with contextlib.suppress(OSError):
                self._reserve.unlink()
            return False
        return True


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
