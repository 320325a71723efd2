"""Servers and the platforms that they are instances of.

A *platform* is what the papers call a server configuration or server type: two servers of
one platform are interchangeable but for what runs on them.
"""

from dataclasses import dataclass
from enum import StrEnum

MILLICPUS_PER_CPU = 1000


@dataclass(frozen=True, slots=True)
class Platform:
    """A server configuration (Paragon, table V: the server types of a cluster).

    Attributes:
        name: Unique in a cluster, e.g. ``"epyc-2x1"``.
        architecture: As ``uname -m`` says it, e.g. ``"x86_64"``.
        cpu_model: The processor's own name; empty where it is not known.
        cpu_millicpus: CPU time per second of one whole server, in thousandths of a CPU.
        memory_bytes: Memory of one whole server.
    """

    name: str
    architecture: str
    cpu_model: str
    cpu_millicpus: int
    memory_bytes: int


class ConditionKind(StrEnum):
    """What can be said of a server beyond its size; each member says what follows from it."""

    NO_CPU_QUOTA = "no-cpu-quota"
    """The kernel can't limit CPU time: workloads are stopped and continued to keep their shares."""
    NO_CPU_WEIGHT = "no-cpu-weight"
    """Shares under contention can't be set: best-effort work has only its niceness."""
    NO_CPU_SET = "no-cpu-set"
    """Workloads can't be bound to the server's CPUs by cgroup; plain affinity is used."""
    NO_MEMORY_LIMIT = "no-memory-limit"
    """Memory use can't be limited: a workload that takes too much is not stopped."""
    NO_TREE_KILL = "no-tree-kill"
    """No cgroup kill or freezer: leftovers are found by walking the process tree."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing an operator should know of a server."""

    kind: ConditionKind
    message: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server as its engine reports it: what a policy may give away of it.

    Attributes:
        name: Unique in the cluster.
        platform: Its configuration; ``cpu_millicpus`` and ``memory_bytes`` may be less than
            the platform's where others use part of the server.
        cpu_millicpus: CPU that may be allocated, in thousandths.
        memory_bytes: Memory that may be allocated.
        zone: Failure zone; empty where the engine knows none.
        accepting: Whether new work may be placed.
        conditions: What an operator should know.
    """

    name: str
    platform: Platform
    cpu_millicpus: int
    memory_bytes: int
    zone: str = ""
    accepting: bool = True
    conditions: tuple[Condition, ...] = ()
