"""How long decisions take: a placement with a clock around it, for a simulated run's report."""

import time
from typing import Any

from wharfinger.core.seams.placement import PlacementPolicy, ServerIndex
from wharfinger.core.seams.verdicts import PlacementVerdict
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Plan, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest


class TimedPlacement:
    """A placement, and how long each of its decisions took.

    Args:
        placement: That decides.

    Attributes:
        seconds: Of each placement that was asked for.
    """

    def __init__(self, placement: PlacementPolicy) -> None:
        self._placement = placement
        self.name = placement.name
        self.settings: Any = placement.settings
        self.seconds: list[float] = []

    def place(self, request: PlacementRequest, view: ClusterView) -> PlacementVerdict:
        """As the placement does."""
        began = time.perf_counter()
        verdict = self._placement.place(request, view)
        self.seconds.append(time.perf_counter() - began)
        return verdict

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """As the placement does."""
        return self._placement.resize(request, placements, view)

    def index(self) -> ServerIndex | None:
        """The placement's."""
        return self._placement.index()
