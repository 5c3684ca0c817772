/* Tasks that are for some messages of a queue: moved or deleted by their ids or by a filter, each once, whatever dies
 * in between; what had to stay is told. And dry runs, which change nothing and say what would happen. */
#include "engine/namespace.h"
#include "scenario.h"

#define ARN(queue) "arn:aws:sqs:us-east-1:000000000000:" queue
#define POLICY(queue) "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'" ARN(queue) "\\',\\'maxReceiveCount\\':100}'"
#define UNIT(batch) ",'MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'" batch "'}}"
#define AFTER(policy)                                                                                                  \
    ",'MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'message:%s'},"                            \
    "'Tally.AfterFailure':{'DataType':'String','StringValue':'" policy "'}}"

/* --- a small vocabulary ------------------------------------------------------------------------------------------- */

/* "a" and "b", whose dead letters go to "dead"; "c" and "q" beside them. */
static void make_queues(struct world *world)
{
    static const char window[] = "'Tally.DeduplicationWindow':'604800'";
    world_create_queue(world, "dead", window);
    world_create_queue(world, "a", "'Tally.DeduplicationWindow':'604800'," POLICY("dead"));
    world_create_queue(world, "b", "'Tally.DeduplicationWindow':'604800'," POLICY("dead"));
    world_create_queue(world, "c", window);
    world_create_queue(world, "q", window);
}

/* Sends once; a repeat is a duplicate. */
static void put(struct world *world, const char *queue, const char *body, const char *more, char id[WORLD_ID_SIZE])
{
    struct answer answer =
        world_call(world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'%s','MessageDeduplicationId':'%s-%s'%s}",
                   queue, body, queue, body, more);
    EXPECT(world, answer.error == NULL);
    if (id != NULL)
        snprintf(id, WORLD_ID_SIZE, "%s", answer_text(answer, "MessageId"));
}

/* The next message of the queue fails for good. */
static void fail_next(struct world *world, const char *queue, const char *reason, char id[WORLD_ID_SIZE])
{
    struct taken taken;
    world_hold(world, queue, 300, 1, &taken);
    struct answer answer =
        world_call(world, "Tally.FailMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s','Reason':'%s','Final':true}",
                   queue, taken.handle, reason);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    if (id != NULL)
        snprintf(id, WORLD_ID_SIZE, "%s", taken.id);
}

/* Dead letters 0, 1, 2: "timeout: N" of the odd ones, "no such customer" of the others, from "a" and "b" in turn. */
static void make_dead_letters(struct world *world, unsigned count, char ids[][WORLD_ID_SIZE])
{
    for (unsigned i = 0; i < count; i++) {
        char body[16], reason[40];
        const char *queue = i % 4 < 2 ? "a" : "b";
        snprintf(body, sizeof(body), "%u", i);
        snprintf(reason, sizeof(reason), i % 2 == 0 ? "no such customer" : "timeout: %u", i);
        put(world, queue, body, "", NULL);
        fail_next(world, queue, reason, ids == NULL ? NULL : ids[i]);
    }
}

/* Starts a task; a repeat may find it running, or begin another one after it. True: perhaps it was begun twice. */
static bool start(struct world *world, const char *action, const char *more)
{
    struct answer answer = world_call(world, action, "{'SourceArn':'" ARN("dead") "','QueueUrl':'dead'%s}", more);
    EXPECT(world, answer.is_repeat || (answer.error == NULL && answer_has(answer, "TaskHandle")));
    return answer.is_repeat;
}

static bool move(struct world *world, const char *more)
{
    return start(world, "StartMessageMoveTask", more);
}

static bool delete_some(struct world *world, const char *more)
{
    return start(world, "Tally.DeleteMessages", more);
}

static struct answer newest_task(struct world *world, const char *queue)
{
    struct answer answer = world_call(world, "ListMessageMoveTasks", "{'SourceArn':'" ARN("%s") "'}", queue);
    EXPECT(world, answer.error == NULL);
    answer.root = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results"));
    EXPECT(world, answer.root != NULL);
    return answer;
}

static bool is_completed(struct world *world, const char *queue)
{
    return strcmp(answer_text(newest_task(world, queue), "Status"), "COMPLETED") == 0;
}

/* What the newest task of the queue says of the message; "" if it did not refuse it. */
static const char *refusal_of(struct world *world, const char *queue, const char *id)
{
    size_t index, count;
    yyjson_val *refusal;
    yyjson_arr_foreach(yyjson_obj_get(newest_task(world, queue).root, "Refusals"), index, count, refusal)
    {
        if (yyjson_equals_str(yyjson_obj_get(refusal, "MessageId"), id))
            return yyjson_get_str(yyjson_obj_get(refusal, "Reason"));
    }
    return "";
}

static void settle(struct world *world)
{
    world_pass_time(world, 10);
}

/* Receives one message, which must have this body, and deletes it. */
static void run_one(struct world *world, const char *queue, const char *body)
{
    struct taken taken;
    world_hold(world, queue, 300, 1, &taken);
    EXPECT(world, strcmp(taken.body, body) == 0);
    world_delete(world, queue, taken.handle);
}

/* --- moving ------------------------------------------------------------------------------------------------------- */

static void those_that_failed_for_a_reason_go_back(struct world *world)
{
    make_queues(world);
    make_dead_letters(world, 6, NULL);
    (void)move(world, ",'Reason':'timeout'");
    settle(world);
    EXPECT(world, is_completed(world, "dead") && world_count_messages(world, "dead") == 3);
    EXPECT(world, strcmp(answer_text(newest_task(world, "dead"), "Kind"), "move") == 0);
    EXPECT(world, answer_number(newest_task(world, "dead"), "Refused") == 0);
    EXPECT(world, world_count_messages(world, "a") == 2 && world_count_messages(world, "b") == 1);
    run_one(world, "a", "1");
    run_one(world, "b", "3");
    run_one(world, "a", "5");
    run_one(world, "dead", "0");
    run_one(world, "dead", "2");
    run_one(world, "dead", "4");
}

static void a_filter_of_times_takes_what_was_sent_between_them(struct world *world)
{
    char more[80];
    uint64_t sent_at[4];
    make_queues(world);
    for (unsigned i = 0; i < ARRAY_LENGTH(sent_at); i++) {
        char body[16];
        snprintf(body, sizeof(body), "%u", i);
        world_pass_time(world, 1000000);
        sent_at[i] = world->now_ms;
        put(world, "a", body, "", NULL);
        fail_next(world, "a", "no", NULL);
    }
    snprintf(more, sizeof(more), ",'SentAfter':%.3f,'SentBefore':%.3f", (double)sent_at[1] / 1000 - 1,
             (double)sent_at[3] / 1000 - 1);
    (void)move(world, more);
    settle(world);
    EXPECT(world, is_completed(world, "dead"));
    run_one(world, "a", "1");
    run_one(world, "a", "2");
    run_one(world, "dead", "0");
    run_one(world, "dead", "3");
}

static void those_of_some_ids_go_back_and_others_are_refused(struct world *world)
{
    char ids[4][WORLD_ID_SIZE], alive[WORLD_ID_SIZE], more[300];
    struct taken held;
    make_queues(world);
    make_dead_letters(world, 4, ids);
    put(world, "c", "alive", "", alive);
    world_hold(world, "dead", 3600, 1, &held);
    EXPECT(world, strcmp(held.id, ids[0]) == 0);
    snprintf(more, sizeof(more), ",'MessageIds':['%s','%s','%s','%s','%s']", ids[2], alive, ids[0], ids[1], ids[1]);
    const bool is_repeat = move(world, more);
    settle(world);
    EXPECT(world, is_completed(world, "dead") && world_count_messages(world, "dead") == 2);
    EXPECT(world, answer_number(newest_task(world, "dead"), "MessageIdCount") == 4);
    EXPECT(world, is_repeat || answer_number(newest_task(world, "dead"), "Refused") == 2);
    EXPECT(world, is_repeat || answer_number(newest_task(world, "dead"), "ApproximateNumberOfMessagesMoved") == 2);
    EXPECT(world, strcmp(refusal_of(world, "dead", ids[0]), "in-flight") == 0);
    EXPECT(world, strcmp(refusal_of(world, "dead", alive), "not-in-queue") == 0);
    run_one(world, "a", "1");
    run_one(world, "b", "2");
    world_delete(world, "dead", held.handle);
    run_one(world, "dead", "3");
}

/* Each is moved once, whatever dies in between; what is not meant stays. */
static void a_selection_goes_on_where_it_was(struct world *world)
{
    enum { COUNT = 12 };
    struct taken taken[COUNT / 2];
    bool is_seen[COUNT] = {false};
    make_queues(world);
    make_dead_letters(world, COUNT, NULL);
    (void)move(world, ",'Reason':'timeout','MaxNumberOfMessagesPerSecond':4,'DestinationArn':'" ARN("c") "'");
    for (unsigned i = 0; i < COUNT && !is_completed(world, "dead"); i++) {
        world_pass_time(world, 300);
        world_kill(world);
    }
    EXPECT(world, is_completed(world, "dead") && world_count_messages(world, "dead") == COUNT / 2);
    EXPECT(world, world_count_messages(world, "c") == COUNT / 2);
    world_hold(world, "c", 300, COUNT / 2, taken);
    for (unsigned i = 0; i < COUNT / 2; i++) {
        const int body = atoi(taken[i].body);
        EXPECT(world, body % 2 == 1 && !is_seen[body]);
        is_seen[body] = true;
    }
}

/* It was refused once; the task does not come back to it, also not after a restart. */
static void what_was_refused_is_not_tried_again(struct world *world)
{
    char ids[3][WORLD_ID_SIZE];
    struct taken held;
    make_queues(world);
    make_dead_letters(world, 3, ids);
    world_hold(world, "dead", 3600, 1, &held);
    const bool is_repeat = move(world, ",'SentAfter':1,'MaxNumberOfMessagesPerSecond':1");
    settle(world);
    struct answer answer = world_call(world, "ChangeMessageVisibility",
                                      "{'QueueUrl':'dead','ReceiptHandle':'%s','VisibilityTimeout':0}", held.handle);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    world_kill(world);
    world_pass_time(world, 5000);
    EXPECT(world, is_completed(world, "dead"));
    EXPECT(world, is_repeat || strcmp(refusal_of(world, "dead", ids[0]), "in-flight") == 0);
    EXPECT(world, is_repeat || world_count_messages(world, "dead") == 1);
}

/* A message that fails again has another number, and is not met twice. */
static void what_fails_again_is_not_moved_in_circles(struct world *world)
{
    make_queues(world);
    make_dead_letters(world, 2, NULL);
    const bool is_repeat = move(world, ",'SentAfter':1,'MaxNumberOfMessagesPerSecond':1");
    settle(world);
    fail_next(world, "a", "again", NULL);
    world_pass_time(world, 10000);
    EXPECT(world, is_completed(world, "dead"));
    EXPECT(world, is_repeat || (world_count_messages(world, "dead") == 1 && world_count_messages(world, "a") == 1));
}

static void what_has_no_queue_to_go_to_stays_and_the_task_goes_on(struct world *world)
{
    char by_hand[WORLD_ID_SIZE], ids[4][WORLD_ID_SIZE];
    make_queues(world);
    put(world, "dead", "by-hand", "", by_hand);
    make_dead_letters(world, 4, ids);
    struct answer deleted = world_call(world, "DeleteQueue", "{'QueueUrl':'a'}");
    EXPECT(world, deleted.error == NULL || deleted.is_repeat);
    (void)move(world, ",'SentAfter':1");
    settle(world);
    EXPECT(world, is_completed(world, "dead"));
    EXPECT(world, strcmp(refusal_of(world, "dead", by_hand), "came-from-nowhere") == 0);
    EXPECT(world, strcmp(refusal_of(world, "dead", ids[0]), "no-such-queue") == 0);
    EXPECT(world, world_count_messages(world, "b") == 2 && world_count_messages(world, "dead") == 3);
}

static void a_selection_fails_when_its_destination_is_gone(struct world *world)
{
    make_queues(world);
    make_dead_letters(world, 3, NULL);
    (void)move(world, ",'SentAfter':1,'MaxNumberOfMessagesPerSecond':1,'DestinationArn':'" ARN("c") "'");
    settle(world);
    struct answer deleted = world_call(world, "DeleteQueue", "{'QueueUrl':'c'}");
    EXPECT(world, deleted.error == NULL || deleted.is_repeat);
    world_pass_time(world, 5000);
    EXPECT(world, strcmp(answer_text(newest_task(world, "dead"), "Status"), "FAILED") == 0);
}

static void so_many_are_moved_at_most(struct world *world)
{
    make_queues(world);
    make_dead_letters(world, 6, NULL);
    const bool is_repeat = move(world, ",'MaxMessages':2"); /* of all, without a filter */
    settle(world);
    EXPECT(world, is_completed(world, "dead") && (is_repeat || world_count_messages(world, "dead") == 4));
    EXPECT(world, !answer_has(newest_task(world, "dead"), "Kind"));
    const bool is_other = move(world, ",'MaxMessages':1,'Reason':'timeout'");
    settle(world);
    EXPECT(world, is_completed(world, "dead"));
    EXPECT(world, is_repeat || is_other || world_count_messages(world, "dead") == 3);
    EXPECT(world, answer_number(newest_task(world, "dead"), "ApproximateNumberOfMessagesToMove") <= 1);
}

/* --- deleting ----------------------------------------------------------------------------------------------------- */

/* As by a purge: its unit has failed, and what waits for it hears of that. */
static void what_is_deleted_has_failed(struct world *world)
{
    char first[WORLD_ID_SIZE], more[300];
    make_queues(world);
    struct answer answer = world_call(world, "Tally.CreateBatch",
                                      "{'BatchId':'b','Total':2,'OnComplete':{'QueueUrl':'c','MessageBody':'over'}}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    put(world, "q", "one", ",'MessageGroupId':'g'" UNIT("b"), first);
    put(world, "q", "two", ",'MessageGroupId':'g','DelaySeconds':900" UNIT("b"), NULL);
    put(world, "q", "three", ",'MessageGroupId':'h'", NULL);
    snprintf(more, sizeof(more), AFTER("run"), first);
    put(world, "a", "afterwards", more, NULL);
    snprintf(more, sizeof(more), AFTER("cancel"), first);
    put(world, "a", "never", more, NULL);
    answer = world_call(world, "Tally.DeleteMessages", "{'QueueUrl':'q','MessageGroupId':'g'}");
    EXPECT(world, answer.is_repeat || answer.error == NULL);
    settle(world);
    EXPECT(world, is_completed(world, "q") && world_count_messages(world, "q") == 1);
    EXPECT(world, strcmp(answer_text(newest_task(world, "q"), "Kind"), "delete") == 0);
    answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, answer_number(answer, "Failed") == 2 && strcmp(answer_text(answer, "Status"), "failed") == 0);
    run_one(world, "c", "over");
    run_one(world, "a", "afterwards");
    EXPECT(world, world_count_messages(world, "a") == 0);
    run_one(world, "q", "three");
}

static void a_message_in_flight_is_not_deleted(struct world *world)
{
    char ids[3][WORLD_ID_SIZE];
    struct taken held;
    make_queues(world);
    make_dead_letters(world, 3, ids);
    world_hold(world, "dead", 3600, 1, &held);
    (void)delete_some(world, ",'SentAfter':1");
    settle(world);
    EXPECT(world, is_completed(world, "dead") && world_count_messages(world, "dead") == 1);
    EXPECT(world, strcmp(refusal_of(world, "dead", ids[0]), "in-flight") == 0);
    world_delete(world, "dead", held.handle);
}

static void deleting_keeps_to_its_rate_until_it_is_cancelled(struct world *world)
{
    make_queues(world);
    make_dead_letters(world, 6, NULL);
    const bool is_repeat = delete_some(world, ",'SentAfter':1,'MaxNumberOfMessagesPerSecond':1");
    settle(world);
    const bool is_exact = !is_repeat && world->options.way != WORLD_STOPS; /* else time may pass in between */
    EXPECT(world, !is_exact || world_count_messages(world, "dead") == 5);
    world_kill(world);
    world_pass_time(world, 1100);
    EXPECT(world, !is_exact || world_count_messages(world, "dead") == 4);
    char handle[400];
    snprintf(handle, sizeof(handle), "%s", answer_text(newest_task(world, "dead"), "TaskHandle"));
    struct answer answer = world_call(world, "CancelMessageMoveTask", "{'TaskHandle':'%s'}", handle);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    const uint64_t left = world_count_messages(world, "dead");
    world_pass_time(world, 5000);
    EXPECT(world, world_count_messages(world, "dead") == left && (!is_exact || left == 4));
    EXPECT(world, strcmp(answer_text(newest_task(world, "dead"), "Status"), "CANCELLED") == 0);
}

/* A group that is held for its head goes on without it. */
static void a_group_goes_on_when_its_held_head_is_deleted(struct world *world)
{
    char head[WORLD_ID_SIZE], next[WORLD_ID_SIZE];
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800','Tally.OnGroupFailure':'hold'");
    put(world, "line.fifo", "1", ",'MessageGroupId':'g'", head);
    put(world, "line.fifo", "2", ",'MessageGroupId':'g'", next);
    fail_next(world, "line.fifo", "bad", NULL);
    struct taken taken;
    EXPECT(world, world_take(world, "line.fifo", 30, 1, &taken) == 0);
    struct answer answer =
        world_call(world, "Tally.DeleteMessages", "{'QueueUrl':'line.fifo','MessageIds':['%s']}", head);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    settle(world);
    run_one(world, "line.fifo", "2");
}

static void a_group_is_moved_from_its_line_in_its_order(struct world *world)
{
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800'," POLICY("dead.fifo"));
    static const char *const groups[] = {",'MessageGroupId':'g'", ",'MessageGroupId':'h'"};
    for (unsigned i = 0; i < 6; i++) {
        char body[16];
        snprintf(body, sizeof(body), "%u", i);
        put(world, "line.fifo", body, groups[i % 2], NULL);
        fail_next(world, "line.fifo", "no", NULL);
    }
    struct answer answer =
        world_call(world, "StartMessageMoveTask", "{'SourceArn':'" ARN("dead.fifo") "','MessageGroupId':'h'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    settle(world);
    EXPECT(world, is_completed(world, "dead.fifo") && world_count_messages(world, "dead.fifo") == 3);
    run_one(world, "line.fifo", "1");
    run_one(world, "line.fifo", "3");
    run_one(world, "line.fifo", "5");
}

/* --- dry runs ----------------------------------------------------------------------------------------------------- */

/* Asks; the state and the log are what they were. */
static struct answer ask(struct world *world, const char *action, const char *body)
{
    struct buffer before, after;
    buffer_init(&before);
    buffer_init(&after);
    world_encode(world_core(world), &before);
    const uint64_t end = namespace_end(world->ns);
    struct answer answer = world_call(world, action, "%s", body);
    world_encode(world_core(world), &after);
    EXPECT(world, bytes_equal(buffer_bytes(&before), buffer_bytes(&after)) && namespace_end(world->ns) == end);
    EXPECT(world, answer.error == NULL && answer.status == 200);
    buffer_deinit(&before);
    buffer_deinit(&after);
    return answer;
}

/* "Member number Member number …" */
static void expect_numbers(struct world *world, struct answer answer, const char *expected)
{
    char name[40];
    unsigned long long number;
    int size;
    for (; sscanf(expected, " %39s %llu%n", name, &number, &size) == 2; expected += size)
        if (!answer_has(answer, name) || answer_number(answer, name) != number) {
            print_error("%s: %llu, not %llu\n", name, (unsigned long long)answer_number(answer, name), number);
            EXPECT(world, false);
        }
}

static struct world *open_world(void)
{
    return world_create(&(struct world_options){.seed = 1});
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static void a_dry_purge_says_what_would_end(void **state)
{
    (void)state;
    struct world *world = open_world();
    char first[WORLD_ID_SIZE], more[300];
    struct taken taken;
    make_queues(world);
    world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':2}");
    put(world, "q", "one", UNIT("b"), first);
    put(world, "q", "two", ",'MessageGroupId':'g'" UNIT("b"), NULL);
    put(world, "q", "three", "", NULL);
    snprintf(more, sizeof(more), AFTER("hold"), first);
    put(world, "a", "afterwards", more, NULL);
    put(world, "a", "later", more, NULL);
    EXPECT(world, world_take(world, "q", 300, 1, &taken) == 1);
    static const char *const actions[] = {"PurgeQueue", "DeleteQueue"};
    for (unsigned i = 0; i < ARRAY_LENGTH(actions); i++) {
        struct answer answer = ask(world, actions[i], "{'QueueUrl':'q','DryRun':true}");
        expect_numbers(world, answer, "Messages 3 InFlight 1 Units 2 Batches 1 Dependents 2 Groups 1");
        EXPECT(world, answer_is_true(answer, "IsComplete"));
    }
    EXPECT(world, world_call(world, "PurgeQueue", "{'QueueUrl':'q'}").root == NULL); /* its reply has no body */
    settle(world);
    expect_numbers(world, world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}"), "Failed 2");
    expect_numbers(world, ask(world, "PurgeQueue", "{'QueueUrl':'q','DryRun':true}"),
                   "Messages 0 InFlight 0 Units 0 Batches 0 Dependents 0 Groups 0");
    close_world(world);
}

static void a_dry_run_that_is_spelled_wrongly_or_twice_ends_nothing(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const char *const members[] = {
        "'dryRun':true", "'DRYRUN':true", "'DryRun':false,'DryRun':true", "'DryRun':true,'dryrun':false",
        "'DryRun':1",    "'DryRun':'yes'"};
    make_queues(world);
    put(world, "q", "one", "", NULL);
    for (unsigned i = 0; i < ARRAY_LENGTH(members); i++)
        EXPECT(world, world_call(world, "PurgeQueue", "{'QueueUrl':'q',%s}", members[i]).status == 400);
    expect_numbers(world, ask(world, "PurgeQueue", "{'QueueUrl':'q','DryRun':true}"), "Messages 1");
    close_world(world);
}

static void a_dry_move_says_where_messages_would_go(void **state)
{
    (void)state;
    struct world *world = open_world();
    char ids[6][WORLD_ID_SIZE], unit[WORLD_ID_SIZE], more[300];
    struct taken held;
    make_queues(world);
    world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':1}");
    make_dead_letters(world, 6, ids);
    put(world, "a", "unit", UNIT("b"), NULL);
    fail_next(world, "a", "timeout: unit", unit);
    snprintf(more, sizeof(more), AFTER("hold"), unit);
    put(world, "c", "held", more, NULL);
    settle(world);
    world_hold(world, "dead", 3600, 1, &held);
    struct answer answer =
        ask(world, "StartMessageMoveTask", "{'SourceArn':'" ARN("dead") "','Reason':'timeout','DryRun':true}");
    expect_numbers(world, answer, "Messages 4 Batches 1 Dependents 1 HeldGroups 0 Refused 0");
    yyjson_val *queues = yyjson_obj_get(answer.root, "Queues");
    EXPECT(world, yyjson_arr_size(queues) == 2);
    EXPECT(world, yyjson_get_uint(yyjson_obj_get(yyjson_arr_get(queues, 0), "Messages")) == 3);
    answer = ask(world, "StartMessageMoveTask", "{'SourceArn':'" ARN("dead") "','DryRun':true}");
    expect_numbers(world, answer, "Messages 6 Refused 1");
    answer = ask(world, "StartMessageMoveTask",
                 "{'SourceArn':'" ARN("dead") "','DestinationArn':'" ARN("c") "','MaxMessages':2,'DryRun':true}");
    expect_numbers(world, answer, "Messages 2");
    answer = ask(world, "Tally.DeleteMessages", "{'QueueUrl':'dead','SentAfter':1,'DryRun':true}");
    expect_numbers(world, answer, "Messages 6 Units 0 Batches 0 Dependents 0 Groups 0 Refused 1");
    EXPECT(world, strcmp(yyjson_get_str(
                             yyjson_obj_get(yyjson_arr_get_first(yyjson_obj_get(answer.root, "Refusals")), "Reason")),
                         "in-flight") == 0);
    /* What was said is what happens. */
    (void)move(world, ",'Reason':'timeout'");
    settle(world);
    expect_numbers(world, newest_task(world, "dead"),
                   "ApproximateNumberOfMessagesMoved 4 ApproximateNumberOfMessagesToMove 4 Refused 0 Looked 7");
    expect_numbers(world, world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}"), "Remaining 1");
    close_world(world);
}

static struct answer ask_release(struct world *world, const char *queue, const char *action)
{
    char body[200];
    snprintf(body, sizeof(body), "{'QueueUrl':'%s','MessageGroupId':'g','Action':'%s','DryRun':true}", queue, action);
    return ask(world, "Tally.ReleaseGroup", body);
}

static void a_dry_release_says_what_would_end(void **state)
{
    (void)state;
    struct world *world = open_world();
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "line.fifo", "'FifoQueue':'true','Tally.OnGroupFailure':'hold'," POLICY("dead.fifo"));
    world_create_queue(world, "loose.fifo", "'FifoQueue':'true','Tally.OnGroupFailure':'hold'");
    world_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    static const char *const queues[] = {"line.fifo", "loose.fifo"};
    for (unsigned i = 0; i < ARRAY_LENGTH(queues); i++) {
        put(world, queues[i], "1", ",'MessageGroupId':'g'" UNIT("b"), NULL);
        put(world, queues[i], "2", ",'MessageGroupId':'g'" UNIT("b"), NULL);
        put(world, queues[i], "3", ",'MessageGroupId':'g'", NULL);
        struct answer answer =
            world_call(world, "Tally.ReleaseGroup",
                       "{'QueueUrl':'%s','MessageGroupId':'g','Action':'skip','DryRun':true}", queues[i]);
        EXPECT(world, answer_fails(answer, "GroupNotHeld"));
        fail_next(world, queues[i], "bad", NULL);
        expect_numbers(world, ask_release(world, queues[i], "retry"), "Messages 0 Units 0");
    }
    expect_numbers(world, ask_release(world, "line.fifo", "skip"), "Messages 0 DeadLettered 1 Units 1 Batches 1");
    expect_numbers(world, ask_release(world, "line.fifo", "cancel-rest"), "Messages 2 DeadLettered 1 Units 2 Groups 1");
    expect_numbers(world, ask_release(world, "line.fifo", "skip"), "Groups 0");
    expect_numbers(world, ask_release(world, "loose.fifo", "skip"), "Messages 1 Units 1 Groups 0");
    expect_numbers(world, ask_release(world, "loose.fifo", "cancel-rest"), "Messages 3 Units 2 Groups 1");
    world_call(world, "Tally.ReleaseGroup", "{'QueueUrl':'line.fifo','MessageGroupId':'g','Action':'cancel-rest'}");
    settle(world);
    EXPECT(world, world_count_messages(world, "line.fifo") == 0 && world_count_messages(world, "dead.fifo") == 1);
    close_world(world);
}

static void a_dry_run_counts_a_group_only_with_its_last_message(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE], body[200];
    make_queues(world);
    world_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    put(world, "q", "one", ",'MessageGroupId':'g'" UNIT("b"), id);
    put(world, "q", "two", ",'MessageGroupId':'g'", NULL);
    snprintf(body, sizeof(body), "{'QueueUrl':'q','MessageIds':['%s'],'DryRun':true}", id);
    expect_numbers(world, ask(world, "Tally.DeleteMessages", body), "Messages 1 Units 1 Groups 0");
    expect_numbers(world, ask(world, "Tally.DeleteMessages", "{'QueueUrl':'q','MessageGroupId':'g','DryRun':true}"),
                   "Messages 2 Groups 1");
    expect_numbers(world, ask(world, "Tally.CancelBatch", "{'BatchId':'b','DryRun':true}"), "Messages 1 Groups 0");
    close_world(world);
}

static void a_dry_cancel_says_what_would_end(void **state)
{
    (void)state;
    struct world *world = open_world();
    make_queues(world);
    world_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x','y']}");
    world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'x'}]}");
    put(world, "q", "one", UNIT("b"), NULL);
    put(world, "a", "then", ",'MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'batch:b'}}", NULL);
    struct answer answer = ask(world, "Tally.CancelBatch", "{'BatchId':'b','DryRun':true}");
    expect_numbers(world, answer, "Messages 1 InFlight 0 Units 2 Dependents 1");
    EXPECT(world, answer_is_true(answer, "IsComplete") && !answer_has(answer, "State"));
    world_call(world, "Tally.CreateBatch", "{'BatchId':'xor','Tracking':'xor'}");
    put(world, "q", "unit", UNIT("xor"), NULL);
    answer = ask(world, "Tally.CancelBatch", "{'BatchId':'xor','DryRun':true}");
    expect_numbers(world, answer, "Messages 0 Units 1");
    EXPECT(world, !answer_is_true(answer, "IsComplete"));
    expect_numbers(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}"), "Cancelled 2");
    expect_numbers(world, ask(world, "Tally.CancelBatch", "{'BatchId':'b','DryRun':true}"), "Messages 0 Units 0");
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(those_that_failed_for_a_reason_go_back),
        SCENARIO(a_filter_of_times_takes_what_was_sent_between_them),
        SCENARIO(those_of_some_ids_go_back_and_others_are_refused),
        SCENARIO(a_selection_goes_on_where_it_was),
        SCENARIO(what_was_refused_is_not_tried_again),
        SCENARIO(what_fails_again_is_not_moved_in_circles),
        SCENARIO(what_has_no_queue_to_go_to_stays_and_the_task_goes_on),
        SCENARIO(a_selection_fails_when_its_destination_is_gone),
        SCENARIO(so_many_are_moved_at_most),
        SCENARIO(what_is_deleted_has_failed),
        SCENARIO(a_message_in_flight_is_not_deleted),
        SCENARIO(deleting_keeps_to_its_rate_until_it_is_cancelled),
        SCENARIO(a_group_goes_on_when_its_held_head_is_deleted),
        SCENARIO(a_group_is_moved_from_its_line_in_its_order),
        cmocka_unit_test(a_dry_purge_says_what_would_end),
        cmocka_unit_test(a_dry_run_that_is_spelled_wrongly_or_twice_ends_nothing),
        cmocka_unit_test(a_dry_move_says_where_messages_would_go),
        cmocka_unit_test(a_dry_release_says_what_would_end),
        cmocka_unit_test(a_dry_run_counts_a_group_only_with_its_last_message),
        cmocka_unit_test(a_dry_cancel_says_what_would_end),
    };
    return cmocka_run_group_tests_name("scenarios: tasks for some messages", tests, NULL, NULL);
}
