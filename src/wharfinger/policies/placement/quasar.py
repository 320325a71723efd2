"""Quasar: a performance target, not a reservation; sized and placed in one decision.

Source: Quasar 3.3 (joint allocation and assignment), Paragon 3.1 and 3.2 (neither the newcomer nor
a resident is slowed beyond what it tolerates). Added: a target counts as reached at a stated
confidence; an unclassified workload gets its reservation.
"""

from dataclasses import dataclass, field, replace
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import TargetPart, normalized_with, parts_of
from wharfinger.core.seams.contention import POINTS, Assessment
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
from wharfinger.model.view import OffTarget, Request, View
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
    follow_target,
)
from wharfinger.policies.placement.sizing import Sizing, SizingSettings, prediction, size


@dataclass(frozen=True, slots=True)
class QuasarSettings:
    """Every constant of the policy.

    Attributes:
        sizing: Of how much CPU a target takes; its confidence also holds for how much any
            workload is slowed.
        best_effort_confidence: The confidence for best-effort work, which can be suspended.
        patience_seconds: Wait after which a workload is placed although that costs one target;
            half of it for half a target.
        resizing: Of following a target.
    """

    sizing: SizingSettings = field(default_factory=SizingSettings)
    best_effort_confidence: float = 0.5
    patience_seconds: float = 3600.0
    resizing: ResizeSettings = field(default_factory=ResizeSettings)


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
        relaxed: No server keeps all workloads within that; the smallest violation was taken.
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
            why = f"a workload on {server} violates its target: no new work until it is kept again"
            return reason, why, f"every target on {server} kept again, or room on another server"
        if reason is ReasonCode.DOES_NOT_FIT:
            why = f"it would not fit beside the residents of {server}"
            return reason, why, f"the end of a resident of {server}, or room on another server"
        why = f"it would slow the residents of {server}: {self.contention.refusal(row)}"
        return reason, why, f"fewer or less sensitive neighbors on {server}, or another server"

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


class Quasar(ByReservation):
    """Least resources that reach the target, beside neighbors that tolerate it."""

    name = "quasar"

    def __init__(self, settings: QuasarSettings | None = None) -> None:
        self.settings: QuasarSettings = settings or QuasarSettings()
        self._confidence = self.settings.sizing.confidence

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Size on each server, drop those that don't fit, rank the others."""
        options = self._look(request, view)
        if options.sizing is not None and options.sizing.hopeless:
            return self._too_high(options.sizing, options)
        ranked = options.best()
        if not ranked.size:
            return self._refuse(options)
        best = int(ranked[0])
        allocation = options.allocation(int(options.need[best]))
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=self._why(best, options),
            considered=len(view.names),
            candidates=options.candidates(ranked),
            numbers=self._numbers(allocation, options),
            predicted=options.sizing.prediction_on(best) if options.sizing else None,
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
        relaxed = not best_effort and not kept.any()
        if relaxed:
            # The longer it waits, the more points of others' targets may be lost for it.
            patience = self.settings.patience_seconds
            bearable = POINTS * request.waited_seconds / patience if patience > 0 else inf
            kept = possible & (cost.lost <= bearable)
            score = score + cost.violation
        reasons[possible & ~kept] = CONTENTION
        score, memory_bytes = np.where(kept, score, inf), reserved.memory_bytes
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
            relaxed,
        )

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
            harm = f"; on every server a workload is slowed beyond what it tolerates, here {worst}"
        cpu = f"{int(options.need[row])}m CPU"
        if sizing is None:
            return f"no prediction: its reservation of {cpu}, on {name}{harm}"
        sure = f"{self._confidence:.0%}"
        if sizing.reached[row]:
            return f"{cpu} on {name} reach the target with {sure} confidence, and no less{harm}"
        return (
            f"{cpu} on {name} give the most of what is free: {sizing.interval_on(row).mean:.0%} "
            f"of the target, which is not reached with {sure} confidence{harm}"
        )

    def _refuse(self, options: ServerOptions) -> Refuse:
        if miss := options.nearest_miss():
            return self._refusal(options, *miss)
        # Where it could be given nothing at all, a server is too small whatever it has.
        request, view, sizes = options.request, options.view, options.need
        if not request.workload.best_effort:
            sizes = np.where(sizes > 0, sizes, np.maximum(view.cpu_capacity + 1, 1))
        need = options.allocation(int(sizes.min()) if sizes.size else 0)
        plain = refuse(self.name, request, need, view, sizes).decision
        numbers, listed = self._numbers(need, options), options.candidates(NOWHERE)
        return Refuse(replace(plain, candidates=listed, numbers=numbers))

    def _too_high(self, sizing: Sizing, options: ServerOptions) -> Refuse:
        predicted = prediction(sizing.curve.best(), self._confidence)
        why = (
            f"even alone on a whole server it would reach {predicted.mean:.0%} of its target "
            f"(at most {predicted.high:.0%} with {self._confidence:.0%} confidence)"
        )
        mend = "a lower target, or a larger or faster server"
        nowhere = replace(options, score=np.full(len(options.need), inf))
        return self._refusal(nowhere, ReasonCode.TARGET_TOO_HIGH, why, mend, predicted)

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
        return Refuse(decision)

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """Along the curve that was classified, from how it does now."""
        classification, off, settings = request.classification, request.off_target, self.settings
        if request.workload.target is None:
            return super().resize(request, placements, view)
        parts: list[TargetPart] = []
        if classification:
            parts = parts_of(request.workload, classification, request.waited_seconds)
            if not parts and classification.shape is not None:
                parts = [TargetPart(classification.shape, 1.0)]

        def wanted(held: Allocation, off: OffTarget) -> int:
            margin = settings.resizing.margin
            along = along_curve(parts, held, off, view, margin, settings.sizing)
            return along or by_proportion(held, off, settings.resizing)

        verdict = follow_target(self.name, request, placements, view, settings.resizing, wanted)
        if not isinstance(verdict, Place) or classification is None or off is None or not parts:
            return verdict
        before, after = placements[0].allocation, verdict.placements[0].allocation
        predicted = after_resize(parts, before, after, off, self._confidence)
        row, drop = view.row(placements[0].server), None
        if view.contention is not None:
            drop = view.contention.drop_of(row, view.platforms[view.platform[row]], classification)
        if drop is not None:
            std = normalized_with(parts, after.cpu_millicpus, MEDIAN).std
            predicted = replace(predicted, alone=predicted.mean * exp(drop), alone_std=std)
        return Place(verdict.placements, replace(verdict.decision, predicted=predicted))
