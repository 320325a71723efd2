"""All servers, looked at by ``quasar`` for one workload: what each would give and cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import (
    Array,
    Assessment,
    ContentionCost,
    LogEstimates,
    ResidentsLoss,
)
from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import CANDIDATES_KEPT, Candidate, Prediction, ReasonCode
from wharfinger.model.profile import Estimate
from wharfinger.model.view import Request, View
from wharfinger.native import judge_room
from wharfinger.policies.placement.best_effort import left_over
from wharfinger.policies.placement.common import candidates, open_servers
from wharfinger.policies.placement.sizing import Sizing, bounds

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
    ReasonCode.NOT_ALLOWED,
)
_NO_SERVERS, _EXCLUDED, TOO_LARGE, _NO_ROOM, OFF_PREDICTION, OK, CONTENTION, INCOMPATIBLE = range(8)
_NOT_ALLOWED = -1
"""Indices in ``CODES``; those before ``CONTENTION`` as ``judge_room`` gives them."""


@dataclass(frozen=True)
class ServerOptions:
    """All S servers, looked at for one workload.

    What contention costs is worked out where it may go somewhere, or where a refusal is told.

    Attributes:
        need: (S,) thousandths of a CPU that it would get.
        reason: (S,) index in ``CODES``; that of ``OK`` where it could go.
        score: (S,) lower is better; infinite where it can't go.
        sizing: ``None`` where it goes by its reservation.
        outs: Performance on so many servers that it may have, over that on one.
    """

    request: Request
    view: View
    need: NDArray[np.int64]
    memory_bytes: int
    reason: NDArray[np.int64]
    score: NDArray[np.float64]
    sizing: Sizing | None
    contention: Assessment
    outs: Mapping[int, Estimate]

    @cached_property
    def does(self) -> LogEstimates | None:
        """(S,) performance over target with that; ``None`` = it goes by its reservation."""
        return None if self.sizing is None else self.sizing.performance()

    @cached_property
    def cost(self) -> ContentionCost:
        """What contention would cost there."""
        does = self.does
        return self.contention.cost(self.reason > TOO_LARGE, None if does is None else lambda: does)

    @cached_property
    def loss(self) -> ResidentsLoss:
        """What residents are expected to lose for it."""
        return self.contention.residents_loss()

    @cached_property
    def left(self) -> Array | None:
        """(S,) what best-effort work should do of what others leave; ``None`` = it is none."""
        is_best_effort = self.request.workload.best_effort
        return left_over(self.request, self.view, self.contention) if is_best_effort else None

    @property
    def violation(self) -> Array:
        """(S,) in points; 0 = no workload is slowed beyond what it tolerates."""
        return self.cost.violation

    @property
    def lost(self) -> Array:
        """(S,) targets of residents that are expected to be lost for it."""
        return self.loss.targets

    def allocation(self, cpu_millicpus: int) -> Allocation:
        """What it would get with so much CPU."""
        best_effort = self.request.workload.best_effort
        return Allocation(cpu_millicpus, self.memory_bytes, best_effort)

    def best(self) -> NDArray[np.intp]:
        """The rows that a decision records, best first."""
        return _lowest(np.flatnonzero(np.isfinite(self.score)), self.score, CANDIDATES_KEPT)

    def nearest_miss(self) -> tuple[ReasonCode, str, str] | None:
        """Why a server with room can't take it, as a code and in words; what would change that."""
        rows = np.flatnonzero(self.reason >= OFF_PREDICTION)  # It could go nowhere.
        if not rows.size:
            return None
        if self._is_told(ReasonCode.OFF_PREDICTION) and self.reason.max() == OFF_PREDICTION:
            return ReasonCode.OFF_PREDICTION, "", ""
        row = int(rows[np.lexsort((self.violation[rows], self.lost[rows]))[0]])
        server, reason = self.view.names[row], CODES[int(self.reason[row])]
        if reason is ReasonCode.OFF_PREDICTION:
            why = f"a workload on {server} runs off its prediction: no new work until it does not"
            return reason, why, "that one as predicted again, or room on another server"
        if reason is ReasonCode.DOES_NOT_FIT:
            why = f"it would not fit beside the residents of {server}"
            return reason, why, f"the end of a resident of {server}, or room on another server"
        why = f"it would slow the residents of {server}: {self.contention.refusal(row)}"
        return reason, why, f"fewer or less sensitive neighbors on {server}, or another server"

    def _is_told(self, reason: ReasonCode) -> bool:
        """Whether a refusal for this reason is neither logged nor shown."""
        return reason in self.request.told

    def candidates_unless_told(self, reason: ReasonCode) -> tuple[Candidate, ...]:
        """Those that can't take it, in the record of a refusal for this reason."""
        return () if self._is_told(reason) else self.candidates(NOWHERE)

    def bearable_after(self, patience_seconds: float) -> float | None:
        """After how many seconds it is placed although that costs targets; ``None`` = never."""
        rows = np.flatnonzero(self.reason == CONTENTION)
        if self.request.workload.best_effort or not rows.size:
            return None
        return float(self.lost[rows].min()) * patience_seconds

    def candidates(self, best: NDArray[np.intp]) -> tuple[Candidate, ...]:
        """The best, then those that can't take it, each with its numbers."""
        others = np.flatnonzero(~np.isfinite(self.score))[: CANDIDATES_KEPT - len(best)]
        rows = [*best.tolist(), *others.tolist()]
        scores = [score if score < inf else None for score in self.score[rows].tolist()]
        reasons = [CODES[reason] for reason in self.reason[rows].tolist()]
        return tuple(candidates(self.view, rows, scores, reasons, map(self._numbers, rows)))

    def kept(self, row: int) -> float:
        """The probability that its target is kept there; 0 = nothing predicts it."""
        sizing = self.sizing
        return 0.0 if sizing is None else sizing.kept_probability(sizing.normalized_on(row))

    def _numbers(self, row: int) -> dict[str, float]:
        numbers = {"cpu_needed_millicpus": float(self.need[row])}
        if self.sizing is not None and self.need[row] > 0:
            normalized = self.sizing.normalized_on(row)
            numbers["predicted_pace"] = normalized.mean
            numbers["predicted_pace_low"] = bounds(normalized, self.sizing.confidence)[0]
            numbers["kept_probability"] = self.sizing.kept_probability(normalized)
        if self.left is not None:
            numbers["predicted_share_of_best"] = float(np.exp(self.left[row]))
        if self.contention.informed:
            numbers["interference_beyond_tolerated"] = float(self.violation[row])
            numbers["residents_targets_lost"] = float(self.lost[row])
        return numbers | self.contention.numbers(row)


def _lowest(rows: NDArray[np.intp], score: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Rows with the lowest scores, lowest first, ties in their order."""
    scores = score[rows]
    if count < len(rows):
        low = scores <= np.partition(scores, count - 1)[count - 1] if count else rows < 0
        rows, scores = rows[low], scores[low]
    return rows[np.argsort(scores, kind="stable")][:count]


def reasons_on(
    request: Request, need: NDArray[np.int64], memory_bytes: int, view: View
) -> NDArray[np.int64]:
    """(S,) why each server can't take it now, as an index in ``CODES``."""
    reasons = judge_room(
        need,
        memory_bytes,
        view.cpu_capacity,
        view.cpu_allocated,
        view.memory_capacity,
        view.memory_allocated,
        view.accepting,
        open_servers(request, view),
        view.unsettled,
        request.workload.best_effort,
    )
    if request.allowed is not None:
        reasons[request.allowed == 0] = _NOT_ALLOWED
    return reasons


def prediction_on(row: int, options: ServerOptions) -> Prediction | None:
    """What it would do on one of them; ``None`` = it goes by its reservation."""
    if options.sizing is None:
        return None
    target = options.request.workload.target
    return options.sizing.prediction_on(row, target, int(options.need[row]))
