"""What an adaptation concludes from measurements, as values that are logged and folded."""

from dataclasses import dataclass, replace

from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry


@dataclass(frozen=True, slots=True)
class TargetTracking:
    """A running workload's performance relative to its target.

    Attributes:
        normalized_performance: Achieved over target at the newest measurement.
        status: -1 = violated, 0 = met, 1 = exceeded by more than is needed.
        since: Since when it has this status, in seconds since the epoch.
        headroom: Capacity estimate over target, by its idle CPU; ``None`` = no more than achieved.
        violating: Its servers take no new work, since its neighbors may be the cause.
    """

    normalized_performance: float
    status: int
    since: float
    headroom: float | None = None
    violating: bool = False

    def restarted(self, now: float) -> "TargetTracking":
        """After an adjustment: the duration of its status counts from now."""
        return replace(self, since=now, violating=self.status < 0)


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
    """

    name: str
    tracking: TargetTracking | None
    observations: tuple[Observation, ...] = ()
    follow_up: bool = False
