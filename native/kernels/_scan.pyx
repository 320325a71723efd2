# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Passes over servers: the feasible ones that are least loaded, those that are next in turn, those
that suit a newcomer most closely, room.

Called through wharfinger.native; the arrays are the columns of a ClusterView.
"""

from libc.math cimport fabs, isnan, sqrt
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
    """The servers with room that would be least loaded, best first.

    Load is what would be allocated over capacity, of CPU and, where that is equal, of
    memory; equal servers come in the order of their index. A resource of which a server has
    none counts as not loaded.

    Args:
        cpu_capacity: (S,) thousandths of a CPU, not negative.
        cpu_allocated: (S,) of it.
        memory_capacity: (S,) bytes, not negative.
        memory_allocated: (S,) of it.
        accepting: (S,) 0 where no new work may be placed.
        cpu: Thousandths of a CPU that the workload gets.
        memory: Bytes that the workload gets.
        keep: How many of the best to return at most.

    Returns:
        The indices of the best servers, their CPU loads, and how many servers were left out
        because they accept no work, lack CPU, and have CPU but lack memory.

    Raises:
        ValueError: ``keep`` is below 1, a request is negative, or the columns' lengths differ.
    """
    cdef Py_ssize_t n = cpu_capacity.shape[0]
    cdef Py_ssize_t i, j, kept = 0
    cdef int64_t closed = 0, short_of_cpu = 0, short_of_memory = 0
    cdef double load, memory_load
    _check(n, cpu_allocated, memory_capacity, memory_allocated, accepting, cpu, memory, keep)
    keep = min(keep, n)
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
            if not _has_room(cpu_capacity[i], cpu_allocated[i], cpu):
                short_of_cpu += 1
                continue
            if not _has_room(memory_capacity[i], memory_allocated[i], memory):
                short_of_memory += 1
                continue
            load = _load(cpu_capacity[i], cpu_allocated[i], cpu)
            memory_load = _load(memory_capacity[i], memory_allocated[i], memory)
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


def next_in_turn(
    const int64_t[::1] cpu_capacity,
    const int64_t[::1] cpu_allocated,
    const int64_t[::1] memory_capacity,
    const int64_t[::1] memory_allocated,
    const uint8_t[::1] accepting,
    int64_t cpu,
    int64_t memory,
    Py_ssize_t keep,
    Py_ssize_t last,
):
    """The servers with room that come next behind one, and around from the first again.

    It looks no further than it has to, so its cost hangs on how full the servers are.

    Args:
        cpu_capacity: (S,) as for ``least_loaded``, like all up to ``keep``.
        cpu_allocated: (S,).
        memory_capacity: (S,).
        memory_allocated: (S,).
        accepting: (S,).
        cpu: Thousandths of a CPU that the workload gets.
        memory: Bytes that the workload gets.
        keep: How many to return at most.
        last: The server behind which it begins, itself the last in turn; -1 = with the first.

    Returns:
        Their indices, in turn.

    Raises:
        ValueError: As for ``least_loaded``; or ``last`` is no server.
    """
    cdef Py_ssize_t n = cpu_capacity.shape[0]
    cdef Py_ssize_t i, turn
    _check(n, cpu_allocated, memory_capacity, memory_allocated, accepting, cpu, memory, keep)
    if not -1 <= last < max(n, 1):
        raise ValueError(f"last is {last} of {n} servers")
    rows = []
    for turn in range(n):
        i = last + 1 + turn
        if i >= n:
            i -= n
        if (
            accepting[i]
            and _has_room(cpu_capacity[i], cpu_allocated[i], cpu)
            and _has_room(memory_capacity[i], memory_allocated[i], memory)
        ):
            rows.append(i)
            if len(rows) == keep:
                break
    return rows


def closest_fits(
    const double[:, :] tolerated,
    const double[:, :] tolerated_variance,
    const double[:, :] caused,
    const double[:, :] caused_variance,
    const int64_t[::1] residents,
    const Py_ssize_t[::1] rows,
    const double[:] own_tolerated,
    const double[:] own_tolerated_variance,
    const double[:] own_caused,
    const double[:] own_caused_variance,
    double z,
    double most,
    const double[::1] also_beyond,
    const double[::1] load,
    Py_ssize_t keep,
):
    """The servers on which a newcomer and the residents suit one another most closely, best first.

    By what is lacking altogether, over all sources and both directions: the points by which a score
    that is tolerated, less ``z`` standard deviations, is below what is caused. Of equal ones by the sum
    of |t - c|, then by load, then by row. On an empty server nothing is lacking.

    Args:
        tolerated: (R, S) points, by the residents, like all up to ``residents``.
        tolerated_variance: (R, S).
        caused: (R, S).
        caused_variance: (R, S).
        residents: (S,) how many there are.
        rows: (N,) the servers to look at, ascending.
        own_tolerated: (R,) points, by the newcomer, like the next three; NaN = unknown: not tested.
        own_tolerated_variance: (R,).
        own_caused: (R,).
        own_caused_variance: (R,).
        z: Not negative.
        most: Points; an unknown score, or an empty server, tolerates so much.
        also_beyond: (N,) added to what is lacking; ``None`` = nothing.
        load: (N,).
        keep: How many to return at most.

    Returns:
        Their places in ``rows``.

    Raises:
        ValueError: Lengths differ, there is no such row, or ``z`` or ``keep`` is out of range.
    """
    cdef Py_ssize_t sources = own_tolerated.shape[0], n = rows.shape[0], servers = residents.shape[0]
    cdef Py_ssize_t r, i, j, row, kept = 0
    cdef double own_c, own_t, variance, z_squared = z * z
    cdef bint tests_theirs, tests_own
    if keep < 1 or not z >= 0:
        raise ValueError(f"keep is {keep} and z {z}; they must be at least 1 and 0")
    if not (
        _has_shape(tolerated, sources, servers)
        and _has_shape(tolerated_variance, sources, servers)
        and _has_shape(caused, sources, servers)
        and _has_shape(caused_variance, sources, servers)
        and own_tolerated_variance.shape[0] == sources
        and own_caused.shape[0] == sources
        and own_caused_variance.shape[0] == sources
    ):
        raise ValueError(f"scores of {sources} sources and {servers} servers are needed")
    if load.shape[0] != n or (also_beyond is not None and also_beyond.shape[0] != n):
        raise ValueError("the columns differ in length")
    for i in range(n):
        if not 0 <= rows[i] < servers:
            raise ValueError(f"there is no row {rows[i]}")
    cdef double[::1] norm = np.zeros(n)
    cdef double[::1] beyond = np.zeros(n) if also_beyond is None else np.array(also_beyond)
    keep = min(keep, n)
    best_array = np.empty(keep, dtype=np.intp)
    cdef Py_ssize_t[::1] best = best_array
    with nogil:
        for r in range(sources):
            tests_theirs, tests_own = not isnan(own_caused[r]), not isnan(own_tolerated[r])
            own_c = own_caused[r] if tests_theirs else 0.0
            own_t = own_tolerated[r] if tests_own else most
            for i in range(n):
                row = rows[i]
                if not residents[row]:
                    norm[i] += fabs(most - own_c) + fabs(own_t)
                    continue
                norm[i] += fabs(tolerated[r, row] - own_c) + fabs(own_t - caused[r, row])
                if tests_theirs:
                    variance = tolerated_variance[r, row] + own_caused_variance[r]
                    beyond[i] += _lacking(tolerated[r, row] - own_c, variance, z, z_squared)
                if tests_own:
                    variance = caused_variance[r, row] + own_tolerated_variance[r]
                    beyond[i] += _lacking(own_t - caused[r, row], variance, z, z_squared)
        for i in range(n):
            if kept == keep and not _closer(i, best[kept - 1], beyond, norm, load):
                continue
            if kept < keep:
                kept += 1
            j = kept - 1
            while j > 0 and _closer(i, best[j - 1], beyond, norm, load):
                best[j] = best[j - 1]
                j -= 1
            best[j] = i
    return best_array


cdef inline bint _has_shape(const double[:, :] scores, Py_ssize_t sources, Py_ssize_t servers) noexcept nogil:
    return scores.shape[0] == sources and scores.shape[1] == servers


cdef inline double _lacking(double spare, double variance, double z, double z_squared) noexcept nogil:
    # A root takes longer than all the rest, and most servers have enough to spare.
    if spare >= 0 and spare * spare >= z_squared * variance:
        return 0.0
    return z * sqrt(variance) - spare


cdef inline bint _closer(
    Py_ssize_t one,
    Py_ssize_t other,
    const double[::1] beyond,
    const double[::1] norm,
    const double[::1] load,
) noexcept nogil:
    if beyond[one] != beyond[other]:
        return beyond[one] < beyond[other]
    if norm[one] != norm[other]:
        return norm[one] < norm[other]
    return load[one] < load[other]


cdef int _check(
    Py_ssize_t n,
    const int64_t[::1] cpu_allocated,
    const int64_t[::1] memory_capacity,
    const int64_t[::1] memory_allocated,
    const uint8_t[::1] accepting,
    int64_t cpu,
    int64_t memory,
    Py_ssize_t keep,
) except -1:
    if keep < 1:
        raise ValueError(f"keep is {keep}; it must be at least 1")
    if cpu < 0 or memory < 0:
        raise ValueError(f"cpu {cpu}, memory {memory}: a request must not be negative")
    if not (
        cpu_allocated.shape[0] == n
        and memory_capacity.shape[0] == n
        and memory_allocated.shape[0] == n
        and accepting.shape[0] == n
    ):
        raise ValueError("the columns differ in length")
    return 0


cdef inline bint _has_room(int64_t capacity, int64_t allocated, int64_t request) noexcept nogil:
    # allocated + request could pass the largest int64; with 0 <= request <= capacity the
    # difference can't.
    return request <= capacity and allocated <= capacity - request


cdef inline double _load(int64_t capacity, int64_t allocated, int64_t request) noexcept nogil:
    # Only asked where there is room, so the sum is at most the capacity.
    return <double>(allocated + request) / <double>capacity if capacity > 0 else 0.0


cdef inline bint _before(double load, double memory_load, double other, double other_memory) noexcept nogil:
    return load < other or (load == other and memory_load < other_memory)


def free_on(
    list rows,
    const int64_t[::1] cpu_capacity,
    const int64_t[::1] cpu_allocated,
    const int64_t[::1] memory_capacity,
    const int64_t[::1] memory_allocated,
    const int64_t[::1] residents,
):
    """Of each of these servers: its free CPU, its free memory, and how many are there; as floats.

    Where more is allocated than there is, nothing is free.

    Args:
        rows: Indices of servers.
        cpu_capacity: (S,) thousandths of a CPU.
        cpu_allocated: (S,) of it.
        memory_capacity: (S,) bytes.
        memory_allocated: (S,) of it.
        residents: (S,) how many workloads are there.

    Raises:
        ValueError: Lengths differ, or there is no such server.
    """
    cdef Py_ssize_t servers = cpu_capacity.shape[0], row
    cdef list free = []
    if not (
        cpu_allocated.shape[0] == memory_capacity.shape[0] == servers
        and memory_allocated.shape[0] == residents.shape[0] == servers
    ):
        raise ValueError("the columns differ in length")
    for row in rows:
        if not 0 <= row < servers:
            raise ValueError(f"there is no server {row}")
        free.append(
            (
                <double>max(cpu_capacity[row] - cpu_allocated[row], 0),
                <double>max(memory_capacity[row] - memory_allocated[row], 0),
                <double>residents[row],
            )
        )
    return free


def sizes_within(
    const int64_t[::1] amounts, const int64_t[::1] sizes, const Py_ssize_t[::1] rows=None
):
    """(N,) how many of the ascending sizes are no larger than each amount.

    Args:
        amounts: (S,).
        sizes: (K,) ascending.
        rows: (N,) of the amounts that are asked for; None = all.

    Raises:
        ValueError: There is no such row.
    """
    cdef Py_ssize_t count = amounts.shape[0] if rows is None else rows.shape[0], s, row, within = 0
    cdef int64_t last = 0
    places = np.empty(count, dtype=np.intp)
    cdef Py_ssize_t[::1] place = places
    for s in range(count):
        row = s if rows is None else rows[s]
        if not 0 <= row < amounts.shape[0]:
            raise ValueError(f"there is no row {row}")
        if not s or amounts[row] != last:
            last = amounts[row]
            within = _within(last, sizes)
        place[s] = within
    return places


def count_room(
    const int64_t[::1] capacity,
    const int64_t[::1] allocated,
    const uint8_t[::1] accepting,
    const int64_t[::1] sizes,
):
    """(K,) how many accepting servers have at least each size free.

    Args:
        capacity: (S,) of one resource.
        allocated: (S,) of it.
        accepting: (S,) 0 where no new work may be placed.
        sizes: (K,) ascending, above 0.

    Raises:
        ValueError: Lengths differ.
    """
    cdef Py_ssize_t servers = capacity.shape[0], s, k
    counts = np.zeros(sizes.shape[0] + 1, dtype=np.int64)
    cdef int64_t[::1] fitting = counts
    if allocated.shape[0] != servers or accepting.shape[0] != servers:
        raise ValueError("the columns differ in length")
    for s in range(servers):
        if accepting[s]:
            fitting[_within(capacity[s] - allocated[s], sizes)] += 1
    # What holds a size holds those below it.
    for k in range(sizes.shape[0] - 1, 0, -1):
        fitting[k] += fitting[k + 1]
    return counts[1:]


cdef inline Py_ssize_t _within(int64_t amount, const int64_t[::1] sizes) noexcept nogil:
    cdef Py_ssize_t within = 0
    while within < sizes.shape[0] and sizes[within] <= amount:
        within += 1
    return within
