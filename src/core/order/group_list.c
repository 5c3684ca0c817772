#include "core/order/group_list.h"

#include "core/state.h"

enum group_condition group_condition(const struct core *core, uint32_t slot)
{
    const struct group *group = core_group(core, slot);
    ASSERT(group->is_live);
    if (group->is_held)
        return GROUP_HELD;
    if (group->is_paused)
        return GROUP_PAUSED;
    return group->ring < RING_READY_COUNT ? GROUP_READY : GROUP_BUSY;
}

static struct group_view view_of(const struct core *core, uint32_t slot)
{
    const struct group *group = core_group(core, slot);
    return (struct group_view){
        .id = group->id_owned,
        .condition = group_condition(core, slot),
        .is_paused = group->is_paused,
        .message_count = group->count,
        .in_flight_count = group->in_flight_count,
        .since_ms = group->is_held ? group->since_ms : 0,
        .reason = group->is_held ? group->reason_owned : bytes_make(NULL, 0),
        .head = group->first,
        .head_number = group->first == 0 ? 0 : core_message(core, group->first)->number,
    };
}

/* Does the group have a name, and a reason to be listed? A bucket that fills up is no reason. */
static bool is_listed(const struct group *group)
{
    return group->id_owned.size > 0 && (group->count > 0 || group->is_paused);
}

bool group_view_find(const struct core *core, const struct queue *queue, struct bytes id, enum group_condition filter,
                     struct group_view *view)
{
    ASSERT(queue->message_list != 0 && id.size > 0);
    const uint32_t slot = group_find(core, queue->message_list, id);
    if (slot == 0 || !is_listed(core_group(core, slot)))
        return false;
    if (filter != GROUP_ANY && group_condition(core, slot) != filter)
        return false;
    *view = view_of(core, slot);
    return true;
}

/* --- by rings ----------------------------------------------------------------------------------------------------- */

/* A position in a ring, recognised even after the group has left the ring: u32 slot, u8 ring, and 24 bits of its
 * number. */
static uint64_t position_of(const struct core *core, uint32_t slot)
{
    const struct group *group = core_group(core, slot);
    return (group->number & 0xffffff) << 40 | (uint64_t)group->ring << 32 | slot;
}

static bool is_there(const struct core *core, uint32_t message_list, uint64_t position)
{
    uint32_t slot = (uint32_t)position;
    return slot != 0 && slot < core->groups.items.slot_end && group_is_used(core_group(core, slot)) &&
           core_group(core, slot)->message_list == message_list && position_of(core, slot) == position;
}

/* From *ring on, at `slot` or at the start of the ring. */
static unsigned list_rings(const struct core *core, const struct message_list *list, unsigned ring, unsigned ring_end,
                           uint32_t slot, uint64_t *position, struct group_view *views, unsigned views_max)
{
    unsigned count = 0, visits = 0;
    *position = 0;
    for (; ring < ring_end; ring++, slot = 0) {
        for (slot = slot == 0 ? list->rings[ring].first : slot; slot != 0; slot = core_group(core, slot)->ring_next) {
            if (count == views_max || ++visits > GROUP_LIST_VISITS_MAX) {
                *position = position_of(core, slot);
                return count;
            }
            if (!is_listed(core_group(core, slot)))
                continue;
            views[count] = view_of(core, slot);
            views[count++].position = position_of(core, slot);
        }
    }
    return count;
}

unsigned group_count_paused(const struct core *core, const struct queue *queue, unsigned max)
{
    uint32_t slot = core_message_list(core, queue)->rings[RING_PAUSED].first;
    unsigned count = 0;
    for (; slot != 0 && count < max; slot = core_group(core, slot)->ring_next)
        count++;
    return count;
}

/* --- by slots ----------------------------------------------------------------------------------------------------- */

static unsigned list_slots(const struct core *core, uint32_t message_list, enum group_condition filter,
                           uint64_t *position, struct group_view *views, unsigned views_max)
{
    unsigned count = 0, visits = 0;
    uint64_t slot = *position == 0 ? 1 : *position;
    for (*position = 0; slot < core->groups.items.slot_end; slot++) {
        if (count == views_max || ++visits > GROUP_LIST_VISITS_MAX) {
            *position = slot;
            return count;
        }
        const struct group *group = core_group(core, (uint32_t)slot);
        bool is_of_queue = group_is_used(group) && group->message_list == message_list && is_listed(group);
        if (!is_of_queue || (filter != GROUP_ANY && group_condition(core, (uint32_t)slot) != filter))
            continue;
        views[count] = view_of(core, (uint32_t)slot);
        views[count++].position = slot;
    }
    return count;
}

unsigned group_list(const struct core *core, const struct queue *queue, enum group_condition filter, uint64_t *position,
                    struct group_view *views, unsigned views_max)
{
    ASSERT(queue->message_list != 0 && views_max > 0);
    if (filter == GROUP_ANY || filter == GROUP_BUSY)
        return list_slots(core, queue->message_list, filter, position, views, views_max);
    unsigned first = filter == GROUP_READY ? 0 : filter == GROUP_HELD ? RING_HELD : RING_PAUSED;
    unsigned end = filter == GROUP_READY ? RING_READY_COUNT : first + 1;
    unsigned ring = first;
    uint32_t slot = 0;
    if (*position != 0) {
        /* The group of the position may be gone. Then a ring of stopped groups is read again from its start, because
         * released groups have left it. Of the ready ones, which move all the time, the rest of the ring is skipped. */
        bool is_same = is_there(core, queue->message_list, *position);
        unsigned then = (unsigned)(*position >> 32 & 0xff);
        slot = is_same ? (uint32_t)*position : 0;
        ring = is_same || filter != GROUP_READY ? then : then + 1;
        ring = ring < first || ring >= end ? (filter == GROUP_READY ? end : first) : ring;
        slot = slot != 0 && core_group(core, slot)->ring == ring ? slot : 0;
    }
    return list_rings(core, core_message_list_at(core, queue->message_list), ring, end, slot, position, views,
                      views_max);
}
