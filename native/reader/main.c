/* Runs one command that measures, and leaves nothing of it.
 *
 * The meter starts it as `wharfinger-reader PARENT COMMAND [ARGUMENT ...]` for each reading
 * (src/wharfinger/host/measure/commands.py); PARENT is the meter's process id. It is a child
 * subreaper, so whatever the command starts, however often it forks and changes its session,
 * stays a descendant; when the command has ended, or by SIGTERM, all of them are killed. The
 * meter's death is a SIGTERM, and this one's death kills the command.
 *
 * Standard output is the command's. Standard error is ours: one line, when the command could
 * not be run. The exit status is the command's, or 128 and the signal that ended it.
 */
#include "../supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BAD_CALL = 2,
    NOT_RUN = 127,
    BY_SIGNAL = 128,
    GIVE_UP_AFTER_MS = 2000, /* the meter waits for us, and others wait for the meter */
    MAX_ROUND_WAIT_MS = 100,
    ARGUMENTS = 2, /* before the command */
};

struct run {
    pid_t command;
    int status;
    bool ended;     /* the command itself */
    bool childless; /* it and all that it left */
};

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

_Noreturn static void fail(int error) {
    const char *why = strerror(error);
    write_all(STDERR_FILENO, why, strlen(why));
    _exit(NOT_RUN);
}

_Noreturn static void become_command(pid_t reader, char **command) {
    sigset_t none;
    int report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (report < 0 || null < 0) fail(errno);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != reader) _exit(NOT_RUN);
    signal(SIGINT, SIG_DFL); /* the meter leaves it to the manager */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, STDERR_FILENO);
    execvp(command[0], command);
    int error = errno;
    dup2(report, STDERR_FILENO);
    fail(error);
}

static void reap(struct run *run) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != run->command || run->ended) continue;
        run->status = status;
        run->ended = true;
    }
    run->childless = pid < 0 && errno == ECHILD;
}

/* Waits for one of the signals, for so long; -1: for ever. */
static int wait_for(const sigset_t *signals, int64_t milliseconds) {
    const struct timespec limit = {.tv_sec = milliseconds / 1000,
                                   .tv_nsec = milliseconds % 1000 * 1000000};
    return sigtimedwait(signals, NULL, milliseconds < 0 ? NULL : &limit);
}

static void kill_all(struct run *run, const sigset_t *signals) {
    const struct tree tree = {-1, -1, -1};
    int64_t give_up_at_ms = now_ms() + GIVE_UP_AFTER_MS;
    int64_t wait_ms = 1;
    for (int round = 0; !run->childless && now_ms() < give_up_at_ms; round++) {
        tree_kill(&tree, round);
        wait_for(signals, wait_ms);
        reap(run);
        if (wait_ms < MAX_ROUND_WAIT_MS) wait_ms *= 2;
    }
}

int main(int argc, char **argv) {
    struct run run = {.command = 0};
    sigset_t signals;
    if (argc <= ARGUMENTS) return BAD_CALL;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGCHLD, SIG_DFL);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0) fail(errno);
    if (getppid() != atoi(argv[1])) return NOT_RUN;
    pid_t reader = getpid();
    run.command = fork();
    if (run.command < 0) fail(errno);
    if (run.command == 0) become_command(reader, argv + ARGUMENTS);
    while (!run.ended && wait_for(&signals, -1) != SIGTERM) reap(&run);
    kill_all(&run, &signals);
    if (!run.ended) return BY_SIGNAL + SIGKILL;
    return WIFEXITED(run.status) ? WEXITSTATUS(run.status) : BY_SIGNAL + WTERMSIG(run.status);
}
