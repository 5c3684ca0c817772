#include "api/memory_limit.h"

#include "api/state.h"
#include "base/accounted.h"

/* The room above the limit is this fraction of the limit. */
#define RESERVE_SHARE 8u

bool memory_limit_is_reached(const struct front *front)
{
    return front->options.memory_max > 0 && accounted_in_use() >= front->options.memory_max;
}

struct front_memory front_memory(const struct front *front)
{
    return (struct front_memory){.used = accounted_in_use(), .max = front->options.memory_max};
}

enum error memory_limit_check(struct call *call, enum growth growth)
{
    uint64_t max = call->front->options.memory_max, in_use = accounted_in_use();
    uint64_t limit = growth == GROWTH_LITTLE ? max + max / RESERVE_SHARE : max;
    bool is_asked_here = growth == GROWTH_LITTLE || growth == GROWTH_NEW;
    if (max == 0 || !is_asked_here || in_use < limit)
        return OK;
    return call_fail(call, ERROR_MEMORY_IS_FULL,
                     "The state of the server takes %llu bytes of memory, and memory-max is %llu: nothing new is taken "
                     "until something has ended. Receives and deletes go on. Try again later, let more consumers work, "
                     "or raise --memory-max.",
                     (unsigned long long)in_use, (unsigned long long)max);
}
