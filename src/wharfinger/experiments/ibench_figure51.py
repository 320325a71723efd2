"""iBench's Figure 5.1: pressure on memory's capacity and bandwidth, of all kinds of applications.

Source: dissertation 5.1: single-threaded and multithreaded suites, mixes, Hadoop, memcached and a
data base, as measured by iBench, over what the server has; the size of a bubble is that of the job.
The text has no numbers but that demands vary widely.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    at,
    draw_programs,
)
from wharfinger.experiments.ibench_sources import WITHOUT_SMT
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.cluster.injection import Probes
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

R = SharedResource
_HARDWARE = HARDWARE[WITHOUT_SMT]
_KINDS = {
    "single-threaded": Pool.SINGLE_THREADED,
    "multithreaded": Pool.MULTITHREADED,
    "mixes": Pool.MIXES,
    "Hadoop": Pool.HADOOP,
    "memcached": Pool.MEMCACHED,
    "data base": Pool.CASSANDRA,
}
_MOST = 40
"""Of a pool."""
_LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Over what a service can answer, one bubble for each: its clients."""
_SERVICE_CPUS = 4.0
_CLIENTS_PER_BUBBLE = 10.0
"""The size of a service's bubble at all that it can answer, in tasks of other jobs."""
_HEAVY = 50.0
_PROBE = 100.0
"""Intensity of the source that is slowed. At half of it, as profiling has it, what takes less than
half of memory does not show: both are held."""


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """Of one job, in percent of the server's: as iBench measures it, and as it is."""

    capacity: float
    bandwidth: float
    footprint: float
    used: float
    size: float


def look(regime: Regime, seed: int, most: int = _MOST) -> StudyFindings:
    """All jobs of one population, with at most so many of a pool."""
    pools = {kind: draw_programs([pool], regime, seed, most) for kind, pool in _KINDS.items()}
    truth = Physics(
        [_HARDWARE], [each for pool in pools.values() for each in pool], regime.constants
    )
    probes = Probes(truth)
    found = {
        kind: [
            _demand(truth, probes, job, size)
            for program in pool
            for job, size in _jobs(truth, program.name)
        ]
        for kind, pool in pools.items()
    }
    measured = {kind: _columns(each, "capacity", "bandwidth") for kind, each in found.items()}
    real = {kind: _columns(each, "footprint", "used") for kind, each in found.items()}
    return StudyFindings(
        dict(_numbers(found)),
        {"memory": {"as iBench measures it": measured, "as it is": real}},
    )


def _jobs(truth: Physics, name: str) -> Iterator[tuple[TrueResident, float]]:
    """What runs of an application, each with its number of tasks."""
    application = truth.applications[name]
    if application.serving is None:
        yield at(application, min(application.threads, _HARDWARE.cores)), application.threads
        return
    idle = at(application, _SERVICE_CPUS, load_per_second=0.0)
    could = truth.alone(WITHOUT_SMT, idle)
    for load in _LOADS:
        yield replace(idle, load_per_second=load * could), load * _CLIENTS_PER_BUBBLE


def _demand(truth: Physics, probes: Probes, job: TrueResident, size: float) -> MemoryDemand:
    return MemoryDemand(
        _caused(truth, probes, job, R.MEMORY_CAPACITY),
        _caused(truth, probes, job, R.MEMORY_BANDWIDTH),
        100 * min(1.0, job.memory_bytes / _HARDWARE.memory_bytes),
        100 * truth.utilisation(WITHOUT_SMT, [job])[0],
        size,
    )


def _caused(truth: Physics, probes: Probes, job: TrueResident, resource: SharedResource) -> float:
    """The intensity at which the source slows a like one as much as the job does."""
    probe = truth.source(WITHOUT_SMT, resource, _PROBE, job)
    assert probe is not None
    kept = truth.rates(WITHOUT_SMT, [job, probe])[1] / probes.alone(WITHOUT_SMT, probe)
    return probes.caused(WITHOUT_SMT, resource, job, [kept], 0.0, _PROBE).value


def _columns(demands: Sequence[MemoryDemand], *names: str) -> tuple[Array, Array, Array]:
    along, up, size = (
        np.array([getattr(each, name) for each in demands]) for name in (*names, "size")
    )
    return along, up, size


def _numbers(found: Mapping[str, Sequence[MemoryDemand]]) -> Iterator[tuple[str, float]]:
    for kind, demands in found.items():
        for name in ("capacity", "bandwidth", "footprint", "used"):
            values = [getattr(each, name) for each in demands]
            yield f"{kind}/{name}/median", float(np.median(values))
            yield f"{kind}/{name}/largest", float(np.max(values))
    everyone = [each for demands in found.values() for each in demands]
    for measured, real in (("capacity", "footprint"), ("bandwidth", "used")):
        pairs = np.array([[getattr(each, measured), getattr(each, real)] for each in everyone])
        yield f"{measured}/rank-correlation", _rank_correlation(pairs[:, 0], pairs[:, 1])
        yield f"{measured}/over-{_HEAVY:g}", float((pairs[:, 0] > _HEAVY).mean())


def _rank_correlation(one: Array, other: Array) -> float:
    """Spearman's, ties by their mean rank."""
    ranks = []
    for values in (one, other):
        _, place, count = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(count) - (count - 1) / 2)[place])
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


IBENCH_FIGURE51 = GroundTruthStudy(
    name="ibench-figure51",
    about="pressure on memory's capacity and bandwidth of all kinds of applications",
    source="dissertation, Figure 5.1 and section 5.1: in words",
    measure=look,
    units={"*-correlation": "correlation", "*/over-*": "fraction", "*": "% of the server"},
    notes=(
        (
            f"Platform {WITHOUT_SMT}, a dual-socket 8-core Nehalem with 24 GB. As iBench measures "
            "it: the source's intensity that slows another at full intensity as much as the job "
            "does. As it is: footprint and use of the bandwidth, alone."
        ),
        "MySQL is not in the populations; cassandra stands for a data base.",
    ),
    pictures=(
        Picture(
            "memory",
            physics_plots.bubbles,
            "Memory's capacity and bandwidth",
            {"axes_labels": ("capacity (%)", "bandwidth (%)")},
        ),
    ),
)
