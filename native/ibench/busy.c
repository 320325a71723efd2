/* Work on the CPUs that a source is bound to: intensity is a share of each CPU's time. */
#include "ibench.h"

#include <stdio.h>
#include <time.h>

enum { TURN_NS = 1000000 };

static int64_t thread_cpu_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * SECOND_NS + used.tv_nsec;
}

double busy_work(struct worker *worker, double budget, uint64_t (*batch)(struct worker *worker)) {
    int64_t before = worker->mark, begun = now_ns();
    int64_t until = begun + (budget < TURN_NS ? (int64_t)budget : TURN_NS);
    uint64_t operations = 0;
    do
        operations += batch(worker);
    while (now_ns() < until);
    atomic_fetch_add_explicit(&worker->count, operations, memory_order_relaxed);
    worker->mark = thread_cpu_ns();
    /* From turn to turn, so that what waiting and listening cost is on the account too; before
     * the first turn the thread has only been set up. */
    return before == 0 ? (double)(now_ns() - begun) : (double)(worker->mark - before);
}

bool busy_probe(const struct options *options, char reason[REASON_BYTES]) {
    if (options->cpu_count > 0) return true;
    snprintf(reason, REASON_BYTES, "no CPU may be used");
    return false;
}

void busy_prepare(const struct options *options, struct worker *workers, size_t count) {
    (void)options;
    (void)workers;
    (void)count;
}
