#include "core/shelf.h"

void shelf_init(struct shelf *shelf, const struct pool *messages, uint64_t number, uint32_t queue)
{
    *shelf = (struct shelf){.number = number, .queue = queue};
    heap_init(&shelf->returned, messages, offsetof(struct message, heap_index), offsetof(struct message, number));
    heap_init(&shelf->moved, messages, offsetof(struct message, prev), offsetof(struct message, number));
}

void shelf_deinit(struct shelf *shelf)
{
    ASSERT(!list_is_linked(&shelf->draining_link));
    heap_deinit(&shelf->returned);
    heap_deinit(&shelf->moved);
}

void shelf_link(struct shelf *shelf, struct pool *messages, uint32_t slot, uint64_t counted_from_ms)
{
    struct message *message = message_at(messages, slot);
    ASSERT(message->state == 0 && message->prev == 0 && message->next == 0);
    shelf->count++;
    if (message->is_moved) {
        heap_push(&shelf->moved, counted_from_ms, slot);
        return;
    }
    message->prev = shelf->last;
    if (shelf->last != 0) {
        ASSERT(message_at(messages, shelf->last)->sent_at_ms <= message->sent_at_ms);
        message_at(messages, shelf->last)->next = slot;
    } else {
        shelf->first = slot;
    }
    shelf->last = slot;
}

void shelf_unlink(struct shelf *shelf, struct pool *messages, uint32_t slot)
{
    struct message *message = message_at(messages, slot);
    ASSERT(message->state == 0 && shelf->count > 0);
    shelf->count--;
    if (message->is_moved) {
        heap_remove(&shelf->moved, slot);
        return;
    }
    if (shelf->cursor == slot)
        shelf->cursor = message->next;
    if (message->prev != 0)
        message_at(messages, message->prev)->next = message->next;
    else
        shelf->first = message->next;
    if (message->next != 0)
        message_at(messages, message->next)->prev = message->prev;
    else
        shelf->last = message->prev;
    message->prev = message->next = 0;
}

void shelf_enter_state(struct shelf *shelf, struct heap *timers, struct pool *messages, uint32_t slot,
                       enum message_state state)
{
    struct message *message = message_at(messages, slot);
    ASSERT(message->state == 0);
    message->state = (uint8_t)state;
    switch (state) {
    case MESSAGE_FRESH:
        /* Only what has just arrived is fresh, so it stands last: the cursor needs a place only if it had none. */
        ASSERT(!message->is_moved && shelf->last == slot);
        if (shelf->cursor == 0 && !message->is_grouped)
            shelf->cursor = slot;
        break;
    case MESSAGE_RETURNED:
        if (!message->is_grouped)
            heap_push(&shelf->returned, message->number, slot);
        break;
    case MESSAGE_WAITING:
        shelf->delayed_count++;
        break;
    case MESSAGE_DELAYED:
        shelf->delayed_count++;
        heap_push(timers, message->visible_at_ms, slot);
        break;
    case MESSAGE_IN_FLIGHT:
        shelf->in_flight_count++;
        heap_push(timers, message->visible_at_ms, slot);
        break;
    }
}

void shelf_leave_state(struct shelf *shelf, struct heap *timers, struct pool *messages, uint32_t slot)
{
    struct message *message = message_at(messages, slot);
    switch ((enum message_state)message->state) {
    case MESSAGE_FRESH:
        break;
    case MESSAGE_RETURNED:
        if (!message->is_grouped)
            heap_remove(&shelf->returned, slot);
        break;
    case MESSAGE_WAITING:
        ASSERT(shelf->delayed_count > 0);
        shelf->delayed_count--;
        break;
    case MESSAGE_DELAYED:
        ASSERT(shelf->delayed_count > 0);
        shelf->delayed_count--;
        heap_remove(timers, slot);
        break;
    case MESSAGE_IN_FLIGHT:
        ASSERT(shelf->in_flight_count > 0);
        shelf->in_flight_count--;
        heap_remove(timers, slot);
        break;
    }
    message->state = 0;
}

static bool is_fresh_alone(const struct message *message)
{
    return message->state == MESSAGE_FRESH && !message->is_grouped;
}

uint32_t shelf_next_deliverable(struct shelf *shelf, const struct pool *messages)
{
    while (shelf->cursor != 0 && !is_fresh_alone(message_at(messages, shelf->cursor)))
        shelf->cursor = message_at(messages, shelf->cursor)->next;
    if (shelf->returned.count == 0)
        return shelf->cursor;
    struct heap_entry returned = heap_top(&shelf->returned);
    if (shelf->cursor == 0 || returned.key < message_at(messages, shelf->cursor)->number)
        return returned.slot;
    return shelf->cursor;
}

uint32_t shelf_oldest(const struct shelf *shelf, const struct pool *messages)
{
    if (shelf->moved.count == 0)
        return shelf->first;
    struct heap_entry moved = heap_top(&shelf->moved);
    if (shelf->first == 0 || moved.key < message_at(messages, shelf->first)->sent_at_ms)
        return moved.slot;
    return shelf->first;
}

/* What a walk along the arrivals has counted so far. */
struct shelf_census {
    uint64_t count;
    uint64_t in_flight_count;
    uint64_t delayed_count;
    uint64_t returned_count;
    bool is_before_cursor;
};

static void census_add(struct shelf_census *census, const struct message *message, uint32_t shelf_slot)
{
    ASSERT(message->shelf == shelf_slot);
    ASSERT(message->state >= MESSAGE_FRESH && message->state <= MESSAGE_WAITING);
    bool has_timer = message->state == MESSAGE_DELAYED || message->state == MESSAGE_IN_FLIGHT;
    ASSERT(!has_timer || message->heap_index != 0);
    ASSERT((message->state != MESSAGE_FRESH && message->state != MESSAGE_WAITING) || message->heap_index == 0);
    census->count++;
    census->in_flight_count += message->state == MESSAGE_IN_FLIGHT;
    census->delayed_count += message_state_is_delayed(message->state);
    census->returned_count += message->state == MESSAGE_RETURNED && !message->is_grouped;
}

void shelf_check(const struct shelf *shelf, const struct pool *messages, uint32_t shelf_slot)
{
    struct shelf_census census = {.is_before_cursor = true};
    uint32_t prev = 0;
    for (uint32_t slot = shelf->first; slot != 0; slot = message_at(messages, slot)->next) {
        const struct message *message = message_at(messages, slot);
        ASSERT(!message->is_moved && message->prev == prev);
        ASSERT(prev == 0 || message_at(messages, prev)->number < message->number);
        if (slot == shelf->cursor)
            census.is_before_cursor = false;
        ASSERT(!census.is_before_cursor || !is_fresh_alone(message));
        census_add(&census, message, shelf_slot);
        prev = slot;
    }
    ASSERT(shelf->last == prev);
    ASSERT(shelf->cursor == 0 || !census.is_before_cursor);
    for (uint32_t i = 0; i < shelf->moved.count; i++) {
        const struct message *message = message_at(messages, shelf->moved.entries_owned[i].slot);
        ASSERT(message->is_moved && message->state != MESSAGE_FRESH);
        census_add(&census, message, shelf_slot);
    }
    ASSERT(census.count == shelf->count);
    ASSERT(census.in_flight_count == shelf->in_flight_count);
    ASSERT(census.delayed_count == shelf->delayed_count);
    ASSERT(census.returned_count == shelf->returned.count);
    heap_check(&shelf->returned);
    heap_check(&shelf->moved);
}
