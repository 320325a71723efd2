"""The database's tables, as numbered migrations, and how a connection is opened.

Migration N takes a database from ``user_version`` N-1 to N. It may add, but version 1's columns
and the tables' order stay: salvage reads them from whatever version was damaged.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import quote

from wharfinger.errors import InvalidInput
from wharfinger.store.base import GENESIS

_APPLICATION_ID = 0x77686172  # "whar", shown by `file manager.db`
_BUSY_SECONDS = 1.0

# `schema_version` repeats user_version, four unprotected bytes of the file's header: where the
# two differ the file is damaged.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE entries (
            sequence INTEGER PRIMARY KEY,
            time REAL NOT NULL,
            kind TEXT NOT NULL,
            payload BLOB NOT NULL,
            hash BLOB NOT NULL
        ) STRICT""",
        """CREATE TABLE snapshots (
            sequence INTEGER PRIMARY KEY,
            time REAL NOT NULL,
            schema INTEGER NOT NULL,
            payload BLOB NOT NULL,
            chain_hash BLOB NOT NULL,
            hash BLOB NOT NULL
        ) STRICT""",
        """CREATE TABLE log_state (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            schema_version INTEGER NOT NULL,
            anchor_sequence INTEGER NOT NULL,
            anchor_hash BLOB NOT NULL,
            replaced_head BLOB,
            pending_report TEXT
        ) STRICT""",
        f"""INSERT INTO log_state (id, schema_version, anchor_sequence, anchor_hash)
            VALUES (1, 1, 0, x'{GENESIS.hash.hex()}')""",
    ),
)


def connect(path: Path, mode: str = "rw", *, immutable: bool = False) -> sqlite3.Connection:
    """A connection with explicit transactions; ``"ro"`` changes neither the database nor its WAL.

    ``immutable`` reads the main file alone, as if it had no WAL.
    """
    uri = f"file:{quote(str(path))}?mode={mode}" + ("&immutable=1" if immutable else "")
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
    # Damaged text must be read as it is, so that its hash shows it, not as a decoding error.
    connection.text_factory = lambda raw: str(raw, "utf-8", "surrogateescape")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the body does, or, where that or the commit fails, undo all of it."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite may have rolled back already, as it does when the disk is full.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def version(connection: sqlite3.Connection) -> int:
    """The schema's version; 0 = the database is empty."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Bring the database to the newest version, in one transaction: old or new, never half."""
    present = version(connection)
    refuse_newer(present, len(migrations))
    if present == len(migrations):
        return
    with transaction(connection):
        for statements in migrations[present:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute("UPDATE log_state SET schema_version = ?", (len(migrations),))
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")


def definitions(connection: sqlite3.Connection) -> dict[str, str | None]:
    """The SQL of each table and index of the database, by name."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master"))


@cache
def expected(schema_version: int) -> dict[str, str | None]:
    """The ``definitions`` of an undamaged database of a supported version."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statements in MIGRATIONS[:schema_version]:
            for statement in statements:
                connection.execute(statement)
        return definitions(connection)


def refuse_newer(present: int, supported: int = len(MIGRATIONS)) -> None:
    """Refuse what a newer program wrote."""
    if present > supported:
        raise InvalidInput(
            f"the event log has schema {present}, this wharfinger knows {supported}: "
            "start the newer version that wrote it, or give --state another directory"
        )
