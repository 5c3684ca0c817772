/* Receives that wait: per queue in order of arrival, answered by the first message or at their deadline. One message
 * wakes one waiter; a waiter whose client has gone is dropped before it takes a message. */
#include "api/access.h"
#include "api/holder_view.h"
#include "api/reply.h"
#include "api/state.h"
#include "api/wait.h"
#include "core/messages/message_list.h"

#include "base/memory.h"
#include <stdlib.h>

static struct waiter *waiter_of(struct list_link *link)
{
    return CONTAINER_OF(link, struct waiter, link);
}

/* --- the waiters of a queue --------------------------------------------------------------------------------------- */

/* There while a receive waits for the queue, and until those that its deletion ends are answered. */
struct queue_waiters {
    uint32_t slot;  /* in api->queue_waiters */
    uint32_t queue; /* its id, under which it is found */
    struct list receives;
    uint32_t count; /* of them */
};

void wait_receive_init(struct api *api)
{
    slab_init(&api->queue_waiters, sizeof(struct queue_waiters));
    number_map_init(&api->queue_waiters_by_id);
}

void wait_receive_deinit(struct api *api)
{
    ASSERT(api->queue_waiters.used == 0);
    number_map_deinit(&api->queue_waiters_by_id);
    slab_deinit(&api->queue_waiters);
}

/* NULL: nobody waits. */
static struct queue_waiters *waiters_find(const struct api *api, const struct queue *queue)
{
    const uint32_t slot = number_map_find(&api->queue_waiters_by_id, queue->id);
    return slot == 0 ? NULL : slab_at(&api->queue_waiters, slot);
}

static struct queue_waiters *waiters_add(struct api *api, const struct queue *queue)
{
    const uint32_t slot = slab_allocate(&api->queue_waiters);
    struct queue_waiters *waiters = slab_at(&api->queue_waiters, slot);
    *waiters = (struct queue_waiters){.slot = slot, .queue = queue->id};
    list_init(&waiters->receives);
    number_map_insert(&api->queue_waiters_by_id, queue->id, slot);
    return waiters;
}

static void waiters_free(struct api *api, struct queue_waiters *waiters)
{
    ASSERT(list_is_empty(&waiters->receives));
    number_map_remove(&api->queue_waiters_by_id, waiters->queue);
    slab_free(&api->queue_waiters, waiters->slot);
}

uint32_t wait_receive_count(const struct api *api, const struct queue *queue)
{
    const struct queue_waiters *waiters = waiters_find(api, queue);
    return waiters == NULL ? 0 : waiters->count;
}

bool wait_receive_is_awaited(const struct api *api, const struct queue *queue)
{
    return api->receives_waiting > 0 && waiters_find(api, queue) != NULL;
}

/* Would another receive find anything? A FIFO queue at its limit of messages in flight gives nothing, and no error. */
static bool may_find_more(const struct api *api, struct core *core, const struct queue *queue)
{
    bool is_full = core_message_list(core, queue)->in_flight_count >= namespace_in_flight_max(api->ns);
    return !is_full && core_has_deliverable(core, queue);
}

/* --- what it keeps ------------------------------------------------------------------------------------------------ */

static size_t kept_size(const struct receive_command *command)
{
    return params_names_size(command->attribute_names[0]) + params_names_size(command->attribute_names[1]) +
           params_names_size(command->message_attribute_names) + command->attempt.size;
}

static yyjson_val *keep_names(yyjson_val *names, uint8_t **memory)
{
    yyjson_val *copy = params_names_copy(names, *memory);
    *memory += params_names_size(names);
    return copy;
}

/* Copies what the command has of the request. */
static void keep_command(struct waiting_receive *receive, const struct receive_command *command)
{
    struct receive_command *kept = &receive->command;
    const size_t size = kept_size(command);
    *kept = *command;
    receive->kept_owned = size == 0 ? NULL : memory_allocate(size);
    uint8_t *memory = receive->kept_owned;
    kept->attribute_names[0] = keep_names(command->attribute_names[0], &memory);
    kept->attribute_names[1] = keep_names(command->attribute_names[1], &memory);
    kept->message_attribute_names = keep_names(command->message_attribute_names, &memory);
    if (command->attempt.size > 0)
        memcpy(memory, command->attempt.ptr, command->attempt.size);
    kept->attempt.ptr = memory;
}

bool wait_receive_has_room(const struct call *call, const struct receive_command *command)
{
    const struct wait_budget *waits = call->front->waits;
    return waits == NULL || wait_budget_has_room(waits, kept_size(command));
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

void wait_receive(struct call *call, struct queue *queue, const struct receive_command *command, uint64_t deadline_ms)
{
    struct api *api = call->api;
    struct waiter *waiter = wait_begin(call, &wait_for_messages, kept_size(command));
    waiter->receive.queue = queue;
    keep_command(&waiter->receive, command);
    waiter->receive.command.has_waited = true;
    waiter->receive.command.holder = holder_view_use(call);
    exchange_rest(call->exchange);
    struct queue_waiters *waiters = waiters_find(api, queue);
    if (waiters == NULL)
        waiters = waiters_add(api, queue);
    list_append(&waiters->receives, &waiter->link);
    waiters->count++;
    wait_set_deadline(api, waiter, deadline_ms);
    /* A receive that met many spent messages may have stopped before it saw a good one. */
    if (may_find_more(api, call->core, queue))
        core_notice_queue(call->core, queue);
}

static void leave(struct api *api, struct waiter *waiter)
{
    free(waiter->receive.kept_owned);
    namespace_release_holder(api->ns, waiter->receive.command.holder);
    if (waiter->receive.queue == NULL)
        return;
    struct queue_waiters *waiters = waiters_find(api, waiter->receive.queue);
    waiters->count--;
    if (list_is_empty(&waiters->receives))
        waiters_free(api, waiters);
}

/* With no messages. */
static void expire(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    struct reply_draft draft;
    if (waiter->receive.queue != NULL)
        queue_counters_note_receive(&waiter->receive.queue->counters, now_ms, true);
    reply_begin(waiter->exchange, &draft);
    reply_end(waiter->exchange, &draft, false);
    wait_finish(api, waiter);
}

static enum error check(struct call *call, const struct waiter *waiter)
{
    return access_check_again(call, waiter->receive.queue);
}

const struct wait_kind wait_for_messages = {
    .has_deadline = true,
    .count_offset = offsetof(struct api, receives_waiting),
    .check = check,
    .expire = expire,
    .leave = leave,
};

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Lets the first waiter of a queue try again, if there is one. True if it was answered. */
static bool serve_first(struct api *api, struct queue *queue, uint64_t now_ms)
{
    const struct queue_waiters *waiters = waiters_find(api, queue);
    if (waiters == NULL)
        return false;
    struct waiter *waiter = waiter_of(list_first(&waiters->receives));
    struct exchange *exchange = waiter->exchange;
    struct failure failure;
    failure_init(&failure);
    struct reply_draft draft;
    struct call call = call_resume(api, exchange, &draft, &failure, now_ms);
    unsigned count = 0;
    enum error error = access_check_again(&call, queue);
    if (error == OK)
        error = receive_now(&call, queue, &waiter->receive.command, &count);
    if (error == OK && count == 0) {
        exchange_rest(exchange);
        return false;
    }
    if (error == OK)
        reply_end(exchange, &draft, false);
    else
        reply_fail(exchange, error, &failure);
    wait_finish(api, waiter);
    return true;
}

void wait_receive_serve(struct api *api, uint64_t now_ms)
{
    if (api->receives_waiting == 0)
        return; /* the core's list of ready queues keeps: a later waiter tries by itself first */
    struct core *core = namespace_begin(api->ns, now_ms);
    struct queue *first_noticed = NULL;
    while (core_has_ready_queue(core)) {
        struct queue *queue = core_take_ready_queue(core);
        if (queue == first_noticed) {
            core_notice_queue(core, queue);
            return;
        }
        while (!front_must_wait(api->front) && serve_first(api, queue, now_ms))
            ;
        /* A receive that met many spent messages stops before it has seen them all: it goes on at the next turn. So
         * does one that waits for memory. */
        if (wait_receive_is_awaited(api, queue) && may_find_more(api, core, queue)) {
            core_notice_queue(core, queue);
            first_noticed = first_noticed == NULL ? queue : first_noticed;
        }
    }
}

void wait_receive_check_again(struct api *api, struct queue *queue)
{
    const struct queue_waiters *waiters = waiters_find(api, queue);
    struct list_link *next = waiters == NULL ? NULL : list_first(&waiters->receives);
    while (next != NULL) {
        struct failure failure;
        failure_init(&failure);
        struct waiter *waiter = waiter_of(next);
        next = list_next(&waiters->receives, next); /* the last one takes the list with it */
        wait_check(api, waiter, OK, &failure);
    }
}

struct queue_waiters *wait_receive_take_all(struct api *api, const struct queue *queue)
{
    struct queue_waiters *waiters = waiters_find(api, queue);
    for (struct list_link *link = waiters == NULL ? NULL : list_first(&waiters->receives); link != NULL;
         link = list_next(&waiters->receives, link))
        waiter_of(link)->receive.queue = NULL;
    return waiters;
}

void wait_receive_deleted(struct api *api, struct queue_waiters *waiters)
{
    if (waiters == NULL)
        return;
    while (!list_is_empty(&waiters->receives)) {
        struct waiter *waiter = waiter_of(list_first(&waiters->receives));
        reply_fail(waiter->exchange, ERROR_QUEUE_DOES_NOT_EXIST, NULL);
        wait_finish(api, waiter);
    }
    waiters_free(api, waiters);
}
