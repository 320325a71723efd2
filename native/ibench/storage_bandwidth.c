/* Block I/O on a directory's file system (iBench's SoI 4).
 *
 * Serial writes and reads of a preallocated file, past the page cache, by a few threads so that
 * the device always has a request waiting. Intensity is the share of the rate that the same work
 * reaches at most. The file never has a name, so nothing has to be removed, whatever ends us.
 */
#include "ibench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { WORKERS = 4, BLOCK_BYTES = 256 << 10, ALIGNMENT_BYTES = 4096 };

static struct {
    int fd;
    bool direct; /* past the page cache; otherwise each write is synced */
    uint64_t blocks_per_worker;
} file;

/* --- is there a device? -------------------------------------------------------------------- */

static const struct {
    unsigned long magic;
    const char *reason;
} NO_DEVICE[] = {
    {0x01021994, "tmpfs, which is memory: no block I/O"},
    {0x858458f6, "ramfs, which is memory: no block I/O"},
    {0x6969, "NFS: its I/O is the network's"},
    {0xff534d42, "CIFS: its I/O is the network's"},
    {0xfe534d42, "SMB: its I/O is the network's"},
};

static bool has_room(const struct options *options, char reason[REASON_BYTES]) {
    struct statvfs space;
    if (statvfs(options->directory, &space) < 0) return true; /* opening will tell */
    uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    /* The last room on a disk is not ours to try out. */
    if (free_bytes / 2 >= options->file_bytes) return true;
    snprintf(reason, REASON_BYTES, "%llu MiB are free and twice the file's %llu MiB are wanted",
             (unsigned long long)free_bytes >> 20, (unsigned long long)options->file_bytes >> 20);
    return false;
}

static bool storage_probe(const struct options *options, char reason[REASON_BYTES]) {
    struct statfs system;
    if (statfs(options->directory, &system) < 0 || access(options->directory, W_OK) < 0) {
        snprintf(reason, REASON_BYTES, "%s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sizeof NO_DEVICE / sizeof *NO_DEVICE; i++)
        if ((unsigned long)system.f_type == NO_DEVICE[i].magic) {
            snprintf(reason, REASON_BYTES, "%s", NO_DEVICE[i].reason);
            return false;
        }
    return has_room(options, reason);
}

/* --- the file ------------------------------------------------------------------------------ */

/* Where files without a name can't be made: one whose name is gone at once. */
static int open_unlinked(const char *directory, int flags) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/.wharfinger-ibench.%d", directory, (int)getpid());
    if (length >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(path, flags | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd >= 0) unlink(path);
    return fd;
}

static int open_nameless(const char *directory, int flags) {
    int fd = open(directory, flags | O_TMPFILE, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
    return open_unlinked(directory, flags);
}

static void open_file(const char *directory) {
    file.direct = true;
    file.fd = open_nameless(directory, O_RDWR | O_CLOEXEC | O_DIRECT);
    if (file.fd < 0 && errno == EINVAL) {
        file.direct = false;
        file.fd = open_nameless(directory, O_RDWR | O_CLOEXEC);
    }
    if (file.fd < 0)
        fail(STATUS_FAULT, "%s: %s; name a directory that can be written", directory,
             strerror(errno));
}

static void *make_block(size_t index) {
    uint64_t *words = aligned_alloc(ALIGNMENT_BYTES, BLOCK_BYTES);
    if (words == NULL) fail(STATUS_FAULT, "no memory for a block");
    /* Nothing that a device could compress or find to be there already. */
    uint64_t value = (uint64_t)now_ns() * (2 * index + 1);
    for (size_t i = 0; i < BLOCK_BYTES / sizeof *words; i++) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        words[i] = value;
    }
    return words;
}

static void storage_prepare(const struct options *options, struct worker *workers, size_t count) {
    open_file(options->directory);
    int error = posix_fallocate(file.fd, 0, (off_t)options->file_bytes);
    if (error != 0)
        fail(STATUS_FAULT, "%s: cannot allocate %llu MiB: %s; give a smaller --file-bytes",
             options->directory, (unsigned long long)options->file_bytes >> 20, strerror(error));
    file.blocks_per_worker = options->file_bytes / BLOCK_BYTES / count;
    for (size_t i = 0; i < count; i++) workers[i].memory = make_block(i);
}

/* --- the work ------------------------------------------------------------------------------ */

static _Noreturn void io_failed(const char *what) {
    fail(STATUS_FAULT, "%s: %s", what, strerror(errno));
}

static void write_block(void *block, off_t at) {
    if (pwrite(file.fd, block, BLOCK_BYTES, at) != BLOCK_BYTES) io_failed("write");
    if (!file.direct && fdatasync(file.fd) < 0) io_failed("fdatasync");
}

static void read_block(void *block, off_t at) {
    if (!file.direct) posix_fadvise(file.fd, at, BLOCK_BYTES, POSIX_FADV_DONTNEED);
    if (pread(file.fd, block, BLOCK_BYTES, at) != BLOCK_BYTES) io_failed("read");
}

/* Reads follow half a round behind the writes, or as far as there is something written:
 * a block that was only allocated is read without the device. */
static uint64_t block_to_read(uint64_t step) {
    uint64_t distance = file.blocks_per_worker / 2;
    return step < distance ? 0 : step - distance;
}

static double storage_work(struct worker *worker, double budget) {
    (void)budget; /* one request at a time; what is beyond the credit is waited for afterwards */
    uint64_t step = (uint64_t)worker->mark / 2;
    bool writes = worker->mark % 2 == 0;
    uint64_t block = (writes ? step : block_to_read(step)) % file.blocks_per_worker;
    off_t at = (off_t)((worker->index * file.blocks_per_worker + block) * BLOCK_BYTES);
    if (writes)
        write_block(worker->memory, at);
    else
        read_block(worker->memory, at);
    worker->mark++;
    atomic_fetch_add_explicit(&worker->count, BLOCK_BYTES, memory_order_relaxed);
    return BLOCK_BYTES;
}

/* The first round over the file pays for its allocation, the later ones for their own work. */
static bool storage_settled(const struct worker *workers, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) total += atomic_load(&workers[i].count);
    return total >= 2 * count * file.blocks_per_worker * BLOCK_BYTES;
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
};
