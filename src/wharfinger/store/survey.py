"""Reads a database as if it were damaged, and says what of it is whole.

``SqliteStore.open`` runs it over every database that it opens; ``salvage.py`` rebuilds one
from what it found.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from wharfinger.store import schema
from wharfinger.store.base import LogEntry, Snapshot
from wharfinger.store.chain import GENESIS, Position, link, seal
from wharfinger.store.faults import UNREADABLE, concerns_content

_FARTHEST_KEY = 65_536
_FARTHEST_STEP = 1 << 32
_ENTRIES = (
    "SELECT sequence, time, kind, payload, hash FROM entries WHERE sequence > ? ORDER BY sequence"
)
_SNAPSHOTS = "SELECT sequence, time, schema, payload, chain_hash, hash FROM snapshots"
_STATE = (
    "SELECT schema_version, anchor_sequence, anchor_hash, replaced_head, pending_report"
    " FROM log_state"
)


@dataclass(frozen=True, slots=True)
class LogState:
    """The one row of ``log_state``.

    Attributes:
        schema_version: As written here and in the file's header; the lower where they differ.
        anchor: The entry before the first that is kept.
        replaced_head: The head that was found when this database replaced a damaged one.
        pending_report: What is to be told of that, until something is appended.
    """

    schema_version: int
    anchor: Position
    replaced_head: bytes | None
    pending_report: str | None


@dataclass(slots=True)
class LogRun:
    """Entries that hang together.

    Attributes:
        start: The position before the first of them.
        end: The position of the last; ``start`` where there is none.
        end_time: The last one's time; ``None`` where there is none.
        marks: The hash at each sequence at which there is a snapshot.
    """

    start: Position
    end: Position
    end_time: float | None = None
    marks: dict[int, bytes] = field(default_factory=dict)

    def extend(self, entry: LogEntry, position: Position, wanted: dict[int, bytes]) -> None:
        """Take in the next entry."""
        self.end, self.end_time = position, entry.time
        if entry.sequence in wanted:
            self.marks[entry.sequence] = position.hash


@dataclass(slots=True)
class Survey:
    """What a database holds.

    Attributes:
        state: Its state row; ``None`` where that can't be read.
        runs: What hangs together of the log, in order; each begins behind something broken,
            but the first one may be whole.
        snapshots: Sequence and chain hash of each snapshot that is whole in itself.
        findings: What is not as it was written.
        seen_last: The newest entry of which there is any trace.
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
        """The run from which the newest state can be built; ``None`` = there is none."""
        usable = [run for run in self.runs if run.end.sequence and self.supports(run)]
        return max(usable, key=lambda run: (run.end.sequence, -run.start.sequence), default=None)

    def supports(self, run: LogRun) -> bool:
        """Whether a state can be built on a run: from the beginning or from a snapshot in it."""
        return run.start == GENESIS or bool(self.agreeing(run))

    def agreeing(self, run: LogRun) -> list[int]:
        """The snapshots that this run agrees with."""
        return [at for at, digest in self.snapshots.items() if run.marks.get(at) == digest]


def survey(connection: sqlite3.Connection) -> Survey:
    """Read everything, however damaged.

    Raises:
        sqlite3.Error: For what is no damage: no room, a lock.
    """
    found = Survey()
    found.state = _read_state(connection, found.findings)
    _check_pages(connection, found.findings)
    _check_tables(connection, found.findings)
    found.snapshots = _whole_snapshots(connection, found.findings)
    _find_runs(connection, found)
    _judge(found)
    return found


def _judge(found: Survey) -> None:
    """The findings that need the whole picture."""
    anchor, first = found.anchor, found.runs[0]
    if len(found.runs) > 1 or first.end.sequence < found.seen_last:
        found.findings.append(f"the chain of events is broken after event {first.end.sequence}")
    agreeing = found.agreeing(first)
    for at in found.snapshots:
        if at not in agreeing and at <= first.end.sequence:
            found.findings.append(f"the snapshot at event {at} does not belong to the log")
        elif at not in agreeing and len(found.runs) == 1:
            found.findings.append(f"the log ends before event {at}, of which there is a snapshot")
    if anchor.sequence and not agreeing:
        found.findings.append("no snapshot is whole that the log goes on from")


def _read_state(connection: sqlite3.Connection, findings: list[str]) -> LogState | None:
    try:
        row = connection.execute(_STATE).fetchone()
        written = schema.version(connection)
    except UNREADABLE as error:
        findings.append(_unreadable("the log's state", error))
        return None
    match row:
        case (int(version), int(sequence), bytes(digest), bytes() | None, str() | None):
            if version != written:
                findings.append(f"the schema's version is {written} here and {version} there")
            if sequence >= 0:
                return LogState(min(version, written), Position(sequence, digest), row[3], row[4])
    findings.append("the log's state is not what was written")
    return None


def _check_pages(connection: sqlite3.Connection, findings: list[str]) -> None:
    try:
        told = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except UNREADABLE as error:
        told = _unreadable("the file", error)
    if told != "ok":
        findings.append(_printable(str(told)))


def _check_tables(connection: sqlite3.Connection, findings: list[str]) -> None:
    """A definition is bytes of the file too, and a wrong one may show only when it is used."""
    try:
        same = schema.definitions(connection) == schema.expected(schema.version(connection))
    except UNREADABLE as error:
        findings.append(_unreadable("the tables' definitions", error))
        return
    if not same:
        findings.append("the tables' definitions are not what was written")


def _unreadable(what: str, error: Exception) -> str:
    if not concerns_content(error):
        raise error
    return f"{what} can't be read: {_printable(str(error))}"


def _printable(told: str) -> str:
    """One line without what a damaged name can hold."""
    return " ".join(told.encode("ascii", "backslashreplace").decode().split())


# --- snapshots ---------------------------------------------------------------------------


def read_snapshots(connection: sqlite3.Connection) -> Iterator[tuple[Snapshot, bytes] | None]:
    """Each snapshot with its chain hash, newest first; ``None`` for one that is not whole."""
    for row in connection.execute(f"{_SNAPSHOTS} ORDER BY sequence DESC"):
        match row:
            case (int(), float(), int(), bytes(), bytes(chain_hash), bytes(digest)):
                snapshot = Snapshot(*row[:4])
                yield (snapshot, chain_hash) if _sealed(snapshot, chain_hash, digest) else None
            case _:
                yield None


def _sealed(snapshot: Snapshot, chain_hash: bytes, digest: bytes) -> bool:
    return snapshot.sequence > 0 and seal(snapshot, chain_hash) == digest


def _whole_snapshots(connection: sqlite3.Connection, findings: list[str]) -> dict[int, bytes]:
    whole: dict[int, bytes] = {}
    for found in salvageable_snapshots(connection, findings):
        whole[found[0].sequence] = found[1]
    return whole


def salvageable_snapshots(
    connection: sqlite3.Connection, findings: list[str]
) -> Iterator[tuple[Snapshot, bytes]]:
    """The snapshots that are whole, one at a time, whatever the others are."""
    for sequence in _snapshot_sequences(connection, findings):
        try:
            row = connection.execute(f"{_SNAPSHOTS} WHERE sequence = ?", (sequence,)).fetchone()
        except UNREADABLE as error:
            findings.append(_unreadable(f"the snapshot at event {sequence}", error))
            continue
        match row:
            case (int(), float(), int(), bytes(), bytes(chain_hash), bytes(digest)):
                snapshot = Snapshot(*row[:4])
                if _sealed(snapshot, chain_hash, digest):
                    yield snapshot, chain_hash
                    continue
        findings.append(f"the snapshot at event {sequence} is not what was written")


def _snapshot_sequences(connection: sqlite3.Connection, findings: list[str]) -> list[int]:
    """Where snapshots are, from both ends, since a page between may be unreadable."""
    found: set[int] = set()
    for order in ("ASC", "DESC"):
        try:
            for (sequence,) in connection.execute(
                f"SELECT sequence FROM snapshots ORDER BY sequence {order}"
            ):
                found.add(sequence)
        except UNREADABLE as error:
            findings.append(_unreadable("the snapshots", error))
    return sorted(found, reverse=True)


# --- entries -----------------------------------------------------------------------------


def _find_runs(connection: sqlite3.Connection, found: Survey) -> None:
    """Split the log where its chain is broken."""
    wanted = found.snapshots
    run = _begin(found.anchor, wanted)
    found.runs.append(run)
    previous = found.anchor
    unreadable: list[str] = []
    for entry, digest in salvageable_entries(connection, 0, unreadable):
        position = Position(entry.sequence, digest)
        before = _predecessor(entry, digest, previous, wanted)
        if before is not None:
            if before != run.end:
                run = _begin(before, wanted)
                found.runs.append(run)
            run.extend(entry, position, wanted)
        if before is not None or entry.sequence == previous.sequence + 1:
            found.seen_last = max(found.seen_last, entry.sequence)
        elif entry.sequence > previous.sequence + 1:
            found.seen_last = max(found.seen_last, previous.sequence + 1)
        previous = position
    found.findings.extend(unreadable[:1])
    # A snapshot holds a state even where no entry beside it can be read.
    for at, digest in wanted.items():
        if not any(run.marks.get(at) == digest for run in found.runs):
            found.runs.append(_begin(Position(at, digest), wanted))
    found.seen_last = max([found.seen_last, *(run.end.sequence for run in found.runs)])


def _begin(start: Position, wanted: dict[int, bytes]) -> LogRun:
    marks = {start.sequence: start.hash} if start.sequence in wanted else {}
    return LogRun(start, start, marks=marks)


def _predecessor(
    entry: LogEntry, digest: bytes, previous: Position, snapshots: dict[int, bytes]
) -> Position | None:
    """The position that the entry follows; ``None`` where it follows nothing that is known."""
    before = entry.sequence - 1
    if previous.sequence == before and link(previous.hash, entry) == digest:
        return previous
    known = snapshots.get(before)
    if known is not None and link(known, entry) == digest:
        return Position(before, known)
    return None


def salvageable_entries(
    connection: sqlite3.Connection, after: int, findings: list[str]
) -> Iterator[tuple[LogEntry, bytes]]:
    """Each entry that can be read at all, with its hash, past pages that can't."""
    position: int | None = after
    while position is not None:
        try:
            for row in connection.execute(_ENTRIES, (position,)):
                parsed = parse_entry(row)
                if parsed is None:
                    findings.append(f"what follows event {position} is not of its form")
                    continue
                # A damaged key may be anything; the search does not follow it out of sight.
                if position < parsed[0].sequence <= position + _FARTHEST_KEY:
                    position = parsed[0].sequence
                yield parsed
        except UNREADABLE as error:
            findings.append(_unreadable(f"what follows event {position}", error))
            position = _next_readable(connection, position)
        else:
            return


def _next_readable(connection: sqlite3.Connection, position: int) -> int | None:
    """Behind which sequence reading can go on; ``None`` = nowhere. Doubles, then narrows."""
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
    try:
        connection.execute(f"{_ENTRIES} LIMIT 1", (position,)).fetchone()
    except UNREADABLE as error:
        if not concerns_content(error):
            raise
        return False
    return True


def parse_entry(row: tuple[object, ...]) -> tuple[LogEntry, bytes] | None:
    """A row's entry and hash; ``None`` where a value is not of its column's type."""
    match row:
        case (int(sequence), float(time), str(kind), bytes(payload), bytes(digest)):
            if sequence > 0:
                return LogEntry(sequence, time, kind, payload), digest
    return None
