/* When a node that follows a log may take it over: a connection that waits for the advisory lock of the owner's epoch,
 * and a clock.
 *
 * The lock is free as soon as the owner's process has ended. An owner that was cut off keeps it for a while, so a node
 * that sees no sign of life for a lease takes over without it. It measures that by its own clock, over its own reads
 * that succeeded (L19). Where PostgreSQL itself has broken the connections, everybody has lost the lock; then the owner
 * goes first, for half a lease, and begins another epoch, also before a node that has begun to follow meanwhile. Where
 * PostgreSQL went silent, the owner may still reach that server, and answer on the ground of it: it goes first for a
 * lease. All this is for liveness, and for what is read of the owner before; what keeps two owners apart is the fence
 * (session.h). */
#ifndef TALLY_POSTGRES_STANDBY_H
#define TALLY_POSTGRES_STANDBY_H

#include "postgres/session.h"

struct pg_standby {
    struct pg_session waiter; /* waits for the lock, on a connection of its own */
    bool is_waiting;          /* the statement is under way */
    bool has_lock;
    bool session_has_lock;  /* that by which the log is read has it, taken at once */
    uint64_t waits_from;    /* the waiter failed: it is not opened again before then */
    uint64_t lock_epoch;    /* whose lock it waits for, or has */
    uint64_t heard_ms;      /* when PostgreSQL last answered */
    uint64_t seen_ms;       /* when the newest sign of life was seen, or the first read succeeded since one failed */
    unsigned reads;         /* that succeeded since then */
    uint64_t yields_until;  /* the owner goes first until then */
    uint64_t epoch, number; /* the newest signs */
};

void pg_standby_init(struct pg_standby *standby, const struct pg_options *options);
void pg_standby_deinit(struct pg_standby *standby);

/* Something new was read of what the owner wrote. */
void pg_standby_note_life(struct pg_standby *standby);

/* The connection of `session`, by which the log is read, broke. */
void pg_standby_note_break(struct pg_standby *standby);

/* Do the options let this node take the log, as its head was read on `session` last? */
bool pg_standby_is_willing(const struct pg_session *session);

/* Looks for signs of life on `session`, whose head is that of the log, and waits for the lock until `until_ms`.
 * *may_take: the owner has ended, or its lease has, and the options let this node take the log. A waiter that fails is
 * opened again later.
 * ERROR_SERVICE_UNAVAILABLE: the connection of `session` broke. */
enum error pg_standby_poll(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms, bool *may_take,
                           struct failure *failure);

#endif
