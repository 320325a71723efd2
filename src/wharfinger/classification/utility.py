"""Utility matrices: what is known of workloads, entry by entry, with where it comes from and when.

One for each classification (Quasar 3.2): rows are workloads, columns are what was varied. A
classifier learns from ``UtilityMatrix.known_to``, a plain ``Matrix`` of what was measured; the
origin and the age of each entry stay here. Frozen: every change gives another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf, sqrt

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.matrix import Matrix, RowScale, Transform
from wharfinger.model.configuration import Configuration
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry, Origin
from wharfinger.model.workload import WorkloadType

MIN_PROGRAMS = 8
"""With fewer programs of its type a workload is classified by those of all types."""
RUNNING_HALF_LIFE_SECONDS = 60.0
"""Of a running workload's own measurements: its load changes within minutes."""
MATRIX_HALF_LIFE_SECONDS = 30 * 86400.0
"""Of what is kept in a matrix from run to run: programs change by their versions."""
MIN_ENTRY_ERROR = {Transform.LOG: 0.01, Transform.IDENTITY: 1.0}
"""No number is surer than this, however often it was measured: a share, and points."""
MEASURED = frozenset({Origin.OFFLINE, Origin.PROFILED, Origin.OBSERVED})


class Aspect(StrEnum):
    """What is classified (Quasar 3.2), each by a matrix of its own."""

    SCALE_UP = "scale-up"
    """Performance by configuration: what it gets of one server, and its framework's parameters."""
    SCALE_OUT = "scale-out"
    """Performance by number of servers."""
    HETEROGENEITY = "heterogeneity"
    """Performance by platform."""
    TOLERATED = "tolerated"
    """Interference that it bears, by source, 0-100."""
    CAUSED = "caused"
    """Interference that it exerts, by source, 0-100."""

    @property
    def is_score(self) -> bool:
        """Points, and not a performance."""
        return self in (Aspect.TOLERATED, Aspect.CAUSED)

    @property
    def transform(self) -> Transform:
        """How estimators see its values."""
        return Transform.IDENTITY if self.is_score else Transform.LOG

    @property
    def scale(self) -> RowScale:
        """What a row's level says: how fast a program is says nothing of how it gains."""
        return RowScale.NORMALISED if self.is_score else RowScale.ARBITRARY


@dataclass(frozen=True, slots=True)
class UtilityRow:
    """One workload: the program that it is a run of, its type (``None`` = any), its entries.

    ``used`` is the CPUs that it kept busy with each configuration, as far as that was measured.
    """

    group: str
    type: WorkloadType | None = None
    entries: Mapping[str, Entry] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)

    @property
    def measured(self) -> dict[str, Entry]:
        """Those that were measured; predictions are not."""
        return {column: e for column, e in self.entries.items() if e.origin in MEASURED}


@dataclass(frozen=True, slots=True, eq=False)
class UtilityMatrix:
    """What is known for one classification: rows by workload; the columns are what was varied.

    After ``half_life_seconds`` an entry counts half against a newer one (``corrected``).
    """

    kind: Aspect
    columns: tuple[str, ...]
    rows: Mapping[str, UtilityRow]
    half_life_seconds: float = MATRIX_HALF_LIFE_SECONDS

    @classmethod
    def of(
        cls,
        kind: Aspect,
        rows: Mapping[str, Mapping[str, float | Entry]],
        groups: Mapping[str, str] | None = None,
        error: float = 0.0,
        used: Mapping[str, Mapping[str, float]] | None = None,
    ) -> "UtilityMatrix":
        """Of what was measured offline; a plain number has this error.

        ``groups`` has the program of each row; ``None`` = each its own. ``used`` has the CPUs that
        each kept busy, by configuration.
        """
        columns = dict.fromkeys(column for row in rows.values() for column in row)
        made = {}
        for name, row in rows.items():
            entries = {c: e if isinstance(e, Entry) else Entry(e, error) for c, e in row.items()}
            offline = {column: replace(e, origin=Origin.OFFLINE) for column, e in entries.items()}
            group, busy = (groups or {}).get(name, name), (used or {}).get(name, {})
            made[name] = UtilityRow(group, None, offline, busy)
        return cls(kind, tuple(columns), made)

    def rows_for(self, type_: WorkloadType | None) -> dict[str, UtilityRow]:
        """The measured rows that a workload of a type (``None`` = any) is classified by.

        Those of its type, where they are enough.
        """
        rows = {name: row for name, row in self.rows.items() if row.measured}
        alike = {name: row for name, row in rows.items() if row.type in (None, type_)}
        # A row of few entries tells too little to do without the others.
        well = {r.group for r in alike.values() if 2 * len(r.measured) >= len(self.columns)}
        return alike if type_ is not None and len(well) >= MIN_PROGRAMS else rows

    def known_to(self, type_: WorkloadType | None) -> Matrix | None:
        """``rows_for`` as a matrix; ``None`` where there is no row at all."""
        rows = self.rows_for(type_)
        if not rows:
            return None
        values = np.full((len(rows), len(self.columns)), np.nan)
        at = {column: j for j, column in enumerate(self.columns)}
        for i, row in enumerate(rows.values()):
            for column, entry in row.measured.items():
                values[i, at[column]] = entry.value
        groups = tuple(row.group for row in rows.values())
        return Matrix(tuple(rows), self.columns, groups, values, self.kind.transform)

    def with_row(self, name: str, row: UtilityRow) -> "UtilityMatrix":
        """Another, with one more workload or with another in its place; new columns come last."""
        self.check(row.entries.items())
        columns = (*self.columns, *(c for c in row.entries if c not in self.columns))
        return replace(self, columns=columns, rows={**self.rows, name: row})

    def check(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Whether all are columns and values of this classification.

        Raises:
            InvalidInput: One is not.
        """
        for column, entry in entries:
            problem = _problem(self.kind, entry) or _column_problem(self.kind, column)
            if problem:
                raise InvalidInput(f"{self.kind}, column {column!r}: {problem}")


def _column_problem(kind: Aspect, column: str) -> str:
    if kind is Aspect.SCALE_UP:
        try:
            Configuration.parse(column)
        except InvalidInput as error:
            return str(error)
    is_count = column.isascii() and column.isdecimal() and int(column) > 0
    if kind is Aspect.SCALE_OUT and not is_count:
        return "a column is a number of servers"
    if kind.is_score and column not in set(SharedResource):
        return "that is no source of interference"
    return ""


def _problem(kind: Aspect, entry: Entry) -> str:
    if kind.is_score and not 0 <= entry.value <= 100:
        return f"{entry.value:g}: interference is from 0 to 100"
    if not kind.is_score and not 0 < entry.value < inf:
        return f"{entry.value:g}: a performance is above 0; leave out what was not measured"
    return "" if entry.error >= 0 else f"error {entry.error:g}: none is below 0"


def corrected(
    old: Entry | None, new: Entry, transform: Transform, half_life_seconds: float
) -> Entry:
    """What is known after a new measurement; a prediction never replaces a measurement.

    With ``Transform.LOG`` values are above zero with relative errors; else they are points.

    >>> steady = Entry(10.0, 0.02, measured_at=0.0)
    >>> now = Entry(12.0, 0.02, origin=Origin.OBSERVED, measured_at=60.0)
    >>> for half_life_seconds in (1e9, 60.0, 1.0):
    ...     now_known = corrected(steady, now, Transform.LOG, half_life_seconds)
    ...     print(round(now_known.value, 2), round(now_known.error, 3), now_known.origin)
    10.95 0.014 observed
    11.29 0.016 observed
    12.0 0.02 observed
    """
    if old is None or old.origin not in MEASURED:
        return new
    if new.origin not in MEASURED:
        return old
    if new.censored or old.censored:
        # A lower bound says nothing of one that is already known to lie above it.
        return old if new.censored and new.value <= old.value else new
    least, remaining = MIN_ENTRY_ERROR[transform], 1.0
    if old.measured_at is not None and new.measured_at is not None:
        half_lives = max(0.0, new.measured_at - old.measured_at) / half_life_seconds
        remaining = 2.0 ** -min(half_lives, 1000.0)
    old_weight = remaining / max(old.error, least) ** 2
    new_weight = 1 / max(new.error, least) ** 2
    share = new_weight / (old_weight + new_weight)
    if transform is Transform.IDENTITY:
        value = (1 - share) * old.value + share * new.value
        # Rounded, a mean of equals may lie beyond them: a score of 100 beyond the scale.
        value = min(max(value, min(old.value, new.value)), max(old.value, new.value))
    else:
        value = old.value * (new.value / old.value) ** share
    error = max(least, 1 / sqrt(old_weight + new_weight))
    return Entry(float(value), error, new.censored, new.origin, new.measured_at)
