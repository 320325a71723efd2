"""Profiling plans at work: their phases, and the copies that run. ``copies`` carries them out."""

from dataclasses import dataclass, field

from wharfinger.core import actions as act
from wharfinger.model.allocation import Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, SettingEntry
from wharfinger.simulator.cluster.injection import Ramp
from wharfinger.simulator.cluster.runs import Account, Run
from wharfinger.simulator.scenario.jobs import Job


class Copy(Run):
    """A copy, or a known program beside one: it is nobody's workload."""

    __slots__ = ()

    @property
    def counts(self) -> bool:
        """It does not."""
        return False


class SourceRun(Copy):
    """A source of interference beside a copy."""

    __slots__ = ("core_of",)

    def __init__(
        self, key: str, job: Job, account: Account, placements: tuple[Placement, ...], core_of: str
    ) -> None:
        super().__init__(key, job, account, placements)
        self.core_of = core_of


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of a plan.

    Attributes:
        cpu_millicpus: Of the copy; 0 = it does not run.
        beside: The known program that runs, too; empty = none.
        further: Place in the plan of the run elsewhere that it is; ``None`` = none.
        source: Of interference beside it; ``None`` = none. So is its ``intensity``, 0 to 100.
    """

    cpu_millicpus: int
    beside: str = ""
    further: int | None = None
    source: SharedResource | None = None
    intensity: float = 0.0


@dataclass(slots=True)
class Task:
    """One plan at work.

    Attributes:
        action: That asked for it.
        job: Of which copies are made.
        phases: Still to come, the next first.
        phase: That is on.
        runs: Of this phase: the copy and the known program, where they run.
        handle: The event of the phase's end.
        ramps: Sources whose turn is yet to come, the present one first.
        injected: How many sources have a signal there.
    """

    action: act.ProfileWorkload
    job: Job
    phases: list[Phase]
    phase: Phase
    began: float
    runs: list[Copy] = field(default_factory=list)
    handle: int = 0
    performance: dict[Quantity, dict[int, Entry]] = field(default_factory=dict)
    further: dict[Quantity, list[SettingEntry]] = field(default_factory=dict)
    alone: dict[str, float] = field(default_factory=dict)
    beside: dict[str, Entry] = field(default_factory=dict)
    upon: dict[str, Entry] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    tolerated: dict[SharedResource, Entry] = field(default_factory=dict)
    caused: dict[SharedResource, Entry] = field(default_factory=dict)
    ramps: list[Ramp] = field(default_factory=list)
    injected: int = 0
    count: int = 0

    @property
    def key(self) -> str:
        """Of the asking."""
        return self.action.key
