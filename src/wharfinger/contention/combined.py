"""Contention by source and by pair as one model: what is known better of the newcomer decides."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from wharfinger.contention.by_pair import ByPair, PairSettings
from wharfinger.contention.by_source import BySource, SourceSettings
from wharfinger.core.seams.contention import (
    Assessment,
    ContentionTable,
    QualityColumns,
    Resident,
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
    """The model: by pair where pairs are known and no score was measured, else by source."""

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
        """By measured scores, else by what ran together, else by predicted scores."""
        by_source, by_pair = (table.assess(request, view, confidence) for table in self._tables)
        made = request.classification
        if made is None or not made.pairs:
            return by_source
        return by_source if made.scores_measured and by_source.informed else by_pair

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


def _first(answers: Iterable[_Answer | None]) -> _Answer | None:
    return next((answer for answer in answers if answer is not None), None)
