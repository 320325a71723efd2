"""What came of a run: one outcome for each job, series over time, and the numbers of the report.

docs/simulator.md defines them. A service's performance is the mean over its lifetime of what it
could answer within its latency bound over what it was asked, at most 1; its target performance is
that against what its target asks. The four losses sum to 1 minus the performance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.workload import WorkloadType


def _none() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of one workload.

    Attributes:
        end: Its last phase in the manager; ``"unfinished"`` where it had not ended.
        platform: On which it did most; empty = it never ran.
        wait_seconds: Until it ran first; to the end of the run where it never did.
        performance: 1 = alone on its best platform; 0 where it failed.
        target_performance: Achieved over target, at most 1; ``None`` = it has no target.
        overhead: Share of the time from its submission to its end in which it did no work that
            counts; 1 where it failed.
        requests: Of a service: what it was asked, as far as its target has it answer that.
        answered: Of those, what it answered; ``in_bound``, what it could within its bound.
        requests_after_rises: In the minutes after its load had risen; so are
            ``answered_after_rises`` and ``in_bound_after_rises``.
    """

    name: str
    application: str
    type: str
    end: str
    platform: str
    submitted_at: float
    ended_at: float | None
    wait_seconds: float
    performance: float
    target_performance: float | None
    kept: bool
    platform_loss: float = 0.0
    allocation_loss: float = 0.0
    interference_loss: float = 0.0
    waiting_loss: float = 0.0
    overhead: float = 0.0
    requests: float = 0.0
    answered: float = 0.0
    in_bound: float = 0.0
    requests_after_rises: float = 0.0
    answered_after_rises: float = 0.0
    in_bound_after_rises: float = 0.0

    @property
    def seconds(self) -> float:
        """From its submission to its end; infinite = it has not ended."""
        return inf if self.ended_at is None else self.ended_at - self.submitted_at

    @property
    def ideal_seconds(self) -> float:
        """Of a job that has ended: alone, at once, on its best platform."""
        return self.performance * self.seconds


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """How the cluster was over time; all times are seconds from the run's beginning.

    Attributes:
        edges: (B + 1,) of the bins.
        groups: Names of the rows of ``utilization``: servers, or several of many together.
        utilization: (G, B) CPU that was used over what there is, mean over a bin.
        required_cpus: (B,) CPUs that the workloads could use, which are there and have not ended.
        allocated_cpus: (B,) that were given away.
        used_cpus: (B,) that did something.
        latency_edges_seconds: (L + 1,) of the histograms of latency, ascending to infinity.
        latency: By service, (L,) share of its time with each latency, at its target's percentile.
        bounds_seconds: Of latency, by service; those without a bound are absent.
        total_cpus: Of all servers.
        ideal_cpus: (B,) CPUs that would be required, had each job run at once, alone, on its best
            platform.
        performance: (B,) mean performance of those that run: rate over that alone on their best
            platform; NaN where nothing runs.
        after_edges: (A + 1,) seconds since a job entered a phase; negative = before.
        after_change: (A,) mean performance of such jobs, 0 while they stand still; of phases that
            last as long, after one that did. NaN = there are none.
        asked_per_second: (B,) requests to services, as far as targets have them answered; of those
            ``answered_per_second`` were answered, ``in_bound_per_second`` could be in their bound.
    """

    edges: NDArray[np.float64]
    groups: tuple[str, ...]
    utilization: NDArray[np.float64]
    required_cpus: NDArray[np.float64]
    allocated_cpus: NDArray[np.float64]
    used_cpus: NDArray[np.float64]
    latency_edges_seconds: NDArray[np.float64]
    latency: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    bounds_seconds: Mapping[str, float] = field(default_factory=dict)
    total_cpus: float = 0.0
    ideal_cpus: NDArray[np.float64] = field(default_factory=_none)
    performance: NDArray[np.float64] = field(default_factory=_none)
    after_edges: NDArray[np.float64] = field(default_factory=_none)
    after_change: NDArray[np.float64] = field(default_factory=_none)
    asked_per_second: NDArray[np.float64] = field(default_factory=_none)
    answered_per_second: NDArray[np.float64] = field(default_factory=_none)
    in_bound_per_second: NDArray[np.float64] = field(default_factory=_none)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One run.

    Attributes:
        summary: The report's numbers by their stable keys, in the order in which they are shown.
        notes: What a reader should know of how its world was made, a sentence each.
    """

    scenario: str
    policy: str
    admission: str
    seed: int
    summary: Mapping[str, float | int | None]
    fates: tuple[JobOutcome, ...] = ()
    series: Series | None = None
    notes: tuple[str, ...] = ()

    @property
    def ended(self) -> list[JobOutcome]:
        """Of all but best-effort work what has ended, and did not fail."""
        return [
            fate
            for fate in self.fates
            if fate.ended_at is not None
            and fate.performance > 0
            and fate.type != WorkloadType.BEST_EFFORT
        ]
