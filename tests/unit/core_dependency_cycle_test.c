/* Cycles: the request that would close one is refused, and the way is named (invariant D9). */
#include "core/order/decide_type_order.h"
#include "core/publishers/decide_publish.h"
#include "core/schedules/decide_schedule.h"
#include "dependency.h"
#include "support/scale.h"

/* The id of a message, for paths. */
static const char *id_of(const struct core_rig *rig, uint64_t number)
{
    static char texts[4][IDENTITY_TEXT_SIZE + 1];
    static unsigned which;
    uint8_t id[MESSAGE_ID_SIZE];
    char *text = texts[which++ % 4];
    identity_message(core_digest(rig->core), number, id);
    identity_to_text(id, text);
    text[IDENTITY_TEXT_SIZE] = '\0';
    return text;
}

static void expect_path(const char *path, const char *format, ...)
{
    char expected[DEPENDENCY_PATH_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof(expected), format, arguments);
    va_end(arguments);
    assert_string_equal(path, expected);
}

static void D9_a_unit_that_waits_for_its_own_batch_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    create_batch(&rig, "outer", "", NULL, "", OK, NULL);
    create_batch(&rig, "b", "outer", NULL, "", OK, NULL);
    struct after own = {.count = 0}, outer = {.count = 0};
    after_batch(&own, "b");
    after_batch(&outer, "outer");
    assert_int_equal(send_alone(&rig, "plain", "", "b", &own, AFTER_FAILURE_RUN), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path, "this message waits for batch b, which waits for its unit this message");
    assert_int_equal(send_alone(&rig, "plain", "", "b", &outer, AFTER_FAILURE_RUN), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path, "this message waits for batch outer, which waits for its child batch b, which waits for "
                             "its unit this message");
    assert_int_equal(send_alone(&rig, "plain", "", "outer", &own, AFTER_FAILURE_RUN), OK);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void T60_a_cycle_through_membership_and_the_order_of_a_group_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "line.fifo", true, NULL);
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    struct after after = {.count = 0};
    after_batch(&after, "b");
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", &after, AFTER_FAILURE_CANCEL), OK);
    uint64_t waiting = newest.number;
    /* One behind it in the group would be a unit that the batch waits for. */
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "b", NULL, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path,
                "this message stands behind message %s, which waits for batch b, which waits for its unit "
                "this message",
                id_of(&rig, waiting));
    assert_int_equal(send_alone(&rig, "line.fifo", "other", "b", NULL, AFTER_FAILURE_CANCEL), OK);
    /* And one that goes the long way: over another batch and another group. */
    create_batch(&rig, "c", "", NULL, "", OK, NULL);
    assert_int_equal(send_alone(&rig, "line.fifo", "far", "c", &after, AFTER_FAILURE_CANCEL), OK);
    struct after far = {.count = 0};
    after_batch(&far, "c");
    assert_int_equal(send_alone(&rig, "line.fifo", "new", "b", &far, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    assert_int_equal(send_alone(&rig, "line.fifo", "new", "c", &after, AFTER_FAILURE_CANCEL), OK);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void T51_two_groups_that_would_wait_for_each_other_are_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "line.fifo", true, NULL);
    create_batch(&rig, "a", "", NULL, "", OK, NULL);
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    struct after after_a = {.count = 0}, after_b = {.count = 0};
    after_batch(&after_a, "a");
    after_batch(&after_b, "b");
    /* Group x holds back units of a until b is done, and group y units of b until a is. */
    assert_int_equal(send_alone(&rig, "line.fifo", "x", "a", &after_b, AFTER_FAILURE_CANCEL), OK);
    uint64_t one = newest.number;
    assert_int_equal(send_alone(&rig, "line.fifo", "y", "b", &after_a, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path,
                "this message waits for batch a, which waits for its unit message %s, which waits for batch b, which "
                "waits for its unit this message",
                id_of(&rig, one));
    judge(&rig);
    core_rig_deinit(&rig);
}

static void T60_a_cycle_through_a_childs_completion_message_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    char path[DEPENDENCY_PATH_SIZE];
    core_rig_init(&rig, 1);
    make_queue(&rig, "line.fifo", true, NULL);
    create_batch(&rig, "parent", "", NULL, "", OK, NULL);
    create_batch(&rig, "child", "parent", "line.fifo", "done", OK, NULL);
    struct after after = {.count = 0};
    after_batch(&after, "parent");
    /* It would stand in front of the completion message that the parent waits for. */
    assert_int_equal(send_alone(&rig, "line.fifo", "done", "", &after, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path, "this message waits for batch parent, which waits for a completion message that will "
                             "stand behind this message");
    assert_int_equal(send_alone(&rig, "line.fifo", "elsewhere", "", &after, AFTER_FAILURE_CANCEL), OK);
    uint64_t waiting = newest.number;
    /* A child whose completion message would stand behind that one. */
    create_batch(&rig, "second", "parent", "line.fifo", "elsewhere", ERROR_DEPENDENCY_CYCLE, path);
    expect_path(path,
                "this batch has a completion message that will stand behind message %s, which waits for batch parent, "
                "which waits for its child this batch",
                id_of(&rig, waiting));
    assert_null(core_find_batch(rig.core, BYTES("second")));
    create_batch(&rig, "second", "parent", "line.fifo", "third", OK, path);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void D9_a_way_along_another_line_is_found(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "line.fifo", true, NULL);
    make_queue(&rig, "plain", false, NULL);
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    struct after after_b = {.count = 0}, after_last = {.count = 0};
    after_batch(&after_b, "b");
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", &after_b, AFTER_FAILURE_CANCEL), OK);
    uint64_t waiting = newest.number;
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    uint64_t last = newest.number;
    after_message(&rig, &after_last, last);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_last, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path,
                "this message waits for message %s, which stands behind message %s, which waits for batch b, which "
                "waits for its unit this message",
                id_of(&rig, last), id_of(&rig, waiting));
    judge(&rig);
    core_rig_deinit(&rig);
}

static void D9_a_way_along_a_childs_completion_message_is_found(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "line.fifo", true, NULL);
    make_queue(&rig, "plain", false, NULL);
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    create_batch(&rig, "parent", "", NULL, "", OK, NULL);
    create_batch(&rig, "child", "parent", "line.fifo", "done", OK, NULL);
    struct after after_b = {.count = 0}, after_parent = {.count = 0};
    after_batch(&after_b, "b");
    after_batch(&after_parent, "parent");
    assert_int_equal(send_alone(&rig, "line.fifo", "done", "", &after_b, AFTER_FAILURE_CANCEL), OK);
    uint64_t waiting = newest.number;
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_parent, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path,
                "this message waits for batch parent, which waits for a completion message that will stand behind "
                "message %s, which waits for batch b, which waits for its unit this message",
                id_of(&rig, waiting));
    /* The same when the completion message stands there. */
    bool is_completed;
    core_rig_begin(&rig);
    decide_seal_batch(rig.core, core_find_batch(rig.core, BYTES("child")), &is_completed);
    core_rig_end(&rig);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_parent, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path,
                "this message waits for batch parent, which waits for its child's completion, message %s, which stands "
                "behind message %s, which waits for batch b, which waits for its unit this message",
                id_of(&rig, waiting + 1), id_of(&rig, waiting));
    judge(&rig);
    core_rig_deinit(&rig);
}

static void put_post_before_comment(struct core_rig *rig)
{
    struct type_order_command order = {.name = BYTES("posts"), .types = {.count = 2}};
    order.types.names[0] = BYTES("post");
    order.types.names[1] = BYTES("comment");
    struct buffer conflict;
    buffer_init(&conflict);
    core_rig_begin(rig);
    assert_int_equal(decide_put_type_order(rig->core, &order, &conflict), OK);
    core_rig_end(rig);
    buffer_deinit(&conflict);
}

static void D9_a_way_along_types_is_found(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    put_post_before_comment(&rig);
    struct after after_b = {.count = 0}, after_comment = {.count = 0};
    after_batch(&after_b, "b");
    core_rig_begin(&rig);
    send_type = BYTES("post");
    assert_int_equal(send(&rig, "plain", "g", "", &after_b, AFTER_FAILURE_CANCEL), OK);
    uint64_t post = newest.number;
    send_type = BYTES("comment");
    assert_int_equal(send(&rig, "plain", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    uint64_t comment = newest.number;
    assert_int_equal(send(&rig, "plain", "g", "b", NULL, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path,
                "this message waits, by its type, for message %s, which waits for batch b, which waits for its unit "
                "this message",
                id_of(&rig, post));
    assert_int_equal(send(&rig, "plain", "other", "b", NULL, AFTER_FAILURE_CANCEL), OK);
    send_type = BYTES("");
    after_message(&rig, &after_comment, comment);
    assert_int_equal(send(&rig, "plain", "", "b", &after_comment, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    expect_path(newest.path,
                "this message waits for message %s, which waits, by its type, for message %s, which waits for batch b, "
                "which waits for its unit this message",
                id_of(&rig, comment), id_of(&rig, post));
    core_rig_end(&rig);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* What has failed holds its dependent whatever becomes of it, so no way leads over it, though its dead letter stands in
 * a line. */
static void an_antecedent_that_has_failed_closes_no_cycle(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dead.fifo", true, NULL);
    make_queue(&rig, "line.fifo", true, "dead.fifo");
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    struct after after_b = {.count = 0}, after_both = {.count = 0};
    after_batch(&after_b, "b");
    assert_int_equal(send_alone(&rig, "dead.fifo", "g", "", &after_b, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    uint64_t failed = newest.number;
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "line.fifo", messages), 1);
    fail_for_good(&rig, &messages[0]);
    uint64_t outstanding = send_plain(&rig, "plain");
    core_rig_end(&rig);
    after_message(&rig, &after_both, failed);
    after_message(&rig, &after_both, outstanding);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_both, AFTER_FAILURE_HOLD), OK);
    assert_true(is_held(&rig, newest.number));
    judge(&rig);
    core_rig_deinit(&rig);
}

/* What a purge has taken out of reach only waits to be ended. */
static void what_is_about_to_end_closes_no_cycle(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "line.fifo", true, NULL);
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    struct after after_b = {.count = 0}, after_first = {.count = 0}, after_last = {.count = 0};
    after_batch(&after_b, "b");
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", &after_b, AFTER_FAILURE_CANCEL), OK);
    after_message(&rig, &after_first, newest.number);
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    after_message(&rig, &after_last, newest.number);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_first, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_last, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    core_rig_begin(&rig);
    decide_purge_queue(rig.core, core_find_queue(rig.core, BYTES("line.fifo")));
    core_rig_end(&rig);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_first, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_last, AFTER_FAILURE_CANCEL), OK);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* A dead letter parts the line of a dead-letter queue as little as any other message. */
static void D9_a_way_along_a_line_with_dead_letters_is_found(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "dead.fifo", true, NULL);
    make_queue(&rig, "line.fifo", true, "dead.fifo");
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    create_batch(&rig, "c", "", NULL, "", OK, NULL);
    struct after after_b = {.count = 0}, after_c = {.count = 0};
    after_batch(&after_b, "b");
    after_batch(&after_c, "c");
    assert_int_equal(send_alone(&rig, "dead.fifo", "g", "", &after_b, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    struct received_message messages[RECEIVE_MAX];
    core_rig_begin(&rig);
    assert_int_equal(receive(&rig, "line.fifo", messages), 1);
    fail_for_good(&rig, &messages[0]);
    core_rig_end(&rig);
    assert_int_equal(send_alone(&rig, "dead.fifo", "g", "c", NULL, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send_alone(&rig, "plain", "", "b", &after_c, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* One that is cancelled with its batch does not part the line that it stands in. */
static void a_line_goes_on_behind_what_is_about_to_end(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "line.fifo", true, NULL);
    create_batch(&rig, "b", "", NULL, "", OK, NULL);
    create_batch(&rig, "gone", "", NULL, "", OK, NULL);
    struct after after_b = {.count = 0};
    after_batch(&after_b, "b");
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "", &after_b, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "gone", NULL, AFTER_FAILURE_CANCEL), OK);
    core_rig_begin(&rig);
    decide_cancel_batch(rig.core, core_find_batch(rig.core, BYTES("gone")));
    core_rig_end(&rig);
    assert_int_equal(send_alone(&rig, "line.fifo", "g", "b", NULL, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_CYCLE);
    core_rig_deinit(&rig);
}

/* A standard queue, posts before comments in it if it `has_types`, and a frame: for messages that wait for batch "b",
 * and for one of "b" that waits for another message, so that a cycle is searched for. */
static void open_search(struct core_rig *rig, bool has_types, struct after *after_b, struct after *after_other)
{
    core_rig_init(rig, 1);
    make_queue(rig, "plain", false, NULL);
    if (has_types)
        put_post_before_comment(rig);
    create_batch(rig, "b", "", NULL, "", OK, NULL);
    *after_b = *after_other = (struct after){.count = 0};
    after_batch(after_b, "b");
    core_rig_begin(rig);
    after_message(rig, after_other, send_plain(rig, "plain"));
}

/* The search gives up instead of holding up the server. */
static void a_search_that_meets_too_much_is_refused_as_too_deep(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    struct after after, other;
    open_search(&rig, false, &after, &other);
    for (unsigned i = 0; i < DEPENDENCY_VISITS_MAX - 2; i++)
        assert_int_equal(send(&rig, "plain", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send(&rig, "plain", "", "b", &other, AFTER_FAILURE_CANCEL), OK);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(send(&rig, "plain", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(send(&rig, "plain", "", "b", &other, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_TOO_DEEP);
    /* Nothing is searched where the new message waits for nothing. */
    assert_int_equal(send(&rig, "plain", "", "b", NULL, AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    judge(&rig);
    core_rig_deinit(&rig);
}

#define TYPED_MESSAGES 30000u

/* Each post leads to all comments of its group; looking at all of them from each would take this test minutes. */
static void a_search_along_types_takes_each_step_once(void **state)
{
    (void)state;
    struct core_rig rig;
    struct after after, other;
    open_search(&rig, true, &after, &other);
    send_type = BYTES("post");
    for (unsigned i = 0; i < TYPED_MESSAGES; i++)
        assert_int_equal(send(&rig, "plain", "g", "", &after, AFTER_FAILURE_CANCEL), OK);
    send_type = BYTES("comment");
    for (unsigned i = 0; i < TYPED_MESSAGES; i++)
        assert_int_equal(send(&rig, "plain", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    send_type = BYTES("");
    assert_int_equal(send(&rig, "plain", "", "b", &other, AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    core_rig_deinit(&rig);
}

/* Steps count that lead to nothing: along messages of a type that none of them waits for. */
static void a_search_along_too_many_of_another_type_is_too_deep(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    struct after after, other;
    open_search(&rig, true, &after, &other);
    send_type = BYTES("comment");
    assert_int_equal(send(&rig, "plain", "g", "", &after, AFTER_FAILURE_CANCEL), OK);
    send_type = BYTES("post");
    for (unsigned i = 0; i < DEPENDENCY_VISITS_MAX; i++)
        assert_int_equal(send(&rig, "plain", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    send_type = BYTES("");
    assert_int_equal(send(&rig, "plain", "", "b", &other, AFTER_FAILURE_CANCEL), OK);
    send_type = BYTES("post");
    assert_int_equal(send(&rig, "plain", "g", "", NULL, AFTER_FAILURE_CANCEL), OK);
    send_type = BYTES("");
    assert_int_equal(send(&rig, "plain", "", "b", &other, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_TOO_DEEP);
    core_rig_end(&rig);
    core_rig_deinit(&rig);
}

#define ROWS 20u
#define DEPENDENTS (DEPENDENCY_VISITS_MAX - 1000u)

/* Publishes that many rows, each a unit of "b" that waits for `after`. Returns how many were stored. */
static unsigned publish_units(struct core_rig *rig, const struct after *after)
{
    static const uint8_t id[PUBLISHER_ID_SIZE] = {1};
    uint8_t rows[ROWS][PUBLISHER_ROW_SIZE] = {0};
    for (unsigned i = 0; i < ROWS; i++)
        rows[i][0] = rows[i][PUBLISHER_ROW_SIZE - 1] = (uint8_t)(i + 1);
    struct publish_command command = {
        .epoch = 1, .batch = 1, .rows = bytes_make(rows, sizeof(rows)), .size_max = 1u << 20};
    memcpy(command.publisher, id, sizeof(id));
    memcpy(command.owner, id, sizeof(id));
    struct send_command unit = {.queue = core_find_queue(rig->core, BYTES("plain")),
                                .content = {.body = BYTES("body"), .sender = core_name(rig->core)},
                                .batch_id = BYTES("b"),
                                .priority = PRIORITY_DEFAULT,
                                .antecedents = after->names,
                                .antecedent_count = after->count};
    static struct publication publication;
    bool is_accepted, is_repeat;
    assert_int_equal(decide_open_publisher(rig->core, id, 1, id, &is_accepted), OK);
    assert_int_equal(decide_publish_begin(rig->core, &command, &publication, &is_repeat), OK);
    while (publication.next < ROWS)
        if (!decide_publish_known(rig->core, &publication, bytes_make(NULL, 0)))
            assert_int_equal(decide_publish_send(rig->core, &publication, &unit, &newest), OK);
    unsigned stored = (unsigned)(publication.rows.size / PUBLISHER_ROW_SIZE);
    decide_publish_end(rig->core, &publication);
    decide_publish_deinit(&publication);
    return stored;
}

/* A request of a thousand rows may not search a thousand times as long as one. */
static void a_publish_puts_rows_off_behind_long_searches(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    struct after after, other;
    open_search(&rig, false, &after, &other);
    for (unsigned i = 0; i < DEPENDENTS; i++)
        assert_int_equal(send(&rig, "plain", "", "", &after, AFTER_FAILURE_CANCEL), OK);
    assert_int_equal(publish_units(&rig, &other), 10 * DEPENDENCY_VISITS_MAX / DEPENDENTS + 1);
    core_rig_end(&rig);
    judge(&rig);
    core_rig_deinit(&rig);
}

static void a_line_that_too_many_batches_will_send_to_is_too_deep(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "line.fifo", true, NULL);
    create_batch(&rig, "parent", "", NULL, "", OK, NULL);
    for (unsigned i = 0; i < DEPENDENCY_VISITS_MAX; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%u", i);
        create_batch(&rig, id, "parent", "line.fifo", "done", OK, NULL);
    }
    struct after after = {.count = 0};
    core_rig_begin(&rig);
    after_message(&rig, &after, send_plain(&rig, "plain"));
    core_rig_end(&rig);
    assert_int_equal(send_alone(&rig, "line.fifo", "other", "", &after, AFTER_FAILURE_CANCEL), OK);
    create_batch(&rig, "one more", "parent", "line.fifo", "done", OK, NULL);
    assert_int_equal(send_alone(&rig, "line.fifo", "other", "", &after, AFTER_FAILURE_CANCEL),
                     ERROR_DEPENDENCY_TOO_DEEP);
    /* One that has completed is asked no more. */
    bool is_completed;
    core_rig_begin(&rig);
    decide_seal_batch(rig.core, core_find_batch(rig.core, BYTES("one more")), &is_completed);
    core_rig_end(&rig);
    assert_int_equal(send_alone(&rig, "line.fifo", "other", "", &after, AFTER_FAILURE_CANCEL), OK);
    judge(&rig);
    core_rig_deinit(&rig);
}

/* Nobody is there to be refused, and a firing that can't be decided would be due again behind each restart. */
static void a_schedule_fires_into_a_line_that_too_many_batches_will_send_to(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    core_rig_init(&rig, 1);
    make_queue(&rig, "plain", false, NULL);
    make_queue(&rig, "line.fifo", true, NULL);
    for (unsigned i = 0; i <= DEPENDENCY_VISITS_MAX; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%u", i);
        create_batch(&rig, id, "", "line.fifo", "done", OK, NULL);
    }
    struct after after = {.count = 0};
    core_rig_begin(&rig);
    after_message(&rig, &after, send_plain(&rig, "plain"));
    core_rig_end(&rig);
    core_rig_begin(&rig);
    /* It waits, so whatever is sent behind it waits for something, too. */
    assert_int_equal(send(&rig, "line.fifo", "g", "", &after, AFTER_FAILURE_CANCEL), ERROR_DEPENDENCY_TOO_DEEP);
    decide_cancel_batch(rig.core, core_find_batch(rig.core, BYTES("c0")));
    assert_int_equal(send(&rig, "line.fifo", "g", "", &after, AFTER_FAILURE_CANCEL), OK);
    core_rig_end(&rig);
    create_batch(&rig, "one more", "", "line.fifo", "done", OK, NULL);
    struct schedule_spec spec = {.queue = core_find_queue(rig.core, BYTES("line.fifo"))->id,
                                 .cron = BYTES("* * * * *"),
                                 .zone = BYTES("UTC"),
                                 .group = BYTES("g"),
                                 .body = BYTES("tick")};
    const struct schedule *schedule;
    core_rig_begin(&rig);
    uint64_t due_ms = rig.now_ms + 1, after_ms;
    assert_int_equal(decide_put_schedule(rig.core, BYTES("s"), &spec, due_ms, &schedule), OK);
    core_rig_end(&rig);
    rig.now_ms = due_ms;
    core_rig_begin(&rig);
    assert_ptr_equal(schedule_next_due(rig.core, &after_ms), schedule);
    decide_fire_schedule(rig.core, schedule, after_ms + 60000);
    core_rig_end(&rig);
    (void)settle(&rig, NULL);
    assert_true(schedule->next_at_ms > due_ms);
    judge(&rig);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(D9_a_unit_that_waits_for_its_own_batch_is_refused),
        cmocka_unit_test(T60_a_cycle_through_membership_and_the_order_of_a_group_is_refused),
        cmocka_unit_test(T51_two_groups_that_would_wait_for_each_other_are_refused),
        cmocka_unit_test(T60_a_cycle_through_a_childs_completion_message_is_refused),
        cmocka_unit_test(D9_a_way_along_another_line_is_found),
        cmocka_unit_test(D9_a_way_along_a_childs_completion_message_is_found),
        cmocka_unit_test(D9_a_way_along_types_is_found),
        cmocka_unit_test(an_antecedent_that_has_failed_closes_no_cycle),
        cmocka_unit_test(what_is_about_to_end_closes_no_cycle),
        cmocka_unit_test(D9_a_way_along_a_line_with_dead_letters_is_found),
        cmocka_unit_test(a_line_goes_on_behind_what_is_about_to_end),
        cmocka_unit_test(a_search_that_meets_too_much_is_refused_as_too_deep),
        cmocka_unit_test(a_search_along_types_takes_each_step_once),
        cmocka_unit_test(a_search_along_too_many_of_another_type_is_too_deep),
        cmocka_unit_test(a_publish_puts_rows_off_behind_long_searches),
        cmocka_unit_test(a_line_that_too_many_batches_will_send_to_is_too_deep),
        cmocka_unit_test(a_schedule_fires_into_a_line_that_too_many_batches_will_send_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
