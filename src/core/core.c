/* The life of a core, and what others read of it as a whole. */
#include "core/core.h"

#include "core/state.h"

#include "base/kept.h"

struct core *core_create(void)
{
    struct core *core = kept_allocate_zeroed(sizeof(*core));
    pool_init(&core->messages, sizeof(struct message));
    pool_init(&core->places, sizeof(struct place));
    pool_init(&core->groups, sizeof(struct group));
    pool_init(&core->shelves, sizeof(struct shelf));
    pool_init(&core->queues, sizeof(struct queue));
    pool_init(&core->batches, sizeof(struct batch));
    number_map_init(&core->message_by_number);
    table_init(&core->group_by_id);
    table_init(&core->queue_by_id);
    table_init(&core->queue_by_name);
    table_init(&core->batch_by_id);
    table_init(&core->batch_by_number);
    heap_init(&core->timers, &core->messages, offsetof(struct message, heap_index), offsetof(struct message, number));
    heap_init(&core->group_timers, &core->groups, offsetof(struct group, timer_index), offsetof(struct group, number));
    heap_init(&core->queue_timers, &core->queues, offsetof(struct queue, timer_index), offsetof(struct queue, order));
    heap_init(&core->expiries, &core->shelves, offsetof(struct shelf, expiry_index), offsetof(struct shelf, number));
    heap_init(&core->deadlines, &core->batches, offsetof(struct batch, deadline_index), offsetof(struct batch, number));
    list_init(&core->draining_shelves);
    list_init(&core->draining_batches);
    list_init(&core->draining_groups);
    list_init(&core->ready_queues);
    deduplication_init(&core->deduplication);
    dependency_init(&core->dependencies);
    type_order_init(&core->type_orders);
    schedule_init(&core->schedules);
    move_init(&core->moves);
    relay_record_init(&core->relays);
    publisher_init(&core->publishers);
    ticket_pool_init_all(core);
    made_match_init(core);
    buffer_init(&core->matches.new_holds);
    buffer_init(&core->scratch);
    arena_init(&core->received_texts);
    return core;
}

static void unlink_if_linked(struct list_link *link)
{
    if (list_is_linked(link))
        list_remove(link);
}

static void destroy_shelves_and_queues(struct core *core)
{
    while (core->queue_order_count > 0) {
        uint32_t slot = core->queue_order_owned[core->queue_order_count - 1];
        struct queue *queue = core_queue(core, slot);
        struct shelf *shelf = core_shelf_at(core, queue->shelf);
        unlink_if_linked(&queue->ready_link);
        shelf_deinit(shelf);
        queue_deinit(queue);
        core->queue_order_count--;
    }
    while (!list_is_empty(&core->draining_shelves)) {
        struct shelf *shelf = CONTAINER_OF(list_first(&core->draining_shelves), struct shelf, draining_link);
        list_remove(&shelf->draining_link);
        shelf_deinit(shelf);
    }
}

/* Queues that were deleted but are still the origin of messages are in no order. */
static void destroy_origins(struct core *core)
{
    for (uint32_t slot = 1; slot < core->queues.slot_end; slot++) {
        struct queue *queue = core_queue(core, slot);
        if (queue_is_used(queue) && queue->shelf == 0) /* else it is in order */
            queue_deinit(queue);
    }
}

static void destroy_places_and_groups(struct core *core)
{
    for (uint32_t slot = 1; slot < core->places.slot_end; slot++)
        if (place_is_used(place_at(&core->places, slot)))
            kept_free((void *)place_at(&core->places, slot)->reason_owned.ptr);
    for (uint32_t slot = 1; slot < core->groups.slot_end; slot++) {
        struct group *group = core_group(core, slot);
        if (!group_is_used(group))
            continue;
        unlink_if_linked(&group->draining_link);
        kept_free((void *)group->id_owned.ptr);
        kept_free((void *)group->reason_owned.ptr);
        heap_deinit(&group->returned);
    }
}

void core_destroy(struct core *core)
{
    ticket_pool_deinit_all(core);
    made_match_deinit(core);
    relay_record_deinit(&core->relays);
    publisher_deinit(&core->publishers);
    move_deinit(core);
    schedule_deinit(&core->schedules);
    type_order_deinit(&core->type_orders);
    dependency_deinit(&core->dependencies);
    deduplication_deinit(&core->deduplication);
    destroy_places_and_groups(core);
    destroy_origins(core);
    destroy_shelves_and_queues(core);
    for (size_t i = 0; i < core->batch_order_count; i++) {
        if (core->batch_order_owned[i].slot == 0)
            continue;
        struct batch *batch = core_batch(core, core->batch_order_owned[i].slot);
        unlink_if_linked(&batch->draining_link);
        batch->deadline_index = 0;
        batch_deinit(batch);
    }
    heap_deinit(&core->timers);
    heap_deinit(&core->group_timers);
    heap_deinit(&core->queue_timers);
    heap_deinit(&core->expiries);
    heap_deinit(&core->deadlines);
    number_map_deinit(&core->message_by_number);
    table_deinit(&core->group_by_id);
    table_deinit(&core->queue_by_id);
    table_deinit(&core->queue_by_name);
    table_deinit(&core->batch_by_id);
    table_deinit(&core->batch_by_number);
    pool_deinit(&core->messages);
    pool_deinit(&core->places);
    pool_deinit(&core->groups);
    pool_deinit(&core->shelves);
    pool_deinit(&core->queues);
    pool_deinit(&core->batches);
    buffer_deinit(&core->matches.new_holds);
    buffer_deinit(&core->scratch);
    arena_deinit(&core->received_texts);
    kept_free(core->queue_order_owned);
    kept_free(core->batch_order_owned);
    extents_deinit(&core->extents);
    kept_free((void *)core->name_owned.ptr);
    if (core->digest_owned != NULL)
        digest_destroy(core->digest_owned);
    kept_free(core);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

uint64_t core_now_ms(const struct core *core)
{
    return core->now_ms;
}

struct bytes core_name(const struct core *core)
{
    return core->name_owned;
}

struct digest *core_digest(const struct core *core)
{
    return core->digest_owned;
}

struct core_metrics core_metrics(const struct core *core)
{
    return (struct core_metrics){
        .messages = core->messages.used,
        .in_flight = core->in_flight_count,
        .delayed = core->delayed_count,
        .batches = core->batches.used,
        .groups = core->groups.used,
        .deduplication_ids = core->deduplication.entries.used,
        .producers = core->deduplication.producers.used,
        .sent = core->sent_count,
        .delivered = core->delivery_number,
        .publishers = core->publishers.items.used,
        .published_rows = core->publishers.entries.used,
        .reused_ids = core->publishers.reused_count,
    };
}

uint64_t core_index_count(const struct core *core)
{
    return (uint64_t)core->messages.used + core->groups.used + core->batches.used + core->deduplication.entries.used +
           core->deduplication.producers.used + core->publishers.entries.used + core->matches.items.used +
           core->dependencies.antecedents.used + core->dependencies.edges.used +
           core->dependencies.failures.records.used + core->dependencies.batch_outcomes.records.used +
           core->pools.ticket_count;
}

uint64_t core_epoch(const struct core *core)
{
    return core->epoch;
}

uint64_t core_segment_size(const struct core *core)
{
    return core->segment_size;
}

uint64_t core_next_needed_segment(const struct core *core, uint64_t ordinal)
{
    size_t place = extents_place(&core->extents, ordinal);
    return place < core->extents.count ? core->extents.items_owned[place].ordinal : UINT64_MAX;
}

const struct extents *core_extents(const struct core *core)
{
    return &core->extents;
}
