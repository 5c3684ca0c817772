/* PurgeQueue. */
#include "api/access.h"
#include "api/selection.h"
#include "core/queues/decide_queue.h"

#define PURGE_INTERVAL_MS 60000u

enum error action_purge_queue(struct call *call)
{
    struct queue *queue;
    bool is_dry_run = false;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = selection_read_dry_run(call, &is_dry_run);
    if (error == OK && is_dry_run)
        error = access_check_owner(call, "DryRun");
    if (error != OK)
        return error;
    bool is_soon = queue->purged_at_ms != 0 && core_now_ms(call->core) < queue->purged_at_ms + PURGE_INTERVAL_MS;
    if (call_options(call)->enforce_purge_interval && is_soon)
        return call_fail(call, ERROR_PURGE_QUEUE_IN_PROGRESS,
                         "Only one PurgeQueue operation on %.*s is allowed every 60 seconds.",
                         BYTES_FORMAT(queue->name_owned));
    if (is_dry_run)
        selection_preview_purge(call, queue);
    else
        decide_purge_queue(call->core, queue);
    return OK;
}
