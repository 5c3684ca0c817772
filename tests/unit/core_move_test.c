/* Move tasks in the core: in portions, at their rate, with contents that stay where they are; and events that do not
 * fit are refused, because on replay they come from a disk. */
#include "support/core_rig.h"

#include "core/core.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_move.h"
#include "core/messages/decide_receive.h"
#include "core/messages/move.h"
#include "core/queues/decide_queue.h"
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
    const struct move_task *task = decide_start_move(core_rig_begin(rig), find(rig, "dead"), find(rig, "back"), rate);
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
#define REFUSES(good, member, value)                                                                                   \
    do {                                                                                                               \
        struct event wrong = good;                                                                                     \
        wrong.member = value;                                                                                          \
        assert_false(fits(&rig, &wrong));                                                                              \
    } while (0)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_move_goes_in_portions),
        cmocka_unit_test(a_task_keeps_to_its_rate),
        cmocka_unit_test(events_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("core move", tests, NULL, NULL);
}
