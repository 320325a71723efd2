/* One overlay: a place for what is written, and the mount.
 *
 * Lower, upper and work directory are named by descriptors: no path, whatever characters it has,
 * has to pass through the mount options.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

struct layer {
    int lower;
    int upper;
    int work;
    char directory[PATH_MAX];
};

void layer_target(const struct sandbox *sandbox, const char *path, char target[PATH_MAX]) {
    int size = snprintf(target, PATH_MAX, "%s/root%s", sandbox->directory, path);
    if (size >= PATH_MAX) fault(sandbox, ENAMETOOLONG, "%s", path);
}

int mount_read_only(const char *target, bool recursive) {
    struct mount_attr attributes = {.attr_set =
                                        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    return mount_setattr(AT_FDCWD, target, recursive ? AT_RECURSIVE : 0, &attributes,
                         sizeof attributes);
}

static int open_directory(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The root of the overlay shows the upper directory's owner and mode, so they are the lower's. */
static int make_upper(const struct layer *layer, const char *path) {
    struct stat status;
    if (mkdir(path, 0700) < 0 || fstat(layer->lower, &status) < 0) return -1;
    /* In a user namespace only the own user and group can be given. */
    if (chown(path, status.st_uid, status.st_gid) < 0 && errno != EINVAL && errno != EPERM)
        return -1;
    return chmod(path, status.st_mode & 07777);
}

static int make_directories(struct sandbox *sandbox, struct layer *layer, bool in_memory) {
    char path[PATH_MAX + NAME_BYTES];
    char size[NAME_BYTES];
    snprintf(layer->directory, sizeof layer->directory, "%.*s/layers/%d", PATH_MAX - NAME_BYTES,
             sandbox->directory, sandbox->layer_count++);
    if (mkdir(layer->directory, 0755) < 0) return -1;
    snprintf(size, sizeof size, "size=%llu,mode=0755",
             (unsigned long long)sandbox->options->cap_bytes);
    if (in_memory && mount("wharfinger", layer->directory, "tmpfs", MS_NODEV | MS_NOSUID, size) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/work", layer->directory);
    if (mkdir(path, 0700) < 0 || (layer->work = open_directory(path)) < 0) return -1;
    snprintf(path, sizeof path, "%s/upper", layer->directory);
    if (make_upper(layer, path) < 0) return -1;
    return (layer->upper = open_directory(path)) < 0 ? -1 : 0;
}

/* What the file system under it forbids stays forbidden. */
static unsigned long flags_of(int lower) {
    struct statvfs status;
    unsigned long flags = MS_NODEV | MS_NOSUID;
    if (fstatvfs(lower, &status) == 0 && (status.f_flag & ST_NOEXEC)) flags |= MS_NOEXEC;
    return flags;
}

/* The first that this kernel and file system take. Renaming directories and writing through
 * one of several hard links are as outside only with the first. Never "volatile": a sync must cost
 * what it costs outside. */
static int mount_overlay(const struct sandbox *sandbox, const struct layer *layer,
                         const char *target) {
    static const char *const AS_ROOT[] = {",redirect_dir=on,index=on", ",redirect_dir=on", "", NULL};
    static const char *const AS_USER[] = {",userxattr", NULL};
    const char *const *extra = sandbox->whole_root ? AS_ROOT : AS_USER;
    for (; *extra != NULL; extra++) {
        char options[PATH_MAX];
        snprintf(options, sizeof options,
                 "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d%s",
                 layer->lower, layer->upper, layer->work, *extra);
        if (mount("wharfinger", target, "overlay", flags_of(layer->lower), options) == 0) return 0;
    }
    return -1;
}

static void let_go(const struct layer *layer) {
    const int fds[] = {layer->lower, layer->upper, layer->work};
    int error = errno;
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0) close(fds[i]);
    errno = error;
}

static bool is_in_memory(int directory) {
    struct statfs status;
    return fstatfs(directory, &status) == 0 && status.f_type == TMPFS_MAGIC;
}

int layer_overlay(struct sandbox *sandbox, const char *path) {
    char target[PATH_MAX];
    struct layer layer = {.lower = open_directory(path), .upper = -1, .work = -1};
    layer_target(sandbox, path, target);
    int result = layer.lower < 0 ? -1 : make_directories(sandbox, &layer, is_in_memory(layer.lower));
    if (result == 0) result = mount_overlay(sandbox, &layer, target);
    let_go(&layer);
    return result;
}

int layer_empty(struct sandbox *sandbox, const char *path) {
    char target[PATH_MAX];
    char upper[PATH_MAX + NAME_BYTES];
    struct layer layer = {.lower = open_directory(path), .upper = -1, .work = -1};
    layer_target(sandbox, path, target);
    int result = layer.lower < 0 ? -1 : make_directories(sandbox, &layer, false);
    snprintf(upper, sizeof upper, "%s/upper", layer.directory);
    if (result == 0) result = mount(upper, target, NULL, MS_BIND, NULL);
    let_go(&layer);
    return result;
}
