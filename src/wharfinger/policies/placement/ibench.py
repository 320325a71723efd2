"""iBench's scheduler: who may share a server, by the interference that both tolerate and cause.

Source: iBench (dissertation 5.5.1), equation 5.1: of the servers where no tolerated score is below
what is caused there, the one with the least ‖t − c‖₁, both directions added. It knows no platforms
and sizes nothing: the baseline that shows what interference alone is worth. The core profiles and
classifies before it asks; ``by-profile`` says what is done for a workload below its target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array, Assessment, Rows, ScoreColumns
from wharfinger.core.seams.estimation import ProfilingNeeds
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.core.seams.verdicts import PlacementVerdict, WaitUntil
from wharfinger.errors import InvalidInput
from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Candidate,
    Decision,
    ReasonCode,
    Refuse,
    Stage,
)
from wharfinger.model.interference import SharedResource
from wharfinger.model.memo import by_identity
from wharfinger.model.profile import Classification, quantile
from wharfinger.model.view import Request, View
from wharfinger.native import closest_fits
from wharfinger.policies.placement.common import (
    ByReservation,
    candidates,
    is_full,
    needed,
    plan,
    refuse,
)
from wharfinger.policies.placement.harmony import Harmony
from wharfinger.policies.placement.paragon import turns_of, with_room
from wharfinger.policies.placement.paragon_search import MOST, OwnScores

SOURCES = tuple(SharedResource)
INDEXED = 3
"""Candidates that are asked of the index: the next ones tell little, and cost as much."""
KEPT = 1024
"""So many classifications' scores are kept: the placement asks again for what waits."""
BEYOND, NORM = "interference_beyond_tolerated", "norm"


@dataclass(frozen=True, slots=True)
class IBenchSettings:
    """Settings of the policy.

    Attributes:
        confidence: With which no t is below its c, each by itself; 0.5 = as published.
        patience_seconds: Longest wait for a server where all tolerate each other, since submission.
            Then it goes where least is lacking. 0 = at once.
        worth: It goes there at once where that adds so much: what it would do over what it does
            alone, less the shares that residents would lose. A cache that is shared still gains by
            another workload, a core that is taken does not.
        sources: How many sources of interference are injected beside its copy, while it waits; of
            others its scores are those of similar programs.
        drop: Of a contention model without scores: what the newcomer and the residents may lose
            together, as a share of performance.
    """

    confidence: float = 0.8
    patience_seconds: float = 60.0
    worth: float = 0.5
    sources: int = 2
    drop: float = 0.05


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a newcomer and the residents of N servers suit one another, the best first.

    Attributes:
        rows: Of the servers.
        norm: (N,) equation 5.1: the sum over sources and both directions of |t − c|, in points.
        lacking: (2, R, N) points by which each t is below its c: residents', then the newcomer's.
        beyond: (N,) what is lacking altogether; 0 = all tolerate each other.
    """

    rows: Rows
    norm: Array
    lacking: Array
    beyond: Array

    @classmethod
    def by_sum(cls, rows: Rows, norm: Array, beyond: Array, load: Array) -> "Fit":
        """Of rows in any order, of which nothing is known by source."""
        first = np.lexsort((rows, load, norm, beyond))[:CANDIDATES_KEPT]
        return cls(rows[first], norm[first], np.zeros((2, 0, len(first))), beyond[first])

    def worst(self, at: int) -> str:
        """The source that refuses most there, in words."""
        of_each = self.lacking[:, :, at]
        if not of_each.any():
            return "all together would lose more than they tolerate"
        who, source = divmod(int(of_each.argmax()), len(SOURCES))
        whose = ("the residents", "it")[who]
        return (
            f"{SOURCES[source]} by {of_each.max():.0f} points more than {whose} "
            f"tolerate{'s' if who else ''}"
        )

    def numbers(self, at: int) -> dict[str, float]:
        """What was compared there, with each source that refuses it."""
        told = {NORM: float(self.norm[at]), BEYOND: float(self.beyond[at])}
        if self.lacking.size:
            by_source = self.lacking[:, :, at].sum(axis=0)
            for source in np.flatnonzero(by_source > 0):
                told[f"{SOURCES[source].replace('-', '_')}_beyond"] = float(by_source[source])
        return told


class IBench(ByReservation):
    """First fit by equation 5.1: neighbors that suit it, on any platform."""

    name = "ibench"

    def __init__(self, settings: IBenchSettings | None = None) -> None:
        self.settings: IBenchSettings = settings or IBenchSettings()
        if not 0.5 <= self.settings.confidence < 1:
            raise InvalidInput(
                f"{self.name}: confidence={self.settings.confidence:g} is not a probability from "
                "0.5 to below 1"
            )
        self._z = quantile(self.settings.confidence)

    @property
    def profiling(self) -> ProfilingNeeds:
        """What is stated, beside injected sources, on one platform."""
        return ProfilingNeeds(stated=True, sources=self.settings.sources, probes="0")

    def index(self) -> ServerIndex:
        """By t and c: where nothing is lacking, equation 5.1 ranks servers as Paragon's norm."""
        return Harmony(_left)

    def place(self, request: Request, view: View) -> PlacementVerdict:
        """By the index; where that finds none, by all servers with room."""
        need = request.reserved(view.capabilities)
        found = self._indexed(request, need, view)
        if found is not None:
            fitting, norms = found
            listed = [{NORM: norm, BEYOND: 0.0} for norm in norms]
            message = f"{view.names[fitting[0]]} wastes least of what all there tolerate"
            ranked = candidates(view, fitting, map(float, range(len(fitting))), compared=listed)
            return plan(self.name, request, need, view, ranked, message, [])
        full = is_full(request, need, view)
        rows = np.zeros(0, dtype=np.intp) if full else with_room(request, need, view)
        if not rows.size:
            return refuse(self.name, request, need, view)
        settled = rows[view.unsettled[rows] == 0]
        if not settled.size:
            return self._unsettled(rows, need, view)
        return self._fitted(request, need, view, self._fit(request, need, view, settled))

    def _indexed(
        self, request: Request, need: Allocation, view: View
    ) -> tuple[list[int], list[float]] | None:
        """The first that fit and their norms; ``None`` = all servers have to be asked."""
        known = request.classification
        # Where servers promise more CPU than they have, the index does not know how much more.
        if not isinstance(view.index, Harmony) or known is None or view.cpu_real is not None:
            return None
        if request.workload.best_effort:  # Nor what CPU best-effort work leaves.
            return None
        own = _own(known, request.workload.best_effort)
        found = view.index.best(view, own, need, self._z, excluded=request.excluded, keep=INDEXED)
        if found is None or not found.complete or not found.rows:
            return None
        return found.rows, found.norms

    def _fit(self, request: Request, need: Allocation, view: View, rows: Rows) -> Fit:
        """Of those that suit one another most closely, as many as a decision names."""
        load = view.cpu_allocated[rows] / np.maximum(view.cpu_capacity[rows], 1)
        scores = None if view.contention is None else view.contention.score_columns(len(view.names))
        known, nothing = request.classification, np.zeros(len(rows))
        # Cores that others wait for are a source like any other.
        over = _waited_for(request, need, view, rows)
        over = nothing if over is None else MOST * over
        if known is None or view.contention is None:
            return Fit.by_sum(rows, nothing, over, load)
        if scores is not None:
            own = _own(known, request.workload.best_effort)
            return closest(own, _left(scores), rows, view.residents, load, self._z, over)
        asked = view.contention.assess(request, view, self.settings.confidence)
        if (apart := asked.incompatible) is not None:
            able = ~apart[rows]
            rows, load, over = rows[able], load[able], over[able]
        drop = self._lost_there(request, asked, rows)
        beyond = np.maximum(drop + np.log1p(-self.settings.drop), 0.0)
        return Fit.by_sum(rows, MOST * drop, MOST * beyond + over, load)

    def _lost_there(self, request: Request, asked: Assessment, rows: Rows) -> Array:
        """(N,) what the newcomer and the residents would lose together, as a logarithm."""
        drop = asked.residents_loss_on(rows).performance
        return drop if request.workload.best_effort else drop + asked.suffered_on(rows).mean

    def _fitted(self, request: Request, need: Allocation, view: View, fit: Fit) -> PlacementVerdict:
        if not fit.rows.size:
            return refuse(self.name, request, need, view)
        server, lacking = view.names[int(fit.rows[0])], fit.beyond[0] > 0
        left = self.settings.patience_seconds - request.waited_seconds
        here = fit.rows[:1]
        if lacking and left > 0 and self._adds(request, need, view, here) < self.settings.worth:
            decision = Decision(
                stage=Stage.PLACEMENT,
                decided_by=self.name,
                accepted=False,
                reason=ReasonCode.INTERFERENCE,
                message=f"nowhere do all tolerate each other: on {server} {fit.worst(0)}",
                would_change=f"other neighbors there, room on another server, or {left:.0f} s",
                considered=len(view.names),
                candidates=tuple(_candidates(view, fit)),
                numbers=needed(need),
            )
            return WaitUntil(request.now + left, decision)
        message = f"{server} wastes least of what all there tolerate"
        if lacking:
            message = f"nowhere do all tolerate each other: on {server} least is lacking, "
            message += fit.worst(0)
        elif request.classification is None:
            message = f"{server} is the least loaded; nothing is known of it"
        return plan(self.name, request, need, view, _candidates(view, fit, chosen=1), message)

    def _adds(self, request: Request, need: Allocation, view: View, row: Rows) -> float:
        """What it would do there over what it does alone, less what that takes of the residents."""
        if view.contention is None:
            return 1.0
        asked = view.contention.assess(request, view, self.settings.confidence)
        taken, own = asked.residents_loss_on(row).performance.item(), 0.0
        if not request.workload.best_effort:
            own = asked.suffered_on(row).mean.item()
        turns = turns_of(view, need.cpu_millicpus, row)
        if turns is not None:
            taken += turns.item() * view.residents.item(int(row[0]))
            own += turns.item()
        return exp(-own) - taken

    def _unsettled(self, rows: Rows, need: Allocation, view: View) -> Refuse:
        server = view.names[int(rows[0])]
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=False,
            reason=ReasonCode.OFF_PREDICTION,
            message=f"a workload on {server} is below its target: no new work beside it",
            would_change="that one at its target, its new profile, or room on another server",
            considered=len(view.names),
            candidates=tuple(_refused(view, rows[:CANDIDATES_KEPT].tolist())),
            numbers=needed(need),
        )
        return Refuse(decision)


def _left(scores: ScoreColumns) -> ScoreColumns:
    """Of each resident what its neighbors leave of what it tolerates; no column is copied."""
    unspent, variance = scores.unspent, scores.unspent_variance
    return ScoreColumns(unspent, variance, scores.caused, scores.caused_variance, unspent, variance)


def _waited_for(request: Request, need: Allocation, view: View, rows: Rows) -> Array | None:
    """(N,) by what share more CPU would be wanted than there is; ``None`` = nowhere."""
    if request.workload.best_effort and view.cpu_wanted is not None:
        wanted = view.cpu_allocated[rows] + view.cpu_wanted[rows]
        wanted = wanted + request.workload.reservation.cpu_millicpus
        there = view.cpu_capacity[rows]
        if view.cpu_real is not None:
            there = np.where(view.cpu_real[rows] > 0, view.cpu_real[rows], there)
        return np.asarray(np.maximum(wanted / np.maximum(there, 1) - 1.0, 0.0))
    turns = turns_of(view, need.cpu_millicpus, rows)
    return None if turns is None else np.asarray(np.expm1(turns))


@by_identity(maxsize=KEPT)
def _own(known: Classification, best_effort: bool) -> OwnScores:
    """The newcomer's. What nothing slows tolerates any sum: then there is nothing to test."""
    return OwnScores.of(known, best_effort=best_effort, below=MOST)


def closest(
    own: OwnScores,
    scores: ScoreColumns,
    rows: Rows,
    residents: NDArray[np.int64],
    load: Array,
    z: float,
    also_beyond: Array,
) -> Fit:
    """The servers that suit it most closely by equation 5.1; on an empty one nothing is lacking.

    Args:
        own: The newcomer's scores; an unknown one counts as the one that harms none.
        scores: Of all servers.
        rows: Those to look at, ascending.
        residents: (S,) how many there are.
        load: (N,) share of CPU that is allocated.
        z: Standard deviations with which each t is to be no less than its c.
        also_beyond: (N,) added to what is lacking.
    """
    first = closest_fits(
        scores.tolerated,
        scores.tolerated_variance,
        scores.caused,
        scores.caused_variance,
        residents,
        rows,
        own.tolerated,
        own.tolerated_variance,
        own.caused,
        own.caused_variance,
        z,
        MOST,
        also_beyond,
        load,
        CANDIDATES_KEPT,
    )
    rows, also_beyond = rows[first], also_beyond[first]
    caused = np.where(np.isnan(own.caused), 0.0, own.caused)[:, None]
    tolerated = np.where(np.isnan(own.tolerated), MOST, own.tolerated)[:, None]
    taken = residents[rows] > 0
    there = np.where(taken, scores.tolerated[:, rows], MOST), scores.caused[:, rows] * taken
    spare = np.stack((there[0] - caused, tolerated - there[1]))
    lacking = np.where(taken, np.maximum(z * _doubt(own, scores, rows) - spare, 0.0), 0.0)
    lacking[0, np.isnan(own.caused)] = 0.0
    lacking[1, np.isnan(own.tolerated)] = 0.0
    norm = np.abs(spare).sum(axis=(0, 1))
    return Fit(rows, norm, lacking, lacking.sum(axis=(0, 1)) + also_beyond)


def _doubt(own: OwnScores, scores: ScoreColumns, rows: Rows) -> Array:
    """(2, R, N) standard deviations of what residents, and the newcomer, have to spare."""
    theirs = scores.tolerated_variance[:, rows], scores.caused_variance[:, rows]
    own_variance = own.caused_variance[:, None], own.tolerated_variance[:, None]
    return np.sqrt(np.stack((theirs[0] + own_variance[0], theirs[1] + own_variance[1])))


def _candidates(view: View, fit: Fit, chosen: int = 0) -> list[Candidate]:
    """These servers with what was compared, and what refuses those not ``chosen``."""
    rows = fit.rows.tolist()
    refused = [at >= chosen and beyond > 0 for at, beyond in enumerate(fit.beyond.tolist())]
    reasons = [ReasonCode.INTERFERENCE if each else ReasonCode.OK for each in refused]
    scores = [None if each else float(at) for at, each in enumerate(refused)]
    return candidates(view, rows, scores, reasons, map(fit.numbers, range(len(rows))))


def _refused(view: View, rows: Sequence[int]) -> list[Candidate]:
    reasons = [ReasonCode.OFF_PREDICTION] * len(rows)
    return candidates(view, list(rows), [None] * len(rows), reasons)
