"""The papers' clusters: their platforms and how many servers of each, from ``hardware.csv``.

Cores, sockets, clock, first-level and last-level caches and memory of the local cluster are
Paragon's Table V (178 cores); CPUs and memory of EC2's instances are Table VI; Quasar's platforms A
to J are its Table 1; Pythia used one socket of an E5-2670 (5.1). Paragon does not list its types of
Azure and Compute Engine: these are what was sold in 2013. iBench's servers (dissertation 5.5.1) are
dual-socket, of 4 to 12 cores and 16 to 48 GB, with a last level that is shared. The tables say
nothing of bandwidth and latency, disks and networks, nor which processor an instance runs on: those
are of the data sheets of the processors in the column of that name
(``docs/decisions/0033-physics.md`` lists them). An instance that is a part of a server has that
part of its caches and of its bandwidth. Clocks are what is sustained with all cores busy;
bandwidths are in GB/s. Two of them are off in the last digit: recorded runs depend on every bit.
"""

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from wharfinger.files.tabular import Table, TableLine
from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB, Family, Hardware


def _hardware(line: TableLine) -> Hardware:
    number, family = line.number_of, Family[line["family"]]
    clock, cores, smt = number("clock_ghz"), int(number("cores")), number("smt") > 0
    # What its cores can take of the last level at once.
    llc_each = 16.0 if family.value.l2_private else 10.0
    llc_bandwidth = llc_each * max(cores / 2 if smt else cores, 0.5) * min(1.0, clock / 2.6)
    return Hardware(
        line["platform"],
        family,
        clock,
        cores,
        int(number("sockets")),
        smt,
        round(number("l1_kib") * KIB),
        round(number("l2_kib") * KIB),
        round(number("llc_mib") * MIB),
        number("llc_ns"),
        round(number("memory_gib") * GIB),
        number("memory_ns"),
        number("memory_bandwidth"),
        llc_bandwidth,
        number("disk_bandwidth"),
        number("network_bandwidth"),
    )


_LINES = tuple(Table(Path(__file__).with_name("hardware.csv")).lines())
HARDWARE = MappingProxyType({line["platform"]: _hardware(line) for line in _LINES})
"""Every platform by its name."""


def _lines(cluster: str) -> Iterator[TableLine]:
    return (line for line in _LINES if line["cluster"] == cluster)


LOCAL, EC2, QUASAR, PYTHIA = (
    tuple(HARDWARE[line["platform"]] for line in _lines(cluster))
    for cluster in ("local", "ec2", "quasar", "pythia")
)
LOCAL_SERVERS, EC2_SERVERS = (
    tuple((line["platform"], int(line.number_of("servers"))) for line in _lines(cluster))
    for cluster in ("local", "ec2")
)
"""How many of each platform: Table V's 40 servers; Table VI's 1,000 servers with 7,355 CPUs."""
