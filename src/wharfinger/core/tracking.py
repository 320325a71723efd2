"""What an adaptation makes of measurements, as values that are logged and folded."""

from dataclasses import dataclass, replace

from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry


@dataclass(frozen=True, slots=True)
class TargetTracking:
    """How a running workload stands to its target.

    Attributes:
        normalized_performance: Achieved over target at the newest measurement.
        status: -1 = violated, 0 = met, 1 = exceeded by more than is needed.
        since: Since when, in seconds since the epoch.
        headroom: What it could reach over its target, as far as its idle CPU tells; ``None`` = no
            more than it does.
        violating: Its servers take no new work, for it may be the neighbors' fault.
    """

    normalized_performance: float
    status: int
    since: float
    headroom: float | None = None
    violating: bool = False

    def restarted(self, now: float) -> "TargetTracking":
        """After an adjustment: how long its status lasts is counted from now on."""
        return replace(self, since=now, violating=self.status < 0)


@dataclass(frozen=True, slots=True)
class Observation:
    """Performance under one allocation, as it is to be remembered.

    Attributes:
        forgets: Allocations of which nothing is remembered any more, in thousandths of a CPU.
    """

    quantity: Quantity
    cpu_millicpus: int
    entry: Entry
    forgets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tracked:
    """What an adaptation makes of the newest measurement of one workload.

    Attributes:
        tracking: ``None`` = the measurement says nothing of its target.
        observations: What it teaches about its present allocation.
        follow_up: The newest adjustment is judged by this measurement.
    """

    name: str
    tracking: TargetTracking | None
    observations: tuple[Observation, ...] = ()
    follow_up: bool = False
