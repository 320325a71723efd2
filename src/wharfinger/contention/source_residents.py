"""Residents one by one, with their scores by source: what each would lose, and has left.

What is put is read with the next question only: policies that never ask pay nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import log

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.kept import LEAST_STD, Standing
from wharfinger.contention.rows import doubled, grown
from wharfinger.core.seams.contention import Array, Resident, ResidentsLoss, Rows
from wharfinger.model.arrays import normal_below
from wharfinger.model.interference import YIELDED, SharedResource
from wharfinger.model.profile import Classification
from wharfinger.native import press_residents, seat_residents, sum_losses

SOURCES = tuple(SharedResource)
MOST = 100.0
"""Points: no source is pressed harder."""
_LEAST = LEAST_STD**2


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of a resident: (4, R), as ``seat_residents`` takes it."""

    classification: Classification
    best_effort: bool
    scores: Array


class SourceResidents:
    """One row per resident with a target, and two numbers per server and source.

    Args:
        drop_at_tolerated: Share of performance lost at the tolerated score.
        min_score: Lower bound of tolerated scores.
        max_drop: Largest slowdown, of the logarithm.
    """

    def __init__(self, drop_at_tolerated: float, min_score: float, max_drop: float) -> None:
        self._per_point, self._min_score = -log(1 - drop_at_tolerated), min_score
        self._max_drop = max_drop
        self._waiting: dict[int, Sequence[Resident]] = {}
        # By resident: its server's row; by source its curves, as the kernels have them; how far it
        # is above what it must keep, with its variance, and how surely.
        self._server = np.zeros(0, dtype=np.int64)
        self._slope = np.zeros((len(SOURCES), 0))
        self._doubt = np.zeros((len(SOURCES), 0))
        self._steep = np.zeros((len(SOURCES), 0))
        self._borne = np.zeros((len(SOURCES), 0))
        self._margin, self._variance, self._before = np.zeros(0), np.zeros(0), np.zeros(0)
        self._moved: list[int] = []
        self._known: list[dict[int, _Known]] = []
        self._rows_of: list[list[int]] = []
        self._free: list[int] = []
        self._count = 0
        self._unspent = np.zeros((2, len(SOURCES), 0))

    def put(self, row: int, residents: Sequence[Resident]) -> None:
        """Set the residents of a server."""
        if residents or row < len(self._rows_of) or row in self._waiting:
            self._waiting[row] = residents

    def drop(self, row: int) -> None:
        """Remove a server's row; later ones move up."""
        self._read()
        if row >= len(self._rows_of):
            return
        self._clear(row)
        del self._rows_of[row], self._known[row]
        self._server[self._server > row] -= 1
        self._unspent[:, :, row:-1] = self._unspent[:, :, row + 1 :]
        self._unspent[:, :, -1] = (MOST,), (0.0,)

    def loss(self, servers: int, caused: Array, variance: Array) -> ResidentsLoss:
        """What all residents of each server lose to one that causes this; (R,) by source."""
        self._read()
        return self._loss(self._of_each(), self._server, self._count, servers, caused, variance)

    def loss_on(self, rows: Rows, caused: Array, variance: Array) -> ResidentsLoss:
        """(N,) the same of these servers, by their residents alone."""
        self._read()
        self._widen(int(rows.max(initial=-1)) + 1)
        there = [self._rows_of[row] for row in rows.tolist()]
        seats = np.array([seat for seated in there for seat in seated], dtype=np.intp)
        server = np.repeat(np.arange(len(rows)), [len(seated) for seated in there])
        taken = [numbers.take(seats, axis=-1) for numbers in self._of_each()]
        return self._loss(taken, server, len(seats), len(rows), caused, variance)

    def _of_each(self) -> Sequence[Array]:
        """Numbers of the residents: their curves, and where they stand."""
        curves = self._slope, self._doubt, self._steep, self._borne
        return *curves, self._margin, self._variance, self._before

    def _loss(
        self,
        of_each: Sequence[Array],
        server: NDArray[np.int64],
        count: int,
        servers: int,
        caused: Array,
        caused_variance: Array,
    ) -> ResidentsLoss:
        slope, doubt, steep, borne, margin, variance, before = of_each
        drop, deviations = np.empty(count), np.empty(count)
        given = caused, caused_variance, self._max_drop, margin, variance
        press_residents(slope, doubt, steep, borne, *given, drop, deviations)
        targets, performance = np.zeros(servers), np.zeros(servers)
        sum_losses(before, normal_below(deviations), drop, server, targets, performance)
        return ResidentsLoss(targets, performance)

    def unspent(self, servers: int) -> tuple[Array, Array]:
        """(R, S) the least that a resident tolerates beyond what its neighbors cause; variance."""
        self._read()
        self._widen(servers)
        return self._unspent[0, :, :servers], self._unspent[1, :, :servers]

    def _read(self) -> None:
        for row, residents in self._waiting.items():
            self._widen(row + 1)
            self._clear(row)
            if residents:
                self._seat(row, residents)
        self._waiting.clear()
        if self._moved:
            margin, variance = self._margin[self._moved], self._variance[self._moved]
            self._before[self._moved] = normal_below(margin / np.sqrt(variance))
            self._moved.clear()

    def _widen(self, servers: int) -> None:
        before = len(self._rows_of)
        if servers > before:
            self._rows_of += [[] for _ in range(servers - before)]
            self._known += [{} for _ in range(servers - before)]
            width = self._unspent.shape[2]
            if servers > width:
                self._unspent = grown(
                    self._unspent, 2, len(SOURCES), doubled(width, servers), fill=0
                )
                self._unspent[0, :, width:] = MOST

    def _clear(self, row: int) -> None:
        for slot in self._rows_of[row]:
            heappush(self._free, slot)
            self._server[slot] = -1
            self._margin[slot], self._variance[slot] = 0.0, _LEAST
        for array in (self._slope, self._doubt, self._steep, self._borne):
            array[:, self._rows_of[row]] = 0.0
        self._moved += self._rows_of[row]
        self._rows_of[row] = []
        self._unspent[:, :, row] = (MOST,), (0.0,)

    def _seat(self, row: int, residents: Sequence[Resident]) -> None:
        before = self._known[row]
        known = [_known(each, before.get(each.uid)) for each in residents]
        self._known[row] = {each.uid: one for each, one in zip(residents, known, strict=True)}
        scores = np.array([one.scores for one in known])
        count = len(known)
        slope, doubt, steep, borne = curves = np.empty((4, count, len(SOURCES)))
        drop, variance, unspent = np.empty(count), np.empty(count), np.empty((2, len(SOURCES)))
        constants = self._per_point, self._min_score, self._max_drop
        seat_residents(scores, *constants, slope, doubt, steep, borne, drop, variance, unspent)
        self._unspent[:, :, row] = unspent
        seated = [at for at, each in enumerate(residents) if not each.best_effort]
        slots = self._take(row, len(seated))
        for slot, at in zip(slots, seated, strict=True):
            standing = Standing.of(residents[at])
            arrays = self._slope, self._doubt, self._steep, self._borne
            for array, of_each in zip(arrays, curves, strict=True):
                array[:, slot] = of_each[at]
            self._margin[slot] = standing.alone - drop[at] - standing.kept
            self._variance[slot] = standing.variance + variance[at] + _LEAST
        self._moved += slots

    def _take(self, row: int, count: int) -> list[int]:
        """Rows for new residents, ascending: so sums over them are in their order."""
        while len(self._free) < count:
            heappush(self._free, self._count)
            self._count += 1
        size = doubled(len(self._server), self._count)
        self._server = grown(self._server, size, fill=-1)
        self._slope = grown(self._slope, len(SOURCES), size)
        self._doubt = grown(self._doubt, len(SOURCES), size)
        self._steep = grown(self._steep, len(SOURCES), size)
        self._borne = grown(self._borne, len(SOURCES), size)
        self._margin, self._before = grown(self._margin, size), grown(self._before, size)
        self._variance = grown(self._variance, size, fill=_LEAST)
        self._rows_of[row] = [heappop(self._free) for _ in range(count)]
        self._server[self._rows_of[row]] = row
        return self._rows_of[row]


def _known(resident: Resident, before: _Known | None) -> _Known:
    """What is known of a resident, read anew where that is not what it was before."""
    stated, best_effort = resident.classification, resident.best_effort
    same = before is not None and before.best_effort == best_effort
    if same and before is not None and before.classification is stated:
        return before
    return _Known(stated, best_effort, np.array(_scores(resident)))


def _scores(resident: Resident) -> tuple[list[float], ...]:
    """Tolerated (NaN = unknown) and caused scores by source, each with its variance."""
    stated = resident.classification
    tolerated = [stated.tolerated.get(source) for source in SOURCES]
    caused = [
        None if resident.best_effort and source in YIELDED else stated.caused.get(source)
        for source in SOURCES
    ]
    if resident.best_effort:
        tolerated = [None] * len(SOURCES)
    return (
        [float("nan") if each is None else each.mean for each in tolerated],
        [0.0 if each is None else each.std**2 for each in tolerated],
        [0.0 if each is None else each.mean for each in caused],
        [0.0 if each is None else each.std**2 for each in caused],
    )
