"""The numbers of one application on one platform, as the solver reads them.

Times are in nanoseconds per instruction, rates in instructions per nanosecond.
"""

from dataclasses import dataclass, fields
from hashlib import blake2b
from math import exp, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.application import GRID_BYTES, Application, Streaming
from wharfinger.simulator.truth.physics.hardware import Hardware

LINE_BYTES = 64.0
SOURCE = 1 << 62  # bit in the identity of sources of interference
_PLATFORM_PART = 0.8  # of the idiosyncratic noise: that of the configuration, not of the family
_UNFETCHED = 0.15  # of a core's time, lost without prefetching where code fills its cache
_SOURCE_SENSITIVITY = 0.6  # of a source's time, lost to a sibling that takes all that it takes
CORE_RESOURCES = (
    SharedResource.L1_INSTRUCTION_CACHE,
    SharedResource.L1_DATA_CACHE,
    SharedResource.L2_CACHE,
    SharedResource.TLB,
    SharedResource.INTEGER,
    SharedResource.FLOATING_POINT,
    SharedResource.VECTOR,
    SharedResource.L2_BANDWIDTH,
    SharedResource.PREFETCHER,
)
"""Those that the threads of one core share, in the order of pressures and sensitivities."""


@dataclass(frozen=True, slots=True)
class CoefficientRow:
    """The numbers of one application on one platform.

    Attributes:
        core: ns per instruction in the core and its own caches, of a thread alone on its core.
        cache: ns per instruction of waiting for the last level, alone.
        access: Accesses to the last level per instruction.
        miss_time: ns of a thread for each miss, alone.
        line: Bytes to and from memory for each miss.
        disk_time: ns per instruction of its own disk stream of ``disk`` bytes per instruction.
        network_time: The same of ``network``.
        contention: σ of the universal scalability law; ``coherence`` is its κ.
        reach: Bytes of the last level that it can fill.
        paging: ns per instruction at full shortage of memory.
        active: Share of its time that it computes, alone.
        bound: Share of its computing time that it waits for caches and memory, alone.
        pressure: (9,) how much of each private resource a sibling thread of it takes, 0 to 1.
        sensitivity: (9,) ns per instruction that it loses where a sibling takes all of one.
        curve: (K,) misses of the last level per instruction on the grid of sizes.
        identity: By which its neighbors' idiosyncratic noise is drawn.
    """

    core: float
    cache: float
    access: float
    miss_time: float
    line: float
    disk_time: float
    disk: float
    network_time: float
    network: float
    contention: float
    coherence: float
    threads: float
    reach: float
    paging: float
    footprint: float
    active: float
    bound: float
    pressure: tuple[float, ...]
    sensitivity: tuple[float, ...]
    curve: NDArray[np.float64]
    identity: int

    def packed(self) -> NDArray[np.float64]:
        """(62,) all but the identity, in order, as the kernel reads it."""
        return np.hstack([getattr(self, each.name) for each in fields(self)[:-1]])


def _hashed(*words: str) -> int:
    """62 bits, the same on every machine."""
    digest = blake2b("\0".join(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def _normal(*words: str) -> float:
    return NormalDist().inv_cdf((_hashed(*words) + 0.5) / 2**62)


def _suitability(application: Application, hardware: Hardware) -> float:
    """Idiosyncratic noise: how much faster than by the model a program runs on a platform.

    Compilers suit a family of processors; firmware and disks are set up per configuration.
    """
    if not application.whim:
        return 1.0
    family = _normal("family", application.salt, application.name, hardware.family.name)
    platform = _normal("platform", application.salt, application.name, hardware.name)
    return exp(application.whim * (family + _PLATFORM_PART * platform))


def _disk_noise(application: Application, hardware: Hardware) -> float:
    """How much longer than by the model its reads take: file systems, schedulers, layouts."""
    if not application.whim or not application.disk.bytes_per_instruction:
        return 1.0
    draw = _normal("disk", application.salt, application.name, hardware.name)
    return exp(application.whim * draw)


def _core_time(application: Application, hardware: Hardware) -> float:
    """Ns per instruction in the core, data in the first-level cache."""
    traits, mix = hardware.family.value, application.mix
    slower = (
        mix.integer / traits.integer
        + mix.floating / traits.floating
        + mix.vector / traits.vector
        + mix.other / traits.other
    )
    return application.cycles * slower / hardware.clock_ghz / _suitability(application, hardware)


def row_of(application: Application, hardware: Hardware, smt_cost: float) -> CoefficientRow:
    """The numbers of an application on a platform; ``smt_cost`` scales what a sibling costs."""
    traits = hardware.family.value
    below = float(hardware.l2_bytes if traits.l2_private else hardware.l1_bytes)
    access = application.misses(below)
    first = application.misses(float(hardware.l1_bytes))
    l2_hits = max(0.0, first - access) * 10 / hardware.clock_ghz / 2.0
    few_tlb = max(0.0, 1 - traits.tlb_bytes / max(application.footprint_bytes, 1.0))
    core = _core_time(application, hardware) + l2_hits
    overlap = 1 + (application.parallelism - 1) * traits.overlap
    # Out of order a core hides most of a hit in the last level, and less of it the more it waits.
    cache_time = hardware.llc_nanoseconds / (1.5 * sqrt(overlap))
    miss_time = (hardware.memory_nanoseconds * (1 + 0.25 * few_tlb)) / overlap
    curve = np.minimum([application.misses(size) for size in GRID_BYTES], access)
    sockets = _sockets(application, hardware)
    reach = min(
        hardware.llc_bytes * sockets / hardware.sockets,
        float(max(application.footprint_bytes, 64 * 1024)),
    )
    disk, network = application.disk, application.network
    disk_time = _stream_time(disk, hardware.disk_bandwidth) * _disk_noise(application, hardware)
    network_time = _stream_time(network, hardware.network_bandwidth)
    alone_misses = float(np.interp(reach, GRID_BYTES, curve))
    waiting = access * cache_time + alone_misses * miss_time
    computing = core + waiting
    speed = application.speedup(min(application.threads, hardware.cores))
    active = computing / speed / (computing / speed + disk_time + network_time)
    pressure, sensitivity = _private(application, hardware, core, l2_hits, smt_cost)
    return CoefficientRow(
        core=core,
        cache=access * cache_time,
        access=access,
        miss_time=miss_time,
        line=LINE_BYTES * (1 + application.writes),
        disk_time=disk_time,
        disk=disk.bytes_per_instruction,
        network_time=network_time,
        network=network.bytes_per_instruction,
        contention=application.contention,
        coherence=application.coherence,
        threads=float(application.threads),
        reach=reach,
        paging=application.paging / hardware.clock_ghz,
        footprint=float(application.footprint_bytes),
        active=active,
        bound=waiting / computing,
        pressure=pressure,
        sensitivity=sensitivity,
        curve=curve,
        identity=_identity(application),
    )


def _sockets(application: Application, hardware: Hardware) -> int:
    """How many it runs on: as few as hold its threads; a source is on every one."""
    if application.source:
        return hardware.sockets
    needed = -(-application.threads * hardware.sockets // max(1, hardware.cores))
    return min(hardware.sockets, needed)


def _identity(application: Application) -> int:
    """A source's is its kind's, so that what it does grows evenly with its intensity."""
    if application.source:
        return SOURCE | _hashed(application.source)
    return _hashed(application.salt, application.name)


def _stream_time(stream: Streaming, device: float) -> float:
    return stream.bytes_per_instruction / min(stream.own_bandwidth, device) / stream.depth


def _private(
    application: Application, hardware: Hardware, core: float, l2_hits: float, smt_cost: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What a sibling thread of it takes of a core, and what it loses to one that takes all.

    A core that is shared gives each thread the units that the other leaves, and caches, buffers and
    ports by halves: 20 to 60% for programs side by side (Bulpin and Pratt, WDDD 2004; Zhang,
    Laurenzano, Mars and Tang, MICRO 2014). What programs take of the second level's ports and of
    the prefetcher is in these sums already, so that only sources press on them by themselves: each
    hit in the second level waits for one of theirs, and code is fetched as it is needed.
    """
    if application.presses is not None:
        alike = tuple(_SOURCE_SENSITIVITY * core if each else 0.0 for each in application.presses)
        return application.presses, alike
    mix, busy = application.mix, min(1.0, 1.2 * application.cycles and 0.55 / application.cycles)
    l1 = float(hardware.l1_bytes)
    misses_l1 = application.misses(l1 / 2) - application.misses(l1)
    l2 = float(hardware.l2_bytes)
    misses_l2 = application.misses(l2 / 2) - application.misses(l2)
    code = min(1.0, application.code_bytes / l1)
    data = min(1.0, 40 * application.misses(l1))
    pages = min(1.0, application.footprint_bytes / (64 * 1024.0**2)) * min(
        1.0, 60 * application.misses(l2)
    )
    pressure = (
        code,
        data,
        min(1.0, 60 * application.misses(l2)),
        pages,
        busy * mix.integer,
        busy * mix.floating,
        busy * mix.vector,
        0.0,
        0.0,
    )
    per_cycle = 1 / hardware.clock_ghz
    sensitivity = (
        0.35 * core * code,
        0.12 * core * data + 6 * misses_l1 * per_cycle,
        20 * misses_l2 * per_cycle,
        0.20 * core * pages,
        0.9 * core * mix.integer,
        1.1 * core * mix.floating,
        1.2 * core * mix.vector,
        l2_hits,
        _UNFETCHED * core * code,
    )
    return pressure, tuple(smt_cost * each for each in sensitivity)
