/* Decisions about matches: proposals, results of the built-in matcher, confirmations, put backs. Only check_members()
 * makes sure that no ticket is matched twice: nothing is leased, hidden or locked before. Nobody else makes matches. */
#include "core/pools/decide_match.h"

#include "base/budget.h"
#include "core/finish.h"
#include "core/pools/match_result.h"

/* --- making ------------------------------------------------------------------------------------------------------- */

/* A match that will be made. */
struct making {
    const struct match_seat *seats;
    uint32_t count;
    struct bytes proposal; /* empty: the built-in matcher's */
    struct digest_tag digest;
    const struct bytes *body; /* NULL: none */
};

/* Appends the numbers of the waiting tickets that share an exclusive set with the ticket. */
static void append_siblings(const struct ticket_pool *pool, uint32_t ticket, struct buffer *out)
{
    uint32_t set = ticket_at(&pool->tickets, ticket)->set;
    for (uint32_t slot = set == 0 ? 0 : exclusive_set_at(pool, set)->first; slot != 0;
         slot = ticket_at(&pool->tickets, slot)->set_next)
        if (slot != ticket && ticket_at(&pool->tickets, slot)->state == TICKET_WAITING)
            buffer_append_u64(out, ticket_at(&pool->tickets, slot)->entry.number);
}

static void append_all_siblings(const struct ticket_pool *pool, const struct match_seat *seats, uint32_t count,
                                struct buffer *out)
{
    for (uint32_t i = 0; i < count; i++)
        append_siblings(pool, seats[i].ticket, out);
}

static void append_members(const struct ticket_pool *pool, const struct making *making, struct buffer *out)
{
    for (uint32_t i = 0; i < making->count; i++) {
        const struct ticket *ticket = ticket_at(&pool->tickets, making->seats[i].ticket);
        buffer_append_u64(out, ticket->entry.number);
        buffer_append_u32(out, ticket->version);
        buffer_append_u8(out, making->seats[i].team);
    }
}

/* Makes the match, or holds its tickets if the pool confirms. Returns its number. */
static uint64_t make_match(struct core *core, struct ticket_pool *pool, const struct making *making)
{
    bool is_held = pool->spec.confirm_ms > 0;
    uint64_t number = core->matches.match_number + 1;
    struct event event = {
        .kind = EVENT_MATCHED,
        .matched = {.pool = pool->id,
                    .match = number,
                    .count = making->count,
                    .digest_low = making->digest.low,
                    .digest_high = making->digest.high,
                    .proposal = making->proposal},
    };
    struct buffer members, siblings;
    buffer_init(&members);
    buffer_init(&siblings);
    append_members(pool, making, &members);
    event.matched.members = buffer_bytes(&members);
    if (is_held) {
        event.matched.confirm_by_ms = core->now_ms + pool->spec.confirm_ms;
        event.matched.has_body = making->body != NULL;
        if (making->body != NULL)
            event.matched.body = *making->body;
    } else {
        append_all_siblings(pool, making->seats, making->count, &siblings);
        event.matched.siblings = buffer_bytes(&siblings);
        event.matched.message = match_result_send(core, pool, number, making->seats, making->count, making->body);
    }
    core_emit(core, &event);
    if (is_held)
        buffer_append_u64(&core->matches.new_holds, number);
    buffer_deinit(&members);
    buffer_deinit(&siblings);
    return number;
}

/* --- proposals: the commit check, in its order -------------------------------------------------------------------- */

/* What a repeat must have in common with the matched proposal: members, versions, body. */
static struct digest_tag digest_of(struct core *core, const struct proposal_command *command)
{
    buffer_truncate(&core->scratch, 0);
    buffer_append_u32(&core->scratch, command->member_count);
    for (uint32_t i = 0; i < command->member_count; i++) {
        buffer_append_sized(&core->scratch, command->members[i].key);
        buffer_append_u32(&core->scratch, command->members[i].version);
    }
    buffer_append_u8(&core->scratch, command->has_body);
    struct bytes parts[] = {buffer_bytes(&core->scratch), command->body};
    return digest_keyed_wide(core->digest_owned, parts, ARRAY_LENGTH(parts));
}

/* Was a proposal with that id already matched? This is checked first, because the match has retired its members. */
static bool is_repeat(const struct core *core, const struct ticket_pool *pool, const struct proposal_command *command,
                      struct digest_tag digest, struct proposal_result *result)
{
    uint32_t slot = made_match_find_proposal(core, pool, command->proposal);
    if (slot == 0)
        return false;
    const struct made_match *match = made_match_at(core, slot);
    bool is_same = digest_tag_equal(match->digest, digest);
    result->status = is_same ? PROPOSAL_MATCHED : PROPOSAL_KEY_REUSED;
    result->match = is_same ? match->number : 0;
    return true;
}

static bool names_ticket(const struct proposal_result *result, uint32_t count, uint32_t ticket)
{
    for (uint32_t i = 0; i < count; i++)
        if (result->tickets[i] == ticket)
            return true;
    return false;
}

/* Finds the members' tickets. False: one is unknown or named twice. */
static bool find_members(const struct ticket_pool *pool, const struct proposal_command *command,
                         struct proposal_result *result)
{
    bool are_good = command->member_count > 0;
    for (uint32_t i = 0; i < command->member_count; i++) {
        uint32_t ticket = ticket_find(pool, command->members[i].key);
        if (ticket == 0)
            result->faults[i] = MEMBER_UNKNOWN;
        else if (names_ticket(result, i, ticket))
            result->faults[i] = MEMBER_TWICE;
        result->tickets[i] = ticket;
        are_good = are_good && result->faults[i] == MEMBER_IS_GOOD;
    }
    return are_good;
}

static uint32_t gather_entries(const struct ticket_pool *pool, const struct proposal_result *result, uint32_t count,
                               const struct entry *entries[RULES_WEIGHT_MAX])
{
    uint32_t weight = 0;
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = ticket_entry(pool, result->tickets[i]);
        weight += entries[i]->weight;
    }
    return weight;
}

/* Can parties with these weights fill the teams, whatever the other rules say? */
static bool divide_by_weight(const struct rules *rules, const struct entry *const *entries, uint32_t count,
                             uint8_t *teams)
{
    struct rules bare = *rules; /* all pointers are the other's */
    bare.rule_count = 0;
    uint32_t budget = GROUP_PLACES_MAX;
    return group_divide(&bare, entries, count, teams, &budget);
}

/* Could the members be a match, judged by their weights and their sizes as text? Of a member that is over for good
 * these are forgotten; then it only counts that it is over. */
static bool check_shape(const struct ticket_pool *pool, uint32_t count, struct proposal_result *result)
{
    const struct rules *rules = pool->rules_owned;
    const struct entry *entries[RULES_WEIGHT_MAX];
    uint8_t teams[RULES_WEIGHT_MAX];
    uint64_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct ticket *ticket = ticket_at(&pool->tickets, result->tickets[i]);
        if (ticket->is_settled)
            return true;
        size += ticket_content_size(&ticket->content);
    }
    uint32_t weight = gather_entries(pool, result, count, entries);
    result->is_wrong_weight = (rules->weight != 0 && weight != rules->weight) ||
                              (rules->has_teams && !divide_by_weight(rules, entries, count, teams));
    result->is_too_large = size > TICKET_GROUP_SIZE_MAX;
    return !result->is_wrong_weight && !result->is_too_large;
}

static enum member_fault fault_of(const struct ticket_pool *pool, const struct ticket *ticket, uint32_t version)
{
    switch ((enum ticket_state)ticket->state) {
    case TICKET_HELD:
        return MEMBER_HELD;
    case TICKET_MATCHED:
        return MEMBER_MATCHED;
    case TICKET_CANCELLED:
        return MEMBER_CANCELLED;
    case TICKET_EXPIRED:
        return MEMBER_EXPIRED;
    case TICKET_WAITING:
        break;
    }
    if (!ticket_is_free(pool, ticket))
        return MEMBER_EXCLUSIVE;
    return ticket->version == version ? MEMBER_IS_GOOD : MEMBER_STALE;
}

/* Is another member of the same exclusive set? */
static bool has_rival(const struct ticket_pool *pool, const struct proposal_result *result, uint32_t count,
                      uint32_t member)
{
    uint32_t set = ticket_at(&pool->tickets, result->tickets[member])->set;
    for (uint32_t i = 0; set != 0 && i < count; i++)
        if (i != member && ticket_at(&pool->tickets, result->tickets[i])->set == set)
            return true;
    return false;
}

/* Do all members wait, at the versions that the proposer knows? If not, each one that doesn't is named, and so are
 * those with old versions. */
static enum proposal_status check_members(const struct ticket_pool *pool, const struct proposal_command *command,
                                          struct proposal_result *result)
{
    uint32_t conflict_count = 0, stale_count = 0;
    for (uint32_t i = 0; i < command->member_count; i++) {
        const struct ticket *ticket = ticket_at(&pool->tickets, result->tickets[i]);
        enum member_fault fault = fault_of(pool, ticket, command->members[i].version);
        if (ticket->state == TICKET_WAITING && has_rival(pool, result, command->member_count, i))
            fault = MEMBER_EXCLUSIVE;
        result->faults[i] = (uint8_t)fault;
        stale_count += fault == MEMBER_STALE;
        conflict_count += fault != MEMBER_STALE && fault != MEMBER_IS_GOOD;
    }
    return conflict_count > 0 ? PROPOSAL_CONFLICT : stale_count > 0 ? PROPOSAL_STALE : PROPOSAL_MATCHED;
}

/* Gives each member its team. If the pool verifies, the members must fit each other by the present rules. That also
 * decides a proposal made under older rules. */
static enum proposal_status check_rules(const struct ticket_pool *pool, const struct proposal_command *command,
                                        struct proposal_result *result, uint8_t teams[RULES_WEIGHT_MAX])
{
    const struct rules *rules = pool->rules_owned;
    const struct entry *entries[RULES_WEIGHT_MAX];
    gather_entries(pool, result, command->member_count, entries);
    if (pool->spec.verifies) {
        result->check.work_max = (uint64_t)PROPOSAL_STEPS_MAX * PAIR_WORK_A_STEP;
        bool fits = group_fits(rules, entries, command->member_count, teams, &result->check);
        bool is_dear = result->check.verdict == PAIR_DEAR;
        return fits ? PROPOSAL_MATCHED : is_dear ? PROPOSAL_INVALID : PROPOSAL_BY_RULES;
    }
    result->is_stale_rules = command->rules_version != 0 && command->rules_version != pool->rules_version;
    if (result->is_stale_rules)
        return PROPOSAL_STALE;
    uint32_t budget = GROUP_PLACES_MAX;
    if (rules->has_teams && !group_divide(rules, entries, command->member_count, teams, &budget))
        divide_by_weight(rules, entries, command->member_count, teams); /* as check_shape() found */
    result->check.work += (uint64_t)(GROUP_PLACES_MAX - budget) * group_division_work(rules);
    return PROPOSAL_MATCHED;
}

static enum proposal_status check_proposal(const struct core *core, const struct ticket_pool *pool,
                                           const struct proposal_command *command, struct proposal_result *result,
                                           uint8_t teams[RULES_WEIGHT_MAX])
{
    if (!find_members(pool, command, result) || !check_shape(pool, command->member_count, result))
        return PROPOSAL_INVALID;
    enum proposal_status status = check_members(pool, command, result);
    if (status == PROPOSAL_MATCHED)
        status = check_rules(pool, command, result, teams);
    if (status == PROPOSAL_MATCHED && !match_result_has_room(core, pool))
        status = PROPOSAL_RESULT_FULL;
    return status;
}

static void count_refusal(struct ticket_pool *pool, uint32_t member_count, const struct proposal_result *result)
{
    pool->tally.conflicts += result->status == PROPOSAL_CONFLICT;
    pool->tally.stale += result->status == PROPOSAL_STALE;
    pool->tally.other_refusals += result->status != PROPOSAL_CONFLICT && result->status != PROPOSAL_STALE;
    for (uint32_t i = 0; i < member_count; i++)
        if (result->tickets[i] != 0)
            ticket_at(&pool->tickets, result->tickets[i])->conflicts++;
}

void decide_propose(struct core *core, struct ticket_pool *pool, const struct proposal_command *command,
                    struct proposal_result *result)
{
    ASSERT(command->member_count <= RULES_WEIGHT_MAX && command->proposal.size > 0);
    memset(result, 0, sizeof(*result));
    struct digest_tag digest = digest_of(core, command);
    if (is_repeat(core, pool, command, digest, result))
        return;
    uint8_t teams[RULES_WEIGHT_MAX] = {0};
    result->status = check_proposal(core, pool, command, result, teams);
    pool->matcher.counters.expression_errors += result->check.expression_errors; /* M31 */
    if (result->status != PROPOSAL_MATCHED) {
        count_refusal(pool, command->member_count, result);
        return;
    }
    struct match_seat seats[RULES_WEIGHT_MAX];
    for (uint32_t i = 0; i < command->member_count; i++)
        seats[i] = (struct match_seat){.ticket = result->tickets[i], .team = teams[i]};
    result->match = make_match(core, pool,
                               &(struct making){.seats = seats,
                                                .count = command->member_count,
                                                .proposal = command->proposal,
                                                .digest = digest,
                                                .body = command->has_body ? &command->body : NULL});
}

/* --- the built-in matcher ----------------------------------------------------------------------------------------- */

/* Are the members' texts together no larger than a result may be? If the pool's size was raised while tickets waited,
 * they may together be too large. */
static bool fits_a_result(const struct ticket_pool *pool, const struct matcher_group *group)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < group->count; i++)
        size += ticket_content_size(&ticket_at(&pool->tickets, group->slots[i])->content);
    return size <= TICKET_GROUP_SIZE_MAX;
}

static void make_found(struct core *core, struct ticket_pool *pool, const struct matcher_group *group)
{
    struct match_seat seats[RULES_WEIGHT_MAX];
    for (uint32_t i = 0; i < group->count; i++) {
        seats[i] = (struct match_seat){.ticket = group->slots[i], .team = group->teams[i]};
        const struct ticket *ticket = ticket_at(&pool->tickets, group->slots[i]);
        ASSERT(ticket->state == TICKET_WAITING && ticket_is_free(pool, ticket));
    }
    make_match(core, pool, &(struct making){.seats = seats, .count = group->count});
}

void decide_match(struct core *core, struct ticket_pool *pool, uint32_t steps)
{
    /* While the matcher is being filled, earlier tickets may still be missing. decide_due() fills it and then lets it
     * search. */
    if (!pool->is_awake || pool->index_next != 0 || pool->spec.matcher == MATCHER_EXTERNAL)
        return;
    struct matcher_group group;
    /* If the result queue is full, the tickets wait: no search, because no match could be made. */
    while (match_result_has_room(core, pool) && !core_frame_is_ample(core) &&
           matcher_look(&pool->matcher, core->now_ms, &steps, &group) == MATCHER_FOUND)
        if (fits_a_result(pool, &group))
            make_found(core, pool, &group);
        else
            pool->tally.other_refusals++; /* its seed searches again when it is changed or takes a step */
    ticket_pool_set_timer(core, pool);
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

static void undo(struct core *core, const struct made_match *match, enum match_undoing reason, struct bytes leavers)
{
    core_emit(core, &(struct event){
                        .kind = EVENT_MATCH_UNDONE,
                        .match_undone = {.match = match->number, .reason = (uint8_t)reason, .leavers = leavers},
                    });
}

static void end_hold(struct core *core, const struct made_match *match)
{
    struct buffer leavers;
    buffer_init(&leavers);
    for (uint32_t i = 0; i < match->member_count; i++)
        if (!match->members_owned[i].has_confirmed)
            buffer_append_u64(&leavers, match->members_owned[i].ticket);
    undo(core, match, MATCH_UNDONE_TIMED_OUT, buffer_bytes(&leavers));
    buffer_deinit(&leavers);
}

/* If more than this fraction of its time was over before anybody could know of the match, its time begins anew. */
#define HOLD_LATE_SHARE 10u

/* How long it waits for its confirmations; its own value if its pool no longer asks for any. */
static uint64_t hold_ms(const struct core *core, const struct made_match *match)
{
    uint64_t confirm_ms = ticket_pool_find_by_id(core, match->pool)->spec.confirm_ms;
    return confirm_ms > 0 ? confirm_ms : match->confirm_by_ms - match->made_at_ms;
}

/* It waits for them once more as long. */
static void renew_hold(struct core *core, const struct made_match *match, uint64_t now_ms)
{
    uint64_t confirm_ms = hold_ms(core, match);
    if (now_ms + confirm_ms <= match->confirm_by_ms)
        return;
    core_emit(core, &(struct event){
                        .kind = EVENT_HOLD_RENEWED,
                        .hold_renewed = {.match = match->number, .confirm_by_ms = now_ms + confirm_ms},
                    });
}

uint64_t core_take_new_hold(struct core *core, size_t *next)
{
    if (*next >= core->matches.new_holds.size) {
        buffer_truncate(&core->matches.new_holds, 0);
        return 0;
    }
    uint64_t number = bytes_get_u64(core->matches.new_holds.data_owned + *next);
    *next += sizeof(number);
    uint32_t slot = made_match_find(core, number);
    if (slot != 0)
        made_match_at(core, slot)->is_unseen = true;
    return number;
}

void decide_show_hold(struct core *core, uint64_t number, uint64_t now_ms)
{
    uint32_t slot = made_match_find(core, number);
    if (slot == 0)
        return;
    struct made_match *match = made_match_at(core, slot);
    match->is_unseen = false;
    if (match->state == MATCH_HELD && now_ms > match->made_at_ms + hold_ms(core, match) / HOLD_LATE_SHARE)
        renew_hold(core, match, now_ms);
}

void decide_end_holds(struct core *core, unsigned portion)
{
    while (portion > 0 && made_match_due_ms(core) <= core->now_ms && !core_frame_is_ample(core)) {
        const struct made_match *match = made_match_at(core, heap_top(&core->matches.holds).slot);
        budget_spend(&portion, match->member_count);
        if (match->is_unseen)
            renew_hold(core, match, core->now_ms);
        else
            end_hold(core, match);
    }
}

/* Do the seats belong to teams in the rules, each with the right weight? They were given when the match was held, and
 * the rules may have changed since. */
static bool seats_fill_teams(const struct ticket_pool *pool, const struct match_seat *seats, uint32_t count)
{
    const struct rules *rules = pool->rules_owned;
    uint32_t weights[RULES_TEAMS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (seats[i].team >= rules->team_count)
            return false;
        weights[seats[i].team] += ticket_at(&pool->tickets, seats[i].ticket)->entry.weight;
    }
    for (uint32_t team = 0; rules->weight != 0 && team < rules->team_count; team++)
        if (weights[team] != rules->teams[team].size)
            return false;
    return true;
}

/* Every member confirmed. False: under new rules it is no match. It is undone, and nobody is cancelled. */
static bool make_held(struct core *core, const struct ticket_pool *pool, const struct made_match *match)
{
    struct match_seat seats[RULES_WEIGHT_MAX];
    for (uint32_t i = 0; i < match->member_count; i++)
        seats[i] = (struct match_seat){.ticket = ticket_find_by_number(pool, match->members_owned[i].ticket),
                                       .team = match->members_owned[i].team};
    if (!seats_fill_teams(pool, seats, match->member_count)) {
        undo(core, match, MATCH_UNDONE_PUT_BACK, bytes_make(NULL, 0));
        return false;
    }
    struct buffer siblings;
    buffer_init(&siblings);
    append_all_siblings(pool, seats, match->member_count, &siblings);
    uint64_t message = match_result_send(core, pool, match->number, seats, match->member_count,
                                         match->has_body ? &match->body_owned : NULL);
    core_emit(core, &(struct event){
                        .kind = EVENT_MATCH_MADE,
                        .match_made = {.match = match->number, .message = message, .siblings = buffer_bytes(&siblings)},
                    });
    buffer_deinit(&siblings);
    return true;
}

/* The index of the member whose ticket has that key, or UINT32_MAX. */
static uint32_t find_member(const struct ticket_pool *pool, const struct made_match *match, struct bytes key)
{
    uint32_t slot = ticket_find(pool, key);
    uint64_t number = slot == 0 ? 0 : ticket_at(&pool->tickets, slot)->entry.number;
    for (uint32_t i = 0; i < match->member_count; i++)
        if (match->members_owned[i].ticket == number)
            return i;
    return UINT32_MAX;
}

static enum match_outcome confirm_member(struct core *core, const struct ticket_pool *pool,
                                         const struct made_match *match, uint32_t member)
{
    if (match->members_owned[member].has_confirmed)
        return MATCH_WAITS;
    core_emit(core, &(struct event){.kind = EVENT_CONFIRMED, .confirmed = {.match = match->number, .member = member}});
    if (!made_match_is_confirmed(match))
        return MATCH_WAITS;
    return make_held(core, pool, match) ? MATCH_WAS_MADE : MATCH_IS_UNDONE;
}

enum match_outcome decide_confirm(struct core *core, struct ticket_pool *pool, uint64_t number, struct bytes key,
                                  bool accepts)
{
    uint32_t slot = made_match_find(core, number);
    const struct made_match *match = slot == 0 ? NULL : made_match_at(core, slot);
    if (match == NULL || match->pool != pool->id)
        return MATCH_IS_UNKNOWN;
    if (match->state > MATCH_MADE)
        return MATCH_DONE; /* its members are forgotten */
    uint32_t member = find_member(pool, match, key);
    if (member == UINT32_MAX)
        return MATCH_IS_UNKNOWN;
    if (match->state == MATCH_HELD && match->confirm_by_ms <= core->now_ms && !match->is_unseen)
        end_hold(core, match); /* its time is over, although that is not decided yet */
    if (match->state != MATCH_HELD)
        return MATCH_DONE;
    if (accepts)
        return confirm_member(core, pool, match, member);
    uint8_t leaver[sizeof(uint64_t)];
    bytes_put_u64(leaver, match->members_owned[member].ticket);
    undo(core, match, MATCH_UNDONE_REFUSED, bytes_make(leaver, sizeof(leaver)));
    return MATCH_IS_UNDONE;
}

/* --- putting back ------------------------------------------------------------------------------------------------- */

enum match_outcome decide_put_back(struct core *core, struct ticket_pool *pool, uint64_t number)
{
    uint32_t slot = made_match_find(core, number);
    const struct made_match *match = slot == 0 ? NULL : made_match_at(core, slot);
    if (match == NULL || match->pool != pool->id)
        return MATCH_IS_UNKNOWN;
    switch ((enum match_state)match->state) {
    case MATCH_ACKED:
        return MATCH_IS_ACKED;
    case MATCH_PUT_BACK:
    case MATCH_REFUSED: /* its tickets wait again, or were cancelled: nothing is left to undo */
        return MATCH_DONE;
    case MATCH_MADE: {
        uint32_t message = core_find_message(core, match->message);
        if (core_message_is_dead(core, core_message(core, message)))
            return MATCH_IS_ACKED; /* purged, although its end is not in the log yet */
        finish_message(core, message, END_PUT_BACK);
        break;
    }
    case MATCH_HELD:
        break;
    }
    undo(core, match, MATCH_UNDONE_PUT_BACK, bytes_make(NULL, 0));
    return MATCH_DONE;
}
