"""What an adaptation's remedies are in the log; the pipeline logs them as they come."""

from wharfinger.core import events as ev
from wharfinger.core.pools import keeps_scale, scale_not_kept
from wharfinger.core.seams.adaptation import (
    Migrate,
    RaiseSources,
    Reclassify,
    Remedy,
    Resize,
    Resume,
    Suspend,
    Unchanged,
)
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.model.decisions import RECOMMENDS, recommended
from wharfinger.model.workload import Adapt


def event_of(
    remedy: Remedy, state: ManagerState, placement: PlacementPolicy, *, recommends: bool
) -> ev.Event | None:
    """The event that carries a remedy out; ``None`` = it is known already, or not to be done.

    Of a core that only recommends it is a recommendation, and so where a manifest says it.
    """
    if isinstance(remedy, Resize | Migrate):
        remedy = _as_stated(remedy, state.workloads[remedy.name], placement)
    if not isinstance(remedy, Unchanged | Reclassify):
        adapt = _allowed(remedy, state)
        if adapt is Adapt.OFF:
            return None
        if recommends or adapt is Adapt.RECOMMEND:
            name = remedy.suspended_for if isinstance(remedy, Suspend) else remedy.name
            mend = RECOMMENDS if recommends else f"adapt: {Adapt.AUTO} in its manifest"
            remedy = Unchanged(name, recommended(remedy.decision, mend))
    match remedy:
        case Resize(name, placements, decision):
            return ev.AllocationPlanned(name, placements, decision)
        case Unchanged(name, decision):
            # Nothing is done; why is logged when that changes, and so is a new prediction.
            is_known = state.workloads[name].deferral is decision.reason
            is_predicted = decision.accepted and decision.predicted is not None
            if is_known and not is_predicted:
                return None
            return ev.AllocationUnchanged(name, decision)
        case Suspend(name, suspended_for, decision):
            return ev.WorkloadSuspended(name, suspended_for, decision)
        case Resume(name, decision, ineffective):
            return ev.WorkloadResumed(name, decision, ineffective)
        case Migrate(name, placements, decision):
            return ev.WorkloadMigrated(name, decision, placements)
        case Reclassify(name, measurements, decision):
            return ev.ReclassificationPlanned(name, decision, measurements)
        case RaiseSources(name, sources, tolerance, cause, decision, placements):
            return ev.ProbePlanned(name, decision, cause, sources, tolerance, placements)


def _as_stated(
    remedy: Resize | Migrate, record: WorkloadRecord, placement: PlacementPolicy
) -> Remedy:
    """The remedy, unless what the workload states of several servers would not hold with it."""
    scale, count = record.workload.scale, len(remedy.placements)
    if count <= len(record.placements) or keeps_scale(placement, scale, count):
        return remedy
    return Unchanged(remedy.name, scale_not_kept(remedy.decision, placement, scale))


def _allowed(remedy: Remedy, state: ManagerState) -> Adapt:
    """The strictest that those say whom it is about, or for whom it is done."""
    record = state.workloads[remedy.name]
    if isinstance(remedy, Resume):
        return Adapt.AUTO  # It gets back what it was given.
    if isinstance(remedy, Resize) and (record.resize_wanted or _is_memory_alone(remedy, record)):
        return Adapt.AUTO  # Its user has changed it; or it would run out of memory.
    stated = {record.workload.adapt}
    if isinstance(remedy, Suspend):
        stated.add(state.workloads[remedy.suspended_for].workload.adapt)
    return next(each for each in Adapt if each in stated)


def _is_memory_alone(remedy: Resize, record: WorkloadRecord) -> bool:
    """Whether it gets more memory, and nothing else changes."""
    before = {placed.server: placed.allocation for placed in record.placements}
    after = {placed.server: placed.allocation for placed in remedy.placements}
    return before.keys() == after.keys() and all(
        held.cpu_millicpus == after[server].cpu_millicpus
        and held.memory_bytes <= after[server].memory_bytes
        for server, held in before.items()
    )
