"""Long work: its progress on a terminal (nothing in a pipe), and its end in order.

``Progress`` draws a bar, for a share or a count, or shows any words.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self, TextIO

from wharfinger.cli import format as fmt

BAR_WIDTH = 30
DRAW_SECONDS = 0.1
"""Between two drawings: more often is unreadable."""
PATIENCE_SECONDS = 1.0
"""Before this an estimate of the time is worthless."""
_ERASE = "\r\x1b[K"


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, and neither twice.

    For commands that start processes or write folders, and clean up when they end.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        for ignored in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ignored, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    former = {n: signal.signal(n, leave) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class Progress:
    """One line on a terminal's standard error, written over; it is gone at the end.

    ``words`` stand before a bar. Where ``stream`` is no terminal, nothing is written.

    ::

        with Progress("simulating") as progress:
            simulate(..., progress=progress.share)
    """

    def __init__(
        self,
        words: str = "",
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
        return self

    def __exit__(self, *_error: object) -> None:
        self.tell("")

    def tell(self, words: str) -> None:
        """Any words in the place of the line before."""
        if self._shown:
            # A line that wraps can't be written over.
            self._stream.write(_ERASE + words[: self._columns() - 1])
            self._stream.flush()

    def share(self, done: float) -> None:
        """Of one run, 0 to 1."""
        self._advance(done, f"{done:4.0%}")

    def count(self, done: int, total: int) -> None:
        """Of several, how many are done; may be told again while nothing changes."""
        self._advance(done / total if total else 1.0, f"{done} of {total}")

    def _advance(self, done: float, amount: str) -> None:
        now = self._clock()
        advanced = done > self._done
        if advanced:
            self._done, self._advanced_at = done, now
            self._left_seconds = (now - self._began) * (1 - done) / done
        # The end is shown whatever was shown a moment ago.
        due = now - self._drawn_at >= DRAW_SECONDS or (advanced and done >= 1)
        if self._shown and due:
            self._drawn_at = now
            self.tell(f"{self._words} {self._bar()} {amount}{self._left(now)}")

    def _bar(self) -> str:
        full = int(min(1.0, max(0.0, self._done)) * BAR_WIDTH)
        encoding = getattr(self._stream, "encoding", None) or ""
        done, to_do = ("━", "─") if encoding.lower().startswith("utf") else ("#", "-")
        return done * full + to_do * (BAR_WIDTH - full)

    def _left(self, now: float) -> str:
        """Between two steps the time that is left runs down; it never grows until the next."""
        if self._left_seconds is None or now - self._began < PATIENCE_SECONDS:
            return ""
        left = max(0.0, self._left_seconds - (now - self._advanced_at))
        return f", {fmt.duration(left) if left >= 10 else f'{max(1, round(left))}s'} left"

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError, AttributeError):
            return 80
