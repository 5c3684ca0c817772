/* A connection to PostgreSQL for a log: opened with the settings that a log needs, and never waited for longer than its
 * caller says.
 *
 * A statement has one of three outcomes. It was done. It was refused: the server said so, and nothing has changed. Or
 * nobody knows: the connection broke, no answer came in time, or the server warns that a commit is durable on itself
 * only. Then the connection is closed, and the caller finds out (settle() in log_write.c). A cancel request is never
 * sent: a commit that waits for a replica would count as done (invariant L23).
 *
 * Times are milliseconds of pg_now_ms(), this machine's clock since it was booted. One thread at a time, but for
 * pg_link_is_whole(). */
#ifndef TALLY_POSTGRES_LINK_H
#define TALLY_POSTGRES_LINK_H

#include "base/bytes.h"
#include "base/error.h"
#include "postgres/clock.h"
#include "postgres/gate.h"
#include <libpq-fe.h>
#include <stdatomic.h>

enum pg_outcome { PG_DONE, PG_REFUSED, PG_UNKNOWN };

#define PG_STATE_SIZE 6u /* an SQLSTATE and its NUL */

struct pg_link {
    PGconn *connection_owned;  /* NULL: there is none */
    const char *conninfo;      /* borrowed */
    char application[64];      /* as pg_stat_activity shows it */
    uint32_t patience_ms;      /* the server keeps a connection that went silent for so long, or longer */
    struct pg_host host;       /* of several: where it is, or begins */
    bool is_pinned;            /* it uses no other host */
    struct pg_gate *gate;      /* of all hosts; borrowed, or NULL */
    bool gives_way;            /* at the gate, to others */
    uint64_t prepared;         /* a bit for each statement (statements.h) that this connection has */
    bool is_relaxed;           /* commits are not waited for; see pg_link_relax() */
    bool is_unreplicated;      /* the server warned so since the last statement was sent */
    bool has_ended;            /* the server said so while no statement was under way */
    _Atomic int watched;       /* the socket, for other threads, since pg_link_watch(); -1: there is none */
    _Atomic unsigned steps;    /* statements that began or ended: odd while one is under way */
    char state[PG_STATE_SIZE]; /* of the last refusal */
};

/* `gate` is that of the server, or NULL. `role` says in pg_stat_activity what the connection is for. A connection that
 * was cut off ends in the server `patience_ms` after the last sign of life, at the earliest. */
void pg_link_init(struct pg_link *link, const char *conninfo, struct pg_gate *gate, const char *role,
                  uint32_t patience_ms);
void pg_link_close(struct pg_link *link);
bool pg_link_is_open(const struct pg_link *link);

/* From here on pg_link_is_whole() may say yes, until this connection is closed. */
void pg_link_watch(struct pg_link *link);

/* Does the watched connection live, as far as this machine can know: the server has not closed it, nor said anything
 * unasked, which may be its end? Any thread; costs a system call. */
bool pg_link_is_whole(const struct pg_link *link);

/* Reads what the server said unasked. False: the connection was broken, and is closed now. */
bool pg_link_check(struct pg_link *link, struct failure *failure);

/* Connects, to a server that takes writes where there are several hosts (connect.h), and makes its settings. Where the
 * call failed, or a statement was not answered in time or not replicated, that host is passed over: the next call
 * begins with the next one, and so do the links that are made later for the same gate. It may be a primary of the past,
 * which waits for a replica that will not come (F14). Where there is a gate, a server that can't be reached is tried
 * when that says.
 * ERROR_SERVICE_UNAVAILABLE: it can't be reached, or not before `until_ms`. ERROR_INVALID_PARAMETER_VALUE: the
 * connection string is none. */
enum error pg_link_open(struct pg_link *link, uint64_t until_ms, struct failure *failure);

/* From here on commits are not waited for, or again. What is not waited for is durable with the next commit that is. */
enum pg_outcome pg_link_relax(struct pg_link *link, bool is_relaxed, uint64_t until_ms, struct failure *failure);

/* Runs a text without parameters; the result of its last statement is in text form. The caller must PQclear() *result,
 * which is NULL unless PG_DONE; `result` may be NULL. After anything else `failure` says why. */
enum pg_outcome pg_link_exec(struct pg_link *link, const char *text, uint64_t until_ms, PGresult **result,
                             struct failure *failure);

/* --- prepared statements ------------------------------------------------------------------------------------------ */

#define PG_VALUES_MAX 8u

/* Parameters in binary form. The bytes are borrowed. */
struct pg_values {
    const char *values[PG_VALUES_MAX];
    int sizes[PG_VALUES_MAX];
    uint8_t numbers[PG_VALUES_MAX][8];
    int count;
};

void pg_add_i32(struct pg_values *values, uint32_t number);
void pg_add_i64(struct pg_values *values, uint64_t number);
void pg_add_bytes(struct pg_values *values, struct bytes bytes); /* text, uuid, bytea, or an encoded array */

/* Runs statement `number` (less than 64), whose text is prepared once for each connection. The result is in binary
 * form; for the rest see pg_link_exec(). */
enum pg_outcome pg_link_run(struct pg_link *link, unsigned number, const char *text, const struct pg_values *values,
                            uint64_t until_ms, PGresult **result, struct failure *failure);

/* The same in two steps, for a statement that may take long: it is sent, and its outcome is asked for. PG_DONE with
 * *is_over false: there is none until `until_ms`. Nothing else may be sent before there is one. */
enum pg_outcome pg_link_send(struct pg_link *link, const char *text, uint64_t until_ms, struct failure *failure);
enum pg_outcome pg_link_await(struct pg_link *link, uint64_t until_ms, bool *is_over, struct failure *failure);

/* A COPY ... FROM STDIN: `text` begins it, its rows come in any number of parts, and at its end the server says what
 * became of it. After anything but PG_DONE it is over, and the connection is only good for being closed. */
enum pg_outcome pg_link_begin_copy(struct pg_link *link, const char *text, uint64_t until_ms, struct failure *failure);
enum pg_outcome pg_link_put_copy(struct pg_link *link, struct bytes rows, uint64_t until_ms, struct failure *failure);
enum pg_outcome pg_link_end_copy(struct pg_link *link, uint64_t until_ms, struct failure *failure);

/* From here on it connects to that host and to no other. */
void pg_link_pin(struct pg_link *link, struct pg_host host);

/* Gives `to`, which has none, the connection of `from`. */
void pg_link_move(struct pg_link *to, struct pg_link *from);

/* How many rows a statement has changed. */
uint64_t pg_changed(const PGresult *result);

/* Fields of a binary result. */
uint64_t pg_number(const PGresult *result, int row, int column);    /* of 1, 2, 4 or 8 bytes; 0 for NULL */
struct bytes pg_field(const PGresult *result, int row, int column); /* ptr NULL: NULL */

/* The same as a string in `text`, cut where that ends; empty for NULL. */
void pg_text(const PGresult *result, int row, int column, char *text, size_t size);

#endif
