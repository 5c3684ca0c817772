/* What would make the state grow is refused where memory (memory_limit.h) or the disk (disk_limit.h) is full. */
#ifndef TALLY_API_GROWTH_H
#define TALLY_API_GROWTH_H

#include "api/action.h"

/* ERROR_MEMORY_IS_FULL or ERROR_DISK_IS_FULL, described, if a call that makes the state grow
 * so must be refused now. O(1). */
enum error growth_check(struct call *call, enum growth growth);

/* Must what the server adds on its own account wait, if it was not promised? O(1). */
bool growth_is_held(const struct api *api);

#endif
