/* How much memory could be had without harm to others, and whether they wait for it.
 *
 * The bounds are the machine's (MemAvailable) and those of each control group that this process is
 * in (v1 and v2), less a reserve of each bound: the larger of 1 GiB and a tenth.
 */
#include "ibench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LEAST_RESERVE_BYTES (UINT64_C(1) << 30)

enum { MAX_LIMITS = 16, PATH_BYTES = PATH_MAX, LINE_BYTES = 2 * PATH_MAX };

/* --- numbers in small files ---------------------------------------------------------------- */

/* The number behind `key`, at the beginning of a line; 0 where there is none. */
static uint64_t number_after(const char *path, const char *key) {
    char line[256];
    uint64_t number = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    while (number == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtoull(line + strlen(key), NULL, 10); /* "max": 0 */
    fclose(file);
    return number;
}

uint64_t memory_stalled_us(void) {
    char line[256];
    uint64_t total = 0;
    FILE *file = fopen("/proc/pressure/memory", "re");
    if (file == NULL) return 0;
    if (fgets(line, sizeof line, file) != NULL) { /* "some avg10=... total=N" */
        const char *at = strstr(line, "total=");
        if (at != NULL) total = strtoull(at + strlen("total="), NULL, 10);
    }
    fclose(file);
    return total;
}

/* --- control groups ------------------------------------------------------------------------ */

struct version {
    const char *type;       /* of the mount */
    const char *controller; /* among the mount's options; NULL: all are there */
    const char *limits[2];
    const char *usage;
    const char *reclaimable; /* in memory.stat: page cache that was not used of late */
};

static const struct version VERSIONS[] = {
    {"cgroup2", NULL, {"memory.max", "memory.high"}, "memory.current", "inactive_file "},
    {"cgroup", "memory", {"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes",
     "total_inactive_file "},
};

static struct limit {
    const struct version *version;
    char folder[PATH_BYTES];
} limits[MAX_LIMITS];
static size_t limit_count;

static uint64_t number_in(const struct limit *limit, const char *file, const char *key) {
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", limit->folder, file);
    return number_after(path, key);
}

static uint64_t limit_bytes(const struct limit *limit) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < 2 && limit->version->limits[i] != NULL; i++) {
        uint64_t bytes = number_in(limit, limit->version->limits[i], "");
        if (bytes > 0 && bytes < least) least = bytes;
    }
    return least;
}

static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ',') && strchr(",\n ", at[length]) != NULL) return true;
    return false;
}

/* Where the hierarchy of that version is mounted, and which of its groups is there. */
static bool find_mount(const struct version *version, char *root, char *folder) {
    char line[LINE_BYTES], type[32], options[256];
    bool is_found = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (file == NULL) return false;
    while (!is_found && fgets(line, sizeof line, file) != NULL) {
        const char *rest = strstr(line, " - ");
        if (rest == NULL || sscanf(rest, " - %31s %*s %255s", type, options) != 2) continue;
        if (strcmp(type, version->type) != 0) continue;
        if (version->controller != NULL && !has_word(options, version->controller)) continue;
        is_found = sscanf(line, "%*s %*s %*s %4095s %4095s", root, folder) == 2;
    }
    fclose(file);
    return is_found;
}

/* This process's group, as the root of the hierarchy sees it. */
static bool find_group(const struct version *version, char *group) {
    char line[LINE_BYTES];
    bool is_found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) return false;
    while (!is_found && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *path;
        if (controllers == NULL || (path = strchr(++controllers, ':')) == NULL) continue;
        *path++ = '\0';
        const char *controller = version->controller;
        if (controller == NULL ? *controllers != '\0' : !has_word(controllers, controller))
            continue;
        path[strcspn(path, "\n")] = '\0';
        is_found = snprintf(group, PATH_BYTES, "%s", path) < PATH_BYTES;
    }
    fclose(file);
    return is_found;
}

/* From the process's own group up: each that has a limit. */
static void find_limits_of(const struct version *version) {
    static char root[PATH_BYTES], mount[PATH_BYTES], group[PATH_BYTES];
    if (!find_mount(version, root, mount) || !find_group(version, group)) return;
    size_t shared = strcmp(root, "/") == 0 ? 0 : strlen(root);
    /* In a container the mount may be the group itself. */
    char *below = strncmp(group, root, shared) == 0 ? group + shared : group + strlen(group);
    while (limit_count < MAX_LIMITS) {
        struct limit *limit = &limits[limit_count];
        limit->version = version;
        int length = snprintf(limit->folder, PATH_BYTES, "%s%s", mount, below);
        /* Version 1 writes no limit as the largest number of whole pages. */
        if (length < PATH_BYTES && limit_bytes(limit) < (uint64_t)INT64_MAX / 2) limit_count++;
        char *last = strrchr(below, '/');
        if (last == NULL) return;
        *last = '\0';
    }
}

/* --- the room ------------------------------------------------------------------------------ */

static struct room room_of(uint64_t available, uint64_t total, bool of_group) {
    uint64_t reserve = total / 10 > LEAST_RESERVE_BYTES ? total / 10 : LEAST_RESERVE_BYTES;
    return (struct room){(int64_t)available - (int64_t)reserve, available, reserve, total,
                         of_group};
}

static struct room room_of_group(const struct limit *limit) {
    uint64_t total = limit_bytes(limit);
    uint64_t used = number_in(limit, limit->version->usage, "");
    uint64_t reclaimable = number_in(limit, "memory.stat", limit->version->reclaimable);
    used -= used < reclaimable ? used : reclaimable;
    return room_of(total > used ? total - used : 0, total, true);
}

struct room memory_room(void) {
    static bool are_found;
    for (size_t i = 0; !are_found && i < sizeof VERSIONS / sizeof *VERSIONS; i++)
        find_limits_of(&VERSIONS[i]);
    are_found = true;
    struct room least = room_of(number_after("/proc/meminfo", "MemAvailable:") << 10,
                                number_after("/proc/meminfo", "MemTotal:") << 10, false);
    for (size_t i = 0; i < limit_count; i++) {
        struct room room = room_of_group(&limits[i]);
        if (room.total_bytes < UINT64_MAX && room.bytes < least.bytes) least = room;
    }
    return least;
}

/* --- the memory ---------------------------------------------------------------------------- */

void *memory_map(uint64_t bytes, const char *option) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fail(STATUS_FAULT, "cannot map %llu MiB of memory: %s; give a smaller --%s",
             (unsigned long long)bytes >> 20, strerror(errno), option);
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}
