# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One row given some of its entries, under a stack of mixtures centred on known rows.

Called through ``wharfinger.learning.stack``, where the equations stand; the NumPy reference beside
it says the same.
"""

from libc.math cimport INFINITY, exp, isinf, log1p, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

import numpy as np

# Of the likeliest component: e ** -14 is under a millionth.
cdef double LEAST_LOG = -14.0


def fold_in(
    const double[:, :, ::1] kernels,
    const double[:, :, ::1] residuals,
    const double[:, ::1] log_weights,
    const double[:, ::1] means,
    const int64_t[:, ::1] of,
    const double[:, ::1] settings,
    const double[::1] row,
    const int64_t[::1] seen,
    double ridge,
    double least_variance,
):
    """Mean and variance of each column, given the known entries.

    Args:
        kernels: (Q, C, C) covariances.
        residuals: (F, N, C) known rows about the mean.
        log_weights: (F, N) of the components.
        means: (M, C) of the members.
        of: (M, 3) which kernel and which residuals a member has, and whether its level is free.
        settings: (M, 3) a, the degrees of freedom (infinite = normal), and weight in the stack.
        row: (C,) transformed values; only those that are seen are read.
        seen: (k,) columns, at least one.
        ridge: Of the mean known variance.
        least_variance: Added besides.

    Returns:
        (C,) means and (C,) variances; those of known entries are not set right here.
    """
    cdef Py_ssize_t members = means.shape[0], columns = means.shape[1], rows = residuals.shape[1]
    cdef Py_ssize_t k = seen.shape[0], m
    mean_array, variance_array = np.zeros(columns), np.zeros(columns)
    cdef double[::1] mean = mean_array
    cdef double[::1] variance = variance_array
    cdef Py_ssize_t size = 2 * k * k + 6 * k + 5 * columns + columns * k + rows
    cdef double* work = <double*>calloc(size, sizeof(double))
    cdef double* squares = <double*>calloc(columns, sizeof(double))
    cdef Py_ssize_t j
    cdef double weight
    if work == NULL or squares == NULL:
        free(work)
        free(squares)
        raise MemoryError
    cdef bint right = True
    with nogil:
        for m in range(members):
            weight = settings[m, 2]
            right = _member(
                &kernels[of[m, 0], 0, 0], &residuals[of[m, 1], 0, 0], &log_weights[of[m, 1], 0],
                &means[m, 0], of[m, 2] != 0, settings[m, 0], settings[m, 1],
                &row[0], &seen[0], rows, columns, k, ridge, least_variance, work,
            )
            if not right:
                break
            # The member's mean and variances stand at the beginning of the work space.
            for j in range(columns):
                mean[j] += weight * work[j]
                squares[j] += weight * work[j] * work[j]
                variance[j] += weight * work[columns + j]
        for j in range(columns):
            variance[j] += squares[j] - mean[j] * mean[j]
            if variance[j] < 0:
                variance[j] = 0
    free(work)
    free(squares)
    if not right:
        raise ValueError("a covariance is not positive definite")
    return mean_array, variance_array


cdef bint _member(
    const double* kernel,
    const double* residuals,
    const double* log_weights,
    const double* mean,
    bint free_level,
    double a,
    double nu,
    const double* row,
    const int64_t* seen,
    Py_ssize_t rows,
    Py_ssize_t columns,
    Py_ssize_t k,
    double ridge,
    double least_variance,
    double* work,
) noexcept nogil:
    """One member's means and variances, at ``work`` and ``work + columns``."""
    cdef double* out = work
    cdef double* var = work + columns
    cdef double* shift = var + columns
    cdef double* one = shift + columns
    cdef double* line = one + columns
    cdef double* gain = line + columns
    cdef double* precision = gain + columns * k
    cdef double* projected = precision + k * k
    cdef double* known = projected + k * k
    cdef double* total = known + k
    cdef double* part = total + k
    cdef double* weights = part + 4 * k
    cdef Py_ssize_t i, j, s, t
    cdef double total_precision = 0, trace = 0, value, level, q, best, total_weight, left

    for s in range(k):
        trace += kernel[seen[s] * columns + seen[s]]
    for s in range(k):
        for t in range(k):
            precision[s * k + t] = kernel[seen[s] * columns + seen[t]]
        precision[s * k + s] += ridge * trace / k + least_variance
        known[s] = row[seen[s]] - mean[seen[s]]
    if not _invert(precision, projected, k):
        return False
    for s in range(k):
        total[s] = 0
        for t in range(k):
            total[s] += precision[s * k + t]
        total_precision += total[s]

    for j in range(columns):
        shift[j] = 0
    if a > 0:
        for s in range(k):
            for t in range(k):
                value = precision[s * k + t]
                if free_level:
                    value -= total[s] * total[t] / total_precision
                projected[s * k + t] = value / (1 - a * a)
        best = -INFINITY
        for i in range(rows):
            for s in range(k):
                part[s] = known[s] - a * residuals[i * columns + seen[s]]
            q = 0
            for s in range(k):
                value = 0
                for t in range(k):
                    value += projected[s * k + t] * part[t]
                q += part[s] * value
            if isinf(nu):
                value = -q / 2
            else:
                value = -(nu + k - (1 if free_level else 0)) / 2 * log1p(max(q, 0.0) / nu)
            weights[i] = value + log_weights[i]
            if weights[i] > best:
                best = weights[i]
        total_weight = 0
        for i in range(rows):
            weights[i] -= best
            weights[i] = exp(weights[i]) if weights[i] > LEAST_LOG else 0.0
            total_weight += weights[i]
        for i in range(rows):
            if weights[i] > 0:
                weights[i] /= total_weight
                _add(shift, residuals + i * columns, a * weights[i], columns)

    # The gain, a line for each known entry, and what is left of the variances.
    for j in range(columns):
        one[j] = 1
        line[j] = 0
    for s in range(k):
        for j in range(columns):
            gain[s * columns + j] = 0
        for t in range(k):
            # The kernel is symmetric: its line is its column.
            _add(gain + s * columns, kernel + seen[t] * columns, precision[t * k + s], columns)
        for j in range(columns):
            line[j] += gain[s * columns + j] * kernel[seen[s] * columns + j]
            one[j] -= gain[s * columns + j]
    for j in range(columns):
        left = kernel[j * columns + j] - line[j]
        if free_level:
            left += one[j] * one[j] / total_precision
        var[j] = (1 - a * a) * left
    level = 0
    if free_level:
        for s in range(k):
            level += total[s] * (known[s] - shift[seen[s]])
        level /= total_precision
    for j in range(columns):
        out[j] = mean[j] + shift[j] + level
    for s in range(k):
        _add(out, gain + s * columns, known[s] - shift[seen[s]] - level, columns)
    if a > 0:
        for i in range(rows):
            if weights[i] <= 0:
                continue
            level = 0
            if free_level:
                for s in range(k):
                    level += total[s] * (a * residuals[i * columns + seen[s]] - shift[seen[s]])
                level /= total_precision
            for s in range(k):
                part[s] = a * residuals[i * columns + seen[s]] - shift[seen[s]] - level
            if k <= 2:
                # Nearly always: all in one pass over the columns.
                _spread(
                    var, residuals + i * columns, shift, gain, gain + (k - 1) * columns,
                    weights[i], a, level, part[0], part[1] if k == 2 else 0, columns,
                )
                continue
            for j in range(columns):
                line[j] = a * residuals[i * columns + j] - shift[j] - level
            for s in range(k):
                _add(line, gain + s * columns, -part[s], columns)
            for j in range(columns):
                var[j] += weights[i] * line[j] * line[j]
    return True


cdef inline void _spread(
    double* var, const double* residual, const double* shift, const double* first,
    const double* second, double weight, double a, double level, double by_first,
    double by_second, Py_ssize_t count,
) noexcept nogil:
    """One component's share of the variance, about the mean of all, given two entries."""
    cdef Py_ssize_t j
    cdef double value
    for j in range(count):
        value = a * residual[j] - shift[j] - level - by_first * first[j] - by_second * second[j]
        var[j] += weight * value * value


cdef inline void _add(
    double* to, const double* what, double times, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(count):
        to[j] += times * what[j]


cdef bint _invert(double* matrix, double* scratch, Py_ssize_t k) noexcept nogil:
    """A symmetric positive definite matrix in place, by Cholesky; false where it is not."""
    cdef Py_ssize_t i, j, s
    cdef double value
    for j in range(k):
        value = matrix[j * k + j]
        for s in range(j):
            value -= scratch[j * k + s] * scratch[j * k + s]
        if value <= 0:
            return False
        scratch[j * k + j] = sqrt(value)
        for i in range(j + 1, k):
            value = matrix[i * k + j]
            for s in range(j):
                value -= scratch[i * k + s] * scratch[j * k + s]
            scratch[i * k + j] = value / scratch[j * k + j]
    # The inverse of L, in place, then its transpose times itself.
    for j in range(k):
        scratch[j * k + j] = 1 / scratch[j * k + j]
        for i in range(j + 1, k):
            value = 0
            for s in range(j, i):
                value -= scratch[i * k + s] * scratch[s * k + j]
            scratch[i * k + j] = value / scratch[i * k + i]
    for i in range(k):
        for j in range(i + 1):
            value = 0
            for s in range(i, k):
                value += scratch[s * k + i] * scratch[s * k + j]
            matrix[i * k + j] = value
            matrix[j * k + i] = value
    return True
