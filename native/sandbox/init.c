/* Process 1 inside: builds the root, starts the programs, reaps, watches the cap.
 *
 * Nothing inside can signal it. Whenever it ends, the kernel kills every process in there first.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LISTEN_TIMEOUT_MS = 10000, /* then the second program is started all the same */
    LISTEN_POLL_MS = 10,
    END_GRACE_MS = 5000, /* for the first to end once the second has */
};

struct init {
    struct sandbox *sandbox;
    struct usage usage;
    mode_t umask_before;
    pid_t main;
    pid_t beside; /* 0: not started */
    int64_t beside_at_ms;
    int64_t end_at_ms; /* 0: not known */
};

/* --- namespaces -------------------------------------------------------------------------- */

static void write_proc(const struct sandbox *sandbox, const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) fault(sandbox, errno, "%s", path);
    close(fd);
}

/* Inside as outside: the same user and group, so that every permission means the same. */
static void map_ids(const struct sandbox *sandbox) {
    char line[NAME_BYTES];
    write_proc(sandbox, "/proc/self/setgroups", "deny");
    snprintf(line, sizeof line, "%u %u 1\n", sandbox->uid, sandbox->uid);
    write_proc(sandbox, "/proc/self/uid_map", line);
    snprintf(line, sizeof line, "%u %u 1\n", sandbox->gid, sandbox->gid);
    write_proc(sandbox, "/proc/self/gid_map", line);
}

static void raise_loopback(const struct sandbox *sandbox) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return; /* a kernel without it has no loopback to raise */
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0) fault(sandbox, errno, "loopback");
    close(fd);
}

static void enter(struct init *init) {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    init->umask_before = umask(0);
    if (!init->sandbox->whole_root) map_ids(init->sandbox);
    raise_loopback(init->sandbox);
    root_enter(init->sandbox);
    umask(077);
}

/* --- the second program ------------------------------------------------------------------ */

static bool any_line(const char *path, const char *wanted) {
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!found && fgets(line, sizeof line, file) != NULL) found = strstr(line, wanted) != NULL;
    fclose(file);
    return found;
}

/* The network namespace was empty: who listens in it is the first program. */
static bool somebody_listens(void) {
    const char *tcp_listen = " 0A ";
    return any_line("/proc/net/tcp", tcp_listen) || any_line("/proc/net/tcp6", tcp_listen) ||
           any_line("/proc/net/unix", " 00010000 ");
}

static bool awaits_beside(const struct init *init) {
    return init->sandbox->options->beside != NULL && init->beside == 0;
}

static void start_beside(struct init *init) {
    if (now_ms() < init->beside_at_ms && !somebody_listens()) return;
    init->beside = program_start(init->sandbox, BESIDE, init->umask_before);
}

/* --- the watch --------------------------------------------------------------------------- */

_Noreturn static void end(struct init *init, enum said_kind kind) {
    if (kind == SAID_USED) usage_count(&init->usage);
    const struct said said = {.kind = (int32_t)kind, .used_bytes = init->usage.most_bytes};
    say(init->sandbox, &said);
    _exit(0);
}

static void reap(struct init *init) {
    int status;
    pid_t pid;
    bool over = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        const struct said said = {.kind = pid == init->main ? SAID_MAIN_ENDED : SAID_BESIDE_ENDED,
                                  .status = status};
        if (pid != init->main && pid != init->beside) continue;
        say(init->sandbox, &said);
        if (pid == init->main) over = true;
        else init->end_at_ms = now_ms() + END_GRACE_MS;
        if (pid != init->main) kill(init->main, SIGTERM);
    }
    if (over || (init->end_at_ms != 0 && now_ms() >= init->end_at_ms)) end(init, SAID_USED);
}

static int64_t wait_ms(const struct init *init) {
    if (awaits_beside(init)) return LISTEN_POLL_MS;
    return usage_wait_ms(&init->usage);
}

static void watch(struct init *init) {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (;;) {
        int64_t wait = wait_ms(init);
        const struct timespec timeout = {wait / 1000, wait % 1000 * 1000000};
        sigtimedwait(&watched, NULL, &timeout);
        reap(init);
        if (awaits_beside(init)) start_beside(init);
        if (usage_exceeds(&init->usage)) end(init, SAID_CAP);
    }
}

void init_run(struct sandbox *sandbox) {
    struct init init = {.sandbox = sandbox};
    const struct said started = {.kind = SAID_STARTED};
    enter(&init);
    if (sandbox->options->probe) {
        say(sandbox, &started);
        _exit(0);
    }
    usage_begin(&init.usage, sandbox->layers_fd, sandbox->options->cap_bytes);
    init.main = program_start(sandbox, MAIN, init.umask_before);
    init.beside_at_ms = now_ms() + LISTEN_TIMEOUT_MS;
    say(sandbox, &started);
    watch(&init);
    _exit(EXIT_FAULT);
}
