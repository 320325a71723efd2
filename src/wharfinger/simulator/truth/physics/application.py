"""An application: what it asks of hardware for each instruction, wherever it runs.

``pools`` draws populations of these, ``named`` has those of which measurements were published,
``sources`` makes iBench's. ``coefficients`` joins one with a platform.
"""

from dataclasses import dataclass

from wharfinger.errors import InvalidInput
from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB

GRID_FROM_LOG2 = 14.0
"""Smallest size in the grid of miss curves: 16 KiB."""
GRID_PER_OCTAVE = 2
GRID_POINTS = 27
"""Sizes up to 128 MiB, two to an octave."""
GRID_BYTES = tuple(
    2.0 ** (GRID_FROM_LOG2 + index / GRID_PER_OCTAVE) for index in range(GRID_POINTS)
)


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Data that are used again and again, or once (a stream).

    Attributes:
        misses: Per instruction that go beyond a cache much smaller than it.
        size_bytes: At which half of them still do.
        steepness: How sudden that is; 2 = as for a few arrays, less = spread out.
        floor: Share of them that no cache keeps.
    """

    misses: float
    size_bytes: float
    steepness: float = 2.0
    floor: float = 0.0

    def beyond(self, cache_bytes: float) -> float:
        """Misses per instruction of a cache of that size."""
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
        """What is neither."""
        return 1 - self.integer - self.floating - self.vector


@dataclass(frozen=True, slots=True)
class Streaming:
    """Bytes that go to a device and back.

    Attributes:
        bytes_per_instruction: On average.
        own_bandwidth: At which the program takes them without co-runners, in bytes
            per nanosecond (GB/s); not more than the device has.
        depth: Requests under way at once.
    """

    bytes_per_instruction: float = 0.0
    own_bandwidth: float = 0.1
    depth: float = 1.0


@dataclass(frozen=True, slots=True)
class Serving:
    """A service: what a query takes, and how much that varies.

    Attributes:
        instructions: Of a query, mean.
        variation: Squared coefficient of variation of its service time; 0 = all alike, 1 =
            exponential.
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
        name: Of it in the ground truth.
        cycles: Per instruction in a Nehalem core whose data are all in the first-level cache.
        mix: Of instructions.
        sets: Its data, by how they are used again: together the miss curve.
        parallelism: Misses under way at once, mean, on Nehalem.
        code_bytes: That it runs through: what it loses when another takes the L1 I-cache.
        footprint_bytes: Memory that it takes.
        paging: How much it minds when memory is short: cycles per instruction at full shortage.
        threads: That it can use.
        contention: σ of the universal scalability law: what its threads wait for one another.
        coherence: κ of it: what they tell one another.
        disk: What it reads and writes.
        network: What it sends and receives.
        writes: Share of cache lines that go back to memory.
        whim: Standard deviation of the logarithm of how well each processor family suits it.
        serving: Of a service; ``None`` = it is none.
        spread: As ``contention``, between servers; so is ``gossip`` as ``coherence``.
        gossip: Of the same law between servers.
        data_bytes: Of a framework's job: what all servers together hold of it in memory, if they
            can; what a server can't hold is read from its disk again. 0 = none.
        reread: Bytes per instruction that are read again where none of it is held.
        presses: On a sibling thread, by ``coefficients.Private``: all of what it does there and
            minds; ``None`` = as its instructions and its data say.
        salt: Of the population: what is drawn by a program's name differs between two.
        source: Which of iBench's it is; empty = none.
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

    def misses(self, cache_bytes: float) -> float:
        """Per instruction, of a cache of that size."""
        return sum(each.beyond(cache_bytes) for each in self.sets)

    def speedup(self, threads: float) -> float:
        """With so many over with one (Gunther, universal scalability law); below 1 the share.

        >>> Application("p", threads=8, contention=0.1).speedup(8.0).__round__(2)
        4.71
        """
        return usl(threads, self.contention, self.coherence)

    def per_server(self, servers: int) -> float:
        """What each of so many servers does over what one alone does, waits and talk counted."""
        return usl(float(servers), self.spread, self.gossip) / servers


def usl(n: float, contention: float, coherence: float) -> float:
    """N / (1 + σ (n − 1) + κ n (n − 1)); below 1 it is n."""
    if n <= 1:
        return n
    return n / (1 + contention * (n - 1) + coherence * n * (n - 1))
