/* The changes of a ticket. set_state() is the only way from one state to another; it updates counts, expiries,
 * exclusive sets and the matcher. */
#include "core/pools/ticket.h"

#include "core/apply.h"
#include "core/digest.h"

#include "base/accounted.h"
#include "base/quote.h"
#include <stdlib.h>

uint32_t ticket_find(const struct ticket_pool *pool, struct bytes key)
{
    for (struct table_probe probe = table_probe_start(&pool->ticket_by_key, digest_name(pool->digest, key));
         table_probe_next(&pool->ticket_by_key, &probe);)
        if (bytes_equal(ticket_at(&pool->tickets, probe.slot)->key_owned, key))
            return probe.slot;
    return 0;
}

uint32_t ticket_find_by_number(const struct ticket_pool *pool, uint64_t number)
{
    for (struct table_probe probe = table_probe_start(&pool->ticket_by_number, table_hash_u64(number));
         table_probe_next(&pool->ticket_by_number, &probe);)
        if (ticket_at(&pool->tickets, probe.slot)->entry.number == number)
            return probe.slot;
    return 0;
}

size_t ticket_content_size(const struct ticket_content *content)
{
    return content->attributes.size + quote_size(content->body);
}

uint32_t ticket_level(const struct ticket_pool *pool, const struct ticket *ticket)
{
    return ticket->level_version == pool->rules_version ? ticket->entry.level : 0;
}

/* Writes its level under the present rules. Nothing visible changes by that. */
static void renew_level(const struct ticket_pool *pool, struct ticket *ticket)
{
    ticket->entry.level = (uint8_t)ticket_level(pool, ticket);
    ticket->level_version = pool->rules_version;
}

const struct entry *ticket_entry(const struct ticket_pool *pool, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    renew_level(pool, ticket);
    return &ticket->entry;
}

bool ticket_is_free(const struct ticket_pool *pool, const struct ticket *ticket)
{
    return ticket->set == 0 || exclusive_set_at(pool, ticket->set)->held == 0;
}

/* --- states ------------------------------------------------------------------------------------------------------- */

void ticket_join_matcher(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(ticket->state == TICKET_WAITING);
    if (!pool->is_awake || !ticket_is_free(pool, ticket))
        return;
    renew_level(pool, ticket);
    matcher_add(&pool->matcher, slot, core->now_ms, pool->spec.matcher != MATCHER_EXTERNAL);
}

static void leave_matcher(struct ticket_pool *pool, uint32_t slot)
{
    if (pool->is_awake && matcher_has(&pool->matcher, slot))
        matcher_remove(&pool->matcher, slot);
}

static uint64_t *count_of(struct ticket_pool *pool, unsigned state)
{
    switch ((enum ticket_state)state) {
    case TICKET_WAITING:
        return &pool->counts.waiting;
    case TICKET_HELD:
        return &pool->counts.held;
    case TICKET_MATCHED:
        return &pool->counts.matched;
    case TICKET_CANCELLED:
        return &pool->counts.cancelled;
    case TICKET_EXPIRED:
        break;
    }
    return &pool->counts.expired;
}

static void leave_state(struct ticket_pool *pool, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    uint64_t *count = count_of(pool, ticket->state);
    ASSERT(*count > 0);
    *count -= 1;
    if (ticket->state != TICKET_WAITING)
        return;
    pool->weight -= ticket->entry.weight;
    leave_matcher(pool, slot);
    heap_set(&pool->expiries, HEAP_NEVER, slot);
}

static void enter_state(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ticket->state = (uint8_t)state;
    *count_of(pool, state) += 1;
    if (state != TICKET_WAITING)
        return;
    pool->weight += ticket->entry.weight;
    heap_set(&pool->expiries, ticket->entry.expires_at_ms, slot); /* UINT64_MAX is HEAP_NEVER */
    ticket_join_matcher(core, pool, slot);
}

/* Is it matched, or will it be? Then no other one of its exclusive set may be matched. */
static bool state_holds(unsigned state)
{
    return state == TICKET_HELD || state == TICKET_MATCHED;
}

/* While one ticket of a set is held, the others are not in the matcher. O(tickets of the set) when that begins or
 * ends. */
static void hold_set(struct core *core, struct ticket_pool *pool, uint32_t slot, bool is_held)
{
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    if (ticket->set == 0)
        return;
    struct exclusive_set *set = exclusive_set_at(pool, ticket->set);
    ASSERT(is_held || set->held > 0);
    bool had_any = set->held > 0;
    set->held += is_held ? 1 : UINT32_MAX;
    if (had_any == (set->held > 0))
        return;
    for (uint32_t other = set->first; other != 0; other = ticket_at(&pool->tickets, other)->set_next) {
        if (other == slot || ticket_at(&pool->tickets, other)->state != TICKET_WAITING)
            continue;
        if (is_held)
            leave_matcher(pool, other);
        else if (!matcher_has(&pool->matcher, other))
            ticket_join_matcher(core, pool, other);
    }
}

/* The only way from one state to another. */
static void set_state(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state)
{
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(!ticket->is_settled);
    bool held = state_holds(ticket->state), holds = state_holds(state);
    leave_state(pool, slot);
    if (held != holds)
        hold_set(core, pool, slot, holds);
    enter_state(core, pool, slot, state);
}

static void feed_offer(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ticket_pool_feed(
        core, pool,
        &(struct feed_event){.kind = FEED_OFFER, .ticket = ticket->entry.number, .version = ticket->version});
}

/* Only live: a replayed event was counted before, by a former process. */
static void count_wait(struct core *core, struct ticket_pool *pool, const struct ticket *ticket)
{
    if (core->frame.events == NULL)
        return;
    if (pool->waits_owned == NULL)
        pool->waits_owned = accounted_allocate_zeroed(sizeof(*pool->waits_owned));
    waits_add(pool->waits_owned, ticket_level(pool, ticket), core->now_ms - ticket->entry.offered_at_ms);
}

void ticket_retire(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state, uint64_t match,
                   unsigned reason)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(ticket->state == TICKET_WAITING || ticket->state == TICKET_HELD);
    ASSERT(state != TICKET_WAITING && state_holds(state) == (match != 0));
    set_state(core, pool, slot, state);
    ticket->match = match;
    if (state == TICKET_MATCHED)
        count_wait(core, pool, ticket);
    ticket_pool_feed(core, pool,
                     &(struct feed_event){.kind = FEED_RETIRE,
                                          .ticket = ticket->entry.number,
                                          .version = ticket->version,
                                          .match = match,
                                          .reason = (uint8_t)reason});
    if (!state_holds(state))
        ticket_settle(core, pool, slot);
    ticket_pool_set_timer(core, pool);
}

void ticket_return(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(state_holds(ticket->state) && !ticket->is_settled);
    ticket->version++;
    ticket->match = 0;
    set_state(core, pool, slot, TICKET_WAITING);
    feed_offer(core, pool, slot);
    ticket_pool_set_timer(core, pool);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static void append(struct ticket_pool *pool, uint32_t *first, uint32_t *last, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ticket->prev = *last;
    ticket->next = 0;
    if (*last == 0)
        *first = slot;
    else
        ticket_at(&pool->tickets, *last)->next = slot;
    *last = slot;
}

static void unlink_ticket(struct ticket_pool *pool, uint32_t *first, uint32_t *last, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    if (ticket->prev == 0)
        *first = ticket->next;
    else
        ticket_at(&pool->tickets, ticket->prev)->next = ticket->next;
    if (ticket->next == 0)
        *last = ticket->prev;
    else
        ticket_at(&pool->tickets, ticket->next)->prev = ticket->prev;
    ticket->prev = ticket->next = 0;
}

static void free_content(struct ticket *ticket)
{
    accounted_free(ticket->content_owned);
    facts_destroy(ticket->facts_owned);
    ticket->content_owned = NULL;
    ticket->content = (struct ticket_content){0};
    ticket->facts_owned = NULL;
    ticket->entry.facts = NULL;
}

void ticket_settle(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(ticket->state != TICKET_WAITING && ticket->state != TICKET_HELD);
    if (ticket->is_settled)
        return;
    if (ticket->state == TICKET_MATCHED)
        hold_set(core, pool, slot, false);
    if (ticket->set != 0)
        exclusive_set_leave(pool, slot);
    unlink_ticket(pool, &pool->live_first, &pool->live_last, slot);
    append(pool, &pool->ended_first, &pool->ended_last, slot);
    pool->ended_count++;
    ticket->is_settled = true;
    ticket->ended_at_ms = core->now_ms;
    free_content(ticket);
    ticket_pool_set_timer(core, pool);
}

void ticket_free(struct ticket *ticket)
{
    free_content(ticket);
    accounted_free((void *)ticket->key_owned.ptr);
    ticket->key_owned = (struct bytes){0};
    ticket->state = 0; /* tells a freed slot */
}

const struct ticket *ticket_oldest_waiting(const struct ticket_pool *pool, unsigned *visits)
{
    for (uint32_t slot = pool->live_first; slot != 0 && *visits > 0; --*visits) {
        const struct ticket *ticket = ticket_at(&pool->tickets, slot);
        if (ticket->state == TICKET_WAITING)
            return ticket;
        slot = ticket->next;
    }
    return NULL;
}

void ticket_forget_oldest(struct core *core, struct ticket_pool *pool)
{
    uint32_t slot = pool->ended_first;
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(ticket->is_settled && pool->ended_count > 0 && core->pools.ticket_count > 0);
    unlink_ticket(pool, &pool->ended_first, &pool->ended_last, slot);
    pool->ended_count--;
    table_remove(&pool->ticket_by_key, digest_name(pool->digest, ticket->key_owned), slot);
    table_remove(&pool->ticket_by_number, table_hash_u64(ticket->entry.number), slot);
    ticket_free(ticket);
    slab_free(&pool->tickets, slot);
    core->pools.ticket_count--;
}

void ticket_restore(struct core *core, struct ticket_pool *pool, uint32_t slot, struct bytes set)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    table_insert(&pool->ticket_by_key, digest_name(pool->digest, ticket->key_owned), slot);
    table_insert(&pool->ticket_by_number, table_hash_u64(ticket->entry.number), slot);
    core->pools.ticket_count++;
    if (ticket->is_settled) {
        append(pool, &pool->ended_first, &pool->ended_last, slot);
        pool->ended_count++;
        return;
    }
    append(pool, &pool->live_first, &pool->live_last, slot);
    if (set.size > 0)
        exclusive_set_join(pool, slot, set);
    enum ticket_state state = (enum ticket_state)ticket->state;
    if (state_holds(state))
        hold_set(core, pool, slot, true);
    enter_state(core, pool, slot, state);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static struct bytes copy_to(uint8_t **end, struct bytes view)
{
    if (view.size == 0)
        return (struct bytes){0};
    memcpy(*end, view.ptr, view.size);
    struct bytes copied = bytes_make(*end, view.size);
    *end += view.size;
    return copied;
}

void ticket_adopt_content(struct ticket *ticket, const struct ticket_content *content, struct facts *facts)
{
    uint8_t *block = accounted_allocate(content->attributes.size + content->facts.size + content->body.size);
    uint8_t *end = block;
    struct ticket_content copied = {.has_body = content->has_body};
    copied.facts = copy_to(&end, content->facts);
    copied.attributes = copy_to(&end, content->attributes);
    copied.body = copy_to(&end, content->body);
    free_content(ticket);
    ticket->content_owned = block;
    ticket->content = copied;
    ticket->facts_owned = facts;
    ticket->entry.facts = facts;
}

/* Can such a ticket exist besides the present ones? */
static bool offer_fits(const struct core *core, const struct ticket_pool *pool,
                       const struct event_ticket_offered *offered)
{
    return offered->number == core->pools.ticket_number + 1 && offered->key.size > 0 &&
           offered->key.size <= TICKET_KEY_SIZE_MAX && offered->set.size <= EXCLUSIVE_SET_NAME_SIZE_MAX &&
           offered->weight > 0 && offered->weight <= RULES_WEIGHT_MAX && offered->priority <= ENTRY_PRIORITY_MAX &&
           offered->has_body <= 1 && (offered->has_body == 1 || offered->body.size == 0) &&
           offered->expires_at_ms > core->now_ms && ticket_find(pool, offered->key) == 0;
}

bool apply_ticket_offered(struct core *core, const struct event_ticket_offered *offered)
{
    struct ticket_pool *pool = ticket_pool_find_by_id(core, offered->pool);
    if (pool == NULL || !offer_fits(core, pool, offered))
        return false;
    struct facts *facts = facts_create(pool->rules_owned, offered->facts);
    if (facts == NULL)
        return false;
    core->pools.ticket_number = offered->number;
    uint32_t slot = slab_allocate(&pool->tickets);
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    *ticket = (struct ticket){.entry = {.number = offered->number,
                                        .offered_at_ms = core->now_ms,
                                        .expires_at_ms = offered->expires_at_ms,
                                        .weight = offered->weight,
                                        .priority = offered->priority},
                              .offer = {.low = offered->digest_low, .high = offered->digest_high},
                              .key_owned = accounted_duplicate(offered->key),
                              .version = 1,
                              .level_version = pool->rules_version,
                              .ttl_s = offered->ttl_s,
                              .state = TICKET_WAITING};
    ticket_adopt_content(ticket,
                         &(struct ticket_content){.attributes = offered->attributes,
                                                  .facts = offered->facts,
                                                  .body = offered->body,
                                                  .has_body = offered->has_body == 1},
                         facts);
    pool->counts.offered++;
    ticket_restore(core, pool, slot, offered->set);
    feed_offer(core, pool, slot);
    ticket_pool_set_timer(core, pool);
    return true;
}

/* The slot of a waiting ticket, or 0. */
static uint32_t find_waiting(const struct ticket_pool *pool, uint64_t number)
{
    uint32_t slot = pool == NULL ? 0 : ticket_find_by_number(pool, number);
    return slot != 0 && ticket_at(&pool->tickets, slot)->state == TICKET_WAITING ? slot : 0;
}

bool apply_ticket_updated(struct core *core, const struct event_ticket_updated *updated)
{
    struct ticket_pool *pool = ticket_pool_find_by_id(core, updated->pool);
    uint32_t slot = find_waiting(pool, updated->number);
    struct facts *facts = slot == 0 ? NULL : facts_create(pool->rules_owned, updated->facts);
    if (facts == NULL)
        return false;
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    leave_matcher(pool, slot);
    struct ticket_content content = ticket->content;
    content.attributes = updated->attributes;
    content.facts = updated->facts;
    ticket_adopt_content(ticket, &content, facts);
    ticket->version++;
    ticket_join_matcher(core, pool, slot);
    feed_offer(core, pool, slot);
    ticket_pool_set_timer(core, pool);
    return true;
}

/* Reads the next step of a run. False if no waiting ticket can take it. */
static bool next_step(const struct ticket_pool *pool, struct cursor *cursor, uint32_t *slot, uint8_t *level)
{
    *slot = find_waiting(pool, cursor_u64(cursor));
    *level = cursor_u8(cursor);
    if (cursor->is_failed || *slot == 0)
        return false;
    const uint32_t present = ticket_level(pool, ticket_at(&pool->tickets, *slot));
    return *level > present && *level < pool->rules_owned->level_count;
}

static void widen(struct core *core, struct ticket_pool *pool, uint32_t slot, uint8_t level)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    renew_level(pool, ticket);
    if (pool->is_awake && matcher_has(&pool->matcher, slot))
        matcher_widen(&pool->matcher, slot, level, core->now_ms);
    else
        ticket->entry.level = level;
    ticket_pool_feed(
        core, pool,
        &(struct feed_event){
            .kind = FEED_WIDEN, .ticket = ticket->entry.number, .version = ticket->version, .level = level});
}

bool apply_tickets_widened(struct core *core, const struct event_tickets_widened *widened)
{
    struct ticket_pool *pool = ticket_pool_find_by_id(core, widened->pool);
    uint32_t slot;
    uint8_t level;
    uint64_t before = 0;
    struct cursor cursor = cursor_make(widened->tickets);
    for (uint32_t i = 0; i < widened->count; i++) {
        if (pool == NULL || !next_step(pool, &cursor, &slot, &level))
            return false;
        before++;
    }
    if (pool == NULL || before == 0 || !cursor_is_done(&cursor))
        return false;
    for (cursor = cursor_make(widened->tickets); cursor.rest.size > 0;)
        if (next_step(pool, &cursor, &slot, &level)) /* else it stands there twice */
            widen(core, pool, slot, level);
    ticket_pool_set_timer(core, pool);
    return true;
}

bool apply_ticket_ended(struct core *core, const struct event_ticket_ended *ended)
{
    struct ticket_pool *pool = ticket_pool_find_by_id(core, ended->pool);
    uint32_t slot = find_waiting(pool, ended->number);
    if (slot == 0 || (ended->reason != TICKET_END_CANCELLED && ended->reason != TICKET_END_EXPIRED))
        return false;
    bool is_cancelled = ended->reason == TICKET_END_CANCELLED;
    ticket_retire(core, pool, slot, is_cancelled ? TICKET_CANCELLED : TICKET_EXPIRED, 0,
                  is_cancelled ? FEED_BY_CANCEL : FEED_BY_TTL);
    return true;
}
