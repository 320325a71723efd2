"""Numbers as people read them, in tables; whoever needs them exact asks for JSON."""

import re
from typing import Any

_MILLICPUS = re.compile(r"\b(\d{2,7})m\b")

NONE = "-"
CELL_WIDTH = 48
"""Of a column with sentences in it, at most; ``describe`` and JSON have them whole."""


def duration(seconds: float | None) -> str:
    """The two largest units.

    >>> duration(0.25), duration(75), duration(90_000)
    ('0.2s', '1m15s', '1d1h')
    """
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for size, unit, smaller_size, smaller in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"


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
    """Without zeros at the end.

    >>> number(2.0), number(0.25), number(None)
    ('2', '0.25', '-')
    """
    return NONE if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def significant(value: float) -> str:
    """Three digits, or all before the point.

    >>> significant(126.31), significant(0.012345), significant(40_000.0)
    ('126', '0.0123', '40000')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share, whole percents below ten times.

    >>> percent(1.049), percent(None), percent(1000.0)
    ('105%', '-', '>10x')
    """
    if share is None:
        return NONE
    return f"{share:.0%}" if share < 10 else ">10x"


def words(message: str) -> str:
    """A decision's sentence with CPU in CPUs, where the policy wrote thousandths.

    >>> words("target missed at 80% for 10 s: 400m CPU become 550m")
    'target missed at 80% for 10 s: 0.4 CPU become 0.55'
    """
    if "m CPU" not in message:
        return message
    return _MILLICPUS.sub(lambda found: number(int(found[1]) / 1000), message)


def cpus(value: float) -> str:
    """A number of CPUs in words.

    >>> cpus(0.35), cpus(2.0)
    ('0.35 CPU', '2 CPUs')
    """
    return f"{number(value)} CPU" + ("" if value <= 1 else "s")


def target(value: dict[str, Any] | None) -> str:
    """A target in the manifest's units."""
    if value is None:
        return NONE
    parts = [
        f"{number(value[key])}/s"
        for key in ("throughput_per_second", "rate_per_second")
        if value[key] is not None
    ]
    if value["latency"] is not None:
        bound = value["latency"]
        parts.append(f"p{number(bound['percentile'])}<{latency(bound['below_seconds'])}")
    if value["completion_seconds"] is not None:
        parts.append(f"done in {duration(value['completion_seconds'])}")
    return " ".join(parts)


def achieved(value: dict[str, Any] | None) -> str:
    """What was measured, in the form of the target that it is held against."""
    if value is None:
        return NONE
    parts = [
        f"{number(value[key])}/s"
        for key in ("throughput_per_second", "rate_per_second")
        if value[key] is not None
    ]
    if value["latency_seconds"] is not None:
        parts.append(latency(float(f"{value['latency_seconds']:.3g}")))
    if value["completion_seconds"] is not None:
        parts.append(f"done in {duration(value['completion_seconds'])}")
    return " ".join(parts)


def measured(values: list[dict[str, Any]]) -> str:
    """Each number and its source; a proxy says what it is worth.

    >>> measured([dict(name="rate_per_second", value=None, source="nothing yet", trusted=False,
    ...                correlation=None, final=False)])
    'rate_per_second no signal: nothing yet'
    """
    return "; ".join(map(_measured, values)) or NONE


def _measured(one: dict[str, Any]) -> str:
    when = " at the end" if one["final"] else ""
    if one["value"] is None:
        return f"{one['name']} no signal{when}: {one['source']}"
    return f"{one['name']} {one['value']:.4g}{when} by {_source(one)}"


def _source(one: dict[str, Any]) -> str:
    kind = f"(proxy, {'' if one['trusted'] else 'un'}trusted)"
    return str(one["source"]).replace("(proxy)", kind)


def measured_by(values: list[dict[str, Any]]) -> str:
    """Where the numbers come from, or why there are none: short, for a column of a table.

    >>> line = dict(name="rate_per_second", value=4.0, source="progress lines", trusted=True)
    >>> cpu = dict(name="cpu_seconds_per_second", value=1.0, source="CPU time (proxy)",
    ...            trusted=False)
    >>> measured_by([line, cpu]), measured_by([cpu])
    ('progress lines', 'CPU time (proxy, untrusted)')
    >>> measured_by([cpu, dict(line, value=None, source="nothing from progress lines yet")])
    'no signal: nothing from progress lines yet'
    """
    silent = [f"no signal: {one['source']}" for one in values if one["value"] is None]
    proxies = [_source(one) for one in values if "(proxy)" in one["source"]]
    told = [
        one["source"]
        for one in values
        if one["value"] is not None and "(proxy)" not in one["source"]
    ]
    text = "; ".join(dict.fromkeys(silent or told or proxies)) or NONE
    return text if len(text) <= CELL_WIDTH else f"{text[: CELL_WIDTH - 3]}..."


def latency(seconds: float) -> str:
    """A latency, in the unit that gives it digits before the point.

    >>> latency(0.002), latency(1.5), latency(0.00025)
    ('2ms', '1.5s', '250us')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.6g}{unit}"
    return f"{seconds * 1e9:.6g}ns"


def ordinal(value: int) -> str:
    """A place in a line.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    ending = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10)
    return f"{value}{ending or 'th'}"


def met(value: bool | None) -> str:
    """Whether a target is kept."""
    return NONE if value is None else ("yes" if value else "no")


def time_of_day(timestamp: str) -> str:
    """The time without the day.

    >>> time_of_day("2026-01-02T03:04:05.678Z")
    '03:04:05'
    """
    return timestamp[11:19]


TERMS = (
    "throughput_per_second",
    "rate_per_second",
    "latency_seconds",
    "completion_seconds",
)
"""What a target may state, in the order in which it is said."""


def stated(value: dict[str, Any] | None) -> list[str]:
    """Which of ``TERMS`` a target states."""
    if value is None:
        return []
    return [
        term for term in TERMS if value.get(term) or (term[:7] == "latency" and value["latency"])
    ]


def term(name: str, value: float) -> str:
    """A number of ``TERMS``, or of CPU time, in its unit.

    >>> term("rate_per_second", 126.3), term("latency_seconds", 0.00236)
    ('126/s', '2.36ms')
    """
    if name == "cpu_seconds_per_second":
        return f"{significant(value)} CPUs used"
    if name.endswith("_per_second"):
        return f"{significant(value)}/s"
    if name == "latency_seconds":
        return latency(float(f"{value:.3g}"))
    return duration(value)


def interval(name: str, value: dict[str, float]) -> str:
    """A predicted number and its bounds.

    >>> interval("rate_per_second", {"mean": 126.3, "low": 121.0, "high": 132.0})
    '126/s (121/s to 132/s)'
    """
    low, high = term(name, value["low"]), term(name, value["high"])
    return f"{term(name, value['mean'])} ({low} to {high})"


def clock(timestamp: str | None) -> str:
    """A time of the API to the second, without the letters.

    >>> clock("2026-01-02T03:04:05.678Z")
    '2026-01-02 03:04:05'
    """
    return NONE if timestamp is None else timestamp[:19].replace("T", " ")
