/* The supervisor: one small process between a workload and the world.
 *
 * The manager starts it as `wharfinger-supervisor RUN_DIR` with the launch spec on descriptor 3
 * and, where it wants to be told at once of claim and start, the end of a pipe on descriptor 4
 * (src/wharfinger/host/supervisor.py) and may die at any moment; the supervisor stays. It claims
 * the run, starts the program, keeps its output, kills the whole tree at the end and leaves an
 * exit record. All its files lie in RUN_DIR, reached through one directory descriptor and never
 * through a symbolic link.
 *
 *   main.c     the order of things, and the event loop
 *   spec.c     the launch spec: bytes to values
 *   records.c  the claim, and records whose room on disk is taken beforehand
 *   child.c    from fork to exec
 *   output.c   the pipe into rotating segments
 *   tree.c     every process of the tree: list, signal, kill
 *   pace.c     the tree held to a share of CPU time, or suspended, by stopping and continuing it
 */
#ifndef WHARFINGER_SUPERVISOR_H
#define WHARFINGER_SUPERVISOR_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>

/* Known to src/wharfinger/host/supervisor.py as SupervisorStatus. */
enum status {
    STATUS_DONE = 0,     /* the exit record is written */
    STATUS_FAULT = 1,    /* nothing was started, or the exit record could not be written */
    STATUS_BAD_CALL = 2, /* the arguments or the spec are wrong; nothing was touched */
    STATUS_CLAIMED = 3,  /* the run has its claim already; nothing was touched */
};

enum {
    SPEC_FD = 3,
    NOTICE_FD = 4,
    MAX_CPUS = 8192,
    MAX_RLIMITS = 32,
    MAX_GROUPS = 1024,
    NAME_BYTES = 64,
};

/* In place of a share of CPU time: as much as it can get. */
enum { UNPACED = -1 };

/* --- spec.c ------------------------------------------------------------------------------ */

struct list {
    char **items; /* ended by NULL, as execve wants it */
    size_t count;
    size_t room;
};

struct limit {
    int resource;
    struct rlimit value;
};

/* Strings point into the sealed memfd's mapping: env is never copied. */
struct spec {
    struct list argv;
    struct list env;
    struct list cgroup_procs;
    const char *working_directory;
    const char *cgroup_kill; /* NULL: none */
    const char *freezer;     /* NULL: none */
    cpu_set_t cpus[MAX_CPUS / CPU_SETSIZE];
    bool has_cpus;
    int nice;
    int64_t cpu_millicpus; /* UNPACED: as much as it can get */
    struct limit rlimits[MAX_RLIMITS];
    size_t rlimit_count;
    bool has_user; /* else the program stays our own user's */
    uid_t uid;
    gid_t gid;
    gid_t groups[MAX_GROUPS]; /* its supplementary groups */
    size_t group_count;
    int stop_signal;
    int64_t stop_grace_ms;
    int64_t suspension_lease_ms; /* a suspension that nobody renews for so long is over */
    uint64_t log_cap_bytes;
    bool pass_status; /* end as the program did: whoever started us looks at that alone */
    void *mapping;
    size_t mapping_bytes;
};

/* Reads the spec from `fd`; returns NULL, or what is wrong with it. */
const char *spec_read(int fd, struct spec *spec);
/* Lets go of the mapping; the strings are gone, the numbers stay. */
void spec_release(struct spec *spec);
/* "2.5" to 2500; false when it is not a decimal number of seconds. */
bool parse_seconds(const char *text, int64_t *milliseconds);
/* "250" to 250, "max" to UNPACED; false when it is no number of thousandths of a CPU. */
bool parse_millicpus(const char *text, int64_t *cpu_millicpus);

/* --- records.c --------------------------------------------------------------------------- */

struct identity {
    char boot_id[NAME_BYTES];
    pid_t pid;
    unsigned long long start_ticks;
};

/* A file that holds its blocks before there is anything to say, so that a full disk cannot
 * lose what is said in the end. */
struct record {
    const char *name;
    char reserved[NAME_BYTES];
    int fd;
};

int start_ticks_of(pid_t pid, unsigned long long *ticks);
int identity_of(pid_t pid, struct identity *identity);
int record_reserve(int dir, struct record *record, const char *name);
int record_publish(int dir, struct record *record, const char *text);
void record_discard(int dir, struct record *record);
/* 1: the claim is ours; 0: somebody has it; -1: errno says why it could not be taken. */
int claim_take(int dir, const struct identity *identity);
bool claim_exists(int dir);
/* Reads a small regular file into a string; -1 when there is none that can be read. */
int read_small(int dir, const char *name, char *text, size_t room);

/* --- child.c ----------------------------------------------------------------------------- */

struct start_report {
    int32_t step; /* index of a step in child.c, or one of the following */
    int32_t error;
};
enum {
    STEP_READY = -1, /* all is set up; exec comes next */
    STEP_NONE = -2,  /* killed before it was ready */
    STEP_FORK = -3,  /* there is no child */
};

struct child_setup {
    const struct spec *spec;
    int output_fd; /* becomes stdout */
    int error_fd;  /* becomes stderr */
    int report_fd; /* start_report goes here; closed by exec */
    const char *oom_score_adj;
    pid_t supervisor;
};

/* In the forked child: sets everything up and becomes the program. */
_Noreturn void child_run(const struct child_setup *setup);
/* Gives a process's session its niceness among sessions, where the kernel schedules by session
 * (sched_autogroup). True: there is nothing more to do. False: it may be tried again later. */
bool session_set_nice(pid_t pid, int nice);
const char *step_name(int32_t step);

/* --- output.c ---------------------------------------------------------------------------- */

struct output {
    int dir;
    int pipe_fd; /* -1 once every writer has closed it */
    int segment_fd;
    int times_fd; /* -1: the open segment has no index */
    uint64_t time_count;
    int64_t timed_at_us; /* the last entry's time, as it is on disk */
    uint64_t starts[2]; /* where the kept segments begin */
    int kept;
    uint64_t segment_cap_bytes;
    uint64_t offset; /* of the next byte, counted from the program's first */
    uint64_t dropped_bytes;
    int64_t retry_at_ms; /* after a failed write, nothing is tried before */
};

void output_open(struct output *output, int dir, int pipe_fd, uint64_t cap_bytes);
/* Moves one buffer from the pipe to the segments; false when there was nothing. */
bool output_pump(struct output *output);
void output_drain(struct output *output);

/* --- tree.c ------------------------------------------------------------------------------ */

struct process {
    pid_t pid;
    pid_t parent;
    unsigned long long start_ticks;
    long long reaped_ticks; /* CPU time of the children that it has reaped, and of theirs */
    long threads;
    char state;
    bool descendant;

    /* Of tree_members only. */
    clockid_t clock;
    int64_t cpu_ns; /* its own; -1: not known */
    bool unchanged; /* it has not run since the former look */
    size_t above;   /* index of its parent, or NOBODY */
    size_t first_below;
    size_t below_count;
    int64_t settled_ns; /* these two are its user's, and kept */
    int64_t ran_at_ns;
};

struct snapshot {
    struct process *items;
    size_t count;
    size_t room;
    int proc;
};

/* How closely to look. One that slept and has used no CPU time since has nothing new to show. */
enum look {
    LOOK_CHANGED, /* at those that have run */
    LOOK_STATES,  /* and whether the others run by now: clocks are late by up to a tick */
    LOOK_ALL,     /* and for children that came to one without its doing: orphans, siblings */
};
#define NOBODY SIZE_MAX

struct tree {
    int kill_fd;    /* cgroup.kill, or -1 */
    int cgroup_dir; /* where cgroup.kill lies, or -1 */
    int freezer_dir; /* v1 freezer, or -1 */
};

int tree_open(struct tree *tree, const char *cgroup_kill, const char *freezer);
/* Asks every descendant, once, by this signal to end, and wakes those that are suspended. */
void tree_terminate(const struct tree *tree, int stop_signal);
/* Lets go on what a freezer holds. */
void tree_thaw(const struct tree *tree);
/* One attempt to kill whatever is left; `round` counts the attempts. */
void tree_kill(const struct tree *tree, int round);
/* Whether the cgroup still holds a process. */
bool tree_cgroup_occupied(const struct tree *tree);

/* --- one command, run by a child subreaper (tree.c) ---------------------------------------- */

struct command {
    pid_t pid;
    int status;
    bool ended;     /* the command itself */
    bool childless; /* it and all that it left */
};

/* Waits, without blocking, for all that has ended. */
void command_reap(struct command *command);
/* Its exit status as a shell tells it: 128 and the signal that ended it. */
int command_status(const struct command *command);
size_t tree_count(void);
/* Every process of the tree, parents before their children, at a cost that grows with the tree and
 * not with the machine; one that is being born or left by its parent may be missing. The caller
 * frees `items`. */
struct snapshot tree_members(const struct snapshot *former, enum look look);
int64_t clock_ns(clockid_t clock); /* -1: there is no such process any more */
/* 'R' for one that runs, as /proc has it; 0 when it is gone. */
char process_state(const struct process *process);
/* Signals this very process, or nobody. */
void process_signal(const struct process *process, int number);
/* Whether it is stopped or dead. */
bool process_is_still(char state);

/* --- pace.c ------------------------------------------------------------------------------ */

struct pace {
    bool begun;
    int64_t cpu_millicpus; /* UNPACED: no more than suspension */
    bool suspended;
    int64_t cpus; /* that it may use at once */

    int64_t granted_at_ns; /* when the last period began */
    int64_t credit_ns;     /* CPU time that it may still use; negative: a debt */

    int64_t counted_ns; /* CPU time of the tree that was charged */
    int64_t lost_ns;    /* of that, what no clock shows any more */
    int64_t looked_at_ns;
    int64_t continued_at_ns;
    int64_t idle_wait_ns;
    double parallel; /* CPUs that it was using when last looked at */
    struct snapshot tree; /* as last looked at */
    int64_t looked_well_at_ns;

    bool stopped; /* by us, all in `paused`, in the order in which they were stopped */
    int64_t resume_at_ns;
    struct snapshot paused;
};

enum { PACE_NEVER = 0 };
enum { SUSPENSION_LEASE_MS = 30000 }; /* where the spec states none */
#define SUSPENDED_FILE "suspended"

/* The program runs: from now on its tree is paced. */
void pace_begin(struct pace *pace, int64_t cpus);
/* Sets what holds from now on. To be followed by pace_step. */
void pace_set(struct pace *pace, int64_t cpu_millicpus, bool suspended);
/* Looks, stops or continues; returns when (now_ns) it wants to be called next, or PACE_NEVER. */
int64_t pace_step(struct pace *pace);
/* Everything was continued by somebody else: starts afresh. To be followed by pace_step. */
void pace_restart(struct pace *pace);
/* Never stops or continues anything any more. */
void pace_end(struct pace *pace);

/* --- small things ------------------------------------------------------------------------ */

int64_t now_ms(void); /* CLOCK_MONOTONIC */
int64_t now_ns(void); /* likewise */
int write_all(int fd, const void *data, size_t size);

#endif
