"""A service whose load has gone leaves servers, the worst first (Quasar 4.1)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp

import numpy as np

from wharfinger.classification.prediction import TargetPart, normalized_with, slower
from wharfinger.model.allocation import Placement, cpu_of
from wharfinger.model.decisions import Place, Refuse
from wharfinger.model.units import cpu_number
from wharfinger.model.view import Request, Resize, View
from wharfinger.model.workload import WorkloadType
from wharfinger.policies.placement.resizing import MEDIAN, ResizeSettings, room_for
from wharfinger.policies.placement.several import scale_out, zones_of


def without_worst(
    request: Request,
    placements: tuple[Placement, ...],
    verdict: Place | Refuse | None,
    view: View,
    parts: Callable[[], list[TargetPart]],
    settings: ResizeSettings,
) -> Place | Refuse | None:
    """The same without its worst server, where the verdict is less CPU on each; else the verdict.

    The others must hold what is left of its load as they are, and must do as much as all do now
    when they take the room that they have: a load that comes back is met in place, without a start.
    """
    workload, off = request.workload, request.off_target
    if off is None or off.lacks or not isinstance(verdict, Place):
        return verdict
    scale, able = workload.scale, view.capabilities.resize is Resize.ANY
    if workload.type is not WorkloadType.LATENCY_CRITICAL or scale.gang or scale.stateful:
        return verdict
    if not able:
        return verdict
    does = _performance(request, placements, view, parts())
    worst = _worst(request, placements, view, does)
    others = placements[:worst] + placements[worst + 1 :]
    left, before = cpu_of(others), cpu_of(placements)
    grown = tuple(_with_room(request, each, view) for each in others)
    if left < cpu_of(verdict.placements) or cpu_of(grown) < before:
        return verdict
    if sum(_performance(request, grown, view, parts())) < sum(does):
        return verdict
    outs, count = scale_out(workload, request.classification, view.capabilities), len(placements)
    share = 1 - does[worst] / sum(does)
    if count in outs and count - 1 in outs:
        share *= (outs[count - 1].mean / (count - 1)) / (outs[count].mean / count)
    if off.normalized * share < settings.margin:
        return verdict
    message = (
        f"for {off.for_seconds:.0f} s it ran at {off.normalized:.0%} of its target: "
        f"{placements[worst].server} is left, where it does least for its CPU; "
        f"{cpu_number(left)} of {cpu_number(before)} CPU stay, which should give "
        f"{off.normalized * share:.0%}"
    )
    numbers = {**verdict.decision.numbers, "cpu_needed_millicpus": float(left)}
    return Place(others, replace(verdict.decision, message=message, numbers=numbers))


def _with_room(request: Request, placement: Placement, view: View) -> Placement:
    held = placement.allocation
    cpu = held.cpu_millicpus + max(0, room_for(request, placement, view))
    return replace(placement, allocation=replace(held, cpu_millicpus=cpu))


def _performance(
    request: Request,
    placements: tuple[Placement, ...],
    view: View,
    parts: list[TargetPart],
) -> list[float]:
    """What each server does of all, beside its neighbors."""
    known, does = request.classification, []
    for each in placements:
        cpu, row = each.allocation.cpu_millicpus, view.row(each.server)
        own = normalized_with(parts, cpu, MEDIAN).mean if parts and cpu else float(cpu)
        platform, drop = view.platforms[view.platform[row]], 0.0
        if known is not None:
            drop = slower(known, (platform,), cpu)[0].item()
            if view.contention is not None:
                drop += view.contention.drop_of(row, platform, known) or 0.0
        does.append(own * exp(-drop))
    return does


def _worst(
    request: Request, placements: tuple[Placement, ...], view: View, does: Sequence[float]
) -> int:
    """Which does least for its CPU, of the zones that have most of it; of equals the newest."""
    candidates = np.ones(len(placements), dtype=np.bool_)
    if (zone := zones_of(request, view)) is not None:
        here = zone[[view.row(each.server) for each in placements]]
        counts = np.array([np.count_nonzero(here == each) if each else 1 for each in here])
        candidates = counts == counts.max()
    by_cpu = [
        does / max(1, each.allocation.cpu_millicpus)
        for does, each in zip(does, placements, strict=True)
    ]
    return min(np.flatnonzero(candidates).tolist(), key=lambda at: (round(by_cpu[at], 9), -at))
