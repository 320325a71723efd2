# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One pass over all servers for the feasible one that is least loaded.

Called through wharfinger.native; the arrays are the columns of a ClusterView.
"""

from libc.stdint cimport int64_t, uint8_t

import numpy as np


def least_loaded(
    const int64_t[::1] cpu_capacity,
    const int64_t[::1] cpu_allocated,
    const int64_t[::1] memory_capacity,
    const int64_t[::1] memory_allocated,
    const uint8_t[::1] accepting,
    int64_t cpu,
    int64_t memory,
    Py_ssize_t keep,
):
    """See wharfinger.native.least_loaded."""
    cdef Py_ssize_t n = cpu_capacity.shape[0]
    cdef Py_ssize_t i, j, kept = 0
    cdef int64_t closed = 0, short_of_cpu = 0, short_of_memory = 0
    cdef double load, memory_load
    if keep < 1:
        raise ValueError("keep must be at least 1")
    best_array = np.empty(keep, dtype=np.int64)
    load_array = np.empty(keep, dtype=np.float64)
    memory_array = np.empty(keep, dtype=np.float64)
    cdef int64_t[::1] best = best_array
    cdef double[::1] loads = load_array
    cdef double[::1] memory_loads = memory_array

    with nogil:
        for i in range(n):
            if not accepting[i]:
                closed += 1
                continue
            if cpu_allocated[i] + cpu > cpu_capacity[i]:
                short_of_cpu += 1
                continue
            if memory_allocated[i] + memory > memory_capacity[i]:
                short_of_memory += 1
                continue
            load = 0.0
            if cpu_capacity[i] > 0:
                load = <double>(cpu_allocated[i] + cpu) / <double>cpu_capacity[i]
            memory_load = 0.0
            if memory_capacity[i] > 0:
                memory_load = <double>(memory_allocated[i] + memory) / <double>memory_capacity[i]
            if kept == keep and not _before(load, memory_load, loads[kept - 1], memory_loads[kept - 1]):
                continue
            if kept < keep:
                kept += 1
            # Insertion from the end keeps the list ordered; equal loads stay in the order of index.
            j = kept - 1
            while j > 0 and _before(load, memory_load, loads[j - 1], memory_loads[j - 1]):
                best[j] = best[j - 1]
                loads[j] = loads[j - 1]
                memory_loads[j] = memory_loads[j - 1]
                j -= 1
            best[j] = i
            loads[j] = load
            memory_loads[j] = memory_load
    return best_array[:kept], load_array[:kept], closed, short_of_cpu, short_of_memory


cdef inline bint _before(double load, double memory_load, double other, double other_memory) noexcept nogil:
    return load < other or (load == other and memory_load < other_memory)
