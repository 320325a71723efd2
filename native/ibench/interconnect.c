/* Messages between cores (iBench's SoI 14).
 *
 * Each worker has a mailbox of a few cache lines; a message is an addition in a line of another
 * worker's, which takes that line away from whichever core had it. Intensity is the share of
 * each CPU's time, so the number of messages, and the share of the others that each worker
 * writes to. Workers read their own mailboxes, so that lines go both ways.
 */
#include "ibench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 16, MESSAGES = 64 /* of a batch */ };

struct line {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t messages;
};

static struct line *mailboxes;

static bool interconnect_probe(const struct options *options, char reason[REASON_BYTES]) {
    if (options->cpu_count > 1) return true;
    snprintf(reason, REASON_BYTES, "messages go between cores and only one CPU may be used");
    return false;
}

static void interconnect_prepare(const struct options *options, struct worker *workers,
                                 size_t count) {
    (void)options;
    (void)workers;
    size_t bytes = count * LINES * sizeof *mailboxes;
    mailboxes = aligned_alloc(CACHE_LINE_BYTES, bytes);
    if (mailboxes == NULL) fail(STATUS_FAULT, "no memory for %zu mailboxes", count);
    memset(mailboxes, 0, bytes);
}

/* At least one, at most all others. */
static size_t fan_out(double intensity, size_t others) {
    size_t reached = (size_t)(intensity / 100 * (double)others + 0.999);
    return reached < 1 ? 1 : reached > others ? others : reached;
}

static uint64_t interconnect_batch(struct worker *worker) {
    size_t count = worker->crew->count, reached = fan_out(worker->pacer.intensity, count - 1);
    const struct line *own = &mailboxes[worker->index * LINES];
    static _Thread_local size_t turn; /* goes on with the next one */
    uint64_t messages = 0;
    while (messages < MESSAGES) {
        size_t other = (worker->index + 1 + turn++ % reached) % count;
        for (size_t line = 0; line < LINES; line++, messages++)
            atomic_fetch_add_explicit(&mailboxes[other * LINES + line].messages, 1,
                                      memory_order_relaxed);
    }
    for (size_t line = 0; line < LINES; line++)
        (void)*(const volatile uint64_t *)&own[line].messages;
    return messages;
}

static double interconnect_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, interconnect_batch);
}

const struct source interconnect_source = {
    .name = "interconnect",
    .unit = "messages/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .bytes_per_count = CACHE_LINE_BYTES,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = interconnect_probe,
    .prepare = interconnect_prepare,
    .work = interconnect_work,
};
