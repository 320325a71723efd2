"""The pools of applications from which the papers' scenarios draw.

Paragon 5: 29 single-threaded, 22 multithreaded, 350 mixes of four single-threaded and 25 I/O-bound
programs (12 in ARQ and Quasar). Quasar 5: jobs of Hadoop, Spark and Storm, and services. Published
programs are varied a little; the rest is drawn, for each seed, from the ranges that
``docs/decisions/0033-physics.md`` justifies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import log
from operator import attrgetter
from types import MappingProxyType

import numpy as np

from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.physics.application import Application, Mix, Streaming, WorkingSet
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


@dataclass(frozen=True, slots=True)
class _Draw:
    random: np.random.Generator
    regime: Regime
    salt: str

    def uniform(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def log_uniform(self, low: float, high: float) -> float:
        return float(np.exp(self.random.uniform(log(low), log(high))))

    def one_of(self, *choices: int) -> int:
        return int(self.random.choice(choices))

    def around(self, sigma: float) -> float:
        """A factor with median 1."""
        return float(self.random.lognormal(0.0, sigma))


def draw_pool(pool: Pool, regime: Regime, streams: Streams) -> tuple[Application, ...]:
    """The applications of a pool, the same for the same seed of ``streams`` and regime."""
    own = Streams(streams.seed)  # whatever was drawn from these before
    random = own.of(f"physics/{pool}")
    salt = str(own.of("physics/salt").integers(2**62))
    return tuple(_MAKERS[pool](_Draw(random, regime, salt)))


def memory_load(application: Application) -> float:
    """Misses per instruction of a cache of 2 MiB; ranks programs by their pressure on memory."""
    return application.misses(2.0 * MIB)


def _published(names: Sequence[str], draw: _Draw) -> Iterator[Application]:
    return (_varied(NAMED[name], draw) for name in names)


def _varied(published: Application, draw: _Draw) -> Application:
    """A published program with another input: about a tenth off what was published."""
    misses = draw.regime.misses * draw.around(0.1)
    size = draw.around(0.2)
    return replace(
        published,
        cycles=published.cycles * draw.around(0.05),
        sets=tuple(
            replace(each, misses=each.misses * misses, size_bytes=each.size_bytes * size)
            for each in published.sets
        ),
        parallelism=1 + (published.parallelism - 1) * draw.around(0.1),
        footprint_bytes=int(published.footprint_bytes * draw.around(0.1)),
        whim=draw.uniform(0.08, 0.25),
        salt=draw.salt,
    )


def _mixes(draw: _Draw) -> Iterator[Application]:
    """Four programs at once (Sanchez and Kozyrakis, ISCA 2011), as one workload of four threads."""
    parts = list(_published(SINGLE_THREADED, draw))
    return _numbered("mix", 350, partial(_mix_of, parts), draw)


def _mix_of(programs: Sequence[Application], name: str, draw: _Draw) -> Application:
    """Four of the programs that run together and count as one: the sum of their instructions."""
    n = 4
    parts = [programs[at] for at in draw.random.integers(0, len(programs), n)]

    def mean(attribute: str) -> float:
        return float(sum(map(attrgetter(attribute), parts)) / n)

    return Application(
        name,
        cycles=mean("cycles"),
        mix=Mix(mean("mix.integer"), mean("mix.floating"), mean("mix.vector")),
        # A cache that all share has about a quarter for each.
        sets=tuple(
            replace(each, misses=each.misses / n, size_bytes=_shared_size(each, n))
            for part in parts
            for each in part.sets
        ),
        parallelism=mean("parallelism"),
        code_bytes=mean("code_bytes"),
        footprint_bytes=sum(p.footprint_bytes for p in parts),
        paging=mean("paging"),
        threads=sum(p.threads for p in parts),
        whim=mean("whim") / n**0.5,
        salt=draw.salt,
    )


def _shared_size(each: WorkingSet, n: int) -> float:
    """Data in the private caches of one core are not shared with the others."""
    return each.size_bytes * n if each.size_bytes > 256 * KIB else each.size_bytes


def _numbered(
    prefix: str, count: int, make: Callable[[str, _Draw], Application], draw: _Draw
) -> Iterator[Application]:
    width = len(str(count))
    return (make(f"{prefix}-{number:0{width}}", draw) for number in range(1, count + 1))


def _io_bound(name: str, draw: _Draw) -> Application:
    """Data mining on one node: 30 to 80% of its time it reads or writes."""
    threads = draw.one_of(1, 2, 4)
    waits, own = draw.uniform(0.3, 0.8), draw.uniform(0.07, 0.4)
    drawn = _program(name, draw, threads, footprint_gib=(0.3, 6.0))
    return replace(drawn, disk=Streaming(_share_of_time(drawn, waits, own), own))


def _program(
    name: str, draw: _Draw, threads: int, footprint_gib: tuple[float, float]
) -> Application:
    random = draw.random
    intensive = random.random() < draw.regime.intensive
    low, high = (9.0, 30.0) if intensive else (0.4, 5.0)
    misses = draw.regime.misses * draw.log_uniform(low, high) / 1000
    size = 2 * MIB * draw.around(0.8)
    floating = draw.uniform(0.0, 0.35)
    return Application(
        name,
        cycles=draw.uniform(0.4, 1.0),
        mix=Mix(draw.uniform(0.2, 0.5), floating, draw.uniform(0.0, 0.1)),
        sets=(
            WorkingSet(misses, size, floor=draw.uniform(0.05, 0.7)),
            WorkingSet(misses / 2 + 0.003, 96 * KIB, 3.0),
        ),
        parallelism=draw.uniform(1.4, 6.0),
        code_bytes=KIB * draw.log_uniform(8, 160),
        footprint_bytes=int(GIB * draw.log_uniform(*footprint_gib)),
        paging=30 + 4000 * misses,
        threads=threads,
        contention=draw.uniform(0.005, 0.12) if threads > 1 else 0.0,
        coherence=draw.log_uniform(1e-5, 1e-3) if threads > 1 else 0.0,
        whim=draw.uniform(0.08, 0.25),
        salt=draw.salt,
    )


def _hadoop(name: str, draw: _Draw) -> Application:
    """Mahout's jobs: mappers that read their blocks, spill and shuffle (Quasar 5)."""
    mappers, heap = draw.one_of(4, 8, 12), draw.uniform(0.4, 1.2)
    data = GIB * draw.log_uniform(1, 900)
    drawn = _program(name, draw, mappers, (0.5, 2.0))
    reads = _share_of_time(drawn, draw.uniform(0.2, 0.5), 0.35)
    job = replace(
        drawn,
        footprint_bytes=int(GIB * heap * mappers / 2),
        disk=Streaming(reads, 0.35),
        network=Streaming(reads * draw.uniform(0.05, 0.3), 0.3),
        spread=draw.uniform(0.01, 0.08),
        gossip=draw.log_uniform(1e-4, 5e-3),
        reread=reads * draw.uniform(0.1, 0.6),
    )
    # With more data, most tasks of a round are done before the next begins.
    return replace(on_data(job, DataSet("", data)), data_bytes=min(data, 64.0 * GIB))


def _spark(name: str, draw: _Draw) -> Application:
    """Jobs that hold their data in memory where they can, and read the rest again."""
    drawn = _program(name, draw, draw.one_of(4, 8), (1.0, 3.0))
    reads = _share_of_time(drawn, 0.05, 0.3)
    return replace(
        drawn,
        disk=Streaming(reads, 0.3),
        network=Streaming(reads, 0.3),
        spread=draw.uniform(0.02, 0.06),
        gossip=draw.uniform(5e-4, 3e-3),
        data_bytes=GIB * draw.uniform(8, 48),
        reread=_share_of_time(drawn, 0.6, 0.3),
    )


def _storm(name: str, draw: _Draw) -> Application:
    drawn = _program(name, draw, draw.one_of(4, 8), (0.5, 2.0))
    sends = _share_of_time(drawn, draw.uniform(0.1, 0.4), 0.12)
    return replace(
        drawn,
        network=Streaming(sends, 0.12),
        spread=draw.uniform(0.02, 0.1),
        gossip=draw.uniform(1e-3, 6e-3),
    )


def _share_of_time(application: Application, share: float, own_bandwidth: float) -> float:
    """Bytes per instruction with which a device takes that share of its time.

    The rest is computed on a Nehalem of 2.67 GHz with some megabytes of cache.
    """
    time = application.cycles / 2.67 + application.misses(4.0 * MIB) * 65 / application.parallelism
    alone = time / application.speedup(application.threads)
    return share / (1 - share) * alone * own_bandwidth


def _service(name: str, draw: _Draw) -> Iterator[Application]:
    """A published service, whose servers do not depend on one another."""
    first, *rest = NAMED[name].sets
    yield replace(
        NAMED[name],
        sets=(replace(first, misses=first.misses * draw.regime.misses), *rest),
        whim=draw.uniform(0.05, 0.15),
        spread=0.0,
        gossip=0.0,
        salt=draw.salt,
    )


_MAKERS: Mapping[Pool, Callable[[_Draw], Iterator[Application]]] = MappingProxyType(
    {
        Pool.SINGLE_THREADED: partial(_published, SINGLE_THREADED),
        Pool.MULTITHREADED: partial(_published, MULTITHREADED),
        Pool.MIXES: _mixes,
        Pool.IO_BOUND: partial(_numbered, "io", 25, _io_bound),
        Pool.HADOOP: partial(_numbered, "hadoop", 16, _hadoop),
        Pool.SPARK: partial(_numbered, "spark", 4, _spark),
        Pool.STORM: partial(_numbered, "storm", 4, _storm),
        Pool.MEMCACHED: partial(_service, "memcached"),
        Pool.WEBSERVER: partial(_service, "webserver"),
        Pool.CASSANDRA: partial(_service, "cassandra"),
        Pool.PYTHIA_BATCH: partial(_published, (*PYTHIA_BATCH, *PYTHIA_MEMORY_INTENSIVE)),
        Pool.PYTHIA_SERVICES: partial(_published, PYTHIA_SERVICES),
    }
)
