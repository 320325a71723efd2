"""The seam of adaptation: what is tracked of a running workload, and what is done about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.core import events as ev
from wharfinger.core.seams.part import PolicyPart
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.core.tracking import ProbeCause, Tracked
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate, Measurements
from wharfinger.model.view import Capabilities, OffTarget, Request, View
from wharfinger.model.workload import Workload


@dataclass(frozen=True, slots=True)
class Reallocate:
    """A running workload gets other allocations.

    Attributes:
        throttled_for: The neighbor for whose sake best-effort work gets a lower ceiling.
    """

    name: str
    placements: tuple[Placement, ...]
    decision: Decision
    throttled_for: str = ""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Its allocations should have changed but can't; the decision says why."""

    name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Suspend:
    """It gets no CPU time for a while, for the sake of a neighbor."""

    name: str
    suspended_for: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Resume:
    """It gets CPU time again; ``ineffective`` = its suspension did not help the neighbor."""

    name: str
    decision: Decision
    ineffective: bool = False


@dataclass(frozen=True, slots=True)
class Migrate:
    """It is stopped and started again on these servers, which hold room for it meanwhile."""

    name: str
    placements: tuple[Placement, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class PreemptFor:
    """It is stopped for the sake of a neighbor, and not placed again before ``until``."""

    name: str
    preempted_for: str
    until: float
    decision: Decision


@dataclass(frozen=True, slots=True)
class Reclassify:
    """It is reclassified, by these measurements."""

    name: str
    measurements: Measurements
    decision: Decision


@dataclass(frozen=True, slots=True)
class RaiseSources:
    """Sources of interference rise beside it while it runs; see ``actions.ProbeWorkload``."""

    name: str
    sources: tuple[SharedResource, ...]
    tolerance: float
    cause: ProbeCause
    decision: Decision
    placements: tuple[Placement, ...] = ()


Remedy = (
    Reallocate | Unchanged | Suspend | Resume | Migrate | PreemptFor | Reclassify | RaiseSources
)


class Residents(Protocol):
    """What an adaptation reads of the cluster; it changes as remedies are carried out."""

    @property
    def state(self) -> ManagerState:
        """What the core knows; to be read only."""

    @property
    def placement(self) -> PlacementPolicy:
        """Says how much and where."""

    @property
    def estimates(self) -> str:
        """Name of the estimation; empty = nothing is classified."""

    @property
    def recommends(self) -> bool:
        """Whether remedies are only recommended, never carried out."""

    def may_adjust(self, record: WorkloadRecord) -> bool:
        """Whether remedies for a workload are carried out, not only recommended or dropped."""

    def able(self, record: WorkloadRecord) -> Capabilities:
        """What the engine can do with a workload."""

    def view(self, workload: Workload | None = None) -> View:
        """The servers as columns of numbers; those that a workload may not go to accept none."""

    def request(
        self,
        record: WorkloadRecord,
        now: float,
        *,
        off_target: OffTarget | None = None,
        load: float | None = None,
    ) -> Request:
        """What a placement is asked about a workload."""

    def running(self, key: str) -> WorkloadRecord | None:
        """The workload that runs under this key."""

    def neighbors(self, record: WorkloadRecord) -> Sequence[WorkloadRecord]:
        """What else holds resources where a workload is, each once."""

    def suspended(self) -> Sequence[WorkloadRecord]:
        """Those that get no CPU time."""

    def throttled(self) -> Sequence[WorkloadRecord]:
        """Best-effort work that runs under a ceiling."""

    def wants_resize(self) -> Sequence[WorkloadRecord]:
        """Those whose allocation should follow a changed reservation, and may now."""

    def waiting_for_room(self) -> Sequence[tuple[str, Allocation]]:
        """The first few that wait for room, by name, and what they need; in order of service."""

    def slowdown_of(self, record: WorkloadRecord) -> Estimate | None:
        """Its performance among its neighbors over that alone; ``None`` = unknown.

        On several servers it is the mean by its CPU on each.
        """

    def platform_of(self, record: WorkloadRecord) -> str:
        """Name of the platform on which it runs, with most of its CPU; empty = unknown."""


class AdaptationPolicy(PolicyPart, Protocol):
    """Watches what runs. It keeps nothing between calls: what it tracks is logged."""

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        """What the newest measurement says about its target, and what to remember of it."""

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """What to do after an event; each remedy is carried out before the next is asked for."""

    def wake_at(self, now: float, cluster: Residents) -> float | None:
        """When ``remedies`` has something to do if nothing happens; ``None`` = nothing."""

    def measured(self, record: WorkloadRecord, platform: str = "") -> Measurements | None:
        """All measurements of a workload, from before it ran and since, on this platform."""
