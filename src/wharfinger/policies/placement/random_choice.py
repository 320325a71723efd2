"""Random: any server that has room, each as likely as the others.

The baseline that knows nothing of load, platforms or interference: what a policy's knowledge is
worth shows beside it.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from wharfinger.model.decisions import Candidate, Plan, ReasonCode, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.policies.placement.common import (
    ByReservation,
    candidate,
    is_full,
    misfit,
    plan,
    refuse,
    with_room,
)
from wharfinger.policies.placement.draws import DrawSettings, in_random_order

PROBES = 32
"""Servers that are looked at one by one; only where none of these has room all are scanned."""


class RandomChoice(ByReservation):
    """One server drawn uniformly among those with room, by a hash of the workload's name.

    Where a share f of the servers has room it looks at 1 / f of them, whatever their number.

    Args:
        settings: With another seed each workload may go elsewhere.
    """

    name = "random"

    def __init__(self, settings: DrawSettings | None = None) -> None:
        self.settings = settings or DrawSettings()
        self._seed = self.settings.seed

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Probe in random order until one has room, size by reservation."""
        need = request.reserved(view.capabilities)
        probed: list[Candidate] = []
        for row in islice(self._order(len(view.names), request, "probes"), PROBES):
            reason = misfit(request, need, view, row)
            found = candidate(view, row, 0.0 if reason is ReasonCode.OK else None, reason)
            if reason is ReasonCode.OK:
                message = f"{found.server} was drawn"
                return plan(self.name, request, need, view, [found], message, probed)
            probed.append(found)
        # A refusal for each event of a full cluster must not cost a pass over it.
        if is_full(request, need, view):
            return refuse(self.name, request, need, view)
        rows = np.flatnonzero(with_room(request, need, view))
        if not len(rows):
            return refuse(self.name, request, need, view)
        row = int(rows[next(self._order(len(rows), request, "scan"))])
        message = f"{view.names[row]} was drawn of the {len(rows)} with room"
        found = candidate(view, row, 0.0, ReasonCode.OK)
        return plan(self.name, request, need, view, [found], message, probed)

    def _order(self, count: int, request: PlacementRequest, what: str) -> Iterator[int]:
        return in_random_order(count, self._seed, request.workload.name, what)
