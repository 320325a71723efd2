"""The open database: durable transactions, and how they make room on a full disk."""

import contextlib
import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

from wharfinger.errors import OutOfSpace
from wharfinger.store.faults import system_errors, translated
from wharfinger.store.files import Files, Room
from wharfinger.store.schema import transaction

log = logging.getLogger(__name__)

_VACUUM_PAGES = 256
_VACUUM_STEPS = 16
_WAL_BYTES = 4 << 20

Statement = tuple[str, Sequence[Sequence[object]]]
"""SQL and the parameters of each of its executions."""


class Database:
    """SQLite's connection, with our errors and the room on its disk."""

    def __init__(self, files: Files, connection: sqlite3.Connection, room: Room) -> None:
        self.files = files
        self.connection = connection
        self._room = room

    def rows(self, query: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with translated(self.files.database):
            return self.connection.execute(query, parameters).fetchall()

    def write(self, statements: Sequence[Statement], *, urgent: bool) -> None:
        """One durable transaction; repeated on a full disk, with what room can be made."""
        try:
            self._transact(statements)
        except OutOfSpace:
            make_room = (self.checkpoint, self._room.give_up_reserve)
            for means in make_room if urgent else make_room[:1]:
                if means():
                    with contextlib.suppress(OutOfSpace):
                        self._transact(statements)
                        return
            raise

    def _transact(self, statements: Sequence[Statement]) -> None:
        with translated(self.files.database), transaction(self.connection):
            for query, parameters in statements:
                self.connection.executemany(query, parameters)

    def checkpoint(self) -> bool:
        """Write the WAL back; whether that succeeded. Commits are durable either way."""
        try:
            answer = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.DatabaseError as error:
            log.warning("%s: the WAL could not be written back: %s", self.files.database, error)
            return False
        return bool(answer[0] == 0)

    def keep_wal_small(self) -> None:
        """Write the WAL back when it is large."""
        try:
            if self.files.wal.stat().st_size > _WAL_BYTES:
                self.checkpoint()
        except OSError as error:
            log.warning("%s: %s", self.files.wal, error)

    def vacuum(self) -> None:
        """Give free pages back to the file system: a bounded number, in small transactions."""
        # Where there is no room for it, the pages are still free for the log's own use.
        with contextlib.suppress(OutOfSpace), translated(self.files.database):
            for _ in range(_VACUUM_STEPS):
                if not self.connection.execute("PRAGMA freelist_count").fetchone()[0]:
                    return
                # It yields a row without columns for each page, and only a script is run to its
                # end over such rows.
                self.connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES});")

    def refill_reserve(self, *, if_missing: bool = False) -> None:
        """Make the reserve where there is room for it; failures wait for the next call."""
        if self._room.reserve_missing or not if_missing:
            with contextlib.suppress(OSError):
                self._room.refill_reserve()

    def room_bytes(self) -> int:
        """How much can still be written, the reserve not counted."""
        with system_errors(self.files.directory):
            return self._room.room_bytes()

    def check_room(self, needed_bytes: int) -> None:
        """Make sure that the floor stays free when this much is written, else ``OutOfSpace``."""
        with system_errors(self.files.directory):
            self._room.check(needed_bytes)

    def close(self) -> None:
        """Write the WAL back where there is room, and close."""
        with translated(self.files.database):
            self.connection.close()
