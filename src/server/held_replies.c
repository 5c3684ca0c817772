#include "server/held_replies.h"

static struct pending_request *held_pending(struct list_link *link)
{
    return CONTAINER_OF(link, struct pending_request, held_link);
}

void held_replies_init(struct held_replies *held)
{
    list_init(&held->pending);
    held->count = 0;
}

void held_replies_add(struct held_replies *held, struct pending_request *pending)
{
    ASSERT(pending->state == PENDING_IN_API && pending->exchange.state == EXCHANGE_FINISHED);
    ASSERT(arena_is_empty(&pending->exchange.arena)); /* so that it holds exactly exchange_reply_memory() */
    /* A request may have an earlier frame than the one before it. It then waits for the later frame, which is safe. */
    struct list_link *last = held->pending.head.prev;
    if (last != &held->pending.head && held_pending(last)->exchange.hold_sequence > pending->exchange.hold_sequence)
        pending->exchange.hold_sequence = held_pending(last)->exchange.hold_sequence;
    list_append(&held->pending, &pending->held_link);
    pending->state = PENDING_HELD;
    pending->held = held;
    held->count++;
}

struct pending_request *held_replies_take(struct held_replies *held, uint64_t durable_sequence)
{
    struct list_link *link = list_first(&held->pending);
    if (link == NULL || held_pending(link)->exchange.hold_sequence > durable_sequence)
        return NULL;
    struct pending_request *pending = held_pending(link);
    held_replies_remove(pending);
    pending->state = PENDING_IN_API;
    return pending;
}

void held_replies_remove(struct pending_request *pending)
{
    ASSERT(pending->state == PENDING_HELD && pending->held->count > 0);
    list_remove(&pending->held_link);
    pending->held->count--;
}
