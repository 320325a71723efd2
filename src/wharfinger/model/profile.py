"""Profiling plans, their measurements, and the classification made of them (Quasar 3.2 to 3.4).

A planner makes a ``ProfilingPlan``, an engine runs it and answers with ``Measurements``: two
entries of a workload's rows. A classifier completes them to a ``Classification``, by which policies
size and place.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist

from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import Quantity

PROFILED_SOURCES = (SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH)
"""What engines injected before they said what they can: logs without that are decided so again."""
RAMP_ALLOCATIONS = 4.0
"""A source's ramp is given as much of a plan's time as measuring at so many allocations."""
EXTRAPOLATION_LOG_STD = 0.3
"""Added for each doubling of CPU beyond what a curve has columns for."""


@dataclass(frozen=True, slots=True)
class FurtherRun:
    """A run for scale-out or another platform; of several servers, the plan's own is the first."""

    setting: Setting
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfilingPlan:
    """One joint plan of short runs of a copy: two entries for each classification.

    Attributes:
        cpu_millicpus: Allocations to measure at; interference is injected at the first.
        memory_bytes: Limit on the copy's memory.
        sources: To inject one after the other, each ramped until performance has dropped by
            ``tolerance``.
        seconds: Of measuring in all, without setting up.
        patience_seconds: The same at most, for a program that tells its performance too seldom for
            ``seconds``, or only by its end.
        tolerance: How far performance may drop, as a share of performance alone.
        further: Runs elsewhere, at the same time; only for engines that scale out or have several
            platforms.
        beside: Names of known programs to run with the copy, one after the other, on ``server``;
            only for engines that can run them.
        apart: Servers like ``server`` where runs go at the same time as there: a source each of
            ``sources`` but the first, then an allocation each of ``cpu_millicpus`` but the first;
            only for engines that ``profile_apart``.
        completes: It measures only what is missing of what is known of the program.
        live: No copy runs, but sources rise beside the workload itself, where it runs: those that
            share nothing with others but its CPUs, each withdrawn before its target is broken.
    """

    server: str
    cpu_millicpus: tuple[int, ...]
    memory_bytes: int
    sources: tuple[SharedResource, ...]
    seconds: float
    tolerance: float = 0.05
    further: tuple[FurtherRun, ...] = ()
    beside: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    patience_seconds: float = 0.0
    completes: bool = False
    live: bool = False

    @property
    def limit_seconds(self) -> float:
        """Of measuring at most."""
        return max(self.seconds, self.patience_seconds)

    @property
    def allocation(self) -> Allocation:
        """What the copy holds on its server at most."""
        return Allocation(max(self.cpu_millicpus), self.memory_bytes)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """What all runs hold, by server; a known program holds as much as the copy."""
        held = self.allocation
        if self.beside:
            most = max(held.cpu_millicpus, 2 * self.cpu_millicpus[0])
            held = Allocation(most, 2 * held.memory_bytes)
        own = Placement(self.server, held)
        others = {
            server: Allocation(run.setting.configuration.cpu_millicpus, self.memory_bytes)
            for run in self.further
            for server in run.servers
            if server != self.server
        }
        first, *rest = self.cpu_millicpus
        runs = [first for _ in self.sources[1:]] + rest
        for server, cpu_millicpus in zip(self.apart, runs, strict=False):
            others[server] = Allocation(cpu_millicpus, self.memory_bytes)
        return (own, *(Placement(server, held) for server, held in others.items()))


class Origin(StrEnum):
    """Where an entry comes from."""

    OFFLINE = "offline"
    """An exhaustive measurement of a known program."""
    PROFILED = "profiled"
    """A copy, run for the purpose before the workload was placed."""
    OBSERVED = "observed"
    """The workload itself, as it ran."""
    PREDICTED = "predicted"
    """An estimator; never learnt from."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One number of a workload's row.

    Attributes:
        error: Its standard error: as a share of a performance, in points of a score.
        censored: Of a tolerated score: a lower bound, no intensity that was tried exceeded it.
        measured_at: Seconds since the epoch; ``None`` = unknown.
    """

    value: float
    error: float = 0.0
    censored: bool = False
    origin: Origin = Origin.PROFILED
    measured_at: float | None = None

    def stamped(self, now: float) -> "Entry":
        """With ``now`` as the time of measurement where that is unknown."""
        return self if self.measured_at is not None else replace(self, measured_at=now)


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """Performance in one setting."""

    setting: Setting
    entry: Entry


@dataclass(frozen=True, slots=True)
class Measurements:
    """What the runs of one plan measured; what is absent was not measured.

    Attributes:
        performance: By quantity and allocation in thousandths of a CPU.
        tolerated: Scores 0-100.
        caused: Scores 0-100: the intensity of the source that slows others as much.
        total: Work until it is complete, in the unit of ``Quantity.RATE``; 1 where whole runs
            were timed; ``None`` = unknown.
        silent: What could not be measured, e.g. ``"tolerated/integer"``, and why.
        runs: How often the copy was started, in ``seconds`` in all.
        platform: Of the server on which ``performance`` was measured; empty = unknown.
        further: By quantity, from the runs elsewhere.
        beside: By known program: its performance with that co-runner, over that alone;
            0 = the two do not fit on one server.
        upon: By known program: performance of that one with it, over that alone; 0 as above.
        memory_peak_bytes: The most memory that was in use; ``None`` = unknown.
        neighbors: By platform: what the residents of the server press there on which a copy ran, as
            one profile; the manager adds it. Absent = no resident has a profile.
    """

    performance: Mapping[Quantity, Mapping[int, Entry]] = field(default_factory=dict)
    tolerated: Mapping[SharedResource, Entry] = field(default_factory=dict)
    caused: Mapping[SharedResource, Entry] = field(default_factory=dict)
    total: float | None = None
    silent: Mapping[str, str] = field(default_factory=dict)
    runs: int = 0
    seconds: float = 0.0
    platform: str = ""
    further: Mapping[Quantity, tuple[SettingEntry, ...]] = field(default_factory=dict)
    beside: Mapping[str, Entry] = field(default_factory=dict)
    upon: Mapping[str, Entry] = field(default_factory=dict)
    memory_peak_bytes: int | None = None
    neighbors: Mapping[str, PairProfile] = field(default_factory=dict)

    def completed_by(self, new: "Measurements") -> "Measurements":
        """With what was measured later on other platforms; how much work it is, is of the later."""
        further = {quantity: list(runs) for quantity, runs in self.further.items()}
        for quantity, row in new.performance.items():
            own = (SettingEntry(Setting(new.platform, Configuration(c)), e) for c, e in row.items())
            further.setdefault(quantity, []).extend(own)
        for quantity, runs in new.further.items():
            further.setdefault(quantity, []).extend(runs)
        return replace(
            self,
            tolerated={**self.tolerated, **new.tolerated},
            caused={**self.caused, **new.caused},
            total=new.total,
            silent={**self.silent, **new.silent},
            runs=self.runs + new.runs,
            seconds=self.seconds + new.seconds,
            further={quantity: tuple(runs) for quantity, runs in further.items()},
            neighbors={**self.neighbors, **new.neighbors},
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that is as likely too low as too high.

    Attributes:
        mean: The median.
        std: Its standard deviation: of the logarithm for a performance, in points for a score.
    """

    mean: float
    std: float


@lru_cache(maxsize=64)
def quantile(confidence: float) -> float:
    """How many standard deviations below the median a one-sided bound is."""
    return NormalDist().inv_cdf(confidence)


@dataclass(frozen=True, slots=True)
class Curve:
    """Performance by CPU (the scale-up classification), on one platform; columns ascending.

    >>> curve = Curve((500, 1000), (Estimate(10.0, 0.1), Estimate(20.0, 0.0)))
    >>> curve.at(1000).mean, round(curve.at(707).mean, 2), curve.at(250).mean
    (20.0, 14.14, 5.0)
    """

    cpu_millicpus: tuple[int, ...]
    estimates: tuple[Estimate, ...]

    def at(self, cpu_millicpus: int) -> Estimate:
        """Between columns by the logarithms of both; below the first in proportion.

        Above the last as at the last: no gain was ever measured there.
        """
        columns, estimates = self.cpu_millicpus, self.estimates
        after = bisect_left(columns, cpu_millicpus)
        if after < len(columns) and columns[after] == cpu_millicpus:
            return estimates[after]
        if after == len(columns):
            return _wider(estimates[-1], 1.0, columns[-1], cpu_millicpus)
        if after == 0:
            share = cpu_millicpus / columns[0]
            return _wider(estimates[0], share, cpu_millicpus, columns[0])
        low, high = estimates[after - 1], estimates[after]
        weight = log(cpu_millicpus / columns[after - 1]) / log(columns[after] / columns[after - 1])
        mean = exp((1 - weight) * log(low.mean) + weight * log(high.mean))
        return Estimate(mean, (1 - weight) * low.std + weight * high.std)

    def over(self, cpu_millicpus: Sequence[int]) -> tuple[list[float], list[float]]:
        """The means and deviations of ``at`` for many allocations, in a fraction of the time."""
        means, stds, columns, estimates = [], [], self.cpu_millicpus, self.estimates
        logs, last = [log(estimate.mean) for estimate in estimates], estimates[-1]
        deviations, last_variance = [estimate.std for estimate in estimates], last.std**2
        for cpu, high, weight, beyond in _between(columns, tuple(cpu_millicpus)):
            if weight is not None:
                rest = 1 - weight
                means.append(exp(rest * logs[high - 1] + weight * logs[high]))
                stds.append(rest * deviations[high - 1] + weight * deviations[high])
            elif high == len(columns):
                means.append(last.mean)
                stds.append(sqrt(last_variance + beyond))
            else:
                estimate = self.at(cpu)
                means.append(estimate.mean)
                stds.append(estimate.std)
        return means, stds


@dataclass(frozen=True, slots=True)
class Classification:
    """What a workload needs, with uncertainty.

    Attributes:
        curves: Performance by CPU, for each quantity that was measured; latency in seconds.
        shape: Performance by CPU relative to that with one CPU, from workloads of its type, where
            none of its own is measured; ``None`` = unknown.
        tolerated: Scores 0-100 by source; so with ``caused``.
        total: As in ``Measurements``.
        measured: How many of the entries were measured; 0 = all from its type (cold start).
        platform: On which the curves hold; empty = unknown.
        platforms: Performance on others, relative to that one with the same allocation; the
            deviation of the logarithm.
        by_allocation: The same by platform and allocation in thousandths of a CPU, ascending, where
            it is known so; else ``platforms`` holds for any allocation.
        servers: Performance on so many servers together, relative to one.
        held_below_seconds: The latency bound of the curve ``Quantity.HELD``.
        asked_per_second: Load under which a service was measured; ``None`` = unknown.
        saturating: The load that it was measured under takes all that it can do, whatever it is
            allocated, and keeps its bound: each client waits for its answer before it asks again.
        idle_latency_seconds: The percentile of its latency, as measured, without what grows with
            its load: L (1 - λ / X); the deviation of the logarithm. ``None`` = unknown.
        pairs: By platform, slowdowns that are known between pairs instead of by source; see
            ``model.pairs.profile_on``.
        scores_measured: Whether a score of interference was measured; else all are predicted.
    """

    estimator: str
    version: str
    curves: Mapping[Quantity, Curve] = field(default_factory=dict)
    shape: Curve | None = None
    tolerated: Mapping[SharedResource, Estimate] = field(default_factory=dict)
    caused: Mapping[SharedResource, Estimate] = field(default_factory=dict)
    total: float | None = None
    measured: int = 0
    platform: str = ""
    platforms: Mapping[str, Estimate] = field(default_factory=dict)
    servers: Mapping[int, Estimate] = field(default_factory=dict)
    held_below_seconds: float | None = None
    asked_per_second: float | None = None
    pairs: Mapping[str, PairProfile] = field(default_factory=dict)
    saturating: bool = False
    idle_latency_seconds: Estimate | None = None
    by_allocation: Mapping[str, Mapping[int, Estimate]] = field(default_factory=dict)
    scores_measured: bool = False


@lru_cache(maxsize=256)
def _between(
    columns: tuple[int, ...], cpu_millicpus: tuple[int, ...]
) -> tuple[tuple[int, int, float | None, float], ...]:
    """Each with the column above it and that one's weight; ``None`` = it is not between two.

    Also the variance that is added beyond the last column.
    """
    spans = [log(high / low) for low, high in pairwise(columns)]
    positions = []
    for cpu in cpu_millicpus:
        high, weight, beyond = bisect_left(columns, cpu), None, 0.0
        if 0 < high < len(columns) and columns[high] != cpu:
            weight = log(cpu / columns[high - 1]) / spans[high - 1]
        if high == len(columns):
            beyond = _doubled_variance(columns[-1], cpu)
        positions.append((cpu, high, weight, beyond))
    return tuple(positions)


def _wider(estimate: Estimate, share: float, low: float, high: float) -> Estimate:
    variance = estimate.std**2 + _doubled_variance(low, high)
    return Estimate(estimate.mean * share, sqrt(variance))


def _doubled_variance(low: float, high: float) -> float:
    """What is added by extrapolating from one allocation to the other."""
    doublings = log(high / low) / log(2)
    return (EXTRAPOLATION_LOG_STD * doublings) ** 2
