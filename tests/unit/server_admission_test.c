/* Who begins, and in which order, while memory for replies is scarce, the disk slow, or walks many. */
#include "server/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB ((size_t)1024 * 1024)
#define MAX (64 * MIB)

/* The most that is held when a short one may still begin. */
#define SHORT_MAX (MAX + MAX / REPLY_BUDGET_RESERVE_SHARE + REPLY_BUDGET_REPLY_SIZE)

struct door {
    struct reply_budget replies;
    struct frame_backlog frames;
    struct admission admission;
    struct list_link requests[4];
};

static struct door *door_open(void **state)
{
    static struct door door;
    door = (struct door){.replies = {.max = MAX}};
    admission_init(&door.admission, &door.replies, &door.frames);
    *state = &door;
    return &door;
}

static bool put_off(struct door *door, unsigned request, enum admission_line line)
{
    return admission_put_off(&door->admission, &door->requests[request], line);
}

static void expect_next(struct door *door, unsigned request, enum admission_line line)
{
    assert_true(admission_has_next(&door->admission));
    struct list_link *next = admission_next(&door->admission, line);
    assert_ptr_equal(next, &door->requests[request]);
    admission_leave(next);
}

static void until_the_budget_is_spent_every_request_begins(void **state)
{
    struct door *door = door_open(state);
    door->replies.held = MAX;
    assert_true(admission_is_open(&door->admission));
    assert_false(put_off(door, 0, ADMISSION_LONG));
    door->replies.held = MAX + 1;
    assert_false(admission_is_open(&door->admission));
    assert_true(put_off(door, 0, ADMISSION_LONG));
    assert_true(admission_is_waited_for(&door->admission));
    assert_false(admission_has_next(&door->admission));
}

static void those_that_wait_begin_in_the_order_in_which_they_came(void **state)
{
    struct door *door = door_open(state);
    door->replies.held = MAX + 1;
    for (unsigned i = 0; i < 4; i++)
        assert_true(put_off(door, i, ADMISSION_LONG));
    door->replies.held = MAX;
    for (unsigned i = 0; i < 4; i++)
        expect_next(door, i, ADMISSION_LONG);
    assert_false(admission_has_next(&door->admission));
    assert_true(admission_is_open(&door->admission));
}

static void nobody_overtakes_those_who_wait_when_there_is_room_again(void **state)
{
    struct door *door = door_open(state);
    door->replies.held = MAX + 1;
    assert_true(put_off(door, 0, ADMISSION_LONG));
    door->replies.held = 0;
    assert_false(admission_is_open(&door->admission));
    assert_true(put_off(door, 1, ADMISSION_LONG));
    expect_next(door, 0, ADMISSION_LONG);
    expect_next(door, 1, ADMISSION_LONG);
}

static void short_ones_go_on_as_far_as_the_reserve(void **state)
{
    struct door *door = door_open(state);
    door->replies.held = SHORT_MAX;
    assert_true(put_off(door, 0, ADMISSION_LONG));
    assert_false(put_off(door, 1, ADMISSION_SHORT));
    door->replies.held = SHORT_MAX + 1;
    assert_true(put_off(door, 1, ADMISSION_SHORT));
    assert_false(admission_has_next(&door->admission));
    door->replies.held = SHORT_MAX;
    expect_next(door, 1, ADMISSION_SHORT);
    assert_false(admission_has_next(&door->admission));
}

static void no_line_waits_for_the_other(void **state)
{
    struct door *door = door_open(state);
    door->replies.held = SHORT_MAX + 1;
    assert_true(put_off(door, 0, ADMISSION_LONG));
    assert_true(put_off(door, 1, ADMISSION_SHORT));
    assert_true(put_off(door, 2, ADMISSION_SHORT));
    assert_false(admission_has_next(&door->admission));
    door->replies.held = SHORT_MAX;
    assert_null(admission_next(&door->admission, ADMISSION_LONG));
    expect_next(door, 1, ADMISSION_SHORT);
    door->replies.held = 0;
    expect_next(door, 0, ADMISSION_LONG);
    expect_next(door, 2, ADMISSION_SHORT);
}

static void behind_a_slow_disk_all_wait_but_those_that_need_none(void **state)
{
    struct door *door = door_open(state);
    door->frames.held = FRAME_BACKLOG_MAX - 1;
    assert_true(admission_is_open(&door->admission));
    door->frames.held = FRAME_BACKLOG_MAX;
    assert_false(admission_is_open(&door->admission));
    assert_true(put_off(door, 0, ADMISSION_SHORT));
    assert_true(put_off(door, 1, ADMISSION_LONG));
    assert_false(put_off(door, 2, ADMISSION_PROBE));
    assert_false(admission_has_next(&door->admission));
    door->frames.held = FRAME_BACKLOG_MAX - 1;
    expect_next(door, 0, ADMISSION_SHORT);
    expect_next(door, 1, ADMISSION_LONG);
    assert_true(admission_is_open(&door->admission));
}

static void who_has_gone_holds_up_nobody(void **state)
{
    struct door *door = door_open(state);
    door->replies.held = SHORT_MAX + 1;
    for (unsigned i = 0; i < 3; i++)
        assert_true(put_off(door, i, ADMISSION_LONG));
    assert_true(put_off(door, 3, ADMISSION_SHORT));
    admission_leave(&door->requests[0]);
    admission_leave(&door->requests[3]);
    admission_leave(&door->requests[3]); /* it may be told more than once */
    door->replies.held = 0;
    expect_next(door, 1, ADMISSION_LONG);
    expect_next(door, 2, ADMISSION_LONG);
    assert_false(admission_is_waited_for(&door->admission));
}

static void walks_take_turns_and_the_others_go_between(void **state)
{
    struct door *door = door_open(state);
    assert_false(put_off(door, 0, ADMISSION_WALK));
    admission_note_walk(&door->admission, ADMISSION_WALKS_US - 1);
    assert_true(admission_is_open(&door->admission));
    admission_note_walk(&door->admission, 1);
    assert_false(admission_is_open(&door->admission));
    assert_true(put_off(door, 0, ADMISSION_WALK));
    assert_true(put_off(door, 1, ADMISSION_WALK));
    assert_false(put_off(door, 2, ADMISSION_SHORT));
    assert_false(put_off(door, 2, ADMISSION_LONG));
    assert_false(put_off(door, 2, ADMISSION_PROBE));
    assert_null(admission_next(&door->admission, ADMISSION_WALK));
    assert_true(admission_has_next(&door->admission)); /* so the loop does not sleep */
    admission_begin_turn(&door->admission);
    expect_next(door, 0, ADMISSION_WALK);
    admission_note_walk(&door->admission, 2 * ADMISSION_WALKS_US); /* one at least in each turn */
    assert_null(admission_next(&door->admission, ADMISSION_WALK));
    admission_begin_turn(&door->admission);
    expect_next(door, 1, ADMISSION_WALK);
    assert_true(admission_is_open(&door->admission));
}

static void walks_wait_for_memory_and_the_disk_as_other_long_ones_do(void **state)
{
    struct door *door = door_open(state);
    door->replies.held = MAX + 1;
    assert_true(put_off(door, 0, ADMISSION_WALK));
    assert_false(admission_has_next(&door->admission));
    assert_false(admission_has_room(&door->admission, ADMISSION_WALK));
    door->replies.held = MAX;
    assert_true(admission_has_room(&door->admission, ADMISSION_WALK));
    door->frames.held = FRAME_BACKLOG_MAX;
    assert_false(admission_has_room(&door->admission, ADMISSION_WALK));
    door->frames.held = 0;
    expect_next(door, 0, ADMISSION_WALK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_the_budget_is_spent_every_request_begins),
        cmocka_unit_test(those_that_wait_begin_in_the_order_in_which_they_came),
        cmocka_unit_test(nobody_overtakes_those_who_wait_when_there_is_room_again),
        cmocka_unit_test(short_ones_go_on_as_far_as_the_reserve),
        cmocka_unit_test(no_line_waits_for_the_other),
        cmocka_unit_test(behind_a_slow_disk_all_wait_but_those_that_need_none),
        cmocka_unit_test(who_has_gone_holds_up_nobody),
        cmocka_unit_test(walks_take_turns_and_the_others_go_between),
        cmocka_unit_test(walks_wait_for_memory_and_the_disk_as_other_long_ones_do),
    };
    return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
