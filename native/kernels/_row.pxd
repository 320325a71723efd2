# What every compiled fold-in does to a row before its own equations, in them, and after them. All
# inline: this file is a part of each kernel that names it, and no module of its own.

from libc.math cimport fabs, log, sqrt
from libc.stdint cimport int64_t


cdef extern from "lines.h" nogil:
    void line_add(double* to, const double* what, double times, Py_ssize_t count)
    void line_add_squares(double* to, const double* what, double times, Py_ssize_t count)
    void line_scale(double* what, double times, Py_ssize_t count)
    double line_dot(const double* one, const double* other, Py_ssize_t count)
    void line_add_4(double* to, const double** what, const double* times, Py_ssize_t count)
    void line_add_moments_4(
        double* to, double* squares, const double** what, const double* times, Py_ssize_t count
    )


cdef inline Py_ssize_t count_known(
    const double* row, Py_ssize_t columns, bint logarithms
) noexcept nogil:
    """How many entries are known; -1 where one is infinite, or has no logarithm."""
    cdef Py_ssize_t j, known = 0
    cdef double value
    for j in range(columns):
        value = row[j]
        if value != value:
            continue
        if fabs(value) > 1.7976931348623157e308 or (logarithms and value <= 0):
            return -1
        known += 1
    return known


cdef inline void read_known(
    const double* row, Py_ssize_t columns, bint logarithms, double* values, int64_t* seen
) noexcept nogil:
    """The row as estimators see it, and which of its columns are known."""
    cdef Py_ssize_t j, known = 0
    for j in range(columns):
        values[j] = row[j]
        if row[j] == row[j]:
            if logarithms:
                values[j] = log(row[j])
            seen[known] = j
            known += 1


cdef inline bint whiten(
    const double* covariance,
    const int64_t* seen,
    Py_ssize_t known,
    Py_ssize_t columns,
    double ridge,
    double least_variance,
    double* triangle,
    double* lines,
) noexcept nogil:
    """K_oo = L Lᵀ at ``triangle``, its diagonal inverted, and L⁻¹ K_o· at ``lines``.

    False where K_oo, with its ridge, is not positive definite.
    """
    cdef Py_ssize_t j, s, t
    cdef double trace = 0, value
    cdef double* line
    for s in range(known):
        trace += covariance[seen[s] * columns + seen[s]]
    for s in range(known):
        for t in range(s + 1):
            value = covariance[seen[s] * columns + seen[t]]
            if s == t:
                value += ridge * trace / known + least_variance
            for j in range(t):
                value -= triangle[s * known + j] * triangle[t * known + j]
            if t < s:
                triangle[s * known + t] = value * triangle[t * known + t]
        if not value > 0:
            return False
        value = 1 / sqrt(value)
        triangle[s * known + s] = value
        # The covariance is symmetric: its line is its column.
        line = lines + s * columns
        for j in range(columns):
            line[j] = covariance[seen[s] * columns + j]
        for t in range(s):
            line_add(line, lines + t * columns, -triangle[s * known + t], columns)
        line_scale(line, value, columns)
    return True


cdef inline void forward(const double* triangle, Py_ssize_t known, double* what) noexcept nogil:
    """L⁻¹ what, in its place."""
    cdef Py_ssize_t s, t
    for s in range(known):
        for t in range(s):
            what[s] -= triangle[s * known + t] * what[t]
        what[s] *= triangle[s * known + s]


cdef inline void calibrate(
    double* mean,
    double* variances,
    const double* values,
    const int64_t* seen,
    Py_ssize_t known,
    const double* unmeasured,
    Py_ssize_t columns,
    double factor,
    double least_variance,
) noexcept nogil:
    """Widen deviations by the factor, add what no row knows, and set known entries right."""
    cdef Py_ssize_t j
    for j in range(columns):
        variances[j] = variances[j] * (factor * factor) + unmeasured[j]
        if variances[j] < least_variance:
            variances[j] = least_variance
    for j in range(known):
        mean[seen[j]] = values[seen[j]]
        variances[seen[j]] = 0
