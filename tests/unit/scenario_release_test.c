/* ReleaseMessage: a message in flight is taken away from whoever has it, as if its visibility timeout were over. */
#include "scenario.h"

#define ARN(queue) "arn:aws:sqs:us-east-1:000000000000:" queue
#define TEXT(name, value) "'" name "':{'DataType':'String','StringValue':'" value "'}"
#define UNIT(batch) ",'MessageAttributes':{" TEXT("Tally.Batch", batch) "}"
#define GROUP ",'MessageGroupId':'g'"

static const char invalid[] = "InvalidParameterValueException", unsupported[] = "UnsupportedOperation";
static const char bad_handle[] = "ReceiptHandleIsInvalid";

/* --- a small vocabulary ------------------------------------------------------------------------------------------- */

static void expect_well(struct world *world, struct answer answer)
{
    EXPECT(world, answer.error == NULL || answer.is_repeat);
}

static void put(struct world *world, const char *queue, const char *body, const char *more, char id[WORLD_ID_SIZE])
{
    struct answer answer =
        world_call(world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'%s','MessageDeduplicationId':'%s'%s}", queue,
                   body, body, more);
    expect_well(world, answer);
    if (id != NULL)
        snprintf(id, WORLD_ID_SIZE, "%s", answer_text(answer, "MessageId"));
}

/* A repeat may find that it has happened. */
static struct answer release(struct world *world, const char *id, const char *outcome)
{
    struct answer answer = world_call(world, "Tally.ReleaseMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, unsupported)));
    EXPECT(world, answer.error != NULL || strcmp(answer_text(answer, "Outcome"), outcome) == 0);
    return answer;
}

/* Whoever is killed behind a receive has lost an attempt. So the policy comes when the message is held: any number of
 * attempts is too many then. */
static void allow_no_more_attempts(struct world *world, const char *queue, const char *dead_letters)
{
    struct answer answer =
        world_call(world, "SetQueueAttributes",
                   "{'QueueUrl':'%s','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'" ARN(
                       "%s") "\\',\\'maxReceiveCount\\':1}'}}",
                   queue, dead_letters);
    expect_well(world, answer);
}

static bool is_in_state(struct world *world, const char *id, const char *state)
{
    return strcmp(answer_text(world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id), "State"), state) == 0;
}

static bool gives_nothing(struct world *world, const char *queue)
{
    struct taken taken;
    return world_take(world, queue, 1, 1, &taken) == 0;
}

static void run_one(struct world *world, const char *queue, const char *body)
{
    struct taken taken;
    world_hold(world, queue, 300, 1, &taken);
    EXPECT(world, strcmp(taken.body, body) == 0);
    world_delete(world, queue, taken.handle);
}

static struct answer try_delete(struct world *world, const char *queue, const char *handle)
{
    return world_call(world, "DeleteMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s'}", queue, handle);
}

static struct answer describe(struct world *world, const char *batch)
{
    world_pass_time(world, 10);
    return world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", batch);
}

/* --- the message comes back --------------------------------------------------------------------------------------- */

/* How the queues treat the handle of the former holder, before and after the message has a new one. */
static const struct {
    const char *queue;
    const char *attributes;
    const char *more;
    const char *before; /* the error of a change of visibility */
    const char *after;  /* the error of a delete; NULL: it takes effect */
} kinds[] = {
    {"accept", "", "", NULL, NULL},
    {"refuse", "'Tally.StaleReceipts':'refuse'", "", NULL, bad_handle},
    {"line.fifo", "'FifoQueue':'true'", GROUP, invalid, bad_handle},
};

static void a_released_message_has_a_new_holder_and_the_old_one_is_fenced(struct world *world)
{
    for (unsigned i = 0; i < ARRAY_LENGTH(kinds); i++) {
        char id[WORLD_ID_SIZE];
        struct taken old, new;
        world_create_queue(world, kinds[i].queue, kinds[i].attributes);
        put(world, kinds[i].queue, "m", kinds[i].more, id);
        world_hold(world, kinds[i].queue, 43200, 1, &old);
        EXPECT(world, gives_nothing(world, kinds[i].queue));
        release(world, id, "returned");
        EXPECT(world, is_in_state(world, id, "ready"));
        world_hold(world, kinds[i].queue, 300, 1, &new);
        EXPECT(world, strcmp(new.id, id) == 0 && new.receive_count > old.receive_count);
        struct answer answer = world_call(world, "Tally.Commit", "{'Deletes':[{'QueueUrl':'%s','ReceiptHandle':'%s'}]}",
                                          kinds[i].queue, old.handle);
        EXPECT(world, answer_fails(answer, bad_handle));
        answer = try_delete(world, kinds[i].queue, old.handle);
        EXPECT(world, kinds[i].after == NULL ? answer.error == NULL : answer_fails(answer, kinds[i].after));
        EXPECT(world, world_count_messages(world, kinds[i].queue) == (kinds[i].after != NULL));
        world_delete(world, kinds[i].queue, new.handle);
    }
}

/* As after a visibility timeout: on a standard queue the newest handle is good until the next delivery. */
static void until_the_next_delivery_the_old_handle_is_as_after_an_expiry(struct world *world)
{
    for (unsigned i = 0; i < ARRAY_LENGTH(kinds); i++) {
        char id[WORLD_ID_SIZE];
        struct taken old;
        world_create_queue(world, kinds[i].queue, kinds[i].attributes);
        put(world, kinds[i].queue, "m", kinds[i].more, id);
        world_hold(world, kinds[i].queue, 43200, 1, &old);
        release(world, id, "returned");
        struct answer answer =
            world_call(world, "ChangeMessageVisibility",
                       "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':300}", kinds[i].queue, old.handle);
        EXPECT(world, kinds[i].before == NULL ? answer.error == NULL : answer_fails(answer, kinds[i].before));
        EXPECT(world, is_in_state(world, id, kinds[i].before == NULL ? "in-flight" : "ready"));
        if (kinds[i].before == NULL)
            release(world, id, "returned");
        answer = try_delete(world, kinds[i].queue, old.handle);
        EXPECT(world, kinds[i].before == NULL ? answer.error == NULL : answer_fails(answer, invalid));
    }
}

static void a_message_without_attempts_left_goes_to_the_dead_letter_queue(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q", "");
    put(world, "q", "m", "", id);
    world_hold(world, "q", 43200, 1, &taken);
    allow_no_more_attempts(world, "q", "dead");
    release(world, id, "dead-lettered");
    EXPECT(world, world_count_messages(world, "q") == 1);
    EXPECT(world, gives_nothing(world, "q"));
    EXPECT(world, world_count_messages(world, "q") == 0 && world_count_messages(world, "dead") == 1);
    run_one(world, "dead", "m");
}

static void a_group_of_a_fifo_queue_goes_on_in_order(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "line.fifo", "'FifoQueue':'true','Tally.DeduplicationWindow':'604800'");
    put(world, "line.fifo", "1", GROUP, id);
    put(world, "line.fifo", "2", GROUP, NULL);
    world_hold(world, "line.fifo", 43200, 1, &taken);
    EXPECT(world, gives_nothing(world, "line.fifo"));
    release(world, id, "returned");
    run_one(world, "line.fifo", "1");
    run_one(world, "line.fifo", "2");
}

static void a_group_is_held_when_its_head_has_no_attempts_left(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800','Tally.OnGroupFailure':'hold'");
    put(world, "line.fifo", "1", GROUP, id);
    put(world, "line.fifo", "2", GROUP, NULL);
    world_hold(world, "line.fifo", 43200, 1, &taken);
    allow_no_more_attempts(world, "line.fifo", "dead.fifo");
    release(world, id, "held");
    EXPECT(world, gives_nothing(world, "line.fifo"));
    EXPECT(world, is_in_state(world, id, "held"));
    expect_well(world, world_call(world, "Tally.ReleaseGroup",
                                  "{'QueueUrl':'line.fifo','MessageGroupId':'g','Action':'skip'}"));
    EXPECT(world, world_count_messages(world, "dead.fifo") == 1 && world_count_messages(world, "line.fifo") == 1);
}

/* The later ones of a run come back behind the one that is released, and their attempts don't count. */
static void a_strict_run_comes_back_in_order(struct world *world)
{
    static const char *const bodies[] = {"1", "2", "3"};
    char ids[3][WORLD_ID_SIZE];
    struct taken run[3];
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800','Tally.StrictOrder':'true'");
    for (unsigned i = 0; i < ARRAY_LENGTH(bodies); i++)
        put(world, "line.fifo", bodies[i], GROUP, ids[i]);
    world_hold(world, "line.fifo", 43200, 3, run);
    release(world, ids[1], "returned");
    EXPECT(world, is_in_state(world, ids[0], "in-flight") && !is_in_state(world, ids[2], "in-flight"));
    EXPECT(world, answer_fails(try_delete(world, "line.fifo", run[2].handle), bad_handle));
    world_delete(world, "line.fifo", run[0].handle);
    run_one(world, "line.fifo", "2");
    run_one(world, "line.fifo", "3");
}

static void a_unit_stays_outstanding_and_ends_once(struct world *world)
{
    char ids[2][WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'604800'");
    expect_well(world, world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':2}"));
    put(world, "q", "good", UNIT("b"), ids[0]);
    world_hold(world, "q", 43200, 1, &taken);
    release(world, ids[0], "returned");
    EXPECT(world, answer_number(describe(world, "b"), "Failed") == 0);
    run_one(world, "q", "good");
    put(world, "q", "spent", UNIT("b"), ids[1]);
    world_hold(world, "q", 43200, 1, &taken);
    allow_no_more_attempts(world, "q", "dead");
    release(world, ids[1], "dead-lettered");
    EXPECT(world, answer_number(describe(world, "b"), "Remaining") == 1);
    EXPECT(world, gives_nothing(world, "q"));
    struct answer answer = describe(world, "b");
    EXPECT(world, answer_number(answer, "Succeeded") == 1 && answer_number(answer, "Failed") == 1);
}

/* --- what can't be released --------------------------------------------------------------------------------------- */

static void expect_refused(struct world *world, const char *id, const char *more, const char *error, const char *text)
{
    struct answer answer = world_call(world, "Tally.ReleaseMessage", "{'MessageId':'%s'%s}", id, more);
    if (!answer_fails(answer, error) || strstr(answer_text(answer, "message"), text) == NULL)
        print_error("%s: %s\n", answer.error == NULL ? "OK" : answer.error, answer_text(answer, "message"));
    EXPECT(world, answer_fails(answer, error) && strstr(answer_text(answer, "message"), text) != NULL);
}

static void what_nobody_has_is_refused(struct world *world)
{
    char ids[4][WORLD_ID_SIZE], more[200];
    struct taken taken;
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'604800'");
    world_create_queue(world, "other", "");
    put(world, "q", "ready", "", ids[0]);
    expect_refused(world, ids[0], "", unsupported, "its state is ready.");
    expect_refused(world, ids[0], ",'QueueUrl':'other'", invalid, "The queue has no such message.");
    run_one(world, "q", "ready");
    expect_refused(world, ids[0], "", invalid, "There is no such message. It ");
    put(world, "q", "late", ",'DelaySeconds':900", ids[1]);
    expect_refused(world, ids[1], "", unsupported, "its state is delayed. It is delayed until");
    put(world, "q", "fails", "", ids[2]);
    world_hold(world, "q", 300, 1, &taken);
    expect_well(world, world_call(world, "Tally.FailMessage",
                                  "{'QueueUrl':'q','ReceiptHandle':'%s','RetryAfterSeconds':600}", taken.handle));
    expect_refused(world, ids[2], "", unsupported, "its state is delayed. It was returned");
    snprintf(more, sizeof(more), ",'MessageAttributes':{" TEXT("Tally.After", "message:%s") "}", ids[1]);
    put(world, "q", "waits", more, ids[3]);
    expect_refused(world, ids[3], "", unsupported, "its state is blocked. It waits for message");
    expect_refused(world, "00000000-0000-8000-8000-000000000000", "", invalid, "There is no such message");
    expect_refused(world, ids[1], ",'FencingToken':0", invalid, "FencingToken");
}

static void what_a_batch_cancelled_is_refused(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'604800'");
    expect_well(world, world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':1}"));
    put(world, "q", "m", UNIT("b"), id);
    world_hold(world, "q", 43200, 1, &taken);
    expect_well(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}"));
    struct answer answer = world_call(world, "Tally.ReleaseMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, answer_fails(answer, unsupported) || answer_fails(answer, invalid)); /* the latter once it is gone */
}

/* The receive has ended it, so nobody can get it a second time. */
static void a_message_of_an_at_most_once_queue_does_not_come_back(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "once", "'Tally.DeliveryMode':'at-most-once'");
    put(world, "once", "m", "", id);
    world_take(world, "once", 300, 1, &taken);
    expect_refused(world, id, "", invalid, "There is no such message. It ");
    EXPECT(world, world_count_messages(world, "once") == 0);
}

/* Who looked before has its token: a newer holder keeps the message. */
static void a_newer_holder_keeps_a_message_that_is_released_by_token(struct world *world)
{
    char id[WORLD_ID_SIZE], token[60];
    struct taken taken;
    if (world->options.way != WORLD_PLAIN)
        return; /* a repeat meets its own first effect */
    world_create_queue(world, "q", "");
    put(world, "q", "m", "", id);
    world_hold(world, "q", 43200, 1, &taken);
    struct answer answer = world_call(world, "Tally.ReleaseMessage", "{'MessageId':'%s','DryRun':true}", id);
    snprintf(token, sizeof(token), ",'FencingToken':%llu", (unsigned long long)answer_number(answer, "FencingToken"));
    answer = world_call(world, "Tally.ReleaseMessage", "{'MessageId':'%s'%s}", id, token);
    EXPECT(world, answer.error == NULL);
    expect_refused(world, id, token, unsupported, "its state is ready");
    world_hold(world, "q", 43200, 1, &taken);
    expect_refused(world, id, token, unsupported, "not by delivery 1: the newest one is 2");
    EXPECT(world, is_in_state(world, id, "in-flight"));
}

/* --- the dry run -------------------------------------------------------------------------------------------------- */

static struct answer ask(struct world *world, const char *id)
{
    struct answer answer = world_call(world, "Tally.ReleaseMessage", "{'MessageId':'%s','DryRun':true}", id);
    EXPECT(world, answer.error == NULL && is_in_state(world, id, "in-flight"));
    return answer;
}

static bool counts(struct answer answer, unsigned messages, unsigned dead_lettered, unsigned units)
{
    return answer_is_true(answer, "IsComplete") && answer_number(answer, "Messages") == messages &&
           answer_has(answer, "DeadLettered") == (dead_lettered > 0) && answer_number(answer, "Units") == units;
}

static void a_dry_run_says_who_has_it_and_what_would_come_of_it(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world->worker = "mail-1/77";
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'604800'");
    expect_well(world, world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':1}"));
    put(world, "q", "m", UNIT("b"), id);
    world_hold(world, "q", 43200, 1, &taken);
    struct answer answer = ask(world, id);
    EXPECT(world, strcmp(answer_text(answer, "Outcome"), "returned") == 0 && !answer_has(answer, "MaxAttempts"));
    EXPECT(world, counts(answer, 0, 0, 0) && answer_number(answer, "Attempt") >= 1);
    allow_no_more_attempts(world, "q", "dead");
    answer = ask(world, id);
    EXPECT(world, strcmp(answer_text(answer, "Outcome"), "dead-lettered") == 0 && counts(answer, 0, 1, 1));
    EXPECT(world, answer_number(answer, "MaxAttempts") == 1 && answer_number(answer, "Batches") == 1);
    EXPECT(world, strstr(answer_text(answer, "DeadLetterQueueUrl"), "/dead") != NULL);
    if (world->options.way == WORLD_PLAIN) /* who has it is no part of the state */
        EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(yyjson_obj_get(answer.root, "Holder"), "Worker")),
                             "mail-1/77") == 0);
    EXPECT(world, answer_number(describe(world, "b"), "Remaining") == 1);
}

static void a_dry_run_counts_the_rest_of_a_group_that_would_be_cancelled(struct world *world)
{
    char id[WORLD_ID_SIZE];
    struct taken taken;
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800','Tally.OnGroupFailure':'cancel-rest'");
    put(world, "line.fifo", "1", GROUP, id);
    put(world, "line.fifo", "2", GROUP, NULL);
    put(world, "line.fifo", "3", GROUP, NULL);
    world_hold(world, "line.fifo", 43200, 1, &taken);
    allow_no_more_attempts(world, "line.fifo", "dead.fifo");
    struct answer answer = ask(world, id);
    EXPECT(world, strcmp(answer_text(answer, "Outcome"), "dead-lettered") == 0 && counts(answer, 2, 1, 0) &&
                      answer_number(answer, "Groups") == 1);
    release(world, id, "dead-lettered");
    EXPECT(world, gives_nothing(world, "line.fifo"));
    world_pass_time(world, 10);
    EXPECT(world, world_count_messages(world, "line.fifo") == 0 && world_count_messages(world, "dead.fifo") == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_released_message_has_a_new_holder_and_the_old_one_is_fenced),
        SCENARIO(until_the_next_delivery_the_old_handle_is_as_after_an_expiry),
        SCENARIO(a_message_without_attempts_left_goes_to_the_dead_letter_queue),
        SCENARIO(a_group_of_a_fifo_queue_goes_on_in_order),
        SCENARIO(a_group_is_held_when_its_head_has_no_attempts_left),
        SCENARIO(a_strict_run_comes_back_in_order),
        SCENARIO(a_unit_stays_outstanding_and_ends_once),
        SCENARIO(what_nobody_has_is_refused),
        SCENARIO(what_a_batch_cancelled_is_refused),
        SCENARIO(a_message_of_an_at_most_once_queue_does_not_come_back),
        SCENARIO(a_newer_holder_keeps_a_message_that_is_released_by_token),
        SCENARIO(a_dry_run_says_who_has_it_and_what_would_come_of_it),
        SCENARIO(a_dry_run_counts_the_rest_of_a_group_that_would_be_cancelled),
    };
    return cmocka_run_group_tests_name("scenarios: messages that are released", tests, NULL, NULL);
}
