"""Is the physics too simple? Matrices drawn from it beside such that were measured.

No paper has this table: the papers' methods live on matrices of low rank, and a simulator whose
matrices are of lower rank than nature's would make them look better than they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import InvalidInput
from wharfinger.experiments import physics_plots
from wharfinger.experiments.base import Arguments, Context, ExperimentResult, Row
from wharfinger.experiments.ground_truth import (
    Fact,
    Numbers,
    at,
    over_seeds,
    regime_of,
    rows_of,
    seeds_of,
)
from wharfinger.experiments.matrices import (
    COMPONENTS,
    Known,
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

POOLS = (Pool.SINGLE_THREADED, Pool.MULTITHREADED, Pool.MIXES, Pool.IO_BOUND)
MOST_OF_A_POOL = 30
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
_Array = NDArray[np.float64]
_Pools = Mapping[Pool, Sequence[Application]]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Of one population.

    Attributes:
        numbers: Those of the table.
        shares: Cumulative shares of components, by matrix.
        pairs: What programs keep beside each other, by platform; rows and columns sorted.
        speedups: By program, with 1, 2, … cores.
    """

    numbers: Numbers
    shares: Mapping[str, _Array] = field(default_factory=dict)
    pairs: Mapping[str, _Array] = field(default_factory=dict)
    speedups: Mapping[str, _Array] = field(default_factory=dict)


class PhysicsMatrices:
    """The experiment."""

    name = "physics-matrices"
    about = "rank, spread and predictability of the physics' matrices, beside measured ones"
    source = "ours; nothing was published to hold this against"
    takes = frozenset({"regime", "tables"})
    repeats = 7

    def check(self, arguments: Arguments) -> None:
        """Refuse a regime that there is not, and files that are no matrices."""
        regime_of(arguments)
        for path in _files(arguments.tables):
            measured(path)

    def run(self, context: Context) -> ExperimentResult:
        """Draw them, and look at them and at those in the given directory."""
        arguments = context.arguments
        regime = regime_of(arguments)
        given = arguments.tables
        if given is not None:
            given = context.space.read(given, [path.name for path in _files(given)])
        real = {path.name.split(".")[0]: measured(path) for path in _files(given)}
        found = over_seeds(context, partial(look, regime))
        facts = [Fact(name, _unit(name)) for name in found[0].numbers]
        drawn = rows_of([each.numbers for each in found], facts)
        return ExperimentResult(
            self.name,
            seeds_of(arguments),
            (*drawn, *_real_rows(real, arguments.seed)),
            tuple(_notes(regime, real)),
            pictures=_pictures(found, real),
        )


def look(regime: Regime, seed: int, most: int = MOST_OF_A_POOL) -> Found:
    """All of one population.

    Args:
        regime: Of the physics.
        seed: Of the population, and of what estimators are told.
        most: Programs of each pool.
    """
    streams = Streams(seed)
    pools = {pool: draw_pool(pool, regime, streams)[:most] for pool in POOLS}
    programs = [each for pool in pools.values() for each in pool]
    worlds = {
        name: Physics(hardware, programs, regime.constants)
        for name, (hardware, _) in CLUSTERS.items()
    }
    known = dict(_matrices(worlds, programs))
    numbers: Numbers = {}
    for name, each in known.items():
        numbers |= dict(describe(name, each, seed))
    for name, truth in worlds.items():
        numbers |= dict(best_platforms(name, truth, pools))
    return Found(
        numbers,
        {name: component_shares(each.matrix) for name, each in known.items()},
        {name: _sorted(known[f"pairs/{name}"]) for name in (HIGH_END, LOW_END)},
        dict(_speedups(worlds["local"], pools[Pool.MULTITHREADED])),
    )


def _matrices(
    worlds: Mapping[str, Physics], programs: Sequence[Application]
) -> Iterator[tuple[str, Known]]:
    for name, truth in worlds.items():
        yield f"platforms/{name}", of_platforms(truth, programs)
    for name in (HIGH_END, LOW_END):
        yield f"pairs/{name}", of_pairs(worlds["local"], HARDWARE[name], programs)
    yield f"sources/{HIGH_END}", of_sources(worlds["local"], HARDWARE[HIGH_END], programs)


def describe(name: str, known: Known, seed: int) -> Iterator[tuple[str, float]]:
    """Shares of components, what is left, and errors from two entries."""
    shares = component_shares(known.matrix)
    for count in COMPONENTS:
        if count <= len(shares):
            yield f"{name}/in-{count}", float(shares[count - 1])
    yield f"{name}/spread", spread(known.matrix)
    for estimator, error in errors(known, ESTIMATORS, 1, seed).items():
        yield f"{name}/error/{estimator}", error


def best_platforms(cluster: str, truth: Physics, pools: _Pools) -> Iterator[tuple[str, float]]:
    """How often one platform is the best, and how many cores are nearly as good as it."""
    hardware, servers = CLUSTERS[cluster]
    cores = {each.name: servers[each.name] * each.cores for each in hardware}
    winners: list[str] = []
    for pool, programs in pools.items():
        best, near = [], []
        for program in programs:
            found = _performance(truth, hardware, program)
            top = max(found, key=lambda name: found[name])
            best.append(top)
            good = [name for name, rate in found.items() if rate >= NEAR * found[top]]
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


def _sorted(known: Known) -> _Array:
    """Those who lose most, and those who take most, first."""
    values = known.matrix.values
    rows, columns = values.mean(axis=1).argsort(), values.mean(axis=0).argsort()
    found: _Array = values[rows][:, columns]
    return found


def _speedups(truth: Physics, programs: Sequence[Application]) -> Iterator[tuple[str, _Array]]:
    for program in programs:
        if program.name in SCALED:
            counts = range(1, program.threads + 1)
            rates = np.array([truth.alone(HIGH_END, at(program, cores)) for cores in counts])
            yield program.name, rates / rates[0]


# --- measured, and what is shown ------------------------------------------------------------


def _files(directory: Path | None) -> list[Path]:
    if directory is None:
        return []
    found = sorted(directory.glob("*.csv"))
    if not found:
        raise InvalidInput(
            f"--tables: {str(directory)!r} has no *.csv; name a directory of matrices as "
            "`classify evaluate` reads them, or leave it out"
        )
    return found


def _real_rows(real: Mapping[str, Known], seed: int) -> Iterator[Row]:
    for name, known in real.items():
        for key, value in describe(f"real/{name}", known, seed):
            yield Row(key, None, value, None, None, _unit(key))


def _unit(name: str) -> str:
    return "log" if name.endswith("/spread") else "fraction"


def _notes(regime: Regime, real: Mapping[str, Known]) -> Iterator[str]:
    yield f"Regime {regime.name}."
    yield (
        "in-N is the share of log-variance in the first N components, once rows and columns are "
        "centred; spread is what is left then, as a standard deviation; errors are relative, of "
        "rows of programs held out, from two random entries."
    )
    if not real:
        yield "Give --tables DIR, with matrices in CSV files, to see measured ones beside these."


def _pictures(
    found: Sequence[Found], real: Mapping[str, Known]
) -> "dict[str, Callable[[], Figure]]":
    first = found[0]
    shares = {
        "drawn": {name: _as_curve(each) for name, each in first.shares.items()},
    }
    if real:
        shares["measured"] = {
            name: _as_curve(component_shares(known.matrix)) for name, known in real.items()
        }
    return {
        "components": partial(
            physics_plots.curves,
            shares,
            "Variance in the first components",
            ("components", "share (%)"),
            limits=(0.0, 100.0),
            legend="lower right",
        ),
        "co-location": partial(
            physics_plots.matrices,
            {
                f"{name}: {HARDWARE[name].cores} cores": ([""] * len(each), [""] * len(each), each)
                for name, each in first.pairs.items()
            },
            "What each program keeps beside each other",
        ),
        "scale-up": partial(
            physics_plots.curves,
            {
                f"on {HIGH_END}": {
                    name: (list(range(1, len(each) + 1)), each)
                    for name, each in first.speedups.items()
                }
            },
            "Speedup by cores",
            ("cores", "over one core"),
        ),
    }


def _as_curve(shares: _Array) -> "physics_plots.Curve":
    told = shares[:10]
    return list(range(1, len(told) + 1)), told * 100
