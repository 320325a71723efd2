"""How likely a workload is served within some time: what users are told.

When a workload switches its queue is decided by other estimates (``switching``); this counts those
ends alone that should give it a place. A busy server gives one when one of its residents ends, if
what is free then suffices and its quality is high enough then.
"""

from collections.abc import Sequence

import numpy as np

from wharfinger.core.seams.admission import Servers
from wharfinger.model.allocation import Allocation
from wharfinger.model.arrays import Array
from wharfinger.model.memo import by_identity
from wharfinger.model.view import View
from wharfinger.native import ServerRooms, tiers_with_room

GIVES = 0.5
"""Share of the ends that should give it a place which do: classes of servers change, and others
come before it. Measured (docs/arq-measured.md)."""
TAKEN = 0.3
"""Ends that each of those takes that wait before it; the others of them are served elsewhere, or
beside it. Measured, too."""


VIEWS = 8
"""Of so many views the columns are kept at hand."""
TakenServers = tuple[float, float]
"""The least quality of servers that may be taken, and the one above which they may not."""


@by_identity(maxsize=VIEWS)
def server_rooms(cluster: View) -> ServerRooms:
    """Of a view, whose columns follow the cluster."""
    return ServerRooms(
        cluster.accepting,
        cluster.unsettled,
        cluster.cpu_capacity,
        cluster.cpu_allocated,
        cluster.memory_capacity,
        cluster.memory_allocated,
        cluster.residents,
        cluster.platform,
        len(cluster.platforms),
    )


def tiers_by_quality(
    need: Allocation, cluster: View, quality: Array, bounds: list[float]
) -> tuple[Sequence[Servers], list[bool]]:
    """The servers between each two qualities, and whether one there has room now."""
    return tiers_with_room(
        quality,
        cluster.accepting,
        cluster.cpu_capacity,
        cluster.cpu_allocated,
        cluster.memory_capacity,
        cluster.memory_allocated,
        need.cpu_millicpus,
        need.memory_bytes,
        bounds,
    )


def with_room(cluster: View, need: Allocation) -> Servers:
    """(S,) servers with room now: they accept work, and nothing there runs off its prediction."""
    cpu = cluster.cpu_capacity - cluster.cpu_allocated >= max(1, need.cpu_millicpus)
    memory = cluster.memory_capacity - cluster.memory_allocated >= need.memory_bytes
    open_now = (cluster.accepting > 0) & (cluster.unsettled == 0)
    return np.asarray(cpu & memory & open_now, dtype=np.bool_)
