/* core_check() asserts every invariant by walking the whole state. The simulator calls it after each step. */
#include "core/queues/tags.h"
#include "core/state.h"

#include "base/accounted.h"
#include <stdlib.h>

/* What the messages say about the records they refer to. */
struct census {
    uint64_t *pins_owned;          /* by batch slot */
    uint64_t *origin_counts_owned; /* by queue slot */
    struct extents extents;
    uint64_t in_flight_count;
    uint64_t delayed_count;
    uint64_t extra_count;
    uint64_t grouped_count;
    uint64_t completion_count;
};

static void check_extra(const struct core *core, uint32_t slot, struct census *census)
{
    const struct message *message = core_message(core, slot);
    const struct message_extra *extra = core_extra_of(core, message);
    ASSERT(message->is_grouped == (extra != NULL && extra->group != 0));
    ASSERT((message->state == MESSAGE_WAITING) == (extra != NULL && extra->wait_count > 0));
    if (extra == NULL)
        return;
    census->extra_count++;
    census->grouped_count += message->is_grouped;
    ASSERT(extra->message == slot && extra->priority <= PRIORITY_MAX);
    ASSERT(extra->spared_count <= message->receive_count && extra->sequence <= core->messages.message_number);
}

/* The groups of a message list. */
struct group_census {
    uint32_t count;
    uint32_t held_count;
};

/* Each live group, that its message list counts it, and that no message stands in two. */
static void check_groups(const struct core *core, const struct census *census)
{
    uint64_t count = 0, live_count = 0;
    struct group_census *counts =
        accounted_allocate_zeroed(core->message_lists.items.slot_end * sizeof(*counts)); /* by message list slot */
    for (uint32_t slot = 1; slot < core->groups.items.slot_end; slot++) {
        if (!group_is_used(core_group(core, slot)))
            continue;
        group_check(core, slot);
        count += core_group(core, slot)->count;
        counts[core_group(core, slot)->message_list].count++;
        counts[core_group(core, slot)->message_list].held_count += core_group(core, slot)->ring == RING_HELD;
        live_count++;
    }
    for (uint32_t slot = 1; slot < core->message_lists.items.slot_end; slot++)
        ASSERT(!message_list_is_used(core_message_list_at(core, slot)) ||
               (core_message_list_at(core, slot)->group_count == counts[slot].count &&
                core_message_list_at(core, slot)->held_count == counts[slot].held_count));
    accounted_free(counts);
    ASSERT(count == census->grouped_count && live_count == core->groups.items.used);
    ASSERT(census->extra_count == core->extras.used);
}

static void count_messages(const struct core *core, struct census *census)
{
    uint64_t live_count = 0;
    for (uint32_t slot = 1; slot < core->messages.items.slot_end; slot++) {
        const struct message *message = core_message(core, slot);
        if (!message_is_used(message))
            continue;
        ASSERT(core_find_message(core, message->number) == slot);
        live_count++;
        if (message->batch != 0)
            census->pins_owned[message->batch]++;
        if (message->origin != 0)
            census->origin_counts_owned[message->origin]++;
        extents_enter(&census->extents, message->position / core->segment_size, message->content_size);
        census->in_flight_count += message->state == MESSAGE_IN_FLIGHT;
        census->delayed_count += message_state_is_delayed(message->state);
        check_extra(core, slot, census);
        bool has_timer = message->state == MESSAGE_IN_FLIGHT || message->state == MESSAGE_DELAYED;
        ASSERT(!has_timer || message->visible_at_ms > core->now_ms);
        ASSERT(message->number <= core->messages.message_number && message->delivery <= core->messages.delivery_number);
        ASSERT((message->receive_count == 0) == (message->delivery == 0));
        census->completion_count += message->completes != 0;
        if (message->batch != 0 && message->completes == 0 &&
            core_batch(core, message->batch)->spec.tracking == BATCH_EXACT)
            ASSERT(message->unit < core_batch(core, message->batch)->ledger.count);
    }
    ASSERT(live_count == core->messages.items.used && live_count == core->messages.by_number.count);
    number_map_check(&core->messages.by_number);
    table_check(&core->messages.completions);
    ASSERT(census->completion_count == table_count(&core->messages.completions));
}

static void check_message_lists(const struct core *core)
{
    uint64_t count = 0;
    uint32_t message_lists = 0;
    name_index_check(&core->queues.order);
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        const struct message_list *list = core_message_list_at(core, queue->message_list);
        ASSERT(core_find_queue(core, queue->name_owned) == queue);
        ASSERT(list->queue == name_index_at(&core->queues.order, i));
        message_list_check(list, &core->messages.items, queue->message_list);
        ASSERT(list->count == 0 || list->expiry_index != 0);
        ASSERT(tags_are_sound(queue->tags_owned));
        count += list->count;
        message_lists++;
    }
    for (struct list_link *link = list_first(&core->message_lists.draining); link != NULL;
         link = list_next(&core->message_lists.draining, link)) {
        const struct message_list *list = CONTAINER_OF(link, struct message_list, draining_link);
        ASSERT(list->queue == 0 && list->count > 0 && list->expiry_index == 0);
        message_list_check(list, &core->messages.items,
                           core_message(core, message_list_oldest(list, &core->messages.items))->message_list);
        count += list->count;
        message_lists++;
    }
    ASSERT(count == core->messages.items.used);
    ASSERT(message_lists == core->message_lists.items.used);
}

static void check_unfinished_batches(const struct core *core)
{
    const struct list *unfinished = &core->batches.unfinished;
    uint64_t count = 0, newest = 0;
    for (const struct list_link *link = list_first(unfinished); link != NULL; link = list_next(unfinished, link)) {
        const struct batch *batch = CONTAINER_OF(link, struct batch, unfinished_link);
        ASSERT(batch->state != BATCH_COMPLETED && batch->number > newest);
        newest = batch->number;
        count++;
    }
    ASSERT(count == core->batches.counts[BATCH_OPEN] + core->batches.counts[BATCH_IS_SEALED]);
    ASSERT(count + core->batches.counts[BATCH_COMPLETED] == core->batches.items.used);
}

static void check_batches(const struct core *core, struct census *census)
{
    check_unfinished_batches(core);
    for (size_t i = 0; i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        if (slot != 0 && core_batch(core, slot)->parent != 0)
            census->pins_owned[core_batch(core, slot)->parent]++;
    }
    uint32_t live_count = 0;
    for (size_t i = 0; i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        if (slot == 0)
            continue;
        live_count++;
        const struct batch *batch = core_batch(core, slot);
        batch_check(batch);
        ASSERT(batch_queues_are_sound(batch, batch->parent == 0 ? NULL : core_batch(core, batch->parent)));
        ASSERT(batch->pins == census->pins_owned[slot]); /* invariant B17 */
        ASSERT(!batch->is_deleted || batch->pins > 0);
        ASSERT((batch->deadline_index != 0) == (batch_deadline_ms(batch) != UINT64_MAX));
        ASSERT(batch->is_deleted == (core_find_batch(core, batch->id_owned) != batch));
    }
    ASSERT(live_count == core->batches.items.used);
}

void core_check(const struct core *core)
{
    struct census census = {
        .pins_owned = accounted_allocate_zeroed((core->batches.items.slot_end + 1) * sizeof(uint64_t)),
        .origin_counts_owned = accounted_allocate_zeroed((core->queues.items.slot_end + 1) * sizeof(uint64_t)),
    };
    count_messages(core, &census);
    check_groups(core, &census);
    check_message_lists(core);
    check_batches(core, &census);
    extents_check(&core->extents, &census.extents);
    for (uint32_t slot = 1; slot < core->queues.items.slot_end; slot++)
        if (queue_is_used(core_queue(core, slot)))
            ASSERT(core_queue(core, slot)->origin_count == census.origin_counts_owned[slot]);
        else
            ASSERT(census.origin_counts_owned[slot] == 0);
    ASSERT(census.in_flight_count == core->messages.in_flight_count);
    ASSERT(census.delayed_count == core->messages.delayed_count);
    heap_check(&core->messages.timers);
    heap_check(&core->groups.timers);
    heap_check(&core->queues.timers);
    heap_check(&core->message_lists.expiries);
    heap_check(&core->batches.deadlines);
    deduplication_check(core);
    dependency_check(core);
    type_order_check(core);
    schedule_check(core);
    relay_record_check(core);
    move_check(core);
    publisher_check(core);
    ticket_pool_check_all(core);
    made_match_check(core);
    holder_check(core);
    accounted_free(census.pins_owned);
    accounted_free(census.origin_counts_owned);
    extents_deinit(&census.extents);
}
