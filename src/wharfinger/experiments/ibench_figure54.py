"""iBench's Figure 5.4: sources of interference beside one another.

Source: dissertation 5.4.3. Without numbers, it says that two at once hardly disturb each other, and
shows memory's two, whose losses it calls mild.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    mean_curve,
)
from wharfinger.experiments.ibench_sources import INTENSITIES, WITH_SMT, WITHOUT_SMT, world
from wharfinger.experiments.plots import Curve
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES
from wharfinger.simulator.truth.physics.truth import Physics

MILD = 0.9
"""Of its rate alone: below, one source disturbs another."""
R = SharedResource
_ALONE = TrueResident("", float(MILLICPUS_PER_CPU), 0)
_Pairs = dict[tuple[SharedResource, SharedResource], float]


def look(regime: Regime, seed: int) -> StudyFindings:
    """All pairs of one population on both platforms, and memory's two at each intensity."""
    truth = world(regime, seed)
    pairs = {name: pairwise(truth, HARDWARE[name]) for name in (WITH_SMT, WITHOUT_SMT)}
    memory = _memory(truth, HARDWARE[WITHOUT_SMT])
    return StudyFindings(
        dict(_numbers(pairs)),
        {
            "sources-pairwise": {_of_platform(name): _square(each) for name, each in pairs.items()},
            "sources-of-memory": memory,
        },
    )


def pairwise(truth: Physics, hardware: Hardware) -> _Pairs:
    """The rate of each beside each, both at full intensity, over its rate alone."""
    kept: _Pairs = {}
    resources = [each for each in R if truth.source(hardware.name, each, 100.0, _ALONE)]
    for number, one in enumerate(resources):
        for other in resources[number:]:
            both = _together(truth, hardware, one, other)
            kept[one, other], kept[other, one] = _kept(truth, hardware, both)
    return kept


def _together(
    truth: Physics,
    hardware: Hardware,
    one: SharedResource,
    other: SharedResource,
    intensity: float = 100.0,
) -> list[TrueResident]:
    if one in CORE_SOURCES and other not in CORE_SOURCES:
        return _together(truth, hardware, other, one, intensity)[::-1]
    first = truth.source(hardware.name, one, intensity, _ALONE)
    assert first is not None
    first = replace(first, core_of="")
    second = truth.source(hardware.name, other, intensity, first)
    assert second is not None
    return [first, second]


def _kept(truth: Physics, hardware: Hardware, both: Sequence[TrueResident]) -> list[float]:
    alone = [_rates(truth, hardware, [replace(each, core_of="")])[0] for each in both]
    rates = _rates(truth, hardware, both)
    return [now / before for now, before in zip(rates, alone, strict=True)]


def _rates(truth: Physics, hardware: Hardware, residents: Sequence[TrueResident]) -> list[float]:
    return [
        could if each.load_per_second is None else min(could, each.load_per_second)
        for each, could in zip(residents, truth.rates(hardware.name, residents), strict=True)
    ]


def _memory(truth: Physics, hardware: Hardware) -> dict[str, dict[str, Curve]]:
    """Of memory's two, both at each intensity: what each takes, and its rate over that alone."""
    both = R.MEMORY_CAPACITY, R.MEMORY_BANDWIDTH
    taken: dict[str, list[float]] = {str(each): [] for each in both}
    kept: dict[str, list[float]] = {str(each): [] for each in both}
    for intensity in INTENSITIES:
        pair = _together(truth, hardware, *both, intensity)
        capacity, bandwidth = _kept(truth, hardware, pair)
        kept["memory-capacity"].append(capacity)
        kept["memory-bandwidth"].append(bandwidth)
        taken["memory-capacity"].append(pair[0].memory_bytes / hardware.memory_bytes)
        taken["memory-bandwidth"].append(intensity / 100 * bandwidth)
    return {
        panel: {name: (INTENSITIES, 100 * np.array(each)) for name, each in curves.items()}
        for panel, curves in (("reached intensity (%)", taken), ("rate over alone (%)", kept))
    }


def _numbers(pairs: Mapping[str, _Pairs]) -> Iterator[tuple[str, float]]:
    for platform, kept in pairs.items():
        values = np.array([value for (one, other), value in kept.items() if one is not other])
        yield f"pairs/{platform}/median", float(np.median(values))
        yield f"pairs/{platform}/below-{MILD}", float((values < MILD).mean())
    capacity, bandwidth = R.MEMORY_CAPACITY, R.MEMORY_BANDWIDTH
    yield "pairs/memory-bandwidth-beside-capacity", pairs[WITHOUT_SMT][bandwidth, capacity]
    yield "pairs/memory-capacity-beside-bandwidth", pairs[WITHOUT_SMT][capacity, bandwidth]


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
    about="iBench's sources beside one another",
    source="dissertation, Figure 5.4 and section 5.4.3: in words",
    measure=look,
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
            "sources-of-memory",
            physics_plots.curves,
            "Memory's two sources at once",
            {
                "axes_labels": ("intensity of both (%)", ""),
                "limits": (0.0, 112.0),
                "legend": "lower right",
            },
            mean_curve,
        ),
    ),
)
