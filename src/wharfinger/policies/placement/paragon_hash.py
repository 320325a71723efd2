"""Paragon's statistical selection: a few servers that hashes name, the best of them (Paragon 3.3).

Of R servers drawn at random, whatever they are like, none belongs to the best share 1 - a of all
with probability a^R. So R = ⌈ln p / ln a⌉ servers are looked at, however many there are. Hashes of
scores are the draw: what a newcomer causes names servers by what they tolerate.

docs/decisions/0055-statistical-selection.md says what is read otherwise than printed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import sha1
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array, Rows, ScoreColumns
from wharfinger.errors import InvalidInput
from wharfinger.model.view import View
from wharfinger.native import HashedServers
from wharfinger.policies.placement.paragon_search import SOURCES, OwnScores

BITS = 14
"""Of a score and of its hash (Paragon 3.3)."""
HASHES_OF_ONE = 16
"""Hashes that are made for a server which is to be looked at, at most: most may be full."""
MOST_CANDIDATES = 100_000


class Selection(StrEnum):
    """How many servers are looked at."""

    GREEDY = "greedy"
    """All (Paragon 3.2)."""
    HASH = "hash"
    """Those that hashes of scores name (Paragon 3.3)."""


@dataclass(frozen=True, slots=True)
class HashSettings:
    """What ``selection=hash`` promises.

    Attributes:
        quality: Share of the servers with room that shall not be better than the chosen one.
        miss: Probability that they are: a^R, where R servers are looked at.
    """

    quality: float = 0.9
    miss: float = 0.001

    def candidates(self, policy: str = "paragon") -> int:
        """R = ⌈ln p / ln a⌉.

        Raises:
            InvalidInput: A share or a probability is none, or they need too many.

        >>> HashSettings(quality=0.9, miss=0.001).candidates()
        66
        """
        for name, value in (("quality", self.quality), ("miss", self.miss)):
            if not 0 < value < 1:
                raise InvalidInput(f"{policy}: hash.{name}={value:g} is not between 0 and 1")
        wanted = log(self.miss) / log(self.quality)
        if wanted > MOST_CANDIDATES:
            raise InvalidInput(
                f"{policy}: hash.quality={self.quality:g} with hash.miss={self.miss:g} needs "
                f"{wanted:.0f} servers, more than {MOST_CANDIDATES}; lower hash.quality or raise "
                "hash.miss"
            )
        return ceil(wanted - 1e-9)


@dataclass(frozen=True, slots=True)
class HashedCandidates:
    """Servers that were looked at, best first.

    Attributes:
        violations: By how much D1 and D2 lack 0, added, in points; 0 = nobody is slowed too much.
        qualities: Of each, from -1 to 1.
        hashed: How often it was hashed for them; 0 = there were so few that all were looked at.
    """

    rows: list[int]
    violations: list[float]
    qualities: list[float]
    hashed: int


class HashTables:
    """A ``ServerIndex``: servers by the hashed scores of what they tolerate.

    Args:
        counted: Makes of the scores of servers those that count; ``None`` = as they are.
        by_name: Whether a server's name is hashed with its scores, and with each score of a
            newcomer all of them. As published they are not: servers with equal scores, which all
            empty ones have, then stand in one place.
    """

    def __init__(
        self, counted: Callable[[ScoreColumns], ScoreColumns] | None = None, *, by_name: bool = True
    ) -> None:
        self._tables = HashedServers(_hashes(), by_name)
        self._counted = counted

    def touch(self, row: int) -> None:
        """Something about this server changes, also the scores of its residents."""
        self._tables.touch(row)

    def drop(self, row: int) -> None:
        """Remove the row; later ones move up."""
        self._tables.drop(row)

    def drawn(self, view: View, own: OwnScores, able: Rows, wanted: int) -> tuple[Rows, int]:
        """Of the able servers so many different ones, and how often it was hashed for them.

        Fewer where there are no more, or where ``HASHES_OF_ONE`` hashes for each did not find them.
        """
        servers = len(view.names)
        if len(able) <= wanted:
            return able, 0
        if not self._tables.is_current(servers):
            self._read(view, servers)
        is_able = np.zeros(servers, dtype=np.uint8)
        is_able[able] = 1
        rows = np.empty(wanted, dtype=np.int64)
        most = HASHES_OF_ONE * wanted
        found, hashed = self._tables.drawn(own.caused, is_able, wanted, most, rows)
        return rows[:found].astype(np.intp, copy=False), hashed

    def _read(self, view: View, servers: int) -> None:
        tolerated = np.full((len(SOURCES), servers), 100.0)
        scores = None if view.contention is None else view.contention.score_columns(servers)
        if scores is not None:
            tolerated = (scores if self._counted is None else self._counted(scores)).tolerated
        first = min(self._tables.read_rows(), servers)
        tags = [_tag(name) for name in view.names[first:]]
        self._tables.update(servers, tolerated, np.array(tags, dtype=np.uint32))


def ranked(
    own: OwnScores,
    scores: ScoreColumns,
    view: View,
    z: float,
    preference: NDArray[np.intp],
    rows: Rows,
) -> tuple[NDArray[np.intp], Array, Array]:
    """How servers that were drawn rank, with what is violated on each and its quality.

    Of those that are slowed no more than they tolerate the highest quality is first; of the others
    the least violation. Then platform, load and row decide.

    Args:
        own: The newcomer's scores.
        scores: Those of all servers.
        view: Of the servers.
        z: Standard deviations with which nobody is slowed too much; 0 = as published.
        preference: (S,) 0 where the newcomer would perform best.
        rows: (N,) servers that were drawn.

    Returns:
        (N,) their order, (N,) violations in points, (N,) qualities.
    """
    violation = _violation(own, scores, view, z, rows)
    quality = qualities(own, scores, rows)
    load = view.cpu_allocated[rows] / np.maximum(view.cpu_capacity[rows], 1)
    order = np.lexsort((rows, load, preference[rows], -quality, violation))
    return order, violation, quality


def qualities(own: OwnScores, scores: ScoreColumns, rows: Rows) -> Array:
    """(N,) s · (1 - mean |t - c| / 100) of servers; s = -1 where t < c for any source, else 1.

    t is what a server tolerates, c what the newcomer causes; sources of which c is unknown are left
    out, and where all are, the quality is 0.
    """
    known = np.flatnonzero(~np.isnan(own.caused))
    if not known.size:
        return np.zeros(len(rows))
    spare = scores.tolerated[np.ix_(known, rows)] - own.caused[known, None]
    deviation = np.minimum(np.abs(spare).mean(axis=0) / 100.0, 1.0)
    signs = np.where((spare < 0).any(axis=0), -1.0, 1.0)
    return np.asarray(signs * (1.0 - deviation))


def _violation(
    own: OwnScores, scores: ScoreColumns, view: View, z: float, rows: Rows
) -> NDArray[np.float64]:
    """By how much D1 and D2 lack 0, added over the sources; nobody is slowed on an empty server."""
    first = np.flatnonzero(~np.isnan(own.caused))
    then = np.flatnonzero(~np.isnan(own.tolerated))
    at, other = np.ix_(first, rows), np.ix_(then, rows)
    d1 = scores.tolerated[at] - own.caused[first, None]
    d2 = own.tolerated[then, None] - scores.caused[other]
    if z:
        d1 = d1 - z * np.sqrt(scores.tolerated_variance[at] + own.caused_variance[first, None])
        d2 = d2 - z * np.sqrt(own.tolerated_variance[then, None] + scores.caused_variance[other])
    lacking = np.maximum(-d1, 0.0).sum(axis=0) + np.maximum(-d2, 0.0).sum(axis=0)
    return np.asarray(np.where(view.residents[rows] > 0, lacking, 0.0))


def _tag(name: str) -> int:
    return int.from_bytes(sha1(name.encode()).digest()[:4], "little")


@cache
def _hashes() -> NDArray[np.uint16]:
    """(R, 2^14) the slot of each score; one of SHA-1's variations for each source."""
    digests = b"".join(
        sha1(bytes([half]) + score.to_bytes(2, "little")).digest()
        for score in range(2**BITS)
        for half in range(2)
    )
    words = np.frombuffer(digests, dtype="<u2").reshape(2**BITS, -1)
    return np.ascontiguousarray(words[:, : len(SOURCES)].T & (2**BITS - 1)).astype(np.uint16)
