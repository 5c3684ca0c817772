#include "core/order/type_lane.h"

#include "core/apply.h"

#include "base/accounted.h"
#include <stdlib.h>

/* --- groups ------------------------------------------------------------------------------------------------------- */

uint32_t type_group_find(const struct core *core, struct bytes id)
{
    const struct table *table = &core->type_orders.group_by_id;
    for (struct table_probe probe = table_probe_start(table, digest_name(core->digest_owned, id));
         table_probe_next(table, &probe);)
        if (bytes_equal(type_group_at(core, probe.slot)->id_owned, id))
            return probe.slot;
    return 0;
}

uint32_t type_group_open(struct core *core, struct bytes id)
{
    ASSERT(id.size > 0);
    uint32_t slot = type_group_find(core, id);
    if (slot != 0)
        return slot;
    slot = slab_allocate(&core->type_orders.groups);
    type_group_at(core, slot)->id_owned = accounted_duplicate(id);
    table_insert(&core->type_orders.group_by_id, digest_name(core->digest_owned, id), slot);
    return slot;
}

void type_group_settle(struct core *core, uint32_t slot)
{
    struct type_group *group = type_group_at(core, slot);
    if (group->mask != 0)
        return;
    ASSERT(group->busy == 0);
    table_remove(&core->type_orders.group_by_id, digest_name(core->digest_owned, group->id_owned), slot);
    accounted_free((void *)group->id_owned.ptr);
    accounted_free(group->lanes_owned);
    group->id_owned = bytes_make(NULL, 0);
    group->lanes_owned = NULL;
    slab_free(&core->type_orders.groups, slot);
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

/* How many lanes are before that of the type. */
static size_t lane_index(const struct type_group *group, unsigned type)
{
    return (size_t)__builtin_popcountll(group->mask & (type_bit(type) - 1));
}

static size_t lane_count(const struct type_group *group)
{
    return (size_t)__builtin_popcountll(group->mask);
}

uint32_t type_lane_find(const struct type_group *group, unsigned type)
{
    return (group->mask & type_bit(type)) == 0 ? 0 : group->lanes_owned[lane_index(group, type)];
}

uint32_t type_lane_open(struct core *core, uint32_t group_slot, unsigned type)
{
    struct type_group *group = type_group_at(core, group_slot);
    uint32_t slot = type_lane_find(group, type);
    if (slot != 0)
        return slot;
    struct type_orders *type_orders = &core->type_orders;
    slot = slab_allocate(&type_orders->lanes);
    struct type_lane *lane = type_lane_at(core, slot);
    lane->number = ++type_orders->lane_number;
    lane->group = group_slot;
    lane->type = (uint8_t)type;
    heap_init(&lane->waiting, &type_orders->typed, offsetof(struct typed, heap_index), offsetof(struct typed, number));
    heap_init(&lane->wanting, &type_orders->typed, offsetof(struct typed, heap_index), offsetof(struct typed, number));
    size_t index = lane_index(group, type), count = lane_count(group);
    group->lanes_owned = accounted_resize(group->lanes_owned, (count + 1) * sizeof(*group->lanes_owned));
    memmove(group->lanes_owned + index + 1, group->lanes_owned + index, (count - index) * sizeof(*group->lanes_owned));
    group->lanes_owned[index] = slot;
    group->mask |= type_bit(type);
    return slot;
}

void type_lane_settle(struct core *core, uint32_t slot)
{
    struct type_lane *lane = type_lane_at(core, slot);
    if (lane->first != 0 || lane->wanted_count > 0 || lane->memory_index != 0)
        return;
    ASSERT(lane->waiting.count == 0 && lane->wanting.count == 0);
    struct type_group *group = type_group_at(core, lane->group);
    size_t index = lane_index(group, lane->type), count = lane_count(group);
    ASSERT(group->lanes_owned[index] == slot);
    memmove(group->lanes_owned + index, group->lanes_owned + index + 1,
            (count - index - 1) * sizeof(*group->lanes_owned));
    group->mask &= ~type_bit(lane->type);
    heap_deinit(&lane->waiting);
    heap_deinit(&lane->wanting);
    slab_free(&core->type_orders.lanes, slot);
}

bool type_lane_remembers(const struct core *core, const struct type_lane *lane)
{
    const struct type *type = &core->type_orders.types[lane->type];
    return lane->remembered_until_ms > core->now_ms && type->order_count > 0 && lane->epoch == type->epoch;
}

void type_lane_remember(struct core *core, uint32_t slot, uint64_t success_at_ms, uint64_t until_ms)
{
    struct type_lane *lane = type_lane_at(core, slot);
    lane->success_at_ms = success_at_ms;
    lane->remembered_until_ms = until_ms;
    lane->epoch = core->type_orders.types[lane->type].epoch;
    if (lane->memory_index == 0)
        heap_push(&core->type_orders.memories, until_ms, slot);
    else
        heap_update(&core->type_orders.memories, until_ms, slot);
}

/* --- who waits for whom ------------------------------------------------------------------------------------------- */

/* Is an earlier message of that lane unfinished? */
static bool lane_blocks(const struct core *core, const struct type_lane *lane, const struct typed *typed)
{
    return lane->first != 0 && typed_at(core, lane->first)->number < typed->number;
}

/* Has no message of that lane succeeded since this one was accepted? */
static bool lane_lacks_success(const struct type_lane *lane, const struct typed *typed)
{
    return lane->success_mark < typed->number;
}

/* The lane of the lowest type that blocks the message; earlier messages count before missing successes; 0: none. */
static uint32_t find_blocker(const struct core *core, const struct typed *typed, bool *is_wanting)
{
    const struct type_group *group = type_group_at(core, type_lane_at(core, typed->lane)->group);
    for (uint64_t rest = typed->waits & group->busy; rest != 0; rest &= rest - 1) {
        uint32_t lane = type_lane_find(group, type_lowest(rest));
        *is_wanting = false;
        if (lane_blocks(core, type_lane_at(core, lane), typed))
            return lane;
    }
    for (uint64_t rest = typed->wants; rest != 0; rest &= rest - 1) {
        uint32_t lane = type_lane_find(group, type_lowest(rest));
        ASSERT(lane != 0);
        *is_wanting = true;
        if (lane_lacks_success(type_lane_at(core, lane), typed))
            return lane;
    }
    return 0;
}

static struct heap *heap_of(const struct core *core, const struct typed *typed)
{
    struct type_lane *lane = type_lane_at(core, typed->blocker);
    return typed->is_wanting ? &lane->wanting : &lane->waiting;
}

static uint32_t slot_of(const struct core *core, const struct typed *typed)
{
    return core_extra_of(core, core_message(core, typed->message))->typed;
}

bool typed_block(struct core *core, struct typed *typed)
{
    ASSERT(typed->heap_index == 0);
    typed->blocker = find_blocker(core, typed, &typed->is_wanting);
    if (typed->blocker == 0)
        return false;
    heap_push(heap_of(core, typed), typed->number, slot_of(core, typed));
    return true;
}

/* Moves the first message of a heap to another lane's heap, or releases it. */
static void release_first(struct core *core, struct heap *heap)
{
    uint32_t slot = heap_top(heap).slot;
    heap_remove(heap, slot);
    struct typed *typed = typed_at(core, slot);
    if (!typed_block(core, typed))
        core_stop_waiting(core, typed->message);
}

/* Checks the messages that the lane blocks again, after its first message or its success has changed. */
static void release_lane(struct core *core, struct type_lane *lane)
{
    while (lane->waiting.count > 0 && !lane_blocks(core, lane, typed_at(core, heap_top(&lane->waiting).slot)))
        release_first(core, &lane->waiting);
    while (lane->wanting.count > 0 && !lane_lacks_success(lane, typed_at(core, heap_top(&lane->wanting).slot)))
        release_first(core, &lane->wanting);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void count_wants(struct core *core, const struct type_group *group, uint64_t wants)
{
    for (uint64_t rest = wants; rest != 0; rest &= rest - 1) {
        unsigned type = type_lowest(rest);
        type_lane_at(core, type_lane_find(group, type))->wanted_count++;
        core->type_orders.types[type].wanted_count++;
    }
}

struct typed *typed_add(struct core *core, uint32_t lane_slot, uint32_t message, uint64_t waits, uint64_t wants)
{
    struct type_lane *lane = type_lane_at(core, lane_slot);
    struct type_group *group = type_group_at(core, lane->group);
    uint32_t slot = slab_allocate(&core->type_orders.typed);
    struct typed *typed = typed_at(core, slot);
    typed->number = core_message(core, message)->number;
    ASSERT(lane->last == 0 || typed_at(core, lane->last)->number < typed->number);
    typed->message = message;
    typed->lane = lane_slot;
    typed->waits = waits;
    typed->wants = wants;
    typed->prev = lane->last;
    *(lane->last == 0 ? &lane->first : &typed_at(core, lane->last)->next) = slot;
    lane->last = slot;
    group->busy |= type_bit(lane->type);
    core->type_orders.types[lane->type].message_count++;
    count_wants(core, group, wants);
    core_extra_of(core, core_message(core, message))->typed = slot;
    return typed;
}

/* The types that must succeed before a message of this one, and have not. */
static uint64_t find_missing(const struct core *core, const struct type_group *group, unsigned type)
{
    uint64_t missing = 0;
    for (uint64_t rest = core->type_orders.types[type].required; rest != 0; rest &= rest - 1) {
        unsigned earlier = type_lowest(rest);
        uint64_t retention_ms = (uint64_t)core->type_orders.retention_s[type][earlier] * 1000;
        uint32_t slot = type_lane_find(group, earlier);
        const struct type_lane *lane = slot == 0 ? NULL : type_lane_at(core, slot);
        if (lane == NULL || !type_lane_remembers(core, lane) || lane->success_at_ms + retention_ms <= core->now_ms)
            missing |= type_bit(earlier);
    }
    return missing;
}

/* Makes the lanes whose success the message needs. A success that no message needed is older than the message, and may
 * be forgotten elsewhere, so it is removed. */
static void open_wanted(struct core *core, uint32_t group, uint64_t wants)
{
    for (uint64_t rest = wants; rest != 0; rest &= rest - 1) {
        struct type_lane *lane = type_lane_at(core, type_lane_open(core, group, type_lowest(rest)));
        if (lane->wanted_count == 0)
            lane->success_mark = 0;
    }
}

bool apply_typed(struct core *core, const struct event_typed *event)
{
    uint32_t message = core_find_message(core, event->number);
    uint32_t group = message == 0 ? 0 : core_group_of(core, core_message(core, message));
    if (group == 0 || event->number != core->messages.message_number || !type_order_binds(core, event->type) ||
        core_group(core, group)->id_owned.size == 0 || core_message(core, message)->delivery != 0 ||
        core_extra_of(core, core_message(core, message))->typed != 0)
        return false;
    unsigned type = type_find(&core->type_orders, event->type);
    uint32_t slot = type_group_open(core, core_group(core, group)->id_owned);
    uint32_t lane = type_lane_open(core, slot, type);
    uint64_t waits = core->type_orders.types[type].before & type_group_at(core, slot)->busy;
    uint64_t wants = find_missing(core, type_group_at(core, slot), type);
    open_wanted(core, slot, wants);
    if (typed_block(core, typed_add(core, lane, message, waits, wants)))
        core_wait(core, message);
    return true;
}

/* Takes the message out of its lane and out of its heap, if it is in one. */
static void unlink_typed(struct core *core, struct typed *typed)
{
    uint32_t slot = slot_of(core, typed);
    struct type_lane *lane = type_lane_at(core, typed->lane);
    if (typed->heap_index != 0)
        heap_remove(heap_of(core, typed), slot);
    *(typed->prev == 0 ? &lane->first : &typed_at(core, typed->prev)->next) = typed->next;
    *(typed->next == 0 ? &lane->last : &typed_at(core, typed->next)->prev) = typed->prev;
    if (lane->first == 0)
        type_group_at(core, lane->group)->busy &= ~type_bit(lane->type);
    core_extra_of(core, core_message(core, typed->message))->typed = 0;
    slab_free(&core->type_orders.typed, slot);
}

static void forget_wants(struct core *core, uint32_t group, uint64_t wants)
{
    for (uint64_t rest = wants; rest != 0; rest &= rest - 1) {
        unsigned type = type_lowest(rest);
        uint32_t lane = type_lane_find(type_group_at(core, group), type);
        ASSERT(type_lane_at(core, lane)->wanted_count > 0 && core->type_orders.types[type].wanted_count > 0);
        type_lane_at(core, lane)->wanted_count--;
        core->type_orders.types[type].wanted_count--;
        type_lane_settle(core, lane);
        type_release(&core->type_orders, type);
    }
}

static void count_success(struct core *core, uint32_t slot)
{
    struct type_lane *lane = type_lane_at(core, slot);
    uint64_t remembered_ms = (uint64_t)core->type_orders.types[lane->type].remembered_s * 1000;
    lane->success_mark = core->messages.message_number;
    if (remembered_ms > 0)
        type_lane_remember(core, slot, core->now_ms, core->now_ms + remembered_ms);
}

void type_order_message_ended(struct core *core, uint32_t message, enum unit_state outcome)
{
    struct typed *typed = typed_at(core, core_extra_of(core, core_message(core, message))->typed);
    ASSERT(typed->message == message);
    uint32_t slot = typed->lane;
    uint64_t wants = typed->wants;
    struct type_lane *lane = type_lane_at(core, slot);
    unsigned type = lane->type;
    uint32_t group = lane->group;
    unlink_typed(core, typed);
    if (outcome == UNIT_SUCCEEDED)
        count_success(core, slot);
    release_lane(core, lane);
    core->type_orders.types[type].message_count--;
    type_lane_settle(core, slot);
    type_release(&core->type_orders, type);
    forget_wants(core, group, wants);
    type_group_settle(core, group);
}

/* --- forgetting successes ----------------------------------------------------------------------------------------- */

uint64_t type_order_due_ms(const struct core *core)
{
    return heap_top_key(&core->type_orders.memories);
}

void type_order_forget(struct core *core, unsigned portion)
{
    struct heap *memories = &core->type_orders.memories;
    for (; portion > 0 && memories->count > 0 && heap_top(memories).key <= core->now_ms; portion--) {
        uint32_t slot = heap_top(memories).slot;
        uint32_t group = type_lane_at(core, slot)->group;
        heap_remove(memories, slot);
        type_lane_at(core, slot)->remembered_until_ms = 0;
        type_lane_settle(core, slot);
        type_group_settle(core, group);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static const struct typed *typed_of(const struct core *core, uint32_t message)
{
    const struct message_extra *extra = core_extra_of(core, core_message(core, message));
    return extra == NULL || extra->typed == 0 ? NULL : typed_at(core, extra->typed);
}

bool type_order_is_blocked(const struct core *core, uint32_t message)
{
    const struct typed *typed = typed_of(core, message);
    return typed != NULL && typed->heap_index != 0;
}

unsigned type_order_blockers(const struct core *core, uint32_t message, struct type_blocker blockers[TYPES_MAX])
{
    const struct typed *typed = typed_of(core, message);
    if (typed == NULL)
        return 0;
    const struct type_group *group = type_group_at(core, type_lane_at(core, typed->lane)->group);
    unsigned count = 0;
    for (uint64_t rest = (typed->waits & group->busy) | typed->wants; rest != 0; rest &= rest - 1) {
        unsigned type = type_lowest(rest);
        const struct type_lane *lane = type_lane_at(core, type_lane_find(group, type));
        bool is_waiting = (typed->waits & type_bit(type)) != 0 && lane_blocks(core, lane, typed);
        bool is_wanting = (typed->wants & type_bit(type)) != 0 && lane_lacks_success(lane, typed);
        if (is_waiting || is_wanting)
            blockers[count++] = (struct type_blocker){.type = core->type_orders.types[type].name_owned,
                                                      .message = is_waiting ? typed_at(core, lane->first)->message : 0,
                                                      .needs_a_success = is_wanting};
    }
    return count;
}
