/* Collaborative filtering of drawn ratings, in four versions of the same computation.
 *
 * PQ-reconstruction (dissertation 5.5.3): each user u and item i has a vector of RANK factors, so
 * that mean + bias(u) + bias(i) + p(u).q(i) is about what u gave i. A step is one of gradient
 * descent over all ratings at once, so that their order changes nothing but rounding:
 *
 *     e    = rating - mean - bias(u) - bias(i) - p(u).q(i)
 *     p(u) += RATE (sum of e q(i) / ratings of u - DECAY p(u))        q(i) likewise
 *
 * What the versions differ by, each with what the one before has:
 *
 *     plain      a matrix is stored factor by factor, in doubles; ratings in the order in which
 *                they came; three passes over them: the error's square, P, Q
 *     simd       a user's or item's factors lie side by side, in vectors of four floats
 *     reordered  ratings by user: its factors stay in registers, and it is stored once
 *     memoised   what is left of a rating without mean and biases is kept in its place, and an
 *                error is worked out once for all three passes
 *
 * The factors start from seeded draws: the SVD from which the dissertation's program starts is a
 * small part of its time. It tells `done=STEPS rmse=ERROR` as it goes, and `footprint_kib=` in the
 * end.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANK = 16, LANES = 4, VECTORS = RANK / LANES, ALIGNMENT = 64, TELL_AFTER_RATINGS = 1 << 14 };

#define RATE 0.5
#define DECAY 0.02
#define SHRINK 10.0     /* ratings at which a bias counts by half */
#define TELL_AFTER 0.02 /* seconds between lines */
#define SPREAD 0.3     /* of the factors at the start */

static const char *const VERSIONS[] = {"plain", "simd", "reordered", "memoised"};
enum version { PLAIN, SIMD, REORDERED, MEMOISED, VERSION_COUNT };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
struct factors {
    lanes part[VECTORS];
};

struct task {
    enum version version;
    uint64_t seed;
    int64_t users, items, ratings, steps;
    const char *out;
};

struct rating {
    int32_t user, item;
};

/* What all versions know of the ratings beforehand. */
struct biases {
    double mean;
    double *user, *item;
    int32_t *user_count, *item_count;
};

_Noreturn static void fail(int status, const char *place, const char *why) {
    fprintf(stderr, "wharfinger-filtering: %s: %s\n", place, why);
    exit(status);
}

static void *room(int64_t count, size_t size) {
    size_t bytes = ((size_t)count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *there = aligned_alloc(ALIGNMENT, bytes ? bytes : ALIGNMENT);
    if (!there) fail(1, "memory", "not enough of it; give fewer --users");
    memset(there, 0, bytes);
    return there;
}

/* --- what is drawn -------------------------------------------------------------------------- */

/* splitmix64: any draw can be made again by its number. */
static uint64_t bits(uint64_t number) {
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static double unit(uint64_t seed, uint64_t stream, uint64_t number) {
    return (double)(bits(bits(bits(seed) ^ stream) ^ number) >> 11) * 0x1p-53;
}

/* Of a user's or item's own taste; the mean of the draws is 0. */
static double taste(uint64_t seed, uint64_t stream, uint64_t number) {
    return 2 * unit(seed, stream, number) - 1;
}

/* Popular items have many ratings, most have few; a rating is of whole stars. */
static double draw(const struct task *task, int64_t number, struct rating *rating) {
    uint64_t seed = task->seed, n = (uint64_t)number;
    double popular = unit(seed, 1, n);
    uint64_t u = (uint64_t)(unit(seed, 0, n) * (double)task->users);
    uint64_t i = (uint64_t)(popular * popular * popular * (double)task->items);
    rating->user = (int32_t)u, rating->item = (int32_t)i;
    double stars = 3.6 + 0.5 * taste(seed, 2, u) + 0.5 * taste(seed, 3, i);
    for (uint64_t of = 4; of < 10; of += 2)
        stars += 1.2 * taste(seed, of, u) * taste(seed, of + 1, i);
    stars += 0.6 * (unit(seed, 10, n) + unit(seed, 11, n) - 1);
    stars = floor(stars + 0.5);
    return stars < 1 ? 1 : stars > 5 ? 5 : stars;
}

static double start_of(const struct task *task, uint64_t stream, int64_t which, int factor) {
    return SPREAD * taste(task->seed, stream, (uint64_t)which * RANK + (uint64_t)factor);
}

static struct biases biases_of(const struct task *task) {
    struct biases it = {
        .user = room(task->users, sizeof(double)),
        .item = room(task->items, sizeof(double)),
        .user_count = room(task->users, sizeof(int32_t)),
        .item_count = room(task->items, sizeof(int32_t)),
    };
    struct rating at;
    for (int64_t n = 0; n < task->ratings; n++) {
        double stars = draw(task, n, &at);
        it.mean += stars;
        it.item[at.item] += stars;
        it.item_count[at.item]++;
        it.user_count[at.user]++;
    }
    it.mean /= (double)task->ratings;
    for (int64_t i = 0; i < task->items; i++)
        it.item[i] = (it.item[i] - it.mean * it.item_count[i]) / (it.item_count[i] + SHRINK);
    for (int64_t n = 0; n < task->ratings; n++) {
        double stars = draw(task, n, &at);
        it.user[at.user] += stars - it.mean - it.item[at.item];
    }
    for (int64_t u = 0; u < task->users; u++) it.user[u] /= it.user_count[u] + SHRINK;
    return it;
}

/* --- what is told --------------------------------------------------------------------------- */

static double told_at;

static void tell(double done, const char *more, double error) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (!*more && seconds - told_at < TELL_AFTER) return;
    told_at = seconds;
    printf("done=%.4f", done);
    if (*more) printf(" %s=%.5f", more, error);
    putchar('\n');
    if (fflush(stdout) != 0) exit(1);
}

static void tell_pass(int64_t step, int pass, int passes, int64_t at, int64_t of) {
    if (at % TELL_AFTER_RATINGS == 0)
        tell((double)step + (pass + (double)at / (double)of) / passes, "", 0);
}

static void tell_step(const struct task *task, int64_t step, double squares) {
    tell((double)step + 1, "rmse", sqrt(squares / (double)task->ratings));
}

/* The most memory that it held: what wait4 tells is at least what held the process before exec. */
static void tell_footprint(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long most;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld kB", &most) == 1) printf("footprint_kib=%ld\n", most);
    if (status) fclose(status);
    if (fflush(stdout) != 0) exit(1);
}

/* Rows of RANK doubles, users first; what the versions are compared by. */
static void write_row(FILE *out, const double *row) {
    if (out && fwrite(row, sizeof *row, RANK, out) != RANK) fail(1, "--out", strerror(errno));
}

static FILE *opened(const struct task *task) {
    FILE *out = task->out ? fopen(task->out, "wb") : NULL;
    if (task->out && !out) fail(2, task->out, strerror(errno));
    return out;
}

static void closed(FILE *out) {
    if (out && fclose(out) != 0) fail(1, "--out", strerror(errno));
}

/* --- plain ---------------------------------------------------------------------------------- */

struct plain_rating {
    struct rating of;
    double stars;
};

static double *plain_matrix(const struct task *task, int64_t count, uint64_t stream) {
    double *matrix = room(count * RANK, sizeof(double));
    for (int f = 0; stream && f < RANK; f++)
        for (int64_t at = 0; at < count; at++)
            matrix[f * count + at] = start_of(task, stream, at, f);
    return matrix;
}

struct plain {
    int64_t users, items;
    const struct biases *biases;
    const double *p, *q;
};

static double plain_error(const struct plain *it, const struct plain_rating *one) {
    int64_t u = one->of.user, i = one->of.item;
    double predicted = it->biases->mean + it->biases->user[u] + it->biases->item[i];
    for (int f = 0; f < RANK; f++)
        predicted += it->p[f * it->users + u] * it->q[f * it->items + i];
    return one->stars - predicted;
}

static void plain_move(double *matrix, double *gradient, const int32_t *ratings, int64_t count) {
    for (int f = 0; f < RANK; f++) {
        for (int64_t at = 0; at < count; at++) {
            double *value = &matrix[f * count + at], *sum = &gradient[f * count + at];
            if (ratings[at] > 0) *value += RATE * (*sum / ratings[at] - DECAY * *value);
            *sum = 0;
        }
    }
}

static void plain(const struct task *task, FILE *out) {
    struct biases biases = biases_of(task);
    int64_t users = task->users, items = task->items, ratings = task->ratings;
    double *p = plain_matrix(task, users, 12), *q = plain_matrix(task, items, 13);
    double *to_p = plain_matrix(task, users, 0), *to_q = plain_matrix(task, items, 0);
    struct plain_rating *all = room(ratings, sizeof *all);
    for (int64_t n = 0; n < ratings; n++) all[n].stars = draw(task, n, &all[n].of);
    struct plain it = {users, items, &biases, p, q};
    for (int64_t step = 0; task->steps == 0 || step < task->steps; step++) {
        double squares = 0;
        for (int64_t n = 0; n < ratings; n++) {
            double error = plain_error(&it, &all[n]);
            squares += error * error;
            tell_pass(step, 0, 3, n, ratings);
        }
        for (int64_t n = 0; n < ratings; n++) {
            double error = plain_error(&it, &all[n]);
            int64_t u = all[n].of.user, i = all[n].of.item;
            for (int f = 0; f < RANK; f++) to_p[f * users + u] += error * q[f * items + i];
            tell_pass(step, 1, 3, n, ratings);
        }
        for (int64_t n = 0; n < ratings; n++) {
            double error = plain_error(&it, &all[n]);
            int64_t u = all[n].of.user, i = all[n].of.item;
            for (int f = 0; f < RANK; f++) to_q[f * items + i] += error * p[f * users + u];
            tell_pass(step, 2, 3, n, ratings);
        }
        plain_move(p, to_p, biases.user_count, users);
        plain_move(q, to_q, biases.item_count, items);
        tell_step(task, step, squares);
    }
    for (int64_t at = 0; out && at < users + items; at++) {
        double row[RANK];
        for (int f = 0; f < RANK; f++)
            row[f] = at < users ? p[f * users + at] : q[f * items + at - users];
        write_row(out, row);
    }
}

/* --- vectors -------------------------------------------------------------------------------- */

static struct factors *matrix_of(const struct task *task, int64_t count, uint64_t stream) {
    struct factors *matrix = room(count, sizeof *matrix);
    for (int64_t at = 0; stream && at < count; at++)
        for (int f = 0; f < RANK; f++)
            matrix[at].part[f / LANES][f % LANES] = (float)start_of(task, stream, at, f);
    return matrix;
}

static inline float product(const struct factors *p, const struct factors *q) {
    lanes sum = p->part[0] * q->part[0];
    for (int v = 1; v < VECTORS; v++) sum += p->part[v] * q->part[v];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static inline void add(struct factors *sum, float error, const struct factors *other) {
    for (int v = 0; v < VECTORS; v++) sum->part[v] += error * other->part[v];
}

static inline void move(struct factors *value, struct factors *sum, int32_t ratings) {
    float share = ratings > 0 ? (float)RATE / (float)ratings : 0;
    float decay = ratings > 0 ? (float)(RATE * DECAY) : 0;
    for (int v = 0; v < VECTORS; v++)
        value->part[v] += share * sum->part[v] - decay * value->part[v];
    memset(sum, 0, sizeof *sum);
}

static void write_factors(FILE *out, const struct factors *matrix, int64_t count) {
    for (int64_t at = 0; out && at < count; at++) {
        double row[RANK];
        for (int f = 0; f < RANK; f++) row[f] = (double)matrix[at].part[f / LANES][f % LANES];
        write_row(out, row);
    }
}

/* --- simd ----------------------------------------------------------------------------------- */

struct simd_rating {
    struct rating of;
    float stars;
};

struct simd {
    float mean;
    const struct biases *biases;
    const struct factors *p, *q;
};

static inline float simd_error(const struct simd *it, const struct simd_rating *one) {
    int32_t u = one->of.user, i = one->of.item;
    float known = it->mean + (float)it->biases->user[u] + (float)it->biases->item[i];
    return one->stars - known - product(&it->p[u], &it->q[i]);
}

static void simd(const struct task *task, FILE *out) {
    struct biases biases = biases_of(task);
    int64_t users = task->users, items = task->items, ratings = task->ratings;
    struct factors *p = matrix_of(task, users, 12), *q = matrix_of(task, items, 13);
    struct factors *to_p = matrix_of(task, users, 0), *to_q = matrix_of(task, items, 0);
    struct simd_rating *all = room(ratings, sizeof *all);
    for (int64_t n = 0; n < ratings; n++) all[n].stars = (float)draw(task, n, &all[n].of);
    struct simd it = {(float)biases.mean, &biases, p, q};
    for (int64_t step = 0; task->steps == 0 || step < task->steps; step++) {
        double squares = 0;
        for (int64_t n = 0; n < ratings; n++) {
            double error = (double)simd_error(&it, &all[n]);
            squares += error * error;
            tell_pass(step, 0, 3, n, ratings);
        }
        for (int64_t n = 0; n < ratings; n++) {
            add(&to_p[all[n].of.user], simd_error(&it, &all[n]), &q[all[n].of.item]);
            tell_pass(step, 1, 3, n, ratings);
        }
        for (int64_t n = 0; n < ratings; n++) {
            add(&to_q[all[n].of.item], simd_error(&it, &all[n]), &p[all[n].of.user]);
            tell_pass(step, 2, 3, n, ratings);
        }
        for (int64_t u = 0; u < users; u++) move(&p[u], &to_p[u], biases.user_count[u]);
        for (int64_t i = 0; i < items; i++) move(&q[i], &to_q[i], biases.item_count[i]);
        tell_step(task, step, squares);
    }
    write_factors(out, p, users);
    write_factors(out, q, items);
}

/* --- reordered, memoised -------------------------------------------------------------------- */

struct own_rating {
    int32_t item;
    float left; /* the stars; memoised: without mean and biases */
};

/* Ratings by user, drawn once more so that they are never there twice; begin has users + 1. */
static struct own_rating *by_user(const struct task *task, const struct biases *biases,
                                  int64_t *begin, int keeps_left) {
    struct own_rating *all = room(task->ratings, sizeof *all);
    for (int64_t u = 0; u < task->users; u++) begin[u + 1] = begin[u] + biases->user_count[u];
    for (int64_t n = 0; n < task->ratings; n++) {
        struct rating at;
        double left = draw(task, n, &at);
        if (keeps_left) left -= biases->mean + biases->user[at.user] + biases->item[at.item];
        all[begin[at.user]++] = (struct own_rating){at.item, (float)left};
    }
    /* Each begin has become the next one's. */
    memmove(begin + 1, begin, (size_t)task->users * sizeof *begin);
    begin[0] = 0;
    return all;
}

static inline float reordered_error(const struct simd *it, int64_t u, const struct own_rating *one,
                                    const struct factors *p) {
    float known = it->mean + (float)it->biases->user[u] + (float)it->biases->item[one->item];
    return one->left - known - product(p, &it->q[one->item]);
}

struct sweep {
    const struct simd *it;
    const struct own_rating *own;
    int64_t user, count;
    struct factors *p, *to_q;
    float *errors;
};

static double reordered_user(const struct sweep *of, struct factors *to_p) {
    double squares = 0;
    for (int64_t n = 0; n < of->count; n++) {
        double error = (double)reordered_error(of->it, of->user, &of->own[n], of->p);
        squares += error * error;
    }
    for (int64_t n = 0; n < of->count; n++) {
        float error = reordered_error(of->it, of->user, &of->own[n], of->p);
        add(to_p, error, &of->it->q[of->own[n].item]);
    }
    for (int64_t n = 0; n < of->count; n++) {
        float error = reordered_error(of->it, of->user, &of->own[n], of->p);
        add(&of->to_q[of->own[n].item], error, of->p);
    }
    return squares;
}

static double memoised_user(const struct sweep *of, struct factors *to_p) {
    double squares = 0;
    for (int64_t n = 0; n < of->count; n++) {
        const struct factors *q = &of->it->q[of->own[n].item];
        float error = of->own[n].left - product(of->p, q);
        of->errors[n] = error;
        squares += (double)error * (double)error;
        add(to_p, error, q);
    }
    for (int64_t n = 0; n < of->count; n++)
        add(&of->to_q[of->own[n].item], of->errors[n], of->p);
    return squares;
}

static void by_users(const struct task *task, FILE *out) {
    struct biases biases = biases_of(task);
    int64_t users = task->users, items = task->items, most = 0;
    struct factors *p = matrix_of(task, users, 12), *q = matrix_of(task, items, 13);
    struct factors *to_q = matrix_of(task, items, 0);
    int64_t *begin = room(users + 1, sizeof *begin);
    struct own_rating *all = by_user(task, &biases, begin, task->version == MEMOISED);
    for (int64_t u = 0; u < users; u++)
        if (biases.user_count[u] > most) most = biases.user_count[u];
    struct simd it = {(float)biases.mean, &biases, p, q};
    struct sweep of = {.it = &it, .to_q = to_q, .errors = room(most, sizeof(float))};
    for (int64_t step = 0; task->steps == 0 || step < task->steps; step++) {
        double squares = 0;
        for (int64_t u = 0; u < users; u++) {
            struct factors own = p[u], to_p = {0};
            of.own = all + begin[u], of.user = u, of.count = begin[u + 1] - begin[u], of.p = &own;
            squares += (task->version == MEMOISED ? memoised_user : reordered_user)(&of, &to_p);
            move(&own, &to_p, biases.user_count[u]);
            p[u] = own;
            if (u % 1024 == 0) tell((double)step + (double)u / (double)users, "", 0);
        }
        for (int64_t i = 0; i < items; i++) move(&q[i], &to_q[i], biases.item_count[i]);
        tell_step(task, step, squares);
    }
    write_factors(out, p, users);
    write_factors(out, q, items);
}

/* --- the command line ----------------------------------------------------------------------- */

static int64_t whole(const char *option, const char *text, int64_t low, int64_t high) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < low || value > high) {
        char why[128];
        snprintf(why, sizeof why, "\"%.40s\"; give a whole number from %lld to %lld", text,
                 (long long)low, (long long)high);
        fail(2, option, why);
    }
    return value;
}

static struct task task_of(int count, char **words) {
    struct task task = {.version = VERSION_COUNT, .users = 180000, .items = 17770};
    int64_t each = 20, seed = 0;
    const char *which = count > 1 ? words[1] : "";
    for (int v = 0; v < VERSION_COUNT; v++)
        if (strcmp(which, VERSIONS[v]) == 0) task.version = (enum version)v;
    if (task.version == VERSION_COUNT)
        fail(2, "VERSION", "give plain, simd, reordered or memoised first");
    for (int at = 2; at < count; at += 2) {
        const char *option = words[at], *value = at + 1 < count ? words[at + 1] : "";
        if (strcmp(option, "--users") == 0) task.users = whole(option, value, 1, 100000000);
        else if (strcmp(option, "--items") == 0) task.items = whole(option, value, 1, 100000000);
        else if (strcmp(option, "--each") == 0) each = whole(option, value, 1, 10000);
        else if (strcmp(option, "--seed") == 0) seed = whole(option, value, 0, INT64_MAX);
        else if (strcmp(option, "--total") == 0) task.steps = whole(option, value, 0, INT64_MAX);
        else if (strcmp(option, "--out") == 0 && *value) task.out = value;
        else fail(2, option, "no option; there are --users --items --each --seed --total --out");
    }
    task.ratings = task.users * each;
    task.seed = (uint64_t)seed;
    return task;
}

int main(int count, char **words) {
    struct task task = task_of(count, words);
    FILE *out = opened(&task);
    if (task.version == PLAIN) plain(&task, out);
    else if (task.version == SIMD) simd(&task, out);
    else by_users(&task, out);
    closed(out);
    tell_footprint();
    return 0;
}
