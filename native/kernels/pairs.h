/* Sums of products over the factors of a pair profile, two at a time. */
#ifndef WHARFINGER_PAIRS_H
#define WHARFINGER_PAIRS_H

#include <stddef.h>

/* Its two numbers are added up apart from each other: one addition needs not wait for the other. */
typedef double two_doubles __attribute__((vector_size(16), aligned(8), may_alias));

#define TWO(numbers, f) (*(const two_doubles *)((numbers) + (f)))

/* Σ l p, and Σ v q + c p + l² w, or without c p where c is NULL. */
static inline void pair_sums(
    const double *l, const double *v, const double *c,
    const double *p, const double *q, const double *w,
    ptrdiff_t width, double *drop, double *variance)
{
    two_doubles drops = {0.0, 0.0}, variances = {0.0, 0.0};
    ptrdiff_t f = 0;
    if (c)
        for (; f + 1 < width; f += 2) {
            drops += TWO(l, f) * TWO(p, f);
            variances += TWO(v, f) * TWO(q, f) + TWO(c, f) * TWO(p, f)
                + TWO(l, f) * TWO(l, f) * TWO(w, f);
        }
    else
        for (; f + 1 < width; f += 2) {
            drops += TWO(l, f) * TWO(p, f);
            variances += TWO(v, f) * TWO(q, f) + TWO(l, f) * TWO(l, f) * TWO(w, f);
        }
    if (f < width) {
        drops[0] += l[f] * p[f];
        variances[0] += c ? v[f] * q[f] + c[f] * p[f] + l[f] * l[f] * w[f]
                          : v[f] * q[f] + l[f] * l[f] * w[f];
    }
    *drop = drops[0] + drops[1];
    *variance = variances[0] + variances[1];
}

#endif
