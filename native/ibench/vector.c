/* Vector work on the CPUs it is bound to (iBench's SoI 15).
 *
 * Multiplications and additions of eight floats at a time, 256 bits, in registers: one operation
 * where the CPU has AVX2, two of 128 bits with NEON or SSE2, what the compiler makes of them
 * elsewhere. Which of them is chosen when the program starts. Intensity is the share of each
 * CPU's time.
 */
#include "ibench.h"

enum { ROUNDS = 1000, CHAINS = 4, OPERATIONS_PER_ROUND = 2 * CHAINS };

#if defined(__x86_64__)
#define KEEP(value) __asm__ volatile("" : "+x"(value))
#elif defined(__aarch64__)
#define KEEP(value) __asm__ volatile("" : "+w"(value))
#else
#define KEEP(value) __asm__ volatile("" : "+m"(value))
#endif

/* An operation is one of 256 bits, whatever the CPU makes of it: `parts` vectors of type TYPE. */
#define DEFINE_BATCH(NAME, TYPE, PARTS)                                                       \
    static uint64_t NAME(struct worker *worker) {                                             \
        (void)worker;                                                                         \
        TYPE chains[CHAINS * (PARTS)], less = (TYPE){0} + 0.999F, more = (TYPE){0} + 0.25F;   \
        for (int j = 0; j < CHAINS * (PARTS); j++) chains[j] = (TYPE){0} + (float)j;          \
        KEEP(less);                                                                           \
        KEEP(more);                                                                           \
        for (int i = 0; i < ROUNDS; i++) {                                                    \
            _Pragma("GCC unroll 8") for (int j = 0; j < CHAINS * (PARTS); j++) {              \
                chains[j] = chains[j] * less + more;                                          \
                KEEP(chains[j]);                                                              \
            }                                                                                 \
        }                                                                                     \
        return ROUNDS * OPERATIONS_PER_ROUND;                                                 \
    }

typedef float four __attribute__((vector_size(16)));
DEFINE_BATCH(batch_of_128_bits, four, 2)

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2")
typedef float eight __attribute__((vector_size(32)));
DEFINE_BATCH(batch_of_256_bits, eight, 1)
#pragma GCC pop_options
#endif

static uint64_t (*vector_batch)(struct worker *) = batch_of_128_bits;

static void vector_prepare(const struct options *options, struct worker *workers, size_t count) {
    busy_prepare(options, workers, count);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) vector_batch = batch_of_256_bits;
#endif
}

static double vector_work(struct worker *worker, double budget) {
    return busy_work(worker, budget, vector_batch);
}

const struct source vector_source = {
    .name = "vector",
    .unit = "operations/s",
    .per_cpu = true,
    .burst_seconds = 0.02,
    .full_per_second = 1e9, /* nanoseconds of CPU time */
    .probe = busy_probe,
    .prepare = vector_prepare,
    .work = vector_work,
};
