"""Pythia's Figure 6: co-runners together contend less than the sum of each one alone.

Source: Pythia 3.2 with Table 1 and Figure 6, 5.2, 5.6 with Table 2 and Figure 14. The sum is
Bubble-Up's prediction; the contention of a set is read off the service's curve beside a bubble.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    at,
    draw_programs,
    mean_curve,
    pooled,
)
from wharfinger.interference.bubble import contention_of
from wharfinger.model.arrays import Array
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application, WorkingSet
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import MIB
from wharfinger.simulator.truth.physics.named import (
    PYTHIA_BATCH,
    PYTHIA_MEMORY_INTENSIVE,
    PYTHIA_SERVICES,
)
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import bubble
from wharfinger.simulator.truth.physics.truth import Physics

PLATFORM = "e5-2670"
CPUS = 2.0
"""Of each workload."""
LOAD = 0.4
"""Over what a service can answer."""
SIZES = (*np.arange(0.25, 8, 0.25), *np.arange(8, 24, 0.5), *np.arange(24, 64.1, 2))
"""Of bubbles, in MiB."""
DEGREES = (2, 3, 4)
SAMPLED = 300
"""Limit of sets of a degree."""
MIN_MIB = 0.2
"""Of joint contention: below, a relative error says nothing."""
STREAMER = "streamer"
"""A service that waits for memory and not for caches."""
SERVICES = (*PYTHIA_SERVICES, STREAMER)
VARIANTS = {
    "": (1.0, False, SERVICES),
    "half-bandwidth/": (0.5, False, SERVICES),
    "with-whims/": (1.0, True, PYTHIA_SERVICES),
}
"""Share of the memory bandwidth, whether co-runners have idiosyncratic noise, and the services.
The noise is as large as the effect of a batch program on a service, of either sign, and the same
in every set."""
FIGURE6 = {2: 0.26, 3: 0.45, 4: 0.66}
MEDIANS = {"redis": 1.85, "mongodb": 0.615}
"""In 5.2, of all sets of one to three."""
TABLE2: Mapping[tuple[str, str], tuple[float, float, float]] = {
    ("redis", "graph-analytics"): (0.9521, 0.9200, 0.7706),
    ("redis", "in-memory-analytics"): (0.9523, 0.9355, 0.6061),
    ("mongodb", "graph-analytics"): (0.9770, 0.9418, 0.9117),
    ("mongodb", "in-memory-analytics"): (0.9806, 0.9860, 0.6854),
}
_Set = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Additivity:
    """One service in one population.

    Attributes:
        errors: By degree, (sum of the singles − joint) / joint, of sets within the curve.
        censored: By degree, share of sets beyond the curve's floor.
        curve: QoS beside bubbles of ``SIZES``.
        batch: By degree, performance of the batch programs in the sets.
    """

    errors: Mapping[int, Array]
    censored: Mapping[int, float]
    curve: Array
    batch: Mapping[int, Array]


def look(regime: Regime, seed: int, names: Sequence[str] = PYTHIA_BATCH) -> StudyFindings:
    """All measurements of one population, with these batch programs."""
    sums = {
        f"{variant}{name}": additivity(truth, name, names, seed)
        for variant, (bandwidth, whims, services) in VARIANTS.items()
        for truth in [world(regime, seed, bandwidth, whims=whims)]
        for name in services
    }
    percent = {
        name: {f"{degree} neighbors": 100 * each for degree, each in sums[name].errors.items()}
        for name in PYTHIA_SERVICES
    }
    curves = {name: (SIZES, sums[name].curve) for name in SERVICES}
    numbers = dict(_numbers(world(regime, seed, 1.0), sums))
    return StudyFindings(numbers, {"additivity": percent, "bubble": {"QoS beside it": curves}})


def world(regime: Regime, seed: int, bandwidth: float, *, whims: bool = False) -> Physics:
    """A socket with a share of its bandwidth, the services, the batch programs, and bubbles."""
    applications = [
        *draw_programs([Pool.PYTHIA_BATCH, Pool.PYTHIA_SERVICES], regime, seed),
        *map(bubble, SIZES),
    ]
    redis = next(each for each in applications if each.name == PYTHIA_SERVICES[0])
    constants = replace(
        regime.constants,
        smt=False,
        bandwidth=regime.constants.bandwidth * bandwidth,
        whim=regime.constants.whim if whims else 0.0,
    )
    return Physics([HARDWARE[PLATFORM]], [*applications, _streamer(redis)], constants)


def _streamer(redis: Application) -> Application:
    """Like redis, but scans its data: no cache holds them, with or without co-runners."""
    sets = (WorkingSet(0.03, 0.5 * MIB, 1.5, floor=0.97), redis.sets[1])
    return replace(redis, name=STREAMER, sets=sets, parallelism=5.0)


def additivity(truth: Physics, name: str, names: Sequence[str], seed: int) -> Additivity:
    """Sums of single contentions against joint ones."""
    service = asked_service(truth, name)
    alone = truth.alone(PLATFORM, service)

    def qos(beside: Sequence[TrueResident]) -> float:
        return truth.rates(PLATFORM, [service, *beside])[0] / alone

    curve = np.array([qos([batch_resident(truth, bubble(size).name)]) for size in SIZES])
    programs = {each: batch_resident(truth, each) for each in names}
    score = partial(contention_of, megabytes=SIZES, curve=curve)
    single = {each: score(qos([program])) for each, program in programs.items()}
    errors, censored, batch = {}, {}, {}
    for degree in DEGREES:
        sets = sets_of(names, degree, seed)
        sums = np.array([sum(single[each] for each in one) for one in sets])
        joint = np.array([score(qos([programs[each] for each in one])) for one in sets])
        readable = np.isfinite(sums) & np.isfinite(joint)
        censored[degree] = float(1 - readable.mean())
        large = readable & (np.nan_to_num(joint) >= MIN_MIB)
        errors[degree] = (sums[large] - joint[large]) / joint[large]
        batch[degree] = np.array([_kept(truth, service, programs, one) for one in sets[:100]])
    return Additivity(errors, censored, curve, batch)


def sets_of(names: Sequence[str], degree: int, seed: int) -> list[_Set]:
    """Multisets of that many, all of them or a sample."""
    sets = list(itertools.combinations_with_replacement(names, degree))
    if len(sets) <= SAMPLED:
        return sets
    chosen = np.random.default_rng([seed, degree]).choice(len(sets), SAMPLED, replace=False)
    return [sets[number] for number in chosen]


def asked_service(truth: Physics, name: str) -> TrueResident:
    """A service at its load."""
    idle = at(truth.applications[name], CPUS, load_per_second=0.0)
    return replace(idle, load_per_second=LOAD * truth.alone(PLATFORM, idle))


def batch_resident(truth: Physics, name: str) -> TrueResident:
    """A batch program, or a bubble, with its CPUs."""
    application = truth.applications[name]
    return at(application, min(CPUS, application.threads))


def _kept(
    truth: Physics, service: TrueResident, programs: Mapping[str, TrueResident], one: _Set
) -> float:
    first, *others = (programs[each] for each in one)
    before = truth.rates(PLATFORM, [first, service])[0]
    return truth.rates(PLATFORM, [first, service, *others])[0] / before


# --- numbers --------------------------------------------------------------------------------


def _numbers(truth: Physics, sums: Mapping[str, Additivity]) -> Iterator[tuple[str, float]]:
    for degree in DEGREES:
        both = np.concatenate([sums[name].errors[degree] for name in PYTHIA_SERVICES])
        yield f"both/degree-{degree}/mean", float(both.mean())
    for name, service in sums.items():
        for degree, errors in service.errors.items():
            if len(errors):
                yield f"{name}/degree-{degree}/mean", float(errors.mean())
                yield f"{name}/degree-{degree}/median", float(np.median(errors))
            yield f"{name}/degree-{degree}/censored", service.censored[degree]
        few = np.concatenate([service.errors[degree] for degree in (2, 3)])
        if len(few) and name in MEDIANS:
            yield f"{name}/up-to-3/median", float(np.median(few))
    yield from _beside_memory(truth)
    for degree in DEGREES:
        kept = [np.concatenate([sums[name].batch[degree] for name in PYTHIA_SERVICES])]
        yield f"batch/degree-{degree}/lost-mean", float(1 - np.mean(kept))


def _beside_memory(truth: Physics) -> Iterator[tuple[str, float]]:
    for name in PYTHIA_SERVICES:
        service = asked_service(truth, name)
        alone = truth.alone(PLATFORM, service)
        for program in PYTHIA_MEMORY_INTENSIVE:
            resident = batch_resident(truth, program)
            for count in (1, 2, 3):
                beside = truth.rates(PLATFORM, [service, *[resident] * count])[0]
                yield f"table2/{name}/{program}-{count}", beside / alone


PYTHIA_FIGURE6 = GroundTruthStudy(
    name="pythia-figure6",
    about="how far the sum of single contentions lies above the joint one, by degree",
    source="Pythia, Figure 6, Table 2 and section 5.2",
    measure=look,
    units={
        "batch/*": "fraction",
        "table2/*": "fraction",
        "*/censored": "fraction",
        "*": "relative",
    },
    published={f"both/degree-{degree}/mean": value for degree, value in FIGURE6.items()}
    | {f"{name}/up-to-3/median": value for name, value in MEDIANS.items()}
    | {
        f"table2/{name}/{program}-{count}": value
        for (name, program), values in TABLE2.items()
        for count, value in enumerate(values, 1)
    },
    notes=(
        "CPUs are cores, as in Pythia's cluster.",
        (
            "Sets beyond the floor of a service's curve are censored and not in the means; so are "
            f"sets whose joint contention is below {MIN_MIB} MiB, where a relative error says "
            "nothing."
        ),
        (
            "A cache-bound service loses most of what it can lose to the first co-runner, and "
            "co-runners take cache and bandwidth from one another: the sum is too high, the more "
            "so with more of them. A service that waits for memory loses ever more as the "
            "bandwidth fills, and a bubble that fits into the cache hardly shows that: there the "
            "sum is too low."
        ),
    ),
    pictures=(
        Picture(
            "additivity",
            physics_plots.distributions,
            "Sum of single contentions over the joint one",
            {"xlabel": "over-estimate (%)"},
            pooled,
        ),
        Picture(
            "bubble",
            physics_plots.curves,
            "Services beside a bubble",
            {"axes_labels": ("bubble (MiB)", "performance over alone"), "limits": (0.8, 1.01)},
            mean_curve,
        ),
    ),
)
