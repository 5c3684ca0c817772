/* ListQueueStats: the age of the oldest message that could be delivered, held groups and blocked messages, and the
 * worst queues first. */
#include "scenario.h"

static struct world *open_world(void)
{
    return world_create(&(struct world_options){.seed = 1});
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static yyjson_val *stats_of(struct world *world, const char *queue)
{
    struct answer answer = world_call(world, "Tally.ListQueueStats", "{'QueueNamePrefix':'%s','MaxResults':1}", queue);
    EXPECT(world, answer.error == NULL);
    return yyjson_arr_get_first(yyjson_obj_get(answer.root, "Queues"));
}

static uint64_t number_of(yyjson_val *stats, const char *name)
{
    return yyjson_get_uint(yyjson_obj_get(stats, name));
}

#define NONE UINT64_MAX

/* NONE: nothing can be delivered. */
static uint64_t deliverable_age(struct world *world, const char *queue)
{
    yyjson_val *stats = stats_of(world, queue);
    yyjson_val *age = yyjson_obj_get(stats, "OldestDeliverableAge");
    EXPECT(world, yyjson_obj_get(stats, "OldestDeliverableAgeIsAtLeast") == NULL);
    return age == NULL ? NONE : yyjson_get_uint(age);
}

static void send_to_group(struct world *world, const char *queue, const char *group)
{
    static unsigned number;
    struct answer answer = world_call(
        world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'m','MessageGroupId':'%s','MessageDeduplicationId':'%u'}",
        queue, group, ++number);
    EXPECT(world, answer.error == NULL);
}

static void the_oldest_deliverable_message_is_not_the_oldest_one(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "q", "");
    EXPECT(world, deliverable_age(world, "q") == NONE);
    world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'m','DelaySeconds':60}");
    world_pass_time(world, 10000);
    EXPECT(world, deliverable_age(world, "q") == NONE);
    world_send(world, "q", NULL, "m");
    world_pass_time(world, 5000);
    EXPECT(world, deliverable_age(world, "q") == 5 && number_of(stats_of(world, "q"), "OldestMessageAge") == 15);
    EXPECT(world, world_take(world, "q", 20, 1, &taken) == 1);
    EXPECT(world, deliverable_age(world, "q") == NONE);
    world_pass_time(world, 20000); /* the lease is over */
    EXPECT(world, deliverable_age(world, "q") == 25);
    world_pass_time(world, 30000); /* the delay, too */
    EXPECT(world, deliverable_age(world, "q") == 65);
    world_call(world, "Tally.PauseQueue", "{'QueueUrl':'q'}");
    EXPECT(world, deliverable_age(world, "q") == 65);
    close_world(world);
}

static void groups_are_looked_through_for_their_oldest(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    send_to_group(world, "f.fifo", "a");
    send_to_group(world, "f.fifo", "a");
    world_pass_time(world, 10000);
    send_to_group(world, "f.fifo", "b");
    world_pass_time(world, 1000);
    EXPECT(world, deliverable_age(world, "f.fifo") == 11);
    EXPECT(world, world_take(world, "f.fifo", 1000, 1, &taken) == 1);
    EXPECT(world, deliverable_age(world, "f.fifo") == 1); /* a's second stands behind its first */
    world_call(world, "Tally.PauseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'b'}");
    EXPECT(world, deliverable_age(world, "f.fifo") == NONE);
    world_delete(world, "f.fifo", taken.handle);
    EXPECT(world, deliverable_age(world, "f.fifo") == 11);
    close_world(world);
}

/* Behind more messages of a busy group than a call looks at, the age is that of some message, and says so. */
static void an_age_that_is_not_known_is_at_least_something(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    for (unsigned i = 0; i < 150; i++)
        send_to_group(world, "f.fifo", "busy");
    EXPECT(world, world_take(world, "f.fifo", 1000, 1, &taken) == 1);
    send_to_group(world, "f.fifo", "b");
    world_pass_time(world, 3000);
    yyjson_val *stats = stats_of(world, "f.fifo");
    EXPECT(world, number_of(stats, "OldestDeliverableAge") == 3);
    EXPECT(world, yyjson_is_true(yyjson_obj_get(stats, "OldestDeliverableAgeIsAtLeast")));
    close_world(world);
}

/* The names of the queues in an answer, with blanks between them. */
static const char *names_of(struct answer answer)
{
    static char names[400];
    size_t index, count, size = 0;
    yyjson_val *queue;
    names[0] = '\0';
    yyjson_arr_foreach(yyjson_obj_get(answer.root, "Queues"), index, count, queue)
    {
        size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s", index == 0 ? "" : " ",
                                 yyjson_get_str(yyjson_obj_get(queue, "QueueName")));
    }
    return names;
}

static void held_groups_and_blocked_messages_are_counted(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','Tally.OnGroupFailure':'hold'");
    send_to_group(world, "f.fifo", "a");
    EXPECT(world, world_take(world, "f.fifo", 1000, 1, &taken) == 1);
    world_call(world, "Tally.FailMessage", "{'QueueUrl':'f.fifo','ReceiptHandle':'%s','Final':true}", taken.handle);
    EXPECT(world, world_take(world, "f.fifo", 1000, 1, &taken) == 0);
    EXPECT(world, number_of(stats_of(world, "f.fifo"), "HeldGroups") == 1);
    struct answer held = world_call(world, "Tally.ListQueueStats", "{'Having':'held-groups'}");
    EXPECT(world, strcmp(names_of(held), "f.fifo") == 0);
    EXPECT(world, deliverable_age(world, "f.fifo") == NONE);
    world_kill(world);
    EXPECT(world, number_of(stats_of(world, "f.fifo"), "HeldGroups") == 1);
    world_snapshot(world);
    world_kill(world);
    EXPECT(world, number_of(stats_of(world, "f.fifo"), "HeldGroups") == 1);
    world_call(world, "Tally.ReleaseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'a','Action':'skip'}");
    EXPECT(world, number_of(stats_of(world, "f.fifo"), "HeldGroups") == 0);

    world_create_queue(world, "q", "");
    world_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    world_call(world, "SendMessage",
               "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':"
               "'String','StringValue':'batch:b'}}}");
    world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'m','DelaySeconds':60}");
    EXPECT(world, number_of(stats_of(world, "q"), "Blocked") == 1 && number_of(stats_of(world, "q"), "Delayed") == 2);
    world_snapshot(world);
    world_kill(world);
    EXPECT(world, number_of(stats_of(world, "q"), "Blocked") == 1);
    world_call(world, "Tally.SealBatch", "{'BatchId':'b'}");
    world_pass_time(world, 100);
    EXPECT(world, number_of(stats_of(world, "q"), "Blocked") == 0 && deliverable_age(world, "q") != NONE);
    close_world(world);
}

static void the_worst_queues_come_first(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "empty", "");
    world_create_queue(world, "full", "");
    world_create_queue(world, "held", "");
    world_create_queue(world, "old", "");
    world_send(world, "held", NULL, "m");
    world_pass_time(world, 1000);
    world_send(world, "old", NULL, "m");
    world_pass_time(world, 1000);
    for (unsigned i = 0; i < 5; i++)
        world_send(world, "full", NULL, "m");
    EXPECT(world, world_take(world, "held", 1000, 1, &taken) == 1);
    struct answer answer = world_call(world, "Tally.ListQueueStats", "{'SortBy':'age'}");
    EXPECT(world, strcmp(names_of(answer), "old full empty held") == 0 && !answer_has(answer, "NextToken"));
    answer = world_call(world, "Tally.ListQueueStats", "{'SortBy':'visible','MaxResults':2}");
    EXPECT(world, strcmp(names_of(answer), "full old") == 0 && !answer_has(answer, "NextToken"));
    answer = world_call(world, "Tally.ListQueueStats", "{'SortBy':'oldest'}");
    EXPECT(world, strcmp(names_of(answer), "held old full empty") == 0);
    answer = world_call(world, "Tally.ListQueueStats", "{'SortBy':'oldest','Having':'nothing-visible'}");
    EXPECT(world, strcmp(names_of(answer), "held") == 0);
    answer = world_call(world, "Tally.ListQueueStats", "{'SortBy':'name'}");
    EXPECT(world, strcmp(names_of(answer), "empty full held old") == 0);
    answer = world_call(world, "Tally.ListQueueStats", "{'SortBy':'age','QueueNamePrefix':'o'}");
    EXPECT(world, strcmp(names_of(answer), "old") == 0);
    EXPECT(world, answer_fails(world_call(world, "Tally.ListQueueStats", "{'SortBy':'size'}"),
                               "InvalidParameterValueException"));
    EXPECT(world, answer_fails(world_call(world, "Tally.ListQueueStats", "{'SortBy':'age','NextToken':'x'}"),
                               "InvalidParameterValueException"));
    close_world(world);
}

static void only_queues_in_which_something_stands_still(void **state)
{
    (void)state;
    struct world *world = open_world();
    char attributes[200];
    const char *const dead[] = {"lost", "gone", "never"};
    for (size_t i = 0; i < ARRAY_LENGTH(dead); i++)
        world_create_queue(world, dead[i], "");
    const struct {
        const char *name;
        size_t dead;
    } sources[] = {{"a", 0}, {"b", 1}, {"c", 0}, {"d", 2}};
    for (size_t i = 0; i < ARRAY_LENGTH(sources); i++) {
        snprintf(attributes, sizeof(attributes),
                 "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:%s\\',"
                 "\\'maxReceiveCount\\':1}'",
                 dead[sources[i].dead]);
        world_create_queue(world, sources[i].name, attributes);
    }
    world_send(world, "lost", NULL, "m");
    world_send(world, "gone", NULL, "m");
    world_send(world, "gone", NULL, "m");
    world_send(world, "a", NULL, "m");
    struct answer answer = world_call(world, "Tally.ListQueueStats", "{'Having':'dead-letters','SortBy':'visible'}");
    EXPECT(world, strcmp(names_of(answer), "gone lost") == 0 && !answer_has(answer, "NextToken"));
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'dead-letters','QueueNamePrefix':'l'}");
    EXPECT(world, strcmp(names_of(answer), "lost") == 0);
    EXPECT(world, number_of(yyjson_arr_get_first(yyjson_obj_get(answer.root, "Queues")), "Sources") == 2);
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'pause'}");
    EXPECT(world, strcmp(names_of(answer), "") == 0);
    world_call(world, "Tally.PauseQueue", "{'QueueUrl':'b'}");
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'pause','SortBy':'age'}");
    EXPECT(world, strcmp(names_of(answer), "b") == 0);
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'held-groups'}");
    EXPECT(world, strcmp(names_of(answer), "") == 0);
    EXPECT(world, answer_fails(world_call(world, "Tally.ListQueueStats", "{'Having':'messages'}"),
                               "InvalidParameterValueException"));
    close_world(world);
}

/* One call puts 10,000 queues in order, and the next one goes on behind them. */
static void very_many_queues_come_in_several_pages(void **state)
{
    (void)state;
    struct world *world = open_world();
    char name[40];
    for (unsigned i = 0; i < 10500; i++) {
        snprintf(name, sizeof(name), "q-%05u", i);
        world_create_queue(world, name, "");
        if (i % 1000 == 0)
            world_forget(world);
    }
    world_create_queue(world, "r-other", "");
    world_send(world, "q-09999", NULL, "m");
    world_send(world, "q-10000", NULL, "m");
    struct answer answer =
        world_call(world, "Tally.ListQueueStats", "{'SortBy':'visible','MaxResults':2,'QueueNamePrefix':'q-'}");
    EXPECT(world, strcmp(names_of(answer), "q-09999 q-00000") == 0);
    world_call(world, "DeleteQueue", "{'QueueUrl':'q-00000'}"); /* what has gone shifts nothing */
    answer = world_call(world, "Tally.ListQueueStats",
                        "{'SortBy':'visible','MaxResults':2,'QueueNamePrefix':'q-','NextToken':'%s'}",
                        answer_text(answer, "NextToken"));
    EXPECT(world, strcmp(names_of(answer), "q-10000 q-10001") == 0 && !answer_has(answer, "NextToken"));
    world_create_queue(world, "q-00000", "");
    world_call(world, "Tally.PauseQueue", "{'QueueUrl':'q-10400'}");
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'pause'}");
    EXPECT(world, strcmp(names_of(answer), "") == 0);
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'pause','NextToken':'%s'}",
                        answer_text(answer, "NextToken"));
    EXPECT(world, strcmp(names_of(answer), "q-10400") == 0 && !answer_has(answer, "NextToken"));
    close_world(world);
}

/* Somebody who follows NextToken has each queue once, whether he says how long a page is or not. */
static void pages_by_name_have_each_queue_once(void **state)
{
    (void)state;
    struct world *world = open_world();
    char name[40];
    for (unsigned i = 0; i < 1002; i++) {
        snprintf(name, sizeof(name), "q-%04u", i);
        world_create_queue(world, name, "");
        if (i % 500 == 0)
            world_call(world, "Tally.PauseQueue", "{'QueueUrl':'%s'}", name);
    }
    struct answer answer = world_call(world, "Tally.ListQueueStats", "{}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Queues")) == 1000);
    answer = world_call(world, "Tally.ListQueueStats", "{'NextToken':'%s'}", answer_text(answer, "NextToken"));
    EXPECT(world, strcmp(names_of(answer), "q-1000 q-1001") == 0 && !answer_has(answer, "NextToken"));
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'pause','MaxResults':2}");
    EXPECT(world, strcmp(names_of(answer), "q-0000 q-0500") == 0);
    world_call(world, "AmazonSQS.DeleteQueue", "{'QueueUrl':'q-0000'}"); /* what has gone shifts nothing */
    answer = world_call(world, "Tally.ListQueueStats", "{'Having':'pause','MaxResults':2,'NextToken':'%s'}",
                        answer_text(answer, "NextToken"));
    EXPECT(world, strcmp(names_of(answer), "q-1000") == 0 && !answer_has(answer, "NextToken"));
    answer = world_call(world, "AmazonSQS.ListQueues", "{}"); /* as SQS has it */
    EXPECT(world,
           yyjson_arr_size(yyjson_obj_get(answer.root, "QueueUrls")) == 1000 && !answer_has(answer, "NextToken"));
    close_world(world);
}

static void a_batch_says_what_it_was_made_with(void **state)
{
    (void)state;
    struct world *world = open_world();
    world_create_queue(world, "done", "");
    world_create_queue(world, "line.fifo", "'FifoQueue':'true'");
    world_call(world, "Tally.CreateBatch", "{'BatchId':'parent'}");
    world_call(world, "Tally.CreateBatch",
               "{'BatchId':'b','Parent':'parent','Total':3,'ExpiresAfterSeconds':100,'OnComplete':{'QueueUrl':'done',"
               "'MessageBody':'secret'},'OnFirstFailure':{'QueueUrl':'line.fifo','MessageGroupId':'g'}}");
    struct answer batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, strcmp(answer_text(batch, "Parent"), "parent") == 0);
    EXPECT(world, strcmp(answer_text(batch, "Tracking"), "exact") == 0 && answer_number(batch, "ExpectedTotal") == 3);
    EXPECT(world, yyjson_get_num(yyjson_obj_get(batch.root, "ExpiresAt")) == WORLD_START_MS / 1000 + 100);
    yyjson_val *complete = yyjson_obj_get(batch.root, "OnComplete"),
               *failure = yyjson_obj_get(batch.root, "OnFirstFailure");
    EXPECT(world, yyjson_obj_size(complete) == 1 && yyjson_obj_size(failure) == 2 && !answer_has(batch, "OnSuccess"));
    EXPECT(world, yyjson_equals_str(yyjson_obj_get(failure, "MessageGroupId"), "g"));
    world_call(world, "Tally.CreateBatch", "{'BatchId':'xor','Tracking':'xor'}");
    batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'xor'}");
    EXPECT(world, strcmp(answer_text(batch, "Tracking"), "xor") == 0 && !answer_has(batch, "ExpectedTotal"));
    world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}");
    world_call(world, "DeleteQueue", "{'QueueUrl':'done'}");
    batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, !answer_has(batch, "OnComplete") && !answer_has(batch, "ExpiresAt"));
    EXPECT(world, answer_has(batch, "OnFirstFailure") && answer_has(batch, "CompletionMessageId"));
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_deliverable_message_is_not_the_oldest_one),
        cmocka_unit_test(groups_are_looked_through_for_their_oldest),
        cmocka_unit_test(an_age_that_is_not_known_is_at_least_something),
        cmocka_unit_test(held_groups_and_blocked_messages_are_counted),
        cmocka_unit_test(the_worst_queues_come_first),
        cmocka_unit_test(only_queues_in_which_something_stands_still),
        cmocka_unit_test(very_many_queues_come_in_several_pages),
        cmocka_unit_test(pages_by_name_have_each_queue_once),
        cmocka_unit_test(a_batch_says_what_it_was_made_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
