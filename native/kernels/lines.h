/* Sums over lines of a matrix, which is where a fold-in's time goes. */
#ifndef WHARFINGER_LINES_H
#define WHARFINGER_LINES_H

#include <stddef.h>

/* to += times * what */
static inline void line_add(
    double *restrict to, const double *restrict what, double times, ptrdiff_t count)
{
    for (ptrdiff_t j = 0; j < count; j++)
        to[j] += times * what[j];
}

/* to += times * what ** 2 */
static inline void line_add_squares(
    double *restrict to, const double *restrict what, double times, ptrdiff_t count)
{
    for (ptrdiff_t j = 0; j < count; j++)
        to[j] += times * (what[j] * what[j]);
}

static inline void line_scale(double *what, double times, ptrdiff_t count)
{
    for (ptrdiff_t j = 0; j < count; j++)
        what[j] *= times;
}

/* In four parts, so that no addition waits for the one before it. */
static inline double line_dot(const double *one, const double *other, ptrdiff_t count)
{
    double a = 0, b = 0, c = 0, d = 0;
    ptrdiff_t j = 0;

    for (; j + 4 <= count; j += 4) {
        a += one[j] * other[j];
        b += one[j + 1] * other[j + 1];
        c += one[j + 2] * other[j + 2];
        d += one[j + 3] * other[j + 3];
    }
    for (; j < count; j++)
        a += one[j] * other[j];
    return (a + b) + (c + d);
}

/* Four lines at once: `to` is read and written once for all of them. */
static inline void line_add_4(
    double *restrict to, const double *const what[4], const double times[4], ptrdiff_t count)
{
    const double *restrict a = what[0], *restrict b = what[1];
    const double *restrict c = what[2], *restrict d = what[3];
    const double p = times[0], q = times[1], r = times[2], s = times[3];

    for (ptrdiff_t j = 0; j < count; j++)
        to[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j]);
}

/* The same of the lines and of their squares. */
static inline void line_add_moments_4(
    double *restrict to, double *restrict squares, const double *const what[4],
    const double times[4], ptrdiff_t count)
{
    const double *restrict a = what[0], *restrict b = what[1];
    const double *restrict c = what[2], *restrict d = what[3];
    const double p = times[0], q = times[1], r = times[2], s = times[3];

    for (ptrdiff_t j = 0; j < count; j++) {
        const double pa = p * a[j], qb = q * b[j], rc = r * c[j], sd = s * d[j];

        to[j] += (pa + qb) + (rc + sd);
        squares[j] += (pa * a[j] + qb * b[j]) + (rc * c[j] + sd * d[j]);
    }
}

#endif
