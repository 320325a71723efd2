"""What the engine reads of a cluster when it opens, and whether the settings fit it."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from wharfinger.engines.slurm.client.base import Node, SlurmClient
from wharfinger.engines.slurm.servers import has_size
from wharfinger.engines.slurm.settings import (
    SlurmSettings,
    check_features,
    check_shared_dir,
    check_site,
    choose_partitions,
)
from wharfinger.errors import EngineFault, InvalidInput, WharfingerError

log = logging.getLogger(__name__)

OPEN_SECONDS = 30.0
"""How long ``open`` waits for a Slurm that does not answer."""
_OPEN_RETRY_SECONDS = 0.5

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class UsedCluster:
    """What of a cluster is used: its partitions, and of each its nodes and its limit of time."""

    nodes_by_partition: Mapping[str, Collection[str]]
    most_seconds: Mapping[str, float | None]

    @property
    def partitions(self) -> tuple[str, ...]:
        """By name."""
        return tuple(self.nodes_by_partition)

    def partition_of(self, nodes: Sequence[str]) -> str:
        """The partition for a job on these nodes; one node that is new is of the first.

        Raises ``EngineFault``: none has all of them.
        """
        for name, members in self.nodes_by_partition.items():
            if all(node in members for node in nodes):
                return name
        if len(nodes) == 1:
            return self.partitions[0]
        raise EngineFault(f"no partition has all of {', '.join(nodes)}", retryable=False)


def read_cluster(client: SlurmClient, settings: SlurmSettings) -> UsedCluster:
    """What is used of the cluster; raises ``InvalidInput`` for settings that do not fit it."""
    if settings.shared_dir is not None:
        check_shared_dir(settings.shared_dir)
    check_site(patiently(client.site))
    known = patiently(client.partitions)
    partitions = choose_partitions(settings, known)
    nodes = patiently(client.nodes)
    check_features(settings, nodes)
    _tell_of_sizeless(nodes, partitions)
    members = {partition.name: frozenset(partition.nodes) for partition in known}
    most_seconds = {partition.name: partition.max_time_seconds for partition in known}
    return UsedCluster({name: members[name] for name in partitions}, most_seconds)


def _tell_of_sizeless(nodes: Sequence[Node], partitions: Collection[str]) -> None:
    for node in nodes:
        if not has_size(node) and not set(partitions).isdisjoint(node.partitions):
            size = f"{node.cpus} CPUs and {node.memory_bytes} bytes of memory"
            log.warning("node %s has %s; it is no server until Slurm says more", node.name, size)


def patiently(ask: Callable[[], _Answer]) -> _Answer:
    """The answer of a call; Slurm may be away for a while, as after a restart of both.

    Raises ``EngineFault``, with Slurm's own words, if it does not answer or says no.
    """
    deadline = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            return ask()
        except InvalidInput:
            raise
        except WharfingerError as error:
            if not error.retryable or time.monotonic() >= deadline:
                raise EngineFault(f"--engine slurm: {error}", retryable=error.retryable) from error
            time.sleep(_OPEN_RETRY_SECONDS)
