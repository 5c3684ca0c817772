#include "matcher/replica.h"

#include "base/memory.h"
#include "client/json.h"
#include <stdlib.h>

#define NUMBER_SHIFT 20 /* a ticket's number is when it was offered, in milliseconds, and these bits of an order */

static struct replica_ticket *ticket_at(const struct replica *replica, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(&replica->tickets, slot);
}

const struct replica_ticket *replica_ticket(const struct replica *replica, uint32_t slot)
{
    return ticket_at(replica, slot);
}

uint32_t replica_find_ticket(const struct replica *replica, struct bytes key)
{
    struct table_probe probe = table_probe_start(&replica->by_key, bytes_hash(key));
    while (table_probe_next(&replica->by_key, &probe))
        if (bytes_equal(ticket_at(replica, probe.slot)->key_owned, key))
            return probe.slot;
    return 0;
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static bool is_used(const struct replica_ticket *ticket)
{
    return ticket->entry.number != 0;
}

static void init_tickets(struct replica *replica)
{
    pool_init(&replica->tickets, sizeof(struct replica_ticket));
    table_init(&replica->by_key);
    table_init(&replica->by_number);
    heap_init(&replica->aside, &replica->tickets, offsetof(struct replica_ticket, aside_index),
              offsetof(struct replica_ticket, entry.number));
    matcher_init(&replica->matcher, replica->rules_owned, &replica->tickets, offsetof(struct replica_ticket, entry), 0);
}

static void deinit_tickets(struct replica *replica)
{
    matcher_deinit(&replica->matcher);
    for (uint32_t slot = 1; slot < replica->tickets.slot_end; slot++) {
        struct replica_ticket *ticket = ticket_at(replica, slot);
        if (!is_used(ticket))
            continue;
        free((void *)(uintptr_t)ticket->key_owned.ptr);
        facts_destroy(ticket->facts_owned);
    }
    heap_deinit(&replica->aside);
    table_deinit(&replica->by_key);
    table_deinit(&replica->by_number);
    pool_deinit(&replica->tickets);
}

void replica_init(struct replica *replica, struct rules *rules, bool has_own_rules, uint32_t parts)
{
    ASSERT(parts <= REPLICA_PARTS_MAX);
    *replica = (struct replica){.rules_owned = rules, .has_own_rules = has_own_rules, .parts = parts};
    init_tickets(replica);
}

void replica_deinit(struct replica *replica)
{
    deinit_tickets(replica);
    rules_destroy(replica->rules_owned);
}

void replica_clear(struct replica *replica, struct rules *rules)
{
    deinit_tickets(replica);
    if (rules != NULL) {
        rules_destroy(replica->rules_owned);
        replica->rules_owned = rules;
    }
    init_tickets(replica);
}

/* --- In and out of the matcher ------------------------------------------------------------------------------------ */

static bool is_mine(const struct replica *replica, const struct replica_ticket *ticket)
{
    return replica->parts == 0 || replica->is_mine[ticket->part];
}

static void enter(struct replica *replica, struct replica_ticket *ticket, bool is_seed, uint64_t now_ms)
{
    uint64_t offered_at_ms = ticket->entry.offered_at_ms; /* by the clock of the server, which may be ahead of ours */
    ticket->state = REPLICA_WAITING;
    if (replica->has_own_rules)
        ticket->entry.level =
            (uint8_t)rules_level(replica->rules_owned, now_ms < offered_at_ms ? 0 : now_ms - offered_at_ms);
    matcher_add(&replica->matcher, ticket->slot, now_ms, is_seed);
}

static void leave(struct replica *replica, struct replica_ticket *ticket)
{
    if (ticket->state == REPLICA_WAITING)
        matcher_remove(&replica->matcher, ticket->slot);
    if (ticket->state == REPLICA_ASIDE)
        heap_remove(&replica->aside, ticket->slot);
}

static void forget(struct replica *replica, struct replica_ticket *ticket)
{
    uint32_t slot = ticket->slot;
    table_remove(&replica->by_key, bytes_hash(ticket->key_owned), slot);
    table_remove(&replica->by_number, table_hash_u64(ticket->entry.number), slot);
    free((void *)(uintptr_t)ticket->key_owned.ptr);
    facts_destroy(ticket->facts_owned);
    ticket->entry.number = 0;
    pool_free(&replica->tickets, slot);
}

void replica_drop(struct replica *replica, uint32_t slot, uint64_t version, uint64_t now_ms)
{
    struct replica_ticket *ticket = ticket_at(replica, slot);
    ASSERT(ticket->state == REPLICA_PROPOSED);
    if (ticket->version > version && !ticket->has_gone)
        enter(replica, ticket, true, now_ms); /* it came back since */
    else
        forget(replica, ticket);
}

void replica_return(struct replica *replica, uint32_t slot, uint64_t now_ms)
{
    struct replica_ticket *ticket = ticket_at(replica, slot);
    ASSERT(ticket->state == REPLICA_PROPOSED);
    if (ticket->has_gone)
        forget(replica, ticket);
    else
        enter(replica, ticket, true, now_ms); /* also another caller's: who came meanwhile did not see it */
}

void replica_put_aside(struct replica *replica, uint32_t slot, uint64_t version, uint64_t until_ms, uint64_t now_ms)
{
    struct replica_ticket *ticket = ticket_at(replica, slot);
    if (ticket->has_gone || ticket->version > version) {
        replica_return(replica, slot, now_ms);
        return;
    }
    ASSERT(ticket->state == REPLICA_PROPOSED);
    ticket->state = REPLICA_ASIDE;
    heap_push(&replica->aside, until_ms, slot);
}

/* Gives a ticket whose partners another caller looks for its level and urgency. It looks only if it was to look before
 * that. */
static void stand_anew(struct replica *replica, uint32_t slot, uint32_t level, bool was_seed, uint64_t now_ms)
{
    matcher_remove(&replica->matcher, slot);
    ticket_at(replica, slot)->entry.level = (uint8_t)level;
    matcher_add(&replica->matcher, slot, now_ms, was_seed);
}

static bool is_seed(const struct replica *replica, uint32_t slot)
{
    return ticket_at(replica, slot)->entry.seed_index != 0;
}

static void take_steps(struct replica *replica, uint64_t now_ms)
{
    const struct heap *steps = &replica->matcher.steps;
    uint32_t slot, level;
    for (;;) {
        bool was_seed = steps->count > 0 && is_seed(replica, heap_top(steps).slot); /* a step may make it one */
        if ((slot = matcher_take_step(&replica->matcher, now_ms, &level)) == 0)
            return;
        const struct replica_ticket *ticket = ticket_at(replica, slot);
        bool widens = level != ticket->entry.level;
        if (widens && !replica->has_own_rules)
            continue; /* of the pool's own levels the feed tells */
        if (!is_mine(replica, ticket))
            stand_anew(replica, slot, level, was_seed, now_ms);
        else if (widens)
            matcher_widen(&replica->matcher, slot, level, now_ms);
    }
}

enum matcher_outcome replica_find(struct replica *replica, uint64_t now_ms, uint32_t *budget,
                                  struct matcher_group *group)
{
    uint32_t slot;
    while (replica->aside.count > 0 && heap_top(&replica->aside).key <= now_ms) {
        slot = heap_top(&replica->aside).slot;
        heap_remove(&replica->aside, slot);
        enter(replica, ticket_at(replica, slot), true, now_ms);
    }
    take_steps(replica, now_ms);
    enum matcher_outcome outcome = matcher_look(&replica->matcher, now_ms, budget, group);
    for (uint32_t i = 0; outcome == MATCHER_FOUND && i < group->count; i++) {
        matcher_remove(&replica->matcher, group->slots[i]);
        ticket_at(replica, group->slots[i])->state = REPLICA_PROPOSED;
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

static struct facts *make_facts(const struct replica *replica, yyjson_val *event)
{
    struct failure failure;
    struct buffer encoded;
    struct facts *facts = NULL;
    buffer_init(&encoded);
    if (facts_encode(replica->rules_owned, yyjson_obj_get(event, "Attributes"), yyjson_obj_get(event, "Need"), &encoded,
                     &failure) == OK)
        facts = facts_create(replica->rules_owned, buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    return facts;
}

/* What an offer says, into the ticket. */
static void fill(const struct replica *replica, struct replica_ticket *ticket, yyjson_val *event, struct facts *facts)
{
    struct bytes set = text_of(event, "ExclusiveSet");
    uint64_t level = json_number(event, "Level");
    facts_destroy(ticket->facts_owned);
    ticket->facts_owned = facts;
    ticket->version = json_number(event, "Version");
    ticket->part = replica->parts == 0 ? 0 : (uint32_t)json_number(event, "Part");
    ticket->has_gone = false;
    ticket->entry.facts = facts;
    ticket->entry.offered_at_ms = ms_of(event, "OfferedAt");
    ticket->entry.expires_at_ms = json_real(event, "ExpiresAt") > 0 ? ms_of(event, "ExpiresAt") : UINT64_MAX;
    ticket->entry.exclusive_set = set.size == 0 ? 0 : bytes_hash(set) | 1;
    ticket->entry.weight = (uint32_t)json_number(event, "Weight");
    ticket->entry.priority = (uint8_t)json_number(event, "Priority");
    ticket->entry.level = level < replica->rules_owned->level_count ? (uint8_t)level : 0;
}

static bool has_number(const struct replica *replica, uint64_t number)
{
    struct table_probe probe = table_probe_start(&replica->by_number, table_hash_u64(number));
    while (table_probe_next(&replica->by_number, &probe))
        if (ticket_at(replica, probe.slot)->entry.number == number)
            return true;
    return false;
}

/* A number by which the ticket stands among the others by its age. The order begins anew now and then, so one of the
 * same millisecond may have it, and the next is taken; behind the last of a millisecond those of the next one. */
static uint64_t free_number(struct replica *replica, uint64_t offered_at_ms)
{
    uint64_t number = offered_at_ms << NUMBER_SHIFT | (++replica->order & ((1u << NUMBER_SHIFT) - 1));
    while (number == 0 || has_number(replica, number))
        number++;
    return number;
}

static struct replica_ticket *make_ticket(struct replica *replica, struct bytes key, yyjson_val *event)
{
    uint32_t slot = pool_allocate(&replica->tickets);
    struct replica_ticket *ticket = ticket_at(replica, slot);
    ticket->slot = slot;
    ticket->key_owned = memory_duplicate(key);
    ticket->entry.number = free_number(replica, ms_of(event, "OfferedAt"));
    table_insert(&replica->by_number, table_hash_u64(ticket->entry.number), slot);
    table_insert(&replica->by_key, bytes_hash(key), slot);
    return ticket;
}

/* Is it one of those by which seeds are shared out? */
static bool is_part(const struct replica *replica, yyjson_val *value)
{
    return yyjson_is_uint(value) && yyjson_get_uint(value) < replica->parts;
}

static bool is_sound(const struct replica *replica, yyjson_val *event)
{
    return (replica->parts == 0 || is_part(replica, yyjson_obj_get(event, "Part"))) &&
           json_number(event, "Weight") >= 1 && json_number(event, "Weight") <= RULES_WEIGHT_MAX &&
           json_number(event, "Priority") <= ENTRY_PRIORITY_MAX;
}

static void apply_offer(struct replica *replica, struct bytes key, yyjson_val *event, uint64_t now_ms)
{
    uint32_t slot = replica_find_ticket(replica, key);
    struct replica_ticket *ticket = slot == 0 ? NULL : ticket_at(replica, slot);
    /* An offer that is read late tells what the ticket is by then, so the same version may come twice, with a
     * retirement between. */
    if (ticket != NULL && ticket->version == json_number(event, "Version"))
        ticket->has_gone = false;
    if (ticket != NULL && ticket->version >= json_number(event, "Version"))
        return;
    struct facts *facts = is_sound(replica, event) ? make_facts(replica, event) : NULL;
    if (facts == NULL) {
        replica->not_understood++;
        return;
    }
    if (ticket == NULL)
        ticket = make_ticket(replica, key, event);
    else
        leave(replica, ticket);
    bool is_proposed = slot != 0 && ticket->state == REPLICA_PROPOSED;
    fill(replica, ticket, event, facts);
    if (!is_proposed)
        enter(replica, ticket, is_mine(replica, ticket), now_ms);
}

static void apply_retire(struct replica *replica, uint32_t slot)
{
    struct replica_ticket *ticket = ticket_at(replica, slot);
    if (ticket->state == REPLICA_PROPOSED) {
        ticket->has_gone = true;
        return;
    }
    leave(replica, ticket);
    forget(replica, ticket);
}

static void apply_widen(struct replica *replica, uint32_t slot, uint64_t level, uint64_t now_ms)
{
    struct replica_ticket *ticket = ticket_at(replica, slot);
    if (replica->has_own_rules || level >= replica->rules_owned->level_count || level <= ticket->entry.level)
        return; /* the offer may have said so already */
    if (ticket->state != REPLICA_WAITING)
        ticket->entry.level = (uint8_t)level;
    else if (is_mine(replica, ticket))
        matcher_widen(&replica->matcher, slot, (uint32_t)level, now_ms);
    else
        stand_anew(replica, slot, (uint32_t)level, is_seed(replica, slot), now_ms);
}

void replica_apply(struct replica *replica, yyjson_val *event, uint64_t now_ms)
{
    struct bytes type = text_of(event, "Type"), key = text_of(event, "TicketId");
    uint32_t slot = key.size == 0 ? 0 : replica_find_ticket(replica, key);
    if (key.size > 0 && (type.size == 0 || bytes_equal(type, BYTES("offer"))))
        apply_offer(replica, key, event, now_ms);
    else if (slot != 0 && bytes_equal(type, BYTES("retire")))
        apply_retire(replica, slot);
    else if (slot != 0 && bytes_equal(type, BYTES("widen")))
        apply_widen(replica, slot, json_number(event, "Level"), now_ms);
}

/* Lets those look that are ours now and were not before. */
static void seed_new(struct replica *replica, const bool was_mine[REPLICA_PARTS_MAX])
{
    for (uint32_t slot = 1; slot < replica->tickets.slot_end; slot++) {
        const struct replica_ticket *ticket = ticket_at(replica, slot);
        bool is_new = is_used(ticket) && replica->is_mine[ticket->part] && !was_mine[ticket->part];
        if (is_new && ticket->state == REPLICA_WAITING)
            matcher_seed(&replica->matcher, slot);
    }
}

bool replica_set_parts(struct replica *replica, yyjson_val *parts)
{
    bool was_mine[REPLICA_PARTS_MAX], is_mine[REPLICA_PARTS_MAX] = {false};
    size_t i, max;
    yyjson_val *part;
    if (replica->parts == 0 || parts == NULL)
        return true;
    if (!yyjson_is_arr(parts))
        return false;
    yyjson_arr_foreach(parts, i, max, part)
    {
        if (!is_part(replica, part))
            return false;
        is_mine[yyjson_get_uint(part)] = true;
    }
    memcpy(was_mine, replica->is_mine, sizeof was_mine);
    memcpy(replica->is_mine, is_mine, sizeof is_mine);
    if (memcmp(was_mine, is_mine, sizeof is_mine) != 0)
        seed_new(replica, was_mine);
    return true;
}
