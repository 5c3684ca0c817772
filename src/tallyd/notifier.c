#include "tallyd/notifier.h"

#include "base/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define STATUS_PAUSE_MS 30000u /* between two, where no watchdog asks more often */
#define READY_PATIENCE_S 5
#define USEC_PER_MS 1000u

/* --- The environment ---------------------------------------------------------------------------------------------- */

/* A path, or a name that is in no folder: "@name". */
static bool read_address(struct notifier *notifier, const char *text)
{
    const size_t size = strlen(text);
    if ((text[0] != '/' && text[0] != '@') || size < 2 || size >= sizeof(notifier->address.sun_path))
        return false;
    notifier->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(notifier->address.sun_path, text, size);
    if (text[0] == '@')
        notifier->address.sun_path[0] = '\0';
    notifier->address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return true;
}

/* A whole number above 0. */
static bool read_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value == 0)
        return false;
    *number = value;
    return true;
}

/* Whoever has started a process that starts this one may have a watchdog of its own. */
static bool is_for_this_process(const char *pid)
{
    uint64_t number;
    return pid == NULL || (read_number(pid, &number) && number == (uint64_t)getpid());
}

static enum error read_watchdog(struct notifier *notifier, struct failure *failure)
{
    const char *usec = getenv("WATCHDOG_USEC");
    uint64_t number;
    if (usec == NULL || !is_for_this_process(getenv("WATCHDOG_PID")))
        return OK;
    if (!read_number(usec, &number))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "WATCHDOG_USEC is \"%.40s\": it must be a number of microseconds above 0.", usec);
    notifier->watchdog_ms = number < USEC_PER_MS ? 1 : number / USEC_PER_MS;
    return OK;
}

static enum error open_socket(struct notifier *notifier, const char *name, struct failure *failure)
{
    if (!read_address(notifier, name))
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "NOTIFY_SOCKET is \"%.200s\": it must be the path of a socket, or a name that begins with @.", name);
    notifier->descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notifier->descriptor < 0)
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "can't make a socket to tell systemd anything: %s.",
                           strerror(errno));
    const struct timeval patience = {.tv_sec = READY_PATIENCE_S};
    const int status = setsockopt(notifier->descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    ASSERT(status == 0);
    return OK;
}

enum error notifier_init(struct notifier *notifier, struct failure *failure)
{
    *notifier = (struct notifier){.descriptor = -1};
    const char *name = getenv("NOTIFY_SOCKET");
    if (name == NULL || name[0] == '\0')
        return OK;
    const enum error error = read_watchdog(notifier, failure);
    return error != OK ? error : open_socket(notifier, name, failure);
}

void notifier_deinit(struct notifier *notifier)
{
    if (notifier->descriptor >= 0)
        close(notifier->descriptor);
    notifier->descriptor = -1;
}

/* --- Telling ------------------------------------------------------------------------------------------------------ */

/* Lines of the form KEY=VALUE. False: they were not taken. */
static bool send_lines(const struct notifier *notifier, struct bytes lines, int flags)
{
    ssize_t sent;
    do {
        sent = sendto(notifier->descriptor, lines.ptr, lines.size, flags | MSG_NOSIGNAL,
                      (const struct sockaddr *)&notifier->address, notifier->address_size);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)lines.size;
}

static void send_status(const struct notifier *notifier, const char *line, const char *status)
{
    struct buffer lines;
    if (notifier->descriptor < 0)
        return;
    buffer_init(&lines);
    buffer_append_format(&lines, "%sSTATUS=%s\n", line, status);
    (void)send_lines(notifier, buffer_bytes(&lines), MSG_DONTWAIT);
    buffer_deinit(&lines);
}

void notifier_tell(const struct notifier *notifier, const char *status)
{
    send_status(notifier, "", status);
}

void notifier_tell_stopping(const struct notifier *notifier, const char *status)
{
    send_status(notifier, "STOPPING=1\n", status);
}

static bool send_described(const struct notifier *notifier, const char *line, int flags)
{
    struct buffer lines;
    buffer_init(&lines);
    buffer_append_format(&lines, "%sSTATUS=", line);
    notifier->describe(notifier->context, &lines);
    buffer_append_u8(&lines, '\n');
    const bool is_sent = send_lines(notifier, buffer_bytes(&lines), flags);
    buffer_deinit(&lines);
    return is_sent;
}

static void on_timer(uv_timer_t *timer)
{
    const struct notifier *notifier = timer->data;
    (void)send_described(notifier, notifier->watchdog_ms == 0 ? "" : "WATCHDOG=1\n", MSG_DONTWAIT);
}

/* Half of what the watchdog allows: one that is lost or late does no harm. */
static uint64_t timer_pause_ms(const struct notifier *notifier)
{
    const uint64_t half = notifier->watchdog_ms / 2;
    if (notifier->watchdog_ms == 0 || half > STATUS_PAUSE_MS)
        return STATUS_PAUSE_MS;
    return half == 0 ? 1 : half;
}

enum error notifier_begin(struct notifier *notifier, uv_loop_t *loop,
                          void (*describe)(void *context, struct buffer *status), void *context,
                          struct failure *failure)
{
    if (notifier->descriptor < 0)
        return OK;
    notifier->describe = describe;
    notifier->context = context;
    if (notifier->is_ready) {
        on_timer(&notifier->timer);
        return OK;
    }
    notifier->is_ready = true;
    uv_timer_init(loop, &notifier->timer);
    notifier->timer.data = notifier;
    uv_timer_start(&notifier->timer, on_timer, timer_pause_ms(notifier), timer_pause_ms(notifier));
    uv_unref((uv_handle_t *)&notifier->timer);
    if (send_described(notifier, "READY=1\n", 0))
        return OK;
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "systemd could not be told that tallyd is ready: %s.",
                       strerror(errno));
}

void notifier_end(struct notifier *notifier)
{
    if (notifier->is_ready)
        uv_close((uv_handle_t *)&notifier->timer, NULL);
    notifier->is_ready = false;
}
