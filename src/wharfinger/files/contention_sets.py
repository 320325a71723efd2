"""Measured sets of neighbors in a CSV file, and fitted models in JSON files.

The columns, in any order: ``ls`` (the service), ``batch`` (its neighbors, joined by ``+``, a name
as often as it runs; or ``bubble:8Mi``), ``performance`` (relative to alone) or ``contention``; and
optionally ``platform``, ``class`` (of load or input), ``error`` (standard error, in the unit of the
value), and ``seconds`` and ``load``, which ``wharfinger contention collect`` writes and no
model reads. A line with one neighbor is a single.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from wharfinger.errors import InvalidInput
from wharfinger.files.atomic import write_whole
from wharfinger.files.tabular import Table, TableLine, csv_text, text_lines
from wharfinger.interference.completion import completed
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
    ServiceSets,
)
from wharfinger.interference.model import InterferenceModel
from wharfinger.model.units import format_bytes, parse_bytes, quoted

REQUIRED = ("ls", "batch")
VALUES = ("performance", "contention")
OPTIONAL = (*VALUES, "platform", "class", "error", "seconds", "load")
COLLECTED = ("ls", "batch", "platform", "class", "performance", "error", "seconds", "load")
"""The columns of a new file of ``CollectedSets``."""
MAX_PERFORMANCE = 1.2
MAX_CONTENTION = 1e15
"""A bubble of a petabyte, or so many times the time alone: more is no measurement."""
MAX_DEGREE = 8
"""Neighbors in a set; more on one server tell nothing that fewer do not."""
BUBBLE = "bubble:"


def read_measurements(path: Path | str) -> ContentionMeasurements:
    """The measurements in that file; singles that are missing are completed where others tell them.

    Raises:
        InvalidInput: Line, column, value and mend of what can't be read or contradicts another
            line, or a set with a neighbor whose single can't be told.
    """
    table, rows = _rows_of(path)
    if not rows:
        raise table.problem("no row follows the header", "give at least one")

    def problem(words: str, mend: str, line: int) -> InvalidInput:
        return table.problem(words, mend, line)

    found = completed(ContentionMeasurements.of(rows, problem))
    _refuse_unknown_singles(table, rows, found.services)
    return found


def _rows_of(path: Path | str) -> tuple[Table, list[MeasuredSet]]:
    table = Table(path).require(REQUIRED, OPTIONAL)
    if not any(name in table.places for name in VALUES):
        raise table.problem(f"no column {' or '.join(VALUES)}", "write one of the two")
    return table, [_row(line) for line in table.lines()]


class CollectedSets:
    """A file of measured sets that grows by a line at a time, each durable before the next.

    A file that is there already goes on, with its own columns.

    Attributes:
        rows: Those of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[MeasuredSet] = []
        self._text = ",".join(COLLECTED) + "\n"
        self._columns: Sequence[str] = COLLECTED
        if path.suffix == ".gz":
            raise InvalidInput(f"{path}: a packed file can't grow; name one without .gz")
        if not path.exists():
            return
        table, self.rows = _rows_of(path)
        if any(row.is_contention for row in self.rows) or "performance" not in table.places:
            raise table.problem("it has contentions, not performances", "name another file")
        ContentionMeasurements.of(self.rows, table.problem)
        self._columns = table.header
        text = "".join(text_lines(path))
        self._text = text if text.endswith("\n") else f"{text}\n"

    def add(self, row: MeasuredSet, seconds: float, load: float) -> None:
        """Write a line; concurrent readers see it whole or not at all.

        Raises:
            InvalidInput: It contradicts the others.
            OSError: The file can't be written; it is as before.
        """
        row = replace(row, line=self._text.count("\n") + 1)
        ContentionMeasurements.of([*self.rows, row], _in_words)
        batch = "+".join(row.neighbors) or f"{BUBBLE}{format_bytes(int(row.bubble_bytes))}"
        told = {
            "ls": row.setting.service,
            "batch": batch,
            "platform": row.setting.platform,
            "class": row.setting.load_class,
            "performance": f"{row.value:.5f}",
            "error": "" if row.error is None else f"{row.error:.5f}",
            "seconds": f"{seconds:.2f}",
            "load": f"{load:.2f}",
        }
        text = self._text + csv_text([[told.get(column, "") for column in self._columns]])
        write_whole(self._path, text.encode())
        self._text = text
        self.rows.append(row)


def _in_words(words: str, mend: str, _line: int) -> InvalidInput:
    return InvalidInput(f"{words}; {mend}")


def _row(line: TableLine) -> MeasuredSet:
    setting = ContentionSetting(
        line.text("ls"),
        line["platform"].strip() if "platform" in line.table.places else "",
        line["class"].strip() if "class" in line.table.places else "",
    )
    column = _value_column(line)
    value = line.number_of(column, MAX_PERFORMANCE if column == "performance" else MAX_CONTENTION)
    stated = "error" in line.table.places and line["error"].strip()
    error = line.number_of("error") if stated else None
    neighbors, bubble = _neighbors(line)
    return MeasuredSet(
        setting, neighbors, value, error, bubble, column == "contention", line.number
    )


def _value_column(line: TableLine) -> str:
    filled = [name for name in VALUES if name in line.table.places and line[name].strip()]
    if len(filled) == 1:
        return filled[0]
    if filled:
        raise line.problem("has both performance and contention", "leave one of the two empty")
    raise line.problem(
        "has neither performance nor contention", "leave the line out if it was not measured"
    )


def _neighbors(line: TableLine) -> tuple[tuple[str, ...], float]:
    text = line.text("batch")
    if text.startswith(BUBBLE) and "+" not in text:
        try:
            return (), float(parse_bytes(text.removeprefix(BUBBLE)))
        except InvalidInput as error:
            raise line.wrong("batch", f"is no bubble: {error}", "write e.g. bubble:8Mi") from None
    return parse_set(text, line), 0.0


def parse_set(text: str, line: TableLine | None = None) -> tuple[str, ...]:
    """Names joined by ``+``, sorted.

    Raises:
        InvalidInput: A name is empty, a bubble is among neighbors, or there are too many.

    >>> parse_set("mcf+lbm+mcf")
    ('lbm', 'mcf', 'mcf')
    """
    names = [name.strip() for name in text.split("+")]
    if not all(names):
        words, mend = "has an empty name", "write names joined by +, e.g. mcf+lbm"
    elif any(name.startswith(BUBBLE) for name in names):
        words, mend = "has a bubble among neighbors", "measure a bubble alone beside the service"
    elif len(names) > MAX_DEGREE:
        words = f"has {len(names)} neighbors, more than {MAX_DEGREE}"
        mend = "leave the set out"
    else:
        return tuple(sorted(names))
    if line is None:
        raise InvalidInput(f"{quoted(text)} {words}; {mend}")
    raise line.wrong("batch", words, mend)


def _refuse_unknown_singles(
    table: Table, rows: Iterable[MeasuredSet], services: Iterable[ServiceSets]
) -> None:
    unknown = {
        (each.setting, name)
        for each in services
        for name, single in zip(each.names, each.single.tolist(), strict=True)
        if single != single  # noqa: PLR0124 - NaN
    }
    for row in rows:
        for name in row.neighbors:
            if (row.setting, name) in unknown:
                raise table.problem(
                    f"{row.setting} was never measured beside {quoted(name)} alone, and other "
                    "services do not tell it",
                    f"add a line {row.setting.service},{name},...",
                    row.line,
                )


def save_model(model: InterferenceModel, path: Path | str) -> None:
    """Write a file; concurrent readers see the old one or the new one."""
    document = json.dumps(model.as_json(), allow_nan=False, separators=(",", ":"))
    write_whole(Path(path), f"{document}\n".encode())


def digest_of(path: Path | str) -> str:
    """Of the file, by which a log tells which model decided; raises ``InvalidInput``."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        mend = "name a file that `wharfinger contention fit --out` wrote"
        raise InvalidInput(f"{path}: {error.strerror}; {mend}") from None


def load_model(path: Path | str) -> InterferenceModel:
    """Read such a file.

    Raises:
        InvalidInput: It can't be read, is damaged, or another version's.
    """
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        mend = "name a file that `wharfinger contention fit --out` wrote"
        raise InvalidInput(f"{path}: {error.strerror}; {mend}") from None
    except ValueError as error:
        raise InvalidInput(f"{path} is damaged ({error}); fit it again") from None
    return InterferenceModel.from_json(document, str(path))
