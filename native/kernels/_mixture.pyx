# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One row given some of its entries, under a stack of mixtures centred on known rows.

Called through ``wharfinger.estimators.stack`` and ``.recommender``. The equations, and the NumPy
reference that says the same, stand in ``wharfinger.estimators.mixture``.
"""

from libc.math cimport INFINITY, exp, isinf, log1p
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from _row cimport (
    calibrate, count_known, forward, line_add, line_add_4, line_add_moments_4, line_add_squares,
    line_dot, line_scale, read_known, whiten,
)

cdef object _empty = np.empty

# Of the likeliest component: e ** -14 is under a millionth.
cdef double LEAST_LOG = -14.0


cdef class Mixtures:
    """Members, their weights, and what comes after them. Holds the arrays; changes none.

    Args:
        kernels: (Q, C, C) covariances.
        residuals: (F, N, C) known rows about the mean.
        log_weights: (F, N) of the components.
        means: (M, C) of the members.
        of: (M, 3) which kernel and which residuals a member has, and whether its level is free.
        settings: (M, 3) a, the degrees of freedom (infinite = normal), and weight in the stack.
        factors: (C + 1,) to multiply deviations by, per number of known entries.
        unmeasured: (C,) variance to add.
        logarithms: Rows come in their own scale; the equations take logarithms.
        ridge: Of the mean known variance, added to each.
        least_variance: Added besides; and no unknown entry has less.
    """

    cdef const double[:, :, ::1] kernels
    cdef const double[:, :, ::1] residuals
    cdef const double[:, :, ::1] by_column
    cdef const double[:, ::1] log_weights
    cdef const double[:, ::1] means
    cdef const int64_t[:, ::1] of
    cdef const double[:, ::1] settings
    cdef const double[::1] factors
    cdef const double[::1] unmeasured
    cdef double ridge, least_variance
    cdef bint logarithms
    cdef Py_ssize_t columns
    cdef tuple given

    def __init__(
        self, kernels, residuals, log_weights, means, of, settings, factors, unmeasured,
        bint logarithms, double ridge, double least_variance,
    ):
        self.given = (
            kernels, residuals, log_weights, means, of, settings, factors, unmeasured, logarithms,
            ridge, least_variance,
        )
        self.kernels, self.residuals, self.log_weights = kernels, residuals, log_weights
        self.means, self.of, self.settings = means, of, settings
        self.factors, self.unmeasured = factors, unmeasured
        self.by_column = np.ascontiguousarray(np.swapaxes(residuals, 1, 2))
        self.columns = self.means.shape[1]
        if (
            self.kernels.shape[1] != self.columns or self.kernels.shape[2] != self.columns
            or self.residuals.shape[2] != self.columns
            or self.residuals.shape[0] != self.log_weights.shape[0]
            or self.residuals.shape[1] != self.log_weights.shape[1]
            or self.of.shape[0] != self.means.shape[0] or self.of.shape[1] != 3
            or self.settings.shape[0] != self.means.shape[0] or self.settings.shape[1] != 3
            or self.factors.shape[0] != self.columns + 1
            or self.unmeasured.shape[0] != self.columns
        ):
            raise ValueError("a stack's arrays have different numbers of rows or columns")
        self.logarithms = logarithms
        self.ridge, self.least_variance = ridge, least_variance

    def __reduce__(self):
        return Mixtures, self.given

    def fold_in(self, const double[::1] row not None):
        """Means, variances and transformed values of one row, (C,) each.

        Returns:
            ``None`` where the row is not of this length, knows nothing, holds what is no value, or
            a covariance is not positive definite, or it is infinitely far from every known row: the
            reference then says what is to be said.
        """
        if row.shape[0] != self.columns:
            return None
        mean_array, variance_array = _empty(self.columns), _empty(self.columns)
        value_array = _empty(self.columns)
        cdef double[::1] mean = mean_array
        cdef double[::1] variances = variance_array
        cdef double[::1] values = value_array
        if not self._fold_in(&row[0], &mean[0], &variances[0], &values[0]):
            return None
        return mean_array, variance_array, value_array

    def fold_in_many(self, const double[:, ::1] rows not None):
        """The same of (R, C) rows, each as alone.

        Returns:
            (R, C) means, variances and transformed values, and for each row whether it is told.
        """
        cdef Py_ssize_t i, count = rows.shape[0]
        shape = (count, self.columns)
        mean_array, variance_array, value_array = _empty(shape), _empty(shape), _empty(shape)
        cdef double[:, ::1] mean = mean_array
        cdef double[:, ::1] variances = variance_array
        cdef double[:, ::1] values = value_array
        cdef list told = [False] * count
        if rows.shape[1] == self.columns:
            for i in range(count):
                told[i] = self._fold_in(
                    &rows[i, 0], &mean[i, 0], &variances[i, 0], &values[i, 0]
                )
        return mean_array, variance_array, value_array, told

    cdef bint _fold_in(
        self, const double* row, double* mean, double* variances, double* values
    ) except? False:
        cdef Py_ssize_t columns = self.columns, rows = self.residuals.shape[1]
        cdef Py_ssize_t k = count_known(row, columns, self.logarithms)
        if k <= 0:
            return False
        cdef Py_ssize_t size = (2 * k + 5) * columns + 2 * k * k + 2 * k + (k + 2) * rows
        cdef double* work = <double*>malloc(size * sizeof(double))
        cdef int64_t* seen = <int64_t*>malloc((k + rows) * sizeof(int64_t))
        cdef bint right = False
        if work == NULL or seen == NULL:
            free(work)
            free(seen)
            raise MemoryError
        with nogil:
            read_known(row, columns, self.logarithms, values, seen)
            right = self._members(values, seen, k, work, mean, variances)
            calibrate(
                mean, variances, values, seen, k, &self.unmeasured[0], columns, self.factors[k],
                self.least_variance,
            )
        free(work)
        free(seen)
        return right

    cdef bint _members(
        self, const double* values, int64_t* seen, Py_ssize_t k, double* work, double* mean,
        double* variances,
    ) noexcept nogil:
        """The weighted mean of members: their own variances, and how much they disagree."""
        cdef Py_ssize_t columns = self.columns, m, j
        cdef double* squares = work
        cdef double* one = squares + columns
        cdef double* left = one + columns
        cdef double weight
        for j in range(columns):
            mean[j] = variances[j] = squares[j] = 0
        for m in range(self.means.shape[0]):
            if not _member(
                &self.kernels[self.of[m, 0], 0, 0], &self.residuals[self.of[m, 1], 0, 0],
                &self.by_column[self.of[m, 1], 0, 0], &self.log_weights[self.of[m, 1], 0],
                &self.means[m, 0], self.of[m, 2] != 0, self.settings[m, 0], self.settings[m, 1],
                values, seen, self.residuals.shape[1], columns, k, self.ridge,
                self.least_variance, left + columns, one, left,
            ):
                return False
            weight = self.settings[m, 2]
            line_add(mean, one, weight, columns)
            line_add_squares(squares, one, weight, columns)
            line_add(variances, left, weight, columns)
        for j in range(columns):
            variances[j] += squares[j] - mean[j] * mean[j]
            if variances[j] < 0:
                variances[j] = 0
        return True


cdef bint _member(
    const double* kernel,
    const double* residuals,
    const double* by_column,
    const double* log_weights,
    const double* prior,
    bint free_level,
    double a,
    double nu,
    const double* values,
    int64_t* seen,
    Py_ssize_t rows,
    Py_ssize_t columns,
    Py_ssize_t k,
    double ridge,
    double least_variance,
    double* work,
    double* mean,
    double* variances,
) noexcept nogil:
    """One member's means and variances.

    With K_oo = L Lᵀ, V = L⁻¹ K_o·, w = L⁻¹ 1 and y_i = L⁻¹ (x_o − m_o − a r_io), component i's
    mean is m + a r_i + Uᵀ y_i; U = V, and where the level is free V + w hᵀ / wᵀw, h = 1 − Vᵀ w.
    """
    cdef double* lines = work
    cdef double* shared = lines + k * columns
    cdef double* centre = shared + k * columns
    cdef double* squares = centre + columns
    cdef double* triangle = squares + columns
    cdef double* between = triangle + k * k
    cdef double* w = between + k * k
    cdef double* y_mean = w + k
    cdef double* weights = y_mean + k
    cdef double* scratch = weights + rows
    cdef double* y = scratch + rows
    cdef double* line
    cdef int64_t* active = seen + k
    cdef Py_ssize_t i, j, s, t, count
    cdef double precision, value, own = 1 - a * a

    if not whiten(kernel, seen, k, columns, ridge, least_variance, triangle, lines):
        return False
    for s in range(k):
        w[s] = 1
    forward(triangle, k, w)
    precision = line_dot(w, w, k)
    # ``centre`` is h to begin with.
    for j in range(columns):
        centre[j] = 1
        variances[j] = kernel[j * columns + j]
        mean[j] = prior[j]
    for s in range(k):
        line_add_squares(variances, lines + s * columns, -1, columns)
        if free_level:
            line_add(centre, lines + s * columns, -w[s], columns)
    if free_level:
        line_add_squares(variances, centre, 1 / precision, columns)
        for s in range(k):
            line_add(lines + s * columns, centre, w[s] / precision, columns)
    for j in range(columns):
        variances[j] *= own

    if a <= 0:
        for s in range(k):
            y_mean[s] = values[seen[s]] - prior[seen[s]]
        forward(triangle, k, y_mean)
        for s in range(k):
            line_add(mean, lines + s * columns, y_mean[s], columns)
        return True

    # A line of ``y`` for each known entry, so that loops run over rows.
    for s in range(k):
        line = y + s * rows
        value = values[seen[s]] - prior[seen[s]]
        for i in range(rows):
            line[i] = value - a * by_column[seen[s] * rows + i]
        for t in range(s):
            line_add(line, y + t * rows, -triangle[s * k + t], rows)
        line_scale(line, triangle[s * k + s], rows)
    _distances(weights, y, w, precision, free_level, own, rows, k)
    if isinf(nu):
        count = _weigh(weights, log_weights, active, rows)
    else:
        count = _weigh_freely(weights, log_weights, active, rows, nu, k - (1 if free_level else 0))
    if count == 0:
        return False
    for s in range(k):
        line = y + s * rows
        for i in range(count):
            line[i] = line[active[i]]
        y_mean[s] = line_dot(weights, line, count)
        for i in range(count):
            line[i] -= y_mean[s]
    _spread(residuals, weights, active, count, y, rows, k, columns, centre, squares, shared)
    for s in range(k):
        for i in range(count):
            scratch[i] = weights[i] * y[s * rows + i]
        for t in range(k):
            between[s * k + t] = line_dot(scratch, y + t * rows, count)
    for j in range(columns):
        variances[j] += a * a * (squares[j] - centre[j] * centre[j])
    line_add(mean, centre, a, columns)
    for s in range(k):
        line_add(mean, lines + s * columns, y_mean[s], columns)
        # What the line varies by itself, and twice what it shares with the known rows.
        for j in range(columns):
            shared[s * columns + j] *= 2 * a
        for t in range(k):
            line_add(shared + s * columns, lines + t * columns, between[s * k + t], columns)
        for j in range(columns):
            variances[j] += lines[s * columns + j] * shared[s * columns + j]
    return True


cdef void _distances(
    double* squares,
    double* y,
    const double* w,
    double precision,
    bint free_level,
    double own,
    Py_ssize_t rows,
    Py_ssize_t k,
) noexcept nogil:
    """q_i = (|y_i|² − (wᵀ y_i)² / wᵀw) / (1 − a²), its second part only where the level is free."""
    cdef Py_ssize_t i, s
    cdef double level
    for i in range(rows):
        squares[i] = 0
    for s in range(k):
        line_add_squares(squares, y + s * rows, 1, rows)
    for i in range(rows):
        if free_level:
            level = 0
            for s in range(k):
                level += w[s] * y[s * rows + i]
            squares[i] -= level * level / precision
        squares[i] = max(squares[i], 0.0) / own


cdef Py_ssize_t _weigh(
    double* weights, const double* log_weights, int64_t* active, Py_ssize_t rows
) noexcept nogil:
    """Squared distances to weights that sum to one, a normal's; those that count come first.

    Returns:
        How many those are; ``active`` says which.
    """
    cdef Py_ssize_t i, count = 0
    cdef double best = -INFINITY, total = 0
    for i in range(rows):
        weights[i] = log_weights[i] - weights[i] / 2
        best = max(best, weights[i])
    for i in range(rows):
        if weights[i] - best > LEAST_LOG:
            weights[count] = exp(weights[i] - best)
            total += weights[count]
            active[count] = i
            count += 1
    line_scale(weights, 1 / total, count)
    return count


cdef Py_ssize_t _weigh_freely(
    double* weights,
    const double* log_weights,
    int64_t* active,
    Py_ssize_t rows,
    double nu,
    Py_ssize_t known,
) noexcept nogil:
    """The same, Student's t."""
    cdef Py_ssize_t i
    for i in range(rows):
        # Halved there.
        weights[i] = (nu + known) * log1p(weights[i] / nu)
    return _weigh(weights, log_weights, active, rows)


cdef void _spread(
    const double* residuals,
    const double* weights,
    const int64_t* active,
    Py_ssize_t count,
    const double* y,
    Py_ssize_t rows,
    Py_ssize_t k,
    Py_ssize_t columns,
    double* centre,
    double* squares,
    double* shared,
) noexcept nogil:
    """Σ π_i r_i, Σ π_i r_i², and for each known entry Σ π_i y_is r_i.

    Four rows at a time, so that sums are read and written a quarter as often.
    """
    cdef const double* four[4]
    cdef double times[4]
    cdef double scaled[4]
    cdef Py_ssize_t i, j, s, n
    for j in range(columns):
        centre[j] = squares[j] = 0
    for j in range(k * columns):
        shared[j] = 0
    for i in range(0, count, 4):
        for n in range(4):
            # Beyond the last, the last once more, with no weight.
            j = min(i + n, count - 1)
            four[n] = residuals + active[j] * columns
            times[n] = weights[j] if i + n < count else 0.0
        line_add_moments_4(centre, squares, four, times, columns)
        for s in range(k):
            for n in range(4):
                scaled[n] = times[n] * y[s * rows + min(i + n, count - 1)]
            line_add_4(shared + s * columns, four, scaled, columns)
