"""Pythia's Figures 4, 5, 14 and 15 and its Table 1, on the ground truth.

Source: Pythia 3.1 and 3.2 (what a set causes hangs on the service, and is less than the sum of its
members'), 5.6 (what batch programs take of one another). Curves, sets and services are those of
``pythia_figure6``.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from math import nan

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings, pooled
from wharfinger.experiments.pythia_figure6 import (
    MIN_MIB,
    PLATFORM,
    SIZES,
    asked_service,
    batch_resident,
    sets_of,
    world,
)
from wharfinger.interference.bubble import contention_of
from wharfinger.model.arrays import Array
from wharfinger.simulator.truth.physics.named import PYTHIA_BATCH, PYTHIA_SERVICES
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import bubble
from wharfinger.simulator.truth.physics.truth import Physics

REDIS, MONGODB = PYTHIA_SERVICES
DEGREES = (1, 2, 3)
SHOWN = (0.5, 2.0)
"""Ratios of two contentions; further ones are drawn at the edge."""
FIGURE4: Mapping[str, tuple[float, float]] = {"bodytrack": (8.5, 10.0), "canneal": (13.0, 10.5)}
"""MB of contention at redis and at mongodb. Its third program, blackscholes, is not drawn here."""
TABLE1: Mapping[tuple[str, ...], float] = {
    ("bwaves", "bzip2"): 0.22,
    ("streamcluster", "bwaves", "zeusmp"): 0.76,
    ("tonto", "gcc"): 0.44,
    ("ferret", "omnetpp"): 0.22,
    ("bwaves", "h264ref", "omnetpp"): 0.38,
    ("gromacs", "hmmer", "xalancbmk"): 0.16,
    ("milc", "bzip2", "bzip2"): 0.26,
    ("bodytrack", "canneal", "mcf"): 0.53,
}
"""How far the sum is above the joint contention; of which service is not said."""
MOST_REGULAR = 17
"""Programs that vary least; the other two are outliers."""
FIGURE15 = {REDIS: (0.013, 0.11), MONGODB: (0.007, 0.44)}
"""Largest coefficient of variation of those, and of all."""
FIGURE14 = {REDIS: 0.014, MONGODB: 0.03}
"""What three instead of one take of the CPU utilization of the median program."""


class ServiceBeside:
    """One service: its performance beside sets, and their contention, off its own curve."""

    def __init__(self, truth: Physics, name: str) -> None:
        self.truth, self.service = truth, asked_service(truth, name)
        self._alone = truth.alone(PLATFORM, self.service)
        curve = [self._kept(bubble(size).name) for size in SIZES]
        self._score = partial(contention_of, megabytes=SIZES, curve=np.array(curve))

    def contention(self, *names: str) -> float:
        """MiB; NaN beyond the floor of the curve."""
        return float(self._score(self._kept(*names)))

    def _kept(self, *names: str) -> float:
        residents = [batch_resident(self.truth, name) for name in names]
        return self.truth.rates(PLATFORM, [self.service, *residents])[0] / self._alone

    def rates(self, *names: str) -> list[float]:
        """Of batch programs beside the service and one another."""
        residents = [batch_resident(self.truth, name) for name in names]
        return list(self.truth.rates(PLATFORM, [*residents, self.service])[: len(names)])


def _services(regime: Regime, seed: int) -> dict[str, ServiceBeside]:
    truth = world(regime, seed, 1.0)
    return {name: ServiceBeside(truth, name) for name in PYTHIA_SERVICES}


# --- what one set causes to two services --------------------------------------------------------


def by_service(regime: Regime, seed: int) -> StudyFindings:
    """Contention of sets of one to three at both services."""
    services, numbers, ratios = _services(regime, seed), {}, {}
    for degree in DEGREES:
        both = np.array(
            [
                [each.contention(*one) for each in services.values()]
                for one in sets_of(PYTHIA_BATCH, degree, seed)
            ]
        )
        readable = np.isfinite(both).all(axis=1) & (np.nan_to_num(both).max(axis=1) >= MIN_MIB)
        at_redis, at_mongodb = np.maximum(both[readable], MIN_MIB).T
        apart = np.log(at_mongodb / at_redis)
        numbers[f"degree-{degree}/higher-at-mongodb"] = float((apart > 0).mean())
        numbers[f"degree-{degree}/apart"] = float(np.median(np.exp(np.abs(apart)))) - 1
        ratios[f"{degree} neighbor{'s' if degree > 1 else ''}"] = np.clip(np.exp(apart), *SHOWN)
    for program in FIGURE4:
        for name, service in services.items():
            numbers[f"figure4/{name}/{program}"] = service.contention(program)
    return StudyFindings(numbers, {"ratio": {"all sets": ratios}})


PYTHIA_FIGURE5 = GroundTruthStudy(
    name="pythia-figure5",
    about="how much more contention the same batch programs cause to one service than to another",
    source="Pythia, Figures 4 and 5, section 3.1",
    measure=by_service,
    units={"figure4/*": "MiB", "*": "fraction"},
    published={
        f"figure4/{name}/{program}": number
        for program, numbers in FIGURE4.items()
        for name, number in zip(PYTHIA_SERVICES, numbers, strict=True)
    },
    notes=(
        "apart: by how much the higher contention of a set is above the lower, in the median.",
        "Of Figure 5 the paper says in words that most sets cause more to MongoDB.",
    ),
    pictures=(
        Picture(
            "ratio",
            physics_plots.distributions,
            "Contention at mongodb over that at redis",
            {"xlabel": "times"},
            pooled,
        ),
    ),
)


# --- the sets of Table 1 ------------------------------------------------------------------------


def table1(regime: Regime, seed: int) -> StudyFindings:
    """How far sums are above joint contentions, of the paper's eight sets."""
    numbers: dict[str, float] = {}
    drawn: dict[str, dict[str, float]] = {}
    services = _services(regime, seed)
    for number, one in enumerate(TABLE1, 1):
        drawn[str(number)] = dict.fromkeys(services, nan)
        for name, service in services.items():
            joint = service.contention(*one)
            if joint >= MIN_MIB:
                error = sum(map(service.contention, one)) / joint - 1
                numbers[f"{name}/{'+'.join(one)}"] = error
                drawn[str(number)][name] = 100 * error
    return StudyFindings(numbers, {"errors": {"the sets of the table, in its order": drawn}})


PYTHIA_TABLE1 = GroundTruthStudy(
    name="pythia-table1",
    about="how far the sum of single contentions lies above the joint one, of the paper's sets",
    source="Pythia, Table 1, section 3.2",
    measure=table1,
    units={"*": "relative"},
    published={
        f"{name}/{'+'.join(one)}": error
        for name in PYTHIA_SERVICES
        for one, error in TABLE1.items()
    },
    notes=(
        "Of which service the table is, it does not say: its numbers stand beside both.",
        f"Sets beyond a curve's floor, or below {MIN_MIB} MiB, are left out.",
        "The picture is of the first population.",
    ),
    pictures=(
        Picture(
            "errors",
            physics_plots.grouped,
            "Sum of single contentions over the joint one",
            {"ylabel": "over-estimate (%)"},
        ),
    ),
)


# --- what batch programs take of one another ----------------------------------------------------


def variation(regime: Regime, seed: int) -> StudyFindings:
    """Of each program's rate over the neighbors that it can have."""
    numbers: dict[str, float] = {}
    drawn: dict[str, dict[str, float]] = {program: {} for program in PYTHIA_BATCH}
    for name, service in _services(regime, seed).items():
        each = {
            program: np.array([service.rates(program, other)[0] for other in PYTHIA_BATCH])
            for program in PYTHIA_BATCH
        }
        varies = {program: float(rates.std() / rates.mean()) for program, rates in each.items()}
        ranked = sorted(varies.values())
        numbers[f"{name}/variation-of-17"] = ranked[MOST_REGULAR - 1]
        numbers[f"{name}/variation-of-all"] = ranked[-1]
        numbers |= _lost(name, service, each, seed)
        for program, share in varies.items():
            drawn[program][name] = 100 * share
    return StudyFindings(numbers, {"variation": {"all programs": drawn}})


def _lost(
    name: str, service: ServiceBeside, pairs: Mapping[str, Array], seed: int
) -> Iterator[tuple[str, float]]:
    """What one and two further batch programs take of a program's rate beside the service."""
    alone = {program: service.rates(program)[0] for program in PYTHIA_BATCH}
    two = np.concatenate([rates / alone[program] for program, rates in pairs.items()])
    sets = sets_of(PYTHIA_BATCH, 3, seed)
    three = [
        rate / alone[program]
        for one in sets
        for program, rate in zip(one, service.rates(*one), strict=True)
    ]
    for degree, kept in ((2, two), (3, three)):
        yield f"{name}/degree-{degree}/lost-median", float(1 - np.median(kept))
        yield f"{name}/degree-{degree}/lost-95th", float(1 - np.quantile(kept, 0.05))


PYTHIA_FIGURE15 = GroundTruthStudy(
    name="pythia-figure15",
    about="what batch programs beside a service take of one another, and how that varies",
    source="Pythia, Figures 14 and 15, section 5.6",
    measure=variation,
    published={f"{name}/variation-of-17": few for name, (few, _) in FIGURE15.items()}
    | {f"{name}/variation-of-all": most for name, (_, most) in FIGURE15.items()}
    | {f"{name}/degree-3/lost-median": lost for name, lost in FIGURE14.items()},
    notes=(
        "Published are CPU utilizations; here a program's CPUs are its own, and its rate falls.",
        "variation: standard deviation over the mean, of a program beside each, itself too.",
        "lost: of its rate beside the service alone.",
        "The picture is of the first population.",
    ),
    pictures=(
        Picture(
            "variation",
            physics_plots.grouped,
            "Variation of a batch program's rate beside each one",
            {"ylabel": "deviation over mean (%)"},
        ),
    ),
)
