"""The input of estimators: named rows and columns, groups of rows, entries that may be missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import InvalidInput, NotFound
from wharfinger.model.arrays import Array


class Transform(StrEnum):
    """How estimators see values; after a logarithm, errors are relative."""

    LOG = "log"
    IDENTITY = "identity"

    def forward(self, values: Array) -> Array:
        """From the matrix's own scale to the estimators'."""
        return np.log(values) if self is Transform.LOG else values

    def backward(self, values: Array) -> Array:
        """The inverse of ``forward``."""
        return np.exp(values) if self is Transform.LOG else values


class RowScale(StrEnum):
    """What a row's level says.

    ``AUTO``: one of the following; which, is learnt from programs that are held out.
    ``ARBITRARY``: nothing; a row times a constant is the same row. ``COMMON``: rows share a
    unit, so the levels of known rows inform that of a new one. ``NORMALISED``: relative to the
    row's run alone, so 1 means the same in each row.
    """

    AUTO = "auto"
    ARBITRARY = "arbitrary"
    COMMON = "common"
    NORMALISED = "normalised"


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Rows × columns in their own scale, immutable; an entry that was not measured is NaN.

    ``groups`` has for each row the program that it is a run of: they are held out together.

    Raises:
        InvalidInput: Shapes or names contradict each other, a value is infinite, or has no
            logarithm where one is needed.

    >>> m = Matrix.of({"a": [1.0, 2.0], "b": [2.0, float("nan")]}, ["x", "y"])
    >>> m.with_entry("b", "y", 4.0).row("b")
    array([2., 4.])
    >>> m.row("b")
    array([ 2., nan])
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[str, ...]
    values: Array
    transform: Transform = Transform.LOG
    _rows: Mapping[str, int] = field(init=False, repr=False)
    _columns: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        expected = (len(self.rows), len(self.columns))
        if values.shape != expected or len(self.groups) != len(self.rows):
            raise InvalidInput(
                f"a matrix of {values.shape} values has {len(self.rows)} row names, "
                f"{len(self.groups)} groups and {len(self.columns)} column names; name each once"
            )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_rows", _places("row", self.rows))
        object.__setattr__(self, "_columns", _places("column", self.columns))
        self._check_values()

    @classmethod
    def of(
        cls,
        rows: Mapping[str, Sequence[float]],
        columns: Sequence[str],
        groups: Sequence[str] | None = None,
        transform: Transform = Transform.LOG,
    ) -> "Matrix":
        """From rows by name; without ``groups`` each row is a program of its own."""
        values = np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), len(columns))
        of = tuple(rows if groups is None else groups)
        return cls(tuple(rows), tuple(columns), of, values, transform)

    def _check_values(self) -> None:
        bad = np.isinf(self.values)
        words = "is not finite; leave the entry empty if it was not measured"
        if not bad.any() and self.transform is Transform.LOG:
            bad = self.values <= 0
            words = (
                "has no logarithm; values must be above 0, and an entry that was not measured "
                "is left empty"
            )
        if bad.any():
            i, j = np.argwhere(bad)[0]
            raise InvalidInput(
                f"row {self.rows[i]!r}, column {self.columns[j]!r}: {self.values[i, j]:g} {words}"
            )

    @property
    def transformed(self) -> Array:
        """The values as estimators see them."""
        return self.transform.forward(self.values)

    def row(self, name: str) -> Array:
        """One row's values."""
        return np.asarray(self.values[self._row(name)])

    def row_of(self, entries: Mapping[str, float]) -> Array:
        """A new row of this matrix from its known entries, the others missing."""
        row = np.full(len(self.columns), np.nan)
        for column, value in entries.items():
            row[self._column(column)] = value
        return row

    def with_entry(self, row: str, column: str, value: float) -> "Matrix":
        """Another matrix with one entry added, corrected, or (NaN) removed."""
        values = self.values.copy()
        values[self._row(row), self._column(column)] = value
        return replace(self, values=values)

    def with_column(self, name: str, entries: Mapping[str, float]) -> "Matrix":
        """Another matrix with one more column, known for the named rows."""
        column = np.full((len(self.rows), 1), np.nan)
        for row, value in entries.items():
            column[self._row(row)] = value
        return replace(self, columns=(*self.columns, name), values=np.hstack([self.values, column]))

    def with_row(self, name: str, group: str, row: Array) -> "Matrix":
        """Another matrix with one more row."""
        return replace(
            self,
            rows=(*self.rows, name),
            groups=(*self.groups, group),
            values=np.vstack([self.values, row]),
        )

    def take(self, rows: NDArray[np.intp]) -> "Matrix":
        """These rows only."""
        return replace(
            self,
            rows=tuple(self.rows[i] for i in rows),
            groups=tuple(self.groups[i] for i in rows),
            values=self.values[rows],
        )

    def without_columns(self, names: frozenset[str]) -> "Matrix":
        """All columns but these."""
        kept = [j for j, name in enumerate(self.columns) if name not in names]
        return replace(
            self, columns=tuple(self.columns[j] for j in kept), values=self.values[:, kept]
        )

    def _row(self, name: str) -> int:
        return _place(self._rows, "row", name)

    def _column(self, name: str) -> int:
        return _place(self._columns, "column", name)


def _place(places: Mapping[str, int], kind: str, name: str) -> int:
    if name not in places:
        raise NotFound(f"the matrix has no {kind} {name!r}")
    return places[name]


def _places(kind: str, names: tuple[str, ...]) -> dict[str, int]:
    if not names:
        raise InvalidInput(f"the matrix has no {kind}; give at least one")
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise InvalidInput(f"{kind} {name!r} appears twice; give each its own name")
        places[name] = place
    return places
