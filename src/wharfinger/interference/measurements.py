"""Measured sets of neighbors, by service: what every model is fitted to.

A row is one run: a service beside a set of neighbors, and its performance relative to alone, or the
contention that was read off a curve. ``ContentionMeasurements.of`` arranges rows, and refuses those
that contradict each other.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import InvalidInput
from wharfinger.interference.bubble import (
    MAX_DROP,
    ContentionScale,
    ExcessTime,
    Given,
    SensitivityCurve,
    first_rise,
)
from wharfinger.model.arrays import Array
from wharfinger.model.units import format_bytes

Members = NDArray[np.intp]
"""(sets, degree) places of neighbors among a service's names, each row sorted."""
Problem = Callable[[str, str, int], InvalidInput]
"""Makes an error of words, mend and line number."""
DEFAULT_ERROR = 0.005
"""Of a performance whose error nobody stated, relative."""
MIN_ERROR = 1e-6
"""Of a drop: nothing is measured better."""
_CONTRADICTION = 5.0
"""Deviations between two runs of one set."""


@dataclass(frozen=True, slots=True, order=True)
class ContentionSetting:
    """What one model is of: a service, on a platform, at a class of load or input."""

    service: str
    platform: str = ""
    load_class: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.platform, self.service, self.load_class)))


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """One run.

    Attributes:
        neighbors: Sorted; a name may repeat. Empty for a bubble.
        value: Performance relative to alone, or contention.
        error: Standard error of ``value``; ``None`` = not stated.
        bubble_bytes: Of the bubble that ran instead of neighbors; 0 = none.
        is_contention: What ``value`` is.
        line: For messages.
    """

    setting: ContentionSetting
    neighbors: tuple[str, ...]
    value: float
    error: float | None = None
    bubble_bytes: float = 0.0
    is_contention: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SetTable:
    """Sets of one degree.

    Attributes:
        members: (n, degree).
        drops: (n,) minus the logarithm of performance, or contention in the scale's drops.
        errors: (n,) standard errors of the drops.
    """

    members: Members
    drops: Array
    errors: Array

    def take(self, places: NDArray[np.intp]) -> "SetTable":
        """Some of them."""
        return SetTable(self.members[places], self.drops[places], self.errors[places])

    def __len__(self) -> int:
        return len(self.drops)


@dataclass(frozen=True, slots=True, eq=False)
class ServiceSets:
    """All that was measured of one setting.

    Attributes:
        names: Of neighbors, sorted.
        single: (names,) drop beside each alone; NaN = unknown.
        single_errors: (names,) standard errors.
        sets: By degree, from 2.
        scale: Of contention.
        measured: (names,) whether the single was measured, or completed from others.
    """

    setting: ContentionSetting
    names: tuple[str, ...]
    single: Array
    single_errors: Array
    sets: Mapping[int, SetTable]
    scale: ContentionScale
    measured: NDArray[np.bool_]

    def sampled(
        self, share: float, rng: np.random.Generator
    ) -> tuple["ServiceSets", "ServiceSets"]:
        """A random share of each degree's sets, one at least; and the others."""
        taken, left = {}, {}
        for degree, table in self.sets.items():
            order = rng.permutation(len(table))
            size = max(1, round(share * len(table)))
            taken[degree], left[degree] = table.take(order[:size]), table.take(order[size:])
        return replace(self, sets=taken), replace(self, sets=left)


@dataclass(frozen=True, slots=True, eq=False)
class ContentionMeasurements:
    """By setting, sorted."""

    services: tuple[ServiceSets, ...]

    @classmethod
    def of(
        cls, rows: Iterable[MeasuredSet], problem: Problem | None = None
    ) -> "ContentionMeasurements":
        """Arrange runs by setting.

        Raises:
            InvalidInput: Two contradict each other, a curve clearly rises, or a service has both
                performances and contentions.
        """
        groups: dict[ContentionSetting, list[MeasuredSet]] = defaultdict(list)
        for row in rows:
            groups[row.setting].append(row)
        say = problem or _plain
        return cls(tuple(_arranged(one, groups[one], say) for one in sorted(groups)))

    @property
    def degrees(self) -> tuple[int, ...]:
        """Those of measured sets."""
        return tuple(sorted({degree for each in self.services for degree in each.sets}))

    def sampled(
        self, share: float, rng: np.random.Generator
    ) -> tuple["ContentionMeasurements", "ContentionMeasurements"]:
        """A random share of each setting's and degree's sets, and the others."""
        both = [each.sampled(share, rng) for each in self.services]
        return ContentionMeasurements(tuple(s for s, _ in both)), ContentionMeasurements(
            tuple(o for _, o in both)
        )


def _plain(words: str, mend: str, line: int) -> InvalidInput:
    return InvalidInput(f"line {line}: {words}; {mend}")


def _arranged(
    setting: ContentionSetting, rows: Sequence[MeasuredSet], problem: Problem
) -> ServiceSets:
    kinds = {row.is_contention: row for row in rows}
    if len(kinds) > 1:
        later = max(kinds.values(), key=lambda row: row.line)
        raise problem(
            f"{setting} has both performance and contention",
            "write one of the two for all rows of a service",
            later.line,
        )
    merged = _merged(rows, problem)
    bubbles = [row for row in merged if row.bubble_bytes]
    sets = [row for row in merged if row.neighbors]
    names = tuple(sorted({name for row in sets for name in row.neighbors}))
    scale = _scale(setting, sets, bubbles, problem)
    place = {name: at for at, name in enumerate(names)}
    single, single_errors = np.full((2, len(names)), np.nan)
    by_degree: dict[int, list[MeasuredSet]] = defaultdict(list)
    for row in sets:
        by_degree[len(row.neighbors)].append(row)
    for row in by_degree.pop(1, []):
        at = place[row.neighbors[0]]
        single[at], single_errors[at] = _drop(row, scale)
    return ServiceSets(
        setting,
        names,
        single,
        single_errors,
        {degree: _table(by_degree[degree], place, scale) for degree in sorted(by_degree)},
        scale,
        ~np.isnan(single),
    )


def _table(
    rows: Sequence[MeasuredSet], place: Mapping[str, int], scale: ContentionScale
) -> SetTable:
    members = np.array([[place[name] for name in row.neighbors] for row in rows], dtype=np.intp)
    drops, errors = np.array([_drop(row, scale) for row in rows]).T
    return SetTable(members, drops, errors)


def _drop(row: MeasuredSet, scale: ContentionScale) -> tuple[float, float]:
    """With its standard error."""
    if isinstance(scale, Given):
        error = DEFAULT_ERROR * row.value if row.error is None else row.error
        return row.value / scale.scale, max(error / scale.scale, MIN_ERROR)
    kept = max(row.value, float(np.exp(-MAX_DROP)))
    error = DEFAULT_ERROR if row.error is None else row.error / kept
    return -float(np.log(kept)), min(max(error, MIN_ERROR), MAX_DROP)


def _scale(
    setting: ContentionSetting,
    sets: Sequence[MeasuredSet],
    bubbles: Sequence[MeasuredSet],
    problem: Problem,
) -> ContentionScale:
    if any(row.is_contention for row in (*sets, *bubbles)):
        if bubbles:
            raise problem(
                f"{setting}: the contention of a bubble is its size",
                "write the performance of every row, or leave the bubbles out",
                bubbles[0].line,
            )
        single = [row.value for row in sets if len(row.neighbors) == 1 and row.value > 0]
        return Given(10 * float(np.median(single)) if single else 1.0)
    if not bubbles:
        return ExcessTime()
    bubbles = sorted(bubbles, key=lambda row: row.bubble_bytes)
    levels = [row.value for row in bubbles]
    errors = [DEFAULT_ERROR if row.error is None else row.error for row in bubbles]
    if rise := first_rise(np.minimum(levels, 1.0), np.array(errors)):
        low, high = (bubbles[at] for at in rise)
        raise problem(
            f"{setting}: a bubble of {_size(high)} leaves {high.value:g}, but a "
            f"smaller one of {_size(low)} (line {low.line}) only {low.value:g}",
            "measure both again, or state their errors",
            high.line,
        )
    return SensitivityCurve.of([row.bubble_bytes for row in bubbles], levels, errors)


def _merged(rows: Sequence[MeasuredSet], problem: Problem) -> list[MeasuredSet]:
    """Runs of one set become their weighted mean."""
    groups: dict[tuple[tuple[str, ...], float], list[MeasuredSet]] = defaultdict(list)
    for row in rows:
        groups[row.neighbors, row.bubble_bytes].append(row)
    return [_mean(each, problem) for each in groups.values()]


def _mean(rows: Sequence[MeasuredSet], problem: Problem) -> MeasuredSet:
    first = rows[0]
    if len(rows) == 1:
        return first
    values = np.array([row.value for row in rows])
    stated = [
        DEFAULT_ERROR * max(row.value, 1e-3) if row.error is None else row.error for row in rows
    ]
    errors = np.maximum(stated, 1e-9)
    for row, value, error in zip(rows[1:], values[1:], errors[1:], strict=True):
        allowed = max(_CONTRADICTION * float(np.hypot(error, errors[0])), 0.1 * values[0])
        if abs(value - values[0]) > allowed:
            what = "+".join(row.neighbors) or f"a bubble of {_size(row)}"
            raise problem(
                f"{row.setting} beside {what} has {value:g}, and {values[0]:g} in line "
                f"{first.line}",
                "remove the wrong one, or state their errors",
                row.line,
            )
    weights = 1 / errors**2
    mean = float(np.average(values, weights=weights))
    return replace(first, value=mean, error=float(np.sqrt(1 / weights.sum())))


def _size(row: MeasuredSet) -> str:
    return format_bytes(int(row.bubble_bytes))
