"""What is done for a workload that is off its target (Quasar 4.1); or by load, the baseline.

More CPU on its server, at the cost of neighbors that have more than enough; then best-effort
neighbors are phased out (``ceilings``), or suspended; then it is migrated, if it may be restarted
and that pays; else a neighbor that slows it is. *When* is in ``slack``.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from wharfinger.classification.prediction import normalized_with, parts_of, slower, worse_by
from wharfinger.classification.worth import TYPICAL_SECONDS, expected_seconds
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.residency import may_move
from wharfinger.core.seams.adaptation import (
    Migrate,
    PreemptFor,
    Reallocate,
    Reclassify,
    Remedy,
    Residents,
    Resume,
    Suspend,
    Unchanged,
)
from wharfinger.core.state import AdjustmentKind, WorkloadRecord, is_violated
from wharfinger.core.tracking import Tracked
from wharfinger.model.allocation import Placement, cpu_of
from wharfinger.model.decisions import (
    RECOMMENDS,
    Decision,
    Place,
    Prediction,
    ReasonCode,
    Refuse,
    Stage,
    recommended,
)
from wharfinger.model.profile import Estimate, Measurements
from wharfinger.model.units import cpu_number, format_duration
from wharfinger.model.view import ALL_REASONS, OffTarget, Request, Resize
from wharfinger.model.workload import Adapt, WorkloadType
from wharfinger.policies.adaptation.ceilings import Ceilings
from wharfinger.policies.adaptation.demand import Demand, sized_by
from wharfinger.policies.adaptation.elastic import Elastic
from wharfinger.policies.adaptation.learning import Learning
from wharfinger.policies.adaptation.levels import level_of
from wharfinger.policies.adaptation.moving import (
    Gain,
    gain_of_first_move,
    gain_of_isolation,
    gain_of_move,
    shares_of_pressure,
)
from wharfinger.policies.adaptation.phases import Phases
from wharfinger.policies.adaptation.slack import (
    Slack,
    TargetSettings,
    is_recent,
    is_where_slowed,
    load_of,
)
from wharfinger.policies.adaptation.suboptimal import Suboptimal
from wharfinger.policies.placement.resizing import expected, lacking

Remedies = Iterator[Remedy]
Remedied = Generator[Remedy, None, bool]
"""The same; in the end, whether there was any."""


class ByTarget:
    """Keeps targets."""

    name = "by-target"

    def __init__(self, settings: TargetSettings | None = None) -> None:
        self.settings = settings or TargetSettings()
        self._slack = Slack(self.settings)
        self._ceilings = Ceilings(self.settings)
        self._demand = Demand(self.settings.demand)
        self._learning = Learning(self.settings)
        self._phases = Phases(self.settings.phases, self._learning)
        self._suboptimal = Suboptimal(self._slack)
        self._elastic = Elastic(self.settings.elastic, self.settings.adjustments_per_minute // 2)

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        """How it stands to its target, and what it teaches about its present allocation."""
        demand = self._demand.tracking(record, now, self.settings.settling_seconds)
        tracking = self._slack.tracking(record)
        if record.probe is not None and record.probe.lowers:
            # Sources lower its performance, not what is offered to it.
            tracking = self._slack.beside_sources(record, tracking)
            return Tracked(record.name, tracking, level=record.level, demand=demand)
        is_running = tracking is not None and record.phase is Phase.RUNNING
        follow_up = is_running and any(
            made.performance_after is None or now - made.time <= self.settings.settling_seconds
            for made in record.adjustments[-1:]
        )
        seen = self._learning.observations(record, now, slowdown)
        level = level_of(record, now, self.settings.phases.level, slowdown)
        return Tracked(record.name, tracking, tuple(seen), follow_up, level, demand)

    def measured(self, record: WorkloadRecord, platform: str = "") -> Measurements | None:
        """Its profiling, at the level at which it ran."""
        return self._learning.measured(record, platform)

    def wake_at(self, now: float, cluster: Residents) -> float | None:
        """When the next is resumed or may use more, if nothing changes; ``None`` = none is."""
        suspended, throttled = cluster.suspended(), cluster.throttled()
        if cluster.recommends or not (suspended or throttled):
            return None
        times = [
            self._slack.resumes_at(record, _affected_by_resume(record, cluster), now)
            for record in suspended
            if not record.revoking
        ]
        times += [
            self._ceilings.raised_at(record, cluster.neighbors(record), now)
            for record in throttled
            if not record.revoking
        ]
        least = min(times, default=inf)
        return max(now, least) if least < inf else None

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Remedies:
        """Resize those that want it, resume, and see to those that were measured."""
        if cluster.suspended():
            yield from self.resume(now, cluster)
        if cluster.throttled():
            yield from self._phase_in(now, cluster)
        for record in cluster.wants_resize():
            yield from _follow_reservation(now, record, cluster)
        if isinstance(event, ev.WorkloadUpdated):
            updated = cluster.state.workloads[event.workload.name]
            if updated.predicted and not updated.predicted.is_of(updated.workload.target):
                yield from _predict_anew(now, updated, cluster, "predicted anew for its target")
        elif isinstance(event, ev.WorkloadClassified):
            known = cluster.running(event.key)
            if known is not None and not known.resize_wanted:
                yield from _predict_anew(now, known, cluster, "predicted anew: it was reclassified")
                yield from self._first_move(now, known, cluster)
        yield from self._phases.follow(now, event, cluster)
        for record in self._affected(event, cluster):
            is_lowered = record.probe is not None and record.probe.lowers
            if record.phase is not Phase.RUNNING or record.revoking:
                continue
            risen = self._risen(record, cluster, now)
            if risen is not None:
                yield from self._follow_off(now, record, risen, cluster)
            elif not is_lowered or self._slack.is_below_sources(record):
                yield from self._follow(now, record, cluster)
        yield from self._suboptimal.follow(now, event, cluster)
        yield from self._elastic.follow(now, _measured_in(event, cluster), cluster)

    def _affected(self, event: ev.Event, cluster: Residents) -> list[WorkloadRecord]:
        """Those that were measured; or violate targets beside one that has given or taken CPU."""
        if isinstance(event, ev.AllocationResized):
            resized = cluster.running(event.key)
            return [r for r in cluster.neighbors(resized) if is_violated(r)] if resized else []
        return _measured_in(event, cluster)

    def _follow(self, now: float, record: WorkloadRecord, cluster: Residents) -> Remedies:
        why = ""
        if cluster.estimates:
            platform, slowdown = cluster.platform_of(record), cluster.slowdown_of(record)
            why = self._learning.surprise(record, now, platform, slowdown)
        if why:
            decision = _adapted(cluster.estimates, ReasonCode.OK, f"reclassified: {why}")
            yield Reclassify(record.name, self._learning.corrected(record, platform), decision)
        if record.workload.adapt is Adapt.OFF:
            return
        off = self._off_target(record, cluster, now)
        if off is None:
            yield from self._try_second(now, record, cluster)
            return
        yield from self._follow_off(now, record, off, cluster)

    def _follow_off(
        self, now: float, record: WorkloadRecord, off: OffTarget, cluster: Residents
    ) -> Remedies:
        # What the engine could not do once, neighbors may mend.
        if off.normalized < 1 and record.reason == "resize-failed":
            acted = yield from self._relieve(now, record, off, cluster)
            if acted:
                return
        # No neighbor goes down for what has not come yet.
        if off.ahead_seconds is None:
            given = yield from self._others_give(now, record, off, cluster)
            if given:
                return  # What they give is there once they have been resized.
        verdict = _sized(now, record, cluster, off)
        yield from _carried_out(record, verdict)
        # Where its load has only risen as yet, no neighbor is slowed or moved for it.
        if isinstance(verdict, Refuse) and off.normalized < 1 and is_violated(record):
            acted = yield from self._relieve(now, record, off, cluster)
            if acted:
                return
            if len(record.placements) > 1 and self._slack.is_overloaded(record):
                # CPU that one server leaves idle, since it is sent little, no other could use.
                off = replace(off, cpu_seconds_per_second=None, unused_from=None)
                verdict = _sized(now, record, cluster, off)
            elif (idle := self._slack.idle(record, now)) and cluster.waiting_for_room():
                verdict = _sized(now, record, cluster, idle)
            else:
                return
            if isinstance(verdict, Place):
                yield from _carried_out(record, verdict)

    def _risen(self, record: WorkloadRecord, cluster: Residents, now: float) -> OffTarget | None:
        """How far a load that has just risen, or will, is beyond what it holds; ``None`` = not."""
        if self._slack.is_limit_reached(cluster.state, now):
            return None
        return self._demand.short(record, now) or self._demand.soon_short(record, now)

    def _off_target(
        self, record: WorkloadRecord, cluster: Residents, now: float
    ) -> OffTarget | None:
        """How far it is off its target, where that has lasted for long enough."""
        off = self._slack.off_target(record, cluster.state, now)
        if off is None:
            return None
        sized = sized_by(off, self._demand.held(record, later=off.normalized > 1), record)
        # What the load takes, or will, is not given back.
        return sized if off.lacks or sized.normalized > self.settings.spare else None

    def _others_give(
        self, now: float, record: WorkloadRecord, off: OffTarget, cluster: Residents
    ) -> Remedied:
        """There is less room than it asks for: its neighbors give what they do not need."""
        if not cluster.may_adjust(record):
            return False
        able, whole, given = cluster.able(record), cpu_of(record.placements), False
        if not able.resize:
            return False  # What they give it could not get.
        for here in record.placements:
            part = off
            if len(record.placements) > 1 and off.cpu_seconds_per_second is not None:
                used = off.cpu_seconds_per_second * here.allocation.cpu_millicpus / whole
                part = replace(off, cpu_seconds_per_second=used)
            most = cluster.request(record, now).most_on(here, able)
            short = lacking(here, part, cluster.view(), most=most)
            got = yield from self._given_on(here.server, short, now, record, cluster)
            given = given or got
        return given

    def _given_on(
        self, server: str, short: int, now: float, record: WorkloadRecord, cluster: Residents
    ) -> Remedied:
        """So much of what it lacks on a server its neighbors there can spare."""
        given = 0
        for other in cluster.neighbors(record) if short > 0 else ():
            if given >= short or self._slack.is_limit_reached(cluster.state, now):
                break
            is_here = any(placed.server == server for placed in other.placements)
            more = self._can_give(other, now) if is_here else None
            verdict = _sized(now, other, cluster, more) if more is not None else None
            if isinstance(verdict, Place):
                for sign, placements in ((1, other.placements), (-1, verdict.placements)):
                    given += sign * cpu_of(p for p in placements if p.server == server)
                violates = "violates its target and " if is_violated(record) else ""
                message = f"{record.name} {violates}lacks room: "
                message += verdict.decision.message
                decision = replace(verdict.decision, message=message)
                yield Reallocate(other.name, verdict.placements, decision)
        return given > 0

    def _can_give(self, record: WorkloadRecord, now: float) -> OffTarget | None:
        """How far above its target a neighbor is, and above what is offered to it."""
        off = self._slack.can_give(record, now)
        if off is None:
            idle = self._slack.idle(record, now)
            return idle and replace(idle, for_neighbor=True)
        off = sized_by(off, self._demand.held(record, later=True), record)
        return off if off.normalized >= self.settings.gives else None

    def _try_second(self, now: float, record: WorkloadRecord, cluster: Residents) -> Remedies:
        """Profiling live: one that was never profiled runs at another allocation for a while.

        Where a workload keeps what it states nothing is to be learnt of other allocations.
        """
        sizes = getattr(cluster.placement, "follows_targets", False)
        if not (sizes and cluster.estimates) or not cluster.may_adjust(record):
            return
        if self._slack.is_limit_reached(cluster.state, now):
            return
        placements = self._learning.second_allocation(
            record, cluster.request(record, now), cluster.view()
        )
        if placements:
            before, after = cpu_of(record.placements), cpu_of(placements)
            message = (
                f"profiling live: from {cpu_number(before)} to {cpu_number(after)} CPU, to measure "
                "it under a second allocation"
            )
            predicted = None
            if len(placements) == 1:
                predicted = _expected(now, record, after, cluster)
            decision = _adapted(cluster.estimates, ReasonCode.OK, message)
            yield Reallocate(record.name, placements, replace(decision, predicted=predicted))

    def _relieve(
        self, now: float, record: WorkloadRecord, off: OffTarget, cluster: Residents
    ) -> Remedied:
        """More CPU can't be had or would not help: best-effort neighbors, then another server."""
        neighbors = cluster.neighbors(record)
        if cluster.may_adjust(record):
            for other in self._slack.suspended_ineffectively(neighbors, record):
                why = f"{record.name} did no better for it"
                yield _resume(other, why, cluster, ineffective=True)
        gives_way = partial(_gives_way, cluster)
        able = self._slack.to_suspend(filter(gives_way, neighbors), record, now)
        is_deep = self._slack.is_deep(record)
        for given, neighbor in enumerate(able):
            # One after the other, each would be found to be of no help. What can only be stopped
            # loses its work, and goes one by one.
            presses = len(record.placements) == 1 or is_where_slowed(neighbor, record)
            together = is_deep and presses and cluster.able(neighbor).suspend
            if given and (not together or self._slack.is_limit_reached(cluster.state, now)):
                break
            yield self._give_way(now, neighbor, record, off, cluster)
        if able:
            return True
        # While it is reclassified, what was predicted of it is known to be wrong, elsewhere too.
        if record.reclassifying:
            return False
        if self._slack.may_migrate(record, now):
            moved = yield from self._migrate(now, record, off, cluster)
            if moved:
                return True
        return (yield from self._isolate(now, record, off, cluster))

    def _give_way(
        self,
        now: float,
        neighbor: WorkloadRecord,
        record: WorkloadRecord,
        off: OffTarget,
        cluster: Residents,
    ) -> Remedy:
        """It is phased out, then suspended; where the engine can't, it is stopped for a while."""
        why = (
            f"{record.name} has violated its target at {off.normalized:.0%} for "
            f"{off.for_seconds:.0f} s: best-effort {neighbor.name}"
        )
        policy = cluster.placement.name
        throttled = self._throttled(neighbor, record, why, cluster)
        if throttled is not None:
            return throttled
        if cluster.able(neighbor).suspend:
            reason = ReasonCode.SUSPENDED_FOR_TARGET
            return Suspend(
                neighbor.name, record.name, _adapted(policy, reason, f"{why} is suspended")
            )
        seconds = self._slack.preempted_seconds(neighbor)
        message = (
            f"{why} is stopped, as the engine can't suspend it; it is placed again after "
            f"{format_duration(seconds)} at the earliest"
        )
        decision = _adapted(policy, ReasonCode.PREEMPTED_FOR_TARGET, message)
        return PreemptFor(neighbor.name, record.name, now + seconds, decision)

    def _throttled(
        self, neighbor: WorkloadRecord, record: WorkloadRecord, why: str, cluster: Residents
    ) -> Reallocate | None:
        """It gets a low ceiling, where the engine can and it does not have that yet."""
        if not self.settings.phases_in or cluster.able(neighbor).resize is not Resize.ANY:
            return None
        ceiling = self._ceilings.lowered(neighbor, _capacity(neighbor.placements[0], cluster))
        if ceiling is None:
            return None
        message = f"{why} may use {cpu_number(ceiling)} CPU from now on"
        decision = _adapted(cluster.placement.name, ReasonCode.THROTTLED_FOR_TARGET, message)
        placements = _under(ceiling, neighbor.placements)
        return Reallocate(neighbor.name, placements, decision, record.name)

    def _phase_in(self, now: float, cluster: Residents) -> Remedies:
        """Raise ceilings whose time has come."""
        for record in cluster.throttled():
            neighbors = cluster.neighbors(record)
            if record.revoking or self._ceilings.raised_at(record, neighbors, now) > now:
                continue
            ceiling = self._ceilings.raised(record, _capacity(record.placements[0], cluster))
            why = "no neighbor violates its target"
            if record.ineffective_at is not None:
                why = f"{record.suspended_for} did no better for it"
            elif any(map(is_violated, neighbors)):
                why = "the longest time under this ceiling is over"
            uses = "all that others leave" if ceiling is None else f"{cpu_number(ceiling)} CPU"
            message = f"{why}: it may use {uses} from now on"
            decision = _adapted(cluster.placement.name, ReasonCode.OK, message)
            yield Reallocate(record.name, _under(ceiling, record.placements), decision)

    def _migrate(
        self, now: float, record: WorkloadRecord, off: OffTarget, cluster: Residents
    ) -> Remedied:
        """To where it pays, with what a restart costs.

        Where others wait for room, what would be done again is paid by them: then only what loses
        no work moves.
        """
        keeps_work = cluster.state.capabilities.keeps_work
        is_service = record.workload.type is WorkloadType.LATENCY_CRITICAL
        if not (keeps_work or is_service) and cluster.waiting_for_room():
            return False
        view = cluster.view(record.workload)
        here = frozenset(view.row(p.server) for p in record.placements)
        gains = partial(
            gain_of_move,
            record,
            now,
            off,
            keeps_work=keeps_work,
            settings=self.settings,
            alternatives=len(set(view.platform.tolist())),
        )
        request = replace(
            cluster.request(record, now),
            excluded=here,
            told=ALL_REASONS,
            pays=lambda predicted: gains(predicted).pays,
        )
        verdict = cluster.placement.place(request, request.seen(view))
        predicted = verdict.decision.predicted
        if not isinstance(verdict, Place) or predicted is None:
            return False
        gain = gains(predicted)
        if not gain.pays:
            return False
        server = verdict.placements[0].server
        message = (
            f"target violated at {off.normalized:.0%} for {off.for_seconds:.0f} s, and nothing "
            f"helps here: {server} should give {predicted.mean:.0%}; {gain.message}"
        )
        yield _migration(record, verdict, gain, message)
        return True

    def _first_move(self, now: float, record: WorkloadRecord, cluster: Residents) -> Remedies:
        """What has begun without a profile goes where its copies say, if that pays."""
        if not _may_move_first(record):
            return
        keeps_work = cluster.state.capabilities.keeps_work
        if not keeps_work and cluster.waiting_for_room():
            return
        view, (held,) = cluster.view(record.workload), record.placements
        request = cluster.request(record, now)
        elsewhere = replace(request, excluded=frozenset({view.row(held.server)}), told=ALL_REASONS)
        verdict = cluster.placement.place(elsewhere, request.seen(view))
        there = verdict.decision.predicted
        if not isinstance(verdict, Place) or there is None:
            return
        cpu = held.allocation.cpu_millicpus
        here = _expected(now, record, cpu, cluster, there.confidence)
        if here is None:
            return
        gain = gain_of_first_move(
            record,
            now,
            here,
            there,
            _likely_seconds(record, request),
            keeps_work=keeps_work,
            settings=self.settings,
        )
        if gain.pays:
            server = verdict.placements[0].server
            message = f"profiled beside its own run: {gain.message}; it goes to {server}"
            yield _migration(record, verdict, gain, message)

    def _isolate(
        self, now: float, record: WorkloadRecord, off: OffTarget, cluster: Residents
    ) -> Remedied:
        """The neighbor that presses most goes elsewhere, where that pays (Paragon 3.4).

        One at a time: what that does to it must show first.
        """
        slowdown, settings = cluster.slowdown_of(record), self.settings
        recently = is_recent(record.neighbors_changed_at, now, settings.settling_seconds)
        if not settings.isolate or slowdown is None or recently or not cluster.may_adjust(record):
            return False
        if len(record.placements) > 1:
            return False  # A neighbor presses on one part only, and the gain is of the whole.
        keeps_work = cluster.state.capabilities.keeps_work
        pressing = shares_of_pressure(record, cluster.neighbors(record))
        for neighbor, share in pressing:
            if not self._may_make_room(neighbor, now):
                continue
            view = cluster.view(neighbor.workload)
            here = frozenset(view.row(p.server) for p in neighbor.placements)
            request = replace(cluster.request(neighbor, now), excluded=here, told=ALL_REASONS)
            verdict = cluster.placement.place(request, request.seen(view))
            if not isinstance(verdict, Place):
                continue
            relief = Estimate(slowdown.mean**share, slowdown.std * share)
            there = verdict.decision.predicted
            gain = gain_of_isolation(
                record, relief, neighbor, there, now, keeps_work=keeps_work, settings=settings
            )
            if not gain.pays:
                continue
            message = (
                f"{record.name} has violated its target at {off.normalized:.0%} for "
                f"{off.for_seconds:.0f} s, and no other server helps it: {neighbor.name} goes to "
                f"{verdict.placements[0].server}; {gain.message}"
            )
            yield _migration(neighbor, verdict, gain, message)
            return True
        return False

    def _may_make_room(self, neighbor: WorkloadRecord, now: float) -> bool:
        """Whether it may be migrated for another's sake."""
        return (
            neighbor.phase is Phase.RUNNING
            and not neighbor.revoking
            and not neighbor.reclassifying
            and not neighbor.workload.best_effort
            and neighbor.workload.adapt is Adapt.AUTO
            and len(neighbor.placements) == 1
            and not is_violated(neighbor)
            and self._slack.may_migrate(neighbor, now)
        )

    def resume(self, now: float, cluster: Residents) -> Remedies:
        """Resume those whose time has come, the longest suspended first."""
        suspended = sorted(cluster.suspended(), key=lambda record: (record.phase_since, record.uid))
        for record in suspended:
            neighbors = _affected_by_resume(record, cluster)
            if record.revoking or self._slack.resumes_at(record, neighbors, now) > now:
                continue
            longest = any(map(is_violated, neighbors))
            why = "the longest suspension is over" if longest else "no neighbor violates its target"
            yield _resume(record, why, cluster)


def _affected_by_resume(record: WorkloadRecord, cluster: Residents) -> list[WorkloadRecord]:
    """Its neighbors, and best-effort work on all servers of the one that it was suspended for."""
    neighbors = list(cluster.neighbors(record))
    helped = cluster.state.workloads.get(record.suspended_for)
    if helped is not None and len(helped.placements) > 1:
        neighbors += (r for r in cluster.neighbors(helped) if r.workload.best_effort)
    return neighbors


def _capacity(placement: Placement, cluster: Residents) -> int:
    view = cluster.view()
    return int(view.cpu_capacity[view.row(placement.server)])


def _under(ceiling: int | None, placements: Sequence[Placement]) -> tuple[Placement, ...]:
    return tuple(
        replace(placed, allocation=replace(placed.allocation, ceiling_millicpus=ceiling))
        for placed in placements
    )


def _gives_way(cluster: Residents, neighbor: WorkloadRecord) -> bool:
    """Whether it can be suspended, or else be stopped and started again."""
    may_stop = may_move(neighbor.workload) and not (neighbor.revoking or neighbor.offer)
    return cluster.able(neighbor).suspend or (may_stop and not neighbor.stop_reason)


def _may_move_first(record: WorkloadRecord) -> bool:
    """Whether it runs on one server, has been profiled beside that, and may be moved."""
    copies, workload = record.copies, record.workload
    return (
        copies is not None
        and not copies.under_way
        and not record.migrations
        and len(record.placements) == 1
        and record.phase is Phase.RUNNING
        and not record.revoking
        and workload.run.restartable
        and not workload.scale.stateful
        and workload.adapt is not Adapt.OFF
    )


def _likely_seconds(record: WorkloadRecord, request: Request) -> list[float]:
    """Equally likely times that it takes from its start."""
    told = expected_seconds(record.workload, record.measurements)
    if told:
        return [told]
    ran = request.now - (record.started_at or request.now)
    return [each for each in request.run_seconds() if each > ran] or [TYPICAL_SECONDS]


def _follow_reservation(now: float, record: WorkloadRecord, cluster: Residents) -> Remedies:
    if record.phase is not Phase.RUNNING or record.revoking:
        return
    verdict = _sized(now, record, cluster)
    if isinstance(verdict, Place):
        cpu = cpu_of(verdict.placements)
        predicted = verdict.decision.predicted
        if predicted is None and len(verdict.placements) == 1:
            predicted = _expected(now, record, cpu, cluster)
        verdict = replace(verdict, decision=replace(verdict.decision, predicted=predicted))
    yield from _carried_out(record, verdict)
    if verdict is None:
        yield Unchanged(record.name, _kept_allocation(now, record, cluster))


def _kept_allocation(now: float, record: WorkloadRecord, cluster: Residents) -> Decision:
    """Why a changed reservation is not followed."""
    policy, stated = cluster.placement.name, record.workload
    held = record.placements[0].allocation.cpu_millicpus
    predicted = _expected(now, record, held, cluster)
    wanted = stated.reservation.cpu_millicpus
    unstated = stated.reservation.elastic_cpu
    if stated.target is None or stated.best_effort or unstated or wanted == held:
        decision = _adapted(policy, ReasonCode.OK, "its allocation stays")
        return replace(decision, predicted=predicted)
    return Decision(
        Stage.ADAPTATION,
        policy,
        accepted=False,
        reason=ReasonCode.SIZED_BY_TARGET,
        message=f"resources.cpu ({cpu_number(wanted)}) does not change its CPU "
        f"({cpu_number(held)}), which follows its target",
        would_change="a change of its target, or no target",
        predicted=predicted,
    )


def _predict_anew(now: float, record: WorkloadRecord, cluster: Residents, message: str) -> Remedies:
    """A prediction for its target and by its classification as they are now."""
    held = record.placements
    if record.phase is not Phase.RUNNING or record.predicted is None or record.revoking:
        return
    if len(held) != 1:
        return
    anew = _expected(now, record, held[0].allocation.cpu_millicpus, cluster)
    if anew is not None:
        decision = _adapted(cluster.placement.name, ReasonCode.OK, message)
        yield Unchanged(record.name, replace(decision, predicted=anew))


def _expected(
    now: float,
    record: WorkloadRecord,
    cpu_millicpus: int,
    cluster: Residents,
    confidence: float | None = None,
) -> Prediction | None:
    """What is predicted with so much CPU where it is; ``None`` = nothing was or can be.

    ``confidence`` is that of its bounds, where nothing was predicted before.
    """
    classification, before = record.classification, record.predicted
    confidence = before.confidence if before is not None else confidence
    if classification is None or confidence is None:
        return None
    waited = max(0.0, now - record.submitted_at)
    period = cluster.state.capabilities.quota_period_seconds
    parts = parts_of(record.workload, classification, waited, period)
    if not parts:
        return None
    slowdown = cluster.slowdown_of(record) or Estimate(1.0, 0.0)
    (drop,), (variance,) = slower(classification, (cluster.platform_of(record),))
    left = worse_by(slowdown, float(drop), float(variance))
    predicted = expected(parts, cpu_millicpus, left, confidence)
    if before is None or before.alone is not None:
        alone = normalized_with(parts, cpu_millicpus, confidence)
        alone = worse_by(alone, float(drop), float(variance))
        predicted = replace(predicted, alone=alone.mean, alone_std=alone.std)
    return replace(predicted, target=record.workload.target)


def _sized(
    now: float,
    record: WorkloadRecord,
    cluster: Residents,
    off: OffTarget | None = None,
    load: float | None = None,
) -> Place | Refuse | None:
    request = cluster.request(record, now, off_target=off, load=load)
    view = request.seen(cluster.view(record.workload))
    return cluster.placement.resize(request, record.placements, view)


def _carried_out(record: WorkloadRecord, verdict: Place | Refuse | None) -> Remedies:
    if isinstance(verdict, Place):
        yield Reallocate(record.name, verdict.placements, verdict.decision)
    elif isinstance(verdict, Refuse):
        yield Unchanged(record.name, verdict.decision)


def _measured_in(event: ev.Event, cluster: Residents) -> list[WorkloadRecord]:
    samples = event.samples if isinstance(event, ev.ServerMeasured) else ()
    return [r for r in (cluster.running(sample.key) for sample in samples) if r is not None]


def _adapted(decided_by: str, reason: ReasonCode, message: str) -> Decision:
    return Decision(Stage.ADAPTATION, decided_by, True, reason, message)


def _resume(
    record: WorkloadRecord, why: str, cluster: Residents, *, ineffective: bool = False
) -> Resume:
    decision = _adapted(cluster.placement.name, ReasonCode.OK, f"{why}: resumed")
    return Resume(record.name, decision, ineffective)


class ByLoad(ByTarget):
    """The baseline of Quasar 5 and 6.3: as many servers as the placement says, by load.

    It suspends and migrates nothing. It tracks as ``ByTarget`` does, so that users see how
    workloads stand to their targets, and resumes what another policy has suspended.
    """

    name = "by-load"

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """A changed reservation first; then the load of those that were measured."""
        yield from self.resume(now, cluster)
        yield from self._phase_in(now, cluster)
        for record in cluster.wants_resize():
            yield from self._news(record, _follow_reservation(now, record, cluster), cluster)
        for record in _measured_in(event, cluster):
            if record.phase is Phase.RUNNING and not record.revoking:
                yield from self._news(record, self._follow(now, record, cluster), cluster)
        yield from self._elastic.follow(now, _measured_in(event, cluster), cluster)

    def _follow(self, now: float, record: WorkloadRecord, cluster: Residents) -> Iterator[Remedy]:
        load = load_of(record)
        # A changed reservation comes first, on the servers where it is.
        if load is None or record.resize_wanted or record.workload.adapt is Adapt.OFF:
            return
        slack = self._slack
        if slack.is_settled(record, now) and not slack.is_limit_reached(cluster.state, now):
            yield from _carried_out(record, _sized(now, record, cluster, load=load))

    def _news(
        self, record: WorkloadRecord, remedies: Iterator[Remedy], cluster: Residents
    ) -> Iterator[Remedy]:
        """Without the newest one: a met target clears the reason each time."""
        for proposed in remedies:
            remedy = proposed
            told = cluster.recommends or not (cluster.may_adjust(record) or record.resize_wanted)
            if told and isinstance(remedy, Reallocate):
                mend = RECOMMENDS if cluster.recommends else f"adapt: {Adapt.AUTO} in its manifest"
                remedy = Unchanged(remedy.name, recommended(remedy.decision, mend))
            is_newest = isinstance(remedy, Unchanged) and any(
                made.kind is AdjustmentKind.UNCHANGED and made.reason == remedy.decision.reason
                for made in record.adjustments[-1:]
            )
            if not is_newest:
                yield remedy


class ByProfile(ByLoad):
    """iBench's (dissertation 5.5.1): below its target a workload gets a new profile, no more.

    While it is below, its server takes no new work (``Slack``). Nothing is resized for a target's
    sake, suspended or migrated, and what another policy has suspended is resumed.
    """

    name = "by-profile"

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """New profiles, and what those have told; changed reservations are followed."""
        if isinstance(event, ev.WorkloadProbed):
            yield from self._phases.follow(now, event, cluster)
        yield from super().remedies(now, event, cluster)

    def _follow(self, now: float, record: WorkloadRecord, cluster: Residents) -> Iterator[Remedy]:
        off = self._slack.off_target(record, cluster.state, now)
        if off is not None and off.normalized < 1 and is_violated(record):
            why = f"at {off.normalized:.0%} of its target for {off.for_seconds:.0f} s"
            yield from self._phases.ask(now, record, why, cluster)


def _migration(record: WorkloadRecord, verdict: Place, gain: Gain, message: str) -> Migrate:
    """To where a placement would have it, for a target's sake."""
    decision = replace(
        verdict.decision,
        stage=Stage.ADAPTATION,
        reason=ReasonCode.PLACED_FOR_TARGET,
        message=message,
        numbers={**verdict.decision.numbers, **gain.numbers},
    )
    return Migrate(record.name, verdict.placements, decision)
