/* How much the copy has written.
 *
 * There is no quota for a directory that every file system has, so the upper layers are counted,
 * as du does. That costs time for each file, so it is done when the file system's free space says
 * that the cap may be reached, and else rarely; a count may take a hundredth of the time (a tenth
 * when there is a suspicion). Files that were deleted and are still open are found at the processes
 * that hold them.
 */
#include "sandbox.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum {
    MIN_WAIT_MS = 10,
    MAX_WAIT_MS = 500,
    FASTEST_BYTES_PER_MS = 4 << 20, /* so that the cap is not far behind at the next look */
    MAX_COUNT_WAIT_MS = 30000,
    MIN_COUNT_WAIT_MS = 1000,
    CALM_PAUSES = 100, /* as many times as long as the count took */
    SUSPICIOUS_PAUSES = 10,
    MAX_DEPTH = 200,
    INODE_BYTES = 1024, /* so that files without content count, too */
    MAX_DELETED = 256,
};

struct count {
    uint64_t bytes;
    uint64_t stop_at_bytes; /* who is over the cap need not be counted to the end */
    dev_t device;
};

struct seen {
    struct { dev_t device; ino_t inode; } items[MAX_DELETED];
    size_t count;
};

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_dot(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void count_directory(struct count *count, int parent, const char *name, int depth) {
    struct dirent *entry;
    int own = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = own < 0 ? NULL : fdopendir(own);
    if (stream == NULL) {
        if (own >= 0) close(own);
        return;
    }
    while ((entry = readdir(stream)) != NULL && count->bytes <= count->stop_at_bytes) {
        struct stat status;
        if (is_dot(entry->d_name) ||
            fstatat(own, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            status.st_dev != count->device) /* in memory: limited by its own size */
            continue;
        nlink_t names = S_ISDIR(status.st_mode) || status.st_nlink == 0 ? 1 : status.st_nlink;
        count->bytes += ((uint64_t)status.st_blocks * 512 + INODE_BYTES) / names;
        if (S_ISDIR(status.st_mode) && depth < MAX_DEPTH)
            count_directory(count, own, entry->d_name, depth + 1);
    }
    closedir(stream);
}

/* --- deleted, but open ------------------------------------------------------------------- */

static bool is_new(struct seen *seen, const struct stat *status) {
    for (size_t i = 0; i < seen->count; i++)
        if (seen->items[i].inode == status->st_ino && seen->items[i].device == status->st_dev)
            return false;
    if (seen->count == MAX_DELETED) return true;
    seen->items[seen->count].device = status->st_dev;
    seen->items[seen->count++].inode = status->st_ino;
    return true;
}

/* The link's own mode says how the file was opened: what is only read is of the lower layer. */
static bool is_open_for_writing(int directory, const char *name) {
    struct stat link;
    return fstatat(directory, name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
           (link.st_mode & S_IWUSR) != 0;
}

static bool lies_in_overlay(const char *pid, const char *name) {
    char path[NAME_BYTES * 2];
    struct statfs status;
    snprintf(path, sizeof path, "/proc/%.20s/fd/%.20s", pid, name);
    return statfs(path, &status) == 0 && status.f_type == OVERLAYFS_SUPER_MAGIC;
}

static void count_deleted_of(struct count *count, struct seen *seen, const char *pid) {
    char path[NAME_BYTES];
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *stream = opendir(path);
    if (stream == NULL) return;
    while ((entry = readdir(stream)) != NULL) {
        struct stat status;
        if (is_dot(entry->d_name) || fstatat(dirfd(stream), entry->d_name, &status, 0) < 0 ||
            !S_ISREG(status.st_mode) || status.st_nlink != 0 ||
            !is_open_for_writing(dirfd(stream), entry->d_name) ||
            !lies_in_overlay(pid, entry->d_name) || !is_new(seen, &status))
            continue;
        count->bytes += (uint64_t)status.st_blocks * 512 + INODE_BYTES;
    }
    closedir(stream);
}

static void count_deleted(struct count *count) {
    struct seen seen = {.count = 0};
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    if (proc == NULL) return;
    while ((entry = readdir(proc)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0])) count_deleted_of(count, &seen, entry->d_name);
    closedir(proc);
}

/* --- when -------------------------------------------------------------------------------- */

static uint64_t free_bytes(const struct usage *usage) {
    struct statvfs status;
    if (fstatvfs(usage->layers_fd, &status) < 0) return usage->free_then_bytes;
    return (uint64_t)status.f_bfree * status.f_frsize;
}

void usage_count(struct usage *usage) {
    struct stat status;
    int64_t began_at_ms = now_ms();
    struct count count = {.stop_at_bytes = usage->cap_bytes};
    /* Before the count: what is written during it is then suspected, not overlooked. */
    uint64_t free_then_bytes = free_bytes(usage);
    if (fstat(usage->layers_fd, &status) == 0) {
        count.device = status.st_dev;
        count_directory(&count, usage->layers_fd, ".", 0);
        count_deleted(&count);
    }
    usage->used_bytes = count.bytes;
    if (count.bytes > usage->most_bytes) usage->most_bytes = count.bytes;
    usage->free_then_bytes = free_then_bytes;
    usage->counted_at_ms = now_ms();
    usage->count_took_ms = usage->counted_at_ms - began_at_ms;
}

void usage_begin(struct usage *usage, int layers_fd, uint64_t cap_bytes) {
    *usage = (struct usage){.layers_fd = layers_fd, .cap_bytes = cap_bytes};
    usage_count(usage);
}

static uint64_t suspected_bytes(const struct usage *usage) {
    uint64_t now_free_bytes = free_bytes(usage);
    if (now_free_bytes >= usage->free_then_bytes) return usage->used_bytes;
    return usage->used_bytes + (usage->free_then_bytes - now_free_bytes);
}

static int64_t calm_wait_ms(const struct usage *usage) {
    int64_t wait_ms = usage->count_took_ms * CALM_PAUSES;
    if (wait_ms < MIN_COUNT_WAIT_MS) return MIN_COUNT_WAIT_MS;
    return wait_ms < MAX_COUNT_WAIT_MS ? wait_ms : MAX_COUNT_WAIT_MS;
}

bool usage_exceeds(struct usage *usage) {
    int64_t since_ms = now_ms() - usage->counted_at_ms;
    bool suspicious = suspected_bytes(usage) > usage->cap_bytes;
    if (since_ms >= (suspicious ? usage->count_took_ms * SUSPICIOUS_PAUSES : calm_wait_ms(usage)))
        usage_count(usage);
    return usage->used_bytes > usage->cap_bytes;
}

int64_t usage_wait_ms(const struct usage *usage) {
    uint64_t suspected = suspected_bytes(usage);
    uint64_t left = suspected < usage->cap_bytes ? usage->cap_bytes - suspected : 0;
    uint64_t wait_ms = left / FASTEST_BYTES_PER_MS;
    if (wait_ms < MIN_WAIT_MS) return MIN_WAIT_MS;
    return wait_ms < MAX_WAIT_MS ? (int64_t)wait_ms : MAX_WAIT_MS;
}
