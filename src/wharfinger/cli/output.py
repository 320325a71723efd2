"""Prints values: aligned tables for people, JSON and YAML for programs.

The commands call ``show``. Table cells are escaped, because names and messages are a
workload's own; JSON and YAML are escaped by their nature.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from wharfinger.cli.terminal import printable

Column = tuple[str, Callable[[Any], str]]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
MAX_CELL = 10_000
"""No cell is wider: a column that may not be cut."""
MAX_YAML_KEY = 1000
"""Readers look for the colon behind a key no further than 1,024 characters."""
_NOT_PLAIN = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""Words that some reader of YAML takes for something else than a string."""


def show(value: Any, output: str, text: Callable[[], str]) -> None:
    """Print a value as asked: JSON, YAML, or by ``text`` for people."""
    if output == "json":
        shown = to_json(value)
    elif output == "yaml":
        shown = to_yaml(value)
    else:
        shown = text()
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
    return "\n".join(_yaml_lines(value))


def _yaml_lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            name = _yaml_scalar(key)
            if len(name) > MAX_YAML_KEY:
                yield f"? {name}"
                name = ""
            yield from _yaml_item(f"{name}:", item)
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _yaml_lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _yaml_scalar(value)


def _yaml_item(head: str, item: Any) -> Iterator[str]:
    if isinstance(item, dict | list) and item:
        yield head
        yield from (f"  {line}" for line in _yaml_lines(item))
    else:
        yield f"{head} {_yaml_scalar(item)}"


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _NOT_PLAIN:
        return value
    return json.dumps(value)


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
    >>> columns = [("NAME", lambda r: r["name"]), ("WHY", lambda r: r["why"])]
    >>> print(table(rows, columns, width=14, flexible={"WHY": 4}))
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


def indented(text: str, by: int = 2) -> str:
    """Every line moved to the right."""
    return "\n".join(" " * by + line if line else line for line in text.splitlines())


def fields(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values below one another."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(
        f"{name + ':':<{width + 1}}  {printable(value)}".rstrip() for name, value in pairs
    )
