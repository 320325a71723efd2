"""Bubble-Up's bubble: a program that reads all over a footprint, and so holds it in the cache.

It measures contention in megabytes (Pythia 2.1 and 3.2): the score of a set of neighbors is the
size of the bubble that slows a service as much. Its reads do not wait for one another, so its
pressure is the highest of two cores.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.simulator.truth.physics.application import Application, WorkingSet
from wharfinger.simulator.truth.physics.hardware import KIB, MIB


def bubble(megabytes: float) -> Application:
    """A bubble of that size, on two cores."""
    footprint = megabytes * MIB
    return Application(
        f"bubble-{megabytes:g}",
        source="bubble",
        cycles=0.3,
        sets=(WorkingSet(0.3, footprint / 2, 6.0),),  # three of ten instructions read
        parallelism=8.0,  # a core has buffers for ten misses
        footprint_bytes=int(max(footprint, 16 * KIB)),
        threads=2,
    )


def contention_of(qos: float, megabytes: Sequence[float], curve: NDArray[np.float64]) -> float:
    """Megabytes of the smallest bubble with that effect; linear between those that were tried.

    0 means no slowdown, NaN that no bubble slows as much.

    Args:
        qos: Performance of a service with the set of neighbors, over that alone.
        megabytes: (n,) sizes, growing, above 0.
        curve: (n,) QoS with each.

    >>> contention_of(0.85, [1.0, 2.0], np.array([0.9, 0.8]))
    1.5
    """
    if qos >= 1:
        return 0.0
    sizes = np.r_[0.0, np.asarray(megabytes, dtype=np.float64)]
    levels = np.minimum.accumulate(np.r_[1.0, curve])
    reached = np.flatnonzero(levels <= qos)
    if not len(reached):
        return float("nan")
    at = int(reached[0])
    part = (levels[at - 1] - qos) / (levels[at - 1] - levels[at])
    return round(float(sizes[at - 1] + part * (sizes[at] - sizes[at - 1])), 9)
