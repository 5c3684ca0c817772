/* memory-max: how many bytes the state of the daemon may take, all namespaces together (base/accounted.h).
 *
 * At the limit, requests that would make the state grow are refused with a 503, which SDKs repeat. Requests that end or
 * only change something go on, so that a full server can be emptied. The server's own additions (completion messages,
 * dead letters, results of matches) were promised and are never refused. Requests that free about as much as they take
 * may go an eighth above the limit. */
#ifndef TALLY_API_MEMORY_LIMIT_H
#define TALLY_API_MEMORY_LIMIT_H

#include "api/action.h"

/* Does the state take as much as it may? O(1). */
bool memory_limit_is_reached(const struct front *front);

/* ERROR_MEMORY_IS_FULL, described, if a call with this growth must be refused now. O(1). */
enum error memory_limit_check(struct call *call, enum growth growth);

#endif
