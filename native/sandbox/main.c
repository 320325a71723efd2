/* The command line. It is made by src/wharfinger/host/sandbox.py; docs/sandbox.md explains it.
 */
#include "sandbox.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "wharfinger-sandbox: usage:\n"
    "  wharfinger-sandbox --upper-base=DIR --cap-bytes=N [--working-directory=DIR]\n"
    "      [--report=FILE] [--beside=WORD]... [--beside-output=FILE]\n"
    "      [--beside-cgroup=FILE]... [--user=UID:GID[:GID]...] -- COMMAND [ARGUMENT]...\n"
    "  wharfinger-sandbox --upper-base=DIR --probe\n"
    "  wharfinger-sandbox --clean-up=DIR\n";

_Noreturn static void bad_call(const char *what, const char *value) {
    fprintf(stderr, "wharfinger-sandbox: %s%s%s\n", what, value ? ": " : "", value ? value : "");
    exit(EXIT_BAD_CALL);
}

static uint64_t read_bytes(const char *text) {
    char *end;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || *text == '-' || bytes == 0)
        bad_call("--cap-bytes: not a positive number of bytes", text);
    return bytes;
}

static void add_beside(struct options *options, size_t *count, char *word) {
    char **words = realloc(options->beside, (*count + 2) * sizeof *words);
    if (words == NULL) bad_call("--beside: out of memory", NULL);
    words[(*count)++] = word;
    words[*count] = NULL;
    options->beside = words;
}

static void add_cgroup(struct options *options, const char *path) {
    if (options->beside_cgroup_count == MAX_CGROUPS) bad_call("--beside-cgroup: too many", path);
    options->beside_cgroups[options->beside_cgroup_count++] = path;
}

static void read_user(struct options *options, const char *text) {
    unsigned long ids[MAX_GROUPS + 2];
    size_t count = 0;
    const char *next = text;
    do {
        char *end;
        errno = 0;
        if (count == MAX_GROUPS + 2 || *next < '0' || *next > '9')
            bad_call("--user: not UID:GID[:GID]...", text);
        ids[count++] = strtoul(next, &end, 10);
        if (errno != 0 || ids[count - 1] >= UINT32_MAX || (*end != ':' && *end != '\0'))
            bad_call("--user: not UID:GID[:GID]...", text);
        next = *end == ':' ? end + 1 : NULL;
    } while (next != NULL);
    if (count < 2) bad_call("--user: no group; give UID:GID", text);
    options->has_user = true;
    options->uid = (uid_t)ids[0];
    options->gid = (gid_t)ids[1];
    options->group_count = count - 2;
    for (size_t i = 2; i < count; i++) options->groups[i - 2] = (gid_t)ids[i];
}

static void check(const struct options *options) {
    if (options->upper_base == NULL) bad_call("--upper-base: missing; name a directory", NULL);
    if (options->upper_base[0] != '/')
        bad_call("--upper-base: not an absolute path", options->upper_base);
    if (options->working_directory != NULL && options->working_directory[0] != '/')
        bad_call("--working-directory: not an absolute path", options->working_directory);
    if (options->probe) return;
    if (options->cap_bytes == 0) bad_call("--cap-bytes: missing; say how much may be written", NULL);
    if (options->command[0] == NULL) bad_call("no command; put one after --", NULL);
}

static int clean_up(const char *base) {
    int failed = 0;
    int removed = storage_clean_up(base, &failed);
    if (removed < 0) {
        fprintf(stderr, "wharfinger-sandbox: --clean-up: %s: %s\n", base, strerror(errno));
        return EXIT_FAULT;
    }
    printf("removed %d\n", removed);
    if (failed != 0) fprintf(stderr, "wharfinger-sandbox: %s: %d not removed\n", base, failed);
    return failed != 0 ? EXIT_FAULT : 0;
}

int main(int argc, char **argv) {
    static const struct option LONG[] = {
        {"upper-base", required_argument, NULL, 'u'},
        {"working-directory", required_argument, NULL, 'w'},
        {"cap-bytes", required_argument, NULL, 'c'},
        {"report", required_argument, NULL, 'r'},
        {"beside", required_argument, NULL, 'b'},
        {"beside-output", required_argument, NULL, 'o'},
        {"beside-cgroup", required_argument, NULL, 'g'},
        {"user", required_argument, NULL, 'U'},
        {"probe", no_argument, NULL, 'p'},
        {"clean-up", required_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.upper_base = NULL};
    size_t words = 0;
    int found;
    while ((found = getopt_long(argc, argv, "+", LONG, NULL)) != -1) {
        switch (found) {
        case 'u': options.upper_base = optarg; break;
        case 'w': options.working_directory = optarg; break;
        case 'c': options.cap_bytes = read_bytes(optarg); break;
        case 'r': options.report = optarg; break;
        case 'b': add_beside(&options, &words, optarg); break;
        case 'o': options.beside_output = optarg; break;
        case 'g': add_cgroup(&options, optarg); break;
        case 'U': read_user(&options, optarg); break;
        case 'p': options.probe = true; break;
        case 'x': return clean_up(optarg);
        case 'h': fputs(USAGE, stdout); return 0;
        default: fputs(USAGE, stderr); return EXIT_BAD_CALL;
        }
    }
    options.command = argv + optind;
    check(&options);
    return keeper_run(&options);
}
