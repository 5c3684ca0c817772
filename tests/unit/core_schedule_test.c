/* Schedules in the core, with a calendar of whole minutes: random lives of them replay to the same state, come back
 * from a snapshot as they were, and no bytes whatever crash the decoder. */
#include "core/decide_namespace.h"
#include "core/queues/decide_queue.h"
#include "core/schedules/decide_schedule.h"
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

#define MINUTE_MS 60000u

/* The cron text is a number of minutes; 0: never. */
static uint64_t next_whole_minutes(struct bytes cron, uint64_t after_ms)
{
    uint64_t minutes = 0;
    if (!bytes_to_u64(cron, &minutes) || minutes == 0)
        return SCHEDULE_NEVER;
    return (after_ms / (minutes * MINUTE_MS) + 1) * minutes * MINUTE_MS;
}

static void make_queue(struct core_rig *rig, const char *name, bool is_fifo)
{
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = is_fifo;
    settings.retention_s = 3600;
    decide_create_queue(core_rig_begin(rig), bytes_from_string(name), &settings);
    core_rig_end(rig);
}

static const struct schedule *put(struct core *core, const char *name, const char *cron, const char *queue,
                                  enum catch_up catch_up)
{
    struct schedule_spec spec = {
        .queue = core_find_queue(core, bytes_from_string(queue))->id,
        .catch_up = catch_up,
        .cron = bytes_from_string(cron),
        .zone = BYTES("UTC"),
        .group = strstr(queue, ".fifo") != NULL ? BYTES("group") : bytes_make(NULL, 0),
        .body = BYTES("tick"),
    };
    const struct schedule *schedule = NULL;
    uint64_t next_ms = next_whole_minutes(spec.cron, core_now_ms(core));
    assert_int_equal(decide_put_schedule(core, bytes_from_string(name), &spec, next_ms, &schedule), OK);
    return schedule;
}

static void resume(struct core *core, const struct schedule *schedule)
{
    decide_resume_schedule(core, schedule, next_whole_minutes(schedule->spec.cron, core_now_ms(core)));
}

static void fire(struct core *core, const struct schedule *schedule, uint64_t after_ms)
{
    decide_fire_schedule(core, schedule, next_whole_minutes(schedule->spec.cron, after_ms));
}

/* Fires what is due; now and then the calendar can't tell, and the schedule has to wait a minute. */
static void fire_due(struct core_rig *rig)
{
    const struct schedule *schedule;
    uint64_t after_ms;
    while ((schedule = schedule_next_due(rig->core, &after_ms)) != NULL)
        if (core_rig_draw(rig, 10) == 0)
            schedule_put_off(rig->core, schedule, core_now_ms(rig->core) + MINUTE_MS);
        else
            fire(rig->core, schedule, after_ms);
}

static void pass_time(struct core_rig *rig)
{
    uint32_t kind = core_rig_draw(rig, 20);
    rig->now_ms += kind == 0 ? core_rig_draw(rig, 90000000) : kind < 5 ? core_rig_draw(rig, 600000) : MINUTE_MS / 2;
    for (bool is_more = true; is_more; core_rig_end(rig)) {
        is_more = decide_due(core_rig_begin(rig));
        fire_due(rig);
    }
}

static void step(struct core_rig *rig)
{
    static const char *const names[] = {"c", "a", "b", "e", "d"};
    static const char *const crons[] = {"1", "7", "60", "1440", "0"};
    static const char *const queues[] = {"q", "r.fifo"};
    pass_time(rig);
    struct core *core = core_rig_begin(rig);
    const char *name = names[core_rig_draw(rig, 5)];
    const struct schedule *schedule = schedule_find(core, bytes_from_string(name));
    uint8_t id[MESSAGE_ID_SIZE];
    switch (core_rig_draw(rig, 7)) {
    case 0:
        put(core, name, crons[core_rig_draw(rig, 5)], queues[core_rig_draw(rig, 2)],
            (enum catch_up)core_rig_draw(rig, 3));
        break;
    case 1:
        if (schedule != NULL && core_rig_draw(rig, 2) == 0)
            decide_pause_schedule(core, schedule);
        else if (schedule != NULL)
            resume(core, schedule);
        break;
    case 2:
        if (schedule != NULL)
            decide_delete_schedule(core, schedule);
        break;
    case 3:
        if (core_find_queue(core, BYTES("q"))->target_count > 0)
            assert_int_equal(decide_delete_queue(core, core_find_queue(core, BYTES("q"))), ERROR_QUEUE_IN_USE);
        break;
    case 4:
        if (schedule != NULL)
            decide_fire_schedule_now(core, schedule, id);
        break;
    default:
        break;
    }
    core_rig_end(rig);
    core_check(rig->core);
}

static void live_for(struct core_rig *rig, uint64_t seed, unsigned steps)
{
    core_rig_init(rig, seed);
    make_queue(rig, "q", false);
    make_queue(rig, "r.fifo", true);
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

static void a_replay_gives_the_live_state(void **state)
{
    (void)state;
    uint64_t sent = 0;
    const uint64_t seeds = scaled(20);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct core_rig rig;
        live_for(&rig, seed, 150);
        sent += core_metrics(rig.core).sent;
        struct core *replayed = core_rig_replay(&rig);
        core_check(replayed);
        expect_same(replayed, rig.core);
        core_destroy(replayed);
        core_rig_deinit(&rig);
    }
    assert_true(sent > 50 * seeds); /* a schedule that is put off sends less */
}

/* The 10th minute is due at its own time, and so is the 20th. */
static void a_schedule_that_is_put_off_fires_later_and_once(void **state)
{
    (void)state;
    static const enum catch_up rules[] = {CATCH_UP_ONE, CATCH_UP_NONE, CATCH_UP_ALL};
    static const uint64_t sent[] = {1, 0, 3};
    for (unsigned i = 0; i < 3; i++) {
        struct core_rig rig;
        uint64_t after_ms;
        core_rig_init(&rig, 1);
        make_queue(&rig, "q", false);
        core_rig_begin(&rig);
        const struct schedule *schedule = put(rig.core, "a", "10", "q", rules[i]);
        core_rig_end(&rig);
        uint64_t due_ms = schedule->next_at_ms;
        for (rig.now_ms = due_ms; rig.now_ms < due_ms + 25 * MINUTE_MS; rig.now_ms += MINUTE_MS) {
            core_rig_begin(&rig);
            assert_ptr_equal(schedule_next_due(rig.core, &after_ms), schedule);
            schedule_put_off(rig.core, schedule, rig.now_ms + MINUTE_MS);
            assert_null(schedule_next_due(rig.core, &after_ms));
            assert_true(core_due_ms(rig.core) == rig.now_ms + MINUTE_MS);
            core_rig_end(&rig);
            core_check(rig.core);
        }
        assert_true(schedule->next_at_ms == due_ms);
        core_rig_begin(&rig);
        while (schedule_next_due(rig.core, &after_ms) != NULL)
            fire(rig.core, schedule, after_ms);
        core_rig_end(&rig);
        assert_true(core_metrics(rig.core).sent == sent[i] && schedule->next_at_ms == due_ms + 30 * MINUTE_MS);
        assert_true(schedule->last_at_ms == (sent[i] == 0 ? 0 : due_ms + (sent[i] - 1) * 10 * MINUTE_MS));
        core_check(rig.core);
        core_rig_deinit(&rig);
    }
}

/* Due or not, it is due afterwards when it was due before, and what is due fires besides. */
static void fired_now_a_schedule_sends_each_time_and_stays_as_it_is(void **state)
{
    (void)state;
    struct core_rig rig;
    uint64_t after_ms;
    uint8_t first[MESSAGE_ID_SIZE], second[MESSAGE_ID_SIZE];
    core_rig_init(&rig, 1);
    make_queue(&rig, "q", false);
    core_rig_begin(&rig);
    const struct schedule *schedule = put(rig.core, "a", "10", "q", CATCH_UP_ONE);
    core_rig_end(&rig);
    uint64_t due_ms = rig.now_ms = schedule->next_at_ms;
    core_rig_begin(&rig);
    decide_fire_schedule_now(rig.core, schedule, first);
    decide_fire_schedule_now(rig.core, schedule, second);
    assert_memory_not_equal(first, second, MESSAGE_ID_SIZE);
    assert_true(schedule->next_at_ms == due_ms && schedule->last_at_ms == 0);
    assert_int_equal(core_metrics(rig.core).sent, 2);
    assert_ptr_equal(schedule_next_due(rig.core, &after_ms), schedule);
    fire(rig.core, schedule, after_ms);
    decide_pause_schedule(rig.core, schedule);
    decide_fire_schedule_now(rig.core, schedule, first);
    core_rig_end(&rig);
    assert_int_equal(core_metrics(rig.core).sent, 4);
    assert_true(schedule->next_at_ms == SCHEDULE_NEVER && schedule->last_at_ms == due_ms);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void nothing_is_logged_of_a_schedule_that_is_put_off(void **state)
{
    (void)state;
    struct core_rig rig;
    uint64_t after_ms;
    core_rig_init(&rig, 1);
    make_queue(&rig, "q", false);
    core_rig_begin(&rig);
    const struct schedule *schedule = put(rig.core, "a", "1", "q", CATCH_UP_ONE);
    core_rig_end(&rig);
    rig.now_ms = schedule->next_at_ms;
    size_t logged = rig.log.size;
    core_rig_begin(&rig);
    schedule_put_off(rig.core, schedule_next_due(rig.core, &after_ms), rig.now_ms + MINUTE_MS);
    core_rig_end(&rig);
    assert_int_equal(rig.log.size, logged);
    struct core *replayed = core_rig_replay(&rig);
    assert_true(core_due_ms(replayed) <= rig.now_ms); /* a restart looks at it at once */
    expect_same(replayed, rig.core);
    core_destroy(replayed);
    core_rig_deinit(&rig);
}

static void a_snapshot_gives_the_state_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(20); seed++) {
        struct core_rig rig;
        live_for(&rig, seed, 40);
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

static void no_damage_crashes_the_decoder(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "q", false);
    core_rig_begin(&rig);
    put(rig.core, "a", "5", "q", CATCH_UP_ONE);
    put(rig.core, "b", "0", "q", CATCH_UP_ALL);
    put(rig.core, "c", "1", "q", CATCH_UP_NONE);
    core_rig_end(&rig);
    assert_true(core_rig_damage_part(&rig, schedule_encode, scaled(20000)) > scaled(1000));
    core_rig_deinit(&rig);
}

static void events_that_do_not_fit_change_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "q", false);
    make_queue(&rig, "r.fifo", true);
    core_rig_begin(&rig);
    const struct schedule *schedule = put(rig.core, "a", "1", "q", CATCH_UP_ONE);
    core_rig_end(&rig);
    uint64_t due_ms = schedule->next_at_ms;
    struct bytes spec = schedule->spec_encoded_owned;
    struct buffer without_group;
    buffer_init(&without_group);
    buffer_append_bytes(&without_group, spec);
    bytes_put_u32(without_group.data_owned, core_find_queue(rig.core, BYTES("r.fifo"))->id);
    const struct event wrong[] = {
        {.kind = EVENT_SCHEDULE_FIRED, .schedule_fired = {BYTES("a"), due_ms, due_ms + 1, 0}}, /* is not due yet */
        {.kind = EVENT_SCHEDULE_FIRED, .schedule_fired = {BYTES("b"), due_ms, due_ms + 1, 0}},
        {.kind = EVENT_SCHEDULE_DELETED, .schedule_deleted = {BYTES("b")}},
        {.kind = EVENT_SCHEDULE_PUT, .schedule_put = {BYTES(""), spec, due_ms}},
        {.kind = EVENT_SCHEDULE_PUT, .schedule_put = {BYTES("b"), bytes_make(spec.ptr, spec.size - 1), due_ms}},
        {.kind = EVENT_SCHEDULE_PUT, .schedule_put = {BYTES("b"), buffer_bytes(&without_group), due_ms}},
        {.kind = EVENT_QUEUE_DELETED, .queue_deleted = {core_find_queue(rig.core, BYTES("q"))->id}},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct buffer payload;
        struct failure failure;
        buffer_init(&payload);
        event_encode(&wrong[i], &payload);
        assert_false(core_replay(rig.core, buffer_bytes(&payload), rig.position, rig.now_ms, &failure));
        core_check(rig.core);
        assert_int_equal(schedule_count(rig.core), 1);
        buffer_deinit(&payload);
    }
    buffer_deinit(&without_group);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_gives_the_live_state),
        cmocka_unit_test(a_schedule_that_is_put_off_fires_later_and_once),
        cmocka_unit_test(fired_now_a_schedule_sends_each_time_and_stays_as_it_is),
        cmocka_unit_test(nothing_is_logged_of_a_schedule_that_is_put_off),
        cmocka_unit_test(a_snapshot_gives_the_state_back),
        cmocka_unit_test(no_damage_crashes_the_decoder),
        cmocka_unit_test(events_that_do_not_fit_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
