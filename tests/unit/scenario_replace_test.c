/* ReplaceMessage: a changed copy takes over the message's group, unit and dependents, in one record, whatever dies in
 * between. */
#include "scenario.h"

#define ARN(queue) "arn:aws:sqs:us-east-1:000000000000:" queue
#define POLICY_AFTER(queue, count)                                                                                     \
    "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'" ARN(queue) "\\',\\'maxReceiveCount\\':" count "}'"
#define POLICY(queue) POLICY_AFTER(queue, "100")
#define TEXT(name, value) "'" name "':{'DataType':'String','StringValue':'" value "'}"
#define ATTRIBUTES(inside) ",'MessageAttributes':{" inside "}"

/* --- a small vocabulary ------------------------------------------------------------------------------------------- */

static void make_queues(struct world *world)
{
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'604800'," POLICY("dead"));
    world_create_queue(world, "then", "'Tally.DeduplicationWindow':'604800'");
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800','Tally.OnGroupFailure':'hold'");
}

static void put(struct world *world, const char *queue, const char *body, const char *more, char id[WORLD_ID_SIZE])
{
    struct answer answer =
        world_call(world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'%s','MessageDeduplicationId':'%s'%s}", queue,
                   body, body, more);
    EXPECT(world, answer.error == NULL);
    if (id != NULL)
        snprintf(id, WORLD_ID_SIZE, "%s", answer_text(answer, "MessageId"));
}

static void fail_next(struct world *world, const char *queue)
{
    struct taken taken;
    world_hold(world, queue, 300, 1, &taken);
    struct answer answer =
        world_call(world, "Tally.FailMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s','Reason':'bad','Final':true}",
                   queue, taken.handle);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
}

/* Replaces; a repeat may find that it has happened. The copy's id is kept unless the answer was lost. */
static void replace(struct world *world, const char *queue, const char *id, const char *body, const char *more,
                    char copy[WORLD_ID_SIZE])
{
    struct answer answer = world_call(world, "Tally.ReplaceMessage",
                                      "{'QueueUrl':'%s','MessageId':'%s','MessageBody':'%s'%s}", queue, id, body, more);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    if (copy != NULL)
        snprintf(copy, WORLD_ID_SIZE, "%s", answer.error == NULL ? answer_text(answer, "MessageId") : "");
}

static void settle(struct world *world)
{
    world_pass_time(world, 10);
}

static void run_one(struct world *world, const char *queue, const char *body)
{
    struct taken taken;
    world_hold(world, queue, 300, 1, &taken);
    EXPECT(world, strcmp(taken.body, body) == 0);
    world_delete(world, queue, taken.handle);
}

/* The first attribute of that name of the queue's oldest message; "" if it has none. */
static const char *attribute_of(struct world *world, const char *queue, const char *name)
{
    struct answer answer = world_call(world, "Tally.ListMessages", "{'QueueUrl':'%s','Body':'full'}", queue);
    yyjson_val *message = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Messages"));
    const char *text = yyjson_get_str(
        yyjson_obj_get(yyjson_obj_get(yyjson_obj_get(message, "MessageAttributes"), name), "StringValue"));
    return text == NULL ? "" : text;
}

/* --- what it takes over ------------------------------------------------------------------------------------------- */

static void a_message_has_another_body_and_another_id(struct world *world)
{
    char id[WORLD_ID_SIZE], copy[WORLD_ID_SIZE];
    make_queues(world);
    put(world, "q", "wrong", ATTRIBUTES(TEXT("colour", "red")), id);
    put(world, "q", "other", "", NULL);
    replace(world, "q", id, "right", "", copy);
    EXPECT(world, strcmp(copy, id) != 0 && world_count_messages(world, "q") == 2);
    struct answer gone = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, strcmp(answer_text(gone, "State"), "ended") == 0);
    if (copy[0] != '\0') {
        struct answer there = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", copy);
        EXPECT(world, strcmp(answer_text(there, "Body"), "right") == 0);
        EXPECT(world, strcmp(answer_text(there, "MessageDeduplicationId"), "wrong") == 0);
    }
    run_one(world, "q", "other"); /* the copy is the newest */
    EXPECT(world, strcmp(attribute_of(world, "q", "colour"), "red") == 0);
    run_one(world, "q", "right");
    EXPECT(world, world_count_messages(world, "q") == 0);
}

static void attributes_are_replaced_but_those_of_the_server(struct world *world)
{
    char id[WORLD_ID_SIZE];
    make_queues(world);
    struct answer answer = world_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    put(world, "q", "m", ATTRIBUTES(TEXT("colour", "red") "," TEXT("Tally.Batch", "b")), id);
    answer = world_call(world, "Tally.ReplaceMessage",
                        "{'QueueUrl':'q','MessageId':'%s'" ATTRIBUTES(TEXT("size", "9")) "}", id);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    EXPECT(world, strcmp(attribute_of(world, "q", "size"), "9") == 0);
    EXPECT(world, strcmp(attribute_of(world, "q", "colour"), "") == 0);
    EXPECT(world, strcmp(attribute_of(world, "q", "Tally.Batch"), "b") == 0);
    run_one(world, "q", "m");
}

static void its_unit_and_its_dependents_are_those_of_the_copy(struct world *world)
{
    char id[WORLD_ID_SIZE], after[200];
    static const char *const trackings[] = {"exact", "xor"};
    make_queues(world);
    for (unsigned i = 0; i < ARRAY_LENGTH(trackings); i++) {
        char body[2][16], more[200];
        snprintf(body[0], sizeof(body[0]), "unit-%u", i);
        snprintf(body[1], sizeof(body[1]), "then-%u", i);
        struct answer answer = world_call(world, "Tally.CreateBatch", "{'BatchId':'%s','Total':1,'Tracking':'%s'}",
                                          trackings[i], trackings[i]);
        EXPECT(world, answer.error == NULL || answer.is_repeat);
        snprintf(more, sizeof(more), ATTRIBUTES(TEXT("Tally.Batch", "%s")), trackings[i]);
        put(world, "q", body[0], more, id);
        snprintf(after, sizeof(after), ATTRIBUTES(TEXT("Tally.After", "message:%s")), id);
        put(world, "then", body[1], after, NULL);
        replace(world, "q", id, "right", "", NULL);
        settle(world);
        answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", trackings[i]);
        EXPECT(world, answer_number(answer, "Remaining") == 1 && answer_number(answer, "Failed") == 0);
        struct taken taken;
        EXPECT(world, world_take(world, "then", 1, 1, &taken) == 0);
        run_one(world, "q", "right");
        settle(world);
        answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", trackings[i]);
        EXPECT(world, strcmp(answer_text(answer, "Status"), "succeeded") == 0);
        run_one(world, "then", body[1]);
    }
}

static void it_keeps_its_place_in_a_fifo_group(struct world *world)
{
    char ids[3][WORLD_ID_SIZE];
    make_queues(world);
    put(world, "line.fifo", "1", ",'MessageGroupId':'g'", ids[0]);
    put(world, "line.fifo", "2", ",'MessageGroupId':'g'", ids[1]);
    put(world, "line.fifo", "3", ",'MessageGroupId':'g'", ids[2]);
    replace(world, "line.fifo", ids[1], "two", "", NULL);
    run_one(world, "line.fifo", "1");
    run_one(world, "line.fifo", "two");
    run_one(world, "line.fifo", "3");
}

static void a_group_goes_on_when_its_held_head_is_replaced(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    make_queues(world);
    put(world, "line.fifo", "1", ",'MessageGroupId':'g'", id);
    put(world, "line.fifo", "2", ",'MessageGroupId':'g'", NULL);
    fail_next(world, "line.fifo");
    EXPECT(world, world_take(world, "line.fifo", 1, 1, &taken) == 0);
    replace(world, "line.fifo", id, "one", "", NULL);
    run_one(world, "line.fifo", "one");
    run_one(world, "line.fifo", "2");
}

/* A copy at the head of its group has a higher number than those behind it. When the leases of a run end in one moment,
 * the head is charged. All behind it are spared, also behind one whose lease goes on. A receive that a kill loses is an
 * attempt, so there is none here. */
static void those_behind_a_copy_are_spared_when_their_run_lapses(struct world *world)
{
    char head[WORLD_ID_SIZE];
    struct taken run[3];
    if (world->options.way != WORLD_PLAIN)
        return;
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(
        world, "strict.fifo",
        "'FifoQueue':'true','Tally.DeduplicationWindow':'604800','Tally.StrictOrder':'true'," POLICY_AFTER("dead.fifo",
                                                                                                           "1"));
    put(world, "strict.fifo", "one", ",'MessageGroupId':'g'", head);
    put(world, "strict.fifo", "two", ",'MessageGroupId':'g'", NULL);
    put(world, "strict.fifo", "three", ",'MessageGroupId':'g'", NULL);
    replace(world, "strict.fifo", head, "changed", "", NULL);
    world_hold(world, "strict.fifo", 30, 3, run);
    EXPECT(world, strcmp(run[0].body, "changed") == 0);
    struct answer answer =
        world_call(world, "ChangeMessageVisibility",
                   "{'QueueUrl':'strict.fifo','ReceiptHandle':'%s','VisibilityTimeout':300}", run[1].handle);
    EXPECT(world, answer.error == NULL);
    world_pass_time(world, 100 * 1000);
    run_one(world, "strict.fifo", "two");
    run_one(world, "strict.fifo", "three");
    EXPECT(world, world_count_messages(world, "dead.fifo") == 1);
}

/* Repaired and redriven in one step: its unit is outstanding again, and who was held for it waits for the copy. */
static void a_dead_letter_goes_back_to_where_it_failed(struct world *world)
{
    char id[WORLD_ID_SIZE], more[300];
    make_queues(world);
    struct answer answer = world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':1}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    put(world, "q", "wrong", ATTRIBUTES(TEXT("Tally.Batch", "b")), id);
    snprintf(more, sizeof(more), ATTRIBUTES(TEXT("Tally.After", "message:%s") "," TEXT("Tally.AfterFailure", "hold")),
             id);
    put(world, "then", "afterwards", more, NULL);
    fail_next(world, "q");
    settle(world);
    EXPECT(world, world_count_messages(world, "dead") == 1);
    replace(world, "dead", id, "right", "", NULL);
    settle(world);
    EXPECT(world, world_count_messages(world, "dead") == 0 && world_count_messages(world, "q") == 1);
    answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, answer_number(answer, "Remaining") == 1);
    run_one(world, "q", "right");
    settle(world);
    answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, strcmp(answer_text(answer, "Status"), "succeeded") == 0);
    run_one(world, "then", "afterwards");
}

/* Right before what is held because of it there is no number left, so the copy shares that of the message in front. */
static void a_copy_that_shares_its_place_survives_snapshots(struct world *world)
{
    char id[WORLD_ID_SIZE], more[300];
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "l.fifo", "'FifoQueue':'true'," POLICY("dead.fifo"));
    put(world, "l.fifo", "dies", ",'MessageGroupId':'g'", id);
    put(world, "l.fifo", "between", ",'MessageGroupId':'g'", NULL);
    snprintf(
        more, sizeof(more),
        ",'MessageGroupId':'g'" ATTRIBUTES(TEXT("Tally.After", "message:%s") "," TEXT("Tally.AfterFailure", "hold")),
        id);
    put(world, "l.fifo", "held", more, NULL);
    fail_next(world, "l.fifo");
    settle(world);
    replace(world, "dead.fifo", id, "repaired", "", NULL);
    settle(world);
    run_one(world, "l.fifo", "between");
    run_one(world, "l.fifo", "repaired");
    settle(world);
    run_one(world, "l.fifo", "held");
    EXPECT(world, world_count_messages(world, "l.fifo") == 0);
}

static void a_delay_goes_on(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    make_queues(world);
    put(world, "q", "late", ",'DelaySeconds':600", id);
    replace(world, "q", id, "later", "", NULL);
    EXPECT(world, world_take(world, "q", 1, 1, &taken) == 0);
    world_pass_time(world, 601000);
    run_one(world, "q", "later");
}

/* --- what can't be replaced --------------------------------------------------------------------------------------- */

static void expect_refused(struct world *world, const char *queue, const char *id, const char *more, const char *error,
                           const char *text)
{
    struct answer answer =
        world_call(world, "Tally.ReplaceMessage", "{'QueueUrl':'%s','MessageId':'%s'%s}", queue, id, more);
    if (!answer_fails(answer, error) || strstr(answer_text(answer, "message"), text) == NULL)
        print_error("%s: %s\n", answer.error == NULL ? "OK" : answer.error, answer_text(answer, "message"));
    EXPECT(world, answer_fails(answer, error) && strstr(answer_text(answer, "message"), text) != NULL);
}

static void what_can_not_be_replaced_is_refused(struct world *world)
{
    static const char unsupported[] = "UnsupportedOperation", invalid[] = "InvalidParameterValueException";
    static const char changed[] = ",'MessageBody':'changed'";
    char ids[5][WORLD_ID_SIZE], more[200];
    struct taken taken;
    make_queues(world);
    put(world, "q", "taken", "", ids[0]);
    world_hold(world, "q", 3600, 1, &taken);
    expect_refused(world, "q", ids[0], changed, unsupported, "in flight");
    snprintf(more, sizeof(more), ATTRIBUTES(TEXT("Tally.After", "message:%s")), ids[0]);
    put(world, "then", "waits", more, ids[1]);
    expect_refused(world, "then", ids[1], changed, unsupported, "waits for others");
    struct answer answer = world_call(world, "Tally.PutTypeOrder", "{'Name':'o','Types':['a','b']}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    put(world, "then", "typed", ",'MessageGroupId':'g'" ATTRIBUTES(TEXT("Tally.Type", "a")), ids[2]);
    expect_refused(world, "then", ids[2], changed, unsupported, "type orders");
    put(world, "then", "plain", "", ids[3]);
    expect_refused(world, "q", ids[3], changed, invalid, "no such message");
    expect_refused(world, "then", ids[3], "", "MissingRequiredParameterException", "what changes");
    expect_refused(world, "then", ids[3], ",'MessageBody':''", invalid, "empty");
    expect_refused(world, "then", ids[3], ATTRIBUTES(TEXT("Tally.Batch", "b")), invalid, "Tally.Batch");
    expect_refused(world, "then", ids[3], ",'MessageBody':'\\u0001'", "InvalidMessageContents", "");
    world_delete(world, "q", taken.handle);
    put(world, "q", "dies", "", ids[4]);
    fail_next(world, "q");
    answer = world_call(world, "DeleteQueue", "{'QueueUrl':'q'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    expect_refused(world, "dead", ids[4], changed, unsupported, "does not exist");
    EXPECT(world, world_count_messages(world, "dead") == 1);
}

static void expect_top(struct world *world, const char *count)
{
    settle(world);
    struct answer answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'top'}");
    EXPECT(world, answer_number(answer, "Total") == 1 && answer_number(answer, count) == 1);
}

/* The message with which a batch says that it is complete keeps its id, and its parent waits for the copy. */
static void the_message_of_a_batch_is_repaired_where_it_is_and_as_a_dead_letter(struct world *world)
{
    char id[WORLD_ID_SIZE], copy[WORLD_ID_SIZE];
    make_queues(world);
    struct answer answer = world_call(world, "Tally.CreateBatch", "{'BatchId':'top'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    answer = world_call(world, "Tally.CreateBatch",
                        "{'BatchId':'low','Parent':'top','Total':0,'OnComplete':{'QueueUrl':'q'}}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    answer = world_call(world, "Tally.SealBatch", "{'BatchId':'top'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'low'}");
    snprintf(id, sizeof(id), "%s", answer_text(answer, "CompletionMessageId"));
    replace(world, "q", id, "wrong", "", copy);
    EXPECT(world, copy[0] == '\0' || strcmp(copy, id) == 0);
    expect_top(world, "Remaining");
    fail_next(world, "q");
    expect_top(world, "Failed");
    replace(world, "dead", id, "right", "", NULL);
    expect_top(world, "Remaining");
    struct answer there = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, strcmp(answer_text(there, "Body"), "right") == 0);
    run_one(world, "q", "right");
    expect_top(world, "Succeeded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_message_has_another_body_and_another_id),
        SCENARIO(attributes_are_replaced_but_those_of_the_server),
        SCENARIO(its_unit_and_its_dependents_are_those_of_the_copy),
        SCENARIO(it_keeps_its_place_in_a_fifo_group),
        SCENARIO(a_group_goes_on_when_its_held_head_is_replaced),
        SCENARIO(those_behind_a_copy_are_spared_when_their_run_lapses),
        SCENARIO(a_dead_letter_goes_back_to_where_it_failed),
        SCENARIO(a_copy_that_shares_its_place_survives_snapshots),
        SCENARIO(the_message_of_a_batch_is_repaired_where_it_is_and_as_a_dead_letter),
        SCENARIO(a_delay_goes_on),
        SCENARIO(what_can_not_be_replaced_is_refused),
    };
    return cmocka_run_group_tests_name("scenarios: messages that are replaced", tests, NULL, NULL);
}
