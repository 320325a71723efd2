/* When to work, for an intensity between 0 and 100.
 *
 * In every period a worker is given its share of what it could do at most. It works while it
 * has credit, then rests until the next period. What it could not use in time, because others had
 * the resource, stays due up to a bound: a source wants x percent, as a program would, it does
 * not only ask for them. Pure: the time is an argument.
 */
#include "ibench.h"

static double grant_of(struct pace pace, double intensity) {
    return pace.full_per_second * intensity / 100 * (double)PERIOD_NS / (double)SECOND_NS;
}

/* All that there is, which may be more than was measured. */
static bool takes_all(struct pace pace, double intensity) {
    return intensity >= 100 && !pace.capped;
}

static void restart(struct pacer *pacer, double intensity, int64_t now) {
    /* The first period's share is due at once. */
    *pacer = (struct pacer){.intensity = intensity, .granted_ns = now - PERIOD_NS};
}

static void give_what_is_due(struct pacer *pacer, struct pace pace, double grant, int64_t now) {
    int64_t periods = (now - pacer->granted_ns) / PERIOD_NS;
    double burst = pace.burst_seconds * (double)SECOND_NS / (double)PERIOD_NS * grant;
    pacer->granted_ns += periods * PERIOD_NS;
    pacer->credit += (double)periods * grant;
    if (pacer->credit > burst) pacer->credit = burst;
}

int64_t pacer_wait_ns(struct pacer *pacer, struct pace pace, double intensity, int64_t now) {
    if (pacer->granted_ns == 0 || intensity != pacer->intensity) restart(pacer, intensity, now);
    if (intensity <= 0) return FOREVER_NS;
    if (takes_all(pace, intensity)) return 0;
    double grant = grant_of(pace, intensity);
    give_what_is_due(pacer, pace, grant, now);
    if (pacer->credit > 0) return 0;
    double periods = -pacer->credit / grant + 1;
    double longest = (double)(SECOND_NS / PERIOD_NS);
    return pacer->granted_ns + (int64_t)(periods < longest ? periods : longest) * PERIOD_NS - now;
}

double pacer_budget(const struct pacer *pacer, struct pace pace) {
    if (takes_all(pace, pacer->intensity)) return grant_of(pace, 100);
    return pacer->credit;
}
