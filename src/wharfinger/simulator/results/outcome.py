"""What came of a run: one fate for each workload, series over time, and the numbers of the report.

Definitions (docs/simulator.md has them for readers):

* A job's *performance* is the time that it would have taken alone on the best platform over the
  time from being handed in to its end; a service's is the mean over its lifetime of what it could
  answer within its latency bound over what it was asked, at most 1.
* *Target performance* is what was achieved over the target, at most 1: the stated completion time
  over that from being handed in to the end, the mean rate over the stated rate, or for a service
  its performance against what its target asks.
* What is lost of performance (1 minus it) is told apart: to the platform, to an allocation that is
  less than the whole server, to neighbors, and to waiting (queueing, profiling, starting, being
  suspended, doing work again). The four sum to what is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one workload.

    Attributes:
        end: The phase in which the manager has it at the end of the run; ``"unfinished"`` where
            it had not ended.
        platform: On which it did most; empty = it never ran.
        wait_seconds: Until it ran first; to the end of the run where it never did.
        performance: 1 = alone on its best platform; 0 where it failed.
        target_performance: Achieved over target, at most 1; ``None`` = it has no target.
        platform_loss: As above; so are the other losses.
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


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """How the cluster was over time; all times are seconds from the run's beginning.

    Attributes:
        edges: (B + 1,) of the bins.
        groups: Names of the rows of ``utilization``: servers, or several together where there are
            many.
        utilization: (G, B) CPU that was used over what there is, mean over a bin.
        required_cpus: (B,) CPUs that the workloads could use, which are there and have not ended.
        allocated_cpus: (B,) that were given away.
        used_cpus: (B,) that did something.
        latency_edges_seconds: (L + 1,) of the histograms of latency, ascending; the last is
            infinite.
        latency: By service, (L,) share of its time with a latency, at the percentile that its
            target bounds, in each.
        bounds_seconds: Of latency, by service; those without a bound are absent.
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
    fates: tuple[Fate, ...] = ()
    series: Series | None = None
    notes: tuple[str, ...] = ()
