/* Receives that wait: per queue in order of arrival, answered by the first message or at their deadline. One message
 * wakes one waiter; a waiter whose client has gone is dropped before it takes a message. */
#include "api/access.h"
#include "api/reply.h"
#include "api/state.h"
#include "core/shelf.h"

#include "base/memory.h"
#include <stdlib.h>

static struct waiter *waiter_at(const struct api *api, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(&api->waiters, slot);
}

/* The queue's list of waiters; made when the first one comes, freed with the last. */
static struct list *waiters_of(struct queue *queue)
{
    if (queue->waiters == NULL) {
        queue->waiters = memory_allocate(sizeof(struct list));
        list_init(queue->waiters);
    }
    return queue->waiters;
}

/* Would another look find anything? A FIFO queue at its limit of messages in flight gives nothing, and no error. */
static bool is_worth_a_look(const struct api *api, struct core *core, const struct queue *queue)
{
    bool is_full = core_shelf(core, queue)->in_flight_count >= namespace_in_flight_max(api->ns);
    return !is_full && core_has_deliverable(core, queue);
}

static_assert(EXCHANGE_SIZE + EXCHANGE_WAITING_BODY_MAX + sizeof(struct waiter) + sizeof(struct heap_entry) <=
                  WAIT_SIZE,
              "a receive that waits takes what is counted for it");

/* --- what it keeps ------------------------------------------------------------------------------------------------ */

static size_t kept_size(const struct receive_command *command)
{
    return params_names_size(command->attribute_names[0]) + params_names_size(command->attribute_names[1]) +
           params_names_size(command->message_attribute_names) + command->attempt.size;
}

static yyjson_val *keep_names(yyjson_val *names, uint8_t **place)
{
    yyjson_val *copy = params_names_copy(names, *place);
    *place += params_names_size(names);
    return copy;
}

/* Copies what the command has of the request. */
static void waiter_keep(struct waiter *waiter, const struct receive_command *command)
{
    struct receive_command *kept = &waiter->command;
    *kept = *command;
    waiter->kept_size = kept_size(command);
    waiter->kept_owned = waiter->kept_size == 0 ? NULL : memory_allocate(waiter->kept_size);
    uint8_t *place = waiter->kept_owned;
    kept->attribute_names[0] = keep_names(command->attribute_names[0], &place);
    kept->attribute_names[1] = keep_names(command->attribute_names[1], &place);
    kept->message_attribute_names = keep_names(command->message_attribute_names, &place);
    if (command->attempt.size > 0)
        memcpy(place, command->attempt.ptr, command->attempt.size);
    kept->attempt.ptr = place;
}

bool wait_has_room(const struct call *call, const struct receive_command *command)
{
    const struct wait_budget *waits = call->api->waits;
    return waits == NULL || wait_budget_has_room(waits, kept_size(command));
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

void wait_begin(struct call *call, struct queue *queue, const struct receive_command *command, uint64_t deadline_ms)
{
    struct api *api = call->api;
    uint32_t slot = pool_allocate(&api->waiters);
    struct waiter *waiter = waiter_at(api, slot);
    waiter->number = ++api->waiter_number;
    waiter->exchange = call->exchange;
    waiter->queue = queue;
    waiter_keep(waiter, command);
    if (api->waits != NULL)
        wait_budget_add(api->waits, waiter->kept_size);
    exchange_rest(call->exchange);
    list_append(waiters_of(queue), &waiter->queue_link);
    heap_push(&api->waiter_deadlines, deadline_ms, slot);
    call->exchange->waiter_slot = slot;
    call->exchange->state = EXCHANGE_WAITING;
    call->is_waiting = true;
    /* A receive that met many spent messages may have stopped before it saw a good one. */
    if (is_worth_a_look(api, call->core, queue))
        core_notice_queue(call->core, queue);
}

static void waiter_remove(struct api *api, uint32_t slot)
{
    struct waiter *waiter = waiter_at(api, slot);
    struct queue *queue = waiter->queue;
    list_remove(&waiter->queue_link);
    heap_remove(&api->waiter_deadlines, slot);
    if (api->waits != NULL)
        wait_budget_subtract(api->waits, waiter->kept_size);
    free(waiter->kept_owned);
    waiter->exchange->waiter_slot = 0;
    pool_free(&api->waiters, slot);
    if (queue != NULL && list_is_empty(queue->waiters)) {
        free(queue->waiters);
        queue->waiters = NULL;
    }
}

/* Ends the wait with the reply that stands in the exchange. */
static void waiter_finish(struct api *api, uint32_t slot)
{
    struct exchange *exchange = waiter_at(api, slot)->exchange;
    waiter_remove(api, slot);
    api_finish(api, exchange);
}

static void waiter_finish_empty(struct api *api, uint32_t slot)
{
    struct exchange *exchange = waiter_at(api, slot)->exchange;
    struct reply_draft draft;
    reply_begin(exchange, &draft);
    reply_end(exchange, &draft, false);
    waiter_finish(api, slot);
}

void wait_abandon(struct api *api, struct exchange *exchange)
{
    waiter_remove(api, exchange->waiter_slot);
    exchange->state = EXCHANGE_NEW;
}

/* Lets the first waiter of a queue try again. True if it was answered. */
static bool serve_first(struct api *api, struct queue *queue, uint64_t now_ms)
{
    struct waiter *waiter = CONTAINER_OF(list_first(queue->waiters), struct waiter, queue_link);
    struct exchange *exchange = waiter->exchange;
    struct failure failure;
    failure_init(&failure);
    struct reply_draft draft;
    struct call call = call_resume(api, exchange, &draft, &failure, now_ms);
    unsigned count = 0;
    enum error error = access_check_again(&call, queue);
    if (error == OK)
        error = receive_now(&call, queue, &waiter->command, &count);
    if (error == OK && count == 0) {
        exchange_rest(exchange);
        return false;
    }
    if (error == OK)
        reply_end(exchange, &draft, false);
    else
        reply_fail(exchange, error, &failure);
    waiter_finish(api, exchange->waiter_slot);
    return true;
}

void wait_serve(struct api *api, uint64_t now_ms)
{
    if (api->waiters.used == 0)
        return; /* the core's list of ready queues keeps: a later waiter looks for itself first */
    struct core *core = namespace_begin(api->ns, now_ms);
    struct queue *looked_at_first = NULL;
    while (core_has_ready_queue(core)) {
        struct queue *queue = core_take_ready_queue(core);
        if (queue == looked_at_first) {
            core_notice_queue(core, queue);
            return;
        }
        bool is_answered = true;
        while (queue->waiters != NULL && is_answered && !api_must_wait(api))
            is_answered = serve_first(api, queue, now_ms);
        /* A receive that met many spent messages stops before it has seen them all: it goes on at the next turn. So
         * does one that waits for memory. */
        if (queue->waiters != NULL && is_worth_a_look(api, core, queue)) {
            core_notice_queue(core, queue);
            looked_at_first = looked_at_first == NULL ? queue : looked_at_first;
        }
    }
}

void wait_expire(struct api *api, uint64_t now_ms)
{
    while (api->waiter_deadlines.count > 0 && heap_top(&api->waiter_deadlines).key <= now_ms)
        waiter_finish_empty(api, heap_top(&api->waiter_deadlines).slot);
}

void wait_release_all(struct api *api)
{
    wait_expire(api, UINT64_MAX);
}

/* Ends the wait of an exchange that would be refused now; `error` is what was found before its action and queue are
 * looked at. */
static void check_again(struct api *api, struct exchange *exchange, enum error error, struct failure *failure)
{
    struct reply_draft draft;
    const struct queue *queue = waiter_at(api, exchange->waiter_slot)->queue;
    if (error == OK) {
        struct call call = call_go_on(api, exchange, &draft, failure, namespace_time(api->ns));
        error = access_check_again(&call, queue);
    }
    if (error == OK) {
        exchange_rest(exchange);
        return;
    }
    reply_fail(exchange, error, failure);
    waiter_finish(api, exchange->waiter_slot);
}

void wait_renew(struct api *api, const struct api *owner)
{
    uint32_t count = api->waiter_deadlines.count;
    struct exchange **exchanges = memory_allocate((count + 1) * sizeof(struct exchange *));
    for (uint32_t i = 0; i < count; i++)
        exchanges[i] = waiter_at(api, api->waiter_deadlines.entries_owned[i].slot)->exchange;
    for (uint32_t i = 0; i < count; i++) {
        struct failure failure;
        failure_init(&failure);
        enum error error = access_renew(owner, exchanges[i], &failure);
        check_again(api, exchanges[i], error, &failure);
    }
    free(exchanges);
}

void wait_check_again(struct api *api, struct queue *queue)
{
    struct list_link *next = queue->waiters == NULL ? NULL : list_first(queue->waiters);
    while (next != NULL) {
        struct failure failure;
        failure_init(&failure);
        struct exchange *exchange = CONTAINER_OF(next, struct waiter, queue_link)->exchange;
        next = list_next(queue->waiters, next); /* the last one takes the list with it */
        check_again(api, exchange, OK, &failure);
    }
}

struct list *wait_take_all(struct queue *queue)
{
    struct list *waiters = queue->waiters;
    queue->waiters = NULL;
    for (struct list_link *link = waiters == NULL ? NULL : list_first(waiters); link != NULL;
         link = list_next(waiters, link))
        CONTAINER_OF(link, struct waiter, queue_link)->queue = NULL;
    return waiters;
}

void wait_queue_deleted(struct api *api, struct list *waiters)
{
    while (waiters != NULL && !list_is_empty(waiters)) {
        struct waiter *waiter = CONTAINER_OF(list_first(waiters), struct waiter, queue_link);
        struct exchange *exchange = waiter->exchange;
        reply_fail(exchange, ERROR_QUEUE_DOES_NOT_EXIST, NULL);
        waiter_finish(api, exchange->waiter_slot);
    }
    free(waiters);
}
