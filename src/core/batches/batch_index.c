/* Batches by id, by number and in order of creation: finding, adding and removing them, and what keeps one there. */
#include "core/core.h"

#include "core/state.h"

#include "base/accounted.h"

#define BATCH_ORDER_MIN 16u /* entries that there is room for at first, and at least from then on */

uint32_t core_find_batch_by_number(const struct core *core, uint64_t number)
{
    for (struct table_probe probe = table_probe_start(&core->batches.by_number, table_hash_u64(number));
         table_probe_next(&core->batches.by_number, &probe);)
        if (core_batch(core, probe.slot)->number == number)
            return probe.slot;
    return 0;
}

const struct batch *core_find_batch(const struct core *core, struct bytes id)
{
    for (struct table_probe probe = table_probe_start(&core->batches.by_id, digest_name(core->digest_owned, id));
         table_probe_next(&core->batches.by_id, &probe);)
        if (bytes_equal(core_batch(core, probe.slot)->id_owned, id))
            return core_batch(core, probe.slot);
    return NULL;
}

/* Index of the first entry whose number is not below `number`. */
static size_t batch_order_index(const struct core *core, uint64_t number)
{
    size_t low = 0, high = core->batches.order_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (core->batches.order_owned[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct batch *core_next_batch(const struct core *core, uint64_t number)
{
    for (size_t i = batch_order_index(core, number); i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        if (slot != 0 && !core_batch(core, slot)->is_deleted)
            return core_batch(core, slot);
    }
    return NULL;
}

uint32_t core_add_batch(struct core *core, uint64_t number, struct bytes id, struct bytes spec)
{
    ASSERT(core->batches.order_count == 0 || core->batches.order_owned[core->batches.order_count - 1].number < number);
    uint32_t slot = slab_allocate(&core->batches.items);
    batch_init(core_batch(core, slot), core->digest_owned, number, id, spec);
    table_insert(&core->batches.by_number, table_hash_u64(number), slot);
    ACCOUNTED_GROW(core->batches.order_owned, core->batches.order_count, core->batches.order_capacity, BATCH_ORDER_MIN);
    core->batches.order_owned[core->batches.order_count++] = (struct batch_order_entry){.number = number, .slot = slot};
    list_append(&core->batches.unfinished, &core_batch(core, slot)->unfinished_link);
    core->batches.counts[BATCH_OPEN]++;
    return slot;
}

void core_set_batch_state(struct core *core, struct batch *batch, enum batch_state state)
{
    core->batches.counts[batch->state]--;
    core->batches.counts[state]++;
    batch->state = state;
    if (state == BATCH_COMPLETED && list_is_linked(&batch->unfinished_link))
        list_remove(&batch->unfinished_link);
}

const struct batch *core_oldest_batch(const struct core *core)
{
    const struct list_link *link = list_first(&core->batches.unfinished);
    return link == NULL ? NULL : CONTAINER_OF(link, struct batch, unfinished_link);
}

uint64_t core_batch_count(const struct core *core, enum batch_state state)
{
    return core->batches.counts[state];
}

/* Gives back what a peak has left. Half of what stays is room, so that the next batch does not make it grow again. */
static void shrink_batch_order(struct core *core)
{
    if (core->batches.order_capacity / 4 <= core->batches.order_count ||
        core->batches.order_capacity <= BATCH_ORDER_MIN)
        return;
    size_t capacity = core->batches.order_count * 2 < BATCH_ORDER_MIN ? BATCH_ORDER_MIN : core->batches.order_count * 2;
    core->batches.order_owned =
        accounted_resize(core->batches.order_owned, capacity * sizeof(*core->batches.order_owned));
    core->batches.order_capacity = capacity;
}

/* Closes the gaps once half of the order is dead: amortised O(1) a removal. */
static void batch_order_remove(struct core *core, uint64_t number)
{
    core->batches.order_owned[batch_order_index(core, number)].slot = 0;
    if (++core->batches.order_dead * 2 <= core->batches.order_count)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < core->batches.order_count; i++)
        if (core->batches.order_owned[i].slot != 0)
            core->batches.order_owned[kept++] = core->batches.order_owned[i];
    core->batches.order_count = kept;
    core->batches.order_dead = 0;
    shrink_batch_order(core);
}

bool core_has_targets(const struct core *core, const struct batch_spec *spec)
{
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++)
        if (spec->targets[i].queue != 0 && core_find_queue_by_id(core, spec->targets[i].queue) == NULL)
            return false;
    return true;
}

/* The search for cycles asks which batches will put a message into a line. */
static void link_awaited(struct core *core, struct batch *batch, bool is_added)
{
    uint32_t queue = core_find_queue_slot(core, batch->spec.targets[batch_awaited_event(&batch->spec) - 1].queue);
    if (queue == 0 || !core_queue(core, queue)->settings.is_fifo)
        return;
    if (is_added)
        list_append(&core_queue(core, queue)->awaited, &batch->awaited_link);
    else
        list_remove(&batch->awaited_link);
}

void core_count_targets(struct core *core, struct batch *batch, bool is_added)
{
    link_awaited(core, batch, is_added);
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++) {
        uint32_t slot = core_find_queue_slot(core, batch->spec.targets[i].queue);
        if (slot == 0)
            continue;
        ASSERT(is_added || core_queue(core, slot)->target_count > 0);
        core_queue(core, slot)->target_count += is_added ? 1 : UINT32_MAX;
    }
}

void core_set_deadline(struct core *core, uint32_t slot)
{
    heap_set(&core->batches.deadlines, batch_deadline_ms(core_batch(core, slot)), slot);
}

void core_pin_batch(struct core *core, uint32_t slot)
{
    core_batch(core, slot)->pins++;
    core_set_deadline(core, slot);
}

static void free_batch(struct core *core, uint32_t slot)
{
    struct batch *batch = core_batch(core, slot);
    uint32_t parent = batch->parent;
    if (batch->deadline_index != 0)
        heap_remove(&core->batches.deadlines, slot);
    if (list_is_linked(&batch->draining_link))
        list_remove(&batch->draining_link);
    if (list_is_linked(&batch->unfinished_link))
        list_remove(&batch->unfinished_link);
    core->batches.counts[batch->state]--;
    table_remove(&core->batches.by_number, table_hash_u64(batch->number), slot);
    batch_order_remove(core, batch->number);
    batch_deinit(batch);
    slab_free(&core->batches.items, slot);
    if (parent != 0)
        core_unpin_batch(core, parent);
}

/* At most BATCH_DEPTH_MAX deep: a freed child unpins its parent. */
void core_unpin_batch(struct core *core, uint32_t slot)
{
    struct batch *batch = core_batch(core, slot);
    ASSERT(batch->pins > 0);
    if (--batch->pins > 0)
        return;
    batch->unpinned_at_ms = core->now_ms;
    if (batch->is_deleted)
        free_batch(core, slot);
    else
        core_set_deadline(core, slot);
}
