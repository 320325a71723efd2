"""What a quota of CPU time does to the tail of a service's latency.

A quota of s CPUs is Q = s T of CPU time in each period T. What a short period leaves, b = Q − u T
on average with u CPUs used, may be used in the next. A period that needs D > Q + b of it ends with
the program stopped for

    T (1 − (Q + b) / D),        at most T (1 − s / n) with n CPUs used at once

D is as random as the load: with m CPU seconds a request,

    D_p = u T (1 + z_p σ),      σ² = BURSTINESS² + 2 m / (u T)

at a percentile p of all periods: the load changes from period to period, and few requests come in
one (compound Poisson, sizes exponential). So a service holds a bound B < T on p up to the load at
which D_p = (Q + b) / (1 − B / T). Decision 0044 has what was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, inf, log, sqrt

from wharfinger.classification.slo_throughput import MAX_LATENCY_STD, MIN_SHARE, MIN_SPARE
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Curve, Estimate, quantile
from wharfinger.model.quota import QUOTA_PERIOD_SECONDS, short_period_seconds

BURSTINESS = 0.3
"""Relative standard deviation of the CPU time that a steady load needs in a period, beside what
chance does to few requests."""
SURELY = 0.99999
SMALL_COLUMNS = (50, 75, 150, 200, 300, 400)
"""Thousandths of a CPU; quotas matter to small shares."""


@dataclass(frozen=True, slots=True)
class Throttling:
    """One service under quotas.

    Attributes:
        could: X by CPU, requests a second.
        percentile: Of its latency, 0 to 100.
        shortest_seconds: The shortest period of a quota here; above 0.
    """

    could: Curve
    percentile: float
    shortest_seconds: float

    def period_seconds(self, cpu_millicpus: int) -> float:
        """T with one allocation."""
        period = max(self.shortest_seconds, short_period_seconds(cpu_millicpus))
        return min(period, QUOTA_PERIOD_SECONDS)

    def stopped_seconds(self, cpu_millicpus: int, asked: float, deviations: float = 0.0) -> float:
        """How long a request at the percentile waits for the quota, asked so much per second.

        ``deviations`` more than the load's own at that percentile are for its doubt.
        """
        period, share = self.period_seconds(cpu_millicpus), cpu_millicpus / MILLICPUS_PER_CPU
        mean = asked * self._cpu_seconds_each(cpu_millicpus) * period
        if mean <= 0:
            return 0.0
        sigma = sqrt(BURSTINESS**2 + 2 * self._cpu_seconds_each(cpu_millicpus) / mean)
        needed = mean * (1 + max(0.0, self._z + deviations) * sigma)
        quota = share * period
        credit = quota + max(0.0, quota - mean) * self._saves
        stopped = period * (1 - credit / needed)
        return max(0.0, min(stopped, period * (1 - share / self._parallel)))

    def most_held(self, cpu_millicpus: int, below_seconds: float, deviations: float = 0.0) -> float:
        """The load per second up to which the quota keeps a bound; infinite = any."""
        period, share = self.period_seconds(cpu_millicpus), cpu_millicpus / MILLICPUS_PER_CPU
        if below_seconds >= period * (1 - share / self._parallel):
            return inf
        # y + z sqrt(BURSTINESS² y² + 2 m y) = (Q + b) / (1 - B / T), solved for y = u T.
        each, z = self._cpu_seconds_each(cpu_millicpus), max(0.0, self._z + deviations)
        longer, saves = 1 / (1 - below_seconds / period), self._saves
        most, slope = (1 + saves) * share * period * longer, 1 + saves * longer
        a, b = slope**2 - (z * BURSTINESS) ** 2, 2 * most * slope + 2 * z**2 * each
        mean = 2 * most**2 / (b + sqrt(max(b**2 - 4 * a * most**2, 0.0)))
        return mean / period / each

    @property
    def _z(self) -> float:
        return quantile(min(self.percentile / 100, SURELY))

    @property
    def _parallel(self) -> float:
        """CPUs that it can use at once: a service can use one wholly."""
        best = max(estimate.mean for estimate in self.could.estimates)
        return max(1.0, best / self.could.at(MILLICPUS_PER_CPU).mean)

    def _cpu_seconds_each(self, cpu_millicpus: int) -> float:
        usable = min(cpu_millicpus / MILLICPUS_PER_CPU, self._parallel)
        return usable / self.could.at(cpu_millicpus).mean

    @property
    def _saves(self) -> int:
        """1 where periods are short and what they leave may be used; else 0."""
        return int(self.shortest_seconds < QUOTA_PERIOD_SECONDS)


def columns_of(held: Curve) -> tuple[int, ...]:
    """CPU at which the quota is looked at: also between and below the columns of λ*."""
    return tuple(sorted({*held.cpu_millicpus, *SMALL_COLUMNS}))


def within_quota(
    held: Curve, throttling: Throttling, below_seconds: float, columns: Sequence[int]
) -> Curve:
    """λ* by CPU, as far as the quota lets it keep its bound."""
    estimates = []
    for cpu in columns:
        estimate, most = held.at(cpu), throttling.most_held(cpu, below_seconds)
        if most < estimate.mean:
            could = throttling.could.at(cpu)
            mean = max(most, MIN_SHARE * could.mean)
            doubt = log(most / throttling.most_held(cpu, below_seconds, 1.0))
            estimate = Estimate(min(mean, estimate.mean), hypot(could.std, doubt))
        estimates.append(estimate)
    return Curve(tuple(columns), tuple(estimates))


def latency_of(
    idle: Estimate, could: Curve, asked_per_second: float, columns: Sequence[int]
) -> Curve:
    """The percentile of latency by CPU under a load, without stops: L₀ / (1 − λ / X).

    Below its quota a program runs as fast as with all CPUs, so L₀ is the same for all allocations.
    """
    estimates = []
    for cpu in columns:
        most = could.at(cpu)
        share = min(asked_per_second / most.mean, 1 - MIN_SPARE)
        std = hypot(idle.std, most.std * share / (1 - share))
        estimates.append(Estimate(idle.mean / (1 - share), min(std, MAX_LATENCY_STD)))
    return Curve(tuple(columns), tuple(estimates))


def with_stops(latency: Curve, throttling: Throttling, asked_per_second: float) -> Curve:
    """The percentile of latency by CPU, with what the quota adds under a load."""
    estimates = []
    for cpu, estimate in zip(latency.cpu_millicpus, latency.estimates, strict=True):
        mean = estimate.mean + throttling.stopped_seconds(cpu, asked_per_second)
        high = estimate.mean + throttling.stopped_seconds(cpu, asked_per_second, 1.0)
        std = hypot(estimate.std * estimate.mean / mean, log(high / mean))
        estimates.append(Estimate(mean, min(std, MAX_LATENCY_STD)))
    return Curve(latency.cpu_millicpus, tuple(estimates))
