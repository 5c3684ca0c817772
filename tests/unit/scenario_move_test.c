/* Scenarios Q46 to Q49: dead-letter queues, and move tasks that empty them. What a redrive does to batches is T16, in
 * scenario_batch_failure_test.c. */
#include "scenario.h"

#define ARN(queue) "arn:aws:sqs:us-east-1:000000000000:" queue
#define POLICY(queue, count)                                                                                           \
    "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'" ARN(queue) "\\',\\'maxReceiveCount\\':" count "}'"

/* --- a small vocabulary ------------------------------------------------------------------------------------------- */

/* "a" and "b", whose dead letters go to "dead"; "c" beside them. */
static void make_queues(struct world *world)
{
    world_create_queue(world, "dead", "");
    world_create_queue(world, "a", "'Tally.DeduplicationWindow':'604800'," POLICY("dead", "100"));
    world_create_queue(world, "b", "'Tally.DeduplicationWindow':'604800'," POLICY("dead", "100"));
    world_create_queue(world, "c", "");
}

/* "line.fifo", whose dead letters go to "dead.fifo". Ids stay known for longer than a scenario lasts. */
static void make_lines(struct world *world)
{
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800'," POLICY("dead.fifo", "100"));
}

/* Sends; the body is the deduplication id, so that a repeat does no harm. */
static void put(struct world *world, const char *queue, const char *body, const char *more, char id[WORLD_ID_SIZE])
{
    bool is_fifo = strstr(queue, ".fifo") != NULL;
    struct answer answer =
        world_call(world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'%s','MessageDeduplicationId':'%s-%s'%s%s}",
                   queue, body, queue[0] == 'd' ? "d" : "q", body, is_fifo ? ",'MessageGroupId':'g'" : "", more);
    EXPECT(world, answer.error == NULL);
    if (id != NULL)
        snprintf(id, WORLD_ID_SIZE, "%s", answer_text(answer, "MessageId"));
}

/* Sends to a queue that remembers no ids, exactly once. */
static void send(struct world *world, const char *queue, const char *body)
{
    EXPECT(world, world_send(world, queue, NULL, body).error == NULL);
}

/* The next message of the queue is dead-lettered. */
static void fail_next(struct world *world, const char *queue)
{
    struct taken taken;
    world_hold(world, queue, 300, 1, &taken);
    struct answer answer = world_call(world, "Tally.FailMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s','Final':true}",
                                      queue, taken.handle);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
}

static void send_and_fail(struct world *world, const char *queue, const char *body)
{
    send(world, queue, body);
    fail_next(world, queue);
}

/* Starts a task; a repeat may find it running, or over. */
static void start_from(struct world *world, const char *source, const char *more)
{
    struct answer answer = world_call(world, "StartMessageMoveTask", "{'SourceArn':'" ARN("%s") "'%s}", source, more);
    EXPECT(world, answer.is_repeat || (answer.error == NULL && answer_has(answer, "TaskHandle")));
}

static void start(struct world *world, const char *more)
{
    start_from(world, "dead", more);
}

/* The newest task of "dead". */
static struct answer newest_task(struct world *world)
{
    struct answer answer = world_call(world, "ListMessageMoveTasks", "{'SourceArn':'" ARN("dead") "'}");
    EXPECT(world, answer.error == NULL);
    answer.root = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results"));
    EXPECT(world, answer.root != NULL);
    return answer;
}

static bool is_status(struct world *world, const char *status)
{
    return strcmp(answer_text(newest_task(world), "Status"), status) == 0;
}

/* Time for what falls due: an unlimited task moves what there is. */
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

static bool gives_nothing(struct world *world, const char *queue)
{
    struct taken taken;
    return world_take(world, queue, 1, 1, &taken) == 0;
}

/* --- Q46 to Q48 --------------------------------------------------------------------------------------------------- */

/* Receives and gives back until the queue gives nothing more; returns how often it was received. */
static unsigned wear_out(struct world *world, const char *queue, struct taken *taken)
{
    unsigned count = 0;
    while (world_take(world, queue, 30, 1, taken) == 1) {
        count++;
        (void)world_call(world, "ChangeMessageVisibility",
                         "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':0}", queue, taken->handle);
    }
    return count;
}

/* The queue's message is received until it is a dead letter, which it is then. A reply that is lost is an attempt as
 * well. */
static void expect_to_die(struct world *world, const char *queue, const char *dead, unsigned attempts)
{
    struct taken before = {.id = ""}, taken;
    unsigned count = wear_out(world, queue, &before);
    EXPECT(world, count <= attempts && (count == attempts || world->options.way == WORLD_STOPS));
    EXPECT(world, world_count_messages(world, queue) == 0 && world_count_messages(world, dead) == 1);
    world_hold(world, dead, 300, 1, &taken);
    EXPECT(world, taken.receive_count > attempts && strcmp(taken.body, "m") == 0);
    EXPECT(world, count == 0 || (strcmp(taken.id, before.id) == 0 && taken.sent_at_ms == before.sent_at_ms));
    if (strstr(dead, ".fifo") != NULL)
        EXPECT(world, strcmp(taken.deduplication, taken.id) == 0);
    world_delete(world, dead, taken.handle);
}

static void Q46_a_message_out_of_attempts_is_a_dead_letter(struct world *world)
{
    world_create_queue(world, "dead", "");
    world_create_queue(world, "dead.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "one", POLICY("dead", "1"));
    world_create_queue(world, "three", POLICY("dead", "3"));
    world_create_queue(world, "line.fifo",
                       "'FifoQueue':'true','Tally.DeduplicationWindow':'604800'," POLICY("dead.fifo", "3"));
    send(world, "one", "m");
    expect_to_die(world, "one", "dead", 1);
    send(world, "three", "m");
    expect_to_die(world, "three", "dead", 3);
    put(world, "line.fifo", "m", "", NULL);
    expect_to_die(world, "line.fifo", "dead.fifo", 3);
}

static void Q47_without_its_target_a_message_stays_and_is_delivered(struct world *world)
{
    struct taken taken;
    world_create_queue(world, "dead", "");
    world_create_queue(world, "a", POLICY("dead", "1"));
    send(world, "a", "m");
    struct answer answer = world_call(world, "DeleteQueue", "{'QueueUrl':'dead'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    for (unsigned attempt = 0; attempt < 4; attempt++) {
        world_hold(world, "a", 30, 1, &taken);
        world_pass_time(world, 30000);
    }
    run_one(world, "a", "m");
    EXPECT(world, world_count_messages(world, "a") == 0);
}

static void Q48_a_dead_letter_that_was_deleted_does_not_come_back(struct world *world)
{
    make_queues(world);
    send_and_fail(world, "a", "m");
    run_one(world, "dead", "m");
    world_kill(world);
    world_pass_time(world, 600000);
    EXPECT(world, world_count_messages(world, "dead") == 0 && world_count_messages(world, "a") == 0);
}

/* --- Q49 ---------------------------------------------------------------------------------------------------------- */

static void Q49_dead_letters_return_to_the_queues_they_came_from(struct world *world)
{
    struct taken after[2];
    char ids[2][WORLD_ID_SIZE];
    make_queues(world);
    put(world, "a", "a1", "", ids[0]);
    put(world, "b", "b1", "", NULL);
    put(world, "a", "a2", "", ids[1]);
    fail_next(world, "b");
    fail_next(world, "a");
    fail_next(world, "a");
    world_pass_time(world, 60000);
    uint64_t started_at_ms = world->now_ms;
    start(world, "");
    settle(world);
    EXPECT(world, is_status(world, "COMPLETED") && !answer_has(newest_task(world), "TaskHandle"));
    EXPECT(world, !answer_has(newest_task(world), "DestinationArn"));
    EXPECT(world, world_count_messages(world, "dead") == 0 && world_count_messages(world, "b") == 1);
    world_hold(world, "a", 300, 2, after);
    EXPECT(world, strcmp(after[0].body, "a1") == 0 && strcmp(after[1].body, "a2") == 0);
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(world, strcmp(after[i].id, ids[i]) != 0 && after[i].sent_at_ms >= started_at_ms);
        EXPECT(world, after[i].receive_count == 1 || world->options.way != WORLD_PLAIN);
        world_delete(world, "a", after[i].handle);
    }
    EXPECT(world, world_count_messages(world, "a") == 0);
    run_one(world, "b", "b1");
}

static void Q49_a_task_keeps_to_its_rate_until_it_is_cancelled(struct world *world)
{
    char handle[300];
    make_queues(world);
    for (unsigned i = 0; i < 5; i++)
        send_and_fail(world, "a", "m");
    start(world, ",'MaxNumberOfMessagesPerSecond':1");
    settle(world);
    EXPECT(world, is_status(world, "RUNNING"));
    EXPECT(world, answer_number(newest_task(world), "ApproximateNumberOfMessagesMoved") == 1);
    EXPECT(world, answer_number(newest_task(world), "ApproximateNumberOfMessagesToMove") == 5);
    EXPECT(world, answer_number(newest_task(world), "MaxNumberOfMessagesPerSecond") == 1);
    EXPECT(world, answer_fails(world_call(world, "StartMessageMoveTask", "{'SourceArn':'" ARN("dead") "'}"),
                               "InvalidParameterValueException"));
    world_pass_time(world, 1900);
    EXPECT(world, answer_number(newest_task(world), "ApproximateNumberOfMessagesMoved") == 2);
    world_pass_time(world, 200);
    EXPECT(world, world_count_messages(world, "a") == 3 && world_count_messages(world, "dead") == 2);
    snprintf(handle, sizeof(handle), "%s", answer_text(newest_task(world), "TaskHandle"));
    struct answer answer = world_call(world, "CancelMessageMoveTask", "{'TaskHandle':'%s'}", handle);
    EXPECT(world, answer.is_repeat || answer_number(answer, "ApproximateNumberOfMessagesMoved") == 3);
    EXPECT(world, is_status(world, "CANCELLED"));
    world_pass_time(world, 10000);
    EXPECT(world, world_count_messages(world, "a") == 3 && world_count_messages(world, "dead") == 2);
    EXPECT(world, answer_fails(world_call(world, "CancelMessageMoveTask", "{'TaskHandle':'%s'}", handle),
                               "InvalidParameterValueException"));
    start(world, "");
    settle(world);
    EXPECT(world, is_status(world, "COMPLETED") && world_count_messages(world, "a") == 5);
}

static void Q49_a_task_fails_when_its_destination_is_gone(struct world *world)
{
    make_queues(world);
    for (unsigned i = 0; i < 3; i++)
        send_and_fail(world, "a", "m");
    start(world, ",'MaxNumberOfMessagesPerSecond':1,'DestinationArn':'" ARN("c") "'");
    settle(world);
    EXPECT(world, world_count_messages(world, "c") == 1);
    struct answer answer = world_call(world, "DeleteQueue", "{'QueueUrl':'c'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    world_pass_time(world, 2000);
    EXPECT(world, is_status(world, "FAILED") && world_count_messages(world, "dead") == 2);
    EXPECT(world,
           strcmp(answer_text(newest_task(world), "FailureReason"), "AWS.SimpleQueueService.NonExistentQueue") == 0);
    EXPECT(world, strcmp(answer_text(newest_task(world), "DestinationArn"), ARN("c")) == 0);
}

/* Whoever names it by its ARN means the one that is there. */
static void Q49_a_queue_that_was_made_anew_takes_its_dead_letters_back(struct world *world)
{
    make_queues(world);
    send_and_fail(world, "a", "m");
    struct answer answer = world_call(world, "DeleteQueue", "{'QueueUrl':'a'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    start(world, "");
    settle(world);
    EXPECT(world, is_status(world, "FAILED") && world_count_messages(world, "dead") == 1);
    world_create_queue(world, "a", "");
    start(world, "");
    settle(world);
    EXPECT(world, is_status(world, "COMPLETED"));
    run_one(world, "a", "m");
}

static void Q49_what_came_from_nowhere_needs_a_destination(struct world *world)
{
    make_queues(world);
    send_and_fail(world, "a", "m");
    send(world, "dead", "by hand");
    start(world, "");
    settle(world);
    EXPECT(world, is_status(world, "FAILED"));
    EXPECT(world, strcmp(answer_text(newest_task(world), "FailureReason"), "CouldNotDetermineMessageSource") == 0);
    EXPECT(world, world_count_messages(world, "a") == 1 && world_count_messages(world, "dead") == 1);
    start(world, ",'DestinationArn':'" ARN("c") "'");
    settle(world);
    EXPECT(world, is_status(world, "COMPLETED"));
    run_one(world, "c", "by hand");
    run_one(world, "a", "m");
}

/* Each is moved once, whatever dies in between; what is in flight stays. */
static void Q49_a_restart_in_the_middle_loses_and_doubles_nothing(struct world *world)
{
    enum { COUNT = 12 };
    struct taken held, taken[COUNT];
    bool is_seen[COUNT] = {false};
    make_queues(world);
    for (unsigned i = 0; i < COUNT; i++) {
        char body[8];
        snprintf(body, sizeof(body), "%u", i);
        send_and_fail(world, i % 2 == 0 ? "a" : "b", body);
    }
    world_hold(world, "dead", 3600, 1, &held);
    start(world, ",'MaxNumberOfMessagesPerSecond':4,'DestinationArn':'" ARN("c") "'");
    for (unsigned i = 0; i < COUNT && !is_status(world, "COMPLETED"); i++) {
        world_pass_time(world, 300);
        world_kill(world);
    }
    EXPECT(world, is_status(world, "COMPLETED") && world_count_messages(world, "dead") == 1);
    EXPECT(world, world_count_messages(world, "c") == COUNT - 1);
    world_delete(world, "dead", held.handle);
    is_seen[atoi(held.body)] = true;
    world_hold(world, "c", 300, COUNT - 1, taken);
    for (unsigned i = 0; i < COUNT - 1; i++) {
        EXPECT(world, !is_seen[atoi(taken[i].body)]);
        is_seen[atoi(taken[i].body)] = true;
        world_delete(world, "c", taken[i].handle);
    }
    EXPECT(world, world_count_messages(world, "c") == 0 && world_count_messages(world, "dead") == 0);
}

/* A message that fails again comes back to the dead letters, and is not moved in circles. */
static void Q49_a_task_moves_what_was_there_when_it_began(struct world *world)
{
    make_queues(world);
    send_and_fail(world, "a", "m");
    send_and_fail(world, "a", "n");
    start(world, ",'MaxNumberOfMessagesPerSecond':1");
    settle(world);
    fail_next(world, "a");
    world_pass_time(world, 10000);
    EXPECT(world, is_status(world, "COMPLETED"));
    EXPECT(world, world_count_messages(world, "dead") == 1 && world_count_messages(world, "a") == 1);
}

static void Q49_tasks_end_with_their_source_and_the_newest_are_remembered(struct world *world)
{
    make_queues(world);
    for (unsigned i = 0; i < 12; i++) {
        start(world, "");
        settle(world);
    }
    struct answer answer = world_call(world, "ListMessageMoveTasks", "{'SourceArn':'" ARN("dead") "','MaxResults':10}");
    yyjson_val *results = yyjson_obj_get(answer.root, "Results");
    EXPECT(world, yyjson_arr_size(results) == 10);
    for (size_t i = 1; i < 10; i++)
        EXPECT(world, yyjson_get_uint(yyjson_obj_get(yyjson_arr_get(results, i - 1), "StartedTimestamp")) >
                          yyjson_get_uint(yyjson_obj_get(yyjson_arr_get(results, i), "StartedTimestamp")));
    send_and_fail(world, "a", "m");
    send_and_fail(world, "a", "n");
    start(world, ",'MaxNumberOfMessagesPerSecond':1");
    settle(world);
    struct answer deleted = world_call(world, "DeleteQueue", "{'QueueUrl':'dead'}");
    EXPECT(world, deleted.error == NULL || deleted.is_repeat);
    world_pass_time(world, 5000);
    EXPECT(world, answer_fails(world_call(world, "ListMessageMoveTasks", "{'SourceArn':'" ARN("dead") "'}"),
                               "ResourceNotFoundException"));
    EXPECT(world, world_count_messages(world, "a") == 1);
}

/* --- lines and dependencies --------------------------------------------------------------------------------------- */

static void Q49_a_group_is_redriven_in_its_order(struct world *world)
{
    struct taken taken[3];
    char ids[2][WORLD_ID_SIZE];
    make_lines(world);
    put(world, "line.fifo", "1", "", ids[0]);
    put(world, "line.fifo", "2", "", ids[1]);
    put(world, "line.fifo", "3", "", NULL);
    fail_next(world, "line.fifo");
    fail_next(world, "line.fifo");
    start_from(world, "dead.fifo", "");
    settle(world);
    world_hold(world, "line.fifo", 300, 3, taken);
    EXPECT(world, strcmp(taken[0].body, "3") == 0 && strcmp(taken[1].body, "1") == 0);
    EXPECT(world, strcmp(taken[2].body, "2") == 0);
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(world, strcmp(taken[i + 1].id, ids[i]) != 0);
        EXPECT(world, strcmp(taken[i + 1].deduplication, ids[i]) == 0);
    }
    for (unsigned i = 0; i < 3; i++)
        world_delete(world, "line.fifo", taken[i].handle);
    EXPECT(world, world_count_messages(world, "line.fifo") == 0 && world_count_messages(world, "dead.fifo") == 0);
}

/* It waits for the antecedent, and is held if that fails. */
static void put_held(struct world *world, const char *queue, const char *body, const char *antecedent,
                     char id[WORLD_ID_SIZE])
{
    char more[300];
    snprintf(more, sizeof(more),
             ",'MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'message:%s'},"
             "'Tally.AfterFailure':{'DataType':'String','StringValue':'hold'}}",
             antecedent);
    put(world, queue, body, more, id);
}

static void what_is_held_by_a_dead_letter_goes_on_when_its_redrive_succeeds(struct world *world)
{
    char id[WORLD_ID_SIZE];
    make_queues(world);
    world_create_queue(world, "then", "'Tally.DeduplicationWindow':'604800'");
    struct answer answer = world_send(world, "a", NULL, "first");
    struct taken taken;
    world_hold(world, "a", 300, 1, &taken); /* the reply of the send may have been lost */
    snprintf(id, sizeof(id), "%s", taken.id);
    EXPECT(world, answer.error == NULL);
    put_held(world, "then", "second", id, NULL);
    put_held(world, "then", "third", id, NULL);
    answer = world_call(world, "Tally.FailMessage", "{'QueueUrl':'a','ReceiptHandle':'%s','Final':true}", taken.handle);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    settle(world);
    EXPECT(world, gives_nothing(world, "then"));
    for (unsigned round = 0; round < 2; round++) { /* it fails once more: they wait on */
        start(world, "");
        settle(world);
        EXPECT(world, gives_nothing(world, "then"));
        if (round == 0)
            fail_next(world, "a");
    }
    put_held(world, "then", "late", id, NULL); /* by its old name: of one that failed */
    run_one(world, "a", "first");
    settle(world);
    run_one(world, "then", "second");
    run_one(world, "then", "third");
    EXPECT(world, gives_nothing(world, "then") && world_count_messages(world, "then") == 1);
}

/* In one line, where each would wait for the other. */
static void what_waits_for_a_redriven_message_stands_behind_it(struct world *world)
{
    char id[WORLD_ID_SIZE];
    make_lines(world);
    put(world, "line.fifo", "charge", "", id);
    put(world, "line.fifo", "note", "", NULL);
    put_held(world, "line.fifo", "ship", id, NULL);
    put(world, "line.fifo", "thank", "", NULL);
    fail_next(world, "line.fifo");
    settle(world);
    run_one(world, "line.fifo", "note");
    EXPECT(world, gives_nothing(world, "line.fifo"));
    for (unsigned round = 0; round < 2; round++) {
        start_from(world, "dead.fifo", "");
        settle(world);
        if (round == 0)
            fail_next(world, "line.fifo");
    }
    run_one(world, "line.fifo", "charge");
    settle(world);
    run_one(world, "line.fifo", "ship");
    run_one(world, "line.fifo", "thank");
    EXPECT(world, world_count_messages(world, "line.fifo") == 0 && world_count_messages(world, "dead.fifo") == 0);
}

/* What stands in the line waits for it by way of another queue. */
static void what_waits_for_a_redriven_message_by_a_detour_stands_behind_it(struct world *world)
{
    char charge[WORLD_ID_SIZE], pack[WORLD_ID_SIZE];
    make_lines(world);
    world_create_queue(world, "then", "'Tally.DeduplicationWindow':'604800'");
    put(world, "line.fifo", "charge", "", charge);
    put_held(world, "then", "pack", charge, pack);
    put(world, "line.fifo", "note", "", NULL);
    put_held(world, "line.fifo", "ship", pack, NULL);
    fail_next(world, "line.fifo");
    settle(world);
    run_one(world, "line.fifo", "note");
    start_from(world, "dead.fifo", "");
    settle(world);
    run_one(world, "line.fifo", "charge");
    settle(world);
    run_one(world, "then", "pack");
    settle(world);
    run_one(world, "line.fifo", "ship");
    EXPECT(world, world_count_messages(world, "line.fifo") == 0 && world_count_messages(world, "dead.fifo") == 0);
}

/* `after` waits for the batch in the line that its dead unit comes back to. */
static void what_waits_for_the_batch_of_a_redriven_message_stands_behind_it(struct world *world)
{
    make_lines(world);
    struct answer answer = world_call(world, "Tally.CreateBatch", "{'BatchId':'b','Total':1}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    put(world, "line.fifo", "charge", ",'MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'b'}}",
        NULL);
    put(world, "line.fifo", "ship",
        ",'MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'batch:b'},"
        "'Tally.AfterFailure':{'DataType':'String','StringValue':'hold'}}",
        NULL);
    fail_next(world, "line.fifo");
    settle(world);
    EXPECT(world, gives_nothing(world, "line.fifo"));
    start_from(world, "dead.fifo", "");
    settle(world);
    run_one(world, "line.fifo", "charge");
    settle(world);
    run_one(world, "line.fifo", "ship");
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void expect_refused(struct world *world, const char *action, const char *body, const char *error,
                           const char *text)
{
    struct answer answer = world_call(world, action, "%s", body);
    if (!answer_fails(answer, error) || strcmp(answer_text(answer, "message"), text) != 0)
        print_error("%s %s: %s: %s\n", action, body, answer.error, answer_text(answer, "message"));
    EXPECT(world, answer_fails(answer, error) && strcmp(answer_text(answer, "message"), text) == 0);
}

static void a_task_that_can_not_be_is_refused_in_the_words_of_sqs(struct world *world)
{
    static const char invalid[] = "InvalidParameterValueException", missing[] = "ResourceNotFoundException";
    make_queues(world);
    make_lines(world);
    const char *start_task = "StartMessageMoveTask", *cancel = "CancelMessageMoveTask", *list = "ListMessageMoveTasks";
    expect_refused(world, start_task, "{}", "MissingRequiredParameterException",
                   "The request must contain the parameter SourceArn.");
    expect_refused(world, start_task, "{'SourceArn':'dead'}", invalid,
                   "You must use this format to specify the SourceArn: "
                   "arn:<partition>:<service>:<region>:<account-id>:<resource-id>");
    expect_refused(world, start_task, "{'SourceArn':'" ARN("nowhere") "'}", missing,
                   "The resource that you specified for the SourceArn parameter doesn't exist.");
    expect_refused(world, start_task, "{'SourceArn':'arn:aws:sqs:us-east-1:111111111111:dead'}", missing,
                   "The resource that you specified for the SourceArn parameter doesn't exist.");
    expect_refused(world, start_task, "{'SourceArn':'" ARN("a") "','DestinationArn':'x'}", invalid,
                   "Source queue must be configured as a Dead Letter Queue.");
    expect_refused(world, start_task, "{'SourceArn':'" ARN("dead") "','DestinationArn':'" ARN("nowhere") "'}", missing,
                   "The resource that you specified for the DestinationArn parameter doesn't exist.");
    expect_refused(world, start_task, "{'SourceArn':'" ARN("dead") "','DestinationArn':'" ARN("dead") "'}", invalid,
                   "Source queue arn and destination queue arn cannot be the same.");
    expect_refused(world, start_task, "{'SourceArn':'" ARN("dead") "','DestinationArn':'" ARN("line.fifo") "'}",
                   invalid, "The source queue and destination queue must be of the same queue type.");
    expect_refused(
        world, start_task, "{'SourceArn':'" ARN("dead") "','MaxNumberOfMessagesPerSecond':501}", invalid,
        "Value 501 for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: Must be between 1 and 500, "
        "if provided.");
    expect_refused(world, cancel, "{'TaskHandle':'garbage'}", invalid, "Value for parameter TaskHandle is invalid.");
    expect_refused(world, cancel,
                   "{'TaskHandle':'eyJ0YXNrSWQiOiJ4Iiwic291cmNlQXJuIjoiYXJuOmF3czpzcXM6cjowMDAwMDAwMDAwMDA6ZGVhZCJ9'}",
                   missing, "Task does not exist.");
    expect_refused(
        world, list, "{'SourceArn':'" ARN("dead") "','MaxResults':11}", invalid,
        "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 10.");
    struct answer answer =
        world_call(world, "ListMessageMoveTasks", "{'SourceArn':'arn:aws:sqs:eu-west-1:000000000000:dead'}");
    EXPECT(world, answer.error == NULL && !answer_has(answer, "Results"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(Q46_a_message_out_of_attempts_is_a_dead_letter),
        SCENARIO(Q47_without_its_target_a_message_stays_and_is_delivered),
        SCENARIO(Q48_a_dead_letter_that_was_deleted_does_not_come_back),
        SCENARIO(Q49_dead_letters_return_to_the_queues_they_came_from),
        SCENARIO(Q49_a_task_keeps_to_its_rate_until_it_is_cancelled),
        SCENARIO(Q49_a_task_fails_when_its_destination_is_gone),
        SCENARIO(Q49_a_queue_that_was_made_anew_takes_its_dead_letters_back),
        SCENARIO(Q49_what_came_from_nowhere_needs_a_destination),
        SCENARIO(Q49_a_restart_in_the_middle_loses_and_doubles_nothing),
        SCENARIO(Q49_a_task_moves_what_was_there_when_it_began),
        SCENARIO(Q49_tasks_end_with_their_source_and_the_newest_are_remembered),
        SCENARIO(Q49_a_group_is_redriven_in_its_order),
        SCENARIO(what_is_held_by_a_dead_letter_goes_on_when_its_redrive_succeeds),
        SCENARIO(what_waits_for_a_redriven_message_stands_behind_it),
        SCENARIO(what_waits_for_a_redriven_message_by_a_detour_stands_behind_it),
        SCENARIO(what_waits_for_the_batch_of_a_redriven_message_stands_behind_it),
        SCENARIO(a_task_that_can_not_be_is_refused_in_the_words_of_sqs),
    };
    return cmocka_run_group_tests_name("scenarios: dead letters and move tasks", tests, NULL, NULL);
}
