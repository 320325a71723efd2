"""CPU that follows a target while the workload runs, for all policies that do that.

``follow_target`` bounds what is wanted: by a step's limits, by what a service uses, by the room on
the server. What is wanted comes from proportion alone, or from the classified curve.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log, sqrt

from wharfinger.classification.prediction import (
    TargetPart,
    normalized_over,
    normalized_with,
    performance_with,
    slower,
    worse_by,
)
from wharfinger.model.allocation import Allocation, Placement, cpu_of
from wharfinger.model.decisions import Decision, Place, Prediction, ReasonCode, Refuse, Stage
from wharfinger.model.performance import busier
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Estimate, quantile
from wharfinger.model.units import cpu_number, memory_number
from wharfinger.model.view import OffTarget, Request, Resize, View
from wharfinger.model.workload import WorkloadType
from wharfinger.policies.placement.common import (
    CANT_RESIZE,
    INSTEAD_OF_RESIZE,
    change_in_place,
)
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.policies.placement.several import zones_of
from wharfinger.policies.placement.sizing import SizingSettings, prediction, sizes


@dataclass(frozen=True, slots=True)
class ResizeSettings:
    """Constants of following a target.

    Attributes:
        margin: Times its target that a resize aims at, so that noise does not violate it.
        max_growth: Most that one step multiplies an allocation by: fast, because a backlog grows
            while a target is violated.
        max_cut: Most that one step divides an allocation by.
        min_step: Smallest change, as a share of the allocation.
        min_millicpus: Smallest allocation, in thousandths of a CPU.
        busy: Share of its CPU below whose use more CPU does not help a workload.
        bursts: Times the CPU that it uses that a service with a latency target keeps under a quota.
    """

    margin: float = 1.1
    max_growth: float = 4.0
    max_cut: float = 2.0
    min_step: float = 0.05
    min_millicpus: int = 50
    busy: float = 0.7
    bursts: float = 1.4


DEFAULT = ResizeSettings()
BUSY = DEFAULT.busy

_FAR = 2.0
"""Headroom, over the target, from which messages call it large."""
MEDIAN = 0.5
"""The confidence at which nothing is added for doubt."""

Wanted = Callable[[Allocation, OffTarget], int]
"""From what is held and how far off the target is: thousandths of a CPU."""


def by_proportion(held: Allocation, off: OffTarget, settings: ResizeSettings = DEFAULT) -> int:
    """CPU in proportion to what is missing or spare, as vertical autoscalers do it."""
    return round(held.cpu_millicpus * settings.margin / max(off.normalized, 1e-9))


def room_on(server: str, view: View) -> int:
    """Thousandths of a CPU that are not allocated there; below 0 = more than there is."""
    row = view.row(server)
    return int(view.cpu_capacity[row] - view.cpu_allocated[row])


def room_for(request: Request, placement: Placement, view: View) -> int:
    """Thousandths of a CPU that a running workload may get more where it is; as ``room_on``."""
    room, most = room_on(placement.server, view), request.most_on(placement, view.capabilities)
    if most is None:
        return room
    return min(room, most.cpu_millicpus - placement.allocation.cpu_millicpus)


def lacking(
    placement: Placement,
    off: OffTarget,
    view: View,
    settings: ResizeSettings = DEFAULT,
    most: Allocation | None = None,
) -> int:
    """By how much the server's room falls short of what a missed target asks for.

    ``most`` is what it may have there at all; ``None`` = whatever is free.
    """
    held = placement.allocation
    if not off.lacks or _is_idle(off, held, settings):
        return 0
    largest = round(held.cpu_millicpus * settings.max_growth)
    largest = largest if most is None else min(largest, most.cpu_millicpus)
    wanted = min(by_proportion(held, off, settings), largest)
    return max(0, wanted - held.cpu_millicpus - room_on(placement.server, view))


def follow_target(
    policy: str,
    request: Request,
    placements: tuple[Placement, ...],
    view: View,
    settings: ResizeSettings,
    wanted: Wanted | None = None,
) -> Place | Refuse | None:
    """More where the target is missed, less where there is more than enough.

    ``wanted`` says how much; ``None`` = in proportion to what is missing or spare.
    """
    off, target = request.off_target, request.workload.target
    if off is None or len(placements) != 1 or request.workload.best_effort:
        return None
    held = placements[0].allocation
    if (before := off.unused_from) is not None and before < held.cpu_millicpus:
        less = replace(held, cpu_millicpus=before)
        return _taken_back(policy, request, less, placements, view)
    if off.lacks and (_is_idle(off, held, settings) or before is not None):
        return Refuse(_no_help(policy, off, held))
    step = 1 if view.capabilities.fractional_cpu else MILLICPUS_PER_CPU
    if not off.lacks and held.cpu_millicpus == step:
        return None  # There is no less.
    # How much of it is idle is no point on its curve.
    sized = wanted if wanted and not off.idle else partial(by_proportion, settings=settings)
    size = sized(held, off)
    size = _bounded(size, held, off, settings)
    # A latency says nothing of what is left when CPU is taken that is used.
    if not off.lacks and target is not None and target.latency:
        has_quota = view.capabilities.quota_period_seconds > 0
        kept = max(settings.margin, settings.bursts) if has_quota else settings.margin
        used = round(_used_millicpus(off) * kept)
        size = min(held.cpu_millicpus, max(size, used))
    size = -(-size // step) * step
    room = room_for(request, placements[0], view) // step * step
    size = min(size, held.cpu_millicpus + max(0, room))
    if abs(size - held.cpu_millicpus) >= settings.min_step * held.cpu_millicpus:
        need = replace(held, cpu_millicpus=size)
        why = _why(off, held, need)
        return change_in_place(policy, request, need, placements, view, why)
    if not off.lacks:
        return None
    # What is missing is less than is worth a change, or no room is left for one step more.
    more = replace(held, cpu_millicpus=-(-_step_up(held, settings) // step) * step)
    verdict = change_in_place(policy, request, more, placements, view, "")
    return verdict if isinstance(verdict, Refuse) else None


def follow_on_several(
    policy: str,
    request: Request,
    placements: tuple[Placement, ...],
    view: View,
    settings: ResizeSettings,
    parts: Callable[[], list[TargetPart]],
) -> Place | Refuse | None:
    """More or less CPU in proportion on each of several servers, as far as each has room.

    A service that needs less leaves its worst server, where that may be. ``parts`` are how it does
    by CPU.
    """
    off = request.off_target
    if off is None or request.workload.best_effort:
        return None
    before, unused_from = cpu_of(placements), off.unused_from
    whole = Allocation(before, placements[0].allocation.memory_bytes)
    less_used = None if unused_from is None or unused_from >= before else unused_from
    able = bool(view.capabilities.resize)
    if off.lacks and (_is_idle(off, whole, settings) or unused_from is not None):
        faster = _without_slow(request, placements, view, settings)
        if faster is not None:
            return Place(faster, _left_slow(policy, off, placements, faster))
        if less_used is None:
            return Refuse(_no_help(policy, off, whole))
    size = _bounded(by_proportion(whole, off, settings), whole, off, settings)
    target = request.workload.target
    if less_used is not None:
        size = less_used
    elif not off.lacks and target is not None and target.latency:
        size = min(before, max(size, round(_used_millicpus(off) * settings.bursts)))
    step = 1 if view.capabilities.fractional_cpu else MILLICPUS_PER_CPU
    fewer = _without_worst(request, placements, size, view, step, settings, parts)
    after = fewer or tuple(
        _in_proportion(request, one, size / before, view, step) for one in placements
    )
    given = cpu_of(after)
    if abs(given - before) < settings.min_step * before:
        return None if less_used is None else Refuse(_no_help(policy, off, whole))
    less = replace(whole, cpu_millicpus=given)
    why, how = _why(off, whole, less), "together"
    if less_used is not None:
        why = f"{_unused(whole, less)}: at {off.normalized:.0%} of its target it does worse with it"
    if fewer is not None:
        (left,) = {p.server for p in placements} - {p.server for p in fewer}
        how = f"without {left}, where it does least for its CPU"
    decision = Decision(
        Stage.ADAPTATION,
        policy,
        accepted=able,
        reason=_reason(able=able, taken_back=less_used is not None),
        message=f"{why}, on {len(after)} servers {how}" if able else CANT_RESIZE,
        would_change="" if able else INSTEAD_OF_RESIZE,
        considered=len(after),
        numbers={"cpu_needed_millicpus": float(given), "pace": off.normalized},
    )
    return Place(after, decision) if able else Refuse(decision)


def _without_worst(
    request: Request,
    placements: tuple[Placement, ...],
    size: int,
    view: View,
    step: int,
    settings: ResizeSettings,
    parts: Callable[[], list[TargetPart]],
) -> tuple[Placement, ...] | None:
    """A service's other servers, with about ``size`` CPU, without the worst that it can leave.

    What is left must hold its load. With the room that they have, the others must do as much as all
    do now: a load that comes back is met in place, without a start. ``None`` = it leaves none.
    """
    off = request.off_target
    if off is None or off.lacks or off.for_neighbor or not _may_leave(request, view):
        return None
    does = _performance(request, placements, view, parts())
    for worst in _worst_first(request, placements, view, does):
        others = placements[:worst] + placements[worst + 1 :]
        left = cpu_of(others)
        if left < size:
            continue
        grown = tuple(_with_room(request, each, view) for each in others)
        if sum(_performance(request, grown, view, parts())) < sum(does):
            continue
        less = tuple(_in_proportion(request, one, size / left, view, step) for one in others)
        for after in (less, others):
            share = sum(_performance(request, after, view, parts())) / sum(does)
            if off.normalized * share >= settings.margin:
                return after
    return None


def _without_slow(
    request: Request, placements: tuple[Placement, ...], view: View, settings: ResizeSettings
) -> tuple[Placement, ...] | None:
    """A service's other servers, where these can take the load of those that slow it.

    A balancer gives each server load in proportion to what it holds: without the slow ones each of
    the others is busier in proportion to its CPU. ``None`` = it leaves none.
    """
    off = request.off_target
    if off is None or not off.busy or request.workload.scale.spread is not None:
        return None
    if not _may_leave(request, view):
        return None
    slow = busier(off.busy)
    rest = tuple(placed for placed in placements if placed.server not in slow)
    grows = cpu_of(placements) / max(1, cpu_of(rest))
    if not slow or grows * max(off.busy[each.server] for each in rest) >= settings.busy:
        return None
    return rest


def _left_slow(
    policy: str, off: OffTarget, before: tuple[Placement, ...], after: tuple[Placement, ...]
) -> Decision:
    left = [each.server for each in before if each not in after]
    few = " and ".join(left) if len(left) <= 2 else f"{len(left)} servers"
    cpu, before_cpu = cpu_of(after), cpu_of(before)
    return Decision(
        Stage.ADAPTATION,
        policy,
        accepted=True,
        reason=ReasonCode.OK,
        message=(
            f"at {off.normalized:.0%} of its target with idle CPU it leaves {few}, where it is "
            f"slower: {cpu_number(cpu)} of {cpu_number(before_cpu)} CPU on {len(after)} "
            f"server{'s' * (len(after) > 1)} hold its load"
        ),
        considered=len(before),
        numbers={"cpu_needed_millicpus": float(cpu), "pace": off.normalized},
    )


def _may_leave(request: Request, view: View) -> bool:
    """Whether a service may leave one of its servers at all."""
    scale = request.workload.scale
    if scale.gang or scale.stateful:
        return False
    is_service = request.workload.type is WorkloadType.LATENCY_CRITICAL
    return is_service and view.capabilities.resize is Resize.ANY


def _with_room(request: Request, placement: Placement, view: View) -> Placement:
    held = placement.allocation
    cpu = held.cpu_millicpus + max(0, room_for(request, placement, view))
    return replace(placement, allocation=replace(held, cpu_millicpus=cpu))


def _performance(
    request: Request, placements: tuple[Placement, ...], view: View, parts: list[TargetPart]
) -> list[float]:
    """What it does on each server, beside its neighbors there."""
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


def _worst_first(
    request: Request, placements: tuple[Placement, ...], view: View, does: list[float]
) -> list[int]:
    """From where it does least for its CPU, in the zones that have most of it; the newest first."""
    candidates = list(range(len(placements)))
    if (zone := zones_of(request, view)) is not None:
        here = zone[[view.row(each.server) for each in placements]].tolist()
        counts = [here.count(each) if each else 1 for each in here]
        candidates = [at for at in candidates if counts[at] == max(counts)]
    by_cpu = [
        round(each / max(1, placement.allocation.cpu_millicpus), 9)
        for each, placement in zip(does, placements, strict=True)
    ]
    return sorted(candidates, key=lambda at: (by_cpu[at], -at))


def _in_proportion(
    request: Request, placement: Placement, share: float, view: View, step: int
) -> Placement:
    held = placement.allocation
    room = max(0, room_for(request, placement, view)) // step * step
    wanted = -(-round(held.cpu_millicpus * share) // step) * step
    cpu = max(step, min(wanted, held.cpu_millicpus + room))
    return replace(placement, allocation=replace(held, cpu_millicpus=cpu))


def follow_memory(
    policy: str, request: Request, placements: tuple[Placement, ...], view: View
) -> Place | Refuse | None:
    """The changed reservation of one whose CPU follows its target: that of memory only."""
    if len(placements) != 1 or request.workload.best_effort:
        return None
    held, wanted = placements[0].allocation, request.reserved(view.capabilities)
    # What was not stated follows what is measured.
    elastic = request.workload.reservation.elastic_memory
    if elastic or held.memory_bytes == wanted.memory_bytes:
        return None
    need = replace(held, memory_bytes=wanted.memory_bytes)
    before, after = memory_number(held.memory_bytes), memory_number(need.memory_bytes)
    why = f"its memory was changed from {before} to {after}; its CPU follows its target"
    return change_in_place(policy, request, need, placements, view, why)


def _bounded(size: int, held: Allocation, off: OffTarget, settings: ResizeSettings) -> int:
    """Within a step's bounds, and in the direction in which the workload is off its target."""
    least, most = held.cpu_millicpus / settings.max_cut, held.cpu_millicpus * settings.max_growth
    size = max(settings.min_millicpus, round(min(most, max(least, size))))
    if not off.lacks:
        return min(held.cpu_millicpus, size)
    return max(size, _step_up(held, settings))


def _step_up(held: Allocation, settings: ResizeSettings) -> int:
    """The least that is worth adding to an allocation, added."""
    return round(held.cpu_millicpus * (1 + settings.min_step)) + 1


def _is_idle(off: OffTarget, held: Allocation, settings: ResizeSettings) -> bool:
    """Whether more CPU would not help; one that is throttled lacks it in bursts."""
    if off.throttled is not None or off.offered_per_second is not None:
        return False
    is_measured = off.cpu_seconds_per_second is not None
    return is_measured and _used_millicpus(off) < settings.busy * held.cpu_millicpus


def _used_millicpus(off: OffTarget) -> int:
    return round((off.cpu_seconds_per_second or 0.0) * MILLICPUS_PER_CPU)


def _why(off: OffTarget, held: Allocation, need: Allocation) -> str:
    before, after = cpu_number(held.cpu_millicpus), cpu_number(need.cpu_millicpus)
    if off.throttled is not None:
        return (
            f"raised from {before} to {after} CPU: its quota did not last in {off.throttled:.0%} "
            f"of the periods, at {off.normalized:.0%} of its target"
        )
    if off.offered_per_second is not None:
        holds = f"{off.normalized * off.offered_per_second:.3g}/s at its bound"
        return f"raised from {before} to {after} CPU: {off.asked}, and it holds {holds}"
    done, how = "raised", f"it ran at {off.normalized:.0%} of its target"
    if off.idle:
        used = cpu_number(_used_millicpus(off))
        return f"reduced from {before} to {after} CPU: it uses {used}, and more would not help it"
    if off.normalized > 1:
        done = "reduced"
        if off.estimated:
            how = f"its target needed {'far ' if off.normalized > _FAR else ''}less than it had"
    return f"{done} from {before} to {after} CPU: for {off.for_seconds:.0f} s {how}"


def _taken_back(
    policy: str,
    request: Request,
    need: Allocation,
    placements: tuple[Placement, ...],
    view: View,
) -> Place | Refuse:
    """What it does not use of a larger allocation, for others."""
    why = _unused(placements[0].allocation, need)
    verdict = change_in_place(policy, request, need, placements, view, why)
    if isinstance(verdict, Refuse):
        return verdict
    return replace(verdict, decision=replace(verdict.decision, reason=ReasonCode.WOULD_NOT_HELP))


def _reason(*, able: bool, taken_back: bool) -> ReasonCode:
    if not able:
        return ReasonCode.NOT_SUPPORTED
    return ReasonCode.WOULD_NOT_HELP if taken_back else ReasonCode.OK


def _unused(before: Allocation, after: Allocation) -> str:
    more, less = cpu_number(before.cpu_millicpus), cpu_number(after.cpu_millicpus)
    return f"reduced from {more} to {less} CPU: it uses hardly more, and more would not help"


def _no_help(policy: str, off: OffTarget, held: Allocation) -> Decision:
    used = _used_millicpus(off)
    why = f"only {cpu_number(used)} of {cpu_number(held.cpu_millicpus)} CPU is used"
    if off.unused_from is not None:
        why = f"it used no more than {cpu_number(used)} CPU when it had more"
    return Decision(
        Stage.ADAPTATION,
        policy,
        accepted=False,
        reason=ReasonCode.WOULD_NOT_HELP,
        message=(
            f"not resized: at {off.normalized:.0%} of target, but {why}; more CPU would not help"
        ),
        would_change="more load, or less waiting for something else than CPU",
        numbers={"pace": off.normalized, "cpu_used_millicpus": float(used)},
    )


class Feedback(LeastLoaded):
    """Places as least-loaded does; CPU follows each target, in proportion.

    The part of Quasar's adaptation (4.1) that needs no classification: the baseline for policies
    with predictions.
    """

    name = "feedback"
    follows_targets = True

    def __init__(self, settings: ResizeSettings | None = None) -> None:
        self.settings: ResizeSettings = settings or ResizeSettings()

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """More where the target is missed, less where there is more than enough."""
        if request.workload.target is None or request.lost:
            return super().resize(request, placements, view)
        if request.off_target is None:
            return follow_memory(self.name, request, placements, view)
        return follow_target(self.name, request, placements, view, self.settings)


# --- along the classified curve (Quasar 4.1) --------------------------------------------


def after_resize(
    parts: list[TargetPart],
    before: Allocation,
    after: Allocation,
    off: OffTarget,
    confidence: float,
) -> Prediction:
    """How it should do with another allocation: from its present performance, along the curve.

    In the target's own terms only where it has one part, and states no completion.
    """
    now = normalized_with(parts, before.cpu_millicpus, MEDIAN).mean
    then = normalized_with(parts, after.cpu_millicpus, MEDIAN)
    level = max(off.normalized, 1e-9) / now
    predicted = prediction(Estimate(then.mean * level, then.std), confidence)
    if len(parts) > 1 or parts[0].work is not None:
        return predicted
    terms = performance_with(parts, after.cpu_millicpus, -log(level), 0.0, confidence)
    return replace(predicted, performance=terms)


def expected(
    parts: list[TargetPart], cpu_millicpus: int, slowdown: Estimate | None, confidence: float
) -> Prediction:
    """How it should do with so much CPU, by its curves; ``slowdown`` is what neighbors leave."""
    drop, variance = (-log(slowdown.mean), slowdown.std**2) if slowdown else (0.0, 0.0)
    normalized = normalized_with(parts, cpu_millicpus, confidence)
    predicted = prediction(worse_by(normalized, drop, variance), confidence)
    terms = performance_with(parts, cpu_millicpus, drop, variance, confidence)
    return replace(predicted, performance=terms, cpu_millicpus=cpu_millicpus)


def along_curve(
    parts: list[TargetPart],
    held: Allocation,
    off: OffTarget,
    view: View,
    margin: float,
    settings: SizingSettings,
    confidence: float = MEDIAN,
) -> int | None:
    """The least CPU with which the present performance becomes ``margin`` times the target.

    With the confidence, as far as the curve is less sure there than where it is.

    ``None`` where the curve says that no CPU would do: then it may be the curve that is wrong.
    """
    if not parts or held.cpu_millicpus <= 0:
        return None
    here = normalized_with(parts, held.cpu_millicpus, MEDIAN)
    now, z = log(here.mean), quantile(confidence)
    fractional = view.capabilities.fractional_cpu
    grid = sizes(int(view.cpu_capacity.max()), fractional=fractional, settings=settings)
    allocations = grid.tolist()
    means, stds = normalized_over(parts, allocations, MEDIAN)
    for cpu, mean, std in zip(allocations, means, stds, strict=True):
        doubt = sqrt(max(std**2 - here.std**2, 0.0)) if z else 0.0
        change = log(mean) - now - z * doubt
        if log(max(off.normalized, 1e-9)) + change >= log(margin):
            return int(cpu) if (cpu > held.cpu_millicpus) == off.lacks else None
    return None
