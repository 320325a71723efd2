/* The tree held to a share of CPU time, where no cgroup can: by stopping and continuing it.
 *
 * In every period the tree is granted its share. When that is used up, every process of the tree
 * gets SIGSTOP, and SIGCONT at the beginning of the first period in which there is enough again.
 * What was used beyond the grant is a debt, so the share holds in the long run although nobody
 * can look at the right moment each time.
 *
 * CPU time is that of the living, read from their CPU clocks, and that of the dead, which whoever
 * reaped them has on its account; ours is exact, the others' is told in whole ticks. Processes
 * that their parent lets the kernel reap are on nobody's account: of them only what was seen
 * while they lived is charged.
 *
 * A process that was stopped when we came is not ours to continue.
 */
#include "supervisor.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STOP_PASSES = 16 };

#define MILLISECOND_NS INT64_C(1000000)
#define PERIOD_NS (100 * MILLISECOND_NS) /* as the kernel's own quota has it */
/* Clocks of processes that run are told as of their CPU's last tick, 1 to 10 ms ago: what is
 * left for less than this has mostly been used already. */
#define LEAST_SLICE_NS (2 * MILLISECOND_NS)
/* A tree can take up more CPUs at any moment: so long it may go unseen. */
#define LONGEST_SLICE_NS (20 * MILLISECOND_NS)
#define LONGEST_IDLE_NS (50 * MILLISECOND_NS)
/* One that gets little may get more at any moment. */
#define LEAST_PARALLEL 0.25
/* So long a stop waits for parents that other work keeps from stopping. */
#define LONGEST_AWAIT_NS (20 * MILLISECOND_NS)
/* In a period: what it costs a sleeper to be stopped and continued is no work. */
#define HARDLY_NS (MILLISECOND_NS / 5)
#define SECOND_NS INT64_C(1000000000)

int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* --- the budget -------------------------------------------------------------------------- */

static int64_t grant_ns(const struct pace *pace) {
    return pace->cpu_millicpus * (PERIOD_NS / 1000);
}

/* Half a grant more than one: so what a look that came too early left over is not lost, nor what
 * came while a debt was waited for. */
static int64_t most_credit_ns(const struct pace *pace) {
    return grant_ns(pace) + grant_ns(pace) / 2;
}

static int64_t least_slice_ns(const struct pace *pace) {
    return least(LEAST_SLICE_NS, grant_ns(pace) / 4);
}

static void give_what_is_due(struct pace *pace, int64_t now) {
    int64_t periods = (now - pace->granted_at_ns) / PERIOD_NS;
    pace->granted_at_ns += periods * PERIOD_NS;
    pace->credit_ns = least(pace->credit_ns + periods * grant_ns(pace), most_credit_ns(pace));
}

static bool is_used_up(const struct pace *pace) {
    return pace->credit_ns < least_slice_ns(pace);
}

/* The first beginning of a period at which at least half of a grant is there. */
static int64_t next_credit_at(const struct pace *pace) {
    int64_t grant = grant_ns(pace);
    int64_t wanted = grant / 2 - pace->credit_ns;
    return pace->granted_at_ns + most(1, (wanted + grant - 1) / grant) * PERIOD_NS;
}

/* For how long the credit lasts, as far as can be foreseen. */
static int64_t slice_ns(const struct pace *pace) {
    int64_t foreseen = (int64_t)((double)pace->credit_ns / pace->parallel);
    int64_t surely = pace->credit_ns / pace->cpus;
    return most(least(foreseen, most(surely, LONGEST_SLICE_NS)), least_slice_ns(pace));
}

/* --- looking ----------------------------------------------------------------------------- */

static int64_t reaped_here_ns(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

/* Whether no process has run since we last looked: then there is no new one either. */
static bool is_idle(const struct pace *pace) {
    const struct snapshot *tree = &pace->tree;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->items[i].state == 'R' || clock_ns(tree->items[i].clock) != tree->items[i].cpu_ns)
            return false;
    return tree->count > 0;
}

/* What the whole tree has used, as far as its clocks show. A parent's account is read before its
 * children's clocks, so one that dies meanwhile is missed once and never counted twice. */
static int64_t used_ns(const struct snapshot *tree, int64_t *coarse_ns) {
    const int64_t tick_ns = INT64_C(1000000000) / sysconf(_SC_CLK_TCK);
    int64_t total = reaped_here_ns();
    *coarse_ns = 2 * tick_ns;
    for (size_t i = 0; i < tree->count; i++) {
        total += most(tree->items[i].cpu_ns, 0) + tree->items[i].reaped_ticks * tick_ns;
        if (tree->items[i].reaped_ticks > 0) *coarse_ns += 2 * tick_ns;
    }
    return total;
}

static void refresh(struct pace *pace, enum look look, int64_t now) {
    if (now - pace->looked_well_at_ns >= SECOND_NS) look = LOOK_ALL;
    if (look == LOOK_ALL) pace->looked_well_at_ns = now;
    struct snapshot tree = tree_members(&pace->tree, look);
    free(pace->tree.items);
    pace->tree = tree;
    for (size_t i = 0; i < tree.count; i++) {
        struct process *process = &tree.items[i];
        if (process->ran_at_ns == 0 || process->cpu_ns - process->settled_ns > HARDLY_NS)
            process->ran_at_ns = now;
    }
}

/* Takes in what the clocks show, and returns how much that is. They may show less than before: for want of a whole tick, which
 * passes, or because somebody's time is on no account, which is then made up for. They can't
 * truly show more than all CPUs together can have done. */
static int64_t charge(struct pace *pace, int64_t now) {
    int64_t coarse;
    int64_t elapsed = now - pace->looked_at_ns;
    int64_t seen = used_ns(&pace->tree, &coarse) + pace->lost_ns;
    int64_t lowest = pace->counted_ns - coarse;
    int64_t highest = pace->counted_ns + elapsed * pace->cpus + coarse;
    if (seen < lowest) pace->lost_ns += lowest - seen;
    if (seen > highest) pace->lost_ns -= seen - highest;
    int64_t used = most(least(seen, highest) - pace->counted_ns, 0);
    pace->counted_ns += used;
    pace->credit_ns -= used;
    pace->looked_at_ns = now;
    return used;
}

/* On how many CPUs it ran since it was last looked at, or continued; a part of one where others
 * had the CPU. */
static void reckon_parallel(struct pace *pace, int64_t used, int64_t elapsed) {
    double cpus = (double)pace->cpus;
    double parallel = elapsed > 0 ? (double)used / (double)elapsed : 1;
    pace->parallel = parallel < LEAST_PARALLEL ? LEAST_PARALLEL : parallel > cpus ? cpus : parallel;
}

/* --- stopping and continuing ------------------------------------------------------------- */

static bool is_paused(const struct pace *pace, const struct process *process) {
    for (size_t i = pace->paused.count; i-- > 0;)
        if (pace->paused.items[i].pid == process->pid &&
            pace->paused.items[i].start_ticks == process->start_ticks)
            return true;
    return false;
}

static void remember_paused(struct pace *pace, const struct process *process) {
    struct snapshot *paused = &pace->paused;
    if (paused->count == paused->room) {
        size_t room = paused->room ? paused->room * 2 : 16;
        struct process *items = realloc(paused->items, room * sizeof *items);
        if (items == NULL) return;
        paused->items = items;
        paused->room = room;
    }
    paused->items[paused->count++] = *process;
}

/* Marks, as descendants, those that are to be stopped: all that have run lately, and whoever is
 * above them and could see them stopped. What has slept for long is left in peace. */
static void mark_moving(struct pace *pace, int64_t now) {
    for (size_t i = 0; i < pace->tree.count; i++) {
        struct process *process = &pace->tree.items[i];
        process->descendant = pace->suspended || process->state == 'R' ||
                              now - process->ran_at_ns < SECOND_NS;
    }
    for (size_t i = pace->tree.count; i-- > 0;) {
        const struct process *process = &pace->tree.items[i];
        if (process->descendant && process->above != NOBODY)
            pace->tree.items[process->above].descendant = true;
    }
}

/* A parent that waits for its children must stop before it can see one of them stopped: a shell
 * with job control would go on without it. */
static void await_parent(const struct pace *pace, const struct process *process, int64_t until) {
    struct timespec pause = {.tv_nsec = MILLISECOND_NS / 10};
    if (process->above == NOBODY) return;
    const struct process *parent = &pace->tree.items[process->above];
    char state;
    while ((state = process_state(parent)) != 0 && !process_is_still(state) && now_ns() < until) {
        nanosleep(&pause, NULL);
        pause.tv_nsec = least(2 * pause.tv_nsec, 2 * MILLISECOND_NS);
    }
}

/* Returns how many were new. One is remembered before it is stopped, so that none is forgotten. */
static size_t stop_moving(struct pace *pace, int64_t now) {
    size_t before = pace->paused.count;
    size_t awaited = NOBODY;
    mark_moving(pace, now);
    for (size_t i = 0; i < pace->tree.count; i++) {
        const struct process *process = &pace->tree.items[i];
        if (!process->descendant || process_is_still(process->state) || is_paused(pace, process))
            continue;
        if (process->above != awaited) await_parent(pace, process, now + LONGEST_AWAIT_NS);
        awaited = process->above;
        size_t count = pace->paused.count;
        remember_paused(pace, process);
        if (pace->paused.count > count) process_signal(process, SIGSTOP);
    }
    return pace->paused.count - before;
}

/* Parents first, so that they neither fork nor see their children stopped; again until nobody new
 * shows up. What is used until then is charged, too. */
static void stop_tree(struct pace *pace) {
    pace->stopped = true;
    refresh(pace, LOOK_STATES, now_ns());
    for (int pass = 0; pass < MAX_STOP_PASSES && stop_moving(pace, now_ns()) > 0; pass++)
        refresh(pace, LOOK_CHANGED, now_ns());
    charge(pace, now_ns());
    for (size_t i = 0; i < pace->tree.count; i++)
        pace->tree.items[i].settled_ns = pace->tree.items[i].cpu_ns;
}

/* Children first: before their parents can look they are no longer stopped. */
static void continue_tree(struct pace *pace) {
    while (pace->paused.count > 0)
        process_signal(&pace->paused.items[--pace->paused.count], SIGCONT);
    pace->stopped = false;
    pace->continued_at_ns = now_ns();
    pace->idle_wait_ns = 0;
}

/* --- what main.c calls ------------------------------------------------------------------- */

static bool is_off(const struct pace *pace) {
    return !pace->begun || (pace->cpu_millicpus == UNPACED && !pace->suspended);
}

static void start_afresh(struct pace *pace, int64_t now) {
    int64_t coarse;
    refresh(pace, LOOK_ALL, now);
    pace->granted_at_ns = pace->looked_at_ns = now;
    pace->credit_ns = grant_ns(pace);
    pace->counted_ns = used_ns(&pace->tree, &coarse);
    pace->lost_ns = 0;
    pace->idle_wait_ns = 0;
    pace->parallel = 1;
}

void pace_begin(struct pace *pace, int64_t cpus) {
    pace->begun = true;
    pace->cpus = most(cpus, 1);
    if (pace->cpu_millicpus != UNPACED) start_afresh(pace, now_ns());
}

void pace_set(struct pace *pace, int64_t cpu_millicpus, bool suspended) {
    bool is_new = cpu_millicpus != pace->cpu_millicpus;
    bool was_unpaced = pace->cpu_millicpus == UNPACED;
    int64_t now = now_ns();
    if (is_new && pace->begun && !was_unpaced) give_what_is_due(pace, now);
    pace->cpu_millicpus = cpu_millicpus;
    pace->suspended = suspended;
    if (!is_new || !pace->begun || cpu_millicpus == UNPACED) return;
    if (was_unpaced) start_afresh(pace, now);
    /* A debt or a credit of the former share would weigh too much or too little in the new one. */
    pace->credit_ns = most(least(pace->credit_ns, grant_ns(pace)), -grant_ns(pace));
    pace->resume_at_ns = next_credit_at(pace);
}

static int64_t wait_stopped(struct pace *pace) {
    if (pace->suspended) return PACE_NEVER;
    pace->resume_at_ns = next_credit_at(pace);
    return pace->resume_at_ns;
}

/* While nobody runs the credit can only grow; whoever wakes up is seen a little later. */
static int64_t wait_idle(struct pace *pace, int64_t now) {
    pace->looked_at_ns = now;
    pace->parallel = 1;
    pace->idle_wait_ns = least(most(2 * pace->idle_wait_ns, slice_ns(pace)), LONGEST_IDLE_NS);
    return now + pace->idle_wait_ns;
}

static int64_t look(struct pace *pace, int64_t now) {
    int64_t since = most(pace->looked_at_ns, pace->continued_at_ns);
    refresh(pace, LOOK_CHANGED, now);
    reckon_parallel(pace, charge(pace, now), now - since);
    pace->idle_wait_ns = 0;
    if (!pace->suspended && !is_used_up(pace)) return now + slice_ns(pace);
    stop_tree(pace);
    return wait_stopped(pace);
}

int64_t pace_step(struct pace *pace) {
    int64_t now = now_ns();
    if (is_off(pace)) {
        if (pace->stopped) continue_tree(pace);
        return PACE_NEVER;
    }
    bool is_paced = pace->cpu_millicpus != UNPACED;
    if (pace->stopped && !pace->suspended && now < pace->resume_at_ns) return pace->resume_at_ns;
    if (is_paced) give_what_is_due(pace, now);
    if (pace->stopped && !pace->suspended) {
        continue_tree(pace);
        return now + slice_ns(pace);
    }
    if (!pace->suspended && is_idle(pace)) return wait_idle(pace, now);
    return look(pace, now);
}

void pace_restart(struct pace *pace) {
    if (!pace->begun) return;
    pace->paused.count = 0;
    pace->stopped = false;
    pace->suspended = false;
    if (pace->cpu_millicpus != UNPACED) start_afresh(pace, now_ns());
}

void pace_end(struct pace *pace) {
    free(pace->tree.items);
    free(pace->paused.items);
    *pace = (struct pace){.cpu_millicpus = UNPACED};
}
