"""Which programs share which of several kinds of cores: eq. 5.1, and performance by kind. Pure.

Source: dissertation 5.5.4 (Figure 5.9's cores of two kinds). A program was profiled on each kind:
its scores there count there, and so does its performance, as a share of that on the kind where it
is best: each per cent that it loses is a point, as a point of distance is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from wharfinger.errors import InvalidInput
from wharfinger.ibench.pairing import MAX_EXACT, Pair, Scores, common_sources, pair_of

_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class ProfiledOnKinds:
    """One program by kind of core: its scores, and its performance over that on the best kind."""

    name: str
    scores: Mapping[str, Scores]
    performance: Mapping[str, float]

    def loss(self, kind: str) -> float:
        """Of performance on that kind, in points."""
        return 100 * (1 - self.performance[kind])


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """One or two programs on a server of a kind; ``second`` = ``first``: it is alone."""

    kind: str
    pair: Pair
    cost: float


@dataclass(frozen=True, slots=True)
class KindsMapped:
    """All groups; ``distance`` is of eq. 5.1, ``loss`` of performance, ``bound`` of their sum."""

    groups: tuple[PlacedGroup, ...]
    distance: float
    loss: float
    bound: float
    exact: bool

    @property
    def refusals(self) -> int:
        """How often a program causes more than its neighbor tolerates."""
        return sum(len(group.pair.refusals) for group in self.groups)


_Costs = Mapping[tuple[int, int], Sequence[PlacedGroup]]
"""By first and second program, the group on each kind, cheapest first."""


def share_kinds(programs: Sequence[ProfiledOnKinds], servers: Mapping[str, int]) -> KindsMapped:
    """The best groups on servers of these kinds, each for two programs at most.

    As many programs as possible are alone, as ``pairing.share`` has it. Raises ``InvalidInput``.
    """
    count, total = len(programs), sum(servers.values())
    if count > 2 * total:
        problem = f"{count} programs on {total}: at most two share one"
        raise InvalidInput(f"{problem}; give {(count + 1) // 2} or more, or fewer profiles")
    for program in programs:
        for kind in servers:
            if kind not in program.scores:
                mend = "profile it there (--platform), or leave that kind out"
                raise InvalidInput(f"{program.name}: no profile on {kind!r}; {mend}")
    costs = _costs(programs, tuple(servers))
    search = _KindSearch(costs, count, min(count, 2 * total - count), dict(servers))
    groups = tuple(search.best)
    loss = sum(
        programs[who].loss(group.kind)
        for group in groups
        for who in {group.pair.first, group.pair.second}
    )
    distance = sum(group.pair.distance for group in groups)
    bound = distance + loss if search.exact else search.bound
    return KindsMapped(groups, distance, loss, bound, search.exact)


def _costs(programs: Sequence[ProfiledOnKinds], kinds: Sequence[str]) -> _Costs:
    costs: dict[tuple[int, int], list[PlacedGroup]] = {}
    for kind in kinds:
        scores = [program.scores[kind] for program in programs]
        sources = common_sources(scores)
        if not sources:
            mend = "profile all with the same --sources"
            raise InvalidInput(f"no source has both scores in each profile on {kind!r}; {mend}")
        for a, one in enumerate(programs):
            for b in range(a, len(programs)):
                alone = Pair(a, a, 0.0, ())
                pair = alone if a == b else pair_of(scores, a, b, sources)
                loss = one.loss(kind) + (0.0 if a == b else programs[b].loss(kind))
                costs.setdefault((a, b), []).append(PlacedGroup(kind, pair, pair.cost + loss))
    return {who: sorted(groups, key=lambda group: group.cost) for who, groups in costs.items()}


class _KindSearch:
    """Branch and bound: the lowest program that is left gets each partner, or none, on each kind.

    Above ``MAX_EXACT`` programs, and after ``MAX_STEPS``, the best that was found is not proved.
    """

    MAX_STEPS = 300_000

    def __init__(self, costs: _Costs, count: int, alone: int, free: dict[str, int]) -> None:
        self.best: list[PlacedGroup] = []
        self._costs, self._free = costs, free
        self._least = inf
        self._steps = 0
        self._limit = self.MAX_STEPS if count <= MAX_EXACT else 4 * count
        half = [inf] * count
        for (a, b), groups in costs.items():
            cost = groups[0].cost
            if a == b:
                half[a] = min(half[a], cost) if alone else half[a]
            else:
                half[a], half[b] = min(half[a], cost / 2), min(half[b], cost / 2)
        self._half = half
        self.bound = sum(half)
        self._options = [self._options_of(first, count) for first in range(count)]
        self._descend(frozenset(range(count)), alone, 0.0, self.bound, [])
        self.exact = self._steps <= self._limit

    def _options_of(self, first: int, count: int) -> list[tuple[float, int, PlacedGroup]]:
        """What its groups cost beyond the bound of both, cheapest first."""
        options = []
        for other in range(count):
            who = min(first, other), max(first, other)
            spared = self._half[first] + (self._half[other] if other != first else 0.0)
            options += [(group.cost - spared, other, group) for group in self._costs[who]]
        return sorted(options, key=lambda option: option[:2])

    def _descend(
        self, left: frozenset[int], alone: int, cost: float, bound: float, groups: list[PlacedGroup]
    ) -> None:
        if not left:
            if cost < self._least - _EPSILON:
                self.best, self._least = list(groups), cost
            return
        self._steps += 1
        if self.best and self._steps > self._limit:
            return
        # Who has the most to lose by waiting is placed first.
        first = max(left, key=lambda who: self._half[who])
        for beyond, other, group in self._options[first]:
            if bound + beyond >= self._least - _EPSILON:
                break
            if other not in left or self._free[group.kind] == 0 or (other == first and not alone):
                continue
            self._free[group.kind] -= 1
            groups.append(group)
            rest = left - {first, other}
            single = int(other == first)
            self._descend(rest, alone - single, cost + group.cost, bound + beyond, groups)
            groups.pop()
            self._free[group.kind] += 1
