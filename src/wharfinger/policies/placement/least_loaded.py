"""Least-loaded: the server with the lowest share of its CPU and then its memory given away.

The baseline of Paragon (section 5), Quasar (section 5) and of most clusters: it looks at
cores and memory only, and neither at platforms nor at interference.
"""

from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import CANDIDATES_KEPT, Place, Refuse
from wharfinger.model.view import Request, View
from wharfinger.native import least_loaded
from wharfinger.policies.placement.common import (
    ByReservation,
    candidates,
    open_servers,
    plan,
    refuse,
)


class LeastLoaded(ByReservation):
    """Reservation plus least-loaded assignment.

    A server's load is (allocated + needed) / capacity of its CPU; ties go by the same of its
    memory, then by the order in which servers joined.
    """

    name = "least-loaded"

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Filter by room, rank by load, size by reservation."""
        need = request.reserved(view.capabilities)
        rows, loads = _least_loaded(request, need, view)
        if not rows:
            return refuse(self.name, request, need, view)
        ranked = candidates(view, rows, loads)
        message = f"{ranked[0].server} is the least loaded of the servers with room"
        return plan(self.name, request, need, view, ranked, message)


class ReservationPlacement(LeastLoaded):
    """Places as least-loaded does, by what each user has reserved (Quasar 1 and 5).

    70% of users reserve up to ten times what their workloads need, 20% up to five times too little
    (Quasar 1, Figure 1d). In a simulation it is given ``Job.stated``, ``least-loaded`` what a
    workload really needs: the difference between the two is the cost of the errors.
    """

    name = "reservation"


def _least_loaded(request: Request, need: Allocation, view: View) -> tuple[list[int], list[float]]:
    cpu, memory = need.cpu_millicpus, need.memory_bytes
    if view.loads is not None:
        return view.loads.least_loaded(cpu, memory, CANDIDATES_KEPT, request.excluded)
    rows, loads, *_ = least_loaded(
        view.cpu_capacity,
        view.cpu_allocated,
        view.memory_capacity,
        view.memory_allocated,
        open_servers(request, view),
        cpu,
        memory,
        CANDIDATES_KEPT,
    )
    return rows.tolist(), loads.tolist()
