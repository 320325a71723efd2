"""The event log and its snapshots in one SQLite file: WAL, synchronous FULL, a hash chain.

``opening.py`` checks and salvages the file; here it is whole, and every answer of SQLite that says
otherwise is raised.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Self

from wharfinger.errors import OutOfSpace, StoreDamaged
from wharfinger.files.atomic import sync_directory
from wharfinger.store.base import DamageReport, LogEntry, NewEntry, Position, Snapshot, link, seal
from wharfinger.store.database import Database, Statement
from wharfinger.store.faults import system_errors, translated
from wharfinger.store.files import Files, Head, Room
from wharfinger.store.opening import Opened, open_whole
from wharfinger.store.survey import ENTRIES_AFTER, parse_entry, read_snapshots

log = logging.getLogger(__name__)

DEFAULT_FLOOR_BYTES = 64 << 20
DEFAULT_RESERVE_BYTES = 8 << 20

_READ_ENTRIES = 512
_COMPACT_ENTRIES = 2_048
_ROW_BYTES = 64  # what a row costs besides its payload, with hash and page overhead
_REFILL_EVERY_APPENDS = 64

_OLDER_SNAPSHOTS = (
    "DELETE FROM snapshots WHERE sequence NOT IN"
    " (SELECT sequence FROM snapshots ORDER BY sequence DESC LIMIT 2)"
)


class SqliteStore(AbstractContextManager["SqliteStore"]):
    """A ``Store`` in one directory, held exclusively; made by ``SqliteStore.open``."""

    def __init__(self, database: Database, opened: Opened, head: Head) -> None:
        self._database = database
        self._anchor, self._end = opened.anchor, opened.end
        self._damage, self._report_pending = opened.damage, opened.report_pending
        self._head = head
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

        What is damaged is salvaged as far as possible and reported by ``damage``; the damaged
        file is kept.

        Args:
            directory: Made with mode 0700 where it does not exist.
            free_disk_floor_bytes: Below this much room no new work is accepted.
            reserve_bytes: Kept free for reports on running workloads.
            accept_loss: Begin with an empty log where nothing of a damaged log can be saved.

        Raises:
            StoreDamaged: Nothing can be saved, and ``accept_loss`` is not given.
            InvalidInput: A newer program wrote it.
            OutOfSpace: There is no room even for the reserve.
            Unavailable: Another process holds it, or the directory can't be used.
        """
        files = Files(Path(directory))
        room = Room(files, free_disk_floor_bytes, reserve_bytes)
        head = Head(files.head)
        try:
            opened = _open(files, head, accept_loss=accept_loss)
        except OutOfSpace:
            if not room.give_up_reserve():
                raise
            opened = _open(files, head, accept_loss=accept_loss)
        database = Database(files, opened.connection, room)
        database.refill_reserve()
        if opened.damage is not None:
            log.warning("event log: %s", opened.damage)
        return cls(database, opened, head)

    @property
    def damage(self) -> DamageReport | None:
        """What was found damaged; repeated at each opening until something is appended."""
        return self._damage

    @property
    def last_sequence(self) -> int:
        """The newest entry's sequence; 0 = there was never one."""
        return self._end.sequence

    @property
    def first_sequence(self) -> int:
        """The oldest kept entry's sequence; ``last_sequence + 1`` where none is kept."""
        return self._anchor.sequence + 1

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the WAL back and close. Nothing depends on this being called."""
        self._head.close()
        self._database.close()

    def append(self, entries: Sequence[NewEntry], *, urgent: bool = False) -> int:
        """Append all entries or none; see ``Store``."""
        if not entries:
            return self._end.sequence
        if not urgent:
            self._database.check_room(sum(_ROW_BYTES + len(new.payload) for new in entries))
        rows, end = _chained(entries, self._end)
        work: list[Statement] = [("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)]
        if self._report_pending:
            work.append(("UPDATE log_state SET pending_report = NULL, replaced_head = NULL", [()]))
        self._database.write(work, urgent=urgent)
        self._end, self._report_pending = end, False
        self._head.advance(self._end)
        self._database.keep_wal_small()
        self._appends += 1
        if self._appends % _REFILL_EVERY_APPENDS == 0:
            self._database.refill_reserve(if_missing=True)
        return self._end.sequence

    def save_snapshot(self, sequence: int, time: float, schema: int, payload: bytes) -> None:
        """Keep a state durably, and the one before it; older ones are removed."""
        self._database.check_room(2 * len(payload))  # once in the WAL, once in the main file
        chain_hash = self._hash_at(sequence)
        if chain_hash is None or sequence < 1:
            raise ValueError(f"there is no event {sequence} to take a snapshot at")
        snapshot = Snapshot(sequence, _exact(time), schema, payload)
        row = (sequence, snapshot.time, schema, payload, chain_hash, seal(snapshot, chain_hash))
        insert = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?)"
        self._database.write([(insert, [row]), (_OLDER_SNAPSHOTS, [()])], urgent=False)
        self._database.keep_wal_small()
        self._database.refill_reserve()

    def compact(self, keep_entries: int) -> None:
        """Drop entries that both snapshots contain; the next call continues the bounded vacuum."""
        kept = self._database.rows("SELECT sequence FROM snapshots")
        older = min(row[0] for row in kept) if len(kept) == 2 else 0
        last = min(older, self._end.sequence - keep_entries)
        while self._anchor.sequence < last:  # in steps; after each the log is whole
            anchor = self._position(min(last, self._anchor.sequence + _COMPACT_ENTRIES))
            state = "UPDATE log_state SET anchor_sequence = ?, anchor_hash = ?"
            self._database.write(
                [
                    ("DELETE FROM entries WHERE sequence <= ?", [(anchor.sequence,)]),
                    (state, [(anchor.sequence, anchor.hash)]),
                ],
                urgent=True,
            )
            self._anchor = anchor
            self._database.keep_wal_small()
        self._database.vacuum()
        self._database.keep_wal_small()
        self._database.refill_reserve()

    def room_bytes(self) -> int:
        """How much can still be written, the reserve not counted."""
        return self._database.room_bytes()

    def check_room(self) -> None:
        """Make sure that new work can be logged, else ``OutOfSpace``."""
        self._database.check_room(0)

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[LogEntry]:
        """The entries after ``after``, oldest first, from the first that is kept."""
        position: Position | None = None
        count = 0
        while limit is None or count < limit:
            start = max(after, self._anchor.sequence)
            if position is None or position.sequence < start:
                position = self._position(start)
            if position.sequence >= self._end.sequence:
                return
            batch = _READ_ENTRIES if limit is None else min(_READ_ENTRIES, limit - count)
            for row in self._rows(position.sequence, batch):
                entry, position = self._follow(position, row)
                count += 1
                yield entry

    def _position(self, sequence: int) -> Position:
        if sequence >= self._end.sequence:
            return self._end
        digest = self._hash_at(sequence)
        if digest is None:
            raise self._damaged(f"event {sequence} is gone", self._anchor.sequence)
        return Position(sequence, digest)

    def _rows(self, after: int, count: int) -> list[tuple[object, ...]]:
        try:
            rows = self._database.rows(f"{ENTRIES_AFTER} LIMIT ?", (after, count))
        except StoreDamaged as error:
            raise self._damaged(str(error), after) from error
        if not rows:
            raise self._damaged(f"event {after + 1} is gone", after)
        return rows

    def _follow(self, position: Position, row: tuple[object, ...]) -> tuple[LogEntry, Position]:
        parsed = parse_entry(row)
        if parsed is not None:
            entry, digest = parsed
            follows = entry.sequence == position.sequence + 1
            if follows and link(position.hash, entry) == digest:
                return entry, Position(entry.sequence, digest)
        what = f"event {position.sequence + 1} is not what was written"
        raise self._damaged(what, position.sequence)

    def _damaged(self, what: str, last_whole_sequence: int) -> StoreDamaged:
        return StoreDamaged(
            f"{self._database.files.database}: {what}; the last whole event is "
            f"{last_whole_sequence}: start the manager again, which saves what is whole",
            last_whole_sequence,
        )

    def _hash_at(self, sequence: int) -> bytes | None:
        if sequence == self._anchor.sequence:
            return self._anchor.hash
        rows = self._database.rows("SELECT hash FROM entries WHERE sequence = ?", (sequence,))
        return rows[0][0] if rows and isinstance(rows[0][0], bytes) else None

    def tail(self, limit: int) -> list[LogEntry]:
        """The newest ``limit`` entries, oldest of them first."""
        return list(self.read(after=max(0, self._end.sequence - limit)))

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is whole and that the log agrees with."""
        with translated(self._database.files.database):
            for whole in read_snapshots(self._database.connection):
                if whole is not None and self._hash_at(whole[0].sequence) == whole[1]:
                    return whole[0]
                finding = "a snapshot is not what was written; an older one is used"
                log.warning("%s: %s", self._database.files.database, finding)
                report = self._damage or DamageReport((), self._end.sequence)
                if finding not in report.findings:
                    self._damage = replace(report, findings=(*report.findings, finding))
        if self._anchor.sequence:
            raise self._damaged("no snapshot is whole that the log goes on from", 0)
        return None


def _open(files: Files, head: Head, *, accept_loss: bool) -> Opened:
    with system_errors(files.directory), translated(files.database):
        opened = open_whole(files, head, accept_loss=accept_loss)
        try:
            head.create(opened.end)
            sync_directory(files.directory)
        except BaseException:
            head.close()
            opened.connection.close()
            raise
        return opened


def _chained(
    entries: Sequence[NewEntry], end: Position
) -> tuple[list[tuple[object, ...]], Position]:
    rows: list[tuple[object, ...]] = []
    for new in entries:
        entry = LogEntry(end.sequence + 1, _exact(new.time), new.kind, new.payload)
        end = Position(entry.sequence, link(end.hash, entry))
        rows.append((end.sequence, entry.time, new.kind, new.payload, end.hash))
    return rows, end


def _exact(time: float) -> float:
    """The time as SQLite gives it back: a negative zero would lose its sign."""
    if not math.isfinite(time):
        raise ValueError(f"{time} is not a time in seconds since the epoch")
    return float(time) + 0.0
