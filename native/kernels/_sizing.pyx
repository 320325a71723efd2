# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What quasar asks of every server: how much is enough there, and what neighbors do there.

Called through wharfinger.native. All give exactly what NumPy's elementwise operations in the same
order give: they only leave out what can't matter, and hold nothing in memory between.
"""

from libc.math cimport fabs, isnan, sqrt
from libc.stdint cimport int64_t, uint8_t

import numpy as np

cdef double SLACK = 1e-9
"""Far more than rounding can do to a sum of logarithms."""


def first_enough(
    const double[::1] medians,
    const double[::1] variances,
    const double[::1] drop,
    const double[::1] drop_variance,
    double z,
):
    """The first size on each server with which the target is reached.

    That is the first g with medians[g] - z sqrt(variances[g] + drop_variance[s]) >= drop[s]. The
    highest median so far can only rise with g, and the doubt is no less than with the smallest
    variance: so it is searched where these two allow it first, and size by size from there.

    Args:
        medians: (G,) of the logarithm of performance over target, by size.
        variances: (G,) of that.
        drop: (S,) what is taken off it on each server.
        drop_variance: (S,) of that.
        z: Standard deviations that stand for the confidence.

    Returns:
        (S,) indices of sizes; G where none is enough.

    Raises:
        ValueError: Lengths differ.
    """
    cdef Py_ssize_t sizes = medians.shape[0], servers = drop.shape[0], s
    cdef double least_variance
    if variances.shape[0] != sizes or drop_variance.shape[0] != servers:
        raise ValueError("medians and variances, or drops and theirs, differ in length")
    found = np.empty(servers, dtype=np.int64)
    if not sizes:
        found[:] = 0
        return found
    cdef int64_t[::1] first = found
    cdef double[::1] highest = np.maximum.accumulate(medians)
    least_variance = np.min(variances)
    with nogil:
        for s in range(servers):
            if s and drop[s] == drop[s - 1] and drop_variance[s] == drop_variance[s - 1]:
                first[s] = first[s - 1]
                continue
            first[s] = _first(
                &medians[0],
                &variances[0],
                &highest[0],
                sizes,
                least_variance,
                drop[s],
                drop_variance[s],
                z,
            )
    return found


def first_enough_on(
    const double[:, ::1] medians,
    const double[:, ::1] variances,
    const int64_t[::1] platform,
    const double[::1] drop,
    const double[::1] drop_variance,
    double z,
):
    """``first_enough``, where each platform has a curve of its own.

    Args:
        medians: (P, G) of the logarithm of performance over target, by platform and size.
        variances: (P, G) of that.
        platform: (S,) rows of these, of each server.
        drop: (S,) what is taken off it on each server.
        drop_variance: (S,) of that.
        z: Standard deviations that stand for the confidence.

    Returns:
        (S,) indices of sizes; G where none is enough.

    Raises:
        ValueError: Lengths differ, or there is no such platform.
    """
    cdef Py_ssize_t platforms = medians.shape[0], sizes = medians.shape[1], s, at
    cdef Py_ssize_t servers = platform.shape[0]
    if variances.shape[0] != platforms or variances.shape[1] != sizes:
        raise ValueError("medians and variances differ in length")
    if drop.shape[0] != servers or drop_variance.shape[0] != servers:
        raise ValueError("platforms, drops and their variances differ in length")
    for s in range(servers):
        if not 0 <= platform[s] < platforms:
            raise ValueError(f"there is no platform {platform[s]}")
    found = np.empty(servers, dtype=np.int64)
    if not sizes or not servers:
        found[:] = 0
        return found
    cdef int64_t[::1] first = found
    cdef double[:, ::1] highest = np.maximum.accumulate(medians, axis=1)
    cdef double[::1] least_variance = np.min(variances, axis=1)
    with nogil:
        for s in range(servers):
            at = platform[s]
            first[s] = _first(
                &medians[at, 0],
                &variances[at, 0],
                &highest[at, 0],
                sizes,
                least_variance[at],
                drop[s],
                drop_variance[s],
                z,
            )
    return found


cdef inline int64_t _first(
    const double* medians,
    const double* variances,
    const double* highest,
    Py_ssize_t sizes,
    double least_variance,
    double drop,
    double variance,
    double z,
) noexcept nogil:
    """On one server."""
    cdef Py_ssize_t g, base = 0, half, left = sizes
    cdef double bound
    if z >= 0:
        bound = drop + z * sqrt(least_variance + variance)
        bound -= SLACK * (1.0 + fabs(bound))
        while left > 1:  # without a branch that can't be foreseen
            half = left >> 1
            base += half * (highest[base + half - 1] < bound)
            left -= half
        base += highest[base] < bound
    for g in range(base, sizes):
        if medians[g] - z * sqrt(variances[g] + variance) >= drop:
            return g
    return sizes


def sum_drops(
    const double[:, :] caused,
    const double[:, :] caused_variance,
    const double[::1] tolerated,
    const double[::1] std,
    double per_point,
    double min_score,
    double max_drop,
    double max_variance,
    const Py_ssize_t[::1] rows=None,
):
    """What sources of interference take off the logarithm of performance on each server.

    Below the tolerated score the loss falls with the square, beyond it is on a line through 0.

    Args:
        caused: (R, S) points, by the residents.
        caused_variance: (R, S) of that.
        tolerated: (R,) points, by the newcomer; NaN = unknown: that source takes nothing.
        std: (R,) of that.
        per_point: Of the logarithm of performance, lost at the tolerated score.
        min_score: Lower bound of tolerated scores.
        max_drop: By all sources at most.
        max_variance: Of that at most.
        rows: (N,) of the servers that are asked for; None = all.

    Returns:
        (N,) drops, and their variances.

    Raises:
        ValueError: Lengths differ, there is no such row, or the numbers of a source do not lie one
            behind another.
    """
    cdef Py_ssize_t width = tolerated.shape[0], servers = caused.shape[1], count, r, s, row
    cdef double score, slope, square
    cdef const double *points
    cdef const double *doubts
    if not (
        caused.shape[0] == caused_variance.shape[0] == std.shape[0] == width
        and caused_variance.shape[1] == servers
    ):
        raise ValueError("the columns differ in length")
    if servers > 1 and not (caused.strides[1] == caused_variance.strides[1] == sizeof(double)):
        raise ValueError("the numbers of a source do not lie one behind another")
    count = servers if rows is None else rows.shape[0]
    if rows is not None:
        for s in range(count):
            if not 0 <= rows[s] < servers:
                raise ValueError(f"there is no row {rows[s]}")
    drops, variances = np.zeros(count), np.zeros(count)
    if not count:
        return drops, variances
    cdef double[::1] drop = drops
    cdef double[::1] variance = variances
    with nogil:
        for r in range(width):
            if isnan(tolerated[r]):
                continue
            score = max(tolerated[r], min_score)
            slope = per_point / score
            square = slope * slope
            points, doubts = &caused[r, 0], &caused_variance[r, 0]
            if rows is None:
                for s in range(count):
                    _add_drop(
                        points[s], doubts[s], score, slope, square, std[r], &drop[s], &variance[s]
                    )
            else:
                for s in range(count):
                    row = rows[s]
                    _add_drop(
                        points[row],
                        doubts[row],
                        score,
                        slope,
                        square,
                        std[r],
                        &drop[s],
                        &variance[s],
                    )
        for s in range(count):
            drop[s] = min(drop[s], max_drop)
            variance[s] = min(variance[s], max_variance)
    return drops, variances


cdef inline void _add_drop(
    double points,
    double doubt,
    double score,
    double slope,
    double square,
    double std,
    double* drop,
    double* variance,
) noexcept nogil:
    """By one source on one server."""
    cdef double share = points / score
    cdef double pressed = points * (share if share < 1.0 else 1.0)
    cdef double steep = 2.0 * share if 2.0 * share < 1.0 else 1.0
    cdef double own = slope * pressed / score * std
    drop[0] += slope * pressed
    variance[0] += square * (doubt * (steep * steep)) + own * own


def add_exceeded(
    const double[::1] tolerated,
    const double[::1] tolerated_variance,
    const double[::1] caused,
    const double[::1] caused_variance,
    const int64_t[::1] residents,
    own_caused,
    own_tolerated,
    double z,
    double[::1] exceeded,
    double[::1] norm,
):
    """Add what one source of interference says of a newcomer on each server (Paragon 3.1, 3.2).

    Args:
        tolerated: (S,) by the residents, as the three after it.
        tolerated_variance: (S,).
        caused: (S,).
        caused_variance: (S,).
        residents: (S,) how many there are: nobody there, nobody to slow.
        own_caused: Of the newcomer: mean and variance; None = unknown.
        own_tolerated: The same.
        z: Standard deviations that stand for the confidence.
        exceeded: (S,) to which the points are added by which D1 and D2 are below 0.
        norm: (S,) to which |D1 + D2| is added.

    Raises:
        ValueError: Lengths differ.
    """
    cdef Py_ssize_t servers = tolerated.shape[0], s
    cdef bint causes = own_caused is not None, tolerates = own_tolerated is not None
    cdef double c = 0.0, c_variance = 0.0, t = 0.0, t_variance = 0.0
    cdef double d1, d2, low, over
    if not (
        tolerated_variance.shape[0] == servers
        and caused.shape[0] == servers
        and caused_variance.shape[0] == servers
        and residents.shape[0] == servers
        and exceeded.shape[0] == servers
        and norm.shape[0] == servers
    ):
        raise ValueError("the columns differ in length")
    if causes:
        c, c_variance = own_caused
    if tolerates:
        t, t_variance = own_tolerated
    with nogil:
        for s in range(servers):
            d1 = d2 = over = 0.0
            if causes:
                d1 = tolerated[s] - c
                low = d1 - z * sqrt(tolerated_variance[s] + c_variance)
                if residents[s] > 0 and low < 0:
                    over = -low
            if tolerates:
                d2 = t - caused[s]
                low = d2 - z * sqrt(caused_variance[s] + t_variance)
                if caused[s] > 0 and low < 0:
                    over = over - low
            exceeded[s] += over
            norm[s] += fabs(d1 + d2)


def judge_room(
    const int64_t[::1] need,
    int64_t memory,
    const int64_t[::1] cpu_capacity,
    const int64_t[::1] cpu_allocated,
    const int64_t[::1] memory_capacity,
    const int64_t[::1] memory_allocated,
    const uint8_t[::1] accepting,
    const uint8_t[::1] usable,
    const uint8_t[::1] unsettled,
    bint nothing_fits,
):
    """Why each server can't take a workload now.

    Args:
        need: (S,) thousandths of a CPU that it would get there.
        memory: Bytes that it would get.
        cpu_capacity: (S,) thousandths of a CPU, the others likewise as in a view.
        cpu_allocated: (S,).
        memory_capacity: (S,).
        memory_allocated: (S,).
        accepting: (S,).
        usable: (S,) 1 where it accepts work and is not excluded.
        unsettled: (S,).
        nothing_fits: Whether a workload that needs no CPU at all fits; else it is too large.

    Returns:
        (S,) the first that holds of: 0 the server does not accept work, 1 it is excluded, 2 the
        workload is too large for it, 3 it has no room, 4 it is unsettled; 5 none does.

    Raises:
        ValueError: Lengths differ.
    """
    cdef Py_ssize_t servers = need.shape[0], s
    if not (
        cpu_capacity.shape[0] == cpu_allocated.shape[0] == servers
        and memory_capacity.shape[0] == memory_allocated.shape[0] == servers
        and accepting.shape[0] == usable.shape[0] == unsettled.shape[0] == servers
    ):
        raise ValueError("the columns differ in length")
    judged = np.empty(servers, dtype=np.int64)
    cdef int64_t[::1] reason = judged
    with nogil:
        for s in range(servers):
            if not accepting[s]:
                reason[s] = 0
            elif not usable[s]:
                reason[s] = 1
            elif (
                need[s] > cpu_capacity[s]
                or memory > memory_capacity[s]
                or (need[s] == 0 and not nothing_fits)
            ):
                reason[s] = 2
            elif (
                cpu_allocated[s] + need[s] > cpu_capacity[s]
                or memory_allocated[s] + memory > memory_capacity[s]
            ):
                reason[s] = 3
            elif unsettled[s]:
                reason[s] = 4
            else:
                reason[s] = 5
    return judged
