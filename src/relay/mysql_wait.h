/* How long a call of libmariadb may take: a deadline for all of it, whatever the server sends meanwhile, and an end as
 * soon as somebody interrupts. The library's own time-outs count for each part of an answer. With them alone, a server
 * that sends a byte now and then would hold a call for ever.
 *
 * The library asks here whenever it would wait for its socket. It hands nothing over, so the thread knows on whose
 * behalf it asks: a call stands between mysql_wait_begin() and mysql_wait_end(). The look-up of a host's name is the C
 * library's, and is not bounded here. */
#ifndef TALLY_RELAY_MYSQL_WAIT_H
#define TALLY_RELAY_MYSQL_WAIT_H

#include <mysql.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mysql_wait {
    uint64_t until_ms;    /* of monotonic_ms() */
    unsigned part_ms_max; /* the longest wait for one part; 0: as long as the whole */
    bool is_sending;
    bool is_unblocked; /* the socket, so that OpenSSL does not wait in the kernel */
    bool is_late;      /* the call in progress, or the last one, was ended here */
    atomic_bool is_interrupted;
};

/* Once, before all others. */
void mysql_wait_init_library(void);
/* For a handle that has no connection yet, the only one of `wait`. */
void mysql_wait_watch(struct mysql_wait *wait, MYSQL *handle);

/* The calls of this thread up to the end are bounded by `wait`. */
void mysql_wait_begin(struct mysql_wait *wait, uint64_t until_ms);
void mysql_wait_end(struct mysql_wait *wait);

#endif
