"""Pythia: where every service keeps its target beside the set that would be there (Pythia 3.6).

Of the servers with room those are left where each service keeps its target with the confidence, by
a model of whole sets. Among them the work is packed: servers with services first, then those with
other work, empty ones last.
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from math import log

import numpy as np

from wharfinger.core.seams.contention import Array, Assessment, Rows
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Decision,
    Place,
    ReasonCode,
    Refuse,
    Stage,
)
from wharfinger.model.profile import quantile
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.common import ByReservation, candidates, needed, plan, refuse
from wharfinger.policies.placement.paragon import with_room

_MIN_KEPT = 0.01
_MAX_LOG = 50.0


class Packing(StrEnum):
    """Which of the servers that may take it."""

    BEST = "best"
    """The one whose services have the least left."""
    FIRST = "first"
    """The one that joined first."""
    WORST = "worst"
    """The one whose services have the most left."""


@dataclass(frozen=True, slots=True)
class PythiaSettings:
    """Settings of the policy.

    Attributes:
        fit: Which server is taken.
        confidence: With which each service is to keep its target.
    """

    fit: Packing = Packing.BEST
    confidence: float = 0.8


class Pythia(ByReservation):
    """Places by what all neighbors together do to services; sizes by reservation."""

    name = "pythia"

    def __init__(self, settings: PythiaSettings | None = None) -> None:
        self.settings: PythiaSettings = settings or PythiaSettings()

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Filter by room and by the services' targets, then pack."""
        need = request.reserved(view.capabilities)
        rows = with_room(request, need, view)
        if not rows.size:
            return refuse(self.name, request, need, view)
        if view.contention is None:
            contention = Assessment(len(view.names))
        else:
            contention = view.contention.assess(request, view, self.settings.confidence)
        headroom = self._headroom(request, contention, len(view.names))
        safe = rows[headroom[rows] >= 0]
        if not safe.size:
            return self._unsafe(request, view, rows, headroom, contention)
        order = safe[self._order(view, safe, headroom[safe])][:CANDIDATES_KEPT]
        compared = map(contention.numbers, order.tolist())
        ranked = candidates(
            view, order.tolist(), headroom[order].tolist(), [ReasonCode.OK] * len(order), compared
        )
        message = f"every service on {ranked[0].server} is expected to keep its target"
        if headroom[order[0]] >= 1:
            message = f"no service with a target that the model knows is on {ranked[0].server}"
        return plan(self.name, request, need, view, ranked, message)

    def _headroom(self, request: Request, contention: Assessment, servers: int) -> Array:
        """(S,) of the services there, and of the newcomer if it has a target itself."""
        left = contention.headroom
        left = np.ones(servers) if left is None else left
        if request.workload.target is None:
            return left
        suffered, z = contention.suffered, quantile(self.settings.confidence)
        margin = -log(max(_MIN_KEPT, 1 - request.workload.tolerance))
        low = margin - suffered.mean - z * np.sqrt(suffered.variance)
        return np.minimum(left, -np.expm1(np.minimum(-low, _MAX_LOG)))

    def _order(self, view: View, rows: Rows, headroom: Array) -> Rows:
        """Places among these rows, best first."""
        residents = view.residents[rows]
        serves = headroom < 1
        packed = np.where(serves, 0, np.where(residents > 0, 1, 2))
        if self.settings.fit is Packing.FIRST:
            return np.lexsort((rows, packed))
        load = view.cpu_allocated[rows] / np.maximum(view.cpu_capacity[rows], 1)
        sign = 1 if self.settings.fit is Packing.BEST else -1
        return np.lexsort((rows, -sign * load, sign * headroom, packed))

    def _unsafe(
        self,
        request: Request,
        view: View,
        rows: Rows,
        headroom: Array,
        contention: Assessment,
    ) -> Refuse:
        """Why it waits: the server that comes nearest, and its service."""
        need = request.reserved(view.capabilities)
        nearest = rows[np.argsort(-headroom[rows], kind="stable")][:CANDIDATES_KEPT].tolist()
        server = view.names[nearest[0]]
        reasons = [ReasonCode.INTERFERENCE] * len(nearest)
        compared = map(contention.numbers, nearest)
        return Refuse(
            Decision(
                stage=Stage.PLACEMENT,
                decided_by=self.name,
                accepted=False,
                reason=ReasonCode.INTERFERENCE,
                message=f"no service may be slowed so far; on {server}: "
                f"{contention.refusal(nearest[0])}",
                would_change=f"fewer neighbors on {server}, or a server without services",
                considered=len(view.names),
                candidates=tuple(candidates(view, nearest, repeat(None), reasons, compared)),
                numbers=needed(need),
            )
        )
