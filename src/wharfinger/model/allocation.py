"""How much of which servers a workload gets."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """Resources on one server.

    Attributes:
        cpu_millicpus: Guaranteed CPU time in thousandths of a CPU; 0 for best-effort work.
        memory_bytes: The limit on memory.
        best_effort: It may use any idle CPU time, at the lowest weight.
    """

    cpu_millicpus: int
    memory_bytes: int
    best_effort: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """An allocation on a named server; ``role`` e.g. ``"master"``, empty = the same for all."""

    server: str
    allocation: Allocation
    role: str = ""


def cpu_of(placements: Iterable[Placement]) -> int:
    """Thousandths of a CPU on all of these servers together."""
    return sum(placement.allocation.cpu_millicpus for placement in placements)
