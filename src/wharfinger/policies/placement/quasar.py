"""Quasar: a performance target, not a reservation; sized and placed in one decision.

Source: Quasar 3.3 (joint allocation and assignment: the least resources that reach the target,
servers ranked by quality), Paragon 3.1 and 3.2 (tolerated against caused interference, both
ways). Added: a target is reached when it is with a stated confidence, and what is not classified
goes by its reservation. Adaptation follows the curve that was classified (Quasar 4.1).
"""

from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import Part, pace_with, parts_of, performance_with
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Candidate,
    Decision,
    Plan,
    Prediction,
    ReasonCode,
    Refusal,
    Stage,
)
from wharfinger.model.interference import YIELDED
from wharfinger.model.profile import Classification, Estimate
from wharfinger.model.view import SOURCES, ClusterView, OffTarget, PlacementRequest
from wharfinger.policies.placement.common import candidate, open_servers, refuse
from wharfinger.policies.placement.pair_interference import (
    POINTS,
    Company,
    Own,
    company,
    own_part,
    slowed_by,
)
from wharfinger.policies.placement.resizing import MARGIN, by_proportion, follow_target
from wharfinger.policies.placement.sizing import Sizing, prediction, size, sizes
from wharfinger.policies.placement.source_interference import Fit, fit

CONFIDENCE = 0.8
PATIENCE_SECONDS = 3600.0
EVEN = 0.5
"""What best-effort work may press is judged by the mean: it can be suspended at any time."""


@dataclass(frozen=True, slots=True)
class _Options:
    """All servers, looked at for one workload.

    Attributes:
        need: (S,) thousandths of a CPU that it would get.
        memory_bytes: That it would get.
        reason: (S,) index in ``_CODES``; that of ``OK`` where it could go.
        score: (S,) lower is better; infinite where it can't go.
        sizing: ``None`` where it goes by its reservation.
        fit: How it gets on with the residents, source by source.
        company: The same where it is known between pairs; ``None`` = it is not.
        violation: (S,) both together, in points; 0 = nobody is slowed beyond what it bears.
        relaxed: No server keeps everyone within what they tolerate; the least harm was taken.
    """

    need: NDArray[np.int64]
    memory_bytes: int
    reason: NDArray[np.int64]
    score: NDArray[np.float64]
    sizing: Sizing | None
    fit: Fit
    company: Company | None
    violation: NDArray[np.float64]
    relaxed: bool

    def reaches(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether the target is reached there; these come first whatever they take."""
        if self.sizing is None:
            return np.ones(len(rows), dtype=np.bool_)
        return self.sizing.reached[rows]


class Quasar:
    """Least resources that reach the target; beside those whom it does not disturb.

    Args:
        confidence: With which a target must be reached, and interference be tolerated.
        patience_seconds: After which it is placed whatever targets that costs, where that is
            known between pairs; half of it for half of a target.
    """

    name = "quasar"
    settings: Any = None

    def __init__(
        self, confidence: float = CONFIDENCE, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._confidence = confidence
        self._patience = patience_seconds

    def index(self) -> ServerIndex | None:
        """None so far."""
        return None

    # --- placing ---------------------------------------------------------------------------

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Size on each server, drop those that don't fit, rank the others."""
        options = self._look(request, view)
        if options.sizing is not None and options.sizing.hopeless:
            return self._too_high(request, options, view)
        rows = np.flatnonzero(np.isfinite(options.score))
        ranked = rows[np.lexsort((options.score[rows], ~options.reaches(rows)))]
        if not ranked.size:
            return self._refuse(request, options, view)
        best = int(ranked[0])
        given = Allocation(
            int(options.need[best]), options.memory_bytes, request.workload.best_effort
        )
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=self._why(best, options, view, request),
            considered=len(view.names),
            candidates=self._candidates(ranked, options, view),
            numbers=self._numbers(given, options, request),
            predicted=options.sizing.prediction_on(best) if options.sizing else None,
        )
        return Plan((Placement(view.names[best], given),), decision)

    def _look(self, request: PlacementRequest, view: ClusterView) -> _Options:
        reserved = request.reserved(view.capabilities)
        known, best_effort = request.classification, request.workload.best_effort
        confidence = EVEN if best_effort else self._confidence
        beside = company(known, view, confidence)
        felt = beside.felt if beside else None
        sizing = None if best_effort else size(request, view, self._confidence, felt)
        need = np.full(len(view.names), reserved.cpu_millicpus, dtype=np.int64)
        if sizing is not None:
            need = sizing.cpu_millicpus
        harmony = fit(_as_neighbour(known, best_effort=best_effort), view, confidence)
        score = _scores(need, harmony, view, best_effort=best_effort)
        violation, lost = harmony.violation, np.zeros(len(view.names))
        reasons = _reasons(request, need, reserved.memory_bytes, view)
        if beside is not None:
            able = reasons > _TOO_LARGE
            own = _own_part(request, beside, sizing, able, confidence)
            lost = beside.violation(own.short)
            violation = violation + lost
            reasons = np.where((reasons == _FITS) & beside.apart, _APART, reasons)
            score = score if best_effort else score + beside.waste(own.behind)
        possible = reasons == _FITS
        kept = possible & (violation == 0)
        relaxed = not best_effort and not kept.any()
        if relaxed:
            kept = possible & (lost <= self._borne(request.waited_seconds))
        reasons = np.where(possible & ~kept, _DISTURBS, reasons)
        score = np.where(kept, score + violation if relaxed else score, inf)
        memory = reserved.memory_bytes
        return _Options(need, memory, reasons, score, sizing, harmony, beside, violation, relaxed)

    def _borne(self, waited_seconds: float) -> float:
        """Points of targets that may be lost by now for the sake of one that waits."""
        return POINTS * waited_seconds / self._patience if self._patience > 0 else inf

    def _candidates(
        self, ranked: NDArray[np.intp], options: _Options, view: ClusterView
    ) -> tuple[Candidate, ...]:
        """The best, then those that can't take it, each with its numbers."""
        found = [self._candidate(int(row), options, view) for row in ranked[:CANDIDATES_KEPT]]
        others = np.flatnonzero(~np.isfinite(options.score))[: CANDIDATES_KEPT - len(found)]
        return (*found, *(self._candidate(row, options, view) for row in others.tolist()))

    def _candidate(self, row: int, options: _Options, view: ClusterView) -> Candidate:
        score = float(options.score[row])
        reason = _CODES[int(options.reason[row])]
        known = candidate(view, row, score if score < inf else None, reason)
        numbers = {**known.numbers, "cpu_needed_millicpus": float(options.need[row])}
        if options.sizing is not None and options.need[row] > 0:
            predicted = options.sizing.prediction_on(row)
            numbers["predicted_pace"] = predicted.mean
            numbers["predicted_pace_low"] = predicted.low
        if options.fit.sources or options.company:
            numbers["interference_beyond_tolerated"] = float(options.violation[row])
        if options.company:
            numbers |= options.company.numbers(row)
        return replace(known, numbers=numbers)

    def _numbers(
        self, given: Allocation, options: _Options, request: PlacementRequest
    ) -> dict[str, float]:
        numbers = {
            "cpu_needed_millicpus": float(given.cpu_millicpus),
            "memory_needed_bytes": float(given.memory_bytes),
        }
        if options.sizing is not None:
            numbers["confidence"] = self._confidence
            numbers["waited_seconds"] = request.waited_seconds
        return numbers

    def _why(
        self, row: int, options: _Options, view: ClusterView, request: PlacementRequest
    ) -> str:
        name, sizing = view.names[row], options.sizing
        if request.workload.best_effort:
            return f"{name} leaves it the most"
        given = f"{int(options.need[row])}m CPU"
        harm = _harm(row, options)
        if sizing is None:
            return f"nothing predicts it: its reservation of {given}, on {name}{harm}"
        sure = f"{self._confidence:.0%}"
        if sizing.reached[row]:
            return f"{given} on {name} reach the target with {sure} confidence, and no less{harm}"
        pace = sizing.pace_on(row).mean
        return (
            f"{given} on {name} give the most of what is free: {pace:.0%} of the target, which "
            f"is not reached with {sure} confidence{harm}"
        )

    # --- refusing --------------------------------------------------------------------------

    def _refuse(self, request: PlacementRequest, options: _Options, view: ClusterView) -> Refusal:
        row = _nearest_miss(options)
        if row is not None:
            special = _CODES[int(options.reason[row])]
            return self._refusal(special, *_told(special, row, options, view), options, view)
        # Where it could be given nothing at all, a server is too small whatever it has.
        needed = options.need
        if not request.workload.best_effort:
            needed = np.where(needed > 0, needed, np.maximum(view.cpu_capacity + 1, 1))
        cpu = int(needed.min()) if needed.size else 0
        need = Allocation(cpu, options.memory_bytes, request.workload.best_effort)
        plain = refuse(self.name, request, need, view, needed).decision
        return Refusal(
            replace(
                plain,
                candidates=self._candidates(np.array([], dtype=np.intp), options, view),
                numbers=self._numbers(need, options, request),
            )
        )

    def _too_high(self, request: PlacementRequest, options: _Options, view: ClusterView) -> Refusal:
        assert options.sizing is not None
        best = max(options.sizing.paces.values(), key=lambda pace: pace.mean)
        predicted = prediction(best, self._confidence)
        message = (
            f"even alone on a whole server it would reach {predicted.mean:.0%} of its target "
            f"(at most {predicted.high:.0%} with {self._confidence:.0%} confidence)"
        )
        would_change = "a lower target, or a larger or faster server"
        refusal = self._refusal(
            ReasonCode.TARGET_TOO_HIGH, message, would_change, options, view
        ).decision
        return Refusal(replace(refusal, predicted=predicted))

    def _refusal(
        self,
        reason: ReasonCode,
        message: str,
        would_change: str,
        options: _Options,
        view: ClusterView,
    ) -> Refusal:
        unranked = replace(options, score=np.full(len(view.names), inf))
        return Refusal(
            Decision(
                stage=Stage.PLACEMENT,
                decided_by=self.name,
                accepted=False,
                reason=reason,
                message=message,
                would_change=would_change,
                considered=len(view.names),
                candidates=self._candidates(np.array([], dtype=np.intp), unranked, view),
            )
        )

    # --- resizing --------------------------------------------------------------------------

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """Along the curve that was classified, from how it does now."""
        known = request.classification
        parts = parts_of(request.workload, known, request.waited_seconds) if known else []
        shape = known.shape if known else None
        if not parts and shape is not None:
            parts = [Part(shape, 1.0)]

        def wanted(held: Allocation, off: OffTarget) -> int:
            return along_curve(parts, held, off, view) or by_proportion(held, off)

        verdict = follow_target(self.name, request, placements, view, wanted)
        off = request.off_target
        if not isinstance(verdict, Plan) or off is None or not parts:
            return verdict
        before, after = placements[0].allocation, verdict.placements[0].allocation
        predicted = after_resize(parts, before, after, off, self._confidence)
        row = list(view.names).index(placements[0].server)
        slowed = slowed_by(known, row, view) if known and known.pairs else None
        if slowed is not None:
            std = pace_with(parts, after.cpu_millicpus, EVEN).std
            predicted = replace(predicted, alone=predicted.mean * exp(slowed), alone_std=std)
        return Plan(verdict.placements, replace(verdict.decision, predicted=predicted))


def after_resize(
    parts: list[Part], before: Allocation, after: Allocation, off: OffTarget, confidence: float
) -> Prediction:
    """How it should do with another allocation: from its pace of now, along the curve.

    In the target's own terms only where it has one, and no time of completion: how much is done,
    and how each of several parts does, is not known here.
    """
    now = pace_with(parts, before.cpu_millicpus, EVEN).mean
    then = pace_with(parts, after.cpu_millicpus, EVEN)
    level = max(off.pace, 1e-9) / now
    found = prediction(Estimate(then.mean * level, then.std), confidence)
    if len(parts) > 1 or parts[0].work is not None:
        return found
    terms = performance_with(parts, after.cpu_millicpus, -log(level), 0.0, confidence)
    return replace(found, performance=terms)


def along_curve(
    parts: list[Part], held: Allocation, off: OffTarget, view: ClusterView
) -> int | None:
    """The least CPU with which the pace of now becomes a little more than enough.

    Returns:
        ``None`` where the curve says that no CPU would do: then it may be the curve that is
        wrong.
    """
    if not parts or held.cpu_millicpus <= 0:
        return None
    now = log(pace_with(parts, held.cpu_millicpus, EVEN).mean)
    grid = sizes(int(view.cpu_capacity.max()), fractional=view.capabilities.fractional_cpu)
    for cpu in grid.tolist():
        change = log(pace_with(parts, cpu, EVEN).mean) - now
        if log(max(off.pace, 1e-9)) + change >= log(MARGIN):
            return int(cpu) if (cpu > held.cpu_millicpus) == (off.pace < 1) else None
    return None


def _as_neighbour(known: Classification | None, *, best_effort: bool) -> Classification | None:
    """Best-effort work has no target to keep, and leaves the cores to others."""
    if known is None or not best_effort:
        return known
    caused = {source: score for source, score in known.caused.items() if source not in YIELDED}
    return replace(known, tolerated={}, caused=caused)


def _reasons(
    request: PlacementRequest, need: NDArray[np.int64], memory_bytes: int, view: ClusterView
) -> NDArray[np.int64]:
    """(S,) why each server can't take it now, as an index in ``_CODES``."""
    takes = open_servers(request, view).astype(np.bool_)
    too_large = (need > view.cpu_capacity) | (memory_bytes > view.memory_capacity)
    full = (view.cpu_allocated + need > view.cpu_capacity) | (
        view.memory_allocated + memory_bytes > view.memory_capacity
    )
    unsized = (need == 0) & (not request.workload.best_effort)
    return np.select(
        [~view.accepting.astype(np.bool_), ~takes, too_large | unsized, full, view.unsettled > 0],
        [0, 1, 2, 3, _UNSETTLED],
        default=_FITS,
    ).astype(np.int64)


_CODES = (
    ReasonCode.NO_SERVERS,
    ReasonCode.SERVERS_EXCLUDED,
    ReasonCode.TOO_LARGE,
    ReasonCode.NO_ROOM,
    ReasonCode.OFF_PREDICTION,
    ReasonCode.OK,
    ReasonCode.INTERFERENCE,
    ReasonCode.DOES_NOT_FIT,
)
_TOO_LARGE, _UNSETTLED, _FITS, _DISTURBS, _APART = 2, 4, 5, 6, 7


def _scores(
    need: NDArray[np.int64], harmony: Fit, view: ClusterView, *, best_effort: bool
) -> NDArray[np.float64]:
    """CPUs that it takes, then how much tolerance is wasted (a share); lower is better.

    For best-effort work: how full the server is, and by how many.
    """
    if best_effort:
        capacity = np.maximum(view.cpu_capacity, 1)
        return np.asarray(view.cpu_allocated / capacity + view.residents / 100)
    waste = harmony.norm / (200.0 * max(harmony.sources, 1))
    return np.asarray(need / 1000.0 + waste)


def _own_part(
    request: PlacementRequest,
    beside: Company,
    sizing: Sizing | None,
    able: NDArray[np.bool_],
    confidence: float,
) -> Own:
    """How it would do itself on each server; best-effort work has nothing to lose."""
    felt, least = beside.felt, 1 - request.workload.tolerance
    if request.workload.best_effort:
        return Own(np.zeros_like(felt.drop), np.zeros_like(felt.drop))
    pace, variance = sizing.paces_given() if sizing else (-felt.drop, felt.variance)
    return own_part(pace, variance, least, felt, able, confidence)


def _harm(row: int, options: _Options) -> str:
    if not options.relaxed or options.violation[row] == 0:
        return ""
    return f"; no server keeps everyone within what they tolerate, here {_worst(row, options)}"


def _worst(row: int, options: _Options) -> str:
    """What is exceeded most on a server, for people."""
    exceeded = float(options.fit.violation[row])
    if exceeded > 0 or options.company is None:
        source = SOURCES[int(options.fit.worst[row])]
        return f"{source} is exceeded by {exceeded:.0f} points"
    return options.company.victim(row) or "its own target would be missed there"


def _nearest_miss(options: _Options) -> int | None:
    """A server that has room, and can't take it for another reason."""
    rows = np.flatnonzero(np.isin(options.reason, (_UNSETTLED, _DISTURBS, _APART)))
    return int(rows[options.violation[rows].argmin()]) if rows.size else None


def _told(reason: ReasonCode, row: int, options: _Options, view: ClusterView) -> tuple[str, str]:
    name = view.names[row]
    if reason is ReasonCode.OFF_PREDICTION:
        return (
            f"a workload on {name} misses its target: no new work there until that is mended",
            f"every target on {name} kept again, or room on another server",
        )
    if reason is ReasonCode.DOES_NOT_FIT:
        return (
            f"it would not run beside those on {name}, as large as they are together",
            f"the end of those on {name}, or room on another server",
        )
    fewer = f"fewer or less sensitive neighbours on {name}, or another server"
    exceeded = float(options.fit.violation[row])
    if exceeded == 0 and options.company is not None:
        return f"it would disturb those on {name}: {_worst(row, options)}", fewer
    source = SOURCES[int(options.fit.worst[row])]
    return (
        f"it would disturb those on {name}: {source} by {exceeded:.0f} points more than tolerated",
        fewer,
    )
