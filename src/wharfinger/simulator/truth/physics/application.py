"""An application: what it asks of hardware for each instruction, whatever the platform.

``pools``, ``named`` and ``sources`` make them; ``coefficients`` joins one with a platform.
"""

from dataclasses import dataclass

from wharfinger.errors import InvalidInput
from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB

GRID_BYTES = tuple(2.0 ** (14 + index / 2) for index in range(27))
"""Sizes at which miss curves are told: 16 KiB to 128 MiB, two to an octave."""


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Data that are used again and again, or once (a stream).

    Attributes:
        misses: Per instruction, of a cache much smaller than it.
        size_bytes: Of a cache with half as many.
        steepness: Of the curve; 2 = as for a few arrays, less = spread out.
        floor: Share of misses that no cache avoids.
    """

    misses: float
    size_bytes: float
    steepness: float = 2.0
    floor: float = 0.0

    def beyond(self, cache_bytes: float) -> float:
        """Misses per instruction."""
        kept = 1 / (1 + (self.size_bytes / cache_bytes) ** self.steepness)
        return float(self.misses * (1 - (1 - self.floor) * kept))


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of instructions by what executes them; the rest is loads, stores and branches."""

    integer: float = 0.4
    floating: float = 0.0
    vector: float = 0.0

    def __post_init__(self) -> None:
        if min(self.integer, self.floating, self.vector, self.other) < -1e-9:
            raise InvalidInput("an instruction mix: shares are 0 or more, and at most 1 together")

    @property
    def other(self) -> float:
        """The rest."""
        return 1 - self.integer - self.floating - self.vector


@dataclass(frozen=True, slots=True)
class Streaming:
    """Bytes to and from a device.

    Attributes:
        own_bandwidth: In GB/s, alone; not more than the device has.
        depth: Requests under way at once.
    """

    bytes_per_instruction: float = 0.0
    own_bandwidth: float = 0.1
    depth: float = 1.0


@dataclass(frozen=True, slots=True)
class Serving:
    """Queries of a service: mean instructions, and squared coefficient of variation of their time.

    A variation of 0 is a constant time, 1 an exponential distribution.
    """

    instructions: float
    variation: float = 1.0

    def __post_init__(self) -> None:
        if self.instructions <= 0 or self.variation < 0:
            raise InvalidInput("a service: instructions above 0, variation 0 or more")


@dataclass(frozen=True, slots=True)
class Application:
    """A program on one server, per instruction.

    Attributes:
        cycles: Per instruction in a Nehalem core whose data are all in the first-level cache.
        sets: Its data, by how they are used again: together the miss curve.
        parallelism: Misses under way at once, mean, on Nehalem.
        code_bytes: That it runs through: contention for the L1 instruction cache.
        paging: Cycles per instruction at full shortage of memory.
        contention: σ of the universal scalability law: its threads wait for one another.
        coherence: κ of it: they exchange data.
        writes: Share of cache lines that go back to memory.
        whim: Idiosyncratic noise: standard deviation of the logarithm of how well each processor
            family suits it.
        spread: As ``contention``, between servers; ``gossip`` as ``coherence``.
        data_bytes: Of a framework's job: its data, which all servers together hold in memory, if
            they can; a server reads the rest from its disk again.
        reread: Bytes per instruction that are read again where none of the data are in memory.
        presses: Pressure on ``coefficients.CORE_RESOURCES``; ``None`` = that of its instructions
            and its data.
        salt: Of the population: the same name is drawn differently in two populations.
        source: Which of iBench's sources it is; empty = none.
    """

    name: str
    cycles: float = 0.6
    mix: Mix = Mix()
    sets: tuple[WorkingSet, ...] = (WorkingSet(0.002, 1 * MIB),)
    parallelism: float = 2.0
    code_bytes: float = 16 * KIB
    footprint_bytes: int = GIB // 4
    paging: float = 40.0
    threads: int = 1
    contention: float = 0.0
    coherence: float = 0.0
    disk: Streaming = Streaming()
    network: Streaming = Streaming()
    writes: float = 0.3
    whim: float = 0.0
    serving: Serving | None = None
    spread: float = 0.03
    gossip: float = 0.001
    data_bytes: float = 0.0
    reread: float = 0.0
    presses: tuple[float, ...] | None = None
    salt: str = ""
    source: str = ""

    @property
    def query_instructions(self) -> float:
        """Of a query; 1 where there are no queries."""
        return self.serving.instructions if self.serving else 1.0

    def misses(self, cache_bytes: float) -> float:
        """Misses per instruction of a cache of that size."""
        missed = 0.0
        for each in self.sets:  # Asked too often for a generator.
            missed += each.beyond(cache_bytes)
        return missed

    def speedup(self, threads: float) -> float:
        """Over one thread (Gunther, universal scalability law).

        >>> Application("p", threads=8, contention=0.1).speedup(8.0).__round__(2)
        4.71
        """
        return usl(threads, self.contention, self.coherence)

    def per_server(self, servers: int) -> float:
        """Rate of each of so many servers over that of one alone."""
        return usl(float(servers), self.spread, self.gossip) / servers


def usl(n: float, contention: float, coherence: float) -> float:
    """N / (1 + σ (n − 1) + κ n (n − 1)); below 1 it is n."""
    if n <= 1:
        return n
    return n / (1 + contention * (n - 1) + coherence * n * (n - 1))
