"""Smoothing over time, and when a number is stale.

Exponentially weighted means over *time*: each observation is weighted by the time it stands for,
so irregular lines need no resampling. Weights are normalised, so the first observation is not taken
for a long history. Latencies are averaged as logarithms, lest one outlier raises the mean for long.
"""

from math import exp, log

HALF_LIFE_SECONDS = 5.0
"""Three quarters of a step show after twice as long."""
LATENCY_HALF_LIFE_SECONDS = 2.0
OFFERED_HALF_LIFE_SECONDS = 0.1
"""Nearly none: a step of load must show at once. Its noise is told from it by who reads it."""
STALE_SECONDS = 15.0
"""After so long without news there is no signal; slow reporters have three of their own gaps."""
STALE_GAPS = 3.0


class Level:
    """A performance that is reported as such; ``geometric`` averages logarithms of numbers above 0.

    The mean is Σ w·x / Σ w, where an observation that stands for dt has the weight
    1 − 2^(−dt/h) and loses half of it every h seconds.

    >>> level = Level()
    >>> level.observe(0.0, 100.0)
    >>> level.observe(5.0, 50.0)
    >>> round(level.value, 1)
    55.7
    """

    def __init__(
        self, half_life_seconds: float = HALF_LIFE_SECONDS, *, geometric: bool = False
    ) -> None:
        self.newest = 0.0
        self._mean = 0.0
        self._half_life_seconds = half_life_seconds
        self._geometric = geometric
        self.seen_at: float | None = None
        self.longest_gap_seconds = 0.0
        self._weight = 0.0

    @classmethod
    def of_latency(cls) -> "Level":
        """The level of a latency."""
        return cls(LATENCY_HALF_LIFE_SECONDS, geometric=True)

    @classmethod
    def of_offered(cls) -> "Level":
        """The level of the load that is offered."""
        return cls(OFFERED_HALF_LIFE_SECONDS)

    @property
    def value(self) -> float:
        """The mean; 0 before the first observation."""
        return exp(self._mean) if self._geometric and self.seen_at is not None else self._mean

    def observe(self, now: float, value: float, stands_for_seconds: float | None = None) -> None:
        """Take in a value that stands for the time since the one before, or a given time."""
        if self._geometric and value <= 0:
            return
        gap_seconds = 1.0 if self.seen_at is None else max(0.0, now - self.seen_at)
        if self.seen_at is not None:
            self.longest_gap_seconds = max(gap_seconds, 0.9 * self.longest_gap_seconds)
        seconds = gap_seconds if stands_for_seconds is None else stands_for_seconds
        kept = 0.5 ** (seconds / self._half_life_seconds)
        weight = self._weight * kept + (1 - kept)
        if weight > 0:
            level = log(value) if self._geometric else value
            self._mean += (1 - kept) / weight * (level - self._mean)
        self._weight, self.seen_at, self.newest = weight, now, value

    def silent_seconds(self, now: float) -> float | None:
        """How long there was no news, when that is stale; else ``None``."""
        if self.seen_at is None:
            return None
        allowed = max(STALE_SECONDS, STALE_GAPS * self.longest_gap_seconds)
        silence = now - self.seen_at
        return silence if silence > allowed else None

    def is_fresh(self, now: float) -> bool:
        """Whether there is a number, and it is not stale."""
        return self.seen_at is not None and self.silent_seconds(now) is None


class Counter:
    """Work done so far, whose growth per second is the ``rate``.

    ``last`` has time and count; ``fell_from`` is the count before, where the last one was smaller.

    >>> counter = Counter()
    >>> counter.observe(0.0, 10.0)
    >>> counter.rate.seen_at is None
    True
    >>> counter.observe(2.0, 30.0)
    >>> counter.rate.value
    10.0
    """

    def __init__(self) -> None:
        self.rate = Level()
        self.last: tuple[float, float] | None = None
        self.fell_from: float | None = None

    def observe(self, now: float, total: float) -> None:
        """Take in the count; one that falls was restarted, and counts from there."""
        if self.last is not None:
            at, before = self.last
            if now <= at:
                return
            self.fell_from = before if total < before else None
            if total >= before:
                self.rate.observe(now, (total - before) / (now - at), now - at)
        self.last = (now, total)
