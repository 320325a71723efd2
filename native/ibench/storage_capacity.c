/* Storage that is held and used (iBench's SoI 3).
 *
 * A file of x % of a quota, in which random segments are written and read past the page cache.
 * The space is the pressure: segments are used at a fixed, modest rate for each percent, since
 * bandwidth is another source's; a disk drive's arm is kept moving all the same.
 */
#include "ibench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SEGMENT_BYTES = 64 << 10,
    SEGMENTS_PER_SECOND = 256, /* at 100 */
    GROWTH_BYTES = 64 << 20,   /* so that the order to stop is never waited for */
    READ_BEHIND = 256,         /* a segment is read so many steps after it was written */
    QUOTA_SHARE = 10,          /* by default: one part in so many of what is free */
};

static struct {
    struct file file;
    const char *directory;
    uint64_t quota_bytes;
    _Atomic uint64_t held_bytes, wanted_bytes;
} store;

static uint64_t quota_of(const struct options *options, uint64_t free_bytes) {
    return options->quota_bytes > 0 ? options->quota_bytes : free_bytes / QUOTA_SHARE;
}

static bool storage_probe(const struct options *options, char reason[REASON_BYTES]) {
    uint64_t free_bytes = 0;
    if (!file_has_device(options->directory, reason)) return false;
    if (!file_free_bytes(options->directory, &free_bytes)) {
        snprintf(reason, REASON_BYTES, "the free space can't be told: %s", strerror(errno));
        return false;
    }
    unsigned long long quota = quota_of(options, free_bytes);
    /* The last room on a disk is not ours to try out. */
    if (free_bytes / 2 >= quota && quota >= SEGMENT_BYTES) return true;
    snprintf(reason, REASON_BYTES, "%llu MiB are free and twice the quota of %llu MiB is wanted",
             (unsigned long long)free_bytes >> 20, quota >> 20);
    return false;
}

static void storage_prepare(const struct options *options, struct worker *workers, size_t count) {
    uint64_t free_bytes = 0;
    file_free_bytes(options->directory, &free_bytes);
    store.directory = options->directory;
    store.quota_bytes = footprint_wanted(quota_of(options, free_bytes), 100);
    store.file = file_open(options->directory);
    for (size_t i = 0; i < count; i++) workers[i].memory = file_block(SEGMENT_BYTES, i);
}

/* --- the space ----------------------------------------------------------------------------- */

static void storage_change(double intensity) {
    uint64_t wanted = footprint_wanted(store.quota_bytes, intensity);
    atomic_store(&store.wanted_bytes, wanted);
    if (wanted >= atomic_load(&store.held_bytes)) return;
    if (ftruncate(store.file.fd, (off_t)wanted) < 0)
        fail(STATUS_FAULT, "%s: %s", store.directory, strerror(errno));
    atomic_store(&store.held_bytes, wanted);
}

static bool has_grown(void) {
    uint64_t held = atomic_load(&store.held_bytes), wanted = atomic_load(&store.wanted_bytes);
    if (held >= wanted) return false;
    uint64_t bytes = wanted - held < GROWTH_BYTES ? wanted - held : GROWTH_BYTES;
    if (fallocate(store.file.fd, 0, (off_t)held, (off_t)bytes) < 0)
        fail(STATUS_FAULT, "%s: cannot allocate %llu MiB: %s; give a smaller --quota, or another "
             "directory", store.directory, (unsigned long long)wanted >> 20, strerror(errno));
    atomic_store(&store.held_bytes, held + bytes);
    return true;
}

/* --- the work ------------------------------------------------------------------------------ */

/* Random, and the same for the same step (splitmix64). */
static off_t segment_of(uint64_t step, uint64_t segments) {
    uint64_t value = (step + 1) * 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    value ^= value >> 31;
    return (off_t)(value % segments * SEGMENT_BYTES);
}

static double storage_work(struct worker *worker, double budget) {
    (void)budget; /* one segment at a time; what is beyond the credit is waited for afterwards */
    if (has_grown()) return 0;
    uint64_t segments = atomic_load(&store.held_bytes) / SEGMENT_BYTES;
    uint64_t step = (uint64_t)worker->mark / 2;
    if (segments == 0) return SEGMENT_BYTES; /* a share of less than one segment */
    if (worker->mark % 2 == 0)
        file_write(store.file, worker->memory, SEGMENT_BYTES, segment_of(step, segments));
    else /* what was only allocated would be read without the device */
        file_read(store.file, worker->memory, SEGMENT_BYTES,
                  segment_of(step < READ_BEHIND ? 0 : step - READ_BEHIND, segments));
    worker->mark++;
    atomic_fetch_add_explicit(&worker->count, SEGMENT_BYTES, memory_order_relaxed);
    return SEGMENT_BYTES;
}

static struct footprint storage_footprint(const struct worker *workers, size_t count) {
    (void)workers;
    (void)count;
    return (struct footprint){atomic_load(&store.held_bytes), store.quota_bytes, false};
}

const struct source storage_capacity_source = {
    .name = "storage-capacity",
    .unit = "bytes/s",
    .bytes_per_count = 1,
    .workers = 1,
    .burst_seconds = 0.05,
    .full_per_second = (double)SEGMENTS_PER_SECOND * SEGMENT_BYTES,
    .capped = true,
    .probe = storage_probe,
    .prepare = storage_prepare,
    .work = storage_work,
    .change = storage_change,
    .footprint = storage_footprint,
};
