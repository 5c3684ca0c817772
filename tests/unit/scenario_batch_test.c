/* Scenarios T1 to T9, T15 and T19: whoever ends its units, and when, a batch completes exactly once. Units that fail
 * are in scenario_batch_failure_test.c; units that are added and refused, parents and retention in
 * scenario_batch_life_test.c. */
#include "batches.h"

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
    world_delete(world, "jobs", first.handle); /* milliseconds too late, and done all the same */
    expect_counts(world, "b", 1, 0, 0, 0);
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
        SCENARIO(T15_a_batch_of_one_fires),
        SCENARIO(T19_a_postponed_unit_does_not_finish),
    };
    return cmocka_run_group_tests_name("scenarios of batches", tests, NULL, NULL);
}
