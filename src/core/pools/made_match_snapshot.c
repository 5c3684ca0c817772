/* Matches in a snapshot, pool by pool in order of name: unsettled ones by number, then settled ones in the order in
 * which they were settled. docs/internals/formats/events.md has the layout. Matches of a deleted pool are unreachable
 * and left out. */
#include "core/pools/made_match.h"

#include "core/identity.h"
#include "core/snapshot.h"
#include "core/state.h"

#include "base/accounted.h"

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* What both kinds have. */
static void write_head(const struct made_match *match, struct buffer *out)
{
    buffer_append_u64(out, match->number);
    buffer_append_u8(out, match->state);
    buffer_append_u64(out, match->made_at_ms);
    buffer_append_u64(out, match->digest.low);
    buffer_append_u64(out, match->digest.high);
    buffer_append_sized(out, match->proposal_owned);
}

static void write_unsettled(const struct made_match *match, struct buffer *out)
{
    write_head(match, out);
    buffer_append_u64(out, match->message);
    buffer_append_u64(out, match->confirm_by_ms);
    buffer_append_u8(out, match->has_body);
    buffer_append_sized(out, match->body_owned);
    buffer_append_u32(out, match->member_count);
    for (uint32_t i = 0; i < match->member_count; i++) {
        buffer_append_u64(out, match->members_owned[i].ticket);
        buffer_append_u8(out, match->members_owned[i].team);
        buffer_append_u8(out, match->members_owned[i].has_confirmed);
    }
}

static void write_pool(const struct core *core, const struct ticket_pool *pool, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, pool->results);
    for (uint32_t slot = pool->unsettled_first; slot != 0; slot = made_match_at(core, slot)->next) {
        write_unsettled(made_match_at(core, slot), &writer->piece);
        core_writer_pass_on(writer);
    }
    buffer_append_u32(&writer->piece, pool->settled_count);
    for (uint32_t slot = pool->settled_first; slot != 0; slot = made_match_at(core, slot)->next) {
        write_head(made_match_at(core, slot), &writer->piece);
        buffer_append_u64(&writer->piece, made_match_at(core, slot)->ended_at_ms);
        core_writer_pass_on(writer);
    }
}

void made_match_encode(const struct core *core, struct core_writer *writer)
{
    buffer_append_u64(&writer->piece, core->matches.match_number);
    for (uint32_t i = 0; i < ticket_pool_count(core); i++)
        write_pool(core, ticket_pool_at(core, i), writer);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Reads what both kinds have; 0 if it is not valid. */
static uint32_t read_head(struct core *core, struct ticket_pool *pool, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    uint8_t state = cursor_u8(cursor);
    uint64_t made_at_ms = cursor_u64(cursor);
    struct digest_tag digest = {.low = cursor_u64(cursor)};
    digest.high = cursor_u64(cursor);
    struct bytes proposal = cursor_sized(cursor);
    if (cursor->is_failed || number == 0 || number > core->matches.match_number || made_match_find(core, number) != 0 ||
        proposal.size > TICKET_KEY_SIZE_MAX || made_at_ms > core->now_ms || state < MATCH_HELD || state > MATCH_REFUSED)
        return 0;
    if (proposal.size > 0 && made_match_find_proposal(core, pool, proposal) != 0)
        return 0;
    uint32_t slot = made_match_add(core, pool, number, proposal);
    struct made_match *match = made_match_at(core, slot);
    match->state = state;
    match->made_at_ms = made_at_ms;
    match->digest = digest;
    return slot;
}

/* Is that a ticket which the match holds or has, and which was not read before as a member? */
static bool member_fits(const struct ticket_pool *pool, const struct made_match *match,
                        const struct match_member *member)
{
    uint32_t slot = ticket_find_by_number(pool, member->ticket);
    const struct ticket *ticket = slot == 0 ? NULL : ticket_at(&pool->tickets, slot);
    if (ticket == NULL || ticket->is_settled || ticket->match != match->number ||
        ticket->state != (match->state == MATCH_HELD ? TICKET_HELD : TICKET_MATCHED))
        return false;
    for (const struct match_member *other = match->members_owned; other < member; other++)
        if (other->ticket == member->ticket)
            return false;
    return true;
}

static bool read_members(const struct ticket_pool *pool, struct made_match *match, struct cursor *cursor)
{
    uint32_t count = cursor_u32(cursor);
    if (cursor->is_failed || count == 0 || count > RULES_WEIGHT_MAX)
        return false;
    match->members_owned = accounted_allocate(count * sizeof(*match->members_owned));
    for (; match->member_count < count; match->member_count++) {
        struct match_member *member = &match->members_owned[match->member_count];
        *member = (struct match_member){.ticket = cursor_u64(cursor)};
        member->team = cursor_u8(cursor);
        uint8_t has_confirmed = cursor_u8(cursor);
        member->has_confirmed = has_confirmed == 1;
        if (cursor->is_failed || has_confirmed > 1 || member->team >= RULES_TEAMS_MAX ||
            !member_fits(pool, match, member))
            return false;
    }
    return true;
}

static bool read_unsettled(struct core *core, struct ticket_pool *pool, struct cursor *cursor)
{
    uint64_t before = pool->unsettled_last == 0 ? 0 : made_match_at(core, pool->unsettled_last)->number;
    uint32_t slot = read_head(core, pool, cursor);
    if (slot == 0)
        return false;
    struct made_match *match = made_match_at(core, slot);
    uint64_t message = cursor_u64(cursor);
    match->confirm_by_ms = cursor_u64(cursor);
    uint8_t has_body = cursor_u8(cursor);
    match->has_body = has_body == 1;
    struct bytes body = cursor_sized(cursor);
    bool is_held = match->state == MATCH_HELD;
    uint32_t result = message == 0 ? 0 : core_find_message(core, message);
    if (cursor->is_failed || match->number <= before || match->state > MATCH_MADE || has_body > 1 ||
        is_held != (match->confirm_by_ms != 0) || (is_held ? message != 0 : has_body == 1) ||
        (has_body == 0 && body.size > 0) || (!is_held && (result == 0 || core_message(core, result)->is_result)) ||
        !read_members(pool, match, cursor) || (is_held && made_match_is_confirmed(match)))
        return false;
    accounted_replace(&match->body_owned, body);
    if (!is_held)
        made_match_link_message(core, slot, result);
    made_match_link_unsettled(core, pool, slot);
    return true;
}

static bool read_settled(struct core *core, struct ticket_pool *pool, struct cursor *cursor)
{
    uint32_t slot = read_head(core, pool, cursor);
    if (slot == 0)
        return false;
    struct made_match *match = made_match_at(core, slot);
    match->ended_at_ms = cursor_u64(cursor);
    if (cursor->is_failed || match->state <= MATCH_MADE || match->ended_at_ms > core->now_ms ||
        match->ended_at_ms < match->made_at_ms)
        return false;
    if (pool->settled_last != 0 && made_match_at(core, pool->settled_last)->ended_at_ms > match->ended_at_ms)
        return false;
    made_match_link_settled(core, pool, slot);
    return true;
}

/* Tickets that some match holds or has, and that may come back. */
static uint64_t count_taken(const struct ticket_pool *pool)
{
    return pool->tickets.used - pool->ended_count - pool->counts.waiting;
}

static bool read_pool(struct core *core, struct ticket_pool *pool, struct cursor *cursor)
{
    uint64_t member_count = 0;
    uint64_t unsettled_count = cursor_u64(cursor);
    for (uint64_t i = 0; i < unsettled_count; i++) {
        if (!read_unsettled(core, pool, cursor))
            return false;
        member_count += made_match_at(core, pool->unsettled_last)->member_count;
        cursor_release(cursor);
    }
    uint32_t settled_count = cursor_u32(cursor);
    for (uint32_t i = 0; i < settled_count; i++) {
        if (!read_settled(core, pool, cursor))
            return false;
        cursor_release(cursor);
    }
    ticket_pool_set_timer(core, pool);
    return !cursor->is_failed && member_count == count_taken(pool);
}

bool made_match_decode(struct core *core, struct cursor *cursor)
{
    core->matches.match_number = cursor_u64(cursor);
    if (cursor->is_failed || core->matches.match_number > IDENTITY_NUMBER_MAX)
        return false;
    for (uint32_t i = 0; i < ticket_pool_count(core); i++)
        if (!read_pool(core, ticket_pool_at(core, i), cursor))
            return false;
    return true;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

static void check_unsettled(const struct core *core, const struct ticket_pool *pool, uint32_t slot)
{
    const struct made_match *match = made_match_at(core, slot);
    bool is_held = match->state == MATCH_HELD;
    ASSERT((is_held || match->state == MATCH_MADE) && match->pool == pool->id && match->member_count > 0);
    ASSERT(made_match_find(core, match->number) == slot && match->number <= core->matches.match_number);
    ASSERT((match->hold_index != 0) == is_held && (match->confirm_by_ms != 0) == is_held);
    ASSERT(is_held == (match->message == 0) && (is_held || !match->has_body));
    if (is_held)
        ASSERT(!made_match_is_confirmed(match));
    else
        ASSERT(core_message(core, core_find_message(core, match->message))->is_result);
    for (uint32_t i = 0; i < match->member_count; i++)
        ASSERT(member_fits(pool, match, &match->members_owned[i]));
}

static void check_settled(const struct core *core, const struct ticket_pool *pool, uint32_t slot)
{
    const struct made_match *match = made_match_at(core, slot);
    ASSERT(match->state > MATCH_MADE && match->pool == pool->id && match->message == 0 && match->hold_index == 0);
    ASSERT(made_match_find(core, match->number) == slot && match->members_owned == NULL);
    ASSERT(match->made_at_ms <= match->ended_at_ms && match->ended_at_ms <= core->now_ms);
}

static void check_pool(const struct core *core, const struct ticket_pool *pool)
{
    uint64_t unsettled_count = 0, member_count = 0, before = 0;
    uint32_t settled_count = 0;
    for (uint32_t slot = pool->unsettled_first; slot != 0; slot = made_match_at(core, slot)->next) {
        check_unsettled(core, pool, slot);
        ASSERT(made_match_at(core, slot)->number > before);
        before = made_match_at(core, slot)->number;
        unsettled_count++;
        member_count += made_match_at(core, slot)->member_count;
    }
    for (uint32_t slot = pool->settled_first; slot != 0; slot = made_match_at(core, slot)->next) {
        check_settled(core, pool, slot);
        settled_count++;
    }
    ASSERT(unsettled_count == pool->results && settled_count == pool->settled_count);
    ASSERT(member_count == count_taken(pool));
}

void made_match_check(const struct core *core)
{
    for (uint32_t i = 0; i < ticket_pool_count(core); i++)
        check_pool(core, ticket_pool_at(core, i));
    table_check(&core->matches.by_number);
    table_check(&core->matches.by_message);
    table_check(&core->matches.by_proposal);
    heap_check(&core->matches.holds);
}
