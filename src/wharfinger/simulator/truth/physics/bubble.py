"""Bubble-Up's bubble: a program that reads all over a footprint, and so holds it in the cache.

Contention is read in its megabytes (Pythia 2.1 and 3.2): the score of a set of neighbors is the
size of the bubble beside which a service is as slow as beside the set. Its reads do not wait for
one another, so it presses as much as two cores can.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.simulator.truth.physics.application import Application, WorkingSet
from wharfinger.simulator.truth.physics.hardware import KIB, MIB

NAME = "bubble"
_READS = 0.3
"""Of its instructions."""
_UNDER_WAY = 8.0
"""Misses at once: a core has buffers for ten."""


def bubble(megabytes: float) -> Application:
    """A bubble of that size, on two cores."""
    footprint = megabytes * MIB
    return Application(
        f"{NAME}-{megabytes:g}",
        source=NAME,
        cycles=0.3,
        sets=(WorkingSet(_READS, footprint / 2, 6.0),),
        parallelism=_UNDER_WAY,
        footprint_bytes=int(max(footprint, 16 * KIB)),
        threads=2,
    )


def contention_of(qos: float, megabytes: Sequence[float], curve: NDArray[np.float64]) -> float:
    """Size of the smallest bubble that does as much; linear between those that were tried.

    Args:
        qos: Of a service beside a set, over its own alone.
        megabytes: (n,) sizes, growing, above 0.
        curve: (n,) QoS beside each.

    Returns:
        Megabytes; 0 where nothing is lost; NaN where no bubble that was tried does as much.

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
