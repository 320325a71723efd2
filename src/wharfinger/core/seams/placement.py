"""The seam of placement: where a workload goes, and with how much."""

from typing import Protocol

from wharfinger.core.seams.part import PolicyPart
from wharfinger.core.seams.verdicts import PlacementVerdict
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Place, Refuse
from wharfinger.model.view import Request, View


class ServerIndex(Protocol):
    """What a placement keeps per server to answer faster; it reads the numbers from the view."""

    def touch(self, row: int) -> None:
        """Something about this server has changed, or it is new: then it is the last row."""

    def drop(self, row: int) -> None:
        """Remove the row; later ones move up."""


class PlacementPolicy(PolicyPart, Protocol):
    """Places one workload at a time. It keeps nothing between calls.

    A class attribute ``follows_targets = True`` says that ``resize`` gives CPU to a workload that
    is off its target; else CPU that nobody reserved follows its use. A property ``profiling``
    gives its ``ProfilingNeeds``, where they are not the default. A class attribute
    ``keeps_scale = True`` says that ``scale.gang`` and ``scale.spread`` hold on the servers that it
    names; without it the core refuses several servers to a workload that states one of them.

    No server accepts work in a view but those whose labels the workload's ``requires`` allows.
    """

    def place(self, request: Request, view: View) -> PlacementVerdict:
        """Where the workload goes, or what else should happen."""

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """Other allocations for a running workload; ``None`` = as they are.

        On more, fewer or the same servers, as far as the engine and the workload allow; it stays on
        at least one of its servers.
        """

    def index(self) -> ServerIndex | None:
        """An empty index for the core to keep and return in ``view.index``."""
