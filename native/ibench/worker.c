/* The threads that work, and how they rest.
 *
 * A worker that has nothing to do sleeps; at intensity 0 it sleeps until it is told of another,
 * so a source that is withdrawn takes nothing.
 */
#include "ibench.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static struct pace pace_of(struct crew *crew) {
    return (struct pace){
        .full_per_second = atomic_load_explicit(&crew->full_per_second, memory_order_relaxed),
        .burst_seconds = crew->source->burst_seconds,
        .capped = crew->source->capped};
}

static int64_t wait_ns(struct worker *worker) {
    struct crew *crew = worker->crew;
    double intensity = atomic_load_explicit(&crew->intensity, memory_order_relaxed);
    if (crew->source->change != NULL && intensity != worker->changed_to)
        crew->source->change(worker->changed_to = intensity);
    return pacer_wait_ns(&worker->pacer, pace_of(crew), intensity, now_ns());
}

static void turn(struct worker *worker) {
    double budget = pacer_budget(&worker->pacer, pace_of(worker->crew));
    double used = worker->crew->source->work(worker, budget);
    worker->pacer.credit -= used;
    atomic_fetch_add_explicit(&worker->used, (uint64_t)used, memory_order_relaxed);
}

/* Until the time is over or there is news, whichever is first. */
static void rest(struct worker *worker, int64_t time_ns) {
    struct crew *crew = worker->crew;
    int64_t until = time_ns == FOREVER_NS ? FOREVER_NS : now_ns() + time_ns;
    const struct timespec at = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
    int result = 0;
    pthread_mutex_lock(&crew->lock);
    /* Under the lock: news that came after `time_ns` was found must not be slept over. */
    while (result == 0 && !atomic_load(&crew->stop) &&
           atomic_load(&crew->intensity) == worker->pacer.intensity) {
        if (until == FOREVER_NS)
            result = pthread_cond_wait(&crew->changed, &crew->lock);
        else
            result = pthread_cond_timedwait(&crew->changed, &crew->lock, &at);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void bind_to(int cpu) {
    cpu_set_t set[MAX_CPUS / CPU_SETSIZE];
    memset(set, 0, sizeof set);
    CPU_SET_S((size_t)cpu, sizeof set, set);
    if (sched_setaffinity(0, sizeof set, set) < 0)
        fail(STATUS_NO_SIGNAL, "--cpus: CPU %d: %s; name CPUs that may be used", cpu,
             strerror(errno));
}

static void settle_in(const struct worker *worker, const struct options *options) {
    /* Else every rest would be up to 50 us too long, and low intensities fall short. */
    prctl(PR_SET_TIMERSLACK, 1000UL);
    if (worker->crew->source->per_cpu) bind_to(options->cpus[worker->index]);
}

struct beginning {
    struct worker *worker;
    const struct options *options;
};

static void *live(void *argument) {
    struct beginning beginning = *(struct beginning *)argument;
    struct worker *worker = beginning.worker;
    free(argument);
    settle_in(worker, beginning.options);
    while (!atomic_load_explicit(&worker->crew->stop, memory_order_relaxed)) {
        int64_t wait = wait_ns(worker);
        if (wait == 0)
            turn(worker);
        else
            rest(worker, wait);
    }
    return NULL;
}

static size_t first_thread(const struct crew *crew) {
    return crew->source->per_cpu ? 1 : 0;
}

static void hire(struct crew *crew, const struct options *options) {
    size_t bytes = crew->count * sizeof *crew->workers;
    crew->workers = aligned_alloc(CACHE_LINE_BYTES, bytes);
    if (crew->workers == NULL) fail(STATUS_FAULT, "no memory for %zu workers", crew->count);
    memset(crew->workers, 0, bytes);
    for (size_t i = 0; i < crew->count; i++) {
        crew->workers[i].crew = crew;
        crew->workers[i].index = i;
    }
    crew->source->prepare(options, crew->workers, crew->count);
}

static void begin(struct worker *worker, const struct options *options) {
    struct beginning *beginning = malloc(sizeof *beginning);
    if (beginning == NULL) fail(STATUS_FAULT, "no memory for a thread");
    *beginning = (struct beginning){worker, options};
    int error = pthread_create(&worker->thread, NULL, live, beginning);
    if (error != 0) fail(STATUS_FAULT, "thread: %s", strerror(error));
}

void crew_start(struct crew *crew, const struct options *options) {
    pthread_condattr_t monotonic;
    *crew = (struct crew){.source = options->source};
    crew->count = crew->source->per_cpu ? options->cpu_count : crew->source->workers;
    double full = crew->source->full_per_second;
    if (full <= 0) full = options->maximum_per_second / (double)crew->count;
    atomic_init(&crew->full_per_second, full);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&crew->changed, &monotonic);
    hire(crew, options);
    for (size_t i = first_thread(crew); i < crew->count; i++) begin(&crew->workers[i], options);
    if (first_thread(crew) > 0) settle_in(&crew->workers[0], options);
}

static void tell_all(struct crew *crew, double intensity, bool stop) {
    pthread_mutex_lock(&crew->lock);
    atomic_store(&crew->intensity, intensity);
    if (stop) atomic_store(&crew->stop, true);
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

void crew_set_intensity(struct crew *crew, double intensity) {
    tell_all(crew, intensity, false);
}

void crew_stop(struct crew *crew) {
    tell_all(crew, 0, true);
    for (size_t i = first_thread(crew); i < crew->count; i++)
        pthread_join(crew->workers[i].thread, NULL);
}

struct footprint crew_footprint(const struct crew *crew) {
    if (crew->source->footprint == NULL) return (struct footprint){0};
    return crew->source->footprint(crew->workers, crew->count);
}

uint64_t footprint_wanted(uint64_t full_bytes, double intensity) {
    enum { GRANULE_BYTES = 64 << 10 }; /* whole pages, of any size that is usual */
    uint64_t bytes = (uint64_t)((double)full_bytes * intensity / 100);
    return bytes / GRANULE_BYTES * GRANULE_BYTES;
}

int64_t crew_main_wait_ns(struct crew *crew) {
    return first_thread(crew) > 0 ? wait_ns(&crew->workers[0]) : FOREVER_NS;
}

void crew_main_turn(struct crew *crew) {
    if (first_thread(crew) > 0) turn(&crew->workers[0]);
}
