# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One row given some of its entries, under one Gaussian; all but its covariance.

Called through ``wharfinger.estimators.recommender``. The equations, and the NumPy reference that
says the same, stand in ``wharfinger.estimators.conditional``.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from _row cimport (
    calibrate, count_known, forward, line_add, line_add_squares, line_dot, read_known, whiten,
)

cdef object _empty = np.empty


cdef class Conditional:
    """A prior, and what comes after it. Holds the arrays as they are; changes none.

    Args:
        mean: (C,) of the prior.
        covariance: (C, C).
        free_level: A row's level is one unknown with a flat prior.
        level_variance: Used only where the level is free and no entry is known.
        factors: (C + 1,) to multiply deviations by, per number of known entries.
        unmeasured: (C,) variance to add.
        logarithms: Rows come in their own scale; the equations take logarithms.
        ridge: Of the mean known variance, added to each.
        least_variance: Added besides; and no unknown entry has less.
    """

    cdef const double[::1] mean
    cdef const double[:, ::1] covariance
    cdef const double[::1] factors
    cdef const double[::1] unmeasured
    cdef double level_variance, ridge, least_variance
    cdef bint free_level, logarithms
    cdef Py_ssize_t columns
    cdef tuple given

    def __init__(
        self, mean, covariance, bint free_level, double level_variance, factors, unmeasured,
        bint logarithms, double ridge, double least_variance,
    ):
        self.given = (
            mean, covariance, free_level, level_variance, factors, unmeasured, logarithms, ridge,
            least_variance,
        )
        self.mean, self.covariance = mean, covariance
        self.factors, self.unmeasured = factors, unmeasured
        self.columns = len(mean)
        if (
            self.covariance.shape[0] != self.columns or self.covariance.shape[1] != self.columns
            or self.factors.shape[0] != self.columns + 1
            or self.unmeasured.shape[0] != self.columns
        ):
            raise ValueError("a prior's arrays have different numbers of columns")
        self.free_level, self.logarithms = free_level, logarithms
        self.level_variance, self.ridge = level_variance, ridge
        self.least_variance = least_variance

    def __reduce__(self):
        return Conditional, self.given

    def fold_in(self, const double[::1] row not None):
        """Means, variances and transformed values of one row, (C,) each.

        Returns:
            ``None`` where the row is not of this length, holds what is no value, or its
            covariance is not positive definite: the reference then says what is to be said.
        """
        if row.shape[0] != self.columns:
            return None
        mean_array, variance_array = _empty(self.columns), _empty(self.columns)
        value_array = _empty(self.columns)
        cdef double[::1] mean = mean_array
        cdef double[::1] variances = variance_array
        cdef double[::1] values = value_array
        if self.columns and not self._fold_in(&row[0], &mean[0], &variances[0], &values[0]):
            return None
        return mean_array, variance_array, value_array

    def fold_in_many(self, const double[:, ::1] rows not None):
        """The same of (R, C) rows, each as alone.

        Returns:
            (R, C) means, variances and transformed values, and (R,) whether a row is told.
        """
        cdef Py_ssize_t i, count = rows.shape[0]
        shape = (count, self.columns)
        mean_array, variance_array, value_array = _empty(shape), _empty(shape), _empty(shape)
        cdef double[:, ::1] mean = mean_array
        cdef double[:, ::1] variances = variance_array
        cdef double[:, ::1] values = value_array
        cdef list told = [False] * count
        if rows.shape[1] == self.columns and self.columns:
            for i in range(count):
                told[i] = self._fold_in(
                    &rows[i, 0], &mean[i, 0], &variances[i, 0], &values[i, 0]
                )
        return mean_array, variance_array, value_array, told

    cdef bint _fold_in(
        self, const double* row, double* mean, double* variances, double* values
    ) except? False:
        cdef Py_ssize_t k = count_known(row, self.columns, self.logarithms)
        if k < 0:
            return False
        # Lines of the covariance, a triangle, two vectors, and which columns are known.
        cdef Py_ssize_t size = k * self.columns + k * k + 2 * k
        cdef double* work = <double*>malloc((size + 1) * sizeof(double))
        cdef int64_t* seen = <int64_t*>malloc((k + 1) * sizeof(int64_t))
        cdef bint right = False
        if work == NULL or seen == NULL:
            free(work)
            free(seen)
            raise MemoryError
        with nogil:
            read_known(row, self.columns, self.logarithms, values, seen)
            right = _condition(
                &self.mean[0], &self.covariance[0, 0], self.free_level, self.level_variance,
                values, seen, k, self.columns, self.ridge, self.least_variance,
                work, mean, variances,
            )
            calibrate(
                mean, variances, values, seen, k, &self.unmeasured[0], self.columns,
                self.factors[k], self.least_variance,
            )
        free(work)
        free(seen)
        return right


cdef bint _condition(
    const double* prior,
    const double* covariance,
    bint free_level,
    double level_variance,
    const double* values,
    const int64_t* seen,
    Py_ssize_t k,
    Py_ssize_t columns,
    double ridge,
    double least_variance,
    double* work,
    double* mean,
    double* variances,
) noexcept nogil:
    """With K_oo = L Lᵀ: V = L⁻¹ K_o·, z = L⁻¹ (x_o − μ_o), w = L⁻¹ 1. Then the level is
    β = wᵀz / wᵀw, the mean μ + β + Vᵀ (z − β w), and K_jj − Σ V_sj² + (1 − Σ V_sj w_s)² / wᵀw
    what is left of the variances. False where K_oo is not positive definite.
    """
    cdef double* lines = work
    cdef double* triangle = lines + k * columns
    cdef double* z = triangle + k * k
    cdef double* w = z + k
    cdef Py_ssize_t j, s
    cdef double precision, level = 0, value

    if k == 0:
        value = level_variance if free_level else 0.0
        for j in range(columns):
            mean[j] = prior[j]
            variances[j] = covariance[j * columns + j] + value
        return True
    if not whiten(covariance, seen, k, columns, ridge, least_variance, triangle, lines):
        return False
    for s in range(k):
        z[s] = values[seen[s]] - prior[seen[s]]
        w[s] = 1
    forward(triangle, k, z)
    forward(triangle, k, w)
    precision = line_dot(w, w, k)
    if free_level:
        level = line_dot(w, z, k) / precision
    for j in range(columns):
        mean[j] = prior[j] + level
        variances[j] = 1
    # ``variances`` is at first what each column takes of the level's doubt.
    for s in range(k):
        line_add(mean, lines + s * columns, z[s] - level * w[s], columns)
        if free_level:
            line_add(variances, lines + s * columns, -w[s], columns)
    for j in range(columns):
        value = variances[j] * variances[j] / precision if free_level else 0.0
        variances[j] = covariance[j * columns + j] + value
    for s in range(k):
        line_add_squares(variances, lines + s * columns, -1, columns)
    return True
