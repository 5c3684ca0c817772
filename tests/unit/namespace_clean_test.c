/* The cleaner in a namespace, step by step: what lives in mostly dead segments moves, the segments go, and what is
 * damaged stays. */
#include "scenario.h"

#define SEGMENT 65536u
#define BODY 300

static struct world *make_world(void)
{
    const struct world_options options = {
        .segment_size = SEGMENT, .frame_size_max = 8192, .snapshot_bytes = 1, .cleans_eagerly = true};
    struct world *world = world_create(&options);
    world_create_queue(world, "kept", "");
    world_create_queue(world, "gone", "");
    return world;
}

static void send_one(struct world *world, const char *queue, unsigned number)
{
    char body[BODY + 1];
    (void)snprintf(body, sizeof(body), "message %0*u", BODY - 8, number);
    (void)world_send(world, queue, NULL, body);
}

/* One message of ten stays. About four segments. */
static unsigned fill(struct world *world)
{
    for (unsigned i = 0; i < 500; i++) {
        send_one(world, i % 10 == 0 ? "kept" : "gone", i);
        struct taken taken;
        if (i % 10 != 0 && world_take(world, "gone", 30, 1, &taken) == 1)
            world_delete(world, "gone", taken.handle);
        if (i % 50 == 0)
            world_forget(world);
    }
    return 50;
}

static void flush(struct world *world)
{
    struct failure failure;
    assert_int_equal(namespace_flush(world->ns, &failure), OK);
}

/* Cleans until nothing is left to do, a piece in a millisecond. How many failures were told. */
static unsigned clean(struct world *world)
{
    unsigned failures = 0;
    for (unsigned ms = 0; ms < 500; ms++) {
        world->now_ms++;
        struct failure failure = {.error = OK};
        if (namespace_disk_step(world->ns, world->now_ms, &failure) != OK) {
            assert_int_equal(failure.error, ERROR_LOG_DAMAGED);
            assert_non_null(strstr(failure.text, "0000000000000000.segment"));
            failures++;
        }
        flush(world);
    }
    return failures;
}

static void expect_kept(struct world *world, unsigned count)
{
    struct taken taken[10];
    for (unsigned next = 0; next < count;) {
        unsigned got = world_take(world, "kept", 3600, 10, taken);
        assert_true(got > 0);
        for (unsigned i = 0; i < got; i++, next++)
            assert_int_equal(strtoul(taken[i].body + 8, NULL, 10), next * 10);
        world_forget(world);
    }
}

static void what_lives_in_mostly_dead_segments_moves_and_they_go(void **state)
{
    (void)state;
    struct world *world = make_world();
    unsigned count = fill(world);
    assert_true(namespace_usage(world->ns).segments >= 4);
    assert_int_equal(clean(world), 0);
    struct namespace_usage usage = namespace_usage(world->ns);
    assert_true(usage.cleaning_rounds >= 1 && usage.moved_bytes >= (uint64_t)count * 3 / 4 * BODY);
    assert_int_equal(namespace_disk_due_ms(world->ns), UINT64_MAX);
    world_snapshot(world);
    assert_true(namespace_usage(world->ns).segments <= 2);
    assert_false(memory_disk_has(world->disk, "0000000000000000.segment"));
    world_stop(world, true);
    world_start(world);
    expect_kept(world, count);
    world_destroy(world);
}

/* Moved contents are as durable as their frame: before it is, the old place is what a restart finds. */
static void a_crash_before_the_frame_is_durable_finds_the_old_place(void **state)
{
    (void)state;
    struct world *world = make_world();
    unsigned count = fill(world);
    struct failure failure;
    for (unsigned i = 0; i < 20; i++) {
        world->now_ms++;
        assert_int_equal(namespace_disk_step(world->ns, world->now_ms, &failure), OK);
    }
    assert_true(namespace_usage(world->ns).moved_bytes > 0);
    memory_disk_fail_after(world->disk, 0, MEMORY_DISK_STOP);
    world_stop(world, true);
    world_start(world);
    assert_true(memory_disk_has(world->disk, "0000000000000000.segment"));
    expect_kept(world, count);
    world_destroy(world);
}

static void one_millisecond_has_one_piece(void **state)
{
    (void)state;
    struct world *world = make_world();
    (void)fill(world);
    world->now_ms++;
    struct failure failure;
    assert_int_equal(namespace_disk_step(world->ns, world->now_ms, &failure), OK);
    uint64_t moved_bytes = namespace_usage(world->ns).moved_bytes;
    assert_true(moved_bytes > 0);
    flush(world);
    assert_int_equal(namespace_disk_step(world->ns, world->now_ms, &failure), OK);
    assert_int_equal(namespace_usage(world->ns).moved_bytes, moved_bytes);
    world_destroy(world);
}

/* The bit of a body that the first segment holds. */
static void damage_first_kept(struct world *world)
{
    struct bytes segment = memory_disk_content(world->disk, "0000000000000000.segment");
    const uint8_t *at = memmem(segment.ptr, segment.size, "message 000", 11);
    assert_non_null(at);
    memory_disk_flip_bit(world->disk, "0000000000000000.segment", (uint64_t)(at + 20 - segment.ptr) * 8);
}

static void a_damaged_content_is_told_once_and_keeps_its_segment(void **state)
{
    (void)state;
    struct world *world = make_world();
    (void)fill(world);
    damage_first_kept(world);
    assert_int_equal(clean(world), 1);
    assert_int_equal(clean(world), 0);
    world_snapshot(world);
    assert_true(memory_disk_has(world->disk, "0000000000000000.segment"));
    assert_true(namespace_usage(world->ns).segments <= 3);
    world_destroy(world);
}

/* An unreadable sector: that message is not delivered, the others are, and the cleaner goes on. */
static void a_content_that_the_disk_does_not_give_is_one_message(void **state)
{
    (void)state;
    struct world *world = make_world();
    (void)fill(world);
    const struct bytes segment = memory_disk_content(world->disk, "0000000000000000.segment");
    const uint8_t *at = memmem(segment.ptr, segment.size, "message 000", 11);
    assert_non_null(at);
    memory_disk_make_unreadable(world->disk, "0000000000000000.segment", (uint64_t)(at - segment.ptr));
    assert_int_equal(clean(world), 1);
    world_snapshot(world);
    world_stop(world, true);
    world_start(world);
    struct taken taken[10];
    assert_int_equal(world_take(world, "kept", 3600, 10, taken), 9);
    assert_int_equal(strtoul(taken[0].body + 8, NULL, 10), 10);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lives_in_mostly_dead_segments_moves_and_they_go),
        cmocka_unit_test(a_crash_before_the_frame_is_durable_finds_the_old_place),
        cmocka_unit_test(one_millisecond_has_one_piece),
        cmocka_unit_test(a_damaged_content_is_told_once_and_keeps_its_segment),
        cmocka_unit_test(a_content_that_the_disk_does_not_give_is_one_message),
    };
    return cmocka_run_group_tests_name("cleaning", tests, NULL, NULL);
}
