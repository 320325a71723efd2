# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What the residents of one server make of one another's scores, source by source.

Called through wharfinger.native by the contention model by source, for each server whose residents
have changed. Sums over sources are added up as NumPy adds them, so that nothing that is decided
hangs on which of the two is asked.
"""

from libc.math cimport isfinite, sqrt

cdef enum:
    UNROLLED = 8  # partial sums of NumPy


def seat_residents(
    const double[:, :, ::1] scores,
    double per_point,
    double min_score,
    double max_drop,
    double[:, ::1] slope,
    double[:, ::1] doubt,
    double[::1] drop,
    double[::1] variance,
    double[:, ::1] unspent,
):
    """The sensitivity of N residents to each of R sources, and what they do to one another.

    Args:
        scores: (N, 4, R) tolerated, NaN = unknown, its variance; caused, its variance; in points.
        per_point: Of the logarithm of performance, lost at the tolerated score.
        min_score: Lower bound of tolerated scores.
        max_drop: Largest slowdown, of the logarithm.
        slope: (N, R) is given the slope of each sensitivity curve, for each point.
        doubt: (N, R) its standard deviation.
        drop: (N,) what the others take off the logarithm of each one's performance.
        variance: (N,) of that.
        unspent: (2, R) the least that one tolerates beyond what the others cause, and its variance;
            100 and 0 where nobody's is less.

    Raises:
        ValueError: Shapes differ, or there are more sources than 16.
    """
    cdef Py_ssize_t count = scores.shape[0], width = scores.shape[2], n, r
    cdef double caused, caused_variance, others, others_variance, left, score
    cdef double[16] drops
    cdef double[16] variances
    if not (
        scores.shape[1] == 4
        and width <= 16
        and slope.shape[0] == doubt.shape[0] == drop.shape[0] == variance.shape[0] == count
        and slope.shape[1] == doubt.shape[1] == unspent.shape[1] == width
        and unspent.shape[0] == 2
    ):
        raise ValueError(f"not {count} residents by {width} sources, of at most 16")
    with nogil:
        for r in range(width):
            unspent[0, r], unspent[1, r] = 100.0, 0.0
        for n in range(count):
            for r in range(width):
                caused, caused_variance = _sum(scores, 2, r), _sum(scores, 3, r)
                others = min(max(caused - scores[n, 2, r], 0.0), 100.0)
                others_variance = max(caused_variance - scores[n, 3, r], 0.0)
                slope[n, r] = doubt[n, r] = 0.0
                if isfinite(scores[n, 0, r]):
                    score = max(scores[n, 0, r], min_score)
                    slope[n, r] = per_point / score
                    doubt[n, r] = slope[n, r] * sqrt(scores[n, 1, r]) / score
                    left = scores[n, 0, r] - others
                    if left < unspent[0, r]:
                        unspent[0, r] = left
                        unspent[1, r] = scores[n, 1, r] + others_variance
                drops[r] = slope[n, r] * others
                variances[r] = (
                    slope[n, r] * slope[n, r] * others_variance
                    + (doubt[n, r] * others) * (doubt[n, r] * others)
                )
            drop[n] = min(_added(drops, width), max_drop)
            variance[n] = _added(variances, width)


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
