/* What the init tells the keeper, and how it ends when nothing can go on. */
#include "sandbox.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void say(const struct sandbox *sandbox, const struct said *said) {
    if (write(sandbox->said_fd, said, sizeof *said) < 0) _exit(EXIT_FAULT);
}

void fault(const struct sandbox *sandbox, int error, const char *format, ...) {
    struct said said = {.kind = SAID_FAULT, .status = EXIT_FAULT};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said.text, sizeof said.text - NAME_BYTES, format, arguments);
    va_end(arguments);
    size_t size = strlen(said.text);
    if (error != 0)
        snprintf(said.text + size, sizeof said.text - size, ": %s", strerror(error));
    say(sandbox, &said);
    _exit(EXIT_FAULT);
}
