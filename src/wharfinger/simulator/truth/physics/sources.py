"""Applications that cause contention: iBench's sources of interference, and Bubble-Up's bubble.

Each source of iBench (dissertation 5.3) presses on one resource, those of a core from the other
thread of the workload's cores. Intensity is a share of what the platform has, and pressure grows in
proportion. The profiler's ramp (``wharfinger.ibench.ramp``) sets it.
"""

from dataclasses import replace
from math import ceil

from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.application import Application, Streaming, WorkingSet
from wharfinger.simulator.truth.physics.coefficients import CORE_RESOURCES, LINE_BYTES, row_of
from wharfinger.simulator.truth.physics.hardware import KIB, MIB, Hardware

_MIN_SHARE = 1e-3
_NO_DATA = WorkingSet(1e-9, 16 * KIB)
_DISK_DEPTH, _NETWORK_DEPTH = 8.0, 64.0
"""Requests under way: a disk's queue is short; nothing limits what is sent, so that it starves its
co-runners (dissertation 5.3, SoI5)."""
CORE_SOURCES = frozenset(CORE_RESOURCES)  # on what only threads of one core share
_STREAMED = 2
"""Times the caches of a core: a stream over so much is in none of these, and in little of the last
level."""


def source_of(
    resource: SharedResource, intensity: float, hardware: Hardware, cpus: float
) -> tuple[Application, float]:
    """A source of interference, and instructions per ns that it does at most; negative = no limit.

    The intensity is 0 to 100, ``cpus`` those of the workload under test: a source of a core's
    resource runs beside each of its threads.
    """
    share = max(_MIN_SHARE, min(intensity, 100.0) / 100)
    source = Application(f"{resource.value}@{intensity:g}", source=resource.value)
    if resource in CORE_SOURCES:
        return _on_a_core(source, resource, share, cpus), -1.0
    small = replace(source, cycles=1e-4, sets=(_NO_DATA,), footprint_bytes=16 * MIB)
    disk = replace(small, disk=Streaming(1.0, hardware.disk_bandwidth, _DISK_DEPTH))
    match resource:
        case SharedResource.MEMORY_BANDWIDTH:
            return _memory_bandwidth(source, share, hardware)
        case SharedResource.MEMORY_CAPACITY:
            return _memory_capacity(source, share, hardware)
        case SharedResource.LAST_LEVEL_CACHE:
            return _last_level_cache(source, share, hardware)
        case SharedResource.LAST_LEVEL_CACHE_BANDWIDTH | SharedResource.INTERCONNECT:
            return _ports(source, share, hardware, cpus)
        case SharedResource.STORAGE_BANDWIDTH:
            return disk, share * hardware.disk_bandwidth
        case SharedResource.STORAGE_CAPACITY:
            # At random: most of the time the disk seeks, and little is read.
            return disk, 0.3 * share * hardware.disk_bandwidth
        case _:
            stream = Streaming(1.0, hardware.network_bandwidth, _NETWORK_DEPTH)
            return replace(small, network=stream), share * hardware.network_bandwidth


def _on_a_core(
    source: Application, resource: SharedResource, share: float, cpus: float
) -> Application:
    threads = max(1, ceil(cpus))
    return replace(
        source,
        name=f"{source.name}/{threads}",
        cycles=0.5,
        sets=(WorkingSet(1e-6, 16 * KIB),),
        footprint_bytes=MIB,
        threads=threads,
        presses=tuple(share if each is resource else 0.0 for each in CORE_RESOURCES),
    )


def _memory_bandwidth(
    source: Application, share: float, hardware: Hardware
) -> tuple[Application, float]:
    """Streams through a tenth of memory: no cache keeps any of it, and it keeps no cache long."""
    streamer = replace(
        source,
        cycles=0.25,
        sets=(WorkingSet(0.03, 1e12, floor=1.0),),
        parallelism=16.0,
        footprint_bytes=min(hardware.memory_bytes // 10, 512 * MIB),
        threads=max(1, min(hardware.cores, ceil(hardware.memory_bandwidth / 5))),
    )
    row = row_of(streamer, hardware, 0.0)
    return streamer, share * hardware.memory_bandwidth / (row.access * row.line)


def _memory_capacity(
    source: Application, share: float, hardware: Hardware
) -> tuple[Application, float]:
    """Reads at random all over a share of memory; a quarter of the bandwidth at most.

    What it reads it brings into the caches: long before memory is short, they are.
    """
    footprint = max(MIB, round(share * hardware.memory_bytes))
    reader = replace(
        source,
        cycles=0.5,
        sets=(WorkingSet(0.03, footprint / 2, 4.0),),
        parallelism=8.0,
        footprint_bytes=footprint,
        threads=min(max(2, hardware.sockets), hardware.cores),
        writes=0.0,
    )
    row = row_of(reader, hardware, 0.0)
    return reader, share * hardware.memory_bandwidth / 4 / (0.03 * row.line)


def _last_level_cache(
    source: Application, share: float, hardware: Hardware
) -> tuple[Application, float]:
    """Reads at random all over a share of the cache, each line as often: it holds what it reads."""
    footprint = max(16 * KIB, round(share * hardware.llc_bytes))
    reader = replace(
        source,
        cycles=0.3,
        sets=(WorkingSet(0.3, footprint / 2, 6.0),),
        parallelism=16.0,
        footprint_bytes=footprint,
        threads=min(hardware.cores, 3 * hardware.sockets),
        writes=0.0,
    )
    row = row_of(reader, hardware, 0.0)
    return reader, share * reader.threads / (row.core + row.cache)


def _ports(
    source: Application, share: float, hardware: Hardware, cpus: float
) -> tuple[Application, float]:
    """Reads or messages through the last level, by all cores that the workload leaves.

    Cores of the papers' processors reach one another through it. What it has of ports is what all
    cores can take at once: where few are left, the source takes what those can.
    """
    own = hardware.l2_bytes if hardware.family.value.l2_private else hardware.l1_bytes
    streamed = min(_STREAMED * own, hardware.llc_bytes // 2)
    cores = ceil(hardware.cores / 2) if hardware.smt else hardware.cores
    threads = max(1, cores - ceil(cpus))
    streamer = replace(
        source,
        name=f"{source.name}/{threads}",
        cycles=0.25,
        sets=(WorkingSet(0.3, 0.75 * streamed, 24.0),),
        parallelism=64.0,
        footprint_bytes=streamed,
        threads=threads,
        writes=0.0,
    )
    row = row_of(streamer, hardware, 0.0)
    return streamer, share * hardware.llc_bandwidth / (row.access * LINE_BYTES)


def bubble(megabytes: float) -> Application:
    """Bubble-Up's bubble on two cores: reads all over a footprint, and so holds it in the cache.

    Its reads do not wait for one another, so its pressure is the highest of two cores.
    """
    footprint = megabytes * MIB
    return Application(
        f"bubble-{megabytes:g}",
        source="bubble",
        cycles=0.3,
        sets=(WorkingSet(0.3, footprint / 2, 6.0),),  # three of ten instructions read
        parallelism=8.0,  # a core has buffers for ten misses
        footprint_bytes=int(max(footprint, 16 * KIB)),
        threads=2,
    )
