"""The files of the known programs, line by line; ``known.py`` says what they mean.

Tables are CSV as RFC 4180 has it, one line of names first; an empty field was not measured.
Numbers are written with as many digits as bring back the same value.
"""

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from wharfinger.errors import InvalidInput
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry

if TYPE_CHECKING:
    from wharfinger.classification.known import KnownPrograms

FORMAT = 1
SCALE_UP, NOISE, MACHINE = "scale_up.csv", "noise.csv", "machine.json"
TOLERATED, CAUSED = "tolerated", "caused"
TOLERATED_CSV, CAUSED_CSV = f"{TOLERATED}.csv", f"{CAUSED}.csv"
MEND = "measure again with wharfinger classify measure, or restore the file"

_NAMES = ("program", "group")
_NOISE_HEADER = ["program", "quantity", "entry", "error", "censored"]
Key = tuple[str, str, str]
"""Program, quantity (or ``tolerated``, ``caused``), column."""
M = TypeVar("M")
C = TypeVar("C", int, SharedResource)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table.

    Attributes:
        program: Its name.
        group: The program that it is a run of.
        quantity: Of a performance; empty for scores.
        values: By column; what was not measured is absent.
    """

    program: str
    group: str
    quantity: str
    values: Mapping[str, float]


# --- reading ------------------------------------------------------------------------------


def read_machine(path: Path, kind: type[M]) -> M:
    """``machine.json`` as that type.

    Raises:
        InvalidInput: It is missing, or is not one.
    """
    try:
        plain = msgspec.json.decode(path.read_bytes())
        found = plain.get("format") if isinstance(plain, dict) else None
        if found != FORMAT:
            raise InvalidInput(f"{path}: format {found!r}; this version reads {FORMAT}; {MEND}")
        return msgspec.convert(plain, kind)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; name a directory that holds it") from None
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{path}: {error}; {MEND}") from None


def read_scale_up(path: Path) -> Iterator[Line]:
    """The rows of ``scale_up.csv``: columns are whole thousandths of a CPU, values above 0.

    Raises:
        InvalidInput: The file is missing or broken.
    """

    def check_value(value: float) -> str:
        return "" if value > 0 else "a performance is above 0"

    def check_column(column: str) -> str:
        fine = column.isascii() and column.isdecimal() and 0 < int(column) < 10**9
        return "" if fine else "a column is a whole number of thousandths of a CPU"

    table = _Table(path, (*_NAMES, "quantity"), check_column, check_value)
    quantities = [str(quantity) for quantity in Quantity]
    for number, line in table.lines():
        if line.quantity not in quantities:
            raise table.problem(
                number, f"quantity {line.quantity!r}; there are {', '.join(quantities)}"
            )
        yield line


def read_scores(path: Path, kind: str) -> Iterator[Line]:
    """The rows of ``tolerated.csv`` or ``caused.csv``: columns are sources, values 0 to 100.

    Raises:
        InvalidInput: The file is missing or broken.
    """

    def check_value(value: float) -> str:
        return "" if 0 <= value <= 100 else f"{kind} interference is from 0 to 100"

    def check_column(column: str) -> str:
        fine = column in {str(resource) for resource in SharedResource}
        return "" if fine else "that is no source of interference"

    for _, line in _Table(path, _NAMES, check_column, check_value).lines():
        yield line


def read_noise(path: Path) -> tuple[dict[Key, float], set[Key]]:
    """Standard errors by entry, and the entries that are lower bounds.

    Raises:
        InvalidInput: The file is missing or broken.
    """
    errors: dict[Key, float] = {}
    censored: set[Key] = set()
    for number, line in _read(path):
        if number == 1:
            if line != _NOISE_HEADER:
                raise InvalidInput(f"{path}:1: the header is not {','.join(_NOISE_HEADER)}; {MEND}")
            continue
        if len(line) != len(_NOISE_HEADER):
            raise InvalidInput(f"{path}:{number}: {len(line)} fields instead of 5; {MEND}")
        program, quantity, entry, error, mark = line
        key = (program, quantity, entry)
        errors[key] = _number(path, number, "error", error, _not_negative)
        if mark not in {"", "censored"}:
            raise InvalidInput(f"{path}:{number}: {mark!r}; write censored, or nothing; {MEND}")
        if mark:
            censored.add(key)
    return errors, censored


def _not_negative(value: float) -> str:
    return "" if value >= 0 else "an error is not negative"


Check = Callable[[float], str]


def _number(path: Path, number: int, column: str, text: str, check: Check) -> float:
    try:
        value = float(text)
        problem = check(value) if math.isfinite(value) else "that is not finite"
    except ValueError:
        problem = "that is not a number"
    if problem:
        raise InvalidInput(f"{path}:{number}: column {column!r}: {text!r}: {problem}; {MEND}")
    return value


def _read(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines that are not empty, numbered from 1."""
    try:
        text = path.read_text(encoding="utf-8")
        yield from (
            (number, line)
            for number, line in enumerate(csv.reader(io.StringIO(text), strict=True), start=1)
            if line
        )
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; {MEND}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: byte {error.start} is not UTF-8; {MEND}") from None
    except csv.Error as error:
        raise InvalidInput(f"{path}: {error}; {MEND}") from None


@dataclass(frozen=True, slots=True)
class _Table:
    """A table with names in front and numbers behind.

    Attributes:
        path: The file.
        names: Headers of the first columns.
        check_column: Says what is wrong with another column's header.
        check_value: Says what is wrong with a number.
    """

    path: Path
    names: Sequence[str]
    check_column: Callable[[str], str]
    check_value: Check

    def problem(self, number: int, words: str) -> InvalidInput:
        """With its place and the mend."""
        return InvalidInput(f"{self.path}:{number}: {words}; {MEND}")

    def lines(self) -> Iterator[tuple[int, Line]]:
        """All rows, each once."""
        columns: list[str] | None = None
        seen: set[tuple[str, ...]] = set()
        for number, fields in _read(self.path):
            if columns is None:
                columns = self._columns(number, fields)
                continue
            if len(fields) != len(self.names) + len(columns):
                expected = len(self.names) + len(columns)
                raise self.problem(number, f"{len(fields)} fields instead of {expected}")
            line = self._line(number, fields, columns)
            if (line.program, line.quantity) in seen:
                raise self.problem(number, f"program {line.program!r} stands there twice")
            seen.add((line.program, line.quantity))
            yield number, line
        if not seen:
            raise self.problem(1, "there is no row")

    def _columns(self, number: int, fields: list[str]) -> list[str]:
        if fields[: len(self.names)] != list(self.names):
            raise self.problem(number, f"the header does not begin {','.join(self.names)}")
        columns = fields[len(self.names) :]
        for column in columns:
            words = "it stands there twice" if columns.count(column) > 1 else ""
            if words := words or self.check_column(column):
                raise self.problem(number, f"column {column!r}: {words}")
        if not columns:
            raise self.problem(number, "there is no column of numbers")
        return columns

    def _line(self, number: int, fields: list[str], columns: list[str]) -> Line:
        program, group, *rest = fields
        if not program or not group:
            raise self.problem(number, "a row has no program or no group")
        quantity = rest.pop(0) if len(self.names) == 3 else ""
        values = {
            column: _number(self.path, number, column, text, self.check_value)
            for column, text in zip(columns, rest, strict=True)
            if text
        }
        return Line(program, group, quantity, values)


# --- writing ------------------------------------------------------------------------------


def write(directory: Path, known: "KnownPrograms") -> None:
    """All five files; the description comes last, so that what has it is whole.

    Raises:
        OSError: They can't be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / SCALE_UP, _csv(_scale_up(known)))
    write_whole(directory / TOLERATED_CSV, _csv(_scores(known, TOLERATED)))
    write_whole(directory / CAUSED_CSV, _csv(_scores(known, CAUSED)))
    write_whole(directory / NOISE, _csv(_noise(known)))
    described = msgspec.json.format(msgspec.json.encode(known.machine), indent=2)
    write_whole(directory / MACHINE, described + b"\n")


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file: whoever reads it, also after a crash, has the old or the new one.

    Raises:
        OSError: It can't be written.
    """
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _csv(lines: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def _scale_up(known: "KnownPrograms") -> Iterator[Sequence[str]]:
    columns = known.allocations
    yield (*_NAMES, "quantity", *map(str, columns))
    for program in known.programs:
        for quantity, entries in program.performance.items():
            fields = [_written(entries.get(cpu)) for cpu in columns]
            yield (program.name, program.group, str(quantity), *fields)


def _scores(known: "KnownPrograms", kind: str) -> Iterator[Sequence[str]]:
    found = [p.tolerated if kind == TOLERATED else p.caused for p in known.programs]
    columns = [source for source in SharedResource if any(source in scores for scores in found)]
    yield (*_NAMES, *map(str, columns))
    for program, scores in zip(known.programs, found, strict=True):
        if scores:
            yield (program.name, program.group, *(_written(scores.get(c)) for c in columns))


def _written(entry: Entry | None) -> str:
    return "" if entry is None else repr(float(entry.value))


def _noise(known: "KnownPrograms") -> Iterator[Sequence[str]]:
    yield _NOISE_HEADER
    for program in known.programs:
        for quantity, entries in program.performance.items():
            yield from _errors(program.name, str(quantity), entries)
        yield from _errors(program.name, TOLERATED, program.tolerated)
        yield from _errors(program.name, CAUSED, program.caused)


def _errors(program: str, quantity: str, entries: Mapping[C, Entry]) -> Iterator[Sequence[str]]:
    for column, entry in entries.items():
        mark = "censored" if entry.censored else ""
        yield program, quantity, str(column), repr(float(entry.error)), mark
