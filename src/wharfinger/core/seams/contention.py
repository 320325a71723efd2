"""Contention models: how workloads on one server slow one another.

The core keeps a model's table up to date, server by server; the view carries it to placements.
Neither knows which model it is. ``wharfinger.testing.check_contention`` checks a new one.

Slowdowns are drops of the logarithm of performance, so that those of several neighbors add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.part import PolicyPart
from wharfinger.model.decisions import Prediction
from wharfinger.model.interference import QUALITY_SOURCES, SharedResource
from wharfinger.model.pairs import PairProfile
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.view import Request, View
from wharfinger.model.workload import Workload

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
POINTS = 100.0
"""Violations are told in points, hundredths: of a score, or of a target."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A classified workload on a server that is not suspended.

    Attributes:
        uid: Rises with the order of submission.
        best_effort: It has no target.
        tolerance: How far below its target it still counts as kept, as a share; 1 = it has none.
        predicted: By the decision that placed or resized it last.
        share: Of what it does on all its servers, what it does on this one.
        workload: As it was stated; for models that know programs.
    """

    name: str
    uid: int
    classification: Classification
    best_effort: bool
    tolerance: float
    predicted: Prediction | None = None
    share: float = 1.0
    workload: Workload | None = None


@dataclass(frozen=True, slots=True)
class LogEstimates:
    """Estimates of logarithms, (S,) one per server."""

    mean: Array
    variance: Array


@dataclass(frozen=True, slots=True)
class Score:
    """Scores of a server's residents for one source of interference."""

    source: SharedResource
    tolerated: Estimate
    caused: Estimate


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """Scores of the residents of all S servers, for each of the R sources of ``SharedResource``.

    In that order; each (R, S). Of an empty server: 100 tolerated, 0 caused, variances 0.

    Attributes:
        tolerated: The least that any resident tolerates.
        caused: The sum of what the residents cause; not limited to 100.
        unspent: The least that any resident tolerates beyond what its neighbors cause; below 0
            where one bears more than it tolerates.
    """

    tolerated: Array
    tolerated_variance: Array
    caused: Array
    caused_variance: Array
    unspent: Array
    unspent_variance: Array


@dataclass(frozen=True, slots=True)
class QualityColumns:
    """(S,) resource quality of servers, from 0 to 1: the mean of what is left of each source.

    Attributes:
        caused: By what the residents cause alone.
        both: By that, and by what they tolerate.
    """

    caused: Array
    both: Array

    @classmethod
    def of(cls, scores: ScoreColumns) -> "QualityColumns":
        """Of servers with these scores."""
        counted = slice(QUALITY_SOURCES)
        left = (POINTS - np.minimum(scores.caused[counted], POINTS)).mean(axis=0)
        tolerated = np.clip(scores.tolerated[counted], 0.0, POINTS).mean(axis=0)
        return cls(left / POINTS, (left + tolerated) / 2 / POINTS)


@dataclass(frozen=True, slots=True)
class ContentionCost:
    """What contention would cost if a newcomer were placed, (S,) per server.

    Attributes:
        violation: In points: tolerated scores exceeded, and targets lost; 0 = none.
        lost: In points: the part of ``violation`` that is targets lost.
        waste: Cost without a violation; together with the CPUs it ranks servers.
    """

    violation: Array
    lost: Array
    waste: Array


@dataclass(frozen=True, slots=True)
class ResidentsLoss:
    """What the residents with a target would lose to a newcomer, (S,) per server.

    Attributes:
        targets: Expected number of targets that are kept without it and missed with it.
        performance: The sum of what it takes off the logarithm of performance of each.
    """

    targets: Array
    performance: Array


class Assessment:
    """A newcomer and the residents of each of S servers, both ways. This one knows nothing.

    Attributes:
        informed: Whether anything is known of the newcomer.
    """

    informed = False

    def __init__(self, servers: int) -> None:
        self._servers = servers

    @property
    def suffered(self) -> LogEstimates:
        """By how much the residents slow the newcomer."""
        return LogEstimates(np.zeros(self._servers), np.zeros(self._servers))

    def suffered_on(self, rows: Rows) -> LogEstimates:
        """(N,) ``suffered`` on these servers; a model may know it without a pass over all."""
        return LogEstimates(self.suffered.mean[rows], self.suffered.variance[rows])

    @property
    def correctable(self) -> LogEstimates | None:
        """The part of ``suffered`` for which ``ContentionTable.slowdown_of`` corrects measurements.

        Predictions then state performance without it, too; ``None`` = no part.
        """
        return None

    @property
    def incompatible(self) -> NDArray[np.bool_] | None:
        """(S,) where the newcomer should not run with the residents; ``None`` = nowhere."""
        return None

    @property
    def headroom(self) -> Array | None:
        """(S,) what the resident with the least left may still lose beside the newcomer.

        As a share of its performance, with the confidence: below 0 one would miss its target, and 1
        where there is none to protect. ``None`` = the model does not tell.
        """
        return None

    def cost(
        self, able: NDArray[np.bool_], performance: Callable[[], LogEstimates] | None
    ) -> ContentionCost:
        """The cost of placing the newcomer on each server.

        Args:
            able: (S,) servers that could hold the newcomer when empty.
            performance: Gives the newcomer's performance over target on each server among the
                residents, with what it would be allocated there; ``None`` = unknown.
        """
        nothing = np.zeros(len(able))
        return ContentionCost(nothing, nothing, nothing)

    def residents_loss(self) -> ResidentsLoss:
        """What each server's residents would lose, in expectation."""
        return ResidentsLoss(np.zeros(self._servers), np.zeros(self._servers))

    def residents_loss_on(self, rows: Rows) -> ResidentsLoss:
        """(N,) the same of these servers; a model may know it without a pass over all."""
        loss = self.residents_loss()
        return ResidentsLoss(loss.targets[rows], loss.performance[rows])

    def numbers(self, row: int) -> dict[str, float]:
        """What was compared on one server."""
        return {}

    def worst(self, row: int) -> str:
        """The worst violation on one server, as a clause; for a placement there."""
        return ""

    def refusal(self, row: int) -> str:
        """The same, for why it is not placed there."""
        return self.worst(row)


class ContentionTable:
    """What a model keeps of residents, one row per server. This one keeps nothing.

    Attributes:
        of_unclassified: Whether it is told of residents that are not classified, too.
    """

    of_unclassified = False

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Set the residents of a server, in the order of their uids; whether that may help others.

        The row is a function of the arguments alone; no ``platform`` = the server has left.
        """
        return False

    def drop(self, row: int) -> None:
        """Remove a server's row; later ones move up."""

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        """A newcomer among the residents of every server.

        ``confidence`` is that a workload is not slowed beyond what it tolerates, each by itself.
        """
        return Assessment(len(view.names))

    def slowdown_of(self, row: int, name: str) -> Estimate | None:
        """Performance of a resident over its performance alone; ``None`` = unknown."""
        return None

    def drop_of(self, row: int, platform: str, classification: Classification) -> float | None:
        """By how much neighbors lower the logarithm of performance of a resident so classified."""
        return None

    def pressure_on(self, row: int) -> PairProfile | None:
        """What the residents of a server press together, as one; ``None`` = not known by pairs."""
        return None

    def scores(self, row: int) -> list[Score]:
        """The residents' scores on a server; empty without scores."""
        return []

    @property
    def has_scores(self) -> bool:
        """Whether ``score_columns`` answers."""
        return self.score_columns(0) is not None

    def score_columns(self, servers: int) -> ScoreColumns | None:
        """The scores on the first ``servers`` servers, not to be written to; ``None`` = no scores.

        They change in place with the next ``put``.
        """
        return None

    def quality_columns(self, servers: int) -> QualityColumns | None:
        """What the scores on the first ``servers`` servers leave; as ``score_columns``."""
        scores = self.score_columns(servers)
        return None if scores is None else QualityColumns.of(scores)


class ContentionModel(PolicyPart, Protocol):
    """Makes tables."""

    def table(self) -> ContentionTable:
        """An empty one."""
