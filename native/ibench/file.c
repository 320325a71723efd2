/* Files on a device, without a name: nothing has to be removed, whatever ends us. */
#include "ibench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ALIGNMENT_BYTES = 4096 };

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

bool file_has_device(const char *directory, char reason[REASON_BYTES]) {
    struct statfs system;
    if (statfs(directory, &system) < 0 || access(directory, W_OK) < 0) {
        snprintf(reason, REASON_BYTES, "%s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sizeof NO_DEVICE / sizeof *NO_DEVICE; i++)
        if ((unsigned long)system.f_type == NO_DEVICE[i].magic) {
            snprintf(reason, REASON_BYTES, "%s", NO_DEVICE[i].reason);
            return false;
        }
    return true;
}

bool file_free_bytes(const char *directory, uint64_t *bytes) {
    struct statvfs space;
    if (statvfs(directory, &space) < 0) return false;
    *bytes = (uint64_t)space.f_bavail * space.f_frsize;
    return true;
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

struct file file_open(const char *directory) {
    struct file file = {.direct = true};
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is told like any other fault */
    file.fd = open_nameless(directory, O_RDWR | O_CLOEXEC | O_DIRECT);
    if (file.fd < 0 && errno == EINVAL) {
        file.direct = false;
        file.fd = open_nameless(directory, O_RDWR | O_CLOEXEC);
    }
    if (file.fd < 0)
        fail(STATUS_FAULT, "%s: %s; name a directory that can be written", directory,
             strerror(errno));
    return file;
}

void *file_block(size_t bytes, size_t index) {
    uint64_t *words = aligned_alloc(ALIGNMENT_BYTES, bytes);
    if (words == NULL) fail(STATUS_FAULT, "no memory for a block");
    uint64_t value = (uint64_t)now_ns() * (2 * index + 1);
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        words[i] = value;
    }
    return words;
}

/* --- reads and writes ---------------------------------------------------------------------- */

static _Noreturn void io_failed(const char *what) {
    fail(STATUS_FAULT, "%s: %s", what, strerror(errno));
}

void file_write(struct file file, const void *block, size_t bytes, off_t at) {
    if (pwrite(file.fd, block, bytes, at) != (ssize_t)bytes) io_failed("write");
    if (!file.direct && fdatasync(file.fd) < 0) io_failed("fdatasync");
}

void file_read(struct file file, void *block, size_t bytes, off_t at) {
    if (!file.direct) posix_fadvise(file.fd, at, (off_t)bytes, POSIX_FADV_DONTNEED);
    if (pread(file.fd, block, bytes, at) != (ssize_t)bytes) io_failed("read");
}
