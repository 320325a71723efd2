"""The oracle: it reads the ground truth, each server's residents with the newcomer among them.

About what a policy could keep that decides one workload at a time and migrates none
(docs/policies.md; docs/decisions/0038-oracle.md). It is greedy: of a platform one empty server
and at most ``LOOKED_AT`` others are tried, a job of several phases counts by the one with the most
work. What runs is resized, up and down, out and in (``adaptation`` says when). Results are cached,
and the same calls have the same answers, as a replay needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.pipeline import Core
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.core.state import ManagerState
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
from wharfinger.model.view import Request, Resize, View
from wharfinger.policies.placement.common import candidate, needed, open_servers, refuse
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.simulator.oracle.colocations import SAFE, Colocations, NewcomerEffect
from wharfinger.simulator.oracle.demand import CPU_SHARES, NEVER, Knowledge, Wants, lost
from wharfinger.simulator.scenario.setup import Setup

Rows = NDArray[np.intp]
LOOKED_AT = 16  # servers of a platform that are tried, the least loaded of those that are not empty
EVER = 0.5  # of a mean job's CPU time, what each counts for on top of its own
THRIFT = 0.02  # what a CPU is worth to one that gets no more than it needs, of a target
UNSERVED = 3.0  # what it costs on top if a service answers nothing for a while, in targets
SAME_COST = 1e-6  # sums of costs are only so exact
FILLED = 1.0  # times its scarcity: what all memory of a server is worth, in targets
FILLER = 0.1  # what best-effort work's performance is worth, over that of others
ENOUGH_MORE = 1.05  # times one server's value: several that don't suffice either must reach this


@dataclass(frozen=True, slots=True)
class Choice:
    """One server that was tried; ``given`` is what the newcomer would get.

    Attributes:
        score: What would be lost, in targets; lower is better.
        alone: The newcomer's value there without co-runners.
        short: Its own target would be missed.
    """

    row: int
    given: Allocation
    score: float
    alone: float
    short: bool
    effect: NewcomerEffect

    @property
    def value(self) -> float:
        """The newcomer's there."""
        return self.effect.value


class GreedyOracle:
    """True rates beside true co-runners, one workload at a time.

    ``short`` names those that will miss their targets with what they hold, unless it is more.
    """

    name = "oracle"
    settings: Any = None

    def __init__(self, setup: Setup) -> None:
        self._knowledge = Knowledge(setup)
        self._colocations = Colocations(self._knowledge, lambda _: ())
        self._state = ManagerState()
        self._now = 0.0
        self.short: dict[str, None] = {}

    def index(self) -> ServerIndex | None:
        """None: it looks at the cluster itself."""
        return None

    def watch(self, core: Core) -> None:
        """From now on this core asks; residents are as it has them."""
        self._colocations = Colocations(self._knowledge, core.residents_of)
        self._state = core.state

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """The least with which it keeps its target from now on; where that can't be, the most.

        A service is asked what it is asked now.
        """
        wants = self._knowledge.wants(request.workload.name)
        if wants is None or not wants.sized or view.capabilities.resize is not Resize.ANY:
            return None
        self._now = max(self._now, request.now)
        held = {view.row(p.server): p.allocation.cpu_millicpus for p in placements}
        platforms = {view.names[row]: view.platforms[view.platform[row]] for row in held}
        value, done = self._colocations.present(wants, platforms, self._now)
        of = self._knowledge, self._colocations, wants, request, view, self._now
        search = Search(*of, done=done, held=held)
        chosen = search.resized(value)
        self.short.pop(request.workload.name, None)
        if search.is_short(chosen, value):
            self.short[request.workload.name] = None
        if not chosen:
            return None
        does = {view.names[choice.row]: max(choice.value, NEVER) for choice in chosen}
        parts = {server: each / sum(does.values()) for server, each in does.items()}
        self._colocations.move_on(request.workload.name, done, parts)
        return search.plan(chosen, chosen, Stage.ADAPTATION)

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Try servers, platform by platform, and take the best; several where one is too little."""
        wants = self._knowledge.wants(request.workload.name)
        if wants is None:
            return LeastLoaded().place(request, view)
        record = self._state.workloads.get(request.workload.name)
        if record is not None:
            self._now = record.submitted_at + request.waited_seconds
        search = Search(self._knowledge, self._colocations, wants, request, view, self._now)
        tried = sorted(search.tried(), key=lambda choice: choice.score)
        if not tried:
            return search.refusal()
        if request.workload.best_effort and tried[0].effect.missed:
            return search.disturbing(tried)
        chosen = search.several(tried[0]) or tried[:1]
        self.short.update(dict.fromkeys(name for c in chosen for name in c.effect.victims))
        if any(choice.short for choice in chosen):
            self.short[request.workload.name] = None
        return search.plan(chosen, tried)


class Search:
    """One request, what is true of it, and the servers that it may go to.

    ``held`` is the CPU that it holds by row, and ``done`` its work, where it runs.

    Attributes:
        needed: Value with which it keeps its target from now on; infinite = it is lost.
        aimed: The same without tolerance, as long as that can be.
        rows: By platform, the servers with room for the least that it may get there.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        colocations: Colocations,
        wants: Wants,
        request: Request,
        view: View,
        now: float,
        done: float = 0.0,
        held: Mapping[int, int] | None = None,
    ) -> None:
        self._knowledge, self._colocations = knowledge, colocations
        self._wants, self._request, self._view, self._now = wants, request, view, now
        self._best_effort = request.workload.best_effort
        self._memory_bytes = wants.job.memory_bytes
        self.needed = self.aimed = 0.0
        self._held = held or {}
        if not self._best_effort:
            passed = request.waited_seconds + (0.0 if self._held else knowledge.start_seconds)
            self.needed = SAFE * wants.needed(done, passed)
            aimed = SAFE * wants.needed(done, passed, tolerant=False)
            self.aimed = aimed if aimed < inf else self.needed
        self._smallest = np.array([self._least(p) for p in view.platforms], dtype=np.int64)
        self.rows = self._rows()

    def _rows(self) -> dict[str, Rows]:
        view = self._view
        room = (
            (view.cpu_capacity - view.cpu_allocated >= self._smallest[view.platform])
            & (view.memory_capacity - view.memory_allocated >= self._memory_bytes)
            & open_servers(self._request, view).astype(np.bool_)
        )
        rows = np.flatnonzero(room)
        of = view.platform[rows]
        return {p: rows[of == at] for at, p in enumerate(view.platforms) if (of == at).any()}

    def _least(self, platform: str) -> int:
        if self._best_effort or platform not in self._knowledge.cpu_millicpus:
            return 0
        return self._knowledge.sizes(self._wants, platform)[0]

    def _given(self, cpu_millicpus: int) -> Allocation:
        cpu = 0 if self._best_effort else cpu_millicpus
        return Allocation(cpu, self._memory_bytes, self._best_effort)

    def _together(self, choices: Sequence[Choice]) -> float:
        """Value on several servers; those of a service are asked by what each holds alone."""
        alone = sum(choice.alone for choice in choices)
        if self._wants.job.load is None or alone <= 0:
            return sum(choice.value for choice in choices)
        asked = self.aimed / alone
        return sum(min(choice.value, asked * choice.alone) for choice in choices)

    # --- one server -----------------------------------------------------------------------------

    def tried(self) -> list[Choice]:
        """Platforms from the best on, while one may still be better than what was tried."""
        choices: list[Choice] = []
        best = inf
        for bound, platform in sorted((self._bound(p), p) for p in self.rows):
            if best <= bound:
                break
            for row in self._worth_trying(platform):
                choice = self._choice(platform, row)
                if choice is not None:
                    choices.append(choice)
                    best = min(best, choice.score)
                if best <= bound:
                    break
        return choices

    def _bound(self, platform: str) -> float:
        """Score of an empty server, than which none of its platform is better."""
        bound = inf
        for cpu in self._knowledge.sizes(self._wants, platform):
            alone = self._knowledge.alone(self._wants, platform, cpu)
            bound = min(bound, self._score(platform, cpu, alone, 0.0))
            if alone >= self.aimed:
                break
        return bound

    def _score(self, platform: str, cpu_millicpus: int, value: float, others: float) -> float:
        """Targets that are lost, now and by what is not there for others.

        CPU time has a price, by how scarce the platform is: where as much is wanted as there is, a
        mean job costs others one and a half targets.
        """
        wants, knowledge = self._wants, self._knowledge
        if self._best_effort:
            # It takes no CPU from those that come, but memory.
            memory = self._memory_bytes / knowledge.memory_bytes[platform]
            price = FILLED * knowledge.scarcity[platform] * memory
            return others + FILLER * lost(wants.best, value) + price
        size = cpu_millicpus / 1000 * wants.ideal_seconds / max(knowledge.mean_cpu_seconds, NEVER)
        price = knowledge.scarcity[platform] * (EVER + size)
        own = 0.0
        if value < self.needed:
            own = 1.0 + lost(wants.best, value)
        elif wants.job.workload.target is None:
            own = lost(wants.best, value)
        if wants.sized:
            aimed = self.aimed if self.aimed < inf else wants.best
            price += THRIFT * cpu_millicpus / 1000 + max(0.0, lost(aimed, value))
        return others + own + price

    def _worth_trying(self, platform: str) -> list[int]:
        """An empty server first, than which none is better; then the least loaded."""
        rows, view = self.rows[platform], self._view
        empty = rows[view.residents[rows] == 0]
        taken = rows[view.residents[rows] > 0]
        if taken.size > LOOKED_AT:
            load = view.cpu_allocated[taken] / view.cpu_capacity[taken]
            taken = taken[np.argsort(load, kind="stable")[:LOOKED_AT]]
        return [*empty[:1].tolist(), *taken.tolist()]

    def _choice(self, platform: str, row: int) -> Choice | None:
        """The best that it can be given beside the residents; ``None`` = no memory."""
        best: Choice | None = None
        for cpu in self._worth_giving(platform, row):
            choice = self._with(cpu, platform, row)
            if choice is None:
                break
            if best is None or choice.score < best.score:
                best = choice
            if choice.value >= self.aimed:
                break
        return best

    def _worth_giving(self, platform: str, row: int) -> tuple[int, ...]:
        """What would be enough without co-runners, the least first; else the most that is free."""
        sizes = self._knowledge.sizes(self._wants, platform)
        if self._best_effort:
            return sizes
        free = int(self._view.cpu_capacity[row] - self._view.cpu_allocated[row])
        free += self._held.get(row, 0)
        sizes = tuple(cpu for cpu in sizes if cpu <= free)
        enough = [
            cpu for cpu in sizes if self._knowledge.alone(self._wants, platform, cpu) >= self.aimed
        ]
        return tuple(enough) or sizes[-1:]

    def _with(self, cpu: int, platform: str, row: int, servers: int = 1) -> Choice | None:
        given = self._given(cpu)
        newcomer = self._colocations.newcomer(self._wants, platform, given, servers)
        name = self._view.names[row]
        effect = self._colocations.effect(newcomer, name, platform, self._now)
        if effect is None:
            return None
        score = self._score(platform, cpu, effect.value, effect.missed + effect.lost)
        return Choice(row, given, score, newcomer.alone, effect.value < self.needed, effect)

    # --- several servers ------------------------------------------------------------------------

    def _most_servers(self) -> int:
        """One for a gang, and for what is to be spread: it keeps neither on several."""
        scale = self._wants.job.workload.scale
        if scale.gang or scale.spread is not None:
            return 1
        return min(scale.max_servers, self._view.capabilities.max_servers_per_workload)

    def several(self, one: Choice) -> list[Choice]:
        """The fewest servers that suffice where one does not; empty = one is better."""
        most = self._most_servers()
        if self._best_effort or most < 2 or self.aimed == inf or not one.short:
            return []
        best, reached = [], one.value * ENOUGH_MORE
        for count in range(2, most + 1):
            choices = self._best_of(count)
            if len(choices) < count:
                break
            does = self._together(choices)
            if does >= self.aimed:
                best = self._least_of(choices)
                break
            if does > reached:
                best, reached = choices, does
        total = sum(max(choice.value, NEVER) for choice in best)
        for choice in best:
            key = self._wants.job.name, self._view.names[choice.row]
            self._colocations.parts[key] = max(choice.value, NEVER) / total
        return best

    def _best_of(self, count: int) -> list[Choice]:
        """So many, each with all that it can use there, where no target is missed for it."""
        choices = []
        for platform, rows in self.rows.items():
            empty = rows[self._view.residents[rows] == 0][1:count].tolist()
            for row in (*self._worth_trying(platform), *empty):
                most = self._worth_giving(platform, row)[-1]
                choice = self._with(most, platform, row, count)
                if choice is not None and not choice.effect.missed:
                    choices.append(choice)
        return sorted(choices, key=lambda choice: (-choice.value, choice.row))[:count]

    def _least_of(self, chosen: list[Choice]) -> list[Choice]:
        """On the same servers, the smallest share of their sizes that is still enough."""
        view = self._view
        for share in CPU_SHARES:
            fewer = []
            for choice in chosen:
                platform = view.platforms[view.platform[choice.row]]
                most = choice.given.cpu_millicpus
                sizes = self._knowledge.sizes(self._wants, platform)
                cpu = min(most, next(s for s in sizes if s >= share * most))
                fewer.append(self._with(cpu, platform, choice.row, len(chosen)))
            kept = [choice for choice in fewer if choice is not None]
            enough = len(kept) == len(chosen) and not any(c.effect.missed for c in kept)
            if enough and self._together(kept) >= self.aimed:
                return kept
        return chosen

    # --- while it runs ---------------------------------------------------------------------------

    def resized(self, value: float) -> list[Choice]:
        """The best of what it may hold from now on; empty = what it holds.

        The least on the servers that it has, on fewer of them and on more, each at its price; for
        none of them a neighbor's target is missed. ``value`` is what it has now.
        """
        is_service = self._wants.job.load is not None
        if self.aimed == inf or (value >= self.needed and not is_service):
            return []
        most = self._most_servers()
        rows, found = list(self._held), []
        choices = self._most_on(rows)
        while choices:
            found.append(self._least_of(choices) if self._suffices(choices) else choices)
            worst = min(choices, key=lambda choice: (choice.value, -choice.row))
            rows.remove(worst.row)
            choices = self._most_on(rows)
        rows = list(self._held)
        while found and not self._suffices(found[-1]) and len(rows) < most:
            if (added := self._another(rows)) is None:
                break
            rows.append(added)
            if choices := self._most_on(rows):
                found.append(self._least_of(choices) if self._suffices(choices) else choices)
        held = {row: Allocation(cpu, self._memory_bytes) for row, cpu in self._held.items()}
        stays = self._cost(value, held)
        costs = [self._cost(self._together(c), {o.row: o.given for o in c}) for c in found]
        if not costs or min(costs) >= stays - SAME_COST:
            return []
        return found[int(np.argmin(costs))]

    def _cost(self, value: float, given: Mapping[int, Allocation]) -> float:
        """In targets: what is missed until it is looked at again, and the price of its CPU.

        A service's target is missed by what it does not answer over its life, beyond its tolerance.
        """
        wants, knowledge, view = self._wants, self._knowledge, self._view
        passed = self._request.waited_seconds
        short = max(0.0, 1.0 - value / self.aimed) if self.aimed > 0 else 0.0
        if wants.job.load is not None:
            seconds = wants.same_until(passed) - passed
            own = seconds / max(wants.ideal_seconds * (1 - wants.kept), NEVER)
            own = short * (UNSERVED + own)
        else:
            seconds = wants.ideal_seconds
            own = float(value < self.needed) + short
        price = THRIFT * sum(each.cpu_millicpus for each in given.values()) / 1000
        if self._now < knowledge.last_arrival(self._request.workload.name, self._now - passed):
            each = seconds / max(knowledge.mean_cpu_seconds, NEVER)
            for row, allocation in given.items():
                scarce = knowledge.scarcity[view.platforms[view.platform[row]]]
                price += scarce * allocation.cpu_millicpus / 1000 * each
        return own + price

    def is_short(self, chosen: Sequence[Choice], value: float) -> bool:
        """Whether it misses a target with these, or with what it has, that is not lost yet."""
        does = self._together(chosen) if chosen else value
        return does < self.needed < inf

    def _suffices(self, choices: Sequence[Choice]) -> bool:
        missed = any(choice.effect.missed for choice in choices)
        return not missed and self._together(choices) >= self.aimed

    def _most_on(self, rows: Sequence[int]) -> list[Choice]:
        """The most on each of these servers for which no target is missed there."""
        view, choices = self._view, []
        for row in rows:
            platform = view.platforms[view.platform[row]]
            held = self._held.get(row, 0)
            sizes = self._knowledge.sizes(self._wants, platform)
            free = int(view.cpu_capacity[row] - view.cpu_allocated[row]) + held
            for cpu in [*(s for s in reversed(sizes) if held < s <= free), held]:
                choice = self._with(cpu, platform, row, len(rows)) if cpu else None
                if choice is not None and not choice.effect.missed:
                    choices.append(choice)
                    break
        return choices if len(choices) == len(rows) else []

    def _another(self, rows: Sequence[int]) -> int | None:
        """The server that would add most to these."""
        best: Choice | None = None
        for platform in self.rows:
            for row in self._worth_trying(platform):
                sizes = self._worth_giving(platform, row) if row not in rows else ()
                choice = self._with(sizes[-1], platform, row, len(rows) + 1) if sizes else None
                if choice is None or choice.effect.missed:
                    continue
                if best is None or choice.value > best.value:
                    best = choice
        return best.row if best is not None else None

    # --- the decision ---------------------------------------------------------------------------

    def plan(
        self, chosen: list[Choice], tried: list[Choice], stage: Stage = Stage.PLACEMENT
    ) -> Place:
        """These are taken; ``tried`` are told."""
        taken = {choice.row for choice in chosen}
        others = [choice for choice in tried if choice.row not in taken]
        share = self._together(chosen) / self.aimed if 0 < self.aimed < inf else None
        decision = Decision(
            stage=stage,
            decided_by=GreedyOracle.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=self._why(chosen),
            considered=len(chosen) + len(others),
            candidates=self._candidates([*chosen, *others], ReasonCode.OK),
            numbers={
                **needed(chosen[0].given),
                "waited_seconds": self._request.waited_seconds,
            },
            predicted=Prediction(share, share, share, 1.0) if share is not None else None,
        )
        names = self._view.names
        return Place(tuple(Placement(names[c.row], c.given) for c in chosen), decision)

    def refusal(self) -> Refuse:
        """No server has room."""
        need = self._given(int(min(self._smallest, default=0)))
        by_row = self._smallest[self._view.platform]
        return refuse(GreedyOracle.name, self._request, need, self._view, by_row)

    def disturbing(self, tried: list[Choice]) -> Refuse:
        """Best-effort work for which a target would be missed wherever it went."""
        best = tried[0]
        return Refuse(
            Decision(
                Stage.PLACEMENT,
                GreedyOracle.name,
                accepted=False,
                reason=ReasonCode.INTERFERENCE,
                message=(
                    f"{best.effect.missed} of those on {self._view.names[best.row]} would miss "
                    "their targets for it, and fewer nowhere"
                ),
                would_change="fewer or less sensitive neighbors, or another server",
                considered=len(tried),
                candidates=self._candidates(tried, ReasonCode.INTERFERENCE),
            )
        )

    def _candidates(self, choices: list[Choice], reason: ReasonCode) -> tuple[Candidate, ...]:
        return tuple(self._shown(choice, reason) for choice in choices[:CANDIDATES_KEPT])

    def _shown(self, choice: Choice, reason: ReasonCode) -> Candidate:
        shown = candidate(self._view, choice.row, choice.score, reason)
        numbers = {
            **shown.numbers,
            "cpu_needed_millicpus": float(choice.given.cpu_millicpus),
            "own_target_missed": float(choice.short),
            "residents_targets_missed": float(choice.effect.missed),
            "residents_lost_log": choice.effect.lost,
            "performance_beside_residents": (
                choice.value / choice.alone if choice.alone > 0 else 0.0
            ),
        }
        return replace(shown, numbers=numbers)

    def _why(self, chosen: list[Choice]) -> str:
        name = self._view.names[chosen[0].row]
        if self._best_effort:
            return f"{name} gives it the most for what that takes from others"
        given = f"{cpu_number(chosen[0].given.cpu_millicpus)} CPU on {name}"
        if len(chosen) > 1:
            given = f"{given} and {len(chosen) - 1} more"
        own = "are the least loss, its target can't be kept for less"
        if self._together(chosen) >= self.needed:
            own = "keep its target"
        missed = sum(choice.effect.missed for choice in chosen)
        if missed:
            return f"{given} {own}; {missed} there miss theirs for it, as few as can be"
        return f"{given} {own}, and no target there is missed for it"


def _cpu_of(choices: Sequence[Choice]) -> int:
    return sum(choice.given.cpu_millicpus for choice in choices)
