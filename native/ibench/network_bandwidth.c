/* Requests over the network (iBench's SoI 5).
 *
 * Each worker has a connection to a peer, sends a request and waits for the answer of the same
 * size. Size and frequency of the requests both grow with the square root of the intensity, so
 * what goes over the network grows with the intensity itself, which is the share of the rate that
 * the same work reaches at most. Without a --peer the source is its own, on loopback.
 */
#include "ibench.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORKERS = 4,
    MOST_BYTES = 256 << 10, /* of a request, at 100 */
    LEAST_BYTES = 1 << 10,
    LISTEN_MILLISECONDS = 20, /* for the order to stop, while nothing comes */
};
#define PATIENCE_NS (10 * SECOND_NS)

static int connections[WORKERS];

/* --- the peer ------------------------------------------------------------------------------ */

static bool has_peer(const struct options *options) {
    return options->peer.port[0] != '\0';
}

static bool connect_all(const struct address *address, char reason[REASON_BYTES]) {
    for (size_t i = 0; i < WORKERS; i++)
        if ((connections[i] = socket_connect(address, reason)) < 0) return false;
    return true;
}

/* One on this machine, in this process: it ends as this process does. */
static bool start_own_peer(char reason[REASON_BYTES]) {
    static const char *const hosts[] = {"127.0.0.1", "::1"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct address own = {.port = "0"};
        snprintf(own.host, sizeof own.host, "%s", hosts[i]);
        int fd = socket_listen(&own, own.port, reason);
        if (fd < 0) continue;
        peer_start(fd);
        return connect_all(&own, reason);
    }
    return false;
}

/* A peer elsewhere is connected to here, since that may take long: a signal still ends us. */
static bool network_probe(const struct options *options, char reason[REASON_BYTES]) {
    static const struct address loopback[] = {{"127.0.0.1", "0"}, {"::1", "0"}};
    char port[8];
    if (has_peer(options)) return connect_all(&options->peer, reason);
    for (size_t i = 0; i < sizeof loopback / sizeof *loopback; i++) {
        int fd = socket_listen(&loopback[i], port, reason);
        if (fd >= 0) return close(fd) == 0;
    }
    return false;
}

static void network_prepare(const struct options *options, struct worker *workers, size_t count) {
    char reason[REASON_BYTES] = "";
    if (!has_peer(options) && !start_own_peer(reason)) fail(STATUS_FAULT, "loopback: %s", reason);
    for (size_t i = 0; i < count; i++) {
        workers[i].mark = connections[i];
        workers[i].memory = file_block(MOST_BYTES, i);
    }
}

/* --- requests ------------------------------------------------------------------------------ */

/* Loopback is CPU and memory. */
static bool network_cpu_bound(const struct options *options) {
    return !has_peer(options);
}

static size_t request_bytes(double intensity) {
    size_t bytes = (size_t)(MOST_BYTES * sqrt(intensity / 100));
    return bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
}

static _Noreturn void peer_gone(const char *why) {
    fail(STATUS_FAULT, "the peer is gone: %s; start it again", why);
}

/* What went through; 0 where nothing can now. */
static size_t progress(ssize_t size) {
    if (size > 0) return (size_t)size;
    if (size == 0) peer_gone("it closed the connection");
    if (errno != EAGAIN && errno != EINTR) peer_gone(strerror(errno));
    return 0;
}

/* Until something can go through; false: the order to stop came first. */
static bool wait_for(const struct worker *worker, int fd, bool to_send) {
    struct pollfd connection = {.fd = fd, .events = (short)(to_send ? POLLIN | POLLOUT : POLLIN)};
    int64_t until = now_ns() + PATIENCE_NS;
    while (!atomic_load(&worker->crew->stop)) {
        if (poll(&connection, 1, LISTEN_MILLISECONDS) > 0) return true;
        if (now_ns() > until) peer_gone("no answer within 10 s");
    }
    return false;
}

static double network_work(struct worker *worker, double budget) {
    (void)budget; /* one request at a time; what is beyond the credit is waited for afterwards */
    int fd = (int)worker->mark;
    char *request = worker->memory, answer[16 << 10];
    size_t size = request_bytes(worker->pacer.intensity), sent = 0, received = 0;
    while (received < size) {
        size_t before = sent + received;
        if (sent < size) sent += progress(send(fd, request + sent, size - sent, MSG_NOSIGNAL));
        if (received < sent) {
            size_t left = sent - received;
            size_t room = left < sizeof answer ? left : sizeof answer;
            received += progress(recv(fd, answer, room, 0));
        }
        size_t done = sent + received - before;
        atomic_fetch_add_explicit(&worker->count, done, memory_order_relaxed);
        if (done == 0 && !wait_for(worker, fd, sent < size)) break;
    }
    return (double)(sent + received);
}

const struct source network_bandwidth_source = {
    .name = "network-bandwidth",
    .unit = "bytes/s",
    .bytes_per_count = 1,
    .workers = WORKERS,
    .burst_seconds = 0.05,
    .probe = network_probe,
    .prepare = network_prepare,
    .work = network_work,
    .cpu_bound = network_cpu_bound,
};
