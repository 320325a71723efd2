"""What an adaptation concludes from measurements, as values that are logged and folded."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp
from statistics import fmean

from wharfinger.core.load_history import LoadHistory
from wharfinger.model.allocation import Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Estimate, Measurements, ProfilingPlan


@dataclass(frozen=True, slots=True)
class TargetTracking:
    """A running workload's performance relative to its target.

    Attributes:
        normalized_performance: Achieved over target at the newest measurement.
        status: -1 = violated, 0 = met, 1 = exceeded by more than is needed.
        since: Since when it has this status, in seconds since the epoch.
        headroom: Capacity estimate over target, by its idle CPU; ``None`` = no more than achieved.
        violating: Its servers take no new work: it runs off its prediction, and its neighbors may
            be the cause.
        off_since: Since when it runs off its prediction; ``None`` = it does not.
    """

    normalized_performance: float
    status: int
    since: float
    headroom: float | None = None
    violating: bool = False
    off_since: float | None = None

    def restarted(self, now: float) -> "TargetTracking":
        """After an adjustment: the duration of its status counts from now."""
        return replace(self, since=now, off_since=None if self.off_since is None else now)

    def as_predicted(self) -> "TargetTracking":
        """After a new prediction: it is not off that one before it is measured."""
        return replace(self, violating=False, off_since=None)


@dataclass(frozen=True, slots=True)
class LevelTracking:
    """How a workload's performance stands to its own level so far (Page's CUSUM, 1954).

    Attributes:
        mean: Logarithm of its performance, over ``samples``, since it or its neighbors changed.
        noise: Standard deviation of one measurement of that.
        below: Sum of what was below the level beyond the allowance, in standard deviations;
            ``above`` likewise.
        away: The measurements since one of both sums is not 0, as logarithms; the first of them was
            at ``away_since``.
        cpu_millicpus: With which it has this level.
        doubt: Standard deviation by which its level may have moved since, because its CPU or its
            neighbors changed; 0 = they have not.
        changed_at: When it was last found at another level; ``shift`` is by how much, of the
            logarithm. It was there first at ``changes_since``.
        slowdown: What its neighbors were predicted to leave of its performance at this level;
            ``None`` = unknown.
    """

    mean: float
    samples: int
    noise: float
    below: float = 0.0
    above: float = 0.0
    away: tuple[float, ...] = ()
    cpu_millicpus: int = 0
    doubt: float = 0.0
    changed_at: float | None = None
    shift: float = 0.0
    away_since: float | None = None
    changes_since: float | None = None
    slowdown: Estimate | None = None


@dataclass(frozen=True, slots=True)
class LevelChange:
    """Performance has left its level: when that was found, and by how much, of the logarithm."""

    at: float
    shift: float


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """The load that is expected to be offered to a service after a horizon.

    Attributes:
        made_at: In seconds since the epoch; ``valid_until`` the next says something else.
        mean_per_second: As likely too low as too high; at most what was ever measured.
        low_per_second: The load is not below this with the confidence; ``high_per_second`` not
            above.
        later_per_second: The most of it until CPU that is given back now could be had again.
        error_log: Mean of |ln(measured / forecast)| of its past forecasts at this horizon.
        is_trend: The load rises or falls steadily.
        season: Ring of the load's history and its buckets, after which the load repeats itself;
            ``None`` = none was found.
        by_season: It is forecast by that.
    """

    made_at: float
    valid_until: float
    horizon_seconds: float
    mean_per_second: float
    low_per_second: float
    high_per_second: float
    later_per_second: float
    error_log: float
    is_trend: bool = False
    season: tuple[int, int] | None = None
    by_season: bool = False

    @property
    def season_seconds(self) -> float | None:
        """After which the load repeats itself; ``None`` = no season was found."""
        if self.season is None:
            return None
        return float(self.season[1] * LoadHistory.width_seconds(self.season[0]))

    @property
    def tells_change(self) -> bool:
        """Whether it is more than that the load stays as it is."""
        return self.is_trend or self.by_season


@dataclass(frozen=True, slots=True)
class DemandTracking:
    """The load that is offered to a service, and what of its capacity it holds at its bound.

    Attributes:
        level: Of requests offered per second, as logarithms; ``cpu_millicpus`` says nothing.
        held_share: Requests per second that it answers within the bound of its target, over those
            that keep its CPU busy; ``None`` = unknown.
        newest: The newest measurement of the load, as a logarithm.
        seen_per_second: The newest that was told, also that nothing is offered, at ``seen_at``;
            ``None`` = nothing was told.
    """

    level: LevelTracking
    held_share: float | None = None
    newest: float = 0.0
    seen_per_second: float | None = None
    seen_at: float = 0.0
    forecast: LoadForecast | None = None

    @property
    def offered_per_second(self) -> float:
        """The load: its level, or what it seems to rise to now."""
        away = fmean(self.level.away) if self.level.away else self.level.mean
        return exp(max(self.level.mean, away))


class ProbeCause(StrEnum):
    """Why a running workload is probed."""

    PROFILE = "profile"
    """It has no score of its own yet, and no copy of it may be made."""

    REACTIVE = "reactive"
    """Its performance has left its level."""
    PREEMPTIVE = "pre-emptive"
    """It is one of the sample of this period."""


@dataclass(frozen=True, slots=True)
class ProbeState:
    """The newest probe of a workload.

    Attributes:
        number: Counts the probes of one start.
        planned_at: In seconds since the epoch; ``answered_at`` ``None`` = it is under way.
        placements: Where room is held for a copy; empty = it is probed itself.
        answer: What was measured; ``None`` = nothing.
        left_level: What of its performance had changed most since its scores were measured before.
        server: Where it is probed itself; empty = it is not, or an older version planned it.
    """

    number: int
    planned_at: float
    cause: ProbeCause
    sources: tuple[SharedResource, ...]
    tolerance: float
    placements: tuple[Placement, ...] = ()
    answered_at: float | None = None
    answer: Measurements | None = None
    left_level: LevelChange | None = None
    server: str = ""

    @property
    def servers(self) -> tuple[str, ...]:
        """Where sources rise: no other plan is carried out there meanwhile."""
        return tuple(p.server for p in self.placements) or (self.server,) * bool(self.server)

    @property
    def under_way(self) -> bool:
        """Whether its answer is awaited."""
        return self.answered_at is None

    @property
    def lowers(self) -> bool:
        """Whether sources lower its own performance now, not a copy's."""
        return self.under_way and not self.placements


@dataclass(frozen=True, slots=True)
class CopiesState:
    """Copies of a workload that are profiled while it runs itself already.

    Attributes:
        key: Of the profiling runs; the workload has its own.
        planned_at: In seconds since the epoch; ``answered_at`` ``None`` = they are under way.
    """

    key: str
    plan: ProfilingPlan
    planned_at: float
    answered_at: float | None = None

    @property
    def under_way(self) -> bool:
        """Whether their answer is awaited."""
        return self.answered_at is None


@dataclass(frozen=True, slots=True)
class Observation:
    """Performance under one allocation, to be remembered; ``forgets`` those of other CPUs."""

    quantity: Quantity
    cpu_millicpus: int
    entry: Entry
    forgets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tracked:
    """What an adaptation concludes from the newest measurement of one workload.

    Attributes:
        tracking: ``None`` = the measurement says nothing about its target.
        observations: Performance under its present allocation.
        follow_up: This measurement shows the effect of the newest adjustment.
        level: ``None`` = its own level is unknown as yet.
        demand: ``None`` = what is offered to it is not measured.
    """

    name: str
    tracking: TargetTracking | None
    observations: tuple[Observation, ...] = ()
    follow_up: bool = False
    level: LevelTracking | None = None
    demand: DemandTracking | None = None

    @property
    def says_something(self) -> bool:
        """Whether it is worth logging."""
        return bool(self.tracking or self.observations or self.level or self.demand)
