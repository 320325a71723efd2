"""Placements as the core lets them be: on the servers that an admission lets a workload take.

What a workload states of several servers holds, or it gets none.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from wharfinger.core.memory_needs import told_of_memory
from wharfinger.core.own_decisions import refused
from wharfinger.core.seams.admission import Servers, ServerSets
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.seams.verdicts import PlacementVerdict, Preempt
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse
from wharfinger.model.view import ALL_REASONS, Request, View
from wharfinger.model.workload import Scale

PLATFORMS_NAMED = 4
"""So many of those that a workload waits for are named."""


def place_within(
    placement: PlacementPolicy, request: Request, view: View, allowed: Sequence[Servers]
) -> PlacementVerdict:
    """The placement's verdict on the first of these sets of servers that has a place.

    Where none has one, what is preempted for it is in the first where that makes room; where that
    is so elsewhere alone, or another server has a place, the workload waits for one of its own
    (``waits-for-quality``); where none at all does, the verdict is the one on all. The record of a
    place tells where memory comes from that no user stated.
    """
    found = _place_within(placement, request, request.seen(view), allowed)
    scale = request.workload.scale
    if isinstance(found, Place) and not keeps_scale(placement, scale, len(found.placements)):
        return Refuse(scale_not_kept(found.decision, placement, scale))
    return told_of_memory(found, request) if isinstance(found, Place) else found


def keeps_scale(placement: PlacementPolicy, scale: Scale, servers: int) -> bool:
    """Whether what a scale states holds on so many servers that a placement has named."""
    states = scale.gang or scale.spread is not None
    return servers < 2 or not states or getattr(placement, "keeps_scale", False)


def scale_not_kept(decision: Decision, placement: PlacementPolicy, scale: Scale) -> Decision:
    """What a policy names several servers for does not keep what its scale states."""
    stated = "scale.gang" if scale.gang else f"scale.spread: {scale.spread}"
    message = f"{placement.name} names several servers, and does not keep {stated}"
    mend = "scale.maxServers: 1, or a policy that keeps it, e.g. quasar"
    told = replace(decision, predicted=None, candidates=())
    return refused(told, ReasonCode.NOT_SUPPORTED, message, mend)


def _place_within(
    placement: PlacementPolicy, request: Request, view: View, allowed: Sequence[Servers]
) -> PlacementVerdict:
    preempting: Preempt | None = None
    found: PlacementVerdict | None = None
    # A refusal by these alone is not logged: what is told is the one on all servers.
    of_these = replace(request, told=ALL_REASONS) if allowed else request
    for servers in allowed:
        found = placement.place(of_these, only(view, servers))
        if isinstance(found, Place):
            return found
        if preempting is None and isinstance(found, Preempt):
            preempting = found
    if preempting is not None:
        return preempting
    waits, reason = ReasonCode.WAITS_FOR_QUALITY in request.told, ReasonCode.WAITS_FOR_QUALITY
    if waits and isinstance(found, Refuse) and found.decision.reason is ReasonCode.NO_ROOM:
        # That is said already, and whether another server has room changes nothing.
        return Refuse(refused(found.decision, reason, "", ""), _names(view, allowed))
    anywhere = placement.place(request, view)
    if not allowed or not isinstance(anywhere, Place | Preempt):
        return anywhere
    elsewhere = " and ".join(each.server for each in anywhere.placements) or "another"
    told = replace(anywhere.decision, predicted=None, candidates=())
    taken = np.unique(view.platform[np.logical_or.reduce(allowed)]).tolist()
    message = f"no server of its queue has room for it; {elsewhere} has, and is for others"
    mend = "an end on a server of its queue, or the end of its slack: then it may take any"
    if 0 < len(taken) < len(view.platforms):
        names = _some(sorted(view.platforms[at] for at in taken))
        message = f"it waits for a server of {names}; {elsewhere} has room, and suits it less"
        mend = "an end on a server of these, or the end of its slack: then it may take any"
    return Refuse(refused(told, reason, message, mend), _names(view, allowed))


def _names(view: View, allowed: Sequence[Servers]) -> tuple[str, ...]:
    """Of the servers that are in one of the sets, or may come into one."""
    awaited = np.logical_or.reduce(allowed)
    if isinstance(allowed, ServerSets):
        awaited |= allowed.awaited
    return tuple(compress(view.names, awaited.tolist()))


def _some(platforms: Sequence[str]) -> str:
    """Platforms in words; of many the first."""
    more = len(platforms) - PLATFORMS_NAMED
    others = [f"{more} other platforms"] if more > 1 else platforms[PLATFORMS_NAMED:]
    return " or ".join((*platforms[:PLATFORMS_NAMED], *others))


def only(view: View, servers: Servers) -> View:
    """The view in which no other server accepts work; without what speaks of all of them."""
    accepting = view.accepting * servers
    return replace(view, accepting=accepting, loads=None, index=None, largest=None)
