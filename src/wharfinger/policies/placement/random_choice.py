"""Random: any server that has room, each as likely as the others.

The baseline that knows nothing of load, platforms or interference.
"""

from itertools import islice

import numpy as np

from wharfinger.model.decisions import Candidate, Plan, ReasonCode, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.policies.placement.common import (
    candidate,
    is_full,
    misfit,
    open_servers,
    plan,
    refuse,
)
from wharfinger.policies.placement.draws import Drawing

PROBES = 32
"""Servers that are looked at one by one; only where none of these has room all are scanned."""


class RandomChoice(Drawing):
    """One server drawn uniformly among those with room, by a hash of the workload's name.

    Where a share f of the servers has room it looks at 1 / f of them, whatever their number.
    """

    name = "random"

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Probe in random order until one has room, size by reservation."""
        need = request.reserved(view.capabilities)
        probed: list[Candidate] = []
        for row in islice(self.order(len(view.names), request, "probes"), PROBES):
            reason = misfit(request, need, view, row)
            probe = candidate(view, row, 0.0 if reason is ReasonCode.OK else None, reason)
            if reason is ReasonCode.OK:
                message = f"{probe.server} was drawn"
                return plan(self.name, request, need, view, [probe], message, probed)
            probed.append(probe)
        # A refusal for each event of a full cluster must not cost a pass over it.
        if is_full(request, need, view):
            return refuse(self.name, request, need, view)
        rows = np.flatnonzero(
            open_servers(request, view).astype(np.bool_)
            & (view.cpu_capacity - view.cpu_allocated >= need.cpu_millicpus)
            & (view.memory_capacity - view.memory_allocated >= need.memory_bytes)
        )
        if not len(rows):
            return refuse(self.name, request, need, view)
        row = int(rows[next(self.order(len(rows), request, "scan"))])
        message = f"{view.names[row]} was drawn of the {len(rows)} with room"
        drawn = candidate(view, row, 0.0, ReasonCode.OK)
        return plan(self.name, request, need, view, [drawn], message, probed)
