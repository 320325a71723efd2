"""Sparrow: two servers drawn for each core, and bound to a workload late.

Source: Ousterhout et al., "Sparrow: distributed, low latency scheduling", SOSP 2013: batch sampling
(3.3), late binding (3.5), constraints (4.1); as Tarcil is compared with it (dissertation 7.2, 7.6).

Late binding: where none of the servers drawn has room, it is refused with
``ReasonCode.PROBES_BUSY`` and waits for these servers alone, blocking none. Its name decides the
draw, so the draw stays. Deviations: the queues are the manager's, without message delays, and
served by priority and arrival; a workload is one task on one server; a server that comes or leaves
may change the draw.
"""

from itertools import islice, repeat

import numpy as np

from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Candidate,
    Decision,
    Place,
    ReasonCode,
    Refuse,
    Stage,
)
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.view import Request, View
from wharfinger.native import least_loaded
from wharfinger.policies.placement.common import (
    candidates,
    misfit,
    needed,
    open_servers,
    plan,
    refuse,
    wanted,
)
from wharfinger.policies.placement.random_choice import Drawing

PROBES_PER_CORE = 2
"""The power of two choices: more gain little (Sparrow 3.2, Mitzenmacher 2001)."""
LOOKED_AT = 16
"""Times the probes: so many servers are drawn one by one; where too few of them would do, those
that would are searched in a scan."""
_POSSIBLE = frozenset({ReasonCode.OK, ReasonCode.NO_ROOM})


class Sparrow(Drawing):
    """The least loaded of two servers for each core, drawn among those that are large enough."""

    name = "sparrow"

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Probe, drop those without room, rank the others by load, size by reservation."""
        need = request.reserved(view.capabilities)
        probes = self._probes(request, need, view)
        if not probes:
            return refuse(self.name, request, need, view)
        ranked = _by_load(probes, need, view)
        reasons = {row: misfit(request, need, view, row) for row in probes}
        full = {row: why for row, why in reasons.items() if why is not ReasonCode.OK}
        busy = candidates(view, list(full), repeat(None), full.values())
        if not ranked:
            return self._wait(need, busy)
        message = f"{ranked[0].server} is the least loaded of the {len(probes)} servers drawn"
        return plan(self.name, request, need, view, ranked, message, busy)

    def _probes(self, request: Request, need: Allocation, view: View) -> list[int]:
        """Rows of servers that could take it, busy or not: drawn without repetition."""
        count = max(2, -(-PROBES_PER_CORE * need.cpu_millicpus // MILLICPUS_PER_CPU))
        servers = len(view.names)
        drawn = islice(self.order(servers, request, "probes"), LOOKED_AT * count)
        could = (row for row in drawn if misfit(request, need, view, row) in _POSSIBLE)
        probes = list(islice(could, count))
        if len(probes) == count or servers <= LOOKED_AT * count:
            return probes
        rows = np.flatnonzero(
            open_servers(request, view).astype(np.bool_)
            & (view.cpu_capacity >= need.cpu_millicpus)
            & (view.memory_capacity >= need.memory_bytes)
        )
        return [int(rows[at]) for at in islice(self.order(len(rows), request, "scan"), count)]

    def _wait(self, need: Allocation, busy: list[Candidate]) -> Refuse:
        servers = tuple(probe.server for probe in busy)
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=False,
            reason=ReasonCode.PROBES_BUSY,
            message=f"none of the {len(servers)} servers drawn for it has room",
            would_change=f"{wanted(need)} free on one of them",
            considered=len(servers),
            candidates=tuple(busy[:CANDIDATES_KEPT]),
            numbers=needed(need),
        )
        return Refuse(decision, waits_for=servers)


def _by_load(probes: list[int], need: Allocation, view: View) -> list[Candidate]:
    rows = np.array(probes)
    at, loads, *_ = least_loaded(
        view.cpu_capacity[rows],
        view.cpu_allocated[rows],
        view.memory_capacity[rows],
        view.memory_allocated[rows],
        np.ones(len(rows), np.uint8),
        need.cpu_millicpus,
        need.memory_bytes,
        CANDIDATES_KEPT,
    )
    return candidates(view, rows[at].tolist(), loads.tolist())
