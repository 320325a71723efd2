"""What a store promises, in bytes: it knows neither events nor states.

The runtime calls it, from one thread; ``core/codec.py`` makes the bytes. SQLite is the
default (``store/sqlite.py``); another database keeps the same promises behind ``Store``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be appended.

    Attributes:
        time: Seconds since the epoch; a finite number.
        kind: Stable word that tells how to read the payload.
    """

    time: float
    kind: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the log, as it was appended.

    Attributes:
        sequence: Counts entries from 1, without gaps.
        time: Seconds since the epoch.
    """

    sequence: int
    time: float
    kind: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, as the log makes it up to and including ``sequence``.

    Attributes:
        time: When it was taken, in seconds since the epoch.
        schema: The version of the payload's form.
    """

    sequence: int
    time: float
    schema: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class DamageReport:
    """What was not as it had been written, and what that cost.

    Attributes:
        findings: What was found, one plain sentence each.
        last_whole_sequence: The store goes on from here; 0 = from nothing.
        last_whole_time: When that was, in seconds since the epoch; ``None`` = not known.
        lost_events: First and last of the acknowledged entries that are gone; ``None`` =
            none that is known of.
        lost_history: First and last of the entries that are gone though a snapshot holds
            their effect; ``None`` = none.
        damaged_copy: Where the damaged file is kept; ``None`` where there was none to keep.
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
        if self.last_whole_sequence:
            sentences.append(f"the last whole event is {self.last_whole_sequence}{when}")
        else:
            sentences.append("no event could be saved")
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
    """The event log and its snapshots. Used from one thread.

    Every method raises ``StoreDamaged`` where it finds something else than was written, and
    ``Unavailable`` where the disk or another process keeps it from working; a call that
    raised has changed nothing.
    """

    @property
    def damage(self) -> DamageReport | None:
        """What was not as it had been written; ``None`` = all was.

        Given at each opening until something is appended, so that a crash can't hide it.
        """

    @property
    def last_sequence(self) -> int:
        """The newest entry's; 0 = there was never one."""

    @property
    def first_sequence(self) -> int:
        """The oldest kept entry's; ``last_sequence + 1`` where none is kept."""

    def append(self, entries: Sequence[NewEntry], *, urgent: bool = False) -> int:
        """Append all entries or none. On return they survive a power failure.

        Args:
            entries: What to append, in order.
            urgent: It is about what already runs, and may use the reserve.

        Returns:
            The last entry's sequence.

        Raises:
            OutOfSpace: Not urgent and below the floor, or no room even in the reserve.
            ValueError: A time is not a finite number.
        """

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[LogEntry]:
        """The entries after ``after``, oldest first, from the first that is kept.

        Raises:
            StoreDamaged: At the first entry that is not what was written; the whole ones
                before it have been given.
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

        Raises:
            OutOfSpace: There is no room to do it, not even in the reserve.
        """

    def room_bytes(self) -> int:
        """How much can still be written."""

    def check_room(self) -> None:
        """Make sure that new work can be logged.

        Raises:
            OutOfSpace: Less room than the floor is left.
        """

    def close(self) -> None:
        """Let go of it; nothing depends on this being called."""
