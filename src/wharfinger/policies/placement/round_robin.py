"""Round-robin: the next server in turn that has room. The simplest baseline."""

from dataclasses import replace
from itertools import count

from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import CANDIDATES_KEPT, Place, Refuse
from wharfinger.model.view import Request, View
from wharfinger.native import next_in_turn
from wharfinger.policies.placement.common import (
    ByReservation,
    candidates,
    is_full,
    open_servers,
    plan,
    refuse,
)


class RoundRobin(ByReservation):
    """Starts behind the server that took the newest workload, which it notes; scores are turns."""

    name = "round-robin"

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Filter by room, rank by turn, size by reservation."""
        need = request.reserved(view.capabilities)
        rows = [] if is_full(request, need, view) else _next_in_turn(request, need, view)
        if not rows:
            return refuse(self.name, request, need, view)
        ranked = candidates(view, rows, map(float, count()))
        message = f"{ranked[0].server} is the next in turn with room"
        made = plan(self.name, request, need, view, ranked, message)
        return replace(made, note=made.placements[0].server)


def _next_in_turn(request: Request, need: Allocation, view: View) -> list[int]:
    return next_in_turn(
        view.cpu_capacity,
        view.cpu_allocated,
        view.memory_capacity,
        view.memory_allocated,
        open_servers(request, view),
        need.cpu_millicpus,
        need.memory_bytes,
        CANDIDATES_KEPT,
        _newest(request, view),
    )


def _newest(request: Request, view: View) -> int:
    """Row of the server that took the newest workload; -1 = there is none, or it has left."""
    try:
        row = view.row(request.note)
    except (LookupError, ValueError):
        return -1
    return row if view.cpu_capacity[row] or view.memory_capacity[row] else -1
