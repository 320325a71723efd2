"""Performance by platform and allocation: the heterogeneity classification (Quasar 3.2).

A column is a platform with an allocation, e.g. ``m1.large@2000m``: platforms are compared with the
same allocation on each, and small ones with what they have. A column may be a platform alone, where
no more is known; then its ratio is taken to hold for any allocation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np

from wharfinger.estimators.recommender import Recommender
from wharfinger.model.arrays import Array
from wharfinger.model.configuration import Setting
from wharfinger.model.profile import Entry, Estimate

_AT = "@"
_UNIT = "m"
ByAllocation = Mapping[str, Mapping[int, Estimate]]
"""By platform and thousandths of a CPU."""


def platform_column(platform: str, cpu_millicpus: int) -> str:
    """The column of a platform with an allocation.

    >>> platform_column("m1.large", 2000), split_column("m1.large@2000m"), split_column("m1.large")
    ('m1.large@2000m', ('m1.large', 2000), ('m1.large', None))
    """
    return f"{platform}{_AT}{cpu_millicpus}{_UNIT}"


def split_column(column: str) -> tuple[str, int | None]:
    """The platform of a column, and its allocation; ``None`` = any."""
    platform, mark, amount = column.rpartition(_AT)
    number = amount.removesuffix(_UNIT)
    if mark and amount.endswith(_UNIT) and number.isascii() and number.isdecimal() and int(number):
        return platform, int(number)
    return column, None


def has_allocations(columns: Iterable[str]) -> bool:
    """Whether they tell platforms apart by allocation."""
    return any(split_column(column)[1] is not None for column in columns)


@dataclass(frozen=True, slots=True)
class PlatformRow:
    """One workload's performance by platform and allocation, relative to that on ``platform``.

    ``entries`` are of runs on one server, in one quantity where more is better.
    """

    platform: str
    entries: Mapping[Setting, Entry]

    def changes(self, recommender: Recommender, noise: float) -> dict[str, dict[int, Estimate]]:
        """By platform and allocation, performance over that on ``platform`` with the same.

        Where the recommender's columns have both; ``noise`` is of measurements, relative.
        """
        columns = recommender.matrix.columns
        at = {split_column(column): j for j, column in enumerate(columns)}
        row = {
            platform_column(setting.platform, setting.configuration.cpu_millicpus): entry.value
            for setting, entry in self.entries.items()
        }
        prediction = recommender.predict({c: value for c, value in row.items() if c in columns})
        mean, covariance = prediction.log_mean, prediction.covariance
        changes: dict[str, dict[int, Estimate]] = {}
        for (platform, cpu), there in at.items():
            here = at.get((self.platform, cpu))
            if cpu is None or here is None or platform == self.platform:
                continue
            variance = covariance[there, there] + covariance[here, here]
            variance += noise**2 - 2 * covariance[there, here]
            ratio = exp(float(mean[there] - mean[here]))
            estimate = Estimate(ratio, sqrt(max(float(variance), noise**2)))
            changes.setdefault(platform, {})[cpu] = estimate
        return {platform: dict(sorted(row.items())) for platform, row in changes.items()}


def ratio_at(row: Mapping[int, Estimate], cpu_millicpus: int) -> Estimate:
    """With an allocation: between two by their logarithms, else as with the nearest.

    >>> row = {1000: Estimate(1.0, 0.1), 4000: Estimate(0.25, 0.3)}
    >>> [ratio_at(row, cpu) for cpu in (500, 2000, 8000)]
    [Estimate(mean=1.0, std=0.1), Estimate(mean=0.5, std=0.2), Estimate(mean=0.25, std=0.3)]
    """
    logs, stds = ratios_over(row, [cpu_millicpus])
    return Estimate(exp(float(logs[0])), float(stds[0]))


def ratios_over(row: Mapping[int, Estimate], cpu_millicpus: Sequence[int]) -> tuple[Array, Array]:
    """(G,) logarithms of the ratio with many allocations, and their deviations."""
    weights = _weights(tuple(row), tuple(cpu_millicpus))
    logs = np.array([log(estimate.mean) for estimate in row.values()])
    return weights @ logs, weights @ np.array([estimate.std for estimate in row.values()])


@lru_cache(maxsize=256)
def _weights(known: tuple[int, ...], wanted: tuple[int, ...]) -> Array:
    """(G, K) of each known allocation in each that is wanted."""
    places = np.interp(np.log(wanted), np.log(known), np.arange(len(known)))
    return np.asarray(np.maximum(0.0, 1 - np.abs(places[:, None] - np.arange(len(known)))))
