#include "core/messages/message_walk.h"

#include "core/state.h"

static bool is_arrival(const struct core *core, uint32_t slot, uint32_t list)
{
    return slot != 0 && core_message(core, slot)->message_list == list && !core_message(core, slot)->is_moved;
}

/* The first arrival whose number is above `number`. Its neighbour may have ended: then it is most often the oldest one
 * that is left, because queues are emptied from there. Otherwise one number after the other is tried. */
static uint32_t find_arrival(struct message_walk *walk, uint32_t list_slot, uint64_t number)
{
    const struct core *core = walk->core;
    const struct message_list *list = core_message_list_at(core, list_slot);
    const uint32_t slot = core_find_message(core, number);
    if (is_arrival(core, slot, list_slot))
        return core_message(core, slot)->next;
    if (list->first == 0 || core_message(core, list->first)->number > number)
        return list->first;
    if (core_message(core, list->last)->number <= number)
        return 0;
    for (uint64_t tried = number + 1; tried <= number + MESSAGE_WALK_VISITS_MAX; tried++) {
        const uint32_t found = core_find_message(core, tried);
        if (is_arrival(core, found, list_slot))
            return found;
    }
    walk->is_lost = true;
    walk->place.arrival = number + MESSAGE_WALK_VISITS_MAX;
    return 0;
}

void message_walk_begin(struct message_walk *walk, const struct core *core, const struct queue *queue,
                        struct message_place place)
{
    const struct ordered_key key = {.sort_key = place.counted_from_ms, .number = place.number + 1};
    *walk = (struct message_walk){.core = core, .place = place};
    walk->arrival = find_arrival(walk, queue->message_list, place.arrival);
    walk->moved = ordered_seek(&core_message_list(core, queue)->moved, &key);
}

/* Is the next arrival older than the next one that was moved here? */
static bool is_arrival_next(const struct message_walk *walk)
{
    if (walk->arrival == 0 || walk->moved.leaf == NULL)
        return walk->arrival != 0;
    const struct message *arrival = core_message(walk->core, walk->arrival);
    const struct ordered_key *moved = ordered_key(walk->moved);
    return arrival->sent_at_ms < moved->sort_key ||
           (arrival->sent_at_ms == moved->sort_key && arrival->number < moved->number);
}

uint32_t message_walk_next(struct message_walk *walk)
{
    uint32_t slot = 0;
    if (is_arrival_next(walk)) {
        slot = walk->arrival;
        walk->arrival = core_message(walk->core, slot)->next;
        walk->place.arrival = core_message(walk->core, slot)->number;
    } else if (walk->moved.leaf != NULL) {
        slot = ordered_slot(walk->moved);
        walk->moved = ordered_next(walk->moved);
    }
    if (slot == 0)
        return 0;
    const struct message *message = core_message(walk->core, slot);
    walk->place.counted_from_ms = core_counted_from_ms(walk->core, message);
    walk->place.number = message->number;
    return slot;
}

bool message_walk_is_over(const struct message_walk *walk)
{
    return walk->arrival == 0 && walk->moved.leaf == NULL;
}

void message_walk_limit(struct message_walk *walk, uint64_t newest)
{
    if (walk->arrival != 0 && core_message(walk->core, walk->arrival)->number > newest)
        walk->arrival = 0;
}

/* The next arrival is still one: nothing but the message before it has left. The ordered set has changed. */
void message_walk_refresh(struct message_walk *walk, const struct queue *queue)
{
    const struct ordered_key key = {.sort_key = walk->place.counted_from_ms, .number = walk->place.number + 1};
    walk->moved = ordered_seek(&core_message_list(walk->core, queue)->moved, &key);
}

/* --- what could be delivered -------------------------------------------------------------------------------------- */

/* May a receive be given this message of a group now? */
static bool is_deliverable_in_group(const struct core *core, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    const uint32_t group = core_group_of(core, message);
    return group != 0 && core_group(core, group)->ring < RING_READY_COUNT && message_is_deliverable(message) &&
           (!core_group(core, group)->is_line || core_group(core, group)->first == slot);
}

uint64_t message_walk_deliverable_since_ms(struct core *core, const struct queue *queue, unsigned *visits,
                                           bool *is_exact)
{
    struct message_list *list = core_message_list_at(core, queue->message_list);
    const uint32_t alone = message_list_next_deliverable(list, &core->messages.items);
    struct message_walk walk;
    uint32_t slot = 0;
    *is_exact = true;
    if (list->ring_bits == 0)
        return core_next_deliverable_ms(core, queue);
    message_walk_begin(&walk, core, queue, (struct message_place){0});
    while (*visits > 0 && (slot = message_walk_next(&walk)) != 0) {
        --*visits;
        if (slot == alone || is_deliverable_in_group(core, slot))
            return core_counted_from_ms(core, core_message(core, slot));
    }
    *is_exact = false;
    return core_next_deliverable_ms(core, queue);
}

/* --- a filter ----------------------------------------------------------------------------------------------------- */

static bool begins_with(struct bytes text, struct bytes beginning)
{
    return text.size >= beginning.size && bytes_equal(bytes_make(text.ptr, beginning.size), beginning);
}

static bool is_of_group(const struct core *core, const struct message *message, struct bytes group)
{
    const uint32_t slot = core_group_of(core, message);
    return slot != 0 && bytes_equal(core_group(core, slot)->id_owned, group);
}

static bool has_failed_so(const struct core *core, const struct message *message, struct bytes reason)
{
    const struct message_extra *extra = core_extra_of(core, message);
    return extra != NULL && begins_with(extra->reason_owned, reason);
}

bool message_filter_takes(const struct message_filter *filter, const struct core *core, const struct queue *queue,
                          uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    return (filter->sent_before_ms == 0 || message->sent_at_ms < filter->sent_before_ms) &&
           message->sent_at_ms >= filter->sent_after_ms && (filter->batch == 0 || message->batch == filter->batch) &&
           (filter->group.size == 0 || is_of_group(core, message, filter->group)) &&
           (filter->reason.size == 0 || has_failed_so(core, message, filter->reason)) &&
           (!filter->has_condition || explain_condition(core, queue, slot) == filter->condition);
}
