/* A salvage of a state: what is told of what may have happened in a gap is neither too little nor too much. */
#include "core/salvage_state.h"

#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define QUEUE 1u
#define NOW_MS UINT64_C(1700000000000)

struct rig {
    struct core *core;
    struct core_salvage *salvage;
    struct buffer frame;
    uint64_t position;
    uint64_t counts[CORE_LOSS_COUNT];
    uint64_t sent_first; /* of the newest finding of that kind with a number */
    uint64_t sent_last;
};

static void on_finding(void *context, const struct core_finding *finding)
{
    struct rig *rig = context;
    rig->counts[finding->kind]++;
    if (finding->kind != LOSS_SENT || finding->number == 0)
        return;
    rig->sent_first = finding->number;
    rig->sent_last = finding->last;
}

static void replay(struct rig *rig)
{
    uint64_t unknown;
    assert_true(core_salvage_frame(rig->salvage, buffer_bytes(&rig->frame), rig->position, NOW_MS, &unknown));
    rig->position += 1 << 20;
    buffer_truncate(&rig->frame, 0);
}

static void send(struct rig *rig, uint64_t number, const char *group)
{
    event_encode(&(struct event){.kind = EVENT_SENT_IN_GROUP,
                                 .sent_in_group = {.number = number,
                                                   .queue = QUEUE,
                                                   .priority = PRIORITY_DEFAULT,
                                                   .group = bytes_from_string(group),
                                                   .content = BYTES("a content")}},
                 &rig->frame);
}

/* A namespace with a queue. */
static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.core = core_create(), .position = 1 << 20};
    const uint8_t key[CORE_KEY_SIZE] = {1};
    core_salvage_found(rig->core, BYTES("000000000000"), key, 1 << 20);
    rig->salvage = core_salvage_create(rig->core, on_finding, rig);
    buffer_init(&rig->frame);
    struct buffer settings;
    buffer_init(&settings);
    const struct queue_settings plain = salvage_queue_settings();
    queue_settings_encode(&plain, &settings);
    event_encode(
        &(struct event){
            .kind = EVENT_QUEUE_CREATED,
            .queue_created = {.queue = QUEUE, .name = BYTES("q"), .settings = buffer_bytes(&settings)},
        },
        &rig->frame);
    buffer_deinit(&settings);
}

static void rig_deinit(struct rig *rig)
{
    buffer_deinit(&rig->frame);
    core_salvage_destroy(rig->salvage);
    core_destroy(rig->core);
}

static void of_a_gap_with_very_many_messages_the_rest_is_told_together(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    send(&rig, 1, "");
    replay(&rig);
    core_salvage_gap(rig.salvage);
    send(&rig, 3000000, "");
    replay(&rig);
    core_salvage_end(rig.salvage);
    assert_int_equal(rig.counts[LOSS_SENT], 1000001);
    assert_int_equal(rig.sent_first, 1000002);
    assert_int_equal(rig.sent_last, 2999999);
    rig_deinit(&rig);
}

static void a_cancelled_group_costs_its_own_messages(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    send(&rig, 1, "a");
    send(&rig, 2, "b");
    send(&rig, 3, "a");
    replay(&rig);
    core_salvage_gap(rig.salvage);
    event_encode(
        &(struct event){
            .kind = EVENT_GROUP_CANCELLED,
            .group_cancelled = {.queue = QUEUE, .group = BYTES("a"), .sequence = 1},
        },
        &rig.frame);
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_SENT], 1);
    assert_int_equal(rig.sent_first, 1);
    rig_deinit(&rig);
}

/* No message can have it, so there is no id to tell. */
static void a_number_that_is_impossible_is_an_event_that_does_not_fit(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    send(&rig, UINT64_C(1) << 56, "");
    send(&rig, 0, "");
    event_encode(
        &(struct event){
            .kind = EVENT_CONTENT_MOVED,
            .content_moved = {.number = UINT64_MAX, .content = BYTES("a content")},
        },
        &rig.frame);
    replay(&rig);
    core_salvage_gap(rig.salvage);
    event_encode(
        &(struct event){
            .kind = EVENT_SENT,
            .sent = {.number = UINT64_MAX, .queue = QUEUE, .batch = 5, .content = BYTES("a content")},
        },
        &rig.frame);
    replay(&rig);
    const struct salvage_orphan *orphans;
    assert_int_equal(rig.counts[LOSS_EVENT], 4);
    assert_int_equal(rig.counts[LOSS_SENT], 0);
    assert_int_equal(rig.counts[LOSS_UNIT], 0);
    assert_int_equal(core_salvage_orphans(rig.salvage, &orphans), 0);
    rig_deinit(&rig);
}

static void on_piece(void *context, struct bytes piece)
{
    buffer_append_bytes(context, piece);
}

/* What a damaged snapshot says of numbers holds, though no event is left that names them. */
static void numbers_of_a_damaged_snapshot_are_not_given_out_again(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    send(&rig, 1, "");
    replay(&rig);
    rig.core->messages.delivery_number = UINT64_C(1) << 40;
    struct buffer encoded;
    buffer_init(&encoded);
    core_encode(rig.core, on_piece, &encoded);

    struct core *core = core_create();
    struct salvage_numbers newest;
    assert_true(core_salvage_decode(core, buffer_bytes(&encoded), &newest));
    struct core_salvage *salvage = core_salvage_create(core, on_finding, &rig);
    core_salvage_know_queues(salvage, 2 << 20, &newest);
    core_salvage_gap(salvage);
    core_salvage_end(salvage);
    assert_true(core->messages.delivery_number > UINT64_C(1) << 40);
    assert_int_equal(core->now_ms, NOW_MS);
    assert_int_equal(rig.sent_first, 1);
    assert_int_equal(rig.counts[LOSS_SENT], 2); /* that one, and those behind the snapshot */
    core_salvage_destroy(salvage);
    core_destroy(core);
    buffer_deinit(&encoded);
    rig_deinit(&rig);
}

/* The snapshot does not name it. Its messages, which stand before its end, need it for that long. */
static void a_queue_that_was_deleted_before_a_damaged_snapshot_stays_deleted(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    buffer_truncate(&rig.frame, 0);
    core_salvage_know_queues(rig.salvage, 16 << 20, &(struct salvage_numbers){0});
    core_salvage_gap(rig.salvage);
    send(&rig, 1, "");
    replay(&rig);
    assert_non_null(core_find_queue_by_id(rig.core, QUEUE));
    event_encode(&(struct event){.kind = EVENT_QUEUE_DELETED, .queue_deleted = {.queue = QUEUE}}, &rig.frame);
    replay(&rig);
    assert_null(core_find_queue_by_id(rig.core, QUEUE));
    core_salvage_end(rig.salvage);
    rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_gap_with_very_many_messages_the_rest_is_told_together),
        cmocka_unit_test(a_cancelled_group_costs_its_own_messages),
        cmocka_unit_test(a_number_that_is_impossible_is_an_event_that_does_not_fit),
        cmocka_unit_test(numbers_of_a_damaged_snapshot_are_not_given_out_again),
        cmocka_unit_test(a_queue_that_was_deleted_before_a_damaged_snapshot_stays_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
