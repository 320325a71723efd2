/* What the program is told while it runs: lines on its input, and signals.
 *
 * The end of the input is the order to end. It comes by itself when whoever asked for the source
 * dies in any way, so a source outlives nobody.
 */
#include "ibench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t signalled;
static sigset_t while_waiting;

static void on_signal(int number) {
    (void)number;
    signalled = 1;
}

/* Blocked but while waiting, in every thread that is to come: work is never interrupted. */
static void listen_to_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    signal(SIGPIPE, SIG_IGN); /* report.c ends us in order */
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaddset(&blocked, numbers[i]);
        sigaction(numbers[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &blocked, &while_waiting);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigdelset(&while_waiting, numbers[i]);
}

void control_open(struct control *control, const struct options *options) {
    *control = (struct control){.fd = STDIN_FILENO};
    listen_to_signals();
    if (options->control_path == NULL) return;
    /* Without waiting: a named pipe that nobody writes to has ended already. */
    control->fd = open(options->control_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (control->fd < 0)
        fail(STATUS_FAULT, "--control: %s: %s", options->control_path, strerror(errno));
}

static void obey(struct control *control, const char *line) {
    static const char word[] = "intensity ";
    double intensity;
    if (strncmp(line, word, sizeof word - 1) == 0 &&
        parse_intensity(line + sizeof word - 1, &intensity)) {
        control->intensity = intensity;
        control->asked = true;
        return;
    }
    fprintf(stderr, "wharfinger-ibench: input: '%s' is not understood; say 'intensity N', "
                    "N from 0 to 100\n", line);
}

static void take(struct control *control, char character) {
    if (character != '\n') {
        /* A line that is too long stays wrong, whatever its end. */
        if (control->length < sizeof control->line - 1)
            control->line[control->length++] = character;
        return;
    }
    control->line[control->length] = '\0';
    control->length = 0;
    if (control->line[0] != '\0') obey(control, control->line);
}

static void read_lines(struct control *control) {
    char bytes[256];
    ssize_t size = read(control->fd, bytes, sizeof bytes);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) control->ended = true;
    for (ssize_t i = 0; i < size; i++) take(control, bytes[i]);
}

void control_wait(struct control *control, int64_t wait_ns) {
    struct pollfd input = {.fd = control->fd, .events = POLLIN};
    const struct timespec time = {.tv_sec = wait_ns / SECOND_NS, .tv_nsec = wait_ns % SECOND_NS};
    int ready = ppoll(&input, 1, wait_ns == FOREVER_NS ? NULL : &time, &while_waiting);
    if (signalled) control->ended = true;
    if (ready > 0) read_lines(control);
}
