"""Room that best-effort work holds, on engines where nothing else runs on a CPU that it has.

Elsewhere it uses what others leave, and is in no way. What is running and restartable can be
preempted (``Occupant.stoppable``). Pure; asked by ``placement.quasar``.
"""

from dataclasses import replace

import numpy as np

from wharfinger.model.allocation import Allocation
from wharfinger.model.view import Occupant, Request, View


def without_best_effort(request: Request, view: View) -> View | None:
    """The cluster as if it had left; ``None`` = that would make no room for this workload."""
    if view.capabilities.shares_cpus or request.workload.best_effort:
        return None
    if view.occupants is None or view.cpu_wanted is None:
        return None
    cpu, memory = view.cpu_allocated.copy(), view.memory_allocated.copy()
    for row in np.flatnonzero(view.cpu_wanted > 0).tolist():
        for each in _stoppable(view, row):
            cpu[row] -= each.allocation.cpu_millicpus
            memory[row] -= each.allocation.memory_bytes
    if np.array_equal(cpu, view.cpu_allocated):
        return None
    return replace(view, cpu_allocated=cpu, memory_allocated=memory, loads=None)


def in_the_way(view: View, row: int, need: Allocation) -> list[str]:
    """Best-effort work that has to leave a server for that, the least important first."""
    cpu = need.cpu_millicpus - int(view.cpu_capacity[row] - view.cpu_allocated[row])
    memory = need.memory_bytes - int(view.memory_capacity[row] - view.memory_allocated[row])
    names = []
    for each in sorted(_stoppable(view, row), key=lambda each: each.priority):
        if cpu <= 0 and memory <= 0:
            break
        names.append(each.name)
        cpu -= each.allocation.cpu_millicpus
        memory -= each.allocation.memory_bytes
    return names


def _stoppable(view: View, row: int) -> list[Occupant]:
    there = view.occupants(view.names[row]) if view.occupants is not None else ()
    return [each for each in there if each.stoppable and each.best_effort]
