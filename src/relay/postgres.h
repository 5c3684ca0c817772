/* What the source and the lease of PostgreSQL share: a connection with its settings, the checks when it begins, its
 * statements, and the mapping of an error to a step with advice.
 *
 * A connection that breaks is dropped; the next statement connects again. Statements go out in libpq's pipeline mode,
 * each with a sync of its own, so each is a transaction; several may be on their way, and their answers come in the
 * same order. No call waits longer than `patience_ms` for an answer: then the connection counts as broken. One thread,
 * but for postgres_interrupt().
 *
 * `is_pooled`: behind PgBouncer in transaction mode, where the next transaction may meet another server process:
 * nothing is set, prepared or locked that would have to outlive a transaction. */
#ifndef TALLY_RELAY_POSTGRES_H
#define TALLY_RELAY_POSTGRES_H

#include "base/bytes.h"
#include "relay/lease.h"
#include "relay/spec.h"
#include <libpq-fe.h>
#include <stdatomic.h>

struct postgres {
    PGconn *connection_owned; /* NULL: there is none */
    char *conninfo_owned;
    const char *role;     /* "lease" or "rows" */
    char application[64]; /* as pg_stat_activity shows it */
    char schema[64];
    char **statements_owned; /* with the schema's name in them */
    unsigned statement_count;
    unsigned patience_ms;
    unsigned connections; /* counts connections: a new one has nothing of the state of the last */
    bool is_pooled;
    bool sees_replicas;   /* it must: the role needs the right */
    bool is_schema_sound; /* its name */
    atomic_bool is_interrupted;
};

/* `role` is a literal; `texts`: the statements; "@." in them stands for the schema. They are called by their index from
 * then on. */
void postgres_init(struct postgres *postgres, const struct relay_spec *spec, const char *role, const char *const *texts,
                   unsigned text_count, unsigned patience_ms);
void postgres_deinit(struct postgres *postgres);

/* Connects and checks, unless there is a connection. */
enum step postgres_connect(struct postgres *postgres, struct fault *fault);
void postgres_disconnect(struct postgres *postgres);

/* The connection counts as broken from now on, and no new one is made. A call in progress ends soon; one that is
 * connecting takes as long as libpq lets it (connect_timeout). Any thread. */
void postgres_interrupt(struct postgres *postgres);

/* A statement with its parameters; its result comes in binary form, or as text. A value is a text, NULL for a NULL; but
 * one whose size in `binary_sizes` is not 0 has that many bytes and is in binary form. `binary_sizes` NULL: all are
 * texts. */
#define QUERY_VALUES_MAX 8

struct query {
    unsigned statement;
    const char *const *values;
    const int *binary_sizes;
    int value_count;
    bool is_binary;
};

/* Sends a statement; connects if needed. After anything but STEP_OK no answer will come, neither to this statement nor
 * to those before. */
enum step postgres_send(struct postgres *postgres, const struct query *query, struct fault *fault);

/* The answer to the oldest statement under way. The caller must PQclear() *result; it is NULL unless STEP_OK. */
enum step postgres_receive(struct postgres *postgres, PGresult **result, struct fault *fault);

/* Both. */
enum step postgres_run(struct postgres *postgres, const struct query *query, PGresult **result, struct fault *fault);

#define NUMBER_TEXT_SIZE 21u

/* Epoch and owner of a term as parameters. */
struct postgres_fence {
    char epoch[NUMBER_TEXT_SIZE];
    char owner[UID_TEXT_SIZE];
};

void postgres_fence_of(struct postgres_fence *fence, const struct term *term);
void postgres_number_to_text(uint64_t number, char text[NUMBER_TEXT_SIZE]);

/* A binary field; numbers are big-endian in it. */
struct bytes postgres_field(const PGresult *result, int row, int column); /* ptr NULL: NULL */
uint64_t postgres_number(const PGresult *result, int row, int column);    /* of 1, 2, 4 or 8 bytes; 0 for NULL */
uint64_t postgres_read_number(struct bytes field); /* the same of such a field, wherever it stands */

#endif
