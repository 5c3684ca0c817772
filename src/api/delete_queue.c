/* DeleteQueue, and what happens to the receives that wait for the queue. */
#include "api/selection.h"
#include "api/state.h"
#include "api/wait.h"
#include "core/queues/decide_queue.h"

#include "base/memory.h"

#define DELETED_NAMES_MAX 1000u

/* Remembers the name for AWS's 60-second rule; it replaces the oldest. It is lost at a restart, because the rule is
 * only for tests. */
static void remember_deleted(struct call *call, struct bytes name)
{
    struct api *api = call->api;
    if (!api->front->options.enforce_delete_interval)
        return;
    if (api->deleted_owned == NULL)
        api->deleted_owned = memory_allocate(DELETED_NAMES_MAX * sizeof(*api->deleted_owned));
    if (api->deleted_count == DELETED_NAMES_MAX) {
        api->deleted_count--;
        memmove(api->deleted_owned, api->deleted_owned + 1, api->deleted_count * sizeof(*api->deleted_owned));
    }
    struct deleted_name *deleted = &api->deleted_owned[api->deleted_count++];
    memcpy(deleted->name, name.ptr, name.size);
    deleted->size = name.size;
    deleted->at_ms = call->now_ms;
}

enum error action_delete_queue(struct call *call)
{
    struct queue *queue;
    bool is_dry_run = false;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = selection_read_dry_run(call, &is_dry_run);
    if (error != OK)
        return error;
    if (queue->target_count > 0)
        return call_fail(call, ERROR_QUEUE_IN_USE,
                         "%u targets of batches that have not completed, schedules and pools send messages to this "
                         "queue; complete or "
                         "cancel those batches and delete those schedules and pools first.",
                         queue->target_count);
    if (is_dry_run) {
        selection_preview_purge(call, queue);
        return OK;
    }
    remember_deleted(call, queue->name_owned);
    struct queue_waiters *waiters = wait_receive_take_all(call->api, queue);
    error = decide_delete_queue(call->core, queue);
    /* Answered only now, so that these replies wait until the deletion is durable (invariant R9). */
    wait_receive_deleted(call->api, waiters);
    return error;
}
