"""How much CPU a target takes: the least at which it is reached with the stated confidence.

Source: Quasar 3.3, where the scheduler allocates the least amount of resources that meets the
target, scaling up within a server first. Added: a target counts as reached when it is with a
stated probability.
"""

from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import (
    pace_with,
    parts_of,
    pressed,
    quantile,
    reached_probability,
    worse_by,
)
from wharfinger.model.decisions import Prediction
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Estimate
from wharfinger.model.view import ClusterView, PlacementRequest

STEP_MILLICPUS = 50
MAX_SIZES = 200
PLATEAU = 0.98
"""More CPU than gives this share of the best performance is not worth giving."""
HOPELESS = 0.05
"""Below this probability even on a whole server, a target is called too high."""


def sizes(largest_millicpus: int, *, fractional: bool) -> NDArray[np.int64]:
    """Allocations that are considered, ascending; empty where not even the smallest fits."""
    step = STEP_MILLICPUS if fractional else MILLICPUS_PER_CPU
    step *= max(1, -(-largest_millicpus // (step * MAX_SIZES)))
    return np.arange(step, largest_millicpus + 1, step, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a target takes, server by server.

    Attributes:
        cpu_millicpus: (S,) the least that reaches the target; where nothing does, what gives
            the most; 0 where a server has no CPU at all.
        reached: (S,) whether the target is reached with the confidence.
        paces: By size: performance over target with no neighbours.
        drop: (S,) of the logarithm, by the neighbours.
        drop_variance: (S,).
        confidence: The one that was asked for.
    """

    cpu_millicpus: NDArray[np.int64]
    reached: NDArray[np.bool_]
    paces: dict[int, Estimate]
    drop: NDArray[np.float64]
    drop_variance: NDArray[np.float64]
    confidence: float

    def pace_on(self, row: int) -> Estimate:
        """Performance over target on one server, with what it would be given there."""
        alone = self.paces[int(self.cpu_millicpus[row])]
        return worse_by(alone, float(self.drop[row]), float(self.drop_variance[row]))

    def prediction_on(self, row: int) -> Prediction:
        """The same with its interval."""
        return prediction(self.pace_on(row), self.confidence)

    @property
    def hopeless(self) -> bool:
        """Whether the target is out of reach even alone on the largest server."""
        best = max((reached_probability(pace) for pace in self.paces.values()), default=0.0)
        return best < HOPELESS


def prediction(pace: Estimate, confidence: float) -> Prediction:
    """An estimate of performance over target as a decision keeps it."""
    half = quantile(confidence) * pace.std
    return Prediction(pace.mean, pace.mean * exp(-half), pace.mean * exp(half), confidence)


def size(request: PlacementRequest, view: ClusterView, confidence: float) -> Sizing | None:
    """The least CPU on each server; ``None`` where nothing can be predicted."""
    known = request.classification
    if known is None or not len(view.names):
        return None
    parts = parts_of(request.workload, known, request.waited_seconds)
    grid = sizes(int(view.cpu_capacity.max()), fractional=view.capabilities.fractional_cpu)
    if not parts or not grid.size:
        return None
    paces = {cpu: pace_with(parts, cpu, confidence) for cpu in grid.tolist()}
    medians = np.array([log(pace.mean) for pace in paces.values()])
    variances = np.array([pace.std**2 for pace in paces.values()])
    drop, drop_variance = pressed(known, view.caused, view.caused_variance)
    z = quantile(confidence)
    chosen = np.zeros(len(view.names), dtype=np.int64)
    reached = np.zeros(len(view.names), dtype=np.bool_)
    # Few kinds of servers differ in what weighs here; each kind is looked at once.
    kinds = np.stack([view.cpu_capacity.astype(np.float64), drop, drop_variance])
    distinct, kind_of = np.unique(kinds, axis=1, return_inverse=True)
    for at, (capacity, kind_drop, kind_variance) in enumerate(distinct.T):
        within = int(np.searchsorted(grid, capacity, side="right"))
        low = medians[:within] - kind_drop - z * np.sqrt(variances[:within] + kind_variance)
        enough = np.flatnonzero(low >= 0)
        rows = kind_of.ravel() == at
        if enough.size:
            chosen[rows], reached[rows] = grid[enough[0]], True
        elif within:
            best = medians[:within].max() + log(PLATEAU)
            chosen[rows] = grid[np.flatnonzero(medians[:within] >= best)[0]]
    return Sizing(chosen, reached, paces, drop, drop_variance, confidence)
