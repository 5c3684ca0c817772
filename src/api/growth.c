#include "api/growth.h"

#include "api/disk_limit.h"
#include "api/memory_limit.h"
#include "api/state.h"

enum error growth_check(struct call *call, enum growth growth)
{
    const enum error error = memory_limit_check(call, growth);
    return error == OK ? disk_limit_check(call, growth) : error;
}

bool growth_is_held(const struct api *api)
{
    return memory_limit_is_reached(api->front) || namespace_disk_level(api->ns) != DISK_AMPLE;
}
