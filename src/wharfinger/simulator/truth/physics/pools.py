"""Populations: the pools of applications from which the papers' scenarios draw.

Paragon 5: 29 single-threaded, 22 multithreaded, 350 mixes of four single-threaded and 25 I/O-bound
programs (12 in ARQ and Quasar). Quasar 5: jobs of Hadoop, Spark and Storm with data sets and
parameters, services like memcached, a web server and Cassandra. Named programs have what was
published of them and a little of their own; the rest is drawn from the ranges that
``docs/decisions/0033-physics.md`` justifies. A pool is drawn by a seed's streams, so that a result
over seeds is one over populations.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import log
from types import MappingProxyType

import numpy as np

from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.physics.application import (
    Application,
    Mix,
    Serving,
    Streaming,
    WorkingSet,
)
from wharfinger.simulator.truth.physics.datasets import DataSet, on_data
from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB
from wharfinger.simulator.truth.physics.named import (
    MULTITHREADED,
    NAMED,
    PYTHIA_BATCH,
    PYTHIA_MEMORY_INTENSIVE,
    PYTHIA_SERVICES,
    SINGLE_THREADED,
)
from wharfinger.simulator.truth.physics.regimes import Regime

_Random = np.random.Generator


class Pool(StrEnum):
    """What a class of a scenario draws from."""

    SINGLE_THREADED = "single-threaded"
    MULTITHREADED = "multithreaded"
    MIXES = "mixes"
    IO_BOUND = "io-bound"
    HADOOP = "hadoop"
    SPARK = "spark"
    STORM = "storm"
    MEMCACHED = "memcached"
    WEBSERVER = "webserver"
    CASSANDRA = "cassandra"
    PYTHIA_BATCH = "pythia-batch"
    PYTHIA_SERVICES = "pythia-services"


SIZES: Mapping[Pool, int] = MappingProxyType(
    {
        Pool.SINGLE_THREADED: len(SINGLE_THREADED),
        Pool.MULTITHREADED: len(MULTITHREADED),
        Pool.MIXES: 350,
        Pool.IO_BOUND: 25,
        Pool.HADOOP: 16,
        Pool.SPARK: 4,
        Pool.STORM: 4,
        Pool.MEMCACHED: 1,
        Pool.WEBSERVER: 1,
        Pool.CASSANDRA: 1,
        Pool.PYTHIA_BATCH: len(PYTHIA_BATCH) + len(PYTHIA_MEMORY_INTENSIVE),
        Pool.PYTHIA_SERVICES: len(PYTHIA_SERVICES),
    }
)
"""How many applications each has."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """What a pool's maker is given."""

    random: _Random
    regime: Regime
    salt: str
    count: int


def draw_pool(pool: Pool, regime: Regime, streams: Streams) -> tuple[Application, ...]:
    """The applications of a pool, the same for the same seed and regime.

    Args:
        pool: Which.
        regime: That scales what it draws.
        streams: Of the run: its seed is what counts.
    """
    own = Streams(streams.seed)  # Whoever drew before, and however often.
    random = own.of(f"physics/{pool}")
    salt = str(own.of("physics/salt").integers(2**62))
    made = _MAKERS[pool](_Draw(random, regime, salt, SIZES[pool]))
    return tuple(made)


def memory_load(application: Application) -> float:
    """Misses of a cache of 2 MiB per instruction: by which programs load memory."""
    return application.misses(2.0 * MIB)


# --- single servers -------------------------------------------------------------------------


def _single(draw: _Draw) -> Iterator[Application]:
    yield from (_varied(NAMED[name], draw) for name in SINGLE_THREADED)


def _multi(draw: _Draw) -> Iterator[Application]:
    yield from (_varied(NAMED[name], draw) for name in MULTITHREADED)


def _pythia_batch(draw: _Draw) -> Iterator[Application]:
    for name in (*PYTHIA_BATCH, *PYTHIA_MEMORY_INTENSIVE):
        yield _varied(NAMED[name], draw)


def _pythia_services(draw: _Draw) -> Iterator[Application]:
    yield from (_varied(NAMED[name], draw) for name in PYTHIA_SERVICES)


def _varied(known: Application, draw: _Draw) -> Application:
    """A published program with an input of its own: a tenth around what was published."""
    random = draw.random
    misses = draw.regime.misses * _around(random, 0.1)
    size = _around(random, 0.2)
    return replace(
        known,
        cycles=known.cycles * _around(random, 0.05),
        sets=tuple(
            replace(each, misses=each.misses * misses, size_bytes=each.size_bytes * size)
            for each in known.sets
        ),
        parallelism=1 + (known.parallelism - 1) * _around(random, 0.1),
        footprint_bytes=int(known.footprint_bytes * _around(random, 0.1)),
        whim=float(random.uniform(0.08, 0.25)),
        salt=draw.salt,
    )


def _mixes(draw: _Draw) -> Iterator[Application]:
    """Four programs at once (Sanchez and Kozyrakis, ISCA 2011), as one workload of four threads."""
    parts = list(_single(draw))
    for number in range(draw.count):
        four = [parts[at] for at in draw.random.integers(0, len(parts), 4)]
        yield mix_of(f"mix-{number + 1:03}", four, draw.salt)


def mix_of(name: str, parts: list[Application], salt: str) -> Application:
    """Programs that run side by side and count as one: the sum of their instructions."""
    n = len(parts)

    def mean(value: Callable[[Application], float]) -> float:
        return sum(value(part) for part in parts) / n

    return Application(
        name,
        cycles=mean(lambda p: p.cycles),
        mix=Mix(
            mean(lambda p: p.mix.integer),
            mean(lambda p: p.mix.floating),
            mean(lambda p: p.mix.vector),
        ),
        # A cache that all share has about a quarter for each.
        sets=tuple(
            replace(each, misses=each.misses / n, size_bytes=_shared_size(each, n))
            for part in parts
            for each in part.sets
        ),
        parallelism=mean(lambda p: p.parallelism),
        code_bytes=mean(lambda p: p.code_bytes),
        footprint_bytes=sum(p.footprint_bytes for p in parts),
        paging=mean(lambda p: p.paging),
        threads=sum(p.threads for p in parts),
        whim=mean(lambda p: p.whim) / n**0.5,
        salt=salt,
    )


def _shared_size(each: WorkingSet, n: int) -> float:
    """What stands in the caches of one core is not shared with the others."""
    return each.size_bytes * n if each.size_bytes > 256 * KIB else each.size_bytes


def _io_bound(draw: _Draw) -> Iterator[Application]:
    """Data mining on one node: 30 to 80% of its time it reads or writes."""
    random = draw.random
    for number in range(draw.count):
        threads = int(random.choice([1, 2, 4]))
        waits, own = float(random.uniform(0.3, 0.8)), float(random.uniform(0.07, 0.4))
        drawn = _program(f"io-{number + 1:02}", draw, threads, footprint_gib=(0.3, 6.0))
        per_instruction = waits / (1 - waits) * _typical_time(drawn) * own
        yield replace(drawn, disk=Streaming(per_instruction, own))


def _program(
    name: str, draw: _Draw, threads: int, footprint_gib: tuple[float, float]
) -> Application:
    """A program of which nothing was published."""
    random = draw.random
    intensive = random.random() < draw.regime.intensive
    low, high = (9.0, 30.0) if intensive else (0.4, 5.0)
    misses = draw.regime.misses * float(np.exp(random.uniform(log(low), log(high)))) / 1000
    size = 2 * MIB * float(random.lognormal(0.0, 0.8))
    floating = float(random.uniform(0.0, 0.35))
    return Application(
        name,
        cycles=float(random.uniform(0.4, 1.0)),
        mix=Mix(float(random.uniform(0.2, 0.5)), floating, float(random.uniform(0.0, 0.1))),
        sets=(
            WorkingSet(misses, size, floor=float(random.uniform(0.05, 0.7))),
            WorkingSet(misses / 2 + 0.003, 96 * KIB, 3.0),
        ),
        parallelism=float(random.uniform(1.4, 6.0)),
        code_bytes=KIB * float(np.exp(random.uniform(log(8), log(160)))),
        footprint_bytes=int(GIB * np.exp(random.uniform(*np.log(footprint_gib)))),
        paging=30 + 4000 * misses,
        threads=threads,
        contention=float(random.uniform(0.005, 0.12)) if threads > 1 else 0.0,
        coherence=float(np.exp(random.uniform(log(1e-5), log(1e-3)))) if threads > 1 else 0.0,
        whim=float(random.uniform(0.08, 0.25)),
        salt=draw.salt,
    )


def _typical_time(application: Application) -> float:
    """Ns per instruction on a Nehalem of 2.67 GHz with some megabytes of cache."""
    time = application.cycles / 2.67 + application.misses(4.0 * MIB) * 65 / application.parallelism
    return time / application.speedup(application.threads)


# --- frameworks -----------------------------------------------------------------------------


def _hadoop(draw: _Draw) -> Iterator[Application]:
    """Mahout's jobs: mappers that read their blocks, spill and shuffle (Quasar 5)."""
    random = draw.random
    for number in range(draw.count):
        mappers = int(random.choice([4, 8, 12]))
        heap = float(random.uniform(0.4, 1.2))
        data = GIB * float(np.exp(random.uniform(log(1), log(900))))
        drawn = _program(f"hadoop-{number + 1:02}", draw, mappers, (0.5, 2.0))
        reads = _share_of_time(drawn, float(random.uniform(0.2, 0.5)), 0.35)
        job = replace(
            drawn,
            footprint_bytes=int(GIB * heap * mappers / 2),
            disk=Streaming(reads, 0.35),
            network=Streaming(reads * float(random.uniform(0.05, 0.3)), 0.3),
            spread=float(random.uniform(0.01, 0.08)),
            gossip=float(np.exp(random.uniform(log(1e-4), log(5e-3)))),
            reread=reads * float(random.uniform(0.1, 0.6)),
        )
        # Of more than this a round's tasks have most done before the next begins.
        yield replace(on_data(job, DataSet("", data)), data_bytes=min(data, 64.0 * GIB))


def _spark(draw: _Draw) -> Iterator[Application]:
    """Holds its data in memory where it can: what it can't, it reads again."""
    random = draw.random
    for number in range(draw.count):
        drawn = _program(f"spark-{number + 1}", draw, int(random.choice([4, 8])), (1.0, 3.0))
        reads = _share_of_time(drawn, 0.05, 0.3)
        yield replace(
            drawn,
            disk=Streaming(reads, 0.3),
            network=Streaming(reads, 0.3),
            spread=float(random.uniform(0.02, 0.06)),
            gossip=float(random.uniform(5e-4, 3e-3)),
            data_bytes=GIB * float(random.uniform(8, 48)),
            reread=_share_of_time(drawn, 0.6, 0.3),
        )


def _storm(draw: _Draw) -> Iterator[Application]:
    """Streams: little memory, much network."""
    random = draw.random
    for number in range(draw.count):
        drawn = _program(f"storm-{number + 1}", draw, int(random.choice([4, 8])), (0.5, 2.0))
        sends = _share_of_time(drawn, float(random.uniform(0.1, 0.4)), 0.12)
        yield replace(
            drawn,
            network=Streaming(sends, 0.12),
            spread=float(random.uniform(0.02, 0.1)),
            gossip=float(random.uniform(1e-3, 6e-3)),
        )


def _share_of_time(application: Application, share: float, own_bandwidth: float) -> float:
    """Bytes per instruction with which a device takes that share of its time."""
    return share / (1 - share) * _typical_time(application) * own_bandwidth


# --- services -------------------------------------------------------------------------------


def _service(draw: _Draw, known: Application, misses: WorkingSet) -> Application:
    """One that is published, in this population: its misses, its whim; its servers do not talk."""
    scaled = replace(misses, misses=misses.misses * draw.regime.misses)
    return replace(
        known,
        sets=(scaled, *known.sets),
        parallelism=2.0,
        whim=float(draw.random.uniform(0.05, 0.15)),
        spread=0.0,
        gossip=0.0,
        salt=draw.salt,
    )


def _memcached(draw: _Draw) -> Iterator[Application]:
    """A cache in memory: about 25,000 instructions a query, most of them the kernel's.

    Two misses of every cache for each key (Atikoglu et al., SIGMETRICS 2012; Leverich and
    Kozyrakis, EuroSys 2014).
    """
    known = Application(
        "memcached",
        cycles=0.95,
        mix=Mix(0.42),
        sets=(WorkingSet(0.012, 96 * KIB, 3.0),),
        code_bytes=200 * KIB,
        footprint_bytes=14 * GIB,
        paging=200.0,
        threads=24,
        contention=0.01,
        coherence=2e-4,
        network=Streaming(300 / 25_000, 1.0, depth=64.0),
        serving=Serving(25_000, 0.6),
    )
    yield _service(draw, known, WorkingSet(0.006, 3 * MIB, floor=0.35))


def _webserver(draw: _Draw) -> Iterator[Application]:
    """HotCRP: PHP and a data base that memory holds; tens of millions of instructions a page."""
    known = Application(
        "webserver",
        cycles=0.85,
        mix=Mix(0.45),
        sets=(WorkingSet(0.016, 96 * KIB, 3.0),),
        code_bytes=400 * KIB,
        footprint_bytes=6 * GIB,
        paging=120.0,
        threads=24,
        contention=0.015,
        coherence=3e-4,
        network=Streaming(30_000 / 25e6, 1.0, depth=64.0),
        serving=Serving(25e6, 1.4),
    )
    yield replace(_service(draw, known, WorkingSet(0.009, 2.5 * MIB, floor=0.1)), parallelism=1.8)


def _cassandra(draw: _Draw) -> Iterator[Application]:
    """A store on disk: 400,000 instructions a query, of which three in ten read a block."""
    known = Application(
        "cassandra",
        cycles=0.9,
        mix=Mix(0.43),
        sets=(WorkingSet(0.014, 96 * KIB, 3.0),),
        code_bytes=300 * KIB,
        footprint_bytes=4 * GIB,
        paging=120.0,
        threads=16,
        contention=0.03,
        coherence=4e-4,
        disk=Streaming(0.3 * 4096 / 400_000, 0.4, depth=24.0),
        network=Streaming(1500 / 400_000, 1.0, depth=64.0),
        serving=Serving(400_000, 2.0),
    )
    yield _service(draw, known, WorkingSet(0.008, 4 * MIB, floor=0.3))


def _around(random: _Random, sigma: float) -> float:
    return float(random.lognormal(0.0, sigma))


_MAKERS: Mapping[Pool, Callable[[_Draw], Iterator[Application]]] = MappingProxyType(
    {
        Pool.SINGLE_THREADED: _single,
        Pool.MULTITHREADED: _multi,
        Pool.MIXES: _mixes,
        Pool.IO_BOUND: _io_bound,
        Pool.HADOOP: _hadoop,
        Pool.SPARK: _spark,
        Pool.STORM: _storm,
        Pool.MEMCACHED: _memcached,
        Pool.WEBSERVER: _webserver,
        Pool.CASSANDRA: _cassandra,
        Pool.PYTHIA_BATCH: _pythia_batch,
        Pool.PYTHIA_SERVICES: _pythia_services,
    }
)
