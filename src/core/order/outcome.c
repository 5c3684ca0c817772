#include "core/order/outcome.h"

#include "core/snapshot.h"

static struct outcome *outcome_at(const struct outcomes *outcomes, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&outcomes->records, slot);
}

static uint64_t hash_of(struct digest_tag key)
{
    return table_hash_u64(key.low ^ key.high);
}

void outcomes_init(struct outcomes *outcomes)
{
    *outcomes = (struct outcomes){0};
    slab_init(&outcomes->records, sizeof(struct outcome));
    table_init(&outcomes->by_key);
}

void outcomes_deinit(struct outcomes *outcomes)
{
    slab_deinit(&outcomes->records);
    table_deinit(&outcomes->by_key);
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void forget_oldest(struct outcomes *outcomes)
{
    uint32_t slot = outcomes->oldest;
    struct outcome *outcome = outcome_at(outcomes, slot);
    outcomes->forgotten_number = greater(outcomes->forgotten_number, outcome->number);
    outcomes->oldest = outcome->next;
    if (outcomes->oldest == 0)
        outcomes->newest = 0;
    if (!outcome->is_superseded)
        table_remove(&outcomes->by_key, hash_of(outcome->key), slot);
    slab_free(&outcomes->records, slot);
}

/* The slot of the newest outcome under that key, or 0. */
static uint32_t find_slot(const struct outcomes *outcomes, struct digest_tag key)
{
    for (struct table_probe probe = table_probe_start(&outcomes->by_key, hash_of(key));
         table_probe_next(&outcomes->by_key, &probe);)
        if (digest_tag_equal(outcome_at(outcomes, probe.slot)->key, key))
            return probe.slot;
    return 0;
}

/* Only the newest outcome of a key is in the table. An id may be used a million times in the window, and all its
 * outcomes would have the same hash. The others are only in the list until they are forgotten; being older than the
 * newest, they are forgotten first. */
static void enter_table(struct outcomes *outcomes, uint32_t slot)
{
    struct outcome *outcome = outcome_at(outcomes, slot);
    uint64_t hash = hash_of(outcome->key);
    uint32_t known = find_slot(outcomes, outcome->key);
    outcome->is_superseded = known != 0 && outcome_at(outcomes, known)->number >= outcome->number;
    if (outcome->is_superseded)
        return;
    if (known != 0) {
        outcome_at(outcomes, known)->is_superseded = true;
        table_remove(&outcomes->by_key, hash, known);
    }
    table_insert(&outcomes->by_key, hash, slot);
}

static void append(struct outcomes *outcomes, const struct outcome *outcome)
{
    uint32_t slot = slab_allocate(&outcomes->records);
    *outcome_at(outcomes, slot) = *outcome;
    enter_table(outcomes, slot);
    if (outcomes->newest == 0)
        outcomes->oldest = slot;
    else
        outcome_at(outcomes, outcomes->newest)->next = slot;
    outcomes->newest = slot;
}

void outcomes_remember(struct outcomes *outcomes, struct digest_tag key, uint64_t number, enum unit_state state,
                       uint64_t now_ms)
{
    ASSERT(number > 0 && state != UNIT_OUTSTANDING);
    ASSERT(outcomes->newest == 0 || outcome_at(outcomes, outcomes->newest)->ended_at_ms <= now_ms);
    if (outcomes->records.used == OUTCOMES_MAX)
        forget_oldest(outcomes);
    append(outcomes, &(struct outcome){.key = key, .number = number, .ended_at_ms = now_ms, .state = (uint8_t)state});
}

const struct outcome *outcomes_find(const struct outcomes *outcomes, struct digest_tag key)
{
    uint32_t slot = find_slot(outcomes, key);
    return slot == 0 ? NULL : outcome_at(outcomes, slot);
}

const struct outcome *outcomes_find_after(const struct outcomes *outcomes, struct digest_tag key, uint32_t more,
                                          uint64_t *forgotten_number)
{
    const struct outcome *found = outcomes_find(outcomes, key);
    uint64_t count = (uint64_t)outcomes->records.used + more;
    *forgotten_number = outcomes->forgotten_number;
    for (uint32_t slot = outcomes->oldest; slot != 0 && count > OUTCOMES_MAX; count--) {
        const struct outcome *oldest = outcome_at(outcomes, slot);
        *forgotten_number = greater(*forgotten_number, oldest->number);
        found = found == oldest ? NULL : found;
        slot = oldest->next;
    }
    return found;
}

static bool is_over(const struct outcome *outcome, uint64_t now_ms)
{
    return outcome->ended_at_ms + OUTCOME_WINDOW_MS <= now_ms;
}

void outcomes_forget(struct outcomes *outcomes, uint64_t now_ms)
{
    while (outcomes->oldest != 0 && is_over(outcome_at(outcomes, outcomes->oldest), now_ms))
        forget_oldest(outcomes);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

void outcomes_encode(const struct outcomes *outcomes, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, outcomes->forgotten_number);
    buffer_append_u32(&writer->piece, outcomes->records.used);
    for (uint32_t slot = outcomes->oldest; slot != 0; slot = outcome_at(outcomes, slot)->next) {
        const struct outcome *outcome = outcome_at(outcomes, slot);
        buffer_append_u64(&writer->piece, outcome->key.low);
        buffer_append_u64(&writer->piece, outcome->key.high);
        buffer_append_u64(&writer->piece, outcome->number);
        buffer_append_u64(&writer->piece, outcome->ended_at_ms);
        buffer_append_u8(&writer->piece, outcome->state);
        core_writer_pass_on(writer);
    }
}

static bool read_outcome(struct outcomes *outcomes, struct cursor *cursor, uint64_t number_max, uint64_t now_ms)
{
    struct outcome outcome = {0};
    outcome.key.low = cursor_u64(cursor);
    outcome.key.high = cursor_u64(cursor);
    outcome.number = cursor_u64(cursor);
    outcome.ended_at_ms = cursor_u64(cursor);
    outcome.state = cursor_u8(cursor);
    const struct outcome *known = outcomes_find(outcomes, outcome.key);
    uint64_t newest_ms = outcomes->newest == 0 ? 0 : outcome_at(outcomes, outcomes->newest)->ended_at_ms;
    if (cursor->is_failed || outcome.number == 0 || outcome.number > number_max || outcome.state < UNIT_SUCCEEDED ||
        outcome.state > UNIT_CANCELLED || outcome.ended_at_ms < newest_ms || outcome.ended_at_ms > now_ms ||
        is_over(&outcome, now_ms) || (known != NULL && known->number >= outcome.number))
        return false;
    append(outcomes, &outcome);
    return true;
}

bool outcomes_decode(struct outcomes *outcomes, struct cursor *cursor, uint64_t number_max, uint64_t now_ms)
{
    ASSERT(outcomes->records.used == 0);
    outcomes->forgotten_number = cursor_u64(cursor);
    uint32_t count = cursor_u32(cursor);
    if (cursor->is_failed || outcomes->forgotten_number > number_max || count > OUTCOMES_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!read_outcome(outcomes, cursor, number_max, now_ms))
            return false;
        cursor_release(cursor);
    }
    return true;
}

void outcomes_check(const struct outcomes *outcomes, uint64_t now_ms)
{
    uint32_t count = 0, superseded_count = 0;
    uint64_t ended_at_ms = 0;
    for (uint32_t slot = outcomes->oldest; slot != 0; slot = outcome_at(outcomes, slot)->next) {
        const struct outcome *outcome = outcome_at(outcomes, slot);
        ASSERT(outcome->ended_at_ms >= ended_at_ms && outcome->ended_at_ms <= now_ms);
        ASSERT(outcome->number > 0 && !is_over(outcome, now_ms));
        ASSERT((find_slot(outcomes, outcome->key) == slot) == !outcome->is_superseded);
        ASSERT(outcome->next != 0 || slot == outcomes->newest);
        superseded_count += outcome->is_superseded;
        ended_at_ms = outcome->ended_at_ms;
        count++;
    }
    ASSERT(count == outcomes->records.used && count <= OUTCOMES_MAX);
    ASSERT(table_count(&outcomes->by_key) == count - superseded_count);
}
