"""Round-robin: the next server in turn that has room. The simplest baseline."""

import numpy as np

from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import CANDIDATES_KEPT, Plan, ReasonCode, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.placement.base import candidate, open_servers, plan, refuse, resize_in_place


class RoundRobin:
    """Starts behind the server that took the newest placement; a candidate's score is its turn."""

    name = "round-robin"

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Filter by room, rank by turn, size by reservation."""
        need = request.reserved(view.capabilities)
        fits = (
            open_servers(request, view).astype(bool)
            & (view.cpu_capacity - view.cpu_allocated >= need.cpu_millicpus)
            & (view.memory_capacity - view.memory_allocated >= need.memory_bytes)
        )
        rows = np.flatnonzero(fits)
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

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """The changed reservation, in place."""
        return resize_in_place(self.name, request, placements, view)
