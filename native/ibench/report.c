/* Lines of JSON on the output, each written at once, none waited for.
 *
 * Times are CLOCK_MONOTONIC's, so that the reader can lay its own samples beside them.
 */
#include "ibench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 512 };

static double seconds(int64_t ns) {
    return (double)ns / (double)SECOND_NS;
}

void report_open(struct report *report, const struct options *options) {
    *report = (struct report){.fd = STDOUT_FILENO};
    if (options->report_path == NULL) return;
    /* A named pipe that nobody reads can't be opened like this: then nobody wants us. */
    report->fd = open(options->report_path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (report->fd < 0)
        fail(STATUS_FAULT, "--report: %s: %s", options->report_path, strerror(errno));
}

__attribute__((format(printf, 2, 3))) static void say(const struct report *report,
                                                      const char *format, ...) {
    char line[LINE_BYTES];
    struct pollfd output = {.fd = report->fd, .events = POLLOUT};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* A reader that has fallen behind misses a line; it must not hold up the source. */
    if (poll(&output, 1, 0) != 1 || (output.revents & POLLOUT) == 0) return;
    if (length <= 0 || write(report->fd, line, (size_t)length) >= 0 || errno == EAGAIN) return;
    if (errno == EPIPE) _exit(STATUS_DONE); /* whoever wanted us is gone */
    fail(STATUS_FAULT, "output: %s", strerror(errno));
}

uint64_t crew_count(const struct crew *crew) {
    uint64_t total = 0;
    for (size_t i = 0; i < crew->count; i++)
        total += atomic_load_explicit(&crew->workers[i].count, memory_order_relaxed);
    return total;
}

static uint64_t total_used(const struct crew *crew) {
    uint64_t total = 0;
    for (size_t i = 0; i < crew->count; i++)
        total += atomic_load_explicit(&crew->workers[i].used, memory_order_relaxed);
    return total;
}

double busy_seconds(const struct options *options) {
    char line[LINE_BYTES];
    uint64_t ticks = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        int cpu;
        unsigned long long user, nice, system, irq, soft_irq, steal;
        if (sscanf(line, "cpu%d %llu %llu %llu %*u %*u %llu %llu %llu", &cpu, &user, &nice,
                   &system, &irq, &soft_irq, &steal) != 7)
            continue;
        for (size_t i = 0; i < options->cpu_count; i++)
            if (options->cpus[i] == cpu) ticks += user + nice + system + irq + soft_irq + steal;
    }
    fclose(file);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

double process_cpu_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

void report_begin(struct report *report, const struct crew *crew) {
    report->count = crew_count(crew);
    report->used = total_used(crew);
    report->since_ns = now_ns();
}

static double period_seconds(const struct report *report) {
    int64_t period_ns = now_ns() - report->since_ns;
    return seconds(period_ns > 0 ? period_ns : 1);
}

double crew_rate_per_second(const struct report *report, const struct crew *crew) {
    return (double)(crew_count(crew) - report->count) / period_seconds(report);
}

static double achieved(const struct report *report, const struct crew *crew) {
    struct footprint footprint = crew_footprint(crew);
    if (footprint.full_bytes > 0)
        return 100 * (double)footprint.held_bytes / (double)footprint.full_bytes;
    double full = atomic_load(&crew->full_per_second) * (double)crew->count;
    return 100 * (double)(total_used(crew) - report->used) / (period_seconds(report) * full);
}

void report_period(struct report *report, const struct crew *crew, double intensity) {
    const unsigned long long count = crew_count(crew);  // Workers count on meanwhile.
    say(report,
        "{\"event\":\"report\",\"time_seconds\":%.6f,\"period_seconds\":%.6f,\"intensity\":%.4g,"
        "\"achieved\":%.3f,\"rate\":%.1f,\"unit\":\"%s\",\"count\":%llu,\"cpu_seconds\":%.6f,"
        "\"bytes\":%llu,\"footprint_bytes\":%llu}\n",
        seconds(now_ns()), period_seconds(report), intensity, achieved(report, crew),
        crew_rate_per_second(report, crew), crew->source->unit,
        count, process_cpu_seconds(), count * crew->source->bytes_per_count,
        (unsigned long long)crew_footprint(crew).held_bytes);
    report_begin(report, crew);
}

void report_intensity(const struct report *report, double intensity) {
    say(report, "{\"event\":\"intensity\",\"time_seconds\":%.6f,\"intensity\":%.4g}\n",
        seconds(now_ns()), intensity);
}

void report_ready(const struct report *report, const struct options *options, size_t workers) {
    char maximum[32] = "null";
    if (options->maximum_per_second > 0)
        snprintf(maximum, sizeof maximum, "%.1f", options->maximum_per_second);
    say(report,
        "{\"event\":\"ready\",\"time_seconds\":%.6f,\"source\":\"%s\",\"unit\":\"%s\","
        "\"workers\":%zu,\"maximum_per_second\":%s}\n",
        seconds(now_ns()), options->source->name, options->source->unit, workers, maximum);
}
