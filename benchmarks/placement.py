"""The harmony index against a NumPy scan (the peer) and one reading of all scores (the floor).

    python -m benchmarks.placement

At each size: one decision, before which one server has changed and is read anew, since that is what
a placement costs with the index; the same of newcomers that fit nowhere, because of their scores or
because nothing has room; and changes alone. A newcomer asks for the best server over all platforms,
the first of which is preferred. Percentiles are of CPU time, since other work on a machine adds to
each of many short intervals in turn; ratios are of wall-clock time, in turns. The answers to
``--queries`` random questions are compared with the scan's, feasible or not.

Then whole decisions, record included, of the policies that ask for scores, with three classified
residents on each server, one of which has changed; `least-loaded`, which looks at room alone, is
the peer, one reading of the residents' scores the floor.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from random import Random
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import compare, parser, report
from benchmarks.core import classification, load, workload
from wharfinger.core.seams.contention import ContentionTable, ScoreColumns
from wharfinger.model.allocation import Allocation
from wharfinger.model.interference import SharedResource
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.policies.placement.harmony import BOUND, Harmony, InHarmony
from wharfinger.policies.registry import make_policy

SIZES = (1_000, 10_000, 100_000)
R = len(SharedResource)
PLATFORMS = 14
Z = 0.84
"""Confidence 0.8."""
MEMORY_BYTES = 2**32
QUERIES = 10_000
MOST_CHECKED = 10_000
"""Servers; of more, a hundred questions are compared."""
CHANGED_AT_ONCE = 1_000
DECIDED, MOST_DECIDED, DECIDED_PLATFORMS, RESIDENTS = (50, 1_000, 10_000), 2_000, 5, 3
POLICIES = {
    "traded": "paragon",
    "published": "paragon[rule=published,confidence=0.5]",
    "hash": "paragon[rule=published,confidence=0.5,selection=hash]",
    "least-loaded": "least-loaded",
}
UNBOUNDED = 2**62
Array = NDArray[np.float64]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Newcomer:
    tolerated: Array
    tolerated_variance: Array
    caused: Array
    caused_variance: Array
    cpu: int
    memory: int = MEMORY_BYTES

    @property
    def need(self) -> Allocation:
        return Allocation(self.cpu, self.memory)


class Scores(ContentionTable):
    """Those that were drawn."""

    def __init__(self, columns: ScoreColumns) -> None:
        self.columns = columns

    def score_columns(self, servers: int) -> ScoreColumns:
        return self.columns


def draw_scores(random: np.random.Generator, count: int) -> tuple[Array, Array]:
    """(count, R) tolerated and caused, in points: everybody presses half of the sources."""
    tolerated = 100 * random.beta(2, 1, (count, R))
    caused = 100 * random.beta(1, 2, (count, R)) * (random.uniform(size=(count, R)) < 0.5)
    return tolerated, caused


@dataclass(frozen=True)
class Cluster:
    """Up to four residents a server, of up to 16 CPUs; a twentieth of the servers is closed."""

    view: View
    index: Harmony = field(default_factory=Harmony)
    order: tuple[tuple[int], ...] = tuple((at,) for at in range(PLATFORMS))

    @property
    def scores(self) -> ScoreColumns:
        contention = self.view.contention
        assert isinstance(contention, Scores)
        return contention.columns

    def touch(self, row: int) -> None:
        """Another resident comes or goes: its CPU changes, and its scores are read anew."""
        self.view.cpu_allocated[row] = 16_000 - self.view.cpu_allocated[row]
        self.scores.caused[0, row] = 100.0 - self.scores.caused[0, row]
        self.index.touch(row)

    def indexed(self, asked: Newcomer, bound: int = BOUND) -> InHarmony:
        found = self.index.best(self.view, asked, asked.need, Z, platforms=self.order, bound=bound)
        assert found is not None
        return found

    def scanned(self, asked: Newcomer) -> list[int]:
        """The same by NumPy, testing what is left source by source, the hardest first."""
        view, scores = self.view, self.scores
        able = (view.accepting > 0) & (view.unsettled == 0)
        able &= view.cpu_capacity - view.cpu_allocated >= asked.cpu
        able &= view.memory_capacity - view.memory_allocated >= asked.memory
        able &= view.residents > 0
        left = np.flatnonzero(able)
        for at in np.argsort(-asked.caused):
            doubt = np.sqrt(scores.tolerated_variance[at, left] + asked.caused_variance[at])
            left = left[scores.tolerated[at, left] - asked.caused[at] - Z * doubt >= 0]
        for at in np.argsort(asked.tolerated):
            doubt = np.sqrt(asked.tolerated_variance[at] + scores.caused_variance[at, left])
            left = left[asked.tolerated[at] - scores.caused[at, left] - Z * doubt >= 0]
        if not left.size:
            return []
        platform = view.platform[left]
        left = left[platform == platform.min()]
        own = (asked.tolerated - asked.caused)[:, None]
        norm = np.abs(scores.tolerated[:, left] - scores.caused[:, left] + own).sum(axis=0)
        return [int(left[np.argmin(norm)])]


def make_cluster(servers: int, seed: int) -> Cluster:
    random = np.random.default_rng(seed)
    # Everybody has somebody: who is empty takes all, and nothing would be looked for.
    residents = random.integers(1, 5, servers)
    tolerated, caused = np.full((servers, R), 100.0), np.zeros((servers, R))
    for at in range(4):
        there = residents > at
        own_tolerated, own_caused = draw_scores(random, servers)
        tolerated[there] = np.minimum(tolerated, own_tolerated)[there]
        caused[there] += own_caused[there]
    variances = random.uniform(4, 36, (2, R, servers))
    scores = (tolerated.T.copy(), variances[0])
    columns = (*scores, caused.T.copy(), variances[1], *scores)
    cpus = np.full(servers, 16_000)
    memory = np.full(servers, 64 * 2**30)
    view = View(
        names=[f"s{row}" for row in range(servers)],
        cpu_capacity=cpus,
        cpu_allocated=random.integers(0, 16_001, servers),
        memory_capacity=memory,
        memory_allocated=(memory * random.uniform(0, 1, servers)).astype(np.int64),
        accepting=(random.uniform(size=servers) < 0.95).astype(np.uint8),
        residents=residents,
        copies=np.zeros(servers, dtype=np.int64),
        unsettled=np.zeros(servers, dtype=np.uint8),
        platform=random.integers(0, PLATFORMS, servers),
        platforms=[f"p{at}" for at in range(PLATFORMS)],
        capabilities=Capabilities(),
        contention=Scores(ScoreColumns(*columns)),
    )
    return Cluster(view)


def draw_newcomer(random: np.random.Generator) -> Newcomer:
    """As the residents, but some are far louder or far more sensitive, and fit nowhere."""
    (tolerated,), (caused,) = draw_scores(random, 1)
    variances = random.uniform(4, 36, (2, R))
    caused = np.minimum(100.0, caused * random.uniform(0.3, 1.5))
    tolerated = 100 * (tolerated / 100) ** random.uniform(0.5, 2)
    cpu = int(random.choice([500, 2000, 8000]))
    return Newcomer(tolerated, variances[0], caused, variances[1], cpu)


class Asking:
    """Questions in turn, each after a change of one server."""

    def __init__(self, cluster: Cluster, newcomers: Sequence[Newcomer]) -> None:
        self.cluster = cluster
        self._newcomers = cycle(newcomers)
        self._rows = cycle(range(0, len(cluster.view.names), 7))

    def indexed(self) -> InHarmony:
        self.cluster.touch(next(self._rows))
        return self.cluster.indexed(next(self._newcomers))

    def scanned(self) -> list[int]:
        return self.cluster.scanned(next(self._newcomers))

    def percentiles(self, count: int) -> dict[str, object]:
        """Of the CPU time of so many decisions, and of what they looked at."""
        self.indexed()
        nanoseconds, answers = timed(self.indexed, count)
        return {
            "cpu_microseconds": percentiles(np.array(nanoseconds) / 1000),
            "steps": percentiles(np.array([each.steps for each in answers])),
            "placed_fraction": float(np.mean([bool(each.rows) for each in answers])),
            "complete_fraction": float(np.mean([each.complete for each in answers])),
        }


def timed(ask: Callable[[], Answer], count: int) -> tuple[list[int], list[Answer]]:
    nanoseconds, answers = [], []
    for _ in range(count):
        begin = time.thread_time_ns()
        answers.append(ask())
        nanoseconds.append(time.thread_time_ns() - begin)
    return nanoseconds, answers


def percentiles(values: NDArray[np.number]) -> dict[str, float]:
    p50, p99, most = np.percentile(values, [50, 99, 100]).tolist()
    return {"median": p50, "p99": p99, "max": most}


def changes_per_second(cluster: Cluster, random: np.random.Generator) -> float:
    """Of servers whose scores and room are read anew; CPU time."""
    rows = random.permutation(len(cluster.view.names))[:CHANGED_AT_ONCE].tolist()
    asked = draw_newcomer(random)
    begin = time.thread_time()
    for row in rows:
        cluster.touch(row)
    cluster.indexed(asked)
    return len(rows) / (time.thread_time() - begin)


def check(cluster: Cluster, queries: int, seed: int) -> dict[str, int]:
    """The index and the scan agree on each of so many questions.

    Raises:
        AssertionError: They differ.
    """
    random, placed = np.random.default_rng(seed), 0
    for _ in range(queries):
        cluster.touch(int(random.integers(len(cluster.view.names))))
        asked = draw_newcomer(random)
        found = cluster.indexed(asked, UNBOUNDED).rows
        if found != cluster.scanned(asked):
            raise AssertionError(f"index and scan differ, seed {seed}")
        placed += bool(found)
    return {"queries": queries, "placed": placed}


def run(servers: int, rounds: int, seed: int, queries: int) -> dict[str, object]:
    cluster, random = make_cluster(servers, seed), np.random.default_rng(seed + 1)
    newcomers = [draw_newcomer(random) for _ in range(1_000)]
    cluster.indexed(newcomers[0])
    nowhere = [one for one in newcomers if not cluster.indexed(one, UNBOUNDED).rows]
    without_room = [replace(one, memory=2**40) for one in newcomers]
    asking = Asking(cluster, newcomers)
    scores = cluster.scores
    columns = (
        scores.tolerated,
        scores.tolerated_variance,
        scores.caused,
        scores.caused_variance,
    )
    contenders = {
        "index": asking.indexed,
        "numpy": asking.scanned,
        "memory-read": lambda: [column.max() for column in columns],
    }
    return {
        "servers": servers,
        "decisions": asking.percentiles(queries),
        "nowhere": Asking(cluster, nowhere).percentiles(queries // 10),
        "no_room": Asking(cluster, without_room).percentiles(queries // 10),
        "changes_per_second": changes_per_second(cluster, random),
        "agreement": check(cluster, queries if servers <= MOST_CHECKED else 100, seed),
        **compare(contenders, rounds).summary("index"),
    }


class Deciding:
    """Decisions of one policy over a loaded cluster, each after a change of one server."""

    def __init__(self, spec: str, view: View, requests: Sequence[Request]) -> None:
        self._placement = make_policy(spec).placement
        self._index = self._placement.index()
        self._view = replace(view, index=self._index)
        self._requests, self._rows = cycle(requests), cycle(range(0, len(view.names), 7))

    def decide(self) -> object:
        if self._index is not None:
            self._index.touch(next(self._rows))
        return self._placement.place(next(self._requests), self._view)


def decide(servers: int, rounds: int, seed: int, decisions: int) -> dict[str, object]:
    """Percentiles of the CPU time of each policy's decisions, and ratios."""
    view, random = load(servers, seed, platforms=DECIDED_PLATFORMS).manager.view, Random(seed + 1)
    known = [replace(classification(random), platform="drawn-0") for _ in range(100)]
    requests = [Request(workload("asked"), classification=each) for each in known]
    deciding = {name: Deciding(spec, view, requests) for name, spec in POLICIES.items()}
    columns = np.ones((servers * RESIDENTS, 3, R))  # as a table by source keeps of residents
    contenders = {name: each.decide for name, each in deciding.items()}
    summary = compare({**contenders, "memory-read": columns.max}, rounds).summary("traded")
    times = {}
    for name, each in deciding.items():
        nanoseconds, _ = timed(each.decide, decisions)
        times[name] = percentiles(np.array(nanoseconds) / 1000)
    return {"decided_servers": servers, "cpu_microseconds": times, **summary}


def main() -> None:
    options = parser("Ratio of the harmony index to NumPy and to a memory read.")
    options.add_argument(
        "--queries", type=int, default=QUERIES, help=f"questions a size (default: {QUERIES})"
    )
    given = options.parse_args()
    results = [run(size, given.rounds, given.seed, given.queries) for size in SIZES]
    count = min(given.queries, MOST_DECIDED)
    results += [decide(size, given.rounds, given.seed, count) for size in DECIDED]
    report("placement", given, results)


if __name__ == "__main__":
    main()
