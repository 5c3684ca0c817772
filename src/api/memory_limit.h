/* memory-max: the bytes that the state of the daemon, of all its namespaces together, may take (base/accounted.h).
 *
 * At the limit whoever would make the state grow is refused with a 503 that SDKs repeat; whoever ends something, or
 * only changes what is there, goes on, so that a full server can be emptied. What the server does on its own
 * (completion messages, dead letters, results of matches) was promised and is never refused. An eighth of the limit
 * above it is room for what gives back about as much as it takes. */
#ifndef TALLY_API_MEMORY_LIMIT_H
#define TALLY_API_MEMORY_LIMIT_H

#include "api/action.h"

/* Does the state take as much as it may? O(1). */
bool memory_limit_is_reached(const struct front *front);

/* ERROR_MEMORY_IS_FULL, described, if a call that makes the state grow so must be refused now. O(1). */
enum error memory_limit_check(struct call *call, enum growth growth);

#endif
