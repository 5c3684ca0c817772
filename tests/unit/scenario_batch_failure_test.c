/* Scenarios T10, T16 to T18, T20 and T26: batches whose units fail, and what a redrive makes of them; batches that
 * expire or are cancelled. */
#include "batches.h"

static void T10_an_open_batch_expires_at_its_deadline_and_says_so(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", ",'ExpiresAfterSeconds':600");
    uint64_t created_at_ms = core_find_batch(world_core(world), BYTES("b"))->created_at_ms;
    send_units(world, "b", 1);
    world_pass_time(world, created_at_ms + 600000 - 1 - world->now_ms);
    expect_status(world, "b", "");
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_pass_time(world, 1);
    expect_status(world, "b", "expired");
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == 0 && completions.first_failure == 0);
    EXPECT(world, strstr(completions.body, "\"status\":\"expired\"") != NULL);
    /* Units that end later change counts and nothing else. */
    struct taken held;
    world_hold(world, "jobs", 300, 1, &held);
    world_delete(world, "jobs", held.handle);
    expect_counts(world, "b", 1, 0, 0, 0);
    expect_status(world, "b", "expired");
    EXPECT(world, world_count_messages(world, "done") == 0);
}

static void T10_a_sealed_batch_expires_too(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", ",'ExpiresAfterSeconds':600");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':3}").error == NULL);
    seal(world, "b");
    complete_unit(world, "b", "1", "succeeded");
    world_pass_time(world, 700000);
    expect_status(world, "b", "expired");
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == 0 && completions.other == 0);
    complete_unit(world, "b", "0", "succeeded");
    complete_unit(world, "b", "2", "failed");
    expect_counts(world, "b", 2, 1, 0, 0);
    EXPECT(world, world_count_messages(world, "done") == 0);
}

static void T16_with_failed_units_complete_fires_and_success_does_not(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    send_units_to(world, "frail", "b", 2);
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x']}").error == NULL);
    fail_all(world);
    seal(world, "b");
    expect_counts(world, "b", 0, 2, 0, 1);
    struct completions early = world_drain(world, "done");
    EXPECT(world, early.first_failure == 1 && early.complete == 0 && early.success == 0);
    complete_unit(world, "b", "x", "succeeded");
    expect_status(world, "b", "failed");
    expect_completion(world, "b", false);
    EXPECT(world, world_count_messages(world, "dead") == 2);
    /* The dead ones are worked off by hand: nothing fires again. */
    struct taken dead[2];
    world_hold(world, "dead", 300, 2, dead);
    world_delete(world, "dead", dead[0].handle);
    world_delete(world, "dead", dead[1].handle);
    expect_counts(world, "b", 1, 2, 0, 0);
    EXPECT(world, world_count_messages(world, "done") == 0);
}

/* Moves the dead letters back to where they failed. */
static void redrive(struct world *world)
{
    struct answer answer =
        world_call(world, "StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    world_pass_time(world, 10);
}

static void T16_redriven_units_that_succeed_are_a_success_later_and_once(struct world *world)
{
    static const char *const trackings[] = {"exact", "xor"};
    make_queues(world);
    for (size_t i = 0; i < ARRAY_LENGTH(trackings); i++) {
        const char *batch = trackings[i];
        struct taken held[2];
        char more[40];
        snprintf(more, sizeof(more), ",'Tracking':'%s'", batch);
        make_batch(world, batch, more);
        send_units_to(world, "frail", batch, 2);
        seal(world, batch);
        fail_all(world);
        expect_status(world, batch, "failed");
        struct completions early = world_drain(world, "done");
        EXPECT(world, early.first_failure == 1 && early.complete == 1 && early.success == 0);
        redrive(world);
        expect_counts(world, batch, 0, 0, 0, 2);
        expect_status(world, batch, "failed");
        world_hold(world, "frail", 300, 2, held);
        world_delete(world, "frail", held[0].handle);
        expect_counts(world, batch, 1, 0, 0, 1);
        EXPECT(world, world_count_messages(world, "done") == 0);
        world_delete(world, "frail", held[1].handle);
        expect_counts(world, batch, 2, 0, 0, 0);
        expect_status(world, batch, "succeeded");
        struct completions late = world_drain(world, "done");
        EXPECT(world, late.success == 1 && late.complete == 0 && late.first_failure == 0);
        world_delete(world, "frail", held[1].handle);
        EXPECT(world, world_count_messages(world, "done") == 0);
    }
}

static void T16_a_redriven_unit_may_fail_again(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", "");
    send_units_to(world, "frail", "b", 1);
    seal(world, "b");
    for (unsigned round = 0; round < 3; round++) {
        fail_all(world);
        expect_counts(world, "b", 0, 1, 0, 0);
        expect_status(world, "b", "failed");
        struct completions completions = world_drain(world, "done");
        EXPECT(world, completions.complete == (round == 0) && completions.first_failure == (round == 0));
        EXPECT(world, completions.success == 0);
        redrive(world);
        expect_counts(world, "b", 0, 0, 0, 1);
    }
    world_hold(world, "frail", 300, 1, &held);
    world_delete(world, "frail", held.handle);
    expect_status(world, "b", "succeeded");
    EXPECT(world, world_drain(world, "done").success == 1);
}

static void T16_a_batch_waits_for_a_unit_that_is_redriven_before_the_rest_is_done(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", "");
    send_units_to(world, "frail", "b", 1);
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x']}").error == NULL);
    seal(world, "b");
    fail_all(world);
    redrive(world);
    expect_counts(world, "b", 0, 0, 0, 2);
    complete_unit(world, "b", "x", "succeeded");
    expect_status(world, "b", "");
    world_hold(world, "frail", 300, 1, &held);
    world_delete(world, "frail", held.handle);
    expect_status(world, "b", "succeeded");
    expect_completion(world, "b", true);
}

/* The completion message of "low" is dead-lettered, which fails the unit that "low" is in "top". */
static void T16_a_redriven_completion_message_is_waited_for_again(struct world *world)
{
    static const char *const trackings[] = {"exact", "xor"};
    struct taken held;
    make_queues(world);
    for (size_t i = 0; i < ARRAY_LENGTH(trackings); i++) {
        char more[40], top[16], low[16];
        snprintf(more, sizeof(more), ",'Tracking':'%s'", trackings[i]);
        snprintf(top, sizeof(top), "top-%s", trackings[i]);
        snprintf(low, sizeof(low), "low-%s", trackings[i]);
        make_batch(world, top, more);
        EXPECT(world, world_call(world, "Tally.CreateBatch",
                                 "{'BatchId':'%s','Parent':'%s','OnComplete':{'QueueUrl':'frail'}}", low, top)
                              .error == NULL);
        seal(world, top);
        seal(world, low);
        fail_all(world);
        expect_status(world, top, "failed");
        EXPECT(world, world_drain(world, "done").complete == 1);
        redrive(world);
        expect_counts(world, top, 0, 0, 0, 1);
        world_hold(world, "frail", 300, 1, &held);
        EXPECT(world, strcmp(held.id, answer_text(describe(world, low), "CompletionMessageId")) == 0);
        world_delete(world, "frail", held.handle);
        expect_status(world, top, "succeeded");
        EXPECT(world, world_drain(world, "done").success == 1);
    }
}

static void T16_a_parent_is_told_once_how_its_child_ended(struct world *world)
{
    static const char *const trackings[] = {"exact", "xor"};
    struct taken held;
    make_queues(world);
    for (size_t i = 0; i < ARRAY_LENGTH(trackings); i++) {
        char top[16], low[16];
        snprintf(top, sizeof(top), "top-%s", trackings[i]);
        snprintf(low, sizeof(low), "low-%s", trackings[i]);
        EXPECT(world,
               world_call(world, "Tally.CreateBatch", "{'BatchId':'%s','Tracking':'%s'}", top, trackings[i]).error ==
                   NULL);
        EXPECT(world, world_call(world, "Tally.CreateBatch",
                                 "{'BatchId':'%s','Parent':'%s','OnSuccess':{'QueueUrl':'done'}}", low, top)
                              .error == NULL);
        seal(world, top);
        send_units_to(world, "frail", low, 1);
        seal(world, low);
        fail_all(world);
        expect_status(world, top, "failed");
        redrive(world);
        world_hold(world, "frail", 300, 1, &held);
        world_delete(world, "frail", held.handle);
        expect_status(world, low, "succeeded");
        EXPECT(world, world_drain(world, "done").success == 1);
        expect_counts(world, top, 0, 1, 0, 0);
        expect_status(world, top, "failed");
    }
}

static void T17_a_retry_that_succeeds_last_is_a_success(struct world *world)
{
    struct taken held[2];
    make_queues(world);
    make_batch(world, "b", ",'Total':2");
    send_units(world, "b", 2);
    world_hold(world, "jobs", 30, 2, held);
    world_delete(world, "jobs", held[0].handle);
    give_back(world, "jobs", held[1].handle); /* this attempt failed */
    expect_counts(world, "b", 1, 0, 0, 1);
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_hold(world, "jobs", 30, 1, &held[1]);
    world_delete(world, "jobs", held[1].handle);
    expect_status(world, "b", "succeeded");
    expect_completion(world, "b", true);
}

static void T18_the_last_unit_is_cancelled(struct world *world)
{
    struct taken held[2], none;
    make_queues(world);
    make_batch(world, "b", "");
    send_units(world, "b", 2);
    world_hold(world, "jobs", 300, 2, held);
    world_delete(world, "jobs", held[0].handle);
    struct answer answer = world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}");
    EXPECT(world, answer.error == NULL && strcmp(answer_text(answer, "Status"), "cancelled") == 0);
    expect_counts(world, "b", 1, 0, 1, 0);
    world_delete(world, "jobs", held[1].handle); /* lost its handle */
    expect_counts(world, "b", 1, 0, 1, 0);
    world_pass_time(world, 600000);
    EXPECT(world, world_take(world, "jobs", 30, 1, &none) == 0);
    EXPECT(world, world_count_messages(world, "jobs") == 0);
    answer = world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}"); /* again: the same answer, nothing more */
    EXPECT(world, answer.error == NULL && strcmp(answer_text(answer, "Status"), "cancelled") == 0);
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == 0 && completions.first_failure == 0);
    EXPECT(world, strstr(completions.body, "\"status\":\"cancelled\"") != NULL);
    EXPECT(world, strstr(completions.body, "\"cancelled\":1") != NULL);
}

static void T18_the_last_unit_expires(struct world *world)
{
    make_queues(world);
    world_create_queue(world, "short", "'MessageRetentionPeriod':'60'");
    make_batch(world, "b", ",'Total':1");
    EXPECT(world, world_send(world, "short", "b", "unit").error == NULL);
    world_pass_time(world, 61000);
    expect_status(world, "b", "failed");
    expect_counts(world, "b", 0, 1, 0, 0);
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == 0 && completions.first_failure == 1);
    EXPECT(world, strcmp(completions.order, "fc") == 0);
}

static void T18_the_last_unit_is_purged(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", ",'Total':3");
    send_units(world, "b", 3);
    EXPECT(world, world_call(world, "PurgeQueue", "{'QueueUrl':'jobs'}").error == NULL);
    world_pass_time(world, 1000);
    expect_counts(world, "b", 0, 3, 0, 0);
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == 0 && completions.first_failure == 1);
}

static void delete_queue(struct world *world, const char *queue)
{
    struct answer answer = world_call(world, "DeleteQueue", "{'QueueUrl':'%s'}", queue);
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "QueueDoesNotExist")));
}

static void T18_the_queue_of_the_last_unit_is_deleted(struct world *world)
{
    make_queues(world);
    world_create_queue(world, "brief", "");
    make_batch(world, "b", ",'Total':1");
    EXPECT(world, world_send(world, "brief", "b", "unit").error == NULL);
    EXPECT(world, answer_fails(world_call(world, "DeleteQueue", "{'QueueUrl':'done'}"), "QueueInUse"));
    delete_queue(world, "brief");
    world_pass_time(world, 1000);
    expect_counts(world, "b", 0, 1, 0, 0);
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == 0 && completions.first_failure == 1);
    delete_queue(world, "done");
}

static void T20_the_worker_reports_before_the_server_gives_up(struct world *world)
{
    struct taken held;
    make_queues(world);
    world_create_queue(world, "short", "'MessageRetentionPeriod':'3600'");
    make_batch(world, "b", ",'Total':1");
    EXPECT(world, world_send(world, "short", "b", "unit").error == NULL);
    world_hold(world, "short", 300, 1, &held);
    world_delete(world, "short", held.handle);
    world_pass_time(world, 4000000); /* what would have expired is gone */
    expect_counts(world, "b", 1, 0, 0, 0);
    expect_completion(world, "b", true);
}

static void T20_the_server_gives_up_before_the_worker_reports(struct world *world)
{
    struct taken held;
    make_queues(world);
    world_create_queue(world, "short", "'MessageRetentionPeriod':'3600'");
    make_batch(world, "b", ",'Total':1");
    EXPECT(world, world_send(world, "short", "b", "unit").error == NULL);
    world_hold(world, "short", 300, 1, &held);
    world_pass_time(world, 4000000);
    world_delete(world, "short", held.handle);
    expect_counts(world, "b", 0, 1, 0, 0);
    expect_status(world, "b", "failed");
    expect_completion(world, "b", false);
}

static void T20_a_dead_lettered_unit_is_deleted_by_its_old_holder(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send_units_to(world, "frail", "b", 1);
    world_hold(world, "frail", 1, 1, &held);
    fail_all(world);
    world_delete(world, "frail", held.handle);
    EXPECT(world, world_count_messages(world, "dead") == 1);
    expect_counts(world, "b", 0, 1, 0, 0);
    expect_completion(world, "b", false);
}

static void T26_many_units_die_together(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    send_units_to(world, "frail", "b", 10);
    seal(world, "b");
    fail_all(world);
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.first_failure == 1 && completions.complete == 1 && completions.success == 0);
    EXPECT(world, strcmp(completions.order, "fc") == 0);
    expect_counts(world, "b", 0, 10, 0, 0);
    EXPECT(world, world_count_messages(world, "dead") == 10);
}

static void T26_many_keys_fail_in_one_report(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':4}").error == NULL);
    struct answer answer =
        world_call(world, "Tally.CompleteUnits",
                   "{'BatchId':'b','Units':[{'Unit':'0','Status':'failed','Detail':'no'},{'Unit':'1',"
                   "'Status':'failed'},{'Unit':'2','Status':'failed'}]}");
    EXPECT(world, answer.error == NULL && answer_number(answer, "Remaining") == 1);
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.first_failure == 1 && completions.complete == 0);
    seal(world, "b");
    complete_unit(world, "b", "3", "succeeded");
    expect_completion(world, "b", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T10_an_open_batch_expires_at_its_deadline_and_says_so),
        SCENARIO(T10_a_sealed_batch_expires_too),
        SCENARIO(T16_with_failed_units_complete_fires_and_success_does_not),
        SCENARIO(T16_redriven_units_that_succeed_are_a_success_later_and_once),
        SCENARIO(T16_a_redriven_unit_may_fail_again),
        SCENARIO(T16_a_batch_waits_for_a_unit_that_is_redriven_before_the_rest_is_done),
        SCENARIO(T16_a_redriven_completion_message_is_waited_for_again),
        SCENARIO(T16_a_parent_is_told_once_how_its_child_ended),
        SCENARIO(T17_a_retry_that_succeeds_last_is_a_success),
        SCENARIO(T18_the_last_unit_is_cancelled),
        SCENARIO(T18_the_last_unit_expires),
        SCENARIO(T18_the_last_unit_is_purged),
        SCENARIO(T18_the_queue_of_the_last_unit_is_deleted),
        SCENARIO(T20_the_worker_reports_before_the_server_gives_up),
        SCENARIO(T20_the_server_gives_up_before_the_worker_reports),
        SCENARIO(T20_a_dead_lettered_unit_is_deleted_by_its_old_holder),
        SCENARIO(T26_many_units_die_together),
        SCENARIO(T26_many_keys_fail_in_one_report),
    };
    return cmocka_run_group_tests_name("scenarios of batches that fail", tests, NULL, NULL);
}
