"""iBench's sources against one another, and what they do to mcf and to memcached.

Source: dissertation 5.4, Figures 5.2 to 5.4, and Paragon's Figure 3. The figures' numbers are not
in the text: what is said is that a source takes evenly more of its resource with its intensity,
that two at once hardly disturb each other, that mcf falls early under memory capacity and not at
all under the network, and that memcached answers ever fewer queries in time beside the network's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.base import Arguments, Context, ExperimentResult
from wharfinger.experiments.ground_truth import (
    Fact,
    Numbers,
    at,
    over_seeds,
    regime_of,
    rows_of,
    seeds_of,
)
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import Resident
from wharfinger.simulator.truth.physics.application import Streaming
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES
from wharfinger.simulator.truth.physics.truth import Physics
from wharfinger.simulator.truth.queueing import beyond

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

WITH_SMT, WITHOUT_SMT = "j", "f"
"""The high-end platform of Quasar's Table 1, and an 8-core Nehalem like iBench's own server."""
INTENSITIES = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)
MILD = 0.9
"""Of its rate alone: below, one source disturbs another."""
TOLERANCE = 0.05
MCF, MEMCACHED = "mcf", "memcached"
QUERIES_PER_SECOND, BOUND_SECONDS = 40_000.0, 200e-6
"""What memcached is asked, and how fast it must answer (5.4.2)."""
MEMCACHED_CPUS = 4.0
MEMCACHED_BYTES = 4 * GIB
"""Its server holds it; else memory's source would do nothing but make it page."""
_SENDS = Streaming(1200 / 25_000, 1.0, depth=64.0)
"""Values of a kilobyte: of smaller ones, so many queries take a tenth of the network."""
R = SharedResource
_UTILISATION = {
    R.MEMORY_BANDWIDTH: 0, R.STORAGE_CAPACITY: 2, R.STORAGE_BANDWIDTH: 2, R.NETWORK_BANDWIDTH: 3,
}  # fmt: skip
"""Which of the solver's it is that a source of a bandwidth takes."""
_Pairs = dict[tuple[SharedResource, SharedResource], float]
_Curves = dict[SharedResource, list[float]]


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """What was found in one population.

    Attributes:
        numbers: Those of the table.
        pairs: By platform: the rate that the first keeps beside the second, both at full intensity.
        taken: By source, of its resource at each intensity.
        mcf: By source, performance at each intensity.
        memcached: By source, share of queries answered in time.
    """

    numbers: Numbers
    pairs: Mapping[str, _Pairs]
    taken: _Curves
    mcf: _Curves
    memcached: _Curves


class IbenchFigure54:
    """The experiment."""

    name = "ibench-figure54"
    about = "iBench's sources pairwise, and mcf and memcached beside each"
    source = "dissertation, Figures 5.2 to 5.4; Paragon, Figure 3 (the text has no numbers)"
    takes = frozenset({"regime"})
    repeats = 7

    def check(self, arguments: Arguments) -> None:
        """Refuse a regime that there is not."""
        regime_of(arguments)

    def run(self, context: Context) -> ExperimentResult:
        """All sources on two platforms, beside each other and beside the two programs."""
        regime = regime_of(context.arguments)
        found = over_seeds(context, partial(look, regime))
        return ExperimentResult(
            self.name,
            seeds_of(context.arguments),
            rows_of([each.numbers for each in found], _facts(found[0].numbers)),
            tuple(_notes(regime, found[0])),
            pictures=_pictures(found),
        )


def look(regime: Regime, seed: int) -> Sources:
    """All that is asked of one population."""
    streams = Streams(seed)
    programs = draw_pool(Pool.SINGLE_THREADED, regime, streams)
    services = draw_pool(Pool.MEMCACHED, regime, streams)
    small = [replace(each, footprint_bytes=MEMCACHED_BYTES, network=_SENDS) for each in services]
    truth = Physics(
        [HARDWARE[WITH_SMT], HARDWARE[WITHOUT_SMT]],
        [*programs, *small],
        replace(regime.constants, smt=True),
    )
    pairs = {name: pairwise(truth, HARDWARE[name]) for name in (WITH_SMT, WITHOUT_SMT)}
    mcf = at(truth.applications[MCF], 1.0)
    asked = at(truth.applications[MEMCACHED], MEMCACHED_CPUS, load_per_second=QUERIES_PER_SECOND)
    taken = {each: list(_taken(truth, each)) for each in R if each not in CORE_SOURCES}
    falls = _curves(truth, mcf, partial(_rate, truth, mcf))
    in_time = _curves(truth, asked, partial(_in_time, truth, asked))
    numbers = dict(_numbers(pairs, taken, falls, in_time))
    return Sources(numbers, pairs, taken, falls, in_time)


# --- sources beside one another -------------------------------------------------------------


def pairwise(truth: Physics, hardware: Hardware) -> _Pairs:
    """The rate that each keeps beside each, both at full intensity, over its rate alone."""
    found: _Pairs = {}
    known = [each for each in R if _source(truth, hardware, each) is not None]
    for number, one in enumerate(known):
        for other in known[number:]:
            both = _together(truth, hardware, one, other)
            kept = _does(truth, hardware, both)
            alone = [_does(truth, hardware, [replace(each, core_of="")])[0] for each in both]
            found[one, other], found[other, one] = (
                now / before for now, before in zip(kept, alone, strict=True)
            )
    return found


def _together(
    truth: Physics, hardware: Hardware, one: SharedResource, other: SharedResource
) -> list[Resident]:
    """On the same cores, where it is the cores that a source presses on."""
    if one in CORE_SOURCES and other not in CORE_SOURCES:
        return _together(truth, hardware, other, one)[::-1]
    first = _source(truth, hardware, one)
    assert first is not None
    second = truth.source(hardware.name, other, 100.0, first)
    assert second is not None
    return [first, second]


def _source(truth: Physics, hardware: Hardware, resource: SharedResource) -> Resident | None:
    nobody = Resident("", float(MILLICPUS_PER_CPU), 0)
    found = truth.source(hardware.name, resource, 100.0, nobody)
    return replace(found, core_of="") if found else None


def _does(truth: Physics, hardware: Hardware, residents: Sequence[Resident]) -> list[float]:
    """Rates, where a source does no more than its intensity says."""
    return [
        could if each.load_per_second is None else min(could, each.load_per_second)
        for each, could in zip(residents, truth.rates(hardware.name, residents), strict=True)
    ]


def _taken(truth: Physics, resource: SharedResource) -> Iterator[float]:
    """Of its resource on a server to itself, at each intensity."""
    hardware = HARDWARE[WITH_SMT]
    nobody = Resident("", float(MILLICPUS_PER_CPU), 0)
    for intensity in INTENSITIES:
        source = truth.source(hardware.name, resource, intensity, nobody)
        assert source is not None
        if resource is R.MEMORY_CAPACITY:
            yield source.memory_bytes / hardware.memory_bytes
        elif resource is R.LAST_LEVEL_CACHE:
            yield source.memory_bytes / hardware.llc_bytes
        else:
            yield truth.utilisation(hardware.name, [source])[_UTILISATION[resource]]


# --- programs beside sources ----------------------------------------------------------------


def _curves(
    truth: Physics, program: Resident, performance: "Callable[[list[Resident]], float]"
) -> _Curves:
    """Performance at each intensity of each source, over that with no source."""
    best = performance([])
    found: _Curves = {}
    for resource in R:
        beside = [truth.source(WITH_SMT, resource, x, program) for x in INTENSITIES]
        found[resource] = [performance([each]) / best for each in beside if each is not None]
    return found


def _rate(truth: Physics, program: Resident, beside: list[Resident]) -> float:
    return truth.rates(WITH_SMT, [program, *beside])[0]


def _in_time(truth: Physics, service: Resident, beside: list[Resident]) -> float:
    """Share of the queries that are answered within the bound."""
    could = truth.rates(WITH_SMT, [service, *beside])[0]
    load = QUERIES_PER_SECOND / could
    if load >= 1:
        return 0.0
    units = BOUND_SECONDS * could / MEMCACHED_CPUS
    variation = truth.queue(service.application).variation
    return 1 - beyond(load, MEMCACHED_CPUS, variation, units)


def tolerated(curve: Sequence[float]) -> float:
    """The intensity at which so much is lost, between those that were tried; 100 = never."""
    for number, value in enumerate(curve):
        if value < 1 - TOLERANCE:
            if number == 0:
                return 0.0
            before, lower = curve[number - 1], INTENSITIES[number - 1]
            part = (before - (1 - TOLERANCE)) / (before - value)
            return lower + part * (INTENSITIES[number] - lower)
    return 100.0


# --- what is shown --------------------------------------------------------------------------


def _numbers(
    pairs: Mapping[str, _Pairs], taken: _Curves, mcf: _Curves, memcached: _Curves
) -> Iterator[tuple[str, float]]:
    for platform, found in pairs.items():
        # Two of a kind want the same; what is asked is whether others stay out of it.
        values = np.array([kept for (one, other), kept in found.items() if one is not other])
        yield f"pairs/{platform}/median", float(np.median(values))
        yield f"pairs/{platform}/below-{MILD}", float((values < MILD).mean())
    capacity, bandwidth = R.MEMORY_CAPACITY, R.MEMORY_BANDWIDTH
    without = pairs[WITHOUT_SMT]
    yield "pairs/memory-bandwidth-beside-capacity", without[bandwidth, capacity]
    yield "pairs/memory-capacity-beside-bandwidth", without[capacity, bandwidth]
    for each, values_taken in taken.items():
        curve = np.array(values_taken)
        line = np.array(INTENSITIES) / 100 * curve[-1]
        yield f"linear/{each}/furthest", float(abs(curve - line).max() / curve[-1])
    for resource in (capacity, R.LAST_LEVEL_CACHE, bandwidth, R.NETWORK_BANDWIDTH):
        yield f"mcf/{resource}/at-50", mcf[resource][INTENSITIES.index(50.0)]
        yield f"mcf/{resource}/at-100", mcf[resource][-1]
        yield f"mcf/{resource}/tolerated", tolerated(mcf[resource])
    for resource in (R.NETWORK_BANDWIDTH, R.LAST_LEVEL_CACHE, bandwidth):
        yield f"memcached/{resource}/in-time-at-100", memcached[resource][-1]
    zero = [curve[0] for curves in (mcf, memcached) for curve in curves.values() if curve]
    yield "beside-a-source-at-0/worst", min(zero)


def _facts(numbers: Numbers) -> Iterator[Fact]:
    for name in numbers:
        yield Fact(name, "intensity" if name.endswith("/tolerated") else "fraction")


def _notes(regime: Regime, found: Sources) -> Iterator[str]:
    yield f"Regime {regime.name}; {WITH_SMT} has hardware threads here whatever the regime says."
    for platform, pairs in found.pairs.items():
        missed = sorted(
            (value, one, other) for (one, other), value in pairs.items() if one is not other
        )
        told = "; ".join(
            f"{one} beside {other} {value:.2f}" for value, one, other in missed if value < MILD
        )
        yield (
            f"On {platform}, of sources of different resources, these keep less than {MILD}: "
            f"{told or 'none'}."
        )
    yield (
        "Sources of a core do the same to one another and to whoever shares it; they exist only "
        "where threads share cores. Memory's and the last-level cache's wait for one memory, and "
        "together they have more threads than an 8-core server."
    )


def _pictures(found: Sequence[Sources]) -> "dict[str, Callable[[], Figure]]":
    first = found[0]
    return {
        "sources-pairwise": partial(
            physics_plots.matrices,
            {_of_platform(name): _square(pairs) for name, pairs in first.pairs.items()},
            "What a source keeps beside another, both at full intensity",
        ),
        "sources-linear": partial(
            physics_plots.curves,
            {
                "of its resource, at each intensity": {
                    str(name): (INTENSITIES, np.array(values) * 100)
                    for name, values in first.taken.items()
                }
            },
            "What a source takes",
            ("intensity (%)", "taken (%)"),
        ),
        "sensitivity": partial(
            physics_plots.curves,
            {
                "mcf: performance (%)": _mean_curves([each.mcf for each in found], _SHOWN),
                "memcached: answered in 200 µs (%)": _mean_curves(
                    [each.memcached for each in found],
                    (R.NETWORK_BANDWIDTH, R.MEMORY_BANDWIDTH),
                ),
            },
            "Two programs beside sources of interference",
            ("intensity of the source (%)", ""),
            limits=(0.0, 112.0),
        ),
    }


_SHOWN = (
    R.NETWORK_BANDWIDTH, R.INTEGER, R.LAST_LEVEL_CACHE, R.MEMORY_CAPACITY, R.MEMORY_BANDWIDTH,
)  # fmt: skip


def _mean_curves(
    found: Sequence[_Curves], shown: Sequence[SharedResource]
) -> "dict[str, physics_plots.Curve]":
    return {
        str(each): (INTENSITIES, 100 * np.mean([curves[each] for curves in found], axis=0))
        for each in shown
        if found[0][each]
    }


def _of_platform(name: str) -> str:
    hardware = HARDWARE[name]
    kind = "hardware threads" if hardware.smt else "whole cores"
    return f"{hardware.cores} CPUs, {kind}"


def _square(pairs: _Pairs) -> "physics_plots.Square":
    names = list(dict.fromkeys(one for one, _ in pairs))
    values = np.array([[pairs[one, other] for other in names] for one in names])
    return [str(name) for name in names], [str(name) for name in names], values
