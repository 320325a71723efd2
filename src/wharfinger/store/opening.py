"""What has to be true before a store is used: files in place, schema known, content whole.

``SqliteStore.open`` calls ``open_whole``; where something is not whole, ``salvage.py``
rebuilds it. A survey must not change the store: closing an ordinary connection writes the WAL back,
so the survey uses one that can't write.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from wharfinger.errors import StoreDamaged, Unavailable
from wharfinger.store import schema
from wharfinger.store.base import DamageReport
from wharfinger.store.chain import GENESIS, Position
from wharfinger.store.faults import UNKNOWN_SEQUENCE, UNREADABLE, concerns_content
from wharfinger.store.files import Files
from wharfinger.store.head import Head, decode
from wharfinger.store.salvage import decode_report, salvage
from wharfinger.store.survey import Survey, survey

_JOURNAL_LIMIT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A whole database, open for writing, exclusively.

    Attributes:
        anchor: The position before the first kept entry.
        end: The last entry's position.
        damage: What had to be done to it.
        report_pending: Whether the database keeps that report.
    """

    connection: sqlite3.Connection
    anchor: Position
    end: Position
    damage: DamageReport | None
    report_pending: bool


def open_whole(files: Files, head: Head, *, accept_loss: bool) -> Opened:
    """Open the database; where it is damaged, what is whole of it.

    Raises:
        StoreDamaged: Nothing can be saved, and ``accept_loss`` is not given.
        InvalidInput: A newer program wrote it.
        sqlite3.Error: There is no room, or another process holds it.
    """
    files.prepare()
    raw_head = head.raw()
    for _ in range(2):
        found = _examine(files, head)
        if not found.findings:
            return _open_surveyed(files, found, _head_notes(found, raw_head))
        known = None if raw_head is None else decode(raw_head)
        salvage(files, found.findings, known, raw_head, accept_loss=accept_loss)
    raise StoreDamaged(
        f"{files.database} was just made again and is damaged again: "
        f"{'; '.join(found.findings)}: is its disk failing?",
        UNKNOWN_SEQUENCE,
    )


# --- looking ---------------------------------------------------------------------------------


def _examine(files: Files, head: Head) -> Survey:
    """What the database holds, compared with what was acknowledged."""
    if not files.database.exists() or files.database.stat().st_size == 0:
        found = Survey()
        if files.wal.exists() and files.wal.stat().st_size:
            found.findings.append("the main file of the log is gone, and only its WAL is there")
        _compare_missing(found, head)
        return found
    found = _survey(files)
    _compare_head(found, head)
    return found


def _survey(files: Files) -> Survey:
    header = files.database.open("rb").read(20)
    try:
        with closing(schema.connect(files.database, "ro")) as connection:
            connection.execute("BEGIN")  # one state of the file throughout, without writers
            found = survey(connection)
        if found.state is not None:
            schema.refuse_newer(found.state.schema_version)
    except UNREADABLE as error:
        if not concerns_content(error):
            raise
        found = Survey(findings=[f"the file can't be read: {error!a}"])
    if header[18:20] not in (b"\x01\x01", b"\x02\x02"):
        found.findings.append("the file's header is not what was written")
    return found


def _compare_missing(found: Survey, head: Head) -> None:
    raw = head.raw()
    if raw is None:
        return
    acknowledged = decode(raw)
    if acknowledged is None or acknowledged.sequence:
        upto = "?" if acknowledged is None else acknowledged.sequence
        found.findings.append(f"the log is gone, which was acknowledged up to event {upto}")


def _compare_head(found: Survey, head: Head) -> None:
    """Add what the head tells: a log that ends early, or another one than was acknowledged."""
    raw = head.raw()
    acknowledged = None if raw is None else decode(raw)
    if acknowledged is None or not found.runs:
        return
    if found.state is not None and found.state.replaced_head == raw:
        return  # the head of the log that this one replaced; its loss is told already
    run = found.runs[0]
    if acknowledged.sequence > run.end.sequence:
        found.findings.append(
            f"the log ends at event {run.end.sequence} and was acknowledged up to "
            f"event {acknowledged.sequence}"
        )
    elif acknowledged.sequence == run.end.sequence and acknowledged.hash != run.end.hash:
        found.findings.append(f"event {run.end.sequence} is not the one that was acknowledged")


def _head_notes(found: Survey, raw_head: bytes | None) -> tuple[str, ...]:
    """What can't be known because the head is not there; nothing has to be rebuilt for it."""
    if not found.runs or found.runs[0].end.sequence == 0:
        return ()
    if raw_head is None:
        return ("manager.head is gone: whether events at the log's end are lost can't be told",)
    if decode(raw_head) is None:
        return ("manager.head is damaged: whether events at the log's end are lost can't be told",)
    return ()


# --- opening ---------------------------------------------------------------------------------


def _open_surveyed(files: Files, found: Survey, notes: tuple[str, ...]) -> Opened:
    connection = _open_for_writing(files)
    try:
        state, end, damage = found.state, GENESIS, None
        if found.runs:
            end = found.runs[0].end
            if notes:
                damage = DamageReport(notes, end.sequence, found.runs[0].end_time)
        _same_end(connection, files, end)
        pending = None if state is None else state.pending_report
        if pending is not None:
            damage = decode_report(pending)
        return Opened(connection, found.anchor, end, damage, pending is not None)
    except BaseException:
        connection.close()
        raise


def _open_for_writing(files: Files) -> sqlite3.Connection:
    new = not files.database.exists() or files.database.stat().st_size == 0
    files.create_database()
    connection = schema.connect(files.database)
    try:
        _configure(connection)
        schema.migrate(connection)
        if new:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            files.sync_directory()
        # Left by a reader; under the exclusive lock it is unused.
        files.shared_memory.unlink(missing_ok=True)
    except BaseException:
        connection.close()
        raise
    return connection


def _configure(connection: sqlite3.Connection) -> None:
    for pragma in (
        "locking_mode = EXCLUSIVE",  # before WAL: then no other process can write, or read half
        "auto_vacuum = INCREMENTAL",
        "journal_mode = WAL",
        "synchronous = FULL",
        "wal_autocheckpoint = 0",  # the store does it, where a failure can't spoil a commit
        f"journal_size_limit = {_JOURNAL_LIMIT_BYTES}",
        "temp_store = MEMORY",  # no temporary files: the disk may be full
        "cell_size_check = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _same_end(connection: sqlite3.Connection, files: Files, end: Position) -> None:
    """Between looking and locking, another process could have written."""
    row = connection.execute(
        "SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    if row is not None and Position(*row) != end:
        raise Unavailable(f"{files.database}: another process writes to it; stop that one")
