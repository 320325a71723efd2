"""Quasar: a performance target, not a reservation; sized and placed in one decision.

Source: Quasar 3.3 (joint allocation and assignment: the least resources that reach the target,
servers ranked by quality), Paragon 3.1 and 3.2 (neither the newcomer nor a resident is slowed
beyond what it tolerates). Added: a target is reached when it is with a stated confidence; an
unclassified workload gets its reservation. Adaptation follows the classified curve (4.1).
"""

from dataclasses import dataclass, field, replace
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import TargetPart, pace_with, parts_of
from wharfinger.core.seams.contention import POINTS, Assessment
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Candidate,
    Decision,
    Plan,
    ReasonCode,
    Refusal,
    Stage,
)
from wharfinger.model.view import ClusterView, OffTarget, PlacementRequest
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
    """All servers, looked at for one workload.

    Attributes:
        need: (S,) thousandths of a CPU that it would get.
        reason: (S,) index in ``CODES``; that of ``OK`` where it could go.
        score: (S,) lower is better; infinite where it can't go.
        sizing: ``None`` where it goes by its reservation.
        violation: (S,) in points; 0 = no workload is slowed beyond what it tolerates.
        relaxed: No server keeps all workloads within that; the smallest violation was taken.
    """

    need: NDArray[np.int64]
    memory_bytes: int
    reason: NDArray[np.int64]
    score: NDArray[np.float64]
    sizing: Sizing | None
    contention: Assessment
    violation: NDArray[np.float64]
    relaxed: bool

    def best(self) -> NDArray[np.intp]:
        """Where it would go, best first; where the target is reached, whatever that takes, first.

        No more than stand in a decision's record.
        """
        possible, kept = np.isfinite(self.score), CANDIDATES_KEPT
        reached = possible if self.sizing is None else possible & self.sizing.reached
        first = _lowest(np.flatnonzero(reached), self.score, kept)
        others = np.flatnonzero(possible & ~reached) if len(first) < kept else NOWHERE
        return np.concatenate((first, _lowest(others, self.score, kept - len(first))))

    def nearest_miss(self) -> int | None:
        """A server that has room, and can't take it for another reason."""
        rows = np.flatnonzero(np.isin(self.reason, (OFF_PREDICTION, CONTENTION, INCOMPATIBLE)))
        return int(rows[self.violation[rows].argmin()]) if rows.size else None

    def refusal(self, row: int, server: str) -> tuple[ReasonCode, str, str]:
        """Why such a server does not take it, as a code and in words; what would change that."""
        reason = CODES[int(self.reason[row])]
        if reason is ReasonCode.OFF_PREDICTION:
            why = f"a workload on {server} violates its target: no new work until it is kept again"
            return reason, why, f"every target on {server} kept again, or room on another server"
        if reason is ReasonCode.DOES_NOT_FIT:
            why = f"it would not fit beside the residents of {server}"
            return reason, why, f"the end of a resident of {server}, or room on another server"
        why = f"it would slow the residents of {server}: {self.contention.refusal(row)}"
        return reason, why, f"fewer or less sensitive neighbors on {server}, or another server"

    def candidates(self, best: NDArray[np.intp], view: ClusterView) -> tuple[Candidate, ...]:
        """The best, then those that can't take it, each with its numbers."""
        others = np.flatnonzero(~np.isfinite(self.score))[: CANDIDATES_KEPT - len(best)]
        rows = [*best.tolist(), *others.tolist()]
        scores = [score if score < inf else None for score in self.score[rows].tolist()]
        reasons = [CODES[reason] for reason in self.reason[rows].tolist()]
        listed = candidates(view, rows, scores, reasons)
        return tuple(
            replace(one, numbers={**one.numbers, **self._numbers(row)})
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
    """So many of these rows with the lowest scores, lowest first, equal ones in their order."""
    scores = score[rows]
    if count < len(rows):
        low = scores <= np.partition(scores, count - 1)[count - 1] if count else rows < 0
        rows, scores = rows[low], scores[low]
    return rows[np.argsort(scores, kind="stable")][:count]


def reasons_on(
    request: PlacementRequest, need: NDArray[np.int64], memory_bytes: int, view: ClusterView
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


def load_on(view: ClusterView) -> NDArray[np.float64]:
    """(S,) how full each server is, and by how many: by which best-effort work is ranked."""
    return np.asarray(view.cpu_allocated / np.maximum(view.cpu_capacity, 1) + view.residents / 100)


class Quasar(ByReservation):
    """Least resources that reach the target, beside neighbors that tolerate it."""

    name = "quasar"

    def __init__(self, settings: QuasarSettings | None = None) -> None:
        self.settings: QuasarSettings = settings or QuasarSettings()
        self._confidence = self.settings.sizing.confidence

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
            f"{cpu} on {name} give the most of what is free: {sizing.interval_on(row).mean:.0%} "
            f"of the target, which is not reached with {sure} confidence{harm}"
        )

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
        why = (
            f"even alone on a whole server it would reach {predicted.mean:.0%} of its target "
            f"(at most {predicted.high:.0%} with {self._confidence:.0%} confidence)"
        )
        mend = "a lower target, or a larger or faster server"
        nowhere = replace(options, score=np.full(len(view.names), inf))
        refusal = self._refusal(ReasonCode.TARGET_TOO_HIGH, why, mend, nowhere, view)
        return Refusal(replace(refusal.decision, predicted=predicted))

    def _refusal(
        self, reason: ReasonCode, why: str, mend: str, options: ServerOptions, view: ClusterView
    ) -> Refusal:
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=False,
            reason=reason,
            message=why,
            would_change=mend,
            considered=len(view.names),
            candidates=options.candidates(NOWHERE, view),
        )
        return Refusal(decision)

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
