#include "core/publishers/relay_record.h"

#include "core/apply.h"
#include "core/snapshot.h"

#include "base/accounted.h"
#include <stdlib.h>

void relay_record_init(struct relay_records *records)
{
    *records = (struct relay_records){0};
    slab_init(&records->items, sizeof(struct relay_record));
    name_index_init(&records->order, &records->items, offsetof(struct relay_record, name_owned));
}

static void free_texts(const struct relay_record *record)
{
    accounted_free((void *)record->name_owned.ptr);
    accounted_free((void *)record->spec_owned.ptr);
}

void relay_record_deinit(struct relay_records *records)
{
    for (uint32_t i = 0; i < records->order.count; i++)
        free_texts(slab_at(&records->items, name_index_at(&records->order, i)));
    name_index_deinit(&records->order);
    slab_deinit(&records->items);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static struct relay_record *record_of(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->relays.items, slot);
}

uint32_t relay_record_count(const struct core *core)
{
    return core->relays.order.count;
}

const struct relay_record *relay_record_at(const struct core *core, uint32_t index)
{
    return record_of(core, name_index_at(&core->relays.order, index));
}

uint32_t relay_record_index(const struct core *core, struct bytes name)
{
    return name_index_place(&core->relays.order, name);
}

static struct relay_record *find(const struct core *core, struct bytes name)
{
    uint32_t slot = name_index_find(&core->relays.order, name);
    return slot == 0 ? NULL : record_of(core, slot);
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
           spec.size <= RELAY_RECORD_SPEC_SIZE_MAX && core->relays.order.count < RELAY_RECORDS_MAX &&
           find(core, name) == NULL;
}

static struct relay_record *add(struct core *core, struct bytes name, struct bytes spec, uint64_t number)
{
    struct relay_records *records = &core->relays;
    uint32_t slot = slab_allocate(&records->items);
    struct relay_record *record = record_of(core, slot);
    *record = (struct relay_record){
        .number = number, .name_owned = accounted_duplicate(name), .spec_owned = accounted_duplicate(spec)};
    name_index_insert(&records->order, slot);
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
    uint32_t slot = name_index_find(&records->order, deleted->name);
    if (slot == 0)
        return false;
    name_index_remove(&records->order, slot);
    free_texts(record_of(core, slot));
    slab_free(&records->items, slot);
    records->change_count++;
    return true;
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

void relay_record_encode(const struct core *core, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, core->relays.number);
    buffer_append_u32(&writer->piece, core->relays.order.count);
    for (uint32_t i = 0; i < core->relays.order.count; i++) {
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
    for (uint32_t i = 0; i < core->relays.order.count; i++)
        if (relay_record_at(core, i)->number == number)
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
        !fits(core, name, spec) || relay_record_index(core, name) != core->relays.order.count || is_paused > 1)
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
    ASSERT(core->relays.order.count <= RELAY_RECORDS_MAX && core->relays.order.count == core->relays.items.used);
    name_index_check(&core->relays.order);
    for (uint32_t i = 0; i < core->relays.order.count; i++) {
        const struct relay_record *record = relay_record_at(core, i);
        ASSERT(record->name_owned.size > 0 && record->name_owned.size <= RELAY_RECORD_NAME_SIZE_MAX);
        ASSERT(record->spec_owned.size > 0 && record->spec_owned.size <= RELAY_RECORD_SPEC_SIZE_MAX);
        ASSERT(record->number > 0 && record->number <= core->relays.number);
    }
}
