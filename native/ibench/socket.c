/* Addresses and connections, of both versions of IP. */
#include "ibench.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_MILLISECONDS = 5000, MAX_PORT = 65535, BACKLOG = 64 };

/* --- addresses ----------------------------------------------------------------------------- */

static bool has_only(const char *text, size_t length, const char *characters) {
    return strspn(text, characters) >= length;
}

#define HOST_CHARACTERS \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

bool parse_address(const char *text, bool needs_host, struct address *address) {
    const char *colon = strrchr(text, ':'), *begin = text, *characters = HOST_CHARACTERS;
    if (colon == NULL) return false;
    size_t length = (size_t)(colon - text);
    if (*text == '[') {
        if (length < 2 || colon[-1] != ']') return false;
        begin++;
        length -= 2;
        characters = HOST_CHARACTERS ":%";
    }
    if (length >= sizeof address->host || !has_only(begin, length, characters)) return false;
    if (length == 0 && (needs_host || begin != text)) return false;
    size_t digits = strlen(colon + 1);
    if (digits == 0 || digits > 5 || !has_only(colon + 1, digits, "0123456789")) return false;
    int port = atoi(colon + 1);
    if (port > MAX_PORT || (port == 0 && needs_host)) return false;
    snprintf(address->host, sizeof address->host, "%.*s", (int)length, begin);
    snprintf(address->port, sizeof address->port, "%.5s", colon + 1);
    return true;
}

/* NULL with the reason where there is none; else to be freed. */
static struct addrinfo *resolve(const struct address *address, int flags, int family,
                                char reason[REASON_BYTES]) {
    const struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *first = NULL;
    const char *host = *address->host == '\0' ? NULL : address->host;
    int error = getaddrinfo(host, address->port, &hints, &first);
    if (error == 0) return first;
    snprintf(reason, REASON_BYTES, "host '%.100s': %s; name one that exists",
             host == NULL ? "" : host, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    return NULL;
}

/* --- to connect ---------------------------------------------------------------------------- */

static int connect_within_time(int fd, const struct addrinfo *to) {
    struct pollfd connected = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof errno;
    int error = 0;
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return -1;
    if (poll(&connected, 1, CONNECT_MILLISECONDS) != 1) {
        errno = ETIMEDOUT;
        return -1;
    }
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    return error == 0 ? 0 : -1;
}

int socket_connect(const struct address *address, char reason[REASON_BYTES]) {
    struct addrinfo *first = resolve(address, 0, AF_UNSPEC, reason);
    if (first == NULL) return -1;
    int fd = -1, error = EADDRNOTAVAIL, one = 1;
    for (const struct addrinfo *to = first; to != NULL && fd < 0; to = to->ai_next) {
        fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect_within_time(fd, to) == 0) break;
        error = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(first);
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fd < 0)
        snprintf(reason, REASON_BYTES, "peer %.100s port %s: %s; start 'wharfinger ibench peer' "
                 "there", address->host, address->port, strerror(error));
    return fd;
}

/* --- to listen ----------------------------------------------------------------------------- */

static int listen_at(const struct addrinfo *at) {
    int one = 1, zero = 0;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->ai_family == AF_INET6) /* any address is one of IPv4, too */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void tell_port(int fd, char port[8]) {
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    getsockname(fd, (struct sockaddr *)&bound, &size);
    in_port_t number = bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                   : ((struct sockaddr_in *)&bound)->sin_port;
    snprintf(port, 8, "%d", ntohs(number));
}

int socket_listen(const struct address *address, char port[8], char reason[REASON_BYTES]) {
    static const int families[] = {AF_INET6, AF_INET};
    int fd = -1, error = EADDRNOTAVAIL;
    bool is_resolved = false;
    for (size_t i = 0; fd < 0 && i < 2; i++) {
        struct addrinfo *at = resolve(address, AI_PASSIVE, families[i], reason);
        if (at == NULL) continue;
        is_resolved = true;
        fd = listen_at(at);
        /* A port in use is the reason, even where the other version has no address. */
        if (fd < 0 && error != EADDRINUSE) error = errno;
        freeaddrinfo(at);
        if (error == EADDRINUSE) break;
    }
    if (fd >= 0) {
        tell_port(fd, port);
        *reason = '\0'; /* of the version of IP that was tried before */
    } else if (is_resolved)
        snprintf(reason, REASON_BYTES, "port %s: %s; give another, or 0 for any", address->port,
                 strerror(error));
    return fd;
}
