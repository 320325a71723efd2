/* Integer work on the CPUs it is bound to (iBench's SoI 11).
 *
 * Everything stays in registers: the work needs the CPU and its integer units, no cache and no
 * memory. Intensity is the share of each CPU's time that it wants.
 */
#include "ibench.h"

/* About 5 us of work on a CPU of today: short against a period, long against reading a clock. */
enum { ROUNDS = 2000, OPERATIONS_PER_ROUND = 16 };

/* Four chains that do not wait for one another keep several integer units busy. The empty asm
 * takes each value for an unknown one: the compiler can neither leave the work out, nor see
 * where it leads, nor turn the four into one vector. */
#define KEEP(value) __asm__ volatile("" : "+r"(value))

static uint64_t integer_batch(struct worker *worker) {
    uint64_t seed = (uint64_t)worker->mark;
    uint64_t a = seed | 1, b = seed + 3, c = seed ^ 0x9e3779b97f4a7c15U, d = ~seed;
    for (int i = 0; i < ROUNDS; i++) {
        a = (a ^ (a >> 7)) * 5 + 1;
        b = (b + (b << 3)) ^ (b >> 11);
        c = (c ^ (c << 13)) + (c >> 5);
        d = (d - (d >> 9)) * 3;
        KEEP(a);
        KEEP(b);
        KEEP(c);
        KEEP(d);
    }
    return ROUNDS * OPERATIONS_PER_ROUND;
}

static double integer_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, integer_batch);
}

const struct source integer_source = {
    .name = "integer",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = busy_probe,
    .prepare = busy_prepare,
    .work = integer_work,
};
