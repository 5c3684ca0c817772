/* Where redriven messages stand in the line of their group: before what waits for them, in their order, behind what is
 * in flight. */
#include "dependency.h"

#include "core/messages/decide_move.h"
#include "support/scale.h"

#define UNITS 5u

/* `count` units of batch "b" in group g that are dead letters, a message of g, `gap` numbers of others, and one that
 * waits for "b". */
static void open_line(struct core_rig *rig, unsigned count, bool has_leader, unsigned gap)
{
    core_rig_init(rig, 1);
    make_queue(rig, "plain", false, NULL);
    make_queue(rig, "dead.fifo", true, NULL);
    make_queue(rig, "line.fifo", true, "dead.fifo");
    create_batch(rig, "b", "", NULL, "", OK, NULL);
    struct received_message messages[RECEIVE_MAX];
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(send_alone(rig, "line.fifo", "g", "b", NULL, AFTER_FAILURE_CANCEL), OK);
        core_rig_begin(rig);
        assert_int_equal(receive(rig, "line.fifo", messages), 1);
        fail_for_good(rig, &messages[0]);
        core_rig_end(rig);
    }
    (void)settle(rig, NULL);
    if (has_leader)
        assert_int_equal(send_alone(rig, "line.fifo", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    for (unsigned i = 0; i < gap; i++)
        assert_int_equal(send_alone(rig, "plain", "", "", NULL, AFTER_FAILURE_CANCEL), OK);
    struct after after = {.count = 0};
    after_batch(&after, "b");
    assert_int_equal(send_alone(rig, "line.fifo", "g", "", &after, AFTER_FAILURE_CANCEL), OK);
}

static const struct move_task *start(struct core_rig *rig, uint32_t rate)
{
    core_rig_begin(rig);
    const struct move_task *task = decide_start_move(rig->core, core_find_queue(rig->core, BYTES("dead.fifo")),
                                                     &(struct move_command){.rate = rate, .messages_max = UINT64_MAX});
    core_rig_end(rig);
    return task;
}

static unsigned receive_alone(struct core_rig *rig, struct received_message messages[RECEIVE_MAX])
{
    core_rig_begin(rig);
    unsigned count = receive(rig, "line.fifo", messages);
    core_rig_end(rig);
    return count;
}

static void they_keep_their_order_whatever_numbers_are_left(void **state)
{
    (void)state;
    for (unsigned gap = 0; gap <= UNITS; gap++) {
        struct core_rig rig;
        open_line(&rig, UNITS, true, gap);
        start(&rig, 0);
        (void)settle(&rig, NULL);
        judge(&rig);
        struct received_message messages[RECEIVE_MAX];
        assert_int_equal(receive_alone(&rig, messages), 1 + UNITS);
        for (unsigned i = 1; i <= UNITS; i++)
            assert_true(messages[i].is_renamed && (i == 1 || messages[i].position > messages[i - 1].position));
        core_rig_deinit(&rig);
    }
}

/* A rate of one a second, so that each is there before the next one is moved. */
static void none_comes_in_front_of_what_is_in_flight(void **state)
{
    (void)state;
    for (unsigned gap = 0; gap <= UNITS; gap++) {
        for (unsigned has_leader = 0; has_leader < 2; has_leader++) {
            struct core_rig rig;
            struct received_message held[RECEIVE_MAX], messages[RECEIVE_MAX];
            open_line(&rig, UNITS, has_leader != 0, gap);
            const struct move_task *task = start(&rig, 1);
            (void)settle(&rig, NULL);
            assert_int_equal(task->moved, 1);
            assert_int_equal(receive_alone(&rig, held), 1 + has_leader);
            for (unsigned moved = 2; moved <= UNITS; moved++) {
                rig.now_ms += 1000;
                (void)settle(&rig, NULL);
                assert_int_equal(task->moved, moved);
                assert_int_equal(receive_alone(&rig, messages), 0);
                judge(&rig);
            }
            core_rig_begin(&rig);
            for (unsigned i = 0; i <= has_leader; i++)
                delete (&rig, &held[i]);
            core_rig_end(&rig);
            assert_int_equal(receive_alone(&rig, messages), UNITS - 1);
            core_rig_deinit(&rig);
        }
    }
}

#define MANY 5000u
#define MANY_BEHIND 20000u

/* Were the line walked along for each of them, this test and its restart would take five thousand times twenty thousand
 * steps. */
static void many_come_back_in_front_of_many(void **state)
{
    (void)state;
    struct core_rig rig;
    unsigned count = (unsigned)scaled(MANY), behind = (unsigned)scaled(MANY_BEHIND);
    open_line(&rig, count, true, 0);
    core_rig_begin(&rig);
    for (unsigned i = 0; i < behind; i++)
        assert_int_equal(send(&rig, "line.fifo", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    const struct move_task *task = start(&rig, 0);
    (void)settle(&rig, NULL);
    assert_int_equal(task->moved, count);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* What stands in the line: "l" the leader, "o" and "b" what waits for these batches, "m" what was moved. */
static void expect_line(const struct core_rig *rig, const uint64_t numbers[3], const char *expected)
{
    char text[16];
    size_t size = 0;
    const struct queue *queue = core_find_queue(rig->core, BYTES("line.fifo"));
    uint32_t slot = core_group(rig->core, group_find(rig->core, queue->message_list, BYTES("g")))->first;
    for (; slot != 0 && size + 1 < sizeof(text); slot = core_extra_of(rig->core, core_message(rig->core, slot))->next) {
        uint64_t number = core_message(rig->core, slot)->number;
        text[size++] = number == numbers[0] ? 'l' : number == numbers[1] ? 'o' : number == numbers[2] ? 'b' : 'm';
    }
    text[size] = '\0';
    assert_string_equal(text, expected);
}

/* A search may meet so many messages and batches; one more, and what comes back stands before the first that waits for
 * anything, whatever that is. */
static void whose_dependents_are_too_many_comes_before_all_that_wait(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dead.fifo", true, NULL);
    make_queue(&rig, "line.fifo", true, "dead.fifo");
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    create_batch(&rig, "o", "", NULL, "", OK, NULL);
    struct received_message messages[RECEIVE_MAX];
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(send_alone(&rig, "line.fifo", "g", "b", NULL, AFTER_FAILURE_CANCEL), OK);
        core_rig_begin(&rig);
        assert_int_equal(receive(&rig, "line.fifo", messages), 1);
        fail_for_good(&rig, &messages[0]);
        core_rig_end(&rig);
    }
    struct after after[2] = {{.count = 0}, {.count = 0}};
    after_batch(&after[0], "o");
    after_batch(&after[1], "b");
    uint64_t numbers[3];
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned gap = 0; gap < 3; gap++) /* so that there are numbers between them */
            assert_int_equal(send_alone(&rig, "plain", "", "", NULL, AFTER_FAILURE_CANCEL), OK);
        const struct after *awaited = i == 0 ? NULL : &after[i - 1];
        assert_int_equal(send_alone(&rig, "line.fifo", "g", "", awaited, AFTER_FAILURE_CANCEL), OK);
        numbers[i] = newest.number;
    }
    core_rig_begin(&rig);
    for (unsigned i = 3; i < DEPENDENCY_VISITS_MAX; i++) /* besides the batch, and its dependent in the line */
        assert_int_equal(send(&rig, "plain", "", "", &after[1], AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    expect_line(&rig, numbers, "lob");
    const struct move_task *task = start(&rig, 1);
    (void)settle(&rig, NULL);
    assert_int_equal(task->moved, 1);
    expect_line(&rig, numbers, "lomb");
    assert_int_equal(send_alone(&rig, "plain", "", "", &after[1], AFTER_FAILURE_CANCEL), OK);
    rig.now_ms += 1000;
    (void)settle(&rig, NULL);
    assert_int_equal(task->moved, 2);
    expect_line(&rig, numbers, "lmomb");
    core_check(rig.core);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_keep_their_order_whatever_numbers_are_left),
        cmocka_unit_test(none_comes_in_front_of_what_is_in_flight),
        cmocka_unit_test(many_come_back_in_front_of_many),
        cmocka_unit_test(whose_dependents_are_too_many_comes_before_all_that_wait),
    };
    return cmocka_run_group_tests_name("core move line", tests, NULL, NULL);
}
