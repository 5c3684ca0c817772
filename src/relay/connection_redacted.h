/* A PostgreSQL connection string without passwords, fit to be shown. */
#ifndef TALLY_RELAY_CONNECTION_REDACTED_H
#define TALLY_RELAY_CONNECTION_REDACTED_H

#include "base/buffer.h"
#include "relay/step.h"

/* STEP_UNFIT, with the fault set, if libpq can't read the connection string or would read it otherwise than it was
 * meant: a password that stands in a URI as it is may end at its first @ or /, and what follows be taken for the host.
 * The text repeats nothing that could be a part of a password. */
enum step connection_check(const char *connection, struct fault *fault);

/* Appends what libpq reads out of the connection string, or URI, as keywords: "host=db user=app". What libpq calls a
 * secret is left out. A string that does not pass connection_check() is not shown at all, because any part of it could
 * be a password. */
void connection_redact(const char *connection, struct buffer *text);

#endif
