"""Lines of a CSV file by the names of its columns: for measured tables and for traces.

What is wrong with a file is one line: file, line, column, value, mend.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import closest
from wharfinger.model.units import quoted


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        path: The file.
        number: Of the line, counted from 1.
        fields: Text by column.
    """

    path: Path
    number: int
    fields: dict[str, str]

    def wrong(self, column: str, mend: str) -> InvalidInput:
        """What to raise over one of its fields."""
        shown = quoted(self.fields[column])
        return InvalidInput(f"{self.path}:{self.number}: column {column!r}: {shown}{mend}")

    def text(self, column: str) -> str:
        """A field that may not be empty.

        Raises:
            InvalidInput: It is.
        """
        text = self.fields[column].strip()
        if not text:
            raise self.wrong(column, " is empty; write a name")
        return text

    def number_of(self, column: str) -> float:
        """A field that is a number, finite and not negative.

        Raises:
            InvalidInput: It is not.
        """
        try:
            value = float(self.fields[column])
        except ValueError:
            raise self.wrong(column, " is not a number; write one, e.g. 12.5") from None
        if not math.isfinite(value):
            raise self.wrong(column, " is not finite; leave the line out if it was not measured")
        if value < 0:
            raise self.wrong(column, " is negative; write 0 or more")
        return value


def csv_lines(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, exact: bool = True
) -> Iterator[Line]:
    """The lines below the header that are not empty.

    Args:
        path: UTF-8, its first line the names of the columns.
        columns: That must be there, in any order.
        optional: That may be there.
        exact: No others may.

    Raises:
        InvalidInput: The file can't be read, or its header or a line's form is wrong.
    """
    with _fields(path) as reader:
        header = [name.strip() for name in next(reader, [])]
        _check_header(path, header, columns, optional, exact=exact)
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise InvalidInput(
                    f"{path}:{reader.line_num}: {len(fields)} fields where the header has "
                    f"{len(header)}; quote names with commas"
                )
            yield Line(path, reader.line_num, dict(zip(header, fields, strict=True)))


def _check_header(
    path: Path, header: list[str], columns: Sequence[str], optional: Sequence[str], *, exact: bool
) -> None:
    known = [*columns, *optional]
    for name in header:
        if header.count(name) > 1:
            raise InvalidInput(f"{path}:1: column {quoted(name)} stands twice; remove one")
        if exact and name not in known:
            near = closest(name, known)
            mend = f"did you mean {near}?" if near else f"the columns are {', '.join(known)}"
            raise InvalidInput(f"{path}:1: unknown column {quoted(name)}; {mend}")
    for name in columns:
        if name not in header:
            near = closest(name, header)
            mend = f"did you mean {near}?" if near else f"the header has {', '.join(header)}"
            raise InvalidInput(f"{path}:1: no column {quoted(name)}; {mend}")


@contextmanager
def _fields(path: Path) -> Iterator[Any]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield csv.reader(file, strict=True)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except csv.Error as error:
        raise InvalidInput(f"{path}: {error}; write it as comma-separated values") from None
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; name a CSV file") from None
