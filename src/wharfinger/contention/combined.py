"""Contention by source and by pair as one model: by pair where pairs are known."""

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
    """The model."""

    settings: CombinedSettings = field(default_factory=CombinedSettings)
    name: ClassVar[str] = "combined"

    def table(self) -> "CombinedTable":
        """An empty one."""
        return CombinedTable(
            BySource(self.settings.sources).table(), ByPair(self.settings.pairs).table()
        )


class CombinedTable(ContentionTable):
    """One table per model."""

    def __init__(self, by_source: ContentionTable, by_pair: ContentionTable) -> None:
        self._by_source, self._by_pair = by_source, by_pair
        self._tables = by_source, by_pair

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Whether waiting workloads should be looked at for one of them."""
        asked = [table.put(row, platform, residents) for table in self._tables]
        return any(asked)

    def drop(self, row: int) -> None:
        """From each."""
        for table in self._tables:
            table.drop(row)

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        """By pair where the newcomer is known so, else by source."""
        made = request.classification
        table = self._by_pair if made is not None and made.pairs else self._by_source
        return table.assess(request, view, confidence)

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
        """By source."""
        return self._by_source.has_scores

    def score_columns(self, servers: int) -> ScoreColumns | None:
        """By source."""
        return self._by_source.score_columns(servers)

    def quality_columns(self, servers: int) -> QualityColumns | None:
        """By source."""
        return self._by_source.quality_columns(servers)


def _first(answers: Iterable[_Answer | None]) -> _Answer | None:
    return next((answer for answer in answers if answer is not None), None)
