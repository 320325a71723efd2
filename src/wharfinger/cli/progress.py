"""How far long work is, and how long it may still take: on a terminal, and nothing in a pipe.

``Progress`` draws a bar, for a share or a count; ``status_line`` shows whatever it is told.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO

from wharfinger.cli import format as fmt

BAR_WIDTH = 30
DRAW_SECONDS = 0.1
"""Between two drawings: more often is unreadable."""
PATIENCE_SECONDS = 1.0
"""Before this an estimate of the time is worthless."""
_ERASE = "\r\x1b[K"


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """One line on a terminal's standard error, written over by each call, gone at the end."""

    def tell(words: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(_ERASE + words)
            sys.stderr.flush()

    try:
        yield tell
    finally:
        tell("")


class Progress:
    """One line on a terminal's standard error, written over; it is gone at the end.

    Args:
        words: What is being done.
        stream: Where to; ``None`` = standard error. Where it is no terminal, nothing is written.
        clock: Seconds, monotonic.

    ::

        with Progress("simulating") as progress:
            simulate(..., progress=progress.share)
    """

    def __init__(
        self,
        words: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._words = words
        self._stream = sys.stderr if stream is None else stream
        # A dumb terminal can't take back what was written.
        self._shown = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._clock = clock
        self._began = self._advanced_at = clock()
        self._drawn_at = -DRAW_SECONDS
        self._done = 0.0
        self._left_seconds: float | None = None

    def __enter__(self) -> Self:
        """Nothing is written before something is told."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the line as it was found, however the work ended."""
        if self._shown:
            self._write(_ERASE)

    def share(self, done: float) -> None:
        """Of one run, 0 to 1."""
        self._tell(done, f"{done:4.0%}")

    def count(self, done: int, total: int) -> None:
        """Of several, how many are done; may be told again while nothing changes."""
        self._tell(done / total if total else 1.0, f"{done} of {total}")

    def _tell(self, done: float, amount: str) -> None:
        now = self._clock()
        advanced = done > self._done
        if advanced:
            self._advance(done, now)
        # The end is shown whatever was shown a moment ago.
        due = now - self._drawn_at >= DRAW_SECONDS or (advanced and done >= 1)
        if self._shown and due:
            self._drawn_at = now
            self._write(_ERASE + self._line(amount, now))

    def _advance(self, done: float, now: float) -> None:
        elapsed = now - self._began
        self._done, self._advanced_at = done, now
        self._left_seconds = elapsed * (1 - done) / done

    def _line(self, amount: str, now: float) -> str:
        line = f"{self._words} {self._bar()} {amount}{self._left(now)}"
        # A line that wraps can't be written over.
        return line[: self._columns() - 1]

    def _bar(self) -> str:
        full = int(min(1.0, max(0.0, self._done)) * BAR_WIDTH)
        done, to_do = ("━", "─") if self._speaks_unicode() else ("#", "-")
        return done * full + to_do * (BAR_WIDTH - full)

    def _left(self, now: float) -> str:
        """Between two steps the time that is left runs down; it never grows until the next."""
        if self._left_seconds is None or now - self._began < PATIENCE_SECONDS:
            return ""
        left = max(0.0, self._left_seconds - (now - self._advanced_at))
        return f", {fmt.duration(left) if left >= 10 else f'{max(1, round(left))}s'} left"

    def _speaks_unicode(self) -> bool:
        return (getattr(self._stream, "encoding", None) or "").lower().startswith("utf")

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError, AttributeError):
            return 80

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
