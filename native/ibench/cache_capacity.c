/* Random reads over a growing part of a cache (iBench's SoI 6, 6' and 9).
 *
 * Intensity is the footprint. Each line of it is read equally often, so the time that this takes
 * grows with it. Where the footprint is so small that a level above would hold it, that level is
 * swept between the reads: they reach their own.
 */
#include "ibench.h"

#include <stdlib.h>

/* Above this many times a level's size, random reads pass by it without help. */
enum { BATCH_LINES = 512, MOST_BATCH_LINES = 8192, PASSES_BY = 4 };

struct ground {
    char *memory;
    uint64_t bytes; /* at intensity 100 */
    char *sweep;    /* as large as the level above; NULL: there is none */
    uint64_t sweep_bytes;
    uint64_t random;
};

static void prepare(const struct options *options, struct worker *workers, size_t count,
                    enum cache_kind kind) {
    for (size_t i = 0; i < count; i++) {
        struct ground *ground = aligned_alloc(CACHE_LINE_BYTES, 2 * CACHE_LINE_BYTES);
        if (ground == NULL) fail(STATUS_FAULT, "no memory for a worker");
        *ground = (struct ground){.random = 2 * i + 1};
        ground->bytes = cache_share(options, options->cpus[i], kind);
        ground->memory = cache_memory(ground->bytes, kind != L1_DATA);
        if (kind != L1_DATA) {
            ground->sweep_bytes = level_above(options, options->cpus[i], kind);
            ground->sweep = cache_memory(ground->sweep_bytes, true);
        }
        workers[i].memory = ground;
    }
}

/* As many reads as there are lines, so that each is read once between two sweeps. */
static uint64_t cache_batch(struct worker *worker) {
    struct ground *ground = worker->memory;
    uint64_t lines = lines_wanted(ground->bytes, worker->pacer.intensity);
    bool sweeps = lines * CACHE_LINE_BYTES < PASSES_BY * ground->sweep_bytes;
    uint64_t most = sweeps ? MOST_BATCH_LINES : BATCH_LINES;
    uint64_t reads = !sweeps || lines > most ? most : lines;
    read_at_random(ground->memory, lines, reads, &ground->random);
    if (sweeps) read_in_turn(ground->sweep, ground->sweep_bytes);
    return reads;
}

static double cache_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, cache_batch);
}

static struct footprint cache_footprint(const struct worker *workers, size_t count) {
    double intensity = atomic_load_explicit(&workers->crew->intensity, memory_order_relaxed);
    struct footprint footprint = {0};
    for (size_t i = 0; i < count && intensity > 0; i++) {
        const struct ground *ground = workers[i].memory;
        footprint.held_bytes += lines_wanted(ground->bytes, intensity) * CACHE_LINE_BYTES;
    }
    return footprint;
}

#define DEFINE_SOURCE(SYMBOL, NAME, KIND)                                                     \
    static bool SYMBOL##_probe(const struct options *options, char reason[REASON_BYTES]) {    \
        return cache_probe(options, KIND, reason);                                            \
    }                                                                                         \
    static void SYMBOL##_prepare(const struct options *options, struct worker *workers,       \
                                 size_t count) {                                              \
        prepare(options, workers, count, KIND);                                               \
    }                                                                                         \
    const struct source SYMBOL##_source = {                                                   \
        .name = NAME,                                                                         \
        .unit = "operations/s",                                                               \
        .per_cpu = true,                                                                      \
        .burst_seconds = 0.02,                                                                \
        .bytes_per_count = CACHE_LINE_BYTES,                                                  \
        .full_per_second = 1e9, /* nanoseconds of CPU time */                                 \
        .probe = SYMBOL##_probe,                                                              \
        .prepare = SYMBOL##_prepare,                                                          \
        .work = cache_work,                                                                   \
        .footprint = cache_footprint,                                                         \
    }

DEFINE_SOURCE(l1_data_cache, "l1-data-cache", L1_DATA);
DEFINE_SOURCE(l2_cache, "l2-cache", L2);
DEFINE_SOURCE(last_level_cache, "last-level-cache", LAST_LEVEL);
