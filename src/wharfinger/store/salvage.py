"""Rebuilds a damaged database from what of it is whole, and keeps the damaged one.

``SqliteStore.open`` calls it after a survey with findings. The order is: build beside it,
make that durable, rename. A crash in between leaves the damaged database, from which the
same is built again, or the complete new one, which is then put in place.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from wharfinger.errors import StoreDamaged
from wharfinger.store import schema
from wharfinger.store.base import DamageReport
from wharfinger.store.chain import GENESIS, Position, link, seal
from wharfinger.store.faults import UNREADABLE, concerns_content
from wharfinger.store.files import Files
from wharfinger.store.survey import (
    LogRun,
    Survey,
    salvageable_entries,
    salvageable_snapshots,
    survey,
)

_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_MOST_PAGES = 1 << 24  # 64 GiB of them; a damaged number must not lead further out

View = Callable[[Files], contextlib.AbstractContextManager[sqlite3.Connection]]


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the new database is made of; no view means of nothing."""

    run: LogRun
    survey: Survey
    view: View | None


def salvage(
    files: Files,
    findings: list[str],
    head: Position | None,
    raw_head: bytes | None,
    *,
    accept_loss: bool,
) -> None:
    """Replace the database by what of it is whole; the new one holds the report.

    Args:
        files: The store's files; no connection to them may be open.
        findings: What a survey found.
        head: How far the log was acknowledged, as far as that is known.
        raw_head: The file that says so, as it is.
        accept_loss: Go on although nothing can be saved.

    Raises:
        StoreDamaged: Nothing can be saved, and that was not accepted.
        OutOfSpace: There is no room beside the damaged one.
    """
    choice, seen_last = _choose(files, head)
    number = files.next_number()
    kept = files.damaged(number)[0] if files.database.exists() or files.wal.exists() else None
    report = _report(choice, tuple(dict.fromkeys(findings)), seen_last, kept)
    if choice.view is None and not accept_loss:
        raise StoreDamaged(
            f"{files.database}: {'; '.join(report.findings)}; nothing of it can be saved: restore "
            "a backup of the directory, or give --accept-loss to begin again; the "
            "damaged log is then kept beside the new one",
            0,
        )
    files.clear_building()
    try:
        _build(files, choice, report, raw_head).rename(files.salvaged(number))
    finally:
        files.clear_building()
    files.sync_directory()
    files.install(number)


def _choose(files: Files, head: Position | None) -> tuple[_Choice, int]:
    """The view that saves most, and the newest entry of which any has a trace."""
    best = _Choice(LogRun(GENESIS, GENESIS), Survey(), None)
    seen_last = 0 if head is None else head.sequence
    for view in (_with_wal, _without_wal, _put_together):
        found = _survey(files, view)
        run = found.best()
        seen_last = max(seen_last, found.seen_last)
        if run is not None and run.end.sequence > best.run.end.sequence:
            best = _Choice(run, found, view)
        if head is not None and 0 < seen_last <= best.run.end.sequence:
            break
    return best, seen_last


def _survey(files: Files, view: View) -> Survey:
    if not files.database.exists():
        return Survey()
    try:
        with view(files) as connection:
            return survey(connection)
    except UNREADABLE as error:
        if not concerns_content(error):
            raise
        return Survey()


# --- three ways to look at a damaged database -----------------------------------------------


@contextmanager
def _with_wal(files: Files) -> Iterator[sqlite3.Connection]:
    """As SQLite would, but without giving up at a wrong length or schema."""
    with closing(schema.connect(files.database, "ro")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        yield connection


@contextmanager
def _without_wal(files: Files) -> Iterator[sqlite3.Connection]:
    """The main file alone: a WAL that is cut off can hide newer pages behind older ones."""
    with closing(schema.connect(files.database, "ro", immutable=True)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        yield connection


@contextmanager
def _put_together(files: Files) -> Iterator[sqlite3.Connection]:
    """A copy with every committed page of the WAL, and a first page made again.

    SQLite drops all of a WAL that follows one damaged byte, though most pages in it are whole
    or are written once more behind it; the chain tells. The first page says where each table
    begins, so without it SQLite finds nothing. The tables are made in one order at the start
    and their roots never move: any new database tells.
    """
    template, copy = files.building("template"), files.building("copy")
    files.clear_building()
    try:
        _create(template).close()
        _write_together(files, _first_page(template), copy)
        with closing(schema.connect(copy, "ro", immutable=True)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            yield connection
    finally:
        template.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)


def _write_together(files: Files, first_page: bytes, copy: Path) -> None:
    shutil.copyfile(files.database, copy)
    with copy.open("r+b") as target:
        if files.wal.exists():
            for number, page in _committed_pages(files.wal.read_bytes(), len(first_page)):
                target.seek((number - 1) * len(first_page))
                target.write(page)
        target.seek(0)
        target.write(first_page)


def _committed_pages(wal: bytes, page_bytes: int) -> list[tuple[int, bytes]]:
    """Number and content of each page up to the last commit, oldest first.

    The form of a WAL: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    """
    salts = wal[16:24]
    pages: list[tuple[int, bytes]] = []
    committed = 0
    for at in range(_WAL_HEADER_BYTES, len(wal), _FRAME_HEADER_BYTES + page_bytes):
        number, size_after_commit = struct.unpack_from(">II", wal[at : at + 8].ljust(8, b"\0"))
        page = wal[at + _FRAME_HEADER_BYTES : at + _FRAME_HEADER_BYTES + page_bytes]
        of_this_wal = wal[at + 8 : at + 16] == salts and len(page) == page_bytes
        if of_this_wal and 0 < number <= _MOST_PAGES:
            pages.append((number, page))
            if size_after_commit:
                committed = len(pages)
    return pages[:committed]


def _first_page(template: Path) -> bytes:
    content = template.read_bytes()
    page = bytearray(content[: int.from_bytes(content[16:18], "big")])
    # The length in the header holds only when these four bytes confirm it; else the file's does.
    page[92:96] = bytes(byte ^ 0xFF for byte in page[24:28])
    return bytes(page)


# --- the new database -------------------------------------------------------------------------


def _create(path: Path) -> sqlite3.Connection:
    """A new database without a journal: until it is complete, it is not read."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = schema.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    schema.migrate(connection)
    return connection


def _build(files: Files, choice: _Choice, report: DamageReport, raw_head: bytes | None) -> Path:
    with contextlib.ExitStack() as stack:
        # The view first: it may clear what an earlier attempt left.
        source = None if choice.view is None else stack.enter_context(choice.view(files))
        path = files.building("new")
        target = stack.enter_context(closing(_create(path)))
        if source is not None:
            _copy(source, target, choice)
        _finish(target, choice.run, report, raw_head)
    with path.open("rb") as built:
        os.fsync(built.fileno())
    return path


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, choice: _Choice) -> None:
    """Copy the chosen run, checking the chain again, and the snapshots that agree with it."""
    target.execute("BEGIN")
    position = choice.run.start
    for entry, digest in salvageable_entries(source, position.sequence, []):
        if position == choice.run.end:
            break
        if entry.sequence == position.sequence + 1 and link(position.hash, entry) == digest:
            row = (entry.sequence, entry.time, entry.kind, entry.payload, digest)
            target.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
            position = Position(entry.sequence, digest)
    if position != choice.run.end:
        raise StoreDamaged("the file reads differently each time", position.sequence)
    agreeing = set(choice.survey.agreeing(choice.run))
    for shot, chain_hash in salvageable_snapshots(source, []):
        if shot.sequence in agreeing:
            columns = (shot.sequence, shot.time, shot.schema, shot.payload, chain_hash)
            sealed = (*columns, seal(shot, chain_hash))
            target.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", sealed)
    target.execute("COMMIT")


def _finish(
    target: sqlite3.Connection, run: LogRun, report: DamageReport, raw_head: bytes | None
) -> None:
    target.execute(
        "UPDATE log_state SET anchor_sequence = ?, anchor_hash = ?, replaced_head = ?,"
        " pending_report = ?",
        (run.start.sequence, run.start.hash, raw_head, encode_report(report)),
    )


# --- the report ----------------------------------------------------------------------------------


def _report(
    choice: _Choice, findings: tuple[str, ...], seen_last: int, kept: Path | None
) -> DamageReport:
    first, last = choice.run.start.sequence, choice.run.end.sequence
    known_from = choice.survey.anchor.sequence
    return DamageReport(
        findings=findings,
        last_whole_sequence=last,
        last_whole_time=choice.run.end_time,
        lost_events=(last + 1, seen_last) if seen_last > last else None,
        lost_history=(known_from + 1, first) if first > known_from else None,
        damaged_copy=kept,
    )


def encode_report(report: DamageReport) -> str:
    """The report as the new database keeps it until it can no longer go unread."""
    return json.dumps(asdict(report), default=str)


def decode_report(text: str) -> DamageReport:
    """The report again."""
    told = json.loads(text)
    return DamageReport(
        findings=tuple(told["findings"]),
        last_whole_sequence=told["last_whole_sequence"],
        last_whole_time=told["last_whole_time"],
        lost_events=_span(told["lost_events"]),
        lost_history=_span(told["lost_history"]),
        damaged_copy=None if told["damaged_copy"] is None else Path(told["damaged_copy"]),
    )


def _span(told: list[int] | None) -> tuple[int, int] | None:
    return None if told is None else (told[0], told[1])
