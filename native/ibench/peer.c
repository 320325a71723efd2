/* The other end of the network source: sends back what it receives.
 *
 * One thread for each connection; they end with the process, which ends with its input.
 */
#include "ibench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 << 10, MAX_CONNECTIONS = 256 };

static atomic_int connections;

static bool send_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static void *answer(void *argument) {
    int fd = (int)(intptr_t)argument, one = 1;
    char *buffer = malloc(BUFFER_BYTES);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    for (ssize_t size = 1; buffer != NULL && size > 0;) {
        size = recv(fd, buffer, BUFFER_BYTES, 0);
        if (size > 0 && !send_all(fd, buffer, (size_t)size)) break;
    }
    free(buffer);
    close(fd);
    atomic_fetch_sub(&connections, 1);
    return NULL;
}

static bool begin_thread(void *(*function)(void *), int fd) {
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    bool has_begun = pthread_create(&thread, &detached, function, (void *)(intptr_t)fd) == 0;
    pthread_attr_destroy(&detached);
    return has_begun;
}

static void take(int fd) {
    if (atomic_fetch_add(&connections, 1) < MAX_CONNECTIONS && begin_thread(answer, fd)) return;
    atomic_fetch_sub(&connections, 1);
    close(fd);
}

static void *listen_for_all(void *argument) {
    const struct timespec moment = {.tv_nsec = 10000000};
    int listening_fd = (int)(intptr_t)argument;
    for (;;) {
        int fd = accept4(listening_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            take(fd);
        else /* no file left, or a connection that is gone: others may come */
            nanosleep(&moment, NULL);
    }
    return NULL;
}

void peer_start(int listening_fd) {
    if (!begin_thread(listen_for_all, listening_fd)) fail(STATUS_FAULT, "no memory for a thread");
}

int peer_run(const struct options *options) {
    char reason[REASON_BYTES] = "", port[8];
    int fd = socket_listen(&options->listen, port, reason);
    if (fd < 0) fail(STATUS_FAULT, "--listen: %s", reason);
    struct control control;
    control_open(&control, options);
    peer_start(fd);
    printf("{\"event\":\"listening\",\"host\":\"%s\",\"port\":%s}\n", options->listen.host, port);
    fflush(stdout);
    int64_t end_at = options->run_ns > 0 ? now_ns() + options->run_ns : FOREVER_NS;
    while (!control.ended && now_ns() < end_at)
        control_wait(&control, end_at == FOREVER_NS ? FOREVER_NS : end_at - now_ns());
    return STATUS_DONE;
}
