"""The scan over servers against NumPy (the peer) and reading the same bytes once (the floor).

    python -m benchmarks.scan

At each size the kernel, the peer and the load index return the same ten servers; the peer computes
no counts of what was left out. The index is told of one server's change each time that it is asked:
that is what a placement costs with it.
"""

from dataclasses import dataclass, field
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import arguments, compare, report
from wharfinger.native import LoadIndex, least_loaded

SIZES = (100, 1_000, 10_000, 100_000)
KEEP = 10
CPU_MILLICPUS = 1_000
MEMORY_BYTES = 2**30


@dataclass(frozen=True)
class Cluster:
    """Columns of a cluster that is loaded at random; a tenth of the servers is closed."""

    cpu_capacity: NDArray[np.int64]
    cpu_allocated: NDArray[np.int64]
    memory_capacity: NDArray[np.int64]
    memory_allocated: NDArray[np.int64]
    accepting: NDArray[np.uint8]
    index: LoadIndex = field(default_factory=LoadIndex)

    def __post_init__(self) -> None:
        self.index.bind(
            self.cpu_capacity,
            self.cpu_allocated,
            self.memory_capacity,
            self.memory_allocated,
            self.accepting,
            len(self.accepting),
        )

    def indexed(self) -> list[int]:
        return self.index.least_loaded(CPU_MILLICPUS, MEMORY_BYTES, KEEP)[0]

    def kernel(self) -> NDArray[np.int64]:
        return least_loaded(
            self.cpu_capacity,
            self.cpu_allocated,
            self.memory_capacity,
            self.memory_allocated,
            self.accepting,
            CPU_MILLICPUS,
            MEMORY_BYTES,
            KEEP,
        )[0]

    def peer(self) -> NDArray[np.int64]:
        cpu = self.cpu_allocated + CPU_MILLICPUS
        memory = self.memory_allocated + MEMORY_BYTES
        fits = (cpu <= self.cpu_capacity) & (memory <= self.memory_capacity)
        feasible = np.flatnonzero(fits & self.accepting.view(np.bool_))
        load = cpu[feasible] / self.cpu_capacity[feasible]
        if len(load) > KEEP:
            bound = np.partition(load, KEEP - 1)[KEEP - 1]
            best = np.flatnonzero(load <= bound)
            feasible, load = feasible[best], load[best]
        memory_load = memory[feasible] / self.memory_capacity[feasible]
        return feasible[np.lexsort((memory_load, load))[:KEEP]]


def make_cluster(servers: int, seed: int) -> Cluster:
    random = np.random.default_rng(seed)
    cpu_capacity = random.choice([4_000, 16_000, 64_000], servers)
    memory_capacity = cpu_capacity * 4 * 2**20
    return Cluster(
        cpu_capacity,
        (cpu_capacity * random.uniform(0, 1, servers)).astype(np.int64),
        memory_capacity,
        (memory_capacity * random.uniform(0, 1, servers)).astype(np.int64),
        (random.uniform(0, 1, servers) < 0.9).astype(np.uint8),
    )


def run(servers: int, rounds: int, seed: int) -> dict[str, object]:
    cluster = make_cluster(servers, seed)
    if not np.array_equal(cluster.kernel(), cluster.peer()):
        raise AssertionError(f"kernel and peer differ at {servers} servers, seed {seed}")
    if cluster.kernel().tolist() != cluster.indexed():
        raise AssertionError(f"kernel and index differ at {servers} servers, seed {seed}")
    columns = np.concatenate([cluster.cpu_capacity] * 4)
    rows = cycle([row for row in range(0, servers, 7) for _ in range(2)])
    changes = cycle((1, -1))

    def indexed() -> list[int]:
        row = next(rows)
        cluster.cpu_allocated[row] += next(changes)
        cluster.index.touch(row)
        return cluster.indexed()

    contenders = {
        "kernel": cluster.kernel,
        "numpy": cluster.peer,
        "index": indexed,
        "memory-read": columns.max,
    }
    return {"servers": servers, **compare(contenders, rounds).summary("kernel")}


def main() -> None:
    options = arguments("Ratio of the least-loaded scan to NumPy and to a memory read.")
    report("scan", options, [run(size, options.rounds, options.seed) for size in SIZES])


if __name__ == "__main__":
    main()
