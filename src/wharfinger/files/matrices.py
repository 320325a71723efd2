"""A matrix in a CSV file: a row's name, an optional ``group``, then one configuration each.

``group`` names the program that a row is a run of. Empty (or ``nan``) is not measured. A second
file has the seconds that measuring takes (``read_seconds``).
"""

from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.matrix import Matrix, Transform
from wharfinger.files.tabular import Table
from wharfinger.model.arrays import Array

GROUP = "group"
SECONDS_HEADER = ("column", "seconds")


def read_matrix(path: Path | str, transform: Transform = Transform.LOG) -> Matrix:
    """The matrix in that file; ``InvalidInput``: line, column, value, mend."""
    table = Table(path)
    first = 2 if table.header[1:2] == (GROUP,) else 1
    columns = table.header[first:]
    if not columns:
        raise table.problem(
            f"no configuration in the header {','.join(table.header)!r}",
            "write name,[group,]configuration,...",
        )
    table.refuse_twice(first)
    numbers: dict[str, int] = {}
    groups: list[str] = []
    values = array("d")
    for line in table.lines():
        name = line.fields[0]
        if name in numbers:
            words = f"row {name!r} stands already in line {numbers[name]}"
            raise line.problem(words, "give each row its own name")
        numbers[name] = line.number
        groups.append((line.fields[1] if first == 2 else "") or name)
        values.extend(map(line.measured, columns))
    if not numbers:
        raise table.problem("no row follows the header", "give at least one")
    entries = np.frombuffer(values, dtype=np.float64).reshape(len(numbers), len(columns))
    try:
        return Matrix(tuple(numbers), columns, tuple(groups), entries, transform)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def read_seconds(path: Path | str, columns: Sequence[str]) -> Array:
    """(columns,) how long measuring each takes, from ``column,seconds``; else ``InvalidInput``."""
    seconds: dict[str, float] = {}
    for line in Table(path).require(SECONDS_HEADER).lines():
        name = line.text("column")
        if name not in columns:
            raise line.wrong("column", "is no column of the matrix", "name one that is")
        if name in seconds:
            raise line.wrong("column", "stands twice", "keep one line of it")
        seconds[name] = line.number_of("seconds")
        if seconds[name] == 0:
            raise line.wrong("seconds", "is no time", "write seconds, above 0")
    for name in columns:
        if name not in seconds:
            raise InvalidInput(f"{path}: no seconds for column {name!r}; add a line for it")
    return np.array([seconds[name] for name in columns])
