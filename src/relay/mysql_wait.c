/* See mysql_wait.h. */
#include "relay/mysql_wait.h"

#include "base/assert.h"
#include "platform/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>

#define LOOK_MS 100u /* how often one that waits looks whether it is interrupted */

/* Exported and in use since libmariadb 3.0, but no header that it installs has it. The function is called behind each
 * read and write of any connection, but for those of a TLS handshake. */
int ma_pvio_register_callback(my_bool is_to_be_called,
                              void (*function)(int mode, MYSQL *handle, const unsigned char *bytes, size_t size));

/* Of this thread's call; the library's callbacks get nothing of ours. */
static _Thread_local struct mysql_wait *current;

static int give_up(struct mysql_wait *wait)
{
    wait->is_late = true;
    errno = ETIMEDOUT;
    return 0;
}

/* The library's own time-out is not looked at: behind TLS, some of its versions say milliseconds and others seconds.
 * There it also asks for something to read when it can't write. */
static int await_socket(my_socket socket, my_bool is_read, int timeout)
{
    struct mysql_wait *wait = current;
    (void)timeout;
    ASSERT(wait != NULL);
    const uint64_t began_ms = monotonic_ms();
    struct pollfd one = {.fd = socket, .events = is_read && !wait->is_sending ? POLLIN : POLLOUT};
    for (uint64_t now_ms = began_ms;; now_ms = monotonic_ms()) {
        uint64_t until_ms = wait->until_ms;
        if (wait->part_ms_max > 0 && began_ms + wait->part_ms_max < until_ms)
            until_ms = began_ms + wait->part_ms_max;
        if (now_ms >= until_ms || atomic_load(&wait->is_interrupted))
            return give_up(wait);
        const int ready = poll(&one, 1, (int)(until_ms - now_ms < LOOK_MS ? until_ms - now_ms : LOOK_MS));
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -1;
    }
}

/* OpenSSL reads the socket by itself, and would wait in the kernel if it blocks. The library leaves it so, but it has
 * always read the server's greeting before a handshake. */
static void unblock(struct mysql_wait *wait, my_socket socket)
{
    const int flags = fcntl(socket, F_GETFL);
    wait->is_unblocked = flags >= 0 && fcntl(socket, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* While there is always more to read the library never waits, so it is stopped here: its next read finds an end. */
static void after_transfer(int mode, MYSQL *handle, const unsigned char *bytes, size_t size)
{
    (void)mode;
    (void)bytes;
    (void)size;
    if (current == NULL)
        return;
    const my_socket socket = mysql_get_socket(handle);
    if (!current->is_unblocked)
        unblock(current, socket);
    if (monotonic_ms() < current->until_ms && !atomic_load(&current->is_interrupted))
        return;
    current->is_late = true;
    (void)shutdown(socket, SHUT_RDWR);
}

void mysql_wait_init_library(void)
{
    int failure = ma_pvio_register_callback(1, after_transfer);
    ASSERT(failure == 0);
}

void mysql_wait_watch(struct mysql_wait *wait, MYSQL *handle)
{
    wait->is_unblocked = false;
    (void)mysql_optionsv(handle, MARIADB_OPT_IO_WAIT, (const void *)await_socket);
}

void mysql_wait_begin(struct mysql_wait *wait, uint64_t until_ms)
{
    ASSERT(current == NULL);
    wait->until_ms = until_ms;
    wait->is_late = false;
    current = wait;
}

void mysql_wait_end(struct mysql_wait *wait)
{
    ASSERT(current == wait);
    current = NULL;
}
