/* Jumps between blocks of code that are generated when this is built (iBench's SoI 8 and 13).
 *
 * Each block is one line of the instruction cache. `l1-instruction-cache` calls blocks at random
 * out of a part of the cache that is its intensity; `prefetcher` is a small program, a quarter of
 * the cache, that jumps where nothing can foresee it for the share of time that is its intensity.
 */
#include "ibench.h"

#include <stdio.h>

enum { BLOCKS = 2048, BATCH_CALLS = 1024 };

#if defined(__x86_64__) || defined(__aarch64__)

extern const char instruction_blocks[] __attribute__((visibility("hidden")));

__asm__(".text\n"
        ".balign 4096\n"
        ".globl instruction_blocks\n"
        ".hidden instruction_blocks\n"
        "instruction_blocks:\n"
        ".rept 2048\n"
        ".balign 64\n"
#if defined(__x86_64__)
        "leaq 1(%rdi,%rdi,4), %rax\n"
        "xorq %rdi, %rax\n"
#else
        "add x0, x0, x0, lsl #2\n"
        "eor x0, x0, #1\n"
#endif
        "ret\n"
        ".endr\n"
        ".balign 64\n");

static const char *code(void) {
    return instruction_blocks;
}

#else

static const char *code(void) {
    return NULL;
}

#endif

static bool instructions_probe(const struct options *options, char reason[REASON_BYTES]) {
    if (code() != NULL) return cache_probe(options, L1_INSTRUCTION, reason);
    snprintf(reason, REASON_BYTES, "there are no blocks of code for this processor");
    return false;
}

/* Bytes of the code that is called, at most all of it; one cache each has a core. */
static uint64_t code_bytes[MAX_CPUS];

static void instructions_prepare(const struct options *options, struct worker *workers,
                                 size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = cache_share(options, options->cpus[i], L1_INSTRUCTION);
        uint64_t most = (uint64_t)BLOCKS * CACHE_LINE_BYTES;
        code_bytes[i] = bytes < most ? bytes : most;
        workers[i].memory = NULL;
    }
}

static void call_at_random(uint64_t blocks) {
    static _Thread_local uint64_t random = 1;
    const char *first = code();
    uint64_t value = random;
    for (int i = 0; i < BATCH_CALLS; i++) {
        const char *block = first + drawn(&random, blocks) * CACHE_LINE_BYTES;
        value = ((uint64_t(*)(uint64_t))(uintptr_t)block)(value);
    }
    __asm__ volatile("" : : "r"(value));
}

static uint64_t blocks_wanted(const struct worker *worker, double intensity) {
    return lines_wanted(code_bytes[worker->index], intensity);
}

static uint64_t sweep_batch(struct worker *worker) {
    call_at_random(blocks_wanted(worker, worker->pacer.intensity));
    return BATCH_CALLS;
}

/* A quarter of the cache, at any intensity. */
static uint64_t small_program_batch(struct worker *worker) {
    call_at_random(blocks_wanted(worker, 25));
    return BATCH_CALLS;
}

static double instructions_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, sweep_batch);
}

static double prefetcher_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, small_program_batch);
}

static struct footprint of_blocks(const struct worker *workers, size_t count, double intensity) {
    struct footprint footprint = {0};
    for (size_t i = 0; i < count && intensity > 0; i++)
        footprint.held_bytes += blocks_wanted(&workers[i], intensity) * CACHE_LINE_BYTES;
    return footprint;
}

static struct footprint instructions_footprint(const struct worker *workers, size_t count) {
    return of_blocks(workers, count, atomic_load(&workers->crew->intensity));
}

static struct footprint prefetcher_footprint(const struct worker *workers, size_t count) {
    return of_blocks(workers, count, atomic_load(&workers->crew->intensity) > 0 ? 25 : 0);
}

const struct source l1_instruction_cache_source = {
    .name = "l1-instruction-cache",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .bytes_per_count = CACHE_LINE_BYTES,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = instructions_probe,
    .prepare = instructions_prepare,
    .work = instructions_work,
    .footprint = instructions_footprint,
};

const struct source prefetcher_source = {
    .name = "prefetcher",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .bytes_per_count = CACHE_LINE_BYTES,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = instructions_probe,
    .prepare = instructions_prepare,
    .work = prefetcher_work,
    .footprint = prefetcher_footprint,
};
