/* Queues by name and by id, and their message lists: finding, adding and removing them, and which of them can
 * deliver. */
#include "core/core.h"

#include "core/state.h"

uint32_t core_find_queue_slot(const struct core *core, uint32_t id)
{
    for (struct table_probe probe = table_probe_start(&core->queues.by_id, table_hash_u64(id));
         table_probe_next(&core->queues.by_id, &probe);)
        if (core_queue(core, probe.slot)->id == id)
            return probe.slot;
    return 0;
}

struct queue *core_find_queue_by_id(const struct core *core, uint32_t id)
{
    uint32_t slot = core_find_queue_slot(core, id);
    return slot == 0 || core_queue(core, slot)->message_list == 0 ? NULL : core_queue(core, slot);
}

struct queue *core_find_queue(const struct core *core, struct bytes name)
{
    for (struct table_probe probe = table_probe_start(&core->queues.by_name, digest_name(core->digest_owned, name));
         table_probe_next(&core->queues.by_name, &probe);)
        if (bytes_equal(core_queue(core, probe.slot)->name_owned, name))
            return core_queue(core, probe.slot);
    return NULL;
}

size_t core_queue_count(const struct core *core)
{
    return core->queues.order.count;
}

struct queue *core_queue_by_name(const struct core *core, size_t index)
{
    ASSERT(index < core->queues.order.count);
    return core_queue(core, name_index_at(&core->queues.order, (uint32_t)index));
}

size_t core_queue_index(const struct core *core, struct bytes name)
{
    return name_index_place(&core->queues.order, name);
}

uint32_t core_add_queue(struct core *core, uint32_t id, struct bytes name)
{
    uint32_t slot = slab_allocate(&core->queues.items);
    queue_init(core_queue(core, slot), id, name);
    table_insert(&core->queues.by_id, table_hash_u64(id), slot);
    return slot;
}

/* Gives the queue its place among the names; core_remove_queue_name() takes it away. */
static void add_queue_name(struct core *core, uint32_t slot)
{
    table_insert(&core->queues.by_name, digest_name(core->digest_owned, core_queue(core, slot)->name_owned), slot);
    name_index_insert(&core->queues.order, slot);
}

void core_remove_queue_name(struct core *core, uint32_t slot)
{
    table_remove(&core->queues.by_name, digest_name(core->digest_owned, core_queue(core, slot)->name_owned), slot);
    name_index_remove(&core->queues.order, slot);
}

void core_release_queue(struct core *core, uint32_t slot)
{
    struct queue *queue = core_queue(core, slot);
    if (queue->message_list != 0 || queue->origin_count > 0)
        return;
    if (list_is_linked(&queue->ready_link))
        list_remove(&queue->ready_link);
    if (list_is_linked(&queue->counted_link))
        list_remove(&queue->counted_link);
    table_remove(&core->queues.by_id, table_hash_u64(queue->id), slot);
    queue_deinit(queue);
    queue->name_owned = bytes_make(NULL, 0); /* whoever walks over the slots knows a free one by that */
    slab_free(&core->queues.items, slot);
}

/* --- message lists ------------------------------------------------------------------------------------------------ */

const struct message_list *core_message_list(const struct core *core, const struct queue *queue)
{
    return core_message_list_at(core, queue->message_list);
}

uint32_t core_add_message_list(struct core *core, uint64_t number, uint32_t queue)
{
    uint32_t slot = slab_allocate(&core->message_lists.items);
    message_list_init(core_message_list_at(core, slot), &core->messages.items, number, queue);
    if (queue == 0) {
        list_append(&core->message_lists.draining, &core_message_list_at(core, slot)->draining_link);
    } else {
        bool is_new = core_queue(core, queue)->message_list == 0;
        core_queue(core, queue)->message_list = slot;
        if (is_new)
            add_queue_name(core, queue);
    }
    return slot;
}

void core_expect_expiry(struct core *core, uint32_t slot)
{
    struct message_list *list = core_message_list_at(core, slot);
    uint32_t oldest = message_list_oldest(list, &core->messages.items);
    if (list->queue == 0 || oldest == 0)
        return;
    uint64_t retention_ms = (uint64_t)core_queue(core, list->queue)->settings.retention_s * 1000;
    uint64_t expires_at_ms = core_counted_from_ms(core, core_message(core, oldest)) + retention_ms;
    if (list->expiry_index == 0)
        heap_push(&core->message_lists.expiries, expires_at_ms, slot);
    else if (core->message_lists.expiries.entries_owned[list->expiry_index - 1].key > expires_at_ms)
        heap_update(&core->message_lists.expiries, expires_at_ms, slot);
}

uint64_t core_oldest_since_ms(const struct core *core, const struct queue *queue)
{
    uint32_t oldest = message_list_oldest(core_message_list(core, queue), &core->messages.items);
    return oldest == 0 ? UINT64_MAX : core_counted_from_ms(core, core_message(core, oldest));
}

/* --- what they can deliver ---------------------------------------------------------------------------------------- */

void core_set_queue_timer(struct core *core, struct queue *queue)
{
    uint32_t slot = core_find_queue_slot(core, queue->id);
    uint64_t at_ms = rate_allows_at_ms(&queue->settings.queue_rate, queue->rate_tat_us);
    bool is_needed = queue->message_list != 0 && at_ms > core->now_ms;
    heap_set(&core->queues.timers, is_needed ? at_ms : HEAP_NEVER, slot);
}

bool core_queue_is_open(const struct core *core, const struct queue *queue)
{
    return !queue->is_paused && rate_allows_at_ms(&queue->settings.queue_rate, queue->rate_tat_us) <= core->now_ms;
}

bool core_has_deliverable(const struct core *core, const struct queue *queue)
{
    struct message_list *list = core_message_list_at(core, queue->message_list);
    return core_queue_is_open(core, queue) &&
           (list->ring_bits != 0 || message_list_next_deliverable(list, &core->messages.items) != 0);
}

uint64_t core_next_deliverable_ms(const struct core *core, const struct queue *queue)
{
    struct message_list *list = core_message_list_at(core, queue->message_list);
    const uint32_t alone = message_list_next_deliverable(list, &core->messages.items);
    uint64_t oldest_ms = alone == 0 ? UINT64_MAX : core_counted_from_ms(core, core_message(core, alone));
    for (uint32_t bits = list->ring_bits; bits != 0; bits &= bits - 1) {
        const uint32_t head = group_next_deliverable(core, list->rings[__builtin_ctz(bits)].first);
        const uint64_t since_ms = head == 0 ? UINT64_MAX : core_counted_from_ms(core, core_message(core, head));
        oldest_ms = since_ms < oldest_ms ? since_ms : oldest_ms;
    }
    return oldest_ms;
}

uint64_t core_oldest_deliverable_ms(const struct core *core, const struct queue *queue)
{
    return core_has_deliverable(core, queue) ? core_next_deliverable_ms(core, queue) : UINT64_MAX;
}

struct queue *core_take_ready_queue(struct core *core)
{
    struct list_link *link = list_first(&core->queues.ready);
    if (link == NULL)
        return NULL;
    list_remove(link);
    return CONTAINER_OF(link, struct queue, ready_link);
}

void core_notice_queue(struct core *core, struct queue *queue)
{
    if (!list_is_linked(&queue->ready_link))
        list_append(&core->queues.ready, &queue->ready_link);
}

bool core_has_ready_queue(const struct core *core)
{
    return !list_is_empty(&core->queues.ready);
}
