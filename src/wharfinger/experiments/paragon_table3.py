"""Paragon's Table III: how far predicted scores of interference are off, from two random sources.

Source: Paragon (TOCS) 2.3, Table III: single-threaded and multithreaded programs, a few of them
profiled against all sources. Here the default estimator learns from as many as in Table I. Scores
are true ones, at half of a high-end server's cores: tolerated is the intensity at which 5% of
performance is lost, caused is read off a probe as the simulator's profiler does, without noise.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from wharfinger.classification.utility import Aspect
from wharfinger.estimators.evaluation import EvaluationPlan, revealed, splits
from wharfinger.estimators.matrix import Matrix
from wharfinger.estimators.recommender import fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    StudyFindings,
    at,
    draw_programs,
    rate_beside,
)
from wharfinger.experiments.ibench_sources import INTENSITIES, tolerated
from wharfinger.experiments.paragon_table1 import PROFILED
from wharfinger.experiments.physics_matrices import HIGH_END
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SCORED, SharedResource
from wharfinger.profiling.procedure import PROBE_INTENSITY
from wharfinger.simulator.cluster.injection import Probes
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

POOLS = (Pool.SINGLE_THREADED, Pool.MULTITHREADED)
SOURCES = 2
"""That a new program ran beside."""


def look(
    regime: Regime, seed: int, most: int | None = None, estimator: str = DEFAULT_ESTIMATOR
) -> StudyFindings:
    """All programs of one population, each held out once; at most so many of each pool."""
    programs = draw_programs(POOLS, regime, seed, most)
    truth = Physics([HARDWARE[HIGH_END]], programs, regime.constants)
    by_kind = {
        kind: _held_out(scores(truth, programs, kind), kind, seed, estimator)
        for kind in (Aspect.TOLERATED, Aspect.CAUSED)
    }
    true, predicted = np.concatenate(list(by_kind.values()), axis=1)
    numbers = {
        f"{kind}/mean": float(np.abs(guess - score).mean())
        for kind, (score, guess) in by_kind.items()
    }
    return StudyFindings(numbers | errors(true, predicted))


def scores(
    truth: Physics, programs: Sequence[Application], kind: Aspect, platform: str = HIGH_END
) -> Matrix:
    """True scores of each program with each source that the platform has, 0 to 100."""
    half = HARDWARE[platform].cores // 2
    residents = {each.name: at(each, min(each.threads, half)) for each in programs}
    first = next(iter(residents.values()))
    sources = [s for s in SCORED if truth.source(platform, s, PROBE_INTENSITY, first)]
    score = partial(_tolerated, truth) if kind is Aspect.TOLERATED else _Caused(truth).score
    rows = {n: [score(platform, each, s) for s in sources] for n, each in residents.items()}
    return Matrix.of(rows, [source.value for source in sources], transform=kind.transform)


def _tolerated(
    truth: Physics, platform: str, program: TrueResident, source: SharedResource
) -> float:
    alone, curve = truth.alone(platform, program), []
    for intensity in INTENSITIES:
        rate = rate_beside(truth, platform, program, source, intensity)
        assert rate is not None
        curve.append(rate / alone)
    return tolerated(curve)


class _Caused:
    """Probes keep the curves of sources by platform."""

    def __init__(self, truth: Physics) -> None:
        self._truth, self._probes = truth, Probes(truth)

    def score(self, platform: str, program: TrueResident, source: SharedResource) -> float:
        probe = self._truth.source(platform, source, PROBE_INTENSITY, program)
        assert probe is not None
        alone = TrueResident(
            probe.application, probe.cpu_millicpus, probe.memory_bytes, probe.load_per_second
        )
        beside = self._truth.rates(platform, [program, probe])[1]
        kept = beside / self._probes.alone(platform, alone)
        return self._probes.caused(platform, source, program, [kept], 0.0).value


def _held_out(matrix: Matrix, kind: Aspect, seed: int, estimator: str) -> Array:
    """(2, N) true and predicted scores, as shares of 1, of what was hidden."""
    plan = EvaluationPlan(SOURCES, scale=kind.scale, repeats=1, seed=seed, rows=PROFILED)
    pairs: list[Array] = []
    for split in splits(matrix, plan):
        model = fit(estimator, split.training, scale=plan.scale, seed=split.seed)
        for truth, row in revealed(split, plan):
            hidden = np.isnan(row)
            guess = np.clip(model.predict(row).mean[hidden], 0, 100)
            pairs.append(np.array([truth[hidden], guess]) / 100)
    return np.concatenate(pairs, axis=1)


def errors(true: Array, predicted: Array) -> dict[str, float]:
    """Absolute differences of scores, as Table III has them: over all, and by the true score."""
    return dict(_errors(np.abs(predicted - true), true))


def _errors(off: Array, true: Array) -> Iterator[tuple[str, float]]:
    yield "mean", float(off.mean())
    yield "p90", float(np.quantile(off, 0.9))
    yield "p99", float(np.quantile(off, 0.99))
    for name, where in (
        ("below-30pct", true < 0.3),
        ("below-60pct", true < 0.6),
        ("above-60pct", true > 0.6),
    ):
        if where.any():
            yield name, float(off[where].mean())


PARAGON_TABLE3 = GroundTruthStudy(
    name="paragon-table3",
    about="errors of scores of interference, tolerated and caused, from two random sources",
    source="Paragon (TOCS) 2.3, Table III",
    measure=look,
    pictures=(),
    published={
        "mean": 0.053,
        "p90": 0.105,
        "p99": 0.186,
        "below-30pct": 0.071,
        "below-60pct": 0.056,
        "above-60pct": 0.034,
    },
    notes=(
        f"The default estimator; {PROFILED} programs are known with all sources. No noise.",
        "Absolute differences of scores; 1 = the whole scale. Sources a regime lacks are left out.",
    ),
)
