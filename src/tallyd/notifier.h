/* Tells systemd how the daemon is, in datagrams to the socket that NOTIFY_SOCKET names:
 *
 *   STATUS=TEXT   what it is doing, for `systemctl status`; while a log is read, too
 *   READY=1       it answers requests
 *   WATCHDOG=1    its loop turns, at half of WATCHDOG_USEC if that is set and WATCHDOG_PID is this process
 *   STOPPING=1    it is ending
 *
 * Without NOTIFY_SOCKET nothing is told. A socket that can't be reached costs the messages and nothing else.
 * Source: sd_notify(3), sd_watchdog_enabled(3). */
#ifndef TALLY_TALLYD_NOTIFIER_H
#define TALLY_TALLYD_NOTIFIER_H

#include "base/buffer.h"
#include "base/error.h"

#include <sys/un.h>
#include <uv.h>

struct notifier {
    int descriptor; /* -1: nobody wants to know */
    struct sockaddr_un address;
    socklen_t address_size;
    uint64_t watchdog_ms; /* one must come within this; 0: none is asked for */
    uv_timer_t timer;
    bool is_ready; /* and the timer runs */
    void (*describe)(void *context, struct buffer *status);
    void *context;
};

/* Reads the environment. ERROR_INVALID_PARAMETER_VALUE: NOTIFY_SOCKET or WATCHDOG_USEC can't be understood; nothing is
 * told then. Each notifier ends with notifier_deinit(). */
enum error notifier_init(struct notifier *notifier, struct failure *failure);
void notifier_deinit(struct notifier *notifier);

/* From the first call on it is ready. `describe` appends the status then, and with each further message of the timer,
 * which does not keep the loop alive. The loop's thread. ERROR_SERVICE_UNAVAILABLE: systemd could not be told within
 * five seconds. */
enum error notifier_begin(struct notifier *notifier, uv_loop_t *loop,
                          void (*describe)(void *context, struct buffer *status), void *context,
                          struct failure *failure);

/* Ends the timer, if there is one; the loop must run once more. */
void notifier_end(struct notifier *notifier);

/* What it is doing now. Lost rather than waited for. Any thread. */
void notifier_tell(const struct notifier *notifier, const char *status);

/* It is ending, and no request is accepted any more. */
void notifier_tell_stopping(const struct notifier *notifier, const char *status);

#endif
