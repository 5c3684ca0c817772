/* A connection to MySQL or MariaDB, for the source and for the lease: its settings, the checks when it begins, its
 * statements, and the mapping of an error to a step with advice.
 *
 * A connection that breaks is dropped; the next statement connects again. A statement is a text that is put together in
 * `text` and then run. It has `patience_ms` to be sent and the same again to be answered, all of it, and a new
 * connection has ten seconds, with its checks: then the connection counts as broken. One thread at a time, but for
 * mysql_session_interrupt(). */
#ifndef TALLY_RELAY_MYSQL_SESSION_H
#define TALLY_RELAY_MYSQL_SESSION_H

#include "base/buffer.h"
#include "conninfo/mysql_url.h"
#include "relay/lease.h"
#include "relay/mysql_wait.h"
#include "relay/spec.h"

#include <mysql.h>

struct mysql_session {
    MYSQL *handle_owned; /* NULL: there is no connection */
    struct mysql_url url;
    char wrong[MYSQL_URL_WRONG_SIZE]; /* "": the URL is sound */
    char prefix[64];                  /* of the tables' names, with the underscore */
    const char *role;                 /* "lease" or "rows" */
    unsigned patience_ms;
    struct mysql_wait wait;
    uint64_t open_until_ms; /* while it connects and checks; else 0 */
    unsigned connections;   /* counts connections: a new one has nothing of the state of the last */
    bool is_in_transaction; /* between begin() and end(): no other connection takes its place */
    bool is_mariadb;
    struct buffer text; /* of the statement that is being put together */
};

/* `role` is a literal. */
void mysql_session_init(struct mysql_session *session, const struct relay_spec *spec, const char *role,
                        unsigned patience_ms);
void mysql_session_deinit(struct mysql_session *session);

/* The connection counts as broken from now on, and no new one is made. A call in progress ends within a tenth of a
 * second, unless it looks up the name of a host. Any thread. */
void mysql_session_interrupt(struct mysql_session *session);

/* Connects and checks, unless there is a connection. */
enum step mysql_session_open(struct mysql_session *session, struct fault *fault);
void mysql_session_close(struct mysql_session *session);

/* Appends to the statement. "@_" in the format stands for the prefix of the tables. */
void mysql_session_say(struct mysql_session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a text of somebody else's, in quotes. There must be a connection. */
void mysql_session_quote(struct mysql_session *session, const char *value);

/* Sends the statement, which is empty then; and what it answers: NULL if it yields no rows, else to be freed by the
 * caller. On failure nothing comes any more. There must be a connection. */
enum step mysql_session_send(struct mysql_session *session, struct fault *fault);
enum step mysql_session_receive(struct mysql_session *session, MYSQL_RES **result, struct fault *fault);
/* Both, after connecting if there is no connection. */
enum step mysql_session_run(struct mysql_session *session, MYSQL_RES **result, struct fault *fault);
/* One that yields no rows; how many it changed. `count` may be NULL. */
enum step mysql_session_change(struct mysql_session *session, uint64_t *count, struct fault *fault);

/* A transaction. If its connection breaks, all of its statements fail, up to end(). After end() there is none: it
 * commits if `step` is STEP_OK, or else undoes it. It returns `step`, or how the commit failed: then nobody knows
 * whether it was committed. */
enum step mysql_session_begin(struct mysql_session *session, struct fault *fault);
enum step mysql_session_end(struct mysql_session *session, enum step step, struct fault *fault);

/* A row of a result. */
struct mysql_row {
    MYSQL_ROW columns;
    const unsigned long *sizes;
};

bool mysql_row_next(MYSQL_RES *result, struct mysql_row *row);
/* Borrowed until the result is freed; ptr NULL: NULL. */
struct bytes mysql_row_text(const struct mysql_row *row, unsigned column);
/* 0 for NULL. */
uint64_t mysql_row_number(const struct mysql_row *row, unsigned column);
/* An age in milliseconds, never negative: a clock that was set back made nothing younger than now. */
uint64_t mysql_row_age(const struct mysql_row *row, unsigned column);
/* False: it is no uid. */
bool mysql_row_uid(const struct mysql_row *row, unsigned column, struct uid *uid);

/* How old a time of these tables is, in milliseconds; for texts. */
#define MYSQL_AGE_MS(column) "TIMESTAMPDIFF(MICROSECOND, " column ", UTC_TIMESTAMP(6)) DIV 1000"

/* --- for mysql_session.c and mysql_check.c -------------------------------------------------------------------- */

/* What the last error of the handle means. Drops the connection where only a fresh one can help. */
enum step mysql_session_failed(struct mysql_session *session, struct fault *fault);
/* Sets up a connection that was just made, and refuses what a relay can't work with: a replica (P19), a server that is
 * too old, an outbox whose ids do not carry its order or that was copied from elsewhere (P21), missing tables or
 * rights, tables that know no transactions. */
enum step mysql_session_check(struct mysql_session *session, struct fault *fault);

#endif
