"""Quasar: a performance target, not a reservation; sized and placed in one decision.

Source: Quasar 3.3 (joint allocation and assignment: the least resources that reach the target,
servers ranked by quality), Paragon 3.1 and 3.2 (neither the newcomer nor a resident is slowed
beyond what it tolerates). Added: a target is reached when it is with a stated confidence; an
unclassified workload gets its reservation. Adaptation follows the classified curve (4.1).
"""

from dataclasses import dataclass, field, replace
from math import exp, inf

import numpy as np

from wharfinger.classification.prediction import TargetPart, pace_with, parts_of
from wharfinger.core.seams.contention import POINTS, Assessment
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Plan, ReasonCode, Refusal, Stage
from wharfinger.model.view import ClusterView, OffTarget, PlacementRequest
from wharfinger.policies.placement.common import ByReservation, needed, refuse
from wharfinger.policies.placement.options import (
    CONTENTION,
    INCOMPATIBLE,
    NOWHERE,
    OK,
    TOO_LARGE,
    ServerOptions,
    load_on,
    reasons_on,
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


class Quasar(ByReservation):
    """Least resources that reach the target, beside neighbors that tolerate it."""

    name = "quasar"

    def __init__(self, settings: QuasarSettings | None = None) -> None:
        self.settings: QuasarSettings = settings or QuasarSettings()
        self._confidence = self.settings.sizing.confidence

    # --- placing ---------------------------------------------------------------------------

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Size on each server, drop those that don't fit, rank the others."""
        options = self._look(request, view)
        if options.sizing is not None and options.sizing.hopeless:
            return self._too_high(options.sizing, options, view)
        ranked = options.best()
        if not ranked.size:
            return self._refuse(request, options, view)
        best = int(ranked[0])
        cpu, memory = int(options.need[best]), options.memory_bytes
        allocation = Allocation(cpu, memory, request.workload.best_effort)
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=self._why(best, options, view, request),
            considered=len(view.names),
            candidates=options.candidates(ranked, view),
            numbers=self._numbers(allocation, options, request),
            predicted=options.sizing.prediction_on(best) if options.sizing else None,
        )
        return Plan((Placement(view.names[best], allocation),), decision)

    def _look(self, request: PlacementRequest, view: ClusterView) -> ServerOptions:
        reserved, best_effort = request.reserved(view.capabilities), request.workload.best_effort
        confidence = self.settings.best_effort_confidence if best_effort else self._confidence
        contention = Assessment(len(view.names))
        if view.contention is not None:
            contention = view.contention.assess(request, view, confidence)
        sizing = None if best_effort else size(request, view, contention, self.settings.sizing)
        need = np.full(len(view.names), reserved.cpu_millicpus, dtype=np.int64)
        if sizing is not None:
            need = sizing.cpu_millicpus
        reasons = reasons_on(request, need, reserved.memory_bytes, view)
        cost = contention.cost(reasons > TOO_LARGE, sizing.performance if sizing else None)
        possible = reasons == OK
        if (apart := contention.incompatible) is not None:
            reasons[possible & apart] = INCOMPATIBLE
            possible &= ~apart
        score = load_on(view) if best_effort else need / 1000.0 + cost.waste
        kept = possible & (cost.violation == 0)
        relaxed = not best_effort and not kept.any()
        if relaxed:
            kept = possible & (cost.lost <= self._bearable(request.waited_seconds))
            score = score + cost.violation
        reasons[possible & ~kept] = CONTENTION
        return ServerOptions(
            need,
            reserved.memory_bytes,
            reasons,
            np.where(kept, score, inf),
            sizing,
            contention,
            cost.violation,
            relaxed,
        )

    def _bearable(self, waited_seconds: float) -> float:
        """Points of targets that may be lost by now for the sake of one that waits."""
        patience = self.settings.patience_seconds
        return POINTS * waited_seconds / patience if patience > 0 else inf

    def _numbers(
        self, allocation: Allocation, options: ServerOptions, request: PlacementRequest
    ) -> dict[str, float]:
        if options.sizing is None:
            return needed(allocation)
        sure, waited = self._confidence, request.waited_seconds
        return {**needed(allocation), "confidence": sure, "waited_seconds": waited}

    def _why(
        self, row: int, options: ServerOptions, view: ClusterView, request: PlacementRequest
    ) -> str:
        name, sizing, harm = view.names[row], options.sizing, ""
        if request.workload.best_effort:
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
            f"{cpu} on {name} give the most of what is free: {sizing.performance_on(row).mean:.0%} "
            f"of the target, which is not reached with {sure} confidence{harm}"
        )

    # --- refusing --------------------------------------------------------------------------

    def _refuse(
        self, request: PlacementRequest, options: ServerOptions, view: ClusterView
    ) -> Refusal:
        row = options.nearest_miss()
        if row is not None:
            return self._refusal(*options.refusal(row, view.names[row]), options, view)
        # Where it could be given nothing at all, a server is too small whatever it has.
        sizes = options.need
        if not request.workload.best_effort:
            sizes = np.where(sizes > 0, sizes, np.maximum(view.cpu_capacity + 1, 1))
        cpu = int(sizes.min()) if sizes.size else 0
        need = Allocation(cpu, options.memory_bytes, request.workload.best_effort)
        plain = refuse(self.name, request, need, view, sizes).decision
        numbers = self._numbers(need, options, request)
        candidates = options.candidates(NOWHERE, view)
        return Refusal(replace(plain, candidates=candidates, numbers=numbers))

    def _too_high(self, sizing: Sizing, options: ServerOptions, view: ClusterView) -> Refusal:
        predicted = prediction(sizing.curve.best(), self._confidence)
        message = (
            f"even alone on a whole server it would reach {predicted.mean:.0%} of its target "
            f"(at most {predicted.high:.0%} with {self._confidence:.0%} confidence)"
        )
        would_change = "a lower target, or a larger or faster server"
        nowhere = replace(options, score=np.full(len(view.names), inf))
        reason = ReasonCode.TARGET_TOO_HIGH
        refusal = self._refusal(reason, message, would_change, nowhere, view)
        return Refusal(replace(refusal.decision, predicted=predicted))

    def _refusal(
        self,
        reason: ReasonCode,
        message: str,
        would_change: str,
        options: ServerOptions,
        view: ClusterView,
    ) -> Refusal:
        return Refusal(
            Decision(
                stage=Stage.PLACEMENT,
                decided_by=self.name,
                accepted=False,
                reason=reason,
                message=message,
                would_change=would_change,
                considered=len(view.names),
                candidates=options.candidates(NOWHERE, view),
            )
        )

    # --- resizing --------------------------------------------------------------------------

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """Along the curve that was classified, from how it does now."""
        known, off, settings = request.classification, request.off_target, self.settings
        if request.workload.target is None:
            return super().resize(request, placements, view)
        parts = parts_of(request.workload, known, request.waited_seconds) if known else []
        if known and not parts and known.shape is not None:
            parts = [TargetPart(known.shape, 1.0)]

        def wanted(held: Allocation, off: OffTarget) -> int:
            margin = settings.resizing.margin
            along = along_curve(parts, held, off, view, margin, settings.sizing)
            return along or by_proportion(held, off, settings.resizing)

        verdict = follow_target(self.name, request, placements, view, settings.resizing, wanted)
        if not isinstance(verdict, Plan) or known is None or off is None or not parts:
            return verdict
        before, after = placements[0].allocation, verdict.placements[0].allocation
        predicted = after_resize(parts, before, after, off, self._confidence)
        row, drop = view.row(placements[0].server), None
        if view.contention is not None:
            drop = view.contention.drop_of(row, view.platforms[view.platform[row]], known)
        if drop is not None:
            std = pace_with(parts, after.cpu_millicpus, MEDIAN).std
            predicted = replace(predicted, alone=predicted.mean * exp(drop), alone_std=std)
        return Plan(verdict.placements, replace(verdict.decision, predicted=predicted))
