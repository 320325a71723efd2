# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What residents make of one another's scores, and of a newcomer's, source by source.

Called through wharfinger.native by the contention model by source: ``seat_residents`` for each
server whose residents have changed; ``press_residents`` and ``sum_losses`` for each newcomer, with
all residents. Sums over the sources of a resident are added up as NumPy adds them.
"""

from libc.math cimport isfinite, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memset

cdef enum:
    UNROLLED = 8  # partial sums of NumPy
    BLOCK = 256   # residents, of which the sums stay in the cache


def seat_residents(
    const double[:, :, ::1] scores,
    double per_point,
    double min_score,
    double max_drop,
    double[:, ::1] slope,
    double[:, ::1] doubt,
    double[:, ::1] steep,
    double[:, ::1] borne,
    double[::1] drop,
    double[::1] variance,
    double[:, ::1] unspent,
):
    """The sensitivity of N residents to each of R sources, and what they do to one another.

    Below the tolerated score the loss falls with the square, beyond it is on a line through 0.

    Args:
        scores: (N, 4, R) tolerated, NaN = unknown, its variance; caused, its variance; in points.
        per_point: Of the logarithm of performance, lost at the tolerated score.
        min_score: Lower bound of tolerated scores.
        max_drop: Largest slowdown, of the logarithm.
        slope: (N, R) is given the slope of each sensitivity curve, for each point.
        doubt: (N, R) its standard deviation.
        steep: (N, R) one over the tolerated score; below that score a curve is bent.
        borne: (N, R) points by the others.
        drop: (N,) what the others take off the logarithm of each one's performance.
        variance: (N,) of that.
        unspent: (2, R) the least that one tolerates beyond what the others cause, and its variance;
            100 and 0 where nobody's is less.

    Raises:
        ValueError: Shapes differ, or there are more sources than 32.
    """
    cdef Py_ssize_t count = scores.shape[0], width = scores.shape[2], n, r
    cdef double caused, caused_variance, others, others_variance, left, score, points, small
    cdef double[32] drops
    cdef double[32] variances
    if not (
        scores.shape[1] == 4
        and width <= 32
        and slope.shape[0] == doubt.shape[0] == drop.shape[0] == variance.shape[0] == count
        and slope.shape[1] == doubt.shape[1] == unspent.shape[1] == width
        and steep.shape[0] == borne.shape[0] == count
        and steep.shape[1] == borne.shape[1] == width
        and unspent.shape[0] == 2
    ):
        raise ValueError(f"not {count} residents by {width} sources, of at most 32")
    with nogil:
        for r in range(width):
            unspent[0, r], unspent[1, r] = 100.0, 0.0
        for n in range(count):
            for r in range(width):
                caused, caused_variance = _sum(scores, 2, r), _sum(scores, 3, r)
                others = min(max(caused - scores[n, 2, r], 0.0), 100.0)
                others_variance = max(caused_variance - scores[n, 3, r], 0.0)
                slope[n, r] = doubt[n, r] = 0.0
                score = 100.0
                if isfinite(scores[n, 0, r]):
                    score = max(scores[n, 0, r], min_score)
                    slope[n, r] = per_point / score
                    doubt[n, r] = slope[n, r] * sqrt(scores[n, 1, r]) / score
                    left = scores[n, 0, r] - others
                    if left < unspent[0, r]:
                        unspent[0, r] = left
                        unspent[1, r] = scores[n, 1, r] + others_variance
                steep[n, r], borne[n, r] = 1.0 / score, others
                points = _bent(others, steep[n, r])
                small = slope[n, r] * min(2.0 * others * steep[n, r], 1.0)
                drops[r] = slope[n, r] * points
                variances[r] = (
                    small * small * others_variance
                    + (doubt[n, r] * points) * (doubt[n, r] * points)
                )
            drop[n] = min(_added(drops, width), max_drop)
            variance[n] = _added(variances, width)


cdef inline double _bent(double points, double steep) noexcept nogil:
    """The points of a line that costs as much as these do on the curve."""
    cdef double share = points * steep
    return points * (share if share < 1.0 else 1.0)


cdef inline double _sum(const double[:, :, ::1] scores, int kind, Py_ssize_t r) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t n
    for n in range(scores.shape[0]):
        total += scores[n, kind, r]
    return total


cdef inline double _added(const double* values, Py_ssize_t count) noexcept nogil:
    """As NumPy adds up a row."""
    cdef double[UNROLLED] partial
    cdef double total = 0.0
    cdef Py_ssize_t at, lane
    if count < UNROLLED:
        for at in range(count):
            total += values[at]
        return total
    for lane in range(UNROLLED):
        partial[lane] = values[lane]
    at = UNROLLED
    while at + UNROLLED <= count:
        for lane in range(UNROLLED):
            partial[lane] += values[at + lane]
        at += UNROLLED
    total = ((partial[0] + partial[1]) + (partial[2] + partial[3])) + (
        (partial[4] + partial[5]) + (partial[6] + partial[7])
    )
    while at < count:
        total += values[at]
        at += 1
    return total


def press_residents(
    const double[:, ::1] slope,
    const double[:, ::1] doubt,
    const double[:, ::1] steep,
    const double[:, ::1] borne,
    const double[::1] caused,
    const double[::1] caused_variance,
    double max_drop,
    const double[::1] margin,
    const double[::1] variance,
    double[::1] drop,
    double[::1] deviations,
):
    """What a newcomer takes off the performance of N residents, and how far they then are.

    Args:
        slope: (R, at least N) of each one's sensitivity curves, as ``doubt``, ``steep`` and
            ``borne`` by ``seat_residents``.
        caused: (R,) points by the newcomer.
        caused_variance: (R,) of that.
        max_drop: Largest slowdown, of the logarithm.
        margin: (at least N,) the logarithm of performance over what must be kept.
        variance: (at least N,) of that.
        drop: (N,) is given what the newcomer takes off the logarithm.
        deviations: (N,) is given the margin left, in standard deviations.

    Raises:
        ValueError: A shape is too small.
    """
    cdef Py_ssize_t count = drop.shape[0], width = caused.shape[0], first, some, n, r
    cdef double c, v, most, points, share, by_slope, by_doubt
    cdef double[BLOCK] drops
    cdef double[BLOCK] variances
    cdef const double *slopes
    cdef const double *doubts
    cdef const double *steeps
    cdef const double *before
    if not (
        slope.shape[0] == doubt.shape[0] == steep.shape[0] == borne.shape[0] == width
        and caused_variance.shape[0] == width
        and deviations.shape[0] == count
        and min(slope.shape[1], doubt.shape[1], steep.shape[1], borne.shape[1]) >= count
        and min(margin.shape[0], variance.shape[0]) >= count
    ):
        raise ValueError(f"not {count} residents by {width} sources")
    with nogil:
        first = 0
        while first < count:
            some = count - first
            if some > BLOCK:
                some = BLOCK
            memset(drops, 0, sizeof(drops))
            memset(variances, 0, sizeof(variances))
            for r in range(width):
                c, v = caused[r], caused_variance[r]
                if c <= 0:
                    continue
                slopes, doubts = &slope[r, first], &doubt[r, first]
                steeps, before = &steep[r, first], &borne[r, first]
                for n in range(some):
                    points = _bent(before[n] + c, steeps[n]) - _bent(before[n], steeps[n])
                    share = points / c
                    by_slope = slopes[n] * (share if share < 1.0 else 1.0)
                    by_doubt = doubts[n] * points
                    drops[n] += slopes[n] * points
                    variances[n] += by_slope * by_slope * v + by_doubt * by_doubt
            for n in range(some):
                most = min(drops[n], max_drop)
                drop[first + n] = most
                deviations[first + n] = (margin[first + n] - most) / sqrt(
                    variance[first + n] + variances[n]
                )
            first += BLOCK


def sum_losses(
    const double[::1] before,
    const double[::1] after,
    const double[:] drop,
    const int64_t[::1] server,
    double[::1] targets,
    double[::1] performance,
):
    """Add up by server what its residents lose.

    Args:
        before: (at least N,) the probability of each resident that its target is kept.
        after: (N,) the same with the newcomer.
        drop: (N,) what it takes off the logarithm of performance.
        server: (at least N,) row of each one's; below 0 or beyond the rows = of none.
        targets: (S,) to which what is lost of the probabilities is added.
        performance: (S,) to which the drops are added.

    Raises:
        ValueError: Lengths differ.
    """
    cdef Py_ssize_t count = after.shape[0], servers = targets.shape[0], n, at
    cdef double lost
    if not (
        drop.shape[0] == count
        and performance.shape[0] == servers
        and min(before.shape[0], server.shape[0]) >= count
    ):
        raise ValueError(f"not {count} residents of {servers} servers")
    with nogil:
        for n in range(count):
            at = server[n]
            if at < 0 or at >= servers:
                continue
            lost = before[n] - after[n]
            if lost > 0:
                targets[at] += lost
            if drop[n] > 0:
                performance[at] += drop[n]
