"""How residents stand to their targets, and what a newcomer takes from them, server by server."""

from dataclasses import dataclass
from math import inf, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array, Resident, ResidentsLoss
from wharfinger.model.arrays import normal_below
from wharfinger.model.profile import quantile
from wharfinger.native import sum_losses

MIN_KEPT = 0.01
"""Of its target: a tolerance of all of it has no logarithm."""
LEAST_STD = 0.02
"""Of the logarithm of a predicted performance: nothing is known better than it is measured."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Logarithms: performance over target without neighbors, its variance, what it must keep."""

    alone: float
    variance: float
    kept: float

    @classmethod
    def of(cls, resident: Resident) -> "Standing":
        """By its last decision; without a prediction it is taken to reach its target."""
        kept, predicted = log(max(MIN_KEPT, 1 - resident.tolerance)), resident.predicted
        if predicted is None:
            return cls(0.0, 0.0, kept)._of_part(resident.share)
        if predicted.alone is not None:
            alone = log(max(predicted.alone, MIN_KEPT))
            return cls(alone, predicted.alone_std**2, kept)._of_part(resident.share)
        mean, low = max(predicted.mean, MIN_KEPT), max(predicted.low, MIN_KEPT**2)
        z = quantile(predicted.confidence) if predicted.confidence < 1 else inf
        variance = (log(mean / low) / z) ** 2 if z > 0 and low < mean else 0.0
        return cls(log(mean), variance, kept)._of_part(resident.share)

    def _of_part(self, share: float) -> "Standing":
        """What a part of it may lose before the target is missed: the whole loses only its share.

        >>> Standing(0.1, 0.01, 0.0)._of_part(0.5)
        Standing(alone=0.2, variance=0.04, kept=0.0)
        """
        if share == 1.0:
            return self
        margin = (self.alone - self.kept) / share
        return Standing(self.kept + margin, self.variance / share**2, self.kept)


def residents_loss(
    margin: Array,
    variance: Array,
    drop: Array,
    drop_variance: Array,
    server: NDArray[np.int64],
    servers: int,
) -> ResidentsLoss:
    """What R residents lose to a newcomer, added up server by server.

    Args:
        margin: (R,) logarithm of the expected performance over what must be kept.
        variance: (R,) of that.
        drop: (R,) what the newcomer takes off it.
        drop_variance: (R,) of that.
        server: (R,) row of each one's server; -1 = nobody.
        servers: How many rows there are.
    """
    least = LEAST_STD**2
    before = normal_below(margin / np.sqrt(variance + least))
    after = normal_below((margin - drop) / np.sqrt(variance + np.maximum(drop_variance, 0) + least))
    targets, performance = np.zeros(servers), np.zeros(servers)
    sum_losses(before, after, drop, server, targets, performance)
    return ResidentsLoss(targets, performance)
