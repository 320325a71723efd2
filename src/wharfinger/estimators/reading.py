"""Reads a matrix from a CSV file, line by line.

First column: a row's name, whatever its header. An optional second column ``group``: the
program that a row is a run of. The rest: one configuration each. Empty (or ``nan``) is not
measured. Quoting as in RFC 4180, so names may hold commas. What measuring takes is told by a file
of its own (``read_seconds``).
"""

import csv
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.matrix import Array, Matrix, Transform

GROUP = "group"
SECONDS_HEADER = ["column", "seconds"]


def read_matrix(path: Path | str, transform: Transform = Transform.LOG) -> Matrix:
    """The matrix in that file.

    Raises:
        InvalidInput: The file can't be read, or is no such matrix: line, column, value, mend.
    """
    with _lines(path) as lines:
        return _Reader(str(path)).read(lines, transform)


def read_seconds(path: Path | str, columns: Sequence[str]) -> Array:
    """(columns,) how long measuring each takes, from lines of ``column,seconds``.

    Args:
        path: A CSV file with that header.
        columns: All of which it must tell.

    Raises:
        InvalidInput: The file can't be read, or is none of these: line, value, mend.
    """
    places = {column: j for j, column in enumerate(columns)}
    seconds = np.full(len(columns), np.nan)
    with _lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                _check_seconds_header(path, line)
            elif line:
                column, value = _seconds_line(f"{path}:{number}", line, places)
                if not np.isnan(seconds[column]):
                    raise InvalidInput(
                        f"{path}:{number}: column {line[0]!r} stands twice; keep one line of it"
                    )
                seconds[column] = value
    if np.isnan(seconds).any():
        missing = columns[int(np.flatnonzero(np.isnan(seconds))[0])]
        raise InvalidInput(f"{path}: no seconds for column {missing!r}; add a line for it")
    return seconds


def _check_seconds_header(path: Path | str, header: list[str]) -> None:
    if header != SECONDS_HEADER:
        raise InvalidInput(f"{path}:1: the header is {','.join(header)!r}; write column,seconds")


def _seconds_line(place: str, line: list[str], columns: Mapping[str, int]) -> tuple[int, float]:
    if len(line) != len(SECONDS_HEADER):
        raise InvalidInput(f"{place}: {len(line)} fields; write column,seconds")
    name, text = line
    if name not in columns:
        raise InvalidInput(f"{place}: {name!r} is no column of the matrix; name one that is")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{place}: column {name!r}: {text!r}; write seconds, above 0")
    return columns[name], value


@contextmanager
def _lines(path: Path | str) -> Iterator[Iterator[list[str]]]:
    """A file's lines, each in its fields; what is wrong with it is said in one line."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            yield csv.reader(file)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8"
        ) from None
    except csv.Error as error:
        raise InvalidInput(f"{path}: {error}; write it as comma-separated values") from None
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{path}: {words}; name a CSV file") from None


class _Reader:
    """One file's lines; entries are kept as numbers as they come."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.values = array("d")
        self.rows: dict[str, int] = {}
        self.groups: list[str] = []

    def read(self, lines: Iterator[list[str]], transform: Transform) -> Matrix:
        numbered = ((n, line) for n, line in enumerate(lines, start=1) if line)
        _, header = next(numbered, (1, []))
        first = 2 if len(header) > 1 and header[1].strip() == GROUP else 1
        columns = tuple(header[first:])
        self._check_header(header, columns)
        for number, line in numbered:
            self._line(number, line, header, first)
        if not self.rows:
            raise InvalidInput(f"{self.path}: no row follows the header; give at least one")
        shape = len(self.rows), len(columns)
        values = np.frombuffer(self.values, dtype=np.float64).reshape(shape)
        try:
            return Matrix(tuple(self.rows), columns, tuple(self.groups), values, transform)
        except InvalidInput as error:
            raise InvalidInput(f"{self.path}: {error}") from None

    def _check_header(self, header: list[str], columns: tuple[str, ...]) -> None:
        if not columns:
            raise InvalidInput(
                f"{self.path}:1: no configuration in the header {','.join(header)!r}; "
                "write name,[group,]configuration,..."
            )

    def _line(self, number: int, line: list[str], header: list[str], first: int) -> None:
        if len(line) != len(header):
            raise InvalidInput(
                f"{self.path}:{number}: {len(line)} fields where the header has {len(header)}; "
                "leave what was not measured empty, and quote names with commas"
            )
        name = line[0]
        if name in self.rows:
            raise InvalidInput(
                f"{self.path}:{number}: row {name!r} stands already in line {self.rows[name]}; "
                "give each row its own name"
            )
        self.rows[name] = number
        self.groups.append((line[1] if first == 2 else "") or name)
        for column, text in zip(header[first:], line[first:], strict=True):
            self.values.append(self._number(number, column, text))

    def _number(self, number: int, column: str, text: str) -> float:
        if not text:
            return math.nan
        try:
            value = float(text)
        except ValueError:
            if not text.strip():
                return math.nan
            value = math.inf
        if math.isinf(value):
            raise InvalidInput(
                f"{self.path}:{number}: column {column!r}: {text!r} is not a finite number; "
                "leave the field empty if it was not measured"
            )
        return value
