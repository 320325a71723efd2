/* One line of each of many pages, at random (iBench's SoI 10).
 *
 * Intensity is the share of the translation buffer's entries that are used. All pages show the
 * same page of memory, so that the lines themselves take a fraction of the first-level cache, and
 * no more for more pages: what misses is the translation. Large pages can't be used for it.
 */
#include "ibench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Where the CPU does not say how many it has: the second levels of the last ten years' cores have
 * 1024 to 3072. The kernel bounds how many pieces a process may map. */
enum { USUAL_ENTRIES = 1536, MOST_ENTRIES = 16384, BATCH_READS = 512 };

static struct {
    char *memory;
    uint64_t pages, page_bytes;
} range;

#if defined(__x86_64__)

static uint64_t entries_of_amd(void) {
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000006, &a, &b, &c, &d) == 0) return 0;
    return b >> 16 & 0xfff; /* data, 4 KiB, second level */
}

static uint64_t entries_of_intel(void) {
    unsigned a, b, c, d, last = 0;
    uint64_t most = 0;
    if (__get_cpuid_max(0, NULL) < 0x18) return 0;
    for (unsigned leaf = 0; leaf <= last && leaf < 64; leaf++) {
        __cpuid_count(0x18, leaf, a, b, c, d);
        if (leaf == 0) last = a;
        unsigned type = d & 0x1f;
        bool holds_data = (type == 1 || type == 3) && (b & 1) != 0;
        uint64_t entries = (uint64_t)(b >> 16) * c;
        if (holds_data && entries > most) most = entries;
    }
    return most;
}

static uint64_t entries_told(void) {
    unsigned a, b, c, d;
    if (__get_cpuid(0, &a, &b, &c, &d) == 0) return 0;
    return b == signature_AMD_ebx ? entries_of_amd() : entries_of_intel();
}

#else

static uint64_t entries_told(void) {
    return 0;
}

#endif

static uint64_t entries_here(const struct options *options) {
    uint64_t entries = options->footprint_bytes / (uint64_t)sysconf(_SC_PAGESIZE);
    if (options->footprint_bytes == 0) entries = entries_told();
    if (options->footprint_bytes == 0 && entries == 0) entries = USUAL_ENTRIES;
    return entries < 1 ? 1 : entries < MOST_ENTRIES ? entries : MOST_ENTRIES;
}

static void tlb_prepare(const struct options *options, struct worker *workers, size_t count) {
    busy_prepare(options, workers, count);
    range.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    range.pages = entries_here(options);
    int page = memfd_create("wharfinger-ibench", MFD_CLOEXEC);
    if (page < 0 || ftruncate(page, (off_t)range.page_bytes) < 0)
        fail(STATUS_FAULT, "no memory for a page: %s", strerror(errno));
    range.memory = mmap(NULL, range.pages * range.page_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range.memory == MAP_FAILED)
        fail(STATUS_FAULT, "no room for %llu pages: %s", (unsigned long long)range.pages,
             strerror(errno));
    for (uint64_t i = 0; i < range.pages; i++) {
        void *at = range.memory + i * range.page_bytes;
        if (mmap(at, range.page_bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED | MAP_POPULATE, page, 0) == MAP_FAILED)
            fail(STATUS_FAULT, "page %llu can't be mapped: %s; give a smaller --footprint",
                 (unsigned long long)i, strerror(errno));
    }
    close(page);
}

static uint64_t pages_wanted(double intensity) {
    uint64_t pages = (uint64_t)((double)range.pages * intensity / 100);
    return pages > 0 ? pages : 1;
}

static uint64_t tlb_batch(struct worker *worker) {
    static _Thread_local uint64_t random = 1;
    uint64_t pages = pages_wanted(worker->pacer.intensity);
    for (int i = 0; i < BATCH_READS; i++) {
        uint64_t page = drawn(&random, pages);
        /* A quarter of the page's lines in turn, so that no set of the cache is in demand. */
        uint64_t line = page % (range.page_bytes / CACHE_LINE_BYTES / 4);
        (void)*(const volatile uint64_t *)(range.memory + page * range.page_bytes +
                                           line * CACHE_LINE_BYTES);
    }
    return BATCH_READS;
}

static double tlb_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, tlb_batch);
}

static struct footprint tlb_footprint(const struct worker *workers, size_t count) {
    double intensity = atomic_load_explicit(&workers->crew->intensity, memory_order_relaxed);
    uint64_t bytes = intensity > 0 ? pages_wanted(intensity) * range.page_bytes : 0;
    return (struct footprint){.held_bytes = count * bytes};
}

const struct source tlb_source = {
    .name = "tlb",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .bytes_per_count = CACHE_LINE_BYTES,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = busy_probe,
    .prepare = tlb_prepare,
    .work = tlb_work,
    .footprint = tlb_footprint,
};
