"""Regular expressions with a limit on their time, and the numbers that they find.

Python's matcher checks for signals while it backtracks, so a timer of the process's CPU time ends
it; where it does not, the meter's alarm does (see ``meter``).
"""

import re
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import nan
from types import FrameType

from wharfinger.model.workload import NAMED_NUMBERS

LIMIT_SECONDS = 0.5
"""CPU time for one pattern in one sample."""
MAX_LINE_CHARACTERS = 4096

NUMBER = "number"
"""The name of the first group's number where no group has a known name."""


class TookTooLong(Exception):
    """The time limit was over."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise ``TookTooLong`` in the body once it has used so much CPU time."""

    def over(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLong

    former = signal.signal(signal.SIGVTALRM, over)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def any_matches(regex: str, lines: Sequence[str], limit_seconds: float = LIMIT_SECONDS) -> bool:
    """Whether a line matches somewhere; ``TookTooLong``: the pattern backtracks too much.

    >>> any_matches("ready to accept", ["loading", "server is ready to accept connections"])
    True
    """
    pattern = _compile(regex)
    with limited(limit_seconds):
        return any(pattern.search(line[:MAX_LINE_CHARACTERS]) for line in lines)


def _compile(regex: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(regex)


class LinePattern:
    """A workload's pattern, and how to read what it finds."""

    def __init__(self, regex: str) -> None:
        self._regex = _compile(regex)
        named = {name for name in self._regex.groupindex if name in NAMED_NUMBERS}
        self._groups: dict[str, int | str] = {name: name for name in named} or {NUMBER: 1}

    def newest(
        self, lines: Sequence[str], limit_seconds: float = LIMIT_SECONDS
    ) -> dict[str, float]:
        """The newest number of each group, empty where no line matches, else ``ValueError``.

        A load that is no finite number is NaN, and the rest of its line is kept.
        ``TookTooLong``: the pattern backtracks too much.
        """
        newest: dict[str, float] = {}
        with limited(limit_seconds):
            for line in reversed(lines):
                match = self._regex.search(line[:MAX_LINE_CHARACTERS])
                for name, group in self._groups.items():
                    if match and match[group] is not None and name not in newest:
                        newest[name] = _number(name, match[group])
                if len(newest) == len(self._groups):
                    break
        return newest


def _number(name: int | str, text: str) -> float:
    try:
        return number(text)
    except ValueError:
        if name == "offered":
            return nan
        raise


def number(text: str) -> float:
    """A finite number, with or without commas between thousands; else ``ValueError``."""
    value = float(text.strip().replace(",", ""))
    if not abs(value) < float("inf"):
        raise ValueError(f"{text!r} is not finite")
    return value
