"""When a running workload's allocation is worth another look (Quasar 4.1).

Pure functions of the record: ``World`` follows a workload's course by ``follow`` at each
measurement, ``Manager`` asks ``off_target`` whether to act, and the policy says how much.
Three things keep it calm: a side of the target must be held for a while (longer before
something is given back than before something is added), an adjustment must have had time to
show, and there are so many adjustments a minute and no more.
"""

from wharfinger.manager.state import Course, ManagerState, WorkloadRecord
from wharfinger.model.performance import Quantity, pace
from wharfinger.model.view import OffTarget

MISSED_SECONDS = 10.0
"""How long a target is missed before something is added."""
SPARE_SECONDS = 60.0
"""How long there is more than enough before something is given back."""
SPARE = 1.3
"""Performance over target from which there is more than enough."""
SETTLING_SECONDS = 20.0
"""How long an adjustment has to show, before the next of the same workload."""
ADJUSTMENTS_PER_MINUTE = 30
"""Of all workloads together."""


def follow(record: WorkloadRecord) -> Course | None:
    """The course of a workload after a new measurement; ``None`` where it says nothing."""
    performance, target = record.performance, record.workload.target
    if performance is None or target is None:
        return None
    now_pace = pace(target, performance, record.submitted_at)
    if now_pace is None:
        return None
    side = _side(now_pace, record.workload.tolerance)
    before = record.course
    same = before is not None and before.side == side
    since = before.since if before is not None and same else performance.measured_at
    return Course(now_pace, side, since)


def off_target(record: WorkloadRecord, state: ManagerState, now: float) -> OffTarget | None:
    """Whether a workload has been off its target for long enough to act on, and how far."""
    course, performance = record.course, record.performance
    if course is None or performance is None or course.side == 0:
        return None
    for_seconds = performance.measured_at - course.since
    if for_seconds < (MISSED_SECONDS if course.side < 0 else SPARE_SECONDS):
        return None
    if record.adjusted_at is not None and 0 <= now - record.adjusted_at < SETTLING_SECONDS:
        return None
    if sum(0 <= now - at < 60 for at in state.adjusted_at) >= ADJUSTMENTS_PER_MINUTE:
        return None
    cpu = performance.readings.get(Quantity.CPU)
    return OffTarget(course.pace, for_seconds, cpu.value if cpu else None)


def _side(now_pace: float, tolerance: float) -> int:
    """-1 = missed beyond the tolerance, 1 = more than enough, 0 = as it should be."""
    if now_pace < 1 - tolerance:
        return -1
    return 1 if now_pace > SPARE else 0
