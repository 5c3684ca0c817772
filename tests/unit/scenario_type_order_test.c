/* Type orders as clients meet them: T59, T65 and invariants D10 and D11, interrupted in every way. */
#include "scenario.h"

static void put(struct world *world, const char *arguments)
{
    EXPECT(world, world_call(world, "Tally.PutTypeOrder", "{%s}", arguments).error == NULL);
}

/* The deduplication id lets the client repeat what was interrupted. */
static void send(struct world *world, const char *queue, const char *type, const char *group, const char *body)
{
    struct answer answer = world_call(world, "SendMessage",
                                      "{'QueueUrl':'%s','MessageBody':'%s','MessageGroupId':'%s',"
                                      "'MessageDeduplicationId':'%s','MessageAttributes':{'Tally.Type':"
                                      "{'DataType':'String','StringValue':'%s'}}}",
                                      queue, body, group, body, type);
    EXPECT(world, answer.error == NULL);
}

/* Takes the one message that can be taken now and ends it. */
static void work(struct world *world, const char *queue, const char *body)
{
    struct taken taken[10];
    world_hold(world, queue, 30, 1, taken);
    EXPECT(world, strcmp(taken[0].body, body) == 0);
    world_delete(world, queue, taken[0].handle);
}

/* Receives what the queue holds and gives it back, until it is in the dead-letter queue. */
static void fail_until_dead(struct world *world, const char *queue)
{
    for (unsigned i = 0; world_count_messages(world, queue) > 0; i++) {
        struct taken taken[10];
        unsigned count = world_take(world, queue, 1, 10, taken);
        for (unsigned k = 0; k < count; k++)
            world_call(world, "ChangeMessageVisibility", "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':0}",
                       queue, taken[k].handle);
        if (count == 0)
            world_pass_time(world, 1000);
        EXPECT(world, i < 100);
    }
}

static bool has_nothing(struct world *world, const char *queue)
{
    struct taken taken[10];
    return world_take(world, queue, 1, 10, taken) == 0;
}

/* --- T59, D10 ----------------------------------------------------------------------------------------------------- */

static void T59_a_comment_waits_for_the_posts_that_were_sent_before_it(struct world *world)
{
    world_create_queue(world, "posts", "");
    world_create_queue(world, "comments", "");
    put(world, "'Name':'blog','Types':['post','comment']");
    send(world, "comments", "comment", "7", "before");
    send(world, "posts", "post", "7", "first");
    send(world, "posts", "post", "7", "second");
    send(world, "comments", "comment", "7", "after");
    send(world, "comments", "comment", "8", "elsewhere");
    struct taken taken[10];
    world_hold(world, "comments", 30, 2, taken);
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(world, strcmp(taken[i].body, "after") != 0);
        world_delete(world, "comments", taken[i].handle);
    }
    EXPECT(world, has_nothing(world, "comments"));
    world_hold(world, "posts", 30, 2, taken);
    unsigned first = strcmp(taken[0].body, "first") == 0 ? 0 : 1;
    world_delete(world, "posts", taken[1 - first].handle); /* out of turn: the first one still counts */
    EXPECT(world, has_nothing(world, "comments"));
    world_delete(world, "posts", taken[first].handle);
    work(world, "comments", "after");
}

static void T59_types_order_messages_of_fifo_queues_too(struct world *world)
{
    world_create_queue(world, "line.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "other.fifo", "'FifoQueue':'true'");
    put(world, "'Name':'blog','Types':['post','comment','like']");
    send(world, "line.fifo", "comment", "7", "comment-1");
    send(world, "other.fifo", "post", "7", "post");
    send(world, "line.fifo", "comment", "7", "comment-2");
    send(world, "line.fifo", "post", "7", "post-2");
    send(world, "other.fifo", "like", "7", "like");
    work(world, "line.fifo", "comment-1");
    EXPECT(world, has_nothing(world, "line.fifo"));
    work(world, "other.fifo", "post");
    EXPECT(world, has_nothing(world, "other.fifo"));
    work(world, "line.fifo", "comment-2");
    work(world, "line.fifo", "post-2");
    work(world, "other.fifo", "like");
}

static void T59_a_post_that_fails_is_dead_lettered_or_purged_lets_its_comments_go(struct world *world)
{
    world_create_queue(world, "dead", "");
    world_create_queue(world, "posts",
                       "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead\\',"
                       "\\'maxReceiveCount\\':2}'");
    world_create_queue(world, "drafts", "");
    world_create_queue(world, "comments", "");
    put(world, "'Name':'blog','Types':['post','comment']");
    send(world, "posts", "post", "7", "post");
    send(world, "comments", "comment", "7", "comment");
    send(world, "drafts", "post", "8", "draft");
    send(world, "comments", "comment", "8", "early");
    EXPECT(world, has_nothing(world, "comments"));
    fail_until_dead(world, "posts");
    work(world, "comments", "comment");
    EXPECT(world, has_nothing(world, "comments"));
    struct answer answer = world_call(world, "PurgeQueue", "{'QueueUrl':'drafts'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    world_pass_time(world, 1);
    work(world, "comments", "early");
    EXPECT(world, world_count_messages(world, "dead") == 1);
}

static void D11_a_change_binds_messages_accepted_after_it(struct world *world)
{
    world_create_queue(world, "jobs", "");
    put(world, "'Name':'x','Types':['a','b']");
    send(world, "jobs", "a", "g", "a1");
    send(world, "jobs", "b", "g", "b1");
    put(world, "'Name':'x','Types':['b','a']");
    send(world, "jobs", "a", "g", "a2");
    struct answer answer = world_call(world, "Tally.DeleteTypeOrder", "{'Name':'x'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    send(world, "jobs", "b", "g", "b2");
    struct taken taken[10];
    world_hold(world, "jobs", 30, 2, taken);
    unsigned a1 = strcmp(taken[0].body, "a1") == 0 ? 0 : 1;
    EXPECT(world, strcmp(taken[a1].body, "a1") == 0 && strcmp(taken[1 - a1].body, "b2") == 0);
    EXPECT(world, has_nothing(world, "jobs"));
    world_delete(world, "jobs", taken[1 - a1].handle);
    EXPECT(world, has_nothing(world, "jobs"));
    world_delete(world, "jobs", taken[a1].handle);
    work(world, "jobs", "b1");
    work(world, "jobs", "a2");
}

static void require_waits_for_a_success_and_remembers_it_for_its_time(struct world *world)
{
    world_create_queue(world, "posts", "'MessageRetentionPeriod':'1209600'");
    world_create_queue(world, "comments", "'MessageRetentionPeriod':'1209600'");
    put(world, "'Name':'blog','Types':['post','comment'],'Require':true,'RetentionSeconds':100000");
    send(world, "comments", "comment", "7", "before");
    EXPECT(world, has_nothing(world, "comments"));
    send(world, "posts", "post", "7", "post");
    send(world, "comments", "comment", "7", "after");
    EXPECT(world, has_nothing(world, "comments"));
    work(world, "posts", "post");
    struct taken taken[10];
    world_hold(world, "comments", 30, 2, taken);
    world_delete(world, "comments", taken[0].handle);
    world_delete(world, "comments", taken[1].handle);
    world_pass_time(world, 50000 * 1000);
    send(world, "comments", "comment", "7", "in-time");
    work(world, "comments", "in-time");
    world_pass_time(world, 50001 * 1000);
    send(world, "comments", "comment", "7", "too-late");
    EXPECT(world, has_nothing(world, "comments"));
    send(world, "posts", "post", "7", "post-2");
    work(world, "posts", "post-2");
    work(world, "comments", "too-late");
}

/* --- T65, D11 ----------------------------------------------------------------------------------------------------- */

static void T65_contradicting_orders_are_refused(struct world *world)
{
    put(world, "'Name':'one','Types':['a','b','c']");
    put(world, "'Name':'two','Types':['c','d']");
    struct answer answer = world_call(world, "Tally.PutTypeOrder", "{'Name':'three','Types':['d','b']}");
    EXPECT(world, answer_fails(answer, "TypeOrderConflict"));
    EXPECT(world, strstr(answer_text(answer, "message"),
                         "\"b\" before \"c\" (order \"one\"), \"c\" before \"d\" (order \"two\")") != NULL);
    put(world, "'Name':'two','Types':['d','e']");
    put(world, "'Name':'three','Types':['d','b']");
    answer = world_call(world, "Tally.ListTypeOrders", "{}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "TypeOrders")) == 3);
}

/* --- the actions -------------------------------------------------------------------------------------------------- */

static struct world *open_world(void)
{
    return world_create(&(struct world_options){.seed = 1});
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static void expect_refusal(struct world *world, const char *action, const char *arguments, const char *error,
                           const char *part)
{
    struct answer answer = world_call(world, action, "{%s}", arguments);
    EXPECT(world, answer_fails(answer, error));
    if (strstr(answer_text(answer, "message"), part) == NULL)
        fail_msg("%s: %s", arguments, answer_text(answer, "message"));
}

static void what_is_wrong_with_an_order_is_said(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const struct {
        const char *arguments, *error, *part;
    } rows[] = {
        {"'Types':['a','b']", "MissingRequiredParameterException", "Name"},
        {"'Name':'x'", "MissingRequiredParameterException", "Types"},
        {"'Name':'two words','Types':['a','b']", "InvalidParameterValueException", "two words"},
        {"'Name':'x','Types':['a']", "InvalidParameterValueException", "2 to 64"},
        {"'Name':'x','Types':['a','b','a']", "InvalidParameterValueException", "twice"},
        {"'Name':'x','Types':['a','']", "InvalidParameterValueException", "1 to 128"},
        {"'Name':'x','Types':['a',5]", "SerializationException", "Types"},
        {"'Name':'x','Types':['a','b'],'Require':'yes'", "SerializationException", "Require"},
        {"'Name':'x','Types':['a','b'],'RetentionSeconds':5", "InvalidParameterValueException", "Require: true"},
        {"'Name':'x','Types':['a','b'],'Require':true,'RetentionSeconds':0", "InvalidParameterValueException",
         "31536000"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_refusal(world, "Tally.PutTypeOrder", rows[i].arguments, rows[i].error, rows[i].part);
    expect_refusal(world, "Tally.DeleteTypeOrder", "'Name':'x'", "TypeOrderDoesNotExist", "'x'");
    EXPECT(world, world_call(world, "Tally.ListTypeOrders", "{}").error == NULL);
    close_world(world);
}

static void more_than_64_types_are_refused(void **state)
{
    (void)state;
    struct world *world = open_world();
    char names[64 * 8] = "";
    for (unsigned i = 0; i < 64; i++)
        snprintf(names + strlen(names), 8, "%s't%u'", i == 0 ? "" : ",", i);
    struct answer answer = world_call(world, "Tally.PutTypeOrder", "{'Name':'all','Types':[%s]}", names);
    EXPECT(world, answer.error == NULL && yyjson_arr_size(yyjson_obj_get(answer.root, "Types")) == 64);
    EXPECT(world, !answer_is_true(answer, "Require"));
    answer = world_call(world, "Tally.PutTypeOrder", "{'Name':'long','Types':[%s,'one']}", names);
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    expect_refusal(world, "Tally.PutTypeOrder", "'Name':'more','Types':['t0','new']", "OverLimit", "64 types");
    close_world(world);
}

static void orders_are_listed_by_name_in_pages(void **state)
{
    (void)state;
    struct world *world = open_world();
    for (unsigned i = 0; i < 7; i++)
        EXPECT(world,
               world_call(world, "Tally.PutTypeOrder",
                          "{'Name':'order%u','Types':['a','b'],'Require':true,'RetentionSeconds':%u}", 6 - i, i + 1)
                       .error == NULL);
    char token[64] = "";
    unsigned seen = 0;
    do {
        struct answer answer = world_call(world, "Tally.ListTypeOrders", "{'MaxResults':3%s%s%s}",
                                          *token == 0 ? "" : ",'NextToken':'", token, *token == 0 ? "" : "'");
        EXPECT(world, answer.error == NULL);
        size_t index, end;
        yyjson_val *order;
        yyjson_arr_foreach(yyjson_obj_get(answer.root, "TypeOrders"), index, end, order)
        {
            char name[16];
            snprintf(name, sizeof(name), "order%u", seen++);
            EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(order, "Name")), name) == 0);
            EXPECT(world, yyjson_get_uint(yyjson_obj_get(order, "RetentionSeconds")) == 8 - seen);
            EXPECT(world, yyjson_is_true(yyjson_obj_get(order, "Require")));
        }
        snprintf(token, sizeof(token), "%s", answer_text(answer, "NextToken"));
    } while (*token != 0);
    EXPECT(world, seen == 7);
    expect_refusal(world, "Tally.ListTypeOrders", "'NextToken':'xyz'", "InvalidParameterValueException", "token");
    close_world(world);
}

/* What no order names, and what has no group, is free. */
static void a_type_without_an_order_or_a_group_binds_nothing(void **state)
{
    (void)state;
    struct world *world = open_world();
    world_create_queue(world, "jobs", "");
    put(world, "'Name':'x','Types':['a','b']");
    send(world, "jobs", "a", "g", "a");
    send(world, "jobs", "c", "g", "c");
    EXPECT(world, world_call(world, "SendMessage",
                             "{'QueueUrl':'jobs','MessageBody':'b','MessageAttributes':"
                             "{'Tally.Type':{'DataType':'String','StringValue':'b'}}}")
                          .error == NULL);
    struct taken taken[10];
    world_hold(world, "jobs", 30, 3, taken);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T59_a_comment_waits_for_the_posts_that_were_sent_before_it),
        SCENARIO(T59_types_order_messages_of_fifo_queues_too),
        SCENARIO(T59_a_post_that_fails_is_dead_lettered_or_purged_lets_its_comments_go),
        SCENARIO(D11_a_change_binds_messages_accepted_after_it),
        SCENARIO(require_waits_for_a_success_and_remembers_it_for_its_time),
        SCENARIO(T65_contradicting_orders_are_refused),
        cmocka_unit_test(what_is_wrong_with_an_order_is_said),
        cmocka_unit_test(more_than_64_types_are_refused),
        cmocka_unit_test(orders_are_listed_by_name_in_pages),
        cmocka_unit_test(a_type_without_an_order_or_a_group_binds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
