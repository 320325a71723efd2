/* Streams through memory on the CPUs it is bound to (iBench's SoI 2).
 *
 * Each worker reads one half of its share and writes the other, from the beginning to the end and
 * again. All shares together are about a tenth of memory, so that capacity stays another source's,
 * and far more than the last-level cache, so that every access goes to memory. Intensity is the
 * share of the rate that the same work reaches at most.
 */
#include "ibench.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_BYTES = 512 << 20,
    LEAST_SHARE_BYTES = 1 << 20,
    CHUNK = 4096, /* numbers in one go: some microseconds */
    AHEAD = 4,
    CHUNK_BYTES = CHUNK * (int)sizeof(double),
};
#define TURN_NS (SECOND_NS / 1000)

static struct {
    uint64_t share_bytes;
    int64_t chunks; /* of a half */
} stream;

/* --- is there enough? ---------------------------------------------------------------------- */

/* Of the outermost cache of that CPU; 0 where the kernel does not tell. */
static uint64_t cache_bytes(int cpu) {
    uint64_t largest = 0;
    for (int index = 0; index < 8; index++) {
        char path[128], text[32] = "";
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/size", cpu, index);
        FILE *file = fopen(path, "re");
        if (file == NULL) break;
        char *end = text;
        uint64_t bytes = fgets(text, sizeof text, file) == NULL ? 0 : strtoull(text, &end, 10);
        fclose(file);
        bytes <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

static uint64_t footprint_of(const struct options *options) {
    if (options->footprint_bytes > 0) return options->footprint_bytes;
    uint64_t tenth = memory_room().total_bytes / 10;
    return tenth < MOST_BYTES ? tenth : MOST_BYTES;
}

static bool bandwidth_probe(const struct options *options, char reason[REASON_BYTES]) {
    struct room room = memory_room();
    unsigned long long wanted = footprint_of(options);
    uint64_t cache = options->cpu_count > 0 ? cache_bytes(options->cpus[0]) : 0;
    if (options->cpu_count == 0)
        snprintf(reason, REASON_BYTES, "no CPU may be used");
    else if (room.bytes < (int64_t)wanted)
        snprintf(reason, REASON_BYTES,
                 "%llu MiB are wanted; %llu MiB %s, and a reserve of %llu MiB is kept",
                 wanted >> 20, (unsigned long long)room.available_bytes >> 20,
                 room.of_group ? "are left of the control group's limit" : "are available",
                 (unsigned long long)room.reserve_bytes >> 20);
    else if (wanted / options->cpu_count < LEAST_SHARE_BYTES)
        snprintf(reason, REASON_BYTES, "%llu MiB are less than 1 MiB for each of %zu CPUs; "
                 "give a larger --footprint", wanted >> 20, options->cpu_count);
    else if (options->footprint_bytes == 0 && wanted < 2 * cache)
        snprintf(reason, REASON_BYTES, "%llu MiB are less than twice the last-level cache of %llu "
                 "MiB; give a --footprint", wanted >> 20, (unsigned long long)cache >> 20);
    else
        return true;
    return false;
}

static void bandwidth_prepare(const struct options *options, struct worker *workers, size_t count) {
    stream.chunks = (int64_t)(footprint_of(options) / count / 2 / CHUNK_BYTES);
    stream.share_bytes = (uint64_t)(2 * stream.chunks) * CHUNK_BYTES;
    for (size_t i = 0; i < count; i++)
        workers[i].memory = memory_map(stream.share_bytes + AHEAD * sizeof(double), "footprint");
}

/* --- the work ------------------------------------------------------------------------------ */

static void multiply(double *restrict results, const double *restrict numbers) {
    for (int i = 0; i < CHUNK; i++) results[i] = numbers[i] * numbers[i + AHEAD];
}

/* By the worker, so that its pages are on its own node; unwritten pages are all one. */
static void fill(double *numbers) {
    for (int i = 0; i < CHUNK; i++) numbers[i] = 1;
}

static double bandwidth_work(struct worker *worker, double budget) {
    int64_t until = now_ns() + TURN_NS;
    double *results = worker->memory, *numbers = results + stream.chunks * CHUNK;
    uint64_t done = 0;
    do {
        int64_t at = worker->mark % stream.chunks * CHUNK;
        if (worker->mark < stream.chunks) fill(numbers + at);
        multiply(results + at, numbers + at);
        worker->mark++;
        done += 2 * CHUNK_BYTES;
    } while ((double)done < budget && now_ns() < until);
    atomic_fetch_add_explicit(&worker->count, done, memory_order_relaxed);
    return (double)done;
}

/* The first round over its share pays for the pages. */
static bool bandwidth_settled(const struct worker *workers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (atomic_load(&workers[i].count) < stream.share_bytes) return false;
    return true;
}

static struct footprint bandwidth_footprint(const struct worker *workers, size_t count) {
    struct footprint footprint = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t used = atomic_load_explicit(&workers[i].count, memory_order_relaxed);
        footprint.held_bytes += used < stream.share_bytes ? used : stream.share_bytes;
    }
    return footprint;
}

const struct source memory_bandwidth_source = {
    .name = "memory-bandwidth",
    .unit = "bytes/s",
    .bytes_per_count = 1,
    .per_cpu = true,
    .burst_seconds = 0.02,
    .probe = bandwidth_probe,
    .prepare = bandwidth_prepare,
    .work = bandwidth_work,
    .settled = bandwidth_settled,
    .settle_seconds = 20, /* a hypervisor may give a quarter of a GiB a second */
    .footprint = bandwidth_footprint,
};
