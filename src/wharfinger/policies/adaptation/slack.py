"""How a running workload stands to its target, and when that is a reason to act (Quasar 4.1).

Pure functions of the records. Against oscillation a status must last for a while, an adjustment
must have had time to show, and adjustments per minute are limited. *What* is done is in
``by_target``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from wharfinger.classification.worth import MOVE_SECONDS
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import (
    Adjustment,
    AdjustmentKind,
    ManagerState,
    WorkloadRecord,
    is_violated,
)
from wharfinger.core.tracking import TargetTracking
from wharfinger.model.allocation import cpu_of
from wharfinger.model.decisions import ReasonCode, Term
from wharfinger.model.performance import (
    MAX_NORMALIZED,
    SATURATED_SHARE,
    STALE_SECONDS,
    Performance,
    Quantity,
    busier,
    normalized_performance,
)
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.view import OffTarget
from wharfinger.model.workload import Adapt, Target
from wharfinger.policies.adaptation.demand_settings import DemandSettings
from wharfinger.policies.adaptation.elastic import ElasticSettings
from wharfinger.policies.adaptation.phase_settings import PhaseSettings
from wharfinger.policies.placement.resizing import BUSY

OVERLOADED = 0.9
"""Of the requests that are offered, the share below which a service answers clearly too few."""
WITHDRAWN = 3.0
"""Tolerances of a probe, that its sources cost at most before they are withdrawn."""


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
        blocking_seconds: How long one that runs off its prediction keeps new work from its servers.
        suspension_seconds: Shortest suspension; twice as long each time.
        max_suspension_seconds: Longest consecutive suspension; prevents starvation.
        phases_in: Whether best-effort work gets a ceiling, which is raised step by step, before it
            is suspended.
        helped: Factor by which a suspension must have raised the neighbor's performance.
        backlog_seconds: How long a suspension for a deep violation lasts before that is judged, and
            for how long more CPU on several servers is.
        unmigrated_seconds: How long a workload runs before it may be migrated; twice as long each
            time, because a restart loses its work.
        move_seconds: What a migration takes besides the work that is repeated.
        moves_for_share: Of the time that a job has left, what a migration must save.
        moves_for_targets: What a migration must add, in targets, to what has begun without a
            profile and is profiled beside its own run.
        isolate: Whether neighbors that slow it are moved where moving itself does not pay.
        placed_again: Of those that keep their targets, the share that is placed again in each
            period, to free CPU where others wait for room; 0 = none.
        placed_again_period_seconds: Length of that period.
        reclassification_seconds: Time between two reclassifications of a workload.
        max_observed: How many allocations keep their measured performance, the newest ones.
        surprise: Standard deviations off its prediction from which a workload is reclassified.
        min_surprise: Smallest such difference, of the logarithm.
        live_step: Factor to the second allocation of live profiling.
        observation_error: Relative standard error of a smoothed measurement.
        busy: Share of its CPU below whose use more CPU does not help a workload.
        elastic: Of allocations that nobody stated.
        phases: How those are found that enter another phase.
        demand: When a service is sized for the load that is offered.
        idle: Times the CPU that it uses: more is not kept, where others lack it, by one that misses
            its target for other reasons than CPU.
        used_share: Of added CPU, the share that must be used, else it is taken back.
        untried_seconds: How long no CPU is added after that.
        extrapolated: Share of its throughput target from which a service's use of CPU tells what it
            could answer.
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
    phases_in: bool = False
    helped: float = 1.05
    backlog_seconds: float = 60.0
    unmigrated_seconds: float = 60.0
    move_seconds: float = MOVE_SECONDS
    moves_for_share: float = 0.1
    moves_for_targets: float = 0.1
    isolate: bool = True
    placed_again: float = 0.0
    placed_again_period_seconds: float = 300.0
    reclassification_seconds: float = 60.0
    max_observed: int = 8
    surprise: float = 2.0
    min_surprise: float = 0.15
    live_step: float = 1.5
    observation_error: float = 0.03
    busy: float = BUSY
    elastic: ElasticSettings = field(default_factory=ElasticSettings)
    phases: PhaseSettings = field(default_factory=PhaseSettings)
    demand: DemandSettings = field(default_factory=DemandSettings)
    idle: float = 2.0
    used_share: float = 0.1
    untried_seconds: float = 600.0
    extrapolated: float = 0.5


def is_recent(at: float | None, now: float, seconds: float) -> bool:
    """Whether something was less than so long ago; not where the clock was set back since."""
    return at is not None and 0 <= now - at < seconds


@dataclass(frozen=True, slots=True)
class Slack:
    """When to act, under these settings."""

    settings: TargetSettings

    def tracking(self, record: WorkloadRecord) -> TargetTracking | None:
        """What the newest measurement says of its target; ``None`` = nothing, or it is too late."""
        performance, target = record.performance, record.workload.target
        if performance is None or target is None:
            return None
        deadline = target.completion_seconds
        if deadline is not None and performance.measured_at >= record.submitted_at + deadline:
            return None  # no adjustment brings that back, and neighbors would pay for each
        allocated = _allocated(record)
        achieved = normalized_performance(target, performance, record.submitted_at, allocated)
        if achieved is None:
            return None
        headroom = self._headroom(record, target, performance)
        reached = max(achieved, headroom or 0.0)
        status = (
            -1 if reached < 1 - record.workload.tolerance else int(reached > self.settings.spare)
        )
        before, since = record.tracking, _likely_since(performance)
        if before is not None and before.status == status:
            since = min(before.since, since)  # in the future only when the clock was set back
        off_since = None
        if self._is_off_prediction(record, performance, reached, status):
            at = performance.measured_at
            off_since = at if before is None or before.off_since is None else before.off_since
            off_since = min(off_since, at)
        blocks = self.settings.blocking_seconds
        violating = off_since is not None and performance.measured_at - off_since < blocks
        return TargetTracking(achieved, status, since, headroom, violating, off_since)

    def _is_off_prediction(
        self, record: WorkloadRecord, performance: Performance, reached: float, status: int
    ) -> bool:
        """Whether it does worse than its prediction's interval, beyond a measurement's error.

        What neighbors do to it is then unknown (dissertation 3.3.4). One that was placed below its
        target knowingly is not off; without a prediction its target is what is known.
        """
        predicted, held = record.predicted, _allocated(record)
        if predicted is None or not predicted.is_of(record.workload.target, held):
            return status < 0
        seen, low = reached, predicted.low
        rate, at = performance.trusted(Quantity.RATE), predicted.performance.get(Term.RATE)
        if rate is not None and at is not None:
            # Over a completion time's target performance changes although the rate does not.
            seen, low = rate, at.low
        return seen < low * (1 - self.settings.surprise * self.settings.observation_error)

    def _headroom(
        self, record: WorkloadRecord, target: Target, performance: Performance
    ) -> float | None:
        """What a service could reach over its target: it answers no more than it is asked.

        By the utilization law (Denning and Buzen, 1978) throughput grows with its CPU's use until
        that is busy. ``None`` where its CPU is not idle, or it is asked for too little to tell.
        """
        throughput = performance.trusted(Quantity.THROUGHPUT)
        if target.throughput_per_second is None or throughput is None:
            return None
        if Quantity.CPU not in performance.readings:
            return None
        allocated, busy = _allocated(record), self.settings.busy
        used = cpu_used(record) * MILLICPUS_PER_CPU
        done = throughput / target.throughput_per_second
        if used >= busy * allocated or done < self.settings.extrapolated:
            return None
        others = replace(target, throughput_per_second=None)
        rest = (
            normalized_performance(others, performance, record.submitted_at)
            if target.latency
            else MAX_NORMALIZED
        )
        if rest is None:
            return None
        return min(rest, done * busy * allocated / max(used, 1.0), MAX_NORMALIZED)

    def _is_short_of_cpu(self, record: WorkloadRecord, performance: Performance) -> bool:
        """Whether it is throttled and its latency close to the bound, or beyond it."""
        target, latency = record.workload.target, performance.trusted(Quantity.LATENCY)
        if target is None or target.latency is None or latency is None:
            return False
        close = target.latency.below_seconds < self.settings.gives * latency
        return close and performance.is_throttled

    def beside_sources(
        self, record: WorkloadRecord, tracking: TargetTracking | None
    ) -> TargetTracking | None:
        """How it stands to its target while sources of its own probe rise.

        As before the probe, unless it is further below its target than they could bring it; that
        has lasted since it was first so.
        """
        before, performance = record.tracking, record.performance
        was_below = self.is_below_sources(record)
        if tracking is None or performance is None:
            return before
        if self.is_below_sources(record, tracking):
            since = tracking.since if was_below else performance.measured_at
            return replace(tracking, since=since)
        return tracking if was_below else before

    def is_below_sources(
        self, record: WorkloadRecord, tracking: TargetTracking | None = None
    ) -> bool:
        """Whether it violates its target by more than sources of its probe would.

        They are withdrawn where they cost a few times its tolerance. ``tracking``: ``None`` = that
        of the record.
        """
        tracking, probe = tracking or record.tracking, record.probe
        if tracking is None or probe is None or tracking.status >= 0:
            return False
        least = self.settings.deep * (1 - WITHDRAWN * probe.tolerance)
        return tracking.normalized_performance < least

    def off_target(
        self, record: WorkloadRecord, state: ManagerState, now: float
    ) -> OffTarget | None:
        """Whether a workload has been off its target for long enough to act on, and how far."""
        tracking, performance, settings = record.tracking, record.performance, self.settings
        if tracking is None or performance is None:
            return None
        # Throttling tells of too little CPU before a percentile does, and is no noise.
        short = self._is_short_of_cpu(record, performance)
        if tracking.status == 0 and not short:
            return None
        if tracking.status > 0 and _lacks_cpu_in_bursts(record, performance):
            return None
        is_deep = tracking.normalized_performance < settings.deep
        patience = settings.spare_seconds
        if short:
            patience = settings.deep_seconds
        elif tracking.status < 0:
            # One that has only just begun is slow for other reasons.
            begins = is_recent(record.started_at, now, settings.settling_seconds)
            urgent = is_deep and not begins
            patience = settings.deep_seconds if urgent else settings.violated_seconds
        hurried = is_deep or (short and tracking.status < 0)
        settling = settings.deep_settling_seconds if hurried else settings.settling_seconds
        if (
            performance.measured_at - tracking.since < patience
            or is_recent(record.adjusted_at, now, settling)
            or self.is_limit_reached(state, now)
        ):
            return None
        off = self._off(tracking, performance, short=short)
        off = replace(off, busy=_busy_shares(record))
        if tracking.status < 0 and is_saturated(record):
            # CPU that another of its servers leaves idle, since it is sent little, proves nothing.
            return replace(off, cpu_seconds_per_second=None)
        if tracking.status < 0 and not short:
            return replace(off, unused_from=self._unused_from(record, off, now))
        return off

    def _unused_from(self, record: WorkloadRecord, off: OffTarget, now: float) -> int | None:
        """What it had before it was raised, where it uses hardly more; also after a take-back."""
        held, used = _allocated(record), off.cpu_seconds_per_second
        made = reversed(record.adjustments)
        last = next((one for one in made if one.kind is AdjustmentKind.RESIZED), None)
        if used is None:
            return None
        if len(record.placements) > 1 and not self._is_worse(last, held, off, now):
            return None
        before, settings = _stated(record), self.settings
        if last is not None and cpu_of(last.after) == held:
            before = cpu_of(last.before)
            if last.reason == ReasonCode.WOULD_NOT_HELP:
                return held if is_recent(last.time, now, settings.untried_seconds) else None
        worth = before + settings.used_share * (held - before)
        return before if before < held and used * MILLICPUS_PER_CPU < worth else None

    def _is_worse(self, last: Adjustment | None, held: int, off: OffTarget, now: float) -> bool:
        """Whether it does far worse since it got more CPU, or had that taken back.

        On several servers CPU may be idle since one of them is slow: that proves nothing.
        """
        if last is None or cpu_of(last.after) != held:
            return False
        if {one.server for one in last.before} != {one.server for one in last.after}:
            return False
        if last.reason == ReasonCode.WOULD_NOT_HELP:
            return True
        # Later it may be its load that has grown.
        before, judged = last.performance_before, self.settings.backlog_seconds
        if before is None or not is_recent(last.time, now, judged):
            return False
        return off.normalized < self.settings.deep * before

    def can_give(self, record: WorkloadRecord, now: float) -> OffTarget | None:
        """How far above its target one is that may give back at once, for a neighbor's sake."""
        tracking, performance = record.tracking, record.performance
        if tracking is None or performance is None:
            return None
        reached = max(tracking.normalized_performance, tracking.headroom or 0.0)
        if (
            reached < self.settings.gives
            or _lacks_cpu_in_bursts(record, performance)
            or not self._may_give(record, now)
        ):
            return None
        return replace(self._off(tracking, performance), for_neighbor=True)

    def _may_give(self, record: WorkloadRecord, now: float) -> bool:
        """Whether it may be resized for others now."""
        runs = record.phase is Phase.RUNNING and not record.revoking
        return record.workload.adapt is Adapt.AUTO and runs and self.is_settled(record, now)

    def idle(self, record: WorkloadRecord, now: float) -> OffTarget | None:
        """What one that misses its target holds over what it has a use for; ``None`` = no more.

        Most of its CPU is idle: it is something else that it lacks.
        """
        tracking, performance = record.tracking, record.performance
        if tracking is None or performance is None or tracking.status >= 0:
            return None
        if (
            Quantity.CPU not in performance.readings
            or performance.is_throttled
            or is_saturated(record)
            or not self._may_give(record, now)
        ):
            return None
        useful = self.settings.idle * cpu_used(record) * MILLICPUS_PER_CPU
        over = min(_allocated(record) / max(useful, 1.0), MAX_NORMALIZED)
        if over < self.settings.gives:
            return None
        return replace(self._off(tracking, performance), normalized=over, idle=True)

    def is_overloaded(self, record: WorkloadRecord) -> bool:
        """Whether a service answers clearly less than is offered to it, and a backlog grows."""
        tracking, performance = record.tracking, record.performance
        if performance is None or tracking is None:
            return False
        if tracking.normalized_performance > self.settings.deep:
            return False
        answered = performance.answered_share
        return answered is not None and answered < OVERLOADED

    def _off(
        self, tracking: TargetTracking, performance: Performance, *, short: bool = False
    ) -> OffTarget:
        cpu = performance.readings.get(Quantity.CPU)
        for_seconds = performance.measured_at - tracking.since
        used = cpu.value if cpu else None
        reached, headroom = tracking.normalized_performance, tracking.headroom
        if short:
            throttled = performance.readings[Quantity.THROTTLED].value
            return OffTarget(reached, for_seconds, used, throttled=throttled)
        if headroom is not None and reached < self.settings.gives < headroom:
            return OffTarget(headroom, for_seconds, used, estimated=True)
        return OffTarget(reached, for_seconds, used)

    def is_limit_reached(self, state: ManagerState, now: float) -> bool:
        """Whether no more adjustments may be made in this minute."""
        recent = sum(is_recent(at, now, 60) for at in state.adjusted_at)
        return recent >= self.settings.adjustments_per_minute

    def is_settled(self, record: WorkloadRecord, now: float) -> bool:
        """Whether all that happened to it was long enough ago, or before the clock was set back."""
        changes = (record.started_at, record.adjusted_at, record.phase_since)
        return not any(is_recent(at, now, self.settings.settling_seconds) for at in changes)

    def to_suspend(
        self, residents: Iterable[WorkloadRecord], violated: WorkloadRecord, now: float
    ) -> list[WorkloadRecord]:
        """Best-effort workloads, the most pressure first: by CPU time, of equals the newest.

        Not one that has only just been resumed, or whose suspension has not helped. Where it is
        known which of several servers slow it, those there come before all others.
        """
        able = [
            record
            for record in residents
            if record.workload.best_effort
            and record.workload.adapt is Adapt.AUTO
            and record.phase is Phase.RUNNING
            and not self._has_just_resumed(record, now)
            and not self._is_spared(record, violated, now)
        ]
        able = [record for record in able if is_where_slowed(record, violated)] or able
        return sorted(able, key=lambda record: (cpu_used(record), record.uid), reverse=True)

    def suspended_ineffectively(
        self, residents: Iterable[WorkloadRecord], violated: WorkloadRecord
    ) -> list[WorkloadRecord]:
        """Those that were suspended for one that does no better for it.

        In a deep violation that is told later: what has queued up must be done first.
        """
        tracking, performance = violated.tracking, violated.performance
        if tracking is None or performance is None:
            return []
        reached = tracking.normalized_performance
        least = self.settings.backlog_seconds if self.is_deep(violated) else 0.0
        return [
            record
            for record in residents
            if record.phase is Phase.SUSPENDED
            and record.suspended_for == violated.name
            and reached < record.suspended_at_performance * self.settings.helped
            and not self._answers_more(record, performance)
            and not self._is_less_busy(record, violated)
            and not is_recent(record.phase_since, performance.measured_at, least)
        ]

    def is_deep(self, violated: WorkloadRecord) -> bool:
        """Whether it is far below its target, and on which of its servers is known."""
        tracking = violated.tracking
        is_far = tracking is not None and tracking.normalized_performance < self.settings.deep
        is_known = len(violated.placements) == 1 or bool(busier(_busy_shares(violated)))
        return is_far and is_known

    def _answers_more(self, record: WorkloadRecord, performance: Performance) -> bool:
        """Whether an overloaded service answers more: its latency is no better before it is not."""
        before, answered = record.suspended_at_answered, performance.answered_share
        if before is None or answered is None or before >= OVERLOADED:
            return False
        return answered >= min(before * self.settings.helped, OVERLOADED)

    def _is_less_busy(self, record: WorkloadRecord, violated: WorkloadRecord) -> bool:
        """Whether the server that one has left is less busy beside the others than it was."""
        before, shares = record.suspended_at_busy, _busy_shares(violated)
        here = shares.get(record.placements[0].server)
        if before is None or here is None:
            return False
        # How much faster it is there can't be told before it keeps up.
        less = before * min(shares.values())
        return here >= SATURATED_SHARE or here * self.settings.helped <= less

    def resumes_at(
        self, record: WorkloadRecord, residents: Iterable[WorkloadRecord], now: float
    ) -> float:
        """When a suspended workload is resumed if nothing changes; ``now`` or less = it may be.

        One after the other, not while a neighbor violates its target, up to the longest suspension.
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

    def preempted_seconds(self, record: WorkloadRecord) -> float:
        """For how long one that was stopped for a neighbor is not placed again: as a suspension."""
        settings = self.settings
        doublings = min(record.preemptions, 10)
        return min(settings.suspension_seconds * 2.0**doublings, settings.max_suspension_seconds)

    def may_migrate(self, record: WorkloadRecord, now: float) -> bool:
        """Whether it may be restarted elsewhere now: each time it has run for twice as long.

        What is stateful never is: a move would lose or migrate its state.
        """
        workload = record.workload
        movable = workload.run.restartable and not workload.scale.stateful
        if not movable or record.started_at is None:
            return False
        least = self.settings.unmigrated_seconds * 2.0 ** min(record.migrations, 20)
        return now - record.started_at >= least

    def _has_just_resumed(self, record: WorkloadRecord, now: float) -> bool:
        resumed = record.phase is Phase.RUNNING and record.suspensions > 0
        return resumed and is_recent(record.phase_since, now, self.settings.settling_seconds)

    def _is_spared(self, record: WorkloadRecord, violated: WorkloadRecord, now: float) -> bool:
        lately = is_recent(record.ineffective_at, now, self.settings.max_suspension_seconds)
        return lately and record.suspended_for == violated.name


def _likely_since(performance: Performance) -> float:
    """When what is measured now began, if it was otherwise before: between the two, on average."""
    at, before = performance.measured_at, performance.measured_before
    if before is None or not 0 <= at - before <= STALE_SECONDS:
        return at
    return (before + at) / 2


def _lacks_cpu_in_bursts(record: WorkloadRecord, performance: Performance) -> bool:
    """Of a service; any program that computes all the time is throttled all the time."""
    target = record.workload.target
    return target is not None and target.latency is not None and performance.is_throttled


def _busy_shares(record: WorkloadRecord) -> Mapping[str, float]:
    """How busy one on several servers is on each; empty = not known, or it is on one."""
    shares = record.performance.busy_shares(record.placements) if record.performance else {}
    return shares if len(shares) > 1 else {}


def is_saturated(record: WorkloadRecord) -> bool:
    """Whether one on several servers has no CPU left on one of them."""
    return any(share >= SATURATED_SHARE for share in _busy_shares(record).values())


def is_where_slowed(record: WorkloadRecord, violated: WorkloadRecord) -> bool:
    """Whether one is on a server on which another is clearly busier than on its others."""
    slowest = busier(_busy_shares(violated))
    return any(placed.server in slowest for placed in record.placements)


def load_of(record: WorkloadRecord) -> float | None:
    """CPU time that it uses over its allocation, on all its servers; ``None`` = not known."""
    used = record.performance and record.performance.readings.get(Quantity.CPU)
    allocated = _allocated(record)
    return used.value * MILLICPUS_PER_CPU / allocated if used and allocated else None


def cpu_used(record: WorkloadRecord) -> float:
    """CPU seconds per second; 0 where that was not measured."""
    reading = record.performance and record.performance.readings.get(Quantity.CPU)
    return reading.value if reading else 0.0


def _allocated(record: WorkloadRecord) -> int:
    return cpu_of(record.placements)


def _stated(record: WorkloadRecord) -> int:
    """What its user states, else what it has."""
    reservation = record.workload.reservation
    return _allocated(record) if reservation.elastic_cpu else reservation.cpu_millicpus
