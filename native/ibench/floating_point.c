/* Scalar floating-point work on the CPUs it is bound to (iBench's SoI 12).
 *
 * Multiplications and additions of doubles in registers: no cache, no memory, no division, and
 * no value that becomes denormal or infinite. Intensity is the share of each CPU's time.
 */
#include "ibench.h"

enum { ROUNDS = 1000, CHAINS = 8, OPERATIONS_PER_ROUND = 2 * CHAINS };

#if defined(__x86_64__)
#define KEEP(value) __asm__ volatile("" : "+x"(value))
#elif defined(__aarch64__)
#define KEEP(value) __asm__ volatile("" : "+w"(value))
#else
#define KEEP(value) __asm__ volatile("" : "+m"(value))
#endif

/* Each chain waits for itself alone; eight of them hide how long an operation takes. The empty
 * asm keeps the compiler from working out several at a time. */
static uint64_t floating_point_batch(struct worker *worker) {
    (void)worker;
    double a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, less = 0.999, more = 0.25;
    KEEP(less);
    KEEP(more);
#define STEP(chain)                 \
    do {                             \
        chain = chain * less + more; \
        KEEP(chain);                 \
    } while (0)
    for (int i = 0; i < ROUNDS; i++) {
        STEP(a);
        STEP(b);
        STEP(c);
        STEP(d);
        STEP(e);
        STEP(f);
        STEP(g);
        STEP(h);
    }
    return ROUNDS * OPERATIONS_PER_ROUND;
}

static double floating_point_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, floating_point_batch);
}

const struct source floating_point_source = {
    .name = "floating-point",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = busy_probe,
    .prepare = busy_prepare,
    .work = floating_point_work,
};
