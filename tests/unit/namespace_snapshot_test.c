/* What the simulator found about snapshots of a namespace, played by hand. */
#include "scenario.h"
#include <inttypes.h>

/* Time that passes without a frame moves the core's clock, but not the log's: the snapshot's place carries the time of
 * the newest frame, because what the log writes next may be the end of the segment, which repeats that time. */
static void a_snapshot_after_a_quiet_time_at_the_end_of_a_segment_is_no_damage(void **state)
{
    (void)state;
    const struct world_options options = {.segment_size = 16384, .frame_size_max = 2048, .snapshot_bytes = 1};
    struct world *world = world_create(&options);
    world_create_queue(world, "work", "");
    for (unsigned i = 0; i < 60; i++) { /* about three segments: at some turn the end of one follows the snapshot */
        (void)world_send(world, "work", NULL, "one message a frame");
        world->now_ms += 1000;
        struct answer answer = world_call(world, "GetQueueUrl", "{'QueueName':'work'}");
        assert_null(answer.error);
        world_snapshot(world);
        (void)world_send(world, "work", NULL, "the frame behind the snapshot");
        world_stop(world, true);
        world_start(world);
        world_forget(world);
    }
    assert_int_equal(world_count_messages(world, "work"), 120);
    world_destroy(world);
}

/* The position of the newest snapshot; 0: there is none. */
static void note_snapshot(void *context, const char *name)
{
    char *rest;
    const uint64_t position = strtoull(name, &rest, 16);
    if (strcmp(rest, ".snapshot") == 0 && position > *(uint64_t *)context)
        *(uint64_t *)context = position;
}

static uint64_t newest_snapshot(const struct world *world)
{
    uint64_t position = 0;
    assert_int_equal(world->disk->operations->list(world->disk, note_snapshot, &position, NULL), OK);
    return position;
}

/* A snapshot costs as much as it holds. So one is due when the log has grown by twice the last one, also after a
 * restart: with more in it, snapshots are further apart. */
static void a_larger_snapshot_serves_for_longer(void **state)
{
    (void)state;
    const struct world_options options = {.segment_size = 4194304, .snapshot_bytes = 4096, .snapshot_worth = 2};
    struct world *world = world_create(&options);
    world_create_queue(world, "work", "");
    uint64_t last = 0, due = 4096;
    for (unsigned i = 0; i < 800; i++) {
        (void)world_send(world, "work", NULL, "kept");
        if (i % 20 == 0) {
            world_stop(world, true);
            world_start(world);
        }
        world_snapshot(world);
        world_forget(world);
        uint64_t newest = newest_snapshot(world);
        if (newest == last)
            continue;
        assert_in_range(newest - last, due - 256, due + 8192); /* less the file's own framing, plus a few frames */
        char name[40];
        (void)snprintf(name, sizeof(name), "%016" PRIx64 ".snapshot", newest);
        uint64_t worth = 2 * memory_disk_content(world->disk, name).size;
        due = worth > 4096 ? worth : 4096;
        last = newest;
    }
    assert_true(due > 65536);
    world_destroy(world);
}

#define KEPT_COUNT 100u

/* A queue of 100 messages of 400 bytes, in segments of 16 KiB, a frame each, of which a snapshot has been written that
 * has no name yet. */
static struct world *world_with_snapshot_begun(struct taken taken[KEPT_COUNT])
{
    const struct world_options options = {.segment_size = 16384, .frame_size_max = 2048, .snapshot_bytes = 1};
    struct world *world = world_create(&options);
    world_create_queue(world, "work", "'VisibilityTimeout':'5'");
    char body[WORLD_BODY_SIZE] = {0};
    memset(body, 'x', sizeof(body) - 1);
    for (unsigned i = 0; i < KEPT_COUNT; i++)
        (void)world_send(world, "work", NULL, body);
    world_hold(world, "work", 5, KEPT_COUNT, taken);
    assert_int_equal(namespace_snapshot_step(world->ns, true, NULL), OK);
    world_forget(world);
    return world;
}

/* Writing a large one takes many seconds. What came free meanwhile would lie on the disk until the one after has been
 * written, too. */
static void what_ended_while_a_snapshot_was_written_goes_with_it(void **state)
{
    (void)state;
    struct taken taken[KEPT_COUNT];
    struct world *world = world_with_snapshot_begun(taken);
    const size_t before = namespace_usage(world->ns).segments;
    for (unsigned i = 0; i < KEPT_COUNT - 1; i++)
        world_delete(world, "work", taken[i].handle);
    assert_int_equal(namespace_snapshot_step(world->ns, true, NULL), OK);
    assert_true(newest_snapshot(world) > 0);
    assert_true(namespace_usage(world->ns).segments + 2 <= before);
    world_stop(world, true);
    world_start(world);
    world_pass_time(world, 60000);
    assert_int_equal(world_take(world, "work", 5, 10, taken), 1); /* with its body */
    world_destroy(world);
}

/* What says that they ended must be on the disk before they go, or they would wait again, without their bodies. */
static void what_may_not_have_ended_keeps_its_segment(void **state)
{
    (void)state;
    struct taken taken[KEPT_COUNT];
    struct world *world = world_with_snapshot_begun(taken);
    assert_int_equal(namespace_flush(world->ns, NULL), OK); /* the frame of the snapshot is durable */
    const size_t before = namespace_usage(world->ns).segments;
    world_together_begin(world);
    for (unsigned i = 0; i < KEPT_COUNT; i++)
        world_delete(world, "work", taken[i].handle);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(namespace_snapshot_step(world->ns, true, NULL), OK);
    assert_int_equal(newest_snapshot(world), 0);
    assert_int_equal(namespace_usage(world->ns).segments, before);
    assert_true(world_together_end(world));
    assert_int_equal(namespace_snapshot_step(world->ns, true, NULL), OK);
    assert_true(newest_snapshot(world) > 0);
    assert_true(namespace_usage(world->ns).segments + 2 <= before);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_larger_snapshot_serves_for_longer),
        cmocka_unit_test(what_ended_while_a_snapshot_was_written_goes_with_it),
        cmocka_unit_test(what_may_not_have_ended_keeps_its_segment),
        cmocka_unit_test(a_snapshot_after_a_quiet_time_at_the_end_of_a_segment_is_no_damage),
    };
    return cmocka_run_group_tests_name("snapshots of a namespace", tests, NULL, NULL);
}
