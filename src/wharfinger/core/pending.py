"""What the state of a workload asks of the engine, and has not been answered yet."""

from wharfinger.core import actions as act
from wharfinger.core.lifecycle import ENDED, Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.profile import Measurements
from wharfinger.model.view import Capabilities


def pending_actions(record: WorkloadRecord | None, able: Capabilities) -> list[act.Action]:
    """The actions, in the order in which they are to be carried out."""
    if record is None or record.phase in ENDED:
        return []
    if record.revoking or record.phase is Phase.MIGRATING:
        return [act.StopWorkload(record.key, record.workload.run.stop_grace_seconds)]
    match record.phase:
        case Phase.PLACED:
            return [act.StartWorkload(record.key, record.workload, record.placements)]
        case Phase.ADJUSTING:
            return [act.ResizeAllocation(record.key, record.planned)]
        case Phase.SUSPENDED:
            return [act.SuspendWorkload(record.key)]
        case Phase.RUNNING:
            return _while_it_runs(record, able)
        case Phase.PROFILING if record.profiling is not None:
            return [act.ProfileWorkload(record.key, record.workload, record.profiling)]
        case Phase.CLASSIFYING:
            return [_classify(record)]
        case _:
            return []


def _while_it_runs(record: WorkloadRecord, able: Capabilities) -> list[act.Action]:
    actions: list[act.Action] = []
    # Also where that was ineffective, and is not counted: else it would never run again.
    if record.suspensions or record.ineffective_at is not None:
        actions.append(act.ResumeWorkload(record.key))
    if able.measures:
        actions.append(act.MeasureWorkload(record.key, record.workload))
    if record.reclassifying:
        actions.append(_classify(record))
    return actions


def _classify(record: WorkloadRecord) -> act.ClassifyWorkload:
    found = record.measurements or Measurements()
    return act.ClassifyWorkload(record.key, record.workload, found)
