"""The classifier: a workload's rows filled in from two entries and from the known programs.

Source: Quasar 3.2 (scale-up, tolerated and caused interference as independent classifications),
with a Gaussian conditional in logarithms where the papers have SVD and SGD (``learning``), so
that every number has a standard deviation. The runtime calls ``classify`` and logs what comes of
it, with the estimator's version: a replay needs no estimator.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from math import exp, hypot, log, sqrt
from typing import Protocol

import numpy as np

from wharfinger.classification.known import SCALE, SCORE_SCALE, as_performance
from wharfinger.errors import InvalidInput
from wharfinger.learning.matrix import Array, Matrix, Scale
from wharfinger.learning.recommender import Recommender, fit
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Entry, Estimate, Measurements

LEAST_ERROR = 0.03
"""Relative: runs of one program differ by this, however steady each is."""
LEAST_POINTS = 5.0
"""The same of a score."""
MOST_POINTS = 100.0


class Known(Protocol):
    """The known programs, as ``KnownPrograms`` has them."""

    @property
    def scale_up(self) -> Matrix:
        """Performance by allocation in thousandths of a CPU; more is better."""

    @property
    def tolerated(self) -> Matrix:
        """Scores by source."""

    @property
    def caused(self) -> Matrix:
        """Scores by source."""


class Classifier:
    """Fills in rows.

    Args:
        known: Programs that were measured exhaustively.
        estimator: Name in ``wharfinger.learning.registry``.
        seed: The same gives the same.
    """

    def __init__(self, known: Known, estimator: str = "gaussian", seed: int = 0) -> None:
        self._known = known
        self._estimator = estimator
        self._seed = seed

    @cached_property
    def scale_up(self) -> Recommender:
        """Of performance by CPU; learnt when it is first asked for, in some 0.1 s."""
        return fit(self._estimator, self._known.scale_up, scale=SCALE, seed=self._seed)

    @cached_property
    def _scores(self) -> dict[str, Recommender | None]:
        return {
            "tolerated": self._fit_scores(lambda: self._known.tolerated, SCORE_SCALE),
            "caused": self._fit_scores(lambda: self._known.caused, SCORE_SCALE),
        }

    def _fit_scores(self, matrix: Callable[[], Matrix], scale: Scale) -> Recommender | None:
        try:
            return fit(self._estimator, matrix(), scale=scale, seed=self._seed)
        except InvalidInput:
            return None  # nobody measured any source

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Allocations that known programs were measured at, ascending."""
        return tuple(int(name) for name in self.scale_up.matrix.columns)

    @cached_property
    def shape(self) -> Curve:
        """Performance by CPU of any program, relative to that with one CPU."""
        one = max((c for c in self.columns if c <= 1000), default=self.columns[0])
        return self._curve({one: Entry(1.0)}, Quantity.RATE)

    def classify(self, measurements: Measurements) -> Classification:
        """What a workload needs.

        Args:
            measurements: Its entries; empty = it is like any known program (cold start).
        """
        estimator = self.scale_up.estimator
        entries = sum(len(row) for row in measurements.performance.values())
        return Classification(
            estimator=estimator.name,
            version=str(estimator.version),
            curves={
                quantity: self._curve(row, quantity)
                for quantity, row in measurements.performance.items()
                if row
            },
            shape=self.shape,
            tolerated=self._classify_scores("tolerated", measurements.tolerated),
            caused=self._classify_scores("caused", measurements.caused),
            total=measurements.total,
            measured=entries + len(measurements.tolerated) + len(measurements.caused),
        )

    def _curve(self, row: Mapping[int, Entry], quantity: Quantity) -> Curve:
        """The row filled in; what was measured between columns is a point of its own."""
        measured = self._weighed(
            {
                cpu: Estimate(as_performance(quantity, entry.value), max(LEAST_ERROR, entry.error))
                for cpu, entry in row.items()
                if entry.value > 0
            }
        )
        known = self._on_columns({cpu: point.mean for cpu, point in measured.items()})
        predicted = self.scale_up.predict({str(cpu): value for cpu, value in known.items()})
        noise = max([LEAST_ERROR, *(point.std for point in measured.values())])
        points = {
            cpu: Estimate(float(mean), hypot(float(std), noise))
            for cpu, mean, std in zip(self.columns, predicted.mean, predicted.log_std, strict=True)
        }
        points |= measured
        allocations = tuple(sorted(points))
        # More CPU never means less: where it looks so, it is noise, measured or not.
        means = np.maximum.accumulate([points[cpu].mean for cpu in allocations])
        return Curve(
            allocations,
            tuple(
                Estimate(as_performance(quantity, float(mean)), points[cpu].std)
                for cpu, mean in zip(allocations, means, strict=True)
            ),
        )

    def _weighed(self, measured: Mapping[int, Estimate]) -> dict[int, Estimate]:
        """Entries, each corrected by what the others say of it, as far as it is unsure itself.

        An estimator takes entries for exact; on a busy machine they are not. Each is weighed
        with its prediction from the others, by their variances.
        """
        if len(measured) < 2:
            return dict(measured)
        weighed = {}
        for cpu, own in measured.items():
            others = {c: point for c, point in measured.items() if c != cpu}
            known = self._on_columns({c: point.mean for c, point in others.items()})
            predicted = self.scale_up.predict({str(c): value for c, value in known.items()})
            points = tuple(
                Estimate(float(mean), float(std))
                for mean, std in zip(predicted.mean, predicted.log_std, strict=True)
            )
            told = Curve(self.columns, points).at(cpu)
            variance = told.std**2 + max(point.std for point in others.values()) ** 2
            weight = variance / (variance + own.std**2)
            mean = exp(weight * log(own.mean) + (1 - weight) * log(told.mean))
            weighed[cpu] = Estimate(mean, sqrt(weight) * own.std)
        return weighed

    def _on_columns(self, measured: Mapping[int, float]) -> dict[int, float]:
        """Entries between columns, as the nearest column would have them by the common shape."""
        known = {cpu: value for cpu, value in measured.items() if cpu in self.columns}
        for cpu, value in measured.items():
            free = [column for column in self.columns if column not in known]
            if cpu in known or not free:
                continue
            nearest = min(free, key=lambda column: abs(np.log(column / cpu)))
            change = self.shape.at(nearest).mean / self.shape.at(cpu).mean
            known[nearest] = value * change
        return known

    def _classify_scores(
        self, kind: str, entries: Mapping[SharedResource, Entry]
    ) -> dict[SharedResource, Estimate]:
        recommender = self._scores[kind]
        found: dict[SharedResource, Estimate] = {}
        if recommender is not None:
            columns = [SharedResource(name) for name in recommender.matrix.columns]
            row = {str(c): _measured_score(entries[c]).mean for c in columns if c in entries}
            predicted = recommender.predict(row)
            found = {
                source: _score(mean, std)
                for source, mean, std in zip(
                    columns, predicted.mean, predicted.log_std, strict=True
                )
            }
        for source, entry in entries.items():
            found[source] = _measured_score(entry)
        return found

    def design_covariance(self) -> Array:
        """(columns, columns) of a row of which nothing is known, for choosing what to measure."""
        return self.scale_up.predict({}).covariance


def _measured_score(entry: Entry) -> Estimate:
    """A lower bound says: anything from there to 100, each as likely."""
    error = max(LEAST_POINTS, entry.error)
    if not entry.censored or entry.value >= MOST_POINTS:
        return _score(entry.value, error)
    return _score(
        (entry.value + MOST_POINTS) / 2, hypot(error, (MOST_POINTS - entry.value) / 12**0.5)
    )


def _score(mean: float, std: float) -> Estimate:
    return Estimate(float(min(100.0, max(0.0, mean))), float(std))
