/* From fork to exec inside: what the program is given, and what it may no longer do. */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) (1ULL << (capability))

/* What a server that is started as root uses on itself and on its files. All that reaches the
 * machine is missing: its devices (MKNOD), clock, modules, mounts, CPU scheduling, the disk's
 * reserve (SYS_RESOURCE), other processes' memory, files by handle. */
static const uint64_t KEPT_BY_ROOT =
    BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | BIT(CAP_KILL) |
    BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) |
    BIT(CAP_NET_RAW) | BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_CHROOT) | BIT(CAP_SETFCAP);

static uint64_t allowed_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0) return 0;
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

static int set_capabilities(uint64_t kept) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)kept, .permitted = (uint32_t)kept},
        {.effective = (uint32_t)(kept >> 32), .permitted = (uint32_t)(kept >> 32)},
    };
    return (int)syscall(SYS_capset, &header, data);
}

static int become_user(const struct options *options) {
    if (!options->has_user) return 0;
    /* Else it could not open /dev/stdout; what is no pipe of ours may refuse. */
    if (fchown(STDOUT_FILENO, options->uid, options->gid) < 0 && errno != EPERM) return -1;
    if (setgroups(options->group_count, options->groups) < 0) return -1;
    if (setresgid(options->gid, options->gid, options->gid) < 0) return -1;
    if (setresuid(options->uid, options->uid, options->uid) < 0) return -1;
    /* Whether the user may be there is asked again. */
    return options->working_directory != NULL ? chdir(options->working_directory) : 0;
}

static int drop_rights(const struct sandbox *sandbox) {
    bool is_root = sandbox->uid == 0 && !sandbox->options->has_user;
    uint64_t kept = is_root ? KEPT_BY_ROOT & allowed_capabilities() : 0;
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        if (!(kept & BIT(capability)) && prctl(PR_CAPBSET_DROP, capability) < 0) return -1;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) return -1;
    if (become_user(sandbox->options) < 0 || set_capabilities(kept) < 0) return -1;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* One file can't pass the cap, however fast it is written or reserved. */
static int limit_file_size(const struct sandbox *sandbox) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0) return -1;
    if (limit.rlim_max > sandbox->options->cap_bytes) limit.rlim_max = sandbox->options->cap_bytes;
    if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &limit);
}

static int set_up_beside(const struct sandbox *sandbox) {
    for (size_t i = 0; i < sandbox->options->beside_cgroup_count; i++)
        if (write(sandbox->beside_cgroup_fds[i], "0", 1) != 1) return -1;
    if (sandbox->beside_output_fd < 0) return 0;
    if (dup2(sandbox->beside_output_fd, STDOUT_FILENO) < 0) return -1;
    return dup2(sandbox->beside_output_fd, STDERR_FILENO) < 0 ? -1 : 0;
}

static int own_session(void) {
    sigset_t none;
    sigemptyset(&none);
    setsid();
    /* Its own: keys that it adds go with it. A kernel without keyrings has nothing to part. */
    syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void become_program(const struct sandbox *sandbox, enum which which, int tell,
                                     mode_t umask_before) {
    char **command = which == MAIN ? sandbox->options->command : sandbox->options->beside;
    umask(umask_before);
    if ((which == MAIN || set_up_beside(sandbox) == 0) && limit_file_size(sandbox) == 0 &&
        drop_rights(sandbox) == 0 && own_session() == 0)
        execvp(command[0], command);
    int error = errno;
    if (write(tell, &error, sizeof error) < 0) _exit(EXIT_FAULT);
    _exit(EXIT_NOT_FOUND);
}

static int exit_status_of(int error) {
    if (error == ENOENT || error == ENOTDIR) return EXIT_NOT_FOUND;
    return EXIT_NOT_RUNNABLE;
}

pid_t program_start(const struct sandbox *sandbox, enum which which, mode_t umask_before) {
    char **command = which == MAIN ? sandbox->options->command : sandbox->options->beside;
    int pipe_fds[2];
    int error = 0;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) fault(sandbox, errno, "pipe");
    pid_t pid = fork();
    if (pid < 0) fault(sandbox, errno, "cannot fork");
    if (pid == 0) become_program(sandbox, which, pipe_fds[1], umask_before);
    close(pipe_fds[1]);
    /* The end of the pipe is exec's; a word in it is a failure's. */
    if (read(pipe_fds[0], &error, sizeof error) == (ssize_t)sizeof error) {
        struct said said = {.kind = SAID_FAULT, .status = exit_status_of(error)};
        const char *text = strerror(error);
        size_t room = sizeof said.text - strlen(text) - 16;
        strcpy(said.text, which == MAIN ? "cannot run " : "cannot run the load generator ");
        strncat(said.text, command[0], room - strlen(said.text));
        strcat(strcat(said.text, ": "), text);
        say(sandbox, &said);
        _exit(EXIT_FAULT);
    }
    close(pipe_fds[0]);
    return pid;
}
