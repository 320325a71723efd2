/* Runs one command that measures, and leaves nothing of it.
 *
 * The meter starts it as `wharfinger-reader PARENT USER COMMAND [ARGUMENT ...]` for each reading
 * (src/wharfinger/monitor/commands.py); PARENT is the meter's process id, USER who the command runs
 * as, UID:GID and then :GROUP for each group, or - for whom the meter runs as. It is a child
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
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    BAD_CALL = 2,
    NOT_RUN = 127,
    GIVE_UP_AFTER_MS = 2000, /* the meter waits for us, and others wait for the meter */
    MAX_ROUND_WAIT_MS = 100,
    ARGUMENTS = 3, /* before the command */
};

_Noreturn static void fail(int error) {
    const char *why = strerror(error);
    write_all(STDERR_FILENO, why, strlen(why));
    _exit(NOT_RUN);
}

/* user, its group and all its groups: numbers between colons. */
static void become(const char *user) {
    unsigned long ids[MAX_GROUPS + 2];
    gid_t groups[MAX_GROUPS];
    size_t count = 0;
    char *end;
    for (const char *at = user; count < sizeof ids / sizeof *ids; at = end + 1) {
        errno = 0;
        ids[count++] = strtoul(at, &end, 10);
        if (errno != 0 || end == at || (*end != ':' && *end != '\0')) fail(EINVAL);
        if (ids[count - 1] >= UINT32_MAX) fail(EINVAL); /* -1 would mean: as before */
        if (*end == '\0') break;
    }
    if (*end != '\0' || count < 2) fail(EINVAL);
    for (size_t i = 2; i < count; i++) groups[i - 2] = (gid_t)ids[i];
    if (setgroups(count - 2, groups) < 0) fail(errno);
    if (setresgid((gid_t)ids[1], (gid_t)ids[1], (gid_t)ids[1]) < 0) fail(errno);
    if (setresuid((uid_t)ids[0], (uid_t)ids[0], (uid_t)ids[0]) < 0) fail(errno);
}

_Noreturn static void become_command(pid_t reader, const char *user, char **command) {
    sigset_t none;
    int report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (report < 0 || null < 0) fail(errno);
    if (strcmp(user, "-") != 0) become(user);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten where the user changes */
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

/* Waits for one of the signals, for so long; -1: for ever. */
static int wait_for(const sigset_t *signals, int64_t milliseconds) {
    const struct timespec limit = {.tv_sec = milliseconds / 1000,
                                   .tv_nsec = milliseconds % 1000 * 1000000};
    return sigtimedwait(signals, NULL, milliseconds < 0 ? NULL : &limit);
}

static void kill_all(struct command *run, const sigset_t *signals) {
    const struct tree tree = {-1, -1, -1};
    int64_t give_up_at_ms = now_ms() + GIVE_UP_AFTER_MS;
    int64_t wait_ms = 1;
    for (int round = 0; !run->childless && now_ms() < give_up_at_ms; round++) {
        tree_kill(&tree, round);
        wait_for(signals, wait_ms);
        command_reap(run);
        if (wait_ms < MAX_ROUND_WAIT_MS) wait_ms *= 2;
    }
}

int main(int argc, char **argv) {
    struct command run = {.pid = 0};
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
    run.pid = fork();
    if (run.pid < 0) fail(errno);
    if (run.pid == 0) become_command(reader, argv[2], argv + ARGUMENTS);
    while (!run.ended && wait_for(&signals, -1) != SIGTERM) command_reap(&run);
    kill_all(&run, &signals);
    return command_status(&run);
}
