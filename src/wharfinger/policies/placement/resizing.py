"""CPU that follows a target while the workload runs: what all policies that follow a target share.

A policy gives ``follow_target`` a function that says what is wanted; here are the bounds (a step
at most quadruples or halves, what is used is not taken from a service), the room on the server,
and the reasons not to.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Plan, ReasonCode, Refusal, Stage
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.view import ClusterView, OffTarget, PlacementRequest
from wharfinger.policies.placement.common import change_in_place, resize_in_place


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
    """

    margin: float = 1.1
    max_growth: float = 4.0
    max_cut: float = 2.0
    min_step: float = 0.05
    min_millicpus: int = 50
    busy: float = 0.7


DEFAULT = ResizeSettings()
BUSY = DEFAULT.busy

Wanted = Callable[[Allocation, OffTarget], int]
"""From what is held and how far off the target is: thousandths of a CPU."""


def by_proportion(held: Allocation, off: OffTarget, settings: ResizeSettings = DEFAULT) -> int:
    """CPU in proportion to what is missing or spare, as vertical autoscalers do it."""
    return round(held.cpu_millicpus * settings.margin / max(off.pace, 1e-9))


def room_on(server: str, view: ClusterView) -> int:
    """Thousandths of a CPU that are not allocated there; below 0 = more than there is."""
    row = view.row(server)
    return int(view.cpu_capacity[row] - view.cpu_allocated[row])


def lacking(
    placement: Placement, off: OffTarget, view: ClusterView, settings: ResizeSettings = DEFAULT
) -> int:
    """By how much the server's room falls short of what a missed target asks for."""
    held = placement.allocation
    if off.pace >= 1 or _is_idle(off, held, settings):
        return 0
    largest = round(held.cpu_millicpus * settings.max_growth)
    wanted = min(by_proportion(held, off, settings), largest)
    return max(0, wanted - held.cpu_millicpus - room_on(placement.server, view))


def follow_target(
    policy: str,
    request: PlacementRequest,
    placements: tuple[Placement, ...],
    view: ClusterView,
    wanted: Wanted = by_proportion,
    settings: ResizeSettings = DEFAULT,
) -> Plan | Refusal | None:
    """More where the target is missed, less where there is more than enough."""
    if request.workload.target is None:
        return resize_in_place(policy, request, placements, view)
    off = request.off_target
    if off is None or len(placements) != 1 or request.workload.best_effort:
        return None
    held = placements[0].allocation
    if off.pace < 1 and _is_idle(off, held, settings):
        return Refusal(_no_help(policy, off, held))
    # A latency says nothing of what is left when CPU is taken that is used.
    kept = _used_millicpus(off) if request.workload.target.latency else 0
    need = _sized(held, off, view, placements[0].server, kept, wanted, settings)
    if abs(need.cpu_millicpus - held.cpu_millicpus) < settings.min_step * held.cpu_millicpus:
        # What is missing is less than is worth a change, or no room is left for more.
        return None if off.pace > 1 else _asked(policy, held, placements, view, settings)
    return change_in_place(policy, need, placements, view, _why(off, held, need))


def _sized(
    held: Allocation,
    off: OffTarget,
    view: ClusterView,
    server: str,
    kept_millicpus: int,
    wanted: Wanted,
    settings: ResizeSettings,
) -> Allocation:
    """What is wanted, within a step's bounds and as far as the server has it."""
    least, most = held.cpu_millicpus / settings.max_cut, held.cpu_millicpus * settings.max_growth
    size = max(settings.min_millicpus, round(min(most, max(least, wanted(held, off)))))
    if off.pace > 1:
        size = min(held.cpu_millicpus, max(size, round(kept_millicpus * settings.margin)))
    else:
        size = max(size, _step_up(held, settings, fractional=True))
    if not view.capabilities.fractional_cpu:
        size = -(-size // MILLICPUS_PER_CPU) * MILLICPUS_PER_CPU
    room = room_on(server, view)
    if not view.capabilities.fractional_cpu:
        room = room // MILLICPUS_PER_CPU * MILLICPUS_PER_CPU
    return replace(held, cpu_millicpus=min(size, held.cpu_millicpus + max(0, room)))


def _asked(
    policy: str,
    held: Allocation,
    placements: tuple[Placement, ...],
    view: ClusterView,
    settings: ResizeSettings,
) -> Plan | Refusal | None:
    """The refusal for one more step than there is room for."""
    step = _step_up(held, settings, fractional=view.capabilities.fractional_cpu)
    more = replace(held, cpu_millicpus=step)
    verdict = change_in_place(policy, more, placements, view, "")
    return verdict if isinstance(verdict, Refusal) else None


def _step_up(held: Allocation, settings: ResizeSettings, *, fractional: bool) -> int:
    """The least that is worth adding to an allocation, added."""
    step = 1 if fractional else MILLICPUS_PER_CPU
    size = round(held.cpu_millicpus * (1 + settings.min_step)) + 1
    return -(-size // step) * step


def _is_idle(off: OffTarget, held: Allocation, settings: ResizeSettings) -> bool:
    known = off.cpu_seconds_per_second is not None
    return known and _used_millicpus(off) < settings.busy * held.cpu_millicpus


def _used_millicpus(off: OffTarget) -> int:
    return round((off.cpu_seconds_per_second or 0.0) * MILLICPUS_PER_CPU)


def _why(off: OffTarget, held: Allocation, need: Allocation) -> str:
    kept = "kept" if off.pace > 1 else "missed"
    at = f"with CPU for {off.pace:.0%} of it" if off.estimated else f"at {off.pace:.0%}"
    return (
        f"target {kept} {at} for {off.for_seconds:.0f} s: "
        f"{held.cpu_millicpus}m CPU become {need.cpu_millicpus}m"
    )


def _no_help(policy: str, off: OffTarget, held: Allocation) -> Decision:
    used = _used_millicpus(off)
    return Decision(
        Stage.ADAPTATION,
        policy,
        accepted=False,
        reason=ReasonCode.WOULD_NOT_HELP,
        message=(
            f"not resized: at {off.pace:.0%} of target, but only {used}m of "
            f"{held.cpu_millicpus}m CPU is used; more CPU would not help"
        ),
        would_change="more load, or less waiting for something else than CPU",
        numbers={"pace": off.pace, "cpu_used_millicpus": float(used)},
    )
