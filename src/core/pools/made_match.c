#include "core/pools/made_match.h"

#include "core/apply.h"
#include "core/identity.h"

#include "base/accounted.h"
#include <stdlib.h>

#define MEMBER_SIZE 13u /* in an event: number, version, team */

struct made_match *made_match_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->matches.items, slot);
}

void made_match_init(struct core *core)
{
    slab_init(&core->matches.items, sizeof(struct made_match));
    table_init(&core->matches.by_number);
    table_init(&core->matches.by_message);
    table_init(&core->matches.by_proposal);
    heap_init(&core->matches.holds, &core->matches.items, offsetof(struct made_match, hold_index),
              offsetof(struct made_match, number));
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static bool match_is_used(const struct made_match *match)
{
    return match->state != 0;
}

static void free_content(struct made_match *match)
{
    accounted_replace(&match->body_owned, bytes_make(NULL, 0));
    accounted_free(match->members_owned);
    match->members_owned = NULL;
    match->member_count = 0;
}

static void free_owned(struct made_match *match)
{
    free_content(match);
    accounted_replace(&match->proposal_owned, bytes_make(NULL, 0));
    match->state = 0; /* tells a freed slot */
}

void made_match_deinit(struct core *core)
{
    for (uint32_t slot = 1; slot < core->matches.items.slot_end; slot++)
        if (match_is_used(made_match_at(core, slot)))
            free_owned(made_match_at(core, slot));
    heap_deinit(&core->matches.holds);
    table_deinit(&core->matches.by_number);
    table_deinit(&core->matches.by_message);
    table_deinit(&core->matches.by_proposal);
    slab_deinit(&core->matches.items);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

uint32_t made_match_find(const struct core *core, uint64_t number)
{
    for (struct table_probe probe = table_probe_start(&core->matches.by_number, table_hash_u64(number));
         table_probe_next(&core->matches.by_number, &probe);)
        if (made_match_at(core, probe.slot)->number == number)
            return ticket_pool_find_by_id(core, made_match_at(core, probe.slot)->pool) == NULL ? 0 : probe.slot;
    return 0;
}

static uint64_t proposal_hash(const struct core *core, uint32_t pool, struct bytes proposal)
{
    return digest_name(core->digest_owned, proposal) ^ table_hash_u64(pool);
}

uint32_t made_match_find_proposal(const struct core *core, const struct ticket_pool *pool, struct bytes proposal)
{
    for (struct table_probe probe =
             table_probe_start(&core->matches.by_proposal, proposal_hash(core, pool->id, proposal));
         table_probe_next(&core->matches.by_proposal, &probe);) {
        const struct made_match *match = made_match_at(core, probe.slot);
        if (match->pool == pool->id && bytes_equal(match->proposal_owned, proposal))
            return probe.slot;
    }
    return 0;
}

uint32_t made_match_find_message(const struct core *core, uint64_t message)
{
    for (struct table_probe probe = table_probe_start(&core->matches.by_message, table_hash_u64(message));
         table_probe_next(&core->matches.by_message, &probe);)
        if (made_match_at(core, probe.slot)->message == message)
            return probe.slot;
    return 0;
}

uint64_t made_match_due_ms(const struct core *core)
{
    return heap_top_key(&core->matches.holds);
}

/* --- links -------------------------------------------------------------------------------------------------------- */

static void append(struct core *core, uint32_t *first, uint32_t *last, uint32_t slot)
{
    struct made_match *match = made_match_at(core, slot);
    match->prev = *last;
    match->next = 0;
    if (*last == 0)
        *first = slot;
    else
        made_match_at(core, *last)->next = slot;
    *last = slot;
}

static void unlink_match(struct core *core, uint32_t *first, uint32_t *last, uint32_t slot)
{
    const struct made_match *match = made_match_at(core, slot);
    if (match->prev == 0)
        *first = match->next;
    else
        made_match_at(core, match->prev)->next = match->next;
    if (match->next == 0)
        *last = match->prev;
    else
        made_match_at(core, match->next)->prev = match->prev;
}

uint32_t made_match_add(struct core *core, struct ticket_pool *pool, uint64_t number, struct bytes proposal)
{
    uint32_t slot = slab_allocate(&core->matches.items);
    struct made_match *match = made_match_at(core, slot);
    *match = (struct made_match){.number = number, .pool = pool->id};
    table_insert(&core->matches.by_number, table_hash_u64(number), slot);
    accounted_replace(&match->proposal_owned, proposal);
    if (proposal.size > 0)
        table_insert(&core->matches.by_proposal, proposal_hash(core, pool->id, proposal), slot);
    return slot;
}

void made_match_link_unsettled(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    append(core, &pool->unsettled_first, &pool->unsettled_last, slot);
    pool->results++;
    const struct made_match *match = made_match_at(core, slot);
    if (match->state == MATCH_HELD)
        heap_push(&core->matches.holds, match->confirm_by_ms, slot);
}

void made_match_link_settled(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    append(core, &pool->settled_first, &pool->settled_last, slot);
    pool->settled_count++;
}

void made_match_link_message(struct core *core, uint32_t slot, uint32_t message)
{
    struct message *result = core_message(core, message);
    ASSERT(!result->is_result);
    result->is_result = true;
    made_match_at(core, slot)->message = result->number;
    table_insert(&core->matches.by_message, table_hash_u64(result->number), slot);
}

static void unlink_message(struct core *core, uint32_t slot)
{
    struct made_match *match = made_match_at(core, slot);
    if (match->message == 0)
        return;
    table_remove(&core->matches.by_message, table_hash_u64(match->message), slot);
    match->message = 0;
}

/* The match is over for good: only the data for answering a repeat is kept, for a while. */
static void settle(struct core *core, struct ticket_pool *pool, uint32_t slot, enum match_state state)
{
    struct made_match *match = made_match_at(core, slot);
    ASSERT(match->message == 0 && pool->results > 0);
    unlink_match(core, &pool->unsettled_first, &pool->unsettled_last, slot);
    pool->results--;
    heap_set(&core->matches.holds, HEAP_NEVER, slot);
    match->state = (uint8_t)state;
    match->ended_at_ms = core->now_ms;
    free_content(match);
    made_match_link_settled(core, pool, slot);
    ticket_pool_set_timer(core, pool); /* there is room for a result, and something to forget one day */
}

/* --- matched ------------------------------------------------------------------------------------------------------ */

/* Is that the newest message, in the pool's result queue and not of another match? Its slot, or 0. */
static uint32_t find_result(const struct core *core, const struct ticket_pool *pool, uint64_t message)
{
    uint32_t slot = message == core->messages.message_number ? core_find_message(core, message) : 0;
    if (slot == 0 || core_message(core, slot)->is_result)
        return 0;
    uint32_t queue = core_message_list_at(core, core_message(core, slot)->message_list)->queue;
    return queue != 0 && core_queue(core, queue)->id == pool->spec.result_queue ? slot : 0;
}

/* The members of an event: waiting tickets at their versions, all different and of different exclusive sets. False if
 * not. */
static bool read_members(const struct ticket_pool *pool, const struct event_matched *matched,
                         uint32_t tickets[RULES_WEIGHT_MAX], struct match_member members[RULES_WEIGHT_MAX])
{
    if (matched->count == 0 || matched->count > RULES_WEIGHT_MAX ||
        matched->members.size != (size_t)matched->count * MEMBER_SIZE)
        return false;
    uint32_t sets[RULES_WEIGHT_MAX];
    struct cursor cursor = cursor_make(matched->members);
    for (uint32_t i = 0; i < matched->count; i++) {
        members[i] = (struct match_member){.ticket = cursor_u64(&cursor)};
        uint32_t version = cursor_u32(&cursor);
        members[i].team = cursor_u8(&cursor);
        tickets[i] = ticket_find_by_number(pool, members[i].ticket);
        const struct ticket *ticket = tickets[i] == 0 ? NULL : ticket_at(&pool->tickets, tickets[i]);
        if (ticket == NULL || ticket->state != TICKET_WAITING || ticket->version != version ||
            !ticket_is_free(pool, ticket) || members[i].team >= pool->rules_owned->team_count)
            return false;
        sets[i] = ticket->set;
        for (uint32_t j = 0; j < i; j++)
            if (tickets[j] == tickets[i] || (sets[i] != 0 && sets[j] == sets[i]))
                return false;
    }
    return true;
}

static bool matched_fits(const struct core *core, const struct ticket_pool *pool, const struct event_matched *matched)
{
    bool is_held = matched->message == 0;
    if (matched->match != core->matches.match_number + 1 || matched->match > IDENTITY_NUMBER_MAX ||
        matched->has_body > 1 || (matched->has_body == 0 && matched->body.size > 0) ||
        matched->proposal.size > TICKET_KEY_SIZE_MAX)
        return false;
    if (matched->proposal.size > 0 && made_match_find_proposal(core, pool, matched->proposal) != 0)
        return false;
    return is_held ? matched->confirm_by_ms > core->now_ms && matched->siblings.size == 0
                   : matched->has_body == 0 && find_result(core, pool, matched->message) != 0;
}

/* Cancels the siblings of newly matched tickets. False, with the state spoiled, if they are not exactly those; a replay
 * then gives up the core. */
static bool cancel_siblings(struct core *core, struct ticket_pool *pool, const uint32_t *tickets, uint32_t count,
                            struct bytes siblings)
{
    struct cursor cursor = cursor_make(siblings);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t set = ticket_at(&pool->tickets, tickets[i])->set;
        for (uint32_t slot = set == 0 ? 0 : exclusive_set_at(pool, set)->first, next; slot != 0; slot = next) {
            const struct ticket *sibling = ticket_at(&pool->tickets, slot);
            next = sibling->set_next;
            if (sibling->state != TICKET_WAITING)
                continue;
            if (cursor_u64(&cursor) != sibling->entry.number)
                return false;
            ticket_retire(core, pool, slot, TICKET_CANCELLED, 0, FEED_BY_CANCEL);
        }
    }
    return cursor_is_done(&cursor);
}

bool apply_matched(struct core *core, const struct event_matched *matched)
{
    struct ticket_pool *pool = ticket_pool_find_by_id(core, matched->pool);
    uint32_t tickets[RULES_WEIGHT_MAX];
    struct match_member members[RULES_WEIGHT_MAX];
    if (pool == NULL || !matched_fits(core, pool, matched) || !read_members(pool, matched, tickets, members))
        return false;
    bool is_held = matched->message == 0;
    core->matches.match_number = matched->match;
    uint32_t slot = made_match_add(core, pool, matched->match, matched->proposal);
    struct made_match *match = made_match_at(core, slot);
    match->state = is_held ? MATCH_HELD : MATCH_MADE;
    match->digest = (struct digest_tag){.low = matched->digest_low, .high = matched->digest_high};
    match->made_at_ms = core->now_ms;
    match->confirm_by_ms = is_held ? matched->confirm_by_ms : 0;
    match->has_body = matched->has_body == 1;
    accounted_replace(&match->body_owned, matched->body);
    match->member_count = matched->count;
    match->members_owned = accounted_allocate(matched->count * sizeof(*members));
    memcpy(match->members_owned, members, matched->count * sizeof(*members));
    made_match_link_unsettled(core, pool, slot);
    if (!is_held)
        made_match_link_message(core, slot, find_result(core, pool, matched->message));
    for (uint32_t i = 0; i < matched->count; i++)
        ticket_retire(core, pool, tickets[i], is_held ? TICKET_HELD : TICKET_MATCHED, matched->match,
                      is_held ? FEED_BY_HOLD : FEED_BY_MATCH);
    pool->matches += !is_held;
    return is_held || cancel_siblings(core, pool, tickets, matched->count, matched->siblings);
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

/* The slot of a held match, or 0. */
static uint32_t find_held(const struct core *core, uint64_t number)
{
    uint32_t slot = made_match_find(core, number);
    return slot != 0 && made_match_at(core, slot)->state == MATCH_HELD ? slot : 0;
}

/* The slots of its members' tickets, which exist until it is settled. */
static void find_tickets(const struct ticket_pool *pool, const struct made_match *match,
                         uint32_t tickets[RULES_WEIGHT_MAX])
{
    for (uint32_t i = 0; i < match->member_count; i++) {
        tickets[i] = ticket_find_by_number(pool, match->members_owned[i].ticket);
        ASSERT(ticket_at(&pool->tickets, tickets[i])->match == match->number);
    }
}

bool apply_confirmed(struct core *core, const struct event_confirmed *confirmed)
{
    uint32_t slot = find_held(core, confirmed->match);
    const struct made_match *match = slot == 0 ? NULL : made_match_at(core, slot);
    if (match == NULL || confirmed->member >= match->member_count ||
        match->members_owned[confirmed->member].has_confirmed)
        return false;
    match->members_owned[confirmed->member].has_confirmed = true;
    return true;
}

bool made_match_is_confirmed(const struct made_match *match)
{
    for (uint32_t i = 0; i < match->member_count; i++)
        if (!match->members_owned[i].has_confirmed)
            return false;
    return true;
}

bool apply_match_made(struct core *core, const struct event_match_made *made)
{
    uint32_t slot = find_held(core, made->match);
    if (slot == 0)
        return false;
    struct made_match *match = made_match_at(core, slot);
    struct ticket_pool *pool = ticket_pool_find_by_id(core, match->pool);
    uint32_t message = find_result(core, pool, made->message);
    if (message == 0 || !made_match_is_confirmed(match))
        return false;
    uint32_t tickets[RULES_WEIGHT_MAX];
    find_tickets(pool, match, tickets);
    match->state = MATCH_MADE;
    match->made_at_ms = core->now_ms;
    match->confirm_by_ms = 0;
    match->has_body = false;
    accounted_replace(&match->body_owned, bytes_make(NULL, 0));
    heap_remove(&core->matches.holds, slot);
    made_match_link_message(core, slot, message);
    for (uint32_t i = 0; i < match->member_count; i++)
        ticket_retire(core, pool, tickets[i], TICKET_MATCHED, match->number, FEED_BY_MATCH);
    pool->matches++;
    return cancel_siblings(core, pool, tickets, match->member_count, made->siblings);
}

bool apply_hold_renewed(struct core *core, const struct event_hold_renewed *renewed)
{
    uint32_t slot = find_held(core, renewed->match);
    if (slot == 0 || renewed->confirm_by_ms <= made_match_at(core, slot)->confirm_by_ms)
        return false;
    made_match_at(core, slot)->confirm_by_ms = renewed->confirm_by_ms;
    heap_update(&core->matches.holds, renewed->confirm_by_ms, slot);
    return true;
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* Is this one the next of the leavers, who are in the order of the members? */
static bool is_next_leaver(struct cursor *leavers, const struct match_member *member)
{
    struct cursor ahead = *leavers;
    if (leavers->rest.size == 0 || cursor_u64(&ahead) != member->ticket)
        return false;
    *leavers = ahead;
    return true;
}

static bool undone_fits(const struct made_match *match, const struct event_match_undone *undone)
{
    bool is_held = match->state == MATCH_HELD;
    bool has_lost_message = match->state == MATCH_MADE && match->message == 0;
    if (undone->reason == MATCH_UNDONE_PUT_BACK)
        return undone->leavers.size == 0 && (is_held || has_lost_message);
    if (!is_held || undone->reason < MATCH_UNDONE_REFUSED || undone->reason > MATCH_UNDONE_TIMED_OUT)
        return false;
    struct cursor leavers = cursor_make(undone->leavers);
    for (uint32_t i = 0; i < match->member_count; i++)
        is_next_leaver(&leavers, &match->members_owned[i]);
    return undone->leavers.size > 0 && cursor_is_done(&leavers);
}

bool apply_match_undone(struct core *core, const struct event_match_undone *undone)
{
    uint32_t slot = made_match_find(core, undone->match);
    const struct made_match *match = slot == 0 ? NULL : made_match_at(core, slot);
    if (match == NULL || !undone_fits(match, undone))
        return false;
    struct ticket_pool *pool = ticket_pool_find_by_id(core, match->pool);
    struct cursor leavers = cursor_make(undone->leavers);
    uint32_t tickets[RULES_WEIGHT_MAX];
    find_tickets(pool, match, tickets);
    for (uint32_t i = 0; i < match->member_count; i++)
        if (is_next_leaver(&leavers, &match->members_owned[i]))
            ticket_retire(core, pool, tickets[i], TICKET_CANCELLED, 0, FEED_BY_CANCEL);
        else
            ticket_return(core, pool, tickets[i]);
    bool is_put_back = undone->reason == MATCH_UNDONE_PUT_BACK;
    pool->put_backs += is_put_back;
    settle(core, pool, slot, is_put_back ? MATCH_PUT_BACK : MATCH_REFUSED);
    return true;
}

void made_match_restarted(struct core *core, uint64_t resumed_at_ms, uint32_t grace_ms)
{
    struct cursor cursor = core_heap_slots(core, &core->matches.holds);
    while (cursor.rest.size > 0) {
        uint32_t slot = cursor_u32(&cursor);
        struct made_match *match = made_match_at(core, slot);
        uint64_t own_ms = match->confirm_by_ms - match->made_at_ms;
        uint64_t least_ms = resumed_at_ms + (own_ms < grace_ms ? own_ms : grace_ms);
        if (match->confirm_by_ms >= least_ms)
            continue;
        match->confirm_by_ms = least_ms;
        heap_update(&core->matches.holds, least_ms, slot);
    }
}

/* Cancels tickets that joined the set of a ticket since it was matched, and waited for it to be put back (M21). */
static void cancel_latecomers(struct core *core, struct ticket_pool *pool, uint32_t ticket)
{
    uint32_t set = ticket_at(&pool->tickets, ticket)->set;
    for (uint32_t slot = set == 0 ? 0 : exclusive_set_at(pool, set)->first, next; slot != 0; slot = next) {
        next = ticket_at(&pool->tickets, slot)->set_next;
        if (ticket_at(&pool->tickets, slot)->state == TICKET_WAITING)
            ticket_retire(core, pool, slot, TICKET_CANCELLED, 0, FEED_BY_CANCEL);
    }
}

void made_match_message_ended(struct core *core, uint64_t message, enum end_reason reason)
{
    uint32_t slot = made_match_find_message(core, message);
    if (slot == 0) /* its pool was deleted and is gone */
        return;
    unlink_message(core, slot);
    const struct made_match *match = made_match_at(core, slot);
    struct ticket_pool *pool = ticket_pool_find_by_id(core, match->pool);
    if (pool == NULL || reason == END_PUT_BACK)
        return;
    uint32_t tickets[RULES_WEIGHT_MAX];
    find_tickets(pool, match, tickets);
    for (uint32_t i = 0; i < match->member_count; i++) {
        cancel_latecomers(core, pool, tickets[i]);
        ticket_settle(core, pool, tickets[i]);
    }
    settle(core, pool, slot, MATCH_ACKED);
}

void made_match_message_moved(struct core *core, uint64_t from, uint64_t to)
{
    uint32_t slot = made_match_find_message(core, from);
    if (slot == 0)
        return;
    table_remove(&core->matches.by_message, table_hash_u64(from), slot);
    made_match_at(core, slot)->message = to;
    table_insert(&core->matches.by_message, table_hash_u64(to), slot);
}

/* --- forgetting --------------------------------------------------------------------------------------------------- */

static void free_match(struct core *core, uint32_t slot)
{
    struct made_match *match = made_match_at(core, slot);
    unlink_message(core, slot);
    heap_set(&core->matches.holds, HEAP_NEVER, slot);
    table_remove(&core->matches.by_number, table_hash_u64(match->number), slot);
    if (match->proposal_owned.size > 0)
        table_remove(&core->matches.by_proposal, proposal_hash(core, match->pool, match->proposal_owned), slot);
    free_owned(match);
    slab_free(&core->matches.items, slot);
}

void made_match_forget(struct core *core, struct ticket_pool *pool)
{
    ASSERT(pool->settled_count > 0);
    uint32_t slot = pool->settled_first;
    unlink_match(core, &pool->settled_first, &pool->settled_last, slot);
    pool->settled_count--;
    free_match(core, slot);
}

void made_match_forget_all(struct core *core, struct ticket_pool *pool)
{
    if (pool->counts.held == 0)
        return;
    for (uint32_t slot = pool->unsettled_first; slot != 0; slot = made_match_at(core, slot)->next)
        heap_set(&core->matches.holds, HEAP_NEVER, slot);
}

bool made_match_give_back(struct core *core, struct ticket_pool *pool, unsigned *left)
{
    for (; *left > 0 && pool->settled_count > 0; (*left)--)
        made_match_forget(core, pool);
    for (; *left > 0 && pool->unsettled_first != 0; (*left)--) {
        uint32_t slot = pool->unsettled_first;
        unlink_match(core, &pool->unsettled_first, &pool->unsettled_last, slot);
        free_match(core, slot);
    }
    return pool->settled_count == 0 && pool->unsettled_first == 0;
}
