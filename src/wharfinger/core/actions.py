"""Everything the core can ask for. An engine turns these into effects.

An action is repeated after a crash or a lost answer, always under the same key; the engine makes
sure that it has one effect, and reports the outcome.
"""

from dataclasses import dataclass

from wharfinger.model.allocation import Placement
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.view import Request, View
from wharfinger.model.workload import Workload


@dataclass(frozen=True, slots=True)
class StartWorkload:
    """Start the program on these servers; the same key never starts twice.

    With a ``handle`` the engine holds it already (``WorkloadOffered``), and lets it go.
    ``at_most_seconds`` is what it is predicted to take there, at most; ``None`` = not known.
    """

    key: str
    workload: Workload
    placements: tuple[Placement, ...]
    handle: str = ""
    at_most_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StopWorkload:
    """Ask it to stop, and kill the whole process tree after the grace period.

    The answer is ``WorkloadFinished`` or ``WorkloadVanished``; for a key the engine never
    started it is ``StartFailed``, and a later start under that key must fail too.
    """

    key: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class ResizeAllocation:
    """Give the running workload these allocations.

    Its program is started on servers that are new, stopped on those that are not named, and
    continues on the others.
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
    """Report its performance by ``ServerMeasured``; repeated when target or measure changed."""

    key: str
    workload: Workload


@dataclass(frozen=True, slots=True)
class ForgetWorkload:
    """Drop the output and traces of an ended start; profiling runs under way end. No answer."""

    key: str


@dataclass(frozen=True, slots=True)
class AnnotateWorkload:
    """Tell the user of an offered workload, where it was handed in, what is decided. No answer.

    Asked for when the reason changes. What is rejected stays as its user left it.

    Attributes:
        handle: Of its offer.
        reason: Stage and stable word, e.g. ``"placement: no-room"``.
        text: The same in a sentence.
    """

    handle: str
    reason: str
    text: str

    @property
    def key(self) -> str:
        """The handle: it is about no start."""
        return self.handle


@dataclass(frozen=True, slots=True)
class ProfileWorkload:
    """Run the profiling plan; the answer is ``ProfilingFinished`` or ``ProfilingFailed``.

    After a crash it is repeated under the same key: what the earlier runs left is removed and the
    plan runs again. ``StopWorkload`` with its key ends it.
    """

    key: str
    workload: Workload
    plan: ProfilingPlan


@dataclass(frozen=True, slots=True)
class ProbeWorkload:
    """Raise sources of interference beside a *running* workload; the answer is ``WorkloadProbed``.

    One source after the other rises until performance turns, and is withdrawn then (Paragon 3.4).
    Asked for again under the same number it goes on, or is answered as before; an engine process
    takes its sources with it when it ends. A resize, a suspension or a stop ends it, too.

    Attributes:
        number: Counts the probes of one start.
        plan: Its sources, and how far performance may drop beside them. A ``live`` one is of the
            workload itself; else a copy is probed in its place, as the workload is now where the
            engine ``clones``, or one that begins anew (``copies_running``). Never two at a time
            on one server.
    """

    key: str
    number: int
    workload: Workload
    plan: ProfilingPlan


@dataclass(frozen=True, slots=True)
class ClassifyWorkload:
    """Estimate what it needs; the answer is ``WorkloadClassified`` or ``ClassificationFailed``.

    Attributes:
        measurements: Of its profiling runs, or of itself as it runs; empty = a cold start.
    """

    key: str
    workload: Workload
    measurements: Measurements


@dataclass(frozen=True, slots=True)
class AcquireServer:
    """Acquire a server, one per key; the answer is ``ServerAcquired`` or ``AcquisitionFailed``."""

    key: str
    platform: str


@dataclass(frozen=True, slots=True)
class ReleaseServer:
    """Release an acquired server, which is empty; the answer is ``ServerLeft``."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class DecidePlacement:
    """Decide a placement on a snapshot; the answer is ``PlacementProposed``.

    Repeated after a crash under the same key, on a newer snapshot.
    """

    key: str
    decider: str
    request: Request
    snapshot: View


EngineAction = (
    StartWorkload
    | StopWorkload
    | ResizeAllocation
    | SuspendWorkload
    | ResumeWorkload
    | MeasureWorkload
    | ForgetWorkload
    | AnnotateWorkload
    | ProfileWorkload
    | ProbeWorkload
)
"""What an engine is asked; ``ports`` says what stands behind which port."""
Action = EngineAction | ClassifyWorkload | AcquireServer | ReleaseServer | DecidePlacement
