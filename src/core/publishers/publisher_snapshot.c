/* Publishers in the core's snapshot, in order of creation. A confirmed row that is over stands there as forgotten, so
 * that it does not matter how far the sweep has come. */
#include "core/snapshot.h"
#include "core/state.h"

#include "base/accounted.h"
#include <stdlib.h>

/* --- writing ------------------------------------------------------------------------------------------------------ */

static const struct row_entry *entry_at(const struct core *core, uint32_t slot)
{
    return slot == 0 ? NULL : slab_at(&core->publishers.entries, slot);
}

static void write_ranges(const struct id_ranges *ranges, struct core_writer *writer)
{
    buffer_append_u32(&writer->piece, ranges->count);
    for (uint32_t i = 0; i < ranges->count; i++) {
        buffer_append_u64(&writer->piece, id_ranges_at(ranges, i)->first);
        buffer_append_u64(&writer->piece, id_ranges_at(ranges, i)->last);
        core_writer_pass_on(writer);
    }
}

/* As many rows from `entry` on. */
static void write_rows(const struct core *core, const struct row_entry *entry, uint32_t count,
                       struct core_writer *writer)
{
    buffer_append_u32(&writer->piece, count);
    for (; count > 0; count--) {
        buffer_append_u64(&writer->piece, entry->id);
        buffer_append(&writer->piece, entry->uid, sizeof(entry->uid));
        buffer_append_u64(&writer->piece, entry->since);
        core_writer_pass_on(writer);
        entry = entry_at(core, entry->next);
    }
}

static void write_memory(const struct core *core, const struct publisher *publisher, struct core_writer *writer)
{
    const struct row_entry *entry = entry_at(core, publisher->first);
    uint32_t confirmed_count = publisher->confirmed_count;
    if (confirmed_count > 0 && publisher_is_over(core, entry)) {
        struct id_ranges forgotten;
        id_ranges_copy(&forgotten, &publisher->forgotten);
        for (; confirmed_count > 0 && publisher_is_over(core, entry); entry = entry_at(core, entry->next)) {
            id_ranges_add(&forgotten, entry->id, PUBLISHER_RANGES_MAX);
            confirmed_count--;
        }
        write_ranges(&forgotten, writer);
        id_ranges_deinit(&forgotten);
    } else {
        write_ranges(&publisher->forgotten, writer);
    }
    write_rows(core, entry, confirmed_count, writer);
    write_rows(core, entry_at(core, publisher->first_unconfirmed), publisher->unconfirmed_count, writer);
}

static void write_publisher(const struct core *core, const struct publisher *publisher, struct core_writer *writer)
{
    struct buffer *out = &writer->piece;
    buffer_append(out, publisher->id, sizeof(publisher->id));
    buffer_append(out, publisher->owner, sizeof(publisher->owner));
    buffer_append_u64(out, publisher->epoch);
    buffer_append_u64(out, publisher->batch);
    buffer_append_u64(out, publisher->confirmed_batch);
    buffer_append_u64(out, publisher->digest.low);
    buffer_append_u64(out, publisher->digest.high);
    buffer_append_u32(out, publisher->row_count);
    buffer_append_sized(out, publisher->results_owned);
    write_memory(core, publisher, writer);
    core_writer_pass_on(writer);
}

void publisher_encode(const struct core *core, struct core_writer *writer)
{
    const struct publishers *publishers = &core->publishers;
    buffer_append_u64(&writer->piece, publishers->reused_count);
    buffer_append_u32(&writer->piece, publishers->items.used);
    /* Slots are given out in order of creation, as none is ever freed. */
    for (uint32_t slot = 1; slot < publishers->items.slot_end; slot++)
        write_publisher(core, publisher_at(core, slot), writer);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool read_ranges(struct publisher *publisher, struct cursor *cursor)
{
    uint32_t count = cursor_u32(cursor);
    if (count > PUBLISHER_RANGES_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct id_range range = {.first = cursor_u64(cursor)};
        range.last = cursor_u64(cursor);
        if (cursor->is_failed || range.first == 0 || range.last > INT64_MAX ||
            !id_ranges_append(&publisher->forgotten, range))
            return false;
    }
    return true;
}

/* Rows whose `since` rises from `first` to at most `last`. */
static bool read_rows(struct core *core, uint32_t slot, uint32_t count_max, bool is_confirmed, uint64_t first,
                      uint64_t last, struct cursor *cursor)
{
    uint32_t count = cursor_u32(cursor);
    if (count > count_max)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct row_entry row = {.id = cursor_u64(cursor)};
        bool is_reused; /* was counted when it was published */
        cursor_copy(cursor, row.uid, sizeof(row.uid));
        row.since = cursor_u64(cursor);
        if (cursor->is_failed || row.id == 0 || row.id > INT64_MAX || row.since < first || row.since > last ||
            (is_confirmed && publisher_is_over(core, &row)) ||
            !publisher_add_row(core, slot, &row, is_confirmed, &is_reused))
            return false;
        first = row.since;
        cursor_release(cursor);
    }
    return true;
}

static bool read_publisher(struct core *core, struct cursor *cursor)
{
    uint8_t id[PUBLISHER_ID_SIZE];
    cursor_copy(cursor, id, sizeof(id));
    if (cursor->is_failed || publisher_find_slot(core, id) != 0)
        return false;
    uint32_t slot = publisher_add(core, id, ++core->publishers.number);
    struct publisher *publisher = publisher_at(core, slot);
    cursor_copy(cursor, publisher->owner, sizeof(publisher->owner));
    publisher->epoch = cursor_u64(cursor);
    publisher->batch = cursor_u64(cursor);
    publisher->confirmed_batch = cursor_u64(cursor);
    publisher->digest.low = cursor_u64(cursor);
    publisher->digest.high = cursor_u64(cursor);
    publisher->row_count = cursor_u32(cursor);
    struct bytes results = cursor_sized(cursor);
    if (cursor->is_failed || publisher->epoch == 0 || publisher->epoch > INT64_MAX ||
        publisher->confirmed_batch > publisher->batch || publisher->row_count > PUBLISHER_ROWS_MAX ||
        (publisher->batch > 0) != (publisher->row_count > 0) || !row_results_are_sound(results, publisher->row_count))
        return false;
    accounted_replace(&publisher->results_owned, results);
    return read_ranges(publisher, cursor) &&
           read_rows(core, slot, PUBLISHER_CONFIRMED_MAX, true, 0, core->now_ms, cursor) &&
           read_rows(core, slot, PUBLISHER_UNCONFIRMED_MAX, false, publisher->confirmed_batch + 1, publisher->batch,
                     cursor);
}

bool publisher_decode(struct core *core, struct cursor *cursor)
{
    core->publishers.reused_count = cursor_u64(cursor);
    uint32_t count = cursor_u32(cursor);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_publisher(core, cursor))
            return false;
        cursor_release(cursor);
    }
    return !cursor->is_failed;
}
