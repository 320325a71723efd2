"""How much CPU a target takes: the least at which it is reached with the stated confidence.

Source: Quasar 3.3, where the scheduler allocates the least amount of resources that meets the
target, scaling up within a server first. Added: a target counts as reached when it is with a
stated probability.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import (
    Part,
    pace_with,
    parts_of,
    performance_with,
    pressed,
    quantile,
    reached_probability,
    slower,
    worse_by,
)
from wharfinger.contention.by_pair import Felt
from wharfinger.model.decisions import Prediction
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Estimate
from wharfinger.model.view import ClusterView, PlacementRequest

STEP_MILLICPUS = 50
FINEST = 0.025
"""Two allocations that are considered differ by this share at least."""
BLOCK = 512
"""Servers that are looked at together: few enough to stay in the cache."""
PLATEAU = 0.98
"""More CPU than gives this share of the best performance is not worth giving."""
HOPELESS = 0.05
"""Below this probability even on a whole server, a target is called too high."""


def sizes(largest_millicpus: int, *, fractional: bool) -> NDArray[np.int64]:
    """Allocations that are considered, ascending, up to the largest that whole steps make.

    Fine where little is needed, however large the largest server is; empty where not even one
    step fits.

    >>> sizes(4000, fractional=False).tolist(), sizes(49, fractional=True).tolist()
    ([1000, 2000, 3000, 4000], [])
    """
    return np.array(_sizes(largest_millicpus, fractional=fractional), dtype=np.int64)


@lru_cache(maxsize=64)
def _sizes(largest_millicpus: int, *, fractional: bool) -> tuple[int, ...]:
    step = STEP_MILLICPUS if fractional else MILLICPUS_PER_CPU
    largest = largest_millicpus // step * step
    found: list[int] = []
    size = step
    while size < largest:
        found.append(size)
        size = max(size + step, -(-round(size * (1 + FINEST)) // step) * step)
    return (*found, largest) if largest else ()


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a target takes, server by server.

    Attributes:
        cpu_millicpus: (S,) the least that reaches the target; where nothing does, what gives
            the most of what is free, and no less than would do it without neighbours if doubt
            were none; 0 where a server has no CPU at all.
        reached: (S,) whether the target is reached with the confidence.
        parts: Of the target, as far as they are classified.
        paces: By size: performance over target with no neighbours.
        drop: (S,) of the logarithm, by the neighbours, and by the platform.
        drop_variance: (S,).
        beside: What of the drop is known between pairs; ``None`` = nothing is.
        confidence: The one that was asked for.
        hopeless: The target was out of reach from the beginning, even alone on the largest
            server. One that has only waited too long is not: late is better than never.
    """

    cpu_millicpus: NDArray[np.int64]
    reached: NDArray[np.bool_]
    parts: list[Part]
    paces: dict[int, Estimate]
    drop: NDArray[np.float64]
    drop_variance: NDArray[np.float64]
    beside: Felt | None
    confidence: float
    hopeless: bool

    def pace_on(self, row: int) -> Estimate:
        """Performance over target on one server, with what it would be given there."""
        alone = self.paces[int(self.cpu_millicpus[row])]
        return worse_by(alone, float(self.drop[row]), float(self.drop_variance[row]))

    def prediction_on(self, row: int) -> Prediction:
        """The same with its interval."""
        found = prediction(self.pace_on(row), self.confidence)
        drop, variance = float(self.drop[row]), float(self.drop_variance[row])
        cpu = int(self.cpu_millicpus[row])
        terms = performance_with(self.parts, cpu, drop, variance, self.confidence)
        found = replace(found, performance=terms)
        if self.beside is None:
            return found
        drop -= float(self.beside.drop[row])
        variance -= float(self.beside.variance[row])
        alone = worse_by(self.paces[cpu], drop, max(variance, 0.0))
        return replace(found, alone=alone.mean, alone_std=alone.std)

    def paces_given(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(S,) logarithm of performance over target with what each server would give; variance."""
        sizes_known = np.array(list(self.paces))
        at = np.minimum(np.searchsorted(sizes_known, self.cpu_millicpus), len(sizes_known) - 1)
        medians = np.array([log(pace.mean) for pace in self.paces.values()])
        variances = np.array([pace.std**2 for pace in self.paces.values()])
        return medians[at] - self.drop, variances[at] + self.drop_variance


def prediction(pace: Estimate, confidence: float) -> Prediction:
    """An estimate of performance over target as a decision keeps it."""
    half = quantile(confidence) * pace.std
    return Prediction(pace.mean, pace.mean * exp(-half), pace.mean * exp(half), confidence)


def size(
    request: PlacementRequest, view: ClusterView, confidence: float, beside: Felt | None = None
) -> Sizing | None:
    """The least CPU on each server; ``None`` where nothing can be predicted.

    Args:
        request: What is to be placed.
        view: The servers.
        confidence: With which the target must be reached.
        beside: What neighbours do to it, as far as it is known between pairs.
    """
    known = request.classification
    if known is None or not len(view.names):
        return None
    parts = parts_of(request.workload, known, request.waited_seconds)
    grid = sizes(int(view.cpu_capacity.max()), fractional=view.capabilities.fractional_cpu)
    if not parts or not grid.size:
        return None
    paces = {cpu: pace_with(parts, cpu, confidence) for cpu in grid.tolist()}
    at_once = parts_of(request.workload, known, 0.0)
    # The largest is mostly the best: so one look is enough, where there is hope.
    platform_drop, platform_variance = slower(known, view.platforms)
    fastest = int(platform_drop[view.platform].argmin())
    best = platform_drop[view.platform][fastest], platform_variance[view.platform][fastest]
    alone = (
        worse_by(pace_with(at_once, cpu, confidence), *best) for cpu in reversed(grid.tolist())
    )
    hopeless = all(reached_probability(pace) < HOPELESS for pace in alone)
    medians = np.array([log(pace.mean) for pace in paces.values()])
    variances = np.array([pace.std**2 for pace in paces.values()])
    drop, drop_variance = pressed(known, view.caused, view.caused_variance)
    drop = drop + platform_drop[view.platform]
    drop_variance = drop_variance + platform_variance[view.platform]
    if beside is not None:
        drop, drop_variance = drop + beside.drop, drop_variance + beside.variance
    first = _first_enough(medians, variances, drop, drop_variance, quantile(confidence))
    within = np.searchsorted(grid, view.cpu_capacity, side="right")
    reached = first < within
    most = np.zeros(len(grid) + 1, dtype=np.int64)
    for sizes_within in np.unique(within[within > 0]).tolist():
        enough = medians[:sizes_within].max() + log(PLATEAU)
        most[sizes_within] = grid[np.flatnonzero(medians[:sizes_within] >= enough)[0]]
    chosen = grid[np.minimum(first, len(grid) - 1)]
    if not reached.all():
        eased = medians
        if not (medians >= 0).any():
            now = (pace_with(at_once, cpu, confidence) for cpu in grid.tolist())
            eased = np.array([log(pace.mean) for pace in now])
        chosen = np.where(reached, chosen, _most_that_fits(eased, grid, most[within], view))
    return Sizing(chosen, reached, parts, paces, drop, drop_variance, beside, confidence, hopeless)


def _most_that_fits(
    medians: NDArray[np.float64],
    grid: NDArray[np.int64],
    most: NDArray[np.int64],
    view: ClusterView,
) -> NDArray[np.int64]:
    """What to give where no allocation reaches the target: nobody waits for more to be sure.

    Args:
        medians: (G,) of the logarithm of performance over target, by size, without neighbours,
            and where it has waited too long for any, as it was when it was handed in.
        grid: (G,) sizes.
        most: (S,) what gives the most on each server.
        view: What is free there.

    Returns:
        (S,) what gives the most of what is free; where less is free than the target should take
        without neighbours, that: there is no room then.
    """
    if not (medians >= 0).any():
        return most
    least = grid[np.flatnonzero(medians >= 0)[0]]
    free = np.searchsorted(grid, view.cpu_capacity - view.cpu_allocated, side="right")
    fits = np.where(free > 0, grid[np.maximum(free - 1, 0)], 0)
    return np.asarray(np.minimum(most, np.maximum(fits, least)))


def _first_enough(
    medians: NDArray[np.float64],
    variances: NDArray[np.float64],
    drop: NDArray[np.float64],
    drop_variance: NDArray[np.float64],
    z: float,
) -> NDArray[np.int64]:
    """The smallest allocation at which the target is reached on each server.

    Args:
        medians: (G,) of the logarithm of performance over target, by size.
        variances: (G,) of that.
        drop: (S,) by the neighbours.
        drop_variance: (S,).
        z: Standard deviations that stand for the confidence.

    Returns:
        (S,) indices; G = none.
    """
    alike = not drop.any() and not drop_variance.any()
    servers = 1 if alike else len(drop)
    first = np.empty(servers, dtype=np.int64)
    for start in range(0, servers, BLOCK):
        block = slice(start, min(start + BLOCK, servers))
        low = medians[:, None] - z * np.sqrt(variances[:, None] + drop_variance[block])
        enough = low >= drop[block]
        first[block] = np.where(enough.any(axis=0), enough.argmax(axis=0), len(medians))
    return np.broadcast_to(first, len(drop)) if alike else first
