/* The launch spec: fields `name=value`, each ended by a NUL byte, in a sealed memfd, or in a file of
 * ours that is closed to others, which is copied (a batch scheduler's node has no other way).
 *
 * Values are argument strings, environment entries and paths, none of which can hold a NUL, so
 * nothing needs quoting. The first field is `version`, the last is `end`: half a spec is refused.
 */
#include "supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SPEC_BYTES = 16 << 20, MIN_LOG_CAP_BYTES = 4096 };
#define NO_GROUP ((gid_t)-1)

static bool append(struct list *list, char *item) {
    if (list->count + 1 >= list->room) {
        size_t room = list->room ? list->room * 2 : 16;
        char **items = realloc(list->items, room * sizeof *items);
        if (items == NULL) return false;
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = item;
    list->items[list->count] = NULL;
    return true;
}

static bool parse_integer(const char *text, long long low, long long high, long long *value) {
    char *end;
    if (*text == '\0') return false;
    *value = strtoll(text, &end, 10);
    return *end == '\0' && *value >= low && *value <= high;
}

bool parse_seconds(const char *text, int64_t *milliseconds) {
    const int64_t limit = INT64_C(1000000000) * 1000;
    int64_t value = 0;
    int64_t unit = 1000;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if ((value = value * 10 + (*text - '0') * INT64_C(1000)) > limit) return false;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++) value += (*text - '0') * (unit /= 10);
    *milliseconds = value;
    return *text == '\0' || (*text == '\n' && text[1] == '\0');
}

bool parse_millicpus(const char *text, int64_t *cpu_millicpus) {
    char number[NAME_BYTES];
    long long value;
    snprintf(number, sizeof number, "%.*s", (int)strcspn(text, "\n"), text);
    *cpu_millicpus = UNPACED;
    if (strcmp(number, "max") == 0) return true;
    if (!parse_integer(number, 1, MAX_CPUS * 1000LL, &value)) return false;
    *cpu_millicpus = value;
    return true;
}

static bool take_arg(struct spec *spec, char *value) { return append(&spec->argv, value); }

static bool take_env(struct spec *spec, char *value) {
    return strchr(value, '=') != NULL && append(&spec->env, value);
}

static bool take_cgroup_procs(struct spec *spec, char *value) {
    return append(&spec->cgroup_procs, value);
}

static bool take_working_directory(struct spec *spec, char *value) {
    spec->working_directory = value;
    return value[0] == '/';
}

static bool take_cgroup_kill(struct spec *spec, char *value) {
    spec->cgroup_kill = value;
    return value[0] == '/';
}

static bool take_freezer(struct spec *spec, char *value) {
    spec->freezer = value;
    return value[0] == '/';
}

static bool take_grace(struct spec *spec, char *value) {
    return parse_seconds(value, &spec->stop_grace_ms);
}

static bool take_log_cap(struct spec *spec, char *value) {
    long long cap;
    if (!parse_integer(value, MIN_LOG_CAP_BYTES, INT64_MAX, &cap)) return false;
    spec->log_cap_bytes = (uint64_t)cap;
    return true;
}

static bool take_cpu(struct spec *spec, char *value) {
    long long cpu;
    if (!parse_integer(value, 0, MAX_CPUS - 1, &cpu)) return false;
    CPU_SET_S((size_t)cpu, sizeof spec->cpus, spec->cpus);
    spec->has_cpus = true;
    return true;
}

static bool take_nice(struct spec *spec, char *value) {
    long long increment;
    if (!parse_integer(value, -40, 40, &increment)) return false;
    spec->nice = (int)increment;
    return true;
}

static bool take_cpu_millicpus(struct spec *spec, char *value) {
    return parse_millicpus(value, &spec->cpu_millicpus);
}

/* RESOURCE:SOFT:HARD, in the kernel's numbers; -1 stands for no limit. */
static bool take_rlimit(struct spec *spec, char *value) {
    char *rest;
    if (spec->rlimit_count == MAX_RLIMITS) return false;
    struct limit *limit = &spec->rlimits[spec->rlimit_count++];
    limit->resource = (int)strtol(value, &rest, 10);
    if (rest == value || *rest != ':') return false;
    limit->value.rlim_cur = (rlim_t)strtoll(rest + 1, &rest, 10);
    if (*rest != ':') return false;
    limit->value.rlim_max = (rlim_t)strtoll(rest + 1, &rest, 10);
    return *rest == '\0';
}

static bool take_id(char *value, unsigned *id) {
    long long number;
    /* The highest stands for none. */
    if (!parse_integer(value, 0, UINT32_MAX - 1LL, &number)) return false;
    *id = (unsigned)number;
    return true;
}

static bool take_uid(struct spec *spec, char *value) {
    spec->has_user = true;
    return take_id(value, &spec->uid);
}

static bool take_gid(struct spec *spec, char *value) { return take_id(value, &spec->gid); }

static bool take_group(struct spec *spec, char *value) {
    if (spec->group_count == MAX_GROUPS) return false;
    return take_id(value, &spec->groups[spec->group_count++]);
}

static bool take_stop_signal(struct spec *spec, char *value) {
    long long number;
    if (!parse_integer(value, 1, NSIG - 1, &number)) return false;
    spec->stop_signal = (int)number;
    return true;
}

static bool take_lease(struct spec *spec, char *value) {
    return parse_seconds(value, &spec->suspension_lease_ms);
}

static bool take_pass_status(struct spec *spec, char *value) {
    spec->pass_status = strcmp(value, "1") == 0;
    return spec->pass_status || strcmp(value, "0") == 0;
}

static const struct {
    const char *name;
    bool (*take)(struct spec *spec, char *value);
    const char *problem;
} FIELDS[] = {
    {"arg", take_arg, "arg: out of memory"},
    {"env", take_env, "env: not NAME=VALUE"},
    {"working_directory", take_working_directory, "working_directory: not an absolute path"},
    {"stop_grace_seconds", take_grace, "stop_grace_seconds: not a decimal number of seconds"},
    {"log_cap_bytes", take_log_cap, "log_cap_bytes: not an integer of at least 4096"},
    {"cgroup_procs", take_cgroup_procs, "cgroup_procs: out of memory"},
    {"cgroup_kill", take_cgroup_kill, "cgroup_kill: not an absolute path"},
    {"freezer", take_freezer, "freezer: not an absolute path"},
    {"cpu", take_cpu, "cpu: not the number of a CPU"},
    {"nice", take_nice, "nice: not an increment between -40 and 40"},
    {"cpu_millicpus", take_cpu_millicpus, "cpu_millicpus: neither a positive integer nor max"},
    {"rlimit", take_rlimit, "rlimit: not RESOURCE:SOFT:HARD"},
    {"uid", take_uid, "uid: not a user's number"},
    {"gid", take_gid, "gid: not a group's number"},
    {"group", take_group, "group: not a group's number, or more than 1024 of them"},
    {"stop_signal", take_stop_signal, "stop_signal: not a signal's number"},
    {"suspension_lease_seconds", take_lease,
     "suspension_lease_seconds: not a decimal number of seconds"},
    {"pass_status", take_pass_status, "pass_status: neither 0 nor 1"},
};

static const char *take_field(struct spec *spec, const char *field) {
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        size_t length = strlen(FIELDS[i].name);
        if (strncmp(field, FIELDS[i].name, length) != 0 || field[length] != '=') continue;
        /* The mapping is read-only; execve only wants the type without const. */
        return FIELDS[i].take(spec, (char *)(uintptr_t)(field + length + 1)) ? NULL
                                                                            : FIELDS[i].problem;
    }
    return "unknown field: supervisor and manager are of different versions";
}

static const char *check_whole(const struct spec *spec) {
    if (spec->argv.count == 0) return "no arg: nothing to run";
    if (spec->working_directory == NULL) return "no working_directory";
    if (spec->log_cap_bytes == 0) return "no log_cap_bytes";
    if (spec->has_user && spec->gid == NO_GROUP) return "uid without gid";
    return NULL;
}

static const char *parse(struct spec *spec, const char *text, size_t size) {
    const char *end = text + size;
    if (end[-1] != '\0' || strcmp(text, "version=1") != 0) return "not a launch spec, version 1";
    for (text += strlen(text) + 1; text < end; text += strlen(text) + 1) {
        if (strcmp(text, "end=") == 0) return check_whole(spec);
        const char *problem = take_field(spec, text);
        if (problem != NULL) return problem;
    }
    return "no end: the spec is cut off";
}

static bool is_ours_alone(const struct stat *st) {
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 077) == 0;
}

static const char *copy_file(int fd, struct spec *spec) {
    char *copy = spec->mapping = mmap(NULL, spec->mapping_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (spec->mapping == MAP_FAILED) return "the spec cannot be copied";
    for (size_t done = 0; done < spec->mapping_bytes;) {
        ssize_t size = pread(fd, copy + done, spec->mapping_bytes - done, (off_t)done);
        if (size <= 0) return "the spec is cut off";
        done += (size_t)size;
    }
    return NULL;
}

static const char *map_spec(int fd, struct spec *spec) {
    const int needed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size < 1 || st.st_size > MAX_SPEC_BYTES)
        return "descriptor 3 holds no spec, or one over 16 MiB";
    spec->mapping_bytes = (size_t)st.st_size;
    /* Sealed, it can neither change after it was checked nor shrink under the mapping. */
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed)
        return is_ours_alone(&st) ? copy_file(fd, spec)
                                  : "descriptor 3 is neither a sealed memfd nor a file with mode "
                                    "0600 of our own";
    spec->mapping = mmap(NULL, spec->mapping_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (spec->mapping == MAP_FAILED) return "the spec cannot be mapped";
    return NULL;
}

const char *spec_read(int fd, struct spec *spec) {
    memset(spec, 0, sizeof *spec);
    spec->cpu_millicpus = UNPACED;
    spec->gid = NO_GROUP;
    spec->stop_signal = SIGTERM;
    spec->suspension_lease_ms = SUSPENSION_LEASE_MS;
    const char *problem = map_spec(fd, spec);
    if (problem != NULL) return problem;
    return parse(spec, spec->mapping, spec->mapping_bytes);
}

void spec_release(struct spec *spec) {
    munmap(spec->mapping, spec->mapping_bytes);
    free(spec->argv.items);
    free(spec->env.items);
    free(spec->cgroup_procs.items);
    memset(&spec->argv, 0, sizeof spec->argv);
    memset(&spec->env, 0, sizeof spec->env);
    memset(&spec->cgroup_procs, 0, sizeof spec->cgroup_procs);
    spec->working_directory = spec->cgroup_kill = spec->freezer = NULL;
    spec->mapping = NULL;
}
