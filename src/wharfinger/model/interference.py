"""What co-located workloads share, and how much they mind.

Source: Paragon (TOCS) section 2.3, iBench (dissertation chapter 5); scales in
``docs/papers.md``: tolerated and caused interference are 0-100 everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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


YIELDED = frozenset({SharedResource.INTEGER, SharedResource.FLOATING_POINT, SharedResource.VECTOR})
"""Best-effort work has the lowest weight: it leaves the cores to whoever wants them."""


@dataclass(frozen=True, slots=True)
class InterferenceProfile:
    """Tolerated and caused interference of one workload, 0-100 per shared resource.

    A resource that was not measured is absent: missing is not zero.

    Attributes:
        tolerated: Source intensity up to which the workload keeps its target.
        caused: Source intensity that would slow a probe as much as this workload does.
        censored: Resources where the workload never fell below its target, so that its
            ``tolerated`` of 100 is a lower bound.
    """

    tolerated: Mapping[SharedResource, float]
    caused: Mapping[SharedResource, float]
    censored: frozenset[SharedResource] = frozenset()

    def __post_init__(self) -> None:
        for name, scores in (("tolerated", self.tolerated), ("caused", self.caused)):
            for resource, score in scores.items():
                if not 0 <= score <= 100:
                    raise ValueError(f"{name}[{resource}] is {score}; scores are 0 to 100")
