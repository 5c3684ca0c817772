/* disk-min-free: the bytes of the file system that must stay free.
 *
 * Below it whoever would make the log keep more is refused with a 503 that SDKs repeat; whoever ends something goes on,
 * out of the reserve (disk_guard.h), so that a full disk can be emptied. While there is no room at all, whatever would
 * be written is refused, until a snapshot has let a segment go. */
#ifndef TALLY_API_DISK_LIMIT_H
#define TALLY_API_DISK_LIMIT_H

#include "api/action.h"

/* ERROR_DISK_IS_FULL, described, if a call that makes the state grow so must be refused now. O(1). */
enum error disk_limit_check(struct call *call, enum growth growth);

/* The same for a call of this action as a whole: while no event has room, only what reads may go on. O(1). */
enum error disk_limit_check_action(struct call *call);

/* The same for a call whose decision may yield more than namespace_decision_size_max(): on a disk with room it may be
 * too large all the same, and OK is returned. O(1). */
enum error disk_limit_check_size(struct call *call);

/* May nothing be decided? O(1). */
bool disk_limit_is_spent(const struct api *api);

#endif
