"""How likely a workload is served within some time: what users are told.

When a workload switches its queue is decided by other estimates (``switching``); this counts those
ends alone that should give it a place. A busy server gives one when one of its residents ends, if
what is free then suffices and its quality is high enough then.
"""

from collections.abc import Sequence
from math import exp

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.admission import Servers
from wharfinger.model.allocation import Allocation
from wharfinger.model.arrays import Array
from wharfinger.model.view import View
from wharfinger.native import room_by_quality, tiers_with_room

GIVES = 0.5
"""Share of the ends that should give it a place which do: classes of servers change, and others
come before it. Measured (docs/arq-measured.md)."""
TAKEN = 0.3
"""Ends that each of those takes that wait before it; the others of them are served elsewhere, or
beside it. Measured, too."""


TakenServers = tuple[float, float]
"""The least quality of servers that may be taken, and the one above which they may not."""


def room(
    cluster: View,
    quality: Array,
    need: Allocation,
    own: TakenServers,
    turned: TakenServers,
    servers: int = 1,
    suitable: NDArray[np.bool_] | None = None,
) -> tuple[bool, bool, float, float]:
    """Whether it has a place on so many servers now, and of all ends the share that gives it one.

    Both ways: on servers that it may take from its queue, and on those of the queue to which it
    turns; of ``suitable`` platforms (P,) alone, ``None`` = of all. What ends is taken to hold as
    much as the mean of its server, and what a server lacks in quality to be of all residents alike.
    Where it has a place the others are not worked out.
    """
    return room_by_quality(
        quality,
        cluster.accepting,
        cluster.unsettled,
        cluster.cpu_capacity,
        cluster.cpu_allocated,
        cluster.memory_capacity,
        cluster.memory_allocated,
        cluster.residents,
        need.cpu_millicpus,
        need.memory_bytes,
        *own,
        *turned,
        servers,
        cluster.platform,
        None if suitable is None else suitable.view(np.uint8),
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


def served(ends: float, before: float, servers: int = 1) -> float:
    """Probability that it is served on so many servers, while so many wait before it.

    ``ends`` are the expected ones that should give it a place. Their number is Poisson distributed.

    >>> [round(served(ends, 0), 3) for ends in (0.0, 2.0, 6.0)]
    [0.0, 0.632, 0.95]
    """
    return float((1 - exp(-GIVES * ends)) ** (servers + TAKEN * before))
