/* Signs of life for all logs that this node owns and that write nothing: one statement for all of them, by a thread
 * with a connection of its own. Without it each log would commit one for itself (pg_log_beat()), which is what many
 * idle logs cost.
 *
 * Each log is compared with its own fence, so one that another node has taken says nothing of the others. One whose row
 * somebody else has locked is passed over. A log whose sign of life is late, for whatever reason, beats for itself.
 *
 * It proves nothing about a log whose own connection goes to another host: that one may be the primary no more. A
 * connection to a machine that has gone is ended by TCP within seconds (link.h). */
#ifndef TALLY_POSTGRES_PULSE_H
#define TALLY_POSTGRES_PULSE_H

#include "base/list.h"
#include "postgres/session.h"

struct pg_pulse;

/* A log as the pulse knows it; zeroed at first. The members are the pulse's; two are borrowed. */
struct pg_pulse_entry {
    struct list_link link;
    uint32_t id;
    uint64_t epoch;
    uint8_t owner[PG_OWNER_SIZE];
    uint32_t host;               /* that its own connection goes to (pg_host) */
    _Atomic uint64_t *proved_ms; /* raised to when a statement began that has found this owner in place */
    _Atomic uint64_t *seen_ms;   /* when the owner was looked after last (disk.h, confirm): else it gets none */
};

/* `options` are borrowed; they name no log. NULL: the system has no thread. */
struct pg_pulse *pg_pulse_create(const struct pg_options *options);

/* No log is with it any more. */
void pg_pulse_destroy(struct pg_pulse *pulse);

/* From now on the log of this session, which is its owner, gets signs of life; from now on it gets none. Each may be
 * called twice. Any thread. */
void pg_pulse_join(struct pg_pulse *pulse, struct pg_pulse_entry *entry, const struct pg_session *session);
void pg_pulse_leave(struct pg_pulse *pulse, struct pg_pulse_entry *entry);

#endif
