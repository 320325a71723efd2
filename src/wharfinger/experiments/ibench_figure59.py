"""iBench's Figure 5.9: which core of a chip with unlike ones each program of a mix gets.

Source: dissertation 5.5.4, without numbers: 40 mixes of four programs on two Xeon-like and two
Atom-like cores, 60 mixes of sixteen on sixteen cores that differ more, under one last-level cache
of 8 MB and 16 GB. Programs' classes and mixes are those of Sanchez and Kozyrakis (ISCA 2011). Each
mapping is chosen by eq. 5.1 from scores that were measured on each kind of core.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, combinations_with_replacement, permutations

import numpy as np

from wharfinger.experiments import physics_plots, plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Panels,
    Picture,
    StudyFindings,
    draw_programs,
    together,
)
from wharfinger.experiments.ibench_chips import CHIPS
from wharfinger.experiments.ibench_sources import (
    TOLERANCE,
    smoothed,
    sources_beside,
    tolerated,
)
from wharfinger.ibench.pairing import Scores, pair_of
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SharedResource
from wharfinger.model.source_sets import IBENCH
from wharfinger.profiling.procedure import PROBE_INTENSITY
from wharfinger.simulator.cluster.injection import Probes
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

R = SharedResource
CLASSES: Mapping[str, tuple[str, ...]] = {
    "insensitive": (
        "perlbench", "bwaves", "gamess", "gromacs", "namd", "gobmk", "dealII", "povray", "calculix",
        "hmmer", "sjeng", "h264ref", "tonto", "wrf",
    ),
    "friendly": ("bzip2", "gcc", "zeusmp", "cactusADM", "leslie3d", "astar"),
    "fitting": ("soplex", "lbm", "omnetpp", "sphinx3", "xalancbmk"),
    "streaming": ("mcf", "milc", "GemsFDTD", "libquantum"),
}  # fmt: skip
"""Of SPEC CPU2006, by what more cache does for them (Sanchez and Kozyrakis, Table 3)."""
MIXES = {4: 40, 16: 60}
"""Mixes by programs in each."""
_LEFT_OUT = {R.STORAGE_CAPACITY, R.STORAGE_BANDWIDTH, R.NETWORK_BANDWIDTH}  # SoI 3 to 5, as there
_NOISE = 0.01
"""Standard deviation of the logarithm of one measured rate."""
_DRAWN, _STARTS = 24, 2
"""Random mappings, where there are too many for all, and starts of a search."""
RANDOM, EQUATION, INTERFERENCE = "random", "eq. 5.1", "interference"
CORES, BEST, LEAST = "interference and cores", "best", "least interference"
"""Rules: eq. 5.1 as ``pair`` has it; the least that programs cause beyond what others tolerate; the
same among mappings whose cores cost at most 5% over the fastest; and by the truth the best, and the
one that loses least to co-runners."""
_EXHAUSTIVE = 4
"""Programs of a mix up to which all mappings are tried: of 16 there are 82 billion."""
_FORBIDDEN = 1e12
_MARGINAL = 0.9
_Place = tuple[int, ...]  # of each program of a mix, the group of its core
_Cost = Callable[[_Place], float]


@dataclass(frozen=True, slots=True, eq=False)
class MappingOutcome:
    """Of one mapping of a mix.

    Attributes:
        performance: (programs,) over that with the chip to itself, on the core that suits it best.
        kept: (programs,) over that alone on the same core.
        time: (3,) mean share of time in the core, waiting for the last level and for memory.
    """

    performance: Array
    kept: Array
    time: Array


class Chip:
    """What programs do on a chip, and their profiles by kind of core, which are measured once."""

    def __init__(self, truth: Physics, name: str, seed: int) -> None:
        self.truth, self.name, self.streams = truth, name, Streams(seed)
        groups = truth.hardware[name].groups
        self.slots = tuple(number for number, each in enumerate(groups) for _ in range(each.cores))
        alone = TrueResident("", 1000.0, 0)
        self.sources = tuple(
            each
            for each in IBENCH
            if each not in _LEFT_OUT and truth.source(name, each, 100.0, alone) is not None
        )
        self.rates = {
            program: np.array([truth.alone(name, self._on(program, g)) for g in range(len(groups))])
            for program in truth.applications
        }
        """By program, (groups,) alone."""
        self._probes = Probes(truth)
        self._scores: dict[tuple[str, int], Scores] = {}
        self._pairs: dict[tuple[str, str], tuple[Array, Array]] = {}

    def _on(self, program: str, group: int) -> TrueResident:
        memory = self.truth.applications[program].footprint_bytes
        return TrueResident(program, 1000.0, memory, cores=group)

    def performance(self, mix: Sequence[str], place: _Place) -> Array:
        """(programs,) as in ``MappingOutcome``."""
        group = [self._on(program, core) for program, core in zip(mix, place, strict=True)]
        best = [self.rates[program].max() for program in mix]
        return np.asarray(np.array(self.truth.rates(self.name, group)) / best)

    def kept(self, mix: Sequence[str], place: _Place) -> Array:
        """(programs,) as in ``MappingOutcome``."""
        group = [self._on(program, core) for program, core in zip(mix, place, strict=True)]
        alone = [self.rates[program][core] for program, core in zip(mix, place, strict=True)]
        return np.asarray(np.array(self.truth.rates(self.name, group)) / alone)

    def outcome(self, mix: Sequence[str], place: _Place) -> MappingOutcome:
        """What a mapping comes to."""
        group = [self._on(program, core) for program, core in zip(mix, place, strict=True)]
        spent = np.array([[x.core, x.cache, x.memory] for x in self.truth.spent(self.name, group)])
        time = (spent / spent.sum(axis=1, keepdims=True)).mean(axis=0)
        return MappingOutcome(self.performance(mix, place), self.kept(mix, place), time)

    def scores(self, program: str, group: int) -> Scores:
        """Tolerated where a source costs 5%, caused by what a probe loses, both with noise."""
        key = program, group
        if key not in self._scores:
            self._scores[key] = self._measured(program, group)
        return self._scores[key]

    def _measured(self, program: str, group: int) -> Scores:
        resident, probes = self._on(program, group), self._probes
        given, taken = {}, {}
        for source in self.sources:
            error = partial(self._error, program, group, source)
            curve = [
                self.truth.rates(self.name, [resident, each])[0]
                / self.rates[program][group]
                * error(number)
                for number, each in enumerate(
                    sources_beside(self.truth, self.name, source, resident)
                )
            ]
            given[str(source)] = tolerated(smoothed(curve))
            probe = self.truth.source(self.name, source, PROBE_INTENSITY, resident)
            assert probe is not None
            slowed = self.truth.rates(self.name, [resident, probe])[1]
            kept = slowed / probes.alone(self.name, probe) * error(-1)
            taken[str(source)] = probes.caused(self.name, source, resident, [kept], _NOISE).value
        return Scores(program, given, taken)

    def _error(self, program: str, group: int, source: str, number: int) -> float:
        drawn = self.streams.normal("figure59", self.name, program, group, source, number)
        return float(np.exp(_NOISE * drawn))

    def measured_rates(self, program: str) -> Array:
        """(groups,) alone, with noise."""
        errors = [self._error(program, g, "", 0) for g in range(len(self.rates[program]))]
        return np.asarray(self.rates[program] * errors)

    def pair(self, one: str, other: str) -> tuple[Array, Array]:
        """(groups, groups) of two programs, the cost by eq. 5.1 and the interference.

        Refusals count before distances. Interference is what each causes beyond what the other
        tolerates, summed over sources, in points.
        """
        if (one, other) not in self._pairs:
            kinds = range(len(self.rates[one]))
            both = [[self.scores(one, g), self.scores(other, h)] for g in kinds for h in kinds]
            names = [str(each) for each in self.sources]
            shape = len(kinds), len(kinds)
            costs = np.array([pair_of(each, 0, 1, names).cost for each in both])
            beyond = np.array([_beyond(*each) + _beyond(*each[::-1]) for each in both])
            self._pairs[one, other] = costs.reshape(shape), beyond.reshape(shape)
        return self._pairs[one, other]


def look(regime: Regime, seed: int, mixes: Mapping[int, int] = MIXES) -> StudyFindings:
    """All mixes of one population on both chips, as many of each size as given."""
    return together([on_chip(regime, seed, size, count) for size, count in mixes.items()])


def on_chip(regime: Regime, seed: int, size: int, count: int) -> StudyFindings:
    """So many mixes of one size."""
    programs = draw_programs([Pool.SINGLE_THREADED], regime, seed)
    chip = Chip(Physics([CHIPS[size]], programs, regime.constants), CHIPS[size].name, seed)
    drawn = mixes_of(size, count, seed)
    found = [mapped(chip, mix, seed) for mix in drawn]
    picked = _picked(found)
    label = f"{size} programs on {size} cores"
    panels: dict[str, Panels] = {
        "mixes": {
            f"{size} programs: over isolated": _ordered(found, _performance, _RULES[:-1]),
            f"{size} programs: over alone on that core": _ordered(found, _kept, _RULES),
        },
        "cycles": {label: _spent([found[at] for at in picked])},
    }
    if size <= _EXHAUSTIVE:
        panels["programs"] = _programs([(drawn[at], found[at]) for at in picked])
    return StudyFindings(dict(_numbers(f"{size}-programs", found)), panels)


def mixes_of(size: int, count: int, seed: int) -> list[tuple[str, ...]]:
    """Programs of each multiset of four classes in turn, then of random ones."""
    random = np.random.default_rng([seed, size])
    kinds = list(combinations_with_replacement(CLASSES, 4))
    more = [tuple(random.choice(list(CLASSES), 4).tolist()) for _ in range(count - len(kinds))]
    order = random.permutation(len(kinds))[:count]
    return [
        tuple(str(random.choice(CLASSES[kind])) for kind in four for _ in range(size // 4))
        for four in [*(kinds[each] for each in order), *more]
    ]


# --- mappings -------------------------------------------------------------------------------


def mapped(chip: Chip, mix: Sequence[str], seed: int) -> dict[str, list[MappingOutcome]]:
    """By rule, what its mapping comes to; of ``RANDOM``, all of them, or some."""
    random = np.random.default_rng([seed, len(mix)])
    every = list(permutations(chip.slots)) if len(mix) <= _EXHAUSTIVE else []
    drawn = every or [tuple(random.permutation(chip.slots).tolist()) for _ in range(_DRAWN)]

    def least(cost: _Cost, *starts: _Place) -> _Place:
        tried = every or [_descend(cost, each) for each in (*starts, *drawn[:_STARTS])]
        return min(tried, key=cost)

    (distance, interference), slower = _of_pairs(chip, mix), _slower(chip, mix)
    calm, fastest = least(interference), least(slower)
    allowed = (1 + TOLERANCE) * slower(fastest)

    def on_good_cores(place: _Place) -> float:
        return interference(place) + _FORBIDDEN * max(0.0, slower(place) - allowed)

    cores = least(on_good_cores, fastest)
    chosen = {
        RANDOM: drawn,
        EQUATION: [least(distance)],
        INTERFERENCE: [calm],
        CORES: [cores],
        BEST: [least(lambda each: -float(chip.performance(mix, each).mean()), cores)],
        LEAST: [least(lambda each: -float(chip.kept(mix, each).mean()), calm)],
    }
    return {rule: [chip.outcome(mix, each) for each in places] for rule, places in chosen.items()}


def _beyond(one: Scores, other: Scores) -> float:
    """What one tolerates less than the other causes, in points."""
    return sum(max(0.0, other.caused[each] - one.tolerated[each]) for each in one.tolerated)


def _of_pairs(chip: Chip, mix: Sequence[str]) -> tuple[_Cost, _Cost]:
    """Eq. 5.1 over all pairs of a mix, since all share the cache, and interference likewise."""
    pairs = np.array(list(combinations(range(len(mix)), 2)))
    tables = np.array([chip.pair(mix[a], mix[b]) for a, b in pairs])
    numbers = np.arange(len(pairs))

    def cost(kind: int, place: _Place) -> float:
        cores = np.array(place)[pairs]
        return float(tables[numbers, kind, cores[:, 0], cores[:, 1]].sum())

    return partial(cost, 0), partial(cost, 1)


def _slower(chip: Chip, mix: Sequence[str]) -> _Cost:
    """Mean time over that on the best core, both alone, as it was measured."""
    rates = np.array([chip.measured_rates(program) for program in mix])
    times = rates.max(axis=1, keepdims=True) / rates
    numbers = np.arange(len(mix))
    return lambda place: float(times[numbers, list(place)].mean())


def _descend(cost: _Cost, place: _Place) -> _Place:
    """Exchange the cores of two programs while that makes it better."""
    least, better = cost(place), True
    while better:
        better = False
        for a, b in combinations(range(len(place)), 2):
            if place[a] == place[b]:
                continue
            other = list(place)
            other[a], other[b] = place[b], place[a]
            if (found := cost(tuple(other))) < least - 1e-9 * abs(least):
                place, least, better = tuple(other), found, True
    return place


# --- numbers and panels ---------------------------------------------------------------------

_Found = Mapping[str, Sequence[MappingOutcome]]
_RULES = (RANDOM, EQUATION, INTERFERENCE, CORES, BEST, LEAST)


def _numbers(prefix: str, found: Sequence[_Found]) -> Iterator[tuple[str, float]]:
    performance, kept = {}, {}
    for rule in _RULES:
        name = f"{prefix}/{rule}"
        mixes = np.array([_performance(each, rule) for each in found])
        programs = np.array([np.mean([x.kept for x in each[rule]], axis=0) for each in found])
        performance[rule], kept[rule] = float(mixes.mean()), float(programs.mean())
        yield f"{name}/performance", performance[rule]
        yield f"{name}/worst-mix", float(mixes.min())
        yield f"{name}/over-alone-there", kept[rule]
        yield f"{name}/lose-under-a-tenth", float((programs >= _MARGINAL).mean())
        time = np.mean([np.mean([x.time for x in each[rule]], axis=0) for each in found], axis=0)
        for part, share in zip(("core", "cache", "memory"), time, strict=True):
            yield f"{name}/time-{part}", float(share)
    for rule in (EQUATION, INTERFERENCE, CORES):
        gain = (performance[rule] - performance[RANDOM]) / (performance[BEST] - performance[RANDOM])
        yield f"{prefix}/{rule}/gained-of-best", gain
        less = (kept[rule] - kept[RANDOM]) / (kept[LEAST] - kept[RANDOM])
        yield f"{prefix}/{rule}/gained-of-least-interference", less


def _performance(mix: _Found, rule: str) -> float:
    return float(np.mean([each.performance.mean() for each in mix[rule]]))


def _kept(mix: _Found, rule: str) -> float:
    return float(np.mean([each.kept.mean() for each in mix[rule]]))


def _ordered(
    found: Sequence[_Found], of: Callable[[_Found, str], float], rules: Sequence[str]
) -> dict[str, tuple[Array, Array]]:
    """The mixes from worst to best."""
    lines = {}
    for rule in rules:
        values = np.sort([of(each, rule) for each in found])
        lines[rule] = plots.shares(values), values
    return lines


def _picked(found: Sequence[_Found]) -> list[int]:
    """The mixes that gain least, in the middle and most over random mappings."""
    gains = [_performance(each, CORES) - _performance(each, RANDOM) for each in found]
    order = np.argsort(gains).tolist()
    return [order[0], order[len(order) // 2], order[-1]]


def _programs(mixes: Sequence[tuple[Sequence[str], _Found]]) -> Panels:
    """By mix, program and rule, its performance."""
    return {
        f"mix {number}": {
            # A program may be there twice.
            program + " " * place: {
                rule: float(np.mean([each.performance[place] for each in found[rule]]))
                for rule in (RANDOM, INTERFERENCE, CORES, BEST)
            }
            for place, program in enumerate(mix)
        }
        for number, (mix, found) in enumerate(mixes, 1)
    }


def _spent(found: Sequence[_Found]) -> Panels:
    """By mix, before (random) and after, shares of time in percent."""
    names = ("core", "last-level cache", "memory")
    bars = {}
    for number, mix in enumerate(found, 1):
        for letter, rule in (("B", RANDOM), ("A", INTERFERENCE)):
            shares = 100 * np.mean([each.time for each in mix[rule]], axis=0)
            bars[f"{number}{letter}"] = dict(zip(names, shares.tolist(), strict=True))
    return bars


IBENCH_FIGURE59 = GroundTruthStudy(
    name="ibench-figure59",
    about="which core of a chip with unlike ones each program of a mix gets, by eq. 5.1",
    source="dissertation, Figure 5.9 and section 5.5.4: in words",
    measure=look,
    notes=(
        (
            "Isolated is with the chip to itself, on the core that suits the program best. The "
            "optimum of 16 programs is that of a search by exchanges: there are 82 billion "
            "mappings."
        ),
    ),
    pictures=(
        Picture(
            "mixes",
            physics_plots.curves,
            "Mixes on unlike cores, from worst to best",
            {
                "axes_labels": ("mixes (%)", "mean performance"),
                "limits": (0.25, 1.05),
                "legend": "below",
            },
        ),
        Picture(
            "programs",
            physics_plots.grouped,
            "Programs of the mixes that gain least, middle and most",
            {"ylabel": "performance (1 = isolated)"},
        ),
        Picture(
            "cycles",
            physics_plots.stacks,
            "What the time goes into, before (B) and after (A)",
            {"ylabel": "time (%)"},
        ),
    ),
)
