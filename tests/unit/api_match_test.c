/* The actions of matches: proposals, judged one by one and if need be in several turns; putting back, and
 * confirming. */
#include "pools.h"

static yyjson_val *propose(struct world *world, const char *proposal)
{
    char body[400];
    snprintf(body, sizeof(body), ",'Proposals':[{%s}]", proposal);
    return item(call(world, "ProposeMatches", body), "Results", 0);
}

#define MEMBERS_AB "'Members':[{'TicketId':'a','Version':1},{'TicketId':'b','Version':1}]"

static void a_proposal_is_matched_and_its_repeat_too(void **state)
{
    struct world *world = open_pool(state, "external", "");
    OFFER(world, "a", "b", "c");
    yyjson_val *result = propose(world, "'ProposalId':'p','RulesVersion':1,'Score':1.5,'Body':'map 7'," MEMBERS_AB);
    char match[WORLD_ID_SIZE];
    snprintf(match, sizeof(match), "%s", sqs_text(result, "MatchId"));
    EXPECT(world, says(result, "ProposalId", "p") && says(result, "Status", "matched") && strlen(match) == 36);
    result = propose(world, "'ProposalId':'p','Body':'map 7'," MEMBERS_AB);
    EXPECT(world, says(result, "Status", "matched") && says(result, "MatchId", match));
    struct answer answer = world_call(world, "Tally.ExplainMessage", "{'QueueUrl':'results','MessageId':'%s'}", match);
    EXPECT(world, strcmp(answer_text(answer, "State"), "ready") == 0);
    result = propose(world, "'ProposalId':'p','Body':'map 8'," MEMBERS_AB);
    EXPECT(world, says(result, "Status", "key-reused") && yyjson_obj_get(result, "MatchId") == NULL);
    result = propose(world, "'ProposalId':'q','Members':[{'TicketId':'b','Version':1},{'TicketId':'c','Version':1}]");
    yyjson_val *fault = yyjson_arr_get(yyjson_obj_get(result, "Members"), 0);
    EXPECT(world, says(result, "Status", "conflict") && says(fault, "TicketId", "b") && says(fault, "Why", "matched"));
    EXPECT(world, says(fault, "MatchId", match) && yyjson_arr_size(yyjson_obj_get(result, "Members")) == 1);
    EXPECT(world, pool_number(world, "Conflicts") == 1 && pool_number(world, "Matches") == 1);
    struct taken taken;
    EXPECT(world, world_take(world, "results", 30, 1, &taken) == 1 && strcmp(taken.id, match) == 0);
    EXPECT(world, strstr(taken.body, "map 7") != NULL);
    sqs_close(world);
}

static void each_proposal_is_judged_by_itself(void **state)
{
    struct world *world = open_pool(state, "external", ",'Verify':true");
    OFFER(world, "a", "b");
    call(world, "OfferTickets", ",'Tickets':[{'TicketId':'far','Attributes':{'mode':'x','mmr':2000}}]");
    static const struct {
        const char *proposal;
        const char *status;
        const char *why;    /* somewhere in it */
        const char *member; /* of the first member listed */
    } rows[] = {
        {"'ProposalId':'1','Members':[]", "invalid", "1 to 200", ""},
        {"'ProposalId':'1','Members':7", "invalid", "Members", ""},
        {"'ProposalId':'1','Members':[7]", "invalid", "Members[0]", ""},
        {"'ProposalId':'1','Members':[{'TicketId':'a'}]", "invalid", "Version", ""},
        {"'ProposalId':''," MEMBERS_AB, "invalid", "ProposalId", ""},
        {"'ProposalId':'1','Score':'high'," MEMBERS_AB, "invalid", "Score", ""},
        {"'ProposalId':'1','RulesVersion':-1," MEMBERS_AB, "invalid", "RulesVersion", ""},
        {"'ProposalId':'1','Body':'\\u0001'," MEMBERS_AB, "invalid", "Body", ""},
        {"'ProposalId':'1','Members':[{'TicketId':'a','Version':1},{'TicketId':'u','Version':1}]", "invalid", "unknown",
         "unknown"},
        {"'ProposalId':'1','Members':[{'TicketId':'a','Version':1},{'TicketId':'a','Version':1}]", "invalid", "twice",
         "twice"},
        {"'ProposalId':'1','Members':[{'TicketId':'a','Version':1}]", "invalid", "2", ""},
        {"'ProposalId':'1','Members':[{'TicketId':'a','Version':2},{'TicketId':'b','Version':1}]", "stale", "",
         "stale"},
        {"'ProposalId':'1','Members':[{'TicketId':'a','Version':1},{'TicketId':'far','Version':1}]", "invalid",
         "near(mmr)", ""},
        {"'ProposalId':'1'," MEMBERS_AB, "matched", "", ""},
    };
    struct buffer body;
    buffer_init(&body);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        buffer_append_format(&body, "%s{%s}", i == 0 ? ",'Proposals':[" : ",", rows[i].proposal);
    buffer_append_format(&body, "]%c", '\0');
    struct answer answer = call(world, "ProposeMatches", (const char *)body.data_owned);
    buffer_deinit(&body);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        yyjson_val *result = item(answer, "Results", i);
        const char *fault = sqs_text(yyjson_arr_get(yyjson_obj_get(result, "Members"), 0), "Why");
        if (!says(result, "Status", rows[i].status) || strstr(sqs_text(result, "Why"), rows[i].why) == NULL ||
            strcmp(fault, rows[i].member) != 0)
            fail_msg("%s: %s (%s, %s)", rows[i].proposal, sqs_text(result, "Status"), sqs_text(result, "Why"), fault);
    }
    sqs_expect_error(world, "Tally.ProposeMatches", "{'PoolName':'duel'}", "EmptyBatchRequest", "at least one");
    sqs_expect_error(world, "Tally.ProposeMatches", "{'PoolName':'duel','Proposals':[7]}", "SerializationException",
                     "Proposals[0]");
    sqs_close(world);
}

static void MR35_a_proposal_under_older_rules_is_stale(void **state)
{
    struct world *world = open_pool(state, "external", "");
    OFFER(world, "a", "b");
    call(world, "UpdatePool", ",'Rules':[]");
    yyjson_val *result = propose(world, "'ProposalId':'p','RulesVersion':1," MEMBERS_AB);
    EXPECT(world, says(result, "Status", "stale") && number(result, "RulesVersion") == 2);
    EXPECT(world, yyjson_obj_get(result, "Members") == NULL && pool_number(world, "Stale") == 1);
    EXPECT(world, says(propose(world, "'ProposalId':'p','RulesVersion':2," MEMBERS_AB), "Status", "matched"));
    sqs_close(world);
}

static void MR29_a_full_result_queue_is_told(void **state)
{
    struct world *world = open_pool(state, "external", ",'ResultsMax':1");
    OFFER(world, "a", "b", "c", "d");
    EXPECT(world, says(propose(world, "'ProposalId':'p'," MEMBERS_AB), "Status", "matched"));
    const char *second = "'ProposalId':'q','Members':[{'TicketId':'c','Version':1},{'TicketId':'d','Version':1}]";
    EXPECT(world, says(propose(world, second), "Status", "result-full") && tickets_in(world, "Waiting") == 2);
    struct taken taken;
    EXPECT(world, world_take(world, "results", 30, 1, &taken) == 1);
    world_delete(world, "results", taken.handle);
    EXPECT(world, says(propose(world, second), "Status", "matched"));
    sqs_close(world);
}

/* --- proposals that take long ------------------------------------------------------------------------------------- */

#define MANY 200u

/* Proposals of the tickets 0 to 199, of which the last two are the same and differ must hold; in the last proposal 200
 * takes the place of 199. The caller frees it. */
static char *proposals_of_many(unsigned count)
{
    struct buffer body;
    buffer_init(&body);
    buffer_append_format(&body, "{\"PoolName\":\"big\",\"Proposals\":[");
    for (unsigned i = 0; i < count; i++) {
        buffer_append_format(&body, "%s{\"ProposalId\":\"p%u\",\"Members\":[", i == 0 ? "" : ",", i);
        for (unsigned k = 0; k < MANY; k++)
            buffer_append_format(&body, "%s{\"TicketId\":\"%u\",\"Version\":1}", k == 0 ? "" : ",",
                                 k == MANY - 1 && i == count - 1 ? MANY : k);
        buffer_append_format(&body, "]}");
    }
    buffer_append_format(&body, "]}%c", '\0');
    return (char *)body.data_owned;
}

static void begin_request(struct world *world, struct poll *poll, const char *target, const char *body)
{
    exchange_init(&poll->exchange);
    poll->exchange.request = (struct request){.target = bytes_from_string(target), .body = bytes_from_string(body)};
    front_submit(world->front, &poll->exchange, world->now_ms);
}

static void begin_proposals(struct world *world, struct poll *poll, const char *body)
{
    begin_request(world, poll, "Tally.ProposeMatches", body);
}

static struct world *open_big_pool(void **state)
{
    struct world *world = open_world(state);
    struct buffer body;
    sqs_call(world, "Tally.CreatePool",
             "{'PoolName':'big','ResultQueueUrl':'results','Matcher':'external','Verify':true,'Size':200,"
             "'Attributes':{'n':'num'},'Rules':[{'type':'differ','attr':'n'}]}");
    buffer_init(&body);
    buffer_append_format(&body, "{'PoolName':'big','Tickets':[");
    for (unsigned i = 0; i <= MANY; i++)
        buffer_append_format(&body, "%s{'TicketId':'%u','Attributes':{'n':%u}}", i == 0 ? "" : ",", i,
                             i == MANY - 1 ? i - 1 : i);
    buffer_append_format(&body, "]}%c", '\0');
    sqs_call(world, "Tally.OfferTickets", (const char *)body.data_owned);
    buffer_deinit(&body);
    return world;
}

static void proposals_that_take_long_to_verify_are_judged_in_several_turns(void **state)
{
    struct world *world = open_big_pool(state);
    struct poll poll, gone;
    char *body = proposals_of_many(10);
    begin_proposals(world, &gone, body);
    EXPECT(world, is_waiting(&gone));
    api_abandon(&gone.exchange);
    exchange_deinit(&gone.exchange);
    begin_proposals(world, &poll, body);
    EXPECT(world, is_waiting(&poll) && api_due_ms(world->api) == 0);
    sqs_call(world, "Tally.GetTicket", "{'PoolName':'big','TicketId':'0'}"); /* others are served between them */
    unsigned ticks = 0;
    for (; is_waiting(&poll); ticks++)
        api_tick(world->api, world->now_ms);
    EXPECT(world, ticks == 2); /* four of 19,900 pairs each in a turn */
    yyjson_doc *doc = end(world, &poll);
    yyjson_val *results = yyjson_obj_get(yyjson_doc_get_root(doc), "Results");
    EXPECT(world, yyjson_arr_size(results) == 10);
    for (unsigned i = 0; i < 10; i++) {
        char id[8];
        snprintf(id, sizeof(id), "p%u", i);
        yyjson_val *result = yyjson_arr_get(results, i);
        EXPECT(world, says(result, "ProposalId", id) && says(result, "Status", i < 9 ? "invalid" : "matched"));
    }
    yyjson_doc_free(doc);
    free(body);
    sqs_close(world);
}

/* Like a reply: the tree of the request, and what is written of the answer. */
static void proposals_that_wait_are_counted_with_all_that_they_keep(void **state)
{
    struct world *world = open_big_pool(state);
    struct reply_budget budget = {.max = (size_t)1 << 30};
    struct poll poll, gone;
    char *body = proposals_of_many(10);
    front_set_budgets(world->front, &budget, NULL);
    begin_proposals(world, &gone, body);
    EXPECT(world, is_waiting(&gone) && budget.held > strlen(body) / 2);
    api_abandon(&gone.exchange);
    exchange_deinit(&gone.exchange);
    EXPECT(world, budget.held == 0);
    begin_proposals(world, &poll, body);
    for (; is_waiting(&poll); api_tick(world->api, world->now_ms))
        EXPECT(world, budget.held == arena_size(&poll.exchange.arena) + poll.exchange.reply.body.capacity);
    EXPECT(world, budget.held == exchange_reply_memory(&poll.exchange));
    yyjson_doc_free(end(world, &poll));
    front_set_budgets(world->front, NULL, NULL);
    free(body);
    sqs_close(world);
}

static void who_waits_for_proposals_is_told_of_a_stop_and_of_the_end_of_the_pool(void **state)
{
    struct world *world = open_big_pool(state);
    struct poll poll, deleting;
    char *body = proposals_of_many(10);
    begin_proposals(world, &poll, body);
    EXPECT(world, is_waiting(&poll));
    api_release_waiting(world->api);
    EXPECT(world, !is_waiting(&poll) && poll.exchange.reply.error == ERROR_SERVICE_UNAVAILABLE);
    yyjson_doc_free(end(world, &poll));
    begin_proposals(world, &poll, body);
    EXPECT(world, is_waiting(&poll));
    begin_request(world, &deleting, "Tally.DeletePool", "{\"PoolName\":\"big\"}");
    EXPECT(world, !is_waiting(&poll) && poll.exchange.reply.error == ERROR_POOL_DOES_NOT_EXIST);
    yyjson_doc_free(end(world, &poll));
    EXPECT(world, front_take_finished(world->front) == &deleting.exchange);
    exchange_deinit(&deleting.exchange);
    free(body);
    sqs_close(world);
}

static void a_proposal_that_takes_too_long_to_verify_is_invalid(void **state)
{
    struct world *world = open_big_pool(state);
    struct buffer rules;
    buffer_init(&rules);
    buffer_append_format(&rules, "{'PoolName':'big','Rules':[");
    for (unsigned i = 0; i < 31; i++) {
        buffer_append_format(&rules, "%s{'type':'expr','expr':'a.n + b.n >= 0", i == 0 ? "" : ",");
        for (unsigned part = 1; part < 24; part++)
            buffer_append_format(&rules, " and a.n + b.n >= 0");
        buffer_append_format(&rules, "'}");
    }
    buffer_append_format(&rules, "]}%c", '\0');
    sqs_call(world, "Tally.UpdatePool", (const char *)rules.data_owned);
    buffer_deinit(&rules);
    char *body = proposals_of_many(1);
    struct poll poll;
    begin_proposals(world, &poll, body);
    yyjson_doc *doc = end(world, &poll);
    yyjson_val *result = yyjson_arr_get(yyjson_obj_get(yyjson_doc_get_root(doc), "Results"), 0);
    EXPECT(world, says(result, "Status", "invalid") && strstr(sqs_text(result, "Why"), "1000000 steps") != NULL);
    EXPECT(world, yyjson_obj_get(result, "Members") == NULL);
    yyjson_doc_free(doc);
    free(body);
    sqs_close(world);
}

/* --- after the match ---------------------------------------------------------------------------------------------- */

static struct answer put_back(struct world *world, const char *match)
{
    char body[100];
    snprintf(body, sizeof(body), ",'MatchId':'%s'", match);
    return call(world, "PutBackMatch", body);
}

static void MR30_a_match_is_put_back_until_it_is_acknowledged(void **state)
{
    struct world *world = open_pool(state, "external", "");
    OFFER(world, "a", "b");
    char match[WORLD_ID_SIZE];
    snprintf(match, sizeof(match), "%s", sqs_text(propose(world, "'ProposalId':'p'," MEMBERS_AB), "MatchId"));
    EXPECT(world, says(put_back(world, match).root, "Status", "put-back") && tickets_in(world, "Waiting") == 2);
    EXPECT(world, says(put_back(world, match).root, "Status", "put-back") &&
                      says(put_back(world, match).root, "MatchId", match));
    EXPECT(world, world_count_messages(world, "results") == 0 && pool_number(world, "PutBacks") == 1);
    EXPECT(world, says(propose(world, "'ProposalId':'q'," MEMBERS_AB), "Status", "stale"));
    yyjson_val *result =
        propose(world, "'ProposalId':'q','Members':[{'TicketId':'a','Version':2},{'TicketId':'b','Version':2}]");
    snprintf(match, sizeof(match), "%s", sqs_text(result, "MatchId"));
    struct taken taken;
    EXPECT(world, world_take(world, "results", 30, 1, &taken) == 1);
    world_delete(world, "results", taken.handle);
    EXPECT(world, says(put_back(world, match).root, "Status", "acked"));
    EXPECT(world, says(put_back(world, taken.handle).root, "Status", "unknown"));
    sqs_expect_error(world, "Tally.PutBackMatch", "{'PoolName':'duel'}", "MissingRequiredParameterException",
                     "MatchId");
    sqs_close(world);
}

static const char *confirm(struct world *world, const char *match, const char *ticket, const char *accept)
{
    char body[160];
    snprintf(body, sizeof(body), ",'MatchId':'%s','TicketId':'%s'%s", match, ticket, accept);
    return sqs_text(call(world, "ConfirmMatch", body).root, "Status");
}

static void MR31_a_held_match_is_confirmed_or_refused(void **state)
{
    struct world *world = open_pool(state, "external", ",'ConfirmSeconds':15");
    OFFER(world, "a", "b", "c");
    char match[WORLD_ID_SIZE];
    snprintf(match, sizeof(match), "%s", sqs_text(propose(world, "'ProposalId':'p'," MEMBERS_AB), "MatchId"));
    EXPECT(world, says(call(world, "GetTicket", ",'TicketId':'a'").root, "Status", "held"));
    EXPECT(world, says(call(world, "GetTicket", ",'TicketId':'a'").root, "MatchId", match));
    EXPECT(world, strcmp(confirm(world, match, "a", ""), "held") == 0);
    EXPECT(world, strcmp(confirm(world, match, "c", ""), "unknown") == 0);
    EXPECT(world, strcmp(confirm(world, match, "b", ",'Accept':false"), "refused") == 0);
    EXPECT(world, strcmp(confirm(world, match, "a", ""), "too-late") == 0);
    EXPECT(world, says(call(world, "GetTicket", ",'TicketId':'b'").root, "Status", "cancelled"));
    yyjson_val *result =
        propose(world, "'ProposalId':'q','Members':[{'TicketId':'a','Version':2},{'TicketId':'c','Version':1}]");
    snprintf(match, sizeof(match), "%s", sqs_text(result, "MatchId"));
    EXPECT(world, strcmp(confirm(world, match, "a", ""), "held") == 0 && world_count_messages(world, "results") == 0);
    EXPECT(world, strcmp(confirm(world, match, "c", ",'Accept':true"), "matched") == 0);
    EXPECT(world, world_count_messages(world, "results") == 1);
    EXPECT(world, strcmp(confirm(world, "nonsense", "c", ""), "unknown") == 0);
    sqs_expect_error(world, "Tally.ConfirmMatch", "{'PoolName':'duel','MatchId':'x'}",
                     "MissingRequiredParameterException", "TicketId");
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proposal_is_matched_and_its_repeat_too),
        cmocka_unit_test(each_proposal_is_judged_by_itself),
        cmocka_unit_test(MR35_a_proposal_under_older_rules_is_stale),
        cmocka_unit_test(MR29_a_full_result_queue_is_told),
        cmocka_unit_test(proposals_that_take_long_to_verify_are_judged_in_several_turns),
        cmocka_unit_test(proposals_that_wait_are_counted_with_all_that_they_keep),
        cmocka_unit_test(who_waits_for_proposals_is_told_of_a_stop_and_of_the_end_of_the_pool),
        cmocka_unit_test(a_proposal_that_takes_too_long_to_verify_is_invalid),
        cmocka_unit_test(MR30_a_match_is_put_back_until_it_is_acknowledged),
        cmocka_unit_test(MR31_a_held_match_is_confirmed_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
