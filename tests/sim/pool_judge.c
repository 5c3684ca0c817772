#include "pool_judge.h"

#include "core/state.h"
#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RESULTS BYTES("results")
#define EXPIRED BYTES("expired")

struct judge_model judge_model;
struct judge_request judge_request;
uint64_t judge_stall_ms;

static struct judge_rules rules;
static struct world *world;
static struct judge_model durable; /* at the end of the newest durable frame */
static uint64_t pending_result;    /* a message in the result queue that no match has said is its own */
static uint64_t pending_expiry;    /* the same of the expiry queue */
static uint64_t pending_undoing;   /* a match whose result was ended to put it back */

void judge_begin(const struct judge_rules *of_pool, struct world *of_world)
{
    rules = *of_pool;
    world = of_world;
    memset(&judge_model, 0, sizeof(judge_model));
    memset(&judge_request, 0, sizeof(judge_request));
    judge_model.rules_version = 1;
    memcpy(judge_model.near, rules.near, sizeof(rules.near));
    durable = judge_model;
    pending_result = pending_expiry = pending_undoing = 0;
}

void judge_end(void)
{
    world = NULL;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static struct judge_ticket *find_ticket(uint64_t number)
{
    for (int i = 0; i < JUDGE_TICKETS; i++)
        if (number != 0 && judge_model.tickets[i].number == number)
            return &judge_model.tickets[i];
    fail("an event names ticket %" PRIu64 ", which there is not", number);
}

struct judge_match *judge_find_match(uint64_t number)
{
    for (unsigned i = 0; i < judge_model.match_count; i++)
        if (number != 0 && judge_model.matches[i].number == number)
            return &judge_model.matches[i];
    return NULL;
}

struct judge_match *judge_find_proposal(int proposal)
{
    for (unsigned i = 0; i < judge_model.match_count; i++)
        if (judge_model.matches[i].number != 0 && judge_model.matches[i].proposal == proposal)
            return &judge_model.matches[i];
    return NULL;
}

static bool is_taken(const struct judge_ticket *ticket)
{
    return (ticket->state == TICKET_HELD || ticket->state == TICKET_MATCHED) && !ticket->is_settled;
}

bool judge_is_free(const struct judge_ticket *ticket)
{
    for (int i = 0; i < JUDGE_TICKETS; i++) {
        const struct judge_ticket *other = &judge_model.tickets[i];
        if (other != ticket && other->number != 0 && ticket->set != -1 && other->set == ticket->set && is_taken(other))
            return false;
    }
    return true;
}

unsigned judge_count_unsettled(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < judge_model.match_count; i++)
        count += judge_model.matches[i].number != 0 && judge_model.matches[i].state <= JUDGE_MADE;
    return count;
}

bool judge_fits(const struct judge_ticket *a, const struct judge_ticket *b)
{
    if ((a->set != -1 && a->set == b->set) || (a->need != -1 && b->mode != a->need) ||
        (b->need != -1 && a->mode != b->need))
        return false;
    int near_a = judge_model.near[a->level], near_b = judge_model.near[b->level];
    bool is_off = rules.is_either ? near_a == -1 || near_b == -1 : near_a == -1 && near_b == -1;
    if (is_off)
        return true;
    int least = near_a == -1 ? near_b : near_b == -1 ? near_a : near_a < near_b ? near_a : near_b;
    int most = near_a > near_b ? near_a : near_b;
    int distance = a->mmr < b->mmr ? b->mmr - a->mmr : a->mmr - b->mmr;
    return distance <= (rules.is_either ? most : least);
}

/* --- tickets ------------------------------------------------------------------------------------------------------ */

static void settle_ticket(struct judge_ticket *ticket, uint64_t now)
{
    ticket->is_settled = true;
    ticket->ended_at = now;
    ticket->order = ++judge_model.order;
}

static void see_offer(const struct event_ticket_offered *offered, uint64_t now)
{
    struct judge_request *request = &judge_request;
    struct judge_ticket *ticket = &judge_model.tickets[request->tickets[0]];
    char key[8];
    snprintf(key, sizeof(key), "t%d", request->tickets[0]);
    if (request->kind != ASKS_OFFER || !bytes_equal(offered->key, bytes_from_string(key)))
        fail("ticket %.*s is offered, which nobody asked for", BYTES_FORMAT(offered->key));
    if (ticket->number != 0)
        fail("ticket %s is offered twice", key);
    *ticket = (struct judge_ticket){.number = offered->number,
                                    .offered_at = now,
                                    .expires_at = request->ttl_ms == 0 ? UINT64_MAX : now + request->ttl_ms,
                                    .version = 1,
                                    .state = TICKET_WAITING,
                                    .offered_mmr = request->mmr,
                                    .mmr = request->mmr,
                                    .mode = request->mode,
                                    .need = request->need,
                                    .set = request->set};
    if (offered->number != ++judge_model.ticket_number || offered->expires_at_ms != ticket->expires_at)
        fail("ticket %s has another number or ttl than it should", key);
    request->was_offered = true;
}

static void see_update(const struct event_ticket_updated *updated)
{
    const struct judge_request *request = &judge_request;
    struct judge_ticket *ticket = find_ticket(updated->number);
    if (request->kind != ASKS_UPDATE || ticket != &judge_model.tickets[request->tickets[0]] ||
        ticket->state != TICKET_WAITING || (request->versions[0] != 0 && request->versions[0] != ticket->version))
        fail("ticket t%td is updated, which should not have been", ticket - judge_model.tickets);
    ticket->version++;
    ticket->mmr = request->mmr;
    ticket->mode = request->mode;
}

static void see_steps(const struct event_tickets_widened *widened, uint64_t now)
{
    struct cursor cursor = cursor_make(widened->tickets);
    for (uint32_t i = 0; i < widened->count; i++) {
        struct judge_ticket *ticket = find_ticket(cursor_u64(&cursor));
        uint8_t level = cursor_u8(&cursor);
        if (ticket->state != TICKET_WAITING || level > JUDGE_STEPS || level <= ticket->level ||
            now < ticket->offered_at + rules.after_ms[level])
            fail("ticket t%td takes the step to level %u too early, or again", ticket - judge_model.tickets, level);
        ticket->level = level;
    }
}

static void see_end(const struct event_ticket_ended *ended, uint64_t now)
{
    struct judge_ticket *ticket = find_ticket(ended->number);
    bool is_expired = ended->reason == TICKET_END_EXPIRED;
    if (ticket->state != TICKET_WAITING)
        fail("ticket t%td ends though it does not wait", ticket - judge_model.tickets);
    if (is_expired ? now < ticket->expires_at
                   : judge_request.kind != ASKS_CANCEL || ticket != &judge_model.tickets[judge_request.tickets[0]])
        fail("ticket t%td ends without a reason", ticket - judge_model.tickets);
    if (is_expired && pending_expiry == 0)
        fail("ticket t%td expires and the expiry queue is not told in the same record", ticket - judge_model.tickets);
    pending_expiry = 0;
    ticket->state = is_expired ? TICKET_EXPIRED : TICKET_CANCELLED;
    judge_model.expired_count += is_expired;
    settle_ticket(ticket, now);
}

/* --- matches ------------------------------------------------------------------------------------------------------ */

/* The siblings of the members are cancelled: just those that wait. */
static void see_siblings(const struct judge_match *match, struct bytes siblings, uint64_t now)
{
    struct cursor cursor = cursor_make(siblings);
    unsigned expected = 0;
    for (int i = 0; i < JUDGE_TICKETS; i++) {
        const struct judge_ticket *ticket = &judge_model.tickets[i];
        bool is_sibling = false;
        for (unsigned k = 0; k < 2; k++)
            is_sibling = is_sibling || (ticket->set != -1 && ticket->set == judge_model.tickets[match->members[k]].set);
        expected += ticket->number != 0 && ticket->state == TICKET_WAITING && is_sibling;
    }
    if (siblings.size != expected * sizeof(uint64_t))
        fail("match %" PRIu64 " cancels %zu siblings; it should be %u", match->number, siblings.size / 8, expected);
    while (cursor.rest.size > 0) {
        struct judge_ticket *ticket = find_ticket(cursor_u64(&cursor));
        const struct judge_ticket *members[] = {&judge_model.tickets[match->members[0]],
                                                &judge_model.tickets[match->members[1]]};
        if (ticket->state != TICKET_WAITING || ticket->set == -1 ||
            (ticket->set != members[0]->set && ticket->set != members[1]->set))
            fail("match %" PRIu64 " cancels ticket t%td, which is no sibling", match->number,
                 ticket - judge_model.tickets);
        ticket->state = TICKET_CANCELLED;
        settle_ticket(ticket, now);
    }
}

static void check_cause(const struct event_matched *matched, const struct judge_match *match)
{
    struct judge_request *request = &judge_request;
    const struct judge_ticket *first = &judge_model.tickets[match->members[0]];
    const struct judge_ticket *second = &judge_model.tickets[match->members[1]];
    if (matched->proposal.size == 0) {
        if (!rules.is_built_in)
            fail("match %" PRIu64 " was found by a matcher that should not look", match->number);
    } else {
        if (request->kind != ASKS_PROPOSE || request->count != 2 || request->tickets[0] != match->members[0] ||
            request->tickets[1] != match->members[1])
            fail("match %" PRIu64 " is not what was proposed", match->number);
        if (request->versions[0] != first->version || request->versions[1] != second->version)
            fail("match %" PRIu64 " was proposed under an older version", match->number);
        if (judge_find_proposal(request->proposal) != NULL)
            fail("proposal p%d is matched twice", request->proposal);
        if (!rules.verifies && request->rules_version != 0 && request->rules_version != judge_model.rules_version)
            fail("match %" PRIu64 " was proposed under other rules", match->number);
        request->was_matched = true;
    }
    if ((matched->proposal.size == 0 || rules.verifies) && !judge_fits(first, second))
        fail("match %" PRIu64 ": t%d and t%d do not fit", match->number, match->members[0], match->members[1]);
}

static void see_match(const struct event_matched *matched, uint64_t now)
{
    if (judge_model.match_count == JUDGE_MATCHES)
        fail("more matches than the judge has room for");
    struct judge_match *match = &judge_model.matches[judge_model.match_count];
    *match = (struct judge_match){.number = matched->match,
                                  .message = matched->message,
                                  .proposal = matched->proposal.size == 0 ? -1 : judge_request.proposal,
                                  .state = matched->message == 0 ? JUDGE_HELD : JUDGE_MADE};
    struct cursor cursor = cursor_make(matched->members);
    if (matched->count != 2 || matched->match != ++judge_model.match_number)
        fail("match %" PRIu64 " has %u members, or not the next number", matched->match, matched->count);
    for (unsigned i = 0; i < 2; i++) {
        const struct judge_ticket *ticket = find_ticket(cursor_u64(&cursor));
        match->members[i] = (int)(ticket - judge_model.tickets);
        match->versions[i] = cursor_u32(&cursor);
        (void)cursor_u8(&cursor);
        if (ticket->state != TICKET_WAITING || ticket->version != match->versions[i])
            fail("match %" PRIu64 " takes t%d, which does not wait at that version", match->number, match->members[i]);
        if (!judge_is_free(ticket))
            fail("match %" PRIu64 " takes t%d, of whose exclusive set another one is taken", match->number,
                 match->members[i]);
    }
    const struct judge_ticket *first = &judge_model.tickets[match->members[0]];
    if (match->members[0] == match->members[1] ||
        (first->set != -1 && first->set == judge_model.tickets[match->members[1]].set))
        fail("match %" PRIu64 " has one ticket, or one exclusive set, twice", match->number);
    if (rules.results_max != 0 && judge_count_unsettled() >= rules.results_max)
        fail("match %" PRIu64 " is made though the result queue is full", match->number);
    check_cause(matched, match);
    if (matched->message != pending_result || (matched->message == 0) != (rules.confirm_ms != 0))
        fail("match %" PRIu64 " and its result are not one record", match->number);
    if (matched->confirm_by_ms != (rules.confirm_ms == 0 ? 0 : now + rules.confirm_ms))
        fail("match %" PRIu64 " is held for another time than it should", match->number);
    match->confirm_by = matched->confirm_by_ms;
    match->held_at = now;
    match->seen_at = 0;
    pending_result = 0;
    judge_model.match_count++;
    for (unsigned i = 0; i < 2; i++) {
        judge_model.tickets[match->members[i]].state = matched->message == 0 ? TICKET_HELD : TICKET_MATCHED;
        judge_model.tickets[match->members[i]].match = match->number;
    }
    if (matched->message != 0)
        see_siblings(match, matched->siblings, now);
}

static struct judge_match *find_known(uint64_t number)
{
    struct judge_match *match = judge_find_match(number);
    if (match == NULL)
        fail("an event names match %" PRIu64 ", which there is not", number);
    return match;
}

/* Whoever is to confirm a match has all of the time for that from when he can hear of it. */
static void see_renewal(const struct event_hold_renewed *renewed)
{
    struct judge_match *match = find_known(renewed->match);
    bool is_late = world->now_ms > match->held_at + rules.confirm_ms / 10;
    if (match->state != JUDGE_HELD || !is_late || (match->seen_at != 0 && match->seen_at != world->now_ms) ||
        renewed->confirm_by_ms != world->now_ms + rules.confirm_ms || renewed->confirm_by_ms <= match->confirm_by)
        fail("match %" PRIu64 " is held until %" PRIu64 ", not %" PRIu64 ", which should not have been", match->number,
             renewed->confirm_by_ms, match->confirm_by);
    match->confirm_by = renewed->confirm_by_ms;
}

static void see_yes(const struct event_confirmed *confirmed, uint64_t now)
{
    struct judge_match *match = find_known(confirmed->match);
    if (judge_request.kind != ASKS_CONFIRM || judge_request.match != match->number || !judge_request.accepts ||
        match->state != JUDGE_HELD || confirmed->member > 1 || match->has_confirmed[confirmed->member] ||
        match->members[confirmed->member] != judge_request.tickets[0] || now >= match->confirm_by)
        fail("a yes by member %u for match %" PRIu64 " (state %d, until %" PRIu64 ", now %" PRIu64
             ") that should not have been",
             confirmed->member, match->number, match->state, match->confirm_by, now);
    match->has_confirmed[confirmed->member] = true;
}

static void see_made(const struct event_match_made *made, uint64_t now)
{
    struct judge_match *match = find_known(made->match);
    if (match->state != JUDGE_HELD || !match->has_confirmed[0] || !match->has_confirmed[1] ||
        made->message != pending_result || made->message == 0)
        fail("match %" PRIu64 " is made without all its members or without its result", match->number);
    pending_result = 0;
    match->state = JUDGE_MADE;
    match->message = made->message;
    for (unsigned i = 0; i < 2; i++)
        judge_model.tickets[match->members[i]].state = TICKET_MATCHED;
    see_siblings(match, made->siblings, now);
    judge_request.was_made = true;
}

static void settle_match(struct judge_match *match, int state, uint64_t now)
{
    match->state = state;
    match->message = 0;
    match->ended_at = now;
    match->order = ++judge_model.order;
}

/* Must this member go, when the match is undone for that reason? */
static bool must_leave(const struct judge_match *match, unsigned member, unsigned reason)
{
    if (reason == MATCH_UNDONE_REFUSED)
        return match->members[member] == judge_request.tickets[0];
    return reason == MATCH_UNDONE_TIMED_OUT && !match->has_confirmed[member];
}

static void see_undoing(const struct event_match_undone *undone, uint64_t now)
{
    struct judge_match *match = find_known(undone->match);
    struct judge_request *request = &judge_request;
    bool is_asked = request->match == match->number;
    bool is_right = false;
    if (undone->reason == MATCH_UNDONE_PUT_BACK)
        is_right = request->kind == ASKS_PUT_BACK && is_asked &&
                   (match->state == JUDGE_HELD || pending_undoing == match->number);
    else if (undone->reason == MATCH_UNDONE_REFUSED)
        is_right = request->kind == ASKS_CONFIRM && is_asked && !request->accepts && match->state == JUDGE_HELD &&
                   now < match->confirm_by;
    else
        is_right = match->state == JUDGE_HELD && now >= match->confirm_by;
    if (!is_right)
        fail("match %" PRIu64 " is undone (reason %u), which should not have been", match->number, undone->reason);
    pending_undoing = 0;
    struct cursor leavers = cursor_make(undone->leavers);
    for (unsigned i = 0; i < 2; i++) {
        struct judge_ticket *ticket = &judge_model.tickets[match->members[i]];
        ticket->match = 0;
        if (!must_leave(match, i, undone->reason)) {
            ticket->state = TICKET_WAITING;
            ticket->version++;
            continue;
        }
        if (cursor_u64(&leavers) != ticket->number)
            fail("match %" PRIu64 " is undone, and t%d should have been cancelled", match->number, match->members[i]);
        ticket->state = TICKET_CANCELLED;
        settle_ticket(ticket, now);
    }
    if (!cursor_is_done(&leavers))
        fail("match %" PRIu64 " is undone, and more are cancelled than should be", match->number);
    request->was_undone = undone->reason != MATCH_UNDONE_TIMED_OUT;
    settle_match(match, undone->reason == MATCH_UNDONE_PUT_BACK ? JUDGE_PUT_BACK : JUDGE_REFUSED, now);
}

/* Nobody of a set waits any more when one of it is matched for good. They go in the order in which they were
 * offered. */
static void cancel_set(int set, uint64_t now)
{
    for (uint64_t number = 1; set != -1 && number <= judge_model.ticket_number; number++)
        for (int i = 0; i < JUDGE_TICKETS; i++) {
            struct judge_ticket *ticket = &judge_model.tickets[i];
            if (ticket->number != number || ticket->state != TICKET_WAITING || ticket->set != set)
                continue;
            ticket->state = TICKET_CANCELLED;
            settle_ticket(ticket, now);
        }
}

static void see_message_end(const struct event_ended *ended, uint64_t now)
{
    struct judge_match *match = NULL;
    for (unsigned i = 0; i < judge_model.match_count; i++)
        if (judge_model.matches[i].number != 0 && judge_model.matches[i].message == ended->number)
            match = &judge_model.matches[i];
    if (match == NULL)
        fail("a message ends that is no match's result");
    if (ended->reason == END_PUT_BACK) {
        pending_undoing = match->number;
        return;
    }
    if (ended->reason != END_DELETED || judge_request.kind != ASKS_DELETE)
        fail("the result of match %" PRIu64 " ends, which nobody asked for", match->number);
    for (unsigned i = 0; i < 2; i++) {
        cancel_set(judge_model.tickets[match->members[i]].set, now);
        settle_ticket(&judge_model.tickets[match->members[i]], now);
    }
    settle_match(match, JUDGE_ACKED, now);
}

/* The oldest ticket, and the oldest match, that are over. */
static struct judge_ticket *oldest_ticket(void)
{
    struct judge_ticket *oldest = NULL;
    for (int i = 0; i < JUDGE_TICKETS; i++) {
        struct judge_ticket *ticket = &judge_model.tickets[i];
        if (ticket->number != 0 && ticket->is_settled && (oldest == NULL || ticket->order < oldest->order))
            oldest = ticket;
    }
    return oldest;
}

static struct judge_match *oldest_match(void)
{
    struct judge_match *oldest = NULL;
    for (unsigned i = 0; i < judge_model.match_count; i++) {
        struct judge_match *match = &judge_model.matches[i];
        if (match->number != 0 && match->state > JUDGE_MADE && (oldest == NULL || match->order < oldest->order))
            oldest = match;
    }
    return oldest;
}

static void see_forgetting(const struct event_tickets_forgotten *forgotten, uint64_t now)
{
    for (uint32_t i = 0; i < forgotten->tickets; i++) {
        struct judge_ticket *ticket = oldest_ticket();
        if (ticket == NULL || ticket->ended_at + rules.retention_ms > now)
            fail("a ticket is forgotten too early");
        ticket->number = 0;
    }
    for (uint32_t i = 0; i < forgotten->matches; i++) {
        struct judge_match *match = oldest_match();
        if (match == NULL || match->ended_at + rules.retention_ms > now)
            fail("a match is forgotten too early");
        match->number = 0;
    }
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static bool is_where(const struct core *core, const struct judge_model *model);

/* Who was to confirm could not, while nobody served: the time of each hold begins anew, as far as there is grace. */
static void extend_holds(const struct event_restarted *restarted)
{
    for (unsigned i = 0; i < ARRAY_LENGTH(judge_model.matches); i++) {
        struct judge_match *match = &judge_model.matches[i];
        if (match->number == 0 || match->state != JUDGE_HELD)
            continue;
        uint64_t own = match->confirm_by - match->held_at;
        uint64_t least = restarted->resumed_at_ms + (own < restarted->grace_ms ? own : restarted->grace_ms);
        match->confirm_by = match->confirm_by < least ? least : match->confirm_by;
        match->seen_at = match->seen_at == 0 ? restarted->resumed_at_ms : match->seen_at;
    }
    durable = judge_model;
}

/* The log came back with its newest frame, or without. */
static void see_restart(const struct core *core)
{
    pending_result = pending_expiry = pending_undoing = 0;
    bool is_kept = is_where(core, &judge_model);
    if (!is_kept && !is_where(core, &durable))
        fail("after a crash the pool is neither as it was nor as the last call left it");
    if (is_kept)
        durable = judge_model;
    else
        judge_model = durable;
}

/* Other rules: every ticket begins anew with its steps. */
static void see_rules(void)
{
    if (judge_request.kind != ASKS_RULES ||
        memcmp(judge_model.near, judge_request.near, sizeof(judge_request.near)) == 0)
        fail("the pool has other rules, which nobody asked for");
    memcpy(judge_model.near, judge_request.near, sizeof(judge_request.near));
    judge_model.rules_version++;
    for (int i = 0; i < JUDGE_TICKETS; i++)
        judge_model.tickets[i].level = 0;
}

static void see(const struct core *core, const struct event *event)
{
    switch (event->kind) {
    case EVENT_RESTARTED:
        see_restart(core);
        extend_holds(&event->restarted);
        break;
    case EVENT_POOL_PUT:
        see_rules();
        break;
    case EVENT_TICKET_OFFERED:
        see_offer(&event->ticket_offered, core->now_ms);
        break;
    case EVENT_TICKET_UPDATED:
        see_update(&event->ticket_updated);
        break;
    case EVENT_TICKETS_WIDENED:
        see_steps(&event->tickets_widened, core->now_ms);
        break;
    case EVENT_TICKET_ENDED:
        see_end(&event->ticket_ended, core->now_ms);
        break;
    case EVENT_MATCHED:
        see_match(&event->matched, core->now_ms);
        break;
    case EVENT_HOLD_RENEWED:
        see_renewal(&event->hold_renewed);
        break;
    case EVENT_CONFIRMED:
        see_yes(&event->confirmed, core->now_ms);
        break;
    case EVENT_MATCH_MADE:
        see_made(&event->match_made, core->now_ms);
        break;
    case EVENT_MATCH_UNDONE:
        see_undoing(&event->match_undone, core->now_ms);
        break;
    case EVENT_ENDED:
        see_message_end(&event->ended, core->now_ms);
        break;
    case EVENT_TICKETS_FORGOTTEN:
        see_forgetting(&event->tickets_forgotten, core->now_ms);
        break;
    default:
        break;
    }
}

void __real_core_emit(struct core *core, const struct event *event);
void __wrap_core_emit(struct core *core, const struct event *event);
void __wrap_core_emit(struct core *core, const struct event *event)
{
    if (world != NULL)
        see(core, event);
    __real_core_emit(core, event);
}

uint64_t __real_core_send_own(struct core *core, const struct queue *queue, struct content *content, uint64_t batch,
                              uint8_t completes);
uint64_t __wrap_core_send_own(struct core *core, const struct queue *queue, struct content *content, uint64_t batch,
                              uint8_t completes);
uint64_t __wrap_core_send_own(struct core *core, const struct queue *queue, struct content *content, uint64_t batch,
                              uint8_t completes)
{
    uint64_t *pending = bytes_equal(queue->name_owned, RESULTS) ? &pending_result : &pending_expiry;
    if (pending_result != 0 || pending_expiry != 0)
        fail("a message of the pool is sent, and what it tells of has not happened");
    return *pending = __real_core_send_own(core, queue, content, batch, completes);
}

/* Nine tenths of the time to confirm a match are left when somebody can hear of it. */
static void check_holds(void)
{
    for (unsigned i = 0; i < judge_model.match_count; i++) {
        const struct judge_match *match = &judge_model.matches[i];
        if (match->number != 0 && match->state == JUDGE_HELD && match->seen_at != 0 &&
            match->confirm_by < match->seen_at + rules.confirm_ms - rules.confirm_ms / 10)
            fail("match %" PRIu64 " has %" PRId64 " ms to be confirmed when it can be seen", match->number,
                 (int64_t)(match->confirm_by - match->seen_at));
    }
}

static void note_seen(void)
{
    for (unsigned i = 0; i < judge_model.match_count; i++)
        if (judge_model.matches[i].state == JUDGE_HELD && judge_model.matches[i].seen_at == 0)
            judge_model.matches[i].seen_at = world->now_ms;
}

/* All frames so far are durable, and whole. The disk may have taken its time. */
enum error __real_namespace_flush(struct namespace *ns, struct failure *failure);
enum error __wrap_namespace_flush(struct namespace *ns, struct failure *failure);
enum error __wrap_namespace_flush(struct namespace *ns, struct failure *failure)
{
    if (pending_result != 0 || pending_expiry != 0 || pending_undoing != 0)
        fail("a frame ends between a message of the pool and what it tells of");
    if (world != NULL) {
        check_holds();
        world->now_ms += judge_stall_ms;
        judge_stall_ms = 0;
    }
    enum error error = __real_namespace_flush(ns, failure);
    if (error == OK && world != NULL)
        note_seen();
    if (error == OK)
        durable = judge_model;
    return error;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static bool ticket_is(const struct ticket_pool *pool, int name, const struct judge_ticket *expected)
{
    char key[8];
    snprintf(key, sizeof(key), "t%d", name);
    uint32_t slot = ticket_find(pool, bytes_from_string(key));
    if (slot == 0 || expected->number == 0)
        return slot == 0 && expected->number == 0;
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    return ticket->entry.number == expected->number && ticket->state == expected->state &&
           ticket->version == expected->version && ticket->match == expected->match &&
           ticket->is_settled == expected->is_settled && ticket_level(pool, ticket) == expected->level &&
           ticket->entry.offered_at_ms == expected->offered_at && ticket->entry.expires_at_ms == expected->expires_at;
}

static bool match_is(const struct core *core, const struct judge_match *expected)
{
    static const enum match_state states[] = {MATCH_HELD, MATCH_MADE, MATCH_ACKED, MATCH_PUT_BACK, MATCH_REFUSED};
    uint32_t slot = made_match_find(core, expected->number);
    const struct made_match *match = slot == 0 ? NULL : made_match_at(core, slot);
    if (match == NULL || match->state != states[expected->state] || match->message != expected->message ||
        (match->state == MATCH_HELD && match->confirm_by_ms != expected->confirm_by))
        return false;
    for (uint32_t i = 0; i < match->member_count; i++)
        if (match->members_owned[i].has_confirmed != expected->has_confirmed[i])
            return false;
    return true;
}

static uint64_t count_messages(const struct core *core, struct bytes queue)
{
    return core_message_list(core, core_find_queue(core, queue))->count;
}

static bool is_where(const struct core *core, const struct judge_model *model)
{
    const struct ticket_pool *pool = ticket_pool_find(core, BYTES("pool"));
    if (pool == NULL)
        return model->ticket_number == 0;
    if (pool->rules_version != model->rules_version)
        return false;
    for (int i = 0; i < JUDGE_TICKETS; i++)
        if (!ticket_is(pool, i, &model->tickets[i]))
            return false;
    unsigned results = 0, known = 0;
    for (unsigned i = 0; i < model->match_count; i++) {
        if (model->matches[i].number != 0 && !match_is(core, &model->matches[i]))
            return false;
        known += model->matches[i].number != 0;
        results += model->matches[i].number != 0 && model->matches[i].state == JUDGE_MADE;
    }
    return core->matches.match_number == model->match_number && pool->results + pool->settled_count == known &&
           count_messages(core, RESULTS) == results && count_messages(core, EXPIRED) == model->expired_count;
}

/* In a pool that looks by itself no two tickets are left that fit (M18). */
static void check_nobody_fits(void)
{
    if (rules.results_max != 0 && judge_count_unsettled() >= rules.results_max)
        return;
    for (int i = 0; i < JUDGE_TICKETS; i++)
        for (int j = 0; j < i; j++) {
            const struct judge_ticket *a = &judge_model.tickets[i], *b = &judge_model.tickets[j];
            if (a->number != 0 && b->number != 0 && a->state == TICKET_WAITING && b->state == TICKET_WAITING &&
                judge_is_free(a) && judge_is_free(b) && judge_fits(a, b))
                fail("t%d and t%d fit each other, and nobody has matched them", j, i);
        }
}

/* Nothing that was due by now is late. */
static void check_nothing_is_late(uint64_t now)
{
    for (int i = 0; i < JUDGE_TICKETS; i++) {
        const struct judge_ticket *ticket = &judge_model.tickets[i];
        if (ticket->number == 0 || ticket->state != TICKET_WAITING)
            continue;
        if (now >= ticket->expires_at)
            fail("t%d has not expired", i);
        if (ticket->level < JUDGE_STEPS && judge_is_free(ticket) &&
            now >= ticket->offered_at + rules.after_ms[ticket->level + 1])
            fail("t%d has not taken its step", i);
    }
    for (unsigned i = 0; i < judge_model.match_count; i++)
        if (judge_model.matches[i].number != 0 && judge_model.matches[i].state == JUDGE_HELD &&
            now >= judge_model.matches[i].confirm_by)
            fail("the hold of match %" PRIu64 " has not ended", judge_model.matches[i].number);
}

void judge_compare(bool is_idle)
{
    const struct core *core = world_core(world);
    core_check(core);
    if (!is_where(core, &judge_model))
        fail("the pool is not as its events say");
    if (!is_idle)
        return;
    check_nothing_is_late(core->now_ms);
    if (rules.is_built_in)
        check_nobody_fits();
}
