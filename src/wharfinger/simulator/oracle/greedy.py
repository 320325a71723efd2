"""The oracle where the ground truth knows no pairs: it looks at each server's residents itself.

A yardstick: about what a policy could reach that decides one workload at a time, migrates none, and
knows the arrivals to come and every speed beside any co-runners. docs/policies.md states its rules
and docs/decisions/0038-oracle.md why there is another oracle where pairs are known.

It is greedy and not exact: of a platform one empty server is tried and at most ``LOOKED_AT``
others, the least loaded; a job of several phases counts by the one in which it does most. Nothing
is resized: what is placed is for the most that will be asked. It keeps what it has computed between
calls: the same calls have the same answers, as a replay needs.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.pipeline import Manager
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.core.state import ManagerState
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
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.policies.placement.common import candidate, needed, open_servers, refuse
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.simulator.oracle.colocations import SAFE, Colocations
from wharfinger.simulator.oracle.demand import Knowledge, Wants, lost
from wharfinger.simulator.oracle.true_numbers import CPU_SHARES, NEVER
from wharfinger.simulator.scenario.setup import Setup

Rows = NDArray[np.intp]
LOOKED_AT = 16
"""Servers of a platform that are tried, the least loaded of those that are not empty."""
EVER = 0.5
"""Of a mean job's CPU time, what each counts for on top of its own."""
THRIFT = 0.02
"""What a CPU is worth to one that gets no more than it needs, of a target."""
FILLER = 0.1
"""What best-effort work's performance is worth, over that of others."""
ENOUGH_MORE = 1.05
"""Over one server several have to do so much to be taken where they don't suffice either."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with what is true of it.

    Attributes:
        needed: Value with which it keeps its target from now on; infinite = it is lost.
        aimed: The same without tolerance, as long as that can be.
        best_effort: It has no target.
    """

    wants: Wants
    now: float
    needed: float
    aimed: float
    memory_bytes: int
    best_effort: bool

    def together(self, values: list[float]) -> float:
        """Value on several servers; those of a service are asked the same each."""
        if self.wants.job.load is None or not values:
            return sum(values)
        each = SAFE * self.wants.asked_per_second / len(values)
        return sum(min(value, each) for value in values)

    def given(self, cpu_millicpus: int) -> Allocation:
        """So much CPU; best-effort work has no claim on any."""
        cpu = 0 if self.best_effort else cpu_millicpus
        return Allocation(cpu, self.memory_bytes, self.best_effort)


@dataclass(frozen=True, slots=True)
class Choice:
    """One server that was tried.

    Attributes:
        given: What the newcomer would get.
        score: What would be lost, in targets; lower is better.
        value: The newcomer's there.
        alone: The same without co-runners.
        short: Its own target would be missed.
        disturbed: How many others' targets would be missed for it.
        lost: Of the logarithm of the others' performance.
    """

    row: int
    given: Allocation
    score: float
    value: float
    alone: float
    short: bool
    disturbed: int
    lost: float


class GreedyOracle:
    """True rates beside true co-runners, one workload at a time."""

    name = "oracle"
    settings: Any = None

    def __init__(self, setup: Setup) -> None:
        self._knowledge = Knowledge(setup)
        self._colocations = Colocations(self._knowledge, lambda _: ())
        self._state = ManagerState()
        self._now = 0.0

    def index(self) -> ServerIndex | None:
        """None: it looks at the cluster itself."""
        return None

    def watch(self, core: Manager) -> None:
        """From now on this core asks; residents are as it has them."""
        self._colocations = Colocations(self._knowledge, core.residents_of)
        self._state = core.state

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """As it is."""
        return None

    # --- placing ------------------------------------------------------------------------------

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """Try servers, platform by platform, and take the best; several where one is too little."""
        asked = self._asked(request)
        if asked is None:
            return LeastLoaded().place(request, view)
        there = self._rows(asked, request, view)
        tried = sorted(self._tried(asked, there, view), key=lambda choice: choice.score)
        if not tried:
            return self._refuse(asked, request, view)
        if asked.best_effort and tried[0].disturbed:
            return self._disturbs(tried, view)
        chosen = self._several(asked, tried[0], there, view) or tried[:1]
        return self._plan(asked, chosen, tried, request, view)

    def _asked(self, request: PlacementRequest) -> _Asked | None:
        workload = request.workload
        wants = self._knowledge.wants(workload.name)
        if wants is None:
            return None
        record = self._state.workloads.get(workload.name)
        if record is not None:
            self._now = record.submitted_at + request.waited_seconds
        passed = request.waited_seconds + self._knowledge.start_seconds
        best_effort = workload.best_effort
        least = 0.0 if best_effort else SAFE * wants.needed(0.0, passed)
        aimed = 0.0 if best_effort else SAFE * wants.needed(0.0, passed, tolerant=False)
        aimed = aimed if aimed < inf else least
        memory = workload.reservation.memory_bytes
        return _Asked(wants, self._now, least, aimed, memory, best_effort)

    def _tried(self, asked: _Asked, there: dict[str, Rows], view: ClusterView) -> list[Choice]:
        """Platforms from the best on, while one may still be better than what was found."""
        found: list[Choice] = []
        best = inf
        for bound, platform in sorted((self._bound(asked, p), p) for p in there):
            if best <= bound:
                break
            for row in self._worth_trying(there[platform], view):
                choice = self._choice(asked, platform, row, view)
                if choice is not None:
                    found.append(choice)
                    best = min(best, choice.score)
                if best <= bound:
                    break
        return found

    def _rows(self, asked: _Asked, request: PlacementRequest, view: ClusterView) -> dict[str, Rows]:
        """By platform, the servers with room for the least that it may get there."""
        least = np.array([self._least(asked, p) for p in view.platforms], dtype=np.int64)
        room = (
            (view.cpu_capacity - view.cpu_allocated >= least[view.platform])
            & (view.memory_capacity - view.memory_allocated >= asked.memory_bytes)
            & open_servers(request, view).astype(np.bool_)
        )
        rows = np.flatnonzero(room)
        of = view.platform[rows]
        return {p: rows[of == at] for at, p in enumerate(view.platforms) if (of == at).any()}

    def _least(self, asked: _Asked, platform: str) -> int:
        if asked.best_effort or platform not in self._knowledge.cpu_millicpus:
            return 0
        return self._knowledge.sizes(asked.wants, platform)[0]

    def _bound(self, asked: _Asked, platform: str) -> float:
        """Than which no server of a platform is better: an empty one."""
        bound = inf
        for cpu in self._knowledge.sizes(asked.wants, platform):
            alone = self._knowledge.alone(asked.wants, platform, cpu)
            bound = min(bound, self._score(asked, platform, cpu, alone, 0.0))
            if alone >= asked.aimed:
                break
        return bound

    def _score(
        self, asked: _Asked, platform: str, cpu_millicpus: int, value: float, others: float
    ) -> float:
        """Targets that are lost, now and by what is not there for others.

        CPU time has a price, by how scarce the platform is: where as much is wanted as there is, a
        mean job costs others one and a half targets.
        """
        wants, knowledge = asked.wants, self._knowledge
        if asked.best_effort:
            return others + FILLER * lost(wants.best, value)
        size = cpu_millicpus / 1000 * wants.ideal_seconds / max(knowledge.mean_cpu_seconds, NEVER)
        price = knowledge.scarcity[platform] * (EVER + size)
        own = 0.0
        if value < asked.needed:
            own = 1.0 + lost(wants.best, value)
        elif wants.job.workload.target is None:
            own = lost(wants.best, value)
        if wants.sized:
            aimed = asked.aimed if asked.aimed < inf else wants.best
            price += THRIFT * cpu_millicpus / 1000 + max(0.0, lost(aimed, value))
        return others + own + price

    def _worth_trying(self, rows: Rows, view: ClusterView) -> list[int]:
        """An empty server first, than which none is better; then the least loaded."""
        empty = rows[view.residents[rows] == 0]
        taken = rows[view.residents[rows] > 0]
        if taken.size > LOOKED_AT:
            load = view.cpu_allocated[taken] / view.cpu_capacity[taken]
            taken = taken[np.argsort(load, kind="stable")[:LOOKED_AT]]
        return [*empty[:1].tolist(), *taken.tolist()]

    def _choice(self, asked: _Asked, platform: str, row: int, view: ClusterView) -> Choice | None:
        """The best that it can be given beside the residents; ``None`` = no memory."""
        found: Choice | None = None
        for cpu in self._worth_giving(asked, platform, row, view):
            choice = self._with(asked, cpu, platform, row, view)
            if choice is None:
                break
            if found is None or choice.score < found.score:
                found = choice
            if choice.value >= asked.aimed:
                break
        return found

    def _worth_giving(
        self, asked: _Asked, platform: str, row: int, view: ClusterView
    ) -> tuple[int, ...]:
        """What would be enough with no neighbors, the least first; else the most that is free."""
        sizes = self._knowledge.sizes(asked.wants, platform)
        if asked.best_effort:
            return sizes
        free = int(view.cpu_capacity[row] - view.cpu_allocated[row])
        sizes = tuple(cpu for cpu in sizes if cpu <= free)
        alone = [self._knowledge.alone(asked.wants, platform, cpu) for cpu in sizes]
        enough = [c for c, value in zip(sizes, alone, strict=True) if value >= asked.aimed]
        return tuple(enough) or sizes[-1:]

    def _with(
        self, asked: _Asked, cpu: int, platform: str, row: int, view: ClusterView, servers: int = 1
    ) -> Choice | None:
        given = asked.given(cpu)
        newcomer = self._colocations.newcomer(asked.wants, platform, given, servers)
        effect = self._colocations.effect(newcomer, view.names[row], platform, asked.now)
        if effect is None:
            return None
        others = effect.missed + effect.lost
        score = self._score(asked, platform, cpu, effect.value, others)
        short = effect.value < asked.needed
        alone = newcomer.alone
        return Choice(row, given, score, effect.value, alone, short, effect.missed, effect.lost)

    # --- several servers ----------------------------------------------------------------------

    def _several(
        self, asked: _Asked, one: Choice, there: dict[str, Rows], view: ClusterView
    ) -> list[Choice]:
        """The fewest servers that suffice where one does not; empty = one is better."""
        most = min(
            asked.wants.job.workload.scale.max_servers, view.capabilities.max_servers_per_workload
        )
        if asked.best_effort or most < 2 or asked.aimed == inf or not one.short:
            return []
        best, reached = [], one.value * ENOUGH_MORE
        for count in range(2, most + 1):
            found = self._best_of(asked, count, there, view)
            if len(found) < count:
                break
            does = asked.together([choice.value for choice in found])
            if does >= asked.aimed:
                best = self._least_of(asked, found, view)
                break
            if does > reached:
                best, reached = found, does
        total = sum(choice.value for choice in best)
        for choice in best:
            key = asked.wants.job.name, view.names[choice.row]
            self._colocations.parts[key] = choice.value / total if total > 0 else 1 / len(best)
        return best

    def _best_of(
        self, asked: _Asked, count: int, there: dict[str, Rows], view: ClusterView
    ) -> list[Choice]:
        """So many, each with all that it can use there, where no target is missed for it."""
        found = []
        for platform, rows in there.items():
            empty = rows[view.residents[rows] == 0][1:count].tolist()
            for row in (*self._worth_trying(rows, view), *empty):
                most = self._worth_giving(asked, platform, row, view)[-1]
                choice = self._with(asked, most, platform, row, view, count)
                if choice is not None and not choice.disturbed:
                    found.append(choice)
        return sorted(found, key=lambda choice: (-choice.value, choice.row))[:count]

    def _least_of(self, asked: _Asked, chosen: list[Choice], view: ClusterView) -> list[Choice]:
        """On the same servers, the smallest share of their sizes that is still enough."""
        platforms = [view.platforms[view.platform[choice.row]] for choice in chosen]
        for share in CPU_SHARES:
            fewer = []
            for platform, choice in zip(platforms, chosen, strict=True):
                sizes = self._knowledge.sizes(asked.wants, platform)
                most = choice.given.cpu_millicpus
                cpu = min(most, next(s for s in sizes if s >= share * most))
                fewer.append(self._with(asked, cpu, platform, choice.row, view, len(chosen)))
            kept = [choice for choice in fewer if choice is not None]
            enough = len(kept) == len(chosen) and not any(choice.disturbed for choice in kept)
            if enough and asked.together([choice.value for choice in kept]) >= asked.aimed:
                return kept
        return chosen

    # --- saying so ----------------------------------------------------------------------------

    def _plan(
        self,
        asked: _Asked,
        chosen: list[Choice],
        tried: list[Choice],
        request: PlacementRequest,
        view: ClusterView,
    ) -> Plan:
        others = [choice for choice in tried if choice.row not in {each.row for each in chosen}]
        shown = (*chosen, *others)[:CANDIDATES_KEPT]
        does = asked.together([choice.value for choice in chosen])
        pace = does / asked.aimed if 0 < asked.aimed < inf else None
        decision = Decision(
            stage=Stage.PLACEMENT,
            decided_by=self.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=_why(chosen, asked, view),
            considered=len(chosen) + len(others),
            candidates=tuple(_shown(choice, view) for choice in shown),
            numbers={
                **needed(chosen[0].given),
                "waited_seconds": request.waited_seconds,
            },
            predicted=Prediction(pace, pace, pace, 1.0) if pace is not None else None,
        )
        return Plan(tuple(Placement(view.names[c.row], c.given) for c in chosen), decision)

    def _refuse(self, asked: _Asked, request: PlacementRequest, view: ClusterView) -> Refusal:
        sizes = [self._least(asked, platform) for platform in view.platforms]
        by_row = np.array(sizes, dtype=np.int64)[view.platform]
        need = asked.given(min(sizes, default=0))
        return refuse(self.name, request, need, view, by_row)

    def _disturbs(self, tried: list[Choice], view: ClusterView) -> Refusal:
        best = tried[0]
        return Refusal(
            Decision(
                Stage.PLACEMENT,
                self.name,
                accepted=False,
                reason=ReasonCode.INTERFERENCE,
                message=(
                    f"{best.disturbed} of those on {view.names[best.row]} would miss their targets "
                    "for it, and fewer nowhere"
                ),
                would_change="fewer or less sensitive neighbors, or another server",
                considered=len(tried),
                candidates=tuple(
                    _shown(choice, view, ReasonCode.INTERFERENCE)
                    for choice in tried[:CANDIDATES_KEPT]
                ),
            )
        )


def _shown(choice: Choice, view: ClusterView, reason: ReasonCode = ReasonCode.OK) -> Candidate:
    known = candidate(view, choice.row, choice.score, reason)
    numbers = {
        **known.numbers,
        "cpu_needed_millicpus": float(choice.given.cpu_millicpus),
        "own_target_missed": float(choice.short),
        "residents_targets_missed": float(choice.disturbed),
        "residents_lost_log": choice.lost,
        "performance_beside_residents": choice.value / choice.alone if choice.alone > 0 else 0.0,
    }
    return replace(known, numbers=numbers)


def _why(chosen: list[Choice], asked: _Asked, view: ClusterView) -> str:
    best = chosen[0]
    name = view.names[best.row]
    if asked.best_effort:
        return f"{name} gives it the most for what that takes from others"
    given = f"{best.given.cpu_millicpus}m CPU on {name}"
    if len(chosen) > 1:
        given = f"{given} and {len(chosen) - 1} more"
    kept = asked.together([choice.value for choice in chosen]) >= asked.needed
    own = "keep its target" if kept else "are the least loss, its target can't be kept for less"
    disturbed = sum(choice.disturbed for choice in chosen)
    if disturbed:
        return f"{given} {own}; {disturbed} there miss theirs for it, as few as can be"
    return f"{given} {own}, and no target there is missed for it"
