"""Programs of which measurements were published, by name: the suites that the papers ran.

Each row is what characterisations say, rounded: misses of a 256 KB cache per 1,000 instructions and
the size at which they go down (Jaleel, SPEC CPU2006 memory characterization, 2007; Bienia, Kumar,
Singh and Li, PACT 2008, for PARSEC; Woo et al., ISCA 1995, for SPLASH-2), memory taken (Gove,
SIGARCH News 35(1), 2007; Henning, same issue), instruction mix and cycles in the core (Phansalkar,
Joshi and John, ISCA 2007), overlap of misses (Eyerman and Eeckhout's interval analyses, as orders
of magnitude). What a row can't know, such as what a compiler makes of it, is drawn (``pools``).
"""

from collections.abc import Iterator
from types import MappingProxyType

from wharfinger.simulator.truth.physics.application import (
    Application,
    Mix,
    Serving,
    Streaming,
    WorkingSet,
)
from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB

_Row = tuple[str, float, float, float, float, float, float, float, float, int, int]
"""name, cycles, shares of integer, floating and vector work, misses per 1,000, their size in MiB,
share of them that streams, overlap, footprint in MiB, code in KiB."""

_SPEC: tuple[_Row, ...] = (
    ("perlbench", 0.55, 0.52, 0.00, 0.0, 1.8, 0.6, 0.10, 1.8, 520, 64),
    ("bzip2", 0.60, 0.55, 0.00, 0.0, 6.5, 2.5, 0.15, 2.2, 870, 12),
    ("gcc", 0.60, 0.50, 0.00, 0.0, 8.0, 1.5, 0.25, 2.0, 920, 96),
    ("mcf", 0.55, 0.42, 0.00, 0.0, 62.0, 5.0, 0.30, 3.2, 1700, 8),
    ("gobmk", 0.75, 0.50, 0.00, 0.0, 2.2, 0.5, 0.15, 1.6, 30, 80),
    ("hmmer", 0.40, 0.60, 0.00, 0.0, 2.5, 0.4, 0.05, 3.0, 30, 12),
    ("sjeng", 0.72, 0.52, 0.00, 0.0, 0.9, 0.6, 0.35, 1.5, 175, 40),
    ("libquantum", 0.40, 0.55, 0.00, 0.1, 27.0, 32.0, 0.90, 7.5, 100, 6),
    ("h264ref", 0.45, 0.50, 0.00, 0.1, 1.2, 0.6, 0.10, 2.5, 65, 64),
    ("omnetpp", 0.70, 0.45, 0.00, 0.0, 24.0, 3.5, 0.10, 1.6, 155, 96),
    ("astar", 0.70, 0.45, 0.00, 0.0, 12.0, 3.0, 0.15, 1.5, 320, 10),
    ("xalancbmk", 0.65, 0.45, 0.00, 0.0, 16.0, 1.8, 0.08, 1.9, 420, 128),
    ("bwaves", 0.50, 0.25, 0.25, 0.1, 20.0, 8.0, 0.75, 6.5, 890, 12),
    ("gamess", 0.42, 0.30, 0.35, 0.0, 0.5, 0.3, 0.05, 2.0, 40, 96),
    ("milc", 0.48, 0.20, 0.22, 0.2, 26.0, 16.0, 0.80, 5.5, 690, 16),
    ("zeusmp", 0.52, 0.25, 0.30, 0.1, 8.0, 4.0, 0.55, 4.5, 510, 48),
    ("gromacs", 0.50, 0.22, 0.20, 0.2, 0.9, 0.5, 0.20, 2.5, 30, 32),
    ("cactusADM", 0.65, 0.15, 0.50, 0.0, 8.5, 5.0, 0.55, 3.5, 640, 64),
    ("leslie3d", 0.50, 0.22, 0.28, 0.1, 22.0, 6.0, 0.65, 5.5, 130, 24),
    ("namd", 0.50, 0.25, 0.40, 0.1, 0.7, 0.5, 0.15, 3.0, 50, 24),
    ("dealII", 0.50, 0.35, 0.22, 0.0, 3.5, 1.5, 0.30, 2.6, 810, 64),
    ("soplex", 0.55, 0.35, 0.18, 0.0, 30.0, 4.0, 0.50, 3.5, 440, 32),
    ("povray", 0.55, 0.30, 0.30, 0.0, 0.2, 0.3, 0.10, 1.8, 6, 96),
    ("calculix", 0.42, 0.28, 0.35, 0.0, 1.6, 0.8, 0.30, 2.8, 180, 64),
    ("GemsFDTD", 0.55, 0.22, 0.30, 0.1, 25.0, 9.0, 0.65, 5.0, 840, 32),
    ("tonto", 0.50, 0.30, 0.32, 0.0, 1.2, 0.4, 0.15, 2.2, 45, 128),
    ("lbm", 0.55, 0.15, 0.35, 0.1, 24.0, 64.0, 0.92, 7.0, 410, 4),
    ("wrf", 0.52, 0.25, 0.30, 0.1, 8.5, 4.0, 0.50, 4.0, 700, 128),
    ("sphinx3", 0.50, 0.30, 0.25, 0.1, 14.0, 6.0, 0.20, 4.0, 50, 24),
)

_Threaded = tuple[str, int, float, float]
"""name, threads, contention and coherence in the universal scalability law."""

_PARALLEL: tuple[tuple[_Row, _Threaded], ...] = (
    (("blackscholes", 0.50, 0.25, 0.30, 0.1, 0.3, 0.4, 0.40, 3.0, 620, 4), ("", 8, 0.010, 1e-5)),
    (("bodytrack", 0.50, 0.30, 0.25, 0.1, 1.8, 3.0, 0.30, 2.5, 40, 48), ("", 4, 0.040, 2e-4)),
    (("facesim", 0.55, 0.25, 0.30, 0.1, 9.0, 16.0, 0.60, 4.0, 310, 64), ("", 8, 0.050, 2e-4)),
    (("ferret", 0.55, 0.35, 0.20, 0.1, 5.0, 10.0, 0.35, 2.5, 100, 48), ("", 8, 0.030, 1e-4)),
    (("fluidanimate", 0.50, 0.25, 0.30, 0.0, 3.5, 8.0, 0.55, 3.0, 500, 16), ("", 8, 0.040, 1e-4)),
    (("raytrace", 0.55, 0.30, 0.25, 0.1, 1.5, 4.0, 0.25, 2.0, 1100, 64), ("", 8, 0.030, 1e-4)),
    (("swaptions", 0.50, 0.28, 0.32, 0.0, 0.2, 0.5, 0.10, 2.0, 10, 12), ("", 8, 0.006, 1e-5)),
    (("canneal", 0.65, 0.40, 0.05, 0.0, 19.0, 40.0, 0.25, 1.8, 940, 12), ("", 4, 0.060, 4e-4)),
    (("barnes", 0.50, 0.25, 0.35, 0.0, 2.0, 1.5, 0.15, 1.8, 70, 16), ("", 8, 0.040, 3e-4)),
    (("fft", 0.45, 0.25, 0.35, 0.0, 11.0, 12.0, 0.70, 5.0, 200, 8), ("", 8, 0.050, 5e-4)),
    (("lu", 0.42, 0.22, 0.38, 0.1, 4.0, 2.0, 0.20, 4.0, 34, 8), ("", 4, 0.060, 4e-4)),
    (("ocean", 0.50, 0.22, 0.32, 0.0, 24.0, 14.0, 0.65, 5.0, 220, 24), ("", 8, 0.070, 8e-4)),
    (("radix", 0.48, 0.55, 0.00, 0.0, 17.0, 8.0, 0.75, 5.5, 260, 4), ("", 8, 0.050, 6e-4)),
    (("water", 0.45, 0.25, 0.38, 0.0, 0.5, 0.6, 0.10, 2.0, 12, 16), ("", 4, 0.030, 1e-4)),
    (("genenet", 0.60, 0.40, 0.10, 0.0, 10.0, 2.5, 0.20, 1.8, 480, 16), ("", 4, 0.080, 6e-4)),
    (("svm", 0.50, 0.30, 0.25, 0.1, 15.0, 6.0, 0.60, 4.5, 330, 12), ("", 4, 0.070, 5e-4)),
    (("semphy", 0.50, 0.30, 0.30, 0.0, 3.0, 1.5, 0.20, 2.0, 160, 24), ("", 4, 0.050, 2e-4)),
    (("plsa", 0.45, 0.55, 0.00, 0.1, 6.0, 1.2, 0.30, 3.5, 210, 12), ("", 4, 0.050, 2e-4)),
    (("kmeans", 0.45, 0.30, 0.28, 0.1, 12.0, 5.0, 0.70, 5.0, 110, 6), ("", 8, 0.060, 4e-4)),
    (("specjbb-2", 0.75, 0.42, 0.00, 0.0, 6.0, 3.0, 0.15, 1.9, 1024, 160), ("", 2, 0.030, 5e-4)),
    (("specjbb-4", 0.75, 0.42, 0.00, 0.0, 6.5, 4.5, 0.15, 1.9, 1536, 160), ("", 4, 0.040, 8e-4)),
    (("specjbb-8", 0.75, 0.42, 0.00, 0.0, 7.0, 7.0, 0.15, 1.9, 2560, 160), ("", 8, 0.050, 1e-3)),
)

_FURTHER: tuple[tuple[_Row, _Threaded], ...] = (
    (("streamcluster", 0.45, 0.28, 0.30, 0.1, 13.0, 14.0, 0.65, 4.5, 110, 8), ("", 4, 0.06, 4e-4)),
    (("vips", 0.50, 0.35, 0.20, 0.1, 2.2, 2.0, 0.45, 3.0, 60, 64), ("", 4, 0.03, 1e-4)),
    (("x264", 0.48, 0.40, 0.05, 0.2, 2.0, 3.0, 0.35, 2.8, 90, 64), ("", 4, 0.05, 2e-4)),
    (("freqmine", 0.55, 0.45, 0.05, 0.0, 2.8, 3.0, 0.20, 1.9, 560, 16), ("", 4, 0.06, 3e-4)),
    (("graph-analytics", 0.65, 0.4, 0.05, 0.0, 26.0, 30.0, 0.3, 2.2, 5600, 64),
     ("", 2, 0.06, 5e-4)),
    (("in-memory-analytics", 0.6, 0.38, 0.15, 0.0, 32.0, 24.0, 0.45, 3.6, 6000, 96),
     ("", 2, 0.05, 4e-4)),
)  # fmt: skip
"""PARSEC's that Paragon did not run, and the two of CloudSuite (Ferdman et al., ASPLOS 2012) that
Pythia calls memory-intensive."""

_KEPT_BY_L2 = 0.12  # of a row's misses, as many more that a 256 KB cache keeps


def _application(row: _Row, threads: _Threaded = ("", 1, 0.0, 0.0)) -> Application:
    name, cycles, integer, floating, vector, misses, size, streams, overlap, memory, code = row
    return Application(
        name,
        cycles=cycles,
        mix=Mix(integer, floating, vector),
        sets=(
            WorkingSet(misses / 1000, size * MIB, floor=streams),
            WorkingSet((1 + _KEPT_BY_L2 * misses) / 1000 * 3, 96 * KIB, 3.0),
        ),
        parallelism=overlap,
        code_bytes=code * KIB,
        footprint_bytes=memory * MIB,
        paging=30 + 4 * misses,
        threads=threads[1],
        contention=threads[2],
        coherence=threads[3],
    )


def _all() -> Iterator[Application]:
    yield from map(_application, _SPEC)
    for row, threads in (*_PARALLEL, *_FURTHER):
        yield _application(row, threads)
    yield from _stores()


def _stores() -> Iterator[Application]:
    """Redis and MongoDB under YCSB, a million records, mostly read (Pythia 5.1).

    Stores answer from memory that no cache keeps, and run much of the kernel's code: accesses to
    the last level by the dozen per 1,000 instructions, few of which a larger cache keeps (Ferdman
    et al., ASPLOS 2012; Kanev et al., ISCA 2015). How many it keeps is set such that one, two and
    three neighbors that load memory do to them what Pythia's Table 2 says.
    """
    for name, cycles, misses, overlap, code, memory, serving in (
        ("redis", 0.9, 8.0, 1.8, 120, 1.5, Serving(20_000, 0.8)),
        ("mongodb", 0.9, 4.0, 3.0, 400, 1.5, Serving(150_000, 1.2)),
    ):
        yield Application(
            name,
            cycles=cycles,
            mix=Mix(0.42),
            sets=(
                WorkingSet(misses / 1000, 0.5 * MIB, 1.5, floor=0.4),
                WorkingSet(0.012, 96 * KIB, 3.0),
            ),
            parallelism=overlap,
            code_bytes=code * KIB,
            footprint_bytes=int(memory * GIB),
            threads=2,
            contention=0.1,
            network=Streaming(0.01, 1.0, depth=64.0),
            serving=serving,
        )


NAMED = MappingProxyType({each.name: each for each in _all()})
"""Every one of them by its name."""
SINGLE_THREADED = tuple(row[0] for row in _SPEC)
"""The 29 of SPEC CPU2006."""
MULTITHREADED = tuple(row[0] for row, _ in _PARALLEL)
"""Paragon's 22: PARSEC, SPLASH-2, BioParallel, MineBench, SPECjbb."""
PYTHIA_BATCH = (
    "streamcluster", "bodytrack", "ferret", "canneal",
    "bwaves", "bzip2", "zeusmp", "tonto", "gcc", "omnetpp", "h264ref", "gromacs", "hmmer",
    "xalancbmk", "milc", "mcf", "namd", "sjeng", "astar",
)  # fmt: skip
"""4 of PARSEC and 15 of SPEC: those of Pythia's Table 1 and text, the rest of those that cause
moderate contention; its full list is not published."""
PYTHIA_MEMORY_INTENSIVE = ("graph-analytics", "in-memory-analytics")
PYTHIA_SERVICES = ("redis", "mongodb")
"""Its latency-sensitive ones."""
