/* The command line: text to values, or one line that says what is wrong, where, and the mend. */
#include "ibench.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_FILE_BYTES = 64 << 20,
    MIN_FILE_BYTES = 8 << 20,
    MIN_FOOTPRINT_BYTES = 4 << 10,
    MIN_QUOTA_BYTES = 8 << 20,
    MAX_SECONDS = 1000000000,
};

static const char USAGE[] =
    "usage: wharfinger-ibench SOURCE [--intensity N] [--ramp FROM:TO:STEP:SECONDS] [--cpus LIST]\n"
    "           [--sweep SECONDS] [--directory DIR] [--file-bytes N] [--footprint BYTES]\n"
    "           [--stride BYTES] [--quota BYTES] [--peer HOST:PORT] [--maximum PER_SECOND]\n"
    "           [--seconds S] [--report-seconds S] [--control FIFO] [--report FIFO]\n"
    "           [--probe | --measure-maximum]\n"
    "       wharfinger-ibench peer [--listen [HOST]:PORT] [--seconds S]\n"
    "       wharfinger-ibench --list\n"
    "Lines 'intensity N' on its input change the intensity (0 to 100); it ends with its input.\n";

/* --- numbers ------------------------------------------------------------------------------- */

/* A decimal number; moves `text` behind it. */
static bool take_number(const char **text, double *number) {
    char *end;
    /* Only digits: strtod would also take spaces, hexadecimal numbers, inf and nan. */
    if (strchr("0123456789.-", **text) == NULL || **text == '\0') return false;
    errno = 0;
    *number = strtod(*text, &end);
    if (end == *text || errno != 0 || !isfinite(*number)) return false;
    if (memchr(*text, 'x', (size_t)(end - *text)) != NULL) return false;
    *text = end;
    return true;
}

static bool parse_number(const char *text, double low, double high, double *number) {
    return take_number(&text, number) && *text == '\0' && *number >= low && *number <= high;
}

bool parse_intensity(const char *text, double *intensity) {
    return parse_number(text, 0, 100, intensity);
}

static double number_of(const char *option, const char *text, double low, double high) {
    double number;
    if (!parse_number(text, low, high, &number))
        fail(STATUS_BAD_CALL, "--%s: '%s'; give a number from %.10g to %.10g", option, text, low,
             high);
    return number;
}

/* --- the ramp ------------------------------------------------------------------------------ */

static bool parse_ramp(const char *text, struct ramp *ramp) {
    double values[4];
    for (size_t i = 0; i < 4; i++) {
        if (i > 0 && *text++ != ':') return false;
        if (!take_number(&text, &values[i])) return false;
    }
    *ramp = (struct ramp){values[0], values[1], values[2], 0, false};
    if (values[3] < 0.001 || values[3] > MAX_SECONDS) return false;
    ramp->step_ns = (int64_t)(values[3] * (double)SECOND_NS);
    bool in_range = values[0] >= 0 && values[0] <= 100 && values[1] >= 0 && values[1] <= 100;
    return *text == '\0' && in_range && values[2] != 0 && (values[1] - values[0]) * values[2] >= 0;
}

static void read_ramp(const char *text, struct ramp *ramp) {
    if (!parse_ramp(text, ramp))
        fail(STATUS_BAD_CALL,
             "--ramp: '%s'; give FROM:TO:STEP:SECONDS, such as 0:100:10:2, with intensities from "
             "0 to 100 and a step that leads there", text);
}

/* 0 to 100 in one go, as finely as the pacer can tell apart. */
static struct ramp sweep_of(int64_t duration_ns) {
    int64_t levels = duration_ns / PERIOD_NS;
    if (levels > 101) levels = 101;
    return (struct ramp){0, 100, 100 / (double)(levels - 1), duration_ns / levels, true};
}

/* --- addresses ----------------------------------------------------------------------------- */

static void read_address(const char *option, const char *text, struct address *address) {
    bool needs_host = strcmp(option, "peer") == 0;
    if (!parse_address(text, needs_host, address))
        fail(STATUS_BAD_CALL, "--%s: '%s'; give %s, such as %s", option, text,
             needs_host ? "HOST:PORT" : "[HOST]:PORT",
             needs_host ? "server2:7000 or [::1]:7000" : ":7000");
}

/* --- CPUs ---------------------------------------------------------------------------------- */

static void add_cpus(struct options *options, const char *text, const cpu_set_t *allowed,
                     long first, long last) {
    for (long cpu = first; cpu <= last; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, MAX_CPUS / 8, allowed))
            fail(STATUS_BAD_CALL, "--cpus: '%s': CPU %ld may not be used; name others", text, cpu);
        options->cpus[options->cpu_count++] = (int)cpu;
    }
}

static bool take_cpu(const char **text, long *cpu) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    *cpu = strtol(*text, &end, 10);
    *text = end;
    return *cpu < MAX_CPUS;
}

/* "0,2-3", ascending, so that no CPU comes twice. */
static bool take_range(const char **text, long after, long *first, long *last) {
    if (!take_cpu(text, first) || *first <= after) return false;
    *last = *first;
    if (**text != '-') return true;
    ++*text;
    return take_cpu(text, last) && *last >= *first;
}

static void read_cpus(struct options *options, const char *text) {
    cpu_set_t allowed[MAX_CPUS / CPU_SETSIZE];
    long first, last = -1;
    if (sched_getaffinity(0, sizeof allowed, allowed) < 0)
        fail(STATUS_FAULT, "affinity: %s", strerror(errno));
    if (text == NULL) { /* all that may be used */
        for (int cpu = 0; cpu < MAX_CPUS; cpu++)
            if (CPU_ISSET_S((size_t)cpu, sizeof allowed, allowed))
                options->cpus[options->cpu_count++] = cpu;
        return;
    }
    for (const char *at = text;;) {
        if (!take_range(&at, last, &first, &last)) break;
        add_cpus(options, text, allowed, first, last);
        if (*at == '\0') return;
        if (*at++ != ',') break;
    }
    fail(STATUS_BAD_CALL, "--cpus: '%s'; give ascending numbers and ranges, such as 0,2-3", text);
}

/* --- the source ---------------------------------------------------------------------------- */

static const struct source *source_named(const char *name) {
    char names[4 * REASON_BYTES] = "";
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        if (strcmp(SOURCES[i]->name, name) == 0) return SOURCES[i];
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "",
                 SOURCES[i]->name);
    }
    fail(STATUS_BAD_CALL, "SOURCE: '%s'; name one of: %s", name, names);
}

/* --- all of them --------------------------------------------------------------------------- */

enum name {
    INTENSITY, RAMP, SWEEP, FOOTPRINT, STRIDE, QUOTA, PEER, LISTEN, CPUS, DIRECTORY, FILE_BYTES, MAXIMUM, SECONDS, REPORT_SECONDS,
    CONTROL, REPORT, PROBE, MEASURE_MAXIMUM, LIST, HELP, NAMES,
};

static const struct option LONG_OPTIONS[NAMES + 1] = {
    [INTENSITY] = {"intensity", required_argument, NULL, INTENSITY},
    [RAMP] = {"ramp", required_argument, NULL, RAMP},
    [SWEEP] = {"sweep", required_argument, NULL, SWEEP},
    [FOOTPRINT] = {"footprint", required_argument, NULL, FOOTPRINT},
    [STRIDE] = {"stride", required_argument, NULL, STRIDE},
    [QUOTA] = {"quota", required_argument, NULL, QUOTA},
    [PEER] = {"peer", required_argument, NULL, PEER},
    [LISTEN] = {"listen", required_argument, NULL, LISTEN},
    [CPUS] = {"cpus", required_argument, NULL, CPUS},
    [DIRECTORY] = {"directory", required_argument, NULL, DIRECTORY},
    [FILE_BYTES] = {"file-bytes", required_argument, NULL, FILE_BYTES},
    [MAXIMUM] = {"maximum", required_argument, NULL, MAXIMUM},
    [SECONDS] = {"seconds", required_argument, NULL, SECONDS},
    [REPORT_SECONDS] = {"report-seconds", required_argument, NULL, REPORT_SECONDS},
    [CONTROL] = {"control", required_argument, NULL, CONTROL},
    [REPORT] = {"report", required_argument, NULL, REPORT},
    [PROBE] = {"probe", no_argument, NULL, PROBE},
    [MEASURE_MAXIMUM] = {"measure-maximum", no_argument, NULL, MEASURE_MAXIMUM},
    [LIST] = {"list", no_argument, NULL, LIST},
    [HELP] = {"help", no_argument, NULL, HELP},
};

static int64_t duration_of(const char *option, const char *text, double least) {
    return (int64_t)(number_of(option, text, least, MAX_SECONDS) * (double)SECOND_NS);
}

static void read_option(struct options *options, int name, const char **cpus) {
    const char *given = LONG_OPTIONS[name].name;
    switch ((enum name)name) {
        case INTENSITY: options->intensity = number_of(given, optarg, 0, 100); break;
        case RAMP: read_ramp(optarg, &options->ramp); break;
        case SWEEP: options->ramp = sweep_of(duration_of(given, optarg, 0.004)); break;
        case FOOTPRINT:
            options->footprint_bytes = (uint64_t)number_of(given, optarg, MIN_FOOTPRINT_BYTES, 1e15);
            break;
        case STRIDE: options->stride_bytes = (uint64_t)number_of(given, optarg, 1, 1e15); break;
        case QUOTA:
            options->quota_bytes = (uint64_t)number_of(given, optarg, MIN_QUOTA_BYTES, 1e15);
            break;
        case PEER: read_address(given, optarg, &options->peer); break;
        case LISTEN: read_address(given, optarg, &options->listen); break;
        case CPUS: *cpus = optarg; break;
        case DIRECTORY: options->directory = optarg; break;
        case FILE_BYTES:
            options->file_bytes = (uint64_t)number_of(given, optarg, MIN_FILE_BYTES, 1e15);
            break;
        case MAXIMUM: options->maximum_per_second = number_of(given, optarg, 1, 1e18); break;
        case SECONDS: options->run_ns = duration_of(given, optarg, 0.001); break;
        case REPORT_SECONDS: options->report_ns = duration_of(given, optarg, 0.05); break;
        case CONTROL: options->control_path = optarg; break;
        case REPORT: options->report_path = optarg; break;
        case PROBE: options->probe = true; break;
        case MEASURE_MAXIMUM: options->measure_maximum = true; break;
        case LIST: options->list = true; break;
        case HELP:
            fputs(USAGE, stdout);
            exit(STATUS_DONE);
        case NAMES: break;
    }
}

void options_read(int argc, char **argv, struct options *options) {
    const char *cpus = NULL;
    int name;
    *options = (struct options){.directory = ".", .file_bytes = DEFAULT_FILE_BYTES,
                                .listen = {.port = "0"}, .report_ns = SECOND_NS};
    opterr = 0;
    while ((name = getopt_long(argc, argv, ":", LONG_OPTIONS, NULL)) != -1) {
        if (name == ':')
            fail(STATUS_BAD_CALL, "%s: no value; give one", argv[optind - 1]);
        if (name == '?')
            fail(STATUS_BAD_CALL, "%s: no such option; see --help", argv[optind - 1]);
        read_option(options, name, &cpus);
    }
    if (options->list) return;
    if (argc - optind != 1)
        fail(STATUS_BAD_CALL, "%d sources are named; name one, see --help", argc - optind);
    if (strcmp(argv[optind], "peer") == 0) {
        options->serve = true;
        return;
    }
    options->source = source_named(argv[optind]);
    read_cpus(options, cpus);
}
