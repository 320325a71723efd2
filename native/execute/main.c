/* Runs one command beside a workload: in its cgroups, as its user, with its environment and CPUs.
 *
 * The manager starts it as `wharfinger-execute` with a launch spec (supervisor/spec.c) on
 * descriptor 3, the command's input and output on descriptors 0 to 2, and the reading end of a pipe on
 * descriptor 4 (src/wharfinger/host/execution.py). It stays outside the cgroups and is a child
 * subreaper, so whatever the command starts stays a descendant; when the command has ended, by
 * SIGTERM, or when the pipe's other end is closed, by will or by the manager's death, all of them
 * are killed.
 *
 * The exit status is the command's, 128 and the signal that ended it, or 126 or 127 when it could
 * not be run, of which one line on descriptor 2 tells.
 */
#include "../supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LIFELINE_FD = NOTICE_FD,
    BAD_CALL = 2,
    NOT_RUNNABLE = 126,
    NOT_FOUND = 127,
    GIVE_UP_AFTER_MS = 2000,
    MAX_ROUND_WAIT_MS = 100,
};

_Noreturn static void fail(int status, const char *what, int error) {
    dprintf(STDERR_FILENO, "wharfinger: %s: %s\n", what, strerror(error));
    exit(status);
}

static int watch_signals(void) {
    sigset_t watched;
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    return signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Which step failed before the command began; STEP_READY: none. */
static struct start_report start(struct command *run, const struct spec *spec) {
    struct start_report report = {STEP_NONE, 0};
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) fail(NOT_RUNNABLE, "pipe", errno);
    const struct child_setup setup = {.spec = spec,
                                      .output_fd = STDOUT_FILENO,
                                      .error_fd = STDERR_FILENO,
                                      .report_fd = pipe_fds[1],
                                      .oom_score_adj = "",
                                      .supervisor = getpid()};
    run->pid = fork();
    if (run->pid < 0) fail(NOT_RUNNABLE, "fork", errno);
    if (run->pid == 0) child_run(&setup);
    close(pipe_fds[1]);
    while (read(pipe_fds[0], &report, sizeof report) == (ssize_t)sizeof report) continue;
    close(pipe_fds[0]);
    return report;
}

/* Whoever reads its output or writes its input is to see the command's end, not ours. */
static void let_go_of_streams(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
}

/* Until the command has ended or must end. */
static void watch(struct command *run, int signal_fd) {
    struct signalfd_siginfo info;
    bool wanted = true;
    while (wanted && !run->ended) {
        struct pollfd sources[] = {{signal_fd, POLLIN, 0}, {LIFELINE_FD, POLLIN, 0}};
        if (poll(sources, 2, -1) < 0) continue;
        while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            wanted &= info.ssi_signo != SIGTERM;
        command_reap(run);
        wanted &= sources[1].revents == 0;
    }
}

static void kill_all(struct command *run, int signal_fd) {
    const struct tree tree = {-1, -1, -1};
    struct signalfd_siginfo info;
    int64_t give_up_at_ms = now_ms() + GIVE_UP_AFTER_MS;
    int wait_ms = 1;
    for (int round = 0; !run->childless && now_ms() < give_up_at_ms; round++) {
        struct pollfd source = {signal_fd, POLLIN, 0};
        tree_kill(&tree, round);
        poll(&source, 1, wait_ms);
        while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) continue;
        command_reap(run);
        if (wait_ms < MAX_ROUND_WAIT_MS) wait_ms *= 2;
    }
}

int main(void) {
    static struct spec spec;
    struct command run = {.pid = 0};
    char what[512];
    syscall(SYS_close_range, LIFELINE_FD + 1, ~0U, 0);
    int signal_fd = watch_signals();
    const char *problem = spec_read(SPEC_FD, &spec);
    if (problem != NULL) {
        dprintf(STDERR_FILENO, "wharfinger: %s\n", problem);
        return BAD_CALL;
    }
    close(SPEC_FD);
    setsid(); /* fails only where the manager has done it */
    if (signal_fd < 0 || fcntl(LIFELINE_FD, F_SETFD, FD_CLOEXEC) < 0 || chdir("/") < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        fail(NOT_RUNNABLE, "preparing", errno);
    struct start_report report = start(&run, &spec);
    if (report.step != STEP_READY) {
        bool is_program = strcmp(step_name(report.step), "exec") == 0;
        snprintf(what, sizeof what, "cannot run %s%s%s", spec.argv.items[0],
                 is_program ? "" : ", at ", is_program ? "" : step_name(report.step));
        fail(report.error == ENOENT ? NOT_FOUND : NOT_RUNNABLE, what, report.error);
    }
    let_go_of_streams();
    command_reap(&run);
    watch(&run, signal_fd);
    kill_all(&run, signal_fd);
    return command_status(&run);
}
