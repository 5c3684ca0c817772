/* The context of a trace on a message: as attributes that are not counted, and from the headers of HTTP. A send never
 * fails because of it. */
#include "sqs.h"

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define OTHER_PARENT "00-11111111111111111111111111111111-2222222222222222-00"
#define TEN                                                                                                            \
    ATTRIBUTE("a0")                                                                                                    \
    "," ATTRIBUTE("a1") "," ATTRIBUTE("a2") "," ATTRIBUTE("a3") "," ATTRIBUTE("a4") "," ATTRIBUTE("a5") "," ATTRIBUTE( \
        "a6") "," ATTRIBUTE("a7") "," ATTRIBUTE("a8") "," ATTRIBUTE("a9")
#define ATTRIBUTE(name) "'" name "':{'DataType':'String','StringValue':'x'}"
#define THREE                                                                                                          \
    "'traceparent':{'DataType':'String','StringValue':'" PARENT                                                        \
    "'},'tracestate':{'DataType':'String','StringValue':'rojo=1'},"                                                    \
    "'baggage':{'DataType':'String','StringValue':'user=7'}"

static yyjson_val *receive(struct world *world, const char *names)
{
    struct answer answer = world_call(
        world, "ReceiveMessage",
        "{'QueueUrl':'q','VisibilityTimeout':0,'MaxNumberOfMessages':10,'MessageAttributeNames':[%s]}", names);
    EXPECT(world, answer.error == NULL);
    return yyjson_obj_get(answer.root, "Messages");
}

static const char *value_of(yyjson_val *message, const char *name)
{
    return sqs_text(yyjson_obj_get(yyjson_obj_get(message, "MessageAttributes"), name), "StringValue");
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

static void the_context_of_a_trace_is_not_counted_among_the_ten(void **state)
{
    struct world *world = sqs_open(state);
    sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{" TEN "," THREE "}}");
    yyjson_val *message = yyjson_arr_get_first(receive(world, "'All'"));
    EXPECT(world, yyjson_obj_size(yyjson_obj_get(message, "MessageAttributes")) == 13);
    EXPECT(world, strcmp(value_of(message, "traceparent"), PARENT) == 0);
    EXPECT(world, strcmp(value_of(message, "baggage"), "user=7") == 0);
    message = yyjson_arr_get_first(receive(world, "'trace.*'"));
    EXPECT(world, yyjson_obj_size(yyjson_obj_get(message, "MessageAttributes")) == 2);
    EXPECT(world, yyjson_obj_get(yyjson_arr_get_first(receive(world, "'a1'")), "traceparent") == NULL);
    sqs_close(world);
}

static void an_eleventh_attribute_is_refused_beside_a_trace_as_well(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const eleventh[] = {"b", "Traceparent", "traceparent.x", "trace"};
    for (size_t i = 0; i < ARRAY_LENGTH(eleventh); i++) {
        char body[2000];
        snprintf(body, sizeof(body),
                 "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{" TEN "," THREE
                 ",'%s':{'DataType':'String','StringValue':'x'}}}",
                 eleventh[i]);
        sqs_expect_error(world, "SendMessage", body, "InvalidParameterValueException",
                         "Number of message attributes [11] exceeds the allowed maximum [10].");
    }
    /* Given again and again, it is one that is given twice. */
    sqs_expect_error(world, "SendMessage",
                     "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{" TEN "," THREE "," THREE "," THREE "}}",
                     "InvalidParameterValueException", "is given twice");
    EXPECT(world, world_count_messages(world, "q") == 0);
    sqs_close(world);
}

static void every_kind_of_send_takes_ten_and_a_trace(void **state)
{
    struct world *world = sqs_open(state);
    sqs_call(world, "SendMessageBatch",
             "{'QueueUrl':'q','Entries':[{'Id':'1','MessageBody':'x','MessageAttributes':{" TEN "," THREE "}}]}");
    sqs_call(world, "Tally.Commit",
             "{'Sends':[{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{" TEN "," THREE "}}]}");
    sqs_call(world, "Tally.CreateBatch",
             "{'BatchId':'b','Total':0,'OnComplete':{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{" TEN
             "," THREE "}}}");
    sqs_call(world, "Tally.PutSchedule",
             "{'Name':'s','Cron':'* * * * *','QueueUrl':'q','MessageBody':'x','MessageAttributes':{" TEN "," THREE
             "}}");
    sqs_call(world, "SendMessage",
             "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{'Tally.OutboxId':{'DataType':'String',"
             "'StringValue':'0e7a1c52-3b1f-4c39-9a51-1f0e5f3ad001'}," TEN "," THREE "}}");
    world_pass_time(world, 61000);
    yyjson_val *messages = receive(world, "'All'");
    EXPECT(world, yyjson_arr_size(messages) == 5);
    size_t index, count;
    yyjson_val *message;
    yyjson_arr_foreach(messages, index, count, message)
    {
        EXPECT(world, strcmp(value_of(message, "traceparent"), PARENT) == 0);
        EXPECT(world, strcmp(value_of(message, "a9"), "x") == 0);
    }
    sqs_close(world);
}

static void a_trace_counts_in_the_size_of_its_message(void **state)
{
    struct world *world = sqs_open(state);
    EXPECT(world, sqs_set(world, "q", "'MaximumMessageSize':'1024'").error == NULL);
    const size_t added = sizeof("traceparent") - 1 + sizeof("String") - 1 + sizeof(PARENT) - 1;
    for (unsigned more = 0; more < 2; more++) {
        char body[1100] = "";
        memset(body, 'x', 1024 - added + more);
        struct answer answer = world_call(world, "SendMessage",
                                          "{'QueueUrl':'q','MessageBody':'%s','MessageAttributes':{'traceparent':"
                                          "{'DataType':'String','StringValue':'" PARENT "'}}}",
                                          body);
        EXPECT(world, more == 0 ? answer.error == NULL : answer_fails(answer, "InvalidParameterValueException"));
    }
    sqs_close(world);
}

/* --- headers ------------------------------------------------------------------------------------------------------ */

/* Sends with these headers; the reply, which the caller frees. `body` has ' for ". */
static yyjson_doc *send_with(struct world *world, const char *action, const char *body, const char *traceparent,
                             const char *tracestate)
{
    struct exchange exchange;
    char *text = strdup(body);
    assert_non_null(text);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    exchange_init(&exchange);
    exchange.request = (struct request){.target = bytes_from_string(action),
                                        .traceparent = bytes_from_string(traceparent),
                                        .tracestate = bytes_from_string(tracestate),
                                        .body = bytes_from_string(text)};
    front_submit(world->front, &exchange, world->now_ms);
    EXPECT(world, exchange.reply.status == 200 && front_take_finished(world->front) == &exchange);
    yyjson_doc *doc =
        yyjson_read((const char *)exchange.reply.body.data_owned, exchange.reply.body.size, YYJSON_READ_NOFLAG);
    EXPECT(world, doc != NULL && world_flush(world));
    exchange_deinit(&exchange);
    free(text);
    return doc;
}

/* The one message of the queue that comes next. */
static void take(struct world *world, yyjson_val **message)
{
    *message = yyjson_arr_get_first(receive(world, "'All'"));
    struct taken taken;
    world_hold(world, "q", 30, 1, &taken);
    world_delete(world, "q", taken.handle);
}

static void headers_become_attributes_where_the_message_has_none(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *attributes;
        const char *traceparent, *tracestate; /* headers */
        const char *taken[2];
    } cases[] = {
        {"", PARENT, "rojo=1", {PARENT, "rojo=1"}},
        {"", PARENT, "", {PARENT, ""}},
        {"", PARENT, "no state", {PARENT, ""}},
        {"", "", "rojo=1", {"", ""}},
        {"", "00-no-parent-01", "rojo=1", {"", ""}},
        {"", "00-\xff\xfe", "", {"", ""}},
        {ATTRIBUTE("a"), PARENT, "rojo=1", {PARENT, "rojo=1"}},
        {TEN, PARENT, "rojo=1", {PARENT, "rojo=1"}},
        {"'baggage':{'DataType':'String','StringValue':'a=1'}", PARENT, "", {PARENT, ""}},
        {"'traceparent':{'DataType':'String','StringValue':'" OTHER_PARENT "'}", PARENT, "rojo=1", {OTHER_PARENT, ""}},
        {"'traceparent':{'DataType':'String','StringValue':'as it is'}", PARENT, "rojo=1", {"as it is", ""}},
        {"'tracestate':{'DataType':'String','StringValue':'a=1'}", PARENT, "rojo=1", {"", "a=1"}},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char body[1500];
        snprintf(body, sizeof(body), "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{%s}}",
                 cases[i].attributes);
        yyjson_doc_free(send_with(world, "AmazonSQS.SendMessage", body, cases[i].traceparent, cases[i].tracestate));
        yyjson_val *message;
        take(world, &message);
        const char *const found[2] = {value_of(message, "traceparent"), value_of(message, "tracestate")};
        if (strcmp(found[0], cases[i].taken[0]) != 0 || strcmp(found[1], cases[i].taken[1]) != 0)
            fail_msg("case %zu: %s and %s", i, found[0], found[1]);
    }
    sqs_close(world);
}

/* SDKs compare the reply's digest with that of what they sent. */
static void the_digest_of_a_send_covers_what_its_sender_gave(void **state)
{
    struct world *world = sqs_open(state);
    yyjson_doc *none =
        send_with(world, "AmazonSQS.SendMessage", "{'QueueUrl':'q','MessageBody':'x'}", PARENT, "rojo=1");
    EXPECT(world, yyjson_obj_get(yyjson_doc_get_root(none), "MD5OfMessageAttributes") == NULL);
    static const char blue[] =
        "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{'color':{'DataType':'String','StringValue':'blue'}}}";
    yyjson_doc *one = send_with(world, "AmazonSQS.SendMessage", blue, PARENT, "rojo=1");
    static const char md5[] = "da1b33cc3cbfe8b1630921e78e6b9880";
    EXPECT(world, strcmp(sqs_text(yyjson_doc_get_root(one), "MD5OfMessageAttributes"), md5) == 0);
    /* What a receive returns has a digest of its own. */
    yyjson_val *message = yyjson_arr_get(receive(world, "'color'"), 1);
    EXPECT(world, strcmp(sqs_text(message, "MD5OfMessageAttributes"), md5) == 0);
    message = yyjson_arr_get(receive(world, "'All'"), 1);
    EXPECT(world, strcmp(value_of(message, "traceparent"), PARENT) == 0);
    EXPECT(world, strcmp(sqs_text(message, "MD5OfMessageAttributes"), md5) != 0);
    yyjson_doc_free(none);
    yyjson_doc_free(one);
    sqs_close(world);
}

static void each_entry_of_a_batch_and_each_send_of_a_commit_gets_the_headers(void **state)
{
    struct world *world = sqs_open(state);
    static const char batch[] =
        "{'QueueUrl':'q','Entries':[{'Id':'1','MessageBody':'1'},{'Id':'2','MessageBody':'2','MessageAttributes':{"
        "'traceparent':{'DataType':'String','StringValue':'" OTHER_PARENT "'}}}]}";
    static const char commit[] =
        "{'Sends':[{'QueueUrl':'q','MessageBody':'3'},{'QueueUrl':'q','MessageBody':'4','MessageAttributes':{"
        "'traceparent':{'DataType':'String','StringValue':'" OTHER_PARENT "'}}}]}";
    yyjson_doc_free(send_with(world, "AmazonSQS.SendMessageBatch", batch, PARENT, "rojo=1"));
    yyjson_doc_free(send_with(world, "Tally.Commit", commit, PARENT, "rojo=1"));
    yyjson_val *messages = receive(world, "'All'");
    EXPECT(world, yyjson_arr_size(messages) == 4);
    for (size_t i = 0; i < 4; i++) {
        yyjson_val *message = yyjson_arr_get(messages, i);
        EXPECT(world, strcmp(value_of(message, "traceparent"), i % 2 == 0 ? PARENT : OTHER_PARENT) == 0);
        EXPECT(world, strcmp(value_of(message, "tracestate"), i % 2 == 0 ? "rojo=1" : "") == 0);
    }
    sqs_close(world);
}

/* The headers of a Publish are the relay's, and not those of who wrote the rows. */
static void rows_of_an_outbox_do_not_get_the_headers_of_their_relay(void **state)
{
    struct world *world = sqs_open(state);
    static const char publisher[] = "01020304-0000-4000-8000-000000000001",
                      owner[] = "01020304-0000-4000-8000-000000000002";
    char body[500];
    snprintf(body, sizeof(body), "{'Publisher':'%s','Epoch':1,'Owner':'%s'}", publisher, owner);
    sqs_call(world, "Tally.OpenPublisher", body);
    snprintf(body, sizeof(body),
             "{'Publisher':'%s','Epoch':1,'Owner':'%s','Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':"
             "'01020304-0000-4000-8000-000000000003','QueueUrl':'q','MessageBody':'row'}]}",
             publisher, owner);
    yyjson_doc_free(send_with(world, "Tally.Publish", body, PARENT, "rojo=1"));
    yyjson_val *message = yyjson_arr_get_first(receive(world, "'All'"));
    EXPECT(world, strcmp(sqs_text(message, "Body"), "row") == 0);
    EXPECT(world, yyjson_obj_size(yyjson_obj_get(message, "MessageAttributes")) == 1); /* Tally.OutboxId */
    sqs_close(world);
}

/* The message matters more. */
static void headers_for_which_a_message_has_no_room_are_not_taken(void **state)
{
    struct world *world = sqs_open(state);
    EXPECT(world, sqs_set(world, "q", "'MaximumMessageSize':'1024'").error == NULL);
    const size_t parent_size = sizeof("traceparentString" PARENT) - 1,
                 state_size = sizeof("tracestateStringrojo=1") - 1;
    const struct {
        size_t room;
        bool takes_parent, takes_state;
    } cases[] = {
        {0, false, false},
        {parent_size - 1, false, false},
        {parent_size, true, false},
        {parent_size + state_size - 1, true, false},
        {parent_size + state_size, true, true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char filler[1025] = "", body[1200];
        memset(filler, 'x', 1024 - cases[i].room);
        snprintf(body, sizeof(body), "{'QueueUrl':'q','MessageBody':'%s'}", filler);
        yyjson_doc_free(send_with(world, "AmazonSQS.SendMessage", body, PARENT, "rojo=1"));
        yyjson_val *message;
        take(world, &message);
        if ((*value_of(message, "traceparent") != '\0') != cases[i].takes_parent ||
            (*value_of(message, "tracestate") != '\0') != cases[i].takes_state)
            fail_msg("room for %zu bytes", cases[i].room);
    }
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_context_of_a_trace_is_not_counted_among_the_ten),
        cmocka_unit_test(an_eleventh_attribute_is_refused_beside_a_trace_as_well),
        cmocka_unit_test(every_kind_of_send_takes_ten_and_a_trace),
        cmocka_unit_test(a_trace_counts_in_the_size_of_its_message),
        cmocka_unit_test(headers_become_attributes_where_the_message_has_none),
        cmocka_unit_test(the_digest_of_a_send_covers_what_its_sender_gave),
        cmocka_unit_test(each_entry_of_a_batch_and_each_send_of_a_commit_gets_the_headers),
        cmocka_unit_test(rows_of_an_outbox_do_not_get_the_headers_of_their_relay),
        cmocka_unit_test(headers_for_which_a_message_has_no_room_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
