/* The actions of tickets: offers, their repeats, their limits and faults of one among good ones; updates, cancels,
 * lists, counts, and why a ticket waits. */
#include "pools.h"

/* --- offers ------------------------------------------------------------------------------------------------------- */

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

/* --- how much there may be ---------------------------------------------------------------------------------------- */

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

/* --- what becomes of them ----------------------------------------------------------------------------------------- */

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
    char body[200], token[80] = "";
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
    api_abandon(&gone.exchange);
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

/* --- why ---------------------------------------------------------------------------------------------------------- */

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

static bool lists(yyjson_val *object, const char *name, const char *text)
{
    yyjson_val *list = yyjson_obj_get(object, name);
    return yyjson_arr_size(list) == 1 && yyjson_equals_str(yyjson_arr_get_first(list), text);
}

static void what_a_ticket_lacks_is_named(void **state)
{
    struct world *world = open_pool(state, "external", "");
    call(world, "UpdatePool",
         ",'Attributes':{'mode':'str','mmr':'num','maps':'set','kind':'str','size':'num','room':'num'},"
         "'Rules':[{'type':'differ','attr':'kind'},{'type':'expr','expr':'a.room >= b.size'},"
         "{'type':'expr','expr':'1 / (a.size - 2) < 9'}]");
    call(world, "OfferTickets",
         ",'Tickets':[{'TicketId':'order','Attributes':{'kind':'o','size':1}},{'TicketId':'bare','Attributes':{}},"
         "{'TicketId':'van','Attributes':{'kind':'v','room':2}},"
         "{'TicketId':'two','Attributes':{'kind':'x','size':2,'room':9}},"
         "{'TicketId':'full','Attributes':{'kind':'f','size':4,'room':0}}]");
    struct answer answer = call(world, "ExplainTicket", ",'TicketId':'order'");
    EXPECT(world, rejects(answer, "differ(kind)") == 1 && rejects(answer, "expr(a.room >= b.size)") == 3);
    EXPECT(world, lists(item(answer, "Rejects", 0), "CandidatesLack", "kind"));
    EXPECT(world, yyjson_get_uint(yyjson_obj_get(item(answer, "Rejects", 1), "Errors")) == 3);
    EXPECT(world, lists(item(answer, "Rejects", 1), "Lacks", "room"));
    EXPECT(world, yyjson_obj_get(item(answer, "Rules", 0), "Lacks") == NULL);
    answer = call(world, "ExplainTicket", ",'TicketId':'van'");
    EXPECT(world, lists(item(answer, "Rejects", 1), "Lacks", "size"));
    EXPECT(world, lists(item(answer, "Rejects", 1), "CandidatesLack", "room"));
    answer = call(world, "ExplainTicket", ",'TicketId':'bare'");
    EXPECT(world, lists(item(answer, "Rules", 0), "Lacks", "kind"));
    EXPECT(world, lists(item(answer, "Rejects", 0), "Lacks", "kind"));
    call(world, "CancelTickets", ",'TicketIds':['order','van','bare']");
    answer = call(world, "ExplainTicket", ",'TicketId':'two'"); /* 0 >= 2 is a plain rejection */
    EXPECT(world, rejects(answer, "expr(a.room >= b.size)") == 1);
    EXPECT(world, yyjson_obj_get(item(answer, "Rejects", 0), "Errors") == NULL);
    call(world, "OfferTickets", ",'Tickets':[{'TicketId':'last','Attributes':{'kind':'l','size':3,'room':9}}]");
    call(world, "CancelTickets", ",'TicketIds':['full']");
    answer = call(world, "ExplainTicket", ",'TicketId':'two'"); /* a division by zero: nothing is missing */
    EXPECT(world, yyjson_get_uint(yyjson_obj_get(item(answer, "Rejects", 0), "Errors")) == 1);
    EXPECT(world, yyjson_obj_get(item(answer, "Rejects", 0), "Lacks") == NULL);
    EXPECT(world, yyjson_obj_get(item(answer, "Rejects", 0), "CandidatesLack") == NULL);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_offered_can_be_read_back),
        cmocka_unit_test(MR27_an_offer_that_is_repeated_adds_nothing),
        cmocka_unit_test(of_a_thousand_tickets_the_faulty_ones_are_invalid_and_the_others_wait),
        cmocka_unit_test(an_offer_with_a_fault_in_its_structure_is_refused_whole),
        cmocka_unit_test(the_built_in_matcher_answers_within_the_offer),
        cmocka_unit_test(a_ticket_may_say_as_much_as_a_match_has_room_for),
        cmocka_unit_test(an_offer_larger_than_a_frame_is_taken_whole),
        cmocka_unit_test(an_exclusive_set_has_500_tickets_at_most),
        cmocka_unit_test(the_largest_match_fits_the_smallest_frame),
        cmocka_unit_test(an_update_replaces_what_it_names),
        cmocka_unit_test(MR5_a_cancel_says_which_way_each_ticket_went),
        cmocka_unit_test(tickets_are_listed_in_pages_and_each_once),
        cmocka_unit_test(a_count_goes_through_the_tickets_in_portions),
        cmocka_unit_test(a_ticket_is_explained),
        cmocka_unit_test(what_a_ticket_lacks_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
