/* Pools under random calls of many matchers with stale views, with kills, lost power, disks that stop and snapshots;
 * judged by pool_judge.c.
 *
 * usage: sim_pools [--seeds N] [--first F] [--seed S] [--plant NAME] [--look N] [--salvage on]
 *
 * --look N: after each step N looks, which must change nothing (onlooker.h). */
#include "fail.h"
#include "onlooker.h"
#include "pool_judge.h"
#include "pool_plants.h"
#include "random.h"

#include "core/identity.h"
#include "core/state.h"
#include "support/history.h"
#include "support/salvage_rig.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROPOSALS 2000
#define HANDLES 64
#define STEPS 220u

/* A ticket as its client offers it, whenever it does; and what a matcher believes it to be. */
struct client_ticket {
    int mmr, mode, need, set;
    unsigned ttl_s;
    uint32_t seen_version;
};

struct client_proposal {
    int tickets[3];
    uint32_t versions[3];
    unsigned count;
};

struct pools {
    struct random random;
    struct world *world;
    struct judge_rules rules;
    struct client_ticket tickets[JUDGE_TICKETS];
    struct client_proposal proposals[PROPOSALS];
    int proposal_count;
    struct {
        char handle[WORLD_HANDLE_SIZE];
        uint64_t match;
    } held[HANDLES];
    unsigned held_count;
    uint64_t leased_until[JUDGE_MATCHES];
    unsigned set_percent, fault_percent, stale_percent, stall_percent;
};

static struct {
    uint64_t seed;
    unsigned step;
} where;

/* Each folder that a kill leaves is damaged and salvaged, too; on a copy. */
static bool wants_salvage;
static struct salvage_rig_report salvage_report;

/* After each step; 0: nobody looks. */
static unsigned looks_a_step;
static struct onlooker onlooker;

void fail(const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 ", step %u: ", where.seed, where.step);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    exit(1);
}

static void expect_status(const char *action, const char *status, const char *expected)
{
    if (strcmp(status, expected) != 0)
        fail("%s answers %s; it should be %s", action, status, expected);
}

static const char *name_of_state(const struct judge_ticket *ticket)
{
    static const char *const names[] = {"unknown", "waiting", "held", "matched", "cancelled", "expired"};
    return names[ticket->number == 0 ? 0 : ticket->state];
}

static void id_of(const struct pools *pools, uint64_t match, char text[IDENTITY_TEXT_SIZE + 1])
{
    uint8_t id[MESSAGE_ID_SIZE];
    identity_match(core_digest(world_core(pools->world)), match == 0 ? 99999 : match, id);
    identity_to_text(id, text);
    text[IDENTITY_TEXT_SIZE] = '\0';
}

static yyjson_val *first_of(struct answer answer)
{
    return yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results"));
}

static const char *text_of(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

/* --- tickets ------------------------------------------------------------------------------------------------------ */

static void begin(unsigned kind)
{
    memset(&judge_request, 0, sizeof(judge_request));
    judge_request.kind = kind;
}

static void act_offer(struct pools *pools)
{
    int name = (int)random_below(&pools->random, JUDGE_TICKETS);
    const struct client_ticket *ticket = &pools->tickets[name];
    char need[64] = "", set[64] = "", ttl[64] = "";
    begin(ASKS_OFFER);
    judge_request.tickets[0] = name;
    judge_request.mmr = ticket->mmr + random_chance(&pools->random, 4);
    judge_request.mode = ticket->mode;
    judge_request.need = ticket->need;
    judge_request.set = ticket->set;
    judge_request.ttl_ms = ticket->ttl_s != 0 ? ticket->ttl_s * UINT64_C(1000) : pools->rules.ttl_ms;
    if (ticket->need != -1)
        snprintf(need, sizeof(need), ",'Need':{'mode':{'eq':'m%d'}}", ticket->need);
    if (ticket->set != -1)
        snprintf(set, sizeof(set), ",'ExclusiveSet':'s%d'", ticket->set);
    if (ticket->ttl_s != 0)
        snprintf(ttl, sizeof(ttl), ",'TtlSeconds':%u", ticket->ttl_s);
    struct answer answer;
    if (!world_try(pools->world, &answer, "Tally.OfferTickets",
                   "{'PoolName':'pool','Tickets':[{'TicketId':'t%d','Attributes':{'mmr':%d,'mode':'m%d'}%s%s%s}]}",
                   name, judge_request.mmr, ticket->mode, need, set, ttl))
        return;
    const struct judge_ticket *known = &judge_model.tickets[name];
    yyjson_val *result = first_of(answer);
    if (!judge_request.was_offered && known->offered_mmr != judge_request.mmr) {
        expect_status("OfferTickets", text_of(result, "Status"), "key-reused");
        return;
    }
    expect_status("OfferTickets", text_of(result, "Status"), name_of_state(known));
    if (yyjson_get_bool(yyjson_obj_get(result, "AlreadyOffered")) == judge_request.was_offered)
        fail("OfferTickets says wrongly whether t%d was offered before", name);
}

static void act_update(struct pools *pools)
{
    int name = (int)random_below(&pools->random, JUDGE_TICKETS);
    const struct judge_ticket before = judge_model.tickets[name];
    begin(ASKS_UPDATE);
    judge_request.tickets[0] = name;
    judge_request.mmr = (int)random_below(&pools->random, 100);
    judge_request.mode = (int)random_below(&pools->random, JUDGE_MODES);
    judge_request.versions[0] = random_chance(&pools->random, 50) ? 0 : 1 + random_below(&pools->random, 2);
    char version[32] = "";
    if (judge_request.versions[0] != 0)
        snprintf(version, sizeof(version), ",'Version':%u", judge_request.versions[0]);
    struct answer answer;
    if (!world_try(pools->world, &answer, "Tally.UpdateTicket",
                   "{'PoolName':'pool','TicketId':'t%d','Attributes':{'mmr':%d,'mode':'m%d'}%s}", name,
                   judge_request.mmr, judge_request.mode, version))
        return;
    if (before.number == 0) {
        if (!answer_fails(answer, "TicketDoesNotExist"))
            fail("UpdateTicket knows t%d", name);
        return;
    }
    bool is_stale = judge_request.versions[0] != 0 && judge_request.versions[0] != before.version;
    const char *status = answer_text(answer, "Status");
    if (before.state == TICKET_WAITING && !is_stale) {
        if (judge_model.tickets[name].version == before.version)
            fail("UpdateTicket has not updated t%d", name);
        expect_status("UpdateTicket", status, name_of_state(&judge_model.tickets[name]));
    } else if (before.state == TICKET_HELD || before.state == TICKET_MATCHED) {
        expect_status("UpdateTicket", status, "too-late");
    } else {
        expect_status("UpdateTicket", status,
                      is_stale && before.state == TICKET_WAITING ? "stale" : name_of_state(&before));
    }
}

static void act_cancel(struct pools *pools)
{
    int name = (int)random_below(&pools->random, JUDGE_TICKETS);
    const struct judge_ticket before = judge_model.tickets[name];
    begin(ASKS_CANCEL);
    judge_request.tickets[0] = name;
    struct answer answer;
    if (!world_try(pools->world, &answer, "Tally.CancelTickets", "{'PoolName':'pool','TicketIds':['t%d']}", name))
        return;
    bool is_taken = before.number != 0 && (before.state == TICKET_HELD || before.state == TICKET_MATCHED);
    const char *expected = is_taken                                               ? "too-late"
                           : before.number != 0 && before.state == TICKET_WAITING ? "cancelled"
                                                                                  : name_of_state(&before);
    expect_status("CancelTickets", text_of(first_of(answer), "Status"), expected);
}

static void act_look(struct pools *pools)
{
    int name = (int)random_below(&pools->random, JUDGE_TICKETS);
    begin(ASKS_NOTHING);
    struct answer answer;
    if (!world_try(pools->world, &answer, "Tally.GetTicket", "{'PoolName':'pool','TicketId':'t%d'}", name))
        return;
    const struct judge_ticket *ticket = &judge_model.tickets[name];
    if (ticket->number == 0) {
        if (!answer_fails(answer, "TicketDoesNotExist"))
            fail("GetTicket knows t%d", name);
        return;
    }
    expect_status("GetTicket", answer_text(answer, "Status"), name_of_state(ticket));
    if (answer_number(answer, "Version") != ticket->version)
        fail("GetTicket gives another version of t%d", name);
    pools->tickets[name].seen_version = ticket->version;
}

/* --- proposals ---------------------------------------------------------------------------------------------------- */

/* What the commit check finds, said again. */
static const char *check(const struct pools *pools, const struct judge_request *request)
{
    bool has_conflict = false, is_stale = false;
    for (unsigned i = 0; i < request->count; i++) {
        if (judge_model.tickets[request->tickets[i]].number == 0)
            return "invalid";
        for (unsigned k = 0; k < i; k++)
            if (request->tickets[k] == request->tickets[i])
                return "invalid";
    }
    bool has_settled = false;
    for (unsigned i = 0; i < request->count; i++)
        has_settled = has_settled || judge_model.tickets[request->tickets[i]].is_settled;
    if (request->count != 2 && (!has_settled || request->count == 0))
        return "invalid";
    for (unsigned i = 0; i < request->count; i++) {
        const struct judge_ticket *ticket = &judge_model.tickets[request->tickets[i]];
        bool has_rival = false;
        for (unsigned k = 0; k < request->count; k++)
            has_rival = has_rival ||
                        (k != i && ticket->set != -1 && judge_model.tickets[request->tickets[k]].set == ticket->set &&
                         !judge_model.tickets[request->tickets[k]].is_settled);
        bool is_conflict = ticket->state != TICKET_WAITING || !judge_is_free(ticket) || has_rival;
        has_conflict = has_conflict || is_conflict;
        is_stale = is_stale || (!is_conflict && ticket->version != request->versions[i]);
    }
    if (has_conflict)
        return "conflict";
    bool has_old_rules = request->rules_version != 0 && request->rules_version != judge_model.rules_version;
    if (is_stale || (has_old_rules && !pools->rules.verifies))
        return "stale";
    if (pools->rules.verifies &&
        !judge_fits(&judge_model.tickets[request->tickets[0]], &judge_model.tickets[request->tickets[1]]))
        return "invalid";
    if (pools->rules.results_max != 0 && judge_count_unsettled() >= pools->rules.results_max)
        return "result-full";
    return "matched, but it was not";
}

static int draw_waiting(struct pools *pools)
{
    int name = 0;
    for (unsigned tries = 0; tries < 20; tries++) {
        name = (int)random_below(&pools->random, JUDGE_TICKETS);
        if (judge_model.tickets[name].number != 0 && judge_model.tickets[name].state == TICKET_WAITING)
            break;
    }
    return name;
}

/* A matcher's view is some time old: it may know an older version, or a ticket that has gone. */
static struct client_proposal draw_proposal(struct pools *pools)
{
    struct client_proposal proposal = {
        .count = random_chance(&pools->random, 95) ? 2 : 1 + 2 * random_below(&pools->random, 2)};
    for (unsigned i = 0; i < proposal.count; i++) {
        bool is_stale = random_chance(&pools->random, pools->stale_percent);
        int name = is_stale ? (int)random_below(&pools->random, JUDGE_TICKETS) : draw_waiting(pools);
        for (unsigned tries = 0; tries < 20 && !is_stale && i == 1; tries++) {
            const struct judge_ticket *first = &judge_model.tickets[proposal.tickets[0]];
            if (name != proposal.tickets[0] && judge_fits(first, &judge_model.tickets[name]))
                break;
            name = draw_waiting(pools);
        }
        proposal.tickets[i] = name;
        proposal.versions[i] = is_stale && pools->tickets[name].seen_version != 0 ? pools->tickets[name].seen_version
                                                                                  : judge_model.tickets[name].version;
        if (proposal.versions[i] == 0)
            proposal.versions[i] = 1;
    }
    return proposal;
}

static void expect_match(const struct pools *pools, yyjson_val *result, uint64_t number)
{
    char text[IDENTITY_TEXT_SIZE + 1];
    id_of(pools, number, text);
    expect_status("ProposeMatches", text_of(result, "Status"), "matched");
    if (strcmp(text_of(result, "MatchId"), text) != 0)
        fail("ProposeMatches gives another MatchId than %s", text);
}

static bool is_same(const struct client_proposal *a, const struct client_proposal *b)
{
    bool is_same = a->count == b->count;
    for (unsigned i = 0; is_same && i < a->count; i++)
        is_same = a->tickets[i] == b->tickets[i] && a->versions[i] == b->versions[i];
    return is_same;
}

static void judge_proposal(const struct pools *pools, const struct client_proposal *proposal, yyjson_val *result)
{
    const struct judge_match *match = judge_find_proposal(judge_request.proposal);
    if (match == NULL) {
        expect_status("ProposeMatches", text_of(result, "Status"), check(pools, &judge_request));
        return;
    }
    const struct client_proposal matched = {.tickets = {match->members[0], match->members[1]},
                                            .versions = {match->versions[0], match->versions[1]},
                                            .count = 2};
    if (is_same(&matched, proposal))
        expect_match(pools, result, match->number);
    else
        expect_status("ProposeMatches", text_of(result, "Status"), "key-reused");
}

static void act_propose(struct pools *pools)
{
    bool is_old = pools->proposal_count > 0 && random_chance(&pools->random, 20);
    uint32_t range = pools->proposal_count < 10 ? (uint32_t)pools->proposal_count : 10;
    int name = is_old ? pools->proposal_count - 1 - (int)random_below(&pools->random, range) : pools->proposal_count;
    if (name == PROPOSALS)
        return;
    if (!is_old || random_chance(&pools->random, 20))
        pools->proposals[name] = draw_proposal(pools);
    pools->proposal_count += !is_old;
    const struct client_proposal *proposal = &pools->proposals[name];
    begin(ASKS_PROPOSE);
    judge_request.proposal = name;
    judge_request.count = proposal->count;
    memcpy(judge_request.tickets, proposal->tickets, sizeof(proposal->tickets));
    memcpy(judge_request.versions, proposal->versions, sizeof(proposal->versions));
    judge_request.rules_version =
        random_chance(&pools->random, 60) ? 0 : judge_model.rules_version - random_chance(&pools->random, 30);
    char members[160] = "";
    for (unsigned i = 0; i < proposal->count; i++)
        snprintf(members + strlen(members), sizeof(members) - strlen(members), "%s{'TicketId':'t%d','Version':%u}",
                 i > 0 ? "," : "", proposal->tickets[i], proposal->versions[i]);
    struct answer answer;
    if (world_try(pools->world, &answer, "Tally.ProposeMatches",
                  "{'PoolName':'pool','Proposals':[{'ProposalId':'p%d','RulesVersion':%u,'Members':[%s]}]}", name,
                  judge_request.rules_version, members))
        judge_proposal(pools, proposal, first_of(answer));
}

/* --- matches ------------------------------------------------------------------------------------------------------ */

static uint64_t draw_match(struct pools *pools)
{
    uint64_t newest = judge_model.match_number;
    uint32_t range = newest < 6 ? (uint32_t)newest : 6;
    return newest == 0 ? 0 : newest - random_below(&pools->random, range);
}

static void act_put_back(struct pools *pools)
{
    static const char *const expected[] = {"put-back", "put-back", "acked", "put-back", "put-back"};
    uint64_t number = draw_match(pools);
    const struct judge_match *match = judge_find_match(number);
    const char *status = match == NULL ? "unknown" : expected[match->state];
    bool is_undone = match != NULL && match->state <= JUDGE_MADE;
    char id[IDENTITY_TEXT_SIZE + 1];
    id_of(pools, number, id);
    begin(ASKS_PUT_BACK);
    judge_request.match = number;
    struct answer answer;
    if (!world_try(pools->world, &answer, "Tally.PutBackMatch", "{'PoolName':'pool','MatchId':'%s'}", id))
        return;
    expect_status("PutBackMatch", answer_text(answer, "Status"), status);
    if (is_undone != judge_request.was_undone)
        fail("PutBackMatch has put back a match again, or has not");
}

static void act_confirm(struct pools *pools)
{
    uint64_t number = draw_match(pools);
    const struct judge_match *match = judge_find_match(number);
    char id[IDENTITY_TEXT_SIZE + 1];
    id_of(pools, number, id);
    begin(ASKS_CONFIRM);
    judge_request.match = number;
    judge_request.accepts = random_chance(&pools->random, 85);
    judge_request.tickets[0] = match != NULL && random_chance(&pools->random, 95)
                                   ? match->members[random_below(&pools->random, 2)]
                                   : (int)random_below(&pools->random, JUDGE_TICKETS);
    bool is_member = match != NULL &&
                     (match->members[0] == judge_request.tickets[0] || match->members[1] == judge_request.tickets[0]);
    struct answer answer;
    if (!world_try(pools->world, &answer, "Tally.ConfirmMatch",
                   "{'PoolName':'pool','MatchId':'%s','TicketId':'t%d','Accept':%s}", id, judge_request.tickets[0],
                   judge_request.accepts ? "true" : "false"))
        return;
    const char *expected = match == NULL || (match->state <= JUDGE_MADE && !is_member) ? "unknown"
                           : judge_request.was_made                                    ? "matched"
                           : judge_request.was_undone                                  ? "refused"
                           : match->state == JUDGE_HELD                                ? "held"
                                                                                       : "too-late";
    expect_status("ConfirmMatch", answer_text(answer, "Status"), expected);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static struct judge_match *match_of(const struct pools *pools, const char *id)
{
    uint8_t raw[MESSAGE_ID_SIZE];
    if (!identity_from_text(bytes_from_string(id), raw))
        return NULL;
    return judge_find_match(identity_match_number(core_digest(world_core(pools->world)), raw));
}

static void hold(struct pools *pools, const struct taken *taken, uint64_t match)
{
    unsigned index = pools->held_count < HANDLES ? pools->held_count++ : random_below(&pools->random, HANDLES);
    snprintf(pools->held[index].handle, sizeof(pools->held[index].handle), "%s", taken->handle);
    pools->held[index].match = match;
}

static unsigned act_take(struct pools *pools)
{
    struct taken taken[10];
    unsigned timeout_s = random_between(&pools->random, 5, 30);
    begin(ASKS_NOTHING);
    unsigned count = world_take(pools->world, "results", timeout_s, 10, taken);
    for (unsigned i = 0; i < count; i++) {
        const struct judge_match *match = match_of(pools, taken[i].id);
        if (match == NULL || match->state != JUDGE_MADE)
            fail("message %s is received, which is no result of a match that is made", taken[i].id);
        char first[16], second[16];
        snprintf(first, sizeof(first), "\"t%d\"", match->members[0]);
        snprintf(second, sizeof(second), "\"t%d\"", match->members[1]);
        if (strstr(taken[i].body, first) == NULL || strstr(taken[i].body, second) == NULL ||
            strstr(taken[i].body, taken[i].id) == NULL)
            fail("the result %s does not say who is in it: %s", taken[i].id, taken[i].body);
        uint64_t *leased_until = &pools->leased_until[match->number % JUDGE_MATCHES];
        if (pools->world->now_ms < *leased_until)
            fail("the result %s is received by two at once", taken[i].id);
        *leased_until = pools->world->now_ms + timeout_s * UINT64_C(900); /* nine tenths, if the disk was slow */
        hold(pools, &taken[i], match->number);
    }
    return count;
}

static void act_delete(struct pools *pools)
{
    if (pools->held_count == 0)
        return;
    unsigned index = random_below(&pools->random, pools->held_count);
    uint64_t number = pools->held[index].match;
    bool is_newest = true;
    for (unsigned i = 0; i < pools->held_count; i++)
        is_newest = is_newest && (i == index || pools->held[i].match != number);
    begin(ASKS_DELETE);
    struct answer answer;
    bool is_answered = world_try(pools->world, &answer, "DeleteMessage", "{'QueueUrl':'results','ReceiptHandle':'%s'}",
                                 pools->held[index].handle);
    const struct judge_match *match = judge_find_match(number);
    if (is_answered && is_newest && match != NULL && match->state == JUDGE_MADE)
        fail("the result of match %" PRIu64 " was deleted, and is still there", number);
    if (is_answered)
        pools->held[index] = pools->held[--pools->held_count];
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

/* The member Rules, with those bounds. */
static void write_rules(const struct pools *pools, const int near[1 + JUDGE_STEPS], char text[300])
{
    const struct judge_rules *rules = &pools->rules;
    char last[64];
    snprintf(last, sizeof(last), near[2] == -1 ? "'off':true" : "'max':%d", near[2]);
    snprintf(text, 300,
             "'Rules':[{'type':'near','attr':'mmr','max':%d,'agree':'%s','expand':[{'after':'%" PRIu64 "ms','max':%d},"
             "{'after':'%" PRIu64 "ms',%s}]}]",
             near[0], rules->is_either ? "either" : "both", rules->after_ms[1], near[1], rules->after_ms[2], last);
}

static void draw_bounds(struct random *random, int near[1 + JUDGE_STEPS])
{
    near[0] = (int)random_below(random, 8);
    near[1] = 10 + (int)random_below(random, 20);
    near[2] = random_chance(random, 50) ? -1 : 40 + (int)random_below(random, 60);
}

static void act_rules(struct pools *pools)
{
    char text[300];
    begin(ASKS_RULES);
    draw_bounds(&pools->random, judge_request.near);
    write_rules(pools, judge_request.near, text);
    struct answer answer;
    if (random_chance(&pools->random, 70) ||
        !world_try(pools->world, &answer, "Tally.UpdatePool", "{'PoolName':'pool',%s}", text))
        return;
    if (answer.error != NULL || answer_number(answer, "RulesVersion") != judge_model.rules_version)
        fail("UpdatePool answers %s, or another RulesVersion", answer.error == NULL ? "well" : answer.error);
}

/* --- time and faults ---------------------------------------------------------------------------------------------- */

static void act_time(struct pools *pools)
{
    begin(ASKS_NOTHING);
    uint32_t limit_ms = random_chance(&pools->random, 10) ? 200000 : 4000;
    world_pass_time(pools->world, random_below(&pools->random, limit_ms));
    judge_compare(true);
}

static void act_kill(struct pools *pools)
{
    begin(ASKS_NOTHING);
    if (random_chance(&pools->random, 50))
        world_snapshot(pools->world);
    world_stop(pools->world, random_chance(&pools->random, 50));
    char wrong[512];
    if (wants_salvage &&
        !salvage_rig_try(pools->world->disk, where.seed * 1000003 + where.step, &salvage_report, wrong))
        fail("salvage: %s", wrong);
    world_start(pools->world);
    world_pass_time(pools->world, 0);
    judge_compare(true);
}

/* The disk is about to stop, to fail or to be full (MR12): the server ends, and nothing that it had not logged was
 * seen. */
static void arm_fault(struct pools *pools)
{
    static const enum memory_disk_fault faults[] = {MEMORY_DISK_STOP, MEMORY_DISK_STOP, MEMORY_DISK_FAIL_WRITE,
                                                    MEMORY_DISK_FAIL_SYNC, MEMORY_DISK_FULL};
    memory_disk_fail_after(pools->world->disk, random_below(&pools->random, 4),
                           faults[random_below(&pools->random, ARRAY_LENGTH(faults))]);
}

static void act(struct pools *pools)
{
    static void (*const acts[])(struct pools * pools) = {
        act_offer,   act_offer,   act_offer,   act_offer,   act_offer,   act_propose,  act_propose,
        act_propose, act_propose, act_confirm, act_confirm, act_confirm, act_put_back, act_update,
        act_cancel,  act_look,    act_rules,   act_delete,  act_delete,  act_time,     act_time,
    };
    unsigned drawn = random_below(&pools->random, 2 + ARRAY_LENGTH(acts));
    if (random_chance(&pools->random, pools->fault_percent))
        arm_fault(pools);
    if (random_chance(&pools->random, pools->stall_percent))
        judge_stall_ms = random_between(&pools->random, 100, 20000);
    if (drawn < ARRAY_LENGTH(acts))
        acts[drawn](pools);
    else if (drawn == ARRAY_LENGTH(acts))
        (void)act_take(pools);
    else if (random_chance(&pools->random, 40))
        act_kill(pools);
    judge_compare(false);
    world_forget(pools->world);
}

/* --- a seed ------------------------------------------------------------------------------------------------------- */

static void draw_rules(struct pools *pools, struct random *random)
{
    struct judge_rules *rules = &pools->rules;
    *rules = (struct judge_rules){
        .is_built_in = random_chance(random, 60),
        .verifies = random_chance(random, 40),
        .is_either = random_chance(random, 40),
        .after_ms = {0, 1000 + 1000 * random_below(random, 5), 7000 + 1000 * random_below(random, 30)},
        .confirm_ms = random_chance(random, 40) ? 1000 * random_between(random, 1, 20) : 0,
        .ttl_ms = random_chance(random, 40) ? 1000 * random_between(random, 5, 60) : 0,
        .retention_ms = 1000 * random_between(random, 60, 400),
        .results_max = random_chance(random, 40) ? random_between(random, 1, 6) : 0,
    };
    draw_bounds(random, rules->near);
    pools->set_percent = random_below(random, 3) * 25;
    pools->fault_percent = random_below(random, 3) * 3;
    pools->stale_percent = random_below(random, 3) * 20;
    pools->stall_percent = random_below(random, 3) * 5;
    for (int i = 0; i < JUDGE_TICKETS; i++)
        pools->tickets[i] = (struct client_ticket){
            .mmr = (int)random_below(random, 100),
            .mode = (int)random_below(random, JUDGE_MODES),
            .need = random_chance(random, 25) ? (int)random_below(random, JUDGE_MODES) : -1,
            .set = random_chance(random, pools->set_percent) ? (int)random_below(random, JUDGE_SETS) : -1,
            .ttl_s = random_chance(random, 30) ? random_between(random, 1, 40) : 0,
        };
}

static void create_pool(struct pools *pools)
{
    const struct judge_rules *rules = &pools->rules;
    char text[300], ttl[64] = "", more[128] = "";
    write_rules(pools, rules->near, text);
    if (rules->ttl_ms != 0)
        snprintf(ttl, sizeof(ttl), ",'TicketTtlSeconds':%" PRIu64, rules->ttl_ms / 1000);
    if (rules->confirm_ms != 0)
        snprintf(more, sizeof(more), ",'ConfirmSeconds':%" PRIu64, rules->confirm_ms / 1000);
    world_create_queue(pools->world, "results", "");
    world_create_queue(pools->world, "expired", "");
    struct answer answer =
        world_call(pools->world, "Tally.CreatePool",
                   "{'PoolName':'pool','ResultQueueUrl':'results','OnExpiryQueueUrl':'expired','Attributes':{'mmr':'"
                   "num','mode':'str'},"
                   "%s,'Matcher':'%s','Verify':%s,'ResultsMax':%u,'RetentionSeconds':%" PRIu64 "%s%s}",
                   text, rules->is_built_in ? "both" : "external", rules->verifies ? "true" : "false",
                   rules->results_max, rules->retention_ms / 1000, ttl, more);
    if (answer.error != NULL)
        fail("CreatePool answers %s", answer.error);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static void write_looked_at(void *context, char kind, struct random *random, struct buffer *out)
{
    (void)context;
    if (kind == 'q')
        buffer_append_format(out, "%s", random_chance(random, 70) ? "results" : "expired");
    else if (kind == 'p')
        buffer_append_format(out, "%s", random_chance(random, 95) ? "pool" : "none");
    else if (kind == 't')
        buffer_append_format(out, "t%u", random_below(random, JUDGE_TICKETS + 1));
    else if (kind == 'm')
        buffer_append_format(out, "00000000-0000-8000-8000-000000000000");
    else
        buffer_append_format(out, "%c1", kind);
}

static void look(struct world *world)
{
    struct failure failure;
    const bool is_up = world->ns != NULL && namespace_failure(world->ns, &failure) == OK;
    if (looks_a_step == 0 || !is_up || world_core(world)->has_fired || core_has_ready_queue(world_core(world)))
        return;
    begin(ASKS_NOTHING);
    onlooker_look(&onlooker, world->front, world->ns, looks_a_step);
}

/* No more faults: every match comes to its end. */
static void wind_up(struct pools *pools)
{
    memory_disk_fail_after(pools->world->disk, UINT64_MAX, MEMORY_DISK_FAULT_NONE);
    for (unsigned round = 0; round < 200 && judge_count_unsettled() > 0; round++) {
        begin(ASKS_NOTHING);
        world_pass_time(pools->world, 31000);
        judge_compare(true);
        pools->held_count = 0;
        for (unsigned left = act_take(pools); left > 0; left--)
            act_delete(pools);
    }
    if (judge_count_unsettled() > 0)
        fail("there are matches that never end");
    begin(ASKS_NOTHING);
    world_audit(pools->world);
}

static void run(uint64_t seed)
{
    where.seed = seed;
    struct pools *pools = calloc(1, sizeof(*pools));
    ASSERT(pools != NULL);
    pools->random = random_stream(seed, STREAM_CLIENTS);
    struct random settings = random_stream(seed, STREAM_SETTINGS);
    draw_rules(pools, &settings);
    pools->world = world_create(&(struct world_options){.way = WORLD_PLAIN, .seed = seed});
    create_pool(pools);
    judge_begin(&pools->rules, pools->world);
    onlooker_init(&onlooker, random_stream(seed, STREAM_ONLOOKERS), (struct onlooker_names){.write = write_looked_at});
    if (looks_a_step > 0)
        memory_disk_leave_reads_alone(pools->world->disk);
    for (where.step = 0; where.step < STEPS && judge_model.match_count < JUDGE_MATCHES - 100; where.step++)
        act(pools), look(pools->world);
    wind_up(pools);
    judge_end();
    onlooker_deinit(&onlooker);
    world_destroy(pools->world);
    free(pools);
}

/* Each seed in a process of its own, so that an assertion of the core is a finding like any other. Its history comes
 * back through a pipe. */
static bool runs_well(uint64_t seed)
{
    int ends[2];
    ASSERT(pipe(ends) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        history_begin();
        run(seed);
        const uint64_t history = history_value();
        _exit(write(ends[1], &history, sizeof(history)) == sizeof(history) ? 0 : 1);
    }
    close(ends[1]);
    uint64_t history = 0;
    int status;
    ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    const bool is_told = read(ends[0], &history, sizeof(history)) == sizeof(history);
    close(ends[0]);
    history_note(bytes_make(&history, sizeof(history)));
    return is_told && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char **arguments)
{
    uint64_t seeds = 100, first = 1;
    for (int i = 1; i + 1 < count; i += 2)
        if (strcmp(arguments[i], "--seeds") == 0)
            seeds = strtoull(arguments[i + 1], NULL, 10);
        else if (strcmp(arguments[i], "--first") == 0)
            first = strtoull(arguments[i + 1], NULL, 10);
        else if (strcmp(arguments[i], "--seed") == 0)
            first = strtoull(arguments[i + 1], NULL, 10), seeds = 1;
        else if (strcmp(arguments[i], "--look") == 0)
            looks_a_step = (unsigned)strtoul(arguments[i + 1], NULL, 10);
        else if (strcmp(arguments[i], "--salvage") == 0)
            wants_salvage = strcmp(arguments[i + 1], "on") == 0;
        else if (strcmp(arguments[i], "--plant") != 0 || !pool_plant_choose(arguments[i + 1]))
            return 2;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        if (runs_well(seed))
            continue;
        printf("FAILED: seed %" PRIu64 "\nreplay it: %s --seed %" PRIu64 "\n", seed, arguments[0], seed);
        return 1;
    }
    printf("%" PRIu64 " seeds of pools: all went well\n", seeds);
    return 0;
}
