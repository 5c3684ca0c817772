#include "core/publishers/relay_record.h"

#include "core/apply.h"
#include "core/snapshot.h"

#include "base/accounted.h"
#include <stdlib.h>

void relay_record_init(struct relay_records *records)
{
    *records = (struct relay_records){0};
}

static void free_texts(const struct relay_record *record)
{
    accounted_free((void *)record->name_owned.ptr);
    accounted_free((void *)record->spec_owned.ptr);
}

void relay_record_deinit(struct relay_records *records)
{
    for (uint32_t i = 0; i < records->count; i++)
        free_texts(&records->items_owned[i]);
    accounted_free(records->items_owned);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

uint32_t relay_record_count(const struct core *core)
{
    return core->relays.count;
}

const struct relay_record *relay_record_at(const struct core *core, uint32_t index)
{
    ASSERT(index < core->relays.count);
    return &core->relays.items_owned[index];
}

uint32_t relay_record_index(const struct core *core, struct bytes name)
{
    uint32_t low = 0, high = core->relays.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bytes_compare(relay_record_at(core, middle)->name_owned, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct relay_record *find(const struct core *core, struct bytes name)
{
    uint32_t index = relay_record_index(core, name);
    bool is_there = index < core->relays.count && bytes_equal(relay_record_at(core, index)->name_owned, name);
    return is_there ? &core->relays.items_owned[index] : NULL;
}

const struct relay_record *relay_record_find(const struct core *core, struct bytes name)
{
    return find(core, name);
}

uint64_t relay_record_change_count(const struct core *core)
{
    return core->relays.change_count;
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

/* Can there be one more, of this name and with this text? */
static bool fits(const struct core *core, struct bytes name, struct bytes spec)
{
    return name.size > 0 && name.size <= RELAY_RECORD_NAME_SIZE_MAX && spec.size > 0 &&
           spec.size <= RELAY_RECORD_SPEC_SIZE_MAX && core->relays.count < RELAY_RECORDS_MAX &&
           find(core, name) == NULL;
}

static struct relay_record *add(struct core *core, struct bytes name, struct bytes spec, uint64_t number)
{
    struct relay_records *records = &core->relays;
    uint32_t index = relay_record_index(core, name);
    if (records->count == records->capacity) {
        records->capacity = records->capacity == 0 ? 16 : records->capacity * 2;
        records->items_owned =
            accounted_resize(records->items_owned, records->capacity * sizeof(*records->items_owned));
    }
    struct relay_record *record = &records->items_owned[index];
    memmove(record + 1, record, (records->count - index) * sizeof(*record));
    *record = (struct relay_record){
        .number = number, .name_owned = accounted_duplicate(name), .spec_owned = accounted_duplicate(spec)};
    records->count++;
    records->change_count++;
    return record;
}

bool apply_relay_put(struct core *core, const struct event_relay_put *put)
{
    if (!fits(core, put->name, put->spec))
        return false;
    add(core, put->name, put->spec, ++core->relays.number);
    return true;
}

bool apply_relay_paused(struct core *core, const struct event_relay_paused *paused)
{
    struct relay_record *record = find(core, paused->name);
    if (record == NULL || paused->is_paused > 1)
        return false;
    record->is_paused = paused->is_paused != 0;
    core->relays.change_count++;
    return true;
}

bool apply_relay_deleted(struct core *core, const struct event_relay_deleted *deleted)
{
    struct relay_records *records = &core->relays;
    struct relay_record *record = find(core, deleted->name);
    if (record == NULL)
        return false;
    free_texts(record);
    records->count--;
    size_t left = records->count - (size_t)(record - records->items_owned);
    memmove(record, record + 1, left * sizeof(*record));
    records->change_count++;
    return true;
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

void relay_record_encode(const struct core *core, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, core->relays.number);
    buffer_append_u32(&writer->piece, core->relays.count);
    for (uint32_t i = 0; i < core->relays.count; i++) {
        const struct relay_record *record = relay_record_at(core, i);
        buffer_append_u64(&writer->piece, record->number);
        buffer_append_sized(&writer->piece, record->name_owned);
        buffer_append_sized(&writer->piece, record->spec_owned);
        buffer_append_u8(&writer->piece, record->is_paused);
        core_writer_pass_on(writer);
    }
}

static bool has_number(const struct core *core, uint64_t number)
{
    for (uint32_t i = 0; i < core->relays.count; i++)
        if (core->relays.items_owned[i].number == number)
            return true;
    return false;
}

/* They come in order of name. */
static bool decode_one(struct core *core, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    struct bytes name = cursor_sized(cursor);
    struct bytes spec = cursor_sized(cursor);
    uint8_t is_paused = cursor_u8(cursor);
    if (cursor->is_failed || number == 0 || number > core->relays.number || has_number(core, number) ||
        !fits(core, name, spec) || relay_record_index(core, name) != core->relays.count || is_paused > 1)
        return false;
    add(core, name, spec, number)->is_paused = is_paused != 0;
    return true;
}

bool relay_record_decode(struct core *core, struct cursor *cursor)
{
    core->relays.number = cursor_u64(cursor);
    uint32_t count = cursor_u32(cursor);
    for (uint32_t i = 0; !cursor->is_failed && i < count; i++)
        if (!decode_one(core, cursor))
            return false;
    return !cursor->is_failed;
}

void relay_record_check(const struct core *core)
{
    ASSERT(core->relays.count <= RELAY_RECORDS_MAX && core->relays.count <= core->relays.capacity);
    for (uint32_t i = 0; i < core->relays.count; i++) {
        const struct relay_record *record = relay_record_at(core, i);
        ASSERT(i == 0 || bytes_compare(relay_record_at(core, i - 1)->name_owned, record->name_owned) < 0);
        ASSERT(record->name_owned.size > 0 && record->name_owned.size <= RELAY_RECORD_NAME_SIZE_MAX);
        ASSERT(record->spec_owned.size > 0 && record->spec_owned.size <= RELAY_RECORD_SPEC_SIZE_MAX);
        ASSERT(record->number > 0 && record->number <= core->relays.number);
    }
}
