"""Ground truth from measured tables; ours is only the extrapolation.

``scenario`` makes one of ``simulator.truth.tables``; the cluster asks it. Beyond what was
measured these rules hold, and ``docs/scenarios.md`` states them for readers:

* The rate of a resident is its performance alone, times the slow-down by each of the others, as
  measured in pairs (``product``), or by the worst of them (``worst``). A group that was measured as
  it is has what was measured.
* Performance is with one CPU. Less CPU gives in proportion less, more gives nothing; a neighbor
  with less than one disturbs less, its slow-down taken to the power of its share.
* On several servers each does its part of what was measured for so many; between two numbers of
  servers the logarithm is interpolated over the logarithm, beyond the last the total stays.
* Pairs that were not measured are filled by an estimator, and counted.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from math import exp, log, prod
from typing import TypeAlias

import numpy as np

from wharfinger.model.arrays import Array
from wharfinger.simulator.truth.ground_truth import TrueResident, Untouched
from wharfinger.simulator.truth.tables import Tables

Fill: TypeAlias = Callable[[Array], Array]
"""(platforms, workloads, beside) of performance in a pair over performance alone, NaN where it was
not measured, above 0 elsewhere; gives the same with every NaN replaced by more than 0, at most 1.
"""

SLOT_MILLICPUS = 1000.0
"""CPU with which performance was measured."""

_ROUNDS = 30
_DOUBT = 1.0  # an effect of n entries is shrunk by n / (n + _DOUBT)
_MOST_KEPT = 200_000  # answers; a few hundred bytes each


class Rule(StrEnum):
    """What several neighbors do to one, where only pairs were measured."""

    PRODUCT = "product"
    """Each slows what the others leave."""
    WORST = "worst"
    """As the worst of them alone."""


def log_additive(ratios: Array) -> Array:
    """Fill a (P, W, W) stack of ratios by how much each minds, and how much each disturbs.

    ln ratio[p, w, b] = m + a_p + u_w + v_b + u_pw + v_pb, effects fitted in turn and shrunk where
    few entries tell of them. The plainest ``Fill``.
    """
    with np.errstate(invalid="ignore"):
        logs = np.log(ratios)
    return np.where(np.isnan(ratios), np.exp(np.minimum(_additive(logs), 0.0)), ratios)


def _additive(logs: Array) -> Array:
    """The fitted sum of effects at every place of an array with NaN in it."""
    known = ~np.isnan(logs)
    if not known.any():
        return np.zeros_like(logs)
    middle = float(logs[known].mean())
    fitted = np.full(logs.shape, middle)
    effects = [np.zeros(1) for _ in _kept_axes(logs.ndim)]
    for _ in range(_ROUNDS):
        for index, kept in enumerate(_kept_axes(logs.ndim)):
            fitted -= effects[index]
            rest = np.where(known, logs - fitted, 0.0)
            axes = tuple(axis for axis in range(logs.ndim) if axis not in kept)
            count = known.sum(axis=axes, keepdims=True)
            effects[index] = rest.sum(axis=axes, keepdims=True) / (count + _DOUBT)
            fitted += effects[index]
    return fitted


def _kept_axes(dimensions: int) -> tuple[tuple[int, ...], ...]:
    """Of each effect, over what it varies."""
    return ((0,), (1,), (2,), (0, 1), (0, 2)) if dimensions == 3 else ((0,), (1,))


class Measured(Untouched):
    """Rates as they were measured, and stated rules beyond that (``GroundTruth``).

    Args:
        tables: What was measured.
        rule: Of several neighbors.
        unit: Of work, per second of which performance is.
        fill: Estimates pairs that were not measured.

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
        self._alone = _by_name(tables, alone)
        self._beside = {
            platform: _square(tables.workloads, ratios[index].tolist())
            for index, platform in enumerate(tables.platforms)
        }
        self._groups = {
            (platform, (workload, *others)): value / self._alone[platform][workload]
            for (platform, workload, others), value in tables.groups.items()
            if value
        }
        self._too_large = _too_large(tables)
        self._totals = _totals(tables)
        self._kept: dict[tuple[object, ...], list[float]] = {}

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Whether each fits alone, each pair does, and no group among them was seen not to."""
        alone, beside = self._alone[platform], self._beside[platform]
        names = [resident.application for resident in residents]
        for index, name in enumerate(names):
            if not alone[name]:
                return False
            row = beside[name]
            for other in range(len(names)):
                if other != index and not row[names[other]]:
                    return False
        if self._too_large and _holds_any(self._too_large.get(platform, ()), names):
            return False
        return all(r.servers == 1 or self._part(platform, r) for r in residents)

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Each its own, in the order of the residents; 0 for what does not fit."""
        key = (platform, *[(r.application, r.cpu_millicpus, r.servers) for r in residents])
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            found = self._kept[key] = self._rates(platform, residents)
        return found.copy()

    def alone(self, platform: str, resident: TrueResident) -> float:
        """As measured, for its part of a CPU and its part of so many servers."""
        rate = self._alone[platform][resident.application]
        share = resident.cpu_millicpus / SLOT_MILLICPUS
        if share < 1.0:
            rate *= max(share, 0.0)
        return rate if resident.servers == 1 else rate * self._part(platform, resident)

    def most(self, platform: str, application: str) -> float:
        """As measured alone."""
        return self._alone[platform][application]

    def _rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        names = [resident.application for resident in residents]
        shares = [min(1.0, max(0.0, r.cpu_millicpus / SLOT_MILLICPUS)) for r in residents]
        if min(shares, default=1.0) == 1.0:
            kept = self._kept_of_whole(platform, names)
        else:
            kept = self._kept_of_parts(platform, names, shares)
        pairs = zip(residents, kept, strict=True)
        return [self.alone(platform, resident) * ratio for resident, ratio in pairs]

    def _kept_of_whole(self, platform: str, names: list[str]) -> list[float]:
        """What the others leave of each rate, where everybody has a whole CPU."""
        beside, groups, joined = self._beside[platform], self._groups, self._joined
        kept = []
        for index, name in enumerate(names):
            others = names[:index] + names[index + 1 :]
            ratio = groups.get((platform, (name, *sorted(others)))) if groups else None
            kept.append(joined(map(beside[name].__getitem__, others)) if ratio is None else ratio)
        return kept

    def _kept_of_parts(self, platform: str, names: list[str], shares: list[float]) -> list[float]:
        """The same where some have less than a CPU."""
        beside, numbered = self._beside[platform], list(enumerate(zip(names, shares, strict=True)))
        return [
            self._joined(beside[name][n] ** share for j, (n, share) in numbered if j != index)
            for index, name in enumerate(names)
        ]

    def _joined(self, ratios: Iterable[float]) -> float:
        return min(ratios, default=1.0) if self._worst else prod(ratios)

    def _part(self, platform: str, resident: TrueResident) -> float:
        """What one of so many servers does, over one alone."""
        points = self._totals.get((resident.application, platform), _ONE)
        return _total(points, resident.servers) / resident.servers


_ONE = ((1,), (1.0,))
_Points: TypeAlias = "tuple[tuple[int, ...], tuple[float, ...]]"


def _total(points: _Points, servers: int) -> float:
    """What so many servers do together, over one."""
    scales, totals = points
    above = bisect_left(scales, servers)
    if above == len(scales):
        return totals[-1]
    if scales[above] == servers:
        return totals[above]
    low, high = totals[above - 1], totals[above]
    if not low or not high:  # did not fit there: nothing is known in between
        return 0.0
    start, end = log(scales[above - 1]), log(scales[above])
    along = (log(servers) - start) / (end - start)
    return exp(log(low) + along * (log(high) - log(low)))


def _totals(tables: Tables) -> dict[tuple[str, str], _Points]:
    """By workload and platform; one server, where it is not given, is ``isolated.csv``'s."""
    points: dict[tuple[str, str], dict[int, float]] = {}
    for (workload, platform, scale), value in tables.scale_out.items():
        points.setdefault((workload, platform), {})[scale] = value
    return {key: _relative(given, tables.isolated[key]) for key, given in points.items()}


def _relative(given: dict[int, float], isolated: float) -> _Points:
    one = given.get(1, isolated)
    if not one:
        return _ONE
    whole = {1: 1.0} | {scale: value / one for scale, value in given.items()}
    scales = tuple(sorted(whole))
    return scales, tuple(whole[scale] for scale in scales)


def _isolated(tables: Tables) -> tuple[Array, int]:
    """(W, P) performance alone, holes filled by the effects of workload and platform."""
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
    count = len(tables.workloads)
    number = {name: index for index, name in enumerate(tables.workloads)}
    ratios = np.full((len(tables.platforms), count, count), np.nan)
    for p, platform in enumerate(tables.platforms):
        for workload, i in number.items():
            for other, j in number.items():
                value = tables.pairs.get((platform, workload, other))
                if not (alone[i, p] and alone[j, p]):
                    ratios[p, i, j] = 0.0
                elif value is not None:
                    ratios[p, i, j] = value / alone[i, p]
    holes, zeros = np.isnan(ratios), ratios == 0
    ratios[zeros] = np.nan
    filled = fill(ratios) if holes.any() else ratios
    return np.where(zeros, 0.0, filled), int(holes.sum())


def _by_name(tables: Tables, alone: Array) -> dict[str, dict[str, float]]:
    """Performance alone by platform and workload."""
    return {
        platform: dict(zip(tables.workloads, alone[:, index].tolist(), strict=True))
        for index, platform in enumerate(tables.platforms)
    }


def _square(names: Sequence[str], rows: list[list[float]]) -> dict[str, dict[str, float]]:
    return {name: dict(zip(names, row, strict=True)) for name, row in zip(names, rows, strict=True)}


def _too_large(tables: Tables) -> "dict[str, list[Counter[str]]]":
    """Groups that were seen not to fit, by platform."""
    found: dict[str, list[Counter[str]]] = {}
    for (platform, workload, others), value in tables.groups.items():
        if not value:
            found.setdefault(platform, []).append(Counter((workload, *others)))
    return found


def _holds_any(groups: "Sequence[Counter[str]]", names: Sequence[str]) -> bool:
    there = Counter(names)
    return any(group <= there for group in groups)
