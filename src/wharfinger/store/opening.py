"""Opens a store: checks its files, schema and content, and has damage salvaged.

The survey uses a connection that can't write, because closing an ordinary one writes the WAL back.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from wharfinger.errors import StoreDamaged, Unavailable
from wharfinger.files.atomic import sync_directory
from wharfinger.store import schema
from wharfinger.store.base import GENESIS, DamageReport, Position
from wharfinger.store.faults import UNKNOWN_SEQUENCE, noted_damage
from wharfinger.store.files import Files, Head, decode_head
from wharfinger.store.salvage import decode_report, salvage
from wharfinger.store.survey import Survey, survey

_JOURNAL_LIMIT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A whole database, open for writing, exclusively.

    ``anchor`` is the position before the first kept entry, ``end`` the last entry's; ``damage``
    says what was salvaged or can't be checked, ``report_pending`` whether the database keeps that.
    """

    connection: sqlite3.Connection
    anchor: Position
    end: Position
    damage: DamageReport | None
    report_pending: bool


def open_whole(files: Files, head: Head, *, accept_loss: bool) -> Opened:
    """Open the database; where it is damaged, what is whole of it.

    Raises as ``SqliteStore.open``, and SQLite's errors for no room, or another process.
    """
    files.prepare()
    raw_head = head.raw()
    for _ in range(2):
        result = _examine(files, raw_head)
        if not result.findings:
            return _open_surveyed(files, result, raw_head)
        salvage(files, result.findings, raw_head, accept_loss=accept_loss)
    raise StoreDamaged(
        f"{files.database} was just made again and is damaged again: "
        f"{'; '.join(result.findings)}: is its disk failing?",
        UNKNOWN_SEQUENCE,
    )


def _examine(files: Files, raw_head: bytes | None) -> Survey:
    if not files.is_empty():
        result = _survey(files)
        _compare_head(result, raw_head)
        return result
    result = Survey()
    if files.wal.exists() and files.wal.stat().st_size:
        result.findings.append("the main file of the log is gone, and only its WAL is there")
    if raw_head is not None:
        acknowledged = decode_head(raw_head)
        upto = "?" if acknowledged is None else acknowledged.sequence
        if upto:
            result.findings.append(f"the log is gone, which was acknowledged up to event {upto}")
    return result


def _survey(files: Files) -> Survey:
    header = files.database.open("rb").read(20)
    result, findings = Survey(), list[str]()
    with noted_damage("the file", findings):
        with closing(schema.connect(files.database, "ro")) as connection:
            connection.execute("BEGIN")  # one state of the file throughout, without writers
            result = survey(connection)
        if result.state is not None:
            schema.refuse_newer(result.state.schema_version)
    if header[18:20] not in (b"\x01\x01", b"\x02\x02"):
        findings.append("the file's header is not what was written")
    result.findings += findings
    return result


def _compare_head(result: Survey, raw_head: bytes | None) -> None:
    """Find a log that ends early, or is another one than was acknowledged."""
    acknowledged = decode_head(raw_head)
    if acknowledged is None or not result.runs:
        return
    if result.state is not None and result.state.replaced_head == raw_head:
        return  # the head of the log that this one replaced; its loss is reported already
    end = result.runs[0].end
    if acknowledged.sequence > end.sequence:
        result.findings.append(
            f"the log ends at event {end.sequence} and was acknowledged up to "
            f"event {acknowledged.sequence}"
        )
    elif acknowledged.sequence == end.sequence and acknowledged.hash != end.hash:
        result.findings.append(f"event {end.sequence} is not the one that was acknowledged")


def _open_surveyed(files: Files, result: Survey, raw_head: bytes | None) -> Opened:
    connection = _open_for_writing(files)
    try:
        end, damage, report_pending = GENESIS, None, False
        if result.runs:
            end = result.runs[0].end
            if end.sequence and decode_head(raw_head) is None:
                state = "gone" if raw_head is None else "damaged"
                note = f"manager.head is {state}: whether events at the log's end are lost "
                time = result.runs[0].end_time
                damage = DamageReport((f"{note}can't be told",), end.sequence, time)
        _check_end(connection, files, end)
        if result.state is not None and result.state.pending_report is not None:
            damage, report_pending = decode_report(result.state.pending_report), True
        return Opened(connection, result.anchor, end, damage, report_pending)
    except BaseException:
        connection.close()
        raise


def _open_for_writing(files: Files) -> sqlite3.Connection:
    new = files.is_empty()
    files.create_database()
    connection = schema.connect(files.database)
    try:
        _configure(connection)
        schema.migrate(connection)
        if new:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            sync_directory(files.directory)
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


def _check_end(connection: sqlite3.Connection, files: Files, end: Position) -> None:
    """Refuse a log that another process wrote to between the survey and the lock."""
    row = connection.execute(
        "SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    if row is not None and Position(*row) != end:
        raise Unavailable(f"{files.database}: another process writes to it; stop that one")
