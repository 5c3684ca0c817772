/* Scenarios T25, T52 to T57 and T69: what was accepted once is not accepted again, whatever becomes of the message, of
 * the server and of the reply. And Commit: consume, count and produce in one step. */
#include "scenario.h"

/* --- tools -------------------------------------------------------------------------------------------------------- */

static struct answer send_id(struct world *world, const char *queue, const char *id, const char *more)
{
    return world_call(world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'body','MessageDeduplicationId':'%s'%s}",
                      queue, id, more);
}

static bool is_duplicate(struct answer answer)
{
    return answer.error == NULL && answer_is_true(answer, "Duplicate");
}

/* Accepted now, or by the try before whose reply was lost. */
static bool is_accepted(struct answer answer)
{
    return answer.error == NULL && (answer.is_repeat || !answer_is_true(answer, "Duplicate"));
}

static bool has_same_id(struct answer a, struct answer b)
{
    const char *id = answer_text(a, "MessageId");
    return strlen(id) == 36 && strcmp(id, answer_text(b, "MessageId")) == 0;
}

static struct answer produce(struct world *world, const char *producer, const char *sequence)
{
    return world_call(world, "SendMessage",
                      "{'QueueUrl':'q','MessageBody':'%s','MessageAttributes':{"
                      "'Tally.Producer':{'DataType':'String','StringValue':'%s'},"
                      "'Tally.Sequence':{'DataType':'Number','StringValue':'%s'}}}",
                      sequence, producer, sequence);
}

#define TO_BATCH(batch) ",'MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'" batch "'}}"

static uint64_t count_of(struct world *world, const char *batch, const char *count)
{
    struct answer answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", batch);
    EXPECT(world, answer.error == NULL);
    return answer_number(answer, count);
}

static bool is_good(struct world *world, const char *action, const char *body)
{
    return world_call(world, action, "%s", body).error == NULL;
}

static bool fails(struct world *world, const char *action, const char *body, const char *error)
{
    struct answer answer = world_call(world, action, "%s", body);
    if (!answer_fails(answer, error))
        print_error("%s: %s\n", answer.error == NULL ? "no error" : answer.error, answer_text(answer, "message"));
    return answer_fails(answer, error);
}

/* --- duplicates --------------------------------------------------------------------------------------------------- */

/* Invariant B14: neither a ghost unit nor a silent early finish. */
static void T25_a_duplicate_is_no_unit_of_a_batch(struct world *world)
{
    world_create_queue(world, "q", "");
    world_create_queue(world, "done", "");
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'done'}}"));
    struct answer before = send_id(world, "q", "z", "");
    struct answer first = send_id(world, "q", "x", TO_BATCH("b"));
    EXPECT(world, is_accepted(first) && is_accepted(send_id(world, "q", "y", TO_BATCH("b"))));
    struct answer again = send_id(world, "q", "x", TO_BATCH("b"));
    EXPECT(world, is_duplicate(again) && has_same_id(first, again));
    again = send_id(world, "q", "z", TO_BATCH("b"));
    EXPECT(world, is_duplicate(again) && has_same_id(before, again));
    EXPECT(world, count_of(world, "b", "Total") == 2);
    EXPECT(world, is_good(world, "Tally.SealBatch", "{'BatchId':'b'}"));
    /* A repeat still answers as the first did. */
    again = send_id(world, "q", "x", TO_BATCH("b"));
    EXPECT(world, is_duplicate(again) && has_same_id(first, again));
    EXPECT(world,
           fails(world, "SendMessage",
                 "{'QueueUrl':'q','MessageBody':'body','MessageDeduplicationId':'w'" TO_BATCH("b") "}", "BatchSealed"));
    struct taken held[3];
    world_hold(world, "q", 60, 3, held);
    for (unsigned i = 0; i < 3; i++) {
        EXPECT(world, count_of(world, "b", "Remaining") == (i == 0 ? 2 : 3 - i));
        EXPECT(world, world_count_messages(world, "done") == 0);
        world_delete(world, "q", held[i].handle); /* the first is z, which is no unit */
    }
    EXPECT(world, world_drain(world, "done").complete == 1);
}

/* Invariant U7. */
static void T52_the_id_of_a_message_whose_worker_died_is_accepted_after_the_window(struct world *world)
{
    world_create_queue(world, "q", "");
    struct answer first = send_id(world, "q", "id", "");
    EXPECT(world, is_accepted(first));
    uint64_t accepted_at_ms = world->now_ms;
    struct taken taken;
    world_hold(world, "q", 20, 1, &taken);
    world_pass_time(world, accepted_at_ms + 299999 - world->now_ms);
    struct answer again = send_id(world, "q", "id", "");
    EXPECT(world, is_duplicate(again) && has_same_id(first, again));
    world_pass_time(world, 1);
    struct answer second = send_id(world, "q", "id", "");
    EXPECT(world, is_accepted(second) && !has_same_id(first, second));
    EXPECT(world, world_count_messages(world, "q") == 2);
}

/* Invariant U2: never told "duplicate" of nothing. */
static void T53_a_repeat_is_no_duplicate_of_what_did_not_last(struct world *world)
{
    world_create_queue(world, "q", "");
    /* Both in one frame, so both replies wait for it. */
    struct answer first, second;
    do {
        world_together_begin(world);
        first = send_id(world, "q", "id", "");
        second = send_id(world, "q", "id", "");
    } while (!world_together_end(world));
    EXPECT(world, is_duplicate(second) && has_same_id(first, second));
    EXPECT(world, world_count_messages(world, "q") == 1);
    /* The server dies with the frame of the first: it is lost, or whole on the disk though nobody was told. */
    uint64_t sent = core_metrics(world_core(world)).sent;
    world_together_begin(world);
    EXPECT(world, is_accepted(send_id(world, "q", "cut", "")));
    world->is_together = false;
    world_kill(world);
    bool is_there = core_metrics(world_core(world)).sent > sent;
    second = send_id(world, "q", "cut", "");
    EXPECT(world, is_there ? is_duplicate(second) : is_accepted(second));
    EXPECT(world, world_count_messages(world, "q") == 2);
    /* The first was refused. */
    EXPECT(world, fails(world, "SendMessage",
                        "{'QueueUrl':'q','MessageBody':'body','MessageDeduplicationId':'refused'" TO_BATCH("none") "}",
                        "BatchDoesNotExist"));
    EXPECT(world, is_accepted(send_id(world, "q", "refused", "")));
    EXPECT(world, world_count_messages(world, "q") == 3);
}

/* Invariants U4, U5. */
static void T54_a_window_of_an_hour_of_eight_days_and_for_ever(struct world *world)
{
    static const struct {
        const char *queue;
        const char *attributes;
        uint64_t window_ms; /* 0: for ever */
    } rows[] = {
        {"hour", "'Tally.DeduplicationWindow':'3600'", 3600000},
        {"days", "'Tally.DeduplicationWindow':'691200'", 691200000},
        {"ever", "'Tally.DeduplicationWindow':'-1'", 0},
    };
    for (unsigned i = 0; i < 3; i++) {
        world_create_queue(world, rows[i].queue, rows[i].attributes);
        uint64_t window_ms = rows[i].window_ms == 0 ? UINT64_C(315360000000) : rows[i].window_ms;
        struct answer first = send_id(world, rows[i].queue, "id", "");
        EXPECT(world, is_accepted(first));
        world_pass_time(world, window_ms / 2);
        EXPECT(world, is_duplicate(send_id(world, rows[i].queue, "id", "")));
        world_pass_time(world, window_ms / 2 - 1);
        struct answer again = send_id(world, rows[i].queue, "id", "");
        EXPECT(world, is_duplicate(again) && has_same_id(first, again));
        world_pass_time(world, 1);
        again = send_id(world, rows[i].queue, "id", "");
        EXPECT(world, rows[i].window_ms == 0 ? is_duplicate(again) && has_same_id(first, again)
                                             : is_accepted(again) && !has_same_id(first, again));
    }
}

/* Invariant U3. */
static void T55_the_id_of_a_deleted_or_purged_message_is_a_duplicate_inside_the_window(struct world *world)
{
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'600'");
    world_create_queue(world, "plain", "");
    struct answer first = send_id(world, "q", "id", "");
    struct taken taken;
    world_hold(world, "q", 30, 1, &taken);
    world_delete(world, "q", taken.handle);
    struct answer again = send_id(world, "q", "id", "");
    EXPECT(world, is_duplicate(again) && has_same_id(first, again));
    EXPECT(world, world_count_messages(world, "q") == 0);
    EXPECT(world, is_accepted(send_id(world, "q", "purged", "")) && is_accepted(send_id(world, "plain", "purged", "")));
    EXPECT(world, is_good(world, "PurgeQueue", "{'QueueUrl':'q'}"));
    EXPECT(world, is_good(world, "PurgeQueue", "{'QueueUrl':'plain'}"));
    EXPECT(world, is_duplicate(send_id(world, "q", "purged", "")));
    /* As SQS does, where nobody has asked for a window. */
    EXPECT(world, is_accepted(send_id(world, "plain", "purged", "")));
    EXPECT(world, is_duplicate(send_id(world, "plain", "purged", "")));
    struct answer answer = world_call(world, "DeleteQueue", "{'QueueUrl':'q'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'600'");
    EXPECT(world, is_accepted(send_id(world, "q", "id", "")));
}

/* Invariant U6: a duplicate until the window ends. */
static void T56_the_id_of_a_message_that_failed_for_good_is_a_duplicate_until_the_window_ends(struct world *world)
{
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q",
                       "'Tally.DeduplicationWindow':'600','MessageRetentionPeriod':'60','RedrivePolicy':"
                       "'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead\\',"
                       "\\'maxReceiveCount\\':1}'");
    struct answer first = send_id(world, "q", "id", "");
    struct answer expired = send_id(world, "q", "expired", "");
    uint64_t accepted_at_ms = world->now_ms;
    struct taken taken;
    EXPECT(world, world_take(world, "q", 1, 1, &taken) == 1);
    unsigned rounds = 0;
    do {
        /* Nothing between: a restart in a time of which nothing was logged gives the lease its grace. */
        world_pass_time(world, 2000);
        (void)world_take(world, "q", 1, 1, &taken);
    } while (world_count_messages(world, "dead") == 0 && ++rounds < 10);
    EXPECT(world, world_count_messages(world, "dead") >= 1);
    world_pass_time(world, 61000);
    EXPECT(world, world_count_messages(world, "q") == 0);
    struct answer again = send_id(world, "q", "id", "");
    EXPECT(world, is_duplicate(again) && has_same_id(first, again));
    again = send_id(world, "q", "expired", "");
    EXPECT(world, is_duplicate(again) && has_same_id(expired, again));
    world_pass_time(world, accepted_at_ms + 600000 - world->now_ms);
    EXPECT(world, is_accepted(send_id(world, "q", "id", "")));
    EXPECT(world, is_accepted(send_id(world, "q", "expired", "")));
    EXPECT(world, world_count_messages(world, "q") == 2);
}

/* Invariant U1. */
static void T57_ten_identical_sends_at_once_are_one_message_and_ten_equal_answers(struct world *world)
{
    world_create_queue(world, "q", "");
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','ContentBasedDeduplication':'true'");
    struct answer answers[2][10];
    do {
        world_together_begin(world);
        for (unsigned i = 0; i < 10; i++) {
            answers[0][i] = send_id(world, "q", "id", "");
            answers[1][i] = world_call(world, "SendMessage",
                                       "{'QueueUrl':'f.fifo','MessageBody':'same','MessageGroupId':'g%u'}", i);
        }
    } while (!world_together_end(world));
    for (unsigned i = 1; i < 10; i++) {
        EXPECT(world, is_duplicate(answers[0][i]) && has_same_id(answers[0][0], answers[0][i]));
        EXPECT(world, is_duplicate(answers[1][i]) && has_same_id(answers[1][0], answers[1][i]));
        EXPECT(world,
               strcmp(answer_text(answers[1][0], "SequenceNumber"), answer_text(answers[1][i], "SequenceNumber")) == 0);
    }
    EXPECT(world, strlen(answer_text(answers[1][0], "SequenceNumber")) == 20);
    EXPECT(world, world_count_messages(world, "q") == 1 && world_count_messages(world, "f.fifo") == 1);
}

/* Invariant U8. */
static void T69_a_producer_that_repeats_old_numbers_after_the_window_repeats_nothing(struct world *world)
{
    static const char *const numbers[] = {"0", "1", "5", "9223372036854775807"};
    world_create_queue(world, "q", "'Tally.DeduplicationWindow':'0'");
    struct answer first[4];
    for (unsigned i = 0; i < 4; i++) {
        first[i] = produce(world, "p", numbers[i]);
        EXPECT(world, is_accepted(first[i]));
    }
    world_pass_time(world, UINT64_C(31536000000));
    for (unsigned i = 0; i < 4; i++) {
        struct answer again = produce(world, "p", numbers[i]);
        EXPECT(world, is_duplicate(again) && has_same_id(first[i], again));
    }
    /* A number that was passed over can't come any more. */
    struct answer gap = produce(world, "p", "3");
    EXPECT(world, is_duplicate(gap) && !answer_has(gap, "MessageId"));
    EXPECT(world, answer_is_true(gap, "PassedOver"));
    EXPECT(world, strcmp(answer_text(gap, "LastSequence"), "9223372036854775807") == 0);
    EXPECT(world, is_accepted(produce(world, "other", "3")));
    EXPECT(world, world_count_messages(world, "q") == 1); /* the others' retention is over */
}

static void a_number_too_old_to_be_known_is_not_said_to_be_passed_over(struct world *world)
{
    char number[24];
    world_create_queue(world, "q", "");
    for (unsigned i = 1; i <= 255; i++) {
        snprintf(number, sizeof(number), "%u", 10 * i);
        EXPECT(world, is_accepted(produce(world, "p", number)));
    }
    EXPECT(world, answer_is_true(produce(world, "p", "5"), "PassedOver")); /* nothing is forgotten yet */
    EXPECT(world, is_accepted(produce(world, "p", "2560")));
    EXPECT(world, is_accepted(produce(world, "p", "2570"))); /* with this one the first is */
    struct answer forgotten = produce(world, "p", "10"), unknown = produce(world, "p", "5");
    EXPECT(world,
           is_duplicate(forgotten) && !answer_has(forgotten, "MessageId") && !answer_has(forgotten, "PassedOver"));
    EXPECT(world, is_duplicate(unknown) && !answer_has(unknown, "PassedOver"));
    EXPECT(world, strcmp(answer_text(unknown, "LastSequence"), "2570") == 0);
    EXPECT(world, answer_is_true(produce(world, "p", "25"), "PassedOver"));
    struct answer known = produce(world, "p", "20");
    EXPECT(world, is_duplicate(known) && answer_has(known, "MessageId") && !answer_has(known, "PassedOver"));
}

/* --- commit ------------------------------------------------------------------------------------------------------- */

#define JOBS 5u

/* However it is interrupted, before and after each step: what was consumed is what was counted and what was
 * produced. */
static void expect_balance(struct world *world)
{
    uint64_t produced = world_count_messages(world, "out");
    EXPECT(world, world_count_messages(world, "in") + produced == JOBS);
    EXPECT(world, count_of(world, "b", "Succeeded") == produced);
}

static void Commit_consumes_counts_and_produces_exactly_once(struct world *world)
{
    world_create_queue(world, "in", "");
    world_create_queue(world, "out", "");
    world_create_queue(world, "done", "");
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b','Total':5,'OnComplete':{'QueueUrl':'done'}}"));
    EXPECT(world, is_good(world, "Tally.AddUnits", "{'BatchId':'b','Count':5}") || count_of(world, "b", "Total") == 5);
    for (unsigned i = 0; i < JOBS; i++) {
        char body[16];
        snprintf(body, sizeof(body), "%u", i);
        EXPECT(world, world_send(world, "in", NULL, body).error == NULL);
    }
    for (unsigned rounds = 0; world_count_messages(world, "in") > 0 && rounds < 100; rounds++) {
        struct taken taken;
        if (world_take(world, "in", 5, 1, &taken) == 0) {
            world_pass_time(world, 5000);
            continue;
        }
        if (rounds % 4 == 1)
            world_pass_time(world, 6000); /* this worker is too slow, but nobody else came */
        struct answer answer = world_call(world, "Tally.Commit",
                                          "{'Deletes':[{'QueueUrl':'in','ReceiptHandle':'%s'}],"
                                          "'Sends':[{'QueueUrl':'out','MessageBody':'result of %s'}],"
                                          "'Units':[{'BatchId':'b','Unit':'%s'}]}",
                                          taken.handle, taken.body, taken.body);
        EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "ReceiptHandleIsInvalid")));
        expect_balance(world);
    }
    EXPECT(world, world_count_messages(world, "in") == 0);
    EXPECT(world, count_of(world, "b", "Remaining") == 0);
    EXPECT(world, world_drain(world, "done").complete == 1);
    struct taken results[JOBS];
    world_hold(world, "out", 60, JOBS, results);
    bool seen[JOBS] = {false};
    for (unsigned i = 0; i < JOBS; i++) {
        unsigned job = (unsigned)atoi(results[i].body + strlen("result of "));
        EXPECT(world, job < JOBS && !seen[job]);
        seen[job] = true;
    }
}

static void Commit_with_one_stale_handle_does_nothing(struct world *world)
{
    world_create_queue(world, "in", "");
    world_create_queue(world, "out", "");
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b'}"));
    EXPECT(world, is_good(world, "Tally.AddUnits", "{'BatchId':'b','Units':['u']}"));
    world_send(world, "in", "b", "one");
    world_send(world, "in", NULL, "two");
    struct taken old[2], held[2];
    world_hold(world, "in", 5, 2, old);
    world_pass_time(world, 40000);
    world_hold(world, "in", 300, 2, held);
    for (unsigned i = 0; i < 2; i++) {
        struct answer answer =
            world_call(world, "Tally.Commit",
                       "{'Sends':[{'QueueUrl':'out','MessageBody':'x'}],"
                       "'Units':[{'BatchId':'b','Unit':'u'}],"
                       "'Deletes':[{'QueueUrl':'in','ReceiptHandle':'%s'},"
                       "{'QueueUrl':'in','ReceiptHandle':'%s'}]}",
                       i == 0 ? old[0].handle : held[0].handle, i == 0 ? held[1].handle : old[1].handle);
        EXPECT(world, answer_fails(answer, "ReceiptHandleIsInvalid"));
        EXPECT(world, strstr(answer_text(answer, "message"), i == 0 ? "Deletes[0]" : "Deletes[1]") != NULL);
        EXPECT(world, world_count_messages(world, "in") == 2 && world_count_messages(world, "out") == 0);
        EXPECT(world, count_of(world, "b", "Succeeded") == 0);
    }
    struct answer answer = world_call(world, "Tally.Commit",
                                      "{'Deletes':[{'QueueUrl':'in','ReceiptHandle':'%s'},"
                                      "{'QueueUrl':'in','ReceiptHandle':'%s'}]}",
                                      held[0].handle, held[0].handle);
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    EXPECT(world, world_count_messages(world, "in") == 2);
    answer = world_call(world, "Tally.Commit", "{'Deletes':[{'QueueUrl':'out','ReceiptHandle':'%s'}]}", held[0].handle);
    EXPECT(world, answer_fails(answer, "ReceiptHandleIsInvalid"));
    answer = world_call(world, "Tally.Commit",
                        "{'Deletes':[{'QueueUrl':'in','ReceiptHandle':'%s'},"
                        "{'QueueUrl':'in','ReceiptHandle':'%s'}]}",
                        held[0].handle, held[1].handle);
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "ReceiptHandleIsInvalid")));
    EXPECT(world, world_count_messages(world, "in") == 0);
    EXPECT(world, count_of(world, "b", "Succeeded") == 1);
}

static void Commit_sends_what_waits_for_what_it_deletes(struct world *world)
{
    world_create_queue(world, "in", "");
    world_create_queue(world, "out", "");
    struct taken taken;
    world_send(world, "in", NULL, "first");
    world_hold(world, "in", 60, 1, &taken);
    struct answer answer = world_call(world, "Tally.Commit",
                                      "{'Deletes':[{'QueueUrl':'in','ReceiptHandle':'%s'}],"
                                      "'Sends':[{'QueueUrl':'out','MessageBody':'second','MessageAttributes':{"
                                      "'Tally.After':{'DataType':'String','StringValue':'message:%s'}}}]}",
                                      taken.handle, taken.id);
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "ReceiptHandleIsInvalid")));
    EXPECT(world, world_count_messages(world, "in") == 0);
    world_hold(world, "out", 60, 1, &taken);
    EXPECT(world, strcmp(taken.body, "second") == 0);
}

/* --- rules of commit, played once --------------------------------------------------------------------------------- */

static struct world *open_world(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "q", "");
    world_create_queue(world, "done", "");
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static yyjson_val *entry_of(struct answer answer, const char *list, size_t index)
{
    return yyjson_arr_get(yyjson_obj_get(answer.root, list), index);
}

static bool entry_is(struct answer answer, const char *list, size_t index, const char *name)
{
    return yyjson_is_true(yyjson_obj_get(entry_of(answer, list, index), name));
}

static const char *entry_text(struct answer answer, const char *list, size_t index, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(entry_of(answer, list, index), name));
    return text == NULL ? "" : text;
}

static void a_commit_answers_each_send_and_each_unit(void **state)
{
    (void)state;
    struct world *world = open_world();
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b','Total':3,'OnComplete':{'QueueUrl':'done'}}"));
    EXPECT(world, is_good(world, "Tally.AddUnits", "{'BatchId':'b','Units':['u','v']}"));
    EXPECT(world, world_send(world, "q", "b", "message").error == NULL);
    struct taken taken;
    world_hold(world, "q", 30, 1, &taken);
    struct answer answer = world_call(
        world, "Tally.Commit",
        "{'Sends':[{'QueueUrl':'f.fifo','MessageBody':'a','MessageGroupId':'g','MessageDeduplicationId':'1'},"
        "{'QueueUrl':'f.fifo','MessageBody':'a','MessageGroupId':'g','MessageDeduplicationId':'1'}],"
        "'Units':[{'BatchId':'b','Unit':'u'},{'BatchId':'b','Unit':'v','Status':'failed','Detail':'why'},"
        "{'BatchId':'b','Unit':'u','Status':'failed'}],"
        "'Deletes':[{'QueueUrl':'q','ReceiptHandle':'%s'}]}",
        taken.handle);
    EXPECT(world, answer.error == NULL);
    EXPECT(world, strlen(entry_text(answer, "Sends", 0, "SequenceNumber")) == 20);
    EXPECT(world, !entry_is(answer, "Sends", 0, "Duplicate") && entry_is(answer, "Sends", 1, "Duplicate"));
    EXPECT(world,
           strcmp(entry_text(answer, "Sends", 0, "MessageId"), entry_text(answer, "Sends", 1, "MessageId")) == 0);
    EXPECT(world, entry_is(answer, "Units", 0, "Recorded") && entry_is(answer, "Units", 1, "Recorded"));
    EXPECT(world, !entry_is(answer, "Units", 2, "Recorded"));
    EXPECT(world, entry_is(answer, "Units", 0, "Completed") && entry_is(answer, "Units", 2, "Completed"));
    EXPECT(world, strcmp(entry_text(answer, "Units", 1, "Unit"), "v") == 0);
    EXPECT(world, strcmp(entry_text(answer, "Units", 1, "BatchId"), "b") == 0);
    EXPECT(world, world_count_messages(world, "f.fifo") == 1 && world_count_messages(world, "q") == 0);
    EXPECT(world, count_of(world, "b", "Succeeded") == 2 && count_of(world, "b", "Failed") == 1);
    EXPECT(world, world_drain(world, "done").complete == 1);
    answer = world_call(world, "Tally.Commit", "{'Units':[{'BatchId':'b','Unit':'u'}]}");
    EXPECT(world, answer.error == NULL && !answer_has(answer, "Sends"));
    EXPECT(world, !entry_is(answer, "Units", 0, "Recorded") && !entry_is(answer, "Units", 0, "Completed"));
    close_world(world);
}

#define IN_BATCH(body) "{'QueueUrl':'q','MessageBody':'" body "'" TO_BATCH("b") "}"
#define IN_BATCH_ONCE "{'QueueUrl':'q','MessageBody':'m','MessageDeduplicationId':'id'" TO_BATCH("b") "}"

static void a_commit_counts_the_units_of_all_its_sends(void **state)
{
    (void)state;
    struct world *world = open_world();
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b','Total':2}"));
    EXPECT(world, fails(world, "Tally.Commit", "{'Sends':[" IN_BATCH("1") "," IN_BATCH("2") "," IN_BATCH("3") "]}",
                        "BatchTotalExceeded"));
    EXPECT(world, world_count_messages(world, "q") == 0 && count_of(world, "b", "Total") == 0);
    /* A duplicate of an earlier one takes no unit. */
    EXPECT(world, is_good(world, "Tally.Commit",
                          "{'Sends':[" IN_BATCH_ONCE "," IN_BATCH_ONCE "," IN_BATCH("2") "," IN_BATCH_ONCE "]}"));
    EXPECT(world, world_count_messages(world, "q") == 2 && count_of(world, "b", "Total") == 2);
    EXPECT(world, is_good(world, "Tally.Commit", "{'Sends':[" IN_BATCH_ONCE "]}"));
    EXPECT(world, fails(world, "Tally.Commit", "{'Sends':[" IN_BATCH_ONCE "," IN_BATCH("4") "]}", "BatchSealed"));
    EXPECT(world, world_count_messages(world, "q") == 2);
    close_world(world);
}

#define NUMBERED(sequence)                                                                                             \
    "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{"                                                          \
    "'Tally.Batch':{'DataType':'String','StringValue':'b'},"                                                           \
    "'Tally.Producer':{'DataType':'String','StringValue':'p'},"                                                        \
    "'Tally.Sequence':{'DataType':'Number','StringValue':'" sequence "'}}}"

static void a_commit_knows_the_numbers_of_its_own_producer(void **state)
{
    (void)state;
    struct world *world = open_world();
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b','Total':2}"));
    struct answer answer = world_call(
        world, "Tally.Commit", "{'Sends':[" NUMBERED("5") "," NUMBERED("3") "," NUMBERED("5") "," NUMBERED("6") "]}");
    EXPECT(world, answer.error == NULL);
    EXPECT(world, entry_is(answer, "Sends", 1, "Duplicate") && entry_is(answer, "Sends", 2, "Duplicate"));
    EXPECT(world, entry_text(answer, "Sends", 1, "MessageId")[0] == '\0');
    EXPECT(world,
           strcmp(entry_text(answer, "Sends", 0, "MessageId"), entry_text(answer, "Sends", 2, "MessageId")) == 0);
    EXPECT(world, !entry_is(answer, "Sends", 3, "Duplicate") && count_of(world, "b", "Total") == 2);
    close_world(world);
}

static void a_commit_that_is_wrong_anywhere_does_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *error;
    } rows[] = {
        {"{}", "EmptyBatchRequest"},
        {"{'Sends':[],'Units':[],'Deletes':[]}", "EmptyBatchRequest"},
        {"{'Sends':[1]}", "SerializationException"},
        {"{'Sends':{}}", "SerializationException"},
        {"{'Sends':[{'QueueUrl':'q','MessageBody':'x'},{'QueueUrl':'none','MessageBody':'x'}]}", "QueueDoesNotExist"},
        {"{'Sends':[{'QueueUrl':'q','MessageBody':'x'},{'QueueUrl':'q'}]}", "MissingRequiredParameterException"},
        {"{'Sends':[{'QueueUrl':'q','MessageBody':'x'}],'Units':[{'BatchId':'b','Unit':'none'}]}", "UnitDoesNotExist"},
        {"{'Sends':[{'QueueUrl':'q','MessageBody':'x'}],'Units':[{'BatchId':'none','Unit':'u'}]}", "BatchDoesNotExist"},
        {"{'Sends':[{'QueueUrl':'q','MessageBody':'x'}],'Units':[{'BatchId':'xor','Unit':'u'}]}",
         "UnsupportedOperation"},
        {"{'Units':[{'BatchId':'b','Unit':'u'}],'Deletes':[{'QueueUrl':'q','ReceiptHandle':'nonsense'}]}",
         "ReceiptHandleIsInvalid"},
        {"{'Units':[{'BatchId':'b','Unit':'u'}],'Deletes':[{'QueueUrl':'q'}]}", "MissingRequiredParameterException"},
        {"{'Units':[{'BatchId':'b','Unit':'u','Status':'maybe'}]}", "InvalidParameterValueException"},
        {"{'Units':[{'BatchId':'b','Unit':'u'}],'Sends':[{'QueueUrl':'q','MessageBody':'x'},"
         "{'QueueUrl':'q','MessageBody':'x'" TO_BATCH("sealed") "}]}",
         "BatchSealed"},
    };
    struct world *world = open_world();
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b'}"));
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'sealed','Total':0}"));
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'xor','Tracking':'xor'}"));
    EXPECT(world, is_good(world, "Tally.AddUnits", "{'BatchId':'b','Units':['u']}"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        EXPECT(world, fails(world, "Tally.Commit", rows[i].body, rows[i].error));
    EXPECT(world, world_count_messages(world, "q") == 0 && count_of(world, "b", "Remaining") == 1);
    close_world(world);
}

static void a_commit_takes_so_many_entries_and_no_more(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const struct {
        const char *list;
        const char *entry;
        unsigned max;
    } rows[] = {{"Sends", "{'QueueUrl':'q','MessageBody':'x'}", 10},
                {"Units", "{'BatchId':'b','Unit':'u'}", 100},
                {"Deletes", "{'QueueUrl':'q','ReceiptHandle':'x'}", 10}};
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b'}"));
    EXPECT(world, is_good(world, "Tally.AddUnits", "{'BatchId':'b','Units':['u']}"));
    for (unsigned i = 0; i < 3; i++) {
        char body[8000];
        size_t size = (size_t)snprintf(body, sizeof(body), "{'%s':[%s", rows[i].list, rows[i].entry);
        for (unsigned count = 1; count <= rows[i].max; count++)
            size += (size_t)snprintf(body + size, sizeof(body) - size, ",%s", rows[i].entry);
        snprintf(body + size, sizeof(body) - size, "]}");
        EXPECT(world, fails(world, "Tally.Commit", body, "TooManyEntriesInBatchRequest"));
        /* One less. */
        snprintf(body + size - strlen(rows[i].entry) - 1, 3, "]}");
        struct answer answer = world_call(world, "Tally.Commit", "%s", body);
        EXPECT(world, i < 2 ? answer.error == NULL : answer_fails(answer, "ReceiptHandleIsInvalid"));
    }
    EXPECT(world, world_count_messages(world, "q") == 10);
    close_world(world);
}

/* Of a frame of 128 KiB, an eighth may be in use. What a Commit makes due counts, each batch once. */
static void a_commit_that_one_record_could_not_hold_is_refused(void **state)
{
    (void)state;
    struct world *world = open_world();
    char big[60001];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    struct answer answer = world_call(world, "Tally.Commit",
                                      "{'Sends':[{'QueueUrl':'q','MessageBody':'%s'},"
                                      "{'QueueUrl':'q','MessageBody':'%s'}]}",
                                      big, big);
    EXPECT(world, answer_fails(answer, "OverLimit") && world_count_messages(world, "q") == 0);
    EXPECT(world,
           world_call(world, "Tally.Commit", "{'Sends':[{'QueueUrl':'q','MessageBody':'%s'}]}", big).error == NULL);
    for (unsigned i = 0; i < 4; i++) {
        answer =
            world_call(world, "Tally.CreateBatch",
                       "{'BatchId':'b%u','Total':2,'OnComplete':{'QueueUrl':'done','MessageBody':'%.30000s'}}", i, big);
        EXPECT(world, answer.error == NULL);
        EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b%u','Count':2}", i).error == NULL);
    }
    EXPECT(world, fails(world, "Tally.Commit",
                        "{'Units':[{'BatchId':'b0','Unit':'0'},{'BatchId':'b1','Unit':'0'},"
                        "{'BatchId':'b2','Unit':'0'},{'BatchId':'b3','Unit':'0'}]}",
                        "OverLimit"));
    EXPECT(world, count_of(world, "b0", "Remaining") == 2);
    EXPECT(world, is_good(world, "Tally.Commit",
                          "{'Units':[{'BatchId':'b0','Unit':'0'},{'BatchId':'b0','Unit':'1'},"
                          "{'BatchId':'b1','Unit':'0'},{'BatchId':'b1','Unit':'1'},"
                          "{'BatchId':'b2','Unit':'0'},{'BatchId':'b2','Unit':'1'}]}"));
    EXPECT(world, world_count_messages(world, "done") == 3);
    close_world(world);
}

#define WAITING_SEND(batch, after)                                                                                     \
    "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{"                                                          \
    "'Tally.Batch':{'DataType':'String','StringValue':'" batch "'},"                                                   \
    "'Tally.After':{'DataType':'String','StringValue':'batch:" after "'}}}"

/* Alone each of them is well, together they would wait for each other: a send of a Commit can't be refused half-way. */
static void a_commit_makes_no_cycle_of_its_sends(void **state)
{
    (void)state;
    struct world *world = open_world();
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'b'}"));
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'c'}"));
    EXPECT(world, is_good(world, "Tally.CreateBatch", "{'BatchId':'d'}"));
    EXPECT(world, fails(world, "Tally.Commit", "{'Sends':[" WAITING_SEND("b", "c") "," WAITING_SEND("c", "b") "]}",
                        "UnsupportedOperation"));
    EXPECT(world, world_count_messages(world, "q") == 0);
    EXPECT(world,
           is_good(world, "Tally.Commit",
                   "{'Sends':[" WAITING_SEND("b", "c") ",{'QueueUrl':'q','MessageBody':'m'" TO_BATCH("c") "}]}"));
    EXPECT(world,
           fails(world, "Tally.Commit", "{'Sends':[{'QueueUrl':'q','MessageBody':'m'}," WAITING_SEND("c", "b") "]}",
                 "DependencyCycle"));
    EXPECT(world, world_count_messages(world, "q") == 2);
    close_world(world);
}

/* One send with a uid, and how it was answered. */
static bool is_moved(struct world *world, const char *queue, const char *uid, const char *body, bool *is_known)
{
    struct answer answer = world_call(world, "Tally.Commit",
                                      "{'Sends':[{'QueueUrl':'%s','Uid':'%s','MessageBody':'%s','MessageGroupId':'g',"
                                      "'MessageDeduplicationId':'its-own'}]}",
                                      queue, uid, body);
    *is_known = entry_is(answer, "Sends", 0, "Duplicate");
    if (answer.error != NULL)
        print_error("%s: %s\n", answer.error, answer_text(answer, "message"));
    return answer.error == NULL;
}

static bool is_new(struct world *world, const char *uid, const char *body)
{
    bool is_known;
    return is_moved(world, "moved.fifo", uid, body, &is_known) && !is_known;
}

static bool is_known(struct world *world, const char *uid, const char *body)
{
    bool is_known;
    return is_moved(world, "moved.fifo", uid, body, &is_known) && is_known;
}

#define UID_A "00000000-0000-4000-8000-00000000000a"
#define UID_B "00000000-0000-4000-8000-00000000000b"

/* A uid is what the source of a message calls it, which gives it out again until it is deleted there. */
static void a_moved_message_is_known_by_its_uid_for_fourteen_days(void **state)
{
    (void)state;
    struct world *world = open_world();
    const uint64_t days_ms = 14 * UINT64_C(86400000);
    world_create_queue(world, "moved.fifo", "'FifoQueue':'true','ContentBasedDeduplication':'true'");
    uint64_t accepted_at_ms = world->now_ms;
    EXPECT(world, is_new(world, UID_A, "tick"));
    EXPECT(world, is_known(world, UID_A, "tick"));
    EXPECT(world, is_known(world, "00000000-0000-4000-8000-00000000000A", "tick"));
    /* Two of one deduplication id, or of one body, were sent for as long as the source kept them apart. */
    EXPECT(world, is_new(world, UID_B, "tick"));
    EXPECT(world, is_new(world, UID_A, "another body of the same uid"));
    EXPECT(world, world_count_messages(world, "moved.fifo") == 3);
    /* Neither a restart nor a purge is a reason for the source to have deleted it. */
    world_kill(world);
    EXPECT(world, is_known(world, UID_A, "tick"));
    EXPECT(world, is_good(world, "PurgeQueue", "{'QueueUrl':'moved.fifo'}"));
    EXPECT(world, is_known(world, UID_A, "tick"));
    world_pass_time(world, accepted_at_ms + days_ms - 1000 - world->now_ms);
    EXPECT(world, is_known(world, UID_A, "tick"));
    world_pass_time(world, 2000);
    EXPECT(world, is_new(world, UID_A, "tick"));
    EXPECT(world, is_known(world, UID_A, "tick"));
    close_world(world);
}

static void a_uid_is_known_within_its_commit_and_becomes_the_outbox_id(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct answer answer = world_call(world, "Tally.Commit",
                                      "{'Sends':[{'QueueUrl':'q','Uid':'" UID_A "','MessageBody':'m'},"
                                      "{'QueueUrl':'q','Uid':'" UID_A "','MessageBody':'m'},"
                                      "{'QueueUrl':'f.fifo','Uid':'" UID_A "','MessageGroupId':'g','MessageBody':'m'},"
                                      "{'QueueUrl':'q','MessageBody':'m'}]}");
    EXPECT(world, answer.error == NULL);
    EXPECT(world, !entry_is(answer, "Sends", 0, "Duplicate") && entry_is(answer, "Sends", 1, "Duplicate"));
    EXPECT(world, !entry_is(answer, "Sends", 2, "Duplicate") && !entry_is(answer, "Sends", 3, "Duplicate"));
    EXPECT(world, world_count_messages(world, "q") == 2);
    answer = world_call(world, "Tally.FindMessage", "{'QueueUrl':'q','OutboxId':'" UID_A "'}");
    EXPECT(world, answer.error == NULL);
    EXPECT(world, fails(world, "Tally.Commit", "{'Sends':[{'QueueUrl':'q','Uid':'17','MessageBody':'m'}]}",
                        "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.Commit", "{'Sends':[{'QueueUrl':'q','Uid':17,'MessageBody':'m'}]}",
                        "SerializationException"));
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T25_a_duplicate_is_no_unit_of_a_batch),
        SCENARIO(T52_the_id_of_a_message_whose_worker_died_is_accepted_after_the_window),
        SCENARIO(T53_a_repeat_is_no_duplicate_of_what_did_not_last),
        SCENARIO(T54_a_window_of_an_hour_of_eight_days_and_for_ever),
        SCENARIO(T55_the_id_of_a_deleted_or_purged_message_is_a_duplicate_inside_the_window),
        SCENARIO(T56_the_id_of_a_message_that_failed_for_good_is_a_duplicate_until_the_window_ends),
        SCENARIO(T57_ten_identical_sends_at_once_are_one_message_and_ten_equal_answers),
        SCENARIO(T69_a_producer_that_repeats_old_numbers_after_the_window_repeats_nothing),
        SCENARIO(a_number_too_old_to_be_known_is_not_said_to_be_passed_over),
        SCENARIO(Commit_consumes_counts_and_produces_exactly_once),
        SCENARIO(Commit_with_one_stale_handle_does_nothing),
        SCENARIO(Commit_sends_what_waits_for_what_it_deletes),
        cmocka_unit_test(a_commit_answers_each_send_and_each_unit),
        cmocka_unit_test(a_commit_counts_the_units_of_all_its_sends),
        cmocka_unit_test(a_commit_knows_the_numbers_of_its_own_producer),
        cmocka_unit_test(a_commit_that_is_wrong_anywhere_does_nothing),
        cmocka_unit_test(a_commit_takes_so_many_entries_and_no_more),
        cmocka_unit_test(a_commit_that_one_record_could_not_hold_is_refused),
        cmocka_unit_test(a_commit_makes_no_cycle_of_its_sends),
        cmocka_unit_test(a_moved_message_is_known_by_its_uid_for_fourteen_days),
        cmocka_unit_test(a_uid_is_known_within_its_commit_and_becomes_the_outbox_id),
    };
    return cmocka_run_group_tests_name("once", tests, NULL, NULL);
}
