"""Contention source by source: tolerated against caused interference (Paragon 2.4, 3.1, 3.2).

A server tolerates the least that any resident does, and causes the sum over them (docs/papers.md).
D1 is what residents tolerate less what the newcomer causes, D2 the reverse. Where both are 0 or
more for every source, no workload is slowed beyond its tolerance; among those servers the one with
the least ‖D1 + D2‖₁ wastes the least tolerance. Scores are uncertain: D must hold with the stated
confidence.

The slowdown is read off the sensitivity curve, of which one point is known: at the tolerated score
5% of performance are lost. Beyond it is a line through that point. Below it, it falls with the
square: such curves are flat until the resource is short, and a line from 0 would add up to a loss
that nobody suffers, once several neighbors press a little on each of several sources. Variances are
added.

All this is for best-effort work, and for newcomers with a measured score. Scores that are only
predicted tell no more than the CPU that residents hold, which counts instead (``by_share``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, nan
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.by_share import ShareAssessment
from wharfinger.contention.rows import close_up, doubled, grown
from wharfinger.contention.source_residents import SourceResidents
from wharfinger.core.seams.contention import (
    Array,
    Assessment,
    ContentionCost,
    ContentionTable,
    LogEstimates,
    QualityColumns,
    Resident,
    ResidentsLoss,
    Rows,
    Score,
    ScoreColumns,
)
from wharfinger.model.interference import QUALITY_SOURCES, YIELDED, SharedResource
from wharfinger.model.profile import Classification, Estimate, quantile
from wharfinger.model.view import Request, View
from wharfinger.native import add_exceeded, refresh_quality, sum_drops

SOURCES = tuple(SharedResource)
ALONE = np.array((100.0, 0.0, 0.0, 0.0))
"""Of an empty server: tolerated and its variance, caused and its variance."""
MANY = 4
"""Of more than one in so many servers nothing is picked out: all are worked out."""
_AT = {source: at for at, source in enumerate(SOURCES)}


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Constants of the model.

    Attributes:
        drop_at_tolerated: Share of performance lost at the tolerated score (Paragon 2.3).
        min_score: Lower bound of tolerated scores: no ramp tries a lower intensity, so a lower
            score is extrapolated, and mostly noise.
        max_drop: Largest slowdown by one source, of the logarithm: nine tenths.
        max_variance: Largest variance of that.
        share_drop: Where no score of the newcomer is measured: what residents that hold all of a
            server's CPU take off the logarithm of its performance, whatever is predicted; 0 = by
            predicted scores.
        share_spread: Standard deviation of that, as a share of it.
    """

    drop_at_tolerated: float = 0.05
    min_score: float = 10.0
    max_drop: float = 2.3
    max_variance: float = 1.0
    share_drop: float = 0.15
    share_spread: float = 0.5


@dataclass(frozen=True, slots=True)
class BySource:
    """The model."""

    settings: SourceSettings = SourceSettings()
    name: ClassVar[str] = "by-source"

    def table(self) -> "SourceTable":
        """An empty one."""
        return SourceTable(self.settings)


class SourceTable(ContentionTable):
    """Four numbers per server and source, in the order of ``ALONE``.

    Scores are too rough to correct measurements of residents by them.
    """

    has_scores = True

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._levels = np.zeros((4, len(SOURCES), 0))
        self._is_pressed = np.zeros(0, dtype=np.bool_)
        self._quality = np.ones((2, 0))
        self._stale: set[int] = set()
        self._columns = QualityColumns(self._quality[0], self._quality[1])
        self._residents = SourceResidents(
            settings.drop_at_tolerated, settings.min_score, settings.max_drop
        )

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Whether the scores of the server changed."""
        self._grow(row + 1)
        self._residents.put(row, residents)
        if not residents and not self._is_pressed[row]:
            return False
        levels = _together(residents)
        if np.array_equal(levels, self._levels[:, :, row]):
            return False
        self._levels[:, :, row] = levels
        self._is_pressed[row] = bool((levels != ALONE[:, None]).any())
        self._stale.add(row)
        return True

    def drop(self, row: int) -> None:
        """Remove a server's row."""
        self._residents.drop(row)
        if row < len(self._is_pressed) and self._is_pressed.any():  # else all are equal
            self._levels[:, :, row:-1] = self._levels[:, :, row + 1 :]
            self._levels[:, :, -1] = ALONE[:, None]
            close_up(self._is_pressed, row)
            self._stale.update(range(row, len(self._is_pressed)))

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        """By its scores, if one is measured, else by the CPU that residents hold."""
        classification, servers = request.classification, len(view.names)
        if classification is None or not (classification.tolerated or classification.caused):
            return Assessment(servers)
        self._grow(servers)
        effort, settings = request.workload.best_effort, self._settings
        if settings.share_drop > 0 and not (effort or classification.scores_measured):
            pressed = self._is_pressed[:servers]
            return ShareAssessment(view, pressed, settings.share_drop, settings.share_spread)
        levels = self._levels[:, :, :servers]
        residents = self._residents
        return SourceAssessment(
            classification, effort, levels, residents, view, confidence, settings
        )

    def scores(self, row: int) -> list[Score]:
        """Of each source that a resident causes, or does not fully tolerate."""
        self._grow(row + 1)
        levels = zip(SOURCES, self._levels[:, :, row].T.tolist(), strict=True)
        return [
            Score(source, Estimate(t, tv**0.5), Estimate(c, cv**0.5))
            for source, (t, tv, c, cv) in levels
            if t < ALONE[0] or c > ALONE[2]
        ]

    def score_columns(self, servers: int) -> ScoreColumns:
        """Of every server."""
        self._grow(servers)
        levels = self._levels[:, :, :servers]
        unspent, variance = self._residents.unspent(servers)
        return ScoreColumns(levels[0], levels[1], levels[2], levels[3], unspent, variance)

    def quality_columns(self, servers: int) -> QualityColumns:
        """Of every server; only those are worked out whose scores have changed."""
        self._grow(servers)
        if self._stale or len(self._columns.both) != servers:
            refresh_quality(self._levels, list(self._stale), self._quality, QUALITY_SOURCES)
            self._stale.clear()
            # Also where only rows have changed: the columns of a copy are no views of its numbers.
            self._columns = QualityColumns(self._quality[0, :servers], self._quality[1, :servers])
        return self._columns

    def _grow(self, servers: int) -> None:
        before = len(self._is_pressed)
        if servers > before:
            rows = doubled(before, servers)
            self._levels = grown(self._levels, 4, len(SOURCES), rows)
            self._levels[:, :, before:] = ALONE[:, None, None]
            self._is_pressed = grown(self._is_pressed, rows)
            self._quality = grown(self._quality, 2, rows, fill=1.0)
            self._columns = QualityColumns(self._quality[0], self._quality[1])


def _together(residents: Sequence[Resident]) -> Array:
    """(4, R): the scores of the residents of one server."""
    levels = np.repeat(ALONE[:, None], len(SOURCES), axis=1)
    for resident in residents:
        tolerated, caused = _counted(resident.classification, best_effort=resident.best_effort)
        for source, score in tolerated.items():
            if score.mean < levels[0, _AT[source]]:
                levels[:2, _AT[source]] = score.mean, score.std**2
        for source, score in caused.items():
            levels[2:, _AT[source]] += score.mean, score.std**2
    return levels


Scores = Mapping[SharedResource, Estimate]
_NOT_CAUSED = Estimate(0.0, 0.0)


def _counted(classification: Classification, *, best_effort: bool) -> tuple[Scores, Scores]:
    """Tolerated and caused scores: best-effort work has no target, and yields the cores."""
    if not best_effort:
        return classification.tolerated, classification.caused
    return {}, {s: score for s, score in classification.caused.items() if s not in YIELDED}


class SourceAssessment(Assessment):
    """D1 and D2 of a newcomer on every server; each source holds with the confidence.

    ``levels``, (4, R, S), are those of the residents.
    """

    def __init__(
        self,
        classification: Classification,
        best_effort: bool,
        levels: Array,
        residents: SourceResidents,
        view: View,
        confidence: float,
        settings: SourceSettings,
    ) -> None:
        super().__init__(len(view.names))
        self._known, self._levels, self._settings = classification, levels, settings
        self._tolerated, self._caused = _counted(classification, best_effort=best_effort)
        self.informed = bool(self._tolerated or self._caused)
        self._residents, self._each = view.residents, residents
        self._z = quantile(confidence)

    @cached_property
    def _sources(self) -> list[SharedResource]:
        return [s for s in SOURCES if s in self._tolerated or s in self._caused]

    @cached_property
    def suffered(self) -> LogEstimates:
        """The slope of each sensitivity curve times the pressure, added."""
        return self._suffered(None)

    def suffered_on(self, rows: Rows) -> LogEstimates:
        """The same, of these servers alone where they are few."""
        return self._suffered(rows) if self._are_few(rows) else super().suffered_on(rows)

    def _suffered(self, rows: Rows | None) -> LogEstimates:
        settings, caused = self._settings, (self._levels[2], self._levels[3])
        curve = -log(1 - settings.drop_at_tolerated), settings.min_score
        most = settings.max_drop, settings.max_variance
        return LogEstimates(*sum_drops(*caused, *self._bears, *curve, *most, rows))

    @cached_property
    def _bears(self) -> tuple[Array, Array]:
        """(R,) points that it tolerates, NaN = unknown, and their standard deviations."""
        means, stds = [nan] * len(SOURCES), [0.0] * len(SOURCES)
        for source, score in self._known.tolerated.items():
            means[_AT[source]], stds[_AT[source]] = score.mean, score.std
        return np.array(means, np.float64), np.array(stds, np.float64)

    def residents_loss(self) -> ResidentsLoss:
        """By the slope of each one's own curves."""
        return self._each.loss(self._servers, *self._presses())

    def residents_loss_on(self, rows: Rows) -> ResidentsLoss:
        """The same, of these servers' residents alone where they are few."""
        if not self._are_few(rows):
            return super().residents_loss_on(rows)
        return self._each.loss_on(rows, *self._presses())

    def _presses(self) -> tuple[Array, Array]:
        """(R,) points that it causes, and their variances."""
        caused = [self._caused.get(source, _NOT_CAUSED) for source in SOURCES]
        means = np.array([score.mean for score in caused])
        return means, np.array([score.std**2 for score in caused])

    def _are_few(self, rows: Rows) -> bool:
        return len(rows) * MANY < self._servers

    def cost(
        self, able: NDArray[np.bool_], performance: Callable[[], LogEstimates] | None
    ) -> ContentionCost:
        """Points by which scores are exceeded; the share of tolerance that is wasted."""
        servers = len(able)
        violation, norm = np.zeros(servers), np.zeros(servers)
        for source in self._sources:
            self._add(source, slice(None), violation, norm)
        waste = norm / (200.0 * max(len(self._sources), 1))
        return ContentionCost(violation, np.zeros(servers), waste)

    def _add(self, source: SharedResource, here: slice, exceeded: Array, norm: Array) -> None:
        """Add the points by which D1 and D2 of a source are below 0; and |D1 + D2|."""
        caused, tolerated = (
            None if score is None else (score.mean, score.std**2)
            for score in (self._caused.get(source), self._tolerated.get(source))
        )
        t, t_variance, c, c_variance = self._levels[:, _AT[source], here]
        columns = t, t_variance, c, c_variance, self._residents[here]
        add_exceeded(*columns, caused, tolerated, self._z, exceeded, norm)

    def worst(self, row: int) -> str:
        """The source that is exceeded most."""
        source, points = self._most(row)
        return f"{source} is exceeded by {points:.0f} points"

    def refusal(self, row: int) -> str:
        """The same source, and all points."""
        source, points = self._most(row)
        return f"{source} by {points:.0f} points more than tolerated"

    def _most(self, row: int) -> tuple[SharedResource, float]:
        """The source that is exceeded most on a server, and the points of all sources."""
        exceeded = [self._exceeded(source, row) for source in self._sources]
        most = max(range(len(exceeded)), key=exceeded.__getitem__)
        return self._sources[most], sum(exceeded)

    def _exceeded(self, source: SharedResource, row: int) -> float:
        exceeded = np.zeros(1)
        self._add(source, slice(row, row + 1), exceeded, np.zeros(1))
        return float(exceeded[0])
