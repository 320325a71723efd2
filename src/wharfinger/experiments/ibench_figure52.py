"""iBench's Figure 5.2: what each source takes of its resource, by its intensity.

Source: dissertation 5.4.1, which has no numbers: all are almost linear, and of these the integer
and floating-point units' deviate slightly. ``--tables`` names a directory with what
``wharfinger ibench validate -o json`` printed, and draws those beside.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings, mean_curve
from wharfinger.experiments.ibench_sources import INTENSITIES, WITH_SMT, world
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES
from wharfinger.simulator.truth.physics.truth import Physics

R = SharedResource
UTILISATION = {
    R.MEMORY_BANDWIDTH: 0, R.LAST_LEVEL_CACHE_BANDWIDTH: 1, R.INTERCONNECT: 1,
    R.STORAGE_CAPACITY: 2, R.STORAGE_BANDWIDTH: 2, R.NETWORK_BANDWIDTH: 3,
}  # fmt: skip
"""Index in the solver's utilisations, by source."""
_ALONE = TrueResident("", float(MILLICPUS_PER_CPU), 0)
_Curves = Mapping[str, Array]


def look(regime: Regime, seed: int) -> StudyFindings:
    """All sources of one population on the platform with hardware threads."""
    truth = world(regime, seed)
    taken = {str(each): np.array(list(_taken(truth, each))) for each in R}
    return StudyFindings(
        dict(_numbers("", taken, np.array(INTENSITIES))), _drawn("_simulated", taken)
    )


def _taken(truth: Physics, resource: SharedResource) -> Iterator[float]:
    """Of its resource: room, bandwidth, or what a like neighbor on the core lacks of it."""
    hardware = HARDWARE[WITH_SMT]
    room = {R.MEMORY_CAPACITY: hardware.memory_bytes, R.LAST_LEVEL_CACHE: hardware.llc_bytes}
    for intensity in INTENSITIES:
        source = truth.source(WITH_SMT, resource, intensity, _ALONE)
        assert source is not None
        if resource in room:
            yield source.memory_bytes / room[resource]
        elif resource in CORE_SOURCES:
            yield _lacked(truth, resource, intensity)
        else:
            yield truth.utilisation(WITH_SMT, [source])[UTILISATION[resource]]


def _lacked(truth: Physics, resource: SharedResource, intensity: float) -> float:
    """Time that a like source at full intensity takes longer, over that beside another such."""
    full = truth.source(WITH_SMT, resource, 100.0, _ALONE)
    assert full is not None
    probe = TrueResident(full.application, full.cpu_millicpus, full.memory_bytes)
    alone = truth.alone(WITH_SMT, probe)

    def longer(level: float) -> float:
        source = truth.source(WITH_SMT, resource, level, probe)
        assert source is not None
        return alone / truth.rates(WITH_SMT, [probe, source])[0] - 1

    return longer(intensity) / longer(100.0)


def _numbers(prefix: str, taken: _Curves, asked: Array) -> Iterator[tuple[str, float]]:
    for name, values in taken.items():
        line = asked / 100 * values[-1]
        yield f"{prefix}{name}/at-100", float(values[-1])
        yield f"{prefix}{name}/furthest", float(abs(values - line).max() / values[-1])
        yield f"{prefix}{name}/r-squared", float(np.corrcoef(asked, values)[0, 1] ** 2)


def _drawn(
    label: str, taken: _Curves, asked: Sequence[float] = INTENSITIES
) -> Mapping[str, Mapping[str, Mapping[str, tuple[Sequence[float], Array]]]]:
    return {"linear": {name: {label: (asked, 100 * each)} for name, each in taken.items()}}


def read(paths: Sequence[Path]) -> Callable[[int], StudyFindings]:
    """Draws what ``ibench validate -o json`` found, of each file the sources that were there."""
    taken: dict[str, Array] = {}
    asked: tuple[float, ...] = ()
    for path in paths:
        try:
            for source in json.loads(path.read_text())["sources"]:
                points = source["points"] or ()
                if len(points) > 1 and source["name"] in list(R):
                    asked = tuple(float(point["intensity"]) for point in points)
                    taken[source["name"]] = np.array([float(p["achieved"]) / 100 for p in points])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"--tables: {str(path)!r} is not what `wharfinger ibench validate -o json` prints "
                f"({error!r}); print it again"
            ) from None

    def look_at(_seed: int) -> StudyFindings:
        found = dict(_numbers("live/", taken, np.array(asked)))
        return StudyFindings(found, _drawn("measured", taken, asked))

    return look_at


IBENCH_FIGURE52 = GroundTruthStudy(
    name="ibench-figure52",
    about="what each source takes of its resource, by its intensity; measured ones beside",
    source="dissertation, Figure 5.2 and section 5.4.1: in words",
    measure=look,
    notes=(
        f"Platform {WITH_SMT} with hardware threads, whatever the regime says.",
        (
            "Capacities are footprints, bandwidths are what the solver says of the device, "
            "and sources of a core are told by what a like source on the other thread loses."
        ),
    ),
    tables=read,
    files=("*.json", "files that `wharfinger ibench validate -o json` printed"),
    pictures=(
        Picture(
            "linear",
            physics_plots.curves,
            "What a source takes of its resource",
            {
                "axes_labels": ("intensity (%)", "taken (%)"),
                "limits": (0.0, 112.0),
                "columns": 4,
            },
            mean_curve,
        ),
    ),
)
