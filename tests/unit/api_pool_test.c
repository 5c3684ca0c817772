/* The actions of pools: what each says when all is well, every error that docs/protocol.md names, repeats, faults of one entry among good
 * ones, the feed with its long polls, and parts. What matching means is tested below, in match_* and core_*. */
#include "sqs.h"

#include "core/ticket_pool.h"

#define DUEL                                                                                                           \
    "'Attributes':{'mode':'str','mmr':'num','maps':'set'},'Rules':[{'type':'equal','attr':'mode'},{'type':'near',"     \
    "'attr':'mmr','max':50,'expand':[{'after':'10s','max':100}]}]"

static struct world *open_world(void **state)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "results", "");
    world_create_queue(world, "expired", "");
    world_create_queue(world, "order.fifo", "'FifoQueue':'true'");
    return world;
}

/* A world with the pool "duel", whose matcher is `matcher`; `more`: further arguments, each with a comma before it. */
static struct world *open_pool(void **state, const char *matcher, const char *more)
{
    struct world *world = open_world(state);
    struct answer answer =
        world_call(world, "Tally.CreatePool",
                   "{'PoolName':'duel','ResultQueueUrl':'results','Matcher':'%s'," DUEL "%s}", matcher, more);
    if (answer.error != NULL)
        fail_msg("CreatePool: %s (%s)", answer.error, answer_text(answer, "message"));
    return world;
}

/* Calls that must go well; `body` stands behind the PoolName. */
static struct answer call(struct world *world, const char *action, const char *body)
{
    char target[60];
    snprintf(target, sizeof(target), "Tally.%s", action);
    struct answer answer = world_call(world, target, "{'PoolName':'duel'%s}", body);
    if (answer.error != NULL)
        fail_msg("%s %s: %s (%s)", action, body, answer.error, answer_text(answer, "message"));
    return answer;
}

static yyjson_val *member(struct answer answer, const char *name)
{
    return yyjson_obj_get(answer.root, name);
}

static yyjson_val *item(struct answer answer, const char *list, size_t index)
{
    return yyjson_arr_get(member(answer, list), index);
}

static bool says(yyjson_val *object, const char *name, const char *text)
{
    return strcmp(sqs_text(object, name), text) == 0;
}

static uint64_t number(yyjson_val *object, const char *name)
{
    return yyjson_get_uint(yyjson_obj_get(object, name));
}

static uint64_t pool_number(struct world *world, const char *name)
{
    return answer_number(call(world, "DescribePool", ""), name);
}

static uint64_t tickets_in(struct world *world, const char *state)
{
    return number(member(call(world, "DescribePool", ""), "Tickets"), state);
}

/* Offers tickets by their ids, all alike. */
static void offer(struct world *world, const char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char body[200];
        snprintf(body, sizeof(body), ",'Tickets':[{'TicketId':'%s','Attributes':{'mode':'x','mmr':1000}}]", ids[i]);
        EXPECT(world, says(item(call(world, "OfferTickets", body), "Results", 0), "TicketId", ids[i]));
    }
}

#define OFFER(world, ...)                                                                                              \
    offer(world, (const char *const[]){__VA_ARGS__}, ARRAY_LENGTH(((const char *const[]){__VA_ARGS__})))

/* --- pools ----------------------------------------------------------------------------------------------------------- */

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

/* --- tickets --------------------------------------------------------------------------------------------------------- */

static void what_is_offered_can_be_read_back(void **state)
{
    struct world *world = open_pool(state, "external", "");
    struct answer answer =
        call(world, "OfferTickets",
             ",'Tickets':[{'TicketId':'t','Attributes':{'mmr':1500.5,'mode':'\xc3\xb8 \\'\\\\\\'','maps':"
             "['y','x']},'Need':{'mmr':{'min':1e3,'max':2000},'mode':{'in':['a','b']},'maps':{'any':"
             "['x']}},'Weight':2,'Priority':9,'TtlSeconds':30,'ExclusiveSet':'me','Body':'hello'}]");
    yyjson_val *result = item(answer, "Results", 0);
    EXPECT(world, says(result, "Status", "waiting") && number(result, "Version") == 1);
    EXPECT(world, yyjson_is_false(yyjson_obj_get(result, "AlreadyOffered")) && yyjson_obj_size(result) == 4);
    answer = call(world, "GetTicket", ",'TicketId':'t'");
    EXPECT(world, says(answer.root, "Status", "waiting") && answer_number(answer, "Weight") == 2);
    EXPECT(world, answer_number(answer, "Priority") == 9 && says(answer.root, "ExclusiveSet", "me"));
    EXPECT(world, says(answer.root, "Body", "hello") && answer_number(answer, "Level") == 0);
    EXPECT(world, says(member(answer, "Attributes"), "mode", "\xc3\xb8 \"\\\""));
    EXPECT(world, yyjson_get_real(yyjson_obj_get(member(answer, "Attributes"), "mmr")) == 1500.5);
    EXPECT(world, number(yyjson_obj_get(member(answer, "Need"), "mmr"), "min") == 1000);
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(yyjson_obj_get(member(answer, "Need"), "mode"), "in")) == 2);
    EXPECT(world, yyjson_get_real(member(answer, "OfferedAt")) == (double)WORLD_START_MS / 1000);
    EXPECT(world, yyjson_get_real(member(answer, "ExpiresAt")) == (double)(WORLD_START_MS + 30000) / 1000);
    sqs_expect_error(world, "Tally.GetTicket", "{'PoolName':'duel','TicketId':'u'}", "TicketDoesNotExist", "'u'");
    sqs_expect_error(world, "Tally.GetTicket", "{'PoolName':'duel'}", "MissingRequiredParameterException", "TicketId");
    sqs_close(world);
}

static void MR27_an_offer_that_is_repeated_adds_nothing(void **state)
{
    struct world *world = open_pool(state, "external", "");
    const char *first = ",'Tickets':[{'TicketId':'t','Attributes':{'mode':'x','mmr':1}},{'TicketId':'u'}]";
    const char *again = ",'Tickets':[{'TicketId':'t','Attributes':{'mmr':1,'mode':'x'}},{'TicketId':'u','Weight':1}]";
    call(world, "OfferTickets", first);
    struct answer answer = call(world, "OfferTickets", again);
    for (size_t i = 0; i < 2; i++) {
        EXPECT(world, says(item(answer, "Results", i), "Status", "waiting"));
        EXPECT(world, yyjson_is_true(yyjson_obj_get(item(answer, "Results", i), "AlreadyOffered")));
    }
    EXPECT(world, tickets_in(world, "Offered") == 2 && tickets_in(world, "AlreadyOffered") == 2);
    answer = call(world, "OfferTickets", ",'Tickets':[{'TicketId':'t','Attributes':{'mode':'y','mmr':1}}]");
    EXPECT(world, says(item(answer, "Results", 0), "Status", "key-reused"));
    answer = call(world, "OfferTickets", ",'Tickets':[{'TicketId':'u','Body':''}]");
    EXPECT(world, says(item(answer, "Results", 0), "Status", "key-reused"));
    for (size_t i = 0; i < 2; i++) { /* TtlSeconds 0 is "none"; without it, it is the pool's */
        answer =
            call(world, "OfferTickets", ",'Tickets':[{'TicketId':'u','TtlSeconds':0},{'TicketId':'w','TtlSeconds':0}]");
        EXPECT(world, says(item(answer, "Results", 0), "Status", "key-reused"));
        EXPECT(world, says(item(answer, "Results", 1), "Status", "waiting"));
    }
    answer = call(world, "OfferTickets", ",'Tickets':[{'TicketId':'w'}]");
    EXPECT(world, says(item(answer, "Results", 0), "Status", "key-reused"));
    call(world, "CancelTickets", ",'TicketIds':['t','w']");
    answer = call(world, "OfferTickets", first);
    EXPECT(world, says(item(answer, "Results", 0), "Status", "cancelled"));
    /* What is offered twice in one request is offered once. */
    answer = call(world, "OfferTickets", ",'Tickets':[{'TicketId':'v'},{'TicketId':'v'}]");
    EXPECT(world, yyjson_is_true(yyjson_obj_get(item(answer, "Results", 1), "AlreadyOffered")));
    sqs_close(world);
}

static void of_a_thousand_tickets_the_faulty_ones_are_invalid_and_the_others_wait(void **state)
{
    struct world *world = open_pool(state, "external", "");
    static const char *const faulty[] = {
        "'TicketId':''",
        "'TicketId':'a b'",
        "'TicketId':7",
        "'Weight':1",
        "'TicketId':'f','Weight':3",
        "'TicketId':'f','Weight':0",
        "'TicketId':'f','Weight':'1'",
        "'TicketId':'f','Priority':10",
        "'TicketId':'f','TtlSeconds':-1",
        "'TicketId':'f','TtlSeconds':31536001",
        "'TicketId':'f','ExclusiveSet':''",
        "'TicketId':'f','Body':{}",
        "'TicketId':'f','Body':'\\u0001'",
        "'TicketId':'f','Attributes':[]",
        "'TicketId':'f','Attributes':{'elo':1}",
        "'TicketId':'f','Attributes':{'mmr':'x'}",
        "'TicketId':'f','Need':'x'",
        "'TicketId':'f','Need':{'mmr':{'least':1}}",
    };
    struct buffer body;
    buffer_init(&body);
    buffer_append_format(&body, "{'PoolName':'duel','Tickets':[");
    for (size_t i = 0; i < 1000; i++)
        if (i % 50 == 0 && i / 50 < ARRAY_LENGTH(faulty))
            buffer_append_format(&body, "%s{%s}", i == 0 ? "" : ",", faulty[i / 50]);
        else
            buffer_append_format(&body, ",{'TicketId':'t%zu'}", i);
    buffer_append_format(&body, "]}");
    struct answer answer = world_call(world, "Tally.OfferTickets", "%.*s", BYTES_FORMAT(buffer_bytes(&body)));
    buffer_deinit(&body);
    EXPECT(world, answer.error == NULL && yyjson_arr_size(member(answer, "Results")) == 1000);
    for (size_t i = 0; i < 1000; i++) {
        bool is_faulty = i % 50 == 0 && i / 50 < ARRAY_LENGTH(faulty);
        yyjson_val *result = item(answer, "Results", i);
        if (!says(result, "Status", is_faulty ? "invalid" : "waiting") ||
            (is_faulty && sqs_text(result, "Why")[0] == '\0'))
            fail_msg("%zu (%s): %s %s", i, is_faulty ? faulty[i / 50] : "", sqs_text(result, "Status"),
                     sqs_text(result, "Why"));
    }
    EXPECT(world, tickets_in(world, "Waiting") == 1000 - ARRAY_LENGTH(faulty));
    sqs_close(world);
}

static void an_offer_with_a_fault_in_its_structure_is_refused_whole(void **state)
{
    struct world *world = open_pool(state, "external", "");
    sqs_expect_error(world, "Tally.OfferTickets", "{'PoolName':'duel'}", "EmptyBatchRequest", "at least one");
    sqs_expect_error(world, "Tally.OfferTickets", "{'PoolName':'duel','Tickets':{}}", "SerializationException",
                     "Tickets");
    sqs_expect_error(world, "Tally.OfferTickets", "{'PoolName':'duel','Tickets':[{'TicketId':'t'},7]}",
                     "SerializationException", "Tickets[1]");
    sqs_expect_error(world, "Tally.OfferTickets", "{'PoolName':'gone','Tickets':[{'TicketId':'t'}]}",
                     "PoolDoesNotExist", "'gone'");
    struct buffer body;
    buffer_init(&body);
    buffer_append_format(&body, "{'PoolName':'duel','Tickets':[{'TicketId':'t'}");
    for (size_t i = 0; i < 1000; i++)
        buffer_append_format(&body, ",{'TicketId':'t%zu'}", i);
    buffer_append_format(&body, "]}%c", '\0');
    sqs_expect_error(world, "Tally.OfferTickets", (const char *)body.data_owned, "TooManyEntriesInBatchRequest",
                     "1000");
    buffer_deinit(&body);
    EXPECT(world, tickets_in(world, "Offered") == 0);
    sqs_close(world);
}

static void a_ticket_may_say_as_much_as_a_match_has_room_for(void **state)
{
    struct world *world = open_pool(state, "external", ",'Size':16");
    const size_t limit = 524288 / 16;
    char *text = malloc(limit + 2);
    assert_non_null(text);
    for (size_t more = 0; more < 2; more++) {
        memset(text, 'x', limit + more);
        text[limit + more] = '\0';
        struct answer answer = world_call(
            world, "Tally.OfferTickets", "{'PoolName':'duel','Tickets':[{'TicketId':'t%zu','Body':'%s'}]}", more, text);
        EXPECT(world, says(item(answer, "Results", 0), "Status", more == 0 ? "waiting" : "invalid"));
        answer =
            world_call(world, "Tally.UpdateTicket", "{'PoolName':'duel','TicketId':'t0','Attributes':{'mode':'x'}}");
        EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    }
    for (size_t more = 0; more < 2; more++) { /* each backslash is two in the result, too */
        memset(text, '\\', limit);
        text[limit] = '\0';
        struct answer answer =
            world_call(world, "Tally.OfferTickets", "{'PoolName':'duel','Tickets':[{'TicketId':'q%zu','Body':'%s%s'}]}",
                       more, text, more == 0 ? "" : "x");
        EXPECT(world, says(item(answer, "Results", 0), "Status", more == 0 ? "waiting" : "invalid"));
    }
    free(text);
    sqs_close(world);
}

/* A request whose events are more than a frame may hold: each ticket is a decision of its own. */
static void an_offer_larger_than_a_frame_is_taken_whole(void **state)
{
    struct world *world = open_world(state);
    world_create_queue(world, "r", "");
    world_destroy(world);
    world = world_create(&(struct world_options){.seed = 1, .segment_size = 1u << 20, .frame_size_max = 128u << 10});
    world_create_queue(world, "results", "");
    sqs_call(world, "Tally.CreatePool", "{'PoolName':'duel','ResultQueueUrl':'results','Matcher':'external'}");
    char text[10001];
    memset(text, 'x', 10000);
    text[10000] = '\0';
    struct buffer body;
    buffer_init(&body);
    buffer_append_format(&body, "{'PoolName':'duel','Tickets':[");
    for (size_t i = 0; i < 40; i++)
        buffer_append_format(&body, "%s{'TicketId':'t%zu','Body':'%s'}", i == 0 ? "" : ",", i, text);
    buffer_append_format(&body, "]}%c", '\0');
    struct answer answer = sqs_call(world, "Tally.OfferTickets", (const char *)body.data_owned);
    EXPECT(world, yyjson_arr_size(member(answer, "Results")) == 40);
    buffer_deinit(&body);
    world_kill(world);
    EXPECT(world, tickets_in(world, "Waiting") == 40);
    world_destroy(world);
}

/* The record of a match names all tickets of the set, and must fit a frame. */
static void an_exclusive_set_has_500_tickets_at_most(void **state)
{
    struct world *world = open_pool(state, "external", "");
    struct buffer body;
    buffer_init(&body);
    buffer_append_format(&body, "{'PoolName':'duel','Tickets':[");
    for (size_t i = 0; i < 500; i++)
        buffer_append_format(&body, "%s{'TicketId':'t%zu','ExclusiveSet':'s'}", i == 0 ? "" : ",", i);
    buffer_append_format(&body, "]}%c", '\0');
    struct answer answer = sqs_call(world, "Tally.OfferTickets", (const char *)body.data_owned);
    buffer_deinit(&body);
    EXPECT(world, says(item(answer, "Results", 499), "Status", "waiting"));
    const char *more = ",'Tickets':[{'TicketId':'u','ExclusiveSet':'s'},{'TicketId':'t0','ExclusiveSet':'s'}]";
    answer = call(world, "OfferTickets", more);
    EXPECT(world, says(item(answer, "Results", 0), "Status", "invalid"));
    EXPECT(world, strstr(sqs_text(item(answer, "Results", 0), "Why"), "500") != NULL);
    EXPECT(world, says(item(answer, "Results", 1), "Status", "waiting"));
    call(world, "CancelTickets", ",'TicketIds':['t7']");
    answer = call(world, "OfferTickets", more);
    EXPECT(world, says(item(answer, "Results", 0), "Status", "waiting"));
    sqs_close(world);
}

/* The tickets of 200 sets, with bodies that get twice as long in quotes. */
static void offer_sets(struct world *world, size_t body_size)
{
    char quotes[2622];
    for (size_t i = 0; i + 1 < sizeof(quotes); i++)
        quotes[i] = i % 2 == 0 ? '\\' : '"';
    quotes[2 * body_size] = '\0';
    struct buffer body;
    buffer_init(&body);
    for (size_t set = 0; set < 200; set++) {
        buffer_truncate(&body, 0);
        buffer_append_format(&body, "{\"PoolName\":\"duel\",\"Tickets\":[");
        for (size_t i = 0; i < 500; i++)
            buffer_append_format(&body, "%s{\"TicketId\":\"t%zu-%zu\",\"ExclusiveSet\":\"s%zu\",\"Body\":\"%s\"}",
                                 i == 0 ? "" : ",", set, i, set, i == 0 ? quotes : "");
        buffer_append_format(&body, "]}%c", '\0');
        struct answer answer = sqs_call(world, "Tally.OfferTickets", (const char *)body.data_owned);
        EXPECT(world, says(item(answer, "Results", 0), "Status", "waiting"));
    }
    buffer_deinit(&body);
}

/* The frame of a daemon with a body-max of 1 KiB, and as much cancelled and said by one match as can be. */
static void the_largest_match_fits_the_smallest_frame(void **state)
{
    struct world *world = open_world(state);
    world_destroy(world);
    world =
        world_create(&(struct world_options){.seed = 1, .segment_size = 8u << 20, .frame_size_max = (2u << 20) + 4096});
    world_create_queue(world, "results", "");
    sqs_call(world, "Tally.CreatePool",
             "{'PoolName':'duel','ResultQueueUrl':'results','Matcher':'external','Size':200}");
    offer_sets(world, 524288 / 200 / 2);
    struct buffer body;
    buffer_init(&body);
    buffer_append_format(&body, "{'PoolName':'duel','Proposals':[{'ProposalId':'p','Members':[");
    for (size_t i = 0; i < 200; i++)
        buffer_append_format(&body, "%s{'TicketId':'t%zu-0','Version':1}", i == 0 ? "" : ",", i);
    buffer_append_format(&body, "]}]}%c", '\0');
    struct answer answer = sqs_call(world, "Tally.ProposeMatches", (const char *)body.data_owned);
    buffer_deinit(&body);
    EXPECT(world, says(item(answer, "Results", 0), "Status", "matched"));
    EXPECT(world, tickets_in(world, "Cancelled") == 200 * 499);
    world_destroy(world);
}

static void the_built_in_matcher_answers_within_the_offer(void **state)
{
    struct world *world = open_pool(state, "built-in", "");
    OFFER(world, "a");
    struct answer answer =
        call(world, "OfferTickets", ",'Tickets':[{'TicketId':'b','Attributes':{'mode':'x','mmr':1040}}]");
    yyjson_val *result = item(answer, "Results", 0);
    EXPECT(world, says(result, "Status", "matched") && strlen(sqs_text(result, "MatchId")) == 36);
    char match[WORLD_ID_SIZE];
    snprintf(match, sizeof(match), "%s", sqs_text(result, "MatchId"));
    answer = call(world, "GetTicket", ",'TicketId':'a'");
    EXPECT(world, says(answer.root, "Status", "matched") && says(answer.root, "MatchId", match));
    struct taken taken;
    EXPECT(world, world_take(world, "results", 30, 1, &taken) == 1 && strcmp(taken.id, match) == 0);
    world_delete(world, "results", taken.handle);
    /* Over for good: what it said is forgotten, what became of it is not. */
    answer = call(world, "GetTicket", ",'TicketId':'a'");
    EXPECT(world, says(answer.root, "MatchId", match) && !answer_has(answer, "Attributes"));
    EXPECT(world, pool_number(world, "Matches") == 1 && tickets_in(world, "Matched") == 2);
    sqs_close(world);
}

static void an_update_replaces_what_it_names(void **state)
{
    struct world *world = open_pool(state, "external", "");
    call(world, "OfferTickets", ",'Tickets':[{'TicketId':'t','Attributes':{'mode':'x'},'Need':{'mode':{'eq':'y'}}}]");
    struct answer answer = call(world, "UpdateTicket", ",'TicketId':'t','Attributes':{'mmr':7}");
    EXPECT(world, says(answer.root, "Status", "waiting") && answer_number(answer, "Version") == 2);
    answer = call(world, "GetTicket", ",'TicketId':'t'");
    EXPECT(world,
           yyjson_obj_size(member(answer, "Attributes")) == 1 && number(member(answer, "Attributes"), "mmr") == 7);
    EXPECT(world, says(yyjson_obj_get(member(answer, "Need"), "mode"), "eq", "y"));
    answer = call(world, "UpdateTicket", ",'TicketId':'t','Version':2,'Need':{}");
    EXPECT(world, says(answer.root, "Status", "waiting") && answer_number(answer, "Version") == 3);
    answer = call(world, "GetTicket", ",'TicketId':'t'");
    EXPECT(world, number(member(answer, "Attributes"), "mmr") == 7 && !answer_has(answer, "Need"));
    answer = call(world, "UpdateTicket", ",'TicketId':'t','Version':2,'Need':{}");
    EXPECT(world, says(answer.root, "Status", "stale") && answer_number(answer, "Version") == 3);
    sqs_expect_error(world, "Tally.UpdateTicket", "{'PoolName':'duel','TicketId':'t'}",
                     "MissingRequiredParameterException", "Attributes or Need");
    sqs_expect_error(world, "Tally.UpdateTicket", "{'PoolName':'duel','TicketId':'t','Attributes':{'elo':1}}",
                     "InvalidParameterValueException", "elo");
    sqs_expect_error(world, "Tally.UpdateTicket", "{'PoolName':'duel','TicketId':'u','Need':{}}", "TicketDoesNotExist",
                     "'u'");
    call(world, "CancelTickets", ",'TicketIds':['t']");
    answer = call(world, "UpdateTicket", ",'TicketId':'t','Need':{}");
    EXPECT(world, says(answer.root, "Status", "cancelled"));
    sqs_close(world);
}

static void MR5_a_cancel_says_which_way_each_ticket_went(void **state)
{
    struct world *world = open_pool(state, "built-in", "");
    OFFER(world, "a", "b");
    call(world, "OfferTickets",
         ",'Tickets':[{'TicketId':'w','Attributes':{'mode':'z'}},{'TicketId':'e','Attributes':{'mode':'z'},'TtlSeconds'"
         ":1}]");
    world_pass_time(world, 2000);
    struct answer answer = call(world, "CancelTickets", ",'TicketIds':['a','w','e','u','w']");
    static const char *const statuses[] = {"too-late", "cancelled", "expired", "unknown", "cancelled"};
    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        EXPECT(world, says(item(answer, "Results", i), "Status", statuses[i]));
    EXPECT(world, strlen(sqs_text(item(answer, "Results", 0), "MatchId")) == 36);
    sqs_expect_error(world, "Tally.CancelTickets", "{'PoolName':'duel','TicketIds':[]}", "EmptyBatchRequest",
                     "at least one");
    sqs_expect_error(world, "Tally.CancelTickets", "{'PoolName':'duel','TicketIds':[1]}", "SerializationException", "");
    sqs_close(world);
}

static void tickets_are_listed_in_pages_and_each_once(void **state)
{
    struct world *world = open_pool(state, "external", "");
    char body[100], token[40] = "";
    bool has_seen[25] = {false};
    for (unsigned i = 0; i < 25; i++) {
        snprintf(body, sizeof(body), ",'Tickets':[{'TicketId':'%u'}]", i);
        call(world, "OfferTickets", body);
    }
    call(world, "CancelTickets", ",'TicketIds':['3']");
    unsigned pages = 0;
    for (bool is_last = false; !is_last; pages++) {
        snprintf(body, sizeof(body), ",'MaxResults':10,'Parts':4%s%s%s", token[0] == '\0' ? "" : ",'NextToken':'",
                 token, token[0] == '\0' ? "" : "'");
        struct answer answer = call(world, "ListTickets", body);
        EXPECT(world, answer_number(answer, "Sequence") == 26 && answer_number(answer, "RulesVersion") == 1);
        for (size_t k = 0; k < yyjson_arr_size(member(answer, "Tickets")); k++) {
            unsigned id = (unsigned)atoi(sqs_text(item(answer, "Tickets", k), "TicketId"));
            EXPECT(world, id < 25 && !has_seen[id] && number(item(answer, "Tickets", k), "Part") < 4);
            has_seen[id] = true;
        }
        is_last = !answer_has(answer, "NextToken");
        snprintf(token, sizeof(token), "%s", answer_text(answer, "NextToken"));
    }
    for (unsigned i = 0; i < 25; i++)
        EXPECT(world, has_seen[i] == (i != 3));
    EXPECT(world, pages == 3);
    sqs_expect_error(world, "Tally.ListTickets", "{'PoolName':'duel','NextToken':'x'}",
                     "InvalidParameterValueException", "token");
    sqs_close(world);
}

/* --- requests on their way ------------------------------------------------------------------------------------------- */

struct poll {
    struct exchange exchange;
    char target[40];
    char body[300];
};

static void begin(struct world *world, struct poll *poll, const char *action, const char *body)
{
    exchange_init(&poll->exchange);
    snprintf(poll->target, sizeof(poll->target), "Tally.%s", action);
    snprintf(poll->body, sizeof(poll->body), "{'PoolName':'duel'%s}", body);
    for (char *at = poll->body; *at != '\0'; at++)
        if (*at == '\'')
            *at = '"';
    poll->exchange.request =
        (struct request){.target = bytes_from_string(poll->target), .body = bytes_from_string(poll->body)};
    api_submit(world->api, &poll->exchange, world->now_ms);
}

static bool is_waiting(const struct poll *poll)
{
    return poll->exchange.state == EXCHANGE_WAITING;
}

/* Takes it off the api; the document is the caller's to free. */
static yyjson_doc *end(struct world *world, struct poll *poll)
{
    EXPECT(world, poll->exchange.state == EXCHANGE_FINISHED);
    EXPECT(world, api_take_finished(world->api) == &poll->exchange);
    const struct buffer *body = &poll->exchange.reply.body;
    yyjson_doc *doc = yyjson_read((const char *)body->data_owned, body->size, 0);
    assert_non_null(doc);
    exchange_deinit(&poll->exchange);
    return doc;
}

static unsigned end_events(struct world *world, struct poll *poll)
{
    yyjson_doc *doc = end(world, poll);
    unsigned count = (unsigned)yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "Events"));
    yyjson_doc_free(doc);
    return count;
}

/* Does something while others wait: their answers stay on the api's list behind its own. */
static void act(struct world *world, const char *action, const char *body)
{
    struct poll poll;
    begin(world, &poll, action, body);
    yyjson_doc_free(end(world, &poll));
}

static void a_count_goes_through_the_tickets_in_portions(void **state)
{
    struct world *world = open_pool(state, "external", "");
    EXPECT(world, answer_number(call(world, "CountTickets", ""), "Tickets") == 0);
    struct buffer body;
    buffer_init(&body);
    for (unsigned round = 0; round < 10; round++) {
        buffer_truncate(&body, 0);
        buffer_append_format(&body, "{'PoolName':'duel','Tickets':[");
        for (unsigned i = 0; i < 1000; i++)
            buffer_append_format(&body, "%s{'TicketId':'%u.%u','Weight':%u,'Attributes':{'mmr':%u}}", i == 0 ? "" : ",",
                                 round, i, 1 + i % 2, i);
        buffer_append_format(&body, "]}%c", '\0');
        sqs_call(world, "Tally.OfferTickets", (const char *)body.data_owned);
    }
    buffer_deinit(&body);
    struct answer answer = call(world, "CountTickets", "");
    EXPECT(world, answer_number(answer, "Tickets") == 10000 && answer_number(answer, "Weight") == 15000);
    struct poll first, second, gone;
    begin(world, &first, "CountTickets", ",'Filter':{'mmr':{'min':100,'max':199}}");
    begin(world, &second, "CountTickets", ",'Filter':{'mode':{'eq':'x'}}");
    begin(world, &gone, "CountTickets", ",'Filter':{}");
    EXPECT(world, is_waiting(&first) && is_waiting(&second) && is_waiting(&gone));
    EXPECT(world, api_due_ms(world->api) == 0);
    /* Others are served between the portions. */
    act(world, "GetTicket", ",'TicketId':'0.0'");
    api_abandon(world->api, &gone.exchange);
    exchange_deinit(&gone.exchange);
    unsigned ticks = 0;
    for (; is_waiting(&first); ticks++)
        api_tick(world->api, world->now_ms);
    EXPECT(world, ticks == 3); /* two portions of its own, one of the other's between */
    yyjson_doc *doc = end(world, &first);
    EXPECT(world,
           number(yyjson_doc_get_root(doc), "Tickets") == 1000 && number(yyjson_doc_get_root(doc), "Weight") == 1500);
    yyjson_doc_free(doc);
    api_tick(world->api, world->now_ms);
    doc = end(world, &second);
    EXPECT(world, number(yyjson_doc_get_root(doc), "Tickets") == 0);
    yyjson_doc_free(doc);
    sqs_expect_error(world, "Tally.CountTickets", "{'PoolName':'duel','Filter':{'elo':{'eq':1}}}",
                     "InvalidParameterValueException", "elo");
    sqs_close(world);
}

/* --- the feed -------------------------------------------------------------------------------------------------------- */

static uint64_t resync(struct world *world)
{
    struct answer answer = call(world, "FeedTickets", ",'From':0");
    EXPECT(world, answer_is_true(answer, "Resync") && yyjson_arr_size(member(answer, "Events")) == 0);
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
    char token[40], body[100];
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
    uint64_t from = resync(world);
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
    /* Nobody has read yet, so nothing was kept. */
    EXPECT(world, answer_is_true(feed(world, 1, ""), "Resync"));
    uint64_t from = resync(world);
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
    world_kill(world);
    EXPECT(world, answer_is_true(feed(world, from, ""), "Resync"));
    EXPECT(world, answer_number(feed(world, from, ""), "Next") == pool_number(world, "Sequence") + 1);
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
    resync(world);
    struct poll polls[3], gone;
    for (size_t i = 0; i < ARRAY_LENGTH(polls); i++)
        begin(world, &polls[i], "FeedTickets", ",'From':1,'WaitTimeSeconds':20");
    begin(world, &gone, "FeedTickets", ",'From':1,'WaitTimeSeconds':20");
    api_abandon(world->api, &gone.exchange);
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
    resync(world);
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
    EXPECT(world, api_take_finished(world->api) == &with_pool.exchange);
    EXPECT(world, api_take_finished(world->api) == &deletion.exchange && deletion.exchange.reply.status == 200);
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

static void MR13_each_part_is_looked_after_by_one_who_is_there(void **state)
{
    struct world *world = open_pool(state, "external", "");
    resync(world);
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
    api_abandon(world->api, &poll.exchange);
    exchange_deinit(&poll.exchange);
    world_pass_time(world, 9999);
    EXPECT(world, seed_parts(world, 0, 4) == 0x1);
    world_pass_time(world, 1);
    EXPECT(world, seed_parts(world, 0, 4) == 0xf);
    sqs_close(world);
}

/* --- matches --------------------------------------------------------------------------------------------------------- */

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
        {"'ProposalId':'1','Members':[{'TicketId':'a','Version':1},{'TicketId':'far','Version':1}]", "rules",
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

#define MANY 200u

/* Proposals of the tickets 0 to 199, of which the last two are the same and differ must hold; in the last proposal 200 takes the place
 * of 199. The caller frees it. */
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
    api_submit(world->api, &poll->exchange, world->now_ms);
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
    api_abandon(world->api, &gone.exchange);
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
        EXPECT(world, says(result, "ProposalId", id) && says(result, "Status", i < 9 ? "rules" : "matched"));
    }
    yyjson_doc_free(doc);
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
    EXPECT(world, api_take_finished(world->api) == &deleting.exchange);
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

/* --- why ------------------------------------------------------------------------------------------------------------- */

static uint64_t rejects(struct answer answer, const char *rule)
{
    for (size_t i = 0; i < yyjson_arr_size(member(answer, "Rejects")); i++)
        if (says(item(answer, "Rejects", i), "Rule", rule))
            return number(item(answer, "Rejects", i), "Count");
    return 0;
}

static void a_ticket_is_explained(void **state)
{
    struct world *world = open_pool(state, "external", "");
    const char *offers =
        ",'Tickets':[{'TicketId':'t','Attributes':{'mode':'x','mmr':1000},'Need':{'maps':{'any':['k']}},'TtlSeconds':"
        "60},"
        "{'TicketId':'fits','Attributes':{'mode':'x','mmr':1000,'maps':['k','l']}},"
        "{'TicketId':'need','Attributes':{'mode':'x','mmr':1020}},"
        "{'TicketId':'their','Attributes':{'mode':'x','mmr':1000,'maps':['k']},'Need':{'mode':{'eq':'y'}}}]";
    call(world, "OfferTickets", offers);
    struct answer answer = call(world, "ExplainTicket", ",'TicketId':'t'");
    EXPECT(world, says(answer.root, "TicketId", "t") && says(answer.root, "Status", "waiting"));
    EXPECT(world, answer_number(answer, "Level") == 0 && answer_is_true(answer, "Complete"));
    EXPECT(world,
           yyjson_arr_size(member(answer, "Rules")) == 2 && says(item(answer, "Rules", 0), "Rule", "equal(mode)"));
    EXPECT(world, yyjson_get_num(yyjson_obj_get(item(answer, "Rules", 1), "Value")) == 50);
    EXPECT(world, yyjson_get_real(member(answer, "NextStepAt")) == (double)(WORLD_START_MS + 10000) / 1000);
    EXPECT(world, yyjson_get_real(member(answer, "ExpiresAt")) == (double)(WORLD_START_MS + 60000) / 1000);
    EXPECT(world,
           answer_number(answer, "Fits") == 1 && rejects(answer, "need") == 1 && rejects(answer, "their-need") == 1);
    EXPECT(world, answer_number(answer, "Candidates") == 3 && answer_number(answer, "Conflicts") == 0);
    world_pass_time(world, 10000);
    answer = call(world, "ExplainTicket", ",'TicketId':'t'");
    EXPECT(world, answer_number(answer, "Level") == 1 && !answer_has(answer, "NextStepAt"));
    EXPECT(world, yyjson_get_num(yyjson_obj_get(item(answer, "Rules", 1), "Value")) == 100);
    call(world, "CancelTickets", ",'TicketIds':['t']");
    answer = call(world, "ExplainTicket", ",'TicketId':'t'");
    EXPECT(world, says(answer.root, "Status", "cancelled") && !answer_has(answer, "Rules"));
    sqs_expect_error(world, "Tally.ExplainTicket", "{'PoolName':'duel','TicketId':'u'}", "TicketDoesNotExist", "'u'");
    sqs_close(world);
}

/* --- what is told of all ---------------------------------------------------------------------------------------------- */

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
    api_metrics_write(&world->api, 1, &arena, &text);
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
        cmocka_unit_test(what_is_offered_can_be_read_back),
        cmocka_unit_test(MR27_an_offer_that_is_repeated_adds_nothing),
        cmocka_unit_test(of_a_thousand_tickets_the_faulty_ones_are_invalid_and_the_others_wait),
        cmocka_unit_test(an_offer_with_a_fault_in_its_structure_is_refused_whole),
        cmocka_unit_test(a_ticket_may_say_as_much_as_a_match_has_room_for),
        cmocka_unit_test(an_offer_larger_than_a_frame_is_taken_whole),
        cmocka_unit_test(an_exclusive_set_has_500_tickets_at_most),
        cmocka_unit_test(the_largest_match_fits_the_smallest_frame),
        cmocka_unit_test(the_built_in_matcher_answers_within_the_offer),
        cmocka_unit_test(an_update_replaces_what_it_names),
        cmocka_unit_test(MR5_a_cancel_says_which_way_each_ticket_went),
        cmocka_unit_test(MR15_who_knew_a_deleted_pool_of_the_same_name_has_to_begin_anew),
        cmocka_unit_test(tickets_are_listed_in_pages_and_each_once),
        cmocka_unit_test(a_count_goes_through_the_tickets_in_portions),
        cmocka_unit_test(the_feed_tells_what_happens),
        cmocka_unit_test(MR15_who_can_not_go_on_is_told_to_read_the_tickets_anew),
        cmocka_unit_test(the_feed_is_asked_for_in_order),
        cmocka_unit_test(all_who_wait_are_told_of_an_event_in_order_of_arrival),
        cmocka_unit_test(a_wait_for_the_feed_ends_in_time_at_a_stop_and_with_the_pool),
        cmocka_unit_test(MR13_each_part_is_looked_after_by_one_who_is_there),
        cmocka_unit_test(a_proposal_is_matched_and_its_repeat_too),
        cmocka_unit_test(each_proposal_is_judged_by_itself),
        cmocka_unit_test(proposals_that_take_long_to_verify_are_judged_in_several_turns),
        cmocka_unit_test(who_waits_for_proposals_is_told_of_a_stop_and_of_the_end_of_the_pool),
        cmocka_unit_test(a_proposal_that_takes_too_long_to_verify_is_invalid),
        cmocka_unit_test(MR35_a_proposal_under_older_rules_is_stale),
        cmocka_unit_test(MR29_a_full_result_queue_is_told),
        cmocka_unit_test(MR30_a_match_is_put_back_until_it_is_acknowledged),
        cmocka_unit_test(MR31_a_held_match_is_confirmed_or_refused),
        cmocka_unit_test(a_ticket_is_explained),
        cmocka_unit_test(metrics_show_a_hundred_pools_and_sum_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
