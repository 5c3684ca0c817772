/* Move tasks in the core: in portions, at their rate, with contents that stay where they are; and events that do not
 * fit are refused, because on replay they come from a disk. */
#include "support/core_rig.h"

#include "core/core.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_move.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/messages/move.h"
#include "core/messages/preview.h"
#include "core/queues/decide_queue.h"
#include "core/state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MANY 1800u
#define PORTION 500u

static void make_queue(struct core_rig *rig, const char *name)
{
    struct queue_settings settings = core_rig_settings();
    decide_create_queue(core_rig_begin(rig), bytes_from_string(name), &settings);
    core_rig_end(rig);
}

static struct queue *find(const struct core_rig *rig, const char *name)
{
    return core_find_queue(rig->core, bytes_from_string(name));
}

/* "dead" with `count` messages, and "back". */
static void open_rig(struct core_rig *rig, unsigned count)
{
    core_rig_init(rig, 1);
    make_queue(rig, "dead");
    make_queue(rig, "back");
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(core_rig_send(core_rig_begin(rig), find(rig, "dead"), BYTES(""), BYTES("body"), 0), OK);
        core_rig_end(rig);
    }
}

static const struct move_task *start(struct core_rig *rig, uint32_t rate)
{
    const struct move_command command = {.destination = find(rig, "back"), .rate = rate, .messages_max = UINT64_MAX};
    const struct move_task *task = decide_start_move(core_rig_begin(rig), find(rig, "dead"), &command);
    core_rig_end(rig);
    return task;
}

static bool let_due_happen(struct core_rig *rig)
{
    bool is_more = decide_due(core_rig_begin(rig));
    core_rig_end(rig);
    return is_more;
}

static void a_large_move_goes_in_portions(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, MANY);
    uint64_t first_needed = core_next_needed_segment(rig.core, 0);
    const struct move_task *task = start(&rig, 0);
    assert_int_equal(task->to_move, MANY);
    for (unsigned moved = 0; task->status == MOVE_RUNNING; moved = (unsigned)task->moved) {
        assert_true(core_due_ms(rig.core) <= rig.now_ms);
        (void)let_due_happen(&rig);
        assert_true(task->moved <= moved + PORTION && (task->moved > moved || task->status != MOVE_RUNNING));
        core_check(rig.core);
    }
    assert_true(task->status == MOVE_COMPLETED && task->moved == MANY);
    assert_int_equal(core_next_needed_segment(rig.core, 0), first_needed);

    uint64_t position = 0;
    struct received_message messages[RECEIVE_MAX];
    for (unsigned taken = 0, count; taken < MANY; taken += count) {
        enum error error =
            decide_receive(core_rig_begin(&rig), find(&rig, "back"), RECEIVE_MAX, 30000, MANY, messages, &count);
        core_rig_end(&rig);
        assert_true(error == OK && count == RECEIVE_MAX);
        for (unsigned i = 0; i < count; i++) {
            assert_true(messages[i].position > position && messages[i].handle.message > MANY);
            assert_true(messages[i].is_renamed && messages[i].receive_count == 1 && messages[i].origin.size == 0);
            position = messages[i].position;
        }
    }
    core_rig_deinit(&rig);
}

/* Asked when it says that it is due, and at times late: in no second more than the rate and a tenth. */
static void a_task_keeps_to_its_rate(void **state)
{
    static const uint32_t rates[] = {1, 3, 7, 20, 499, 500};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rates); i++) {
        struct core_rig rig;
        uint64_t moved_before[3000] = {0}; /* by milliseconds since the start */
        open_rig(&rig, MANY);
        const struct move_task *task = start(&rig, rates[i]);
        uint64_t started_at_ms = rig.now_ms;
        for (uint64_t ms = 0; ms < ARRAY_LENGTH(moved_before); ms++) {
            rig.now_ms = started_at_ms + ms;
            bool is_late = core_rig_draw(&rig, 4) == 0;
            while (core_due_ms(rig.core) <= rig.now_ms && !is_late)
                (void)let_due_happen(&rig);
            moved_before[ms] = task->moved;
            uint64_t a_second_ago = ms < 1000 ? 0 : moved_before[ms - 1000];
            assert_true(task->moved - a_second_ago <= rates[i] + rates[i] / 10 + 1);
        }
        assert_true(task->moved >= rates[i] * 29 / 10);
        core_rig_deinit(&rig);
    }
}

/* Would a replay of the log so far take this event next? */
static bool fits(const struct core_rig *rig, const struct event *event)
{
    struct core *core = core_rig_replay(rig);
    struct buffer payload;
    struct failure failure;
    buffer_init(&payload);
    event_encode(event, &payload);
    bool is_replayed = core_replay(core, buffer_bytes(&payload), rig->position, rig->now_ms, &failure);
    if (is_replayed)
        core_check(core);
    buffer_deinit(&payload);
    core_destroy(core);
    return is_replayed;
}

#define REFUSES(good, member, value)                                                                                   \
    do {                                                                                                               \
        struct event wrong = good;                                                                                     \
        wrong.member = value;                                                                                          \
        assert_false(fits(&rig, &wrong));                                                                              \
    } while (0)

static void events_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, 3);
    uint32_t dead = find(&rig, "dead")->id, back = find(&rig, "back")->id;
    struct event started = {.kind = EVENT_MOVE_STARTED,
                            .move_started = {.task = 1, .source = dead, .destination = back, .to_move = 2}};
    struct event moved = {.kind = EVENT_MESSAGE_MOVED,
                          .message_moved = {.task = 1, .number = 1, .successor = 4, .queue = back}};
    struct event ended = {.kind = EVENT_MOVE_ENDED,
                          .move_ended = {.task = 1, .source = dead, .status = MOVE_COMPLETED}};
    assert_true(fits(&rig, &started) && !fits(&rig, &moved) && !fits(&rig, &ended));
    REFUSES(started, move_started.task, 2);
    REFUSES(started, move_started.source, 99);
    REFUSES(started, move_started.destination, 99);
    REFUSES(started, move_started.destination, dead);
    REFUSES(started, move_started.rate, MOVE_RATE_MAX + 1);
    (void)start(&rig, 1);
    REFUSES(started, move_started.task, 2); /* one is running */
    assert_true(fits(&rig, &moved) && fits(&rig, &ended));
    REFUSES(moved, message_moved.task, 2);
    REFUSES(moved, message_moved.number, 9);
    REFUSES(moved, message_moved.successor, 5);
    REFUSES(moved, message_moved.queue, 99);
    REFUSES(moved, message_moved.queue, dead);
    REFUSES(moved, message_moved.sequence, 1); /* it stands in no line */
    REFUSES(ended, move_ended.task, 2);
    REFUSES(ended, move_ended.source, back);
    REFUSES(ended, move_ended.status, MOVE_RUNNING);
    REFUSES(ended, move_ended.status, MOVE_FAILED); /* without a reason */
    REFUSES(ended, move_ended.failure, MOVE_NO_QUEUE);
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    assert_int_equal(decide_receive(core_rig_begin(&rig), find(&rig, "dead"), 1, 30000, 10, messages, &count), OK);
    core_rig_end(&rig);
    assert_false(fits(&rig, &moved)); /* it is in flight */
    core_rig_deinit(&rig);
}

/* --- selections --------------------------------------------------------------------------------------------------- */

/* "dead" with `count` messages, each third of them in group "g". */
static void open_grouped_rig(struct core_rig *rig, unsigned count)
{
    open_rig(rig, 0);
    for (unsigned i = 0; i < count; i++) {
        struct send_result result;
        const struct send_command command = {.queue = find(rig, "dead"),
                                             .content = {.body = BYTES("body"),
                                                         .sender = core_name(rig->core),
                                                         .group = i % 3 == 0 ? BYTES("g") : BYTES("")},
                                             .priority = PRIORITY_DEFAULT};
        assert_int_equal(decide_send(core_rig_begin(rig), &command, &result), OK);
        core_rig_end(rig);
    }
}

static const struct move_task *start_selection(struct core_rig *rig, const struct move_command *command,
                                               const struct selection_command *selection)
{
    const struct move_task *task = decide_start_selection(core_rig_begin(rig), find(rig, "dead"), command, selection);
    core_rig_end(rig);
    return task;
}

static uint64_t count_in(const struct core_rig *rig, const char *queue)
{
    return core_message_list(rig->core, find(rig, queue))->count;
}

/* The state that the log makes is the one that is here, at every step. */
static void expect_replayed(const struct core_rig *rig)
{
    struct buffer live, replayed;
    struct core *core = core_rig_replay(rig);
    buffer_init(&live);
    buffer_init(&replayed);
    core_rig_encode(rig->core, &live);
    core_rig_encode(core, &replayed);
    assert_true(bytes_equal(buffer_bytes(&live), buffer_bytes(&replayed)));
    core_destroy(core);
    core = core_create();
    assert_true(core_decode(core, buffer_bytes(&live), NULL, NULL));
    buffer_truncate(&replayed, 0);
    core_rig_encode(core, &replayed);
    assert_true(bytes_equal(buffer_bytes(&live), buffer_bytes(&replayed)));
    core_check(core);
    core_destroy(core);
    buffer_deinit(&live);
    buffer_deinit(&replayed);
}

static void a_filter_walks_in_portions_and_takes_what_fits(void **state)
{
    (void)state;
    for (unsigned act = SELECTION_MOVES; act <= SELECTION_DELETES; act++) {
        struct core_rig rig;
        open_grouped_rig(&rig, MANY);
        const struct move_command command = {.destination = act == SELECTION_MOVES ? find(&rig, "back") : NULL,
                                             .messages_max = UINT64_MAX};
        const struct selection_command selection = {.act = (enum selection_act)act, .filter = {.group = BYTES("g")}};
        const struct move_task *task = start_selection(&rig, &command, &selection);
        assert_int_equal(task->to_move, MANY / 3);
        for (unsigned moved = 0; task->status == MOVE_RUNNING; moved = (unsigned)task->moved) {
            (void)let_due_happen(&rig);
            assert_true(task->moved <= moved + PORTION && (task->moved > moved || task->status != MOVE_RUNNING));
            core_check(rig.core);
            expect_replayed(&rig);
        }
        assert_true(task->status == MOVE_COMPLETED && task->moved == MANY / 3);
        assert_int_equal(count_in(&rig, "dead"), MANY - MANY / 3);
        assert_int_equal(count_in(&rig, "back"), act == SELECTION_MOVES ? MANY / 3 : 0);
        assert_true(task->selection_owned->looked <= MANY && task->selection_owned->refused == 0);
        core_rig_deinit(&rig);
    }
}

/* A filter that fits nothing still moves on, 10,000 messages a turn, and lets others work. */
static void a_filter_looks_at_a_bounded_number_of_messages(void **state)
{
    (void)state;
    struct core_rig rig;
    const unsigned count = 2 * MESSAGE_WALK_VISITS_MAX + 5;
    open_rig(&rig, count);
    const struct move_command command = {.messages_max = UINT64_MAX};
    const struct selection_command selection = {.act = SELECTION_DELETES, .filter = {.group = BYTES("none")}};
    const struct move_task *task = start_selection(&rig, &command, &selection);
    assert_int_equal(task->to_move, count); /* nobody has looked at all of them */
    unsigned turns = 0;
    for (; task->status == MOVE_RUNNING; turns++) {
        const uint64_t before = task->selection_owned->looked;
        (void)let_due_happen(&rig);
        assert_true(task->selection_owned->looked - before <= MESSAGE_WALK_VISITS_MAX);
    }
    assert_true(turns == 3 && task->moved == 0 && task->selection_owned->looked == count);
    struct preview preview;
    preview_init(&preview, rig.core);
    preview_purge(&preview, find(&rig, "dead"));
    assert_true(!preview.is_complete && preview.messages == count);
    preview_deinit(&preview);
    preview_init(&preview, rig.core);
    preview_selection(&preview, find(&rig, "dead"), BYTES("back"), UINT64_MAX,
                      &(struct selection_command){.act = SELECTION_MOVES});
    assert_true(!preview.is_complete && preview.messages == MESSAGE_WALK_VISITS_MAX);
    preview_deinit(&preview);
    preview_init(&preview, rig.core);
    preview_selection(&preview, find(&rig, "dead"), BYTES("back"), 10,
                      &(struct selection_command){.act = SELECTION_MOVES});
    assert_true(preview.is_complete && preview.messages == 10);
    preview_deinit(&preview);
    core_rig_deinit(&rig);
}

/* One hundred are remembered, all are counted. */
static void refusals_are_bounded(void **state)
{
    (void)state;
    struct core_rig rig;
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    open_rig(&rig, 150);
    for (unsigned taken = 0; taken < 150; taken += count) {
        assert_int_equal(
            decide_receive(core_rig_begin(&rig), find(&rig, "dead"), RECEIVE_MAX, 30000, MANY, messages, &count), OK);
        core_rig_end(&rig);
    }
    const struct move_command command = {.messages_max = UINT64_MAX};
    const struct selection_command selection = {.act = SELECTION_DELETES, .filter = {.sent_after_ms = 1}};
    const struct move_task *task = start_selection(&rig, &command, &selection);
    while (task->status == MOVE_RUNNING)
        (void)let_due_happen(&rig);
    const struct selection *left = task->selection_owned;
    assert_true(left->refused == 150 && left->refusal_count == REFUSALS_MAX && left->looked == 150);
    for (unsigned i = 0; i < REFUSALS_MAX; i++)
        assert_true(left->refusals_owned[i].number == i + 1 && left->refusals_owned[i].reason == REFUSED_IN_FLIGHT);
    expect_replayed(&rig);
    core_rig_deinit(&rig);
}

static void events_of_a_selection_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    open_rig(&rig, 4);
    static uint8_t numbers[2 * SELECTION_NUMBER_SIZE], refusals[2 * REFUSAL_SIZE];
    static char letters[FAILURE_REASON_SIZE_MAX + 1];
    uint32_t dead = find(&rig, "dead")->id, back = find(&rig, "back")->id;
    bytes_put_u64(numbers, 2);
    bytes_put_u64(numbers + SELECTION_NUMBER_SIZE, 4);
    struct event started = {.kind = EVENT_SELECTION_STARTED,
                            .selection_started = {.task = 1,
                                                  .source = dead,
                                                  .to_move = 2,
                                                  .act = SELECTION_DELETES,
                                                  .numbers = bytes_make(numbers, sizeof(numbers))}};
    struct event looked = {.kind = EVENT_SELECTION_LOOKED,
                           .selection_looked = {.task = 1,
                                                .source = dead,
                                                .number = 4,
                                                .looked = 3,
                                                .deleted = 1,
                                                .refused = 2,
                                                .refusals = bytes_make(refusals, sizeof(refusals))}};
    assert_true(fits(&rig, &started) && !fits(&rig, &looked));
    REFUSES(started, selection_started.task, 2);
    REFUSES(started, selection_started.source, 99);
    REFUSES(started, selection_started.destination, 99);
    REFUSES(started, selection_started.destination, back); /* what is deleted goes nowhere */
    REFUSES(started, selection_started.rate, MOVE_RATE_MAX + 1);
    REFUSES(started, selection_started.act, 0);
    REFUSES(started, selection_started.act, SELECTION_DELETES + 1);
    REFUSES(started, selection_started.group, bytes_make(letters, GROUP_ID_SIZE_MAX + 1));
    REFUSES(started, selection_started.reason, bytes_make(letters, FAILURE_REASON_SIZE_MAX + 1));
    REFUSES(started, selection_started.numbers, bytes_make(numbers, sizeof(numbers) - 1));
    bytes_put_u64(numbers + SELECTION_NUMBER_SIZE, 5);
    assert_false(fits(&rig, &started)); /* no message has that number */
    bytes_put_u64(numbers + SELECTION_NUMBER_SIZE, 2);
    assert_false(fits(&rig, &started)); /* they don't rise */
    bytes_put_u64(numbers + SELECTION_NUMBER_SIZE, 4);
    const uint64_t chosen[] = {2, 4};
    start_selection(
        &rig, &(struct move_command){.messages_max = 1},
        &(struct selection_command){.act = SELECTION_DELETES, .numbers = chosen, .number_count = ARRAY_LENGTH(chosen)});
    for (unsigned i = 0; i < 2; i++) {
        bytes_put_u64(refusals + (size_t)i * REFUSAL_SIZE, i + 1);
        refusals[(size_t)i * REFUSAL_SIZE + 8] = REFUSED_ABSENT;
    }
    assert_true(fits(&rig, &looked));
    REFUSES(looked, selection_looked.task, 2);
    REFUSES(looked, selection_looked.source, back);
    REFUSES(looked, selection_looked.counted_from_ms, rig.now_ms + 1);
    REFUSES(looked, selection_looked.number, 5);
    REFUSES(looked, selection_looked.arrival, 5);
    REFUSES(looked, selection_looked.looked, 2);
    REFUSES(looked, selection_looked.deleted, 2); /* more than it may */
    REFUSES(looked, selection_looked.refused, 4);
    REFUSES(looked, selection_looked.refused, 1); /* fewer than are named */
    REFUSES(looked, selection_looked.refusals, bytes_make(refusals, sizeof(refusals) - 1));
    refusals[8] = 0;
    assert_false(fits(&rig, &looked));
    refusals[8] = REFUSED_NO_QUEUE + 1;
    assert_false(fits(&rig, &looked));
    refusals[8] = REFUSED_NO_QUEUE;
    assert_true(fits(&rig, &looked));
    struct event moved = {.kind = EVENT_MESSAGE_MOVED,
                          .message_moved = {.task = 1, .number = 1, .successor = 5, .queue = back}};
    assert_false(fits(&rig, &moved)); /* a task that deletes */
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_move_goes_in_portions),
        cmocka_unit_test(a_task_keeps_to_its_rate),
        cmocka_unit_test(events_that_do_not_fit_are_refused),
        cmocka_unit_test(a_filter_walks_in_portions_and_takes_what_fits),
        cmocka_unit_test(a_filter_looks_at_a_bounded_number_of_messages),
        cmocka_unit_test(refusals_are_bounded),
        cmocka_unit_test(events_of_a_selection_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("core move", tests, NULL, NULL);
}
