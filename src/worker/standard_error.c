#include "worker/standard_error.h"

#include "platform/monotonic.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define STEP_MS 10 /* before another try: a terminal may say that there is room and take nothing */

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER; /* from seeing that there is room to using it */
static atomic_uint_fast64_t lost;                           /* lines */

bool standard_error_await(unsigned wait_ms)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&room, 1, (int)wait_ms) > 0; /* also where it is broken: the write will say so */
}

/* Writes what there is room for, without waiting; its size, or -1 with errno. A pipe that says it can be written takes
 * PIPE_BUF bytes without blocking. */
static ssize_t write_some(const char *text, size_t size)
{
    ssize_t written = -1;
    pthread_mutex_lock(&writing);
    errno = EAGAIN;
    if (standard_error_await(0))
        written = write(STDERR_FILENO, text, size < PIPE_BUF ? size : PIPE_BUF);
    pthread_mutex_unlock(&writing);
    return written;
}

size_t standard_error_write(const char *text, size_t size, unsigned wait_ms)
{
    const uint64_t end_ms = monotonic_ms() + wait_ms;
    size_t done = 0;
    while (done < size) {
        const ssize_t written = write_some(text + done, size - done);
        if (written >= 0) {
            done += (size_t)written;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return size;
        const uint64_t at_ms = monotonic_ms();
        if (at_ms >= end_ms)
            return done;
        if (standard_error_await((unsigned)(end_ms - at_ms)))
            (void)poll(NULL, 0, STEP_MS);
    }
    return done;
}

void standard_error_lose(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n')
            atomic_fetch_add(&lost, 1);
}

uint64_t standard_error_take_lost(void)
{
    return atomic_exchange(&lost, 0);
}
