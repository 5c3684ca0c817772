/* Dependencies at the level of the core: each edge is told once in every interleaving, costs what it should, and what
 * is remembered of ends is what was promised. */
#include "core/messages/decide_commit.h"
#include "dependency.h"
#include "support/scale.h"

/* --- interleavings ------------------------------------------------------------------------------------------------ */

enum way { WAY_DELETED, WAY_DEAD_LETTERED, WAY_DROPPED, WAY_PURGED, WAY_EXPIRED, WAY_CANCELLED, WAY_COUNT };

static const char *queue_of(enum way way)
{
    return way == WAY_DEAD_LETTERED ? "redriven" : "plain";
}

/* Ends the one message of that queue. */
static void end_antecedent(struct core_rig *rig, enum way way)
{
    struct received_message messages[RECEIVE_MAX];
    struct queue *queue = core_find_queue(rig->core, bytes_from_string(queue_of(way)));
    switch (way) {
    case WAY_DELETED:
        assert_int_equal(receive(rig, queue_of(way), messages), 1);
        delete (rig, &messages[0]);
        break;
    case WAY_DEAD_LETTERED:
    case WAY_DROPPED:
        assert_int_equal(receive(rig, queue_of(way), messages), 1);
        fail_for_good(rig, &messages[0]);
        break;
    case WAY_PURGED:
        decide_purge_queue(rig->core, queue);
        (void)decide_due(rig->core);
        break;
    case WAY_EXPIRED: {
        struct queue_settings settings = queue->settings;
        settings.retention_s = 60;
        decide_set_queue(rig->core, queue, &settings);
        (void)decide_due(rig->core);
        break;
    }
    case WAY_CANCELLED:
        decide_cancel_batch(rig->core, core_find_batch(rig->core, BYTES("antecedents")));
        (void)decide_due(rig->core);
        break;
    case WAY_COUNT:
        break;
    }
}

/* Where the end falls among these: the dependent is sent, the frame ends, what is due is told. */
enum moment { MOMENT_BEFORE, MOMENT_SAME_FRAME_BEFORE, MOMENT_SAME_FRAME_AFTER, MOMENT_AFTER, MOMENT_COUNT };

static void declare(struct core_rig *rig, const struct after *after, enum after_failure policy, uint64_t *dependent)
{
    assert_int_equal(send(rig, "dependents", "", "", after, policy), OK);
    *dependent = newest.number;
}

static void play_interleaving(enum way way, enum moment moment, enum after_failure policy)
{
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dead", false, NULL);
    make_queue(&rig, "redriven", false, "dead");
    make_queue(&rig, "dependents", false, NULL);
    create_batch(&rig, "antecedents", "", NULL, "", OK, NULL);
    core_rig_begin(&rig);
    assert_int_equal(
        send(&rig, queue_of(way), "", way == WAY_CANCELLED ? "antecedents" : "", NULL, AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    struct after after = {.count = 0};
    after_message(&rig, &after, newest.number);
    rig.now_ms += 61000;
    uint64_t dependent = 0;
    if (moment == MOMENT_AFTER) {
        core_rig_begin(&rig);
        declare(&rig, &after, policy, &dependent);
        core_rig_end(&rig);
        assert_true(is_waiting(&rig, dependent) && !is_held(&rig, dependent));
        judge(&rig);
    }
    core_rig_begin(&rig);
    if (moment == MOMENT_SAME_FRAME_AFTER)
        declare(&rig, &after, policy, &dependent);
    end_antecedent(&rig, way);
    if (moment == MOMENT_SAME_FRAME_BEFORE)
        declare(&rig, &after, policy, &dependent);
    core_rig_end(&rig);
    judge(&rig);
    settle(&rig, NULL);
    core_rig_begin(&rig);
    if (moment == MOMENT_BEFORE)
        declare(&rig, &after, policy, &dependent);
    core_rig_end(&rig);
    settle(&rig, NULL);
    judge(&rig);

    bool is_good = way == WAY_DELETED;
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    unsigned count = receive(&rig, "dependents", messages);
    core_rig_end(&rig);
    assert_int_equal(count, is_good || policy == AFTER_FAILURE_RUN);
    assert_int_equal(is_held(&rig, dependent), !is_good && policy == AFTER_FAILURE_HOLD);
    assert_int_equal(find(&rig, dependent) == NULL, !is_good && policy == AFTER_FAILURE_CANCEL);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void T68_T58a_T58b_an_edge_is_told_once_whenever_its_antecedent_ends(void **state)
{
    (void)state;
    for (unsigned way = 0; way < WAY_COUNT; way++)
        for (unsigned moment = 0; moment < MOMENT_COUNT; moment++)
            for (unsigned policy = AFTER_FAILURE_CANCEL; policy <= AFTER_FAILURE_HOLD; policy++)
                play_interleaving((enum way)way, (enum moment)moment, (enum after_failure)policy);
}

static void an_antecedent_that_is_named_twice_is_waited_for_once(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    core_rig_begin(&rig);
    uint64_t one = send_plain(&rig, "plain");
    struct after after = {.count = 0};
    after_message(&rig, &after, one);
    after_message(&rig, &after, one);
    assert_int_equal(send(&rig, "plain", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    assert_int_equal(rig.core->dependencies.edges.used, 1);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void what_was_never_known_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    core_rig_begin(&rig);
    uint64_t one = send_plain(&rig, "plain");
    struct after future = {.count = 0}, forged = {.count = 0}, batch = {.count = 0}, text = {.count = 0};
    after_message(&rig, &future, one);
    after_message(&rig, &future, one + 1);
    assert_int_equal(send(&rig, "plain", "", "", &future, AFTER_FAILURE_RUN), ERROR_DEPENDENCY_DOES_NOT_EXIST);
    assert_int_equal(newest.failed, 1);
    assert_false(newest.is_forgotten);
    after_message(&rig, &forged, one);
    forged.texts[0][35] = forged.texts[0][35] == '0' ? '1' : '0';
    assert_int_equal(send(&rig, "plain", "", "", &forged, AFTER_FAILURE_RUN), ERROR_DEPENDENCY_DOES_NOT_EXIST);
    after_batch(&batch, "none");
    assert_int_equal(send(&rig, "plain", "", "", &batch, AFTER_FAILURE_RUN), ERROR_DEPENDENCY_DOES_NOT_EXIST);
    text.names[text.count++] = (struct antecedent_name){.kind = NAMED_MESSAGE, .text = BYTES("not an id")};
    assert_int_equal(send(&rig, "plain", "", "", &text, AFTER_FAILURE_RUN), ERROR_DEPENDENCY_DOES_NOT_EXIST);
    text.names[0] = (struct antecedent_name){.kind = NAMED_DEDUPLICATION, .text = BYTES("x"), .queue = BYTES("none")};
    assert_int_equal(send(&rig, "plain", "", "", &text, AFTER_FAILURE_RUN), ERROR_DEPENDENCY_DOES_NOT_EXIST);
    core_rig_end(&rig);
    assert_int_equal(core_metrics(rig.core).messages, 1);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* --- how much it costs -------------------------------------------------------------------------------------------- */

/* `count` messages, then one that waits for them all by name; each end takes one edge. */
static void fan_in_by_list(uint32_t count)
{
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dependents", false, NULL);
    struct antecedent_name *names = calloc(count, sizeof(*names));
    char(*texts)[IDENTITY_TEXT_SIZE] = calloc(count, sizeof(*texts));
    core_rig_begin(&rig);
    for (uint32_t i = 0; i < count; i++) {
        send_plain(&rig, "plain");
        identity_to_text(newest.id, texts[i]);
        names[i] = (struct antecedent_name){.kind = NAMED_MESSAGE, .text = bytes_make(texts[i], IDENTITY_TEXT_SIZE)};
    }
    struct send_command command = {.queue = core_find_queue(rig.core, BYTES("dependents")),
                                   .content = {.body = BYTES("body"), .sender = core_name(rig.core)},
                                   .priority = PRIORITY_DEFAULT,
                                   .antecedents = names,
                                   .antecedent_count = count};
    assert_int_equal(decide_send(rig.core, &command, &newest), OK);
    core_rig_end(&rig);
    assert_int_equal(rig.core->dependencies.edges.used, count);
    struct frame_facts sum = {0};
    for (uint32_t ended = 0; ended < count;) {
        struct received_message messages[RECEIVE_MAX];
        assert_true(is_waiting(&rig, newest.number));
        core_rig_begin(&rig);
        for (unsigned i = 0; i < 50; i++) {
            unsigned taken = receive(&rig, "plain", messages);
            for (unsigned j = 0; j < taken; j++, ended++)
                delete (&rig, &messages[j]);
        }
        core_rig_end(&rig);
        settle(&rig, &sum);
    }
    assert_int_equal(sum.told, count);
    assert_int_equal(sum.resolved_events, count);
    assert_false(is_waiting(&rig, newest.number));
    assert_int_equal(rig.core->dependencies.edges.used, 0);
    assert_int_equal(rig.core->dependencies.antecedents.used, 0);
    judge(&rig);
    free(names);
    free(texts);
    core_rig_deinit(&rig);
}

static void T58e_ten_thousand_to_one_by_a_list_is_one_edge_each(void **state)
{
    (void)state;
    fan_in_by_list(10000);
}

static void T58e_a_hundred_thousand_to_one_by_a_list(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    fan_in_by_list(100000);
}

static void T58e_a_hundred_thousand_to_one_by_a_batch_is_one_edge(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "dependents", false, NULL);
    create_batch(&rig, "stage", "", NULL, "", OK, NULL);
    const struct batch *batch = core_find_batch(rig.core, BYTES("stage"));
    struct after after = {.count = 0};
    after_batch(&after, "stage");
    uint32_t added, count = (uint32_t)scaled(100000);
    core_rig_begin(&rig);
    assert_int_equal(decide_add_units(rig.core, batch, &(struct add_units_command){.count = count}, &added), OK);
    assert_int_equal(send(&rig, "dependents", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    bool is_completed;
    decide_seal_batch(rig.core, batch, &is_completed);
    core_rig_end(&rig);
    assert_int_equal(rig.core->dependencies.edges.used, 1);
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        int size = snprintf(key, sizeof(key), "%u", i);
        struct unit_report report = {.key = bytes_make(key, (size_t)size), .outcome = UNIT_SUCCEEDED};
        uint32_t unknown;
        assert_true(is_waiting(&rig, newest.number));
        core_rig_begin(&rig);
        assert_int_equal(decide_complete_units(rig.core, batch, &report, 1, UINT64_MAX, &unknown, &is_completed), OK);
        core_rig_end(&rig);
    }
    assert_true(is_completed);
    struct frame_facts sum = {0};
    settle(&rig, &sum);
    assert_int_equal(sum.resolved_events, 1);
    assert_false(is_waiting(&rig, newest.number));
    judge(&rig);
    core_rig_deinit(&rig);
}

static void T58e_one_to_a_hundred_thousand_is_told_in_portions(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dependents", false, NULL);
    struct after after = {.count = 0};
    unsigned thousands = (unsigned)scaled(100);
    core_rig_begin(&rig);
    after_message(&rig, &after, send_plain(&rig, "plain"));
    core_rig_end(&rig);
    for (unsigned i = 0; i < thousands; i++) {
        core_rig_begin(&rig);
        for (unsigned j = 0; j < 1000; j++)
            assert_int_equal(send(&rig, "dependents", "", "", &after, AFTER_FAILURE_CANCEL), OK);
        core_rig_end(&rig);
    }
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "plain", messages), 1);
    delete (&rig, &messages[0]);
    core_rig_end(&rig);
    struct frame_facts sum = {0};
    assert_int_equal(settle(&rig, &sum), thousands * 1000 / PORTION);
    assert_int_equal(sum.told, thousands * 1000);
    assert_int_equal(sum.resolved_events, thousands * 1000 / PORTION);
    assert_int_equal(core_metrics(rig.core).delayed, 0);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* Each waits for the one before it; the first fails, and so do all, one after the other, in bounded portions and
 * stack. */
static void a_chain_of_a_hundred_thousand_is_cancelled_in_portions(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dependents", false, NULL);
    unsigned count = (unsigned)scaled(100) * 1000;
    core_rig_begin(&rig);
    uint64_t last = send_plain(&rig, "plain");
    for (unsigned i = 0; i < count; i++) {
        struct after after = {.count = 0};
        after_message(&rig, &after, last);
        assert_int_equal(send(&rig, "dependents", "", "", &after, AFTER_FAILURE_CANCEL), OK);
        last = newest.number;
    }
    core_rig_end(&rig);
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "plain", messages), 1);
    fail_for_good(&rig, &messages[0]);
    core_rig_end(&rig);
    struct frame_facts sum = {0};
    assert_int_equal(settle(&rig, &sum), count / PORTION);
    assert_int_equal(sum.ended, count);
    assert_int_equal(core_metrics(rig.core).messages, 0);
    assert_int_equal(rig.core->dependencies.failures.records.used, count + 1);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void a_large_purge_does_not_keep_dependents_of_others_waiting(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "purged", false, NULL);
    make_queue(&rig, "dependents", false, NULL);
    struct after after = {.count = 0};
    core_rig_begin(&rig);
    after_message(&rig, &after, send_plain(&rig, "plain"));
    for (unsigned i = 0; i < 10 * PORTION; i++)
        send_plain(&rig, "purged");
    assert_int_equal(send(&rig, "dependents", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "plain", messages), 1);
    delete (&rig, &messages[0]);
    decide_purge_queue(rig.core, core_find_queue(rig.core, BYTES("purged")));
    assert_true(decide_due(rig.core));
    core_rig_end(&rig);
    assert_false(is_waiting(&rig, newest.number));
    judge(&rig);
    core_rig_deinit(&rig);
}

/* --- what is remembered ------------------------------------------------------------------------------------------- */

static enum error ask(struct core_rig *rig, uint64_t number)
{
    struct after after = {.count = 0};
    after_message(rig, &after, number);
    return send_alone(rig, "dependents", "", "", &after, AFTER_FAILURE_HOLD);
}

static void T58a_a_failure_is_remembered_for_fourteen_days(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dependents", false, NULL);
    core_rig_begin(&rig);
    uint64_t good = send_plain(&rig, "plain"), bad = send_plain(&rig, "plain"), later = send_plain(&rig, "plain");
    struct received_message messages[RECEIVE_MAX];
    assert_int_equal(receive(&rig, "plain", messages), 3);
    delete (&rig, &messages[0]);
    fail_for_good(&rig, &messages[1]);
    delete (&rig, &messages[2]);
    core_rig_end(&rig);
    rig.now_ms += OUTCOME_WINDOW_MS - 1;
    assert_int_equal(ask(&rig, good), OK);
    assert_false(is_waiting(&rig, newest.number));
    assert_int_equal(ask(&rig, bad), OK);
    assert_true(is_held(&rig, newest.number));
    judge(&rig);
    rig.now_ms += 1;
    assert_int_equal(ask(&rig, later), OK); /* younger than what was forgotten, so it did not fail */
    assert_int_equal(ask(&rig, bad), ERROR_DEPENDENCY_DOES_NOT_EXIST);
    assert_true(newest.is_forgotten);
    assert_int_equal(ask(&rig, good), ERROR_DEPENDENCY_DOES_NOT_EXIST); /* never guessed */
    assert_true(newest.is_forgotten);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void a_dead_letter_has_failed_while_it_lives_and_after(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "dead", false, NULL);
    make_queue(&rig, "redriven", false, "dead");
    make_queue(&rig, "dependents", false, NULL);
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    uint64_t number = send_plain(&rig, "redriven");
    assert_int_equal(receive(&rig, "redriven", messages), 1);
    fail_for_good(&rig, &messages[0]);
    core_rig_end(&rig);
    assert_int_equal(rig.core->dependencies.failures.records.used, 0);
    assert_int_equal(ask(&rig, number), OK);
    assert_true(is_held(&rig, newest.number));
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "dead", messages), 1);
    delete (&rig, &messages[0]);
    core_rig_end(&rig);
    assert_int_equal(rig.core->dependencies.failures.records.used, 1);
    assert_int_equal(ask(&rig, number), OK);
    assert_true(is_held(&rig, newest.number));
    judge(&rig);
    core_rig_deinit(&rig);
}

static void T58a_the_outcome_of_a_batch_outlives_its_record(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "dependents", false, NULL);
    struct after after = {.count = 0};
    after_batch(&after, "b");
    for (unsigned round = 0; round < 2; round++) { /* the id is used a second time, with another end */
        create_batch(&rig, "b", "", NULL, "", OK, NULL);
        const struct batch *batch = core_find_batch(rig.core, BYTES("b"));
        bool is_completed;
        core_rig_begin(&rig);
        if (round == 0)
            decide_cancel_batch(rig.core, batch);
        else
            decide_seal_batch(rig.core, batch, &is_completed);
        assert_int_equal(decide_delete_batch(rig.core, batch), OK);
        core_rig_end(&rig);
        rig.now_ms += round == 0 ? DAY_MS : OUTCOME_WINDOW_MS - 1;
        assert_int_equal(send_alone(&rig, "dependents", "", "", &after, AFTER_FAILURE_HOLD), OK);
        assert_int_equal(is_held(&rig, newest.number), round == 0);
        judge(&rig);
    }
    rig.now_ms += 1;
    assert_int_equal(send_alone(&rig, "dependents", "", "", &after, AFTER_FAILURE_HOLD),
                     ERROR_DEPENDENCY_DOES_NOT_EXIST);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* Ids of batches are free again at once. The run of one hash must not grow with what is remembered under it. */
static void outcomes_of_one_id_stand_once_in_the_table(void **state)
{
    (void)state;
    const struct digest_tag often = {.low = 7}, once = {.low = 8};
    struct outcomes outcomes;
    outcomes_init(&outcomes);
    outcomes_remember(&outcomes, once, 1, UNIT_FAILED, 1);
    for (uint64_t number = 2; number <= 1000; number++)
        outcomes_remember(&outcomes, often, number, UNIT_SUCCEEDED, number);
    assert_int_equal(outcomes.records.used, 1000);
    assert_int_equal(table_count(&outcomes.by_key), 2);
    assert_int_equal(outcomes_find(&outcomes, often)->number, 1000);
    outcomes_check(&outcomes, 1000);
    outcomes_forget(&outcomes, 999 + OUTCOME_WINDOW_MS);
    assert_null(outcomes_find(&outcomes, once));
    assert_int_equal(outcomes_find(&outcomes, often)->number, 1000);
    assert_int_equal(outcomes.forgotten_number, 999);
    outcomes_check(&outcomes, 1000);
    outcomes_forget(&outcomes, 1000 + OUTCOME_WINDOW_MS);
    assert_null(outcomes_find(&outcomes, often));
    assert_int_equal(table_count(&outcomes.by_key), 0);
    outcomes_deinit(&outcomes);
}

static void one_outcome_too_many_makes_the_oldest_be_forgotten(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct outcomes outcomes;
    outcomes_init(&outcomes);
    for (uint64_t number = 1; number <= OUTCOMES_MAX; number++)
        outcomes_remember(&outcomes, (struct digest_tag){.low = number}, number, UNIT_FAILED, 5);
    assert_int_equal(outcomes.forgotten_number, 0);
    assert_non_null(outcomes_find(&outcomes, (struct digest_tag){.low = 1}));
    outcomes_remember(&outcomes, (struct digest_tag){.low = OUTCOMES_MAX + 1}, OUTCOMES_MAX + 1, UNIT_CANCELLED, 6);
    assert_null(outcomes_find(&outcomes, (struct digest_tag){.low = 1}));
    assert_non_null(outcomes_find(&outcomes, (struct digest_tag){.low = 2}));
    assert_int_equal(outcomes.forgotten_number, 1);
    outcomes_check(&outcomes, 6);
    outcomes_forget(&outcomes, 5 + OUTCOME_WINDOW_MS);
    assert_int_equal(outcomes.records.used, 1);
    assert_int_equal(outcomes.forgotten_number, OUTCOMES_MAX);
    outcomes_deinit(&outcomes);
}

/* The command of a send to `queue` that waits for one message; the name stands in `after`. */
static struct send_command send_after(const struct core_rig *rig, const char *queue, struct after *after,
                                      uint64_t number)
{
    *after = (struct after){0};
    after_message(rig, after, number);
    return (struct send_command){.queue = core_find_queue(rig->core, bytes_from_string(queue)),
                                 .content = {.body = BYTES("body"), .sender = core_name(rig->core)},
                                 .priority = PRIORITY_DEFAULT,
                                 .antecedents = after->names,
                                 .antecedent_count = after->count};
}

/* Of what is remembered the first send, which fails at once, takes the place of the oldest: the second may not name
 * that, nor what lies before it. */
static void a_commit_names_nothing_that_it_makes_be_forgotten(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "q", false, NULL);
    core_rig_begin(&rig);
    enum { SUCCEEDED_BEFORE = 1, OLDEST, NEXT, SUCCEEDED_AFTER, COUNT };
    for (uint64_t number = SUCCEEDED_BEFORE; number < COUNT; number++)
        assert_int_equal(send_plain(&rig, "q"), number);
    struct received_message messages[RECEIVE_MAX];
    unsigned count = receive(&rig, "q", messages);
    assert_int_equal(count, COUNT - 1);
    for (unsigned i = 0; i < count; i++)
        delete (&rig, &messages[i]);
    rig.core->messages.message_number = OLDEST + OUTCOMES_MAX;
    for (uint64_t number = OLDEST; number <= rig.core->messages.message_number; number++)
        if (number != SUCCEEDED_AFTER)
            outcomes_remember(&rig.core->dependencies.failures, (struct digest_tag){.low = number}, number, UNIT_FAILED,
                              rig.core->now_ms);

    struct after first, second;
    struct commit_send sends[2] = {{.command = send_after(&rig, "q", &first, NEXT)}};
    struct commit_command commit = {.sends = sends, .send_count = 2, .size_max = 1u << 19};
    struct commit_fault fault;
    uint64_t before = rig.core->messages.message_number;
    for (unsigned named = SUCCEEDED_BEFORE; named <= OLDEST; named++) {
        sends[1].command = send_after(&rig, "q", &second, named);
        assert_int_equal(decide_commit(rig.core, &commit, &fault), ERROR_DEPENDENCY_DOES_NOT_EXIST);
        assert_int_equal(fault.index, 1);
        assert_true(sends[1].result.is_forgotten);
    }
    sends[1].command = send_after(&rig, "q", &second, SUCCEEDED_AFTER);
    assert_int_equal(decide_commit(rig.core, &commit, &fault), OK);
    assert_null(find(&rig, before + 1));
    assert_non_null(find(&rig, before + 2));
    assert_int_equal(rig.core->dependencies.failures.forgotten_number, OLDEST);

    /* One that can't fail takes nobody's place. */
    sends[0].command.antecedent_count = 0;
    sends[1].command = send_after(&rig, "q", &second, NEXT);
    assert_int_equal(decide_commit(rig.core, &commit, &fault), OK);
    core_rig_end(&rig);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

/* --- holding ------------------------------------------------------------------------------------------------------ */

static void T58b_a_held_message_says_which_antecedent_holds_it(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dependents", false, NULL);
    create_batch(&rig, "stage", "", NULL, "", OK, NULL);
    struct after after = {.count = 0};
    after_batch(&after, "stage");
    core_rig_begin(&rig);
    uint64_t antecedent = send_plain(&rig, "plain");
    after_message(&rig, &after, antecedent);
    assert_int_equal(send(&rig, "dependents", "", "", &after, AFTER_FAILURE_HOLD), OK);
    core_rig_end(&rig);
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "plain", messages), 1);
    fail_for_good(&rig, &messages[0]);
    core_rig_end(&rig);
    settle(&rig, NULL);
    judge(&rig);
    uint32_t slot = core_find_message(rig.core, newest.number), edge = 0;
    struct antecedent_view view;
    assert_true(dependency_next(rig.core, slot, &edge, &view));
    assert_true(view.kind == ANTECEDENT_MESSAGE && view.number == antecedent);
    assert_true(view.outcome == UNIT_FAILED && view.is_holding);
    assert_true(dependency_next(rig.core, slot, &edge, &view));
    assert_true(view.kind == ANTECEDENT_BATCH && view.outcome == UNIT_OUTSTANDING && !view.is_holding);
    assert_true(bytes_equal(view.batch_id, BYTES("stage")));
    assert_false(dependency_next(rig.core, slot, &edge, &view));

    /* The batch succeeds, the message stays held; its retention is its end. */
    bool is_completed;
    core_rig_begin(&rig);
    decide_seal_batch(rig.core, core_find_batch(rig.core, BYTES("stage")), &is_completed);
    core_rig_end(&rig);
    settle(&rig, NULL);
    assert_true(is_held(&rig, newest.number));
    judge(&rig);
    rig.now_ms += 14 * DAY_MS;
    settle(&rig, NULL);
    assert_null(find(&rig, newest.number));
    assert_int_equal(rig.core->dependencies.antecedents.used, 0);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void a_delay_that_a_queue_gets_while_a_message_waits_holds_for_it(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "line.fifo", true, NULL);
    struct after after = {.count = 0};
    core_rig_begin(&rig);
    after_message(&rig, &after, send_plain(&rig, "plain"));
    assert_int_equal(send(&rig, "line.fifo", "g", "", &after, AFTER_FAILURE_CANCEL), OK);
    struct queue *queue = core_find_queue(rig.core, BYTES("line.fifo"));
    struct queue_settings settings = queue->settings;
    settings.delay_s = 100;
    decide_set_queue(rig.core, queue, &settings);
    struct received_message messages[RECEIVE_MAX];
    assert_int_equal(receive(&rig, "plain", messages), 1);
    delete (&rig, &messages[0]);
    core_rig_end(&rig);
    settle(&rig, NULL);
    assert_int_equal(find(&rig, newest.number)->state, MESSAGE_DELAYED);
    judge(&rig);
    rig.now_ms += 100000;
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "line.fifo", messages), 1);
    core_rig_end(&rig);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* --- bytes from a disk -------------------------------------------------------------------------------------------- */

/* A state with live, resolving, held and told edges of both kinds. */
static void fill(struct core_rig *rig)
{
    core_rig_init(rig, 1);
    make_queue(rig, "plain", false, NULL);
    create_batch(rig, "b", "", NULL, "", OK, NULL);
    create_batch(rig, "gone", "", NULL, "", OK, NULL);
    core_rig_begin(rig);
    struct after after = {.count = 0}, held = {.count = 0};
    after_message(rig, &after, send_plain(rig, "plain"));
    after_message(rig, &after, send_plain(rig, "plain"));
    after_batch(&after, "b");
    uint64_t bad = send_plain(rig, "plain");
    after_message(rig, &held, bad);
    after_batch(&held, "b");
    after_batch(&held, "gone");
    assert_int_equal(send(rig, "plain", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send(rig, "plain", "", "", &held, AFTER_FAILURE_HOLD), OK);
    decide_cancel_batch(rig->core, core_find_batch(rig->core, BYTES("gone")));
    struct received_message messages[RECEIVE_MAX];
    assert_int_equal(receive(rig, "plain", messages), 3);
    fail_for_good(rig, &messages[2]);
    core_rig_end(rig);
    settle(rig, NULL);
    core_rig_begin(rig);
    delete (rig, &messages[0]);
    assert_int_equal(decide_delete_batch(rig->core, core_find_batch(rig->core, BYTES("gone"))), OK);
    core_rig_end(rig);
}

static void a_damaged_state_is_refused_or_sound(void **state)
{
    (void)state;
    struct core_rig rig;
    fill(&rig);
    judge(&rig);
    assert_true(dependency_is_resolving(rig.core));
    assert_int_equal(rig.core->dependencies.edges.used, 6);
    struct buffer encoded, again;
    buffer_init(&encoded);
    buffer_init(&again);
    core_rig_encode(rig.core, &encoded);
    unsigned refused = 0, sound = 0;
    for (size_t at = 0; at < encoded.size; at++) {
        for (unsigned flip = 0; flip < 9; flip++) {
            if (is_scaled_down() && (at + flip) % 5 != 0)
                continue;
            uint8_t old = encoded.data_owned[at];
            encoded.data_owned[at] = flip < 8 ? old ^ (uint8_t)(1u << flip) : 0xff;
            struct core *core = core_create();
            if (core_bytes_decode(core, buffer_bytes(&encoded))) {
                core_check(core);
                sound++;
            } else {
                refused++;
            }
            core_destroy(core);
            encoded.data_owned[at] = old;
        }
    }
    assert_true(refused > 0 && sound > 0);
    buffer_deinit(&encoded);
    buffer_deinit(&again);
    core_rig_deinit(&rig);
}

/* Where the number of dependents stands in an encoded state: behind what is remembered of ends. */
static size_t find_dependent_count(const struct core *core, const struct buffer *encoded)
{
    struct core_writer writer = {.sink = NULL};
    buffer_init(&writer.piece);
    outcomes_encode(&core->dependencies.failures, &writer);
    outcomes_encode(&core->dependencies.batch_outcomes, &writer);
    struct bytes part = core_rig_find_part(core, encoded, dependency_encode);
    size_t at = (size_t)(part.ptr - encoded->data_owned) + writer.piece.size;
    buffer_deinit(&writer.piece);
    return at;
}

/* Is the state read if it has one more dependent, the last one, with that many edges, of which none stands there? */
static bool is_read_with_dependent(const struct core_rig *rig, uint64_t number, uint32_t edge_count)
{
    struct buffer encoded, longer;
    buffer_init(&encoded);
    buffer_init(&longer);
    core_rig_encode(rig->core, &encoded);
    struct bytes part = core_rig_find_part(rig->core, &encoded, dependency_encode);
    size_t at = find_dependent_count(rig->core, &encoded);
    size_t end = (size_t)(part.ptr + part.size - encoded.data_owned) - 4; /* nothing is resolving */
    bytes_put_u32(encoded.data_owned + at, bytes_get_u32(encoded.data_owned + at) + (number != 0));
    buffer_append_bytes(&longer, bytes_make(encoded.data_owned, end));
    if (number != 0) {
        buffer_append_u64(&longer, number);
        buffer_append_u32(&longer, edge_count);
    }
    buffer_append_bytes(&longer, bytes_make(encoded.data_owned + end, encoded.size - end));
    struct core *core = core_create();
    bool is_read = core_bytes_decode(core, buffer_bytes(&longer));
    core_destroy(core);
    buffer_deinit(&encoded);
    buffer_deinit(&longer);
    return is_read;
}

/* Each of these is an empty record, so nothing behind it is out of place: it has to be refused for what it says. */
static void a_dependent_that_does_not_wait_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    core_rig_begin(&rig);
    uint64_t antecedent = send_plain(&rig, "plain");
    struct after after = {.count = 0};
    after_message(&rig, &after, antecedent);
    assert_int_equal(send(&rig, "plain", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    uint64_t dependent = newest.number, visible = send_plain(&rig, "plain");
    core_rig_end(&rig);
    assert_true(is_read_with_dependent(&rig, 0, 0)); /* the state itself */
    assert_false(is_read_with_dependent(&rig, visible, 1));
    assert_false(is_read_with_dependent(&rig, visible, 0));
    assert_false(is_read_with_dependent(&rig, dependent, 0)); /* it has been */
    assert_false(is_read_with_dependent(&rig, antecedent, 0));
    assert_false(is_read_with_dependent(&rig, visible + 1, 0)); /* there is none */
    core_rig_deinit(&rig);
}

static void an_event_that_does_not_fit_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    fill(&rig);
    struct buffer before, after, run;
    buffer_init(&before);
    buffer_init(&after);
    buffer_init(&run);
    core_rig_encode(rig.core, &before);
    const uint64_t newest_number = rig.core->messages.message_number;
    const struct event_waited shapes[] = {
        {.number = newest_number, .policy = 0, .count = 1},
        {.number = newest_number, .policy = 3, .count = 1},
        {.number = 1, .policy = 0, .count = 1},
        {.number = newest_number + 1, .policy = 2, .count = 1},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(shapes); i++) {
        for (unsigned kind = 0; kind < 4; kind++) {
            for (uint64_t number = 0; number < newest_number + 2; number++) {
                for (unsigned outcome = 0; outcome < 5; outcome++) {
                    struct event_waited waited = shapes[i];
                    buffer_truncate(&run, 0);
                    buffer_append_u8(&run, (uint8_t)kind);
                    buffer_append_u64(&run, number);
                    buffer_append_u8(&run, (uint8_t)outcome);
                    waited.antecedents = buffer_bytes(&run);
                    struct event event = {.kind = EVENT_WAITED, .waited = waited};
                    assert_false(core_apply(rig.core, &event, 0)); /* the newest has its edges already */
                }
            }
        }
    }
    for (unsigned kind = 0; kind < 4; kind++) {
        for (uint64_t number = 0; number < newest_number + 2; number++) {
            for (uint32_t count = 0; count < 3; count++) {
                struct event event = {.kind = EVENT_RESOLVED,
                                      .resolved = {.kind = (uint8_t)kind, .number = number, .count = count}};
                if (kind == ANTECEDENT_MESSAGE && number == 1 && count == 1)
                    continue; /* the one that fits */
                assert_false(core_apply(rig.core, &event, 0));
            }
        }
    }
    core_rig_encode(rig.core, &after);
    assert_true(bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
    buffer_deinit(&before);
    buffer_deinit(&after);
    buffer_deinit(&run);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T68_T58a_T58b_an_edge_is_told_once_whenever_its_antecedent_ends),
        cmocka_unit_test(an_antecedent_that_is_named_twice_is_waited_for_once),
        cmocka_unit_test(what_was_never_known_is_refused_and_changes_nothing),
        cmocka_unit_test(T58e_ten_thousand_to_one_by_a_list_is_one_edge_each),
        cmocka_unit_test(T58e_a_hundred_thousand_to_one_by_a_list),
        cmocka_unit_test(T58e_a_hundred_thousand_to_one_by_a_batch_is_one_edge),
        cmocka_unit_test(T58e_one_to_a_hundred_thousand_is_told_in_portions),
        cmocka_unit_test(a_chain_of_a_hundred_thousand_is_cancelled_in_portions),
        cmocka_unit_test(a_large_purge_does_not_keep_dependents_of_others_waiting),
        cmocka_unit_test(T58a_a_failure_is_remembered_for_fourteen_days),
        cmocka_unit_test(a_dead_letter_has_failed_while_it_lives_and_after),
        cmocka_unit_test(T58a_the_outcome_of_a_batch_outlives_its_record),
        cmocka_unit_test(outcomes_of_one_id_stand_once_in_the_table),
        cmocka_unit_test(one_outcome_too_many_makes_the_oldest_be_forgotten),
        cmocka_unit_test(a_commit_names_nothing_that_it_makes_be_forgotten),
        cmocka_unit_test(T58b_a_held_message_says_which_antecedent_holds_it),
        cmocka_unit_test(a_delay_that_a_queue_gets_while_a_message_waits_holds_for_it),
        cmocka_unit_test(a_damaged_state_is_refused_or_sound),
        cmocka_unit_test(an_event_that_does_not_fit_is_refused_and_changes_nothing),
        cmocka_unit_test(a_dependent_that_does_not_wait_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
