"""Single values of Slurm's answers, whatever shape a version or an accident gave them.

Every function takes anything and never raises: what is not there, null, of another type or out of
range is ``None``, empty, or the default that is given.
"""

import datetime
import math
import re
from functools import lru_cache
from typing import Any

import msgspec

MIB = 1 << 20
TEXT_LIMIT = 1 << 16
"""Characters of one text that are kept; Slurm itself takes at most 1024 from a user."""
_MAX_NUMBER = 1 << 63
# Slurm's marks for "no value" and "infinite" in its 16-, 32- and 64-bit fields.
_NO_VALUES = frozenset(
    {0xFFFE, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF}
)
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGTP]?)[nc]?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_CLOCK = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,2}(?:\.\d{1,9})?)")


class Wrapped(msgspec.Struct, gc=False):
    """A number since 23.02, which may be infinite or not set."""

    set: Any = None
    infinite: Any = None
    number: Any = None


class WrappedSignal(msgspec.Struct, gc=False):
    """What ended a job since 23.02; ``id`` was ``signal_id`` at first."""

    id: Any = None
    signal_id: Any = None


class WrappedStatus(msgspec.Struct, gc=False):
    """How a job ended, since 23.02."""

    return_code: Wrapped | int | float | str | bool | None = None
    signal: WrappedSignal | int | float | str | bool | None = None


def text(value: Any) -> str:
    """A text, cut at ``TEXT_LIMIT``; one that UTF-8 can't write is mended."""
    if type(value) is not str:
        return ""
    words: str = value if len(value) <= TEXT_LIMIT else value[:TEXT_LIMIT]
    return words if words.isascii() else words.encode("utf-8", "replace").decode()


def number(value: Any) -> int | None:
    """A whole number of zero or more, bare, a text, or wrapped (``Wrapped``, or the same bare)."""
    if type(value) is Wrapped:
        if value.set is False or value.infinite is True:
            return None
        value = value.number
    elif type(value) is dict:
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if type(value) is not int:
        written = type(value) is str and len(value) < 20 and value.isascii() and value.isdigit()
        if not written and not (type(value) is float and math.isfinite(value)):
            return None
        value = int(value)
    return value if 0 <= value < _MAX_NUMBER and value not in _NO_VALUES else None


def time(value: Any) -> float | None:
    """A time since 1970; zero is Slurm's word for "not yet"."""
    seconds = number(value)
    return float(seconds) if seconds else None


def words(value: Any) -> tuple[str, ...]:
    """Words, as a list of them or as a text with commas between."""
    if type(value) is str:
        value = value.split(",")
    if type(value) is not list:
        return ()
    return tuple(filter(None, (text(word).strip() for word in value)))


def size(value: Any) -> int | None:
    """Bytes, of a text as ``"1.50G"``, ``"812K"`` or ``"4096"``."""
    match = _SIZE.fullmatch(value.strip()) if type(value) is str else None
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def tracked(value: Any, name: str) -> int | None:
    """One resource of a text as ``"cpu=1,mem=1G,node=1"``."""
    return _tracked(value, name) if type(value) is str and value else None


@lru_cache(maxsize=1024)
def _tracked(value: str, name: str) -> int | None:
    for part in value.split(","):
        key, _, amount = part.partition("=")
        if key == name:
            return size(amount)
    return None


def duration(value: Any) -> float | None:
    """Seconds of a text as ``"1-02:03:04"`` or ``"02:03.400"``."""
    match = _CLOCK.fullmatch(value.strip()) if type(value) is str else None
    if match is None:
        return None
    days, hours, minutes = (int(match[group] or 0) for group in (1, 2, 3))
    return ((days * 24 + hours) * 60 + minutes) * 60 + float(match[4])


def exit_status(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal, of ``"1:9"``, a wait status, or ``WrappedStatus``."""
    if type(value) is str:
        code, _, signal = value.partition(":")
        return number(code), number(signal) or None
    if type(value) is dict:
        of_signal = value.get("signal")
        of_signal = of_signal if type(of_signal) is dict else {}
        signals = WrappedSignal(of_signal.get("id"), of_signal.get("signal_id"))
        return exit_status(WrappedStatus(value.get("return_code"), signals))
    if type(value) is WrappedStatus:
        killer = value.signal if type(value.signal) is WrappedSignal else WrappedSignal()
        killed_by = number(killer.id) or number(killer.signal_id) or None
        # Of what a signal killed, newer versions leave the code unset.
        return number(value.return_code) if killed_by is None else 0, killed_by
    status = number(value)
    return (None, None) if status is None else (status >> 8 & 0xFF, (status & 0x7F) or None)


def local_time(value: Any) -> float | None:
    """A time of this host's time zone, as ``"2026-01-31T08:00:00"``, or in seconds."""
    if type(value) is not str or len(value) > 40:
        return None
    if value.isascii() and value.isdigit():
        return time(value)
    try:
        return datetime.datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
