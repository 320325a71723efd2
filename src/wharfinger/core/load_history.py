"""The load of a service over time, at several resolutions, folded from what was measured of it.

Rings of means, each four times as coarse as the one before, as of a round-robin database: the
newest minutes by the second, the newest weeks by hours. Kept in the state, because seasons must
survive a restart of the manager, and folded, because to log all of it with each measurement would
cost thousands of bytes. ``policies.adaptation.forecast`` reads it.
"""

from dataclasses import dataclass, replace
from math import inf

BUCKETS = 256
"""Of one ring: two seasons and more of at least 28 buckets each, in one of the rings."""
COARSER = 4
RINGS = 8
"""The coarsest of buckets of 4.5 hours, over 48 days."""


@dataclass(frozen=True, slots=True)
class LoadRing:
    """Means of the load in successive buckets of time.

    Attributes:
        index: Of the bucket that is open now: its time over its width.
        total: Sum of the values in that, ``count`` of them.
        means: Of the closed buckets before it, in requests per second, the newest last;
            ``None`` = nothing was measured in it.
    """

    index: int = 0
    total: float = 0.0
    count: int = 0
    means: tuple[float | None, ...] = ()

    def with_value(self, index: int, value: float) -> "LoadRing":
        """With one more value, in the bucket of this index; one of a time before is ignored."""
        if not self.count:
            return LoadRing(index, value, 1, self.means)
        if index == self.index:
            return replace(self, total=self.total + value, count=self.count + 1)
        if index < self.index:
            return self
        gap = index - self.index - 1
        closed = (*self.means, self.mean, *(None for _ in range(gap))) if gap < BUCKETS else ()
        return LoadRing(index, value, 1, closed[-BUCKETS:])

    @property
    def mean(self) -> float:
        """Of the open bucket, so far; four digits are more than a load can be forecast."""
        return float(f"{self.total / max(1, self.count):.4g}")


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """The load in all resolutions, the finest first."""

    rings: tuple[LoadRing, ...] = ()

    @staticmethod
    def width_seconds(ring: int) -> int:
        """Of a ring's buckets.

        >>> [LoadHistory.width_seconds(ring) for ring in (0, 1, RINGS - 1)]
        [1, 4, 16384]
        """
        return int(COARSER**ring)

    def with_measurement(self, at: float, per_second: float) -> "LoadHistory":
        """With the load at one time, in seconds since the epoch; what is no load is left out.

        >>> history = LoadHistory()
        >>> for second, load in enumerate((10.0, 20.0, 30.0, 40.0, 50.0)):
        ...     history = history.with_measurement(second, load)
        >>> [ring.means for ring in history.rings]
        [(10.0, 20.0, 30.0, 40.0), ()]
        """
        if not (0 <= per_second < inf and abs(at) < inf):
            return self
        rings, value = list(self.rings), per_second
        for number in range(RINGS):
            before = rings[number] if number < len(rings) else LoadRing()
            ring = before.with_value(int(at // self.width_seconds(number)), value)
            rings[number : number + 1] = [ring]
            if ring.index == before.index or not before.count:
                break
            # A bucket has ended: its mean is one value of the coarser ring.
            at, value = before.index * self.width_seconds(number), before.mean
        return LoadHistory(tuple(rings))

    @property
    def most_per_second(self) -> float:
        """The largest mean of any bucket that has ended; 0 = none has."""
        ended = [mean for ring in self.rings for mean in ring.means if mean is not None]
        return max(ended, default=0.0)
