"""All tables that wharfinger reads: CSV files (RFC 4180, UTF-8, with a header), line by line.

What can't be read is an ``InvalidInput`` of one line: file, line, column, value, mend.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TextIO, TypeVar

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import closest
from wharfinger.model.units import quoted

W = TypeVar("W", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class TableLine:
    """One line below the header, counted from 1; ``line[column]`` is the text of a field."""

    table: "Table"
    number: int
    fields: Sequence[str]

    def __getitem__(self, column: str) -> str:
        return self.fields[self.table.places[column]]

    def problem(self, words: str, mend: str = "") -> InvalidInput:
        """The error to raise for the line."""
        return self.table.problem(words, mend, self.number)

    def wrong(self, column: str, words: str, mend: str = "") -> InvalidInput:
        """The error to raise for one of its fields."""
        return self.problem(f"column {column!r}: {quoted(self[column])} {words}", mend)

    def text(self, column: str) -> str:
        """A field that may not be empty."""
        if text := self[column].strip():
            return text
        raise self.wrong(column, "is empty", "write a name")

    def one_of(self, column: str, words: type[W]) -> W:
        """A word of an enumeration."""
        try:
            return words(self[column])
        except ValueError:
            raise self.wrong(column, f"is unknown; there are {', '.join(words)}") from None

    def number_of(self, column: str, high: float = math.inf) -> float:
        """A finite number from 0 to ``high``."""
        value = self._parsed(column, "write one, e.g. 12.5")
        if not math.isfinite(value):
            raise self.wrong(column, "is not finite", "leave the line out if it was not measured")
        if 0 <= value <= high:
            return value
        allowed = f"0 to {high:g}" if high < math.inf else "0 or more"
        words = "is negative" if value < 0 else "is out of range"
        raise self.wrong(column, words, f"write {allowed}")

    def measured(self, column: str) -> float:
        """A finite number; NaN where the field is empty (or ``nan``)."""
        if not self[column].strip():
            return math.nan
        value = self._parsed(column, "leave the field empty if it was not measured")
        if math.isinf(value):
            raise self.wrong(column, "is not finite", "leave it empty if it was not measured")
        return value

    def _parsed(self, column: str, mend: str) -> float:
        try:
            return float(self[column])
        except ValueError:
            raise self.wrong(column, "is not a number", mend) from None


class Table:
    """An open CSV file; ``lines`` can be read once, ``places`` has the index of each column.

    Where ``mend`` is given, it ends every message instead of the field's own mend.
    """

    def __init__(self, path: Path | str, mend: str = "") -> None:
        self.path, self.mend = path, mend
        self._lines = self._fields()
        self._first, names = next(self._lines, (1, []))
        self.header = tuple(name.strip() for name in names)
        self.places: Mapping[str, int] = {name: place for place, name in enumerate(self.header)}

    def problem(self, words: str, mend: str = "", number: int | None = None) -> InvalidInput:
        """The error to raise for one of its lines; ``None`` = the header."""
        place = f"{self.path}:{self._first if number is None else number}"
        return InvalidInput("; ".join(filter(None, [f"{place}: {words}", self.mend or mend])))

    def lines(self) -> Iterator[TableLine]:
        """The lines below the header that are not empty."""
        for number, fields in self._lines:
            if len(fields) != len(self.header):
                raise self.problem(
                    f"{len(fields)} fields where the header has {len(self.header)}",
                    "leave what was not measured empty, and quote names with commas",
                    number,
                )
            yield TableLine(self, number, fields)

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(text_lines(self.path, mend=self.mend), strict=True)
        try:
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
        except csv.Error as error:
            raise self.problem(
                str(error), "write it as comma-separated values", reader.line_num
            ) from None

    def require(
        self, columns: Sequence[str], optional: Sequence[str] = (), *, exact: bool = True
    ) -> "Table":
        """The same table, checked to have these columns, in any order; if ``exact``, no others."""
        self.refuse_twice()
        wanted = [*columns, *optional]
        for name in self.header if exact else ():
            if name not in wanted:
                mend = _meant(name, wanted, f"the columns are {', '.join(wanted)}")
                raise self.problem(f"unknown column {quoted(name)}", mend)
        for name in columns:
            if name not in self.places:
                there = f"the header has {', '.join(self.header) or 'none'}"
                mend = _meant(name, self.header, there)
                raise self.problem(f"no column {quoted(name)}", mend)
        return self

    def refuse_twice(self, begin: int = 0) -> None:
        """Check that from a column on all names differ."""
        for place, name in enumerate(self.header[begin:], start=begin):
            if self.places[name] != place:
                raise self.problem(f"column {quoted(name)} stands twice", "remove one")


def _meant(word: str, words: Sequence[str], otherwise: str) -> str:
    near = closest(word, list(words))
    return f"did you mean {near}?" if near else otherwise


def read_table(
    path: Path | str,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    exact: bool = True,
    mend: str = "",
) -> Iterator[TableLine]:
    """The lines of a file of named columns; see ``Table.require``."""
    return Table(path, mend).require(columns, optional, exact=exact).lines()


def text_lines(
    path: Path | str, kind: str = "a CSV file", errors: str = "strict", mend: str = ""
) -> Iterator[str]:
    """The lines of a UTF-8 file, with their ends, one by one; one named ``.gz`` is unpacked."""
    number = 0
    try:
        with _opened(Path(path), errors) as file:
            for line in file:
                number += 1
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InvalidInput(
            f"{path}: broken gzip after line {number}; fetch or pack it again"
        ) from None
    except UnicodeDecodeError:
        mend = mend or "save it as UTF-8"
        raise InvalidInput(f"{path}: not UTF-8 after line {number}; {mend}") from None
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{path}: {words}; {mend or f'name {kind}'}") from None


def _opened(path: Path, errors: str) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="", errors=errors)
    return path.open(encoding="utf-8-sig", newline="", errors=errors)


def csv_text(lines: Iterable[Sequence[str]]) -> str:
    """Lines of fields as CSV, quoted where they need it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
