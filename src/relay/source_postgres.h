/* PostgreSQL as the source: the outbox table of a schema (default `tally`), over a connection of the worker's own that
 * comes back by itself: the call that finds it gone answers STEP_UNREACHABLE, the next one connects.
 *
 * The row's presence is its state. A scan reads from below every live row; its lower bound, the settled floor (P7, P8),
 * lives as long as the connection and the term. */
#ifndef TALLY_RELAY_SOURCE_POSTGRES_H
#define TALLY_RELAY_SOURCE_POSTGRES_H

#include "relay/source.h"
#include "relay/spec.h"

/* Never fails, and connects only when it is called. The spec is copied as far as it is needed. */
struct source *source_postgres_create(const struct relay_spec *spec);

#endif
