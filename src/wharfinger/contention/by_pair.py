"""Contention between pairs: what a newcomer and residents would do to one another's targets.

By source a score says from where on a workload is slowed (``by_source``). Between pairs the
slowdowns themselves are known (``model.pairs``), so targets are looked at: with the stated
confidence no resident may fall below what it must keep, nor the newcomer, if it would not on an
empty server. The least performance is wasted, in the sum of the logarithms of all concerned.

Both ways, as Paragon 3.1 has it by source; all servers and residents at once, in a few products of
matrices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.pair_table import PairRows, known_by_pairs
from wharfinger.core.seams.contention import (
    POINTS,
    Array,
    Assessment,
    ContentionCost,
    ContentionTable,
    LogEstimates,
    Resident,
)
from wharfinger.model.pairs import PairProfile, profile_on
from wharfinger.model.profile import Classification, Estimate, quantile
from wharfinger.model.view import ClusterView, PlacementRequest

_UNKNOWN = -2
"""Index of a basis in which no resident is known; that of a server without any is -1."""
_NOTHING = PairProfile("", (), ())


@dataclass(frozen=True, slots=True)
class PairSettings:
    """Constants of the model.

    Attributes:
        max_unfit: Probability that two do not fit on one server from which on they are never placed
            together.
    """

    max_unfit: float = 0.5


class ByPair:
    """The model."""

    name = "by-pair"

    def __init__(self, settings: PairSettings | None = None) -> None:
        self.settings = settings or PairSettings()

    def table(self) -> "PairTable":
        """An empty one."""
        return PairTable(self.settings)


class PairTable(ContentionTable):
    """Nothing is kept until a workload with a profile of pairs is placed."""

    def __init__(self, settings: PairSettings) -> None:
        self._settings = settings
        self.rows = PairRows()

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Never a reason to look at waiting workloads again."""
        self.rows.put(row, known_by_pairs(residents, platform))
        return False

    def drop(self, row: int) -> None:
        """Those behind it move up."""
        self.rows.drop(row)

    def assess(self, request: PlacementRequest, view: ClusterView, confidence: float) -> Assessment:
        """By the newcomer's profile, where a resident is known by pairs."""
        known, servers = request.classification, len(view.names)
        if not self.rows.bases or known is None or not known.pairs or not servers:
            return Assessment(servers)
        self.rows.widen(servers)
        newcomer = Newcomer.of(known.pairs, view.platforms, self.rows)
        return PairAssessment(newcomer, request, view, self.rows, confidence, self._settings)

    def slowdown_of(self, row: int, name: str) -> Estimate | None:
        """Of one that has a target to keep."""
        return self.rows.slowdown_of(row, name)

    def drop_of(self, row: int, platform: str, classification: Classification) -> float | None:
        """By all that is there but one with this classification."""
        profile, rows = profile_on(classification.pairs, platform), self.rows
        if profile is None or row >= len(rows.basis):
            return None
        if rows.bases.get(profile.basis) != rows.basis[row]:
            return None
        others = rows.pressure[row, : len(profile.presses)] - profile.presses
        return float(others @ np.array(profile.suffers))


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Its profiles as arrays, one row a platform; zero where it has none.

    Attributes:
        basis: (P,) index in the table's.
        sensitivity: (P, F).
        sensitivity_variance: (P, F).
        pressure: (P, F).
        pressure_variance: (P, F).
        excluded: (P, G) probability that it does not fit beside one of each kind.
    """

    basis: NDArray[np.int64]
    sensitivity: Array
    sensitivity_variance: Array
    pressure: Array
    pressure_variance: Array
    excluded: Array

    @classmethod
    def of(
        cls, pairs: Mapping[str, PairProfile], platforms: Sequence[str], rows: PairRows
    ) -> "Newcomer":
        """In the bases that residents are known in; others say nothing of them."""
        profiles = [profile_on(pairs, platform) or _NOTHING for platform in platforms]
        known = [p if p.basis in rows.bases else _NOTHING for p in profiles]
        factors, kinds = rows.pressure.shape[1], rows.kinds.shape[1]
        return cls(
            np.array([rows.bases.get(p.basis, _UNKNOWN) for p in known], dtype=np.int64),
            _rows([p.suffers for p in known], factors),
            _rows([p.suffers_variance for p in known], factors),
            _rows([p.presses for p in known], factors),
            _rows([p.presses_variance for p in known], factors),
            _rows([p.excluded for p in known], kinds),
        )


@dataclass(frozen=True, slots=True)
class Inflicted:
    """What a newcomer does to the residents.

    Attributes:
        shortfall: (R,) by how much of its performance over target each falls below what it must
            keep, or further below, as a share; with the confidence that was asked for.
        performance: (R,) the logarithm of its performance over target, beside the newcomer too.
    """

    shortfall: Array
    performance: Array


class PairAssessment(Assessment):
    """A newcomer among each server's residents.

    Args:
        newcomer: With its profiles.
        request: The newcomer's.
        view: The servers.
        rows: Of the residents.
        confidence: That each workload keeps its target, each by itself.
        settings: Constants.
    """

    informed = True

    def __init__(
        self,
        newcomer: Newcomer,
        request: PlacementRequest,
        view: ClusterView,
        rows: PairRows,
        confidence: float,
        settings: PairSettings,
    ) -> None:
        super().__init__(len(view.names))
        self._newcomer, self._workload, self._rows = newcomer, request.workload, rows
        self._platform = view.platform
        self._z, self._unfit_beyond, self._settings = quantile(confidence), 1 - confidence, settings
        self._informed = rows.basis[: self._servers] == newcomer.basis[self._platform]

    @cached_property
    def suffered(self) -> LogEstimates:
        """Nothing where no resident is known in its basis."""
        newcomer, rows, at = self._newcomer, self._rows, self._platform
        pressure = rows.pressure[: self._servers]
        square = newcomer.sensitivity**2 + newcomer.sensitivity_variance
        drop = _picked(pressure, newcomer.sensitivity, at)
        variance = _picked(rows.pressure_variance[: self._servers], square, at)
        if newcomer.sensitivity_variance.any():
            variance += _picked(pressure**2, newcomer.sensitivity_variance, at)
        return LogEstimates(*(np.where(self._informed, each, 0.0) for each in (drop, variance)))

    @property
    def correctable(self) -> LogEstimates:
        """All of it."""
        return self.suffered

    @cached_property
    def unfit(self) -> Array:
        """(S,) probability that it does not fit beside one of them, or more."""
        kinds = self._rows.kinds[: self._servers]
        unfit = _picked(kinds, self._newcomer.excluded, self._platform)
        return np.where(self._informed, unfit, 0.0)

    @property
    def incompatible(self) -> NDArray[np.bool_]:
        """Where it rather does not fit."""
        return np.asarray(self.unfit > self._settings.max_unfit)

    @cached_property
    def inflicted(self) -> Inflicted:
        """On each resident."""
        newcomer, rows, residents = self._newcomer, self._rows, len(self._rows.names)
        server, own = rows.server[:residents], rows.sensitivity_variance[:residents]
        sensitivity, cross = rows.sensitivity[:residents], rows.cross[:residents]
        before, before_variance, kept = rows.kept[:residents, :3].T
        at = self._platform[server]
        known = rows.basis[: self._servers][server] == newcomer.basis[at]
        drop = _picked(sensitivity, newcomer.pressure, at)
        variance = np.zeros(residents)
        if own.any():
            variance += _picked(own, newcomer.pressure**2, at) + _picked(
                cross, newcomer.pressure, at
            )
        if newcomer.pressure_variance.any():
            variance += _picked(sensitivity**2 + own, newcomer.pressure_variance, at)
        drop, variance = np.where(known, drop, 0.0), np.where(known, variance, 0.0)
        variance = np.maximum(variance, -before_variance)
        after = before - drop
        low = before - self._z * np.sqrt(before_variance) - kept
        lower = after - self._z * np.sqrt(before_variance + variance) - kept
        further = np.minimum(low, 0.0) - np.minimum(lower, 0.0)
        return Inflicted(-np.expm1(-np.maximum(further, 0.0)), after)

    def cost(
        self, able: NDArray[np.bool_], performance: Callable[[], LogEstimates] | None
    ) -> ContentionCost:
        """Targets that are lost, and a doubt too many that they fit; performance given away."""
        short = behind = np.zeros(self._servers)
        if not self._workload.best_effort:
            suffered = self.suffered
            own = performance() if performance else LogEstimates(-suffered.mean, suffered.variance)
            short, behind = self._own(own, able)
        inflicted = self.inflicted
        risk = np.where(self.unfit > self._unfit_beyond, self.unfit, 0.0)
        lost = POINTS * (short + self._by_server(inflicted.shortfall) + risk)
        further = self._rows.kept[: len(self._rows.names), 0] - inflicted.performance
        waste = -np.expm1(-np.maximum(behind + self._by_server(further), 0.0))
        return ContentionCost(lost, lost, waste)

    def _by_server(self, of_residents: Array) -> Array:
        """(S,) added."""
        at = np.maximum(self._rows.server[: len(of_residents)], 0)
        return np.asarray(np.bincount(at, of_residents, self._servers), dtype=np.float64)

    def _own(self, own: LogEstimates, able: NDArray[np.bool_]) -> tuple[Array, Array]:
        """How the newcomer would do on each server, against the best that it could have.

        Returns:
            (S,) the share of its target by which it falls short there, with the confidence, and
            would not alone on the best server; (S,) the logarithm by which it would be faster
            alone on the fastest.
        """
        kept = log(max(1 - self._workload.tolerance, 1e-9))
        low = own.mean - self._z * np.sqrt(own.variance) - kept
        median = own.mean + self.suffered.mean
        variance = np.maximum(own.variance - self.suffered.variance, 0.0)
        alone = median - self._z * np.sqrt(variance) - kept
        best = np.where(able, alone, -np.inf).max(initial=-np.inf)
        fastest = np.where(able, median, -np.inf).max(initial=-np.inf)
        further = np.minimum(np.maximum(alone, best), 0.0) - np.minimum(low, 0.0)
        short = -np.expm1(-np.maximum(further, 0.0))
        return short, np.maximum(median, fastest) - own.mean

    def numbers(self, row: int) -> dict[str, float]:
        """How it and the worst-off resident would do there."""
        numbers = {"performance_beside_residents": exp(-float(self.suffered.mean[row]))}
        if self.unfit[row] > 0:
            numbers["unfit_probability"] = float(self.unfit[row])
        victim = self._victim(row)
        if victim is not None:
            performance = float(self.inflicted.performance[victim])
            numbers["worst_resident_predicted_pace"] = exp(performance)
        return numbers

    def worst(self, row: int) -> str:
        """Which resident would fall short most, and how far; else it is the newcomer."""
        victim = self._victim(row)
        if victim is None or self.inflicted.shortfall[victim] == 0:
            return "its own target would be missed there"
        performance = exp(float(self.inflicted.performance[victim]))
        return f"{self._rows.names[victim]} would come to {performance:.0%} of its target"

    def _victim(self, row: int) -> int | None:
        """Which resident falls furthest, or has the least left; ``None`` = there is none."""
        there = np.flatnonzero(self._rows.server[: len(self._rows.names)] == row)
        if not there.size:
            return None
        shortfall, left = self.inflicted.shortfall[there], self.inflicted.performance[there]
        return int(there[np.lexsort((left, -shortfall))[0]])


def _picked(levels: Array, factors: Array, platform: NDArray[np.int64]) -> Array:
    """Each row times its platform's factors, added; (rows,).

    Args:
        levels: (rows, F).
        factors: (P, F).
        platform: (rows,) index of each row's.
    """
    if not factors.any():
        return np.zeros(len(levels))
    return np.asarray((levels @ factors.T)[np.arange(len(levels)), platform])


def _rows(profiles: Sequence[tuple[float, ...]], width: int) -> Array:
    rows = np.zeros((len(profiles), width))
    for row, values in enumerate(profiles):
        rows[row, : len(values)] = values
    return rows
