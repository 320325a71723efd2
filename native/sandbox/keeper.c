/* The process outside: makes the directory, starts the init, removes all, passes the status on.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_YET = -1, NUMBER_BYTES = 32 };

struct keeper {
    struct sandbox sandbox;
    int said_fd;
    int signal_fd;
    pid_t init;
    int64_t began_at_ms;
    int64_t set_up_ms;
    int64_t started_at_us;
    int64_t ran_us; /* the first program, from its exec to its end */
    bool started;
    bool over_cap;
    bool faulty;
    int stop_signal; /* that ended it before its time */
    struct said fault;
    uint64_t used_bytes;
    int main_status;
    int beside_status;
};

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int refuse(const char *what, const char *value, const char *why) {
    fprintf(stderr, "wharfinger-sandbox: %s%s: %s\n", what, value, why);
    return EXIT_FAULT;
}

/* --- before ------------------------------------------------------------------------------ */

static bool may_mount(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0) return false;
    return geteuid() == 0 && (data[0].effective & (1U << CAP_SYS_ADMIN)) != 0;
}

/* SIGTERM reaches the program from the supervisor, which signals the whole tree; here it only
 * must not end the one who cleans up. */
static void watch_signals(struct keeper *keeper) {
    sigset_t watched;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored, the kernel would reap in our place */
    sigemptyset(&watched);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGHUP);
    sigaddset(&watched, SIGQUIT);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    keeper->signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int check_room(const struct options *options) {
    struct statvfs status;
    char why[NAME_BYTES * 2];
    if (options->probe) return 0;
    if (statvfs(options->upper_base, &status) < 0)
        return refuse("--upper-base=", options->upper_base, strerror(errno));
    unsigned long long room = (unsigned long long)status.f_bavail * status.f_frsize;
    if (room >= options->cap_bytes) return 0;
    snprintf(why, sizeof why, "%llu bytes free, cap %llu; free some or lower the cap", room,
             (unsigned long long)options->cap_bytes);
    return refuse("--upper-base=", options->upper_base, why);
}

/* Outside, because inside the paths mean something else. */
static int open_for_beside(struct keeper *keeper) {
    const struct options *options = keeper->sandbox.options;
    keeper->sandbox.beside_output_fd = -1;
    if (options->beside_output != NULL) {
        int fd = open(options->beside_output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
                      0600);
        if (fd < 0) return refuse("--beside-output=", options->beside_output, strerror(errno));
        keeper->sandbox.beside_output_fd = fd;
    }
    for (size_t i = 0; i < options->beside_cgroup_count; i++) {
        const char *path = options->beside_cgroups[i];
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) return refuse("--beside-cgroup=", path, strerror(errno));
        keeper->sandbox.beside_cgroup_fds[i] = fd;
    }
    return 0;
}

/* --- the init ---------------------------------------------------------------------------- */

/* It dies with us; should we be dead already, nobody holds the other end of the pipe. */
static void follow_keeper(const struct keeper *keeper) {
    struct pollfd pipe_end = {keeper->sandbox.said_fd, 0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (poll(&pipe_end, 1, 0) > 0 && (pipe_end.revents & POLLERR)) _exit(EXIT_FAULT);
}

static int start_init(struct keeper *keeper) {
    int pipe_fds[2];
    struct clone_args arguments = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET |
                 (keeper->sandbox.whole_root ? 0 : CLONE_NEWUSER),
        .exit_signal = SIGCHLD,
    };
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) return refuse("pipe", "", strerror(errno));
    keeper->sandbox.said_fd = pipe_fds[1];
    keeper->init = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (keeper->init < 0)
        return refuse(keeper->sandbox.whole_root ? "namespaces" : "user namespaces", "",
                      strerror(errno));
    if (keeper->init == 0) {
        close(pipe_fds[0]);
        close(keeper->signal_fd);
        follow_keeper(keeper);
        init_run(&keeper->sandbox);
    }
    close(pipe_fds[1]);
    keeper->said_fd = pipe_fds[0];
    return 0;
}

static void heed(struct keeper *keeper, const struct said *said) {
    switch ((enum said_kind)said->kind) {
    case SAID_STARTED:
        keeper->started = true;
        keeper->set_up_ms = now_ms() - keeper->began_at_ms;
        keeper->started_at_us = now_us();
        break;
    case SAID_MAIN_ENDED:
        keeper->main_status = said->status;
        keeper->ran_us = now_us() - keeper->started_at_us;
        break;
    case SAID_BESIDE_ENDED: keeper->beside_status = said->status; break;
    case SAID_CAP: keeper->over_cap = true; keeper->used_bytes = said->used_bytes; break;
    case SAID_USED: keeper->used_bytes = said->used_bytes; break;
    case SAID_FAULT: keeper->faulty = true; keeper->fault = *said; break;
    }
}

/* A stop that comes before there is a program would be lost on it; and by hand, ^C means us. */
static void heed_signals(struct keeper *keeper) {
    struct signalfd_siginfo info;
    while (read(keeper->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTERM && keeper->started) continue;
        keeper->stop_signal = (int)info.ssi_signo;
        kill(keeper->init, SIGKILL);
    }
}

static void listen_to_init(struct keeper *keeper) {
    struct pollfd sources[] = {{keeper->said_fd, POLLIN, 0}, {keeper->signal_fd, POLLIN, 0}};
    struct said said;
    for (;;) {
        if (poll(sources, 2, -1) < 0 && errno != EINTR) break;
        if (sources[0].revents != 0) {
            if (read(keeper->said_fd, &said, sizeof said) != (ssize_t)sizeof said) break;
            heed(keeper, &said);
        }
        if (sources[1].revents != 0) heed_signals(keeper);
    }
    /* Nothing more to hear: what is left in there, if anything, has no one to end it. */
    kill(keeper->init, SIGKILL);
    while (waitpid(keeper->init, NULL, 0) < 0 && errno == EINTR) continue;
}

/* --- afterwards -------------------------------------------------------------------------- */

static const char *outcome_of(const struct keeper *keeper) {
    if (keeper->faulty) return "fault";
    if (keeper->over_cap) return "cap";
    if (keeper->beside_status != NOT_YET) return "beside-ended";
    return keeper->main_status != NOT_YET ? "main-ended" : "killed";
}

static const char *status_text(int status, char text[NUMBER_BYTES]) {
    if (status == NOT_YET) return "none";
    if (WIFEXITED(status)) snprintf(text, NUMBER_BYTES, "exited %d", WEXITSTATUS(status));
    else snprintf(text, NUMBER_BYTES, "signaled %d", WTERMSIG(status));
    return text;
}

/* Whole or not at all: it appears under its name when all is removed. */
static void write_report(const struct keeper *keeper) {
    const char *path = keeper->sandbox.options->report;
    char temporary[PATH_MAX], main_text[NUMBER_BYTES], beside_text[NUMBER_BYTES];
    if (path == NULL) return;
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *file = fopen(temporary, "we");
    if (file == NULL) {
        refuse("--report=", path, strerror(errno));
        return;
    }
    fprintf(file, "outcome %s\nmain %s\nbeside %s\nset_up_ms %lld\nran_us %lld\nused_bytes %llu\n"
            "reason %s\nend\n",
            outcome_of(keeper), status_text(keeper->main_status, main_text),
            status_text(keeper->beside_status, beside_text), (long long)keeper->set_up_ms,
            (long long)keeper->ran_us, (unsigned long long)keeper->used_bytes, keeper->fault.text);
    if (fclose(file) != 0 || rename(temporary, path) < 0)
        refuse("--report=", path, strerror(errno));
}

/* Whoever waits for us sees what the program's own parent would have seen. */
_Noreturn static void end_by_signal(int number) {
    const struct rlimit none = {0, 0};
    sigset_t signals;
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    signal(number, SIG_DFL);
    sigemptyset(&signals);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    raise(number);
    _exit(128 + number);
}

static int probe_result(const struct keeper *keeper) {
    if (!keeper->started) return refuse("killed while it was set up", "", "no reason known");
    puts(keeper->sandbox.whole_root ? "whole-root" : "directories");
    return 0;
}

static int result_of(const struct keeper *keeper) {
    if (keeper->faulty) {
        fprintf(stderr, "wharfinger-sandbox: %s\n", keeper->fault.text);
        return keeper->fault.status;
    }
    if (keeper->over_cap) {
        fprintf(stderr, "wharfinger-sandbox: killed: %llu bytes written, cap %llu\n",
                (unsigned long long)keeper->used_bytes,
                (unsigned long long)keeper->sandbox.options->cap_bytes);
        end_by_signal(SIGKILL);
    }
    if (keeper->sandbox.options->probe && keeper->stop_signal == 0) return probe_result(keeper);
    if (keeper->main_status == NOT_YET)
        end_by_signal(keeper->stop_signal != 0 ? keeper->stop_signal : SIGKILL);
    if (WIFSIGNALED(keeper->main_status)) end_by_signal(WTERMSIG(keeper->main_status));
    return WEXITSTATUS(keeper->main_status);
}

int keeper_run(const struct options *options) {
    struct keeper keeper = {.began_at_ms = now_ms(),
                            .main_status = NOT_YET,
                            .beside_status = NOT_YET,
                            .sandbox = {.options = options, .uid = geteuid(), .gid = getegid()}};
    keeper.sandbox.whole_root = may_mount();
    watch_signals(&keeper);
    if (options->has_user && !keeper.sandbox.whole_root)
        return refuse("--user", "", "only root with CAP_SYS_ADMIN can run a copy as another user");
    if (check_room(options) != 0 || open_for_beside(&keeper) != 0) return EXIT_FAULT;
    const char *problem = storage_make(&keeper.sandbox, options->upper_base);
    if (problem != NULL) return refuse("--upper-base=", options->upper_base, problem);
    int result = start_init(&keeper);
    if (result == 0) listen_to_init(&keeper);
    if (storage_remove(&keeper.sandbox) < 0)
        refuse("not removed: ", keeper.sandbox.directory, "see --clean-up");
    if (result != 0) return result;
    write_report(&keeper);
    return result_of(&keeper);
}
