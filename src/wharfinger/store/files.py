"""The files of a store, and what becomes of them when one is replaced."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Files:
    """The store's files in its directory."""

    directory: Path

    @property
    def database(self) -> Path:
        """The log and its snapshots."""
        return self.directory / "manager.db"

    @property
    def wal(self) -> Path:
        """SQLite's write-ahead log."""
        return self.directory / "manager.db-wal"

    @property
    def shared_memory(self) -> Path:
        """SQLite's index of the WAL; holds nothing that can't be made again."""
        return self.directory / "manager.db-shm"

    @property
    def head(self) -> Path:
        """How far the log was acknowledged."""
        return self.directory / "manager.head"

    def building(self, part: str) -> Path:
        """A piece of a salvage that is not complete yet."""
        return self.directory / f"manager.db.salvaging-{part}"

    def clear_building(self) -> None:
        """Drop what an incomplete salvage left, SQLite's files beside it among it."""
        for path in self.directory.glob("manager.db.salvaging-*"):
            path.unlink()

    def salvaged(self, number: int) -> Path:
        """A salvaged database that is complete and durable, and takes the place next."""
        return self.directory / f"manager.db.salvaged-{number}"

    def damaged(self, number: int) -> tuple[Path, Path]:
        """Where a damaged database and its WAL are kept.

        SQLite finds a WAL by its database's name, so that the copy can be opened as it was.
        """
        name = f"manager.db.damaged-{number}"
        return self.directory / name, self.directory / f"{name}-wal"

    def next_number(self) -> int:
        """The first that no kept file has."""
        number = 1
        while any(path.exists() for path in self.damaged(number)):
            number += 1
        return number

    def prepare(self) -> None:
        """Make the directory, closed to others, and finish a replacement that was cut short."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        self.clear_building()
        for complete in self.directory.glob("manager.db.salvaged-*"):
            self.install(int(complete.name.rpartition("-")[2]))

    def create_database(self) -> None:
        """Make an empty file of the right mode, which SQLite's other files then inherit."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(self.database, flags, 0o600))
        self.database.chmod(0o600)

    def install(self, number: int) -> None:
        """Put a salvaged database in the damaged one's place. Cut short, it is begun again.

        The WAL goes first: it must never lie beside a database that it does not belong to.
        """
        damaged, damaged_wal = self.damaged(number)
        if self.wal.exists() and self.wal.stat().st_size == 0:
            self.wal.unlink()  # made by SQLite when it only looked
        self._set_aside(self.wal, damaged_wal)
        self.shared_memory.unlink(missing_ok=True)
        self._set_aside(self.database, damaged)
        self.sync_directory()
        self.salvaged(number).rename(self.database)
        self.sync_directory()

    def _set_aside(self, path: Path, kept: Path) -> None:
        if path.exists() and not kept.exists():
            path.rename(kept)

    def sync_directory(self) -> None:
        """Make names durable."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
