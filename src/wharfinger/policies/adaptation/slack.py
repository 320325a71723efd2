"""How a running workload stands to its target, and when that is a reason to act (Quasar 4.1).

Pure functions of the records. Three things keep it calm: a status must last for a while (longer
before something is given back than before something is added), an adjustment must have had time to
show, and there are so many adjustments a minute and no more. *What* is done is in ``by_target``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import hypot, log

from wharfinger.classification.forgetting import RUNNING_HALF_LIFE_SECONDS
from wharfinger.classification.forgetting import corrected as remembered
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import ManagerState, WorkloadRecord, is_violated
from wharfinger.core.tracking import Observation, TargetTracking, Tracked
from wharfinger.estimators.matrix import Transform
from wharfinger.model.allocation import Placement
from wharfinger.model.performance import MAX_PACE, PROXIES, Performance, Quantity, pace
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Classification, Entry, Estimate, Measurements, Origin
from wharfinger.model.view import ClusterView, OffTarget
from wharfinger.model.workload import ProfileMode, Target
from wharfinger.policies.placement.resizing import BUSY, room_on

OBSERVED = (Quantity.RATE, Quantity.THROUGHPUT, Quantity.LATENCY)


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """When something is done for a workload that is off its target.

    Performance is achieved over target, durations are in seconds.

    Attributes:
        violated_seconds: How long a target is violated before CPU is added.
        deep: Performance below which a violation is deep: it is hardly noise.
        deep_seconds: As ``violated_seconds``, for deep violations: a backlog grows meanwhile.
        spare: Performance from which a workload has more than it needs.
        spare_seconds: How long it has more than it needs before CPU is given back.
        gives: Performance from which CPU is given back at once, for a neighbor.
        settling_seconds: Time between two adjustments of a workload.
        deep_settling_seconds: The same during a deep violation.
        adjustments_per_minute: Most adjustments of all workloads together.
        blocking_seconds: How long a violated target keeps new work from its servers.
        suspension_seconds: Shortest suspension; twice as long each time.
        max_suspension_seconds: Longest consecutive suspension; prevents starvation.
        helped: Factor by which a suspension must have raised the neighbor's performance.
        unmigrated_seconds: How long a workload runs before it may be migrated; twice as long each
            time, because a restart loses its work.
        reclassification_seconds: Time between two reclassifications of a workload.
        max_observed: How many allocations keep their measured performance, the newest ones.
        surprise: Standard deviations off its prediction from which a workload is reclassified.
        min_surprise: Smallest such difference, of the logarithm.
        live_step: Factor to the second allocation of live profiling.
        observation_error: Relative standard error of a smoothed measurement.
        busy: Share of its CPU below whose use more CPU does not help a workload.
    """

    violated_seconds: float = 10.0
    deep: float = 0.5
    deep_seconds: float = 2.0
    spare: float = 1.3
    spare_seconds: float = 60.0
    gives: float = 1.15
    settling_seconds: float = 20.0
    deep_settling_seconds: float = 8.0
    adjustments_per_minute: int = 30
    blocking_seconds: float = 60.0
    suspension_seconds: float = 30.0
    max_suspension_seconds: float = 960.0
    helped: float = 1.05
    unmigrated_seconds: float = 60.0
    reclassification_seconds: float = 60.0
    max_observed: int = 8
    surprise: float = 2.0
    min_surprise: float = 0.15
    live_step: float = 1.5
    observation_error: float = 0.03
    busy: float = BUSY


@dataclass(frozen=True, slots=True)
class Slack:
    """The questions, under these settings."""

    settings: TargetSettings

    # --- tracking ------------------------------------------------------------------------------

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        """What the newest measurement says, and what is kept of it."""
        tracking = self._tracking(record)
        newest = record.adjustments[-1] if record.adjustments else None
        follow_up = (
            newest is not None
            and tracking is not None
            and record.phase is Phase.RUNNING
            and (
                newest.performance_after is None
                or now - newest.time <= self.settings.settling_seconds
            )
        )
        seen = self._observations(record, now, slowdown)
        return Tracked(record.name, tracking, tuple(seen), follow_up)

    def _tracking(self, record: WorkloadRecord) -> TargetTracking | None:
        performance, target = record.performance, record.workload.target
        if performance is None or target is None:
            return None
        deadline = target.completion_seconds
        if deadline is not None and performance.measured_at >= record.submitted_at + deadline:
            return None  # no adjustment brings that back, and neighbors would pay for each
        achieved = pace(target, performance, record.submitted_at)
        if achieved is None:
            return None
        headroom = self._headroom(record, target, performance)
        status = self._status(max(achieved, headroom or 0.0), record.workload.tolerance)
        before, since = record.tracking, performance.measured_at
        if before is not None and before.status == status:
            since = min(before.since, since)  # in the future only when the clock was set back
        lasts = performance.measured_at - since
        violating = status < 0 and lasts < self.settings.blocking_seconds
        return TargetTracking(achieved, status, since, headroom, violating)

    def _status(self, performance: float, tolerance: float) -> int:
        if performance < 1 - tolerance:
            return -1
        return 1 if performance > self.settings.spare else 0

    def _headroom(
        self, record: WorkloadRecord, target: Target, performance: Performance
    ) -> float | None:
        """What a service could reach over its target: it answers no more than it is asked.

        By the utilisation law (Denning and Buzen, 1978): throughput grows with its CPU's use until
        that is busy. The other parts of its target stay as they are.

        Returns:
            ``None`` where its CPU is not idle, or it violates its target.
        """
        throughput = performance.trusted(Quantity.THROUGHPUT)
        cpu = performance.readings.get(Quantity.CPU)
        if target.throughput_per_second is None or throughput is None or cpu is None:
            return None
        allocated = _allocated(record)
        busy = self.settings.busy
        used = cpu.value * MILLICPUS_PER_CPU
        done = throughput / target.throughput_per_second
        if used >= busy * allocated or done < 1 - record.workload.tolerance:
            return None
        others = replace(target, throughput_per_second=None)
        rest = pace(others, performance, record.submitted_at) if target.latency else MAX_PACE
        return (
            None if rest is None else min(rest, done * busy * allocated / max(used, 1.0), MAX_PACE)
        )

    def _observations(
        self,
        record: WorkloadRecord,
        now: float,
        slowdown: Estimate | None,
    ) -> list[Observation]:
        """How it does under its present allocation, once that has had time to show.

        What is kept is what it would be without its neighbors, where their part is known.
        """
        performance = record.performance
        if performance is None or record.phase is not Phase.RUNNING or len(record.placements) != 1:
            return []
        if not self.is_settled(record, now):
            return []
        if slowdown is not None and self._is_recent(record.neighbors_changed_at, now):
            return []
        cpu = record.placements[0].allocation.cpu_millicpus
        used = performance.readings.get(Quantity.CPU)
        is_idle = used is not None and used.value * MILLICPUS_PER_CPU < self.settings.busy * cpu
        kept: list[Observation] = []
        error = self.settings.observation_error
        for quantity in OBSERVED:
            value = performance.trusted(quantity)
            # A service that is asked little answers little, whatever it could.
            says_nothing = is_idle and quantity is Quantity.THROUGHPUT
            if value is None or value <= 0 or cpu <= 0 or says_nothing:
                continue
            alone = _alone(Entry(value, error), quantity, slowdown)
            kept.append(self._kept(record, quantity, cpu, alone, performance.measured_at))
            if quantity is Quantity.LATENCY and used is not None and used.value > 0:
                # A latency tells what could be sustained only with how busy it was then.
                busy = Entry(used.value, error)
                kept.append(self._kept(record, Quantity.CPU, cpu, busy, performance.measured_at))
        return kept

    def _kept(
        self, record: WorkloadRecord, quantity: Quantity, cpu: int, seen: Entry, at: float
    ) -> Observation:
        entries = dict(record.observed.get(quantity, {}))
        new = replace(seen, origin=Origin.OBSERVED, measured_at=at)
        entry = self._joined(entries.pop(cpu, None), new)
        forgets = [*entries, cpu][: -self.settings.max_observed]
        return Observation(quantity, cpu, entry, tuple(forgets))

    def _joined(self, old: Entry | None, new: Entry) -> Entry:
        """One more measurement under an allocation: as the last ones, or a new phase."""
        if old is not None and abs(log(new.value / old.value)) > self.settings.min_surprise:
            return new
        return remembered(old, new, Transform.LOG, RUNNING_HALF_LIFE_SECONDS)

    # --- when to act -----------------------------------------------------------------------------

    def off_target(
        self, record: WorkloadRecord, state: ManagerState, now: float
    ) -> OffTarget | None:
        """Whether a workload has been off its target for long enough to act on, and how far."""
        tracking, performance, settings = record.tracking, record.performance, self.settings
        if tracking is None or performance is None or tracking.status == 0:
            return None
        for_seconds = performance.measured_at - tracking.since
        if for_seconds < self._patience(record, tracking, now):
            return None
        is_deep = tracking.normalized_performance < settings.deep
        settling = settings.deep_settling_seconds if is_deep else settings.settling_seconds
        if record.adjusted_at is not None and 0 <= now - record.adjusted_at < settling:
            return None
        if self.is_limit_reached(state, now):
            return None
        return self._off(tracking, performance)

    def can_give(self, record: WorkloadRecord, now: float) -> OffTarget | None:
        """How far above its target one is that may give back at once, for a neighbor's sake."""
        tracking, performance = record.tracking, record.performance
        if tracking is None or performance is None:
            return None
        if max(tracking.normalized_performance, tracking.headroom or 0.0) < self.settings.gives:
            return None
        if record.phase is not Phase.RUNNING or record.revoking:
            return None
        return self._off(tracking, performance) if self.is_settled(record, now) else None

    def _off(self, tracking: TargetTracking, performance: Performance) -> OffTarget:
        cpu = performance.readings.get(Quantity.CPU)
        for_seconds = performance.measured_at - tracking.since
        used = cpu.value if cpu else None
        reached, headroom = tracking.normalized_performance, tracking.headroom
        if headroom is not None and reached < self.settings.gives < headroom:
            return OffTarget(headroom, for_seconds, used, estimated=True)
        return OffTarget(reached, for_seconds, used)

    def _patience(self, record: WorkloadRecord, tracking: TargetTracking, now: float) -> float:
        """How long a status lasts before something is done, in seconds."""
        settings = self.settings
        if tracking.status > 0:
            return settings.spare_seconds
        # One that has only just begun is slow for other reasons.
        begins = (
            record.started_at is not None
            and 0 <= now - record.started_at < settings.settling_seconds
        )
        is_deep = tracking.normalized_performance < settings.deep and not begins
        return settings.deep_seconds if is_deep else settings.violated_seconds

    def is_limit_reached(self, state: ManagerState, now: float) -> bool:
        """Whether there were so many adjustments in the last minute that no more are made."""
        recent = sum(0 <= now - at < 60 for at in state.adjusted_at)
        return recent >= self.settings.adjustments_per_minute

    def is_settled(self, record: WorkloadRecord, now: float) -> bool:
        """Whether all that happened to it was long enough ago, or before the clock was set back."""
        changes = (record.started_at, record.adjusted_at, record.phase_since)
        return not any(self._is_recent(at, now) for at in changes)

    def _is_recent(self, at: float | None, now: float) -> bool:
        return at is not None and 0 <= now - at < self.settings.settling_seconds

    # --- suspension and migration ----------------------------------------------------------------

    def to_suspend(
        self, residents: Iterable[WorkloadRecord], violated: WorkloadRecord, now: float
    ) -> WorkloadRecord | None:
        """The best-effort workload with the most pressure: by its CPU time, the newest first.

        Those are left out that have only just been resumed, or whose suspension has not helped.
        """
        able = [
            record
            for record in residents
            if record.workload.best_effort
            and record.phase is Phase.RUNNING
            and not self._has_just_resumed(record, now)
            and not self._is_spared(record, violated, now)
        ]
        return max(able, key=lambda record: (_cpu_used(record), record.uid), default=None)

    def suspended_ineffectively(
        self, residents: Iterable[WorkloadRecord], violated: WorkloadRecord
    ) -> list[WorkloadRecord]:
        """Those that were suspended for one that does no better for it."""
        if violated.tracking is None:
            return []
        reached = violated.tracking.normalized_performance
        return [
            record
            for record in residents
            if record.phase is Phase.SUSPENDED
            and record.suspended_for == violated.name
            and reached < record.suspended_at_performance * self.settings.helped
        ]

    def resumes_at(
        self, record: WorkloadRecord, residents: Iterable[WorkloadRecord], now: float
    ) -> float:
        """When a suspended workload is resumed if nothing changes until then.

        Not before its time, one after the other, and not while a neighbor violates its target, up
        to the longest suspension.

        Returns:
            Seconds since the epoch; ``now`` or less = it may be resumed.
        """
        if now < record.phase_since:  # the clock was set back
            return now
        settings = self.settings
        latest = record.phase_since + settings.max_suspension_seconds
        doublings = min(record.suspensions - 1, 10)
        at = record.phase_since + settings.suspension_seconds * 2.0**doublings
        for resident in residents:
            if is_violated(resident):
                return latest
            if self._has_just_resumed(resident, now):
                at = max(at, resident.phase_since + settings.settling_seconds)
        return min(at, latest)

    def may_migrate(self, record: WorkloadRecord, now: float) -> bool:
        """Whether it may be restarted elsewhere now: each time it has run for twice as long."""
        if not record.workload.run.restartable or record.started_at is None:
            return False
        least = self.settings.unmigrated_seconds * 2.0 ** min(record.migrations, 20)
        return now - record.started_at >= least

    def _has_just_resumed(self, record: WorkloadRecord, now: float) -> bool:
        recently = 0 <= now - record.phase_since < self.settings.settling_seconds
        return record.phase is Phase.RUNNING and record.suspensions > 0 and recently

    def _is_spared(self, record: WorkloadRecord, violated: WorkloadRecord, now: float) -> bool:
        """Whether its suspension has not helped this one lately."""
        if record.ineffective_at is None or record.suspended_for != violated.name:
            return False
        return 0 <= now - record.ineffective_at < self.settings.max_suspension_seconds

    # --- learning from what runs -----------------------------------------------------------------

    def measured(self, record: WorkloadRecord) -> Measurements | None:
        """All that was measured of a workload, before it ran and since; ``None`` = nothing was."""
        if record.observed and len(record.placements) == 1:
            return self.corrected(record, "")
        return record.measurements

    def corrected(self, record: WorkloadRecord, platform: str) -> Measurements:
        """All that is measured of it: its profiling, moved to the level at which it runs now.

        A program's phase or a service's load changes the level of the whole row; what was learnt of
        its shape stays.

        Args:
            record: Of a workload that runs.
            platform: On which.
        """
        profiled = record.measurements or Measurements()
        cpu = record.placements[0].allocation.cpu_millicpus
        performance: dict[Quantity, dict[int, Entry]] = {
            quantity: dict(entries) for quantity, entries in profiled.performance.items()
        }
        further = dict(profiled.further)
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
                    for one in profiled.further.get(quantity, ())
                )
            for old in list(row)[: -self.settings.max_observed]:
                del row[old]
            performance[quantity] = row
        further = {quantity: runs for quantity, runs in further.items() if runs}
        here = profiled.platform or platform
        return replace(profiled, performance=performance, platform=here, further=further)

    def surprise(
        self,
        record: WorkloadRecord,
        now: float,
        platform: str,
        slowdown: Estimate | None = None,
    ) -> str:
        """Why a running workload should be classified again by how it runs; empty = no reason.

        Args:
            record: Of it.
            now: Seconds since the epoch.
            platform: On which it runs.
            slowdown: What its neighbors leave it, as predicted: a doubt of that is one of this.
        """
        known, before, settings = record.classification, record.classified_at, self.settings
        if known is None or record.reclassifying or not _learns(record):
            return ""
        if before is not None and 0 <= now - before < settings.reclassification_seconds:
            return ""
        cpu = record.placements[0].allocation.cpu_millicpus
        profiled = record.measurements.performance if record.measurements else {}
        for quantity, entries in sorted(record.observed.items()):
            if cpu not in entries or quantity in PROXIES:
                continue
            curve, row = known.curves.get(quantity), profiled.get(quantity, {})
            if cpu not in row and len(row) < 2:
                return "it is measured under one allocation more"
            if curve is None:
                continue
            estimate = curve.at(cpu)
            there = _as_on_platform(known, platform, quantity, {cpu: entries[cpu]})
            off = abs(log(there[cpu].value / estimate.mean))
            doubt = hypot(estimate.std, slowdown.std if slowdown else 0.0)
            if off > max(settings.surprise * doubt, settings.min_surprise):
                return f"it runs {off:.0%} off what was predicted for {cpu}m CPU"
        return ""

    def second_allocation(self, record: WorkloadRecord, view: ClusterView) -> tuple[Placement, ...]:
        """For one that was measured under its present allocation only: another, not far off.

        More where there is room, else less by no more than its tolerance; once in a start.

        Returns:
            Empty where there is no need, or no room.
        """
        if not view.capabilities.resize or not _learns(record) or record.measurements is None:
            return ()
        if record.reclassifying or record.tracking is None or is_violated(record):
            return ()
        here = record.placements[0]
        now = here.allocation.cpu_millicpus
        seen = any(now in row for row in record.observed.values())
        if not seen or record.adjusted_at is not None or _measured_under(record) != {now}:
            return ()
        room = room_on(here.server, view)
        step = 1 if view.capabilities.fractional_cpu else MILLICPUS_PER_CPU
        more = min(round(now * self.settings.live_step), now + room) // step * step
        less = -(-round(now * (1 - record.workload.tolerance)) // step) * step
        cpu = more if more > now * (1 + record.workload.tolerance) else less
        if cpu == now:
            return ()
        return (replace(here, allocation=replace(here.allocation, cpu_millicpus=cpu)),)


def load_of(record: WorkloadRecord) -> float | None:
    """CPU time that it uses over its allocation, on all its servers; ``None`` = not known."""
    used = record.performance and record.performance.readings.get(Quantity.CPU)
    allocated = _allocated(record)
    return used.value * MILLICPUS_PER_CPU / allocated if used and allocated else None


def _allocated(record: WorkloadRecord) -> int:
    return sum(placement.allocation.cpu_millicpus for placement in record.placements)


def _alone(seen: Entry, quantity: Quantity, slowdown: Estimate | None) -> Entry:
    """What was seen beside neighbors, without what they take."""
    if slowdown is None:
        return seen
    share = slowdown.mean if quantity is Quantity.LATENCY else 1 / slowdown.mean
    return Entry(seen.value * share, hypot(seen.error, slowdown.std))


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
    profiled = record.measurements.performance if record.measurements else {}
    return {cpu for rows in (profiled, record.observed) for row in rows.values() for cpu in row}


def _cpu_used(record: WorkloadRecord) -> float:
    reading = record.performance and record.performance.readings.get(Quantity.CPU)
    return reading.value if reading else 0.0
