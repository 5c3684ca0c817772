/* Creating and destroying a core, and reading it as a whole. */
#include "core/core.h"
#include "core/decide_namespace.h"

#include "core/state.h"

#include "base/accounted.h"

struct core *core_create(void)
{
    struct core *core = accounted_allocate_zeroed(sizeof(*core));
    slab_init(&core->messages.items, sizeof(struct message));
    slab_init(&core->extras, sizeof(struct message_extra));
    slab_init(&core->groups.items, sizeof(struct group));
    slab_init(&core->message_lists.items, sizeof(struct message_list));
    slab_init(&core->queues.items, sizeof(struct queue));
    slab_init(&core->batches.items, sizeof(struct batch));
    number_map_init(&core->messages.by_number);
    table_init(&core->messages.completions);
    table_init(&core->groups.by_id);
    table_init(&core->queues.by_id);
    table_init(&core->queues.by_name);
    name_index_init(&core->queues.order, &core->queues.items, offsetof(struct queue, name_owned));
    table_init(&core->batches.by_id);
    table_init(&core->batches.by_number);
    heap_init(&core->messages.timers, &core->messages.items, offsetof(struct message, heap_index),
              offsetof(struct message, number));
    heap_init(&core->groups.timers, &core->groups.items, offsetof(struct group, timer_index),
              offsetof(struct group, number));
    heap_init(&core->queues.timers, &core->queues.items, offsetof(struct queue, timer_index),
              offsetof(struct queue, order));
    heap_init(&core->message_lists.expiries, &core->message_lists.items, offsetof(struct message_list, expiry_index),
              offsetof(struct message_list, number));
    heap_init(&core->batches.deadlines, &core->batches.items, offsetof(struct batch, deadline_index),
              offsetof(struct batch, number));
    list_init(&core->message_lists.draining);
    list_init(&core->batches.draining);
    list_init(&core->batches.unfinished);
    list_init(&core->groups.draining);
    list_init(&core->queues.ready);
    list_init(&core->counters.counted);
    deduplication_init(&core->deduplication);
    dependency_init(&core->dependencies);
    type_order_init(&core->type_orders);
    schedule_init(&core->schedules);
    move_init(&core->moves);
    relay_record_init(&core->relays);
    publisher_init(&core->publishers);
    ticket_pool_init_all(core);
    made_match_init(core);
    holders_init(&core->holders);
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

static void destroy_message_lists_and_queues(struct core *core)
{
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        struct message_list *list = core_message_list_at(core, queue->message_list);
        unlink_if_linked(&queue->ready_link);
        unlink_if_linked(&queue->counted_link);
        message_list_deinit(list);
        queue_deinit(queue);
    }
    while (!list_is_empty(&core->message_lists.draining)) {
        struct message_list *list =
            CONTAINER_OF(list_first(&core->message_lists.draining), struct message_list, draining_link);
        list_remove(&list->draining_link);
        message_list_deinit(list);
    }
}

/* Queues that were deleted but are still the origin of messages are in no order. */
static void destroy_origins(struct core *core)
{
    for (uint32_t slot = 1; slot < core->queues.items.slot_end; slot++) {
        struct queue *queue = core_queue(core, slot);
        if (queue_is_used(queue) && queue->message_list == 0) /* else it is in order */
            queue_deinit(queue);
    }
}

static void destroy_extras_and_groups(struct core *core)
{
    for (uint32_t slot = 1; slot < core->extras.slot_end; slot++)
        if (message_extra_is_used(message_extra_at(&core->extras, slot)))
            accounted_free((void *)message_extra_at(&core->extras, slot)->reason_owned.ptr);
    for (uint32_t slot = 1; slot < core->groups.items.slot_end; slot++) {
        struct group *group = core_group(core, slot);
        if (!group_is_used(group))
            continue;
        unlink_if_linked(&group->draining_link);
        accounted_free((void *)group->id_owned.ptr);
        accounted_free((void *)group->reason_owned.ptr);
        heap_deinit(&group->returned);
    }
}

void core_destroy(struct core *core)
{
    holders_deinit(&core->holders);
    ticket_pool_deinit_all(core);
    made_match_deinit(core);
    relay_record_deinit(&core->relays);
    publisher_deinit(&core->publishers);
    move_deinit(core);
    schedule_deinit(&core->schedules);
    type_order_deinit(&core->type_orders);
    dependency_deinit(&core->dependencies);
    deduplication_deinit(&core->deduplication);
    destroy_extras_and_groups(core);
    destroy_origins(core);
    destroy_message_lists_and_queues(core);
    for (size_t i = 0; i < core->batches.order_count; i++) {
        if (core->batches.order_owned[i].slot == 0)
            continue;
        struct batch *batch = core_batch(core, core->batches.order_owned[i].slot);
        unlink_if_linked(&batch->draining_link);
        unlink_if_linked(&batch->unfinished_link);
        batch->deadline_index = 0;
        batch_deinit(batch);
    }
    heap_deinit(&core->messages.timers);
    heap_deinit(&core->groups.timers);
    heap_deinit(&core->queues.timers);
    heap_deinit(&core->message_lists.expiries);
    heap_deinit(&core->batches.deadlines);
    number_map_deinit(&core->messages.by_number);
    table_deinit(&core->messages.completions);
    table_deinit(&core->groups.by_id);
    table_deinit(&core->queues.by_id);
    table_deinit(&core->queues.by_name);
    table_deinit(&core->batches.by_id);
    table_deinit(&core->batches.by_number);
    slab_deinit(&core->messages.items);
    slab_deinit(&core->extras);
    slab_deinit(&core->groups.items);
    slab_deinit(&core->message_lists.items);
    slab_deinit(&core->queues.items);
    slab_deinit(&core->batches.items);
    buffer_deinit(&core->matches.new_holds);
    buffer_deinit(&core->scratch);
    arena_deinit(&core->received_texts);
    name_index_deinit(&core->queues.order);
    accounted_free(core->batches.order_owned);
    extents_deinit(&core->extents);
    accounted_free((void *)core->name_owned.ptr);
    if (core->digest_owned != NULL)
        digest_destroy(core->digest_owned);
    accounted_free(core);
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
        .messages = core->messages.items.used,
        .in_flight = core->messages.in_flight_count,
        .delayed = core->messages.delayed_count,
        .batches = core->batches.items.used,
        .groups = core->groups.items.used,
        .deduplication_ids = core->deduplication.entries.used,
        .producers = core->deduplication.producers.used,
        .sent = core->messages.sent_count,
        .delivered = core->messages.delivery_number % RESTORE_STEP, /* what a restore has raised was no delivery */
        .publishers = core->publishers.items.used,
        .published_rows = core->publishers.entries.used,
        .reused_ids = core->publishers.reused_count,
    };
}

uint64_t core_index_count(const struct core *core)
{
    return (uint64_t)core->messages.items.used + core->groups.items.used + core->batches.items.used +
           core->deduplication.entries.used + core->deduplication.producers.used + core->publishers.entries.used +
           core->matches.items.used + core->dependencies.antecedents.used + core->dependencies.edges.used +
           core->dependencies.failures.records.used + core->dependencies.batch_outcomes.records.used +
           core->pools.ticket_count;
}

static bool has_open_batch(const struct core *core)
{
    for (size_t i = 0; i < core->batches.order_count; i++) {
        const uint32_t slot = core->batches.order_owned[i].slot;
        if (slot != 0 && !core_batch(core, slot)->is_deleted && core_batch(core, slot)->state != BATCH_COMPLETED)
            return true;
    }
    return false;
}

static bool has_live_ticket(const struct core *core)
{
    for (uint32_t i = 0; i < ticket_pool_count(core); i++) {
        const struct ticket_counts *counts = &ticket_pool_at(core, i)->counts;
        if (counts->waiting + counts->held > 0)
            return true;
    }
    return false;
}

bool core_is_vacant(const struct core *core)
{
    return core->messages.items.used == 0 && schedule_count(core) == 0 && relay_record_count(core) == 0 &&
           !has_live_ticket(core) && !has_open_batch(core);
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
    size_t index = extents_index(&core->extents, ordinal);
    return index < core->extents.count ? core->extents.items_owned[index].ordinal : UINT64_MAX;
}

const struct extents *core_extents(const struct core *core)
{
    return &core->extents;
}
