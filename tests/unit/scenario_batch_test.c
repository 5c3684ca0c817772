/* Scenarios T1 to T27: a batch completes exactly once. */
#include "scenario.h"

#include "random.h"

/* Queues "jobs", "frail" (to "dead" after 3 attempts), "dead" and "done". */
static void make_queues(struct world *world)
{
    world_create_queue(world, "done", "");
    world_create_queue(world, "dead", "");
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "frail",
                       "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead\\',"
                       "\\'maxReceiveCount\\':3}'");
}

/* A batch with all three targets in "done". */
static void make_batch(struct world *world, const char *batch, const char *more)
{
    struct answer answer =
        world_call(world, "Tally.CreateBatch",
                   "{'BatchId':'%s','OnComplete':{'QueueUrl':'done'},'OnSuccess':{'QueueUrl':'done'},"
                   "'OnFirstFailure':{'QueueUrl':'done'}%s}",
                   batch, more);
    EXPECT(world, answer.error == NULL);
}

static struct answer seal(struct world *world, const char *batch)
{
    struct answer answer = world_call(world, "Tally.SealBatch", "{'BatchId':'%s'}", batch);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static struct answer describe(struct world *world, const char *batch)
{
    struct answer answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", batch);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static void expect_counts(struct world *world, const char *batch, uint64_t succeeded, uint64_t failed,
                          uint64_t cancelled, uint64_t remaining)
{
    struct answer answer = describe(world, batch);
    EXPECT(world, answer_number(answer, "Total") == succeeded + failed + cancelled + remaining);
    EXPECT(world, answer_number(answer, "Succeeded") == succeeded);
    EXPECT(world, answer_number(answer, "Failed") == failed);
    EXPECT(world, answer_number(answer, "Cancelled") == cancelled);
    EXPECT(world, answer_number(answer, "Remaining") == remaining);
}

static void expect_status(struct world *world, const char *batch, const char *status)
{
    struct answer answer = describe(world, batch);
    EXPECT(world,
           strcmp(answer_text(answer, "State"), status[0] == '\0' ? answer_text(answer, "State") : "completed") == 0);
    EXPECT(world, strcmp(answer_text(answer, "Status"), status) == 0);
}

/* One complete and, if `is_success`, one success behind it; the id is the one DescribeBatch tells. */
static void expect_completion(struct world *world, const char *batch, bool is_success)
{
    struct answer answer = describe(world, batch);
    char id[WORLD_ID_SIZE];
    snprintf(id, sizeof(id), "%s", answer_text(answer, "CompletionMessageId"));
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == is_success && completions.other == 0);
    EXPECT(world, strcmp(completions.id, id) == 0);
    const char *complete = strchr(completions.order, 'c');
    EXPECT(world, !is_success || strcmp(complete, "cs") == 0); /* invariant B12 */
    EXPECT(world, world_count_messages(world, "done") == 0);
}

/* Sends `count` messages of a batch. */
static void send_units_to(struct world *world, const char *queue, const char *batch, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char body[32];
        snprintf(body, sizeof(body), "unit %u", i);
        struct answer answer = world_send(world, queue, batch, body);
        EXPECT(world, answer.error == NULL);
    }
}

static void send_units(struct world *world, const char *batch, unsigned count)
{
    send_units_to(world, "jobs", batch, count);
}

/* Ends an attempt: the message is visible again at once. */
static void give_back(struct world *world, const char *queue, const char *handle)
{
    struct answer answer = world_call(world, "ChangeMessageVisibility",
                                      "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':0}", queue, handle);
    EXPECT(world, answer.error == NULL);
}

/* Receives and gives back what "frail" holds until all of it is in the dead-letter queue. */
static void fail_all(struct world *world)
{
    for (unsigned i = 0; i < 100; i++) {
        struct taken taken[10];
        unsigned count = world_take(world, "frail", 1, 10, taken);
        for (unsigned k = 0; k < count; k++)
            give_back(world, "frail", taken[k].handle);
        if (count == 0 && world_count_messages(world, "frail") == 0)
            return;
        if (count == 0)
            world_pass_time(world, 1000);
    }
    EXPECT(world, false);
}

static struct answer complete_unit(struct world *world, const char *batch, const char *unit, const char *status)
{
    return world_call(world, "Tally.CompleteUnits", "{'BatchId':'%s','Units':[{'Unit':'%s','Status':'%s'}]}", batch,
                      unit, status);
}

/* --- T1 to T9 ------------------------------------------------------------------------------------------------------- */

static void T1_all_workers_delete_in_the_same_frame(struct world *world)
{
    enum { WORKERS = 24 };
    struct taken held[WORKERS];
    make_queues(world);
    make_batch(world, "b", "");
    send_units(world, "b", WORKERS);
    seal(world, "b");
    world_hold(world, "jobs", 300, WORKERS, held);
    do {
        world_together_begin(world);
        for (unsigned i = 0; i < WORKERS; i++)
            world_delete(world, "jobs", held[i].handle);
    } while (!world_together_end(world));
    expect_counts(world, "b", WORKERS, 0, 0, 0);
    expect_completion(world, "b", true);
}

static void T2_two_units_finish_in_overlapping_steps(struct world *world)
{
    struct taken held[2];
    make_queues(world);
    make_batch(world, "b", ",'Total':2");
    send_units(world, "b", 2);
    world_hold(world, "jobs", 300, 2, held);
    do {
        world_together_begin(world);
        struct answer before = describe(world, "b");
        EXPECT(world, before.is_repeat || answer_number(before, "Remaining") == 2);
        world_delete(world, "jobs", held[0].handle);
        struct answer between = describe(world, "b");
        EXPECT(world, between.is_repeat || answer_number(between, "Remaining") == 1);
        world_delete(world, "jobs", held[1].handle);
    } while (!world_together_end(world));
    expect_completion(world, "b", true);
}

static void T3_a_repeated_delete_counts_once(struct world *world)
{
    struct taken held[2];
    make_queues(world);
    make_batch(world, "b", "");
    send_units(world, "b", 2);
    seal(world, "b");
    world_hold(world, "jobs", 300, 2, held);
    for (unsigned i = 0; i < 3; i++) {
        world_delete(world, "jobs", held[0].handle);
        expect_counts(world, "b", 1, 0, 0, 1);
    }
    EXPECT(world, world_count_messages(world, "done") == 0);
    for (unsigned i = 0; i < 3; i++)
        world_delete(world, "jobs", held[1].handle);
    expect_counts(world, "b", 2, 0, 0, 0);
    expect_completion(world, "b", true);
}

static void T3_a_repeated_report_by_key_counts_once(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x','y']}").error == NULL);
    seal(world, "b");
    complete_unit(world, "b", "x", "succeeded");
    struct answer again = complete_unit(world, "b", "x", "failed");
    yyjson_val *result = yyjson_arr_get_first(yyjson_obj_get(again.root, "Results"));
    EXPECT(world, yyjson_is_false(yyjson_obj_get(result, "Recorded")));
    EXPECT(world, answer_number(again, "Remaining") == 1 && !answer_is_true(again, "Completed"));
    expect_counts(world, "b", 1, 0, 0, 1);
    struct answer last = complete_unit(world, "b", "y", "succeeded");
    EXPECT(world, last.is_repeat || answer_is_true(last, "Completed"));
    EXPECT(world, !answer_is_true(complete_unit(world, "b", "y", "succeeded"), "Completed"));
    expect_completion(world, "b", true);
}

static void T4_a_second_delete_after_the_action_is_refused(struct world *world)
{
    struct taken first, second;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send_units(world, "b", 1);
    world_hold(world, "jobs", 30, 1, &first);
    world_pass_time(world, 61000);
    world_hold(world, "jobs", 30, 1, &second);
    EXPECT(world, strcmp(first.id, second.id) == 0 && strcmp(first.handle, second.handle) != 0);
    world_delete(world, "jobs", second.handle);
    expect_completion(world, "b", true);
    world_delete(world, "jobs", first.handle);
    world_delete(world, "jobs", second.handle);
    expect_counts(world, "b", 1, 0, 0, 0);
    EXPECT(world, world_count_messages(world, "done") == 0);
}

static void T5_a_unit_given_back_and_finished_all_the_same(struct world *world)
{
    struct taken first, second;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send_units(world, "b", 1);
    world_hold(world, "jobs", 300, 1, &first);
    give_back(world, "jobs", first.handle);
    world_hold(world, "jobs", 300, 1, &second);
    world_delete(world, "jobs", first.handle); /* milliseconds too late: no longer its own */
    expect_counts(world, "b", 0, 0, 0, 1);
    world_delete(world, "jobs", second.handle);
    world_delete(world, "jobs", first.handle);
    expect_counts(world, "b", 1, 0, 0, 0);
    expect_completion(world, "b", true);
}

static void T5_a_unit_given_back_and_finished_before_anyone_else_has_it(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send_units(world, "b", 1);
    world_hold(world, "jobs", 300, 1, &held);
    give_back(world, "jobs", held.handle);
    world_delete(world, "jobs", held.handle); /* still the newest handle */
    EXPECT(world, world_take(world, "jobs", 30, 1, &held) == 0);
    expect_completion(world, "b", true);
}

static void T6_a_worker_dies_with_the_last_unit(struct world *world)
{
    struct taken first, second;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send_units(world, "b", 1);
    world_hold(world, "jobs", 30, 1, &first);
    world_pass_time(world, 31000); /* invariant R1: the timeout plus one second at most */
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_hold(world, "jobs", 30, 1, &second);
    EXPECT(world, strcmp(first.id, second.id) == 0 && second.receive_count > 1);
    world_delete(world, "jobs", second.handle);
    expect_completion(world, "b", true);
}

static void T7_server_dies_between_unit_and_event_completion_fires_once(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send_units(world, "b", 1);
    world_hold(world, "jobs", 300, 1, &held);
    world_kill(world);
    world_delete(world, "jobs", held.handle);
    world_kill(world);
    expect_counts(world, "b", 1, 0, 0, 0);
    expect_completion(world, "b", true);
    world_kill(world);
    EXPECT(world, world_count_messages(world, "done") == 0);
}

/* The sectors in which a file differs on two disks. */
struct sectors {
    size_t first;
    size_t count;
};

#define SECTOR_SIZE 512u

static struct sectors find_difference(struct disk *before, struct disk *after, const char *name)
{
    struct bytes a = memory_disk_content(before, name), b = memory_disk_content(after, name);
    assert_int_equal(a.size, b.size);
    size_t first = 0, end = a.size;
    while (first < end && a.ptr[first] == b.ptr[first])
        first++;
    while (end > first && a.ptr[end - 1] == b.ptr[end - 1])
        end--;
    assert_true(first < end);
    first /= SECTOR_SIZE;
    return (struct sectors){.first = first, .count = (end + SECTOR_SIZE - 1) / SECTOR_SIZE - first};
}

#define SEGMENT_NAME "0000000000000000.segment"

/* A copy of the disk `before` to whose segment those sectors of `after` have come that `kept` has bits for. */
static struct disk *tear(struct disk *before, struct disk *after, struct sectors sectors, unsigned kept)
{
    struct bytes old = memory_disk_content(before, SEGMENT_NAME);
    uint8_t *content = malloc(old.size);
    assert_non_null(content);
    memcpy(content, old.ptr, old.size);
    for (size_t i = 0; i < sectors.count; i++) {
        size_t at = (sectors.first + i) * SECTOR_SIZE;
        if ((kept >> i & 1) != 0)
            memcpy(content + at, memory_disk_content(after, SEGMENT_NAME).ptr + at, SECTOR_SIZE);
    }
    struct disk *torn = memory_disk_clone(before, kept);
    memory_disk_put(torn, SEGMENT_NAME, bytes_make(content, old.size));
    free(content);
    return torn;
}

/* Plays the rest of T7 on a disk whose last frame is torn or whole. */
static void finish_torn(struct world *world, struct disk *torn, const struct taken *held, bool is_whole)
{
    world->disk = torn;
    world_start(world);
    core_check(world_core(world));
    struct answer answer = describe(world, "b");
    EXPECT(world, (strcmp(answer_text(answer, "State"), "completed") == 0) == is_whole);
    EXPECT(world, world_count_messages(world, "done") == (is_whole ? 2 : 0));
    world_delete(world, "jobs", held->handle); /* the reply was lost either way */
    expect_completion(world, "b", true);
    world_audit(world);
    world_forget(world);
    world_stop(world, false);
}

static void T7_the_frame_of_the_finish_is_torn_in_every_way(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 7});
    struct taken held;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send_units(world, "b", 1);
    world_hold(world, "jobs", 300, 1, &held);
    struct disk *disk = world->disk;
    struct disk *before = memory_disk_clone(disk, 1);
    world_delete(world, "jobs", held.handle);
    world_stop(world, false);
    /* A disk writes a sector whole or not at all, in any order: every set of them may have arrived. */
    struct sectors sectors = find_difference(before, disk, SEGMENT_NAME);
    assert_in_range(sectors.count, 2, 12);
    for (unsigned kept = 0; kept < 1u << sectors.count; kept++) {
        struct disk *torn = tear(before, disk, sectors, kept);
        finish_torn(world, torn, &held, kept == (1u << sectors.count) - 1);
        memory_disk_destroy(torn);
    }
    world->disk = disk;
    memory_disk_destroy(before);
    world_destroy(world);
}

static void T8_nothing_fires_before_the_last_units_are_added(struct world *world)
{
    struct taken held[2];
    make_queues(world);
    make_batch(world, "b", "");
    send_units(world, "b", 2);
    world_hold(world, "jobs", 300, 2, held);
    world_delete(world, "jobs", held[0].handle);
    world_delete(world, "jobs", held[1].handle);
    world_pass_time(world, 3600000);
    expect_counts(world, "b", 2, 0, 0, 0);
    expect_status(world, "b", "");
    EXPECT(world, world_count_messages(world, "done") == 0);
    send_units(world, "b", 1);
    seal(world, "b");
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_hold(world, "jobs", 300, 1, held);
    world_delete(world, "jobs", held[0].handle);
    expect_completion(world, "b", true);
}

static void T9_the_seal_that_comes_last_fires(struct world *world)
{
    struct taken held[2];
    make_queues(world);
    make_batch(world, "b", "");
    send_units(world, "b", 2);
    world_hold(world, "jobs", 300, 2, held);
    world_delete(world, "jobs", held[0].handle);
    world_delete(world, "jobs", held[1].handle);
    EXPECT(world, world_count_messages(world, "done") == 0);
    struct answer first = seal(world, "b");
    EXPECT(world, first.is_repeat || answer_is_true(first, "Completed"));
    EXPECT(world, strcmp(answer_text(first, "State"), "completed") == 0 && answer_number(first, "Remaining") == 0);
    struct answer second = seal(world, "b"); /* invariant B8 */
    EXPECT(world, !answer_is_true(second, "Completed") && strcmp(answer_text(second, "State"), "completed") == 0);
    expect_completion(world, "b", true);
}

/* --- T10 to T18 ----------------------------------------------------------------------------------------------------- */

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

static void T15_a_batch_of_one_fires(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", "");
    send_units(world, "b", 1);
    seal(world, "b");
    world_hold(world, "jobs", 300, 1, &held);
    world_delete(world, "jobs", held.handle);
    expect_completion(world, "b", true);
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

/* --- T19 to T27 ----------------------------------------------------------------------------------------------------- */

static void T19_a_postponed_unit_does_not_finish(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    EXPECT(world, world_send(world, "jobs", "b", "unit").error == NULL);
    world_hold(world, "jobs", 30, 1, &held);
    struct answer answer = world_call(world, "ChangeMessageVisibility",
                                      "{'QueueUrl':'jobs','ReceiptHandle':'%s','VisibilityTimeout':3600}", held.handle);
    EXPECT(world, answer.error == NULL);
    world_pass_time(world, 3000000);
    EXPECT(world, world_count_messages(world, "done") == 0);
    expect_counts(world, "b", 0, 0, 0, 1);
    world_pass_time(world, 3000000);
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_hold(world, "jobs", 30, 1, &held);
    world_delete(world, "jobs", held.handle);
    expect_completion(world, "b", true);
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
        SCENARIO(T1_all_workers_delete_in_the_same_frame),
        SCENARIO(T2_two_units_finish_in_overlapping_steps),
        SCENARIO(T3_a_repeated_delete_counts_once),
        SCENARIO(T3_a_repeated_report_by_key_counts_once),
        SCENARIO(T4_a_second_delete_after_the_action_is_refused),
        SCENARIO(T5_a_unit_given_back_and_finished_all_the_same),
        SCENARIO(T5_a_unit_given_back_and_finished_before_anyone_else_has_it),
        SCENARIO(T6_a_worker_dies_with_the_last_unit),
        SCENARIO(T7_server_dies_between_unit_and_event_completion_fires_once),
        cmocka_unit_test(T7_the_frame_of_the_finish_is_torn_in_every_way),
        SCENARIO(T8_nothing_fires_before_the_last_units_are_added),
        SCENARIO(T9_the_seal_that_comes_last_fires),
        SCENARIO(T10_an_open_batch_expires_at_its_deadline_and_says_so),
        SCENARIO(T10_a_sealed_batch_expires_too),
        SCENARIO(T11_an_add_that_fails_leaves_nothing_behind),
        SCENARIO(T12_a_unit_adds_units_to_its_own_batch),
        SCENARIO(T13_a_sealed_or_finished_batch_refuses_units),
        SCENARIO(T14_an_empty_batch_completes_in_its_seal),
        SCENARIO(T14_a_total_of_zero_completes_at_once),
        SCENARIO(T15_a_batch_of_one_fires),
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
        SCENARIO(T19_a_postponed_unit_does_not_finish),
        SCENARIO(T20_the_worker_reports_before_the_server_gives_up),
        SCENARIO(T20_the_server_gives_up_before_the_worker_reports),
        SCENARIO(T20_a_dead_lettered_unit_is_deleted_by_its_old_holder),
        SCENARIO(T21_nested_batches_fire_child_first),
        SCENARIO(T21_a_failure_goes_up_once_for_each_ancestor),
        SCENARIO(T21_a_child_without_a_message_ends_its_unit_at_once),
        SCENARIO(T21_a_dead_lettered_completion_message_fails_the_parents_unit),
        SCENARIO(T21_a_purged_completion_message_fails_the_parents_unit),
        SCENARIO(T22_the_handler_of_the_action_adds_units),
        SCENARIO(T23_retention_never_comes_before_the_action),
        SCENARIO(T23_retention_waits_for_a_slow_unit_and_a_dead_one),
        SCENARIO(T23_deleting_a_batch_leaves_its_action_alone),
        SCENARIO(T26_many_units_die_together),
        SCENARIO(T26_many_keys_fail_in_one_report),
    };
    return cmocka_run_group_tests_name("scenarios of batches", tests, NULL, NULL);
}
