/* The whole state as bytes, and back. Canonical: the order of records does not depend on slots, so two cores with the
 * same state give the same bytes. The simulator uses this to compare a replayed core with the live one.
 *
 * Derived data is not stored: tables, heaps, counters, pins, the extents of the log. docs/internals/formats/events.md
 * has the layout. */
#include "core/snapshot.h"

#include "core/identity.h"
#include "core/queues/tags.h"
#include "core/salvage.h"
#include "core/state.h"

#include "base/accounted.h"
#include "base/cursor.h"
#include <stdlib.h>

#define SNAPSHOT_VERSION 9u
#define SNAPSHOT_VERSION_8 8u /* without the selections of move tasks */
#define SNAPSHOT_VERSION_7 7u /* without the units that joined batches from inside either */
#define SNAPSHOT_VERSION_6 6u /* without the queues of batches and publishers either */
#define SNAPSHOT_VERSION_5 5u /* without the number behind the feeds of pools that were deleted either */
#define SNAPSHOT_VERSION_4 4u /* without pools of tickets either */
#define SNAPSHOT_VERSION_3 3u /* without relays and publishers either */
#define SNAPSHOT_VERSION_2 2u /* without tags and move tasks either */

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_identity(const struct core *core, struct buffer *out)
{
    buffer_append_u32(out, SNAPSHOT_VERSION);
    buffer_append_sized(out, core->name_owned);
    buffer_append(out, core->key, sizeof(core->key));
    buffer_append_u64(out, core->segment_size);
    buffer_append_u64(out, core->epoch);
    buffer_append_u64(out, core->now_ms);
    buffer_append_u64(out, core->messages.message_number);
    buffer_append_u64(out, core->messages.delivery_number);
    buffer_append_u64(out, core->batches.batch_number);
    buffer_append_u64(out, core->message_lists.message_list_number);
    buffer_append_u64(out, core->groups.group_number);
    buffer_append_u64(out, core->messages.sent_count);
    buffer_append_u32(out, core->queues.queue_id);
}

static void write_queue(const struct core *core, const struct queue *queue, struct buffer *out)
{
    bool is_deleted = queue->message_list == 0;
    buffer_append_u32(out, queue->id);
    buffer_append_sized(out, queue->name_owned);
    buffer_append_u8(out, is_deleted);
    size_t settings_at = out->size;
    buffer_append_u32(out, 0);
    queue_settings_encode(&queue->settings, out);
    bytes_put_u32(out->data_owned + settings_at, (uint32_t)(out->size - settings_at - 4));
    buffer_append_u64(out, queue->created_at_ms);
    buffer_append_u64(out, queue->modified_at_ms);
    buffer_append_u64(out, queue->purged_at_ms);
    buffer_append_u8(out, queue->is_paused);
    buffer_append_u64(out, queue->rate_tat_us);
    buffer_append_u64(out, is_deleted ? 0 : core_message_list_at(core, queue->message_list)->number);
}

/* Slots of all queues in order of id, including the deleted ones that messages still name as their origin. The caller
 * frees them. */
static uint32_t *list_queues(const struct core *core)
{
    uint32_t *slots = accounted_allocate((core->queues.items.used + 1) * sizeof(*slots)), count = 0;
    for (uint32_t slot = 1; slot < core->queues.items.slot_end; slot++)
        if (queue_is_used(core_queue(core, slot)))
            slots[count++] = core_queue(core, slot)->id;
    core_sort_ids(slots, count);
    for (uint32_t i = 0; i < count; i++)
        slots[i] = core_find_queue_slot(core, slots[i]);
    return slots;
}

static void write_queues(const struct core *core, const uint32_t *slots, struct core_writer *writer)
{
    buffer_append_u32(&writer->piece, core->queues.items.used);
    for (uint32_t i = 0; i < core->queues.items.used; i++) {
        write_queue(core, core_queue(core, slots[i]), &writer->piece);
        core_writer_pass_on(writer);
    }
}

static void write_batch(const struct core *core, const struct batch *batch, struct buffer *out)
{
    buffer_append_u64(out, batch->number);
    buffer_append_sized(out, batch->id_owned);
    buffer_append_sized(out, batch->spec_encoded_owned);
    buffer_append_u8(out, (uint8_t)batch->state);
    buffer_append_u8(out, (uint8_t)batch->status);
    buffer_append_u8(out, (uint8_t)batch->fired);
    buffer_append_u8(out, batch->is_deleted);
    buffer_append_u64(out, batch->created_at_ms);
    buffer_append_u64(out, batch->sealed_at_ms);
    buffer_append_u64(out, batch->completed_at_ms);
    buffer_append_u64(out, batch->unpinned_at_ms);
    buffer_append_u64(out, batch->parent == 0 ? 0 : core_batch(core, batch->parent)->number);
    buffer_append_u32(out, batch->parent_unit);
    buffer_append_u64(out, batch->xor_value);
    buffer_append_u64(out, batch->xor_registered);
    buffer_append_u64(out, batch->xor_finished);
    buffer_append_u64(out, batch->xor_failed);
    buffer_append_u32(out, batch->token_count);
    for (uint32_t i = 0; i < batch->token_count; i++) {
        buffer_append_sized(out, batch->tokens_owned[i].token_owned);
        buffer_append_u64(out, batch->tokens_owned[i].check);
    }
    size_t ledger_at = out->size;
    buffer_append_u64(out, 0);
    ledger_encode(&batch->ledger, out);
    bytes_put_u64(out->data_owned + ledger_at, out->size - ledger_at - 8);
}

/* In order of creation, so a parent comes before its children. */
static void write_batches(const struct core *core, struct core_writer *writer)
{
    buffer_append_u32(&writer->piece, core->batches.items.used);
    for (size_t i = 0; i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        if (slot != 0)
            write_batch(core, core_batch(core, slot), &writer->piece);
        core_writer_pass_on(writer);
    }
}

static void write_extra(const struct core *core, const struct message_extra *extra, struct buffer *out)
{
    buffer_append_u64(out, extra->group == 0 ? 0 : core_group(core, extra->group)->number);
    buffer_append_u64(out, extra->sequence);
    buffer_append_u64(out, extra->counted_from_ms);
    buffer_append_u32(out, extra->spared_count);
    buffer_append_u32(out, extra->wait_count);
    buffer_append_u8(out, extra->priority);
    buffer_append_u8(out, extra->after_failure);
    buffer_append_u8(out, extra->is_fenced);
    buffer_append_u8(out, extra->is_final);
    buffer_append_u8(out, extra->is_changed);
    buffer_append_u8(out, extra->is_held);
    buffer_append_sized(out, extra->reason_owned);
}

static void write_message(const struct core *core, const struct message *message, struct buffer *out)
{
    buffer_append_u64(out, message->number);
    buffer_append_u64(out, message->position);
    buffer_append_u64(out, message->visible_at_ms);
    buffer_append_u64(out, message->sent_at_ms);
    buffer_append_u64(out, message->delivery);
    buffer_append_u32(out, message->content_size);
    buffer_append_u64(out, message->batch == 0 ? 0 : core_batch(core, message->batch)->number);
    buffer_append_u32(out, message->unit);
    buffer_append_u32(out, message->origin == 0 ? 0 : core_queue(core, message->origin)->id);
    buffer_append_u32(out, message->receive_count);
    buffer_append_u32(out, message->timeout_ms);
    buffer_append_u32(out, message->first_received_after_ms);
    buffer_append_u32(out, message->received_after_ms);
    buffer_append_u8(out, message->state);
    buffer_append_u8(out, message->completes);
    buffer_append_u8(out, (uint8_t)(message->is_moved | message->is_redriven << 1));
    buffer_append_u8(out, message->extra != 0);
    if (message->extra != 0)
        write_extra(core, core_extra_of(core, message), out);
}

/* A message list's messages: the arrivals in order; then the moved ones in order; then its rings. */
static void write_message_list(const struct core *core, const struct message_list *list, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, list->number);
    buffer_append_u32(&writer->piece, list->queue == 0 ? 0 : core_queue(core, list->queue)->id);
    buffer_append_u64(&writer->piece, list->count);
    for (uint32_t slot = list->first; slot != 0; slot = core_message(core, slot)->next) {
        write_message(core, core_message(core, slot), &writer->piece);
        core_writer_pass_on(writer);
    }
    const struct ordered_key least = {0};
    for (struct ordered_cursor at = ordered_seek(&list->moved, &least); at.leaf != NULL; at = ordered_next(at)) {
        write_message(core, core_message(core, ordered_slot(at)), &writer->piece);
        core_writer_pass_on(writer);
    }
    if (list->queue != 0)
        rings_encode(core, list, writer);
}

/* The numbers of the message lists that are being emptied: their groups and messages name them. */
static void write_drained_message_lists(const struct core *core, struct buffer *out)
{
    buffer_append_u32(out, core->message_lists.items.used - core->queues.order.count);
    for (struct list_link *link = list_first(&core->message_lists.draining); link != NULL;
         link = list_next(&core->message_lists.draining, link))
        buffer_append_u64(out, CONTAINER_OF(link, struct message_list, draining_link)->number);
}

/* Tags of the queues that have any, by id. */
static void write_tags(const struct core *core, const uint32_t *slots, struct core_writer *writer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->queues.order.count; i++)
        count += core_queue_by_name(core, i)->tags_owned.size > 0;
    buffer_append_u32(&writer->piece, count);
    for (uint32_t i = 0; i < core->queues.items.used; i++) {
        const struct queue *queue = core_queue(core, slots[i]);
        if (queue->message_list == 0 || queue->tags_owned.size == 0)
            continue;
        buffer_append_u32(&writer->piece, queue->id);
        buffer_append_sized(&writer->piece, queue->tags_owned);
        core_writer_pass_on(writer);
    }
}

/* For the batches and publishers in the order above. */
static void write_queue_sets(const struct core *core, struct core_writer *writer)
{
    for (size_t i = 0; i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        if (slot != 0)
            queue_set_encode(&core_batch(core, slot)->queues, &writer->piece);
        core_writer_pass_on(writer);
    }
    for (uint32_t slot = 1; slot < core->publishers.items.slot_end; slot++) {
        queue_set_encode(&publisher_at(core, slot)->queues, &writer->piece);
        buffer_append_u64(&writer->piece, publisher_at(core, slot)->claim);
        core_writer_pass_on(writer);
    }
}

/* For the batches in the same order. */
static void write_growth(const struct core *core, struct core_writer *writer)
{
    for (size_t i = 0; i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        if (slot != 0)
            buffer_append_u32(&writer->piece, core_batch(core, slot)->grown);
        core_writer_pass_on(writer);
    }
}

void core_encode(const struct core *core, void (*sink)(void *context, struct bytes piece), void *context)
{
    struct core_writer writer = {.sink = sink, .context = context};
    buffer_init(&writer.piece);
    uint32_t *queue_slots = list_queues(core);
    write_identity(core, &writer.piece);
    write_queues(core, queue_slots, &writer);
    write_batches(core, &writer);
    write_drained_message_lists(core, &writer.piece);
    groups_encode(core, &writer);
    buffer_append_u32(&writer.piece, core->message_lists.items.used);
    for (uint32_t i = 0; i < core->queues.items.used; i++)
        if (core_queue(core, queue_slots[i])->message_list != 0)
            write_message_list(core, core_message_list_at(core, core_queue(core, queue_slots[i])->message_list),
                               &writer);
    for (struct list_link *link = list_first(&core->message_lists.draining); link != NULL;
         link = list_next(&core->message_lists.draining, link))
        write_message_list(core, CONTAINER_OF(link, struct message_list, draining_link), &writer);
    deduplication_encode(core, &writer);
    dependency_encode(core, &writer);
    type_order_encode(core, &writer);
    schedule_encode(core, &writer);
    write_tags(core, queue_slots, &writer);
    move_encode(core, &writer);
    relay_record_encode(core, &writer);
    publisher_encode(core, &writer);
    ticket_pool_encode_all(core, &writer);
    made_match_encode(core, &writer);
    buffer_append_u64(&writer.piece, core->pools.feed_number);
    write_queue_sets(core, &writer);
    write_growth(core, &writer);
    move_encode_selections(core, &writer);
    core_writer_hand_on(&writer);
    accounted_free(queue_slots);
    buffer_deinit(&writer.piece);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool read_identity(struct core *core, struct cursor *cursor, uint32_t *version)
{
    *version = cursor_u32(cursor);
    struct bytes name = cursor_sized(cursor);
    cursor_copy(cursor, core->key, sizeof(core->key));
    core->segment_size = cursor_u64(cursor);
    core->epoch = cursor_u64(cursor);
    core->now_ms = cursor_u64(cursor);
    core->messages.message_number = cursor_u64(cursor);
    core->messages.delivery_number = cursor_u64(cursor);
    core->batches.batch_number = cursor_u64(cursor);
    core->message_lists.message_list_number = cursor_u64(cursor);
    core->groups.group_number = cursor_u64(cursor);
    core->messages.sent_count = cursor_u64(cursor);
    core->queues.queue_id = cursor_u32(cursor);
    if (cursor->is_failed || *version < SNAPSHOT_VERSION_2 || *version > SNAPSHOT_VERSION || core->segment_size == 0 ||
        name.size == 0 || core->messages.message_number > IDENTITY_NUMBER_MAX)
        return false;
    core->name_owned = accounted_duplicate(name);
    core->digest_owned = digest_create(core->key);
    return true;
}

static bool read_queue(struct core *core, struct cursor *cursor)
{
    uint32_t id = cursor_u32(cursor);
    struct bytes name = cursor_sized(cursor);
    bool is_deleted = cursor_u8(cursor) != 0;
    struct queue_settings settings;
    bool has_settings = queue_settings_decode(cursor_sized(cursor), &settings);
    uint64_t created_at_ms = cursor_u64(cursor);
    uint64_t modified_at_ms = cursor_u64(cursor);
    uint64_t purged_at_ms = cursor_u64(cursor);
    bool is_paused = cursor_u8(cursor) != 0;
    uint64_t rate_tat_us = cursor_u64(cursor);
    uint64_t message_list_number = cursor_u64(cursor);
    if (cursor->is_failed || !has_settings || id == 0 || id > core->queues.queue_id || name.size == 0 ||
        name.size > QUEUE_NAME_SIZE_MAX || message_list_number > core->message_lists.message_list_number ||
        core_find_queue_slot(core, id) != 0 || (!is_deleted && core_find_queue(core, name) != NULL))
        return false;
    uint32_t slot = core_add_queue(core, id, name);
    struct queue *queue = core_queue(core, slot);
    queue_adopt_settings(queue, &settings);
    queue->created_at_ms = created_at_ms;
    queue->modified_at_ms = modified_at_ms;
    queue->purged_at_ms = purged_at_ms;
    queue->is_paused = is_paused;
    queue->rate_tat_us = rate_tat_us;
    if (is_deleted)
        return true;
    core_add_message_list(core, message_list_number, slot);
    core_set_queue_timer(core, queue);
    return true;
}

static void read_tokens(struct batch *batch, struct cursor *cursor)
{
    uint32_t count = cursor_u32(cursor);
    for (uint32_t i = 0; i < count && !cursor->is_failed; i++) {
        struct bytes token = cursor_sized(cursor);
        uint64_t check = cursor_u64(cursor);
        if (batch_find_token(batch, token) != UINT32_MAX)
            cursor_fail(cursor);
        else
            batch_add_token(batch, token, check);
    }
}

static struct bytes cursor_sized_u64(struct cursor *cursor)
{
    uint64_t size = cursor_u64(cursor);
    return cursor_bytes(cursor, size);
}

/* Are the fields of a batch consistent, as batch_check() requires? */
static bool batch_is_sound(const struct core *core, const struct batch *batch)
{
    bool is_completed = batch->state == BATCH_COMPLETED;
    bool is_sealed = batch->state == BATCH_IS_SEALED;
    if (is_completed != (batch->status != BATCH_NO_STATUS) || is_completed != (batch->completed_at_ms != 0) ||
        is_completed != ((batch->fired & BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE)) != 0))
        return false;
    if ((is_sealed && batch->sealed_at_ms == 0) || (batch->is_deleted && !is_completed))
        return false;
    bool has_succeeded = (batch->fired & BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS)) != 0;
    if ((has_succeeded && batch->status != BATCH_SUCCEEDED) ||
        (!has_succeeded && (batch->fired & BATCH_SUCCESS_WAS_LATE) != 0))
        return false;
    if (!is_completed && !core_has_targets(core, &batch->spec))
        return false;
    return batch_due(batch, &(struct batch_after){0}) == 0;
}

/* Can a child have the batch's place in its parent? */
static bool fits_parent(const struct batch *batch, const struct batch *parent)
{
    struct bytes key;
    uint64_t number;
    if (parent->depth + 1 >= BATCH_DEPTH_MAX)
        return false;
    return parent->spec.tracking == BATCH_XOR ||
           (batch->parent_unit < parent->ledger.count &&
            ledger_name(&parent->ledger, batch->parent_unit, &key, &number) == UNIT_CHILD);
}

/* The part of a batch after its id and spec. */
static bool read_batch_fields(struct core *core, struct batch *batch, struct cursor *cursor)
{
    uint8_t state = cursor_u8(cursor);
    uint8_t status = cursor_u8(cursor);
    batch->fired = cursor_u8(cursor);
    batch->is_deleted = cursor_u8(cursor) != 0;
    batch->created_at_ms = cursor_u64(cursor);
    batch->sealed_at_ms = cursor_u64(cursor);
    batch->completed_at_ms = cursor_u64(cursor);
    batch->unpinned_at_ms = cursor_u64(cursor);
    uint64_t parent = cursor_u64(cursor);
    batch->parent_unit = cursor_u32(cursor);
    batch->xor_value = cursor_u64(cursor);
    batch->xor_registered = cursor_u64(cursor);
    batch->xor_finished = cursor_u64(cursor);
    batch->xor_failed = cursor_u64(cursor);
    read_tokens(batch, cursor);
    struct bytes encoded_ledger = cursor_sized_u64(cursor);
    struct ledger ledger;
    if (cursor->is_failed || state < BATCH_OPEN || state > BATCH_COMPLETED || status > BATCH_EXPIRED ||
        !ledger_decode(encoded_ledger, core->digest_owned, &ledger))
        return false;
    ledger_deinit(&batch->ledger);
    batch->ledger = ledger;
    core_set_batch_state(core, batch, (enum batch_state)state);
    batch->status = (enum batch_status)status;
    batch->is_cancelled = status == BATCH_CANCELLED;
    batch->parent = parent == 0 ? 0 : core_find_batch_by_number(core, parent);
    if (parent != 0 && (batch->parent == 0 || !fits_parent(batch, core_batch(core, batch->parent))))
        return false;
    return batch_is_sound(core, batch);
}

static bool read_batch(struct core *core, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    struct bytes id = cursor_sized(cursor);
    struct bytes spec_encoded = cursor_sized(cursor);
    struct batch_spec spec;
    uint64_t newest =
        core->batches.order_count == 0 ? 0 : core->batches.order_owned[core->batches.order_count - 1].number;
    if (cursor->is_failed || number <= newest || number > core->batches.batch_number || id.size == 0 ||
        id.size > BATCH_ID_SIZE_MAX || !batch_spec_decode(spec_encoded, &spec))
        return false;
    uint32_t slot = core_add_batch(core, number, id, spec_encoded);
    struct batch *batch = core_batch(core, slot);
    if (!read_batch_fields(core, batch, cursor) || (!batch->is_deleted && core_find_batch(core, id) != NULL))
        return false;
    if (!batch->is_deleted)
        table_insert(&core->batches.by_id, digest_name(core->digest_owned, id), slot);
    if (batch->state != BATCH_COMPLETED)
        core_count_targets(core, batch, true);
    if (batch->is_cancelled && batch->ledger.reference_count > 0)
        list_append(&core->batches.draining, &batch->draining_link);
    if (batch->parent != 0) {
        core_batch(core, batch->parent)->pins++;
        batch->depth = core_batch(core, batch->parent)->depth + 1;
    }
    return true;
}

/* Are the fields of a message consistent with each other and its message list? */
static bool message_is_sound(const struct core *core, const struct message *message, const struct message_list *list)
{
    const struct message *last = list->last == 0 ? NULL : core_message(core, list->last);
    const struct batch *batch = message->batch == 0 ? NULL : core_batch(core, message->batch);
    bool has_timer = message->state == MESSAGE_DELAYED || message->state == MESSAGE_IN_FLIGHT;
    if (message->state < MESSAGE_FRESH || message->state > MESSAGE_WAITING ||
        (has_timer && message->visible_at_ms <= core->now_ms))
        return false;
    const struct message_extra *extra = core_extra_of(core, message);
    if ((message->state == MESSAGE_WAITING) != (extra != NULL && extra->wait_count > 0) ||
        (extra != NULL && (extra->spared_count > message->receive_count || extra->counted_from_ms > core->now_ms)))
        return false;
    if (message->delivery > core->messages.delivery_number ||
        (message->receive_count == 0) != (message->delivery == 0) ||
        (message->state == MESSAGE_IN_FLIGHT && message->delivery == 0))
        return false;
    if (message->completes > BATCH_EVENT_COUNT || (batch == NULL && message->completes != 0) ||
        (batch != NULL && message->completes == 0 && batch->spec.tracking == BATCH_EXACT &&
         message->unit >= batch->ledger.count))
        return false;
    if (message->is_moved)
        return message->state != MESSAGE_FRESH;
    return last == NULL || (last->number < message->number && last->sent_at_ms <= message->sent_at_ms);
}

/* Reads everything but the group, whose number is returned. */
static uint64_t read_extra(struct core *core, uint32_t slot, struct cursor *cursor)
{
    struct message_extra *extra = core_give_extra(core, slot);
    uint64_t group = cursor_u64(cursor);
    extra->sequence = cursor_u64(cursor);
    extra->counted_from_ms = cursor_u64(cursor);
    extra->spared_count = cursor_u32(cursor);
    extra->wait_count = cursor_u32(cursor);
    extra->priority = cursor_u8(cursor);
    extra->after_failure = cursor_u8(cursor);
    extra->is_fenced = cursor_u8(cursor) != 0;
    extra->is_final = cursor_u8(cursor) != 0;
    extra->is_changed = cursor_u8(cursor) != 0;
    extra->is_held = cursor_u8(cursor) != 0;
    struct bytes reason = cursor_sized(cursor);
    if (extra->priority > PRIORITY_MAX || extra->after_failure > AFTER_FAILURE_HOLD ||
        reason.size > FAILURE_REASON_SIZE_MAX || extra->sequence > core->messages.message_number)
        cursor_fail(cursor);
    else
        accounted_replace(&extra->reason_owned, reason);
    return group;
}

static bool read_message(struct core *core, uint32_t message_list, struct group_reader *groups, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    uint64_t position = cursor_u64(cursor);
    uint64_t visible_at_ms = cursor_u64(cursor);
    uint64_t sent_at_ms = cursor_u64(cursor);
    uint64_t delivery = cursor_u64(cursor);
    uint32_t content_size = cursor_u32(cursor);
    uint64_t batch_number = cursor_u64(cursor);
    uint32_t batch = batch_number == 0 ? 0 : core_find_batch_by_number(core, batch_number);
    uint32_t unit = cursor_u32(cursor);
    uint32_t origin_id = cursor_u32(cursor);
    uint32_t origin = origin_id == 0 ? 0 : core_find_queue_slot(core, origin_id);
    if (cursor->is_failed || number == 0 || number > core->messages.message_number ||
        core_find_message(core, number) != 0 || sent_at_ms > core->now_ms || (batch_number != 0 && batch == 0) ||
        (origin_id != 0 && origin == 0))
        return false;
    uint32_t slot = core_add_message(core, number, position, content_size);
    struct message *message = core_message(core, slot);
    message->visible_at_ms = visible_at_ms;
    message->sent_at_ms = sent_at_ms;
    message->delivery = delivery;
    message->batch = batch;
    message->unit = unit;
    message->origin = origin;
    message->receive_count = cursor_u32(cursor);
    message->timeout_ms = cursor_u32(cursor);
    message->first_received_after_ms = cursor_u32(cursor);
    message->received_after_ms = cursor_u32(cursor);
    uint8_t state = cursor_u8(cursor);
    message->completes = cursor_u8(cursor);
    uint8_t moves = cursor_u8(cursor);
    message->is_moved = (moves & 1) != 0;
    message->is_redriven = (moves & 2) != 0;
    uint64_t group_number = cursor_u8(cursor) != 0 ? read_extra(core, slot, cursor) : 0;
    uint32_t group = group_number == 0 ? 0 : group_reader_find(core, groups, group_number);
    if (batch != 0)
        core_batch(core, batch)->pins++;
    if (origin != 0)
        core_queue(core, origin)->origin_count++;
    message->state = state;
    bool is_sound =
        !cursor->is_failed && moves <= 3 && message_is_sound(core, message, core_message_list_at(core, message_list));
    message->state = 0;
    if (!is_sound || (group_number != 0 && (group == 0 || core_group(core, group)->message_list != message_list)))
        return false;
    core_list_message(core, slot, message_list);
    if (message->completes != 0)
        core_index_completion(core, slot);
    if (origin != 0 && core_message_list_at(core, message_list)->queue != 0)
        queue_set_add(&core_queue(core, core_message_list_at(core, message_list)->queue)->origins, origin_id);
    if (group != 0)
        return grouped_decode(core, groups, group, slot, state);
    core_enter_state(core, slot, (enum message_state)state);
    return true;
}

/* The message list of a queue, or the one with that number among those being emptied; 0: none is left to read. */
static uint32_t find_unread_message_list(const struct core *core, uint64_t number, uint32_t queue_id)
{
    uint32_t found = 0;
    if (queue_id != 0) {
        const struct queue *queue = core_find_queue_by_id(core, queue_id);
        found = queue == NULL ? 0 : queue->message_list;
    } else {
        for (uint32_t slot = 1; slot < core->message_lists.items.slot_end && found == 0; slot++)
            if (core_message_list_at(core, slot)->number == number && core_message_list_at(core, slot)->queue == 0)
                found = slot;
    }
    bool is_unread = found != 0 && core_message_list_at(core, found)->number == number &&
                     core_message_list_at(core, found)->count == 0;
    return is_unread ? found : 0;
}

static bool read_message_list(struct core *core, struct group_reader *groups, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    uint32_t queue_id = cursor_u32(cursor);
    uint64_t count = cursor_u64(cursor);
    uint32_t slot = find_unread_message_list(core, number, queue_id);
    if (cursor->is_failed || number > core->message_lists.message_list_number || slot == 0 ||
        (queue_id == 0 && count == 0))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!read_message(core, slot, groups, cursor))
            return false;
        cursor_release(cursor);
    }
    return moved_decode(core, groups) && (queue_id == 0 || rings_decode(core, groups, slot, cursor));
}

static bool read_drained_message_list(struct core *core, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    if (cursor->is_failed || number == 0 || number > core->message_lists.message_list_number)
        return false;
    core_add_message_list(core, number, 0);
    return true;
}

/* Groups, and the message lists of their messages. */
static bool read_message_lists(struct core *core, struct cursor *cursor)
{
    struct group_reader groups;
    group_reader_init(&groups);
    bool is_good = groups_decode(core, &groups, cursor);
    uint32_t count = is_good ? cursor_u32(cursor) : 0;
    is_good = is_good && count == core->message_lists.items.used;
    for (uint32_t i = 0; is_good && i < count; i++)
        is_good = read_message_list(core, &groups, cursor);
    is_good = is_good && !cursor->is_failed && group_reader_finish(core, &groups);
    group_reader_deinit(&groups);
    return is_good;
}

/* Reads `count` (u32) records with `read`. */
static bool read_records(struct core *core, struct cursor *cursor, bool (*read)(struct core *, struct cursor *))
{
    uint32_t count = cursor_u32(cursor);
    for (uint32_t i = 0; i < count; i++) {
        if (!read(core, cursor))
            return false;
        cursor_release(cursor);
    }
    return !cursor->is_failed;
}

/* The tags of a queue that is not deleted. */
static bool read_tags(struct core *core, struct cursor *cursor)
{
    struct queue *queue = core_find_queue_by_id(core, cursor_u32(cursor));
    struct bytes tags = cursor_sized(cursor);
    if (cursor->is_failed || queue == NULL || queue->tags_owned.size > 0 || tags.size == 0 || !tags_are_sound(tags))
        return false;
    accounted_replace(&queue->tags_owned, tags);
    return true;
}

static bool read_queue_sets(struct core *core, struct cursor *cursor)
{
    for (size_t i = 0; i < core->batches.order_count; i++) {
        struct batch *batch = core_batch(core, core->batches.order_owned[i].slot);
        if (!queue_set_decode(&batch->queues, core->queues.queue_id, cursor) ||
            !batch_queues_are_sound(batch, batch->parent == 0 ? NULL : core_batch(core, batch->parent)))
            return false;
    }
    for (uint32_t slot = 1; slot < core->publishers.items.slot_end; slot++) {
        struct publisher *publisher = publisher_at(core, slot);
        if (!queue_set_decode(&publisher->queues, core->queues.queue_id, cursor))
            return false;
        publisher->claim = cursor_u64(cursor);
    }
    return !cursor->is_failed;
}

/* An older version did not record to which queues units were sent: if there were any units, it may have been any queue.
 * A batch with children has units. */
static void guess_queue_sets(struct core *core)
{
    for (size_t i = 0; i < core->batches.order_count; i++) {
        struct batch *batch = core_batch(core, core->batches.order_owned[i].slot);
        for (unsigned k = 0; k < BATCH_EVENT_COUNT; k++)
            if (batch->spec.targets[k].queue != 0)
                queue_set_add(&batch->queues, batch->spec.targets[k].queue);
        if (batch->ledger.reference_count > 0 || batch->xor_registered > 0)
            queue_set_open(&batch->queues);
    }
    for (uint32_t slot = 1; slot < core->publishers.items.slot_end; slot++)
        if (publisher_at(core, slot)->batch > 0)
            queue_set_open(&publisher_at(core, slot)->queues);
}

/* How many units joined each batch from inside: none in an older version. No batch has more units than that allows. */
static bool read_growth(struct core *core, struct cursor *cursor, uint32_t version)
{
    for (size_t i = 0; i < core->batches.order_count; i++) {
        struct batch *batch = core_batch(core, core->batches.order_owned[i].slot);
        batch->grown = version > SNAPSHOT_VERSION_7 ? cursor_u32(cursor) : 0;
        if (batch->grown > LEDGER_UNITS_MAX || !batch_is_within_total(batch, batch_counts(batch).total))
            return false;
    }
    return !cursor->is_failed;
}

bool core_decode(struct core *core, struct bytes encoded, void (*release)(void *context, const uint8_t *end),
                 void *context)
{
    ASSERT(core->digest_owned == NULL);
    struct cursor cursor = cursor_make(encoded);
    cursor.release = release;
    cursor.context = context;
    uint32_t version;
    if (!read_identity(core, &cursor, &version) || !read_records(core, &cursor, read_queue) ||
        !read_records(core, &cursor, read_batch) || !read_records(core, &cursor, read_drained_message_list) ||
        !read_message_lists(core, &cursor) || !deduplication_decode(core, &cursor) ||
        !dependency_decode(core, &cursor) || !type_order_decode(core, &cursor) || !schedule_decode(core, &cursor))
        return false;
    if (version > SNAPSHOT_VERSION_2 && (!read_records(core, &cursor, read_tags) || !move_decode(core, &cursor)))
        return false;
    if (version > SNAPSHOT_VERSION_3 && (!relay_record_decode(core, &cursor) || !publisher_decode(core, &cursor)))
        return false;
    if (version > SNAPSHOT_VERSION_4 && (!ticket_pool_decode_all(core, &cursor) || !made_match_decode(core, &cursor)))
        return false;
    if (version > SNAPSHOT_VERSION_5)
        core->pools.feed_number = cursor_u64(&cursor);
    if (version <= SNAPSHOT_VERSION_6)
        guess_queue_sets(core);
    else if (!read_queue_sets(core, &cursor))
        return false;
    if (!read_growth(core, &cursor, version) ||
        (version > SNAPSHOT_VERSION_8 && !move_decode_selections(core, &cursor)) || !cursor_is_done(&cursor) ||
        !core_waits_add_up(core))
        return false;
    for (size_t i = 0; i < core->batches.order_count; i++) {
        const struct batch *batch = core_batch(core, core->batches.order_owned[i].slot);
        if (batch->is_deleted && batch->pins == 0)
            return false;
        core_set_deadline(core, core->batches.order_owned[i].slot);
    }
    return true;
}

bool core_salvage_decode(struct core *core, struct bytes start, struct salvage_numbers *newest)
{
    ASSERT(core->digest_owned == NULL);
    struct cursor cursor = cursor_make(start);
    uint32_t version;
    if (!read_identity(core, &cursor, &version) || !read_records(core, &cursor, read_queue))
        return false;
    *newest = (struct salvage_numbers){.message = core->messages.message_number,
                                       .delivery = core->messages.delivery_number,
                                       .batch = core->batches.batch_number,
                                       .now_ms = core->now_ms};
    /* The rest is replayed from the beginning, from before these numbers were given out. */
    core->now_ms = core->messages.message_number = core->messages.delivery_number = core->batches.batch_number =
        core->messages.sent_count = 0;
    return true;
}
