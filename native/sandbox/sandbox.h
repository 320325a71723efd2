/* The sandbox: runs a copy of a workload so that its writes are discarded.
 *
 * The supervisor starts it as the workload's command (src/wharfinger/host/sandbox.py makes the
 * line). Two processes: the *keeper* stays outside, owns the directory with the upper layers and
 * removes it; the *init* is process 1 of the new namespaces, builds what the program sees, starts
 * it and watches what it writes. When the init ends the kernel kills all that is in there with it,
 * and it dies with the keeper, which dies with the supervisor.
 *
 *   main.c      the command line
 *   keeper.c    the process outside, up to the exit status
 *   init.c      process 1 inside: order of things, the watch
 *   say.c       what the init tells the keeper
 *   program.c   from fork to exec; what the program may no longer do
 *   root.c      what is at `/` inside
 *   special.c   /dev, /proc, /sys, /run
 *   layers.c    one overlay: upper layer, work directory, mount
 *   mounts.c    the table of mounts, as the kernel tells it
 *   usage.c     how much the copy has written
 *   storage.c   the directory of one sandbox: make, lock, remove, find again after a crash
 */
#ifndef WHARFINGER_SANDBOX_H
#define WHARFINGER_SANDBOX_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As env, timeout and chroot have them. */
enum exit_status { EXIT_BAD_CALL = 2, EXIT_FAULT = 125, EXIT_NOT_RUNNABLE = 126, EXIT_NOT_FOUND };

enum { MAX_CGROUPS = 16, MAX_GROUPS = 1024, NAME_BYTES = 64, TEXT_BYTES = 512 };

struct options {
    const char *upper_base;
    const char *working_directory;
    const char *report; /* NULL: none is wanted */
    uint64_t cap_bytes;
    char **command;
    char **beside; /* NULL: none */
    const char *beside_output;
    const char *beside_cgroups[MAX_CGROUPS];
    size_t beside_cgroup_count;
    bool has_user; /* else the programs stay our own user's */
    uid_t uid;
    gid_t gid;
    gid_t groups[MAX_GROUPS]; /* supplementary */
    size_t group_count;
    bool probe;
};

/* --- keeper.c, init.c -------------------------------------------------------------------- */

enum said_kind { SAID_STARTED, SAID_MAIN_ENDED, SAID_BESIDE_ENDED, SAID_USED, SAID_CAP, SAID_FAULT };

/* What the init tells the keeper; one write, smaller than PIPE_BUF, so never torn. */
struct said {
    int32_t kind;
    int32_t status; /* as waitpid gives it; for a fault: the exit status that it means */
    uint64_t used_bytes;
    char text[TEXT_BYTES];
};

struct sandbox {
    const struct options *options;
    bool whole_root;       /* else: an overlay for each directory, in a user namespace */
    char directory[PATH_MAX]; /* of the upper layers, absolute */
    int directory_fd;      /* holds the lock */
    int layers_fd;
    int layer_count;
    int said_fd;           /* the init's end */
    int beside_output_fd;  /* -1: the same as the program's */
    int beside_cgroup_fds[MAX_CGROUPS];
    uid_t uid;
    gid_t gid;
};

int keeper_run(const struct options *options);
_Noreturn void init_run(struct sandbox *sandbox);

/* --- say.c ------------------------------------------------------------------------------- */

void say(const struct sandbox *sandbox, const struct said *said);
/* Tells the keeper why nothing can go on, with errno's text unless `error` is 0, and ends. */
__attribute__((format(printf, 3, 4))) _Noreturn void fault(const struct sandbox *sandbox, int error,
                                                           const char *format, ...);

/* --- program.c --------------------------------------------------------------------------- */

enum which { MAIN, BESIDE };
/* The process id; faults when there can be no process. Returns once exec is done or has failed. */
pid_t program_start(const struct sandbox *sandbox, enum which which, mode_t umask_before);

/* --- root.c, special.c, layers.c, mounts.c ----------------------------------------------- */

/* Builds all that the program sees and makes it the root. */
void root_enter(struct sandbox *sandbox);
/* /dev, /proc, /sys and /run beneath the new root. */
void special_mount(const struct sandbox *sandbox);
bool special_covers(const char *path);

/* Puts an overlay over `path`, at the same place beneath the new root; -1 with errno. The upper
 * layer of what lies in memory lies in memory. */
int layer_overlay(struct sandbox *sandbox, const char *path);
/* An empty directory of the upper storage in place of `path`; -1 with errno. */
int layer_empty(struct sandbox *sandbox, const char *path);
/* `path` beneath the new root. */
void layer_target(const struct sandbox *sandbox, const char *path, char target[PATH_MAX]);
int mount_read_only(const char *target, bool recursive);

struct mount {
    long id;
    char *point;
    char *type;
    bool read_only;
};

struct mount_table {
    struct mount *items; /* parents before children */
    size_t count;
};

/* -1 with errno. The table lives as long as the process. */
int mounts_read(struct mount_table *table);
/* Whether nothing is mounted over it. */
bool mount_is_visible(const struct mount *mount);
long mount_id_of(const char *path);
bool path_is_beneath(const char *path, const char *above);

/* --- usage.c, storage.c ------------------------------------------------------------------ */

struct usage {
    int layers_fd;
    uint64_t cap_bytes;
    uint64_t used_bytes; /* when last counted */
    uint64_t most_bytes;
    uint64_t free_then_bytes;
    int64_t counted_at_ms;
    int64_t count_took_ms;
};

int64_t now_ms(void); /* CLOCK_MONOTONIC */
void usage_begin(struct usage *usage, int layers_fd, uint64_t cap_bytes);
/* Cheap; counts only when there is a reason to. Whether the cap is exceeded. */
bool usage_exceeds(struct usage *usage);
void usage_count(struct usage *usage);
/* How long the next look can wait. */
int64_t usage_wait_ms(const struct usage *usage);

/* Makes and locks a directory in `base`; NULL, or what is wrong. */
const char *storage_make(struct sandbox *sandbox, const char *base);
/* Removes it and all in it; what is left counts. */
int storage_remove(const struct sandbox *sandbox);
/* Removes what sandboxes that are gone have left in `base`. How many, or -1 with errno. */
int storage_clean_up(const char *base, int *failed);

#endif
