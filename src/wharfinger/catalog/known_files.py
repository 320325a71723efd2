"""The files of the known programs, which docs/known-programs.md specifies, to ``known`` and back.

What is measured on several servers or platforms lies beside them where a site has it, as
``scale-out.csv`` and ``heterogeneity.csv``. Numbers are written so that they read back the same.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from wharfinger.catalog.known import FORMAT, KnownProgram, KnownPrograms, MeasuringMachine
from wharfinger.classification.utility import Aspect
from wharfinger.errors import InvalidInput
from wharfinger.files.atomic import write_whole
from wharfinger.files.tabular import Table, TableLine, csv_text, read_table
from wharfinger.files.utility_matrices import read_utility, write_utility
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry

SHIPPED = Path(__file__).with_name("measured")
SCALE_UP, NOISE, MACHINE = "scale_up.csv", "noise.csv", "machine.json"
SCORES = ("tolerated", "caused")
BESIDE = (Aspect.SCALE_OUT, Aspect.HETEROGENEITY)
MEND = "measure again with wharfinger classify measure, or restore the file"

_NAMES = ("program", "group")
_NOISE_HEADER = ("program", "quantity", "entry", "error", "censored")


def site_directory() -> Path:
    """Where a site's own measurements lie: ``wharfinger/known`` in the user's XDG data folder."""
    base = os.environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):
        base = "~/.local/share"  # the XDG specification: a relative one is no base
    return Path(base).expanduser() / "wharfinger" / "known"


def load_known(path: Path | None = None) -> KnownPrograms:
    """Read the files in a directory; ``None`` = the site's own, where it has any, else the shipped.

    ``InvalidInput``: they are missing or broken: file, line, value, mend, in one line.

    >>> known = load_known(SHIPPED)
    >>> known.scale_up.columns[:2], known.scale_up.transform.value
    (('100', '250'), 'log')
    """
    if path is None:
        site = site_directory()
        path = site if (site / MACHINE).exists() else SHIPPED
    machine = _read_machine(path / MACHINE)
    programs = tuple(_read_programs(path).values())
    beside = {kind: path / f"{kind.value}.csv" for kind in BESIDE}
    further = {kind: read_utility(kind, file) for kind, file in beside.items() if file.exists()}
    return KnownPrograms(programs, machine, path, further)


def _read_machine(path: Path) -> MeasuringMachine:
    try:
        plain = msgspec.json.decode(path.read_bytes())
        stated = plain.get("format") if isinstance(plain, dict) else None
        if stated != FORMAT:
            raise InvalidInput(f"{path}: format {stated!r}; this version reads {FORMAT}; {MEND}")
        return msgspec.convert(plain, MeasuringMachine)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; name a directory that holds it") from None
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{path}: {error}; {MEND}") from None


def _read_programs(path: Path) -> dict[str, KnownProgram]:
    noise = _read_noise(path / NOISE)
    programs: dict[str, KnownProgram] = {}

    def known(line: TableLine) -> KnownProgram:
        name, group = line.text("program"), line.text("group")
        return programs.get(name, KnownProgram(name, group))

    def entry(line: TableLine, kind: str, column: str, high: float = inf) -> Entry:
        value = line.number_of(column, high=high)
        if not value and kind not in SCORES:
            raise line.wrong(column, "is no performance, which is above 0")
        error, censored = noise.get((line["program"], kind, column), (0.0, False))
        return Entry(value, error, censored)

    for line, columns in _lines(path / SCALE_UP, (*_NAMES, "quantity"), _allocation):
        quantity, one = line.one_of("quantity", Quantity), known(line)
        row = {int(cpu): entry(line, quantity.value, cpu) for cpu in columns}
        programs[one.name] = replace(one, performance={**one.performance, quantity: row})
    for kind in SCORES:
        for line, columns in _lines(path / f"{kind}.csv", _NAMES, _source):
            scores = {SharedResource(c): entry(line, kind, c, 100.0) for c in columns}
            changed: dict[str, Any] = {kind: scores}
            one = known(line)
            programs[one.name] = replace(one, **changed)
    return programs


def _read_noise(path: Path) -> dict[tuple[str, str, str], tuple[float, bool]]:
    """By program, quantity or score, and column: standard error, whether it is a lower bound."""
    noise = {}
    for line in read_table(path, _NOISE_HEADER, exact=False, mend=MEND):
        error = line.number_of("error")
        if line["censored"] not in {"", "censored"}:
            raise line.wrong("censored", "is neither censored nor empty")
        noise[line["program"], line["quantity"], line["entry"]] = error, bool(line["censored"])
    return noise


def _lines(
    path: Path, names: tuple[str, ...], problem_of: Callable[[str], str]
) -> Iterator[tuple[TableLine, list[str]]]:
    """The rows of a table with names in front, each with the columns that were measured of it."""
    table = Table(path, MEND)
    columns = table.header[len(names) :]
    if table.header == names == _NAMES:
        return  # Nothing injects sources there, as on nodes of one CPU.
    if table.header[: len(names)] != names or not columns:
        raise table.problem(f"the header is not {','.join(names)} and columns of numbers")
    table.refuse_twice()
    for column in columns:
        if words := problem_of(column):
            raise table.problem(f"column {column!r}: {words}")
    seen = set()
    for line in table.lines():
        row = (line.text("program"), *line.fields[2 : len(names)])
        if row in seen:
            raise line.wrong("program", "stands there twice")
        seen.add(row)
        yield line, [column for column in columns if line[column]]
    if not seen:
        raise table.problem("no row follows the header")


def _allocation(column: str) -> str:
    fine = column.isascii() and column.isdecimal() and 0 < int(column) < 10**9
    return "" if fine else "a column is a whole number of thousandths of a CPU"


def _source(column: str) -> str:
    return "" if column in set(SharedResource) else "that is no source of interference"


def save_known(programs: KnownPrograms, directory: Path) -> None:
    """Write the files, each whole; the description comes last, so that what has it is whole."""
    directory.mkdir(parents=True, exist_ok=True)
    tables = {SCALE_UP: _scale_up(programs), NOISE: _noise(programs)}
    tables |= {f"{kind}.csv": _scores(programs, kind) for kind in SCORES}
    for name, lines in tables.items():
        write_whole(directory / name, csv_text(lines).encode())
    for kind, matrix in programs.further.items():
        write_utility(matrix, directory / f"{kind.value}.csv")
    described = msgspec.json.format(msgspec.json.encode(programs.machine), indent=2)
    write_whole(directory / MACHINE, described + b"\n")


def _scale_up(programs: KnownPrograms) -> Iterator[Sequence[str]]:
    columns = programs.allocations
    yield (*_NAMES, "quantity", *map(str, columns))
    for program in programs.programs:
        for quantity, entries in program.performance.items():
            fields = [_written(entries.get(cpu)) for cpu in columns]
            yield (program.name, program.group, str(quantity), *fields)


def _scores(programs: KnownPrograms, kind: str) -> Iterator[Sequence[str]]:
    rows = [program.scores(kind) for program in programs.programs]
    columns = [source for source in SharedResource if any(source in scores for scores in rows)]
    yield (*_NAMES, *map(str, columns))
    for program, scores in zip(programs.programs, rows, strict=True):
        if scores:
            yield (program.name, program.group, *(_written(scores.get(c)) for c in columns))


def _written(entry: Entry | None) -> str:
    return "" if entry is None else repr(float(entry.value))


def _noise(programs: KnownPrograms) -> Iterator[Sequence[str]]:
    yield _NOISE_HEADER
    for program in programs.programs:
        tables: list[tuple[str, Mapping[Any, Entry]]] = [
            *program.performance.items(),
            *((kind, program.scores(kind)) for kind in SCORES),
        ]
        for table, entries in tables:
            for column, entry in entries.items():
                mark = "censored" if entry.censored else ""
                yield program.name, str(table), str(column), repr(float(entry.error)), mark
