"""Programs and services beside iBench's sources: what its experiments on the physics share.

Source: dissertation 5.3 and 5.4. Its server is a dual-socket 8-core Nehalem.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from wharfinger.experiments.ground_truth import at, draw_programs
from wharfinger.interference.bubble import falling
from wharfinger.model.interference import SharedResource
from wharfinger.native import beyond
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application, Streaming
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import GIB
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.solver import latency
from wharfinger.simulator.truth.physics.truth import Physics

WITH_SMT, WITHOUT_SMT = "j", "f"
"""The high-end platform of Quasar's Table 1, and an 8-core Nehalem like iBench's own server."""
INTENSITIES = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)
TOLERANCE = 0.05
QUERIES_PER_SECOND, BOUND_SECONDS = 40_000.0, 200e-6
"""Load and latency bound of memcached (5.4.2)."""
MEMCACHED_CPUS = 4.0
_MEMCACHED_BYTES = 4 * GIB  # its server has room for it; else memory's source only makes it page
_VALUE_BYTES, _DEPTH = 1200, 64.0
"""Of a kilobyte: with smaller ones, this load takes a tenth of the network."""
_NETWORK = 3
"""Index in the solver's utilisations."""
_WAITS = 100
"""Pieces into which waits for the network are cut."""


def world(regime: Regime, seed: int) -> Physics:
    """The single-threaded programs and a memcached on both platforms."""
    programs = draw_programs([Pool.SINGLE_THREADED], regime, seed)
    services = draw_programs([Pool.MEMCACHED], regime, seed)
    small = [
        replace(each, footprint_bytes=_MEMCACHED_BYTES, network=_values(each)) for each in services
    ]
    hardware = [HARDWARE[WITH_SMT], HARDWARE[WITHOUT_SMT]]
    return Physics(hardware, [*programs, *small], replace(regime.constants, smt=True))


def _values(service: Application) -> Streaming:
    return Streaming(_VALUE_BYTES / service.query_instructions, 1.0, depth=_DEPTH)


def asked_memcached(truth: Physics) -> TrueResident:
    """At the published load."""
    service = truth.applications["memcached"]
    return at(service, MEMCACHED_CPUS, load_per_second=QUERIES_PER_SECOND)


def sources_beside(
    truth: Physics, platform: str, resource: SharedResource, program: TrueResident
) -> Iterator[TrueResident]:
    """A source at each of ``INTENSITIES``; none where the platform has no such source."""
    for intensity in INTENSITIES:
        source = truth.source(platform, resource, intensity, program)
        if source is not None:
            yield source


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


def goodput(truth: Physics, platform: str, group: Sequence[TrueResident]) -> float:
    """Share of the queries of a group's first, memcached, that are answered within the bound.

    A query waits for a worker, as in all experiments, and here for the network as well: a full
    device's latency is that of each of the requests under way, while the rates of the physics count
    what is left of it between requests that overlap. The wait beyond the idle network's time has an
    exponential distribution, as in a queue with one server.
    """
    service = group[0]
    could = truth.rates(platform, group)[0]
    load = QUERIES_PER_SECOND / could
    if load >= 1:
        return 0.0
    idle = _VALUE_BYTES / (truth.hardware[platform].network_bandwidth * 1e9)
    longer = latency(_NETWORK, truth.utilisation(platform, group)[_NETWORK]) - 1
    parts = (np.arange(_WAITS) + 0.5) / _WAITS
    waits = idle - idle * longer * np.log1p(-parts)
    variation = truth.queue(service.application).variation
    late = [
        beyond(load, MEMCACHED_CPUS, variation, left * could / MEMCACHED_CPUS) if left > 0 else 1.0
        for left in (BOUND_SECONDS - waits).tolist()
    ]
    return 1 - float(np.mean(late))


def bandwidth_share(truth: Physics, platform: str, group: Sequence[TrueResident]) -> float:
    """Of the network, what the first could have while its requests wait with the others'."""
    could = truth.rates(platform, group)[0]
    return min(1.0, could * _VALUE_BYTES / (truth.hardware[platform].network_bandwidth * 1e9))


def smoothed(curve: Sequence[float]) -> list[float]:
    """The falling curve nearest to a noisy one."""
    values = np.asarray(curve, dtype=np.float64)
    return list(falling(values, np.ones(len(values))).tolist())
