/* A bubble: memory of a given size that is worked on all the time (Bubble-Up; Pythia 2.1).
 *
 * The footprint is the pressure, and intensity a share of each CPU's time. Lines are read and
 * written, half of them at random, half one after another, so that caches and bandwidth are both
 * pressed: a small bubble lives in the first levels, a large one in memory. A service's performance
 * beside bubbles of growing size is the curve on which contention is read off.
 */
#include "ibench.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH_LINES = 256 };

struct bubble {
    char *memory;
    uint64_t lines, at, random;
};

static bool bubble_probe(const struct options *options, char reason[REASON_BYTES]) {
    unsigned long long wanted = options->footprint_bytes;
    if (!busy_probe(options, reason)) return false;
    if (wanted / options->cpu_count < CACHE_LINE_BYTES)
        snprintf(reason, REASON_BYTES, "a bubble is a footprint; give --footprint BYTES");
    else if (memory_room().bytes < (int64_t)wanted)
        snprintf(reason, REASON_BYTES, "%llu MiB are more than could be had; give a smaller "
                 "--footprint", wanted >> 20);
    else
        return true;
    return false;
}

static void bubble_prepare(const struct options *options, struct worker *workers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct bubble *bubble = aligned_alloc(CACHE_LINE_BYTES, CACHE_LINE_BYTES);
        if (bubble == NULL) fail(STATUS_FAULT, "no memory for a worker");
        *bubble = (struct bubble){.random = 2 * i + 1};
        bubble->lines = options->footprint_bytes / count / CACHE_LINE_BYTES;
        bubble->memory = cache_memory(bubble->lines * CACHE_LINE_BYTES, true);
        workers[i].memory = bubble;
    }
}

static void touch(struct bubble *bubble, uint64_t line) {
    *(volatile uint64_t *)(bubble->memory + line * CACHE_LINE_BYTES) += 1;
}

static uint64_t bubble_batch(struct worker *worker) {
    struct bubble *bubble = worker->memory;
    for (int i = 0; i < BATCH_LINES; i++) touch(bubble, drawn(&bubble->random, bubble->lines));
    for (int i = 0; i < BATCH_LINES; i++) {
        touch(bubble, bubble->at);
        bubble->at = bubble->at + 1 < bubble->lines ? bubble->at + 1 : 0;
    }
    return 2 * BATCH_LINES;
}

static double bubble_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, bubble_batch);
}

static struct footprint bubble_footprint(const struct worker *workers, size_t count) {
    struct footprint footprint = {0};
    for (size_t i = 0; i < count; i++) {
        const struct bubble *bubble = workers[i].memory;
        footprint.held_bytes += bubble->lines * CACHE_LINE_BYTES;
    }
    return footprint;
}

const struct source bubble_source = {
    .name = "bubble",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .bytes_per_count = CACHE_LINE_BYTES,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = bubble_probe,
    .prepare = bubble_prepare,
    .work = bubble_work,
    .footprint = bubble_footprint,
};
