"""What a store promises, and what an event log holds: entries, snapshots, the hash chain over them.

Bytes only: ``core/codec.py`` makes the payloads. The chain guards against damage, not attackers.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

HASH_BYTES = 16
_FIXED = struct.Struct("<QdI")


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be appended, with its time in seconds since the epoch, a finite number."""

    time: float
    kind: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the log; ``sequence`` counts from 1, without gaps."""

    sequence: int
    time: float
    kind: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, as the log makes it up to ``sequence``; ``schema`` is the payload's version."""

    sequence: int
    time: float
    schema: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """The entry of this sequence has this hash; 0 is the beginning of the log."""

    sequence: int
    hash: bytes


GENESIS = Position(0, bytes(HASH_BYTES))


def link(previous: bytes, entry: LogEntry) -> bytes:
    """The entry's hash, which covers ``previous``, the hash of the entry before it."""
    kind = entry.kind.encode("utf-8", "surrogateescape")
    fixed = _FIXED.pack(entry.sequence, entry.time, len(kind))
    covered = b"".join((previous, fixed, kind, entry.payload))
    return blake2b(covered, digest_size=HASH_BYTES, person=b"wharfinger-log").digest()


def seal(snapshot: Snapshot, chain_hash: bytes) -> bytes:
    """The snapshot's own hash; ``chain_hash`` is that of the entry it was taken at."""
    digest = blake2b(chain_hash, digest_size=HASH_BYTES, person=b"wharfinger-snap")
    digest.update(_FIXED.pack(snapshot.sequence, snapshot.time, snapshot.schema))
    digest.update(snapshot.payload)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class DamageReport:
    """What was damaged, and what that cost. Spans are (first, last) sequences; ``None`` = unknown.

    Attributes:
        last_whole_sequence: The store continues from here; 0 = from an empty log.
        last_whole_time: Seconds since the epoch.
        lost_events: Acknowledged entries that are lost; ``None`` = none known.
        lost_history: Lost entries whose effect a snapshot holds.
        damaged_copy: Where the damaged file is kept.
    """

    findings: tuple[str, ...]
    last_whole_sequence: int
    last_whole_time: float | None = None
    lost_events: tuple[int, int] | None = None
    lost_history: tuple[int, int] | None = None
    damaged_copy: Path | None = None

    def __str__(self) -> str:
        sentences = ["; ".join(self.findings)]
        when = "" if self.last_whole_time is None else f" ({_utc(self.last_whole_time)})"
        whole = f"the last whole event is {self.last_whole_sequence}{when}"
        sentences.append(whole if self.last_whole_sequence else "no event could be saved")
        if self.lost_events is None:
            sentences.append("no acknowledged event is known to be lost")
        else:
            sentences.append(f"lost: acknowledged events {_span(self.lost_events)}")
        if self.lost_history is not None:
            sentences.append(
                f"gone from the history, but kept in a snapshot: events {_span(self.lost_history)}"
            )
        if self.damaged_copy is not None:
            sentences.append(f"the damaged log is kept as {self.damaged_copy}")
        return "; ".join(sentences)


def _span(span: tuple[int, int]) -> str:
    first, last = span
    return f"{first}" if first == last else f"{first} to {last}"


def _utc(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s since the epoch"


class Store(Protocol):
    """The event log and its snapshots; SQLite is the default. Used from one thread.

    Every method raises ``StoreDamaged`` where it finds something else than was written, and
    ``Unavailable`` where the disk or another process keeps it from working; a call that
    raised has changed nothing.
    """

    @property
    def damage(self) -> DamageReport | None:
        """What was damaged; given until something is appended, so that a crash can't hide it."""

    @property
    def last_sequence(self) -> int:
        """The newest entry's; 0 = there was none."""

    @property
    def first_sequence(self) -> int:
        """The oldest kept entry's; ``last_sequence + 1`` where none is kept."""

    def append(self, entries: Sequence[NewEntry], *, urgent: bool = False) -> int:
        """Append all entries or none; returns the last one's sequence.

        On return they survive a power failure. ``urgent`` ones are about what already runs, and may
        use the reserve.

        Raises:
            OutOfSpace: Not urgent and below the floor, or no room even in the reserve.
            ValueError: A time is not a finite number.
        """

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[LogEntry]:
        """The entries after ``after``, oldest first, from the first that is kept.

        Nothing is held between two entries: appending and compacting may happen meanwhile. Raises
        ``StoreDamaged`` at the first that is not what was written, after the whole ones before it.
        """

    def tail(self, limit: int) -> list[LogEntry]:
        """The newest ``limit`` entries, oldest of them first."""

    def save_snapshot(self, sequence: int, time: float, schema: int, payload: bytes) -> None:
        """Keep a state durably, and the one before it; older ones go.

        Raises:
            OutOfSpace: There is no room for it above the floor.
            ValueError: The log does not hold that sequence, or the time is not finite.
        """

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is whole and that the log agrees with."""

    def compact(self, keep_entries: int) -> None:
        """Drop entries that both kept snapshots contain, but never the newest ``keep_entries``.

        Frees room, so it may use the reserve, else ``OutOfSpace``.
        """

    def room_bytes(self) -> int:
        """How much can still be written."""

    def check_room(self) -> None:
        """Make sure that new work can be logged, else ``OutOfSpace``: the floor is reached."""

    def close(self) -> None:
        """Let go of it; nothing depends on this being called."""
