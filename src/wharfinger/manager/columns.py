"""The servers as columns of numbers, kept up to date in place: what policies scan."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.allocation import Placement
from wharfinger.model.platform import Server
from wharfinger.model.view import Capabilities, ClusterView

CPU_CAPACITY, CPU_ALLOCATED, MEMORY_CAPACITY, MEMORY_ALLOCATED, RESIDENTS = range(5)


def _frozen(column: NDArray[np.int64]) -> NDArray[np.int64]:
    column.flags.writeable = False
    return column


class Columns:
    """One row a server. A departed server keeps its row until nothing is left on it.

    The arrays grow by doubling, so that a hundred thousand servers can join one by one.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._row: dict[str, int] = {}
        self._numbers = np.zeros((5, 16), dtype=np.int64)
        self._accepting = np.zeros(16, dtype=np.uint8)

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
            self.drop(server.name)
            row = self._append(server.name)
            self._numbers[:, row] = left
        if row is None:
            row = self._append(server.name)
        self._numbers[CPU_CAPACITY, row] = server.cpu_millicpus
        self._numbers[MEMORY_CAPACITY, row] = server.memory_bytes
        self._accepting[row] = server.accepting

    def close(self, name: str) -> None:
        """A server is gone: nothing more is placed there, and its row goes when it is empty."""
        row = self._row[name]
        self._numbers[CPU_CAPACITY, row] = self._numbers[MEMORY_CAPACITY, row] = 0
        self._accepting[row] = 0

    def residents(self, name: str) -> int:
        """How many workloads hold resources on a server."""
        return int(self._numbers[RESIDENTS, self._row[name]])

    def drop(self, name: str) -> None:
        """Remove a row, moving those behind it up so that the order of joining stays."""
        row = self._row.pop(name)
        del self._names[row]
        self._numbers[:, row:-1] = self._numbers[:, row + 1 :]
        self._accepting[row:-1] = self._accepting[row + 1 :]
        self._numbers[:, -1] = self._accepting[-1] = 0
        self._row = {name: row for row, name in enumerate(self._names)}

    def hold(self, placements: Iterable[Placement], *, sign: int = 1) -> None:
        """Add (or with ``sign`` -1 take away) what placements hold on their servers."""
        for placement in placements:
            row = self._row[placement.server]
            self._numbers[CPU_ALLOCATED, row] += sign * placement.allocation.cpu_millicpus
            self._numbers[MEMORY_ALLOCATED, row] += sign * placement.allocation.memory_bytes
            self._numbers[RESIDENTS, row] += sign

    def view(self, last_placed: str, capabilities: Capabilities) -> ClusterView:
        """The columns as a policy sees them: the same memory, not writable."""
        count = len(self._names)
        columns = [_frozen(column[:count]) for column in self._numbers]
        accepting = self._accepting[:count]
        accepting.flags.writeable = False
        return ClusterView(
            names=self._names,
            cpu_capacity=columns[CPU_CAPACITY],
            cpu_allocated=columns[CPU_ALLOCATED],
            memory_capacity=columns[MEMORY_CAPACITY],
            memory_allocated=columns[MEMORY_ALLOCATED],
            accepting=accepting,
            residents=columns[RESIDENTS],
            last_placed=self.row(last_placed),
            capabilities=capabilities,
        )

    def _append(self, name: str) -> int:
        row = self._row[name] = len(self._names)
        self._names.append(name)
        if row == len(self._accepting):
            self._numbers = np.concatenate((self._numbers, np.zeros_like(self._numbers)), axis=1)
            self._accepting = np.concatenate((self._accepting, np.zeros_like(self._accepting)))
        return row
