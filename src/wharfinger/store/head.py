"""``manager.head``: how far the log was acknowledged, kept beside it.

A WAL that is cut off or removed leaves a database that is whole, only older. The head tells.
It is written after each commit and not synced: it may lag behind the log, never lead it.
"""

import contextlib
import os
from hashlib import blake2b
from pathlib import Path

from wharfinger.store.chain import Position


class Head:
    """The file that says where the log ended when it was last acknowledged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def raw(self) -> bytes | None:
        """What the file holds; ``None`` where there is none."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def create(self, position: Position) -> None:
        """Make a new file, durably, and keep it open."""
        self.close()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        if self.raw() != encode(position):
            # In this order no new block is needed where there was a head: the disk may be full.
            os.pwrite(self._descriptor, encode(position), 0)
            os.ftruncate(self._descriptor, len(encode(position)))
            os.fsync(self._descriptor)

    def advance(self, position: Position) -> None:
        """Note a commit."""
        if self._descriptor is not None:
            # The commit is durable whatever becomes of this; a head that lags is allowed.
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, encode(position), 0)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def encode(position: Position) -> bytes:
    """One line of constant length: sequence, hash, and a checksum over both."""
    told = f"{position.sequence:020d} {position.hash.hex()}"
    return f"{told} {_checksum(told)}\n".encode()


def decode(raw: bytes) -> Position | None:
    """The position again; ``None`` where the line is not whole."""
    told, _, checksum = raw.decode("ascii", "replace").rstrip("\n").rpartition(" ")
    sequence, _, digest = told.partition(" ")
    if checksum != _checksum(told):
        return None
    return Position(int(sequence), bytes.fromhex(digest))


def _checksum(told: str) -> str:
    return blake2b(told.encode(), digest_size=8, person=b"wharfinger-head").hexdigest()
