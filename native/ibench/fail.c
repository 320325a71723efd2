/* The one way out when something is wrong: a line on standard error, and the status. */
#include "ibench.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

_Noreturn void fail(enum status status, const char *format, ...) {
    char text[PATH_MAX + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "wharfinger-ibench: %s\n", text);
    /* Other threads may be at work: nothing is to be tidied up behind their back. */
    _exit((int)status);
}
