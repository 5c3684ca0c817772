/* The lease of an outbox in MySQL or MariaDB: the fence is the row of tally_lease, the sign of life that of tally_beat.
 * A lock that the owner's connection holds (GET_LOCK) wakes a stand-by at once when that connection ends; it decides
 * nothing. */
#ifndef TALLY_RELAY_LEASE_MYSQL_H
#define TALLY_RELAY_LEASE_MYSQL_H

#include "relay/lease.h"
#include "relay/spec.h"

/* Never fails, and connects only when it is called; a connection that broke comes back with the next call. The spec is
 * copied as far as it is needed. */
struct lease *lease_mysql_create(const struct relay_spec *spec);

#endif
