"""Ground truth from measured tables, and the rules that extrapolate them (docs/scenarios.md).

Numbers are with one CPU, and slowdowns by several co-runners are joined by ``Rule``, to the power
of their share of a CPU; a measured group has its own. Pairs that were not measured are filled by an
estimator, and counted. ``scenario.build`` makes one of ``simulator.truth.tables``.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from math import exp, log, prod
from typing import TypeAlias

import numpy as np

from wharfinger.model.arrays import Array
from wharfinger.simulator.truth.ground_truth import TrueResident, Untouched
from wharfinger.simulator.truth.tables import Tables

Fill: TypeAlias = Callable[[Array], Array]
"""Replaces NaN by more than 0 and at most 1 in (platforms, workloads, co-runners) of performance in
a pair over performance alone; NaN = not measured, all else is above 0."""

_SLOT_MILLICPUS = 1000.0  # with which performance was measured
_ROUNDS = 30
_SHRINKAGE = 1.0  # an effect of n entries is shrunk by n / (n + _SHRINKAGE)
_MAX_CACHED = 200_000  # answers; a few hundred bytes each


class Rule(StrEnum):
    """Slowdown by several co-runners, where only pairs were measured."""

    PRODUCT = "product"
    WORST = "worst"
    """That of the worst alone."""


def log_additive(ratios: Array) -> Array:
    """Fill a (P, W, W) stack of ratios by sensitivity and pressure; the plainest ``Fill``.

    ln ratio[p, w, b] = m + a_p + u_w + v_b + u_pw + v_pb, effects fitted in turn and shrunk where
    they rest on few entries.
    """
    with np.errstate(invalid="ignore"):
        logs = np.log(ratios)
    return np.where(np.isnan(ratios), np.exp(np.minimum(_additive(logs), 0.0)), ratios)


def _additive(logs: Array) -> Array:
    """The fitted sum of effects at every place of an array with NaN in it."""
    measured = ~np.isnan(logs)
    if not measured.any():
        return np.zeros_like(logs)
    fitted = np.full(logs.shape, float(logs[measured].mean()))
    varying = ((0,), (1,), (2,), (0, 1), (0, 2)) if logs.ndim == 3 else ((0,), (1,))
    effects = [np.zeros(1) for _ in varying]
    for _ in range(_ROUNDS):
        for index, kept in enumerate(varying):
            fitted -= effects[index]
            rest = np.where(measured, logs - fitted, 0.0)
            axes = tuple(axis for axis in range(logs.ndim) if axis not in kept)
            count = measured.sum(axis=axes, keepdims=True)
            effects[index] = rest.sum(axis=axes, keepdims=True) / (count + _SHRINKAGE)
            fitted += effects[index]
    return fitted


class Measured(Untouched):
    """Rates in ``unit`` of work per second, as measured, and by the rules beyond (``GroundTruth``).

    Attributes:
        filled_pairs: How many pairs of those that fit alone were not measured.
        filled_isolated: How many workloads were not measured alone on one of the platforms.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        rule: Rule = Rule.PRODUCT,
        unit: str = "operations",
        fill: Fill = log_additive,
    ) -> None:
        self.unit = unit
        self.references = tables.workloads
        self._worst = rule is Rule.WORST
        alone, self.filled_isolated = _isolated(tables)
        ratios, self.filled_pairs = _pair_ratios(tables, alone, fill)
        self._alone = dict(zip(tables.platforms, _by_name(tables, alone.T), strict=True))
        self._beside = {
            platform: dict(zip(tables.workloads, _by_name(tables, ratios[index]), strict=True))
            for index, platform in enumerate(tables.platforms)
        }
        self._groups = {
            (platform, (workload, *others)): value / self._alone[platform][workload]
            for (platform, workload, others), value in tables.groups.items()
            if value
        }
        self._too_large: dict[str, list[Counter[str]]] = {}
        for (platform, workload, others), value in tables.groups.items():
            if not value:
                self._too_large.setdefault(platform, []).append(Counter((workload, *others)))
        self._totals = _totals(tables)
        self._cache: dict[tuple[object, ...], list[float]] = {}

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Whether each fits alone, each pair does, and no group among them was measured not to."""
        alone, beside = self._alone[platform], self._beside[platform]
        names = [resident.application for resident in residents]
        for index, name in enumerate(names):
            if not alone[name]:
                return False
            row = beside[name]
            for other in range(len(names)):
                if other != index and not row[names[other]]:
                    return False
        if self._too_large:
            counts = Counter(names)
            if any(group <= counts for group in self._too_large.get(platform, ())):
                return False
        return all(r.servers == 1 or self._part(platform, r) for r in residents)

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Of each resident, in order; 0 where it does not fit."""
        key = (platform, *[(r.application, r.cpu_millicpus, r.servers) for r in residents])
        rates = self._cache.get(key)
        if rates is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            rates = self._cache[key] = self._rates(platform, residents)
        return rates.copy()

    def alone(self, platform: str, resident: TrueResident) -> float:
        """As measured, for its CPU and its part of several servers."""
        rate = self._alone[platform][resident.application]
        share = resident.cpu_millicpus / _SLOT_MILLICPUS
        if share < 1.0:
            rate *= max(share, 0.0)
        return rate if resident.servers == 1 else rate * self._part(platform, resident)

    def most(self, platform: str, application: str) -> float:
        """As measured alone."""
        return self._alone[platform][application]

    def _rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        names = [resident.application for resident in residents]
        shares = [min(1.0, max(0.0, r.cpu_millicpus / _SLOT_MILLICPUS)) for r in residents]
        if min(shares, default=1.0) == 1.0:
            ratios = self._ratios_of_whole(platform, names)
        else:
            ratios = self._ratios_of_parts(platform, names, shares)
        pairs = zip(residents, ratios, strict=True)
        return [self.alone(platform, resident) * ratio for resident, ratio in pairs]

    def _ratios_of_whole(self, platform: str, names: list[str]) -> list[float]:
        beside, groups, joined = self._beside[platform], self._groups, self._joined
        ratios = []
        for index, name in enumerate(names):
            others = names[:index] + names[index + 1 :]
            ratio = groups.get((platform, (name, *sorted(others)))) if groups else None
            ratios.append(joined(map(beside[name].__getitem__, others)) if ratio is None else ratio)
        return ratios

    def _ratios_of_parts(self, platform: str, names: list[str], shares: list[float]) -> list[float]:
        beside, numbered = self._beside[platform], list(enumerate(zip(names, shares, strict=True)))
        return [
            self._joined(beside[name][n] ** share for j, (n, share) in numbered if j != index)
            for index, name in enumerate(names)
        ]

    def _joined(self, ratios: Iterable[float]) -> float:
        return min(ratios, default=1.0) if self._worst else prod(ratios)

    def _part(self, platform: str, resident: TrueResident) -> float:
        points = self._totals.get((resident.application, platform), _ONE)
        return _total(points, resident.servers) / resident.servers


def _by_name(tables: Tables, rows: Array) -> Iterator[dict[str, float]]:
    return (dict(zip(tables.workloads, row, strict=True)) for row in rows.tolist())


_ONE = ((1,), (1.0,))
_Points: TypeAlias = "tuple[tuple[int, ...], tuple[float, ...]]"


def _total(points: _Points, servers: int) -> float:
    scales, totals = points
    above = bisect_left(scales, servers)
    if above == len(scales):
        return totals[-1]
    if scales[above] == servers:
        return totals[above]
    low, high = totals[above - 1], totals[above]
    if not low or not high:  # did not fit there: unknown in between
        return 0.0
    start, end = log(scales[above - 1]), log(scales[above])
    along = (log(servers) - start) / (end - start)
    return exp(log(low) + along * (log(high) - log(low)))


def _totals(tables: Tables) -> dict[tuple[str, str], _Points]:
    measured: dict[tuple[str, str], dict[int, float]] = {}
    for (workload, platform, scale), value in tables.scale_out.items():
        key = workload, platform
        measured.setdefault(key, {1: tables.isolated[key]})[scale] = value
    return {
        key: (tuple(sorted(totals)), tuple(totals[scale] / totals[1] for scale in sorted(totals)))
        for key, totals in measured.items()
        if totals[1]
    }


def _isolated(tables: Tables) -> tuple[Array, int]:
    """(W, P) performance alone, and how many of them were filled from the others."""
    values = np.array(
        [[tables.isolated.get((w, p), np.nan) for p in tables.platforms] for w in tables.workloads]
    )
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    logs[values == 0] = np.nan
    holes = np.isnan(values)
    return np.where(holes, np.exp(_additive(logs)), values), int(holes.sum())


def _pair_ratios(tables: Tables, alone: Array, fill: Fill) -> tuple[Array, int]:
    """(P, W, W) ratios without holes, 0 = does not fit, and how many were filled."""
    platforms = {name: index for index, name in enumerate(tables.platforms)}
    workloads = {name: index for index, name in enumerate(tables.workloads)}
    ratios = np.full((len(platforms), len(workloads), len(workloads)), np.nan)
    for (platform, workload, other), value in tables.pairs.items():
        p, i, j = platforms[platform], workloads[workload], workloads[other]
        ratios[p, i, j] = value / alone[i, p] if alone[i, p] else 0.0
    runs = alone.T > 0
    ratios[~(runs[:, :, None] & runs[:, None, :])] = 0.0
    holes, zeros = np.isnan(ratios), ratios == 0
    ratios[zeros] = np.nan
    filled = fill(ratios) if holes.any() else ratios
    return np.where(zeros, 0.0, filled), int(holes.sum())
