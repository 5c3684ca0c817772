/* Scenarios T11 to T14 and T21 to T23: what belongs to a batch, and how long there is one: units that are added and
 * refused, batches without any, parents and children, retention. */
#include "batches.h"

static void T11_an_add_that_fails_leaves_nothing_behind(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", ",'Total':3");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['a','b']}").error == NULL);
    struct answer over = world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['c','d']}");
    EXPECT(world, answer_fails(over, "BatchTotalExceeded"));
    EXPECT(world, answer_fails(world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':5}"), "BatchTotalExceeded"));
    EXPECT(world, answer_fails(world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['c',7]}"),
                               "SerializationException"));
    expect_counts(world, "b", 0, 0, 0, 2);
    /* Of a message batch, each entry is a record of its own: what was enqueued is a unit, what was refused is none. */
    struct answer many = {0};
    const uint64_t sent = core_metrics(world_core(world)).sent;
    while (!world_try(world, &many, "SendMessageBatch",
                      "{'QueueUrl':'jobs','Entries':[{'Id':'1','MessageBody':'x','MessageAttributes':{'Tally.Batch':"
                      "{'DataType':'String','StringValue':'b'}}},{'Id':'2','MessageBody':'y','MessageAttributes':"
                      "{'Tally.Batch':{'DataType':'String','StringValue':'b'}}}]}"))
        if (core_metrics(world_core(world)).sent > sent)
            break;
    EXPECT(world, many.root == NULL || (yyjson_arr_size(yyjson_obj_get(many.root, "Successful")) == 1 &&
                                        yyjson_arr_size(yyjson_obj_get(many.root, "Failed")) == 1));
    EXPECT(world, world_count_messages(world, "jobs") == 1);
    expect_counts(world, "b", 0, 0, 0, 3);
    struct taken held;
    world_hold(world, "jobs", 300, 1, &held);
    world_delete(world, "jobs", held.handle);
    EXPECT(world,
           world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'a'},{'Unit':'b'}]}").error ==
               NULL);
    expect_completion(world, "b", true);
}

static void T12_a_unit_adds_units_to_its_own_batch(struct world *world)
{
    struct taken parent, children[2];
    make_queues(world);
    make_batch(world, "b", "");
    send_units(world, "b", 1);
    world_hold(world, "jobs", 300, 1, &parent);
    send_units(world, "b", 2);
    world_delete(world, "jobs", parent.handle);
    seal(world, "b");
    EXPECT(world, world_count_messages(world, "done") == 0);
    expect_counts(world, "b", 1, 0, 0, 2);
    world_hold(world, "jobs", 300, 2, children);
    world_delete(world, "jobs", children[0].handle);
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_delete(world, "jobs", children[1].handle);
    expect_completion(world, "b", true);
}

static void expect_refuses_units(struct world *world, const char *batch)
{
    const uint64_t sent = core_metrics(world_core(world)).sent;
    EXPECT(world, answer_fails(world_send(world, "jobs", batch, "late"), "BatchSealed"));
    EXPECT(world, answer_fails(world_call(world, "Tally.AddUnits", "{'BatchId':'%s','Units':['late']}", batch),
                               "BatchSealed"));
    EXPECT(world,
           answer_fails(world_call(world, "Tally.AddUnits", "{'BatchId':'%s','Count':50}", batch), "BatchSealed"));
    EXPECT(world, answer_fails(world_call(world, "Tally.CreateBatch", "{'BatchId':'late','Parent':'%s'}", batch),
                               "BatchSealed"));
    EXPECT(world, core_metrics(world_core(world)).sent == sent);
    EXPECT(world, answer_fails(world_call(world, "Tally.DescribeBatch", "{'BatchId':'late'}"), "BatchDoesNotExist"));
}

static void T13_a_sealed_or_finished_batch_refuses_units(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x']}").error == NULL);
    seal(world, "b");
    expect_refuses_units(world, "b");
    complete_unit(world, "b", "x", "succeeded");
    expect_refuses_units(world, "b");
    expect_counts(world, "b", 1, 0, 0, 0);
    expect_completion(world, "b", true);
    EXPECT(world, world_count_messages(world, "jobs") == 0);
}

static void T14_an_empty_batch_completes_in_its_seal(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    struct answer answer = seal(world, "b");
    EXPECT(world, answer.is_repeat || answer_is_true(answer, "Completed"));
    expect_status(world, "b", "succeeded");
    expect_counts(world, "b", 0, 0, 0, 0);
    expect_completion(world, "b", true);
}

static void T14_a_total_of_zero_completes_at_once(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", ",'Total':0");
    expect_status(world, "b", "succeeded");
    expect_completion(world, "b", true);
}

/* --- parents and children ----------------------------------------------------------------------------------------- */

static void T21_nested_batches_fire_child_first(struct world *world)
{
    struct taken taken;
    make_queues(world);
    make_batch(world, "top", "");
    make_batch(world, "middle", ",'Parent':'top'");
    make_batch(world, "low", ",'Parent':'middle'");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'low','Units':['x']}").error == NULL);
    seal(world, "top");
    seal(world, "middle");
    seal(world, "low");
    expect_counts(world, "top", 0, 0, 0, 1);
    complete_unit(world, "low", "x", "succeeded");
    static const char *const batches[] = {"low", "middle", "top"};
    for (unsigned i = 0; i < 3; i++) {
        /* The completion message of this level is the unit that the next one waits for. */
        for (unsigned k = i + 1; k < 3; k++)
            expect_counts(world, batches[k], 0, 0, 0, 1);
        EXPECT(world, world_count_messages(world, "done") == 2);
        for (unsigned k = 0; k < 2; k++) {
            world_hold(world, "done", 300, 1, &taken);
            EXPECT(world, strcmp(taken.of_batch, batches[i]) == 0);
            EXPECT(world,
                   k == 1 || i == 2 || world_count_messages(world, "done") == 2); /* in flight: nothing above fires */
            world_delete(world, "done", taken.handle);
            if (k == 0 && i < 2) /* the success of this level, then complete and success of the next */
                EXPECT(world, world_count_messages(world, "done") == 3);
            if (k == 0 && strcmp(taken.event, "complete") != 0)
                EXPECT(world, false);
        }
        expect_status(world, batches[i], "succeeded");
    }
    EXPECT(world, world_count_messages(world, "done") == 0);
}

static void T21_a_failure_goes_up_once_for_each_ancestor(struct world *world)
{
    make_queues(world);
    make_batch(world, "top", "");
    make_batch(world, "middle", ",'Parent':'top'");
    make_batch(world, "low", ",'Parent':'middle'");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'low','Count':3}").error == NULL);
    seal(world, "top");
    seal(world, "middle");
    seal(world, "low");
    complete_unit(world, "low", "0", "failed");
    EXPECT(world, world_count_messages(world, "done") == 3);
    complete_unit(world, "low", "1", "failed");
    EXPECT(world, world_count_messages(world, "done") == 3);
    complete_unit(world, "low", "2", "succeeded");
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.first_failure == 3 && completions.complete == 3 && completions.success == 0);
    expect_status(world, "top", "failed");
    expect_counts(world, "top", 0, 1, 0, 0);
}

static void T21_a_child_without_a_message_ends_its_unit_at_once(struct world *world)
{
    make_queues(world);
    make_batch(world, "top", "");
    EXPECT(world, world_call(world, "Tally.CreateBatch", "{'BatchId':'low','Parent':'top'}").error == NULL);
    seal(world, "top");
    EXPECT(world, world_count_messages(world, "done") == 0);
    seal(world, "low");
    expect_completion(world, "top", true);
}

static void T21_a_dead_lettered_completion_message_fails_the_parents_unit(struct world *world)
{
    make_queues(world);
    make_batch(world, "top", "");
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'low','Parent':'top','OnComplete':{'QueueUrl':'frail'}}")
                   .error == NULL);
    seal(world, "top");
    seal(world, "low");
    expect_counts(world, "top", 0, 0, 0, 1);
    fail_all(world);
    expect_status(world, "low", "succeeded");
    expect_status(world, "top", "failed");
    expect_completion(world, "top", false);
}

static void T21_a_purged_completion_message_fails_the_parents_unit(struct world *world)
{
    make_queues(world);
    world_create_queue(world, "steps", "");
    make_batch(world, "top", "");
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'low','Parent':'top','OnSuccess':{'QueueUrl':'steps'}}")
                   .error == NULL);
    seal(world, "top");
    seal(world, "low");
    expect_counts(world, "top", 0, 0, 0, 1); /* no OnComplete: its success is what the parent waits for */
    EXPECT(world, world_call(world, "PurgeQueue", "{'QueueUrl':'steps'}").error == NULL);
    world_pass_time(world, 1);
    expect_counts(world, "top", 0, 1, 0, 0);
    expect_completion(world, "top", false);
}

/* --- after the action --------------------------------------------------------------------------------------------- */

static void T22_the_handler_of_the_action_adds_units(struct world *world)
{
    struct taken action;
    make_queues(world);
    make_batch(world, "b", "");
    seal(world, "b");
    world_hold(world, "done", 300, 1, &action);
    expect_refuses_units(world, "b");
    world_delete(world, "done", action.handle);
    expect_counts(world, "b", 0, 0, 0, 0);
    struct completions rest = world_drain(world, "done");
    EXPECT(world, rest.complete == 0 && rest.success == 1);
}

static void T23_retention_never_comes_before_the_action(struct world *world)
{
    struct taken action;
    make_queues(world);
    EXPECT(world, world_call(world, "Tally.CreateBatch",
                             "{'BatchId':'b','RetentionSeconds':0,'OnComplete':{'QueueUrl':"
                             "'done'}}")
                          .error == NULL);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'b'}").error == NULL);
    world_pass_time(world, 3600000);
    expect_status(world, "b", "succeeded");
    world_hold(world, "done", 300, 1, &action);
    world_pass_time(world, 100000);
    expect_status(world, "b", "succeeded");
    world_delete(world, "done", action.handle);
    world_pass_time(world, 1);
    EXPECT(world, answer_fails(world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}"), "BatchDoesNotExist"));
    EXPECT(world, core_metrics(world_core(world)).batches == 0);
}

static void T23_retention_waits_for_a_slow_unit_and_a_dead_one(struct world *world)
{
    struct taken held;
    make_queues(world);
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'b','RetentionSeconds':60,'ExpiresAfterSeconds':60}")
                   .error == NULL);
    send_units_to(world, "frail", "b", 1);
    world_pass_time(world, 1000000); /* expired, and long past its retention, but for the unit that lives */
    expect_status(world, "b", "expired");
    fail_all(world);
    world_pass_time(world, 1000000);
    expect_counts(world, "b", 0, 1, 0, 0);
    world_hold(world, "dead", 300, 1, &held);
    world_delete(world, "dead", held.handle);
    world_pass_time(world, 59000);
    expect_status(world, "b", "expired");
    world_pass_time(world, 2000);
    EXPECT(world, answer_fails(world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}"), "BatchDoesNotExist"));
}

static void T23_deleting_a_batch_leaves_its_action_alone(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, answer_fails(world_call(world, "Tally.DeleteBatch", "{'BatchId':'b'}"), "BatchNotCompleted"));
    seal(world, "b");
    struct answer answer = world_call(world, "Tally.DeleteBatch", "{'BatchId':'b'}");
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "BatchDoesNotExist")));
    EXPECT(world, core_metrics(world_core(world)).batches == 1); /* pinned by its messages */
    /* The id is free at once, and the new batch's action is another one (2.2). */
    make_batch(world, "b", "");
    seal(world, "b");
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 2 && completions.success == 2);
    EXPECT(world, strcmp(completions.id, answer_text(describe(world, "b"), "CompletionMessageId")) == 0);
    EXPECT(world, core_metrics(world_core(world)).batches == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T11_an_add_that_fails_leaves_nothing_behind),
        SCENARIO(T12_a_unit_adds_units_to_its_own_batch),
        SCENARIO(T13_a_sealed_or_finished_batch_refuses_units),
        SCENARIO(T14_an_empty_batch_completes_in_its_seal),
        SCENARIO(T14_a_total_of_zero_completes_at_once),
        SCENARIO(T21_nested_batches_fire_child_first),
        SCENARIO(T21_a_failure_goes_up_once_for_each_ancestor),
        SCENARIO(T21_a_child_without_a_message_ends_its_unit_at_once),
        SCENARIO(T21_a_dead_lettered_completion_message_fails_the_parents_unit),
        SCENARIO(T21_a_purged_completion_message_fails_the_parents_unit),
        SCENARIO(T22_the_handler_of_the_action_adds_units),
        SCENARIO(T23_retention_never_comes_before_the_action),
        SCENARIO(T23_retention_waits_for_a_slow_unit_and_a_dead_one),
        SCENARIO(T23_deleting_a_batch_leaves_its_action_alone),
    };
    return cmocka_run_group_tests_name("scenarios of the life of batches", tests, NULL, NULL);
}
