/* disk-min-free: the bytes of the file system that must stay free.
 *
 * Below it, requests that would add to the log are refused with a 503, which SDKs repeat. Requests that end something
 * go on, using the reserve (disk_guard.h), so that a full disk can be emptied. While there is no room at all, every
 * write is refused until a snapshot has freed a segment. */
#ifndef TALLY_API_DISK_LIMIT_H
#define TALLY_API_DISK_LIMIT_H

#include "api/action.h"

/* ERROR_DISK_IS_FULL, described, if a call with this growth must be refused now. O(1). */
enum error disk_limit_check(struct call *call, enum growth growth);

/* The same for a whole call of this action: while no event has room, only reads may go on. O(1). */
enum error disk_limit_check_action(struct call *call);

/* The same for a call whose decision may yield more than namespace_decision_size_max(). On a disk with room the
 * decision may still be too large, and OK is returned. O(1). */
enum error disk_limit_check_size(struct call *call);

/* May nothing be decided? O(1). */
bool disk_limit_is_spent(const struct api *api);

#endif
