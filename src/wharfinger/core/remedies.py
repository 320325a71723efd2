"""What an adaptation's remedies are in the log; the pipeline logs them as they come."""

from wharfinger.core import events as ev
from wharfinger.core.own_decisions import refused
from wharfinger.core.pools import keeps_scale, scale_not_kept
from wharfinger.core.seams.adaptation import (
    Migrate,
    PreemptFor,
    RaiseSources,
    Reallocate,
    Reclassify,
    Remedy,
    Resume,
    Suspend,
    Unchanged,
)
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.model.allocation import Allocation, ceiling_of
from wharfinger.model.decisions import RECOMMENDS, ReasonCode, recommended
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.view import Request, Resize
from wharfinger.model.workload import Adapt


def event_of(
    remedy: Remedy, state: ManagerState, placement: PlacementPolicy, *, recommends: bool
) -> ev.Event | None:
    """The event that carries a remedy out; ``None`` = it is known already, or not to be done.

    Of a core that only recommends it is a recommendation, and so where a manifest says it. What the
    engine can't do with the workload is not done, whatever a policy plans.
    """
    if isinstance(remedy, Reallocate | Migrate):
        remedy = _as_stated(remedy, state.workloads[remedy.name], placement)
    if why := _unsupported(remedy, state):
        refusal = refused(remedy.decision, ReasonCode.NOT_SUPPORTED, why, "starting it again")
        remedy = Unchanged(_done_for(remedy) or remedy.name, refusal)
    match _as_allowed(remedy, state, recommends=recommends):
        case None:
            return None
        case Reallocate(name, placements, decision, throttled_for):
            return ev.AllocationPlanned(name, placements, decision, throttled_for)
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
        case PreemptFor(name, preempted_for, until, decision):
            return ev.WorkloadPreempted(name, preempted_for, decision, until)
        case Reclassify(name, measurements, decision):
            return ev.ReclassificationPlanned(name, decision, measurements)
        case RaiseSources(name, sources, tolerance, cause, decision, placements):
            return ev.ProbePlanned(name, decision, cause, sources, tolerance, placements)


def _as_allowed(remedy: Remedy, state: ManagerState, *, recommends: bool) -> Remedy | None:
    """The remedy; or only what would be done, or nothing, where that is all that is allowed."""
    if isinstance(remedy, Unchanged | Reclassify):
        return remedy
    adapt = _allowed(remedy, state)
    if adapt is Adapt.OFF:
        return None
    if not recommends and adapt is not Adapt.RECOMMEND:
        return remedy
    name = _done_for(remedy) or remedy.name
    mend = RECOMMENDS if recommends else f"adapt: {Adapt.AUTO} in its manifest"
    return Unchanged(name, recommended(remedy.decision, mend))


def _as_stated(
    remedy: Reallocate | Migrate, record: WorkloadRecord, placement: PlacementPolicy
) -> Remedy:
    """The remedy, unless what the workload states of several servers would not hold with it."""
    scale, count = record.workload.scale, len(remedy.placements)
    if count <= len(record.placements) or keeps_scale(placement, scale, count):
        return remedy
    return Unchanged(remedy.name, scale_not_kept(remedy.decision, placement, scale))


def _unsupported(remedy: Remedy, state: ManagerState) -> str:
    """Why the engine can't do that with the workload; empty = it can."""
    record = state.workloads[remedy.name]
    able = state.capabilities.within(record.limits)
    if isinstance(remedy, Suspend):
        return "" if able.suspend else "the engine can't suspend it"
    if not isinstance(remedy, Reallocate):
        return ""
    held = {placement.server: placement for placement in record.placements}
    if able.resize is Resize.NONE:
        return "the engine can't resize a running workload"
    if len(remedy.placements) > max(len(held), able.max_servers_per_workload):
        return f"the engine has it on {able.max_servers_per_workload} servers at most"
    asked = Request(record.workload, granted=record.granted)
    for placement in remedy.placements:
        given, before = placement.allocation, held.get(placement.server)
        most = asked.most_on(before or placement, able)
        if most is not None and (before is None or not _is_within(given, most)):
            return "the engine gives it no more than it started with, and no other servers"
        unchanged = before is not None and before.allocation.cpu_millicpus == given.cpu_millicpus
        if not (able.fractional_cpu or unchanged) and given.cpu_millicpus % MILLICPUS_PER_CPU:
            return "the engine gives whole CPUs only"
    if able.resize is Resize.WITHIN_ALLOCATION and len(remedy.placements) < len(held):
        return "the engine can't take it off a server"
    return ""


def _is_within(given: Allocation, most: Allocation) -> bool:
    return given.cpu_millicpus <= most.cpu_millicpus and given.memory_bytes <= most.memory_bytes


def _allowed(remedy: Remedy, state: ManagerState) -> Adapt:
    """The strictest that those say whom it is about, or for whom it is done."""
    record = state.workloads[remedy.name]
    if isinstance(remedy, Resume) or _raises_ceiling(remedy, record):
        return Adapt.AUTO  # It gets back what it was given.
    if isinstance(remedy, Reallocate) and (
        record.resize_wanted or _is_memory_alone(remedy, record)
    ):
        return Adapt.AUTO  # Its user has changed it; or it would run out of memory.
    stated = {record.workload.adapt}
    if neighbor := _done_for(remedy):
        stated.add(state.workloads[neighbor].workload.adapt)
    return next(each for each in Adapt if each in stated)


def _raises_ceiling(remedy: Remedy, record: WorkloadRecord) -> bool:
    is_throttled = ceiling_of(record.placements) is not None
    return is_throttled and isinstance(remedy, Reallocate) and not remedy.throttled_for


def _done_for(remedy: Remedy) -> str:
    """The neighbor for whose sake one gives way; empty = it is done for its own."""
    match remedy:
        case (
            Suspend(suspended_for=name)
            | PreemptFor(preempted_for=name)
            | Reallocate(throttled_for=name)
        ):
            return name
        case _:
            return ""


def _is_memory_alone(remedy: Reallocate, record: WorkloadRecord) -> bool:
    """Whether it gets more memory, and nothing else changes."""
    before = {placed.server: placed.allocation for placed in record.placements}
    after = {placed.server: placed.allocation for placed in remedy.placements}
    return before.keys() == after.keys() and all(
        held.cpu_millicpus == after[server].cpu_millicpus
        and held.ceiling_millicpus == after[server].ceiling_millicpus
        and held.memory_bytes <= after[server].memory_bytes
        for server, held in before.items()
    )
