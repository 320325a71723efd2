"""Paragon's greedy search: who tolerates whom, source by source, with back-tracking (Paragon 3.2).

D1 is what a server's residents tolerate less what the newcomer causes, D2 what it tolerates less
what they cause. A test is one of these for one source; those that are hardest to satisfy come
first: D1 by falling c of the newcomer, D2 by its rising t. Where all tests pass somewhere, the
answer is also that of the index (``harmony``), which looks at a few servers only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array, Rows, ScoreColumns
from wharfinger.model.interference import YIELDED, SharedResource
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.searches import BACK_TRACKS, LEVELS, TIMED_OUT
from wharfinger.model.view import View

SOURCES = tuple(SharedResource)
MOST = 100.0
"""Points: the highest score."""


@dataclass(frozen=True, slots=True)
class OwnScores:
    """A newcomer's, (R,) each in the order of ``SharedResource``; NaN = unknown: not tested.

    In the norm an unknown score counts as the one that harms none.
    """

    tolerated: Array
    tolerated_variance: Array
    caused: Array
    caused_variance: Array

    @classmethod
    def of(
        cls, classification: Classification, *, best_effort: bool = False, below: float = inf
    ) -> "OwnScores":
        """Best-effort work has no target, and yields the cores.

        What is not ``below`` so many points, of what it tolerates, is not tested.
        """
        columns = [*_UNKNOWN, *_UNKNOWN]
        if not best_effort:
            _fill(columns, 0, classification.tolerated, below=below)
        _fill(columns, 2, classification.caused, YIELDED if best_effort else ())
        return cls(*np.array(columns, np.float64).reshape(4, len(SOURCES)))

    def tests(self) -> list[tuple[bool, int]]:
        """What is tested, in order: whether it is D1, and the source's place."""
        caused = [at for at in range(len(SOURCES)) if not np.isnan(self.caused[at])]
        tolerated = [at for at in range(len(SOURCES)) if not np.isnan(self.tolerated[at])]
        first = sorted(caused, key=lambda at: (-self.caused[at], at))
        then = sorted(tolerated, key=lambda at: (self.tolerated[at], at))
        return [*((True, at) for at in first), *((False, at) for at in then)]

    def beyond(self) -> tuple[list[float], float]:
        """Of each source t less c; the sum."""
        tolerated = np.where(np.isnan(self.tolerated), MOST, self.tolerated)
        beyond = (tolerated - np.where(np.isnan(self.caused), 0.0, self.caused)).tolist()
        total = 0.0
        for each in beyond:
            total += each
        return beyond, total


_UNKNOWN = (np.nan,) * len(SOURCES) + (0.0,) * len(SOURCES)
_AT = {source: at for at, source in enumerate(SOURCES)}


def _fill(
    columns: list[float],
    first: int,
    scores: Mapping[SharedResource, Estimate],
    without: Collection[SharedResource] = (),
    below: float = inf,
) -> None:
    """The means are column ``first``, their variances the next one."""
    for source, score in scores.items():
        mean, std = score.mean, score.std
        if mean < below and source not in without:
            at = first * len(SOURCES) + _AT[source]
            columns[at], columns[at + len(SOURCES)] = mean, std * std


@dataclass(frozen=True, slots=True)
class Searched:
    """The servers that were found, best first.

    Attributes:
        norms: ‖D1 + D2‖₁ of each, in points.
        violations: Of each, in points: by how much D1 and D2 lack 0, added; 0 = all tests pass.
        back_tracks: How many tests no server passed that was left.
        levels: How many sources were relaxed for that.
        timed_out: Whether the search was ended by its bound: some sources were not looked at.
    """

    rows: list[int]
    norms: list[float]
    violations: list[float]
    back_tracks: int = 0
    levels: int = 0
    timed_out: bool = False

    def numbers(self) -> dict[str, float]:
        """As a decision tells them."""
        return {
            BACK_TRACKS: float(self.back_tracks),
            LEVELS: float(self.levels),
            TIMED_OUT: float(self.timed_out),
        }


@dataclass(frozen=True, slots=True)
class GreedySearch:
    """One newcomer and the scores of all servers.

    Attributes:
        z: Standard deviations with which each test must hold; 0 = as published.
        preference: (S,) 0 where it would perform best, 1 where second best, and so on.
        keep: How many servers to return at most.
        bound: How many tests of a server to make at most; then the best so far counts.
    """

    own: OwnScores
    scores: ScoreColumns
    view: View
    z: float
    preference: NDArray[np.intp]
    keep: int
    bound: int

    def among(self, able: Rows) -> Searched:
        """The best of these servers, by violation, preference, norm, load, row."""
        left, violation = able, np.zeros(len(self.view.names))
        looked_at, relaxed, timed_out = 0, set[int](), False
        back_tracks = 0
        for is_first, source in self.own.tests():
            if looked_at + len(left) > self.bound:
                timed_out = True
                break
            looked_at += len(left)
            spare = self._spare(is_first, source, left)
            violation[left] += np.maximum(-spare, 0.0)
            passing = spare >= 0
            if not passing.any():
                back_tracks += 1
                relaxed.add(source)
                passing = spare >= spare.max(initial=-np.inf)
            left = left[passing]
        ranks, total = self._ranks(left)
        load = self.view.cpu_allocated[left] / np.maximum(self.view.cpu_capacity[left], 1)
        order = np.lexsort((left, load, ranks, self.preference[left], violation[left]))[: self.keep]
        rows = left[order]
        norms = (ranks[order] + total).tolist()
        return Searched(
            rows.tolist(), norms, violation[rows].tolist(), back_tracks, len(relaxed), timed_out
        )

    def _spare(self, is_first: bool, source: int, rows: Rows) -> Array:
        """D1 or D2 with the confidence; nobody is slowed on an empty server."""
        own, scores = self.own, self.scores
        if is_first:
            d = scores.tolerated[source, rows] - own.caused[source]
            variance = scores.tolerated_variance[source, rows] + own.caused_variance[source]
        else:
            d = own.tolerated[source] - scores.caused[source, rows]
            variance = own.tolerated_variance[source] + scores.caused_variance[source, rows]
        spare = d - self.z * np.sqrt(variance)
        return np.asarray(np.where(self.view.residents[rows] > 0, spare, np.inf))

    def _ranks(self, rows: Rows) -> tuple[Array, float]:
        """The norms without the newcomer's constant, added up as the index does; the constant."""
        beyond, total = self.own.beyond()
        taken = self.view.residents[rows] > 0
        spare, lacking = np.zeros(len(rows)), np.zeros(len(rows))
        for source, own in enumerate(beyond):
            tolerated = np.where(taken, self.scores.tolerated[source, rows], MOST)
            server = tolerated - np.where(taken, self.scores.caused[source, rows], 0.0)
            spare += server
            lacking += np.maximum(-(server + own), 0.0)
        return spare + 2.0 * lacking, total


def cumulative(scores: ScoreColumns) -> ScoreColumns:
    """For each resident its t less the others' c; what a server causes is at most 100."""
    return replace(
        scores,
        tolerated=scores.unspent,
        tolerated_variance=scores.unspent_variance,
        caused=np.minimum(scores.caused, MOST),
    )
