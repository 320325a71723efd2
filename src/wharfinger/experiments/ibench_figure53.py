"""iBench's Figure 5.3: mcf beside the last-level cache's source, memcached beside the network's.

Source: dissertation 5.4.2, without numbers: mcf slows where its miss rate rises; the share of
memcached's queries that are answered in time falls with its share of the network, and its misses
do not change. Paragon's Figure 3 has mcf beside other sources.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    at,
    mean_curve,
)
from wharfinger.experiments.ibench_sources import (
    INTENSITIES,
    WITH_SMT,
    WITHOUT_SMT,
    asked_memcached,
    bandwidth_share,
    goodput,
    sources_beside,
    tolerated,
    world,
)
from wharfinger.experiments.plots import Curve
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

R = SharedResource
_LOSSES = (R.MEMORY_CAPACITY, R.LAST_LEVEL_CACHE, R.MEMORY_BANDWIDTH, R.NETWORK_BANDWIDTH)
_SHOWN = (
    R.NETWORK_BANDWIDTH, R.INTEGER, R.LAST_LEVEL_CACHE, R.MEMORY_CAPACITY, R.MEMORY_BANDWIDTH,
)  # fmt: skip
_Curves = Mapping[SharedResource, Array]


def look(regime: Regime, seed: int) -> StudyFindings:
    """Both programs of one population on an 8-core Nehalem, and mcf beside all sources."""
    truth = world(regime, seed)
    mcf, misses = _mcf(truth, WITHOUT_SMT, R.LAST_LEVEL_CACHE)
    in_time, share, lines = _memcached(truth, R.NETWORK_BANDWIDTH)
    others = {each: _mcf(truth, WITH_SMT, each)[0] for each in R}
    return StudyFindings(
        dict(_numbers(mcf, misses, in_time, share, lines))
        | dict(_of_others(others))
        | {
            "memcached/memory-bandwidth/in-time-at-100": _memcached(truth, R.MEMORY_BANDWIDTH)[0][
                -1
            ]
        },
        {
            "figure53": {
                f"mcf with {R.LAST_LEVEL_CACHE}: performance (%)": _one(mcf),
                f"mcf with {R.LAST_LEVEL_CACHE}: misses per 1,000": _one(10 * misses),
                f"memcached with {R.NETWORK_BANDWIDTH}: in 200 µs (%)": _one(in_time),
                "memcached: share of the network (%)": _one(share),
            },
            "sensitivity": {
                "mcf: performance (%)": {
                    str(each): (INTENSITIES, 100 * others[each]) for each in _SHOWN
                }
            },
        },
    )


def _mcf(truth: Physics, platform: str, resource: SharedResource) -> tuple[Array, Array]:
    """(intensities,) its rate beside the source over that alone, and misses per instruction."""
    mcf = at(truth.applications["mcf"], 1.0)
    beside = list(sources_beside(truth, platform, resource, mcf))
    alone = truth.alone(platform, mcf)
    kept = [truth.rates(platform, [mcf, each])[0] / alone for each in beside]
    return np.array(kept), np.array([truth.spent(platform, [mcf, x])[0].misses for x in beside])


def _memcached(truth: Physics, resource: SharedResource) -> tuple[Array, Array, Array]:
    """(intensities,) queries in time, its share of the network, misses per instruction."""
    service = asked_memcached(truth)
    groups = [[service, each] for each in sources_beside(truth, WITHOUT_SMT, resource, service)]
    return (
        np.array([goodput(truth, WITHOUT_SMT, group) for group in groups]),
        np.array([bandwidth_share(truth, WITHOUT_SMT, group) for group in groups]),
        np.array([truth.spent(WITHOUT_SMT, group)[0].misses for group in groups]),
    )


def _numbers(
    mcf: Array, misses: Array, in_time: Array, share: Array, lines: Array
) -> Iterator[tuple[str, float]]:
    yield "mcf/last-level-cache/at-100", float(mcf[-1])
    yield "mcf/last-level-cache/tolerated", tolerated(mcf.tolist())
    yield "mcf/misses/at-100-over-alone", float(misses[-1] / misses[0])
    yield "mcf/half-lost-at", _half(mcf.max() - mcf)
    yield "mcf/half-missed-at", _half(misses - misses.min())
    yield "mcf/correlation", float(np.corrcoef(misses, 1 / mcf)[0, 1])
    for at_intensity in (50.0, 60.0, 70.0, 100.0):
        place = INTENSITIES.index(at_intensity)
        yield f"memcached/network-bandwidth/in-time-at-{at_intensity:g}", float(in_time[place])
        yield f"memcached/network-bandwidth/share-at-{at_intensity:g}", float(share[place])
    yield "memcached/network-bandwidth/tolerated", tolerated((in_time / in_time[0]).tolist())
    yield "memcached/misses/at-100-over-alone", float(lines[-1] / lines[0])


def _of_others(curves: _Curves) -> Iterator[tuple[str, float]]:
    for resource in _LOSSES:
        curve = curves[resource].tolist()
        yield f"mcf-on-{WITH_SMT}/{resource}/at-50", curve[INTENSITIES.index(50.0)]
        yield f"mcf-on-{WITH_SMT}/{resource}/at-100", curve[-1]
        yield f"mcf-on-{WITH_SMT}/{resource}/tolerated", tolerated(curve)
    yield "beside-a-source-at-0/worst", min(float(curve[0]) for curve in curves.values())


def _half(lost: Array) -> float:
    """The intensity at which half of what is lost at most is."""
    return float(np.interp(lost[-1] / 2, np.maximum.accumulate(lost), INTENSITIES))


def _one(values: Array) -> dict[str, Curve]:
    return {"_": (INTENSITIES, 100 * values)}


IBENCH_FIGURE53 = GroundTruthStudy(
    name="ibench-figure53",
    about="mcf and its misses beside the last level's source, memcached beside the network's",
    source="dissertation, Figure 5.3 and section 5.4.2; Paragon, Figure 3: in words",
    measure=look,
    units={"*/tolerated": "intensity", "*-at": "intensity", "*-over-alone": "times"},
    notes=(
        (
            f"Figure 5.3 on platform {WITHOUT_SMT}; mcf beside all sources on {WITH_SMT}, which "
            "has hardware threads here whatever the regime says."
        ),
        (
            "The wait of each query for the network is counted here and in no other experiment: "
            "rates count what is left of it between requests that overlap."
        ),
    ),
    pictures=(
        Picture(
            "figure53",
            physics_plots.curves,
            "mcf and memcached beside a source of interference",
            {"axes_labels": ("intensity of the source (%)", ""), "limits": (0.0, 112.0)},
            mean_curve,
        ),
        Picture(
            "sensitivity",
            physics_plots.curves,
            "mcf beside sources of interference",
            {"axes_labels": ("intensity of the source (%)", ""), "limits": (0.0, 112.0)},
            mean_curve,
        ),
    ),
)
