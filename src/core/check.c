/* core_check(): every invariant of the state, by walking all of it. The simulator calls it after each step. */
#include "core/state.h"
#include "core/tags.h"

#include "base/kept.h"
#include <stdlib.h>

/* What the messages say about the records they refer to. */
struct census {
    uint64_t *pins_owned;          /* by batch slot */
    uint64_t *origin_counts_owned; /* by queue slot */
    struct extents extents;
    uint64_t in_flight_count;
    uint64_t delayed_count;
    uint64_t place_count;
    uint64_t grouped_count;
};

static void check_place(const struct core *core, uint32_t slot, struct census *census)
{
    const struct message *message = core_message(core, slot);
    const struct place *place = core_place_of(core, message);
    ASSERT(message->is_grouped == (place != NULL && place->group != 0));
    ASSERT((message->state == MESSAGE_WAITING) == (place != NULL && place->wait_count > 0));
    if (place == NULL)
        return;
    census->place_count++;
    census->grouped_count += message->is_grouped;
    ASSERT(place->message == slot && place->priority <= PRIORITY_MAX);
    ASSERT(place->spared_count <= message->receive_count && place->sequence <= core->messages.message_number);
}

/* Each live group, that its shelf counts it, and that no message stands in two. */
static void check_groups(const struct core *core, const struct census *census)
{
    uint64_t count = 0, live_count = 0;
    uint32_t *counts = kept_allocate_zeroed(core->shelves.items.slot_end * sizeof(*counts)); /* by shelf slot */
    for (uint32_t slot = 1; slot < core->groups.items.slot_end; slot++) {
        if (!group_is_used(core_group(core, slot)))
            continue;
        group_check(core, slot);
        count += core_group(core, slot)->count;
        counts[core_group(core, slot)->shelf]++;
        live_count++;
    }
    for (uint32_t slot = 1; slot < core->shelves.items.slot_end; slot++)
        ASSERT(!shelf_is_used(core_shelf_at(core, slot)) || core_shelf_at(core, slot)->group_count == counts[slot]);
    kept_free(counts);
    ASSERT(count == census->grouped_count && live_count == core->groups.items.used);
    ASSERT(census->place_count == core->places.used);
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
        check_place(core, slot, census);
        bool has_timer = message->state == MESSAGE_IN_FLIGHT || message->state == MESSAGE_DELAYED;
        ASSERT(!has_timer || message->visible_at_ms > core->now_ms);
        ASSERT(message->number <= core->messages.message_number && message->delivery <= core->messages.delivery_number);
        ASSERT((message->receive_count == 0) == (message->delivery == 0));
        if (message->batch != 0 && message->completes == 0 &&
            core_batch(core, message->batch)->spec.tracking == BATCH_EXACT)
            ASSERT(message->unit < core_batch(core, message->batch)->ledger.count);
    }
    ASSERT(live_count == core->messages.items.used && live_count == core->messages.by_number.count);
    number_map_check(&core->messages.by_number);
}

static void check_shelves(const struct core *core)
{
    uint64_t count = 0;
    uint32_t shelves = 0;
    for (size_t i = 0; i < core->queues.order_count; i++) {
        const struct queue *queue = core_queue(core, core->queues.order_owned[i]);
        const struct shelf *shelf = core_shelf_at(core, queue->shelf);
        ASSERT(core_find_queue(core, queue->name_owned) == queue);
        ASSERT(shelf->queue == core->queues.order_owned[i]);
        shelf_check(shelf, &core->messages.items, queue->shelf);
        ASSERT(shelf->count == 0 || shelf->expiry_index != 0);
        ASSERT(tags_are_sound(queue->tags_owned));
        count += shelf->count;
        shelves++;
    }
    for (struct list_link *link = list_first(&core->shelves.draining); link != NULL;
         link = list_next(&core->shelves.draining, link)) {
        const struct shelf *shelf = CONTAINER_OF(link, struct shelf, draining_link);
        ASSERT(shelf->queue == 0 && shelf->count > 0 && shelf->expiry_index == 0);
        shelf_check(shelf, &core->messages.items,
                    core_message(core, shelf_oldest(shelf, &core->messages.items))->shelf);
        count += shelf->count;
        shelves++;
    }
    ASSERT(count == core->messages.items.used);
    ASSERT(shelves == core->shelves.items.used);
}

static void check_batches(const struct core *core, struct census *census)
{
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
        .pins_owned = kept_allocate_zeroed((core->batches.items.slot_end + 1) * sizeof(uint64_t)),
        .origin_counts_owned = kept_allocate_zeroed((core->queues.items.slot_end + 1) * sizeof(uint64_t)),
    };
    count_messages(core, &census);
    check_groups(core, &census);
    check_shelves(core);
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
    heap_check(&core->shelves.expiries);
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
    kept_free(census.pins_owned);
    kept_free(census.origin_counts_owned);
    extents_deinit(&census.extents);
}
