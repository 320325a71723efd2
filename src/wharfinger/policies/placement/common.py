"""The pieces that placements share: filters, candidates, and the records of decisions.

A placement (``wharfinger.core.seams.placement``) reads a frozen view and returns a value, with the
record of how it was reached. It keeps nothing between calls.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice, repeat
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.placement import ServerIndex
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Candidate,
    Decision,
    Place,
    Prediction,
    ReasonCode,
    Refuse,
    Stage,
)
from wharfinger.model.requirements import in_words as stated
from wharfinger.model.units import cpu_number, memory_number
from wharfinger.model.view import Request, Resize, View
from wharfinger.native import free_on

CANT_RESIZE = "the engine can't resize a running workload"
INSTEAD_OF_RESIZE = "deleting it and handing it in again"
_VALUES_SHOWN = 4
_LOOKED_AT = 64
"""How many servers are searched for ones that a record names because they can't take it."""


class ByReservation:
    """The common part of policies that size by reservation and follow no measurement."""

    name = ""
    settings: Any = None
    follows_targets = False

    def index(self) -> ServerIndex | None:
        """None: what the core keeps by load is enough."""
        return None

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """The changed reservation, in place; what is elastic of it stays as it is."""
        if request.lost:
            return _replace_lost(self.name, request, placements, view)
        need, reservation = request.reserved(view.capabilities), request.workload.reservation
        if len(placements) == 1:
            held = placements[0].allocation
            need = replace(
                need,
                cpu_millicpus=held.cpu_millicpus if reservation.elastic_cpu else need.cpu_millicpus,
                memory_bytes=held.memory_bytes if reservation.elastic_memory else need.memory_bytes,
            )
        if all(placement.allocation == need for placement in placements):
            return None
        why = "the reservation was changed"
        return change_in_place(self.name, request, need, placements, view, why)


def open_servers(request: Request, view: View) -> NDArray[np.uint8]:
    """(S,) 1 where this workload may go: accepting, and not one that failed to start it.

    In a view that comes with a request no server accepts work that its labels exclude.
    """
    if not request.excluded:
        return view.accepting
    accepting = view.accepting.copy()
    accepting[list(request.excluded)] = 0
    return accepting


def is_full(request: Request, need: Allocation, view: View) -> bool:
    """Whether no server has room, where that is known without a pass over all of them."""
    cpu, memory = need.cpu_millicpus, need.memory_bytes
    return (
        view.loads is not None and not view.loads.least_loaded(cpu, memory, 1, request.excluded)[0]
    )


def misfit(request: Request, need: Allocation, view: View, row: int) -> ReasonCode:
    """Why one server can't take the workload now; ``OK`` where it can."""
    if request.allowed is not None and not request.allowed[row]:
        return ReasonCode.NOT_ALLOWED
    if not view.accepting[row]:
        return ReasonCode.NO_SERVERS
    if row in request.excluded:
        return ReasonCode.SERVERS_EXCLUDED
    # Python's own numbers: one of NumPy's costs several times as much to compare.
    cpu_left = view.cpu_capacity.item(row) - need.cpu_millicpus
    memory_left = view.memory_capacity.item(row) - need.memory_bytes
    if cpu_left < 0 or memory_left < 0:
        return ReasonCode.TOO_LARGE
    if view.cpu_allocated.item(row) > cpu_left or view.memory_allocated.item(row) > memory_left:
        return ReasonCode.NO_ROOM
    return ReasonCode.OK


def candidates(
    view: View,
    rows: list[int],
    scores: Iterable[float | None],
    reasons: Iterable[ReasonCode] = repeat(ReasonCode.OK),
    compared: Iterable[Mapping[str, float]] = repeat(MappingProxyType({})),
) -> list[Candidate]:
    """These servers' parts in a decision, with the numbers that were compared, and further ones."""
    names = view.names
    free = free_on(
        rows,
        view.cpu_capacity,
        view.cpu_allocated,
        view.memory_capacity,
        view.memory_allocated,
        view.residents,
    )
    return [
        Candidate(
            names[row],
            score,
            reason,
            {
                "cpu_free_millicpus": cpu_free,
                "memory_free_bytes": memory_free,
                "residents": residents,
                **more,
            },
        )
        for row, (cpu_free, memory_free, residents), score, reason, more in zip(
            rows, free, scores, reasons, compared, strict=False
        )
    ]


def candidate(view: View, row: int, score: float | None, reason: ReasonCode) -> Candidate:
    """As ``candidates``, of one server."""
    return candidates(view, [row], [score], [reason])[0]


def _rejected(request: Request, need: Allocation, view: View, limit: int) -> list[Candidate]:
    """The first ``limit`` servers that can't take it; a record is not worth a full pass."""
    if limit <= 0:
        return []
    reasons = ((row, misfit(request, need, view, row)) for row in range(len(view.names)))
    misfits = (each for each in islice(reasons, _LOOKED_AT) if each[1] is not ReasonCode.OK)
    first = dict(islice(misfits, limit))
    return candidates(view, list(first), repeat(None), first.values())


def plan(
    policy: str,
    request: Request,
    need: Allocation,
    view: View,
    ranked: list[Candidate],
    message: str,
    probed: list[Candidate] | None = None,
    *,
    reason: ReasonCode = ReasonCode.OK,
    compared: Mapping[str, float] = MappingProxyType({}),
    predicted: Prediction | None = None,
) -> Place:
    """A plan for the first of the ranked candidates; the record has the others and the misfits.

    ``compared`` are numbers for the record beyond what it needs. ``probed`` has the misfits of a
    policy that looks at some servers only; ``None`` = at all.
    """
    left = CANDIDATES_KEPT - len(ranked)
    misfits = _rejected(request, need, view, left) if probed is None else probed[:left]
    looked_at = len(view.names) if probed is None else len(ranked) + len(probed)
    decision = Decision(
        stage=Stage.PLACEMENT,
        decided_by=policy,
        accepted=True,
        reason=reason,
        message=message,
        considered=looked_at,
        candidates=(*ranked, *misfits),
        numbers={**needed(need), **compared},
        predicted=predicted,
    )
    return Place((Placement(ranked[0].server, need),), decision)


def refuse(
    policy: str,
    request: Request,
    need: Allocation,
    view: View,
    cpu_needed: NDArray[np.int64] | None = None,
) -> Refuse:
    """Why no server can take the workload now, and what would have to change.

    ``cpu_needed`` is (S,) thousandths of a CPU, where that is not the same on each server.
    """
    reason, message, would_change = why_refused(request, need, cpu_needed, view)
    is_told = reason in request.told
    return Refuse(
        Decision(
            stage=Stage.PLACEMENT,
            decided_by=policy,
            accepted=False,
            reason=reason,
            message=message,
            would_change=would_change,
            considered=len(view.names),
            candidates=() if is_told else tuple(_rejected(request, need, view, CANDIDATES_KEPT)),
            numbers=needed(need),
        )
    )


def needed(need: Allocation) -> dict[str, float]:
    """What a workload would get, as a decision's numbers."""
    return {
        "cpu_needed_millicpus": float(need.cpu_millicpus),
        "memory_needed_bytes": float(need.memory_bytes),
    }


def why_refused(
    request: Request, need: Allocation, cpu_needed: NDArray[np.int64] | None, view: View
) -> tuple[ReasonCode, str, str]:
    """Why no server has room, as a code and in words, and what would change that; as ``refuse``."""
    is_open, freest, fits = _room(need, cpu_needed, view)
    requires = request.workload.requires
    if not is_open and requires and len(view.names):
        return _not_allowed(request, view)
    if not is_open:
        return ReasonCode.NO_SERVERS, "no server accepts work", "a server that accepts work"
    in_words, server = wanted(need), "no server"
    if requires:
        server = f"no server with {stated(requires)}"
    if freest < 0:
        return (
            ReasonCode.TOO_LARGE,
            f"{server} has {in_words}, even when empty",
            f"a server of at least {in_words}, or a smaller reservation",
        )
    if fits:
        return (
            ReasonCode.SERVERS_EXCLUDED,
            "the servers with room failed to start it",
            "room on another server",
        )
    if cpu_needed is not None:
        in_words = wanted(replace(need, cpu_millicpus=int(cpu_needed[freest])))
    cpu_free = max(0, int(view.cpu_capacity[freest] - view.cpu_allocated[freest]))
    memory_free = max(0, int(view.memory_capacity[freest] - view.memory_allocated[freest]))
    would_change = (
        f"{in_words} free on one server; {view.names[freest]} has "
        f"{cpu_number(cpu_free)} CPU and {memory_number(memory_free)} free"
    )
    return ReasonCode.NO_ROOM, f"{server} has {in_words} free", would_change


def _not_allowed(request: Request, view: View) -> tuple[ReasonCode, str, str]:
    """No server that accepts work has the labels that are required; what servers have instead."""
    requires = request.workload.requires
    message = f"no server that accepts work has {stated(requires)}"
    if request.allowed is not None and request.allowed.any():
        message += f", and {int(request.allowed.sum())} that accept none now"
    if view.labels is not None:
        have = [f"{one.label} is {_values(view.labels(one.label))}" for one in requires]
        message += f"; on the servers {', '.join(have)}"
    mend = f"a server with {stated(requires)}, or another spec.requires"
    return ReasonCode.NOT_ALLOWED, message, mend


def _values(counts: Mapping[str, int]) -> str:
    """The most frequent values of a label."""
    if not counts:
        return "not set"
    shown = " or ".join(islice(counts, _VALUES_SHOWN))
    return shown if len(counts) <= _VALUES_SHOWN else f"{shown} or another"


def _room(
    need: Allocation, cpu_needed: NDArray[np.int64] | None, view: View
) -> tuple[bool, int, bool]:
    """Whether one accepts work; the large enough one with most CPU free or -1; whether one fits."""
    if cpu_needed is None and view.loads is not None:
        cpu, memory = need.cpu_millicpus, need.memory_bytes
        fitting, _ = view.loads.least_loaded(cpu, memory, 1)
        return view.loads.freest(0, 0) >= 0, view.loads.freest(cpu, memory), bool(fitting)
    cpu_millicpus = need.cpu_millicpus if cpu_needed is None else cpu_needed
    large_enough = (
        view.accepting.astype(bool)
        & (view.cpu_capacity >= cpu_millicpus)
        & (view.memory_capacity >= need.memory_bytes)
    )
    spare = view.cpu_capacity - view.cpu_allocated - cpu_millicpus
    memory_free = view.memory_capacity - view.memory_allocated
    fits = large_enough & (spare >= 0) & (memory_free >= need.memory_bytes)
    rows = np.flatnonzero(large_enough)
    freest = int(rows[np.argmax(spare[rows])]) if rows.size else -1
    return bool(view.accepting.any()), freest, bool(fits.any())


def wanted(need: Allocation) -> str:
    """An allocation in words."""
    return f"{cpu_number(need.cpu_millicpus)} CPU and {memory_number(need.memory_bytes)}"


def _replace_lost(
    policy: str, request: Request, placements: tuple[Placement, ...], view: View
) -> Place | Refuse:
    """Other servers, with as much each, for those from which it is gone: the least loaded ones.

    Where it is to be spread over zones, in a zone where it is not, if there is one with room.
    """
    scale = request.workload.scale
    most = min(scale.max_servers, view.capabilities.max_servers_per_workload)
    gone = " and ".join(placement.server for placement in request.lost)
    decision = Decision(
        stage=Stage.ADAPTATION,
        decided_by=policy,
        accepted=False,
        reason=ReasonCode.NOT_SUPPORTED,
        message="",
        considered=len(view.names),
        numbers=needed(request.lost[0].allocation),
    )
    if view.capabilities.resize is not Resize.ANY or scale.gang:
        why = "all its servers start together (gang)" if scale.gang else "the engine can't add one"
        message = f"{gone} is gone, and no server takes its place: {why}"
        return Refuse(replace(decision, message=message, would_change="starting it again"))
    held = [view.row(placement.server) for placement in placements]
    added: list[Placement] = []
    for lost in request.lost[: max(0, most - len(placements))]:
        row = _least_loaded_elsewhere(request, lost.allocation, view, held)
        if row is not None:
            held.append(row)
            added.append(replace(lost, server=view.names[row]))
    if not added:
        in_words = wanted(request.lost[0].allocation)
        message = f"{gone} is gone, and no other server has {in_words} free to take its place"
        mend = f"{in_words} free on another server"
        return Refuse(
            replace(decision, reason=ReasonCode.NO_ROOM, message=message, would_change=mend)
        )
    there = " and ".join(placement.server for placement in added)
    message = f"{gone} is gone while it runs on: {there} takes its place"
    shown = candidates(view, held[-len(added) :], repeat(None))
    told = replace(
        decision, accepted=True, reason=ReasonCode.OK, message=message, candidates=tuple(shown)
    )
    return Place((*placements, *added), told)


def _least_loaded_elsewhere(
    request: Request, need: Allocation, view: View, held: list[int]
) -> int | None:
    """The least loaded server with room, on which it is not; in another zone if it is to be."""
    takes = open_servers(request, view).astype(bool) & (view.unsettled == 0)
    takes &= view.cpu_capacity - view.cpu_allocated >= need.cpu_millicpus
    takes &= view.memory_capacity - view.memory_allocated >= need.memory_bytes
    takes[held] = False
    rows = np.flatnonzero(takes)
    if not rows.size:
        return None
    load = view.cpu_allocated[rows] / np.maximum(view.cpu_capacity[rows], 1)
    if request.workload.scale.spread is not None and view.zone is not None:
        load = load + np.isin(view.zone[rows], view.zone[held])
    return int(rows[np.argmin(load)])


def change_in_place(
    policy: str,
    request: Request,
    need: Allocation,
    placements: tuple[Placement, ...],
    view: View,
    why: str,
) -> Place | Refuse:
    """Another allocation on the servers where a workload already is, if they have room."""
    rows = {placement.server: view.row(placement.server) for placement in placements}
    short = [p for p in placements if not _fits_instead(view, rows[p.server], p.allocation, need)]
    message, reason, would_change = why, ReasonCode.OK, ""
    if not view.capabilities.resize:
        message, reason = CANT_RESIZE, ReasonCode.NOT_SUPPORTED
        would_change = INSTEAD_OF_RESIZE
    elif (most := _exceeded(request, need, placements, view)) is not None:
        message = f"the engine gives it no more than it started with, {wanted(most)}"
        reason, would_change = ReasonCode.NOT_SUPPORTED, "starting it again"
    elif short:
        message, reason = f"{short[0].server} has no room for it to grow", ReasonCode.NO_ROOM
        would_change = "room on the server where it runs"
    shown = [rows[placement.server] for placement in placements[:CANDIDATES_KEPT]]
    decision = Decision(
        stage=Stage.ADAPTATION,
        decided_by=policy,
        accepted=reason is ReasonCode.OK,
        reason=reason,
        message=message,
        would_change=would_change,
        considered=len(placements),
        candidates=tuple(candidates(view, shown, repeat(None), repeat(reason))),
        numbers=needed(need),
    )
    if reason is not ReasonCode.OK:
        return Refuse(decision)
    return Place(tuple(replace(p, allocation=need) for p in placements), decision)


def _exceeded(
    request: Request, need: Allocation, placements: tuple[Placement, ...], view: View
) -> Allocation | None:
    """The most that the engine gives it on the first server where it would get more."""
    for placement in placements:
        most = request.most_on(placement, view.capabilities)
        if most is not None and (
            need.cpu_millicpus > most.cpu_millicpus or need.memory_bytes > most.memory_bytes
        ):
            return most
    return None


def _fits_instead(view: View, row: int, held: Allocation, need: Allocation) -> bool:
    more_cpu = need.cpu_millicpus - held.cpu_millicpus
    more_memory = need.memory_bytes - held.memory_bytes
    return (more_cpu <= 0 or view.cpu_allocated[row] + more_cpu <= view.cpu_capacity[row]) and (
        more_memory <= 0 or view.memory_allocated[row] + more_memory <= view.memory_capacity[row]
    )
