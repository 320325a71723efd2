"""All servers, looked at for one workload: where it could go, at what score, and why not there."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Assessment
from wharfinger.model.decisions import CANDIDATES_KEPT, Candidate, ReasonCode
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.policies.placement.common import candidates, open_servers
from wharfinger.policies.placement.sizing import Sizing

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
NO_SERVERS, EXCLUDED, TOO_LARGE, NO_ROOM, OFF_PREDICTION, OK, CONTENTION, INCOMPATIBLE = range(8)
"""Indices in ``CODES``."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """All servers, looked at for one workload.

    Attributes:
        need: (S,) thousandths of a CPU that it would get.
        memory_bytes: That it would get.
        reason: (S,) index in ``CODES``; that of ``OK`` where it could go.
        score: (S,) lower is better; infinite where it can't go.
        sizing: ``None`` where it goes by its reservation.
        contention: The residents and it.
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
    reasons[full] = NO_ROOM
    reasons[too_large] = TOO_LARGE
    reasons[open_servers(request, view) == 0] = EXCLUDED
    reasons[view.accepting == 0] = NO_SERVERS
    return reasons


def load_on(view: ClusterView) -> NDArray[np.float64]:
    """(S,) how full each server is, and by how many: by which best-effort work is ranked."""
    return np.asarray(view.cpu_allocated / np.maximum(view.cpu_capacity, 1) + view.residents / 100)
