#include "core/schedules/schedule.h"

#include "core/apply.h"
#include "core/snapshot.h"

#include "base/accounted.h"
#include "base/table.h"
#include <stdlib.h>

static struct schedule *schedule_of(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->schedules.schedules, slot);
}

void schedule_init(struct schedules *schedules)
{
    *schedules = (struct schedules){0};
    slab_init(&schedules->schedules, sizeof(struct schedule));
    heap_init(&schedules->due, &schedules->schedules, offsetof(struct schedule, due_index),
              offsetof(struct schedule, number));
    name_index_init(&schedules->order, &schedules->schedules, offsetof(struct schedule, name_owned));
}

void schedule_deinit(struct schedules *schedules)
{
    for (uint32_t i = 0; i < schedules->order.count; i++) {
        struct schedule *schedule = slab_at(&schedules->schedules, name_index_at(&schedules->order, i));
        accounted_free((void *)schedule->name_owned.ptr);
        accounted_free((void *)schedule->spec_encoded_owned.ptr);
    }
    name_index_deinit(&schedules->order);
    heap_deinit(&schedules->due);
    slab_deinit(&schedules->schedules);
}

/* --- what a schedule says ----------------------------------------------------------------------------------------- */

void schedule_spec_encode(const struct schedule_spec *spec, struct buffer *out)
{
    buffer_append_u32(out, spec->queue);
    buffer_append_u8(out, (uint8_t)spec->catch_up);
    buffer_append_u8(out, spec->is_paused);
    buffer_append(out, spec->attributes_md5, sizeof(spec->attributes_md5));
    buffer_append_sized(out, spec->cron);
    buffer_append_sized(out, spec->zone);
    buffer_append_sized(out, spec->group);
    buffer_append_sized(out, spec->attributes);
    buffer_append_sized(out, spec->body);
}

bool schedule_spec_decode(struct bytes encoded, struct schedule_spec *spec)
{
    struct cursor cursor = cursor_make(encoded);
    struct schedule_spec decoded = {.queue = cursor_u32(&cursor)};
    uint8_t catch_up = cursor_u8(&cursor);
    uint8_t is_paused = cursor_u8(&cursor);
    decoded.catch_up = (enum catch_up)catch_up;
    decoded.is_paused = is_paused != 0;
    cursor_copy(&cursor, decoded.attributes_md5, sizeof(decoded.attributes_md5));
    decoded.cron = cursor_sized(&cursor);
    decoded.zone = cursor_sized(&cursor);
    decoded.group = cursor_sized(&cursor);
    decoded.attributes = cursor_sized(&cursor);
    decoded.body = cursor_sized(&cursor);
    if (!cursor_is_done(&cursor) || catch_up > CATCH_UP_ALL || is_paused > 1 ||
        decoded.cron.size > SCHEDULE_CRON_SIZE_MAX || decoded.zone.size > SCHEDULE_ZONE_SIZE_MAX ||
        decoded.group.size > GROUP_ID_SIZE_MAX)
        return false;
    *spec = decoded;
    return true;
}

/* Can a message be sent as the spec says? */
static bool spec_fits(const struct core *core, const struct schedule_spec *spec, uint64_t next_at_ms)
{
    const struct queue *queue = core_find_queue_by_id(core, spec->queue);
    return queue != NULL && (!queue->settings.is_fifo || spec->group.size > 0) &&
           (!spec->is_paused || next_at_ms == SCHEDULE_NEVER);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

uint32_t schedule_count(const struct core *core)
{
    return core->schedules.order.count;
}

const struct schedule *schedule_at(const struct core *core, uint32_t index)
{
    return schedule_of(core, name_index_at(&core->schedules.order, index));
}

uint32_t schedule_index(const struct core *core, struct bytes name)
{
    return name_index_place(&core->schedules.order, name);
}

/* Its slot, or 0. */
static uint32_t find_slot(const struct core *core, struct bytes name)
{
    return name_index_find(&core->schedules.order, name);
}

const struct schedule *schedule_find(const struct core *core, struct bytes name)
{
    uint32_t slot = find_slot(core, name);
    return slot == 0 ? NULL : schedule_of(core, slot);
}

bool schedule_is_missed(const struct core *core, const struct schedule *schedule)
{
    return core->now_ms - schedule->next_at_ms > SCHEDULE_MISSED_MS;
}

/* Behind its due time, or, once it has caught up for all that were missed, behind those. */
static uint64_t after_firing_ms(const struct core *core, const struct schedule *schedule)
{
    bool goes_on = schedule->spec.catch_up == CATCH_UP_ALL && schedule->late_count + 1 < SCHEDULE_CATCH_UP_MAX;
    return schedule_is_missed(core, schedule) && !goes_on ? core->now_ms - SCHEDULE_MISSED_MS - 1
                                                          : schedule->next_at_ms;
}

uint64_t schedule_due_ms(const struct core *core)
{
    return heap_top_key(&core->schedules.due);
}

const struct schedule *schedule_next_due(const struct core *core, uint64_t *after_ms)
{
    const struct heap *due = &core->schedules.due;
    if (heap_top_key(due) > core->now_ms)
        return NULL;
    const struct schedule *schedule = schedule_of(core, heap_top(due).slot);
    *after_ms = after_firing_ms(core, schedule);
    return schedule;
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

static uint32_t add_schedule(struct core *core, struct bytes name, uint64_t number)
{
    struct schedules *schedules = &core->schedules;
    uint32_t slot = slab_allocate(&schedules->schedules);
    *schedule_of(core, slot) =
        (struct schedule){.number = number, .name_owned = accounted_duplicate(name), .next_at_ms = SCHEDULE_NEVER};
    name_index_insert(&schedules->order, slot);
    return slot;
}

static void count_target(struct core *core, const struct schedule_spec *spec, bool is_added)
{
    struct queue *queue = core_find_queue_by_id(core, spec->queue);
    ASSERT(queue != NULL && (is_added || queue->target_count > 0));
    queue->target_count += is_added ? 1 : UINT32_MAX;
}

/* Takes a copy of the spec, which can be decoded, in place of the one it has. */
static void adopt_spec(struct core *core, struct schedule *schedule, struct bytes encoded)
{
    if (schedule->spec_encoded_owned.ptr != NULL)
        count_target(core, &schedule->spec, false);
    accounted_replace(&schedule->spec_encoded_owned, encoded);
    bool is_good = schedule_spec_decode(schedule->spec_encoded_owned, &schedule->spec);
    ASSERT(is_good);
    count_target(core, &schedule->spec, true);
}

static void set_next(struct core *core, uint32_t slot, uint64_t next_at_ms)
{
    schedule_of(core, slot)->next_at_ms = next_at_ms;
    schedule_of(core, slot)->put_off_to_ms = 0;
    heap_set(&core->schedules.due, next_at_ms, slot);
}

void schedule_put_off(struct core *core, const struct schedule *schedule, uint64_t to_ms)
{
    uint32_t slot = find_slot(core, schedule->name_owned);
    ASSERT(schedule->next_at_ms <= core->now_ms && to_ms > core->now_ms && to_ms != SCHEDULE_NEVER);
    schedule_of(core, slot)->put_off_to_ms = to_ms;
    heap_update(&core->schedules.due, to_ms, slot);
}

bool apply_schedule_put(struct core *core, const struct event_schedule_put *put)
{
    struct schedule_spec spec;
    uint32_t slot = find_slot(core, put->name);
    if (put->name.size == 0 || put->name.size > SCHEDULE_NAME_SIZE_MAX || !schedule_spec_decode(put->spec, &spec) ||
        !spec_fits(core, &spec, put->next_at_ms) || (slot == 0 && core->schedules.order.count == SCHEDULES_MAX))
        return false;
    if (slot == 0)
        slot = add_schedule(core, put->name, ++core->schedules.number);
    schedule_of(core, slot)->late_count = 0;
    adopt_spec(core, schedule_of(core, slot), put->spec);
    set_next(core, slot, put->next_at_ms);
    return true;
}

bool apply_schedule_fired(struct core *core, const struct event_schedule_fired *fired)
{
    uint32_t slot = find_slot(core, fired->name);
    if (slot == 0)
        return false;
    struct schedule *schedule = schedule_of(core, slot);
    if (fired->due_at_ms != schedule->next_at_ms || fired->due_at_ms > core->now_ms ||
        fired->next_at_ms <= fired->due_at_ms || fired->number > core->messages.message_number)
        return false;
    bool is_late = core->now_ms - fired->due_at_ms > SCHEDULE_MISSED_MS;
    schedule->late_count = is_late ? schedule->late_count + 1 : 0;
    if (fired->number != 0) {
        schedule->last_at_ms = fired->due_at_ms;
        schedule->last_message = fired->number;
    }
    set_next(core, slot, fired->next_at_ms);
    return true;
}

void schedule_skip_to(struct core *core, struct bytes name, uint64_t due_at_ms)
{
    uint32_t slot = find_slot(core, name);
    if (slot != 0 && schedule_of(core, slot)->next_at_ms < due_at_ms)
        set_next(core, slot, due_at_ms);
}

bool apply_schedule_deleted(struct core *core, const struct event_schedule_deleted *deleted)
{
    struct schedules *schedules = &core->schedules;
    uint32_t slot = find_slot(core, deleted->name);
    if (slot == 0)
        return false;
    struct schedule *schedule = schedule_of(core, slot);
    set_next(core, slot, SCHEDULE_NEVER);
    count_target(core, &schedule->spec, false);
    name_index_remove(&schedules->order, slot);
    accounted_free((void *)schedule->name_owned.ptr);
    accounted_free((void *)schedule->spec_encoded_owned.ptr);
    slab_free(&schedules->schedules, slot);
    return true;
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

void schedule_encode(const struct core *core, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, core->schedules.number);
    buffer_append_u32(&writer->piece, core->schedules.order.count);
    for (uint32_t i = 0; i < core->schedules.order.count; i++) {
        const struct schedule *schedule = schedule_at(core, i);
        buffer_append_u64(&writer->piece, schedule->number);
        buffer_append_sized(&writer->piece, schedule->name_owned);
        buffer_append_sized(&writer->piece, schedule->spec_encoded_owned);
        buffer_append_u64(&writer->piece, schedule->next_at_ms);
        buffer_append_u64(&writer->piece, schedule->last_at_ms);
        buffer_append_u64(&writer->piece, schedule->last_message);
        buffer_append_u32(&writer->piece, schedule->late_count);
        core_writer_pass_on(writer);
    }
}

/* No two have the same number: their order would not be one. */
static bool has_number(const struct core *core, const struct table *by_number, uint64_t number)
{
    for (struct table_probe probe = table_probe_start(by_number, table_hash_u64(number));
         table_probe_next(by_number, &probe);)
        if (schedule_of(core, probe.slot)->number == number)
            return true;
    return false;
}

/* They come in order of name. */
static bool decode_one(struct core *core, struct table *by_number, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    struct bytes name = cursor_sized(cursor);
    struct bytes encoded = cursor_sized(cursor);
    uint64_t next_at_ms = cursor_u64(cursor);
    uint64_t last_at_ms = cursor_u64(cursor);
    uint64_t last_message = cursor_u64(cursor);
    uint32_t late_count = cursor_u32(cursor);
    struct schedule_spec spec;
    if (cursor->is_failed || number == 0 || number > core->schedules.number || has_number(core, by_number, number) ||
        name.size == 0 || name.size > SCHEDULE_NAME_SIZE_MAX ||
        schedule_index(core, name) != core->schedules.order.count || !schedule_spec_decode(encoded, &spec) ||
        !spec_fits(core, &spec, next_at_ms) || last_message > core->messages.message_number ||
        (last_at_ms == 0) != (last_message == 0))
        return false;
    uint32_t slot = add_schedule(core, name, number);
    table_insert(by_number, table_hash_u64(number), slot);
    struct schedule *schedule = schedule_of(core, slot);
    schedule->last_at_ms = last_at_ms;
    schedule->last_message = last_message;
    schedule->late_count = late_count;
    adopt_spec(core, schedule, encoded);
    set_next(core, slot, next_at_ms);
    return true;
}

bool schedule_decode(struct core *core, struct cursor *cursor)
{
    core->schedules.number = cursor_u64(cursor);
    uint32_t count = cursor_u32(cursor);
    if (cursor->is_failed || count > SCHEDULES_MAX)
        return false;
    struct table by_number;
    table_init(&by_number);
    bool is_good = true;
    for (uint32_t i = 0; is_good && i < count; i++) {
        is_good = decode_one(core, &by_number, cursor);
        cursor_release(cursor);
    }
    table_deinit(&by_number);
    return is_good;
}

void schedule_check(const struct core *core)
{
    const struct schedules *schedules = &core->schedules;
    uint32_t due_count = 0;
    ASSERT(schedules->order.count == schedules->schedules.used && schedules->order.count <= SCHEDULES_MAX);
    for (uint32_t i = 0; i < schedules->order.count; i++) {
        const struct schedule *schedule = schedule_at(core, i);
        ASSERT(spec_fits(core, &schedule->spec, schedule->next_at_ms));
        ASSERT(core_find_queue_by_id(core, schedule->spec.queue)->target_count > 0);
        ASSERT((schedule->due_index != 0) == (schedule->next_at_ms != SCHEDULE_NEVER));
        ASSERT(schedule->put_off_to_ms == 0 || schedule->put_off_to_ms > schedule->next_at_ms);
        ASSERT(schedule->number <= schedules->number && schedule->last_message <= core->messages.message_number);
        due_count += schedule->due_index != 0;
    }
    ASSERT(due_count == schedules->due.count);
    name_index_check(&schedules->order);
    heap_check(&schedules->due);
}
