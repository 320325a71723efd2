"""One classification's answer for one workload: performance along one axis, from its reference.

An axis is what one classification varies: the configuration, the number of servers, or the
platform. It is a Gaussian over the axis's columns, in logarithms, zero at the reference. Columns
between two others, and beyond the last, are linear in them, so that covariances stay exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, sqrt

import numpy as np

from wharfinger.classification.utility import Aspect
from wharfinger.errors import InvalidInput
from wharfinger.estimators.estimator import RowPrediction
from wharfinger.model.arrays import Array
from wharfinger.model.configuration import Configuration, Setting

AXES = (Aspect.SCALE_UP, Aspect.SCALE_OUT, Aspect.HETEROGENEITY)
DOUBLING_STD = 0.3
"""In logarithms, for each doubling of CPU or of servers beyond the columns."""
UNKNOWN_STD = 0.5
"""In logarithms, of a platform or a parameter that no known program was measured with."""


def value_on(kind: Aspect, setting: Setting) -> str:
    """The column of a classification that a setting has."""
    match kind:
        case Aspect.SCALE_UP:
            return setting.configuration.name
        case Aspect.SCALE_OUT:
            return str(setting.servers)
        case Aspect.HETEROGENEITY:
            return setting.platform
        case _:
            raise InvalidInput(f"{kind} is no axis of a setting")


def axes_between(setting: Setting, reference: Setting) -> tuple[Aspect, ...]:
    """Which of the three differ."""
    # As ``value_on`` tells them apart, without their names.
    differ = (
        setting.configuration != reference.configuration,
        setting.servers != reference.servers,
        setting.platform != reference.platform,
    )
    return tuple(kind for kind, differs in zip(AXES, differ, strict=True) if differs)


@dataclass(frozen=True, slots=True)
class AxisPoint:
    """Where on an axis something lies: weights of columns, which sum to 1; empty = unknown.

    ``variance`` is added beyond the columns and where they know nothing; ``shift`` to the mean.
    """

    weights: Mapping[int, float]
    variance: float = 0.0
    shift: float = 0.0


_UNKNOWN = AxisPoint({}, UNKNOWN_STD**2)


@dataclass(frozen=True, eq=False)
class Axis:
    """A workload's row, relative to its reference, the column at which it was measured.

    ``noise_variance`` is of the measurements by which it was predicted, in logarithms.
    """

    kind: Aspect
    reference: str
    prediction: RowPrediction
    noise_variance: float = 0.0

    @cached_property
    def _points(self) -> dict[str, AxisPoint]:
        columns = enumerate(self.prediction.columns)
        return {column: AxisPoint({j: 1.0}) for j, column in columns}

    def point(self, value: str) -> AxisPoint:
        """Where a value lies; unknown between two platforms, and where nothing is alike."""
        if value not in self._points:
            locate = _LOCATE.get(self.kind)
            self._points[value] = locate(self.prediction.columns, value) if locate else _UNKNOWN
        return self._points[value]

    def change(self, value: str) -> tuple[float, float]:
        """Mean and variance of ln(performance there / at the reference)."""
        if value == self.reference:
            return 0.0, 0.0
        origin = self.point(self.reference)
        if not origin.weights:  # Relative to an unknown, nothing is known.
            return 0.0, _UNKNOWN.variance + self.noise_variance
        point = self.point(value)
        if len(point.weights) == 1 and len(origin.weights) == 1:
            return self._between_columns(point, origin)
        used = sorted({*point.weights, *origin.weights})
        line = np.zeros((1, len(used)))
        # What lies at an unknown point is the reference, with doubt.
        if point.weights:
            for j, weight in point.weights.items():
                line[0, used.index(j)] += weight
            for j, weight in origin.weights.items():
                line[0, used.index(j)] -= weight
        mean = (line @ self.prediction.log_mean[used])[0] + (point.shift - origin.shift)
        variance = (line @ self._covariance(used) @ line.T)[0, 0] + point.variance
        return float(mean), float(variance + (self.noise_variance + origin.variance))

    def _between_columns(self, point: AxisPoint, origin: AxisPoint) -> tuple[float, float]:
        """``change`` from one column to another, which is all that most are asked for."""
        (there,), (here,) = point.weights, origin.weights
        more = self.noise_variance + origin.variance
        if there == here:
            return point.shift - origin.shift, point.variance + more
        logs, variances = self.prediction.log_mean, self.prediction.gaussian.variances
        mean = logs.item(there) - logs.item(here) + (point.shift - origin.shift)
        if variances.item(there) > 0 and variances.item(here) > 0:
            given = self.prediction.covariance.item
            variance = (given(there, there) - given(here, there)) - (
                given(there, here) - given(here, here)
            )
        else:
            one, other = (sqrt(max(variances.item(j), 0.0)) for j in (there, here))
            variance = one * one + other * other
        return mean, variance + point.variance + more

    def _covariance(self, used: list[int]) -> Array:
        # Where at most one is not certain there is no covariance to work out.
        if len(used) == 1 or (self.prediction.log_std[used] > 0).sum() <= 1:
            return np.diag(self.prediction.log_std[used] ** 2)
        return self.prediction.covariance[np.ix_(used, used)]


def _locate_servers(columns: Sequence[str], value: str) -> AxisPoint:
    return _between({j: float(column) for j, column in enumerate(columns)}, float(value))


def _locate_configuration(columns: Sequence[str], value: str) -> AxisPoint:
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


def _between(amounts: Mapping[int, float], wanted: float) -> AxisPoint:
    """By the logarithms of two neighbors; beyond the last as it, with more doubt."""
    if not amounts:
        return _UNKNOWN
    order = sorted(amounts, key=lambda j: amounts[j])
    low = [j for j in order if amounts[j] <= wanted]
    high = [j for j in order if amounts[j] >= wanted]
    if not low or not high:
        end = order[0] if not low else order[-1]
        doublings = abs(log(wanted / amounts[end])) / log(2)
        return AxisPoint({end: 1.0}, (DOUBLING_STD * doublings) ** 2)
    before, after = low[-1], high[0]
    if before == after:
        return AxisPoint({before: 1.0})
    share = log(wanted / amounts[before]) / log(amounts[after] / amounts[before])
    return AxisPoint({before: 1 - share, after: share})


_LOCATE: Mapping[Aspect, Callable[[Sequence[str], str], AxisPoint]] = {
    Aspect.SCALE_UP: _locate_configuration,
    Aspect.SCALE_OUT: _locate_servers,
}
