/* Memory that is held and used (iBench's SoI 1).
 *
 * Random accesses, or accesses with a stride, over a footprint of x % of what could be had. The
 * footprint is the pressure: its pages are each used about once a second, so that they count as
 * in use and stay, and no more often, since bandwidth is another source's. It is given back as
 * soon as others need it.
 */
#include "ibench.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE_BYTES = 4096,
    CHAINS = 32, /* accesses that wait for no other: as many misses at once as a core can have */
    GROWTH_BYTES = 2 << 20,
    GIVEN_BACK = 8, /* under pressure: one part in so many, at once, and again */
};
#define TURN_NS (SECOND_NS / 1000)
#define CHECK_NS (SECOND_NS / 50)
/* Waited for memory, of the time between two looks: more is pressure. */
#define PRESSURE_US (CHECK_NS / 1000 / 10)
#define CALM_NS SECOND_NS
/* The credit for one access to each page of the full footprint. */
#define FULL 1e9

static struct {
    char *data;
    uint64_t full_bytes, stride_bytes;
    _Atomic uint64_t held_bytes, wanted_bytes;
    atomic_bool limited;
    uint64_t at, random; /* the last address, the generator */
    int64_t check_at, grow_at;
    uint64_t stalled_us;
    bool has_grown; /* since the last look: then waiting may be our own doing */
} space;

/* --- is there room? ------------------------------------------------------------------------ */

static bool capacity_probe(const struct options *options, char reason[REASON_BYTES]) {
    struct room room = memory_room();
    if (options->footprint_bytes > 0 && footprint_wanted(options->footprint_bytes, 100) == 0) {
        snprintf(reason, REASON_BYTES, "the footprint is less than 64 KiB; give a larger one");
        return false;
    }
    if (room.bytes >= GROWTH_BYTES) return true;
    snprintf(reason, REASON_BYTES, "%llu MiB %s, and a reserve of %llu MiB is kept",
             (unsigned long long)room.available_bytes >> 20,
             room.of_group ? "are left of the control group's limit" : "of memory are available",
             (unsigned long long)room.reserve_bytes >> 20);
    return false;
}

/* Should memory run out all the same, this program is the first to be killed. */
static void be_the_first_to_go(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t written = write(fd, "1000", 4);
    (void)written;
    close(fd);
}

static void capacity_prepare(const struct options *options, struct worker *workers, size_t count) {
    (void)workers;
    (void)count;
    int64_t room = memory_room().bytes;
    uint64_t bytes = room > 0 ? (uint64_t)room : 0;
    if (options->footprint_bytes > 0 && options->footprint_bytes < bytes)
        bytes = options->footprint_bytes;
    space.full_bytes = footprint_wanted(bytes, 100);
    if (space.full_bytes == 0) fail(STATUS_NO_SIGNAL, "memory-capacity: no memory is left");
    be_the_first_to_go();
    space.data = memory_map(space.full_bytes, "footprint");
    space.stride_bytes = options->stride_bytes;
    space.random = (uint64_t)now_ns() | 1;
}

/* --- growing and giving back --------------------------------------------------------------- */

static void shrink_to(uint64_t bytes) {
    uint64_t held = atomic_load(&space.held_bytes);
    if (bytes >= held) return;
    madvise(space.data + bytes, held - bytes, MADV_DONTNEED);
    atomic_store(&space.held_bytes, bytes);
}

static void capacity_change(double intensity) {
    uint64_t wanted = footprint_wanted(space.full_bytes, intensity);
    atomic_store(&space.limited, false);
    atomic_store(&space.wanted_bytes, wanted);
    space.check_at = space.grow_at = 0;
    space.stalled_us = memory_stalled_us();
    space.has_grown = true;
    shrink_to(wanted);
}

static void give_back(uint64_t bytes, int64_t now) {
    uint64_t held = atomic_load(&space.held_bytes);
    uint64_t left = held > bytes ? held - bytes : 0;
    shrink_to(left / PAGE_BYTES * PAGE_BYTES);
    atomic_store(&space.limited, true);
    space.grow_at = now + CALM_NS;
}

static void look_for_others(int64_t now) {
    uint64_t stalled = memory_stalled_us(), held = atomic_load(&space.held_bytes);
    bool is_pressed = stalled > space.stalled_us + (uint64_t)PRESSURE_US;
    int64_t room = memory_room().bytes;
    if (room < 0)
        give_back((uint64_t)-room, now);
    else if (is_pressed && space.has_grown)
        space.grow_at = now + CHECK_NS; /* others or ourselves: another look will tell */
    else if (is_pressed)
        give_back(held / GIVEN_BACK + GROWTH_BYTES, now);
    space.stalled_us = stalled;
    space.has_grown = false;
    space.check_at = now + CHECK_NS;
}

static uint64_t random_number(void) {
    space.random ^= space.random << 13;
    space.random ^= space.random >> 7;
    space.random ^= space.random << 17;
    return space.random;
}

static uint64_t grow(uint64_t held, uint64_t wanted, int64_t until) {
    do {
        uint64_t end = held + GROWTH_BYTES < wanted ? held + GROWTH_BYTES : wanted;
        /* No page is like another, or empty: none can be merged, compressed or taken back. */
        for (; held < end; held += PAGE_BYTES) *(uint64_t *)(space.data + held) = random_number();
    } while (held < wanted && now_ns() < until);
    return held;
}

/* Whether there was something to do. */
static bool has_grown(int64_t now) {
    uint64_t held = atomic_load(&space.held_bytes), wanted = atomic_load(&space.wanted_bytes);
    if (held >= wanted) atomic_store(&space.limited, false);
    if (held >= wanted || now < space.grow_at) return false;
    int64_t room = memory_room().bytes;
    if (room < 2 * GROWTH_BYTES) {
        atomic_store(&space.limited, true);
        space.grow_at = now + CALM_NS;
        return false;
    }
    uint64_t most = held + (uint64_t)room / 2;
    atomic_store(&space.held_bytes, grow(held, wanted < most ? wanted : most, now + TURN_NS));
    space.has_grown = true;
    return true;
}

/* --- the accesses -------------------------------------------------------------------------- */

static uint64_t next_address(uint64_t bytes) {
    if (space.stride_bytes > 0)
        space.at = (space.at + space.stride_bytes) % bytes;
    else
        space.at = random_number() % bytes;
    return space.at / sizeof(uint64_t) * sizeof(uint64_t);
}

/* Addresses first, then the accesses: none depends on what another has read. */
static void access_all(uint64_t bytes, uint64_t sums[CHAINS]) {
    uint64_t addresses[CHAINS];
    for (size_t i = 0; i < CHAINS; i++) addresses[i] = next_address(bytes);
    for (size_t i = 0; i < CHAINS; i++)
        sums[i] += *(const volatile uint64_t *)(space.data + addresses[i]) << 1;
}

static double capacity_work(struct worker *worker, double budget) {
    int64_t now = now_ns(), until = now + TURN_NS;
    if (now >= space.check_at) look_for_others(now);
    if (has_grown(now)) return 0;
    uint64_t held = atomic_load(&space.held_bytes), sums[CHAINS] = {0};
    /* Its share is of the pages that are wanted; fewer than that are used less. */
    if (held == 0) return budget;
    double due = budget / FULL * (double)space.full_bytes / PAGE_BYTES;
    uint64_t done = 0;
    do {
        access_all(held, sums);
        done += CHAINS;
    } while ((double)done < due && now_ns() < until);
    __asm__ volatile("" : : "r"(sums) : "memory"); /* the sums are used */
    atomic_fetch_add_explicit(&worker->count, done, memory_order_relaxed);
    return (double)done * PAGE_BYTES / (double)space.full_bytes * FULL;
}

static struct footprint capacity_footprint(const struct worker *workers, size_t count) {
    (void)workers;
    (void)count;
    return (struct footprint){atomic_load(&space.held_bytes), space.full_bytes,
                              atomic_load(&space.limited)};
}

const struct source memory_capacity_source = {
    .name = "memory-capacity",
    .unit = "operations/s",
    .bytes_per_count = 8, /* read by an access */
    .workers = 1,
    .burst_seconds = 0.05,
    .full_per_second = FULL,
    .capped = true,
    .probe = capacity_probe,
    .prepare = capacity_prepare,
    .work = capacity_work,
    .change = capacity_change,
    .footprint = capacity_footprint,
};
