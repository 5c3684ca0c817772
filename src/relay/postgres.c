/* See postgres.h. The checks of a new connection stand in postgres_check.c. */
#include "relay/postgres.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "conninfo/conninfo.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/postgres_check.h"
#include "relay/schema.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_MS 250u /* how often one that waits looks whether it is interrupted */

/* --- made and unmade ---------------------------------------------------------------------------------------------- */

static char *copy_string(const char *string)
{
    return (char *)(uintptr_t)memory_duplicate(bytes_make(string, strlen(string) + 1)).ptr;
}

char *postgres_with_schema(const char *text, const char *schema)
{
    struct buffer out;
    buffer_init(&out);
    for (const char *at; (at = strstr(text, "@.")) != NULL; text = at + 1) {
        buffer_append(&out, text, (size_t)(at - text));
        buffer_append(&out, schema, strlen(schema));
    }
    buffer_append(&out, text, strlen(text) + 1);
    return (char *)out.data_owned;
}

void postgres_init(struct postgres *postgres, const struct relay_spec *spec, const char *role, const char *const *texts,
                   unsigned text_count, unsigned patience_ms)
{
    ASSERT(text_count > 0 && patience_ms > 0);
    *postgres =
        (struct postgres){.statement_count = text_count,
                          .patience_ms = patience_ms,
                          .is_pooled = spec->is_pooled,
                          .sees_replicas = spec->replica_count > 0,
                          .conninfo_owned = copy_string(spec->connection_owned == NULL ? "" : spec->connection_owned)};
    const char *schema = spec->table_owned == NULL ? SCHEMA_NAME_DEFAULT : spec->table_owned;
    postgres->is_schema_sound = schema_name_is_sound(schema);
    snprintf(postgres->schema, sizeof(postgres->schema), "%s", schema);
    postgres->role = role;
    snprintf(postgres->application, sizeof(postgres->application), "tally relay, %s", role);
    postgres->statements_owned = memory_allocate(text_count * sizeof(*postgres->statements_owned));
    for (unsigned i = 0; i < text_count; i++)
        postgres->statements_owned[i] = postgres_with_schema(texts[i], postgres->schema);
}

void postgres_deinit(struct postgres *postgres)
{
    postgres_disconnect(postgres);
    for (unsigned i = 0; i < postgres->statement_count; i++)
        free(postgres->statements_owned[i]);
    free(postgres->statements_owned);
    free(postgres->conninfo_owned);
}

void postgres_disconnect(struct postgres *postgres)
{
    PQfinish(postgres->connection_owned);
    postgres->connection_owned = NULL;
}

void postgres_interrupt(struct postgres *postgres)
{
    atomic_store(&postgres->is_interrupted, true);
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

static bool names_several(const PQconninfoOption *options, const char *keyword)
{
    const char *value = conninfo_option(options, keyword);
    return value != NULL && strchr(value, ',') != NULL;
}

/* With several hosts and no target_session_attrs, the primary is meant (P19). */
static bool needs_target(const PQconninfoOption *options)
{
    return (names_several(options, "host") || names_several(options, "hostaddr")) &&
           conninfo_option(options, "target_session_attrs") == NULL;
}

/* By default libpq prints notices of the server on standard error, and blocks if nobody reads that. */
static void ignore_notice(void *context, const char *text)
{
    (void)context;
    (void)text;
}

/* The connection string may override the options before it. A host that is down is noticed within about three
 * seconds. */
static PGconn *connect_to(const struct postgres *postgres, bool to_primary)
{
    const char *keywords[] = {"connect_timeout",
                              "keepalives_idle",
                              "keepalives_interval",
                              "keepalives_count",
                              "tcp_user_timeout",
                              "fallback_application_name",
                              "dbname",
                              "client_encoding",
                              "target_session_attrs",
                              NULL};
    const char *values[] = {"3",    "1",          "1", "2", "3000", postgres->application, postgres->conninfo_owned,
                            "UTF8", "read-write", NULL};
    if (!to_primary)
        keywords[ARRAY_LENGTH(keywords) - 2] = NULL;
    PGconn *connection = PQconnectdbParams(keywords, values, 1);
    PQsetNoticeProcessor(connection, ignore_notice, NULL);
    return connection;
}

PGconn *postgres_open(const struct postgres *postgres, struct fault *fault, enum step *step)
{
    char wrong[CONNINFO_WRONG_SIZE];
    PQconninfoOption *options = conninfo_parse(postgres->conninfo_owned, wrong);
    if (options == NULL) {
        *step = fault_set(fault, STEP_UNFIT, "the connection of the source %s", wrong);
        return NULL;
    }
    PGconn *connection = connect_to(postgres, needs_target(options));
    PQconninfoFree(options);
    if (PQstatus(connection) == CONNECTION_OK)
        return connection;
    *step = postgres_fault(fault, STEP_UNREACHABLE, "the PostgreSQL of the source can't be reached",
                           PQerrorMessage(connection));
    PQfinish(connection);
    return NULL;
}

/* Waits for the socket; false when the patience is over, or somebody interrupts. */
static bool wait_for(const struct postgres *postgres, PGconn *connection, short events, uint64_t until_ms)
{
    for (;;) {
        uint64_t now_ms = boottime_ms();
        if (now_ms >= until_ms || atomic_load(&postgres->is_interrupted))
            return false;
        struct pollfd socket = {.fd = PQsocket(connection), .events = events};
        uint64_t left_ms = until_ms - now_ms;
        int ready = poll(&socket, 1, (int)(left_ms < LOOK_MS ? left_ms : LOOK_MS));
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

/* PQexec() and similar calls would wait for ever on a dead line. */
static PGresult *collect(const struct postgres *postgres, PGconn *connection)
{
    uint64_t until_ms = boottime_ms() + postgres->patience_ms;
    PGresult *last = NULL;
    for (;;) {
        while (PQisBusy(connection)) {
            if (!wait_for(postgres, connection, POLLIN, until_ms) || PQconsumeInput(connection) != 1) {
                PQclear(last);
                return NULL;
            }
        }
        PGresult *next = PQgetResult(connection);
        if (next == NULL)
            return last;
        PQclear(last);
        last = next;
    }
}

PGresult *postgres_exec(const struct postgres *postgres, PGconn *connection, const char *text)
{
    return PQsendQuery(connection, text) == 1 ? collect(postgres, connection) : NULL;
}

#define STATEMENT_NAME_SIZE 40u

static void name_statement(const struct postgres *postgres, unsigned statement, char name[STATEMENT_NAME_SIZE])
{
    snprintf(name, STATEMENT_NAME_SIZE, "%s_%u", postgres->role, statement);
}

static enum step prepare(struct postgres *postgres, struct fault *fault)
{
    char name[STATEMENT_NAME_SIZE];
    for (unsigned i = 0; i < postgres->statement_count; i++) {
        name_statement(postgres, i, name);
        PGresult *result = NULL;
        if (PQsendPrepare(postgres->connection_owned, name, postgres->statements_owned[i], 0, NULL) == 1)
            result = collect(postgres, postgres->connection_owned);
        enum step step = postgres_judge(postgres, result, fault);
        PQclear(result);
        if (step != STEP_OK)
            return step;
    }
    return STEP_OK;
}

enum step postgres_connect(struct postgres *postgres, struct fault *fault)
{
    if (postgres->connection_owned != NULL)
        return STEP_OK;
    if (atomic_load(&postgres->is_interrupted))
        return fault_set(fault, STEP_UNREACHABLE, "the relay ends");
    if (!postgres->is_schema_sound)
        return fault_set(
            fault, STEP_UNFIT,
            "the schema's name is \"%s\": it must be 1 to %u lower-case letters, digits and _, and not begin "
            "with a digit",
            postgres->schema, SCHEMA_NAME_SIZE_MAX);
    enum step step = STEP_OK;
    postgres->connection_owned = postgres_open(postgres, fault, &step);
    if (step == STEP_OK)
        step = postgres_check(postgres, fault);
    if (step == STEP_OK && !postgres->is_pooled)
        step = prepare(postgres, fault);
    if (step == STEP_OK &&
        (PQsetnonblocking(postgres->connection_owned, 1) != 0 || PQenterPipelineMode(postgres->connection_owned) != 1))
        step = postgres_fault(fault, STEP_UNREACHABLE, "the connection to PostgreSQL can't be used",
                              PQerrorMessage(postgres->connection_owned));
    if (step == STEP_OK)
        postgres->connections++;
    else
        postgres_disconnect(postgres);
    return step;
}

/* --- statements --------------------------------------------------------------------------------------------------- */

static enum step broken(struct postgres *postgres, const char *reason, struct fault *fault)
{
    enum step step = postgres_fault(fault, STEP_UNREACHABLE, "the connection to PostgreSQL broke", reason);
    postgres_disconnect(postgres);
    return step;
}

static enum step flush(struct postgres *postgres, struct fault *fault)
{
    uint64_t until_ms = boottime_ms() + postgres->patience_ms;
    int left;
    while ((left = PQflush(postgres->connection_owned)) == 1) {
        /* Reads as well: a server that can't send its answers takes no more statements. */
        if (!wait_for(postgres, postgres->connection_owned, POLLIN | POLLOUT, until_ms))
            return broken(postgres, "it did not accept the statement in time", fault);
        if (PQconsumeInput(postgres->connection_owned) != 1)
            return broken(postgres, PQerrorMessage(postgres->connection_owned), fault);
    }
    return left == 0 ? STEP_OK : broken(postgres, PQerrorMessage(postgres->connection_owned), fault);
}

/* Behind a pooler no setting lasts, so each statement sets what it needs in its own transaction. */
static int queue_pooled(struct postgres *postgres, const struct query *query, const int *formats)
{
    return PQsendQueryParams(postgres->connection_owned,
                             "SELECT set_config('plan_cache_mode', 'force_generic_plan', true), "
                             "set_config('enable_seqscan', 'off', true),"
                             "set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)",
                             0, NULL, NULL, NULL, NULL, 0) == 1
               ? PQsendQueryParams(postgres->connection_owned, postgres->statements_owned[query->statement],
                                   query->value_count, NULL, query->values, query->binary_sizes, formats,
                                   query->is_binary)
               : 0;
}

static int queue_prepared(struct postgres *postgres, const struct query *query, const int *formats)
{
    char name[STATEMENT_NAME_SIZE];
    name_statement(postgres, query->statement, name);
    return PQsendQueryPrepared(postgres->connection_owned, name, query->value_count, query->values, query->binary_sizes,
                               formats, query->is_binary);
}

static int queue_query(struct postgres *postgres, const struct query *query)
{
    int formats[QUERY_VALUES_MAX] = {0};
    ASSERT(query->value_count <= QUERY_VALUES_MAX);
    for (int i = 0; query->binary_sizes != NULL && i < query->value_count; i++)
        formats[i] = query->binary_sizes[i] > 0;
    return postgres->is_pooled ? queue_pooled(postgres, query, formats) : queue_prepared(postgres, query, formats);
}

enum step postgres_send(struct postgres *postgres, const struct query *query, struct fault *fault)
{
    ASSERT(query->statement < postgres->statement_count);
    enum step step = postgres_connect(postgres, fault);
    if (step != STEP_OK)
        return step;
    if (queue_query(postgres, query) != 1 || PQpipelineSync(postgres->connection_owned) != 1)
        return broken(postgres, PQerrorMessage(postgres->connection_owned), fault);
    return flush(postgres, fault);
}

/* The next result, or NULL between those of two statements. */
static enum step next_result(struct postgres *postgres, PGresult **result, struct fault *fault)
{
    uint64_t until_ms = boottime_ms() + postgres->patience_ms;
    while (PQisBusy(postgres->connection_owned)) {
        if (!wait_for(postgres, postgres->connection_owned, POLLIN, until_ms))
            return broken(postgres, "no answer came in time", fault);
        if (PQconsumeInput(postgres->connection_owned) != 1)
            return broken(postgres, PQerrorMessage(postgres->connection_owned), fault);
    }
    *result = PQgetResult(postgres->connection_owned);
    return STEP_OK;
}

enum step postgres_receive(struct postgres *postgres, PGresult **result, struct fault *fault)
{
    *result = NULL;
    if (postgres->connection_owned == NULL)
        return fault_set(fault, STEP_UNREACHABLE, "the connection to PostgreSQL broke before its answer");
    PGresult *last = NULL;
    enum step step = STEP_OK;
    for (bool is_over = false; !is_over && step != STEP_UNREACHABLE;) {
        PGresult *next = NULL;
        struct fault lost;
        if (next_result(postgres, &next, &lost) != STEP_OK) {
            *fault = lost;
            step = STEP_UNREACHABLE;
        } else if (next != NULL && PQresultStatus(next) == PGRES_PIPELINE_SYNC) {
            is_over = true;
            PQclear(next);
        } else if (next != NULL) {
            /* Of several statements in one transaction the last one counts, and the first error. */
            if (step == STEP_OK && PQresultStatus(next) != PGRES_PIPELINE_ABORTED)
                step = postgres_judge(postgres, next, fault);
            PQclear(last);
            last = next;
        } else if (PQstatus(postgres->connection_owned) != CONNECTION_OK) {
            step = broken(postgres, PQerrorMessage(postgres->connection_owned), fault);
        }
    }
    if (step == STEP_OK && last != NULL)
        *result = last;
    else
        PQclear(last);
    if (step != STEP_OK)
        postgres_disconnect(postgres); /* whatever happened, a new connection is checked again */
    return step;
}

enum step postgres_run(struct postgres *postgres, const struct query *query, PGresult **result, struct fault *fault)
{
    *result = NULL;
    enum step step = postgres_send(postgres, query, fault);
    return step == STEP_OK ? postgres_receive(postgres, result, fault) : step;
}

/* --- parameters and fields ---------------------------------------------------------------------------------------- */

void postgres_number_to_text(uint64_t number, char text[NUMBER_TEXT_SIZE])
{
    snprintf(text, NUMBER_TEXT_SIZE, "%llu", (unsigned long long)number);
}

void postgres_fence_of(struct postgres_fence *fence, const struct term *term)
{
    postgres_number_to_text(term->epoch, fence->epoch);
    uid_to_text(&term->owner, fence->owner);
}

struct bytes postgres_field(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return bytes_make(NULL, 0);
    return bytes_make(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}

uint64_t postgres_read_number(struct bytes field)
{
    uint64_t number = 0;
    for (size_t i = 0; i < field.size && i < sizeof(number); i++)
        number = number << 8 | field.ptr[i];
    return number;
}

uint64_t postgres_number(const PGresult *result, int row, int column)
{
    return postgres_read_number(postgres_field(result, row, column));
}
