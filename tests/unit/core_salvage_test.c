/* A salvage of a state: what is told of what may have happened in a gap is neither too little nor too much. */
#include "core/salvage_state.h"

#include "core/identity.h"
#include "core/messages/content.h"

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

static void receive(struct rig *rig, uint64_t number, uint64_t delivery)
{
    event_encode(&(struct event){.kind = EVENT_RECEIVED,
                                 .received = {.number = number, .delivery = delivery, .timeout_ms = 60000}},
                 &rig->frame);
}

static void create_queue(struct rig *rig, uint32_t id, struct bytes name)
{
    struct buffer settings;
    buffer_init(&settings);
    const struct queue_settings plain = salvage_queue_settings();
    queue_settings_encode(&plain, &settings);
    event_encode(&(struct event){.kind = EVENT_QUEUE_CREATED,
                                 .queue_created = {.queue = id, .name = name, .settings = buffer_bytes(&settings)}},
                 &rig->frame);
    buffer_deinit(&settings);
}

static void create_batch(struct rig *rig, uint64_t number, struct bytes id, uint64_t parent)
{
    struct buffer encoded;
    buffer_init(&encoded);
    batch_spec_encode(&(struct batch_spec){.expires_after_s = 600, .retention_s = 600}, &encoded);
    event_encode(
        &(struct event){.kind = EVENT_BATCH_CREATED,
                        .batch_created = {.batch = number, .parent = parent, .id = id, .spec = buffer_bytes(&encoded)}},
        &rig->frame);
    buffer_deinit(&encoded);
}

/* The queue has messages 1 to `count`, and then the log has a hole. */
static void rig_init_with_gap(struct rig *rig, unsigned count)
{
    rig_init(rig);
    for (unsigned number = 1; number <= count; number++)
        send(rig, number, "");
    replay(rig);
    core_salvage_gap(rig->salvage);
}

struct numbers {
    uint64_t message, match, delivery, batch, ticket, move, epoch, queue, pool, feed;
};

static struct numbers numbers_of(const struct core *core)
{
    return (struct numbers){.message = core->messages.message_number,
                            .match = core->matches.match_number,
                            .delivery = core->messages.delivery_number,
                            .batch = core->batches.batch_number,
                            .ticket = core->pools.ticket_number,
                            .move = core->moves.number,
                            .epoch = core->epoch,
                            .queue = core->queues.queue_id,
                            .pool = core->pools.pool_id,
                            .feed = core->pools.feed_number};
}

static void every_number_jumps_behind_a_gap(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 1);
    const struct numbers before = numbers_of(rig.core);
    core_salvage_end(rig.salvage);
    const struct numbers after = numbers_of(rig.core);
    const uint64_t jump = UINT64_C(1) << 32;
    assert_int_equal(after.message - before.message, jump);
    assert_int_equal(after.match - before.match, jump);
    assert_int_equal(after.delivery - before.delivery, jump);
    assert_int_equal(after.batch - before.batch, jump);
    assert_int_equal(after.ticket - before.ticket, jump);
    assert_int_equal(after.move - before.move, jump);
    assert_int_equal(after.feed - before.feed, jump);
    assert_int_equal(after.epoch - before.epoch, 1000);
    assert_int_equal(after.queue - before.queue, 65536);
    assert_int_equal(after.pool - before.pool, 65536);
    rig_deinit(&rig);
}

static void a_log_without_a_gap_leaves_every_number(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    send(&rig, 1, "");
    replay(&rig);
    assert_false(core_salvage_has_gap(rig.salvage));
    const struct numbers before = numbers_of(rig.core);
    core_salvage_end(rig.salvage);
    const struct numbers after = numbers_of(rig.core);
    assert_memory_equal(&after, &before, sizeof(after));
    for (unsigned i = 0; i < CORE_LOSS_COUNT; i++)
        assert_int_equal(rig.counts[i], 0);
    rig_deinit(&rig);
}

/* Half of them are kept for what comes. */
static void numbers_beyond_the_half_do_not_jump(void **state)
{
    (void)state;
    for (unsigned is_beyond = 0; is_beyond < 2; is_beyond++) {
        struct rig rig;
        rig_init_with_gap(&rig, 1);
        rig.core->messages.message_number = IDENTITY_NUMBER_MAX / 2 - 1 + is_beyond;
        rig.core->matches.match_number = IDENTITY_NUMBER_MAX / 2 - 1 + is_beyond;
        rig.core->queues.queue_id = UINT32_MAX / 2 - 1 + is_beyond;
        rig.core->pools.pool_id = UINT32_MAX / 2 - 1 + is_beyond;
        const struct numbers before = numbers_of(rig.core);
        core_salvage_end(rig.salvage);
        const struct numbers after = numbers_of(rig.core);
        assert_int_equal(after.message == before.message, is_beyond);
        assert_int_equal(after.match == before.match, is_beyond);
        assert_int_equal(after.queue == before.queue, is_beyond);
        assert_int_equal(after.pool == before.pool, is_beyond);
        rig_deinit(&rig);
    }
}

static void an_event_behind_a_gap_proves_the_numbers_before_it(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 1);
    receive(&rig, 1, 50);
    create_queue(&rig, 7, BYTES("other"));
    create_batch(&rig, 9, BYTES("b"), 0);
    event_encode(&(struct event){.kind = EVENT_MOVE_STARTED,
                                 .move_started = {.task = 5, .source = 7, .destination = QUEUE, .to_move = 1}},
                 &rig.frame);
    send(&rig, 30, "");
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    const struct numbers numbers = numbers_of(rig.core);
    assert_int_equal(numbers.delivery, 50);
    assert_int_equal(numbers.queue, 7);
    assert_int_equal(numbers.batch, 9);
    assert_int_equal(numbers.move, 5);
    assert_int_equal(numbers.message, 30);
    rig_deinit(&rig);
}

static void a_queue_under_a_name_that_is_taken_takes_it(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 1);
    create_queue(&rig, QUEUE, BYTES("q")); /* no other one: it is there already */
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_EVENT], 1);
    assert_int_equal(core_find_queue(rig.core, BYTES("q"))->id, QUEUE);
    create_queue(&rig, 7, BYTES("q"));
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_EVENT], 1);
    assert_int_equal(core_find_queue(rig.core, BYTES("q"))->id, 7);
    assert_null(core_find_queue_by_id(rig.core, QUEUE));
    rig_deinit(&rig);
}

static void set_queue(struct rig *rig, uint32_t id, bool is_fifo)
{
    struct buffer encoded;
    buffer_init(&encoded);
    struct queue_settings settings = salvage_queue_settings();
    settings.is_fifo = is_fifo;
    queue_settings_encode(&settings, &encoded);
    event_encode(
        &(struct event){.kind = EVENT_QUEUE_SET, .queue_set = {.queue = id, .settings = buffer_bytes(&encoded)}},
        &rig->frame);
    buffer_deinit(&encoded);
}

static void a_queue_that_is_not_known_gets_a_name_and_its_kind(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 0);
    set_queue(&rig, 5, true);
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_QUEUE], 1);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    const struct queue *queue = core_find_queue(rig.core, BYTES(SALVAGE_QUEUE_NAME "-5"));
    assert_non_null(queue);
    assert_int_equal(queue->id, 5);
    assert_true(queue->settings.is_fifo);
    assert_int_equal(queue->settings.retention_s, 1209600);
    assert_int_equal(queue->settings.message_size_max, 1048576);
    assert_int_equal(queue->settings.visibility_timeout_s, 30);
    assert_int_equal(queue->created_at_ms, NOW_MS);
    assert_int_equal(queue->modified_at_ms, NOW_MS);
    assert_int_equal(rig.core->queues.queue_id, 5);
    set_queue(&rig, 4, false); /* an older one: the newest id stays */
    replay(&rig);
    assert_int_equal(rig.core->queues.queue_id, 5);
    assert_int_equal(rig.counts[LOSS_QUEUE], 2);
    rig_deinit(&rig);
}

static void a_queue_that_holds_something_keeps_its_kind(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 1);
    set_queue(&rig, QUEUE, true);
    replay(&rig);
    assert_false(core_find_queue_by_id(rig.core, QUEUE)->settings.is_fifo);
    rig_deinit(&rig);
}

/* Each kind of event that a message must be alive for, of message 1, which is in flight. */
static void who_is_heard_of_behind_a_gap_has_not_ended(void **state)
{
    (void)state;
    const struct event events[] = {
        {.kind = EVENT_VISIBILITY_CHANGED, .visibility_changed = {.number = 1, .timeout_ms = 1000}},
        {.kind = EVENT_LEASE_RENEWED, .lease_renewed = {.number = 1, .visible_at_ms = NOW_MS + 90000}},
        {.kind = EVENT_FAILED, .failed = {.number = 1}},
        {.kind = EVENT_DEAD_LETTERED, .dead_lettered = {.number = 1, .queue = 2}},
    };
    for (unsigned i = 0; i <= ARRAY_LENGTH(events); i++) {
        struct rig rig;
        rig_init(&rig);
        create_queue(&rig, 2, BYTES("dead"));
        send(&rig, 1, "");
        send(&rig, 2, "");
        receive(&rig, 1, 1);
        replay(&rig);
        core_salvage_gap(rig.salvage);
        if (i < ARRAY_LENGTH(events))
            event_encode(&events[i], &rig.frame);
        else
            receive(&rig, 2, 2);
        replay(&rig);
        assert_int_equal(rig.counts[LOSS_EVENT], 0);
        core_salvage_end(rig.salvage);
        assert_int_equal(rig.counts[LOSS_ENDED], 1); /* the other one */
        rig_deinit(&rig);
    }
}

static void what_is_heard_before_the_newest_gap_does_not_count(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 2);
    receive(&rig, 1, 1);
    replay(&rig);
    core_salvage_gap(rig.salvage);
    core_salvage_end(rig.salvage);
    assert_int_equal(rig.counts[LOSS_ENDED], 2);
    rig_deinit(&rig);
}

/* Of a queue that is emptied behind the gap, those that were heard of are lost for a reason. */
static void an_emptied_queue_costs_what_nothing_was_heard_of(void **state)
{
    (void)state;
    const struct event events[] = {
        {.kind = EVENT_QUEUE_PURGED, .queue_purged = {.queue = QUEUE}},
        {.kind = EVENT_QUEUE_DELETED, .queue_deleted = {.queue = QUEUE}},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(events); i++) {
        struct rig rig;
        rig_init(&rig);
        create_queue(&rig, 2, BYTES("other"));
        send(&rig, 1, "");
        send(&rig, 2, "");
        event_encode(&(struct event){.kind = EVENT_SENT, .sent = {.number = 3, .queue = 2, .content = BYTES("c")}},
                     &rig.frame);
        replay(&rig);
        core_salvage_gap(rig.salvage);
        receive(&rig, 2, 1);
        event_encode(&events[i], &rig.frame);
        replay(&rig);
        assert_int_equal(rig.counts[LOSS_SENT], 1);
        assert_int_equal(rig.sent_first, 1);
        assert_int_equal(rig.counts[LOSS_EVENT], 0);
        rig_deinit(&rig);
    }
}

static void move_content(struct rig *rig, uint64_t number, struct bytes content)
{
    event_encode(&(struct event){.kind = EVENT_CONTENT_MOVED, .content_moved = {.number = number, .content = content}},
                 &rig->frame);
}

static void end(struct rig *rig, uint64_t number)
{
    event_encode(&(struct event){.kind = EVENT_ENDED, .ended = {.number = number, .reason = END_DELETED}}, &rig->frame);
}

/* Of the messages 2 to 8, of which nothing else is known, 5 has ended, 4 has its content and 6 had. */
static void messages_of_a_gap_that_ended_or_left_their_content_are_not_lost(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 1);
    end(&rig, 5);
    replay(&rig);
    const uint64_t position = rig.position;
    move_content(&rig, 4, BYTES("old"));
    move_content(&rig, 4, BYTES("content"));
    const uint64_t second = rig.frame.size / 2;
    move_content(&rig, 6, BYTES("gone"));
    end(&rig, 6);
    move_content(&rig, 5, BYTES("late")); /* it has ended: no orphan */
    send(&rig, 9, "");
    replay(&rig);
    const struct salvage_orphan *orphans;
    assert_int_equal(core_salvage_orphans(rig.salvage, &orphans), 2);
    assert_int_equal(orphans[0].number, 4);
    assert_int_equal(orphans[0].size, 7);
    assert_in_range(orphans[0].position, position + second - 4, position + second + 64);
    assert_int_equal(orphans[1].number, 0);
    core_salvage_end(rig.salvage);
    assert_int_equal(rig.counts[LOSS_SENT], 4); /* 2, 3, 7, 8 */
    assert_int_equal(rig.sent_first, 8);
    rig_deinit(&rig);
}

static void replace(struct rig *rig, uint64_t number, uint64_t successor, struct bytes content)
{
    event_encode(
        &(struct event){
            .kind = EVENT_REPLACED,
            .replaced = {.number = number, .successor = successor, .queue = QUEUE, .content = content},
        },
        &rig->frame);
}

static const struct salvage_orphan *only_orphan(const struct rig *rig)
{
    const struct salvage_orphan *orphans;
    assert_int_equal(core_salvage_orphans(rig->salvage, &orphans), 1);
    return orphans;
}

/* The message 4 was sent in the gap; its changed copy is 7. */
static void a_copy_of_an_unknown_message_is_kept(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 3);
    const uint64_t position = rig.position;
    replace(&rig, 4, 7, BYTES("copy"));
    const uint64_t size = rig.frame.size;
    replay(&rig);
    assert_int_equal(only_orphan(&rig)->number, 7);
    assert_int_equal(only_orphan(&rig)->size, 4);
    assert_int_equal(only_orphan(&rig)->position, position + size - 4);
    send(&rig, 8, "");
    replay(&rig);
    core_salvage_end(rig.salvage);
    assert_int_equal(rig.counts[LOSS_SENT], 2); /* 5, 6 */
    assert_int_equal(rig.sent_first, 6);
    rig_deinit(&rig);
}

/* What becomes of a copy afterwards. */
static void a_copy_ends_moves_and_is_replaced_like_a_message(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 3);
    replace(&rig, 4, 5, BYTES("copy"));
    const uint64_t position = rig.position + rig.frame.size;
    move_content(&rig, 5, BYTES("copy"));
    const uint64_t end_of_move = rig.position + rig.frame.size;
    replay(&rig);
    assert_in_range(only_orphan(&rig)->position, position, end_of_move);
    replace(&rig, 5, 6, BYTES("second"));
    replay(&rig);
    const struct salvage_orphan *orphans;
    assert_int_equal(core_salvage_orphans(rig.salvage, &orphans), 2);
    assert_int_equal(orphans[0].number, 0);
    assert_int_equal(orphans[1].number, 6);
    end(&rig, 6);
    replay(&rig);
    assert_int_equal(core_salvage_orphans(rig.salvage, &orphans), 2);
    assert_int_equal(orphans[1].number, 0);
    rig_deinit(&rig);
}

/* The message is in flight, as far as is known. It stays, and the copy is kept beside it until the message ends. */
static void a_copy_of_a_message_that_can_not_be_replaced_is_kept(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 3);
    receive(&rig, 2, 1);
    replace(&rig, 2, 9, BYTES("copy"));
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_EVENT], 1);
    assert_int_not_equal(core_find_message(rig.core, 2), 0);
    assert_int_equal(only_orphan(&rig)->size, 4);
    assert_int_not_equal(only_orphan(&rig)->number, 0);
    end(&rig, 9);
    replay(&rig);
    assert_int_equal(core_find_message(rig.core, 2), 0);
    assert_int_equal(only_orphan(&rig)->number, 0);
    rig_deinit(&rig);
}

static void a_unit_of_a_batch_that_is_not_known_is_a_plain_message(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 0);
    event_encode(&(struct event){.kind = EVENT_SENT,
                                 .sent = {.number = 1, .queue = QUEUE, .batch = 5, .unit = 3, .content = BYTES("c")}},
                 &rig.frame);
    event_encode(
        &(struct event){.kind = EVENT_SENT,
                        .sent = {.number = 2, .queue = QUEUE, .batch = 5, .completes = 1, .content = BYTES("c")}},
        &rig.frame);
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_UNIT], 2);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    for (uint64_t number = 1; number <= 2; number++) {
        const struct message *message = core_message(rig.core, core_find_message(rig.core, number));
        assert_int_equal(message->batch, 0);
        assert_int_equal(message->unit, 0);
        assert_int_equal(message->completes, 0);
    }
    rig_deinit(&rig);
}

/* What was open at the gap, and a child whose parent is not known; what came later and is whole is not. */
static void a_batch_that_may_lack_something_is_held_by_a_unit(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    create_batch(&rig, 1, BYTES("open"), 0);
    replay(&rig);
    core_salvage_gap(rig.salvage);
    create_batch(&rig, 2, BYTES("whole"), 0);
    create_batch(&rig, 3, BYTES("child"), 77);
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    core_salvage_end(rig.salvage);
    assert_int_equal(rig.counts[LOSS_BATCH], 2);
    const struct batch *open = core_find_batch(rig.core, BYTES("open"));
    const struct batch *whole = core_find_batch(rig.core, BYTES("whole"));
    const struct batch *child = core_find_batch(rig.core, BYTES("child"));
    assert_int_equal(open->ledger.count, 1);
    assert_int_equal(open->grown, 1);
    assert_int_equal(ledger_find(&open->ledger, BYTES(SALVAGE_UNIT_KEY)), 0);
    assert_int_equal(whole->ledger.count, 0);
    assert_int_equal(whole->grown, 0);
    assert_int_equal(child->parent, 0);
    assert_int_equal(child->ledger.count, 1);
    rig_deinit(&rig);
}

/* Until that unit ends, there is no need of a second. */
static void the_unit_of_an_earlier_salvage_holds_a_batch_too(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    create_batch(&rig, 1, BYTES("b"), 0);
    replay(&rig);
    for (unsigned life = 1; life <= 2; life++) {
        core_salvage_gap(rig.salvage);
        core_salvage_end(rig.salvage);
        const struct batch *batch = core_find_batch(rig.core, BYTES("b"));
        assert_int_equal(rig.counts[LOSS_BATCH], life);
        assert_int_equal(batch->ledger.count, 1);
        assert_int_equal(batch->grown, 1);
        core_salvage_destroy(rig.salvage);
        rig.salvage = core_salvage_create(rig.core, on_finding, &rig);
    }
    rig_deinit(&rig);
}

static void a_batch_under_an_id_that_is_taken_takes_it(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    create_batch(&rig, 1, BYTES("b"), 0);
    event_encode(&(struct event){.kind = EVENT_BATCH_SEALED, .batch_sealed = {.batch = 1}}, &rig.frame);
    event_encode(&(struct event){.kind = EVENT_BATCH_FIRED,
                                 .batch_fired = {.batch = 1, .event = BATCH_EVENT_COMPLETE, .status = BATCH_SUCCEEDED}},
                 &rig.frame);
    event_encode(&(struct event){.kind = EVENT_BATCH_FIRED, .batch_fired = {.batch = 1, .event = BATCH_EVENT_SUCCESS}},
                 &rig.frame);
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    core_salvage_gap(rig.salvage);
    create_batch(&rig, 2, BYTES("b"), 0);
    replay(&rig);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    assert_int_equal(core_find_batch(rig.core, BYTES("b"))->number, 2);
    rig_deinit(&rig);
}

/* --- damaged frames ----------------------------------------------------------------------------------------------- */

static void append_sent(struct rig *rig, struct event_sent sent, uint64_t id_number)
{
    struct content content = {.body = BYTES("body"), .sender = BYTES("s")};
    struct buffer encoded;
    buffer_init(&encoded);
    identity_message(rig->core->digest_owned, id_number, content.id);
    content_encode(&content, &encoded);
    sent.content = buffer_bytes(&encoded);
    event_encode(&(struct event){.kind = EVENT_SENT, .sent = sent}, &rig->frame);
    buffer_deinit(&encoded);
}

/* A message of a damaged frame is believed if its content proves itself and nothing that it says is impossible. */
static void a_message_of_a_damaged_frame_is_believed_if_it_is_possible(void **state)
{
    (void)state;
    static const struct {
        struct event_sent sent;
        uint64_t id_number;
        bool is_believed;
    } cases[] = {
        {{.number = 3, .queue = QUEUE}, 3, true},
        {{.number = 90, .queue = QUEUE}, 90, true},
        {{.number = 3, .queue = QUEUE}, 4, false},
        {{.number = 2, .queue = QUEUE}, 2, false},
        {{.number = 3, .queue = QUEUE + 1}, 3, false},
        {{.number = 3, .queue = QUEUE, .completes = 1}, 3, false},
        {{.number = 3, .queue = QUEUE, .visible_at_ms = NOW_MS + 900000}, 3, true},
        {{.number = 3, .queue = QUEUE, .visible_at_ms = NOW_MS + 900001}, 3, false},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct rig rig;
        rig_init_with_gap(&rig, 2);
        buffer_append_u32(&rig.frame, 0xffffffff); /* what is damaged stands in front of it */
        append_sent(&rig, cases[i].sent, cases[i].id_number);
        buffer_append_u8(&rig.frame, EVENT_SENT);
        const unsigned count = core_salvage_broken_frame(rig.salvage, buffer_bytes(&rig.frame), rig.position, NOW_MS);
        assert_int_equal(count, cases[i].is_believed);
        assert_int_equal(rig.core->messages.items.used, 2 + cases[i].is_believed);
        if (cases[i].is_believed) {
            struct live_content content;
            assert_true(core_salvage_find(rig.core, cases[i].sent.number, &content));
            struct bytes event = bytes_skip(buffer_bytes(&rig.frame), content.position - rig.position);
            struct content decoded;
            assert_true(content_decode(bytes_make(event.ptr, content.size), &decoded));
            core_salvage_end(rig.salvage);
            assert_int_equal(rig.counts[LOSS_ENDED], 3); /* it may have ended in the same frame */
        }
        rig_deinit(&rig);
    }
}

/* The same for a changed copy; one whose message is not known is kept as an orphan. */
static void a_copy_of_a_damaged_frame_is_believed_if_it_is_possible(void **state)
{
    (void)state;
    static const struct {
        struct event_replaced replaced;
        uint64_t id_number;
        bool is_applied;
        size_t orphans;
    } cases[] = {
        {{.number = 2, .successor = 3, .queue = QUEUE}, 3, true, 0},
        {{.number = 3, .successor = 4, .queue = QUEUE}, 4, false, 1},
        {{.number = 2, .successor = 3, .queue = QUEUE}, 4, false, 0},
        {{.number = 1, .successor = 2, .queue = QUEUE}, 2, false, 0},
        {{.number = 4, .successor = 4, .queue = QUEUE}, 4, false, 0},
        {{.number = 2, .successor = 3, .queue = QUEUE + 1}, 3, false, 0},
        {{.number = 2, .successor = 3, .queue = QUEUE, .visible_at_ms = NOW_MS + 900001}, 3, false, 0},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct rig rig;
        struct content content = {.body = BYTES("body"), .sender = BYTES("s")};
        struct event_replaced replaced = cases[i].replaced;
        struct buffer encoded;
        const struct salvage_orphan *orphans;
        rig_init_with_gap(&rig, 2);
        buffer_init(&encoded);
        identity_message(rig.core->digest_owned, cases[i].id_number, content.id);
        content_encode(&content, &encoded);
        replaced.content = buffer_bytes(&encoded);
        buffer_append_u32(&rig.frame, 0xffffffff);
        event_encode(&(struct event){.kind = EVENT_REPLACED, .replaced = replaced}, &rig.frame);
        const unsigned count = core_salvage_broken_frame(rig.salvage, buffer_bytes(&rig.frame), rig.position, NOW_MS);
        assert_int_equal(count, cases[i].is_applied);
        assert_int_equal(core_find_message(rig.core, 3) != 0, cases[i].is_applied);
        assert_int_equal(core_salvage_orphans(rig.salvage, &orphans), cases[i].orphans);
        buffer_deinit(&encoded);
        rig_deinit(&rig);
    }
}

static void a_publisher_that_was_there_in_a_gap_is_told(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    event_encode(&(struct event){.kind = EVENT_PUBLISHER_OPENED,
                                 .publisher_opened = {.publisher = {1}, .owner = {2}, .epoch = 1}},
                 &rig.frame);
    replay(&rig);
    core_salvage_gap(rig.salvage);
    core_salvage_end(rig.salvage);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    assert_int_equal(rig.counts[LOSS_PUBLISHER], 1);
    rig_deinit(&rig);
}

static void a_pool_that_was_there_in_a_gap_is_told(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct buffer spec;
    buffer_init(&spec);
    pool_spec_encode(&(struct pool_spec){.result_queue = QUEUE,
                                         .rules = BYTES("{\"attrs\":{},\"size\":2}"),
                                         .matcher = MATCHER_BUILT_IN},
                     &spec);
    event_encode(&(struct event){.kind = EVENT_POOL_PUT,
                                 .pool_put = {.pool = 1, .name = BYTES("duel"), .spec = buffer_bytes(&spec)}},
                 &rig.frame);
    buffer_deinit(&spec);
    replay(&rig);
    core_salvage_gap(rig.salvage);
    core_salvage_end(rig.salvage);
    assert_int_equal(rig.counts[LOSS_EVENT], 0);
    assert_int_equal(rig.counts[LOSS_POOL], 1);
    rig_deinit(&rig);
}

/* That it completes is not said any more, so nobody has decided it. */
static void a_batch_that_would_complete_at_once_is_open_again(void **state)
{
    (void)state;
    struct rig rig;
    rig_init_with_gap(&rig, 0);
    create_batch(&rig, 1, BYTES("b"), 0);
    event_encode(&(struct event){.kind = EVENT_BATCH_SEALED, .batch_sealed = {.batch = 1}}, &rig.frame);
    replay(&rig);
    core_salvage_end(rig.salvage);
    const struct batch *batch = core_find_batch(rig.core, BYTES("b"));
    assert_int_equal(batch->state, BATCH_OPEN);
    assert_int_equal(batch->sealed_at_ms, 0);
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
        cmocka_unit_test(every_number_jumps_behind_a_gap),
        cmocka_unit_test(a_log_without_a_gap_leaves_every_number),
        cmocka_unit_test(numbers_beyond_the_half_do_not_jump),
        cmocka_unit_test(an_event_behind_a_gap_proves_the_numbers_before_it),
        cmocka_unit_test(a_queue_under_a_name_that_is_taken_takes_it),
        cmocka_unit_test(a_queue_that_is_not_known_gets_a_name_and_its_kind),
        cmocka_unit_test(a_queue_that_holds_something_keeps_its_kind),
        cmocka_unit_test(who_is_heard_of_behind_a_gap_has_not_ended),
        cmocka_unit_test(what_is_heard_before_the_newest_gap_does_not_count),
        cmocka_unit_test(an_emptied_queue_costs_what_nothing_was_heard_of),
        cmocka_unit_test(messages_of_a_gap_that_ended_or_left_their_content_are_not_lost),
        cmocka_unit_test(a_copy_of_an_unknown_message_is_kept),
        cmocka_unit_test(a_copy_ends_moves_and_is_replaced_like_a_message),
        cmocka_unit_test(a_copy_of_a_message_that_can_not_be_replaced_is_kept),
        cmocka_unit_test(a_copy_of_a_damaged_frame_is_believed_if_it_is_possible),
        cmocka_unit_test(a_unit_of_a_batch_that_is_not_known_is_a_plain_message),
        cmocka_unit_test(a_batch_that_may_lack_something_is_held_by_a_unit),
        cmocka_unit_test(the_unit_of_an_earlier_salvage_holds_a_batch_too),
        cmocka_unit_test(a_batch_under_an_id_that_is_taken_takes_it),
        cmocka_unit_test(a_publisher_that_was_there_in_a_gap_is_told),
        cmocka_unit_test(a_pool_that_was_there_in_a_gap_is_told),
        cmocka_unit_test(a_batch_that_would_complete_at_once_is_open_again),
        cmocka_unit_test(a_message_of_a_damaged_frame_is_believed_if_it_is_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
