/* The lease of an outbox in a SQLite database, for relays of one machine.
 *
 * Who owns it stands in tally_lease and is changed by one transaction that compares: that is the fence. Whether the
 * owner lives is seen in a file beside the database, PATH-tally (or the prefix of the tables):
 * - each owner locks a byte of it, whose place follows from its uuid. The kernel gives the lock back when the process
 *   ends, however it ends, so a stand-by knows at once. It is a lock of an open file description: another relay in the
 *   same process has another one.
 * - its content is the beat. An owner that is stopped keeps its lock, but doesn't beat.
 * The beat is no row, so that a long transaction of the application deposes nobody, and an idle database is not written
 * to. */
#ifndef TALLY_RELAY_LEASE_SQLITE_H
#define TALLY_RELAY_LEASE_SQLITE_H

#include "relay/lease.h"
#include "relay/spec.h"

/* Never fails, and opens nothing yet: each call opens what is not open, or was replaced. The spec is copied as far as
 * it is needed. */
struct lease *lease_sqlite_create(const struct relay_spec *spec);

#endif
