"""One classification's answer for one workload: performance along one axis, from its reference.

An axis is what one classification varies while the rest stays as in the reference run: the
configuration, the number of servers, or the platform. It is a Gaussian over the axis's columns,
in logarithms, that is zero at the reference. Columns between two others, and beyond the last, are
linear in them, so that covariances stay exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.utility import Kind
from wharfinger.estimators.estimator import Prediction
from wharfinger.estimators.matrix import Array
from wharfinger.model.configuration import Configuration

DOUBLING_STD = 0.3
"""In logarithms, for each doubling of CPU or of servers beyond the columns."""
UNKNOWN_STD = 0.5
"""In logarithms, of a platform or a parameter that no known program was measured with."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where on an axis something lies.

    Attributes:
        weights: Of columns, by index; they sum to 1. Empty = nowhere near: all is doubt.
        variance: Added, because it lies beyond the columns or is unknown to them.
        shift: Added to the mean.
    """

    weights: Mapping[int, float]
    variance: float = 0.0
    shift: float = 0.0


_UNKNOWN = Point({}, UNKNOWN_STD**2)


@dataclass(frozen=True, eq=False)
class Axis:
    """A workload's row, relative to its reference.

    Attributes:
        kind: Which classification.
        reference: Its column at which the workload was measured.
        prediction: The whole row.
        noise_variance: Of the measurements by which it was predicted, in logarithms.
    """

    kind: Kind
    reference: str
    prediction: Prediction
    noise_variance: float = 0.0

    @cached_property
    def _at(self) -> dict[str, int]:
        return {column: j for j, column in enumerate(self.prediction.columns)}

    @cached_property
    def _points(self) -> dict[str, Point]:
        return {}

    def point(self, value: str) -> Point:
        """Where a value lies."""
        known = self._points.get(value)
        if known is None:
            known = self._points[value] = self._located(value)
        return known

    def _located(self, value: str) -> Point:
        j, between = self._at.get(value), _LOCATE.get(self.kind)
        if j is not None:
            return Point({j: 1.0})
        # Between two platforms there is nothing.
        return between(self.prediction.columns, value) if between else _UNKNOWN

    def change(self, value: str) -> tuple[float, float]:
        """Mean and variance of ln(performance there / at the reference)."""
        means, covariance = self.changes([value])
        return float(means[0]), float(covariance[0, 0])

    def changes(self, values: Sequence[str]) -> tuple[Array, Array]:
        """(K,) means and (K, K) covariance of ln(performance there / at the reference)."""
        origin = self.point(self.reference)
        # Relative to what nobody knows, nothing is known.
        points = [self.point(value) if origin.weights else _UNKNOWN for value in values]
        used, lines = self._lines(points, origin)
        away = np.array([value != self.reference for value in values])
        shifts = np.array([point.shift - origin.shift for point in points])
        means = lines @ self.prediction.log_mean[used] + np.where(away, shifts, 0.0)
        covariance = lines @ self._covariance(used) @ lines.T
        # What lies beyond the columns has its own doubt, the same wherever it is asked for.
        doubt = np.where(away, [point.variance for point in points], 0.0)
        covariance += np.where(are_same(values), doubt, 0.0)
        shared = self.noise_variance + (origin.variance if origin.weights else 0.0)
        return means, covariance + shared * np.outer(away, away)

    def _lines(self, points: Sequence[Point], origin: Point) -> tuple[list[int], Array]:
        """Columns that are used, and (K, used) how each point less the origin is made of them."""
        used = sorted({j for point in (*points, origin) for j in point.weights})
        place = {j: i for i, j in enumerate(used)}
        lines = np.zeros((len(points), len(used)))
        for line, point in zip(lines, points, strict=True):
            if point.weights:
                for sign, weights in ((1.0, point.weights), (-1.0, origin.weights)):
                    for j, weight in weights.items():
                        line[place[j]] += sign * weight
        return used, lines

    def _covariance(self, used: list[int]) -> Array:
        if len(used) == 1 or self._is_known_but_one(used):
            return np.diag(self.prediction.log_std[used] ** 2)
        return self.prediction.covariance[np.ix_(used, used)]

    def _is_known_but_one(self, used: list[int]) -> bool:
        """Where at most one is not certain there is no covariance to work out."""
        return int((self.prediction.log_std[used] > 0).sum()) <= 1


def are_same(values: Sequence[str]) -> NDArray[np.bool_]:
    """(K, K) which of them are equal."""
    numbers = np.unique(np.array(values, dtype=str), return_inverse=True)[1]
    return np.asarray(numbers[:, None] == numbers)


def _locate_servers(columns: Sequence[str], value: str) -> Point:
    return _between({j: float(column) for j, column in enumerate(columns)}, float(value))


def _locate_configuration(columns: Sequence[str], value: str) -> Point:
    """Along CPU, among configurations that are the same but for it; below them in proportion."""
    wanted = Configuration.parse(value)
    alike = {}
    for j, column in enumerate(columns):
        configuration = Configuration.parse(column)
        if configuration.with_cpu(wanted.cpu_millicpus) == wanted:
            alike[j] = float(configuration.cpu_millicpus)
    point = _between(alike, float(wanted.cpu_millicpus))
    least = min(alike.values(), default=0.0)
    if wanted.cpu_millicpus >= least:
        return point
    return replace(point, shift=log(wanted.cpu_millicpus / least))


def _between(amounts: Mapping[int, float], wanted: float) -> Point:
    """By the logarithms of two neighbours; beyond the last as it, with more doubt."""
    if not amounts:
        return _UNKNOWN
    order = sorted(amounts, key=lambda j: amounts[j])
    low = [j for j in order if amounts[j] <= wanted]
    high = [j for j in order if amounts[j] >= wanted]
    if not low or not high:
        end = order[0] if not low else order[-1]
        doublings = abs(log(wanted / amounts[end])) / log(2)
        return Point({end: 1.0}, (DOUBLING_STD * doublings) ** 2)
    before, after = low[-1], high[0]
    if before == after:
        return Point({before: 1.0})
    share = log(wanted / amounts[before]) / log(amounts[after] / amounts[before])
    return Point({before: 1 - share, after: share})


_LOCATE: Mapping[Kind, Callable[[Sequence[str], str], Point]] = {
    Kind.SCALE_UP: _locate_configuration,
    Kind.SCALE_OUT: _locate_servers,
}
