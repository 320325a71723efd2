"""Contention between pairs: how a newcomer and residents affect each other's targets.

By source a score says where slowdown begins (``by_source``). By pair the slowdowns themselves are
known (``model.pairs``), so targets are checked: with the stated confidence no resident may fall
below what it must keep, nor the newcomer, unless it would on an empty server. Servers are ranked by
the performance that is lost, in the sum of the logarithms of all concerned.

Both ways, as Paragon 3.1 has it by source; all servers and residents at once, in a few products of
matrices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.kept import residents_loss
from wharfinger.contention.pair_table import PairRows
from wharfinger.core.seams.contention import (
    POINTS,
    Array,
    Assessment,
    ContentionCost,
    LogEstimates,
    ResidentsLoss,
)
from wharfinger.model.pairs import PairProfile, profile_on
from wharfinger.model.profile import quantile
from wharfinger.model.view import Request, View
from wharfinger.native import pair_drops, pair_shortfalls

_UNKNOWN = -2
"""Index of a basis that no resident has; that of a server without profiles is -1."""
_NOTHING = PairProfile("", (), ())
_NO_CROSS = np.zeros((0, 0))


@dataclass(frozen=True, slots=True)
class PairSettings:
    """Constants of the model.

    Attributes:
        max_unfit: Probability that two do not fit on one server above which they are never placed
            together.
    """

    max_unfit: float = 0.5


@dataclass(frozen=True, slots=True)
class ByPair:
    """The model."""

    settings: PairSettings = PairSettings()
    name: ClassVar[str] = "by-pair"

    def table(self) -> "PairTable":
        """An empty one."""
        return PairTable(self.settings)


class PairTable(PairRows):
    """The rows, with the answer for a newcomer."""

    def __init__(self, settings: PairSettings) -> None:
        super().__init__()
        self._settings = settings

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        """By the newcomer's profile, where a resident has one."""
        classification, servers = request.classification, len(view.names)
        if not self.bases or classification is None or not classification.pairs or not servers:
            return Assessment(servers)
        self.widen(servers)
        newcomer = Newcomer.of(classification.pairs, view.platforms, self)
        return PairAssessment(newcomer, request, view, self, confidence, self._settings)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Its profiles as arrays, (P, F), one row per platform; zero where it has none.

    ``basis``, (P,), is the index in the table's; ``excluded``, (P, G), the probability that it
    does not fit beside one of each kind.
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
        """Profiles in the bases of residents; others say nothing about them."""
        profiles = [profile_on(pairs, platform) or _NOTHING for platform in platforms]
        usable = [p if p.basis in rows.bases else _NOTHING for p in profiles]
        factors, kinds = rows.pressure.shape[1], rows.kinds.shape[1]
        return cls(
            np.array([rows.bases.get(p.basis, _UNKNOWN) for p in usable], dtype=np.int64),
            _rows([p.suffers for p in usable], factors),
            _rows([p.suffers_variance for p in usable], factors),
            _rows([p.presses for p in usable], factors),
            _rows([p.presses_variance for p in usable], factors),
            _rows([p.excluded for p in usable], kinds),
        )


@dataclass(frozen=True, slots=True)
class Inflicted:
    """The effect of a newcomer on the residents.

    Attributes:
        shortfall: (R,) the share by which the newcomer takes each one's performance below what it
            must keep, or further below; with the required confidence.
        performance: (R,) the logarithm of its performance over target with the newcomer.
        variance: (R,) what the newcomer adds to its variance.
    """

    shortfall: Array
    performance: Array
    variance: Array


class PairAssessment(Assessment):
    """A newcomer among each server's residents; each keeps its target with the confidence."""

    informed = True

    def __init__(
        self,
        newcomer: Newcomer,
        request: Request,
        view: View,
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
        """0 where no resident has a profile in its basis."""
        newcomer, rows = self._newcomer, self._rows
        profile = np.where(self._informed, self._platform, -1)
        sides = newcomer.sensitivity, newcomer.sensitivity_variance
        return LogEstimates(
            *pair_drops(rows.pressure, rows.pressure_variance, _NO_CROSS, profile, *sides)
        )

    @property
    def correctable(self) -> LogEstimates:
        """All of it."""
        return self.suffered

    @cached_property
    def unfit(self) -> Array:
        """(S,) upper bound of the probability that it does not fit beside one of them."""
        kinds = self._rows.kinds[: self._servers]
        unfit = _picked(kinds, self._newcomer.excluded, self._platform)
        return np.where(self._informed, unfit, 0.0)

    @property
    def incompatible(self) -> NDArray[np.bool_]:
        """Where it probably does not fit."""
        return np.asarray(self.unfit > self._settings.max_unfit)

    @cached_property
    def inflicted(self) -> Inflicted:
        """The effect on each resident."""
        newcomer, rows, residents = self._newcomer, self._rows, len(self._rows.names)
        server = rows.server[:residents]
        # A free row has no server: the last one's profile, times zero.
        profile = np.where(self._informed, self._platform, -1)[server]
        levels = rows.sensitivity, rows.sensitivity_variance, rows.cross
        sides = newcomer.pressure, newcomer.pressure_variance
        drop, variance = pair_drops(*levels, profile, *sides)
        shortfall = pair_shortfalls(rows.kept, drop, variance, self._z)
        return Inflicted(shortfall, rows.kept[:residents, 0] - drop, variance)

    def residents_loss(self) -> ResidentsLoss:
        """Of those with a profile in the newcomer's basis; and the risk of not fitting."""
        rows, residents, inflicted = self._rows, len(self._rows.names), self.inflicted
        before, before_variance, kept = rows.kept[:residents, :3].T
        drop = before - inflicted.performance
        server = rows.server[:residents]
        loss = residents_loss(
            before - kept, before_variance, drop, inflicted.variance, server, self._servers
        )
        # Where two turn out not to fit, one of them has to go.
        return replace(loss, targets=loss.targets + self.unfit)

    def cost(
        self, able: NDArray[np.bool_], performance: Callable[[], LogEstimates] | None
    ) -> ContentionCost:
        """Targets lost, and the risk of not fitting; as waste the performance lost."""
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
        """(S,) sums over residents."""
        at = np.maximum(self._rows.server[: len(of_residents)], 0)
        return np.asarray(np.bincount(at, of_residents, self._servers), dtype=np.float64)

    def _own(self, own: LogEstimates, able: NDArray[np.bool_]) -> tuple[Array, Array]:
        """The newcomer on each server, compared with the best server without co-runners.

        Returns:
            (S,) the share by which it falls short of its target there, with the confidence, and
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
        short = _share_below(np.maximum(alone, best), low)
        return short, np.maximum(median, fastest) - own.mean

    def numbers(self, row: int) -> dict[str, float]:
        """Performance of the newcomer and of the resident that is affected most."""
        numbers = {"performance_beside_residents": exp(-float(self.suffered.mean[row]))}
        if self.unfit[row] > 0:
            numbers["unfit_probability"] = float(self.unfit[row])
        victim = self._victim(row)
        if victim is not None:
            performance = float(self.inflicted.performance[victim])
            numbers["worst_resident_predicted_pace"] = exp(performance)
        return numbers

    def worst(self, row: int) -> str:
        """The resident that would fall short most; else it is the newcomer."""
        victim = self._victim(row)
        if victim is None or self.inflicted.shortfall[victim] == 0:
            return "its own target would be missed there"
        performance = exp(float(self.inflicted.performance[victim]))
        return f"{self._rows.names[victim]} would come to {performance:.0%} of its target"

    def _victim(self, row: int) -> int | None:
        """The resident with the largest shortfall, then the least performance."""
        shortfall, left = self.inflicted.shortfall, self.inflicted.performance
        there = self._rows.seats_of(row)
        return min(there, key=lambda seat: (-shortfall[seat], left[seat]), default=None)


def _share_below(before: Array, after: Array) -> Array:
    further = np.minimum(before, 0.0) - np.minimum(after, 0.0)
    return np.asarray(-np.expm1(-np.maximum(further, 0.0)))


def _picked(levels: Array, factors: Array, platform: NDArray[np.int64]) -> Array:
    """(rows,) products of each row of (rows, F) and its platform's row of (P, F)."""
    if not factors.any():
        return np.zeros(len(levels))
    return np.asarray((levels @ factors.T)[np.arange(len(levels)), platform])


def _rows(profiles: Sequence[tuple[float, ...]], width: int) -> Array:
    rows = np.zeros((len(profiles), width))
    for row, values in enumerate(profiles):
        rows[row, : len(values)] = values
    return rows
