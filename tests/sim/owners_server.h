/* A simulated PostgreSQL: the statements of postgres/statements.h by their numbers, on tables in memory.
 *
 * What it models: a statement is a transaction. A fenced one holds the row of the log FOR SHARE from the moment when it
 * runs until its commit can be seen; a seal waits for those, and those that come later wait for the seal, and look
 * again then (READ COMMITTED). A commit goes to the log of the server (WAL), is flushed, and with synchronous
 * replication waits for the replica; only then can it be seen. A backend whose client is gone goes on to the end of its
 * statement. A restart keeps what was flushed, seen or not; a failover keeps what the replica has.
 *
 * Nothing here is freed: a seed has a process of its own. */
#ifndef TALLY_TESTS_SIM_OWNERS_SERVER_H
#define TALLY_TESTS_SIM_OWNERS_SERVER_H

#include "base/bytes.h"
#include "postgres/session.h"

struct pg_conn; /* libpq's */

enum replication {
    REPLICATION_NONE,  /* one server: it restarts, and nothing else */
    REPLICATION_SYNC,  /* a failover keeps everything that was acknowledged without a warning */
    REPLICATION_ASYNC, /* a failover may lose the newest commits */
};

struct server_settings {
    uint64_t seed;
    enum replication replication;
    uint32_t lag_ms_max; /* of the replica */
    bool is_traced;
};

void server_init(const struct server_settings *settings);

/* --- connections -------------------------------------------------------------------------------------------------- */

struct backend;

#define STATEMENT_TEXT (-1) /* the number of one that comes as a text */
#define STATEMENT_PREPARE (-2)

struct statement {
    int number;
    char text[160];
    int count;
    struct bytes values[PG_VALUES_MAX];
};

/* A client has asked for a connection; NULL: refused. */
struct backend *server_accept(struct pg_conn *connection);
int server_pid(const struct backend *backend);

/* How long the connection may be silent before it is given up, as its client has set it. */
uint64_t server_patience_ms(const struct backend *backend);

/* A statement has arrived. */
void server_take(struct backend *backend, const struct statement *statement);

/* The client closed the connection, or is gone without a word. */
void server_hang_up(struct backend *backend);

/* libpq's side: an answer leaves for the client; the connection ends. */
void connection_answer(struct pg_conn *connection, struct pg_result *result);
void connection_end(struct pg_conn *connection);

/* --- faults ------------------------------------------------------------------------------------------------------- */

bool server_is_up(void);

/* Ends all connections, and comes back after a while. A crash loses what was not flushed. */
void server_restart(uint64_t down_ms);

/* The replica becomes the server. Its clock differs by so much. */
void server_fail_over(uint64_t down_ms, int64_t clock_ms);

/* Nothing reaches the replica until then. */
void server_stall_replica(uint64_t until);

/* Every statement takes so much longer until then. */
void server_slow_down(uint64_t until, uint32_t more_ms);

/* One backend that works stands still until then. False: none works. */
bool server_stop_backend(uint64_t until);

/* An administrator ends a connection that waits for the replica, or only its wait. False: none waits. */
bool server_cancel_wait(bool ends_connection);

/* An administrator ends a connection. */
void server_terminate_backend(void);

/* No room until then: what writes is refused. */
void server_fill_disk(uint64_t until);

/* No new faults. A backend that stands still goes on when its time has come. */
void server_calm(void);

/* --- what the judge may know -------------------------------------------------------------------------------------- */

/* A failover has lost commits since the beginning: any, or those of a frame. */
bool server_has_lost(void);
bool server_has_lost_frames(void);

/* Is this commit, by its number, in the log of the server for good: flushed, and on the replica if it must be? */
bool server_is_durable(uint64_t commit);

uint64_t server_wall_ms(void);
uint64_t server_statements(void);
uint64_t server_commits(void);

#endif
