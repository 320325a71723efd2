"""What a policy reads: the cluster as columns, valid until the policy returns.

The manager keeps the columns up to date in place, so a view costs nothing to make.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.arrays import frozen
from wharfinger.model.decisions import Prediction, ReasonCode
from wharfinger.model.interference import SharedResource
from wharfinger.model.memory_needs import MemoryNeed
from wharfinger.model.profile import PROFILED_SOURCES, Classification, Measurements
from wharfinger.model.workload import Workload

if TYPE_CHECKING:  # The seam's protocols are about views.
    from wharfinger.core.seams.contention import ContentionTable


class Resize(StrEnum):
    """How far an engine changes the allocations of what runs; false where it does not at all."""

    NONE = "none"
    WITHIN_ALLOCATION = "within-allocation"
    """On the servers that it was started on, up to what it was given there at its start."""
    ANY = "any"
    """Also on more and fewer servers."""

    def __bool__(self) -> bool:
        """Whether anything can be changed."""
        return self is not Resize.NONE


@dataclass(frozen=True, slots=True)
class WorkloadLimits:
    """What may be done with one workload, where that is less than its engine can.

    ``max_servers`` is at its start and later; ``None`` = as many as the engine can.
    """

    resize: Resize = Resize.ANY
    suspend: bool = True
    max_servers: int | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do; a policy plans nothing else.

    Attributes:
        max_servers_per_workload: At its start and later.
        fractional_cpu: Allocations in thousandths; else whole CPUs.
        shares_cpus: Best-effort work runs on CPUs that others were given, while they leave them;
            else it takes CPUs of its own, as what a batch scheduler starts does.
        resize: Of a running workload; so with ``suspend``.
        offers: Its users hand workloads in to it, which it offers to the core; ``annotates``: it
            tells them, and they read there, what is decided.
        memory_limit: A workload can't take more memory than it was allocated.
        measures: It reads the performance of workloads when it is asked to.
        profiles: It runs copies of workloads whose effects are discarded.
        profiles_apart: It runs copies for one plan on several servers at the same time.
        probes: It reports when a workload with a readiness probe becomes ready, and stops one that
            its liveness probe finds not alive.
        probes_running: It raises sources of interference beside what runs; ``clones``: also beside
            a copy that goes on from where the workload is, on another server; ``copies_running``:
            beside one that begins anew there.
        shares_cores: Residents of a server run on the same cores: no source beside neighbors
            reaches one workload alone.
        keeps_work: What is migrated goes on where it was; else it begins anew.
        evicts: It may take workloads off their servers, or off some of them, of itself.
        quota_period_seconds: The shortest period of its quotas of CPU time, in which a program that
            has used its quota up is stopped; 0 = it has none.
        sources: Of interference, that it can inject with a signal on each of its servers; plans
            name no others.
    """

    max_servers_per_workload: int = 1
    fractional_cpu: bool = True
    resize: Resize = Resize.ANY
    suspend: bool = True
    memory_limit: bool = True
    measures: bool = False
    profiles: bool = False
    profiles_apart: bool = False
    probes: bool = False
    keeps_work: bool = False
    quota_period_seconds: float = 0.0
    probes_running: bool = False
    clones: bool = False
    copies_running: bool = False
    shares_cores: bool = False
    evicts: bool = False
    offers: bool = False
    annotates: bool = False
    shares_cpus: bool = True
    sources: tuple[SharedResource, ...] = PROFILED_SOURCES

    def within(self, limits: WorkloadLimits | None) -> "Capabilities":
        """The lesser of both; ``None`` = without limits.

        >>> Capabilities(8).within(WorkloadLimits(Resize.NONE, max_servers=2)).resize
        <Resize.NONE: 'none'>
        """
        if limits is None:
            return self
        most = self.max_servers_per_workload
        rank = list(Resize)
        return replace(
            self,
            resize=min(self.resize, limits.resize, key=rank.index),
            suspend=self.suspend and limits.suspend,
            max_servers_per_workload=min(
                most, most if limits.max_servers is None else limits.max_servers
            ),
        )


@dataclass(frozen=True, slots=True)
class Occupant:
    """What holds resources on a server; ``stoppable`` = running and restartable."""

    name: str
    priority: int
    best_effort: bool
    stoppable: bool
    allocation: Allocation


class ServersByLoad(Protocol):
    """Answers queries about all servers without a pass over them."""

    def least_loaded(
        self, cpu: int, memory: int, keep: int, excluded: AbstractSet[int] = ...
    ) -> tuple[list[int], list[float]]:
        """Rows of the servers with room, least loaded first, and their CPU loads with it.

        As ``wharfinger.native.least_loaded``, without the ``excluded`` rows.
        """

    def freest(self, cpu: int, memory: int) -> int:
        """Row of the accepting server with the most free CPU, of those so large when empty.

        The first of equal ones; -1 = there is none.
        """


CPU_SIZES = 250 * 2 ** np.arange(20, dtype=np.int64)
"""Thousandths of a CPU by which placements are counted."""


def size_class(cpu_millicpus: int) -> int:
    """Index in ``CPU_SIZES`` of the least size that holds so much.

    >>> [size_class(cpu) for cpu in (50, 250, 251, 1000, 3000)]
    [0, 0, 1, 2, 4]
    """
    return min((max(cpu_millicpus - 1, 0) // 250).bit_length(), len(CPU_SIZES) - 1)


@dataclass(frozen=True, slots=True)
class View:
    """The cluster, one row per server, in the order in which the servers joined.

    Attributes:
        names: Servers' names, length S.
        cpu_capacity: (S,) thousandths of a CPU; of these ``cpu_allocated`` are held, by workloads
            and by work that is not this manager's. What is free is the difference; below 0, since
            others take room without asking, there is none.
        memory_capacity: (S,) bytes; ``memory_allocated`` of these in the same way.
        accepting: (S,) 1 where new work may be placed.
        residents: (S,) number of workloads placed there.
        copies: (S,) number of profiling runs there.
        unsettled: (S,) 1 where a resident runs off its prediction: no new work until it does not.
        platform: (S,) index of each server's in ``platforms``.
        platforms: Names of all platforms, also of servers that have left.
        loads: The servers by load; ``None`` = only the columns.
        versions: (S,) counts changes of each server; ``None`` = not kept.
        index: What the placement has asked the core to keep for it.
        largest: (P,) CPU of the largest accepting server of each platform; ``None`` = not kept.
        rows: Row of each server by its name; ``None`` = only ``names``.
        contention: Slowdowns of residents and newcomers; ``None`` = no contention model.
        occupants: What holds resources on a server, by its name; ``None`` = only counts are known.
        held_sizes: (len(CPU_SIZES),) how many placements hold so much CPU, or less and more than
            the size before; ``None`` = not kept.
        cpu_real: (S,) thousandths of a CPU that the platform has; less than may be allocated where
            more is promised; ``None`` = no less.
        zone: (S,) number of each server's failure zone, 0 = unknown; ``None`` = all unknown.
        cpu_wanted: (S,) thousandths of a CPU that running best-effort residents state, which they
            take of what others leave; ``None`` = unknown.
        cpu_others: (S,) what work that is not this manager's holds of ``cpu_allocated``; so with
            ``memory_others`` of ``memory_allocated``; ``None`` = nothing.
        labels: How many servers have each value of a label, the most frequent first; ``None`` =
            unknown.
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
    held_sizes: NDArray[np.int64] | None = None
    largest: NDArray[np.int64] | None = None
    cpu_real: NDArray[np.int64] | None = None
    zone: NDArray[np.int64] | None = None
    cpu_wanted: NDArray[np.int64] | None = None
    cpu_others: NDArray[np.int64] | None = None
    memory_others: NDArray[np.int64] | None = None
    labels: Callable[[str], Mapping[str, int]] | None = None

    def row(self, server: str) -> int:
        """The row of a server.

        Raises:
            LookupError: There is no server of that name.
        """
        return list(self.names).index(server) if self.rows is None else self.rows[server]

    def largest_cpu(self, allowed: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
        """(P,) thousandths of a CPU of each platform's largest server that accepts work, or 0.

        ``allowed`` (S,) leaves out others, as ``Request.allowed``.
        """
        if allowed is None and self.largest is not None:
            return self.largest
        takes = self.accepting > 0
        takes = takes if allowed is None else takes & (allowed > 0)
        largest = np.zeros(len(self.platforms), dtype=np.int64)
        np.maximum.at(largest, self.platform, np.where(takes, self.cpu_capacity, 0))
        return largest

    def snapshot(self) -> "View":
        """A copy that stays as it is, for a decision that is made elsewhere.

        It has neither the index by load nor the placement's own, nor names of occupants nor labels:
        these follow the cluster.
        """
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        arrays = {name: v for name, v in values.items() if isinstance(v, np.ndarray)}
        columns: dict[str, Any] = {name: frozen(v.copy()) for name, v in arrays.items()}
        names = tuple(self.names)
        return replace(
            self,
            **columns,
            names=names,
            rows={name: row for row, name in enumerate(names)},
            loads=None,
            index=None,
            occupants=None,
            labels=None,
            contention=deepcopy(self.contention),
        )


@dataclass(frozen=True, slots=True)
class OffTarget:
    """How far a running workload is from its target, steadily.

    Attributes:
        normalized: Performance over target.
        for_seconds: How long it has been above or below its target.
        estimated: The performance is a capacity estimate, by its idle CPU.
        throttled: Share of the periods of its CPU quota in which that did not last, where that
            calls for more CPU, also before its target is missed; ``None`` = it does not.
        unused_from: Thousandths of a CPU of which it uses no more, although it was given more
            lately, or was until that was taken back; ``None`` = nothing of the kind.
        offered_per_second: The load for which it is sized, of which it holds ``normalized`` at its
            bound; ``None`` = it is sized by how it does.
        ahead_seconds: That load is forecast, until then; ``None`` = it is there.
        for_neighbor: What it can spare is for a neighbor, on the server where that is.
        idle: It misses its target for other reasons than CPU: ``normalized`` is what it holds over
            what it has a use for.
        busy: Of one on several servers, CPU time that it uses over its allocation, by server; empty
            = not known.
    """

    normalized: float
    for_seconds: float
    cpu_seconds_per_second: float | None
    estimated: bool = False
    throttled: float | None = None
    unused_from: int | None = None
    offered_per_second: float | None = None
    ahead_seconds: float | None = None
    for_neighbor: bool = False
    idle: bool = False
    busy: Mapping[str, float] = field(default_factory=dict)

    @property
    def asked(self) -> str:
        """The load for which it is sized, for people."""
        rate = f"{self.offered_per_second or 0.0:.3g}/s are "
        if self.ahead_seconds is None:
            return f"{rate}offered"
        return f"{rate}forecast in {self.ahead_seconds:.0f} s"

    @property
    def lacks(self) -> bool:
        """Whether it needs more, and not less."""
        return self.normalized < 1 or self.throttled is not None


ALL_REASONS = frozenset(ReasonCode)
"""``Request.told`` where no refusal is logged or shown."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a policy is asked: a placement of this workload.

    Attributes:
        excluded: Rows of servers that failed to start it.
        off_target: Of a running workload whose target has been violated or exceeded for long
            enough to act on.
        waited_seconds: Since it was submitted.
        load: Of a running workload, under a policy that follows load: CPU time that it uses over
            its allocation, on all its servers together; ``None`` = it is asked for another reason.
        measurements: By which it was classified.
        note: This placement's newest note; empty = none.
        now: Seconds since the epoch.
        restarted: Its program has run before, in the same run.
        run_seconds: Tells how long workloads run here, as times that are equally likely; empty =
            unknown.
        told: Reasons for which a refusal is neither logged nor shown, because it was before: its
            record may lack candidates and words.
        pays: Whether a place with such a prediction is of use: one that is not may be refused.
            What is better in the mean, and as sure or surer, is of use too. ``None`` = any is.
        memory: By which its memory is sized; ``None`` = as stated, or nothing is known.
        allowed: (S,) 1 where a server meets what the workload requires of labels; ``None`` =
            everywhere. No other server accepts work in the view that comes with the request.
        lost: Of a running workload: what it held on servers from which it is gone, while it runs on
            on the others; a resize is asked to replace it.
        granted: Of a running workload: what it was given at its start.
        limits: What may be done with it; ``None`` = all that the engine can. The view that a policy
            is given has no more (``seen``).
        may_preempt: Whether others may be stopped for it: it is the first that waits.
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
    restarted: bool = False
    run_seconds: Callable[[], tuple[float, ...]] = tuple
    told: AbstractSet[ReasonCode] = frozenset()
    pays: Callable[[Prediction], bool] | None = None
    memory: MemoryNeed | None = None
    allowed: NDArray[np.uint8] | None = field(default=None, compare=False)
    lost: tuple[Placement, ...] = ()
    granted: tuple[Placement, ...] = ()
    limits: WorkloadLimits | None = None
    may_preempt: bool = True

    def seen(self, view: View) -> View:
        """The view with what the engine can do with this workload."""
        if self.limits is None:
            return view
        return replace(view, capabilities=view.capabilities.within(self.limits))

    def most_on(self, placement: Placement, able: Capabilities) -> Allocation | None:
        """The most that a running workload may have where it is; ``None`` = whatever is free."""
        if able.resize is not Resize.WITHIN_ALLOCATION:
            return None
        granted = (p.allocation for p in self.granted if p.server == placement.server)
        return next(granted, placement.allocation)

    def reserved(self, capabilities: Capabilities) -> Allocation:
        """The allocation by a policy that does not size by target.

        Best-effort work has no claim on CPU time, where it shares CPUs with others; engines without
        fractional CPUs round up.
        """
        workload, cpu = self.workload, self.reserved_cpu(capabilities)
        return Allocation(cpu, workload.reservation.memory_bytes, workload.best_effort)

    def reserved_cpu(self, capabilities: Capabilities) -> int:
        """Thousandths of a CPU of that allocation."""
        if self.workload.best_effort and capabilities.shares_cpus:
            return 0
        cpu = self.workload.reservation.cpu_millicpus
        return cpu if capabilities.fractional_cpu else -(-cpu // 1000) * 1000
