/* Refuses what would make the state grow while memory (memory_limit.h) or the disk (disk_limit.h) is full. */
#ifndef TALLY_API_GROWTH_H
#define TALLY_API_GROWTH_H

#include "api/action.h"

/* ERROR_MEMORY_IS_FULL or ERROR_DISK_IS_FULL, described, if a call with this growth must be refused now. O(1). */
enum error growth_check(struct call *call, enum growth growth);

/* Must an addition that the server makes by itself wait, if nobody was promised it? O(1). */
bool growth_is_held(const struct api *api);

#endif
