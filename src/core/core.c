/* Tables, pools and links of the state: what apply.c and snapshot.c build it from, and what readers ask of it. */
#include "core/core.h"

#include "base/kept.h"
#include "core/identity.h"
#include "core/state.h"
#include <stdlib.h>

#define BATCH_ORDER_MIN 16u /* entries that there is room for at first, and at least from then on */

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
    buffer_init(&core->new_holds);
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
    buffer_deinit(&core->new_holds);
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

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* Memory that was needed once goes back, of what there can be millions of. Between two frames nobody holds a record
 * that was freed. */
static void trim_pools(struct core *core)
{
    struct pool *pools[] = {&core->messages,
                            &core->message_by_number.leaves,
                            &core->places,
                            &core->groups,
                            &core->batches,
                            &core->deduplication.entries,
                            &core->deduplication.lanes,
                            &core->dependencies.antecedents,
                            &core->dependencies.edges,
                            &core->dependencies.failures.records,
                            &core->dependencies.batch_outcomes.records,
                            &core->publishers.entries,
                            &core->type_orders.typed,
                            &core->type_orders.lanes,
                            &core->made_matches};
    for (size_t i = 0; i < ARRAY_LENGTH(pools); i++)
        pool_trim(pools[i]);
    if (core->pool_count > 0) /* of up to a thousand one at a time */
        pool_trim(&ticket_pool_at(core, core->trim_turn++ % core->pool_count)->tickets);
}

void core_frame_open(struct core *core, struct buffer *frame, uint64_t position, uint64_t now_ms, size_t ample_size)
{
    ASSERT(core->frame == NULL && position >= frame->size);
    ASSERT(now_ms >= core->now_ms);
    trim_pools(core);
    buffer_truncate(&core->new_holds, 0);
    core_advance(core, now_ms);
    core->frame = frame;
    core->frame_base = position - frame->size;
    core->frame_ample_size = ample_size;
}

void core_frame_close(struct core *core)
{
    ASSERT(core->frame != NULL);
    core->frame = NULL;
}

void core_emit(struct core *core, const struct event *event)
{
    ASSERT(core->frame != NULL);
    uint64_t position = core->frame_base + core->frame->size + EVENT_HEADER_SIZE;
    event_encode(event, core->frame);
    core->has_fired = false;
    bool is_applied = core_apply(core, event, position);
    ASSERT(is_applied); /* what was decided against the state fits the state */
}

void core_emit_sent(struct core *core, const struct queue *queue, const struct event_sent_in_group *sent)
{
    ASSERT(sent->queue == queue->id);
    bool is_grouped = queue->settings.is_fifo || sent->group.size > 0 || sent->priority != PRIORITY_DEFAULT;
    struct event event = {.kind = EVENT_SENT_IN_GROUP, .sent_in_group = *sent};
    if (!is_grouped)
        event = (struct event){.kind = EVENT_SENT,
                               .sent = {.number = sent->number,
                                        .queue = sent->queue,
                                        .visible_at_ms = sent->visible_at_ms,
                                        .batch = sent->batch,
                                        .unit = sent->unit,
                                        .completes = sent->completes,
                                        .content = sent->content}};
    core_emit(core, &event);
}

uint64_t core_send_own(struct core *core, const struct queue *queue, struct content *content, uint64_t batch,
                       uint8_t completes)
{
    uint64_t number = core->message_number + 1;
    uint64_t delay_ms = (uint64_t)queue->settings.delay_s * 1000;
    digest_md5(core->digest_owned, content->body, content->body_md5);
    buffer_truncate(&core->scratch, 0);
    content_encode(content, &core->scratch);
    core_emit_sent(core, queue,
                   &(struct event_sent_in_group){.number = number,
                                                 .queue = queue->id,
                                                 .visible_at_ms = delay_ms == 0 ? 0 : core->now_ms + delay_ms,
                                                 .batch = batch,
                                                 .completes = completes,
                                                 .priority = PRIORITY_DEFAULT,
                                                 .group = content->group,
                                                 .content = buffer_bytes(&core->scratch)});
    return number;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

uint32_t core_find_message(const struct core *core, uint64_t number)
{
    return number_map_find(&core->message_by_number, number);
}

uint32_t core_add_message(struct core *core, uint64_t number, uint64_t position, uint32_t size)
{
    uint32_t slot = pool_allocate(&core->messages);
    struct message *message = core_message(core, slot);
    message->number = number;
    message->position = position;
    message->content_size = size;
    number_map_insert(&core->message_by_number, number, slot);
    extents_enter(&core->extents, position / core->segment_size, size);
    return slot;
}

void core_place_message(struct core *core, uint32_t slot, uint32_t shelf)
{
    core_message(core, slot)->shelf = shelf;
    shelf_link(core_shelf_at(core, shelf), &core->messages, slot, core_counted_from_ms(core, core_message(core, slot)));
    core_expect_expiry(core, shelf);
}

/* Tells the api that this shelf's queue has something to deliver. */
static void notice_ready(struct core *core, const struct shelf *shelf)
{
    if (shelf->queue == 0)
        return;
    core_notice_queue(core, core_queue(core, shelf->queue));
}

void core_enter_state(struct core *core, uint32_t slot, enum message_state state)
{
    struct message *message = core_message(core, slot);
    struct shelf *shelf = core_shelf_at(core, message->shelf);
    shelf_enter_state(shelf, &core->timers, &core->messages, slot, state);
    core->in_flight_count += state == MESSAGE_IN_FLIGHT;
    core->delayed_count += message_state_is_delayed(state);
    if (message->is_grouped) {
        group_enter_state(core, slot);
        group_settle(core, core_group_of(core, message), false);
    } else if (message_is_deliverable(message)) {
        notice_ready(core, shelf);
    }
}

void core_leave_state(struct core *core, uint32_t slot)
{
    struct message *message = core_message(core, slot);
    core->in_flight_count -= message->state == MESSAGE_IN_FLIGHT;
    core->delayed_count -= message_state_is_delayed(message->state);
    if (message->is_grouped)
        group_leave_state(core, slot);
    struct shelf *shelf = core_shelf_at(core, message->shelf);
    bool makes_room = message->state == MESSAGE_IN_FLIGHT && shelf->ring_bits != 0;
    shelf_leave_state(shelf, &core->timers, &core->messages, slot);
    if (makes_room)
        notice_ready(core, shelf); /* a receive may have stopped at the limit of messages in flight */
}

void core_set_queue_timer(struct core *core, struct queue *queue)
{
    uint32_t slot = core_find_queue_slot(core, queue->id);
    uint64_t at_ms = rate_allows_at_ms(&queue->settings.queue_rate, queue->rate_tat_us);
    bool is_needed = queue->shelf != 0 && at_ms > core->now_ms;
    heap_set(&core->queue_timers, is_needed ? at_ms : HEAP_NEVER, slot);
}

bool core_queue_is_open(const struct core *core, const struct queue *queue)
{
    return !queue->is_paused && rate_allows_at_ms(&queue->settings.queue_rate, queue->rate_tat_us) <= core->now_ms;
}

bool core_has_deliverable(struct core *core, const struct queue *queue)
{
    struct shelf *shelf = core_shelf_at(core, queue->shelf);
    return core_queue_is_open(core, queue) &&
           (shelf->ring_bits != 0 || shelf_next_deliverable(shelf, &core->messages) != 0);
}

bool core_message_is_dead(const struct core *core, const struct message *message)
{
    if (core_shelf_at(core, message->shelf)->queue == 0)
        return true;
    uint32_t group = core_group_of(core, message);
    if (group != 0 && core_place_of(core, message)->sequence <= core_group(core, group)->cancelled_sequence)
        return true;
    return message->batch != 0 && message->completes == 0 && core_batch(core, message->batch)->is_cancelled;
}

/* --- queues and shelves ------------------------------------------------------------------------------------------- */

size_t core_queue_place(const struct core *core, struct bytes name)
{
    size_t low = 0, high = core->queue_order_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(core_queue(core, core->queue_order_owned[middle])->name_owned, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t core_add_queue(struct core *core, uint32_t id, struct bytes name)
{
    uint32_t slot = pool_allocate(&core->queues);
    queue_init(core_queue(core, slot), id, name);
    table_insert(&core->queue_by_id, table_hash_u64(id), slot);
    return slot;
}

/* Gives the queue its place among the names; core_remove_queue_name() takes it away. */
static void add_queue_name(struct core *core, uint32_t slot)
{
    struct bytes name = core_queue(core, slot)->name_owned;
    table_insert(&core->queue_by_name, digest_name(core->digest_owned, name), slot);
    if (core->queue_order_count == core->queue_order_capacity) {
        core->queue_order_capacity = core->queue_order_capacity == 0 ? 16 : core->queue_order_capacity * 2;
        core->queue_order_owned =
            kept_resize(core->queue_order_owned, core->queue_order_capacity * sizeof(*core->queue_order_owned));
    }
    size_t place = core_queue_place(core, name);
    memmove(core->queue_order_owned + place + 1, core->queue_order_owned + place,
            (core->queue_order_count - place) * sizeof(*core->queue_order_owned));
    core->queue_order_owned[place] = slot;
    core->queue_order_count++;
}

void core_remove_queue_name(struct core *core, uint32_t slot)
{
    struct bytes name = core_queue(core, slot)->name_owned;
    table_remove(&core->queue_by_name, digest_name(core->digest_owned, name), slot);
    size_t place = core_queue_place(core, name);
    ASSERT(core->queue_order_owned[place] == slot);
    core->queue_order_count--;
    memmove(core->queue_order_owned + place, core->queue_order_owned + place + 1,
            (core->queue_order_count - place) * sizeof(*core->queue_order_owned));
}

void core_release_queue(struct core *core, uint32_t slot)
{
    struct queue *queue = core_queue(core, slot);
    if (queue->shelf != 0 || queue->origin_count > 0)
        return;
    unlink_if_linked(&queue->ready_link);
    table_remove(&core->queue_by_id, table_hash_u64(queue->id), slot);
    queue_deinit(queue);
    queue->name_owned = bytes_make(NULL, 0); /* whoever walks over the slots knows a free one by that */
    pool_free(&core->queues, slot);
}

uint32_t core_add_shelf(struct core *core, uint64_t number, uint32_t queue)
{
    uint32_t slot = pool_allocate(&core->shelves);
    shelf_init(core_shelf_at(core, slot), &core->messages, number, queue);
    if (queue == 0) {
        list_append(&core->draining_shelves, &core_shelf_at(core, slot)->draining_link);
    } else {
        bool is_new = core_queue(core, queue)->shelf == 0;
        core_queue(core, queue)->shelf = slot;
        if (is_new)
            add_queue_name(core, queue);
    }
    return slot;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

void core_sort_ids(uint32_t *ids, uint32_t count)
{
    qsort(ids, count, sizeof(*ids), compare_ids);
}

uint32_t core_find_queue_slot(const struct core *core, uint32_t id)
{
    for (struct table_probe probe = table_probe_start(&core->queue_by_id, table_hash_u64(id));
         table_probe_next(&core->queue_by_id, &probe);)
        if (core_queue(core, probe.slot)->id == id)
            return probe.slot;
    return 0;
}

struct queue *core_find_queue_by_id(const struct core *core, uint32_t id)
{
    uint32_t slot = core_find_queue_slot(core, id);
    return slot == 0 || core_queue(core, slot)->shelf == 0 ? NULL : core_queue(core, slot);
}

struct queue *core_find_queue(const struct core *core, struct bytes name)
{
    for (struct table_probe probe = table_probe_start(&core->queue_by_name, digest_name(core->digest_owned, name));
         table_probe_next(&core->queue_by_name, &probe);)
        if (bytes_equal(core_queue(core, probe.slot)->name_owned, name))
            return core_queue(core, probe.slot);
    return NULL;
}

void core_expect_expiry(struct core *core, uint32_t slot)
{
    struct shelf *shelf = core_shelf_at(core, slot);
    uint32_t oldest = shelf_oldest(shelf, &core->messages);
    if (shelf->queue == 0 || oldest == 0)
        return;
    uint64_t retention_ms = (uint64_t)core_queue(core, shelf->queue)->settings.retention_s * 1000;
    uint64_t expires_at_ms = core_counted_from_ms(core, core_message(core, oldest)) + retention_ms;
    if (shelf->expiry_index == 0)
        heap_push(&core->expiries, expires_at_ms, slot);
    else if (core->expiries.entries_owned[shelf->expiry_index - 1].key > expires_at_ms)
        heap_update(&core->expiries, expires_at_ms, slot);
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

uint32_t core_find_batch_by_number(const struct core *core, uint64_t number)
{
    for (struct table_probe probe = table_probe_start(&core->batch_by_number, table_hash_u64(number));
         table_probe_next(&core->batch_by_number, &probe);)
        if (core_batch(core, probe.slot)->number == number)
            return probe.slot;
    return 0;
}

uint32_t core_queue_of_message(const struct core *core, uint64_t number)
{
    uint32_t slot = core_find_message(core, number);
    uint32_t queue = slot == 0 ? 0 : core_shelf_at(core, core_message(core, slot)->shelf)->queue;
    return queue == 0 ? 0 : core_queue(core, queue)->id;
}

const struct batch *core_find_batch(const struct core *core, struct bytes id)
{
    for (struct table_probe probe = table_probe_start(&core->batch_by_id, digest_name(core->digest_owned, id));
         table_probe_next(&core->batch_by_id, &probe);)
        if (bytes_equal(core_batch(core, probe.slot)->id_owned, id))
            return core_batch(core, probe.slot);
    return NULL;
}

/* Index of the first entry whose number is not below `number`. */
static size_t batch_place(const struct core *core, uint64_t number)
{
    size_t low = 0, high = core->batch_order_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (core->batch_order_owned[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct batch *core_next_batch(const struct core *core, uint64_t number)
{
    for (size_t i = batch_place(core, number); i < core->batch_order_count; i++) {
        uint32_t slot = core->batch_order_owned[i].slot;
        if (slot != 0 && !core_batch(core, slot)->is_deleted)
            return core_batch(core, slot);
    }
    return NULL;
}

uint32_t core_add_batch(struct core *core, uint64_t number, struct bytes id, struct bytes spec)
{
    ASSERT(core->batch_order_count == 0 || core->batch_order_owned[core->batch_order_count - 1].number < number);
    uint32_t slot = pool_allocate(&core->batches);
    batch_init(core_batch(core, slot), core->digest_owned, number, id, spec);
    table_insert(&core->batch_by_number, table_hash_u64(number), slot);
    if (core->batch_order_count == core->batch_order_capacity) {
        core->batch_order_capacity = core->batch_order_capacity == 0 ? BATCH_ORDER_MIN : core->batch_order_capacity * 2;
        core->batch_order_owned =
            kept_resize(core->batch_order_owned, core->batch_order_capacity * sizeof(*core->batch_order_owned));
    }
    core->batch_order_owned[core->batch_order_count++] = (struct batch_order_entry){.number = number, .slot = slot};
    return slot;
}

/* Gives back what a peak has left. Half of what stays is room, so that the next batch does not make it grow again. */
static void shrink_batch_order(struct core *core)
{
    if (core->batch_order_capacity / 4 <= core->batch_order_count || core->batch_order_capacity <= BATCH_ORDER_MIN)
        return;
    size_t capacity = core->batch_order_count * 2 < BATCH_ORDER_MIN ? BATCH_ORDER_MIN : core->batch_order_count * 2;
    core->batch_order_owned = kept_resize(core->batch_order_owned, capacity * sizeof(*core->batch_order_owned));
    core->batch_order_capacity = capacity;
}

/* Closes the gaps once half of the order is dead: amortised O(1) a removal. */
static void batch_order_remove(struct core *core, uint64_t number)
{
    core->batch_order_owned[batch_place(core, number)].slot = 0;
    if (++core->batch_order_dead * 2 <= core->batch_order_count)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < core->batch_order_count; i++)
        if (core->batch_order_owned[i].slot != 0)
            core->batch_order_owned[kept++] = core->batch_order_owned[i];
    core->batch_order_count = kept;
    core->batch_order_dead = 0;
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
    heap_set(&core->deadlines, batch_deadline_ms(core_batch(core, slot)), slot);
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
        heap_remove(&core->deadlines, slot);
    unlink_if_linked(&batch->draining_link);
    table_remove(&core->batch_by_number, table_hash_u64(batch->number), slot);
    batch_order_remove(core, batch->number);
    batch_deinit(batch);
    pool_free(&core->batches, slot);
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

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct cursor core_heap_slots(struct core *core, const struct heap *heap)
{
    buffer_truncate(&core->scratch, 0);
    for (uint32_t i = 0; i < heap->count; i++)
        buffer_append_u32(&core->scratch, heap->entries_owned[i].slot);
    return cursor_make(buffer_bytes(&core->scratch));
}

uint64_t core_due_ms(const struct core *core)
{
    if (!list_is_empty(&core->draining_shelves) || !list_is_empty(&core->draining_batches) ||
        !list_is_empty(&core->draining_groups) || dependency_is_resolving(core))
        return 0;
    uint64_t due[] = {heap_top_key(&core->timers),
                      heap_top_key(&core->expiries),
                      heap_top_key(&core->deadlines),
                      heap_top_key(&core->group_timers),
                      heap_top_key(&core->queue_timers),
                      deduplication_due_ms(core),
                      type_order_due_ms(core),
                      schedule_due_ms(core),
                      move_due_ms(core),
                      publisher_due_ms(core),
                      ticket_pool_due_ms(core),
                      made_match_due_ms(core)};
    uint64_t earliest_ms = UINT64_MAX;
    for (size_t i = 0; i < ARRAY_LENGTH(due); i++)
        earliest_ms = due[i] < earliest_ms ? due[i] : earliest_ms;
    return earliest_ms;
}

bool core_is_settling(const struct core *core)
{
    return dependency_is_resolving(core) || !list_is_empty(&core->draining_groups);
}

struct queue *core_take_ready_queue(struct core *core)
{
    struct list_link *link = list_first(&core->ready_queues);
    if (link == NULL)
        return NULL;
    list_remove(link);
    return CONTAINER_OF(link, struct queue, ready_link);
}

void core_notice_queue(struct core *core, struct queue *queue)
{
    if (!list_is_linked(&queue->ready_link))
        list_append(&core->ready_queues, &queue->ready_link);
}

bool core_has_ready_queue(const struct core *core)
{
    return !list_is_empty(&core->ready_queues);
}

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

const struct shelf *core_shelf(const struct core *core, const struct queue *queue)
{
    return core_shelf_at(core, queue->shelf);
}

uint64_t core_oldest_since_ms(const struct core *core, const struct queue *queue)
{
    uint32_t oldest = shelf_oldest(core_shelf(core, queue), &core->messages);
    return oldest == 0 ? UINT64_MAX : core_counted_from_ms(core, core_message(core, oldest));
}

size_t core_queue_count(const struct core *core)
{
    return core->queue_order_count;
}

struct queue *core_queue_by_name(const struct core *core, size_t index)
{
    ASSERT(index < core->queue_order_count);
    return core_queue(core, core->queue_order_owned[index]);
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
           core->deduplication.producers.used + core->publishers.entries.used + core->made_matches.used +
           core->dependencies.antecedents.used + core->dependencies.edges.used +
           core->dependencies.failures.records.used + core->dependencies.batch_outcomes.records.used +
           core->ticket_count;
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
