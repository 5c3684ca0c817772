#include "api/disk_limit.h"

#include "api/state.h"

static enum error refuse(struct call *call, const char *what)
{
    const struct namespace_usage usage = namespace_usage(call->ns);
    return call_fail(
        call, ERROR_DISK_IS_FULL,
        "The file system of the data folder has %llu bytes free, and disk-min-free is %llu; the reserve for a full "
        "disk lacks %llu: %s. Try again later, let more consumers work, or make room on this file system.",
        (unsigned long long)usage.free_bytes, (unsigned long long)usage.min_free_bytes,
        (unsigned long long)usage.missing_bytes, what);
}

enum error disk_limit_check(struct call *call, enum growth growth)
{
    if ((growth != GROWTH_LITTLE && growth != GROWTH_NEW) || namespace_disk_level(call->ns) == DISK_AMPLE)
        return OK;
    if (growth == GROWTH_LITTLE && namespace_has_little_room(call->ns))
        return OK;
    return refuse(call, "nothing new is taken until something has ended. Receives and deletes go on");
}

enum error disk_limit_check_action(struct call *call)
{
    const enum disk_level level = namespace_disk_level(call->ns);
    if (level == DISK_AMPLE || call->action->growth == GROWTH_READS)
        return OK;
    if (level == DISK_SPENT)
        return refuse(call, "even what ends something waits until a snapshot has let a segment go");
    if (call->exchange->request.body.size > namespace_short_request_max(call->ns))
        return refuse(call, "a request as large as this one waits. Send smaller ones to go on at once");
    return OK;
}

enum error disk_limit_check_size(struct call *call)
{
    if (namespace_disk_level(call->ns) == DISK_AMPLE)
        return OK;
    return refuse(call, "a request that may make as much due as this one waits. Send smaller ones to go on at once");
}

bool disk_limit_is_spent(const struct api *api)
{
    return namespace_disk_level(api->ns) == DISK_SPENT;
}
