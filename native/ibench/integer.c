/* Integer work on the CPUs it is bound to (iBench's SoI 11).
 *
 * Everything stays in registers: the work needs the CPU and its integer units, no cache and no
 * memory. Intensity is the share of each CPU's time that it wants.
 */
#include "ibench.h"

#include <stdio.h>
#include <time.h>

/* About 5 us of work on a CPU of today: short against a period, long against reading a clock. */
enum { ROUNDS = 2000, OPERATIONS_PER_ROUND = 16, TURN_NS = 1000000 };

/* Four chains that do not wait for one another keep several integer units busy. The empty asm
 * takes each value for an unknown one: the compiler can neither leave the work out, nor see
 * where it leads, nor turn the four into one vector. */
#define KEEP(value) __asm__ volatile("" : "+r"(value))

static uint64_t round_of_chains(uint64_t seed) {
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
    return a ^ b ^ c ^ d;
}

static int64_t thread_cpu_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * SECOND_NS + used.tv_nsec;
}

static double integer_work(struct worker *worker, double budget) {
    int64_t before = worker->mark, begun = now_ns();
    int64_t until = begun + (budget < TURN_NS ? (int64_t)budget : TURN_NS);
    uint64_t rounds = 0, value = (uint64_t)begun;
    do {
        value = round_of_chains(value);
        KEEP(value);
        rounds += ROUNDS;
    } while (now_ns() < until);
    atomic_fetch_add_explicit(&worker->count, rounds * OPERATIONS_PER_ROUND, memory_order_relaxed);
    worker->mark = thread_cpu_ns();
    /* From turn to turn, so that what waiting and listening cost is on the account too; before
     * the first turn the thread has only been set up. */
    return before == 0 ? (double)(now_ns() - begun) : (double)(worker->mark - before);
}

static void integer_prepare(const struct options *options, struct worker *workers, size_t count) {
    (void)options;
    (void)workers;
    (void)count;
}

static bool integer_probe(const struct options *options, char reason[REASON_BYTES]) {
    if (options->cpu_count > 0) return true;
    snprintf(reason, REASON_BYTES, "no CPU may be used");
    return false;
}

const struct source integer_source = {
    .name = "integer",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = integer_probe,
    .prepare = integer_prepare,
    .work = integer_work,
};
