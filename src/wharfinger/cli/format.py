"""How values are printed: numbers, durations, sizes, targets; tables for people, JSON and YAML.

The one formatter of all commands; ``show`` prints what they have. Cells of tables are escaped,
because names and messages are a workload's own; JSON and YAML are escaped by their nature. Exact
numbers are in JSON.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = dict[str, Any]
"""One record of the API."""
Column = tuple[str, Callable[[Any], str]]
"""A header, and what a row's cell says."""

NONE = "-"
CELL_WIDTH = 48
"""Of a column with sentences in it, at most; ``describe`` and JSON have them whole."""
MAX_CELL = 10_000
"""No cell is wider: a column that may not be cut."""
TERMS = ("throughput_per_second", "rate_per_second", "latency_seconds", "completion_seconds")
"""What a target may state, in the order in which it is said."""

_MILLICPUS = re.compile(r"\b(\d{2,7})m\b")
_DANGEROUS = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control, formatting (also right-to-left overrides), surrogates, unassigned, line ends."""
_PLAIN_YAML = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_NOT_PLAIN = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""Words that some reader of YAML takes for something else than a string."""


# --- numbers ----------------------------------------------------------------------------------


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
    for unit_seconds, unit, smaller_seconds, smaller in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= unit_seconds:
            rest = whole % unit_seconds // smaller_seconds
            return f"{whole // unit_seconds}{unit}" + (f"{rest}{smaller}" if rest else "")
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


def cpus(value: float) -> str:
    """A number of CPUs in words.

    >>> cpus(0.35), cpus(2.0)
    ('0.35 CPU', '2 CPUs')
    """
    return f"{number(value)} CPU" + ("" if value <= 1 else "s")


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
    """A position in a queue.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    ending = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10)
    return f"{value}{ending or 'th'}"


def yes_no(value: bool | None) -> str:
    """A fact; ``None`` = unknown."""
    return NONE if value is None else ("yes" if value else "no")


def clock(timestamp: str | None) -> str:
    """A time of the API to the second, without the letters.

    >>> clock("2026-01-02T03:04:05.678Z")
    '2026-01-02 03:04:05'
    """
    return NONE if timestamp is None else timestamp[:19].replace("T", " ")


def text(value: object) -> str:
    """Anything; a dash for nothing, commas between several."""
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return NONE if value in (None, "") else str(value)


def words(message: str) -> str:
    """A decision's sentence with CPU in CPUs, where the policy wrote thousandths.

    >>> words("target missed at 80% for 10 s: 400m CPU become 550m")
    'target missed at 80% for 10 s: 0.4 CPU become 0.55'
    """
    if "m CPU" not in message:
        return message
    return _MILLICPUS.sub(lambda match: number(int(match[1]) / 1000), message)


# --- targets, and what is measured of them ------------------------------------------------------


def target(value: Record | None) -> str:
    """A target in the manifest's units."""
    bound = value["latency"] if value else None
    below = f"p{number(bound['percentile'])}<{latency(bound['below_seconds'])}" if bound else ""
    return _performance(value, below)


def achieved(value: Record | None) -> str:
    """What was measured, in the form of the target that it is held against."""
    seconds = value["latency_seconds"] if value else None
    return _performance(value, "" if seconds is None else term("latency_seconds", seconds))


def _performance(value: Record | None, latency_text: str) -> str:
    if value is None:
        return NONE
    parts = [f"{number(value[key])}/s" for key in TERMS[:2] if value[key] is not None]
    parts += [latency_text] if latency_text else []
    if value["completion_seconds"] is not None:
        parts.append(f"done in {duration(value['completion_seconds'])}")
    return " ".join(parts)


def stated(value: Record | None) -> list[str]:
    """Which of ``TERMS`` a target states."""
    return [t for t in TERMS if value and value["latency" if t == TERMS[2] else t]]


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


def interval(name: str, value: Mapping[str, float]) -> str:
    """A predicted number and its bounds.

    >>> interval("rate_per_second", {"mean": 126.3, "low": 121.0, "high": 132.0})
    '126/s (121/s to 132/s)'
    """
    mean, low, high = (term(name, value[key]) for key in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def measured(values: list[Record]) -> str:
    """Each number and its source; a proxy says what it is worth.

    >>> measured([dict(name="rate_per_second", value=None, source="nothing yet", trusted=False,
    ...                correlation=None, final=False)])
    'rate_per_second no signal: nothing yet'
    """
    lines = []
    for one in values:
        when = " at the end" if one["final"] else ""
        if one["value"] is None:
            lines.append(f"{one['name']} no signal{when}: {one['source']}")
        else:
            lines.append(f"{one['name']} {one['value']:.4g}{when} by {_source(one)}")
    return "; ".join(lines) or NONE


def _source(one: Record) -> str:
    kind = f"(proxy, {'' if one['trusted'] else 'un'}trusted)"
    return str(one["source"]).replace("(proxy)", kind)


def measured_by(values: list[Record]) -> str:
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
    own = [one["source"] for one in values if "(proxy)" not in one["source"]]
    sources = "; ".join(dict.fromkeys(silent or own or proxies)) or NONE
    return sources if len(sources) <= CELL_WIDTH else f"{sources[: CELL_WIDTH - 3]}..."


# --- tables -----------------------------------------------------------------------------------


def column(header: str, key: str = "", form: Callable[[Any], str] = text) -> Column:
    """A column with one field of each row.

    Args:
        header: Of the table.
        key: Of the row; empty = the header's words.
        form: Of the value.
    """
    name = key or header.lower().replace(" ", "_")
    return header, lambda row: form(row[name])


def table(
    rows: Sequence[Any],
    columns: Sequence[Column],
    empty: str = "",
    *,
    width: int | None = None,
    flexible: Mapping[str, int] | None = None,
) -> str:
    """Rows as an aligned table.

    Args:
        rows: One a line.
        columns: Headers, and what each makes of a row.
        empty: Printed where there are no rows.
        width: The most characters of a line; ``None`` = as many as it takes.
        flexible: Columns that may be cut for that, by header, with the least they keep.

    >>> rows = [{"name": "a", "why": "a long story"}]
    >>> print(table(rows, [column("NAME"), column("WHY")], width=14, flexible={"WHY": 4}))
    NAME  WHY
    a     a long …
    """
    if not rows:
        return empty
    cells = [[header for header, _ in columns]]
    cells += [[printable(cell(row)) for _, cell in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        least = [(flexible or {}).get(header, MAX_CELL) for header, _ in columns]
        widths = _narrowed(widths, least, width - 2 * (len(widths) - 1))
        cells = [
            [_cut(cell, most) for cell, most in zip(line, widths, strict=True)] for line in cells
        ]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _narrowed(widths: list[int], least: list[int], room: int) -> list[int]:
    """Take from the widest of those that have something to give, until all fit."""
    widths = list(widths)
    while sum(widths) > room:
        spare = [(wide, at) for at, wide in enumerate(widths) if wide > least[at]]
        if not spare:
            break
        widths[max(spare)[1]] -= 1
    return widths


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else cell[: most - 1] + "…"


def indented(block: str, by: int = 2) -> str:
    """Every line moved to the right."""
    return "\n".join(" " * by + line if line else line for line in block.splitlines())


def section(head: str, lines: str | Sequence[str]) -> str:
    """A heading with its lines below it, moved to the right."""
    return f"{head}\n" + indented(lines if isinstance(lines, str) else "\n".join(lines))


def fields(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values below one another."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(
        f"{name + ':':<{width + 1}}  {printable(value)}".rstrip() for name, value in pairs
    )


# --- output -----------------------------------------------------------------------------------


def printable(shown: str) -> str:
    r"""The text with everything that a terminal might obey written as an escape.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _DANGEROUS
        else character
        for character in shown
    )


def printable_lines(block: str) -> str:
    """Every line escaped, the line ends kept."""
    return "\n".join(map(printable, block.split("\n")))


def show(value: Any, output: str, as_text: Callable[[], str]) -> None:
    """Print a value as asked: JSON, YAML, or by ``as_text`` for people."""
    if output == "json":
        shown = to_json(value)
    elif output == "yaml":
        shown = to_yaml(value)
    else:
        shown = as_text()
    if shown:
        sys.stdout.write(shown + "\n")


def to_json(value: Any) -> str:
    """Indented, ASCII only."""
    return json.dumps(value, indent=2)


def to_yaml(value: Any) -> str:
    """Block style; every string that could be taken for anything else is quoted.

    >>> print(to_yaml([{"name": "a", "labels": {}, "servers": ["no", "s 1"]}]))
    - name: a
      labels: {}
      servers:
      - "no"
      - "s 1"
    """
    import yaml  # noqa: PLC0415 - few calls want it

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # either
        def ignore_aliases(self, data: object) -> bool:
            return True

    def quoted(dumper: Dumper, value: str) -> yaml.Node:
        plain = _PLAIN_YAML.match(value) and value.lower() not in _NOT_PLAIN
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, None if plain else '"')  # type: ignore[no-any-return] # as above

    Dumper.add_representer(str, quoted)
    document = yaml.dump(
        value, Dumper=Dumper, sort_keys=False, default_flow_style=False, width=2**30
    )
    return document.removesuffix("\n").removesuffix("\n...")
