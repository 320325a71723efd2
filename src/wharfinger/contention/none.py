"""No contention: nobody slows anybody, which costs nothing to keep."""

from collections.abc import Sequence
from typing import Any

from wharfinger.core.seams.contention import Assessment, Resident, Score
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.view import ClusterView, PlacementRequest


class NoContention:
    """The model."""

    name = "none"
    settings: Any = None

    def table(self) -> "NoContentionTable":
        """An empty one, as it stays."""
        return NoContentionTable()


class NoContentionTable:
    """Knows nothing of any server; also what other tables answer where they know nothing."""

    corrects = False

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Nothing is kept."""
        return False

    def drop(self, row: int) -> None:
        """Nothing was kept."""

    def assess(self, request: PlacementRequest, view: ClusterView, confidence: float) -> Assessment:
        """Nobody slows anybody."""
        return Assessment(len(view.names))

    def slowdown_of(self, row: int, name: str) -> Estimate | None:
        """Unknown."""
        return None

    def drop_of(self, row: int, platform: str, classification: Classification) -> float | None:
        """Unknown."""
        return None

    def scores(self, row: int) -> list[Score]:
        """None."""
        return []
