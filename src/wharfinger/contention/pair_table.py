"""Pressure and sensitivity of residents with pair profiles, as arrays.

A server's numbers are computed from its residents whenever one of them changes, in one order,
whatever happened before: so a replay from a snapshot gives the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import exp, log, sqrt

import numpy as np

from wharfinger.contention.rows import close_up, doubled, grown
from wharfinger.core.seams.contention import Array, ContentionTable, Resident
from wharfinger.model.pairs import PairProfile, profile_on
from wharfinger.model.profile import Classification, Estimate

MIN_KEPT = 0.01
"""Of its target: a tolerance of all of it has no logarithm."""


@dataclass(frozen=True, slots=True)
class PairResident:
    """A resident with a pair profile on the server's platform.

    Attributes:
        performance: Logarithm of its predicted performance over target without co-runners;
            ``None`` = it has no target to keep.
        variance: Of that.
        kept: Logarithm of the performance over target that it must keep.
    """

    name: str
    profile: PairProfile
    performance: float | None
    variance: float = 0.0
    kept: float = 0.0

    @classmethod
    def of(cls, resident: Resident, profile: PairProfile) -> "PairResident":
        """By its last decision; without a prediction it is taken to reach its target."""
        if resident.best_effort:
            return cls(resident.name, profile, None)
        kept = log(max(MIN_KEPT, 1 - resident.tolerance))
        predicted = resident.predicted
        if predicted is None or predicted.alone is None:
            return cls(resident.name, profile, 0.0, 0.0, kept)
        alone = max(predicted.alone, MIN_KEPT)
        return cls(resident.name, profile, log(alone), predicted.alone_std**2, kept)


def pair_residents(residents: Sequence[Resident], platform: str | None) -> list[PairResident]:
    """Those of one server's residents that have a profile in the basis of the newest of them."""
    if platform is None:
        return []
    profiles = ((r, profile_on(r.classification.pairs, platform)) for r in residents)
    paired = [(resident, profile) for resident, profile in profiles if profile is not None]
    basis = paired[-1][1].basis if paired else ""
    return [PairResident.of(r, profile) for r, profile in paired if profile.basis == basis]


class PairRows(ContentionTable):
    """One row per server, and one per resident that has a target to keep.

    A server's numbers are in one basis, that of its newest resident with a profile; residents of
    another basis are ignored. Arrays of factors are as wide as the widest basis, the rest zero. A
    resident's row is free when it leaves, and zero until the next one takes it.

    Attributes:
        bases: Index of each basis by its name.
        basis: (S,) that of each server; -1 = no resident has a profile.
        pressure: (S, F) the sum over the residents.
        pressure_variance: (S, F) of that.
        kinds: (S, G) the sum over them of ``PairProfile.excludes``.
        names: Of the R residents.
        server: (R,) row of each one's server; -1 = the row is free.
        sensitivity: (R, F).
        sensitivity_variance: (R, F) of that.
        cross: (R, F) twice that times the pressure of its co-runners: by how much its variance
            grows with each further one, the error of its sensitivity being the same.
        kept: (R, 5) the logarithm of predicted performance over target with its present
            co-runners, its variance, what it must keep of it; the drop by the co-runners, its
            variance.
    """

    def __init__(self) -> None:
        self.bases: dict[str, int] = {}
        self.basis = np.zeros(0, dtype=np.int64)
        self.pressure = np.zeros((0, 0))
        self.pressure_variance = np.zeros((0, 0))
        self.kinds = np.zeros((0, 0))
        self.names: list[str] = []
        self.server = np.zeros(0, dtype=np.int64)
        self.sensitivity = np.zeros((0, 0))
        self.sensitivity_variance = np.zeros((0, 0))
        self.cross = np.zeros((0, 0))
        self.kept = np.zeros((0, 5))
        self._rows_of: list[list[int]] = []
        self._free: list[int] = []
        self._factors: dict[str, int] = {}

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Never a reason to look at waiting workloads again."""
        self.put_pairs(row, pair_residents(residents, platform))
        return False

    def put_pairs(self, row: int, residents: Sequence[PairResident]) -> None:
        """Set the residents of a server: all of one basis, in the order of their uids."""
        if not residents and row >= len(self._rows_of):
            return
        profiles = [resident.profile for resident in residents]
        factors = max((len(p.presses) for p in profiles), default=0)
        self.widen(row + 1, factors, max((len(p.excludes) for p in profiles), default=0))
        self._clear(row)
        if not residents:
            return
        self.basis[row] = self.bases.setdefault(profiles[0].basis, len(self.bases))
        self._factors[profiles[0].basis] = factors
        pressure = np.array([profile.presses for profile in profiles])
        variances = np.array([_variances(p.presses_variance, p.presses) for p in profiles])
        self.pressure[row, :factors] = pressure.sum(axis=0)
        self.pressure_variance[row, :factors] = variances.sum(axis=0)
        kinds = np.array([profile.excludes for profile in profiles])
        self.kinds[row, : kinds.shape[1]] = kinds.sum(axis=0)
        self._seat(row, residents, pressure, variances)

    def _seat(
        self, row: int, residents: Sequence[PairResident], pressure: Array, variances: Array
    ) -> None:
        profiles, width = [resident.profile for resident in residents], pressure.shape[1]
        sensitivity = np.array([profile.suffers for profile in profiles])
        own = np.array([_variances(p.suffers_variance, p.suffers) for p in profiles])
        others = pressure.sum(axis=0) - pressure
        theirs = variances.sum(axis=0) - variances
        drop = (sensitivity * others).sum(axis=1)
        variance = ((sensitivity**2 + own) * theirs + own * others**2).sum(axis=1)
        seated = [(at, r) for at, r in enumerate(residents) if r.performance is not None]
        for slot, (at, resident) in zip(self._take(row, len(seated)), seated, strict=True):
            assert resident.performance is not None
            self.names[slot] = resident.name
            self.sensitivity[slot, :width] = sensitivity[at]
            self.sensitivity_variance[slot, :width] = own[at]
            self.cross[slot, :width] = 2 * own[at] * others[at]
            self.kept[slot] = (
                resident.performance - drop[at],
                resident.variance + variance[at],
                resident.kept,
                drop[at],
                variance[at],
            )

    def seats_of(self, row: int) -> Sequence[int]:
        """Rows of a server's residents that have a target to keep, ascending."""
        return self._rows_of[row] if row < len(self._rows_of) else ()

    def slowdown_of(self, row: int, name: str) -> Estimate | None:
        """Of a resident that has a target to keep."""
        for slot in self.seats_of(row):
            if self.names[slot] == name:
                drop, variance = self.kept[slot, 3:].tolist()
                return Estimate(exp(-drop), sqrt(max(variance, 0.0)))
        return None

    def drop_of(self, row: int, platform: str, classification: Classification) -> float | None:
        """By all residents but one with this classification."""
        profile = profile_on(classification.pairs, platform)
        if profile is None or row >= len(self.basis):
            return None
        if self.bases.get(profile.basis) != self.basis[row]:
            return None
        others = self.pressure[row, : len(profile.presses)] - profile.presses
        return float(others @ np.array(profile.suffers))

    def pressure_on(self, row: int) -> PairProfile | None:
        """Of all residents, those without a target included."""
        if row >= len(self._rows_of) or self.basis[row] < 0:
            return None
        basis = next(name for name, at in self.bases.items() if at == self.basis[row])
        width = self._factors[basis]
        return PairProfile(
            basis,
            suffers=(),
            presses=tuple(self.pressure[row, :width].tolist()),
            presses_variance=tuple(self.pressure_variance[row, :width].tolist()),
        )

    def drop(self, row: int) -> None:
        """Remove a server's row."""
        if row >= len(self._rows_of):
            return
        self._clear(row)
        del self._rows_of[row]
        self.server[self.server > row] -= 1
        for array in (self.pressure, self.pressure_variance, self.kinds):
            close_up(array, row)
        close_up(self.basis, row, fill=-1)

    def widen(self, servers: int, factors: int = 0, kinds: int = 0) -> None:
        """Make room for so many servers, factors and kinds."""
        self._rows_of += [[] for _ in range(servers - len(self._rows_of))]
        rows = doubled(len(self.basis), servers)
        factors = max(factors, self.pressure.shape[1])
        self.basis = grown(self.basis, rows, fill=-1)
        self.pressure = grown(self.pressure, rows, factors)
        self.pressure_variance = grown(self.pressure_variance, rows, factors)
        self.kinds = grown(self.kinds, rows, max(kinds, self.kinds.shape[1]))
        self._widen_residents(len(self.server), factors)

    def _widen_residents(self, residents: int, factors: int) -> None:
        self.server = grown(self.server, residents, fill=-1)
        self.kept = grown(self.kept, residents, 5)
        self.sensitivity = grown(self.sensitivity, residents, factors)
        self.sensitivity_variance = grown(self.sensitivity_variance, residents, factors)
        self.cross = grown(self.cross, residents, factors)

    def _clear(self, row: int) -> None:
        for slot in self._rows_of[row]:
            heappush(self._free, slot)
            self.names[slot] = ""
            self.server[slot] = -1
            for array in (self.sensitivity, self.sensitivity_variance, self.cross, self.kept):
                array[slot] = 0.0
        self._rows_of[row] = []
        self.basis[row] = -1
        for array in (self.pressure, self.pressure_variance, self.kinds):
            array[row] = 0.0

    def _take(self, row: int, count: int) -> list[int]:
        """Rows for new residents, ascending: so sums over them are in their order."""
        while len(self._free) < count:
            heappush(self._free, len(self.names))
            self.names.append("")
        self._widen_residents(doubled(len(self.server), len(self.names)), self.pressure.shape[1])
        self._rows_of[row] = [heappop(self._free) for _ in range(count)]
        self.server[self._rows_of[row]] = row
        return self._rows_of[row]


def _variances(stated: tuple[float, ...], factors: tuple[float, ...]) -> tuple[float, ...]:
    return stated or (0.0,) * len(factors)
