/* Rows that replicas have (P25). Behind each scan stands the question how far the log of the server is; what the scan
 * saw was written before that. When enough replicas have flushed so much, no failover to one of them forgets a row.
 *
 * A position is valid only for its own connection: after a reconnect the server may have crashed or be another one, and
 * its log may hold something else at that position. */
#include "relay/source_postgres_parts.h"
#include <stdio.h>

#define POSITION_TEXT_SIZE 18u /* two numbers of 32 bits in hexadecimal digits, a slash, a NUL */

enum step replicas_send_position(struct source_postgres *self, struct fault *fault)
{
    const struct query query = {.statement = STATEMENT_POSITION, .is_binary = true};
    return postgres_send(&self->postgres, &query, fault);
}

enum step replicas_receive_position(struct source_postgres *self, struct rows *rows, struct fault *fault)
{
    PGresult *result;
    enum step step = postgres_receive(&self->postgres, &result, fault);
    if (step == STEP_OK) {
        rows->read_position = postgres_number(result, 0, 0);
        rows->read_connection = self->postgres.connections;
    }
    PQclear(result);
    return step;
}

static void report_missing(const struct source_postgres *self, const PGresult *result, struct fault *fault)
{
    fault_set(fault, STEP_OK,
              "waits for %u replica%s to flush (PublishAfterReplicas); %llu of them %s there, and %llu %s. Nothing is "
              "lost: rows stay in the outbox until the replicas are back",
              self->replica_count, self->replica_count == 1 ? "" : "s",
              (unsigned long long)postgres_number(result, 0, 1), postgres_number(result, 0, 1) == 1 ? "is" : "are",
              (unsigned long long)postgres_number(result, 0, 2), postgres_number(result, 0, 2) == 1 ? "has" : "have");
}

/* What the server itself has not flushed it sends to no replica, and it may take its time: nobody waits for the commit
 * of an asynchronous transaction, nor for what the scan itself has written as it tidied up pages. At the end of a page,
 * besides, the position stands behind the head of the next one, which is written with the next record. So there is a
 * commit, once for each position. */
static enum step push(struct source_postgres *self, uint64_t position, struct fault *fault)
{
    if (self->pushed == position)
        return STEP_OK;
    PGresult *result;
    enum step step = source_postgres_run(self, STATEMENT_FLUSH, NULL, 0, &result, fault);
    if (step == STEP_OK)
        self->pushed = position;
    PQclear(result);
    return step;
}

enum step source_postgres_check_durable(struct source *source, const struct rows *rows, bool *is_kept,
                                        struct fault *fault)
{
    struct source_postgres *self = source_postgres_of(source);
    *is_kept = self->replica_count == 0;
    if (*is_kept)
        return STEP_OK;
    if (self->postgres.connection_owned == NULL || self->postgres.connections != rows->read_connection)
        return fault_set(fault, STEP_UNREACHABLE,
                         "the connection over which rows were read broke before replicas had them");
    char position[POSITION_TEXT_SIZE];
    snprintf(position, sizeof(position), "%X/%X", (unsigned)(rows->read_position >> 32), (unsigned)rows->read_position);
    PGresult *result;
    enum step step = source_postgres_run(self, STATEMENT_REPLICAS, (const char *[]){position}, 1, &result, fault);
    if (step == STEP_OK) {
        bool is_flushed = postgres_number(result, 0, 0) != 0;
        *is_kept = is_flushed && postgres_number(result, 0, 2) >= self->replica_count;
        if (!is_flushed)
            step = push(self, rows->read_position, fault);
    }
    if (step == STEP_OK) {
        if (!*is_kept)
            report_missing(self, result, fault);
    }
    PQclear(result);
    return step;
}
