"""Singles that nobody measured, from what the same neighbor does to other services.

The drop of service m on platform p beside neighbor w alone is taken to be

    x = μ_p + a_m + δ_pm + κ_pm (g_w + δ_pw) + ε

a level and a sensitivity κ of each service, a pressure of each neighbor, and what both are on one
platform more than on others. By alternating least squares; each term is shrunk towards 0 (κ
towards 1) by the ratio of the variance of ε to its own, both estimated with it (EM). The variance
of a completed single goes into the fit of ``boxcox`` as its error.

Source: the same form as Paragon's μ + b_u + SVD at rank 1 (TOCS 3.2), with variances.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wharfinger.interference.measurements import ContentionMeasurements, ServiceSets
from wharfinger.model.arrays import Array

SWEEPS = 60
Index = NDArray[np.intp]


def completed(measurements: ContentionMeasurements) -> ContentionMeasurements:
    """The same, with unknown singles filled in where neighbor and service occur in known ones.

    Singles stay unknown for a neighbor without any, and for a service without any. All services of
    the measurements get all neighbors, so that sets of what it was never beside are predicted.
    """
    names = _all_names(measurements)
    services = [_with_names(each, names) for each in measurements.services]
    unknown = sum(int(np.isnan(each.single).sum()) for each in services)
    known = sum(int((~np.isnan(each.single)).sum()) for each in services)
    if not unknown or not known:
        return measurements
    return ContentionMeasurements(tuple(_filled(services)))


def _all_names(measurements: ContentionMeasurements) -> tuple[str, ...]:
    return tuple(sorted({name for each in measurements.services for name in each.names}))


def _with_names(service: ServiceSets, names: tuple[str, ...]) -> ServiceSets:
    if names == service.names:
        return service
    place = {name: at for at, name in enumerate(names)}
    moved = np.array([place[name] for name in service.names], dtype=np.intp)
    single, errors = np.full((2, len(names)), np.nan)
    single[moved], errors[moved] = service.single, service.single_errors
    sets = {
        degree: replace(table, members=moved[table.members])
        for degree, table in service.sets.items()
    }
    measured = ~np.isnan(single)
    return replace(
        service, names=names, single=single, single_errors=errors, sets=sets, measured=measured
    )


def _filled(services: Sequence[ServiceSets]) -> list[ServiceSets]:
    singles = np.stack([each.single for each in services])
    rows, columns = np.nonzero(~np.isnan(singles))
    platforms = _numbered([each.setting.platform for each in services])
    kinds = _numbered([each.setting.service for each in services])
    values = singles[rows, columns]
    effects = _Effects.fitted(rows, columns, values, platforms, kinds, singles.shape)
    measured = np.stack([each.single_errors for each in services])[rows, columns]
    effects.noise = max(effects.noise, float(np.mean(measured**2)))
    seen_row, seen_column = np.isin(np.arange(len(services)), rows), np.zeros(singles.shape[1])
    seen_column[columns] = 1
    filled = []
    for row, each in enumerate(services):
        mean, variance = effects.predict(row)
        take = np.isnan(each.single) & seen_row[row] & (seen_column > 0)
        single = np.where(take, np.maximum(mean, 0.0), each.single)
        errors = np.where(take, np.sqrt(variance), each.single_errors)
        filled.append(replace(each, single=single, single_errors=errors))
    return filled


def _numbered(words: Sequence[str]) -> Index:
    place = {word: at for at, word in enumerate(sorted(set(words)))}
    return np.array([place[word] for word in words], dtype=np.intp)


@dataclass(slots=True)
class _Term:
    """Coefficients of one kind, shrunk towards 0."""

    values: Array
    variance: Array
    spread: float

    @classmethod
    def of(cls, size: int, spread: float) -> "_Term":
        return cls(np.zeros(size), np.full(size, spread), spread)

    def update(self, at: Index, factor: Array, left: Array, noise: float) -> None:
        """Refit to what all other terms leave of each entry, and estimate the spread."""
        size = len(self.values)
        precision = np.bincount(at, factor * factor, size) / noise + 1 / self.spread
        self.values = np.bincount(at, factor * left, size) / noise / precision
        self.variance = 1 / precision
        seen = np.bincount(at, minlength=size) > 0
        second = float(np.mean(self.values[seen] ** 2 + self.variance[seen]))
        self.spread = max(second, 1e-9 * noise, 1e-12)


@dataclass(slots=True, eq=False)
class _Effects:
    """All terms: of platforms, services, settings, neighbors, and neighbors on platforms."""

    platforms: Index
    kinds: Index
    names: int
    level: _Term
    kind: _Term
    setting: _Term
    slope: _Term
    pressure: _Term
    local: _Term
    noise: float

    @classmethod
    def fitted(
        cls,
        rows: Index,
        columns: Index,
        values: Array,
        platforms: Index,
        kinds: Index,
        shape: tuple[int, ...],
    ) -> "_Effects":
        settings, names = shape
        of_platform = int(platforms.max()) + 1
        size = float(np.var(values)) + 1e-8
        made = cls(
            platforms, kinds, names,
            _Term.of(of_platform, 1e3 * size + 1e3 * float(np.mean(values)) ** 2),
            _Term.of(int(kinds.max()) + 1, size), _Term.of(settings, size),
            _Term.of(settings, 0.5), _Term.of(names, size), _Term.of(of_platform * names, size / 4),
            size / 4,
        )  # fmt: skip
        alone = of_platform == 1
        for _ in range(SWEEPS):
            made._sweep(rows, columns, values, alone=alone)
        return made

    def _sweep(self, rows: Index, columns: Index, values: Array, *, alone: bool) -> None:
        """One pass over all terms. On one platform what is local to it can't be told apart."""
        p, m, local = self.platforms[rows], self.kinds[rows], self._local(rows, columns)

        def left() -> Array:
            pressure = self.pressure.values[columns] + self.local.values[local]
            base = self.level.values[p] + self.kind.values[m] + self.setting.values[rows]
            return values - base - (1 + self.slope.values[rows]) * pressure

        ones = np.ones(len(values))
        terms = [(self.level, p), (self.setting, rows)] if alone else [
            (self.level, p), (self.kind, m), (self.setting, rows)
        ]  # fmt: skip
        for term, at in terms:
            term.update(at, ones, left() + term.values[at], self.noise)
        factor = 1 + self.slope.values[rows]
        for term, at in [(self.pressure, columns)] + ([] if alone else [(self.local, local)]):
            term.update(at, factor, left() + factor * term.values[at], self.noise)
        pressure = self.pressure.values[columns] + self.local.values[local]
        own = left() + self.slope.values[rows] * pressure
        self.slope.update(rows, pressure, own, self.noise)
        # A shrunk coefficient takes about half of a degree of freedom.
        coefficients = len(self.pressure.values) + len(self.setting.values)
        left_over = max(1.0, len(values) - 0.5 * coefficients)
        self.noise = max(float(np.sum(left() ** 2)) / left_over, 1e-10)

    def _local(self, rows: Index, columns: Index) -> Index:
        return self.platforms[rows] * self.names + columns

    def predict(self, row: int) -> tuple[Array, Array]:
        """(names,) drops of one setting, and their variances."""
        columns = np.arange(self.names)
        rows = np.full(self.names, row)
        p, m, local = int(self.platforms[row]), int(self.kinds[row]), self._local(rows, columns)
        pressure = self.pressure.values + self.local.values[local]
        slope = 1 + float(self.slope.values[row])
        base = self.level.values[p] + self.kind.values[m] + self.setting.values[row]
        variance = (
            self.noise
            + self.setting.variance[row]
            + slope**2 * (self.pressure.variance + self._local_variance(local))
            + pressure**2 * self.slope.variance[row]
        )
        return base + slope * pressure, variance

    def _local_variance(self, local: Index) -> Array:
        if len(self.level.values) == 1:
            return np.zeros(self.names)
        return self.local.variance[local]
