"""Programs of which measurements were published, by name: the suites and services of the papers.

A row of ``programs.csv`` is what characterisations say, rounded: misses of a 256 KB cache per 1,000
instructions and the size at which they go down (Jaleel, SPEC CPU2006 memory characterization, 2007;
Bienia, Kumar, Singh and Li, PACT 2008, for PARSEC; Woo et al., ISCA 1995, for SPLASH-2), the share
of them that streams, memory taken (Gove, SIGARCH News 35(1), 2007; Henning, same issue),
instruction mix and cycles in the core (Phansalkar, Joshi and John, ISCA 2007), overlap of misses
(Eyerman and Eeckhout's interval analyses, as orders of magnitude), and contention and coherence in
the universal scalability law. What a row does not say, such as the effect of the compiler, is drawn
(``pools``).

A row of ``services.csv`` adds what a query takes. Services answer from memory that no cache keeps,
and run much of the kernel's code (Ferdman et al., ASPLOS 2012; Kanev et al., ISCA 2015).

- redis, mongodb: under YCSB, a million records, mostly read (Pythia 5.1). How many misses a larger
  cache keeps is set such that one, two and three neighbors that load memory cause the slowdown of
  Pythia's Table 2.
- memcached: two misses of every cache for each key, most instructions the kernel's (Atikoglu et
  al., SIGMETRICS 2012; Leverich and Kozyrakis, EuroSys 2014).
- webserver: HotCRP, that is PHP and a data base in memory; the instructions are those of a page.
- cassandra: a store on disk; three queries in ten read a block of 4 KiB.
"""

from pathlib import Path
from types import MappingProxyType

from wharfinger.files.tabular import Table, TableLine
from wharfinger.simulator.truth.physics.application import (
    Application,
    Mix,
    Serving,
    Streaming,
    WorkingSet,
)
from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB

_KEPT_BY_L2 = 0.12  # of a row's misses, as many more that a 256 KB cache keeps


def _program(line: TableLine) -> Application:
    number = line.number_of
    misses = number("misses_per_thousand")
    return Application(
        line["name"],
        cycles=number("cycles"),
        mix=Mix(number("integer"), number("floating"), number("vector")),
        sets=(
            WorkingSet(misses / 1000, number("size_mib") * MIB, floor=number("streams")),
            WorkingSet((1 + _KEPT_BY_L2 * misses) / 1000 * 3, 96 * KIB, 3.0),
        ),
        parallelism=number("overlap"),
        code_bytes=number("code_kib") * KIB,
        footprint_bytes=int(number("footprint_mib") * MIB),
        paging=30 + 4 * misses,
        threads=int(number("threads")),
        contention=number("contention"),
        coherence=number("coherence"),
    )


def _service(line: TableLine) -> Application:
    number = line.number_of
    query, size = number("instructions"), number("size_mib") * MIB
    misses = number("misses_per_thousand") / 1000
    return Application(
        line["name"],
        cycles=number("cycles"),
        mix=Mix(number("integer")),
        sets=(
            WorkingSet(misses, size, number("steepness"), number("floor")),
            WorkingSet(number("l2_misses_per_thousand") / 1000, 96 * KIB, 3.0),
        ),
        parallelism=number("overlap"),
        code_bytes=number("code_kib") * KIB,
        footprint_bytes=int(number("footprint_gib") * GIB),
        paging=number("paging"),
        threads=int(number("threads")),
        contention=number("contention"),
        coherence=number("coherence"),
        disk=Streaming(number("disk_bytes") / query, 0.4, depth=24.0),
        network=Streaming(number("network_bytes") / query, 1.0, depth=64.0),
        serving=Serving(query, number("variation")),
    )


_FOLDER = Path(__file__).parent
_PROGRAMS = tuple(Table(_FOLDER / "programs.csv").lines())
_SERVICES = Table(_FOLDER / "services.csv").lines()

NAMED = MappingProxyType(
    {each.name: each for each in (*map(_program, _PROGRAMS), *map(_service, _SERVICES))}
)
"""Every one of them by its name."""
SINGLE_THREADED = tuple(each["name"] for each in _PROGRAMS if each["suite"] == "spec-cpu2006")
"""The 29 of SPEC CPU2006."""
MULTITHREADED = tuple(each["name"] for each in _PROGRAMS if each["suite"] == "paragon")
"""Paragon's 22: PARSEC, SPLASH-2, BioParallel, MineBench, SPECjbb."""
PYTHIA_BATCH = (
    "streamcluster", "bodytrack", "ferret", "canneal",
    "bwaves", "bzip2", "zeusmp", "tonto", "gcc", "omnetpp", "h264ref", "gromacs", "hmmer",
    "xalancbmk", "milc", "mcf", "namd", "sjeng", "astar",
)  # fmt: skip
"""4 of PARSEC and 15 of SPEC: those of Pythia's Table 1 and text, the rest of those that cause
moderate contention; its full list is not published."""
PYTHIA_MEMORY_INTENSIVE = ("graph-analytics", "in-memory-analytics")
"""Of CloudSuite (Ferdman et al., ASPLOS 2012)."""
PYTHIA_SERVICES = ("redis", "mongodb")  # its latency-sensitive ones
