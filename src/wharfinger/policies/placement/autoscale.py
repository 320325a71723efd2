"""Autoscale: a service on one to eight servers, by its load; the rest least-loaded.

The baseline of Quasar 5 and 6.3: "an additional, least-loaded server when current load exceeds
70%". Quasar does not describe scaling in: here the newest server is left when the load on the
others would be below 50%, far enough from 70% that noise does not bring it back.
"""

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.allocation import Placement, cpu_of
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage
from wharfinger.model.view import Request, Resize, View
from wharfinger.model.workload import Spread, WorkloadType
from wharfinger.policies.placement.common import needed, open_servers, wanted
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.policies.placement.several import least_used

OUT = 0.7
"""Load from which a server is added (Quasar 5)."""
IN = 0.5
"""Load below which those that stay must be before one is left."""
MOST_SERVERS = 8
"""Of one service (Quasar 5)."""


class Autoscale(LeastLoaded):
    """Each server of a service gets the reservation; load is CPU time used over CPU allocated."""

    name = "autoscale"
    keeps_scale = True

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """One server more or less, by load; a changed reservation on all of them."""
        if request.load is None:
            return super().resize(request, placements, view)
        is_service = request.workload.type is WorkloadType.LATENCY_CRITICAL
        if not is_service or view.capabilities.resize is not Resize.ANY:
            return None
        # All servers of a gang start together, and it starts on one.
        by_user = 1 if request.workload.scale.gang else request.workload.scale.max_servers
        most = min(MOST_SERVERS, by_user, view.capabilities.max_servers_per_workload)
        count = len(placements)
        if count > 1 and (count > most or _load_without_newest(request.load, placements) < IN):
            return self._scale_in(request, placements, view)
        if count < most and request.load > OUT:
            return self._scale_out(request, placements, view)
        return None

    def _scale_out(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse:
        here = {view.row(placement.server) for placement in placements}
        elsewhere = replace(request, excluded=request.excluded | here)
        if view.zone is not None and request.workload.scale.spread is Spread.ZONE:
            elsewhere = _in_least_used_zones(elsewhere, here, view, view.zone)
        verdict = self.place(elsewhere, view)
        over = f"load {request.load:.0%} is over {OUT:.0%}"
        if isinstance(verdict, Refuse):
            room = wanted(request.reserved(view.capabilities))
            refused = replace(
                self._decision(request, view, f"{over}, and no other server has room"),
                accepted=False,
                reason=ReasonCode.NO_ROOM,
                would_change=f"{room} free on another server",
            )
            return Refuse(refused)
        ranked = [c for c in verdict.decision.candidates if c.reason is ReasonCode.OK]
        message = f"{over}: {ranked[0].server} makes {len(placements) + 1} servers"
        decision = replace(self._decision(request, view, message), candidates=tuple(ranked))
        return Place((*placements, *verdict.placements), decision)

    def _scale_in(self, request: Request, placements: tuple[Placement, ...], view: View) -> Place:
        newest = placements[-1].server
        message = f"load {request.load:.0%} on {len(placements)} servers: {newest} is left"
        return Place(placements[:-1], self._decision(request, view, message))

    def _decision(self, request: Request, view: View, message: str) -> Decision:
        return Decision(
            Stage.ADAPTATION,
            self.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=message,
            considered=len(view.names),
            numbers={"load": request.load or 0.0} | needed(request.reserved(view.capabilities)),
        )


def _in_least_used_zones(
    request: Request, here: set[int], view: View, zone: NDArray[np.int64]
) -> Request:
    """Without the servers in zones that have more of it than another that has room for one."""
    need = request.reserved(view.capabilities)
    has_room = open_servers(request, view).astype(np.bool_)
    has_room &= view.cpu_capacity - view.cpu_allocated >= need.cpu_millicpus
    has_room &= view.memory_capacity - view.memory_allocated >= need.memory_bytes
    able = least_used(zone, here, has_room)
    return replace(request, excluded=frozenset(np.flatnonzero(~able).tolist()))


def _load_without_newest(load: float, placements: tuple[Placement, ...]) -> float:
    given = cpu_of(placements)
    left = given - placements[-1].allocation.cpu_millicpus
    return load * given / left if left else inf
