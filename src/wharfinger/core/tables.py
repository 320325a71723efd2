"""The servers as columns of numbers, kept up to date in place: what policies scan."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import ContentionTable
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.model.allocation import Placement
from wharfinger.model.platform import Server
from wharfinger.model.view import Capabilities, ClusterView, Occupant
from wharfinger.native import LoadIndex

CPU_CAPACITY, CPU_ALLOCATED, MEMORY_CAPACITY, MEMORY_ALLOCATED, RESIDENTS, COPIES = range(6)
PLATFORM = 6
NUMBERS = 7
_Number = TypeVar("_Number", bound=np.generic)


def _frozen(columns: NDArray[_Number]) -> NDArray[_Number]:
    columns.flags.writeable = False
    return columns


class ServerTable:
    """One row a server. A departed server keeps its row until nothing is left on it.

    The arrays grow by doubling, so that a hundred thousand servers can join one by one. A view is
    of the same memory, so it is rebuilt only when rows come or go; and what nothing but a pass
    over all rows would tell is kept beside them: which servers are unsettled, the load index.

    Args:
        contention: What views carry of that; rows as here.
        index: What the placement keeps; it is told which rows have changed.
        occupants: Tells views what is on a server.
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
        self._numbers = np.zeros((NUMBERS, 16), dtype=np.int64)
        self._accepting = np.zeros(16, dtype=np.uint8)
        self._unsettled = np.zeros(16, dtype=np.uint8)
        self._versions = np.zeros(16, dtype=np.int64)
        self._unsettled_names: set[str] = set()
        self._loads = LoadIndex()
        self._shown: dict[str, Any] | None = None
        self._view: ClusterView | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._row

    def row(self, name: str) -> int:
        """The row of a server; -1 where there is none."""
        return self._row.get(name, -1)

    def put(self, server: Server, *, joins: bool = False) -> None:
        """Add a server, or take over what has changed about it.

        One that ``joins`` goes to the end with what is left on it from before: so the order is
        the state's, and the same after a replay from a snapshot.
        """
        row = self._row.get(server.name)
        if row is not None and joins:
            left = self._numbers[:, row].copy()
            unsettled = self.is_unsettled(server.name)
            self.drop(server.name)
            row = self._append(server.name)
            self._numbers[:, row] = left
            self.unsettle(server.name, unsettled=unsettled)
        if row is None:
            row = self._append(server.name)
        self._touch(row)
        self._numbers[CPU_CAPACITY, row] = server.cpu_millicpus
        self._numbers[MEMORY_CAPACITY, row] = server.memory_bytes
        self._accepting[row] = server.accepting
        if server.platform.name not in self._platforms:
            self._platforms[server.platform.name] = len(self._platforms)
            self._shown = None
        self._numbers[PLATFORM, row] = self._platforms[server.platform.name]

    def close(self, name: str) -> None:
        """A server is gone: nothing more is placed there, and its row goes when it is empty."""
        row = self._row[name]
        self._touch(row)
        self._numbers[CPU_CAPACITY, row] = self._numbers[MEMORY_CAPACITY, row] = 0
        self._accepting[row] = 0

    def residents(self, name: str) -> int:
        """How many workloads hold resources on a server."""
        return int(self._numbers[RESIDENTS, self._row[name]])

    def drop(self, name: str) -> None:
        """Remove a row, moving those behind it up so that the order of joining stays."""
        row = self._row.pop(name)
        self._loads.drop(row)
        if self._index is not None:
            self._index.drop(row)
        self._shown = None
        self._unsettled_names.discard(name)
        del self._names[row]
        self._numbers[:, row:-1] = self._numbers[:, row + 1 :]
        self._accepting[row:-1] = self._accepting[row + 1 :]
        self._numbers[:, -1] = self._accepting[-1] = 0
        self._unsettled[row:-1] = self._unsettled[row + 1 :]
        self._unsettled[-1] = 0
        self._versions[row:-1] = self._versions[row + 1 :]
        self._versions[-1] = 0
        for behind in self._names[row:]:
            self._row[behind] -= 1

    def hold(self, placements: Iterable[Placement], *, sign: int = 1) -> None:
        """Add (or with ``sign`` -1 take away) what placements hold on their servers."""
        for placement in placements:
            row = self._row[placement.server]
            self._touch(row)
            self._numbers[CPU_ALLOCATED, row] += sign * placement.allocation.cpu_millicpus
            self._numbers[MEMORY_ALLOCATED, row] += sign * placement.allocation.memory_bytes
            self._numbers[RESIDENTS, row] += sign

    def count_copy(self, server: str, change: int) -> None:
        """A profiling copy begins there (1), or has ended (-1)."""
        self.touch(server)
        self._numbers[COPIES, self._row[server]] += change

    def unsettle(self, server: str, *, unsettled: bool) -> None:
        """Whether a resident runs off its prediction."""
        self.touch(server)
        self._unsettled[self._row[server]] = unsettled
        (self._unsettled_names.add if unsettled else self._unsettled_names.discard)(server)

    def is_unsettled(self, server: str) -> bool:
        """As ``unsettle`` has said last."""
        return server in self._unsettled_names

    def unsettled(self) -> list[str]:
        """Servers of which that was said, in the order of rows."""
        return sorted(self._unsettled_names, key=self._row.__getitem__)

    def view(self, capabilities: Capabilities) -> ClusterView:
        """The columns as a policy sees them: the same memory, not writable."""
        if self._shown is None:
            self._shown, self._view = self._show(), None
        view = self._view
        if view is None or view.capabilities is not capabilities:
            view = ClusterView(**self._shown, capabilities=capabilities)
            self._view = view
        return view

    def _show(self) -> dict[str, Any]:
        """What of a view stays the same until rows come or go."""
        count = len(self._names)
        columns = [_frozen(column[:count]) for column in self._numbers]
        return {
            "names": self._names,
            "cpu_capacity": columns[CPU_CAPACITY],
            "cpu_allocated": columns[CPU_ALLOCATED],
            "memory_capacity": columns[MEMORY_CAPACITY],
            "memory_allocated": columns[MEMORY_ALLOCATED],
            "accepting": _frozen(self._accepting[:count]),
            "residents": columns[RESIDENTS],
            "copies": columns[COPIES],
            "platform": columns[PLATFORM],
            "platforms": tuple(self._platforms),
            "unsettled": _frozen(self._unsettled[:count]),
            "contention": self._contention,
            "loads": self._loads,
            "versions": _frozen(self._versions[:count]),
            "index": self._index,
            "occupants": self._occupants,
            "rows": self._row,
        }

    def touch(self, server: str) -> None:
        """Something about a server changes that is not kept here: what its residents tolerate."""
        self._touch(self._row[server])

    def _touch(self, row: int) -> None:
        """Something about a server changes."""
        self._versions[row] += 1
        self._loads.touch(row)
        if self._index is not None:
            self._index.touch(row)

    def _append(self, name: str) -> int:
        row = self._row[name] = len(self._names)
        self._names.append(name)
        if row == len(self._accepting):
            self._numbers = np.concatenate((self._numbers, np.zeros_like(self._numbers)), axis=1)
            self._accepting = np.concatenate((self._accepting, np.zeros_like(self._accepting)))
            self._unsettled = np.concatenate((self._unsettled, np.zeros_like(self._unsettled)))
            self._versions = np.concatenate((self._versions, np.zeros_like(self._versions)))
        self._loads.bind(
            self._numbers[CPU_CAPACITY],
            self._numbers[CPU_ALLOCATED],
            self._numbers[MEMORY_CAPACITY],
            self._numbers[MEMORY_ALLOCATED],
            self._accepting,
            row + 1,
        )
        self._shown = None
        return row
