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
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_PROCESSES = 1 << 16, /* of one snapshot; more are found in the next round */
    MAX_PASSES = 64,         /* deeper ones become our children when their ancestors die */
    STOP_PASSES = 16,
    FREEZE_CHECKS = 100, /* one a millisecond */
    WALK_FROM_ROUND = 4, /* when the cgroup's own means left something */
    CHILDREN_PER_READ = 4096, /* bytes of a list of pids */
    BY_SIGNAL = 128,
};

/* --- the walk ---------------------------------------------------------------------------- */

static bool read_process(int proc, const char *name, struct process *process) {
    char path[NAME_BYTES];
    char stat[1024];
    snprintf(path, sizeof path, "%.16s/stat", name);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t size = read(fd, stat, sizeof stat - 1);
    close(fd);
    if (size <= 0) return false;
    stat[size] = '\0';
    char *rest = strrchr(stat, ')');
    int parent;
    long long reaped[2];
    memset(process, 0, sizeof *process);
    process->pid = atoi(name);
    /* Fields 3, 4, 16, 17, 20 and 22. */
    if (rest == NULL ||
        sscanf(rest + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lld %lld %*d %*d %ld %*d %llu",
               &process->state, &parent, &reaped[0], &reaped[1], &process->threads,
               &process->start_ticks) != 6)
        return false;
    process->parent = parent;
    process->reaped_ticks = reaped[0] + reaped[1];
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

/* Makes room for one more; false when there are too many, or no memory. */
static bool has_room(struct snapshot *all) {
    if (all->count < all->room) return true;
    size_t room = all->room ? all->room * 2 : 64;
    struct process *items = NULL;
    if (all->count < MAX_PROCESSES) items = realloc(all->items, room * sizeof *items);
    if (items == NULL) return false;
    all->items = items;
    all->room = room;
    return true;
}

static void read_all(DIR *proc, struct snapshot *all) {
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        if (!has_room(all)) return;
        if (read_process(dirfd(proc), entry->d_name, &all->items[all->count])) all->count++;
    }
}

/* Every descendant of this process; the caller frees `items`. */
static struct snapshot descendants(void) {
    struct snapshot all = {0};
    DIR *proc = opendir("/proc");
    if (proc == NULL) return all;
    read_all(proc, &all);
    closedir(proc);
    if (all.count == 0) return all;
    mark_descendants(&all);
    keep_descendants(&all);
    return all;
}

/* --- the short walk ---------------------------------------------------------------------- */

struct walk {
    struct snapshot all;
    const struct snapshot *former;
    const struct process **by_pid; /* of the former, in order; NULL: there is none */
    enum look look;
};

int64_t clock_ns(clockid_t clock) {
    struct timespec used;
    return clock_gettime(clock, &used) < 0 ? -1 : used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

static bool runs(char state) { return state == 'R' || state == 'D'; }

static int pointers_by_pid(const void *a, const void *b) {
    return by_pid(*(const struct process *const *)a, *(const struct process *const *)b);
}

static void index_former(struct walk *walk) {
    size_t count = walk->former->count;
    walk->by_pid = count > 0 ? malloc(count * sizeof *walk->by_pid) : NULL;
    if (walk->by_pid == NULL) return;
    for (size_t i = 0; i < count; i++) walk->by_pid[i] = &walk->former->items[i];
    qsort(walk->by_pid, count, sizeof *walk->by_pid, pointers_by_pid);
}

static const struct process *find_former(const struct walk *walk, pid_t pid) {
    const struct process key = {.pid = pid};
    const struct process *wanted = &key;
    if (walk->by_pid == NULL) return NULL;
    const struct process **found = bsearch(&wanted, walk->by_pid, walk->former->count,
                                           sizeof *walk->by_pid, pointers_by_pid);
    return found == NULL ? NULL : *found;
}

/* What a new look at a process takes over from the former one at the same. */
static void take_over(struct process *process, const struct process *old) {
    process->cpu_ns = -1;
    if (clock_getcpuclockid(process->pid, &process->clock) == 0)
        process->cpu_ns = clock_ns(process->clock);
    if (old == NULL || old->start_ticks != process->start_ticks) return;
    process->settled_ns = old->settled_ns;
    process->ran_at_ns = old->ran_at_ns;
    process->unchanged =
        process->cpu_ns == old->cpu_ns && !runs(process->state) && !runs(old->state);
}

/* Takes in one whose pid stood in its parent's list; it may be gone by now, and the pid another's,
 * whose parent is then neither that one nor, after that one's end, us. */
static void add_child(struct walk *walk, pid_t parent, size_t above, pid_t pid) {
    struct snapshot *all = &walk->all;
    char name[NAME_BYTES];
    if (!has_room(all)) return;
    struct process *child = &all->items[all->count];
    const struct process *old = find_former(walk, pid);
    if (old != NULL && walk->look == LOOK_CHANGED && old->parent == parent && !runs(old->state) &&
        old->cpu_ns >= 0 && clock_ns(old->clock) == old->cpu_ns) {
        *child = *old;
        child->unchanged = true;
    } else {
        snprintf(name, sizeof name, "%d", (int)pid);
        if (!read_process(all->proc, name, child)) return;
        if (child->parent != parent && child->parent != getpid()) return;
        take_over(child, old);
    }
    child->above = above;
    all->count++;
}

/* Of a `children` file, which is a list of pids, each followed by a blank. */
static bool add_children_of_thread(struct walk *walk, pid_t parent, size_t above,
                                   const char *path) {
    char text[CHILDREN_PER_READ + 1];
    size_t kept = 0; /* of a pid that the last read cut in two */
    ssize_t size;
    int fd = openat(walk->all.proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    while ((size = read(fd, text + kept, CHILDREN_PER_READ - kept)) > 0) {
        text[kept + (size_t)size] = '\0';
        char *next = text;
        for (char *blank; (blank = strchr(next, ' ')) != NULL; next = blank + 1)
            add_child(walk, parent, above, atoi(next));
        kept = strlen(next);
        memmove(text, next, kept);
    }
    close(fd);
    return size == 0;
}

/* A child belongs to the thread that made it. */
static bool add_children_of_threads(struct walk *walk, pid_t parent, size_t above) {
    char path[NAME_BYTES];
    struct dirent *entry;
    snprintf(path, sizeof path, "%d/task", (int)parent);
    int fd = openat(walk->all.proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    if (tasks == NULL) {
        if (fd >= 0) close(fd);
        return false;
    }
    while ((entry = readdir(tasks)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "%d/task/%.16s/children", (int)parent, entry->d_name);
        add_children_of_thread(walk, parent, above, path);
    }
    closedir(tasks);
    return true;
}

static bool add_children(struct walk *walk, pid_t parent, size_t above, long threads) {
    char path[NAME_BYTES];
    if (threads > 1) return add_children_of_threads(walk, parent, above);
    snprintf(path, sizeof path, "%d/task/%d/children", (int)parent, (int)parent);
    return add_children_of_thread(walk, parent, above, path);
}

/* One that has not run has made no children either. */
static void add_former_children(struct walk *walk, pid_t parent, size_t above) {
    const struct process *old = find_former(walk, parent);
    for (size_t i = 0; old != NULL && i < old->below_count; i++)
        add_child(walk, parent, above, walk->former->items[old->first_below + i].pid);
}

static void add_below(struct walk *walk, size_t above) {
    const struct process process = walk->all.items[above]; /* the items may move */
    size_t first = walk->all.count;
    if (process.unchanged && walk->look != LOOK_ALL)
        add_former_children(walk, process.pid, above);
    else
        add_children(walk, process.pid, above, process.threads);
    walk->all.items[above].first_below = first;
    walk->all.items[above].below_count = walk->all.count - first;
}

/* CONFIG_PROC_CHILDREN is not everywhere; the long walk is. It is ordered by pid, so parents
 * mostly come first here, too. */
static void walk_long(struct walk *walk) {
    free(walk->all.items);
    walk->all = descendants();
    for (size_t i = 0; i < walk->all.count; i++) {
        struct process *process = &walk->all.items[i];
        take_over(process, find_former(walk, process->pid));
        const struct process key = {.pid = process->parent};
        const struct process *parent =
            bsearch(&key, walk->all.items, walk->all.count, sizeof key, by_pid);
        process->above = parent == NULL ? NOBODY : (size_t)(parent - walk->all.items);
    }
}

struct snapshot tree_members(const struct snapshot *former, enum look look) {
    static int proc = -1; /* kept open: this is called many times a second */
    if (proc < 0) proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct walk walk = {.all = {.proc = proc}, .former = former, .look = look};
    index_former(&walk);
    bool is_listed = add_children(&walk, getpid(), NOBODY, 1);
    for (size_t i = 0; is_listed && i < walk.all.count; i++) add_below(&walk, i);
    if (!is_listed) walk_long(&walk);
    free(walk.by_pid);
    return walk.all;
}

char process_state(const struct process *process) {
    char name[NAME_BYTES];
    struct process now;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) return 0;
    snprintf(name, sizeof name, "%d", (int)process->pid);
    bool is_read = read_process(proc, name, &now) && now.start_ticks == process->start_ticks;
    close(proc);
    return is_read ? now.state : 0;
}

/* --- signals ----------------------------------------------------------------------------- */

/* The pid may by now be another's: the descriptor is opened first, then the start time is
 * compared, and only then the signal goes through the descriptor. */
void process_signal(const struct process *process, int number) {
    unsigned long long start_ticks;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0) return;
    if (start_ticks_of(process->pid, &start_ticks) == 0 && start_ticks == process->start_ticks)
        syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
    close(fd);
}

static void signal_descendants(int number) {
    struct snapshot all = descendants();
    for (size_t i = 0; i < all.count; i++) process_signal(&all.items[i], number);
    free(all.items);
}

bool process_is_still(char state) { return strchr("TtZX", state) != NULL; }

/* Returns how many were still moving. */
static size_t stop_descendants(void) {
    struct snapshot all = descendants();
    size_t moving = 0;
    for (size_t i = 0; i < all.count; i++) {
        if (process_is_still(all.items[i].state)) continue;
        process_signal(&all.items[i], SIGSTOP);
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

void tree_thaw(const struct tree *tree) {
    if (tree->freezer_dir >= 0) write_at(tree->freezer_dir, "freezer.state", "THAWED");
    if (tree->cgroup_dir >= 0) write_at(tree->cgroup_dir, "cgroup.freeze", "0");
}

void tree_terminate(const struct tree *tree, int stop_signal) {
    /* It waits in those that sleep: it is there before they wake. */
    signal_descendants(stop_signal);
    signal_descendants(SIGCONT);
    tree_thaw(tree);
}

void tree_kill(const struct tree *tree, int round) {
    if (tree->kill_fd >= 0) {
        write_all(tree->kill_fd, "1", 1);
        tree_thaw(tree); /* SIGKILL does not reach what the v1 freezer holds */
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

void command_reap(struct command *command) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != command->pid || command->ended) continue;
        command->status = status;
        command->ended = true;
    }
    command->childless = pid < 0 && errno == ECHILD;
}

int command_status(const struct command *command) {
    int status = command->status;
    if (!command->ended) return BY_SIGNAL + SIGKILL;
    return WIFEXITED(status) ? WEXITSTATUS(status) : BY_SIGNAL + WTERMSIG(status);
}
