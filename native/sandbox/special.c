/* /dev, /proc, /sys and /run: made anew, so that nothing of the machine is changed through them.
 */
#include "sandbox.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const COVERED[] = {"/dev", "/proc", "/run", "/sys"};
static const char *const NODES[] = {"null", "zero", "full", "random", "urandom", "tty"};
static const char *const LINKS[][2] = {{"/proc/self/fd", "fd"},
                                       {"/proc/self/fd/0", "stdin"},
                                       {"/proc/self/fd/1", "stdout"},
                                       {"/proc/self/fd/2", "stderr"},
                                       {"pts/ptmx", "ptmx"}};
/* What tells of the machine or acts on it: reads as /dev/null. */
static const char *const MASKED[] = {"kcore",         "kmsg",       "keys",         "key-users",
                                     "sysrq-trigger", "timer_list", "sched_debug",  "latency_stats",
                                     "kpagecount",    "kpageflags", "kpagecgroup"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool special_covers(const char *path) {
    for (size_t i = 0; i < COUNT(COVERED); i++)
        if (path_is_beneath(path, COVERED[i])) return true;
    return false;
}

static void mount_at(const struct sandbox *sandbox, const char *type, const char *path,
                     unsigned long flags, const char *options) {
    char target[PATH_MAX];
    layer_target(sandbox, path, target);
    if (mount("wharfinger", target, type, flags | MS_NOSUID, options) < 0)
        fault(sandbox, errno, "cannot mount %s on %s", type, path);
}

static void mount_memory(const struct sandbox *sandbox, const char *path, mode_t mode) {
    char options[NAME_BYTES];
    snprintf(options, sizeof options, "mode=%o,size=%llu", mode,
             (unsigned long long)sandbox->options->cap_bytes);
    mount_at(sandbox, "tmpfs", path, MS_NODEV, options);
}

/* Through a writable mount, chmod would change the machine's own device; the device itself takes
 * what is written all the same. */
static void protect_node(const struct sandbox *sandbox, const char *target) {
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
    if (mount_setattr(AT_FDCWD, target, 0, &attributes, sizeof attributes) < 0)
        fault(sandbox, errno, "cannot make %s read-only", target);
}

/* --- /dev -------------------------------------------------------------------------------- */

static void bind_node(const struct sandbox *sandbox, const char *name) {
    char source[NAME_BYTES], target[PATH_MAX];
    snprintf(source, sizeof source, "/dev/%s", name);
    layer_target(sandbox, source, target);
    int fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) close(fd);
    if (mount(source, target, NULL, MS_BIND, NULL) < 0)
        fault(sandbox, errno, "cannot bind %s", source);
    protect_node(sandbox, target);
}

static void make_directory(const struct sandbox *sandbox, const char *path, mode_t mode) {
    char target[PATH_MAX];
    layer_target(sandbox, path, target);
    if (mkdir(target, mode) < 0 && errno != EEXIST) fault(sandbox, errno, "cannot make %s", path);
}

static void make_dev(const struct sandbox *sandbox) {
    char target[PATH_MAX];
    mount_at(sandbox, "tmpfs", "/dev", MS_NOEXEC, "mode=0755,size=64k");
    for (size_t i = 0; i < COUNT(NODES); i++) bind_node(sandbox, NODES[i]);
    for (size_t i = 0; i < COUNT(LINKS); i++) {
        char path[NAME_BYTES];
        snprintf(path, sizeof path, "/dev/%s", LINKS[i][1]);
        layer_target(sandbox, path, target);
        if (symlink(LINKS[i][0], target) < 0) fault(sandbox, errno, "cannot make %s", path);
    }
    make_directory(sandbox, "/dev/pts", 0755);
    make_directory(sandbox, "/dev/shm", 01777);
    mount_at(sandbox, "devpts", "/dev/pts", MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    mount_memory(sandbox, "/dev/shm", 01777);
    /* So that a write to a device which is not there makes no file in its place. */
    layer_target(sandbox, "/dev", target);
    protect_node(sandbox, target);
}

/* --- /proc ------------------------------------------------------------------------------- */

static void mask(const struct sandbox *sandbox, const char *name) {
    char path[PATH_MAX], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%s", name);
    layer_target(sandbox, path, target);
    if (access(target, F_OK) < 0) return;
    if (mount("/dev/null", target, NULL, MS_BIND, NULL) < 0)
        fault(sandbox, errno, "cannot mask %s", path);
    protect_node(sandbox, target);
}

/* All but the processes' own and what nobody could write to. */
static bool wants_protection(int proc, const struct dirent *entry) {
    struct stat status;
    if (isdigit((unsigned char)entry->d_name[0]) || entry->d_name[0] == '.') return false;
    if (fstatat(proc, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
    return S_ISDIR(status.st_mode) || (S_ISREG(status.st_mode) && (status.st_mode & 0222) != 0);
}

static void protect(const struct sandbox *sandbox, const char *name) {
    char path[PATH_MAX], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%s", name);
    layer_target(sandbox, path, target);
    if (mount(target, target, NULL, MS_BIND, NULL) < 0 || mount_read_only(target, false) < 0)
        fault(sandbox, errno, "cannot make %s read-only", path);
}

static void make_proc(const struct sandbox *sandbox) {
    char target[PATH_MAX];
    struct dirent *entry;
    mount_at(sandbox, "proc", "/proc", MS_NODEV | MS_NOEXEC, NULL);
    layer_target(sandbox, "/proc", target);
    DIR *proc = opendir(target);
    if (proc == NULL) fault(sandbox, errno, "cannot read /proc");
    while ((entry = readdir(proc)) != NULL)
        if (wants_protection(dirfd(proc), entry)) protect(sandbox, entry->d_name);
    closedir(proc);
    for (size_t i = 0; i < COUNT(MASKED); i++) mask(sandbox, MASKED[i]);
}

/* --- /sys, /run -------------------------------------------------------------------------- */

static void make_sys(const struct sandbox *sandbox) {
    char target[PATH_MAX];
    layer_target(sandbox, "/sys", target);
    if (mount("/sys", target, NULL, MS_BIND | MS_REC, NULL) < 0 || mount_read_only(target, true) < 0)
        fault(sandbox, errno, "cannot make /sys read-only");
}

/* Programs expect the directories of their sockets and locks there: they are made anew, empty. */
static void copy_directory(const struct sandbox *sandbox, int run, const char *name) {
    struct stat status;
    char path[PATH_MAX], target[PATH_MAX];
    if (fstatat(run, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode)) return;
    snprintf(path, sizeof path, "/run/%s", name);
    layer_target(sandbox, path, target);
    if (mkdir(target, 0700) < 0) return;
    /* Not in a user namespace; then it is ours, and so usable. */
    if (chown(target, status.st_uid, status.st_gid) == 0) chmod(target, status.st_mode & 07777);
}

static void make_run(const struct sandbox *sandbox) {
    struct dirent *entry;
    char path[NAME_BYTES];
    mount_memory(sandbox, "/run", 0755);
    DIR *run = opendir("/run");
    while (run != NULL && (entry = readdir(run)) != NULL)
        if (entry->d_name[0] != '.') copy_directory(sandbox, dirfd(run), entry->d_name);
    if (run != NULL) closedir(run);
    make_directory(sandbox, "/run/lock", 01777);
    make_directory(sandbox, "/run/user", 0755);
    snprintf(path, sizeof path, "/run/user/%u", sandbox->uid);
    make_directory(sandbox, path, 0700);
}

void special_mount(const struct sandbox *sandbox) {
    make_dev(sandbox);
    make_proc(sandbox);
    /* In a user namespace it came with the root, which is read-only throughout. */
    if (sandbox->whole_root) make_sys(sandbox);
    if (access("/run", F_OK) == 0) make_run(sandbox);
}
