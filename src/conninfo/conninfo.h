/* A connection string of PostgreSQL, or a URI, as libpq reads it, and nothing of its secrets for people to see. */
#ifndef TALLY_CONNINFO_CONNINFO_H
#define TALLY_CONNINFO_CONNINFO_H

#include "base/buffer.h"
#include <libpq-fe.h>
#include <stdbool.h>

#define CONNINFO_WRONG_SIZE ((size_t)640)

/* Is it a URI, postgres://… or postgresql://…? */
bool conninfo_is_uri(const char *conninfo);

/* What libpq reads out of it; the caller must PQconninfoFree() it. NULL: libpq can't read it, or would read it
 * otherwise than it was meant: a password that stands in a URI as it is may end at its first @ or /, and what follows
 * be taken for the host. `wrong` then says so behind the name of the thing, "can't be read: …", and repeats nothing
 * that could be a part of a password. */
PQconninfoOption *conninfo_parse(const char *conninfo, char wrong[CONNINFO_WRONG_SIZE]);

/* The value of a keyword; NULL: it has none. */
const char *conninfo_option(const PQconninfoOption *options, const char *keyword);

/* Has it anything that libpq calls a secret: a password, or that of a key? */
bool conninfo_has_secret(const PQconninfoOption *options);

/* Appends KEYWORD=VALUE, so that libpq can read it again. The option has a value. */
void conninfo_append(const PQconninfoOption *option, struct buffer *text);

/* Appends what libpq reads out of it as keywords: "host=db user=app". Secrets are left out. A string that does not pass
 * conninfo_parse() is not shown at all, because any part of it could be a password. A URL of MySQL stays a URL
 * (mysql_url.h). */
void conninfo_redact(const char *conninfo, struct buffer *text);

#endif
