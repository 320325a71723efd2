"""Contention by source and by pair as one model: slowdowns and costs are added."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.by_pair import ByPair, PairSettings
from wharfinger.contention.by_source import BySource, SourceSettings
from wharfinger.core.seams.contention import (
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
from wharfinger.model.pairs import PairProfile
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.view import Request, View

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class CombinedSettings:
    """Those of both models."""

    sources: SourceSettings = field(default_factory=SourceSettings)
    pairs: PairSettings = field(default_factory=PairSettings)


@dataclass(frozen=True, slots=True)
class Combined:
    """The model: by source where scores are known, and by pair where pairs are."""

    settings: CombinedSettings = field(default_factory=CombinedSettings)
    name: ClassVar[str] = "combined"

    def table(self) -> "CombinedTable":
        """An empty one."""
        models = BySource(self.settings.sources), ByPair(self.settings.pairs)
        return CombinedTable([model.table() for model in models])


class CombinedTable(ContentionTable):
    """One table per model."""

    def __init__(self, tables: Sequence[ContentionTable]) -> None:
        self._tables = tables
        self._scored = next((table for table in tables if table.has_scores), ContentionTable())

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Whether waiting workloads should be looked at for one of them."""
        asked = [table.put(row, platform, residents) for table in self._tables]
        return any(asked)

    def drop(self, row: int) -> None:
        """From each."""
        for table in self._tables:
            table.drop(row)

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        """By those that are informed about the newcomer."""
        assessments = [table.assess(request, view, confidence) for table in self._tables]
        informed = [assessment for assessment in assessments if assessment.informed]
        if len(informed) < 2:
            return (informed or assessments)[0]
        return CombinedAssessment(informed, len(view.names))

    def slowdown_of(self, row: int, name: str) -> Estimate | None:
        """By the first that knows it."""
        return _first(table.slowdown_of(row, name) for table in self._tables)

    def drop_of(self, row: int, platform: str, classification: Classification) -> float | None:
        """By the first that knows it."""
        return _first(table.drop_of(row, platform, classification) for table in self._tables)

    def pressure_on(self, row: int) -> PairProfile | None:
        """By the first that knows it."""
        return _first(table.pressure_on(row) for table in self._tables)

    def scores(self, row: int) -> list[Score]:
        """Of all."""
        return [score for table in self._tables for score in table.scores(row)]

    @property
    def has_scores(self) -> bool:
        """Whether one has."""
        return self._scored.has_scores

    def score_columns(self, servers: int) -> ScoreColumns | None:
        """Of the first that has scores."""
        return self._scored.score_columns(servers)

    def quality_columns(self, servers: int) -> QualityColumns | None:
        """Of the same."""
        return self._scored.quality_columns(servers)


class CombinedAssessment(Assessment):
    """Sums over the parts, each informed about the newcomer."""

    informed = True

    def __init__(self, parts: Sequence[Assessment], servers: int) -> None:
        super().__init__(servers)
        self._parts = parts
        self._violations = [np.zeros(servers) for _ in parts]

    @cached_property
    def suffered(self) -> LogEstimates:
        """Added."""
        return _added([part.suffered for part in self._parts])

    def suffered_on(self, rows: Rows) -> LogEstimates:
        """Added."""
        return _added([part.suffered_on(rows) for part in self._parts])

    @property
    def correctable(self) -> LogEstimates | None:
        """Added."""
        answers = [each for part in self._parts if (each := part.correctable) is not None]
        return _added(answers) if answers else None

    @property
    def incompatible(self) -> NDArray[np.bool_] | None:
        """Where it is for one part."""
        answers = [each for part in self._parts if (each := part.incompatible) is not None]
        return np.asarray(np.any(answers, axis=0)) if answers else None

    def cost(
        self, able: NDArray[np.bool_], performance: Callable[[], LogEstimates] | None
    ) -> ContentionCost:
        """Added."""
        costs = [part.cost(able, performance) for part in self._parts]
        self._violations = [cost.violation for cost in costs]
        nothing = np.zeros(self._servers)
        return ContentionCost(
            sum((cost.violation for cost in costs), nothing),
            sum((cost.lost for cost in costs), nothing),
            sum((cost.waste for cost in costs), nothing),
        )

    def residents_loss(self) -> ResidentsLoss:
        """Added."""
        return _added_losses([part.residents_loss() for part in self._parts], self._servers)

    def residents_loss_on(self, rows: Rows) -> ResidentsLoss:
        """Added."""
        return _added_losses([part.residents_loss_on(rows) for part in self._parts], len(rows))

    def numbers(self, row: int) -> dict[str, float]:
        """Of all parts."""
        return {key: value for part in self._parts for key, value in part.numbers(row).items()}

    def worst(self, row: int) -> str:
        """Of the first part with a violation there."""
        return self._telling(row).worst(row)

    def refusal(self, row: int) -> str:
        """Of the same."""
        return self._telling(row).refusal(row)

    def _telling(self, row: int) -> Assessment:
        pairs = zip(self._parts, self._violations, strict=True)
        return next((part for part, violation in pairs if violation[row] > 0), self._parts[-1])


def _first(answers: Iterable[_Answer | None]) -> _Answer | None:
    return next((answer for answer in answers if answer is not None), None)


def _added(estimates: Sequence[LogEstimates]) -> LogEstimates:
    mean = sum((each.mean for each in estimates[1:]), estimates[0].mean)
    return LogEstimates(mean, sum((each.variance for each in estimates[1:]), estimates[0].variance))


def _added_losses(losses: Sequence[ResidentsLoss], servers: int) -> ResidentsLoss:
    nothing = np.zeros(servers)
    return ResidentsLoss(
        sum((loss.targets for loss in losses), nothing),
        sum((loss.performance for loss in losses), nothing),
    )
