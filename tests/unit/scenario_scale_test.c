/* Scenario T24: batches of 10,000 and 1,000,000 units, and what it costs to end one. */
#include "core/batches/decide_batch.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/queues/decide_queue.h"
#include "scenario.h"

#include "support/core_rig.h"
#include <time.h>

#define MESSAGES 10000u

static void T24_ten_thousand_workers_finish_in_the_same_moment(void **state)
{
    (void)state;
    static struct taken held[MESSAGES];
    struct world *world =
        world_create(&(struct world_options){.seed = 24, .segment_size = 16u << 20, .frame_size_max = 4u << 20});
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "done", "");
    EXPECT(world,
           world_call(world, "Tally.CreateBatch",
                      "{'BatchId':'b','Total':%u,'OnComplete':{'QueueUrl':'done'},'OnSuccess':{'QueueUrl':'done'}}",
                      MESSAGES)
                   .error == NULL);
    world_together_begin(world);
    for (unsigned i = 0; i < MESSAGES; i++)
        EXPECT(world, world_send(world, "jobs", "b", "unit").error == NULL);
    EXPECT(world, world_together_end(world));
    world_forget(world);
    world_together_begin(world);
    for (unsigned i = 0; i < MESSAGES; i += 10)
        EXPECT(world, world_take(world, "jobs", 300, 10, &held[i]) == 10);
    EXPECT(world, world_together_end(world));
    world_forget(world);
    world_together_begin(world);
    for (unsigned i = 0; i < MESSAGES; i++)
        world_delete(world, "jobs", held[(i * 7919) % MESSAGES].handle);
    EXPECT(world, world_together_end(world));
    world_forget(world);
    struct completions completions = world_drain(world, "done");
    EXPECT(world, completions.complete == 1 && completions.success == 1 && completions.other == 0);
    world_kill(world);
    world_audit(world);
    world_destroy(world);
}

static double processor_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Reports the units from `first` to `end` of batch "b", one at a time; returns the seconds it took. */
static double finish_units(struct core_rig *rig, uint32_t first, uint32_t end, unsigned *completed)
{
    double start = processor_seconds();
    struct core *core = core_rig_begin(rig);
    const struct batch *batch = core_find_batch(core, BYTES("b"));
    for (uint32_t unit = first; unit < end; unit++) {
        char key[12];
        int size = snprintf(key, sizeof(key), "%u", unit);
        struct unit_report report = {.key = bytes_make(key, (size_t)size), .outcome = UNIT_SUCCEEDED};
        uint32_t unknown;
        bool is_completed;
        assert_int_equal(decide_complete_units(core, batch, &report, 1, UINT64_MAX, &unknown, &is_completed), OK);
        assert_true(report.is_recorded);
        *completed += is_completed;
    }
    double seconds = processor_seconds() - start;
    core_rig_end(rig);
    return seconds;
}

#define SAMPLE 1000u

static struct create_batch_command counted_batch(uint32_t total)
{
    return (struct create_batch_command){
        .id = BYTES("b"),
        .spec = {.has_total = true, .total = total, .expires_after_s = 3600, .retention_s = 3600},
    };
}

/* Least seconds to end SAMPLE units of a batch of `total`, which is then ended as a whole. */
static double measure_counted(uint32_t total)
{
    double least = 1e9;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = core_rig_begin(&rig);
    const struct create_batch_command command = counted_batch(total);
    const struct add_units_command add = {.count = total};
    const struct batch *batch;
    uint32_t added;
    unsigned completed = 0;
    assert_int_equal(decide_create_batch(core, &command, &batch), OK);
    assert_int_equal(decide_add_units(core, batch, &add, &added), OK);
    core_rig_end(&rig);
    for (uint32_t unit = 0; unit < total; unit += SAMPLE) {
        assert_int_equal(completed, 0);
        double seconds = finish_units(&rig, unit, unit + SAMPLE, &completed);
        least = seconds < least ? seconds : least;
    }
    assert_int_equal(completed, 1);
    assert_int_equal(core_find_batch(rig.core, BYTES("b"))->status, BATCH_SUCCEEDED);
    core_rig_deinit(&rig);
    return least;
}

static void T24_the_cost_of_a_finish_does_not_depend_on_the_size_of_the_batch(void **state)
{
    (void)state;
    double small = 1e9;
    for (unsigned round = 0; round < 50; round++) {
        double seconds = measure_counted(SAMPLE);
        small = seconds < small ? seconds : small;
    }
    double large = measure_counted(1000000);
    print_message("a finish: %.0f ns of 1,000 units, %.0f ns of 1,000,000\n", small * 1e9 / SAMPLE,
                  large * 1e9 / SAMPLE);
    assert_true(large < small * 4);
}

/* The same with messages: `count` of them, of which SAMPLE are received and deleted. */
static double measure_messages(uint32_t count)
{
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    const struct create_batch_command command = counted_batch(count);
    const struct batch *batch;
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    assert_int_equal(decide_create_batch(core, &command, &batch), OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(core_rig_send(core, queue, BYTES("b"), BYTES("x"), 0), OK);
    core_rig_end(&rig);
    core_rig_begin(&rig);
    double least = 1e9;
    for (unsigned round = 0; round < 10 && round * SAMPLE < count; round++) {
        double start = processor_seconds();
        for (unsigned i = 0; i < SAMPLE; i++) {
            struct received_message message[RECEIVE_MAX];
            char text[HANDLE_TEXT_SIZE];
            unsigned received;
            assert_int_equal(decide_receive(core, queue, 1, 30000, UINT32_MAX, message, &received), OK);
            assert_int_equal(received, 1);
            handle_to_text(core_digest(core), &message[0].handle, text);
            assert_int_equal(decide_delete(core, queue, bytes_make(text, sizeof(text)), NULL), OK);
        }
        double seconds = processor_seconds() - start;
        least = seconds < least ? seconds : least;
    }
    assert_int_equal(batch_counts(batch).succeeded, count < 10 * SAMPLE ? count : 10 * SAMPLE);
    core_rig_end(&rig);
    core_rig_deinit(&rig);
    return least;
}

static void T24_the_cost_of_a_delete_does_not_depend_on_the_size_of_the_batch(void **state)
{
    (void)state;
    double small = 1e9;
    for (unsigned round = 0; round < 10; round++) {
        double seconds = measure_messages(SAMPLE);
        small = seconds < small ? seconds : small;
    }
    double large = measure_messages(200000);
    print_message("receive and delete: %.0f ns of 1,000 messages, %.0f ns of 200,000\n", small * 1e9 / SAMPLE,
                  large * 1e9 / SAMPLE);
    assert_true(large < small * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T24_ten_thousand_workers_finish_in_the_same_moment),
        cmocka_unit_test(T24_the_cost_of_a_finish_does_not_depend_on_the_size_of_the_batch),
        cmocka_unit_test(T24_the_cost_of_a_delete_does_not_depend_on_the_size_of_the_batch),
    };
    return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
