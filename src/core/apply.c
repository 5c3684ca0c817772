/* apply: the only code that changes the state, live and on replay alike. There is a function for each kind of event.
 * Each checks that the event fits the state before it changes anything, because on replay the event comes from a
 * disk. */
#include "core/apply.h"
#include "core/identity.h"
#include "core/queues/tags.h"

#include "base/accounted.h"
#include "base/cursor.h"
#include <stdlib.h>

bool apply_founded(struct core *core, const struct event_founded *founded)
{
    if (core->digest_owned != NULL || founded->segment_size == 0 || founded->name.size == 0)
        return false;
    core->name_owned = accounted_duplicate(founded->name);
    memcpy(core->key, founded->key, sizeof(core->key));
    core->digest_owned = digest_create(core->key);
    core->segment_size = founded->segment_size;
    return true;
}

bool apply_restarted(struct core *core, const struct event_restarted *restarted)
{
    core->epoch = restarted->epoch;
    struct cursor cursor = core_heap_slots(core, &core->messages.timers);
    while (cursor.rest.size > 0) {
        uint32_t slot = cursor_u32(&cursor);
        struct message *message = core_message(core, slot);
        uint32_t grace_ms = message->timeout_ms < restarted->grace_ms ? message->timeout_ms : restarted->grace_ms;
        if (message->state != MESSAGE_IN_FLIGHT || message->visible_at_ms >= restarted->resumed_at_ms + grace_ms)
            continue;
        message->visible_at_ms = restarted->resumed_at_ms + grace_ms;
        heap_update(&core->messages.timers, message->visible_at_ms, slot);
    }
    made_match_restarted(core, restarted->resumed_at_ms, restarted->grace_ms);
    return true;
}

bool apply_time_passed(struct core *core, const struct event_time_passed *passed)
{
    if (passed->time_ms < core->now_ms)
        return false;
    core_advance(core, passed->time_ms);
    core->has_fired = false; /* this event says so */
    return true;
}

bool apply_queue_created(struct core *core, const struct event_queue_created *created)
{
    struct queue_settings settings;
    if (created->queue == 0 || created->queue != core->queues.queue_id + 1 ||
        !queue_settings_decode(created->settings, &settings) || created->name.size == 0 ||
        created->name.size > QUEUE_NAME_SIZE_MAX || core_find_queue(core, created->name) != NULL)
        return false;
    core->queues.queue_id = created->queue;
    uint32_t slot = core_add_queue(core, created->queue, created->name);
    struct queue *queue = core_queue(core, slot);
    queue_adopt_settings(queue, &settings);
    queue->created_at_ms = queue->modified_at_ms = core->now_ms;
    core_add_message_list(core, ++core->message_lists.message_list_number, slot);
    return true;
}

/* A FIFO queue's new delay also applies to the messages that it has. O(messages). Source: SQS API reference,
 * SetQueueAttributes. */
static void delay_anew(struct core *core, const struct queue *queue)
{
    const struct message_list *list = core_message_list(core, queue);
    uint64_t delay_ms = (uint64_t)queue->settings.delay_s * 1000;
    for (uint32_t slot = list->first; slot != 0; slot = core_message(core, slot)->next) {
        struct message *message = core_message(core, slot);
        if (message->receive_count > 0)
            continue;
        uint64_t visible_at_ms = message->sent_at_ms + delay_ms;
        if (message->state == MESSAGE_WAITING) {
            message->visible_at_ms = visible_at_ms; /* applied when it no longer waits */
            continue;
        }
        core_leave_state(core, slot);
        message->visible_at_ms = visible_at_ms;
        core_enter_state(core, slot, visible_at_ms > core->now_ms ? MESSAGE_DELAYED : MESSAGE_RETURNED);
    }
}

bool apply_queue_set(struct core *core, const struct event_queue_set *set)
{
    struct queue *queue = core_find_queue_by_id(core, set->queue);
    struct queue_settings settings;
    if (queue == NULL || !queue_settings_decode(set->settings, &settings))
        return false;
    if (settings.is_fifo != queue->settings.is_fifo)
        return false;
    bool has_other_delay = settings.is_fifo && settings.delay_s != queue->settings.delay_s;
    bool has_other_limits = settings.group_concurrency != queue->settings.group_concurrency ||
                            settings.group_rate.interval_us != queue->settings.group_rate.interval_us ||
                            settings.group_rate.burst != queue->settings.group_rate.burst;
    queue_adopt_settings(queue, &settings);
    queue->modified_at_ms = core->now_ms;
    queue->rate_tat_us = rate_after_change(&queue->settings.queue_rate, queue->rate_tat_us, core->now_ms);
    core_expect_expiry(core, queue->message_list);
    if (has_other_delay)
        delay_anew(core, queue);
    if (has_other_limits)
        group_settle_all(core,
                         queue->message_list); /* O(groups): messages that were held back may now go, and others may now
                                                * be held back */
    core_set_queue_timer(core, queue);
    core_notice_queue(core, queue);
    return true;
}

bool apply_queue_paused(struct core *core, const struct event_queue_paused *paused)
{
    struct queue *queue = core_find_queue_by_id(core, paused->queue);
    if (queue == NULL || paused->is_paused > 1)
        return false;
    queue->is_paused = paused->is_paused != 0;
    core_notice_queue(core, queue);
    return true;
}

/* The changed tags of a queue, in the core's scratch: takes them over if a queue can have them. */
static bool adopt_tags(struct core *core, struct queue *queue)
{
    if (!tags_are_sound(buffer_bytes(&core->scratch)))
        return false;
    accounted_replace(&queue->tags_owned, buffer_bytes(&core->scratch));
    return true;
}

bool apply_queue_tagged(struct core *core, const struct event_queue_tagged *tagged)
{
    struct queue *queue = core_find_queue_by_id(core, tagged->queue);
    if (queue == NULL || !tags_are_sound(tagged->tags))
        return false;
    buffer_truncate(&core->scratch, 0);
    tags_merge(queue->tags_owned, tagged->tags, &core->scratch);
    return adopt_tags(core, queue);
}

bool apply_queue_untagged(struct core *core, const struct event_queue_untagged *untagged)
{
    struct queue *queue = core_find_queue_by_id(core, untagged->queue);
    if (queue == NULL)
        return false;
    buffer_truncate(&core->scratch, 0);
    tags_remove(queue->tags_owned, untagged->keys, &core->scratch);
    return adopt_tags(core, queue);
}

static void free_message_list(struct core *core, uint32_t slot)
{
    struct message_list *list = core_message_list_at(core, slot);
    ASSERT(list->count == 0 && list->group_count == 0 && list->expiry_index == 0);
    if (list_is_linked(&list->draining_link))
        list_remove(&list->draining_link);
    message_list_deinit(list);
    slab_free(&core->message_lists.items, slot);
}

/* Cuts a message list off its queue. Its messages can no longer be reached, and are ended in portions. */
static void detach_message_list(struct core *core, uint32_t slot)
{
    struct message_list *list = core_message_list_at(core, slot);
    if (list->expiry_index != 0)
        heap_remove(&core->message_lists.expiries, slot);
    list->queue = 0;
    group_drop_all(core, slot);
    if (list->count == 0)
        free_message_list(core, slot);
    else
        list_append(&core->message_lists.draining, &list->draining_link);
}

bool apply_queue_purged(struct core *core, const struct event_queue_purged *purged)
{
    struct queue *queue = core_find_queue_by_id(core, purged->queue);
    if (queue == NULL)
        return false;
    uint32_t slot = core_find_queue_slot(core, purged->queue);
    uint32_t old = queue->message_list;
    uint32_t message_list = core_add_message_list(core, ++core->message_lists.message_list_number, slot);
    group_move_pauses(core, old, message_list);
    detach_message_list(core, old);
    deduplication_forget_queue(core, queue, false);
    queue->purged_at_ms = core->now_ms;
    return true;
}

bool apply_queue_deleted(struct core *core, const struct event_queue_deleted *deleted)
{
    struct queue *queue = core_find_queue_by_id(core, deleted->queue);
    if (queue == NULL || queue->target_count > 0)
        return false;
    uint32_t slot = core_find_queue_slot(core, deleted->queue);
    deduplication_forget_queue(core, queue, true);
    move_forget_queue(core, queue);
    detach_message_list(core, queue->message_list);
    queue->message_list = 0;
    accounted_replace(&queue->tags_owned, bytes_make(NULL, 0));
    core_set_queue_timer(core, queue);
    /* The queue may live on as an origin, but it has nothing to deliver any more. */
    if (list_is_linked(&queue->ready_link))
        list_remove(&queue->ready_link);
    if (list_is_linked(&queue->counted_link))
        list_remove(&queue->counted_link);
    core_remove_queue_name(core, slot);
    core_release_queue(core, slot);
    return true;
}

/* Adds the queue to those of the batch and of each batch above it. The set of a parent contains the sets of its
 * children, so the walk ends at the first batch that has the queue. */
static void note_queue(struct core *core, uint32_t batch, uint32_t queue)
{
    for (; batch != 0 && queue_set_add(&core_batch(core, batch)->queues, queue);
         batch = core_batch(core, batch)->parent)
        ;
}

/* Makes the message a unit of its batch, or the message of a batch event. */
static void join_batch(struct core *core, uint32_t slot, uint32_t batch_slot, const struct event_sent *sent)
{
    struct message *message = core_message(core, slot);
    struct batch *batch = core_batch(core, batch_slot);
    message->batch = batch_slot;
    message->completes = sent->completes;
    message->unit = sent->unit;
    core_pin_batch(core, batch_slot);
    if (sent->completes != 0) {
        core_index_completion(core, slot);
        return;
    }
    note_queue(core, batch_slot, sent->queue);
    if (batch->spec.tracking == BATCH_XOR) {
        batch->xor_value ^= identity_xor_unit(core->digest_owned, sent->number, false);
        batch->xor_registered++;
    } else {
        uint32_t unit = ledger_add_message(&batch->ledger, sent->number);
        ASSERT(unit == sent->unit);
    }
}

bool sent_fits_batch(const struct core *core, const struct event_sent *sent, uint32_t batch_slot)
{
    if (sent->batch == 0)
        return sent->completes == 0;
    if (batch_slot == 0 || sent->completes > BATCH_EVENT_COUNT)
        return false;
    const struct batch *batch = core_batch(core, batch_slot);
    if (sent->completes != 0)
        return true;
    return batch_has_room(batch, 1) && (batch->spec.tracking == BATCH_XOR || sent->unit == batch->ledger.count);
}

/* Adds the message, without a state; 0 if the event does not fit. */
static uint32_t add_sent(struct core *core, const struct event_sent *sent, uint32_t content_offset)
{
    struct queue *queue = core_find_queue_by_id(core, sent->queue);
    uint32_t batch = sent->batch == 0 ? 0 : core_find_batch_by_number(core, sent->batch);
    if (queue == NULL || sent->number != core->messages.message_number + 1 || sent->number > IDENTITY_NUMBER_MAX ||
        !sent_fits_batch(core, sent, batch))
        return 0;
    core->messages.message_number = sent->number;
    core->messages.sent_count++;
    uint32_t slot =
        core_add_message(core, sent->number, core->applying_at + content_offset, (uint32_t)sent->content.size);
    struct message *message = core_message(core, slot);
    message->sent_at_ms = core->now_ms;
    message->visible_at_ms = sent->visible_at_ms;
    core_list_message(core, slot, queue->message_list);
    core_count(core, core_message_list_at(core, queue->message_list)->queue, COUNTER_SENT);
    if (batch != 0)
        join_batch(core, slot, batch, sent);
    return slot;
}

static enum message_state first_state(const struct core *core, uint64_t visible_at_ms)
{
    return visible_at_ms > core->now_ms ? MESSAGE_DELAYED : MESSAGE_FRESH;
}

bool apply_sent(struct core *core, const struct event_sent *sent)
{
    uint32_t slot = add_sent(core, sent, EVENT_SENT_CONTENT_OFFSET);
    if (slot != 0)
        core_enter_state(core, slot, first_state(core, sent->visible_at_ms));
    return slot != 0;
}

bool apply_sent_in_group(struct core *core, const struct event_sent_in_group *sent)
{
    struct event_sent plain = {.number = sent->number,
                               .queue = sent->queue,
                               .visible_at_ms = sent->visible_at_ms,
                               .batch = sent->batch,
                               .unit = sent->unit,
                               .completes = sent->completes,
                               .content = sent->content};
    if (sent->priority > PRIORITY_MAX || sent->group.size > GROUP_ID_SIZE_MAX)
        return false;
    uint32_t offset = EVENT_SENT_IN_GROUP_CONTENT_OFFSET + (uint32_t)sent->group.size;
    uint32_t slot = add_sent(core, &plain, offset);
    if (slot == 0)
        return false;
    core_give_extra(core, slot)->priority = sent->priority;
    group_link(core, group_open(core, core_message(core, slot)->message_list, sent->group), slot);
    core_enter_state(core, slot, first_state(core, sent->visible_at_ms));
    return true;
}

/* Starts or changes the newest lease of a message: it lasts timeout_ms from now; 0 makes the message visible at
 * once. */
static void set_lease(struct core *core, uint32_t slot, uint32_t timeout_ms)
{
    struct message *message = core_message(core, slot);
    message->timeout_ms = timeout_ms;
    if (timeout_ms == 0) {
        core_give_back(core, slot, 0);
        return;
    }
    const uint32_t holder = message->state == MESSAGE_IN_FLIGHT ? holder_take(core, slot) : 0;
    core_leave_state(core, slot);
    message->visible_at_ms = core->now_ms + timeout_ms;
    core_enter_state(core, slot, MESSAGE_IN_FLIGHT);
    holder_put(core, slot, holder);
}

static uint32_t age_ms(const struct core *core, const struct message *message)
{
    uint64_t age = core->now_ms - message->sent_at_ms;
    return age < UINT32_MAX ? (uint32_t)age : UINT32_MAX - 1;
}

/* The delivery takes a token of the queue's bucket and of its group's. */
static void count_delivery(struct core *core, const struct message *message)
{
    const uint32_t slot = core_message_list_at(core, message->message_list)->queue;
    struct queue *queue = core_queue(core, slot);
    core_count(core, slot, COUNTER_RECEIVED);
    if (queue->settings.queue_rate.interval_us > 0) {
        queue->rate_tat_us = rate_after_delivery(&queue->settings.queue_rate, queue->rate_tat_us, core->now_ms);
        core_set_queue_timer(core, queue);
    }
    if (message->is_grouped && queue->settings.group_rate.interval_us > 0)
        group_count_delivery(core, core_group_of(core, message));
}

bool apply_received(struct core *core, const struct event_received *received)
{
    uint32_t slot = core_find_message(core, received->number);
    if (slot == 0 || !message_is_deliverable(core_message(core, slot)) ||
        core_message_list_at(core, core_message(core, slot)->message_list)->queue == 0 ||
        received->delivery != core->messages.delivery_number + 1 || received->timeout_ms == 0)
        return false;
    struct message *message = core_message(core, slot);
    core->messages.delivery_number = received->delivery;
    message->delivery = received->delivery;
    message->receive_count++;
    message->received_after_ms = age_ms(core, message);
    if (message->first_received_after_ms == 0) {
        message->first_received_after_ms = message->received_after_ms + 1;
        histogram_add(&core->counters.wait_ms, message->received_after_ms);
    }
    if (message->extra != 0)
        core_extra_of(core, message)->is_fenced = core_extra_of(core, message)->is_changed = false;
    count_delivery(core, message);
    set_lease(core, slot, received->timeout_ms);
    uint32_t group = core_group_of(core, message);
    if (group != 0 && !core_group(core, group)->is_line) /* a message has left its ring: it is now the held head */
        group_settle(core, group, true);
    return true;
}

bool apply_visibility_changed(struct core *core, const struct event_visibility_changed *changed)
{
    uint32_t slot = core_find_message(core, changed->number);
    if (slot == 0 || core_message(core, slot)->delivery == 0 || core_message(core, slot)->state == MESSAGE_WAITING)
        return false;
    if (core_message(core, slot)->extra != 0)
        core_extra_of(core, core_message(core, slot))->is_changed = true;
    set_lease(core, slot, changed->timeout_ms);
    return true;
}

bool apply_lease_renewed(struct core *core, const struct event_lease_renewed *renewed)
{
    uint32_t slot = core_find_message(core, renewed->number);
    if (slot == 0 || core_message(core, slot)->state != MESSAGE_IN_FLIGHT ||
        renewed->visible_at_ms <= core_message(core, slot)->visible_at_ms)
        return false;
    core_message(core, slot)->visible_at_ms = renewed->visible_at_ms;
    heap_update(&core->messages.timers, renewed->visible_at_ms, slot);
    return true;
}

bool apply_failed(struct core *core, const struct event_failed *failed)
{
    uint32_t slot = core_find_message(core, failed->number);
    if (slot == 0 || core_message(core, slot)->state != MESSAGE_IN_FLIGHT ||
        failed->reason.size > FAILURE_REASON_SIZE_MAX)
        return false;
    core_count(core, core_message_list_at(core, core_message(core, slot)->message_list)->queue, COUNTER_FAILED);
    struct message_extra *extra = core_give_extra(core, slot);
    accounted_replace(&extra->reason_owned, failed->reason);
    extra->is_fenced = true;
    extra->is_final = failed->is_final != 0;
    core_give_back(core, slot, failed->visible_at_ms);
    return true;
}

/* The message waits for nothing, and its type holds no message back any more. */
static void drop_dependencies(struct core *core, uint32_t slot, enum unit_state outcome)
{
    dependency_forget_dependent(core, slot);
    if (core_extra_of(core, core_message(core, slot))->typed != 0)
        type_order_message_ended(core, slot, outcome);
}

/* Takes the message out of its group and out of everything that ordered it, and frees its extra. */
static void drop_extra(struct core *core, uint32_t slot, enum unit_state outcome)
{
    struct message *message = core_message(core, slot);
    if (message->extra == 0)
        return;
    struct message_extra *extra = core_extra_of(core, message);
    drop_dependencies(core, slot, outcome);
    if (extra->group != 0)
        group_unlink(core, slot);
    accounted_replace(&extra->reason_owned, bytes_make(NULL, 0));
    extra->message = 0; /* a walk over the slots recognises a free one by this */
    slab_free(&core->extras, message->extra);
    message->extra = 0;
}

static void forget_origin(struct core *core, struct message *message)
{
    if (message->origin == 0)
        return;
    uint32_t origin = message->origin;
    message->origin = 0;
    ASSERT(core_queue(core, origin)->origin_count > 0);
    core_queue(core, origin)->origin_count--;
    core_release_queue(core, origin);
}

/* A purge and a cancelled batch or group are counted nowhere: they are one decision of a person, however many messages
 * end by it. */
static void count_end(struct core *core, const struct message *message, enum end_reason reason)
{
    const uint32_t queue = core_message_list_at(core, message->message_list)->queue;
    switch (reason) {
    case END_DELETED:
        if (message->delivery != 0)
            histogram_add(&core->counters.processing_ms, age_ms(core, message) - message->received_after_ms);
        core_count(core, queue, COUNTER_DELETED);
        break;
    case END_TAKEN:
        core_count(core, queue, COUNTER_DELETED);
        break;
    case END_FAILED:
    case END_UNMET:
        core_count(core, queue, COUNTER_DROPPED);
        break;
    case END_EXPIRED:
        core_count(core, queue, COUNTER_EXPIRED);
        break;
    case END_PURGED:
    case END_CANCELLED:
    case END_PUT_BACK:
        break;
    }
}

bool apply_ended(struct core *core, const struct event_ended *ended)
{
    uint32_t slot = core_find_message(core, ended->number);
    if (slot == 0 || ended->reason < END_DELETED || ended->reason > END_PUT_BACK)
        return false;
    struct message *message = core_message(core, slot);
    if (ended->reason == END_PUT_BACK && !message->is_result)
        return false;
    uint32_t message_list_slot = message->message_list;
    uint32_t batch = message->batch;
    bool is_result = message->is_result;
    count_end(core, message, (enum end_reason)ended->reason);
    /* A dead-lettered message has failed already. */
    enum unit_state outcome = message->is_moved ? UNIT_FAILED : end_outcome((enum end_reason)ended->reason);
    core_leave_state(core, slot);
    core_unlist_message(core, slot);
    dependency_message_ended(core, slot, outcome);
    drop_extra(core, slot, outcome);
    extents_leave(&core->extents, message->position / core->segment_size, message->content_size);
    forget_origin(core, message);
    number_map_remove(&core->messages.by_number, ended->number);
    if (message->completes != 0)
        core_unindex_completion(core, slot);
    ASSERT(message->state == 0); /* a walk over the slots recognises a free one by this */
    slab_free(&core->messages.items, slot);
    if (batch != 0)
        core_unpin_batch(core, batch);
    if (is_result)
        made_match_message_ended(core, ended->number, (enum end_reason)ended->reason);
    struct message_list *list = core_message_list_at(core, message_list_slot);
    if (list->queue == 0 && list->count == 0)
        free_message_list(core, message_list_slot);
    return true;
}

/* What a dead-lettered message leaves behind: its group, its type, its dependencies. Returns the group's id, which the
 * caller frees. */
static struct bytes leave_order(struct core *core, uint32_t slot)
{
    struct message *message = core_message(core, slot);
    struct bytes id = {NULL, 0};
    if (message->extra == 0)
        return id;
    struct message_extra *extra = core_extra_of(core, message);
    drop_dependencies(core, slot, UNIT_FAILED);
    extra->wait_count = 0;
    extra->is_final = false;
    if (extra->group == 0)
        return id;
    if (core_group(core, extra->group)->id_owned.size > 0)
        id = accounted_duplicate(core_group(core, extra->group)->id_owned);
    group_unlink(core, slot);
    return id;
}

bool apply_dead_lettered(struct core *core, const struct event_dead_lettered *moved)
{
    uint32_t slot = core_find_message(core, moved->number);
    struct queue *target = core_find_queue_by_id(core, moved->queue);
    if (slot == 0 || target == NULL)
        return false;
    struct message *message = core_message(core, slot);
    struct message_list *source = core_message_list_at(core, message->message_list);
    if (source->queue == 0)
        return false;
    uint32_t origin = source->queue;
    core_count(core, origin, COUNTER_DEAD_LETTERED);
    core_leave_state(core, slot);
    dependency_message_dead_lettered(core, slot);
    struct bytes group = leave_order(core, slot);
    core_unlist_message(core, slot);
    core_queue(core, origin)->origin_count++;
    queue_set_add(&target->origins, core_queue(core, origin)->id);
    forget_origin(core, message);
    message->origin = origin;
    message->is_moved = true;
    if (target->settings.is_fifo)
        core_give_extra(core, slot)->counted_from_ms = core->now_ms;
    core_list_message(core, slot, target->message_list);
    if (message->extra != 0 && (group.size > 0 || target->settings.is_fifo)) {
        core->messages.message_number++; /* its new sequence number */
        group_link(core, group_open(core, target->message_list, group), slot);
    }
    accounted_free((void *)group.ptr);
    core_enter_state(core, slot, MESSAGE_RETURNED);
    return true;
}

bool apply_content_moved(struct core *core, const struct event_content_moved *moved)
{
    uint32_t slot = core_find_message(core, moved->number);
    if (slot == 0 || core_message(core, slot)->content_size != moved->content.size)
        return false;
    struct message *message = core_message(core, slot);
    uint64_t position = core->applying_at + EVENT_CONTENT_MOVED_CONTENT_OFFSET;
    extents_leave(&core->extents, message->position / core->segment_size, message->content_size);
    extents_enter(&core->extents, position / core->segment_size, message->content_size);
    message->position = position;
    return true;
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

/* Can a failed unit be outstanding again? Not in a cancelled batch. */
static bool can_reopen(const struct batch *batch, uint32_t unit)
{
    if (batch->is_cancelled)
        return true;
    if (batch->spec.tracking == BATCH_XOR)
        return batch->xor_finished > 0 && batch->xor_failed > 0;
    return unit < batch->ledger.count && ledger_state(&batch->ledger, unit) == UNIT_FAILED;
}

static void reopen(struct batch *batch, uint32_t unit, uint64_t xor_id)
{
    if (batch->is_cancelled)
        return;
    if (batch->spec.tracking == BATCH_EXACT) {
        ledger_reopen(&batch->ledger, unit);
        return;
    }
    batch->xor_value ^= xor_id;
    batch->xor_finished--;
    batch->xor_failed--;
}

/* The batch that a moved message reopens. If the message failed as a unit, it is that unit. If it is a batch's message,
 * it is that batch's unit in a parent that waits for the message. NULL: none. */
static struct batch *batch_to_reopen(const struct core *core, const struct message *message, uint32_t *unit)
{
    struct batch *batch = message->batch == 0 ? NULL : core_batch(core, message->batch);
    if (batch == NULL || !message->is_moved)
        return NULL;
    *unit = message->completes == 0 ? message->unit : batch->parent_unit;
    if (message->completes == 0)
        return batch;
    return batch->parent == 0 || !batch_is_awaited(batch, message->completes) ? NULL : core_batch(core, batch->parent);
}

/* The unit gets another number, and failed units are outstanding again (invariant B13). */
static void rejoin_batch(struct core *core, const struct message *message, uint64_t successor)
{
    uint32_t unit;
    struct batch *reopened = batch_to_reopen(core, message, &unit);
    struct batch *batch = message->batch == 0 ? NULL : core_batch(core, message->batch);
    uint64_t xor_id = 0;
    if (batch != NULL && message->completes != 0) {
        xor_id = identity_xor_unit(core->digest_owned, batch->number, true);
    } else if (batch != NULL && batch->spec.tracking == BATCH_XOR) {
        xor_id = identity_xor_unit(core->digest_owned, successor, false);
        if (reopened == NULL)
            batch->xor_value ^= identity_xor_unit(core->digest_owned, message->number, false) ^ xor_id;
    } else if (batch != NULL) {
        ledger_rename_message(&batch->ledger, message->unit, successor);
    }
    if (reopened != NULL)
        reopen(reopened, unit, xor_id);
}

/* Can the message live on under the successor's number, in that queue? */
static bool successor_fits(const struct core *core, const struct event_message_moved *moved)
{
    uint32_t slot = core_find_message(core, moved->number);
    const struct queue *target = core_find_queue_by_id(core, moved->queue);
    if (slot == 0 || target == NULL || moved->successor != core->messages.message_number + 1 ||
        moved->successor > IDENTITY_NUMBER_MAX || moved->sequence >= moved->successor)
        return false;
    const struct message *message = core_message(core, slot);
    uint32_t unit, group = core_group_of(core, message);
    const struct batch *reopened = batch_to_reopen(core, message, &unit);
    bool has_group = group != 0 && core_group(core, group)->id_owned.size > 0;
    return !core_message_is_dead(core, message) && !dependency_is_untold(core, moved->number) &&
           (reopened == NULL || can_reopen(reopened, unit)) &&
           (has_group || (!target->settings.is_fifo && moved->sequence == 0));
}

/* A message that lives on under another number, as if it had just been sent. */
static void renew(struct core *core, uint32_t slot, const struct event_message_moved *moved)
{
    struct message *message = core_message(core, slot);
    number_map_remove(&core->messages.by_number, moved->number);
    core->messages.message_number = message->number = moved->successor;
    number_map_insert(&core->messages.by_number, moved->successor, slot);
    message->sent_at_ms = core->now_ms;
    message->visible_at_ms = moved->visible_at_ms;
    message->delivery = 0;
    message->receive_count = message->timeout_ms = 0;
    message->first_received_after_ms = message->received_after_ms = 0;
    message->is_moved = false;
    message->is_redriven = true;
}

/* False, with the state spoiled, if another message has that place in the group; a replay then gives up the core. */
static bool enter_group(struct core *core, uint32_t slot, struct bytes group, uint64_t sequence)
{
    uint32_t line = group_open(core, core_message(core, slot)->message_list, group);
    if (sequence == 0) {
        group_link(core, line, slot);
        return true;
    }
    core_extra_of(core, core_message(core, slot))->sequence = sequence;
    return group_insert(core, line, slot, 0);
}

/* The message leaves its queue and all that ordered it, and is a new one. False as enter_group(). */
static bool live_on(struct core *core, uint32_t slot, const struct event_message_moved *moved)
{
    struct message *message = core_message(core, slot);
    const struct queue *target = core_find_queue_by_id(core, moved->queue);
    uint8_t priority = message->extra == 0 ? PRIORITY_DEFAULT : core_extra_of(core, message)->priority;
    uint32_t from = core_group_of(core, message);
    struct bytes group = from == 0 ? bytes_make(NULL, 0) : accounted_duplicate(core_group(core, from)->id_owned);
    core_leave_state(core, slot);
    core_unlist_message(core, slot);
    drop_extra(core, slot, UNIT_FAILED);
    forget_origin(core, message);
    rejoin_batch(core, message, moved->successor);
    renew(core, slot, moved);
    dependency_message_moved(core, moved->number, slot);
    if (message->is_result)
        made_match_message_moved(core, moved->number, moved->successor);
    core_list_message(core, slot, target->message_list);
    bool is_placed = true;
    if (group.size > 0 || priority != PRIORITY_DEFAULT) {
        core_give_extra(core, slot)->priority = priority;
        is_placed = enter_group(core, slot, group, moved->sequence);
    }
    accounted_free((void *)group.ptr);
    if (is_placed)
        core_enter_state(core, slot, first_state(core, moved->visible_at_ms));
    return is_placed;
}

bool apply_message_moved(struct core *core, const struct event_message_moved *moved)
{
    if (!successor_fits(core, moved))
        return false;
    uint32_t slot = core_find_message(core, moved->number);
    const struct message *message = core_message(core, slot);
    const struct queue *target = core_find_queue_by_id(core, moved->queue);
    const struct queue *source = core_queue(core, core_message_list_at(core, message->message_list)->queue);
    if (!message_is_deliverable(message) || source == target || !move_count(core, source, moved->task))
        return false;
    core_count(core, core_message_list_at(core, message->message_list)->queue, COUNTER_REDRIVEN);
    return live_on(core, slot, moved);
}

/* One that waits, or that type orders concern, would lose that. A dead letter goes to another queue, any other message
 * stays in its own. */
static bool can_be_replaced(const struct core *core, uint32_t slot, const struct queue *target)
{
    const struct message *message = core_message(core, slot);
    const struct message_extra *extra = core_extra_of(core, message);
    const bool is_at_home = message->message_list == target->message_list;
    return is_at_home == !message->is_moved && !message->is_result &&
           (message_is_deliverable(message) || (is_at_home && message->state == MESSAGE_DELAYED)) &&
           (extra == NULL || extra->typed == 0);
}

bool apply_replaced(struct core *core, const struct event_replaced *replaced)
{
    const struct event_message_moved moved = {.number = replaced->number,
                                              .successor = replaced->successor,
                                              .queue = replaced->queue,
                                              .visible_at_ms = replaced->visible_at_ms,
                                              .sequence = replaced->sequence};
    if (!successor_fits(core, &moved))
        return false;
    uint32_t slot = core_find_message(core, replaced->number);
    if (!can_be_replaced(core, slot, core_find_queue_by_id(core, replaced->queue)) || !live_on(core, slot, &moved))
        return false;
    struct message *message = core_message(core, slot);
    extents_leave(&core->extents, message->position / core->segment_size, message->content_size);
    message->position = core->applying_at + EVENT_REPLACED_CONTENT_OFFSET;
    message->content_size = (uint32_t)replaced->content.size;
    extents_enter(&core->extents, message->position / core->segment_size, message->content_size);
    return true;
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

bool batch_fits_parent(const struct batch *parent, const struct event_batch_created *created)
{
    return batch_has_room(parent, 1) && parent->depth + 1 < BATCH_DEPTH_MAX &&
           created->parent_unit == parent->ledger.count;
}

static void note_targets(struct core *core, uint32_t slot)
{
    const struct batch_spec *spec = &core_batch(core, slot)->spec;
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++)
        if (spec->targets[i].queue != 0)
            note_queue(core, slot, spec->targets[i].queue);
}

bool apply_batch_created(struct core *core, const struct event_batch_created *created)
{
    struct batch_spec spec;
    uint32_t parent_slot = created->parent == 0 ? 0 : core_find_batch_by_number(core, created->parent);
    if (created->batch != core->batches.batch_number + 1 || created->id.size == 0 ||
        created->id.size > BATCH_ID_SIZE_MAX || !batch_spec_decode(created->spec, &spec) ||
        core_find_batch(core, created->id) != NULL || !core_has_targets(core, &spec) ||
        (created->parent != 0 && parent_slot == 0) ||
        (parent_slot != 0 && !batch_fits_parent(core_batch(core, parent_slot), created)))
        return false;
    core->batches.batch_number = created->batch;
    uint32_t slot = core_add_batch(core, created->batch, created->id, created->spec);
    table_insert(&core->batches.by_id, digest_name(core->digest_owned, created->id), slot);
    struct batch *batch = core_batch(core, slot);
    batch->created_at_ms = core->now_ms;
    batch->unpinned_at_ms = core->now_ms;
    core_count_targets(core, batch, true);
    core_set_deadline(core, slot);
    batch->parent = parent_slot;
    note_targets(core, slot);
    if (parent_slot == 0)
        return true;
    struct batch *parent = core_batch(core, parent_slot);
    batch->parent_unit = created->parent_unit;
    batch->depth = parent->depth + 1;
    core_pin_batch(core, parent_slot);
    if (parent->spec.tracking == BATCH_XOR) {
        parent->xor_value ^= identity_xor_unit(core->digest_owned, batch->number, true);
        parent->xor_registered++;
    } else {
        uint32_t unit = ledger_add_key(&parent->ledger, created->id, UNIT_CHILD);
        ASSERT(unit == created->parent_unit);
    }
    return true;
}

/* The batch of an event, with an exact ledger; NULL if there is none. */
static struct batch *find_exact(const struct core *core, uint64_t number)
{
    uint32_t slot = core_find_batch_by_number(core, number);
    if (slot == 0 || core_batch(core, slot)->spec.tracking != BATCH_EXACT)
        return NULL;
    return core_batch(core, slot);
}

bool apply_units_counted(struct core *core, const struct event_units_counted *counted)
{
    struct batch *batch = find_exact(core, counted->batch);
    if (batch == NULL || counted->count > LEDGER_UNITS_MAX ||
        !batch_has_room(batch, ledger_count_would_add(&batch->ledger, counted->count)))
        return false;
    ledger_add_counted(&batch->ledger, counted->count);
    return true;
}

/* Unlike the other functions, it may have added keys before it finds one that does not fit; a replay then gives up the
 * core. */
bool apply_units_added(struct core *core, const struct event_units_added *added)
{
    struct batch *batch = find_exact(core, added->batch);
    if (batch == NULL || !batch_has_room(batch, added->count))
        return false;
    struct cursor cursor = cursor_make(added->keys);
    for (uint32_t i = 0; i < added->count; i++) {
        struct bytes key = cursor_sized(&cursor);
        if (cursor.is_failed || ledger_find(&batch->ledger, key) != LEDGER_NO_UNIT)
            return false;
        ledger_add_key(&batch->ledger, key, UNIT_KEYED);
    }
    return cursor_is_done(&cursor);
}

bool apply_unit_ended(struct core *core, const struct event_unit_ended *ended)
{
    uint32_t slot = core_find_batch_by_number(core, ended->batch);
    if (slot == 0 || ended->outcome == UNIT_OUTSTANDING || ended->outcome > UNIT_CANCELLED)
        return false;
    struct batch *batch = core_batch(core, slot);
    if (batch->spec.tracking == BATCH_XOR) {
        batch->xor_value ^= ended->xor_id;
        batch->xor_finished++;
        batch->xor_failed += ended->outcome != UNIT_SUCCEEDED;
        return true;
    }
    if (ended->unit >= batch->ledger.count || ledger_state(&batch->ledger, ended->unit) != UNIT_OUTSTANDING)
        return false;
    ledger_end(&batch->ledger, ended->unit, (enum unit_state)ended->outcome, ended->detail);
    return true;
}

bool apply_xor_applied(struct core *core, const struct event_xor_applied *applied)
{
    uint32_t slot = core_find_batch_by_number(core, applied->batch);
    if (slot == 0 || core_batch(core, slot)->spec.tracking != BATCH_XOR ||
        batch_find_token(core_batch(core, slot), applied->token) != UINT32_MAX)
        return false;
    struct batch *batch = core_batch(core, slot);
    batch->xor_value ^= applied->value;
    batch->xor_registered += applied->registered;
    batch->xor_finished += applied->finished;
    batch_add_token(batch, applied->token, applied->check);
    return true;
}

bool apply_batch_sealed(struct core *core, const struct event_batch_sealed *sealed)
{
    uint32_t slot = core_find_batch_by_number(core, sealed->batch);
    if (slot == 0 || core_batch(core, slot)->state != BATCH_OPEN)
        return false;
    core_set_batch_state(core, core_batch(core, slot), BATCH_IS_SEALED);
    core_batch(core, slot)->sealed_at_ms = core->now_ms;
    return true;
}

bool apply_batch_grown(struct core *core, const struct event_batch_grown *grown)
{
    uint32_t slot = core_find_batch_by_number(core, grown->batch);
    if (slot == 0 || grown->count == 0 || batch_check_room(core_batch(core, slot), grown->count, true) != OK ||
        grown->count > LEDGER_UNITS_MAX - core_batch(core, slot)->grown)
        return false;
    core_batch(core, slot)->grown += grown->count;
    return true;
}

static void complete_batch(struct core *core, uint32_t slot, enum batch_status status)
{
    struct batch *batch = core_batch(core, slot);
    core_set_batch_state(core, batch, BATCH_COMPLETED);
    batch->status = status;
    batch->completed_at_ms = core->now_ms;
    batch->unpinned_at_ms = core->now_ms;
    core_count_targets(core, batch, false);
    if (status == BATCH_CANCELLED) {
        batch->is_cancelled = true;
        if (batch->ledger.reference_count > 0)
            list_append(&core->batches.draining, &batch->draining_link);
    }
    core_set_deadline(core, slot);
    dependency_batch_completed(core, slot);
}

/* All failed units of a completed batch have now succeeded. */
static void redeem_batch(struct core *core, uint32_t slot)
{
    core_batch(core, slot)->status = BATCH_SUCCEEDED;
    core_batch(core, slot)->fired |= BATCH_SUCCESS_WAS_LATE;
    dependency_batch_redeemed(core, slot);
}

bool apply_batch_fired(struct core *core, const struct event_batch_fired *fired)
{
    uint32_t slot = core_find_batch_by_number(core, fired->batch);
    if (slot == 0 || fired->event < BATCH_EVENT_COMPLETE || fired->event > BATCH_EVENT_COUNT ||
        fired->status > BATCH_EXPIRED || (core_batch(core, slot)->fired & BATCH_EVENT_BIT(fired->event)) != 0)
        return false;
    bool is_late = fired->event == BATCH_EVENT_SUCCESS && fired->status == BATCH_SUCCEEDED &&
                   core_batch(core, slot)->status == BATCH_FAILED;
    if (!is_late && (fired->event == BATCH_EVENT_COMPLETE) != (fired->status != BATCH_NO_STATUS))
        return false;
    core_batch(core, slot)->fired |= BATCH_EVENT_BIT(fired->event);
    if (is_late)
        redeem_batch(core, slot);
    if (fired->event == BATCH_EVENT_COMPLETE)
        complete_batch(core, slot, (enum batch_status)fired->status);
    return true;
}

bool apply_batch_deleted(struct core *core, const struct event_batch_deleted *deleted)
{
    uint32_t slot = core_find_batch_by_number(core, deleted->batch);
    if (slot == 0 || core_batch(core, slot)->is_deleted || core_batch(core, slot)->state != BATCH_COMPLETED)
        return false;
    struct batch *batch = core_batch(core, slot);
    table_remove(&core->batches.by_id, digest_name(core->digest_owned, batch->id_owned), slot);
    batch->is_deleted = true;
    dependency_batch_forgotten(core, slot);
    core_pin_batch(core, slot); /* so that only the last unpin frees a batch */
    core_unpin_batch(core, slot);
    return true;
}
