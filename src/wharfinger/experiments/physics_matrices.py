"""Is the physics too simple? Matrices drawn from it beside such that were measured.

No paper has this table: the papers' methods live on matrices of low rank, and a simulator whose
matrices are of lower rank than nature's would make them look better than they are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings, at
from wharfinger.experiments.matrices import (
    COMPONENTS,
    ProgramMatrix,
    component_shares,
    errors,
    measured,
    of_pairs,
    of_platforms,
    of_sources,
    spread,
)
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import (
    EC2,
    EC2_SERVERS,
    HARDWARE,
    LOCAL,
    LOCAL_SERVERS,
)
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

POOLS = (Pool.SINGLE_THREADED, Pool.MULTITHREADED, Pool.MIXES, Pool.IO_BOUND)
MAX_OF_A_POOL = 30
CLUSTERS: Mapping[str, tuple[tuple[Hardware, ...], Mapping[str, int]]] = {
    "local": (LOCAL, dict(LOCAL_SERVERS)),
    "ec2": (EC2, dict(EC2_SERVERS)),
}
HIGH_END, LOW_END = "xeon-x5670", "xeon-e5345"
"""Where programs are put beside one another: on the first, the papers profile."""
ESTIMATORS = ("column-means", "row-column-means", "stack")
NEAR = 0.95
"""Of the best platform's performance."""
SCALED = ("swaptions", "ferret", "kmeans", "ocean")
SHOWN = 10
"""Components."""
_Pools = Mapping[Pool, Sequence[Application]]


def look(
    regime: Regime,
    seed: int,
    most: int = MAX_OF_A_POOL,
    estimators: Sequence[str] = ESTIMATORS,
) -> StudyFindings:
    """All of one population.

    Args:
        regime: Of the physics.
        seed: Of the population, and of what estimators are told.
        most: Programs of each pool.
        estimators: Which to try.
    """
    streams = Streams(seed)
    pools = {pool: draw_pool(pool, regime, streams)[:most] for pool in POOLS}
    programs = [each for pool in pools.values() for each in pool]
    worlds = {
        name: Physics(hardware, programs, regime.constants)
        for name, (hardware, _) in CLUSTERS.items()
    }
    local = worlds["local"]
    pairs = {name: of_pairs(local, HARDWARE[name], programs) for name in (HIGH_END, LOW_END)}
    matrices = {
        f"platforms/{name}": of_platforms(truth, programs) for name, truth in worlds.items()
    }
    matrices |= {f"pairs/{name}": each for name, each in pairs.items()}
    matrices[f"sources/{HIGH_END}"] = of_sources(local, HARDWARE[HIGH_END], programs)
    numbers = {k: v for item in matrices.items() for k, v in describe(*item, seed, estimators)}
    for name, truth in worlds.items():
        numbers |= dict(best_platforms(name, truth, pools))
    return StudyFindings(
        numbers,
        {
            "components": {"drawn": {name: _components(each) for name, each in matrices.items()}},
            "co-location": {
                f"{name}: {HARDWARE[name].cores} cores": _sorted(each)
                for name, each in pairs.items()
            },
            "scale-up": {f"on {HIGH_END}": dict(_speedups(local, pools[Pool.MULTITHREADED]))},
        },
    )


def describe(
    name: str, of: ProgramMatrix, seed: int, estimators: Sequence[str]
) -> Iterator[tuple[str, float]]:
    """Shares of components, what is left, and errors from two entries."""
    shares = component_shares(of.matrix)
    for count in COMPONENTS:
        if count <= len(shares):
            yield f"{name}/in-{count}", float(shares[count - 1])
    yield f"{name}/spread", spread(of.matrix)
    for estimator, error in errors(of, estimators, 1, seed).items():
        yield f"{name}/error/{estimator}", error


def best_platforms(cluster: str, truth: Physics, pools: _Pools) -> Iterator[tuple[str, float]]:
    """How often one platform is the best, and how many cores are nearly as good as it."""
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
    """On those that have a core for each thread, and room."""
    rates = {
        each.name: truth.most(each.name, program.name)
        for each in hardware
        if each.cores >= program.threads
    }
    return {name: rate for name, rate in rates.items() if rate > 0}


def _most_often(names: Sequence[str]) -> float:
    return max(map(names.count, set(names))) / len(names)


# --- measured -------------------------------------------------------------------------------


def read(paths: Sequence[Path]) -> Callable[[int], StudyFindings]:
    """Matrices in files, to be looked at as drawn ones are."""
    real = {path.name.split(".")[0]: measured(path) for path in paths}

    def look_at(seed: int) -> StudyFindings:
        numbers = {
            key: value
            for name, matrix in real.items()
            for key, value in describe(f"real/{name}", matrix, seed, ESTIMATORS)
        }
        curves = {name: _components(matrix) for name, matrix in real.items()}
        return StudyFindings(numbers, {"components": {"measured": curves}})

    return look_at


# --- what is shown --------------------------------------------------------------------------


def _components(of: ProgramMatrix) -> physics_plots.Curve:
    shares = component_shares(of.matrix)[:SHOWN]
    return list(range(1, len(shares) + 1)), shares * 100


def _sorted(of: ProgramMatrix) -> physics_plots.Square:
    """Those that lose most, and those that take most, first."""
    values: NDArray[np.float64] = of.matrix.values
    rows, columns = values.mean(axis=1).argsort(), values.mean(axis=0).argsort()
    return [""] * len(rows), [""] * len(columns), values[rows][:, columns]


def _speedups(
    truth: Physics, programs: Sequence[Application]
) -> Iterator[tuple[str, physics_plots.Curve]]:
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
