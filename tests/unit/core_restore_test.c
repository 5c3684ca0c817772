/* A log that was made from a backup: no number is given out again, relays are paused, and a replay and a snapshot give
 * the same state, whatever life went before. */
#include "core/apply.h"
#include "core/decide_namespace.h"
#include "core/publishers/decide_publish.h"
#include "core/publishers/decide_relay.h"
#include "core/queues/decide_queue.h"
#include "support/core_bytes.h"
#include "support/core_rig.h"
#include "support/pool_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint8_t source[PUBLISHER_ID_SIZE] = {5}, owner[PUBLISHER_ID_SIZE] = {1};

static bool restore(struct core_rig *rig)
{
    const bool is_done = decide_restore(core_rig_begin(rig), 5000);
    core_rig_end(rig);
    return is_done;
}

static void expect_same(const struct core *core, const struct core *live)
{
    struct buffer a, b;
    buffer_init(&a);
    buffer_init(&b);
    core_rig_encode(core, &a);
    core_rig_encode(live, &b);
    assert_true(bytes_equal(buffer_bytes(&a), buffer_bytes(&b)));
    buffer_deinit(&a);
    buffer_deinit(&b);
}

static void every_number_goes_on_far_above_the_old_ones(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    for (unsigned i = 0; i < 400; i++)
        core_rig_step(&rig);
    const struct core before = *rig.core;
    assert_true(restore(&rig));
    const struct core *core = rig.core;
    assert_int_equal(core->messages.message_number, before.messages.message_number + RESTORE_STEP);
    assert_int_equal(core->messages.delivery_number, before.messages.delivery_number + RESTORE_STEP);
    assert_int_equal(core->batches.batch_number, before.batches.batch_number + RESTORE_STEP);
    assert_int_equal(core->moves.number, before.moves.number + RESTORE_STEP);
    assert_int_equal(core->pools.ticket_number, before.pools.ticket_number + RESTORE_STEP);
    assert_int_equal(core->matches.match_number, before.matches.match_number + RESTORE_STEP);
    assert_int_equal(core->pools.feed_number, before.pools.feed_number + RESTORE_STEP);
    assert_int_equal(core_restore(core).restored_at_ms, 5000);
    assert_int_equal(core_restore(core).until_ms, core_now_ms(core));
    assert_int_equal(core_metrics(core).delivered, before.messages.delivery_number);
    core_rig_deinit(&rig);
}

static void life_goes_on_and_replays_as_it_was(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        for (unsigned i = 0; i < 300; i++) {
            core_rig_step(&rig);
            if (i % 100 == 50)
                assert_true(restore(&rig));
        }
        core_check(rig.core);
        struct core *replayed = core_rig_replay(&rig);
        expect_same(replayed, rig.core);
        core_destroy(replayed);
        struct buffer encoded;
        buffer_init(&encoded);
        core_rig_encode(rig.core, &encoded);
        struct core *decoded = core_create();
        assert_true(core_bytes_decode(decoded, buffer_bytes(&encoded)));
        core_check(decoded);
        expect_same(decoded, rig.core);
        core_destroy(decoded);
        buffer_deinit(&encoded);
        core_rig_deinit(&rig);
    }
}

static void relays_are_paused_and_publishers_fenced(void **state)
{
    (void)state;
    struct core_rig rig;
    const struct relay_record *record;
    bool is_accepted = false;
    core_rig_init(&rig, 1);
    core_rig_begin(&rig);
    assert_int_equal(decide_put_relay(rig.core, BYTES("one"), BYTES("{}"), &record), OK);
    assert_int_equal(decide_put_relay(rig.core, BYTES("two"), BYTES("{}"), &record), OK);
    decide_pause_relay(rig.core, record, true);
    assert_int_equal(decide_open_publisher(rig.core, source, 7, owner, &is_accepted), OK);
    assert_true(is_accepted);
    core_rig_end(&rig);
    assert_true(restore(&rig));
    assert_true(relay_record_find(rig.core, BYTES("one"))->is_paused);
    assert_true(relay_record_find(rig.core, BYTES("two"))->is_paused);
    core_rig_begin(&rig);
    assert_int_equal(decide_open_publisher(rig.core, source, 7, owner, &is_accepted), OK);
    assert_false(is_accepted);
    assert_int_equal(decide_open_publisher(rig.core, source, RESTORE_STEP + 8, owner, &is_accepted), OK);
    assert_true(is_accepted);
    core_rig_end(&rig);
    core_rig_deinit(&rig);
}

/* Whoever read a feed must read the tickets again. */
static void a_feed_leaves_the_numbers_out(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    pool_rig_make_queues(&rig);
    struct pool_spec spec = pool_rig_spec(&rig, "{'attrs':{},'size':2,'rules':[]}");
    struct ticket_pool *pool = pool_rig_put(&rig, "pool", &spec);
    (void)pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "a", .attributes = "{}", .body = ""});
    const uint64_t last = pool->feed.last;
    assert_non_null(feed_at(&pool->feed, last));
    assert_true(restore(&rig));
    assert_int_equal(pool->feed.last, last + RESTORE_STEP);
    assert_null(feed_at(&pool->feed, last));
    assert_null(feed_at(&pool->feed, last + 1));
    (void)pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "b", .attributes = "{}", .body = ""});
    assert_non_null(feed_at(&pool->feed, last + RESTORE_STEP + 1));
    assert_false(pool->feed.is_whole);
    core_rig_deinit(&rig);
}

static void numbers_that_can_grow_no_more_are_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    unsigned count = 0;
    while (restore(&rig))
        count++;
    /* 56 bits, in steps of 42. */
    assert_int_equal(count, (1u << 14) - 1);
    const struct event events[] = {
        {.kind = EVENT_RESTORED, .restored = {.step = 0, .until_ms = 1, .restored_at_ms = 1}},
        {.kind = EVENT_RESTORED, .restored = {.step = 1, .until_ms = 1, .restored_at_ms = 0}},
        {.kind = EVENT_RESTORED, .restored = {.step = RESTORE_STEP, .until_ms = 1, .restored_at_ms = 1}},
        {.kind = EVENT_RESTORED, .restored = {.step = UINT64_MAX, .until_ms = 1, .restored_at_ms = 1}},
    };
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
        assert_false(core_apply(rig.core, &events[i], 1));
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_goes_on_far_above_the_old_ones),
        cmocka_unit_test(life_goes_on_and_replays_as_it_was),
        cmocka_unit_test(relays_are_paused_and_publishers_fenced),
        cmocka_unit_test(a_feed_leaves_the_numbers_out),
        cmocka_unit_test(numbers_that_can_grow_no_more_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
