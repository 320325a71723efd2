"""Measured tables: how fast workloads ran alone, in pairs, in groups, on several servers.

docs/scenarios.md has the files and their columns. Performance is in one unit per workload, higher
is better, 0 = it does not fit; what was not measured is absent. ``measured`` makes a ground truth
of them.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import TableLine, read_table
from wharfinger.manifest.kinds import closest
from wharfinger.model.units import quoted

ISOLATED, PAIRS = "isolated.csv", "pairs.csv"
SCALE_OUT, GROUPS = "scale_out.csv", "groups.csv"

_JOINED = " + "  # between the names of a group
_MAX_SCALE = 100_000

Pair = tuple[str, str, str]  # platform, workload, its co-runner
Group = tuple[str, str, tuple[str, ...]]  # platform, workload, co-runners by name

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tables:
    """Performance as it was measured, in the order of the files.

    ``isolated`` is alone on one server, ``pairs`` with one co-runner, ``groups`` with several;
    ``scale_out`` is that of several servers together.
    """

    directory: Path
    workloads: tuple[str, ...]
    platforms: tuple[str, ...]
    isolated: dict[tuple[str, str], float]
    pairs: dict[Pair, float]
    scale_out: dict[tuple[str, str, int], float]
    groups: dict[Group, float]


def read_tables(directory: Path) -> Tables:
    """The tables in a directory.

    Raises:
        InvalidInput: One is missing, empty or wrong: file, line, column, value, mend.
    """
    if not directory.is_dir():
        words = "is not a directory" if directory.exists() else "is not there"
        raise InvalidInput(f"{directory}: {words}; name one that holds {ISOLATED} and {PAIRS}")
    isolated = _read(directory / ISOLATED, ("workload", "platform"), _isolated_key)
    names, beside = _Names(isolated), ("platform", "workload", "beside")
    return Tables(
        directory,
        tuple(dict.fromkeys(workload for workload, _ in isolated)),
        tuple(dict.fromkeys(platform for _, platform in isolated)),
        isolated,
        _read(directory / PAIRS, beside, names.pair, names.within),
        _read(directory / SCALE_OUT, ("workload", "platform", "scale"), names.scale, optional=True),
        _read(directory / GROUPS, beside, names.group, names.within, optional=True),
    )


def _isolated_key(line: TableLine) -> tuple[str, str]:
    workload = line.text("workload")
    if _JOINED in workload:
        raise line.wrong("workload", f"holds {_JOINED!r}, which joins names", "write another name")
    return workload, line.text("platform")


class _Names:
    """Reads the keys of the other tables, whose names must stand in ``isolated.csv``."""

    def __init__(self, isolated: dict[tuple[str, str], float]) -> None:
        self._isolated = isolated
        self._workloads = {workload for workload, _ in isolated}

    def pair(self, line: TableLine) -> Pair:
        workload, platform = self._alone(line)
        return platform, workload, self._known(line, line.text("beside"))

    def group(self, line: TableLine) -> Group:
        workload, platform = self._alone(line)
        others = tuple(sorted(line.text("beside").split(_JOINED)))
        for other in others:
            self._known(line, other)
        return platform, workload, others

    def scale(self, line: TableLine) -> tuple[str, str, int]:
        scale = line.number_of("scale")
        if not 1 <= scale <= _MAX_SCALE or scale != int(scale):
            raise line.wrong("scale", "is not a number of servers", "write a whole one, e.g. 4")
        return *self._alone(line), int(scale)

    def within(self, line: TableLine, key: Pair | Group, performance: float) -> None:
        platform, workload, _ = key
        if performance and not self._isolated[workload, platform]:
            raise line.wrong("performance", f"though {ISOLATED} has 0 alone", "mend one of the two")

    def _alone(self, line: TableLine) -> tuple[str, str]:
        key = self._known(line, line.text("workload"), "workload"), line.text("platform")
        if key not in self._isolated:
            words = f"was not measured alone on {key[1]!r}"
            raise line.wrong("workload", words, f"add its line to {ISOLATED}")
        return key

    def _known(self, line: TableLine, name: str, column: str = "beside") -> str:
        if name in self._workloads:
            return name
        near = closest(name, list(self._workloads))
        mend = f"did you mean {near}?" if near else f"add its line to {ISOLATED}"
        raise line.wrong(column, f"names {quoted(name)}, which is not in {ISOLATED}", mend)


def _read(
    path: Path,
    columns: tuple[str, ...],
    key: Callable[[TableLine], K],
    check: Callable[[TableLine, K, float], None] | None = None,
    *,
    optional: bool = False,
) -> dict[K, float]:
    if optional and not path.exists():
        return {}
    values: dict[K, float] = {}
    first: dict[K, int] = {}
    for line in read_table(path, (*columns, "performance")):
        name, performance = key(line), line.number_of("performance")
        if values.setdefault(name, performance) != performance:
            words = f"contradicts line {first[name]}, {values[name]:g}"
            raise line.wrong("performance", words, "remove one")
        first.setdefault(name, line.number)
        if check is not None:
            check(line, name, performance)
    if not values:
        raise InvalidInput(f"{path}: no line follows the header; give at least one")
    return values
