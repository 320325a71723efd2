"""Tables and fields for people, JSON and YAML for programs; ``show`` prints what is asked for.

Cells and fields are escaped, because names and messages are a workload's own; JSON and YAML are
escaped by their nature.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wharfinger.cli import format as fmt
from wharfinger.cli.readers import TEMPLATE

Record = dict[str, Any]
"""One record of the API."""
Column = tuple[str, Callable[[Any], str]]
"""A header, and a row's cell."""

_UNCUT = 10_000
"""The least width of a column that may not be cut."""
_DANGEROUS = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control, formatting (also right-to-left overrides), surrogates, unassigned, line ends."""
_PLAIN_YAML = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_NOT_PLAIN = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""Words that some reader of YAML takes for something else than a string."""


def column(header: str, key: str = "", form: Callable[[Any], str] = fmt.text) -> Column:
    """A column with one field of each row, by default that of the header's words.

    A value is written by ``form``, ``None`` as a dash.
    """
    name = key or header.lower().replace(" ", "_")
    return header, lambda row: fmt.NONE if row[name] is None else form(row[name])


def table(
    rows: Sequence[Any],
    columns: Sequence[Column],
    empty: str = "",
    *,
    width: int | None = None,
    flexible: Mapping[str, int] | None = None,
) -> str:
    """Rows as an aligned table, or ``empty`` where there are none.

    Lines of more than ``width`` characters (``None`` = unlimited) are cut in the ``flexible``
    columns, which are given by header with their least widths.

    >>> rows = [{"name": "a", "why": "a long story"}]
    >>> print(table(rows, [column("NAME"), column("WHY")], width=14, flexible={"WHY": 4}))
    NAME  WHY
    a     a long …
    """
    if not rows:
        return empty
    cells = [[header for header, _ in columns], *_cells(rows, columns)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        least = [(flexible or {}).get(header, _UNCUT) for header, _ in columns]
        widths = _narrowed(widths, least, width - 2 * (len(widths) - 1))
        cells = [list(map(_cut, line, widths)) for line in cells]
    return _aligned(cells, widths)


class GrowingTable:
    """A table that is printed line by line; its columns get wider where they must."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._widths: list[int] = []

    def text(self, rows: Sequence[Any]) -> str:
        """These rows, the first time below the headers."""
        cells = _cells(rows, self._columns)
        if not self._widths:
            cells.insert(0, [header for header, _ in self._columns])
        lines = [self._widths, *(list(map(len, line)) for line in cells)]
        self._widths = list(map(max, *(line for line in lines if line), [0] * len(self._columns)))
        return _aligned(cells, self._widths)


def _cells(rows: Sequence[Any], columns: Sequence[Column]) -> list[list[str]]:
    return [[printable(cell(row)) for _, cell in columns] for row in rows]


def _aligned(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


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


def indented(block: str) -> str:
    """Every line moved to the right."""
    return "\n".join(f"  {line}" if line else line for line in block.splitlines())


def section(head: str, lines: str | Sequence[str]) -> str:
    """A heading with its lines below it, moved to the right."""
    return f"{head}\n" + indented(lines if isinstance(lines, str) else "\n".join(lines))


def fields(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values below one another."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(
        f"{name + ':':<{width + 1}}  {printable(value)}".rstrip() for name, value in pairs
    )


def printable(shown: str) -> str:
    r"""The text with everything that a terminal might obey written as an escape.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _DANGEROUS else c
        for c in shown
    )


def show(value: Any, output: str, as_text: Callable[[], str]) -> None:
    """Print a value as asked: JSON, YAML, by a template, or by ``as_text`` for people."""
    if output.startswith(TEMPLATE):
        from wharfinger.cli.jsonpath import render  # noqa: PLC0415 - few calls want it

        shown = render(output.removeprefix(TEMPLATE), value, _single)
    else:
        shown = {"json": to_json, "yaml": to_yaml}.get(output, lambda _: as_text())(value)
    if shown:
        sys.stdout.write(shown + ("" if shown.endswith("\n") else "\n"))
        sys.stdout.flush()


def _single(value: Any) -> str:
    """A value of a template: words without quotes, nothing for ``None``."""
    if value is None:
        return ""
    return printable(value) if isinstance(value, str) else json.dumps(value)


def names_text(records: Sequence[Record], kind: str) -> str:
    """For ``-o name``: ``workload/web``, a line each."""
    return "\n".join(f"{kind}/{printable(str(record['name']))}" for record in records)


def to_json(value: Any) -> str:
    """Indented, ASCII only."""
    return json.dumps(value, indent=2)


def to_json_line(value: Any) -> str:
    """The same in one line, for streams."""
    return json.dumps(value)


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
