"""Builds a new database from what is whole of a damaged one, and keeps the damaged one.

It builds the new one next to the old, makes it durable, then renames it. A crash in between leaves
either the damaged one, to be salvaged again, or the new one, which the next opening installs.
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
from functools import partial
from pathlib import Path

import msgspec

from wharfinger.errors import StoreDamaged
from wharfinger.files.atomic import sync_directory
from wharfinger.store import schema
from wharfinger.store.base import GENESIS, DamageReport, Position, link, seal
from wharfinger.store.faults import noted_damage
from wharfinger.store.files import Files, decode_head
from wharfinger.store.survey import (
    LogRun,
    Survey,
    salvageable_entries,
    salvageable_snapshots,
    survey,
)

_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_MOST_PAGES = 1 << 24  # 64 GiB; bounds how far a damaged page number can lead

View = Callable[[Files], contextlib.AbstractContextManager[sqlite3.Connection]]


@dataclass(frozen=True, slots=True)
class _Source:
    """What the new database is made of; no view = nothing."""

    run: LogRun
    survey: Survey
    view: View | None


def salvage(
    files: Files, findings: list[str], raw_head: bytes | None, *, accept_loss: bool
) -> None:
    """Replace the database by what is whole of it, with a report; it must not be open.

    ``StoreDamaged``: nothing can be saved, which was not accepted. ``OutOfSpace``: no room.
    """
    source, seen_last = _choose(files, decode_head(raw_head))
    number = files.next_number()
    kept = files.damaged(number)[0] if files.database.exists() or files.wal.exists() else None
    report = _report(source, tuple(dict.fromkeys(findings)), seen_last, kept)
    if source.view is None and not accept_loss:
        raise StoreDamaged(
            f"{files.database}: {'; '.join(report.findings)}; nothing of it can be saved: restore "
            "a backup of the directory, or give --accept-loss to begin again; the "
            "damaged log is then kept beside the new one",
            0,
        )
    files.clear_building()
    try:
        _build(files, source, report, raw_head).rename(files.salvaged(number))
    finally:
        files.clear_building()
    sync_directory(files.directory)
    files.install(number)


def _choose(files: Files, head: Position | None) -> tuple[_Source, int]:
    """The view that saves most, and the newest entry of which any has a trace."""
    best = _Source(LogRun(GENESIS, GENESIS), Survey(), None)
    seen_last = 0 if head is None else head.sequence
    for view in (_as_it_is, partial(_as_it_is, immutable=True), _put_together):
        result = _survey(files, view)
        run = result.best()
        seen_last = max(seen_last, result.seen_last)
        if run is not None and run.end.sequence > best.run.end.sequence:
            best = _Source(run, result, view)
        if head is not None and 0 < seen_last <= best.run.end.sequence:
            break
    return best, seen_last


def _survey(files: Files, view: View) -> Survey:
    if files.database.exists():
        with noted_damage("the file", []), view(files) as connection:
            return survey(connection)
    return Survey()


@contextmanager
def _as_it_is(
    files: Files, database: Path | None = None, *, immutable: bool = False
) -> Iterator[sqlite3.Connection]:
    """As SQLite reads it, except that a wrong length or schema is no error.

    ``immutable`` leaves out the WAL: one that is cut off can hide newer pages behind older ones.
    """
    path = files.database if database is None else database
    with closing(schema.connect(path, "ro", immutable=immutable)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        yield connection


@contextmanager
def _put_together(files: Files) -> Iterator[sqlite3.Connection]:
    """A copy with every committed page of the WAL, and a new first page.

    SQLite drops all of a WAL that follows one damaged byte, though most pages in it are whole
    or are written once more behind it; the chain tells. The first page, which says where each table
    begins, is that of any new database: tables are made in one order, and their roots never move.
    """
    template, copy = files.building("template"), files.building("copy")
    files.clear_building()
    try:
        _create(template).close()
        _write_together(files, _first_page(template), copy)
        with _as_it_is(files, copy, immutable=True) as connection:
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

    The format of a WAL: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
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
    # The length in the header is valid only when these four bytes confirm it; else the file's is.
    page[92:96] = bytes(byte ^ 0xFF for byte in page[24:28])
    return bytes(page)


def _create(path: Path) -> sqlite3.Connection:
    """A new database without a journal: it is not read until it is complete."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = schema.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    schema.migrate(connection)
    return connection


def _build(files: Files, source: _Source, report: DamageReport, raw_head: bytes | None) -> Path:
    with contextlib.ExitStack() as stack:
        # The view first: it may clear what an earlier attempt left.
        damaged = None if source.view is None else stack.enter_context(source.view(files))
        path = files.building("new")
        target = stack.enter_context(closing(_create(path)))
        if damaged is not None:
            _copy(damaged, target, source)
        target.execute(
            "UPDATE log_state SET anchor_sequence = ?, anchor_hash = ?, replaced_head = ?,"
            " pending_report = ?",
            (source.run.start.sequence, source.run.start.hash, raw_head, encode_report(report)),
        )
    with path.open("rb") as built:
        os.fsync(built.fileno())
    return path


def _copy(damaged: sqlite3.Connection, target: sqlite3.Connection, source: _Source) -> None:
    target.execute("BEGIN")
    position = source.run.start
    for entry, digest in salvageable_entries(damaged, position.sequence, []):
        if position == source.run.end:
            break
        if entry.sequence == position.sequence + 1 and link(position.hash, entry) == digest:
            row = (entry.sequence, entry.time, entry.kind, entry.payload, digest)
            target.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
            position = Position(entry.sequence, digest)
    if position != source.run.end:
        raise StoreDamaged("the file reads differently each time", position.sequence)
    agreeing = set(source.survey.agreeing(source.run))
    for shot, chain_hash in salvageable_snapshots(damaged, []):
        if shot.sequence in agreeing:
            columns = (shot.sequence, shot.time, shot.schema, shot.payload, chain_hash)
            sealed = (*columns, seal(shot, chain_hash))
            target.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", sealed)
    target.execute("COMMIT")


def _report(
    source: _Source, findings: tuple[str, ...], seen_last: int, kept: Path | None
) -> DamageReport:
    first, last = source.run.start.sequence, source.run.end.sequence
    anchor = source.survey.anchor.sequence
    return DamageReport(
        findings=findings,
        last_whole_sequence=last,
        last_whole_time=source.run.end_time,
        lost_events=(last + 1, seen_last) if seen_last > last else None,
        lost_history=(anchor + 1, first) if first > anchor else None,
        damaged_copy=kept,
    )


def encode_report(report: DamageReport) -> str:
    """The report as the new database keeps it, until something is appended."""
    return json.dumps(asdict(report), default=str)


def decode_report(text: str) -> DamageReport:
    """The inverse of ``encode_report``."""
    return msgspec.convert(json.loads(text), DamageReport, dec_hook=lambda _, path: Path(path))
