"""What it costs those to come that a workload takes the last room of their size.

Cluster CPU that is free in pieces too small for what is asked for serves nobody; the idea of
weighing that by the sizes that are asked for is Weng et al.'s (FGD, USENIX ATC 2023, section 4).
"""

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array
from wharfinger.model.view import CPU_SIZES, View


def fragmentation(view: View, need: NDArray[np.int64] | int) -> Array:
    """(S,) share of placements of whose size a server less has room, with ``need`` taken there.

    A size weighs as often as it is held now, over (N + 1)² for N servers with room for it: about
    as much, 1/N - 1/(N + 1), is added to the chance that who comes finds none of them.
    ``need`` (S,) or one for all, thousandths of a CPU, that each server has free.
    """
    held = view.held_sizes
    if held is None or not held.any():
        return np.zeros(len(view.names))
    free = view.cpu_capacity - view.cpu_allocated
    before = CPU_SIZES.searchsorted(free, side="right")
    after = CPU_SIZES.searchsorted(free - need, side="right")
    counts = np.bincount(before, weights=view.accepting, minlength=len(CPU_SIZES) + 1)
    with_room = counts[::-1].cumsum()[::-1][1:]
    shares = np.append(0.0, (held / held.sum() / (with_room + 1.0) ** 2).cumsum())
    return np.asarray(shares[before] - shares[after])
