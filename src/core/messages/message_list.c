#include "core/messages/message_list.h"

void message_list_init(struct message_list *list, const struct slab *messages, uint64_t number, uint32_t queue)
{
    *list = (struct message_list){.number = number, .queue = queue};
    heap_init(&list->returned, messages, offsetof(struct message, heap_index), offsetof(struct message, number));
    ordered_init(&list->moved);
}

void message_list_deinit(struct message_list *list)
{
    ASSERT(!list_is_linked(&list->draining_link));
    heap_deinit(&list->returned);
    ordered_deinit(&list->moved);
}

static struct ordered_key moved_key(uint64_t counted_from_ms, uint64_t number)
{
    return (struct ordered_key){.sort_key = counted_from_ms, .number = number};
}

void message_list_link(struct message_list *list, struct slab *messages, uint32_t slot, uint64_t counted_from_ms)
{
    struct message *message = message_at(messages, slot);
    ASSERT(message->state == 0 && message->prev == 0 && message->next == 0);
    list->count++;
    if (message->is_moved) {
        const struct ordered_key key = moved_key(counted_from_ms, message->number);
        ordered_insert(&list->moved, &key, slot);
        return;
    }
    message->prev = list->last;
    if (list->last != 0) {
        ASSERT(message_at(messages, list->last)->sent_at_ms <= message->sent_at_ms);
        message_at(messages, list->last)->next = slot;
    } else {
        list->first = slot;
    }
    list->last = slot;
}

void message_list_unlink(struct message_list *list, struct slab *messages, uint32_t slot, uint64_t counted_from_ms)
{
    struct message *message = message_at(messages, slot);
    ASSERT(message->state == 0 && list->count > 0);
    list->count--;
    if (message->is_moved) {
        const struct ordered_key key = moved_key(counted_from_ms, message->number);
        ordered_remove(&list->moved, &key);
        return;
    }
    if (list->cursor == slot)
        list->cursor = message->next;
    if (message->prev != 0)
        message_at(messages, message->prev)->next = message->next;
    else
        list->first = message->next;
    if (message->next != 0)
        message_at(messages, message->next)->prev = message->prev;
    else
        list->last = message->prev;
    message->prev = message->next = 0;
}

void message_list_enter_state(struct message_list *list, struct heap *timers, struct slab *messages, uint32_t slot,
                              enum message_state state)
{
    struct message *message = message_at(messages, slot);
    ASSERT(message->state == 0);
    message->state = (uint8_t)state;
    switch (state) {
    case MESSAGE_FRESH:
        /* Only new arrivals are fresh, so a fresh message is the last: the cursor changes only if it had no message. */
        ASSERT(!message->is_moved && list->last == slot);
        if (list->cursor == 0 && !message->is_grouped)
            list->cursor = slot;
        break;
    case MESSAGE_RETURNED:
        if (!message->is_grouped)
            heap_push(&list->returned, message->number, slot);
        break;
    case MESSAGE_WAITING:
        list->delayed_count++;
        list->waiting_count++;
        break;
    case MESSAGE_DELAYED:
        list->delayed_count++;
        heap_push(timers, message->visible_at_ms, slot);
        break;
    case MESSAGE_IN_FLIGHT:
        list->in_flight_count++;
        heap_push(timers, message->visible_at_ms, slot);
        break;
    }
}

void message_list_leave_state(struct message_list *list, struct heap *timers, struct slab *messages, uint32_t slot)
{
    struct message *message = message_at(messages, slot);
    switch ((enum message_state)message->state) {
    case MESSAGE_FRESH:
        break;
    case MESSAGE_RETURNED:
        if (!message->is_grouped)
            heap_remove(&list->returned, slot);
        break;
    case MESSAGE_WAITING:
        ASSERT(list->delayed_count > 0 && list->waiting_count > 0);
        list->delayed_count--;
        list->waiting_count--;
        break;
    case MESSAGE_DELAYED:
        ASSERT(list->delayed_count > 0);
        list->delayed_count--;
        heap_remove(timers, slot);
        break;
    case MESSAGE_IN_FLIGHT:
        ASSERT(list->in_flight_count > 0);
        list->in_flight_count--;
        heap_remove(timers, slot);
        break;
    }
    message->state = 0;
}

static bool is_fresh_alone(const struct message *message)
{
    return message->state == MESSAGE_FRESH && !message->is_grouped;
}

uint32_t message_list_next_deliverable(struct message_list *list, const struct slab *messages)
{
    while (list->cursor != 0 && !is_fresh_alone(message_at(messages, list->cursor)))
        list->cursor = message_at(messages, list->cursor)->next;
    if (list->returned.count == 0)
        return list->cursor;
    struct heap_entry returned = heap_top(&list->returned);
    if (list->cursor == 0 || returned.key < message_at(messages, list->cursor)->number)
        return returned.slot;
    return list->cursor;
}

uint32_t message_list_oldest(const struct message_list *list, const struct slab *messages)
{
    const struct ordered_key least = {0};
    const struct ordered_cursor moved = ordered_seek(&list->moved, &least);
    if (moved.leaf == NULL)
        return list->first;
    if (list->first == 0 || ordered_key(moved)->sort_key < message_at(messages, list->first)->sent_at_ms)
        return ordered_slot(moved);
    return list->first;
}

/* The counts of a walk along the arrivals. */
struct message_list_census {
    uint64_t count;
    uint64_t in_flight_count;
    uint64_t delayed_count;
    uint64_t waiting_count;
    uint64_t returned_count;
    bool is_before_cursor;
};

static void census_add(struct message_list_census *census, const struct message *message, uint32_t message_list_slot)
{
    ASSERT(message->message_list == message_list_slot);
    ASSERT(message->state >= MESSAGE_FRESH && message->state <= MESSAGE_WAITING);
    bool has_timer = message->state == MESSAGE_DELAYED || message->state == MESSAGE_IN_FLIGHT;
    ASSERT(!has_timer || message->heap_index != 0);
    ASSERT((message->state != MESSAGE_FRESH && message->state != MESSAGE_WAITING) || message->heap_index == 0);
    census->count++;
    census->in_flight_count += message->state == MESSAGE_IN_FLIGHT;
    census->delayed_count += message_state_is_delayed(message->state);
    census->waiting_count += message->state == MESSAGE_WAITING;
    census->returned_count += message->state == MESSAGE_RETURNED && !message->is_grouped;
}

void message_list_check(const struct message_list *list, const struct slab *messages, uint32_t message_list_slot)
{
    struct message_list_census census = {.is_before_cursor = true};
    uint32_t prev = 0;
    for (uint32_t slot = list->first; slot != 0; slot = message_at(messages, slot)->next) {
        const struct message *message = message_at(messages, slot);
        ASSERT(!message->is_moved && message->prev == prev);
        ASSERT(prev == 0 || message_at(messages, prev)->number < message->number);
        if (slot == list->cursor)
            census.is_before_cursor = false;
        ASSERT(!census.is_before_cursor || !is_fresh_alone(message));
        census_add(&census, message, message_list_slot);
        prev = slot;
    }
    ASSERT(list->last == prev);
    ASSERT(list->cursor == 0 || !census.is_before_cursor);
    const struct ordered_key least = {0};
    for (struct ordered_cursor at = ordered_seek(&list->moved, &least); at.leaf != NULL; at = ordered_next(at)) {
        const struct message *message = message_at(messages, ordered_slot(at));
        ASSERT(message->is_moved && message->state != MESSAGE_FRESH && message->number == ordered_key(at)->number);
        census_add(&census, message, message_list_slot);
    }
    ASSERT(census.count == list->count);
    ASSERT(census.in_flight_count == list->in_flight_count);
    ASSERT(census.delayed_count == list->delayed_count && census.waiting_count == list->waiting_count);
    ASSERT(census.returned_count == list->returned.count);
    heap_check(&list->returned);
    ordered_check(&list->moved);
}
