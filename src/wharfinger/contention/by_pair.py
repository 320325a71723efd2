"""A newcomer beside each server's residents, where interference is known between pairs.

Both ways, as Paragon 3.1 has it by source: what it would suffer there, and what each resident
would suffer from it. All servers and residents at once, in a few products of matrices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.pairs import PairProfile, profile_on
from wharfinger.model.view import ClusterView, PairLevels

Array = NDArray[np.float64]
_UNKNOWN = -2
"""Index of a basis in which no resident is known; that of a server without any is -1."""
_NOTHING = PairProfile("", (), ())


@dataclass(frozen=True, slots=True)
class Felt:
    """What the residents do to a newcomer.

    Attributes:
        drop: (S,) what they take away of the logarithm of its performance.
        variance: (S,) of that.
        unfit: (S,) probability that it does not fit beside one of them, or more.
    """

    drop: Array
    variance: Array
    unfit: Array


@dataclass(frozen=True, slots=True)
class Harm:
    """What a newcomer does to the residents.

    Attributes:
        shortfall: (R,) by how much of its performance over target each falls below what it must
            keep, or further below, as a share; with the confidence that was asked for.
        pace: (R,) the logarithm of its performance over target, beside the newcomer too.
        server: (R,) row of each one's server.
    """

    shortfall: Array
    pace: Array
    server: NDArray[np.int64]

    def by_server(self, servers: int) -> Array:
        """(S,) shortfalls added."""
        at = np.maximum(self.server, 0)
        return np.asarray(np.bincount(at, self.shortfall, servers), dtype=np.float64)

    def worst(self, row: int) -> int | None:
        """Who of a server falls furthest, or has the least left; ``None`` = nobody is there."""
        there = np.flatnonzero(self.server == row)
        if not there.size:
            return None
        return int(there[np.lexsort((self.pace[there], -self.shortfall[there]))[0]])


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Its profiles as arrays, one row a platform; zero where it has none.

    Attributes:
        basis: (P,) index in the view's.
        suffers: (P, F).
        suffers_variance: (P, F).
        presses: (P, F).
        presses_variance: (P, F).
        excluded: (P, G).
    """

    basis: NDArray[np.int64]
    suffers: Array
    suffers_variance: Array
    presses: Array
    presses_variance: Array
    excluded: Array

    @classmethod
    def of(
        cls, pairs: Mapping[str, PairProfile], platforms: Sequence[str], levels: PairLevels
    ) -> "Newcomer":
        """In the bases that residents are known in; others say nothing of them."""
        found = [profile_on(pairs, platform) or _NOTHING for platform in platforms]
        known = [p if p.basis in levels.bases else _NOTHING for p in found]
        factors, kinds = levels.presses.shape[1], levels.excludes.shape[1]
        return cls(
            np.array([levels.bases.get(p.basis, _UNKNOWN) for p in known], dtype=np.int64),
            _rows([p.suffers for p in known], factors),
            _rows([p.suffers_variance for p in known], factors),
            _rows([p.presses for p in known], factors),
            _rows([p.presses_variance for p in known], factors),
            _rows([p.excluded for p in known], kinds),
        )


def felt(newcomer: Newcomer, view: ClusterView, levels: PairLevels) -> Felt:
    """What it would suffer on each server; nothing where nobody is known in its basis."""
    at = view.platform
    known = levels.basis == newcomer.basis[at]
    square = newcomer.suffers**2 + newcomer.suffers_variance
    drop = _picked(levels.presses, newcomer.suffers, at)
    variance = _picked(levels.presses_variance, square, at)
    if newcomer.suffers_variance.any():
        variance += _picked(levels.presses**2, newcomer.suffers_variance, at)
    unfit = _picked(levels.excludes, newcomer.excluded, at)
    return Felt(*(np.where(known, each, 0.0) for each in (drop, variance, unfit)))


def harm(newcomer: Newcomer, view: ClusterView, levels: PairLevels, z: float) -> Harm:
    """What it would do to each resident.

    Args:
        newcomer: With its profiles.
        view: Of all servers.
        levels: Of the residents.
        z: Standard deviations that stand for the confidence.
    """
    at = view.platform[levels.server]
    known = levels.basis[levels.server] == newcomer.basis[at]
    more = _picked(levels.suffers, newcomer.presses, at)
    own = levels.suffers_variance
    variance = np.zeros(len(own))
    if own.any():
        variance += _picked(own, newcomer.presses**2, at) + _picked(
            levels.cross, newcomer.presses, at
        )
    if newcomer.presses_variance.any():
        variance += _picked(levels.suffers**2 + own, newcomer.presses_variance, at)
    more, variance = np.where(known, more, 0.0), np.where(known, variance, 0.0)
    variance = np.maximum(variance, -levels.pace_variance)
    pace = levels.pace - more
    before = levels.pace - z * np.sqrt(levels.pace_variance) - levels.least
    after = pace - z * np.sqrt(levels.pace_variance + variance) - levels.least
    further = np.minimum(before, 0.0) - np.minimum(after, 0.0)
    return Harm(-np.expm1(-np.maximum(further, 0.0)), pace, levels.server)


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


def _rows(found: Sequence[tuple[float, ...]], width: int) -> Array:
    rows = np.zeros((len(found), width))
    for row, values in enumerate(found):
        rows[row, : len(values)] = values
    return rows
