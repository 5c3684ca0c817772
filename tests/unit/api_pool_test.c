/* The actions of pools: creating, changing and deleting them, every error that docs/reference names, the feed with
 * its long polls, and parts. What is offered to a pool is in api_ticket_test.c, what is proposed to it in
 * api_match_test.c; what matching means is tested below, in match_* and core_*. */
#include "pools.h"

/* --- pools -------------------------------------------------------------------------------------------------------- */

static void a_pool_is_created_described_listed_and_deleted(void **state)
{
    struct world *world = open_pool(state, "both", ",'OnExpiryQueueUrl':'expired','TicketTtlSeconds':60,'Verify':true");
    struct answer answer = call(world, "DescribePool", "");
    EXPECT(world, strcmp(answer_text(answer, "PoolName"), "duel") == 0);
    EXPECT(world, strstr(answer_text(answer, "ResultQueueUrl"), "/results") != NULL);
    EXPECT(world, strstr(answer_text(answer, "OnExpiryQueueUrl"), "/expired") != NULL);
    EXPECT(world, strcmp(answer_text(answer, "Matcher"), "both") == 0 && answer_is_true(answer, "Verify"));
    EXPECT(world,
           answer_number(answer, "TicketTtlSeconds") == 60 && answer_number(answer, "RetentionSeconds") == 86400);
    EXPECT(world, answer_number(answer, "Size") == 2 && answer_number(answer, "RulesVersion") == 1);
    EXPECT(world, yyjson_obj_size(member(answer, "Attributes")) == 3 && yyjson_arr_size(member(answer, "Rules")) == 2);
    EXPECT(world, strcmp(answer_text(answer, "Pick"), "oldest") == 0 && answer_text(answer, "Plan")[0] != '\0');
    EXPECT(world, !answer_has(answer, "Warnings") && yyjson_arr_size(member(answer, "Levels")) == 2);
    EXPECT(world, yyjson_obj_size(member(answer, "Tickets")) == 7 && yyjson_obj_size(member(answer, "WaitedMs")) == 4);
    sqs_call(world, "Tally.CreatePool", "{'PoolName':'another','ResultQueueUrl':'results'}");
    answer = sqs_call(world, "Tally.ListPools", "{}");
    EXPECT(world,
           yyjson_arr_size(member(answer, "Pools")) == 2 && says(item(answer, "Pools", 0), "PoolName", "another"));
    answer = sqs_call(world, "Tally.ListPools", "{'Prefix':'du'}");
    EXPECT(world, yyjson_arr_size(member(answer, "Pools")) == 1 && says(item(answer, "Pools", 0), "PoolName", "duel"));
    answer = sqs_call(world, "Tally.ListPools", "{'MaxResults':1}");
    EXPECT(world, yyjson_arr_size(member(answer, "Pools")) == 1 && answer_has(answer, "NextToken"));
    answer =
        world_call(world, "Tally.ListPools", "{'MaxResults':1,'NextToken':'%s'}", answer_text(answer, "NextToken"));
    EXPECT(world, says(item(answer, "Pools", 0), "PoolName", "duel") && !answer_has(answer, "NextToken"));
    sqs_expect_error(world, "DeleteQueue", "{'QueueUrl':'results'}", "QueueInUse", "pools");
    call(world, "DeletePool", "");
    sqs_expect_error(world, "Tally.DescribePool", "{'PoolName':'duel'}", "PoolDoesNotExist", "'duel'");
    sqs_call(world, "Tally.DeletePool", "{'PoolName':'another'}");
    sqs_call(world, "DeleteQueue", "{'QueueUrl':'results'}");
    sqs_close(world);
}

static void a_pool_whose_rules_search_by_nothing_is_told_so(void **state)
{
    struct world *world = open_world(state);
    struct answer answer = sqs_call(world, "Tally.CreatePool", "{'PoolName':'all','ResultQueueUrl':'results'}");
    EXPECT(world, yyjson_arr_size(member(answer, "Warnings")) == 1);
    sqs_close(world);
}

static void creating_again_with_the_same_arguments_is_no_error_and_with_others_one(void **state)
{
    struct world *world = open_pool(state, "external", "");
    /* What is a default may be said, and members may come in any order. */
    struct answer answer = sqs_call(
        world, "Tally.CreatePool",
        "{'Size':2,'Pick':'oldest','WindowMilliseconds':0,'Matcher':'external','PoolName':'duel','ResultQueueUrl':"
        "'http://localhost/000000000000/"
        "results','Rules':[{'attr':'mode','type':'equal'},{'max':50,'type':'near','attr':"
        "'mmr','expand':[{'max':100,'after':'10s'}]}],'Attributes':{'mmr':'num','mode':'str','maps':'set'}}");
    EXPECT(world, answer_number(answer, "RulesVersion") == 1);
    static const char *const others[] = {
        "'Matcher':'built-in'",
        "'Size':3",
        "'Rules':[]",
        "'Attributes':{'x':'num'},'Rules':[]",
        "'ConfirmSeconds':5",
        "'TicketTtlSeconds':5",
        "'Verify':true",
        "'ResultsMax':5",
        "'OnExpiryQueueUrl':'expired'",
        "'WindowMilliseconds':5",
        "'RetentionSeconds':60",
        "'Pick':'nearest:mmr'",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        bool has_rules = strstr(others[i], "Rules") != NULL, has_matcher = strstr(others[i], "Matcher") != NULL;
        answer = world_call(world, "Tally.CreatePool", "{'PoolName':'duel','ResultQueueUrl':'results'%s%s,%s}",
                            has_rules ? "" : "," DUEL, has_matcher ? "" : ",'Matcher':'external'", others[i]);
        if (!answer_fails(answer, "PoolAlreadyExists"))
            fail_msg("%s: %s", others[i], answer.error == NULL ? "OK" : answer_text(answer, "message"));
    }
    sqs_close(world);
}

static void arguments_of_a_pool_are_checked(void **state)
{
    struct world *world = open_world(state);
    static const struct {
        const char *body; /* behind the name and the result queue */
        const char *error;
        const char *text;
    } rows[] = {
        {",'Matcher':'mine'", "InvalidParameterValueException", "built-in, external or both"},
        {",'WindowMilliseconds':10001", "InvalidParameterValueException", "from 0 to 10000"},
        {",'TicketTtlSeconds':-1", "InvalidParameterValueException", "TicketTtlSeconds"},
        {",'ConfirmSeconds':601", "InvalidParameterValueException", "from 0 to 600"},
        {",'RetentionSeconds':59", "InvalidParameterValueException", "from 60 to 1209600"},
        {",'ResultsMax':-1", "InvalidParameterValueException", "ResultsMax"},
        {",'Verify':'perhaps'", "SerializationException", "Verify"},
        {",'Attributes':[]", "SerializationException", "Attributes"},
        {",'Rules':{}", "SerializationException", "Rules"},
        {",'Size':'2'", "SerializationException", "Size"},
        {",'Pick':7", "SerializationException", "Pick"},
        {",'Teams':[{'name':'red','size':1}],'Size':2", "InvalidParameterValueException", "both Size and Teams"},
        {",'Size':0", "InvalidParameterValueException", "external"},
        {",'Size':201", "InvalidParameterValueException", ""},
        {",'Attributes':{'a':'text'}", "InvalidParameterValueException", ""},
        {",'Rules':[{'type':'equal','attr':'a'}]", "InvalidParameterValueException", ""},
        {",'Rules':[{'type':'likes'}]", "InvalidParameterValueException", ""},
        {",'Pick':'nearest:a'", "InvalidParameterValueException", ""},
        {",'OnExpiryQueueUrl':'order.fifo'", "InvalidParameterValueException", "standard queue"},
        {",'OnExpiryQueueUrl':'gone'", "QueueDoesNotExist", ""},
    };
    char body[300];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        snprintf(body, sizeof(body), "{'PoolName':'p','ResultQueueUrl':'results'%s}", rows[i].body);
        sqs_expect_error(world, "Tally.CreatePool", body, rows[i].error, rows[i].text);
    }
    sqs_expect_error(world, "Tally.CreatePool", "{'PoolName':'p'}", "MissingRequiredParameterException",
                     "ResultQueueUrl");
    sqs_expect_error(world, "Tally.CreatePool", "{'PoolName':'p','ResultQueueUrl':'order.fifo'}",
                     "InvalidParameterValueException", "standard queue");
    sqs_expect_error(world, "Tally.CreatePool", "{'ResultQueueUrl':'results'}", "MissingRequiredParameterException",
                     "PoolName");
    sqs_expect_error(world, "Tally.CreatePool", "{'PoolName':'a b','ResultQueueUrl':'results'}",
                     "InvalidParameterValueException", "1 to 80");
    EXPECT(world, yyjson_arr_size(member(sqs_call(world, "Tally.ListPools", "{}"), "Pools")) == 0);
    sqs_call(world, "Tally.CreatePool",
             "{'PoolName':'any-weight','ResultQueueUrl':'results','Size':0,'Matcher':'external'}");
    sqs_close(world);
}

static void an_update_changes_what_it_names(void **state)
{
    struct world *world = open_pool(state, "external", ",'OnExpiryQueueUrl':'expired'");
    call(world, "UpdatePool", "");
    EXPECT(world, pool_number(world, "RulesVersion") == 1);
    call(world, "UpdatePool", ",'ConfirmSeconds':7,'OnExpiryQueueUrl':'','Matcher':'both'");
    struct answer answer = call(world, "DescribePool", "");
    EXPECT(world, answer_number(answer, "ConfirmSeconds") == 7 && !answer_has(answer, "OnExpiryQueueUrl"));
    EXPECT(world, answer_number(answer, "RulesVersion") == 1 && answer_number(answer, "Size") == 2);
    EXPECT(world, strcmp(answer_text(answer, "Matcher"), "both") == 0);
    /* Attributes are added; the rules' version rises with whatever the rules say. */
    EXPECT(world, answer_number(call(world, "UpdatePool", ",'Attributes':{'ping':'num'}"), "RulesVersion") == 2);
    EXPECT(world,
           answer_number(call(world, "UpdatePool", ",'Attributes':{'mode':'str','ping':'num'}"), "RulesVersion") == 2);
    answer =
        call(world, "UpdatePool",
             ",'Rules':[{'type':'near','attr':'ping','max':5}],'Teams':[{'name':'a','size':1},{'name':'b','size':2}]");
    EXPECT(world, answer_number(answer, "RulesVersion") == 3);
    answer = call(world, "DescribePool", "");
    EXPECT(world, yyjson_obj_size(member(answer, "Attributes")) == 4 && yyjson_arr_size(member(answer, "Teams")) == 2);
    EXPECT(world, !answer_has(answer, "Size") && yyjson_arr_size(member(answer, "Rules")) == 1);
    call(world, "UpdatePool", ",'Size':4");
    answer = call(world, "DescribePool", "");
    EXPECT(world, !answer_has(answer, "Teams") && answer_number(answer, "Size") == 4);
    sqs_expect_error(world, "Tally.UpdatePool", "{'PoolName':'duel','Attributes':{'mode':'num'}}",
                     "InvalidParameterValueException", "can only be added");
    sqs_expect_error(world, "Tally.UpdatePool", "{'PoolName':'duel','Size':0}", "InvalidParameterValueException",
                     "external");
    sqs_expect_error(world, "Tally.UpdatePool", "{'PoolName':'duel','ResultQueueUrl':''}",
                     "MissingRequiredParameterException", "ResultQueueUrl");
    sqs_expect_error(world, "Tally.UpdatePool", "{'PoolName':'gone'}", "PoolDoesNotExist", "'gone'");
    sqs_close(world);
}

/* --- the feed ----------------------------------------------------------------------------------------------------- */

static unsigned end_events(struct world *world, struct poll *poll)
{
    yyjson_doc *doc = end(world, poll);
    unsigned count = (unsigned)yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "Events"));
    yyjson_doc_free(doc);
    return count;
}

/* A feed in which nothing has happened. */
static uint64_t first_reading(struct world *world)
{
    struct answer answer = call(world, "FeedTickets", ",'From':0");
    EXPECT(world, !answer_has(answer, "Resync") && yyjson_arr_size(member(answer, "Events")) == 0);
    return answer_number(answer, "Next");
}

static struct answer feed(struct world *world, uint64_t from, const char *more)
{
    char body[200];
    snprintf(body, sizeof(body), ",'From':%llu%s", (unsigned long long)from, more);
    return call(world, "FeedTickets", body);
}

/* Who read on as if it were the same pool would miss what it had before, and keep what is gone. */
static void MR15_who_knew_a_deleted_pool_of_the_same_name_has_to_begin_anew(void **state)
{
    struct world *world = open_pool(state, "external", "");
    OFFER(world, "a", "b", "c", "d", "e");
    uint64_t from = (uint64_t)answer_number(feed(world, 0, ""), "Next");
    EXPECT(world, from == 6 && !answer_has(feed(world, from, ""), "Resync"));
    char token[80], body[140];
    snprintf(token, sizeof(token), "%s", answer_text(call(world, "ListTickets", ",'MaxResults':2"), "NextToken"));
    call(world, "DeletePool", "");
    call(world, "CreatePool",
         ",'ResultQueueUrl':'results','Matcher':'external','Attributes':{'mode':'str','mmr':'num'}");
    EXPECT(world, yyjson_is_true(member(feed(world, from, ""), "Resync")));
    uint64_t next = (uint64_t)answer_number(feed(world, 0, ""), "Next");
    OFFER(world, "f", "g", "h", "i", "j", "k", "l", "m", "n");
    EXPECT(world, yyjson_is_true(member(feed(world, from, ""), "Resync")));
    EXPECT(world, says(item(feed(world, next, ""), "Events", 0), "TicketId", "f"));
    snprintf(body, sizeof(body), "{'PoolName':'duel','NextToken':'%s'}", token);
    sqs_expect_error(world, "Tally.ListTickets", body, "InvalidParameterValueException", "token");
    world_kill(world);
    EXPECT(world, pool_number(world, "Sequence") == next + 8);
    sqs_close(world);
}

static void the_feed_tells_what_happens(void **state)
{
    struct world *world = open_pool(state, "built-in", "");
    uint64_t from = first_reading(world);
    EXPECT(world, from == 1);
    call(world, "OfferTickets",
         ",'Tickets':[{'TicketId':'a','Attributes':{'mode':'x','mmr':1},'Priority':3,'Body':'b'}]");
    call(world, "OfferTickets", ",'Tickets':[{'TicketId':'c','Attributes':{'mode':'y'}}]");
    world_pass_time(world, 10000);
    call(world, "CancelTickets", ",'TicketIds':['c']");
    call(world, "UpdatePool", ",'Pick':'nearest:mmr'");
    world_pass_time(world, 0);
    call(world, "OfferTickets", ",'Tickets':[{'TicketId':'b','Attributes':{'mode':'x','mmr':2}}]");
    struct answer answer = feed(world, from, ",'Parts':8");
    static const struct {
        const char *type;
        const char *id;
        const char *reason;
    } events[] = {
        {"retire", "a", "match"},  {"retire", "c", "cancel"}, {"widen", "", ""},  {"widen", "", ""},
        {"retire", "c", "cancel"}, {"rules", "", ""},         {"widen", "a", ""}, {"retire", "b", "match"},
        {"retire", "", "match"},   {"retire", "", "match"},
    };
    EXPECT(world, yyjson_arr_size(member(answer, "Events")) == ARRAY_LENGTH(events) && !answer_has(answer, "Resync"));
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++) {
        yyjson_val *event = item(answer, "Events", i);
        if (number(event, "Sequence") != from + i || !says(event, "Type", events[i].type) ||
            (events[i].id[0] != '\0' && !says(event, "TicketId", events[i].id)) ||
            !says(event, "Reason", events[i].reason))
            fail_msg("event %zu: %s %s %s", i, sqs_text(event, "Type"), sqs_text(event, "TicketId"),
                     sqs_text(event, "Reason"));
    }
    EXPECT(world, number(item(answer, "Events", 2), "Level") == 1);
    EXPECT(world, strlen(sqs_text(item(answer, "Events", 9), "MatchId")) == 36);
    yyjson_val *rules = item(answer, "Events", 5);
    EXPECT(world,
           number(rules, "RulesVersion") == 2 && says(rules, "Pick", "nearest:mmr") && number(rules, "Size") == 2);
    EXPECT(world, answer_number(answer, "Next") == from + ARRAY_LENGTH(events));
    call(world, "OfferTickets", ",'Tickets':[{'TicketId':'d','Attributes':{'mode':'x'},'Body':'b'}]");
    answer = feed(world, answer_number(answer, "Next"), ",'Parts':8");
    yyjson_val *offered = item(answer, "Events", 0);
    EXPECT(world, says(offered, "Type", "offer") && says(offered, "TicketId", "d") && number(offered, "Version") == 1);
    EXPECT(world, number(offered, "Part") < 8 && says(yyjson_obj_get(offered, "Attributes"), "mode", "x"));
    EXPECT(world, number(offered, "Weight") == 1 && yyjson_obj_get(offered, "Body") == NULL);
    sqs_close(world);
}

static void MR15_who_can_not_go_on_is_told_to_read_the_tickets_anew(void **state)
{
    struct world *world = open_pool(state, "external", ",'RetentionSeconds':60");
    OFFER(world, "a");
    /* Matchers outside find all there was; where only Tally looks, nothing was kept. */
    EXPECT(world, yyjson_arr_size(member(feed(world, 0, ""), "Events")) == 1);
    uint64_t from = (uint64_t)answer_number(feed(world, 1, ""), "Next");
    EXPECT(world, from == 2 && !answer_has(feed(world, from, ""), "Resync"));
    EXPECT(world, answer_is_true(feed(world, from + 1, ""), "Resync"));
    OFFER(world, "b", "c", "d");
    EXPECT(world, yyjson_arr_size(member(feed(world, from, ",'MaxResults':2"), "Events")) == 2);
    EXPECT(world, answer_number(feed(world, from, ",'MaxResults':2"), "Next") == from + 2);
    EXPECT(world, answer_number(call(world, "ListTickets", ""), "Sequence") == from + 2);
    /* A ticket that is forgotten has no name any more. */
    call(world, "CancelTickets", ",'TicketIds':['c']");
    world_pass_time(world, 61000);
    struct answer answer = feed(world, from, "");
    EXPECT(world, yyjson_arr_size(member(answer, "Events")) == 1 && answer_number(answer, "Next") == from + 1);
    EXPECT(world, answer_is_true(feed(world, from + 1, ""), "Resync"));
    EXPECT(world, yyjson_arr_size(member(feed(world, from + 2, ",'MaxResults':1"), "Events")) == 1);
    /* A restart knows what is in the log behind its snapshot. */
    world_kill(world);
    EXPECT(world, answer_is_true(feed(world, from + 1, ""), "Resync"));
    EXPECT(world, yyjson_arr_size(member(feed(world, from + 2, ""), "Events")) == 1);
    EXPECT(world, answer_number(feed(world, from + 1, ""), "Next") == pool_number(world, "Sequence") + 1);
    sqs_close(world);
}

static void a_feed_that_only_tally_was_to_read_begins_with_its_first_reading(void **state)
{
    struct world *world = open_pool(state, "built-in", "");
    OFFER(world, "a");
    EXPECT(world, answer_is_true(feed(world, 0, ""), "Resync") && answer_is_true(feed(world, 1, ""), "Resync"));
    OFFER(world, "b");
    EXPECT(world, yyjson_arr_size(member(feed(world, 2, ""), "Events")) >= 1);
    EXPECT(world, answer_is_true(feed(world, 0, ""), "Resync"));
    sqs_close(world);
}

static void the_feed_is_asked_for_in_order(void **state)
{
    struct world *world = open_pool(state, "external", "");
    static const struct {
        const char *body;
        const char *error;
    } rows[] = {
        {"", "MissingRequiredParameterException"},
        {",'From':'1'", "SerializationException"},
        {",'From':-1", "InvalidParameterValueException"},
        {",'From':0,'MaxResults':1001", "InvalidParameterValueException"},
        {",'From':0,'WaitTimeSeconds':21", "InvalidParameterValueException"},
        {",'From':0,'Parts':65", "InvalidParameterValueException"},
        {",'From':0,'Part':0", "InvalidParameterValueException"},
        {",'From':0,'Part':2,'Parts':2", "InvalidParameterValueException"},
    };
    char body[100];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        snprintf(body, sizeof(body), "{'PoolName':'duel'%s}", rows[i].body);
        sqs_expect_error(world, "Tally.FeedTickets", body, rows[i].error, "");
    }
    sqs_close(world);
}

static void all_who_wait_are_told_of_an_event_in_order_of_arrival(void **state)
{
    struct world *world = open_pool(state, "external", "");
    first_reading(world);
    struct poll polls[3], gone;
    for (size_t i = 0; i < ARRAY_LENGTH(polls); i++)
        begin(world, &polls[i], "FeedTickets", ",'From':1,'WaitTimeSeconds':20");
    begin(world, &gone, "FeedTickets", ",'From':1,'WaitTimeSeconds':20");
    api_abandon(&gone.exchange);
    exchange_deinit(&gone.exchange);
    EXPECT(world, !api_is_settling(world->api));
    act(world, "OfferTickets", ",'Tickets':[{'TicketId':'a'}]");
    act(world, "OfferTickets", ",'Tickets':[{'TicketId':'b'}]");
    /* Once in a turn, of all that its requests did. */
    EXPECT(world, is_waiting(&polls[0]) && api_is_settling(world->api) && api_due_ms(world->api) == 0);
    const uint64_t durable = namespace_durable(world->ns);
    api_tick(world->api, world->now_ms);
    EXPECT(world, polls[0].exchange.hold_sequence > durable);
    for (size_t i = 0; i < ARRAY_LENGTH(polls); i++)
        EXPECT(world, end_events(world, &polls[i]) == 2);
    EXPECT(world, !api_is_settling(world->api));
    sqs_close(world);
}

static void a_wait_for_the_feed_ends_in_time_at_a_stop_and_with_the_pool(void **state)
{
    struct world *world = open_pool(state, "external", "");
    first_reading(world);
    struct poll in_time, at_stop, with_pool;
    begin(world, &in_time, "FeedTickets", ",'From':1,'WaitTimeSeconds':5");
    EXPECT(world, api_due_ms(world->api) == world->now_ms + 5000);
    world_pass_time(world, 4999);
    EXPECT(world, is_waiting(&in_time));
    world_pass_time(world, 1);
    yyjson_doc *doc = end(world, &in_time);
    EXPECT(world, number(yyjson_doc_get_root(doc), "Next") == 1);
    yyjson_doc_free(doc);
    begin(world, &at_stop, "FeedTickets", ",'From':1,'WaitTimeSeconds':5");
    api_release_waiting(world->api);
    EXPECT(world, end_events(world, &at_stop) == 0);
    begin(world, &with_pool, "FeedTickets", ",'From':1,'WaitTimeSeconds':5");
    struct poll deletion;
    begin(world, &deletion, "DeletePool", "");
    EXPECT(world, with_pool.exchange.reply.error == ERROR_POOL_DOES_NOT_EXIST);
    EXPECT(world, front_take_finished(world->front) == &with_pool.exchange);
    EXPECT(world, front_take_finished(world->front) == &deletion.exchange && deletion.exchange.reply.status == 200);
    exchange_deinit(&with_pool.exchange);
    exchange_deinit(&deletion.exchange);
    sqs_close(world);
}

/* The parts that a reply names, as bits. */
static unsigned seed_parts(struct world *world, unsigned part, unsigned parts)
{
    char more[60];
    unsigned bits = 0;
    snprintf(more, sizeof(more), ",'Part':%u,'Parts':%u", part, parts);
    struct answer answer = feed(world, 1, more);
    yyjson_val *list = member(answer, "SeedParts");
    EXPECT(world, list != NULL);
    for (size_t i = 0; i < yyjson_arr_size(list); i++)
        bits |= 1u << yyjson_get_uint(yyjson_arr_get(list, i));
    return bits;
}

/* The events stay for the next reading. */
static void where_memory_for_replies_is_spent_a_feed_waits_and_ends_without_events(void **state)
{
    struct world *world = open_pool(state, "external", "");
    struct reply_budget budget = {.max = 1000};
    struct poll feed, other;
    first_reading(world);
    front_set_budgets(world->front, &budget, NULL);
    begin(world, &feed, "FeedTickets", ",'From':1,'WaitTimeSeconds':5");
    begin(world, &other, "FeedTickets", ",'From':1,'WaitTimeSeconds':20");
    act(world, "OfferTickets", ",'Tickets':[{'TicketId':'a'}]");
    budget.held = 1001;
    api_tick(world->api, world->now_ms);
    EXPECT(world, is_waiting(&feed) && is_waiting(&other));
    world->now_ms += 5000;
    api_tick(world->api, world->now_ms);
    EXPECT(world, !is_waiting(&feed) && is_waiting(&other));
    yyjson_doc *doc = end(world, &feed);
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "Events")) == 0);
    EXPECT(world, number(yyjson_doc_get_root(doc), "Next") == 1);
    yyjson_doc_free(doc);
    budget.held = 1000;
    api_tick(world->api, world->now_ms);
    EXPECT(world, end_events(world, &other) == 1);
    front_set_budgets(world->front, NULL, NULL);
    sqs_close(world);
}

static void MR13_each_part_is_looked_after_by_one_who_is_there(void **state)
{
    struct world *world = open_pool(state, "external", "");
    first_reading(world);
    EXPECT(world, seed_parts(world, 0, 4) == 0xf);
    EXPECT(world, seed_parts(world, 2, 4) == 0xc && seed_parts(world, 0, 4) == 0x3);
    world_pass_time(world, 9999);
    EXPECT(world, seed_parts(world, 0, 4) == 0x3);
    world_pass_time(world, 1);
    EXPECT(world, seed_parts(world, 0, 4) == 0xf);
    /* Others who share by another number are others. */
    EXPECT(world, seed_parts(world, 1, 2) == 0x3 && seed_parts(world, 0, 4) == 0xf);
    /* Who waits is there. */
    struct poll poll;
    begin(world, &poll, "FeedTickets", ",'From':1,'WaitTimeSeconds':20,'Part':1,'Parts':4");
    for (unsigned i = 0; i < 2; i++) {
        world_pass_time(world, 9500);
        struct poll other;
        begin(world, &other, "FeedTickets", ",'From':1,'Part':0,'Parts':4");
        yyjson_doc *doc = end(world, &other);
        EXPECT(world, yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "SeedParts")) == 1);
        yyjson_doc_free(doc);
    }
    world_pass_time(world, 1000);
    EXPECT(world, end_events(world, &poll) == 0);
    /* Whoever goes while he waits is not there any longer than who waited no more. */
    begin(world, &poll, "FeedTickets", ",'From':1,'WaitTimeSeconds':20,'Part':1,'Parts':4");
    api_abandon(&poll.exchange);
    exchange_deinit(&poll.exchange);
    world_pass_time(world, 9999);
    EXPECT(world, seed_parts(world, 0, 4) == 0x1);
    world_pass_time(world, 1);
    EXPECT(world, seed_parts(world, 0, 4) == 0xf);
    sqs_close(world);
}

/* --- what is told of all ------------------------------------------------------------------------------------------ */

static bool has_line(struct bytes text, const char *line)
{
    return memmem(text.ptr, text.size, line, strlen(line)) != NULL;
}

static void metrics_show_a_hundred_pools_and_sum_the_others(void **state)
{
    struct world *world = open_pool(state, "built-in", "");
    OFFER(world, "a", "b", "c");
    for (unsigned i = 0; i < 110; i++) {
        EXPECT(world,
               world_call(world, "Tally.CreatePool", "{'PoolName':'z%03u','ResultQueueUrl':'results'}", i).error ==
                   NULL);
        EXPECT(world,
               world_call(world, "Tally.OfferTickets", "{'PoolName':'z%03u','Tickets':[{'TicketId':'t'}]}", i).error ==
                   NULL);
    }
    struct arena arena;
    struct buffer text;
    arena_init(&arena);
    buffer_init(&text);
    front_metrics_write(world->front, &arena, &text);
    struct bytes all = buffer_bytes(&text);
    EXPECT(world, has_line(all, "tally_pools 111\n") && has_line(all, "tally_feeds_waiting 0\n"));
    EXPECT(world, has_line(all, "tally_pool_tickets{pool=\"duel\",state=\"waiting\"} 1\n"));
    EXPECT(world, has_line(all, "tally_pool_tickets{pool=\"duel\",state=\"matched\"} 2\n"));
    EXPECT(world, has_line(all, "tally_pool_matches_total{pool=\"duel\"} 1\n"));
    EXPECT(world, has_line(all, "tally_pool_tickets{pool=\"z098\",state=\"waiting\"} 1\n"));
    EXPECT(world, !has_line(all, "pool=\"z099\""));
    EXPECT(world, has_line(all, "tally_pool_tickets{pool=\"*\",state=\"waiting\"} 11\n"));
    EXPECT(world, has_line(all, "tally_pool_waited_seconds_bucket{pool=\"duel\",level=\"0\",le=\"0.01\"} 2\n"));
    EXPECT(world, has_line(all, "tally_pool_waited_seconds_count{pool=\"duel\",level=\"0\"} 2\n"));
    EXPECT(world, !has_line(all, "pool=\"duel\",level=\"1\"")); /* from which nobody was matched */
    buffer_deinit(&text);
    arena_deinit(&arena);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_is_created_described_listed_and_deleted),
        cmocka_unit_test(a_pool_whose_rules_search_by_nothing_is_told_so),
        cmocka_unit_test(creating_again_with_the_same_arguments_is_no_error_and_with_others_one),
        cmocka_unit_test(arguments_of_a_pool_are_checked),
        cmocka_unit_test(an_update_changes_what_it_names),
        cmocka_unit_test(MR15_who_knew_a_deleted_pool_of_the_same_name_has_to_begin_anew),
        cmocka_unit_test(the_feed_tells_what_happens),
        cmocka_unit_test(MR15_who_can_not_go_on_is_told_to_read_the_tickets_anew),
        cmocka_unit_test(a_feed_that_only_tally_was_to_read_begins_with_its_first_reading),
        cmocka_unit_test(the_feed_is_asked_for_in_order),
        cmocka_unit_test(all_who_wait_are_told_of_an_event_in_order_of_arrival),
        cmocka_unit_test(a_wait_for_the_feed_ends_in_time_at_a_stop_and_with_the_pool),
        cmocka_unit_test(where_memory_for_replies_is_spent_a_feed_waits_and_ends_without_events),
        cmocka_unit_test(MR13_each_part_is_looked_after_by_one_who_is_there),
        cmocka_unit_test(metrics_show_a_hundred_pools_and_sum_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
