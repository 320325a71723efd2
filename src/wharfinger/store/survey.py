"""Reads a database as if it were damaged, and reports what of it is whole.

``opening.py`` runs it over every database; ``salvage.py`` builds a new one from the result.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wharfinger.store import schema
from wharfinger.store.base import GENESIS, LogEntry, Position, Snapshot, link, seal
from wharfinger.store.faults import UNREADABLE, noted_damage, printable, unreadable

_FARTHEST_KEY = 65_536
_FARTHEST_STEP = 1 << 32
ENTRIES_AFTER = (
    "SELECT sequence, time, kind, payload, hash FROM entries WHERE sequence > ? ORDER BY sequence"
)
_SNAPSHOTS = "SELECT sequence, time, schema, payload, chain_hash, hash FROM snapshots"
_STATE = (
    "SELECT schema_version, anchor_sequence, anchor_hash, replaced_head, pending_report"
    " FROM log_state"
)


@dataclass(frozen=True, slots=True)
class LogState:
    """The one row of ``log_state``; ``anchor`` is the entry before the first that is kept.

    ``replaced_head`` is the head at the time this database replaced a damaged one,
    ``pending_report`` the report on that, until something is appended.
    """

    schema_version: int
    anchor: Position
    replaced_head: bytes | None
    pending_report: str | None


@dataclass(slots=True)
class LogRun:
    """Entries in an unbroken chain; ``start`` is the position before the first of them.

    ``marks`` has the hash at each sequence at which there is a snapshot.
    """

    start: Position
    end: Position
    end_time: float | None = None
    marks: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Survey:
    """What a database holds; ``state`` is ``None`` where that can't be read.

    ``runs`` are the unbroken pieces of the log, in order: all but the first follow damage.
    ``snapshots`` has the chain hash of each that is whole in itself, ``findings`` what is not as
    it was written, ``seen_last`` the newest entry of which there is any trace.
    """

    state: LogState | None = None
    runs: list[LogRun] = field(default_factory=list)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    seen_last: int = 0

    @property
    def anchor(self) -> Position:
        """The position before the first entry that should be there."""
        return GENESIS if self.state is None else self.state.anchor

    def best(self) -> LogRun | None:
        """The run that gives the newest state: from the beginning, or with a snapshot in it."""
        usable = [
            run
            for run in self.runs
            if run.end.sequence and (run.start == GENESIS or self.agreeing(run))
        ]
        return max(usable, key=lambda run: (run.end.sequence, -run.start.sequence), default=None)

    def agreeing(self, run: LogRun) -> list[int]:
        """The snapshots that this run agrees with."""
        return [at for at, digest in self.snapshots.items() if run.marks.get(at) == digest]


def survey(connection: sqlite3.Connection) -> Survey:
    """Read everything, however damaged; ``sqlite3.Error`` for no room, or a lock."""
    result = Survey()
    findings = result.findings
    with noted_damage("the log's state", findings):
        result.state = _read_state(connection, findings)
    with noted_damage("the file", findings):
        answer = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        if answer != "ok":
            findings.append(printable(answer))
    # A definition is bytes of the file too, and a wrong one may show only when it is used.
    with noted_damage("the tables' definitions", findings):
        if schema.definitions(connection) != schema.expected(schema.version(connection)):
            findings.append("the tables' definitions are not what was written")
    for snapshot, chain_hash in salvageable_snapshots(connection, findings):
        result.snapshots[snapshot.sequence] = chain_hash
    _find_runs(connection, result)
    _judge(result)
    return result


def _read_state(connection: sqlite3.Connection, findings: list[str]) -> LogState | None:
    row = connection.execute(_STATE).fetchone()
    written = schema.version(connection)
    match row:
        case (int(version), int(sequence), bytes(digest), bytes() | None, str() | None):
            if version != written:
                findings.append(f"the schema's version is {written} here and {version} there")
            if sequence >= 0:
                return LogState(min(version, written), Position(sequence, digest), row[3], row[4])
    findings.append("the log's state is not what was written")
    return None


def _judge(result: Survey) -> None:
    anchor, first = result.anchor, result.runs[0]
    if len(result.runs) > 1 or first.end.sequence < result.seen_last:
        result.findings.append(f"the chain of events is broken after event {first.end.sequence}")
    agreeing = result.agreeing(first)
    for at in result.snapshots:
        if at not in agreeing and at <= first.end.sequence:
            result.findings.append(f"the snapshot at event {at} does not belong to the log")
        elif at not in agreeing and len(result.runs) == 1:
            result.findings.append(f"the log ends before event {at}, of which there is a snapshot")
    if anchor.sequence and not agreeing:
        result.findings.append("no snapshot is whole that the log goes on from")


def read_snapshots(connection: sqlite3.Connection) -> Iterator[tuple[Snapshot, bytes] | None]:
    """Each snapshot with its chain hash, newest first; ``None`` for one that is damaged."""
    return map(_parse_snapshot, connection.execute(f"{_SNAPSHOTS} ORDER BY sequence DESC"))


def _parse_snapshot(row: Any) -> tuple[Snapshot, bytes] | None:
    match row:
        case (int(), float(), int(), bytes(), bytes(chain_hash), bytes(digest)):
            snapshot = Snapshot(*row[:4])
            if snapshot.sequence > 0 and seal(snapshot, chain_hash) == digest:
                return snapshot, chain_hash
    return None


def salvageable_snapshots(
    connection: sqlite3.Connection, findings: list[str]
) -> Iterator[tuple[Snapshot, bytes]]:
    """The whole snapshots, each with its chain hash, one at a time, whatever the others are."""
    for sequence in _snapshot_sequences(connection, findings):
        try:
            row = connection.execute(f"{_SNAPSHOTS} WHERE sequence = ?", (sequence,)).fetchone()
        except UNREADABLE as error:
            findings.append(unreadable(f"the snapshot at event {sequence}", error))
            continue
        snapshot = _parse_snapshot(row)
        if snapshot is not None:
            yield snapshot
        else:
            findings.append(f"the snapshot at event {sequence} is not what was written")


def _snapshot_sequences(connection: sqlite3.Connection, findings: list[str]) -> list[int]:
    sequences: set[int] = set()
    for order in ("ASC", "DESC"):  # from both ends: a page between may be unreadable
        with noted_damage("the snapshots", findings):
            query = f"SELECT sequence FROM snapshots ORDER BY sequence {order}"
            for (sequence,) in connection.execute(query):
                sequences.add(sequence)
    return sorted(sequences, reverse=True)


def _find_runs(connection: sqlite3.Connection, result: Survey) -> None:
    snapshots, runs = result.snapshots, result.runs
    runs.append(_begin(result.anchor, snapshots))
    previous = result.anchor
    problems: list[str] = []
    for entry, digest in salvageable_entries(connection, 0, problems):
        position = Position(entry.sequence, digest)
        before = _predecessor(entry, digest, previous, snapshots)
        if before is not None:
            if before != runs[-1].end:
                runs.append(_begin(before, snapshots))
            runs[-1].end, runs[-1].end_time = position, entry.time
            if entry.sequence in snapshots:
                runs[-1].marks[entry.sequence] = digest
        if before is not None or entry.sequence == previous.sequence + 1:
            result.seen_last = max(result.seen_last, entry.sequence)
        elif entry.sequence > previous.sequence + 1:
            result.seen_last = max(result.seen_last, previous.sequence + 1)
        previous = position
    result.findings.extend(problems[:1])
    # A snapshot holds a state even where no entry near it can be read.
    for at, digest in snapshots.items():
        if not any(run.marks.get(at) == digest for run in runs):
            runs.append(_begin(Position(at, digest), snapshots))
    result.seen_last = max([result.seen_last, *(run.end.sequence for run in runs)])


def _begin(start: Position, snapshots: dict[int, bytes]) -> LogRun:
    marks = {start.sequence: start.hash} if start.sequence in snapshots else {}
    return LogRun(start, start, marks=marks)


def _predecessor(
    entry: LogEntry, digest: bytes, previous: Position, snapshots: dict[int, bytes]
) -> Position | None:
    """The known position that the entry follows: the previous entry's or a snapshot's."""
    before = entry.sequence - 1
    if previous.sequence == before and link(previous.hash, entry) == digest:
        return previous
    chain_hash = snapshots.get(before)
    if chain_hash is not None and link(chain_hash, entry) == digest:
        return Position(before, chain_hash)
    return None


def salvageable_entries(
    connection: sqlite3.Connection, after: int, findings: list[str]
) -> Iterator[tuple[LogEntry, bytes]]:
    """Each entry that can be read at all, with its hash, past pages that can't."""
    position: int | None = after
    while position is not None:
        try:
            for row in connection.execute(ENTRIES_AFTER, (position,)):
                parsed = parse_entry(row)
                if parsed is None:
                    findings.append(f"what follows event {position} is not of its form")
                    continue
                # A damaged key may be anything; the search does not follow it too far.
                if position < parsed[0].sequence <= position + _FARTHEST_KEY:
                    position = parsed[0].sequence
                yield parsed
        except UNREADABLE as error:
            findings.append(unreadable(f"what follows event {position}", error))
            position = _next_readable(connection, position)
        else:
            return


def _next_readable(connection: sqlite3.Connection, position: int) -> int | None:
    """After which sequence reading can continue; ``None`` = nowhere. Doubles, then bisects."""
    low, high = position, position + 1
    while not _is_readable(connection, high):
        low, high = high, position + 2 * (high - position)
        if high > position + _FARTHEST_STEP:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_readable(connection, middle) else (middle, high)
    return high


def _is_readable(connection: sqlite3.Connection, position: int) -> bool:
    findings: list[str] = []
    with noted_damage("an entry", findings):
        connection.execute(f"{ENTRIES_AFTER} LIMIT 1", (position,)).fetchone()
    return not findings


def parse_entry(row: tuple[object, ...]) -> tuple[LogEntry, bytes] | None:
    """A row's entry and hash; ``None`` where a value is not of its column's type."""
    match row:
        case (int(sequence), float(time), str(kind), bytes(payload), bytes(digest)):
            if sequence > 0:
                return LogEntry(sequence, time, kind, payload), digest
    return None
