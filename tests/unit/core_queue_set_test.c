/* Which queues a batch and a publisher have had to do with: the set itself, and how it comes about. */
#include "core/batches/decide_batch.h"
#include "core/queues/decide_queue.h"
#include "core/queues/queue_set.h"

#include "support/core_bytes.h"
#include "support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect_decoded_is_same(const struct queue_set *set)
{
    struct buffer encoded, again;
    buffer_init(&encoded);
    buffer_init(&again);
    struct queue_set decoded = {0};
    queue_set_encode(set, &encoded);
    struct cursor cursor = cursor_make(buffer_bytes(&encoded));
    assert_true(queue_set_decode(&decoded, UINT32_MAX, &cursor) && cursor_is_done(&cursor));
    queue_set_encode(&decoded, &again);
    assert_true(bytes_equal(buffer_bytes(&encoded), buffer_bytes(&again)));
    queue_set_deinit(&decoded);
    buffer_deinit(&again);
    buffer_deinit(&encoded);
}

static void a_set_holds_what_was_added_whatever_the_order(void **state)
{
    (void)state;
    struct queue_set set = {0};
    for (uint32_t i = 0; i < QUEUE_SET_MAX; i++) {
        uint32_t id = i * 7 % QUEUE_SET_MAX + 1;
        assert_false(queue_set_has(&set, id));
        assert_true(queue_set_add(&set, id));
        assert_false(queue_set_add(&set, id));
        assert_int_equal(set.count, i + 1);
        expect_decoded_is_same(&set);
    }
    for (uint32_t i = 0; i < QUEUE_SET_MAX; i++)
        assert_int_equal(queue_set_ids(&set)[i], i + 1);
    assert_false(queue_set_has(&set, QUEUE_SET_MAX + 1));
    queue_set_deinit(&set);
}

static void a_set_of_too_many_is_open_and_stays_so(void **state)
{
    (void)state;
    struct queue_set set = {0};
    for (uint32_t id = 1; id <= QUEUE_SET_MAX; id++)
        queue_set_add(&set, id);
    assert_false(set.is_open);
    assert_true(queue_set_add(&set, QUEUE_SET_MAX + 1));
    assert_true(set.is_open && set.count == 0 && queue_set_has(&set, 77777));
    assert_false(queue_set_add(&set, 77777));
    expect_decoded_is_same(&set);
    queue_set_deinit(&set);
}

static void bytes_that_are_no_set_are_refused(void **state)
{
    (void)state;
    static const uint32_t bad[][4] = {{2, 2, 1}, {2, 1, 1}, {1, 0}, {1, 10}, {QUEUE_SET_MAX + 1, 1, 2, 3}};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct queue_set set = {0};
        struct buffer encoded;
        buffer_init(&encoded);
        for (size_t k = 0; k < 4; k++)
            buffer_append_u32(&encoded, bad[i][k]);
        struct cursor cursor = cursor_make(buffer_bytes(&encoded));
        assert_false(queue_set_decode(&set, 9, &cursor));
        queue_set_deinit(&set);
        buffer_deinit(&encoded);
    }
}

/* --- of batches --------------------------------------------------------------------------------------------------- */

struct bench {
    struct core_rig rig;
    struct queue *queues[3];
};

static const struct batch *create(struct bench *bench, const char *id, const char *parent, const struct queue *target)
{
    struct create_batch_command command = {
        .id = bytes_from_string(id),
        .parent_id = bytes_from_string(parent),
        .spec = {.expires_after_s = 60, .retention_s = 60},
    };
    if (target != NULL)
        command.spec.targets[0] = (struct batch_target){.queue = target->id, .has_body = true, .body = BYTES("done")};
    const struct batch *batch;
    assert_int_equal(decide_create_batch(bench->rig.core, &command, &batch), OK);
    return batch;
}

static void bench_init(struct bench *bench)
{
    core_rig_init(&bench->rig, 1);
    core_rig_begin(&bench->rig);
    struct queue_settings settings = core_rig_settings();
    for (size_t i = 0; i < ARRAY_LENGTH(bench->queues); i++) {
        char name[] = {(char)('a' + i)};
        bench->queues[i] = decide_create_queue(bench->rig.core, bytes_make(name, 1), &settings);
    }
}

static struct core *decode(struct bytes encoded)
{
    struct core *core = core_create();
    assert_true(core_bytes_decode(core, encoded));
    core_check(core);
    return core;
}

static void expect_queues(const struct core *core, const char *id, unsigned bits)
{
    const struct batch *batch = core_find_batch(core, bytes_from_string(id));
    assert_false(batch->queues.is_open);
    for (unsigned i = 0; i < 3; i++)
        assert_true(queue_set_has(&batch->queues, i + 1) == ((bits >> i & 1) != 0));
}

static void expect_family(const struct core *core)
{
    expect_queues(core, "loose", 0);
    expect_queues(core, "top", 7);
    expect_queues(core, "child", 6);
    expect_queues(core, "other", 3);
}

/* Live, replayed and decoded alike. */
static void a_batch_has_the_queues_of_its_targets_units_and_children(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    create(&bench, "loose", "", NULL);
    create(&bench, "top", "", bench.queues[0]);
    create(&bench, "child", "top", bench.queues[1]);
    create(&bench, "other", "", bench.queues[0]);
    assert_int_equal(core_rig_send(bench.rig.core, bench.queues[2], BYTES("child"), BYTES("m"), 0), OK);
    assert_int_equal(core_rig_send(bench.rig.core, bench.queues[1], BYTES("other"), BYTES("m"), 0), OK);
    core_rig_end(&bench.rig);
    core_check(bench.rig.core);
    expect_family(bench.rig.core);
    struct core *replayed = core_rig_replay(&bench.rig);
    expect_family(replayed);
    core_destroy(replayed);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(bench.rig.core, &encoded);
    struct core *decoded = decode(buffer_bytes(&encoded));
    expect_family(decoded);
    core_destroy(decoded);
    buffer_deinit(&encoded);
    core_rig_deinit(&bench.rig);
}

/* The sixth version did not note them: 4 bytes for each batch, and 4 for each id; nor what joined each batch from
 * inside. */
static void a_batch_of_an_older_version_may_have_had_units_in_any_queue(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    create(&bench, "loose", "", NULL);
    create(&bench, "top", "", bench.queues[0]);
    create(&bench, "child", "top", bench.queues[1]);
    assert_int_equal(core_rig_send(bench.rig.core, bench.queues[2], BYTES("child"), BYTES("m"), 0), OK);
    core_rig_end(&bench.rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(bench.rig.core, &encoded);
    buffer_truncate(&encoded, encoded.size - (3 + 0 + 3 + 2 + 3) * 4);
    bytes_put_u32(encoded.data_owned, 6);
    struct core *decoded = decode(buffer_bytes(&encoded));
    expect_queues(decoded, "loose", 0);
    assert_true(core_find_batch(decoded, BYTES("top"))->queues.is_open);
    assert_true(core_find_batch(decoded, BYTES("child"))->queues.is_open);
    core_destroy(decoded);
    buffer_deinit(&encoded);
    core_rig_deinit(&bench.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_holds_what_was_added_whatever_the_order),
        cmocka_unit_test(a_set_of_too_many_is_open_and_stays_so),
        cmocka_unit_test(bytes_that_are_no_set_are_refused),
        cmocka_unit_test(a_batch_has_the_queues_of_its_targets_units_and_children),
        cmocka_unit_test(a_batch_of_an_older_version_may_have_had_units_in_any_queue),
    };
    return cmocka_run_group_tests_name("sets of queues", tests, NULL, NULL);
}
