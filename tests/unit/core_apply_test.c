/* Events against the state that they come to: on replay they come from a disk. One that does not fit is refused, and
 * nothing has changed; its neighbour, which differs in one field, fits. */
#include "core/batches/decide_batch.h"
#include "core/event.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/queues/decide_queue.h"
#include "core/state.h"
#include "support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define Q 1u    /* a queue */
#define DEAD 2u /* another one, the target of batch B */
#define LINE 3u /* a FIFO queue */
#define GONE 4u /* one that was purged, with a message that has not ended yet */
#define NEXT_QUEUE 5u
#define HELD 1u    /* a message of Q in flight */
#define FRESH 2u   /* one that nobody has received */
#define UNIT 3u    /* one that is unit 2 of batch B */
#define DELAYED 4u /* one that is not visible yet */
#define LINED 5u   /* the head of group "g" of LINE */
#define PURGED 6u  /* the one of GONE */
#define HALTED 7u  /* the head of group "h" of LINE, which is held; it is the newest */
#define NEXT_MESSAGE 8u
#define B 1u    /* an open batch with the units 0, 1 and 2 */
#define X 2u    /* one that tracks by xor */
#define DONE 3u /* one that has completed */
#define NEXT_BATCH 4u
#define NONE 9u
#define LEASE_MS 30000u
#define START_MS UINT64_C(1700000000000) /* of the rig */

struct
try {
    bool fits;
    struct event event;
};

static const char letters[FAILURE_REASON_SIZE_MAX + 1] = "a text that ends in NULs";
#define TEXT(size)                                                                                                     \
    {                                                                                                                  \
        (const uint8_t *)letters, size                                                                                 \
    }

#define EVENT(KIND, kind_, ...)                                                                                        \
    {                                                                                                                  \
        .kind = EVENT_##KIND, .kind_ = { __VA_ARGS__ }                                                                 \
    }

#define ROW(id, uid) BYTES(id "\0\0\0\0\0\0\0" uid "23456789abcdefg")
#define PUBLISHED(...) EVENT(PUBLISHED, published, .publisher = {4}, .owner = {2}, .epoch = 3, __VA_ARGS__)

static struct buffer plain_settings, line_settings, spec;

static void make_queue(struct core *core, struct bytes name, bool is_fifo)
{
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = is_fifo;
    decide_create_queue(core, name, &settings);
}

static const struct batch *make_batch(struct core *core, struct bytes id, enum batch_tracking tracking, uint32_t target)
{
    const struct create_batch_command command = {
        .id = id,
        .spec = {.tracking = tracking, .expires_after_s = 900, .retention_s = 900, .targets[0].queue = target}};
    const struct batch *batch;
    assert_int_equal(decide_create_batch(core, &command, &batch), OK);
    return batch;
}

static void send_to(struct core *core, struct bytes queue, struct bytes group)
{
    const struct send_command command = {
        .queue = core_find_queue(core, queue),
        .content = {.body = BYTES("body"), .group = group, .sender = core_name(core)},
        .priority = PRIORITY_DEFAULT,
    };
    struct send_result result;
    assert_int_equal(decide_send(core, &command, &result), OK);
}

/* What later events are for: groups, a queue that was purged, an order of types, and publishers. */
static void lead_further(struct core *core)
{
    make_queue(core, BYTES("gone"), false);
    send_to(core, BYTES("line.fifo"), BYTES("g"));
    send_to(core, BYTES("gone"), BYTES(""));
    send_to(core, BYTES("line.fifo"), BYTES("h"));
    const struct event events[] = {
        EVENT(GROUP_HELD, group_held, LINE, BYTES("h"), BYTES("why")),
        EVENT(QUEUE_PURGED, queue_purged, GONE),
        EVENT(TYPE_ORDER_PUT, type_order_put, BYTES("o"), BYTES("\1\0\0\0a\1\0\0\0b")),
        EVENT(QUEUE_TAGGED, queue_tagged, Q, BYTES("\1\0\0\0k\1\0\0\0v")),
        EVENT(PUBLISHER_OPENED, publisher_opened, .publisher = {1}, .owner = {2}, .epoch = 3),
        EVENT(PUBLISHER_OPENED, publisher_opened, .publisher = {4}, .owner = {2}, .epoch = 3),
        PUBLISHED(.batch = 1, .row_count = 1, .rows = ROW("\1", "u")),
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(events); i++)
        core_emit(core, &events[i]);
}

static void lead_there(struct core_rig *rig)
{
    core_rig_init(rig, 1);
    struct core *core = core_rig_begin(rig);
    make_queue(core, BYTES("q"), false);
    make_queue(core, BYTES("dead"), false);
    make_queue(core, BYTES("line.fifo"), true);
    const struct batch *batch = make_batch(core, BYTES("b"), BATCH_EXACT, DEAD);
    uint32_t added;
    assert_int_equal(decide_add_units(core, batch, &(struct add_units_command){.count = 2}, &added), OK);
    make_batch(core, BYTES("x"), BATCH_XOR, 0);
    bool is_completed;
    decide_seal_batch(core, make_batch(core, BYTES("done"), BATCH_EXACT, 0), &is_completed);
    assert_true(is_completed);
    struct queue *queue = core_find_queue(core, BYTES("q"));
    assert_int_equal(core_rig_send(core, queue, BYTES(""), BYTES("body"), 0), OK);
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    assert_int_equal(decide_receive(core, queue, 1, LEASE_MS, UINT32_MAX, messages, &count), OK);
    assert_int_equal(core_rig_send(core, queue, BYTES(""), BYTES("body"), 0), OK);
    assert_int_equal(core_rig_send(core, queue, BYTES("b"), BYTES("body"), 0), OK);
    assert_int_equal(core_rig_send(core, queue, BYTES(""), BYTES("body"), 5000), OK);
    lead_further(core);
    core_rig_end(rig);
}

/* Of units and rows that are added the first may have been taken, and of what is replaced nothing may be left. */
static bool may_be_spoiled(const struct event *event)
{
    return event->kind == EVENT_UNITS_ADDED || event->kind == EVENT_PUBLISHED;
}

static void try_event(const struct try *try, unsigned index)
{
    struct core_rig rig;
    lead_there(&rig);
    struct buffer payload, before, after;
    buffer_init(&payload);
    buffer_init(&before);
    buffer_init(&after);
    core_rig_encode(rig.core, &before);
    event_encode(&try->event, &payload);
    struct failure failure;
    const bool is_taken = core_replay(rig.core, buffer_bytes(&payload), rig.position, rig.now_ms, &failure);
    if (is_taken != try->fits)
        fail_msg("%s %u: %s", event_kind_name(try->event.kind), index, is_taken ? "taken" : "refused");
    core_check(rig.core);
    core_rig_encode(rig.core, &after);
    if (!is_taken && !may_be_spoiled(&try->event) && !bytes_equal(buffer_bytes(&before), buffer_bytes(&after)))
        fail_msg("%s %u: refused, and something has changed", event_kind_name(try->event.kind), index);
    buffer_deinit(&after);
    buffer_deinit(&before);
    buffer_deinit(&payload);
    core_rig_deinit(&rig);
}

static void try_all(const struct try *tries, size_t count)
{
    for (unsigned i = 0; i < count; i++)
        try_event(&tries[i], i);
}

static void events_of_queues_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct bytes plain = buffer_bytes(&plain_settings), line = buffer_bytes(&line_settings);
    const struct try tries[] = {
        {true, EVENT(TIME_PASSED, time_passed, START_MS)},
        {false, EVENT(TIME_PASSED, time_passed, START_MS - 1)},
        {false, EVENT(FOUNDED, founded, .name = BYTES("n"), .segment_size = 4096)},
        {true, EVENT(QUEUE_CREATED, queue_created, NEXT_QUEUE, BYTES("n"), plain)},
        {true, EVENT(QUEUE_CREATED, queue_created, NEXT_QUEUE, TEXT(QUEUE_NAME_SIZE_MAX), plain)},
        {false, EVENT(QUEUE_CREATED, queue_created, NEXT_QUEUE, TEXT(QUEUE_NAME_SIZE_MAX + 1), plain)},
        {false, EVENT(QUEUE_CREATED, queue_created, NEXT_QUEUE, BYTES(""), plain)},
        {false, EVENT(QUEUE_CREATED, queue_created, NEXT_QUEUE, BYTES("q"), plain)},
        {false, EVENT(QUEUE_CREATED, queue_created, NEXT_QUEUE, BYTES("n"), BYTES("none"))},
        {false, EVENT(QUEUE_CREATED, queue_created, NEXT_QUEUE + 1, BYTES("n"), plain)},
        {false, EVENT(QUEUE_CREATED, queue_created, LINE, BYTES("n"), plain)},
        {false, EVENT(QUEUE_CREATED, queue_created, 0, BYTES("n"), plain)},
        {true, EVENT(QUEUE_SET, queue_set, Q, plain)},
        {false, EVENT(QUEUE_SET, queue_set, Q, line)},
        {true, EVENT(QUEUE_SET, queue_set, LINE, line)},
        {false, EVENT(QUEUE_SET, queue_set, Q, BYTES("none"))},
        {false, EVENT(QUEUE_SET, queue_set, NONE, plain)},
        {true, EVENT(QUEUE_PAUSED, queue_paused, Q, 1)},
        {false, EVENT(QUEUE_PAUSED, queue_paused, Q, 2)},
        {false, EVENT(QUEUE_PAUSED, queue_paused, NONE, 1)},
        {true, EVENT(QUEUE_PURGED, queue_purged, Q)},
        {false, EVENT(QUEUE_PURGED, queue_purged, NONE)},
        {true, EVENT(QUEUE_DELETED, queue_deleted, Q)},
        {true, EVENT(QUEUE_TAGGED, queue_tagged, Q, BYTES("\1\0\0\0l\0\0\0\0"))},
        {false, EVENT(QUEUE_TAGGED, queue_tagged, Q, BYTES("\1\0\0\0l\1\0\0\0"))},
        {false, EVENT(QUEUE_TAGGED, queue_tagged, NONE, BYTES("\1\0\0\0l\0\0\0\0"))},
        {true, EVENT(QUEUE_UNTAGGED, queue_untagged, Q, BYTES("\1\0\0\0k"))},
        {false, EVENT(QUEUE_UNTAGGED, queue_untagged, NONE, BYTES("\1\0\0\0k"))},
        {false, EVENT(QUEUE_DELETED, queue_deleted, DEAD)},
        {false, EVENT(QUEUE_DELETED, queue_deleted, NONE)},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

#define SENT(...) EVENT(SENT, sent, .content = BYTES("c"), __VA_ARGS__)
#define SENT_IN_GROUP(...)                                                                                             \
    EVENT(SENT_IN_GROUP, sent_in_group, .number = NEXT_MESSAGE, .content = BYTES("c"), __VA_ARGS__)

static void events_of_messages_that_were_sent_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct try tries[] = {
        {true, SENT(.number = NEXT_MESSAGE, .queue = Q)},
        {false, SENT(.number = NEXT_MESSAGE + 1, .queue = Q)},
        {false, SENT(.number = DELAYED, .queue = Q)},
        {false, SENT(.number = NEXT_MESSAGE, .queue = NONE)},
        {true, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = B, .unit = 3)},
        {false, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = B, .unit = 2)},
        {false, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = B, .unit = 4)},
        {true, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = X)},
        {false, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = DONE)},
        {false, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = NONE)},
        {true, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = B, .completes = BATCH_EVENT_COUNT)},
        {true, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = DONE, .completes = BATCH_EVENT_COMPLETE)},
        {false, SENT(.number = NEXT_MESSAGE, .queue = Q, .batch = B, .completes = BATCH_EVENT_COUNT + 1)},
        {false, SENT(.number = NEXT_MESSAGE, .queue = Q, .completes = BATCH_EVENT_COMPLETE)},
        {true, SENT_IN_GROUP(.queue = LINE, .priority = PRIORITY_MAX, .group = TEXT(GROUP_ID_SIZE_MAX))},
        {false, SENT_IN_GROUP(.queue = LINE, .priority = PRIORITY_MAX, .group = TEXT(GROUP_ID_SIZE_MAX + 1))},
        {false, SENT_IN_GROUP(.queue = LINE, .priority = PRIORITY_MAX + 1, .group = BYTES("g"))},
        {false, SENT_IN_GROUP(.queue = NONE, .priority = PRIORITY_MAX, .group = BYTES("g"))},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

static void events_of_a_message_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct try tries[] = {
        {true, EVENT(RECEIVED, received, FRESH, 2, 1)},
        {false, EVENT(RECEIVED, received, FRESH, 1, 1)},
        {false, EVENT(RECEIVED, received, FRESH, 3, 1)},
        {false, EVENT(RECEIVED, received, FRESH, 2, 0)},
        {false, EVENT(RECEIVED, received, HELD, 2, 1)},
        {false, EVENT(RECEIVED, received, DELAYED, 2, 1)},
        {false, EVENT(RECEIVED, received, PURGED, 2, 1)},
        {false, EVENT(RECEIVED, received, NONE, 2, 1)},
        {true, EVENT(VISIBILITY_CHANGED, visibility_changed, HELD, 1)},
        {true, EVENT(VISIBILITY_CHANGED, visibility_changed, HELD, 0)},
        {false, EVENT(VISIBILITY_CHANGED, visibility_changed, FRESH, 1)},
        {false, EVENT(VISIBILITY_CHANGED, visibility_changed, NONE, 1)},
        {true, EVENT(LEASE_RENEWED, lease_renewed, HELD, START_MS + LEASE_MS + 1)},
        {false, EVENT(LEASE_RENEWED, lease_renewed, HELD, START_MS + LEASE_MS)},
        {false, EVENT(LEASE_RENEWED, lease_renewed, DELAYED, START_MS + LEASE_MS + 1)},
        {false, EVENT(LEASE_RENEWED, lease_renewed, NONE, START_MS + LEASE_MS + 1)},
        {true, EVENT(FAILED, failed, HELD, 0, 0, TEXT(FAILURE_REASON_SIZE_MAX))},
        {false, EVENT(FAILED, failed, HELD, 0, 0, TEXT(FAILURE_REASON_SIZE_MAX + 1))},
        {false, EVENT(FAILED, failed, FRESH)},
        {false, EVENT(FAILED, failed, NONE)},
        {true, EVENT(ENDED, ended, FRESH, END_DELETED)},
        {true, EVENT(ENDED, ended, FRESH, END_UNMET)},
        {false, EVENT(ENDED, ended, FRESH, END_PUT_BACK)},
        {false, EVENT(ENDED, ended, FRESH, END_PUT_BACK + 1)},
        {false, EVENT(ENDED, ended, FRESH, 0)},
        {false, EVENT(ENDED, ended, NONE, END_DELETED)},
        {true, EVENT(DEAD_LETTERED, dead_lettered, HELD, DEAD)},
        {false, EVENT(DEAD_LETTERED, dead_lettered, HELD, NONE)},
        {false, EVENT(DEAD_LETTERED, dead_lettered, NONE, DEAD)},
        {true, EVENT(ENDED, ended, PURGED, END_PURGED)},
        {false, EVENT(DEAD_LETTERED, dead_lettered, PURGED, DEAD)},
        {false, EVENT(CONTENT_MOVED, content_moved, HELD, BYTES("of another size"))},
        {false, EVENT(CONTENT_MOVED, content_moved, NONE, BYTES("c"))},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

static void events_of_batches_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct bytes good = buffer_bytes(&spec);
    const struct try tries[] = {
        {true, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, 0, 0, TEXT(BATCH_ID_SIZE_MAX), good)},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, 0, 0, TEXT(BATCH_ID_SIZE_MAX + 1), good)},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, 0, 0, BYTES(""), good)},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, 0, 0, BYTES("b"), good)},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, 0, 0, BYTES("n"), BYTES("none"))},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH + 1, 0, 0, BYTES("n"), good)},
        {false, EVENT(BATCH_CREATED, batch_created, DONE, 0, 0, BYTES("n"), good)},
        {true, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, B, 3, BYTES("n"), good)},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, B, 2, BYTES("n"), good)},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, DONE, 0, BYTES("n"), good)},
        {false, EVENT(BATCH_CREATED, batch_created, NEXT_BATCH, NONE, 0, BYTES("n"), good)},
        {true, EVENT(BATCH_SEALED, batch_sealed, B)},
        {false, EVENT(BATCH_SEALED, batch_sealed, DONE)},
        {false, EVENT(BATCH_SEALED, batch_sealed, NONE)},
        {true, EVENT(BATCH_FIRED, batch_fired, B, BATCH_EVENT_COMPLETE, BATCH_EXPIRED)},
        {false, EVENT(BATCH_FIRED, batch_fired, B, BATCH_EVENT_COMPLETE, BATCH_EXPIRED + 1)},
        {false, EVENT(BATCH_FIRED, batch_fired, B, BATCH_EVENT_COMPLETE, BATCH_NO_STATUS)},
        {true, EVENT(BATCH_FIRED, batch_fired, B, BATCH_EVENT_FIRST_FAILURE)},
        {false, EVENT(BATCH_FIRED, batch_fired, B, BATCH_EVENT_FIRST_FAILURE, BATCH_FAILED)},
        {false, EVENT(BATCH_FIRED, batch_fired, B, BATCH_EVENT_COUNT + 1)},
        {false, EVENT(BATCH_FIRED, batch_fired, B, 0)},
        {false, EVENT(BATCH_FIRED, batch_fired, DONE, BATCH_EVENT_COMPLETE, BATCH_SUCCEEDED)},
        {false, EVENT(BATCH_FIRED, batch_fired, NONE, BATCH_EVENT_FIRST_FAILURE)},
        {true, EVENT(BATCH_DELETED, batch_deleted, DONE)},
        {false, EVENT(BATCH_DELETED, batch_deleted, B)},
        {false, EVENT(BATCH_DELETED, batch_deleted, NONE)},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

static void events_of_units_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct try tries[] = {
        {true, EVENT(UNITS_COUNTED, units_counted, B, 3)},
        {false, EVENT(UNITS_COUNTED, units_counted, B, LEDGER_UNITS_MAX)}, /* one is a message */
        {false, EVENT(UNITS_COUNTED, units_counted, X, 3)},
        {false, EVENT(UNITS_COUNTED, units_counted, DONE, 3)},
        {false, EVENT(UNITS_COUNTED, units_counted, NONE, 3)},
        {true, EVENT(UNITS_ADDED, units_added, B, 1, BYTES("\1\0\0\0k"))},
        {true, EVENT(UNITS_ADDED, units_added, B, 2, BYTES("\1\0\0\0k\1\0\0\0l"))},
        {false, EVENT(UNITS_ADDED, units_added, B, 2, BYTES("\1\0\0\0k\1\0\0\0k"))},
        {false, EVENT(UNITS_ADDED, units_added, B, 1, BYTES("\1\0\0\0k\1\0\0\0l"))},
        {false, EVENT(UNITS_ADDED, units_added, B, 2, BYTES("\1\0\0\0k"))},
        {false, EVENT(UNITS_ADDED, units_added, B, 1, BYTES("\1\0\0\0001"))},
        {false, EVENT(UNITS_ADDED, units_added, DONE, 1, BYTES("\1\0\0\0k"))},
        {false, EVENT(UNITS_ADDED, units_added, X, 1, BYTES("\1\0\0\0k"))},
        {true, EVENT(UNIT_ENDED, unit_ended, B, 2, 0, UNIT_CANCELLED)},
        {true, EVENT(UNIT_ENDED, unit_ended, B, 0, 0, UNIT_SUCCEEDED)},
        {false, EVENT(UNIT_ENDED, unit_ended, B, 3, 0, UNIT_SUCCEEDED)},
        {false, EVENT(UNIT_ENDED, unit_ended, B, 0, 0, UNIT_OUTSTANDING)},
        {false, EVENT(UNIT_ENDED, unit_ended, B, 0, 0, UNIT_CANCELLED + 1)},
        {false, EVENT(UNIT_ENDED, unit_ended, NONE, 0, 0, UNIT_SUCCEEDED)},
        {true, EVENT(XOR_APPLIED, xor_applied, X, 1, 1, 0, 1, BYTES("t"))},
        {false, EVENT(XOR_APPLIED, xor_applied, B, 1, 1, 0, 1, BYTES("t"))},
        {false, EVENT(XOR_APPLIED, xor_applied, NONE, 1, 1, 0, 1, BYTES("t"))},
        {true, EVENT(BATCH_GROWN, batch_grown, B, LEDGER_UNITS_MAX - 3)},
        {false, EVENT(BATCH_GROWN, batch_grown, B, LEDGER_UNITS_MAX - 2)},
        {false, EVENT(BATCH_GROWN, batch_grown, B, 0)},
        {false, EVENT(BATCH_GROWN, batch_grown, DONE, 1)},
        {false, EVENT(BATCH_GROWN, batch_grown, NONE, 1)},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

#define GROUP(KIND, kind, ...) EVENT(KIND, kind, LINE, __VA_ARGS__)

static void events_of_groups_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct try tries[] = {
        {true, GROUP(GROUP_HELD, group_held, BYTES("g"), BYTES("why"))},
        {false, GROUP(GROUP_HELD, group_held, BYTES("h"), BYTES("why"))},
        {false, GROUP(GROUP_HELD, group_held, BYTES("i"), BYTES("why"))},
        {false, GROUP(GROUP_HELD, group_held, BYTES(""), BYTES("why"))},
        {false, EVENT(GROUP_HELD, group_held, NONE, BYTES("g"), BYTES("why"))},
        {true, GROUP(GROUP_RELEASED, group_released, BYTES("h"), 1)},
        {false, GROUP(GROUP_RELEASED, group_released, BYTES("g"), 1)},
        {false, GROUP(GROUP_RELEASED, group_released, BYTES("i"), 1)},
        {false, EVENT(GROUP_RELEASED, group_released, Q, BYTES("h"), 1)},
        {true, GROUP(GROUP_CANCELLED, group_cancelled, BYTES("g"), LINED)},
        {false, GROUP(GROUP_CANCELLED, group_cancelled, BYTES("g"), LINED - 1)},
        {false, GROUP(GROUP_CANCELLED, group_cancelled, BYTES("i"), LINED)},
        {false, EVENT(GROUP_CANCELLED, group_cancelled, NONE, BYTES("g"), LINED)},
        {true, GROUP(GROUP_PAUSED, group_paused, TEXT(GROUP_ID_SIZE_MAX), 1)},
        {false, GROUP(GROUP_PAUSED, group_paused, TEXT(GROUP_ID_SIZE_MAX + 1), 1)},
        {false, GROUP(GROUP_PAUSED, group_paused, BYTES("g"), 2)},
        {false, GROUP(GROUP_PAUSED, group_paused, BYTES(""), 1)},
        {false, EVENT(GROUP_PAUSED, group_paused, NONE, BYTES("g"), 1)},
        {true, EVENT(TYPED, typed, HALTED, BYTES("a"))},
        {false, EVENT(TYPED, typed, HALTED, BYTES("z"))},
        {false, EVENT(TYPED, typed, LINED, BYTES("a"))},
        {false, EVENT(TYPED, typed, FRESH, BYTES("a"))},
        {false, EVENT(TYPED, typed, NONE, BYTES("a"))},
        {true, EVENT(TYPE_ORDER_DELETED, type_order_deleted, BYTES("o"))},
        {false, EVENT(TYPE_ORDER_DELETED, type_order_deleted, BYTES("p"))},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

#define WAITED(policy, count, antecedents) EVENT(WAITED, waited, HALTED, policy, count, BYTES(antecedents))
#define M(number, outcome) "\1" number "\0\0\0\0\0\0\0" outcome
#define BATCH(number, outcome) "\2" number "\0\0\0\0\0\0\0" outcome

static void events_of_dependencies_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct try tries[] = {
        {true, WAITED(AFTER_FAILURE_CANCEL, 1, M("\1", "\0"))},
        {true, WAITED(AFTER_FAILURE_HOLD, 3, M("\1", "\0") M("\6", "\0") BATCH("\1", "\0"))},
        {false, WAITED(AFTER_FAILURE_HOLD + 1, 1, M("\1", "\0"))},
        {false, WAITED(AFTER_FAILURE_CANCEL, 0, "")},
        {false, WAITED(AFTER_FAILURE_CANCEL, 2, M("\1", "\0"))},
        {false, WAITED(AFTER_FAILURE_CANCEL, 1, M("\1", "\0") "\0")},
        {false, WAITED(AFTER_FAILURE_CANCEL, 2, M("\1", "\0") M("\1", "\0"))},
        {false, WAITED(AFTER_FAILURE_CANCEL, 2, M("\2", "\0") M("\1", "\0"))},
        {false, WAITED(AFTER_FAILURE_CANCEL, 2, BATCH("\1", "\0") M("\2", "\0"))},
        {false, WAITED(AFTER_FAILURE_CANCEL, 1, M("\7", "\0"))},          /* itself */
        {false, WAITED(AFTER_FAILURE_HOLD, 1, M("\7", "\2"))},            /* itself, as if it had failed */
        {false, WAITED(AFTER_FAILURE_CANCEL, 1, M("\0", "\0"))},          /* no number */
        {false, WAITED(AFTER_FAILURE_CANCEL, 1, "\3\1\0\0\0\0\0\0\0\0")}, /* no kind */
        {false, WAITED(AFTER_FAILURE_CANCEL, 1, "\0\1\0\0\0\0\0\0\0\0")},
        {true, WAITED(AFTER_FAILURE_HOLD, 1, BATCH("\3", "\2"))},
        {true, WAITED(AFTER_FAILURE_HOLD, 1, BATCH("\3", "\3"))},
        {false, WAITED(AFTER_FAILURE_HOLD, 1, BATCH("\3", "\4"))},
        {false, WAITED(AFTER_FAILURE_HOLD, 1, BATCH("\3", "\1"))},   /* a success holds up nothing */
        {false, WAITED(AFTER_FAILURE_CANCEL, 1, BATCH("\3", "\2"))}, /* then the send would have been refused */
        {false, WAITED(AFTER_FAILURE_HOLD, 1, BATCH("\3", "\0"))},   /* has ended */
        {false, WAITED(AFTER_FAILURE_HOLD, 1, BATCH("\2", "\2"))},   /* is open */
        {false, WAITED(AFTER_FAILURE_HOLD, 1, BATCH("\4", "\2"))},   /* never was */
        {false, EVENT(WAITED, waited, LINED, AFTER_FAILURE_CANCEL, 1, BYTES(M("\1", "\0")))},
        {false, EVENT(WAITED, waited, NONE, AFTER_FAILURE_CANCEL, 1, BYTES(M("\1", "\0")))},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

#define BOUND(publisher_, ...) EVENT(PUBLISHER_BOUND, publisher_bound, .publisher = {publisher_}, __VA_ARGS__)
#define ROWS(...) PUBLISHED(.batch = 2, .row_count = 2, __VA_ARGS__)

static void events_of_publishers_fit_or_change_nothing(void **state)
{
    (void)state;
    const struct try tries[] = {
        {true, BOUND(1, .queue = Q)},
        {true, BOUND(1, .queue = GONE)},
        {false, BOUND(1, .queue = NEXT_QUEUE)},
        {false, BOUND(1, .queue = Q, .claim = 7)},
        {false, BOUND(1, .queue = 0)},
        {false, BOUND(9, .queue = Q)},
        {true, BOUND(1, .claim = 7)},
        {false, BOUND(4, .claim = 7)}, /* its first batch is decided */
        {true, ROWS(.rows = ROW("\2", "v"))},
        {true, ROWS(.rows = ROW("\1", "v"))}, /* the id is used again */
        {true, ROWS(.confirmed_batch = 1)},
        {false, ROWS(.confirmed_batch = 2)},
        {false, ROWS(.rows = ROW("\2", "u"))}, /* that uid is known */
        {false, ROWS(.rows = ROW("\0", "v"))},
        {true, ROWS(.rows = BYTES("\377\377\377\377\377\377\377\1770123456789abcdef"))},
        {false, ROWS(.rows = BYTES("\0\0\0\0\0\0\0\2000123456789abcdef"))}, /* 2^63 */
        {false, ROWS(.rows = BYTES("\2\0\0\0\0\0\0\0"))},
        {true, PUBLISHED(.batch = 2, .row_count = PUBLISHER_ROWS_MAX)},
        {false, PUBLISHED(.batch = 2, .row_count = PUBLISHER_ROWS_MAX + 1)},
        {false, PUBLISHED(.batch = 2, .row_count = 0)},
        {false, PUBLISHED(.batch = 1, .row_count = 1)},
        {false, PUBLISHED(.batch = 3, .row_count = 1)},
        {false, EVENT(PUBLISHED, published, {4}, {2}, .epoch = 4, .batch = 2, .row_count = 1)},
        {false, EVENT(PUBLISHED, published, {4}, {3}, .epoch = 3, .batch = 2, .row_count = 1)},
        {false, EVENT(PUBLISHED, published, {9}, {2}, .epoch = 3, .batch = 1, .row_count = 1)},
    };
    try_all(tries, ARRAY_LENGTH(tries));
}

/* Ages are kept in 32 bits of milliseconds: 49 days, which a clock that was set forward passes at once. */
static void an_age_that_32_bits_can_not_hold_is_the_greatest_that_they_can(void **state)
{
    (void)state;
    const struct {
        uint64_t age_ms;
        uint32_t kept_ms;
    } ages[] = {
        {0, 0},
        {1, 1},
        {UINT32_MAX - 2, UINT32_MAX - 2},
        {UINT32_MAX - 1, UINT32_MAX - 1},
        {UINT32_MAX, UINT32_MAX - 1},
        {UINT64_C(1) << 32, UINT32_MAX - 1},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(ages); i++) {
        struct core_rig rig;
        lead_there(&rig);
        struct buffer payload;
        buffer_init(&payload);
        event_encode(&(struct event)EVENT(RECEIVED, received, FRESH, 2, 1), &payload);
        struct failure failure;
        assert_true(core_replay(rig.core, buffer_bytes(&payload), rig.position, START_MS + ages[i].age_ms, &failure));
        const struct message *message = core_message(rig.core, core_find_message(rig.core, FRESH));
        assert_int_equal(message->received_after_ms, ages[i].kept_ms);
        assert_int_equal(message->first_received_after_ms, ages[i].kept_ms + 1); /* 0 would be: never received */
        buffer_deinit(&payload);
        core_rig_deinit(&rig);
    }
}

/* Before a core is founded there is nothing that an event could change. */
static void only_the_event_that_founds_comes_first(void **state)
{
    (void)state;
    const struct try tries[] = {
        {false, EVENT(QUEUE_CREATED, queue_created, 1, BYTES("n"), buffer_bytes(&plain_settings))},
        {false, EVENT(TIME_PASSED, time_passed, START_MS)},
        {true, EVENT(FOUNDED, founded, .name = BYTES("n"), .segment_size = 4096)},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        struct core *core = core_create();
        struct buffer payload;
        buffer_init(&payload);
        event_encode(&tries[i].event, &payload);
        struct failure failure;
        assert_int_equal(core_replay(core, buffer_bytes(&payload), 0, START_MS, &failure), tries[i].fits);
        buffer_deinit(&payload);
        core_destroy(core);
    }
}

static void a_message_that_was_purged_has_no_queue(void **state)
{
    (void)state;
    struct core_rig rig;
    lead_there(&rig);
    const uint32_t queues[] = {0, Q, Q, Q, Q, LINE, 0, LINE, 0};
    for (uint64_t number = 0; number < ARRAY_LENGTH(queues); number++)
        assert_int_equal(core_queue_of_message(rig.core, number), queues[number]);
    core_rig_deinit(&rig);
}

static int encode_parts(void **state)
{
    (void)state;
    struct queue_settings settings = core_rig_settings();
    buffer_init(&plain_settings);
    queue_settings_encode(&settings, &plain_settings);
    settings.is_fifo = true;
    buffer_init(&line_settings);
    queue_settings_encode(&settings, &line_settings);
    buffer_init(&spec);
    batch_spec_encode(&(struct batch_spec){.expires_after_s = 900, .retention_s = 900}, &spec);
    return 0;
}

static int free_parts(void **state)
{
    (void)state;
    buffer_deinit(&plain_settings);
    buffer_deinit(&line_settings);
    buffer_deinit(&spec);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_queues_fit_or_change_nothing),
        cmocka_unit_test(events_of_messages_that_were_sent_fit_or_change_nothing),
        cmocka_unit_test(events_of_a_message_fit_or_change_nothing),
        cmocka_unit_test(events_of_batches_fit_or_change_nothing),
        cmocka_unit_test(events_of_units_fit_or_change_nothing),
        cmocka_unit_test(events_of_groups_fit_or_change_nothing),
        cmocka_unit_test(events_of_dependencies_fit_or_change_nothing),
        cmocka_unit_test(events_of_publishers_fit_or_change_nothing),
        cmocka_unit_test(an_age_that_32_bits_can_not_hold_is_the_greatest_that_they_can),
        cmocka_unit_test(only_the_event_that_founds_comes_first),
        cmocka_unit_test(a_message_that_was_purged_has_no_queue),
    };
    return cmocka_run_group_tests_name("core apply", tests, encode_parts, free_parts);
}
