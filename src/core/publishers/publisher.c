#include "core/publishers/publisher.h"

#include "base/accounted.h"
#include "core/apply.h"
#include <stdlib.h>

/* What is over is swept up to this much later: one turn for many. */
#define SWEEP_DELAY_MS 1000u

static struct row_entry *entry_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->publishers.entries, slot);
}

struct publisher *publisher_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->publishers.items, slot);
}

void publisher_init(struct publishers *publishers)
{
    slab_init(&publishers->items, sizeof(struct publisher));
    slab_init(&publishers->entries, sizeof(struct row_entry));
    table_init(&publishers->by_id);
    table_init(&publishers->entry_by_uid);
    table_init(&publishers->entry_by_id);
    heap_init(&publishers->expiries, &publishers->items, offsetof(struct publisher, index),
              offsetof(struct publisher, number));
}

void publisher_deinit(struct publishers *publishers)
{
    for (uint32_t slot = 1; slot < publishers->items.slot_end; slot++) {
        struct publisher *publisher = slab_at(&publishers->items, slot);
        accounted_free((void *)publisher->results_owned.ptr);
        id_ranges_deinit(&publisher->forgotten);
        queue_set_deinit(&publisher->queues);
    }
    heap_deinit(&publishers->expiries);
    table_deinit(&publishers->by_id);
    table_deinit(&publishers->entry_by_uid);
    table_deinit(&publishers->entry_by_id);
    slab_deinit(&publishers->items);
    slab_deinit(&publishers->entries);
}

/* --- hashes ------------------------------------------------------------------------------------------------------- */

/* Clients choose what is hashed; without the namespace's key they can't choose it so that it falls together. */
static uint64_t hash_of(const struct core *core, uint64_t publisher, uint64_t low, uint64_t high)
{
    uint64_t inner = table_hash_u64(high ^ bytes_get_u64(core->key + 8) ^ table_hash_u64(publisher));
    return table_hash_u64(low ^ bytes_get_u64(core->key) ^ inner);
}

uint64_t publisher_hash_uid(const struct core *core, const struct publisher *publisher,
                            const uint8_t uid[PUBLISHER_ID_SIZE])
{
    return hash_of(core, publisher->number, bytes_get_u64(uid), bytes_get_u64(uid + 8));
}

static uint64_t hash_id(const struct core *core, const struct publisher *publisher, uint64_t id)
{
    return hash_of(core, publisher->number, id, 0);
}

/* Of a publisher itself: no publisher has number 0. */
static uint64_t hash_publisher(const struct core *core, const uint8_t id[PUBLISHER_ID_SIZE])
{
    return hash_of(core, 0, bytes_get_u64(id), bytes_get_u64(id + 8));
}

struct digest_tag publisher_digest(const struct core *core, struct bytes rows)
{
    ASSERT(rows.size % PUBLISHER_ROW_SIZE == 0);
    return digest_keyed_wide(core->digest_owned, &rows, 1);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static bool has_text(enum row_fate fate)
{
    return fate == ROW_REFUSED || fate == ROW_BLOCKED;
}

void row_result_encode(const struct row_result *result, struct buffer *out)
{
    buffer_append_u32(out, result->index);
    buffer_append_u8(out, (uint8_t)result->fate);
    if (!has_text(result->fate))
        return;
    buffer_append_sized(out, result->code);
    buffer_append_sized(out, result->text);
}

bool row_result_decode(struct cursor *cursor, uint32_t row_count, struct row_result *result)
{
    *result = (struct row_result){.index = cursor_u32(cursor)};
    uint8_t fate = cursor_u8(cursor);
    result->fate = (enum row_fate)fate;
    if (result->index >= row_count || fate < ROW_DUPLICATE || fate > ROW_HELD)
        cursor_fail(cursor);
    if (has_text(result->fate)) {
        result->code = cursor_sized(cursor);
        result->text = cursor_sized(cursor);
    }
    return !cursor->is_failed;
}

bool row_results_are_sound(struct bytes results, uint32_t row_count)
{
    struct cursor cursor = cursor_make(results);
    uint64_t next = 0;
    while (cursor.rest.size > 0) {
        struct row_result result;
        if (!row_result_decode(&cursor, row_count, &result) || result.index < next)
            return false;
        next = (uint64_t)result.index + 1;
    }
    return !cursor.is_failed;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

uint32_t publisher_find_slot(const struct core *core, const uint8_t id[PUBLISHER_ID_SIZE])
{
    const struct table *table = &core->publishers.by_id;
    for (struct table_probe probe = table_probe_start(table, hash_publisher(core, id));
         table_probe_next(table, &probe);)
        if (memcmp(publisher_at(core, probe.slot)->id, id, PUBLISHER_ID_SIZE) == 0)
            return probe.slot;
    return 0;
}

static uint32_t find_uid(const struct core *core, uint32_t slot, const uint8_t uid[PUBLISHER_ID_SIZE], uint64_t hash)
{
    const struct table *table = &core->publishers.entry_by_uid;
    for (struct table_probe probe = table_probe_start(table, hash); table_probe_next(table, &probe);) {
        const struct row_entry *entry = entry_at(core, probe.slot);
        if (entry->publisher == slot && memcmp(entry->uid, uid, PUBLISHER_ID_SIZE) == 0)
            return probe.slot;
    }
    return 0;
}

/* The row that stands in the table for this id, or 0. Of those with one id it is the first alone, for a source may use
 * an id as often as it likes, and all of them would be one run of one hash. Once that one is forgotten its id is too
 * old for any further row. */
static uint32_t find_id(const struct core *core, uint32_t slot, uint64_t id, uint64_t hash)
{
    const struct table *table = &core->publishers.entry_by_id;
    for (struct table_probe probe = table_probe_start(table, hash); table_probe_next(table, &probe);) {
        const struct row_entry *entry = entry_at(core, probe.slot);
        if (entry->publisher == slot && entry->id == id)
            return probe.slot;
    }
    return 0;
}

bool publisher_knows(const struct core *core, uint32_t slot, const uint8_t uid[PUBLISHER_ID_SIZE], uint64_t hash)
{
    return find_uid(core, slot, uid, hash) != 0;
}

bool publisher_has_forgotten(const struct core *core, uint32_t slot, uint64_t id)
{
    return id_ranges_contain(&publisher_at(core, slot)->forgotten, id);
}

bool publisher_remembers(const struct core *core, const uint8_t uid[PUBLISHER_ID_SIZE])
{
    const uint32_t end = core->publishers.items.slot_end; /* none is ever freed */
    for (uint32_t slot = 1; slot < end && slot <= PUBLISHERS_ASKED_MAX; slot++)
        if (publisher_knows(core, slot, uid, publisher_hash_uid(core, publisher_at(core, slot), uid)))
            return true;
    return false;
}

const struct row_entry *publisher_next_unconfirmed(const struct core *core, const struct publisher *publisher,
                                                   const struct row_entry *entry)
{
    uint32_t slot = entry == NULL ? publisher->first_unconfirmed : entry->next;
    return slot == 0 ? NULL : entry_at(core, slot);
}

/* --- forgetting --------------------------------------------------------------------------------------------------- */

bool publisher_is_over(const struct core *core, const struct row_entry *row)
{
    return row->since + PUBLISHER_CONFIRMED_MS <= core->now_ms;
}

/* The oldest row, which is confirmed; of it the id stays. */
static void forget_oldest(struct core *core, uint32_t publisher_slot)
{
    struct publishers *publishers = &core->publishers;
    struct publisher *publisher = publisher_at(core, publisher_slot);
    uint32_t slot = publisher->first;
    const struct row_entry *entry = entry_at(core, slot);
    ASSERT(publisher->confirmed_count > 0 && slot != publisher->first_unconfirmed);
    id_ranges_add(&publisher->forgotten, entry->id, PUBLISHER_RANGES_MAX);
    table_remove(&publishers->entry_by_uid, publisher_hash_uid(core, publisher, entry->uid), slot);
    uint64_t id_hash = hash_id(core, publisher, entry->id);
    if (find_id(core, publisher_slot, entry->id, id_hash) == slot)
        table_remove(&publishers->entry_by_id, id_hash, slot);
    publisher->first = entry->next;
    if (publisher->last == slot)
        publisher->last = 0;
    publisher->confirmed_count--;
    slab_free(&publishers->entries, slot);
}

static bool has_over(const struct core *core, const struct publisher *publisher)
{
    return publisher->confirmed_count > 0 && publisher_is_over(core, entry_at(core, publisher->first));
}

static void set_timer(struct core *core, uint32_t slot)
{
    const struct publisher *publisher = publisher_at(core, slot);
    uint64_t at_ms =
        publisher->confirmed_count == 0 ? HEAP_NEVER : entry_at(core, publisher->first)->since + PUBLISHER_CONFIRMED_MS;
    heap_set(&core->publishers.expiries, at_ms, slot);
}

void publisher_settle(struct core *core, uint32_t slot)
{
    const struct publisher *publisher = publisher_at(core, slot);
    while (has_over(core, publisher))
        forget_oldest(core, slot);
    set_timer(core, slot);
}

bool publisher_sweep(struct core *core, unsigned portion)
{
    const struct heap *expiries = &core->publishers.expiries;
    while (portion > 0 && expiries->count > 0 && heap_top(expiries).key <= core->now_ms) {
        forget_oldest(core, heap_top(expiries).slot);
        set_timer(core, heap_top(expiries).slot);
        portion--;
    }
    return portion == 0;
}

uint64_t publisher_due_ms(const struct core *core)
{
    const struct heap *expiries = &core->publishers.expiries;
    return expiries->count == 0 ? UINT64_MAX : heap_top(expiries).key + SWEEP_DELAY_MS;
}

/* --- apply -------------------------------------------------------------------------------------------------------- */

uint32_t publisher_add(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t number)
{
    uint32_t slot = slab_allocate(&core->publishers.items);
    struct publisher *publisher = publisher_at(core, slot);
    *publisher = (struct publisher){.number = number};
    memcpy(publisher->id, id, PUBLISHER_ID_SIZE);
    table_insert(&core->publishers.by_id, hash_publisher(core, id), slot);
    return slot;
}

/* Behind all others of its publisher. */
static void link_row(struct core *core, uint32_t slot, uint32_t added, bool is_confirmed)
{
    struct publisher *publisher = publisher_at(core, slot);
    if (publisher->last == 0)
        publisher->first = added;
    else
        entry_at(core, publisher->last)->next = added;
    publisher->last = added;
    if (!is_confirmed && publisher->unconfirmed_count == 0)
        publisher->first_unconfirmed = added;
    publisher->confirmed_count += is_confirmed;
    publisher->unconfirmed_count += !is_confirmed;
    if (is_confirmed && publisher->confirmed_count == 1)
        set_timer(core, slot);
}

bool publisher_add_row(struct core *core, uint32_t slot, const struct row_entry *row, bool is_confirmed,
                       bool *is_reused)
{
    struct publishers *publishers = &core->publishers;
    const struct publisher *publisher = publisher_at(core, slot);
    uint64_t uid_hash = publisher_hash_uid(core, publisher, row->uid), id_hash = hash_id(core, publisher, row->id);
    if (find_uid(core, slot, row->uid, uid_hash) != 0)
        return false;
    *is_reused = find_id(core, slot, row->id, id_hash) != 0;
    uint32_t added = slab_allocate(&publishers->entries);
    struct row_entry *entry = entry_at(core, added);
    *entry = *row;
    entry->publisher = slot;
    entry->next = 0;
    link_row(core, slot, added, is_confirmed);
    table_insert(&publishers->entry_by_uid, uid_hash, added);
    if (!*is_reused)
        table_insert(&publishers->entry_by_id, id_hash, added);
    return true;
}

bool apply_publisher_opened(struct core *core, const struct event_publisher_opened *opened)
{
    uint32_t slot = core->digest_owned == NULL ? 0 : publisher_find_slot(core, opened->publisher);
    if (core->digest_owned == NULL || opened->epoch == 0 || opened->epoch > INT64_MAX ||
        (slot != 0 && opened->epoch <= publisher_at(core, slot)->epoch))
        return false;
    if (slot == 0)
        slot = publisher_add(core, opened->publisher, ++core->publishers.number);
    struct publisher *publisher = publisher_at(core, slot);
    publisher->epoch = opened->epoch;
    memcpy(publisher->owner, opened->owner, PUBLISHER_ID_SIZE);
    return true;
}

bool apply_publisher_bound(struct core *core, const struct event_publisher_bound *bound)
{
    uint32_t slot = core->digest_owned == NULL ? 0 : publisher_find_slot(core, bound->publisher);
    if (slot == 0 || bound->queue > core->queues.queue_id || (bound->queue == 0) != (bound->claim != 0))
        return false;
    struct publisher *publisher = publisher_at(core, slot);
    if (bound->queue != 0)
        return queue_set_add(&publisher->queues, bound->queue);
    bool is_new = publisher->batch == 0 && publisher->claim == 0;
    publisher->claim = is_new ? bound->claim : publisher->claim;
    return is_new;
}

/* Rows of the batches up to that one have left their source: their time begins. Then the oldest of too many are
 * forgotten. */
static void confirm(struct core *core, uint32_t slot, uint64_t batch)
{
    struct publisher *publisher = publisher_at(core, slot);
    if (batch <= publisher->confirmed_batch)
        return;
    publisher->confirmed_batch = batch;
    while (publisher->first_unconfirmed != 0 && entry_at(core, publisher->first_unconfirmed)->since <= batch) {
        struct row_entry *entry = entry_at(core, publisher->first_unconfirmed);
        entry->since = core->now_ms;
        publisher->first_unconfirmed = entry->next;
        publisher->unconfirmed_count--;
        publisher->confirmed_count++;
    }
    while (publisher->confirmed_count > PUBLISHER_CONFIRMED_MAX)
        forget_oldest(core, slot);
    set_timer(core, slot);
}

/* All but what the rows themselves say. */
static bool fits(const struct core *core, uint32_t slot, const struct event_published *published)
{
    if (slot == 0)
        return false;
    const struct publisher *publisher = publisher_at(core, slot);
    uint64_t count = published->rows.size / PUBLISHER_ROW_SIZE;
    return published->epoch == publisher->epoch && memcmp(published->owner, publisher->owner, PUBLISHER_ID_SIZE) == 0 &&
           published->batch == publisher->batch + 1 && published->confirmed_batch <= publisher->batch &&
           published->row_count > 0 && published->row_count <= PUBLISHER_ROWS_MAX &&
           published->rows.size % PUBLISHER_ROW_SIZE == 0 && count <= published->row_count &&
           publisher->unconfirmed_count + count <= PUBLISHER_UNCONFIRMED_MAX + PUBLISHER_ROWS_MAX &&
           row_results_are_sound(published->results, published->row_count);
}

/* False, with some of them added, if one is known or was there before. */
static bool add_rows(struct core *core, uint32_t slot, const struct event_published *published)
{
    struct cursor cursor = cursor_make(published->rows);
    while (cursor.rest.size > 0) {
        struct row_entry row = {.id = cursor_u64(&cursor), .since = published->batch};
        cursor_copy(&cursor, row.uid, PUBLISHER_ID_SIZE);
        bool is_reused;
        if (row.id == 0 || row.id > INT64_MAX || !publisher_add_row(core, slot, &row, false, &is_reused))
            return false;
        core->publishers.reused_count += is_reused;
    }
    return true;
}

/* The fence, and all that is remembered, change here and nowhere else (P9, P12). False may leave half of it done: a log
 * that says this is refused as a whole. */
bool apply_published(struct core *core, const struct event_published *published)
{
    uint32_t slot = core->digest_owned == NULL ? 0 : publisher_find_slot(core, published->publisher);
    if (!fits(core, slot, published))
        return false;
    struct publisher *publisher = publisher_at(core, slot);
    publisher_settle(core, slot);
    confirm(core, slot, published->confirmed_batch);
    if (!add_rows(core, slot, published) || publisher->unconfirmed_count > PUBLISHER_UNCONFIRMED_MAX)
        return false;
    publisher->batch = published->batch;
    publisher->row_count = published->row_count;
    publisher->digest = (struct digest_tag){.low = published->digest_low, .high = published->digest_high};
    accounted_replace(&publisher->results_owned, published->results);
    return true;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

/* Returns how many of them stand in the table of ids. */
static uint64_t check_rows(const struct core *core, uint32_t slot)
{
    const struct publisher *publisher = publisher_at(core, slot);
    uint32_t count = 0, last = 0;
    uint64_t since = 0, id_count = 0;
    for (uint32_t at = publisher->first; at != 0; at = entry_at(core, at)->next) {
        const struct row_entry *entry = entry_at(core, at);
        if (count == publisher->confirmed_count) {
            ASSERT(at == publisher->first_unconfirmed);
            since = publisher->confirmed_batch + 1;
        }
        ASSERT(entry->publisher == slot && entry->since >= since && entry->id != 0);
        ASSERT(find_uid(core, slot, entry->uid, publisher_hash_uid(core, publisher, entry->uid)) == at);
        uint32_t first_of_id = find_id(core, slot, entry->id, hash_id(core, publisher, entry->id));
        ASSERT(first_of_id != 0 || id_ranges_contain(&publisher->forgotten, entry->id));
        id_count += first_of_id == at;
        ASSERT(entry->since <= (count < publisher->confirmed_count ? core->now_ms : publisher->batch));
        since = entry->since;
        last = at;
        count++;
    }
    ASSERT(last == publisher->last && count == publisher->confirmed_count + publisher->unconfirmed_count);
    ASSERT((publisher->first_unconfirmed != 0) == (publisher->unconfirmed_count > 0));
    return id_count;
}

static uint64_t check_one(const struct core *core, uint32_t slot)
{
    const struct publisher *publisher = publisher_at(core, slot);
    ASSERT(publisher_find_slot(core, publisher->id) == slot && publisher->number <= core->publishers.number);
    ASSERT(publisher->epoch > 0 && publisher->confirmed_batch <= publisher->batch);
    ASSERT((publisher->batch > 0) == (publisher->row_count > 0) && publisher->row_count <= PUBLISHER_ROWS_MAX);
    ASSERT(publisher->confirmed_count <= PUBLISHER_CONFIRMED_MAX);
    ASSERT(publisher->unconfirmed_count <= PUBLISHER_UNCONFIRMED_MAX);
    uint64_t id_count = check_rows(core, slot);
    id_ranges_check(&publisher->forgotten, PUBLISHER_RANGES_MAX);
    ASSERT((publisher->index != 0) == (publisher->confirmed_count > 0));
    if (publisher->index != 0)
        ASSERT(core->publishers.expiries.entries_owned[publisher->index - 1].key ==
               entry_at(core, publisher->first)->since + PUBLISHER_CONFIRMED_MS);
    return id_count;
}

void publisher_check(const struct core *core)
{
    const struct publishers *publishers = &core->publishers;
    uint64_t count = 0, id_count = 0;
    for (uint32_t slot = 1; slot < publishers->items.slot_end; slot++) { /* none is ever freed */
        id_count += check_one(core, slot);
        count += publisher_at(core, slot)->confirmed_count + publisher_at(core, slot)->unconfirmed_count;
    }
    ASSERT(publishers->items.used == table_count(&publishers->by_id));
    ASSERT(count == publishers->entries.used);
    ASSERT(count == table_count(&publishers->entry_by_uid) && id_count == table_count(&publishers->entry_by_id));
    heap_check(&publishers->expiries);
}
