"""Slurm's nodes as servers: pure.

A server is as large as its node. What jobs of others hold there, and what Slurm gave our own jobs
beyond their allocations (it gives whole CPUs), is held by others: the rest is what Slurm has left.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from wharfinger.engines.slurm.client.base import Node
from wharfinger.engines.slurm.settings import platform_by
from wharfinger.model.platform import (
    MILLICPUS_PER_CPU,
    Condition,
    ConditionKind,
    Platform,
    Server,
)

PARTITION_LABEL = "slurm/partition"
FEATURE_LABEL = "slurm/feature."
"""Before a feature's name; see ``feature_label``."""

_MAX_LABEL = 63
_SAME_SIZE = 0.95
_GIBIBYTE = 1 << 30
_WORKS = frozenset({"idle", "mixed", "allocated", "completing"})
_OUT = frozenset(
    (
        *("down", "drain", "drained", "draining", "error", "fail", "failing", "future", "inval"),
        *("maint", "maintenance", "no_respond", "not_responding", "perfctrs", "planned_down"),
        *("power_down", "powered_down", "powering_down", "reboot", "reboot_issued"),
        *("reboot_requested", "reserved", "unknown", "blocked", "dynamic_future"),
    )
)
"""States, and flags of states, in which a node gets no new job of ours."""


@dataclass(frozen=True, slots=True)
class Held:
    """What our own running jobs hold on a node by their allocations."""

    cpu_millicpus: int = 0
    memory_bytes: int = 0


def has_size(node: Node) -> bool:
    """Whether anything can be placed there."""
    return node.cpus > 0 and node.memory_bytes > 0


def why_not_accepting(node: Node) -> str:
    """Why it gets no new work, with the reason that Slurm has; empty = it does."""
    out = sorted(node.states & _OUT)
    if not out and node.states & _WORKS:
        return ""
    state = "+".join(out or sorted(node.states)) or "in no known state"
    reason = " ".join(node.reason.split())[:200]
    return f"Slurm says {state}" + (f": {reason}" if reason else "")


def servers_of(
    nodes: Iterable[Node],
    partitions: Collection[str],
    features: Collection[str],
    own: Mapping[str, Held],
) -> dict[str, Server]:
    """The servers by name: nodes of the partitions that have a size.

    Args:
        nodes: The cluster's.
        partitions: Whose nodes are used.
        features: Those that name platforms.
        own: What ours hold by node.
    """
    used = [
        node for node in nodes if has_size(node) and not set(partitions).isdisjoint(node.partitions)
    ]
    platforms = platforms_of(used, features)
    return {
        node.name: _server(node, platforms[node.name], own.get(node.name, Held())) for node in used
    }


def platforms_of(nodes: Collection[Node], features: Collection[str]) -> dict[str, Platform]:
    """The platform of each node by its name: its feature, else its CPU type and size.

    A platform is as large as its largest node. Nodes of about the same memory are of one platform.
    """
    sizes: dict[tuple[str, int], tuple[int, int]] = {}
    for node in nodes:
        kind, size = (node.architecture, node.cpus), node.memory_bytes
        least, most = sizes.get(kind, (size, size))
        sizes[kind] = min(least, size), max(most, size)
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        least, most = sizes[node.architecture, node.cpus]
        name = _platform_name(node, features, alike=least >= _SAME_SIZE * most)
        groups.setdefault(name, []).append(node)
    found: dict[str, Platform] = {}
    for name, members in groups.items():
        platform = Platform(
            name=name,
            architecture=members[0].architecture,
            cpu_model="",
            cpu_millicpus=max(node.cpus for node in members) * MILLICPUS_PER_CPU,
            memory_bytes=max(node.memory_bytes for node in members),
        )
        found.update((node.name, platform) for node in members)
    return found


def _platform_name(node: Node, features: Collection[str], *, alike: bool) -> str:
    if named := platform_by(features, node.features):
        return named
    name = f"{(node.architecture or 'unknown').replace('_', '-')}-{node.cpus}cpu"
    if alike:
        return name
    return f"{name}-{node.memory_bytes / _GIBIBYTE:.3g}gib"


def _server(node: Node, platform: Platform, own: Held) -> Server:
    why = why_not_accepting(node)
    cpus = min(node.cpus_allocated, node.cpus) * MILLICPUS_PER_CPU
    memory = min(node.memory_allocated_bytes, node.memory_bytes)
    return Server(
        name=node.name,
        platform=platform,
        cpu_millicpus=node.cpus * MILLICPUS_PER_CPU,
        memory_bytes=node.memory_bytes,
        accepting=not why,
        conditions=(Condition(ConditionKind.DRAINING, why),) if why else (),
        others_cpu_millicpus=max(0, cpus - own.cpu_millicpus),
        others_memory_bytes=max(0, memory - own.memory_bytes),
        labels=_labels(node),
    )


def feature_label(feature: str) -> tuple[str, str]:
    """The label that stands for a feature, and its value, as manifests may name them.

    >>> feature_label("ssd"), feature_label("platform:fast")
    (('slurm/feature.ssd', 'yes'), ('slurm/feature.platform', 'fast'))
    """
    name, _, value = re.sub("[:=]", "=", feature, count=1).partition("=")
    plain = re.sub("[^A-Za-z0-9_./-]+", "-", name).strip("-_./") or "unnamed"
    return f"{FEATURE_LABEL}{plain}"[:_MAX_LABEL].rstrip("-_./"), (value or "yes")[:_MAX_LABEL]


def _labels(node: Node) -> dict[str, str]:
    labels = dict(feature_label(feature) for feature in node.features)
    if node.partitions:
        labels[PARTITION_LABEL] = node.partitions[0][:_MAX_LABEL]
    return labels
