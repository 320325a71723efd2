/* What is on disk when everything else is gone: the claim and the records.
 *
 * A claim appears whole or not at all: it is written under a name of our own, synced, and then
 * linked to `claim`, which fails when there is one. A reader therefore never meets the empty
 * claim of a supervisor that is alive.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESERVED_BYTES = 4096, START_TICKS_FIELD = 22 };

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int write_all(int fd, const void *data, size_t size) {
    const char *next = data;
    while (size > 0) {
        ssize_t written = write(fd, next, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        next += written;
        size -= (size_t)written;
    }
    return 0;
}

int read_small(int dir, const char *name, char *text, size_t room) {
    /* O_NONBLOCK: a FIFO in a file's place must not hold us up. */
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return -1;
    ssize_t size = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) size = read(fd, text, room - 1);
    close(fd);
    if (size < 0) return -1;
    text[size] = '\0';
    return 0;
}

int start_ticks_of(pid_t pid, unsigned long long *ticks) {
    char path[NAME_BYTES];
    char stat[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_small(AT_FDCWD, path, stat, sizeof stat) < 0) return -1;
    /* The second field is the program's name, which may hold blanks and brackets. */
    char *field = strrchr(stat, ')');
    for (int number = 2; field != NULL && number < START_TICKS_FIELD; number++)
        field = strchr(field + 1, ' ');
    if (field == NULL) return -1;
    *ticks = strtoull(field + 1, NULL, 10);
    return 0;
}

int identity_of(pid_t pid, struct identity *identity) {
    if (read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id", identity->boot_id,
                   sizeof identity->boot_id) < 0)
        return -1;
    identity->boot_id[strcspn(identity->boot_id, "\n")] = '\0';
    identity->pid = pid;
    return start_ticks_of(pid, &identity->start_ticks);
}

/* The pid in the name makes it ours alone; an older file of that name was left by a crash. */
static int open_own(int dir, const char *name, char *own, size_t room) {
    snprintf(own, room, "%s.new.%d", name, (int)getpid());
    unlinkat(dir, own, 0);
    return openat(dir, own, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int record_reserve(int dir, struct record *record, const char *name) {
    char blanks[RESERVED_BYTES];
    memset(blanks, '\n', sizeof blanks);
    record->name = name;
    record->fd = open_own(dir, name, record->reserved, sizeof record->reserved);
    if (record->fd < 0) return -1;
    if (write_all(record->fd, blanks, sizeof blanks) == 0 && fsync(record->fd) == 0) return 0;
    int error = errno;
    record_discard(dir, record);
    errno = error;
    return -1;
}

void record_discard(int dir, struct record *record) {
    if (record->fd < 0) return;
    unlinkat(dir, record->reserved, 0);
    close(record->fd);
    record->fd = -1;
}

static bool entry_is_ours(int dir, const struct record *record) {
    struct stat entry;
    struct stat held;
    return fstatat(dir, record->reserved, &entry, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(record->fd, &held) == 0 && entry.st_ino == held.st_ino &&
           entry.st_dev == held.st_dev;
}

static int put_in_place(int dir, const struct record *record) {
    if (renameat(dir, record->reserved, dir, record->name) == 0) return 0;
    /* A directory lies in the name's place: change places with it. */
    return renameat2(dir, record->reserved, dir, record->name, RENAME_EXCHANGE);
}

int record_publish(int dir, struct record *record, const char *text) {
    size_t size = strlen(text);
    /* Somebody took our file away or put another in its place: make it again. */
    if (!entry_is_ours(dir, record)) {
        close(record->fd);
        if (record_reserve(dir, record, record->name) < 0) return -1;
    }
    if (lseek(record->fd, 0, SEEK_SET) < 0 || write_all(record->fd, text, size) < 0) return -1;
    /* The blanks behind the text do no harm where they cannot be cut off. */
    if (ftruncate(record->fd, (off_t)size) < 0 && errno == EIO) return -1;
    if (fsync(record->fd) < 0 || put_in_place(dir, record) < 0) return -1;
    close(record->fd);
    record->fd = -1;
    return fsync(dir);
}

bool claim_exists(int dir) {
    struct stat st;
    return fstatat(dir, "claim", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int claim_take(int dir, const struct identity *identity) {
    char own[NAME_BYTES];
    char text[2 * NAME_BYTES];
    int fd = open_own(dir, "claim", own, sizeof own);
    if (fd < 0) return -1;
    int size = snprintf(text, sizeof text, "%s %d %llu\n", identity->boot_id, (int)identity->pid,
                        identity->start_ticks);
    bool linked = write_all(fd, text, (size_t)size) == 0 && fsync(fd) == 0 &&
                  linkat(dir, own, dir, "claim", 0) == 0;
    int error = errno;
    close(fd);
    unlinkat(dir, own, 0);
    if (linked && fsync(dir) == 0) return 1;
    if (linked) return -1;
    errno = error;
    return error == EEXIST ? 0 : -1;
}
