/* From fork to exec: everything the program must find set up, step by step.
 *
 * The first step that fails is reported with its errno through a pipe that exec closes, so a
 * program that could not be started is never taken for one that exited with 127.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = write_all(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static int follow_supervisor(const struct child_setup *setup) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return -1;
    /* It may have died before the line above; then nobody would ever tell us. */
    if (getppid() != setup->supervisor) _exit(127);
    return 0;
}

/* First of the steps that can use anything up: whatever follows is on the workload's account. */
static int enter_cgroups(const struct child_setup *setup) {
    const struct list *procs = &setup->spec->cgroup_procs;
    for (size_t i = 0; i < procs->count; i++)
        if (write_file(procs->items[i], "0") < 0) return -1;
    return 0;
}

static int enter_session(const struct child_setup *setup) {
    (void)setup;
    return setsid() < 0 ? -1 : 0;
}

static int take_back_oom_score(const struct child_setup *setup) {
    if (setup->oom_score_adj[0] == '\0') return 0; /* the supervisor could not lower its own */
    return write_file("/proc/self/oom_score_adj", setup->oom_score_adj);
}

static int set_affinity(const struct child_setup *setup) {
    const struct spec *spec = setup->spec;
    return spec->has_cpus ? sched_setaffinity(0, sizeof spec->cpus, spec->cpus) : 0;
}

static int set_nice(const struct child_setup *setup) {
    errno = 0; /* -1 is a niceness, too */
    return setup->spec->nice != 0 && nice(setup->spec->nice) == -1 && errno != 0 ? -1 : 0;
}

bool session_set_nice(pid_t pid, int nice) {
    char path[NAME_BYTES];
    char text[NAME_BYTES];
    snprintf(path, sizeof path, "/proc/%d/autogroup", (int)pid);
    snprintf(text, sizeof text, "%d", nice > 19 ? 19 : nice);
    /* Ordinary users may do so ten times a second, all of them together. */
    return write_file(path, text) == 0 || errno != EAGAIN;
}

static int set_rlimits(const struct child_setup *setup) {
    const struct spec *spec = setup->spec;
    for (size_t i = 0; i < spec->rlimit_count; i++)
        if (setrlimit((__rlimit_resource_t)spec->rlimits[i].resource, &spec->rlimits[i].value) < 0)
            return -1;
    return 0;
}

/* Last of the steps that need our own rights; what follows is done with the user's. */
static int become_user(const struct child_setup *setup) {
    const struct spec *spec = setup->spec;
    if (!spec->has_user) return 0;
    /* Else it could not open /dev/stdout, where many write their logs. */
    if (fchown(setup->output_fd, spec->uid, spec->gid) < 0) return -1;
    if (fchown(setup->error_fd, spec->uid, spec->gid) < 0) return -1;
    if (setgroups(spec->group_count, spec->groups) < 0) return -1;
    if (setresgid(spec->gid, spec->gid, spec->gid) < 0) return -1;
    if (setresuid(spec->uid, spec->uid, spec->uid) < 0) return -1;
    return follow_supervisor(setup); /* the kernel forgets it where the user changes */
}

static int set_working_directory(const struct child_setup *setup) {
    return chdir(setup->spec->working_directory);
}

/* stdin is right already: the supervisor's own /dev/null, or what a command beside it is given. */
static int set_output(const struct child_setup *setup) {
    if (dup2(setup->output_fd, STDOUT_FILENO) < 0) return -1;
    return dup2(setup->error_fd, STDERR_FILENO) < 0 ? -1 : 0;
}

/* By the bare system call: posix_spawn leaves the C library's own two signals ignored, and
 * signal() refuses to touch them. All zero is the default action. */
static void set_default_action(int number) {
    static const char all_zero[64];
    syscall(SYS_rt_sigaction, number, all_zero, NULL, (size_t)(_NSIG / 8));
}

static int reset_signals(const struct child_setup *setup) {
    sigset_t none;
    (void)setup;
    for (int number = 1; number < _NSIG; number++) set_default_action(number);
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

static int become_program(const struct child_setup *setup) {
    const struct start_report ready = {STEP_READY, 0};
    static char *no_env[] = {NULL};
    const struct spec *spec = setup->spec;
    if (write_all(setup->report_fd, &ready, sizeof ready) < 0) return -1;
    /* execvp searches the PATH of `environ`: the workload's, not ours. */
    environ = spec->env.count > 0 ? spec->env.items : no_env;
    return execvp(spec->argv.items[0], spec->argv.items);
}

static const struct {
    const char *name;
    int (*run)(const struct child_setup *setup);
} STEPS[] = {
    {"parent_death_signal", follow_supervisor},
    {"cgroup", enter_cgroups},
    {"session", enter_session},
    {"oom_score_adj", take_back_oom_score},
    {"affinity", set_affinity},
    {"nice", set_nice},
    {"rlimit", set_rlimits},
    {"user", become_user},
    {"working_directory", set_working_directory},
    {"output", set_output},
    {"signals", reset_signals},
    {"exec", become_program},
};
enum { STEP_COUNT = sizeof STEPS / sizeof *STEPS };

const char *step_name(int32_t step) {
    if (step == STEP_FORK) return "fork";
    return step >= 0 && step < STEP_COUNT ? STEPS[step].name : "killed";
}

_Noreturn void child_run(const struct child_setup *setup) {
    for (int step = 0; step < STEP_COUNT; step++) {
        if (STEPS[step].run(setup) == 0) continue;
        const struct start_report failed = {step, errno};
        write_all(setup->report_fd, &failed, sizeof failed);
        break;
    }
    _exit(127);
}
