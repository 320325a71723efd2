"""Everything the core can ask for. An engine turns these into effects, each at most once.

An action is asked for again after a crash or a lost answer, always under the same key; the
engine makes sure that it has one effect, and reports what became of it.
"""

from dataclasses import dataclass

from wharfinger.model.allocation import Placement
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.model.workload import Workload


@dataclass(frozen=True, slots=True)
class StartWorkload:
    """Start the program on these servers.

    Attributes:
        key: The start's identity: the same key never starts twice.
    """

    key: str
    workload: Workload
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class StopWorkload:
    """Ask it to stop, and kill the whole tree after the grace period.

    The answer is ``WorkloadFinished`` or ``WorkloadVanished``; for a key the engine never
    started it is ``StartFailed``, and a later start under that key must fail too.
    """

    key: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class ResizeAllocation:
    """Give the running workload these allocations.

    Servers that it is not on are joined: its program is started there too. What it has on a server
    that is not among them is stopped. On those that stay it goes on.
    """

    key: str
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class SuspendWorkload:
    """Stop giving it CPU time; it keeps its memory."""

    key: str


@dataclass(frozen=True, slots=True)
class ResumeWorkload:
    """Give it CPU time again."""

    key: str


@dataclass(frozen=True, slots=True)
class MeasureWorkload:
    """Report by ``ServerMeasured`` how it performs, as long as it runs.

    Asked for again with another workload when its user changed its target or its measure.
    """

    key: str
    workload: Workload


@dataclass(frozen=True, slots=True)
class ForgetWorkload:
    """Drop what is kept of an ended start: its output and its traces. No answer."""

    key: str


@dataclass(frozen=True, slots=True)
class ProfileWorkload:
    """Run the profiling plan; the answer is ``ProfilingFinished`` or ``ProfilingFailed``.

    Asked for again after a crash under the same key: what an earlier asking left is cleared
    away and the plan is run again, since copies have no effect. ``StopWorkload`` with its key
    ends it.
    """

    key: str
    workload: Workload
    plan: ProfilingPlan


@dataclass(frozen=True, slots=True)
class ClassifyWorkload:
    """Estimate what the workload needs.

    The answer is ``WorkloadClassified`` or ``ClassificationFailed``.

    Attributes:
        measurements: Of its profiling runs, or of itself as it runs; empty = a cold start.
    """

    key: str
    workload: Workload
    measurements: Measurements


@dataclass(frozen=True, slots=True)
class AcquireServer:
    """Acquire a server; the answer is ``ServerAcquired`` or ``AcquisitionFailed``.

    Attributes:
        key: The order's identity: the same key never gets two servers.
    """

    key: str
    platform: str


@dataclass(frozen=True, slots=True)
class ReleaseServer:
    """Give an acquired server back; the answer is ``ServerLeft``. Nothing is on it."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class DecidePlacement:
    """Find a place on a snapshot; the answer is ``PlacementProposed``.

    Attributes:
        key: The question's identity; asked again after a crash, on a newer snapshot.
        decider: Which decider is asked.
    """

    key: str
    decider: str
    request: PlacementRequest
    snapshot: ClusterView


EngineAction = (
    StartWorkload
    | StopWorkload
    | ResizeAllocation
    | SuspendWorkload
    | ResumeWorkload
    | MeasureWorkload
    | ForgetWorkload
    | ProfileWorkload
)
"""What an engine is asked; ``ports`` says what stands behind which port."""
Action = EngineAction | ClassifyWorkload | AcquireServer | ReleaseServer | DecidePlacement
