#include "api/slow_requests.h"

#include "api/state.h"
#include "base/memory.h"

#include <stdio.h>

const struct slow_request *slow_requests_at(const struct slow_requests *requests, unsigned back)
{
    if (back >= requests->count || back >= SLOW_REQUESTS_MAX)
        return NULL;
    return &requests->ring_owned[(requests->count - 1 - back) % SLOW_REQUESTS_MAX];
}

static void note_queue(struct slow_request *slow, const struct exchange *exchange)
{
    const struct core *core = namespace_core(exchange->api->ns);
    const struct queue *queue = exchange->queue_id == 0 ? NULL : core_find_queue_by_id(core, exchange->queue_id);
    if (queue == NULL)
        return;
    ASSERT(queue->name_owned.size <= sizeof(slow->queue));
    memcpy(slow->queue, queue->name_owned.ptr, queue->name_owned.size);
    slow->queue_size = (uint8_t)queue->name_owned.size;
}

/* Credentials that have been replaced since are gone. */
static void note_caller(struct slow_request *slow, const struct front *front, const struct exchange *exchange)
{
    if (exchange->caller == NULL || exchange->credentials_number != front->credentials_number)
        return;
    const struct bytes key = exchange->caller->access_key;
    ASSERT(key.size <= sizeof(slow->access_key));
    memcpy(slow->access_key, key.ptr, key.size);
    slow->access_key_size = (uint8_t)key.size;
}

static void describe(const struct slow_request *slow, char *text, size_t size)
{
    (void)snprintf(text, size,
                   "slow request: %s%s%.*s took %u ms (waited %u, decided %u, flushed %u, written %u), "
                   "%zu bytes asked, %zu answered, request %.*s%s%.*s",
                   slow->action, slow->queue_size > 0 ? " of queue " : "", (int)slow->queue_size, slow->queue,
                   slow_times_sum(&slow->times), slow->times.wait, slow->times.decide, slow->times.flush,
                   slow->times.write, slow->request_size, slow->reply_size, (int)REQUEST_ID_SIZE, slow->request_id,
                   slow->access_key_size > 0 ? " of " : "", (int)slow->access_key_size, slow->access_key);
}

void front_note_slow(struct front *front, const struct exchange *exchange, uint64_t now_ms, size_t request_size,
                     const struct slow_times *times, char *text, size_t text_size)
{
    struct slow_requests *requests = &front->slow_requests;
    ASSERT(exchange->api != NULL && exchange->action != NULL);
    if (requests->ring_owned == NULL)
        requests->ring_owned = memory_allocate(SLOW_REQUESTS_MAX * sizeof(*requests->ring_owned));
    struct slow_request *slow = &requests->ring_owned[requests->count++ % SLOW_REQUESTS_MAX];
    *slow = (struct slow_request){.at_ms = now_ms,
                                  .action = exchange->action,
                                  .times = *times,
                                  .request_size = request_size,
                                  .reply_size = exchange->reply.body.size};
    memcpy(slow->request_id, exchange->request_id, sizeof(slow->request_id));
    const struct bytes name = core_name(namespace_core(exchange->api->ns));
    ASSERT(name.size <= sizeof(slow->namespace_name));
    memcpy(slow->namespace_name, name.ptr, name.size);
    note_queue(slow, exchange);
    note_caller(slow, front, exchange);
    describe(slow, text, text_size);
}
