#include "core/order/group.h"

#include "core/apply.h"

#include "base/accounted.h"
#include "base/cursor.h"
#include <stdlib.h>

/* Source: Amazon SQS developer guide, "Amazon SQS fair queues". */
#define NOISY_IN_FLIGHT_MIN 30u
#define NOISY_SHARE 10u /* more than a tenth of the queue's messages in flight */

static struct message *message_in(const struct core *core, uint32_t slot)
{
    return core_message(core, slot);
}

static struct message_extra *extra_in(const struct core *core, uint32_t message)
{
    return message_extra_at(&core->extras, message_in(core, message)->extra);
}

static const struct queue_settings *settings_of(const struct core *core, const struct group *group)
{
    uint32_t queue = core_message_list_at(core, group->message_list)->queue;
    return queue == 0 ? NULL : &core_queue(core, queue)->settings;
}

/* --- finding, making, forgetting ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct core *core, uint32_t message_list, struct bytes id)
{
    return table_hash_u64(digest_name(core->digest_owned, id) + core_message_list_at(core, message_list)->number);
}

uint32_t group_find(const struct core *core, uint32_t message_list, struct bytes id)
{
    for (struct table_probe probe = table_probe_start(&core->groups.by_id, hash_of(core, message_list, id));
         table_probe_next(&core->groups.by_id, &probe);) {
        const struct group *group = core_group(core, probe.slot);
        if (group->message_list == message_list && bytes_equal(group->id_owned, id))
            return probe.slot;
    }
    return 0;
}

uint32_t group_create(struct core *core, uint32_t message_list, struct bytes id, uint64_t number)
{
    uint32_t queue = core_message_list_at(core, message_list)->queue;
    uint32_t slot = slab_allocate(&core->groups.items);
    struct group *group = core_group(core, slot);
    core_message_list_at(core, message_list)->group_count++;
    group->is_live = true;
    group->number = number;
    group->message_list = message_list;
    group->ring = RING_NONE;
    group->is_line = queue != 0 && core_queue(core, queue)->settings.is_fifo;
    heap_init(&group->returned, &core->messages.items, offsetof(struct message, heap_index),
              offsetof(struct message, number));
    if (id.size > 0) {
        group->id_owned = accounted_duplicate(id);
        table_insert(&core->groups.by_id, hash_of(core, message_list, id), slot);
    }
    return slot;
}

uint32_t group_open(struct core *core, uint32_t message_list, struct bytes id)
{
    uint32_t found = id.size == 0 ? 0 : group_find(core, message_list, id);
    return found != 0 ? found : group_create(core, message_list, id, ++core->groups.group_number);
}

void group_leave_ring(struct core *core, uint32_t slot)
{
    struct group *group = core_group(core, slot);
    if (group->ring == RING_NONE)
        return;
    struct message_list *list = core_message_list_at(core, group->message_list);
    struct ring *ring = &list->rings[group->ring];
    if (group->ring_prev != 0)
        core_group(core, group->ring_prev)->ring_next = group->ring_next;
    else
        ring->first = group->ring_next;
    if (group->ring_next != 0)
        core_group(core, group->ring_next)->ring_prev = group->ring_prev;
    else
        ring->last = group->ring_prev;
    if (ring->first == 0)
        list->ring_bits &= ~(1u << group->ring);
    list->held_count -= group->ring == RING_HELD;
    group->ring_prev = group->ring_next = 0;
    group->ring = RING_NONE;
}

void group_enter_ring(struct core *core, uint32_t slot, unsigned index)
{
    struct group *group = core_group(core, slot);
    ASSERT(group->ring == RING_NONE && index < RING_COUNT);
    struct message_list *list = core_message_list_at(core, group->message_list);
    struct ring *ring = &list->rings[index];
    group->ring = (uint8_t)index;
    group->ring_prev = ring->last;
    if (ring->last != 0)
        core_group(core, ring->last)->ring_next = slot;
    else
        ring->first = slot;
    ring->last = slot;
    if (index < RING_READY_COUNT)
        list->ring_bits |= 1u << index;
    list->held_count += index == RING_HELD;
}

static void group_free(struct core *core, uint32_t slot)
{
    struct group *group = core_group(core, slot);
    ASSERT(group->count == 0 && group->first == 0);
    group_leave_ring(core, slot);
    if (group->timer_index != 0)
        heap_remove(&core->groups.timers, slot);
    if (list_is_linked(&group->draining_link))
        list_remove(&group->draining_link);
    if (group->id_owned.size > 0)
        table_remove(&core->groups.by_id, hash_of(core, group->message_list, group->id_owned), slot);
    accounted_free((void *)group->id_owned.ptr);
    accounted_free((void *)group->reason_owned.ptr);
    heap_deinit(&group->returned);
    group->is_live = false;
    ASSERT(core_message_list_at(core, group->message_list)->group_count > 0);
    core_message_list_at(core, group->message_list)->group_count--;
    slab_free(&core->groups.items, slot);
}

/* --- the rate bucket ---------------------------------------------------------------------------------------------- */

static uint64_t now_us(const struct core *core)
{
    return core->now_ms * 1000;
}

static bool bucket_is_full(const struct core *core, const struct group *group)
{
    const struct queue_settings *settings = settings_of(core, group);
    return settings == NULL || settings->group_rate.interval_us == 0 || group->rate_tat_us <= now_us(core);
}

bool group_has_token(const struct core *core, const struct group *group)
{
    const struct queue_settings *settings = settings_of(core, group);
    return settings == NULL || rate_allows_at_ms(&settings->group_rate, group->rate_tat_us) <= core->now_ms;
}

void group_count_delivery(struct core *core, uint32_t slot)
{
    struct group *group = core_group(core, slot);
    const struct queue_settings *settings = settings_of(core, group);
    group->rate_tat_us = rate_after_delivery(&settings->group_rate, group->rate_tat_us, core->now_ms);
}

void group_set_timer(struct core *core, uint32_t slot)
{
    struct group *group = core_group(core, slot);
    uint64_t at_ms = 0;
    if (!bucket_is_full(core, group)) {
        const struct rate *rate = &settings_of(core, group)->group_rate;
        at_ms = group->count == 0 ? (group->rate_tat_us + 999) / 1000 : rate_allows_at_ms(rate, group->rate_tat_us);
    }
    heap_set(&core->groups.timers, at_ms > core->now_ms ? at_ms : HEAP_NEVER, slot);
}

/* --- where it stands ---------------------------------------------------------------------------------------------- */

uint32_t group_next_deliverable(const struct core *core, uint32_t slot)
{
    struct group *group = core_group(core, slot);
    if (group->is_line)
        return group->first != 0 && message_is_deliverable(message_in(core, group->first)) ? group->first : 0;
    while (group->cursor != 0 && message_in(core, group->cursor)->state != MESSAGE_FRESH)
        group->cursor = extra_in(core, group->cursor)->next;
    if (group->returned.count == 0)
        return group->cursor;
    struct heap_entry returned = heap_top(&group->returned);
    if (group->cursor == 0 || returned.key < extra_in(core, group->cursor)->sequence)
        return returned.slot;
    return group->cursor;
}

static bool is_noisy(const struct core *core, const struct group *group)
{
    return !group->is_line && group->in_flight_count >= NOISY_IN_FLIGHT_MIN &&
           group->in_flight_count * (uint64_t)NOISY_SHARE >
               core_message_list_at(core, group->message_list)->in_flight_count;
}

static unsigned ring_of(struct core *core, uint32_t slot)
{
    const struct group *group = core_group(core, slot);
    const struct queue_settings *settings = settings_of(core, group);
    if (settings == NULL)
        return RING_NONE; /* the message list is being emptied */
    if (group->is_held)
        return RING_HELD;
    if (group->is_paused)
        return RING_PAUSED;
    if (list_is_linked(&group->draining_link) || !group_has_token(core, group))
        return RING_NONE;
    if (!group->is_line && settings->group_concurrency > 0 && group->in_flight_count >= settings->group_concurrency)
        return RING_NONE;
    uint32_t next = group_next_deliverable(core, slot);
    return next == 0 ? RING_NONE : group_quiet_ring(extra_in(core, next)->priority) + is_noisy(core, group);
}

void group_settle(struct core *core, uint32_t slot, bool was_served)
{
    struct group *group = core_group(core, slot);
    if (group->count == 0 && !group->is_held && !group->is_paused && bucket_is_full(core, group)) {
        group_free(core, slot);
        return;
    }
    group_set_timer(core, slot);
    unsigned ring = ring_of(core, slot);
    if (ring == group->ring && !was_served)
        return;
    group_leave_ring(core, slot);
    if (ring == RING_NONE)
        return;
    group->entered_at = core->messages.message_number;
    group->entered_at_ms = core->now_ms;
    group_enter_ring(core, slot, ring);
    if (ring < RING_READY_COUNT)
        core_notice_queue(core, core_queue(core, core_message_list_at(core, group->message_list)->queue));
}

static int compare_numbers(const void *left, const void *right, void *context)
{
    const struct core *core = context;
    uint64_t a = core_group(core, *(const uint32_t *)left)->number;
    uint64_t b = core_group(core, *(const uint32_t *)right)->number;
    return a < b ? -1 : a > b;
}

uint32_t *group_list_all(const struct core *core, uint32_t message_list, uint32_t *count)
{
    uint32_t all = message_list == 0 ? core->groups.items.used : core_message_list_at(core, message_list)->group_count;
    uint32_t *slots = accounted_allocate((all + (size_t)1) * sizeof(*slots));
    *count = 0;
    for (uint32_t slot = 1; slot < core->groups.items.slot_end && *count < all; slot++)
        if (group_is_used(core_group(core, slot)) &&
            (message_list == 0 || core_group(core, slot)->message_list == message_list))
            slots[(*count)++] = slot;
    qsort_r(slots, *count, sizeof(*slots), compare_numbers, (void *)(uintptr_t)core);
    return slots;
}

void group_settle_all(struct core *core, uint32_t message_list)
{
    uint32_t count;
    uint32_t *slots = group_list_all(core, message_list, &count);
    for (uint32_t i = 0; i < count; i++) {
        struct group *group = core_group(core, slots[i]);
        group->rate_tat_us = rate_after_change(&settings_of(core, group)->group_rate, group->rate_tat_us, core->now_ms);
        group_settle(core, slots[i], false);
    }
    accounted_free(slots);
}

void group_move_pauses(struct core *core, uint32_t from, uint32_t to)
{
    static const unsigned stopped[] = {RING_HELD, RING_PAUSED}; /* a held group may be paused as well */
    for (unsigned i = 0; i < ARRAY_LENGTH(stopped); i++) {
        for (uint32_t slot = core_message_list_at(core, from)->rings[stopped[i]].first, next; slot != 0; slot = next) {
            next = core_group(core, slot)->ring_next;
            if (!core_group(core, slot)->is_paused)
                continue;
            uint32_t moved = group_open(core, to, core_group(core, slot)->id_owned);
            core_group(core, moved)->is_paused = true;
            group_settle(core, moved, false);
            core_group(core, slot)->is_paused = false;
            group_settle(core, slot, false); /* may forget it */
        }
    }
}

void group_drop_all(struct core *core, uint32_t message_list)
{
    static const unsigned stopped[] = {RING_HELD, RING_PAUSED};
    for (unsigned i = 0; i < ARRAY_LENGTH(stopped); i++) {
        for (uint32_t slot = core_message_list_at(core, message_list)->rings[stopped[i]].first, next; slot != 0;
             slot = next) {
            next = core_group(core, slot)->ring_next;
            core_group(core, slot)->is_paused = false;
            group_settle(core, slot, false);
        }
    }
    /* Empty groups with a bucket are in no ring, but in the timers, which are shared by all queues. Settling reorders
     * the timers, so the slots are copied first. Most queues have no such group here. */
    uint32_t left = core_message_list_at(core, message_list)->group_count;
    buffer_truncate(&core->scratch, 0);
    for (uint32_t i = 0; left > 0 && i < core->groups.timers.count; i++)
        if (core_group(core, core->groups.timers.entries_owned[i].slot)->message_list == message_list)
            buffer_append_u32(&core->scratch, core->groups.timers.entries_owned[i].slot);
    for (struct cursor cursor = cursor_make(buffer_bytes(&core->scratch)); cursor.rest.size > 0;)
        group_settle(core, cursor_u32(&cursor), false);
}

uint32_t group_choose(const struct core *core, uint32_t message_list_slot, bool is_longest_waiting)
{
    const struct message_list *list = core_message_list_at(core, message_list_slot);
    if (list->ring_bits == 0)
        return 0;
    uint32_t chosen = list->rings[__builtin_ctz(list->ring_bits)].first;
    for (uint32_t bits = is_longest_waiting ? list->ring_bits : 0; bits != 0; bits &= bits - 1) {
        uint32_t first = list->rings[__builtin_ctz(bits)].first;
        if (core_group(core, first)->entered_at < core_group(core, chosen)->entered_at)
            chosen = first;
    }
    return chosen;
}

/* --- its messages ------------------------------------------------------------------------------------------------- */

bool group_stands_before(const struct core *core, uint32_t one, uint32_t other)
{
    uint64_t sequence = extra_in(core, one)->sequence, other_sequence = extra_in(core, other)->sequence;
    if (sequence != other_sequence)
        return sequence < other_sequence;
    return message_in(core, one)->number < message_in(core, other)->number;
}

/* The message directly after which a message will be; 0: it will be the first. A message inserted into a line usually
 * goes directly after the last inserted one, however many are before and after. */
static uint32_t find_before(const struct core *core, const struct group *group, uint32_t message, uint32_t start)
{
    if (group->first == 0 || group_stands_before(core, message, group->first))
        return 0;
    if (group_stands_before(core, group->last, message))
        return group->last;
    uint32_t before = start != 0 ? start : group->inserted != 0 ? group->inserted : group->last;
    while (!group_stands_before(core, before, message))
        before = extra_in(core, before)->prev;
    while (group_stands_before(core, extra_in(core, before)->next, message))
        before = extra_in(core, before)->next;
    return before;
}

/* May the second be directly after the first? Only a redriven message has the sequence number of another. */
static bool can_follow(const struct core *core, uint32_t one, uint32_t other)
{
    return one == 0 || other == 0 || extra_in(core, one)->sequence != extra_in(core, other)->sequence ||
           message_in(core, other)->is_redriven;
}

bool group_insert(struct core *core, uint32_t slot, uint32_t message_slot, uint32_t start)
{
    struct group *group = core_group(core, slot);
    struct message_extra *extra = extra_in(core, message_slot);
    ASSERT(message_in(core, message_slot)->state == 0 && extra->group == 0);
    uint32_t before = find_before(core, group, message_slot, start);
    uint32_t behind = before == 0 ? group->first : extra_in(core, before)->next;
    if (!can_follow(core, before, message_slot) || !can_follow(core, message_slot, behind))
        return false;
    extra->group = slot;
    extra->prev = before;
    extra->next = behind;
    *(before == 0 ? &group->first : &extra_in(core, before)->next) = message_slot;
    *(behind == 0 ? &group->last : &extra_in(core, behind)->prev) = message_slot;
    message_in(core, message_slot)->is_grouped = true;
    group->inserted = behind != 0 ? message_slot : group->inserted;
    group->count++;
    return true;
}

void group_link(struct core *core, uint32_t slot, uint32_t message)
{
    extra_in(core, message)->sequence = core->messages.message_number;
    bool is_new = group_insert(core, slot, message, 0);
    ASSERT(is_new);
}

void group_unlink(struct core *core, uint32_t message_slot)
{
    struct message *message = message_in(core, message_slot);
    struct message_extra *extra = extra_in(core, message_slot);
    uint32_t slot = extra->group;
    struct group *group = core_group(core, slot);
    ASSERT(message->state == 0 && group->count > 0);
    if (group->is_held && group->first == message_slot) {
        group->is_held = false; /* what was held is gone */
        accounted_replace(&group->reason_owned, bytes_make(NULL, 0));
    }
    if (group->cursor == message_slot)
        group->cursor = extra->next;
    if (group->inserted == message_slot)
        group->inserted = extra->prev;
    *(extra->prev == 0 ? &group->first : &extra_in(core, extra->prev)->next) = extra->next;
    *(extra->next == 0 ? &group->last : &extra_in(core, extra->next)->prev) = extra->prev;
    extra->group = extra->prev = extra->next = 0;
    message->is_grouped = false;
    group->count--;
    if (list_is_linked(&group->draining_link) &&
        (group->first == 0 || extra_in(core, group->first)->sequence > group->cancelled_sequence)) {
        list_remove(&group->draining_link);
        group->cancelled_sequence = 0;
    }
    group_settle(core, slot, false);
}

void group_enter_state(struct core *core, uint32_t message_slot)
{
    const struct message *message = message_in(core, message_slot);
    const struct message_extra *extra = extra_in(core, message_slot);
    struct group *group = core_group(core, extra->group);
    group->in_flight_count += message->state == MESSAGE_IN_FLIGHT;
    group->waiting_count += message->state == MESSAGE_WAITING;
    if (message->state == MESSAGE_IN_FLIGHT)
        group->since_ms = core->now_ms;
    if (group->is_line)
        return;
    if (message->state == MESSAGE_FRESH && group->cursor == 0)
        group->cursor = message_slot;
    if (message->state == MESSAGE_RETURNED)
        heap_push(&group->returned, extra->sequence, message_slot);
}

void group_leave_state(struct core *core, uint32_t message_slot)
{
    const struct message *message = message_in(core, message_slot);
    struct group *group = core_group(core, extra_in(core, message_slot)->group);
    group->in_flight_count -= message->state == MESSAGE_IN_FLIGHT;
    group->waiting_count -= message->state == MESSAGE_WAITING;
    if (!group->is_line && message->state == MESSAGE_RETURNED)
        heap_remove(&group->returned, message_slot);
}

uint32_t group_first_lapsed(const struct core *core, uint32_t message_slot)
{
    uint32_t slot = core_group_of(core, message_in(core, message_slot));
    if (slot == 0 || !core_group(core, slot)->is_line)
        return message_slot;
    for (uint32_t prev = extra_in(core, message_slot)->prev; prev != 0; prev = extra_in(core, prev)->prev) {
        const struct message *message = message_in(core, prev);
        if (message->state != MESSAGE_IN_FLIGHT)
            break;
        if (message->visible_at_ms <= core->now_ms) /* its holder may have prolonged those between them */
            message_slot = prev;
    }
    return message_slot;
}

void group_fence_behind(struct core *core, uint32_t message_slot)
{
    uint32_t slot = core_group_of(core, message_in(core, message_slot));
    const struct queue_settings *settings = slot == 0 ? NULL : settings_of(core, core_group(core, slot));
    if (settings == NULL || !settings->is_fifo || !settings->is_strict)
        return;
    for (uint32_t next = extra_in(core, message_slot)->next;
         next != 0 && message_in(core, next)->state == MESSAGE_IN_FLIGHT; next = extra_in(core, next)->next) {
        struct message_extra *extra = extra_in(core, next);
        core_leave_state(core, next);
        extra->is_fenced = true;
        extra->spared_count++;
        core_enter_state(core, next, MESSAGE_RETURNED);
    }
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* The group of an event, or 0. */
static uint32_t find_named(const struct core *core, uint32_t queue_id, struct bytes id)
{
    const struct queue *queue = core_find_queue_by_id(core, queue_id);
    return queue == NULL || id.size == 0 ? 0 : group_find(core, queue->message_list, id);
}

bool apply_group_held(struct core *core, const struct event_group_held *held)
{
    uint32_t slot = find_named(core, held->queue, held->group);
    if (slot == 0 || core_group(core, slot)->is_held || core_group(core, slot)->count == 0)
        return false;
    struct group *group = core_group(core, slot);
    group->is_held = true;
    group->since_ms = core->now_ms;
    accounted_replace(&group->reason_owned, held->reason);
    group_settle(core, slot, false);
    return true;
}

bool apply_group_released(struct core *core, const struct event_group_released *released)
{
    uint32_t slot = find_named(core, released->queue, released->group);
    if (slot == 0 || !core_group(core, slot)->is_held)
        return false;
    struct group *group = core_group(core, slot);
    group->is_held = false;
    accounted_replace(&group->reason_owned, bytes_make(NULL, 0));
    if (released->is_retry) {
        extra_in(core, group->first)->spared_count = message_in(core, group->first)->receive_count;
        extra_in(core, group->first)->is_final = false;
    }
    group_settle(core, slot, false);
    return true;
}

bool apply_group_cancelled(struct core *core, const struct event_group_cancelled *cancelled)
{
    uint32_t slot = find_named(core, cancelled->queue, cancelled->group);
    if (slot == 0 || core_group(core, slot)->first == 0 ||
        extra_in(core, core_group(core, slot)->first)->sequence > cancelled->sequence)
        return false;
    struct group *group = core_group(core, slot);
    group->cancelled_sequence = cancelled->sequence;
    if (!list_is_linked(&group->draining_link))
        list_append(&core->groups.draining, &group->draining_link);
    group_settle(core, slot, false);
    return true;
}

bool apply_group_paused(struct core *core, const struct event_group_paused *paused)
{
    const struct queue *queue = core_find_queue_by_id(core, paused->queue);
    if (queue == NULL || paused->group.size == 0 || paused->group.size > GROUP_ID_SIZE_MAX || paused->is_paused > 1)
        return false;
    uint32_t slot = group_open(core, queue->message_list, paused->group);
    core_group(core, slot)->is_paused = paused->is_paused != 0;
    group_settle(core, slot, false);
    return true;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

bool group_is_sound(const struct core *core, uint32_t slot)
{
    const struct group *group = core_group(core, slot);
    bool is_draining = list_is_linked(&group->draining_link);
    if ((group->is_held && group->count == 0) || is_draining != (group->cancelled_sequence != 0) ||
        (is_draining && (group->first == 0 || extra_in(core, group->first)->sequence > group->cancelled_sequence)))
        return false;
    if (group->count == 0 && !group->is_paused && bucket_is_full(core, group))
        return false;
    if (settings_of(core, group) == NULL)
        return true; /* nobody uses the rings of a message list that is being emptied */
    /* Deciding to block and deciding to wake agree: a group is where it belongs (invariant O9). */
    unsigned ring = ring_of((struct core *)(uintptr_t)core, slot); /* it only moves a cursor over passed messages */
    bool differs_in_noise =
        ring < RING_READY_COUNT && (ring ^ 1) == group->ring; /* whether a group is noisy is checked when it settles */
    return ring == group->ring || (differs_in_noise && !group->is_line);
}

void group_check(const struct core *core, uint32_t slot)
{
    const struct group *group = core_group(core, slot);
    uint32_t count = 0, in_flight = 0, waiting = 0, returned = 0, prev = 0;
    bool is_before_cursor = true;
    for (uint32_t at = group->first; at != 0; prev = at, at = extra_in(core, at)->next) {
        const struct message *message = message_in(core, at);
        const struct message_extra *extra = extra_in(core, at);
        ASSERT(message->message_list == group->message_list && message->is_grouped && extra->group == slot &&
               extra->prev == prev);
        ASSERT(prev == 0 || (group_stands_before(core, prev, at) && can_follow(core, prev, at)));
        is_before_cursor = is_before_cursor && at != group->cursor;
        ASSERT(group->is_line || !is_before_cursor || message->state != MESSAGE_FRESH);
        count++;
        in_flight += message->state == MESSAGE_IN_FLIGHT;
        waiting += message->state == MESSAGE_WAITING;
        returned += message->state == MESSAGE_RETURNED;
    }
    ASSERT(group->last == prev && group->count == count && group->in_flight_count == in_flight);
    ASSERT(group->waiting_count == waiting);
    ASSERT(group->returned.count == (group->is_line ? 0 : returned));
    heap_check(&group->returned);
    ASSERT(group_is_sound(core, slot));
}
