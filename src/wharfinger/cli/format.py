"""How single values are written for people: numbers, durations, sizes, times.

Every command uses these; targets and what is measured of them are in ``targets.py``.
"""

import re

NONE = "-"
"""In the place of a value that is unknown or does not exist."""
_TIMESTAMP = re.compile(r"\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z")
_MILLICPUS = re.compile(r"\b(\d{2,7})m\b")
_BEYOND = re.compile(r"\b\d{4,}%")
_MOST_PERCENT = ">999%"
"""More is not told: such predictions are no better than that."""


def duration(seconds: float | None) -> str:
    """The two largest units.

    >>> duration(0.25), duration(75), duration(90_000)
    ('0.2s', '1m15s', '1d1h')
    """
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    parts = [(hours // 24, "d"), (hours % 24, "h"), (minute, "m"), (second, "s")]
    largest = next(at for at, (count, _) in enumerate(parts) if count)
    return "".join(f"{count}{unit}" for count, unit in parts[largest : largest + 2] if count)


def size(size_bytes: float | None) -> str:
    """Three digits and a binary unit.

    >>> size(536_870_912), size(1_610_612_736), size(900)
    ('512Mi', '1.5Gi', '900')
    """
    if size_bytes is None:
        return NONE
    amount, unit = float(size_bytes), ""
    for larger in ("Ki", "Mi", "Gi", "Ti", "Pi"):
        if abs(amount) < 1024:
            break
        amount, unit = amount / 1024, larger
    digits = 0 if amount >= 100 or not unit else 1
    return f"{amount:.{digits}f}".removesuffix(".0") + unit


def number(value: float | None) -> str:
    """Up to three decimals, without trailing zeros."""
    return NONE if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def significant(value: float) -> str:
    """Three digits, or all before the point.

    >>> significant(126.31), significant(0.012345), significant(40_000.0)
    ('126', '0.0123', '40000')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share in whole percents.

    >>> percent(1.049), percent(None), percent(9.996)
    ('105%', '-', '>999%')
    """
    return NONE if share is None else _BEYOND.sub(_MOST_PERCENT, f"{share:.0%}")


def cpus(value: float) -> str:
    """A number of CPUs with its unit."""
    return f"{number(value)} CPU"


def latency(seconds: float) -> str:
    """A latency, in the unit that gives it digits before the point.

    >>> latency(0.002), latency(1.5), latency(0.00025)
    ('2ms', '1.5s', '250us')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.6g}{unit}"
    return f"{seconds * 1e9:.6g}ns"


def yes_no(value: bool | None) -> str:
    """A fact; ``None`` = unknown."""
    return NONE if value is None else ("yes" if value else "no")


def clock(timestamp: str | None) -> str:
    """A time of the API to the second, in UTC as there.

    >>> clock("2026-11-22T17:31:05.123Z")
    '2026-11-22 17:31:05Z'
    """
    return NONE if timestamp is None else timestamp[:19].replace("T", " ") + "Z"


def time_of_day(timestamp: str) -> str:
    """The same without the day."""
    return clock(timestamp)[11:]


def text(value: object) -> str:
    """Any value; several are separated by commas."""
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return NONE if value in (None, "") else str(value)


def words(message: str) -> str:
    """A message with times and shares as in tables, and CPU in CPUs.

    Earlier versions wrote thousandths of a CPU.

    >>> words("target missed at 80% for 10 s: 400m CPU become 550m")
    'target missed at 80% for 10 s: 0.4 CPU become 0.55'
    >>> words("it is ready since 2026-11-22T18:45:22.091Z")
    'it is ready since 2026-11-22 18:45:22Z'
    >>> words("one server alone gives 1240%")
    'one server alone gives >999%'
    """
    message = _BEYOND.sub(_MOST_PERCENT, _TIMESTAMP.sub(r"\1 \2Z", message))
    if "m CPU" not in message:
        return message
    return _MILLICPUS.sub(lambda match: number(int(match[1]) / 1000), message)
