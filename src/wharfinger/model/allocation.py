"""How much of which servers a workload gets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """Resources on one server.

    Attributes:
        cpu_millicpus: Guaranteed CPU time in thousandths of a CPU; 0 for best-effort work,
            which shares what is left.
        memory_bytes: The limit on memory.
        best_effort: Whether it may use any CPU time that others leave, at the lowest weight.
    """

    cpu_millicpus: int
    memory_bytes: int
    best_effort: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """An allocation on a named server.

    Attributes:
        role: What this part of the workload does, e.g. ``"master"``; empty = what all do.
    """

    server: str
    allocation: Allocation
    role: str = ""
