"""The chips of iBench's Figure 5.9: unlike cores under one last-level cache of 8 MB, 16 GB.

Source: dissertation 5.5.4 says Xeon-like and Atom-like cores of different generations, with clocks,
private caches and pipelines of their own; which ones, it does not say. Sandy Bridge and Nehalem,
and two clocks of Atom, stand for them; with sixteen cores there are eight kinds.
"""

from collections.abc import Mapping
from types import MappingProxyType

from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB, CoreGroup, Family, Hardware


def _chip(name: str, memory_bandwidth: float, groups: tuple[CoreGroup, ...]) -> Hardware:
    first = groups[0]
    return Hardware(
        name,
        first.family,
        first.clock_ghz,
        cores=sum(each.cores for each in groups),
        sockets=1,
        smt=False,
        l1_bytes=first.l1_bytes,
        l2_bytes=first.l2_bytes,
        llc_bytes=8 * MIB,
        llc_nanoseconds=14.0,
        memory_bytes=16 * GIB,
        memory_nanoseconds=75.0,
        memory_bandwidth=memory_bandwidth,
        # As of the papers' platforms: what the cores can take at once.
        llc_bandwidth=sum(16.0 * each.cores * min(1.0, each.clock_ghz / 2.6) for each in groups),
        disk_bandwidth=0.12,
        network_bandwidth=0.125,
        groups=groups,
    )


_FOUR = (
    CoreGroup("sandy-bridge", Family.SANDY_BRIDGE, 2.6, 1, 32 * KIB, 256 * KIB),
    CoreGroup("nehalem", Family.NEHALEM, 2.4, 1, 32 * KIB, 256 * KIB),
    CoreGroup("atom-d2700", Family.ATOM, 2.13, 1, 24 * KIB, 512 * KIB),
    CoreGroup("atom-330", Family.ATOM, 1.6, 1, 24 * KIB, 512 * KIB),
)
_SIXTEEN = (
    CoreGroup("sandy-bridge", Family.SANDY_BRIDGE, 2.6, 2, 32 * KIB, 256 * KIB),
    CoreGroup("westmere", Family.WESTMERE, 2.93, 2, 32 * KIB, 256 * KIB),
    CoreGroup("nehalem", Family.NEHALEM, 2.4, 2, 32 * KIB, 256 * KIB),
    CoreGroup("westmere-slow", Family.WESTMERE, 1.87, 2, 32 * KIB, 256 * KIB),
    CoreGroup("atom-d2700", Family.ATOM, 2.13, 2, 24 * KIB, 512 * KIB),
    CoreGroup("atom-d525", Family.ATOM, 1.8, 2, 24 * KIB, 512 * KIB),
    CoreGroup("atom-330", Family.ATOM, 1.6, 2, 24 * KIB, 512 * KIB),
    CoreGroup("atom-n450", Family.ATOM, 1.33, 2, 24 * KIB, 512 * KIB),
)
CHIPS: Mapping[int, Hardware] = MappingProxyType(
    {4: _chip("cmp-4", 17.0, _FOUR), 16: _chip("cmp-16", 34.0, _SIXTEEN)}
)
"""By number of cores. Two channels of memory for four cores, four for sixteen."""
