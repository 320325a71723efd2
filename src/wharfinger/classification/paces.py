"""Performance by platform with one allocation, from measurements that err.

An estimator takes entries for exact. Here they have errors: given the first entry, which says how
fast a program is, it tells the others with their covariance, and each further measurement corrects
all of them by its own variance (Gaussian conditioning with noise). A platform on which a program
ran for long is known better than one where a copy ran for seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from wharfinger.estimators.recommender import Recommender
from wharfinger.model.arrays import Array
from wharfinger.model.profile import Entry, Estimate, Origin

LEAST_ERROR = {Origin.OBSERVED: 0.01}
"""Relative, of what is measured; of other origins ``OTHER_ERROR``: runs of one program differ."""
OTHER_ERROR = 0.03


def error_of(entry: Entry) -> float:
    """Standard error of an entry's logarithm."""
    return max(entry.error, LEAST_ERROR.get(entry.origin, OTHER_ERROR))


@dataclass(frozen=True, slots=True, eq=False)
class Paces:
    """Performance of one program by platform, in logarithms.

    Attributes:
        mean: (P,) by the platforms' order; ``covariance`` (P, P).
        measured: Where it was measured.
    """

    platforms: tuple[str, ...]
    mean: Array
    covariance: Array
    measured: frozenset[str]

    @property
    def variance(self) -> Array:
        """(P,) of each by itself."""
        return np.maximum(np.diag(self.covariance), 0.0)

    @property
    def best_known(self) -> str:
        """The platform on which its performance is least in doubt, of those measured."""
        at = {name: float(self.variance[j]) for j, name in enumerate(self.platforms)}
        return min(self.measured, key=lambda name: (at[name], name))

    def on(self, platform: str) -> Estimate:
        """Performance on one of the platforms."""
        j = self.platforms.index(platform)
        return Estimate(exp(float(self.mean[j])), sqrt(float(self.variance[j])))

    def relative_to(self, platform: str) -> dict[str, Estimate]:
        """On the others over that on one; the deviation is what it adds to that one's doubt."""
        here = self.platforms.index(platform)
        ratios = np.exp(self.mean - self.mean[here])
        more = np.sqrt(np.maximum(self.variance - self.variance[here], 0.0))
        pairs = zip(self.platforms, ratios.tolist(), more.tolist(), strict=True)
        return {name: Estimate(ratio, std) for name, ratio, std in pairs if name != platform}


def expected(recommender: Recommender) -> tuple[str, dict[str, Estimate]]:
    """The platform on which programs are fastest by what is known of others; those over it."""
    told = recommender.predict({})
    columns, covariance = recommender.matrix.columns, told.covariance
    best = int(np.argmax(told.log_mean))
    own = np.diag(covariance)
    apart = np.sqrt(np.maximum(own + own[best] - 2 * covariance[best], 0.0))
    ratios = np.exp(told.log_mean - told.log_mean[best])
    rows = zip(columns, ratios.tolist(), apart.tolist(), strict=True)
    return columns[best], {name: Estimate(ratio, std) for name, ratio, std in rows}


def paces(recommender: Recommender, entries: Mapping[str, Entry]) -> Paces | None:
    """What entries by platform say of all; ``None`` = none of them is a column.

    Entries are above zero, all with the same allocation.
    """
    columns = recommender.matrix.columns
    known = {name: entry for name, entry in entries.items() if name in columns}
    if not known:
        return None
    # The surest says how fast it is; what the others say is then relative to it.
    first = min(known, key=lambda name: (error_of(known[name]), name))
    told = recommender.predict({first: known[first].value})
    mean = np.array(told.log_mean, dtype=np.float64)
    covariance = np.array(told.covariance, dtype=np.float64) + error_of(known[first]) ** 2
    others = [name for name in known if name != first]
    if others:
        at = [columns.index(name) for name in others]
        seen = np.array([log(known[name].value) for name in others])
        noise = np.diag([error_of(known[name]) ** 2 for name in others])
        gain = np.linalg.solve(covariance[np.ix_(at, at)] + noise, covariance[at]).T
        mean = mean + gain @ (seen - mean[at])
        covariance = covariance - gain @ covariance[at]
    return Paces(columns, mean, covariance, frozenset(known))
