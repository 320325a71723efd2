"""What would be decided of a workload now, and what else it could be given; decides nothing.

Called by the service for a dry run. Any placement can be asked: it is asked again without what it
has answered so far, so that nothing here knows how it chooses.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.core.pipeline import Core
from wharfinger.core.pools import only, place_within
from wharfinger.core.seams import verdicts
from wharfinger.core.seams.verdicts import PlacementVerdict
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Decision, Place, ReasonCode
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.view import Request, View
from wharfinger.model.workload import OnMiss, Workload

NEW = -1
"""As the ``uid`` of a record outside the state."""
MAX_ASKED = 24
"""So often the placement is asked at most."""
Asked = Callable[[Request], PlacementVerdict]
Kind = tuple[tuple[int, int], ...]
"""Platform and thousandths of a CPU on each server: allocations of one kind are alike."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would be decided now, as if it were the workload's turn.

    Attributes:
        chosen: ``None`` = it would not be placed now.
        decision: Why so.
        others: Other allocations that the placement would choose next, each of another kind or on
            other servers; where it is refused for its target, those that come nearest.
    """

    chosen: Place | None
    decision: Decision
    others: tuple[Place, ...] = ()


def measurements_like(core: Core, workload: Workload, now: float) -> tuple[Measurements, str]:
    """What is measured of its program, and how that is known; empty = nothing is."""
    like, why = core.measured_as(_record(core, workload, now))
    if like is None or like.measurements is None:
        return Measurements(), ""
    return like.measurements, why


def outlook(
    core: Core, workload: Workload, now: float, classified: Classification | None
) -> Outlook | None:
    """What its policy would decide with this classification; ``None`` = it has its place."""
    record = _record(core, workload, now)
    if record.on_server:
        return None
    record = replace(record, classification=classified)
    request, view = core.request(record, now), core.admission_view(now)
    queue = core.policy.admission.queues[0]
    match core.policy.admission.enqueue(request, view):
        case verdicts.Admit(queue=named):
            queue = named or queue
        case refused if refused.decision is not None:
            return Outlook(None, refused.decision)
    allowed = core.policy.admission.servers(request, queue, view)
    cluster = (
        view.cluster
        if request.allowed is None
        else only(view.cluster, request.allowed.astype(np.bool_))
    )

    def ask(asked: Request) -> PlacementVerdict:
        return place_within(core.policy.placement, asked, cluster, allowed)

    chosen = ask(request)
    if isinstance(chosen, Place):
        return Outlook(chosen, chosen.decision, tuple(_others(ask, request, chosen, cluster)))
    if chosen.decision.reason is not ReasonCode.WILL_MISS:
        return Outlook(None, chosen.decision)
    tried = replace(request, workload=replace(request.workload, on_miss=OnMiss.RUN))
    nearest = ask(tried)
    if not isinstance(nearest, Place):
        return Outlook(None, chosen.decision)
    others = nearest, *_others(ask, tried, nearest, cluster)
    return Outlook(None, chosen.decision, others)


def _record(core: Core, workload: Workload, now: float) -> WorkloadRecord:
    """Its own as it is, or a new one outside the state."""
    existing = core.state.workloads.get(workload.name)
    if existing is None or existing.ended or existing.revoking:
        return WorkloadRecord(workload, uid=NEW, submitted_at=now)
    return replace(existing, workload=workload)


def _others(ask: Asked, request: Request, chosen: Place, view: View) -> Iterator[Place]:
    """Elsewhere, then on fewer servers; of a kind that is known, no more than one other."""
    left, told = MAX_ASKED, {_rows(chosen, view)}
    for servers in _counts(request, chosen):
        scale = replace(request.workload.scale, max_servers=servers)
        narrowed = replace(request, workload=replace(request.workload, scale=scale))
        kinds: set[Kind] = set()
        while left > 0 and isinstance(answer := ask(narrowed), Place):
            left -= 1
            rows, kind = _rows(answer, view), _kind(answer, view)
            if rows not in told:
                told.add(rows)
                yield answer
            without = {row for row, _ in rows}
            if kind in kinds:  # There may be many more like it: go on with other platforms.
                alike = np.isin(view.platform, [platform for platform, _ in kind])
                without.update(np.flatnonzero(alike).tolist())
            kinds.add(kind)
            narrowed = replace(narrowed, excluded=narrowed.excluded | without)


def _counts(request: Request, chosen: Place) -> list[int]:
    """Of servers at most: as stated, one fewer than chosen, and one."""
    counts = (request.workload.scale.max_servers, len(chosen.placements) - 1, 1)
    return sorted({count for count in counts if count > 0}, reverse=True)


def _rows(answer: Place, view: View) -> frozenset[tuple[int, int]]:
    placed = answer.placements
    return frozenset((view.row(p.server), p.allocation.cpu_millicpus) for p in placed)


def _kind(answer: Place, view: View) -> Kind:
    return tuple(sorted((int(view.platform[row]), cpu) for row, cpu in _rows(answer, view)))
