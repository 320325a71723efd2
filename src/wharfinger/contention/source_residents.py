"""Residents one by one, with their scores by source: what each would lose, and has left.

What is put is read with the next question only: policies that never ask pay nothing.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from math import log

import numpy as np

from wharfinger.contention.kept import Standing, residents_loss
from wharfinger.contention.rows import doubled, grown
from wharfinger.core.seams.contention import Array, Resident, ResidentsLoss
from wharfinger.model.interference import YIELDED, SharedResource

SOURCES = tuple(SharedResource)
MOST = 100.0
"""Points: no source is pressed harder."""


def bent(points: Array, score: Array | float) -> Array:
    """The points of a line that costs as much as these do on the sensitivity curve.

    Below the tolerated score the loss falls with the square, beyond it is on the line. Programs
    hardly suffer until a resource is short: a line from 0 adds up to a loss that nobody suffers,
    once several neighbors press a little on each of several sources.

    >>> bent(np.array([0.0, 10.0, 40.0, 80.0]), 40.0).tolist()
    [0.0, 2.5, 40.0, 80.0]
    """
    return np.asarray(points * np.minimum(points / score, 1.0))


def bend(points: Array, score: Array | float) -> Array:
    """How steep that is, at most as the line: of small changes of the points.

    >>> bend(np.array([0.0, 10.0, 40.0, 80.0]), 40.0).tolist()
    [0.0, 0.5, 1.0, 1.0]
    """
    return np.asarray(np.minimum(2.0 * points / score, 1.0))


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
        self._server = np.zeros(0, dtype=np.int64)
        self._slope = np.zeros((0, len(SOURCES)))
        self._doubt = np.zeros((0, len(SOURCES)))
        self._score = np.zeros((0, len(SOURCES)))
        self._borne = np.zeros((0, len(SOURCES)))
        self._margin = np.zeros((0, 2))
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
        del self._rows_of[row]
        self._server[self._server > row] -= 1
        self._unspent[:, :, row:-1] = self._unspent[:, :, row + 1 :]
        self._unspent[:, :, -1] = (MOST,), (0.0,)

    def loss(self, servers: int, caused: Array, variance: Array) -> ResidentsLoss:
        """What all residents of each server lose to one that causes this; (R,) by source."""
        self._read()
        rows, some = slice(self._count), np.flatnonzero(caused > 0)
        slope, doubt = self._slope[rows, some], self._doubt[rows, some]
        score, borne = self._score[rows, some], self._borne[rows, some]
        margin, margin_variance = self._margin[rows].T
        caused, variance = caused[some], variance[some]
        points = bent(borne + caused, score) - bent(borne, score)
        drop = np.minimum((slope * points).sum(axis=1), self._max_drop)
        share = np.minimum(points / caused, 1.0)
        drop_variance = (slope * share) ** 2 @ variance + ((doubt * points) ** 2).sum(axis=1)
        return residents_loss(
            margin, margin_variance, drop, drop_variance, self._server[rows], servers
        )

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

    def _widen(self, servers: int) -> None:
        before = len(self._rows_of)
        if servers > before:
            self._rows_of += [[] for _ in range(servers - before)]
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
            for array in (self._slope, self._doubt, self._borne, self._margin):
                array[slot] = 0.0
            self._score[slot] = MOST
        self._rows_of[row] = []
        self._unspent[:, :, row] = (MOST,), (0.0,)

    def _seat(self, row: int, residents: Sequence[Resident]) -> None:
        numbers = np.array([_scores(each) for each in residents])
        tolerated, t_variance, caused, c_variance = numbers.transpose(1, 0, 2)
        others = np.clip(caused.sum(axis=0) - caused, 0.0, MOST)
        others_variance = np.maximum(c_variance.sum(axis=0) - c_variance, 0.0)
        left, left_variance = tolerated - others, t_variance + others_variance
        known = np.isfinite(tolerated)
        ordered = np.where(known, left, np.inf)
        least, at = ordered.argmin(axis=0), np.arange(len(SOURCES))
        limited = known[least, at] & (left[least, at] < MOST)
        self._unspent[0, :, row] = np.where(limited, left[least, at], MOST)
        self._unspent[1, :, row] = np.where(limited, left_variance[least, at], 0.0)
        score = np.maximum(tolerated, self._min_score)
        slope = np.where(known, self._per_point / score, 0.0)
        doubt = np.where(known, slope * np.sqrt(np.where(known, t_variance, 0.0)) / score, 0.0)
        slope, doubt = np.nan_to_num(slope), np.nan_to_num(doubt)
        score = np.nan_to_num(score, nan=MOST)
        points, steep = bent(others, score), bend(others, score)
        drop = np.minimum((slope * points).sum(axis=1), self._max_drop)
        variance = ((slope * steep) ** 2 * others_variance + (doubt * points) ** 2).sum(axis=1)
        seated = [at for at, each in enumerate(residents) if not each.best_effort]
        for slot, at_ in zip(self._take(row, len(seated)), seated, strict=True):
            standing = Standing.of(residents[at_])
            self._slope[slot], self._doubt[slot] = slope[at_], doubt[at_]
            self._score[slot], self._borne[slot] = score[at_], others[at_]
            margin = standing.alone - drop[at_] - standing.kept
            self._margin[slot] = margin, standing.variance + variance[at_]

    def _take(self, row: int, count: int) -> list[int]:
        """Rows for new residents, ascending: so sums over them are in their order."""
        while len(self._free) < count:
            heappush(self._free, self._count)
            self._count += 1
        size = doubled(len(self._server), self._count)
        self._server = grown(self._server, size, fill=-1)
        self._slope = grown(self._slope, size, len(SOURCES))
        self._doubt = grown(self._doubt, size, len(SOURCES))
        self._score = grown(self._score, size, len(SOURCES), fill=MOST)
        self._borne = grown(self._borne, size, len(SOURCES))
        self._margin = grown(self._margin, size, 2)
        self._rows_of[row] = [heappop(self._free) for _ in range(count)]
        self._server[self._rows_of[row]] = row
        return self._rows_of[row]


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
