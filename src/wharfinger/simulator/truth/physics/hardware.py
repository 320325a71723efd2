"""Hardware: what a platform has that workloads share, and how fast each of its parts is.

``clusters`` lists the platforms of the papers by their published rows and by the data sheets of
their processors; ``coefficients`` joins one of them with an application.
"""

from dataclasses import dataclass
from enum import Enum

KIB, MIB, GIB = 1024, 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class Traits:
    """How a family of processors executes, against Intel's Nehalem at the same clock.

    Attributes:
        integer: Instructions per cycle, of integer work; so are the next two of theirs.
        floating: Scalar floating point.
        vector: Of what SIMD units do.
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
    """Processor families of the papers' machines.

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
class Hardware:
    """One server configuration.

    Attributes:
        name: The platform's.
        family: Of its processors.
        clock_ghz: Of a core.
        cores: CPUs that it gives: cores, or hardware threads where ``smt``.
        sockets: Over which they and their caches are spread.
        smt: CPUs are hardware threads, two to a core.
        l1_bytes: Instruction cache and data cache of a core, each.
        l2_bytes: Of a core, where it is below a shared last level.
        llc_bytes: All last-level caches together.
        llc_nanoseconds: Latency of the last level.
        memory_bytes: Of the server.
        memory_nanoseconds: Latency of idle memory.
        memory_bandwidth: Sustained, of the server, in bytes per nanosecond (GB/s).
        llc_bandwidth: Of all last-level caches, likewise.
        disk_bandwidth: Sequential, likewise.
        network_bandwidth: Likewise.
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

    @property
    def physical_cores(self) -> float:
        """Cores behind the CPUs."""
        return self.cores / 2 if self.smt else float(self.cores)

    @property
    def cpu_millicpus(self) -> int:
        """CPU that it gives, in thousandths."""
        return 1000 * self.cores
