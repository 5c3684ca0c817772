/* Type orders and typed messages as bytes, and back (docs/internals/formats/events.md); and the check that they are
 * consistent.
 *
 * Types are sorted by index, orders by name, groups by id, lanes by type, messages by number. The heaps are derived. */
#include "core/order/type_lane.h"

#include "core/snapshot.h"

#include "base/accounted.h"
#include <stdlib.h>

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_types(const struct type_orders *type_orders, struct buffer *out)
{
    size_t count_at = out->size;
    buffer_append_u8(out, 0);
    for (unsigned i = 0; i < TYPES_MAX; i++) {
        if (type_orders->types[i].name_owned.ptr == NULL)
            continue;
        out->data_owned[count_at]++;
        buffer_append_u8(out, (uint8_t)i);
        buffer_append_sized(out, type_orders->types[i].name_owned);
    }
}

static void write_order(const struct type_order *order, struct buffer *out)
{
    buffer_append_sized(out, order->name_owned);
    buffer_append_u32(out, order->retention_s);
    buffer_append_u8(out, (uint8_t)order->count);
    buffer_append(out, order->types, order->count);
}

/* Does the lane have anything that is not forgotten? */
static bool lane_counts(const struct core *core, const struct type_lane *lane)
{
    return lane->first != 0 || lane->wanted_count > 0 || type_lane_remembers(core, lane);
}

static void write_lane(const struct core *core, const struct type_lane *lane, struct core_writer *writer)
{
    bool remembers = type_lane_remembers(core, lane);
    buffer_append_u8(&writer->piece, lane->type);
    buffer_append_u64(&writer->piece, lane->wanted_count > 0 ? lane->success_mark : 0);
    buffer_append_u64(&writer->piece, remembers ? lane->success_at_ms : 0);
    buffer_append_u64(&writer->piece, remembers ? lane->remembered_until_ms : 0);
    for (uint32_t slot = lane->first; slot != 0; slot = typed_at(core, slot)->next) {
        const struct typed *typed = typed_at(core, slot);
        buffer_append_u64(&writer->piece, typed->number);
        buffer_append_u64(&writer->piece, typed->waits);
        buffer_append_u64(&writer->piece, typed->wants);
        core_writer_pass_on(writer);
    }
    buffer_append_u64(&writer->piece, 0);
}

static unsigned count_lanes(const struct core *core, const struct type_group *group)
{
    unsigned count = 0;
    for (int i = 0; i < __builtin_popcountll(group->mask); i++)
        count += lane_counts(core, type_lane_at(core, group->lanes_owned[i]));
    return count;
}

static void write_group(const struct core *core, const struct type_group *group, struct core_writer *writer)
{
    buffer_append_sized(&writer->piece, group->id_owned);
    buffer_append_u8(&writer->piece, (uint8_t)count_lanes(core, group));
    for (int i = 0; i < __builtin_popcountll(group->mask); i++)
        if (lane_counts(core, type_lane_at(core, group->lanes_owned[i])))
            write_lane(core, type_lane_at(core, group->lanes_owned[i]), writer);
    core_writer_pass_on(writer);
}

static int compare_groups(const void *left, const void *right)
{
    const struct type_group *const *a = left, *const *b = right;
    return bytes_compare((*a)->id_owned, (*b)->id_owned);
}

/* By id, and only groups with contents: a group that only remembers expired things is treated as absent. */
static void write_groups(const struct core *core, struct core_writer *writer)
{
    const struct slab *slab = &core->type_orders.groups;
    const struct type_group **groups = accounted_allocate((slab->used + 1) * sizeof(struct type_group *));
    uint32_t count = 0;
    for (uint32_t slot = 1; slot < slab->slot_end; slot++) {
        const struct type_group *group = type_group_at(core, slot);
        if (type_group_is_used(group) && count_lanes(core, group) > 0)
            groups[count++] = group;
    }
    qsort(groups, count, sizeof(*groups), compare_groups);
    buffer_append_u32(&writer->piece, count);
    for (uint32_t i = 0; i < count; i++)
        write_group(core, groups[i], writer);
    accounted_free(groups);
}

void type_order_encode(const struct core *core, struct core_writer *writer)
{
    write_types(&core->type_orders, &writer->piece);
    buffer_append_u32(&writer->piece, core->type_orders.order.count);
    for (uint32_t i = 0; i < core->type_orders.order.count; i++) {
        write_order(type_order_at(core, i), &writer->piece);
        core_writer_pass_on(writer);
    }
    write_groups(core, writer);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool read_types(struct type_orders *type_orders, struct cursor *cursor)
{
    unsigned count = cursor_u8(cursor);
    unsigned end = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned index = cursor_u8(cursor);
        struct bytes name = cursor_sized(cursor);
        if (cursor->is_failed || index < end || index >= TYPES_MAX || name.size == 0 ||
            name.size > TYPE_NAME_SIZE_MAX || type_find(type_orders, name) != TYPE_NONE)
            return false;
        type_orders->types[index].name_owned = accounted_duplicate(name);
        end = index + 1;
    }
    return !cursor->is_failed;
}

static bool read_order(struct core *core, struct cursor *cursor)
{
    struct type_orders *type_orders = &core->type_orders;
    struct bytes name = cursor_sized(cursor);
    struct type_order order = {.retention_s = cursor_u32(cursor)};
    order.count = cursor_u8(cursor);
    if (cursor->is_failed || name.size == 0 || name.size > TYPE_NAME_SIZE_MAX || order.count < 2 ||
        order.count > TYPES_MAX || order.retention_s > TYPE_RETENTION_S_MAX ||
        type_orders->order.count == TYPE_ORDERS_MAX || type_order_index(core, name) != type_orders->order.count ||
        type_order_find(core, name) != NULL)
        return false;
    cursor_copy(cursor, order.types, order.count);
    struct type_list list = {.count = 0};
    uint64_t mask = 0;
    for (; list.count < order.count && !cursor->is_failed; list.count++) {
        unsigned type = order.types[list.count];
        if (type >= TYPES_MAX || type_orders->types[type].name_owned.ptr == NULL || (mask & type_bit(type)) != 0)
            return false;
        mask |= type_bit(type);
        list.names[list.count] = type_orders->types[type].name_owned;
    }
    if (cursor->is_failed || type_order_is_conflict(core, name, &list, NULL))
        return false;
    for (uint32_t i = 0; i < order.count; i++) {
        type_orders->types[order.types[i]].order_count++;
        type_orders->types[order.types[i]].epoch = type_orders->epoch = 1;
    }
    order.name_owned = accounted_duplicate(name);
    type_order_insert(type_orders, &order);
    return true;
}

/* Could the message stand in this group? */
static bool fits_group(const struct core *core, uint32_t message, struct bytes id)
{
    uint32_t group = message == 0 ? 0 : core_group_of(core, core_message(core, message));
    return group != 0 && bytes_equal(core_group(core, group)->id_owned, id) &&
           core_extra_of(core, core_message(core, message))->typed == 0;
}

/* A number, the types for which the message waits, and those whose success it needs; the number 0 ends the lane. */
static bool read_typed(struct core *core, uint32_t lane, uint64_t alive, struct cursor *cursor)
{
    unsigned type = type_lane_at(core, lane)->type;
    struct bytes id = type_group_at(core, type_lane_at(core, lane)->group)->id_owned;
    uint64_t newest = 0;
    for (uint64_t number = cursor_u64(cursor); number != 0; number = cursor_u64(cursor)) {
        uint64_t waits = cursor_u64(cursor);
        uint64_t wants = cursor_u64(cursor);
        uint32_t message = core_find_message(core, number);
        if (cursor->is_failed || number <= newest || !fits_group(core, message, id) ||
            ((waits | wants) & type_bit(type)) != 0 || (wants & ~alive) != 0)
            return false;
        for (uint64_t rest = wants; rest != 0; rest &= rest - 1)
            type_lane_open(core, type_lane_at(core, lane)->group, type_lowest(rest));
        typed_add(core, lane, message, waits, wants);
        newest = number;
        cursor_release(cursor);
    }
    return !cursor->is_failed;
}

static bool read_lane(struct core *core, uint32_t group, uint64_t alive, int *last, struct cursor *cursor)
{
    unsigned type = cursor_u8(cursor);
    uint64_t success_mark = cursor_u64(cursor);
    uint64_t success_at_ms = cursor_u64(cursor);
    uint64_t remembered_until_ms = cursor_u64(cursor);
    if (cursor->is_failed || type >= TYPES_MAX || (int)type <= *last || (alive & type_bit(type)) == 0 ||
        success_mark > core->messages.message_number || success_at_ms > core->now_ms ||
        (remembered_until_ms == 0 && success_at_ms != 0))
        return false;
    *last = (int)type;
    uint32_t slot = type_lane_open(core, group, type);
    type_lane_at(core, slot)->success_mark = success_mark;
    if (remembered_until_ms != 0) {
        type_lane_remember(core, slot, success_at_ms, remembered_until_ms);
        if (!type_lane_remembers(core, type_lane_at(core, slot)))
            return false;
    }
    return read_typed(core, slot, alive, cursor);
}

/* When all lanes are read: is each needed, and who waits for whom? */
static bool finish_group(struct core *core, uint32_t slot)
{
    const struct type_group *group = type_group_at(core, slot);
    for (int i = 0; i < __builtin_popcountll(group->mask); i++) {
        const struct type_lane *lane = type_lane_at(core, group->lanes_owned[i]);
        if (!lane_counts(core, lane) || (lane->wanted_count == 0 && lane->success_mark != 0))
            return false;
        for (uint32_t typed = lane->first; typed != 0; typed = typed_at(core, typed)->next)
            typed_block(core, typed_at(core, typed));
    }
    return group->mask != 0;
}

static bool read_group(struct core *core, uint64_t alive, struct bytes *last, struct cursor *cursor)
{
    struct bytes id = cursor_sized(cursor);
    unsigned count = cursor_u8(cursor);
    if (cursor->is_failed || id.size == 0 || id.size > GROUP_ID_SIZE_MAX || bytes_compare(id, *last) <= 0)
        return false;
    uint32_t slot = type_group_open(core, id);
    *last = type_group_at(core, slot)->id_owned;
    int last_type = -1;
    for (unsigned i = 0; i < count; i++)
        if (!read_lane(core, slot, alive, &last_type, cursor))
            return false;
    return finish_group(core, slot) && (unsigned)__builtin_popcountll(type_group_at(core, slot)->mask) == count;
}

static uint64_t alive_types(const struct type_orders *type_orders)
{
    uint64_t alive = 0;
    for (unsigned i = 0; i < TYPES_MAX; i++)
        if (type_orders->types[i].name_owned.ptr != NULL)
            alive |= type_bit(i);
    return alive;
}

/* Is each type of use? */
static bool types_are_used(const struct type_orders *type_orders)
{
    for (uint64_t rest = alive_types(type_orders); rest != 0; rest &= rest - 1) {
        const struct type *type = &type_orders->types[type_lowest(rest)];
        if (type->order_count == 0 && type->message_count == 0 && type->wanted_count == 0)
            return false;
    }
    return true;
}

bool type_order_decode(struct core *core, struct cursor *cursor)
{
    struct type_orders *type_orders = &core->type_orders;
    if (!read_types(type_orders, cursor))
        return false;
    uint32_t order_count = cursor_u32(cursor);
    for (uint32_t i = 0; i < order_count; i++)
        if (!read_order(core, cursor))
            return false;
    type_order_rebuild(type_orders);
    uint64_t alive = alive_types(type_orders);
    uint32_t group_count = cursor_u32(cursor);
    struct bytes last = {NULL, 0};
    for (uint32_t i = 0; i < group_count; i++) {
        if (!read_group(core, alive, &last, cursor))
            return false;
        cursor_release(cursor);
    }
    return !cursor->is_failed && types_are_used(type_orders);
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

/* What the groups record about the types. */
struct census {
    uint64_t message_counts[TYPES_MAX];
    uint64_t wanted_counts[TYPES_MAX];
    uint64_t lane_count;
    uint64_t memory_count;
    uint64_t typed_count;
};

/* The message is in a heap exactly if something blocks it, checked by the rule itself. */
static void check_typed(const struct core *core, const struct typed *typed, struct census *census)
{
    struct type_blocker blockers[TYPES_MAX];
    ASSERT((typed->heap_index != 0) == (type_order_blockers(core, typed->message, blockers) > 0));
    ASSERT(core_message(core, typed->message)->number == typed->number);
    for (uint64_t rest = typed->wants; rest != 0; rest &= rest - 1)
        census->wanted_counts[type_lowest(rest)]++;
    census->typed_count++;
}

static void check_lane(const struct core *core, uint32_t slot, struct census *census)
{
    const struct type_lane *lane = type_lane_at(core, slot);
    const struct type_group *group = type_group_at(core, lane->group);
    uint32_t prev = 0;
    for (uint32_t at = lane->first; at != 0; prev = at, at = typed_at(core, at)->next) {
        const struct typed *typed = typed_at(core, at);
        ASSERT(typed->lane == slot && typed->prev == prev);
        ASSERT(prev == 0 || typed_at(core, prev)->number < typed->number);
        ASSERT(core_extra_of(core, core_message(core, typed->message))->typed == at);
        check_typed(core, typed, census);
        census->message_counts[lane->type]++;
    }
    ASSERT(lane->last == prev && (lane->first != 0) == ((group->busy & type_bit(lane->type)) != 0));
    ASSERT(lane->first != 0 || lane->wanted_count > 0 || lane->memory_index != 0);
    heap_check(&lane->waiting);
    heap_check(&lane->wanting);
    census->lane_count++;
    census->memory_count += lane->memory_index != 0;
}

static void check_group(const struct core *core, uint32_t slot, struct census *census)
{
    const struct type_group *group = type_group_at(core, slot);
    struct census own = {.lane_count = 0};
    ASSERT(type_group_find(core, group->id_owned) == slot && group->mask != 0);
    for (int i = 0; i < __builtin_popcountll(group->mask); i++)
        check_lane(core, group->lanes_owned[i], &own);
    for (unsigned type = 0; type < TYPES_MAX; type++) {
        uint32_t lane = type_lane_find(group, type);
        ASSERT(own.wanted_counts[type] == (lane == 0 ? 0 : type_lane_at(core, lane)->wanted_count));
        census->message_counts[type] += own.message_counts[type];
        census->wanted_counts[type] += own.wanted_counts[type];
    }
    census->lane_count += own.lane_count;
    census->memory_count += own.memory_count;
    census->typed_count += own.typed_count;
}

static void check_types(const struct core *core, const struct census *census)
{
    const struct type_orders *type_orders = &core->type_orders;
    uint32_t order_counts[TYPES_MAX] = {0};
    for (uint32_t i = 0; i < type_order_count(core); i++)
        for (uint32_t k = 0; k < type_order_at(core, i)->count; k++)
            order_counts[type_order_at(core, i)->types[k]]++;
    for (unsigned i = 0; i < TYPES_MAX; i++) {
        const struct type *type = &type_orders->types[i];
        ASSERT(type->order_count == order_counts[i] && (type->epoch != 0) == (order_counts[i] > 0));
        ASSERT(type->message_count == census->message_counts[i] && type->wanted_count == census->wanted_counts[i]);
        ASSERT((type->name_owned.ptr != NULL) ==
               (type->order_count > 0 || type->message_count > 0 || type->wanted_count > 0));
        ASSERT((type->before & type_bit(i)) == 0 && (type->required & ~type->before) == 0);
    }
}

void type_order_check(const struct core *core)
{
    const struct type_orders *type_orders = &core->type_orders;
    struct census census = {.lane_count = 0};
    uint32_t group_count = 0;
    for (uint32_t slot = 1; slot < type_orders->groups.slot_end; slot++) {
        if (!type_group_is_used(type_group_at(core, slot)))
            continue;
        check_group(core, slot, &census);
        group_count++;
    }
    check_types(core, &census);
    ASSERT(type_order_count(core) == type_orders->items.used);
    name_index_check(&type_orders->order);
    ASSERT(group_count == type_orders->groups.used && census.lane_count == type_orders->lanes.used);
    ASSERT(census.typed_count == type_orders->typed.used && census.memory_count == type_orders->memories.count);
    heap_check(&type_orders->memories);
}
