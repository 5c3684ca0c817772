#include "postgres/session.h"

#include "base/assert.h"
#include "platform/monotonic.h"
#include "platform/random.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_PAUSE_MS 50u
#define SERVER_VERSION_MIN 130000u

void pg_session_init(struct pg_session *session, const struct pg_options *options, const char *role)
{
    *session = (struct pg_session){.options = options};
    char name[64];
    (void)snprintf(name, sizeof(name), "%s of %s", role, options->log);
    pg_link_init(&session->link, options->conninfo, options->gate, name, options->lease_ms);
}

void pg_session_deinit(struct pg_session *session)
{
    pg_link_close(&session->link);
}

enum pg_outcome pg_session_run(struct pg_session *session, enum pg_statement statement, const struct pg_values *values,
                               uint64_t until_ms, PGresult **result, struct failure *failure)
{
    if (pg_link_is_open(&session->link))
        return pg_link_run(&session->link, statement, pg_statement_texts[statement], values, until_ms, result, failure);
    (void)failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "the connection to PostgreSQL broke before.");
    return PG_UNKNOWN;
}

/* --- is the server fit for a log? --------------------------------------------------------------------------------- */

enum check_column {
    CHECK_IS_REPLICA,
    CHECK_FSYNC,
    CHECK_FULL_PAGE_WRITES,
    CHECK_SYNCHRONOUS_COMMIT,
    CHECK_HAS_STANDBY_NAMES,
    CHECK_ISOLATION,
    CHECK_MESSAGES,
    CHECK_VERSION,
    CHECK_SYSTEM_ID,
    CHECK_BACKEND,
};

static enum error refuse(struct failure *failure, const char *what, const char *advice)
{
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "The PostgreSQL of the log is not safe for it: %s. %s.",
                       what, advice);
}

static enum error judge_server(const struct pg_session *session, const PGresult *row, struct failure *failure)
{
    if (pg_number(row, 0, CHECK_IS_REPLICA) != 0)
        return refuse(failure, "the server is a replica (pg_is_in_recovery())",
                      "Name the primary, or all hosts, in the connection string");
    if (pg_number(row, 0, CHECK_FSYNC) == 0)
        return refuse(failure, "fsync is off", "Set fsync = on: a crash of its machine would lose messages");
    if (pg_number(row, 0, CHECK_FULL_PAGE_WRITES) == 0)
        return refuse(failure, "full_page_writes is off",
                      "Set full_page_writes = on: a crash of its machine could tear pages of the log");
    if (pg_number(row, 0, CHECK_SYNCHRONOUS_COMMIT) == 0 || pg_number(row, 0, CHECK_ISOLATION) == 0 ||
        pg_number(row, 0, CHECK_MESSAGES) == 0)
        return refuse(failure,
                      "synchronous_commit, default_transaction_isolation or client_min_messages did not stay as this "
                      "connection set it",
                      "Is there a pooler in between? Connect to the server itself");
    const bool must_have_replicas = session->options->wants_replicas && !session->options->is_patient;
    if (must_have_replicas && pg_number(row, 0, CHECK_HAS_STANDBY_NAMES) == 0)
        return refuse(failure, PG_NO_REPLICA, "Name a synchronous standby in PostgreSQL, or set log-replicas to 0");
    if (pg_number(row, 0, CHECK_VERSION) < SERVER_VERSION_MIN)
        return refuse(failure, "its version is older than 13", "Use PostgreSQL 13 or newer");
    return OK;
}

/* A pooler in transaction mode may give each transaction another server process. What the last one has set or prepared
 * then does not count. A process that differs from the one that said hello is such a pooler. */
static enum error check_pooler(const struct pg_session *session, const PGresult *row, struct failure *failure)
{
    if ((uint64_t)PQbackendPID(session->link.connection_owned) == pg_number(row, 0, CHECK_BACKEND))
        return OK;
    return refuse(failure, "a pooler stands in front of it (another server process answers than the one connected to)",
                  "Connect to the server itself");
}

static enum error check_schema(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    PGresult *result = NULL;
    const enum pg_outcome outcome =
        pg_link_exec(&session->link, "SELECT number FROM tally_log.version", until_ms, &result, failure);
    if (outcome == PG_UNKNOWN)
        return ERROR_SERVICE_UNAVAILABLE;
    if (outcome == PG_REFUSED)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "The database has no tables for a log, or its role may not read them (SQLSTATE %s): "
                           "\"tallyd --log … --init\" makes them.",
                           session->link.state);
    const int number = PQntuples(result) == 1 ? atoi(PQgetvalue(result, 0, 0)) : 0;
    PQclear(result);
    if (number == PG_SCHEMA_VERSION)
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "The tables of the log have version %d, and this tallyd knows %d: %s.", number,
                       PG_SCHEMA_VERSION,
                       number > PG_SCHEMA_VERSION
                           ? "start the newer tallyd"
                           : "run tallyd --init with the same --log, which brings them to that version while other "
                             "nodes serve (docs/how-to/run-a-cluster.md, A new version)");
}

static enum error check_server(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    PGresult *row = NULL;
    const struct pg_values none = {0};
    const enum pg_outcome outcome = pg_session_run(session, PG_CHECK, &none, until_ms, &row, failure);
    if (outcome != PG_DONE)
        return failure->error;
    enum error error = judge_server(session, row, failure);
    if (error == OK)
        error = check_pooler(session, row, failure);
    session->server_id = pg_number(row, 0, CHECK_SYSTEM_ID);
    PQclear(row);
    return error;
}

enum error pg_session_open(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    if (pg_link_is_open(&session->link))
        return OK;
    session->has_lock = false;
    enum error error = pg_link_open(&session->link, until_ms, failure);
    if (error == OK)
        error = check_server(session, until_ms, failure);
    if (error == OK)
        error = check_schema(session, until_ms, failure);
    if (error != OK)
        pg_link_close(&session->link);
    return error;
}

/* --- the fence ---------------------------------------------------------------------------------------------------- */

static enum pg_outcome register_log(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    uint8_t owner[PG_OWNER_SIZE];
    random_fill(owner, sizeof(owner));
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(session->options->log));
    pg_add_bytes(&values, bytes_make(owner, sizeof(owner)));
    return pg_session_run(session, PG_REGISTER, &values, until_ms, NULL, failure);
}

enum error pg_session_register_node(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    const struct pg_options *options = session->options;
    if (options->address == NULL)
        return OK;
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(options->node));
    pg_add_bytes(&values, bytes_from_string(options->address));
    pg_add_bytes(&values, bytes_from_string(TALLY_VERSION));
    return pg_session_run(session, PG_NODE, &values, until_ms, NULL, failure) == PG_DONE ? OK : failure->error;
}

static void decode_head(const PGresult *row, struct pg_head *head)
{
    *head = (struct pg_head){.id = (uint32_t)pg_number(row, 0, 0),
                             .epoch = pg_number(row, 0, 1),
                             .system_id = pg_number(row, 0, 4),
                             .now_ms = pg_number(row, 0, 5),
                             .read_ms = pg_now_ms(),
                             .is_away = pg_number(row, 0, 7) != 0};
    const struct bytes owner = pg_field(row, 0, 2);
    ASSERT(owner.size == PG_OWNER_SIZE);
    memcpy(head->owner, owner.ptr, PG_OWNER_SIZE);
    pg_text(row, 0, 3, head->node.name, sizeof(head->node.name));
    pg_text(row, 0, 6, head->node.address, sizeof(head->node.address));
}

enum pg_outcome pg_session_read_head(struct pg_session *session, struct pg_head *head, uint64_t until_ms,
                                     struct failure *failure)
{
    for (;;) {
        struct pg_values values = {0};
        pg_add_bytes(&values, bytes_from_string(session->options->log));
        PGresult *row = NULL;
        enum pg_outcome outcome = pg_session_run(session, PG_HEAD, &values, until_ms, &row, failure);
        const bool is_found = outcome == PG_DONE && PQntuples(row) == 1;
        if (is_found)
            decode_head(row, head);
        PQclear(row);
        if (outcome != PG_DONE || is_found)
            return outcome;
        outcome = register_log(session, until_ms, failure);
        if (outcome != PG_DONE)
            return outcome;
    }
}

enum pg_outcome pg_session_list_files(struct pg_session *session, uint64_t until_ms, PGresult **rows,
                                      struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, session->head.id);
    return pg_session_run(session, PG_FILES, &values, until_ms, rows, failure);
}

enum pg_outcome pg_session_try_lock(struct pg_session *session, uint64_t epoch, bool *is_mine, uint64_t until_ms,
                                    struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, session->head.id);
    pg_add_i64(&values, epoch);
    PGresult *row = NULL;
    const enum pg_outcome outcome = pg_session_run(session, PG_TRY_LOCK, &values, until_ms, &row, failure);
    *is_mine = outcome == PG_DONE && pg_number(row, 0, 0) != 0;
    PQclear(row);
    return outcome;
}

static const char *name_of(const struct pg_head *head)
{
    return head->node.name[0] == '\0' ? "?" : head->node.name;
}

static enum error fail_fenced(const struct pg_head *head, struct failure *failure)
{
    return failure_set(failure, ERROR_LOG_LOCKED, "Node %s owns the log in PostgreSQL now (epoch %" PRIu64 ").",
                       name_of(head), head->epoch);
}

/* This node's own epoch was acknowledged. An epoch is sealed once, so a head that has not come further says that this
 * was taken back (F06). */
static enum error fail_fenced_off(const struct pg_session *session, const struct pg_head *head, struct failure *failure)
{
    if (head->epoch > session->head.epoch)
        return fail_fenced(head, failure);
    return failure_set(failure, ERROR_LOG_LOCKED,
                       PG_LOST "the log is in epoch %" PRIu64 " of node %s, and this node had sealed epoch %" PRIu64
                               " before. Clients may have been told that what it wrote in it is durable.",
                       head->epoch, name_of(head), session->head.epoch);
}

static enum error fail_away(struct failure *failure)
{
    return failure_set(failure, ERROR_LOG_LOCKED, "The log has moved to another PostgreSQL, or is on its way.");
}

static bool is_same_owner(const struct pg_head *one, const struct pg_head *other)
{
    return one->epoch == other->epoch && memcmp(one->owner, other->owner, PG_OWNER_SIZE) == 0;
}

/* Of a restored or cloned database the other one may still be in use (F29). */
static enum error check_system(const struct pg_session *session, const struct pg_head *head, struct failure *failure)
{
    if (head->system_id == 0 || head->system_id == session->server_id)
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "The log was written on another PostgreSQL (system identifier %" PRIu64 ", this one has %" PRIu64
                       "): a copy of its database? If the other one is gone for good, run: UPDATE tally_log.head SET "
                       "system_id = NULL WHERE log = '%s';",
                       head->system_id, session->server_id, session->options->log);
}

/* The UPDATE waits for each statement under way that has the fence. */
static enum pg_outcome seal(struct pg_session *session, const struct pg_head *last, const uint8_t owner[PG_OWNER_SIZE],
                            bool *is_mine, uint64_t until_ms, struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, last->id);
    pg_add_i64(&values, last->epoch);
    pg_add_bytes(&values, bytes_make(last->owner, PG_OWNER_SIZE));
    pg_add_bytes(&values, bytes_make(owner, PG_OWNER_SIZE));
    pg_add_bytes(&values, bytes_from_string(session->options->node));
    PGresult *row = NULL;
    const uint64_t began_ms = pg_now_ms();
    const enum pg_outcome outcome = pg_session_run(session, PG_SEAL, &values, until_ms, &row, failure);
    *is_mine = outcome == PG_DONE && PQntuples(row) == 1;
    if (*is_mine)
        session->sealed_ms = began_ms;
    PQclear(row);
    return outcome;
}

static void adopt(struct pg_session *session, const struct pg_head *last, const uint8_t owner[PG_OWNER_SIZE])
{
    session->head = *last;
    session->head.epoch = last->epoch + 1;
    memcpy(session->head.owner, owner, PG_OWNER_SIZE);
    session->head.system_id = session->server_id;
    const char *address = session->options->address == NULL ? "" : session->options->address;
    (void)snprintf(session->head.node.name, PG_NODE_SIZE, "%s", session->options->node);
    (void)snprintf(session->head.node.address, PG_ADDRESS_SIZE, "%s", address);
}

/* Takes the lock of the next epoch first, so that nobody else is given it while this node is alive. False: another node
 * is just beginning that epoch. Until `insists_until` this one leaves it to it. */
static bool may_seal(struct pg_session *session, const struct pg_head *last, uint64_t insists_until, uint64_t until_ms,
                     struct failure *failure)
{
    session->head.id = last->id;
    const enum pg_outcome outcome =
        pg_session_try_lock(session, last->epoch + 1, &session->has_lock, until_ms, failure);
    if (outcome == PG_DONE && !session->has_lock)
        (void)failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "Another node is taking the log in PostgreSQL.");
    return session->has_lock || (outcome == PG_DONE && pg_now_ms() >= insists_until);
}

/* May this node seal the log, whose head was just read? From where, says sealing->last. A failover to another server
 * may have taken back what was found before. */
static bool finds_its_place(struct pg_sealing *sealing, const struct pg_head *head)
{
    const bool is_made =
        head->epoch == sealing->last.epoch + 1 && memcmp(head->owner, sealing->owner, PG_OWNER_SIZE) == 0;
    if (is_made)
        random_fill(sealing->owner, PG_OWNER_SIZE);
    if (is_made || is_same_owner(head, &sealing->from))
        sealing->last = *head;
    return is_same_owner(head, &sealing->last);
}

/* One round of finding out who owns the log, and sealing it. OK with *is_over false: again. A seal of an earlier round
 * that is found may stand on this server alone, if its wait for a replica was cancelled. So the log is sealed once
 * more, from there: only an acknowledged seal shows that all before it is as durable as it must be (L9). */
static enum error seal_round(struct pg_session *session, uint64_t insists_until, uint64_t until_ms, bool *is_over,
                             struct failure *failure)
{
    struct pg_sealing *sealing = &session->sealing;
    struct pg_head head;
    *is_over = false;
    const enum error error = pg_session_open(session, until_ms, failure);
    if (error == ERROR_INVALID_PARAMETER_VALUE)
        return error;
    if (error != OK || pg_session_read_head(session, &head, until_ms, failure) != PG_DONE)
        return OK;
    const enum error system = check_system(session, &head, failure);
    if (system != OK)
        return system;
    if (head.is_away)
        return fail_away(failure);
    if (!finds_its_place(sealing, &head))
        return fail_fenced(&head, failure);
    if (!may_seal(session, &sealing->last, insists_until, until_ms, failure))
        return OK;
    if (seal(session, &sealing->last, sealing->owner, is_over, until_ms, failure) == PG_REFUSED) {
        session->refused_ms = pg_now_ms();
        return failure->error;
    }
    if (*is_over)
        adopt(session, &sealing->last, sealing->owner);
    return OK;
}

/* One that was broken off goes on where it was. */
static void begin_sealing(struct pg_sealing *sealing, const struct pg_head *from)
{
    if (sealing->is_unsure && is_same_owner(&sealing->from, from))
        return;
    *sealing = (struct pg_sealing){.from = *from, .last = *from, .is_unsure = true};
    random_fill(sealing->owner, PG_OWNER_SIZE);
}

static enum error seal_until(struct pg_session *session, struct pg_head from, uint64_t until_ms,
                             struct failure *failure)
{
    enum error error = OK;
    const uint64_t now_ms = pg_now_ms(), insists_until = now_ms + (until_ms > now_ms ? until_ms - now_ms : 0) / 2;
    bool is_over = false;
    begin_sealing(&session->sealing, &from);
    while (error == OK && !is_over) {
        error = seal_round(session, insists_until, until_ms, &is_over, failure);
        session->sealing.is_unsure = !is_over;
        if (error != OK || is_over)
            break;
        if (pg_now_ms() + RETRY_PAUSE_MS >= until_ms)
            return ERROR_SERVICE_UNAVAILABLE; /* with what the last round said */
        sleep_for(RETRY_PAUSE_MS);
    }
    return error;
}

/* Where another node has the lock of the epoch, and did not use it, its letting go would look like this node's end. So
 * this node goes on to the next epoch, if it can have the lock of that. */
enum error pg_session_seal(struct pg_session *session, const struct pg_head *last, uint64_t until_ms,
                           struct failure *failure)
{
    const enum error error = seal_until(session, *last, until_ms, failure);
    if (error != OK || session->has_lock)
        return error;
    bool has_next = false;
    if (pg_session_try_lock(session, session->head.epoch + 1, &has_next, until_ms, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    return has_next ? seal_until(session, session->head, until_ms, failure) : OK;
}

enum error pg_session_check_replicas(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    if (!session->options->wants_replicas)
        return OK;
    const struct pg_values none = {0};
    PGresult *row = NULL;
    if (pg_session_run(session, PG_REPLICAS, &none, until_ms, &row, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    const bool has_replicas = pg_number(row, 0, 0) != 0;
    PQclear(row);
    return has_replicas ? OK : failure_set(failure, ERROR_DISK_FAILED, PG_NO_REPLICA ".");
}

void pg_session_add_fence(const struct pg_session *session, struct pg_values *values)
{
    pg_add_i32(values, session->head.id);
    pg_add_i64(values, session->head.epoch);
    pg_add_bytes(values, bytes_make(session->head.owner, PG_OWNER_SIZE));
}

enum error pg_session_check_fence(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    struct pg_head head;
    if (pg_session_read_head(session, &head, until_ms, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    if (is_same_owner(&head, &session->head))
        return OK;
    return head.is_away ? fail_away(failure) : fail_fenced_off(session, &head, failure);
}

enum error pg_session_regain(struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    const struct pg_head from = session->head;
    pg_link_close(&session->link);
    session->has_lock = false;
    const enum error error = seal_until(session, from, until_ms, failure);
    struct failure reason;
    failure_init(&reason);
    if (error == ERROR_LOG_LOCKED && pg_link_is_open(&session->link) &&
        pg_session_check_fence(session, until_ms, &reason) == ERROR_LOG_LOCKED)
        *failure = reason;
    return error;
}
