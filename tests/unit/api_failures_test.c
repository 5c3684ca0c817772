/* SummarizeFailures: reasons are counted as they are, the most frequent first; and which messages it looks at. */
#include "scenario.h"

static struct world *open_world(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q",
                       "'VisibilityTimeout':'5','Tally.Backoff':'{\\\"min\\\":60,\\\"max\\\":60,\\\"jitter\\\":0}',"
                       "'RedrivePolicy':'{\\\"deadLetterTargetArn\\\":\\\"arn:aws:sqs:us-east-1:000000000000:dead\\\","
                       "\\\"maxReceiveCount\\\":3}'");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

/* Sends a message to `q` and fails it with that reason, for good or not. */
static void send_and_fail(struct world *world, const char *reason, bool is_final, char id[WORLD_ID_SIZE])
{
    struct taken taken;
    world_send(world, "q", NULL, "m");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    struct answer failed =
        world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','Reason':'%s','Final':%s}",
                   taken.handle, reason, is_final ? "true" : "false");
    EXPECT(world, failed.error == NULL);
    snprintf(id, WORLD_ID_SIZE, "%s", taken.id);
    world_pass_time(world, 1000);
    world_forget(world);
}

static yyjson_val *reason_at(struct answer answer, size_t index)
{
    return yyjson_arr_get(yyjson_obj_get(answer.root, "Reasons"), index);
}

static size_t count_reasons(struct answer answer)
{
    return yyjson_arr_size(yyjson_obj_get(answer.root, "Reasons"));
}

static bool is_reason(struct answer answer, size_t index, const char *text, uint64_t count)
{
    yyjson_val *reason = reason_at(answer, index);
    return yyjson_equals_str(yyjson_obj_get(reason, "Reason"), text) &&
           yyjson_get_uint(yyjson_obj_get(reason, "Count")) == count;
}

static double time_at(struct answer answer, size_t index, const char *name)
{
    return yyjson_get_num(yyjson_obj_get(reason_at(answer, index), name));
}

static struct answer summarize(struct world *world, const char *queue)
{
    struct answer answer = world_call(world, "Tally.SummarizeFailures", "{'QueueUrl':'%s'}", queue);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static void dead_letters_are_counted_by_their_reasons(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const char *const reasons[] = {"timeout", "refused", "timeout", "timeout", "timeout", "refused"};
    char ids[6][WORLD_ID_SIZE];
    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++)
        send_and_fail(world, reasons[i], true, ids[i]);
    world_send(world, "dead", NULL, "has not failed");
    struct answer answer = summarize(world, "dead");
    EXPECT(world, count_reasons(answer) == 2);
    EXPECT(world, is_reason(answer, 0, "timeout", 4) && is_reason(answer, 1, "refused", 2));
    EXPECT(world, time_at(answer, 0, "OldestAt") == WORLD_START_MS / 1000);
    EXPECT(world, time_at(answer, 0, "NewestAt") == WORLD_START_MS / 1000 + 4);
    yyjson_val *samples = yyjson_obj_get(reason_at(answer, 0), "MessageIds");
    EXPECT(world, yyjson_arr_size(samples) == 3); /* the newest three */
    EXPECT(world, yyjson_equals_str(yyjson_arr_get(samples, 0), ids[4]));
    EXPECT(world, yyjson_equals_str(yyjson_arr_get(samples, 1), ids[3]));
    EXPECT(world, yyjson_equals_str(yyjson_arr_get(samples, 2), ids[2]));
    EXPECT(world, answer_number(answer, "Looked") == 7 && answer_number(answer, "Failed") == 6);
    EXPECT(world, answer_number(answer, "WithoutReason") == 0 && answer_is_true(answer, "IsComplete"));
    close_world(world);
}

static void messages_that_wait_for_their_next_attempt_are_counted_too(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE];
    struct taken taken;
    send_and_fail(world, "busy", false, id); /* backs off for 60 s */
    send_and_fail(world, "busy", false, id);
    world_send(world, "q", NULL, "m");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    struct answer answer = summarize(world, "q");
    EXPECT(world, count_reasons(answer) == 1 && is_reason(answer, 0, "busy", 2));
    EXPECT(world, answer_number(answer, "WithoutReason") == 0); /* it is in flight: it may be well */
    world_pass_time(world, 6000);
    EXPECT(world, answer_number(summarize(world, "q"), "WithoutReason") == 1); /* its worker has not come back */
    world_call(world, "PurgeQueue", "{'QueueUrl':'q'}");
    answer = summarize(world, "q");
    EXPECT(world, count_reasons(answer) == 0 && answer_number(answer, "Looked") == 0);
    EXPECT(world, answer_is_true(answer, "IsComplete"));
    close_world(world);
}

/* What begins alike for 256 bytes is one reason, and no character is cut. */
static void a_long_reason_counts_by_its_beginning(void **state)
{
    (void)state;
    struct world *world = open_world();
    char reason[400], id[WORLD_ID_SIZE], beginning[257];
    for (unsigned i = 0; i < 3; i++) {
        memset(reason, 'r', 255);
        snprintf(reason + 255, sizeof(reason) - 255, "\xe2\x82\xac end %u", i); /* three bytes around the limit */
        send_and_fail(world, reason, true, id);
    }
    memset(beginning, 'r', 255);
    beginning[255] = '\0';
    send_and_fail(world, beginning, true, id);
    struct answer answer = summarize(world, "dead");
    EXPECT(world, count_reasons(answer) == 1 && is_reason(answer, 0, beginning, 4));
    EXPECT(world, yyjson_is_true(yyjson_obj_get(reason_at(answer, 0), "IsCut")));
    close_world(world);
}

static void at_most_a_hundred_reasons_are_told(void **state)
{
    (void)state;
    struct world *world = open_world();
    char reason[40], id[WORLD_ID_SIZE];
    for (unsigned i = 0; i < 130; i++) {
        snprintf(reason, sizeof(reason), "reason %u", i);
        send_and_fail(world, reason, true, id);
    }
    send_and_fail(world, "reason 7", true, id);
    struct answer answer = summarize(world, "dead");
    EXPECT(world, count_reasons(answer) == 100 && is_reason(answer, 0, "reason 7", 2));
    EXPECT(world, is_reason(answer, 1, "reason 129", 1)); /* of equal ones the newest */
    EXPECT(world, answer_number(answer, "Failed") == 131);
    close_world(world);
}

/* A queue with very many messages: of dead letters the newest are looked at, of others the oldest. */
static void a_look_is_bounded(void **state)
{
    (void)state;
    struct world *world = open_world();
    char id[WORLD_ID_SIZE];
    send_and_fail(world, "first", true, id);
    send_and_fail(world, "waits", false, id);
    for (unsigned i = 0; i < 10100; i++) {
        world_send(world, i % 2 == 0 ? "q" : "dead", NULL, "m");
        if (i % 1000 == 0)
            world_forget(world);
    }
    struct answer answer = summarize(world, "q");
    EXPECT(world, answer_number(answer, "Looked") == 5051 && answer_is_true(answer, "IsComplete"));
    for (unsigned i = 0; i < 10000; i++) {
        world_send(world, "q", NULL, "m");
        if (i % 1000 == 0)
            world_forget(world);
    }
    answer = summarize(world, "q");
    EXPECT(world, answer_number(answer, "Looked") == 10000 && !answer_is_true(answer, "IsComplete"));
    EXPECT(world, count_reasons(answer) == 1 && is_reason(answer, 0, "waits", 1));
    answer = summarize(world, "dead");
    EXPECT(world, is_reason(answer, 0, "first", 1)); /* half of the look is for each kind */
    close_world(world);
}

static void a_queue_must_be_named(void **state)
{
    (void)state;
    struct world *world = open_world();
    EXPECT(world, answer_fails(world_call(world, "Tally.SummarizeFailures", "{}"), "QueueDoesNotExist"));
    EXPECT(world,
           answer_fails(world_call(world, "Tally.SummarizeFailures", "{'QueueUrl':'none'}"), "QueueDoesNotExist"));
    EXPECT(world,
           answer_fails(world_call(world, "Tally.SummarizeFailures", "{'QueueUrl':7}"), "SerializationException"));
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_letters_are_counted_by_their_reasons),
        cmocka_unit_test(messages_that_wait_for_their_next_attempt_are_counted_too),
        cmocka_unit_test(a_long_reason_counts_by_its_beginning),
        cmocka_unit_test(at_most_a_hundred_reasons_are_told),
        cmocka_unit_test(a_look_is_bounded),
        cmocka_unit_test(a_queue_must_be_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
