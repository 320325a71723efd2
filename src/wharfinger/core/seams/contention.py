"""Contention models: how workloads on one server slow one another.

The core keeps a model's table up to date, server by server; the view carries it to placements,
which ask it about a newcomer. Which model it is, neither of them knows. A new one is a file in
``wharfinger.contention`` that keeps what ``wharfinger.testing.check_contention`` checks.

Slowdowns are drops of the logarithm of performance, so that those of several neighbors add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.part import PolicyPart
from wharfinger.model.decisions import Prediction
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.view import ClusterView, PlacementRequest

Array = NDArray[np.float64]
POINTS = 100.0
"""Violations are told in points, hundredths: of a score, or of a target."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A classified workload on a server that is not suspended.

    Attributes:
        name: The workload's.
        uid: Rises with the order of submission.
        classification: What is known of it.
        best_effort: It has no target to keep.
        tolerance: How far below its target it still counts as kept, as a share.
        predicted: By the decision that placed or resized it last; ``None`` = nothing was.
    """

    name: str
    uid: int
    classification: Classification
    best_effort: bool
    tolerance: float
    predicted: Prediction | None = None


@dataclass(frozen=True, slots=True)
class LogEstimates:
    """Estimates of logarithms, one a server.

    Attributes:
        mean: (S,).
        variance: (S,).
    """

    mean: Array
    variance: Array


@dataclass(frozen=True, slots=True)
class Score:
    """What the residents of a server tolerate and cause of one source of interference."""

    source: SharedResource
    tolerated: Estimate
    caused: Estimate


@dataclass(frozen=True, slots=True)
class ContentionCost:
    """What contention would cost if a newcomer were placed, server by server.

    Attributes:
        violation: (S,) in points: tolerated scores exceeded, and targets lost; 0 = no workload
            is slowed beyond what it tolerates.
        lost: (S,) in points: how much of that is targets lost.
        waste: (S,) what is given away without a violation; it ranks servers beside their CPUs.
    """

    violation: Array
    lost: Array
    waste: Array


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

    @property
    def correctable(self) -> LogEstimates | None:
        """The part of ``suffered`` for which ``ContentionTable.slowdown_of`` corrects measurements.

        Predictions then state performance without it, too; ``None`` = no part.
        """
        return None

    @property
    def incompatible(self) -> NDArray[np.bool_] | None:
        """(S,) where the newcomer rather does not run beside the residents; ``None`` = nowhere."""
        return None

    def cost(
        self, able: NDArray[np.bool_], performance: Callable[[], LogEstimates] | None
    ) -> ContentionCost:
        """What it would cost to place the newcomer on each server.

        Args:
            able: (S,) servers that would take the newcomer when empty.
            performance: Gives the newcomer's performance over target on each server beside the
                residents, with what it would be allocated there; ``None`` = unknown.
        """
        nothing = np.zeros(len(able))
        return ContentionCost(nothing, nothing, nothing)

    def numbers(self, row: int) -> dict[str, float]:
        """What was compared on one server."""
        return {}

    def worst(self, row: int) -> str:
        """What is violated most on one server, as a clause; for a placement there."""
        return ""

    def refusal(self, row: int) -> str:
        """The same, for why there is no placement there."""
        return self.worst(row)


class ContentionTable:
    """What a model keeps of the residents of each server, one row a server. This one nothing."""

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """These are the residents of a server now.

        The row is a function of the arguments alone, whatever was put there before.

        Args:
            row: The server's; the table grows to it.
            platform: The name of the server's; ``None`` = the server has left.
            residents: In the order of their uids.

        Returns:
            Whether waiting workloads should be looked at again.
        """
        return False

    def drop(self, row: int) -> None:
        """A server's row goes, and those behind it move up."""

    def assess(self, request: PlacementRequest, view: ClusterView, confidence: float) -> Assessment:
        """A newcomer beside the residents of every server.

        Args:
            request: The newcomer's.
            view: The servers; rows as they were put.
            confidence: That a workload is not slowed beyond what it tolerates, each by itself.
        """
        return Assessment(len(view.names))

    def slowdown_of(self, row: int, name: str) -> Estimate | None:
        """Performance of a resident over its performance alone; ``None`` = unknown."""
        return None

    def drop_of(self, row: int, platform: str, classification: Classification) -> float | None:
        """What neighbors take off the logarithm of a resident that is classified so."""
        return None

    def scores(self, row: int) -> list[Score]:
        """What the residents of a server tolerate and cause; empty without scores."""
        return []


class ContentionModel(PolicyPart, Protocol):
    """Makes tables."""

    def table(self) -> ContentionTable:
        """An empty one."""
