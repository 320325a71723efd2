"""Quasar: a performance target, not a reservation; sized and placed in one decision.

Source: Quasar 3.3 (joint allocation and assignment), Paragon 3.1 and 3.2 (what a workload tolerates
and causes). Added: a target counts as kept at a stated confidence; servers are ranked by
targets that are expected to be kept, the newcomer's less those that residents lose; an unclassified
workload gets its reservation.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from math import exp, inf
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import TargetPart, normalized_with, parts_of
from wharfinger.core.seams.contention import (
    Array,
    Assessment,
    LogEstimates,
    ResidentsLoss,
)
from wharfinger.core.seams.estimation import ProfilingNeeds
from wharfinger.core.seams.verdicts import Preempt, WaitUntil
from wharfinger.model.allocation import Allocation, Placement, cpu_of
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Candidate,
    Decision,
    Place,
    Prediction,
    ReasonCode,
    Refuse,
    Stage,
)
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Estimate
from wharfinger.model.units import cpu_number
from wharfinger.model.view import ALL_REASONS, OffTarget, Request, Resize, View
from wharfinger.model.workload import OnMiss, WorkloadType
from wharfinger.policies.placement.best_effort import taken
from wharfinger.policies.placement.bounds import may_pay
from wharfinger.policies.placement.common import (
    ByReservation,
    is_full,
    needed,
    open_servers,
    why_refused,
)
from wharfinger.policies.placement.fragmentation import fragmentation
from wharfinger.policies.placement.resizing import (
    MEDIAN,
    ResizeSettings,
    after_resize,
    along_curve,
    by_proportion,
    follow_memory,
    follow_on_several,
    follow_target,
)
from wharfinger.policies.placement.server_options import (
    CONTENTION,
    INCOMPATIBLE,
    OK,
    ServerOptions,
    prediction_on,
    reasons_on,
)
from wharfinger.policies.placement.several import (
    CHEAPER,
    WORTH,
    ServerChoice,
    ServerSet,
    best_set,
    best_when_empty,
    cheaper_set,
    one_more,
    scale_out,
    with_next,
    zones_of,
)
from wharfinger.policies.placement.sizing import (
    REACHABLE,
    REJECTED,
    SizingSettings,
    cold_start,
    kept_alone,
    kept_probabilities,
    prediction,
    size,
)
from wharfinger.policies.placement.taking_back import in_the_way, without_best_effort


@dataclass(frozen=True, slots=True)
class QuasarSettings:
    """Every constant of the policy.

    Attributes:
        sizing: Of how much CPU a target takes; its confidence also holds for how much any
            workload is slowed.
        best_effort_confidence: The confidence for best-effort work, which can be suspended.
        patience_seconds: Wait after which a workload is placed although that costs one target;
            half of it for half a target; no longer than its own target bears, if it is known how
            long it runs. After so long a copy takes less CPU than is stated, if less is free.
        idle_share: Of the idle CPU that the profiling of one workload may take, to measure it on
            more than two platforms; 0 = on two, as published (Quasar 3.2).
        sources: How many sources of interference are injected beside its copy, while it waits; of
            others scores are predicted. As published, and where there is only one server: 2.
        service_sources: At least so many for a service where residents share cores: it has no end.
        start_first: While no more than this share of all CPU is allocated, a workload starts
            before its profile where that would cost its target more than it tells, as under
            ``paragon``; 0 = never.
        beside: Whether copies of what starts so, and may be restarted, run beside it.
        measures_best_effort: Whether best-effort work is run on several platforms, on idle CPU.
        performance_weight: Targets that one unit of the logarithm of performance counts as, the
            newcomer's and residents'.
        fragmentation_weight: The price of CPU where few servers have room for the sizes that others
            hold, in targets for each later workload that finds no room.
        same_score: Scores that differ by less are the same, since what is known of neighbors is
            uncertain: of servers that take the same CPU the emptiest is chosen.
        resizing: Of following a target.
    """

    sizing: SizingSettings = field(default_factory=SizingSettings)
    best_effort_confidence: float = 0.5
    patience_seconds: float = 60.0
    idle_share: float = 0.25
    sources: int = 0
    service_sources: int = 2
    start_first: float = 0.35
    beside: bool = True
    measures_best_effort: bool = True
    performance_weight: float = 0.3
    fragmentation_weight: float = 2.0
    same_score: float = 0.05
    resizing: ResizeSettings = field(default_factory=ResizeSettings)


def _curves(request: Request, off: OffTarget, view: View) -> list[TargetPart]:
    """How its performance over its target goes by CPU, as far as that is classified."""
    classification = request.classification
    if classification is None:
        return []
    waited, period = request.waited_seconds, view.capabilities.quota_period_seconds
    offered = off.offered_per_second
    parts = parts_of(request.workload, classification, waited, period, offered)
    if not parts and classification.shape is not None:
        return [TargetPart(classification.shape, 1.0)]
    return parts


def _servers(count: int) -> str:
    return "1 server" if count == 1 else f"{count} servers"


def _after_growth(
    parts: list[TargetPart],
    before: tuple[Placement, ...],
    after: tuple[Placement, ...],
    off: OffTarget,
) -> float:
    """Performance over target with another allocation on the same servers."""
    share = cpu_of(after) / cpu_of(before)
    if not parts:
        return off.normalized * share
    held = before[0].allocation.cpu_millicpus
    now, then = (normalized_with(parts, cpu, MEDIAN).mean for cpu in (held, round(held * share)))
    return off.normalized * then / now


def _with_parts(listed: tuple[Candidate, ...], found: ServerSet) -> tuple[Candidate, ...]:
    """The candidates, of which the first are the chosen ones, with what each gets and gives."""
    parts = zip(found.cpu_millicpus, found.shares, strict=True)
    told = [
        replace(one, numbers={**one.numbers, GIVEN: float(cpu), SHARE: share})
        for one, (cpu, share) in zip(listed, parts, strict=False)
    ]
    return (*told, *listed[len(told) :])


GIVEN, SHARE = "cpu_given_millicpus", "predicted_share"
"""Of a server among several: its CPU, and what it gives of the performance over target."""
LEAST_WAIT_SECONDS = 1e-3
"""So that what is borne then is not a rounding error short of it."""
SAME_GAIN = 0.01
"""Expected targets by which servers are told apart; among others CPUs decide."""
LOST = 0.5
"""Targets of residents that may be lost for a newcomer in expectation: more likely than not."""
SAME_LOSS = 0.05
"""Targets of residents: by more no further server may cost, so that less CPU is taken."""
WORTHWHILE = 0.5
"""Of the CPU that is added in place, what it must add of performance, where servers come, too."""
LEAST_DIFFERENCE = 1e-4
"""Of the scores of an empty and of a full server that are else as good as one another."""


def expected_run_seconds(request: Request) -> float | None:
    """How long it runs at the pace of its target, as far as that is stated; ``None`` = unknown."""
    workload, target = request.workload, request.workload.target
    if workload.expected_seconds is not None:
        return workload.expected_seconds
    if target is None:
        return workload.run.time_limit_seconds
    if target.completion_seconds is not None:
        return target.completion_seconds
    total = workload.measure.progress_total
    if total is None and request.classification is not None:
        total = request.classification.total
    if total is not None and target.rate_per_second is not None:
        return total / target.rate_per_second
    return workload.run.time_limit_seconds


def _ranked_by_gain(score: Array, gain: Array, possible: NDArray[np.bool_]) -> Array:
    """(S,) scores by which the servers of most gain come first, as far as that is told apart."""
    if not possible.any():
        return score
    steps = np.floor((gain[possible].max() - gain) / SAME_GAIN)
    return np.asarray(steps + score / (1.0 + float(score[possible].max())))


class Quasar(ByReservation):
    """Least resources that reach the target, beside neighbors that tolerate it."""

    name = "quasar"
    follows_targets = True
    keeps_scale = True

    def __init__(self, settings: QuasarSettings | None = None) -> None:
        self.settings: QuasarSettings = settings or QuasarSettings()
        self._confidence = self.settings.sizing.confidence

    @property
    def profiling(self) -> ProfilingNeeds:
        """Two sizes, and what is stated on as many platforms as idle CPU holds."""
        own = self.settings
        return ProfilingNeeds(
            stated=True,
            sizes=2,
            sources=own.sources,
            service_sources=own.service_sources,
            idle_share=own.idle_share,
            start_first=own.start_first,
            beside=own.beside,
            best_effort=own.measures_best_effort,
            patience_seconds=own.patience_seconds,
        )

    def place(self, request: Request, view: View) -> Place | Refuse | WaitUntil | Preempt:
        """Size on each server, drop those that don't fit, rank the others."""
        shared = view.capabilities.shares_cpus
        if shared and request.told >= ALL_REASONS and self._nothing_is_free(request, view):
            return Refuse(Decision(Stage.PLACEMENT, self.name, False, ReasonCode.NO_ROOM, ""))
        contention = self._contention(request, view)
        if request.pays is not None and not self._may_pay(request, view, contention):
            return self._pays_not()
        options = self._look(request, view, contention)
        out_of_reach = self._is_out_of_reach(options)
        # What has run once is admitted: a program that crashed while off its target runs again.
        if out_of_reach and request.workload.on_miss is OnMiss.REJECT and not request.restarted:
            return self._rejected(options)
        ranked = options.best()
        if (taken := self._taken_back(options, ranked)) is not None:
            return taken
        if not ranked.size:
            return self._refuse(options)
        best = int(ranked[0])
        several = self._several(best, options)
        if (wanted := self._waits_for_all(best, several, options)) is not None:
            return self._gang(wanted, options)
        if several is not None:
            return self._place_on(several, options, ranked)
        allocation = options.allocation(int(options.need[best]))
        predicted = prediction_on(best, options)
        if predicted is not None and request.pays is not None and not request.pays(predicted):
            return self._pays_not()
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.WILL_MISS if out_of_reach else ReasonCode.OK,
            message=self._why(best, options),
            considered=len(view.names),
            candidates=options.candidates(ranked),
            numbers=self._numbers(allocation, options),
            predicted=predicted,
        )
        return Place((Placement(view.names[best], allocation),), decision)

    def _taken_back(self, options: ServerOptions, ranked: NDArray[np.intp]) -> Preempt | None:
        """What best-effort work holds, where its target is surer kept there than on what is free.

        What runs takes nothing back: it moves where there is room.
        """
        request, view, sizing = options.request, options.view, options.sizing
        if ranked.size and (sizing is None or sizing.reached[ranked[0]]):
            return None
        lent = without_best_effort(request, view) if request.may_preempt else None
        if lent is None:
            return None
        wider = self._look(request, lent, self._contention(request, lent))
        if not (rows := wider.best()).size:
            return None
        row = int(rows[0])
        allocation = wider.allocation(int(wider.need[row]))
        victims = in_the_way(view, row, allocation)
        if not victims or (ranked.size and wider.kept(row) < options.kept(ranked[0]) + WORTH):
            return None
        names, server = " and ".join(victims), view.names[row]
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.PREEMPTING,
            message=f"best-effort {names} {'leave' if victims[1:] else 'leaves'} {server} for it",
            considered=len(view.names),
            candidates=wider.candidates(rows),
            numbers=self._numbers(allocation, wider),
            predicted=prediction_on(row, wider),
        )
        return Preempt(tuple(victims), decision, (Placement(server, allocation),))

    def _pays_not(self) -> Refuse:
        return Refuse(Decision(Stage.PLACEMENT, self.name, False, ReasonCode.WOULD_NOT_HELP, ""))

    def _nothing_is_free(self, request: Request, view: View) -> bool:
        """Whether no server has room for the least that it could get."""
        least = request.reserved(view.capabilities)
        if not request.workload.best_effort:
            fractional = view.capabilities.fractional_cpu
            step = self.settings.sizing.step_millicpus if fractional else MILLICPUS_PER_CPU
            least = replace(least, cpu_millicpus=min(step, least.cpu_millicpus or step))
        return is_full(request, least, view)

    def _confidence_for(self, request: Request) -> float:
        best_effort = request.workload.best_effort
        return self.settings.best_effort_confidence if best_effort else self._confidence

    def _may_pay(self, request: Request, view: View, contention: Assessment) -> bool:
        outs = scale_out(request.workload, request.classification, view.capabilities)
        return len(outs) > 1 or may_pay(request, view, contention, self._sizing(view))

    def _sizing(self, view: View) -> SizingSettings:
        return self.settings.sizing.on_engine(view.capabilities)

    def _contention(self, request: Request, view: View) -> Assessment:
        if view.contention is None:
            return Assessment(len(view.names))
        return view.contention.assess(request, view, self._confidence_for(request))

    def _look(self, request: Request, view: View, contention: Assessment) -> ServerOptions:
        reserved, best_effort = request.reserved(view.capabilities), request.workload.best_effort
        outs, sizing = scale_out(request.workload, request.classification, view.capabilities), None
        if not best_effort:
            most_out = max(outs.values(), key=attrgetter("mean"))
            sizing = size(request, view, contention, self._sizing(view), most_out)
        need = np.full(len(view.names), reserved.cpu_millicpus, dtype=np.int64)
        if sizing is not None:
            need = sizing.cpu_millicpus
        reasons = reasons_on(request, need, reserved.memory_bytes, view)
        score, memory_bytes = np.full(len(need), inf), reserved.memory_bytes
        options = ServerOptions(
            request, view, need, memory_bytes, reasons, score, sizing, contention, outs
        )
        possible = reasons == OK
        if (apart := contention.incompatible) is not None:
            reasons[possible & apart] = INCOMPATIBLE
            possible &= ~apart
        return self._ranked(options, possible) if possible.any() else options

    def _ranked(self, options: ServerOptions, possible: NDArray[np.bool_]) -> ServerOptions:
        """With the scores of those that could take it, and what is refused for contention."""
        request, view, need = options.request, options.view, options.need
        sizing, does, loss, reasons = options.sizing, options.does, options.loss, options.reason
        best_effort = request.workload.best_effort
        score = need / 1000.0 + options.cost.waste
        if options.left is not None:
            score = options.left.max() - options.left + LEAST_DIFFERENCE * taken(view)
        own = np.zeros(1)
        if sizing is not None and does is not None:
            own = sizing.kept_probabilities(does)
        elif (does := cold_start(request, view, options.contention)) is not None:
            own = kept_probabilities(does, request.workload.tolerance)
            own = np.minimum(own, self._confidence_for(request))
        gain = self._gain(own, does, options.contention, loss)
        if best_effort:  # Where targets lose least, then where it does best.
            gain = -loss.targets - self.settings.performance_weight * loss.performance
        gain = gain - self.settings.fragmentation_weight * fragmentation(view, need)
        # No more targets are lost for it than it keeps; the longer it waits, the more.
        bearable = np.maximum(own, self._borne(request))
        kept = possible & ((loss.targets < LOST) | (loss.targets <= bearable))
        reasons[possible & ~kept] = CONTENTION
        if not best_effort and kept.any():
            self._prefer_empty(options, score, kept & (gain >= gain[kept].max() - SAME_GAIN))
        options.score[:] = np.where(kept, _ranked_by_gain(score, gain, kept), inf)
        return options

    def _servers(self, options: ServerOptions) -> ServerChoice:
        view = options.view
        return ServerChoice(
            view.cpu_capacity - view.cpu_allocated,
            np.isfinite(options.score),
            options.lost,
            options.outs,
            self.settings.sizing.plateau,
            zones_of(options.request, view),
        )

    def _several(self, best: int, options: ServerOptions) -> ServerSet | None:
        """Those that together are surer than the best, or as sure with less CPU."""
        sizing = options.sizing
        if sizing is None or max(options.outs) < 2:
            return None
        servers = self._servers(options)
        if sizing.reached[best]:
            most = round(CHEAPER * int(options.need[best]))
            if most < 2 * sizing.curve.sizes[0]:
                return None
            found = cheaper_set(sizing, servers, most)
            return found if found and found.lost <= float(options.lost[best]) + SAME_LOSS else None
        found = best_set(sizing, servers)
        if found is None or found.lost > max(found.kept, LOST):
            return None
        if found.kept >= sizing.confidence:
            return found
        more = found.kept - sizing.kept_probability(sizing.normalized_on(best))
        return found if more >= WORTH * (len(found.rows) - 1) else None

    def _waits_for_all(
        self, best: int, several: ServerSet | None, options: ServerOptions
    ) -> ServerSet | None:
        """What a gang waits for: its target is kept with all of it, and not with what is free."""
        sizing, request, view = options.sizing, options.request, options.view
        if sizing is None or not request.workload.scale.gang or sizing.reached[best]:
            return None
        if max(options.outs) < 2 or (several and several.kept >= sizing.confidence):
            return None
        usable, suffered = open_servers(request, view) > 0, options.contention.suffered
        given = options.outs, self.settings.sizing.plateau, zones_of(request, view)
        found = best_when_empty(sizing, suffered, view.cpu_capacity, usable, *given)
        return found if found and found.kept >= sizing.confidence else None

    def _gang(self, wanted: ServerSet, options: ServerOptions) -> Refuse:
        cpu = cpu_number(max(wanted.cpu_millicpus))
        room = f"{len(wanted.rows)} servers with up to {cpu} CPU each"
        why = (
            f"its servers start together: {room} would keep its target, what is free now would not"
        )
        mend = f"room on {room}; with scale.gang: false it starts with what there is"
        return self._refusal(options, ReasonCode.NO_ROOM, why, mend)

    def _place_on(
        self, found: ServerSet, options: ServerOptions, ranked: NDArray[np.intp]
    ) -> Place | Refuse:
        names, sizing, request = options.view.names, options.sizing, options.request
        assert sizing is not None
        placements = tuple(
            Placement(names[row], options.allocation(cpu))
            for row, cpu in zip(found.rows, found.cpu_millicpus, strict=True)
        )
        given = [f"{cpu_number(p.allocation.cpu_millicpus)} CPU on {p.server}" for p in placements]
        does, one = f"{found.normalized.mean:.0%}", sizing.normalized_on(int(ranked[0])).mean
        sure = found.kept >= sizing.confidence
        reach = f"reach the target with {sizing.confidence:.0%} confidence"
        if not sure:
            reach = f"come nearest: {does} of the target, kept with {found.kept:.0%} probability"
        alone = f"gives {one:.0%}"
        if sizing.reached[ranked[0]]:
            alone = f"takes {cpu_number(int(options.need[ranked[0]]))} CPU"
        message = f"{', '.join(given)} {reach}; one server alone {alone}"
        numbers, more = {"servers": float(len(found.rows)), "one_server_pace": one}, None
        if len(found.rows) < max(options.outs):
            more = with_next(sizing, found, self._servers(options))
        if more is not None:
            numbers["next_server_pace"] = more.normalized.mean
            numbers["next_server_kept_probability"] = more.kept
            message += (
                f"; {names[more.rows[-1]]} as well would make that {more.normalized.mean:.0%}, "
                f"kept with {more.kept:.0%} probability"
            )
        rows = [*found.rows, *(row for row in ranked.tolist() if row not in found.rows)]
        listed = np.array(rows[:CANDIDATES_KEPT], dtype=np.intp)
        out_of_reach = found.kept < self.settings.sizing.hopeless
        cpu = sum(found.cpu_millicpus)
        predicted = replace(
            prediction(found.normalized, sizing.confidence),
            target=request.workload.target,
            cpu_millicpus=cpu,
        )
        if request.pays is not None and not request.pays(predicted):
            return self._pays_not()
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.WILL_MISS if out_of_reach else ReasonCode.OK,
            message=message,
            considered=len(names),
            candidates=_with_parts(options.candidates(listed), found),
            numbers=self._numbers(options.allocation(cpu), options) | numbers,
            predicted=predicted,
        )
        return Place(placements, decision)

    def _gain(
        self, kept: Array, does: LogEstimates | None, contention: Assessment, loss: ResidentsLoss
    ) -> Array:
        """(S,) expected targets that are kept with it there, its own less those of residents.

        What performance changes beyond that counts by its weight, in logarithms.
        """
        performance = -contention.suffered.mean
        if does is not None:  # More than was asked for is worth nothing to anyone.
            performance = np.minimum(does.mean, 0.0)
        weight = self.settings.performance_weight
        return np.asarray(kept - loss.targets + weight * (performance - loss.performance))

    def _borne(self, request: Request) -> float:
        """Targets of others that may be lost for it, since it has waited for so long."""
        if request.workload.best_effort:
            return 0.0
        patience = self._patience(request)
        return request.waited_seconds / patience if patience > 0 else inf

    def _patience(self, request: Request) -> float:
        """What its target bears of waiting: its tolerance of the time that it runs."""
        seconds, patience = expected_run_seconds(request), self.settings.patience_seconds
        return patience if seconds is None else min(patience, request.workload.tolerance * seconds)

    def _is_out_of_reach(self, options: ServerOptions) -> bool:
        sizing = options.sizing
        return sizing is not None and sizing.best_probability < self.settings.sizing.hopeless

    def _prefer_empty(
        self, options: ServerOptions, score: NDArray[np.float64], kept: NDArray[np.bool_]
    ) -> None:
        """Rank what is as good as the best by how much of its CPU is taken.

        Where CPUs are whole, a faster one is no smaller need: the slowest platform that does first.
        """
        need, view, sizing, does = options.need, options.view, options.sizing, options.does
        if self.settings.same_score <= 0 or not kept.any():
            return
        best = np.where(kept, score, inf).argmin()
        same = kept & (need == need[best]) & (score <= score[best] + self.settings.same_score)
        taken = view.cpu_allocated[same] / view.cpu_capacity[same]
        if not view.capabilities.shares_cpus and sizing is not None and does is not None:
            alone = (does.mean + options.contention.suffered.mean)[same]
            taken += np.floor(alone / SAME_GAIN) * bool(sizing.reached[same].all())
        score[same] = score[best] + LEAST_DIFFERENCE * (taken - taken.max())

    def _numbers(self, allocation: Allocation, options: ServerOptions) -> dict[str, float]:
        numbers = needed(allocation)
        if options.sizing is not None:
            numbers["confidence"] = options.sizing.confidence
            numbers["waited_seconds"] = options.request.waited_seconds
        return numbers

    def _why(self, row: int, options: ServerOptions) -> str:
        name, sizing, harm = options.view.names[row], options.sizing, ""
        if options.request.workload.best_effort:
            return f"{name} should give it the most of what others leave"
        if options.violation[row] > 0:
            worst = options.contention.worst(row)
            possible = np.isfinite(options.score)
            where = "there" if (options.violation[possible] == 0).any() else "on every server"
            harm = f"; {where} a workload is slowed beyond what it tolerates, here {worst}"
        cpu = f"{cpu_number(int(options.need[row]))} CPU"
        if sizing is None:
            return f"no prediction: its reservation of {cpu}, on {name}{harm}"
        sure = f"{sizing.confidence:.0%}"
        if sizing.reached[row]:
            return (
                f"{cpu} on {name} reaches the target with {sure} confidence; less would not{harm}"
            )
        does = sizing.normalized_on(row)
        probability = sizing.kept_probability(does)
        expected = (
            f"{does.mean:.0%} of the target are expected, which is kept with {probability:.0%}"
        )
        if self._is_out_of_reach(options):
            alone = kept_alone(sizing.best_probability)
            return (
                f"the target is out of reach ({alone}): {cpu} on {name} comes nearest of what is "
                f"free; {expected} probability{harm}"
            )
        return f"{cpu} on {name} comes nearest of what is free: {expected}, not {sure}{harm}"

    def _refuse(self, options: ServerOptions) -> Refuse | WaitUntil:
        if miss := options.nearest_miss():
            refusal = self._refusal(options, *miss)
            request = options.request
            after = options.bearable_after(self._patience(request))
            if miss[0] is ReasonCode.INTERFERENCE and after is not None:
                # Where nothing else happens until then, nobody would ask again.
                left = max(after - request.waited_seconds, 0.0) + LEAST_WAIT_SECONDS
                return WaitUntil(request.now + left, refusal.decision)
            return refusal
        # Where it could be given nothing at all, a server is too small whatever it has.
        request, view, sizes = options.request, options.view, options.need
        if not request.workload.best_effort:
            sizes = np.where(sizes > 0, sizes, np.maximum(view.cpu_capacity + 1, 1))
        need = options.allocation(int(sizes.min()) if sizes.size else 0)
        reason, why, mend = why_refused(request, need, sizes, view)
        refusal = self._refusal(options, reason, why, mend)
        numbers = self._numbers(need, options)
        return replace(refusal, decision=replace(refusal.decision, numbers=numbers))

    def _rejected(self, options: ServerOptions) -> Refuse:
        sizing = options.sizing
        assert sizing is not None
        why = f"{REJECTED}: {kept_alone(sizing.best_probability)}"
        nowhere = replace(options, score=np.full(len(options.need), inf))
        predicted = prediction(sizing.curve.best(), self._confidence)
        return self._refusal(nowhere, ReasonCode.WILL_MISS, why, REACHABLE, predicted)

    def _refusal(
        self,
        options: ServerOptions,
        reason: ReasonCode,
        why: str,
        mend: str,
        predicted: Prediction | None = None,
    ) -> Refuse:
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=False,
            reason=reason,
            message=why,
            would_change=mend,
            considered=len(options.need),
            candidates=options.candidates_unless_told(reason),
            predicted=predicted,
        )
        return Refuse(decision, cpu_needed=options.need)

    def _out(
        self,
        request: Request,
        placements: tuple[Placement, ...],
        view: View,
        verdict: Place | Refuse | None,
        known: Callable[[], list[TargetPart]],
    ) -> Place | None:
        """One server more, where what can be had on its own does not keep the target."""
        off, count = request.off_target, len(placements)
        if off is None or not off.lacks or view.capabilities.resize is not Resize.ANY:
            return None
        if request.workload.scale.gang:
            return None  # All its servers have started together.
        outs = scale_out(request.workload, request.classification, view.capabilities)
        if count + 1 not in outs:
            return None
        if (
            request.workload.type is WorkloadType.LATENCY_CRITICAL
            and verdict is not None
            and verdict.decision.reason is ReasonCode.WOULD_NOT_HELP
        ):
            return None  # It is not its load that is too much.
        if isinstance(verdict, Place):
            does = _after_growth(known(), placements, verdict.placements, off)
            if does >= 1 - request.workload.tolerance:
                return None
        held = {view.row(p.server): p.allocation.cpu_millicpus for p in placements}
        elsewhere = replace(request, excluded=request.excluded | held.keys())
        if self._nothing_is_free(elsewhere, view):
            return None
        options = self._look(elsewhere, view, self._contention(elsewhere, view))
        if options.sizing is None:
            return None
        more = one_more(
            options.sizing,
            options.contention.suffered.mean,
            held,
            view.cpu_capacity - view.cpu_allocated,
            np.isfinite(options.score),
            options.lost,
            outs,
            self.settings.resizing.margin / max(off.normalized, LEAST_DIFFERENCE),
            self.settings.sizing.plateau,
            zones_of(request, view),
            None if off.offered_per_second is None else self._confidence,
        )
        if more is None or more.factor < 1 + self.settings.resizing.min_step:
            return None
        added = Placement(view.names[more.row], options.allocation(more.cpu_millicpus))
        predicted = prediction(
            Estimate(off.normalized * more.factor, outs[count + 1].std), self._confidence
        )
        cpu = sum(held.values()) + more.cpu_millicpus
        decision = Decision(
            stage=Stage.ADAPTATION,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=(
                f"for {off.for_seconds:.0f} s it ran at {off.normalized:.0%} of its target: "
                f"{cpu_number(more.cpu_millicpus)} CPU on {added.server} make {count + 1} servers, "
                f"which should give {predicted.mean:.0%}"
            ),
            considered=len(view.names),
            candidates=options.candidates(np.array([more.row], dtype=np.intp)),
            numbers={**needed(added.allocation), "pace": off.normalized},
            predicted=replace(predicted, target=request.workload.target, cpu_millicpus=cpu),
        )
        return Place((*placements, added), decision)

    def _out_for_load(
        self,
        request: Request,
        off: OffTarget,
        placements: tuple[Placement, ...],
        view: View,
        verdict: Place | Refuse | None,
        known: Callable[[], list[TargetPart]],
    ) -> Place | None:
        """As many servers more as the load that is offered takes, at once."""
        held, holds = placements, off.normalized
        if isinstance(verdict, Place):
            holds = _after_growth(known(), held, verdict.placements, off)
            if holds >= 1:
                return None
            more_cpu = cpu_of(verdict.placements) / cpu_of(held) - 1
            if holds / off.normalized - 1 >= WORTHWHILE * more_cpu:
                held = verdict.placements
            else:
                holds = off.normalized
        added: Place | None = None
        while holds < 1:
            step = replace(request, off_target=replace(off, normalized=holds))
            more = self._out(step, held, view, None, known)
            if more is None or more.decision.predicted is None:
                break
            held, holds, added = more.placements, more.decision.predicted.mean, more
        if added is None:
            return None
        before, after = (
            f"{cpu_number(cpu_of(each))} CPU on {_servers(len(each))}"
            for each in (placements, held)
        )
        message = (
            f"{off.asked}, of which {before} hold "
            f"{off.normalized:.0%}: {after} should hold {holds:.0%}"
        )
        return Place(held, replace(added.decision, message=message))

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """Along the curve that was classified, from how it does now."""
        classification, off, settings = request.classification, request.off_target, self.settings
        if request.workload.target is None or request.lost:
            return super().resize(request, placements, view)
        if off is None:
            return follow_memory(self.name, request, placements, view)

        @cache
        def known() -> list[TargetPart]:
            return _curves(request, off, view)

        # By how it does it is corrected again; a load that has come is to be held at once.
        sure = MEDIAN if off.offered_per_second is None else self._confidence

        def wanted(held: Allocation, off: OffTarget) -> int:
            margin = settings.resizing.margin
            along = along_curve(known(), held, off, view, margin, settings.sizing, sure)
            return along or by_proportion(held, off, settings.resizing)

        if len(placements) > 1:
            verdict = follow_on_several(
                self.name, request, placements, view, settings.resizing, known
            )
        else:
            verdict = follow_target(self.name, request, placements, view, settings.resizing, wanted)
        if isinstance(verdict, Place) and len(verdict.placements) < len(placements):
            return verdict  # It leaves those that slow it, and takes no other at once.
        if off.offered_per_second is not None:
            more = self._out_for_load(request, off, placements, view, verdict, known)
        else:
            more = self._out(request, placements, view, verdict, known)
        if more is not None or len(placements) > 1:
            return more or verdict
        if not isinstance(verdict, Place) or classification is None or not (parts := known()):
            return verdict
        before, after = placements[0].allocation, verdict.placements[0].allocation
        predicted = after_resize(parts, before, after, off, self._confidence)
        stated, cpu = request.workload.target, after.cpu_millicpus
        predicted = replace(predicted, target=stated, cpu_millicpus=cpu)
        row, drop = view.row(placements[0].server), None
        if view.contention is not None:
            drop = view.contention.drop_of(row, view.platforms[view.platform[row]], classification)
        if drop is not None:
            std = normalized_with(parts, after.cpu_millicpus, MEDIAN).std
            predicted = replace(predicted, alone=predicted.mean * exp(drop), alone_std=std)
        return Place(verdict.placements, replace(verdict.decision, predicted=predicted))
