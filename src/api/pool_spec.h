/* Turns the arguments of CreatePool and UpdatePool into a struct pool_spec, with the rules as one canonical text.
 * Private to src/api. */
#ifndef TALLY_API_POOL_SPEC_H
#define TALLY_API_POOL_SPEC_H

#include "api/action.h"
#include "core/pools/ticket_pool.h"

/* Reads the arguments of a pool: all of them, or, with `old`, those that change. The spec's views live as long as the
 * call. Rules that mean the same as the old ones keep the old text. ERROR_MISSING_PARAMETER, ERROR_SERIALIZATION,
 * ERROR_INVALID_PARAMETER_VALUE (also for what rules_create() finds), errors of the queues. */
enum error pool_spec_read(struct call *call, const struct ticket_pool *old, struct pool_spec *spec);

/* Do both say the same? */
bool pool_spec_equal(const struct call *call, const struct pool_spec *a, const struct pool_spec *b);

/* All arguments as DescribePool shows them, except the rules. */
void pool_spec_write(struct call *call, const struct pool_spec *spec);

#endif
