"""SQLite's and the operating system's errors as ours."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wharfinger.errors import OutOfSpace, StoreDamaged, Unavailable

UNKNOWN_SEQUENCE = -1
"""``StoreDamaged.last_whole_sequence`` where only opening the store again can tell."""

UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading a damaged file raises; the second where SQLite's message quotes the damage."""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DAMAGED_READS = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
_NO_ROOM = {
    sqlite3.SQLITE_FULL,
    # A file-size limit or a quota gives these (EFBIG, EDQUOT). So does a failing disk, which is
    # treated alike: nothing was acknowledged, and a later retry may succeed.
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
}
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NOT_CONTENT = _HELD | {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite raises as ``StoreDamaged``, ``OutOfSpace`` or ``Unavailable``."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's message quotes a damaged name
        raise StoreDamaged(f"{path}: its schema is damaged", UNKNOWN_SEQUENCE) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # misuse of the module: a bug of ours
            raise
        if code & 0xFF in _DAMAGED or code in _DAMAGED_READS:
            raise StoreDamaged(f"{path}: {error}", UNKNOWN_SEQUENCE) from error
        if code in _NO_ROOM:
            raise OutOfSpace(f"{path}: {error}: free some room on its disk") from error
        if code & 0xFF in _HELD:
            raise Unavailable(f"{path}: another process holds it; stop that one") from error
        raise Unavailable(f"{path}: {error} ({error.sqlite_errorname})") from error


@contextmanager
def system_errors(directory: Path) -> Iterator[None]:
    """Raise an ``OSError`` as ``OutOfSpace`` where there is no room, else as ``Unavailable``."""
    try:
        yield
    except OSError as error:
        message = f"{error.filename or directory}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OutOfSpace(f"{message}: free some room on its disk") from error
        raise Unavailable(f"{message}: the store can't be used") from error


@contextmanager
def noted_damage(what: str, findings: list[str]) -> Iterator[None]:
    """Turn an error that shows damaged content into a finding; other errors pass."""
    try:
        yield
    except UNREADABLE as error:
        findings.append(unreadable(what, error))


def unreadable(what: str, error: Exception) -> str:
    """The finding for an error while reading; raises it again unless the content is to blame."""
    if not isinstance(error, UnicodeDecodeError):
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or code in _NO_ROOM or code & 0xFF in _NOT_CONTENT:
            raise error
    return f"{what} can't be read: {printable(str(error))}"


def printable(text: str) -> str:
    """One line of ASCII, whatever a damaged name holds."""
    return " ".join(text.encode("ascii", "backslashreplace").decode().split())
