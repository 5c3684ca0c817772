/* The outbox in a SQLite database as a source (src/relay/schema/sqlite.sql).
 *
 * SQLite has one writer at a time and AUTOINCREMENT never gives an id twice, so ids become visible in their order, and
 * an id that is not there when a higher one is will never be. There is nothing to settle, as in PostgreSQL: a scan just
 * reads from below. It needs no cursor either, since what is delivered has left. */
#ifndef TALLY_RELAY_SOURCE_SQLITE_H
#define TALLY_RELAY_SOURCE_SQLITE_H

#include "relay/source.h"
#include "relay/spec.h"

/* Never fails, and opens nothing yet: each call opens what is not open, or was replaced. The spec is copied as far as
 * it is needed. */
struct source *source_sqlite_create(const struct relay_spec *spec);

#endif
