/* Receives that wait: per queue in order of arrival, answered by the first message or at their deadline. One message
 * wakes one waiter; a waiter whose client has gone is dropped before it takes a message. */
#include "api/access.h"
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
    exchange_rest(call->exchange);
    list_append(waiters_of(queue), &waiter->link);
    wait_set_deadline(api, waiter, deadline_ms);
    /* A receive that met many spent messages may have stopped before it saw a good one. */
    if (is_worth_a_look(api, call->core, queue))
        core_notice_queue(call->core, queue);
}

static void leave(struct api *api, struct waiter *waiter)
{
    (void)api;
    struct queue *queue = waiter->receive.queue;
    free(waiter->receive.kept_owned);
    if (queue != NULL && list_is_empty(queue->waiters)) {
        free(queue->waiters);
        queue->waiters = NULL;
    }
}

/* With no messages. */
static void expire(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    (void)now_ms;
    struct reply_draft draft;
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

/* Lets the first waiter of a queue try again. True if it was answered. */
static bool serve_first(struct api *api, struct queue *queue, uint64_t now_ms)
{
    struct waiter *waiter = waiter_of(list_first(queue->waiters));
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
        while (queue->waiters != NULL && is_answered && !front_must_wait(api->front))
            is_answered = serve_first(api, queue, now_ms);
        /* A receive that met many spent messages stops before it has seen them all: it goes on at the next turn. So
         * does one that waits for memory. */
        if (queue->waiters != NULL && is_worth_a_look(api, core, queue)) {
            core_notice_queue(core, queue);
            looked_at_first = looked_at_first == NULL ? queue : looked_at_first;
        }
    }
}

void wait_receive_check_again(struct api *api, struct queue *queue)
{
    struct list_link *next = queue->waiters == NULL ? NULL : list_first(queue->waiters);
    while (next != NULL) {
        struct failure failure;
        failure_init(&failure);
        struct waiter *waiter = waiter_of(next);
        next = list_next(queue->waiters, next); /* the last one takes the list with it */
        wait_check(api, waiter, OK, &failure);
    }
}

struct list *wait_receive_take_all(struct queue *queue)
{
    struct list *waiters = queue->waiters;
    queue->waiters = NULL;
    for (struct list_link *link = waiters == NULL ? NULL : list_first(waiters); link != NULL;
         link = list_next(waiters, link))
        waiter_of(link)->receive.queue = NULL;
    return waiters;
}

void wait_receive_deleted(struct api *api, struct list *waiters)
{
    while (waiters != NULL && !list_is_empty(waiters)) {
        struct waiter *waiter = waiter_of(list_first(waiters));
        reply_fail(waiter->exchange, ERROR_QUEUE_DOES_NOT_EXIST, NULL);
        wait_finish(api, waiter);
    }
    free(waiters);
}
