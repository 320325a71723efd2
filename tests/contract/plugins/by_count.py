"""A contention model: every neighbor takes the same share of performance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wharfinger.core.seams.contention import Assessment, ContentionTable, LogEstimates, Resident
from wharfinger.model.view import Request, View


@dataclass(frozen=True, slots=True)
class CountSettings:
    """``drop``: what one neighbor takes off the logarithm of performance."""

    drop: float = 0.1


class ByCount:
    """The model."""

    name = "by-count"

    def __init__(self, settings: CountSettings | None = None) -> None:
        self.settings = settings or CountSettings()

    def table(self) -> "CountTable":
        return CountTable(self.settings.drop)


class CountTable(ContentionTable):
    """How many are on each server."""

    def __init__(self, drop: float) -> None:
        self._drop, self._counts = drop, list[int]()

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        self._counts.extend([0] * (row + 1 - len(self._counts)))
        fewer = len(residents) < self._counts[row]
        self._counts[row] = len(residents)
        return fewer

    def drop(self, row: int) -> None:
        del self._counts[row : row + 1]

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        counts = (self._counts + [0] * len(view.names))[: len(view.names)]
        return CountAssessment(counts, self._drop)


class CountAssessment(Assessment):
    """Slowdown of a newcomer; no resident is slowed beyond what it tolerates."""

    informed = True

    def __init__(self, counts: Sequence[int], drop: float) -> None:
        super().__init__(len(counts))
        self._drops = np.array(counts, dtype=np.float64) * drop

    @property
    def suffered(self) -> LogEstimates:
        return LogEstimates(self._drops, np.zeros(len(self._drops)))
