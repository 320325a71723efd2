"""What it costs those to come that a workload takes the last room of their size.

Cluster CPU that is free in pieces too small for what is asked for serves nobody; the idea of
weighing that by the sizes that are asked for is Weng et al.'s (FGD, USENIX ATC 2023, section 4).
"""

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array
from wharfinger.model.view import CPU_SIZES, View


def fragmentation(
    view: View, need: NDArray[np.int64] | int, rows: NDArray[np.intp] | None = None
) -> Array:
    """(R,) share of placements of whose size a server less has room, with ``need`` taken there.

    A size weighs as often as it is held now, over (N + 1)² for N servers with room for it: about
    as much, 1/N - 1/(N + 1), is added to the chance that who comes finds none of them.
    ``need`` (R,) or one for all, thousandths of a CPU, that each of these servers has free; rows
    ``None`` = all.
    """
    held, free = view.held_sizes, view.cpu_capacity - view.cpu_allocated
    size = _sizes_in(np.where(view.accepting > 0, free, 0))
    there = free if rows is None else free[rows]
    if held is None or not held.any():
        return np.zeros(len(there))
    with_room = np.bincount(size, minlength=len(CPU_SIZES) + 1)[::-1].cumsum()[::-1][1:]
    shares = np.append(0.0, (held / held.sum() / (with_room + 1.0) ** 2).cumsum())
    before = size if rows is None else size[rows]
    return np.asarray(shares[before] - shares[_sizes_in(there - need)])


def _sizes_in(millicpus: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of ``CPU_SIZES`` are at most so much; they are doubled each time."""
    exponents = np.frexp(np.maximum(millicpus, 0) // int(CPU_SIZES[0]))[1]
    return np.minimum(exponents.astype(np.int64), len(CPU_SIZES))
