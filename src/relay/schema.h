/* The SQL of an outbox and an inbox, which an operator runs in the database: src/relay/schema/ has the texts, and the
 * build compiles them in. */
#ifndef TALLY_RELAY_SCHEMA_H
#define TALLY_RELAY_SCHEMA_H

#include "base/buffer.h"
#include "relay/spec.h"

#define SCHEMA_NAME_DEFAULT "tally"
#define SCHEMA_NAME_SIZE_MAX 40u

/* The text as it stands in the file, with the name "tally" for the schema (PostgreSQL) or the prefix (the others).
 * NULL: the source has no tables, it is a queue. */
const char *relay_schema_text(enum source_type source);

/* Whether `name` may stand in the place of "tally": 1 to 40 lower-case letters, digits and underscores, no digit first.
 * Such a name needs no quotes in SQL. */
bool schema_name_is_sound(const char *name);

/* Appends the text with another name in it. `name` is sound. */
void schema_write(const char *text, const char *name, struct buffer *out);

#endif
