"""Paragon: with what users state, on the platform and beside the neighbors that suit it.

Source: Paragon (TOCS) 3.2, greedy selection; 3.3, statistical selection; 3.5, short jobs. Added:
the rules ``cumulative`` and ``traded``. The core profiles and classifies before it asks (2.4).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import compress, repeat
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import (
    TargetPart,
    normalized_over,
    normalized_with,
    parts_of,
    reached_probability,
    slower,
    worse_by,
)
from wharfinger.core.seams.contention import (
    Array,
    Assessment,
    LogEstimates,
    Rows,
    ScoreColumns,
)
from wharfinger.core.seams.estimation import ALL, AUTO, ProfilingNeeds
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.errors import InvalidInput
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.arrays import normal_below
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Decision,
    Place,
    Prediction,
    ReasonCode,
    Refuse,
    Stage,
)
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate, quantile
from wharfinger.model.view import Request, View
from wharfinger.model.workload import OnMiss
from wharfinger.policies.placement.common import (
    ByReservation,
    candidates,
    is_full,
    open_servers,
    plan,
    refuse,
)
from wharfinger.policies.placement.fragmentation import fragmentation
from wharfinger.policies.placement.harmony import BOUND, Harmony
from wharfinger.policies.placement.paragon_hash import (
    HashedCandidates,
    HashSettings,
    HashTables,
    Selection,
    ranked,
)
from wharfinger.policies.placement.paragon_search import (
    GreedySearch,
    OwnScores,
    Searched,
    cumulative,
)
from wharfinger.policies.placement.random_choice import in_random_order
from wharfinger.policies.placement.sizing import (
    LEAST_KEPT,
    LEAST_STD,
    REACHABLE,
    REJECTED,
    kept_alone,
    kept_probabilities,
    prediction_beside,
    starts_cold,
)

ALIKE = 1e-9
"""Platforms whose predicted performance differs by less, of the logarithm, are one."""
TURNS_ERROR = 0.3
"""Of what waiting for CPUs takes: not all that is allocated is busy."""
FEW = 0.1
"""Of the servers with room: a short job goes to one of so many."""


class SelectionRule(StrEnum):
    """How a server is chosen."""

    PUBLISHED = "published"
    """Least ‖D1 + D2‖₁ on the best platform where D1 and D2 are not negative (Paragon 3.2)."""
    CUMULATIVE = "cumulative"
    """The same, and each resident's neighbors count against what it tolerates."""
    TRADED = "traded"
    """Most targets kept in expectation, the newcomer's and residents', then most performance."""


class WhenMeasured(StrEnum):
    """Where a simulation measures what runs, as a live manager always does."""

    PHASES = "phases"
    """In scenarios whose workloads have phases."""
    ALWAYS = "always"
    NEVER = "never"


class Reserved(StrEnum):
    """Which reservation a simulation gives."""

    NEEDED = "needed"
    """What each workload can use."""
    STATED = "stated"
    """What its user states, who errs (Quasar 1)."""


@dataclass(frozen=True, slots=True)
class ParagonSettings:
    """Every constant of the policy.

    Attributes:
        rule: How a server is chosen: ``published``, ``cumulative`` or ``traded``.
        confidence: With which no workload is slowed beyond what it tolerates; 0.5 = as published.
            Of ``traded`` only the bounds of predictions.
        reservations: In a simulation: ``needed`` = what each workload can use, ``stated`` = what
            its user states.
        measures: In a simulation: whether what runs is measured, probed, classified again and
            moved, as it is live: ``phases`` = where workloads have phases, ``always``, ``never``.
        performance_weight: Of ``traded``: targets that one unit of the logarithm of performance
            counts as.
        fragmentation_weight: Of ``traded``: the price of CPU where few servers have room for the
            sizes that others hold, in targets for each later workload that finds no room.
        short_seconds: A workload that is expected to run for less is not profiled, and goes to an
            empty server (Paragon 3.5).
        idle_share: Of the idle CPU that the profiling of one workload may take, to measure it on
            more than two platforms; 0 = on two, as published (Paragon 2.4).
        probes: On how many platforms more than one, within ``idle_share``: ``all`` that have room,
            a number, or ``auto``: those where a run repays what it costs.
        sources: How many sources of interference are injected beside its copy, while it waits; of
            others its scores are those of similar programs. As published: 2.
        start_first: While no more than this share of all CPU is allocated, a workload starts
            before its profile where that would cost its target more than it tells, by how long
            it takes, as its user states, as its program took, or as workloads take here; 0 = never.
        beside: Whether copies of what starts so, and may be restarted, run beside it.
        bound: Tests of a server for one source that a search makes at most.
        selection: Whether ``published`` and ``cumulative`` look at all servers, ``greedy``, or at
            those that hashes of scores name, ``hash`` (Paragon 3.3).
        hash: How good a server ``hash`` finds, and how surely.
        hopeless: A target that is kept with a lower probability is out of reach (``will-miss``).
        seed: Of all draws. Another seed places short jobs elsewhere.
    """

    rule: SelectionRule = SelectionRule.TRADED
    confidence: float = 0.8
    reservations: Reserved = Reserved.NEEDED
    measures: WhenMeasured = WhenMeasured.PHASES
    performance_weight: float = 0.3
    fragmentation_weight: float = 2.0
    short_seconds: float = 30.0
    bound: int = 5_000_000
    seed: int = 0
    idle_share: float = 0.25
    probes: str = ALL
    start_first: float = 0.35
    beside: bool = False
    sources: int = 0
    selection: Selection = Selection.GREEDY
    hash: HashSettings = field(default_factory=HashSettings)
    hopeless: float = 0.5


@dataclass(frozen=True, slots=True)
class PlacementQuestion:
    """One request, and what is known of it on each of the S servers.

    Attributes:
        able: Rows with room where it would fit beside the residents.
        platform_drop: (P,) what each platform takes off the logarithm of its performance; so with
            ``platform_variance``.
        parts: Of its target; ``alone`` is its performance over that with what is stated, without
            neighbors, ``None`` = nothing can be predicted.
    """

    request: Request
    view: View
    need: Allocation
    able: Rows
    contention: Assessment
    platform_drop: Array
    platform_variance: Array
    parts: list[TargetPart]
    alone: Estimate | None

    def preference(self) -> tuple[NDArray[np.intp], list[list[int]]]:
        """(P,) the place of each platform, those alike being one; the platforms of each place."""
        return places_of(self.platform_drop)

    def drop(self, suffered: LogEstimates, rows: Rows) -> LogEstimates:
        """What platform, residents and waiting for CPUs take together, on these servers."""
        platform, turns = self.view.platform[rows], turns_of(self.view, self._cpu, rows)
        mean = suffered.mean + self.platform_drop[platform]
        variance = suffered.variance + self.platform_variance[platform]
        if turns is not None:
            mean, variance = mean + turns, variance + (TURNS_ERROR * turns) ** 2
        return LogEstimates(mean, variance)

    def turns_taken(self, rows: Rows) -> Array | float:
        """(R,) what residents wait longer for CPUs beside it: the sum of their logarithms."""
        after, before = turns_of(self.view, self._cpu, rows), turns_of(self.view, 0, rows)
        if after is None or before is None:
            return 0.0
        return np.asarray(self.view.residents[rows] * (after - before))

    @property
    def _cpu(self) -> int:
        return self.need.cpu_millicpus

    def load(self, rows: Rows) -> Array:
        """Share of each one's CPU that would be taken."""
        taken = self.view.cpu_allocated[rows] + self.need.cpu_millicpus
        return np.asarray(taken / np.maximum(self.view.cpu_capacity[rows], 1))


class Paragon(ByReservation):
    """Chooses platform and neighbors for what a workload states."""

    name = "paragon"
    settings: Any

    def __init__(self, settings: ParagonSettings | None = None) -> None:
        self._settings = self.settings = settings or ParagonSettings()
        if not 0.5 <= self._settings.confidence < 1:
            raise InvalidInput(
                f"{self.name}: confidence={self._settings.confidence:g} is not a probability from "
                "0.5 to below 1"
            )
        probes = self._settings.probes
        if probes not in (AUTO, ALL) and not probes.isdecimal():
            mend = f"write {AUTO}, {ALL}, or a number of platforms"
            raise InvalidInput(f"{self.name}: probes={probes!r} is none; {mend}")
        self._wanted = self._settings.hash.candidates(self.name)
        hashes = self._settings.selection is Selection.HASH
        if hashes and self._settings.rule is SelectionRule.TRADED:
            raise InvalidInput(
                f"{self.name}: selection=hash goes by scores, and rule=traded by none; "
                "write rule=published or rule=cumulative"
            )
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """Settings that were changed and that the rule does not read."""
        settings, usual = self._settings, ParagonSettings()
        traded = settings.rule is SelectionRule.TRADED
        others = ("bound", "hash") if traded else ("performance_weight", "fragmentation_weight")
        mend = "rule=published or rule=cumulative" if traded else "rule=traded"
        for name in others:
            if getattr(settings, name) != getattr(usual, name):
                raise InvalidInput(
                    f"{self.name}: {name} is not read under rule={settings.rule}; write {mend}, or "
                    f"leave {name} out"
                )
        if settings.hash != usual.hash and settings.selection is not Selection.HASH:
            raise InvalidInput(f"{self.name}: hash is read under selection=hash only; add that")

    @property
    def profiling(self) -> ProfilingNeeds:
        """What is stated, on two platforms and more where CPUs are idle."""
        own = self._settings
        return ProfilingNeeds(
            stated=True,
            sources=own.sources,
            idle_share=own.idle_share,
            probes=own.probes,
            short_seconds=own.short_seconds,
            start_first=own.start_first,
            beside=own.beside,
        )

    def index(self) -> ServerIndex | None:
        """By t and c, where the rule asks for them."""
        if self._settings.rule is SelectionRule.TRADED:
            return None
        counted = cumulative if self._settings.rule is SelectionRule.CUMULATIVE else None
        if self._settings.selection is Selection.HASH:
            return HashTables(counted)
        return Harmony(counted)

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """The changed reservation; below its target it keeps that, and others may have to go."""
        verdict, off = super().resize(request, placements, view), request.off_target
        if verdict is not None or off is None or off.normalized >= 1:
            return verdict
        decision = Decision(
            Stage.ADAPTATION,
            self.name,
            accepted=False,
            reason=ReasonCode.WOULD_NOT_HELP,
            message=f"not resized: at {off.normalized:.0%} of target with what its manifest states",
            would_change="a larger spec.resources.cpu, another server, or other neighbors",
            numbers={"pace": off.normalized},
        )
        return Refuse(decision)

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Filter by room; then by the rule."""
        need = request.reserved(view.capabilities)
        # What has run once is admitted, as under ``quasar``.
        if request.workload.on_miss is OnMiss.REJECT and not request.restarted:
            probability = self._best_alone(request, need, view)
            if probability < self._settings.hopeless:
                return _rejected(self.name, probability, len(view.names))
        if is_full(request, need, view):
            return refuse(self.name, request, need, view)
        if (at_once := self._at_once(request, need, view)) is not None:
            return at_once
        rows = with_room(request, need, view)
        if not rows.size:
            return refuse(self.name, request, need, view)
        asked = self._look(request, view, need, rows)
        if not asked.able.size:
            return self._does_not_fit(asked, rows)
        if self._is_short(request):
            return self._place_short(asked)
        if request.classification is None:
            return self._place_unknown(asked)
        return self._choose(asked)

    def _choose(self, asked: PlacementQuestion) -> Place | Refuse:
        if self._settings.rule is SelectionRule.TRADED or asked.request.workload.best_effort:
            return self._trade(asked)
        if self._settings.selection is Selection.HASH:
            drawn = self._drawn(asked)
            if drawn.rows:
                return self._best_drawn(asked, drawn)
        return self._search(asked)

    # --- what is known ------------------------------------------------------------------------

    def _look(
        self, request: Request, view: View, need: Allocation, rows: Rows
    ) -> PlacementQuestion:
        contention = Assessment(len(view.names))
        if view.contention is not None:
            contention = view.contention.assess(request, view, self._settings.confidence)
        if (apart := contention.incompatible) is not None:
            rows = rows[~apart[rows]]
        drop, variance = np.zeros(len(view.platforms)), np.zeros(len(view.platforms))
        # Best-effort work leaves the best platforms to others.
        if request.classification is not None and not request.workload.best_effort:
            drop, variance = slower(request.classification, view.platforms, need.cpu_millicpus)
        alone = self._alone(request, view, need)
        return PlacementQuestion(request, view, need, rows, contention, drop, variance, *alone)

    def _alone(
        self, request: Request, view: View, need: Allocation
    ) -> tuple[list[TargetPart], Estimate | None]:
        """Performance over target with what is stated."""
        classification, cpu = request.classification, need.cpu_millicpus
        if classification is None or cpu <= 0:
            return [], None
        period = view.capabilities.quota_period_seconds
        parts = parts_of(request.workload, classification, request.waited_seconds, period)
        if not parts:
            return [], None
        (mean,), (std,) = normalized_over(parts, (cpu,), self._settings.confidence)
        return parts, Estimate(mean, std)

    def _predicted(self, asked: PlacementQuestion, row: int) -> tuple[Prediction | None, float]:
        """On one server alone: a prediction needs no other. That the target is kept, or 1."""
        if asked.alone is None:
            return None, 1.0
        workload, cpu, here = asked.request.workload, asked.need.cpu_millicpus, np.array([row])
        suffered = asked.contention.suffered_on(here)
        drop = asked.drop(suffered, here)
        beside = drop.mean.item(0), drop.variance.item(0)
        by_neighbors = suffered.mean.item(0), suffered.variance.item(0)
        given = asked.parts, self._settings.confidence, asked.alone, cpu
        predicted = prediction_beside(*given, beside, by_neighbors, (workload.target, cpu))
        kept = exp(log(max(1 - workload.tolerance, LEAST_KEPT)))
        return predicted, reached_probability(worse_by(asked.alone, *beside), kept)

    def _best_alone(
        self,
        request: Request,
        need: Allocation,
        view: View,
        by_platform: tuple[Array, Array] | None = None,
    ) -> float:
        """That its target is kept alone on the best server, had it not waited; 1 = unknown.

        ``by_platform`` is what each platform takes away, where that is known already.
        """
        classification, cpu = request.classification, need.cpu_millicpus
        if classification is None or cpu <= 0:
            return 1.0
        period = view.capabilities.quota_period_seconds
        parts = parts_of(request.workload, classification, 0.0, period)
        large = [largest >= cpu for largest in view.largest_cpu().tolist()]
        if not parts or not any(large):
            return 1.0
        alone = normalized_with(parts, cpu, self._settings.confidence)
        drops, variances = by_platform or slower(classification, view.platforms, cpu)
        mean, variance = log(alone.mean), alone.std**2
        kept = log(max(1 - request.workload.tolerance, LEAST_KEPT))
        deviations = max(
            (mean - drop - kept) / sqrt(variance + its_variance + LEAST_STD**2)
            for drop, its_variance in compress(
                zip(drops.tolist(), variances.tolist(), strict=True), large
            )
        )
        return normal_below(np.array([deviations])).item()

    # --- greedy selection ---------------------------------------------------------------------

    def _at_once(self, request: Request, need: Allocation, view: View) -> Place | None:
        """What the index answers, without a pass over all servers; ``None`` = ask them all."""
        classification, contention = request.classification, view.contention
        if not isinstance(view.index, Harmony) or classification is None or contention is None:
            return None
        if request.workload.best_effort or self._is_short(request):
            return None
        asked = self._look(request, view, need, np.zeros(0, dtype=np.intp))
        found = self._indexed(OwnScores.of(classification), asked, self._platforms(asked)[1])
        return None if found is None else self._found(asked, found)

    def _search(self, asked: PlacementQuestion) -> Place:
        classification, view = asked.request.classification, asked.view
        assert classification is not None
        own = OwnScores.of(classification)
        at, groups = self._platforms(asked)
        found = self._indexed(own, asked, groups)
        if found is None:
            scores = self._scores(view)
            z, keep = quantile(self._settings.confidence), CANDIDATES_KEPT
            preference = at.take(view.platform)
            bound = self._settings.bound
            search = GreedySearch(own, scores, view, z, preference, keep, bound)
            settled = asked.able[view.unsettled[asked.able] == 0]
            found = search.among(settled if settled.size else asked.able)
        return self._found(asked, found)

    def _platforms(self, asked: PlacementQuestion) -> tuple[NDArray[np.intp], list[list[int]]]:
        """(P,) the place of each platform; the platforms of each place, the preferred first."""
        return asked.preference()

    def _indexed(
        self, own: OwnScores, asked: PlacementQuestion, groups: list[list[int]]
    ) -> Searched | None:
        """By the index; ``None`` = there is none, or the search has to back-track."""
        request, view = asked.request, asked.view
        if not isinstance(view.index, Harmony):
            return None
        excluded = set(request.excluded)
        if (apart := asked.contention.incompatible) is not None:
            excluded.update(np.flatnonzero(apart).tolist())
        z, keep = quantile(self._settings.confidence), CANDIDATES_KEPT
        found = view.index.best(
            view, own, asked.need, z, platforms=groups, excluded=excluded, keep=keep, bound=BOUND
        )
        if found is None or not found.complete or not found.rows:
            return None
        return Searched(found.rows, found.norms, [0.0] * len(found.rows))

    def _scores(self, view: View) -> ScoreColumns:
        servers = len(view.names)
        scores = None if view.contention is None else view.contention.score_columns(servers)
        if scores is None:
            none = np.zeros((len(SharedResource), servers))
            all_ = np.full_like(none, 100.0)
            return ScoreColumns(all_, none, none, none, all_, none)
        return cumulative(scores) if self._settings.rule is SelectionRule.CUMULATIVE else scores

    def _found(self, asked: PlacementQuestion, found: Searched) -> Place:
        server = asked.view.names[found.rows[0]]
        message = f"{server} is on the best platform where all tolerate each other"
        if found.violations[0] > 0:
            points = f"{found.violations[0]:.0f} points"
            message = f"nowhere do all tolerate each other: on {server} {points} are lacking"
        # Scores rise down the list, and so do places: a norm alone would not.
        listed = [
            {"norm": norm, "interference_beyond_tolerated": lacking}
            for norm, lacking in zip(found.norms, found.violations, strict=True)
        ]
        places = [float(place) for place in range(len(found.rows))]
        return self._planned(asked, found.rows, places, listed, message, found.numbers())

    # --- statistical selection ------------------------------------------------------------------

    def _drawn(self, asked: PlacementQuestion) -> HashedCandidates:
        """Those that the newcomer's hashes name, best first."""
        classification, view, index = asked.request.classification, asked.view, asked.view.index
        assert classification is not None
        own, able = OwnScores.of(classification), asked.able
        settled = able[view.unsettled[able] == 0]
        if not isinstance(index, HashTables):
            index = self.index()
        assert isinstance(index, HashTables)
        able = settled if settled.size else able
        rows, hashed = index.drawn(view, own, able, self._wanted)
        z, preference = quantile(self._settings.confidence), self._platforms(asked)[0]
        scores, at = self._scores(view), preference.take(view.platform)
        order, violation, quality = ranked(own, scores, view, z, at, rows)
        best, lacking, good = (each[order].tolist() for each in (rows, violation, quality))
        return HashedCandidates(best, lacking, good, hashed)

    def _best_drawn(self, asked: PlacementQuestion, drawn: HashedCandidates) -> Place:
        examined, keep = len(drawn.rows), CANDIDATES_KEPT
        server, lacking = asked.view.names[drawn.rows[0]], drawn.violations[0]
        message = f"{server} is the best of {examined} that were drawn, and all tolerate each other"
        if lacking > 0:
            message = (
                f"none of {examined} drawn suits: on {server} {lacking:.0f} points are lacking"
            )
        # Who looks at all misses nothing.
        missed = self._settings.hash.quality**examined if drawn.hashed else 0.0
        numbers = {
            "examined": float(examined),
            "hashed": float(drawn.hashed),
            "miss_probability": missed,
        }
        listed = [
            {"quality": quality, "interference_beyond_tolerated": violation}
            for quality, violation in zip(drawn.qualities, drawn.violations, strict=True)
        ]
        rows, places = drawn.rows[:keep], [float(place) for place in range(keep)]
        return self._planned(asked, rows, places, listed, message, numbers)

    # --- trading ------------------------------------------------------------------------------

    def _trade(self, asked: PlacementQuestion) -> Place:
        """Where most targets are kept in expectation, its own and residents'."""
        rows, request = asked.able, asked.request
        if request.workload.best_effort:
            settled = rows[asked.view.unsettled[rows] == 0]
            rows = settled if settled.size else rows
        loss, weight = asked.contention.residents_loss_on(rows), self._settings.performance_weight
        kept, performance = self._own(asked, rows)
        gain = kept - loss.targets
        slower_by = loss.performance + asked.turns_taken(rows)
        gain += weight * (performance - slower_by)
        taken = fragmentation(asked.view, asked.need.cpu_millicpus, rows)
        gain -= self._settings.fragmentation_weight * taken
        if request.workload.best_effort:
            # What nobody has been given is what it gets.
            gain = gain - weight * asked.load(rows)
        order = most_of(gain, CANDIDATES_KEPT)
        order = order[np.lexsort((rows[order], asked.load(rows[order]), -gain[order]))]
        order = order[:CANDIDATES_KEPT]
        best = rows[order]
        listed = [
            {"kept_probability": p, "residents_targets_lost": t}
            for p, t in zip(kept[order].tolist(), loss.targets[order].tolist(), strict=True)
        ]
        server = asked.view.names[int(best[0])]
        message = f"{server} keeps most targets in expectation, its own and the residents'"
        return self._planned(asked, best.tolist(), (-gain[order]).tolist(), listed, message, {})

    def _own(self, asked: PlacementQuestion, rows: Rows) -> tuple[Array, Array]:
        """Probability that its target is kept on each; expected logarithm of performance."""
        drop = asked.drop(asked.contention.suffered_on(rows), rows)
        if asked.alone is None and not starts_cold(asked.request):
            return np.zeros(len(rows)), -drop.mean
        # It gets the same everywhere.
        alone = asked.alone or Estimate(1.0, 0.0)
        mean = log(alone.mean) - drop.mean
        does = LogEstimates(mean, alone.std**2 + drop.variance)
        return kept_probabilities(does, asked.request.workload.tolerance), mean

    # --- others -------------------------------------------------------------------------------

    def _is_short(self, request: Request) -> bool:
        expected = request.workload.expected_seconds
        return expected is not None and expected < self._settings.short_seconds

    def _place_short(self, asked: PlacementQuestion) -> Place:
        """One drawn of those with most room that cause least (Paragon 3.5)."""
        rows, view = asked.able, asked.view
        caused = np.zeros(len(rows))
        if view.contention is not None:
            scores = view.contention.score_columns(len(view.names))
            caused = caused if scores is None else scores.caused[:, rows].sum(axis=0)
        order = np.lexsort((rows, caused, asked.load(rows)))
        load, pressed = asked.load(rows)[order], caused[order]
        alike = int(((load == load[0]) & (pressed == pressed[0])).sum())
        few = rows[order[: max(alike, int(FEW * len(rows)), 1)]]
        drawn = next(in_random_order(len(few), self._settings.seed, asked.request.workload.name))
        row = int(few[drawn])
        message = f"{view.names[row]} was drawn of {len(few)} that are emptiest: a short job"
        return self._planned(asked, [row], [0.0], [{}], message, {"drawn_of": float(len(few))})

    def _place_unknown(self, asked: PlacementQuestion) -> Place:
        """Nothing is known of it: the least loaded."""
        rows = asked.able
        load = asked.load(rows)
        order = np.lexsort((rows, load))[:CANDIDATES_KEPT]
        best, loads = rows[order].tolist(), load[order].tolist()
        message = f"{asked.view.names[best[0]]} is the least loaded; nothing is known of it"
        return self._planned(asked, best, loads, repeat({}), message, {})

    def _does_not_fit(self, asked: PlacementQuestion, rows: Rows) -> Refuse:
        refusal = refuse(self.name, asked.request, asked.need, asked.view)
        server = asked.view.names[int(rows[0])]
        decision = replace(
            refusal.decision,
            reason=ReasonCode.DOES_NOT_FIT,
            message=f"it would not fit beside the residents of {server}",
            would_change=f"the end of a resident of {server}, or room on another server",
        )
        return replace(refusal, decision=decision)

    def _planned(
        self,
        asked: PlacementQuestion,
        rows: list[int],
        scores: Iterable[float],
        numbers: Iterable[dict[str, Any]],
        message: str,
        compared: dict[str, float],
    ) -> Place:
        request, need, view = asked.request, asked.need, asked.view
        ranked = candidates(view, rows, scores, compared=numbers)
        reason, (predicted, kept) = ReasonCode.OK, self._predicted(asked, rows[0])
        if kept < self._settings.hopeless:
            by_platform = asked.platform_drop, asked.platform_variance
            probability = self._best_alone(request, need, view, by_platform)
            if probability < self._settings.hopeless:
                reason = ReasonCode.WILL_MISS
                message = f"{message}; its target is out of reach: {kept_alone(probability)}"
        given = self.name, request, need, view, ranked, message
        return plan(*given, reason=reason, compared=compared, predicted=predicted)


def turns_of(view: View, more_millicpus: int, rows: Rows) -> Array | None:
    """(R,) what waiting for CPUs takes off the logarithm of performance; 0 = there are enough.

    Where servers promise more CPU than they have, all get their part of it at most; ``None`` =
    none does.
    """
    if view.cpu_real is None:
        return None
    real = np.where(view.cpu_real[rows] > 0, view.cpu_real[rows], np.inf)
    return np.asarray(np.log(np.maximum((view.cpu_allocated[rows] + more_millicpus) / real, 1.0)))


def _rejected(policy: str, probability: float, servers: int) -> Refuse:
    """It is not to run, as its user says, for its target is out of reach."""
    decision = Decision(
        stage=Stage.PLACEMENT,
        decided_by=policy,
        accepted=False,
        reason=ReasonCode.WILL_MISS,
        message=f"{REJECTED}: {kept_alone(probability)}",
        would_change=REACHABLE,
        considered=servers,
    )
    return Refuse(decision)


def places_of(drop: Array) -> tuple[NDArray[np.intp], list[list[int]]]:
    """(P,) the place of each platform by what it takes away; the platforms of each place."""
    drops = drop.tolist()
    at, groups, last = [0] * len(drops), list[list[int]](), -inf
    for platform in sorted(range(len(drops)), key=drops.__getitem__):
        if drops[platform] > last + ALIKE:
            groups.append([])
            last = drops[platform]
        groups[-1].append(platform)
        at[platform] = len(groups) - 1
    return np.array(at, dtype=np.intp), groups


def most_of(values: Array, count: int) -> Rows:
    """Places of the ``count`` largest values, ascending, with all that equal the least of them.

    >>> most_of(np.array([1.0, 3.0, 2.0, 3.0, 2.0]), 3).tolist()
    [1, 2, 3, 4]
    """
    if len(values) <= count:
        return np.arange(len(values))
    least = len(values) - count
    return np.flatnonzero(values >= np.partition(values, least)[least])


def with_room(request: Request, need: Allocation, view: View) -> Rows:
    """Rows of the servers where it may go and that have room."""
    return np.flatnonzero(
        open_servers(request, view).astype(np.bool_)
        & (view.cpu_capacity - view.cpu_allocated >= need.cpu_millicpus)
        & (view.memory_capacity - view.memory_allocated >= need.memory_bytes)
    )
