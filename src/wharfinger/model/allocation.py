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
        ceiling_millicpus: Of best-effort work, the most CPU time that it may use; ``None`` = all
            that others leave.
    """

    cpu_millicpus: int
    memory_bytes: int
    best_effort: bool = False
    ceiling_millicpus: int | None = None

    @property
    def limit_millicpus(self) -> int | None:
        """The most CPU time that it may use; ``None`` = all that others leave."""
        return self.ceiling_millicpus if self.best_effort else self.cpu_millicpus


@dataclass(frozen=True, slots=True)
class Placement:
    """An allocation on a named server; ``role`` e.g. ``"master"``, empty = the same for all."""

    server: str
    allocation: Allocation
    role: str = ""


def cpu_of(placements: Iterable[Placement]) -> int:
    """Thousandths of a CPU on all of these servers together."""
    return sum(placement.allocation.cpu_millicpus for placement in placements)


def ceiling_of(placements: Iterable[Placement]) -> int | None:
    """The lowest ceiling, in thousandths of a CPU; ``None`` = there is none.

    >>> ceiling_of([Placement("s", Allocation(0, 1, best_effort=True, ceiling_millicpus=50))])
    50
    """
    ceilings = (placement.allocation.ceiling_millicpus for placement in placements)
    return min((each for each in ceilings if each is not None), default=None)
