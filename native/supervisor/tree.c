/* Every process of the tree, and how to end it.
 *
 * The supervisor is a child subreaper: whatever the program starts, however often it forks and
 * changes its session, stays a descendant. Three means to kill, the surest first: cgroup.kill;
 * the v1 freezer, because frozen processes can't fork; and the walk over descendants, stopped
 * first for the same reason. Killed parents leave their children to us, so rounds repeat until
 * waitpid has nothing more to say.
 */
#include "supervisor.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MAX_PROCESSES = 1 << 16, /* of one snapshot; more are found in the next round */
    MAX_PASSES = 64,         /* deeper ones become our children when their ancestors die */
    STOP_PASSES = 16,
    FREEZE_CHECKS = 100, /* one a millisecond */
    WALK_FROM_ROUND = 4, /* when the cgroup's own means left something */
};

struct process {
    pid_t pid;
    pid_t parent;
    unsigned long long start_ticks;
    char state;
    bool descendant;
};

struct snapshot {
    struct process *items;
    size_t count;
};

/* --- the walk ---------------------------------------------------------------------------- */

static bool read_process(int proc, const char *name, struct process *process) {
    char path[NAME_BYTES];
    char stat[1024];
    snprintf(path, sizeof path, "%.16s/stat", name);
    if (read_small(proc, path, stat, sizeof stat) < 0) return false;
    char *rest = strrchr(stat, ')');
    int parent;
    memset(process, 0, sizeof *process);
    process->pid = atoi(name);
    /* Fields 3, 4 and 22. */
    if (rest == NULL ||
        sscanf(rest + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &process->state, &parent, &process->start_ticks) != 3)
        return false;
    process->parent = parent;
    return true;
}

static int by_pid(const void *a, const void *b) {
    const struct process *left = a;
    const struct process *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

static bool parent_is_descendant(const struct snapshot *all, const struct process *process) {
    const struct process key = {.pid = process->parent};
    if (process->parent == getpid()) return true;
    const struct process *parent = bsearch(&key, all->items, all->count, sizeof key, by_pid);
    return parent != NULL && parent->descendant;
}

static void mark_descendants(struct snapshot *all) {
    bool found = true;
    qsort(all->items, all->count, sizeof *all->items, by_pid);
    for (int pass = 0; found && pass < MAX_PASSES; pass++) {
        found = false;
        for (size_t i = 0; i < all->count; i++) {
            struct process *process = &all->items[i];
            if (process->descendant || !parent_is_descendant(all, process)) continue;
            process->descendant = found = true;
        }
    }
}

static void keep_descendants(struct snapshot *all) {
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].descendant) all->items[kept++] = all->items[i];
    all->count = kept;
}

static void read_all(DIR *proc, struct snapshot *all) {
    struct dirent *entry;
    size_t room = 0;
    while ((entry = readdir(proc)) != NULL && all->count < MAX_PROCESSES) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        if (all->count == room) {
            room = room ? room * 2 : 256;
            struct process *items = realloc(all->items, room * sizeof *items);
            if (items == NULL) return;
            all->items = items;
        }
        if (read_process(dirfd(proc), entry->d_name, &all->items[all->count])) all->count++;
    }
}

/* Every descendant of this process; the caller frees `items`. */
static struct snapshot descendants(void) {
    struct snapshot all = {NULL, 0};
    DIR *proc = opendir("/proc");
    if (proc == NULL) return all;
    read_all(proc, &all);
    closedir(proc);
    if (all.count == 0) return all;
    mark_descendants(&all);
    keep_descendants(&all);
    return all;
}

/* The pid may by now be another's: the descriptor is opened first, then the start time is
 * compared, and only then the signal goes through the descriptor. */
static void signal_process(const struct process *process, int number) {
    unsigned long long start_ticks;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0) return;
    if (start_ticks_of(process->pid, &start_ticks) == 0 && start_ticks == process->start_ticks)
        syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
    close(fd);
}

static void signal_descendants(int number) {
    struct snapshot all = descendants();
    for (size_t i = 0; i < all.count; i++) signal_process(&all.items[i], number);
    free(all.items);
}

static bool is_still(char state) { return strchr("TtZX", state) != NULL; }

/* Returns how many were still moving. */
static size_t stop_descendants(void) {
    struct snapshot all = descendants();
    size_t moving = 0;
    for (size_t i = 0; i < all.count; i++) {
        if (is_still(all.items[i].state)) continue;
        signal_process(&all.items[i], SIGSTOP);
        moving++;
    }
    free(all.items);
    return moving;
}

/* Much faster than the walk, so it also meets a process that forks and exits without end: each
 * of its lives is our child. A child's pid is nobody else's until we reap it. */
static void kill_children(void) {
    FILE *children = fopen("/proc/thread-self/children", "re");
    int pid;
    if (children == NULL) return; /* CONFIG_PROC_CHILDREN is not everywhere; the walk is */
    while (fscanf(children, "%d", &pid) == 1) kill(pid, SIGKILL);
    fclose(children);
}

static void kill_by_walk(void) {
    kill_children();
    for (int pass = 0; pass < STOP_PASSES && stop_descendants() > 0; pass++) continue;
    signal_descendants(SIGKILL);
}

size_t tree_count(void) {
    struct snapshot all = descendants();
    free(all.items);
    return all.count;
}

/* --- cgroups ----------------------------------------------------------------------------- */

static int write_at(int dir, const char *name, const char *text) {
    int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = write_all(fd, text, strlen(text));
    close(fd);
    return result;
}

/* Signals every process of a cgroup (0: none); returns how many there are. */
static size_t signal_cgroup(int dir, int number) {
    int fd = openat(dir, "cgroup.procs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *procs = fd < 0 ? NULL : fdopen(fd, "r");
    size_t count = 0;
    int pid;
    if (procs == NULL) {
        if (fd >= 0) close(fd);
        return 0;
    }
    for (; fscanf(procs, "%d", &pid) == 1; count++)
        if (number != 0 && pid > 0) kill(pid, number);
    fclose(procs);
    return count;
}

static void wait_until_frozen(int freezer) {
    char state[NAME_BYTES];
    for (int i = 0; i < FREEZE_CHECKS; i++) {
        if (read_small(freezer, "freezer.state", state, sizeof state) < 0) return;
        if (strcmp(state, "FROZEN\n") == 0) return;
        poll(NULL, 0, 1);
    }
}

/* Frozen processes neither fork nor reap, and we reap nothing meanwhile: the pids stay true. */
static void kill_by_freezer(int freezer) {
    if (write_at(freezer, "freezer.state", "FROZEN") == 0) wait_until_frozen(freezer);
    signal_cgroup(freezer, SIGKILL);
    write_at(freezer, "freezer.state", "THAWED");
}

int tree_open(struct tree *tree, const char *cgroup_kill, const char *freezer) {
    const int directory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    *tree = (struct tree){-1, -1, -1};
    if (freezer != NULL && (tree->freezer_dir = open(freezer, directory)) < 0) return -1;
    if (cgroup_kill == NULL) return 0;
    const char *slash = strrchr(cgroup_kill, '/');
    char *parent = strndup(cgroup_kill, (size_t)(slash - cgroup_kill) + 1);
    if (parent == NULL) return -1;
    tree->cgroup_dir = open(parent, directory);
    free(parent);
    if (tree->cgroup_dir < 0) return -1;
    tree->kill_fd = openat(tree->cgroup_dir, slash + 1, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return tree->kill_fd < 0 ? -1 : 0;
}

static void thaw(const struct tree *tree) {
    if (tree->freezer_dir >= 0) write_at(tree->freezer_dir, "freezer.state", "THAWED");
    if (tree->cgroup_dir >= 0) write_at(tree->cgroup_dir, "cgroup.freeze", "0");
}

void tree_terminate(const struct tree *tree) {
    /* SIGTERM waits in those that sleep: it is there before they wake. */
    signal_descendants(SIGTERM);
    signal_descendants(SIGCONT);
    thaw(tree);
}

void tree_kill(const struct tree *tree, int round) {
    if (tree->kill_fd >= 0) {
        write_all(tree->kill_fd, "1", 1);
        thaw(tree); /* SIGKILL does not reach what the v1 freezer holds */
    } else if (tree->freezer_dir >= 0) {
        kill_by_freezer(tree->freezer_dir);
    }
    bool has_cgroup = tree->kill_fd >= 0 || tree->freezer_dir >= 0;
    if (!has_cgroup || round >= WALK_FROM_ROUND) kill_by_walk();
}

bool tree_cgroup_occupied(const struct tree *tree) {
    if (tree->cgroup_dir >= 0) return signal_cgroup(tree->cgroup_dir, 0) > 0;
    return tree->freezer_dir >= 0 && signal_cgroup(tree->freezer_dir, 0) > 0;
}
