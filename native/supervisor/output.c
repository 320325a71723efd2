/* The program's output: from the pipe into at most two segments of half the cap each.
 *
 * A segment `output.<offset of its first byte>` is one unbroken stretch. Where a write fails, the
 * oldest segment makes room and a fresh one begins; where that fails too, bytes are dropped and
 * counted and the next segment's name says where the output goes on. The pipe is read in any
 * case, so the program never waits for the disk's room.
 *
 * Beside each segment `times.<offset>` tells when its bytes came: entries of two numbers, of 8
 * bytes each with the lowest first, an offset and the microseconds since 1970 at which output went
 * on there. An entry is one tenth of a second after the one before or later, and the more there
 * are the later, which bounds them; one that is cut off was not written whole and counts for
 * nothing. An index that can't be written is done without.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 32 << 10,
    RETRY_AFTER_MS = 1000,
    DRAIN_BUFFERS = 64,
    TIME_GAP_US = 100000, /* twice of it after so many entries, and so on */
    TIMES_PER_GAP = 16384,
    TIME_BYTES = 16,
};

static const char SEGMENT[] = "output";
static const char TIMES[] = "times";

void output_open(struct output *output, int dir, int pipe_fd, uint64_t cap_bytes) {
    *output = (struct output){
        .dir = dir, .pipe_fd = pipe_fd, .segment_fd = -1, .times_fd = -1,
        .segment_cap_bytes = cap_bytes / 2};
}

static const char *name_of(const char *kind, uint64_t start) {
    static char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%020llu", kind, (unsigned long long)start);
    return name;
}

static void remove_segment(const struct output *output, uint64_t start) {
    unlinkat(output->dir, name_of(SEGMENT, start), 0);
    unlinkat(output->dir, name_of(TIMES, start), 0);
}

static void close_segment(struct output *output) {
    if (output->segment_fd >= 0) close(output->segment_fd);
    if (output->times_fd >= 0) close(output->times_fd);
    output->segment_fd = output->times_fd = -1;
}

static int create(const struct output *output, const char *name) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(output->dir, name, flags, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
    /* Not ours: we never use an offset twice. */
    unlinkat(output->dir, name, 0);
    return openat(output->dir, name, flags, 0600);
}

static int open_segment(struct output *output) {
    close_segment(output);
    if (output->kept == 2) {
        remove_segment(output, output->starts[0]);
        output->starts[0] = output->starts[1];
        output->kept = 1;
    }
    output->segment_fd = create(output, name_of(SEGMENT, output->offset));
    if (output->segment_fd < 0) return -1;
    output->times_fd = create(output, name_of(TIMES, output->offset));
    output->time_count = 0;
    output->starts[output->kept++] = output->offset;
    return 0;
}

/* How full the open segment is. */
static uint64_t segment_bytes(const struct output *output) {
    return output->offset - output->starts[output->kept - 1];
}

static void remove_empty_segment(struct output *output) {
    close_segment(output);
    remove_segment(output, output->starts[--output->kept]);
}

static void encode(unsigned char *bytes, uint64_t number) {
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(number >> (8 * i));
}

/* That what follows comes now, unless the last entry says so well enough. */
static void note_time(struct output *output) {
    unsigned char entry[TIME_BYTES];
    struct timespec now;
    if (output->times_fd < 0) return;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    int64_t passed_us = now_us - output->timed_at_us;
    int64_t gap_us = (int64_t)TIME_GAP_US << (output->time_count / TIMES_PER_GAP);
    /* A clock that was set back is believed at once. */
    if (output->time_count > 0 && passed_us >= 0 && passed_us < gap_us) return;
    encode(entry, output->offset);
    encode(entry + 8, (uint64_t)now_us);
    off_t at = (off_t)(output->time_count * TIME_BYTES);
    if (pwrite(output->times_fd, entry, sizeof entry, at) != (ssize_t)sizeof entry) return;
    output->time_count++;
    output->timed_at_us = now_us;
}

static ssize_t append(struct output *output, const char *data, size_t size) {
    uint64_t room = output->segment_cap_bytes - segment_bytes(output);
    ssize_t written;
    note_time(output);
    do
        written = write(output->segment_fd, data, size < room ? size : (size_t)room);
    while (written < 0 && errno == EINTR);
    if (written > 0) output->offset += (uint64_t)written;
    return written;
}

static ssize_t append_to_fresh(struct output *output, const char *data, size_t size) {
    if (open_segment(output) < 0) return -1;
    ssize_t written = append(output, data, size);
    if (written <= 0) remove_empty_segment(output);
    return written;
}

static ssize_t store(struct output *output, const char *data, size_t size) {
    bool open = output->segment_fd >= 0 && segment_bytes(output) < output->segment_cap_bytes;
    ssize_t written = open ? append(output, data, size) : -1;
    return written > 0 ? written : append_to_fresh(output, data, size);
}

static void store_or_drop(struct output *output, const char *data, size_t size) {
    while (size > 0 && now_ms() >= output->retry_at_ms) {
        ssize_t written = store(output, data, size);
        if (written <= 0) {
            output->retry_at_ms = now_ms() + RETRY_AFTER_MS;
            break;
        }
        data += written;
        size -= (size_t)written;
    }
    output->offset += size;
    output->dropped_bytes += size;
}

bool output_pump(struct output *output) {
    static char buffer[BUFFER_BYTES];
    if (output->pipe_fd < 0) return false;
    ssize_t size = read(output->pipe_fd, buffer, sizeof buffer);
    if (size > 0) {
        store_or_drop(output, buffer, (size_t)size);
        return true;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    /* Every writer is gone. A closed pipe stays readable: out of the loop with it. */
    close(output->pipe_fd);
    output->pipe_fd = -1;
    return false;
}

void output_drain(struct output *output) {
    /* Bounded: somebody outside the tree may hold the pipe and write for ever. */
    for (int i = 0; i < DRAIN_BUFFERS && output_pump(output); i++) continue;
    close_segment(output);
}
