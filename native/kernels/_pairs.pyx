# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What pair profiles say of all residents or servers at once: sums of products, row by row.

Called through wharfinger.native by the contention model between pairs. Each number is read once and
nothing is held in memory between: with a product of matrices for each term, and one of them for
each platform, most of a decision was that.
"""

from libc.math cimport expm1, sqrt
from libc.stdint cimport int64_t

import numpy as np


cdef extern from "pairs.h" nogil:
    void pair_sums(
        const double* l,
        const double* v,
        const double* c,
        const double* p,
        const double* q,
        const double* w,
        Py_ssize_t width,
        double* drop,
        double* variance,
    )


def pair_drops(
    const double[:, ::1] levels,
    const double[:, ::1] variances,
    const double[:, ::1] cross,
    const int64_t[::1] profile,
    const double[:, ::1] factors,
    const double[:, ::1] factor_variances,
):
    """The drop of the logarithm on each row, Σ l·p, with its variance (model.pairs).

    The variance is Σ v (p² + w) + c p + l² w, for levels l with variances v, cross terms c and
    factors p with variances w; all errors are independent.

    Args:
        levels: (N, F) of the rows: pressure of servers, or sensitivity of residents.
        variances: (N, F) of that.
        cross: (N, F) twice the product of variances and co-runners' levels; (0, 0) = none.
        profile: (N,) row of ``factors`` that holds for each; below 0 = none, and no drop.
        factors: (P, F) of the newcomer.
        factor_variances: (P, F) of that.

    Returns:
        (N,) drops and (N,) variances.

    Raises:
        ValueError: Shapes differ.
    """
    cdef Py_ssize_t rows = profile.shape[0], width = factors.shape[1], n
    cdef bint crossed = cross.shape[0] > 0
    cdef const double *l
    cdef const double *v
    cdef const double *c
    cdef const double *p
    cdef const double *w
    cdef const double *q
    if factor_variances.shape[0] != factors.shape[0] or factor_variances.shape[1] != width:
        raise ValueError("factors and their variances differ in shape")
    if not (
        levels.shape[0] >= rows
        and variances.shape[0] >= rows
        and levels.shape[1] == variances.shape[1] == width
        and (not crossed or (cross.shape[0] >= rows and cross.shape[1] == width))
    ):
        raise ValueError(f"levels, or what belongs to them, are not {rows} x {width}")
    if rows and np.max(profile) >= factors.shape[0]:
        raise ValueError("a row has a profile that is not there")
    found, doubt = np.zeros(rows), np.zeros(rows)
    if not width:
        return found, doubt
    cdef double[::1] drop = found, variance = doubt
    cdef const double[:, ::1] squares = np.square(factors) + factor_variances
    with nogil:
        for n in range(rows):
            if profile[n] < 0:
                continue
            l, v = &levels[n, 0], &variances[n, 0]
            p, w = &factors[profile[n], 0], &factor_variances[profile[n], 0]
            q = &squares[profile[n], 0]
            c = &cross[n, 0] if crossed else NULL
            pair_sums(l, v, c, p, q, w, width, &drop[n], &variance[n])
    return found, doubt


def pair_shortfalls(
    const double[:, ::1] kept,
    const double[::1] drop,
    const double[::1] variance,
    double z,
):
    """The share by which a newcomer takes each resident below what it must keep, or further below.

    Args:
        kept: (R, 3 or more) the logarithm of performance over target, its variance, and what it
            must keep of it.
        drop: (R,) by the newcomer.
        variance: (R,) that it adds.
        z: Standard deviations that stand for the confidence.

    Returns:
        (R,) shares, 0 to 1.

    Raises:
        ValueError: Lengths differ.
    """
    cdef Py_ssize_t residents = drop.shape[0], r
    cdef double before, own, after, both
    if kept.shape[0] < residents or kept.shape[1] < 3 or variance.shape[0] != residents:
        raise ValueError("residents and what they keep differ in length")
    found = np.zeros(residents)
    cdef double[::1] share = found
    with nogil:
        for r in range(residents):
            before, own = kept[r, 0] - kept[r, 2], kept[r, 1]
            both = own + variance[r]
            after = before - drop[r] - z * sqrt(both if both > 0 else 0.0)
            if after < 0:
                before -= z * sqrt(own)
                after -= before if before < 0 else 0.0
                share[r] = -expm1(after) if after < 0 else 0.0
    return found
