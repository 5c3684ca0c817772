/* Where a log is that is not in the database of its cluster (log_move.h): a connection string as people write it,
 * without a password, in tally_log.head.moved_to.
 *
 * Each node completes it with what its own --log says besides host and port: user, password, certificates. So the
 * password stands in no table, and is changed where it is changed for the cluster. */
#ifndef TALLY_POSTGRES_PLACE_H
#define TALLY_POSTGRES_PLACE_H

#include "base/error.h"

#define PG_PLACE_SIZE 1024u /* with its NUL */

/* Can it stand in that row? ERROR_INVALID_PARAMETER_VALUE: it can't be read, is too long, has a password, or names no
 * host or no database. */
enum error pg_place_check(const char *place, struct failure *failure);

/* The connection string for a place, completed from that of the cluster. The caller frees it. Where one of them can't
 * be read it is `place` as it is, which libpq then refuses. */
char *pg_place_complete(const char *place, const char *cluster);

#endif
