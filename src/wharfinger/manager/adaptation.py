"""When a running workload is worth another look, and which way out comes next (Quasar 4.1).

Pure functions of the records: the fold follows a workload's course by ``follow`` at each
measurement and keeps what was observed under each allocation; ``Manager`` asks ``off_target``
whether to act, and takes the next step of the ladder: more CPU where it is (the policy says how
much), then best-effort neighbours give way, then it is moved if it may be restarted. Three things
keep it calm: a side of the target must be held for a while (longer before something is given back
than before something is added), an adjustment must have had time to show, and there are so many
adjustments a minute and no more.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import log

from wharfinger.manager.lifecycle import Phase
from wharfinger.manager.state import Course, ManagerState, WorkloadRecord
from wharfinger.model.allocation import Placement
from wharfinger.model.performance import Quantity, pace
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.view import ClusterView, OffTarget
from wharfinger.model.workload import ProfileMode

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
OFF_PREDICTION_SECONDS = 60.0
"""How long a server takes no new work because of one resident; by then all that can be done is."""
GIVEN_WAY_SECONDS = 30.0
"""How long one that gave way stays suspended at least; twice as long each time, up to the most."""
MOST_GIVEN_WAY_SECONDS = 960.0
SURPRISE = 2.0
"""Standard deviations by which a prediction must fail before it is made anew."""
LEAST_SURPRISE = 0.15
"""And by how much at least, of the logarithm."""
LIVE_STEP = 1.5
"""Times its allocation, for the second one under which a workload is measured while it runs."""
OBSERVED = frozenset({Quantity.RATE, Quantity.THROUGHPUT, Quantity.LATENCY})
OBSERVATION_ERROR = 0.03
"""Relative; what is left of the noise after smoothing."""


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


def observe(record: WorkloadRecord, now: float) -> None:
    """Keep how it does under its present allocation, once that has had time to show."""
    performance = record.performance
    if performance is None or record.phase is not Phase.RUNNING or len(record.placements) != 1:
        return
    if not _settled(record, now):
        return
    cpu = record.placements[0].allocation.cpu_millicpus
    for quantity in OBSERVED:
        value = performance.trusted(quantity)
        if value is not None and value > 0 and cpu > 0:
            entries = record.observed.setdefault(quantity, {})
            entries[cpu] = Entry(value, OBSERVATION_ERROR)


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
    if is_limit_reached(state, now):
        return None
    cpu = performance.readings.get(Quantity.CPU)
    return OffTarget(course.pace, for_seconds, cpu.value if cpu else None)


def is_limit_reached(state: ManagerState, now: float) -> bool:
    """Whether there were so many adjustments in the last minute that no more are made."""
    return sum(0 <= now - at < 60 for at in state.adjusted_at) >= ADJUSTMENTS_PER_MINUTE


def is_off_prediction(record: WorkloadRecord) -> bool:
    """Whether a resident misses its target, and what there is to do may not be done yet."""
    course, performance = record.course, record.performance
    if course is None or performance is None or course.side >= 0:
        return False
    return performance.measured_at - course.since < OFF_PREDICTION_SECONDS


def who_gives_way(residents: Iterable[WorkloadRecord]) -> WorkloadRecord | None:
    """The best-effort workload that presses most: by its CPU time, the newest first."""
    running = [r for r in residents if r.workload.best_effort and r.phase is Phase.RUNNING]
    return max(running, key=lambda record: (_cpu_used(record), record.uid), default=None)


def resumes_at(record: WorkloadRecord) -> float:
    """When a suspended workload may go on at the earliest, in seconds since the epoch."""
    doublings = min(record.suspensions - 1, 10)
    return record.phase_since + min(GIVEN_WAY_SECONDS * 2.0**doublings, MOST_GIVEN_WAY_SECONDS)


def may_resume(record: WorkloadRecord, residents: Iterable[WorkloadRecord], now: float) -> bool:
    """Whether a suspended workload may go on: nobody beside it misses a target."""
    if now < resumes_at(record):
        return False
    return not any(r.course is not None and r.course.side < 0 for r in residents)


def corrected(record: WorkloadRecord) -> Measurements:
    """All that is measured of it: its profiling, moved to the level at which it runs now.

    A program's phase or a service's load changes the level of the whole row; what was learnt of
    its shape stays.
    """
    found = record.measurements or Measurements()
    cpu = record.placements[0].allocation.cpu_millicpus
    performance: dict[Quantity, dict[int, Entry]] = {
        quantity: dict(entries) for quantity, entries in found.performance.items()
    }
    for quantity, entries in record.observed.items():
        row = {**performance.get(quantity, {}), **entries}
        curve = record.classification and record.classification.curves.get(quantity)
        if curve and cpu in entries:
            level = entries[cpu].value / curve.at(cpu).mean
            row = {c: Entry(e.value * level, e.error, e.censored) for c, e in row.items()}
            row[cpu] = entries[cpu]
        performance[quantity] = row
    return replace(found, performance=performance)


def surprise(record: WorkloadRecord) -> str:
    """Why a running workload should be classified anew by how it runs; empty = no reason."""
    known = record.classification
    if known is None or record.classifying or not _learns(record):
        return ""
    cpu = record.placements[0].allocation.cpu_millicpus
    for quantity, entries in sorted(record.observed.items()):
        if cpu not in entries:
            continue
        curve = known.curves.get(quantity)
        measured = record.measurements.performance.get(quantity, {}) if record.measurements else {}
        if curve is None or (cpu not in measured and len(measured) < 2):
            return f"measured under {len(measured) + 1} allocations now"
        estimate = curve.at(cpu)
        off = abs(log(entries[cpu].value / estimate.mean))
        if off > max(SURPRISE * estimate.std, LEAST_SURPRISE):
            return f"it runs {off:.0%} off what was predicted for {cpu}m CPU"
    return ""


def second_allocation(record: WorkloadRecord, view: ClusterView) -> tuple[Placement, ...]:
    """For one that was measured under one allocation only: another, not far off; empty = none.

    More where there is room, else less by no more than its tolerance.
    """
    if not view.capabilities.resize or not _learns(record) or record.measurements is None:
        return ()
    if {len(row) for row in record.measurements.performance.values()} != {1}:
        return ()
    if record.observed or record.classifying or record.course is None or record.course.side < 0:
        return ()
    held = record.placements[0]
    row = list(view.names).index(held.server)
    room = int(view.cpu_capacity[row] - view.cpu_allocated[row])
    now = held.allocation.cpu_millicpus
    step = 1 if view.capabilities.fractional_cpu else MILLICPUS_PER_CPU
    more = min(round(now * LIVE_STEP), now + room) // step * step
    less = -(-round(now * (1 - record.workload.tolerance)) // step) * step
    cpu = more if more > now * (1 + record.workload.tolerance) else less
    if cpu == now:
        return ()
    return (replace(held, allocation=replace(held.allocation, cpu_millicpus=cpu)),)


def _learns(record: WorkloadRecord) -> bool:
    """Whether it may be learnt from how it runs."""
    mode = record.workload.profile.mode
    return (
        len(record.placements) == 1
        and not record.workload.best_effort
        and mode is not ProfileMode.NONE
    )


def _settled(record: WorkloadRecord, now: float) -> bool:
    since = max(record.started_at or 0.0, record.adjusted_at or 0.0, record.phase_since)
    return now - since >= SETTLING_SECONDS


def _cpu_used(record: WorkloadRecord) -> float:
    reading = record.performance and record.performance.readings.get(Quantity.CPU)
    return reading.value if reading else 0.0


def _side(now_pace: float, tolerance: float) -> int:
    """-1 = missed beyond the tolerance, 1 = more than enough, 0 = as it should be."""
    if now_pace < 1 - tolerance:
        return -1
    return 1 if now_pace > SPARE else 0
