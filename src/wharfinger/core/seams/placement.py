"""The seam of placement: where a workload goes, and with how much."""

from typing import Protocol

from wharfinger.core.seams.part import PolicyPart
from wharfinger.core.seams.verdicts import PlacementVerdict
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Plan, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest


class ServerIndex(Protocol):
    """What a placement keeps per server to answer faster; derived, and built again at will.

    The core tells it which rows have changed. It reads the numbers from the view when it is asked.
    """

    def touch(self, row: int) -> None:
        """Something about this server has changed, or it is new: then it is the last row."""

    def drop(self, row: int) -> None:
        """The row goes; later ones move up."""


class PlacementPolicy(PolicyPart, Protocol):
    """Finds a place for one workload at a time. It keeps nothing between calls."""

    def place(self, request: PlacementRequest, view: ClusterView) -> PlacementVerdict:
        """Where the workload goes, or what else should happen."""

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """Other allocations for a running workload; ``None`` = as they are.

        On the servers where it is, or on more or fewer, as far as the engine and the workload
        allow; on one of them at least it goes on.
        """

    def index(self) -> ServerIndex | None:
        """An empty index that the core is to keep, and hands back in ``view.index``."""
