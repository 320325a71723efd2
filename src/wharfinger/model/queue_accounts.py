"""What has gone through a queue: what an admission may estimate waits from."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

KEPT = 256
"""So many of the newest arrivals and busy periods of a queue are kept."""
DEMAND = "demand"
"""Among a decision's numbers: the resource quality that the workload needs."""


class _Began:
    """What follows from an account's fields, and is no part of a snapshot."""

    __slots__ = ("began",)

    def _sort(self, times: Iterable[float]) -> None:
        self.began = sorted(times)


@dataclass(slots=True)
class QueueAccount(_Began):
    """What came, was diverted and was served; times in seconds since the epoch.

    A *busy period* is the time from the placement of a workload to its end (ARQ 3.3). Starts that
    failed are none.

    Attributes:
        arrived: When workloads came from outside, the newest last.
        demands: The resource quality that these needed, where their admission said so.
        diverted: How many left for each other queue, by its name.
        entered: How many came, from outside and from other queues.
        ended: How many busy periods have ended.
        busy_seconds: The newest of these, in the order of their ends.
        placed: When each of those was placed that hold resources, by name.
        began: The same times, ascending.
    """

    arrived: list[float] = field(default_factory=list)
    demands: list[float] = field(default_factory=list)
    diverted: dict[str, int] = field(default_factory=dict)
    entered: int = 0
    ended: int = 0
    busy_seconds: list[float] = field(default_factory=list)
    placed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sort(self.placed.values())

    def arrive(self, time: float, demand: float | None = None) -> None:
        """One comes from outside."""
        self.entered += 1
        _keep(self.arrived, time)
        if demand is not None:
            _keep(self.demands, demand)

    def place(self, name: str, time: float) -> None:
        """One of it gets its servers."""
        if name in self.placed:
            self._take(self.placed[name])
        self.placed[name] = time
        insort(self.began, time)

    def end(self, name: str, time: float, *, has_run: bool) -> None:
        """One that was placed holds nothing any more."""
        placed_at = self.placed.pop(name, None)
        if placed_at is None:
            return
        self._take(placed_at)
        if has_run:
            self.ended += 1
            _keep(self.busy_seconds, max(0.0, time - placed_at))

    def _take(self, time: float) -> None:
        del self.began[bisect_left(self.began, time)]

    def arrivals_per_second(self, now: float) -> float:
        """From outside, over the newest of them; 0 with fewer than two."""
        if len(self.arrived) < 2 or now <= self.arrived[0]:
            return 0.0
        return (len(self.arrived) - 1) / (now - self.arrived[0])


def _keep(newest: list[float], value: float) -> None:
    if len(newest) >= KEPT:
        del newest[0]
    newest.append(value)
