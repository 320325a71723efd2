"""Quasar's Table 2 and Figure 3: errors of the four classifications, and of one exhaustive one.

Source: Quasar 3.2, on its platforms A to J: Hadoop jobs, memcached and web servers of ten loads
each, and single-node programs. Rates are true ones of this physics, without noise; of services what
they can answer in a second. Few programs are known in full, as published; of another, few entries
of each row are, and all others are held against the truth.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np

from wharfinger.classification.utility import Aspect
from wharfinger.estimators.matrix import Matrix
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.estimators.tasks import masked
from wharfinger.experiments.ground_truth import at, draw_programs, rate_beside
from wharfinger.experiments.paragon_table3 import scores
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import QUASAR
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

SMALLEST, LARGEST = QUASAR[0], QUASAR[-1]
SINGLE = (Pool.SINGLE_THREADED, Pool.MULTITHREADED, Pool.MIXES, Pool.IO_BOUND)
HADOOP, MEMCACHED, WEBSERVER, SINGLE_NODE = "hadoop", "memcached", "webserver", "single-node"
OF_A_KIND = 10
"""Jobs or services of a kind, and single-node programs of each pool. Published of those: 413."""
KNOWN, FOLDS = 25, 5
"""Programs known in full: published are 20 to 30. A fifth of the others is held out at a time."""
CORES = (1, 2, 4, 6, 8, 12, 16, 20, 24)
IN_MEMORY = (0.25, 1.0)
"""Parts of its data that an allocation holds."""
SERVERS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 100)
JOINT_CORES, JOINT_SERVERS = (1, 2, 4, 8, 16, 24), (1, 2, 4, 8)
BESIDE: tuple[SharedResource | None, ...] = (
    None, SharedResource.MEMORY_BANDWIDTH, SharedResource.LAST_LEVEL_CACHE,
)  # fmt: skip
INTENSITY = 50.0
SCALE_UP, SCALE_OUT, HETEROGENEITY, INTERFERENCE, EXHAUSTIVE = (
    "scale-up", "scale-out", "heterogeneity", "interference", "exhaustive",
)  # fmt: skip
TIMED_ROWS = (-1, -2, -3)
AXES = (SCALE_UP, SCALE_OUT, HETEROGENEITY, INTERFERENCE)
Kinds = Mapping[str, Sequence[Application]]


@dataclass(frozen=True, slots=True, eq=False)
class TrueAxis:
    """What is classified, in one matrix; interference in two. ``kinds`` are by row."""

    name: str
    matrices: tuple[tuple[Aspect, Matrix], ...]
    kinds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Judged:
    """One held-out workload: its kind, and its mean error over what was hidden."""

    kind: str
    error: float


def draw_kinds(regime: Regime, seed: int, most: int = OF_A_KIND) -> Kinds:
    """So many of each; services of further populations differ in their queries."""
    return {
        HADOOP: draw_programs([Pool.HADOOP], regime, seed, most),
        MEMCACHED: list(_services(Pool.MEMCACHED, regime, seed, most)),
        WEBSERVER: list(_services(Pool.WEBSERVER, regime, seed, most)),
        SINGLE_NODE: draw_programs(SINGLE, regime, seed, most),
    }


def _services(pool: Pool, regime: Regime, seed: int, most: int) -> Iterator[Application]:
    for number in range(most):
        (drawn, *_) = draw_programs([pool], regime, 1000 * seed + number)
        yield replace(drawn, name=f"{drawn.name}-{number}")


class Rates:
    """True rates of all kinds on each of Quasar's platforms."""

    def __init__(self, regime: Regime, kinds: Kinds) -> None:
        self.programs = [each for group in kinds.values() for each in group]
        self.kinds = {each.name: kind for kind, group in kinds.items() for each in group}
        self.truth = Physics(QUASAR, self.programs, regime.constants)

    def axis(self, name: str) -> TrueAxis:
        """Its matrices."""
        if name == INTERFERENCE:
            kinds = Aspect.TOLERATED, Aspect.CAUSED
            made = [(k, scores(self.truth, self.programs, k, LARGEST.name)) for k in kinds]
            return TrueAxis(name, tuple(made), self.kinds)
        aspect = Aspect.SCALE_UP if name == EXHAUSTIVE else Aspect(name)
        rows = {
            each.name: self._row(name, each)
            for each in self.programs
            if name != SCALE_OUT or self._may_scale(each)
        }
        columns = list(next(iter(rows.values())))
        values = {n: [row[c] for c in columns] for n, row in rows.items()}
        return TrueAxis(name, ((aspect, Matrix.of(values, columns)),), self.kinds)

    def _row(self, name: str, program: Application) -> dict[str, float]:
        rate = partial(self._rate, program)
        if name == SCALE_UP:
            return {f"{c}@{m:g}": rate(LARGEST, c, m) for c in CORES for m in IN_MEMORY}
        if name == SCALE_OUT:
            return {f"{n}": n * rate(LARGEST, LARGEST.cores, servers=n) for n in SERVERS}
        if name == HETEROGENEITY:
            return {each.name: rate(each, SMALLEST.cores) for each in QUASAR}
        return {
            f"{each.name}x{c}x{n} beside {beside}": n * rate(each, c, 1.0, n, beside)
            for each in QUASAR
            for c in JOINT_CORES
            if c <= each.cores
            for n in JOINT_SERVERS
            for beside in BESIDE
        }

    def _may_scale(self, program: Application) -> bool:
        return self.kinds[program.name] != SINGLE_NODE

    def _rate(
        self,
        program: Application,
        hardware: Hardware,
        cores: int,
        in_memory: float = 1.0,
        servers: int = 1,
        beside: SharedResource | None = None,
    ) -> float:
        """Of one of so many servers; NaN where it can't run so."""
        if servers > 1 and not self._may_scale(program):
            return float("nan")
        wanted = program.footprint_bytes + in_memory * program.data_bytes / servers
        if program.footprint_bytes > hardware.memory_bytes:
            return float("nan")
        memory, cpus = min(wanted, hardware.memory_bytes), min(cores, program.threads)
        resident = at(program, cpus, memory, servers=servers)
        rate = rate_beside(self.truth, hardware.name, resident, beside, INTENSITY)
        return rate or float("nan")


def draw_rates(regime: Regime, seed: int, workloads: int | None, scale: float) -> Rates:
    """Of one population, with ``workloads`` of each kind; ``None`` = as scaled."""
    of_a_kind = workloads or max(2, round(OF_A_KIND * scale))
    return Rates(regime, draw_kinds(regime, seed, of_a_kind))


def judge(
    axis: TrueAxis,
    reveal: int | None,
    seed: int,
    most: int | None = None,
    estimator: str = DEFAULT_ESTIMATOR,
) -> list[Judged]:
    """Each workload held out once, or at most so many of a kind.

    ``reveal`` entries of its row are known; ``None`` = all but one.
    """
    found: list[Judged] = []
    for aspect, matrix in axis.matrices:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(matrix.rows))
        for held in np.array_split(order, FOLDS):
            rest = rng.permutation(np.setdiff1d(order, held))[:KNOWN]
            training = matrix.take(np.sort(rest))
            model = fit(estimator, training, scale=aspect.scale, seed=seed)
            for at_row in held.tolist():
                truth, kind = matrix.values[at_row], axis.kinds[matrix.rows[at_row]]
                there = np.flatnonzero(~np.isnan(truth))
                count = len(there) - 1 if reveal is None else reveal
                enough = most is not None and sum(each.kind == kind for each in found) >= most
                if len(there) <= count or enough:
                    continue
                row = masked(truth, rng.choice(there, count, replace=False))
                hidden = np.isnan(row) & ~np.isnan(truth)
                error = errors(aspect, model.predict(row).mean[hidden], truth[hidden])
                found.append(Judged(kind, error))
    return found


def errors(aspect: Aspect, predicted: Array, truth: Array) -> float:
    """Mean of shares of the true performance, or of points of a score over 100."""
    off = np.abs(np.clip(predicted, 0, 100) - truth) / 100 if aspect.is_score else None
    return float((np.abs(predicted / truth - 1) if off is None else off).mean())


def by_kind(judged: Sequence[Judged]) -> dict[str, Array]:
    """Errors of workloads by kind."""
    kinds = dict.fromkeys(each.kind for each in judged)
    return {k: np.array([each.error for each in judged if each.kind == k]) for k in kinds}


def seconds(
    axes: Sequence[TrueAxis], reveal: int, estimator: str = DEFAULT_ESTIMATOR
) -> tuple[float, float]:
    """This machine's time to learn from the known rows, and to predict one new row of each matrix.

    Of three rows the median: the first call of some routines takes longer.
    """
    learning = deciding = 0.0
    for axis in axes:
        for aspect, matrix in axis.matrices:
            known = matrix.take(np.arange(min(KNOWN, len(matrix.rows) - len(TIMED_ROWS))))
            began = time.perf_counter()
            model = fit(estimator, known, scale=aspect.scale)
            learning += time.perf_counter() - began
            deciding += median(_predicting(model, matrix, row, reveal) for row in TIMED_ROWS)
    return learning, deciding


def _predicting(model: Recommender, matrix: Matrix, row: int, reveal: int) -> float:
    truth = matrix.values[row]
    there = np.flatnonzero(~np.isnan(truth))
    seen = masked(truth, there[: min(reveal, len(there) - 1)])
    began = time.perf_counter()
    _ = model.predict(seen).mean
    return time.perf_counter() - began
