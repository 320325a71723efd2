"""The store's directory: its files and their replacement, the head, and room on its disk."""

import contextlib
import os
import resource
from hashlib import blake2b
from pathlib import Path

from wharfinger.errors import OutOfSpace
from wharfinger.files.atomic import closing_fd, sync_directory
from wharfinger.store.base import Position

_MEBIBYTE = 1 << 20
_CREATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Files:
    """The store's files in its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.database = directory / "manager.db"
        self.wal = directory / "manager.db-wal"
        self.shared_memory = directory / "manager.db-shm"
        self.head = directory / "manager.head"

    def is_empty(self) -> bool:
        """Whether there is no database, or only a file without content."""
        return _size_bytes(self.database) == 0

    def building(self, part: str) -> Path:
        """A piece of a salvage that is not complete yet."""
        return self.directory / f"manager.db.salvaging-{part}"

    def clear_building(self) -> None:
        """Remove what an incomplete salvage left, including SQLite's own files."""
        for path in self.directory.glob("manager.db.salvaging-*"):
            path.unlink()

    def salvaged(self, number: int) -> Path:
        """A salvaged database that is complete and durable, to be installed next."""
        return self.directory / f"manager.db.salvaged-{number}"

    def damaged(self, number: int) -> tuple[Path, Path]:
        """Where a damaged database and its WAL are kept; SQLite finds a WAL by its main file."""
        name = f"manager.db.damaged-{number}"
        return self.directory / name, self.directory / f"{name}-wal"

    def next_number(self) -> int:
        """The first number that no kept file has."""
        number = 1
        while any(path.exists() for path in self.damaged(number)):
            number += 1
        return number

    def prepare(self) -> None:
        """Make the directory, closed to others, and finish an interrupted replacement."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        self.clear_building()
        for complete in self.directory.glob("manager.db.salvaged-*"):
            self.install(int(complete.name.rpartition("-")[2]))

    def create_database(self) -> None:
        """Make an empty file with mode 0600, which SQLite's other files inherit."""
        os.close(os.open(self.database, _CREATE, 0o600))
        self.database.chmod(0o600)

    def install(self, number: int) -> None:
        """Replace the damaged database by a salvaged one; can be repeated after a crash.

        The WAL moves first: it must never lie next to a database that it does not belong to.
        """
        damaged, damaged_wal = self.damaged(number)
        if self.wal.exists() and _size_bytes(self.wal) == 0:
            self.wal.unlink()  # SQLite makes it even to read
        _keep(self.wal, damaged_wal)
        self.shared_memory.unlink(missing_ok=True)
        _keep(self.database, damaged)
        sync_directory(self.directory)
        self.salvaged(number).rename(self.database)
        sync_directory(self.directory)


def _keep(path: Path, kept: Path) -> None:
    if path.exists() and not kept.exists():
        path.rename(kept)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class Head:
    """``manager.head``: how far the log was acknowledged; shows a WAL that is cut off or removed.

    It is written after each commit and not synced: it may lag behind the log, never lead it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def raw(self) -> bytes | None:
        """The file's content; ``None`` = there is no file."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def create(self, position: Position) -> None:
        """Write the file durably, and keep it open."""
        self.close()
        self._descriptor = os.open(self._path, _CREATE, 0o600)
        if self.raw() != encode_head(position):
            # In this order an existing file needs no new block: the disk may be full.
            os.pwrite(self._descriptor, encode_head(position), 0)
            os.ftruncate(self._descriptor, len(encode_head(position)))
            os.fsync(self._descriptor)

    def advance(self, position: Position) -> None:
        """Note a commit."""
        if self._descriptor is not None:
            # The commit is durable anyway, and the head may lag.
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, encode_head(position), 0)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def encode_head(position: Position) -> bytes:
    """One line of constant length: sequence, hash, and a checksum over both."""
    text = f"{position.sequence:020d} {position.hash.hex()}"
    return f"{text} {_checksum(text)}\n".encode()


def decode_head(raw: bytes | None) -> Position | None:
    """The position again; ``None`` where the line is missing or damaged."""
    text, _, checksum = (raw or b"").decode("ascii", "replace").rstrip("\n").rpartition(" ")
    sequence, _, digest = text.partition(" ")
    if checksum != _checksum(text):
        return None
    return Position(int(sequence), bytes.fromhex(digest))


def _checksum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8, person=b"wharfinger-head").hexdigest()


class Room:
    """How much can be written in the directory. Below the floor no new work is accepted.

    The reserve is a file of real blocks that is deleted when the disk is full, so that reports
    on running workloads can still be written.
    """

    def __init__(self, files: Files, floor_bytes: int, reserve_bytes: int) -> None:
        self._directory = files.directory
        self._growing = (files.database, files.wal)
        self._floor_bytes = floor_bytes
        self._reserve_bytes = reserve_bytes
        self._reserve = files.directory / "manager.reserve"
        self.reserve_missing = reserve_bytes > 0

    def room_bytes(self) -> int:
        """The smaller of free disk space and what the limit on a file's size leaves."""
        disk = os.statvfs(self._directory)
        room = disk.f_bavail * disk.f_frsize
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if limit != resource.RLIM_INFINITY:
            room = min(room, max(0, limit - sum(map(_size_bytes, self._growing))))
        return room

    def check(self, needed_bytes: int = 0) -> None:
        """Make sure that the floor stays free when this much is written, else ``OutOfSpace``."""
        room = self.room_bytes()
        if room - needed_bytes < self._floor_bytes:
            raise OutOfSpace(
                f"{self._directory}: room for {room / _MEBIBYTE:.1f}Mi is left and "
                f"{self._floor_bytes / _MEBIBYTE:.1f}Mi must stay free: nothing new is taken "
                "in until some room is freed there; what runs goes on"
            )

    def give_up_reserve(self) -> bool:
        """Delete the reserve; whether there was one."""
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
        has_room = self.room_bytes() >= self._floor_bytes + self._reserve_bytes
        self.reserve_missing = not (has_room and self._allocate())

    def _allocate(self) -> bool:
        try:
            with closing_fd(os.open(self._reserve, _CREATE, 0o600)) as descriptor:
                os.posix_fallocate(descriptor, 0, self._reserve_bytes)
                os.ftruncate(descriptor, self._reserve_bytes)
        except OSError:
            # Another process took the room. Half a reserve would look like one: remove it.
            with contextlib.suppress(OSError):
                self._reserve.unlink()
            return False
        return True
