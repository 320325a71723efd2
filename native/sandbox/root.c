/* What is at `/` inside.
 *
 * As root: an overlay over the real root and over every other file system that is mounted. As
 * anybody else the kernel allows no overlay over a tree with mounts in it, so all is read-only but
 * for an overlay over each directory that a program of ours is likely to write to.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Not storage: windows on the kernel, or mounted on first use. They stay out. */
static const char *const PSEUDO[] = {
    "autofs",     "binfmt_misc", "bpf",    "cgroup", "cgroup2",  "configfs", "debugfs",
    "devpts",     "devtmpfs",    "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nfsd",
    "nsfs",       "proc",        "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs",
    "tracefs",
};

static bool is_pseudo(const char *type) {
    for (size_t i = 0; i < COUNT(PSEUDO); i++)
        if (strcmp(type, PSEUDO[i]) == 0) return true;
    return false;
}

/* Read-only as it is: the file of a container runtime, a file system that is or must be. */
static void bind_read_only(const struct sandbox *sandbox, const char *path) {
    char target[PATH_MAX];
    layer_target(sandbox, path, target);
    if (mount(path, target, NULL, MS_BIND, NULL) < 0) {
        if (errno == ENOENT || errno == EACCES) return; /* nothing that a program could see */
        fault(sandbox, errno, "cannot bind %s", path);
    }
    if (mount_read_only(target, false) < 0) fault(sandbox, errno, "cannot protect %s", path);
}

/* --- as root ----------------------------------------------------------------------------- */

static void add_mount(struct sandbox *sandbox, const struct mount *mount, long working_mount) {
    struct stat status;
    if (special_covers(mount->point) || is_pseudo(mount->type) || !mount_is_visible(mount)) return;
    bool may_write = !mount->read_only && stat(mount->point, &status) == 0 && S_ISDIR(status.st_mode);
    if (may_write && layer_overlay(sandbox, mount->point) == 0) return;
    if (strcmp(mount->point, "/") == 0 || (may_write && mount->id == working_mount))
        fault(sandbox, may_write ? errno : EROFS, "cannot mount an overlay on %s (%s), upper in %s",
              mount->point, mount->type, sandbox->options->upper_base);
    bind_read_only(sandbox, mount->point);
}

static void build_whole(struct sandbox *sandbox, const char *working_directory) {
    struct mount_table table;
    if (mounts_read(&table) < 0) fault(sandbox, errno, "/proc/self/mountinfo");
    long working_mount = mount_id_of(working_directory);
    for (size_t i = 0; i < table.count; i++) add_mount(sandbox, &table.items[i], working_mount);
}

/* --- in a user namespace ----------------------------------------------------------------- */

struct place {
    char path[PATH_MAX];
    bool may_be_empty; /* where an overlay can't be, a fresh directory does as well */
    bool must_be_writable;
    bool done;
};

static size_t add_place(struct place *places, size_t count, const char *path, bool may_be_empty) {
    struct place *place = &places[count];
    if (path == NULL || realpath(path, place->path) == NULL || access(path, R_OK | X_OK) < 0 ||
        special_covers(place->path))
        return count;
    place->may_be_empty = may_be_empty;
    place->must_be_writable = place->done = false;
    return count + 1;
}

/* Whether something can be made there as the root is so far. No overlay of a user namespace copies
 * up a directory of other users (EOVERFLOW), so it keeps closed what lies beneath such a one. */
static bool is_open(const struct sandbox *sandbox, const char *path) {
    char target[PATH_MAX], probe[PATH_MAX + NAME_BYTES];
    struct stat status;
    layer_target(sandbox, path, target);
    snprintf(probe, sizeof probe, "%s/.wharfinger-XXXXXX", target);
    if (stat(target, &status) < 0 || mkdtemp(probe) == NULL) return errno != EOVERFLOW;
    const struct timespec times[] = {status.st_atim, status.st_mtim};
    rmdir(probe);
    utimensat(AT_FDCWD, target, times, 0);
    return true;
}

static bool is_covered(const struct sandbox *sandbox, const struct place *places, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (places[i].done && path_is_beneath(places[index].path, places[i].path) &&
            mount_id_of(places[index].path) == mount_id_of(places[i].path))
            return is_open(sandbox, places[index].path);
    return false;
}

static int by_path(const void *a, const void *b) {
    const struct place *left = a;
    const struct place *right = b;
    return strcmp(left->path, right->path);
}

/* False when nothing can be put there and what is there stays, read-only. */
static bool cover(struct sandbox *sandbox, const struct place *place) {
    if (layer_overlay(sandbox, place->path) == 0) return true;
    int error = errno;
    if (place->may_be_empty && layer_empty(sandbox, place->path) == 0) return true;
    if (place->must_be_writable)
        fault(sandbox, error, "cannot mount an overlay on %s, upper in %s", place->path,
              sandbox->options->upper_base);
    return false;
}

/* A program started in /tmp/x needs what is there. */
static bool is_dispensable(const char *path, const char *working_directory) {
    return !path_is_beneath(working_directory, path);
}

static size_t list_places(struct place *places, const char *working_directory) {
    size_t count = add_place(places, 0, working_directory, false);
    /* Where it is not writable outside, it needs not be inside. */
    if (count == 1) places[0].must_be_writable = access(working_directory, W_OK) == 0;
    count = add_place(places, count, getenv("HOME"), false);
    count = add_place(places, count, "/tmp", is_dispensable("/tmp", working_directory));
    count = add_place(places, count, "/var/tmp", is_dispensable("/var/tmp", working_directory));
    qsort(places, count, sizeof *places, by_path);
    return count;
}

static void build_places(struct sandbox *sandbox, const char *working_directory) {
    struct place places[4];
    char target[PATH_MAX];
    layer_target(sandbox, "", target);
    if (mount("/", target, NULL, MS_BIND | MS_REC, NULL) < 0 || mount_read_only(target, true) < 0)
        fault(sandbox, errno, "cannot make the root read-only");
    size_t count = list_places(places, working_directory);
    for (size_t i = 0; i < count; i++)
        places[i].done = is_covered(sandbox, places, i) || cover(sandbox, &places[i]);
}

/* --- both -------------------------------------------------------------------------------- */

static void make_root(const struct sandbox *sandbox) {
    char target[PATH_MAX];
    layer_target(sandbox, "", target);
    if (chdir(target) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        fault(sandbox, errno, "cannot change the root");
    if (chdir("/") < 0) fault(sandbox, errno, "/");
}

void root_enter(struct sandbox *sandbox) {
    char working_directory[PATH_MAX];
    const char *asked = sandbox->options->working_directory;
    if (realpath(asked != NULL ? asked : ".", working_directory) == NULL)
        fault(sandbox, errno, "working directory %s", asked != NULL ? asked : ".");
    if (special_covers(working_directory))
        fault(sandbox, 0, "working directory %s lies in /dev, /proc, /run or /sys, which a sandbox "
              "replaces; choose another", working_directory);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fault(sandbox, errno, "cannot make mounts private");
    if (sandbox->whole_root) build_whole(sandbox, working_directory);
    else build_places(sandbox, working_directory);
    special_mount(sandbox);
    make_root(sandbox);
    if (chdir(working_directory) < 0) fault(sandbox, errno, "working directory %s", working_directory);
}
