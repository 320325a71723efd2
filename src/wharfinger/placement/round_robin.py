"""Round-robin: the next server in turn that has room. The simplest baseline."""

import numpy as np

from wharfinger.model.decisions import CANDIDATES_KEPT, Plan, ReasonCode, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.placement.base import ByReservation, candidate, plan, refuse, with_room


class RoundRobin(ByReservation):
    """Starts behind the server that took the newest placement; a candidate's score is its turn."""

    name = "round-robin"

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Filter by room, rank by turn, size by reservation."""
        need = request.reserved(view.capabilities)
        rows = np.flatnonzero(with_room(request, need, view))
        if not len(rows):
            return refuse(self.name, request, need, view)
        first = int(np.searchsorted(rows, view.last_placed, side="right"))
        in_turn = np.concatenate((rows[first:], rows[:first]))[:CANDIDATES_KEPT]
        ranked = [
            candidate(view, row, float(turn), ReasonCode.OK)
            for turn, row in enumerate(in_turn.tolist())
        ]
        message = f"{ranked[0].server} is the next in turn with room"
        return plan(self.name, request, need, view, ranked, message)
