/* Streaming reads over a part of a cache (iBench's SoI 7 and 7').
 *
 * The part is larger than the levels above and smaller than the cache: half of the second level, a
 * quarter of the last one. Intensity is the share of each CPU's time, and so of the rate.
 */
#include "ibench.h"

#include <stdlib.h>

enum { BATCH_BYTES = 256 << 10 };

struct stream {
    char *memory;
    uint64_t bytes, at;
};

static void prepare(const struct options *options, struct worker *workers, size_t count,
                    enum cache_kind kind) {
    for (size_t i = 0; i < count; i++) {
        struct stream *stream = aligned_alloc(CACHE_LINE_BYTES, CACHE_LINE_BYTES);
        if (stream == NULL) fail(STATUS_FAULT, "no memory for a worker");
        uint64_t bytes = cache_share(options, options->cpus[i], kind) / (kind == L2 ? 2 : 4);
        uint64_t least = 2 * level_above(options, options->cpus[i], kind);
        *stream = (struct stream){.bytes = bytes > least ? bytes : least};
        stream->memory = cache_memory(stream->bytes, true);
        workers[i].memory = stream;
    }
}

static uint64_t bandwidth_batch(struct worker *worker) {
    struct stream *stream = worker->memory;
    uint64_t left = stream->bytes - stream->at;
    uint64_t bytes = left < BATCH_BYTES ? left : BATCH_BYTES;
    read_in_turn(stream->memory + stream->at, bytes);
    stream->at = (stream->at + bytes) % stream->bytes;
    return bytes;
}

static double bandwidth_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, bandwidth_batch);
}

static struct footprint bandwidth_footprint(const struct worker *workers, size_t count) {
    struct footprint footprint = {0};
    for (size_t i = 0; i < count && atomic_load(&workers->crew->intensity) > 0; i++)
        footprint.held_bytes += ((const struct stream *)workers[i].memory)->bytes;
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
        .unit = "bytes/s",                                                                    \
        .per_cpu = true,                                                                      \
        .burst_seconds = 0.02,                                                                \
        .bytes_per_count = 1,                                                                 \
        .full_per_second = 1e9, /* nanoseconds of CPU time */                                 \
        .probe = SYMBOL##_probe,                                                              \
        .prepare = SYMBOL##_prepare,                                                          \
        .work = bandwidth_work,                                                               \
        .footprint = bandwidth_footprint,                                                     \
    }

DEFINE_SOURCE(l2_bandwidth, "l2-bandwidth", L2);
DEFINE_SOURCE(last_level_cache_bandwidth, "last-level-cache-bandwidth", LAST_LEVEL);
