/* The directory of one sandbox: made, locked, removed, and found again after a crash.
 *
 * Keeper and init hold a lock on it, so a directory without one belongs to nobody any more.
 */
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "wharfinger-sandbox."

enum {
    DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    MAKE_ATTEMPTS = 16,
    IDLE_ROUNDS = 64, /* against processes that still write while they die */
};

/* --- removal ----------------------------------------------------------------------------- */

struct removal {
    int top;
    unsigned long long serial;
    unsigned long changes;
};

/* Directories are moved up before they are emptied, so that neither a path nor the stack grows
 * with the depth of what a program has made. */
static bool move_up(struct removal *removal, int from, const char *name) {
    char target[NAME_BYTES];
    do {
        snprintf(target, sizeof target, "moved.%llu", removal->serial++);
        if (renameat2(from, name, removal->top, target, RENAME_NOREPLACE) == 0) return true;
    } while (errno == EEXIST);
    return false;
}

static bool remove_entry(struct removal *removal, int directory, const char *name) {
    if (unlinkat(directory, name, 0) == 0) return true;
    if (errno != EISDIR && errno != EPERM) return false;
    /* To be moved or emptied it must be writable; overlayfs leaves one with mode 0. */
    if (fchmodat(directory, name, 0700, 0) != 0) return false;
    if (unlinkat(directory, name, AT_REMOVEDIR) == 0) return true;
    return directory != removal->top && move_up(removal, directory, name);
}

static bool is_dot(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The entries of a directory; NULL with errno. */
static DIR *entries_of(int directory) {
    int own = openat(directory, ".", DIRECTORY);
    DIR *stream = own < 0 ? NULL : fdopendir(own);
    if (stream == NULL && own >= 0) close(own);
    return stream;
}

static void empty_directory(struct removal *removal, int directory) {
    struct dirent *entry;
    DIR *stream = entries_of(directory);
    if (stream == NULL) return;
    while ((entry = readdir(stream)) != NULL)
        if (!is_dot(entry->d_name)) removal->changes += remove_entry(removal, directory, entry->d_name);
    closedir(stream);
}

static void empty_children(struct removal *removal) {
    struct dirent *entry;
    DIR *stream = entries_of(removal->top);
    if (stream == NULL) return;
    while ((entry = readdir(stream)) != NULL) {
        int child = is_dot(entry->d_name) ? -1 : openat(removal->top, entry->d_name, DIRECTORY);
        if (child < 0) continue;
        empty_directory(removal, child);
        close(child);
    }
    closedir(stream);
}

/* A tree of any depth: each round removes what has no directory in it and moves the rest up. Ends
 * when all is gone, or when rounds in a row have changed nothing. */
static int remove_directory(int base, const char *name) {
    struct removal removal = {.top = openat(base, name, DIRECTORY)};
    if (removal.top < 0) return -1;
    int result = -1;
    for (int idle = 0; result < 0 && idle < IDLE_ROUNDS; idle++) {
        unsigned long before = removal.changes;
        empty_directory(&removal, removal.top);
        result = unlinkat(base, name, AT_REMOVEDIR);
        if (result < 0) empty_children(&removal);
        if (removal.changes != before) idle = 0;
    }
    close(removal.top);
    return result;
}

int storage_remove(const struct sandbox *sandbox) {
    char base[PATH_MAX];
    snprintf(base, sizeof base, "%s", sandbox->directory);
    char *name = strrchr(base, '/');
    *name++ = '\0';
    int fd = open(base[0] != '\0' ? base : "/", DIRECTORY);
    if (fd < 0) return -1;
    int result = remove_directory(fd, name);
    close(fd);
    return result;
}

/* --- what a crash has left --------------------------------------------------------------- */

/* 1: removed; 0: somebody's, or gone; -1: it resists. */
static int remove_if_abandoned(int base, const char *name) {
    int directory = openat(base, name, DIRECTORY);
    if (directory < 0) return 0;
    int result = 0;
    if (flock(directory, LOCK_EX | LOCK_NB) == 0) result = remove_directory(base, name) == 0 ? 1 : -1;
    close(directory);
    return result;
}

int storage_clean_up(const char *base, int *failed) {
    struct dirent *entry;
    int removed = 0;
    DIR *stream = opendir(base);
    if (stream == NULL) return -1;
    while ((entry = readdir(stream)) != NULL) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0) continue;
        int result = remove_if_abandoned(dirfd(stream), entry->d_name);
        if (result > 0) removed++;
        if (result < 0) (*failed)++;
    }
    closedir(stream);
    return removed;
}

/* --- a new one --------------------------------------------------------------------------- */

static bool is_still_there(const struct sandbox *sandbox) {
    struct stat named, held;
    return lstat(sandbox->directory, &named) == 0 && fstat(sandbox->directory_fd, &held) == 0 &&
           named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

/* Between the making and the lock somebody who cleans up may have taken it for a leftover. */
static bool take(struct sandbox *sandbox) {
    sandbox->directory_fd = open(sandbox->directory, DIRECTORY);
    if (sandbox->directory_fd < 0) return false;
    if (flock(sandbox->directory_fd, LOCK_EX | LOCK_NB) == 0 && is_still_there(sandbox)) return true;
    close(sandbox->directory_fd);
    return false;
}

static const char *make_inner(struct sandbox *sandbox) {
    if (mkdirat(sandbox->directory_fd, "root", 0755) < 0 ||
        mkdirat(sandbox->directory_fd, "layers", 0755) < 0)
        return strerror(errno);
    sandbox->layers_fd = openat(sandbox->directory_fd, "layers", DIRECTORY);
    return sandbox->layers_fd < 0 ? strerror(errno) : NULL;
}

const char *storage_make(struct sandbox *sandbox, const char *base) {
    char real[PATH_MAX];
    if (realpath(base, real) == NULL) return strerror(errno);
    for (int attempt = 0; attempt < MAKE_ATTEMPTS; attempt++) {
        unsigned long long chance;
        if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance) return strerror(errno);
        /* Room is left for the paths of the mounts beneath it. */
        int size = snprintf(sandbox->directory, sizeof sandbox->directory, "%s/" PREFIX "%016llx",
                            strcmp(real, "/") == 0 ? "" : real, chance);
        if (size > PATH_MAX / 2) return "the path is too long";
        if (mkdir(sandbox->directory, 0700) < 0) {
            if (errno == EEXIST) continue;
            return strerror(errno);
        }
        if (!take(sandbox)) continue;
        const char *problem = make_inner(sandbox);
        if (problem != NULL) storage_remove(sandbox);
        return problem;
    }
    return "no directory of its own could be made";
}
