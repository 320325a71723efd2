"""Utility matrices in CSV files, one line an entry."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wharfinger.classification.utility import Aspect, UtilityMatrix, UtilityRow
from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import TableLine, csv_text, read_table
from wharfinger.model.profile import Entry, Origin
from wharfinger.model.workload import WorkloadType

HEADER = ("row", "group", "type", "column", "value", "error", "censored", "origin", "measured_at")


def write_utility(matrix: UtilityMatrix, path: Path) -> None:
    """All of its entries; ``read_utility`` gives the same again."""
    path.write_text(csv_text(_written(matrix)), encoding="utf-8")


def _written(matrix: UtilityMatrix) -> Iterator[Sequence[str]]:
    yield HEADER
    for name, row in matrix.rows.items():
        for column, entry in row.entries.items():
            yield (name, row.group, row.type or "", column, *_fields(entry))


def _fields(entry: Entry) -> Sequence[str]:
    at = "" if entry.measured_at is None else repr(float(entry.measured_at))
    mark = "censored" if entry.censored else ""
    return repr(float(entry.value)), repr(float(entry.error)), mark, entry.origin.value, at


def read_utility(kind: Aspect, path: Path) -> UtilityMatrix:
    """Read such a file, also one made by hand; ``InvalidInput``: file, line, value, mend."""
    matrix = UtilityMatrix(kind, (), {})
    rows: dict[str, UtilityRow] = {}
    for line in read_table(path, HEADER):
        name, column, entry = line.text("row"), line.text("column"), _entry(line)
        try:
            matrix.check([(column, entry)])
        except InvalidInput as error:
            raise line.problem(str(error)) from None
        type_ = line.one_of("type", WorkloadType) if line["type"] else None
        earlier = rows[name].entries if name in rows else {}
        rows[name] = UtilityRow(line["group"] or name, type_, {**earlier, column: entry})
    columns = dict.fromkeys(column for row in rows.values() for column in row.entries)
    return replace(matrix, columns=tuple(columns), rows=rows)


def _entry(line: TableLine) -> Entry:
    return Entry(
        line.number_of("value"),
        line.number_of("error") if line["error"] else 0.0,
        line["censored"] == "censored",
        line.one_of("origin", Origin) if line["origin"] else Origin.OFFLINE,
        line.number_of("measured_at") if line["measured_at"] else None,
    )
