"""An engine's notes in the state directory: one small SQLite file, whole after any crash."""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from wharfinger.errors import OutOfSpace, StoreDamaged

NOTES_FILE = "engine-notes.db"


class StoredNotes:
    """``wharfinger.engines.notes.Notes`` of one engine, kept in a state directory.

    All are held in memory, so that reading costs nothing; they are few and short.

    Raises:
        OutOfSpace: The file can't be made or read.
        StoreDamaged: It is not what was written.
    """

    def __init__(self, directory: Path, engine: str) -> None:
        self._path = directory / NOTES_FILE
        self._engine = engine
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(self._path, check_same_thread=False)
            # The whole of a change, or nothing of it, is on disk when it is committed.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            with self._database:
                self._database.execute(
                    "CREATE TABLE IF NOT EXISTS notes (engine TEXT, name TEXT, text TEXT NOT NULL, "
                    "PRIMARY KEY (engine, name)) WITHOUT ROWID"
                )
            asked = "SELECT name, text FROM notes WHERE engine = ? ORDER BY name"
            with closing(self._database.execute(asked, (engine,))) as rows:
                self._texts: dict[str, str] = dict(rows)
        except sqlite3.OperationalError as error:
            raise OutOfSpace(f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(
                f"{self._path}: {error}; move it away, and stop by hand what the engine runs", 0
            ) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def get(self, name: str) -> str | None:
        """See ``Notes.get``."""
        with self._lock:
            return self._texts.get(name)

    def items(self) -> Mapping[str, str]:
        """See ``Notes.items``."""
        with self._lock:
            return dict(sorted(self._texts.items()))

    def put(self, texts: Mapping[str, str]) -> None:
        """See ``Notes.put``."""
        rows = [(self._engine, name, text) for name, text in texts.items()]
        with self._lock:
            self._write("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", rows)
            self._texts.update(texts)

    def delete(self, *names: str) -> None:
        """See ``Notes.delete``."""
        with self._lock:
            there = [name for name in names if name in self._texts]
            rows = [(self._engine, name) for name in there]
            self._write("DELETE FROM notes WHERE engine = ? AND name = ?", rows)
            for name in there:
                self._texts.pop(name, None)

    def _write(self, statement: str, rows: Sequence[tuple[str, ...]]) -> None:
        try:
            with self._database:
                self._database.executemany(statement, rows)
        except sqlite3.Error as error:
            raise OutOfSpace(f"{self._path}: {error}") from error
