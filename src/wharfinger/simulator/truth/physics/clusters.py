"""The papers' clusters, row by row.

Cores, sockets, clock, first-level and last-level caches and memory of the local cluster are
Paragon's Table V; CPUs and memory of EC2's instances are Table VI. The tables say nothing of
bandwidth and latency, disks and networks, nor which processor an instance runs on: those are of the
data sheets of the processors that the tables name, or that EC2 was known to use in 2013
(``docs/decisions/0033-physics.md`` lists them). An instance that is a part of a machine has that
part of its caches and of its bandwidth. Clocks are what is sustained with all cores busy.
"""

from collections.abc import Iterator
from types import MappingProxyType

from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB, Family, Hardware

Group = tuple[str, int]
"""A platform's name and how many servers of it there are."""


def _hardware(
    name: str,
    family: Family,
    clock_ghz: float,
    cores: int,
    sockets: int,
    memory_gib: float,
    *,
    llc_mib: float,
    llc_ns: float,
    memory_ns: float,
    bandwidth: float,
    disk: float,
    network: float,
    smt: bool = False,
    l1_kib: int = 32,
    l2_kib: int = 256,
) -> Hardware:
    """Bandwidth in GB/s; of the last level it is what its cores can take at once."""
    llc_each = 16.0 if family.value.l2_private else 10.0
    physical = cores / 2 if smt else cores
    return Hardware(
        name,
        family,
        clock_ghz,
        cores,
        sockets,
        smt,
        l1_kib * KIB,
        l2_kib * KIB,
        round(llc_mib * MIB),
        llc_ns,
        round(memory_gib * GIB),
        memory_ns,
        bandwidth,
        llc_each * max(physical, 0.5) * min(1.0, clock_ghz / 2.6),
        disk,
        network,
    )


def _local() -> Iterator[Hardware]:
    """Paragon, Table V: 178 cores.

    Twice the modules on a channel slow a Westmere's memory; who had blades had two disks, who had
    servers of two units had four.
    """
    f = Family
    yield _hardware("xeon-l5609", f.WESTMERE, 1.87, 8, 2, 24, llc_mib=24, llc_ns=20, memory_ns=75,
                    bandwidth=26, disk=0.12, network=0.125)  # fmt: skip
    yield _hardware("xeon-x5650", f.WESTMERE, 2.67, 12, 2, 24, llc_mib=24, llc_ns=16, memory_ns=66,
                    bandwidth=38, disk=0.12, network=0.125)  # fmt: skip
    yield _hardware("xeon-x5670", f.WESTMERE, 2.93, 12, 2, 48, llc_mib=24, llc_ns=15, memory_ns=76,
                    bandwidth=29, disk=0.12, network=0.125)  # fmt: skip
    yield _hardware("xeon-l5640", f.WESTMERE, 2.27, 12, 2, 48, llc_mib=24, llc_ns=18, memory_ns=78,
                    bandwidth=27, disk=0.12, network=0.125)  # fmt: skip
    yield _hardware("xeon-mp", f.NETBURST, 3.16, 4, 4, 8, llc_mib=4, llc_ns=10, memory_ns=130,
                    bandwidth=6, disk=0.15, network=0.125, l1_kib=16)  # fmt: skip
    yield _hardware("xeon-e5345", f.CORE, 2.33, 4, 1, 32, llc_mib=8, llc_ns=6, memory_ns=110,
                    bandwidth=7, disk=0.17, network=0.125)  # fmt: skip
    yield _hardware("xeon-e5335", f.CORE, 2.0, 4, 1, 16, llc_mib=8, llc_ns=7, memory_ns=115,
                    bandwidth=6.5, disk=0.17, network=0.125)  # fmt: skip
    yield _hardware("opteron-240", f.K8, 1.8, 2, 2, 4, llc_mib=2, llc_ns=7, memory_ns=95,
                    bandwidth=7, disk=0.06, network=0.125, l1_kib=64)  # fmt: skip
    yield _hardware("atom-330", f.ATOM, 1.6, 2, 1, 4, llc_mib=1, llc_ns=10, memory_ns=120,
                    bandwidth=2.6, disk=0.08, network=0.125)  # fmt: skip
    yield _hardware("atom-d510", f.ATOM, 1.66, 2, 1, 8, llc_mib=1, llc_ns=10, memory_ns=105,
                    bandwidth=3.4, disk=0.08, network=0.125)  # fmt: skip


def _ec2() -> Iterator[Hardware]:
    """Paragon, Table VI. One ECU and up; an m1.small has half of a core's time."""
    f = Family
    for name, clock, cores, memory, part in (
        ("m1.small", 1.0, 1, 1.7, 1),
        ("m1.medium", 2.0, 1, 3.75, 1),
        ("m1.large", 2.0, 2, 7.5, 2),
        ("m1.xlarge", 2.0, 4, 15, 4),
    ):
        # Xeon E5430: 8 cores, 4 caches of 6 MB.
        yield _hardware(name, f.CORE, clock, cores, 1, memory, llc_mib=3 * part, llc_ns=6,
                        memory_ns=105, bandwidth=1.7 * part, disk=0.04 + 0.02 * part,
                        network=0.03 * part)  # fmt: skip
    for name, cores, memory in (("m3.xlarge", 4, 15), ("m3.2xlarge", 8, 30)):
        # Xeon E5-2670: two sockets of 8 cores and 20 MB.
        yield _hardware(name, f.SANDY_BRIDGE, 2.8, cores, 1, memory, llc_mib=1.25 * cores,
                        llc_ns=14, memory_ns=80, bandwidth=2.3 * cores, disk=0.02 * cores,
                        network=0.03 * cores, smt=True)  # fmt: skip
    for name, cores, memory in (("c1.medium", 2, 1.7), ("c1.xlarge", 8, 7)):
        # Xeon E5410: 8 cores, 4 caches of 6 MB.
        yield _hardware(name, f.CORE, 2.33, cores, 1 if cores < 8 else 2, memory,
                        llc_mib=3 * cores, llc_ns=6, memory_ns=105, bandwidth=1.7 * cores,
                        disk=0.05 + 0.01 * cores, network=0.03 * cores)  # fmt: skip
    for name, cores, memory in (("m2.xlarge", 2, 17.1), ("m2.2xlarge", 4, 34.2),
                                ("m2.4xlarge", 8, 68.4)):  # fmt: skip
        # Xeon X5550: two sockets of 4 cores and 8 MB.
        yield _hardware(name, f.NEHALEM, 2.93, cores, 1 if cores < 8 else 2, memory,
                        llc_mib=2 * cores, llc_ns=13, memory_ns=68, bandwidth=4.2 * cores,
                        disk=0.05 + 0.015 * cores, network=0.03 * cores)  # fmt: skip
    yield _hardware("cr1.8xlarge", f.SANDY_BRIDGE, 2.7, 32, 2, 244, llc_mib=40, llc_ns=15,
                    memory_ns=88, bandwidth=74, disk=0.4, network=1.1, smt=True)  # fmt: skip
    # Xeon E5620, two sockets of 4 cores and 12 MB; solid-state disks.
    yield _hardware("hi1.4xlarge", f.WESTMERE, 2.66, 16, 2, 60.5, llc_mib=24, llc_ns=16,
                    memory_ns=72, bandwidth=36, disk=1.6, network=1.1, smt=True)  # fmt: skip
    # Xeon E5-2650, of two sockets; 24 disks.
    yield _hardware("hs1.8xlarge", f.SANDY_BRIDGE, 2.3, 16, 2, 117, llc_mib=30, llc_ns=16,
                    memory_ns=86, bandwidth=46, disk=2.2, network=1.1, smt=True)  # fmt: skip


def _azure() -> Iterator[Hardware]:
    """Paragon 5: 8 types, not listed; those that Azure sold in 2013."""
    f = Family
    for name, clock, cores, memory in (
        ("extra-small", 1.0, 1, 0.75),
        ("small", 2.1, 1, 1.75),
        ("medium", 2.1, 2, 3.5),
        ("large", 2.1, 4, 7),
        ("extra-large", 2.1, 8, 14),
    ):
        # Opteron 4171 HE: 6 cores and 6 MB.
        yield _hardware(name, f.BARCELONA, clock, cores, 1 if cores < 8 else 2, memory,
                        llc_mib=max(1, cores), llc_ns=20, memory_ns=95, bandwidth=2.4 * cores,
                        disk=0.04 + 0.01 * cores, network=0.025 * cores, l1_kib=64,
                        l2_kib=512)  # fmt: skip
    for name, cores, memory in (("a5", 2, 14), ("a6", 4, 28), ("a7", 8, 56)):
        # Xeon E5-2660: two sockets of 8 cores and 20 MB.
        yield _hardware(name, f.SANDY_BRIDGE, 2.4, cores, 1, memory, llc_mib=2.5 * cores,
                        llc_ns=15, memory_ns=84, bandwidth=4.2 * cores,
                        disk=0.04 + 0.015 * cores, network=0.04 * cores)  # fmt: skip


def _gce() -> Iterator[Hardware]:
    """Paragon 5: 4 types, not listed; those that Compute Engine sold in 2013."""
    for cores in (1, 2, 4, 8):
        # Xeon E5 of 2.6 GHz: 16 cores and 40 MB.
        yield _hardware(f"n1-standard-{cores}", Family.SANDY_BRIDGE, 2.75, cores, 1, 3.75 * cores,
                        llc_mib=1.25 * cores, llc_ns=14, memory_ns=82, bandwidth=2.4 * cores,
                        disk=0.03 + 0.012 * cores, network=0.06 * cores,
                        smt=cores > 1)  # fmt: skip


def _quasar() -> Iterator[Hardware]:
    """Quasar, Table 1: platforms A to J by cores and memory; section 5 names the ends."""
    f = Family
    yield _hardware("a", f.ATOM, 1.66, 2, 1, 4, llc_mib=1, llc_ns=10, memory_ns=105,
                    bandwidth=3.4, disk=0.08, network=0.125)  # fmt: skip
    yield _hardware("b", f.CORE, 2.0, 4, 1, 8, llc_mib=8, llc_ns=7, memory_ns=115,
                    bandwidth=6.5, disk=0.09, network=0.125)  # fmt: skip
    yield _hardware("c", f.CORE, 2.33, 8, 2, 12, llc_mib=16, llc_ns=6, memory_ns=112,
                    bandwidth=12, disk=0.09, network=0.125)  # fmt: skip
    yield _hardware("d", f.WESTMERE, 1.87, 8, 2, 16, llc_mib=24, llc_ns=20, memory_ns=75,
                    bandwidth=26, disk=0.1, network=0.125)  # fmt: skip
    yield _hardware("e", f.NEHALEM, 2.4, 8, 2, 20, llc_mib=16, llc_ns=15, memory_ns=70,
                    bandwidth=28, disk=0.11, network=0.125)  # fmt: skip
    yield _hardware("f", f.NEHALEM, 2.93, 8, 2, 24, llc_mib=16, llc_ns=13, memory_ns=67,
                    bandwidth=32, disk=0.12, network=0.125)  # fmt: skip
    yield _hardware("g", f.WESTMERE, 2.27, 12, 2, 16, llc_mib=24, llc_ns=18, memory_ns=72,
                    bandwidth=32, disk=0.11, network=0.125)  # fmt: skip
    yield _hardware("h", f.WESTMERE, 2.67, 12, 2, 24, llc_mib=24, llc_ns=16, memory_ns=70,
                    bandwidth=34, disk=0.12, network=0.125)  # fmt: skip
    yield _hardware("i", f.SANDY_BRIDGE, 2.4, 16, 2, 48, llc_mib=40, llc_ns=15, memory_ns=84,
                    bandwidth=70, disk=0.15, network=0.125)  # fmt: skip
    yield _hardware("j", f.WESTMERE, 2.93, 24, 2, 48, llc_mib=24, llc_ns=15, memory_ns=68,
                    bandwidth=36, disk=0.15, network=0.125, smt=True)  # fmt: skip


def _pythia() -> Iterator[Hardware]:
    """Pythia 5.1: one socket of an E5-2670, the other keeps the books."""
    yield _hardware("e5-2670", Family.SANDY_BRIDGE, 2.6, 8, 1, 16, llc_mib=20, llc_ns=14,
                    memory_ns=82, bandwidth=38, disk=0.15, network=0.125)  # fmt: skip


LOCAL = tuple(_local())
EC2 = tuple(_ec2())
AZURE = tuple(_azure())
GCE = tuple(_gce())
QUASAR = tuple(_quasar())
PYTHIA = tuple(_pythia())

HARDWARE = MappingProxyType(
    {each.name: each for each in (*LOCAL, *EC2, *AZURE, *GCE, *QUASAR, *PYTHIA)}
)
"""Every platform by its name."""

LOCAL_SERVERS: tuple[Group, ...] = tuple(
    zip((each.name for each in LOCAL), (1, 2, 2, 1, 5, 8, 8, 7, 5, 1), strict=True)
)
"""Table V's last column: 40 servers."""
EC2_SERVERS: tuple[Group, ...] = (
    ("m1.small", 78), ("m1.medium", 69), ("m1.large", 82), ("m1.xlarge", 81),
    ("m3.xlarge", 82), ("m3.2xlarge", 68), ("c1.medium", 67), ("c1.xlarge", 65),
    ("m2.xlarge", 73), ("m2.2xlarge", 70), ("m2.4xlarge", 58), ("cr1.8xlarge", 62),
    ("hi1.4xlarge", 72), ("hs1.8xlarge", 73),
)  # fmt: skip
"""Table VI's last column: 1,000 servers, 7,355 CPUs."""
