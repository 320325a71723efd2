"""Which programs share a server's cores: pairs by eq. 5.1, exactly for few programs. Pure.

Source: dissertation 5.5.1 (eq. 5.1: minimise the 1-norm of what one tolerates less what the other
causes) and 5.5.4. Both directions of each pair are summed, and a pair of which one causes more than
the other tolerates is taken only where there is no other way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from wharfinger.errors import InvalidInput

MAX_EXACT = 16
"""Programs up to which the result is proved to be the best."""
_REFUSED = 1e7
"""Added to the distance of a pair that is refused, so that refusals count first."""
_SWAPS = 200
_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Scores:
    """A program's scores by source, 0 to 100."""

    name: str
    tolerated: Mapping[str, float]
    caused: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two programs that share a server, by their places.

    Attributes:
        distance: The sum of both directions' 1-norms, in points.
        refusals: Each a (sensitive program, source): the other causes more than it tolerates.
    """

    first: int
    second: int
    distance: float
    refusals: tuple[tuple[int, str], ...]

    @property
    def cost(self) -> float:
        """What is minimised: refusals first."""
        return self.distance + _REFUSED * len(self.refusals)


@dataclass(frozen=True, slots=True)
class Mapped:
    """The pairs, and the programs that are alone.

    Attributes:
        distance: Of all pairs.
        bound: No mapping has a smaller distance, unless with more refusals.
        exact: Whether it is proved to be the best.
    """

    pairs: tuple[Pair, ...]
    alone: tuple[int, ...]
    distance: float
    bound: float
    exact: bool

    @property
    def refusals(self) -> int:
        """How often a program causes more than its neighbor tolerates."""
        return sum(len(pair.refusals) for pair in self.pairs)


def common_sources(programs: Sequence[Scores]) -> tuple[str, ...]:
    """The sources of which all scores of all programs are known."""
    first = programs[0].tolerated
    return tuple(
        source
        for source in first
        if all(source in p.tolerated and source in p.caused for p in programs)
    )


def pair_of(programs: Sequence[Scores], first: int, second: int, sources: Sequence[str]) -> Pair:
    """What the two are to each other.

    >>> calm = Scores("calm", {"integer": 90.0}, {"integer": 10.0})
    >>> busy = Scores("busy", {"integer": 20.0}, {"integer": 60.0})
    >>> pair_of([calm, busy], 0, 1, ["integer"])
    Pair(first=0, second=1, distance=40.0, refusals=())
    """
    distance, refusals = 0.0, []
    for victim, other in ((first, second), (second, first)):
        for source in sources:
            left = programs[victim].tolerated[source] - programs[other].caused[source]
            distance += abs(left)
            if left < 0:
                refusals.append((victim, source))
    return Pair(first, second, distance, tuple(refusals))


def share(programs: Sequence[Scores], servers: int) -> Mapped:
    """The best pairs where so many servers are there, each for two programs at most.

    Raises:
        InvalidInput: There are too few servers, or no source is known of all programs.
    """
    count = len(programs)
    if count > 2 * servers:
        least = (count + 1) // 2
        problem = f"{count} programs on {servers}: at most two share one"
        raise InvalidInput(f"{problem}; give {least} or more, or fewer profiles")
    sources = common_sources(programs)
    if not sources:
        mend = "profile all with the same --sources"
        raise InvalidInput(f"no source has both scores in each of the {count} profiles; {mend}")
    pairs = {
        (a, b): pair_of(programs, a, b, sources) for a in range(count) for b in range(a + 1, count)
    }
    costs = [
        [inf if a == b else pairs[min(a, b), max(a, b)].cost for b in range(count)]
        for a in range(count)
    ]
    alone = min(count, 2 * servers - count)
    best = _improved(costs, _greedy(costs, alone), alone)
    exact = count <= MAX_EXACT
    if exact:
        best = _Search(costs, alone, best).best
    chosen = tuple(pairs[a, b] for a, b in sorted(best))
    together = {place for pair in best for place in pair}
    distance = sum(pair.distance for pair in chosen)
    return Mapped(
        chosen,
        tuple(place for place in range(count) if place not in together),
        distance,
        distance if exact else _bound(pairs, count, alone),
        exact,
    )


_Pairs = list[tuple[int, int]]


def _total(costs: Sequence[Sequence[float]], pairs: _Pairs) -> float:
    return sum(costs[a][b] for a, b in pairs)


def _bound(pairs: Mapping[tuple[int, int], Pair], count: int, alone: int) -> float:
    """Half of what each program adds at least with its best partner; the dearest stay alone."""
    least = [inf] * count
    for (a, b), pair in pairs.items():
        least[a], least[b] = min(least[a], pair.distance), min(least[b], pair.distance)
    return sum(sorted(least)[: count - alone]) / 2


def _greedy(costs: Sequence[Sequence[float]], alone: int) -> _Pairs:
    left = set(range(len(costs)))
    pairs: _Pairs = []
    while len(left) > alone:
        a, b = min(
            ((a, b) for a in left for b in left if a < b), key=lambda pair: costs[pair[0]][pair[1]]
        )
        pairs.append((a, b))
        left -= {a, b}
    return pairs


def _improved(costs: Sequence[Sequence[float]], pairs: _Pairs, alone: int) -> _Pairs:
    """Exchange partners, also for one that is alone, while that makes it better."""
    together = {place for pair in pairs for place in pair}
    singles = [place for place in range(len(costs)) if place not in together]
    assert len(singles) == alone
    for _ in range(_SWAPS):
        if not (_exchange(costs, pairs) or _exchange_single(costs, pairs, singles)):
            break
    return [(min(pair), max(pair)) for pair in pairs]


def _exchange(costs: Sequence[Sequence[float]], pairs: _Pairs) -> bool:
    for i, (a, b) in enumerate(pairs):
        for j in range(i):
            c, d = pairs[j]
            now = costs[a][b] + costs[c][d]
            for one, other in (((a, c), (b, d)), ((a, d), (b, c))):
                if costs[one[0]][one[1]] + costs[other[0]][other[1]] < now - _EPSILON:
                    pairs[i], pairs[j] = one, other
                    return True
    return False


def _exchange_single(costs: Sequence[Sequence[float]], pairs: _Pairs, singles: list[int]) -> bool:
    for i, (a, b) in enumerate(pairs):
        for at, single in enumerate(singles):
            for stays, leaves in ((a, b), (b, a)):
                if costs[stays][single] < costs[a][b] - _EPSILON:
                    pairs[i], singles[at] = (stays, single), leaves
                    return True
    return False


class _Search:
    """Branch and bound: the lowest program that is left gets each partner, or none."""

    def __init__(self, costs: Sequence[Sequence[float]], alone: int, start: _Pairs) -> None:
        self._costs = costs
        self.best = start
        self._least = _total(costs, start)
        count = len(costs)
        self._partners = [
            sorted((b for b in range(count) if b != a), key=lambda b, a=a: costs[a][b])  # type: ignore[misc] # bound at once
            for a in range(count)
        ]
        self._descend(frozenset(range(count)), alone, 0.0, [])

    def _descend(self, left: frozenset[int], alone: int, cost: float, pairs: _Pairs) -> None:
        if not left:
            if cost < self._least - _EPSILON:
                self.best, self._least = list(pairs), cost
            return
        if cost + self._least_of(left, alone) >= self._least - _EPSILON:
            return
        first = min(left)
        rest = left - {first}
        for partner in self._partners[first]:
            if partner in rest:
                pairs.append((first, partner))
                added = self._costs[first][partner]
                self._descend(rest - {partner}, alone, cost + added, pairs)
                pairs.pop()
        if alone:
            self._descend(rest, alone - 1, cost, pairs)

    def _least_of(self, left: frozenset[int], alone: int) -> float:
        if len(left) <= alone:
            return 0.0
        least = sorted(
            next((self._costs[a][b] for b in self._partners[a] if b in left), 0.0) for a in left
        )
        return sum(least[: len(least) - alone]) / 2
