/* Block I/O on a directory's file system (iBench's SoI 4).
 *
 * Serial writes and reads of a preallocated file, past the page cache, by a few threads so that
 * the device always has a request waiting. Intensity is the share of the rate that the same work
 * reaches at most.
 */
#include "ibench.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 4, BLOCK_BYTES = 256 << 10 };

static struct file file;
static uint64_t blocks_per_worker;

static bool storage_probe(const struct options *options, char reason[REASON_BYTES]) {
    uint64_t free_bytes;
    if (!file_has_device(options->directory, reason)) return false;
    if (!file_free_bytes(options->directory, &free_bytes)) return true; /* opening will tell */
    /* The last room on a disk is not ours to try out. */
    if (free_bytes / 2 >= options->file_bytes) return true;
    snprintf(reason, REASON_BYTES, "%llu MiB are free and twice the file's %llu MiB are wanted",
             (unsigned long long)free_bytes >> 20, (unsigned long long)options->file_bytes >> 20);
    return false;
}

static void storage_prepare(const struct options *options, struct worker *workers, size_t count) {
    file = file_open(options->directory);
    int error = posix_fallocate(file.fd, 0, (off_t)options->file_bytes);
    if (error != 0)
        fail(STATUS_FAULT, "%s: cannot allocate %llu MiB: %s; give a smaller --file-bytes",
             options->directory, (unsigned long long)options->file_bytes >> 20, strerror(error));
    blocks_per_worker = options->file_bytes / BLOCK_BYTES / count;
    for (size_t i = 0; i < count; i++) workers[i].memory = file_block(BLOCK_BYTES, i);
}

/* --- the work ------------------------------------------------------------------------------ */

/* Reads follow half a round behind the writes, or as far as there is something written:
 * a block that was only allocated is read without the device. */
static uint64_t block_to_read(uint64_t step) {
    uint64_t distance = blocks_per_worker / 2;
    return step < distance ? 0 : step - distance;
}

static double storage_work(struct worker *worker, double budget) {
    (void)budget; /* one request at a time; what is beyond the credit is waited for afterwards */
    uint64_t step = (uint64_t)worker->mark / 2;
    bool writes = worker->mark % 2 == 0;
    uint64_t block = (writes ? step : block_to_read(step)) % blocks_per_worker;
    off_t at = (off_t)((worker->index * blocks_per_worker + block) * BLOCK_BYTES);
    if (writes)
        file_write(file, worker->memory, BLOCK_BYTES, at);
    else
        file_read(file, worker->memory, BLOCK_BYTES, at);
    worker->mark++;
    atomic_fetch_add_explicit(&worker->count, BLOCK_BYTES, memory_order_relaxed);
    return BLOCK_BYTES;
}

/* The first round over the file pays for its allocation, the later ones for their own work. */
static bool storage_settled(const struct worker *workers, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) total += atomic_load(&workers[i].count);
    return total >= 2 * count * blocks_per_worker * BLOCK_BYTES;
}

const struct source storage_bandwidth_source = {
    .name = "storage-bandwidth",
    .unit = "bytes/s",
    .workers = WORKERS,
    .bytes_per_count = 1,
    .burst_seconds = 0.05,
    .probe = storage_probe,
    .prepare = storage_prepare,
    .work = storage_work,
    .settled = storage_settled,
    .settle_seconds = 4,
};
