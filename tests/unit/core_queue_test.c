/* Queues at the borders of their life: deleted while other records still speak of them. */
#include "support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Makes "source", whose one message has gone to "dead". */
static void make_dead_letter(struct core_rig *rig)
{
    struct queue_settings settings = core_rig_settings();
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    core_rig_init(rig, 1);
    struct core *core = core_rig_begin(rig);
    decide_create_queue(core, BYTES("dead"), &settings);
    settings.receive_count_max = 1;
    settings.dead_letter_arn = BYTES("arn:aws:sqs:us-east-1:000000000000:dead");
    struct queue *source = decide_create_queue(core, BYTES("source"), &settings);
    assert_int_equal(core_rig_send(core, source, BYTES(""), BYTES("x"), 0), OK);
    assert_int_equal(decide_receive(core, source, 1, 0, 10, messages, &count), OK);
    assert_int_equal(count, 1);
    assert_int_equal(decide_receive(core, source, 1, 0, 10, messages, &count), OK);
    assert_int_equal(count, 0);
    core_rig_end(rig);
}

static void a_deleted_queue_that_is_an_origin_has_nothing_to_deliver(void **state)
{
    (void)state;
    struct core_rig rig;
    make_dead_letter(&rig);
    struct core *core = core_rig_begin(&rig);
    struct queue *source = core_find_queue(core, BYTES("source"));
    assert_int_equal(core_rig_send(core, source, BYTES(""), BYTES("y"), 0), OK);
    assert_int_equal(decide_delete_queue(core, source), OK);
    core_rig_end(&rig);
    for (struct queue *queue; (queue = core_take_ready_queue(core)) != NULL;)
        assert_true(bytes_equal(queue->name_owned, BYTES("dead")));
    core_check(core);
    core_rig_deinit(&rig);
}

static void an_origin_lives_as_long_as_its_messages_and_gives_its_name_away(void **state)
{
    (void)state;
    struct core_rig rig;
    make_dead_letter(&rig);
    struct queue_settings settings = core_rig_settings();
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    struct core *core = core_rig_begin(&rig);
    assert_int_equal(decide_delete_queue(core, core_find_queue(core, BYTES("source"))), OK);
    struct queue *again = decide_create_queue(core, BYTES("source"), &settings);
    struct queue *dead = core_find_queue(core, BYTES("dead"));
    assert_int_equal(decide_receive(core, dead, 1, 1000, 10, messages, &count), OK);
    assert_int_equal(count, 1);
    const struct queue *origin = core_queue_at(core, messages[0].origin);
    assert_true(origin != again && bytes_equal(origin->name_owned, BYTES("source")));
    char text[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(core), &messages[0].handle, text);
    assert_int_equal(decide_delete(core, dead, bytes_make(text, sizeof(text))), OK);
    core_rig_end(&rig);
    core_check(core);
    assert_int_equal(core_queue_count(core), 2);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deleted_queue_that_is_an_origin_has_nothing_to_deliver),
        cmocka_unit_test(an_origin_lives_as_long_as_its_messages_and_gives_its_name_away),
    };
    return cmocka_run_group_tests_name("core queue", tests, NULL, NULL);
}
