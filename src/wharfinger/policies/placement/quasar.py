"""Quasar: a performance target, not a reservation; sized and placed in one decision.

Source: Quasar 3.3 (joint allocation and assignment), Paragon 3.1 and 3.2 (neither the newcomer nor
a resident is slowed beyond what it tolerates). Added: a target counts as kept at a stated
confidence; where it is out of reach, servers are ranked by the probability that it is kept; an
unclassified workload gets its reservation.
"""

from dataclasses import dataclass, field, replace
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import TargetPart, normalized_with, parts_of
from wharfinger.core.seams.contention import POINTS, Assessment
from wharfinger.core.seams.estimation import ProfilingNeeds
from wharfinger.core.seams.verdicts import WaitUntil
from wharfinger.model.allocation import Allocation, Placement
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
from wharfinger.model.units import cpu_number
from wharfinger.model.view import OffTarget, Request, View
from wharfinger.model.workload import OnMiss
from wharfinger.policies.placement.common import (
    ByReservation,
    candidates,
    needed,
    open_servers,
    refuse,
)
from wharfinger.policies.placement.resizing import (
    MEDIAN,
    ResizeSettings,
    after_resize,
    along_curve,
    by_proportion,
    follow_memory,
    follow_target,
)
from wharfinger.policies.placement.sizing import (
    REACHABLE,
    REJECTED,
    Sizing,
    SizingSettings,
    kept_alone,
    prediction,
    size,
)


@dataclass(frozen=True, slots=True)
class QuasarSettings:
    """Every constant of the policy.

    Attributes:
        sizing: Of how much CPU a target takes; its confidence also holds for how much any
            workload is slowed.
        best_effort_confidence: The confidence for best-effort work, which can be suspended.
        patience_seconds: Wait after which a workload is placed although that costs one target;
            half of it for half a target. It is no longer than its own target bears, where it is
            known how long it runs.
        idle_share: Of the idle CPU that the profiling of one workload may take, to measure it on
            more than two platforms; 0 = on two, as published (Quasar 3.2).
        same_score: Scores that differ by less are the same, since what is known of neighbors is
            uncertain: of servers that take the same CPU the emptiest is chosen.
        resizing: Of following a target.
    """

    sizing: SizingSettings = field(default_factory=SizingSettings)
    best_effort_confidence: float = 0.5
    patience_seconds: float = 60.0
    idle_share: float = 0.25
    same_score: float = 0.05
    resizing: ResizeSettings = field(default_factory=ResizeSettings)


LEAST_WAIT_SECONDS = 1e-3
"""So that what is borne then is not a rounding error short of it."""
FAR = 4.0
"""Quantiles of the normal distribution beyond which probabilities are not told apart."""
SAME_QUANTILE = 0.1
"""Nor are those that differ by less: by 4% at most."""
SAME_LOG = 0.01
MOST_STEPS = 500.0
"""Of ``SAME_LOG``, by which performance is told apart: to e ** -5."""
LEAST_DIFFERENCE = 1e-4
"""Of the scores of an empty and of a full server that are as good as the other."""
NOWHERE = np.array([], dtype=np.intp)
CODES = (
    ReasonCode.NO_SERVERS,
    ReasonCode.SERVERS_EXCLUDED,
    ReasonCode.TOO_LARGE,
    ReasonCode.NO_ROOM,
    ReasonCode.OFF_PREDICTION,
    ReasonCode.OK,
    ReasonCode.INTERFERENCE,
    ReasonCode.DOES_NOT_FIT,
)
_NO_SERVERS, _EXCLUDED, TOO_LARGE, _NO_ROOM, OFF_PREDICTION, OK, CONTENTION, INCOMPATIBLE = range(8)
"""Indices in ``CODES``."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """All S servers, looked at for one workload.

    Attributes:
        need: (S,) thousandths of a CPU that it would get.
        reason: (S,) index in ``CODES``; that of ``OK`` where it could go.
        score: (S,) lower is better; infinite where it can't go.
        sizing: ``None`` where it goes by its reservation.
        violation: (S,) in points; 0 = no workload is slowed beyond what it tolerates.
        lost: (S,) the part of it that is targets.
        relaxed: No server keeps all workloads within that and the target with the confidence.
    """

    request: Request
    view: View
    need: NDArray[np.int64]
    memory_bytes: int
    reason: NDArray[np.int64]
    score: NDArray[np.float64]
    sizing: Sizing | None
    contention: Assessment
    violation: NDArray[np.float64]
    lost: NDArray[np.float64]
    relaxed: bool

    def allocation(self, cpu_millicpus: int) -> Allocation:
        """What it would get with so much CPU."""
        best_effort = self.request.workload.best_effort
        return Allocation(cpu_millicpus, self.memory_bytes, best_effort)

    def best(self) -> NDArray[np.intp]:
        """The rows that a decision records, best first; those that reach the target come first."""
        possible, kept = np.isfinite(self.score), CANDIDATES_KEPT
        reached = possible if self.sizing is None else possible & self.sizing.reached
        first = _lowest(np.flatnonzero(reached), self.score, kept)
        others = np.flatnonzero(possible & ~reached) if len(first) < kept else NOWHERE
        return np.concatenate((first, _lowest(others, self.score, kept - len(first))))

    def nearest_miss(self) -> tuple[ReasonCode, str, str] | None:
        """Why a server with room can't take it, as a code and in words; what would change that."""
        rows = np.flatnonzero(np.isin(self.reason, (OFF_PREDICTION, CONTENTION, INCOMPATIBLE)))
        if not rows.size:
            return None
        row = int(rows[self.violation[rows].argmin()])
        server, reason = self.view.names[row], CODES[int(self.reason[row])]
        if reason is ReasonCode.OFF_PREDICTION:
            why = f"a workload on {server} runs off its prediction: no new work until it does not"
            return reason, why, "that one as predicted again, or room on another server"
        if reason is ReasonCode.DOES_NOT_FIT:
            why = f"it would not fit beside the residents of {server}"
            return reason, why, f"the end of a resident of {server}, or room on another server"
        why = f"it would slow the residents of {server}: {self.contention.refusal(row)}"
        return reason, why, f"fewer or less sensitive neighbors on {server}, or another server"

    def bearable_after(self, patience_seconds: float) -> float | None:
        """After how many seconds it is placed although that costs targets; ``None`` = never."""
        rows = np.flatnonzero(self.reason == CONTENTION)
        if self.request.workload.best_effort or not rows.size:
            return None
        return float(self.lost[rows].min()) / POINTS * patience_seconds

    def candidates(self, best: NDArray[np.intp]) -> tuple[Candidate, ...]:
        """The best, then those that can't take it, each with its numbers."""
        others = np.flatnonzero(~np.isfinite(self.score))[: CANDIDATES_KEPT - len(best)]
        rows = [*best.tolist(), *others.tolist()]
        scores = [score if score < inf else None for score in self.score[rows].tolist()]
        reasons = [CODES[reason] for reason in self.reason[rows].tolist()]
        listed = candidates(self.view, rows, scores, reasons)
        return tuple(
            Candidate(one.server, one.score, one.reason, {**one.numbers, **self._numbers(row)})
            for row, one in zip(rows, listed, strict=True)
        )

    def _numbers(self, row: int) -> dict[str, float]:
        numbers = {"cpu_needed_millicpus": float(self.need[row])}
        if self.sizing is not None and self.need[row] > 0:
            predicted = self.sizing.interval_on(row)
            numbers["predicted_pace"] = predicted.mean
            numbers["predicted_pace_low"] = predicted.low
            numbers["kept_probability"] = self.sizing.kept_probability(row)
        if self.contention.informed:
            numbers["interference_beyond_tolerated"] = float(self.violation[row])
        return numbers | self.contention.numbers(row)


def _lowest(rows: NDArray[np.intp], score: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Rows with the lowest scores, lowest first, ties in their order."""
    scores = score[rows]
    if count < len(rows):
        low = scores <= np.partition(scores, count - 1)[count - 1] if count else rows < 0
        rows, scores = rows[low], scores[low]
    return rows[np.argsort(scores, kind="stable")][:count]


def _reasons_on(
    request: Request, need: NDArray[np.int64], memory_bytes: int, view: View
) -> NDArray[np.int64]:
    """(S,) why each server can't take it now, as an index in ``CODES``."""
    cpu = view.cpu_capacity
    too_large = (need > cpu) | (memory_bytes > view.memory_capacity)
    if not request.workload.best_effort:
        too_large |= need == 0
    full = (view.cpu_allocated + need > cpu) | (
        view.memory_allocated + memory_bytes > view.memory_capacity
    )
    reasons = np.full(len(need), OK)
    # The last that holds is what is said.
    reasons[view.unsettled > 0] = OFF_PREDICTION
    reasons[full] = _NO_ROOM
    reasons[too_large] = TOO_LARGE
    reasons[open_servers(request, view) == 0] = _EXCLUDED
    reasons[view.accepting == 0] = _NO_SERVERS
    return reasons


def _prediction_on(row: int, options: ServerOptions) -> Prediction | None:
    if options.sizing is None:
        return None
    target = options.request.workload.target
    return options.sizing.prediction_on(row, target, int(options.need[row]))


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


def _ranked_by_target(
    score: NDArray[np.float64], sizing: Sizing, possible: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(S,) scores in which servers where the target is not sure to be kept come last.

    Of these, first by the probability that it is kept, then by performance, each as far as it is
    told apart, then by their scores, which are CPUs and contention.
    """
    unsure = possible & ~sizing.reached
    if not unsure.any():
        return score
    steps = np.round(np.clip(sizing.kept_quantiles(), -FAR, FAR) / SAME_QUANTILE)
    does = sizing.performance().mean
    worse = np.minimum(np.round((does[unsure].max() - does) / SAME_LOG), MOST_STEPS)
    within = score / (1.0 + float(score[unsure].max()))
    sure = possible & sizing.reached
    last = float(score[sure].max()) + 1.0 if sure.any() else 0.0
    ranked = last + (FAR / SAME_QUANTILE - steps) + (worse + within) / (MOST_STEPS + 1)
    return np.where(unsure, ranked, score)


class Quasar(ByReservation):
    """Least resources that reach the target, beside neighbors that tolerate it."""

    name = "quasar"
    follows_targets = True

    def __init__(self, settings: QuasarSettings | None = None) -> None:
        self.settings: QuasarSettings = settings or QuasarSettings()
        self._confidence = self.settings.sizing.confidence

    @property
    def profiling(self) -> ProfilingNeeds:
        """What sizing takes, on as many platforms as idle CPU holds."""
        return ProfilingNeeds(idle_share=self.settings.idle_share)

    def place(self, request: Request, view: View) -> Place | Refuse | WaitUntil:
        """Size on each server, drop those that don't fit, rank the others."""
        options = self._look(request, view)
        out_of_reach = self._is_out_of_reach(options)
        # What has run once is admitted: a program that crashed while off its target runs again.
        if out_of_reach and request.workload.on_miss is OnMiss.REJECT and not request.restarted:
            return self._rejected(options)
        ranked = options.best()
        if not ranked.size:
            return self._refuse(options)
        best = int(ranked[0])
        allocation = options.allocation(int(options.need[best]))
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.WILL_MISS if out_of_reach else ReasonCode.OK,
            message=self._why(best, options),
            considered=len(view.names),
            candidates=options.candidates(ranked),
            numbers=self._numbers(allocation, options),
            predicted=_prediction_on(best, options),
        )
        return Place((Placement(view.names[best], allocation),), decision)

    def _look(self, request: Request, view: View) -> ServerOptions:
        reserved, best_effort = request.reserved(view.capabilities), request.workload.best_effort
        confidence = self.settings.best_effort_confidence if best_effort else self._confidence
        contention = Assessment(len(view.names))
        if view.contention is not None:
            contention = view.contention.assess(request, view, confidence)
        sizing = None if best_effort else size(request, view, contention, self.settings.sizing)
        need = np.full(len(view.names), reserved.cpu_millicpus, dtype=np.int64)
        if sizing is not None:
            need = sizing.cpu_millicpus
        reasons = _reasons_on(request, need, reserved.memory_bytes, view)
        cost = contention.cost(reasons > TOO_LARGE, sizing.performance if sizing else None)
        possible = reasons == OK
        if (apart := contention.incompatible) is not None:
            reasons[possible & apart] = INCOMPATIBLE
            possible &= ~apart
        score = need / 1000.0 + cost.waste
        if best_effort:  # To the emptiest: by its CPU, then by its residents.
            score = view.cpu_allocated / np.maximum(view.cpu_capacity, 1) + view.residents / 100
        kept = possible & (cost.violation == 0)
        # Scores tell little of how much is lost: they decide only where the target is sure to be
        # kept. Elsewhere the newcomer's own slowdown is in the probability, and they break ties.
        sure = kept if sizing is None else kept & sizing.reached
        relaxed = not best_effort and not sure.any()
        if relaxed:
            # The longer it waits, the more points of others' targets may be lost for it.
            patience = self._patience(request)
            bearable = POINTS * request.waited_seconds / patience if patience > 0 else inf
            # Targets that are known to be lost for it are spared where there is any other server.
            kept = possible & (cost.lost <= (0.0 if kept.any() else bearable))
            score = score + cost.violation
        reasons[possible & ~kept] = CONTENTION
        if sizing is not None:
            score = _ranked_by_target(score, sizing, kept)
        score, memory_bytes = np.where(kept, score, inf), reserved.memory_bytes
        if not best_effort:
            self._prefer_empty(score, need, kept if sizing is None else kept & sizing.reached, view)
        return ServerOptions(
            request,
            view,
            need,
            memory_bytes,
            reasons,
            score,
            sizing,
            contention,
            cost.violation,
            cost.lost,
            relaxed,
        )

    def _patience(self, request: Request) -> float:
        """What its target bears of waiting: its tolerance of the time that it runs."""
        seconds, patience = expected_run_seconds(request), self.settings.patience_seconds
        return patience if seconds is None else min(patience, request.workload.tolerance * seconds)

    def _is_out_of_reach(self, options: ServerOptions) -> bool:
        sizing = options.sizing
        return sizing is not None and sizing.best_probability < self.settings.sizing.hopeless

    def _prefer_empty(
        self,
        score: NDArray[np.float64],
        need: NDArray[np.int64],
        kept: NDArray[np.bool_],
        view: View,
    ) -> None:
        """Rank what is as good as the best by how much of its CPU is taken."""
        if self.settings.same_score <= 0 or not kept.any():
            return
        best = int(np.where(kept, score, inf).argmin())
        same = kept & (need == need[best]) & (score <= score[best] + self.settings.same_score)
        taken = view.cpu_allocated[same] / view.cpu_capacity[same]
        score[same] = score[best] + LEAST_DIFFERENCE * (taken - taken.max())

    def _numbers(self, allocation: Allocation, options: ServerOptions) -> dict[str, float]:
        numbers = needed(allocation)
        if options.sizing is not None:
            numbers["confidence"] = self._confidence
            numbers["waited_seconds"] = options.request.waited_seconds
        return numbers

    def _why(self, row: int, options: ServerOptions) -> str:
        name, sizing, harm = options.view.names[row], options.sizing, ""
        if options.request.workload.best_effort:
            return f"{name} has the most idle CPU"
        if options.relaxed and options.violation[row] > 0:
            worst = options.contention.worst(row)
            possible = np.isfinite(options.score)
            where = "there" if (options.violation[possible] == 0).any() else "on every server"
            harm = f"; {where} a workload is slowed beyond what it tolerates, here {worst}"
        cpu = f"{cpu_number(int(options.need[row]))} CPU"
        if sizing is None:
            return f"no prediction: its reservation of {cpu}, on {name}{harm}"
        sure = f"{self._confidence:.0%}"
        if sizing.reached[row]:
            return (
                f"{cpu} on {name} reaches the target with {sure} confidence; less would not{harm}"
            )
        does, probability = sizing.interval_on(row).mean, sizing.kept_probability(row)
        expected = f"{does:.0%} of the target are expected, which is kept with {probability:.0%}"
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
            request, after = (
                options.request,
                options.bearable_after(self._patience(options.request)),
            )
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
        plain = refuse(self.name, request, need, view, sizes).decision
        numbers, listed = self._numbers(need, options), options.candidates(NOWHERE)
        return Refuse(replace(plain, candidates=listed, numbers=numbers), cpu_needed=options.need)

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
            candidates=options.candidates(NOWHERE),
            predicted=predicted,
        )
        return Refuse(decision, cpu_needed=options.need)

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """Along the curve that was classified, from how it does now."""
        classification, off, settings = request.classification, request.off_target, self.settings
        if request.workload.target is None:
            return super().resize(request, placements, view)
        if off is None:
            return follow_memory(self.name, request, placements, view)
        parts: list[TargetPart] = []
        if classification:
            period = view.capabilities.quota_period_seconds
            parts = parts_of(request.workload, classification, request.waited_seconds, period)
            if not parts and classification.shape is not None:
                parts = [TargetPart(classification.shape, 1.0)]

        def wanted(held: Allocation, off: OffTarget) -> int:
            margin = settings.resizing.margin
            along = along_curve(parts, held, off, view, margin, settings.sizing)
            return along or by_proportion(held, off, settings.resizing)

        verdict = follow_target(self.name, request, placements, view, settings.resizing, wanted)
        if not isinstance(verdict, Place) or classification is None or not parts:
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
