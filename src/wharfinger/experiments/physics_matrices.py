"""Is the physics too simple? Matrices drawn from it, compared with measured ones.

No paper has this table. The papers' methods rely on matrices of low rank: a simulator whose
matrices have a lower rank than real ones would make them look better than they are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wharfinger.estimators.evaluation import EvaluationPlan, evaluate
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings, at
from wharfinger.experiments.plots import Curve
from wharfinger.files.matrices import read_matrix
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SCORED
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import (
    EC2,
    EC2_SERVERS,
    HARDWARE,
    LOCAL,
    LOCAL_SERVERS,
)
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

POOLS = (Pool.SINGLE_THREADED, Pool.MULTITHREADED, Pool.MIXES, Pool.IO_BOUND)
MAX_OF_A_POOL = 30
CLUSTERS: Mapping[str, tuple[tuple[Hardware, ...], Mapping[str, int]]] = {
    "local": (LOCAL, dict(LOCAL_SERVERS)),
    "ec2": (EC2, dict(EC2_SERVERS)),
}
MIN_CORES, MIN_MEMORY = 4, 7 * GIB
"""Smaller platforms run few of the programs as intended."""
HIGH_END, LOW_END = "xeon-x5670", "xeon-e5345"
"""Platforms for co-location: the papers profile on the first."""
INTENSITIES = (50.0, 100.0)
ESTIMATORS = ("column-means", "row-column-means", "stack")
NEAR = 0.95
"""Of the best platform's performance."""
COMPONENTS = (1, 2, 3, 5)
SHOWN = 10
"""Components in the picture."""
MIN_MEASURED = 0.9
"""Share of a column's rows; columns with less are left out where no gaps are allowed."""
SCALED = ("swaptions", "ferret", "kmeans", "ocean")
_Pools = Mapping[Pool, Sequence[Application]]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramMatrix:
    """A matrix of performance or time, what a row's level says, and whether columns are rows."""

    matrix: Matrix
    scale: RowScale = RowScale.ARBITRARY
    pairs: bool = False


def look(
    regime: Regime, seed: int, most: int = MAX_OF_A_POOL, estimators: Sequence[str] = ESTIMATORS
) -> StudyFindings:
    """All measurements of one population, with at most so many programs of each pool."""
    streams = Streams(seed)
    pools = {pool: draw_pool(pool, regime, streams)[:most] for pool in POOLS}
    programs = [each for pool in pools.values() for each in pool]
    worlds = {
        name: Physics(hardware, programs, regime.constants)
        for name, (hardware, _) in CLUSTERS.items()
    }
    local = worlds["local"]
    pairs = {name: _co_located(local, HARDWARE[name], programs) for name in (HIGH_END, LOW_END)}
    matrices = {
        f"platforms/{name}": _of_platforms(truth, programs) for name, truth in worlds.items()
    }
    matrices |= {f"pairs/{name}": each for name, each in pairs.items()}
    by_source = _co_located(local, HARDWARE[HIGH_END], programs, sources=True)
    matrices[f"sources/{HIGH_END}"] = by_source
    numbers = {k: v for item in matrices.items() for k, v in _describe(*item, seed, estimators)}
    for name, truth in worlds.items():
        numbers |= dict(_best_platforms(name, truth, pools))
    squares = {
        f"{name}: {HARDWARE[name].cores} cores": _sorted(each) for name, each in pairs.items()
    }
    return StudyFindings(
        numbers,
        {
            "components": {"drawn": {name: _components(each) for name, each in matrices.items()}},
            "co-location": squares,
            "scale-up": {f"on {HIGH_END}": dict(_speedups(local, pools[Pool.MULTITHREADED]))},
        },
    )


def _describe(
    name: str, of: ProgramMatrix, seed: int, estimators: Sequence[str]
) -> Iterator[tuple[str, float]]:
    shares = component_shares(of.matrix)
    for count in COMPONENTS:
        if count <= len(shares):
            yield f"{name}/in-{count}", float(shares[count - 1])
    yield f"{name}/spread", spread(of.matrix)
    for estimator, error in _errors(of, estimators, seed).items():
        yield f"{name}/error/{estimator}", error


def _best_platforms(cluster: str, truth: Physics, pools: _Pools) -> Iterator[tuple[str, float]]:
    hardware, servers = CLUSTERS[cluster]
    cores = {each.name: servers[each.name] * each.cores for each in hardware}
    winners: list[str] = []
    for pool, programs in pools.items():
        best, near = [], []
        for program in programs:
            rates = _performance(truth, hardware, program)
            top = max(rates, key=lambda name: rates[name])
            best.append(top)
            good = [name for name, rate in rates.items() if rate >= NEAR * rates[top]]
            near.append(sum(cores[name] for name in good) / sum(cores.values()))
        winners += best
        yield f"best/{cluster}/{pool}/most-often", _most_often(best)
        yield f"best/{cluster}/{pool}/cores-nearly-best", float(np.mean(near))
    yield f"best/{cluster}/all/most-often", _most_often(winners)


def _performance(
    truth: Physics, hardware: Sequence[Hardware], program: Application
) -> dict[str, float]:
    rates = {
        each.name: truth.most(each.name, program.name)
        for each in hardware
        if each.cores >= program.threads
    }
    return {name: rate for name, rate in rates.items() if rate > 0}


def _most_often(names: Sequence[str]) -> float:
    return max(map(names.count, set(names))) / len(names)


# --- drawn ----------------------------------------------------------------------------------


def _of_platforms(truth: Physics, programs: Sequence[Application]) -> ProgramMatrix:
    large = [
        each
        for each in truth.hardware.values()
        if each.cores >= MIN_CORES and each.memory_bytes > MIN_MEMORY
    ]
    rows = {
        program.name: [truth.most(each.name, program.name) for each in large]
        for program in programs
    }
    able = {name: row for name, row in rows.items() if min(row) > 0}
    return ProgramMatrix(Matrix.of(able, [each.name for each in large]))


def _co_located(
    truth: Physics, hardware: Hardware, programs: Sequence[Application], *, sources: bool = False
) -> ProgramMatrix:
    half = hardware.cores // 2
    residents = {program.name: at(program, min(program.threads, half)) for program in programs}
    rows: dict[str, dict[str, float]] = {}
    for name, one in residents.items():
        alone = truth.alone(hardware.name, one)
        others = dict(_sources(truth, hardware, one)) if sources else residents
        rows[name] = {
            column: truth.rates(hardware.name, [one, other])[0] / alone
            for column, other in others.items()
        }
    columns = list(next(iter(rows.values())))
    matrix = Matrix.of({name: list(row.values()) for name, row in rows.items()}, columns)
    return ProgramMatrix(matrix, RowScale.NORMALISED, pairs=not sources)


def _sources(
    truth: Physics, hardware: Hardware, one: TrueResident
) -> Iterator[tuple[str, TrueResident]]:
    for resource in SCORED:
        for intensity in INTENSITIES:
            source = truth.source(hardware.name, resource, intensity, one)
            if source is not None:
                yield f"{resource}@{intensity:g}", source


# --- measured -------------------------------------------------------------------------------


def read(paths: Sequence[Path]) -> Callable[[int], StudyFindings]:
    """Measures matrices in files like drawn ones."""
    real = {path.name.split(".")[0]: _measured(path) for path in paths}

    def look_at(seed: int) -> StudyFindings:
        numbers = {
            key: value
            for name, matrix in real.items()
            for key, value in _describe(f"real/{name}", matrix, seed, ESTIMATORS)
        }
        curves = {name: _components(matrix) for name, matrix in real.items()}
        return StudyFindings(numbers, {"components": {"measured": curves}})

    return look_at


def _measured(path: Path) -> ProgramMatrix:
    """A matrix in a file as ``classify evaluate`` reads it; names tell whether it has pairs."""
    matrix = read_matrix(path)
    pairs = len(set(matrix.rows) & set(matrix.columns)) > 1
    return ProgramMatrix(matrix, RowScale.NORMALISED if pairs else RowScale.ARBITRARY, pairs)


# --- statistics -----------------------------------------------------------------------------


def _centred(matrix: Matrix) -> Array:
    """Logarithms without row and column means, and without gaps."""
    logs = matrix.transformed
    logs = logs[:, np.isfinite(logs).mean(axis=0) > MIN_MEASURED]
    logs = logs[np.isfinite(logs).all(axis=1)]
    rows, columns = logs.mean(axis=1, keepdims=True), logs.mean(axis=0, keepdims=True)
    return np.asarray(logs - rows - columns + logs.mean())


def component_shares(matrix: Matrix) -> Array:
    """Cumulative shares of the variance of ``_centred`` in its components, largest first."""
    squares = np.linalg.svd(_centred(matrix), compute_uv=False) ** 2
    return np.asarray(np.cumsum(squares) / squares.sum())


def spread(matrix: Matrix) -> float:
    """Standard deviation of ``_centred``."""
    return float(_centred(matrix).std())


def _errors(of: ProgramMatrix, names: Sequence[str], seed: int) -> dict[str, float]:
    plan = EvaluationPlan(2, scale=of.scale, pairs=of.pairs, higher=True, repeats=1, seed=seed)
    estimators = evaluate(of.matrix, names, plan).estimators
    return {name: estimators[name]["mean_relative_error"] for name in names}


# --- panels ---------------------------------------------------------------------------------


def _components(of: ProgramMatrix) -> Curve:
    shares = component_shares(of.matrix)[:SHOWN]
    return list(range(1, len(shares) + 1)), shares * 100


def _sorted(of: ProgramMatrix) -> physics_plots.Square:
    values: Array = of.matrix.values
    rows, columns = values.mean(axis=1).argsort(), values.mean(axis=0).argsort()
    return [""] * len(rows), [""] * len(columns), values[rows][:, columns]


def _speedups(truth: Physics, programs: Sequence[Application]) -> Iterator[tuple[str, Curve]]:
    for program in programs:
        if program.name in SCALED:
            counts = range(1, program.threads + 1)
            rates = np.array([truth.alone(HIGH_END, at(program, cores)) for cores in counts])
            yield program.name, (counts, rates / rates[0])


PHYSICS_MATRICES = GroundTruthStudy(
    name="physics-matrices",
    about="rank, spread and predictability of the physics' matrices, beside measured ones",
    source="ours; nothing was published to hold this against",
    measure=look,
    tables=read,
    units={"*/spread": "log"},
    notes=(
        (
            "in-N is the share of log-variance in the first N components, once rows and columns "
            "are centred; spread is what is left then, as a standard deviation; errors are "
            "relative, of rows of programs held out, from two random entries. --tables DIR puts "
            "measured matrices, in CSV files, beside these."
        ),
    ),
    pictures=(
        Picture(
            "components",
            physics_plots.curves,
            "Variance in the first components",
            {
                "axes_labels": ("components", "share (%)"),
                "limits": (0.0, 100.0),
                "legend": "lower right",
            },
        ),
        Picture("co-location", physics_plots.matrices, "What each program keeps beside each other"),
        Picture(
            "scale-up",
            physics_plots.curves,
            "Speedup by cores",
            {"axes_labels": ("cores", "over one core")},
        ),
    ),
)
