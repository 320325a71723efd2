"""Round-robin: the next server in turn that has room. The simplest baseline."""

from itertools import count

from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import CANDIDATES_KEPT, Plan, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.native import next_in_turn
from wharfinger.placement.base import ByReservation, candidates, open_servers, plan, refuse


class RoundRobin(ByReservation):
    """Starts behind the server that took the newest placement; a candidate's score is its turn."""

    name = "round-robin"

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Filter by room, rank by turn, size by reservation."""
        need = request.reserved(view.capabilities)
        rows = _next_in_turn(request, need, view)
        if not rows:
            return refuse(self.name, request, need, view)
        ranked = candidates(view, rows, map(float, count()))
        message = f"{ranked[0].server} is the next in turn with room"
        return plan(self.name, request, need, view, ranked, message)


def _next_in_turn(request: PlacementRequest, need: Allocation, view: ClusterView) -> list[int]:
    cpu, memory = need.cpu_millicpus, need.memory_bytes
    # Where no server has room the index knows it, without going round them all.
    if view.loads is not None and not view.loads.least_loaded(cpu, memory, 1, request.excluded)[0]:
        return []
    return next_in_turn(
        view.cpu_capacity,
        view.cpu_allocated,
        view.memory_capacity,
        view.memory_allocated,
        open_servers(request, view),
        cpu,
        memory,
        CANDIDATES_KEPT,
        view.last_placed,
    )
