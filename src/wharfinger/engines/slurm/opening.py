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
    """What of a cluster is used: its partitions, and the one in which each node is."""

    partitions: tuple[str, ...]
    partition_of_node: Mapping[str, str]

    def partition_of(self, node: str) -> str:
        """The partition for a job on a node; a node that is new is of the first."""
        return self.partition_of_node.get(node, self.partitions[0])


def read_cluster(client: SlurmClient, settings: SlurmSettings) -> UsedCluster:
    """What is used of the cluster; raises ``InvalidInput`` for settings that do not fit it."""
    if settings.shared_dir is not None:
        check_shared_dir(settings.shared_dir)
    check_site(patiently(client.site))
    known = patiently(client.partitions)
    partitions = choose_partitions(settings, known)
    partition_of_node = {
        node: partition.name
        for partition in reversed(known)
        if partition.name in partitions
        for node in partition.nodes
    }
    nodes = patiently(client.nodes)
    check_features(settings, nodes)
    _tell_of_sizeless(nodes, partitions)
    return UsedCluster(partitions, partition_of_node)


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
