"""Clusters as a policy sees them, server by server."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.support.cluster import MIB, server
from wharfinger.core.tables import ServerTable
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.view import Capabilities, View

NOBODY: Mapping[str, int] = MappingProxyType({})
ABLE = Capabilities()


def seen(
    *cpus: int,
    used: Mapping[str, int] = NOBODY,
    closed: tuple[str, ...] = (),
    able: Capabilities = ABLE,
) -> View:
    """Servers s0, s1, ... with so many CPUs.

    Args:
        cpus: Of each server.
        used: Thousandths of a CPU that somebody holds there, by name.
        closed: Names of those that accept no work.
        able: What the engine can do.
    """
    columns = ServerTable()
    for at, count in enumerate(cpus):
        name = f"s{at}"
        columns.put(server(name, count, accepting=name not in closed))
        if name in used:
            columns.hold([Placement(name, Allocation(used[name], MIB))])
    return columns.view(able)
