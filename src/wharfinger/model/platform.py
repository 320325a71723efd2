"""Servers, and the platforms that they are instances of.

A *platform* is what the papers call a server configuration or server type: two servers of
one platform are interchangeable except for what runs on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MILLICPUS_PER_CPU = 1000


@dataclass(frozen=True, slots=True)
class Platform:
    """A server configuration (Paragon, table V); its sizes are those of one whole server.

    Attributes:
        name: Unique in a cluster, e.g. ``"epyc-2x1"``.
        architecture: As ``uname -m`` prints it, e.g. ``"x86_64"``.
        cpu_model: The processor's name; empty = unknown.
    """

    name: str
    architecture: str
    cpu_model: str
    cpu_millicpus: int
    memory_bytes: int


class ConditionKind(StrEnum):
    """What restricts a server beyond its size; each member says what follows from it."""

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
    SHARED_CPUS = "shared-cpus"
    """Another manager gives out CPUs of the server, too, and neither knows what the other runs."""
    DRAINING = "draining"
    """Its engine lets no new work start there; the message has the reason that it gives."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something an operator should know about a server."""

    kind: ConditionKind
    message: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server as its engine reports it, and what may be allocated of it.

    Attributes:
        cpu_millicpus: That may be allocated where others hold nothing; so with ``memory_bytes``.
        zone: Failure zone; empty = unknown.
        accepting: Whether new work may be placed.
        others_cpu_millicpus: What work that this manager has not placed holds of it; so with
            ``others_memory_bytes``.
        labels: By which workloads may require servers (``Workload.requires``).
    """

    name: str
    platform: Platform
    cpu_millicpus: int
    memory_bytes: int
    zone: str = ""
    accepting: bool = True
    conditions: tuple[Condition, ...] = ()
    others_cpu_millicpus: int = 0
    others_memory_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
