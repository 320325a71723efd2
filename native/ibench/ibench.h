/* wharfinger-ibench: a source of interference, one per shared resource, with tunable intensity.
 *
 * Source of the method: iBench (Delimitrou and Kozyrakis; dissertation, chapter 5). The driver
 * (src/wharfinger/ibench/driver.py) starts it, sets the intensity by lines on its input and
 * reads what it achieves from lines of JSON. It ends with its input, so it never outlives whoever
 * asked for it, and it leaves nothing behind.
 *
 *   main.c      the order of things, and the event loop
 *   fail.c      how the program ends when something is wrong
 *   options.c   the command line: text to values
 *   control.c   lines on the input, signals
 *   pacer.c     when to work, for an intensity: pure
 *   worker.c    the threads that work, and how they rest
 *   report.c    lines of JSON
 *   file.c      nameless files on a device
 *   memory.c    how much memory could be had
 *   socket.c    addresses, connections; peer.c answers at the other end of them
 *   busy.c      work for a share of each CPU's time
 *   caches.c    how large the caches are, and memory that fills them
 *   sources.c   the table of sources; each of them is one file more and one line there
 */
#ifndef WHARFINGER_IBENCH_H
#define WHARFINGER_IBENCH_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum status {
    STATUS_DONE = 0,
    STATUS_FAULT = 1,     /* the work could not be done */
    STATUS_BAD_CALL = 2,  /* an option is wrong; nothing was done */
    STATUS_NO_SIGNAL = 3, /* this source can exert no pressure here; the line says why */
};

enum { MAX_CPUS = 8192, CACHE_LINE_BYTES = 64, REASON_BYTES = 256 };

#define SECOND_NS INT64_C(1000000000)
#define FOREVER_NS INT64_MAX

/* --- fail.c ------------------------------------------------------------------------------ */

_Noreturn void fail(enum status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- options.c --------------------------------------------------------------------------- */

struct ramp {
    double from, to, step;
    int64_t step_ns; /* 0: no ramp */
    bool sweep;      /* all in one go: nothing is told of the steps */
};

struct address {
    char host[256]; /* empty: any of this machine's */
    char port[8];
};

struct source;

struct options {
    const struct source *source;
    double intensity;
    struct ramp ramp;
    int cpus[MAX_CPUS]; /* those it may run on, whether given or not */
    size_t cpu_count;
    const char *directory;
    uint64_t file_bytes;
    uint64_t footprint_bytes; /* at most; 0: as much as the source would take */
    uint64_t stride_bytes;    /* 0: random */
    uint64_t quota_bytes;     /* of storage; 0: a tenth of what is free */
    struct address peer;      /* port empty: one that the source starts itself */
    struct address listen;
    bool serve;               /* be the peer of a source */
    double maximum_per_second; /* of the resource; 0: to be measured first */
    int64_t run_ns;            /* 0: until the input ends */
    int64_t report_ns;         /* from one report to the next */
    const char *control_path;  /* NULL: standard input */
    const char *report_path;   /* NULL: standard output */
    bool probe;                /* only say whether there would be a signal */
    bool measure_maximum;      /* only measure it */
    bool list;                 /* only name the sources */
};

/* Ends the program with one line when the command line is wrong. */
void options_read(int argc, char **argv, struct options *options);
/* "40" to 40; false when it is no number from 0 to 100. */
bool parse_intensity(const char *text, double *intensity);

/* --- sources.c --------------------------------------------------------------------------- */

struct worker;

/* What a source holds of its resource. */
struct footprint {
    uint64_t held_bytes;
    uint64_t full_bytes; /* at intensity 100; 0: intensity is a rate */
    bool limited;        /* it can't get more now, or gave up some, because others need it */
};

struct source {
    /* As in SharedResource, src/wharfinger/model/interference.py; the bubble presses on several. */
    const char *name;
    const char *unit; /* of what is counted */
    /* One worker on each CPU, the first of them the main thread; otherwise `workers` threads
     * that may run on any of the CPUs. */
    bool per_cpu;
    size_t workers;
    /* What of its due a worker makes up for when it could not work in time, at most. */
    double burst_seconds;
    /* Of a worker at intensity 100, in what `work` returns; 0: the maximum must be measured. */
    double full_per_second;
    /* At 100 it takes its full rate and no more; else all that it can get. */
    bool capped;
    unsigned bytes_per_count; /* that are moved for each of what is counted */
    /* Whether there is a signal here; else the reason. */
    bool (*probe)(const struct options *options, char reason[REASON_BYTES]);
    /* Takes what the work needs; ends the program where that can't be had. */
    void (*prepare)(const struct options *options, struct worker *workers, size_t count);
    /* Works until `budget` is used up or about a millisecond is over; what it has used.
     * Adds what it did to `worker->count`. */
    double (*work)(struct worker *worker, double budget);
    /* Whether the work is at the stage that a maximum may be measured at; NULL: always. */
    bool (*settled)(const struct worker *workers, size_t count);
    double settle_seconds; /* at most, then it is measured all the same */
    /* Whether CPU time alone bounds its rate; NULL: it does where workers are bound to CPUs. */
    bool (*cpu_bound)(const struct options *options);
    /* The intensity has changed: gives back at once what is held beyond it; NULL: nothing is. */
    void (*change)(double intensity);
    /* NULL: it holds nothing worth telling. */
    struct footprint (*footprint)(const struct worker *workers, size_t count);
};

extern const struct source bubble_source;
extern const struct source floating_point_source;
extern const struct source integer_source;
extern const struct source interconnect_source;
extern const struct source l1_data_cache_source;
extern const struct source l1_instruction_cache_source;
extern const struct source l2_bandwidth_source;
extern const struct source l2_cache_source;
extern const struct source last_level_cache_bandwidth_source;
extern const struct source last_level_cache_source;
extern const struct source memory_bandwidth_source;
extern const struct source memory_capacity_source;
extern const struct source network_bandwidth_source;
extern const struct source prefetcher_source;
extern const struct source storage_bandwidth_source;
extern const struct source storage_capacity_source;
extern const struct source tlb_source;
extern const struct source vector_source;
extern const struct source *const SOURCES[];
extern const size_t SOURCE_COUNT;

/* --- pacer.c ----------------------------------------------------------------------------- */

/* Work comes due in short periods, so that the pressure is even. */
#define PERIOD_NS (2 * SECOND_NS / 1000)

struct pace {
    double full_per_second; /* at intensity 100 */
    double burst_seconds;
    bool capped;
};

struct pacer {
    double intensity;
    double credit;      /* may be used now; negative: used before it was due */
    int64_t granted_ns; /* up to when credit was given */
};

/* Gives what has come due. Returns the time until there is work to do; 0: there is now. */
int64_t pacer_wait_ns(struct pacer *pacer, struct pace pace, double intensity, int64_t now_ns);
/* The most that may be used in one go. */
double pacer_budget(const struct pacer *pacer, struct pace pace);

/* --- worker.c ---------------------------------------------------------------------------- */

struct worker {
    /* Each on cache lines of its own: counting must not be an interference of another kind. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t count; /* of operations or bytes */
    _Atomic uint64_t used;                             /* of budget */
    struct pacer pacer;
    struct crew *crew;
    pthread_t thread;
    size_t index;
    double changed_to; /* what `change` was told last */
    int64_t mark; /* the source's own */
    void *memory; /* the source's own */
};

struct crew {
    const struct source *source;
    struct worker *workers;
    size_t count;
    _Atomic double intensity;
    _Atomic double full_per_second; /* of one worker */
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

void crew_start(struct crew *crew, const struct options *options);
/* Workers take it up within their turn, or at once where they rest. */
void crew_set_intensity(struct crew *crew, double intensity);
void crew_stop(struct crew *crew);
/* The main thread's worker, where it is one: time until its next turn, and the turn. */
int64_t crew_main_wait_ns(struct crew *crew);
void crew_main_turn(struct crew *crew);

/* What the source holds; of `full_bytes`, `intensity` percent are wanted. */
struct footprint crew_footprint(const struct crew *crew);
uint64_t footprint_wanted(uint64_t full_bytes, double intensity);

int64_t now_ns(void);

/* --- file.c ------------------------------------------------------------------------------ */

struct file {
    int fd;
    bool direct; /* past the page cache; otherwise each write is synced */
};

/* Whether there is a device that `directory` can be written on; else the reason. */
bool file_has_device(const char *directory, char reason[REASON_BYTES]);
/* Free for all users, in bytes; false when it can't be told. */
bool file_free_bytes(const char *directory, uint64_t *bytes);
struct file file_open(const char *directory);
/* Aligned, of `bytes`, nothing that a device could compress or find to be there already. */
void *file_block(size_t bytes, size_t index);
void file_write(struct file file, const void *block, size_t bytes, off_t at);
void file_read(struct file file, void *block, size_t bytes, off_t at);

/* --- memory.c ---------------------------------------------------------------------------- */

struct room {
    int64_t bytes; /* that could be had, beyond the reserve; negative: the reserve is in use */
    uint64_t available_bytes, reserve_bytes, total_bytes;
    bool of_group; /* the bounds are the control group's, not the machine's */
};

struct room memory_room(void);
/* How long anyone has waited for memory, since boot; 0 where the kernel does not tell. */
uint64_t memory_stalled_us(void);
/* Anonymous memory, in huge pages where they can be had; `option` is what to make smaller. */
void *memory_map(uint64_t bytes, const char *option);

/* --- socket.c, peer.c -------------------------------------------------------------------- */

/* "HOST:PORT", "[IPv6]:PORT"; ":PORT" where no host is needed. */
bool parse_address(const char *text, bool needs_host, struct address *address);
/* A connection that never blocks, or -1 and the reason. */
int socket_connect(const struct address *address, char reason[REASON_BYTES]);
/* A listening socket, and the port it got; or -1 and the reason. */
int socket_listen(const struct address *address, char port[8], char reason[REASON_BYTES]);
/* Sends back what comes, in threads of its own. */
void peer_start(int listening_fd);
/* `wharfinger-ibench peer` */
int peer_run(const struct options *options);

/* --- busy.c ------------------------------------------------------------------------------ */

/* `batch` after `batch`, each of some microseconds, until the budget of CPU time is used up; they
 * return how much they did. The nanoseconds that it took. */
double busy_work(struct worker *worker, double budget, uint64_t (*batch)(struct worker *worker));
bool busy_probe(const struct options *options, char reason[REASON_BYTES]);
void busy_prepare(const struct options *options, struct worker *workers, size_t count);

/* --- caches.c ---------------------------------------------------------------------------- */

enum cache_kind { L1_INSTRUCTION, L1_DATA, L2, LAST_LEVEL };

/* Of a cache no more than this is taken unasked: a virtual machine may be told of hundreds of
 * MiB, most of which are others'. */
enum { MOST_CACHE_BYTES = 64 << 20 };

struct cache {
    uint64_t bytes; /* 0: not known */
    long level, levels; /* 0: not known */
    size_t sharers; /* CPUs that the source works on */
};

struct cache cache_of(const struct options *options, int cpu, enum cache_kind kind);
bool cache_probe(const struct options *options, enum cache_kind kind, char reason[REASON_BYTES]);
/* What one worker takes at intensity 100. */
uint64_t cache_share(const struct options *options, int cpu, enum cache_kind kind);
/* The size of the level that a read passes before it reaches this one. */
uint64_t level_above(const struct options *options, int cpu, enum cache_kind kind);
char *cache_memory(uint64_t bytes, bool huge);
uint64_t lines_wanted(uint64_t full_bytes, double intensity);
void read_at_random(const char *memory, uint64_t lines, uint64_t count, uint64_t *random);
void read_in_turn(const char *memory, uint64_t bytes);

/* One of `count`, which is below 2^32, by a linear congruential generator's upper bits. */
static inline uint64_t drawn(uint64_t *random, uint64_t count) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*random >> 32) * count >> 32;
}

/* --- control.c --------------------------------------------------------------------------- */

struct control {
    int fd;
    char line[128];
    size_t length;
    bool ended;       /* the input has, or a signal came */
    bool asked;       /* for another intensity, below */
    double intensity;
};

void control_open(struct control *control, const struct options *options);
/* Waits for a line, for the end or for the time; lines that are wrong are complained of. */
void control_wait(struct control *control, int64_t wait_ns);

/* --- report.c ---------------------------------------------------------------------------- */

struct report {
    int fd;
    int64_t since_ns;
    uint64_t count, used;
};

void report_open(struct report *report, const struct options *options);
/* Begins a period: what the crew has done until now is not counted. */
void report_begin(struct report *report, const struct crew *crew);
/* What was done since the period began; begins the next. */
void report_period(struct report *report, const struct crew *crew, double intensity);
/* An intensity is in force. */
void report_intensity(const struct report *report, double intensity);
/* All is prepared; with the rate that intensity 100 stands for, 0 where nothing is measured. */
void report_ready(const struct report *report, const struct options *options, size_t workers);
double crew_rate_per_second(const struct report *report, const struct crew *crew);
/* Of work, since the start. */
uint64_t crew_count(const struct crew *crew);
double process_cpu_seconds(void);
/* Of the CPUs, by anyone, since boot; 0 where the kernel does not tell. */
double busy_seconds(const struct options *options);

#endif
