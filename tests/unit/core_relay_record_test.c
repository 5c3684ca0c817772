/* Records of relays: random lives of them replay to the same state, come back from a snapshot as they were, and neither
 * damage nor events that do not fit get past the core. */
#include "core/publishers/decide_relay.h"
#include "support/core_bytes.h"
#include "support/core_rig.h"
#include "support/scale.h"

#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct relay_record *put(struct core_rig *rig, const char *name, const char *spec)
{
    const struct relay_record *record = NULL;
    core_rig_begin(rig);
    assert_int_equal(decide_put_relay(rig->core, bytes_from_string(name), bytes_from_string(spec), &record), OK);
    core_rig_end(rig);
    return record;
}

static void step(struct core_rig *rig)
{
    static const char *const names[] = {"c", "a", "b", "e", "d"};
    static const char *const specs[] = {"one", "two", "three"};
    const char *name = names[core_rig_draw(rig, 5)];
    const struct relay_record *record = relay_record_find(rig->core, bytes_from_string(name));
    if (record == NULL) {
        put(rig, name, specs[core_rig_draw(rig, 3)]);
        return;
    }
    core_rig_begin(rig);
    if (core_rig_draw(rig, 3) == 0)
        decide_delete_relay(rig->core, record);
    else
        decide_pause_relay(rig->core, record, core_rig_draw(rig, 2) == 0);
    core_rig_end(rig);
    core_check(rig->core);
}

static void live_for(struct core_rig *rig, uint64_t seed, unsigned steps)
{
    core_rig_init(rig, seed);
    for (unsigned i = 0; i < steps; i++)
        step(rig);
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

static void a_replay_and_a_snapshot_give_the_live_state(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct core_rig rig;
        live_for(&rig, seed, 60);
        struct core *replayed = core_rig_replay(&rig);
        core_check(replayed);
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

static void a_relay_is_another_one_than_its_namesake_before(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    uint64_t first = put(&rig, "orders", "one")->number;
    core_rig_begin(&rig);
    decide_delete_relay(rig.core, relay_record_find(rig.core, BYTES("orders")));
    core_rig_end(&rig);
    assert_null(relay_record_find(rig.core, BYTES("orders")));
    assert_true(put(&rig, "orders", "one")->number > first);
    core_rig_deinit(&rig);
}

static void each_change_is_counted_and_what_changes_nothing_is_none(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    const struct relay_record *record = put(&rig, "orders", "one");
    assert_false(record->is_paused);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t changes = relay_record_change_count(rig.core);
        core_rig_begin(&rig);
        decide_pause_relay(rig.core, record, true);
        core_rig_end(&rig);
        assert_true(record->is_paused);
        assert_int_equal(relay_record_change_count(rig.core), changes + (round == 0));
    }
    core_rig_deinit(&rig);
}

static void there_are_a_thousand_at_most(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    char name[16];
    for (unsigned i = 0; i < RELAY_RECORDS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "relay%u", i);
        put(&rig, name, "one");
    }
    const struct relay_record *record;
    core_rig_begin(&rig);
    assert_int_equal(decide_put_relay(rig.core, BYTES("more"), BYTES("one"), &record), ERROR_OVER_LIMIT);
    core_rig_end(&rig);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void no_damage_crashes_the_decoder(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    put(&rig, "a", "one");
    put(&rig, "b", "two");
    put(&rig, "c", "three");
    assert_true(core_rig_damage_part(&rig, relay_record_encode, scaled(20000)) > scaled(1000));
    core_rig_deinit(&rig);
}

static void events_that_do_not_fit_change_nothing(void **state)
{
    (void)state;
    static char long_name[RELAY_RECORD_NAME_SIZE_MAX + 1], long_spec[RELAY_RECORD_SPEC_SIZE_MAX + 1];
    struct core_rig rig;
    core_rig_init(&rig, 1);
    put(&rig, "a", "one");
    memset(long_name, 'x', sizeof(long_name));
    memset(long_spec, 'x', sizeof(long_spec));
    const struct event wrong[] = {
        {.kind = EVENT_RELAY_PUT, .relay_put = {BYTES("a"), BYTES("two")}}, /* is there */
        {.kind = EVENT_RELAY_PUT, .relay_put = {BYTES(""), BYTES("two")}},
        {.kind = EVENT_RELAY_PUT, .relay_put = {BYTES("b"), BYTES("")}},
        {.kind = EVENT_RELAY_PUT, .relay_put = {bytes_make(long_name, sizeof(long_name)), BYTES("two")}},
        {.kind = EVENT_RELAY_PUT, .relay_put = {BYTES("b"), bytes_make(long_spec, sizeof(long_spec))}},
        {.kind = EVENT_RELAY_PAUSED, .relay_paused = {BYTES("b"), 1}},
        {.kind = EVENT_RELAY_PAUSED, .relay_paused = {BYTES("a"), 2}},
        {.kind = EVENT_RELAY_DELETED, .relay_deleted = {BYTES("b")}},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        struct buffer payload;
        struct failure failure;
        buffer_init(&payload);
        event_encode(&wrong[i], &payload);
        assert_false(core_replay(rig.core, buffer_bytes(&payload), rig.position, rig.now_ms, &failure));
        core_check(rig.core);
        assert_int_equal(relay_record_count(rig.core), 1);
        buffer_deinit(&payload);
    }
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_and_a_snapshot_give_the_live_state),
        cmocka_unit_test(a_relay_is_another_one_than_its_namesake_before),
        cmocka_unit_test(each_change_is_counted_and_what_changes_nothing_is_none),
        cmocka_unit_test(there_are_a_thousand_at_most),
        cmocka_unit_test(no_damage_crashes_the_decoder),
        cmocka_unit_test(events_that_do_not_fit_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
