#include "api/reach.h"

#include "api/access.h"
#include "core/pools/ticket_pool.h"

bool reach_is_confined(const struct call *call)
{
    return call->caller != NULL && call->caller->patterns.size > 0;
}

bool reach_queue_id(const struct call *call, uint32_t id)
{
    if (!reach_is_confined(call))
        return true;
    const struct queue *queue = core_find_queue_by_id(call->core, id);
    return queue != NULL && access_covers(call, queue->name_owned);
}

/* A deleted queue can't be checked against patterns any more. */
bool reach_queues(const struct call *call, const struct queue_set *queues)
{
    if (!reach_is_confined(call))
        return true;
    for (uint32_t i = 0; i < queues->count; i++)
        if (!reach_queue_id(call, queue_set_ids(queues)[i]))
            return false;
    return !queues->is_open;
}

bool reach_batch(struct call *call, const struct batch *batch)
{
    reach_note(call, REACH_BATCH);
    bool has_queues = batch->queues.count > 0 || batch->queues.is_open;
    return (has_queues || !reach_is_confined(call)) && reach_queues(call, &batch->queues);
}

bool reach_pool(struct call *call, const struct ticket_pool *pool)
{
    reach_note(call, REACH_POOL);
    return reach_queue_id(call, pool->spec.result_queue) &&
           (pool->spec.expiry_queue == 0 || reach_queue_id(call, pool->spec.expiry_queue));
}

bool reach_schedule(struct call *call, const struct schedule *schedule)
{
    reach_note(call, REACH_SCHEDULE);
    return reach_queue_id(call, schedule->spec.queue);
}

uint64_t reach_claim(const struct call *call)
{
    if (!reach_is_confined(call))
        return 0;
    uint64_t hash = digest_keyed(call_digest(call), call->caller->patterns);
    return hash == 0 ? 1 : hash;
}

enum error reach_check_publisher(struct call *call, const struct publisher *publisher)
{
    reach_note(call, REACH_PUBLISHER);
    if (!reach_is_confined(call) || publisher == NULL)
        return OK;
    bool has_queues = publisher->queues.count > 0 || publisher->queues.is_open;
    if (has_queues ? reach_queues(call, &publisher->queues) : publisher->claim == reach_claim(call))
        return OK;
    return call_fail(
        call, ERROR_ACCESS_DENIED,
        "Access is denied: the credential %.*s does not cover all queues of this publisher, or did not open "
        "it first.",
        BYTES_FORMAT(call->caller->access_key));
}

enum error reach_check_namespace(struct call *call, const char *what)
{
    if (!reach_is_confined(call))
        return OK;
    return call_fail(call, ERROR_ACCESS_DENIED,
                     "Access is denied: the credential %.*s covers some queues only (queues=), and %s may concern all "
                     "of them.",
                     BYTES_FORMAT(call->caller->access_key), what);
}

bool reach_message(const struct call *call, uint64_t number)
{
    if (!reach_is_confined(call))
        return true;
    uint32_t queue = core_queue_of_message(call->core, number);
    return queue != 0 && reach_queue_id(call, queue);
}

const char *reach_words(const struct call *call)
{
    return reach_is_confined(call) ? " within the queues of this credential" : "";
}
