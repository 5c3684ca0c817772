/* The lease of an outbox in PostgreSQL: the fence is the row of table `lease`, the sign of life that of table `beat`.
 * An advisory lock that the owner's connection holds wakes a stand-by at once when that connection ends; it decides
 * nothing (P18). */
#ifndef TALLY_RELAY_LEASE_POSTGRES_H
#define TALLY_RELAY_LEASE_POSTGRES_H

#include "relay/lease.h"
#include "relay/spec.h"

/* Never fails, and connects only when it is called; a connection that broke comes back with the next call. The spec is
 * copied as far as it is needed. */
struct lease *lease_postgres_create(const struct relay_spec *spec);

#endif
