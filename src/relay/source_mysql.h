/* MySQL or MariaDB as the source: the tables tally_… of a database, over a connection of the worker's own that comes
 * back by itself: the call that finds it gone answers STEP_UNREACHABLE, the next one connects.
 *
 * The row's presence is its state: a scan reads every row that is there and not in flight, from the lowest id on, and
 * a row is deleted by its id and uid when it is delivered. So a row that commits late is late, and never lost. What a
 * scan passes over are ids that this very connection deleted (source_mysql_floor.c). */
#ifndef TALLY_RELAY_SOURCE_MYSQL_H
#define TALLY_RELAY_SOURCE_MYSQL_H

#include "relay/source.h"
#include "relay/spec.h"

/* Never fails, and connects only when it is called. The spec is copied as far as it is needed. */
struct source *source_mysql_create(const struct relay_spec *spec);

#endif
