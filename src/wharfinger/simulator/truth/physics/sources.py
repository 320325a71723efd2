"""iBench's sources of interference as applications of the model: one resource each, by intensity.

Source: iBench (dissertation 5.3): memory's sources take capacity at random and bandwidth in a
stream, the last-level cache's takes a growing footprint at random, those of the core issue one kind
of instruction or run through one of its caches on the other thread of the workload's cores, the
disk's and the network's stream. Intensity is a share of what the platform has, and what a source
takes grows in proportion. The profiler's own ramp (``wharfinger.ibench.ramp``) sets it.
"""

from dataclasses import dataclass
from math import ceil

from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.application import Application, Streaming, WorkingSet
from wharfinger.simulator.truth.physics.coefficients import PRIVATE, Private, row_of
from wharfinger.simulator.truth.physics.hardware import KIB, MIB, Hardware

_LEAST = 1e-3
_DISK_DEPTH, _NETWORK_DEPTH = 8.0, 64.0
"""Requests under way: a disk's queue is short; nothing limits what is sent, so that it starves
whoever is beside it (dissertation 5.3, SoI5)."""
_PER_CORE = {
    SharedResource.L1_INSTRUCTION_CACHE: Private.L1_INSTRUCTION,
    SharedResource.L1_DATA_CACHE: Private.L1_DATA,
    SharedResource.L2_CACHE: Private.L2,
    SharedResource.TLB: Private.TLB,
    SharedResource.INTEGER: Private.INTEGER,
    SharedResource.FLOATING_POINT: Private.FLOATING,
    SharedResource.VECTOR: Private.VECTOR,
}
CORE_SOURCES = frozenset(_PER_CORE)
"""Those that press on what only the threads of one core share."""


@dataclass(frozen=True, slots=True)
class SourceApplication:
    """A source at one intensity on one platform.

    Attributes:
        application: What runs.
        cpus: That it keeps.
        cap: Instructions per ns that it does at most.
        memory_bytes: That it takes.
        bound: It runs on the other threads of the workload's cores.
    """

    application: Application
    cpus: float
    cap: float
    memory_bytes: int
    bound: bool = False


def source_of(
    resource: SharedResource, intensity: float, hardware: Hardware, cpus: float
) -> SourceApplication:
    """A source of interference.

    Args:
        resource: What it presses on.
        intensity: 0 to 100.
        hardware: Where.
        cpus: Of the workload beside it: a core's source runs beside each of its threads.
    """
    share = max(_LEAST, min(intensity, 100.0) / 100)
    name = f"{resource.value}@{intensity:g}"
    if resource in _PER_CORE:
        return _on_a_core(name, _PER_CORE[resource], share, cpus)
    match resource:
        case SharedResource.MEMORY_BANDWIDTH:
            return _memory_bandwidth(name, share, hardware)
        case SharedResource.MEMORY_CAPACITY:
            return _memory_capacity(name, share, hardware)
        case SharedResource.LAST_LEVEL_CACHE:
            return _last_level_cache(name, share, hardware)
        case SharedResource.STORAGE_BANDWIDTH:
            return _device(name, share * hardware.disk_bandwidth, disk=hardware.disk_bandwidth)
        case SharedResource.STORAGE_CAPACITY:
            # At random: most of the time the disk seeks, and little is read.
            return _device(
                name, 0.3 * share * hardware.disk_bandwidth, disk=hardware.disk_bandwidth
            )
        case _:
            return _device(
                name, share * hardware.network_bandwidth, network=hardware.network_bandwidth
            )


def _on_a_core(name: str, at: Private, share: float, cpus: float) -> SourceApplication:
    presses = [0.0] * PRIVATE
    presses[at] = share
    threads = max(1, ceil(cpus))
    application = Application(
        f"{name}/{threads}",
        source=name.partition("@")[0],
        cycles=0.5,
        sets=(WorkingSet(1e-6, 16 * KIB),),
        footprint_bytes=MIB,
        threads=threads,
        presses=tuple(presses),
    )
    return SourceApplication(application, float(threads), -1.0, MIB, bound=True)


def _memory_bandwidth(name: str, share: float, hardware: Hardware) -> SourceApplication:
    """Streams through a tenth of memory: no cache keeps any of it, and it keeps no cache long."""
    stream = WorkingSet(0.03, 1e12, floor=1.0)
    threads = max(1, min(hardware.cores, ceil(hardware.memory_bandwidth / 5)))
    application = Application(
        name,
        source=name.partition("@")[0],
        cycles=0.25,
        sets=(stream,),
        parallelism=16.0,
        footprint_bytes=min(hardware.memory_bytes // 10, 512 * MIB),
        threads=threads,
        writes=0.3,
    )
    row = row_of(application, hardware, 0.0)
    cap = share * hardware.memory_bandwidth / (row.access * row.line)
    return SourceApplication(application, float(threads), cap, application.footprint_bytes)


def _memory_capacity(name: str, share: float, hardware: Hardware) -> SourceApplication:
    """Reads at random all over a share of memory; a quarter of the bandwidth at most.

    What it reads it brings into the caches: long before memory is short, they are.
    """
    footprint = max(MIB, round(share * hardware.memory_bytes))
    application = Application(
        name,
        source=name.partition("@")[0],
        cycles=0.5,
        sets=(WorkingSet(0.03, footprint / 2, 4.0),),
        parallelism=8.0,
        footprint_bytes=footprint,
        threads=min(max(2, hardware.sockets), hardware.cores),
        writes=0.0,
    )
    row = row_of(application, hardware, 0.0)
    cap = share * hardware.memory_bandwidth / 4 / (0.03 * row.line)
    return SourceApplication(application, float(application.threads), cap, footprint)


def _last_level_cache(name: str, share: float, hardware: Hardware) -> SourceApplication:
    """Reads at random all over a share of the cache, each line as often: it holds what it reads."""
    footprint = max(16 * KIB, round(share * hardware.llc_bytes))
    threads = min(hardware.cores, 3 * hardware.sockets)
    application = Application(
        name,
        source=name.partition("@")[0],
        cycles=0.3,
        sets=(WorkingSet(0.3, footprint / 2, 6.0),),
        parallelism=16.0,
        footprint_bytes=footprint,
        threads=threads,
        writes=0.0,
    )
    row = row_of(application, hardware, 0.0)
    cap = share * threads / (row.core + row.cache)
    return SourceApplication(application, float(threads), cap, footprint)


def _device(
    name: str, bandwidth: float, *, disk: float = 0.0, network: float = 0.0
) -> SourceApplication:
    stream = Streaming(1.0, max(disk, network), depth=_DISK_DEPTH if disk else _NETWORK_DEPTH)
    application = Application(
        name,
        source=name.partition("@")[0],
        cycles=1e-4,
        sets=(WorkingSet(1e-9, 16 * KIB),),
        footprint_bytes=16 * MIB,
        disk=stream if disk else Streaming(),
        network=stream if network else Streaming(),
    )
    return SourceApplication(application, 1.0, bandwidth, 16 * MIB)
