#include "matcher/simulation.h"

#include "base/accounted.h"
#include <stdlib.h>

#define TIME_S_MAX 1e12 /* of a recorded ticket */

struct simulation_set {
    struct list tickets; /* those that wait */
    struct bytes name_owned;
};

static struct simulation_ticket *ticket_at(const struct simulation *simulation, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&simulation->tickets, slot);
}

static struct simulation_set *set_at(const struct simulation *simulation, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&simulation->sets, slot);
}

/* May be called for a freed record. */
POISON_MAY_LOOK static bool is_used(const struct simulation_ticket *ticket)
{
    return ticket->entry.number != 0;
}

void simulation_init(struct simulation *simulation, const struct rules *rules, uint64_t window_ms, uint64_t ttl_ms,
                     uint32_t budget, const struct simulation_watcher *watcher)
{
    ASSERT(budget > 0);
    *simulation = (struct simulation){.rules = rules, .watcher = *watcher, .ttl_ms = ttl_ms, .budget = budget};
    slab_init(&simulation->tickets, sizeof(struct simulation_ticket));
    slab_init(&simulation->sets, sizeof(struct simulation_set));
    table_init(&simulation->set_by_name);
    heap_init(&simulation->expiries, &simulation->tickets, offsetof(struct simulation_ticket, expiry_index),
              offsetof(struct simulation_ticket, entry.number));
    matcher_init(&simulation->matcher, rules, &simulation->tickets, offsetof(struct simulation_ticket, entry),
                 window_ms);
}

static void take_out(struct simulation *simulation, uint32_t slot)
{
    struct simulation_ticket *ticket = ticket_at(simulation, slot);
    matcher_remove(&simulation->matcher, slot);
    heap_set(&simulation->expiries, HEAP_NEVER, slot);
    if (ticket->set != 0)
        list_remove(&ticket->set_link);
}

static void forget(struct simulation *simulation, uint32_t slot)
{
    struct simulation_ticket *ticket = ticket_at(simulation, slot);
    facts_destroy(ticket->facts_owned);
    ticket->entry.number = 0;
    slab_free(&simulation->tickets, slot);
}

void simulation_deinit(struct simulation *simulation)
{
    matcher_deinit(&simulation->matcher);
    for (uint32_t slot = 1; slot < simulation->tickets.slot_end; slot++)
        if (is_used(ticket_at(simulation, slot)))
            facts_destroy(ticket_at(simulation, slot)->facts_owned);
    for (uint32_t slot = 1; slot < simulation->sets.slot_end; slot++)
        accounted_free((void *)(uintptr_t)set_at(simulation, slot)->name_owned.ptr);
    heap_deinit(&simulation->expiries);
    table_deinit(&simulation->set_by_name);
    slab_deinit(&simulation->sets);
    slab_deinit(&simulation->tickets);
}

const struct simulation_ticket *simulation_ticket(const struct simulation *simulation, uint32_t slot)
{
    return ticket_at(simulation, slot);
}

/* --- What happens ------------------------------------------------------------------------------------------------- */

static void end_ticket(struct simulation *simulation, uint32_t slot, enum simulation_end end)
{
    take_out(simulation, slot);
    simulation->watcher.ended(simulation->watcher.context, simulation, slot, end);
    forget(simulation, slot);
}

/* One ticket of an exclusive set was matched: cancels the others of the set. */
static void cancel_others(struct simulation *simulation, uint32_t set)
{
    struct list_link *link;
    while ((link = list_first(&set_at(simulation, set)->tickets)) != NULL) {
        const char *ticket = (const char *)link - offsetof(struct simulation_ticket, set_link);
        end_ticket(simulation, ((const struct simulation_ticket *)(const void *)ticket)->slot, SIMULATION_CANCELLED);
    }
}

static void make_match(struct simulation *simulation, const struct matcher_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        take_out(simulation, group->slots[i]);
    simulation->watcher.matched(simulation->watcher.context, simulation, group);
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t set = ticket_at(simulation, group->slots[i])->set;
        if (set != 0)
            cancel_others(simulation, set);
        forget(simulation, group->slots[i]);
    }
}

static void look(struct simulation *simulation)
{
    for (;;) {
        struct matcher_group group;
        uint32_t budget = simulation->budget;
        switch (matcher_look(&simulation->matcher, simulation->now_ms, &budget, &group)) {
        case MATCHER_FOUND:
            make_match(simulation, &group);
            break;
        case MATCHER_TIRED:
            break;
        case MATCHER_IDLE:
            return;
        }
    }
}

uint64_t simulation_due_ms(const struct simulation *simulation)
{
    uint64_t matcher_ms = matcher_due_ms(&simulation->matcher);
    if (simulation->expiries.count == 0)
        return matcher_ms;
    uint64_t expiry_ms = heap_top(&simulation->expiries).key;
    return expiry_ms < matcher_ms ? expiry_ms : matcher_ms;
}

void simulation_advance(struct simulation *simulation, uint64_t until_ms)
{
    uint64_t due;
    while ((due = simulation_due_ms(simulation)) < until_ms) {
        uint32_t slot, level;
        simulation->now_ms = due > simulation->now_ms ? due : simulation->now_ms;
        while ((slot = matcher_take_step(&simulation->matcher, simulation->now_ms, &level)) != 0) {
            if (level != ticket_at(simulation, slot)->entry.level)
                matcher_widen(&simulation->matcher, slot, level, simulation->now_ms);
            look(simulation);
        }
        look(simulation); /* a window may have ended */
        while (simulation->expiries.count > 0 && heap_top(&simulation->expiries).key <= simulation->now_ms)
            end_ticket(simulation, heap_top(&simulation->expiries).slot, SIMULATION_EXPIRED);
    }
}

/* --- Offers ------------------------------------------------------------------------------------------------------- */

/* The set of that name, made if there is none. */
static uint32_t find_set(struct simulation *simulation, struct bytes name)
{
    uint64_t hash = bytes_hash(name);
    struct table_probe probe = table_probe_start(&simulation->set_by_name, hash);
    while (table_probe_next(&simulation->set_by_name, &probe))
        if (bytes_equal(set_at(simulation, probe.slot)->name_owned, name))
            return probe.slot;
    uint32_t slot = slab_allocate(&simulation->sets);
    list_init(&set_at(simulation, slot)->tickets);
    set_at(simulation, slot)->name_owned = accounted_duplicate(name);
    table_insert(&simulation->set_by_name, hash, slot);
    return slot;
}

/* NULL with `failure` filled. */
static struct facts *make_facts(const struct rules *rules, const struct simulation_offer *offer,
                                struct failure *failure)
{
    struct buffer encoded;
    struct facts *facts = NULL;
    buffer_init(&encoded);
    if (facts_encode(rules, offer->attributes, offer->need, &encoded, failure) == OK) {
        facts = facts_create(rules, buffer_bytes(&encoded));
        ASSERT(facts != NULL);
    }
    buffer_deinit(&encoded);
    return facts;
}

static uint64_t expiry_of(const struct simulation *simulation, const struct simulation_offer *offer)
{
    uint64_t ttl_ms = offer->has_ttl ? offer->ttl_ms : simulation->ttl_ms;
    return ttl_ms == 0 ? UINT64_MAX : offer->at_ms + ttl_ms;
}

static uint32_t add_ticket(struct simulation *simulation, const struct simulation_offer *offer, struct facts *facts)
{
    uint32_t slot = slab_allocate(&simulation->tickets);
    struct simulation_ticket *ticket = ticket_at(simulation, slot);
    ticket->slot = slot;
    ticket->facts_owned = facts;
    ticket->entry.number = ++simulation->offered;
    ticket->entry.offered_at_ms = offer->at_ms;
    ticket->entry.expires_at_ms = expiry_of(simulation, offer);
    ticket->entry.facts = facts;
    ticket->entry.weight = offer->weight;
    ticket->entry.priority = offer->priority;
    if (offer->set.size > 0) {
        ticket->set = find_set(simulation, offer->set);
        ticket->entry.exclusive_set = ticket->set;
        list_append(&set_at(simulation, ticket->set)->tickets, &ticket->set_link);
    }
    heap_set(&simulation->expiries, ticket->entry.expires_at_ms, slot); /* HEAP_NEVER is UINT64_MAX, too */
    return slot;
}

bool simulation_offer(struct simulation *simulation, const struct simulation_offer *offer, struct failure *failure)
{
    if (offer->at_ms < simulation->now_ms) {
        failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "its t is below that of the ticket before it");
        return false;
    }
    if (offer->weight < 1 || offer->weight > simulation->rules->party_max || offer->priority > ENTRY_PRIORITY_MAX) {
        failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "n must be 1 to %u and prio 0 to %u",
                    simulation->rules->party_max, ENTRY_PRIORITY_MAX);
        return false;
    }
    struct facts *facts = make_facts(simulation->rules, offer, failure);
    if (facts == NULL)
        return false;
    simulation_advance(simulation, offer->at_ms);
    simulation->now_ms = offer->at_ms;
    matcher_add(&simulation->matcher, add_ticket(simulation, offer, facts), simulation->now_ms, true);
    look(simulation);
    return true;
}

/* --- Reading ------------------------------------------------------------------------------------------------------ */

bool simulation_duration(struct bytes text, uint64_t *ms)
{
    static const struct {
        struct bytes unit;
        uint64_t ms;
    } units[] = {{BYTES("ms"), 1}, {BYTES("s"), 1000}, {BYTES("m"), 60000}, {BYTES("h"), 3600000}};
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++) {
        uint64_t number;
        if (!bytes_ends_with(text, units[i].unit))
            continue;
        if (!bytes_to_u64(bytes_make(text.ptr, text.size - units[i].unit.size), &number) || number > UINT32_MAX)
            continue;
        *ms = number * units[i].ms;
        return true;
    }
    return false;
}

/* A time in seconds as milliseconds. */
static bool read_seconds(yyjson_val *value, uint64_t *ms)
{
    double seconds = yyjson_get_num(value);
    if (!yyjson_is_num(value) || !(seconds >= 0 && seconds <= TIME_S_MAX))
        return false;
    *ms = (uint64_t)(seconds * 1000 + 0.5);
    return true;
}

static struct bytes text_of(yyjson_val *value)
{
    return bytes_make(yyjson_get_str(value), yyjson_get_len(value));
}

/* A member by its name in a file, or in a feed. */
static yyjson_val *member_of(yyjson_val *line, const char *name, const char *feed_name)
{
    yyjson_val *value = yyjson_obj_get(line, name);
    return value == NULL ? yyjson_obj_get(line, feed_name) : value;
}

/* A value that is absent, or a whole number up to `max`. */
static bool read_number(yyjson_val *value, uint64_t max, uint64_t *number)
{
    if (value == NULL)
        return true;
    if (!yyjson_is_uint(value) || yyjson_get_uint(value) > max)
        return false;
    *number = yyjson_get_uint(value);
    return true;
}

static bool read_ttl(yyjson_val *line, struct simulation_offer *offer)
{
    yyjson_val *value = yyjson_obj_get(line, "ttl");
    yyjson_val *expiry = yyjson_obj_get(line, "ExpiresAt");
    uint64_t expires_ms;
    offer->has_ttl = value != NULL || expiry != NULL;
    if (value == NULL && expiry == NULL)
        return true;
    if (value != NULL)
        return yyjson_is_str(value) ? simulation_duration(text_of(value), &offer->ttl_ms)
                                    : read_seconds(value, &offer->ttl_ms);
    if (!read_seconds(expiry, &expires_ms) || expires_ms <= offer->at_ms)
        return false;
    offer->ttl_ms = expires_ms - offer->at_ms;
    return true;
}

/* What is wrong with the line; NULL: nothing. */
static const char *read_members(yyjson_val *line, struct simulation_offer *offer)
{
    uint64_t weight = 1, priority = 0;
    yyjson_val *set = member_of(line, "xid", "ExclusiveSet");
    if (!yyjson_is_obj(line))
        return "it is no JSON object";
    if (!read_seconds(member_of(line, "t", "OfferedAt"), &offer->at_ms))
        return "t must be a number of seconds";
    if (!read_number(member_of(line, "n", "Weight"), RULES_WEIGHT_MAX, &weight))
        return "n must be a whole number";
    if (!read_number(member_of(line, "prio", "Priority"), ENTRY_PRIORITY_MAX, &priority))
        return "prio must be 0 to 9";
    if (!read_ttl(line, offer))
        return "ttl must be a duration like \"30s\" or a number of seconds";
    if (set != NULL && !yyjson_is_str(set))
        return "xid must be a text";
    offer->attributes = member_of(line, "attrs", "Attributes");
    offer->need = member_of(line, "need", "Need");
    offer->weight = (uint32_t)weight;
    offer->priority = (uint8_t)priority;
    offer->set = text_of(set);
    return NULL;
}

bool simulation_read(yyjson_val *line, struct simulation_offer *offer, struct failure *failure)
{
    struct simulation_offer read = {.weight = 1};
    const char *why = read_members(line, &read);
    if (why != NULL) {
        failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s", why);
        return false;
    }
    *offer = read;
    return true;
}
