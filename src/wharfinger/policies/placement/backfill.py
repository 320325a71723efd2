"""What most sites run: sizes as users state them, on as many servers as they state.

With an admission that lets others pass a blocked head (``fifo``), and with the times that users
state, this is EASY backfilling (Lifka 1995). Servers are taken in the order of Slurm's
``select/cons_tres``: nodes of equal weight as they are listed, or with ``CR_LLN`` the least loaded
first (slurm.conf).
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import CANDIDATES_KEPT, Place, ReasonCode, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.admission.fifo import FifoSettings
from wharfinger.policies.placement.common import (
    ByReservation,
    candidates,
    open_servers,
    plan,
    refuse,
    wanted,
)
from wharfinger.policies.placement.several import in_turn, zones_of


class FillOrder(StrEnum):
    """In which order the servers with room are taken."""

    FIRST_FIT = "first-fit"
    """As they joined: the first ones fill up, and the last ones stay free for large workloads."""
    LEAST_LOADED = "least-loaded"
    """By the share of their CPU that is allocated."""


_WHY = {
    FillOrder.FIRST_FIT: "the first with room",
    FillOrder.LEAST_LOADED: "the least loaded with room",
}


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """Settings of ``backfill``.

    Attributes:
        order: In which servers with room are taken: ``first-fit`` or ``least-loaded``.
    """

    order: FillOrder = FillOrder.FIRST_FIT


@dataclass(frozen=True, slots=True)
class EasySettings(FifoSettings):
    """Those of its admission.

    Attributes:
        max_waiting: Most workloads that wait, in all queues together.
        backfill: How many behind a blocked one are tried ahead of it in a step; 0 = none. As many
            as Slurm tries (``bf_max_job_test``).
    """

    backfill: int = 500


class BackfillPlacement(ByReservation):
    """The stated CPU and memory on each of ``scale.maxServers`` servers, at once or not at all.

    A user of such a site states on how many servers a workload runs, and not up to how many it may
    have. Where the cluster has fewer that are large enough, or the engine takes fewer, it gets
    those.
    """

    name = "backfill"
    keeps_scale = True

    def __init__(self, settings: BackfillSettings | None = None) -> None:
        self.settings = settings or BackfillSettings()

    def place(self, request: Request, view: View) -> Place | Refuse:
        """The first servers with room, in the order of the settings."""
        need = request.reserved(view.capabilities)
        able, free = _room(need, view)
        stated = request.workload.scale.max_servers
        most = min(stated, view.capabilities.max_servers_per_workload, int(able.sum()))
        count = max(1, most)
        rows = self._in_order(
            request, np.flatnonzero(free & (open_servers(request, view) > 0)), view
        )
        if len(rows) < count:
            refusal = refuse(self.name, request, need, view)
            return refusal if count == 1 else _lacks_servers(refusal, need, count, free, rows)
        kept = rows[:CANDIDATES_KEPT].tolist()
        ranked = candidates(view, kept, map(float, range(len(kept))))
        first, why = view.names[kept[0]], _WHY[self.settings.order]
        message = f"{first} is {why}" if count == 1 else f"{first} and {count - 1} more are {why}"
        numbers = {"servers_needed": float(count)}
        placed = plan(self.name, request, need, view, ranked, message, compared=numbers)
        chosen = tuple(Placement(view.names[row], need) for row in rows[:count].tolist())
        return replace(placed, placements=chosen)

    def _in_order(self, request: Request, rows: NDArray[np.intp], view: View) -> NDArray[np.intp]:
        if self.settings.order is FillOrder.LEAST_LOADED:
            loads = view.cpu_allocated[rows] / np.maximum(view.cpu_capacity[rows], 1)
            rows = rows[np.argsort(loads, kind="stable")]
        zone = zones_of(request, view)
        return rows if zone is None else in_turn(rows, zone)


def _room(need: Allocation, view: View) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(S,) which accept work and are large enough when empty, and which of these have room now."""
    cpu, memory = need.cpu_millicpus, need.memory_bytes
    able = (view.accepting > 0) & (view.cpu_capacity >= cpu) & (view.memory_capacity >= memory)
    free = able & (view.cpu_capacity - view.cpu_allocated >= cpu)
    free &= view.memory_capacity - view.memory_allocated >= memory
    return able, free


def _lacks_servers(
    refusal: Refuse,
    need: Allocation,
    count: int,
    free: NDArray[np.bool_],
    rows: NDArray[np.intp],
) -> Refuse:
    """Fewer servers have room than it states."""
    decision, lacking, each = refusal.decision, count - len(rows), wanted(need)
    decision = replace(
        decision,
        reason=ReasonCode.SERVERS_EXCLUDED if free.sum() >= count else ReasonCode.NO_ROOM,
        message=f"{len(rows)} of the {count} servers that it needs have {each} free",
        would_change=f"{each} free on {lacking} more, or fewer servers in scale.maxServers",
        numbers={**decision.numbers, "servers_needed": float(count)},
    )
    return replace(refusal, decision=decision, servers_needed=count)
