"""What a policy reads: the cluster as columns, frozen for the length of one call.

The manager keeps the columns up to date in place, so a view costs nothing to make and must
not be kept: it is valid until the policy returns.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.allocation import Allocation
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.workload import Workload

if TYPE_CHECKING:  # The seam's protocols are about views.
    from wharfinger.core.seams.contention import ContentionTable


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do; a policy never plans what it can't.

    Attributes:
        max_servers_per_workload: How far one workload may be spread, at its start and later.
        fractional_cpu: Allocations in thousandths; else whole CPUs.
        resize: An allocation may change while the workload runs.
        suspend: A workload may be suspended and resumed.
        memory_limit: A workload can't take more memory than it was given.
        measures: It reads how workloads perform when it is asked to.
        profiles: It runs copies of workloads whose effects are thrown away.
    """

    max_servers_per_workload: int = 1
    fractional_cpu: bool = True
    resize: bool = True
    suspend: bool = True
    memory_limit: bool = True
    measures: bool = False
    profiles: bool = False


@dataclass(frozen=True, slots=True)
class Occupant:
    """A workload that holds resources on a server, as placements see it.

    Attributes:
        name: The workload's.
        priority: As its user stated it.
        best_effort: It has no claim on CPU time.
        stoppable: It runs, and may be started again: it can be preempted now.
        allocation: What it holds on this server.
    """

    name: str
    priority: int
    best_effort: bool
    stoppable: bool
    allocation: Allocation


class ServersByLoad(Protocol):
    """Answers what else takes a pass over all servers, in time that hardly grows with them."""

    def least_loaded(
        self, cpu: int, memory: int, keep: int, excluded: AbstractSet[int] = ...
    ) -> tuple[list[int], list[float]]:
        """Rows of the servers with room, least loaded first, and their loads of CPU then.

        As ``wharfinger.native.least_loaded`` has it, without the ``excluded`` rows.
        """

    def freest(self, cpu: int, memory: int) -> int:
        """Row of the accepting server with the most CPU free, of those so large when empty.

        The first of equal ones; -1 where there is none.
        """


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster, one row a server, in the order in which the servers joined.

    Attributes:
        names: Servers' names, length S.
        cpu_capacity: (S,) thousandths of a CPU that may be allocated.
        cpu_allocated: (S,) of it, what is promised to placed and running workloads.
        memory_capacity: (S,) bytes.
        memory_allocated: (S,) bytes.
        accepting: (S,) 1 where new work may be placed.
        residents: (S,) number of workloads placed there.
        copies: (S,) number of profiling copies that run there.
        unsettled: (S,) 1 where a resident runs off its prediction: no new work until it does not.
        platform: (S,) index in ``platforms`` of each server's.
        platforms: Names of all platforms that there are or were.
        capabilities: What the engine can do.
        loads: The servers by load; ``None`` = only the columns tell. What it says, they do.
        versions: (S,) counts what has changed about each server; ``None`` = not kept.
        index: What the placement has asked the core to keep for it; ``None`` = nothing.
        rows: Row of each server by its name; ``None`` = only ``names`` tells.
        contention: How residents slow one another, and would slow a newcomer; ``None`` = nothing
            is kept of that.
        occupants: What holds resources on a server, by its name; ``None`` = only counts are known.
    """

    names: Sequence[str]
    cpu_capacity: NDArray[np.int64]
    cpu_allocated: NDArray[np.int64]
    memory_capacity: NDArray[np.int64]
    memory_allocated: NDArray[np.int64]
    accepting: NDArray[np.uint8]
    residents: NDArray[np.int64]
    copies: NDArray[np.int64]
    unsettled: NDArray[np.uint8]
    platform: NDArray[np.int64]
    platforms: Sequence[str]
    capabilities: Capabilities
    loads: ServersByLoad | None = None
    rows: Mapping[str, int] | None = None
    versions: NDArray[np.int64] | None = None
    index: Any = None
    contention: "ContentionTable | None" = None
    occupants: Callable[[str], Sequence[Occupant]] | None = None

    def row(self, server: str) -> int:
        """The row of a server that there is.

        Raises:
            LookupError: There is no server of that name.
        """
        return list(self.names).index(server) if self.rows is None else self.rows[server]

    def snapshot(self) -> "ClusterView":
        """A copy that stays as it is, for a decision that is made elsewhere.

        It has neither the index by load nor the placement's own, nor names of occupants: these
        follow the cluster.
        """
        columns: dict[str, Any] = {}
        for column in fields(self):
            value = getattr(self, column.name)
            if isinstance(value, np.ndarray):
                columns[column.name] = value.copy()
                columns[column.name].flags.writeable = False
        names = tuple(self.names)
        rows = {name: row for row, name in enumerate(names)}
        return replace(
            self,
            **columns,
            names=names,
            rows=rows,
            loads=None,
            index=None,
            occupants=None,
            contention=deepcopy(self.contention),
        )


@dataclass(frozen=True, slots=True)
class OffTarget:
    """How far a running workload is from its target, steadily.

    Attributes:
        pace: Performance over target; 1 = exactly kept.
        for_seconds: How long it has been on this side of its target.
        cpu_seconds_per_second: CPU time that it uses; ``None`` = not measured.
        estimated: The performance is what it could reach under more load: its CPU is idle.
    """

    pace: float
    for_seconds: float
    cpu_seconds_per_second: float | None
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What a policy is asked: a place for this workload.

    Attributes:
        workload: As the user stated it.
        excluded: Indices of servers that failed to start it.
        off_target: Of a running workload, when its target has been missed, or kept with more
            than enough to spare, for long enough to act on; else ``None``.
        classification: What it needs, as an estimator said; ``None`` = not known.
        waited_seconds: Since it was handed in.
        load: Of a running workload, under a policy that follows load: CPU time that it uses over
            what it was given, on all its servers together. ``None`` = it is asked for another
            reason.
        measurements: By which it was classified; ``None`` = nothing was measured.
        note: What this placement has noted last; empty = nothing yet.
        now: Seconds since the epoch.
    """

    workload: Workload
    excluded: frozenset[int] = frozenset()
    off_target: OffTarget | None = None
    classification: Classification | None = None
    waited_seconds: float = 0.0
    load: float | None = None
    measurements: Measurements | None = None
    note: str = ""
    now: float = 0.0

    def reserved(self, capabilities: Capabilities) -> Allocation:
        """The allocation that a policy gives which does not size by target.

        Best-effort work has no claim on CPU time; engines without fractional CPUs round up.
        """
        reservation = self.workload.reservation
        cpu = 0 if self.workload.best_effort else reservation.cpu_millicpus
        if not capabilities.fractional_cpu:
            cpu = -(-cpu // 1000) * 1000
        return Allocation(cpu, reservation.memory_bytes, best_effort=self.workload.best_effort)
