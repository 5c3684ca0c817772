/* Messages of a line that fail, or are purged, out of their turn: what is refused, and what is told of them. */
#include "core/messages/explain.h"
#include "dependency.h"

static void make_line(struct core_rig *rig, enum group_failure policy)
{
    core_rig_init(rig, 1);
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = true;
    settings.group_failure = (uint8_t)policy;
    core_rig_begin(rig);
    decide_create_queue(rig->core, BYTES("line.fifo"), &settings);
    core_rig_end(rig);
    make_queue(rig, "bin.fifo", true, NULL);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(send_alone(rig, "line.fifo", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
}

static enum error fail_finally(struct core_rig *rig, const struct received_message *message, const char *dead_letters,
                               struct failure_result *result)
{
    char text[HANDLE_TEXT_SIZE];
    core_rig_begin(rig);
    handle_to_text(core_digest(rig->core), &message->handle, text);
    const struct failed_attempt attempt = {
        .reason = BYTES("no such bird"),
        .is_final = true,
        .dead_letters = dead_letters == NULL ? NULL : core_find_queue(rig->core, bytes_from_string(dead_letters)),
    };
    struct queue *queue = core_find_queue_by_id(rig->core, message->handle.queue);
    enum error error = decide_fail(rig->core, queue, bytes_make(text, sizeof(text)), &attempt, result);
    core_rig_end(rig);
    return error;
}

static struct explanation explain(const struct core_rig *rig, uint64_t number)
{
    static struct explanation explanation;
    explanation = (struct explanation){0};
    uint32_t slot = core_find_message(rig->core, number);
    explain_slot(rig->core, core_find_queue(rig->core, BYTES("line.fifo")), slot, &explanation);
    return explanation;
}

/* Which of the three are still in their queue, and in the other one. */
static void expect_left(const struct core_rig *rig, const char *left, const char *moved)
{
    char here[4] = "", there[4] = "";
    uint32_t line = core_find_queue(rig->core, BYTES("line.fifo"))->id;
    for (uint64_t number = 1; number <= 3; number++) {
        const struct message *message = find(rig, number);
        if (message != NULL) {
            char *text = core_queue_of_message(rig->core, number) == line ? here : there;
            text[strlen(text)] = (char)('0' + number);
        }
    }
    assert_string_equal(here, left);
    assert_string_equal(there, moved);
}

/* The second of three fails for good while the first is in flight; the named queue is for dead letters. */
static void who_fails_for_good_behind_the_head_of_its_line_waits_for_its_turn(void **state)
{
    (void)state;
    const struct {
        enum group_failure policy;
        const char *dead_letters;
        enum error error;
        bool is_final;
        const char *left, *moved;
    } tries[] = {
        {GROUP_FAILURE_SKIP, NULL, OK, false, "13", ""},
        {GROUP_FAILURE_SKIP, "bin.fifo", OK, false, "13", "2"},
        {GROUP_FAILURE_HOLD, NULL, OK, true, "123", ""},
        {GROUP_FAILURE_HOLD, "bin.fifo", OK, true, "123", ""},
        {GROUP_FAILURE_CANCEL_REST, NULL, OK, true, "123", ""},
        {GROUP_FAILURE_CANCEL_REST, "bin.fifo", ERROR_UNSUPPORTED_OPERATION, false, "123", ""},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        struct core_rig rig;
        make_line(&rig, tries[i].policy);
        struct received_message messages[RECEIVE_MAX];
        struct failure_result result;
        core_rig_begin(&rig);
        assert_int_equal(receive(&rig, "line.fifo", messages), 3);
        core_rig_end(&rig);
        assert_int_equal(fail_finally(&rig, &messages[1], tries[i].dead_letters, &result), tries[i].error);
        expect_left(&rig, tries[i].left, tries[i].moved);
        if (tries[i].is_final) {
            struct explanation explanation = explain(&rig, 2);
            bool is_told = false;
            for (unsigned k = 0; k < explanation.count; k++)
                is_told = is_told || (explanation.whys[k].code == WHY_FAILED_FOR_GOOD &&
                                      bytes_equal(explanation.whys[k].text, BYTES("no such bird")));
            assert_true(is_told);
            assert_true(core_extra_of(rig.core, find(&rig, 2))->is_final);
        }
        judge(&rig);
        core_rig_deinit(&rig);
    }
}

/* The reasons with which messages ended in the newest frame, as text: one digit each. */
static void read_reasons(const struct core_rig *rig, char *reasons)
{
    struct bytes rest = buffer_bytes(&rig->frame);
    struct event event;
    while (rest.size > 0) {
        assert_true(event_decode(&rest, &event));
        if (event.kind == EVENT_ENDED)
            reasons += sprintf(reasons, "%llu:%u ", (unsigned long long)event.ended.number, event.ended.reason);
    }
    *reasons = '\0';
}

/* In one frame a queue is purged, and what its message waits for fails: it ends because of the purge. */
static void a_dependent_that_was_out_of_reach_ends_for_what_put_it_there(void **state)
{
    (void)state;
    const struct {
        bool is_purged, is_cancelled;
        enum end_reason reason;
    } tries[] = {{false, false, END_UNMET}, {true, false, END_PURGED}, {false, true, END_CANCELLED}};
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        struct core_rig rig;
        core_rig_init(&rig, 1);
        make_queue(&rig, "first", false, NULL);
        make_queue(&rig, "then", false, NULL);
        create_batch(&rig, "b", "", NULL, "", OK, NULL);
        assert_int_equal(send_alone(&rig, "first", "", "", NULL, AFTER_FAILURE_CANCEL), OK);
        struct after after = {.count = 0};
        after_message(&rig, &after, newest.number);
        assert_int_equal(send_alone(&rig, "then", "", "b", &after, AFTER_FAILURE_CANCEL), OK);
        uint64_t dependent = newest.number;
        struct received_message messages[RECEIVE_MAX];
        core_rig_begin(&rig);
        assert_int_equal(receive(&rig, "first", messages), 1);
        core_rig_end(&rig);
        core_rig_begin(&rig);
        if (tries[i].is_purged)
            decide_purge_queue(rig.core, core_find_queue(rig.core, BYTES("then")));
        if (tries[i].is_cancelled)
            decide_cancel_batch(rig.core, core_find_batch(rig.core, BYTES("b")));
        fail_for_good(&rig, &messages[0]);
        core_rig_end(&rig);
        core_rig_begin(&rig);
        decide_due(rig.core);
        core_rig_end(&rig);
        char reasons[80], expected[80];
        read_reasons(&rig, reasons);
        sprintf(expected, "%llu:%u ", (unsigned long long)dependent, tries[i].reason);
        assert_string_equal(reasons, expected);
        settle(&rig, NULL);
        assert_null(find(&rig, dependent));
        judge(&rig);
        core_rig_deinit(&rig);
    }
}

/* For two weeks it is known that a message failed. Then it can't be told from one that succeeded before it. */
static void how_a_message_ended_is_told_until_that_is_forgotten(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "q", false, NULL);
    uint64_t started_ms = rig.now_ms;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(send_alone(&rig, "q", "", "", NULL, AFTER_FAILURE_CANCEL), OK);
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "q", messages), 4);
    delete (&rig, &messages[0]);
    fail_for_good(&rig, &messages[1]);
    delete (&rig, &messages[2]);
    core_rig_end(&rig);
    const struct {
        uint64_t passed_ms, number;
        unsigned count;
        enum unit_state outcome;
        uint64_t since_ms;
    } tries[] = {
        {0, 1, 1, UNIT_SUCCEEDED, 0},
        {0, 2, 1, UNIT_FAILED, started_ms},
        {14 * DAY_MS - 1, 1, 1, UNIT_SUCCEEDED, 0},
        {14 * DAY_MS - 1, 2, 1, UNIT_FAILED, started_ms},
        {14 * DAY_MS, 1, 0, UNIT_OUTSTANDING, 0},
        {14 * DAY_MS, 2, 0, UNIT_OUTSTANDING, 0},
        {14 * DAY_MS, 3, 1, UNIT_SUCCEEDED, 0}, /* it came behind all whose failure is forgotten */
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        rig.now_ms = started_ms + tries[i].passed_ms;
        core_rig_begin(&rig);
        core_rig_end(&rig);
        uint8_t id[MESSAGE_ID_SIZE];
        static struct explanation explanation;
        identity_message(core_digest(rig.core), tries[i].number, id);
        explain_message(rig.core, core_find_queue(rig.core, BYTES("q")), id, &explanation);
        assert_int_equal(explanation.condition, CONDITION_ENDED);
        assert_int_equal(explanation.count, tries[i].count);
        if (tries[i].count > 0) {
            assert_int_equal(explanation.whys[0].code, WHY_OUTCOME);
            assert_int_equal(explanation.whys[0].outcome, tries[i].outcome);
            assert_int_equal(explanation.whys[0].since_ms, tries[i].since_ms);
        }
    }
    judge(&rig);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_fails_for_good_behind_the_head_of_its_line_waits_for_its_turn),
        cmocka_unit_test(how_a_message_ended_is_told_until_that_is_forgotten),
        cmocka_unit_test(a_dependent_that_was_out_of_reach_ends_for_what_put_it_there),
    };
    return cmocka_run_group_tests_name("core line failure", tests, NULL, NULL);
}
