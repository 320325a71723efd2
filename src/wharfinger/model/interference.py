"""The shared resources through which co-located workloads slow one another.

Source: Paragon (TOCS) section 2.3, iBench (dissertation chapter 5). Tolerated and caused
interference are scores 0-100 everywhere (``docs/papers.md``).
"""

from enum import StrEnum


class SharedResource(StrEnum):
    """The sources of interference (SoI) that iBench injects, one per shared resource."""

    MEMORY_CAPACITY = "memory-capacity"
    MEMORY_BANDWIDTH = "memory-bandwidth"
    STORAGE_CAPACITY = "storage-capacity"
    STORAGE_BANDWIDTH = "storage-bandwidth"
    NETWORK_BANDWIDTH = "network-bandwidth"
    L1_INSTRUCTION_CACHE = "l1-instruction-cache"
    L1_DATA_CACHE = "l1-data-cache"
    L2_CACHE = "l2-cache"
    LAST_LEVEL_CACHE = "last-level-cache"
    TLB = "tlb"
    INTEGER = "integer"
    FLOATING_POINT = "floating-point"
    VECTOR = "vector"
    # Behind the others: arrays by source are in this order, and recordings know the first ones.
    L2_BANDWIDTH = "l2-bandwidth"
    LAST_LEVEL_CACHE_BANDWIDTH = "last-level-cache-bandwidth"
    PREFETCHER = "prefetcher"
    INTERCONNECT = "interconnect"


QUALITY_SOURCES = 13
"""So many, the first ones, resource quality is the mean of: those that there are scores of."""
SCORED = tuple(SharedResource)[:QUALITY_SOURCES]
"""Those that simulated clusters profile."""

OF_A_CORE = frozenset(
    {
        SharedResource.L1_INSTRUCTION_CACHE,
        SharedResource.L1_DATA_CACHE,
        SharedResource.L2_CACHE,
        SharedResource.L2_BANDWIDTH,
        SharedResource.TLB,
        SharedResource.PREFETCHER,
        SharedResource.INTEGER,
        SharedResource.FLOATING_POINT,
        SharedResource.VECTOR,
    }
)
"""Sources that reach nothing but the cores on which they run."""

YIELDED = frozenset({SharedResource.INTEGER, SharedResource.FLOATING_POINT, SharedResource.VECTOR})
"""Best-effort work has the lowest weight: it leaves the cores to others."""
