/* Who may write to a log in PostgreSQL: a connection, and the (epoch, owner) with which this node has sealed the log.
 *
 * The row in tally_log.head is the fence (statements.h). Safety rests on it alone; the advisory lock only tells a node
 * that waits that the owner's process has ended. One thread at a time. */
#ifndef TALLY_POSTGRES_SESSION_H
#define TALLY_POSTGRES_SESSION_H

#include "postgres/link.h"
#include "postgres/statements.h"

#include <stdatomic.h>

#define PG_NO_REPLICA "log-replicas asks for a replica, but synchronous_standby_names is empty"

/* What every line about a loss has: operators raise an alarm on it (docs/how-to/high-availability.md). */
#define PG_LOST "PostgreSQL has lost writes that it had acknowledged (a failover to an asynchronous replica?): "

#define PG_OWNER_SIZE 16u
#define PG_NODE_SIZE 64u
#define PG_ADDRESS_SIZE 264u /* a name of 255 bytes, a colon, a port */

struct pg_pulse;

struct pg_options {
    const char *conninfo; /* all borrowed */
    const char *log;      /* the log's name: that of the namespace */
    const char *node;     /* this node's name, for people */
    const char *address;  /* where other nodes reach it; empty: nowhere; NULL: it is no node */
    uint32_t lease_ms;    /* an owner that can't append for so long answers nobody, or gives the log up */
    bool claims;          /* takes a log at once if nobody has it, and refuses otherwise, instead of following */
    bool wants_replicas; /* what no replica has is not acknowledged: with synchronous_standby_names empty nobody owns */
    bool is_patient;     /* waits for a server that has them, instead of refusing one that has not */
    /* Not NULL: another log decides about this one. It is followed until this is true, then taken, whoever has it. */
    const atomic_bool *leads;
    /* Asked in each round before this node takes the log, or waits for it; NULL: it may. `is_at_rest`: nobody has it,
     * and nobody need have it. Any thread. */
    bool (*may_take)(void *context, const char *log, bool is_at_rest);
    void *context;
    struct pg_gate *gate;   /* of this server; NULL: it is tried whenever somebody wants it */
    struct pg_pulse *pulse; /* gives an idle owner signs of life (pulse.h); NULL: it does so itself */
};

/* A node, as PostgreSQL knows it. */
struct pg_node {
    char name[PG_NODE_SIZE];       /* empty: none */
    char address[PG_ADDRESS_SIZE]; /* where other nodes reach it; empty: nowhere */
};

/* The row of a log. */
struct pg_head {
    uint32_t id;
    uint64_t epoch;
    uint8_t owner[PG_OWNER_SIZE];
    struct pg_node node; /* that is or was the owner, as the newest sign of life had it; no name: it is at rest */
    uint64_t system_id;  /* of the server where it was sealed; 0: never sealed */
    uint64_t now_ms;     /* the server's clock, since the epoch */
    uint64_t read_ms;    /* when that was read, by pg_now_ms() */
    bool is_away;        /* it is on another server, or on its way (log_move.h): nobody may take it here */
};

/* A seal that this node tries to make. What it has sent without an answer it finds again, however long that takes. */
struct pg_sealing {
    struct pg_head from;          /* the head that it began with */
    struct pg_head last;          /* the newest one that was found, from which the next statement seals */
    uint8_t owner[PG_OWNER_SIZE]; /* that this statement sets */
    bool is_unsure;               /* it was broken off */
};

struct pg_session {
    const struct pg_options *options;
    struct pg_link link;
    bool has_lock;       /* the advisory lock of its own epoch */
    struct pg_head head; /* with the epoch and owner of this node, once it is the owner */
    uint64_t server_id;  /* of the server that the connection goes to */
    struct pg_sealing sealing;
    uint64_t sealed_ms;  /* when the newest statement began that has sealed the log for this node; 0: none has */
    uint64_t refused_ms; /* when PostgreSQL last refused such a statement; 0: never */
};

void pg_session_init(struct pg_session *session, const struct pg_options *options, const char *role);
void pg_session_deinit(struct pg_session *session);

/* Connects, unless there is a connection, and refuses a server that a log is not safe on, by the setting's name:
 * ERROR_INVALID_PARAMETER_VALUE. ERROR_SERVICE_UNAVAILABLE: try again. */
enum error pg_session_open(struct pg_session *session, uint64_t until_ms, struct failure *failure);

/* Reads the row of the log, which is made where there is none. */
enum pg_outcome pg_session_read_head(struct pg_session *session, struct pg_head *head, uint64_t until_ms,
                                     struct failure *failure);

/* Asks for the files of the log: rows of id, name and size. The caller clears them. */
enum pg_outcome pg_session_list_files(struct pg_session *session, uint64_t until_ms, PGresult **rows,
                                      struct failure *failure);

/* Takes the advisory lock of that epoch if nobody has it. */
enum pg_outcome pg_session_try_lock(struct pg_session *session, uint64_t epoch, bool *is_mine, uint64_t until_ms,
                                    struct failure *failure);

/* Ends the epoch of `last` and begins the next one, with a fresh owner and, unless another node has it and does not use
 * it, with its lock. ERROR_LOG_LOCKED: another node was faster, or has the log. ERROR_SERVICE_UNAVAILABLE: nobody
 * knows; pg_session_regain() finds out. */
enum error pg_session_seal(struct pg_session *session, const struct pg_head *last, uint64_t until_ms,
                           struct failure *failure);

/* After an unknown outcome: connects again and again until `until_ms`, and seals from this node's own epoch. Behind it
 * no statement of before can commit any more (L9). ERROR_LOG_LOCKED: the log has another owner.
 * ERROR_SERVICE_UNAVAILABLE: the time is over. */
enum error pg_session_regain(struct pg_session *session, uint64_t until_ms, struct failure *failure);

/* Where replicas are wanted: ERROR_DISK_FAILED if PostgreSQL waits for none, so that what it acknowledged last may be
 * on one machine only. The setting is read anew each time: Patroni empties it when the last standby leaves (F24, F25).
 * ERROR_SERVICE_UNAVAILABLE if that can't be found out. */
enum error pg_session_check_replicas(struct pg_session *session, uint64_t until_ms, struct failure *failure);

/* The first three parameters of a fenced statement. */
void pg_session_add_fence(const struct pg_session *session, struct pg_values *values);

/* Says in PostgreSQL where this node is found. */
enum error pg_session_register_node(struct pg_session *session, uint64_t until_ms, struct failure *failure);

/* PG_UNKNOWN, too, where the connection broke before and was not made anew. */
enum pg_outcome pg_session_run(struct pg_session *session, enum pg_statement statement, const struct pg_values *values,
                               uint64_t until_ms, PGresult **result, struct failure *failure);

/* After a fenced statement that changed nothing: ERROR_LOG_LOCKED, naming the owner, if the log is not this node's any
 * more; OK if it is; ERROR_SERVICE_UNAVAILABLE if that can't be found out. */
enum error pg_session_check_fence(struct pg_session *session, uint64_t until_ms, struct failure *failure);

#endif
