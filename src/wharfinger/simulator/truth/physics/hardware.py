"""Hardware: the shared resources of a platform, and the speed of its parts."""

from dataclasses import dataclass, replace
from enum import Enum

KIB, MIB, GIB = 1024, 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class Traits:
    """Instructions per cycle of a processor family, over Intel's Nehalem's.

    Attributes:
        floating: Scalar floating point.
        other: Loads, stores, branches: front end and out-of-order window.
        overlap: How much of a program's memory parallelism its window and prefetchers find.
        l2_private: Each core has an L2 below a shared last level; else the L2 is the last level.
        tlb_bytes: Reach of the second-level TLB with pages of 4 KiB.
    """

    integer: float
    floating: float
    vector: float
    other: float
    overlap: float
    l2_private: bool
    tlb_bytes: int


class Family(Enum):
    """Processor families of the papers' servers.

    Instruction throughput by public measurements of their generations (SPEC CPU2006 rates per core
    and clock; A. Fog's instruction tables): a model of each, not of one stepping.
    """

    NETBURST = Traits(0.45, 0.42, 0.40, 0.45, 0.6, True, 256 * KIB)
    """Pentium 4 and Xeon MP: long pipeline, high clock."""
    K8 = Traits(0.62, 0.60, 0.40, 0.60, 0.5, False, 2 * MIB)
    """Opteron of 2003 to 2006."""
    CORE = Traits(0.88, 0.80, 0.80, 0.82, 0.7, False, 1 * MIB)
    """Core 2 generation (Xeon 5300, 5400): L2 shared by two cores is the last level."""
    ATOM = Traits(0.42, 0.30, 0.25, 0.40, 0.35, False, 256 * KIB)
    """In order."""
    NEHALEM = Traits(1.0, 1.0, 1.0, 1.0, 1.0, True, 2 * MIB)
    """Xeon 5500 and 7500."""
    WESTMERE = Traits(1.02, 1.02, 1.0, 1.03, 1.0, True, 2 * MIB)
    """Xeon 5600."""
    SANDY_BRIDGE = Traits(1.15, 1.12, 1.55, 1.15, 1.15, True, 2 * MIB)
    """Xeon E5 of 2012."""
    BARCELONA = Traits(0.72, 0.72, 0.75, 0.70, 0.75, True, 2 * MIB)
    """Opteron of 2007 to 2011 (K10), with a shared L3."""


@dataclass(frozen=True, slots=True)
class CoreGroup:
    """Like cores of a platform that has unlike ones; ``name`` is for tables."""

    name: str
    family: Family
    clock_ghz: float
    cores: int
    l1_bytes: int
    l2_bytes: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """One platform. Bandwidths are sustained ones of the server in GB/s, latencies of idle parts.

    Attributes:
        cores: CPUs: cores, or hardware threads where ``smt``, two to a core.
        sockets: Over which they and their caches are spread.
        l1_bytes: Instruction cache and data cache of a core, each.
        l2_bytes: Of a core, where it is below a shared last level.
        llc_bytes: All last-level caches together; ``llc_bandwidth`` likewise.
        disk_bandwidth: Sequential.
        groups: Unlike cores under the one last level; empty = all are as stated.
    """

    name: str
    family: Family
    clock_ghz: float
    cores: int
    sockets: int
    smt: bool
    l1_bytes: int
    l2_bytes: int
    llc_bytes: int
    llc_nanoseconds: float
    memory_bytes: int
    memory_nanoseconds: float
    memory_bandwidth: float
    llc_bandwidth: float
    disk_bandwidth: float
    network_bandwidth: float
    groups: tuple[CoreGroup, ...] = ()

    def cores_of(self, group: int) -> "Hardware":
        """As a program on a core of that group finds it: its core, all of what is shared."""
        if not self.groups:
            return self
        its = self.groups[group]
        return replace(
            self,
            name=f"{self.name}/{its.name}",
            family=its.family,
            clock_ghz=its.clock_ghz,
            l1_bytes=its.l1_bytes,
            l2_bytes=its.l2_bytes,
            groups=(),
        )

    @property
    def cpu_millicpus(self) -> int:
        """In all."""
        return 1000 * self.cores
