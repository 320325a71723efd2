"""The store in one SQLite file: WAL, synchronous FULL, a hash chain over every entry.

The runtime calls it from one thread. What of a damaged file is whole is ``survey.py``'s
matter, what is built from that ``salvage.py``'s; here the file is whole, and every answer of
SQLite that says otherwise is raised.
"""

import contextlib
import logging
import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from wharfinger.errors import OutOfSpace, StoreDamaged
from wharfinger.store.base import DamageReport, LogEntry, NewEntry, Snapshot
from wharfinger.store.chain import Position, link, seal
from wharfinger.store.faults import system_errors, translated
from wharfinger.store.files import Files
from wharfinger.store.head import Head
from wharfinger.store.opening import Opened, open_whole
from wharfinger.store.room import Room
from wharfinger.store.survey import parse_entry, read_snapshots

log = logging.getLogger(__name__)

DEFAULT_FLOOR_BYTES = 64 << 20
DEFAULT_RESERVE_BYTES = 8 << 20

_READ_ENTRIES = 512
_COMPACT_ENTRIES = 2_048
_VACUUM_PAGES = 256
_VACUUM_STEPS = 16
_WAL_BYTES = 4 << 20
_ROW_BYTES = 64  # what a row costs beside its payload, hash and page overhead included
_REFILL_EVERY_APPENDS = 64


class SqliteStore:
    """An event log and its snapshots in ``manager.db``; see ``Store`` for what it promises.

    Made by ``SqliteStore.open``. It holds the file for itself: no other process can open it.
    """

    def __init__(self, files: Files, opened: Opened, head: Head, room: Room) -> None:
        self._files = files
        self._connection = opened.connection
        self._anchor, self._end = opened.anchor, opened.end
        self._damage, self._report_pending = opened.damage, opened.report_pending
        self._head = head
        self._room = room
        self._appends = 0

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        free_disk_floor_bytes: int = DEFAULT_FLOOR_BYTES,
        reserve_bytes: int = DEFAULT_RESERVE_BYTES,
        accept_loss: bool = False,
    ) -> Self:
        """Open the store in a directory, or begin one; everything in it is checked.

        Damage is mended as far as it can be and reported by ``damage``; the damaged file is
        kept beside the new one.

        Args:
            directory: Made with mode 0700 where it is not there.
            free_disk_floor_bytes: Below this much room nothing new is taken in.
            reserve_bytes: Kept back for reports on what already runs.
            accept_loss: Begin with an empty log where nothing of a damaged log can be saved.

        Raises:
            StoreDamaged: Nothing can be saved, and ``accept_loss`` is not given.
            InvalidInput: A newer program wrote it.
            OutOfSpace: There is no room even for the reserve.
            Unavailable: Another process holds it, or the directory can't be used.
        """
        files = Files(Path(directory))
        room = Room(
            files.directory, (files.database, files.wal), free_disk_floor_bytes, reserve_bytes
        )
        head = Head(files.head)
        try:
            opened = _open(files, head, accept_loss=accept_loss)
        except OutOfSpace:
            if not room.give_up_reserve():
                raise
            opened = _open(files, head, accept_loss=accept_loss)
        store = cls(files, opened, head, room)
        store._refill_reserve()
        if opened.damage is not None:
            log.warning("event log: %s", opened.damage)
        return store

    @property
    def damage(self) -> DamageReport | None:
        """What was not as it had been written; ``None`` = all was."""
        return self._damage

    @property
    def last_sequence(self) -> int:
        """The newest entry's sequence; 0 = there was never one."""
        return self._end.sequence

    @property
    def first_sequence(self) -> int:
        """The oldest kept entry's sequence; ``last_sequence + 1`` where none is kept."""
        return self._anchor.sequence + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write the WAL back and let go; leaves no WAL where there is room to write it back."""
        self._head.close()
        with translated(self._files.database):
            self._connection.close()

    # --- writing --------------------------------------------------------------------------------

    def append(self, entries: Sequence[NewEntry], *, urgent: bool = False) -> int:
        """Append all entries or none. On return they survive a power failure.

        Raises:
            OutOfSpace: Not urgent and below the floor, or no room even in the reserve.
            ValueError: A time is not a finite number.
        """
        if not entries:
            return self._end.sequence
        if not urgent:
            self._check_room(sum(_ROW_BYTES + len(new.payload) for new in entries))
        rows, end = self._chained(entries)
        self._write(partial(self._insert, rows), urgent=urgent)
        self._end, self._report_pending = end, False
        self._head.advance(end)
        self._after_append()
        return end.sequence

    def _chained(
        self, entries: Sequence[NewEntry]
    ) -> tuple[list[tuple[int, float, str, bytes, bytes]], Position]:
        rows = []
        sequence, digest = self._end.sequence, self._end.hash
        for new in entries:
            sequence += 1
            entry = LogEntry(sequence, _exact(new.time), new.kind, new.payload)
            digest = link(digest, entry)
            rows.append((sequence, entry.time, new.kind, new.payload, digest))
        return rows, Position(sequence, digest)

    def _insert(self, rows: Sequence[tuple[int, float, str, bytes, bytes]]) -> None:
        self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
        if self._report_pending:
            self._connection.execute(
                "UPDATE log_state SET pending_report = NULL, replaced_head = NULL"
            )

    def save_snapshot(self, sequence: int, time: float, schema: int, payload: bytes) -> None:
        """Keep a state durably, and the one before it; older ones go.

        Raises:
            OutOfSpace: There is no room for it above the floor.
            ValueError: The log does not hold that sequence, or the time is not finite.
        """
        self._check_room(2 * len(payload))  # once in the WAL, once in the main file
        with translated(self._files.database):
            chain_hash = self._hash_at(sequence)
        if chain_hash is None or sequence < 1:
            raise ValueError(f"there is no event {sequence} to take a snapshot at")
        snapshot = Snapshot(sequence, _exact(time), schema, payload)
        row = (sequence, snapshot.time, schema, payload, chain_hash, seal(snapshot, chain_hash))
        self._write(partial(self._replace_snapshot, row), urgent=False)
        self._keep_wal_small()
        self._refill_reserve()

    def _replace_snapshot(self, row: tuple[int, float, int, bytes, bytes, bytes]) -> None:
        self._connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", row)
        self._connection.execute(
            "DELETE FROM snapshots WHERE sequence NOT IN"
            " (SELECT sequence FROM snapshots ORDER BY sequence DESC LIMIT 2)"
        )

    def compact(self, keep_entries: int) -> None:
        """Drop entries that both kept snapshots contain, but never the newest ``keep_entries``.

        Gives room back, so it may use the reserve; bounded, so what is left is done next time.

        Raises:
            OutOfSpace: There is no room to do it, not even in the reserve.
        """
        with translated(self._files.database):
            kept = self._connection.execute("SELECT sequence FROM snapshots").fetchall()
        if len(kept) == 2:
            older = min(sequence for (sequence,) in kept)
            self._drop_upto(min(older, self._end.sequence - keep_entries))
        for _ in range(_VACUUM_STEPS):
            if not self._vacuum_step():
                break
        self._keep_wal_small()
        self._refill_reserve()

    def _drop_upto(self, last: int) -> None:
        """Move the anchor forward in steps; after each the log is whole."""
        while self._anchor.sequence < last:
            step = min(last, self._anchor.sequence + _COMPACT_ENTRIES)
            with translated(self._files.database):
                digest = self._hash_at(step)
            if digest is None:
                raise self._damaged(f"event {step} is gone", self._anchor.sequence)
            anchor = Position(step, digest)
            self._write(partial(self._move_anchor, anchor), urgent=True)
            self._anchor = anchor
            self._keep_wal_small()

    def _move_anchor(self, anchor: Position) -> None:
        self._connection.execute("DELETE FROM entries WHERE sequence <= ?", (anchor.sequence,))
        self._connection.execute(
            "UPDATE log_state SET anchor_sequence = ?, anchor_hash = ?",
            (anchor.sequence, anchor.hash),
        )

    def _vacuum_step(self) -> bool:
        """Give some free pages back to the file system; says whether there were any."""
        try:
            with translated(self._files.database):
                if not self._connection.execute("PRAGMA freelist_count").fetchone()[0]:
                    return False
                # It yields a row without columns for each page, and only a script is run to its
                # end over such rows.
                self._connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES});")
        except OutOfSpace:
            return False  # the pages are free for the log's own use, and that is enough for now
        return True

    # --- transactions and room ------------------------------------------------------------------

    def _write(self, work: Callable[[], None], *, urgent: bool) -> None:
        """One durable transaction; on a full disk again, with what room can be made."""
        try:
            self._transact(work)
        except OutOfSpace:
            make_room = (self._checkpoint, self._room.give_up_reserve)
            for means in make_room if urgent else make_room[:1]:
                if means():
                    with contextlib.suppress(OutOfSpace):
                        self._transact(work)
                        return
            raise

    def _transact(self, work: Callable[[], None]) -> None:
        with translated(self._files.database):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                work()
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back already, as it does when the disk is full.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _after_append(self) -> None:
        self._appends += 1
        self._keep_wal_small()
        if self._room.reserve_missing and self._appends % _REFILL_EVERY_APPENDS == 0:
            self._refill_reserve()

    def _refill_reserve(self) -> None:
        with contextlib.suppress(OSError):  # tried again at the next occasion
            self._room.refill_reserve()

    def _keep_wal_small(self) -> None:
        try:
            if self._files.wal.stat().st_size > _WAL_BYTES:
                self._checkpoint()
        except OSError as error:
            log.warning("%s: %s", self._files.wal, error)

    def _checkpoint(self) -> bool:
        """Write the WAL back; says whether it did. What was committed is durable either way."""
        try:
            told = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.DatabaseError as error:
            log.warning("%s: the WAL could not be written back: %s", self._files.database, error)
            return False
        return bool(told[0] == 0)

    def room_bytes(self) -> int:
        """How much can still be written, the reserve not counted."""
        with system_errors(self._files.directory):
            return self._room.room_bytes()

    def check_room(self) -> None:
        """Make sure that new work can be logged.

        Raises:
            OutOfSpace: Less room than the floor is left.
        """
        self._check_room(0)

    def _check_room(self, needed_bytes: int) -> None:
        with system_errors(self._files.directory):
            self._room.check(needed_bytes)

    # --- reading --------------------------------------------------------------------------------

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[LogEntry]:
        """The entries after ``after``, oldest first, from the first that is kept.

        Nothing is held between two entries: appending and compacting go on meanwhile.

        Raises:
            StoreDamaged: At the first entry that is not what was written; the whole ones
                before it have been given.
        """
        position: Position | None = None
        given = 0
        while limit is None or given < limit:
            start = max(after, self._anchor.sequence)
            if position is None or position.sequence < start:
                position = self._position(start)
            if position.sequence >= self._end.sequence:
                return
            count = _READ_ENTRIES if limit is None else min(_READ_ENTRIES, limit - given)
            for row in self._rows(position.sequence, count):
                entry, position = self._follow(position, row)
                given += 1
                yield entry

    def _position(self, sequence: int) -> Position:
        if sequence >= self._end.sequence:
            return self._end
        with translated(self._files.database):
            digest = self._hash_at(sequence)
        if digest is None:
            raise self._damaged(f"event {sequence} is gone", self._anchor.sequence)
        return Position(sequence, digest)

    def _rows(self, after: int, count: int) -> list[tuple[object, ...]]:
        try:
            with translated(self._files.database):
                rows = self._connection.execute(
                    "SELECT sequence, time, kind, payload, hash FROM entries"
                    " WHERE sequence > ? ORDER BY sequence LIMIT ?",
                    (after, count),
                ).fetchall()
        except StoreDamaged as error:
            raise self._damaged(str(error), after) from error
        if not rows:
            raise self._damaged(f"event {after + 1} is gone", after)
        return rows

    def _follow(self, position: Position, row: tuple[object, ...]) -> tuple[LogEntry, Position]:
        """The row as the entry after ``position``, if that is what it is."""
        parsed = parse_entry(row)
        if parsed is not None:
            entry, digest = parsed
            follows = entry.sequence == position.sequence + 1
            if follows and link(position.hash, entry) == digest:
                return entry, Position(entry.sequence, digest)
        raise self._damaged(
            f"event {position.sequence + 1} is not what was written", position.sequence
        )

    def _damaged(self, what: str, last_whole_sequence: int) -> StoreDamaged:
        return StoreDamaged(
            f"{self._files.database}: {what}; the last whole event is {last_whole_sequence}: "
            "start the manager again, which saves what is whole",
            last_whole_sequence,
        )

    def _hash_at(self, sequence: int) -> bytes | None:
        if sequence == self._anchor.sequence:
            return self._anchor.hash
        row = self._connection.execute(
            "SELECT hash FROM entries WHERE sequence = ?", (sequence,)
        ).fetchone()
        return None if row is None or not isinstance(row[0], bytes) else row[0]

    def tail(self, limit: int) -> list[LogEntry]:
        """The newest ``limit`` entries, oldest of them first."""
        return list(self.read(after=max(0, self._end.sequence - limit)))

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is whole and that the log agrees with."""
        with translated(self._files.database):
            for found in read_snapshots(self._connection):
                if found is not None and self._hash_at(found[0].sequence) == found[1]:
                    return found[0]
                self._note("a snapshot is not what was written; an older one is used")
        if self._anchor.sequence:
            raise self._damaged("no snapshot is whole that the log goes on from", 0)
        return None

    def _note(self, finding: str) -> None:
        """Add to the damage report what came to light after opening."""
        log.warning("%s: %s", self._files.database, finding)
        known = self._damage or DamageReport((), self._end.sequence)
        if finding not in known.findings:
            self._damage = replace(known, findings=(*known.findings, finding))


def _open(files: Files, head: Head, *, accept_loss: bool) -> Opened:
    with system_errors(files.directory), translated(files.database):
        opened = open_whole(files, head, accept_loss=accept_loss)
        try:
            head.create(opened.end)
            files.sync_directory()
        except BaseException:
            head.close()
            opened.connection.close()
            raise
        return opened


def _exact(time: float) -> float:
    """The time as SQLite gives it back: a negative zero would lose its sign."""
    if not math.isfinite(time):
        raise ValueError(f"{time} is not a time in seconds since the epoch")
    return float(time) + 0.0
