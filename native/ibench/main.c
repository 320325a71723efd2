/* The order of things: is there a signal, prepare, measure the maximum, work, stop.
 *
 * The main thread listens, keeps the time and reports; for sources that work on each CPU it is
 * also the worker of the first, so that on one CPU there is one thread.
 */
#include "ibench.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* A maximum is the best of so many bursts: others may have had the resource meanwhile. */
enum { BURSTS = 3 };
#define BURST_NS (SECOND_NS / 2)
/* A period shorter than this says nothing about a rate. */
#define SHORTEST_PERIOD_NS (SECOND_NS / 50)
/* A footprint that takes longer than this to grow is told to hold before it does. */
#define GROWTH_NS (10 * SECOND_NS)

struct run {
    struct options options;
    struct crew crew;
    struct control control;
    struct report report;
    double intensity;
    int64_t report_at, end_at, step_at;
    int64_t told_by; /* when an intensity is told to hold, at the latest; 0: it was */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* --- the maximum --------------------------------------------------------------------------- */

static void listen_until(struct run *run, int64_t end, bool until_settled) {
    while (!run->control.ended && now_ns() < end) {
        const struct crew *crew = &run->crew;
        if (until_settled && crew->source->settled(crew->workers, crew->count)) return;
        int64_t wait = crew_main_wait_ns(&run->crew);
        if (wait == 0) crew_main_turn(&run->crew);
        control_wait(&run->control, least(wait, SECOND_NS / 100));
    }
}

/* Of a burst. Where CPU time alone bounds the rate, what others had of it meanwhile could have
 * been the source's: its rate is what it would have been in all that was used. */
static double burst_rate_per_second(struct run *run) {
    struct crew *crew = &run->crew;
    const struct options *options = &run->options;
    double own = process_cpu_seconds(), busy = busy_seconds(options);
    report_begin(&run->report, crew);
    int64_t begun = now_ns();
    listen_until(run, begun + BURST_NS, false);
    double rate = crew_rate_per_second(&run->report, crew);
    own = process_cpu_seconds() - own;
    busy = busy_seconds(options) - busy;
    /* Workers that are bound to a CPU each never rest at full intensity. */
    if (crew->source->per_cpu)
        busy = (double)(now_ns() - begun) / (double)SECOND_NS * (double)crew->count;
    else if (crew->source->cpu_bound == NULL || !crew->source->cpu_bound(options))
        return rate;
    return own > 0 && busy > own ? rate * busy / own : rate;
}

/* At full intensity, whatever was asked for: later intensities are shares of it. */
static void measure_maximum(struct run *run) {
    struct crew *crew = &run->crew;
    double best = 0;
    crew_set_intensity(crew, 100);
    int64_t settle_ns = (int64_t)(crew->source->settle_seconds * (double)SECOND_NS);
    if (crew->source->settled != NULL) listen_until(run, now_ns() + settle_ns, true);
    for (int i = 0; i < BURSTS && !run->control.ended; i++) {
        double rate = burst_rate_per_second(run);
        if (rate > best) best = rate;
    }
    crew_set_intensity(crew, 0);
    if (run->control.ended) return;
    if (best <= 0) fail(STATUS_FAULT, "nothing was done in all bursts; is it stuck?");
    run->options.maximum_per_second = best;
    atomic_store(&crew->full_per_second, best / (double)crew->count);
}

/* --- the work ------------------------------------------------------------------------------ */

/* A rate holds from now on; a footprint when it is there, or as much of it as can be had. */
static bool in_force(const struct run *run) {
    struct footprint footprint = crew_footprint(&run->crew);
    uint64_t wanted = footprint_wanted(footprint.full_bytes, run->intensity);
    if (footprint.full_bytes == 0 || footprint.held_bytes == wanted) return true;
    return footprint.held_bytes < wanted && footprint.limited;
}

static void tell_once_in_force(struct run *run) {
    if (run->told_by == 0 || (!in_force(run) && now_ns() < run->told_by)) return;
    run->told_by = 0;
    report_begin(&run->report, &run->crew);
    report_intensity(&run->report, run->intensity);
}

static void apply(struct run *run, double intensity) {
    if (run->told_by > 0) report_intensity(&run->report, run->intensity); /* overtaken */
    /* First: what is held then is of the period that ends. */
    if (now_ns() - run->report.since_ns >= SHORTEST_PERIOD_NS)
        report_period(&run->report, &run->crew, run->intensity);
    else
        report_begin(&run->report, &run->crew);
    crew_set_intensity(&run->crew, intensity);
    run->intensity = intensity;
    run->report_at = now_ns() + run->options.report_ns;
    run->told_by = now_ns() + GROWTH_NS;
    tell_once_in_force(run);
}

static void obey(struct run *run) {
    if (!run->control.asked) return;
    run->control.asked = false;
    run->step_at = FOREVER_NS; /* whoever asks has the ramp in hand from now on */
    run->options.ramp.sweep = false;
    apply(run, run->control.intensity);
}

static void climb(struct run *run) {
    const struct ramp *ramp = &run->options.ramp;
    double next = run->intensity + ramp->step;
    double rest = (ramp->to - next) * (ramp->step > 0 ? 1 : -1);
    if (rest < -1e-9) {
        run->control.ended = true;
        return;
    }
    run->step_at += ramp->step_ns;
    if (!ramp->sweep) {
        apply(run, next);
        return;
    }
    run->intensity = next;
    crew_set_intensity(&run->crew, next);
}

static void keep_time(struct run *run) {
    int64_t now = now_ns();
    if (now >= run->end_at) run->control.ended = true;
    if (now >= run->step_at) climb(run);
    if (now < run->report_at || run->options.ramp.sweep) return;
    report_period(&run->report, &run->crew, run->intensity);
    run->report_at = now + run->options.report_ns;
}

static int64_t wait_for_timers_ns(const struct run *run) {
    int64_t report_at = run->options.ramp.sweep ? FOREVER_NS : run->report_at;
    int64_t wait = least(report_at, least(run->end_at, run->step_at)) - now_ns();
    if (run->told_by > 0) wait = least(wait, SECOND_NS / 1000);
    return wait > 0 ? wait : 0;
}

static void begin(struct run *run) {
    const struct options *options = &run->options;
    int64_t now = now_ns();
    run->end_at = options->run_ns > 0 ? now + options->run_ns : FOREVER_NS;
    run->step_at = options->ramp.step_ns > 0 ? now + options->ramp.step_ns : FOREVER_NS;
    run->report.since_ns = now;
    run->intensity = 0;
    apply(run, options->ramp.step_ns > 0 ? options->ramp.from : options->intensity);
}

static void work(struct run *run) {
    begin(run);
    while (!run->control.ended) {
        int64_t wait = crew_main_wait_ns(&run->crew);
        if (wait == 0) crew_main_turn(&run->crew);
        control_wait(&run->control, least(wait, wait_for_timers_ns(run)));
        obey(run);
        tell_once_in_force(run);
        keep_time(run);
    }
    const struct ramp *ramp = &run->options.ramp;
    if (ramp->sweep)
        report_period(&run->report, &run->crew, (ramp->from + ramp->to) / 2);
    else if (now_ns() - run->report.since_ns >= SHORTEST_PERIOD_NS)
        report_period(&run->report, &run->crew, run->intensity);
}

/* --- the order ----------------------------------------------------------------------------- */

static int list(void) {
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        printf("{\"name\":\"%s\",\"unit\":\"%s\",\"maximum_is_measured\":%s}\n", SOURCES[i]->name,
               SOURCES[i]->unit, SOURCES[i]->full_per_second > 0 ? "false" : "true");
    return STATUS_DONE;
}

static int probe(const struct options *options) {
    char reason[REASON_BYTES] = "";
    bool signal = options->source->probe(options, reason);
    if (options->probe)
        printf("{\"signal\":%s,\"reason\":\"%s\"}\n", signal ? "true" : "false", reason);
    else if (!signal)
        fail(STATUS_NO_SIGNAL, "%s: no signal here: %s", options->source->name, reason);
    return STATUS_DONE;
}

static void keep_to_cpus(const struct options *options) {
    cpu_set_t set[MAX_CPUS / CPU_SETSIZE];
    memset(set, 0, sizeof set);
    for (size_t i = 0; i < options->cpu_count; i++)
        CPU_SET_S((size_t)options->cpus[i], sizeof set, set);
    if (sched_setaffinity(0, sizeof set, set) < 0)
        fail(STATUS_FAULT, "--cpus: they can't be bound to; name others");
}

int main(int argc, char **argv) {
    static struct run run;
    options_read(argc, argv, &run.options);
    if (run.options.list) return list();
    if (run.options.serve) return peer_run(&run.options);
    if (probe(&run.options), run.options.probe) return STATUS_DONE;
    keep_to_cpus(&run.options);
    control_open(&run.control, &run.options);
    report_open(&run.report, &run.options);
    crew_start(&run.crew, &run.options);
    if (atomic_load(&run.crew.full_per_second) <= 0) measure_maximum(&run);
    if (!run.control.ended) report_ready(&run.report, &run.options, run.crew.count);
    if (!run.control.ended && !run.options.measure_maximum) work(&run);
    crew_stop(&run.crew);
    return STATUS_DONE;
}
