"""What an adaptation's remedies are in the log; the pipeline logs them as they come."""

from wharfinger.core import events as ev
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
from wharfinger.core.state import ManagerState
from wharfinger.model.decisions import recommended


def event_of(remedy: Remedy, state: ManagerState, *, recommends: bool) -> ev.Event | None:
    """The event that carries a remedy out; ``None`` = it is known already.

    Of a core that only recommends it is a recommendation.
    """
    if recommends and not isinstance(remedy, Unchanged | Reclassify):
        name = remedy.suspended_for if isinstance(remedy, Suspend) else remedy.name
        remedy = Unchanged(name, recommended(remedy.decision))
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
