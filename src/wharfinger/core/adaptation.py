"""When a running workload is worth another look, and which way out comes next (Quasar 4.1).

Pure functions of the records: the fold follows a workload's course by ``follow`` at each
measurement and keeps what was observed under each allocation; ``Manager`` asks ``off_target``
whether to act, and takes the next step of the ladder: more CPU where it is (the policy says how
much), then best-effort neighbours give way, then it is moved if it may be restarted. Three things
keep it calm: a side of the target must be held for a while (longer before something is given back
than before something is added), an adjustment must have had time to show, and there are so many
adjustments a minute and no more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import hypot, log

from wharfinger.classification.forgetting import RUNNING_HALF_LIFE_SECONDS
from wharfinger.classification.forgetting import corrected as remembered
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import Course, ManagerState, WorkloadRecord
from wharfinger.estimators.matrix import Transform
from wharfinger.model.allocation import Placement
from wharfinger.model.performance import MAX_PACE, PROXIES, Performance, Quantity, pace
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Classification, Entry, Estimate, Measurements, Origin
from wharfinger.model.view import ClusterView, OffTarget
from wharfinger.model.workload import ProfileMode, Target
from wharfinger.policies.placement.resizing import BUSY, room_on

MISSED_SECONDS = 10.0
"""How long a target is missed before something is added."""
DEEP = 0.5
"""Performance over target below which nobody waits to see whether it was noise."""
DEEP_SECONDS = 2.0
"""How long a target is missed by so much before something is added: what waits meanwhile is a
backlog that has to be worked off besides."""
SPARE_SECONDS = 60.0
"""How long there is more than enough before something is given back."""
SPARE = 1.3
"""Performance over target from which there is more than enough."""
GIVES = 1.15
"""Performance over target from which one gives back to a neighbour that misses its own."""
SETTLING_SECONDS = 20.0
"""How long an adjustment has to show, before the next of the same workload."""
DEEP_SETTLING_SECONDS = 8.0
"""And where less than half of the target is reached still, or again: then it was too small."""
ADJUSTMENTS_PER_MINUTE = 30
"""Of all workloads together."""
OFF_PREDICTION_SECONDS = 60.0
"""How long a server takes no new work because of one resident; by then all that can be done is."""
GIVEN_WAY_SECONDS = 30.0
"""How long one that gave way stays suspended at least; twice as long each time, up to the most."""
MOST_GIVEN_WAY_SECONDS = 960.0
"""And never longer in a row, though a neighbour misses its target still: nobody waits for ever."""
HELPED = 1.05
"""Times its pace: what another's giving way must have gained a workload, to be worth it."""
UNMOVED_SECONDS = 60.0
"""How long one runs before it may be moved; twice as long each time: a restart costs its work."""
UNCLASSIFIED_SECONDS = 60.0
"""Between two times that a running workload is classified anew."""
MOST_OBSERVED = 8
"""Allocations of a workload of which it is kept how it did, the newest."""
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
    deadline = target.completion_seconds
    if deadline is not None and performance.measured_at >= record.submitted_at + deadline:
        return None  # no adjustment brings that back, and neighbours would pay for each
    now_pace = pace(target, performance, record.submitted_at)
    if now_pace is None:
        return None
    could = _could(record, target, performance)
    side = _side(max(now_pace, could or 0.0), record.workload.tolerance)
    before, since = record.course, performance.measured_at
    if before is not None and before.side == side:
        since = min(before.since, since)  # in the future only when the clock was set back
    return Course(now_pace, side, since, could)


def _could(record: WorkloadRecord, target: Target, performance: Performance) -> float | None:
    """What a service could do over its target: it answers no more than it is asked.

    By the utilisation law (Denning and Buzen, 1978): throughput grows with its CPU's use until
    that is busy. The other parts of its target stay as they are.

    Returns:
        ``None`` where its CPU is not idle, or it misses its target.
    """
    throughput, cpu = (
        performance.trusted(Quantity.THROUGHPUT),
        performance.readings.get(Quantity.CPU),
    )
    if target.throughput_per_second is None or throughput is None or cpu is None:
        return None
    held = sum(placement.allocation.cpu_millicpus for placement in record.placements)
    used = cpu.value * MILLICPUS_PER_CPU
    done = throughput / target.throughput_per_second
    if used >= BUSY * held or done < 1 - record.workload.tolerance:
        return None
    others = replace(target, throughput_per_second=None)
    rest = pace(others, performance, record.submitted_at) if target.latency else MAX_PACE
    return None if rest is None else min(rest, done * BUSY * held / max(used, 1.0), MAX_PACE)


def started_over(course: Course | None, now: float) -> Course | None:
    """A course after an adjustment: how long it lasts is counted anew."""
    return None if course is None else replace(course, since=now)


def load_of(record: WorkloadRecord) -> float | None:
    """CPU time that it uses over what it was given, on all its servers; ``None`` = not known."""
    used = record.performance and record.performance.readings.get(Quantity.CPU)
    given = sum(placement.allocation.cpu_millicpus for placement in record.placements)
    return used.value * MILLICPUS_PER_CPU / given if used and given else None


def misses(record: WorkloadRecord) -> bool:
    """Whether its target was missed when it was measured last."""
    return record.course is not None and record.course.side < 0


def observe(record: WorkloadRecord, now: float, slowed: Estimate | None = None) -> None:
    """Keep how it does under its present allocation, once that has had time to show.

    Args:
        record: Of a workload that was measured.
        now: Seconds since the epoch.
        slowed: What its neighbours leave it; it is kept as it would be without them.
    """
    performance = record.performance
    if performance is None or record.phase is not Phase.RUNNING or len(record.placements) != 1:
        return
    if not is_settled(record, now) or _is_recent(record.company_since, now):
        return
    cpu = record.placements[0].allocation.cpu_millicpus
    used = performance.readings.get(Quantity.CPU)
    is_idle = used is not None and used.value * MILLICPUS_PER_CPU < BUSY * cpu
    for quantity in OBSERVED:
        value = performance.trusted(quantity)
        # A service that is asked little answers little, whatever it could.
        says_nothing = is_idle and quantity is Quantity.THROUGHPUT
        if value is not None and value > 0 and cpu > 0 and not says_nothing:
            alone = _alone(Entry(value, OBSERVATION_ERROR), quantity, slowed)
            _keep(record, quantity, cpu, alone, performance.measured_at)
            if quantity is Quantity.LATENCY and used is not None and used.value > 0:
                # A latency tells what could be held only with how busy it was then.
                busy = Entry(used.value, OBSERVATION_ERROR)
                _keep(record, Quantity.CPU, cpu, busy, performance.measured_at)


def _alone(seen: Entry, quantity: Quantity, slowed: Estimate | None) -> Entry:
    """What was seen beside neighbours, without what they take."""
    if slowed is None:
        return seen
    share = slowed.mean if quantity is Quantity.LATENCY else 1 / slowed.mean
    return Entry(seen.value * share, hypot(seen.error, slowed.std))


def _keep(record: WorkloadRecord, quantity: Quantity, cpu: int, seen: Entry, at: float) -> None:
    entries = record.observed.setdefault(quantity, {})
    new = replace(seen, origin=Origin.OBSERVED, measured_at=at)
    entries[cpu] = _observed(entries.pop(cpu, None), new)
    _keep_newest(entries)


def _observed(old: Entry | None, new: Entry) -> Entry:
    """One more measurement under an allocation: as the last ones, or a new phase."""
    if old is not None and abs(log(new.value / old.value)) > LEAST_SURPRISE:
        return new
    return remembered(old, new, Transform.LOG, RUNNING_HALF_LIFE_SECONDS)


def off_target(record: WorkloadRecord, state: ManagerState, now: float) -> OffTarget | None:
    """Whether a workload has been off its target for long enough to act on, and how far."""
    course, performance = record.course, record.performance
    if course is None or performance is None or course.side == 0:
        return None
    for_seconds = performance.measured_at - course.since
    if for_seconds < _patience(record, course, now):
        return None
    settling = SETTLING_SECONDS if course.pace >= DEEP else DEEP_SETTLING_SECONDS
    if record.adjusted_at is not None and 0 <= now - record.adjusted_at < settling:
        return None
    if is_limit_reached(state, now):
        return None
    return _off(course, performance)


def can_give(record: WorkloadRecord, now: float) -> OffTarget | None:
    """How far above its target one is that may give back at once, for a neighbour's sake."""
    course, performance = record.course, record.performance
    if course is None or performance is None or max(course.pace, course.could or 0.0) < GIVES:
        return None
    if record.phase is not Phase.RUNNING or record.revoking or not is_settled(record, now):
        return None
    return _off(course, performance)


def _off(course: Course, performance: Performance) -> OffTarget:
    cpu = performance.readings.get(Quantity.CPU)
    for_seconds = performance.measured_at - course.since
    used = cpu.value if cpu else None
    if course.could is not None and course.pace < GIVES < course.could:
        return OffTarget(course.could, for_seconds, used, estimated=True)
    return OffTarget(course.pace, for_seconds, used)


def _patience(record: WorkloadRecord, course: Course, now: float) -> float:
    """How long a side of the target is held before something is done, in seconds."""
    if course.side > 0:
        return SPARE_SECONDS
    # Who has only just begun is slow for other reasons.
    begins = record.started_at is not None and 0 <= now - record.started_at < SETTLING_SECONDS
    return DEEP_SECONDS if course.pace < DEEP and not begins else MISSED_SECONDS


def is_limit_reached(state: ManagerState, now: float) -> bool:
    """Whether there were so many adjustments in the last minute that no more are made."""
    return sum(0 <= now - at < 60 for at in state.adjusted_at) >= ADJUSTMENTS_PER_MINUTE


def is_off_prediction(record: WorkloadRecord) -> bool:
    """Whether a resident misses its target, and what there is to do may not be done yet."""
    course, performance = record.course, record.performance
    if course is None or performance is None or course.side >= 0:
        return False
    return performance.measured_at - course.since < OFF_PREDICTION_SECONDS


def who_gives_way(
    residents: Iterable[WorkloadRecord], relieved: WorkloadRecord, now: float
) -> WorkloadRecord | None:
    """The best-effort workload that presses most: by its CPU time, the newest first.

    Those are left out who have only just gone on, or whose giving way has not helped.
    """
    able = [
        record
        for record in residents
        if record.workload.best_effort
        and record.phase is Phase.RUNNING
        and not _has_just_resumed(record, now)
        and not _is_spared(record, relieved, now)
    ]
    return max(able, key=lambda record: (_cpu_used(record), record.uid), default=None)


def gave_way_in_vain(
    residents: Iterable[WorkloadRecord], relieved: WorkloadRecord
) -> list[WorkloadRecord]:
    """Those who gave way to one that does no better for it."""
    if relieved.course is None:
        return []
    pace_now = relieved.course.pace
    return [
        record
        for record in residents
        if record.phase is Phase.SUSPENDED
        and record.relieves == relieved.name
        and pace_now < record.relieved_pace * HELPED
    ]


def resumes_at(record: WorkloadRecord, residents: Iterable[WorkloadRecord], now: float) -> float:
    """When a suspended workload goes on if nothing changes until then.

    Not before its time, one after the other, and not while somebody beside it misses a target;
    but then at last: what nobody's suspension mends is no reason to wait for ever.

    Returns:
        Seconds since the epoch; ``now`` or less = it may go on.
    """
    if now < record.phase_since:  # the clock was set back
        return now
    latest = record.phase_since + MOST_GIVEN_WAY_SECONDS
    doublings = min(record.suspensions - 1, 10)
    at = record.phase_since + GIVEN_WAY_SECONDS * 2.0**doublings
    for resident in residents:
        if misses(resident):
            return latest
        if _has_just_resumed(resident, now):
            at = max(at, resident.phase_since + SETTLING_SECONDS)
    return min(at, latest)


def may_move(record: WorkloadRecord, now: float) -> bool:
    """Whether it may be restarted elsewhere now: each time it has run for twice as long."""
    if not record.workload.run.restartable or record.started_at is None:
        return False
    return now - record.started_at >= UNMOVED_SECONDS * 2.0 ** min(record.moves, 20)


def measured(record: WorkloadRecord) -> Measurements | None:
    """All that was measured of a workload, by a copy and as it ran; ``None`` = nothing was."""
    if record.observed and len(record.placements) == 1:
        return corrected(record, "")
    return record.measurements


def corrected(record: WorkloadRecord, platform: str) -> Measurements:
    """All that is measured of it: its profiling, moved to the level at which it runs now.

    A program's phase or a service's load changes the level of the whole row; what was learnt of
    its shape stays.

    Args:
        record: Of a workload that runs.
        platform: On which.
    """
    found = record.measurements or Measurements()
    cpu = record.placements[0].allocation.cpu_millicpus
    performance: dict[Quantity, dict[int, Entry]] = {
        quantity: dict(entries) for quantity, entries in found.performance.items()
    }
    further = dict(found.further)
    for quantity, seen in record.observed.items():
        entries = _as_on_platform(record.classification, platform, quantity, seen)
        row = {**performance.get(quantity, {}), **entries}
        curve = record.classification and record.classification.curves.get(quantity)
        if curve and cpu in entries:
            level = entries[cpu].value / curve.at(cpu).mean
            row = {c: replace(e, value=e.value * level) for c, e in row.items()}
            row[cpu] = entries[cpu]
            further[quantity] = tuple(
                replace(one, entry=replace(one.entry, value=one.entry.value * level))
                for one in found.further.get(quantity, ())
            )
        _keep_newest(row)
        performance[quantity] = row
    further = {quantity: runs for quantity, runs in further.items() if runs}
    here = found.platform or platform
    return replace(found, performance=performance, platform=here, further=further)


def _as_on_platform(
    known: Classification | None,
    platform: str,
    quantity: Quantity,
    entries: Mapping[int, Entry],
) -> dict[int, Entry]:
    """What was observed on one platform, as it would have been where the curves hold."""
    if known is None or not known.platform or quantity in PROXIES:
        return dict(entries)
    if platform == known.platform or platform not in known.platforms:
        return dict(entries)
    faster = known.platforms[platform].mean
    factor = faster if quantity is Quantity.LATENCY else 1 / faster
    return {cpu: replace(entry, value=entry.value * factor) for cpu, entry in entries.items()}


def surprise(
    record: WorkloadRecord, now: float, platform: str, slowed: Estimate | None = None
) -> str:
    """Why a running workload should be classified anew by how it runs; empty = no reason.

    Args:
        record: Of it.
        now: Seconds since the epoch.
        platform: On which it runs.
        slowed: What its neighbours leave it, as predicted: a doubt of that is one of this.
    """
    known, before = record.classification, record.classified_at
    if known is None or record.classifying or not _learns(record):
        return ""
    if before is not None and 0 <= now - before < UNCLASSIFIED_SECONDS:
        return ""
    cpu = record.placements[0].allocation.cpu_millicpus
    for quantity, entries in sorted(record.observed.items()):
        if cpu not in entries or quantity in PROXIES:
            continue
        curve = known.curves.get(quantity)
        measured = record.measurements.performance.get(quantity, {}) if record.measurements else {}
        if cpu not in measured and len(measured) < 2:
            return "it is measured under one allocation more"
        if curve is None:
            continue
        estimate = curve.at(cpu)
        there = _as_on_platform(known, platform, quantity, {cpu: entries[cpu]})
        off = abs(log(there[cpu].value / estimate.mean))
        doubt = hypot(estimate.std, slowed.std if slowed else 0.0)
        if off > max(SURPRISE * doubt, LEAST_SURPRISE):
            return f"it runs {off:.0%} off what was predicted for {cpu}m CPU"
    return ""


def second_allocation(record: WorkloadRecord, view: ClusterView) -> tuple[Placement, ...]:
    """For one that was measured under its present allocation only: another, not far off.

    More where there is room, else less by no more than its tolerance; once in a start.

    Returns:
        Empty where there is no need, or no room.
    """
    if not view.capabilities.resize or not _learns(record) or record.measurements is None:
        return ()
    if record.classifying or record.course is None or misses(record):
        return ()
    held = record.placements[0]
    now = held.allocation.cpu_millicpus
    seen = any(now in row for row in record.observed.values())
    if not seen or record.adjusted_at is not None or _measured_under(record) != {now}:
        return ()
    room = room_on(held.server, view)
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


def _measured_under(record: WorkloadRecord) -> set[int]:
    """Allocations under which it was measured, before it ran and since."""
    measured = record.measurements.performance if record.measurements else {}
    return {cpu for rows in (measured, record.observed) for row in rows.values() for cpu in row}


def _keep_newest(entries: dict[int, Entry]) -> None:
    for cpu in list(entries)[:-MOST_OBSERVED]:
        del entries[cpu]


def is_settled(record: WorkloadRecord, now: float) -> bool:
    """Whether all that happened to it was long enough ago, or before the clock was set back."""
    changes = (record.started_at, record.adjusted_at, record.phase_since)
    return not any(_is_recent(at, now) for at in changes)


def _is_recent(at: float | None, now: float) -> bool:
    return at is not None and 0 <= now - at < SETTLING_SECONDS


def _has_just_resumed(record: WorkloadRecord, now: float) -> bool:
    recently = 0 <= now - record.phase_since < SETTLING_SECONDS
    return record.phase is Phase.RUNNING and record.suspensions > 0 and recently


def _is_spared(record: WorkloadRecord, relieved: WorkloadRecord, now: float) -> bool:
    """Whether its giving way has not helped this one lately."""
    if record.in_vain_at is None or record.relieves != relieved.name:
        return False
    return 0 <= now - record.in_vain_at < MOST_GIVEN_WAY_SECONDS


def _cpu_used(record: WorkloadRecord) -> float:
    reading = record.performance and record.performance.readings.get(Quantity.CPU)
    return reading.value if reading else 0.0


def _side(now_pace: float, tolerance: float) -> int:
    """-1 = missed beyond the tolerance, 1 = more than enough, 0 = as it should be."""
    if now_pace < 1 - tolerance:
        return -1
    return 1 if now_pace > SPARE else 0
