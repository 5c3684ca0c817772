#include "base/abort_message.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

#define LAST_WORDS_MS 1000

void abort_message_write(const char *format, ...)
{
    /* A pipe that says it can be written takes 4 KiB without blocking. */
    struct pollfd room = {.fd = 2, .events = POLLOUT};
    if (poll(&room, 1, LAST_WORDS_MS) != 1)
        return;
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
}
