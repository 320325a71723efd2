"""iBench's sources against one another, and what they do to mcf and to memcached.

Source: dissertation 5.4, Figures 5.2 to 5.4, and Paragon's Figure 3. Without numbers, it says that
a source takes evenly more of its resource with its intensity, that two at once hardly disturb each
other, that mcf slows early under memory capacity and not at all under the network, and that
memcached answers ever fewer queries in time under the network's source.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
)
from wharfinger.experiments.plots import Curve
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.native import beyond
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Streaming
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES, MODELLED
from wharfinger.simulator.truth.physics.truth import Physics

WITH_SMT, WITHOUT_SMT = "j", "f"
"""The high-end platform of Quasar's Table 1, and an 8-core Nehalem like iBench's own server."""
INTENSITIES = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)
MILD = 0.9
"""Of its rate alone: below, one source disturbs another."""
TOLERANCE = 0.05
QUERIES_PER_SECOND, BOUND_SECONDS = 40_000.0, 200e-6
"""Load and latency bound of memcached (5.4.2)."""
MEMCACHED_CPUS = 4.0
MEMCACHED_BYTES = 4 * GIB
"""Its server has room for it; else memory's source would only make it page."""
_VALUES = Streaming(1200 / 25_000, 1.0, depth=64.0)
"""Of a kilobyte: with smaller ones, this load takes a tenth of the network."""
R = SharedResource
_UTILISATION = {
    R.MEMORY_BANDWIDTH: 0, R.STORAGE_CAPACITY: 2, R.STORAGE_BANDWIDTH: 2, R.NETWORK_BANDWIDTH: 3,
}  # fmt: skip
"""Index in the solver's utilisations, by source."""
_SHOWN = (
    R.NETWORK_BANDWIDTH, R.INTEGER, R.LAST_LEVEL_CACHE, R.MEMORY_CAPACITY, R.MEMORY_BANDWIDTH,
)  # fmt: skip
_ALONE = TrueResident("", float(MILLICPUS_PER_CPU), 0)
_Pairs = dict[tuple[SharedResource, SharedResource], float]
_Curves = dict[SharedResource, list[float]]


def world(regime: Regime, seed: int) -> Physics:
    """The single-threaded programs and a memcached on both platforms."""
    programs = draw_programs([Pool.SINGLE_THREADED], regime, seed)
    services = draw_programs([Pool.MEMCACHED], regime, seed)
    small = [replace(each, footprint_bytes=MEMCACHED_BYTES, network=_VALUES) for each in services]
    hardware = [HARDWARE[WITH_SMT], HARDWARE[WITHOUT_SMT]]
    return Physics(hardware, [*programs, *small], replace(regime.constants, smt=True))


def look(regime: Regime, seed: int) -> StudyFindings:
    """All measurements of one population."""
    truth = world(regime, seed)
    pairs = {name: pairwise(truth, HARDWARE[name]) for name in (WITH_SMT, WITHOUT_SMT)}
    taken = {each: list(_taken(truth, each)) for each in MODELLED if each not in CORE_SOURCES}
    mcf = at(truth.applications["mcf"], 1.0)
    memcached = truth.applications["memcached"]
    service = at(memcached, MEMCACHED_CPUS, load_per_second=QUERIES_PER_SECOND)
    slowed = _curves(truth, mcf, partial(_rate, truth, mcf))
    in_time = _curves(truth, service, partial(_in_time, truth, service))
    late = (R.NETWORK_BANDWIDTH, R.MEMORY_BANDWIDTH)
    return StudyFindings(
        dict(_numbers(pairs, taken, slowed, in_time)),
        {
            "sources-pairwise": {_of_platform(name): _square(each) for name, each in pairs.items()},
            "sources-linear": {"of its resource, at each intensity": _percent(taken, taken)},
            "sensitivity": {
                "mcf: performance (%)": _percent(slowed, _SHOWN),
                "memcached: answered in 200 µs (%)": _percent(in_time, late),
            },
        },
    )


# --- pairs of sources -----------------------------------------------------------------------


def pairwise(truth: Physics, hardware: Hardware) -> _Pairs:
    """The rate of each beside each, both at full intensity, over its rate alone."""
    kept: _Pairs = {}
    resources = [each for each in R if truth.source(hardware.name, each, 100.0, _ALONE)]
    for number, one in enumerate(resources):
        for other in resources[number:]:
            both = _together(truth, hardware, one, other)
            rates = _rates(truth, hardware, both)
            alone = [_rates(truth, hardware, [replace(each, core_of="")])[0] for each in both]
            kept[one, other], kept[other, one] = (
                now / before for now, before in zip(rates, alone, strict=True)
            )
    return kept


def _together(
    truth: Physics, hardware: Hardware, one: SharedResource, other: SharedResource
) -> list[TrueResident]:
    if one in CORE_SOURCES and other not in CORE_SOURCES:
        return _together(truth, hardware, other, one)[::-1]
    first = truth.source(hardware.name, one, 100.0, _ALONE)
    assert first is not None
    first = replace(first, core_of="")
    second = truth.source(hardware.name, other, 100.0, first)
    assert second is not None
    return [first, second]


def _rates(truth: Physics, hardware: Hardware, residents: Sequence[TrueResident]) -> list[float]:
    return [
        could if each.load_per_second is None else min(could, each.load_per_second)
        for each, could in zip(residents, truth.rates(hardware.name, residents), strict=True)
    ]


def _taken(truth: Physics, resource: SharedResource) -> Iterator[float]:
    hardware = HARDWARE[WITH_SMT]
    room = {R.MEMORY_CAPACITY: hardware.memory_bytes, R.LAST_LEVEL_CACHE: hardware.llc_bytes}
    for intensity in INTENSITIES:
        source = truth.source(hardware.name, resource, intensity, _ALONE)
        assert source is not None
        if resource in room:
            yield source.memory_bytes / room[resource]
        else:
            yield truth.utilisation(hardware.name, [source])[_UTILISATION[resource]]


# --- programs with sources ------------------------------------------------------------------


def _curves(
    truth: Physics, program: TrueResident, performance: Callable[[list[TrueResident]], float]
) -> _Curves:
    best = performance([])
    curves: _Curves = {}
    for resource in R:
        beside = [truth.source(WITH_SMT, resource, x, program) for x in INTENSITIES]
        curves[resource] = [performance([each]) / best for each in beside if each is not None]
    return curves


def _rate(truth: Physics, program: TrueResident, beside: list[TrueResident]) -> float:
    return truth.rates(WITH_SMT, [program, *beside])[0]


def _in_time(truth: Physics, service: TrueResident, beside: list[TrueResident]) -> float:
    could = _rate(truth, service, beside)
    load = QUERIES_PER_SECOND / could
    if load >= 1:
        return 0.0
    units = BOUND_SECONDS * could / MEMCACHED_CPUS
    variation = truth.queue(service.application).variation
    return 1 - beyond(load, MEMCACHED_CPUS, variation, units)


def tolerated(curve: Sequence[float]) -> float:
    """The intensity at which ``TOLERANCE`` is lost, interpolated; 100 = never."""
    below = [number for number, value in enumerate(curve) if value < 1 - TOLERANCE]
    if not below:
        return 100.0
    if (number := below[0]) == 0:
        return 0.0
    before, lower = curve[number - 1], INTENSITIES[number - 1]
    part = (before - (1 - TOLERANCE)) / (before - curve[number])
    return lower + part * (INTENSITIES[number] - lower)


# --- numbers and panels ---------------------------------------------------------------------


def _numbers(
    pairs: Mapping[str, _Pairs], taken: _Curves, mcf: _Curves, memcached: _Curves
) -> Iterator[tuple[str, float]]:
    for platform, kept in pairs.items():
        values = np.array([value for (one, other), value in kept.items() if one is not other])
        yield f"pairs/{platform}/median", float(np.median(values))
        yield f"pairs/{platform}/below-{MILD}", float((values < MILD).mean())
    capacity, bandwidth = R.MEMORY_CAPACITY, R.MEMORY_BANDWIDTH
    yield "pairs/memory-bandwidth-beside-capacity", pairs[WITHOUT_SMT][bandwidth, capacity]
    yield "pairs/memory-capacity-beside-bandwidth", pairs[WITHOUT_SMT][capacity, bandwidth]
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


def _remarks(first: StudyFindings) -> Iterator[str]:
    for platform, (names, _, kept) in first.drawn["sources-pairwise"].items():
        missed = sorted(
            (float(kept[i, j]), one, other)
            for i, one in enumerate(names)
            for j, other in enumerate(names)
            if i != j and kept[i, j] < MILD
        )
        listed = "; ".join(f"{one} beside {other} {value:.2f}" for value, one, other in missed)
        yield (
            f"On {platform}, of sources of different resources, these keep less than {MILD}: "
            f"{listed or 'none'}."
        )


def _percent(curves: _Curves, shown: "Sequence[SharedResource] | _Curves") -> dict[str, Curve]:
    return {
        str(each): (INTENSITIES, 100 * np.array(curves[each])) for each in shown if curves[each]
    }


def _of_platform(name: str) -> str:
    hardware = HARDWARE[name]
    kind = "hardware threads" if hardware.smt else "whole cores"
    return f"{hardware.cores} CPUs, {kind}"


def _square(pairs: _Pairs) -> physics_plots.Square:
    resources = list(dict.fromkeys(one for one, _ in pairs))
    names = [str(each) for each in resources]
    return names, names, np.array([[pairs[one, other] for other in resources] for one in resources])


IBENCH_FIGURE54 = GroundTruthStudy(
    name="ibench-figure54",
    about="iBench's sources pairwise, and mcf and memcached beside each",
    source="dissertation, Figures 5.2 to 5.4; Paragon, Figure 3 (the text has no numbers)",
    measure=look,
    units={"*/tolerated": "intensity"},
    notes=(
        f"Platform {WITH_SMT} has hardware threads here whatever the regime says.",
        (
            "Sources of a core affect one another as they affect programs that share it; they "
            "exist only where threads share cores. Memory's and the last-level cache's wait for "
            "one memory, and together they have more threads than an 8-core server."
        ),
    ),
    remarks=_remarks,
    pictures=(
        Picture(
            "sources-pairwise",
            physics_plots.matrices,
            "What a source keeps beside another, both at full intensity",
        ),
        Picture(
            "sources-linear",
            physics_plots.curves,
            "What a source takes",
            {"axes_labels": ("intensity (%)", "taken (%)")},
        ),
        Picture(
            "sensitivity",
            physics_plots.curves,
            "Two programs beside sources of interference",
            {"axes_labels": ("intensity of the source (%)", ""), "limits": (0.0, 112.0)},
            mean_curve,
        ),
    ),
)
