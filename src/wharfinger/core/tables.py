"""The servers as columns of numbers, kept up to date in place: what policies scan."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.label_columns import AllowedServers, ServerLabels
from wharfinger.core.seams.contention import ContentionTable
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.model.allocation import Placement
from wharfinger.model.arrays import frozen
from wharfinger.model.platform import Server
from wharfinger.model.requirements import Requires
from wharfinger.model.view import CPU_SIZES, Capabilities, Occupant, View, size_class
from wharfinger.native import LoadIndex

FLAGS = ("accepting", "unsettled")
COUNTS = (
    "cpu_capacity",
    "cpu_allocated",
    "cpu_real",
    "memory_capacity",
    "memory_allocated",
    "cpu_others",
    "memory_others",
    "residents",
    "copies",
    "cpu_wanted",
    "platform",
    "zone",
    "versions",
)
"""Columns; all have the names that views give them."""


class ServerTable:
    """One row per server. A departed server keeps its row until nothing is left on it.

    The arrays grow by doubling, so that servers can join one by one. A view is of the same memory:
    it is rebuilt only when servers come, go or change. The unsettled servers and the load index are
    kept too, since they would take a pass over all rows.

    Args:
        contention: Its rows are numbered as here.
        index: The placement's; it is told which rows have changed.
        occupants: Names the workloads on a server.
    """

    def __init__(
        self,
        contention: ContentionTable | None = None,
        index: ServerIndex | None = None,
        occupants: Callable[[str], Sequence[Occupant]] | None = None,
    ) -> None:
        self._contention = contention
        self._index = index
        self._occupants = occupants
        self._names: list[str] = []
        self._row: dict[str, int] = {}
        self._platforms: dict[str, int] = {}
        self._zones = {"": 0}
        self._columns: dict[str, NDArray[Any]] = {
            **{name: np.zeros(16, dtype=np.int64) for name in COUNTS},
            **{name: np.zeros(16, dtype=np.uint8) for name in FLAGS},
        }
        self._held_sizes = np.zeros(len(CPU_SIZES), dtype=np.int64)
        self._unsettled_names: set[str] = set()
        self._loads = LoadIndex()
        self._labels = ServerLabels()
        self._shown: dict[str, Any] | None = None
        self._view: View | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._row

    def name(self, row: int) -> str:
        """The server of a row."""
        return self._names[row]

    def row(self, name: str) -> int:
        """The row of a server; -1 = there is none."""
        return self._row.get(name, -1)

    def put(self, server: Server) -> None:
        """Add a server at the end, or update it where it is."""
        row, columns = self._row.get(server.name), self._columns
        if row is None:
            row = self._append(server.name)
        self._touch(row)
        columns["cpu_capacity"][row] = server.cpu_millicpus
        columns["cpu_real"][row] = server.platform.cpu_millicpus
        columns["memory_capacity"][row] = server.memory_bytes
        self._hold_for_others(row, server.others_cpu_millicpus, server.others_memory_bytes)
        columns["accepting"][row] = server.accepting
        self._shown = None
        if server.platform.name not in self._platforms:
            self._platforms[server.platform.name] = len(self._platforms)
        columns["platform"][row] = self._platforms[server.platform.name]
        columns["zone"][row] = self._zones.setdefault(server.zone, len(self._zones))
        room = len(columns["accepting"])
        self._labels.put(row, server.labels, room, accepting=server.accepting)

    def move_to_end(self, name: str) -> None:
        """Make its row the last, with all that it holds; later ones move up."""
        row = self._row[name]
        left = [{name: column[row] for name, column in each.items()} for each in self._all()]
        unsettled = self.is_unsettled(name)
        self.drop(name)
        row = self._append(name)
        for columns, values in zip(self._all(), left, strict=True):
            for column, value in values.items():
                columns[column][row] = value
        self.unsettle(name, unsettled=unsettled)

    def exchange(self, name: str, other: int) -> None:
        """Exchange its row and another one, with all that they hold."""
        row = self._row[name]
        for column in chain.from_iterable(each.values() for each in self._all()):
            column[[row, other]] = column[[other, row]]
        self._names[row], self._names[other] = self._names[other], name
        self._row[self._names[row]], self._row[name] = row, other
        self._shown = None
        self._touch(row)
        self._touch(other)

    def close(self, name: str) -> None:
        """Nothing more is placed on a server that has left; its row goes when it is empty."""
        row = self._row[name]
        self._touch(row)
        for closed in ("cpu_capacity", "memory_capacity", "accepting"):
            self._columns[closed][row] = 0
        self._hold_for_others(row, 0, 0)
        self._labels.close(row)
        self._shown = None

    def put_others(self, name: str, cpu_millicpus: int, memory_bytes: int) -> None:
        """Set what work that is not this manager's holds there; all else stays."""
        row = self._row[name]
        self._touch(row)
        self._hold_for_others(row, cpu_millicpus, memory_bytes)

    def _hold_for_others(self, row: int, cpu_millicpus: int, memory_bytes: int) -> None:
        columns = self._columns
        columns["cpu_allocated"][row] += cpu_millicpus - columns["cpu_others"][row]
        columns["memory_allocated"][row] += memory_bytes - columns["memory_others"][row]
        columns["cpu_others"][row], columns["memory_others"][row] = cpu_millicpus, memory_bytes

    def is_full(self, name: str) -> bool:
        """Whether it has no memory free, so that no workload fits there."""
        row, columns = self._row[name], self._columns
        return bool(columns["memory_allocated"][row] >= columns["memory_capacity"][row])

    def residents(self, name: str) -> int:
        """How many workloads hold resources on a server."""
        return int(self._columns["residents"][self._row[name]])

    def drop(self, name: str) -> None:
        """Remove a row; later ones move up."""
        row = self._row.pop(name)
        for loads in self._indices():
            loads.drop(row)
        if self._index is not None:
            self._index.drop(row)
        self._shown = None
        self._unsettled_names.discard(name)
        del self._names[row]
        for column in chain.from_iterable(each.values() for each in self._all()):
            column[row:-1] = column[row + 1 :]
            column[-1] = 0
        for behind in self._names[row:]:
            self._row[behind] -= 1

    def hold(self, placements: Iterable[Placement], *, sign: int = 1) -> None:
        """Add (or with ``sign`` -1 subtract) what placements hold on their servers."""
        columns = self._columns
        for placement in placements:
            row, allocation = self._row[placement.server], placement.allocation
            self._touch(row)
            columns["cpu_allocated"][row] += sign * allocation.cpu_millicpus
            columns["memory_allocated"][row] += sign * allocation.memory_bytes
            columns["residents"][row] += sign
            self._held_sizes[size_class(allocation.cpu_millicpus)] += sign

    def count_copy(self, server: str, change: int) -> None:
        """A profiling run begins there (1), or has ended (-1)."""
        self.touch(server)
        self._columns["copies"][self._row[server]] += change

    def want(self, server: str, cpu_millicpus: int) -> None:
        """Set what best-effort residents state together."""
        self._columns["cpu_wanted"][self._row[server]] = cpu_millicpus

    def unsettle(self, server: str, *, unsettled: bool) -> None:
        """Set whether a resident runs off its prediction."""
        self.touch(server)
        self._columns["unsettled"][self._row[server]] = unsettled
        (self._unsettled_names.add if unsettled else self._unsettled_names.discard)(server)

    def is_unsettled(self, server: str) -> bool:
        """As ``unsettle`` was told last."""
        return server in self._unsettled_names

    def unsettled(self) -> list[str]:
        """Names of unsettled servers, in the order of rows."""
        return sorted(self._unsettled_names, key=self._row.__getitem__)

    def view(self, capabilities: Capabilities, requires: Requires = ()) -> View:
        """The columns as a policy sees them: the same memory, not writable.

        No server accepts work but those that are allowed by what is required.
        """
        if self._shown is None:
            self._shown, self._view = self._show(), None
        view = self._view
        if view is None or view.capabilities is not capabilities:
            view = View(**self._shown, capabilities=capabilities)
            self._view = view
        return self._allowed(requires).view(view) if requires else view

    def allowed(self, requires: Requires) -> NDArray[np.uint8]:
        """(S,) 1 where a server meets what is required."""
        return frozen(self._allowed(requires).columns["allowed"][: len(self._names)])

    def _allowed(self, requires: Requires) -> AllowedServers:
        found = self._labels.find(requires)
        if found is None:
            found = self._labels.add(requires, self._columns["accepting"])
            self._bind(found.loads, found.columns["accepting"])
        return found

    def _show(self) -> dict[str, Any]:
        """The part of a view that stays the same until servers come, go or change."""
        count, columns = len(self._names), self._columns
        largest = np.zeros(len(self._platforms), dtype=np.int64)
        accepting = columns["cpu_capacity"][:count] * columns["accepting"][:count]
        np.maximum.at(largest, columns["platform"][:count], accepting)
        real, promised = columns["cpu_real"][:count], columns["cpu_capacity"][:count]
        shown = {
            **{name: frozen(column[:count]) for name, column in self._columns.items()},
            "names": self._names,
            "platforms": tuple(self._platforms),
            "contention": self._contention,
            "loads": self._loads,
            "index": self._index,
            "occupants": self._occupants,
            "rows": self._row,
            "held_sizes": frozen(self._held_sizes[:]),
            "largest": frozen(largest),
            "labels": self._labels.values,
        }
        if not ((real > 0) & (real < promised)).any():
            shown["cpu_real"] = None
        return shown

    def touch(self, server: str) -> None:
        """Something about a server changes that is not kept here, e.g. its residents' scores."""
        self._touch(self._row[server])

    def _touch(self, row: int) -> None:
        self._columns["versions"][row] += 1
        self._loads.touch(row)
        self._labels.touch(row)
        if self._index is not None:
            self._index.touch(row)

    def _append(self, name: str) -> int:
        row = self._row[name] = len(self._names)
        self._names.append(name)
        columns = self._columns
        if row == len(columns["accepting"]):
            for all_of in self._all():
                for each, column in all_of.items():
                    all_of[each] = np.concatenate((column, np.zeros_like(column)))
        self._bind(self._loads, columns["accepting"])
        for allowed in self._labels.kept():
            self._bind(allowed.loads, allowed.columns["accepting"])
        self._shown = None
        return row

    def _bind(self, loads: LoadIndex, accepting: NDArray[np.uint8]) -> None:
        columns = self._columns
        loads.bind(
            columns["cpu_capacity"],
            columns["cpu_allocated"],
            columns["memory_capacity"],
            columns["memory_allocated"],
            accepting,
            len(self._names),
        )

    def _all(self) -> Iterator[dict[str, NDArray[Any]]]:
        """All columns, those of labels too."""
        yield self._columns
        yield from self._labels.columns()

    def _indices(self) -> Iterator[LoadIndex]:
        yield self._loads
        yield from (allowed.loads for allowed in self._labels.kept())
