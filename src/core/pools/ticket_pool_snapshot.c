/* Pools and their tickets in a snapshot, and their invariants. docs/internals/formats/events.md has the layout. Matches
 * are made_match.c's. */
#include "core/pools/ticket_pool.h"

#include "core/snapshot.h"
#include "core/state.h"

#include "base/accounted.h"

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_ticket(const struct ticket_pool *pool, const struct ticket *ticket, struct buffer *out)
{
    buffer_append_u64(out, ticket->entry.number);
    buffer_append_sized(out, ticket->key_owned);
    buffer_append_u64(out, ticket->entry.offered_at_ms);
    buffer_append_u64(out, ticket->entry.expires_at_ms);
    buffer_append_u64(out, ticket->ended_at_ms);
    buffer_append_u64(out, ticket->match);
    buffer_append_u64(out, ticket->offer.low);
    buffer_append_u64(out, ticket->offer.high);
    buffer_append_u32(out, ticket->version);
    buffer_append_u32(out, ticket->ttl_s);
    buffer_append_u32(out, ticket->entry.weight);
    buffer_append_u8(out, ticket->entry.priority);
    buffer_append_u8(out, (uint8_t)ticket_level(pool, ticket));
    buffer_append_u8(out, ticket->state);
    if (ticket->is_settled)
        return;
    buffer_append_sized(out, ticket->set == 0 ? (struct bytes){0} : exclusive_set_at(pool, ticket->set)->name_owned);
    buffer_append_sized(out, ticket->content.facts);
    buffer_append_sized(out, ticket->content.attributes);
    buffer_append_u8(out, ticket->content.has_body);
    buffer_append_sized(out, ticket->content.body);
}

static void write_list(const struct ticket_pool *pool, uint32_t first, struct core_writer *writer)
{
    for (uint32_t slot = first; slot != 0; slot = ticket_at(&pool->tickets, slot)->next) {
        write_ticket(pool, ticket_at(&pool->tickets, slot), &writer->piece);
        core_writer_pass_on(writer);
    }
}

static void write_pool(const struct ticket_pool *pool, struct core_writer *writer)
{
    struct buffer *out = &writer->piece;
    buffer_append_u32(out, pool->id);
    buffer_append_sized(out, pool->name_owned);
    buffer_append_sized(out, pool->spec_encoded_owned);
    buffer_append_u32(out, pool->rules_version);
    buffer_append_u64(out, pool->counts.offered);
    buffer_append_u64(out, pool->counts.matched);
    buffer_append_u64(out, pool->counts.cancelled);
    buffer_append_u64(out, pool->counts.expired);
    buffer_append_u64(out, pool->matches);
    buffer_append_u64(out, pool->put_backs);
    buffer_append_u64(out, pool->feed.last);
    buffer_append_u32(out, pool->tickets.used - pool->ended_count);
    buffer_append_u32(out, pool->ended_count);
    write_list(pool, pool->live_first, writer);
    write_list(pool, pool->ended_first, writer);
}

void ticket_pool_encode_all(const struct core *core, struct core_writer *writer)
{
    buffer_append_u32(&writer->piece, core->pools.pool_id);
    buffer_append_u64(&writer->piece, core->pools.ticket_number);
    buffer_append_u32(&writer->piece, core->pools.order.count);
    uint32_t ids[TICKET_POOLS_MAX];
    for (uint32_t i = 0; i < core->pools.order.count; i++)
        ids[i] = ticket_pool_at(core, i)->id;
    core_sort_ids(ids, core->pools.order.count);
    for (uint32_t i = 0; i < core->pools.order.count; i++)
        write_pool(ticket_pool_find_by_id(core, ids[i]), writer);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* What a ticket has as long as it is not over for good. False if it is none. */
static bool read_content(const struct ticket_pool *pool, struct ticket *ticket, struct cursor *cursor,
                         struct bytes *set)
{
    *set = cursor_sized(cursor);
    struct ticket_content content = {.facts = cursor_sized(cursor)};
    content.attributes = cursor_sized(cursor);
    uint8_t has_body = cursor_u8(cursor);
    content.body = cursor_sized(cursor);
    content.has_body = has_body == 1;
    if (cursor->is_failed || set->size > EXCLUSIVE_SET_NAME_SIZE_MAX || has_body > 1 ||
        (has_body == 0 && content.body.size > 0))
        return false;
    struct facts *facts = facts_create(pool->rules_owned, content.facts);
    if (facts != NULL)
        ticket_adopt_content(ticket, &content, facts);
    return facts != NULL;
}

/* Do the fields of a ticket that was read fit each other and those before it? */
static bool is_sound(const struct core *core, const struct ticket_pool *pool, const struct ticket *ticket,
                     struct bytes key)
{
    const struct ticket *before = ticket->is_settled
                                      ? (pool->ended_last == 0 ? NULL : ticket_at(&pool->tickets, pool->ended_last))
                                      : (pool->live_last == 0 ? NULL : ticket_at(&pool->tickets, pool->live_last));
    const struct entry *entry = &ticket->entry;
    bool has_match = ticket->state == TICKET_HELD || ticket->state == TICKET_MATCHED;
    bool can_live = has_match || ticket->state == TICKET_WAITING;
    bool can_end = ticket->state >= TICKET_MATCHED;
    if (entry->number == 0 || entry->number > core->pools.ticket_number ||
        ticket_find_by_number(pool, entry->number) != 0 || key.size == 0 || key.size > TICKET_KEY_SIZE_MAX ||
        ticket_find(pool, key) != 0)
        return false;
    if (ticket->state < TICKET_WAITING || ticket->state > TICKET_EXPIRED || has_match != (ticket->match != 0) ||
        !(ticket->is_settled ? can_end : can_live) || ticket->is_settled != (ticket->ended_at_ms != 0))
        return false;
    if (entry->offered_at_ms > core->now_ms || ticket->ended_at_ms > core->now_ms || ticket->version == 0 ||
        entry->weight == 0 || entry->weight > RULES_WEIGHT_MAX || entry->priority > ENTRY_PRIORITY_MAX ||
        entry->level >= pool->rules_owned->level_count)
        return false;
    return before == NULL ||
           (ticket->is_settled ? before->ended_at_ms <= ticket->ended_at_ms : before->entry.number < entry->number);
}

static void read_fields(struct ticket *ticket, struct cursor *cursor, struct bytes *key)
{
    ticket->entry.number = cursor_u64(cursor);
    *key = cursor_sized(cursor);
    ticket->entry.offered_at_ms = cursor_u64(cursor);
    ticket->entry.expires_at_ms = cursor_u64(cursor);
    ticket->ended_at_ms = cursor_u64(cursor);
    ticket->match = cursor_u64(cursor);
    ticket->offer.low = cursor_u64(cursor);
    ticket->offer.high = cursor_u64(cursor);
    ticket->version = cursor_u32(cursor);
    ticket->ttl_s = cursor_u32(cursor);
    ticket->entry.weight = cursor_u32(cursor);
    ticket->entry.priority = cursor_u8(cursor);
    ticket->entry.level = cursor_u8(cursor);
    ticket->state = cursor_u8(cursor);
}

static bool read_ticket(struct core *core, struct ticket_pool *pool, bool is_settled, struct cursor *cursor)
{
    struct ticket read = {.is_settled = is_settled, .level_version = pool->rules_version};
    struct bytes key, set = {0};
    read_fields(&read, cursor, &key);
    if (cursor->is_failed || !is_sound(core, pool, &read, key) ||
        (!is_settled && !read_content(pool, &read, cursor, &set)))
        return false;
    uint32_t slot = slab_allocate(&pool->tickets);
    read.key_owned = accounted_duplicate(key);
    *ticket_at(&pool->tickets, slot) = read;
    ticket_restore(core, pool, slot, set);
    return true;
}

static bool read_tickets(struct core *core, struct ticket_pool *pool, struct cursor *cursor)
{
    uint32_t live_count = cursor_u32(cursor);
    uint32_t ended_count = cursor_u32(cursor);
    for (uint64_t i = 0; i < (uint64_t)live_count + ended_count; i++) {
        if (!read_ticket(core, pool, i >= live_count, cursor))
            return false;
        cursor_release(cursor);
    }
    return !cursor->is_failed;
}

/* The states that tickets leave only to be forgotten have at least as many as are remembered. */
static bool counts_are_sound(const struct ticket_pool *pool)
{
    const struct ticket_counts *counts = &pool->counts;
    uint64_t remembered[TICKET_EXPIRED + 1] = {0};
    for (uint32_t slot = 1; slot < pool->tickets.slot_end; slot++)
        remembered[ticket_at(&pool->tickets, slot)->state]++;
    return counts->waiting == remembered[TICKET_WAITING] && counts->held == remembered[TICKET_HELD] &&
           counts->matched >= remembered[TICKET_MATCHED] && counts->cancelled >= remembered[TICKET_CANCELLED] &&
           counts->expired >= remembered[TICKET_EXPIRED] &&
           counts->offered ==
               counts->waiting + counts->held + counts->matched + counts->cancelled + counts->expired; /* M28 */
}

static bool read_state(struct core *core, struct ticket_pool *pool, struct cursor *cursor)
{
    pool->rules_version = cursor_u32(cursor);
    struct ticket_counts counts = {.offered = cursor_u64(cursor)};
    counts.matched = cursor_u64(cursor);
    counts.cancelled = cursor_u64(cursor);
    counts.expired = cursor_u64(cursor);
    pool->matches = cursor_u64(cursor);
    pool->put_backs = cursor_u64(cursor);
    feed_go_to(&pool->feed, cursor_u64(cursor), false);
    ticket_pool_begin_feed(pool);
    if (cursor->is_failed || pool->rules_version == 0 || !read_tickets(core, pool, cursor))
        return false;
    counts.waiting = pool->counts.waiting;
    counts.held = pool->counts.held;
    pool->counts = counts;
    return counts_are_sound(pool);
}

/* They come in order of id. */
static bool read_pool(struct core *core, uint32_t *newest, struct cursor *cursor)
{
    uint32_t id = cursor_u32(cursor);
    struct bytes name = cursor_sized(cursor);
    struct bytes encoded = cursor_sized(cursor);
    struct pool_spec spec;
    struct failure ignored;
    if (cursor->is_failed || id <= *newest || id > core->pools.pool_id || name.size == 0 ||
        name.size > TICKET_POOL_NAME_SIZE_MAX || ticket_pool_find(core, name) != NULL ||
        !pool_spec_decode(encoded, &spec) || !ticket_pool_has_queues(core, &spec))
        return false;
    struct rules *rules = rules_create(spec.rules, &ignored);
    if (rules == NULL)
        return false;
    *newest = id;
    struct ticket_pool *pool = ticket_pool_add(core, id, name, encoded, rules);
    if (!read_state(core, pool, cursor))
        return false;
    ticket_pool_set_timer(core, pool);
    return true;
}

bool ticket_pool_decode_all(struct core *core, struct cursor *cursor)
{
    core->pools.pool_id = cursor_u32(cursor);
    core->pools.ticket_number = cursor_u64(cursor);
    uint32_t count = cursor_u32(cursor), newest = 0;
    if (cursor->is_failed || count > TICKET_POOLS_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!read_pool(core, &newest, cursor))
            return false;
    return true;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

static void check_ticket(const struct core *core, const struct ticket_pool *pool, uint32_t slot)
{
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    bool waits = ticket->state == TICKET_WAITING;
    ASSERT(ticket->entry.number > 0 && ticket->entry.number <= core->pools.ticket_number && ticket->version > 0);
    ASSERT(ticket_find(pool, ticket->key_owned) == slot);
    ASSERT(ticket_find_by_number(pool, ticket->entry.number) == slot);
    ASSERT((ticket->expiry_index != 0) == (waits && ticket->entry.expires_at_ms != UINT64_MAX));
    ASSERT((ticket->match != 0) == (ticket->state == TICKET_HELD || ticket->state == TICKET_MATCHED));
    ASSERT((ticket->facts_owned == NULL) == ticket->is_settled && ticket->entry.facts == ticket->facts_owned);
    ASSERT((ticket->content_owned == NULL) == ticket->is_settled && (ticket->set == 0 || !ticket->is_settled));
    ASSERT(ticket->entry.level < RULES_LEVELS_MAX && ticket->level_version <= pool->rules_version);
    if (!pool->is_awake)
        return;
    /* While it is filled, tickets from index_next on may be in it or not. */
    bool is_expected = waits && ticket_is_free(pool, ticket);
    bool is_in = matcher_has(&pool->matcher, slot);
    ASSERT(!is_in || is_expected);
    ASSERT(!is_in || ticket->level_version == pool->rules_version);
    ASSERT(is_in || !is_expected || (pool->index_next != 0 && slot >= pool->index_next));
}

static uint32_t check_list(const struct core *core, const struct ticket_pool *pool, uint32_t first, uint32_t last,
                           struct ticket_counts *counts, uint64_t *weight)
{
    uint32_t count = 0, prev = 0;
    for (uint32_t slot = first; slot != 0; slot = ticket_at(&pool->tickets, slot)->next) {
        const struct ticket *ticket = ticket_at(&pool->tickets, slot);
        const struct ticket *before = prev == 0 ? NULL : ticket_at(&pool->tickets, prev);
        check_ticket(core, pool, slot);
        ASSERT(ticket->prev == prev && (before == NULL || before->is_settled == ticket->is_settled));
        ASSERT(before == NULL || (ticket->is_settled ? before->ended_at_ms <= ticket->ended_at_ms
                                                     : before->entry.number < ticket->entry.number));
        counts->waiting += ticket->state == TICKET_WAITING;
        counts->held += ticket->state == TICKET_HELD;
        counts->matched += ticket->state == TICKET_MATCHED;
        counts->cancelled += ticket->state == TICKET_CANCELLED;
        counts->expired += ticket->state == TICKET_EXPIRED;
        *weight += ticket->state == TICKET_WAITING ? ticket->entry.weight : 0;
        prev = slot;
        count++;
    }
    ASSERT(last == prev);
    return count;
}

static void check_pool(const struct core *core, const struct ticket_pool *pool)
{
    struct ticket_counts seen = {0};
    const struct ticket_counts *counts = &pool->counts;
    uint64_t weight = 0;
    uint32_t live = check_list(core, pool, pool->live_first, pool->live_last, &seen, &weight);
    uint32_t ended = check_list(core, pool, pool->ended_first, pool->ended_last, &seen, &weight);
    ASSERT(ended == pool->ended_count && live + ended == pool->tickets.used);
    ASSERT(counts->waiting == seen.waiting && counts->held == seen.held && pool->weight == weight);
    ASSERT(counts->matched >= seen.matched && counts->cancelled >= seen.cancelled && counts->expired >= seen.expired);
    ASSERT(counts->offered ==
           counts->waiting + counts->held + counts->matched + counts->cancelled + counts->expired); /* M28 */
    ASSERT(table_count(&pool->ticket_by_key) == pool->tickets.used);
    ASSERT(table_count(&pool->ticket_by_number) == pool->tickets.used);
    heap_check(&pool->expiries);
    exclusive_set_check_all(pool);
    if (pool->is_awake)
        matcher_check(&pool->matcher);
}

void ticket_pool_check_all(const struct core *core)
{
    uint64_t ticket_count = 0;
    ASSERT(core->pools.order.count <= TICKET_POOLS_MAX);
    for (uint32_t i = 0; i < core->pools.order.count; i++) {
        const struct ticket_pool *pool = ticket_pool_at(core, i);
        ASSERT(ticket_pool_find_by_id(core, pool->id) == pool && pool->id <= core->pools.pool_id);
        ASSERT(ticket_pool_has_queues(core, &pool->spec));
        check_pool(core, pool);
        ticket_count += pool->tickets.used;
    }
    ASSERT(ticket_count == core->pools.ticket_count);
    name_index_check(&core->pools.order);
    heap_check(&core->pools.timers);
}
