/* Checks whether a connection to PostgreSQL suits a relay, and says what its errors mean. For postgres.c. */
#ifndef TALLY_RELAY_POSTGRES_CHECK_H
#define TALLY_RELAY_POSTGRES_CHECK_H

#include "relay/postgres.h"

/* Sets the text "what: reason", with the reason on one line, and returns `step`. */
enum step postgres_fault(struct fault *fault, enum step step, const char *what, const char *reason);

/* STEP_OK if the statement succeeded. Otherwise STEP_UNREACHABLE if the next try may succeed, or STEP_UNFIT if somebody
 * must repair something; the text says how. */
enum step postgres_judge(const struct postgres *postgres, const PGresult *result, struct fault *fault);

/* The text with the schema's name in the place of "@."; the caller frees it. */
char *postgres_with_schema(const char *text, const char *schema);

/* The last result of a text that is not in pipeline mode; NULL if the connection broke, or no answer came in time. */
PGresult *postgres_exec(const struct postgres *postgres, PGconn *connection, const char *text);

/* A further connection to the same database, without any setting or check; NULL with *step and the fault set. */
PGconn *postgres_open(const struct postgres *postgres, struct fault *fault, enum step *step);

/* Sets up a connection that was just made, and refuses what a relay can't work with: a replica (P19), an outbox whose
 * ids do not carry its order or that was copied from elsewhere (P21), missing tables or rights, a pooler that was not
 * announced. */
enum step postgres_check(const struct postgres *postgres, struct fault *fault);

#endif
