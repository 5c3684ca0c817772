/* Groups in the core's snapshot: their records, and their order in their message lists' rings. */
#include "core/order/group.h"
#include "core/snapshot.h"
#include "core/state.h"

#include "base/accounted.h"
#include "base/cursor.h"
#include <stdlib.h>

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_group(const struct core *core, const struct group *group, struct buffer *out)
{
    buffer_append_u64(out, group->number);
    buffer_append_u64(out, core_message_list_at(core, group->message_list)->number);
    buffer_append_sized(out, group->id_owned);
    buffer_append_u8(out, group->is_line);
    buffer_append_u8(out, group->is_held);
    buffer_append_u8(out, group->is_paused);
    buffer_append_u64(out, group->entered_at);
    buffer_append_u64(out, group->entered_at_ms);
    buffer_append_u64(out, group->since_ms);
    buffer_append_u64(out, group->rate_tat_us);
    buffer_append_u64(out, group->cancelled_sequence);
    buffer_append_sized(out, group->reason_owned);
}

void groups_encode(const struct core *core, struct core_writer *writer)
{
    uint32_t count;
    uint32_t *slots = group_list_all(core, 0, &count);
    ASSERT(count == core->groups.items.used);
    buffer_append_u32(&writer->piece, count);
    for (uint32_t i = 0; i < count; i++) {
        write_group(core, core_group(core, slots[i]), &writer->piece);
        core_writer_pass_on(writer);
    }
    accounted_free(slots);
    uint32_t draining = 0;
    for (struct list_link *link = list_first(&core->groups.draining); link != NULL;
         link = list_next(&core->groups.draining, link))
        draining++;
    buffer_append_u32(&writer->piece, draining);
    for (struct list_link *link = list_first(&core->groups.draining); link != NULL;
         link = list_next(&core->groups.draining, link))
        buffer_append_u64(&writer->piece, CONTAINER_OF(link, struct group, draining_link)->number);
}

void rings_encode(const struct core *core, const struct message_list *list, struct core_writer *writer)
{
    for (unsigned ring = 0; ring < RING_COUNT; ring++) {
        for (uint32_t slot = list->rings[ring].first; slot != 0; slot = core_group(core, slot)->ring_next) {
            buffer_append_u64(&writer->piece, core_group(core, slot)->number);
            core_writer_pass_on(writer);
        }
        buffer_append_u64(&writer->piece, 0);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

void group_reader_init(struct group_reader *reader)
{
    *reader = (struct group_reader){0};
    table_init(&reader->message_list_by_number);
    buffer_init(&reader->moved);
}

void group_reader_deinit(struct group_reader *reader)
{
    accounted_free(reader->slots_owned);
    accounted_free(reader->facts_owned);
    table_deinit(&reader->message_list_by_number);
    buffer_deinit(&reader->moved);
}

static uint32_t find_message_list(const struct core *core, const struct group_reader *reader, uint64_t number)
{
    const struct table *table = &reader->message_list_by_number;
    for (struct table_probe probe = table_probe_start(table, table_hash_u64(number)); table_probe_next(table, &probe);)
        if (core_message_list_at(core, probe.slot)->number == number)
            return probe.slot;
    return 0;
}

uint32_t group_reader_find(const struct core *core, const struct group_reader *reader, uint64_t number)
{
    uint32_t low = 0, high = reader->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (core_group(core, reader->slots_owned[middle])->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_there = low < reader->count && core_group(core, reader->slots_owned[low])->number == number;
    return is_there ? reader->slots_owned[low] : 0;
}

/* Data that reading the messages would overwrite is kept apart until they are read. */
static bool read_group(struct core *core, struct group_reader *reader, struct cursor *cursor)
{
    struct group_facts *facts = &reader->facts_owned[reader->count];
    uint64_t number = cursor_u64(cursor);
    uint64_t message_list_number = cursor_u64(cursor);
    struct bytes id = cursor_sized(cursor);
    bool is_line = cursor_u8(cursor) != 0;
    facts->is_held = cursor_u8(cursor) != 0;
    bool is_paused = cursor_u8(cursor) != 0;
    facts->entered_at = cursor_u64(cursor);
    facts->entered_at_ms = cursor_u64(cursor);
    facts->since_ms = cursor_u64(cursor);
    uint64_t rate_tat_us = cursor_u64(cursor);
    facts->cancelled_sequence = cursor_u64(cursor);
    struct bytes reason = cursor_sized(cursor);
    uint32_t message_list = find_message_list(core, reader, message_list_number);
    uint64_t newest = reader->count == 0 ? 0 : core_group(core, reader->slots_owned[reader->count - 1])->number;
    if (cursor->is_failed || number <= newest || number > core->groups.group_number || message_list == 0 ||
        id.size > GROUP_ID_SIZE_MAX || (id.size > 0 && group_find(core, message_list, id) != 0))
        return false;
    uint32_t queue = core_message_list_at(core, message_list)->queue;
    if (queue != 0 && is_line != core_queue(core, queue)->settings.is_fifo)
        return false;
    uint32_t slot = group_create(core, message_list, id, number);
    core_group(core, slot)->is_line = is_line;
    core_group(core, slot)->is_paused = is_paused;
    core_group(core, slot)->rate_tat_us = rate_tat_us;
    accounted_replace(&core_group(core, slot)->reason_owned, reason);
    reader->slots_owned[reader->count++] = slot;
    return true;
}

bool groups_decode(struct core *core, struct group_reader *reader, struct cursor *cursor)
{
    uint32_t count = cursor_u32(cursor);
    if (cursor->is_failed || count > cursor->rest.size)
        return false;
    for (uint32_t slot = 1; slot < core->message_lists.items.slot_end; slot++) /* a fresh core has freed none */
        table_insert(&reader->message_list_by_number, table_hash_u64(core_message_list_at(core, slot)->number), slot);
    reader->slots_owned = accounted_allocate((count + 1) * sizeof(*reader->slots_owned));
    reader->facts_owned = accounted_allocate((count + 1) * sizeof(*reader->facts_owned));
    for (uint32_t i = 0; i < count; i++) {
        if (!read_group(core, reader, cursor))
            return false;
        cursor_release(cursor);
    }
    uint32_t draining = cursor_u32(cursor);
    for (uint32_t i = 0; i < draining; i++) {
        uint32_t slot = group_reader_find(core, reader, cursor_u64(cursor));
        if (slot == 0 || list_is_linked(&core_group(core, slot)->draining_link))
            return false;
        list_append(&core->groups.draining, &core_group(core, slot)->draining_link);
    }
    return !cursor->is_failed;
}

bool grouped_decode(struct core *core, struct group_reader *reader, uint32_t group, uint32_t slot, uint8_t state)
{
    const struct message *message = core_message(core, slot);
    uint64_t sequence = core_extra_of(core, message)->sequence;
    if (message->is_moved) {
        struct moved_message moved = {.sequence = sequence, .group = group, .message = slot, .state = state};
        buffer_append(&reader->moved, &moved, sizeof(moved));
        return true;
    }
    if (!group_insert(core, group, slot, 0))
        return false;
    core_enter_state(core, slot, (enum message_state)state);
    return true;
}

/* By group; in each the newest first. */
static int compare_moved(const void *left, const void *right)
{
    const struct moved_message *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return a->sequence > b->sequence ? -1 : a->sequence < b->sequence;
}

/* From the end of each group to its start, so that each search continues where the one before it stopped. */
bool moved_decode(struct core *core, struct group_reader *reader)
{
    size_t count = reader->moved.size / sizeof(struct moved_message);
    struct moved_message *all = (struct moved_message *)(void *)reader->moved.data_owned;
    if (count > 1)
        qsort(all, count, sizeof(*all), compare_moved);
    for (size_t i = 0; i < count; i++) {
        uint32_t start = i > 0 && all[i - 1].group == all[i].group ? all[i - 1].message : 0;
        if (!group_insert(core, all[i].group, all[i].message, start))
            return false;
        core_enter_state(core, all[i].message, (enum message_state)all[i].state);
    }
    buffer_truncate(&reader->moved, 0);
    return true;
}

bool rings_decode(struct core *core, const struct group_reader *reader, uint32_t message_list, struct cursor *cursor)
{
    for (unsigned ring = 0; ring < RING_COUNT; ring++) {
        for (uint64_t number = cursor_u64(cursor); number != 0; number = cursor_u64(cursor)) {
            uint32_t slot = group_reader_find(core, reader, number);
            if (slot == 0 || core_group(core, slot)->message_list != message_list)
                return false;
            group_leave_ring(core, slot);
            group_enter_ring(core, slot, ring);
        }
    }
    return !cursor->is_failed;
}

bool group_reader_finish(struct core *core, const struct group_reader *reader)
{
    for (uint32_t i = 0; i < reader->count; i++) {
        struct group *group = core_group(core, reader->slots_owned[i]);
        const struct group_facts *facts = &reader->facts_owned[i];
        group->entered_at = facts->entered_at;
        group->entered_at_ms = facts->entered_at_ms;
        group->since_ms = facts->since_ms;
        group->is_held = facts->is_held;
        group->cancelled_sequence = facts->cancelled_sequence;
        group_set_timer(core, reader->slots_owned[i]);
        if (!group_is_sound(core, reader->slots_owned[i]))
            return false;
    }
    return true;
}
