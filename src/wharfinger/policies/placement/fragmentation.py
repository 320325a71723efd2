"""What taking CPU of a server costs those to come who fit on it and not on smaller ones.

Free CPU in pieces too small for what is asked for is of no use. To weigh that by the sizes that
are asked for is an idea of Weng et al. (FGD, USENIX ATC 2023, section 4); here it prices a CPU.
"""

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array
from wharfinger.model.view import CPU_SIZES, View
from wharfinger.native import count_room, sizes_within


def fragmentation(
    view: View, need: NDArray[np.int64] | int, rows: NDArray[np.intp] | None = None
) -> Array:
    """(R,) workloads to come that are expected to lack the room which ``need`` takes there.

    Each size that is held now and that a server can hold adds to the price of its CPUs: its share
    of what is held, by CPU, over (N + 1)² for N servers with room for it; about as much,
    1/N - 1/(N + 1), is one server less to whoever comes. ``need`` (R,) or one for all, thousandths
    of a CPU; rows ``None`` = all servers.
    """
    held, capacity = view.held_sizes, view.cpu_capacity
    if held is None or not held.any():
        return np.zeros(len(capacity) if rows is None else len(rows))
    with_room = count_room(capacity, view.cpu_allocated, view.accepting, CPU_SIZES)
    prices = np.zeros(len(CPU_SIZES) + 1)
    (held / held.sum() / (with_room + 1.0) ** 2 / CPU_SIZES).cumsum(out=prices[1:])
    return np.asarray(need * prices[sizes_within(capacity, CPU_SIZES, rows)])
