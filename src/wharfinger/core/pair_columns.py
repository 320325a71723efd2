"""What residents press whose interference is known between pairs, as columns.

Kept beside the servers' other columns, and made only when somebody with a profile of pairs is
placed. Each server's numbers are worked out anew from its residents when one of them changes, in
one order, whatever has happened before: so a replay from a snapshot gives the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import exp, log, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.pairs import PairProfile, profile_on
from wharfinger.model.profile import Estimate
from wharfinger.model.view import PairLevels

LEAST_KEPT = 0.01
"""Of its target: a tolerance that gives up all of it has no logarithm."""
Array = NDArray[np.float64]
_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Member:
    """A resident that is known by pairs.

    Attributes:
        name: The workload's.
        profile: On the server's platform.
        pace: Logarithm of its predicted performance over target without neighbours; ``None`` =
            it has no target to keep.
        pace_variance: Of that.
        least: Logarithm of what it must keep.
    """

    name: str
    profile: PairProfile
    pace: float | None
    pace_variance: float = 0.0
    least: float = 0.0


def members_of(residents: Iterable[WorkloadRecord], platform: str) -> list[Member]:
    """Those of one server's residents who are known in the basis of the newest of them."""
    found = [
        (record, profile)
        for record in sorted(residents, key=lambda record: record.uid)
        if record.classification is not None and record.phase is not Phase.SUSPENDED
        if (profile := profile_on(record.classification.pairs, platform)) is not None
    ]
    return [_member(r, profile) for r, profile in found if profile.basis == found[-1][1].basis]


def _member(record: WorkloadRecord, profile: PairProfile) -> Member:
    if record.workload.best_effort:
        return Member(record.name, profile, None)
    least = log(max(LEAST_KEPT, 1 - record.workload.tolerance))
    predicted = record.predicted
    if predicted is None or predicted.alone is None:
        # Nothing says how it does alone: then just as its target has it.
        return Member(record.name, profile, 0.0, 0.0, least)
    alone = max(predicted.alone, LEAST_KEPT)
    return Member(record.name, profile, log(alone), predicted.alone_std**2, least)


class PairColumns:
    """One row a server, and one a resident that has a performance to keep.

    A resident's row is free again when it goes, and zero until the next takes it.
    """

    def __init__(self) -> None:
        self._bases: dict[str, int] = {}
        self._basis = np.full(0, -1, dtype=np.int64)
        self._slots: list[list[int]] = []
        self._presses = np.zeros((0, 0))
        self._presses_variance = np.zeros((0, 0))
        self._excludes = np.zeros((0, 0))
        self._free: list[int] = []
        self._names: list[str] = []
        self._server = np.zeros(0, dtype=np.int64)
        self._suffers = np.zeros((0, 0))
        self._suffers_variance = np.zeros((0, 0))
        self._cross = np.zeros((0, 0))
        self._kept = np.zeros((0, 5))

    def put(self, row: int, members: Sequence[Member]) -> None:
        """These are on a server now, in the order of their names' numbers.

        Args:
            row: The server's.
            members: All of one basis; empty = nobody there is known by pairs.
        """
        if not members and row >= len(self._slots):
            return
        self._widen(row + 1, members)
        self._clear(row)
        if not members:
            return
        profiles = [member.profile for member in members]
        self._basis[row] = self._bases.setdefault(profiles[0].basis, len(self._bases))
        presses = np.array([profile.presses for profile in profiles])
        variances = np.array([_variances(p.presses_variance, p.presses) for p in profiles])
        factors, kinds = presses.shape[1], len(profiles[0].excludes)
        self._presses[row, :factors] = presses.sum(axis=0)
        self._presses_variance[row, :factors] = variances.sum(axis=0)
        self._excludes[row, :kinds] = np.array([p.excludes for p in profiles]).sum(axis=0)
        self._seat(row, members, presses, variances)

    def _seat(self, row: int, members: Sequence[Member], presses: Array, variances: Array) -> None:
        """Those who have something to keep, as they do beside the others."""
        suffers = np.array([member.profile.suffers for member in members])
        own = np.array([_variances(m.profile.suffers_variance, m.profile.suffers) for m in members])
        others = presses.sum(axis=0) - presses
        theirs = variances.sum(axis=0) - variances
        drop = (suffers * others).sum(axis=1)
        variance = ((suffers**2 + own) * theirs + own * others**2).sum(axis=1)
        keeping = [at for at, member in enumerate(members) if member.pace is not None]
        for slot, at in zip(self._take(row, len(keeping)), keeping, strict=True):
            member = members[at]
            assert member.pace is not None
            self._names[slot] = member.name
            self._suffers[slot, : suffers.shape[1]] = suffers[at]
            self._suffers_variance[slot, : suffers.shape[1]] = own[at]
            self._cross[slot, : suffers.shape[1]] = 2 * own[at] * others[at]
            self._kept[slot] = (
                member.pace - drop[at],
                member.pace_variance + variance[at],
                member.least,
                drop[at],
                variance[at],
            )

    def slowed(self, row: int, name: str) -> Estimate | None:
        """What its neighbours leave a resident of its performance alone; ``None`` = not known."""
        if row < len(self._slots):
            for slot in self._slots[row]:
                if self._names[slot] == name:
                    drop, variance = self._kept[slot, 3:].tolist()
                    return Estimate(exp(-drop), sqrt(max(variance, 0.0)))
        return None

    def drop(self, row: int) -> None:
        """A server's row goes, and those behind it move up."""
        if row >= len(self._slots):
            return
        self._clear(row)
        del self._slots[row]
        last = len(self._slots)
        self._server[self._server > row] -= 1
        for column in (self._presses, self._presses_variance, self._excludes):
            column[row:-1] = column[row + 1 :]
            column[last:] = 0.0
        self._basis[row:-1] = self._basis[row + 1 :]
        self._basis[last:] = -1

    def view(self, servers: int) -> PairLevels:
        """As a policy sees them: not writable, one row for each of so many servers."""
        self._widen(servers, ())
        count = len(self._names)
        pace, variance, least = (_frozen(self._kept[:count, at]) for at in range(3))
        return PairLevels(
            bases=self._bases,
            basis=_frozen(self._basis[:servers]),
            presses=_frozen(self._presses[:servers]),
            presses_variance=_frozen(self._presses_variance[:servers]),
            excludes=_frozen(self._excludes[:servers]),
            names=self._names,
            server=_frozen(self._server[:count]),
            suffers=_frozen(self._suffers[:count]),
            suffers_variance=_frozen(self._suffers_variance[:count]),
            cross=_frozen(self._cross[:count]),
            pace=pace,
            pace_variance=variance,
            least=least,
        )

    def _clear(self, row: int) -> None:
        """Nobody is there."""
        for slot in self._slots[row]:
            heappush(self._free, slot)
            self._names[slot] = ""
            self._server[slot] = -1
            self._suffers[slot] = self._suffers_variance[slot] = self._cross[slot] = 0.0
            self._kept[slot] = 0.0
        self._slots[row] = []
        self._basis[row] = -1
        self._presses[row] = self._presses_variance[row] = 0.0
        self._excludes[row] = 0.0

    def _take(self, row: int, count: int) -> list[int]:
        """Rows for so many residents, ascending: so sums over them are in their order."""
        while len(self._free) < count:
            heappush(self._free, len(self._names))
            self._names.append("")
        residents, width = len(self._names), self._presses.shape[1]
        if residents > len(self._server):
            self._server = _grown(self._server, residents)
            self._server[len(self._kept) :] = -1
            self._kept = _grown(self._kept, residents, 5)
            self._suffers = _grown(self._suffers, residents, width)
            self._suffers_variance = _grown(self._suffers_variance, residents, width)
            self._cross = _grown(self._cross, residents, width)
        self._slots[row] = [heappop(self._free) for _ in range(count)]
        self._server[self._slots[row]] = row
        return self._slots[row]

    def _widen(self, servers: int, members: Sequence[Member]) -> None:
        """Room for so many servers, and for these members' factors."""
        while len(self._slots) < servers:
            self._slots.append([])
        factors = max([self._presses.shape[1], *(len(m.profile.presses) for m in members)])
        kinds = max([self._excludes.shape[1], *(len(m.profile.excludes) for m in members)])
        if servers > len(self._basis):
            before = len(self._basis)
            self._basis = _grown(self._basis, servers)
            self._basis[before:] = -1
        rows = len(self._basis)
        if (rows, factors) != self._presses.shape:
            self._presses = _grown(self._presses, rows, factors)
            self._presses_variance = _grown(self._presses_variance, rows, factors)
            self._suffers = _grown(self._suffers, len(self._suffers), factors)
            self._suffers_variance = _grown(self._suffers_variance, len(self._suffers), factors)
            self._cross = _grown(self._cross, len(self._suffers), factors)
        if (rows, kinds) != self._excludes.shape:
            self._excludes = _grown(self._excludes, rows, kinds)


def _variances(given: tuple[float, ...], factors: tuple[float, ...]) -> tuple[float, ...]:
    return given or (0.0,) * len(factors)


def _frozen(column: NDArray[_Number]) -> NDArray[_Number]:
    column.flags.writeable = False
    return column


def _grown(array: NDArray[_Number], rows: int, width: int | None = None) -> NDArray[_Number]:
    """With at least so many rows, twice as many as before where that is not enough, and so wide."""
    if rows > len(array):
        rows = max(rows, 2 * len(array), 16)
    if width is None:
        larger = np.zeros(rows, dtype=array.dtype)
        larger[: len(array)] = array
    else:
        larger = np.zeros((rows, width), dtype=array.dtype)
        larger[: len(array), : array.shape[1]] = array
    return larger
