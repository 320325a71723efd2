"""How likely a workload is served within some time: what users are told.

When a workload switches its queue is decided by other estimates (``switching``); this counts those
ends alone that should give it a place. A busy server gives one when one of its residents ends, if
what is free then suffices and its quality is high enough then.
"""

import numpy as np

from wharfinger.core.seams.admission import Servers
from wharfinger.model.allocation import Allocation
from wharfinger.model.arrays import Array
from wharfinger.model.view import View

GIVES = 0.4
"""Share of the ends that should give it a place which do: classes of servers change, and others
come before it. Measured (docs/arq.md)."""
TAKEN = 0.5
"""Ends that each of those takes that wait before it; the others of them are served elsewhere, or
beside it. Measured, too."""
SHAPE = 2.0
"""Of the gamma distribution of the rate of ends: it is known with an error of 1/√2 of itself."""


def after_end(quality: Array, cluster: View) -> Array:
    """(S,) each server's quality when one of its residents has ended; an empty one has all.

    What it lacks is taken to be of all residents alike.
    """
    there = np.maximum(cluster.residents, 1)
    return np.asarray(1 - (1 - quality) * (1 - 1 / there))


def has_place(cluster: View, need: Allocation, good: Servers) -> bool:
    """Whether one of these servers has room for it now."""
    cpu = cluster.cpu_capacity - cluster.cpu_allocated >= need.cpu_millicpus
    memory = cluster.memory_capacity - cluster.memory_allocated >= need.memory_bytes
    return bool((_settled(cluster) & good & cpu & memory).any())


def useful_share(cluster: View, need: Allocation, good_later: Servers) -> float:
    """Of all ends, those that should give it a place on a server that is good after that.

    What ends is taken to hold as much as the mean of its server.
    """
    residents = int(cluster.residents.sum())
    if not residents:
        return 0.0
    staying = 1 - 1 / np.maximum(cluster.residents, 1)
    cpu = cluster.cpu_capacity - cluster.cpu_allocated * staying >= need.cpu_millicpus
    memory = cluster.memory_capacity - cluster.memory_allocated * staying >= need.memory_bytes
    useful = _settled(cluster) & good_later & cpu & memory
    return int(cluster.residents[useful].sum()) / residents


def _settled(cluster: View) -> Servers:
    return np.asarray((cluster.accepting > 0) & (cluster.unsettled == 0))


def served(ends: Array, before: float) -> Array:
    """Probability that it is served, while so many wait before it.

    ``ends`` are the expected ones that should give it a place. Their rate is uncertain, so that
    their number is negative binomial: none comes with (1 + Λ / SHAPE) to the power -SHAPE.

    >>> served(np.array([0.0, 5.0, 10.0]), 0.0).round(3).tolist()
    [0.0, 0.75, 0.889]
    """
    one = 1 - (1 + GIVES * ends / SHAPE) ** -SHAPE
    return np.asarray(one ** (1 + TAKEN * before))
