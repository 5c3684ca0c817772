/* What the simulator found about snapshots of a namespace, played by hand. */
#include "scenario.h"

/* Time that passes without a frame moves the core's clock, but not the log's: the snapshot's place carries the time of the
 * newest frame, because what the log writes next may be the end of the segment, which repeats that time. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_after_a_quiet_time_at_the_end_of_a_segment_is_no_damage),
    };
    return cmocka_run_group_tests_name("snapshots of a namespace", tests, NULL, NULL);
}
