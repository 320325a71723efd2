"""How much memory a program is given that no user stated: by what its runs were seen to use.

The fold calls ``see_peak`` and ``see_kill`` for what copies and runs have told, by program and not
by workload, so that later runs of any name begin with it; ``sized`` is what placements are asked.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from wharfinger.core.settings import settings_in
from wharfinger.core.state import ManagerState
from wharfinger.model.decisions import Decision, Place
from wharfinger.model.memo import by_identity
from wharfinger.model.memory_needs import MemoryNeed, MemorySource
from wharfinger.model.units import memory_number
from wharfinger.model.view import Request, View
from wharfinger.model.workload import Workload, WorkloadType

PROGRAMS_KEPT = 1024
_MIB = 2**20


def need_of(workload: Workload, needs: Mapping[str, MemoryNeed]) -> MemoryNeed | None:
    """What is known of its program; ``None`` = nothing, or its user states its memory."""
    if not needs or not workload.reservation.elastic_memory:
        return None
    return needs.get(_program(workload))


def sized(workload: Workload, need: MemoryNeed | None) -> Workload:
    """The workload; what it reserves of memory is by what its program was seen to use.

    A service gets no less than it begins with: its data grow.
    """
    if need is None:
        return workload
    reservation, needed = workload.reservation, need.needed_bytes
    if workload.type is WorkloadType.LATENCY_CRITICAL:
        needed = max(needed, reservation.memory_bytes)
    return replace(workload, reservation=replace(reservation, memory_bytes=needed))


def see_peak(
    state: ManagerState,
    workload: Workload,
    peak_bytes: int | None,
    source: MemorySource,
    enough_bytes: int | None = None,
) -> None:
    """Its copies, or a run that ended well, used so much; with ``enough_bytes`` it had enough.

    A peak may have page cache in it, so no more is taken than was enough. What a kill has doubled
    goes back to a peak once a run ends well that had more; else the largest need stays.
    """
    if not peak_bytes or not workload.reservation.elastic_memory:
        return
    known = state.memory_needs.get(_program(workload))
    settles = False
    if known is not None and known.source is MemorySource.KILLED:
        settles = enough_bytes is not None and enough_bytes > known.peak_bytes
        peak_bytes = max(peak_bytes, known.peak_bytes) if settles else peak_bytes
    settings, largest = settings_in(state), max(_largest(state), peak_bytes)
    margin_bytes = max(
        round(peak_bytes * (settings.memory_margin - 1)), settings.min_memory_margin_bytes
    )
    needed = min(peak_bytes + margin_bytes, largest, enough_bytes or largest)
    if known is None or settles or needed > known.needed_bytes:
        kills = known.kills if known is not None else 0
        _keep(state, workload, MemoryNeed(peak_bytes, _whole(needed, largest), source, kills))


def see_kill(state: ManagerState, workload: Workload, limit_bytes: int) -> None:
    """A run or copy of it ran out of so much memory: the next gets twice as much, if there is."""
    state.out_of_memory_kills += 1
    if not workload.reservation.elastic_memory:
        return
    known = state.memory_needs.get(_program(workload))
    needed = max(known.needed_bytes if known else 0, min(2 * limit_bytes, _largest(state)))
    peak = max(limit_bytes, known.peak_bytes if known else 0)
    kills = 1 + (known.kills if known else 0)
    _keep(state, workload, MemoryNeed(peak, needed, MemorySource.KILLED, kills))


def told_of_memory(place: Place, request: Request) -> Place:
    """The placement, whose record tells where its memory comes from, if no user stated it."""
    if not request.workload.reservation.elastic_memory:
        return place
    given, need = place.placements[0].allocation.memory_bytes, request.memory
    why = "nothing is measured yet, it follows its use" if need is None else need.why
    return replace(place, decision=_told(place.decision, given, why, need))


def _told(decision: Decision, given_bytes: int, why: str, need: MemoryNeed | None) -> Decision:
    numbers = {} if need is None else {"memory_peak_bytes": float(need.peak_bytes)}
    message = f"{decision.message}; {memory_number(given_bytes)} memory: {why}"
    return replace(decision, message=message, numbers={**decision.numbers, **numbers})


def _keep(state: ManagerState, workload: Workload, need: MemoryNeed) -> None:
    needs, program = state.memory_needs, _program(workload)
    needs.pop(program, None)
    needs[program] = need
    if len(needs) > PROGRAMS_KEPT:
        del needs[next(iter(needs))]


def _whole(needed_bytes: int, largest_bytes: int) -> int:
    """In whole MiB, but no more than there is."""
    return min(-(-needed_bytes // _MIB) * _MIB, max(largest_bytes, needed_bytes))


def _largest(state: ManagerState) -> int:
    """Of one server; 0 = there is none."""
    return max((server.memory_bytes for server in state.servers.values()), default=0)


@by_identity(maxsize=4096)
def _program(workload: Workload) -> str:
    """What its program is known by: a digest, since an environment may hold secrets."""
    run = workload.run
    told = (run.command, sorted(run.env.items()), run.working_directory, run.user)
    return sha256(repr(told).encode()).hexdigest()[:32]


def exceeds_all(request: Request, view: View) -> bool:
    """Whether there are servers, and none that it may go to has its memory even when empty."""
    capacities = view.memory_capacity
    if request.allowed is not None:
        capacities = capacities * request.allowed
    wanted = request.workload.reservation.memory_bytes
    return len(capacities) > 0 and bool(capacities.max() < wanted)
