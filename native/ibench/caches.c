/* How large the caches of a CPU are, and what of them a source takes.
 *
 * The kernel tells sizes and sharers (sysfs); where it does not, the C library may (CPUID).
 * Memory that fills a cache is contiguous, so that it grows by sets and then by ways.
 */
#include "ibench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_INDICES = 8, VALUE_BYTES = 1024, MOST_FOOTPRINT_BYTES = 1 << 30 };

/* --- what there is ------------------------------------------------------------------------- */

static bool read_value(int cpu, int index, const char *name, char value[VALUE_BYTES]) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index,
             name);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool told = fgets(value, VALUE_BYTES, file) != NULL;
    fclose(file);
    if (told) value[strcspn(value, "\n")] = '\0';
    return told;
}

static uint64_t size_of(const char *text) {
    char *unit;
    uint64_t size = strtoull(text, &unit, 10);
    return *unit == 'K' ? size << 10 : *unit == 'M' ? size << 20 : size;
}

static bool is_in(const char *list, int cpu) {
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at) return false;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (cpu >= first && cpu <= last) return true;
        at = end;
    }
    return false;
}

/* Of the CPUs that the source works on, those that share one with `cpu`. */
static size_t sharers_of(const struct options *options, int cpu, int index) {
    char list[VALUE_BYTES];
    size_t sharers = 0;
    if (!read_value(cpu, index, "shared_cpu_list", list)) return 1;
    for (size_t i = 0; i < options->cpu_count; i++) sharers += is_in(list, options->cpus[i]);
    return sharers > 0 ? sharers : 1;
}

static bool from_library(enum cache_kind kind, uint64_t *bytes) {
    long size = 0;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int names[] = {
        [L1_INSTRUCTION] = _SC_LEVEL1_ICACHE_SIZE,
        [L1_DATA] = _SC_LEVEL1_DCACHE_SIZE,
        [L2] = _SC_LEVEL2_CACHE_SIZE,
        [LAST_LEVEL] = _SC_LEVEL3_CACHE_SIZE,
    };
    size = sysconf(names[kind]);
    if (size <= 0 && kind == LAST_LEVEL) size = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    *bytes = size > 0 ? (uint64_t)size : 0;
    return size > 0;
}

static bool is_of_kind(enum cache_kind kind, long level, char type) {
    switch (kind) {
        case L1_INSTRUCTION: return level == 1 && type != 'D';
        case L1_DATA: return level == 1 && type != 'I';
        case L2: return level == 2 && type != 'I';
        case LAST_LEVEL: return level >= 2 && type != 'I';
    }
    return false;
}

struct cache cache_of(const struct options *options, int cpu, enum cache_kind kind) {
    struct cache cache = {.sharers = 1};
    char level[VALUE_BYTES], type[VALUE_BYTES], size[VALUE_BYTES];
    for (int index = 0; index < MOST_INDICES; index++) {
        if (!read_value(cpu, index, "level", level) || !read_value(cpu, index, "type", type) ||
            !read_value(cpu, index, "size", size))
            continue;
        long height = strtol(level, NULL, 10);
        if (height > cache.levels) cache.levels = height;
        if (!is_of_kind(kind, height, type[0]) || height < cache.level) continue;
        cache.level = height;
        cache.bytes = size_of(size);
        cache.sharers = sharers_of(options, cpu, index);
    }
    if (cache.bytes == 0) from_library(kind, &cache.bytes);
    return cache;
}

static const char *const NAMES[] = {
    [L1_INSTRUCTION] = "first-level instruction cache",
    [L1_DATA] = "first-level data cache",
    [L2] = "second-level cache",
    [LAST_LEVEL] = "cache behind the first level",
};

bool cache_probe(const struct options *options, enum cache_kind kind, char reason[REASON_BYTES]) {
    if (options->footprint_bytes > MOST_FOOTPRINT_BYTES)
        fail(STATUS_BAD_CALL, "--footprint: %llu; no cache has more than %d bytes",
             (unsigned long long)options->footprint_bytes, MOST_FOOTPRINT_BYTES);
    if (!busy_probe(options, reason)) return false;
    for (size_t i = 0; i < options->cpu_count; i++) {
        struct cache cache = cache_of(options, options->cpus[i], kind);
        if (kind == L2 && cache.levels == 2) {
            snprintf(reason, REASON_BYTES,
                     "the second level is the last one; take last-level-cache's sources");
            return false;
        }
        if (cache.bytes == 0 && options->footprint_bytes == 0) {
            snprintf(reason, REASON_BYTES, "the size of CPU %d's %s is not known; give --footprint",
                     options->cpus[i], NAMES[kind]);
            return false;
        }
    }
    return true;
}

/* --- what is taken of it ------------------------------------------------------------------- */

uint64_t cache_share(const struct options *options, int cpu, enum cache_kind kind) {
    struct cache cache = cache_of(options, cpu, kind);
    uint64_t bytes = options->footprint_bytes;
    if (bytes == 0) bytes = cache.bytes < MOST_CACHE_BYTES ? cache.bytes : MOST_CACHE_BYTES;
    bytes = bytes / cache.sharers / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    return bytes > 0 ? bytes : CACHE_LINE_BYTES;
}

uint64_t level_above(const struct options *options, int cpu, enum cache_kind kind) {
    enum { USUAL_L1_BYTES = 32 << 10, USUAL_L2_BYTES = 512 << 10 };
    struct cache own = cache_of(options, cpu, kind);
    bool is_l1 = kind == L2 || own.level == 2; /* the last level may be the second one */
    uint64_t bytes = cache_of(options, cpu, is_l1 ? L1_DATA : L2).bytes;
    return bytes > 0 ? bytes : is_l1 ? USUAL_L1_BYTES : USUAL_L2_BYTES;
}

char *cache_memory(uint64_t bytes, bool huge) {
    enum { HUGE_BYTES = 2 << 20 };
    uint64_t alignment = huge && bytes > HUGE_BYTES / 4 ? HUGE_BYTES : 4096;
    uint64_t whole = (bytes + alignment - 1) / alignment * alignment;
    char *memory = aligned_alloc(alignment, whole);
    if (memory == NULL)
        fail(STATUS_FAULT, "no memory for %llu KiB; give a smaller --footprint",
             (unsigned long long)whole >> 10);
    /* Large pages keep translations out of it, and sets in their order; small ones where the
     * sets are chosen within a page. */
    madvise(memory, whole, alignment == HUGE_BYTES ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(memory, 1, whole);
    return memory;
}

uint64_t lines_wanted(uint64_t full_bytes, double intensity) {
    uint64_t lines = (uint64_t)((double)full_bytes / CACHE_LINE_BYTES * intensity / 100);
    return lines > 0 ? lines : 1;
}

void read_at_random(const char *memory, uint64_t lines, uint64_t count, uint64_t *random) {
    uint64_t state = *random;
    /* No address waits for what another holds, so misses are under way together. */
    for (uint64_t i = 0; i < count; i++)
        (void)*(const volatile uint64_t *)(memory + drawn(&state, lines) * CACHE_LINE_BYTES);
    *random = state;
}

void read_in_turn(const char *memory, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += CACHE_LINE_BYTES)
        (void)*(const volatile uint64_t *)(memory + at);
}
