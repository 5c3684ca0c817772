#include "matcher/pool_copy.h"

#include "base/memory.h"
#include "client/json.h"
#include <stdlib.h>

#define NUMBER_SHIFT 20 /* a ticket's number is when it was offered, in milliseconds, and these bits of an order */

static struct pool_copy_ticket *ticket_at(const struct pool_copy *copy, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&copy->tickets, slot);
}

const struct pool_copy_ticket *pool_copy_ticket(const struct pool_copy *copy, uint32_t slot)
{
    return ticket_at(copy, slot);
}

uint32_t pool_copy_find_ticket(const struct pool_copy *copy, struct bytes key)
{
    struct table_probe probe = table_probe_start(&copy->by_key, bytes_hash(key));
    while (table_probe_next(&copy->by_key, &probe))
        if (bytes_equal(ticket_at(copy, probe.slot)->key_owned, key))
            return probe.slot;
    return 0;
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static bool is_used(const struct pool_copy_ticket *ticket)
{
    return ticket->entry.number != 0;
}

static void init_tickets(struct pool_copy *copy)
{
    slab_init(&copy->tickets, sizeof(struct pool_copy_ticket));
    table_init(&copy->by_key);
    table_init(&copy->by_number);
    heap_init(&copy->aside, &copy->tickets, offsetof(struct pool_copy_ticket, aside_index),
              offsetof(struct pool_copy_ticket, entry.number));
    matcher_init(&copy->matcher, copy->rules_owned, &copy->tickets, offsetof(struct pool_copy_ticket, entry), 0);
}

static void deinit_tickets(struct pool_copy *copy)
{
    matcher_deinit(&copy->matcher);
    for (uint32_t slot = 1; slot < copy->tickets.slot_end; slot++) {
        struct pool_copy_ticket *ticket = ticket_at(copy, slot);
        if (!is_used(ticket))
            continue;
        free((void *)(uintptr_t)ticket->key_owned.ptr);
        facts_destroy(ticket->facts_owned);
    }
    heap_deinit(&copy->aside);
    table_deinit(&copy->by_key);
    table_deinit(&copy->by_number);
    slab_deinit(&copy->tickets);
}

void pool_copy_init(struct pool_copy *copy, struct rules *rules, bool has_own_rules, uint32_t parts)
{
    ASSERT(parts <= POOL_COPY_PARTS_MAX);
    *copy = (struct pool_copy){.rules_owned = rules, .has_own_rules = has_own_rules, .parts = parts};
    init_tickets(copy);
}

void pool_copy_deinit(struct pool_copy *copy)
{
    deinit_tickets(copy);
    rules_destroy(copy->rules_owned);
}

void pool_copy_clear(struct pool_copy *copy, struct rules *rules)
{
    deinit_tickets(copy);
    if (rules != NULL) {
        rules_destroy(copy->rules_owned);
        copy->rules_owned = rules;
    }
    init_tickets(copy);
}

/* --- In and out of the matcher ------------------------------------------------------------------------------------ */

static bool is_mine(const struct pool_copy *copy, const struct pool_copy_ticket *ticket)
{
    return copy->parts == 0 || copy->is_mine[ticket->part];
}

static void enter(struct pool_copy *copy, struct pool_copy_ticket *ticket, bool is_seed, uint64_t now_ms)
{
    uint64_t offered_at_ms = ticket->entry.offered_at_ms; /* by the clock of the server, which may be ahead of ours */
    ticket->state = POOL_COPY_WAITING;
    if (copy->has_own_rules)
        ticket->entry.level =
            (uint8_t)rules_level(copy->rules_owned, now_ms < offered_at_ms ? 0 : now_ms - offered_at_ms);
    matcher_add(&copy->matcher, ticket->slot, now_ms, is_seed);
}

static void leave(struct pool_copy *copy, struct pool_copy_ticket *ticket)
{
    if (ticket->state == POOL_COPY_WAITING)
        matcher_remove(&copy->matcher, ticket->slot);
    if (ticket->state == POOL_COPY_ASIDE)
        heap_remove(&copy->aside, ticket->slot);
}

static void forget(struct pool_copy *copy, struct pool_copy_ticket *ticket)
{
    uint32_t slot = ticket->slot;
    table_remove(&copy->by_key, bytes_hash(ticket->key_owned), slot);
    table_remove(&copy->by_number, table_hash_u64(ticket->entry.number), slot);
    free((void *)(uintptr_t)ticket->key_owned.ptr);
    facts_destroy(ticket->facts_owned);
    ticket->entry.number = 0;
    slab_free(&copy->tickets, slot);
}

void pool_copy_drop(struct pool_copy *copy, uint32_t slot, uint64_t version, uint64_t now_ms)
{
    struct pool_copy_ticket *ticket = ticket_at(copy, slot);
    ASSERT(ticket->state == POOL_COPY_PROPOSED);
    if (ticket->version > version && !ticket->has_gone)
        enter(copy, ticket, true, now_ms); /* it came back since */
    else
        forget(copy, ticket);
}

void pool_copy_return(struct pool_copy *copy, uint32_t slot, uint64_t now_ms)
{
    struct pool_copy_ticket *ticket = ticket_at(copy, slot);
    ASSERT(ticket->state == POOL_COPY_PROPOSED);
    if (ticket->has_gone)
        forget(copy, ticket);
    else
        enter(copy, ticket, true, now_ms); /* also another caller's: who came meanwhile did not see it */
}

void pool_copy_put_aside(struct pool_copy *copy, uint32_t slot, uint64_t version, uint64_t until_ms, uint64_t now_ms)
{
    struct pool_copy_ticket *ticket = ticket_at(copy, slot);
    if (ticket->has_gone || ticket->version > version) {
        pool_copy_return(copy, slot, now_ms);
        return;
    }
    ASSERT(ticket->state == POOL_COPY_PROPOSED);
    ticket->state = POOL_COPY_ASIDE;
    heap_push(&copy->aside, until_ms, slot);
}

/* Gives a ticket whose partners another caller looks for its level and urgency. It looks only if it was to look before
 * that. */
static void stand_anew(struct pool_copy *copy, uint32_t slot, uint32_t level, bool was_seed, uint64_t now_ms)
{
    matcher_remove(&copy->matcher, slot);
    ticket_at(copy, slot)->entry.level = (uint8_t)level;
    matcher_add(&copy->matcher, slot, now_ms, was_seed);
}

static bool is_seed(const struct pool_copy *copy, uint32_t slot)
{
    return ticket_at(copy, slot)->entry.seed_index != 0;
}

static void take_steps(struct pool_copy *copy, uint64_t now_ms)
{
    const struct heap *steps = &copy->matcher.steps;
    uint32_t slot, level;
    for (;;) {
        bool was_seed = steps->count > 0 && is_seed(copy, heap_top(steps).slot); /* a step may make it one */
        if ((slot = matcher_take_step(&copy->matcher, now_ms, &level)) == 0)
            return;
        const struct pool_copy_ticket *ticket = ticket_at(copy, slot);
        bool widens = level != ticket->entry.level;
        if (widens && !copy->has_own_rules)
            continue; /* of the pool's own levels the feed tells */
        if (!is_mine(copy, ticket))
            stand_anew(copy, slot, level, was_seed, now_ms);
        else if (widens)
            matcher_widen(&copy->matcher, slot, level, now_ms);
    }
}

enum matcher_outcome pool_copy_find(struct pool_copy *copy, uint64_t now_ms, uint32_t *budget,
                                    struct matcher_group *group)
{
    uint32_t slot;
    while (copy->aside.count > 0 && heap_top(&copy->aside).key <= now_ms) {
        slot = heap_top(&copy->aside).slot;
        heap_remove(&copy->aside, slot);
        enter(copy, ticket_at(copy, slot), true, now_ms);
    }
    take_steps(copy, now_ms);
    enum matcher_outcome outcome = matcher_look(&copy->matcher, now_ms, budget, group);
    for (uint32_t i = 0; outcome == MATCHER_FOUND && i < group->count; i++) {
        matcher_remove(&copy->matcher, group->slots[i]);
        ticket_at(copy, group->slots[i])->state = POOL_COPY_PROPOSED;
    }
    return outcome;
}

/* --- What the feed says ------------------------------------------------------------------------------------------- */

static uint64_t ms_of(yyjson_val *event, const char *name)
{
    return (uint64_t)(json_real(event, name) * 1000 + 0.5);
}

static struct bytes text_of(yyjson_val *event, const char *name)
{
    yyjson_val *value = yyjson_obj_get(event, name);
    return bytes_make(yyjson_get_str(value), yyjson_get_len(value));
}

static struct facts *make_facts(const struct pool_copy *copy, yyjson_val *event)
{
    struct failure failure;
    struct buffer encoded;
    struct facts *facts = NULL;
    buffer_init(&encoded);
    if (facts_encode(copy->rules_owned, yyjson_obj_get(event, "Attributes"), yyjson_obj_get(event, "Need"), &encoded,
                     &failure) == OK)
        facts = facts_create(copy->rules_owned, buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    return facts;
}

/* What an offer says, into the ticket. */
static void fill(const struct pool_copy *copy, struct pool_copy_ticket *ticket, yyjson_val *event, struct facts *facts)
{
    struct bytes set = text_of(event, "ExclusiveSet");
    uint64_t level = json_number(event, "Level");
    facts_destroy(ticket->facts_owned);
    ticket->facts_owned = facts;
    ticket->version = json_number(event, "Version");
    ticket->part = copy->parts == 0 ? 0 : (uint32_t)json_number(event, "Part");
    ticket->has_gone = false;
    ticket->entry.facts = facts;
    ticket->entry.offered_at_ms = ms_of(event, "OfferedAt");
    ticket->entry.expires_at_ms = json_real(event, "ExpiresAt") > 0 ? ms_of(event, "ExpiresAt") : UINT64_MAX;
    ticket->entry.exclusive_set = set.size == 0 ? 0 : bytes_hash(set) | 1;
    ticket->entry.weight = (uint32_t)json_number(event, "Weight");
    ticket->entry.priority = (uint8_t)json_number(event, "Priority");
    ticket->entry.level = level < copy->rules_owned->level_count ? (uint8_t)level : 0;
}

static bool has_number(const struct pool_copy *copy, uint64_t number)
{
    struct table_probe probe = table_probe_start(&copy->by_number, table_hash_u64(number));
    while (table_probe_next(&copy->by_number, &probe))
        if (ticket_at(copy, probe.slot)->entry.number == number)
            return true;
    return false;
}

/* A number by which the ticket stands among the others by its age. The order begins anew now and then, so one of the
 * same millisecond may have it, and the next is taken; behind the last of a millisecond those of the next one. */
static uint64_t free_number(struct pool_copy *copy, uint64_t offered_at_ms)
{
    uint64_t number = offered_at_ms << NUMBER_SHIFT | (++copy->order & ((1u << NUMBER_SHIFT) - 1));
    while (number == 0 || has_number(copy, number))
        number++;
    return number;
}

static struct pool_copy_ticket *make_ticket(struct pool_copy *copy, struct bytes key, yyjson_val *event)
{
    uint32_t slot = slab_allocate(&copy->tickets);
    struct pool_copy_ticket *ticket = ticket_at(copy, slot);
    ticket->slot = slot;
    ticket->key_owned = memory_duplicate(key);
    ticket->entry.number = free_number(copy, ms_of(event, "OfferedAt"));
    table_insert(&copy->by_number, table_hash_u64(ticket->entry.number), slot);
    table_insert(&copy->by_key, bytes_hash(key), slot);
    return ticket;
}

/* Is it one of those by which seeds are shared out? */
static bool is_part(const struct pool_copy *copy, yyjson_val *value)
{
    return yyjson_is_uint(value) && yyjson_get_uint(value) < copy->parts;
}

static bool is_sound(const struct pool_copy *copy, yyjson_val *event)
{
    return (copy->parts == 0 || is_part(copy, yyjson_obj_get(event, "Part"))) && json_number(event, "Weight") >= 1 &&
           json_number(event, "Weight") <= RULES_WEIGHT_MAX && json_number(event, "Priority") <= ENTRY_PRIORITY_MAX;
}

static void apply_offer(struct pool_copy *copy, struct bytes key, yyjson_val *event, uint64_t now_ms)
{
    uint32_t slot = pool_copy_find_ticket(copy, key);
    struct pool_copy_ticket *ticket = slot == 0 ? NULL : ticket_at(copy, slot);
    /* An offer that is read late tells what the ticket is by then, so the same version may come twice, with a
     * retirement between. */
    if (ticket != NULL && ticket->version == json_number(event, "Version"))
        ticket->has_gone = false;
    if (ticket != NULL && ticket->version >= json_number(event, "Version"))
        return;
    struct facts *facts = is_sound(copy, event) ? make_facts(copy, event) : NULL;
    if (facts == NULL) {
        copy->not_understood++;
        return;
    }
    if (ticket == NULL)
        ticket = make_ticket(copy, key, event);
    else
        leave(copy, ticket);
    bool is_proposed = slot != 0 && ticket->state == POOL_COPY_PROPOSED;
    fill(copy, ticket, event, facts);
    if (!is_proposed)
        enter(copy, ticket, is_mine(copy, ticket), now_ms);
}

static void apply_retire(struct pool_copy *copy, uint32_t slot)
{
    struct pool_copy_ticket *ticket = ticket_at(copy, slot);
    if (ticket->state == POOL_COPY_PROPOSED) {
        ticket->has_gone = true;
        return;
    }
    leave(copy, ticket);
    forget(copy, ticket);
}

static void apply_widen(struct pool_copy *copy, uint32_t slot, uint64_t level, uint64_t now_ms)
{
    struct pool_copy_ticket *ticket = ticket_at(copy, slot);
    if (copy->has_own_rules || level >= copy->rules_owned->level_count || level <= ticket->entry.level)
        return; /* the offer may have said so already */
    if (ticket->state != POOL_COPY_WAITING)
        ticket->entry.level = (uint8_t)level;
    else if (is_mine(copy, ticket))
        matcher_widen(&copy->matcher, slot, (uint32_t)level, now_ms);
    else
        stand_anew(copy, slot, (uint32_t)level, is_seed(copy, slot), now_ms);
}

void pool_copy_apply(struct pool_copy *copy, yyjson_val *event, uint64_t now_ms)
{
    struct bytes type = text_of(event, "Type"), key = text_of(event, "TicketId");
    uint32_t slot = key.size == 0 ? 0 : pool_copy_find_ticket(copy, key);
    if (key.size > 0 && (type.size == 0 || bytes_equal(type, BYTES("offer"))))
        apply_offer(copy, key, event, now_ms);
    else if (slot != 0 && bytes_equal(type, BYTES("retire")))
        apply_retire(copy, slot);
    else if (slot != 0 && bytes_equal(type, BYTES("widen")))
        apply_widen(copy, slot, json_number(event, "Level"), now_ms);
}

/* Lets those look that are ours now and were not before. */
static void seed_new(struct pool_copy *copy, const bool was_mine[POOL_COPY_PARTS_MAX])
{
    for (uint32_t slot = 1; slot < copy->tickets.slot_end; slot++) {
        const struct pool_copy_ticket *ticket = ticket_at(copy, slot);
        bool is_new = is_used(ticket) && copy->is_mine[ticket->part] && !was_mine[ticket->part];
        if (is_new && ticket->state == POOL_COPY_WAITING)
            matcher_seed(&copy->matcher, slot);
    }
}

bool pool_copy_set_parts(struct pool_copy *copy, yyjson_val *parts)
{
    bool was_mine[POOL_COPY_PARTS_MAX], is_mine[POOL_COPY_PARTS_MAX] = {false};
    size_t i, max;
    yyjson_val *part;
    if (copy->parts == 0 || parts == NULL)
        return true;
    if (!yyjson_is_arr(parts))
        return false;
    yyjson_arr_foreach(parts, i, max, part)
    {
        if (!is_part(copy, part))
            return false;
        is_mine[yyjson_get_uint(part)] = true;
    }
    memcpy(was_mine, copy->is_mine, sizeof was_mine);
    memcpy(copy->is_mine, is_mine, sizeof is_mine);
    if (memcmp(was_mine, is_mine, sizeof is_mine) != 0)
        seed_new(copy, was_mine);
    return true;
}
