/* The order of things: prepare, claim, start, watch, kill the rest, record.
 *
 * Until the claim nothing has happened and any failure is one line on descriptor 2 and an exit
 * status. After it the only answers are the records in the run directory.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    GIVE_UP_AFTER_MS = 30000, /* what can't be killed (another user's, a dead disk's) is counted */
    MAX_ROUND_WAIT_MS = 100,
    GAVE_UP_WAIT_MS = 1000,
    RECORD_BYTES = 1024,
    NICE_RETRY_MS = 100, /* and some more, so that not all supervisors try at once */
};

enum source { SIGNALS, START, OUTPUT, TIMER, PACE, SOURCES };

struct supervisor {
    int dir;
    struct spec spec;
    struct identity self;
    struct record started;
    struct record exit;
    struct output output;
    struct tree tree;
    char oom_score_adj[NAME_BYTES];
    int signal_fd;
    int timer_fd;
    int pace_timer_fd;
    int start_fd; /* -1 once it is known how the start went */
    int notice_fd; /* -1: nobody wants to be told */

    struct identity main;
    struct start_report start; /* step STEP_READY: it did start */
    struct timespec began_at;
    struct timespec ended_at;
    int main_status;
    bool main_ended;
    bool childless;

    struct pace pace;
    struct timespec lease_renewed; /* when the suspension was, by its file */
    int64_t lease_ends_ns;         /* PACE_NEVER: it is not suspended */
    int64_t nice_at_ns; /* when to make the session nice; PACE_NEVER: it is, or can't be */

    bool stop_requested;
    int64_t stop_deadline_ms;
    bool killing;
    int kill_round;
    int64_t give_up_at_ms;
    size_t unkilled;
    bool done;
};

_Noreturn static void fail(enum status status, const char *what, int error) {
    const char *why = error != 0 ? strerror(error) : "";
    dprintf(STDERR_FILENO, "%s%s%s\n", what, error != 0 ? ": " : "", why);
    exit(status);
}

/* A byte for the claim, the end of the pipe for the start or its failure. Only a hint to look
 * into the run directory now: whoever launched us may be gone, and that is no error. */
static void tell_of_claim(const struct supervisor *s) {
    if (s->notice_fd >= 0 && write(s->notice_fd, "c", 1) < 0) return;
}

static void tell_of_start(struct supervisor *s) {
    if (s->notice_fd >= 0) close(s->notice_fd);
    s->notice_fd = -1;
}

/* --- preparation ------------------------------------------------------------------------- */

/* Nothing of whoever started us may reach us or the workload: signals, descriptors, terminal. */
static void detach_from_caller(struct supervisor *s) {
    const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ, SIGALRM, SIGUSR2};
    s->notice_fd = fcntl(NOTICE_FD, F_SETFD, FD_CLOEXEC) < 0 ? -1 : NOTICE_FD;
    /* An ignored SIGCHLD would be inherited, and the kernel would reap in our place. */
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    /* That a child was stopped or continued, mostly by us, is no news. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP}, NULL);
    setsid(); /* fails only where the caller has done it */
    if (syscall(SYS_close_range, s->notice_fd < 0 ? NOTICE_FD : NOTICE_FD + 1, ~0U, 0) < 0)
        fail(STATUS_FAULT, "close_range (Linux 5.9 or later is needed)", errno);
}

static void silence_standard_streams(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) fail(STATUS_FAULT, "/dev/null", errno);
    for (int fd = 0; fd <= 2; fd++) dup2(null, fd);
    if (null > 2) close(null);
}

static void open_run_dir(struct supervisor *s, const char *path) {
    struct stat st;
    s->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->dir < 0 || fstat(s->dir, &st) < 0) fail(STATUS_BAD_CALL, "run directory", errno);
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        fail(STATUS_BAD_CALL, "run directory: must be our own, with mode 0700", 0);
    if (chdir("/") < 0) fail(STATUS_FAULT, "/", errno);
}

static void read_spec(struct supervisor *s) {
    const char *problem = spec_read(SPEC_FD, &s->spec);
    if (problem != NULL) fail(STATUS_BAD_CALL, problem, 0);
    close(SPEC_FD);
}

static void open_event_sources(struct supervisor *s, int pipes[2][2]) {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGUSR1);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    s->signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    s->pace_timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->signal_fd < 0 || s->timer_fd < 0 || s->pace_timer_fd < 0) fail(STATUS_FAULT, "event sources", errno);
    for (int i = 0; i < 2; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) < 0) fail(STATUS_FAULT, "pipe", errno);
        /* Of the reading end only: the program's own stdout must block as any other. */
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    }
}

/* All the room on disk is taken before the claim, so a full disk costs the run nothing. */
static void claim(struct supervisor *s) {
    if (claim_exists(s->dir)) fail(STATUS_CLAIMED, "already claimed", 0);
    if (identity_of(getpid(), &s->self) < 0) fail(STATUS_FAULT, "/proc: own identity", errno);
    if (record_reserve(s->dir, &s->started, "started") < 0)
        fail(STATUS_FAULT, "run directory", errno);
    int taken = -1;
    if (record_reserve(s->dir, &s->exit, "exit") == 0) taken = claim_take(s->dir, &s->self);
    if (taken == 1) return;
    int error = errno;
    record_discard(s->dir, &s->started);
    record_discard(s->dir, &s->exit);
    if (taken == 0) fail(STATUS_CLAIMED, "already claimed", 0);
    fail(STATUS_FAULT, "run directory", error);
}

/* Where memory runs out, the workload is to go, not the one who tells of it. Only a privileged
 * user can do so; the program gets back what was there before. */
static void protect_from_oom(struct supervisor *s) {
    char before[NAME_BYTES];
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read_small(AT_FDCWD, "/proc/self/oom_score_adj", before, sizeof before) == 0 &&
        write(fd, "-1000", 5) == 5)
        memcpy(s->oom_score_adj, before, sizeof before);
    close(fd);
}

/* --- the start --------------------------------------------------------------------------- */

static void start_program(struct supervisor *s, int output_pipe[2], int start_pipe[2]) {
    const struct child_setup setup = {.spec = &s->spec,
                                      .output_fd = output_pipe[1],
                                      .error_fd = output_pipe[1],
                                      .report_fd = start_pipe[1],
                                      .oom_score_adj = s->oom_score_adj,
                                      .supervisor = getpid()};
    clock_gettime(CLOCK_REALTIME, &s->began_at);
    s->start = (struct start_report){STEP_NONE, 0};
    pid_t pid = fork();
    if (pid == 0) child_run(&setup);
    int error = errno;
    close(output_pipe[1]);
    close(start_pipe[1]);
    s->start_fd = start_pipe[0];
    if (pid > 0) {
        identity_of(pid, &s->main);
        s->main.pid = pid;
        return;
    }
    s->start = (struct start_report){STEP_FORK, error};
    close(s->start_fd);
    s->start_fd = -1;
    clock_gettime(CLOCK_REALTIME, &s->ended_at);
    s->main_ended = s->done = true;
}

/* --- the pace ---------------------------------------------------------------------------- */

static void set_timer_ns(int timer_fd, int64_t at_ns) {
    const struct itimerspec when = {
        .it_value = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000}};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void make_nice(struct supervisor *s) {
    int64_t now = now_ns();
    if (s->nice_at_ns == PACE_NEVER || now < s->nice_at_ns) return;
    bool is_settled = s->main_ended || session_set_nice(s->main.pid, s->spec.nice);
    int64_t wait_ms = NICE_RETRY_MS + s->self.pid % NICE_RETRY_MS;
    s->nice_at_ns = is_settled ? PACE_NEVER : now + wait_ms * 1000000;
}

static int64_t sooner(int64_t at_ns, int64_t other_ns) {
    if (at_ns == PACE_NEVER || other_ns == PACE_NEVER) return at_ns + other_ns;
    return at_ns < other_ns ? at_ns : other_ns;
}

static void keep_pace(struct supervisor *s) {
    int64_t next = pace_step(&s->pace);
    make_nice(s);
    set_timer_ns(s->pace_timer_fd, sooner(sooner(next, s->nice_at_ns), s->lease_ends_ns));
}

enum suspension { NOT_SUSPENDED, BY_US, BY_FREEZER };

/* What the run directory says of it, and when that was last renewed. It is opened, so that a
 * shared file system looks again. */
static enum suspension read_suspension(const struct supervisor *s, struct timespec *renewed) {
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(s->dir, SUSPENDED_FILE, flags);
    char text[NAME_BYTES];
    struct stat st;
    if (fd < 0) return NOT_SUSPENDED;
    int seen = fstat(fd, &st);
    close(fd);
    if (seen < 0) return NOT_SUSPENDED;
    *renewed = st.st_mtim;
    if (read_small(s->dir, SUSPENDED_FILE, text, sizeof text) < 0) return BY_US;
    return strcmp(text, "frozen\n") == 0 ? BY_FREEZER : BY_US;
}

/* By our own clock from when a renewal is seen: whoever writes the file may have another. */
static bool take_suspension(struct supervisor *s) {
    struct timespec renewed = {0};
    enum suspension suspension = read_suspension(s, &renewed);
    const struct timespec *before = &s->lease_renewed;
    /* Suspended, it could not end. */
    if (suspension == NOT_SUSPENDED || s->stop_requested) {
        s->lease_ends_ns = PACE_NEVER;
        return false;
    }
    if (s->lease_ends_ns == PACE_NEVER || renewed.tv_sec != before->tv_sec ||
        renewed.tv_nsec != before->tv_nsec) {
        s->lease_renewed = renewed;
        s->lease_ends_ns = now_ns() + s->spec.suspension_lease_ms * 1000000;
    }
    return suspension == BY_US;
}

/* What the run directory says of it; the launch spec's until something is said there. */
static void take_pace(struct supervisor *s) {
    char text[NAME_BYTES];
    int64_t cpu_millicpus;
    if (s->killing) return;
    if (read_small(s->dir, "pace", text, sizeof text) < 0 || !parse_millicpus(text, &cpu_millicpus))
        cpu_millicpus = s->pace.begun ? s->pace.cpu_millicpus : s->spec.cpu_millicpus;
    pace_set(&s->pace, cpu_millicpus, take_suspension(s));
    keep_pace(s);
}

/* Whoever has suspended it may be gone: then it goes on. */
static void end_lease(struct supervisor *s) {
    bool is_over = s->lease_ends_ns != PACE_NEVER && now_ns() >= s->lease_ends_ns;
    if (!is_over) return;
    take_suspension(s); /* It may have been renewed. */
    if (s->lease_ends_ns != PACE_NEVER && now_ns() >= s->lease_ends_ns) {
        unlinkat(s->dir, SUSPENDED_FILE, 0);
        tree_thaw(&s->tree);
    }
    take_pace(s);
}

static int cpu_count(const struct spec *spec) {
    if (spec->has_cpus) return CPU_COUNT_S(sizeof spec->cpus, spec->cpus);
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static void begin_pace(struct supervisor *s) {
    s->nice_at_ns = s->spec.nice > 0 ? now_ns() : PACE_NEVER;
    take_pace(s);
    pace_begin(&s->pace, cpu_count(&s->spec));
    keep_pace(s);
}

static void end_pace(struct supervisor *s) {
    pace_end(&s->pace);
    s->nice_at_ns = s->lease_ends_ns = PACE_NEVER;
    set_timer_ns(s->pace_timer_fd, PACE_NEVER);
}

static void record_start(struct supervisor *s) {
    char text[RECORD_BYTES];
    snprintf(text, sizeof text, "process %s %d %llu\nstarted_at_seconds %lld.%06ld\nend\n",
             s->main.boot_id, (int)s->main.pid, s->main.start_ticks, (long long)s->began_at.tv_sec,
             s->began_at.tv_nsec / 1000);
    /* Where this fails the start is known later, from the exit record. */
    record_publish(s->dir, &s->started, text);
}

/* The pipe tells, by its last word before exec or death closes it. */
static void learn_of_start(struct supervisor *s) {
    struct start_report report;
    ssize_t size;
    while ((size = read(s->start_fd, &report, sizeof report)) == (ssize_t)sizeof report)
        s->start = report;
    if (size < 0) return; /* not closed yet */
    close(s->start_fd);
    s->start_fd = -1;
    if (s->start.step == STEP_READY) record_start(s);
    if (s->start.step == STEP_READY && !s->killing) begin_pace(s);
    record_discard(s->dir, &s->started);
    spec_release(&s->spec);
    tell_of_start(s);
}

/* --- the end ----------------------------------------------------------------------------- */

static void set_timer(const struct supervisor *s, int64_t at_ms) {
    set_timer_ns(s->timer_fd, at_ms * 1000000);
}

static void reap(struct supervisor *s) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != s->main.pid || s->main_ended) continue;
        if (s->start_fd >= 0) learn_of_start(s); /* it is dead: all it had to say is there */
        clock_gettime(CLOCK_REALTIME, &s->ended_at);
        s->main_status = status;
        s->main_ended = true;
    }
    s->childless = pid < 0 && errno == ECHILD;
}

static bool nothing_left(const struct supervisor *s) {
    return s->childless && !tree_cgroup_occupied(&s->tree);
}

static void kill_rest(struct supervisor *s) {
    int64_t wait_ms = s->kill_round < 7 ? 1 << s->kill_round : MAX_ROUND_WAIT_MS;
    bool gave_up = now_ms() >= s->give_up_at_ms;
    tree_kill(&s->tree, s->kill_round++);
    reap(s);
    s->done = nothing_left(s);
    if (s->done) return;
    /* While the main process lives there is no status, and none is made up. */
    s->done = gave_up && s->main_ended;
    if (s->done) s->unkilled = tree_count();
    set_timer(s, now_ms() + (gave_up ? GAVE_UP_WAIT_MS : wait_ms));
}

static void begin_killing(struct supervisor *s) {
    s->killing = true;
    end_pace(s);
    s->give_up_at_ms = now_ms() + GIVE_UP_AFTER_MS;
    s->done = s->main_ended && nothing_left(s);
    if (!s->done) kill_rest(s);
}

static void request_stop(struct supervisor *s) {
    char text[NAME_BYTES];
    int64_t grace_ms;
    if (read_small(s->dir, "stop", text, sizeof text) < 0 || !parse_seconds(text, &grace_ms))
        grace_ms = s->spec.stop_grace_ms;
    int64_t deadline_ms = now_ms() + grace_ms;
    bool first = !s->stop_requested;
    s->stop_requested = true;
    if (s->killing || (!first && deadline_ms >= s->stop_deadline_ms)) return;
    s->stop_deadline_ms = deadline_ms;
    set_timer(s, deadline_ms);
    if (grace_ms == 0) {
        begin_killing(s);
    } else if (first) {
        tree_terminate(&s->tree, s->spec.stop_signal);
        pace_restart(&s->pace);
        keep_pace(s);
    }
}

/* --- the loop ---------------------------------------------------------------------------- */

static void on_signals(struct supervisor *s) {
    struct signalfd_siginfo info;
    bool terminate = false;
    bool repace = false;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        terminate |= info.ssi_signo == SIGTERM;
        repace |= info.ssi_signo == SIGUSR1;
    }
    reap(s);
    if (repace && s->pace.begun) take_pace(s);
    if (terminate && !s->main_ended) request_stop(s);
    if (s->main_ended && !s->killing) begin_killing(s);
    if (s->killing && nothing_left(s)) s->done = true;
}

static void on_timer(struct supervisor *s) {
    uint64_t expirations;
    if (read(s->timer_fd, &expirations, sizeof expirations) < 0) return;
    if (s->killing)
        kill_rest(s);
    else
        begin_killing(s);
}

static void on_pace(struct supervisor *s) {
    uint64_t expirations;
    if (read(s->pace_timer_fd, &expirations, sizeof expirations) < 0) return;
    if (s->killing) return;
    end_lease(s);
    keep_pace(s);
}

static void watch(struct supervisor *s) {
    while (!s->done) {
        struct pollfd sources[SOURCES] = {[SIGNALS] = {.fd = s->signal_fd, .events = POLLIN},
                                          [START] = {.fd = s->start_fd, .events = POLLIN},
                                          [OUTPUT] = {.fd = s->output.pipe_fd, .events = POLLIN},
                                          [TIMER] = {.fd = s->timer_fd, .events = POLLIN},
                                          [PACE] = {.fd = s->pace_timer_fd, .events = POLLIN}};
        if (poll(sources, SOURCES, -1) < 0) continue;
        if (sources[START].revents != 0) learn_of_start(s);
        if (sources[OUTPUT].revents != 0) output_pump(&s->output);
        if (sources[SIGNALS].revents != 0) on_signals(s);
        if (sources[TIMER].revents != 0 && !s->done) on_timer(s);
        if (sources[PACE].revents != 0 && !s->done) on_pace(s);
    }
}

/* --- the record -------------------------------------------------------------------------- */

static void describe_end(const struct supervisor *s, char *text, size_t room) {
    if (s->start.step != STEP_READY)
        snprintf(text, room, "exec-failed %s %d", step_name(s->start.step), s->start.error);
    else if (WIFEXITED(s->main_status))
        snprintf(text, room, "exited %d", WEXITSTATUS(s->main_status));
    else
        snprintf(text, room, "signaled %d", WTERMSIG(s->main_status));
}

static long long cpu_microseconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage); /* of all that was reaped: the whole tree */
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

static int record_exit(struct supervisor *s) {
    char text[RECORD_BYTES];
    char how[2 * NAME_BYTES];
    long long cpu = cpu_microseconds();
    describe_end(s, how, sizeof how);
    snprintf(text, sizeof text,
             "how %s\nstop_requested %d\ncpu_seconds %lld.%06lld\nstarted_at_seconds %lld.%06ld\n"
             "ended_at_seconds %lld.%06ld\noutput_bytes %llu\ndropped_bytes %llu\n"
             "unkilled_processes %zu\nend\n",
             how, s->stop_requested, cpu / 1000000, cpu % 1000000, (long long)s->began_at.tv_sec,
             s->began_at.tv_nsec / 1000, (long long)s->ended_at.tv_sec,
             s->ended_at.tv_nsec / 1000, (unsigned long long)s->output.offset,
             (unsigned long long)s->output.dropped_bytes, s->unkilled);
    return record_publish(s->dir, &s->exit, text);
}

/* As the program did: exits with its status, or dies of its signal. */
static int end_alike(const struct supervisor *s) {
    const struct rlimit no_core = {0, 0};
    sigset_t all;
    if (s->start.step != STEP_READY) return 127;
    if (!WIFSIGNALED(s->main_status)) return WEXITSTATUS(s->main_status);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(WTERMSIG(s->main_status), SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    raise(WTERMSIG(s->main_status));
    return 128 + WTERMSIG(s->main_status);
}

int main(int argc, char **argv) {
    static struct supervisor s;
    int pipes[2][2];
    detach_from_caller(&s);
    if (argc != 2) fail(STATUS_BAD_CALL, "usage: wharfinger-supervisor RUN_DIR 3<SPEC", 0);
    read_spec(&s);
    open_run_dir(&s, argv[1]);
    if (tree_open(&s.tree, s.spec.cgroup_kill, s.spec.freezer) < 0)
        fail(STATUS_FAULT, "cgroup", errno);
    open_event_sources(&s, pipes);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) fail(STATUS_FAULT, "child subreaper", errno);
    claim(&s);
    tell_of_claim(&s);
    silence_standard_streams();
    protect_from_oom(&s);
    output_open(&s.output, s.dir, pipes[0][0], s.spec.log_cap_bytes);
    start_program(&s, pipes[0], pipes[1]);
    watch(&s);
    output_drain(&s.output);
    record_discard(s.dir, &s.started);
    bool recorded = record_exit(&s) == 0;
    if (s.spec.pass_status) return end_alike(&s);
    return recorded ? STATUS_DONE : STATUS_FAULT;
}
