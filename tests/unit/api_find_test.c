/* FindMessage: a message by each id that its sender knows, remembered or looked for, in pages; what it can't find; and
 * completion messages, whose ids say nothing of their numbers. */
#include "engine/namespace.h"
#include "scenario.h"

#define SOURCE "5eed0000-0000-4000-8000-000000000001"
#define OWNER "aaaa0000-0000-4000-8000-000000000001"
#define UID_1 "11111111-0000-4000-8000-000000000001"
#define UID_2 "11111111-0000-4000-8000-000000000002"
#define OUTBOX(uid) "'Tally.OutboxId':{'DataType':'String','StringValue':'" uid "'}"
#define PRODUCER(number)                                                                                               \
    "'Tally.Producer':{'DataType':'String','StringValue':'shop'},"                                                     \
    "'Tally.Sequence':{'DataType':'Number','StringValue':'" number "'}"

static struct world *open_world(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q",
                       "'VisibilityTimeout':'5','RedrivePolicy':'{\\\"deadLetterTargetArn\\\":\\\"arn:aws:sqs:"
                       "us-east-1:000000000000:dead\\\",\\\"maxReceiveCount\\\":1}'");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static void keep(char id[WORLD_ID_SIZE], struct answer answer)
{
    assert_null(answer.error);
    snprintf(id, WORLD_ID_SIZE, "%s", answer_text(answer, "MessageId"));
}

static const char *member(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

static size_t count_of(struct answer answer)
{
    return yyjson_arr_size(yyjson_obj_get(answer.root, "Messages"));
}

static yyjson_val *first_of(struct answer answer)
{
    return yyjson_arr_get_first(yyjson_obj_get(answer.root, "Messages"));
}

/* Asks for a complete answer with one message, which has that id and state and is in that queue; "": it is in none. */
static void expect_one(struct world *world, const char *search, const char *id, const char *state, const char *queue)
{
    struct answer answer = world_call(world, "Tally.FindMessage", "{%s}", search);
    const char *url = member(first_of(answer), "QueueUrl"), *slash = strrchr(url, '/');
    EXPECT(world, answer.error == NULL && count_of(answer) == 1 && answer_is_true(answer, "IsComplete"));
    EXPECT(world, strcmp(member(first_of(answer), "MessageId"), id) == 0);
    EXPECT(world, strcmp(member(first_of(answer), "State"), state) == 0);
    EXPECT(world, strcmp(slash == NULL ? "" : slash + 1, queue) == 0);
    EXPECT(world, !answer_has(answer, "NextToken"));
    world_forget(world);
}

static void expect_none(struct world *world, const char *search)
{
    struct answer answer = world_call(world, "Tally.FindMessage", "{%s}", search);
    EXPECT(world, answer.error == NULL && count_of(answer) == 0 && answer_is_true(answer, "IsComplete"));
    world_forget(world);
}

static void a_message_is_found_by_its_message_id(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE], search[100];
    struct taken taken;
    keep(id, world_send(world, "q", NULL, "body"));
    snprintf(search, sizeof(search), "'MessageId':'%s'", id);
    expect_one(world, search, id, "ready", "q");
    struct answer answer = world_call(world, "Tally.FindMessage", "{%s,'Body':'full'}", search);
    EXPECT(world, strcmp(member(first_of(answer), "Body"), "body") == 0);
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    expect_one(world, search, id, "in-flight", "q");
    world_delete(world, "q", taken.handle);
    expect_one(world, search, id, "ended", "");
    expect_none(world, "'MessageId':'no id'");
    expect_none(world, "'MessageId':'" UID_1 "'");
    close_world(world);
}

static void a_deduplication_id_is_remembered_wherever_its_message_is(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const char search[] = "'MessageDeduplicationId':'order-17','QueueUrl':'q'";
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_send(world, "q", NULL, "other");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    world_delete(world, "q", taken.handle);
    keep(id, world_call(world, "SendMessage",
                        "{'QueueUrl':'q','MessageBody':'m','MessageDeduplicationId':'order-17','DelaySeconds':2}"));
    expect_one(world, search, id, "delayed", "q");
    world_pass_time(world, 2000);
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','Reason':'no','Final':true}",
               taken.handle);
    expect_one(world, search, id, "ready", "dead"); /* a dead letter */
    expect_none(world, "'MessageDeduplicationId':'order-18','QueueUrl':'q'");
    EXPECT(world, world_take(world, "dead", 5, 1, &taken) == 1);
    world_delete(world, "dead", taken.handle);
    expect_one(world, search, id, "ended", "");
    world_pass_time(world, 300000);
    expect_none(world, search); /* the window is over */
    close_world(world);
}

static void an_id_of_a_group_is_remembered_with_its_group(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[2][WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','DeduplicationScope':'messageGroup'");
    for (unsigned i = 0; i < 2; i++)
        keep(id[i], world_call(world, "SendMessage",
                               "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g%u',"
                               "'MessageDeduplicationId':'d'}",
                               i));
    expect_one(world, "'QueueUrl':'f.fifo','MessageDeduplicationId':'d','MessageGroupId':'g1'", id[1], "ready",
               "f.fifo");
    struct answer both = world_call(world, "Tally.FindMessage", "{'QueueUrl':'f.fifo','MessageDeduplicationId':'d'}");
    EXPECT(world, count_of(both) == 2 && answer_is_true(both, "IsComplete")); /* looked for, in any group */
    EXPECT(world, world_take(world, "f.fifo", 5, 1, &taken) == 1);
    world_delete(world, "f.fifo", taken.handle);
    expect_one(world, "'QueueUrl':'f.fifo','MessageDeduplicationId':'d','MessageGroupId':'g0'", id[0], "ended", "");
    close_world(world);
}

/* Each queue is asked, and then all contents are looked at: what no queue remembers any more is found as well, and what
 * one remembers is told once. */
static void a_deduplication_id_is_found_in_every_queue(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const char search[] = "'MessageDeduplicationId':'order-17'";
    char old[WORLD_ID_SIZE], ended[WORLD_ID_SIZE], dead[WORLD_ID_SIZE], of_group[WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "g.fifo", "'FifoQueue':'true','DeduplicationScope':'messageGroup'");
    keep(old,
         world_call(world, "SendMessage", "{'QueueUrl':'dead','MessageBody':'m','MessageDeduplicationId':'order-17'}"));
    expect_one(world, search, old, "ready", "dead");
    world_pass_time(world, 400000);
    expect_one(world, search, old, "ready", "dead");
    keep(ended, world_call(world, "SendMessage",
                           "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g',"
                           "'MessageDeduplicationId':'order-17'}"));
    EXPECT(world, world_take(world, "f.fifo", 5, 1, &taken) == 1);
    world_delete(world, "f.fifo", taken.handle);
    keep(dead,
         world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'m','MessageDeduplicationId':'order-17'}"));
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','Final':true}", taken.handle);
    keep(of_group, world_call(world, "SendMessage",
                              "{'QueueUrl':'g.fifo','MessageBody':'m','MessageGroupId':'g',"
                              "'MessageDeduplicationId':'order-17'}"));
    world_send(world, "q", NULL, "order-17");
    struct answer found = world_call(world, "Tally.FindMessage", "{%s}", search);
    const char *const ids[] = {ended, dead, old, of_group};
    const char *const states[] = {"ended", "ready", "ready", "ready"};
    yyjson_val *messages = yyjson_obj_get(found.root, "Messages");
    EXPECT(world, count_of(found) == ARRAY_LENGTH(ids) && answer_is_true(found, "IsComplete"));
    for (size_t i = 0; i < ARRAY_LENGTH(ids); i++) {
        EXPECT(world, strcmp(member(yyjson_arr_get(messages, i), "MessageId"), ids[i]) == 0);
        EXPECT(world, strcmp(member(yyjson_arr_get(messages, i), "State"), states[i]) == 0);
    }
    found = world_call(world, "Tally.FindMessage", "{%s,'MessageGroupId':'g'}", search);
    EXPECT(world, count_of(found) == 3); /* without the one in no group; of a queue with ids of its own any group */
    expect_none(world, "'MessageDeduplicationId':'order-1'");
    close_world(world);
}

/* 10,001 queues, of which one remembers it: that is told by the first call that comes there, before any content. */
static void all_queues_are_asked_in_pages(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    char id[WORLD_ID_SIZE], name[20], token[300];
    for (unsigned i = 0; i <= 10000; i++) {
        snprintf(name, sizeof(name), "q%05u", i);
        world_create_queue(world, name, "");
        if (i % 500 == 0)
            world_forget(world);
    }
    keep(id, world_call(world, "SendMessage",
                        "{'QueueUrl':'q10000','MessageBody':'m','MessageDeduplicationId':'order-17'}"));
    struct answer page = world_call(world, "Tally.FindMessage", "{'MessageDeduplicationId':'order-17'}");
    EXPECT(world, count_of(page) == 0 && !answer_is_true(page, "IsComplete"));
    EXPECT(world, answer_number(page, "QueuesLooked") == 0 && answer_number(page, "QueueCount") == 10001);
    snprintf(token, sizeof(token), "%s", answer_text(page, "NextToken"));
    page = world_call(world, "Tally.FindMessage", "{'MessageDeduplicationId':'order-17','NextToken':'%s'}", token);
    EXPECT(world, count_of(page) == 1 && strcmp(member(first_of(page), "MessageId"), id) == 0);
    EXPECT(world, answer_number(page, "QueuesLooked") == 9999 && !answer_is_true(page, "IsComplete"));
    snprintf(token, sizeof(token), "%s", answer_text(page, "NextToken"));
    page = world_call(world, "Tally.FindMessage", "{'MessageDeduplicationId':'order-17','NextToken':'%s'}", token);
    EXPECT(world, count_of(page) == 0 && answer_is_true(page, "IsComplete"));
    EXPECT(world, answer_number(page, "QueuesLooked") == 10001 && answer_number(page, "Looked") == 1);
    close_world(world);
}

/* The window is over, and the message is far behind others. */
static void an_id_that_nobody_remembers_is_looked_for_in_pages(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE], token[300] = "";
    const unsigned others = 4500;
    unsigned pages = 0, found = 0;
    for (unsigned i = 0; i < others; i++) {
        world_send(world, "q", NULL, "other");
        if (i % 500 == 0)
            world_forget(world);
    }
    keep(id,
         world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'m','MessageDeduplicationId':'order-17'}"));
    world_pass_time(world, 400000);
    do {
        struct answer answer =
            world_call(world, "Tally.FindMessage", "{'QueueUrl':'q','MessageDeduplicationId':'order-17'%s%s%s}",
                       token[0] == '\0' ? "" : ",'NextToken':'", token, token[0] == '\0' ? "" : "'");
        EXPECT(world, answer.error == NULL && answer_is_true(answer, "IsComplete") != answer_has(answer, "NextToken"));
        found += strcmp(member(first_of(answer), "MessageId"), id) == 0;
        snprintf(token, sizeof(token), "%s", answer_text(answer, "NextToken"));
        pages++;
        world_forget(world);
    } while (token[0] != '\0');
    EXPECT(world, found == 1 && pages == 3);
    close_world(world);
}

static void a_producers_number_leads_to_its_message(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE], early[WORLD_ID_SIZE];
    keep(early, world_call(world, "SendMessage",
                           "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{" PRODUCER("005") "}}"));
    keep(id, world_call(world, "SendMessage",
                        "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{" PRODUCER("17") "}}"));
    expect_one(world, "'QueueUrl':'q','Producer':'shop','Sequence':17", id, "ready", "q");
    expect_none(world, "'QueueUrl':'q','Producer':'shop','Sequence':16"); /* passed over */
    expect_none(world, "'QueueUrl':'q','Producer':'shop','Sequence':18");
    expect_none(world, "'QueueUrl':'q','Producer':'other','Sequence':17");
    for (unsigned i = 0; i < 256; i++) /* so that number 5 is forgotten */
        world_call(world, "SendMessage",
                   "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{'Tally.Producer':{'DataType':'String',"
                   "'StringValue':'shop'},'Tally.Sequence':{'DataType':'Number','StringValue':'%u'}}}",
                   18 + i);
    expect_one(world, "'QueueUrl':'q','Producer':'shop','Sequence':5", early, "ready", "q");
    close_world(world);
}

static void an_outbox_id_is_looked_for_in_every_queue(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE];
    struct taken taken;
    for (unsigned i = 0; i < 30; i++)
        world_send(world, i % 2 == 0 ? "q" : "dead", NULL, "other");
    keep(id, world_call(world, "SendMessage",
                        "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{" OUTBOX(UID_1) "}}"));
    expect_one(world, "'OutboxId':'" UID_1 "'", id, "ready", "q");
    expect_one(world, "'OutboxId':'" UID_1 "','QueueUrl':'q'", id, "ready", "q");
    expect_none(world, "'OutboxId':'" UID_1 "','QueueUrl':'dead'");
    expect_none(world, "'OutboxId':'" UID_2 "'");
    for (unsigned i = 0; i < 16; i++) {
        EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
        world_delete(world, "q", taken.handle);
    }
    expect_none(world, "'OutboxId':'" UID_1 "'");
    close_world(world);
}

static void found_bodies_fill_a_page_of_a_mebibyte(void **state)
{
    (void)state;
    struct world *world = open_world();
    static char body[100001];
    char token[300];
    memset(body, 'b', sizeof(body) - 1);
    for (unsigned i = 0; i < 12; i++)
        world_call(world, "SendMessage",
                   "{'QueueUrl':'q','MessageBody':'%s','MessageAttributes':{" OUTBOX("row-1") "}}", body);
    struct answer page = world_call(world, "Tally.FindMessage", "{'OutboxId':'row-1','Body':'full'}");
    EXPECT(world, count_of(page) == 10 && !answer_is_true(page, "IsComplete"));
    snprintf(token, sizeof(token), "%s", answer_text(page, "NextToken"));
    struct answer rest =
        world_call(world, "Tally.FindMessage", "{'OutboxId':'row-1','NextToken':'%s','Body':'none'}", token);
    EXPECT(world, count_of(rest) == 2 && answer_is_true(rest, "IsComplete"));
    close_world(world);
}

static void a_row_of_an_outbox_is_published_or_not(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    world_call(world, "Tally.OpenPublisher", "{'Publisher':'" SOURCE "','Epoch':1,'Owner':'" OWNER "'}");
    struct answer published = world_call(
        world, "Tally.Publish",
        "{'Publisher':'" SOURCE "','Epoch':1,'Owner':'" OWNER "','Batch':1,'ConfirmedBatch':0,'Rows':["
        "{'Id':1,'Uid':'" UID_1
        "','QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageAttributes':{" OUTBOX(UID_1) "}}]}");
    EXPECT(world, answer_number(published, "Stored") == 1);
    struct answer found = world_call(world, "Tally.FindMessage", "{'OutboxId':'" UID_1 "','QueueUrl':'f.fifo'}");
    EXPECT(world, count_of(found) == 1 && answer_is_true(found, "IsPublished"));
    EXPECT(world, world_take(world, "f.fifo", 5, 1, &taken) == 1);
    world_delete(world, "f.fifo", taken.handle);
    expect_one(world, "'OutboxId':'" UID_1 "','QueueUrl':'f.fifo'", taken.id, "ended", ""); /* as the queue knows */
    found = world_call(world, "Tally.FindMessage", "{'OutboxId':'" UID_1 "'}");
    EXPECT(world, count_of(found) == 0 && answer_is_true(found, "IsPublished"));
    found = world_call(world, "Tally.FindMessage", "{'OutboxId':'" UID_2 "'}");
    EXPECT(world, count_of(found) == 0 && !answer_has(found, "IsPublished"));
    close_world(world);
}

static void a_text_is_looked_for_in_bodies_and_attributes(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[2][WORLD_ID_SIZE];
    keep(id[0], world_send(world, "q", NULL, "{order: 17, left: 17}"));
    keep(id[1], world_call(world, "SendMessage",
                           "{'QueueUrl':'dead','MessageBody':'m','MessageAttributes':{'order':{'DataType':'Number',"
                           "'StringValue':'42'},'note':{'DataType':'String','StringValue':'late'}}}"));
    expect_one(world, "'Text':'order: 17'", id[0], "ready", "q");
    expect_one(world, "'Text':'left: 17}'", id[0], "ready", "q");
    expect_one(world, "'Text':'42'", id[1], "ready", "dead");
    expect_one(world, "'Text':'late','QueueUrl':'dead'", id[1], "ready", "dead");
    expect_none(world, "'Text':'late','QueueUrl':'q'");
    expect_none(world, "'Text':'Order: 17'");
    expect_none(world, "'Text':'note'"); /* the name of an attribute */
    expect_none(world, "'Text':'String'");
    close_world(world);
}

static void words_are_looked_for_in_one_text_in_any_order(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE];
    keep(id, world_call(world, "SendMessage",
                        "{'QueueUrl':'q','MessageBody':'{\\\"order\\\": 17, \\\"left\\\": 3}','MessageAttributes':{"
                        "'note':{'DataType':'String','StringValue':'sent too late'},"
                        "'city':{'DataType':'String','StringValue':'Ulm'}}}"));
    static const char *const good[] = {"order 17",         " 17\\torder\\n",    "17 17",
                                       "3 \\\"left",       "late sent",         "Ulm",
                                       "\\\"too late\\\"", "\\\"order\\\": 17", "order\\\": 17,"};
    for (unsigned i = 0; i < ARRAY_LENGTH(good); i++) {
        char search[100];
        snprintf(search, sizeof(search), "'Text':'%s'", good[i]);
        expect_one(world, search, id, "ready", "q");
    }
    expect_none(world, "'Text':'order 18'");
    expect_none(world, "'Text':'Order 17'");
    expect_none(world, "'Text':'order late'");       /* the body and an attribute */
    expect_none(world, "'Text':'late Ulm'");         /* two attributes */
    expect_none(world, "'Text':'\\\"order 17\\\"'"); /* as it stands there */
    expect_none(world, "'Text':'\\\"late too\\\"'");
    expect_one(world, "'Text':'sent too late sent too late sent too late sent too late late late late late'", id,
               "ready", "q");
    struct answer answer = world_call(world, "Tally.FindMessage", "{'Text':'a b c d e f g h i j k l m n o p q'}");
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    answer = world_call(world, "Tally.FindMessage", "{'Text':' \\t\\n'}");
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    close_world(world);
}

/* Those before the place of a token may go, and so may the one in which it is. */
static void queues_that_go_meanwhile_hide_no_other_one(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (unsigned i = 0; i < ARRAY_LENGTH(names); i++) {
        world_create_queue(world, names[i], "");
        for (unsigned j = 0; j < (i < 3 ? 50 : 1); j++)
            world_send(world, names[i], NULL, "needle");
    }
    struct answer page = world_call(world, "Tally.FindMessage", "{'Text':'needle'}");
    EXPECT(world, count_of(page) == 100 && answer_number(page, "QueuesLooked") == 2);
    for (unsigned i = 0; i < 3; i++)
        world_call(world, "DeleteQueue", "{'QueueUrl':'%s'}", names[i]);
    world_create_queue(world, "0", "");
    page = world_call(world, "Tally.FindMessage", "{'Text':'needle','NextToken':'%s'}", answer_text(page, "NextToken"));
    EXPECT(world, count_of(page) == 2 && answer_is_true(page, "IsComplete"));
    EXPECT(world, strstr(member(first_of(page), "QueueUrl"), "/d") != NULL);
    close_world(world);
}

/* Fifteen words are in each body, and the sixteenth is not. */
static void many_words_make_a_page_shorter(void **state)
{
    (void)state;
    struct world *world = open_world();
    static char body[30001];
    memset(body, 'x', sizeof(body) - 1);
    memcpy(body + sizeof(body) - 16, "abcdefghijklmno", 15);
    for (unsigned i = 0; i < 60; i++)
        world_send(world, "q", NULL, body);
    struct answer page = world_call(world, "Tally.FindMessage", "{'Text':'none'}");
    EXPECT(world, count_of(page) == 0 && answer_is_true(page, "IsComplete"));
    char search[300] = "'Text':'a b c d e f g h i j k l m n o none'";
    page = world_call(world, "Tally.FindMessage", "{%s}", search);
    EXPECT(world, count_of(page) == 0 && !answer_is_true(page, "IsComplete"));
    snprintf(search, sizeof(search), "'Text':'a b c d e f g h i j k l m n o none','NextToken':'%s'",
             answer_text(page, "NextToken"));
    page = world_call(world, "Tally.FindMessage", "{%s}", search);
    EXPECT(world, count_of(page) == 0 && answer_is_true(page, "IsComplete"));
    close_world(world);
}

/* A search goes on behind a queue that has gone meanwhile. */
static void a_search_of_all_queues_survives_the_end_of_one(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    char id[WORLD_ID_SIZE];
    world_create_queue(world, "a", "");
    world_create_queue(world, "b", "");
    for (unsigned i = 0; i < 2500; i++) {
        world_send(world, "a", NULL, "other");
        if (i % 500 == 0)
            world_forget(world);
    }
    keep(id, world_call(world, "SendMessage",
                        "{'QueueUrl':'b','MessageBody':'m','MessageAttributes':{" OUTBOX(UID_1) "}}"));
    struct answer page = world_call(world, "Tally.FindMessage", "{'OutboxId':'" UID_1 "'}");
    EXPECT(world, count_of(page) == 0 && !answer_is_true(page, "IsComplete"));
    char search[400];
    snprintf(search, sizeof(search), "'OutboxId':'" UID_1 "','NextToken':'%s'", answer_text(page, "NextToken"));
    expect_one(world, search, id, "ready", "b");
    world_call(world, "DeleteQueue", "{'QueueUrl':'a'}");
    expect_one(world, search, id, "ready", "b");
    close_world(world);
}

static void the_end_of_a_failed_message_is_told_beside_its_redriven_copy(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'m','MessageDeduplicationId':'order-17'}");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','Reason':'no','Final':true}",
               taken.handle);
    struct answer moved =
        world_call(world, "StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead'}");
    EXPECT(world, moved.error == NULL);
    world_pass_time(world, 1000);
    struct answer found =
        world_call(world, "Tally.FindMessage", "{'QueueUrl':'q','MessageDeduplicationId':'order-17'}");
    yyjson_val *messages = yyjson_obj_get(found.root, "Messages");
    EXPECT(world, yyjson_arr_size(messages) == 2);
    EXPECT(world, strcmp(member(yyjson_arr_get(messages, 0), "State"), "ended") == 0);
    EXPECT(world, strcmp(member(yyjson_arr_get(messages, 0), "MessageId"), taken.id) == 0);
    EXPECT(world, strcmp(member(yyjson_arr_get(messages, 1), "State"), "ready") == 0);
    close_world(world);
}

static void expect_completion(struct world *world, const char *id, const char *queue)
{
    struct answer message = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id);
    const char *url = answer_text(message, "QueueUrl"), *slash = strrchr(url, '/');
    EXPECT(world, slash != NULL && strcmp(slash + 1, queue) == 0 && strcmp(answer_text(message, "MessageId"), id) == 0);
    struct answer explained = world_call(world, "Tally.ExplainMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, strcmp(answer_text(explained, "State"), answer_text(message, "State")) == 0);
    world_forget(world);
}

/* Through restarts with and without a snapshot, a dead-letter queue and back. */
static void a_completion_message_is_found_by_its_id(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_call(world, "Tally.CreateBatch",
               "{'BatchId':'b','Total':0,'OnComplete':{'QueueUrl':'q'},'OnSuccess':{"
               "'QueueUrl':'dead'}}");
    struct answer batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    snprintf(id, sizeof(id), "%s", answer_text(batch, "CompletionMessageId"));
    expect_completion(world, id, "q");
    world_kill(world);
    expect_completion(world, id, "q");
    world_snapshot(world);
    world_kill(world);
    expect_completion(world, id, "q");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1 && strcmp(taken.id, id) == 0);
    world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','Final':true}", taken.handle);
    expect_completion(world, id, "dead");
    world_call(world, "StartMessageMoveTask",
               "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead',"
               "'DestinationArn':'arn:aws:sqs:us-east-1:000000000000:q','MessageIds':['%s']}",
               id);
    world_pass_time(world, 1000);
    expect_completion(world, id, "q");
    EXPECT(world, world_count_messages(world, "dead") == 1); /* that of the success */
    world_call(world, "Tally.DeleteMessages", "{'QueueUrl':'q','MessageIds':['%s']}", id);
    world_pass_time(world, 1000);
    EXPECT(world, world_count_messages(world, "q") == 0);
    struct answer gone = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, strcmp(answer_text(gone, "State"), "unknown") == 0);
    close_world(world);
}

static void searching_changes_nothing(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct buffer before, after;
    buffer_init(&before);
    buffer_init(&after);
    for (unsigned i = 0; i < 20; i++)
        world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'m','MessageDeduplicationId':'d%u'}", i);
    world_pass_time(world, 400000);
    const uint64_t end = namespace_end(world->ns);
    world_encode(world_core(world), &before);
    expect_none(world, "'QueueUrl':'q','MessageDeduplicationId':'none'");
    expect_none(world, "'OutboxId':'none'");
    world_call(world, "Tally.SummarizeFailures", "{'QueueUrl':'q'}");
    world_call(world, "Tally.ListQueueStats", "{'SortBy':'age'}");
    world_encode(world_core(world), &after);
    EXPECT(world, bytes_equal(buffer_bytes(&before), buffer_bytes(&after)) && namespace_end(world->ns) == end);
    buffer_deinit(&before);
    buffer_deinit(&after);
    close_world(world);
}

static void what_is_no_search_is_refused(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const struct {
        const char *search;
        const char *error;
    } rows[] = {
        {"", "MissingRequiredParameterException"},
        {"'MessageId':null", "MissingRequiredParameterException"},
        {"'MessageId':''", "InvalidParameterValueException"},
        {"'MessageId':7", "SerializationException"},
        {"'MessageId':'a','Producer':'b'", "InvalidParameterValueException"},
        {"'MessageDeduplicationId':'a','QueueUrl':'none'", "QueueDoesNotExist"},
        {"'MessageDeduplicationId':'a b','QueueUrl':'q'", "InvalidParameterValueException"},
        {"'MessageDeduplicationId':'a','QueueUrl':'q','MessageGroupId':''", "InvalidParameterValueException"},
        {"'Producer':'a','Sequence':1", "QueueDoesNotExist"},
        {"'Producer':'a','QueueUrl':'q'", "MissingRequiredParameterException"},
        {"'Producer':'a','QueueUrl':'q','Sequence':-1", "InvalidParameterValueException"},
        {"'OutboxId':'a','QueueUrl':'none'", "QueueDoesNotExist"},
        {"'OutboxId':'a','NextToken':'1.2.3.4.5'", "InvalidParameterValueException"},
        {"'OutboxId':'a','Body':'half'", "InvalidParameterValueException"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct answer answer = world_call(world, "Tally.FindMessage", "{%s}", rows[i].search);
        if (!answer_fails(answer, rows[i].error))
            print_error("%s: %s\n", rows[i].search, answer.error == NULL ? "taken" : answer.error);
        EXPECT(world, answer_fails(answer, rows[i].error));
    }
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_found_by_its_message_id),
        cmocka_unit_test(a_deduplication_id_is_remembered_wherever_its_message_is),
        cmocka_unit_test(an_id_of_a_group_is_remembered_with_its_group),
        cmocka_unit_test(a_deduplication_id_is_found_in_every_queue),
        cmocka_unit_test(all_queues_are_asked_in_pages),
        cmocka_unit_test(an_id_that_nobody_remembers_is_looked_for_in_pages),
        cmocka_unit_test(a_producers_number_leads_to_its_message),
        cmocka_unit_test(an_outbox_id_is_looked_for_in_every_queue),
        cmocka_unit_test(found_bodies_fill_a_page_of_a_mebibyte),
        cmocka_unit_test(a_row_of_an_outbox_is_published_or_not),
        cmocka_unit_test(a_text_is_looked_for_in_bodies_and_attributes),
        cmocka_unit_test(words_are_looked_for_in_one_text_in_any_order),
        cmocka_unit_test(queues_that_go_meanwhile_hide_no_other_one),
        cmocka_unit_test(many_words_make_a_page_shorter),
        cmocka_unit_test(a_search_of_all_queues_survives_the_end_of_one),
        cmocka_unit_test(the_end_of_a_failed_message_is_told_beside_its_redriven_copy),
        cmocka_unit_test(a_completion_message_is_found_by_its_id),
        cmocka_unit_test(searching_changes_nothing),
        cmocka_unit_test(what_is_no_search_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
